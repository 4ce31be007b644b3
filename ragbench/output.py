"""Saving: pictures with their numbers and provenance, and CSV that no spreadsheet executes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from ragbench.errors import ExportFailed, UnknownName

if TYPE_CHECKING:
    import duckdb
    import plotly.graph_objects as go

FORMATS = ("html", "svg", "pdf", "png")

# A text is guarded by one apostrophe when, after any apostrophes and blanks, it begins with what a
# spreadsheet takes for a formula, or when it begins with a tab or a line break. As apostrophes
# before such a beginning are guarded too, taking one away restores every text.
_BLANK = r"[\s\x00-\x1f\u00a0\u200b-\u200f\u2060\ufeff]*"
_RISKY = rf"^'*(?:[\t\r\n]|{_BLANK}[=+\-@＝＋－＠])"
_GUARDED = _RISKY.replace("'*", "'+", 1)
_TEXTS = (pl.String, pl.Categorical, pl.Enum)


def inert(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with texts and column names that no spreadsheet takes for a formula.

    An apostrophe is put before texts that begin like one (`=`, `+`, `-`, `@`, their full-width
    forms, also after blanks; tab, line break). `restored` takes it away again. Lists and structs
    become JSON text, enums plain text; numbers stay numbers.

    >>> inert(pl.DataFrame({"text": ["=1+1", "'=1", "it's", "-5"]}))["text"].to_list()
    ["'=1+1", "''=1", "it's", "'-5"]
    """
    columns = []
    for name, kind in frame.schema.items():
        if kind.is_nested():
            column = _as_json(frame[name])
        else:
            column = frame[name].cast(pl.String) if isinstance(kind, _TEXTS) else frame[name]
        columns.append(_each_text(column, _guarded).rename(_guarded(pl.Series([name]))[0]))
    return pl.DataFrame(columns)


