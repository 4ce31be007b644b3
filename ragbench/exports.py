"""The way out: relations as Parquet, or as CSV that no spreadsheet executes; and back in."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

import duckdb
import polars as pl

from ragbench import relations
from ragbench.arguments import several
from ragbench.errors import ImportFailed, UnknownName
from ragbench.output import to_csv, write
from ragbench.store import append, refresh

FORMATS = ("parquet", "csv")


def export(
    con: duckdb.DuckDBPyConnection,
    folder: str | os.PathLike[str],
    names: Sequence[str] = (),
    *,
    format: str = "parquet",
) -> pl.DataFrame:
    """One row per relation written to `folder`: columns relation, rows, path.

    Rows are sorted by key, so that equal studies give equal files. Parquet keeps every type and
    can be loaded again with `load_folder`; CSV is for looking at: texts that a spreadsheet would
    take for a formula are guarded (`output.restored` undoes it). Empty relations are left out
    unless named.

    Raises:
        UnknownName: `names` has a relation, or `format` a format, that does not exist.
        ExportFailed: a file cannot be written; the others of this call are whole.
    """
    refresh(con)
    cursor = con.cursor()
    if format not in FORMATS:
        raise UnknownName("format", format, FORMATS, place="export")
    written = []
    for relation in several("names", names) or relations.KEYS:
        relations.columns(relation)
        keys = ", ".join(f'"{key}"' for key in relations.KEYS[relation]) or "name"
        frame = cursor.sql(f"SELECT * FROM {relation} ORDER BY {keys}").pl()
        if frame.is_empty() and not names:
            continue
        path = Path(folder) / f"{relation}.{format}"
        write(path, to_csv(frame) if format == "csv" else _parquet(frame))
        written.append((relation, frame.height, str(path)))
    return pl.DataFrame(written, schema={"relation": str, "rows": int, "path": str}, orient="row")


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.cast({pl.Categorical: pl.String, pl.Enum: pl.String}).write_parquet(
        buffer, compression="zstd"
    )
    return buffer.getvalue()


def load_folder(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> pl.DataFrame:
    """What became of the rows, after adding the Parquet files of `folder` to the study at `path`.

    Columns as in `append`. Runs keep their ids and origin: recorded rows stay recorded. Rows that
    belong to no run are of the same origin, when the runs in the folder have one only.

    Raises:
        ImportFailed: the folder holds no relation, or a file cannot be read.
    """
    frames = {}
    for relation in relations.KEYS:
        file = Path(folder) / f"{relation}.parquet"
        if file.exists():
            try:
                frames[relation] = pl.read_parquet(file)
            except (OSError, pl.exceptions.PolarsError) as error:
                first = str(error).splitlines()[0]
                raise ImportFailed(f"{file} cannot be read: {first}. Export it again.") from None
    if not frames:
        raise ImportFailed(
            f"{folder} holds no relation of a study (judgments.parquet, responses.parquet, …). "
            "Name the folder that `ragbench export` wrote."
        )
    if "study" in frames:
        frames["study"] = frames["study"].drop("schema_version", strict=False)
    origins = frames["runs"]["origin"].unique().to_list() if "runs" in frames else []
    return append(path, frames, step="load", origin=origins[0] if len(origins) == 1 else "measured")
