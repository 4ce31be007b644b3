"""Two sides of one study on the same instances, and what independent failures would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import polars as pl

from ragbench import intervals
from ragbench.errors import EmptySide, RagbenchError, UnknownName
from ragbench.metrics import METRICS, By, Where, criteria_of, merged
from ragbench.slices import RESPONSE_COLUMNS, conditions, grouping, mapping, panel_of, scope
from ragbench.store import reading, refresh


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
    are averaged first. Where the sides differ in what models are (paradigm, family, is_open, …)
    each side is the mean over its models that have a value on the instance; the interval is about
    queries, with these models fixed.

    Columns: metric, a, b; n pairs, n_queries; planned pairs, and how many of them are lost because
    a, b or both have no value (lost_a, lost_b, lost_both); unpaired_a and unpaired_b, instances
    that the metric applies to on one side only; mean_a, mean_b, difference (a - b), low, high (95 %
    t interval clustered by query, CR1), interval, p_value (two-sided, of the same t; 1 when no pair
    differs); lowest, highest (difference that the lost pairs allow); for yes/no metrics both,
    only_a, only_b, neither (else null); panel, origin.

    Args:
        metric: a column of `scores` that a single response has (`loose_pooled` is none).
        a, b: columns and values that name each side: model, setting, judge or panel, …

    Raises:
        UnknownColumn, UnknownName: a column, metric or panel the study does not have.
        RagbenchError: a side has no responses, or the sides share no instance: nothing to pair.

    Example:
        >>> paired(con, "strict_ias", {"setting": "x"}, {"setting": "y"})  # doctest: +SKIP
    """
    cursor = reading(con)
    columns = unit(a, b)
    left, panel_a = _side(cursor, metric, a, where, panel, columns)
    right, panel_b = _side(cursor, metric, b, where, panel, columns)
    keys = [*columns, "query_id"]
    pairs = left.join(right, on=keys, how="inner", suffix="_b", nulls_equal=True).sort(keys)
    if pairs.is_empty():
        _refuse_unpaired(cursor, (a, panel_a), (b, panel_b), where, columns)
    row: dict[str, Any] = {"metric": metric, "a": _words(a), "b": _words(b)}
    row |= _compare(pairs, is_binary=_is_binary(cursor, metric))
    row |= {"unpaired_a": left.height - pairs.height, "unpaired_b": right.height - pairs.height}
    row["panel"] = panel_a if panel_a == panel_b else f"{panel_a} / {panel_b}"
    row["origin"] = merged(", ".join([*pairs["origin"], *pairs["origin_b"]]))
    return pl.DataFrame([row], schema=_SCHEMA)


def unpaired(
    con: duckdb.DuckDBPyConnection,
    metric: str,
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    where: Where = None,
    panel: str | None = None,
) -> pl.DataFrame:
    """One row: the mean of `metric` on two sides that share no response, and their difference.

    For groups of instances, which cannot be paired: with and without a protocol, natural and
    augmented, two domains. What else tells the groups apart is in the difference too. Trials are
    averaged first; then each response counts once.

    Columns: metric, a, b; n_a, n_b responses and their n_queries; planned_a, planned_b, of which
    lost_a, lost_b have no value; mean_a, mean_b, difference (a - b), low, high (95 % t interval of
    the regression on the side, clustered by query, CR1), interval, p_value (two-sided, of the same
    t; 1 when nothing differs); lowest, highest (difference that the lost responses allow); panel,
    origin.

    Raises:
        UnknownColumn, UnknownName: a column, metric or panel the study does not have.
        RagbenchError: a side has no responses, or the two have some in common.

    Example:
        >>> unpaired(con, "conflict", {"has_protocol": True}, {"has_protocol": False})
        ... # doctest: +SKIP
    """
    cursor = reading(con)
    columns = ["instance_id", "model", "setting"]
    left, panel_a = _side(cursor, metric, a, where, panel, columns)
    right, panel_b = _side(cursor, metric, b, where, panel, columns)
    for side, name, found in ((a, panel_a, left), (b, panel_b, right)):
        if found.is_empty():
            _asked(cursor, "unpaired", side, name, where, columns)
    if panel_a == panel_b and not left.join(right, on=columns, how="semi").is_empty():
        raise RagbenchError(
            f"unpaired: {_words(a)} and {_words(b)} have responses in common. Name sides that "
            "exclude each other."
        )
    row: dict[str, Any] = {"metric": metric, "a": _words(a), "b": _words(b)}
    row |= _contrast(left, right)
    row["panel"] = panel_a if panel_a == panel_b else f"{panel_a} / {panel_b}"
    row["origin"] = merged(", ".join([*left["origin"], *right["origin"]]))
    return pl.DataFrame([row], schema=_UNPAIRED)


