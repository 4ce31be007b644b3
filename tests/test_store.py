"""What a study takes, what it refuses, and what it holds afterwards."""

from __future__ import annotations

import copy
import enum
import random
import shutil
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas
import polars as pl
import pytest
from conftest import LLM, RULES, study_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from polars.testing import assert_frame_equal
from store_worker import content, unit

import ragbench
from ragbench import store
from ragbench.errors import BadRow, StoreError, UnknownColumn, UnknownName
from ragbench.journal import journals, parse
from ragbench.summaries import SUMMARIES

FEW = settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
RESPONSE = "law-noise/model-a/given_context/0"
KEY = {"response_id": RESPONSE, "criterion": "adherence", "judge": LLM}


def rows_of(path: Path, sql: str) -> list[tuple[Any, ...]]:
    return ragbench.connect(path).sql(sql).fetchall()


def everything(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all relations, run ids and times included."""
    con = ragbench.connect(path)
    return {
        name: sorted(con.sql(f"FROM {name}").fetchall(), key=repr)
        for name in (*study_rows(), "study", "wanted", "runs", "adherence_summary")
    }


# ---------------------------------------------------------------- append


def test_the_small_study_has_the_numbers_that_its_table_says(con):
    scores = ragbench.scores(con)
    assert scores["model"].to_list() == ["model-a", "model-b"]
    assert scores["panel"].unique().to_list() == [f"{LLM} + {RULES}"]
    assert scores["origin"].unique().to_list() == ["recorded"]
    assert scores.select("planned", "answered", "judged").rows() == [(4, 4, 4), (4, 3, 2)]
    assert scores["loose_ias"].to_list() == pytest.approx([5 / 6, 2 / 3])
    assert scores["strict_ias"].to_list() == [0.5, 0.0]
    assert scores["loose_ias_lowest"].to_list() == pytest.approx([5 / 6, 1 / 2])
    assert scores["loose_ias_highest"].to_list() == pytest.approx([5 / 6, 5 / 6])
    assert scores["rejection"].to_list() == [1.0, 0.5]
    assert ragbench.check(con).is_empty()


def test_appending_the_same_rows_again_changes_nothing(study):
    before, file = everything(study), study.read_bytes()
    report = ragbench.append(study, study_rows(), origin="recorded")
    assert report["added"].sum() == report["replaced"].sum() == 0
    assert report["present"].to_list() == report["given"].to_list()
    assert study.read_bytes() == file  # not even rewritten
    with store.step(study, "again", origin="recorded") as writer:
        writer.add(study_rows())
    after = everything(study)
    assert len(after.pop("runs")) == len(before.pop("runs")) + 1
    assert after == before


def test_rows_doubled_within_one_call_are_added_once(study):
    document = {"doc_id": "new", "text": "新"}
    report = ragbench.append(study, "documents", [document, document, {**document, "text": "late"}])
    assert report.rows() == [("documents", 3, 1, 0, 2)]
    assert rows_of(study, "SELECT text FROM documents WHERE doc_id = 'new'") == [("新",)]


def test_nothing_is_stored_when_one_row_is_refused(study):
    before = study.read_bytes()
    frames = {"documents": [{"doc_id": "fine"}], "contexts": [{"instance_id": "x", "rank": 1}]}
    with pytest.raises(BadRow, match=r"contexts\.doc_id"):
        ragbench.append(study, frames)
    frames["contexts"] = [{"instance_id": "no such", "rank": 1, "doc_id": "fine"}]
    with pytest.raises(BadRow, match=r"contexts\.instance_id points to instances .*'no such'"):
        ragbench.append(study, frames)
    assert study.read_bytes() == before


def test_what_rows_imply_is_added_with_them(study):
    ragbench.append(study, "responses", {"instance_id": "law-gap", "model": "new", "text": "答"})
    found = rows_of(study, "SELECT model, setting, trial FROM wanted WHERE model = 'new'")
    assert found == [("new", "given_context", 0)]
    assert rows_of(study, "SELECT count(*) FROM models WHERE model = 'new'") == [(1,)]
    assert rows_of(study, "SELECT DISTINCT step FROM runs SEMI JOIN responses USING (run_id)") == [
        ("append",)
    ]


def test_rows_may_point_to_what_a_stopped_step_left_in_its_journal(study):
    with store.step(study, "build") as writer:
        writer.add({"documents": {"doc_id": "fresh"}})
        context = {"instance_id": "law-gap", "rank": 9, "doc_id": "fresh"}
        assert ragbench.append(study, "contexts", context)["added"].item() == 1


def test_names_that_do_not_exist_are_refused_with_the_near_miss(study):
    with pytest.raises(UnknownName, match="a study has no relation 'judgement'; did you mean"):
        ragbench.append(study, "judgement", [{"score": 1}])
    with pytest.raises(UnknownColumn, match="did you mean 'model'"):
        ragbench.append(study, "models", pl.DataFrame({"modle": ["m"]}))
    with pytest.raises(UnknownName, match="did you mean 'queries'"):
        ragbench.append(study, {"querys": []})
    with pytest.raises(BadRow, match="no origin 'measurd'; did you mean 'measured'"):
        ragbench.append(study, "models", [], origin="measurd")


@pytest.mark.parametrize(
    ("relation", "row", "said"),
    [
        ("instances", {"instance_id": "i", "query_id": "?", "context_mode": "gap"}, "queries"),
        ("constraints", {"constraint_id": "c", "query_id": "law", "dimension": "?"}, "dimensions"),
        ("responses", {"instance_id": "?", "model": "m"}, "instances"),
        ("judgments", {**KEY, "target_id": "law.c2", "judge": "?", "score": 1}, "judges"),
        ("judgments", {**KEY, "target_id": "x", "criterion": "?", "score": 1}, "criteria"),
        ("judgments", {**KEY, "target_id": "x", "response_id": "?", "score": 1}, "responses"),
        ("judgments", {**KEY, "target_id": "x", "run_id": "?", "score": 1}, "runs"),
    ],
)
def test_rows_that_point_nowhere_are_refused_with_the_way_out(relation, row, said, study):
    with pytest.raises(BadRow, match=rf"{relation}\.\w+ points to {said} .*: '\?'") as caught:
        ragbench.append(study, relation, [row])
    assert "in the same call" in str(caught.value)


def test_names_that_a_study_begins_with_are_listed_where_another_is_given(study):
    row = {"constraint_id": "law.c9", "query_id": "law", "dimension": "tone", "text": "Be kind."}
    with pytest.raises(BadRow, match=r"There are: .*\bstyle\b"):
        ragbench.append(study, "constraints", [row])


def test_simulated_rows_share_no_study_with_others(study, tmp_path):
    row = {"instance_id": "law-gap", "model": "sim/a", "text": "x"}
    with pytest.raises(BadRow, match="another file"):
        ragbench.append(study, "responses", row, origin="simulated")
    with (
        pytest.raises(BadRow, match="holds recorded rows"),
        store.step(study, "x", origin="simulated"),
    ):
        pass
    other = tmp_path / "simulated.duckdb"
    with store.step(other, "x", origin="simulated") as writer:
        writer.add({"models": {"model": "sim/a"}})
        with pytest.raises(BadRow, match="holds simulated rows"), store.step(other, "y"):
            pass
    assert not rows_of(study, "FROM responses WHERE model = 'sim/a'")


def test_rows_that_bring_their_own_run_need_no_other(tmp_path):
    """A simulated study is copied through `append` without becoming a mixed one."""
    run = {"run_id": "r", "step": "simulate", "origin": "simulated"}
    rows = study_rows()
    for name in ("responses", "judgments", "evidence"):
        rows[name] = [{**row, "run_id": "r"} for row in rows[name]]
    path = tmp_path / "study.duckdb"
    ragbench.append(path, {**rows, "runs": [run]})
    assert rows_of(path, "SELECT run_id, origin::VARCHAR FROM runs") == [("r", "simulated")]
    assert ragbench.check(ragbench.connect(path)).is_empty()


def test_the_study_is_named_and_keeps_what_is_not_given(study):
    assert ragbench.append(study, "study", {"primary_panel": RULES})["replaced"].item() == 1
    assert ragbench.append(study, "study", {"primary_panel": RULES})["present"].item() == 1
    found = rows_of(study, "SELECT name, primary_panel, licence FROM study")
    assert found == [("A small study", RULES, None)]


def test_an_empty_call_makes_a_study_and_no_run(tmp_path):
    path = tmp_path / "deep" / "er" / "study.duckdb"
    assert ragbench.append(path, "judgments", [])["added"].sum() == 0
    assert rows_of(path, "FROM runs") == []
    assert rows_of(path, "SELECT name FROM study") == [("study",)]


def test_long_and_odd_text_comes_back_as_it_was(study):
    texts = {"long": "长文 " * 3_500_000, "nul": "a\0b", "pair": "😀", "lines": "x\r\n\ty\u2028z"}
    ragbench.append(
        study, "documents", [{"doc_id": name, "text": text} for name, text in texts.items()]
    )
    with store.step(study, "x", origin="recorded") as writer:
        for name, text in texts.items():
            writer.add({"documents": {"doc_id": f"{name}2", "text": text}})
        writer.add({"documents": {"doc_id": "half", "text": "x\ud800y"}})
    found = dict(rows_of(study, "SELECT doc_id, text FROM documents"))
    for name, text in texts.items():
        assert found[name] == found[f"{name}2"] == text
    assert found["half"] == "x\ufffdy"


def test_frames_of_any_column_type_are_taken(study):
    frame = pl.DataFrame(
        {
            "doc_id": pl.Series(["p", "q"], dtype=pl.Categorical),
            "title": pl.Series([1, None]),
            "published_on": [date(2026, 1, 2), None],
        }
    )
    assert ragbench.append(study, "documents", frame)["added"].item() == 2
    found = rows_of(study, "SELECT title, published_on FROM documents WHERE doc_id = 'p'")
    assert found == [("1", date(2026, 1, 2))]


def test_a_model_that_answers_before_it_is_described_gets_its_description_later(study):
    ragbench.append(study, "responses", {"instance_id": "law-gap", "model": "new", "text": "答"})
    described = {"model": "new", "label": "新", "is_open": True}
    assert ragbench.append(study, "models", described)["replaced"].item() == 1
    assert ragbench.append(study, "models", {"model": "new"})["present"].item() == 1
    assert ragbench.append(study, "models", {**described, "label": "x"})["present"].item() == 1
    assert rows_of(study, "SELECT label, is_open FROM models WHERE model = 'new'") == [("新", True)]


# ---------------------------------------------------------------- errors and successes


ERROR = {"error": "no verdict in the reply"}
SUCCESS = {"score": 1.0}


def verdict(said: dict[str, Any]) -> dict[str, Any]:
    """A second verdict on one constraint, with its evidence."""
    key = {**KEY, "target_id": "law.c2", "repeat": 1}
    reason = "why not" if "error" in said else "why"
    return {"judgments": [{**key, **said}], "evidence": [{**key, "reason": reason}]}


def stored(path: Path) -> list[tuple[Any, ...]]:
    return rows_of(
        path,
        "SELECT score, error, reason FROM judgments LEFT JOIN evidence "
        "USING (response_id, criterion, target_id, judge, repeat) WHERE repeat = 1",
    )


def both(*parts: dict[str, Any]) -> dict[str, Any]:
    return {name: [row for part in parts for row in part[name]] for name in parts[0]}


@pytest.mark.parametrize("order", [(ERROR, SUCCESS), (SUCCESS, ERROR), (ERROR, SUCCESS, ERROR)])
@pytest.mark.parametrize("way", ["one call", "calls", "one step", "steps", "open steps"])
def test_a_success_takes_the_place_of_an_error_with_its_evidence(order, way, study):
    if way == "one call":
        ragbench.append(study, both(*map(verdict, order)))
    elif way == "calls":
        for said in order:
            ragbench.append(study, verdict(said))
    elif way == "one step":
        with store.step(study, "judge") as writer:
            for said in order:
                writer.add(verdict(said))
    elif way == "steps":
        for said in order:
            with store.step(study, "judge") as writer:
                writer.add(verdict(said))
    else:
        with store.step(study, "judge") as first, store.step(study, "judge") as second:
            for number, said in enumerate(order):
                (first, second)[number % 2].add(verdict(said))
    assert stored(study) == [(1.0, None, "why")]
    assert ragbench.check(ragbench.connect(study)).is_empty()


def test_the_reason_of_an_error_never_stands_beside_a_success(study):
    bare = {"judgments": verdict(SUCCESS)["judgments"]}
    ragbench.append(study, bare)
    ragbench.append(study, verdict(ERROR))
    assert stored(study) == [(1.0, None, None)]
    ragbench.append(study, verdict(SUCCESS))  # evidence for the verdict that is there
    assert stored(study) == [(1.0, None, "why")]


def test_another_success_or_error_replaces_nothing(study):
    ragbench.append(study, verdict({"error": "first"}))
    ragbench.append(study, verdict({"error": "second"}))
    assert stored(study) == [(None, "first", "why not")]
    ragbench.append(study, verdict({"score": 0.0}))
    ragbench.append(study, verdict({"score": 1.0}))
    assert [row[:2] for row in stored(study)] == [(0.0, None)]


def test_an_answer_takes_the_place_of_a_failed_one_with_its_tool_calls(study):
    row = {"instance_id": "med-noise", "model": "model-b"}
    step = {"response_id": "med-noise/model-b/given_context/0", "step": 0}
    ragbench.append(study, "steps", {**step, "tool": "of the failure"})
    ragbench.append(
        study, {"responses": [{**row, "text": "Four."}], "steps": [{**step, "tool": "search"}]}
    )
    found = rows_of(study, "SELECT text, error, tool FROM responses JOIN steps USING (response_id)")
    assert found == [("Four.", None, "search")]
    assert ragbench.ledger(ragbench.connect(study), by="model")["answered"].to_list() == [4, 4]


def test_a_score_that_is_no_number_passes_no_filter(study):
    key = {**KEY, "target_id": "law.c2"}
    odd = [float("nan"), float("inf"), float("-inf")]
    before = rows_of(study, "SELECT count(*), avg(score) FROM judgments WHERE score > 0.5")
    ragbench.append(
        study,
        "judgments",
        [{**key, "repeat": 1 + i, "score": value} for i, value in enumerate(odd)],
    )
    with store.step(study, "judge", origin="recorded") as writer:
        for i, value in enumerate(odd):
            writer.add({"judgments": {**key, "repeat": 11 + i, "score": value}})
    assert rows_of(study, "SELECT count(*), avg(score) FROM judgments WHERE score > 0.5") == before
    found = rows_of(study, "SELECT error FROM judgments WHERE repeat > 0 AND score IS NULL")
    assert len(found) == 6
    assert all(row[0].startswith("score is not a number") for row in found)


# ---------------------------------------------------------------- order does not matter


@FEW
@given(st.integers(0, 2**32))
def test_the_order_of_rows_and_batches_does_not_change_the_content(tmp_path_factory, seed):
    choose = random.Random(seed)
    rows = study_rows()
    key = {**KEY, "target_id": "law.c2", "repeat": 1}
    rows["judgments"] += [{**key, "error": "failed"}, {**key, "score": 1.0}]
    rows["evidence"] += [{**key, "reason": "failed"}, {**key, "reason": "worked"}]
    lines = [{name: [row]} for name in rows for row in rows[name]]
    lines = lines[: -2 * 27] + [  # a verdict and its evidence are added together
        {"judgments": [one], "evidence": [other]}
        for one, other in zip(rows["judgments"], rows["evidence"], strict=True)
    ]
    folder = tmp_path_factory.mktemp("order")
    hashes = set()
    for number in range(2):
        path = folder / str(number) / "study.duckdb"
        choose.shuffle(lines)
        cuts = sorted(choose.sample(range(len(lines)), number * 2))
        for part in (lines[a:b] for a, b in zip([0, *cuts], [*cuts, len(lines)], strict=True)):
            with store.step(path, "append", origin="recorded") as writer:
                for line in part:
                    writer.add(line)
        hashes.add(content(path))
        assert ragbench.check(ragbench.connect(path)).is_empty()
    assert len(hashes) == 1
    assert rows_of(path, "SELECT reason FROM evidence WHERE repeat = 1") == [("worked",)]


def test_the_hash_tells_other_content_apart(study):
    before = content(study)
    ragbench.append(study, "models", {"model": "one more"})
    assert content(study) != before


# ---------------------------------------------------------------- summaries


class Summaries(RuleBasedStateMachine):
    """Rows come in any order; after each the summaries say what the views say."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(_TEMPORARY.mktemp("summaries"))
        self.path = self.folder / "study.duckdb"
        rows = study_rows()
        rows["claims"] = [
            {"claim_id": f"law.f{i}", "instance_id": "law-noise", "kind": kind}
            for i, kind in enumerate(("core", "supplementary"))
        ] + [
            {
                "claim_id": "answer.f0",
                "instance_id": "law-noise",
                "kind": "response",
                "response_id": RESPONSE,
                "extractor": LLM,
            }
        ]
        rows["judgments"] += [
            {**KEY, "criterion": criterion, "target_id": claim, "score": 1.0}
            for criterion, claim in (("coverage", "law.f0"), ("faithfulness", "answer.f0"))
        ]
        rows["judgments"] += [{**KEY, "criterion": "tone", "target_id": RESPONSE, "score": 4.0}]
        rows["criteria"] = [{"criterion": "tone", "target": "response", "lowest": 1, "highest": 5}]
        rows["judges"] += [{"judge": "人", "kind": "human"}, {"judge": "rules/2", "kind": "rule"}]
        rows["verifications"] = [
            {"instance_id": "med-gap", "check": check, "judge": "人", "passed": passed}
            for check, passed in (("leak", True), ("language", False))
        ]
        rows["wanted"] = [{"instance_id": "law-noise", "model": "model-b", "trial": 1}]
        self.left = [(name, row) for name in rows for row in rows[name]]

    @rule(seed=st.integers(0, 2**32), share=st.floats(0.1, 0.6))
    def add_some(self, seed: int, share: float) -> None:
        choose = random.Random(seed)
        choose.shuffle(self.left)
        count = int(len(self.left) * share) + 1
        now, self.left = self.left[:count], self.left[count:]
        with store.step(self.path, "append", origin="recorded") as writer:
            for name, row in now:
                writer.add({name: copy.deepcopy(row)})

    @invariant()
    def summaries_are_up_to_date(self) -> None:
        if not self.path.exists():
            return
        con = ragbench.connect(self.path)
        problems = ragbench.check(con)
        stale = problems.filter(pl.col("relation").is_in(list(SUMMARIES)))
        assert stale.is_empty(), stale.rows()

    def teardown(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.slow
def test_summaries_equal_the_views_whatever_comes_in_whichever_order(tmp_path_factory):
    global _TEMPORARY
    _TEMPORARY = tmp_path_factory
    from hypothesis.stateful import run_state_machine_as_test

    limits = settings(FEW, max_examples=5, stateful_step_count=5)
    run_state_machine_as_test(Summaries, settings=limits)


_TEMPORARY: Any = None


def test_a_run_that_comes_after_its_rows_brings_their_origin(study):
    row = {"instance_id": "law-gap", "model": "late", "text": "x", "run_id": "r-late"}
    with store.step(study, "x") as writer:
        writer.add({"responses": row})
    ragbench.append(study, "runs", {"run_id": "r-late", "step": "x", "origin": "measured"})
    con = ragbench.connect(study)
    assert ragbench.check(con).is_empty()
    assert ragbench.scores(con, where={"model": "late"})["origin"].to_list() == ["measured"]


# ---------------------------------------------------------------- steps


def test_a_step_without_rows_leaves_no_trace(study, tmp_path):
    before = study.read_bytes()
    with store.step(study, "nothing"):
        pass
    assert study.read_bytes() == before
    with store.step(tmp_path / "none.duckdb", "nothing"):
        pass
    assert not (tmp_path / "none.duckdb").exists()


def test_a_step_makes_a_study_that_is_not_there(tmp_path):
    path = tmp_path / "a" / "study.duckdb"
    with store.step(path, "build", config={"seed": 7}) as writer:
        writer.add({"queries": {"query_id": "q"}, "documents": [{"doc_id": "a"}, {"doc_id": "b"}]})
    assert rows_of(path, "SELECT step, origin::VARCHAR, config FROM runs") == [
        ("build", "measured", '{"seed": 7}')
    ]
    assert rows_of(path, "SELECT count(*) FROM documents") == [(2,)]


def test_rows_that_do_not_fit_are_refused_before_they_reach_the_journal(study):
    with store.step(study, "x", origin="recorded") as writer:
        with pytest.raises(BadRow, match="must have either a score or an error"):
            writer.add({"documents": {"doc_id": "d"}, "judgments": {**KEY, "target_id": "t"}})
        with pytest.raises(UnknownColumn, match="did you mean 'score'"):
            writer.add({"judgments": {**KEY, "target_id": "t", "scor": 1}})
        with pytest.raises(UnknownName, match="did you mean 'evidence'"):
            writer.add({"evidenze": {}})
        with pytest.raises(BadRow, match="'abc' is not a row"):
            writer.add({"judgments": ["abc"]})
    assert rows_of(study, "FROM documents WHERE doc_id = 'd'") == []


class Kind(str, enum.Enum):  # noqa: UP042 (StrEnum says what it is)
    """A text whose own words about itself are others."""

    ONE = "model-x"


def test_values_that_say_something_else_of_themselves_are_stored_as_what_they_are(study):
    row = {"instance_id": "law-gap", "model": Kind.ONE, "text": "x"}
    with store.step(study, "x", origin="recorded") as writer:
        writer.add({"responses": row})
        writer.add({"documents": {"doc_id": "undated", "published_on": pandas.NaT}})
    ragbench.append(study, "responses", [{**row, "trial": 1}])
    assert rows_of(study, "SELECT response_id FROM responses WHERE model = 'model-x'") == [
        ("law-gap/model-x/given_context/0",),
        ("law-gap/model-x/given_context/1",),
    ]
    dated = rows_of(study, "SELECT published_on FROM documents WHERE doc_id = 'undated'")
    assert dated == [(None,)]


def test_a_verdict_before_its_response_makes_no_summary_stale(study):
    key = {"response_id": "med-gap/model-c/given_context/0", "judge": LLM, "criterion": "rejection"}
    ragbench.append(study, "models", [{"model": "model-c"}])
    ragbench.append(study, "wanted", [{"instance_id": "med-gap", "model": "model-c"}])
    with store.step(study, "x", origin="recorded") as writer:
        writer.add({"judgments": {**key, "target_id": key["response_id"], "score": 1.0}})
    problems = ragbench.check(ragbench.connect(study))
    assert set(problems["relation"]) == {"judgments"}
    ragbench.append(study, "responses", {"instance_id": "med-gap", "model": "model-c", "text": "x"})
    assert ragbench.check(ragbench.connect(study)).is_empty()


def test_what_a_writer_remembers_of_its_lines_is_what_they_say(tmp_path):
    rows = study_rows()
    rows["steps"] = [{"response_id": RESPONSE, "step": "3", "arguments": {"问": [1, None, 2.5]}}]
    rows["documents"] += [
        {"doc_id": "odd", "text": "half \ud83d of a pair\u2028", "published_on": date(2026, 1, 2)}
    ]
    rows["runs"] = [{"run_id": "r", "step": "x", "origin": "recorded", "config": {"a": [True]}}]
    rows["nodes"] = [{"node_id": "n", "embedding": [0.1, 1e-40, 3]}]
    rows["judgments"] += [{**KEY, "target_id": "t", "score": float("nan"), "repeat": 2.0}]
    lines = [{name: [row]} for name in rows for row in rows[name]]
    with store.step(tmp_path / "study.duckdb", "append", origin="recorded") as writer:
        for line in lines:
            writer.add(line)
        written = journals(tmp_path / "study.duckdb")[0].read_bytes().splitlines()
        known = copy.deepcopy(writer.known)
        remembered, _ = parse(written, known)
        assert known == {}  # nothing was read
        read, unfit = parse(written)
    assert unfit == []
    assert set(read) == {*rows}
    for name, frame in read.items():
        assert_frame_equal(remembered[name], frame)


def test_a_long_journal_is_not_kept_in_memory_as_well(tmp_path):
    path = tmp_path / "study.duckdb"
    with store.step(path, "append") as writer:
        for number in range(5):
            writer.add({"documents": {"doc_id": f"d{number}", "text": "x" * 1_000_000}})
        assert not writer.known
    assert rows_of(path, "SELECT count(*) FROM documents") == [(5,)]


@pytest.mark.parametrize(
    "row", [{"trial": 10**5000}, {"trial": Decimal("sNaN")}, {"text": {"deep": 10**5000}}]
)
def test_a_value_that_cannot_even_be_shown_is_refused_like_others(row, study):
    with store.step(study, "x") as writer, pytest.raises(BadRow, match=" is not a "):
        writer.add({"responses": {"instance_id": "law-gap", "model": "m", **row}})


def test_units_of_work_are_complete(path):
    with store.step(path, "answer") as writer:
        writer.add(unit(3))
    con = ragbench.connect(path)
    assert con.sql("SELECT count(*) FROM judgments JOIN evidence USING (target_id)").fetchall() == [
        (2,)
    ]
    assert ragbench.scores(con)["judged"].to_list() == [1]


# ---------------------------------------------------------------- what is learnt later


def test_a_later_row_fills_the_blanks_of_an_earlier_one_and_changes_nothing_else(tmp_path):
    path = tmp_path / "s.duckdb"
    constraint = {"constraint_id": "c", "query_id": "q", "dimension": "format"}
    ragbench.append(
        path,
        {
            "queries": {"query_id": "q"},
            "instances": {"instance_id": "i", "query_id": "q", "context_mode": "noise"},
            "constraints": constraint,
            "instance_constraints": {"instance_id": "i", "ordinal": 1, "constraint_id": "c"},
            "judges": {"judge": "j", "kind": "llm"},
            "responses": {"instance_id": "i", "model": "m", "text": "x"},
        },
    )
    key = {"response_id": "i/m/given_context/0", "criterion": "adherence", "judge": "j"}
    ragbench.append(path, "judgments", {**key, "target_id": "c", "score": 1.0})
    con = ragbench.connect(path)
    assert ragbench.scores(con, by="domain")["domain"].to_list() == [None]
    made = ragbench.append(
        path,
        {
            "queries": {"query_id": "q", "domain": "Legal", "text": "几时？"},
            "constraints": {**constraint, "text": "短", "rule": "no_emoji"},
        },
    )
    assert made["replaced"].to_list() == [1, 1]
    assert ragbench.scores(con, by="domain")["domain"].to_list() == ["Legal"]
    found = con.sql("SELECT dimension, text, rule FROM constraints").fetchall()
    assert found == [("format", "短", None)], "who checks a constraint is not a blank"
    again = ragbench.append(
        path, "queries", {"query_id": "q", "domain": "Medical", "language": "zh"}
    )
    assert again["replaced"].item() == 1
    found = ragbench.connect(path).sql("SELECT domain, language, text FROM queries").fetchall()
    assert found == [("Legal", "zh", "几时？")]
    same = ragbench.append(
        path, "queries", {"query_id": "q", "domain": "Medical", "language": "zh"}
    )
    assert same["present"].item() == 1


def test_a_verdict_on_a_failed_response_does_not_count_for_the_text_that_replaces_it(study):
    answer = {"instance_id": "law-noise", "model": "late"}
    ragbench.append(study, "responses", {**answer, "error": "timeout"})
    verdict = {**KEY, "response_id": "law-noise/late/given_context/0"}
    target = rows_of(
        study,
        "SELECT constraint_id FROM instance_constraints JOIN constraints USING (constraint_id) "
        "WHERE instance_id = 'law-noise' AND rule IS NULL",
    )[0][0]
    ragbench.append(study, "judgments", {**verdict, "target_id": target, "score": 0.0})
    ragbench.append(study, "responses", {**answer, "text": "An answer."})
    left = rows_of(study, f"FROM judgments WHERE response_id = '{verdict['response_id']}'")
    assert left == []


def test_a_criterion_cannot_take_the_name_of_a_column_of_scores(study):
    with pytest.raises(BadRow, match="strict_ias"):
        ragbench.append(
            study,
            "criteria",
            {"criterion": "strict_ias", "target": "response", "lowest": 0, "highest": 1},
        )


@pytest.mark.parametrize("path", [3, None, ["study.duckdb"]])
def test_a_path_that_is_none_is_refused_in_one_line(path):
    for call in (ragbench.connect, store.fold, lambda it: ragbench.append(it, "models", [])):
        with pytest.raises(StoreError, match="named by the path of its file"):
            call(path)


def test_a_step_takes_no_rows_from_its_connection(con):
    expected = len(con.execute("FROM judgments").fetchall())
    found = [con.execute("FROM judgments").fetchone()]
    with store.step(con, "judge", origin="recorded"):
        pass
    assert len(found + con.fetchall()) == expected
