"""Rows made to fit a relation: frames column by column, single rows in microseconds.

Both ways follow the same rules: a number may come as text and a text as a number, NaN and infinity
are no numbers, half a surrogate pair becomes U+FFFD, and what does not fit is refused with its
place. So nothing unfit reaches a journal or the file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from typing import Any

import polars as pl

from ragbench.errors import BadRow, UnknownColumn, UnknownName
from ragbench.relations import (
    DEFAULTS,
    KEYS,
    Column,
    columns,
    journal_schema,
    response_key,
    schema,
)
from ragbench.values import LIMITS, READ, UNFIT

_KINDS = {
    "INTEGER": "a whole number",
    "BIGINT": "a whole number",
    "DOUBLE": "a number",
    "BOOLEAN": "true or false",
    "DATE": "a date (2026-11-30)",
    "TIMESTAMP": "a time (2026-11-30T12:00:00)",
    "JSON": "JSON",
    "VARCHAR[]": "a list of texts",
    "FLOAT[]": "a list of numbers",
}


# ---------------------------------------------------------------- frames


def fit(relation: str, rows: Any, run_id: str) -> pl.DataFrame:
    """`rows` as a frame with every column of `relation`, typed, defaults filled in, NaN gone.

    `rows` is a frame of polars, pandas or Arrow, a mapping of columns, or mappings, one a row.
    Scores that are not numbers become errors. Missing optional columns are null. In a column of
    JSON, structs lose their null fields: polars adds those to make all rows alike.

    Raises:
        UnknownColumn: `rows` has a column that the relation lacks.
        BadRow: a required value is missing, or a value does not fit its column.
    """
    wanted = columns(relation)
    frame = _as_frame(relation, rows, run_id)
    for name in frame.columns:
        if name not in wanted:
            raise UnknownColumn(relation, name, wanted)
    types = schema(relation)
    frame = pl.DataFrame(
        [
            _typed(relation, frame.get_column(name), column, types[name])
            if name in frame.columns
            else pl.repeat(None, frame.height, dtype=types[name], eager=True).alias(name)
            for name, column in wanted.items()
        ]
    )
    frame = _with_defaults(relation, frame, run_id)
    if relation == "judgments":
        frame = _settle_scores(frame)
    _refuse_gaps(relation, frame)
    return frame


def _as_frame(relation: str, rows: Any, run_id: str) -> pl.DataFrame:
    if isinstance(rows, pl.DataFrame):
        return rows
    if isinstance(rows, pl.LazyFrame):
        return rows.collect()
    if hasattr(rows, "__arrow_c_stream__"):
        return pl.DataFrame(rows)
    if isinstance(rows, Mapping):
        rows = _rows_of(relation, rows)
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise BadRow(
            f"{relation}: {type(rows).__name__} given; rows come as a frame or as a list of "
            "mappings, column to value."
        )
    cleaned = []
    for number, row in enumerate(rows, start=1):
        try:
            cleaned.append(clean(relation, row, run_id))
        except BadRow as error:
            raise BadRow(f"row {number}: {error}") from None
    return pl.DataFrame(cleaned, schema=journal_schema(relation))


def _rows_of(relation: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a mapping of columns; a mapping of single values is one row."""
    is_many = [
        hasattr(v, "__len__") and not isinstance(v, (str, bytes, Mapping)) for v in given.values()
    ]
    if not given or not all(is_many):
        return [dict(given)]
    if len({len(values) for values in given.values()}) > 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in given.items())
        raise BadRow(f"{relation}: the columns differ in length ({lengths}); make them equal.")
    return [dict(zip(given, values, strict=True)) for values in zip(*given.values(), strict=True)]


def _typed(relation: str, series: pl.Series, column: Column, target: Any) -> pl.Series:
    """`series` in the type of its column.

    Values are converted one by one where polars would lose something silently: a fraction, the
    difference between true and 2, a struct's own fields.
    """
    kind, given = column.type, series.dtype
    if given.is_float() and column.name != "score":
        series = series.fill_nan(None)
    if (quick := _cast(series, kind, target)) is not None:
        return _finite(quick) if kind == "DOUBLE" and column.name != "score" else quick
    values = []
    for number, value in enumerate(series.to_list(), start=1):
        try:
            if kind == "JSON" and given.is_nested():
                value = _without_nulls(value)
            values.append(None if value is None else READ[kind](value))
        except UNFIT:
            raise BadRow(
                f"{relation}.{column.name}: row {number} holds {_shown(value)}, "
                f"which is not {_article(column)}."
            ) from None
    if kind in ("DATE", "TIMESTAMP"):
        return _times(pl.Series(column.name, values, pl.String), kind)
    series = pl.Series(column.name, values, target)
    return _finite(series) if kind == "DOUBLE" and column.name != "score" else series


