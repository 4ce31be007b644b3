"""The 25 instruction types of IFEval under their official ids and argument names.

Each reads as the official checker means it; where that checker is at fault on real text (the
closed list is in `docs/rules.md`), the rule does what the instruction says. All fail on a blank
response, as there. IFEval: Zhou et al., arXiv 2311.07911.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from ragbench.judging import blocks
from ragbench.judging import text as measure
from ragbench.judging.content_rules import no_blank
from ragbench.judging.format_rules import parse_json
from ragbench.judging.protocol_rules import known_language, language_verdict
from ragbench.judging.registry import Extra, Predicate, Verdict, rule
from ragbench.judging.sentences import sentences

__all__ = ["IFEVAL"]

Relation = Literal["less than", "at least"]

IFEVAL: list[str] = []


def _ifeval(name: str, *extras: Extra) -> Callable[[Predicate], Predicate]:
    """Register a predicate under an official id; a blank response fails whatever is asked."""

    def register(predicate: Predicate) -> Predicate:
        @functools.wraps(predicate)
        def guarded(text: str, **arguments: Any) -> Verdict:
            if not text.strip():
                return Verdict(False, "the response is blank")
            return predicate(text, **arguments)

        IFEVAL.append(name)
        return rule(name, _not_negative, *extras)(guarded)

    return register


def _not_negative(params: Mapping[str, Any]) -> list[str]:
    return [
        f"{key} is {value}, below 0"
        for key, value in params.items()
        if isinstance(value, int) and value < 0
    ]


def _related(count: int, what: str, relation: str, threshold: int) -> Verdict:
    passed = count < threshold if relation == "less than" else count >= threshold
    trivial = passed and relation == "at least" and threshold == 0
    return Verdict(passed, f"{count} {what}, {relation} {threshold} asked", trivial)


def _enough(count: int, what: str, threshold: int) -> Verdict:
    return _related(count, what, "at least", threshold)


# --- keywords


@_ifeval("keywords:existence", no_blank("keywords"))
def keywords_existence(text: str, *, keywords: list[str]) -> Verdict:
    """Every keyword occurs, in any letter case, as a term does: Latin words as whole words only.

    Chinese keywords and punctuation are found anywhere; width folds; a space matches any white
    space.

    >>> bool(keywords_existence("The Court heard the appeal.", keywords=["court", "appeal"]))
    True
    >>> bool(keywords_existence("本院受理上诉。", keywords=["上诉"]))
    True
    >>> bool(keywords_existence("We start at noon.", keywords=["art"]))
    False
    >>> bool(keywords_existence("本院不予受理。", keywords=["上诉"]))
    False
    """
    missing = [word for word in keywords if not measure.occurrences(text, word)]
    told = f"missing {', '.join(map(repr, missing))}" if missing else f"all {len(keywords)} found"
    return Verdict(not missing, told, degenerate=not keywords)


@_ifeval("keywords:frequency", no_blank("keyword"))
def keywords_frequency(text: str, *, keyword: str, frequency: int, relation: Relation) -> Verdict:
    """The keyword occurs fewer than, or at least, `frequency` times; matching as in existence.

    Occurrences in any letter case count, overlaps do not; risks is not risk.

    >>> bool(keywords_frequency("Risk, risk!", keyword="risk", frequency=2, relation="at least"))
    True
    >>> bool(keywords_frequency("风险可控。", keyword="风险", frequency=2, relation="less than"))
    True
    >>> bool(keywords_frequency("Risky.", keyword="risk", frequency=1, relation="at least"))
    False
    >>> bool(keywords_frequency("风险、风险。", keyword="风险", frequency=2, relation="less than"))
    False
    """
    count = len(measure.occurrences(text, keyword.strip()))
    return _related(count, f"times {keyword!r}", relation, frequency)


@_ifeval("keywords:forbidden_words", no_blank("forbidden_words"))
def keywords_forbidden_words(text: str, *, forbidden_words: list[str]) -> Verdict:
    """None of the words occurs, in any letter case; punctuation and Chinese are found anywhere.

    A Latin word is found as a whole word only: art is not in start.

    >>> bool(keywords_forbidden_words("We start at noon", forbidden_words=["art"]))
    True
    >>> bool(keywords_forbidden_words("好消息。", forbidden_words=["！"]))
    True
    >>> bool(keywords_forbidden_words("Great news! Done", forbidden_words=["!"]))
    False
    >>> bool(keywords_forbidden_words("这是坏消息", forbidden_words=["坏"]))
    False
    """
    for word in forbidden_words:
        places = measure.occurrences(text, word)
        if places:
            return Verdict(False, f"{word!r} at character {places[0]}")
    told = f"none of {len(forbidden_words)} found"
    return Verdict(True, told, degenerate=not forbidden_words)


def _one_character(params: Mapping[str, Any]) -> list[str]:
    letter = params.get("letter", "")
    return [] if len(letter.strip()) == 1 else [f"letter is {letter!r}, not one character"]


@_ifeval("keywords:letter_frequency", _one_character)
def keywords_letter_frequency(
    text: str, *, letter: str, let_frequency: int, let_relation: Relation
) -> Verdict:
    """The letter, or any one mark, occurs fewer than or at least so many times.

    Capitals and small letters, full- and half-width ones count alike, wherever they stand.

    >>> L = keywords_letter_frequency
    >>> bool(L("Hip!", letter="!", let_frequency=1, let_relation="at least"))
    True
    >>> bool(L("好！", letter="!", let_frequency=1, let_relation="at least"))
    True
    >>> bool(L("Noon", letter="n", let_frequency=2, let_relation="less than"))
    False
    >>> bool(L("中文", letter="a", let_frequency=1, let_relation="at least"))
    False
    """
    wanted = measure.fold(letter.strip()).lower()
    count = measure.fold(text).lower().count(wanted)
    return _related(count, f"times {wanted!r}", let_relation, let_frequency)


# --- language and case


@_ifeval("language:response_language", known_language)
def response_language(text: str, *, language: str) -> Verdict:
    """The response is in the language of this ISO 639-1 code, told as in `language`.

    >>> bool(response_language("The applicant may appeal within sixty days.", language="en"))
    True
    >>> bool(response_language("申请人可以申请行政复议。", language="zh"))
    True
    >>> bool(response_language("申请人可以申请行政复议。", language="en"))
    False
    >>> bool(response_language("The applicant may appeal within sixty days.", language="ko"))
    False
    """
    return language_verdict(text, language)


@_ifeval("change_case:english_capital")
def english_capital(text: str) -> Verdict:
    """The response is English and every letter that has a case is a capital.

    At least one letter must have a case. Whether it is English is told as in `language`.

    >>> bool(english_capital("THE COURT HEARD THE APPEAL ON MONDAY."))
    True
    >>> bool(english_capital("OK!"))
    True
    >>> bool(english_capital("THE COURT Heard THE APPEAL."))
    False
    >>> bool(english_capital("全部大写"))
    False
    """
    return _english(text, str.isupper, "capitals")


@_ifeval("change_case:english_lowercase")
def english_lowercase(text: str) -> Verdict:
    """The response is English and every letter that has a case is a small one.

    At least one letter must have a case. Whether it is English is told as in `language`.

    >>> bool(english_lowercase("the court heard the appeal on monday."))
    True
    >>> bool(english_lowercase("yes, 42!"))
    True
    >>> bool(english_lowercase("the Court heard the appeal."))
    False
    >>> bool(english_lowercase("全部小写"))
    False
    """
    return _english(text, str.islower, "lower case")


def _english(text: str, has_case: Callable[[str], bool], what: str) -> Verdict:
    if not has_case(text):
        wrong = re.search(r"[A-Z]" if what == "lower case" else r"[a-z]", text)
        place = f" at character {wrong.start()}" if wrong else ""
        return Verdict(False, f"not all {what}{place}")
    verdict = language_verdict(text, "en")
    return Verdict(verdict.passed, f"all {what}; {verdict.reason}", verdict.degenerate)


# Words by the spaces and marks around them: U.S., AND/OR and 24-HOUR are one each.
_CHUNK = re.compile(
    rf"[^\s,;!?()\[\]{{}}\"“”…—<>&@#$%*|，。！？、；：「」『』《》（）【】{measure.UNSPACED}]+"
)
_CONTRACTED = re.compile(r"(?:['’](?:s|m|d|ll|re|ve)|n['’]t)$", re.IGNORECASE)


def _is_capital(chunk: str) -> bool:
    """Return whether a word is in capitals, a contracted ending such as 'm or 's aside."""
    return chunk.isupper() or _CONTRACTED.sub("", chunk.rstrip(".:-_'’/")).isupper()


@_ifeval("change_case:capital_word_frequency")
def capital_word_frequency(
    text: str, *, capital_frequency: int, capital_relation: Relation
) -> Verdict:
    """Fewer than, or at least, so many words are written in capitals alone.

    Hyphens, points and slashes do not part a word: U.S., COVID-19 and AND/OR are one each. I and A
    count, and so does the I of I'm.

    >>> W = capital_word_frequency
    >>> bool(W("STOP at the U.S. border", capital_frequency=2, capital_relation="at least"))
    True
    >>> bool(W("请用PDF格式", capital_frequency=1, capital_relation="at least"))
    True
    >>> bool(W("STOP. GO.", capital_frequency=2, capital_relation="less than"))
    False
    >>> bool(W("没有大写", capital_frequency=1, capital_relation="at least"))
    False
    """
    capital = sum(map(_is_capital, _CHUNK.findall(text)))
    verdict = _related(capital, "capital words", capital_relation, capital_frequency)
    everything = capital_relation == "at least" and text.isupper()
    return Verdict(verdict.passed, verdict.reason, verdict.passed and everything)


# --- length


@_ifeval("length_constraints:number_words")
def number_words(text: str, *, num_words: int, relation: Relation) -> Verdict:
    """The response has fewer than, or at least, so many words as IFEval counts them.

    Every mark splits: don't is two words. Each Chinese character is one.

    >>> bool(number_words("Don't stop", num_words=3, relation="at least"))
    True
    >>> bool(number_words("根据现有资料，无法回答。", num_words=10, relation="at least"))
    True
    >>> bool(number_words("Too short", num_words=3, relation="at least"))
    False
    >>> bool(number_words("根据现有资料，无法回答。", num_words=5, relation="less than"))
    False
    """
    return _related(len(measure.runs(text)), "words", relation, num_words)


@_ifeval("length_constraints:number_sentences")
def number_sentences(text: str, *, num_sentences: int, relation: Relation) -> Verdict:
    """The response has fewer than, or at least, so many sentences, as defined under Sentence.

    >>> bool(number_sentences("It is 3.14. OK.", num_sentences=3, relation="less than"))
    True
    >>> bool(number_sentences("第一句。第二句！第三句？", num_sentences=3, relation="at least"))
    True
    >>> bool(number_sentences("Dr. Li agrees", num_sentences=2, relation="at least"))
    False
    >>> bool(number_sentences("一。二。", num_sentences=2, relation="less than"))
    False
    """
    return _related(len(sentences(text)), "sentences", relation, num_sentences)


_BOLD_ITALIC = re.compile(r"\*\*\*(?=[^\s*])[^*\n]{1,400}(?<=[^\s*])\*\*\*")


@_ifeval("length_constraints:number_paragraphs")
def number_paragraphs(text: str, *, num_paragraphs: int) -> Verdict:
    """The response has exactly so many paragraphs parted by the divider ***.

    A divider counts wherever it stands, with or without white space around it. An empty paragraph
    between two dividers fails; one at either end is none. ***Words*** in bold italics hold no
    divider.

    >>> bool(number_paragraphs("One.\\n***\\nTwo.", num_paragraphs=2))
    True
    >>> bool(number_paragraphs("第一段\\n***\\n第二段\\n***", num_paragraphs=2))
    True
    >>> bool(number_paragraphs("One.\\n\\nTwo.", num_paragraphs=2))
    False
    >>> bool(number_paragraphs("一\\n***\\n***\\n二", num_paragraphs=2))
    False
    """
    parts = _BOLD_ITALIC.sub("x", text).split("***")
    if any(not part.strip() for part in parts[1:-1]):
        return Verdict(False, "an empty paragraph between two dividers")
    count = sum(bool(part.strip()) for part in parts)
    return Verdict(count == num_paragraphs, f"{count} paragraphs, {num_paragraphs} asked")


def _within(params: Mapping[str, Any]) -> list[str]:
    place, count = params.get("nth_paragraph", 1), params.get("num_paragraphs", 1)
    if 1 <= place <= count:
        return []
    return [f"nth_paragraph is {place}, but there are to be {count} paragraphs"]


@_ifeval("length_constraints:nth_paragraph_first_word", _within, no_blank("first_word"))
def nth_paragraph_first_word(
    text: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> Verdict:
    """There are exactly so many paragraphs parted by empty lines; one begins with `first_word`.

    Empty paragraphs do not count, a heading does, and a line of spaces parts nothing. Letter case
    and any marks and white space before the word do not matter; it may not be part of a longer
    Latin word.

    >>> N = nth_paragraph_first_word
    >>> bool(N("A.\\n\\nBut b.", num_paragraphs=2, nth_paragraph=2, first_word="but"))
    True
    >>> bool(N("首先，甲。\\n\\n其次，乙。", num_paragraphs=2, nth_paragraph=2, first_word="其次"))
    True
    >>> bool(N("A.\\n\\nButter.", num_paragraphs=2, nth_paragraph=2, first_word="but"))
    False
    >>> bool(N("首先，甲。\\n其次，乙。", num_paragraphs=2, nth_paragraph=2, first_word="其次"))
    False
    """
    parts = [part.strip() for part in text.split("\n\n") if part.strip()]
    if len(parts) != num_paragraphs:
        return Verdict(False, f"{len(parts)} paragraphs, {num_paragraphs} asked")
    opening = re.sub(r"^[\W_]+", "", parts[nth_paragraph - 1])[: len(first_word) + 20]
    passed = 0 in measure.occurrences(opening, first_word.strip())
    return Verdict(passed, f"paragraph {nth_paragraph} begins {opening[:20]!r}")


# --- content and format


def _bracketed(text: str) -> int:
    """Return how many [ ] pairs there are, each on one line, from the left and not nested."""
    count = 0
    for line in text.split("\n"):
        start = line.find("[")
        while start >= 0:
            end = line.find("]", start + 1)
            if end < 0:
                break
            count += 1
            start = line.find("[", end + 1)
    return count


@_ifeval("detectable_content:number_placeholders")
def number_placeholders(text: str, *, num_placeholders: int) -> Verdict:
    """The response has at least so many placeholders in square brackets, such as [address].

    Each [ with the next ] on its line is one, whatever stands between; full-width ［ ］ count,
    【 】 do not.

    >>> bool(number_placeholders("Dear [name], call [number].", num_placeholders=2))
    True
    >>> bool(number_placeholders("致［客户］：请寄往[地址]", num_placeholders=2))
    True
    >>> bool(number_placeholders("Dear (name)", num_placeholders=1))
    False
    >>> bool(number_placeholders("【地址】", num_placeholders=1))
    False
    """
    return _enough(_bracketed(measure.fold(text)), "placeholders", num_placeholders)


_LINE_MARKS = r"[\s*_#>~\"'“”‘’(\[-]*"


@_ifeval("detectable_content:postscript", no_blank("postscript_marker"))
def postscript(text: str, *, postscript_marker: str) -> Verdict:
    """A line opens with the postscript marker, such as P.S., P.P.S or 附言, in any letter case.

    White space, *, _, #, >, ~, -, quotes and opening brackets may stand before it, and a space
    after each of its points (P. S.). The points must be there: PS is not P.S. What follows is
    free, but a Latin letter or digit may not touch the end of the marker.

    >>> bool(postscript("Done.\\nP.S. 谢谢", postscript_marker="P.S."))
    True
    >>> bool(postscript("此致\\n附言：请回复", postscript_marker="附言"))
    True
    >>> bool(postscript("see map. s. 3 of the act", postscript_marker="P.S."))
    False
    >>> bool(postscript("正文里提到附言二字", postscript_marker="附言"))
    False
    """
    marker = measure.fold(postscript_marker).strip()
    pieces = [re.escape(part) for part in re.split(r"(?<=\.)\s?", marker) if part]
    ends = r"(?![A-Za-z0-9])" if marker[-1:].isalnum() and marker[-1:].isascii() else ""
    opening = re.compile(_LINE_MARKS + r"\s?".join(pieces) + ends, re.IGNORECASE)
    for place, line in enumerate(measure.fold(text).split("\n"), start=1):
        if opening.match(line):
            return Verdict(True, f"line {place} opens with {postscript_marker!r}")
    return Verdict(False, f"no line opens with {postscript_marker!r}")


@_ifeval("detectable_format:number_bullet_lists")
def number_bullet_lists(text: str, *, num_bullets: int) -> Verdict:
    """The response has exactly so many bullets that open with * or - and white space.

    Indented and nested ones count; other bullets (+, •), rules, table lines and code do not.

    >>> bool(number_bullet_lists("* a\\n- b\\n---", num_bullets=2))
    True
    >>> bool(number_bullet_lists("* 甲\\n  * 乙", num_bullets=2))
    True
    >>> bool(number_bullet_lists("1. a\\n2. b", num_bullets=2))
    False
    >>> bool(number_bullet_lists("- 甲\\n-5度\\n- 乙", num_bullets=3))
    False
    """
    count = sum(item.marker in "*-" for item in blocks.bullet_items(text))
    return Verdict(count == num_bullets, f"{count} bullets, {num_bullets} asked")


_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


@_ifeval("detectable_format:constrained_response")
def constrained_response(text: str) -> Verdict:
    """The response holds one of "My answer is yes.", "My answer is no.", "My answer is maybe.".

    Anywhere, in this letter case, with its point; full-width letters fold.

    >>> bool(constrained_response("My answer is maybe."))
    True
    >>> bool(constrained_response("可以。My answer is yes."))
    True
    >>> bool(constrained_response("Yes."))
    False
    >>> bool(constrained_response("我的回答是：是。"))
    False
    """
    folded = measure.fold(text)
    found = [answer for answer in _ANSWERS if answer in folded]
    return Verdict(bool(found), f"{found[0]!r}" if found else "none of the three answers")


@_ifeval("detectable_format:number_highlighted_sections")
def number_highlighted_sections(text: str, *, num_highlights: int) -> Verdict:
    """At least so many stretches are highlighted as *this* or **this** within a line.

    Stars pair from the left of each line; a pair with white space alone between is none.

    >>> bool(number_highlighted_sections("*One* and **two**", num_highlights=2))
    True
    >>> bool(number_highlighted_sections("**要点一**：略", num_highlights=1))
    True
    >>> bool(number_highlighted_sections("* one\\n* two", num_highlights=1))
    False
    >>> bool(number_highlighted_sections("没有** **强调", num_highlights=1))
    False
    """
    count = 0
    for line in text.split("\n"):
        # Stars pair up from the left; whatever two hold between them is highlighted if visible.
        single = re.findall(r"\*([^*]*)\*", line)
        double = re.findall(r"\*\*([^*]*)\*\*", line)
        count += sum(bool(inner.strip()) for inner in single + double)
    return _enough(count, "highlights", num_highlights)


@_ifeval("detectable_format:multiple_sections", no_blank("section_spliter"))
def multiple_sections(text: str, *, section_spliter: str, num_sections: int) -> Verdict:
    """At least so many lines open with the section word and a number: Section 1, # Section 2.

    The word in its own letter case, then at most one space and digits; white space, *, _, #, >,
    ~, -, <, quotes and opening brackets may stand before it.

    >>> S = multiple_sections
    >>> bool(S("Section 1\\na\\nSection 2\\nb", section_spliter="Section", num_sections=2))
    True
    >>> bool(S("**第 1 部分**\\n略", section_spliter="第", num_sections=1))
    True
    >>> bool(S("Section 1\\nas Section 2 says", section_spliter="Section", num_sections=2))
    False
    >>> bool(S("部分 1：略", section_spliter="部分", num_sections=2))
    False
    """
    word = re.escape(measure.fold(section_spliter).strip())
    opening = re.compile(rf"{_LINE_MARKS}[<【]*{word}\s?\d+")
    count = sum(opening.match(line) is not None for line in measure.fold(text).split("\n"))
    return _enough(count, "sections", num_sections)


@_ifeval("detectable_format:json_format")
def json_format(text: str) -> Verdict:
    """The whole response is one JSON value of any kind, bare or in a code fence.

    White space around it is set aside, words are not.

    >>> bool(json_format('{"a": 1}'))
    True
    >>> bool(json_format('```json\\n{"结论": "可行"}\\n```'))
    True
    >>> bool(json_format('Here: {"a": 1}'))
    False
    >>> bool(json_format("{'结论': 1}"))
    False
    """
    bare = text.strip()
    for opening in ("```json", "```Json", "```JSON", "```"):
        bare = bare.removeprefix(opening)
    try:
        parse_json(bare.removesuffix("```").strip())
    except ValueError as error:
        return Verdict(False, f"not JSON: {str(error)[:80]}")
    return Verdict(True, "JSON")


@_ifeval("detectable_format:title")
def title(text: str) -> Verdict:
    """The response has a title in double angular brackets on one line, such as <<joy>>.

    Anywhere in the line; something visible must stand between.

    >>> bool(title("<<Report>>\\nText"))
    True
    >>> bool(title("<<年度报告>>"))
    True
    >>> bool(title("<Report>"))
    False
    >>> bool(title("《年度报告》"))
    False
    """
    for line in text.split("\n"):
        start, end = line.find("<<"), line.rfind(">>")
        if start >= 0 and end > start + 2 and line[start:end].lstrip("<").rstrip(">").strip():
            return Verdict(True, f"title {line[start : end + 2][:60]!r}")
    return Verdict(False, "no title in << >>")


@_ifeval("combination:two_responses")
def two_responses(text: str) -> Verdict:
    """The response holds exactly two different answers, parted by ******.

    White space around each answer is set aside, letter case is not; a divider at either end is
    allowed, an empty answer between two dividers is not.

    >>> bool(two_responses("Yes.\\n******\\nNo."))
    True
    >>> bool(two_responses("甲\\n******\\n乙\\n******"))
    True
    >>> bool(two_responses("Yes.\\n******\\nYes."))
    False
    >>> bool(two_responses("甲\\n***\\n乙"))
    False
    """
    parts = [part.strip() for part in text.split("******")]
    if any(not part for part in parts[1:-1]):
        return Verdict(False, "an empty answer between two dividers")
    answers = [part for part in parts if part]
    told = f"{len(answers)} answers"
    if len(answers) == 2 and answers[0] == answers[1]:
        return Verdict(False, "two answers that are the same")
    return Verdict(len(answers) == 2, told)


@_ifeval("combination:repeat_prompt", no_blank("prompt_to_repeat"))
def repeat_prompt(text: str, *, prompt_to_repeat: str) -> Verdict:
    """The response begins with the request word for word, in any letter case.

    White space before it is set aside; inside it every space, line break and mark counts, and so
    does width.

    >>> bool(repeat_prompt("Say hi.\\n\\nHi!", prompt_to_repeat="Say hi."))
    True
    >>> bool(repeat_prompt("写一首诗。春眠不觉晓", prompt_to_repeat="写一首诗。"))
    True
    >>> bool(repeat_prompt("Sure. Say hi.", prompt_to_repeat="Say hi."))
    False
    >>> bool(repeat_prompt("写首诗。春眠不觉晓", prompt_to_repeat="写一首诗。"))
    False
    """
    passed = text.strip().lower().startswith(prompt_to_repeat.strip().lower())
    return Verdict(passed, f"begins {text.strip()[:40]!r}")


@_ifeval("startend:end_checker", no_blank("end_phrase"))
def end_checker(text: str, *, end_phrase: str) -> Verdict:
    """The response ends with the phrase, in any letter case, its punctuation included.

    White space at the end, then double quotation marks, straight or curly, are set aside; emphasis
    marks are not. The phrase may be the end of a longer word.

    >>> bool(end_checker("Done. Any questions?", end_phrase="any questions?"))
    True
    >>> bool(end_checker("以上。还有问题吗？", end_phrase="还有问题吗?"))
    True
    >>> bool(end_checker("Any questions? Bye.", end_phrase="Any questions?"))
    False
    >>> bool(end_checker("还有问题吗？谢谢", end_phrase="还有问题吗？"))
    False
    """
    tail = measure.fold(text).strip().strip('"“”').lower()
    passed = tail.endswith(measure.fold(end_phrase).strip().lower())
    return Verdict(passed, f"ends {text.strip()[-40:]!r}")


_QUOTE_PAIRS = (('"', '"'), ("“", "”"), ("＂", "＂"))


@_ifeval("startend:quotation")
def quotation(text: str) -> Verdict:
    """The first and the last mark of the response are double quotation marks of one kind.

    "…", “…” or full-width ＂…＂, white space around them set aside; what stands between does not
    matter. 「…」 and two kinds mixed (“…") fail.

    >>> bool(quotation('"Done."'))
    True
    >>> bool(quotation("“完成。”"))
    True
    >>> bool(quotation('He said "done".'))
    False
    >>> bool(quotation("《完成》"))
    False
    """
    bare = text.strip()
    passed = len(bare) > 1 and any(
        bare[0] == left and bare[-1] == right for left, right in _QUOTE_PAIRS
    )
    return Verdict(passed, f"begins {bare[:1]!r} and ends {bare[-1:]!r}")


@_ifeval("punctuation:no_comma")
def no_comma(text: str) -> Verdict:
    """The response has no comma anywhere, not in 1,000 either: , ， or ،; 、 is another mark.

    >>> bool(no_comma("No comma here."))
    True
    >>> bool(no_comma("苹果、香蕉。"))
    True
    >>> bool(no_comma("Well, one."))
    False
    >>> bool(no_comma("好，一个。"))
    False
    """
    found = re.search("[,，،]", text)
    return Verdict(not found, f"comma at character {found.start()}" if found else "no comma")
