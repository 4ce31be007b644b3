"""The responses behind a point of the explorer's picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import polars as pl

from ragbench.comparisons import are_paired, side_scope, unit
from ragbench.exploring import OF_CONSTRAINTS, Look
from ragbench.facts import value_label
from ragbench.reader import has_verdict
from ragbench.slices import CONSTRAINT_COLUMNS, RESPONSE_COLUMNS, conditions, scope
from ragbench.store import reading
from ragbench.style import label as shown

MOST = 200
"""How many responses are listed."""


def point(
    state: Mapping[str, Any], look: Look, place: int | Sequence[int], label: str
) -> dict[str, Any]:
    """What a point of a picture stands for, as columns and values.

    `place` is its number, or row and column of a cell; `label` the name of its trace. Of dimensions
    that fail together the second is `other`; a comparison stands for both its sides: {}.
    """
    view, by = state["view"], state["by"]
    if view in ("heatmap", "failing together"):
        assert not isinstance(place, int)
        names = (by, state["across"]) if view == "heatmap" else ("dimension", "other")
        return {name: look.cells[i][place[i]] for i, name in enumerate(names)}
    name = "dimension" if view == "profile" else by
    return {} if view == "paired" else {name: _value(look.frame, name, label)}


def _value(frame: pl.DataFrame, column: str, text: str) -> Any:
    """The value of `column` whose label in a picture is `text`."""
    for value in frame[column].unique():
        name = value_label(column, value)
        if text in (value, str(value), name, shown(name)):
            return value
    return text


def words(at: Mapping[str, Any]) -> str:
    """What the responses at a `point` have in common."""
    if not at:
        return "of both sides"
    if "other" in at:
        return f"that failed {at['dimension']} and {at['other']}"
    said = ", ".join(f"{name} = {value}" for name, value in at.items())
    return f"that failed {said}" if OF_CONSTRAINTS & at.keys() else f"of {said}"


def responses(
    con: duckdb.DuckDBPyConnection, state: Mapping[str, Any], at: Mapping[str, Any]
) -> pl.DataFrame:
    """One row per response at a `point` of the picture of `state`, at most `MOST`.

    Columns: response_id; beside (another response to read next to it, or null); model, setting,
    domain, context_mode; planned constraints, judged, satisfied. Those that fail most come first;
    of a comparison of the same instances, those that differ most, each with the other side's
    beside it.
    """
    if state["view"] == "paired":
        return _compared(con, state)
    cursor = reading(con)
    where = {**state["where"], **{name: at[name] for name in at if name != "other"}}
    of_responses = {name: value for name, value in where.items() if name in RESPONSE_COLUMNS}
    such = {name: value for name, value in where.items() if name not in RESPONSE_COLUMNS}
    condition, values = scope(
        cursor, of_responses, state["panel"], RESPONSE_COLUMNS, "the explorer"
    )
    failed = [such] if such else []
    if "other" in at:
        failed.append({**such, "dimension": at["other"]})
    for one in failed:  # those that failed such a constraint
        narrower, more = conditions(cursor, one, CONSTRAINT_COLUMNS, "the explorer")
        condition += f" AND {has_verdict(f'v.score < 1 AND {narrower}')}"
        values += more
    return cursor.sql(
        f"SELECT s.response_id, NULL::VARCHAR AS beside, {_COLUMNS} FROM adherence_summary AS s "
        f"LEFT JOIN models AS m ON m.model = s.model WHERE {condition} AND s.is_answered "
        f"ORDER BY s.satisfied / nullif(s.planned, 0), s.response_id LIMIT {MOST}",
        params=values,
    ).pl()


_COLUMNS = "s.model, s.setting, s.domain, s.context_mode, s.planned, s.judged, s.satisfied"


def _compared(con: duckdb.DuckDBPyConnection, state: Mapping[str, Any]) -> pl.DataFrame:
    """The responses of both sides; of the same instances in pairs."""
    cursor = reading(con)
    tables, values = [], []
    for side in (state["a"], state["b"]):
        condition, own, _ = side_scope(cursor, side, state["where"], state["panel"])
        tables.append(
            f"SELECT s.response_id, s.instance_id, {_COLUMNS} FROM adherence_summary AS s "
            f"LEFT JOIN models AS m ON m.model = s.model WHERE {condition} AND s.is_answered"
        )
        values += own
    a, b = tables
    share = "coalesce({0}.satisfied / nullif({0}.planned, 0), 0)"
    if are_paired(state["a"], state["b"]):
        same = " AND ".join(
            f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in unit(state["a"], state["b"])
        )
        sql = (
            f"SELECT a.response_id, b.response_id AS beside, a.* EXCLUDE (response_id) "
            f"FROM ({a}) AS a JOIN ({b}) AS b ON {same} ORDER BY "
            f"abs({share.format('a')} - {share.format('b')}) DESC, a.response_id, b.response_id"
        )
    else:
        sql = (
            "SELECT u.response_id, NULL::VARCHAR AS beside, u.* EXCLUDE (response_id) "
            f"FROM ({a} UNION ALL {b}) AS u ORDER BY {share.format('u')}, response_id"
        )
    return cursor.sql(f"{sql} LIMIT {MOST}", params=values).pl().drop("instance_id")
