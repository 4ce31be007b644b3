"""The rules and their registry: kinds of fault from neighbouring tools, each with siblings."""

from __future__ import annotations

import doctest
import importlib
import json
import subprocess
import sys

import polars as pl
import pytest

from ragbench.errors import BadConstraint, RagbenchError
from ragbench.judging.ifeval_rules import IFEVAL
from ragbench.judging.reference import examples
from ragbench.judging.rules import (
    RULES,
    Verdict,
    argument_problems,
    check,
    degenerate,
    rule,
    validate,
    validate_constraints,
)

MODULES = [
    "blocks",
    "constraints_check",
    "content_rules",
    "emoji",
    "format_rules",
    "ifeval_rules",
    "language",
    "numerals",
    "ordering",
    "protocol_rules",
    "reference",
    "registry",
    "rules",
    "sentences",
    "text",
    "tone_rules",
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_the_code_hold(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"ragbench.judging.{module}"))
    assert found.failed == 0


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_rule_shows_what_passes_and_what_fails_in_both_languages(name: str) -> None:
    shown = examples(name)
    passing = [text for passed, text, _ in shown if passed]
    failing = [text for passed, text, _ in shown if not passed]
    assert len(passing) >= 2
    assert len(failing) >= 2
    chinese = [any("\u4e00" <= c <= "\u9fff" or c in "！。" for c in text) for _, text, _ in shown]
    assert any(chinese)
    assert not all(chinese)


def test_the_25_official_ids_are_there() -> None:
    assert len(IFEVAL) == 25
    assert {name.split(":")[0] for name in IFEVAL} == {
        "change_case",
        "combination",
        "detectable_content",
        "detectable_format",
        "keywords",
        "language",
        "length_constraints",
        "punctuation",
        "startend",
    }


def test_importing_the_rules_loads_nothing_heavy() -> None:
    script = (
        "import sys; import ragbench.judging.rules; "
        "heavy = {'py3langid', 'pypinyin', 'numpy', 'duckdb', 'pandas', 'jieba', 'lingua'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


# --- Names and arguments.


@pytest.mark.parametrize(
    ("name", "params", "told"),
    [
        ("foo_bar", {}, "no rule"),
        ("bullet_count", {}, "did you mean 'bullet_list'"),
        ("keywords:existance", {}, "did you mean 'keywords:existence'"),
        (None, {}, "no rule"),
        ("forbidden_terms", {}, "needs terms: a list of text"),
        ("forbidden_terms", None, "needs terms"),
        ("forbidden_terms", {"terms": None}, "needs terms"),
        ("forbidden_terms", {"terms": "!"}, "not a list of text"),
        ("forbidden_terms", {"terms": ["a", 1]}, "not a list of text"),
        ("forbidden_terms", {"terms": [" "]}, "blank"),
        ("forbidden_terms", {"term": ["!"]}, "did you mean 'terms'"),
        ("length", {"unit": "characters"}, "at_least, at_most or both"),
        ("length", {"unit": "chars", "at_most": 3}, "did you mean 'characters'"),
        ("length", {"unit": "words", "at_most": "3"}, "not a whole number"),
        ("length", {"unit": "words", "at_most": 3.0}, "not a whole number"),
        ("length", {"unit": "words", "at_most": True}, "not a whole number"),
        ("length", {"unit": "words", "at_most": -1}, "below 0"),
        ("length", {"unit": "words", "at_least": 5, "at_most": 3}, "no text can meet both"),
        ("length", {"unit": "words", "at_most": 3, "min": 1}, 'no argument "min"'),
        ("json_object", {"only": 1}, "true or false"),
        ("language", {"code": "zh-cn"}, "did you mean 'zh'"),
        ("language", {"code": "xx"}, "no language 'xx'"),
        ("ordered", {"by": "date"}, "one of"),
        ("keywords:frequency", {"keyword": "a", "frequency": 1}, "needs relation"),
        ("keywords:frequency", {"keyword": "a", "frequency": 1, "relation": "over"}, "one of"),
        (
            "keywords:letter_frequency",
            {"letter": "ab", "let_frequency": 1, "let_relation": "at least"},
            "one character",
        ),
        (
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"},
            "2 paragraphs",
        ),
        ("detectable_format:number_bullet_lists", {}, "needs num_bullets"),
    ],
)
def test_bad_names_and_arguments_are_found_before_anything_is_judged(
    name: str, params: dict[str, object] | None, told: str
) -> None:
    with pytest.raises(BadConstraint, match=told.replace("(", r"\(")):
        validate(name, params)
    with pytest.raises(RagbenchError):
        check(name, "text", params)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("forbidden_terms", {"terms": []}),
        ("length", {"unit": "words", "at_most": 0}),
        ("json_object", {"keys": [], "only": False}),
        ("keywords:existence", {"keywords": []}),
        ("length_constraints:number_words", {"num_words": 0, "relation": "at least"}),
        ("no_emoji", None),
        ("punctuation:no_comma", {}),
        ("length", {"unit": "words", "at_most": 5, "at_least": None}),
    ],
)
def test_zero_false_and_empty_lists_are_values(name: str, params: dict[str, object] | None) -> None:
    assert argument_problems(name, params) == []
    assert isinstance(check(name, "文本 text", params), Verdict)


