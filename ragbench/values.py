"""Single values, read by the type of the column that they are given for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

LIMITS = {"INTEGER": 2**31, "BIGINT": 2**63}
"""Beyond which a whole number does not fit its column."""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return mended(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    raise TypeError


def mended(text: str) -> str:
    """`text` with surrogates joined where they make a pair and replaced where they do not.

    A plain text also where one of another class is given, which may say something else of itself.
    """
    text = str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _number(value: Any) -> float:
    if isinstance(value, str) and "_" in value:
        raise ValueError
    return float(value)


def _whole(value: Any, limit: int) -> int:
    if isinstance(value, str):
        number = int(value.replace("_", "?"))
    else:
        number = int(value)
        if number != value:
            raise ValueError
    if not -limit <= number < limit:
        raise OverflowError
    return number


def _truth(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value not in (0, 1):
        raise ValueError
    return bool(value)


def _date(value: Any) -> str:
    if isinstance(value, datetime):
        value = value.date()
    return (date.fromisoformat(value) if isinstance(value, str) else value).isoformat()


def _time(value: Any) -> str:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, datetime.min.time())
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds")


def _json(value: Any) -> str:
    if isinstance(value, str):
        parsed = json.loads(value)
        if "\\ud" not in value.lower():
            return mended(value)
        value = parsed  # an escaped half of a surrogate pair is no JSON to DuckDB
    return mended(json.dumps(value, ensure_ascii=False, sort_keys=True, default=str))


def _texts(value: Any) -> list[str]:
    if isinstance(value, (str, bytes, Mapping)):
        raise TypeError
    return [_text(item) for item in value]


def _numbers(value: Any) -> list[float]:
    if isinstance(value, (str, bytes, Mapping)):
        raise TypeError
    return [_number(item) for item in value]


READ: dict[str, Callable[[Any], Any]] = {
    "VARCHAR": _text,
    "ENUM": _text,
    "JSON": _json,
    "INTEGER": lambda value: _whole(value, LIMITS["INTEGER"]),
    "BIGINT": lambda value: _whole(value, LIMITS["BIGINT"]),
    "DOUBLE": _number,
    "BOOLEAN": _truth,
    "DATE": _date,
    "TIMESTAMP": _time,
    "VARCHAR[]": _texts,
    "FLOAT[]": _numbers,
}
"""How a value given for a column is read; raises one of `UNFIT`."""
UNFIT = (ValueError, TypeError, ArithmeticError, RecursionError, AttributeError)
