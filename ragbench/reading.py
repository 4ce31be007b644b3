"""One response as an annotated reading: query, documents, text, and every verdict with its reason.

The shape is that of Figure 15 of EnterpriseRAG (arXiv 2608.11584). Whatever a model, a document or
a judge wrote is shown as it is written: no markup in it takes effect.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import duckdb
import polars as pl

from ragbench import style, taxonomy
from ragbench.errors import UnknownName
from ragbench.facts import SIMULATED
from ragbench.metrics import Where
from ragbench.slices import RESPONSE_COLUMNS, panel_name, scope
from ragbench.store import refresh

Con = duckdb.DuckDBPyConnection

_LONGEST = 4000  # letters of one text that are shown


def failing(con: Con, where: Where = None, panel: str | None = None) -> pl.DataFrame:
    """One row per response that was judged in full and misses a constraint.

    Columns: response_id, model, setting, domain, context_mode; satisfied of planned constraints;
    is_gap_missed (in a gap, the knowledge-gap protocol was not followed, as in Figure 15 of the
    paper); origin. Those come first, then those with the largest share and number of constraints
    met; then by response_id.
    """
    refresh(con)
    cursor = con.cursor()
    condition, values = scope(cursor, where, panel, RESPONSE_COLUMNS, "failing")
    return cursor.sql(
        "SELECT s.response_id, s.model, s.setting, s.domain, s.context_mode::VARCHAR AS "
        "context_mode, s.satisfied, s.planned, coalesce(s.context_mode = 'gap' AND "
        "s.gap_planned > s.gap_followed, false) AS is_gap_missed, s.origin "
        "FROM adherence_summary AS s LEFT JOIN models AS m ON m.model = s.model "
        f"WHERE {condition} AND s.judged = s.planned AND s.satisfied < s.planned "
        "ORDER BY is_gap_missed DESC, s.satisfied / s.planned DESC, s.planned DESC, s.response_id",
        params=values,
    ).pl()


def verdicts(con: Con, response_id: str, panel: str | None = None) -> pl.DataFrame:
    """One row per constraint of a response: what was asked, the panel's verdict, and why.

    Columns: ordinal, category, dimension, constraint, verdict (*met*, *not met*, *not triggered*:
    its condition did not hold, *error: …*, *not judged*), reason, judge, raw (what the judge
    wrote), parse_path (how the verdict was read from it), others (what other judges say). In the
    order in which the model saw them; then the verdicts on the response as a whole (no ordinal,
    category *response*).

    Raises:
        UnknownName: no such response, or no such panel.
    """
    refresh(con)
    cursor = con.cursor()
    heading(cursor, response_id)
    name = panel_name(cursor, panel)
    rows = cursor.sql(_VERDICTS, params={"response": response_id, "panel": name}).pl()
    return rows.select(
        "ordinal",
        "category",
        "dimension",
        "constraint",
        pl.when(pl.col("error").is_not_null())
        .then(pl.concat_str(pl.lit("error: "), "error"))
        .when(pl.col("score").is_null())
        .then(pl.lit("not judged"))
        .when(~pl.col("is_triggered").fill_null(True))
        .then(pl.lit("not triggered"))
        .when(pl.col("score") >= 1)
        .then(pl.lit("met"))
        .otherwise(pl.lit("not met"))
        .alias("verdict"),
        "reason",
        "judge",
        "raw",
        "parse_path",
        "others",
    )


_EVIDENCE = (
    "LEFT JOIN evidence AS e ON e.response_id = j.response_id AND e.criterion = j.criterion "
    "AND e.target_id = j.target_id AND e.judge = j.judge AND e.repeat = j.repeat "
)
_OTHERS = (
    "(SELECT string_agg(o.judge || ': ' || coalesce(o.score::VARCHAR, 'error'), '; ' "
    "ORDER BY o.judge) FROM judgments AS o WHERE o.response_id = j.response_id "
    "AND o.criterion = j.criterion AND o.target_id = j.target_id AND o.repeat = 0 "
    "AND o.judge <> j.judge) AS others"
)
_VERDICTS = f"""
    SELECT ic.ordinal, d.category::VARCHAR AS category, coalesce(d.label, c.dimension) AS dimension,
        c.text AS "constraint", j.score, j.is_triggered, j.error, e.reason, j.judge, e.raw,
        e.parse_path, {_OTHERS}
    FROM responses AS r JOIN instance_constraints AS ic USING (instance_id)
    JOIN constraints AS c USING (constraint_id) LEFT JOIN dimensions AS d USING (dimension)
    JOIN panels AS p ON p.panel = $panel
    LEFT JOIN judgments AS j ON j.response_id = r.response_id AND j.criterion = 'adherence'
        AND j.target_id = c.constraint_id AND j.repeat = 0
        AND j.judge = CASE WHEN c.rule IS NULL THEN p.judge ELSE p.rules END
    {_EVIDENCE} WHERE r.response_id = $response
    UNION ALL BY NAME
    SELECT NULL AS ordinal, 'response' AS category, j.criterion AS dimension,
        k.description AS "constraint", j.score, j.is_triggered, j.error, e.reason, j.judge, e.raw,
        e.parse_path, {_OTHERS}
    FROM judgments AS j JOIN panels AS p ON p.judge = j.judge AND p.panel = $panel
    LEFT JOIN criteria AS k ON k.criterion = j.criterion
    {_EVIDENCE} WHERE j.response_id = $response AND j.target_id = $response AND j.repeat = 0
    ORDER BY ordinal NULLS LAST, dimension
