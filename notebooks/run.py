"""Execute the notebooks from a clean state, one kernel each.

    python notebooks/run.py                         # all of them: the outputs are stored in place
    python notebooks/run.py --out DIR 00_tour.ipynb # this one, stored in DIR
    python notebooks/run.py --study my.duckdb 00_tour.ipynb --out DIR
    python notebooks/run.py --out DIR --changed     # only those older than what they are made of

The exit code is 1 as soon as a cell fails or a kernel dies, and the message names the cell. What
is stored holds no times, paths or versions of this machine, so that a second run changes little.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

HERE = Path(__file__).resolve().parent
SECONDS_A_CELL = 600  # for a busy machine
os.environ.setdefault("TQDM_DISABLE", "1")  # a bar's last state is no output to store


class CellFailed(Exception):
    """A notebook did not run to its end; the message names the cell and what it said."""


def executed(path: Path, study: str | None = None) -> nbformat.NotebookNode:
    """The notebook with the outputs of a run in a new kernel, in the folder it lives in.

    `study` takes the place of what its first code cell calls STUDY.
    """
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    written = code[0].source
    if study is not None:
        code[0].source = re.sub(
            r"^STUDY = .*$", lambda _: f"STUDY = {study!r}", written, flags=re.MULTILINE
        )
    reached = [0]
    client = NotebookClient(
        notebook,
        timeout=SECONDS_A_CELL,
        startup_timeout=SECONDS_A_CELL,
        kernel_name="python3",
        record_timing=False,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_execute=lambda cell, cell_index: reached.append(cell_index),
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise CellFailed(
            _told(path, notebook, reached[-1], f"{error.ename}: {error.evalue}")
        ) from None
    except (CellTimeoutError, DeadKernelError) as error:
        raise CellFailed(_told(path, notebook, reached[-1], str(error))) from None
    code[0].source = written
    return _steady(notebook)


def _steady(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook without what differs from run to run or from machine to machine."""
    notebook.metadata.language_info = {"name": "python"}
    notebook.metadata.pop("widgets", None)  # megabytes that only a live kernel could use
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data:  # a widget needs its kernel; what stands in for it does not
                data.pop("application/vnd.jupyter.widget-view+json", None)
            plain = output.get("data", {}).get("text/plain", "")
            if " at 0x" in plain:  # the inside of a table object, of which the HTML is shown
                output.data["text/plain"] = f"<{plain.partition('(')[0]}>"
    return notebook


def _told(path: Path, notebook: nbformat.NotebookNode, index: int, what: str) -> str:
    cell = notebook.cells[index]
    number = sum(other.cell_type == "code" for other in notebook.cells[: index + 1])
    first = cell.source.strip().splitlines()[0]
    what = re.sub(r"\x1b\[[0-9;]*m", "", what).strip()
    return f"{path.name}: code cell {number} ({cell.get('id', index)}: {first}) failed.\n{what}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Execute what is named, or all; 0 when every cell ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "notebooks", nargs="*", help="names in this folder, or paths; all if left out"
    )
    parser.add_argument("--out", type=Path, help="folder for the executed copies; else in place")
    parser.add_argument("--study", help="path of the study to use instead of the one they name")
    parser.add_argument(
        "--changed",
        action="store_true",
        help="leave alone what is newer than the notebook, the package and the data",
    )
    chosen = parser.parse_args(arguments)
    named = [HERE / name for name in chosen.notebooks]  # an absolute path stays as it is
    study = None if chosen.study is None else str(Path(chosen.study).resolve())
    targets = {
        path: path if chosen.out is None else chosen.out / path.name
        for path in named or sorted(HERE.glob("*.ipynb"))
    }
    if chosen.changed:
        targets = {path: target for path, target in targets.items() if _is_due(path, target)}
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:  # each waits for its own kernel
        runs = {path: pool.submit(_stored, path, to, study) for path, to in targets.items()}
        for path, run in runs.items():
            try:
                print(f"{path.name}: {run.result()}", flush=True)
            except CellFailed as problem:
                print(problem, file=sys.stderr)
                pool.shutdown(cancel_futures=True)
                return 1
    return 0


def _stored(path: Path, target: Path, study: str | None) -> Path:
    """Where the executed notebook now is."""
    notebook = executed(path, study)
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    return target


def _is_due(path: Path, target: Path) -> bool:
    """Whether the executed copy is absent, or older than something it is made of."""
    if not target.exists():
        return True
    parts: Iterable[Path] = (
        part
        for folder, pattern in (
            (HERE.parent / "ragbench", "**/*.*"),
            (HERE.parent / "data", "*/*.*"),
        )
        for part in folder.glob(pattern)
        if part.suffix in {".py", ".sql", ".md", ".csv", ".toml", ".parquet"}
    )
    newest = max(part.stat().st_mtime for part in (path, *parts))
    return newest > target.stat().st_mtime


if __name__ == "__main__":
    sys.exit(main())
