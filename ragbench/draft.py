"""A figure while it is put together: plain mappings, which plotly checks once, when it is done.

Plotly's own objects check and copy themselves at every change, which takes most of the time of a
picture. The methods here have the names that plotly's figures have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, Protocol

import plotly.graph_objects as go

Trace = dict[str, Any]

_WHOLE = {"error_x", "error_y", "paper_bgcolor", "plot_bgcolor"}
"""Properties whose names have a line in them."""


def trace(kind: str, **parts: Any) -> Trace:
    """What plotly calls a trace of that type.

    >>> trace("scatter", x=[1], textfont_size=9)
    {'type': 'scatter', 'x': [1], 'textfont': {'size': 9}}
    """
    return _merged({"type": kind}, parts)


class Draft:
    """Traces and a layout to be."""

    def __init__(self, traces: Iterable[Trace] = ()) -> None:
        self.traces = list(traces)
        self.layout: dict[str, Any] = {}
        self._texts: list[dict[str, Any]] = []
        self._shapes: list[dict[str, Any]] = []

    def add_trace(self, trace: Trace) -> None:
        self.traces.append(trace)

    def add_annotation(self, **parts: Any) -> None:
        self._texts.append(_merged({}, parts))

    def add_shape(self, **parts: Any) -> None:
        self._shapes.append(_merged({}, parts))

    def update_xaxes(self, **parts: Any) -> None:
        self.update_layout(xaxis=_merged({}, parts))

    def update_yaxes(self, **parts: Any) -> None:
        self.update_layout(yaxis=_merged({}, parts))

    def update_layout(self, given: Mapping[str, Any] | None = None, **parts: Any) -> None:
        _merged(self.layout, {**(given or {}), **parts})

    def figure(self) -> go.Figure:
        """The figure, checked.

        Raises:
            ValueError: a property that plotly does not know, or a value that it cannot have.
        """
        return go.Figure({"data": self.traces, "layout": self.whole_layout()})

    def whole_layout(self) -> dict[str, Any]:
        """The layout with its texts and shapes."""
        return {**self.layout, "annotations": self._texts, "shapes": self._shapes}


P = ParamSpec("P")


class Drawn(Protocol[P]):
    """A function that gives a figure, and of which `draft` gives the draft."""

    draft: Callable[P, Draft]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> go.Figure: ...


def drawn(make: Callable[P, Draft]) -> Drawn[P]:
    """The function of a figure from that of its draft.

    Who hands the picture on to plotly, which checks it again, takes the draft: half the time.
    """

    @wraps(make)
    def figure(*args: P.args, **kwargs: P.kwargs) -> go.Figure:
        return make(*args, **kwargs).figure()

    made: Any = figure
    made.draft = make
    made.__annotations__ = {**make.__annotations__, "return": "go.Figure"}
    return made


def _merged(into: dict[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """`into` with `parts` in it: `a_b` is b of a, mappings merge, None takes away."""
    for name, value in parts.items():
        head, _, rest = (name, "", "") if name in _WHOLE else name.partition("_")
        if rest:
            _merged(_inside(into, head), {rest: value})
        elif value is None:
            into.pop(head, None)
        elif isinstance(value, Mapping):
            _merged(_inside(into, head), value)
        else:
            into[head] = value
    return into


def _inside(into: dict[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(into.get(name), dict):
        into[name] = {}
    found: dict[str, Any] = into[name]
    return found
