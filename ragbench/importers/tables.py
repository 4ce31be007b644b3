"""Tables as columns of text: CSV and its kin, JSON Lines, Parquet.

Nothing is interpreted here beyond the shape of the file. Each record keeps the line of the file on
which it starts. What cannot be read as a record goes into the report and is left out.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from ragbench.errors import ImportFailed
from ragbench.importers.report import Report

Record = tuple[int, dict[str, Any]]
LARGEST_CELL = 16_000_000
_RETRIES = 100


class Source(NamedTuple):
    """A file, read."""

    columns: dict[str, pl.Series]  # of text, by their name in the file
    lines: pl.Series  # where each record starts
    repeated: dict[str, list[pl.Series]]  # further columns of a name that is taken


# ---------------------------------------------------------------- CSV


def read_csv(
    path: Path, text: str, known: Callable[[Sequence[str]], int], report: Report
) -> Source:
    """The records of a delimited text file, with the physical line on which each starts.

    The separator is the one of `,` `;` tab `|` under which `known` finds most columns in the
    header. Records with more or fewer cells than the header, or with a quote that is never closed,
    are refused: their cells may have moved.
    """
    lines = io.StringIO(text, newline="").readlines()  # LF, CR LF and CR end a line, nothing else
    start = next((index for index, line in enumerate(lines) if line.strip()), 0)
    separator = ""
    if match := re.fullmatch(r"sep=(.)\s*", lines[start]):
        separator, start = match[1], start + 1
    header_lines = lines[start:]
    choices = [separator] if separator else [",", ";", "\t", "|"]
    heads = {mark: _header(header_lines, mark) for mark in choices}
    separator = max(choices, key=lambda mark: (known(heads[mark][0]), len(heads[mark][0])))
    header, taken = heads[separator]
    if separator != ",":
        name = {"\t": "tab", ";": "semicolon"}.get(separator, separator)
        report.note(f"cells are separated by {name}")
    if not any(header):
        raise ImportFailed(f"{path} has no header line; the first line must name the columns.")
    records: list[list[str]] = []
    numbers: list[int] = []
    width = len(header)
    for number, record in _records(lines, start + taken, separator, report):
        if len(record) != width:
            if len(record) > width and not any(record[width:]):
                del record[width:]
            else:
                report.refuse(number, _ragged(record, width), _RAGGED, separator.join(record))
                continue
        records.append(record)
        numbers.append(number)
    return _source(header, records, numbers)


_RAGGED = "A separator inside a text must be quoted; a cut line must be completed."


def _ragged(record: list[str], width: int) -> str:
    return f"{len(record)} cells where the header has {width}"


def _header(lines: list[str], separator: str) -> tuple[list[str], int]:
    reader = csv.reader(lines, delimiter=separator)
    with _cells():
        try:
            return [cell.strip() for cell in next(reader)], reader.line_num
        except (csv.Error, StopIteration):
            return [""], 1


def _records(
    lines: list[str], start: int, separator: str, report: Report
) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of each record after line index `start`; broken quotes cost one line each."""
    retries = 0
    with _cells():
        while start < len(lines):
            reader = csv.reader(lines[start:], delimiter=separator, strict=True)
            first = start
            try:
                for record in reader:
                    number, first = first + 1, start + reader.line_num
                    if record and (record[0] or any(record)):
                        yield number, record
                return
            except csv.Error as error:
                message = _QUOTES if "field larger" not in str(error) else _TOO_LONG
                retries += 1
                if retries > _RETRIES:
                    report.refuse(first + 1, f"{message}; nothing after this line was read", _QUOTE)
                    return
                report.refuse(first + 1, message, _QUOTE, lines[first].strip())
                start = first + 1


_QUOTES = "a quote that is not closed, or closed in the middle of a cell"
_TOO_LONG = f"a cell of more than {LARGEST_CELL:,} characters, perhaps for a quote never closed"
_QUOTE = 'Quote cells as "…" and double the quotes inside them.'


