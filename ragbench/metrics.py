"""Scores with their n, their ledger, their bounds and an interval.

The definitions are in `views.sql`, as counts per response; this module sums, divides and puts an
interval around the result. Metrics and their names: EnterpriseRAG (arXiv 2608.11584), Section 4.2;
choices the paper leaves open are in `docs/metrics.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
import polars as pl

from ragbench import intervals
from ragbench.errors import RagbenchError, UnknownName
from ragbench.slices import CONSTRAINT_COLUMNS, RESPONSE_COLUMNS, grouping, scope
from ragbench.store import refresh

Where = Mapping[str, Any] | None
By = str | Sequence[str] | None


class Metric(NamedTuple):
    """How a number is averaged over rows: SQL for what each row gives."""

    name: str
    value: str  # null: not judged in full
    lowest: str  # null: does not apply to the row
    highest: str
    is_binary: bool = False
    weight: str = "1"
    like: str = ""  # has a value wherever this has one; metrics that are alike share their n


def _column(name: str, *, is_binary: bool = False, weight: str = "1", like: str = "") -> Metric:
    column = f"s.{name}"
    other = f"s.{like}" if like else column
    return Metric(name, column, f"{column}_lowest", f"{column}_highest", is_binary, weight, other)


METRICS = (
    _column("loose_ias"),
    _column("strict_ias", is_binary=True, like="loose_ias"),
    _column("loose_pooled", weight="s.planned", like="loose_ias"),
    _column("loose_ias_triggered"),
    _column("strict_ias_triggered", is_binary=True, like="loose_ias_triggered"),
    _column("strict_ias_refusal_exempt", is_binary=True, like="loose_ias"),
    _column("loose_rules"),
    _column("strict_rules", is_binary=True, like="loose_rules"),
)
"""Metrics about constraints. The others are criteria: one value per response and criterion."""

CRITERION_METRICS = ("faithfulness", "coverage", "rejection", "conflict")
"""Criteria that `scores` always shows, before those of the study's own."""


def scores(
    con: duckdb.DuckDBPyConnection,
    by: By = "model",
    where: Where = None,
    panel: str | None = None,
    *,
    metrics: Sequence[str] | None = None,
) -> pl.DataFrame:
    """One row per group: who judged, the ledger, every metric, and the details of each metric.

    Columns: the names in `by`; `panel`; `origin` of the rows; the ledger in responses, `planned`,
    `answered`, `judged` (by the whole panel) and `errors`; then a column per metric (0-1; a
    criterion of your own in its range); then for each metric `<metric>_n` (responses in it; for
    `loose_pooled` constraints), `_planned`, `_low` and `_high` (95 % interval), `_lowest` and
    `_highest` (what the missing rows allow) and `_interval` (how the interval was made). Sorted
    by `by`. A metric that applies nowhere in a group is null with 0 planned.

    Interval: Wilson for a yes/no metric with one response per query, else a t interval clustered
    by query (CR1, G - 1 degrees of freedom).

    Args:
        by: column or columns to group by (`slices.RESPONSE_COLUMNS`), or () for one row.
        where: column -> value or list of values.
        panel: a panel or judge; the study's primary panel when left out. `by="panel"` compares.
        metrics: only these metrics.

    Raises:
        UnknownColumn, UnknownName: a column, metric or panel the study does not have.
        AmbiguousPanel: several panels fit.

    Example:
        >>> scores(con, by="domain", where={"model": "m"}, metrics=["strict_ias"])  # doctest: +SKIP
    """
    refresh(con)
    cursor = con.cursor()
    names = grouping(by, RESPONSE_COLUMNS, "scores")
    condition, values = scope(cursor, where, panel, RESPONSE_COLUMNS, "scores", by=names)
    criteria = criteria_of(cursor)
    chosen = _chosen(metrics, [metric.name for metric in METRICS] + list(criteria))
    _refuse_taken(chosen, criteria)
    select = _select(names, RESPONSE_COLUMNS)
    models = "LEFT JOIN models AS m ON m.model = s.model" if "m." in select + condition else ""
    source = f"FROM adherence_summary AS s {models} WHERE {condition}"
    ledger = cursor.sql(
        f"SELECT {select} s.panel AS _panel, s.origin, count(*) AS planned, "
        "count(*) FILTER (WHERE s.is_answered) AS answered, "
        "count(*) FILTER (WHERE s.is_judged) AS judged, "
        "count(*) FILTER (WHERE s.has_error) AS errors, "
        f"count(*) FILTER (WHERE s.judged < s.planned) AS _open {source} GROUP BY ALL",
        params=values,
    ).pl()
    about_constraints = [metric for metric in METRICS if metric.name in chosen]
    is_whole = not ledger["_open"].sum()
    totals = _totals(cursor, source, about_constraints, select, values, is_whole=is_whole)
    source = f"FROM criterion_summary AS s {models} WHERE {condition}"
    totals += _criterion_totals(cursor, source, chosen, criteria, select, values)
    details = intervals.summarise(totals, {name: c.range for name, c in criteria.items()})
    return _widen(ledger.drop("_open"), details, names, chosen)


