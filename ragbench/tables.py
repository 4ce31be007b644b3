"""Tables of frames for reading and printing: HTML, LaTeX, Markdown.

Proportions are 0-1 in every frame; here they are printed as percent with one decimal. A frame of
`scores` becomes its groups, its metrics and their n; panel, origin and what is missing stand in the
note below. Texts are shown as they are written: none of them acts as markup.
"""

from __future__ import annotations

import html as markup
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from ragbench import output, style
from ragbench.errors import UnknownColumn, UnknownName
from ragbench.facts import PARTS, SIMULATED, facts, is_share, metric_label, value_label

if TYPE_CHECKING:
    import duckdb
    from great_tables import GT

Best = bool | Sequence[str]
_LEDGER = ("planned", "answered", "judged", "errors")


class Column(NamedTuple):
    """One printed column: its header, its cells as plain text, and which cells are marked."""

    header: str
    cells: list[str]
    is_number: bool
    marks: list[str]  # "best", "second" or ""


def html(
    frame: pl.DataFrame,
    *,
    title: str = "",
    columns: Sequence[str] | None = None,
    percent: Sequence[str] | None = None,
    intervals: bool = False,
    best: Best = (),
) -> GT:
    """A table that notebooks show; `.as_raw_html()` is its text.

    `columns` chooses and orders columns (metrics bring their n); `percent` names the proportions,
    else the metrics of the paper; `intervals` adds 95 % intervals in brackets; `best` (True, or
    names) sets the highest value in bold and underlines the second, by what is printed.
    """
    from great_tables import GT, loc
    from great_tables import html as as_html
    from great_tables import style as style_of

    printed = columns_of(frame, columns, percent, intervals, best)
    names = [f"c{place}" for place in range(len(printed))]
    cells = {
        name: [_html(cell) for cell in column.cells]
        for name, column in zip(names, printed, strict=True)
    }
    body = pl.DataFrame(cells, schema=dict.fromkeys(names, pl.String))
    identity = f"t{zlib.crc32(repr((title, printed)).encode('utf-8', 'replace')):08x}"
    table = GT(body, id=identity).fmt_passthrough(columns=names, escape=False)
    table = table.cols_label(
        {name: as_html(_html(column.header)) for name, column in zip(names, printed, strict=True)}
    )
    looks = {"best": style_of.text(weight="bold"), "second": style_of.text(decorate="underline")}
    for name, column in zip(names, printed, strict=True):
        table = table.cols_align("right" if column.is_number else "left", columns=name)
        for mark, look in looks.items():
            rows = [place for place, found in enumerate(column.marks) if found == mark]
            if rows:
                table = table.tab_style(look, loc.body(columns=name, rows=rows))
    if title:
        table = table.tab_header(as_html(_at_left(_html(title))))
    fonts = [name.strip() for name in style.FONT.split(",")]
    table = table.tab_options(table_font_names=fonts, table_font_size="14px")
    note = _html(_note(frame, printed, intervals)).replace(SIMULATED, f"<b>{SIMULATED}</b>")
    return table.tab_source_note(as_html(_at_left(note))) if note else table


def _at_left(text: str) -> str:
    """Where it is seen beside a table wider than the window, also where pages drop styles."""
    return f'<div style="text-align:left;max-width:600px">{text}</div>'


