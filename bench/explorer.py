"""How long the explorer takes from a choice to the new picture; beside a bare FigureWidget.

    python bench/explorer.py             # the callback, and the redraw in a headless browser
    python bench/explorer.py --callback  # the callback alone

The study is the simulated one (107,000 constraint verdicts and the others of a panel, 13 models). A
callback is everything Python does for one choice: scores, picture, messages to the browser. The
redraw ends with plotly's last `afterplot`. The peer puts the same picture into a FigureWidget of
its own, without scores or house style. Medians; the limit is 60 ms for a callback. The first
callback of a view may have more to do: verdicts on single constraints are found once and kept.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import plotly.graph_objects as go

import ragbench as rb
from ragbench import shipped

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

LIMIT = 60.0
CHOICES = {
    "dots": ("metric", ("loose_ias", "strict_ias")),
    "heatmap": ("metric", ("loose_ias", "strict_ias")),
    "profile": ("panel", ("", "sim/kimi-k2-thinking + sim/rules")),
    "paired": ("metric", ("loose_ias", "strict_ias")),
    "failing together": ("panel", ("", "sim/kimi-k2-thinking + sim/rules")),
}


def median(call: Callable[[int], object], times: int = 12) -> float:
    """Milliseconds; the first call is left out."""
    call(0)
    taken = []
    for number in range(1, times + 1):
        began = time.perf_counter()
        call(number)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1000


def callbacks(study: Path) -> None:
    """What Python does for one choice, by view."""
    con = rb.connect(study)
    models = [(("model", name),) for (name,) in con.sql("FROM models SELECT model").fetchall()[:2]]
    sides = {side: dict(value) for side, value in zip("ab", models, strict=True)}
    explorer = rb.explorer(con, sides)
    bare = go.FigureWidget()
    for view, (control, values) in CHOICES.items():
        began = time.perf_counter()
        explorer._controls["view"].value = view
        first = (time.perf_counter() - began) * 1000

        def choose(number: int, control: str = control, values: tuple[str, ...] = values) -> None:
            explorer._controls[control].value = values[number % 2]

        ours = median(choose)
        shown = go.Figure(explorer.figure.to_dict())

        def update(number: int, shown: go.Figure = shown) -> None:
            with bare.batch_update():
                bare.data = ()
                bare.layout = shown.layout
                bare.add_traces(shown.data)

        peer = median(update)
        verdict = "met" if ours <= LIMIT else "MISSED"
        print(
            f"callback, {view:<18} {ours:>7.1f} ms  limit {LIMIT:g} ms: {verdict:<7} "
            f"the same picture into a bare FigureWidget {peer:.1f} ms; "
            f"the first callback of the view {first:.0f} ms",
            flush=True,
        )
    explorer.close_all()


REDRAWN = """
const plot = area.querySelector('.js-plotly-plot');
const select = [...area.querySelectorAll('.widget-dropdown')]
  .find(one => one.querySelector('label')?.textContent.trim() === arguments[1])
  .querySelector('select');
const bench = window.bench = {began: performance.now(), ended: 0};
plot.on('plotly_afterplot', () => { bench.ended = performance.now(); });
select.selectedIndex = (select.selectedIndex + 1) % 2;
select.dispatchEvent(new Event('change', {bubbles: true}));
return 1
"""
TAKEN = "return window.bench.ended - window.bench.began"
CELLS = (
    "import plotly.graph_objects as go\nimport ragbench as rb\ncon = rb.connect('study.duckdb')",
    "rb.explorer(con)",
    "import ipywidgets as w\n"
    "both = ('loose_ias', 'strict_ias')\n"
    "shown = [rb.figures.dots(rb.scores(con, metrics=[m]), m) for m in both]\n"
    "bare = go.FigureWidget(shown[0])\n"
    "choice = w.Dropdown(options=[0, 1], description='metric')\n"
    "def update(change):\n"
    "    with bare.batch_update():\n"
    "        bare.data = ()\n"
    "        bare.layout = shown[change['new']].layout\n"
    "        bare.add_traces(shown[change['new']].data)\n"
    "choice.observe(update, 'value')\n"
    "w.VBox([choice, bare])",
)


def redraws(study: Path) -> None:
    """From a choice in JupyterLab to the last redraw of the picture."""
    from webdriver import (
        Notebook,
        browser,
        chromedriver,
        chromium,
        lab,
        wait,
        write_notebook,
    )

    if not (chromium() and chromedriver()):
        print(
            "redraw: not measured without Chromium and chromedriver (Debian: apt-get install "
            "chromium chromium-driver)"
        )
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "notebooks").mkdir()
        (folder / "notebooks" / "study.duckdb").symlink_to(study.resolve())
        write_notebook(folder / "notebooks" / "bench.ipynb", *CELLS)
        with browser(folder) as window, lab(folder / "notebooks", folder) as address:
            window.resize(1280, 1400)
            page = Notebook(window, address, "bench.ipynb")
            page.wait_for_kernel()
            page.run_all()
            drawn = "return area.querySelectorAll('.js-plotly-plot .point').length"
            for cell, what in ((1, "explorer"), (2, "bare FigureWidget")):
                wait(lambda cell=cell: page.in_output(cell, drawn), f"the dots of the {what}")

                def redraw(number: int, cell: int = cell) -> float:
                    page.in_output(cell, REDRAWN, "metric")
                    time.sleep(1.5)
                    return float(page.in_output(cell, TAKEN))

                redraw(0)
                taken = statistics.median(redraw(number) for number in range(1, 8))
                print(f"redraw in a browser, {what:<18} {taken:>7.0f} ms", flush=True)
            page.shut_down()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--callback", action="store_true", help="without the browser")
    chosen = parser.parse_args()
    study = shipped.shipped("simulated")
    callbacks(study)
    if not chosen.callback:
        redraws(study)


if __name__ == "__main__":
    main()
