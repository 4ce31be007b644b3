"""Scores: every number computed again from the rows, the bounds reached, the promises kept."""

from __future__ import annotations

import datetime
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
import pytest
import random_study
import recompute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import ragbench
from ragbench import intervals, metrics, store
from ragbench.errors import AmbiguousPanel, RagbenchError, UnknownColumn, UnknownName

SEEDS = st.integers(0, 2**32)
SLICES = (
    (("model",), {}),
    (("domain", "context_mode"), {}),
    ((), {"domain": [None, "医疗"]}),
    (("query_id",), {"trial": 0}),
    (("family", "is_open"), {"is_augmented": True}),
    (("instance_id", "setting"), {"domain": "O'Brien; --", "variant": None}),
)
_few = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))


def assert_same(frame, expected, by):
    """`frame` holds the groups and numbers of `expected`, and no other group."""
    found = {tuple(row[name] for name in by): row for row in frame.iter_rows(named=True)}
    assert len(found) == frame.height
    assert set(found) == set(expected)
    for group, row in expected.items():
        for name, value in row.items():
            assert found[group][name] == (
                pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
            ), (group, name)


def assert_all_numbers(con, study, seed, slices):
    choose = random.Random(seed)
    known = {None, *(query["domain"] for query in study["queries"])}
    for by, where in slices:
        asked = where.get("domain")
        if not known.issuperset(asked if isinstance(asked, list) else [asked]):
            with pytest.raises(UnknownName, match="the study has no domain"):
                ragbench.scores(con, by, where, next(iter(recompute.panels(study))))
            continue
        panel = choose.choice(list(recompute.panels(study)))
        assert_same(
            ragbench.scores(con, by, where, panel), recompute.scores(study, by, where, panel), by
        )
        finer = (*by, choose.choice(("category", "dimension", "rule", "constraint_id")))
        assert_same(
            ragbench.constraint_scores(con, finer, where, panel),
            recompute.constraint_scores(study, finer, where, panel),
            finer,
        )
    across = ("panel", "setting")
    assert_same(ragbench.scores(con, across), recompute.scores(study, across, {}, None), across)


@pytest.mark.parametrize("seed", random_study.POOL)
def test_every_number_equals_the_recomputation(seed):
    study, con = random_study.stored(seed)
    assert_all_numbers(con, study, seed, SLICES)


@_few
@given(SEEDS)
def test_every_number_of_any_study_equals_the_recomputation(seed):
    study = random_study.draw(seed)
    with tempfile.TemporaryDirectory() as folder:
        con = random_study.store(Path(folder) / "study.duckdb", study)
        assert_all_numbers(con, study, seed, random.Random(seed).sample(SLICES, 2))
        con.close()


def filled(path: Path, study, panel: str, score_of) -> Path:
    """A copy of the study in which every verdict that `panel` still lacks is `score_of(...)`."""
    copy = path.with_name(f"filled-{random.random()}.duckdb")
    shutil.copyfile(path, copy)
    judge, rules = recompute.panels(study)[panel]
    answers, claims, verdicts = [], [], []
    limits = recompute.criteria_limits(study)

    def give(response, criterion, target, by):
        score, is_triggered = score_of(*limits.get(criterion, (0.0, 1.0)))
        verdicts.append(
            {
                "response_id": response.row["response_id"],
                "criterion": criterion,
                "target_id": target,
                "judge": by,
                "score": score,
                "is_triggered": is_triggered if criterion == "adherence" else None,
            }
        )

    for response in recompute.responses(study, panel):
        key = response.row["response_id"]
        parts = {name: response.row[name] for name in ("instance_id", "model", "setting", "trial")}
        if not response.is_answered:
            answers.append({**parts, "text": "…"})
        for constraint, verdict in zip(response.constraints, response.verdicts, strict=True):
            if verdict.outcome is None:
                by = rules if constraint["rule"] is not None else judge
                give(response, "adherence", constraint["constraint_id"], by)
        for criterion, (value, _, _) in response.criteria.items():
            if value is not None:
                continue
            if criterion not in ("coverage", "faithfulness"):
                give(response, criterion, key, judge)
                continue
            targets = recompute._claims(study, criterion, parts["instance_id"], key, judge)
            if not targets:
                targets = [{"claim_id": f"{key}.new"}]
                claims.append(
                    {
                        "claim_id": f"{key}.new",
                        "instance_id": parts["instance_id"],
                        "response_id": key,
                        "kind": "response",
                        "extractor": judge,
                    }
                )
            for claim in targets:
                give(response, criterion, claim["claim_id"], judge)
    frames = {"responses": answers, "claims": claims, "judgments": verdicts}
    ragbench.append(copy, {name: rows for name, rows in frames.items() if rows}, origin="recorded")
    return copy


