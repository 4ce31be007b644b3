"""Rules about how knowledge is reported: conclusion first, citations, quotations, language."""

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

__all__ = [
    "NOUNS",
    "PHRASES",
    "conclusion_first",
    "language",
    "quotes_from_context",
    "statute_citation",
]

# Nouns: a mark, the end of the line or "is" must follow; 答案取决于 and "Answering" answer nothing.
NOUNS = (
    "结论|核心结论|总体结论|最终结论|主要结论|初步结论|结论先行|一句话结论|一句话概括|一句话总结|总结|小结"
    "|答案|简要答案|最终答案|答复|回答|简要回答|直接回答|简答|答"
)
# Phrases: nothing but a longer word may follow, whatever stands there.
PHRASES = (
    "综上所述|综上|总之|总而言之|总的来说|总的来看|总的来讲|总体而言|总体来说|总体来看|综合来看|综合来说"
    "|综合而言|概括来说|概括地说|概括而言|概言之|简言之|简而言之|简单来说|简单地说|一言以蔽之"
)
_ENGLISH_NOUNS = (
    "(?:the |my )?(?:(?:overall |main |final )?conclusions?|(?:short |final |direct |quick )?answer"
    "|bottom line|takeaway|key takeaway|verdict)|(?:executive )?summary"
)
_ENGLISH_PHRASES = (
    "in conclusion|to conclude|in short|in brief|briefly|in summary|to summari[sz]e|to sum up"
    "|summing up|in sum|in a nutshell|in a word|all in all|overall|tl;?dr"
)
_MARK = r"(?=\s*(?:$|[^\w\s'’]))"
_IS = r"(?=是(?!否|不是|什么|谁|哪)|为(?!何|什么|时|止)|如下)"
_MARKER = re.compile(
    rf"(?:{'|'.join(sorted(NOUNS.split('|'), key=len, reverse=True))})(?:{_MARK}|{_IS})"
    rf"|(?:{PHRASES})(?![明法待])"
    rf"|(?<![A-Za-z0-9_])(?:(?:{_ENGLISH_NOUNS})(?:{_MARK}|(?= is\b))"
    rf"|(?:{_ENGLISH_PHRASES}){_MARK})",
    re.IGNORECASE | re.MULTILINE,
)


@rule("conclusion_first", no_blank("markers"))
def conclusion_first(
    text: str, *, markers: list[str] | None = None, within: Literal["start", "sentence"] = "start"
) -> Verdict:
    """The text opens with its conclusion, told by a marker.

    The first line with a letter or digit in it, headings too, begins with one of `markers`, or of
    our list (结论, 综上, In short, …; see Conclusions) followed by what that list asks. Whatever
    marks stand before the marker, a list number among them, are set aside. With `within` as
    `sentence` it may stand anywhere in the first sentence. Markers of your own are terms; anything
    may follow them.

    >>> bool(conclusion_first("**结论**：可以复议。\\n\\n理由如下。"))
    True
    >>> bool(conclusion_first("In short: no.\\nBecause …"))
    True
    >>> bool(conclusion_first("答案取决于合同。结论：可以。"))
    False
    >>> bool(conclusion_first("Summary judgment was denied. In short, no."))
    False
    """
    if within == "sentence":
        opening = (sentences(text) or [""])[0]
    else:
        line = next((line for line in text.splitlines() if measure.has_content(line)), "")
        opening = re.sub(r"^[\W_]+", "", blocks.unmarked(line))
    opening = measure.fold(opening)
    if markers is None:
        found = _MARKER.search(re.sub(r"\*\*|__|`", "", opening))
        passed = found is not None and (within == "sentence" or found.start() == 0)
    else:
        places = [measure.occurrences(opening, marker)[:1] for marker in markers]
        passed = any(place == [0] or (place and within == "sentence") for place in places)
    told = "first sentence" if within == "sentence" else "first line begins"
    return Verdict(passed, f"{told} {opening[:30]!r}", degenerate=passed and markers == [])


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

    The shape is 《…》第…条 with the article in Chinese numerals or digits; between 》 and 第 may
    stand one bracket (（2023年修订）) and a space, nothing else; what follows 条 (之一, 第二款,
    第三项) is free. 《…》第三条、第五条 is one citation. In English: Section 12 of the Sale of
    Goods Act. With `full_name` a Chinese law must bear its whole title: a name ending in 法 or 法典
    begins with 中华人民共和国. With `every`, each 第…条 must follow a name in 《》, directly or in
    one list with others.

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
    """The text is in the language `code` (ISO 639-1; `zh` is Chinese in either script).

    The script with the most words decides, each Chinese character a word; words of other languages
    inside do not matter. A script that several languages share (Latin, Cyrillic, Arabic,
    Devanagari) is told apart by a model, and passes for any of them, marked degenerate, where it
    has under 24 letters. A text without letters passes for any language, marked degenerate.

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
        wanted = "no" if code in ("nb", "nn") else code  # one language in two spellings
        return Verdict(found.code == wanted, f"{found.code}, by {found.how}")
    fits = found.script is None or detection.may_write(found.script, code)
    return Verdict(fits, found.how, degenerate=fits)
