"""Curves: how metrics move with a number that models differ in, such as their size."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import polars as pl

from ragbench import style
from ragbench.draft import Draft, Trace, trace
from ragbench.errors import UnknownColumn
from ragbench.facts import facts, is_proportion, marks, metric_label, unit
from ragbench.layout import NOTE_SIZE, Row, empty, error_bars, framed, number_text
from ragbench.layout import points_text as percent_text
from ragbench.style import PALETTE

_SHAPES = (
    ("dot", "circle"),
    ("square", "square"),
    ("diamond", "diamond"),
    ("triangle", "triangle-up"),
)
_MARGIN, _HEIGHT = {"l": 62, "r": 24}, 300


def curves(
    frame: pl.DataFrame,
    x: str,
    metrics: Sequence[str],
    *,
    label: str = "model",
    title: str | None = None,
    percent: bool | None = None,
) -> go.Figure:
    """One line per metric over the column `x` of numbers, with a point and interval per row.

    The axis of `x` is logarithmic where all its values are above zero, with a tick at each. Rows
    without an `x` are named in the caption. Metrics are told apart by colour and shape. Percent is
    shown for proportions unless `percent` says otherwise.

    >>> frame = pl.DataFrame({"model": ["a", "b"], "params_b": [8.0, 32.0]})
    >>> figure = curves(frame.with_columns(strict_ias=pl.Series([0.1, 0.2])), "params_b",
    ...     ["strict_ias"])
    >>> [(trace.name, list(trace.x), list(trace.y)) for trace in figure.data]
    [('Strict IAS', [8.0, 32.0], [0.1, 0.2])]
    """
    place = "frame for figures.curves"
    if x not in frame.columns:
        raise UnknownColumn(place, x, frame.columns)
    for metric in metrics:
        marks(frame, metric, label, place=place)
    if title is None:
        title = f"{', '.join(map(metric_label, metrics))} by {metric_label(x).lower()}"
    drawn = frame.filter(pl.col(x).is_not_null()).sort(x, label)
    if drawn.is_empty():
        return empty("No rows to draw: none has a value on the axis.", title)
    at = [float(value) for value in drawn[x]]
    figure = Draft()
    legend: list[tuple[str, str | None, str]] = []
    rows: list[Row] = []
    shares = []
    for nth, metric in enumerate(metrics):
        hue, (mark, symbol) = PALETTE[nth % len(PALETTE)], _SHAPES[nth % len(_SHAPES)]
        parts = marks(drawn, metric, label, place=place)
        shares.append(is_proportion(drawn, metric) if percent is None else percent)
        figure.add_trace(_line(at, parts, metric, (hue, symbol), percent=shares[-1]))
        legend.append((mark, hue, f"{metric_label(metric)}, {unit(metric)}"))
        rows += parts
    _axes(figure, at, rows, x, percent=all(shares))
    notes = facts(drawn, list(metrics), each="point")
    known = zip(drawn[label], at, strict=True)
    notes.insert(0, "points: " + ", ".join(f"{name} ({value:g})" for name, value in known))
    if lacking := frame.filter(pl.col(x).is_null())[label].to_list():
        notes.insert(1, f"no {metric_label(x).lower()}: " + ", ".join(map(str, lacking)))
    return framed(figure, title, notes, _MARGIN, _HEIGHT, legend=legend, below=46).figure()


def _line(
    at: Sequence[float], rows: Sequence[Row], metric: str, look: tuple[str, str], *, percent: bool
) -> Trace:
    hue, symbol = look
    hovers = []
    for row in rows:
        if row["value"] is None:
            value = "no value"
        else:
            value = f"{percent_text(row['value'])} %" if percent else number_text(row["value"], 3)
        n = "" if row["n"] is None else f", n = {row['n']:,}"
        text = (
            f"<b>{style.label(row['label'])}</b><br>{style.label(metric_label(metric))} {value}{n}"
        )
        hovers.append(text)
    bars = error_bars(rows, style.tint(hue, 0.6))
    return trace(
        "scatter",
        x=list(at),
        y=[row["value"] for row in rows],
        name=style.label(metric_label(metric)),
        mode="lines+markers",
        line={"width": 2, "color": hue},
        marker={"size": 9, "symbol": symbol, "color": hue},
        error_y=bars | {"thickness": 1.3, "width": 3},
        cliponaxis=False,
        hovertext=hovers,
        hoverinfo="text",
    )


def _axes(
    figure: Draft, at: Sequence[float], rows: Sequence[Row], x: str, *, percent: bool
) -> None:
    is_log = min(at) > 0
    places = sorted(set(at))
    figure.update_xaxes(
        type="log" if is_log else "linear",
        title_text=style.label(metric_label(x) + (" (logarithmic)" if is_log else "")),
        tickmode="array",
        tickvals=places,
        ticktext=[f"{value:g}" for value in places],
    )
    ends = [row[end] for row in rows for end in ("value", "low", "high") if row[end] is not None]
    figure.update_yaxes(
        range=[min(0.0, *ends), 1.05 * max(ends)] if ends else None,
        tickformat=".0%" if percent else None,
        tickfont_size=NOTE_SIZE,
        rangemode="tozero",
    )