def _all(names, frame, part):
    return {name: frame[f"{name}_{part}"][0] if part else frame[name][0] for name in names}


@settings(_few, max_examples=2)
@given(SEEDS)
def test_bounds_are_reached_when_the_missing_verdicts_all_fail_or_all_succeed(seed):
    study = random_study.draw(seed, completeness=0.85)
    failed = {row["response_id"] for row in study["responses"] if row["error"]}
    study["judgments"] = [r for r in study["judgments"] if r["response_id"] not in failed]
    choose = random.Random(seed)
    panel = choose.choice(list(recompute.panels(study)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.duckdb"
        random_study.store(path, study).close()
        before = ragbench.scores(ragbench.connect(path), (), panel=panel)
        names = [n for n in recompute.METRICS if before[f"{n}_planned"][0]]
        names += ["loose_pooled"] * bool(before["loose_pooled_planned"][0])
        names += [n for n in recompute.criteria_limits(study) if before[f"{n}_planned"][0]]

        def after(score_of):
            return ragbench.scores(
                ragbench.connect(filled(path, study, panel, score_of)), (), panel=panel
            )

        worst = after(lambda low, high: (low, None))
        assert _all(names, worst, "") == pytest.approx(_all(names, before, "lowest"))
        assert _all(names, worst, "n") == _all(names, worst, "planned")
        assert _all(names, worst, "planned") == _all(names, before, "planned")
        assert (worst["answered"][0], worst["errors"][0]) == (worst["planned"][0], 0)
        best = after(lambda low, high: (high, True))
        assert _all(names, best, "") == pytest.approx(_all(names, before, "highest"))
        either = after(lambda low, high: choose.choice(((low, True), (high, None), (high, False))))
        for name in names:
            if either[name][0] is not None:
                assert before[f"{name}_lowest"][0] - 1e-9 <= either[name][0], name
                assert either[name][0] <= before[f"{name}_highest"][0] + 1e-9, name


# ---------------------------------------------------------------- who judged


def test_a_judge_that_graded_only_part_gets_no_strict_score(tmp_path):
    con = random_study.plain(
        tmp_path / "s.duckdb",
        [
            {"query": 1, "verdicts": [1, 1, None]},
            {"query": 2, "verdicts": [1, 1, "error"]},
            {"query": 3, "verdicts": [0, 1, None]},
        ],
    )
    row = ragbench.scores(con, ()).row(0, named=True)
    assert (row["strict_ias"], row["strict_ias_n"], row["strict_ias_planned"]) == (None, 0, 3)
    assert (row["loose_ias"], row["judged"], row["errors"]) == (None, 0, 1)
    assert (row["strict_ias_lowest"], row["strict_ias_highest"]) == (0, pytest.approx(2 / 3))
    assert row["strict_ias_low"] is None


@pytest.fixture
def panels_study(tmp_path):
    """One response with a constraint that a rule checks and one that none does."""

    def make(*judges, primary=None):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.duckdb"
        random_study.plain(
            path,
            [{"query": 1, "verdicts": [None, None]}],
            judge=judges[0][0],
            kind=judges[0][1],
            rules=("no_emoji", None),
        ).close()
        key = "1-noise/m/given_context/0"
        verdicts = [
            {"judge": judge, "target_id": target, "score": score}
            for judge, kind, *scores in judges
            for target, score in zip(("1.c0", "1.c1"), scores, strict=True)
            if score is not None
        ]
        ragbench.append(
            path,
            {
                "study": [{"name": "s", "primary_panel": primary, "schema_version": 1}],
                "judges": [{"judge": judge, "kind": kind} for judge, kind, *_ in judges],
                "judgments": [
                    {**row, "response_id": key, "criterion": "adherence"} for row in verdicts
                ],
            },
        )
        return ragbench.connect(path)

    return make


def test_a_panel_takes_rule_verdicts_where_a_rule_checks_and_the_judge_elsewhere(panels_study):
    con = panels_study(("rules@1", "rule", 1, None), ("kimi", "llm", 0, 1), ("ann", "human", 0, 0))
    rows = {row["panel"]: row for row in ragbench.scores(con, "panel").iter_rows(named=True)}
    assert list(rows) == ["ann + rules@1", "kimi + rules@1", "rules@1"]
    assert rows["kimi + rules@1"]["loose_ias"] == 1
    assert rows["ann + rules@1"]["loose_ias"] == 0.5
    alone = rows["rules@1"]
    assert (alone["loose_ias"], alone["strict_ias"], alone["loose_rules"]) == (None, None, 1)
    assert (alone["strict_rules"], alone["strict_rules_n"]) == (1, 1)
    assert ragbench.scores(con, panel="ann")["panel"].to_list() == ["ann + rules@1"]
    assert ragbench.scores(con)["panel"].to_list() == ["kimi + rules@1"]  # the only LLM


def test_without_a_rule_set_the_judge_checks_everything(panels_study):
    con = panels_study(("kimi", "llm", 0, 1))
    row = ragbench.scores(con).row(0, named=True)
    assert (row["panel"], row["loose_ias"], row["loose_rules"]) == ("kimi", 0.5, 0)


def test_two_versions_of_the_rules_are_never_one_number(panels_study):
    con = panels_study(
        ("rules@1", "rule", 1, None), ("rules@2", "rule", 0, None), ("kimi", "llm", None, 1)
    )
    for panel in (None, "kimi"):
        with pytest.raises(AmbiguousPanel, match=r"kimi \+ rules@1, kimi \+ rules@2"):
            ragbench.scores(con, panel=panel)
    with pytest.raises(AmbiguousPanel, match=r"rules@1, rules@2"):
        ragbench.scores(con, where={"panel": ["rules@1", "rules@2"]})
    both = ragbench.scores(con, "panel", where={"panel": ["rules@1", "kimi"]})
    assert both["panel"].to_list() == ["kimi + rules@1", "kimi + rules@2", "rules@1"]
    assert both["loose_ias"].to_list() == [1, 0.5, None]
    assert ragbench.scores(con, panel="kimi + rules@2")["loose_ias"].item() == 0.5
    assert ragbench.scores(con, where={"panel": "kimi + rules@1"})["loose_ias"].item() == 1


def test_the_study_names_its_primary_panel(panels_study):
    judges = (("rules@1", "rule", 1, None), ("kimi", "llm", None, 1), ("gpt", "llm", None, 0))
    with pytest.raises(AmbiguousPanel, match=r"gpt \+ rules@1, kimi \+ rules@1"):
        ragbench.scores(panels_study(*judges))
    con = panels_study(*judges, primary="gpt")
    assert ragbench.scores(con)["panel"].item() == "gpt + rules@1"
    with pytest.raises(UnknownName, match=r"no panel 'gptt'; did you mean 'gpt'"):
        ragbench.scores(con, panel="gptt")


def test_without_a_choice_the_panel_is_one_that_has_scores(panels_study):
    failed = ("kimi", "llm", None, None)
    rules, ann = ("rules@1", "rule", 1, None), ("ann", "human", 0, 0)
    assert ragbench.scores(panels_study(rules, failed, ann))["panel"].item() == "rules@1"
    assert ragbench.scores(panels_study(failed, ann))["panel"].item() == "ann"
    two = panels_study(rules, failed, ("gpt", "llm", None, 1))
    assert ragbench.scores(two)["panel"].item() == "gpt + rules@1"
    nobody = panels_study(("rules@1", "rule", None, None), failed)
    assert ragbench.scores(nobody)["panel"].item() == "kimi + rules@1"


def test_a_study_without_any_judge_says_so(tmp_path):
    path = tmp_path / "s.duckdb"
    ragbench.append(path, "queries", [{"query_id": "q"}])
    with pytest.raises(RagbenchError, match="no judge yet"):
        ragbench.scores(ragbench.connect(path))


# ---------------------------------------------------------------- honest denominators


def test_judge_errors_are_neither_dropped_nor_zero(tmp_path):
    verdicts = [1] * 5 + ["error"] * 4 + [0]
    con = random_study.plain(
        tmp_path / "s.duckdb", [{"query": i, "verdicts": [v]} for i, v in enumerate(verdicts)]
    )
    row = ragbench.scores(con).row(0, named=True)
    assert (row["planned"], row["answered"], row["judged"], row["errors"]) == (10, 10, 6, 4)
    assert (row["strict_ias"], row["strict_ias_n"]) == (pytest.approx(5 / 6), 6)
    assert (row["strict_ias_planned"], row["strict_ias_lowest"]) == (10, 0.5)
    assert row["strict_ias_highest"] == pytest.approx(0.9)


def test_a_response_that_failed_stays_planned(tmp_path):
    lines = [{"query": i, "verdicts": [1]} for i in range(10)]
    lines[6] = {"query": 6, "verdicts": [None], "error": "provider raised"}
    row = ragbench.scores(random_study.plain(tmp_path / "s.duckdb", lines)).row(0, named=True)
    assert (row["planned"], row["answered"], row["judged"], row["errors"]) == (10, 9, 9, 1)
    assert (row["strict_ias_n"], row["strict_ias_planned"]) == (9, 10)
    assert row["strict_ias_lowest"] == 0.9


def test_declining_in_a_gap_counts_for_rejection_and_not_against_coverage(tmp_path):
    path = tmp_path / "s.duckdb"
    refusal = {"query": 1, "mode": "gap", "verdicts": [1], "more": {"rejection": 1}}
    random_study.plain(path, [refusal, {"query": 1, "mode": "noise", "verdicts": [1]}]).close()
    ragbench.append(
        path,
        {
            "claims": [
                {"claim_id": f"{mode}.k", "instance_id": f"1-{mode}", "kind": "core"}
                for mode in ("gap", "noise")
            ],
            "judgments": [
                {
                    "response_id": f"1-{mode}/m/given_context/0",
                    "criterion": "coverage",
                    "target_id": f"{mode}.k",
                    "judge": "kimi",
                    "score": 1 - (mode == "gap"),
                }
                for mode in ("gap", "noise")
            ],
        },
    )
    con = ragbench.connect(path)
    gap, noise = ragbench.scores(con, "context_mode").iter_rows(named=True)
    assert (gap["rejection"], gap["rejection_planned"]) == (1, 1)
    assert (gap["coverage"], gap["coverage_planned"]) == (None, 0)
    assert (noise["rejection_planned"], noise["coverage"]) == (0, 1)
    assert ragbench.pending(con, "judge", judge="kimi", criteria=["coverage"]).is_empty()


def test_loose_is_named_by_how_it_is_averaged(tmp_path):
    lines = [
        {"query": 1, "verdicts": [1]},
        {"query": 2, "verdicts": [1, 1, 1, 1, 1, 0, 0, 0, 0]},
    ]
    row = ragbench.scores(random_study.plain(tmp_path / "s.duckdb", lines)).row(0, named=True)
    assert row["loose_pooled"] == 0.6
    assert row["loose_ias"] == pytest.approx((1 + 5 / 9) / 2)
    assert (row["loose_pooled_n"], row["loose_ias_n"]) == (10, 2)


def test_nan_never_enters_a_score(tmp_path):
    lines = [{"query": 1, "verdicts": [float("nan")]}, {"query": 2, "verdicts": [1]}]
    con = random_study.plain(tmp_path / "s.duckdb", lines)
    assert con.sql("SELECT count(*) FROM judgments WHERE score > 0.5").fetchall() == [(1,)]
    row = ragbench.scores(con).row(0, named=True)
    assert (row["strict_ias"], row["strict_ias_n"], row["errors"]) == (1, 1, 1)


def test_a_refusal_frees_format_and_citation_only_where_it_was_right(tmp_path):
    dimensions = ("knowledge_gap", "format", "citation", "role")
    lines = [
        {"query": "refused", "mode": "gap", "verdicts": [1, 0, 0, 1]},
        {"query": "one open", "mode": "gap", "verdicts": [1, None, 0, 1]},
        {"query": "no gap", "mode": "noise", "verdicts": [1, 0, 0, 1]},
        {"query": "answered", "mode": "gap", "verdicts": [0, 0, 1, 1]},
        {"query": "not asked", "mode": "gap", "verdicts": ["untriggered", 0, 1, 1]},
        {"query": "role", "mode": "gap", "verdicts": [1, 0, 1, 0]},
    ]
    con = random_study.plain(tmp_path / "s.duckdb", lines, dimensions=dimensions)
    name = "strict_ias_refusal_exempt"
    frame = ragbench.scores(con, "query_id", metrics=[name, "strict_ias"])
    rows = {row["query_id"]: row for row in frame.iter_rows(named=True)}
    assert {query for query, row in rows.items() if row[name] == 1} == {"refused"}
    assert frame["strict_ias"].drop_nulls().sum() == 0
    # What is still open is freed however it turns out.
    assert (rows["one open"][name], rows["one open"][f"{name}_lowest"]) == (None, 1)


def test_untriggered_conditions_satisfy_and_the_triggered_variants_leave_them_out(tmp_path):
    lines = [
        {"query": 1, "verdicts": ["untriggered", 0]},
        {"query": 2, "verdicts": ["untriggered", "untriggered"]},
    ]
    row = ragbench.scores(random_study.plain(tmp_path / "s.duckdb", lines)).row(0, named=True)
    assert (row["loose_ias"], row["strict_ias"], row["loose_ias_n"]) == (0.75, 0.5, 2)
    assert (row["loose_ias_triggered"], row["loose_ias_triggered_n"]) == (0, 1)
    assert row["loose_ias_triggered_planned"] == 1


def test_the_ledger_adds_up_where_one_criterion_is_an_error_and_another_is_not(tmp_path):
    lines = [{"query": 1, "mode": "gap", "more": {"rejection": "error", "conflict": 1}}]
    con = random_study.plain(tmp_path / "s.duckdb", lines)
    ledger = ragbench.ledger(con, ()).row(0, named=True)
    assert ledger == {"planned": 1, "answered": 1, "judged": 0, "errors": 1, "pending": 0}


def test_a_criterion_of_ones_own_keeps_its_range(tmp_path):
    path = tmp_path / "s.duckdb"
    tone = {"criterion": "tone", "target": "response", "lowest": 1, "highest": 5}
    ragbench.append(path, "criteria", [tone])
    lines = [{"query": i, "more": {"tone": s}} for i, s in enumerate([5, 5, 4, "error"])]
    frame = ragbench.scores(random_study.plain(path, lines))
    row = frame.row(0, named=True)
    assert (row["tone"], row["tone_n"]) == (pytest.approx(14 / 3), 3)
    assert (row["tone_lowest"], row["tone_highest"]) == (15 / 4, 19 / 4)
    assert row["tone_high"] == 5  # clipped to the range
    assert frame.columns.index("tone") == frame.columns.index("conflict") + 1


def test_a_criterion_cannot_take_the_place_of_another_column(tmp_path):
    path = tmp_path / "s.duckdb"
    taken = {"criterion": "judged", "target": "response", "lowest": 0, "highest": 1}
    with store.step(path, "import") as writer:  # append refuses it
        writer.add({"criteria": taken})
    con = random_study.plain(path, [{"query": 1, "verdicts": [1], "more": {"judged": 0}}])
    with pytest.raises(RagbenchError, match="criterion 'judged' has the name of another column"):
        ragbench.scores(con)
    assert ragbench.scores(con, metrics=["strict_ias"])["judged"].item() == 1
    assert "judged" in ragbench.check(con)["example"].to_list()


def test_a_number_over_recorded_and_measured_rows_names_both(tmp_path):
    path = tmp_path / "s.duckdb"
    random_study.plain(path, [{"query": 1, "mode": "gap", "verdicts": [1]}]).close()
    assert ragbench.scores(ragbench.connect(path))["origin"].item() == "measured"
    key = "1-gap/m/given_context/0"
    verdict = {"response_id": key, "criterion": "rejection", "target_id": key, "judge": "kimi"}
    ragbench.append(path, "judgments", [{**verdict, "score": 1}], origin="recorded")
    assert ragbench.scores(ragbench.connect(path))["origin"].item() == "measured, recorded"


# ---------------------------------------------------------------- intervals of scores


@pytest.mark.parametrize("metric", ["strict_ias", "loose_ias", "loose_pooled"])
def test_27_failures_still_allow_one_in_eight(tmp_path, metric):
    lines = [{"query": i, "verdicts": [0, 0]} for i in range(27)]
    row = ragbench.scores(random_study.plain(tmp_path / "s.duckdb", lines)).row(0, named=True)
    assert row[metric] == 0
    assert row[f"{metric}_low"] == 0
    assert row[f"{metric}_high"] == pytest.approx(0.125, abs=5e-4)
    assert row[f"{metric}_interval"].startswith("Wilson")


def test_degenerate_intervals_are_named_and_not_narrow(tmp_path):
    thirds = [{"query": i, "verdicts": [1, 0, 0], "domain": "alike"} for i in range(29)]
    one = [
        {"query": "x", "mode": mode, "verdicts": [1, 0, 0], "domain": "one"}
        for mode in ("noise", "gap")
    ]
    con = random_study.plain(tmp_path / "s.duckdb", [*thirds, *one])
    alike, single = ragbench.scores(con, "domain").iter_rows(named=True)
    assert alike["loose_ias"] == pytest.approx(1 / 3)
    assert (alike["loose_ias_low"], alike["loose_ias_interval"]) == (
        None,
        "none: all queries alike",
    )
    assert (single["loose_ias_low"], single["loose_ias_interval"]) == (None, "none: one query")
    assert (single["strict_ias_low"], single["strict_ias_interval"]) == (None, "none: one query")


def test_one_response_has_the_widest_interval(tmp_path):
    row = ragbench.scores(
        random_study.plain(tmp_path / "s.duckdb", [{"query": 1, "verdicts": [1]}])
    )
    assert row["strict_ias_low"].item() == pytest.approx(intervals.wilson(1, 1)[0])
    assert row["strict_ias_high"].item() == 1


# ---------------------------------------------------------------- asking


@pytest.fixture(scope="module")
def two_models(tmp_path_factory):
    lines = [
        {"query": i, "model": model, "domain": domain, "verdicts": [i % 2, 1]}
        for i, domain in enumerate([None, "Legal", "医疗", "'; DROP TABLE judgments; --"])
        for model in ("\"b' OR 1=1", "a\n<script>", "甲/乙")
    ]
    return random_study.plain(tmp_path_factory.mktemp("asking") / "s.duckdb", lines)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda con: ragbench.scores(con, "domian"),
            "scores has no column 'domian'; did you mean 'domain'",
        ),
        (
            lambda con: ragbench.scores(con, where={"modle": 1}),
            "scores has no column 'modle'; did you mean 'model'",
        ),
        (
            lambda con: ragbench.scores(con, metrics=["strict"]),
            "no metric 'strict'; did you mean 'strict_",
        ),
        (
            lambda con: ragbench.constraint_scores(con, "dimensions"),
            "constraint_scores has no column 'dimensions'; did you mean 'dimension'",
        ),
        (
            lambda con: ragbench.constraint_scores(con, where={"categry": 1}),
            "constraint_scores has no column 'categry'; did you mean 'category'",
        ),
        (
            lambda con: ragbench.paired(con, "strict_ias", {"modell": "a"}, {"model": "b"}),
            "paired has no column 'modell'; did you mean 'model'",
        ),
        (
            lambda con: ragbench.independence(con, "model_"),
            "independence has no column 'model_'; did you mean 'model'",
        ),
        (
            lambda con: ragbench.ledger(con, "context_mod"),
            "ledger has no column 'context_mod'; did you mean 'context_mode'",
        ),
        (
            lambda con: ragbench.pending(con, "answer", where={"domian": 1}),
            "pending has no column 'domian'; did you mean 'domain'",
        ),
    ],
)
def test_an_unknown_name_is_met_with_the_near_miss(two_models, ask, message):
    with pytest.raises(UnknownName, match=re.escape(message)) as raised:
        ask(two_models)
    assert isinstance(raised.value, UnknownColumn) or "metric" in message


