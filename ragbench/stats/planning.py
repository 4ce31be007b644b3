"""Before and after the tests: what a study can detect, and p-values of many tests together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from ragbench.errors import RagbenchError
from ragbench.stats.frames import (
    Array,
    chosen,
    columns,
    floats,
    notes,
    one_row,
    share,
    whole,
)
from ragbench.stats.pairs import EXACT_BELOW

_POWER = {
    **columns(pl.Int64, "n"),
    **columns(pl.Float64, "p10 p01 diff alpha target_power"),
    "alternative": pl.String,
    **columns(pl.Float64, "power mde n_needed"),
    "n_ceil": pl.Int64,
    "note": pl.String,
}


def paired_power(
    p10: float,
    p01: float,
    *,
    n: int | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
    alternative: str = "two-sided",
) -> pl.DataFrame:
    """What `mcnemar` can detect when a share p10 of instances goes only to the first system.

    p01 is the share that goes only to the second. With `n` instances: `power`, the exact
    probability that `mcnemar` gives p <= alpha, by enumeration; and `mde`, the difference found
    with probability `target_power` at this much discordance (normal approximation). Without:
    `n_needed` for `target_power` (Connor 1987; unrounded) and `n_ceil`.

    >>> paired_power(0.30, 0.10, n=27, alternative="greater")["power"].round(3).item()
    0.383
    """
    chosen("alternative", alternative, ("two-sided", "greater"), "paired_power")
    share(alpha, "alpha", "paired_power")
    share(power, "power", "paired_power")
    if not (0 <= p10 <= 1 and 0 <= p01 <= 1 and p10 + p01 <= 1 + 1e-12):
        raise RagbenchError("paired_power: p10 and p01 are shares whose sum is at most 1.")
    from scipy.stats import norm

    tail = alpha if alternative == "greater" else alpha / 2
    z, z_power = float(norm.isf(tail)), float(norm.ppf(power))
    gap, discordant = p10 - p01, p10 + p01
    deviation = math.sqrt(max(0.0, discordant - gap**2))
    row: dict[str, Any] = {"p10": p10, "p01": p01, "diff": gap, "alpha": alpha}
    row |= {"target_power": power, "alternative": alternative}
    note = None
    if gap == 0 or (alternative == "greater" and gap < 0):
        note = "no n suffices: there is no effect in the tested direction"
    else:
        if deviation <= 1e-9:
            note = "every instance goes to one system: no variance, hence no mde"
        row["n_needed"] = ((z * math.sqrt(discordant) + z_power * deviation) / gap) ** 2
        row["n_ceil"] = math.ceil(row["n_needed"] - 1e-9)
    if n is not None:
        row["n"] = whole(n, "n", "paired_power")
        row["power"] = _exact_power(row["n"], p10, p01, alpha, alternative)
        if row["n"] and deviation > 1e-9:
            row["mde"] = (z + z_power) * deviation / math.sqrt(row["n"])
    return one_row(_POWER, {**row, "note": notes(note)})


def _exact_power(n: int, p10: float, p01: float, alpha: float, alternative: str) -> float:
    """Sum over the number of discordant pairs of the chance of a count in the rejection region."""
    from scipy.stats import binom

    discordant = min(1.0, p10 + p01)
    if not (n and discordant):
        return 0.0
    totals = np.arange(1, n + 1)
    chance = binom.pmf(totals, n, discordant)
    least = _least_rejected(n, alpha if alternative == "greater" else alpha / 2)
    found = binom.sf(least - 1, totals, p10 / discordant)
    if alternative == "two-sided":
        found = found + binom.sf(least - 1, totals, p01 / discordant)
    return float(min(1.0, chance @ found))


def _least_rejected(n: int, tail: float) -> Array:
    """For 1 … n discordant pairs, the smallest count of one side that `mcnemar` rejects."""
    from scipy.stats import binom, norm

    totals = np.arange(1, n + 1)
    z = float(norm.isf(tail))
    least = np.ceil((totals + 1 + z * np.sqrt(totals)) / 2 - 1e-12).astype(np.int64)
    for total in range(1, min(n, EXACT_BELOW - 1) + 1):
        tails = binom.sf(np.arange(total + 1) - 1, total, 0.5)
        rejected = np.flatnonzero(tails <= tail)
        least[total - 1] = rejected[0] if len(rejected) else total + 1
    return least


_MEAN_POWER = {
    **columns(pl.Int64, "n"),
    **columns(pl.Float64, "delta omega2 sigma2_a k_a sigma2_b k_b alpha target_power"),
    **columns(pl.Float64, "n_needed"),
    "n_ceil": pl.Int64,
    **columns(pl.Float64, "mde"),
    "note": pl.String,
}


def paired_mean_power(
    omega2: float,
    *,
    n: int | None = None,
    delta: float | None = None,
    sigma2_a: float = 0.0,
    k_a: float | None = None,
    sigma2_b: float = 0.0,
    k_b: float | None = None,
    alpha: float = 0.05,
    power: float = 0.8,
) -> pl.DataFrame:
    """Instances needed to find a difference `delta` of mean scores, and what `n` of them find.

    Two-sided, normal (Miller 2024). `omega2` is the variance over instances of the difference of
    the two expected scores; `sigma2_a` the variance of one answer of system a to one instance,
    of which `k_a` trials are averaged (None: infinitely many); likewise b. Columns n_needed,
    n_ceil when `delta` is given, mde when `n` is.

    >>> paired_mean_power(1 / 9, delta=0.03)["n_ceil"].item()
    969
    """
    share(alpha, "alpha", "paired_mean_power")
    share(power, "power", "paired_mean_power")
    known = {"omega2": omega2, "sigma2_a": sigma2_a, "sigma2_b": sigma2_b}
    for name, value in known.items():
        if not (math.isfinite(value) and value >= 0):
            raise RagbenchError(f"paired_mean_power: {name} is a variance, not {value!r}.")
    for trials in (k_a, k_b):
        if trials is not None and not trials > 0:
            raise RagbenchError("paired_mean_power: k_a and k_b count trials, at least 1.")
    from scipy.stats import norm

    z = float(norm.isf(alpha / 2) + norm.ppf(power))
    variance = omega2 + (sigma2_a / k_a if k_a else 0.0) + (sigma2_b / k_b if k_b else 0.0)
    row: dict[str, Any] = {**known, "n": n, "delta": delta, "k_a": k_a, "k_b": k_b}
    row |= {"alpha": alpha, "target_power": power}
    note = None if variance else "no variance: any difference shows at once"
    if delta is not None and delta != 0:
        row["n_needed"] = z**2 * variance / delta**2
        row["n_ceil"] = math.ceil(row["n_needed"] - 1e-9)
    elif delta == 0:
        note = "no n suffices: there is no difference to find"
    if n is not None and whole(n, "n", "paired_mean_power"):
        row["mde"] = z * math.sqrt(variance / n)
    return one_row(_MEAN_POWER, {**row, "note": note})


METHODS = ("bonferroni", "holm", "bh")

_ADJUSTED = {
    "p_value": pl.Float64,
    **columns(pl.Float64, " ".join(METHODS)),
    **columns(pl.Boolean, " ".join(f"reject_{method}" for method in METHODS)),
}


def adjust(p_values: Iterable[float | None], *, alpha: float = 0.05) -> pl.DataFrame:
    """One row per p-value, in the given order, adjusted for being one of many.

    Bonferroni, Holm (step-down) and Benjamini-Hochberg (`bh`, step-up), made monotone and capped
    at 1; `reject_*` where the adjusted p is at most `alpha`. A null p is left out of the family
    and stays null.

    >>> adjust([0.01, 0.04, 0.03])["holm"].to_list()
    [0.03, 0.06, 0.06]
    """
    share(alpha, "alpha", "adjust")
    given = floats(p_values, "adjust")
    known = ~np.isnan(given)
    if ((given[known] < 0) | (given[known] > 1)).any():
        raise RagbenchError("adjust: a p-value lies outside 0 to 1.")
    adjusted: dict[str, Any] = {"p_value": given}
    for method in METHODS:
        adjusted[method] = _adjusted(given, method) if known.any() else given
    frame = pl.DataFrame(adjusted, schema=dict.fromkeys(adjusted, pl.Float64)).fill_nan(None)
    return frame.with_columns(
        (pl.col(method) <= alpha).alias(f"reject_{method}") for method in METHODS
    ).select(list(_ADJUSTED))


def _adjusted(p_values: Array, method: str) -> Array:
    # In the open: pingouin takes seconds to import, and statsmodels collects garbage at every call.
    adjusted = p_values.copy()
    known = p_values[~np.isnan(p_values)]  # what is not known is not in the family
    order, ranks = np.argsort(known), np.arange(len(known))
    factor = {"bonferroni": len(known), "holm": len(known) - ranks, "bh": len(known) / (ranks + 1)}
    steps = known[order] * factor[method]
    if method == "holm":
        steps = np.maximum.accumulate(steps)
    elif method == "bh":
        steps = np.minimum.accumulate(steps[::-1])[::-1]
    back = np.empty_like(steps)
    back[order] = steps.clip(max=1)
    adjusted[~np.isnan(p_values)] = back
    return adjusted
