"""A mean whose scores come in clusters: several instances of one query."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from ragbench.errors import RagbenchError
from ragbench.stats.frames import (
    Array,
    columns,
    floats,
    is_missing,
    lost_note,
    notes,
    one_row,
    quiet,
    share,
)
from ragbench.stats.proportions import proportion_interval

_CLUSTERED = {
    **columns(pl.Int64, "n n_clusters n_lost"),
    **columns(pl.Float64, "mean se_clt se_cluster_cr0 se_cluster_miller se_cluster_cr1"),
    "df": pl.Int64,
    **columns(pl.Float64, "low high confidence"),
    **columns(pl.String, "interval note"),
}


def clustered_mean(
    scores: Any, clusters: Iterable[Any], *, weights: Any = None, confidence: float = 0.95
) -> pl.DataFrame:
    """The (weighted) mean of `scores`, with standard errors that know which belong together.

    `clusters` names the query of each score. `se_clt` takes scores as independent; `cr0` is the
    plain cluster sandwich, `cr1` times sqrt(G / (G - 1)) for G clusters, `miller` adds the cross
    products within clusters to `se_clt` (Miller 2024). With weights w the mean is
    sum(w s) / sum(w). Interval: t with G - 1 degrees of freedom on `cr1`, not cut to a range; a
    rate that is 0 or 1 everywhere gets Wilson's over clusters. For a paired comparison give the
    difference per instance. One cluster: no `cr1`, no interval.

    >>> clustered_mean([1, 1, 0, 0, 1, 0], [1, 1, 2, 2, 3, 3])["se_cluster_cr1"].round(3).item()
    0.289
    """
    level = share(confidence, "confidence", "clustered_mean")
    values, codes, weight, lost = _inputs(scores, clusters, weights)
    n, groups = len(values), len(set(codes.tolist()))
    row: dict[str, Any] = {"n": n, "n_clusters": groups, "n_lost": lost, "confidence": level}
    left = lost_note(lost, "score")
    if not n:
        return one_row(_CLUSTERED, {**row, "note": notes("undefined: no score", left)})
    row |= _errors(values, codes, weight, groups)
    if groups < 2:
        row["interval"] = "none: one cluster"
        return one_row(_CLUSTERED, {**row, "note": notes("not usable: one cluster", left)})
    row["df"] = groups - 1
    if row["se_cluster_cr1"] <= 1e-12 * max(1.0, abs(row["mean"])):
        row |= _without_spread(values, row["mean"], groups, level)
        return one_row(_CLUSTERED, {**row, "note": notes("degenerate: no spread", left)})
    from scipy.stats import t

    reach = float(t.ppf((1 + level) / 2, groups - 1)) * row["se_cluster_cr1"]
    row |= {"low": row["mean"] - reach, "high": row["mean"] + reach}
    return one_row(_CLUSTERED, {**row, "interval": "clustered", "note": left})


def _inputs(scores: Any, clusters: Any, weights: Any) -> tuple[Array, Array, Array, int]:
    values = floats(scores, "clustered_mean")
    names = list(clusters)
    weight = np.ones(len(values)) if weights is None else floats(weights, "clustered_mean")
    if not len(values) == len(names) == len(weight):
        raise RagbenchError(
            f"clustered_mean: {len(values)} scores, {len(names)} clusters and {len(weight)} "
            "weights; there must be one of each per score."
        )
    if any(is_missing(name) for name in names):
        raise RagbenchError("clustered_mean: every score needs its cluster; some are missing.")
    if np.isnan(weight).any() or (weight < 0).any():
        raise RagbenchError("clustered_mean: weights must be known and at least 0.")
    place: dict[Any, int] = {}
    codes = np.array([place.setdefault(name, len(place)) for name in names], dtype=np.intp)
    kept = ~np.isnan(values) & (weight > 0)
    return values[kept], codes[kept], weight[kept], int(np.isnan(values).sum())


def _errors(values: Array, codes: Array, weight: Array, groups: int) -> dict[str, float | None]:
    n, total = len(values), float(weight.sum())
    mean = float(weight @ values) / total
    spread = weight * (values - mean)
    by_cluster = float((np.bincount(codes, spread) ** 2).sum())
    alone = float(spread @ spread)
    row: dict[str, float | None] = {"mean": mean, "se_cluster_cr0": math.sqrt(by_cluster) / total}
    if n < 2:
        return row
    clt = alone * n / (n - 1) / total**2
    miller = clt + (by_cluster - alone) / total**2
    row |= {"se_clt": math.sqrt(clt), "se_cluster_miller": math.sqrt(max(0.0, miller))}
    if groups > 1:
        is_flat = by_cluster <= (1e-12 * total * max(1.0, abs(mean))) ** 2
        row["se_cluster_cr1"] = 0.0 if is_flat else _cr1(values, codes, weight)
    return row


def _cr1(values: Array, codes: Array, weight: Array) -> float:
    with quiet():
        from statsmodels.regression.linear_model import WLS

        fit = WLS(values, np.ones(len(values)), weights=weight).fit(
            cov_type="cluster", cov_kwds={"groups": codes}
        )
        return float(fit.bse[0])


def _without_spread(values: Array, mean: float, groups: int, level: float) -> dict[str, Any]:
    if not (values == values[0]).all() or values[0] not in (0, 1):
        return {"interval": "none: all clusters alike"}
    limits = proportion_interval(round(mean * groups), groups, confidence=level)
    low, high = limits["wilson_low"][0], limits["wilson_high"][0]
    return {"low": low, "high": high, "interval": "Wilson over clusters"}
