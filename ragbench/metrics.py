"""Scores with their n, their ledger, their bounds and an interval.

The definitions are in `scores.sql`, per response; this module sums, divides and puts an interval
around the result. Metrics and their names: EnterpriseRAG (arXiv 2608.11584), Section 4.2;
choices the paper leaves open are in `docs/metrics.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import duckdb
import polars as pl

from ragbench import intervals
from ragbench.arguments import several
from ragbench.constraint_rows import constraint_rows
from ragbench.errors import RagbenchError, UnknownName
from ragbench.slices import (
    COLUMN_TYPES,
    CONSTRAINT_COLUMNS,
    RESPONSE_COLUMNS,
    grouping,
    mapping,
    panel_of,
    scope,
)
from ragbench.store import at_once, reading, remembered, state
from ragbench.sums import Metric, Source, key_of, read, statements

Where = Mapping[str, Any] | None
By = str | Sequence[str] | None


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
    metrics: By = None,
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
        metrics: only this metric, or these.

    Raises:
        UnknownColumn, UnknownName: a column, metric or panel the study does not have.
        AmbiguousPanel: several panels fit.

    Example:
        >>> scores(con, by="domain", where={"model": "m"}, metrics=["strict_ias"])  # doctest: +SKIP
    """
    cursor = reading(con)
    names = grouping(by, RESPONSE_COLUMNS, "scores")
    condition, values = scope(cursor, where, panel, RESPONSE_COLUMNS, "scores", by=names)
    criteria = criteria_of(cursor)
    chosen = _chosen(metrics, [metric.name for metric in METRICS] + list(criteria))
    _refuse_taken(chosen, criteria)
    columns = [RESPONSE_COLUMNS[name] for name in names]
    here = f"store_{state(cursor).number}.main"  # one file, also when a newer one comes meanwhile
    models = f"LEFT JOIN {here}.models AS m ON m.model = s.model"
    models = models if "m." in f"{columns}{condition}" else ""
    key = key_of(columns)
    own = [name for name in chosen if name in criteria]
    about_constraints = [metric for metric in METRICS if metric.name in chosen]
    is_kept, is_whole = _per_query(cursor, names, where)

    def rows(table: str) -> str:
        return f"FROM {here}.{table} AS s {models} WHERE {condition}"

    def summed(table: str, keys: list[str]) -> Source | None:
        return Source(rows(table), keys, is_summed=True, is_whole=is_whole) if is_kept else None

    counts = ", ".join(f"sum(s.{count})::BIGINT" for count in LEDGER)
    if not is_kept:
        flags = (f"count(*) FILTER (WHERE s.{flag})" for flag in _FLAGS)
        counts = ", ".join(["count(*)", *flags])
    queries = [
        f"SELECT {key}, s.panel, s.origin, {counts}, {', '.join([*columns, 'NULL'])} "
        f"{rows('adherence_by_query' if is_kept else 'adherence_summary')} GROUP BY ALL"
    ]
    missing = ""
    if about_constraints:
        source = Source(rows("adherence_summary"), [key], "s.judged < s.planned")
        kept = summed("adherence_by_query", [key])
        judged, missing = statements(source, about_constraints, kept)
        queries.append(judged)
    if own:
        keys = [_METRIC_KEY, key]
        source = Source(rows("criterion_summary"), keys, "s.value IS NULL")
        queries += statements(source, [_CRITERION], summed("criterion_by_query", keys))
    ledger, *found = at_once(con, *(partial(_fetch, sql=sql, values=values) for sql in queries))
    details: dict[tuple[str, int], intervals.Detail] = {}
    if about_constraints:
        # Where every response is judged in full, no verdict is missing.
        has_gaps = any(row[3] > row[5] for row in ledger)
        gaps = _fetch(cursor, missing, values) if has_gaps else []
        for group, sums in read(about_constraints, found[0], gaps).items():
            for metric in about_constraints:
                details[metric.name, group[0]] = intervals.detail(
                    sums[metric.name], is_binary=metric.is_binary
                )
    if own:
        names_of = {criteria[name].key: name for name in own}
        for group, sums in read([_CRITERION], found[-2], found[-1], width=2).items():
            if name := names_of.get(group[0]):
                criterion = criteria[name]
                details[name, group[1]] = intervals.detail(
                    sums["value"], is_binary=criterion.is_binary, bounds=criterion.range
                )
    return _widen(_ledger(ledger, LEDGER, names), details, names, chosen)


