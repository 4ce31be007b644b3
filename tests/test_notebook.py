"""How frames are shown in notebooks."""

from __future__ import annotations

import subprocess
import sys

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
