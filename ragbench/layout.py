"""What every figure shares: its frame of title, legend and facts, its rows, and empty pictures."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from ragbench import style
from ragbench.draft import Draft, drawn
from ragbench.facts import SIMULATED

LABEL_SIZE, NOTE_SIZE, TITLE_SIZE = 13, 12, 16
LINE = 17  # pixels between two lines of labels
_STANDOFF = 6  # pixels between a label and the plot: a mark at 0 reaches out as far
_LABEL_COLUMNS, _CAPTION_COLUMNS = 25, 76
_DRAWN = "M{0},{1} L{2},{1} L{2},{3} L{0},{3} Z"
_DASHES = {"line": "solid", "dashed": "5px,3px", "dotted": "2px,2px"}
Row = dict[str, Any]
Legend = Sequence[tuple[str, str | None, str]]
"""A mark (dot, ring, square, diamond, triangle, cross; line, dashed, dotted), its colour (None:
ink), its text."""


def error_bars(rows: Sequence[Row], hue: str) -> dict[str, Any]:
    """The intervals of some marks as plotly's error bars; no bar where there is no interval."""

    def reach(row: Row, end: str) -> float:
        known = row["value"] is not None and row[end] is not None
        return abs(row[end] - row["value"]) if known else 0.0

    return {
        "type": "data",
        "symmetric": False,
        "array": [reach(row, "high") for row in rows],
        "arrayminus": [reach(row, "low") for row in rows],
        "color": hue,
        "thickness": 1.3,
        "width": 4,
    }


def points_text(value: float | None, digits: int = 1) -> str:
    """A proportion in percent or points, without the sign of percent.

    >>> points_text(-0.1234), points_text(None)
    ('−12.3', '–')
    """
    return "–" if value is None else number_text(100 * value, digits)


def number_text(value: float, digits: int = 1) -> str:
    """A number with a proper minus; what rounds to nothing has no sign."""
    text = f"{value:.{digits}f}"
    return (text.lstrip("-") if float(text) == 0 else text).replace("-", "−")


def row_lines(label: str) -> list[str]:
    """The lines that the label of a row takes."""
    return style.joined(label.split(" · "), _LABEL_COLUMNS, most=3)


def row_height(labels: Sequence[str], least: int) -> int:
    """The pixels of one row: enough for the longest label, and at least `least`."""
    return max(least, 8 + LINE * max((len(row_lines(label)) for label in labels), default=1))


def laid_out(
    figure: Draft,
    rows: Sequence[Sequence[Row]],
    *,
    title: str,
    axis: str,
    span: tuple[float, float] | None,
    right: tuple[str, Sequence[str]],
    notes: Sequence[str],
    legend: Legend = (),
    least: int = 25,
) -> Draft:
    """The figure in the house style: one line per row, the first on top, a column at the right.

    `right` is the header of that column and its texts, in which `<br>` starts a line; `least` the
    pixels of a row; with a `span` the axis is one of proportions.
    """
    lines = [row_lines(parts[0]["label"]) for parts in rows]
    left = 22 + _STANDOFF + 7 * max(style.columns(line) for text in lines for line in text)
    across: dict[str, Any] = {"title_text": style.label(axis)}
    if span is not None:
        pad = 0.015 * (span[1] - span[0])
        across |= {"range": [span[0] - pad, span[1] + pad], "tickformat": ".0%"}
        across["dtick"] = 0.25 if span == (0.0, 1.0) else None
    figure.update_xaxes(**across)
    figure.update_yaxes(
        range=[-len(rows) + 0.4, 0.6],
        ticklabelstandoff=_STANDOFF,
        tickmode="array",
        tickvals=[-place for place in range(len(rows))],
        ticktext=["<br>".join(style.label(line) for line in text) for text in lines],
    )
    header, texts = right
    widest = max(len(line) for text in (header, *texts) for line in text.split("<br>"))
    margin = {"l": left, "r": 24 + 7 * widest}
    height = len(rows) * row_height([parts[0]["label"] for parts in rows], least)
    right_note(figure, header, yref="paper", y=1, yanchor="bottom", font_color=style.QUIET)
    for place, (text, parts) in enumerate(zip(texts, rows, strict=True)):
        right_note(figure, text, y=-place, yanchor="middle")
        if why := _why_missing(parts):
            low = any(row["value"] is not None and row["value"] < 0.5 for row in parts)
            side = {"x": 0.98, "xanchor": "right"} if low else {"x": 0.02}
            note(figure, f"<i>{why}</i>", y=-place, yref="y", **side)
    return framed(figure, title, notes, margin, height, legend=legend, header=header)


def _why_missing(rows: Sequence[Row]) -> str:
    """What to write in a row that lacks a value; empty when none is lacking."""
    for row in rows:
        if row["value"] is None:
            known = row["n"] is not None and row["planned"] is not None
            return f"no value: {row['n']:,} of {row['planned']:,} judged" if known else "no value"
    return ""


