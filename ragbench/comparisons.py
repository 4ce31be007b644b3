"""Two sides of one study on the same instances, and what independent failures would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl

from ragbench import intervals
from ragbench.errors import RagbenchError, UnknownName
from ragbench.metrics import METRICS, By, Where, criteria_of, merged
from ragbench.slices import RESPONSE_COLUMNS, conditions, grouping, panel_name
from ragbench.store import refresh

_FIXED = ("model", "setting", "trial")


def paired(
    con: duckdb.DuckDBPyConnection,
    metric: str,
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    where: Where = None,
    panel: str | None = None,
) -> pl.DataFrame:
    """One row: the mean of `metric` on side a and on side b, over the instances both answered.

    Pairs are made by instance (and by whichever of model and setting neither side names); trials
    are averaged first. Columns: metric, a, b; n pairs, n_queries; planned pairs, and how many of
    them are lost because a, b or both have no value (lost_a, lost_b, lost_both); mean_a, mean_b,
    difference (a - b), low, high (95 % t interval clustered by query, CR1), interval, p_value
    (two-sided, of the same t); lowest, highest (difference that the lost pairs allow); for yes/no
    metrics both, only_a, only_b, neither (else null); panel, origin.

    Args:
        metric: a column of `scores` that a single response has (`loose_pooled` is none).
        a, b: columns and values that name each side: model, setting, judge or panel, …

    Raises:
        UnknownColumn, UnknownName: a column, metric or panel the study does not have.

    Example:
        >>> paired(con, "strict_ias", {"setting": "x"}, {"setting": "y"})  # doctest: +SKIP
    """
    refresh(con)
    cursor = con.cursor()
    unit = ["instance_id", *(c for c in _FIXED[:2] if c not in a and c not in b)]
    left, panel_a = _side(cursor, metric, a, where, panel, unit)
    right, panel_b = _side(cursor, metric, b, where, panel, unit)
    keys = [*unit, "query_id"]
    pairs = left.join(right, on=keys, how="inner", suffix="_b", nulls_equal=True)
    row: dict[str, Any] = {"metric": metric, "a": _words(a), "b": _words(b)}
    row |= _compare(pairs.sort(keys))
    row["panel"] = panel_a if panel_a == panel_b else f"{panel_a} / {panel_b}"
    row["origin"] = merged(", ".join([*pairs["origin"], *pairs["origin_b"]]))
    return pl.DataFrame([row], schema=_SCHEMA)


_SCHEMA: dict[str, Any] = (
    dict.fromkeys(("metric", "a", "b"), pl.String)
    | dict.fromkeys(("n", "n_queries", "planned", "lost_a", "lost_b", "lost_both"), pl.Int64)
    | dict.fromkeys(("mean_a", "mean_b", "difference", "low", "high"), pl.Float64)
    | {"interval": pl.String}
    | dict.fromkeys(("p_value", "lowest", "highest"), pl.Float64)
    | dict.fromkeys(("both", "only_a", "only_b", "neither"), pl.Int64)
    | dict.fromkeys(("panel", "origin"), pl.String)
)


def _side(
    cursor: duckdb.DuckDBPyConnection,
    metric: str,
    side: Mapping[str, Any],
    where: Where,
    panel: str | None,
    unit: Sequence[str],
) -> tuple[pl.DataFrame, str]:
    """Value, bounds and origin per unit of one side, trials averaged; and the side's panel."""
    named = dict(side)
    name = panel_name(cursor, named.pop("panel", None) or named.pop("judge", None) or panel)
    condition, values = conditions(
        {**(where or {}), **named, "panel": name}, RESPONSE_COLUMNS, "paired"
    )
    per_response = [m for m in METRICS if m.weight == "1"]
    known = {m.name: (m.value, m.lowest, m.highest) for m in per_response}
    if metric in known:
        value, lowest, highest = known[metric]
        source = "response_scores"
    elif metric in criteria_of(cursor):
        value, lowest, highest = "s.value", "s.lowest", "s.highest"
        source = "criterion_summary"
        condition += " AND s.metric = ?"
        values.append(metric)
    else:
        options = [*known, *criteria_of(cursor)]
        raise UnknownName("metric of single responses", metric, options, place="the study")
    columns = ", ".join(f"{RESPONSE_COLUMNS[c]} AS {c}" for c in [*unit, "query_id"])
    frame = cursor.sql(
        f"SELECT {columns}, avg({value}) AS value, avg({lowest}) AS lowest, "
        f"avg({highest}) AS highest, count({value}) AS trials, "
        "string_agg(DISTINCT s.origin, ', ') AS origin "
        f"FROM {source} AS s LEFT JOIN models AS m ON m.model = s.model "
        f"WHERE {condition} AND {lowest} IS NOT NULL GROUP BY ALL",
        params=values,
    ).pl()
    return frame, name


