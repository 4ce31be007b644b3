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


def _column(name: str, *, is_binary: bool = False, weight: str = "1") -> Metric:
    return Metric(name, f"s.{name}", f"s.{name}_lowest", f"s.{name}_highest", is_binary, weight)


METRICS = (
    _column("loose_ias"),
    _column("strict_ias", is_binary=True),
    _column("loose_pooled", weight="s.planned"),
    _column("loose_ias_triggered"),
    _column("strict_ias_triggered", is_binary=True),
    _column("strict_ias_refusal_exempt", is_binary=True),
    _column("loose_rules"),
    _column("strict_rules", is_binary=True),
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
    models = "LEFT JOIN models AS m ON m.model = s.model"
    ledger = cursor.sql(
        f"SELECT {select} {_WHO} count(*) AS planned, "
        "count(*) FILTER (WHERE s.is_answered) AS answered, "
        "count(*) FILTER (WHERE s.is_judged) AS judged, "
        "count(*) FILTER (WHERE s.has_error) AS errors "
        f"FROM adherence_summary AS s {models} WHERE {condition} GROUP BY ALL",
        params=values,
    ).pl()
    source = f"FROM response_scores AS s {models} WHERE {condition}"
    totals = _totals(cursor, source, [m for m in METRICS if m.name in chosen], select, values)
    source = f"FROM criterion_summary AS s {models} WHERE {condition} AND s.metric = ?"
    for name in chosen:
        if name in criteria:
            metric = Metric(name, "s.value", "s.lowest", "s.highest", criteria[name].is_binary)
            totals += _totals(cursor, source, [metric], select, [*values, name])
    details = intervals.summarise(totals, {name: c.range for name, c in criteria.items()})
    return _widen(ledger, details, names, chosen)


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
        f"SELECT {select} {_WHO} count(*) AS planned, count(j.score) AS judged, "
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

_WHO = (
    "string_agg(DISTINCT s.panel, '; ') AS _panel, string_agg(DISTINCT s.origin, ', ') AS origin,"
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
) -> list[intervals.Total]:
    """Sums per group and metric, from sums per query: all that a clustered interval needs."""
    if not metrics:
        return []
    inner, outer = [], []
    for i, m in enumerate(metrics):
        inner.append(
            f"coalesce(sum({m.weight}) FILTER (WHERE {m.value} IS NOT NULL), 0)::DOUBLE AS n{i}, "
            f"coalesce(sum({m.value}), 0)::DOUBLE AS s{i}, "
            f"coalesce(sum({m.weight}) FILTER (WHERE {m.lowest} IS NOT NULL), 0)::DOUBLE AS p{i}, "
            f"coalesce(sum({m.lowest}), 0)::DOUBLE AS l{i}, "
            f"coalesce(sum({m.highest}), 0)::DOUBLE AS h{i}"
        )
        outer.append(
            f"sum(n{i}), sum(s{i}), sum(p{i}), sum(l{i}), sum(h{i}), "
            f"count(*) FILTER (WHERE n{i} > 0), max(n{i}), "
            f"sum(n{i} * n{i}), sum(s{i} * s{i}), sum(n{i} * s{i})"
        )
    groups = [part.split(" AS ")[-1] for part in select.split(", ") if part]
    keys = "".join(f"{name}, " for name in groups)
    rows = cursor.execute(
        f"SELECT {keys} {', '.join(outer)} FROM ("
        f"SELECT {select} s.query_id AS _query, {', '.join(inner)} {source} GROUP BY ALL"
        ") GROUP BY ALL",
        values,
    ).fetchall()
    width = len(intervals.Sums._fields)
    return [
        intervals.Total(
            m.name,
            row[: len(groups)],
            m.is_binary,
            intervals.Sums(*row[len(groups) + i * width : len(groups) + (i + 1) * width]),
        )
        for row in rows
        for i, m in enumerate(metrics)
    ]


def _widen(
    ledger: pl.DataFrame,
    details: dict[tuple[str, tuple[Any, ...]], intervals.Detail],
    names: list[str],
    chosen: list[str],
) -> pl.DataFrame:
    """The ledger with the metrics and then their details beside it, sorted by group."""
    ledger = ledger.sort(names, nulls_last=True) if names else ledger
    groups = ledger.select(names).rows() if names else [()] * ledger.height
    none = intervals.Detail()
    found = {name: [details.get((name, group), none) for group in groups] for name in chosen}
    columns = [pl.Series(name, [d.value for d in found[name]], pl.Float64) for name in chosen]
    for name in chosen:
        for detail, dtype in intervals.DETAILS.items():
            series = [getattr(d, detail) for d in found[name]]
            columns.append(pl.Series(f"{name}_{detail}", series, dtype))
    ledger = ledger.with_columns(
        origin=pl.col("origin").map_elements(merged, return_dtype=pl.String)
    ).rename({"_panel": "panel"} if "panel" not in names else {})
    return ledger.drop("_panel", strict=False).with_columns(columns)


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
