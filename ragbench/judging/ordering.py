"""Rules about order: by number, by date, by alphabet, by pinyin or strokes, by frequency."""

# ruff: noqa: SIM905  (word lists read better as words than as quoted words)
from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Literal

from ragbench.errors import BadConstraint
from ragbench.judging import blocks
from ragbench.judging import text as measure
from ragbench.judging.numerals import CHINESE, chinese_number
from ragbench.judging.registry import Verdict, rule

__all__ = ["dates", "number", "numbers", "ordered", "pinyin_key", "stroke_key"]

Key = tuple[Any, ...]

# --- Numbers.

_NUMBER = re.compile(
    r"(?P<sign>(?<![A-Za-z0-9)\]])[-−])?(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d{1,20})?|\d{1,40}(?:\.\d{1,20})?)"
    r"\s?(?P<group>[万亿千百]|million\b|billion\b|thousand\b|[kKmM]\b)?"
    rf"|(?P<chinese>{CHINESE}{{1,20}})"
)
_SCALE = {
    "万": 1e4,
    "亿": 1e8,
    "千": 1e3,
    "百": 1e2,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
}
_SCALE |= {"k": 1e3, "m": 1e6}


def numbers(text: str) -> list[float]:
    """Return the numbers of a text in order: 3, -2.5, 1,200, 3万, 1.5 million, 三百.

    >>> numbers("约1,200元、3万元和三百人，气温-2.5度")
    [1200.0, 30000.0, 300.0, -2.5]
    """
    found = []
    for match in _NUMBER.finditer(measure.fold(text)):
        if match["chinese"]:
            whole = chinese_number(match["chinese"])
            # A lone 一 or 千 is more often a word (一定, 千万) than a number, but not after 第.
            ordinal = text[match.start() - 1 : match.start()] == "第"
            telling = ordinal or len(match["chinese"]) > 1 or match["chinese"] in "三四五六七八九"
            if whole is not None and telling:
                found.append(float(whole))
            continue
        value = float(match["digits"].replace(",", ""))
        value *= _SCALE.get((match["group"] or "").lower(), 1)
        found.append(-value if match["sign"] else value)
    return found


def number(text: str) -> Key | None:
    """Return the first number of a text as a key, None if there is none."""
    found = numbers(text)
    return (found[0],) if found else None


# --- Dates.

