"""The JSON object in a judge's reply: where it stands, and whether it can be read one way only."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any
from unicodedata import decimal

from ragbench.judging.blocks import fenced
from ragbench.judging.text import fold

Object = dict[str, Any]

Means = Callable[[Any], Any]
"""What a value means, so that `"Yes"` and `true` can be seen to be the same."""


def find(
    reply: str,
    field: str | None,
    means: Means,
    *,
    beside: Sequence[str] = (),
    is_truncated: bool = False,
) -> tuple[Object | None, str | None, str | None]:
    """The object that holds `field`, how it was found, and None; or None twice and why not.

    How: strict (the whole reply), fence (the last code fence that holds one), object (the last
    balanced one in prose) or repair. Without a `field`, one whose fields are numbers is meant.
    A draft before it does not count; whatever says otherwise behind it does. `beside` are other
    fields that count, if they are there.
    """
    text = reply.strip().lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        if (value := _fitting(_strict(text), field)) is not None:
            return value, "strict", None
        if is_truncated:
            return None, None, "truncated: the reply was cut off before its verdict was complete"
        for path, stretches in (("fence", fenced(text)), ("object", _balanced(text))):
            for stretch in reversed(stretches):
                if (value := _fitting(_strict(stretch.strip()), field)) is not None:
                    before, _, after = text.rpartition(stretch)
                    _refuse_glued(value, before, field, means)
                    _refuse_corrected(value, after, field, means)
                    return value, path, None
        if (value := _fitting(_repaired(text, field, beside), field)) is not None:
            _refuse_corrected(value, text[text.rfind("}") :], field, means)
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


def _refuse_glued(found: Object, before: str, field: str | None, means: Means) -> None:
    """Raise where an object in a row with `found` says otherwise, and so is no draft of it.

    Nor is one that numbers more claims: what `found` says of some is then a correction.
    """
    is_glued, end = True, len(before)
    there = {_key(name) for name in found}
    for stretch in reversed(_balanced(before)):
        start = before.rfind(stretch, 0, end)
        is_glued = is_glued and not before[start + len(stretch) : end].strip(_JOINTS)
        end = start
        if field and not is_glued:
            return
        other = _fitting(_strict(stretch), field) or {}
        names = {_key(field)} if field and other else numbers(other).keys()
        if (is_glued or not names <= there) and any(
            means(said(found, name)) != means(said(other, name)) for name in names & there
        ):
            raise Unclear("contradiction: two objects of the reply deny each other")


_JOINTS = " \n\t,;[]"
"""What may stand between objects in a row or in a list."""


def _refuse_corrected(found: Object, after: str, field: str | None, means: Means) -> None:
    """Raise where the text behind `found` gives its field again and not with the same value.

    What it says of the field in prose, where no value can be read, explains the verdict.
    """
    for name, values in given(after, field, is_json=True):
        again = {meaning for meaning in map(means, values) if meaning is not None}
        if means(said(found, name)) not in again and (again or "{" in after):
            raise Unclear(f"contradiction: {name!r} stands again behind the verdict")


# ---------------------------------------------------------------- fields in any text


def given(
    text: str, field: str | None, *, is_json: bool = False
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each place where `text` puts a value behind `field`: the name, and what the value may be.

    All that a reader of JSON or its repair could take for the field is found: escapes, case,
    width, joints and quotes make no difference, and unless `is_json` nor does prose (`is`, `=`).
    Without a `field`, numbers in quotes or braces are meant. The time is linear in the text.
    """
    plain = " ".join(fold(_ESCAPE.sub(_unescaped, text)).casefold().split())
    if field is not None:
        for found in _behind(field).finditer(plain):
            if found[1] == ":" or not is_json:
                yield field, (found[2], found[3])
        return
    brace = plain.find("{")
    for found in _NUMBERED.finditer(plain):
        if found[1] or 0 <= brace < found.start(2):
            yield _key(found[1] or found[2]), (found[3], found[4])


_ESCAPE = re.compile(r"\\++(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|[bfnrt])?")


def _unescaped(found: re.Match[str]) -> str:
    digits = found[1] or found[2]
    if digits:
        return chr(int(digits, 16))
    return "" if found[0].endswith("\\") else " "  # before another character it stands for that


_QUOTE = "[\"'“”‘’]"
_MARKS = "[\"'“”‘’`* ]*+"
_VALUE = r"(?=([^\"'“”‘’`*]{0,400}))(?=([^\"'“”‘’`* ,;。}\]]{0,400}))"
"""What may be a value: all up to the next quote, and its first word."""

_NUMBERED = re.compile(
    rf"(?:{_QUOTE} ?(\d++) ?{_QUOTE}|(?<=[{{,\"'“”‘’]) ?(\d++) ?{_QUOTE}?) ?: ?{_MARKS}{_VALUE}"
)


@lru_cache(maxsize=100)
def _behind(field: str) -> re.Pattern[str]:
    name = "[ _-]*+".join(map(re.escape, _key(fold(field)).split("_")))
    return re.compile(rf"(?<![a-z0-9_]){name}(?![a-z0-9_]){_MARKS}([:=为是→]|->){_MARKS}{_VALUE}")


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
    that `0 or 1` would be 0, `1, but not quite` 1, and `-1` before a name without quotes 1: the
    values that count must stand alone, and are taken from where they stand. It finds names where
    no colon follows, too: those are left out.
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
        is_bare = found.start() == found.start(1) and is_number(found[1])
        if field is None and is_bare and stretch[: found.start()].rstrip()[-1:] not in "{,，":
            raise Unclear(f"unparsed: {found[1]} may be a value or a name in the reply")
    counting = {_key(name) for name in (field, *beside)} if field else filter(str.isdecimal, places)
    stands: Object = {}
    for name in counting:
        if len(ends := places.get(name, [])) > 1:
            raise _doubled(name)
        if not ends:
            continue
        if (alone := _ALONE.match(stretch, ends[0])) is None:
            raise Unclear(f"unparsed: more than one value may be meant by {name!r} in the reply")
        is_json = alone[1].startswith('"')
        stands[name] = _strict(alone[1]) if is_json else alone[1].strip("'“”‘’")
    from json_repair import loads  # seldom needed

    try:
        made = loads(stretch)
    except (ValueError, RecursionError):
        return None
    if not isinstance(made, dict):
        return None
    return {k: stands.get(_key(k), value) for k, value in made.items() if _key(k) in places}


_NAMES = re.compile(
    rf"(?<![\w.\\-])(?:{_QUOTE}\s*+)?([\w-]++(?: [\w-]++)*+)(?:\s*+{_QUOTE})?+\s*+[:：]"
)
_ALONE = re.compile(
    r"""\s*( "[^"]*" | '[^']*' | [“”][^“”]*[“”] | [‘’][^‘’]*[‘’]
        | [+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)? | [^\W\d_]\w*\.? )\s*
    (?: [,，]?\s*} | [,，]?\s*["'“”‘’]\w[\w -]*["'“”‘’]?\s*[:：] | [,，]\s*\w+\s*[:：] )""",
    re.VERBOSE,
)
"""One value, and behind it the end of the object or the name of another field."""
