"""How notebooks show the texts of frames: as they are written."""

from __future__ import annotations

import sys
from typing import Any

# MathJax 3 and 2: JupyterLab has the one, older pages have the other.
_NO_FORMULAS = '<div class="mathjax_ignore tex2jax_ignore">'


def show_texts_as_written() -> None:
    """Have Jupyter show polars frames without taking what stands between two $ for a formula.

    JupyterLab typesets formulas in any HTML. Prices ("$5 to $7") would come out as such, and a text
    of a model could draw what it likes, links included. Polars itself escapes tags. Nothing is done
    outside a notebook, nor when IPython has not been loaded.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    formatter = getattr(shell, "display_formatter", None)
    if formatter is not None:
        html = formatter.formatters["text/html"]
        html.for_type_by_name("polars.dataframe.frame", "DataFrame", _html)
        html.for_type_by_name("polars.series.series", "Series", _html)


def _html(frame: Any) -> str:
    return f"{_NO_FORMULAS}{frame._repr_html_()}</div>"
