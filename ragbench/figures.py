"""Pictures of frames: each function takes a frame of scores and gives a plotly Figure.

Nothing here queries. Values are proportions; percent is only shown. Every picture carries its n,
what is missing, the panel and the origin of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
import polars as pl

from ragbench import render, style
from ragbench.errors import UnknownColumn
from ragbench.facts import SIMULATED, facts, groups, is_share, metric_label, points, unit
from ragbench.style import COLOURS, PALETTE, colour

__all__ = ["COLOURS", "PALETTE", "colour", "dots", "gap"]

render.use_in_notebooks()

_LABEL_COLUMNS = 25
_INDEPENDENT = "Strict if failures were independent"
_LABEL_SIZE, _NOTE_SIZE, _TITLE_SIZE = 13, 12, 16
Row = dict[str, Any]


def gap(
    scores: pl.DataFrame,
    independence: pl.DataFrame | None = None,
    *,
    metrics: tuple[str, str] = ("loose_ias", "strict_ias"),
    title: str | None = None,
) -> go.Figure:
    """Loose (filled) against Strict (open) for each row of `scores`, the widest gap on top.

    The band between the dots is the gap, its size stands at the right in points; thin bars are 95 %
    intervals. `independence` (from `metrics.independence`, same grouping) adds a diamond: the
    strict rate if a model's failures were independent of each other. `metrics` names another
    Loose and Strict pair, such as `("loose_rules", "strict_rules")`.

    >>> frame = pl.DataFrame({"model": ["a", "b"], "loose_ias": [0.8, 0.9]})
    >>> [trace.name for trace in gap(frame.with_columns(strict_ias=pl.Series([0.7, 0.2]))).data]
    ['b', 'a']
    """
    loose, strict = (points(scores, metric, place="scores for figures.gap") for metric in metrics)
    names = [metric_label(metric) for metric in metrics]
    title = f"{names[0]} against {names[1]}" if title is None else title
    if scores.is_empty():
        return _empty("No rows to draw: the frame of scores is empty.", title)
    pairs = sorted(zip(loose.to_dicts(), strict.to_dicts(), strict=True), key=_narrowness)
    figure = go.Figure([_gap_trace(*pair, place) for place, pair in enumerate(pairs)])
    legend = {"ring": "Strict: all met", "dot": "Loose: share met"}
    if independence is not None:
        legend["diamond"] = _INDEPENDENT
        figure.add_trace(_diamonds([row for _, row in pairs], _matched(scores, independence)))
    return _laid_out(
        figure,
        [pair[::-1] for pair in pairs],
        title=title,
        axis="share of constraints (loose), of responses (strict)",
        span=(0.0, 1.0),
        right=("gap,<br>points", [_points_text(_gap(*pair)) for pair in pairs]),
        notes=facts(scores, metrics[::-1]),
        legend=legend,
    )


def dots(frame: pl.DataFrame, metric: str, *, title: str | None = None) -> go.Figure:
    """One dot per row of `frame`, highest value on top, with its 95 % interval and n.

    Where rows are missing, a faint wider band reaches from the value if all of them failed to the
    value if all succeeded. Takes `scores` and `constraint_scores` with any grouping.

    >>> frame = pl.DataFrame({"model": ["a", "b"], "coverage": [0.3, 0.6], "coverage_n": [20, 25]})
    >>> [trace.name for trace in dots(frame, "coverage").data]
    ['b', 'a']
    """
    read = points(frame, metric, place="frame for figures.dots")
    title = metric_label(metric) if title is None else title
    if frame.is_empty():
        return _empty("No rows to draw: the frame is empty.", title)
    rows = read.sort("value", descending=True, nulls_last=True, maintain_order=True).to_dicts()
    figure = go.Figure([_dot_trace(row, place, metric) for place, row in enumerate(rows)])
    notes = facts(frame, [metric])
    if any(_is_bounded(row) for row in rows):
        figure.add_trace(_bounds(rows))
        notes.insert(-1, "grey band: what the missing rows allow")
    return _laid_out(
        figure,
        [[row] for row in rows],
        title=title,
        axis=unit(metric),
        span=_span(rows) if is_share(metric) else None,
        right=("n", ["–" if row["n"] is None else f"{row['n']:,}" for row in rows]),
        notes=notes,
    )


def _gap(loose: Row, strict: Row) -> float | None:
    known = loose["value"] is not None and strict["value"] is not None
    return loose["value"] - strict["value"] if known else None


def _narrowness(pair: tuple[Row, Row]) -> float:
    """What sorts the widest gap first and rows without one last."""
    gap = _gap(*pair)
    return 9.0 if gap is None else -gap


def _gap_trace(loose: Row, strict: Row, place: int) -> go.Scatter:
    hue = colour(strict["model"]) if strict["model"] else PALETTE[0]
    return go.Scatter(
        x=[strict["value"], loose["value"]],
        y=[-place, -place],
        name=style.label(strict["label"]),
        mode="lines+markers",
        line={"width": 7, "color": style.tint(hue, 0.28)},
        marker={"size": 11, "color": ["white", hue], "line": {"width": 2, "color": hue}},
        error_x=_bars([strict, loose], hue),
        cliponaxis=False,
        hovertext=_hover({"Loose": loose, "Strict": strict}, _gap(loose, strict)),
        hoverinfo="text",
    )


def _dot_trace(row: Row, place: int, metric: str) -> go.Scatter:
    hue = colour(row["model"]) if row["model"] else PALETTE[0]
    return go.Scatter(
        x=[row["value"]],
        y=[-place],
        name=style.label(row["label"]),
        mode="markers",
        marker={"size": 11, "color": hue, "line": {"width": 2, "color": hue}},
        error_x=_bars([row], hue),
        cliponaxis=False,
        hovertext=_hover({metric_label(metric): row}, is_share=is_share(metric)),
        hoverinfo="text",
    )


def _bounds(rows: Sequence[Row]) -> go.Scatter:
    x: list[float | None] = []
    y: list[int | None] = []
    for place, row in enumerate(rows):
        if _is_bounded(row):
            x += [row["lowest"], row["highest"], None]
            y += [-place, -place, None]
    line = {"width": 11, "color": style.tint(style.QUIET, 0.22)}
    return go.Scatter(x=x, y=y, name="bounds", mode="lines", line=line, hoverinfo="skip", zorder=-1)


def _diamonds(rows: Sequence[Row], independent: dict[str, Row]) -> go.Scatter:
    """Set a little below each row, so that a diamond near the strict dot stays visible."""
    found = [
        (-place - 0.3, independent[row["key"]])
        for place, row in enumerate(rows)
        if row["key"] in independent
    ]
    return go.Scatter(
        x=[row["value"] for _, row in found],
        y=[height for height, _ in found],
        name=_INDEPENDENT,
        mode="markers",
        marker={"symbol": "diamond", "size": 7, "color": style.QUIET},
        error_x=_bars([row for _, row in found], style.QUIET),
        hovertext=[_hover({_INDEPENDENT: row}) for _, row in found],
        hoverinfo="text",
    )


def _matched(scores: pl.DataFrame, independence: pl.DataFrame) -> dict[str, Row]:
    """The rows of `independence` by the grouping values of `scores`."""
    place, by = "independence for figures.gap", groups(scores)
    for name in by:
        if name not in independence.columns:
            raise UnknownColumn(place, name, independence.columns)
    ordered = independence.select(*by, pl.exclude(by))
    return {row["key"]: row for row in points(ordered, "independent", place=place).to_dicts()}


def _bars(rows: Sequence[Row], hue: str) -> dict[str, Any]:
    """The intervals of some dots as plotly's error bars; no bar where there is no interval."""

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


