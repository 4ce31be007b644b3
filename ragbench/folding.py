"""Folding: rows from journals and appends go into a copy of the file, which takes its place."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from filelock import Timeout

from ragbench import relations
from ragbench.errors import BadRow, RagbenchError, StoreError
from ragbench.files import (
    attach,
    cannot_write,
    create,
    discard,
    fold_lock,
    journal_folder,
    layout_version,
    open_study,
    quote,
    settle_log,
    sync,
    unusable,
)
from ragbench.journal import (
    complete_lines,
    has_ended,
    has_journals,
    journals,
    parse,
    set_aside,
)
from ragbench.relations import FOLLOWS, KEYS, SCHEMA_VERSION, SUPERSEDED, listed

Frames = Mapping[str, pl.DataFrame]
_fold_seconds: dict[Path, float] = {}
SUMMARIES = {"adherence_summary": "adherence", "criterion_summary": "criterion_scores"}
"""Tables kept by every fold, and the views that define them."""


def fold(path: str | os.PathLike[str]) -> None:
    """Bring all complete journal lines into the file. Steps and `connect` do this by themselves.

    Raises:
        StoreError: the file cannot be rewritten; the journals keep the rows.
    """
    file = Path(path).expanduser().resolve()
    if not has_journals(file):
        return
    with fold_lock(file):
        _fold_journals(file)


def fold_quietly(file: Path, patience: float = 0.0) -> None:
    """Fold when there is something to fold and nothing in the way.

    A reader must not wait for another process, nor fail for want of room or permission: it shows
    what the file holds and says once what is still missing. With `patience` (seconds) a file that
    was folded that recently is left alone.
    """
    if not has_journals(file):
        return
    if patience and file.exists() and time.time() - file.stat().st_mtime < patience:
        return
    try:
        with fold_lock(file, timeout=0):
            _fold_journals(file)
    except Timeout:
        return
    except (RagbenchError, OSError) as error:
        if not file.exists():
            raise
        warnings.warn(f"rows in {journal_folder(file)} are not shown yet: {error}", stacklevel=3)


def _fold_journals(file: Path) -> None:
    """Fold all journals (the lock is held), then remove those of processes that have ended."""
    ended = [journal for journal in journals(file) if has_ended(journal)]
    offsets = _offsets(file)
    found = {
        journal: taken
        for journal in journals(file)
        if (taken := complete_lines(journal, offsets.get(journal.stem, 0)))[0]
    }
    if found:
        lines = [line for taken, _ in found.values() for line in taken]
        frames, unfit = parse(lines)
        set_aside(file, unfit)
        ends = {journal.stem: end for journal, (_, end) in found.items()}
        rewrite(file, lambda con: _add_journaled(con, frames, ends))
    for journal in ended:
        journal.unlink(missing_ok=True)
        journal.with_suffix(".lock").unlink(missing_ok=True)
    if ended:
        with contextlib.suppress(OSError):  # another run has begun
            journal_folder(file).rmdir()


def rewrite(
    file: Path, change: Callable[[duckdb.DuckDBPyConnection], pl.DataFrame]
) -> pl.DataFrame:
    """Apply `change` to a copy of the study and put the copy in its place (the lock is held)."""
    copy = file.with_name(f"{file.name}.fold")
    began = time.monotonic()
    try:
        discard(copy)
        if file.exists():
            settle_log(file)
            if layout_version(file) < SCHEMA_VERSION:
                migrate(file, layout_version(file), is_locked=True)
            shutil.copyfile(file, copy)
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            create(copy, file.stem)
        con = open_study(copy, read_only=False)
        try:
            con.execute("BEGIN")
            report = change(con)
            con.execute("COMMIT")
            con.execute("CHECKPOINT store")
            con.execute("DETACH store")
        finally:
            con.close()
        sync(copy)
        os.replace(copy, file)
    except OSError as error:
        raise cannot_write(file, error) from None
    except duckdb.Error as error:
        if isinstance(error, (duckdb.ConversionException, duckdb.ConstraintException)):
            raise BadRow(f"a row does not fit: {str(error).splitlines()[0]}") from None
        raise unusable(file, error) from None
    finally:
        with contextlib.suppress(OSError):
            discard(copy)
    _fold_seconds[file] = time.monotonic() - began
    return report


def pace(file: Path) -> float:
    """Seconds to leave between folds: at most a twentieth of the time goes into folding."""
    guess = file.stat().st_size / 2e8 if file.exists() else 0.0
    return max(1.0, 20 * _fold_seconds.get(file, guess))


def add_frames(
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
    same = " AND ".join(f't."{name}" = i."{name}"' for name in keys)
    key = ", ".join(f'i."{name}"' for name in keys)
    parent = FOLLOWS.get(relation)
    order, joined = "_seq", ""
    if relation in SUPERSEDED:
        order = "i.error IS NOT NULL, _seq"
    elif parent:
        # Of two rows with one key, the one made together with the parent that won.
        match = " AND ".join(f'p."{name}" = i."{name}"' for name in KEYS[parent])
        joined = f"LEFT JOIN store.main.{parent} AS p ON {match}"
        order = "p.run_id IS DISTINCT FROM i.run_id, _seq"
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE _incoming AS SELECT i.* FROM _given AS i {joined} "
        f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {order}) = 1"
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
    con.execute(f"CREATE OR REPLACE TEMP TABLE _new_{relation} AS SELECT {key} FROM _incoming i")
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
            f"SEMI JOIN _new_{relation} AS i USING ({listed(KEYS[relation])}) "
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


def rewrite_summaries(con: duckdb.DuckDBPyConnection) -> None:
    """Make the summaries anew from the views, for the whole study."""
    for summary, view in SUMMARIES.items():
        con.execute(f"DELETE FROM store.main.{summary}")
        con.execute(f"INSERT INTO store.main.{summary} SELECT * FROM {view}")


def _summarise(con: duckdb.DuckDBPyConnection, frames: Frames) -> None:
    """Bring the summaries up to date for every instance that the new rows can have changed."""
    by_instance = {
        "wanted": "SELECT instance_id FROM _new_wanted",
        "instances": "SELECT instance_id FROM _new_instances",
        "instance_constraints": "SELECT instance_id FROM _new_instance_constraints",
        "verifications": "SELECT instance_id FROM _new_verifications",
        "responses": "SELECT instance_id FROM responses "
        "SEMI JOIN _new_responses USING (response_id)",
        "judgments": "SELECT instance_id FROM responses "
        "SEMI JOIN _new_judgments USING (response_id)",
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
    for summary, view in SUMMARIES.items():
        con.execute(
            f"DELETE FROM store.main.{summary} "
            "WHERE instance_id IN (SELECT instance_id FROM _touched)"
        )
        con.execute(f"INSERT INTO store.main.{summary} SELECT * FROM {view}")


def migrate(file: Path, version: int, *, is_locked: bool = False) -> None:
    """Make a new file in the present layout from an older one, which is kept beside it."""
    with contextlib.nullcontext() if is_locked else fold_lock(file):
        if layout_version(file) == SCHEMA_VERSION:
            return  # another process was faster
        kept = file.with_name(f"{file.stem}.layout{version}{file.suffix}")
        new = file.with_name(f"{file.name}.migrated")
        try:
            discard(new)
            create(new, file.stem)
            _copy_by_name(file, new)
            if not kept.exists():
                shutil.copy2(file, kept)
            sync(new)
            os.replace(new, file)
        except OSError as error:
            raise cannot_write(file, error) from None
        finally:
            with contextlib.suppress(OSError):
                discard(new)
    warnings.warn(
        f"{file} was brought from layout {version} to {SCHEMA_VERSION}; the old file is {kept}.",
        stacklevel=3,
    )


def _copy_by_name(old: Path, new: Path) -> None:
    """Copy every relation, column by column of the same name, and make the summaries anew."""
    con = open_study(new, read_only=False)
    try:
        con.execute(f"ATTACH {quote(old)} AS old (READ_ONLY)")
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
            con.execute(
                f"INSERT INTO store.main.{relation} ({listed(shared)}) "
                f"SELECT {listed(shared)} FROM old.main.{relation}"
            )
        con.execute("UPDATE store.main.study SET schema_version = ?", [SCHEMA_VERSION])
        rewrite_summaries(con)
        con.execute("COMMIT")
        con.execute("CHECKPOINT store")
    except duckdb.Error as error:
        raise StoreError(
            f"{old} has an older layout and cannot be brought to the present one "
            f"({str(error).splitlines()[0]}). It was not changed."
        ) from None
    finally:
        con.close()


def _offsets(file: Path) -> dict[str, int]:
    if not file.exists():
        return {}
    con = duckdb.connect()
    try:
        attach(con, file, read_only=True)
        return dict(con.execute("SELECT journal, bytes FROM store.main.folded").fetchall())
    except duckdb.CatalogException:
        return {}  # an older or foreign file: `rewrite` says which
    finally:
        con.close()