def unit(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """The columns in which the two responses of a pair are alike."""
    columns = ["instance_id", *(c for c in ("model", "setting") if c not in a and c not in b)]
    if any(a.get(name) != b.get(name) for name in _OF_MODELS) and "model" in columns:
        columns.remove("model")  # no model is on both sides
    return columns


def are_paired(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether two sides may be about the same instances: `paired` or else `unpaired`."""
    differing = {name for name in {*a, *b} if a.get(name) != b.get(name)}
    return not differing - {"model", "setting", "panel", "judge", "trial", *_OF_MODELS}


_OF_MODELS = [name for name, column in RESPONSE_COLUMNS.items() if column.startswith("m.")]
_COUNTS = ("n", "n_queries", "planned", "lost_a", "lost_b", "lost_both", "unpaired_a", "unpaired_b")
_SCHEMA: dict[str, Any] = (
    dict.fromkeys(("metric", "a", "b"), pl.String)
    | dict.fromkeys(_COUNTS, pl.Int64)
    | dict.fromkeys(("mean_a", "mean_b", "difference", "low", "high"), pl.Float64)
    | {"interval": pl.String}
    | dict.fromkeys(("p_value", "lowest", "highest"), pl.Float64)
    | dict.fromkeys(("both", "only_a", "only_b", "neither"), pl.Int64)
    | dict.fromkeys(("panel", "origin"), pl.String)
)


_UNPAIRED: dict[str, Any] = (
    dict.fromkeys(("metric", "a", "b"), pl.String)
    | dict.fromkeys(
        ("n_a", "n_b", "n_queries", "planned_a", "planned_b", "lost_a", "lost_b"), pl.Int64
    )
    | dict.fromkeys(("mean_a", "mean_b", "difference", "low", "high"), pl.Float64)
    | {"interval": pl.String}
    | dict.fromkeys(("p_value", "lowest", "highest"), pl.Float64)
    | dict.fromkeys(("panel", "origin"), pl.String)
)


def _side(
    cursor: duckdb.DuckDBPyConnection,
    metric: str,
    side: Mapping[str, Any],
    where: Where,
    panel: str | None,
    alike: Sequence[str],
) -> tuple[pl.DataFrame, str]:
    """Value, bounds and origin per unit of one side: means of trials, then of models; its panel."""
    condition, values, name = side_scope(cursor, side, where, panel)
    per_response = [m for m in METRICS if m.weight == "1"]
    known = {m.name: (m.value, m.lowest, m.highest) for m in per_response}
    if metric in known:
        value, lowest, highest = known[metric]
        source = "adherence_summary"
    elif metric in criteria_of(cursor):
        value, lowest, highest = "s.value", "s.lowest", "s.highest"
        source = "criterion_summary"
        condition += " AND s.metric = ?"
        values.append(metric)
    else:
        options = [*known, *criteria_of(cursor)]
        raise UnknownName("metric of single responses", metric, options, place="the study")
    keys = [*alike, "query_id"]
    columns = ", ".join(f"{RESPONSE_COLUMNS[c]} AS {c}" for c in keys)
    models = "LEFT JOIN models AS m ON m.model = s.model" if "m." in condition else ""
    frame = cursor.sql(
        f"SELECT {', '.join(keys)}, avg(value) AS value, avg(lowest) AS lowest, "
        f"avg(highest) AS highest, string_agg(DISTINCT origin, ', ') AS origin FROM ("
        f"SELECT {columns}, s.model AS _model, avg({value}) AS value, avg({lowest}) AS lowest, "
        f"avg({highest}) AS highest, string_agg(DISTINCT s.origin, ', ') AS origin "
        f"FROM {source} AS s {models} "
        f"WHERE {condition} AND {lowest} IS NOT NULL GROUP BY ALL) GROUP BY ALL",
        params=values,
    ).pl()
    return frame, name


def side_scope(
    cursor: duckdb.DuckDBPyConnection, side: Mapping[str, Any], where: Where, panel: str | None
) -> tuple[str, list[Any], str]:
    """The condition on one side's rows, its values, and the side's panel."""
    everywhere = {**mapping(where)}
    named = {**side}
    panel = named.pop("panel", None) or named.pop("judge", None) or panel
    name = panel_of(cursor, everywhere, panel)
    # Both must hold: a side narrows `where` and does not replace what it says.
    condition, values = conditions(
        cursor, {**everywhere, "panel": name}, RESPONSE_COLUMNS, "paired"
    )
    narrower, more = conditions(cursor, named, RESPONSE_COLUMNS, "paired")
    return f"{condition} AND {narrower}", [*values, *more], name


def _refuse_unpaired(
    cursor: duckdb.DuckDBPyConnection,
    a: tuple[Mapping[str, Any], str],
    b: tuple[Mapping[str, Any], str],
    where: Where,
    alike: Sequence[str],
) -> None:
    """Raise when a side has no responses at all, or the two were asked about nothing in common."""
    asked = [_asked(cursor, "paired", side, panel, where, alike) for side, panel in (a, b)]
    if not asked[0] & asked[1]:
        raise RagbenchError(
            f"paired: {_words(a[0])} and {_words(b[0])} share no instance, so there is nothing to "
            "pair. `unpaired` compares them as groups of their own."
        )


def _asked(
    cursor: duckdb.DuckDBPyConnection,
    place: str,
    side: Mapping[str, Any],
    panel: str,
    where: Where,
    alike: Sequence[str],
) -> set[tuple[Any, ...]]:
    """What a side was asked about, whatever metric applies; raises when that is nothing."""
    condition, values, _ = side_scope(cursor, side, where, panel)
    listed = ", ".join(RESPONSE_COLUMNS[name] for name in alike)
    rows = cursor.execute(
        f"SELECT DISTINCT {listed} FROM adherence_summary AS s "
        f"LEFT JOIN models AS m ON m.model = s.model WHERE {condition}",
        values,
    ).fetchall()
    if not rows:
        said = f" where {_words(where)}." if where else "."
        raise EmptySide(f"{place}: no response has {_words(side) or 'what is asked for'}{said}")
    return set(rows)


def _is_binary(cursor: duckdb.DuckDBPyConnection, metric: str) -> bool:
    known = {m.name: m.is_binary for m in METRICS}
    return known[metric] if metric in known else criteria_of(cursor)[metric].is_binary


def _compare(pairs: pl.DataFrame, *, is_binary: bool) -> dict[str, Any]:
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
    is_whole = known.select(
        pl.all_horizontal(pl.col("value", "value_b").is_in([0.0, 1.0]).all())
    ).item()
    if is_binary and is_whole:  # else trials were averaged
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
        .group_by("query", maintain_order=True)
        .agg(n=pl.len(), s=pl.col("gap").sum())
    )
    n, s = per_query["n"].to_numpy(), per_query["s"].to_numpy()
    groups = len(n)
    if groups < 2:
        return {"interval": "none: one query"}
    mean = float(gap.mean())
    error = float(np.sqrt(groups / (groups - 1) * ((s - n * mean) ** 2).sum()) / n.sum())
    return _tested(mean, error, groups, "all pairs alike")


def _tested(difference: float, error: float, groups: int, alike: str) -> dict[str, Any]:
    """Interval and p of a difference; `alike` says what it means that nothing varies."""
    if error < 1e-12:
        # Nothing differs, or everything by the same amount: there is no spread to estimate.
        return {"interval": f"none: {alike}", "p_value": 1.0 if difference == 0 else None}
    reach = intervals.t_quantile(groups - 1) * error
    return {
        "low": difference - reach,
        "high": difference + reach,
        "interval": "clustered by query",
        "p_value": intervals.t_p_value(difference / error, groups - 1),
    }


def _contrast(left: pl.DataFrame, right: pl.DataFrame) -> dict[str, Any]:
    """Counts, means, difference and test of two groups of responses."""
    row: dict[str, Any] = {}
    if left.height and right.height:
        row["lowest"] = left["lowest"].mean() - right["highest"].mean()  # type: ignore[operator]
        row["highest"] = left["highest"].mean() - right["lowest"].mean()  # type: ignore[operator]
    known = {}
    for name, side in (("a", left), ("b", right)):
        known[name] = side.drop_nulls("value")
        row |= {
            f"planned_{name}": side.height,
            f"n_{name}": known[name].height,
            f"lost_{name}": side.height - known[name].height,
            f"mean_{name}": known[name]["value"].mean(),
        }
    # What each response adds to the error of the difference, by its query.
    parts = [
        side.select(
            "query_id", part=sign * (pl.col("value") - pl.col("value").mean()) / side.height
        )
        for sign, side in ((1, known["a"]), (-1, known["b"]))
    ]
    per_query = pl.concat(parts).group_by("query_id").agg(pl.col("part").sum())
    groups, n = per_query.height, row["n_a"] + row["n_b"]
    row["n_queries"] = groups
    if not (row["n_a"] and row["n_b"]):
        return {**row, "interval": "none: a side has no value"}
    row["difference"] = row["mean_a"] - row["mean_b"]
    if groups < 2 or n < 3:
        return {**row, "interval": "none: one query"}
    small = groups / (groups - 1) * (n - 1) / (n - 2)
    error = float(np.sqrt(small * (per_query["part"].to_numpy() ** 2).sum()))
    return row | _tested(row["difference"], error, groups, "all alike within the sides")


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
    queries (t, G - 1), which takes the estimated rates into account; null when there is one query
    or leaving any of them out changes nothing. Columns: the names in `by`,
    `panel`, `origin`, `n`, `strict_ias`, `independent`, `independent_low`, `independent_high`.
    Sorted by `by`.
    """
    refresh(con)
    cursor = con.cursor()
    names = grouping(by, RESPONSE_COLUMNS, "independence")
    if "panel" in names:
        raise RagbenchError("independence compares no panels: call it once per panel.")
    condition, values = scope(cursor, where, panel, RESPONSE_COLUMNS, "independence")
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
    schema = {name: rows.schema[name] for name in names} | _INDEPENDENCE
    frame = pl.DataFrame(result, schema=schema)
    return frame.sort(names, nulls_last=True) if names else frame


_INDEPENDENCE: dict[str, Any] = dict.fromkeys(("panel", "origin"), pl.String) | {
    "n": pl.Int64,
    **dict.fromkeys(
        ("strict_ias", "independent", "independent_low", "independent_high"), pl.Float64
    ),
}


def _independent(part: pl.DataFrame) -> dict[str, Any]:
    """The product rule for one group, with its jackknife over queries."""
    responses = part.unique("_response", maintain_order=True)
    where = (
        part["_response"].rank("dense").to_numpy() - 1,
        part["_dimension"].rank("dense").to_numpy() - 1,
    )
    counts = np.zeros((responses.height, part["_dimension"].n_unique()))
    met = counts.copy()
    counts[where], met[where] = part["_shown"], part["_met"]
    responses = responses.sort("_response")
    queries = responses["_query"].rank("dense").to_numpy() - 1
    groups = int(queries.max()) + 1
    value = _product_mean(counts, met, np.ones(len(counts), dtype=bool))
    row = {
        "panel": part["panel"][0],
        "origin": merged(", ".join(part["origin"].unique())),
        "n": len(counts),
        "strict_ias": responses["_strict"].mean(),
        "independent": value,
    }
    if groups > 1:
        left_out = np.array([_product_mean(counts, met, queries != g) for g in range(groups)])
        spread = ((left_out - left_out.mean()) ** 2).sum() * (groups - 1) / groups
        if spread < 1e-24:
            return row  # nothing differs between queries: there is no spread to estimate
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
