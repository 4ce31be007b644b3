"""The house style: colours, fonts and sizes of pictures, and text that nothing executes."""

from __future__ import annotations

import re
import shutil
import subprocess
import unicodedata
import warnings
import zlib
from functools import cache, lru_cache

WIDTH = 480  # pixels of the drawing; printed 85 mm wide, 14 pixels are 7 points
INK = "#1F1F1F"
QUIET = "#5C5C5C"
GRID = "#E4E4E4"
ALARM = "#B3261E"
# The first that a machine has is used, letter by letter. Latin comes first from TrueType fonts: the
# PDFs that browsers write hold those as such, but Noto CJK as Type 3, which some venues refuse.
FONT = (
    "Liberation Sans, Arimo, Helvetica Neue, Arial, Noto Sans CJK SC, Source Han Sans SC, "
    "PingFang SC, Microsoft YaHei, DejaVu Sans, sans-serif"
)

# Sixteen colours of which any two differ by at least 10 (CIEDE2000) for normal vision and for each
# of the three kinds of colour blindness, and each has a contrast of at least 3 against white.
PALETTE = (
    "#0069E1",
    "#F05A78",
    "#00A587",
    "#876900",
    "#002D87",
    "#C31E69",
    "#5A874B",
    "#A587B4",
    "#4B4B00",
    "#872D3C",
    "#969600",
    "#5A1E4B",
    "#8787FF",
    "#1E695A",
    "#696996",
    "#1E3C1E",
)
COLOURS = {
    "qwen3-235b-a22b-thinking-2507": "#0069E1",
    "qwen3-235b-a22b-instruct-2507": "#8787FF",
    "qwen3-30b-a3b-instruct-2507": "#A587B4",
    "qwen3-32b": "#002D87",
    "qwen3-14b": "#696996",
    "qwen3-8b": "#5A1E4B",
    "deepseek-r1-0528": "#C31E69",
    "deepseek-v3.1": "#F05A78",
    "glm-4.5": "#872D3C",
    "gemini-2.5-pro": "#969600",
    "gpt-4.1": "#00A587",
    "gpt-4o": "#1E695A",
    "claude-opus-4.5": "#876900",
    "claude-sonnet-4": "#4B4B00",
    "kimi-k2-thinking": "#5A874B",
    "smollm2-135m-instruct": "#1E3C1E",
}
"""Colours of known models, by name in lower case without provider; add your own to pin them."""


def colour(model: str) -> str:
    """The colour of a model, the same in every figure.

    What precedes the last slash (a provider, or `sim`) does not matter, nor does case. A name that
    `COLOURS` does not list takes a colour of the palette by its checksum, so two such names can
    share one: rows carry their names, and `COLOURS["my-model"] = "#0069E1"` settles it.

    >>> colour("sim/GLM-4.5") == colour("glm-4.5") == "#872D3C"
    True
    """
    name = model.rsplit("/", 1)[-1].casefold()
    pinned = COLOURS.get(model) or COLOURS.get(name)
    return pinned or PALETTE[zlib.crc32(name.encode("utf-8", "replace")) % len(PALETTE)]


def tint(colour: str, alpha: float) -> str:
    """A colour of the form #RRGGBB made see-through.

    >>> tint("#0069E1", 0.25)
    'rgba(0,105,225,0.25)'
    """
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


# Marks that turn the direction of what follows, and so can make a name read as another one.
_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x061C, 0x200E, 0x200F}
_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"})


def clean(value: object) -> str:
    """The text of a value on one line: control characters are blanks, marks of direction show as �.

    >>> clean("a\\tb\\u202egnp.exe")
    'a b�gnp.exe'
    """
    return _clean("" if value is None else str(value))


