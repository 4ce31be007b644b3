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
        bundle = render.bundle(figure)
        assert "application/vnd.plotly.v1+json" in bundle
        assert "image/png" not in bundle
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture
def kernel(monkeypatch):
    """What a cell's last line publishes, in a shell of the kind that kernels run."""
    pytest.importorskip("ipykernel")
    import IPython
    import plotly.io as pio
    from ipykernel.inprocess.ipkernel import InProcessInteractiveShell

    for name in render._PLACES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pio.renderers, "default", "plotly_mimetype")  # as plotly has it in kernels
    shell = InProcessInteractiveShell()
    published = []
    monkeypatch.setattr(shell.display_pub, "publish", lambda data, **_: published.append(data))
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    monkeypatch.setattr("IPython.core.interactiveshell.InteractiveShell._instance", shell)
    yield shell.display_formatter.format, published
    InProcessInteractiveShell.clear_instance()


def test_a_kernel_shows_the_interactive_figure_and_its_picture(figure, kernel):
    shown, published = kernel
    render.use_in_notebooks()
    shown(figure)
    assert set(published[0]) == {"application/vnd.plotly.v1+json", "image/png"}


def test_a_renderer_of_the_readers_choice_is_kept(figure, kernel):
    import plotly.io as pio

    shown, published = kernel
    render.use_in_notebooks()
    pio.renderers.default = "json"
    shown(figure)
    assert [list(data) for data in published] == [["application/json"]]


@pytest.mark.parametrize("place", sorted(render._PLACES))
def test_where_plotly_knows_the_place_it_is_left_to_plotly(figure, kernel, monkeypatch, place):
    shown, published = kernel
    monkeypatch.setenv(place, "1")
    render.use_in_notebooks()
    monkeypatch.setattr(type(figure), "_ipython_display_", lambda self: published.append("plotly"))
    shown(figure)
    assert published == ["plotly"]


def test_drawing_does_not_load_what_only_plotlys_renderers_need():
    code = "import sys, ragbench.figures; print(*{'nbformat', 'jsonschema'} & set(sys.modules), 1)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["1"]


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
