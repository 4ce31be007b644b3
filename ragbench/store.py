"""The study file: one DuckDB file that many may read while many write.

DuckDB lets one process write a file or several read it, and a notebook keeps its connection for
hours. So nobody writes into the file that readers hold:

- a step that makes rows appends them, a line each, to a journal of its own beside the file;
- *folding* copies the file, adds what the journals hold by key, notes in the same transaction how far
  each journal was read, and renames the copy over the file;
- `connect` attaches the file read-only to an in-memory connection; `refresh` attaches the newer file.

A process may die anywhere in this. Before the rename the old file and all journals are as they were;
after it the new file knows what it has taken. A torn last line of a journal never counted.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from filelock import FileLock, Timeout

from ragbench import __version__, relations, taxonomy
from ragbench.errors import BadRow, RagbenchError, StoreError
from ragbench.relations import FOLLOWS, KEYS, SCHEMA_VERSION, SUPERSEDED

Frames = Mapping[str, pl.DataFrame]
_refreshing = threading.Lock()


# ---------------------------------------------------------------- reading


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
    _fold_quietly(file)
    if not file.exists():
        raise StoreError(
            f"no study at {file}. Make one with `ragbench import`, ragbench.append or "
            "`make rebuild`, or check the path."
        )
    version = _version(file)
    if version < SCHEMA_VERSION:
        _migrate(file, version)
    con = _open(file, read_only=True)
    con.execute("CREATE SCHEMA _ragbench")
    con.execute("CREATE TABLE _ragbench.attached (path VARCHAR, stamp VARCHAR)")
    con.execute("INSERT INTO _ragbench.attached VALUES (?, ?)", [str(file), _stamp(file)])
    return con


def refresh(con: duckdb.DuckDBPyConnection) -> bool:
    """Whether newer rows were found and attached. All public functions call this first.

    Tables, views and settings of your own on `con` stay; an open transaction does too.
    """
    cursor = con.cursor()
    file = study_path(cursor)
    with _refreshing:
        _fold_quietly(file, patience=_pace(file))
        stamp = _stamp(file)
        if cursor.execute("SELECT stamp FROM _ragbench.attached").fetchall() == [(stamp,)]:
            return False
        cursor.execute("DETACH DATABASE IF EXISTS store")
        _attach(cursor, file, read_only=True)
        cursor.execute("UPDATE _ragbench.attached SET stamp = ?", [stamp])
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


def _open(file: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """An in-memory connection with `file` as `store` and the views over it."""
    con = duckdb.connect()
    con.execute(f"SET temp_directory = {_quote(_spill_folder())}")
    _attach(con, file, read_only=read_only)
    for relation in relations.layout():
        con.execute(f"CREATE VIEW {relation} AS SELECT * FROM store.main.{relation}")
    con.execute("CREATE VIEW scoped AS SELECT * FROM wanted")
    con.execute(relations.read_sql("views.sql"))
    return con


def _attach(con: duckdb.DuckDBPyConnection, file: Path, *, read_only: bool) -> None:
    mode = " (READ_ONLY)" if read_only else ""
    try:
        con.execute(f"ATTACH {_quote(file)} AS store{mode}")
    except duckdb.Error as error:
        raise _unusable(file, error) from None


def _version(file: Path) -> int:
    """The schema version of `file`, at most this package's."""
    con = duckdb.connect()
    try:
        _attach(con, file, read_only=True)
        version = con.execute("SELECT schema_version FROM store.main.study").fetchall()[0][0]
    except (duckdb.CatalogException, duckdb.BinderException, IndexError):
        raise StoreError(
            f"{file} is a DuckDB file but not a ragbench study (it has no relation `study`). "
            "Name another path; to bring its tables in, export them to Parquet and use "
            "`ragbench import`."
        ) from None
    except duckdb.Error as error:
        raise _unusable(file, error) from None
    finally:
        con.close()
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{file} was written by a newer ragbench (layout {version}; this one knows "
            f"{SCHEMA_VERSION}). Install a newer ragbench; the file was not touched."
        )
    return int(version)