def test_where_binds_its_values(two_models):
    def planned(**where):
        return ragbench.scores(two_models, (), where=where)["planned"].item()

    assert planned() == 12
    assert planned(domain="'; DROP TABLE judgments; --") == 3
    with pytest.raises(UnknownName, match='no domain "\' OR 1=1 --"'):
        planned(domain="' OR 1=1 --")
    assert planned(model="\"b' OR 1=1") == 4
    assert planned(domain=None) == 3
    assert planned(domain=[None, "Legal"]) == 6
    assert planned(domain=("Legal", "医疗"), model="甲/乙") == 2
    assert planned(domain=[]) == 0
    with pytest.raises(UnknownName, match="no domain '2026-11-30'"):
        planned(domain=datetime.date(2026, 11, 30))
    assert planned(query_id=2) == planned(query_id="2") == 3
    assert planned(query_id=range(2)) == 6
    assert planned(query_id=pl.Series(["0"])) == 3
    assert planned(trial="0") == planned(trial=0) == planned(trial=[0, 1]) == 12
    assert planned(is_augmented=None) == 12
    assert planned(is_augmented="true") == 0
    assert two_models.sql("SELECT count(*) FROM judgments").fetchall() == [(24,)]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ({"trial": "first"}, "trial is a whole number, and not 'first'"),
        ({"trial": True}, "trial is a whole number"),
        ({"trial": 0.5}, "trial is a whole number"),
        ({"is_augmented": "perhaps"}, "is_augmented is true or false"),
        ({"params_b": {"seven"}}, "params_b is a number"),
        ("model = 'm'", "where is a mapping"),
    ],
)
def test_a_value_that_cannot_be_in_its_column_is_refused(two_models, where, message):
    with pytest.raises(RagbenchError, match=message):
        ragbench.scores(two_models, where=where)