"""


def same_instance(con: Con, response_id: str, panel: str | None = None) -> pl.DataFrame:
    """One row per constraint and response to the same instance: what fails for all, what for some?

    Columns: response (of model, setting and trial what tells them apart), requirement (its number
    and dimension), met (1 or 0; null where there is no verdict), n (1), panel, origin. By
    requirement.

    Raises:
        UnknownName: no such response, or no such panel.
    """
    refresh(con)
    cursor = con.cursor()
    heading(cursor, response_id)
    parts = ("model", "setting", "trial")
    rows = cursor.sql(
        """
        SELECT r.model, r.setting, 'trial ' || r.trial AS trial,
            ic.ordinal || ' ' || coalesce(d.label, c.dimension, '') AS requirement,
            j.score AS met, CASE WHEN j.score IS NOT NULL THEN 1 ELSE 0 END AS n, p.panel, s.origin
        FROM responses AS r JOIN planned_responses AS s USING (response_id)
        JOIN instance_constraints AS ic ON ic.instance_id = r.instance_id
        JOIN constraints AS c USING (constraint_id) LEFT JOIN dimensions AS d USING (dimension)
        JOIN panels AS p ON p.panel = $panel
        LEFT JOIN judgments AS j ON j.response_id = r.response_id AND j.criterion = 'adherence'
            AND j.target_id = c.constraint_id AND j.repeat = 0
            AND j.judge = CASE WHEN c.rule IS NULL THEN p.judge ELSE p.rules END
        WHERE r.instance_id = (SELECT instance_id FROM responses WHERE response_id = $response)
        ORDER BY ic.ordinal, r.model, r.setting, r.trial
        """,
        params={"response": response_id, "panel": panel_name(cursor, panel)},
    ).pl()
    telling = [name for name in parts if rows[name].n_unique() > 1] or ["model"]
    named = rows.with_columns(response=pl.concat_str(telling, separator=" · "))
    return named.select("response", pl.exclude(*parts, "response"))


def documents(con: Con, response_id: str) -> pl.DataFrame:
    """One row per document that the model saw: rank, role, doc_id, title, text. In that order.

    Raises:
        UnknownName: no such response.
    """
    refresh(con)
    cursor = con.cursor()
    return retrieved(cursor, heading(cursor, response_id)["instance_id"])


def retrieved(con: Con, instance_id: str) -> pl.DataFrame:
    """One row per document in the context of an instance, as `documents` gives them."""
    return con.sql(
        "SELECT x.rank, x.role::VARCHAR AS role, x.doc_id, d.title, d.text FROM contexts AS x "
        "LEFT JOIN documents AS d USING (doc_id) WHERE x.instance_id = ? ORDER BY x.rank",
        params=[instance_id],
    ).pl()


def heading(cursor: Con, response_id: str) -> dict[str, Any]:
    """The response and its query."""
    found = cursor.sql(
        "SELECT r.text AS response, r.reasoning, r.error, r.instance_id, r.model, r.setting, "
        "q.text AS query, q.domain, "
        "i.context_mode::VARCHAR AS context_mode, s.origin FROM responses AS r "
        "JOIN instances AS i USING (instance_id) JOIN queries AS q USING (query_id) "
        "LEFT JOIN planned_responses AS s ON s.response_id = r.response_id "
        "WHERE r.response_id = ?",
        params=[response_id],
    ).pl()
    if found.is_empty():
        known = cursor.execute("SELECT response_id FROM responses ORDER BY 1 LIMIT 50").fetchall()
        raise UnknownName("response", response_id, [row[0] for row in known], place="the study")
    return found.row(0, named=True)


class Reading:
    """An annotated reading: notebooks show it as a page, `print` as plain text.

    A head without a response makes the reading of an instance: without panel and verdicts, and
    without documents when `shown` is None.
    """

    def __init__(
        self,
        head: dict[str, Any],
        shown: pl.DataFrame | None,
        judged: pl.DataFrame,
        panel: str,
        *,
        conflicts: pl.DataFrame | None = None,
        beside: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.head, self.verdicts, self.panel = head, judged, panel
        self.documents = pl.DataFrame() if shown is None else shown
        self._has_documents, self._is_answered = shown is not None, "response" in head
        self.conflicts = pl.DataFrame() if conflicts is None else conflicts
        self.beside = beside

    def _facts(self) -> list[str]:
        head = self.head
        modes = {entry.key: entry.label for entry in taxonomy.CONTEXT_MODES}
        parts = [head.get("model"), head.get("setting"), head["domain"]]
        parts.append(modes.get(head["context_mode"]))
        if self._is_answered:
            origin = SIMULATED if head["origin"] == "simulated" else head["origin"]
            parts += [f"panel: {self.panel}", origin]
        return [str(part) for part in parts if part]

    def __str__(self) -> str:
        lines = [" · ".join(self._facts()), "", f"Query: {_plain(self.head['query'])}", ""]
        for row in self.documents.iter_rows(named=True):
            lines.append(f"[{row['rank']}, {row['role']}] {_plain(row['title'])}")
            lines.append(f"    {_plain(row['text'])}")
        if self._is_answered:
            lines += ["", f"Response: {_plain(self.head['response'] or self.head['error'])}", ""]
        for row in self.verdicts.iter_rows(named=True):
            sign = _mark(row["verdict"]) if self._is_answered else "-"
            lines.append(f"{sign} {row['dimension']}: {_plain(row['constraint'])}")
            if self._is_answered:
                lines.append(f"    {row['verdict']}: {_plain(row['reason'])}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        said = " · ".join(_safe(text) for text in self._facts())
        said = said.replace(SIMULATED, f'<b style="{_chip(style.ALARM)}">{SIMULATED}</b>')
        papers = [
            _line(f"{row['rank']}", _tag(row["role"]), _block(row["title"], row["text"]))
            for row in self.documents.iter_rows(named=True)
        ]
        parts = [f"<small>{said}</small>"]
        parts.append(_section("Query", f"<div>{_safe(self.head['query'])}</div>"))
        if self._has_documents:
            title = "Documents, as the model saw them" if self._is_answered else "Documents"
            parts.append(_section(title, _table(papers)))
        parts += [_conflicts(self.conflicts), *self._judged()]
        look = "max-width:60em;text-align:left;line-height:1.45"
        return f'<div class="mathjax_ignore tex2jax_ignore" style="{look}">{"".join(parts)}</div>'

    def _judged(self) -> list[str]:
        """The response with its verdicts; of an instance what is demanded."""
        rows = list(self.verdicts.iter_rows(named=True))
        if not self._is_answered:
            return [_section("Every requirement", _table([_line(_demand(row)) for row in rows]))]
        answers = [_answer(self.head), *map(_answer, self.beside)]
        return [
            _section("Response" if len(answers) == 1 else "Responses", _columns(answers)),
            _section("Every requirement: verdict, and why", _table([_judged(row) for row in rows])),
        ]


def reading(
    con: Con, response_id: str, panel: str | None = None, *, beside: str | None = None
) -> Reading:
    """The annotated reading of one response: a page in notebooks, plain text when printed.

    Query, documents with their roles and what contradicts what in them, the response (its reasoning
    folded away), and each of `verdicts` with what its judge wrote. `beside` is another response to
    the same instance, shown next to it. All texts are escaped.

    Raises:
        UnknownName: no such response, or no such panel.

    Example:
        >>> reading(con, failing(con)["response_id"][0])  # doctest: +SKIP
    """
    refresh(con)
    cursor = con.cursor()
    head = heading(cursor, response_id)
    name = panel_name(cursor, panel)
    other = [heading(cursor, beside)] if beside else []
    return Reading(
        head,
        documents(con, response_id),
        verdicts(con, response_id, name),
        name,
        conflicts=cursor.sql(
            "SELECT point, array_to_string(doc_ids, ', ') AS documents, summary, affects_answer "
            "FROM conflict_points WHERE instance_id = ? ORDER BY point",
            params=[head["instance_id"]],
        ).pl(),
        beside=other,
    )


def _judged(row: dict[str, Any]) -> str:
    why = f"{_safe(row['reason'])}<br><small>{_safe(row['judge'])}</small>"
    if row.get("others"):
        why += f"<br><small>others: {_safe(row['others'])}</small>"
    if row.get("raw"):
        way = f" (read as {_safe(row['parse_path'])})" if row.get("parse_path") else ""
        why += _folded(f"what the judge wrote{way}", _safe(row["raw"]))
    return _line(_tag(row["verdict"]), _demand(row), why)


def _demand(row: dict[str, Any]) -> str:
    return f"<b>{_safe(row['dimension'])}</b><br>{_safe(row['constraint'])}"


def _answer(head: dict[str, Any]) -> str:
    who = " · ".join(_safe(head[name]) for name in ("model", "setting") if head[name])
    text = _safe(head["response"] or head["error"])
    thought = head.get("reasoning")
    return (
        (f"<div><small>{who}</small></div>" if who else "")
        + (_folded("reasoning", _safe(thought)) if thought else "")
        + f"<div>{text}</div>"
    )


def _columns(cells: list[str]) -> str:
    if len(cells) == 1:
        return cells[0]
    return _table([_line(*cells)]).replace("<table", '<table style="table-layout:fixed;width:100%"')


def _conflicts(points: pl.DataFrame) -> str:
    lines = [
        _line(
            _safe(row["documents"]),
            _safe(row["summary"]),
            "changes the answer" if row["affects_answer"] else "",
        )
        for row in points.iter_rows(named=True)
    ]
    return _section("What contradicts what", _table(lines)) if lines else ""


def _folded(title: str, content: str) -> str:
    return f"<details><summary><small>{title}</small></summary>{content}</details>"


def _plain(text: object) -> str:
    return style.clean(_cut("–" if text is None else str(text)))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text):,} letters in all)"


def _safe(text: object) -> str:
    """Text for a page, line by line: nothing in it is markup, a formula or a mark of direction."""
    lines = _cut("–" if text is None else str(text)).splitlines() or [""]
    return "<br>".join(
        "<wbr>".join(
            html.escape(piece).replace("$", "<span>$</span>")
            for piece in _RUN.findall(style.clean(line))
        )
        for line in lines
    )


_RUN = re.compile(r"[!-~]{30}(?=[!-~])|(?:(?![!-~]{31}).)+")
"""Pieces of a line: a long address or number may break where its page is narrow."""


_TONES = {"met": "#00695C", "not met": style.ALARM, "support": "#00695C", "conflict": style.ALARM}
_SIGNS = {"met": "✓", "not met": "✗", "not triggered": "○"}


def _mark(verdict: str) -> str:
    return _SIGNS.get(verdict, "?")


def _tag(word: str | None) -> str:
    """A verdict or a role, told by its word and its sign and not by colour alone."""
    if not word:
        return "–" if word is None else ""
    text = word
    sign = f"{_SIGNS[text]} " if text in _SIGNS else ""
    look = _chip(_TONES.get(text, style.QUIET)) + ("" if len(text) > 20 else ";white-space:nowrap")
    return f'<b style="{look}">{sign}{_safe(text)}</b>'


def _chip(colour: str) -> str:
    """White on a colour: legible whatever the page behind it, light or dark."""
    return f"color:#fff;background-color:{colour};padding:0 .35em;border-radius:3px"


def _block(title: object, text: object) -> str:
    return (f"<b>{_safe(title)}</b><br>" if title else "") + _safe(text)


def _line(*cells: str) -> str:
    look = "text-align:left;vertical-align:top;white-space:normal"
    return "<tr>" + "".join(f'<td style="{look}">{cell}</td>' for cell in cells) + "</tr>"


def _table(lines: list[str]) -> str:
    return f"<table><tbody>{''.join(lines)}</tbody></table>" if lines else "<div>–</div>"


def _section(title: str, content: str) -> str:
    return f'<div style="margin-top:0.8em"><b>{title}</b>{content}</div>'