def test_params_that_are_no_mapping_are_told() -> None:
    assert "not an object" in argument_problems("no_emoji", [1])[0]  # type: ignore[arg-type]


def test_text_that_is_no_text_is_an_error_of_ours() -> None:
    with pytest.raises(BadConstraint, match="judges text"):
        check("no_emoji", None)  # type: ignore[arg-type]


def test_a_name_can_be_taken_once() -> None:
    with pytest.raises(BadConstraint, match="two rules"):

        @rule("no_emoji")
        def again(text: str) -> Verdict:
            return Verdict(True, text)


def test_a_new_rule_is_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragbench.judging.registry.RULES", RULES)

    @rule("test_only:ends_in_digit")
    def ends_in_digit(text: str, *, digit: int = 0) -> Verdict:
        return Verdict(text.endswith(str(digit)), text[-1:])

    try:
        assert check("test_only:ends_in_digit", "a7", {"digit": 7})
        assert argument_problems("test_only:ends_in_digit", {"digit": "7"})
    finally:
        del RULES["test_only:ends_in_digit"]


def test_a_verdict_tells_what_was_measured() -> None:
    verdict = check("length", "一二三", {"unit": "characters", "at_most": 2})
    assert not verdict
    assert verdict.reason == "3 characters, at most 2 asked"
    place = check("forbidden_terms", "好消息！", {"terms": ["!"]})
    assert "character 3" in place.reason


# --- The context.


def test_a_context_that_is_needed_and_absent_is_an_error_not_a_fail() -> None:
    for context in (None, []):
        with pytest.raises(BadConstraint, match="context"):
            check("quotes_from_context", "“一二三四五六”", context=context)


def test_quotations_are_looked_up_in_every_document() -> None:
    documents = ["甲文件。", "申请人可以自知道之日起六十日内提出申请。"]
    text = "规定“自知道之日起六十日内提出”。"
    assert check("quotes_from_context", text, context=documents)
    assert not check("quotes_from_context", text, context=documents[:1])


def test_contexts_of_other_types_are_told() -> None:
    with pytest.raises(BadConstraint, match="not text"):
        check("quotes_from_context", "“一二三四五六”", context=[1])  # type: ignore[list-item]


# --- Passes that mean nothing.