def test_rows_come_in_one_order(two_models):
    first = ragbench.scores(two_models, ("domain", "model"))
    assert first.select("domain", "model").rows() == sorted(
        first.select("domain", "model").rows(), key=lambda row: (row[0] is None, row)
    )
    for _ in range(3):
        assert_frame_equal(ragbench.scores(two_models, ("domain", "model")), first)
    assert ragbench.scores(two_models, ["model", "model"]).columns.count("model") == 1


def test_nothing_matches_nothing(two_models):
    empty = {"context_mode": "counterfactual"}
    assert ragbench.scores(two_models, where=empty).is_empty()
    row = ragbench.scores(two_models, (), where=empty).row(0, named=True)
    assert (row["planned"], row["strict_ias"], row["strict_ias_planned"]) == (0, None, 0)
    assert ragbench.constraint_scores(two_models, where=empty).is_empty()


def test_own_tables_and_open_results_on_the_connection_do_no_harm(two_models):
    two_models.execute("CREATE TEMP TABLE mine AS SELECT 1 AS x")
    open_result = two_models.execute("SELECT * FROM range(100000)")
    before = ragbench.scores(two_models)
    assert len(open_result.fetchall()) == 100000
    assert two_models.sql("FROM mine").fetchall() == [(1,)]
    assert_frame_equal(ragbench.scores(two_models), before)


