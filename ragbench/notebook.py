"""What notebooks show: texts as they are written, and what a study lacks in one line."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    from great_tables import GT

    from ragbench.paper import Artifact

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


def rebuilt(artifact: str, con: duckdb.DuckDBPyConnection, **choices: Any) -> Artifact:
    """`paper.rebuild`; where the study lacks what the artifact is about, the reason is printed.

    What comes back then has an empty frame (no rows, no columns) and no figure, so that a notebook
    goes on: `if len(made.frame):` guards what needs rows, and `paper.against_paper` says of each
    printed cell that it cannot be rebuilt.

    Raises:
        UnknownName: no such artifact.
        StoreError: the study cannot be read.

    Example:
        >>> figure2 = rebuilt("figure2", con)  # doctest: +SKIP
    """
    import polars as pl

    from ragbench import paper
    from ragbench.errors import RagbenchError, StoreError

    if artifact not in paper.ARTIFACTS:
        return paper.rebuild(artifact, con)  # says which there are
    try:
        return paper.rebuild(artifact, con, **choices)
    except StoreError:
        raise
    except RagbenchError as lacking:
        title = paper.ARTIFACTS[artifact].title
        reason = str(lacking)
        print(f"Left out here: {title}. {reason[:1].upper()}{reason[1:]}")
        return paper.Artifact(artifact, title, pl.DataFrame())


def table(made: Artifact, **choices: Any) -> GT | None:
    """The table of an artifact as the paper arranges it (best values marked), None without rows.

    Columns, percent and marks are those of `paper.ARTIFACTS` unless `choices` (of `tables.html`)
    say otherwise.
    """
    from ragbench import paper, tables

    if not made.frame.height:
        return None
    arranged = {
        choice: [column for column in columns if column in made.frame.columns]
        for choice, columns in paper.ARTIFACTS[made.name].table.items()
    }
    return tables.html(made.frame, **{"title": made.title, **arranged, **choices})


def model_by(con: duckdb.DuckDBPyConnection) -> list[str]:
    """What a row per model is grouped by: the model, and the setting where there are several."""
    from ragbench import paper_tables

    return list(paper_tables.model_by(con))


def named(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with a first column `name`: the model, and the setting where there are several.

    >>> import polars as pl
    >>> named(pl.DataFrame({"model": ["a"], "setting": ["x"], "strict_ias": [0.2]})).row(0)
    ('a · x', 'a', 'x', 0.2)
    """
    import polars as pl

    parts = [part for part in ("model", "setting") if part in frame.columns]
    name = (
        pl.concat_str(parts, separator=" · ").alias("name") if parts else pl.lit("").alias("name")
    )
    return frame.select(name, pl.all()) if frame.height else frame


def about(frame: pl.DataFrame, *metrics: str) -> str:
    """What must stand beside a sentence on `metrics`: n, what is missing, panel, origin.

    >>> import polars as pl
    >>> frame = pl.DataFrame({"model": ["a"], "origin": ["simulated"], "strict_ias": [0.2]})
    >>> about(frame.with_columns(strict_ias_n=25), "strict_ias")
    '(n = 25 responses; simulated: not a result)'
    """
    from ragbench.facts import facts

    said = [text for text in facts(frame, metrics) if not text.startswith("bars: ")]
    return "\n".join(textwrap.wrap(f"({'; '.join(said)})", 88))


def statuses(cells: pl.DataFrame) -> str:
    """How many cells of each artifact stand how to the paper, a line each (of `against_paper`).

    >>> import polars as pl
    >>> statuses(pl.DataFrame({"artifact": ["table2"] * 2, "status": ["agrees", "differs"]}))
    'table2: 1 agrees, 1 differs'
    """
    lines: dict[str, dict[str, int]] = {}
    for artifact, status in cells.select("artifact", "status").iter_rows():
        counts = lines.setdefault(artifact, {})
        counts[status] = counts.get(status, 0) + 1
    return "\n".join(
        f"{artifact}: " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        for artifact, counts in lines.items()
    )
