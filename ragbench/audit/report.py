"""Findings for readers: marked tables, and reports as HTML, Markdown, JSON."""

from __future__ import annotations

import html as markup
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from ragbench import output
from ragbench.audit.declaration import Table, named
from ragbench.audit.findings import Audit, Finding, claims, frame
from ragbench.errors import UnknownColumn, UnknownName
from ragbench.style import clean

if TYPE_CHECKING:
    from great_tables import GT

FORMATS = ("html", "md", "json")
_COLOURS = {"inconsistent": "#F6C9C5", "if": "#FBE9B7"}
_LEGEND = (
    "Red and bold: in a finding that is inconsistent as printed. Yellow and in italics: "
    "inconsistent only under an assumption that is not printed. A mark says that numbers do not go "
    "together, not which of them is off."
)
_INTRODUCTION = (
    "Arithmetic on printed numbers: each finding says which cells were compared, how, and what "
    "would settle it. Inconsistent means that no true values print like this, in the way of "
    "rounding that fits the rest; missing responses, another n or a slip of the pen are ordinary "
    "reasons."
)
_COLUMNS = {
    "check": "check",
    "arithmetic": "arithmetic",
    "assumes": "only if",
    "rounding": "rounding",
    "settle": "what would settle it",
    "cells": "cells",
}
_CLAIMS = {
    "claim": "claim",
    "text": "text",
    "verdict": "verdict",
    "why": "why",
    "settle": "what would settle it",
}


def marks(found: Audit, table: str) -> dict[tuple[str, str], str]:
    """Row and column of each cell in question -> *inconsistent*, or *if* under an assumption.

    Findings about many cells point at the first, their total or mean; those about a whole column
    point at none.
    """
    pointed: dict[tuple[str, str], str] = {}
    for finding in found.findings:
        if finding.status != "inconsistent" or finding.kind.startswith("common_"):
            continue
        mark = "if" if finding.assume else "inconsistent"
        for cell in finding.cells if len(finding.cells) <= 5 else finding.cells[:1]:
            if cell.table == table and pointed.get((cell.row, cell.column)) != "inconsistent":
                pointed[cell.row, cell.column] = mark
    return pointed


def marked(found: Audit, table: str) -> GT:
    """A printed table (by its name in the declaration), with the cells in question marked."""
    from great_tables import html as as_html
    from great_tables import loc
    from great_tables import style as style_of

    printed = named(found.declaration.tables, table)
    pointed, body = marks(found, table), printed.frame
    shown = _left_aligned(body, body.columns, table)
    for place, line in enumerate(body.iter_rows(named=True)):
        for number, column in enumerate(body.columns):
            if mark := pointed.get((printed.row_name(line), column)):
                text = (
                    style_of.text(weight="bold")
                    if mark == "inconsistent"
                    else style_of.text(style="italic")
                )
                looks = [style_of.fill(color=_COLOURS[mark]), text]
                shown = shown.tab_style(looks, loc.body(columns=f"c{number}", rows=[place]))
    shown = shown.tab_header(as_html(_html(f"{printed.label} as printed")))
    return shown.tab_source_note(_LEGEND) if pointed else shown


def listing(rows: pl.DataFrame, columns: Sequence[str] | None = None) -> GT:
    """Rows of `frame` or of `claims`, all of them and their whole text, for reading.

    Raises:
        UnknownColumn: `columns` names one that is not there.
    """
    chosen = list(columns or rows.columns)
    for column in chosen:
        if column not in rows.columns:
            raise UnknownColumn("the findings", column, rows.columns)
    if "rounding" in chosen:
        lifted = pl.col("rounding").str.replace("would hold with: ", "")
        rows = rows.with_columns(lifted.replace("no way of rounding lifts it", "–"))
    known = {"status": "status", **_COLUMNS, **_CLAIMS, "rounding": "lifted by rounding"}
    labels: dict[str, Any] = {f"c{i}": known.get(name, name) for i, name in enumerate(chosen)}
    shown = _left_aligned(rows, chosen, "-".join(chosen)).tab_options(table_font_size="14px")
    return shown.cols_label(labels)


def _left_aligned(rows: pl.DataFrame, columns: Sequence[str], identity: str) -> GT:
    """Columns of text as they are written, the columns named c0, c1, …"""
    from great_tables import GT
    from great_tables import html as as_html

    names = [f"c{place}" for place in range(len(columns))]
    cells = {n: [_html(x) for x in rows[c]] for n, c in zip(names, columns, strict=True)}
    body = pl.DataFrame(cells, schema=dict.fromkeys(names, pl.String))
    shown = GT(body, id=f"audit-{re.sub('[^a-z0-9]+', '-', identity.lower())}")
    shown = shown.fmt_passthrough(columns=names, escape=False).cols_align("left", columns=names)
    labels: dict[str, Any] = {n: as_html(_html(c)) for n, c in zip(names, columns, strict=True)}
    return shown.cols_label(labels)


def save(found: Audit, stem: str | Path, formats: Sequence[str] = FORMATS) -> pl.DataFrame:
    """One row per report written: path and format; `stem` is the path without ending.

    Raises:
        UnknownName: a format other than html, md, json.
        ExportFailed: a file cannot be written.
    """
    makers = {"html": html, "md": markdown, "json": as_json}
    rows = []
    for name in formats:
        if name not in makers:
            raise UnknownName("format", name, FORMATS, place="an audit report")
        content = makers[name](found).encode("utf-8", "replace")
        rows.append({"path": str(output.write(f"{stem}.{name}", content)), "format": name})
    return pl.DataFrame(rows, schema={"path": pl.String, "format": pl.String})