# ---------------------------------------------------------------- reading


def test_columns_stand_in_the_order_of_reading(two_models):
    own = ["loose_ias", "strict_ias", "loose_pooled", "loose_ias_triggered"]
    own += ["strict_ias_triggered", "strict_ias_refusal_exempt", "loose_rules", "strict_rules"]
    own += ["faithfulness", "coverage", "rejection", "conflict"]
    details = ["n", "planned", "low", "high", "lowest", "highest", "interval"]
    assert ragbench.scores(two_models, ("model", "domain")).columns == [
        *("model", "domain", "panel", "origin", "planned", "answered", "judged", "errors"),
        *own,
        *(f"{name}_{detail}" for name in own for detail in details),
    ]
    assert ragbench.constraint_scores(two_models).columns == [
        *("model", "category", "panel", "origin", "planned", "judged", "errors"),
        *("adherence", "adherence_triggered"),
        *(f"{n}_{d}" for n in ("adherence", "adherence_triggered") for d in details),
    ]


def test_a_notebook_shows_names_and_markup_as_text(two_models):
    html = ragbench.scores(two_models)._repr_html_()
    assert "<script>" not in html
    assert "strict_ias" in html


def test_tidy_gives_a_row_per_group_and_metric(two_models):
    wide = ragbench.scores(two_models, ("model", "domain"))
    frame = metrics.tidy(wide)
    assert frame.columns == [
        *("model", "domain", "metric", "value", "n", "planned", "low", "high"),
        *("lowest", "highest", "interval", "panel", "origin"),
    ]
    assert "rejection" not in frame["metric"].to_list()  # applies nowhere here
    assert frame.height == wide.height * 6
    chosen = frame.filter(metric="loose_ias")
    assert chosen["value"].to_list() == wide["loose_ias"].to_list()
    assert chosen["high"].to_list() == wide["loose_ias_high"].to_list()
    assert metrics.tidy(wide.clear()).columns == frame.columns
    with pytest.raises(RagbenchError, match="tidy takes"):
        metrics.tidy(pl.DataFrame({"planned": [1]}))


