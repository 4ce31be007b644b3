"""A study as a package for reviewers: its rows, their definitions, and what was made of them."""

from __future__ import annotations

import hashlib
import html
import importlib.metadata
import json
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import polars as pl

from ragbench import __version__, output, relations
from ragbench.checks import check, content_hash, ledger
from ragbench.errors import ExportFailed, RagbenchError, UnknownName
from ragbench.exports import export, load_folder
from ragbench.files import fold_lock, in_one_piece, no_folder
from ragbench.store import connect
from ragbench.style import clean

PARTS = ("documents", "responses", "evidence")
"""What may be left out of a pack: texts of documents, of responses, and what judges wrote."""

_TEXTS = {
    "documents": ("documents", ("text",)),
    "responses": ("responses", ("text", "reasoning")),
    "evidence": ("evidence", ("reason", "raw")),
}


def pack(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    without: Sequence[str] = (),
    licences: Mapping[str, str] | None = None,
    formats: Sequence[str] = ("html",),
) -> pl.DataFrame:
    """One row per file of the pack: columns file, bytes, sha256.

    `target` is a folder that does not exist yet, or a name that ends in `.zip`. It gets `rows/`
    (Parquet, one file per relation), `definitions/` (schema and views), `prompts/`, `artifacts/`
    (every table and figure that the study gives), `requirements.txt` (the versions that made them),
    `README.md` (a data card with the licence of each source) and `SHA256SUMS`. `without` leaves
    out texts that may not be passed on: ids and scores stay, so that every number can still be
    rebuilt. `licences` says under which terms the documents of a source may be passed on, by
    `documents.source`; for others the card gives the licence of the study.
    `ragbench rebuild all --study PACK` makes the artifacts again.

    Raises:
        UnknownName: a part in `without` that there is not.
        ExportFailed: `target` exists, lies in no folder that there is, or cannot be written.
        StoreError: the study cannot be read.
    """
    for part in without:
        if part not in PARTS:
            raise UnknownName("part", part, PARTS, place="a pack")
    goal = Path(target).expanduser().resolve()
    if os.path.lexists(goal):
        raise ExportFailed(f"{goal} exists. Name a folder or a .zip file that does not.")
    if not os.path.isdir(goal.parent):
        raise ExportFailed(no_folder(goal))
    con = connect(path)
    try:
        with tempfile.TemporaryDirectory(dir=goal.parent, prefix=".ragbench-pack-") as made:
            folder = Path(made) / (goal.stem if goal.suffix == ".zip" else goal.name)
            folder.mkdir()
            _fill(folder, con, Path(path), without, formats)
            card = _card(con, without, licences or {}, output.read_csv(folder / _REPORT))
            (folder / "README.md").write_text(card, encoding="utf-8")
            report = _sums(folder)
            if goal.suffix == ".zip":
                archive = shutil.make_archive(str(Path(made) / "pack"), "zip", made, folder.name)
                os.replace(archive, goal)
            else:
                os.replace(folder, goal)
    except OSError as error:
        raise ExportFailed(
            f"{goal} was not written: {error.strerror or error}. Free some space or choose "
            "another place."
        ) from None
    return report


def _fill(
    folder: Path,
    con: duckdb.DuckDBPyConnection,
    path: Path,
    without: Sequence[str],
    formats: Sequence[str],
) -> None:
    from ragbench.paper import rebuild_all

    export(con, folder / "rows")
    for part in without:
        relation, columns = _TEXTS[part]
        file = folder / "rows" / f"{relation}.parquet"
        if file.exists():
            there = pl.read_parquet(file)
            gone = [pl.lit(None, there[name].dtype).alias(name) for name in columns]
            there.with_columns(gone).write_parquet(file, compression="zstd")
    definitions = folder / "definitions"
    definitions.mkdir()
    for name in ("schema.sql", "views.sql", "scores.sql"):
        (definitions / name).write_text(relations.read_sql(name), encoding="utf-8")
    prompts = Path(__file__).parent / "prompts"
    if prompts.is_dir():
        shutil.copytree(prompts, folder / "prompts", ignore=shutil.ignore_patterns("*.py*", "__*"))
    made = rebuild_all(path, folder / "artifacts", formats=formats)
    made = made.with_columns(pl.col("path").str.extract(r"([^/\\]+)$"))
    (folder / _REPORT).write_bytes(output.to_csv(made))
    (folder / "requirements.txt").write_text(_versions(), encoding="utf-8")


_REPORT = "artifacts/rebuilt.csv"


