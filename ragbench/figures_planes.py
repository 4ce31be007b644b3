"""Pictures of two dimensions: two metrics against each other, and a heat map of cells."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import plotly.graph_objects as go
import polars as pl
from plotly.colors import sample_colorscale

from ragbench import style
from ragbench.draft import Draft, Trace, drawn, trace
from ragbench.errors import RagbenchError, UnknownColumn
from ragbench.facts import facts, is_proportion, marks, metric_label, unit, value_label
from ragbench.layout import (
    NOTE_SIZE,
    Row,
    empty,
    error_bars,
    framed,
    number_text,
    points_text,
)
from ragbench.style import PALETTE, colour

_SHAPES = (
    ("dot", "circle"),
    ("square", "square"),
    ("diamond", "diamond"),
    ("triangle", "triangle-up"),
    ("cross", "cross-thin"),
    ("ring", "circle-open"),
)
_SIDE, _MARGIN = 400, {"l": 62, "r": 18}
_LETTER, _LINE = 6.2, 14  # pixels of a letter and of a line of small text
Box = tuple[float, float, float, float]


def scatter(
    frame: pl.DataFrame,
    x: str,
    y: str,
    *,
    label: str = "model",
    group: str | None = None,
    title: str | None = None,
    note: str = "",
    percent: bool | None = None,
) -> go.Figure:
    """One point per row at its two values, with its label and, where known, both intervals.

    Labels stand where they cover neither a point nor each other; a thin line leads to those that
    stand apart. The values of the column `group` have shapes of their own. `note` is one more fact
    for the caption, such as a correlation. Percent is shown for proportions unless `percent` says
    otherwise; rows without one of the values are named in the caption.

    >>> frame = pl.DataFrame({"model": ["a", "b"], "coverage": [0.3, 0.6], "conflict": [0.2, 0.4]})
    >>> figure = scatter(frame, "coverage", "conflict")
    >>> [(trace.name, trace.x[0], trace.y[0]) for trace in figure.data]
    [('a', 0.3, 0.2), ('b', 0.6, 0.4)]
    """
    place = "frame for figures.scatter"
    pairs = list(zip(*(marks(frame, name, label, place=place) for name in (x, y)), strict=True))
    if group is not None and group not in frame.columns:
        raise UnknownColumn(place, group, frame.columns)
    title = f"{metric_label(y)} against {metric_label(x)}" if title is None else title
    kinds = [value_label(group, key) for key in frame[group]] if group else [""] * frame.height
    order = list(dict.fromkeys(kinds))
    shapes = {kind: _SHAPES[nth % len(_SHAPES)] for nth, kind in enumerate(order)}
    drawn = [(a, b, kind) for (a, b), kind in zip(pairs, kinds, strict=True) if _both(a, b)]
    if not drawn:
        return empty("No rows to draw: none has both values.", title)
    figure = Draft()
    for a, b, kind in drawn:
        figure.add_trace(_point(a, b, shapes[kind][1], (x, y), percent=percent))
    spans = []
    for metric, parts, update in (
        (x, [a for a, _, _ in drawn], figure.update_xaxes),
        (y, [b for _, b, _ in drawn], figure.update_yaxes),
    ):
        is_percent = is_proportion(frame, metric) if percent is None else percent
        spans.append(_padded(parts))
        what = unit(metric) if is_percent else ""
        text = metric_label(metric) + (f", {what}" if what else "")
        update(title_text=style.label(text), range=spans[-1], nticks=6)
        update(tickformat=".0%" if is_percent else None)
    _name_points(figure, [(a, b) for a, b, _ in drawn], spans)
    missing = [a["label"] for a, b in pairs if not _both(a, b)]
    notes = [*([note] if note else []), *facts(frame, [x, y], each="point")]
    if missing:
        notes.insert(0, "not drawn, a value is missing: " + ", ".join(missing))
    legend = [(shapes[kind][0], None, kind) for kind in order] if group else []
    figure.update_yaxes(title_standoff=4, title_font_size=NOTE_SIZE, tickfont_size=NOTE_SIZE)
    return framed(figure, title, notes, _MARGIN, 360, legend=legend, below=46).figure()


def _both(a: Row, b: Row) -> bool:
    return a["value"] is not None and b["value"] is not None


def _point(a: Row, b: Row, symbol: str, metrics: tuple[str, str], *, percent: bool | None) -> Trace:
    hue = colour(a["model"]) if a["model"] else PALETTE[0]
    lines = [f"<b>{style.label(a['label'])}</b>"]
    for metric, row in zip(metrics, (a, b), strict=True):
        n = "" if row["n"] is None else f", n = {row['n']:,}"
        value = number_text(row["value"], 3) if percent is False else _shown(row)
        lines.append(f"{style.label(metric_label(metric))} {value}{n}")
    return trace(
        "scatter",
        x=[a["value"]],
        y=[b["value"]],
        name=style.label(a["label"]),
        mode="markers",
        marker={"size": 10, "symbol": symbol, "color": hue, "line": {"width": 2, "color": hue}},
        error_x=_thin(error_bars([a], style.tint(hue, 0.4))),
        error_y=_thin(error_bars([b], style.tint(hue, 0.4))),
        cliponaxis=False,
        hovertext="<br>".join(lines),
        hoverinfo="text",
    )


def _thin(bars: dict[str, Any]) -> dict[str, Any]:
    return bars | {"thickness": 1, "width": 0}


def _shown(row: Row) -> str:
    return f"{points_text(row['value'])} %" if abs(row["value"]) <= 1 else f"{row['value']:.3g}"


def _padded(rows: Sequence[Row]) -> tuple[float, float]:
    """The part of an axis that holds the marks and their intervals, with room for labels."""
    ends = [row[end] for row in rows for end in ("value", "low", "high") if row[end] is not None]
    room = 0.08 * (max(ends) - min(ends)) or 0.05
    return (min(ends) - room, max(ends) + room)


def _name_points(
    figure: Draft, pairs: Sequence[tuple[Row, Row]], spans: Sequence[tuple[float, float]]
) -> None:
    """Each label beside its point, at the first place that is free, else the freest."""
    (left, right), (bottom, top) = spans
    width, height = style.WIDTH - _MARGIN["l"] - _MARGIN["r"], 360

    def across(value: float) -> float:
        return (value - left) / (right - left) * width

    def up(value: float) -> float:
        return (value - bottom) / (top - bottom) * height

    at = [(across(a["value"]), up(b["value"])) for a, b in pairs]
    lines: list[Box] = []
    for (x, y), (a, b) in zip(at, pairs, strict=True):
        if None not in (a["low"], a["high"]):
            lines.append((across(a["low"]), y - 1, across(a["high"]), y + 1))
        if None not in (b["low"], b["high"]):
            lines.append((x - 1, up(b["low"]), x + 1, up(b["high"])))
    taken: list[Box] = [(x - 8, y - 8, x + 8, y + 8) for x, y in at]
    texts = _short([a["label"] for a, _ in pairs])
    for (x, y), text, (a, b) in zip(at, texts, pairs, strict=True):
        size = (max(map(style.columns, text)) * _LETTER + 2, len(text) * _LINE)
        box, is_near = _free((x, y), size, taken, lines, (width, height))
        taken.append(box)
        centre = ((box[0] + box[2]) / 2 - x, (box[1] + box[3]) / 2 - y)
        figure.add_annotation(
            x=a["value"],
            y=b["value"],
            ax=centre[0],
            ay=-centre[1],
            text="<br>".join(style.label(line) for line in text),
            font={"size": NOTE_SIZE, "color": style.INK},
            align="center",
            showarrow=True,
            arrowhead=0,
            arrowwidth=1,
            arrowcolor=style.tint(style.QUIET, 0 if is_near else 0.7),
            standoff=7,
            borderpad=0,
            bgcolor="rgba(255,255,255,0.6)",
        )


def _short(labels: Sequence[str]) -> list[list[str]]:
    """The lines of each label; what all have in common up to a slash is left away."""
    starts = {label.partition("/")[0] for label in labels if "/" in label}
    if len(starts) == 1 and all("/" in label for label in labels) and len(labels) > 1:
        labels = [label.partition("/")[2] for label in labels]
    return [style.wrapped(label, 20, most=2) for label in labels]


def _free(
    point: tuple[float, float],
    size: tuple[float, float],
    taken: Sequence[Box],
    lines: Sequence[Box],
    area: tuple[float, float],
) -> tuple[Box, bool]:
    """The place for a label and whether it touches its point; intervals are crossed if need be."""
    best: tuple[float, Box, bool] | None = None
    x, y = point
    for far in (0, 12, 24, 38, 54, 72):
        out = 9 + far
        wide, tall = size[0] / 2 + out, size[1] / 2 + out
        for across, up in (
            (wide, 0.6 * tall),
            (-wide, 0.6 * tall),
            (wide, -0.6 * tall),
            (-wide, -0.6 * tall),
            (wide, 0),
            (-wide, 0),
            (0, tall),
            (0, -tall),
        ):
            cx, cy = x + across, y + up
            box = (cx - size[0] / 2, cy - size[1] / 2, cx + size[0] / 2, cy + size[1] / 2)
            outside = max(0, -box[0], -box[1], box[2] - area[0], box[3] - area[1])
            cost = sum(_overlap(box, other) for other in taken) + 1000 * outside + far
            cost += sum(_overlap(box, line) for line in lines) / 10
            if best is None or cost < best[0]:
                best = (cost, box, far == 0)
        if best is not None and best[0] <= far:
            break
    assert best is not None
    return best[1], best[2]


def _overlap(a: Box, b: Box) -> float:
    across = min(a[2], b[2]) - max(a[0], b[0])
    up = min(a[3], b[3]) - max(a[1], b[1])
    return across * up if across > 0 and up > 0 else 0.0


@drawn
def heatmap(
    frame: pl.DataFrame,
    x: str,
    y: str,
    value: str,
    *,
    title: str | None = None,
    percent: bool | None = None,
    digits: int = 2,
) -> Draft:
    """One cell per row of the frame, its number on it, darker for more, n in the hover.

    Columns and rows come in the order in which the frame names them. Colours run from the lowest
    to the highest value (the caption says which), evenly for the eye and for colour-blind readers.
    A cell without a row or a value is white and crossed. `digits` are the decimals of numbers below
    ten that are no percent.

    >>> frame = pl.DataFrame({"model": ["a", "a", "b"], "domain": ["Legal", "Medical", "Legal"]})
    >>> figure = heatmap(frame.with_columns(share=pl.Series([0.1, 0.2, 0.3])), "domain", "model",
    ...     "share")
    >>> [list(row) for row in figure.data[0].z]
    [[0.1, 0.2], [0.3, None]]
    """
    place = "frame for figures.heatmap"
    across, down = marks(frame, value, x, place=place), marks(frame, value, y, place=place)
    title = metric_label(value) if title is None else title
    known = [row["value"] for row in down if row["value"] is not None]
    if not known:
        return empty.draft("No cells to draw: the frame is empty or has no values.", title)
    is_percent = is_proportion(frame, value) if percent is None else percent
    cells: dict[tuple[str, str], Row] = {}
    for top, row in zip(across, down, strict=True):
        key = (row["label"], top["label"])
        if key in cells:
            raise RagbenchError(
                f"figures.heatmap: two rows of {y} {key[0]!r} and {x} {key[1]!r}. Choose one with "
                "a filter, or aggregate the frame first."
            )
        cells[key] = row
    columns = list(dict.fromkeys(row["label"] for row in across))
    lines = list(dict.fromkeys(row["label"] for row in down))
    grid = [[cells.get((line, column)) for column in columns] for line in lines]
    figure = Draft(_cells(grid, lines, columns, is_percent=is_percent, digits=digits))
    ends = [_cell_text(end, digits, is_percent=is_percent) for end in (min(known), max(known))]
    scale = " %" if is_percent else ""
    notes = [
        f"{unit(value)}, percent" if is_percent else metric_label(value),
        f"colour: {ends[0]}{scale} (light) to {ends[1]}{scale} (dark)",
    ]
    if any(row is None or row["value"] is None for line in grid for row in line):
        notes.append("×: no rows or no value")
    notes += [t for t in facts(frame, [value], each="cell") if not t.startswith("bars: ")]
    return _as_grid(figure, title, notes, lines, columns)


def _cells(
    grid: Sequence[Sequence[Row | None]],
    lines: Sequence[str],
    columns: Sequence[str],
    *,
    is_percent: bool,
    digits: int,
) -> list[Any]:
    values = [[None if row is None else row["value"] for row in line] for line in grid]
    known = [value for line in values for value in line if value is not None]
    low, high = min(known), max(known)
    hovers = [
        [
            _cell_hover(line, column, row, is_percent=is_percent)
            for column, row in zip(columns, parts, strict=True)
        ]
        for line, parts in zip(lines, grid, strict=True)
    ]
    cells = trace(
        "heatmap",
        z=values,
        x=list(range(len(columns))),
        y=[-place for place in range(len(lines))],
        zmin=low,
        zmax=high if high > low else low + 1e-9,
        colorscale=_colours(),
        showscale=False,
        xgap=1.5,
        ygap=1.5,
        hovertext=hovers,
        hoverinfo="text",
        hoverongaps=False,
        name="cells",
    )
    spots = [
        (at, -down, value) for down, line in enumerate(values) for at, value in enumerate(line)
    ]
    inks = [
        style.QUIET
        if value is None
        else _ink(round((value - low) / (high - low), 2) if high > low else 0.0)
        for _, _, value in spots
    ]
    text = trace(
        "scatter",
        x=[at for at, _, _ in spots],
        y=[down for _, down, _ in spots],
        text=[
            "×" if v is None else _cell_text(v, digits, is_percent=is_percent) for _, _, v in spots
        ],
        mode="text",
        textfont={"size": NOTE_SIZE, "color": inks},
        hoverinfo="skip",
        name="numbers",
    )
    return [cells, text]


@cache
def _colours() -> list[list[Any]]:
    """Cividis from its light end to its dark one: even steps for every kind of colour vision."""
    steps = [place / 20 for place in range(21)]
    return [[step, sample_colorscale("Cividis", [1 - step])[0]] for step in steps]


@cache
def _ink(share: float) -> str:
    """The text that reads best on a cell of that darkness (contrast at least 4.5)."""
    colours = sample_colorscale("Cividis", [1 - share])[0]
    red, green, blue = (
        _linear(float(part) / 255) for part in colours.removeprefix("rgb(")[:-1].split(",")
    )
    light = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) else "#FFFFFF"


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _cell_text(value: float, digits: int, *, is_percent: bool) -> str:
    if is_percent:
        return points_text(value, 0)
    return number_text(value, digits if abs(value) < 10 else 0)


def _cell_hover(line: str, column: str, row: Row | None, *, is_percent: bool) -> str:
    head = f"<b>{style.label(line)} · {style.label(column)}</b><br>"
    if row is None or row["value"] is None:
        return head + "no value"
    text = f"{points_text(row['value'])} %" if is_percent else number_text(row["value"], 3)
    if row["low"] is not None and row["high"] is not None:
        ends = (row["low"], row["high"])
        shown = [points_text(e) if is_percent else number_text(e, 3) for e in ends]
        text += f" ({shown[0]} to {shown[1]})"
    return head + text + ("" if row["n"] is None else f", n = {row['n']:,}")


def _as_grid(
    figure: Draft,
    title: str,
    notes: Sequence[str],
    lines: Sequence[str],
    columns: Sequence[str],
) -> Draft:
    """Row labels at the left, column labels on top: upright words where they fit, else slanted."""
    texts = [style.wrapped(line, 25, most=2) for line in lines]
    left = 16 + int(6.6 * max(style.columns(line) for text in texts for line in text))
    width = max(style.WIDTH, left + 24 * len(columns) + 16)
    cell = (width - left - 16) / len(columns)
    heads = [style.wrapped(column, max(4, int(cell / 6.8)), most=2) for column in columns]
    fits = all(
        " ".join(head).replace(" ", "") == style.clean(column).replace(" ", "")
        and not _is_cut(head, column)
        for head, column in zip(heads, columns, strict=True)
    )
    if not fits:
        heads = [style.wrapped(column, 24, most=1) for column in columns]
    longest = max(style.columns(head) for text in heads for head in text)
    angle = 0 if fits else -45 if cell >= 44 else -90
    above = 10 + 14 * max(map(len, heads)) if fits else 14 + int(6.4 * longest)
    if angle == -45:
        above = 14 + int(0.71 * 6.4 * longest)
    figure.update_xaxes(
        side="top",
        range=[-0.5, len(columns) - 0.5],
        tickmode="array",
        tickvals=list(range(len(columns))),
        ticktext=["<br>".join(style.label(part) for part in head) for head in heads],
        tickangle=angle,
        ticks="",
        showgrid=False,
    )
    figure.update_yaxes(
        range=[-len(lines) + 0.5, 0.5],
        tickmode="array",
        tickvals=[-place for place in range(len(lines))],
        ticktext=["<br>".join(style.label(part) for part in text) for text in texts],
        tickfont_size=NOTE_SIZE,
        ticks="outside",
        ticklen=4,
        tickcolor="white",
        showgrid=False,
    )
    slant = 0 if angle != -45 else max(0, int(0.71 * 6.4 * style.columns(heads[-1][0]) - cell / 2))
    margin = {"l": left, "r": 16 + min(slant, 90)}
    height = len(lines) * max(24, 6 + 15 * max(len(text) for text in texts))
    return framed(figure, title, notes, margin, height, above=above - 17, below=12, width=width)


def _is_cut(head: Sequence[str], column: str) -> bool:
    """Whether a word of the column is broken inside."""
    words = set(style.clean(column).replace("-", "- ").split())
    return not all(word in words for part in head for word in part.split())
