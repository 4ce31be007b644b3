"""Folding: rows from journals and appends go into a copy of the file, which takes its place."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
from filelock import Timeout

from ragbench import relations, rows
from ragbench.errors import BadRow, RagbenchError
from ragbench.files import (
    cannot_write,
    copy_of,
    create,
    ctrl_c,
    discard,
    fold_lock,
    in_memory,
    journal_folder,
    layout_version,
    make_copy,
    open_study,
    peeking,
    private,
    put_in_place,
    say,
    spare_memory,
    stamp,
    study_file,
    unusable,
)
from ragbench.journal import (
    Entry,
    complete_lines,
    has_ended,
    has_journals,
    journals,
    parse,
    set_aside,
)
from ragbench.migration import migrate
from ragbench.relations import (
    DESCRIBED,
    FOLLOWS,
    KEYS,
    NEVER_FILLED,
    SCHEMA_VERSION,
    SUPERSEDED,
)
from ragbench.summaries import rewrite_summaries, summarise

__all__ = ["add_frames", "fold", "fold_quietly", "pace", "rewrite", "rewrite_summaries"]

Frames = Mapping[str, pl.DataFrame]
Report = dict[str, Any]
"""What became of the rows of one relation: relation, given, added, replaced, present."""
Change = Callable[[duckdb.DuckDBPyConnection], tuple[pl.DataFrame, bool]]
_BATCH_BYTES = 16_000_000
"""How much of the journals is held in memory at once."""
_FEW = 10_000
"""Rows that are looked through sooner than a statement about them is planned."""
_overhead: dict[Path, float] = {}
"""Seconds that the last fold spent on copying, opening and writing rather than on its rows."""


@ctrl_c()
def fold(
    path: str | os.PathLike[str],
    con: duckdb.DuckDBPyConnection | None = None,
    known: dict[bytes, Entry] | None = None,
) -> None:
    """Bring all complete journal lines into the file. Steps and `connect` do this by themselves.

    `con` is an in-memory connection with nothing on it, made ahead; it stays so. `known` holds what
    some of the lines say.

    Raises:
        StoreError: the file cannot be rewritten; the journals keep the rows.
    """
    file = study_file(path)
    if not has_journals(file):
        return
    with fold_lock(file):
        fold_journals(file, con, known)


def fold_quietly(file: Path, patience: float = 0.0) -> None:
    """Fold when there is something to fold and nothing in the way.

    A reader must not wait for another process, nor fail for want of room or permission: it shows
    what the file holds and says once what is still missing. With `patience` (seconds) a file that
    was folded that recently is left alone.
    """
    if not has_journals(file):
        return
    if file.exists() and 0 <= time.time() - file.stat().st_mtime < patience:
        return
    try:
        with fold_lock(file, timeout=0):
            fold_journals(file)
    except Timeout:
        return
    except (RagbenchError, OSError) as error:
        if not file.exists():
            raise
        say(f"rows in {journal_folder(file)} are not shown yet: {error}")


def fold_journals(
    file: Path,
    con: duckdb.DuckDBPyConnection | None = None,
    known: dict[bytes, Entry] | None = None,
) -> None:
    """Fold all journals (the lock is held), then remove those of processes that have ended."""
    ended = [journal for journal in journals(file) if has_ended(journal)]
    with private() if con is None else contextlib.nullcontext(con) as con:
        offsets = _offsets(file, con)
        while found := _take(file, offsets):
            offsets.update({journal: end for journal, (_, end) in found.items()})
            there = {journal.stem for journal in journals(file)}
            offsets = {journal: end for journal, end in offsets.items() if journal in there}
            lines = [line for lines, _ in found.values() for line in lines]
            _fold_lines(file, lines, known, offsets, con)
    for journal in ended:
        journal.unlink(missing_ok=True)
        journal.with_suffix(".lock").unlink(missing_ok=True)
    if ended:
        with contextlib.suppress(OSError):  # another run has begun
            journal_folder(file).rmdir()


def _fold_lines(
    file: Path,
    lines: list[bytes],
    known: dict[bytes, Entry] | None,
    ends: Mapping[str, int],
    con: duckdb.DuckDBPyConnection,
) -> None:
    frames, unfit = parse(lines, known)
    set_aside(file, unfit)
    size = sum(map(len, lines))
    _replace(file, lambda cursor: _add_journaled(cursor, frames, ends), con, size)


def _take(file: Path, offsets: Mapping[str, int]) -> dict[str, tuple[list[bytes], int]]:
    """Complete lines not folded yet and where they end, by journal, up to `_BATCH_BYTES`."""
    found = {}
    room = _BATCH_BYTES
    for journal in journals(file):
        start = offsets.get(journal.stem, 0)
        if start > journal.stat().st_size:  # another journal under the name of an old one
            start = 0
        lines, end = complete_lines(journal, start, room)
        if lines:
            found[journal.stem] = (lines, end)
            room -= end - start
        if room <= 0:
            break
    return found


def rewrite(file: Path, change: Change, size: int) -> pl.DataFrame:
    """Apply `change`, which brings about `size` bytes, to the study (the lock is held).

    `change` gives a report, and whether it changed anything: if not, the file stays as it is.
    """
    with private() as con:
        if file.exists() and layout_version(file, con) < SCHEMA_VERSION:
            migrate(file, is_locked=True)
        return _replace(file, change, con, size)


def _replace(file: Path, change: Change, con: duckdb.DuckDBPyConnection, size: int) -> pl.DataFrame:
    """Let a copy to which `change` was applied take the place of a study of this layout."""
    copy = copy_of(file)
    began = time.monotonic()
    try:
        discard(copy)
        is_new = not file.exists()
        if is_new:
            file.parent.mkdir(parents=True, exist_ok=True)
            create(copy)
        else:
            make_copy(file, copy)
        try:
            # On a cursor: what it leaves behind is gone with it.
            with ctrl_c(), open_study(copy, read_only=False, con=con.cursor()) as cursor:
                spare_memory(cursor, copy.stat().st_size + size)
                cursor.execute("BEGIN")
                changing = time.monotonic()
                report, is_changed = change(cursor)
                began += time.monotonic() - changing
                cursor.execute("COMMIT")
                cursor.execute("CHECKPOINT store")
        finally:
            con.execute("DETACH DATABASE IF EXISTS store")
        if is_new or is_changed:
            put_in_place(copy, file)
    except OSError as error:
        raise cannot_write(file, error) from None
    except (duckdb.ConversionException, duckdb.ConstraintException) as error:
        raise BadRow(f"a row does not fit: {str(error).splitlines()[0]}") from None
    except duckdb.Error as error:
        raise unusable(file, error) from None
    finally:
        with contextlib.suppress(OSError):
            discard(copy)
    _overhead[file] = time.monotonic() - began
    return report


def pace(file: Path) -> float:
    """Seconds to leave between folds: copying takes at most a twentieth of the time."""
    guess = file.stat().st_size / 2e8 if file.exists() else 0.0
    return max(1.0, 20 * _overhead.get(file, guess))


def add_frames(
    con: duckdb.DuckDBPyConnection, frames: Frames, run: Mapping[str, Any]
) -> tuple[pl.DataFrame, bool]:
    """Add frames of one `append`, whose rows must point to rows that are there."""
    report = _add_all(con, frames)
    changed = _changed(report)
    owned = [frames[name]["run_id"] for name in changed if "run_id" in frames[name].columns]
    if any(run["run_id"] in ids for ids in owned):  # rows may bring runs of their own instead
        con.register("_run", _Stream(rows.fit("runs", [run], "")))
        con.execute("INSERT INTO store.main.runs SELECT * FROM _run")
        con.unregister("_run")
    _complete(con, changed)
    _refuse_orphans(con, changed)
    _refuse_mixed_origins(con)
    summarise(con, changed)
    names = ("relation", "given", "added", "replaced", "present")
    table = pl.DataFrame([{name: row[name] for name in names} for row in report], schema=names)
    return table, bool(changed)


def _add_journaled(
    con: duckdb.DuckDBPyConnection, frames: Frames, ends: Mapping[str, int]
) -> tuple[pl.DataFrame, bool]:
    """Add what journals brought, and how far each was read."""
    changed = _changed(_add_all(con, frames))
    _complete(con, changed)
    summarise(con, changed)
    con.execute("DELETE FROM store.main.folded")
    con.executemany("INSERT INTO store.main.folded VALUES (?, ?)", list(ends.items()))
    return pl.DataFrame(), True


def _add_all(con: duckdb.DuckDBPyConnection, frames: Frames) -> list[Report]:
    reports: dict[str, Report] = {}
    for relation, frame in frames.items():
        reports[relation] = _add(con, relation, frame, frames, reports)
    return list(reports.values())


def _changed(reports: Iterable[Report]) -> set[str]:
    return {row["relation"] for row in reports if row["added"] + row["replaced"]}


def _add(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    frame: pl.DataFrame,
    beside: Frames,
    done: Mapping[str, Report],
) -> Report:
    """Add the rows of `frame` that are new by key, successes in the place of errors.

    `_new_<relation>` then holds the rows that were added. `beside` are the frames of this batch,
    and `done` says what became of those before this one.
    """
    report: Report = {"relation": relation, "given": frame.height}
    report |= {"added": 0, "replaced": 0, "present": 0}
    if frame.is_empty():
        return report
    con.register("_given", _Stream(frame.with_row_index("_seq")))
    if relation == "study":
        replaced = _describe_study(con)
        return {**report, "replaced": replaced, "present": frame.height - replaced}
    _sort_out(con, relation, frame, beside, done)
    replaced = 0
    if relation in SUPERSEDED:
        replaced = _give_way(con, relation)
    elif relation in DESCRIBED:
        replaced = _say_more(con, relation)
    same = _same(KEYS[relation], "t", "i")
    con.execute(f"DELETE FROM _incoming AS i USING store.main.{relation} AS t WHERE {same}")
    inserted = con.execute(
        f"INSERT INTO store.main.{relation} "
        f"SELECT {relations.listed(relations.columns(relation))} FROM _incoming"
    ).fetchall()[0][0]
    con.execute(f"DROP TABLE IF EXISTS _new_{relation}")
    con.execute(f"ALTER TABLE _incoming RENAME TO _new_{relation}")
    present = frame.height - inserted
    return {**report, "added": inserted - replaced, "replaced": replaced, "present": present}


class _Stream:
    """A frame as what DuckDB reads without pyarrow, whose code would take 6 MB of memory."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._frame.__arrow_c_stream__(requested_schema)


