"""Reading one verdict: what a judge, a file or another framework wrote, as a number or an error."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from numbers import Real

from ragbench.judging.text import fold

YES = frozenset(
    {"yes", "y", "true", "pass", "passed", "是", "是的", "对", "真", "满足", "符合", "通过"}
)
NO = frozenset(
    {
        "no",
        "n",
        "false",
        "fail",
        "failed",
        "否",
        "不是",
        "不对",
        "假",
        "不满足",
        "不符合",
        "不通过",
        "未通过",
    }
)

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,4})?")
_COMMA = re.compile(r"[+-]?(\d+),(\d+)")
_SHOWN = 120


def read_value(
    value: object, lowest: float = 0.0, highest: float = 1.0
) -> tuple[float | None, str | None]:
    """The score that `value` stands for and None, or None and why it cannot be read.

    Only the whole value counts, after trimming and folding of case, full-width forms and one final
    stop: `Yes.` and `是的。` are yes, `Yes, but … No` and `maybe` are errors that keep the text.
    Yes and true are `highest`, no and false are `lowest`; a number between the two, both included,
    is itself, with a decimal comma too where it cannot be a thousands mark (`0,5`, not `1,000`).
    Nothing, NaN and infinity are errors. No value is ever read as 0 for want of a better reading.

    >>> read_value(" YES。"), read_value("否"), read_value("True"), read_value(1)
    ((1.0, None), (0.0, None), (1.0, None), (1.0, None))
    >>> read_value("4", lowest=1, highest=5)
    (4.0, None)
    >>> read_value("Yes, but it fails rule 3, so No")
    (None, "not a verdict: 'Yes, but it fails rule 3, so No'")
    """
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        try:
            value = value.item()  # a NumPy scalar
        except (TypeError, ValueError):
            return None, _refusal("not a verdict", value)
    if value is None:
        return None, "no value"
    if isinstance(value, bool):
        return (float(highest) if value else float(lowest)), None
    if isinstance(value, (Real, Decimal)):
        return _within(value, value, lowest, highest)
    if not isinstance(value, str):
        return None, _refusal("not a verdict", value)
    return _read_text(value, lowest, highest)


def _read_text(value: str, lowest: float, highest: float) -> tuple[float | None, str | None]:
    text = fold(value).strip().casefold()
    if text[-1:] in (".", "。"):
        text = text[:-1].rstrip()
    if not text:
        return None, "no value" if not value.strip() else _refusal("not a verdict", value)
    if text in YES:
        return float(highest), None
    if text in NO:
        return float(lowest), None
    if text.lstrip("+-") in ("nan", "inf", "infinity"):
        return None, _refusal("not a number", value)
    if comma := _COMMA.fullmatch(text):
        whole, digits = comma.groups()
        if len(digits) == 3 and whole.strip("0"):
            return None, _refusal("decimal comma or thousands mark", value)
        text = text.replace(",", ".")
    if not text.isascii() or not _NUMBER.fullmatch(text):
        return None, _refusal("not a verdict", value)
    return _within(float(text), value, lowest, highest)


def _within(
    number: Real | Decimal | float, given: object, lowest: float, highest: float
) -> tuple[float | None, str | None]:
    try:
        score = float(number)
    except (OverflowError, ValueError):
        score = math.inf
    if not math.isfinite(score):
        return None, _refusal("not a number", given)
    if not lowest <= score <= highest:
        return None, f"outside {lowest:g} to {highest:g}: {_shown(given)}"
    return score, None


def _refusal(reason: str, value: object) -> str:
    return f"{reason}: {_shown(value)}"


def _shown(value: object) -> str:
    if isinstance(value, (str, bytes)) and len(value) > _SHOWN:
        return f"{value[:_SHOWN]!r}…"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of many thousand digits, a circular list
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