def _unusable(file: Path, error: Exception) -> StoreError:
    """One clear message for what DuckDB says about a file that it cannot open."""
    text = str(error).splitlines()[0]
    lowered = str(error).lower()
    if "lock" in lowered:
        return StoreError(
            f"{file} is open for writing in another program ({text}). Close it there: ragbench "
            "itself never holds that lock."
        )
    if "no space" in lowered or getattr(error, "errno", None) == errno.ENOSPC:
        return _no_room(file)
    if "permission" in lowered or "cannot open file" in lowered:
        return StoreError(f"{file} cannot be opened ({text}). Check the path and its permissions.")
    return StoreError(
        f"{file} is not a usable study: it is damaged, cut short, or no DuckDB file ({text}). "
        "Restore it from a copy or import the sources again; it was not changed, and rows not "
        f"yet folded in are still in {_journal_folder(file)}."
    )


def _no_room(place: Path) -> StoreError:
    return StoreError(
        f"no room left on the disk of {place.parent}. Free some space (a fold needs about the "
        "size of the study) and call again: what was stored before is safe, what did not fit "
        "does not count."
    )


# ---------------------------------------------------------------- writing


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
    run = _run_row(step, origin, config)
    frames = {
        name: relations.fit(name, rows if rows is not None else [], run["run_id"])
        for name, rows in sorted(given.items(), key=lambda item: _order(item[0]))
    }
    with _fold_lock(file):
        return _rewrite(file, lambda con: _add_frames(con, frames, run))


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
        _version(file)
    writer = Writer(file, _run_row(name, origin, config))
    try:
        yield writer
    finally:
        writer.close()
        fold(file)


class Writer:
    """Appends rows of one run to its journal. Made by `step`; one process, any thread."""

    def __init__(self, file: Path, run: dict[str, Any]) -> None:
        self.run_id: str = run["run_id"]
        self._file = file
        self._run = run
        self._stem = _journal_folder(file) / self.run_id
        self._handle: int | None = None
        self._guard = threading.Lock()
        self._size = 0
        self._alive = FileLock(f"{self._stem}.lock")
        self._folded_at = time.monotonic()

    def add(self, rows: Mapping[str, Mapping[str, Any] | Iterable[Mapping[str, Any]]]) -> None:
        """Store rows of one or more relations together: after a crash all are there, or none.

        Raises:
            UnknownColumn, BadRow: a row does not fit; nothing of this call is stored.
            StoreError: the journal cannot be written; nothing of this call is stored.
        """
        line = {
            relation: [
                relations.clean(relation, row, self.run_id)
                for row in ([given] if isinstance(given, Mapping) else given)
            ]
            for relation, given in rows.items()
        }
        with self._guard:
            if self._handle is None:
                self._start()
            self._write(line)
        if time.monotonic() - self._folded_at > _pace(self._file):
            _fold_quietly(self._file)
            self._folded_at = time.monotonic()

    def _start(self) -> None:
        try:
            self._stem.parent.mkdir(parents=True, exist_ok=True)
            self._alive.acquire(timeout=0)  # held until this process ends, however it ends
            self._handle = os.open(
                f"{self._stem}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
            )
        except OSError as error:
            raise _cannot_write(self._file, error) from None
        self._write({"runs": [self._run]})

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._handle is not None
        data = (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "replace")
        try:
            written = 0
            while written < len(data):
                written += os.write(self._handle, data[written:])
        except OSError as error:
            # Half a line would swallow the next one: take it back.
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._size)
            raise _cannot_write(self._file, error) from None
        self._size += len(data)

    def close(self) -> None:
        """Let the rows be folded in by whoever comes next; `step` does this."""
        with self._guard:
            if self._handle is not None:
                with contextlib.suppress(OSError):  # some file systems refuse to sync
                    os.fsync(self._handle)
                os.close(self._handle)
                self._handle = None
                self._alive.release()