def test_tidy_keeps_panels_apart(two_models):
    frame = metrics.tidy(ragbench.scores(two_models, ("panel", "model")))
    assert frame.columns[:3] == ["model", "metric", "value"]
    assert frame["panel"].unique().to_list() == ["kimi"]


# ---------------------------------------------------------------- what is loaded


def loaded(code: str) -> set[str]:
    script = f"{code}\nimport sys; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


HEAVY = {"statsmodels", "pingouin", "pandas", "scipy.stats", "plotly", "litellm", "openai"}


def test_import_loads_nothing_heavy():
    assert not loaded("import ragbench") & (HEAVY | {"scipy"})


def test_scores_load_nothing_heavy(tmp_path):
    path = tmp_path / "s.duckdb"
    lines = [{"query": i, "verdicts": [1, i]} for i in range(2)]
    random_study.plain(path, lines).close()
    code = f"""
import ragbench
con = ragbench.connect({str(path)!r})
assert ragbench.scores(con)["loose_ias_interval"].item() == "clustered by query"
ragbench.constraint_scores(con); ragbench.metrics.tidy(ragbench.scores(con))
"""
    assert not loaded(code) & HEAVY


# ---------------------------------------------------------------- the documentation

DOCS = Path(__file__).parent.parent / "docs" / "metrics.md"


