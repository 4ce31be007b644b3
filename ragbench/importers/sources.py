"""From a path to bytes and from bytes to text, whatever program wrote the file."""

from __future__ import annotations

import re
from pathlib import Path

from ragbench.errors import ImportFailed
from ragbench.importers.report import Report

LARGEST_FILE = 4_000_000_000
_BOMS = (
    (b"\xef\xbb\xbf", "utf-8", "UTF-8"),
    (b"\xff\xfe\x00\x00", "utf-32-le", "UTF-32"),
    (b"\x00\x00\xfe\xff", "utf-32-be", "UTF-32"),
    (b"\xff\xfe", "utf-16-le", "UTF-16"),
    (b"\xfe\xff", "utf-16-be", "UTF-16"),
)
_FOREIGN = (
    (b"\x1f\x8b", "is compressed with gzip", "Unpack it first."),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd", "Unpack it first."),
    (b"\xd0\xcf\x11\xe0", "is an old Excel workbook", "Save the sheet as CSV UTF-8."),
    (b"%PDF", "is a PDF", "Give the table it was made from."),
    (b"SQLite format 3\x00", "is an SQLite database", "Export the table as CSV."),
)


def read_bytes(path: Path) -> bytes:
    """The content of `path`.

    Raises:
        ImportFailed: there is no such file, or it is a folder, empty, too large or of no kind that
            can be read.
    """
    if path.is_dir():
        raise ImportFailed(f"{path} is a folder; name one file in it.")
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise ImportFailed(
                f"{path} has more than {LARGEST_FILE // 10**9} GB; split it, or convert it to "
                "Parquet parts and import them one after the other."
            )
        data = path.read_bytes()
    except OSError as error:
        raise ImportFailed(
            f"{path} cannot be read ({error.strerror}). Check the path and its permissions."
        ) from None
    if not data.strip():
        raise ImportFailed(f"{path} is empty; there is nothing to import.")
    for magic, what, remedy in _FOREIGN:
        if data.startswith(magic):
            raise ImportFailed(f"{path} {what}. {remedy}")
    return data


def decode(path: Path, data: bytes, report: Report) -> str:
    """The text of a file in UTF-8, UTF-16, UTF-32, GB18030 or Windows-1252, without NUL.

    A byte order mark decides. Else UTF-16 is known by its zero bytes, and what is not UTF-8 is
    GB18030 when its high bytes come in pairs, as Chinese does. The report says what was found.

    Raises:
        ImportFailed: there is nothing in the file but blanks, or its lines are in two encodings:
            read as either, the names in the other's lines would be those of nobody.
    """
    text, encoding = _decoded(path, data)
    if encoding != "UTF-8":
        report.note(f"read as {encoding}", "If texts look wrong, save the file as UTF-8.")
    if "\x00" in text:
        report.note(f"{text.count(chr(0))} zero bytes were dropped", "Save the file as plain text.")
        text = text.replace("\x00", "")
    if not text.strip():
        raise ImportFailed(f"{path} is empty; there is nothing to import.")
    return text


def _decoded(path: Path, data: bytes) -> tuple[str, str]:
    for mark, codec, name in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(codec, "replace"), name
    head = data[:4096]
    if head.count(0) > len(head) // 4:
        codec = "utf-16-le" if head[1::2].count(0) > head[0::2].count(0) else "utf-16-be"
        return data.decode(codec, "replace"), "UTF-16"
    try:
        return data.decode("utf-8"), "UTF-8"
    except UnicodeDecodeError:
        return _legacy(path, data)


def _legacy(path: Path, data: bytes) -> tuple[str, str]:
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    sound = sum(1 for char in text if char > "\x7f") - broken
    if sound > 4 * broken:
        return text, "UTF-8 with broken bytes"
    high = len(re.findall(rb"[\x80-\xff]", data))
    paired = 2 * len(re.findall(rb"[\x81-\xfe][\xa1-\xfe]", data))
    if paired >= 0.8 * high:
        chinese = data.decode("gb18030", "replace")
        if chinese.count("\ufffd") <= 0.05 * high:
            # Two bytes of it may happen to be a character of UTF-8; three are no such accident.
            _refuse_mixed(path, data, "\u0800", "GB18030")
            return chinese, "GB18030"
    _refuse_mixed(path, data, "\x80", "Windows-1252")
    return data.decode("cp1252", "replace"), "Windows-1252"


def _refuse_mixed(path: Path, data: bytes, first: str, name: str) -> None:
    """Raise where some lines are UTF-8, with a character from `first` on, and others are not."""
    sound, broken = 0, 0
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            if max(line.decode("utf-8"), default="") >= first:
                sound = sound or number
        except UnicodeDecodeError:
            broken = broken or number
        if sound and broken:
            raise ImportFailed(
                f"{path} is in two encodings: line {sound} is UTF-8, and line {broken} is not (it "
                f"may be {name}). Save the parts in one encoding, best UTF-8, and import again."
            )
