"""Other people's results as rows of a study: tables, and the logs of other frameworks.

`load` is the way in. A table (CSV, Parquet, JSON Lines) has verdicts, responses or constraints, one
a row; what its columns may be is in `columns.NAMES`, and what it must have in `columns.NEEDED`. The
logs of inspect_ai, lm-evaluation-harness and promptfoo are read by their formats, without these
packages. Everything else a study needs is made from the rows: `identity` says how ids come about.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ragbench.errors import ImportFailed, StoreError, UnknownName
from ragbench.files import no_folder, study_file
from ragbench.importers.build import frames_of
from ragbench.importers.columns import KINDS, canonical, infer_kind, require
from ragbench.importers.read import read
from ragbench.importers.report import Report
from ragbench.importers.study import Study, drop_lines
from ragbench.store import append

__all__ = ["KINDS", "load"]


def load(
    path: str | os.PathLike[str],
    source: str | os.PathLike[str],
    *,
    kind: str | None = None,
    map: Mapping[str, str] | None = None,
    dry_run: bool = False,
    origin: str = "measured",
    name: str | None = None,
) -> pl.DataFrame:
    """What came in from the file `source` into the study at `path`, and what did not, by line.

    The report has `what` it is about: `rows`, one per relation, with how many rows the file gave
    and how many of them were added, replaced an error, or were present; `note`, what was assumed;
    and per `line` what did not come in as it stands, with `problem`, `remedy` and `value`: `error`,
    stored as a verdict without a score; `ignored`, stored without one value; `refused`, left out.

    All sound rows come in with one atomic append, or none. Rows that are there already are never
    changed; only a score takes an error's place. The constraint set of an instance is every
    constraint that any row of the file names for it, and what the study had before.

    Args:
        kind: verdicts, responses, constraints, inspect, lm_eval or promptfoo; None: as the file
            looks, which the report then says.
        map: what a column is called in the file, or `=text` for one text in all rows, as in
            {"model": "llm", "score": "passed", "judge": "=human"}.
        dry_run: the same report, and nothing is written.
        origin: measured, recorded or simulated.
        name: what the study is to be called in titles.

    Raises:
        ImportFailed: the file cannot be read at all, lacks a column that it needs, or has one that
            may hold verdicts and is not mapped.
        UnknownColumn: `map` names a column that is not there.
        StoreError: the study's folder is not there, or the study cannot be used.

    Example:
        >>> load("study.duckdb", "verdicts.csv", map={"model": "llm"})  # doctest: +SKIP
    """
    if kind is not None and kind not in KINDS:
        raise UnknownName("kind", kind, KINDS, place="an import")
    study_path = study_file(path)
    if not os.path.isdir(study_path.absolute().parent):
        raise StoreError(no_folder(study_path.absolute()))
    try:
        file = Path(source).expanduser()
    except TypeError:
        raise ImportFailed(f"a file is named by its path, not by {source!r}.") from None
    mapping, report = dict(map or {}), Report()
    given = read(file, kind, mapping, report)
    frame, unused = canonical(file, given.source, mapping, report)
    table = given.kind if given.kind in ("responses", "constraints") else "verdicts"
    if given.kind is None:
        left = {name: given.source.columns[name] for name in unused}
        table = infer_kind(file, frame.columns, left)
    if given.kind in (None, "verdicts", "responses", "constraints"):
        require(file, table, frame, given.source)
    if kind is None:
        report.note(f"read as {given.kind or table}", "Give `kind` if it is something else.")
    if frame.is_empty():
        report.note("no rows: the file has a header and nothing that could be read below it")
    study = Study(study_path)
    try:
        frames = frames_of(table, frame, study, report)
        study.report_differences(frames, report)
    finally:
        study.close()
    rows = drop_lines(frames)
    if name is not None:
        rows["study"] = pl.DataFrame({"name": [name], "schema_version": [0]})
    config = {"source": file.name, "kind": given.kind or table, "map": mapping}
    return report.frame(_store(study_path, rows, origin, config, dry_run=dry_run))


def _store(
    path: Path, rows: dict[str, pl.DataFrame], origin: str, config: dict[str, Any], *, dry_run: bool
) -> list[dict[str, Any]]:
    """Append `rows`, to a copy that is thrown away when it is a dry run."""
    if not rows:
        return []
    if dry_run:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            if path.exists():
                shutil.copyfile(path, copy)
            return _store(copy, rows, origin, config, dry_run=False)
    done = append(path, rows, step="import", origin=origin, config=config)
    done = done.filter(pl.col("relation") != "study").rename({"given": "rows"})
    return done.to_dicts()
