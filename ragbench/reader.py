"""The response reader: many annotated readings on one page that needs no kernel."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import Any

import duckdb

from ragbench import output
from ragbench.arguments import whole
from ragbench.errors import UnknownName
from ragbench.metrics import Where
from ragbench.reading import Reading, reading
from ragbench.slices import (
    CONSTRAINT_COLUMNS,
    RESPONSE_COLUMNS,
    conditions,
    mapping,
    panel_of,
    scope,
)
from ragbench.store import refresh
from ragbench.style import clean


def has_verdict(tests: str) -> str:
    """SQL that is true for responses s with a verdict v on a constraint c for which `tests` is."""
    return (
        "EXISTS (FROM constraint_verdicts AS v "
        "JOIN constraints AS c ON c.constraint_id = v.constraint_id "
        "LEFT JOIN dimensions AS d ON d.dimension = c.dimension "
        f"WHERE v.response_id = s.response_id AND v.panel = s.panel AND {tests})"
    )


_DISAGREE = (
    "EXISTS (SELECT j.criterion FROM judgments AS j "
    "WHERE j.response_id = s.response_id AND j.repeat = 0 AND j.score IS NOT NULL "
    "GROUP BY j.criterion, j.target_id HAVING min(j.score) < max(j.score))"
)
_LOST = (  # a verdict of the panel on the response as a whole
    "EXISTS (FROM judgments AS j JOIN panels AS p ON p.judge = j.judge WHERE p.panel = s.panel "
    "AND j.response_id = s.response_id AND j.target_id = s.response_id AND j.repeat = 0 "
    "AND j.error IS NOT NULL)"
)
SHOWN = {
    "all": ("true", "true"),
    "failed": ("v.score < 1", "true"),
    "errors": ("v.error IS NOT NULL", f"(s.has_error OR {_LOST})"),
    "untriggered": ("NOT v.is_triggered", "true"),
    "disagree": ("true", _DISAGREE),
}
"""Which responses to read: all that there are; with a failed constraint; those that are an error or
lost a verdict to one; with a constraint whose condition did not hold; on which judges disagree. Of
each what must hold of one of its verdicts on a constraint, and of the response."""


class Reader:
    """Readings, folded, on one page: notebooks show it, `save` writes it as a file."""

    def __init__(self, readings: list[tuple[str, Reading]], found: int) -> None:
        self.readings, self.found = readings, found

    def __len__(self) -> int:
        return len(self.readings)

    def __repr__(self) -> str:
        return f"{len(self)} of {self.found} responses"

    def _repr_html_(self) -> str:
        said = f"<p>{len(self)} of {self.found} responses</p>"
        pages = "".join(
            f"<details{' open' if len(self) == 1 else ''}>"
            f'<summary style="overflow-wrap:anywhere">{title}</summary>'
            f"{page._repr_html_()}</details>"
            for title, page in self._titled()
        )
        return f'<div class="mathjax_ignore tex2jax_ignore">{said}{pages}</div>'

    def _titled(self) -> list[tuple[str, Reading]]:
        return [(html.escape(clean(title)), page) for title, page in self.readings]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """The path of the page, one HTML file that needs nothing else.

        Raises:
            ExportFailed: it cannot be written.
        """
        look = (
            "body{font-family:sans-serif;margin:1.5em;color:#1a1a1a;background:#fff}"
            "details{margin:.4em 0}summary{cursor:pointer}td{padding:.3em .6em;"
            "border-top:1px solid #ddd}table{border-collapse:collapse}"
        )
        # Nothing on the page may run or be fetched, whatever the texts hold.
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        page = (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
            f"<title>Responses</title><style>{look}</style></head><body>"
            f"{self._repr_html_()}</body></html>"
        )
        return output.write(Path(path), page.encode("utf-8"))


def response_reader(
    con: duckdb.DuckDBPyConnection,
    where: Where = None,
    panel: str | None = None,
    *,
    show: str = "all",
    beside: str | None = None,
    limit: int = 20,
) -> Reader:
    """Responses to read, with documents, verdicts and reasons, on a page that needs no kernel.

    `where` as in `scores` and `constraint_scores`: with dimension, category, rule or constraint_id
    it is about responses with a verdict on such a constraint, and what `show` names about these
    verdicts. `show` narrows to one of `SHOWN`; `beside` is a model whose response to the same
    instance stands next to each. At most `limit`, those that fail most first.

    Raises:
        UnknownColumn, UnknownName: a column, panel or kind of response that there is not.

    Example:
        >>> page = response_reader(con, {"domain": "Legal"}, show="failed")  # doctest: +SKIP
        >>> page.save("legal.html")  # doctest: +SKIP
    """
    whole("limit", limit, 0)
    if show not in SHOWN:
        raise UnknownName("kind of response", show, SHOWN, place="the reader")
    refresh(con)
    cursor = con.cursor()
    given = mapping(where)
    of_responses = {name: value for name, value in given.items() if name in RESPONSE_COLUMNS}
    such = {name: value for name, value in given.items() if name not in RESPONSE_COLUMNS}
    condition, values = scope(cursor, of_responses, panel, RESPONSE_COLUMNS, "response_reader")
    narrower, more = conditions(cursor, such, CONSTRAINT_COLUMNS, "response_reader")
    of_verdict, of_response = SHOWN[show]
    has_such = "true"
    if such or (of_response == "true" and of_verdict != "true"):
        has_such = has_verdict(f"{of_verdict} AND {narrower}")
    is_shown = "true" if show == "errors" else "NOT s.is_failed"
    rows = cursor.sql(
        f"""
        SELECT s.response_id, s.domain, s.context_mode, s.satisfied, s.planned,
            s.is_failed, count(*) OVER () AS n,
            (SELECT min(b.response_id) FROM responses AS b WHERE b.instance_id = s.instance_id
                AND b.model = ? AND b.response_id <> s.response_id) AS beside
        FROM adherence_summary AS s LEFT JOIN models AS m ON m.model = s.model
        WHERE {condition} AND {of_response} AND {has_such} AND {is_shown}
            AND s.response_id IN (SELECT response_id FROM responses)
        ORDER BY s.satisfied / nullif(s.planned, 0), s.response_id LIMIT ?""",
        params=[beside, *values, *more, limit],
    ).fetchall()
    name = panel_of(cursor, given, panel)
    readings = [(_title(row), reading(con, row[0], name, beside=row[7])) for row in rows]
    return Reader(readings, rows[0][6] if rows else 0)


def _title(row: tuple[Any, ...]) -> str:
    response_id, domain, mode, satisfied, planned, is_failed = row[:6]
    met = "no response" if is_failed else f"{satisfied} of {planned} met"
    parts = [met, domain, mode, response_id]
    return " · ".join(str(part) for part in parts if part)
