"""How far a piece of work is: a bar on a terminal and in a notebook, nothing in a pipe."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

from ragbench.limits import Tally


@contextlib.contextmanager
def bar(label: str, total: int) -> Iterator[Callable[[Tally], None]]:
    """A function that shows a tally: done, rate and time left, errors, tries again, cost.

    TQDM_DISABLE=1 in the environment keeps it quiet, for notebooks whose outputs are stored.
    """
    is_notebook = _is_notebook()
    if not (sys.stderr.isatty() or is_notebook) or os.environ.get("TQDM_DISABLE") == "1":
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


def _is_notebook() -> bool:
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell else None
    return type(found).__name__ == "ZMQInteractiveShell"
