"""Pictures of effects side by side, and of differences against a margin of equivalence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go
import polars as pl

from ragbench import style
from ragbench.draft import Draft, Trace, trace
from ragbench.errors import RagbenchError, UnknownColumn
from ragbench.facts import facts, metric_label, value_label
from ragbench.figures_effects import NO_ROWS, STARS, around, effect, shown_number, tested
from ragbench.layout import (
    LINE,
    NOTE_SIZE,
    Legend,
    Row,
    empty,
    framed,
    laid_out,
    points_text,
)
from ragbench.layout import (
    note as write,
)

_NARROWEST = 40  # pixels of a panel; with five and more the picture grows
_LABEL_COLUMNS = (24, 17)  # with up to two panels, and with more


def panels(
    frame: pl.DataFrame,
    column: str,
    value: str = "difference",
    *,
    low: str = "low",
    high: str = "high",
    label: str = "model",
    p_value: str | None = None,
    adjusted: str | None = None,
    beside: str | None = None,
    has_bars: bool = False,
    title: str | None = None,
    note: str = "",
    unit: str = "responses",
) -> go.Figure:
    """Effects around zero, a panel for each value of `column`, side by side on the same rows.

    Rows and panels come in the order in which the frame names them; numbers are percentage points
    with stars by the column `p_value`. Where a column of adjusted p-values is named, it stands
    below the number, and a mark is filled only when that is below .05. `beside="stratified"` adds a
    lighter mark from stratified_difference, as in `forest`. `has_bars` draws a bar from zero.
    `note` is one more fact for the caption, `unit` what its n counts.

    >>> frame = pl.DataFrame({"model": ["a", "b", "a"], "metric": ["rejection"] * 2 + ["conflict"]})
    >>> figure = panels(frame.with_columns(difference=pl.Series([0.1, 0.2, -0.1])), "metric")
    >>> [(trace.name, trace.x[0], trace.xaxis) for trace in figure.data]
    [('a', 0.1, 'x'), ('b', 0.2, 'x'), ('a', -0.1, 'x2')]
    """
    place = "frame for figures.panels"
    title = metric_label(value) if title is None else title
    cells = _cells(frame, column, (value, low, high), label, (p_value, adjusted), place)
    if not cells:
        return empty(NO_ROWS, title)
    heads = list(dict.fromkeys(head for head, _ in cells))
    lines = list(dict.fromkeys(line for _, line in cells))
    second: dict[tuple[str, str], Row] = {}
    if beside is not None:
        names = (f"{beside}_{value}", f"{beside}_low", f"{beside}_high")
        second = _cells(frame, column, names, label, (None, None), place)
    figure = Draft()
    for nth, head in enumerate(heads):
        for at, line in enumerate(lines):
            if (head, line) in cells:
                own, other = cells[head, line], second.get((head, line))
                _draw(figure, own, other, at, nth, metric_label(value), has_bars=has_bars)
    texts = {key: _number(row, adjusted) for key, row in cells.items()}
    notes = [text.replace(" responses", f" {unit}") for text in facts(frame, [value])]
    if len(heads) > 1 and notes[0].startswith("n per row: "):
        notes[:1] = _n_of_each(frame, column, value, heads)
    notes[-1:-1] = [*([note] if note else []), *([STARS] if p_value else [])]
    return _in_panels(
        figure, title, notes, heads, lines, texts, _legend(adjusted, beside), _ends(cells, second)
    ).figure()


def _n_of_each(frame: pl.DataFrame, column: str, value: str, heads: Sequence[str]) -> list[str]:
    """The n of two groups, a text per panel: panels are about instances of their own."""
    parts = frame.partition_by(column, maintain_order=True)
    texts = [facts(part, [value])[0].partition(": ")[2] or "not stated" for part in parts]
    said = [f"{head}: {text}" for head, text in zip(heads, texts, strict=True)]
    return ["n per row of " + said[0], *said[1:]]


def _cells(
    frame: pl.DataFrame,
    column: str,
    numbers: tuple[str, str, str],
    label: str,
    chances: tuple[str | None, str | None],
    place: str,
) -> dict[tuple[str, str], Row]:
    """The rows by panel and label, with p, stars and whether the adjusted p is below .05."""
    for name in (column, *(name for name in chances if name)):
        if name not in frame.columns:
            raise UnknownColumn(place, name, frame.columns)
    value, low, high = numbers
    p_value, adjusted = chances
    rows = tested(frame, value, label, p_value, place, low=low, high=high)
    heads = [
        metric_label(str(key)) if column == "metric" else value_label(column, key)
        for key in frame[column]
    ]
    found: dict[tuple[str, str], Row] = {}
    known = frame[adjusted].to_list() if adjusted else [None] * len(rows)
    for head, row, p in zip(heads, rows, known, strict=True):
        key = (head, row["label"])
        if key in found:
            raise RagbenchError(
                f"figures.panels: two rows of {column} {key[0]!r} and {label} {key[1]!r}. Choose "
                "one with a filter, or a label that tells them apart."
            )
        found[key] = row | {"adjusted": p}
    return found


def _draw(
    figure: Draft,
    row: Row,
    other: Row | None,
    at: int,
    nth: int,
    name: str,
    *,
    has_bars: bool,
) -> None:
    """The marks of one row in one panel."""
    axis = "x" if nth == 0 else f"x{nth + 1}"
    up = 0.18 if other else 0.0
    mark = effect(row, -at + up, name, percent=True)
    if row["adjusted"] is not None and row["adjusted"] >= 0.05:
        mark["marker"]["color"] = "white"
    if has_bars and row["value"] is not None:
        hue = {"color": style.tint(mark["marker"]["line"]["color"], 0.3), "width": 13}
        ends = {"x": [0.0, row["value"]], "y": [-at + up] * 2, "mode": "lines", "line": hue}
        figure.add_trace(trace("scatter", **ends, name="bar", hoverinfo="skip", xaxis=axis))
    figure.add_trace(mark | {"xaxis": axis})
    if other:
        lighter = effect(other, -at - up, name, percent=True, is_second=True)
        figure.add_trace(lighter | {"xaxis": axis})


def _number(row: Row, adjusted: str | None) -> str:
    text = shown_number(row, percent=True)
    if adjusted is None:
        return text
    p = row["adjusted"]
    below = "–" if p is None else "&lt;.001" if p < 0.0005 else f"{p:.3f}".removeprefix("0")
    return f'{text}<br><span style="color:{style.QUIET}">{below}</span>'


def _legend(adjusted: str | None, beside: str | None) -> Legend:
    if adjusted is not None:
        kind = "after Holm" if adjusted.endswith("p_holm") else adjusted.replace("_", " ")
        return (("dot", None, f"p < .05 {kind}"), ("ring", None, f"p ≥ .05 {kind}"))
    if beside is not None:
        return (("dot", None, "all together"), ("ring", style.QUIET, metric_label(beside)))
    return ()


def _ends(*parts: dict[tuple[str, str], Row]) -> tuple[float, float]:
    """The axis that all panels share, with zero in it."""
    rows = [row for part in parts for row in part.values()]
    ends = [row[end] for row in rows for end in ("value", "low", "high") if row[end] is not None]
    low, high = min([*ends, 0.0]), max([*ends, 0.0])
    room = 0.06 * (high - low) or 0.05
    return low - room, high + room


def _in_panels(
    figure: Draft,
    title: str,
    notes: Sequence[str],
    heads: Sequence[str],
    lines: Sequence[str],
    texts: dict[tuple[str, str], str],
    legend: Legend,
    span: tuple[float, float],
) -> Draft:
    """The panels beside each other, numbers at the right of each, in the house style."""
    columns = _LABEL_COLUMNS[len(heads) > 2]
    labels = [style.joined(line.split(" · "), columns, most=3) for line in lines]
    left = 18 + int(6.6 * max(style.columns(part) for text in labels for part in text))
    beside = 14 + 7 * max(len(text.partition("<br>")[0]) for text in texts.values())
    inner = max(style.WIDTH - left - 4, len(heads) * (beside + _NARROWEST))
    each = inner / len(heads)
    step = next((s for s in (0.05, 0.1, 0.2, 0.25, 0.5) if span[1] - span[0] <= 4.5 * s), 1.0)
    ticks = [step * k for k in range(math.ceil(span[0] / step), math.floor(span[1] / step) + 1)]
    for nth, head in enumerate(heads):
        start, end = nth * each / inner, ((nth + 1) * each - beside) / inner
        axis = {
            "domain": [start, end],
            "range": list(span),
            "tickvals": ticks,
            "ticktext": [("+" if tick > 0 else "") + points_text(tick, 0) for tick in ticks],
            "title": {"text": "points", "standoff": 4},
            "anchor": "y",
        }
        name = "x" if nth == 0 else f"x{nth + 1}"
        figure.update_layout({f"xaxis{name[1:]}": axis})
        dashed = {"color": style.QUIET, "width": 1.5, "dash": "dash"}
        ends = {"x0": 0, "x1": 0, "y0": 0.6, "y1": -len(lines) + 0.4}
        figure.add_shape(type="line", xref=name, yref="y", layer="between", line=dashed, **ends)
        for at, line in enumerate(lines):
            look = {"x": end, "xshift": 5, "y": -at, "yref": "y", "yanchor": "middle"}
            ink = {"size": NOTE_SIZE, "color": style.INK}
            write(figure, texts.get((head, line), "–"), font=ink, **look)
    wrapped = [style.wrapped(head, max(8, int(each / 7.2)), most=4) for head in heads]
    height = max(map(len, wrapped))
    for nth, words in enumerate(wrapped):
        text = "<br>".join(style.label(word) for word in words)
        look = {"x": nth * each / inner, "y": 1, "yanchor": "bottom", "yshift": 4}
        write(figure, f"<b>{text}</b>", font={"size": NOTE_SIZE, "color": style.INK}, **look)
    figure.update_yaxes(
        range=[-len(lines) + 0.4, 0.6],
        tickmode="array",
        tickvals=[-place for place in range(len(lines))],
        ticktext=["<br>".join(style.label(part) for part in text) for text in labels],
        tickfont_size=NOTE_SIZE,
    )
    tallest = max(text.count("<br>") + 1 for text in texts.values())
    tallest = max(tallest, *map(len, labels))
    rows = len(lines) * (8 + LINE * tallest)
    margin = {"l": left, "r": 4}
    width = left + 4 + int(inner)
    return framed(
        figure,
        title,
        notes,
        margin,
        rows,
        legend=legend,
        header="<br>" * (height - 1) + " ",
        width=width,
    )


def equivalence(
    frame: pl.DataFrame,
    value: str = "difference",
    *,
    label: str = "metric",
    margin: float = 0.2,
    title: str | None = None,
) -> go.Figure:
    """Differences against the margin within which two groups count as alike, one row each.

    The thin bar is the 95 % interval (low_95, high_95), the thick one the 90 % interval of the
    standard test (low_90, high_90); lines stand at -margin and +margin. At the right the
    difference in points and the verdict, with that of the 90 % rule below where it is another.

    >>> frame = pl.DataFrame({"metric": ["strict_ias"], "difference": [0.01], "low_95": [-0.1],
    ...     "high_95": [0.12], "low_90": [-0.08], "high_90": [0.1], "verdict": ["equivalent"],
    ...     "verdict_standard_90": ["equivalent"]})
    >>> [trace.name for trace in equivalence(frame).data]
    ['90 % interval', 'Strict IAS']
    """
    place = "frame for figures.equivalence"
    for name in ("low_95", "high_95", "low_90", "high_90", "verdict", "verdict_standard_90"):
        if name not in frame.columns:
            raise UnknownColumn(place, name, frame.columns)
    rows = tested(frame, value, label, None, place, low="low_95", high="high_95")
    inner = tested(frame, value, label, None, place, low="low_90", high="high_90")
    title = metric_label(value) if title is None else title
    if not rows:
        return empty(NO_ROWS, title)
    hue = style.tint(style.PALETTE[0], 0.4)
    figure = Draft([_thick(inner, hue)])
    for at, row in enumerate(rows):
        figure.add_trace(effect(row, -at, metric_label(value), percent=True))
    said = frame.select("verdict", "verdict_standard_90").fill_null("no verdict").rows()
    texts = [
        "<br>".join([shown_number(row, percent=True), paper, *_other(paper, standard)])
        for row, (paper, standard) in zip(rows, said, strict=True)
    ]
    made = laid_out(
        figure,
        [[row] for row in rows],
        title=title,
        axis=f"{metric_label(value).lower()}, percentage points",
        span=None,
        right=("points,<br>verdict", texts),
        notes=[text for text in facts(frame, [value]) if not text.startswith("bars: ")],
        legend=[
            ("dot", style.PALETTE[0], "with its 95 % interval"),
            ("square", hue, "thick: 90 %"),
            ("line", style.ALARM, f"±{points_text(margin, 0)}"),
        ],
        least=14 + LINE * max(text.count("<br>") + 1 for text in texts),
    )
    known = [row[end] for row in rows for end in ("value", "low", "high") if row[end] is not None]
    around(made, [*known, -margin, margin], 0.0, percent=True)
    down, up = made.layout["yaxis"]["range"]
    for place_of_line in (-margin, margin):
        ends = {"x0": place_of_line, "x1": place_of_line, "y0": down, "y1": up}
        line = {"color": style.ALARM, "width": 1.5}
        made.add_shape(type="line", xref="x", yref="y", layer="between", line=line, **ends)
    return made.figure()


def _other(paper: str, standard: str) -> list[str]:
    return [] if paper == standard else ["at 90 %:", standard]


def _thick(rows: Sequence[Row], hue: str) -> Trace:
    """The inner intervals, all in one trace."""
    x: list[float | None] = []
    y: list[int | None] = []
    for at, row in enumerate(rows):
        x += [row["low"], row["high"], None]
        y += [-at, -at, None]
    line = {"width": 8, "color": hue}
    return trace(
        "scatter", x=x, y=y, name="90 % interval", mode="lines", line=line, hoverinfo="skip"
    )
