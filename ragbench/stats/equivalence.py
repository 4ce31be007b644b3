"""Equivalence: is a difference small enough not to matter?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from ragbench.errors import RagbenchError
from ragbench.stats.frames import (
    Array,
    chosen,
    columns,
    floats,
    lost_note,
    notes,
    one_row,
    paired_values,
    quiet,
)
from ragbench.stats.pairs import is_constant, paired_bootstrap

DESIGNS = ("paired", "independent", "bootstrap")
"""How the interval is made: paired t, two-sample t, or a percentile bootstrap of pairs."""

Margin = float | tuple[float, float]

_TOST = {
    "design": pl.String,
    **columns(pl.Int64, "n n_lost"),
    **columns(pl.Float64, "mean_diff se df margin_low margin_high t_lower p_lower t_upper p_upper"),
    **columns(pl.Float64, "p_value low_90 high_90 low_95 high_95"),
    **columns(pl.Boolean, "equivalent_paper_95 equivalent_standard_90"),
    **columns(pl.String, "verdict verdict_standard_90"),
    **columns(pl.Float64, "smallest_margin_95 smallest_margin_90"),
    **columns(pl.Int64, "n_resamples seed"),
    "note": pl.String,
}


def tost(
    x: Any,
    y: Any,
    *,
    margin: Margin = 0.2,
    design: str = "paired",
    unequal_variances: bool = False,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> pl.DataFrame:
    """Two one-sided tests that the mean of `x` minus the mean of `y` lies within `margin`.

    `margin` is one number (both sides) or (lowest, highest). `design`: "paired" and
    "independent" use t (`unequal_variances`: Welch); "bootstrap" resamples pairs, which has
    intervals but no t and no p, and is too narrow with a handful of pairs.

    `p_value` is the larger of the two one-sided p. `equivalent_paper_95`: the 95 % interval lies
    within the margin (the paper's rule, TOST at 2.5 % per side); `equivalent_standard_90`: the
    90 % interval lies strictly inside (p < 5 %). `verdict` follows the paper's rule:
    *equivalent*; else *different* when the 95 % interval excludes 0; else *inconclusive*.
    `smallest_margin_*`: the margin that would just have given equivalence. Without spread there
    is no verdict.

    >>> natural, synthetic = [0.31, 0.52, 0.18, 0.44, 0.27], [0.14, 0.36, 0.17, 0.29, 0.13]
    >>> tost(natural, synthetic).select("verdict", "verdict_standard_90").row(0)
    ('different', 'equivalent')
    """
    low, high = _margin(margin, "tost")
    chosen("design", design, DESIGNS, "tost")
    row: dict[str, Any] = {"design": design, "margin_low": low, "margin_high": high}
    if design == "independent":
        first, second, lost = _two_samples(x, y)
        row["n"] = len(first) + len(second)
        is_small = min(len(first), len(second)) < 1 or row["n"] < 3
        if unequal_variances:
            is_small |= min(len(first), len(second)) < 2
    else:
        first, second, lost = paired_values(x, y, "tost")
        row["n"] = len(first)
        is_small = len(first) < 2
    row["n_lost"] = lost
    left = lost_note(lost, "value" if design == "independent" else "pair")
    if len(first) and len(second):
        row["mean_diff"] = float(first.mean() - second.mean())
    if is_small:
        return one_row(_TOST, {**row, "note": notes("undefined: too few values", left)})
    if _without_spread(first, second, design):
        what = "values within each group" if design == "independent" else "differences"
        why = f"degenerate: all {what} are equal, there is no spread to test against"
        return one_row(_TOST, {**row, "note": notes(why, left)})
    if design == "bootstrap":
        row |= _bootstrapped(first, second, n_resamples, seed)
    else:
        row |= _student(first, second, low, high, design, unequal_variances)
    row |= judged(row)
    return one_row(_TOST, {**row, "note": notes(row["note"], left)})


def tost_estimate(
    difference: float, se: float, *, df: float | None = None, margin: Margin = 0.2
) -> pl.DataFrame:
    """The same from a difference and its standard error, as `clustered_mean` gives them.

    With `df` degrees of freedom by t, without by the normal distribution. Columns as in `tost`.

    >>> tost_estimate(0.05, 0.06).select(pl.col("p_value").round(4), "verdict").row(0)
    (0.0062, 'equivalent')
    """
    low, high = _margin(margin, "tost_estimate")
    row: dict[str, Any] = {"design": "estimate", "margin_low": low, "margin_high": high}
    row |= {"mean_diff": difference, "se": se, "df": df}
    if not (math.isfinite(difference) and math.isfinite(se)) or se < 0 or (df or 1) <= 0:
        raise RagbenchError("tost_estimate: difference, se >= 0 and df > 0 must be known numbers.")
    if se == 0:
        why = "degenerate: a standard error of 0 leaves nothing to test against"
        return one_row(_TOST, {**row, "note": why})
    from scipy.stats import norm, t

    spread = norm() if df is None else t(df)
    row |= {"t_lower": (difference - low) / se, "t_upper": (difference - high) / se}
    row |= {"p_lower": spread.sf(row["t_lower"]), "p_upper": spread.cdf(row["t_upper"])}
    row["p_value"] = max(row["p_lower"], row["p_upper"])
    for percent in (90, 95):
        reach = float(spread.ppf((1 + percent / 100) / 2)) * se
        row |= {f"low_{percent}": difference - reach, f"high_{percent}": difference + reach}
    return one_row(_TOST, row | judged(row))


def _margin(margin: Margin, place: str) -> tuple[float, float]:
    low, high = margin if isinstance(margin, tuple | list) else (-margin, margin)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise RagbenchError(
            f"{place}: margin must be a positive number or (lowest, highest), not {margin!r}."
        )
    return float(low), float(high)


def _two_samples(x: Any, y: Any) -> tuple[Array, Array, int]:
    first, second = floats(x, "tost"), floats(y, "tost")
    lost = int(np.isnan(first).sum() + np.isnan(second).sum())
    return first[~np.isnan(first)], second[~np.isnan(second)], lost


def _without_spread(first: Array, second: Array, design: str) -> bool:
    if design == "independent":
        return is_constant(first) and is_constant(second)
    return is_constant(first - second, first, second)


def _bootstrapped(first: Array, second: Array, n_resamples: int, seed: int) -> dict[str, Any]:
    row: dict[str, Any] = {"n_resamples": n_resamples, "seed": seed}
    for percent in (90, 95):
        drawn = paired_bootstrap(
            first, second, n_resamples=n_resamples, confidence=percent / 100, seed=seed
        ).row(0, named=True)
        row |= {f"low_{percent}": drawn["low"], f"high_{percent}": drawn["high"]}
        row["se"] = drawn["se"]
    return row


def _student(
    first: Array, second: Array, low: float, high: float, design: str, is_welch: bool
) -> dict[str, Any]:
    from scipy.stats import ttest_ind, ttest_rel
    from statsmodels.stats.weightstats import ttost_ind, ttost_paired

    with quiet():  # a group without spread beside one with spread is no trouble
        if design == "paired":
            p, lower, upper = ttost_paired(first, second, low, high)
            plain = ttest_rel(first, second)
        else:
            usevar = "unequal" if is_welch else "pooled"
            p, lower, upper = ttost_ind(first, second, low, high, usevar=usevar)
            plain = ttest_ind(first, second, equal_var=not is_welch)
    row: dict[str, Any] = {"p_value": float(p), "df": float(lower[2])}
    row |= {"t_lower": float(lower[0]), "p_lower": float(lower[1])}
    row |= {"t_upper": float(upper[0]), "p_upper": float(upper[1])}
    row["se"] = (high - low) / (row["t_lower"] - row["t_upper"])
    for percent in (90, 95):
        limits = plain.confidence_interval(percent / 100)
        row |= {f"low_{percent}": float(limits.low), f"high_{percent}": float(limits.high)}
    return row


def judged(row: dict[str, Any]) -> dict[str, Any]:
    """Verdicts and smallest margins, from the two intervals and the margin."""
    low, high = row["margin_low"], row["margin_high"]
    strict = low < row["low_90"] and row["high_90"] < high
    paper = low <= row["low_95"] and row["high_95"] <= high
    excludes = row["low_95"] > 0 or row["high_95"] < 0
    otherwise = "different" if excludes else "inconclusive"
    small = "equivalent, and yet the 95 % interval excludes 0: a small difference"
    return {
        "equivalent_paper_95": paper,
        "equivalent_standard_90": strict,
        "verdict": "equivalent" if paper else otherwise,
        "verdict_standard_90": "equivalent" if strict else otherwise,
        "smallest_margin_95": max(abs(row["low_95"]), abs(row["high_95"])),
        "smallest_margin_90": max(abs(row["low_90"]), abs(row["high_90"])),
        "note": small if paper and excludes else None,
    }
