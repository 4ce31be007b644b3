"""Rules about what a text says: its length, terms, first and last words and vocabulary."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ragbench.judging import blocks
from ragbench.judging import text as measure
from ragbench.judging.registry import Extra, Verdict, rule
from ragbench.judging.sentences import sentences

__all__ = [
    "bounded",
    "ends_with",
    "every_nth_word",
    "fixed_sentence",
    "forbidden_terms",
    "keyword_frequency",
    "length",
    "required_terms",
    "starts_with",
    "vocabulary",
]


def bounded(count: int, what: str, at_least: int | None, at_most: int | None) -> Verdict:
    """Return whether a count lies within its bounds, and the count as the reason."""
    low, high = at_least is not None, at_most is not None
    asked = " and ".join(
        [f"at least {at_least}"] * low + [f"at most {at_most}"] * high if low or high else ["any"]
    )
    passed = (not low or count >= (at_least or 0)) and (not high or count <= (at_most or 0))
    trivial = passed and not at_least and not high
    return Verdict(passed, f"{count} {what}, {asked} asked", degenerate=trivial)


def some_bound(params: Mapping[str, Any]) -> Sequence[str]:
    """Return a problem when a counting rule is given neither bound."""
    if "at_least" in params or "at_most" in params:
        return []
    return ["give at_least, at_most or both"]


def no_blank(key: str) -> Extra:
    """Return a test that the argument, or each text of its list, holds something visible."""

    def problems(params: Mapping[str, Any]) -> Sequence[str]:
        value = params.get(key)
        values = [value] if isinstance(value, str) else value or []
        return [f"{key} holds a blank text"] if any(not part.strip() for part in values) else []

    return problems


_UNITS: dict[str, Callable[[str], int]] = {
    "characters": measure.characters,
    "characters_with_punctuation": measure.characters_with_punctuation,
    "words": lambda text: len(measure.words(text)),
    "mixed": lambda text: len(measure.words(text)),
    "sentences": lambda text: len(sentences(text)),
    "paragraphs": lambda text: len(blocks.paragraphs(text)),
}


@rule("length", some_bound)
def length(
    text: str,
    *,
    unit: Literal[
        "characters", "characters_with_punctuation", "words", "mixed", "sentences", "paragraphs"
    ],
    at_least: int | None = None,
    at_most: int | None = None,
) -> Verdict:
    """The text has between `at_least` and `at_most` units, both bounds included.

    `characters` are letters and digits (字数 without punctuation), `characters_with_punctuation`
    all that is visible. `words` and `mixed` are one measure: each Chinese character is one, each
    word or number of a spaced script is one.

    >>> bool(length("无法回答您的问题。", unit="characters", at_most=8))
    True
    >>> bool(length("用Python写3行", unit="mixed", at_least=5, at_most=5))
    True
    >>> bool(length("The rate is 3.14 percent. OK.", unit="sentences", at_most=2))
    True
    >>> bool(length("根据现有资料，无法直接回答您的问题。", unit="characters", at_most=10))
    False
    >>> bool(length("第一句。第二句！第三句？", unit="sentences", at_most=2))
    False
    >>> bool(length("Too short.", unit="words", at_least=3))
    False
    """
    return bounded(_UNITS[unit](text), unit.replace("_", " "), at_least, at_most)


def _found(text: str, terms: Sequence[str], case_sensitive: bool, match: str) -> dict[str, int]:
    """Return where each term that occurs first occurs."""
    places = {
        term: measure.occurrences(
            text, term, case_sensitive=case_sensitive, whole_words=match == "words"
        )
        for term in terms
    }
    return {term: found[0] for term, found in places.items() if found}


def _excerpt(text: str, place: int, width: int = 12) -> str:
    start = max(0, place - width)
    return repr(text[start : place + width])


@rule("forbidden_terms", no_blank("terms"))
def forbidden_terms(
    text: str,
    *,
    terms: list[str],
    case_sensitive: bool = False,
    match: Literal["words", "substring"] = "words",
) -> Verdict:
    """None of the `terms` occurs; punctuation may be forbidden too, in either width.

    A term that begins or ends with a letter or digit of a spaced script is found as whole words
    only, unless `match` is `substring`; Chinese and punctuation are found anywhere.

    >>> bool(forbidden_terms("We start at noon", terms=["art"]))
    True
    >>> bool(forbidden_terms("好消息。", terms=["!", "坏"]))
    True
    >>> bool(forbidden_terms("Modern art.", terms=["art"]))
    False
    >>> bool(forbidden_terms("好消息！", terms=["!"]))
    False
    """
    found = _found(text, terms, case_sensitive, match)
    if not found:
        return Verdict(True, f"none of {len(terms)} terms found", degenerate=not terms)
    term, place = min(found.items(), key=lambda pair: pair[1])
    return Verdict(False, f"{term!r} at character {place}: {_excerpt(text, place)}")


@rule("required_terms", no_blank("terms"))
def required_terms(
    text: str,
    *,
    terms: list[str],
    at_least: int | None = None,
    case_sensitive: bool = False,
    match: Literal["words", "substring"] = "words",
) -> Verdict:
    """All of the `terms` occur, or `at_least` so many of them; matching as in forbidden_terms.

    >>> bool(required_terms("我们采用ＡＩ２系统", terms=["AI2"]))
    True
    >>> bool(required_terms("Cite the statute and the court.", terms=["statute", "Court"]))
    True
    >>> bool(required_terms("We start at noon", terms=["art"]))
    False
    >>> bool(required_terms("①系统", terms=["1"]))
    False
    """
    wanted = list(dict.fromkeys(terms))
    found = _found(text, wanted, case_sensitive, match)
    needed = len(wanted) if at_least is None else at_least
    missing = [term for term in wanted if term not in found]
    told = f"{len(found)} of {len(wanted)} terms found"
    if len(found) < needed:
        return Verdict(False, f"{told}; missing {', '.join(map(repr, missing))}")
    nothing_else = bool(wanted) and not measure.has_content(_without(text, wanted))
    return Verdict(True, told, degenerate=needed == 0 or nothing_else)


def _without(text: str, terms: Sequence[str]) -> str:
    rest = measure.fold(text).lower()
    for term in sorted(terms, key=len, reverse=True):
        rest = rest.replace(measure.fold(term).lower(), " ")
    return rest


@rule("keyword_frequency", some_bound, no_blank("term"))
def keyword_frequency(
    text: str,
    *,
    term: str,
    at_least: int | None = None,
    at_most: int | None = None,
    case_sensitive: bool = False,
    match: Literal["words", "substring"] = "words",
) -> Verdict:
    """The `term` occurs between `at_least` and `at_most` times, overlaps not counted.

    >>> bool(keyword_frequency("风险可控，风险较低。", term="风险", at_least=2))
    True
    >>> bool(keyword_frequency("Risk? No risk.", term="risk", at_least=2, at_most=2))
    True
    >>> bool(keyword_frequency("风险可控，风险较低。", term="风险", at_most=1))
    False
    >>> bool(keyword_frequency("Risky business", term="risk", at_least=1))
    False
    """
    count = len(
        measure.occurrences(text, term, case_sensitive=case_sensitive, whole_words=match == "words")
    )
    verdict = bounded(count, f"times {term!r}", at_least, at_most)
    if verdict.passed and at_least and not measure.has_content(_without(text, [term])):
        return Verdict(True, f"{verdict.reason}; the text holds nothing else", degenerate=True)
    return verdict


def _edge(text: str, case_sensitive: bool) -> str:
    folded = " ".join(measure.fold(text).split())
    return folded if case_sensitive else folded.lower()


_EMPHASIS = re.compile(r"(?<!\*)\*+(?=[^\s*])|(?<=[^\s*])\*+|__|`+")


def _bare(text: str, wanted: str) -> str:
    """Return a folded text without emphasis and leading # and >, unless `wanted` has such marks."""
    if re.search(r"[*`#>]|__", wanted):
        return measure.fold(text)
    return _EMPHASIS.sub("", re.sub(r"^[\s#>]+", "", measure.fold(text)))


