"""`where` and `panel`: which rows a number is about, checked and bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb

from ragbench.errors import AmbiguousPanel, RagbenchError, UnknownColumn, UnknownName

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
"""Columns to group and filter responses by, and where the queries find them."""

CONSTRAINT_COLUMNS = RESPONSE_COLUMNS | {
    "category": "d.category::VARCHAR",
    "dimension": "c.dimension",
    "constraint_id": "c.constraint_id",
    "rule": "c.rule",
}
"""The same for single constraints."""


def conditions(
    where: Mapping[str, Any] | None, allowed: Mapping[str, str], place: str
) -> tuple[str, list[Any]]:
    """SQL that is true for the rows `where` names, and the values to bind.

    A list means any of its values, None means no value.

    Raises:
        UnknownColumn: a column that is not among `allowed`.

    >>> conditions({"domain": ["Legal", "Medical"], "variant": None}, RESPONSE_COLUMNS, "scores")
    ('(s.domain IN (?, ?)) AND (s.variant IS NULL)', ['Legal', 'Medical'])
    """
    parts: list[str] = []
    values: list[Any] = []
    for name, value in (where or {}).items():
        if name not in allowed:
            raise UnknownColumn(place, name, allowed)
        is_many = isinstance(value, Iterable) and not isinstance(value, (str, bytes))
        options = list(value) if is_many else [value]
        known = [option for option in options if option is not None]
        tests = []
        if known:
            tests.append(f"{allowed[name]} IN ({', '.join('?' * len(known))})")
        if len(known) < len(options):
            tests.append(f"{allowed[name]} IS NULL")
        parts.append(f"({' OR '.join(tests) or 'false'})")
        values.extend(known)
    return " AND ".join(parts) or "true", values


def grouping(by: str | Sequence[str] | None, allowed: Mapping[str, str], place: str) -> list[str]:
    """The names in `by` as a list; raises UnknownColumn for one that is not allowed."""
    names = [by] if isinstance(by, str) else list(by or ())
    for name in names:
        if name not in allowed:
            raise UnknownColumn(place, name, allowed)
    return list(dict.fromkeys(names))


def panel_name(con: duckdb.DuckDBPyConnection, panel: str | None) -> str:
    """The full name of the panel meant: `panel` itself, its judge, or the study's primary panel.

    Raises:
        RagbenchError: nothing has been judged yet.
        UnknownName: no such panel or judge.
        AmbiguousPanel: several panels fit; a number must not mix them.
    """
    rows = con.execute("SELECT panel, judge, kind FROM panels ORDER BY panel").fetchall()
    if not rows:
        raise RagbenchError(
            "this study has no judge yet, so there are no verdicts to score. Judge it with "
            "ragbench.judge(path, 'rules'), or bring verdicts in with `ragbench import`."
        )
    primary = con.execute("SELECT primary_panel FROM study").fetchall()[0][0]
    if (wanted := panel or primary) is not None:
        fits = [name for name, judge, _ in rows if wanted == name]
        fits = fits or [name for name, judge, _ in rows if wanted == judge]
        if not fits:
            raise UnknownName("panel", wanted, [row[0] for row in rows], place="the study")
    else:
        # Without a choice: the only LLM's panel, else the only rule set, else the only person.
        fits = next(
            names
            for kind in ("llm", "rule", "human")
            if (names := [name for name, _, of_kind in rows if of_kind == kind])
        )
    if len(fits) > 1:
        raise AmbiguousPanel(
            f"several panels fit ({', '.join(fits)}) and one number must not mix them. Name one "
            "with panel=…, compare them with by='panel', or set the study's primary_panel."
        )
    return str(fits[0])