def _cast(series: pl.Series, kind: str, target: Any) -> pl.Series | None:
    """`series` converted at once, where that loses nothing; else None."""
    given = series.dtype
    is_plain = not (given.is_nested() or given in (pl.Object, pl.Binary))
    if given == pl.Null or (kind in ("VARCHAR", "ENUM") and is_plain):
        return series.cast(target)
    if kind in LIMITS and given.is_numeric():
        low, high = series.min(), series.max()
        is_whole = given.is_integer() or bool((series == series.round()).all())
        limit = LIMITS[kind]
        if low is None or (is_whole and -limit <= low and high < limit):  # type: ignore[operator]
            return series.cast(target)
        return None
    if kind == "DOUBLE" and (given.is_numeric() or given == pl.Boolean):
        return series.cast(target)
    if kind == "TIMESTAMP" and isinstance(given, pl.Datetime):
        if given.time_zone:
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return series.dt.cast_time_unit("us")
    if kind == "FLOAT[]" and isinstance(given, (pl.List, pl.Array)) and given.inner.is_numeric():
        return series.cast(target)
    return series if given == target and kind != "JSON" else None


def _finite(series: pl.Series) -> pl.Series:
    return series.set(~series.is_finite().fill_null(True), None)


def _times(series: pl.Series, kind: str) -> pl.Series:
    """Dates or times from the text that `clean` makes of them."""
    if kind == "DATE":
        return series.str.to_date("%Y-%m-%d")
    return series.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _with_defaults(relation: str, frame: pl.DataFrame, run_id: str) -> pl.DataFrame:
    for name, value in {**DEFAULTS, "run_id": run_id}.items():
        if name in frame.columns:
            frame = frame.with_columns(pl.col(name).fill_null(value))
    if relation != "responses":
        return frame
    key = pl.concat_str("instance_id", "model", "setting", "trial", separator="/")
    odd = frame.filter(pl.col("response_id") != key).with_columns(_key=key)
    if odd.height:
        raise _misnamed(odd["response_id"][0], odd["_key"][0])
    return frame.with_columns(response_id=key)


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
    for name, column in columns(relation).items():
        series = frame.get_column(name)
        is_made = (relation, name) == ("responses", "response_id")  # of parts that are named then
        if _is_required(relation, column) and series.null_count() and not is_made:
            number = (series.is_null().arg_max() or 0) + 1
            raise BadRow(f"{relation}.{name}: row {number} has no value; every row needs one.")
        if column.values:
            odd = series.filter(series.is_not_null() & ~series.is_in(list(column.values)))
            if odd.len():
                raise BadRow(str(UnknownName(name, odd[0], column.values, place=relation)))
    for name in set(_PARTS) & set(frame.columns) if relation in _KEYED else ():
        odd = frame.get_column(name).drop_nulls()
        odd = odd.filter(odd.str.contains("/", literal=True))
        if odd.len():
            raise _ambiguous(relation, name, odd[0])
    if relation == "judgments":
        odd_rows = frame.filter(pl.col("score").is_null() == pl.col("error").is_null())
        if odd_rows.height:
            raise _undecided(odd_rows.row(0, named=True))


# ---------------------------------------------------------------- single rows