_MONTHS = {
    name: place
    for place, names in enumerate(
        "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug"
        "|september sept sep|october oct|november nov|december dec".split("|"),
        start=1,
    )
    for name in names.split()
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_Y, _C = r"(?<!\d)\d{3,4}", r"[〇零○一二三四五六七八九]{4}"
_SMALL = r"(?:\d{1,2}|[一二三四五六七八九十]{1,3})"
_DATE = re.compile(
    rf"(?P<bc>公元前)\s?(?P<bcyear>\d{{1,4}}|{CHINESE}{{1,6}})\s?年"
    rf"|(?P<zy>{_Y}|(?<=公元)\s?\d{{1,2}}|{_C})\s?年(?:度)?(?:\s?(?P<zm>{_SMALL})\s?月(?:份)?(?:\s?(?P<zd>{_SMALL})\s?[日号])?)?"
    rf"|(?P<next>次年|翌年|同年|当年)(?:\s?(?P<nm>{_SMALL})\s?月(?:份)?(?:\s?(?P<nd>{_SMALL})\s?[日号])?)?"
    rf"|(?<![\d月一二三四五六七八九十])(?<!每年)(?P<xm>{_SMALL})\s?月(?:份|\s?(?P<xd>{_SMALL})\s?[日号])?"
    r"|(?P<iy>(?<![\d.])\d{4})(?P<is>[-/.])(?P<im>\d{1,2})(?:(?P=is)(?P<id>\d{1,2}))?(?![\d%])"
    rf"|\b(?P<em>{_MONTH})\b\.?\s(?P<ed>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s(?P<ey>\d{{4}}))?\b"
    rf"|\b(?P<fd>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?(?P<fm>{_MONTH})\b\.?,?(?:\s(?P<fy>\d{{4}}))?"
    rf"|\b(?P<gm>{_MONTH})\b\.?,?\s(?P<gy>\d{{4}})\b"
    r"|(?P<by>(?<![\d.])\d{1,4})\s?(?:BCE?|B\.C\.)"
    r"|(?P<year>(?<![\d.$¥€£])(?<!\d,)(?:1\d|20|21)\d{2}(?![\d%.,]*\d"
    r"|\s?[%元人个名位家件次份条项字页吨米余多百千万亿]"
    r"|\s(?:people|persons|units|words|characters|dollars|yuan|percent|items|copies|employees|times"
    r"|pages|kg|km|m)\b))",
    re.IGNORECASE,
)


def _value(text: str | None) -> int | None:
    if text is None:
        return None
    return int(text) if text.strip().isdecimal() else chinese_number(text)


def dates(text: str, year: int = 0) -> list[Key]:
    """Return the dates of a text in order, each as (year, month, day) as far as it is given.

    Read are 2024年10月28日, 二〇二四年十月, 2024-10-28, 2024/10, 2024.10.28, October 28, 2024,
    28 Oct 2024, 公元前221年, 221 BC, a year alone and 10月. A month or day without a year, 同年 and
    当年 have the year of the date before, `year` at first; 次年 and 翌年 the one after it.

    >>> dates("2024年10月28日，二〇二四年十一月；3 May 2025; 公元前221年")
    [(2024, 10, 28), (2024, 11), (2025, 5, 3), (-221,)]
    """
    found: list[Key] = []
    for match in _DATE.finditer(measure.fold(text)):
        got = match.groupdict()
        if got["bcyear"] or got["by"]:
            found.append((-(_value(got["bcyear"] or got["by"]) or 0),))
            continue
        given = _value(got["zy"] or got["iy"] or got["ey"] or got["fy"] or got["gy"] or got["year"])
        month = got["em"] or got["fm"] or got["gm"]
        numeral = got["zm"] or got["nm"] or got["xm"] or got["im"]
        months = _MONTHS[month.lower()] if month else _value(numeral)
        day = _value(got["zd"] or got["nd"] or got["xd"] or got["id"] or got["ed"] or got["fd"])
        if months is not None and not 1 <= months <= 12:
            continue
        year = given if given is not None else year + (got["next"] in ("次年", "翌年"))
        found.append(tuple(part for part in (year, months, day) if part is not None))
    return found


def _item_dates(items: list[str]) -> list[Key | None]:
    """Return the first date of each item; a day without a year has the year of the item before."""
    keys: list[Key | None] = []
    year = 0
    for item in items:
        found = dates(item, year)
        keys.append(found[0] if found else None)
        year = found[-1][0] if found else year
    return keys


# --- Alphabet, pinyin, strokes.


def _name(text: str) -> str:
    """Return what an item is called: its text up to the first colon, dash or bracket."""
    head = re.split(
        r"[:(,，。;；、]|\s[-–—]\s|—|–", measure.fold(blocks.plain(text[:300])), maxsplit=1
    )[0]
    return head.strip(" \"'“”‘’「」『』《》<>*_`") or blocks.plain(text[:300])


def _alphabet(text: str) -> Key | None:
    name = _name(text).lower()
    return (re.sub(r"[^\w\s]", "", name),) if measure.has_content(name) else None


def pinyin_key(text: str) -> Key | None:
    """Return the syllables of a text without tones; other letters stand as they are, in lower case.

    >>> pinyin_key("重庆"), pinyin_key("AI厦门")
    (('chong', 'qing'), ('ai', 'xia', 'men'))
    """
    try:
        from pypinyin import Style, lazy_pinyin
    except ImportError as error:
        raise BadConstraint("order by pinyin needs pypinyin; reinstall ragbench") from error
    name = re.sub(r"[\ud800-\udfff]", " ", _name(text))[:200]
    syllables = lazy_pinyin(name, style=Style.NORMAL, v_to_u=False)
    key = tuple(re.sub(r"[^\w]", "", part).lower() for part in syllables)
    return tuple(part for part in key if part) or None


@lru_cache(maxsize=1)
def _strokes() -> str:
    raw = files("ragbench.judging").joinpath("strokes.txt").read_text(encoding="ascii")
    return "".join(line for line in raw.splitlines() if not line.startswith("#"))


def strokes(character: str) -> int | None:
    """Return the strokes of a Chinese character (mainland counting), None for any other.

    >>> strokes("陈"), strokes("国"), strokes("A")
    (7, 8, None)
    """
    place = ord(character) - 0x4E00
    table = _strokes()
    return ord(table[place]) - 48 if 0 <= place < len(table) else None


def stroke_key(text: str) -> Key | None:
    """Return the stroke counts of the characters of a name, None if it has no Chinese one."""
    counts = tuple(count for count in map(strokes, _name(text)) if count is not None)
    return counts or None


# --- The rule.

_KEYS: dict[str, Callable[[str], Key | None]] = {
    "numeric": number,
    "alphabetical": _alphabet,
    "pinyin": pinyin_key,
    "strokes": stroke_key,
}


@rule
def ordered(
    text: str,
    *,
    by: Literal["numeric", "chronological", "alphabetical", "pinyin", "strokes", "frequency"],
    descending: bool | None = None,
    of: Literal["items", "lines", "mentions"] = "items",
    context: str | None = None,
) -> Verdict:
    """The items of the lists stand in order; equal neighbours are in order too.

    `of` says what is compared: list `items` of the outermost level (lines, if the text has no
    list), `lines`, or with numbers and dates all `mentions` in the text. Code blocks and headings
    are left out, and so is the number or bullet that opens an item. An item is known by its first
    number, its first date, or its name: what stands before the first colon, comma, dash or bracket.
    Pinyin compares syllables without tones, strokes compare counts character by character.
    Order rises unless `descending` is true; by frequency it falls unless it is false. A frequency
    is how often the name occurs in the context; without one it is the number stated in brackets or
    before 次, 回, 例, times or %, else the first number.
    Fewer than two items pass, marked degenerate; of two or more, items without a number or date are
    passed over, but at least two must have one.

    >>> bool(ordered("- 2019年：立项\\n- 二〇二〇年三月：试点", by="chronological"))
    True
    >>> bool(ordered("1. Apple\\n2. banana\\n3. Cherry", by="alphabetical"))
    True
    >>> bool(ordered("- 重庆\\n- 大连\\n- 厦门", by="pinyin"))
    True
    >>> bool(ordered("- 发热（3次）\\n- 咳嗽（12次）", by="frequency"))
    False
    >>> bool(ordered("- March 2021\\n- May 2019", by="chronological"))
    False
    """
    if of == "mentions" and by in ("numeric", "chronological"):
        whole = "\n".join(_lines(text))
        keys: list[tuple[str, Key | None]] = [
            (str(key), key)
            for key in (dates(whole) if by == "chronological" else [(n,) for n in numbers(whole)])
        ]
    else:
        items = _items(text, of)
        keys = list(zip(items, _keys(items, by, context), strict=True))
    found = [(item, key) for item, key in keys if key is not None]
    if len(found) < 2:
        told = f"{len(keys)} items, {len(found)} with a key"
        return Verdict(len(keys) < 2, f"{told}: nothing to compare", degenerate=len(keys) < 2)
    falls = by == "frequency" if descending is None else descending
    for (before, first), (after, second) in pairwise(found):
        if _greater(second, first) if falls else _greater(first, second):
            return Verdict(False, f"{after[:30]!r} stands after {before[:30]!r}")
    return Verdict(True, f"{len(found)} items in order")


def _keys(items: list[str], by: str, context: str | None) -> list[Key | None]:
    if by == "chronological":
        return _item_dates(items)
    keyed = _frequency(context) if by == "frequency" else _KEYS[by]
    return [keyed(item) for item in items]


def _greater(one: Key, other: Key) -> bool:
    """Return whether one key is above the other; dates compare as far as both are given."""
    return one > other if isinstance(one[0], str) else one[: len(other)] > other[: len(one)]


def _items(text: str, of: str) -> list[str]:
    if of == "items":
        items = blocks.list_items(text)
        least = min((item.indent for item in items), default=0)
        outer = [item.text for item in items if item.indent < least + 2]
        if outer:
            return outer
    return _lines(text)


def _lines(text: str) -> list[str]:
    """Return the lines but code and headings, each without the number or bullet that opens it."""
    found = []
    for line in blocks.lines(text):
        if measure.has_content(line) and not blocks.headings(line):
            items = blocks.list_items(line)
            found.append(items[0].text if items else line)
    return found


_STATED = re.compile(
    r"[(\[]\D{0,6}(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s?(?:次|回|例|times|%|x\b)", re.IGNORECASE
)


def _frequency(context: str | None) -> Callable[[str], Key | None]:
    """Return how frequent an item is: in the context, or by the number it states."""
    if context is not None:
        return lambda item: (len(measure.occurrences(context, _name(item))),)

    def stated(item: str) -> Key | None:
        match = _STATED.search(measure.fold(item))
        return (float(match[1] or match[2]),) if match else number(item)

    return stated
