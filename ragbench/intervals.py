"""Means and their intervals from sums per query, in closed form.

Kept apart from `stats` so that `scores` needs neither statsmodels nor pingouin; the tests hold the
two against each other.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

Z95 = 1.959963984540054  # 97.5 % point of the normal distribution


class Sums(NamedTuple):
    """Sums over the queries of a group; `n` and `s` are a query's weight and total."""

    n: float | None
    total: float | None
    planned: float | None
    lowest: float | None
    highest: float | None
    queries: int
    nn: float | None
    ss: float | None
    ns: float | None


class Detail(NamedTuple):
    """A mean with all that belongs beside it; nulls where nothing was judged."""

    value: float | None = None
    n: int = 0
    planned: int = 0
    low: float | None = None
    high: float | None = None
    lowest: float | None = None
    highest: float | None = None
    interval: str | None = None


DETAILS: dict[str, Any] = {
    "n": pl.Int64,
    "planned": pl.Int64,
    "low": pl.Float64,
    "high": pl.Float64,
    "lowest": pl.Float64,
    "highest": pl.Float64,
    "interval": pl.String,
}
"""What stands beside each metric, as columns `<metric>_<detail>`, and its type; as in `Detail`."""


def detail(sums: Sums, *, is_binary: bool, bounds: tuple[float, float] = (0.0, 1.0)) -> Detail:
    """The mean with its bounds and interval.

    `bounds` are the lowest and highest possible value, for metrics that are not proportions.
    """
    if not sums.planned:
        return Detail()
    lowest, highest = (sums.lowest or 0) / sums.planned, (sums.highest or 0) / sums.planned
    n, planned = round(sums.n or 0), round(sums.planned)
    if not sums.n:
        return Detail(None, n, planned, None, None, lowest, highest, None)
    value = (sums.total or 0.0) / sums.n
    low, high, kind = _interval(sums, value, is_binary, bounds)
    return Detail(value, n, planned, low, high, lowest, highest, kind)


def _interval(
    sums: Sums, value: float, is_binary: bool, bounds: tuple[float, float]
) -> tuple[float | None, float | None, str | None]:
    assert sums.n is not None
    if is_binary and sums.nn == sums.n:  # one response per query, as weights are whole numbers
        return (*wilson(round(sums.total or 0), round(sums.n)), "Wilson")
    if sums.queries < 2:
        return None, None, "none: one query"
    error = clustered_error(sums)
    if not error:
        is_extreme = bounds == (0.0, 1.0) and min(value, 1 - value) < 1e-12
        if is_binary or is_extreme:
            # No spread between queries says little about the next one: count each query once.
            return (*wilson(value * sums.queries, sums.queries), "Wilson over queries")
        return None, None, "none: all queries alike"
    reach = t_quantile(sums.queries - 1) * error
    return max(bounds[0], value - reach), min(bounds[1], value + reach), "clustered by query"


def clustered_error(sums: Sums) -> float:
    """Standard error of a ratio of sums, clustered by query (CR1 without regressors).

    With e = s - n * mean per query: sqrt(G / (G - 1) * sum(e ** 2)) / sum(n). Exactly 0 when the
    spread is no more than what rounding leaves of equal queries.
    """
    n, total = sums.n or 0.0, sums.total or 0.0
    mean = total / n
    plus = (sums.ss or 0.0) + mean * mean * (sums.nn or 0.0)
    square = plus - 2 * mean * (sums.ns or 0.0)
    if square <= 1e-13 * plus:
        return 0.0
    return math.sqrt(square * sums.queries / (sums.queries - 1)) / n


def wilson(successes: float, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion; `successes` may be a mean times `n`.

    >>> [round(limit, 3) for limit in wilson(0, 27)]
    [0.0, 0.125]
    """
    share, z2 = min(1.0, successes / n), Z95 * Z95
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = Z95 * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    # At 0 and n the formula gives the end of the range but for rounding.
    low = 0.0 if successes == 0 else middle - reach
    return low, 1.0 if successes == n else middle + reach


@lru_cache(maxsize=10_000)
def t_quantile(df: int) -> float:
    """The 97.5 % point of Student's t distribution."""
    from scipy.special import stdtrit  # a tenth of the import time of scipy.stats

    return float(stdtrit(df, 0.975))


def t_p_value(statistic: float, df: int) -> float:
    """Two-sided p of a t statistic."""
    from scipy.special import stdtr

    return float(2 * stdtr(df, -abs(statistic)))
