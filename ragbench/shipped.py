"""The studies that come with the project, made from what is shipped when they are absent."""

from __future__ import annotations

from pathlib import Path

from ragbench.errors import StoreError, UnknownName
from ragbench.files import fold_lock

PROJECT = Path(__file__).resolve().parent.parent
STUDIES = ("recorded", "simulated")
"""Their names: rows of real runs, and rows drawn from a seed to try methods on."""


def shipped(name: str = "recorded") -> Path:
    """The file of a study that comes with the project, made when absent or older than its parts.

    `recorded` holds real answers, from the Parquet files in `data/recorded`; `simulated` is drawn
    from seed 0 (some 20 seconds, once). Both stand in `data/`.

    Raises:
        UnknownName: no such study.
        StoreError: the project's data is not there (ragbench was installed without its checkout).
    """
    if name not in STUDIES:
        raise UnknownName("study", name, STUDIES, place="the project")
    data = PROJECT / "data"
    file = data / f"{name}.duckdb"
    parts = _parts(name)
    if not parts or not data.is_dir():
        raise StoreError(
            f"the shipped study {name!r} is not at {data}. It comes with a checkout of the "
            "project; with your own study give its path instead."
        )
    newest = max(part.stat().st_mtime for part in parts)
    with fold_lock(data / f"{name}.duckdb.making"):  # notebooks that start together make it once
        if not file.exists() or file.stat().st_mtime < newest:
            file.unlink(missing_ok=True)
            _make(name, file)
    return file


def _parts(name: str) -> list[Path]:
    """The files that a shipped study is made from."""
    if name == "recorded":
        return sorted((PROJECT / "data" / name).glob("*.parquet"))
    printed = sorted((PROJECT / "data" / "paper").glob("*.csv"))
    return printed and [*printed, *(PROJECT / "ragbench" / "simulate").glob("*.py")]


def _make(name: str, file: Path) -> None:
    if name == "recorded":
        from ragbench.exports import load_folder

        load_folder(file, PROJECT / "data" / name)
        return
    from ragbench.simulate import study

    study(file, seed=0)