def _versions() -> str:
    """What is installed that ragbench builds on, pinned."""
    lines = {f"ragbench=={__version__}"}
    waiting = ["ragbench"]
    while waiting:
        for needed in importlib.metadata.requires(waiting.pop()) or ():
            name = needed.split(";")[0]
            if "extra ==" in needed:
                continue
            name = "".join(c if c.isalnum() or c in "-_." else " " for c in name).split()[0]
            try:
                line = f"{name.lower()}=={importlib.metadata.version(name)}"
            except importlib.metadata.PackageNotFoundError:  # for another platform or Python
                continue
            if line not in lines:
                lines.add(line)
                waiting.append(name)
    return "\n".join(sorted(lines)) + "\n"


def _card(
    con: duckdb.DuckDBPyConnection,
    without: Sequence[str],
    licences: Mapping[str, str],
    made: pl.DataFrame,
) -> str:
    """The data card: what the rows are, where they come from, and what may be done with them."""
    cursor = con.cursor()
    name, licence = cursor.execute("SELECT name, licence FROM study").fetchall()[0]
    origins = cursor.sql("SELECT DISTINCT origin::VARCHAR AS origin FROM runs ORDER BY 1").pl()
    faults = check(con)
    counts = pl.DataFrame(
        [
            (relation, cursor.execute(f"SELECT count(*) FROM {relation}").fetchall()[0][0])
            for relation in relations.KEYS
        ],
        {"relation": pl.String, "rows": pl.Int64},
        orient="row",
    ).filter(pl.col("rows") > 0)
    parts = [
        f"# Data card of the study {_inert(name)}",
        f"Content hash {content_hash(con)}, written by ragbench {__version__}. "
        f"Origin of the rows: {', '.join(origins['origin']) or 'none yet'}."
        + (
            " Simulated rows exercise methods and are no results."
            if "simulated" in origins["origin"]
            else ""
        ),
        f"Licence of the rows: {_inert(licence or 'not stated by the owner of the study')}.",
        f"Left out of this pack: texts of {', '.join(without)}." if without else "",
        "## Relations (`rows/`, explained in `definitions/schema.sql`)",
        _markdown(counts),
        "## Ledger",
        _markdown(ledger(con, by=("model", "setting"))),
        "## Models",
        _markdown(cursor.sql("FROM models ORDER BY model").pl()),
        "## Judges",
        _markdown(cursor.sql("SELECT judge, kind::VARCHAR AS kind FROM judges ORDER BY 1").pl()),
        "## Benchmarks and sources, each with its licence",
        _markdown(
            cursor.sql(
                "SELECT benchmark, language, count(*) AS queries FROM queries "
                "GROUP BY ALL ORDER BY ALL"
            ).pl()
        ),
        _markdown(
            cursor.sql(
                "SELECT source, count(*) AS documents FROM documents GROUP BY source ORDER BY 1"
            )
            .pl()
            .with_columns(
                pl.col("source")
                .replace_strict(licences, default=licence, return_dtype=pl.String)
                .fill_null("not stated")
                .alias("licence")
            )
        ),
        "## Soundness",
        "No fault found by `ragbench check`." if faults.is_empty() else _markdown(faults),
        "## Artifacts (`artifacts/`)",
        _markdown(made.select("artifact", "origin", "rows", "cells", "status")),
        "To make them again: install ragbench (`requirements.txt` has the versions) and call "
        "`ragbench rebuild all --study THIS_FOLDER`.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown(frame: pl.DataFrame) -> str:
    """A pipe table in which no cell can end its row or act as HTML."""
    if frame.is_empty():
        return "None."
    rows = [[_inert(value) for value in row] for row in (frame.columns, *frame.rows())]
    rows.insert(1, ["---"] * frame.width)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _inert(value: object) -> str:
    """A value as one line of Markdown in which nothing acts as markup, formula or direction."""
    return re.sub(r"([\\`*_{}\[\]|#$~])", r"\\\1", html.escape(clean(value), quote=False))


def _sums(folder: Path) -> pl.DataFrame:
    """The files with their sizes and hashes, also written to SHA256SUMS as `sha256sum` reads it."""
    rows = [(name, file.stat().st_size, _sha256(file)) for name, file in _files(folder)]
    text = "".join(f"{digest}  {name}\n" for name, _, digest in rows)
    (folder / "SHA256SUMS").write_text(text, encoding="utf-8")
    return pl.DataFrame(rows, {"file": str, "bytes": int, "sha256": str}, orient="row")


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file


def opened(path: str | os.PathLike[str]) -> Path:
    """The study file of a pack, made from its rows when absent; of a study, the study itself.

    A `.zip` is unpacked beside itself, into a folder whose name tells its content: another archive
    under the same name gets another folder. The study of a pack stands in the pack, `study.duckdb`,
    and is made again when the rows are others. Nothing that was changed by hand is used or lost.

    Raises:
        RagbenchError: the archive cannot be read or unpacked, or a file of the pack is not what
            the pack was made with (SHA256SUMS, the archive), or its study not what its rows give.
        ImportFailed: the pack holds no rows.
    """
    place = Path(path).expanduser().resolve()
    try:
        if place.is_file() and zipfile.is_zipfile(place):
            place = _unpacked(place)
        if not place.is_dir():
            return place
        _refuse_changed(place)
        return _study(place)
    except OSError as error:
        raise RagbenchError(
            f"{place} cannot be opened: {error}. Copy it to a folder that you may read and write."
        ) from None


def _unpacked(archive: Path) -> Path:
    """The folder that holds what is in `archive` now, all of it."""
    folder = archive.with_name(f"{archive.name}.{_sha256(archive)[:12]}")
    try:
        with zipfile.ZipFile(archive) as there:
            if not os.path.lexists(folder):
                _unpack(there, folder)
            if not _is_in(folder, there):
                raise RagbenchError(
                    f"{folder} is not what {archive.name} holds: something in it was changed. Move "
                    "it away, and the archive is unpacked again; to use it as it is, name the "
                    "folder."
                )
    # What the format allows, and this Python does not: a password, another compression.
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise RagbenchError(
            f"{archive} cannot be unpacked beside itself: {error}. Get it again, or copy it to a "
            "folder that you may write to."
        ) from None
    return folder


def _unpack(archive: zipfile.ZipFile, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".ragbench-pack-") as made:
        whole = Path(made) / "pack"
        whole.mkdir()
        archive.extractall(whole)  # which keeps to the folder, whatever the names say
        inside = list(whole.iterdir())
        try:
            os.replace(inside[0] if len(inside) == 1 and inside[0].is_dir() else whole, folder)
        except OSError:
            if not folder.is_dir():  # another process may have been here
                raise


def _is_in(folder: Path, archive: zipfile.ZipFile) -> bool:
    """Whether `folder` has every file of the archive as it is there, and no other rows."""
    names = {
        "/".join(part for part in info.filename.split("/") if part not in ("", ".", "..")): info
        for info in archive.infolist()
        if not info.is_dir()
    }
    top, *others = {name.partition("/")[:2] for name in names} or {("", "")}
    if not others and top[1]:  # one folder holds it all
        names = {name.partition("/")[2]: info for name, info in names.items()}
    rows = {name for name, _ in _files(folder) if name.endswith(".parquet")}
    return rows <= names.keys() and all(
        (folder / name).is_file() and (folder / name).read_bytes() == archive.read(info)
        for name, info in names.items()
    )


def _refuse_changed(folder: Path) -> None:
    """Raise when a file of the pack, or its rows or definitions, are not what it was made with."""
    sums = folder / "SHA256SUMS"
    if not sums.is_file():
        return
    lines = sums.read_text(encoding="utf-8", errors="replace").splitlines()
    digests = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    added = [
        name
        for part in ("rows/*.parquet", "definitions/*.sql")
        for file in sorted(folder.glob(part))
        if (name := file.relative_to(folder).as_posix()) not in digests
    ]
    for name in (*digests, *added):
        file = folder / name
        if not file.is_file() or _sha256(file) != digests.get(name):
            raise RagbenchError(
                f"{file} is not the file that the pack was made with (SHA256SUMS). Get the pack "
                "again; to use it as it is now, delete SHA256SUMS."
            )


def _study(folder: Path) -> Path:
    """The study of the rows in `folder`, which a note beside it knows."""
    study, note = folder / "study.duckdb", folder / "study.duckdb.json"
    source = folder / "rows" if (folder / "rows").is_dir() else folder
    files = [source / f"{relation}.parquet" for relation in relations.KEYS]
    rows = {file.stem: _sha256(file) for file in files if file.exists()}
    if (made := _made_from(study, note)) == rows:
        return study
    if study.exists() and made is None:
        raise RagbenchError(
            f"{study} is not what the rows beside it gave: it was made or changed in another way. "
            "To use it, name the file itself; to have it made from the rows, move it away."
        )
    with fold_lock(folder / "study.duckdb.making"):  # programs that start together
        if _made_from(study, note) != rows:
            with in_one_piece(study) as part:
                load_folder(part, source)
                with connect(part) as con:
                    about = {"rows": rows, "content_hash": content_hash(con)}
                output.write(note, json.dumps(about, indent=2).encode())
    return study


def _made_from(study: Path, note: Path) -> dict[str, str] | None:
    """The hashes of the rows that `study` was made from; None when it is not what they gave."""
    try:
        about = json.loads(note.read_text(encoding="utf-8"))
        rows: dict[str, str] = about["rows"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if not study.exists():
        return None
    with connect(study) as con:
        return rows if about.get("content_hash") == content_hash(con) else None


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
