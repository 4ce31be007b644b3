"""Over-certain words, and the denials that take them back: both lists are closed."""

# ruff: noqa: SIM905  (word lists read better as words than as quoted words)
from __future__ import annotations

import re

from ragbench.judging import text as measure
from ragbench.judging.content_rules import no_blank
from ragbench.judging.registry import Verdict, rule

__all__ = ["DENIALS", "NEUTRAL", "tone"]

# What 绝对 also begins without claiming anything.
NEUTRAL = (
    "值|压力|温度|湿度|误差|地址|路径|多数|零度|数|量|额"
    "|收益|回报|控股|权|禁忌|风险|高度|海拔|计数|豁免|责任"
)
# Words that leave no room for doubt. 一定 and 肯定 also have harmless uses (一定程度, 肯定句), so
# these are told by what follows.
_OVER_CERTAIN = re.compile(
    r"毫无疑[问义]|毋庸置疑|无可置疑|不容置疑|无疑(?![问义虑])|百分之百|万无一失|板上钉钉|绝无可能|绝不可能"
    rf"|必然(?!性)|必定|势必|铁定|注定|肯定(?=[会能是要可将有在得没不无])|绝对(?!{NEUTRAL})|绝对(?=权威)"
    r"|一定(?=[会能是要可将得不没无])|保证(?=[能会可你您]|\d)|100\s?%\s?(?:确定|肯定|安全|有效|正确)"
    r"|(?<![A-Za-z])(?:absolutely|certainly|definitely|undoubtedly|unquestionably|indisputably"
    r"|undeniably|inevitably|guaranteed|always|never"
    r"|(?:without|beyond) (?:a |any )?(?:doubt|question)"
    r"|no doubt|for (?:certain|sure)|100\s?% (?:certain|sure|safe|effective))(?![A-Za-z])",
    re.IGNORECASE,
)
DENIALS = (
    "不 不是 不会 不能 不可 不可能 不敢 不算 不要 不得 不应 不宜 不必 "
    "不代表 不等于 不意味着 不见得 不至于 不足以 未 未必 未能 非 并非 绝非 无 没 没有 没能 没法 "
    "无法 无从 难以 难于 很难 难说 谈不上 算不上 称不上 说不上 "
    "是否 能否 可否 会否"
).split()
_DENIED = re.compile(
    rf"(?:{'|'.join(sorted(DENIALS, key=len, reverse=True))})\s*$"
    r"|(?:\b(?:not|cannot|hardly|scarcely|nor|no)|n['’]t)(?:\s+(?:a|be|been|yet|so|quite))?\s+$",
    re.IGNORECASE,
)


@rule("tone", no_blank("words"))
def tone(text: str, *, words: list[str] | None = None, at_most: int = 0) -> Verdict:
    """At most `at_most` over-certain words occur, from our list or from `words`.

    A word right after a denial is not counted (不一定, 无法肯定, "not definitely"); both lists are
    printed under Over-certain words.

    >>> bool(tone("该方案不一定适用，可能存在一定程度的风险。"))
    True
    >>> bool(tone("This isn't always so; it may help."))
    True
    >>> bool(tone("该药绝对安全，一定会治好。"))
    False
    >>> bool(tone("It will definitely work."))
    False
    """
    folded = measure.fold(text)
    if words is None:
        hits = [(m.start(), m.group()) for m in _OVER_CERTAIN.finditer(folded)]
    else:
        hits = [(place, word) for word in words for place in measure.occurrences(text, word)]
    counted = sorted(
        (place, word)
        for place, word in hits
        if not _DENIED.search(folded[max(0, place - 16) : place])
    )
    told = f"{len(counted)} over-certain words, at most {at_most} asked"
    if counted:
        told += f"; {counted[0][1]!r} at character {counted[0][0]}"
    return Verdict(len(counted) <= at_most, told, degenerate=words == [])
