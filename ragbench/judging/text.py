"""What a character and a word is, which characters fold, and where a term occurs.

With `sentences`, `blocks` and `emoji` the one definition of everything the rules count, written
down for readers in `docs/rules.md`. All functions are pure, take raw text, and run in time linear
in its length.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from ragbench.judging.emoji import EMOJI

# --- Folding: the documented set, one character for one, so that places stay comparable.

_FOLDS = {0xFF01 + offset: 0x21 + offset for offset in range(94)}  # ！…～ to !…~
_FOLDS |= {0x3000: 0x20, 0xFFE0: 0xA2, 0xFFE1: 0xA3, 0xFFE5: 0xA5}  # wide space, ￠ ￡ ￥
_FOLDS |= {0xFF61: 0x3002, 0xFF62: 0x300C, 0xFF63: 0x300D, 0xFF64: 0x3001}  # ｡ ｢ ｣ ､


def fold(text: str) -> str:
    """Return the text with full-width ASCII, the wide space and ￠￡￥ in their usual width.

    Half-width ｡｢｣､ become 。「」、. Nothing else changes: ① stays ①, and 。 is not a full stop.

    >>> fold("ＡＩ２！①。")
    'AI2!①。'
    """
    return text if text.isascii() else text.translate(_FOLDS)


# --- Scripts. Text in these has no spaces between words, so each character stands for itself.

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u30fa\u30fc-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Vowel signs and accents, which `\w` leaves out although no word is whole without them.
MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4"
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u09e2\u09e3"
    "\u0a01-\u0a03\u0a3c-\u0a51\u0a70\u0a71\u0a75\u0a81-\u0a83\u0abc-\u0acd\u0ae2\u0ae3\u0b01-\u0b03"
    "\u0b3c-\u0b57\u0b62\u0b63\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3c-\u0c56\u0c62\u0c63"
    "\u0c81-\u0c83\u0cbc-\u0cd6\u0ce2\u0ce3\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d62\u0d63\u0d81-\u0d83"
    "\u0dca-\u0df3\u200c\u200d"
)
_SPACED = rf"[^\W{UNSPACED}]"  # a letter, digit or underscore of a script that spaces its words
_IN_WORD = rf"(?:{_SPACED}|[{MARKS}])"
_WORD = re.compile(
    rf"[^\W{UNSPACED}_]{_IN_WORD}*(?:(?:['’‐‑-]|(?<=\d)[.,](?=\d)){_SPACED}{_IN_WORD}*)*"
    rf"|(?:[^\W{MARKS}_])"
)
_ACRONYM = re.compile(r"(?<!\w)[A-Za-z](?:\.[A-Za-z])+(?!\w)\.?")
_RUN = re.compile(rf"{_SPACED}{_IN_WORD}*|[{UNSPACED}]")
_ALNUM = re.compile(r"[^\W_]")


def has_content(text: str) -> bool:
    """Return whether the text holds any letter or digit at all."""
    return _ALNUM.search(text) is not None


def characters(text: str) -> int:
    """Return the number of letters and digits; punctuation, symbols and spaces do not count.

    >>> characters("根据现有资料，无法直接回答您的问题。"), characters("AI模型 v2")
    (16, 6)
    """
    return len(_ALNUM.findall(text))


@lru_cache(maxsize=4096)
def _is_visible(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LNPS" or category == "Co"


def characters_with_punctuation(text: str) -> int:
    """Return the number of visible characters: letters, digits, punctuation and symbols.

    Spaces, line breaks, invisible and combining characters do not count; an emoji, however it is
    composed, is one.

    >>> characters_with_punctuation("根据现有资料，无法直接回答您的问题。")
    18
    >>> characters_with_punctuation("好👨‍👩‍👧 ok"), characters_with_punctuation("e\u0301")
    (4, 1)
    """
    if text.isascii():
        return sum(map(len, re.findall(r"[!-~]+", text)))
    return sum(map(_is_visible, EMOJI.sub("\u25a0", text)))


def words(text: str) -> list[str]:
    """Return the words: runs of letters and digits, each character for itself in Chinese.

    An apostrophe or hyphen between letters, a point or comma between digits, and the points of
    U.S. do not split a word. Scripts without spaces (Han, kana, Thai, Lao, Khmer, Burmese) give
    one word a character.

    >>> words("Don't pay 3.14 for a well-known U.S. brand!")
    ["Don't", 'pay', '3.14', 'for', 'a', 'well-known', 'U.S.', 'brand']
    >>> words("用Python写3行")
    ['用', 'Python', '写', '3', '行']
    """
    if "." not in text:
        return _WORD.findall(text)
    return _WORD_OR_ACRONYM.findall(text)


_WORD_OR_ACRONYM = re.compile(f"{_ACRONYM.pattern}|{_WORD.pattern}")


def runs(text: str) -> list[str]:
    """Return the words as IFEval counts them: every mark but the underscore splits.

    What IFEval's own count leaves out is mended: Chinese gives one a character, and vowel signs
    do not split a word of Hindi.

    >>> runs("Don't pay 3.14"), runs("好的 ok")
    (['Don', 't', 'pay', '3', '14'], ['好', '的', 'ok'])
    """
    return _RUN.findall(text)


# --- Terms.


_WORD_CHARACTER = re.compile(_IN_WORD)


@lru_cache(maxsize=65536)
def _joins(character: str) -> bool:
    """Return whether a character would make a longer word of a term it touches."""
    return _WORD_CHARACTER.match(character) is not None


@lru_cache(maxsize=4096)
def _term_pattern(term: str, case_sensitive: bool) -> re.Pattern[str]:
    parts = term.split()
    body = r"\s+".join(map(re.escape, parts)) if parts else re.escape(term)
    return re.compile(body, 0 if case_sensitive else re.IGNORECASE)


def occurrences(
    text: str, term: str, *, case_sensitive: bool = False, whole_words: bool = True
) -> list[int]:
    """Return where a term stands in the text, both folded, without overlaps.

    At an end that is a letter or digit of a spaced script the term must not run on into a longer
    word; Chinese terms and punctuation are found anywhere. Spaces inside a term match any run of
    white space.

    >>> occurrences("We start modern ART.", "art"), occurrences("使用ＡＩ技术！", "ai")
    ([16], [2])
    >>> occurrences("好消息！", "!")
    [3]
    """
    term, text = fold(term), fold(text)
    bare = term.strip() or term
    pattern = _term_pattern(term, case_sensitive)
    opens, closes = whole_words and _joins(bare[:1]), whole_words and _joins(bare[-1:])
    found: list[int] = []
    match = pattern.search(text)
    while match:
        start, end = match.span()
        apart = not (opens and start and _joins(text[start - 1])) and not (
            closes and end < len(text) and _joins(text[end])
        )
        if apart:
            found.append(start)
        match = pattern.search(text, max(end, start + 1) if apart else start + 1)
    return found
