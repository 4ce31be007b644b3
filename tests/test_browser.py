"""The tour as a newcomer meets it: in JupyterLab, in a browser, with eyes on what is drawn."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hostile_study import ATTACKS, hostile_study
from PIL import Image
from webdriver import Browser, Notebook, browser, chromedriver, chromium, lab, wait

from ragbench import paper

ROOT = Path(__file__).resolve().parent.parent
PLOTLY = "application/vnd.plotly.v1+json"
MARKS = "return area.querySelectorAll('svg.main-svg .scatterlayer path.point').length"
# Elements that only an attack would make, and pictures from anywhere but the figure itself.
ACTING = """
const bad = 'script, iframe, object, embed, form, h1, h2, strong, em, mjx-container, .MathJax, '
  + '[onerror], [onmouseover], [onclick], a[href^=javascript]';
const pictures = [...area.querySelectorAll('img')].map(img => img.src)
  .filter(src => src && !src.startsWith('data:image/png'));
return [...area.querySelectorAll(bad)].map(element => element.outerHTML).concat(pictures)
"""
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (chromium() and chromedriver()), reason="no Chromium with chromedriver here"
    ),
]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of the notebooks as committed, and one of the tour on a hostile study."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    (folder / "data").symlink_to(ROOT / "data")
    study = hostile_study(folder / "hostile.duckdb", paper.shipped())
    tour = (ROOT / "notebooks" / "00_tour.ipynb").read_text(encoding="utf-8")
    hostile = tour.replace("rb.paper.shipped()", f"'{study}'")
    assert hostile != tour
    (folder / "notebooks" / "hostile.ipynb").write_text(hostile, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def places(workplace: Path) -> Iterator[tuple[Browser, str]]:
    """A browser, and the address of a JupyterLab for it."""
    with browser(workplace) as window, lab(workplace / "notebooks", workplace) as address:
        yield window, address


def _figures(notebook: Notebook) -> list[int]:
    """The code cells, counted from 0, that show a figure."""
    found = enumerate(notebook.outputs())
    return [cell for cell, outputs in found if any(PLOTLY in o.get("data", {}) for o in outputs)]


def _seen(window: Browser, box: dict[str, float]) -> np.ndarray[Any, Any]:
    """The pixels of a part of the window."""
    picture = Image.open(io.BytesIO(window.screenshot())).convert("RGB")
    left, top = max(0, box["x"]), max(0, box["y"])
    return np.asarray(
        picture.crop((left, top, box["x"] + box["width"], box["y"] + box["height"]))
    ).reshape(-1, 3)


def _assert_drawn(window: Browser, notebook: Notebook, cell: int) -> None:
    """The figure of a cell has a picture, and on the screen it is not blank."""
    box = notebook.show(cell)
    size = (
        "const img = area.querySelector('.jp-RenderedPlotly img.plot-img');"
        "return img && img.complete && img.naturalWidth > 400 && img.getBoundingClientRect().height"
    )
    assert wait(lambda: notebook.in_output(cell, size), f"the picture of cell {cell}") > 100
    pixels = _seen(window, box)
    assert (np.ptp(pixels, axis=1) > 20).mean() > 0.001, "no coloured dots"
    assert (pixels.max(axis=1) < 100).mean() > 0.002, "no text"


def test_stored_outputs_show_on_a_new_machine_without_a_kernel(
    places: tuple[Browser, str],
) -> None:
    window, address = places
    notebook = Notebook(window, address, "00_tour.ipynb", has_kernel=False)
    figures = _figures(notebook)
    assert len(figures) == 2
    for cell in figures:
        _assert_drawn(window, notebook, cell)
    for cell in (2, 5):  # a polars frame with Chinese texts, a table for print
        notebook.show(cell)
        text = notebook.in_output(cell, "return area.querySelector('table').innerText")
        assert re.search("[\u4e00-\u9fff]{4}" if cell == 2 else r"\[\d+\.\d, \d+\.\d\]", text)
    assert not notebook.kernels()


def test_the_tour_runs_and_its_figures_answer_the_pointer(places: tuple[Browser, str]) -> None:
    window, address = places
    notebook = Notebook(window, address, "00_tour.ipynb")
    notebook.wait_for_kernel()
    notebook.run_all()
    outputs = notebook.outputs()
    assert all(outputs), "a cell shows nothing"
    kinds = {o["output_type"] + o.get("name", "") for cell in outputs for o in cell}
    assert kinds <= {"execute_result", "display_data", "streamstdout"}
    for cell in _figures(notebook):
        _assert_drawn(window, notebook, cell)
        box = notebook.show(cell)
        window.point_at(box["x"] + 200, box["y"] + min(box["height"], 300) / 2)
        assert wait(lambda c=cell: notebook.in_output(c, MARKS), "interactive marks") >= 2
        window.point_at(2, 2)
    notebook.save()
    notebook.shut_down()
    stored = Notebook(window, address, "00_tour.ipynb", has_kernel=False)
    for cell in _figures(stored):
        _assert_drawn(window, stored, cell)


def test_hostile_names_and_texts_do_nothing(places: tuple[Browser, str]) -> None:
    window, address = places
    notebook = Notebook(window, address, "hostile.ipynb")
    window.run("window.alerts = []; window.alert = text => window.alerts.push(text)")
    notebook.wait_for_kernel()
    notebook.run_all()
    shown = ""
    for cell, outputs in enumerate(notebook.outputs()):
        assert outputs
        assert not any(output["output_type"] == "error" for output in outputs), outputs
        box = notebook.show(cell)
        if cell in _figures(notebook):
            window.point_at(box["x"] + 200, box["y"] + 60)
            wait(lambda c=cell: notebook.in_output(c, MARKS), "the interactive figure")
        assert notebook.in_output(cell, ACTING) == []
        shown += notebook.in_output(cell, "return area.textContent")
    assert all(attack[:9] in shown for attack in ATTACKS), "an attack was not put to the test"
    assert window.alert() is None
    assert window.run("return window.alerts") == []
