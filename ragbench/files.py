"""The study file itself: where its parts are, how it is opened, locked and made."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import duckdb
from filelock import FileLock, Timeout

from ragbench import relations, taxonomy
from ragbench.errors import StoreError
from ragbench.relations import SCHEMA_VERSION


def journal_folder(file: Path) -> Path:
    return file.with_name(f"{file.name}.journal")


def open_study(file: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """An in-memory connection with `file` as `store` and the views over it."""
    con = duckdb.connect()
    con.execute(f"SET temp_directory = {quote(_spill_folder())}")
    attach(con, file, read_only=read_only)
    for relation in relations.layout():
        con.execute(f"CREATE VIEW {relation} AS SELECT * FROM store.main.{relation}")
    con.execute("CREATE VIEW scoped AS SELECT * FROM wanted")
    con.execute(relations.read_sql("views.sql"))
    return con


def attach(con: duckdb.DuckDBPyConnection, file: Path, *, read_only: bool) -> None:
    mode = " (READ_ONLY)" if read_only else ""
    try:
        con.execute(f"ATTACH {quote(file)} AS store{mode}")
    except duckdb.Error as error:
        raise unusable(file, error) from None


def layout_version(file: Path) -> int:
    """The schema version of `file`, at most this package's."""
    con = duckdb.connect()
    try:
        attach(con, file, read_only=True)
        version = con.execute("SELECT schema_version FROM store.main.study").fetchall()[0][0]
    except (duckdb.CatalogException, duckdb.BinderException, IndexError):
        raise StoreError(
            f"{file} is a DuckDB file but not a ragbench study (it has no relation `study`). "
            "Name another path; to bring its tables in, export them to Parquet and use "
            "`ragbench import`."
        ) from None
    except duckdb.Error as error:
        raise unusable(file, error) from None
    finally:
        con.close()
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{file} was written by a newer ragbench (layout {version}; this one knows "
            f"{SCHEMA_VERSION}). Install a newer ragbench; the file was not touched."
        )
    return int(version)


def create(file: Path, name: str) -> None:
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


def settle_log(file: Path) -> None:
    """Let DuckDB finish what another program left in a write-ahead log beside the file."""
    if file.with_name(f"{file.name}.wal").exists():
        duckdb.connect(str(file)).close()


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
    status = file.stat()
    return f"{status.st_ino}:{status.st_mtime_ns}:{status.st_size}"


def sync(file: Path) -> None:
    with file.open("rb+") as handle, contextlib.suppress(OSError):
        os.fsync(handle.fileno())


def discard(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.with_name(f"{file.name}.wal").unlink(missing_ok=True)


def unusable(file: Path, error: Exception) -> StoreError:
    """One clear message for what DuckDB says about a file that it cannot open."""
    text = str(error).splitlines()[0]
    lowered = str(error).lower()
    if "lock" in lowered:
        return StoreError(
            f"{file} is open for writing in another program ({text}). Close it there: ragbench "
            "itself never holds that lock."
        )
    if "no space" in lowered or getattr(error, "errno", None) == errno.ENOSPC:
        return no_room(file)
    if "permission" in lowered or "cannot open file" in lowered:
        return StoreError(f"{file} cannot be opened ({text}). Check the path and its permissions.")
    return StoreError(
        f"{file} is not a usable study: it is damaged, cut short, or no DuckDB file ({text}). "
        "Restore it from a copy or import the sources again; it was not changed, and rows not "
        f"yet folded in are still in {journal_folder(file)}."
    )


def no_room(place: Path) -> StoreError:
    return StoreError(
        f"no room left on the disk of {place.parent}. Free some space (a fold needs about the "
        "size of the study) and call again: what was stored before is safe, what did not fit "
        "does not count."
    )


def cannot_write(file: Path, error: OSError) -> StoreError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_room(file)
    return StoreError(
        f"cannot write beside {file} ({error.strerror}). The folder must be writable: journals and "
        "the new copy of the study are made there."
    )


def _spill_folder() -> Path:
    return Path(tempfile.gettempdir()) / f"ragbench-{os.getpid()}"


def quote(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
