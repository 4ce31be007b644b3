"""Journals: rows that are safe as soon as they are added, one line of JSON each.

Every run writes a journal of its own beside the study file and holds a lock as long as it lives;
`folding` brings the complete lines into the file. A line survives the end of its process at once,
and a power cut within seconds: the journal is synced every `_SYNC_SECONDS`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from filelock import FileLock, Timeout

from ragbench import __version__, relations, rows
from ragbench.errors import RagbenchError, StoreError
from ragbench.files import cannot_write, journal_folder, say

_SYNC_SECONDS = 5.0
_KNOWN_BYTES = 4_000_000
"""How long a journal may be for its writer to remember what it says."""
Entry = dict[str, list[dict[str, Any]]]
"""The rows of one line, by relation, as `rows.clean` made them."""


class Writer:
    """Appends rows of one run to its journal. Made by `step`; one process, any thread."""

    def __init__(self, file: Path, run: dict[str, Any], after_add: Callable[[], None]) -> None:
        self.run_id: str = run["run_id"]
        self._file = file
        self._run = run
        self._stem = journal_folder(file) / self.run_id
        self._handle: int | None = None
        self._guard = threading.Lock()
        self._size = 0
        self._is_torn = False
        self._is_introduced = False
        self._is_closed = False
        self._synced = time.monotonic()
        self._alive = FileLock(f"{self._stem}.lock", thread_local=False)
        self._after_add = after_add
        self.known: dict[bytes, Entry] = {}
        """What lines say, for the fold that somebody waits for; empty when there are many."""

    def add(self, given: Mapping[str, Mapping[str, Any] | Iterable[Mapping[str, Any]]]) -> None:
        """Store rows of one or more relations together: after a crash all are there, or none.

        Raises:
            UnknownColumn, BadRow: a row does not fit; nothing of this call is stored.
            StoreError: the journal cannot be written; nothing of this call is stored.
        """
        line = {
            relation: [
                rows.clean(relation, row, self.run_id)
                for row in ([value] if isinstance(value, Mapping) else value)
            ]
            for relation, value in given.items()
        }
        with self._guard:
            if self._is_closed:
                raise StoreError(
                    f"this step has ended, so its rows for {self._file} cannot be added; open "
                    "another with ragbench.store.step(path, name)."
                )
            if self._handle is None:
                self._open()
            if not self._is_introduced:  # with its first rows, so that none is without its run
                line = {**line, "runs": [{**self._run}, *line.get("runs", [])]}
            text = json.dumps(line, ensure_ascii=False).encode()
            self._write(text + b"\n")
            self._is_introduced = True
            if self._size <= _KNOWN_BYTES:
                self.known[text] = line
            else:
                self.known.clear()
        self._after_add()

    def _open(self) -> None:
        for attempt in range(3):
            try:
                self._stem.parent.mkdir(parents=True, exist_ok=True)
                self._alive.acquire(timeout=0)  # held until this process ends, however it ends
                self._handle = os.open(
                    f"{self._stem}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666
                )
                return
            except FileNotFoundError as error:  # a folder tidied the empty folder away just now
                if attempt == 2:
                    raise cannot_write(self._file, error) from None
            except OSError as error:
                raise cannot_write(self._file, error) from None

    def _write(self, line: bytes) -> None:
        assert self._handle is not None
        data = b"\n" + line if self._is_torn else line
        try:
            if os.fstat(self._handle).st_nlink == 0:
                raise StoreError(
                    f"the journal {self._stem}.jsonl was deleted while its step was running; what "
                    f"was folded into {self._file} is safe. Start the step again: it makes what is "
                    "missing."
                )
            written = 0
            while written < len(data):
                written += os.write(self._handle, data[written:])
        except OSError as error:
            self._take_back(len(data))
            raise cannot_write(self._file, error) from None
        except KeyboardInterrupt:
            self._take_back(len(data))
            raise
        self._is_torn = False
        self._size += len(data)
        if time.monotonic() - self._synced > _SYNC_SECONDS:
            self._sync()

    def _take_back(self, length: int) -> None:
        """Cut half a line off again: it would swallow the next one. A whole line stays."""
        assert self._handle is not None
        try:
            if os.fstat(self._handle).st_size == self._size + length:
                self._size += length
            else:
                os.ftruncate(self._handle, self._size)
        except OSError:
            self._is_torn = True  # the next line starts with a line break instead
            self._size = os.fstat(self._handle).st_size

    def _sync(self) -> None:
        assert self._handle is not None
        with contextlib.suppress(OSError):  # some file systems refuse to sync
            os.fsync(self._handle)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Let the rows be folded in by whoever comes next; `step` does this."""
        with self._guard:
            self._is_closed = True
            if self._handle is not None:
                self._sync()
                os.close(self._handle)
                self._handle = None
                self._alive.release()