def summary(found: Audit) -> str:
    """How many findings there are of each kind, in one sentence."""
    if not found.findings:
        return "Nothing is declared to be checked: write a [[check]], as docs/audit.md shows."
    count = {
        s: sum(x.status == s for x in found.findings)
        for s in ("inconsistent", "undecidable", "consistent")
    }
    conditional = sum(x.status == "inconsistent" and bool(x.assume) for x in found.findings)
    condition = f" ({conditional} of them only under an assumption)" if conditional else ""
    return (
        f"{len(found.findings)} findings: {count['inconsistent']} inconsistent{condition}, "
        f"{count['undecidable']} undecidable, {count['consistent']} consistent. "
        f"Rounding that fits the print best: {found.rounding}."
    )


def markdown(found: Audit) -> str:
    """The report as Markdown; no text of a table acts as markup."""
    lines = [
        f"# {_md(found.declaration.title)}: what the print says",
        "",
        _INTRODUCTION,
        "",
        summary(found),
        "",
    ]
    for title, rows, columns in _sections(found):
        lines += [f"## {title}", "", _pipes(list(columns.values())), _pipes(["---"] * len(columns))]
        lines += [_pipes([_md(row[name]) for name in columns]) for row in rows]
        lines.append("")
    for table in _touched(found):
        pointed = marks(found, table.name)
        lines += [
            f"## {_md(table.label)} as printed",
            "",
            _LEGEND.replace("Red and bold", "Bold").replace("Yellow and in", "In"),
            "",
        ]
        lines += [
            _pipes([_md(c) for c in table.frame.columns]),
            _pipes(["---"] * table.frame.width),
        ]
        wrap = {"inconsistent": "**%s**", "if": "*%s*", None: "%s"}
        for line in table.frame.iter_rows(named=True):
            row = table.row_name(line)
            lines.append(_pipes([wrap[pointed.get((row, c))] % _md(v) for c, v in line.items()]))
        lines.append("")
    return "\n".join(lines)


def html(found: Audit) -> str:
    """The report as one page that needs nothing else; texts of tables are escaped."""
    title = f"{found.declaration.title}: what the print says"
    parts = [f"<h1>{_html(title)}</h1><p>{_html(_INTRODUCTION)}</p><p>{_html(summary(found))}</p>"]
    for heading, rows, columns in _sections(found):
        head = "".join(f"<th>{_html(name)}</th>" for name in columns.values())
        body = "".join(
            f'<tr class="{row.get("status", row.get("verdict"))}">'
            + "".join(f"<td>{_html(row[name])}</td>" for name in columns)
            + "</tr>"
            for row in rows
        )
        parts.append(f"<h2>{_html(heading)}</h2><table><tr>{head}</tr>{body}</table>")
    parts += [marked(found, table.name).as_raw_html() for table in _touched(found)]
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{_html(title)}</title><style>{_CSS}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def as_json(found: Audit) -> str:
    """Findings and claims as JSON, each finding with its cells one by one."""
    told = [
        {
            **{
                k: getattr(x, k)
                for k in ("status", "check", "kind", "arithmetic", "assume", "rounding", "settle")
            },
            "cells": [
                {
                    "table": c.table,
                    "row": c.row,
                    "column": c.column,
                    "number": c.part or 1,
                    "printed": c.text,
                }
                for c in x.cells
            ],
        }
        for x in found.findings
    ]
    content = {"title": found.declaration.title, "rounding": found.rounding, "findings": told}
    return (
        json.dumps(content | {"claims": claims(found).to_dicts()}, ensure_ascii=False, indent=1)
        + "\n"
    )


_CSS = """
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 75em; color: #1f1f1f }
table { border-collapse: collapse; margin: 1em 0 }
td { max-width: 28em }
td:nth-child(2) { min-width: 22em }
td, th { border-bottom: 1px solid #ddd; padding: .35em .6em; text-align: left; vertical-align: top }
tr.inconsistent td:first-child { background: #F6C9C5; font-weight: bold }
"""


def _sections(found: Audit) -> list[tuple[str, list[dict[str, Any]], dict[str, str]]]:
    """Heading, rows and columns of each list in a report; without what has no text at all."""
    sections = [
        (name.capitalize(), frame(found, name).to_dicts(), _COLUMNS)
        for name in ("inconsistent", "undecidable", "consistent")
    ]
    sections.insert(2, ("Claims", claims(found).to_dicts(), _CLAIMS))
    return [
        (title, rows, {c: label for c, label in columns.items() if any(row[c] for row in rows)})
        for title, rows, columns in sections
        if rows
    ]


def _touched(found: Audit) -> list[Table]:
    tables = found.declaration.tables.values()
    return [table for table in tables if marks(found, table.name)]


def _html(value: object) -> str:
    return markup.escape(clean(value)).replace("{{", "{&#8203;{")


def _md(value: object) -> str:
    escaped = re.sub(r"([\\`*_{}\[\]|#$~])", r"\\\1", clean(value))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


__all__ = ["FORMATS", "Finding", "listing", "markdown", "marked", "marks", "save", "summary"]