@pytest.mark.parametrize(
    ("name", "params", "text"),
    [
        ("forbidden_terms", {"terms": ["!"]}, ""),
        ("forbidden_terms", {"terms": []}, "text"),
        ("length", {"unit": "words", "at_most": 5}, " \n"),
        ("length", {"unit": "words", "at_least": 0}, "text"),
        ("every_nth_word", {"n": 5, "code": "ja"}, "あ い う え お か"),
        ("every_nth_word", {"n": 5, "code": "ja"}, "あ い"),
        ("required_terms", {"terms": ["risk", "风险"]}, "risk 风险 risk"),
        ("keyword_frequency", {"term": "risk", "at_least": 2}, "risk risk risk"),
        ("ordered", {"by": "numeric"}, "- 1"),
        ("starts_with", {"prefix": "Dear"}, "Dear"),
        ("language", {"code": "en"}, "OK"),
        ("language", {"code": "en"}, "42"),
        (
            "change_case:capital_word_frequency",
            {"capital_frequency": 2, "capital_relation": "at least"},
            "ALL IN CAPITALS",
        ),
        ("keywords:existence", {"keywords": []}, "text"),
        ("no_emoji", {}, "。"),
    ],
)
def test_a_pass_that_means_nothing_is_marked(
    name: str, params: dict[str, object], text: str
) -> None:
    verdict = check(name, text, params)
    assert verdict
    assert verdict.degenerate


def test_an_ordinary_pass_is_not_marked() -> None:
    assert not check("every_nth_word", "a b c d お", {"n": 5, "code": "ja"}).degenerate
    assert not check("forbidden_terms", "fine", {"terms": ["!"]}).degenerate
    assert not check("length", "fine", {"unit": "words", "at_most": 5}).degenerate


def test_rules_that_never_failed_and_trivial_constraints_are_listed() -> None:
    rows = pl.DataFrame(
        {
            "rule": ["no_emoji", "no_emoji", "length", "length", "tone", "tone", None],
            "constraint_id": ["a", "b", "c", "c", "d", "d", "e"],
            "score": [1.0, 1.0, 0.0, 1.0, 0.0, None, 1.0],
            "text": ["好", "", "long", "", "绝对", "x", "x"],
            "params": ["{}", "{}", '{"unit": "words", "at_most": 0}'] + [None] * 4,
        }
    ).with_columns(
        pl.when(pl.col("constraint_id") == "c")
        .then(pl.lit('{"unit": "words", "at_most": 0}'))
        .otherwise("params")
        .alias("params")
    )
    assert degenerate(rows).rows() == [
        ("length", "c", "trivially satisfied", 2, 1, 1),
        ("no_emoji", None, "never failed", 2, 2, 1),
        ("no_emoji", "b", "trivially satisfied", 1, 1, 1),
        ("tone", None, "never passed", 1, 0, 0),
    ]
    assert degenerate(rows.head(0)).is_empty()
    marked = rows.drop("text", "params").with_columns(pl.lit(value=False).alias("is_degenerate"))
    assert degenerate(marked)["problem"].to_list() == ["never failed", "never passed"]


# --- Constraints of a study.


def problems_of(text: str, name: str | None, params: object) -> list[str]:
    frame = pl.DataFrame(
        {
            "constraint_id": ["c1"],
            "text": [text],
            "rule": [name],
            "params": [params if isinstance(params, str) or params is None else json.dumps(params)],
        },
        schema_overrides={"rule": pl.String, "params": pl.String},
    )
    return validate_constraints(frame)["problem"].to_list()


CHARACTERS = "characters"