def _sort_out(
    con: duckdb.DuckDBPyConnection,
    relation: str,
    frame: pl.DataFrame,
    beside: Frames,
    done: Mapping[str, Report],
) -> None:
    """Make `_incoming` of `_given`: one row a key, a success before an error, the first of equals.

    `_line` says what goes together: in an append the n-th row of a key goes with the n-th.
    """
    key = ", ".join(f'i."{name}"' for name in KEYS[relation])
    parent = FOLLOWS.get(relation)
    # Where all rows of the parent were taken, none of this relation is without its own.
    is_divided = parent is not None and parent in done and done[parent]["present"] > 0
    is_parent = any(name in beside and to == relation for name, to in FOLLOWS.items())
    is_numbered = "_line" in frame.columns
    source = "_given"
    if is_parent or (is_divided and not is_numbered):
        number = f"row_number() OVER (PARTITION BY {key} ORDER BY i._seq) AS _line"
        source = f"_given_{relation}"
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE {source} AS "
            f"SELECT i.*{'' if is_numbered else f', {number}'} FROM _given AS i"
        )
    first = "min(i._seq)"
    if relation in SUPERSEDED:
        first = "arg_min(i._seq, (i.error IS NOT NULL, i._seq))"
    chosen = ""
    if is_divided or _may_repeat(frame, KEYS[relation]):
        dropped = _of_another(parent) if is_divided and parent else ""
        # The whole rows take no part in the grouping, which would hold them all.
        chosen = f"WHERE _seq IN (SELECT {first} FROM {source} AS i {dropped} GROUP BY {key})"
    con.execute(f"CREATE OR REPLACE TEMP TABLE _incoming AS SELECT * FROM {source} {chosen}")
    con.unregister("_given")


