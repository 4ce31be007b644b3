"""Figures as images, drawn by a headless browser where there is one, and how notebooks show them.

The browser (through kaleido) starts with the first image, serves all further ones, and goes away
after a minute without work. It gets no network: neither plotly.js nor MathJax is downloaded.
"""

from __future__ import annotations

import asyncio
import atexit
import base64
import contextlib
import os
import sys
import threading
from collections.abc import Coroutine, Sequence
from functools import cache
from typing import Any

import plotly.graph_objects as go

IMAGES = ("svg", "pdf", "png")
REMEDY = (
    "no browser to draw them was found: install Chromium or Google Chrome (Debian: apt-get install "
    "chromium; anywhere: plotly_get_chrome), or set BROWSER_PATH to the program"
)
# What plotly.js is told: no formulas, and few buttons, as they lie over the title.
CONFIG = {
    "typesetMath": False,
    "displaylogo": False,
    "modeBarButtons": [["toImage", "resetScale2d"]],
}
_SCALE = {"png": 4.0}  # 1920 pixels wide: 570 dots per inch in print, the width of a slide
_TIMEOUT, _IDLE = 90, 60  # seconds


class NoImages(RuntimeError):
    """This machine cannot draw images now; the message says why and what helps."""


class _Browser:
    """One headless browser on an event loop of its own, so that it works inside any other loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kaleido: Any = None
        self._idle: asyncio.TimerHandle | None = None

    def images(self, figure: dict[str, Any], options: Sequence[dict[str, Any]]) -> list[bytes]:
        with self._lock:
            was_running = self._kaleido is not None
            try:
                return self._result(self._draw(figure, options))
            except Exception:
                if not was_running:
                    raise
                # It may have been killed since the last picture: a new one gets a chance.
                return self._result(self._draw(figure, options))

    def close(self) -> None:
        if self._loop is not None:
            closing = asyncio.run_coroutine_threadsafe(self._shut(), self._loop)
            with contextlib.suppress(Exception):
                closing.result(10)

    def _result(self, work: Coroutine[Any, Any, list[bytes]]) -> list[bytes]:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            # What a dying browser leaves unfinished is nothing to print: the caller is told.
            self._loop.set_exception_handler(lambda loop, context: None)
            threading.Thread(target=self._loop.run_forever, daemon=True).start()
            atexit.register(self.close)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(_TIMEOUT)
        except BaseException:
            future.cancel()
            self.close()
            raise

    async def _draw(self, figure: dict[str, Any], options: Sequence[dict[str, Any]]) -> list[bytes]:
        from kaleido import Kaleido  # type: ignore[import-untyped]

        if self._idle is not None:
            self._idle.cancel()
        if self._kaleido is None:
            browser = Kaleido(n=1, mathjax=False, timeout=_TIMEOUT)
            await browser.open()
            self._kaleido = browser
        drawn = [await self._kaleido.calc_fig(figure, opts=option) for option in options]
        loop = asyncio.get_running_loop()
        self._idle = loop.call_later(_IDLE, lambda: loop.create_task(self._shut()))
        return drawn

    async def _shut(self) -> None:
        browser, self._kaleido = self._kaleido, None
        if browser is not None:
            with contextlib.suppress(Exception):
                await browser.close()


_BROWSER = _Browser()


def images(
    figure: go.Figure, formats: Sequence[str], *, scale: float | None = None
) -> dict[str, bytes]:
    """The figure in each of the formats svg, pdf, png; `NoImages` where no browser can draw it.

    A png has 4 pixels for each pixel of the layout unless `scale` says otherwise.
    """
    drawing = figure.to_plotly_json()
    size = {"width": figure.layout.width or 700, "height": figure.layout.height or 500}
    options = [
        {**size, "format": name, "scale": scale or _SCALE.get(name, 1.0)} for name in formats
    ]
    try:
        return dict(zip(formats, _BROWSER.images(drawing, options), strict=True))
    except Exception as problem:
        if type(problem).__name__ == "ChromeNotFoundError":
            raise NoImages(REMEDY) from None
        raise NoImages(f"the browser failed ({type(problem).__name__}: {problem})") from problem


def bundle(figure: go.Figure) -> dict[str, Any]:
    """The interactive figure, and beside it the picture of it for readers without plotly."""
    from plotly.io.base_renderers import PlotlyRenderer  # which imports IPython

    held: dict[str, Any] = PlotlyRenderer(config=CONFIG).to_mimebundle(figure.to_dict())
    try:
        png = images(figure, ["png"], scale=1)["png"]
        held["image/png"] = base64.b64encode(png).decode("ascii")
    except NoImages as problem:
        _say_once(f"Figures are stored without a still picture: {problem}.")
    return held


@cache
def _say_once(text: str) -> None:
    print(text, file=sys.stderr)


def use_in_notebooks() -> None:
    """Have notebooks store a PNG beside each interactive figure.

    JupyterLab shows the PNG, of the same size, and makes it interactive under the pointer, also in
    a notebook opened again without a kernel; nbconvert and code forges show the PNG. Done when
    `ragbench.figures` is imported in a Jupyter kernel, unless the reader chose a renderer
    (`PLOTLY_RENDERER`, `plotly.io.renderers.default`) or plotly knows a better one for the place.
    """
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if type(shell).__module__.startswith("ipykernel.") and not _PLACES & set(os.environ):
        shell.display_formatter.ipython_display_formatter.for_type(go.Figure, _display)


# The places, other than Jupyter, for which plotly itself knows what to show.
_PLACES = {
    "PLOTLY_RENDERER",
    "AZURE_NOTEBOOKS_HOST",
    "COCALC_PROJECT_ID",
    "COLAB_NOTEBOOK_ID",
    "DATABRICKS_RUNTIME_VERSION",
    "KAGGLE_KERNEL_RUN_TYPE",
    "NTERACT_EXE",
    "VSCODE_PID",
}


def _display(figure: go.Figure) -> None:
    # Not `plotly.io.renderers`: to read it imports nbformat and with it, through jsonschema, the
    # compilation of dozens of grammars, three seconds of every kernel. Loaded, it may hold a
    # choice of the reader.
    loaded = sys.modules.get("plotly.io._renderers")
    if loaded is not None and loaded.renderers.default != "plotly_mimetype":
        loaded.show(figure)
    else:
        from IPython.display import publish_display_data

        publish_display_data(bundle(figure))  # type: ignore[no-untyped-call]
