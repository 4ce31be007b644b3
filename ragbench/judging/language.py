"""Which language a text is in: by its script where the script tells, else by a trained model.

Deterministic: no randomness, no state but the model, loaded once and never changed.
"""

# ruff: noqa: SIM905  (word lists read better as words than as quoted words)
from __future__ import annotations

import copy
import re
from functools import cache
from typing import Any, NamedTuple

from ragbench.errors import BadConstraint
from ragbench.judging.text import MARKS

__all__ = ["LANGUAGES", "Language", "detect", "scripts"]

# Scripts with their letters, and the languages each may write; one language needs no model.
_SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "latin": (
        "A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff\uff21-\uff3a\uff41-\uff5a",
        tuple(
            "en es pt fr de it nl pl vi fi sw tr id ms sv da no nb nn cs sk hu ro ca hr sl et lv "
            "lt sq is ga cy eu gl eo af tl mt la az".split()
        ),
    ),
    "cyrillic": ("\u0400-\u052f", tuple("ru uk bg be mk sr kk ky mn".split())),
    "arabic": (
        "\u0620-\u064a\u0671-\u06d3\u06fa-\u06fc\u0750-\u077f",
        tuple("ar fa ur ps ug ku".split()),
    ),
    "devanagari": ("\u0904-\u0939\u0958-\u0961", ("hi", "mr", "ne")),
    "han": ("\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff", ("zh",)),
    "kana": ("\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9d", ("ja",)),
    "hangul": ("\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3", ("ko",)),
    "bengali": ("\u0985-\u09b9\u09ce\u09dc-\u09e1\u09f0\u09f1", ("bn",)),
    "gurmukhi": ("\u0a05-\u0a39\u0a59-\u0a5e\u0a72-\u0a74", ("pa",)),
    "gujarati": ("\u0a85-\u0ab9\u0ad0\u0ae0\u0ae1", ("gu",)),
    "tamil": ("\u0b83-\u0bb9\u0bd0", ("ta",)),
    "telugu": ("\u0c05-\u0c39\u0c58-\u0c61", ("te",)),
    "kannada": ("\u0c85-\u0cb9\u0cde-\u0ce1", ("kn",)),
    "malayalam": ("\u0d05-\u0d3a\u0d4e\u0d5f-\u0d61\u0d7a-\u0d7f", ("ml",)),
    "sinhala": ("\u0d85-\u0dc6", ("si",)),
    "thai": ("\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46", ("th",)),
    "lao": ("\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6", ("lo",)),
    "burmese": ("\u1000-\u102a\u103f", ("my",)),
    "khmer": ("\u1780-\u17b3", ("km",)),
    "georgian": ("\u10a0-\u10ff\u1c90-\u1cbf", ("ka",)),
    "armenian": ("\u0531-\u0556\u0561-\u0587", ("hy",)),
    "hebrew": ("\u05d0-\u05ea", ("he",)),
    "greek": ("\u0370-\u03ff\u1f00-\u1fff", ("el",)),
    "ethiopic": ("\u1200-\u135a", ("am",)),
}
_LETTERS = {name: re.compile(f"[{letters}]+") for name, (letters, _) in _SCRIPTS.items()}
# Words: an accent, apostrophe or hyphen inside one parts nothing.
_WORDS = {
    name: re.compile(f"[{letters}](?:[{letters}{MARKS}]|['’-](?=[{letters}]))*")
    for name, (letters, _) in _SCRIPTS.items()
}
# In these no space stands between words, so each character weighs as one.
_BY_CHARACTER = ("han", "kana", "thai", "lao", "burmese", "khmer")
LANGUAGES: tuple[str, ...] = tuple(
    sorted({code for _, codes in _SCRIPTS.values() for code in codes})
)

# Below so many letters a model only guesses; measured on single words and short titles.
FEWEST_LETTERS = 24


class Language(NamedTuple):
    """A language code, or None where nothing tells, how that was found, and the script that did."""

    code: str | None
    how: str
    script: str | None = None


def scripts(text: str) -> dict[str, int]:
    """Return how many letters of each script a text has, most first.

    >>> scripts("苹果公司Apple")
    {'latin': 5, 'han': 4}
    """
    if text.isascii():
        count = len(re.findall(r"[A-Za-z]", text))
        return {"latin": count} if count else {}
    counts = {name: sum(map(len, pattern.findall(text))) for name, pattern in _LETTERS.items()}
    return dict(sorted(((n, c) for n, c in counts.items() if c), key=lambda p: (-p[1], p[0])))


def detect(text: str) -> Language:
    """Return the language most of the text is in.

    The script with the most words decides. A character of Chinese, Japanese and other unspaced
    scripts weighs as much as a word of another script, as it does where words are counted, and
    these scripts win a tie; technical Chinese is full of English names. Kana beside Han makes
    Japanese, when it is at least a tenth of both.

    >>> detect("根据现有资料，无法回答 Apple 的问题。").code, detect("42 %").code
    ('zh', None)
    >>> detect("请用 Python 和 pandas DataFrame 完成 ETL pipeline。").code
    'zh'
    """
    counts = scripts(text)
    weights = _weights(text, counts)
    if not weights:
        return Language(None, "no letters")
    script = max(weights, key=lambda name: (weights[name], name in _BY_CHARACTER, name))
    codes = _SCRIPTS[script][1]
    if len(codes) == 1:
        return Language(codes[0], f"{script} script", script)
    if counts[script] < FEWEST_LETTERS:
        told = f"{counts[script]} {script} letters are too few to tell"
        return Language(None, told, script)
    return Language(_classify(script, text), f"{script} script, model", script)


def _weights(text: str, counts: dict[str, int]) -> dict[str, int]:
    """Return the words of each script there is; Han and kana together are one of the two."""
    if len(counts) < 2:
        return counts  # nothing to weigh against
    weights = {
        name: count if name in _BY_CHARACTER else len(_WORDS[name].findall(text))
        for name, count in counts.items()
    }
    kana, both = weights.get("kana", 0), weights.get("han", 0) + weights.get("kana", 0)
    if kana:
        weights.pop("kana")
        weights.pop("han", None)
        weights["kana" if kana * 10 >= both else "han"] = both
    return weights


def _classify(script: str, text: str) -> str:
    # Case misleads the model (headlines, all-capital answers), and lone surrogates stop it.
    cleaned = re.sub(rf"[^{_SCRIPTS[script][0]}{MARKS}'’]+", " ", _sample(text)).lower()
    code, _ = _model(script).classify(cleaned)
    return "no" if code in ("nb", "nn") else str(code)


def _sample(text: str, pieces: int = 5, width: int = 200) -> str:
    """Return the text, or where it is long evenly spread pieces of it."""
    if len(text) <= pieces * width:
        return text
    step = (len(text) - width) // (pieces - 1)
    return " ".join(text[place * step : place * step + width] for place in range(pieces))


@cache
def _whole_model() -> Any:
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise BadConstraint(
            "telling languages of one script apart needs py3langid; reinstall ragbench"
        ) from error
    return LanguageIdentifier.from_model_file(MODEL_FILE)


@cache
def _model(script: str) -> Any:
    """Return the model limited to the languages of one script."""
    limited = copy.copy(_whole_model())
    limited.set_languages([c for c in _SCRIPTS[script][1] if c in set(limited.nb_classes)])
    return limited


def may_write(script: str, code: str) -> bool:
    """Return whether a script is one the language is written in.

    >>> may_write("latin", "en"), may_write("latin", "zh")
    (True, False)
    """
    return code in _SCRIPTS[script][1]
