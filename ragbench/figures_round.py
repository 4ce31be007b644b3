"""Round pictures: profiles over a few axes, and the shares of a hierarchy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import plotly.graph_objects as go
import polars as pl

from ragbench import style
from ragbench.errors import RagbenchError, UnknownColumn
from ragbench.facts import facts, marks, metric_label, unit, value_label
from ragbench.layout import LABEL_SIZE, NOTE_SIZE, Row, empty, framed, number_text, points_text
from ragbench.style import PALETTE, colour

_DARK = tuple(PALETTE[place] for place in (0, 5, 13, 3, 11, 9, 4, 8))  # white text is read on them
_SMALL = 0.12  # of the inner ring: less has no room for its name, and stands in the legend
_DASHES = ("solid", "dash", "dot")


def radar(
    frame: pl.DataFrame,
    axes_column: str,
    value: str,
    *,
    label: str = "model",
    title: str | None = None,
    edge: float | None = None,
) -> go.Figure:
    """One closed line per label over the values of `axes_column`, each axis from 0 %.

    The edge is 100 %, or 50 or 25 % when all values are below; `edge=1` makes pictures comparable.
    Axes and labels come in the order in which the frame names them, the first axis on top. A value
    that is missing leaves its line open and is named in the caption. With fewer than three axes
    there is no area to see, and the picture says so.

    >>> frame = pl.DataFrame({"model": ["a"] * 3, "domain": ["Legal", "Energy", "Medical"]})
    >>> trace = radar(frame.with_columns(strict_ias=pl.Series([0.1, 0.2, 0.3])), "domain",
    ...     "strict_ias").data[0]
    >>> trace.name, trace.r
    ('a', (0.1, 0.2, 0.3, 0.1))
    """
    place = "frame for figures.radar"
    rows = marks(frame, value, label, place=place)
    axes = [row["label"] for row in marks(frame, value, axes_column, place=place)]
    title = metric_label(value) if title is None else title
    order = list(dict.fromkeys(axes))
    if frame.is_empty():
        return empty("No rows to draw: the frame is empty.", title)
    if len(order) < 3:
        count = f"{len(order)} {axes_column.replace('_', ' ')}{'s' if len(order) > 1 else ''}"
        return empty(f"{count}: a radar takes three or more; figures.bars shows fewer.", title)
    values = [row["value"] for row in rows if row["value"] is not None]
    if any(not 0 <= number <= 1 for number in values):
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
    hues = {name: _hue(profile, nth, label) for nth, (name, profile) in enumerate(profiles.items())}
    figure = go.Figure(
        [
            _profile(name, profile, order, hues[name], _DASHES[nth % 3])
            for nth, (name, profile) in enumerate(profiles.items())
        ]
    )
    return _as_radar(figure, frame, value, title, order, profiles, hues, edge or _edge(values))


def _edge(values: Sequence[float]) -> float:
    """The smallest round edge that holds all values."""
    return next((edge for edge in (0.25, 0.5) if max(values, default=1) <= edge), 1.0)


def _hue(profile: dict[str, Row], nth: int, label: str) -> str:
    model = next(iter(profile.values()))["model"]
    return colour(model) if model and label == "model" else PALETTE[nth % len(PALETTE)]


def _profile(
    name: str, profile: dict[str, Row], order: Sequence[str], hue: str, dash: str
) -> go.Scatterpolar:
    found = [profile.get(axis) for axis in order]
    values = [None if row is None else row["value"] for row in found]
    hovers = []
    for axis, row in zip(order, found, strict=True):
        n = "" if row is None or row["n"] is None else f", n = {row['n']:,}"
        known = "–" if row is None else points_text(row["value"])
        hovers.append(f"<b>{style.label(name)}</b><br>{style.label(axis)} {known} %{n}")
    places = [360 * nth / len(order) for nth in range(len(order))]
    return go.Scatterpolar(
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


def _as_radar(
    figure: go.Figure,
    frame: pl.DataFrame,
    value: str,
    title: str,
    order: Sequence[str],
    profiles: dict[str, dict[str, Row]],
    hues: dict[str, str],
    edge: float,
) -> go.Figure:
    lines = [style.wrapped(axis, 14, most=2) for axis in order]
    count = 4 if edge == 1 else 5
    steps = [edge * nth / count for nth in range(1, count + 1)]
    side = 20 + int(7 * max(style.columns(line) for text in lines for line in text))
    figure.update_layout(
        polar={
            "bgcolor": "white",
            "angularaxis": {
                "rotation": 90,
                "direction": "clockwise",
                "tickmode": "array",
                "tickvals": [360 * nth / len(order) for nth in range(len(order))],
                "ticktext": ["<br>".join(style.label(line) for line in text) for text in lines],
                "tickfont": {"size": LABEL_SIZE, "color": style.INK},
                "ticks": "",
                "gridcolor": style.GRID,
                "linecolor": style.GRID,
            },
            "radialaxis": {
                "range": [0, edge],
                "tickvals": steps,
                "ticktext": [f"{100 * step:.0f} %" for step in steps],
                "tickfont": {"size": NOTE_SIZE, "color": style.QUIET},
                "ticks": "",
                "angle": 90 - 180 / len(order),
                "tickangle": 90 - 180 / len(order),
                "gridcolor": style.GRID,
                "showline": False,
            },
        }
    )
    missing = [
        f"{name} in {axis}"
        for name, profile in profiles.items()
        for axis in order
        if profile.get(axis, {"value": None})["value"] is None
    ]
    notes = [f"centre 0 %, edge {100 * edge:.3g} %: {unit(value)}"]
    if missing:
        notes.append("no value: " + ", ".join(missing))
    notes += [t for t in facts(frame, [value], each="point") if not t.startswith("bars: ")]
    legend = [("line", hues[name], name) for name in profiles]
    margin = {"l": side, "r": side}
    return framed(figure, title, notes, margin, style.WIDTH - 2 * side, legend=legend, below=40)


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
    figure = go.Figure(rings).update_layout(uniformtext={"minsize": NOTE_SIZE, "mode": "show"})
    hues = _inner_hues(tree)
    sums = {name: sum(branch.values()) / total for name, branch in tree.items()}
    legend = [
        ("square", hues[name], f"{name} {_percent(share)} %")
        for name, share in sums.items()
        if share < _SMALL and len(levels) == 2
    ]
    margin = {"l": 12, "r": 12}
    return framed(figure, title, [*notes, *said], margin, 400, legend=legend, below=10)


def _inner_hues(names: Iterable[str]) -> dict[str, str]:
    return {name: _DARK[nth % len(_DARK)] for nth, name in enumerate(names)}


def _rings(tree: dict[str, dict[str, float]], levels: Sequence[str], total: float) -> list[go.Pie]:
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
) -> go.Pie:
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
    return go.Pie(
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