def _per_query(
    cursor: duckdb.DuckDBPyConnection, names: Sequence[str], where: Where
) -> tuple[bool, bool]:
    """Whether the sums kept per query will do, and whether no group then has two of one query."""
    if not {*names, *mapping(where)} <= _OF_QUERIES:
        return False, False

    def settings() -> int:
        return int(cursor.execute("SELECT count(DISTINCT setting) FROM wanted").fetchall()[0][0])

    # Of panels there is one, unless they are what is compared.
    return True, "model" in names and ("setting" in names or remembered(cursor, settings) <= 1)


_OF_QUERIES = {
    *("panel", "model", "setting", "query_id", "benchmark", "domain", "language"),
    *("label", "family", "paradigm", "is_open", "params_b"),
}
_FLAGS = ("is_answered", "is_judged", "has_error")


def _fetch(cursor: duckdb.DuckDBPyConnection, sql: str, values: list[Any]) -> list[tuple[Any, ...]]:
    return cursor.execute(sql, values).fetchall()


_CRITERION = Metric("value", "s.value", "s.lowest", "s.highest")
_METRIC_KEY = "hash(s.metric)"


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
    cursor = reading(con)
    names = grouping(by, CONSTRAINT_COLUMNS, "constraint_scores")
    condition, values = scope(
        cursor, where, panel, CONSTRAINT_COLUMNS, "constraint_scores", by=names
    )
    columns = [CONSTRAINT_COLUMNS[name] for name in names]
    named = "".join(f"{sql} AS _group{i}, " for i, sql in enumerate(columns))
    used = f"{columns}{condition}"
    dimensions = "LEFT JOIN dimensions AS d ON d.dimension = c.dimension" if "d." in used else ""
    models = "LEFT JOIN models AS m ON m.model = s.model" if "m." in used else ""
    one_panel = None if "panel" in names else panel_of(cursor, where, panel)
    # A text that all rows share need not be grouped by, row by row.
    shown, given = ("s.panel", []) if one_panel is None else ("?::VARCHAR", [one_panel])
    # Constraints of one group and query with the same verdict become one row with a weight.
    cursor.execute(
        f"""
        CREATE TEMP TABLE _verdicts AS
        SELECT {named} {key_of(columns)} AS _key, {shown} AS _panel, s.origin, s.query_hash,
            j.score, j.error IS NOT NULL AS is_error,
            j.is_triggered IS DISTINCT FROM false AS holds, count(*) AS weight
        {constraint_rows(cursor, one_panel)}
        {dimensions}
        {models}
        WHERE {condition}
        GROUP BY ALL""",
        [*given, *values],
    )
    ledger = cursor.execute(
        "SELECT _key, _panel, origin, sum(weight)::BIGINT, "
        "coalesce(sum(weight) FILTER (WHERE score IS NOT NULL), 0)::BIGINT, "
        "coalesce(sum(weight) FILTER (WHERE is_error), 0)::BIGINT, "
        f"{', '.join([*(f'_group{i}' for i in range(len(names))), 'NULL'])} "
        "FROM _verdicts GROUP BY ALL"
    ).fetchall()
    source = Source("FROM _verdicts AS s WHERE true", ["s._key"], "s.score IS NULL")
    found = [cursor.execute(sql).fetchall() for sql in statements(source, _CONSTRAINT_METRICS)]
    details = {
        (metric.name, group[0]): intervals.detail(sums[metric.name], is_binary=True)
        for group, sums in read(_CONSTRAINT_METRICS, found[0], found[1]).items()
        for metric in _CONSTRAINT_METRICS
    }
    chosen = [metric.name for metric in _CONSTRAINT_METRICS]
    counts = ("planned", "judged", "errors")
    return _widen(_ledger(ledger, counts, names), details, names, chosen)


