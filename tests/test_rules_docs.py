"""The page on rules says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragbench.judging import blocks
from ragbench.judging import text as measure
from ragbench.judging.protocol_rules import NOUNS, PHRASES
from ragbench.judging.reference import CLOSING, OPENING, table
from ragbench.judging.rules import RULES, check
from ragbench.judging.sentences import sentences
from ragbench.judging.tone_rules import DENIALS, NEUTRAL

PATH = Path(__file__).resolve().parents[1] / "docs" / "rules.md"
PAGE = PATH.read_text(encoding="utf-8")


def test_the_table_of_rules_is_current() -> None:
    shown = PAGE.split(OPENING)[1].split(CLOSING)[0].strip()
    assert shown == table(), "run: python -m ragbench.judging.reference"


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_rule_is_in_the_table(name: str) -> None:
    assert f"| `{name}` |" in PAGE


def test_the_first_example_holds() -> None:
    (code,) = re.findall(r"```python\n(from ragbench.judging.rules import check.*?)```", PAGE, re.S)
    space: dict[str, object] = {}
    exec(code, space)
    verdict = space["verdict"]
    assert repr(bool(verdict)) in code
    assert verdict.reason in code  # type: ignore[attr-defined]


def test_the_counts_in_the_definitions_hold() -> None:
    text = "根据现有资料，无法直接回答您的问题。"
    assert (measure.characters(text), measure.characters_with_punctuation(text)) == (16, 18)
    assert len(measure.words("用Python写3行")) == 5
    assert len(measure.words("Don't pay 3.14 for a well-known U.S. brand!")) == 8
    assert len(sentences('"Stop!" he said.')) == 1
    assert measure.words("共3.5亿元") == ["共", "3.5", "亿", "元"]


def test_the_marks_named_as_bullets_are_bullets() -> None:
    for mark in "•·●○■□◆▪‣▶➢✓":
        assert len(blocks.bullet_items(f"{mark}甲")) == 1
        assert mark in PAGE
    for mark in "-*+–":
        assert len(blocks.bullet_items(f"{mark} 甲")) == 1
        assert len(blocks.bullet_items(f"{mark}甲")) == 0


def section(title: str) -> str:
    return PAGE.split(f"### {title}\n")[1].split("\n###")[0].split("\n## ")[0]


def test_the_examples_of_the_definitions_hold() -> None:
    for text, count in {
        "他问“好吗？”就走了。": 1,
        "“走吗？”他问。": 1,
        "他问：“好吗？”就走了。": 2,
        "“合同有效吗？”对方答：“有效。”双方于是签字……": 3,
        "“有效。”他说": 2,
        "“有效。”，他说": 1,
    }.items():
        assert text in section("Sentence")
        assert len(sentences(text)) == count
    for text, count in {"COVID-19": 1, "2024-10-28": 1, "don’t": 1, "2024/10/28": 3}.items():
        assert text in section("Word")
        assert len(measure.words(text)) == count
    for text, count in {"# 题⏎一。": 1, "要点：⏎- a⏎- b⏎⏎完。": 2}.items():
        assert text in section("Paragraph")
        assert len(blocks.paragraphs(text.replace("⏎", "\n"))) == count
    for text in ("1、2024年计划", "2)3月", "1.概述", "1.2024年计划", "1．", "（一）", "一、"):
        assert text in section("List item")
        assert len(blocks.numbered_items(f"{text}甲")) == 1
    for text in ("3.5倍", "1.5 million", "３．５倍", "2024.10.28", "第一，", "Step 1:"):
        assert text in section("List item")
        assert not blocks.numbered_items(f"{text}甲")


def test_the_closed_lists_are_printed_and_do_what_they_say() -> None:
    told = re.sub(r"\s+", "", section("Over-certain words"))
    for denial in DENIALS:
        assert re.search(f"[,:]{denial}[,;]", told), denial
        assert check("tone", f"这{denial}必定成功。", {})
    assert not check("tone", "这必定成功。", {})
    for term in NEUTRAL.split("|"):
        assert term in told
        assert check("tone", f"绝对{term}", {})
    told = section("Conclusions").replace("\n", " ")
    for noun in NOUNS.split("|"):
        assert f"{noun}," in told or f"{noun};" in told
        assert check("conclusion_first", f"{noun}：可以", {})
        assert not check("conclusion_first", f"{noun}取决于合同", {})
    for phrase in PHRASES.split("|"):
        assert f"{phrase}," in told or f"{phrase};" in told
        assert check("conclusion_first", f"{phrase}可以", {})


ENGLISH_MARKERS = re.split(
    r"\|",
    "conclusion|conclusions|overall conclusion|the answer|my final answer|short answer|quick answer"
    "|the bottom line|takeaway|key takeaway|verdict|summary|executive summary|in conclusion"
    "|to conclude|in short|in brief|briefly|in summary|to summarize|to summarise|to sum up"
    "|summing up|in sum|in a nutshell|in a word|all in all|overall|TL;DR",
)


@pytest.mark.parametrize("marker", ENGLISH_MARKERS)
def test_english_markers_ask_for_a_mark(marker: str) -> None:
    assert check("conclusion_first", f"{marker.capitalize()}: no.", {})
    assert check("conclusion_first", f"# {marker}\nno.", {})
    assert not check("conclusion_first", f"{marker} things differ.", {})
    assert not check("conclusion_first", f"{marker}ness: no.", {})


def test_the_signs_named_as_emoji_only_with_a_selector_are_so() -> None:
    signs = section("Emoji").split("Only\nwith U+FE0F:")[1].split(". Never")[0].split()
    assert len(signs) == 38
    for sign in signs:
        assert check("no_emoji", sign, {}), sign
        assert not check("no_emoji", f"{sign}\ufe0f", {}), sign


OFFICIAL = {  # what the list of faults says that our rules do
    "F1": (
        "keywords:frequency",
        {"keyword": "robber", "frequency": 2, "relation": "at least"},
        "robbers, robbers",
        False,
    ),
    "F2": ("change_case:english_capital", {}, "YES", True),
    "F3": (
        "change_case:english_capital",
        {},
        "1. *ABIGAIL SMITH*\n2. BENJAMIN JONES\n3. CHARLOTTE BROWN",
        True,
    ),
    "F4": (
        "keywords:letter_frequency",
        {"letter": "!", "let_frequency": 1, "let_relation": "at least"},
        "no such mark",
        False,
    ),
    "F5": (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": "less than"},
        "1. Buy milk",
        True,
    ),
    "F6": (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": "less than"},
        "Ask (have you tried it?), taking care.",
        True,
    ),
    "F7": (
        "length_constraints:number_sentences",
        {"num_sentences": 3, "relation": "at least"},
        "第一句。第二句！第三句？",
        True,
    ),
    "F8": ("detectable_content:postscript", {"postscript_marker": "P.S."}, "see map. s. 3", False),
    "F9": (
        "detectable_format:number_bullet_lists",
        {"num_bullets": 0},
        "---\n-5 degrees\n*Reign*",
        True,
    ),
    "F10": ("keywords:forbidden_words", {"forbidden_words": ["!"]}, "Great news! Done", False),
    "F11": ("keywords:existence", {"keywords": ["a.b"]}, "axb", False),
    "F12": (
        "length_constraints:number_words",
        {"num_words": 16, "relation": "at least"},
        "根据现有资料，无法直接回答您的问题。",
        True,
    ),
    "F13": (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "less than"},
        "DON'T",
        True,
    ),
    "F14": (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 1},
        "One ***really*** good one",
        True,
    ),
    "F15": (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "however"},
        "One.\n\n\n\n**However**, two.",
        True,
    ),
    "F16": (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 1},
        "as Section 2 of the act says",
        False,
    ),
    "F17": ("punctuation:no_comma", {}, "好，一个。", False),
    "F18": ("detectable_format:json_format", {}, '{"a": NaN}', False),
}


def test_the_list_of_faults_is_closed() -> None:
    assert re.findall(r"^\| (F\d+) ", PAGE, flags=re.MULTILINE) == list(OFFICIAL)


@pytest.mark.parametrize("fault", OFFICIAL)
def test_our_rules_do_what_the_list_of_faults_says(fault: str) -> None:
    if fault in ("F2", "F3"):
        pytest.importorskip("py3langid", reason="a dependency of ragbench is absent")
    name, params, text, expected = OFFICIAL[fault]
    assert bool(check(name, text, params)) is expected