@rule("starts_with", no_blank("prefix"))
def starts_with(
    text: str,
    *,
    prefix: str,
    case_sensitive: bool = False,
    match: Literal["words", "substring"] = "words",
) -> Verdict:
    """The text, leading white space aside, begins with `prefix`.

    Marks of emphasis, and the # of a heading or the > of a quote before the first word, are set
    aside unless `prefix` has such marks; quotation marks, bullets and list numbers count. Its last
    word may not run on (Dear is not Dearest) unless `match` is `substring`.

    >>> bool(starts_with("**尊敬的客户**：您好", prefix="尊敬的客户:"))
    True
    >>> bool(starts_with("  Dear client, …", prefix="dear client"))
    True
    >>> bool(starts_with("“尊敬的客户”，您好", prefix="尊敬的客户"))
    False
    >>> bool(starts_with("Dearest client", prefix="Dear"))
    False
    """
    whole, part = _edge(_bare(text, prefix), True), _edge(prefix, True)
    head = measure.occurrences(
        whole[: len(part) + 1], part, case_sensitive=case_sensitive, whole_words=match == "words"
    )
    passed = head[:1] == [0]
    told = f"begins {text.strip()[: len(prefix) + 8]!r}"
    return Verdict(passed, told, passed and len(whole) == len(part))