class _cells:
    """Raises the csv module's limit on the size of a cell for the time of a read."""

    def __enter__(self) -> None:
        self._before = csv.field_size_limit(LARGEST_CELL)

    def __exit__(self, *_: object) -> None:
        csv.field_size_limit(self._before)


def _source(header: list[str], records: list[list[str]], numbers: list[int]) -> Source:
    columns: dict[str, pl.Series] = {}
    repeated: dict[str, list[pl.Series]] = {}
    cells = list(zip(*records, strict=True)) or [()] * len(header)
    for name, values in zip(header, cells, strict=True):
        series = pl.Series(name, values, dtype=pl.String)
        if name in columns:
            repeated.setdefault(name, []).append(series)
        elif name:
            columns[name] = series
    return Source(columns, pl.Series("line", numbers, pl.Int64), repeated)


# ---------------------------------------------------------------- JSON


def read_json_lines(text: str, report: Report) -> list[Record]:
    """(line, object) of each line; lines that hold no JSON object are refused."""
    records: list[Record] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            reason = getattr(error, "msg", "nested too deeply, or a number of too many digits")
            report.refuse(number, f"not JSON: {reason}", "One JSON object a line.", line.strip())
            continue
        if isinstance(value, dict):
            records.append((number, value))
        else:
            report.refuse(number, "not a JSON object", "One JSON object a line.", line.strip())
    return records


def from_records(records: Iterable[Record]) -> Source:
    """Records as columns of text; the keys of inner objects become `outer.inner`."""
    columns: dict[str, list[str | None]] = {}
    numbers: list[int] = []
    for number, record in records:
        for name, value in _flat(record):
            cells = columns.setdefault(name, [])
            cells.extend([None] * (len(numbers) - len(cells)))
            if len(cells) == len(numbers):
                cells.append(as_text(value))
        numbers.append(number)
    for cells in columns.values():
        cells.extend([None] * (len(numbers) - len(cells)))
    return Source(
        {name: pl.Series(name, cells, pl.String) for name, cells in columns.items()},
        pl.Series("line", numbers, pl.Int64),
        {},
    )


def _flat(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        label = f"{prefix}{as_text(name)}"
        yield label, value
        if isinstance(value, dict) and prefix.count(".") < 2:
            yield from _flat(value, f"{label}.")


def as_text(value: object) -> str | None:
    """The text a cell would hold: JSON for lists and objects, `7` for 7.0, no lone surrogates."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if not isinstance(value, str):
        is_number = isinstance(value, (int, float))
        try:
            value = repr(value) if is_number else json.dumps(value, ensure_ascii=False, default=str)
        except (RecursionError, ValueError):
            value = f"({type(value).__name__} nested too deeply)"
    if not value.isascii():
        value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value.replace("\x00", "")


# ---------------------------------------------------------------- Parquet


def read_parquet(path: Path, data: bytes) -> Source:
    """The rows of a Parquet file; its `line` is the number of the row, from 1.

    Raises:
        ImportFailed: the file is cut short or damaged.
    """
    try:
        frame = pl.read_parquet(io.BytesIO(data))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ImportFailed(
            f"{path} is no readable Parquet file ({reason}). Write it again; it may be cut short."
        ) from None
    lines = pl.Series("line", range(1, frame.height + 1), pl.Int64)
    return Source({series.name: _texts(series) for series in frame}, lines, {})


def _texts(series: pl.Series) -> pl.Series:
    if series.dtype.is_nested() or series.dtype in (pl.Binary, pl.Object):
        values = [
            value.decode("utf-8", "replace") if isinstance(value, bytes) else as_text(value)
            for value in series.to_list()
        ]
        return pl.Series(series.name, values, pl.String)
    if series.dtype.is_float():
        value = pl.col(series.name)
        is_whole = value.is_finite() & (value == value.round()) & (value.abs() < 2**53)
        whole = pl.when(is_whole).then(value).cast(pl.Int64).cast(pl.String)
        return series.to_frame().select(pl.coalesce(whole, value.cast(pl.String))).to_series()
    return series.cast(pl.String).str.replace_all("\x00", "", literal=True)
