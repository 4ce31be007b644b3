"""Journals: rows that are safe as soon as they are added, one line of JSON each.

Every run writes a journal of its own beside the study file and holds a lock as long as it lives;
`folding` brings the complete lines into the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
from filelock import FileLock, Timeout

from ragbench import __version__, relations
from ragbench.errors import RagbenchError
from ragbench.files import cannot_write, journal_folder


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
        self._alive = FileLock(f"{self._stem}.lock")
        self._after_add = after_add

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
        self._after_add()

    def _start(self) -> None:
        try:
            self._stem.parent.mkdir(parents=True, exist_ok=True)
            self._alive.acquire(timeout=0)  # held until this process ends, however it ends
            self._handle = os.open(
                f"{self._stem}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
            )
        except OSError as error:
            raise cannot_write(self._file, error) from None
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
            raise cannot_write(self._file, error) from None
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
    return relations.clean("runs", row, run_id)


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


def complete_lines(journal: Path, start: int) -> tuple[list[bytes], int]:
    """The complete lines after byte `start`, and the byte after the last of them."""
    with journal.open("rb") as handle:
        handle.seek(start)
        data = handle.read()
    end = data.rfind(b"\n") + 1
    return data[:end].splitlines(), start + end


def parse(lines: list[bytes]) -> tuple[dict[str, pl.DataFrame], list[tuple[bytes, str]]]:
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
        for relation in sorted(rows, key=relations.order)
    }
    return frames, unfit


def set_aside(file: Path, unfit: list[tuple[bytes, str]]) -> None:
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
