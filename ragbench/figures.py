"""Pictures of frames: each function takes a frame of scores and gives a plotly Figure.

Nothing here queries. Values are proportions; percent is only shown. Every picture carries its n,
what is missing, the panel and the origin of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import polars as pl

from ragbench import render, style
from ragbench.draft import Draft, Trace, drawn, trace
from ragbench.errors import UnknownColumn
from ragbench.facts import facts, groups, is_share, metric_label, points, unit
from ragbench.figures_effects import forest
from ragbench.figures_lines import curves
from ragbench.figures_panels import equivalence, panels
from ragbench.figures_planes import heatmap, scatter
from ragbench.figures_round import radar, sunburst
from ragbench.figures_rows import bars, spread
from ragbench.layout import Row, empty, error_bars, laid_out, points_text
from ragbench.style import COLOURS, PALETTE, colour

__all__ = [
    "COLOURS",
    "PALETTE",
    "bars",
    "colour",
    "curves",
    "dots",
    "equivalence",
    "forest",
    "gap",
    "heatmap",
    "panels",
    "radar",
    "scatter",
    "spread",
    "sunburst",
]

render.use_in_notebooks()

_INDEPENDENT = "Strict if failures were independent"


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
        return empty("No rows to draw: the frame of scores is empty.", title)
    pairs = sorted(zip(loose.to_dicts(), strict.to_dicts(), strict=True), key=_narrowness)
    figure = Draft([_gap_trace(*pair, place) for place, pair in enumerate(pairs)])
    legend: list[tuple[str, str | None, str]] = [
        ("ring", None, "Strict: all met"),
        ("dot", None, "Loose: share met"),
    ]
    if independence is not None:
        legend.append(("diamond", style.QUIET, _INDEPENDENT))
        figure.add_trace(_diamonds([row for _, row in pairs], _matched(scores, independence)))
    return laid_out(
        figure,
        [pair[::-1] for pair in pairs],
        title=title,
        axis="share of constraints (loose), of responses (strict)",
        span=(0.0, 1.0),
        right=("gap,<br>points", [points_text(_gap(*pair)) for pair in pairs]),
        notes=facts(scores, metrics[::-1]),
        legend=legend,
        least=30,
    ).figure()


@drawn
def dots(frame: pl.DataFrame, metric: str, *, title: str | None = None) -> Draft:
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
        return empty.draft("No rows to draw: the frame is empty.", title)
    rows = read.sort("value", descending=True, nulls_last=True, maintain_order=True).to_dicts()
    figure = Draft([_dot_trace(row, place, metric) for place, row in enumerate(rows)])
    notes = facts(frame, [metric])
    if any(_is_bounded(row) for row in rows):
        # Below the dots by its place: with a zorder plotly cuts dots at the edge in half.
        figure.traces.insert(0, _bounds(rows))
        notes.insert(-1, "grey band: what the missing rows allow")
    return laid_out(
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


def _gap_trace(loose: Row, strict: Row, place: int) -> Trace:
    """Two dots and, above and below them, where each can be told from the other, their bars."""
    hue = colour(strict["model"]) if strict["model"] else PALETTE[0]
    width, none = _gap(loose, strict), {"value": None, "low": None, "high": None}
    is_narrow = width is not None and abs(width) < 0.01  # then a dot within the ring
    return trace(
        "scatter",
        x=[strict["value"], loose["value"], None, strict["value"], None, loose["value"]],
        y=[-place, -place, None, -place - 0.13, None, -place + 0.13],
        name=style.label(strict["label"]),
        mode="lines+markers",
        line={"width": 7, "color": style.tint(hue, 0.28)},
        marker={
            "size": [11, 4 if is_narrow else 11, 0, 0, 0, 0],
            "opacity": 1,  # of sizes that differ plotly would make bubbles to see through
            "color": ["white", *[hue] * 5],
            "line": {"width": [2, 2, 0, 0, 0, 0], "color": hue},
        },
        error_x=error_bars([none, none, none, strict, none, loose], hue),
        cliponaxis=False,
        hovertext=_hover({"Loose": loose, "Strict": strict}, _gap(loose, strict)),
        hoverinfo="text",
    )


def _dot_trace(row: Row, place: int, metric: str) -> Trace:
    hue = colour(row["model"]) if row["model"] else PALETTE[0]
    return trace(
        "scatter",
        x=[row["value"]],
        y=[-place],
        name=style.label(row["label"]),
        mode="markers",
        marker={"size": 11, "color": hue, "line": {"width": 2, "color": hue}},
        error_x=error_bars([row], hue),
        cliponaxis=False,
        hovertext=_hover({metric_label(metric): row}, is_share=is_share(metric)),
        hoverinfo="text",
    )


def _bounds(rows: Sequence[Row]) -> Trace:
    x: list[float | None] = []
    y: list[int | None] = []
    for place, row in enumerate(rows):
        if _is_bounded(row):
            x += [row["lowest"], row["highest"], None]
            y += [-place, -place, None]
    line = {"width": 19, "color": style.tint(style.QUIET, 0.22)}  # higher than the dot upon it
    return trace("scatter", x=x, y=y, name="bounds", mode="lines", line=line, hoverinfo="skip")


def _diamonds(rows: Sequence[Row], independent: dict[str, Row]) -> Trace:
    """Set a little below each row, so that a diamond near the strict dot stays visible."""
    found = [
        (-place - 0.3, independent[row["key"]])
        for place, row in enumerate(rows)
        if row["key"] in independent
    ]
    return trace(
        "scatter",
        x=[row["value"] for _, row in found],
        y=[height for height, _ in found],
        name=_INDEPENDENT,
        mode="markers",
        marker={"symbol": "diamond", "size": 7, "color": style.QUIET},
        error_x=error_bars([row for _, row in found], style.QUIET),
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


def _is_bounded(row: Row) -> bool:
    return None not in (row["lowest"], row["highest"]) and row["lowest"] < row["highest"]


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
    return "<br>".join([*lines, *([f"gap {points_text(gap)} points"] if gap is not None else [])])


def _span(rows: Sequence[Row]) -> tuple[float, float]:
    """The part of 0-1 to show: all of it unless the values lie close together."""
    ends = [row[name] for row in rows for name in ("value", "low", "high", "lowest", "highest")]
    known = [end for end in ends if end is not None]
    if not known or max(known) - min(known) > 0.5:
        return (0.0, 1.0)
    room = 0.04 + 0.1 * (max(known) - min(known))
    return (max(0.0, min(known) - room), min(1.0, max(known) + room))
