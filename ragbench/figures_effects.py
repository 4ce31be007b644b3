"""Pictures of effects: differences with their intervals around a line of reference."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from ragbench import style
from ragbench.draft import Draft, Trace, drawn, trace
from ragbench.errors import UnknownColumn
from ragbench.facts import facts, lowered, marks, metric_label
from ragbench.layout import (
    LINE,
    Legend,
    Row,
    empty,
    error_bars,
    laid_out,
    number_text,
    points_text,
)
from ragbench.style import PALETTE, colour

NO_ROWS = "No rows to draw: the frame is empty."
STARS = "* p < .05, ** p < .01, *** p < .001"


@drawn
def forest(
    frame: pl.DataFrame,
    value: str = "difference",
    *,
    low: str = "low",
    high: str = "high",
    label: str = "model",
    p_value: str | None = None,
    title: str | None = None,
    reference: float = 0.0,
    beside: str | None = None,
    percent: bool = True,
) -> Draft:
    """Effects with their intervals around a line at `reference`, in the order of the frame.

    Numbers at the right are percentage points, with stars by the column `p_value` (* < .05,
    ** < .01, *** < .001). `beside="stratified"` adds a lighter mark below each, from
    stratified_difference (`<beside>_<value>`), stratified_low, stratified_high and
    stratified_p_value. `percent=False` leaves the numbers as they are, such as odds ratios.

    >>> frame = pl.DataFrame({"model": ["a", "b"], "difference": [0.2, -0.1]})
    >>> [trace.name for trace in forest(frame).data]
    ['a', 'b']
    """
    place = "frame for figures.forest"
    rows = tested(frame, value, label, p_value, place, low=low, high=high)
    name = metric_label(value)
    title = name if title is None else title
    if frame.is_empty():
        return empty.draft(NO_ROWS, title)
    second: list[Row] = []
    notes = facts(frame, [value])
    if beside is not None:
        own_p = f"{beside}_p_value" if p_value else None
        ends = {end: f"{beside}_{end}" for end in ("low", "high")}
        second = tested(frame, f"{beside}_{value}", label, own_p, place, **ends)
    if p_value is not None:
        notes.insert(-1, stars_note(p_value))
    figure = Draft()
    for at, row in enumerate(rows):
        up = 0.18 if second else 0.0
        figure.add_trace(effect(row, -at + up, name, percent=percent))
        if second:
            second_name = f"{metric_label(beside or '')} {name.lower()}"
            mark = effect(second[at], -at - up, second_name, percent=percent, is_second=True)
            figure.add_trace(mark)
    texts = [
        "<br>".join(shown_number(row, percent=percent) for row in pair)
        for pair in (zip(rows, second, strict=True) if second else ((row,) for row in rows))
    ]
    legend: Legend = (
        (("dot", None, name), ("ring", style.QUIET, metric_label(beside or ""))) if second else ()
    )
    made = laid_out(
        figure,
        [[row] for row in rows],
        title=title,
        axis=f"{lowered(name)}, percentage points" if percent else lowered(name),
        span=None,
        right=("points" if percent else "value", texts),
        notes=notes,
        legend=legend,
        least=12 + 2 * LINE if second else 25,
    )
    ends_shown = [row[end] for row in (*rows, *second) for end in ("value", "low", "high")]
    around(made, [end for end in ends_shown if end is not None], reference, percent=percent)
    return made


def need(frame: pl.DataFrame, column: str, place: str) -> None:
    if column not in frame.columns:
        raise UnknownColumn(place, column, frame.columns)


def tested(
    frame: pl.DataFrame, value: str, label: str, p_value: str | None, place: str, **ends: str
) -> list[Row]:
    """The rows with their p and its stars."""
    rows = marks(frame, value, label, place=place, **ends)
    if p_value is not None:
        need(frame, p_value, place)
    chances = frame[p_value].cast(pl.Float64).to_list() if p_value else [None] * len(rows)
    for row, chance in zip(rows, chances, strict=True):
        row |= {"p": chance, "stars": stars(chance)}
    return rows


def stars(p_value: float | None) -> str:
    """One star below .05, two below .01, three below .001; none for what is not known.

    >>> stars(0.05), stars(0.049), stars(0.0099), stars(0.0), stars(None)
    ('', '*', '**', '***', '')
    """
    if p_value is None or math.isnan(p_value):
        return ""
    return "*" * sum(p_value < limit for limit in (0.05, 0.01, 0.001))


def stars_note(p_value: str) -> str:
    kinds = {"p_value": "", "p_holm": " (adjusted by Holm)"}
    kind = kinds.get(p_value, f" ({p_value.replace('_', ' ')})")
    return STARS + kind


def hue_of(row: Row) -> str:
    return colour(row["model"]) if row["model"] else PALETTE[0]


def effect(row: Row, height: float, name: str, *, percent: bool, is_second: bool = False) -> Trace:
    hue = hue_of(row)
    line = {"width": 2, "color": hue}
    look = {"size": 10, "color": hue, "line": line}
    if is_second:
        look |= {"size": 8, "color": "white"}
    bars = error_bars([row], style.tint(hue, 0.6) if is_second else hue)
    return trace(
        "scatter",
        x=[row["value"]],
        y=[height],
        name=style.label(f"{row['label']} · {name}" if is_second else row["label"]),
        mode="markers",
        marker=look,
        error_x=bars | {"thickness": 1.3 if is_second else 2, "width": 3},
        cliponaxis=False,
        hovertext=hover(row, name, percent=percent),
        hoverinfo="text",
    )


def hover(row: Row, name: str, *, percent: bool) -> str:
    def shown(number: float) -> str:
        return points_text(number) if percent else number_text(number, 3)

    text = "no value" if row["value"] is None else shown(row["value"])
    if row["low"] is not None and row["high"] is not None:
        text += f" ({shown(row['low'])} to {shown(row['high'])})"
    if row["n"] is not None:
        text += f", n = {row['n']:,}"
    if row.get("p") is not None:
        text += f", p = {row['p']:.2g}"
    return f"<b>{style.label(row['label'])}</b><br>{style.label(name)} {text}"


def shown_number(row: Row, *, percent: bool) -> str:
    """The value for the column at the right, with its stars."""
    if row["value"] is None:
        return "–"
    digits = 2 if abs(row["value"]) < 10 else 1
    text = points_text(row["value"]) if percent else number_text(row["value"], digits)
    return text + row.get("stars", "")


def around(figure: Draft, ends: Sequence[float], reference: float, *, percent: bool) -> None:
    """The axis of effects with its line of reference; in points when these are proportions."""
    low, high = min([*ends, reference]), max([*ends, reference])
    room = 0.06 * (high - low) or 0.05
    low, high = low - room, high + room
    figure.update_xaxes(range=[low, high])
    if percent:
        steps = (0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5)
        step = next((step for step in steps if high - low <= 7 * step), (high - low) / 5)
        ticks = [step * k for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
        texts = [("+" if tick > 0 else "") + points_text(tick, 0) for tick in ticks]
        figure.update_xaxes(tickmode="array", tickvals=ticks, ticktext=texts)
    line = {"color": style.QUIET, "width": 1.5, "dash": "dash"}
    down, up = figure.layout["yaxis"]["range"]  # "between" works with places on both axes only
    place = {"x0": reference, "x1": reference, "y0": down, "y1": up}
    figure.add_shape(type="line", xref="x", yref="y", layer="between", line=line, **place)
