"""What kind of file it is, and its records under the names of `columns.NAMES` or the file's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.errors import ImportFailed
from ragbench.importers import inspect_ai, lm_eval, promptfoo
from ragbench.importers.columns import count_known
from ragbench.importers.report import Report
from ragbench.importers.sources import decode, read_bytes
from ragbench.importers.tables import (
    Record,
    Source,
    from_records,
    read_csv,
    read_json_lines,
    read_parquet,
)

TABLES = ("verdicts", "responses", "constraints")


class Given(NamedTuple):
    """A file, read, and its kind as far as the file or the caller says it."""

    kind: str | None
    source: Source


def read(path: Path, kind: str | None, map: Mapping[str, str], report: Report) -> Given:
    """The records of `path`.

    Raises:
        ImportFailed: it cannot be read, or is not of `kind`.
    """
    data = read_bytes(path)
    if data.startswith(b"PK\x03\x04"):
        _refuse_other(path, kind, "inspect")
        return Given("inspect", from_records(inspect_ai.read_archive(path, data, report)))
    if data.startswith(b"PAR1"):
        return Given(_table(path, kind), read_parquet(path, data))
    text = decode(path, data, report)
    if text.lstrip()[:1] in ("{", "["):
        return _read_json(path, text, kind, report)
    if path.suffix.lower() in (".json", ".jsonl", ".ndjson", ".eval", ".parquet"):
        raise ImportFailed(
            f"{path} does not hold what its name says: it begins with {text.lstrip()[:20]!r}. "
            "Check that it was written and copied whole."
        )
    source = read_csv(path, text, lambda header: count_known(header, map), report)
    return Given(_table(path, kind), source)


def _table(path: Path, kind: str | None) -> str | None:
    if kind is not None and kind not in TABLES:
        raise ImportFailed(
            f"{path} is a table, not a log of {kind}. Leave `kind` out, or give one of "
            f"{', '.join(TABLES)}."
        )
    return kind


def _refuse_other(path: Path, kind: str | None, found: str) -> None:
    if kind not in (None, found):
        raise ImportFailed(f"{path} looks like a log of {found}, not {kind}. Leave `kind` out.")


def _read_json(path: Path, text: str, kind: str | None, report: Report) -> Given:
    """One JSON document, or one object a line."""
    whole = _document(path, text)
    if isinstance(whole, dict):
        found = _log_kind(whole)
        if found is not None and kind not in TABLES:
            _refuse_other(path, kind, found)
            reader = {"inspect": inspect_ai.read_log, "promptfoo": promptfoo.read_results}[found]
            return Given(found, from_records(reader(path, whole, report)))
        if "\n" in text.strip():  # a document over several lines is no table
            raise ImportFailed(
                f"{path} is one JSON object with the keys {', '.join(list(whole)[:10])}: neither a "
                "table nor a log that is known. Give one JSON object a line."
            )
        whole = [whole]
    if isinstance(whole, list):
        records: list[Record] = []
        for number, row in enumerate(whole, start=1):
            if isinstance(row, dict):
                records.append((number, row))
            else:
                report.refuse(number, "not a JSON object", "Give a list of objects.", row)
        report.note("`line` is the place in the list, from 1")
    else:
        records = read_json_lines(text, report)
    return _records(path, records, kind, report)


def _document(path: Path, text: str) -> Any:
    """The JSON value that the whole text is, or None when each line has its own."""
    first = text.lstrip().split("\n", 1)[0]
    if first.rstrip().endswith("}") and first.startswith("{") and "\n" in text.strip():
        try:
            json.loads(first)
            return None
        except (ValueError, RecursionError):
            pass
    try:
        return json.loads(text)
    except RecursionError:
        raise ImportFailed(f"{path} is nested too deeply to be a table or a log.") from None
    except ValueError as error:
        if path.suffix.lower() == ".json":
            raise ImportFailed(
                f"{path} is not readable JSON ({error}); it may be cut short. Write it again."
            ) from None
        return None


def _log_kind(document: Mapping[str, Any]) -> str | None:
    if isinstance(document.get("eval"), dict) and "version" in document:
        return "inspect"
    results = document.get("results")
    if isinstance(results, dict) and isinstance(results.get("results"), list):
        return "promptfoo"
    if isinstance(results, list) and "version" in document and "stats" in document:
        return "promptfoo"
    return None


def _records(path: Path, records: list[Record], kind: str | None, report: Report) -> Given:
    """JSON objects: of a table, or the samples of a log."""
    keys: set[str] = set().union(*(row.keys() for _, row in records[:20]))
    found = None
    if "doc_id" in keys and keys & {"filtered_resps", "resps"}:
        found = "lm_eval"
    elif {"promptIdx", "testIdx"} <= keys:
        found = "promptfoo"
    if found is None or kind in TABLES:
        return Given(_table(path, kind), from_records(records))
    _refuse_other(path, kind, found)
    reader = {"lm_eval": lm_eval.read_samples, "promptfoo": promptfoo.read_lines}[found]
    return Given(found, from_records(reader(path, records, report)))
