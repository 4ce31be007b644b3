"""Widgets of a notebook's cells: running a cell again leaves nothing of its earlier run behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import ipywidgets as w


class _Run(NamedTuple):
    """What one run of a cell has shown; a cell may show several widgets."""

    message: str | None
    shown: list[Any]


W = TypeVar("W", bound=w.Widget)
_runs: dict[str, _Run] = {}


def in_cell(make: Callable[[], W]) -> W:
    """What `make` gives, after what earlier runs of this cell of the notebook showed is closed."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    request = getattr(shell, "parent_header", None) or {}
    cell = request.get("metadata", {}).get("cellId")
    if cell is None:
        return make()
    message = request.get("header", {}).get("msg_id")
    if cell not in _runs or _runs[cell].message != message:
        for earlier in _runs.pop(cell, _Run(message, [])).shown:
            close_all(earlier)
        _runs[cell] = _Run(message, [])
    made = make()
    _runs[cell].shown.append(made)
    return made


def close_all(widget: w.Widget) -> None:
    """Close a widget and all its parts, also in the browser."""
    waiting: list[Any] = [widget]
    while waiting:
        part = waiting.pop()
        waiting += list(getattr(part, "children", ()))
        waiting += [
            own
            for name in ("layout", "style")
            if isinstance(own := getattr(part, name, None), w.Widget)
        ]
        part.close()
