"""Rank correlation, with exact p at the small n of model-level comparisons."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from ragbench.stats.frames import (
    ALTERNATIVES,
    Array,
    chosen,
    columns,
    lost_note,
    notes,
    number_table,
    one_row,
    paired_values,
    quiet,
    rating_table,
)

EXACT_UP_TO = 8
"""Up to this n every re-ordering is tried (8! = 40,320)."""

_SPEARMAN = {
    **columns(pl.Int64, "n n_lost"),
    "rho": pl.Float64,
    **columns(pl.String, "alternative method"),
    **columns(pl.Float64, "p_value p_exact_two_sided p_exact_double_tail p_exact_greater"),
    **columns(pl.Float64, "p_exact_less p_t_approx"),
    "note": pl.String,
}


def spearman(x: Any, y: Any, *, alternative: str = "two-sided") -> pl.DataFrame:
    """Spearman's rank correlation; ties get average ranks.

    `p_value` is exact up to n = 8: the share of all re-orderings at least as extreme, two-sided
    by |rho| (`p_exact_double_tail`, twice the smaller tail, differs only with ties). Beyond that
    it is Student's t approximation, which `p_t_approx` gives at every n and which is far off at
    n = 5. Ranks that are all equal have no correlation.

    >>> spearman([1, 2, 3, 4, 5], [2, 4, 6, 8, 10]).select(pl.col("rho", "p_value").round(4)).row(0)
    (1.0, 0.0167)
    """
    chosen("alternative", alternative, ALTERNATIVES, "spearman")
    pairs = paired_values(x, y, "spearman")
    n, lost = len(pairs.x), lost_note(pairs.lost)
    row: dict[str, Any] = {"n": n, "n_lost": pairs.lost, "alternative": alternative}
    if n < 2:
        return one_row(_SPEARMAN, {**row, "note": notes("undefined: fewer than two pairs", lost)})
    if _is_flat(pairs.x) or _is_flat(pairs.y):
        note = notes("undefined: one side does not vary", lost)
        return one_row(_SPEARMAN, {**row, "note": note})
    row |= _rank_correlation(pairs.x, pairs.y, alternative)
    if n <= EXACT_UP_TO:
        row |= _exact(pairs.x, pairs.y)
        row["method"] = "exact"
        row["p_value"] = row[f"p_exact_{alternative.replace('-', '_')}"]
    else:
        row |= {"method": "t", "p_value": row["p_t_approx"]}
    return one_row(_SPEARMAN, {**row, "note": lost})


def _is_flat(values: Array) -> bool:
    return bool((values == values[0]).all())


def _rank_correlation(x: Array, y: Array, alternative: str = "two-sided") -> dict[str, float]:
    from scipy.stats import spearmanr

    with quiet():  # two pairs have no t
        result = spearmanr(x, y, alternative=alternative)
    return {"rho": float(result.statistic), "p_t_approx": float(result.pvalue)}


def _exact(x: Array, y: Array) -> dict[str, float]:
    from scipy.stats import permutation_test, rankdata

    ranks = rankdata(y) - (len(y) + 1) / 2

    def statistic(order: Array, axis: int = -1) -> Array:
        return (order * ranks).sum(axis=axis)

    # Rho is linear in the sum of products of ranks, which orders the re-orderings alike.
    result = permutation_test(
        (rankdata(x) - (len(x) + 1) / 2,),
        statistic,
        permutation_type="pairings",
        n_resamples=np.inf,
        vectorized=True,
    )
    all_orders, seen = result.null_distribution, result.statistic
    # Quarter ranks are exact in floating point: no tolerance needed, half a step for safety.
    greater = float((all_orders >= seen - 0.1).mean())
    less = float((all_orders <= seen + 0.1).mean())
    return {
        "p_exact_two_sided": float((np.abs(all_orders) >= abs(seen) - 0.1).mean()),
        "p_exact_double_tail": min(1.0, 2 * min(greater, less)),
        "p_exact_greater": greater,
        "p_exact_less": less,
    }


_MEAN_SPEARMAN = {
    **columns(pl.Int64, "n n_raters n_pairs n_undefined"),
    **columns(pl.Float64, "mean_rho lowest_rho highest_rho"),
    "note": pl.String,
}


def mean_spearman(
    ratings: Any, *, target: str | None = None, rater: str | None = None, rating: str | None = None
) -> pl.DataFrame:
    """The mean over all pairs of raters of Spearman's rho between their scores of the targets.

    `ratings` has one row per target and one column per rater, or is a long frame whose columns
    are named. A pair uses the targets both rated; pairs where one side does not vary have no rho
    and are counted in `n_undefined`. `n` is the number of targets.

    >>> mean_spearman([[1, 2, 1], [2, 1, 2], [3, 3, 3]])["mean_rho"].round(3).item()
    0.667
    """
    table = rating_table(ratings, "mean_spearman", target, rater, rating)
    scores = number_table(table, "mean_spearman")
    found, undefined = [], 0
    for i, j in combinations(range(scores.shape[1]), 2):
        both = scores[~np.isnan(scores[:, [i, j]]).any(axis=1)][:, [i, j]]
        if len(both) < 2 or _is_flat(both[:, 0]) or _is_flat(both[:, 1]):
            undefined += 1
        else:
            found.append(_rank_correlation(both[:, 0], both[:, 1])["rho"])
    row: dict[str, Any] = {"n": scores.shape[0], "n_raters": scores.shape[1]}
    row |= {"n_pairs": len(found), "n_undefined": undefined}
    if not found:
        return one_row(_MEAN_SPEARMAN, {**row, "note": "undefined: no pair of raters has a rho"})
    row |= {"mean_rho": sum(found) / len(found), "lowest_rho": min(found)}
    row["highest_rho"] = max(found)
    note = f"{undefined} pairs of raters without a rho left out" if undefined else None
    return one_row(_MEAN_SPEARMAN, {**row, "note": note})
