"""Do judges agree? Intraclass correlation, kappa, Krippendorff's alpha, plain agreement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from ragbench.errors import RagbenchError, UnknownName
from ragbench.stats.clusters import clustered_mean
from ragbench.stats.frames import (
    Array,
    chosen,
    columns,
    is_missing,
    lost_note,
    notes,
    number_table,
    one_row,
    paired_labels,
    quiet,
    rating_table,
    whole,
)
from ragbench.stats.proportions import proportion_interval

_ICC = {
    **columns(pl.Int64, "n k n_lost"),
    **columns(pl.Float64, "icc2_1 icc2_1_low icc2_1_high icc2_k icc2_k_low icc2_k_high F"),
    **columns(pl.Int64, "df1 df2"),
    **columns(pl.Float64, "p_value msb msj mse"),
    "note": pl.String,
}


def icc2k(
    ratings: Any, *, target: str | None = None, rater: str | None = None, rating: str | None = None
) -> pl.DataFrame:
    """ICC(2,k) and ICC(2,1): how far raters give the same targets the same scores.

    Two-way random effects, absolute agreement: `icc2_k` for the mean of the k raters, `icc2_1`
    for a single one, each with its 95 % interval (Shrout and Fleiss). `F` tests that targets
    differ. `ratings` has one row per target and one column per rater, or is a long frame whose
    columns are named. Targets with a missing rating are left out and counted in `n_lost`.

    ICC(2,k) is not bounded: without variance between targets it can exceed 1, which the note
    says. Perfect agreement gives 1, and F and p are null. Fewer than 5 ratings: undefined.

    >>> judges = [[89.6, 89.0, 91.9], [86.0, 86.2, 90.4], [84.9, 89.1, 88.3], [82.7, 83.8, 85.8]]
    >>> icc2k(judges).select(pl.col("icc2_k", "icc2_k_low", "icc2_k_high").round(3)).row(0)
    (0.809, 0.111, 0.986)
    """
    scores = number_table(rating_table(ratings, "icc2k", target, rater, rating), "icc2k")
    full = scores[~np.isnan(scores).any(axis=1)]
    lost = len(scores) - len(full)
    n, k = full.shape
    row: dict[str, Any] = {"n": n, "k": k, "n_lost": lost}
    left = notes(f"{lost_note(lost, 'target')}, {n} remain") if lost else None
    if n < 2 or k < 2 or n * k < 5:
        why = f"undefined: {n} complete targets by {k} raters are too few"
        return one_row(_ICC, {**row, "note": notes(why, left)})
    full = full - full.mean()  # the coefficient ignores the level, rounding does not
    scale = (1e-12 * max(float(np.abs(scores[np.isfinite(scores)]).max()), 1e-300)) ** 2
    msb, msj, mse = (0.0 if ms <= scale else ms for ms in _mean_squares(full))
    row |= {"df1": n - 1, "df2": (n - 1) * (k - 1), "msb": msb, "msj": msj, "mse": mse}
    if msb == msj == mse == 0:
        return one_row(_ICC, {**row, "note": notes("undefined: all ratings are equal", left)})
    if mse == 0:
        row |= _without_error(n, k, msb, msj)
        why = "no error variance: F is infinite" if msb else "undefined: targets do not differ"
        return one_row(_ICC, {**row, "note": notes(why, left)})
    row |= _from_pingouin(full)
    return one_row(_ICC, {**row, **_in_range(row), "note": notes(_icc_doubt(row), left)})


def _mean_squares(scores: Array) -> tuple[float, float, float]:
    """Between targets, between raters, and what is left."""
    n, k = scores.shape
    targets, raters = scores.mean(axis=1), scores.mean(axis=0)
    rest = scores - targets[:, None] - raters[None, :] + scores.mean()
    msb = k * float((targets - scores.mean()) @ (targets - scores.mean())) / (n - 1)
    msj = n * float((raters - scores.mean()) @ (raters - scores.mean())) / (k - 1)
    return msb, msj, float((rest * rest).sum()) / ((n - 1) * (k - 1))


def _in_range(row: dict[str, Any]) -> dict[str, float | None]:
    """Without the limits that do not exist.

    Averaging k raters turns r into k r / (1 + (k - 1) r), which has no value from -1 / (k - 1)
    down: the formula goes on and gives numbers above 1.
    """
    if row["msb"] == 0:
        limits = ("icc2_1_low", "icc2_1_high", "icc2_k_low", "icc2_k_high")
        return {"F": 0.0, "p_value": 1.0, **dict.fromkeys(limits)}
    lowest = -1 / (row["k"] - 1)
    return {
        f"icc2_k_{end}": None
        for end in ("low", "high")
        if not row[f"icc2_1_{end}"] > lowest + 1e-12
    }


def _icc_doubt(row: dict[str, Any]) -> str | None:
    if row["msb"] == 0:
        return "not meaningful: no variance between targets"
    if not row["icc2_1"] > -1 / (row["k"] - 1) + 1e-12:
        return "not meaningful: targets vary less than raters err"
    doubt = "negative: targets vary less than raters err" if row["icc2_k"] < 0 else None
    has_limit = "icc2_k_low" not in _in_range(row)
    return notes(doubt, None if has_limit else "the lower limit of icc2_k is unbounded")


def _from_pingouin(scores: Array) -> dict[str, float]:
    with quiet():  # pandas' deprecations, and 0/0 that becomes null
        import pandas as pd  # type: ignore[import-untyped]
        import pingouin

        n, k = scores.shape
        long = pd.DataFrame(
            {
                "target": np.repeat(np.arange(n), k),
                "rater": np.tile(np.arange(k), n),
                "rating": scores.ravel(),
            }
        )
        digits = pingouin.options["round.column.CI95"]
        pingouin.options["round.column.CI95"] = None  # its default keeps two decimals
        try:
            result = pingouin.intraclass_corr(long, "target", "rater", "rating")
        finally:
            pingouin.options["round.column.CI95"] = digits
    rows = result.set_index("Type")
    values: dict[str, float] = {"F": rows.at["ICC(A,k)", "F"]}
    values["p_value"] = rows.at["ICC(A,k)", "pval"]
    for name, kind in (("icc2_1", "ICC(A,1)"), ("icc2_k", "ICC(A,k)")):
        low, high = rows.at[kind, "CI95"]
        values |= {name: rows.at[kind, "ICC"], f"{name}_low": low, f"{name}_high": high}
    return values


def _without_error(n: int, k: int, msb: float, msj: float) -> dict[str, float | None]:
    """The coefficients and the limits of their intervals as the error variance vanishes."""
    from scipy.stats import f

    if msb == 0:
        return {"icc2_1": 0.0, "icc2_k": 0.0}
    single, mean = msb / (msb + k * msj / n), msb / (msb + msj / n)
    df1, df2 = n - 1, k - 1
    upper, lower = float(f.ppf(0.975, df1, df2)), float(f.ppf(0.975, df2, df1))
    low = n * msb / (upper * k * msj + n * msb)
    high = n * lower * msb / (k * msj + n * lower * msb)
    stepped = [k * limit / (1 + (k - 1) * limit) for limit in (low, high)]
    return {
        "icc2_1": single,
        "icc2_1_low": low,
        "icc2_1_high": high,
        "icc2_k": mean,
        "icc2_k_low": stepped[0],
        "icc2_k_high": stepped[1],
    }


_KAPPA = {
    **columns(pl.Int64, "n n_classes n_lost"),
    "weights": pl.String,
    **columns(pl.Float64, "percent_agreement expected_agreement kappa se low high"),
    "note": pl.String,
}


def cohen_kappa(
    a: Any, b: Any = None, *, weights: str | None = None, labels: Sequence[Any] | None = None
) -> pl.DataFrame:
    """Cohen's kappa of two raters, beside their raw agreement.

    `a` and `b` are the labels each rater gave to the same targets (sequences, or mappings from
    target to label); or `a` alone is the square table of counts, first rater in rows. `weights`
    is None, "linear" or "quadratic"; weighted labels need an order, their own when they are
    numbers, else `labels`. Interval: kappa +/- 1.96 standard errors (Fleiss, Cohen and Everitt),
    not cut at 1. One class only: kappa is undefined.

    >>> cohen_kappa([[20, 5], [10, 15]])["kappa"].round(3).item()
    0.4
    """
    if weights is not None:
        chosen("weights", weights, ("linear", "quadratic"), "cohen_kappa")
    table, lost = (_square(a), 0) if b is None else _cross(a, b, weights, labels)
    n = int(table.sum())
    row: dict[str, Any] = {"n": n, "n_lost": lost, "weights": weights}
    row["n_classes"] = int(((table.sum(axis=0) + table.sum(axis=1)) > 0).sum())
    left = lost_note(lost, "target")
    if not n:
        return one_row(_KAPPA, {**row, "note": notes("undefined: no target", left)})
    row["percent_agreement"] = float(table.trace()) / n
    first, second = table.sum(axis=1) / n, table.sum(axis=0) / n
    if row["n_classes"] < 2:
        row["expected_agreement"] = 1.0
        return one_row(_KAPPA, {**row, "note": notes("undefined (one class)", left)})
    row["expected_agreement"] = float(first @ _credit(len(table), weights) @ second)
    row |= _kappa(table, weights)
    artefact = None
    if (first == 1).any() or (second == 1).any():
        artefact = "one rater used one class: kappa is 0 whatever the other did"
    elif row["percent_agreement"] == 1:
        artefact = "perfect agreement: the zero width is no precision"
    return one_row(_KAPPA, {**row, "note": notes(artefact, left)})


def _square(table: Any) -> Array:
    lines = table.rows() if isinstance(table, pl.DataFrame) else table
    rows = [[whole(cell, "a cell", "cohen_kappa") for cell in line] for line in lines]
    if any(len(line) != len(rows) for line in rows):
        raise RagbenchError(
            "cohen_kappa: the table must be square, the same classes in rows and columns."
        )
    return np.array(rows, dtype=float).reshape(len(rows), len(rows))


def _cross(a: Any, b: Any, weights: str | None, labels: Any) -> tuple[Array, int]:
    """Counts over the union of labels, which unlike the labels present is always square."""
    first, second, lost = paired_labels(a, b, "cohen_kappa")
    order = _ordered({*first, *second}, labels, weights is not None, "cohen_kappa")
    place = {label: index for index, label in enumerate(order)}
    table = np.zeros((len(order), len(order)))
    np.add.at(table, ([place[x] for x in first], [place[y] for y in second]), 1)
    return table, lost


def _ordered(found: set[Any], labels: Any, needs_order: bool, place: str) -> list[Any]:
    if labels is not None:
        for label in found:
            if label not in labels:
                raise UnknownName("label", label, labels, place=place)
        return list(dict.fromkeys(labels))
    is_number = all(isinstance(label, int | float) for label in found)
    if needs_order and not is_number:
        raise RagbenchError(f"{place}: tell the order of the labels, lowest first, as labels=[…].")
    return sorted(found) if is_number else sorted(found, key=lambda v: (type(v).__name__, str(v)))


def _credit(size: int, weights: str | None) -> Array:
    """What a pair of classes counts as agreement: 1 on the diagonal."""
    if weights is None:
        return np.eye(size)
    apart = np.abs(np.arange(size)[:, None] - np.arange(size)) / (size - 1)
    return 1 - (apart if weights == "linear" else apart**2)


def _kappa(table: Array, weights: str | None) -> dict[str, float]:
    with quiet():
        from statsmodels.stats.inter_rater import cohens_kappa

        result = cohens_kappa(table, wt=weights)
        # Where the variance is 0, rounding can take it below.
        error = math.sqrt(max(0.0, float(result.var_kappa)))
    kappa = float(result.kappa)
    reach = 1.959963984540054 * error
    return {"kappa": kappa, "se": error, "low": kappa - reach, "high": kappa + reach}


_AGREEMENT = {
    **columns(pl.Int64, "n n_raters n_pairs n_lost"),
    **columns(pl.Float64, "agreement low high"),
    "interval": pl.String,
    **columns(pl.Float64, "unanimous"),
    "note": pl.String,
}


def agreement(
    a: Any,
    b: Any = None,
    *,
    target: str | None = None,
    rater: str | None = None,
    rating: str | None = None,
) -> pl.DataFrame:
    """The share of pairs of ratings that are equal, uncorrected for chance.

    `a` and `b` are two raters' labels of the same targets; or `a` alone has one row per target
    and one column per rater, or is a long frame whose columns are named. Gaps are allowed:
    targets with fewer than two ratings are left out and counted in `n_lost`. `unanimous`: the
    share of targets on which all agree. Interval: Wilson for two raters; for more, clustered by
    target, since pairs of raters on one target are not independent.

    >>> agreement(["yes", "no", "yes", "no"], ["yes", "no", "no", "no"])["agreement"].item()
    0.75
    """
    if b is not None:
        first, second, lost = paired_labels(a, b, "agreement")
        rows, n_raters = [list(pair) for pair in zip(first, second, strict=True)], 2
    else:
        table = rating_table(a, "agreement", target, rater, rating)
        rated = [[v for v in line if not is_missing(v)] for line in table.rows()]
        rows, n_raters = [line for line in rated if len(line) > 1], table.width
        lost = len(rated) - len(rows)
    row: dict[str, Any] = {"n": len(rows), "n_raters": n_raters, "n_lost": lost}
    left = f"{lost} with fewer than two ratings left out" if lost else None
    if not rows:
        why = "undefined: no target has two ratings"
        return one_row(_AGREEMENT, {**row, "n_pairs": 0, "note": notes(why, left)})
    pairs = [len(line) * (len(line) - 1) // 2 for line in rows]
    equal = [_equal_pairs(line) for line in rows]
    row |= {"n_pairs": sum(pairs), "agreement": sum(equal) / sum(pairs)}
    row["unanimous"] = sum(e == p for e, p in zip(equal, pairs, strict=True)) / len(rows)
    if max(pairs) == 1:
        limits = proportion_interval(sum(equal), len(rows))
        row |= {"low": limits["wilson_low"][0], "high": limits["wilson_high"][0]}
        row["interval"] = "Wilson"
    else:
        shares = [e / p for e, p in zip(equal, pairs, strict=True)]
        clustered = clustered_mean(shares, range(len(rows)), weights=pairs).row(0, named=True)
        row |= {name: clustered[name] for name in ("low", "high", "interval")}
    return one_row(_AGREEMENT, {**row, "note": left})


def _equal_pairs(ratings: list[Any]) -> int:
    counts: dict[Any, int] = {}
    for value in ratings:
        counts[value] = counts.get(value, 0) + 1
    return sum(count * (count - 1) // 2 for count in counts.values())
