"""The study file itself: where its parts are, how it is opened, locked and made."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
from filelock import FileLock, Timeout

from ragbench import relations, taxonomy
from ragbench.errors import StoreError
from ragbench.relations import SCHEMA_VERSION


def study_file(path: str | os.PathLike[str]) -> Path:
    """The absolute path of a study, which stays the same when the working folder changes.

    Raises:
        StoreError: DuckDB cannot keep a file under this path.
    """
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise StoreError(
            f"a study is named by the path of its file, such as 'study.duckdb', not by {path!r}."
        ) from None
    if "?" in text or "\0" in text:
        raise StoreError(
            f"{text!r} cannot be the path of a study: DuckDB does not manage a question mark in "
            "it. Choose another name."
        )
    return Path(text).expanduser().resolve()


def journal_folder(file: Path) -> Path:
    return file.with_name(f"{file.name}.journal")


def copy_of(file: Path) -> Path:
    """Where a changed copy of `file` is made before it takes its place."""
    return file.with_name(f"{file.name}.fold")


def log_of(file: Path) -> Path:
    """DuckDB's write-ahead log beside `file`, there when another program wrote and was stopped."""
    return file.with_name(f"{file.name}.wal")


def open_study(
    file: Path,
    *,
    read_only: bool,
    alias: str = "store",
    con: duckdb.DuckDBPyConnection | None = None,
    is_step: bool = False,
) -> duckdb.DuckDBPyConnection:
    """`con`, or a new in-memory connection, with `file` attached under `alias`.

    Read-only there is a view for each relation and those of `views.sql`, and the summaries have
    their public names; a step has only those that say what it has to do, as each takes time. A
    writer, whose file is a copy of one that was looked at, uses the file's own tables, and its fold
    computes the definitions.

    Raises:
        StoreError: as in `layout_version`, and for an older layout.
    """
    con = con or in_memory()
    try:
        attach(con, file, read_only=read_only, alias=alias)
        if read_only and _version(con, file, alias) < SCHEMA_VERSION:
            raise OldLayout(f"{file} has an older layout; open it with ragbench.connect(path).")
        if read_only:
            point_views(con, alias)
            views = {
                "scoped": "FROM wanted",
                "scoped_queries": "SELECT DISTINCT query_id FROM adherence_summary",
                **relations.definitions("views.sql"),
                "response_scores": "FROM adherence_summary",
                "criterion_scores": "FROM criterion_summary",
            }
            made = _STEP_VIEWS if is_step else views
            con.execute("".join(f"CREATE VIEW {name} AS {views[name]};" for name in made))
        else:
            con.execute(f"USE {alias}")
    except BaseException:
        con.close()
        raise
    return con


_STEP_VIEWS = ("scoped", "panels", "planned_responses")


def in_memory() -> duckdb.DuckDBPyConnection:
    """An empty connection. What does not fit into memory goes where temporary files belong.

    It is told where now, as DuckDB refuses to be told once it has put something there.
    """
    with contextlib.suppress(IndexError):
        return _spare.pop()
    folder = Path(tempfile.gettempdir()) / f"ragbench-{os.getpid()}"
    return duckdb.connect(config={"temp_directory": str(folder)})


_spare: deque[duckdb.DuckDBPyConnection] = deque(maxlen=1)
"""An empty connection, if there is one."""
if hasattr(os, "register_at_fork"):
    # A child would have it without its threads, and crash when it is closed at the end.
    os.register_at_fork(before=_spare.clear)


