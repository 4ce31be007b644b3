"""How frames are shown in notebooks, and what is said of what a study lacks."""

from __future__ import annotations

import subprocess
import sys

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ragbench as rb
from ragbench import notebook, paper
from ragbench.errors import UnknownName

SHOWN = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
import polars as pl
import ragbench
for value in (pl.DataFrame({"text": ["from $5 to $7"]}), pl.Series(["<b>$x$</b>"])):
    print(shell.display_formatter.format(value)[0]["text/html"])
"""


def _printed(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_frames_are_shown_where_no_page_looks_for_formulas() -> None:
    page = _printed(SHOWN)
    assert page.count('<div class="mathjax_ignore tex2jax_ignore">') == 2
    assert "from $5 to $7" in page
    assert "&lt;b&gt;$x$" in page


def test_ragbench_alone_loads_no_ipython() -> None:
    script = "import ragbench, sys; print('IPython' in sys.modules, 'polars' in sys.modules)"
    assert _printed(script).split() == ["False", "False"]


def test_what_a_study_lacks_is_one_line_and_the_notebook_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    con = rb.connect(paper.shipped())
    made = notebook.rebuilt("figure2", con)
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "Figure 2" in said
    assert "no rejection verdicts" in said
    assert made.frame.is_empty()
    assert made.figure is None
    assert notebook.table(made) is None


@pytest.mark.parametrize("name", [name for name in paper.ARTIFACTS if name[-1].isdigit()])
def test_nothing_rebuilt_leaves_every_printed_cell_without_a_number(name: str) -> None:
    cells = paper.against_paper(name, pl.DataFrame())
    assert set(cells["status"]) <= {"cannot be rebuilt from rows"}
    assert cells["rebuilt"].null_count() == cells.height
    assert cells.height or name in ("figure4", "figure9")


def test_what_can_be_made_is_what_rebuild_makes(capsys: pytest.CaptureFixture[str]) -> None:
    con = rb.connect(paper.shipped())
    made = notebook.rebuilt("table2", con)
    # Threads add up in any order: the last bit of a mean may differ.
    assert_frame_equal(made.frame, paper.rebuild("table2", con).frame)
    assert not capsys.readouterr().out
    page = notebook.table(made)
    assert page is not None
    assert "Strict IAS" in page.as_raw_html()


def test_a_wrong_name_is_an_error_and_nothing_that_a_study_lacks() -> None:
    with pytest.raises(UnknownName, match="did you mean 'figure2'"):
        notebook.rebuilt("figur2", rb.connect(paper.shipped()))
