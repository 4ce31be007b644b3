"""From an older layout to the present one: a new file is made, the old one is kept."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import duckdb

from ragbench import relations
from ragbench.errors import StoreError
from ragbench.files import (
    attach,
    cannot_write,
    copy_of,
    create,
    discard,
    fold_lock,
    layout_version,
    open_study,
    put_in_place,
    say,
    unusable,
)
from ragbench.relations import KEYS, SCHEMA_VERSION, listed
from ragbench.summaries import rewrite_summaries


def migrate(file: Path, *, is_locked: bool = False) -> None:
    """Make a new file in the present layout from an older one, which is kept beside it.

    Raises:
        StoreError: there is no room or permission, or the rows do not fit; nothing was changed.
    """
    with contextlib.nullcontext() if is_locked else fold_lock(file):
        version = layout_version(file)
        if version == SCHEMA_VERSION:
            return  # another process was faster
        new = copy_of(file)
        try:
            discard(new)
            create(new)
            _copy_by_name(file, new)
            kept = _keep(file, version)
            put_in_place(new, file)
        except OSError as error:
            raise cannot_write(file, error) from None
        except duckdb.Error as error:
            raise unusable(file, error) from None
        finally:
            with contextlib.suppress(OSError):
                discard(new)
    say(f"{file} was brought from layout {version} to {SCHEMA_VERSION}; the old file is {kept}.")


def _keep(file: Path, version: int) -> Path:
    """Another name for the old file, one that no earlier file has."""
    number = 1
    while True:
        suffix = f".{number}" if number > 1 else ""
        kept = file.with_name(f"{file.stem}.layout{version}{suffix}{file.suffix}")
        try:
            os.link(file, kept)
        except FileExistsError:
            number += 1
        except OSError:  # a file system without hard links
            if kept.exists():
                number += 1
                continue
            half = kept.with_name(f"{kept.name}.half")
            shutil.copy2(file, half)
            os.replace(half, kept)
            return kept
        else:
            return kept


def _copy_by_name(old: Path, new: Path) -> None:
    """Copy every relation, column by column of the same name, and make the summaries anew."""
    con = open_study(new, read_only=False)
    try:
        attach(con, old, read_only=True, alias="old")
        there = con.execute(
            "SELECT table_name, list(column_name) FROM duckdb_columns() "
            "WHERE database_name = 'old' GROUP BY table_name"
        ).fetchall()
        con.execute("BEGIN")
        for relation, names in there:
            shared = [name for name in names if name in relations.layout().get(relation, {})]
            if relation not in (*KEYS, "folded") or not shared:
                continue
            con.execute(f"DELETE FROM store.main.{relation}")
            con.execute(
                f"INSERT INTO store.main.{relation} ({listed(shared)}) "
                f"SELECT {listed(shared)} FROM old.main.{relation}"
            )
        con.execute("UPDATE store.main.study SET schema_version = ?", [SCHEMA_VERSION])
        rewrite_summaries(con)
        con.execute("COMMIT")
        con.execute("CHECKPOINT store")
    except (duckdb.ConstraintException, duckdb.ConversionException) as error:
        raise StoreError(
            f"{old} has an older layout and cannot be brought to the present one "
            f"({str(error).splitlines()[0]}). It was not changed; read it with the ragbench that "
            "wrote it, `ragbench export` it to Parquet and import that here."
        ) from None
    finally:
        con.close()
