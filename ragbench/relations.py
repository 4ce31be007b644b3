"""What the relations of a study are made of, and how rows are made to fit them.

`schema.sql` says which columns there are; this module reads it once and checks rows against it, so
that nothing unfit reaches a journal or the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import duckdb
import polars as pl

from ragbench.errors import BadRow, UnknownColumn, UnknownName

SCHEMA_VERSION = 1

KEYS: dict[str, tuple[str, ...]] = {
    "study": (),
    "runs": ("run_id",),
    "models": ("model",),
    "judges": ("judge",),
    "dimensions": ("dimension",),
    "criteria": ("criterion",),
    "queries": ("query_id",),
    "constraints": ("constraint_id",),
    "documents": ("doc_id",),
    "instances": ("instance_id",),
    "instance_constraints": ("instance_id", "ordinal"),
    "contexts": ("instance_id", "rank"),
    "conflict_points": ("instance_id", "point"),
    "verifications": ("instance_id", "check", "judge"),
    "wanted": ("instance_id", "model", "setting", "trial"),
    "responses": ("response_id",),
    "steps": ("response_id", "step"),
    "claims": ("claim_id",),
    "judgments": ("response_id", "criterion", "target_id", "judge", "repeat"),
    "evidence": ("response_id", "criterion", "target_id", "judge", "repeat"),
    "nodes": ("node_id",),
    "edges": ("source", "relation", "target"),
}
"""The key of each relation, in the order in which rows are folded in."""

SUPERSEDED = ("responses", "judgments")
"""Relations in which a success takes the place of an error with the same key."""

FOLLOWS = {"evidence": "judgments", "steps": "responses"}
"""Relations whose rows belong to one row of another, and are replaced together with it."""

REFERENCES = (
    ("instances", "query_id", "queries", "query_id"),
    ("constraints", "query_id", "queries", "query_id"),
    ("constraints", "dimension", "dimensions", "dimension"),
    ("instance_constraints", "instance_id", "instances", "instance_id"),
    ("instance_constraints", "constraint_id", "constraints", "constraint_id"),
    ("contexts", "instance_id", "instances", "instance_id"),
    ("contexts", "doc_id", "documents", "doc_id"),
    ("conflict_points", "instance_id", "instances", "instance_id"),
    ("verifications", "instance_id", "instances", "instance_id"),
    ("wanted", "instance_id", "instances", "instance_id"),
    ("wanted", "model", "models", "model"),
    ("wanted", "run_id", "runs", "run_id"),
    ("responses", "instance_id", "instances", "instance_id"),
    ("responses", "run_id", "runs", "run_id"),
    ("steps", "response_id", "responses", "response_id"),
    ("claims", "instance_id", "instances", "instance_id"),
    ("judgments", "response_id", "responses", "response_id"),
    ("judgments", "criterion", "criteria", "criterion"),
    ("judgments", "judge", "judges", "judge"),
    ("judgments", "run_id", "runs", "run_id"),
)
"""(relation, column, relation it points into, column there)."""

DEFAULTS: dict[str, Any] = {"trial": 0, "repeat": 0, "setting": "given_context"}
"""Values of key columns that may be left out."""


class Column(NamedTuple):
    """A column as `schema.sql` declares it."""

    name: str
    type: str
    is_required: bool
    values: tuple[str, ...]  # of an ENUM, else empty


@cache
def read_sql(name: str) -> str:
    """The text of `schema.sql` or `views.sql`."""
    return resources.files("ragbench").joinpath(name).read_text(encoding="utf-8")


@cache
def layout() -> dict[str, dict[str, Column]]:
    """The columns of every relation, by relation and name."""
    con = duckdb.connect()
    con.execute(read_sql("schema.sql"))
    rows = con.sql(
        "SELECT table_name, column_name, data_type, NOT is_nullable FROM duckdb_columns() "
        "WHERE NOT internal ORDER BY table_name, column_index"
    ).fetchall()
    tables: dict[str, dict[str, Column]] = {}
    for table, name, kind, is_required in rows:
        values: tuple[str, ...] = ()
        if kind.startswith("ENUM("):
            values = tuple(part.strip().strip("'") for part in kind[5:-1].split(","))
            kind = "ENUM"
        tables.setdefault(table, {})[name] = Column(name, kind, is_required, values)
    con.close()
    return tables


def columns(relation: str) -> dict[str, Column]:
    """The columns of one relation that rows may be added to.

    Raises:
        UnknownName: there is no such relation.
    """
    if relation not in KEYS:
        raise UnknownName("relation", relation, KEYS, place="a study")
    return layout()[relation]


_POLARS: dict[str, pl.DataType | type[pl.DataType]] = {
    "VARCHAR": pl.String,
    "ENUM": pl.String,
    "JSON": pl.String,
    "INTEGER": pl.Int64,
    "BIGINT": pl.Int64,
    "DOUBLE": pl.Float64,
    "BOOLEAN": pl.Boolean,
    "DATE": pl.Date,
    "TIMESTAMP": pl.Datetime("us"),
    "VARCHAR[]": pl.List(pl.String),
    "FLOAT[]": pl.List(pl.Float32),
}


def schema(relation: str) -> dict[str, pl.DataType | type[pl.DataType]]:
    """Polars types of the columns of `relation`."""
    return {name: _POLARS[column.type] for name, column in columns(relation).items()}


def journal_schema(relation: str) -> dict[str, pl.DataType | type[pl.DataType]]:
    """The types that the values of a journal line have: as `schema`, with times still as text."""
    return {
        name: pl.String if kind in (pl.Date, pl.Datetime("us")) else kind
        for name, kind in schema(relation).items()
    }


def listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def order(relation: str) -> int:
    return list(KEYS).index(relation) if relation in KEYS else len(KEYS)


def response_key(row: Mapping[str, Any]) -> str:
    """`instance/model/setting/trial`, the key of a response."""
    return f"{row['instance_id']}/{row['model']}/{row['setting']}/{row['trial']}"


# ---------------------------------------------------------------- frames


def fit(
    relation: str, frame: pl.DataFrame | Iterable[Mapping[str, Any]], run_id: str
) -> pl.DataFrame:
    """`frame` with every column of `relation`, typed, defaults filled in, NaN gone.

    Scores that are not numbers become errors. Missing optional columns are null.

    Raises:
        UnknownColumn: `frame` has a column that the relation lacks.
        BadRow: a required value is missing, or a value does not fit its column.
    """
    if not isinstance(frame, pl.DataFrame):
        frame = pl.DataFrame(list(frame), infer_schema_length=None)
    wanted = columns(relation)
    for name in frame.columns:
        if name not in wanted:
            raise UnknownColumn(relation, name, wanted)
    frame = _with_defaults(relation, frame, run_id)
    frame = frame.select(_typed(relation, frame, column) for column in wanted.values())
    if relation == "judgments":
        frame = _settle_scores(frame)
    _refuse_gaps(relation, frame)
    return frame


def _with_defaults(relation: str, frame: pl.DataFrame, run_id: str) -> pl.DataFrame:
    wanted = columns(relation)
    for name, value in {**DEFAULTS, "run_id": run_id}.items():
        if name in wanted:
            filled = pl.col(name).fill_null(value) if name in frame.columns else pl.lit(value)
            frame = frame.with_columns(filled.alias(name))
    if relation == "responses" and {"instance_id", "model"} <= set(frame.columns):
        key = pl.concat_str("instance_id", "model", "setting", "trial", separator="/")
        given = frame.get_column("response_id") if "response_id" in frame.columns else None
        frame = frame.with_columns(response_id=key)
        if given is not None:
            odd = frame.filter(given.is_not_null() & (given != pl.col("response_id")))
            if odd.height:
                bad = given.filter(given != frame["response_id"])[0]
                raise BadRow(
                    f"responses: response_id {bad!r} is not built from its parts; it should be "
                    f"{odd['response_id'][0]!r}. Leave the column out and it is filled in."
                )
    return frame


def _typed(relation: str, frame: pl.DataFrame, column: Column) -> pl.Expr:
    target = _POLARS[column.type]
    if column.name not in frame.columns:
        return pl.lit(None, dtype=target).alias(column.name)
    series = frame.get_column(column.name)
    if column.type == "JSON" and series.dtype != pl.String:
        series = pl.Series(
            column.name, [None if v is None else _json(v) for v in series.to_list()], pl.String
        )
    if series.dtype.is_float():
        series = series.fill_nan(None) if column.name != "score" else series
    try:
        return pl.lit(_cast(series, target, strict=True).alias(column.name))
    except pl.exceptions.PolarsError:
        soft = _cast(series, target, strict=False)
        index = (soft.is_null() & series.is_not_null()).arg_max() or 0
        raise BadRow(
            f"{relation}.{column.name}: row {index + 1} holds {str(series[index])[:80]!r}, "
            f"which is not {_article(column)}."
        ) from None


def _cast(series: pl.Series, target: Any, *, strict: bool) -> pl.Series:
    if series.dtype == pl.String and target == pl.Date:
        return series.str.to_date(strict=strict)
    if series.dtype == pl.String and target == pl.Datetime("us"):
        return series.str.to_datetime(time_unit="us", strict=strict)
    return series.cast(target, strict=strict)


def _settle_scores(frame: pl.DataFrame) -> pl.DataFrame:
    """Judgments in which a score that is no finite number has become an error."""
    odd = pl.col("score").is_not_null() & ~pl.col("score").is_finite()
    return frame.with_columns(
        error=pl.when(odd & pl.col("error").is_null())
        .then(pl.format("score is not a number: {}", pl.col("score")))
        .otherwise("error"),
        score=pl.when(odd).then(None).otherwise("score"),
    )


def _refuse_gaps(relation: str, frame: pl.DataFrame) -> None:
    for column in columns(relation).values():
        series = frame.get_column(column.name)
        if column.is_required and series.null_count():
            index = series.is_null().arg_max() or 0
            raise BadRow(
                f"{relation}.{column.name}: row {index + 1} has no value; every row needs one."
            )
        if column.values:
            odd = series.filter(series.is_not_null() & ~series.is_in(list(column.values)))
            if odd.len():
                raise BadRow(str(UnknownName(column.name, odd[0], column.values, place=relation)))
    if relation == "judgments":
        odd_rows = frame.filter(pl.col("score").is_null() == pl.col("error").is_null())
        if odd_rows.height:
            key = "/".join(str(odd_rows[name][0]) for name in KEYS["judgments"])
            raise BadRow(f"judgments: {key} must have either a score or an error, and not both.")


def _article(column: Column) -> str:
    names = {
        "INTEGER": "a whole number",
        "BIGINT": "a whole number",
        "DOUBLE": "a number",
        "BOOLEAN": "true or false",
        "DATE": "a date (2026-11-30)",
        "TIMESTAMP": "a time (2026-11-30T12:00:00)",
        "JSON": "JSON",
    }
    return names.get(column.type, "a text")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


# ---------------------------------------------------------------- single rows, for journals


def clean(relation: str, row: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """`row` ready for a journal: defaults filled in, only JSON values, nothing unfit.

    The same rules as `fit`, for one row and in microseconds.
    """
    wanted = columns(relation)
    for name in row:
        if name not in wanted:
            raise UnknownColumn(relation, name, wanted)
    row = {**row}
    for name, value in {**DEFAULTS, "run_id": run_id}.items():
        if name in wanted and row.get(name) is None:
            row[name] = value
    if relation == "responses":
        row.setdefault("response_id", response_key(row))
        if row["response_id"] != response_key(row):
            raise BadRow(
                f"responses: response_id {row['response_id']!r} is not built from its parts; "
                f"it should be {response_key(row)!r}."
            )
    result = {name: _value(relation, wanted[name], value) for name, value in row.items()}
    if relation == "judgments":
        score = row.get("score")
        if isinstance(score, float) and not math.isfinite(score):
            result["score"] = None
            result["error"] = result.get("error") or f"score is not a number: {score}"
        if (result.get("score") is None) == (result.get("error") is None):
            key = "/".join(str(row.get(name)) for name in KEYS["judgments"])
            raise BadRow(f"judgments: {key} must have either a score or an error, and not both.")
    for column in wanted.values():
        if column.is_required and result.get(column.name) is None:
            raise BadRow(f"{relation}.{column.name}: the row has no value; every row needs one.")
    return result


def _value(relation: str, column: Column, value: Any) -> Any:
    if value is None:
        return None
    kind = column.type
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    is_fit = True
    if kind == "JSON":
        if isinstance(value, str):
            is_fit = _is_json(value)
        else:
            value = _json(value)
    elif kind in ("VARCHAR", "ENUM"):
        is_fit = isinstance(value, str)
    elif kind in ("INTEGER", "BIGINT"):
        is_fit = is_number and value == value and int(value) == value
        value = int(value) if is_fit else value
    elif kind == "DOUBLE":
        is_fit = is_number
        if is_fit and not math.isfinite(value):
            return None  # judgments.score is settled by the caller
    elif kind == "BOOLEAN":
        is_fit = isinstance(value, bool)
    elif kind in ("DATE", "TIMESTAMP"):
        value = value if isinstance(value, str) else value.isoformat()
    elif kind.endswith("[]"):
        value = list(value)
    if not is_fit:
        raise BadRow(f"{relation}.{column.name}: {str(value)[:80]!r} is not {_article(column)}.")
    if column.values and value not in column.values:
        raise BadRow(str(UnknownName(column.name, value, column.values, place=relation)))
    return value
