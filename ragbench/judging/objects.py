"""The JSON object in a judge's reply: where it stands, and whether it can be read one way only."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from unicodedata import decimal

from ragbench.judging.blocks import fenced

Object = dict[str, Any]


def find(
    reply: str, field: str | None, *, beside: Sequence[str] = (), is_truncated: bool = False
) -> tuple[Object | None, str | None, str | None]:
    """The object that holds `field`, how it was found, and None; or None twice and why not.

    How: strict (the whole reply), fence (the last code fence that holds one), object (the last
    balanced one in prose) or repair. Without a `field`, one whose fields are numbers is meant.
    `beside` are other fields that count, if they are there.
    """
    text = reply.strip().lstrip("\ufeff")
    try:
        if (value := _fitting(_strict(text), field)) is not None:
            return value, "strict", None
        if is_truncated:
            return None, None, "truncated: the reply was cut off before its verdict was complete"
        for path, stretches in (("fence", fenced(text)), ("object", _balanced(text))):
            for stretch in reversed(stretches):
                if (value := _fitting(_strict(stretch.strip()), field)) is not None:
                    return value, path, None
        if (value := _fitting(_repaired(text, field, beside), field)) is not None:
            return value, "repair", None
    except Unclear as unclear:
        return None, None, str(unclear)
    wanted = repr(field) if field else "numbered claims"
    return None, None, f"unparsed: no JSON object with {wanted} in the reply"


def said(found: Object, field: str) -> Any:
    """The value of `field`, whatever the case and joints of its name."""
    wanted = _key(field)
    return next((value for key, value in found.items() if _key(key) == wanted), None)


def _fitting(value: object, field: str | None) -> Object | None:
    if not isinstance(value, dict):
        return None
    if field is None:
        fits = any(is_number(key) for key in value)
    else:
        fits = _key(field) in {_key(key) for key in value}
    return value if fits else None


@lru_cache(maxsize=1000)
def _key(name: str) -> str:
    """A name without its case and joints; a number in the digits 0 to 9, without leading zeros."""
    name = name.strip()
    if name.isdecimal():  # ² and ① are digits, but no decimal ones
        return "".join(str(decimal(digit)) for digit in name).lstrip("0") or "0"
    return re.sub(r"[\s_-]+", "_", name.casefold())


def is_number(name: str) -> bool:
    """Whether a name is a number, in the decimal digits of any script."""
    return name.strip().isdecimal()


def numbers(found: Object) -> dict[str, str]:
    """The names that are numbers: in the digits 0 to 9, and as they were written."""
    return {_key(name): name for name in found if is_number(name)}


class Unclear(Exception):
    """A field could be read in more than one way."""


def _doubled(name: str) -> Unclear:
    return Unclear(f"contradiction: {name!r} stands twice in the reply")


def _once(pairs: list[tuple[str, Any]]) -> Object:
    """The object of `pairs`; json would let the last of two fields of one name win."""
    seen: set[str] = set()
    for name, _ in pairs:
        if _key(name) in seen:
            raise _doubled(name)
        seen.add(_key(name))
    return dict(pairs)


def _strict(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None


_LOOKED_AT = 20_000
_UNCLOSED = 100
"""How much of a reply, and how many braces that never close, are looked at."""


def _balanced(text: str) -> list[str]:
    """Stretches from an opening brace to its closing one, outermost; braces in strings are none."""
    text = text[-_LOOKED_AT:]
    found, place, unclosed = [], 0, 0
    while (start := text.find("{", place)) >= 0 and unclosed < _UNCLOSED:
        end = _closing(text, start)
        if end is None:
            place, unclosed = start + 1, unclosed + 1
        else:
            found.append(text[start:end])
            place = end
    return found


_SIGNS = re.compile(r'[{}"]')
_STRING_END = re.compile(r'(?:[^"\\]|\\.)*"', re.DOTALL)


def _closing(text: str, start: int) -> int | None:
    """The place behind the brace that closes the one at `start`."""
    depth, at = 0, start
    while found := _SIGNS.search(text, at):
        at = found.end()
        if found[0] == '"':
            string = _STRING_END.match(text, at)
            if string is None:
                return None
            at = string.end()
        elif found[0] == "{":
            depth += 1
        elif depth == 1:
            return at
        else:
            depth -= 1
    return None


def _repaired(text: str, field: str | None, beside: Sequence[str]) -> object:
    """What json-repair makes of the text between its first and last brace.

    A reply that opens more braces than it closes was cut off, whatever its endpoint said: nothing
    is repaired there, nor where a field stands twice. json-repair drops what it cannot place, so
    that `0 or 1` would be 0 and `1, but not quite` 1: the values that count must stand alone.
    """
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start or end - start > _LOOKED_AT:
        return None
    stretch = text[start : end + 1]
    if text.count("{", start) > stretch.count("}"):
        return None
    places: dict[str, list[int]] = {}
    for found in _NAMES.finditer(stretch):
        places.setdefault(_key(found[1]), []).append(found.end())
    counting = {_key(name) for name in (field, *beside)} if field else filter(str.isdecimal, places)
    for name in counting:
        if len(ends := places.get(name, [])) > 1:
            raise _doubled(name)
        if ends and not _ALONE.match(stretch, ends[0]):
            raise Unclear(f"unparsed: more than one value may be meant by {name!r} in the reply")
    from json_repair import loads  # seldom needed

    try:
        return loads(stretch)
    except (ValueError, RecursionError):
        return None


_NAMES = re.compile(r"(?<!\w)[\"'“”‘’]?([\w-]+(?: [\w-]+)*)[\"'“”‘’]?\s*[:：]")
_ALONE = re.compile(
    r"""\s*(?: "[^"]*" | '[^']*' | [“”][^“”]*[“”] | [‘’][^‘’]*[‘’] | [\w.+-]+ )\s*
    (?: [,，]?\s*[}\]] | [,，]?\s*["'“”‘’]\w[\w -]*["'“”‘’]?\s*[:：] | [,，]\s*\w+\s*[:：] )""",
    re.VERBOSE,
)
"""One value, and behind it the end of the object or the name of another field."""
