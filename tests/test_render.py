"""Pictures come from a browser where there is one; where not, one line says so."""

import asyncio
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import plotly.graph_objects as go
import pytest

from ragbench import render


@pytest.fixture
def figure():
    return go.Figure(go.Scatter(x=[0, 1], y=[1, 0]), {"width": 200, "height": 120})


@pytest.fixture
def drawn(figure):
    try:
        return render.images(figure, ["svg", "pdf", "png"])
    except render.NoImages as problem:
        pytest.skip(f"no picture can be drawn here: {problem}")


@pytest.fixture
def no_browser(monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", "/nowhere/chromium")
    monkeypatch.setattr(render, "_BROWSER", render._Browser())
    render._say_once.cache_clear()


def test_each_format_is_what_it_says(drawn):
    assert drawn["png"].startswith(b"\x89PNG")
    assert drawn["pdf"].startswith(b"%PDF")
    assert ElementTree.fromstring(drawn["svg"]).tag.endswith("svg")


def test_a_png_has_four_pixels_for_each_of_the_layout(drawn):
    assert int.from_bytes(drawn["png"][16:20], "big") == 800


def test_drawing_works_inside_a_running_event_loop(figure, drawn):
    async def cell():
        return render.images(figure, ["png"])

    assert asyncio.run(cell())["png"] == drawn["png"]


def test_a_browser_that_was_killed_is_started_again(figure, drawn):
    process = render._BROWSER._kaleido.subprocess
    os.killpg(process.pid, signal.SIGKILL)
    assert render.images(figure, ["png"])["png"] == drawn["png"]


def test_without_a_browser_the_message_names_the_remedy(figure, no_browser):
    with pytest.raises(render.NoImages, match=r"apt-get install chromium.*BROWSER_PATH"):
        render.images(figure, ["png"])


def test_a_notebook_without_a_browser_says_so_once_and_keeps_the_figure(figure, no_browser, capsys):
    for _ in range(2):
        bundle = render._Renderer(config=render.CONFIG).to_mimebundle(figure.to_dict())
        assert "application/vnd.plotly.v1+json" in bundle
        assert "image/png" not in bundle
    assert capsys.readouterr().err.count("\n") == 1


def test_the_default_of_notebooks_is_replaced_and_a_choice_of_the_reader_is_not(monkeypatch):
    import plotly.io as pio

    monkeypatch.delenv("PLOTLY_RENDERER", raising=False)
    before = pio.renderers.default
    try:
        pio.renderers.default = "svg"
        render.use_in_notebooks()
        assert pio.renderers.default == "svg"
        pio.renderers.default = "plotly_mimetype"
        render.use_in_notebooks()
        assert pio.renderers.default == "ragbench"
    finally:
        pio.renderers.default = before


def test_no_browser_outlives_the_process():
    code = (
        "import plotly.graph_objects as go; from ragbench import render\n"
        "try: render.images(go.Figure(), ['png'])\n"
        "except render.NoImages: raise SystemExit(3)\n"
        "print(render._BROWSER._kaleido.subprocess.pid)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if ended.returncode == 3:
        pytest.skip("no picture can be drawn here: no browser")
    assert ended.returncode == 0, ended.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int(ended.stdout), 0)