def clean(relation: str, row: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """`row` ready for a journal: defaults filled in, only JSON values, nothing unfit.

    The same rules as `fit`, for one row and in microseconds.
    """
    plain = _plain(relation)
    if not isinstance(row, Mapping):
        raise BadRow(
            f"{relation}: {_shown(row)} is not a row; a row is a mapping, column to value."
        )
    result: dict[str, Any] = {}
    for name, value in row.items():
        if name not in plain:
            raise UnknownColumn(relation, name, columns(relation))
        kind = type(value)
        if kind is plain[name] and (value.isascii() if kind is str else -_FITS < value < _FITS):
            result[name] = value
        else:
            result[name] = (
                None if value is None else _read(relation, columns(relation)[name], value)
            )
    filled, required = _filled(relation)
    for name in filled:
        if result.get(name) is None:
            result[name] = run_id if name == "run_id" else DEFAULTS[name]
    if relation == "judgments":
        _settle_score(result)
    for name in required:
        if result.get(name) is None:
            raise BadRow(f"{relation}.{name}: the row has no value; every row needs one.")
    if relation in _KEYED:
        for name in _PARTS:
            if "/" in (result.get(name) or ""):
                raise _ambiguous(relation, name, result[name])
    if relation == "responses":
        key = response_key(result)
        if result.setdefault("response_id", key) not in (key, None):
            raise _misnamed(result["response_id"], key)
        result["response_id"] = key
    return result


def framed(relation: str, cleaned: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Rows that `clean` gave as a frame with every column of `relation`, typed.

    A fold makes its frames so: `fit` goes through polars' engine, whose code alone takes 20 MB.
    """
    types = schema(relation)
    for name, kind in types.items():
        if kind in _TIMES:
            for row in cleaned:
                row[name] = row.get(name) and _TIMES[kind](row[name])
    return pl.DataFrame(cleaned, schema=types)


_TIMES: dict[Any, Callable[[str], Any]] = {
    pl.Date: date.fromisoformat,
    pl.Datetime("us"): datetime.fromisoformat,
}


@cache
def _filled(relation: str) -> tuple[list[str], list[str]]:
    """Columns that have a value when none is given, and those that must have one."""
    wanted = columns(relation)
    return (
        [name for name in ("run_id", *DEFAULTS) if name in wanted],
        [
            name
            for name, column in wanted.items()
            if _is_required(relation, column) and (relation, name) != ("responses", "response_id")
        ],
    )


@cache
def _plain(relation: str) -> dict[str, type | None]:
    """The type of values that are taken as they are, by column; most are so, and it saves time."""
    return {name: _PLAIN.get(column.type) for name, column in columns(relation).items()}


_PLAIN: dict[str, type] = {
    "VARCHAR": str,
    "INTEGER": int,
    "BIGINT": int,
    "DOUBLE": float,
    "BOOLEAN": bool,
}
_FITS = LIMITS["INTEGER"]


def _read(relation: str, column: Column, value: Any) -> Any:
    if isinstance(value, (float, date)) and value != value and column.name != "score":
        return None  # how pandas says that there is no value: NaN, NaT
    try:
        value = READ[column.type](value)
    except UNFIT:
        raise BadRow(
            f"{relation}.{column.name}: {_shown(value)} is not {_article(column)}."
        ) from None
    if column.values and value not in column.values:
        raise BadRow(str(UnknownName(column.name, value, column.values, place=relation)))
    if column.type == "DOUBLE" and column.name != "score" and not math.isfinite(value):
        return None
    return value


def _settle_score(row: dict[str, Any]) -> None:
    score = row.get("score")
    if score is not None and not math.isfinite(score):
        row["score"] = None
        named = "NaN" if math.isnan(score) else score  # as polars writes it
        row["error"] = row.get("error") or f"score is not a number: {named}"
    if (row.get("score") is None) == (row.get("error") is None):
        raise _undecided(row)


def _is_required(relation: str, column: Column) -> bool:
    return column.is_required and relation != "study"  # whose one row is there from the start


_KEYED = ("instances", "wanted", "responses")
_PARTS = ("instance_id", "setting")
"""Parts of a response_id that hold no slash, so that no two responses share one; models may."""


def _ambiguous(relation: str, name: str, value: str) -> BadRow:
    return BadRow(
        f"{relation}.{name}: {value!r} holds a slash, which separates the parts of a response_id. "
        "Write it with another sign."
    )


def _misnamed(given: str, key: str) -> BadRow:
    return BadRow(
        f"responses: response_id {given!r} is not built from its parts; it should be {key!r}. "
        "Leave the column out and it is filled in."
    )


def _undecided(row: Mapping[str, Any]) -> BadRow:
    key = "/".join(str(row.get(name)) for name in KEYS["judgments"])
    return BadRow(f"judgments: {key} must have either a score or an error, and not both.")


def _article(column: Column) -> str:
    return _KINDS.get(column.type, "a text")


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # such as a number of more digits than Python writes
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:79] + "…"
