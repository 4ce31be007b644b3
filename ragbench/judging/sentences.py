"""Where a sentence ends, in Chinese and in English."""

# ruff: noqa: SIM905  (word lists read better as words than as quoted words)
from __future__ import annotations

import re

from ragbench.judging.text import UNSPACED

__all__ = ["sentences"]

_ALNUM = re.compile(r"[^\W_]")
_CLOSERS = "\"'”’」』】）)\\]》〉}*_`~"
_WIDE_ENDS = "。！？｡‼⁉؟।॥"
_STOP = re.compile(rf"(?P<marks>[.!?…{_WIDE_ENDS}]+)(?P<closers>[{_CLOSERS}]*)")
# What stands before a point that is no full stop: never one before more text on the line, ...
_TITLES = frozenset(
    "mr mrs ms dr prof rev hon gen col capt lt sgt gov sen rep st mt fr messrs vs v viz cf e.g i.e "
    "eg ie ca approx al op ed eds trans".split()
)
# ... none before a number, ...
_REFERENCES = frozenset("no nos fig figs eq vol vols pp p ch sec art para app nr".split())
# ... one only where what follows opens a sentence, ...
_NAMES = frozenset("inc ltd co corp bros jr sr esq dept univ assn ave blvd rd ph.d".split())
# ... or one only where a capital or Chinese follows.
_SHORT = frozenset(
    "etc est a.m p.m am pm jan feb mar apr jun jul aug sept sep oct nov dec mon tue tues wed thu "
    "thurs fri sat min max hr hrs km kg cm mm lb oz ft".split()
)
_OPENERS = frozenset(
    "the a an it its it's he she they we i you this that these those there here in on at as if but "
    "and however when while after before since although then his her their our my your what why "
    "how who no yes not for from to with by so or once despite during also".split()
)
_BEFORE = re.compile(r"[^\W\d_](?:[^\W\d_]|\.(?=[^\W\d_]))*$")
_LIST_NUMBER = re.compile(r"[ \t>*_#-]*(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})$")


def sentences(text: str) -> list[str]:
    """Return the sentences, each with its end mark and closing quotes.

    。！？ and …… end a sentence anywhere, but for a quoted ？ or ！ inside a sentence that goes on.
    A half-width . ! ? ends one before a space, a Chinese character or the end of the text, but not
    in a decimal, an address, an abbreviation, an initial or a list number. A line break ends none;
    what follows the last mark is one more sentence. A piece without letters and digits belongs to
    the sentence before it.

    >>> sentences("The rate is 3.14 percent. OK.")
    ['The rate is 3.14 percent.', 'OK.']
    >>> len(sentences("第一句。第二句！第三句？"))
    3
    """
    spans: list[list[int]] = []
    start = 0
    for match in _STOP.finditer(text):
        if _ends_sentence(text, match, start):
            _add_span(spans, text, start, match.end())
            start = match.end()
    _add_span(spans, text, start, len(text))
    return [text[start:end].strip() for start, end in spans]


def _add_span(spans: list[list[int]], text: str, start: int, end: int) -> None:
    if _ALNUM.search(text, start, end):
        spans.append([start, end])
    elif spans:
        spans[-1][1] = end


def _ends_sentence(text: str, match: re.Match[str], start: int) -> bool:
    marks = match["marks"]
    after = text[match.end() : match.end() + 1]
    if any(mark in _WIDE_ENDS for mark in marks) or marks.count("…") > 1:
        return after not in tuple("，、；：,;") and not _goes_on(text, match, start)
    if after and not after.isspace() and not _is_cjk(after) and not _ends_value(text, match):
        return False
    following = _next_word(text, match.end())
    if "!" in marks or "?" in marks:  # but not in: "Stop!" he said.
        quoted_on = _QUOTE.search(match["closers"]) and following[:1].islower()
        return not quoted_on and not _goes_on(text, match, start)
    if marks == ".":
        return _point_ends(text, match, start)
    # What is left is ... and a single …
    return not following or not (following[0].islower() or following[0].isdigit())


_OPENING_OF = dict(zip("”’」』）)】》〉", "“‘「『（(【《〈", strict=True)) | {'"': '"'}
_TOLD = re.compile(rf"[{UNSPACED}]{{1,8}}?(?:[说問问答喊叫想]|(?<!知)道)(?:[。！？，,；;!?…\s]|$)")


def _goes_on(text: str, match: re.Match[str], start: int) -> bool:
    """Return whether a quoted ! or ? stands inside a Chinese sentence that goes on after it.

    So in 他问“好吗？”就走了, where words run up to the opening quote, in “走吗？”他问, where who
    speaks follows, and in titles. After a colon (他问：“好吗？”) the quotation ends its own.
    """
    opening = _OPENING_OF.get(match["closers"][:1])
    if opening is None or match["marks"][-1] not in "!?！？":
        return False
    if not _HAN_NEXT.match(text, match.end()):
        return False
    if opening in "《〈" or _TOLD.match(text, match.end()):
        return True
    place = text.rfind(opening, max(start, match.start() - 200), match.start())
    return place > start and _ALNUM.match(text, place - 1) is not None


def _ends_value(text: str, match: re.Match[str]) -> bool:
    """Return whether a text inside JSON ends here: a quote, a comma and the end of the line."""
    return '"' in match["closers"] and _VALUE_END.match(text, match.end()) is not None


_QUOTE = re.compile("[\"”’']")
_VALUE_END = re.compile(r",[ \t]{0,8}(?:\n|$)")


def _point_ends(text: str, match: re.Match[str], start: int) -> bool:
    """Return whether one half-width point, with a space or nothing after it, is a full stop."""
    window = text[max(start, match.start() - 40) : match.start()]
    opens_text = match.start() <= 40 and start == 0
    line = window.rpartition("\n")[2]
    if (opens_text or line != window) and _LIST_NUMBER.match(line):
        return False
    following = _next_word(text, match.end())
    before = _BEFORE.search(window)
    if not following or before is None:
        return True
    token = before.group().lower()
    if token in _TITLES:
        return False
    if token in _REFERENCES:
        return not following[0].isdigit()
    if "\n" in text[match.end() : match.end() + 2]:
        return True
    initial = len(token) == 1 and before.group() != "I" and before.group().isupper()
    if initial or token in _NAMES or ("." in token and token not in _SHORT):
        return following.lower() in _OPENERS and not following.islower()
    if token in _SHORT:
        return not (following[0].islower() or following[0].isdigit())
    return True


_VISIBLE = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?|[^\s\"'“”‘’(\[*_`#>-]")


def _next_word(text: str, position: int) -> str:
    """Return the first word or character after some blanks, quotes and marks of emphasis."""
    match = _VISIBLE.search(text, position, position + 80)
    return match.group() if match else ""


def _is_cjk(character: str) -> bool:
    return _CJK.match(character) is not None


_HAN_NEXT = re.compile(f"[{UNSPACED}]")
_CJK = re.compile(rf"[{UNSPACED}“‘「『（《【]")