def restored(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame whose texts and column names `inert` has guarded.

    >>> restored(inert(pl.DataFrame({"text": ["=1+1", "'=1", None, ""]})))["text"].to_list()
    ['=1+1', "'=1", None, '']
    """
    return pl.DataFrame(
        [
            _each_text(frame[name], _unguarded).rename(_unguarded(pl.Series([name]))[0])
            for name in frame.columns
        ]
    )


def to_csv(frame: pl.DataFrame) -> bytes:
    """The frame as CSV, inert: UTF-8 with a mark by which spreadsheets read Chinese, texts quoted.

    Quotes keep a text in one cell also where the spreadsheet splits at semicolons; a missing value
    is an empty cell, an empty text is `""`.
    """
    buffer = io.BytesIO()
    inert(frame).write_csv(buffer, include_bom=True, quote_style="non_numeric")
    return buffer.getvalue()


def read_csv(path: str | Path) -> pl.DataFrame:
    """What `to_csv` wrote, with its texts as they were before; types are told from the values."""
    return restored(pl.read_csv(path, infer_schema_length=None))


def write(path: str | Path, content: bytes) -> Path:
    """The path, once the whole content is there: a failure leaves what was there before.

    `ExportFailed` names the path and what helps when it cannot be written.
    """
    path = Path(path)
    temporary = path.parent / f".ragbench-{secrets.token_hex(6)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            temporary.unlink()
        reason = problem.strerror or str(problem)
        raise ExportFailed(f"{path} was not written: {reason}. {_remedy(problem)}") from problem
    return path


def save(
    figure: go.Figure,
    stem: str | Path,
    *,
    frame: pl.DataFrame,
    con: duckdb.DuckDBPyConnection | None = None,
    call: str = "",
    seed: int | None = None,
    formats: Sequence[str] = ("html",),
) -> pl.DataFrame:
    """One row per file written, or that could not be: path, format, note.

    Always written: HTML (whole, works offline), the numbers of `frame` as CSV, and a provenance
    JSON (hash of the study behind `con`, version, call, origin, n, seed, time, and the hash of each
    file, by which `written` knows what was changed since). `formats` adds svg, pdf, png, which need
    a browser; where there is none, the note and one printed line say so and the rest is saved.
    `stem` is the path without ending.
    """
    from ragbench import render

    for name in formats:
        if name not in FORMATS:
            raise UnknownName("format", name, FORMATS, place="figures")
    html = figure.to_html(include_plotlyjs=True, div_id="figure", config=render.CONFIG)
    content: dict[str, bytes | None] = {"html": html.encode("utf-8")}
    note = ""
    pictures = [name for name in render.IMAGES if name in formats]
    if pictures:
        try:
            content |= render.images(figure, pictures)
        except render.NoImages as problem:
            content |= dict.fromkeys(pictures)
            note = f"not written: {problem}"
            print(f"{stem}: {', '.join(pictures)} {note}. The rest was saved.")
    return write_all(stem, content, frame=frame, con=con, call=call, seed=seed, note=note)


def write_all(
    stem: str | Path,
    content: dict[str, bytes | None],
    *,
    frame: pl.DataFrame,
    con: duckdb.DuckDBPyConnection | None = None,
    call: str = "",
    seed: int | None = None,
    note: str = "",
) -> pl.DataFrame:
    """Write each content to `<stem>.<format>`, the numbers and the provenance beside them.

    A format whose content is None is listed with the note instead.
    """
    about = provenance(frame, con=con, call=call, seed=seed)
    about["formats"] = [name for name, data in content.items() if data is not None]
    content = {**content, "csv": to_csv(frame)}
    hashes = {name: _sha256(data) for name, data in content.items() if data is not None}
    about["sha256"] = {**hashes, "json": _seal({**about, "sha256": hashes})}
    text = json.dumps(about, ensure_ascii=False, indent=2, default=str) + "\n"
    content["json"] = text.encode("utf-8")
    rows = []
    for name, data in content.items():
        path = Path(f"{stem}.{name}")
        if data is not None:
            write(path, data)
        rows.append({"path": str(path), "format": name, "note": note if data is None else ""})
    return pl.DataFrame(rows, schema={"path": pl.String, "format": pl.String, "note": pl.String})


def written(stem: str | Path) -> dict[str, Any]:
    """The provenance of what was saved at `stem`, with *intact*: the endings of unchanged files.

    Empty when there is none that can be read. A file is unchanged when its content is still what
    was written, the provenance itself included.
    """
    try:
        about = json.loads(Path(f"{stem}.json").read_text(encoding="utf-8"))
        hashes = {name: about["sha256"][name] for name in about["sha256"] if name.isalnum()}
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return {}
    now = {}
    for name in hashes:
        with contextlib.suppress(OSError):
            now[name] = _sha256(Path(f"{stem}.{name}").read_bytes())
    now["json"] = _seal({**about, "sha256": {k: v for k, v in hashes.items() if k != "json"}})
    return {**about, "intact": [name for name in hashes if hashes[name] == now.get(name)]}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _seal(about: dict[str, Any]) -> str:
    """A hash of a provenance, the same when it comes back from JSON."""
    return _sha256(json.dumps(about, sort_keys=True, default=str).encode("utf-8"))


def provenance(
    frame: pl.DataFrame,
    *,
    con: duckdb.DuckDBPyConnection | None = None,
    call: str = "",
    seed: int | None = None,
) -> dict[str, Any]:
    """Where the numbers of a frame come from, as a mapping for JSON."""
    import ragbench
    from ragbench.facts import origins

    study = file = None
    if con is not None:
        from ragbench.checks import content_hash
        from ragbench.store import study_path

        study = content_hash(con)
        file = file_mark(study_path(con))
    counts = [name for name in frame.columns if name == "n" or name.endswith("_n")]
    n = {
        name.removesuffix("_n"): {"lowest": frame[name].min(), "highest": frame[name].max()}
        for name in counts
    }
    return {
        "study_hash": study,
        "study_file": file,
        "ragbench": ragbench.__version__,
        "call": call,
        "origin": origins(frame),
        "seed": seed,
        "rows": frame.height,
        "n": n,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def file_mark(path: Path) -> str:
    """What tells the study at `path` from other files of its name, and names no place."""
    return _sha256(str(path).encode("utf-8", "surrogateescape"))[:12]


def _each_text(column: pl.Series, change: Callable[[pl.Series], pl.Series]) -> pl.Series:
    return change(column) if column.dtype == pl.String else column


def _guarded(texts: pl.Series) -> pl.Series:
    return texts.zip_with(~texts.str.contains(_RISKY).fill_null(False), "'" + texts)


def _unguarded(texts: pl.Series) -> pl.Series:
    return texts.zip_with(~texts.str.contains(_GUARDED).fill_null(False), texts.str.slice(1))


def _as_json(column: pl.Series) -> pl.Series:
    def text(value: Any) -> str | None:
        plain = value.to_list() if isinstance(value, pl.Series) else value
        return None if value is None else json.dumps(plain, ensure_ascii=False, default=str)

    return pl.Series(column.name, [text(value) for value in column], dtype=pl.String)


def _remedy(problem: OSError) -> str:
    if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "Free some space there, or choose another folder."
    if problem.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "Choose a folder you may write to, or change its permissions."
    if problem.errno in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
        return (
            "A file stands where a folder is needed, or the other way round: choose another name."
        )
    return "Choose another folder or a shorter name."