def _compare(pairs: pl.DataFrame) -> dict[str, Any]:
    known = pairs.drop_nulls(["value", "value_b"])
    gap = (known["value"] - known["value_b"]).to_numpy()
    row: dict[str, Any] = {
        "n": known.height,
        "n_queries": known["query_id"].n_unique(),
        "planned": pairs.height,
        "lost_a": pairs.filter(pl.col("value").is_null() & pl.col("value_b").is_not_null()).height,
        "lost_b": pairs.filter(pl.col("value").is_not_null() & pl.col("value_b").is_null()).height,
        "lost_both": pairs.filter(pl.col("value").is_null() & pl.col("value_b").is_null()).height,
    }
    if pairs.height:
        row["lowest"] = (pairs["lowest"] - pairs["highest_b"]).mean()
        row["highest"] = (pairs["highest"] - pairs["lowest_b"]).mean()
    if not known.height:
        return {**row, "interval": "none: no pair has both values"}
    row |= {"mean_a": known["value"].mean(), "mean_b": known["value_b"].mean()}
    row["difference"] = float(gap.mean())
    row |= _clustered(gap, known["query_id"])
    is_binary = known.select(
        pl.all_horizontal(pl.col("value", "value_b").is_in([0.0, 1.0]).all())
    ).item()
    if is_binary:
        for cell, (x, y) in {
            "both": (1, 1),
            "only_a": (1, 0),
            "only_b": (0, 1),
            "neither": (0, 0),
        }.items():
            row[cell] = known.filter(value=x, value_b=y).height
    return row


def _clustered(gap: np.ndarray[Any, Any], queries: pl.Series) -> dict[str, Any]:
    per_query = (
        pl.DataFrame({"query": queries, "gap": gap})
        .group_by("query")
        .agg(n=pl.len(), s=pl.col("gap").sum())
    )
    n, s = per_query["n"].to_numpy(), per_query["s"].to_numpy()
    groups = len(n)
    if groups < 2:
        return {"interval": "none: one query"}
    mean = gap.mean()
    error = float(np.sqrt(groups / (groups - 1) * ((s - n * mean) ** 2).sum()) / n.sum())
    if error < 1e-12:
        # Nothing differs, or everything by the same amount: there is no spread to estimate.
        return {"interval": "none: all pairs alike", "p_value": 1.0 if mean == 0 else None}
    reach = intervals.t_quantile(groups - 1) * error
    return {
        "low": float(mean - reach),
        "high": float(mean + reach),
        "interval": "clustered by query",
        "p_value": intervals.t_p_value(float(mean / error), groups - 1),
    }


def _words(side: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in side.items())


