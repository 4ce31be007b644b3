"""Numbers as constraints and answers write them: digits, Chinese numerals, English words."""

# ruff: noqa: SIM905  (word lists read better as words than as quoted words)
from __future__ import annotations

import re
from collections.abc import Iterator

from ragbench.judging.text import fold

__all__ = ["bounds_stated", "chinese_number", "numbers_stated", "vague_quantity"]

_DIGITS = {c: v for v, c in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "○": 0}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_GROUPS = {"万": 10**4, "亿": 10**8}
CHINESE = r"[零〇一二三四五六七八九两十百千万亿]"


def chinese_number(text: str) -> int | None:
    """Return the value of a Chinese numeral, or None if it is none.

    >>> chinese_number("三百零五"), chinese_number("二〇二四"), chinese_number("十二")
    (305, 2024, 12)
    >>> chinese_number("两万"), chinese_number("一百五"), chinese_number("几")
    (20000, 150, None)
    """
    if not text or len(text) > 40:
        return None
    if any(c not in _DIGITS and c not in _UNITS and c not in _GROUPS for c in text):
        return None
    if all(c in _DIGITS for c in text):
        return int("".join(str(_DIGITS[c]) for c in text))
    total = section = digit = 0
    last_unit = 1
    for character in text:
        if character in _DIGITS:
            digit = _DIGITS[character]
            last_unit = 1 if character in "零〇○" else last_unit
        elif character in _UNITS:
            section += (digit or 1) * _UNITS[character]
            digit, last_unit = 0, _UNITS[character]
        else:
            group = _GROUPS[character]
            part = section + digit
            # 一亿二千万 adds to what stands before, 十万亿 multiplies it.
            total = total + part * group if total >= group else (total + part) * group
            section, digit, last_unit = 0, 0, group
    # 一百五 is 150 and 三万五 35,000: a last digit without a unit takes the next one down.
    trailing = digit * (last_unit // 10) if last_unit > 10 else digit
    return total + section + trailing


_ONES = {
    word: value
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
        "fifteen sixteen seventeen eighteen nineteen".split()
    )
}
_TENS = {
    word: 10 * value
    for value, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)
}
_OTHER = {
    "once": 1, "twice": 2, "thrice": 3, "single": 1, "dozen": 12, "first": 1, "second": 2,
    "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
    "tenth": 10,
}  # fmt: skip
_WORD = "|".join(sorted([*_ONES, *_TENS, *_OTHER], key=len, reverse=True))
_SCALES = {"hundred": 100, "thousand": 1000, "百": 100, "千": 1000, "万": 10000, "k": 1000}
_STATED = re.compile(
    r"(?P<digits>(?<![A-Za-z0-9_.])(?:\d{1,3}(?:,\d{3})+|\d{1,9}(?:\.\d{1,4}(?=\s?[百千万k]))?)"
    r"(?!\d|\.\d))(?:\s?(?P<scale>[百千万]|k\b))?"
    rf"|(?P<chinese>{CHINESE}{{1,12}})"
    rf"|\b(?P<words>(?:{_WORD})(?:(?:[\s-]|\sand\s)(?:{_WORD}|hundred|thousand))*|a\s(?:hundred|thousand|dozen))\b",
    re.IGNORECASE,
)
# Words that hold a numeral and state none.
_NO_NUMBER = re.compile(
    r"[一万]定|统一|一致|唯一|一般|一些|一律|一并|一旦|一直|一样|一切|一起|一边|进一步|一系列|一方面|之一|任一|逐一"
    r"|第一人称|第二人称|第三人称|第三方|三方|十分|千万|万一|百分之|一句话|一目了然|一一|单一|同一|某一|每一|任何一"
    r"|\bno one\b|\bone (?:of|another)\b|\beach one\b|\bany one\b|\bsomeone\b"
    r"|\bthe (?:first|third) person\b"
    r"|\bfirst[- ]person\b|\bthird[- ]person\b|\bsecond[- ]person\b|\bat first\b|\bfirst,",
    re.IGNORECASE,
)