def _points_text(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}".replace("-", "−")


def _is_bounded(row: Row) -> bool:
    return None not in (row["lowest"], row["highest"]) and row["lowest"] < row["highest"]


def _why_missing(rows: Sequence[Row]) -> str:
    """What to write in a row that lacks a value; empty when none is lacking."""
    for row in rows:
        if row["value"] is None:
            known = row["n"] is not None and row["planned"] is not None
            return f"no value: {row['n']:,} of {row['planned']:,} judged" if known else "no value"
    return ""


def _hover(parts: dict[str, Row], gap: float | None = None, *, is_share: bool = True) -> str:
    def number(value: float) -> str:
        return f"{100 * value:.1f} %" if is_share else f"{value:.3g}"

    lines = [f"<b>{style.label(next(iter(parts.values()))['label'])}</b>"]
    for what, row in parts.items():
        value = "no value" if row["value"] is None else number(row["value"])
        if row["low"] is not None and row["high"] is not None:
            value += f" ({number(row['low'])} to {number(row['high'])})"
        n = "" if row["n"] is None else f", n = {row['n']:,}"
        lines.append(f"{style.label(what)} {value}{n}")
    return "<br>".join([*lines, *([f"gap {_points_text(gap)} points"] if gap is not None else [])])


def _span(rows: Sequence[Row]) -> tuple[float, float]:
    """The part of 0-1 to show: all of it unless the values lie close together."""
    ends = [row[name] for row in rows for name in ("value", "low", "high", "lowest", "highest")]
    known = [end for end in ends if end is not None]
    if not known or max(known) - min(known) > 0.5:
        return (0.0, 1.0)
    room = 0.04 + 0.1 * (max(known) - min(known))
    return (max(0.0, min(known) - room), min(1.0, max(known) + room))


