"""Round pictures: profiles over a few axes, and the shares of a hierarchy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go
import polars as pl

from ragbench import style
from ragbench.draft import Draft, Trace, trace
from ragbench.errors import RagbenchError, UnknownColumn
from ragbench.facts import facts, marks, metric_label, unit, value_label
from ragbench.layout import (
    LABEL_SIZE,
    NOTE_SIZE,
    Legend,
    Row,
    empty,
    framed,
    note,
    number_text,
    points_text,
)
from ragbench.style import PALETTE, colour

_DARK = tuple(PALETTE[place] for place in (0, 5, 13, 3, 11, 9, 4, 8))  # white text is read on them
_SMALL = 0.12  # of the inner ring: less has no room for its name, and stands in the legend
_DASHES, _KEYS = ("solid", "dash", "dot"), ("line", "dashed", "dotted")


def radar(
    frame: pl.DataFrame,
    axes_column: str,
    value: str | Sequence[str],
    *,
    label: str = "model",
    title: str | None = None,
    edge: float | None = None,
) -> go.Figure:
    """One closed line per label over the values of `axes_column`, each axis from 0 %.

    Several values give a radar each, two beside each other. The edge is 100 %, or 50 or 25 % when
    all values are below; `edge=1` makes pictures comparable. Axes and labels come in the order in
    which the frame names them, the first axis on top. A value that is missing leaves its line open
    and is named in the caption. With fewer than three axes there is no area to see, and the picture
    says so.

    >>> frame = pl.DataFrame({"model": ["a"] * 3, "domain": ["Legal", "Energy", "Medical"]})
    >>> trace = radar(frame.with_columns(strict_ias=pl.Series([0.1, 0.2, 0.3])), "domain",
    ...     "strict_ias").data[0]
    >>> trace.name, trace.r
    ('a', (0.1, 0.2, 0.3, 0.1))
    """
    place = "frame for figures.radar"
    metrics = [value] if isinstance(value, str) else list(value)
    axes = [row["label"] for row in marks(frame, metrics[0], axes_column, place=place)]
    title = " and ".join(metric_label(name) for name in metrics) if title is None else title
    order = list(dict.fromkeys(axes))
    if frame.is_empty():
        return empty("No rows to draw: the frame is empty.", title)
    if len(order) < 3:
        count = f"{len(order)} {axes_column.replace('_', ' ')}{'s' if len(order) > 1 else ''}"
        return empty(f"{count}: a radar takes three or more; figures.bars shows fewer.", title)
    drawn = [_profiles(frame, axes_column, name, label, axes) for name in metrics]
    edges = [edge or _edge(profiles) for profiles in drawn]
    names = list(drawn[0])
    hues = {name: _hue(drawn[0][name], nth, label) for nth, name in enumerate(names)}
    figure = Draft()
    for nth, profiles in enumerate(drawn):
        for at, (name, profile) in enumerate(profiles.items()):
            profiled = _profile(name, profile, order, hues[name], _DASHES[at % 3])
            figure.add_trace(profiled | {"subplot": _polar(nth)})
    units = ", ".join(dict.fromkeys(unit(metric) for metric in metrics))
    at_edge = f", edge {100 * edges[0]:.3g} %" if len(metrics) == 1 else ""
    notes = [f"centre 0 %{at_edge}: {units}"]
    missing = _missing(drawn, metrics, order)
    if missing:
        notes.append("no value: " + ", ".join(missing))
    notes += [t for t in facts(frame, metrics, each="point") if not t.startswith("bars: ")]
    legend = [(_KEYS[nth % 3], hues[name], name) for nth, name in enumerate(names)]
    return _as_radars(figure, title, notes, legend, metrics, order, drawn, edges).figure()


def _profiles(
    frame: pl.DataFrame, axes_column: str, value: str, label: str, axes: Sequence[str]
) -> dict[str, dict[str, Row]]:
    """The rows of each label by axis."""
    rows = marks(frame, value, label, place="frame for figures.radar")
    if any(row["value"] is not None and not 0 <= row["value"] <= 1 for row in rows):
        raise RagbenchError(
            f"figures.radar draws proportions, and {value} has values outside 0-1. Rescale it, or "
            "use figures.bars or figures.heatmap."
        )
    profiles: dict[str, dict[str, Row]] = {}
    for row, axis in zip(rows, axes, strict=True):
        profile = profiles.setdefault(row["label"], {})
        if axis in profile:
            raise RagbenchError(
                f"figures.radar: two rows of {label} {row['label']!r} and {axes_column} {axis!r}. "
                "Choose one with a filter, or aggregate the frame first."
            )
        profile[axis] = row
    return profiles


def _value(profile: dict[str, Row], axis: str) -> float | None:
    return profile[axis]["value"] if axis in profile else None


def _missing(
    drawn: Sequence[dict[str, dict[str, Row]]], metrics: Sequence[str], order: Sequence[str]
) -> list[str]:
    return [
        f"{name} in {axis}" + (f" ({metric_label(metric)})" if len(metrics) > 1 else "")
        for metric, profiles in zip(metrics, drawn, strict=True)
        for name, profile in profiles.items()
        for axis in order
        if _value(profile, axis) is None
    ]


def _polar(nth: int) -> str:
    return "polar" if nth == 0 else f"polar{nth + 1}"


def _edge(profiles: dict[str, dict[str, Row]]) -> float:
    """The smallest round edge that holds all values."""
    rows = [row["value"] for profile in profiles.values() for row in profile.values()]
    most = max([value for value in rows if value is not None], default=1.0)
    return next((edge for edge in (0.25, 0.5) if most <= edge), 1.0)


def _hue(profile: dict[str, Row], nth: int, label: str) -> str:
    model = next(iter(profile.values()))["model"]
    return colour(model) if model and label in ("model", "row") else PALETTE[nth % len(PALETTE)]


def _profile(
    name: str, profile: dict[str, Row], order: Sequence[str], hue: str, dash: str
) -> Trace:
    found = [profile.get(axis) for axis in order]
    values = [None if row is None else row["value"] for row in found]
    hovers = []
    for axis, row in zip(order, found, strict=True):
        n = "" if row is None or row["n"] is None else f", n = {row['n']:,}"
        known = "–" if row is None else points_text(row["value"])
        hovers.append(f"<b>{style.label(name)}</b><br>{style.label(axis)} {known} %{n}")
    places = [360 * nth / len(order) for nth in range(len(order))]
    return trace(
        "scatterpolar",
        r=[*values, values[0]],
        theta=[*places, places[0]],
        name=style.label(name),
        mode="lines+markers",
        connectgaps=False,
        line={"color": hue, "width": 2, "dash": dash},
        marker={"size": 5, "color": hue},
        hovertext=[*hovers, hovers[0]],
        hoverinfo="text",
    )


def _as_radars(
    figure: Draft,
    title: str,
    notes: Sequence[str],
    legend: Legend,
    metrics: Sequence[str],
    order: Sequence[str],
    drawn: Sequence[dict[str, dict[str, Row]]],
    edges: Sequence[float],
) -> Draft:
    """One radar as wide as the picture, or several, two in a row, each with its name above."""
    is_one = len(metrics) == 1
    lines = [style.wrapped(axis, 14 if is_one else 10, most=2) for axis in order]
    widest = max(style.columns(line) for text in lines for line in text)
    outer = 12 if is_one else 6  # margins of the picture
    cell = style.WIDTH - 2 * outer if is_one else (style.WIDTH - 2 * outer) / 2
    side = 8 + 7 * widest if is_one else 6.4 * widest - 8
    across = cell - 2 * side
    above, below = (0, 0) if is_one else (44, 24 + 8)
    tall = above + across + below
    count = math.ceil(len(metrics) / 2)
    look = {"size": LABEL_SIZE if is_one else NOTE_SIZE, "color": style.INK}
    for nth, (metric, profiles, edge) in enumerate(zip(metrics, drawn, edges, strict=True)):
        down, right = divmod(nth, 2)
        left, top = right * cell + side, down * tall + above
        width, height = style.WIDTH - 2 * outer, count * tall
        domain = {
            "x": [left / width, (left + across) / width],
            "y": [1 - (top + across) / height, 1 - top / height],
        }
        polar = _axes(order, lines, profiles, edge, look) | {"domain": domain}
        if not is_one:
            polar["radialaxis"]["ticktext"] = [""] * 5
            name = f"<b>{style.label(metric_label(metric))}</b><br>edge {100 * edge:.3g} %"
            at = {"x": right * cell / width, "y": 1 - down * tall / height, "yanchor": "top"}
            note(figure, name, font=look, **at)
        figure.update_layout({_polar(nth): polar})
    margin = {"l": outer, "r": outer}
    above, below = (18, 40) if is_one else (0, 8)
    size = int(count * tall)
    return framed(figure, title, notes, margin, size, legend=legend, above=above, below=below)


def _axes(
    order: Sequence[str],
    lines: Sequence[Sequence[str]],
    profiles: dict[str, dict[str, Row]],
    edge: float,
    look: dict[str, Any],
) -> dict[str, Any]:
    """The axes of a radar; circles are named between those two axes where most room is."""
    count = 4 if edge == 1 else 5
    steps = [edge * nth / count for nth in range(1, count + 1)]
    tops = [max([_value(p, axis) or 0.0 for p in profiles.values()], default=0.0) for axis in order]
    reach = [max(top, tops[(nth + 1) % len(tops)]) for nth, top in enumerate(tops)]
    free = min(range(len(order)), key=lambda nth: reach[nth])
    angle = 90 - 360 / len(order) * (free + 0.5)
    named = [
        (count - nth) % 2 == 1 and (step > reach[free] or step == edge)
        for nth, step in enumerate(steps)
    ]
    return {
        "bgcolor": "white",
        "angularaxis": {
            "rotation": 90,
            "direction": "clockwise",
            "tickmode": "array",
            "tickvals": [360 * nth / len(order) for nth in range(len(order))],
            "ticktext": ["<br>".join(style.label(line) for line in text) for text in lines],
            "tickfont": look,
            "ticks": "",
            "gridcolor": style.GRID,
            "linecolor": style.GRID,
        },
        "radialaxis": {
            "range": [0, edge],
            "tickvals": steps,
            "ticktext": [
                f"{100 * step:.0f} %" if is_named else ""
                for step, is_named in zip(steps, named, strict=True)
            ],
            "tickfont": {"size": NOTE_SIZE, "color": style.QUIET},
            "ticks": "",
            "angle": angle,
            "tickangle": angle,
            "gridcolor": style.GRID,
            "showline": False,
        },
    }


def sunburst(
    frame: pl.DataFrame, path: Sequence[str], value: str, *, title: str | None = None
) -> go.Figure:
    """The shares of the total by the columns of `path`: the first inside, the second around it.

    Percent are of the whole; each outer part stands beside the inner one it belongs to, in a
    lighter tone of its colour. Order is that of the frame. `value` holds counts or weights, so
    that what is missing or zero is left away and named; a negative one is an error.

    >>> frame = pl.DataFrame({"category": ["p", "p", "c"], "dimension": ["a", "b", "d"]})
    >>> frame = frame.with_columns(n=pl.Series([1, 1, 2]))
    >>> figure = sunburst(frame, ["category", "dimension"], "n")
    >>> [(trace.name, list(trace.values)) for trace in figure.data]
    [('category', [2.0, 2.0]), ('dimension', [1.0, 1.0, 2.0])]
    """
    levels = [path] if isinstance(path, str) else list(path)
    if len(levels) not in (1, 2):
        raise RagbenchError(f"figures.sunburst draws one or two levels, and not {len(levels)}.")
    for name in (*levels, value):
        if name not in frame.columns:
            raise UnknownColumn("frame for figures.sunburst", name, frame.columns)
    title = f"Share of {metric_label(value).lower()}" if title is None else title
    amounts = frame[value].cast(pl.Float64).fill_nan(None).to_list()
    if any(amount is not None and amount < 0 for amount in amounts):
        raise RagbenchError(f"figures.sunburst: {value} has values below 0, and shares have none.")
    tree: dict[str, dict[str, float]] = {}
    left_out = []
    for keys, amount in zip(frame.select(levels).rows(), amounts, strict=True):
        names = [value_label(column, key) for column, key in zip(levels, keys, strict=True)]
        if not amount:
            left_out.append(" · ".join(names))
            continue
        branch = tree.setdefault(names[0], {})
        branch[names[-1]] = branch.get(names[-1], 0.0) + amount
    if not tree:
        return empty("No shares to draw: the frame is empty or adds up to nothing.", title)
    total = sum(sum(branch.values()) for branch in tree.values())
    rings = _rings(tree, levels, total)
    whole = f"{total:,.0f}" if total == round(total) else number_text(total, 2)
    notes = [f"percent of the whole; total {value.replace('_', ' ')} = {whole}"]
    if left_out:
        notes.append("nothing in: " + ", ".join(left_out))
    said = [text for text in facts(frame, [value]) if not text.startswith(("n ", "n=", "bars: "))]
    figure = Draft(rings)
    figure.update_layout(uniformtext={"minsize": NOTE_SIZE, "mode": "show"})
    hues = _inner_hues(tree)
    sums = {name: sum(branch.values()) / total for name, branch in tree.items()}
    legend = [
        ("square", hues[name], f"{name} {_percent(share)} %")
        for name, share in sums.items()
        if share < _SMALL and len(levels) == 2
    ]
    margin = {"l": 12, "r": 12}
    return framed(figure, title, [*notes, *said], margin, 400, legend=legend, below=10).figure()


def _inner_hues(names: Iterable[str]) -> dict[str, str]:
    return {name: _DARK[nth % len(_DARK)] for nth, name in enumerate(names)}


def _rings(tree: dict[str, dict[str, float]], levels: Sequence[str], total: float) -> list[Trace]:
    hues = _inner_hues(tree)
    sums = {name: sum(branch.values()) for name, branch in tree.items()}
    if len(levels) == 1:
        return [_ring(levels[0], sums, list(hues.values()), total, (0.15, 0.45), outside=True)]
    parts = [(name, leaf, amount) for name, b in tree.items() for leaf, amount in b.items()]
    tones = [style.tint(hues[name], 0.62) for name, _, _ in parts]
    outer = [(leaf, amount) for _, leaf, amount in parts]
    return [
        _ring(levels[0], sums, list(hues.values()), total, (0.3, 0.0), outside=False),
        _ring(levels[1], outer, tones, total, (0.15, 0.6), outside=True),
    ]


def _percent(share: float) -> str:
    return "<0.1" if share < 0.0005 else points_text(share)


def _ring(
    level: str,
    parts: dict[str, float] | Sequence[tuple[str, float]],
    hues: Sequence[str],
    total: float,
    shape: tuple[float, float],
    *,
    outside: bool,
) -> Trace:
    """One ring; `shape` is its distance from the edge of the picture and the size of its hole."""
    pairs = list(parts.items()) if isinstance(parts, dict) else list(parts)
    edge, hole = shape
    texts = []
    for name, amount in pairs:
        lines = style.wrapped(name, 13 if outside else 11, most=2)
        percent = f"{_percent(amount / total)} %"
        if outside and style.columns(f"{lines[-1]} {percent}") <= 16:
            lines[-1] += f" {percent}"
        else:
            lines.append(percent)
        is_small = not outside and amount / total < _SMALL
        texts.append("" if is_small else "<br>".join(style.label(line) for line in lines))
    look: dict[str, Any] = {"color": style.INK if outside else "white", "size": NOTE_SIZE}
    return trace(
        "pie",
        labels=[f"{nth}" for nth in range(len(pairs))],
        values=[amount for _, amount in pairs],
        name=level,
        domain={"x": [edge, 1 - edge], "y": [edge, 1 - edge]},
        hole=hole,
        sort=False,
        direction="clockwise",
        text=texts,
        textinfo="text",
        textposition="outside" if outside else "inside",
        insidetextorientation="horizontal",
        textfont=look,
        marker={"colors": list(hues), "line": {"color": "white", "width": 1.5}},
        hovertext=[
            f"<b>{style.label(name)}</b><br>{amount:,g}: {points_text(amount / total)} %"
            for name, amount in pairs
        ],
        hoverinfo="text",
    )
