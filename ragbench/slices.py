"""`where` and `panel`: which rows a number is about, checked and bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import polars as pl

from ragbench import taxonomy
from ragbench.arguments import several
from ragbench.errors import AmbiguousPanel, RagbenchError, UnknownColumn, UnknownName
from ragbench.store import remembered

RESPONSE_COLUMNS = {
    name: f"s.{name}"
    for name in (
        "panel",
        "benchmark",
        "domain",
        "language",
        "context_mode",
        "variant",
        "is_augmented",
        "model",
        "setting",
        "trial",
        "query_id",
        "instance_id",
        "response_id",
    )
} | {name: f"m.{name}" for name in ("label", "family", "paradigm", "is_open", "params_b")}
_SHOWN = (
    "s.instance_id IN (SELECT shown.instance_id FROM instance_constraints AS shown "
    "JOIN constraints AS of USING (constraint_id) WHERE of.dimension = '{}')"
)
RESPONSE_COLUMNS["has_protocol"] = (  # the matching one, as in Figure 6; null in noise
    f"(CASE s.context_mode WHEN 'gap' THEN {_SHOWN.format('knowledge_gap')} "
    f"WHEN 'conflict' THEN {_SHOWN.format('conflict_handling')} END)"
)
"""Columns to group and filter responses by, and where the queries find them."""

CONSTRAINT_COLUMNS = RESPONSE_COLUMNS | {
    "category": "d.category::VARCHAR",
    "dimension": "c.dimension",
    "constraint_id": "c.constraint_id",
    "rule": "c.rule",
}
"""The same for single constraints."""

COLUMN_TYPES: dict[str, pl.DataType | type[pl.DataType]] = {
    "trial": pl.Int32,
    "params_b": pl.Float64,
    "is_augmented": pl.Boolean,
    "is_open": pl.Boolean,
    "has_protocol": pl.Boolean,
}
"""The types of those that are no text."""


def conditions(
    con: duckdb.DuckDBPyConnection,
    where: Mapping[str, Any] | None,
    allowed: Mapping[str, str],
    place: str,
) -> tuple[str, list[Any]]:
    """SQL that is true for the rows `where` names, and the values to bind.

    A list means any of its values, None means no value. A number for a column of text is taken
    as text; text for a column of numbers or truth values is read as one.

    Raises:
        UnknownColumn: a column that is not among `allowed`.
        UnknownName: a value that its column has nowhere in the study.
        RagbenchError: `where` is no mapping, or a value cannot be in its column.

    Example:
        >>> conditions(con, {"domain": ["Legal", "Medical"], "variant": None},
        ...            RESPONSE_COLUMNS, "scores")  # doctest: +SKIP
        ('(s.domain IN (?, ?)) AND (s.variant IS NULL)', ['Legal', 'Medical'])
    """
    parts: list[str] = []
    values: list[Any] = []
    for name, value in mapping(where).items():
        if name not in allowed:
            raise UnknownColumn(place, name, allowed)
        options = _listed(value)
        known = [_fitting(name, option) for option in options if option is not None]
        _refuse_unknown(con, name, known)
        tests = []
        if known:
            tests.append(f"{allowed[name]} IN ({', '.join('?' * len(known))})")
        if len(known) < len(options):
            tests.append(f"{allowed[name]} IS NULL")
        parts.append(f"({' OR '.join(tests) or 'false'})")
        values.extend(known)
    return " AND ".join(parts) or "true", values


def mapping(where: Any) -> Mapping[str, Any]:
    """`where` itself, {} for None; raises RagbenchError for what is no mapping."""
    if where is not None and not isinstance(where, Mapping):
        raise RagbenchError(
            f"where is a mapping of columns to values, such as {{'domain': 'Legal'}}, "
            f"and not {str(where)[:80]!r}."
        )
    return where or {}


_VALUES = {
    "model": "SELECT model FROM models UNION SELECT model FROM wanted",
    "setting": "SELECT setting FROM wanted",
    "benchmark": "SELECT benchmark FROM queries",
    "domain": "SELECT domain FROM queries",
    "language": "SELECT language FROM queries",
    "query_id": "SELECT query_id FROM queries",
    "instance_id": "SELECT instance_id FROM instances",
    "variant": "SELECT variant FROM instances",
    "label": "SELECT label FROM models",
    "family": "SELECT family FROM models",
    "paradigm": "SELECT paradigm FROM models",
    "dimension": "SELECT dimension FROM dimensions",
    "constraint_id": "SELECT constraint_id FROM constraints",
    "rule": "SELECT rule FROM constraints",
}
"""The values that columns of text can have in a study; of the others any value is looked for."""

_CLOSED = {"context_mode": taxonomy.CONTEXT_MODES, "category": taxonomy.CATEGORIES}
"""Columns with values of which a study need not have all."""


def _refuse_unknown(con: duckdb.DuckDBPyConnection, name: str, wanted: Sequence[Any]) -> None:
    """Raise for a value that the study does not have: an empty slice would hide the misspelling."""
    if not wanted or name not in {*_VALUES, *_CLOSED}:
        return

    def values() -> dict[str, set[str | None]]:
        return {column: {entry.key for entry in entries} for column, entries in _CLOSED.items()}

    known = remembered(con, values)
    if name not in known:
        found = con.execute(f"SELECT DISTINCT * FROM ({_VALUES[name]})").fetchall()
        known[name] = {value for (value,) in found}
    options = sorted(option for option in known[name] if option is not None)
    remedy = f"Rows without one: where={{'{name}': None}}." if None in known[name] else ""
    for value in wanted:
        if value not in known[name]:
            raise UnknownName(name, value, options, place="the study", remedy=remedy)


_TYPED: dict[str, tuple[type, str]] = {
    "trial": (int, "a whole number"),
    "params_b": (float, "a number"),
    "is_augmented": (bool, "true or false"),
    "is_open": (bool, "true or false"),
    "has_protocol": (bool, "true or false"),
}
_WORDS = {"true": True, "false": False}


def _fitting(name: str, value: Any) -> Any:
    """`value` in the type of the column, so that the database compares like with like."""
    if name not in _TYPED:
        return str(value)
    kind, words = _TYPED[name]
    try:
        if kind is bool:
            return value if isinstance(value, bool) else _WORDS[str(value).casefold()]
        number = kind(value)
        if isinstance(value, bool) or number != float(value):
            raise ValueError
    except (KeyError, TypeError, ValueError, OverflowError):
        raise RagbenchError(f"where: {name} is {words}, and not {str(value)[:80]!r}.") from None
    return number


def scope(
    con: duckdb.DuckDBPyConnection,
    where: Mapping[str, Any] | None,
    panel: str | None,
    allowed: Mapping[str, str],
    place: str,
    *,
    by: Sequence[str] = (),
) -> tuple[str, list[Any]]:
    """As `conditions`, with one panel: the one that `panel` and `where` name, else the primary.

    With "panel" in `by` panels are what is compared, and all those that both allow are kept.

    Raises:
        AmbiguousPanel: several panels fit; a number must not mix them.
        RagbenchError: `panel` and `where` name different ones.
    """
    where = dict(mapping(where))
    if "panel" not in by:
        where["panel"] = panel_of(con, where, panel)
    elif (names := _allowed(con, where, panel)) is not None:
        where["panel"] = names
    elif "panel" in where:  # with no value: as if it were not there
        del where["panel"]
    return conditions(con, where, allowed, place)


def panel_of(
    con: duckdb.DuckDBPyConnection, where: Mapping[str, Any] | None, panel: str | None
) -> str:
    """The full name of the one panel that `where` and `panel` name, else the study's primary one.

    Raises:
        AmbiguousPanel: several panels fit; a number must not mix them.
        RagbenchError: `panel` and `where` name different ones, or nothing has been judged yet.
    """
    names = _allowed(con, where, panel)
    named = _listed(mapping(where).get("panel"))
    if names is None:
        return panel_name(con, None)
    if not names:
        raise RagbenchError("where names no panel: name one, or leave it out for the primary one.")
    if len(names) > 1 and panel is None and len(named) > 1:
        raise AmbiguousPanel(
            f"where names several panels ({', '.join(map(str, named))}), and one number must not "
            "mix them. Name one, or add 'panel' to by."
        )
    return _only(names)


def _allowed(
    con: duckdb.DuckDBPyConnection, where: Mapping[str, Any] | None, panel: str | None
) -> list[str] | None:
    """The panels that both `where` and `panel` name; None where neither names any."""
    named = _listed(mapping(where).get("panel"))
    if named == [None]:
        return None if panel is None else panel_names(con, panel)
    names = list(dict.fromkeys(name for one in named for name in panel_names(con, one)))
    if panel is None or not named:
        return names
    both = [name for name in names if name in panel_names(con, panel)]
    if not both:
        raise RagbenchError(
            f"panel names {panel!r} and where names {', '.join(map(repr, named))}: no verdict is "
            "by both. Leave one of them out."
        )
    return both


def _listed(value: Any) -> list[Any]:
    is_many = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
    return list(value) if is_many else [value]


def grouping(by: str | Sequence[str] | None, allowed: Mapping[str, str], place: str) -> list[str]:
    """The names in `by`, once each.

    Raises:
        UnknownColumn: one that is not allowed.
        RagbenchError: `by` is neither a name nor several.
    """
    names = several("by", by)
    for name in names:
        if name not in allowed:
            raise UnknownColumn(place, name, allowed)
    return names


def panel_name(con: duckdb.DuckDBPyConnection, panel: str | None) -> str:
    """The full name of the panel meant: `panel` itself, its judge, or the study's primary panel.

    Raises:
        RagbenchError: nothing has been judged yet.
        UnknownName: no such panel or judge.
        AmbiguousPanel: several panels fit; a number must not mix them.
    """
    return _only(panel_names(con, panel))


def _only(fits: Sequence[str]) -> str:
    if len(fits) > 1:
        raise AmbiguousPanel(
            f"several panels fit ({', '.join(fits)}) and one number must not mix them. Name one "
            "with panel=…, compare them with by='panel', or choose the study's own for good: "
            f"ragbench.append(path, 'study', {{'primary_panel': {fits[0]!r}}})."
        )
    return fits[0]


def panel_names(con: duckdb.DuckDBPyConnection, panel: str | None) -> list[str]:
    """The full names of the panels that `panel` may mean (see `panel_name`), at least one.

    A judge that is a model may be named without the hash behind its `@`. None means the study's
    primary panel; where it has none, the only LLM's, else the only rule set, else the only person,
    among those that have given a score.
    """

    def panels() -> list[tuple[Any, ...]]:
        return con.execute(
            "SELECT panel, judge, kind, (SELECT primary_panel FROM study) FROM panels "
            "ORDER BY panel"
        ).fetchall()

    found = remembered(con, panels)
    rows = [row[:3] for row in found]
    if not rows:
        raise RagbenchError(
            "this study has no judge yet, so there are no verdicts to score. Judge it with "
            "ragbench.judge(path, 'rules'), or bring verdicts in with `ragbench import`."
        )
    wanted = found[0][3] if panel is None else panel
    if wanted is None:

        def default() -> list[str]:
            return _without_a_choice(con, rows)

        return list(remembered(con, default))
    fits = [name for name, _, _ in rows if wanted == name]
    fits = fits or [name for name, judge, _ in rows if wanted == judge]
    fits = fits or [name for name, judge, _ in rows if wanted == judge.rpartition("@")[0]]
    if not fits:
        options = dict.fromkeys([*(row[0] for row in rows), *(row[1] for row in rows)])
        raise UnknownName("panel", wanted, options, place="the study")
    return fits


def _without_a_choice(
    con: duckdb.DuckDBPyConnection, rows: Sequence[tuple[str, str, str]]
) -> list[str]:
    """The panels of the first kind that has a judge with a score; with none at all, of the first.

    A judge whose verdicts are all errors would take every number away from one that has some.
    """
    kinds = [
        names
        for kind in ("llm", "rule", "human")
        if (names := [(name, judge) for name, judge, of_kind in rows if of_kind == kind])
    ]

    def has_scored(judge: str) -> bool:
        # It ends at the first score, and reads all verdicts only for a judge without any.
        sql = "SELECT 1 FROM judgments WHERE judge = ? AND score IS NOT NULL AND repeat = 0 LIMIT 1"
        return bool(con.execute(sql, [judge]).fetchall())

    if len(rows) > 1:
        for names in kinds:
            if scored := [name for name, judge in names if has_scored(judge)]:
                return scored
    return [name for name, _ in kinds[0]]