def _run_row(step: str, origin: str, config: Mapping[str, Any] | None) -> dict[str, Any]:
    now = datetime.now(UTC).replace(tzinfo=None)
    run_id = f"{now:%Y%m%dT%H%M%S%f}-{secrets.token_hex(3)}"
    row = {
        "run_id": run_id,
        "step": step,
        "origin": origin,
        "config": dict(config or {}),
        "version": __version__,
        "started_at": now,
    }
    return relations.clean("runs", row, run_id)


def _cannot_write(file: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _no_room(file)
    return StoreError(
        f"cannot write beside {file} ({error.strerror}). The folder must be writable: journals and "
        "the new copy of the study are made there."
    )


# ---------------------------------------------------------------- folding


def fold(path: str | os.PathLike[str]) -> None:
    """Bring all complete journal lines into the file. Steps and `connect` do this by themselves.

    Raises:
        StoreError: the file cannot be rewritten; the journals keep the rows.
    """
    file = Path(path).expanduser().resolve()
    if not _has_journals(file):
        return
    with _fold_lock(file):
        _fold_journals(file)


def _fold_quietly(file: Path, patience: float = 0.0) -> None:
    """Fold when there is something to fold and nothing in the way.

    A reader must not wait for another process, nor fail for want of room or permission: it shows
    what the file holds and says once what is still missing. With `patience` (seconds) a file that
    was folded that recently is left alone.
    """
    if not _has_journals(file):
        return
    if patience and file.exists() and time.time() - file.stat().st_mtime < patience:
        return
    try:
        with _fold_lock(file, timeout=0):
            _fold_journals(file)
    except Timeout:
        return
    except (RagbenchError, OSError) as error:
        if not file.exists():
            raise
        warnings.warn(f"rows in {_journal_folder(file)} are not shown yet: {error}", stacklevel=3)


def _fold_journals(file: Path) -> None:
    """Fold all journals (the lock is held), then remove those of processes that have ended."""
    ended = [journal for journal in _journals(file) if _has_ended(journal)]
    offsets = _offsets(file)
    found = {
        journal: taken
        for journal in _journals(file)
        if (taken := _complete_lines(journal, offsets.get(journal.stem, 0)))[0]
    }
    if found:
        lines = [line for taken, _ in found.values() for line in taken]
        frames, unfit = _parse(lines)
        _set_aside(file, unfit)
        ends = {journal.stem: end for journal, (_, end) in found.items()}
        _rewrite(file, lambda con: _add_journaled(con, frames, ends))
    for journal in ended:
        journal.unlink(missing_ok=True)
        journal.with_suffix(".lock").unlink(missing_ok=True)
    if ended:
        with contextlib.suppress(OSError):  # another run has begun
            _journal_folder(file).rmdir()


def _complete_lines(journal: Path, start: int) -> tuple[list[bytes], int]:
    """The complete lines after byte `start`, and the byte after the last of them."""
    with journal.open("rb") as handle:
        handle.seek(start)
        data = handle.read()
    end = data.rfind(b"\n") + 1
    return data[:end].splitlines(), start + end


def _parse(lines: list[bytes]) -> tuple[dict[str, pl.DataFrame], list[tuple[bytes, str]]]:
    """Rows of journal lines as frames by relation, and the lines that are unfit with the reason."""
    rows: dict[str, list[dict[str, Any]]] = {}
    unfit: list[tuple[bytes, str]] = []
    for line in lines:
        try:
            entry = {
                relation: [relations.clean(relation, row, row.get("run_id", "")) for row in given]
                for relation, given in json.loads(line).items()
            }
        except (ValueError, AttributeError, TypeError, RagbenchError) as error:
            unfit.append((line, str(error)))
            continue
        for relation, given in entry.items():
            rows.setdefault(relation, []).extend(given)
    frames = {
        relation: relations.fit(
            relation,
            pl.DataFrame(rows[relation], schema=relations.journal_schema(relation)),
            "",
        )
        for relation in sorted(rows, key=_order)
    }
    return frames, unfit


def _set_aside(file: Path, unfit: list[tuple[bytes, str]]) -> None:
    """Keep lines that cannot be read, for a person; they must not stop the others."""
    if not unfit:
        return
    place = file.with_name(f"{file.name}.rejected.jsonl")
    with place.open("ab") as handle:
        handle.writelines(line + b"\n" for line, _ in unfit)
    warnings.warn(
        f"{len(unfit)} journal lines could not be read and were set aside in {place}; "
        f"the first says: {unfit[0][1]}",
        stacklevel=2,
    )


def _rewrite(
    file: Path, change: Callable[[duckdb.DuckDBPyConnection], pl.DataFrame]
) -> pl.DataFrame:
    """Apply `change` to a copy of the study and put the copy in its place (the lock is held)."""
    copy = file.with_name(f"{file.name}.fold")
    began = time.monotonic()
    try:
        _discard(copy)
        if file.exists():
            _settle_log(file)
            if _version(file) < SCHEMA_VERSION:
                _migrate(file, _version(file), is_locked=True)
            shutil.copyfile(file, copy)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            _create(copy, file.stem)
        con = _open(copy, read_only=False)
        try:
            con.execute("BEGIN")
            report = change(con)
            con.execute("COMMIT")
            con.execute("CHECKPOINT store")
            con.execute("DETACH store")
        finally:
            con.close()
        _sync(copy)
        os.replace(copy, file)
    except OSError as error:
        raise _cannot_write(file, error) from None
    except duckdb.Error as error:
        if isinstance(error, (duckdb.ConversionException, duckdb.ConstraintException)):
            raise BadRow(f"a row does not fit: {str(error).splitlines()[0]}") from None
        raise _unusable(file, error) from None
    finally:
        with contextlib.suppress(OSError):
            _discard(copy)
    _fold_seconds[file] = time.monotonic() - began
    return report


def _create(file: Path, name: str) -> None:
    """A new study file with its layout and the names of the taxonomy."""
    con = duckdb.connect(str(file))
    con.execute(relations.read_sql("schema.sql"))
    con.execute("INSERT INTO study VALUES (?, NULL, ?, NULL)", [name, SCHEMA_VERSION])
    con.executemany(
        "INSERT INTO dimensions VALUES (?, ?, ?, ?)",
        [(d.key, d.category, d.label, d.meaning) for d in taxonomy.DIMENSIONS],
    )
    con.executemany(
        "INSERT INTO criteria VALUES (?, ?, ?, ?, ?, ?)",
        [(c.key, c.target, c.lowest, c.highest, c.prompt, c.meaning) for c in taxonomy.CRITERIA],
    )
    con.execute("CHECKPOINT")
    con.close()


def _add_frames(
    con: duckdb.DuckDBPyConnection, frames: Frames, run: Mapping[str, Any]
) -> pl.DataFrame:
    """Add frames of one `append`, whose rows must point to rows that are there."""
    report = [_add(con, relation, frame) for relation, frame in frames.items()]
    if any(row["added"] + row["replaced"] for row in report):
        if any("run_id" in relations.columns(name) for name in frames):
            _add(con, "runs", relations.fit("runs", [run], ""))
        _complete(con, frames)
        _refuse_orphans(con, frames)
        _refuse_mixed_origins(con)
        _summarise(con, frames)
    names = ("relation", "given", "added", "replaced", "present")
    return pl.DataFrame([{name: row[name] for name in names} for row in report], schema=names)


def _add_journaled(
    con: duckdb.DuckDBPyConnection, frames: Frames, ends: Mapping[str, int]
) -> pl.DataFrame:
    """Add what journals brought, and how far each was read."""
    for relation, frame in frames.items():
        _add(con, relation, frame)
    _complete(con, frames)
    _summarise(con, frames)
    con.execute("DELETE FROM store.main.folded WHERE journal IN (SELECT unnest(?))", [list(ends)])
    con.executemany("INSERT INTO store.main.folded VALUES (?, ?)", list(ends.items()))
    return pl.DataFrame()


def _add(con: duckdb.DuckDBPyConnection, relation: str, frame: pl.DataFrame) -> dict[str, Any]:
    """Add the rows of `frame` that are new by key, successes in the place of errors."""
    report = {"relation": relation, "given": frame.height, "added": 0, "replaced": 0, "present": 0}
    if frame.is_empty():
        return report
    con.register("_given", frame.with_row_index("_seq").to_arrow())
    if relation == "study":
        report["replaced"] = _describe_study(con)
        return report
    keys = KEYS[relation]
    same = " AND ".join(f't."{key}" = i."{key}"' for key in keys)
    listed = ", ".join(f'i."{key}"' for key in keys)
    parent = FOLLOWS.get(relation)
    order, joined = "_seq", ""
    if relation in SUPERSEDED:
        order = "i.error IS NOT NULL, _seq"
    elif parent:
        # Of two rows with one key, the one made together with the parent that won.
        match = " AND ".join(f'p."{key}" = i."{key}"' for key in KEYS[parent])
        joined = f"LEFT JOIN store.main.{parent} AS p ON {match}"
        order = "p.run_id IS DISTINCT FROM i.run_id, _seq"
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE _incoming AS SELECT i.* FROM _given AS i {joined} "
        f"QUALIFY row_number() OVER (PARTITION BY {listed} ORDER BY {order}) = 1"
    )
    con.unregister("_given")
    if relation in SUPERSEDED:
        report["replaced"] = _give_way(con, relation, same)
    inserted = con.execute(
        f"INSERT INTO store.main.{relation} "
        f"SELECT i.* EXCLUDE (_seq) FROM _incoming AS i "
        f"ANTI JOIN store.main.{relation} AS t ON {same}"
    ).fetchall()[0][0]
    report["added"] = inserted - report["replaced"]
    report["present"] = report["given"] - inserted
    con.execute(f"CREATE OR REPLACE TEMP TABLE _new_{relation} AS SELECT {listed} FROM _incoming i")
    return report