def framed(
    figure: Draft,
    title: str,
    notes: Sequence[str],
    margin: dict[str, int],
    height: float,
    *,
    legend: Legend = (),
    header: str = "",
    above: int = 0,
    below: int | None = None,
    width: int = style.WIDTH,
) -> Draft:
    """Title and legend above, facts below, from the left edge; the size follows the content.

    `height` is that of the plot; `above` and `below` leave pixels for the labels of its axes
    (`below` is what a titled axis takes when there is a `header`, else little).
    """
    style.check_fonts([title, *notes, *(str(one.get("name") or "") for one in figure.traces)])
    heading = [style.label(line) for line in style.wrapped(title, 50)] if title else []
    caption = style.joined(list(notes), _CAPTION_COLUMNS * width // style.WIDTH)
    keys = _legend_lines(legend, width)
    top = 14 + 21 * len(heading) + 22 * len(keys) + 6 + LINE * len(header.split("<br>")) + above
    room = (46 if header else 6) if below is None else below
    bottom = room + 16 * len(caption) + 6
    text = "<br>".join(style.label(line) for line in caption)
    text = text.replace(SIMULATED, f'<span style="color:{style.ALARM}"><b>{SIMULATED}</b></span>')
    edge = {"x": 0, "xshift": 12 - margin["l"]}
    if text:
        note(figure, text, y=0, yanchor="top", yshift=6 - bottom + 16 * len(caption), **edge)
    for place, line in enumerate(keys):
        height_of_line = top - 24 - 21 * len(heading) - 22 * place
        _add_legend(figure, line, left=12 - margin["l"], above=height_of_line)
    if len(heading) > 1:  # plotly heeds the padding of a title only when that has one line
        figure.update_layout(title_y=1 - 12 / (top + height + bottom))
    figure.update_layout(
        template=_template(),
        title_text="<br>".join(heading),
        width=width,
        height=top + height + bottom,
        margin={**margin, "t": top, "b": bottom},
    )
    return figure


def _key_width(text: str, mark: str = "") -> int:
    return (46 if mark in _DASHES else 34) + 6 * style.columns(text)


def _legend_lines(legend: Legend, width: int) -> list[list[tuple[str, str | None, str]]]:
    """The entries of a legend in as many lines as they need."""
    lines: list[list[tuple[str, str | None, str]]] = []
    used = width
    for mark, hue, text in legend:
        short = style.wrapped(text, 60, most=1)[0]
        if used + _key_width(short, mark) > width - 6 or not lines:
            lines.append([])
            used = 12
        lines[-1].append((mark, hue, short))
        used += _key_width(short, mark)
    return lines


def _add_legend(figure: Draft, legend: Legend, *, left: int, above: int) -> None:
    """Marks with their meanings, drawn in pixels from the upper left corner of the plot."""
    for mark, hue, text in legend:
        r = 4 if mark in ("diamond", "triangle", "cross") else 11 if mark in _DASHES else 5
        x, y = left + r, above
        outline = {"color": hue or style.INK, "width": 2, "dash": _DASHES.get(mark, "solid")}
        round_one = {"x0": x - r, "x1": x + r, "y0": y - r, "y1": y + r}
        path = _path(mark, x, y, r)
        figure.add_shape(
            type="path" if path else "circle",
            **({"path": path} if path else round_one),
            xref="paper",
            yref="paper",
            xsizemode="pixel",
            ysizemode="pixel",
            xanchor=0,
            yanchor=1,
            fillcolor="white" if mark == "ring" else outline["color"],
            line=outline,
        )
        look = {"yanchor": "middle", "font_color": style.INK}
        note(figure, style.label(text), x=0, y=1, xshift=x + r + 6, yshift=y, **look)
        left += _key_width(text, mark)


def _path(mark: str, x: int, y: int, r: int) -> str | None:
    """The outline of a mark that is not round."""
    return {
        "diamond": f"M{x - r},{y} L{x},{y + r} L{x + r},{y} L{x},{y - r} Z",
        "triangle": f"M{x - r},{y - r} L{x},{y + r} L{x + r},{y - r} Z",
        "cross": f"M{x - r},{y} L{x + r},{y} M{x},{y - r} L{x},{y + r}",
        "square": _DRAWN.format(x - 4, y - 4, x + 4, y + 4),
        **dict.fromkeys(_DASHES, f"M{x - r},{y} L{x + r},{y}"),
    }.get(mark)


def note(figure: Draft, text: str, **where: Any) -> None:
    """Text in the picture, small and quiet, at a place in paper coordinates unless told."""
    font = {"size": NOTE_SIZE, "color": style.QUIET}
    look = {"xref": "paper", "yref": "paper", "xanchor": "left", "align": "left", "font": font}
    figure.add_annotation(text=text, showarrow=False, **{**look, **where})


def right_note(figure: Draft, text: str, **where: Any) -> None:
    """Text right of the plot, at a height of the y axis."""
    look = {"x": 1, "xshift": 8, "font_size": LABEL_SIZE, "font_color": style.INK, "yref": "y"}
    look |= {"showarrow": False, "xref": "paper", "xanchor": "left", "align": "left"}
    figure.add_annotation(text=text, **{**look, **where})


@drawn
def empty(why: str, title: str) -> Draft:
    """A picture of nothing that says why."""
    figure = Draft()
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    lines = [style.label(line) for line in style.wrapped(why, 64)]
    note(figure, "<br>".join(lines), x=0.5, y=0.5, xanchor="center", font_size=LABEL_SIZE)
    return framed(figure, title, [], {"l": 12, "r": 12}, 60)


@functools.cache
def _template() -> go.layout.Template:
    small = {"size": NOTE_SIZE, "color": style.INK}
    axis = {"zeroline": False, "gridcolor": style.GRID, "tickfont": small}
    title = {"x": 0, "xref": "container", "y": 1, "yref": "container", "yanchor": "top"}
    layout = go.Layout(
        font={"family": style.FONT, "size": LABEL_SIZE, "color": style.INK},
        paper_bgcolor="white",
        plot_bgcolor="white",
        showlegend=False,
        title={**title, "pad": {"l": 12, "t": 12}, "font": {"size": TITLE_SIZE, "weight": 700}},
        hoverlabel={"bgcolor": "white", "align": "left", "font": small},
        xaxis={**axis, "title": {"font": small, "standoff": 6}},
        yaxis={**axis, "tickfont_size": LABEL_SIZE},
    )
    return go.layout.Template(layout=layout)