@contextlib.contextmanager
def private(
    con: duckdb.DuckDBPyConnection | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """`con`, or an empty connection, for a block that leaves it empty.

    It is kept for whoever needs one next: to make one takes 20 ms.
    """
    con = con or in_memory()
    try:
        yield con
        con.execute("RESET threads; RESET allocator_bulk_deallocation_flush_threshold")
    except BaseException:
        con.close()
        raise
    _spare.append(con)


def spare_memory(con: duckdb.DuckDBPyConnection, size: int) -> None:
    """Have `con`, which is to change `size` bytes, give memory back that a statement has used.

    DuckDB would keep it for the next statement. A step has few, and many calls between them.
    """
    is_small = size < _SMALL_BYTES
    # More threads would take more memory, and more time to begin than they save.
    con.execute("SET threads = 1" if is_small else "RESET threads")
    flushed = "2MB" if is_small else "256KB"  # each time it does so costs time
    con.execute(f"SET allocator_bulk_deallocation_flush_threshold = '{flushed}'")


_SMALL_BYTES = 16_000_000
"""A study of which most statements take longer to plan than to run."""


class OldLayout(StoreError):
    """A study that has to be migrated before it can be read."""


def point_views(con: duckdb.DuckDBPyConnection, alias: str) -> None:
    """Let the views of the relations read the database attached under `alias`."""
    con.execute(
        "".join(
            f"CREATE OR REPLACE VIEW memory.main.{relation} AS "
            f"SELECT * FROM {alias}.main.{relation};"
            for relation in relations.tables()
        )
    )


def attach(
    con: duckdb.DuckDBPyConnection, file: Path, *, read_only: bool, alias: str = "store"
) -> None:
    # The type is named because DuckDB would fetch an extension for a file of SQLite.
    # A writer has a copy, which counts once it is whole: a log of changes would only take time.
    options = f"TYPE duckdb, {'READ_ONLY' if read_only else 'RECOVERY_MODE no_wal_writes'}"
    try:
        try:
            con.execute(f"ATTACH {quote(file)} AS {alias} ({options})")
        except duckdb.IOException as error:
            if "WAL checkpoint iteration does not match" not in str(error):
                raise
            # A fold took the log in and was stopped before it could remove it.
            log_of(file).unlink(missing_ok=True)
            con.execute(f"ATTACH {quote(file)} AS {alias} ({options})")
    except (duckdb.Error, OSError) as error:
        raise unusable(file, error) from None


@contextlib.contextmanager
def peeking(
    file: Path, con: duckdb.DuckDBPyConnection | None = None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, int]]:
    """`con`, or a private connection, with `file` attached read-only as `store`.

    And the schema version of the file, at most this package's. There are no views.

    Raises:
        StoreError: the file is foreign, damaged, newer, or cannot be read.
    """
    with private() if con is None else contextlib.nullcontext(con) as peeker:
        attach(peeker, file, read_only=True)
        try:
            yield peeker, _version(peeker, file, "store")
        finally:
            peeker.execute("DETACH store")


def layout_version(file: Path, con: duckdb.DuckDBPyConnection | None = None) -> int:
    """The schema version of `file`, at most this package's. The file is whole, as far as it says.

    Raises:
        StoreError: the file is foreign, damaged, newer, or cannot be read.
    """
    with peeking(file, con) as (_, version):
        return version


def _version(con: duckdb.DuckDBPyConnection, file: Path, alias: str) -> int:
    try:
        found = con.execute(f"SELECT schema_version FROM {alias}.main.study").fetchall()
        version = found[0][0] if len(found) == 1 else None
        size, count = con.execute(
            "SELECT block_size, used_blocks FROM pragma_database_size() WHERE database_name = ?",
            [alias],
        ).fetchall()[0]
    except (duckdb.CatalogException, duckdb.BinderException):
        version = None
    except duckdb.Error as error:
        raise unusable(file, error) from None
    if not isinstance(version, int):
        raise StoreError(
            f"{file} is a DuckDB file but not a ragbench study (it has no relation `study`). "
            "Name another path; to bring its tables in, export them to Parquet and use "
            "`ragbench import`. The file was not touched."
        )
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{file} was written by a newer ragbench (layout {version}; this one knows "
            f"{SCHEMA_VERSION}). Install a newer ragbench; the file was not touched."
        )
    if file.stat().st_size < _HEADER_BYTES + size * count:
        raise unusable(file, OSError("it is shorter than the blocks it uses"))
    return version


_HEADER_BYTES = 3 * 4096  # before the first block of a DuckDB file


def create(file: Path, name: str = "study") -> None:
    """A new study file with its layout and the names of the taxonomy."""
    with duckdb.connect(str(file)) as con:
        con.execute(relations.read_sql("schema.sql"))
        con.execute("INSERT INTO study VALUES (?, NULL, ?, NULL)", [name, SCHEMA_VERSION])
        con.executemany(
            "INSERT INTO dimensions VALUES (?, ?, ?, ?)",
            [(d.key, d.category, d.label, d.meaning) for d in taxonomy.DIMENSIONS],
        )
        con.executemany(
            "INSERT INTO criteria VALUES (?, ?, ?, ?, ?, ?)",
            [
                (c.key, c.target, c.lowest, c.highest, c.prompt, c.meaning)
                for c in taxonomy.CRITERIA
            ],
        )
        con.execute("CHECKPOINT")


def make_copy(file: Path, copy: Path) -> None:
    """A private copy of `file`, with what another program left in a write-ahead log beside it."""
    if not os.access(file, os.W_OK):
        raise StoreError(
            f"{file} is write-protected, so nothing was added to it. Make it writable "
            f"(chmod u+w) and call again; rows of running steps are safe in {journal_folder(file)}."
        )
    shutil.copy(file, copy)  # with its permissions
    if log_of(file).exists():
        shutil.copyfile(log_of(file), log_of(copy))