@rule("ends_with", no_blank("suffix"))
def ends_with(
    text: str,
    *,
    suffix: str,
    case_sensitive: bool = False,
    match: Literal["words", "substring"] = "words",
) -> Verdict:
    """The text, trailing white space aside, ends with `suffix`, its punctuation included.

    Marks of emphasis are set aside unless `suffix` has such marks; quotation marks count. Its
    first word may not be the end of a longer one (art is not in start) unless `match` is
    `substring`.

    >>> bool(ends_with("如有疑问，请联系客服！", suffix="请联系客服!"))
    True
    >>> bool(ends_with("Any questions? **Call us.** ", suffix="call us."))
    True
    >>> bool(ends_with("请联系客服。谢谢", suffix="请联系客服。"))
    False
    >>> bool(ends_with("That is a start", suffix="art"))
    False
    """
    whole, part = _edge(_bare(text, suffix), True), _edge(suffix, True)
    tail = whole[-len(part) - 1 :]
    places = measure.occurrences(
        tail, part, case_sensitive=case_sensitive, whole_words=match == "words"
    )
    passed = any(place + len(part) == len(tail) for place in places)
    told = f"ends {text.strip()[-len(suffix) - 8 :]!r}"
    return Verdict(passed, told, passed and len(whole) == len(part))


@rule("fixed_sentence", no_blank("sentence"))
def fixed_sentence(text: str, *, sentence: str, only: bool = False) -> Verdict:
    """The `sentence` stands in the text word for word; with `only`, the text is nothing else.

    Width of characters and runs of white space do not matter, letter case and punctuation do. Its
    ends are those of a term: a first or last word in Latin letters may not be part of a longer
    one. With `only`, emphasis and a leading # or > are set aside, quotation marks are not.

    >>> bool(fixed_sentence("经查，资料不足，无法回答。", sentence="资料不足，无法回答。"))
    True
    >>> bool(fixed_sentence("I cannot  answer.", sentence="I cannot answer.", only=True))
    True
    >>> bool(fixed_sentence("资料不足，不能回答。", sentence="资料不足，无法回答。"))
    False
    >>> bool(fixed_sentence("Sorry. I cannot answer.", sentence="I cannot answer.", only=True))
    False
    """
    if only:
        alone = _edge(_bare(text, sentence), True) == _edge(sentence, True)
        return Verdict(alone, "nothing else" if alone else "not the sentence alone")
    places = measure.occurrences(text, sentence, case_sensitive=True)
    return Verdict(bool(places), f"found at character {places[0]}" if places else "not found")


