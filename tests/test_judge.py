"""Judging by rules: what is asked and stored, what fails early, what does not stop the rest."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import ragbench as rb
from ragbench.errors import BadConstraint, RagbenchError
from ragbench.judging import judge as judging


def frames(rule: str, params: object, texts: list[str], text: str = "") -> dict[str, list[dict]]:
    return {
        "queries": [{"query_id": "q"}],
        "constraints": [
            {
                "constraint_id": "q.c1",
                "query_id": "q",
                "dimension": "content",
                "text": text,
                "rule": rule,
                "params": params,
            }
        ],
        "instances": [{"instance_id": "q-gap", "query_id": "q", "context_mode": "gap"}],
        "instance_constraints": [{"instance_id": "q-gap", "ordinal": 1, "constraint_id": "q.c1"}],
        "responses": [
            {"instance_id": "q-gap", "model": "m", "trial": i, "text": answer}
            for i, answer in enumerate(texts)
        ],
    }


def test_each_answer_gets_one_verdict_with_the_measured_quantity(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    length = {"unit": "characters", "at_most": 3}
    rb.append(path, frames("length", length, ["好。", "这是很长的回答。"]))
    report = rb.judge(path).row(0, named=True)
    assert (report["judged"], report["met"], report["errors"]) == (2, 1, 0)
    rows = (
        rb.connect(path)
        .sql(
            "SELECT score, reason FROM judgments JOIN evidence USING "
            "(response_id, criterion, target_id, judge, repeat) ORDER BY ALL"
        )
        .pl()
    )
    assert rows["score"].to_list() == [0.0, 1.0]
    assert "7" in rows["reason"][0]


def test_a_second_call_has_nothing_to_do(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    rb.append(path, frames("no_emoji", {}, ["a", "b"]))
    rb.judge(path)
    before = path.stat().st_mtime_ns
    assert rb.judge(path).is_empty()
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("rule", "params", "says"),
    [
        ("no_emojis", {}, "no_emoji"),
        ("length", {"unit": "characters", "most": 3}, "most"),
        ("length", {"unit": "characters", "at_most": "3"}, "whole number"),
        ("forbidden_terms", {}, "terms"),
    ],
)
def test_a_constraint_that_can_never_be_judged_is_refused_when_it_is_loaded(
    tmp_path: Path, rule: str, params: object, says: str
) -> None:
    path = tmp_path / "s.duckdb"
    with pytest.raises(BadConstraint, match=r"q\.c1") as caught:
        rb.append(path, frames(rule, params, ["a"]))
    assert says in str(caught.value)
    assert not path.exists()


def test_a_text_that_states_another_number_is_reported_when_it_is_loaded(tmp_path: Path) -> None:
    given = frames("length", {"unit": "characters", "at_most": 400}, ["a"], text="不超过300字")
    with pytest.warns(UserWarning, match=r"q\.c1.*300.*400"):
        rb.append(tmp_path / "s.duckdb", given)


def test_a_rule_that_fails_on_one_answer_gives_an_error_row_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragbench.judging.registry import RULES

    path = tmp_path / "s.duckdb"
    rb.append(path, frames("no_emoji", {}, [f"answer {i}" for i in range(200)]))
    real = RULES["no_emoji"]

    def breaks(text: str) -> object:
        if text == "answer 77":
            raise ZeroDivisionError("seventy-seven")
        return real(text)

    monkeypatch.setitem(RULES, "no_emoji", breaks)
    report = rb.judge(path).row(0, named=True)
    assert (report["judged"], report["errors"]) == (199, 1)
    con = rb.connect(path)
    assert (
        "seventy-seven"
        in con.sql("SELECT error FROM judgments WHERE error IS NOT NULL").fetchall()[0][0]
    )
    assert rb.scores(con)["loose_rules_n"].to_list() == [199]
    monkeypatch.setitem(RULES, "no_emoji", real)
    assert rb.judge(path).is_empty()
    assert rb.judge(path, retry_errors=True)["judged"].to_list() == [1]
    assert rb.scores(con)["loose_rules_n"].to_list() == [200]


def test_passes_that_mean_nothing_are_counted_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    rb.append(path, frames("forbidden_terms", {"terms": ["!"]}, ["", "好。"]))
    assert rb.judge(path)["degenerate"].to_list() == [1]
    found = judging.findings(rb.connect(path))
    assert ("never failed", None) in found.select("problem", "constraint_id").rows()
    assert ("trivially satisfied", "q.c1") in found.select("problem", "constraint_id").rows()


def test_a_response_without_text_is_an_error_and_no_zero(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    given = frames("no_emoji", {}, ["a"])
    given["responses"].append({"instance_id": "q-gap", "model": "m", "trial": 5, "text": None})
    rb.append(path, given)
    assert rb.judge(path)["errors"].to_list() == [1]


def test_verdicts_on_a_simulated_study_are_simulated(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    rb.append(path, frames("no_emoji", {}, ["a"]), origin="simulated")
    rb.judge(path)
    assert rb.scores(rb.connect(path))["origin"].to_list() == ["simulated"]


def test_another_judge_is_refused_with_what_can_be_done(tmp_path: Path) -> None:
    with pytest.raises(RagbenchError, match="ragbench import"):
        rb.judge(tmp_path / "s.duckdb", "gpt-4o")


@pytest.mark.parametrize("criteria", ["rejection", ["adherence", "coverage"]])
def test_what_no_rule_checks_is_refused_before_anything_is_stored(
    tmp_path: Path, criteria: str | list[str]
) -> None:
    path = tmp_path / "s.duckdb"
    rb.append(path, frames("no_emoji", {}, ["a"]))
    before = path.read_bytes()
    with pytest.raises(RagbenchError, match=r"rules check constraints.*name an LLM"):
        rb.judge(path, criteria=criteria)
    assert path.read_bytes() == before


def test_quotations_are_looked_up_in_the_documents_shown(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    given: dict[str, list[dict]] = frames(
        "quotes_from_context",
        {"at_least": 1},
        ["文件说“应当在三日内答复申请人”。", "文件说“应当在五日内答复申请人”。"],
    )
    given["documents"] = [{"doc_id": "d", "text": "受理机关应当在三日内答复申请人。"}]
    given["contexts"] = [{"instance_id": "q-gap", "rank": 1, "doc_id": "d", "role": "noise"}]
    rb.append(path, given)
    rb.judge(path)
    scores = rb.connect(path).sql("SELECT score FROM judgments ORDER BY response_id").pl()
    assert scores["score"].to_list() == [1.0, 0.0]


def test_the_report_of_no_work_has_the_columns_of_work(tmp_path: Path) -> None:
    path = tmp_path / "s.duckdb"
    rb.append(path, frames("no_emoji", {}, ["a"]))
    first, second = rb.judge(path), rb.judge(path)
    assert isinstance(second, pl.DataFrame)
    assert first.columns == second.columns


def test_constraints_that_name_no_rule_are_announced(tmp_path):
    path = tmp_path / "study.duckdb"
    constraint = {"query_id": "q", "dimension": "audience", "text": "For patients."}
    rows = {
        "queries": [{"query_id": "q", "text": "?"}],
        "constraints": [{**constraint, "constraint_id": f"q.c{i}"} for i in (1, 2)],
        "instances": [{"instance_id": "q-open", "query_id": "q", "context_mode": "open"}],
        "instance_constraints": [
            {"instance_id": "q-open", "ordinal": i, "constraint_id": f"q.c{i}"} for i in (1, 2)
        ],
        "responses": [{"instance_id": "q-open", "model": "m", "text": "x"}],
    }
    rb.append(path, rows)
    with pytest.warns(UserWarning, match="2 constraints name no rule and are not judged yet"):
        assert rb.judge(path).is_empty()
