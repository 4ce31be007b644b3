"""IFEval as rows, and our verdicts on real responses beside the official ones."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ragbench.benchmarks.ifeval import DIMENSIONS, load, wording
from ragbench.errors import ImportFailed
from ragbench.judging.ifeval_rules import IFEVAL
from ragbench.judging.rules import check, validate_constraints
from ragbench.taxonomy import DIMENSIONS as TAXONOMY

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT.parent / "shared" / "data" / "ifeval" / "ifeval_gpt4.jsonl"
needs_sample = pytest.mark.skipif(
    not SAMPLE.exists(), reason=f"the IFEval sample is not at {SAMPLE}; it is not committed"
)

PROMPT = {
    "key": 7,
    "prompt": "Write 3 words, no commas.",
    "instruction_id_list": ["length_constraints:number_words", "punctuation:no_comma"],
    "kwargs": [{"num_words": 3, "relation": "at least", "keyword": None}, {}],
    "response": "One two three.",
}


def written(tmp_path: Path, *prompts: object) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps(prompt) for prompt in prompts), encoding="utf-8")
    return path


def test_a_prompt_becomes_rows(tmp_path: Path) -> None:
    rows = load(written(tmp_path, PROMPT))
    assert rows["queries"].rows(named=True)[0]["query_id"] == "ifeval-7"
    assert rows["constraints"].select("constraint_id", "rule", "params", "dimension").rows() == [
        (
            "ifeval-7.c01",
            "length_constraints:number_words",
            '{"num_words": 3, "relation": "at least"}',
            "content",
        ),
        ("ifeval-7.c02", "punctuation:no_comma", "{}", "negative"),
    ]
    assert rows["constraints"]["text"][0] == "Write at least 3 words."
    assert rows["instances"].select("instance_id", "context_mode").row(0) == (
        "ifeval-7-open",
        "open",
    )
    assert rows["instance_constraints"]["ordinal"].to_list() == [1, 2]
    assert rows["responses"].select("response_id", "text").row(0) == (
        "ifeval-7-open/gpt-4/closed_book/0",
        "One two three.",
    )


def test_prompts_without_responses_give_no_responses(tmp_path: Path) -> None:
    bare = {key: value for key, value in PROMPT.items() if key != "response"}
    assert set(load(written(tmp_path, bare))) == {
        "queries",
        "constraints",
        "instances",
        "instance_constraints",
    }


@pytest.mark.parametrize(
    ("prompt", "told"),
    [
        ({"key": 1}, "line 1 has no"),
        ([1], "line 1 has no"),
        ({**PROMPT, "kwargs": []}, "2 instructions but 0"),
    ],
)
def test_lines_that_are_no_prompt_are_named(tmp_path: Path, prompt: object, told: str) -> None:
    with pytest.raises(ImportFailed, match=told):
        load(written(tmp_path, prompt))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="cannot read"):
        load(tmp_path / "none.jsonl")
    (tmp_path / "bad.jsonl").write_text("{", encoding="utf-8")
    with pytest.raises(ImportFailed, match="line 1 is not JSON"):
        load(tmp_path / "bad.jsonl")


def test_every_instruction_has_a_dimension_and_words() -> None:
    assert set(DIMENSIONS) == set(IFEVAL)
    assert set(DIMENSIONS.values()) <= {entry.key for entry in TAXONOMY}
    assert wording("punctuation:no_comma", {}) == "Use no comma."
    assert wording("unheard_of", {}) == "unheard_of"


# The verdicts of ours that differ from the official ones, and the fault of that checker: the
# numbers are those of the list in docs/rules.md.
DISAGREEMENTS = {
    (1203, "keywords:frequency"): "F1",
    (3345, "keywords:frequency"): "F1",
    (202, "change_case:english_lowercase"): "F2",
    (2341, "change_case:english_capital"): "F2",
    (3456, "change_case:english_capital"): "F3",
}


@needs_sample
def test_real_responses_are_judged_as_the_official_checker_does_but_for_its_faults() -> None:
    pytest.importorskip("py3langid", reason="needs py3langid, a dependency of ragbench")
    differing = {}
    judged = 0
    for line in SAMPLE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        asked = zip(row["instruction_id_list"], row["kwargs"], row["official_strict"], strict=True)
        for rule, params, official in asked:
            verdict = check(rule, row["response"], params)
            judged += 1
            # Key 1129 asks to count "!", for which the official checker counts a random letter.
            if bool(verdict) != official and row["key"] != 1129:
                differing[(row["key"], rule)] = verdict.reason
    assert judged == 427
    assert set(differing) == set(DISAGREEMENTS), differing
    assert len(differing) <= 0.015 * judged
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    for key, _ in DISAGREEMENTS:
        assert str(key) in page


@needs_sample
def test_the_sample_loads_without_a_problem() -> None:
    rows = load(SAMPLE)
    counts = {name: len(frame) for name, frame in rows.items()}
    assert counts == {
        "queries": 271,
        "constraints": 427,
        "instances": 271,
        "instance_constraints": 427,
        "models": 1,
        "wanted": 271,
        "responses": 271,
    }
    problems = validate_constraints(rows["constraints"])
    assert problems.is_empty(), problems


@needs_sample
def test_the_sample_is_judged_end_to_end(tmp_path: Path) -> None:
    pytest.importorskip("py3langid", reason="needs py3langid, a dependency of ragbench")
    from ragbench.judging.judge import judge
    from ragbench.store import append, connect

    study = tmp_path / "ifeval.duckdb"
    append(study, load(SAMPLE))
    report = judge(study, "rules")
    assert report["judged"].sum() == 427
    assert report["errors"].sum() == 0
    assert report["met"].sum() == 368
    met = connect(study).sql("SELECT sum(score) AS met FROM judgments").pl()
    assert float(met["met"].item()) == pytest.approx(368)
    assert isinstance(report, pl.DataFrame)