def constraint_scores(
    con: duckdb.DuckDBPyConnection,
    by: By = ("model", "category"),
    where: Where = None,
    panel: str | None = None,
) -> pl.DataFrame:
    """One row per group of single constraints, pooled: adherence with n, bounds and interval.

    Columns: the names in `by`; `panel`; `origin`; `planned` constraints (of all wanted responses),
    `judged`, `errors`; `adherence` (0-1) and its details as in `scores`; `adherence_triggered` and
    its details, without constraints whose condition did not hold. Sorted by `by`. Arguments and
    errors as in `scores`, with `category`, `dimension`, `constraint_id` and `rule` besides.

    Example:
        >>> constraint_scores(con, by=("model", "dimension"))  # doctest: +SKIP
    """
    refresh(con)
    cursor = con.cursor()
    names = grouping(by, CONSTRAINT_COLUMNS, "constraint_scores")
    condition, values = scope(
        cursor, where, panel, CONSTRAINT_COLUMNS, "constraint_scores", by=names
    )
    select = _select(names, CONSTRAINT_COLUMNS)
    source = f"""
        FROM adherence_summary AS s
        JOIN panels AS p ON p.panel = s.panel
        JOIN instance_constraints AS ic ON ic.instance_id = s.instance_id
        LEFT JOIN constraints AS c ON c.constraint_id = ic.constraint_id
        LEFT JOIN dimensions AS d ON d.dimension = c.dimension
        LEFT JOIN models AS m ON m.model = s.model
        LEFT JOIN judgments AS j ON j.response_id = s.response_id AND j.criterion = 'adherence'
            AND j.target_id = ic.constraint_id AND j.repeat = 0 AND s.is_answered
            AND j.judge = CASE WHEN c.rule IS NULL THEN p.judge ELSE p.rules END
        WHERE {condition}"""
    ledger = cursor.sql(
        f"SELECT {select} s.panel AS _panel, s.origin, count(*) AS planned, "
        "count(j.score) AS judged, "
        f"count(j.error) AS errors {source} GROUP BY ALL",
        params=values,
    ).pl()
    totals = _totals(cursor, source, list(_CONSTRAINT_METRICS), select, values)
    chosen = [metric.name for metric in _CONSTRAINT_METRICS]
    return _widen(ledger, intervals.summarise(totals, {}), names, chosen)


_HOLDS = "(j.score IS NULL OR j.is_triggered IS DISTINCT FROM false)"
_CONSTRAINT_METRICS = (
    Metric(
        "adherence",
        "(j.score = 1)::INTEGER",
        "coalesce(j.score = 1, false)::INTEGER",
        "coalesce(j.score = 1, true)::INTEGER",
        is_binary=True,
    ),
    Metric(
        "adherence_triggered",
        f"CASE WHEN {_HOLDS} THEN (j.score = 1)::INTEGER END",
        f"CASE WHEN {_HOLDS} THEN coalesce(j.score = 1, false)::INTEGER END",
        f"CASE WHEN {_HOLDS} THEN coalesce(j.score = 1, true)::INTEGER END",
        is_binary=True,
    ),
)


class _Criterion(NamedTuple):
    is_binary: bool
    range: tuple[float, float]


def criteria_of(cursor: duckdb.DuckDBPyConnection) -> dict[str, _Criterion]:
    """The metrics of `criterion_summary`: the paper's, then the study's own in order of name.

    Yes/no are those that grade responses and nowhere in the study gave anything but 0 and 1.
    """
    rows = cursor.execute(
        "SELECT criterion, lowest, highest, target = 'response' AND criterion NOT IN ("
        "SELECT metric FROM criterion_summary WHERE value NOT IN (0, 1)) "
        "FROM criteria WHERE target = 'response' OR criterion IN ('faithfulness', 'coverage') "
        "ORDER BY criterion"
    ).fetchall()
    found = {
        name: _Criterion(bool(is_binary) and target_range == (0.0, 1.0), target_range)
        for name, lowest, highest, is_binary in rows
        if (target_range := (float(lowest), float(highest)))
    }
    known = [name for name in CRITERION_METRICS if name in found]
    return {name: found[name] for name in [*known, *(name for name in found if name not in known)]}


def _chosen(metrics: Sequence[str] | None, known: list[str]) -> list[str]:
    for name in metrics or ():
        if name not in known:
            raise UnknownName("metric", name, known, place="the study")
    return list(metrics) if metrics is not None else known


