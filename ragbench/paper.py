"""The artifacts: what each is called, what it shows, and how it is made from rows.

`rebuild` is the only way an artifact is made; notebooks, commands and tests call it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import polars as pl

from ragbench import __version__
from ragbench.checks import content_hash
from ragbench.comparisons import independence
from ragbench.errors import RagbenchError, StoreError, UnknownName
from ragbench.metrics import constraint_scores, scores
from ragbench.store import connect

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Artifact(NamedTuple):
    """A frame of numbers and the picture of it."""

    name: str
    title: str
    frame: pl.DataFrame
    figure: go.Figure


GROUP = ("model", "setting")


def _gap(con: duckdb.DuckDBPyConnection, title: str) -> tuple[pl.DataFrame, go.Figure]:
    from ragbench import figures

    frame = scores(con, by=GROUP, metrics=["loose_ias", "strict_ias"])
    baseline = independence(con, by=GROUP)
    return frame, figures.gap(frame, baseline, title=title)


def _strict(con: duckdb.DuckDBPyConnection, title: str) -> tuple[pl.DataFrame, go.Figure]:
    from ragbench import figures

    frame = scores(con, by=(*GROUP, "context_mode"), metrics=["strict_ias"])
    return frame, figures.dots(frame, "strict_ias", title=title)


def _dimensions(con: duckdb.DuckDBPyConnection, title: str) -> tuple[pl.DataFrame, go.Figure]:
    from ragbench import figures

    frame = constraint_scores(con, by=("dimension",))
    return frame, figures.dots(frame, "adherence", title=title)


Maker = Callable[[duckdb.DuckDBPyConnection, str], "tuple[pl.DataFrame, go.Figure]"]
ARTIFACTS: dict[str, tuple[str, Maker]] = {
    "gap": ("Do responses that meet each requirement meet all?", _gap),
    "strict": ("Which responses meet every requirement?", _strict),
    "dimensions": ("Which kinds of requirement are met?", _dimensions),
}
"""Name -> (title, how it is made)."""


def rebuild(artifact: str, con: duckdb.DuckDBPyConnection) -> Artifact:
    """The artifact made from the rows of the study that `con` reads.

    Raises:
        UnknownName: no such artifact.

    Example:
        >>> rebuild("gap", con).figure  # doctest: +SKIP
    """
    if artifact not in ARTIFACTS:
        raise UnknownName("artifact", artifact, ARTIFACTS, place="ragbench")
    title, make = ARTIFACTS[artifact]
    frame, figure = make(con, title)
    return Artifact(artifact, title, frame, figure)


def rebuild_all(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    names: Sequence[str] = (),
    *,
    formats: Sequence[str] = ("html",),
) -> pl.DataFrame:
    """One row per artifact: columns artifact, origin, rows, status, seconds, path.

    Writes each picture, its numbers and its provenance to `out`. What was made from the same rows
    by the same version in the same formats is left alone (status *unchanged*). An artifact that the
    study cannot give is named with the reason; the others are made.
    """
    from ragbench.output import save

    con = connect(path)
    study = content_hash(con)
    rows = []
    for name in names or ARTIFACTS:
        began, stem = time.perf_counter(), Path(out) / name
        row: dict[str, Any] = {"artifact": name, "path": f"{stem}.html"}
        if name in ARTIFACTS and _is_current(stem, study, formats):
            row["status"] = "unchanged"
        else:
            try:
                made = rebuild(name, con)
                call = f"ragbench rebuild {name}"
                files = save(
                    made.figure, stem, frame=made.frame, con=con, call=call, formats=formats
                )
                notes = [note for note in files["note"] if note]
                row |= {"rows": made.frame.height, "status": notes[0] if notes else "made"}
                row["origin"] = "; ".join(made.frame["origin"].unique().sort())
            except (UnknownName, StoreError):
                raise
            except RagbenchError as error:
                row["status"] = f"not made: {error}"
        rows.append(row | {"seconds": round(time.perf_counter() - began, 2)})
    schema = {
        "artifact": pl.String,
        "origin": pl.String,
        "rows": pl.Int64,
        "status": pl.String,
        "seconds": pl.Float64,
        "path": pl.String,
    }
    return pl.DataFrame(rows, schema=schema)


def _is_current(stem: Path, study: str, formats: Sequence[str]) -> bool:
    """Whether the artifact at `stem` was made from these rows by this version, in all formats."""
    try:
        about = json.loads(Path(f"{stem}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    is_same = about.get("study_hash") == study and about.get("ragbench") == __version__
    wanted = {"html", "csv", *formats}
    return is_same and all(Path(f"{stem}.{ending}").exists() for ending in wanted)


def shipped(name: str = "recorded") -> Path:
    """The study file of a shipped study, made from its Parquet files when absent or older.

    The files are in `data/<name>/` of the project; the study stands beside that folder.

    Raises:
        StoreError: the project's data is not there (ragbench was installed without its checkout).
    """
    from ragbench.exports import load_folder

    folder = Path(__file__).resolve().parent.parent / "data" / name
    parts = sorted(folder.glob("*.parquet"))
    if not parts:
        raise StoreError(
            f"the shipped study {name!r} is not at {folder}. It comes with a checkout of the "
            "project; with your own study give its path instead."
        )
    file = folder.with_suffix(".duckdb")
    newest = max(part.stat().st_mtime for part in parts)
    if not file.exists() or file.stat().st_mtime < newest:
        file.unlink(missing_ok=True)
        load_folder(file, folder)
    return file


def published(name: str) -> pl.DataFrame:
    """The numbers that a paper printed, as they stand in `data/paper/` (percent unless said there).

    A name is a file's (`table2_noisy`) or its number alone (`table2`); `table7` are the scores of
    the judges, `table7_reliability` what was computed from them. README.md there explains each.

    Raises:
        UnknownName: no such table.
        StoreError: the project's data is not there (ragbench was installed without its checkout).

    Example:
        >>> published("table6")["count"].to_list()
        [447, 227, 309]
    """
    folder = Path(__file__).resolve().parent.parent / "data" / "paper"
    files = {file.stem: file for file in sorted(folder.glob("*.csv"))}
    if not files:
        raise StoreError(
            f"the published numbers are not at {folder}; they come with a checkout of the project."
        )
    for stem in list(files):
        short = stem.partition("_")[0]
        if short.startswith("table"):
            files.setdefault(short, files[stem])
    if name not in files:
        raise UnknownName("published table", name, files, place="data/paper")
    return pl.read_csv(files[name], infer_schema_length=None)