def _give_way(con: duckdb.DuckDBPyConnection, relation: str, same: str) -> int:
    """Remove errors that `_incoming` has successes for, with the rows that follow them."""
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE _replaced AS SELECT i.* FROM _incoming AS i "
        f"SEMI JOIN (SELECT * FROM store.main.{relation} WHERE error IS NOT NULL) AS t ON {same} "
        "WHERE i.error IS NULL"
    )
    for follower in [name for name, parent in FOLLOWS.items() if parent == relation]:
        con.execute(f"DELETE FROM store.main.{follower} AS t USING _replaced AS i WHERE {same}")
    return int(
        con.execute(
            f"DELETE FROM store.main.{relation} AS t USING _replaced AS i WHERE {same}"
        ).fetchall()[0][0]
    )


def _describe_study(con: duckdb.DuckDBPyConnection) -> int:
    """Update the one row of `study` with the values given; nulls change nothing."""
    con.execute(
        "UPDATE store.main.study SET name = coalesce(g.name, study.name), "
        "primary_panel = coalesce(g.primary_panel, study.primary_panel), "
        "licence = coalesce(g.licence, study.licence) FROM _given AS g"
    )
    con.unregister("_given")
    return 1


def _complete(con: duckdb.DuckDBPyConnection, frames: Frames) -> None:
    """Add the rows that others imply: a response was wanted, a wanted model is a model."""
    if "responses" in frames:
        con.execute(
            "INSERT INTO store.main.wanted "
            "SELECT r.instance_id, r.model, r.setting, r.trial, r.run_id "
            "FROM store.main.responses AS r SEMI JOIN _new_responses USING (response_id) "
            "ANTI JOIN store.main.wanted AS w USING (instance_id, model, setting, trial)"
        )
    if "responses" in frames or "wanted" in frames:
        con.execute(
            "INSERT INTO store.main.models BY NAME SELECT DISTINCT model FROM store.main.wanted "
            "ANTI JOIN store.main.models USING (model)"
        )


