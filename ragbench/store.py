"""The study file: one DuckDB file that many may read while many write.

DuckDB lets one process write a file or several read it, and a notebook keeps its connection for
hours. So nobody writes into the file that readers hold:

- a step that makes rows appends them, a line each, to a journal of its own beside the file
  (`journal`);
- *folding* copies the file, adds what the journals hold by key, notes in the same transaction how
  far each journal was read, and renames the copy over the file (`folding`);
- `connect` attaches the file read-only to an in-memory connection, and `refresh` the newer file.

A process may die anywhere in this. Before the rename the old file and all journals are as they
were; after it the new file knows what it has taken. A torn last line of a journal never counted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from ragbench import relations
from ragbench.errors import StoreError
from ragbench.files import attach, fold_lock, layout_version, open_study, stamp
from ragbench.folding import add_frames, fold, fold_quietly, migrate, pace, rewrite
from ragbench.journal import Writer, run_row
from ragbench.relations import SCHEMA_VERSION

_refreshing = threading.Lock()


def connect(path: str | os.PathLike[str]) -> duckdb.DuckDBPyConnection:
    """A connection on which every relation and metric view of the study at `path` can be queried.

    It is an in-memory DuckDB connection with the file attached read-only as `store`: nothing done
    on it changes the study, nothing has to be closed, and runs may go on writing meanwhile. Tables
    and views of your own live in memory. Rows that a stopped process left in its journal are
    folded in first.

    Raises:
        StoreError: no study there, or the file is foreign, damaged, too new or held by a program
            that writes into it directly.

    Example:
        >>> con = connect(example_study)  # doctest: +SKIP
        >>> con.sql("SELECT model, count(*) FROM responses GROUP BY model").pl()  # doctest: +SKIP
    """
    file = Path(path).expanduser().resolve()
    fold_quietly(file)
    if not file.exists():
        raise StoreError(
            f"no study at {file}. Make one with `ragbench import`, ragbench.append or "
            "`make rebuild`, or check the path."
        )
    version = layout_version(file)
    if version < SCHEMA_VERSION:
        migrate(file, version)
    con = open_study(file, read_only=True)
    con.execute("CREATE SCHEMA _ragbench")
    con.execute("CREATE TABLE _ragbench.attached (path VARCHAR, stamp VARCHAR)")
    con.execute("INSERT INTO _ragbench.attached VALUES (?, ?)", [str(file), stamp(file)])
    return con


def refresh(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether newer rows were found and attached. All public functions call this first.

    Tables, views and settings of your own on `con` stay; an open transaction does too.
    """
    cursor = con.cursor()
    file = study_path(cursor)
    with _refreshing:
        fold_quietly(file, patience=pace(file))
        newest = stamp(file)
        if cursor.execute("SELECT stamp FROM _ragbench.attached").fetchall() == [(newest,)]:
            return False
        cursor.execute("DETACH DATABASE IF EXISTS store")
        attach(cursor, file, read_only=True)
        cursor.execute("UPDATE _ragbench.attached SET stamp = ?", [newest])
    return True


def study_path(con: duckdb.DuckDBPyConnection) -> Path:
    """The file that `con` reads.

    Raises:
        StoreError: `con` was not made by `connect`.
    """
    try:
        rows = con.cursor().execute("SELECT path FROM _ragbench.attached").fetchall()
    except duckdb.CatalogException:
        raise StoreError(
            "this connection has no study attached; make it with ragbench.connect(path)."
        ) from None
    return Path(rows[0][0])


def append(
    path: str | os.PathLike[str],
    relation: str | Mapping[str, Any],
    frame: pl.DataFrame | Iterable[Mapping[str, Any]] | None = None,
    *,
    step: str = "append",
    origin: str = "measured",
    config: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """What became of the rows: columns relation, given, added, replaced, present.

    All rows or none are stored, in one atomic change of the file, which is made when absent. Rows
    whose key is there already are left alone (*present*), except that a success takes the place of
    an error (*replaced*). `run_id`, `response_id`, trial, repeat and setting are filled in when
    absent, models named by responses are added, and responses are put into `wanted`.

    Args:
        relation: one relation's name with its `frame`, or a mapping of several.
        step: what made the rows, for `runs.step`.
        origin: measured, recorded or simulated. Simulated rows share no file with others.

    Raises:
        UnknownColumn, UnknownName: a column or relation that a study does not have.
        BadRow: a value that does not fit, or points to a row that is not there.
        StoreError: the file cannot be written.
    """
    given = {relation: frame} if isinstance(relation, str) else dict(relation)
    file = Path(path).expanduser().resolve()
    run = run_row(step, origin, config)
    frames = {
        name: relations.fit(name, rows if rows is not None else [], run["run_id"])
        for name, rows in sorted(given.items(), key=lambda item: relations.order(item[0]))
    }
    with fold_lock(file):
        return rewrite(file, lambda con: add_frames(con, frames, run))


@contextlib.contextmanager
def step(
    path: str | os.PathLike[str],
    name: str,
    *,
    origin: str = "measured",
    config: Mapping[str, Any] | None = None,
) -> Iterator[Writer]:
    """A writer whose rows are safe as soon as `add` returns, whatever happens to the process.

    Example:
        >>> with step(path, "judge") as writer:  # doctest: +SKIP
        ...     writer.add({"judgments": verdict, "evidence": why})
    """
    file = Path(path).expanduser().resolve()
    if file.exists():
        layout_version(file)
    folded_at = time.monotonic()

    def keep_up() -> None:
        nonlocal folded_at
        if time.monotonic() - folded_at > pace(file):
            fold_quietly(file)
            folded_at = time.monotonic()

    writer = Writer(file, run_row(name, origin, config), keep_up)
    try:
        yield writer
    finally:
        writer.close()
        fold(file)