def independence(
    con: duckdb.DuckDBPyConnection,
    by: By = "model",
    where: Where = None,
    panel: str | None = None,
) -> pl.DataFrame:
    """The strict rate that independent failures would give, beside the one observed.

    For each response the product, over its constraints, of the group's adherence rate in the
    constraint's dimension; averaged over the responses that the panel judged in full. Failures
    that come together make the observed rate higher than this. The interval is a jackknife over
    queries (t, G - 1), which takes the estimated rates into account. Columns: the names in `by`,
    `panel`, `origin`, `n`, `strict_ias`, `independent`, `independent_low`, `independent_high`.
    Sorted by `by`.
    """
    refresh(con)
    cursor = con.cursor()
    names = grouping(by, RESPONSE_COLUMNS, "independence")
    if "panel" in names:
        raise RagbenchError("independence compares no panels: call it once per panel.")
    condition, values = conditions(
        {**(where or {}), "panel": panel_name(cursor, panel)}, RESPONSE_COLUMNS, "independence"
    )
    select = "".join(f'{RESPONSE_COLUMNS[name]} AS "{name}", ' for name in names)
    rows = cursor.sql(
        f"SELECT {select} s.panel, s.origin, s.query_id AS _query, s.response_id AS _response, "
        "(s.satisfied = s.planned)::INTEGER AS _strict, c.dimension AS _dimension, "
        "count(*) AS _shown, count(*) FILTER (WHERE j.score = 1) AS _met "
        "FROM adherence_summary AS s JOIN panels AS p ON p.panel = s.panel "
        "JOIN instance_constraints AS ic ON ic.instance_id = s.instance_id "
        "JOIN constraints AS c ON c.constraint_id = ic.constraint_id "
        "LEFT JOIN models AS m ON m.model = s.model "
        "JOIN judgments AS j ON j.response_id = s.response_id AND j.criterion = 'adherence' "
        "AND j.target_id = ic.constraint_id AND j.repeat = 0 "
        "AND j.judge = CASE WHEN c.rule IS NULL THEN p.judge ELSE p.rules END "
        f"WHERE s.planned > 0 AND s.judged = s.planned AND {condition} GROUP BY ALL ORDER BY ALL",
        params=values,
    ).pl()
    parts = rows.partition_by(names, as_dict=True, maintain_order=True) if names else {(): rows}
    result = [
        dict(zip(names, group, strict=True)) | _independent(part)
        for group, part in parts.items()
        if part.height
    ]
    schema = {name: rows.schema[name] for name in names} | {
        "panel": pl.String,
        "origin": pl.String,
        "n": pl.Int64,
        "strict_ias": pl.Float64,
        "independent": pl.Float64,
        "independent_low": pl.Float64,
        "independent_high": pl.Float64,
    }
    frame = pl.DataFrame(result, schema=schema)
    return frame.sort(names, nulls_last=True) if names else frame


def _independent(part: pl.DataFrame) -> dict[str, Any]:
    """The product rule for one group, with its jackknife over queries."""
    wide = part.pivot("_dimension", index=["_response", "_query", "_strict"], values="_shown")
    shown = wide.drop("_response", "_query", "_strict").fill_null(0)
    met = (
        part.pivot("_dimension", index="_response", values="_met")
        .select(shown.columns)
        .fill_null(0)
        .to_numpy()
    )
    queries = wide["_query"].rank("dense").to_numpy() - 1
    counts = shown.to_numpy()
    groups = int(queries.max()) + 1
    value = _product_mean(counts, met, np.ones(len(counts), dtype=bool))
    row = {
        "panel": part["panel"][0],
        "origin": merged(", ".join(part["origin"].unique())),
        "n": len(counts),
        "strict_ias": wide["_strict"].mean(),
        "independent": value,
    }
    if groups > 1:
        left_out = np.array([_product_mean(counts, met, queries != g) for g in range(groups)])
        spread = ((left_out - left_out.mean()) ** 2).sum() * (groups - 1) / groups
        reach = intervals.t_quantile(groups - 1) * float(np.sqrt(spread))
        row |= {
            "independent_low": max(0.0, value - reach),
            "independent_high": min(1.0, value + reach),
        }
    return row


def _product_mean(
    counts: np.ndarray[Any, Any], met: np.ndarray[Any, Any], kept: np.ndarray[Any, Any]
) -> float:
    shown = counts[kept]
    total = shown.sum(axis=0)
    rates = np.divide(met[kept].sum(axis=0), total, out=np.ones(len(total)), where=total > 0)
    return float(np.power(rates, shown).prod(axis=1).mean())
