"""Rules about how knowledge is reported: conclusion first, citations, quotations, language."""

# ruff: noqa: SIM905  (word lists read better as words than as quoted words)
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from ragbench.errors import BadConstraint
from ragbench.judging import blocks
from ragbench.judging import language as detection
from ragbench.judging import text as measure
from ragbench.judging.content_rules import bounded, no_blank
from ragbench.judging.registry import Verdict, rule
from ragbench.judging.sentences import sentences

__all__ = ["conclusion_first", "language", "quotes_from_context", "statute_citation"]

_MARKERS = (
    "结论|核心结论|总体结论|结论先行|一句话结论|答案|答|答复|综上|综上所述|总之|总体而言|简而言之"
    "|conclusion|in conclusion|in short|in summary|in brief|summary|short answer|answer"
    "|bottom line|the short answer|overall"
).split("|")


@rule("conclusion_first", no_blank("markers"))
def conclusion_first(
    text: str, *, markers: list[str] | None = None, within: Literal["start", "sentence"] = "start"
) -> Verdict:
    """The text opens with its conclusion, told by one of `markers`.

    The first line that is not blank begins with a marker (结论, 综上, In short, Answer, … unless
    `markers` are given), its heading, list and emphasis marks aside; with `within` as `sentence`
    the marker may stand anywhere in the first sentence.

    >>> bool(conclusion_first("**结论**：可以复议。\\n\\n理由如下。"))
    True
    >>> bool(conclusion_first("In short: no.\\nBecause …"))
    True
    >>> bool(conclusion_first("根据资料分析如下。结论：可以。"))
    False
    >>> bool(conclusion_first("The facts come first. In short, no."))
    False
    """
    opening = next((line for line in text.splitlines() if measure.has_content(line)), "")
    opening = measure.fold(blocks.plain(opening)).lstrip("[(\"'“「『<《 ")
    if within == "sentence":
        first = (sentences(text) or [""])[0]
        places = [m for m in markers or _MARKERS if measure.occurrences(first, m)]
        return Verdict(bool(places), f"first sentence {first[:30]!r}", degenerate=markers == [])
    chosen = _MARKERS if markers is None else markers
    passed = any(0 in measure.occurrences(opening[: len(m) + 8], m) for m in chosen)
    return Verdict(passed, f"first line begins {opening[:20]!r}")


_NUMERAL = r"[〇零一二三四五六七八九十百千两\d]{1,9}"
_ARTICLE = rf"第\s?{_NUMERAL}\s?条(?:\s?之[一二三四五六七八九十]{{1,2}})?"
_STATUTE = re.compile(
    rf"《(?P<name>[^《》\n]{{2,60}}(?:〈[^〈〉\n]{{2,40}}〉[^《》\n]{{0,20}})?)》"
    rf"(?:\s?\([^()\n]{{1,30}}\))?\s?(?P<article>{_ARTICLE})"
)
_BARE_ARTICLE = re.compile(_ARTICLE)
_CHAIN = re.compile(
    rf"(?:第{_NUMERAL}[款项]|第\({_NUMERAL}\)[项款]|[、,和及与或至到以及第\s]|规定|\(\s?{_NUMERAL}\s?\)|的){{0,12}}"
)
_ACTS = "Act|Law|Code|Regulation|Regulations|Directive|Constitution|Rules|Convention|Ordinance"
_ENGLISH_NAME = (
    r"\b(?:[A-Z][\w'’-]{0,30}[ ,]{1,2}(?:(?:of|on|and|the|for|in|to) ){0,3}){1,10}"
    rf"(?:{_ACTS})\b"
)
_NUMBERED_PART = (
    r"(?:[Aa]rticles?|[Ss]ections?|[Ss]ec\.|[Aa]rt\.|ss?\.|§{1,2})\s?\d{1,5}[\w()]{0,12}"
)
_ENGLISH = re.compile(
    rf"{_NUMBERED_PART},?\s(?:of\s)?(?:the\s)?{_ENGLISH_NAME}"
    rf"|{_ENGLISH_NAME}(?:\s(?:of\s)?\d{{4}})?(?:\s\(\d{{4}}\))?,?\s{_NUMBERED_PART}"
)


@rule
def statute_citation(
    text: str,
    *,
    at_least: int = 1,
    at_most: int | None = None,
    full_name: bool = False,
    every: bool = False,
) -> Verdict:
    """The text cites a statute by name with its article at least `at_least` times.

    The shape is 《…》第…条, in English Section 12 of the Sale of Goods Act. With `full_name` a
    Chinese law must bear its whole title: a name ending in 法 or 法典 begins with 中华人民共和国.
    With `every`, each 第…条 must follow a name in 《》, directly or in one list with others.

    >>> bool(statute_citation("依据《中华人民共和国行政复议法》第二十三条。", full_name=True))
    True
    >>> bool(statute_citation("See Section 12 of the Sale of Goods Act 1979."))
    True
    >>> bool(statute_citation("依据行政复议法第二十三条。"))
    False
    >>> bool(statute_citation("The Sale of Goods Act applies, see clause 12."))
    False
    """
    folded = measure.fold(text)
    found = list(_STATUTE.finditer(folded))
    if full_name:
        short = [match["name"] for match in found if not _is_full(match["name"])]
        if short:
            return Verdict(False, f"《{short[0]}》 is not a full title")
    if every:
        bare = _uncovered(folded, found)
        if bare:
            return Verdict(False, f"{bare} without the name of its statute")
    count = len(found) + len(_ENGLISH.findall(folded))
    return bounded(count, "statutes cited with an article", at_least, at_most)