@lru_cache(maxsize=20_000)
def _clean(text: str) -> str:
    letters = []
    for letter in text:
        if ord(letter) in _BIDI or unicodedata.category(letter) == "Cs":
            letters.append("�")
        else:
            letters.append(" " if unicodedata.category(letter) in ("Cc", "Zl", "Zp") else letter)
    return " ".join("".join(letters).split(" ")).strip()


def label(value: object) -> str:
    """Text for a figure, shown as it is written: no tag, no formula, no placeholder takes effect.

    Plotly reads some HTML tags, `$…$` and `%{…}` in every text it draws.

    >>> label("<b>50 %</b> of $x$")
    '&lt;b&gt;50 %&lt;/b&gt; of &#36;x&#36;'
    """
    return clean(value).translate(_MARKUP).replace("%{", "&#37;{")


@lru_cache(maxsize=20_000)
def columns(text: str) -> int:
    """How wide a text is, in Latin letters; a Chinese character takes two.

    >>> columns("GLM 模型")
    8
    """
    return sum(
        0 if unicodedata.combining(letter) else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


def wrapped(value: object, width: int, *, most: int = 3) -> list[str]:
    """The lines of a text, each at most `width` columns; what exceeds `most` lines ends in "…".

    Lines break after blanks, hyphens and slashes, or inside a longer run when nothing else helps,
    and are about equally long.

    >>> wrapped("Qwen3-235B-A22B-Thinking-2507", 26)
    ['Qwen3-235B-A22B-', 'Thinking-2507']
    """
    return list(_wrapped(clean(value), width, most))


@lru_cache(maxsize=2_000)
def _wrapped(text: str, width: int, most: int) -> list[str]:
    lines = _broken(text, width)
    if len(lines) > most:
        return _at_most(most, lines, width)
    narrower = (_broken(text, less) for less in range(width // 2, width))
    return next((found for found in narrower if len(found) == len(lines)), lines)


def _broken(text: str, width: int) -> list[str]:
    lines = [""]
    for piece in re.findall(r"[^\s\-/·,;]*(?:\s*[\-/·,;]+\s*|\s+|$)", text):
        if lines[-1] and columns(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        for letter in piece:
            if columns(lines[-1] + letter) > width and not letter.isspace():
                lines.append("")
            lines[-1] += letter
    return [line.strip() for line in lines]


def joined(texts: list[str], width: int, *, most: int = 9) -> list[str]:
    """Texts set beside each other with " · ", in lines of at most `width` columns.

    >>> joined(["DeepSeek-V3.1", "Knowledge gap", "zh"], 20)
    ['DeepSeek-V3.1', 'Knowledge gap · zh']
    """
    lines: list[str] = []
    for text in map(clean, texts):
        if lines and columns(f"{lines[-1]} · {text}") <= width:
            lines[-1] += f" · {text}"
        else:
            lines += wrapped(text, width, most=most)
    return _at_most(most, lines, width)


def _at_most(most: int, lines: list[str], width: int) -> list[str]:
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    while columns(last) >= width:
        last = last[:-1]
    return [*lines[: most - 1], last + "…"]


@cache
def has_chinese_font() -> bool:
    """Whether this machine can draw Chinese; true where that cannot be found out."""
    tool = shutil.which("fc-list")
    if tool is None:  # not a fontconfig system: macOS and Windows come with such fonts
        return True
    listed = subprocess.run([tool, ":lang=zh"], capture_output=True, check=False)
    return bool(listed.stdout.strip())


@cache
def _warn_no_font() -> None:
    warnings.warn(
        "No font on this machine draws Chinese, so Chinese labels will come out as boxes in "
        "pictures made here; install one, for instance with: apt-get install fonts-noto-cjk",
        stacklevel=4,
    )


def check_fonts(texts: list[str]) -> None:
    """Warn, once in a session, when a text is Chinese and no font here can draw it."""
    is_chinese = any("\u2e80" <= letter <= "\u9fff" for text in texts for letter in text)
    if is_chinese and not has_chinese_font():
        _warn_no_font()