@rule("vocabulary", no_blank("allowed"), no_blank("among"))
def vocabulary(text: str, *, allowed: list[str], among: list[str] | None = None) -> Verdict:
    """Only `allowed` terms are used; with `among`, only of that list, and at least one of them.

    Without `among` every letter and digit of the text must belong to an allowed term. With it,
    other words are free, and no term of `among` that is not allowed may occur. A longer term hides
    the shorter ones inside it: 中高风险 is not 高风险.

    >>> bool(vocabulary("高、中、低", allowed=["高", "中", "低"]))
    True
    >>> bool(vocabulary("Rating: Buy.", allowed=["buy", "hold"], among=["buy", "hold", "sell"]))
    True
    >>> bool(vocabulary("风险等级：极高", allowed=["高", "中"], among=["极高", "高", "中"]))
    False
    >>> bool(vocabulary("yes or maybe", allowed=["yes", "no"]))
    False
    """
    pool = list(allowed) if among is None else [*among, *allowed]
    hits = _longest_hits(text, pool)
    permitted = {_edge(term, False) for term in allowed}
    foreign = [(place, term) for place, term in hits if _edge(term, False) not in permitted]
    if foreign:
        return Verdict(False, f"{foreign[0][1]!r} at character {foreign[0][0]} is not allowed")
    if among is not None:
        return Verdict(bool(hits), f"{len(hits)} allowed terms found")
    rest = list(measure.fold(text))
    for place, term in hits:
        rest[place : place + len(term)] = " " * len(term)
    left = measure.words("".join(rest))
    if left:
        return Verdict(False, f"{left[0]!r} is not allowed")
    return Verdict(True, f"nothing but {len(hits)} allowed terms")


def _longest_hits(text: str, terms: Sequence[str]) -> list[tuple[int, str]]:
    """Return the terms found and where, a longer one first, none inside another."""
    taken = bytearray(len(text))
    found = []
    for term in sorted(dict.fromkeys(terms), key=lambda term: (-len(term), term)):
        for place in measure.occurrences(text, term):
            if not any(taken[place : place + len(term)]):
                taken[place : place + len(term)] = b"\x01" * len(taken[place : place + len(term)])
                found.append((place, term))
    return sorted(found)


_OF_LANGUAGE = {
    "zh": rf"[{measure.HAN}]",
    "ja": "[\u3041-\u30ff\uff66-\uff9f\u4e00-\u9fff\u3005]",
    "ko": "[\uac00-\ud7af\u1100-\u11ff]",
    "ru": "[\u0400-\u04ff]",
    "el": "[\u0370-\u03ff]",
    "he": "[\u0590-\u05ff]",
    "ar": "[\u0600-\u06ff]",
    "hi": "[\u0900-\u097f]",
    "th": "[\u0e00-\u0e7f]",
}


@rule
def every_nth_word(
    text: str, *, n: int, code: Literal["zh", "ja", "ko", "ru", "el", "he", "ar", "hi", "th"]
) -> Verdict:
    """Every `n`-th word is written in the script of the language `code`.

    Words are runs between spaces. A text that is all in that script passes and is marked
    degenerate: it meets the rule without the alternation the rule is about.

    >>> bool(every_nth_word("we eat at the 食堂 and then go back 家", n=5, code="zh"))
    True
    >>> bool(every_nth_word("one два three четыре", n=2, code="ru"))
    True
    >>> bool(every_nth_word("we eat at the canteen and then go back 家", n=5, code="zh"))
    False
    >>> bool(every_nth_word("一 two 三 four", n=2, code="zh"))
    False
    """
    tokens = [token for token in text.split() if measure.has_content(token)]
    places = range(n - 1, len(tokens), n) if n > 0 else range(0)
    fits = [re.search(_OF_LANGUAGE[code], token) is not None for token in tokens]
    wrong = [place for place in places if not fits[place]]
    if wrong:
        return Verdict(False, f"word {wrong[0] + 1}, {tokens[wrong[0]]!r}, is not in {code}")
    if not len(places):
        whole = bool(tokens) and all(fits)
        return Verdict(whole, f"fewer than {n} words", degenerate=whole)
    return Verdict(True, f"{len(places)} words in {code}", degenerate=all(fits))
