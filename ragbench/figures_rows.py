"""Pictures with a line per row: effects with intervals, grouped bars, the spread over models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
import polars as pl

from ragbench import style
from ragbench.errors import RagbenchError, UnknownColumn
from ragbench.facts import facts, is_proportion, marks, metric_label, unit, value_label
from ragbench.layout import (
    LINE,
    Legend,
    Row,
    empty,
    error_bars,
    laid_out,
    number_text,
    points_text,
    row_height,
)
from ragbench.style import PALETTE, colour

_NO_ROWS = "No rows to draw: the frame is empty."
_STARS = "* p < .05, ** p < .01, *** p < .001"


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
) -> go.Figure:
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
    rows = _tested(frame, value, label, p_value, place, low=low, high=high)
    name = metric_label(value)
    title = name if title is None else title
    if frame.is_empty():
        return empty(_NO_ROWS, title)
    second: list[Row] = []
    notes = facts(frame, [value])
    if beside is not None:
        own_p = f"{beside}_p_value" if p_value else None
        ends = {end: f"{beside}_{end}" for end in ("low", "high")}
        second = _tested(frame, f"{beside}_{value}", label, own_p, place, **ends)
    if p_value is not None:
        notes.insert(-1, _stars_note(p_value))
    figure = go.Figure()
    for at, row in enumerate(rows):
        up = 0.18 if second else 0.0
        figure.add_trace(_effect(row, -at + up, name, percent=percent))
        if second:
            second_name = f"{metric_label(beside or '')} {name.lower()}"
            mark = _effect(second[at], -at - up, second_name, percent=percent, is_second=True)
            figure.add_trace(mark)
    texts = [
        "<br>".join(_number(row, percent=percent) for row in pair)
        for pair in (zip(rows, second, strict=True) if second else ((row,) for row in rows))
    ]
    legend: Legend = (
        (("dot", None, name), ("ring", style.QUIET, metric_label(beside or ""))) if second else ()
    )
    made = laid_out(
        figure,
        [[row] for row in rows],
        title=title,
        axis=f"{name.lower()}, percentage points" if percent else name.lower(),
        span=None,
        right=("points" if percent else "value", texts),
        notes=notes,
        legend=legend,
        least=12 + 2 * LINE if second else 25,
    )
    ends_shown = [row[end] for row in (*rows, *second) for end in ("value", "low", "high")]
    _around(made, [end for end in ends_shown if end is not None], reference, percent=percent)
    return made


def bars(
    frame: pl.DataFrame,
    value: str,
    *,
    label: str = "model",
    group: str | None = None,
    title: str | None = None,
    p_value: str | None = None,
    percent: bool | None = None,
) -> go.Figure:
    """Horizontal bars from zero with intervals, in the order of the frame, numbers at the right.

    `group` draws one bar per value of that column for each label, in colours of their own (models
    keep theirs). `p_value` names the column for stars (as in `forest`). Percent is shown for
    proportions; `percent` overrides the guess for scales of one's own.

    >>> frame = pl.DataFrame({"model": ["a", "a", "b"], "side": ["x", "y", "x"]})
    >>> figure = bars(frame.with_columns(share=pl.Series([0.2, 0.5, 0.4])), "share", group="side")
    >>> [(trace.name, list(trace.x)) for trace in figure.data]
    [('x', [0.2, 0.4]), ('y', [0.5, None])]
    """
    rows = _tested(frame, value, label, p_value, "frame for figures.bars")
    title = metric_label(value) if title is None else title
    if frame.is_empty():
        return empty(_NO_ROWS, title)
    is_percent = is_proportion(frame, value) if percent is None else percent
    lines, names = _grouped(frame, rows, label, group)
    hues = _hues(names, group)
    least = max(25, 12 + LINE * len(names))
    height = row_height([line[0]["label"] for line in lines], least)
    pitch = LINE / height if group else 0.75
    figure = go.Figure()
    for nth, name in enumerate(names):
        shift = (nth - (len(names) - 1) / 2) * pitch
        parts = [line[nth] for line in lines]
        hue = hues[nth] if group else None
        trace = _bars(parts, name or title, shift, pitch, hue, percent=is_percent)
        figure.add_trace(trace)
    notes = facts(frame, [value])
    if p_value is not None:
        notes.insert(-1, _stars_note(p_value))
    stated = [[next((r for r in line if r["value"] is not None), line[0])] for line in lines]
    known = [row[end] for row in rows for end in ("value", "low", "high") if row[end] is not None]
    made = laid_out(
        figure,
        stated,
        title=title,
        axis=unit(value) if is_percent else metric_label(value).lower(),
        span=_reach(known) if is_percent else None,
        right=(
            "percent" if is_percent else "value",
            ["<br>".join(_number(row, percent=is_percent) for row in line) for line in lines],
        ),
        notes=notes,
        legend=[("square", hue, name) for hue, name in zip(hues, names, strict=True)]
        if group
        else (),
        least=least,
    )
    return made.update_xaxes(zeroline=True, zerolinecolor=style.QUIET, zerolinewidth=1)


def spread(
    frame: pl.DataFrame,
    value: str,
    *,
    label: str = "dimension",
    over: str = "model",
    title: str | None = None,
    percent: bool | None = None,
) -> go.Figure:
    """The mean over models of each `label` (dot), the highest on top, with lowest to highest (bar).

    Ticks on the bar are the single values of `over`, in their colours. The mean gives each of them
    the same weight, whatever its n. Rows of equal label and `over` count as they stand.

    >>> frame = pl.DataFrame({"dimension": ["a", "a", "b"], "model": ["x", "y", "x"]})
    >>> figure = spread(frame.with_columns(rate=pl.Series([0.2, 0.4, 0.5])), "rate")
    >>> figure.data[-1].name, [round(x, 2) for x in figure.data[-1].x]
    ('mean', [0.5, 0.3])
    """
    rows = marks(frame, value, label, place="frame for figures.spread")
    _need(frame, over, "frame for figures.spread")
    title = f"{metric_label(value)} by {label.replace('_', ' ')}" if title is None else title
    if frame.is_empty():
        return empty(_NO_ROWS, title)
    is_percent = is_proportion(frame, value) if percent is None else percent
    for row, key in zip(rows, frame[over], strict=True):
        row["over"] = value_label(over, key)
    parts: dict[str, list[Row]] = {}
    for row in rows:
        parts.setdefault(row["label"], []).append(row)
    means = sorted(
        (_mean(name, members) for name, members in parts.items()),
        key=lambda row: (row["value"] is None, -(row["value"] or 0)),
    )
    known = [row["value"] for row in rows if row["value"] is not None]
    counts = sorted({row["members"] for row in means})
    many = f"{counts[0]}–{counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    notes = facts(frame, [value], each=f"{label} and {over}".replace("_", " "))
    notes = [text for text in notes if not text.startswith("bars: ")]
    notes.insert(0, f"mean, lowest and highest of {many} {over.replace('_', ' ')}s")
    ticks = [
        _ticks(parts[row["label"]], at, over, percent=is_percent) for at, row in enumerate(means)
    ]
    return laid_out(
        go.Figure([_range(means), *ticks, _means(means, percent=is_percent)]),
        [[row] for row in means],
        title=title,
        axis=unit(value) if is_percent else metric_label(value).lower(),
        span=_reach(known) if is_percent else None,
        right=(
            "mean, %" if is_percent else "mean",
            [_number(r, percent=is_percent) for r in means],
        ),
        notes=notes,
        legend=[("dot", None, "mean"), ("square", "#CFCFCF", f"lowest to highest {over}")],
    )


def _need(frame: pl.DataFrame, column: str, place: str) -> None:
    if column not in frame.columns:
        raise UnknownColumn(place, column, frame.columns)


def _tested(
    frame: pl.DataFrame, value: str, label: str, p_value: str | None, place: str, **ends: str
) -> list[Row]:
    """The rows with their p and its stars."""
    rows = marks(frame, value, label, place=place, **ends)
    if p_value is not None:
        _need(frame, p_value, place)
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


def _stars_note(p_value: str) -> str:
    kinds = {"p_value": "", "p_holm": " (adjusted by Holm)"}
    kind = kinds.get(p_value, f" ({p_value.replace('_', ' ')})")
    return _STARS + kind


def _hue(row: Row) -> str:
    return colour(row["model"]) if row["model"] else PALETTE[0]


def _effect(
    row: Row, height: float, name: str, *, percent: bool, is_second: bool = False
) -> go.Scatter:
    hue = _hue(row)
    line = {"width": 2, "color": hue}
    look = {"size": 10, "color": hue, "line": line}
    if is_second:
        look |= {"size": 8, "color": "white"}
    bars = error_bars([row], style.tint(hue, 0.6) if is_second else hue)
    return go.Scatter(
        x=[row["value"]],
        y=[height],
        name=style.label(f"{row['label']} · {name}" if is_second else row["label"]),
        mode="markers",
        marker=look,
        error_x=bars | {"thickness": 1.3 if is_second else 2, "width": 3},
        cliponaxis=False,
        hovertext=_hover(row, name, percent=percent),
        hoverinfo="text",
    )


def _hover(row: Row, name: str, *, percent: bool) -> str:
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


def _number(row: Row, *, percent: bool) -> str:
    """The value for the column at the right, with its stars."""
    if row["value"] is None:
        return "–"
    digits = 2 if abs(row["value"]) < 10 else 1
    text = points_text(row["value"]) if percent else number_text(row["value"], digits)
    return text + row.get("stars", "")


def _around(figure: go.Figure, ends: Sequence[float], reference: float, *, percent: bool) -> None:
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
    down, up = figure.layout.yaxis.range  # "between" works with places on both axes only
    place = {"x0": reference, "x1": reference, "y0": down, "y1": up}
    figure.add_shape(type="line", xref="x", yref="y", layer="between", line=line, **place)


def _grouped(
    frame: pl.DataFrame, rows: list[Row], label: str, group: str | None
) -> tuple[list[list[Row]], list[str]]:
    """The rows per label, each with one row per group (made up without a value where absent)."""
    if group is None:
        return [[row] for row in rows], [""]
    _need(frame, group, "frame for figures.bars")
    names = [value_label(group, key) for key in frame[group]]
    order = list(dict.fromkeys(names))
    lines: dict[str, dict[str, Row]] = {}
    for row, name in zip(rows, names, strict=True):
        line = lines.setdefault(row["label"], {})
        if name in line:
            raise RagbenchError(
                f"figures.bars: two rows of {label} {row['label']!r} and {group} {name!r}. Choose "
                "one of them with a filter, or a label or group that tells them apart."
            )
        line[name] = row
    none = {"value": None, "low": None, "high": None, "n": None, "planned": None, "model": None}
    return [
        [line.get(name, {**none, "label": text, "stars": ""}) for name in order]
        for text, line in lines.items()
    ], order


def _hues(names: Sequence[str], group: str | None) -> list[str]:
    if group == "model":
        return [colour(name) for name in names]
    return [PALETTE[nth % len(PALETTE)] for nth in range(len(names))]


def _bars(
    parts: Sequence[Row], name: str, shift: float, width: float, hue: str | None, *, percent: bool
) -> go.Bar:
    hues = [hue or _hue(row) for row in parts]
    return go.Bar(
        x=[row["value"] for row in parts],
        y=[-at - shift for at in range(len(parts))],
        name=style.label(name),
        orientation="h",
        width=0.8 * width,
        marker={"color": [style.tint(one, 0.75) for one in hues], "line": {"width": 0}},
        error_x=error_bars(parts, style.INK),
        hovertext=[_hover(row, name, percent=percent) for row in parts],
        hoverinfo="text",
    )


def _reach(known: Sequence[float]) -> tuple[float, float]:
    """An axis of proportions from zero, as far as the values go: half, the whole, or below zero."""
    high = 1.0 if not known or max(known) > 0.5 else 0.5 if max(known) > 0.25 else 0.25
    low = 0.0 if not known or min(known) >= 0 else min(known) * 1.1
    if low < 0:
        high = max(0.0, max(known) * 1.1)
    return (low, high)


def _mean(name: str, members: Sequence[Row]) -> Row:
    known = [row for row in members if row["value"] is not None]
    values = [row["value"] for row in known]
    ranked = sorted(known, key=lambda row: row["value"])
    return {
        "label": name,
        "model": None,
        "value": sum(values) / len(values) if values else None,
        "low": min(values, default=None),
        "high": max(values, default=None),
        "n": None,
        "planned": None,
        "members": len(known),
        "ends": [ranked[0]["over"], ranked[-1]["over"]] if ranked else [],
    }


def _range(means: Sequence[Row]) -> go.Scatter:
    x: list[float | None] = []
    y: list[int | None] = []
    for at, row in enumerate(means):
        x += [row["low"], row["high"], None]
        y += [-at, -at, None]
    line = {"width": 11, "color": style.tint(style.QUIET, 0.22)}
    return go.Scatter(x=x, y=y, name="range", mode="lines", line=line, hoverinfo="skip")


def _ticks(members: Sequence[Row], at: int, over: str, *, percent: bool) -> go.Scatter:
    name = members[0]["label"]
    hues = [colour(row["over"]) if over == "model" else style.QUIET for row in members]
    return go.Scatter(
        x=[row["value"] for row in members],
        y=[-at] * len(members),
        name=style.label(name),
        mode="markers",
        marker={"symbol": "line-ns", "size": 9, "line": {"width": 2, "color": hues}},
        cliponaxis=False,
        hovertext=[
            f"<b>{style.label(row['over'])}</b> {points_text(row['value'])}" for row in members
        ],
        hoverinfo="text",
    )


def _means(means: Sequence[Row], *, percent: bool) -> go.Scatter:
    return go.Scatter(
        x=[row["value"] for row in means],
        y=[-at for at in range(len(means))],
        name="mean",
        mode="markers",
        marker={"size": 10, "color": style.INK, "line": {"width": 1.5, "color": "white"}},
        cliponaxis=False,
        hovertext=[
            _hover(row, "mean", percent=percent)
            + "".join(f"<br>{end}: {style.label(name)}" for end, name in _ends(row))
            for row in means
        ],
        hoverinfo="text",
    )


def _ends(row: Row) -> list[tuple[str, Any]]:
    return list(zip(("lowest", "highest"), row["ends"], strict=False))