def _refuse_orphans(con: duckdb.DuckDBPyConnection, frames: Frames) -> None:
    for relation, column, target, name in relations.REFERENCES:
        if relation not in frames:
            continue
        orphans = con.execute(
            f'SELECT DISTINCT t."{column}" FROM store.main.{relation} AS t '
            f"SEMI JOIN _new_{relation} AS i USING ({_listed(KEYS[relation])}) "
            f'ANTI JOIN store.main.{target} AS o ON o."{name}" = t."{column}" LIMIT 3'
        ).fetchall()
        if orphans:
            missing = ", ".join(repr(row[0]) for row in orphans)
            raise BadRow(
                f"{relation}.{column} points to {target} that are not in the study: {missing}. "
                f"Add them first, or in the same call: append(path, {{{target!r}: …, "
                f"{relation!r}: …}})."
            )


def _refuse_mixed_origins(con: duckdb.DuckDBPyConnection) -> None:
    origins = {
        row[0] for row in con.execute("SELECT DISTINCT origin FROM store.main.runs").fetchall()
    }
    if "simulated" in origins and len(origins) > 1:
        raise BadRow(
            "simulated rows share no study with measured or recorded ones; use another file."
        )


def _summarise(con: duckdb.DuckDBPyConnection, frames: Frames) -> None:
    """Bring the summaries up to date for every instance that the new rows can have changed."""
    by_instance = {
        "wanted": "SELECT instance_id FROM _new_wanted",
        "instances": "SELECT instance_id FROM _new_instances",
        "instance_constraints": "SELECT instance_id FROM _new_instance_constraints",
        "verifications": "SELECT instance_id FROM _new_verifications",
        "responses": "SELECT instance_id FROM responses SEMI JOIN _new_responses USING (response_id)",
        "judgments": "SELECT instance_id FROM responses SEMI JOIN _new_judgments USING (response_id)",
        "claims": "SELECT instance_id FROM claims SEMI JOIN _new_claims USING (claim_id)",
        "queries": "SELECT instance_id FROM instances SEMI JOIN _new_queries USING (query_id)",
        "constraints": "SELECT instance_id FROM instance_constraints "
        "SEMI JOIN _new_constraints USING (constraint_id)",
    }
    touched = [
        sql for name, sql in by_instance.items() if not frames.get(name, pl.DataFrame()).is_empty()
    ]
    # A new judge makes a new panel, and a new criterion may explain rows that are there already.
    if not frames.get("judges", pl.DataFrame()).is_empty() or "criteria" in frames:
        touched = ["SELECT instance_id FROM wanted"]
    if not touched:
        return
    con.execute(f"CREATE OR REPLACE TEMP TABLE _touched AS {' UNION '.join(touched)}")
    scope = "CREATE OR REPLACE TEMP VIEW scoped AS SELECT * FROM store.main.wanted"
    con.execute(f"{scope} SEMI JOIN _touched USING (instance_id)")
    for summary, view in (
        ("adherence_summary", "adherence"),
        ("criterion_summary", "criterion_scores"),
    ):
        con.execute(
            f"DELETE FROM store.main.{summary} WHERE instance_id IN (SELECT instance_id FROM _touched)"
        )
        con.execute(f"INSERT INTO store.main.{summary} SELECT * FROM {view}")