def _english(text: str) -> int:
    total = current = 0
    for word in re.split(r"[\s-]+", text.lower()):
        if word in ("and", "a"):
            current = current or (1 if word == "a" else 0)
        elif word in ("hundred", "dozen"):
            current = (current or 1) * (100 if word == "hundred" else 12)
        elif word == "thousand":
            total, current = total + (current or 1) * 1000, 0
        else:
            current += _ONES.get(word, _TENS.get(word, _OTHER.get(word, 0)))
    return total + current


def _stated(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield each whole number stated, with where it begins and ends."""
    bare = _NO_NUMBER.sub(lambda match: "\u0001" * len(match.group()), fold(text))
    for match in _STATED.finditer(bare):
        if match["digits"]:
            scale = _SCALES.get((match["scale"] or "").lower(), 1)
            value: int | None = round(float(match["digits"].replace(",", "")) * scale)
        elif match["chinese"]:
            value = chinese_number(match["chinese"])
        else:
            value = _english(match["words"])
        if value is not None:
            yield value, match.start(), match.end()


def numbers_stated(text: str) -> list[int]:
    """Return the whole numbers a constraint states, in order.

    >>> numbers_stated("不超过三百字，分３点"), numbers_stated("统一格式，第一人称")
    ([300, 3], [])
    >>> numbers_stated("at least two hundred and fifty words")
    [250]
    """
    return [value for value, _, _ in _stated(text)]


_BEFORE = (
    ("at least", "至少|不少于|不低于|不得少于|不得低于|最少|起码"
                 "|at least|no (?:fewer|less) than|minimum(?: of)?|or more"),
    ("at most", "至多|最多|不超过|不多于|不得超过|不得多于|不高于|以内"
                "|at most|no more than|not exceed(?:ing)?|up to|maximum(?: of)?"),
    ("below", r"少于|低于|小于|不足|不到|fewer than|less than|under|below"),
    ("above", r"超过|多于|大于|高于|more than|over|above|exceed(?:ing)?"),
)  # fmt: skip
_LEADS = [(told, re.compile(rf"(?:{words})\s*$", re.IGNORECASE)) for told, words in _BEFORE]
_FOLLOWS = [
    (
        "at least",
        re.compile(r"\s*(?:\+|or more|以上|及以上|个以上|字以上|条以上|句以上|词以上|次以上)"),
    ),
    ("at most", re.compile(r"\s*(?:or (?:fewer|less)|以内|之内|以下|.{1,2}(?:以内|之内|以下))")),
]


def bounds_stated(text: str) -> list[tuple[int, str]]:
    """Return each number with the bound it is stated as: at least, at most, below, above or ''.

    >>> bounds_stated("不超过300字"), bounds_stated("Use at least two quotes, fewer than 5 lists")
    ([(300, 'at most')], [(2, 'at least'), (5, 'below')])
    """
    folded = fold(text)
    found = []
    for value, start, end in _stated(text):
        lead = next(
            (told for told, words in _LEADS if words.search(folded[max(0, start - 24) : start])), ""
        )
        follow = next((told for told, words in _FOLLOWS if words.match(folded[end : end + 12])), "")
        found.append((value, lead or follow))
    return found


_VAGUE = re.compile(
    r"\b(?:a few|a couple|several|some|many|multiple|various|a number of)\b"
    r"|若干|几[个条点句次段项]|多[个条点句次段项]|一些|数[个条点句次段项]",
    re.IGNORECASE,
)


def vague_quantity(text: str) -> str | None:
    """Return the first words that ask for a quantity without saying which, None if there are none.

    >>> vague_quantity("Use a few bullets"), vague_quantity("列出若干要点")
    ('a few', '若干')
    """
    match = _VAGUE.search(fold(text))
    return match.group() if match else None
