"""What every statistic shares: reading its inputs, and the one-row frame it returns."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ragbench.errors import RagbenchError, UnknownColumn, UnknownName

Array = np.ndarray[Any, Any]

ALTERNATIVES = ("two-sided", "greater", "less")


class Pairs(NamedTuple):
    """Two aligned sides without gaps, and how many pairs a gap cost."""

    x: Array
    y: Array
    lost: int


def one_row(schema: Mapping[str, Any], values: Mapping[str, Any]) -> pl.DataFrame:
    """One row in the columns of `schema`: what is missing, NaN or infinite becomes null."""
    extra = values.keys() - schema.keys()
    if extra:
        raise RagbenchError(f"result has undeclared columns: {', '.join(sorted(extra))}.")
    return pl.DataFrame(
        [{name: _plain(values.get(name)) for name in schema}], schema=dict(schema), orient="row"
    )


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def quiet() -> Iterator[None]:
    """Around a library call whose doubtful results are found and labelled here: no warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def columns(kind: Any, names: str) -> dict[str, Any]:
    """A piece of a schema: every name in `names`, separated by blanks, has type `kind`."""
    return dict.fromkeys(names.split(), kind)


def notes(*parts: str | bool | None) -> str | None:
    """The parts that are texts, joined; null when there are none."""
    return "; ".join(part for part in parts if isinstance(part, str) and part) or None


def lost_note(lost: int, what: str = "pair") -> str | None:
    """How many pairs or targets a missing value cost."""
    return (
        f"{lost} {what}{'s' if lost != 1 else ''} with a missing value left out" if lost else None
    )


def chosen(what: str, value: str, allowed: Sequence[str], place: str) -> str:
    """`value` if it is one of `allowed`."""
    if value not in allowed:
        raise UnknownName(what, value, allowed, place=place)
    return value


def whole(value: Any, name: str, place: str) -> int:
    """A count: a whole number of at least 0."""
    is_number = isinstance(value, numbers.Real) or hasattr(value, "__index__")
    if not is_number or not math.isfinite(value) or value < 0 or value != int(value):
        raise RagbenchError(f"{place}: {name} must be a count (0, 1, 2, …), not {value!r}.")
    return int(value)


def share(value: float, name: str, place: str) -> float:
    """A number strictly between 0 and 1."""
    if not 0 < value < 1:
        raise RagbenchError(f"{place}: {name} must lie between 0 and 1, not {value!r}.")
    return float(value)


def floats(values: Any, place: str) -> Array:
    """A one-dimensional float array; null and NaN both become NaN."""
    try:
        if isinstance(values, Mapping | Set):
            raise TypeError(f"a {type(values).__name__} has no order")
        if isinstance(values, pl.Series):
            if values.dtype == pl.String:
                raise TypeError("text")
            array = values.cast(pl.Float64).to_numpy()
        else:
            listed = values if isinstance(values, np.ndarray) else list(values)
            if isinstance(listed, list) and any(isinstance(v, str | bytes) for v in listed):
                raise TypeError("text")
            array = np.asarray(listed, dtype=float)
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise RagbenchError(
            f"{place} takes a sequence of numbers or yes/no values; these cannot be read: {error}."
        ) from None
    if array.ndim != 1:
        raise RagbenchError(f"{place} takes one value per pair, not a table of {array.shape}.")
    if np.isinf(array).any():
        raise RagbenchError(f"{place}: a value is infinite; leave it null when it is unknown.")
    return array


def paired_values(x: Any, y: Any, place: str) -> Pairs:
    """Both sides as float arrays, aligned, pairs with a gap left out.

    Mappings are paired by key, anything else by position.
    """
    x, y = _aligned(x, y, place)
    first, second = floats(x, place), floats(y, place)
    if len(first) != len(second):
        raise _unequal(len(first), len(second), place)
    kept = ~(np.isnan(first) | np.isnan(second))
    lost = len(first) - int(kept.sum())
    return Pairs(first[kept], second[kept], lost) if lost else Pairs(first, second, 0)


def paired_labels(x: Any, y: Any, place: str) -> tuple[list[Any], list[Any], int]:
    """Both sides as lists of labels of any kind, aligned, pairs with a gap left out."""
    x, y = _aligned(x, y, place)
    first, second = list(x), list(y)
    if len(first) != len(second):
        raise _unequal(len(first), len(second), place)
    for label in (*first, *second):
        if not isinstance(label, Hashable):
            raise RagbenchError(f"{place}: a label is one value, not {label!r}.")
    both = [
        (a, b) for a, b in zip(first, second, strict=True) if not (is_missing(a) or is_missing(b))
    ]
    return [a for a, _ in both], [b for _, b in both], len(first) - len(both)