def _migrate(file: Path, version: int, *, is_locked: bool = False) -> None:
    """Make a new file in the present layout from an older one, which is kept beside it."""
    with contextlib.nullcontext() if is_locked else _fold_lock(file):
        if _version(file) == SCHEMA_VERSION:
            return  # another process was faster
        kept = file.with_name(f"{file.stem}.layout{version}{file.suffix}")
        new = file.with_name(f"{file.name}.migrated")
        try:
            _discard(new)
            _create(new, file.stem)
            _copy_by_name(file, new)
            if not kept.exists():
                shutil.copy2(file, kept)
            _sync(new)
            os.replace(new, file)
        except OSError as error:
            raise _cannot_write(file, error) from None
        finally:
            with contextlib.suppress(OSError):
                _discard(new)
    warnings.warn(
        f"{file} was brought from layout {version} to {SCHEMA_VERSION}; the old file is {kept}."
    )


def _copy_by_name(old: Path, new: Path) -> None:
    """Copy every relation, column by column of the same name, and make the summaries anew."""
    con = _open(new, read_only=False)
    try:
        con.execute(f"ATTACH {_quote(old)} AS old (READ_ONLY)")
        there = con.execute(
            "SELECT table_name, list(column_name) FROM duckdb_columns() "
            "WHERE database_name = 'old' GROUP BY table_name"
        ).fetchall()
        con.execute("BEGIN")
        for relation, names in there:
            shared = [name for name in names if name in relations.layout().get(relation, {})]
            if relation not in KEYS or not shared:
                continue
            con.execute(f"DELETE FROM store.main.{relation}")
            listed = _listed(shared)
            con.execute(
                f"INSERT INTO store.main.{relation} ({listed}) SELECT {listed} FROM old.main.{relation}"
            )
        con.execute("UPDATE store.main.study SET schema_version = ?", [SCHEMA_VERSION])
        for summary, view in (
            ("adherence_summary", "adherence"),
            ("criterion_summary", "criterion_scores"),
        ):
            con.execute(f"INSERT INTO store.main.{summary} SELECT * FROM {view}")
        con.execute("COMMIT")
        con.execute("CHECKPOINT store")
    except duckdb.Error as error:
        raise StoreError(
            f"{old} has an older layout and cannot be brought to the present one "
            f"({str(error).splitlines()[0]}). It was not changed."
        ) from None
    finally:
        con.close()