def latex(
    frame: pl.DataFrame,
    *,
    caption: str = "",
    label: str = "",
    columns: Sequence[str] | None = None,
    percent: Sequence[str] | None = None,
    intervals: bool = False,
    best: Best = (),
) -> str:
    r"""A `table` environment; needs the package booktabs, and for Chinese XeLaTeX with xeCJK.

    Caption and texts are plain text, not LaTeX. Choices as in `html`.

    >>> frame = pl.DataFrame({"model": ["a_b", "c"], "strict_ias": [0.268, 0.123]})
    >>> [line for line in latex(frame, best=True).splitlines() if "&" in line][1:]
    ['a\\_b & \\textbf{26.8} \\\\', 'c & \\underline{12.3} \\\\']
    """
    printed = columns_of(frame, columns, percent, intervals, best)
    wrap = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "": "%s"}
    lines = [r"\begin{table}[tbp]", r"\centering"]
    if caption:
        lines.append(rf"\caption{{{_latex(caption)}}}")
    if label:
        lines.append(rf"\label{{{re.sub(r'[^A-Za-z0-9:._-]+', '-', label)}}}")
    kinds = "".join("r" if column.is_number else "l" for column in printed)
    lines += [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule"]
    lines += [" & ".join(_latex(column.header) for column in printed) + r" \\", r"\midrule"]
    for row in _rows(printed):
        lines.append(" & ".join(wrap[mark] % _latex(cell) for cell, mark in row) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if note := _note(frame, printed, intervals):
        lines.append(rf"\par\smallskip{{\footnotesize {_latex(note)}}}")
    return "\n".join([*lines, r"\end{table}", ""])


def markdown(
    frame: pl.DataFrame,
    *,
    title: str = "",
    columns: Sequence[str] | None = None,
    percent: Sequence[str] | None = None,
    intervals: bool = False,
    best: Best = (),
) -> str:
    r"""A pipe table, with the best values in bold and the second in italics; choices as in `html`.

    >>> frame = pl.DataFrame({"model": ["a|b"], "strict_ias": [0.268], "strict_ias_n": [447]})
    >>> print(markdown(frame))
    | Model | Strict IAS, % | n |
    | :--- | ---: | ---: |
    | a\|b | 26.8 | 447 |
    <BLANKLINE>
    n = 447 responses; origin not stated
    <BLANKLINE>
    """
    printed = columns_of(frame, columns, percent, intervals, best)
    wrap = {"best": "**%s**", "second": "*%s*", "": "%s"}
    lines = [f"**{_markdown(title)}**", ""] if title else []
    lines.append(_pipes([_markdown(column.header) for column in printed]))
    lines.append(_pipes(["---:" if column.is_number else ":---" for column in printed]))
    for row in _rows(printed):
        lines.append(_pipes([wrap[mark] % _markdown(cell) for cell, mark in row]))
    note = _note(frame, printed, intervals)
    return "\n".join([*lines, *(["", _markdown(note)] if note else []), ""])


def save(
    frame: pl.DataFrame,
    stem: str | Path,
    *,
    title: str = "",
    label: str = "",
    con: duckdb.DuckDBPyConnection | None = None,
    call: str = "",
    seed: int | None = None,
    formats: Sequence[str] = ("html", "tex", "md"),
    **choices: Any,
) -> pl.DataFrame:
    """One row per file written: the table in each format, its numbers as CSV, its provenance.

    `title` is the caption in LaTeX; further choices as in `html`.
    """
    makers = {
        "html": lambda: html(frame, title=title, **choices).as_raw_html(make_page=True),
        "tex": lambda: latex(frame, caption=title, label=label, **choices),
        "md": lambda: markdown(frame, title=title, **choices),
    }
    for name in formats:
        if name not in makers:
            raise UnknownName("format", name, makers, place="tables")
    content: dict[str, bytes | None] = {
        name: str(makers[name]()).encode("utf-8", "replace") for name in formats
    }
    return output.write_all(stem, content, frame=frame, con=con, call=call, seed=seed)


def columns_of(
    frame: pl.DataFrame,
    columns: Sequence[str] | None = None,
    percent: Sequence[str] | None = None,
    intervals: bool = False,
    best: Best = (),
) -> list[Column]:
    """What a table prints, column by column, as plain text."""
    for name in (*(columns or ()), *(percent or ()), *(() if isinstance(best, bool) else best)):
        if name not in frame.columns:
            raise UnknownColumn("the frame of this table", name, frame.columns)
    shown = list(columns) if columns is not None else _shown(frame)
    shares = (
        set(percent)
        if percent is not None
        else {name for name in shown if is_share(name) and frame[name].dtype.is_numeric()}
    )
    marked = {name for name in shown if frame[name].dtype.is_float()} if best is True else best
    counts = {name: f"{name}_n" for name in shown if f"{name}_n" in frame.columns}
    is_one_n = len({tuple(frame[count]) for count in counts.values()}) == 1
    printed = []
    for name in shown:
        printed.append(_column(frame, name, name in shares, intervals, name in (marked or ())))
        if name in counts and not is_one_n:
            printed.append(_column(frame, counts[name], False, False, False)._replace(header="n"))
    if is_one_n:
        count = next(iter(counts.values()))
        printed.append(_column(frame, count, False, False, False)._replace(header="n"))
    return printed


def _shown(frame: pl.DataFrame) -> list[str]:
    """All columns but those about another one, those of the note, and empty metrics."""
    about = {f"{name}_{part}" for name in frame.columns for part in PARTS}
    hidden = about | {"panel", "origin"}
    if about & set(frame.columns):
        hidden |= set(_LEDGER)
    return [
        name
        for name in frame.columns
        if name not in hidden
        and not (f"{name}_n" in frame.columns and frame[name].null_count() == frame.height > 0)
    ]


def _column(
    frame: pl.DataFrame, name: str, is_percent: bool, has_interval: bool, is_marked: bool
) -> Column:
    values = frame[name].fill_nan(None) if frame[name].dtype.is_float() else frame[name]
    cells = [_text(name, value, is_percent) for value in values]
    marks = _marks(cells) if is_marked else [""] * len(cells)
    if has_interval and {f"{name}_low", f"{name}_high"} <= set(frame.columns):
        ends = zip(frame[f"{name}_low"], frame[f"{name}_high"], strict=True)
        cells = [
            cell
            if None in pair
            else f"{cell} [{', '.join(_text(name, end, is_percent) for end in pair)}]"
            for cell, pair in zip(cells, ends, strict=True)
        ]
    header = metric_label(name) + (", %" if is_percent else "")
    return Column(header, cells, values.dtype.is_numeric(), marks)


def _text(column: str, value: Any, is_percent: bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        if is_percent:
            return f"{100 * value:.1f}".replace("-", "−")
        number = f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
        return number.replace("-", "−")
    if value is None:
        return "–"
    return style.clean(value_label(column, value))


def _marks(cells: Sequence[str]) -> list[str]:
    """Best and second by what is printed, so that equal prints are marked alike."""
    values = [None if cell == "–" else float(cell.replace("−", "-")) for cell in cells]
    ranked = sorted({value for value in values if value is not None}, reverse=True)
    if len(ranked) < 2:
        return [""] * len(cells)
    return [{ranked[0]: "best", ranked[1]: "second"}.get(value, "") for value in values]  # type: ignore[arg-type]


def _rows(printed: Sequence[Column]) -> list[list[tuple[str, str]]]:
    columns = [list(zip(column.cells, column.marks, strict=True)) for column in printed]
    return [list(row) for row in zip(*columns, strict=True)]


def _note(frame: pl.DataFrame, printed: Sequence[Column], intervals: bool) -> str:
    about = [name for name in frame.columns if f"{name}_n" in frame.columns]
    headers = {column.header.removesuffix(", %") for column in printed}
    texts = facts(frame, [name for name in about if metric_label(name) in headers])
    if not intervals:
        texts = [text for text in texts if not text.startswith("bars: ")]
    if "n" in headers:  # a column says it, row by row
        texts = [text for text in texts if text != "n not stated"]
    return "; ".join(text.replace("bars: ", "brackets: ") for text in texts)


def _html(text: str) -> str:
    """Escaped, and with marks of formulas set apart so that no page typesets what is between."""
    escaped = markup.escape(style.clean(text)).replace("{{", "{&#8203;{")
    return re.sub(r"[$\\]", lambda found: f"<span>{found[0]}</span>", escaped)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # after a line end it would open an argument
    "]": "{]}",
    "*": "{*}",
    "-": "{-}",  # two in a row would become a dash
    "'": "{'}",
    "−": "$-$",
    "�": "?",
} | {letter: f"\\{letter}" for letter in "{}$&#%_"}


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in style.clean(text))


def _markdown(text: str) -> str:
    escaped = re.sub(r"([\\`*_{}\[\]|#$~])", r"\\\1", style.clean(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _pipes(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