def _may_repeat(frame: pl.DataFrame, keys: Sequence[str]) -> bool:
    """Whether rows share a key; of many rows it is not known.

    Not by polars, whose engine would take 20 MB, nor by a statement: to plan it takes longer.
    """
    if frame.height > _FEW:
        return True
    rows = zip(*(frame.get_column(name).to_list() for name in keys), strict=True)
    return len(set(rows)) < frame.height


def _same(keys: Collection[str], left: str, right: str) -> str:
    return " AND ".join(f'{left}."{name}" = {right}."{name}"' for name in keys)


def _of_another(parent: str) -> str:
    """SQL that drops rows whose own parent row, added together with them, is not what is stored.

    The reason for an error must not stand beside the success that took its place, nor beside the
    success that was there before.
    """
    said = "text" if parent == "responses" else "score"
    return (
        f"ANTI JOIN (SELECT g.* FROM _given_{parent} AS g JOIN store.main.{parent} AS p "
        f"ON {_same(KEYS[parent], 'p', 'g')} "
        f"WHERE g.error IS DISTINCT FROM p.error OR g.{said} IS DISTINCT FROM p.{said}) AS lost "
        f"ON {_same(KEYS[parent], 'lost', 'i')} AND lost._line = i._line"
    )


def _give_way(con: duckdb.DuckDBPyConnection, relation: str) -> int:
    """Remove errors that `_incoming` has successes for, with the rows that follow them."""
    same = _same(KEYS[relation], "t", "i")
    replaced = con.execute(
        f"CREATE OR REPLACE TEMP TABLE _replaced AS SELECT i.* FROM _incoming AS i "
        f"SEMI JOIN (SELECT * FROM store.main.{relation} WHERE error IS NOT NULL) AS t ON {same} "
        "WHERE i.error IS NULL"
    ).fetchall()
    if not replaced[0][0]:  # as always but with `retry_errors`
        return 0
    for follower in [name for name, parent in FOLLOWS.items() if parent == relation]:
        con.execute(f"DELETE FROM store.main.{follower} AS t USING _replaced AS i WHERE {same}")
    if relation == "responses":  # verdicts on the failure say nothing about the text
        for judged in ("judgments", "evidence"):
            con.execute(
                f"DELETE FROM store.main.{judged} AS t USING _replaced AS i "
                "WHERE t.response_id = i.response_id"
            )
    return int(
        con.execute(
            f"DELETE FROM store.main.{relation} AS t USING _replaced AS i WHERE {same}"
        ).fetchall()[0][0]
    )