def run_row(step: str, origin: str, config: Mapping[str, Any] | None) -> dict[str, Any]:
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
    return rows.clean("runs", row, run_id)


def journals(file: Path) -> list[Path]:
    return sorted(journal_folder(file).glob("*.jsonl"))


def has_journals(file: Path) -> bool:
    return journal_folder(file).is_dir() and bool(journals(file))


def has_ended(journal: Path) -> bool:
    """Whether the process that wrote `journal` is gone: it holds a lock as long as it lives."""
    lock = FileLock(journal.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except (Timeout, OSError):
        return False
    lock.release()
    return True


def complete_lines(journal: Path, start: int, limit: int) -> tuple[list[bytes], int]:
    """The complete lines after byte `start`, about `limit` bytes of them, and the byte after."""
    with journal.open("rb") as handle:
        handle.seek(start)
        data = handle.read(limit)
        if b"\n" not in data:  # a line longer than the limit
            data += handle.readline()
    end = data.rfind(b"\n") + 1
    return data[:end].split(b"\n")[:-1], start + end


def parse(
    lines: list[bytes], known: dict[bytes, Entry] | None = None
) -> tuple[dict[str, pl.DataFrame], list[tuple[bytes, str]]]:
    """Rows of journal lines as frames by relation, and the lines that are unfit with the reason.

    The column `_line` says which rows were added together. Lines are taken out of `known`, which
    holds what some of them say, and need not be read then.
    """
    known = {} if known is None else known
    found: dict[str, list[dict[str, Any]]] = {}
    origins: dict[str, list[int]] = {}
    unfit: list[tuple[bytes, str]] = []
    for number, line in enumerate(lines):
        try:
            entry = known.pop(line, None) or {
                relation: [rows.clean(relation, row, row.get("run_id") or "") for row in given]
                for relation, given in (json.loads(line) if line else {}).items()
            }
        except _UNFIT as error:
            unfit.append((line, str(error) or type(error).__name__))
            continue
        for relation, given in entry.items():
            found.setdefault(relation, []).extend(given)
            origins.setdefault(relation, []).extend([number] * len(given))
    frames = {}
    for relation in sorted(filter(found.get, found), key=relations.order):
        origin = pl.Series("_line", origins[relation], dtype=pl.Int64)
        frames[relation] = rows.framed(relation, found[relation]).hstack([origin])
    return frames, unfit


_UNFIT = (
    *(ValueError, AttributeError, TypeError, OverflowError, RecursionError),
    RagbenchError,
)


def set_aside(file: Path, unfit: list[tuple[bytes, str]]) -> None:
    """Keep lines that cannot be read, for a person; they must not stop the others."""
    if not unfit:
        return
    place = file.with_name(f"{file.name}.rejected.jsonl")
    kept = set(place.read_bytes().split(b"\n")) if place.exists() else set()
    with place.open("ab") as handle:  # a fold that failed after this comes here again
        handle.writelines(line + b"\n" for line, _ in unfit if line not in kept)
    many = f"{len(unfit)} journal lines" if len(unfit) > 1 else "1 journal line"
    say(
        f"{many} of {file} could not be read and went to {place}, the others were taken. The "
        f"first says: {unfit[0][1]} Start the step again to make what is missing."
    )


def origins_of(file: Path) -> set[str]:
    """The origins of runs whose journals are not folded yet."""
    found = set()
    for journal in journals(file):
        unfit = (OSError, ValueError, LookupError, AttributeError, TypeError)
        with contextlib.suppress(*unfit), journal.open("rb") as handle:
            found.add(json.loads(handle.readline())["runs"][0]["origin"])
    return found