def documented(head: str) -> list[dict[str, str]]:
    """The rows of the table in docs/metrics.md whose first columns are `head`."""
    lines = DOCS.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {head} |"))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    cells = [[cell.strip(" `") for cell in line[1:-1].split("|")] for line in lines[start:end]]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def test_the_worked_example_of_the_documentation(tmp_path):
    meaning = {"1": 1, "0": 0, "u": "untriggered", "error": "error", "–": None, "": None}
    lines = []
    for row in documented("query | context | format"):
        verdicts = [meaning[row[name]] for name in ("format", "citation", "knowledge gap")]
        rejection = meaning[row["rejection"]]
        lines.append(
            {
                "query": row["query"],
                "mode": row["context"],
                "verdicts": verdicts,
                "more": {"rejection": rejection},
                "error": "timeout" if verdicts == [None] * 3 else None,
            }
        )
    dimensions = ("format", "citation", "knowledge_gap")
    con = random_study.plain(tmp_path / "s.duckdb", lines, dimensions=dimensions)
    ledger = ragbench.ledger(con, ()).row(0, named=True)
    shown = ", ".join(f"{name} {count}" for name, count in ledger.items())
    assert f"The ledger: {shown}." in DOCS.read_text(encoding="utf-8")
    found = metrics.tidy(ragbench.scores(con, ()))
    printed = [
        {
            name: f"{value:.3f}" if isinstance(value, float) else str(value)
            for name, value in row.items()
            if name not in ("panel", "origin")
        }
        for row in found.to_dicts()
    ]
    assert printed == documented("metric | value | n")


def test_every_metric_is_documented():
    text = DOCS.read_text(encoding="utf-8")
    names = [metric.name for metric in metrics.METRICS]
    for name in (*names, *metrics.CRITERION_METRICS, "adherence", "adherence_triggered"):
        assert f"`{name}`" in text
    for kind in ("Wilson", "clustered by query", "none: one query", "none: all queries alike"):
        assert f"| {kind} |" in text


def test_metrics_are_one_name_or_several_once_each(panels_study):
    con = panels_study(("kimi", "llm", 0, 1))
    once = ragbench.scores(con, metrics=["strict_ias"])
    assert_frame_equal(ragbench.scores(con, metrics=["strict_ias", "strict_ias"]), once)
    assert_frame_equal(ragbench.scores(con, metrics="strict_ias"), once)
    assert "loose_ias" not in ragbench.scores(con, metrics=[]).columns
    with pytest.raises(RagbenchError, match="give a name, or a list of names"):
        ragbench.scores(con, metrics=3)