def _laid_out(
    figure: go.Figure,
    rows: Sequence[Sequence[Row]],
    *,
    title: str,
    axis: str,
    span: tuple[float, float] | None,
    right: tuple[str, Sequence[str]],
    notes: Sequence[str],
    legend: dict[str, str] | None = None,
) -> go.Figure:
    """The figure in the house style: one line per row, the first on top, a column at the right."""
    lines = [style.joined(parts[0]["label"].split(" · "), _LABEL_COLUMNS, most=3) for parts in rows]
    left = 22 + 7 * max(style.columns(line) for text in lines for line in text)
    figure.update_xaxes(title_text=axis)
    if span is not None:
        pad = 0.015 * (span[1] - span[0])
        figure.update_xaxes(range=[span[0] - pad, span[1] + pad], tickformat=".0%")
        figure.update_xaxes(dtick=0.25 if span == (0.0, 1.0) else None)
    figure.update_yaxes(
        range=[-len(rows) + 0.4, 0.6],
        tickmode="array",
        tickvals=[-place for place in range(len(rows))],
        ticktext=["<br>".join(style.label(line) for line in text) for text in lines],
    )
    header, texts = right
    _right_note(figure, header, yref="paper", y=1, yanchor="bottom", font_color=style.QUIET)
    for place, (text, parts) in enumerate(zip(texts, rows, strict=True)):
        _right_note(figure, text, y=-place, yanchor="middle")
        if why := _why_missing(parts):
            low = any(row["value"] is not None and row["value"] < 0.5 for row in parts)
            side = {"x": 0.98, "xanchor": "right"} if low else {"x": 0.02}
            _note(figure, f"<i>{why}</i>", y=-place, yref="y", **side)
    margin = {"l": left, "r": 24 + 7 * max(len(text) for text in (*texts, *header.split("<br>")))}
    height = len(rows) * max(30 if legend else 25, 8 + 17 * max(len(text) for text in lines))
    return _framed(figure, title, notes, margin, height, legend=legend, header=header)