def _say_more(con: duckdb.DuckDBPyConnection, relation: str) -> int:
    """Fill blanks of stored rows from `_incoming`; what a row says already is never changed."""
    others = [name for name in relations.columns(relation) if name not in KEYS[relation]]
    filled = [name for name in others if name not in NEVER_FILLED]
    same = _same(KEYS[relation], "t", "i")
    more = " OR ".join(f't."{name}" IS NULL AND i."{name}" IS NOT NULL' for name in filled)
    values = ", ".join(
        f'"{name}" = coalesce(t."{name}", i."{name}")'
        if name in filled
        else f'"{name}" = t."{name}"'
        for name in others
    )
    con.execute(
        f"CREATE OR REPLACE TEMP TABLE _filled AS SELECT t.* FROM store.main.{relation} AS t "
        f"JOIN _incoming AS i ON {same} WHERE {more}"
    )
    con.execute(f"UPDATE _incoming AS i SET {values} FROM _filled AS t WHERE {same}")
    same = _same(KEYS[relation], "t", "f")
    return int(
        con.execute(
            f"DELETE FROM store.main.{relation} AS t USING _filled AS f WHERE {same}"
        ).fetchall()[0][0]
    )


def _describe_study(con: duckdb.DuckDBPyConnection) -> int:
    """Update the one row of `study` with the values given; nulls change nothing."""
    names = ("name", "primary_panel", "licence")
    values = ", ".join(f"{name} = coalesce(g.{name}, study.{name})" for name in names)
    differs = " OR ".join(f"g.{name} <> coalesce(study.{name}, '')" for name in names)
    given = ", ".join(f"last({n} ORDER BY _seq) FILTER ({n} IS NOT NULL) AS {n}" for n in names)
    changed = con.execute(
        f"UPDATE store.main.study SET {values} FROM (SELECT {given} FROM _given) AS g "
        f"WHERE {differs}"
    ).fetchall()[0][0]
    con.unregister("_given")
    return int(changed)