def _is_full(name: str) -> bool:
    base = re.sub(r"\s*\([^()]*\)\s*$", "", name)
    return not base.endswith(("法", "法典")) or base.startswith("中华人民共和国")


def _uncovered(text: str, cited: list[re.Match[str]]) -> str | None:
    """Return the first article that neither has a statute's name nor continues a list that has."""
    covered = {match.start("article"): match.end() for match in cited}
    reach = -1
    for match in _BARE_ARTICLE.finditer(text):
        joins = reach >= 0 and _CHAIN.fullmatch(text[reach : match.start()][:60]) is not None
        if match.start() not in covered and not joins:
            return match.group()
        reach = match.end()
    return None


_QUOTE_MARKS = re.compile(r"[\s\"'“”‘’「」『』]+")


@rule
def quotes_from_context(
    text: str, *, at_least: int = 1, shortest: int = 6, context: str | None = None
) -> Verdict:
    """At least `at_least` quotations occur word for word in the context, and none is made up.

    What counts is in “ ”, 「 」, 『 』 or straight double quotes and has at least `shortest`
    letters and digits; shorter ones are terms, not quotations. White space, inner quote marks,
    width and a mark at either end do not matter; …… stands for words left out.

    >>> source = "申请人可以自知道之日起六十日内提出申请。 The fee is waived for all."
    >>> bool(quotes_from_context("规定是“自知道之日起六十日内提出申请。”", context=source))
    True
    >>> bool(quotes_from_context('It says "the fee is waived".', shortest=4, context=source))
    True
    >>> bool(quotes_from_context("规定是“自知道之日起三十日内提出”。", context=source))
    False
    >>> bool(quotes_from_context("The fee is waived.", context=source))
    False
    """
    if context is None:
        raise BadConstraint("quotes_from_context compares with the context, and none was given")
    source = _comparable(context)
    quoted = [q for q in blocks.quotations(text) if measure.characters(q) >= shortest]
    invented = [quote for quote in quoted if not _occurs(quote, source)]
    if invented:
        return Verdict(False, f"not in the context: {invented[0][:60]!r}")
    return bounded(len(quoted), "quotations from the context", at_least, None)


def _comparable(text: str) -> str:
    return _QUOTE_MARKS.sub("", measure.fold(text)).lower()


def _occurs(quote: str, source: str) -> bool:
    place = 0
    for part in re.split(r"…+|\.{3,}", quote):
        wanted = _comparable(part).strip("。，,.;；:：!?、 ")
        place = source.find(wanted, place)
        if place < 0:
            return False
        place += len(wanted)
    return True


def known_language(params: Mapping[str, object]) -> list[str]:
    """Return a problem when the language code is not one that can be told."""
    key = "code" if "code" in params else "language"
    code = params.get(key)
    if code in detection.LANGUAGES:
        return []
    near = {"zh-cn": "zh", "zh-tw": "zh", "cn": "zh", "jp": "ja", "kr": "ko", "english": "en"}
    hint = f"; did you mean {near[str(code).lower()]!r}?" if str(code).lower() in near else "."
    return [f"no language {code!r}{hint} There are: {', '.join(detection.LANGUAGES)}"]


@rule("language", known_language)
def language(text: str, *, code: str) -> Verdict:
    """The text is in the language `code` (ISO 639-1): most of its letters and the likeliest model.

    Words of another language inside do not matter. A text too short to tell passes, marked
    degenerate, when its script fits.

    >>> bool(language("根据现有资料，Apple 的营收未披露。", code="zh"))
    True
    >>> bool(language("The applicant may appeal within sixty days.", code="en"))
    True
    >>> bool(language("申請人は六十日以内に申し立てることができます。", code="zh"))
    False
    >>> bool(language("Der Antragsteller kann binnen sechzig Tagen klagen.", code="en"))
    False
    """
    return language_verdict(text, code)


def language_verdict(text: str, code: str) -> Verdict:
    """Return whether a text is in a language; undecided ones pass if the script does not differ."""
    found = detection.detect(text)
    if found.code is not None:
        return Verdict(found.code == code, f"{found.code}, by {found.how}")
    counts = detection.scripts(text)
    fits = not counts or detection.may_write(next(iter(counts)), code)
    return Verdict(fits, found.how, degenerate=fits)