def put_in_place(copy: Path, file: Path) -> None:
    """Let `copy` be `file` from now on, also after a power cut."""
    sync(copy)
    os.replace(copy, file)
    log_of(file).unlink(missing_ok=True)  # its rows came along with the copy
    sync(file.parent)


def fold_lock(file: Path, timeout: float = 600) -> Any:
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
        raise cannot_write(file, error) from None


def stamp(file: Path) -> str:
    """What changes whenever another file takes the place of `file`."""
    try:
        status = file.stat()
    except OSError:
        raise StoreError(
            f"no study at {file} any more: it was moved or deleted while it was being read. Put "
            "it back, or connect to its new place."
        ) from None
    return f"{status.st_ino}:{status.st_mtime_ns}:{status.st_size}"


@contextlib.contextmanager
def in_one_piece(file: Path) -> Iterator[Path]:
    """A path beside `file` that becomes it at the end, and is gone when anything fails.

    Raises:
        StoreError: nothing can be written there.
    """
    part = file.with_name(f"{file.name}.part")
    try:
        if not os.access(file.parent, os.W_OK):  # said before the work, not after it
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        part.unlink(missing_ok=True)
        yield part
        os.replace(part, file)
    except OSError as error:
        raise cannot_write(file, error) from None
    finally:
        for name in (part.name, f"{part.name}.lock"):
            with contextlib.suppress(OSError):  # which a read-only disk raises for no file, too
                part.with_name(name).unlink(missing_ok=True)


def sync(place: Path) -> None:
    """Bring a file or a folder's entries to the disk; some file systems cannot, which is fine."""
    handle = os.open(place, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EROFS, errno.EBADF):
            raise
    finally:
        os.close(handle)


def discard(file: Path) -> None:
    file.unlink(missing_ok=True)
    log_of(file).unlink(missing_ok=True)


@contextlib.contextmanager
def ctrl_c() -> Iterator[None]:
    """Let Ctrl-C be what it always is, of which DuckDB makes errors of its own in a statement."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from None
        raise
    except duckdb.InvalidInputException as error:  # while rows were handed over
        if "failed: KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from None
        raise


def unusable(file: Path, error: Exception) -> StoreError:
    """One clear message for what DuckDB says about a file that it cannot open or read."""
    text = str(error).splitlines()[0].removeprefix("IO Error: ").split(". See also")[0]
    said = str(error).replace(str(file), "").lower()  # a path may hold any of these words
    if "could not set lock" in said or "conflicting lock" in said:
        holder = re.search(r"held in .*", text)
        who = f" ({holder[0]})" if holder else ""
        return StoreError(
            f"{file} is open for writing in another program{who}. Close it there and call again: "
            "ragbench itself never holds that lock, and rows of running steps are safe in "
            f"{journal_folder(file)}."
        )
    if "no space" in said or "quota" in said or getattr(error, "errno", 0) in _FULL:
        return no_room(file)
    if isinstance(error, duckdb.OutOfMemoryException):
        return StoreError(
            f"there is not enough memory for {file} ({text}). Close what needs much of it and call "
            "again: what was stored before is safe, and rows of running steps are in "
            f"{journal_folder(file)}."
        )
    if "permission denied" in said:
        return StoreError(
            f"{file} may not be read by this user (permission denied). Ask its owner, or "
            "copy it to a place of your own."
        )
    if "is a directory" in said:
        return StoreError(f"{file} is a folder, not a study; name the file in it.")
    waiting = ""
    if journal_folder(file).is_dir():
        waiting = f" Rows not yet folded in are still in {journal_folder(file)}."
    return StoreError(
        f"{file} is not a usable study: it is damaged, cut short, or no DuckDB file ({text}). It "
        "was not changed. Restore it from a copy; results in another format come in with "
        f"`ragbench import`.{waiting}"
    )


def no_room(place: Path) -> StoreError:
    return StoreError(
        f"no room left on the disk of {place.parent}. Free some space (a fold needs about the "
        "size of the study) and call again: what was stored before is safe, what did not fit "
        "does not count."
    )


def cannot_write(file: Path, error: OSError) -> StoreError:
    if error.errno in _FULL:
        return no_room(file)
    return StoreError(
        f"cannot write beside {file} ({error.strerror or error}). Its folder must be there and "
        "writable: journals and the new copy of the study are made in it. Nothing stored was "
        "changed."
    )


def no_folder(file: Path) -> str:
    """What a command says where the folder of a file to be made is missing: a typo makes none."""
    return (
        f"{file.name} was not made: there is no folder {file.parent}. Make it, or check the path."
    )


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def say(message: str) -> None:
    """Warn, at the line of the caller's own code."""
    level, frame = 1, sys._getframe()
    own = ("ragbench", "contextlib")
    while frame.f_back and str(frame.f_globals.get("__name__")).split(".")[0] in own:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def quote(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