def _complete(con: duckdb.DuckDBPyConnection, changed: Collection[str]) -> None:
    """Add the rows that others imply: a response was wanted, a wanted model is a model."""
    if "responses" in changed:
        con.execute(
            "INSERT INTO store.main.wanted "
            "SELECT r.instance_id, r.model, r.setting, r.trial, r.run_id "
            "FROM store.main.responses AS r SEMI JOIN _new_responses USING (response_id) "
            "ANTI JOIN store.main.wanted AS w USING (instance_id, model, setting, trial)"
        )
    if "responses" in changed or "wanted" in changed:
        con.execute(
            "INSERT INTO store.main.models BY NAME SELECT DISTINCT model FROM store.main.wanted "
            "ANTI JOIN store.main.models USING (model)"
        )


def _refuse_orphans(con: duckdb.DuckDBPyConnection, changed: Collection[str]) -> None:
    for relation, column, target, name in relations.REFERENCES:
        if relation not in changed:
            continue
        orphans = con.execute(
            f'SELECT DISTINCT t."{column}" FROM _new_{relation} AS t '
            f'ANTI JOIN store.main.{target} AS o ON o."{name}" = t."{column}" ORDER BY ALL LIMIT 3'
        ).fetchall()
        if orphans:
            missing = ", ".join(repr(row[0]) for row in orphans)
            raise BadRow(
                f"{relation}.{column} points to {target} that are not in the study: {missing}. "
                f"Add them first, or in the same call: append(path, {{{target!r}: …, "
                f"{relation!r}: …}}).{_there_are(con, target, name)}"
            )


def _there_are(con: duckdb.DuckDBPyConnection, target: str, name: str) -> str:
    """The names that a study has from the start: one of them may be meant."""
    if target not in ("dimensions", "criteria"):
        return ""
    names = con.execute(f'SELECT "{name}" FROM store.main.{target} ORDER BY ALL').fetchall()
    return f" There are: {', '.join(row[0] for row in names)}."


def _refuse_mixed_origins(con: duckdb.DuckDBPyConnection) -> None:
    origins = {
        row[0] for row in con.execute("SELECT DISTINCT origin FROM store.main.runs").fetchall()
    }
    if "simulated" in origins and len(origins) > 1:
        raise BadRow(
            "simulated rows share no study with measured or recorded ones; use another file."
        )


def prepare(file: Path) -> duckdb.DuckDBPyConnection:
    """An empty connection for a fold that somebody will wait for; what can be looked up is."""
    con = in_memory()
    # The fold itself will say what is wrong.
    with contextlib.suppress(RagbenchError, duckdb.Error, OSError):
        _looked_up(file, con)
    return con


def _offsets(file: Path, con: duckdb.DuckDBPyConnection) -> dict[str, int]:
    """How far each journal has been folded, in bytes, once the study has this layout."""
    if (found := _looked_up(file, con)) is not None:
        return found
    migrate(file, is_locked=True)
    return _offsets(file, con)


def _looked_up(file: Path, con: duckdb.DuckDBPyConnection) -> dict[str, int] | None:
    """How far each journal has been folded; None where the study has an older layout."""
    if not file.exists():
        return {}
    now = stamp(file)
    seen, offsets = _folded.get(file, ("", {}))
    if seen != now:
        with peeking(file, con) as (_, version):
            if version < SCHEMA_VERSION:
                return None
            try:
                rows = con.execute("SELECT journal, bytes FROM store.main.folded").fetchall()
            except duckdb.Error as error:
                raise unusable(file, error) from None
        offsets = dict(rows)
        _folded[file] = (now, offsets)
    return {**offsets}


_folded: dict[Path, tuple[str, dict[str, int]]] = {}
"""Which state of a study was looked up last, and how far journals have been folded into it."""