LEDGER = ("planned", "answered", "judged", "errors")


def taken_names() -> set[str]:
    """Names that a criterion cannot have, because other columns of `scores` have them."""
    return {*RESPONSE_COLUMNS, *LEDGER, "origin", *_columns(metric.name for metric in METRICS)}


def _columns(metrics: Iterable[str]) -> set[str]:
    return {f"{name}{end}" for name in metrics for end in ("", *_ENDS)}


_ENDS = tuple(f"_{detail}" for detail in intervals.DETAILS)


def _refuse_taken(chosen: list[str], criteria: Mapping[str, Any]) -> None:
    own = [name for name in chosen if name in criteria]
    for name in own:
        others = taken_names() | _columns(other for other in own if other != name)
        if others & _columns([name]):
            raise RagbenchError(
                f"the study's criterion {name!r} has the name of another column of scores. Choose "
                "the others with metrics=[…], or bring its verdicts in under another name."
            )


def _select(names: list[str], allowed: Mapping[str, str]) -> str:
    return "".join(f'{allowed[name]} AS "{name}", ' for name in names)


def _totals(
    cursor: duckdb.DuckDBPyConnection,
    source: str,
    metrics: list[Metric],
    select: str,
    values: list[Any],
    *,
    is_whole: bool = False,
) -> list[intervals.Total]:
    """Sums per group and metric: all that a mean, its bounds and a clustered interval need.

    `is_whole`: it is known that nothing is missing, so that nothing needs to be looked for.
    """
    if not metrics:
        return []
    keys = [part.split(" AS ")[-1] for part in select.split(", ") if part]
    judged = _judged_totals(cursor, source, metrics, select, keys, values)
    missing: dict[tuple[Any, ...], dict[str, tuple[Any, ...]]] = {}
    if not is_whole:
        missing = _missing_totals(cursor, source, metrics, select, len(keys), values)
    none = (0, 0.0, 0.0)
    return [
        intervals.Total(
            m.name,
            group,
            m.is_binary,
            _together(judged.get(group, {}).get(m.name), missing.get(group, {}).get(m.name, none)),
        )
        for group in dict.fromkeys([*judged, *missing])
        for m in metrics
    ]


def _criterion_totals(
    cursor: duckdb.DuckDBPyConnection,
    source: str,
    chosen: list[str],
    criteria: Mapping[str, _Criterion],
    select: str,
    values: list[Any],
) -> list[intervals.Total]:
    """The same for criteria, all at once: the metric is one more column to group by."""
    if not any(name in criteria for name in chosen):
        return []
    metric = Metric("value", "s.value", "s.lowest", "s.highest")
    totals = _totals(cursor, source, [metric], f"s.metric AS _metric, {select}", values)
    return [
        intervals.Total(name, total.group[1:], criteria[name].is_binary, total.sums)
        for total in totals
        if (name := total.group[0]) in criteria and name in chosen
    ]


_NOTHING = (0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0)


def _together(
    judged: tuple[Any, ...] | None, missing: tuple[float, float, float]
) -> intervals.Sums:
    n, total, queries, most, nn, ss, ns = (x or 0 for x in judged or _NOTHING)
    planned, lowest, highest = (x or 0 for x in missing)
    return intervals.Sums(
        n, total, n + planned, total + lowest, total + highest, queries, most, nn, ss, ns
    )


def _judged_totals(
    cursor: duckdb.DuckDBPyConnection,
    source: str,
    metrics: list[Metric],
    select: str,
    keys: list[str],
    values: list[Any],
) -> dict[tuple[Any, ...], dict[str, tuple[Any, ...]]]:
    """Per group and metric: n, total, queries, most, nn, ss, ns, from sums per query.

    Summing doubles is what DuckDB does fastest, and metrics that are alike share their n: at ten
    million verdicts this is where the time of `scores` goes.
    """
    shared = {(m.weight, m.like or m.value): "" for m in metrics}
    inner, outer = [], []
    for i, (weight, value) in enumerate(shared):
        shared[weight, value] = f"n{i}"
        counted = f"CASE WHEN {value} IS NOT NULL THEN {weight} END"
        inner.append(
            f"count({value})::DOUBLE AS n{i}"
            if weight == "1"
            else f"coalesce(sum(({counted})::DOUBLE), 0) AS n{i}"
        )
        outer.append(f"sum(n{i}), count(*) FILTER (WHERE n{i} > 0), max(n{i}), sum(n{i} * n{i})")
    for i, m in enumerate(metrics):
        n = shared[m.weight, m.like or m.value]
        inner.append(f"sum(({m.value})::DOUBLE) AS s{i}")
        outer.append(f"sum(s{i}), sum(s{i} * s{i}), sum(s{i} * {n})")
    rows = cursor.execute(
        f"SELECT {''.join(f'{key}, ' for key in keys)} {', '.join(outer)} FROM ("
        f"SELECT {select} s.query_hash, {', '.join(inner)} {source} GROUP BY ALL"
        ") GROUP BY ALL",
        values,
    ).fetchall()
    found = {}
    for row in rows:
        group, sums = row[: len(keys)], iter(row[len(keys) :])
        counts = {n: [next(sums) for _ in range(4)] for n in shared.values()}
        found[group] = {
            m.name: (n, next(sums), queries, most, nn, next(sums), next(sums))
            for m in metrics
            for n, queries, most, nn in [counts[shared[m.weight, m.like or m.value]]]
        }
    return found