def _framed(
    figure: go.Figure,
    title: str,
    notes: Sequence[str],
    margin: dict[str, int],
    height: float,
    *,
    legend: dict[str, str] | None = None,
    header: str = "",
) -> go.Figure:
    """Title and legend above, facts below, from the left edge; the size follows the content."""
    style.check_fonts([title, *notes, *(trace.name or "" for trace in figure.data)])
    heading = [style.label(line) for line in style.wrapped(title, 50)] if title else []
    caption = style.joined(list(notes), 76)
    top = 14 + 21 * len(heading) + 22 * bool(legend) + 6 + 17 * len(header.split("<br>"))
    bottom = (46 if header else 6) + 16 * len(caption) + 6
    text = "<br>".join(style.label(line) for line in caption)
    text = text.replace(SIMULATED, f'<span style="color:{style.ALARM}"><b>{SIMULATED}</b></span>')
    edge = {"x": 0, "xshift": 12 - margin["l"]}
    if text:
        _note(figure, text, y=0, yanchor="top", yshift=6 - bottom + 16 * len(caption), **edge)
    if legend:
        above = top - 16 - 21 * len(heading)
        _add_legend(figure, legend, left=12 - margin["l"], above=above - 8)
    figure.update_layout(
        template=_template(),
        title_text="<br>".join(heading),
        width=style.WIDTH,
        height=top + height + bottom,
        margin={**margin, "t": top, "b": bottom},
    )
    return figure


def _add_legend(figure: go.Figure, legend: dict[str, str], *, left: int, above: int) -> None:
    """Marks in ink with their meanings: the marks of the rows have the colours of their models."""
    for mark, text in legend.items():
        r = 4 if mark == "diamond" else 5
        x, y = left + r, above
        outline = {"color": style.QUIET if mark == "diamond" else style.INK, "width": 2}
        figure.add_shape(
            type="path" if mark == "diamond" else "circle",
            path=f"M{x - r},{y} L{x},{y + r} L{x + r},{y} L{x},{y - r} Z" if r == 4 else None,
            **({} if r == 4 else {"x0": x - r, "x1": x + r, "y0": y - r, "y1": y + r}),
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
        _note(figure, text, x=0, y=1, xshift=x + r + 6, yshift=y, **look)
        left += 34 + 6 * style.columns(text)


def _note(figure: go.Figure, text: str, **where: Any) -> None:
    font = {"size": _NOTE_SIZE, "color": style.QUIET}
    look = {"xref": "paper", "yref": "paper", "xanchor": "left", "align": "left", "font": font}
    figure.add_annotation(text=text, showarrow=False, **{**look, **where})


def _right_note(figure: go.Figure, text: str, **where: Any) -> None:
    look = {"x": 1, "xshift": 8, "font_size": _LABEL_SIZE, "font_color": style.INK, "yref": "y"}
    figure.add_annotation(
        text=text, showarrow=False, xref="paper", xanchor="left", align="left", **{**look, **where}
    )


def _empty(why: str, title: str) -> go.Figure:
    figure = go.Figure()
    figure.update_xaxes(visible=False).update_yaxes(visible=False)
    _note(figure, why, x=0.5, y=0.5, xanchor="center", font_size=_LABEL_SIZE)
    return _framed(figure, title, [], {"l": 12, "r": 12}, 60)


def _template() -> go.layout.Template:
    small = {"size": _NOTE_SIZE, "color": style.INK}
    axis = {"zeroline": False, "gridcolor": style.GRID, "tickfont": small}
    title = {"x": 0, "xref": "container", "y": 1, "yref": "container", "yanchor": "top"}
    layout = go.Layout(
        font={"family": style.FONT, "size": _LABEL_SIZE, "color": style.INK},
        paper_bgcolor="white",
        plot_bgcolor="white",
        showlegend=False,
        title={**title, "pad": {"l": 12, "t": 12}, "font": {"size": _TITLE_SIZE, "weight": 700}},
        hoverlabel={"bgcolor": "white", "align": "left", "font": small},
        xaxis={**axis, "title": {"font": small, "standoff": 6}},
        yaxis={**axis, "tickfont_size": _LABEL_SIZE},
    )
    return go.layout.Template(layout=layout)
