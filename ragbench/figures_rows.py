"""Pictures with a line per row: grouped bars, and the spread over models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
import polars as pl

from ragbench import style
from ragbench.draft import Draft, Trace, trace
from ragbench.errors import RagbenchError
from ragbench.facts import axis, facts, is_proportion, marks, metric_label, value_label
from ragbench.figures_effects import (
    NO_ROWS,
    hover,
    hue_of,
    need,
    shown_number,
    stars_note,
    tested,
)
from ragbench.layout import (
    LINE,
    Row,
    empty,
    error_bars,
    laid_out,
    points_text,
    row_height,
)
from ragbench.style import PALETTE, colour


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
    rows = tested(frame, value, label, p_value, "frame for figures.bars")
    title = metric_label(value) if title is None else title
    if frame.is_empty():
        return empty(NO_ROWS, title)
    is_percent = is_proportion(frame, value) if percent is None else percent
    lines, names = _grouped(frame, rows, label, group)
    hues = _hues(names, group)
    least = max(25, 12 + LINE * len(names))
    height = row_height([line[0]["label"] for line in lines], least)
    pitch = LINE / height if group else 0.75
    figure = Draft()
    for nth, name in enumerate(names):
        shift = (nth - (len(names) - 1) / 2) * pitch
        parts = [line[nth] for line in lines]
        hue = hues[nth] if group else None
        mark = _bars(parts, name or title, shift, pitch, hue, percent=is_percent)
        figure.add_trace(mark)
    notes = facts(frame, [value])
    if p_value is not None:
        notes.insert(-1, stars_note(p_value))
    stated = [[next((r for r in line if r["value"] is not None), line[0])] for line in lines]
    known = [row[end] for row in rows for end in ("value", "low", "high") if row[end] is not None]
    made = laid_out(
        figure,
        stated,
        title=title,
        axis=axis(frame, value) if is_percent else metric_label(value).lower(),
        span=_reach(known) if is_percent else None,
        right=(
            "percent" if is_percent else "value",
            ["<br>".join(shown_number(row, percent=is_percent) for row in line) for line in lines],
        ),
        notes=notes,
        legend=[("square", hue, name) for hue, name in zip(hues, names, strict=True)]
        if group
        else (),
        least=least,
    )
    made.update_xaxes(zeroline=True, zerolinecolor=style.QUIET, zerolinewidth=1)
    return made.figure()


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
    need(frame, over, "frame for figures.spread")
    title = f"{metric_label(value)} by {label.replace('_', ' ')}" if title is None else title
    if frame.is_empty():
        return empty(NO_ROWS, title)
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
        Draft([_range(means), *ticks, _means(means, percent=is_percent)]),
        [[row] for row in means],
        title=title,
        axis=axis(frame, value) if is_percent else metric_label(value).lower(),
        span=_reach(known) if is_percent else None,
        right=(
            "mean, %" if is_percent else "mean",
            [shown_number(r, percent=is_percent) for r in means],
        ),
        notes=notes,
        legend=[("dot", None, "mean"), ("square", "#CFCFCF", f"lowest to highest {over}")],
    ).figure()


def _grouped(
    frame: pl.DataFrame, rows: list[Row], label: str, group: str | None
) -> tuple[list[list[Row]], list[str]]:
    """The rows per label, each with one row per group (made up without a value where absent)."""
    if group is None:
        return [[row] for row in rows], [""]
    need(frame, group, "frame for figures.bars")
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
) -> Trace:
    hues = [hue or hue_of(row) for row in parts]
    return trace(
        "bar",
        x=[row["value"] for row in parts],
        y=[-at - shift for at in range(len(parts))],
        name=style.label(name),
        orientation="h",
        width=0.8 * width,
        marker={"color": [style.tint(one, 0.75) for one in hues], "line": {"width": 0}},
        error_x=error_bars(parts, style.INK),
        hovertext=[hover(row, name, percent=percent) for row in parts],
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


def _range(means: Sequence[Row]) -> Trace:
    x: list[float | None] = []
    y: list[int | None] = []
    for at, row in enumerate(means):
        x += [row["low"], row["high"], None]
        y += [-at, -at, None]
    line = {"width": 11, "color": style.tint(style.QUIET, 0.22)}
    return trace("scatter", x=x, y=y, name="range", mode="lines", line=line, hoverinfo="skip")


def _ticks(members: Sequence[Row], at: int, over: str, *, percent: bool) -> Trace:
    name = members[0]["label"]
    hues = [colour(row["over"]) if over == "model" else style.QUIET for row in members]
    return trace(
        "scatter",
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


def _means(means: Sequence[Row], *, percent: bool) -> Trace:
    return trace(
        "scatter",
        x=[row["value"] for row in means],
        y=[-at for at in range(len(means))],
        name="mean",
        mode="markers",
        marker={"size": 10, "color": style.INK, "line": {"width": 1.5, "color": "white"}},
        cliponaxis=False,
        hovertext=[
            hover(row, "mean", percent=percent)
            + "".join(f"<br>{end}: {style.label(name)}" for end, name in _ends(row))
            for row in means
        ],
        hoverinfo="text",
    )


def _ends(row: Row) -> list[tuple[str, Any]]:
    return list(zip(("lowest", "highest"), row["ends"], strict=False))