def _missing_totals(
    cursor: duckdb.DuckDBPyConnection,
    source: str,
    metrics: list[Metric],
    select: str,
    width: int,
    values: list[Any],
) -> dict[tuple[Any, ...], dict[str, tuple[Any, ...]]]:
    """Per group and metric, over the rows not judged in full: planned, lowest, highest."""
    columns, any_of = [], []
    for m in metrics:
        is_missing = f"{m.value} IS NULL AND {m.lowest} IS NOT NULL"
        any_of.append(f"({is_missing})")
        columns.append(
            f"sum({m.weight}) FILTER (WHERE {is_missing}), "
            f"sum({m.lowest}) FILTER (WHERE {is_missing}), "
            f"sum({m.highest}) FILTER (WHERE {is_missing})"
        )
    rows = cursor.execute(
        f"SELECT {select} {', '.join(columns)} {source} AND ({' OR '.join(any_of)}) GROUP BY ALL",
        values,
    ).fetchall()
    return {
        row[:width]: {
            m.name: tuple(float(x or 0) for x in row[width + 3 * i : width + 3 * i + 3])
            for i, m in enumerate(metrics)
        }
        for row in rows
    }


def _widen(
    ledger: pl.DataFrame,
    details: dict[tuple[str, tuple[Any, ...]], intervals.Detail],
    names: list[str],
    chosen: list[str],
) -> pl.DataFrame:
    """The ledger with the metrics and then their details beside it, sorted by group."""
    ledger = _who_and_how_many(ledger, names)
    groups = ledger.select(names).rows() if names else [()] * ledger.height
    none = intervals.Detail()
    found = {name: [details.get((name, group), none) for group in groups] for name in chosen}
    columns = [pl.Series(name, [d.value for d in found[name]], pl.Float64) for name in chosen]
    for name in chosen:
        for detail, dtype in intervals.DETAILS.items():
            series = [getattr(d, detail) for d in found[name]]
            columns.append(pl.Series(f"{name}_{detail}", series, dtype))
    return ledger.with_columns(columns)


def _who_and_how_many(rows: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    """Counts per group, with the panels and origins that they are over, sorted by group."""
    sums = [
        pl.col("_panel").unique().sort().str.join("; ").alias("panel"),
        pl.col("origin").unique().sort().str.join(", ").map_elements(merged, pl.String),
        pl.exclude(*names, "_panel", "origin").sum(),
    ]
    if not names:
        return rows.select(sums)
    kept = sums if "panel" not in names else sums[1:]
    return rows.group_by(names).agg(kept).sort(names, nulls_last=True)


def merged(origins: str) -> str:
    """Distinct origins in a fixed order, from a list that may name one twice."""
    return ", ".join(sorted(set(origins.split(", ")) - {""}))


def tidy(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame`, as `scores` or `constraint_scores` give it, with one row per group and metric.

    Columns: the group's, `metric`, `value`, `n`, `planned`, `low`, `high`, `lowest`, `highest`,
    `interval`, `panel`, `origin`. Metrics that apply nowhere in the frame are left out.
    """
    metrics = [name.removesuffix("_interval") for name in frame.columns if name[-9:] == "_interval"]
    if not metrics:
        raise RagbenchError("tidy takes a frame of metrics as scores or constraint_scores give it.")
    names = frame.columns[: frame.columns.index("planned")]
    who = [name for name in ("panel", "origin") if name in names]
    parts = [
        frame.select(
            *(name for name in names if name not in who),
            pl.lit(metric).alias("metric"),
            pl.col(metric).alias("value"),
            *(pl.col(f"{metric}_{detail}").alias(detail) for detail in intervals.DETAILS),
            *who,
        )
        for metric in metrics
    ]
    applies = [frame[f"{metric}_planned"].sum() > 0 for metric in metrics]
    return pl.concat(
        part if is_kept else part.clear() for part, is_kept in zip(parts, applies, strict=True)
    )
