"""Properties of all rules: nothing raises, nothing is slow, nothing varies, counts add up."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench.judging import blocks
from ragbench.judging import text as measure
from ragbench.judging.rules import RULES, Verdict, check
from ragbench.judging.sentences import sentences

pytest.importorskip("py3langid", reason="a dependency of ragbench is absent")
pytest.importorskip("pypinyin", reason="a dependency of ragbench is absent")

# Arguments for every rule, so that each can be tried on any text.
ARGUMENTS: dict[str, dict[str, Any]] = {
    "length": {"unit": "words", "at_least": 1, "at_most": 50},
    "forbidden_terms": {"terms": ["!", "art", "坏"]},
    "required_terms": {"terms": ["a", "的"]},
    "keyword_frequency": {"term": "the", "at_least": 1},
    "starts_with": {"prefix": "The"},
    "ends_with": {"suffix": "。"},
    "fixed_sentence": {"sentence": "I cannot answer."},
    "tone": {},
    "vocabulary": {"allowed": ["yes", "no", "高"], "among": ["yes", "no", "maybe", "高", "极高"]},
    "every_nth_word": {"n": 2, "code": "zh"},
    "numbered_list": {},
    "bullet_list": {},
    "headings": {"titles": ["a"]},
    "sections": {"at_least": 1},
    "markdown_table": {"headers": ["a"]},
    "json_object": {"keys": ["a"]},
    "json_object_lenient": {"keys": ["a"]},
    "no_emoji": {},
    "ordered": {"by": "chronological", "of": "mentions"},
    "conclusion_first": {},
    "statute_citation": {"every": True, "full_name": True},
    "quotes_from_context": {},
    "language": {"code": "en"},
    "keywords:existence": {"keywords": ["a", "的"]},
    "keywords:frequency": {"keyword": "a", "frequency": 2, "relation": "less than"},
    "keywords:forbidden_words": {"forbidden_words": ["a", "，"]},
    "keywords:letter_frequency": {"letter": "a", "let_frequency": 2, "let_relation": "at least"},
    "language:response_language": {"language": "de"},
    "change_case:english_capital": {},
    "change_case:english_lowercase": {},
    "change_case:capital_word_frequency": {
        "capital_frequency": 2,
        "capital_relation": "at least",
    },
    "length_constraints:number_words": {"num_words": 5, "relation": "at least"},
    "length_constraints:number_sentences": {"num_sentences": 2, "relation": "less than"},
    "length_constraints:number_paragraphs": {"num_paragraphs": 2},
    "length_constraints:nth_paragraph_first_word": {
        "num_paragraphs": 2,
        "nth_paragraph": 1,
        "first_word": "a",
    },
    "detectable_content:number_placeholders": {"num_placeholders": 1},
    "detectable_content:postscript": {"postscript_marker": "P.P.S"},
    "detectable_format:number_bullet_lists": {"num_bullets": 1},
    "detectable_format:constrained_response": {},
    "detectable_format:number_highlighted_sections": {"num_highlights": 1},
    "detectable_format:multiple_sections": {"section_spliter": "Section", "num_sections": 1},
    "detectable_format:json_format": {},
    "detectable_format:title": {},
    "combination:two_responses": {},
    "combination:repeat_prompt": {"prompt_to_repeat": "Say a."},
    "startend:end_checker": {"end_phrase": "a"},
    "startend:quotation": {},
    "punctuation:no_comma": {},
}
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *ARGUMENTS.items(),
    *[("ordered", {"by": by}) for by in ("numeric", "alphabetical", "pinyin", "strokes")],
    ("ordered", {"by": "frequency"}),
    ("sections", {"at_least": 1, "marker": "部分"}),
    ("vocabulary", {"allowed": ["a", "的"]}),
    ("conclusion_first", {"within": "sentence"}),
    *[
        ("length", {"unit": unit, "at_most": 3})
        for unit in ("characters", "characters_with_punctuation", "sentences", "paragraphs")
    ],
]
CONTEXT = "The fee is 3. 申请人可以申请复议。"


def test_every_rule_has_arguments_here() -> None:
    assert set(ARGUMENTS) == set(RULES)


PIECES = (
    *"。！？，、；：“”「」『』《》（）【】…—·①⑳㈠　！Ａａ１,.!?;:'\"()[]{}<>*-_#`~|\\/+=&%$@^",
    *"\n\n\r\t\0\x07\u200b\u200d\ufe0f\ufeff\u2028\u0301\ud800\udfff\U0001f600\U0001f468\u20e3",
    *("第", "条", "一", "十", "月", "年", "2024", "3.14", "-5", "http://a.b", "P.S.", "U.S."),
    *("```", "***", "******", "---", "| a | b |", "|---|---|", "<<a>>", "{", "}", '{"a": 1}'),
    *(
        "我",
        "的",
        "a",
        "The",
        "art",
        "Section 1",
        "1. ",
        "- ",
        "* ",
        "# ",
        "ไทย",
        "हिन्दी",
        "עברית",
        "日本語",
    ),
)


def random_text(source: random.Random) -> str:
    kind = source.random()
    if kind < 0.6:
        return "".join(source.choices(PIECES, k=source.randint(0, 60)))
    if kind < 0.9:
        return "".join(chr(source.randrange(0x110000)) for _ in range(source.randint(0, 80)))
    return source.choice(PIECES) * source.randint(1, 3000)


def test_ten_thousand_random_texts_raise_nothing() -> None:
    source = random.Random(7)
    for place in range(10_000):
        text = random_text(source)
        # Every rule meets every kind of text; all rules on each text would take minutes.
        for offset in range(6):
            rule, params = VARIANTS[(place * 6 + offset) % len(VARIANTS)]
            verdict = check(rule, text, params, context=CONTEXT)
            assert isinstance(verdict, Verdict)
            assert verdict.reason


@given(st.text(st.characters(codec=None), max_size=200), st.sampled_from(VARIANTS))
@settings(max_examples=500, deadline=None)
def test_no_text_raises(text: str, variant: tuple[str, dict[str, Any]]) -> None:
    assert check(variant[0], text, variant[1], context=CONTEXT).reason


LONG = {
    "one letter": "a" * 200_000,
    "capitals": "A" * 200_000,
    "digits": "1" * 200_000,
    "capital words": "Aa " * 66_000,
    "points": "." * 200_000,
    "spaced points": "a. " * 66_000,
    "stops alone": "。 " * 100_000,
    "chinese": "根据现有资料，无法回答。" * 16_000,
    "numerals": "第一百条" * 50_000,
    "brackets": "[" * 200_000,
    "angles": "<" * 200_000,
    "braces": "{" * 200_000,
    "quotes in braces": '{\\"' * 66_000,
    "deep json": '{"a":' * 40_000,
    "stars": "*" * 200_000,
    "spaced stars": "* " * 100_000,
    "dashes": "-" * 200_000 + "x",
    "pipes": "| - " * 50_000 + "x",
    "hashes": "# " * 100_000 + "x",
    "spaces": " " * 200_000 + "x",
    "spaces inside": "# a" + " " * 200_000 + "b",
    "line breaks": "\n" * 200_000,
    "backticks": "`" * 200_000,
    "fences": "```\n" * 50_000,
    "open quotes": "“" * 200_000,
    "straight quotes": '"a ' * 66_000,
    "titles": "《a》第" * 50_000,
    "open titles": "《" * 200_000,
    "dates": "2024-10-28 " * 18_000,
    "items": "- a\n" * 50_000,
    "numbered": "1. a\n" * 40_000,
    "chinese items": "一、a\n" * 40_000,
    "emoji": "\U0001f468\u200d" * 100_000,
    "apostrophes": "a'" * 100_000,
    "sections": "Section " * 25_000,
    "acts": "Sale of the " * 16_000,
    "paragraphs": "a\n\n" * 66_000,
}


@pytest.mark.parametrize("kind", LONG)
def test_long_texts_are_judged_in_time_that_grows_with_their_length(kind: str) -> None:
    text = LONG[kind][:30_000]
    slow = []
    for rule, params in VARIANTS:
        start = time.process_time()
        check(rule, text, params, context=CONTEXT)
        spent = time.process_time() - start
        # Generous for a busy machine: a quadratic rule takes many times this.
        if spent > 1.0:
            slow.append((rule, params, round(spent, 1)))
    assert not slow


def _all_verdicts(texts: list[str]) -> list[Verdict]:
    return [
        check(rule, text, params, context=CONTEXT) for text in texts for rule, params in VARIANTS
    ]


def test_threads_and_order_do_not_change_a_verdict() -> None:
    source = random.Random(11)
    texts = [random_text(source) for _ in range(20)]
    first = _all_verdicts(texts)
    with ThreadPoolExecutor(4) as pool:
        assert all(again == first for again in pool.map(lambda _: _all_verdicts(texts), range(4)))


LANGUAGE_ANSWER = (
    "The applicant may ask the authority for reconsideration within sixty days. 申请人可以申请。 "
    "Die Frist beginnt mit der Zustellung; la demande est gratuite et sans frais pour tous."
)


def test_one_answer_in_several_languages_has_one_verdict() -> None:
    order = [("language", {"code": code}) for code in ("en", "de", "fr", "zh")] * 50
    random.Random(3).shuffle(order)
    with ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda one: (one[1]["code"], check(one[0], LANGUAGE_ANSWER, one[1])), order)
        )
    assert len(set(found)) == 4


SCRIPT = """
import hashlib, random, sys
sys.path.insert(0, {tests!r})
from test_rules_properties import CONTEXT, VARIANTS, check, random_text
source = random.Random(5)
texts = [random_text(source) for _ in range(20)]
found = [repr(check(r, t, p, context=CONTEXT)) for t in texts for r, p in VARIANTS]
print(hashlib.sha256("\\n".join(found).encode("utf-8", "surrogatepass")).hexdigest())
"""


def test_processes_with_other_hash_seeds_agree(request: pytest.FixtureRequest) -> None:
    script = SCRIPT.format(tests=str(request.path.parent))
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


# --- Properties of the measures and of single rules.

WORDS = st.lists(
    st.sampled_from(["risk", "art", "法院", "AI", "3.14", "well-known", "好", "！", "，", "."]),
    max_size=12,
)


@given(WORDS, WORDS)
def test_characters_and_words_of_two_lines_add_up(one: list[str], other: list[str]) -> None:
    left, right = " ".join(one), " ".join(other)
    both = f"{left}\n{right}"
    assert measure.characters(both) == measure.characters(left) + measure.characters(right)
    assert measure.words(both) == measure.words(left) + measure.words(right)
    assert measure.characters_with_punctuation(both) == sum(
        map(measure.characters_with_punctuation, (left, right))
    )


SENTENCES = st.lists(
    st.sampled_from(
        ["好。", "The rate is 3.14.", "Really?", "他说：“走！”", "等等……", "Dr. Li agrees!"]
    ),
    max_size=6,
)


@given(SENTENCES, SENTENCES)
def test_sentences_of_two_texts_add_up(one: list[str], other: list[str]) -> None:
    assert len(sentences(" ".join([*one, *other]))) == len(one) + len(other)


@given(st.lists(st.sampled_from(["- a", "* 乙", "plain", "---", "1. c"]), max_size=8))
def test_bullets_are_the_lines_with_a_bullet(lines: list[str]) -> None:
    expected = sum(line in ("- a", "* 乙") for line in lines)
    assert len(blocks.bullet_items("\n".join(lines))) == expected


@given(
    WORDS, st.lists(st.sampled_from(["art", "！", "法院", "risk"]), max_size=3), st.text(max_size=3)
)
def test_a_further_forbidden_term_never_turns_a_fail_into_a_pass(
    words: list[str], terms: list[str], further: str
) -> None:
    text = " ".join(words)
    more = [*terms, further] if further.strip() else terms
    if not check("forbidden_terms", text, {"terms": terms}):
        assert not check("forbidden_terms", text, {"terms": more})
    if not check("required_terms", text, {"terms": terms}):
        assert not check("required_terms", text, {"terms": more})


@given(WORDS, st.integers(0, 20), st.integers(0, 5))
def test_a_wider_bound_never_turns_a_pass_into_a_fail(
    words: list[str], bound: int, slack: int
) -> None:
    text = " ".join(words)
    for unit in ("characters", "words", "sentences", "paragraphs"):
        if check("length", text, {"unit": unit, "at_most": bound}):
            assert check("length", text, {"unit": unit, "at_most": bound + slack})
        if check("length", text, {"unit": unit, "at_least": bound + slack}):
            assert check("length", text, {"unit": unit, "at_least": bound})


@given(WORDS)
def test_full_width_text_has_the_verdicts_of_half_width_text(words: list[str]) -> None:
    text = " ".join(words)
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)
    for terms in (["art"], ["!"], ["AI"], ["3.14"]):
        assert bool(check("forbidden_terms", text, {"terms": terms})) == bool(
            check("forbidden_terms", wide, {"terms": terms})
        )


@given(WORDS, st.sampled_from(["art", "法院", "AI"]))
def test_one_more_occurrence_is_one_more(words: list[str], term: str) -> None:
    text = " ".join(words)
    count = len(measure.occurrences(text, term))
    assert len(measure.occurrences(f"{text} {term}", term)) == count + 1


@given(st.text(st.characters(codec="utf-8"), max_size=80))
def test_folding_keeps_every_place(text: str) -> None:
    assert len(measure.fold(text)) == len(text)
    assert measure.fold(measure.fold(text)) == measure.fold(text)
