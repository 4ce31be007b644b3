"""Krippendorff's alpha.

Own code: the one maintained package is under a licence that this project cannot depend on, and
no release of statsmodels has it yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ragbench.errors import RagbenchError
from ragbench.stats.frames import (
    Array,
    chosen,
    columns,
    is_missing,
    notes,
    one_row,
    rating_table,
    share,
    whole,
)

LEVELS = ("nominal", "ordinal", "interval")

_ALPHA = {
    **columns(pl.Int64, "n n_raters n_ratings n_lost"),
    "level": pl.String,
    **columns(pl.Float64, "alpha low high confidence observed_disagreement"),
    **columns(pl.Float64, "expected_disagreement"),
    **columns(pl.Int64, "n_resamples seed"),
    "note": pl.String,
}


def krippendorff_alpha(
    ratings: Any,
    *,
    target: str | None = None,
    rater: str | None = None,
    rating: str | None = None,
    level: str = "nominal",
    labels: Sequence[Any] | None = None,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> pl.DataFrame:
    """Krippendorff's alpha of any number of raters, gaps allowed.

    `ratings` has one row per target and one column per rater (null where there is no rating), or
    is a long frame whose columns are named. `level` is "nominal" (any labels), "ordinal" (numbers,
    or `labels` in order) or "interval" (numbers). Targets with fewer than two ratings cannot
    disagree: they are left out and counted in `n_lost`. 1 is perfect, 0 what chance gives, below
    0 worse. Interval: percentile bootstrap over targets. Undefined where all ratings are equal.

    >>> krippendorff_alpha([["a", "a", "a"], ["b", "b", None], ["a", "b", "b"]])["alpha"].item()
    0.5...
    """
    chosen("level", level, LEVELS, "krippendorff_alpha")
    share(confidence, "confidence", "krippendorff_alpha")
    resamples = whole(n_resamples, "n_resamples", "krippendorff_alpha")
    table = rating_table(ratings, "krippendorff_alpha", target, rater, rating)
    rated = [[v for v in line if not is_missing(v)] for line in table.rows()]
    rows = [line for line in rated if len(line) > 1]
    row: dict[str, Any] = {"n": len(rows), "n_raters": table.width, "level": level}
    row |= {"n_ratings": sum(map(len, rows)), "n_lost": len(rated) - len(rows)}
    row |= {"confidence": confidence, "n_resamples": resamples, "seed": seed}
    left = f"{row['n_lost']} with fewer than two ratings left out" if row["n_lost"] else None
    if not rows:
        why = "undefined: no target has two ratings"
        return one_row(_ALPHA, {**row, "note": notes(why, left)})
    values = _values({v for line in rows for v in line}, level, labels)
    if len(values) < 2:
        why = "undefined (one class)"
        return one_row(_ALPHA, {**row, "note": notes(why, left)})
    estimate, limits, doubt = _estimate(_patterns(rows, values, level), level, row)
    return one_row(_ALPHA, {**row, **estimate, **limits, "note": notes(doubt, left)})


def _values(found: set[Any], level: str, labels: Sequence[Any] | None) -> list[Any]:
    is_number = all(isinstance(value, int | float) for value in found)
    if level == "interval" and not is_number:
        raise RagbenchError("krippendorff_alpha: level 'interval' takes numbers, not labels.")
    if labels is not None and level == "ordinal":
        unknown = [value for value in found if value not in labels]
        if unknown:
            raise RagbenchError(f"krippendorff_alpha: labels lack {unknown[0]!r}.")
        return [label for label in dict.fromkeys(labels) if label in found]
    if level == "ordinal" and not is_number:
        raise RagbenchError(
            "krippendorff_alpha: tell the order of the labels, lowest first, as labels=[…]."
        )
    return sorted(found) if is_number else sorted(found, key=lambda v: (type(v).__name__, str(v)))


class _Patterns(NamedTuple):
    """Targets rated alike, and how many there are of each."""

    cells: Array  # how often each value (column) was given; at level interval: n, sum, squares
    times: Array


def _patterns(rows: list[list[Any]], values: list[Any], level: str) -> _Patterns:
    if level == "interval":
        # Three sums per target are all that squared distances need, however many values there are.
        middle = sum(map(sum, rows)) / sum(map(len, rows))
        cells = np.array(
            [[len(r), sum(v - middle for v in r), sum((v - middle) ** 2 for v in r)] for r in rows]
        )
    else:
        place = {value: index for index, value in enumerate(values)}
        cells = np.zeros((len(rows), len(values)))
        for index, line in enumerate(rows):
            for value in line:
                cells[index, place[value]] += 1
    return _Patterns(*np.unique(cells, axis=0, return_counts=True))


def _estimate(
    patterns: _Patterns, level: str, row: dict[str, Any]
) -> tuple[dict[str, float], dict[str, float | None], str | None]:
    weights = patterns.times[None, :].astype(float)
    observed, expected = disagreement(patterns.cells, weights, level)
    estimate = {
        "alpha": float(1 - observed[0] / expected[0]),
        "observed_disagreement": float(observed[0]),
        "expected_disagreement": float(expected[0]),
    }
    if row["n"] < 2 or not row["n_resamples"]:
        return estimate, {}, "no interval: one target" if row["n"] < 2 else None
    alphas = _resampled(patterns, level, row)
    undefined = row["n_resamples"] - len(alphas)
    if not len(alphas):
        return estimate, {}, "no interval: every resample has one class"
    tails = [(1 - row["confidence"]) / 2, (1 + row["confidence"]) / 2]
    low, high = np.quantile(alphas, tails)
    doubt = f"{undefined} resamples with one class left out of the interval" if undefined else None
    if len(patterns.times) == 1 or estimate["alpha"] == 1:
        doubt = notes("the zero width of the interval is no precision", doubt)
    return estimate, {"low": float(low), "high": float(high)}, doubt


def _resampled(patterns: _Patterns, level: str, row: dict[str, Any]) -> Array:
    """Alpha of every resample in which it is defined: targets alike are one multinomial cell."""
    random = np.random.default_rng(row["seed"])
    chunk = max(1, 4_000_000 // patterns.cells.size)
    found = []
    for start in range(0, row["n_resamples"], chunk):
        size = min(chunk, row["n_resamples"] - start)
        drawn = random.multinomial(row["n"], patterns.times / row["n"], size=size)
        observed, expected = disagreement(patterns.cells, drawn.astype(float), level)
        found.append(1 - observed[expected > 0] / expected[expected > 0])
    return np.concatenate(found)


def disagreement(cells: Array, weights: Array, level: str) -> tuple[Array, Array]:
    """Observed and expected disagreement, one value per row of `weights` (times per pattern)."""
    totals = weights @ cells
    if level == "interval":
        rated, sums, squares = cells.T
        within = 2 * (rated * squares - sums**2) / (rated - 1)
        n, every, square = totals.T
        return weights @ within / n, 2 * (n * square - every**2) / (n * (n - 1))
    rated, n = cells.sum(axis=1), totals.sum(axis=1)
    if level == "nominal":
        within = (rated**2 - (cells**2).sum(axis=1)) / (rated - 1)
        return weights @ within / n, (n**2 - (totals**2).sum(axis=1)) / (n * (n - 1))
    # A value's place is its mid-rank; squared distance of places is the ordinal metric.
    place = np.cumsum(totals, axis=1) - totals / 2
    sums_each, squares_each = place @ cells.T, place**2 @ cells.T
    within_each = 2 * (rated * squares_each - sums_each**2) / (rated - 1)
    observed = (weights * within_each).sum(axis=1) / n
    every, square = (place * totals).sum(axis=1), (place**2 * totals).sum(axis=1)
    return observed, 2 * (n * square - every**2) / (n * (n - 1))
