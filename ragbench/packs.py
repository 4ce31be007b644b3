"""A study as a package for reviewers: its rows, their definitions, and what was made of them."""

from __future__ import annotations

import hashlib
import html
import importlib.metadata
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import polars as pl

from ragbench import __version__, output, relations
from ragbench.checks import check, content_hash, ledger
from ragbench.errors import ExportFailed, RagbenchError, UnknownName
from ragbench.exports import export, load_folder
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
        ExportFailed: `target` exists, or cannot be written.
        StoreError: the study cannot be read.
    """
    for part in without:
        if part not in PARTS:
            raise UnknownName("part", part, PARTS, place="a pack")
    goal = Path(target).expanduser().resolve()
    if goal.exists():
        raise ExportFailed(f"{goal} exists. Name a folder or a .zip file that does not.")
    con = connect(path)
    try:
        goal.parent.mkdir(parents=True, exist_ok=True)
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
    rows = [
        (name, file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest())
        for name, file in _files(folder)
    ]
    text = "".join(f"{digest}  {name}\n" for name, _, digest in rows)
    (folder / "SHA256SUMS").write_text(text, encoding="utf-8")
    return pl.DataFrame(rows, {"file": str, "bytes": int, "sha256": str}, orient="row")


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield file.relative_to(folder).as_posix(), file


def opened(path: str | os.PathLike[str]) -> Path:
    """The study file of a pack, made from its rows when absent; of a study, the study itself.

    A `.zip` is unpacked beside itself. The study of a pack stands in the pack, `study.duckdb`.

    Raises:
        RagbenchError: the archive cannot be read, or a file in it was changed (SHA256SUMS).
        ImportFailed: the pack holds no rows.
    """
    place = Path(path).expanduser().resolve()
    if place.is_file() and zipfile.is_zipfile(place):
        place = _unpacked(place)
    if not place.is_dir():
        return place
    study = place / "study.duckdb"
    if not study.exists():
        _refuse_changed(place)
        load_folder(study, place / "rows" if (place / "rows").is_dir() else place)
    return study


def _unpacked(archive: Path) -> Path:
    folder = archive.with_suffix("")
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".ragbench-pack-") as made:
            try:
                with zipfile.ZipFile(archive) as there:
                    there.extractall(made)  # which keeps to the folder, whatever the names say
            except (OSError, zipfile.BadZipFile) as error:
                raise RagbenchError(
                    f"{archive} cannot be unpacked: {error}. Get it again."
                ) from None
            inside = list(Path(made).iterdir())
            os.replace(inside[0] if len(inside) == 1 else made, folder)
            Path(made).mkdir(exist_ok=True)
    return folder


def _refuse_changed(folder: Path) -> None:
    """Raise when the rows are not those that the pack was made with."""
    sums = folder / "SHA256SUMS"
    if not sums.exists():
        return
    for line in sums.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        file = folder / name
        if not name.startswith("rows/"):
            continue
        if not file.exists() or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            raise RagbenchError(
                f"{file} is not the file that the pack was made with (SHA256SUMS). Get the pack "
                "again; to use changed rows, delete SHA256SUMS."
            )
