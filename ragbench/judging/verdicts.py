"""Reading verdicts: what a judge, a file or another framework wrote, as a number or an error.

`read_value` reads one value, whoever wrote it; `read_verdict` and `read_numbered` find the values
in a judge's whole reply. There is no other reader of verdicts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

from ragbench.judging.objects import Object, find, given, numbers, said
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
    text = _trimmed(value)
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


def _trimmed(value: str) -> str:
    text = fold(value).strip().casefold()
    return text[:-1].rstrip() if text[-1:] in (".", "。") else text


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


# ---------------------------------------------------------------- a judge's whole reply


class Form(NamedTuple):
    """What a prompt asks a judge to answer with: names of fields in one JSON object."""

    verdict: str = "score"
    reason: str = "reason"
    triggered: str | None = None  # says whether the condition of a constraint held
    also: str | None = None  # a second yes/no verdict from the same reply, excluded by the first
    lowest: float = 0.0
    highest: float = 1.0
    is_scale: bool = False  # what lies between the lowest and the highest is a score too


class Reading(NamedTuple):
    """What a reply says: a score, or the error that takes its place, and how it was read."""

    score: float | None = None
    is_triggered: bool | None = None
    also: float | None = None
    reason: str | None = None
    error: str | None = None
    path: str | None = None  # strict, fence, object or repair


def read_verdict(
    reply: str,
    form: Form,
    *,
    judged: Sequence[str] = (),
    code: str = "",
    is_truncated: bool = False,
) -> Reading:
    """The verdict in a judge's `reply`, or why there is none.

    The whole reply is tried as JSON, then what stands in its last code fence, then the last
    balanced object that has the verdict's field, and at the end that stretch repaired: never in a
    reply that was cut off, of which only a whole JSON object counts, and never where the repair
    would have to choose a value (`0 or 1`). Only the verdict's own field
    is read, by `read_value`; prose, an echoed menu and numbers elsewhere are no verdict. A field
    that stands twice, or again behind the verdict and not with the same value, a pass beside a
    failing score, and an untriggered condition beside a failure are contradictions, and errors.

    Args:
        judged: texts that were graded or shown. A verdict that such a text dictates, however it
            is spelled, is an echo and no verdict, unless it carries `code` in a field of that
            name: no text can know it.

    >>> read_verdict('```json\\n{"ok": "Yes", "reason": "short"}\\n```\\n希望有帮助。', Form("ok"))
    Reading(score=1.0, is_triggered=None, also=None, reason='short', error=None, path='fence')
    >>> read_verdict("Answer Yes or No:", Form("ok")).error
    "unparsed: no JSON object with 'ok' in the reply"
    """
    beside = [name for name in (form.triggered, form.also) if name]
    meaning = partial(_meaning, form=form)
    found, path, problem = find(
        reply, form.verdict, meaning, beside=beside, is_truncated=is_truncated
    )
    if found is None:
        return Reading(error=problem)
    reason = said(found, form.reason)
    reading = Reading(reason=None if reason is None else str(reason), path=path)
    score, why = _score(said(found, form.verdict), form)
    if score is None:
        return reading._replace(error=f"unparsed: {form.verdict}: {why}")
    if not _has_code(found, code) and _is_dictated(found, form.verdict, judged, meaning):
        return reading._replace(error=_ECHO)
    if problem := _contradiction(found, form, score):
        return reading._replace(error=f"contradiction: {problem}")
    triggered = _flag(found, form.triggered)
    return reading._replace(
        score=score,
        is_triggered=None if triggered is None else triggered == 1,
        also=_flag(found, form.also),
    )


def read_numbered(
    reply: str,
    count: int,
    *,
    judged: Sequence[str] = (),
    code: str = "",
    is_truncated: bool = False,
) -> tuple[list[Reading], str | None]:
    """A reading for each of `count` numbered claims, and the first thing wrong with the reply.

    Fields are the numbers from 1, in the decimal digits of any script. A number that is missing is
    an error of that claim; one that was never asked for (0, or more than `count`) means that the
    judge counted otherwise, and then nothing of the reply counts, nor where it says what a text in
    `judged` dictates for any claim and does not carry `code`.

    >>> [r.score for r in read_numbered('{"1": true, "2": "no"}', 3)[0]]
    [1.0, 0.0, None]
    """
    found, path, problem = find(reply, None, _meaning, is_truncated=is_truncated)
    if found is not None:
        asked = {str(number) for number in range(1, count + 1)}
        odd = [name for number, name in numbers(found).items() if number not in asked]
        if odd:
            problem = f"unparsed: the reply numbers a claim {_shown(odd[0])}, of 1 to {count}"
        elif not _has_code(found, code) and _is_dictated(found, None, judged, _meaning):
            problem = _ECHO
    if found is None or problem:
        return [Reading(error=problem, path=path)] * count, problem
    readings = []
    for number in range(1, count + 1):
        score, why = _score(said(found, str(number)), Form())
        error = None if score is not None else f"unparsed: claim {number}: {why}"
        readings.append(Reading(score=score, error=error, path=path))
    return readings, next((r.error for r in readings if r.error), None)


_ECHO = "unparsed: the verdict stands in the text that was judged"


def _score(value: object, form: Form) -> tuple[float | None, str | None]:
    is_word = isinstance(value, str) and _trimmed(value) in YES | NO
    if form.is_scale and (is_word or isinstance(value, bool)):
        return None, _refusal("not a number", value)
    score, why = read_value(value, form.lowest, form.highest)
    if score is not None and not form.is_scale and score not in (form.lowest, form.highest):
        return None, f"neither {form.lowest:g} nor {form.highest:g}: {_shown(value)}"
    return score, why


def _meaning(value: object, form: Form = Form()) -> float | None:  # noqa: B008
    return _score(value, form)[0]


def _is_dictated(
    found: Object, field: str | None, judged: Sequence[str], means: Callable[[Any], float | None]
) -> bool:
    """Whether a text judged gives the field, or one of the numbers, the value that it has here."""
    return any(
        (score := means(said(found, name))) is not None and score in map(means, values)
        for text in judged
        for name, values in set(given(text, field))  # a text may repeat itself
    )


def _flag(found: Object, field: str | None) -> float | None:
    """The yes or no in a field that need not be there: 1, 0 or None."""
    return None if field is None else read_value(said(found, field))[0]


_PASSES = ("pass", "passed", "is_pass", "通过")


def _contradiction(found: Object, form: Form, score: float) -> str | None:
    """How the fields of one verdict deny each other, if they do."""
    middle = (form.lowest + form.highest) / 2
    for name in _PASSES:
        passes = _flag(found, name) if name != form.verdict else None
        if passes is not None and score != middle and (passes > 0.5) != (score > middle):
            return f"{form.verdict} is {score:g} and {name} is {passes > 0.5}"
    if _flag(found, form.triggered) == 0 and score < form.highest:
        return "the condition did not hold, which satisfies the constraint, and it fails"
    if _flag(found, form.also) == 1 and score == form.highest:
        return f"both {form.verdict} and {form.also}, which exclude each other"
    return None


def _has_code(found: Object, code: str) -> bool:
    return bool(code) and str(said(found, "code")).strip() == code