def is_missing(value: Any) -> bool:
    """Null or NaN."""
    return value is None or (isinstance(value, numbers.Real) and math.isnan(value))


def _aligned(x: Any, y: Any, place: str) -> tuple[Any, Any]:
    if isinstance(x, Mapping) != isinstance(y, Mapping):
        raise RagbenchError(f"{place}: give both sides by instance, or both as sequences.")
    if not isinstance(x, Mapping):
        return x, y
    apart = x.keys() ^ y.keys()
    if apart:
        some = ", ".join(repr(key) for key in sorted(apart, key=str)[:3])
        raise RagbenchError(
            f"{place} compares the same instances; {len(apart)} are on one side only ({some}). "
            "Keep those that both sides have, and say how many were lost."
        )
    return list(x.values()), [y[key] for key in x]


def _unequal(first: int, second: int, place: str) -> RagbenchError:
    return RagbenchError(
        f"{place} compares the same instances, but one side has {first} values and the other "
        f"{second}. Join the sides by instance first."
    )


def rating_table(
    ratings: Any,
    place: str,
    target: str | None = None,
    rater: str | None = None,
    rating: str | None = None,
) -> pl.DataFrame:
    """One row per target, one column per rater; from such a table, or from a long frame.

    A long frame is told by naming its columns `target`, `rater`, `rating`; a target rated twice
    by one rater is refused, since averaging would hide it.
    """
    named = [name for name in (target, rater, rating) if name is not None]
    if named and len(named) < 3:
        raise RagbenchError(f"{place}: a long frame needs target, rater and rating, all three.")
    table = _widened(ratings, place, *named) if named else _as_table(ratings, place)
    for name, kind in table.schema.items():
        if kind.is_nested() or kind == pl.Object:
            raise RagbenchError(f"{place}: a rating is one value, but column {name!r} is {kind}.")
    return table


def _as_table(ratings: Any, place: str) -> pl.DataFrame:
    if isinstance(ratings, pl.DataFrame):
        return ratings
    if isinstance(ratings, Mapping | Set | str) or hasattr(ratings, "columns"):
        raise RagbenchError(
            f"{place} takes rows of ratings or a polars frame, not a {type(ratings).__name__}."
        )
    rows = [list(row) for row in ratings]
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise RagbenchError(
            f"{place}: every target needs one cell per rater (null where not rated), but rows "
            f"have {' and '.join(map(str, widths))} cells."
        )
    return pl.DataFrame(
        {str(j): pl.Series([_cell(row[j]) for row in rows], strict=False) for j in range(*widths)}
        if widths
        else {}
    )


def _cell(value: Hashable) -> Any:
    return value.item() if hasattr(value, "item") else value


def _widened(frame: Any, place: str, target: str, rater: str, rating: str) -> pl.DataFrame:
    if not isinstance(frame, pl.DataFrame):
        raise RagbenchError(f"{place}: target, rater and rating name columns of a polars frame.")
    for name in (target, rater, rating):
        if name not in frame.columns:
            raise UnknownColumn(f"the frame given to {place}", name, frame.columns)
    twice = frame.group_by(target, rater).len().filter(pl.col("len") > 1).sort(target, rater)
    if twice.height:
        cell = twice.row(0, named=True)
        raise RagbenchError(
            f"{place}: {rater} {cell[rater]!r} rated {target} {cell[target]!r} {cell['len']} "
            "times; choose one, or average repeats yourself."
        )
    return (
        frame.select(target, rater, rating).pivot(rater, index=target, values=rating).drop(target)
    )


def number_table(table: pl.DataFrame, place: str) -> Array:
    """A rating table as floats, NaN where there is no rating."""
    for name, kind in table.schema.items():
        if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
            raise RagbenchError(
                f"{place} takes numbers, but column {name!r} holds {kind}. Drop it, or name "
                "target, rater and rating of a long frame."
            )
    if not table.width:
        return np.empty((0, 0))
    numbers_only = table.select(pl.all().cast(pl.Float64).fill_nan(None)).to_numpy().astype(float)
    if np.isinf(numbers_only).any():
        raise RagbenchError(f"{place}: a rating is infinite; leave it null when it is unknown.")
    return numbers_only
