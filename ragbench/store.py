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

All of it is for one machine: locks of a network share are not to be relied on, so two machines
must not write one study there.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import duckdb
import polars as pl

from ragbench import relations, rows
from ragbench.ahead import begun
from ragbench.errors import BadRow, RagbenchError, StoreError
from ragbench.files import (
    OldLayout,
    attach,
    copy_of,
    ctrl_c,
    discard,
    fold_lock,
    journal_folder,
    layout_version,
    open_study,
    peeking,
    point_views,
    private,
    say,
    stamp,
    study_file,
    unusable,
)
from ragbench.folding import (
    add_frames,
    fold,
    fold_journals,
    fold_quietly,
    pace,
    prepare,
    rewrite,
)
from ragbench.journal import Writer, has_journals, origins_of, run_row
from ragbench.migration import migrate
from ragbench.relations import SCHEMA_VERSION

__all__ = ["append", "connect", "fold", "refresh", "step", "study_path"]

_refreshing = threading.Lock()
_KEEP_SECONDS = 5.0
"""How long a replaced file stays attached: queries that began before may still bind to it."""


@ctrl_c()
def connect(path: str | os.PathLike[str]) -> duckdb.DuckDBPyConnection:
    """A connection on which every relation and metric view of the study at `path` can be queried.

    It is an in-memory DuckDB connection with the file attached read-only: nothing done on it
    changes the study, nothing has to be closed, and runs may go on writing meanwhile. Tables and
    views of your own live in memory. Rows that wait in journals are folded in first.

    Raises:
        StoreError: no study there, or the file is foreign, damaged, too new or held by a program
            that writes into it directly.

    Example:
        >>> con = connect(example_study)  # doctest: +SKIP
        >>> con.sql("SELECT model, count(*) FROM responses GROUP BY model").pl()  # doctest: +SKIP
    """
    # Intervals will need it: its import takes longer than all else of an opening, and beside that.
    _begin(import_module, "scipy.special")
    return _connected(path)


def opened(path: str | os.PathLike[str]) -> duckdb.DuckDBPyConnection:
    """As `connect`, for a step that makes rows: of the metric views it has what that takes."""
    return _connected(path, is_step=True)