_CONSTRAINT_METRICS = (
    Metric(
        "adherence",
        value="CASE WHEN s.score IS NOT NULL THEN s.weight * (s.score = 1)::INTEGER END",
        lowest="CASE WHEN s.score IS NULL THEN 0 END",
        highest="s.weight",
        is_binary=True,
        weight="s.weight",
        like="s.score",
    ),
    Metric(
        "adherence_triggered",
        value="CASE WHEN s.score IS NOT NULL AND s.holds "
        "THEN s.weight * (s.score = 1)::INTEGER END",
        lowest="CASE WHEN s.score IS NULL THEN 0 END",
        highest="s.weight",
        is_binary=True,
        weight="s.weight",
    ),
)


class _Criterion(NamedTuple):
    is_binary: bool
    range: tuple[float, float]
    key: int  # the hash of its name


def criteria_of(cursor: duckdb.DuckDBPyConnection) -> dict[str, _Criterion]:
    """The metrics of `criterion_summary`: the paper's, then the study's own in order of name.

    Yes/no are those that grade responses and nowhere in the study gave anything but 0 and 1.
    """

    def criteria() -> list[tuple[Any, ...]]:
        return cursor.execute(
            "SELECT criterion, lowest, highest, target = 'response' AND criterion NOT IN ("
            "SELECT metric FROM criterion_summary WHERE value NOT IN (0, 1)), hash(criterion) "
            "FROM criteria WHERE target = 'response' OR criterion IN ('faithfulness', 'coverage') "
            "ORDER BY criterion"
        ).fetchall()

    found = {
        name: _Criterion(bool(is_binary) and target_range == (0.0, 1.0), target_range, key)
        for name, lowest, highest, is_binary, key in remembered(cursor, criteria)
        if (target_range := (float(lowest), float(highest)))
    }
    known = [name for name in CRITERION_METRICS if name in found]
    return {name: found[name] for name in [*known, *(name for name in found if name not in known)]}


def _chosen(metrics: By, known: list[str]) -> list[str]:
    """The metrics that are asked for, once each; all known ones for None."""
    chosen = several("metrics", metrics)
    for name in chosen:
        if name not in known:
            raise UnknownName("metric", name, known, place="the study")
    return chosen if metrics is not None else known


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


def _ledger(rows: list[tuple[Any, ...]], counts: Sequence[str], names: list[str]) -> pl.DataFrame:
    """Counts per group, with the panels and origins that they are over, sorted by group.

    From rows of a key, a panel, an origin, the counts, and the values of the group. Columns:
    `names`, `panel`, `origin`, `counts`, `_key`.
    """
    merging: dict[int, tuple[tuple[Any, ...], set[str], set[str], list[int]]] = {}
    for key, panel, origin, *rest in rows:
        group = tuple(rest[len(counts) : len(counts) + len(names)])
        _, panels, origins, sums = merging.setdefault(key, (group, set(), set(), [0] * len(counts)))
        panels.add(panel)
        origins.add(origin or "")
        for i in range(len(counts)):
            sums[i] += rest[i]
    if not names:  # one row, also when nothing matches
        merging.setdefault(0, ((), set(), set(), [0] * len(counts)))
    schema = {name: COLUMN_TYPES.get(name, pl.String) for name in names}
    schema |= {"_panel": pl.String, "origin": pl.String}
    schema |= dict.fromkeys(counts, pl.Int64) | {"_key": pl.UInt64}
    frame = pl.DataFrame(
        [
            (*group, "; ".join(sorted(panels)), merged(", ".join(origins)), *sums, key)
            for key, (group, panels, origins, sums) in merging.items()
        ],
        schema,
        orient="row",
    )
    if "panel" in names:
        frame = frame.drop("_panel")
    frame = frame.rename({"_panel": "panel"}, strict=False)
    return frame.sort(names, nulls_last=True) if names else frame


def _widen(
    ledger: pl.DataFrame,
    details: Mapping[tuple[str, int], intervals.Detail],
    names: list[str],
    chosen: list[str],
) -> pl.DataFrame:
    """The ledger with the metrics and then their details beside it."""
    none = intervals.Detail()
    found = [[details.get((name, key), none) for name in chosen] for key in ledger["_key"]]
    values = [(*(d.value for d in row), *(x for d in row for x in d[1:])) for row in found]
    schema = dict.fromkeys(chosen, pl.Float64) | {
        f"{name}_{end}": kind for name in chosen for end, kind in intervals.DETAILS.items()
    }
    return ledger.drop("_key").hstack(pl.DataFrame(values, schema, orient="row"))


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