@pytest.mark.parametrize(
    ("text", "name", "params"),
    [
        ("不超过300字", "length", {"unit": CHARACTERS, "at_most": 400}),
        ("不超过三百字", "length", {"unit": CHARACTERS, "at_most": 400}),
        ("不超过３００字", "length", {"unit": CHARACTERS, "at_most": 400}),
        ("Write at least three bullets", "bullet_list", {"at_least": 4}),
        ("Use a few bullets", "bullet_list", {"at_least": 1, "at_most": 1}),
        ("Use a few bullets", "detectable_format:number_bullet_lists", {"num_bullets": 1}),
        (
            "400 words",
            "length_constraints:number_words",
            {"num_words": 336, "relation": "at least"},
        ),
        ("列出三至五条", "numbered_list", {"at_least": 3, "at_most": 6}),
        ("列出若干要点", "bullet_list", {"at_least": 2}),
        ("至少300字", "length", {"unit": CHARACTERS, "at_most": 300}),
        ("最多两处引用", "quotes_from_context", {"at_least": 2}),
        (
            "at most 5 words",
            "length_constraints:number_words",
            {"num_words": 5, "relation": "at least"},
        ),
        ("必须包含“AI2”", "required_terms", {"terms": ["AI3"]}),
        ('Start with "Dear client"', "starts_with", {"prefix": "Hello"}),
        ("exactly two hundred words", "length", {"unit": "words", "at_least": 200, "at_most": 250}),
    ],
)
def test_a_text_that_states_another_thing_than_its_arguments_is_reported(
    text: str, name: str, params: dict[str, object]
) -> None:
    assert problems_of(text, name, params)


@pytest.mark.parametrize(
    ("text", "name", "params"),
    [
        ("不超过300字", "length", {"unit": CHARACTERS, "at_most": 300}),
        ("全文控制在一千二百字以内", "length", {"unit": CHARACTERS, "at_most": 1200}),
        ("1.2万字以内", "length", {"unit": CHARACTERS, "at_most": 12000}),
        ("少于300字", "length", {"unit": CHARACTERS, "at_most": 299}),
        ("more than 5 sentences", "length", {"unit": "sentences", "at_least": 6}),
        ("列出3到5条，每条不超过50字", "numbered_list", {"at_least": 3, "at_most": 5}),
        ("Answer in one paragraph", "length", {"unit": "paragraphs", "at_most": 1}),
        ("A dozen items", "bullet_list", {"at_least": 12, "at_most": 12}),
        ("统一使用第一人称，进一步说明", "length", {"unit": CHARACTERS, "at_most": 300}),
        ("不要使用感叹号", "forbidden_terms", {"terms": ["!"]}),
        ("必须包含“AI2”", "required_terms", {"terms": ["ＡＩ２"]}),
        (
            "第2段以“其次”开头，共4段",
            "length_constraints:nth_paragraph_first_word",
            {"num_paragraphs": 4, "nth_paragraph": 2, "first_word": "其次"},
        ),
        ("不得出现“2024”", "forbidden_terms", {"terms": ["2024"]}),
        ("列出若干要点", "bullet_list", {}),
        ("不得使用表情符号", "no_emoji", None),
        ("保持专业语气", None, None),
        ("任何要求", None, "not json"),
    ],
)
def test_a_text_that_agrees_with_its_arguments_is_not_reported(
    text: str, name: str | None, params: dict[str, object] | None
) -> None:
    assert problems_of(text, name, params) == []


def test_problems_name_their_row_and_the_remedy() -> None:
    frame = pl.DataFrame(
        {
            "constraint_id": ["a", "b", "a", None],
            "text": ["x", None, "x", "x"],
            "rule": ["no_emojis", "length", None, "no_emoji"],
            "params": [None, '{"unit": "words"', "{}", "[]"],
        }
    )
    found = validate_constraints(frame)
    assert found.columns == ["constraint_id", "problem", "remedy"]
    told = dict(found.select("constraint_id", "problem").group_by("constraint_id").all().rows())
    assert "did you mean 'no_emoji'" in told["a"][0]
    assert told["a"][1] == "row 3 has the id of row 1"
    assert "not JSON" in told["b"][0]
    assert len(told["row 4"]) == 2
    assert all(found["remedy"])
    assert validate_constraints(frame.head(0)).is_empty()
    with pytest.raises(BadConstraint, match="no column"):
        validate_constraints(pl.DataFrame({"constraint_id": ["a"]}))