@contextlib.contextmanager
def put_away(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Close `con` after the block, while that which comes next goes on."""
    try:
        yield
    finally:
        _begin(con.close)


def _connected(path: str | os.PathLike[str], *, is_step: bool = False) -> duckdb.DuckDBPyConnection:
    file = study_file(path)
    try:
        file.exists()
    except OSError as error:  # a folder on the way may not be entered
        raise unusable(file, error) from None
    _tidy(file)
    # A large study is not folded for every connection while its writers fold it anyway.
    is_large = file.exists() and file.stat().st_size > _LARGE_BYTES
    fold_quietly(file, patience=pace(file) if is_large else 0.0)
    if not file.exists():
        raise StoreError(
            f"no study at {file}. Make one with `ragbench import`, ragbench.append or "
            "`make rebuild`, or check the path."
        )
    seen = stamp(file)  # before it is opened: a file that comes in between is found by `refresh`
    try:
        con = open_study(file, read_only=True, alias="store_0", is_step=is_step)
    except OldLayout:
        migrate(file)
        seen = stamp(file)
        con = open_study(file, read_only=True, alias="store_0", is_step=is_step)
    con.execute(
        "CREATE SCHEMA _ragbench;"
        "CREATE TABLE _ragbench.attached (path VARCHAR, stamp VARCHAR, number INTEGER, "
        "retired_at DOUBLE);"
        "CREATE TABLE _ragbench.retired (alias VARCHAR, since DOUBLE)"
    )
    con.execute("INSERT INTO memory._ragbench.attached VALUES (?, ?, 0, NULL)", [str(file), seen])
    return con


_LARGE_BYTES = 300_000_000


def _tidy(file: Path) -> None:
    """Remove what a process that died in a fold left, unless another is in one."""
    if copy_of(file).exists():
        with contextlib.suppress(OSError, StoreError), fold_lock(file, timeout=0):
            discard(copy_of(file))


class State(NamedTuple):
    """Which state of which study a connection reads."""

    file: Path
    stamp: str
    number: int  # of the file among those that were attached one after the other
    retired_at: float | None  # when the last of those was replaced that are still attached


def state(con: duckdb.DuckDBPyConnection) -> State:
    """Which state of which study `con` reads.

    Raises:
        StoreError: `con` was not made by `connect`, or was closed.
    """
    if not isinstance(con, duckdb.DuckDBPyConnection):
        raise StoreError(
            f"a connection is needed here, not {type(con).__name__}; make one with "
            "con = ragbench.connect(path)."
        )
    if (known := _states.get(con)) is not None:
        return known
    try:
        found = con.cursor().execute("FROM memory._ragbench.attached").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        raise StoreError(
            "this connection has no study attached; make it with ragbench.connect(path)."
        ) from None
    except duckdb.ConnectionException:
        raise StoreError(
            "this connection was closed; make another with ragbench.connect(path)."
        ) from None
    return State(Path(found[0][0]), *found[0][1:])


_states: WeakKeyDictionary[duckdb.DuckDBPyConnection, State] = WeakKeyDictionary()
"""The state that cursors made by `reading` are pinned to; to ask for it takes a while."""


def reading(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A cursor for one call, once newer rows are attached; it remembers which state it reads.

    Raises:
        StoreError: as in `refresh`.
    """
    now = _refreshed(con)[0]
    cursor = con.cursor()
    _states[cursor] = now
    return cursor


def study_path(con: duckdb.DuckDBPyConnection) -> Path:
    """The file that `con` reads.

    Raises:
        StoreError: `con` was not made by `connect`, or was closed.
    """
    return state(con).file


@ctrl_c()
def refresh(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether newer rows were found and attached. All public functions call this first.

    Tables, views and settings of your own on `con` stay. An open transaction that has read the
    study goes on with what it saw; so does a query that is running, in any thread.

    Raises:
        StoreError: the file was moved, or replaced by one that is no study.
    """
    return _refreshed(con)[1]


def _refreshed(con: duckdb.DuckDBPyConnection) -> tuple[State, bool]:
    now = state(con)
    file = now.file
    with _refreshing:
        fold_quietly(file, patience=pace(file))
        if now.retired_at is not None and now.retired_at < time.monotonic() - _KEEP_SECONDS:
            _detach_retired(con.cursor())
        newest = stamp(file)
        if now.stamp == newest:
            return now, False
        now = state(con)  # another thread may have been here
        if now.stamp == newest:
            return now, True
        if layout_version(file) < SCHEMA_VERSION:
            migrate(file)
            newest = stamp(file)
        # Under another name, and the views in one transaction: no query finds itself without.
        cursor = con.cursor()
        _detach_retired(cursor)
        alias = f"store_{now.number + 1}"
        cursor.execute(f"DETACH DATABASE IF EXISTS {alias}")
        attach(cursor, file, read_only=True, alias=alias)
        cursor.execute("BEGIN")
        point_views(cursor, alias)
        cursor.execute(
            "UPDATE memory._ragbench.attached SET stamp = ?, number = ?, retired_at = ?",
            [newest, now.number + 1, retired_at := time.monotonic()],
        )
        cursor.execute(
            "INSERT INTO memory._ragbench.retired VALUES (?, ?)",
            [f"store_{now.number}", retired_at],
        )
        cursor.execute("COMMIT")
    return State(file, newest, now.number + 1, retired_at), True


def _detach_retired(cursor: duckdb.DuckDBPyConnection) -> None:
    due = time.monotonic() - _KEEP_SECONDS
    old = cursor.execute(
        "SELECT alias FROM memory._ragbench.retired WHERE since < ?", [due]
    ).fetchall()
    for (alias,) in old:
        cursor.execute(f"DROP SCHEMA IF EXISTS memory._kept_{alias} CASCADE")
        cursor.execute(f"DETACH DATABASE IF EXISTS {alias}")
        cursor.execute("DELETE FROM memory._ragbench.retired WHERE alias = ?", [alias])
    cursor.execute(
        "UPDATE memory._ragbench.attached "
        "SET retired_at = (SELECT max(since) FROM memory._ragbench.retired)"
    )


def remembered(con: duckdb.DuckDBPyConnection, make: Callable[[], T]) -> T:
    """What `make()` gives, called once for each state of the study.

    For what every slice asks and only new rows change; it is told apart by the name of `make`.
    """
    now = state(con)
    key = (now.file, now.stamp, f"{make.__module__}.{make.__qualname__}")
    if key not in _remembered:
        while len(_remembered) >= _REMEMBERED_AT_MOST:
            _remembered.pop(next(iter(_remembered), key), None)
        _remembered[key] = make()
    found: T = _remembered[key]
    return found


def kept(
    con: duckdb.DuckDBPyConnection, name: str, select: Callable[[], str], values: Sequence[Any]
) -> str:
    """The name of a table that holds what `select()` gives, made once for each state of the study.

    It is told apart by `name`, and goes together with the file it was read from.
    """
    schema = f"memory._kept_store_{state(con).number}"
    table = f"{schema}._{name.encode().hex()}"  # names of tables do not tell capitals apart
    with _refreshing:
        try:
            con.execute(f"FROM {table} LIMIT 0").fetchall()
        except duckdb.CatalogException:
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            con.execute(f"CREATE TABLE {table} AS {select()}", values).fetchall()
    return table


T = TypeVar("T")
_remembered: dict[tuple[Path, str, str], Any] = {}
_REMEMBERED_AT_MOST = 100


def at_once(
    con: duckdb.DuckDBPyConnection, *calls: Callable[[duckdb.DuckDBPyConnection], Any]
) -> list[Any]:
    """What each call gives, all started together, each on a cursor of its own.

    On a small study most of a statement's time is spent on planning it, on one core.
    """
    cursors = [con.cursor() for _ in calls]
    try:
        begun = [_begin(call, cursor) for call, cursor in zip(calls, cursors, strict=True)]
        return [one.result() for one in begun]
    except BaseException:  # Ctrl-C comes here, and not into the threads
        for cursor in cursors:
            cursor.interrupt()
        raise


def _begin(call: Callable[..., T], *given: Any) -> Future[T]:
    return begun(_pool(os.getpid()), call, *given)


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """The threads of this process: a fork has none of its parent's."""
    return ThreadPoolExecutor(8, thread_name_prefix="statements")


@ctrl_c()
def append(
    path: str | os.PathLike[str],
    relation: str | Mapping[str, Any],
    frame: Any = None,
    *,
    step: str = "append",
    origin: str = "measured",
    config: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """What became of the rows: columns relation, given, added, replaced, present.

    All rows or none are stored, in one atomic change of the file, which is made when absent. Rows
    whose key is there already are left alone (*present*), except that a success takes the place of
    an error, and that blanks of models, queries, constraints, instances, documents and claims are
    filled (*replaced*). `run_id`, `response_id`, trial, repeat and setting are filled in when
    absent, models named by responses are added, and responses are put into `wanted`.

    Args:
        relation: one relation's name with its `frame` (polars, pandas, Arrow, a list of mappings
            or a mapping of columns), or a mapping of several.
        step: what made the rows, for `runs.step`.
        origin: measured, recorded or simulated. Simulated rows share no file with others.

    Raises:
        UnknownColumn, UnknownName: a column or relation that a study does not have.
        BadRow: a value that does not fit, or points to a row that is not there.
        StoreError: the file cannot be written.
    """
    given = {relation: frame} if isinstance(relation, str) else dict(relation)
    file = study_file(path)
    run = run_row(step, origin, config)
    frames = {
        name: rows.fit(name, table if table is not None else [], run["run_id"])
        for name, table in sorted(given.items(), key=lambda item: relations.order(item[0]))
    }
    if "constraints" in frames:
        _refuse_bad_rules(frames["constraints"])
    if "criteria" in frames:
        _refuse_taken_names(frames["criteria"])
    with fold_lock(file):
        if has_journals(file):  # rows may point to what a stopped process left there
            fold_journals(file)
        size = sum(int(frame.estimated_size()) for frame in frames.values())
        return rewrite(file, lambda con: add_frames(con, frames, run), size)


def _refuse_taken_names(criteria: pl.DataFrame) -> None:
    """Raise where a criterion has the name of a column that scores have anyhow."""
    from ragbench.metrics import taken_names

    taken = sorted(set(criteria["criterion"]) & taken_names())
    if taken:
        raise BadRow(
            f"criteria: {taken[0]!r} is the name of a column of scores. Choose another name."
        )


def _refuse_bad_rules(constraints: pl.DataFrame) -> None:
    """Raise where a rule or its arguments do not exist; warn where they contradict the text."""
    checked = constraints.filter(pl.col("rule").is_not_null())
    if checked.is_empty():
        return
    from ragbench.judging.rules import refuse_bad, validate_constraints  # only when there are any

    refuse_bad(checked)
    odd = validate_constraints(checked)
    if odd.height:
        first = odd.row(0, named=True)
        say(
            f"{odd.height} constraints look wrong; the first is {first['constraint_id']}: "
            f"{first['problem']}. {first['remedy']}",
        )


@contextlib.contextmanager
def step(
    study: str | os.PathLike[str] | duckdb.DuckDBPyConnection,
    name: str,
    *,
    origin: str = "measured",
    config: Mapping[str, Any] | None = None,
) -> Iterator[Writer]:
    """A writer whose rows are safe as soon as `add` returns, whatever happens to the process.

    `study` is the path of its file, or a connection to it, which reads with one thread from now on
    and may be closed before the step ends.

    Example:
        >>> with step(path, "judge") as writer:  # doctest: +SKIP
        ...     writer.add({"judgments": verdict, "evidence": why})
    """
    if isinstance(study, duckdb.DuckDBPyConnection):
        file = study_path(study)
        _refuse_origin(file, origin, study)
        # Beside calls: each thread holds memory of its own. On a cursor, as there may be rows left
        # to fetch from the connection.
        study.cursor().execute("SET threads = 1")
    else:
        file = study_file(study)
        _refuse_origin(file, origin)
    was_there = file.exists()
    folded_at = time.monotonic()
    ahead: Future[duckdb.DuckDBPyConnection] | None = None

    def keep_up() -> None:
        nonlocal folded_at, ahead
        # For the last fold: somebody waits for that, and now for calls at most.
        ahead = ahead or _begin(prepare, file)
        # Readers fold what they want to see; a writer only keeps its journal from growing long.
        passed = time.monotonic() - folded_at
        if passed > _FOLD_SECONDS and passed > (wait := pace(file)):
            fold_quietly(file, patience=wait)
            folded_at = time.monotonic()

    writer = Writer(file, run_row(name, origin, config), keep_up)
    try:
        yield writer
    except BaseException:
        writer.close()
        with contextlib.suppress(RagbenchError):  # what went wrong first is what counts
            fold_quietly(file)
        raise
    writer.close()
    if was_there and not file.exists() and has_journals(file):
        raise StoreError(
            f"no study at {file} any more: it was moved or deleted while a step was running. Put "
            f"it back and open it again; the rows of the step are in {journal_folder(file)}."
        )
    with private(ahead.result() if ahead else None) as empty:
        fold(file, empty, writer.known)


_FOLD_SECONDS = 60.0


def _refuse_origin(file: Path, origin: str, con: duckdb.DuckDBPyConnection | None = None) -> None:
    """Raise when rows of `origin` cannot share the study with those that are there."""
    there = origins_of(file)
    origins = "SELECT DISTINCT origin::VARCHAR FROM {}runs"
    if con is not None:
        there |= {row[0] for row in reading(con).execute(origins.format("")).fetchall()}
    elif file.exists():
        with peeking(file) as (peek, _):
            there |= {row[0] for row in peek.execute(origins.format("store.main.")).fetchall()}
    if there and "simulated" in {*there, origin} and there != {origin}:
        raise BadRow(
            f"{file} holds {' and '.join(sorted(there))} rows, and simulated rows share no study "
            f"with others; write these ({origin}) into another file."
        )
