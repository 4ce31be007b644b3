"""How far a piece of work is: a bar on a terminal and in a notebook, nothing in a pipe."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import polars as pl

from ragbench.hiding import hide
from ragbench.llm.limits import Tally


@contextlib.contextmanager
def bar(label: str, total: int) -> Iterator[Callable[[Tally], None]]:
    """A function that shows a tally: done, rate and time left, errors, tries again, cost.

    TQDM_DISABLE=1 in the environment keeps it quiet, for notebooks whose outputs are stored.
    """
    is_notebook = _is_notebook()
    if not (sys.stderr.isatty() or is_notebook) or _is_quiet():
        yield lambda tally: None
        return
    from tqdm import tqdm

    with tqdm(
        total=total,
        desc=label,
        unit="call",
        leave=not is_notebook,
        smoothing=0.1,
        dynamic_ncols=not is_notebook,
    ) as shown:

        def show(tally: Tally) -> None:
            parts = [f"{tally.errors} errors", f"{tally.retries} retries"]
            if tally.cost:
                parts.append(f"${tally.cost:.4g}")
            shown.set_postfix_str(", ".join(parts), refresh=False)
            shown.update(tally.done - shown.n)

        yield show


def most_frequent(errors: Iterable[str | None]) -> str | None:
    """The most frequent of these texts in one line, with how many there are of it; else None.

    >>> most_frequent(["timeout", None, "broken\\nreply", "timeout"])
    '2 of 3: timeout'
    >>> most_frequent(["timeout", "timeout"]), most_frequent([None])
    ('timeout', None)
    """
    counts = Counter(error for error in errors if error is not None)
    if not counts:
        return None
    text, count = counts.most_common(1)[0]
    line = " ".join(hide(text).split())
    line = line if len(line) <= _LINE else f"{line[: _LINE - 1]}…"
    return line if len(counts) == 1 else f"{count} of {counts.total()}: {line}"


_LINE = 100


def say_errors(report: pl.DataFrame) -> None:
    """Print the `error` of a report where frames cut texts short: in a notebook."""
    if _is_notebook() and not _is_quiet():
        for row in report.filter(pl.col("error").is_not_null()).iter_rows(named=True):
            what = row.get("model") or row.get("rule") or row["criterion"]
            print(f"{what}: {row['errors']} errors. {row['error']}")


def _is_quiet() -> bool:
    return os.environ.get("TQDM_DISABLE") == "1"


def _is_notebook() -> bool:
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell else None
    return type(found).__name__ == "ZMQInteractiveShell"