def _settle_log(file: Path) -> None:
    """Let DuckDB finish what another program left in a write-ahead log beside the file."""
    if file.with_name(f"{file.name}.wal").exists():
        duckdb.connect(str(file)).close()


# ---------------------------------------------------------------- files


def _journal_folder(file: Path) -> Path:
    return file.with_name(f"{file.name}.journal")


def _journals(file: Path) -> list[Path]:
    return sorted(_journal_folder(file).glob("*.jsonl"))


def _has_journals(file: Path) -> bool:
    return _journal_folder(file).is_dir() and bool(_journals(file))


def _has_ended(journal: Path) -> bool:
    """Whether the process that wrote `journal` is gone: it holds a lock as long as it lives."""
    lock = FileLock(journal.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        return False
    lock.release()
    return True


def _offsets(file: Path) -> dict[str, int]:
    if not file.exists():
        return {}
    con = duckdb.connect()
    try:
        _attach(con, file, read_only=True)
        return dict(con.execute("SELECT journal, bytes FROM store.main.folded").fetchall())
    except duckdb.CatalogException:
        return {}  # an older or foreign file: `_rewrite` says which
    finally:
        con.close()


def _fold_lock(file: Path, timeout: float = 600) -> Any:
    """The lock that keeps two folders apart; released by the system when its holder dies."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(f"{file}.lock").acquire(timeout=timeout)
    except Timeout:
        if timeout == 0:
            raise
        raise StoreError(
            f"another process has been changing {file} for {timeout:.0f} seconds; call again when "
            "it has finished."
        ) from None
    except OSError as error:
        raise _cannot_write(file, error) from None


_fold_seconds: dict[Path, float] = {}


def _pace(file: Path) -> float:
    """Seconds to leave between folds: at most a twentieth of the time goes into folding."""
    guess = file.stat().st_size / 2e8 if file.exists() else 0.0
    return max(1.0, 20 * _fold_seconds.get(file, guess))


def _stamp(file: Path) -> str:
    status = file.stat()
    return f"{status.st_ino}:{status.st_mtime_ns}:{status.st_size}"


def _sync(file: Path) -> None:
    with file.open("rb+") as handle, contextlib.suppress(OSError):
        os.fsync(handle.fileno())


def _discard(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.with_name(f"{file.name}.wal").unlink(missing_ok=True)


def _spill_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"ragbench-{os.getpid()}"


def _quote(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _order(relation: str) -> int:
    return list(KEYS).index(relation) if relation in KEYS else len(KEYS)
