"""What is left to do, where responses are, what is wrong, and whether two studies are the same."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import duckdb
import pytest
import random_study
import recompute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ragbench
from ragbench import relations
from ragbench.checks import content_hash
from ragbench.errors import RagbenchError, UnknownName

SEEDS = st.integers(0, 2**32)
_few = settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))


def live(study):
    failed = {row["instance_id"] for row in study["verifications"] if not row["passed"]}
    return [row for row in study["instances"] if row["instance_id"] not in failed]


def answers_left(study, models, setting, trials, *, retry_errors):
    """Wanted minus present, of instances that passed their checks."""
    instances = {row["instance_id"] for row in live(study)}
    asked = {
        (row["instance_id"], row["model"], row["setting"], row["trial"])
        for row in study["wanted"]
        if row["instance_id"] in instances
    } | {(i, m, setting, t) for i in instances for m in models for t in range(trials)}
    present = {
        (row["instance_id"], row["model"], row["setting"], row["trial"])
        for row in study["responses"]
        if not (retry_errors and row["error"])
    }
    return asked - present


def verdicts_left(study, judge, criteria, repeats, *, retry_errors):
    """What a judge still has to grade: (response, criterion, target, repeat)."""
    is_rule = {row["judge"]: row["kind"] for row in study["judges"]}.get(judge) == "rule"
    modes = {row["instance_id"]: row["context_mode"] for row in live(study)}
    constraints = {row["constraint_id"]: row for row in study["constraints"]}
    asked = set()
    for response in study["responses"]:
        instance, key = response["instance_id"], response["response_id"]
        if response["error"] or instance not in modes:
            continue
        for criterion in criteria:
            if criterion == "adherence":
                targets = [
                    row["constraint_id"]
                    for row in study["instance_constraints"]
                    if row["instance_id"] == instance
                    and (constraints[row["constraint_id"]]["rule"] is not None) == is_rule
                ]
            elif criterion in ("coverage", "faithfulness"):
                claims = recompute._claims(study, criterion, instance, key, judge)
                targets = [claim["claim_id"] for claim in claims]
            else:
                mode = {"rejection": "gap", "conflict": "conflict"}.get(criterion)
                targets = [key] if mode in (None, modes[instance]) else []
            asked |= {(key, criterion, target, r) for target in targets for r in range(repeats)}
    present = {
        (row["response_id"], row["criterion"], row["target_id"], row["repeat"])
        for row in study["judgments"]
        if row["judge"] == judge and not (retry_errors and row["error"])
    }
    return asked - present


CRITERIA = ("adherence", "rejection", "conflict", "coverage", "faithfulness", "polite")


@_few
@given(SEEDS)
def test_pending_is_wanted_minus_present_and_the_work_it_lists_leaves_nothing(seed):
    study = random_study.draw(seed)
    choose = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.duckdb"
        con = random_study.store(path, study)
        models = ["new/one", random_study.MODELS[0]["model"]][: choose.randint(0, 2)]
        for retry in (False, True):
            frame = ragbench.pending(
                con, "answer", models=models, setting="x", trials=2, retry_errors=retry
            )
            rows = frame.select("instance_id", "model", "setting", "trial").rows()
            assert set(rows) == answers_left(study, models, "x", 2, retry_errors=retry)
            assert len(set(rows)) == len(rows)
        judge = choose.choice(study["judges"])["judge"]
        for retry in (False, True):
            work = ragbench.pending(
                con, "judge", judge=judge, criteria=CRITERIA, repeats=2, retry_errors=retry
            )
            rows = work.select("response_id", "criterion", "target_id", "repeat").rows()
            assert set(rows) == verdicts_left(study, judge, CRITERIA, 2, retry_errors=retry)
            assert rows == sorted(set(rows))
        answers = [{"text": "…", **row} for row in frame.drop("response_id").to_dicts()]
        verdicts = [
            {name: value for name, value in row.items() if name != "instance_id"} | {"score": 1.0}
            for row in work.to_dicts()
        ]
        more = {"responses": answers, "judgments": verdicts}
        ragbench.append(path, {k: v for k, v in more.items() if v}, origin="recorded")
        left = ragbench.pending(
            con, "answer", models=models, setting="x", trials=2, retry_errors=True
        )
        assert left.is_empty()
        left = ragbench.pending(
            con, "judge", judge=judge, criteria=CRITERIA, repeats=2, retry_errors=True
        )
        # The answers just made are new work; nothing that was listed is listed again.
        assert not set(left["response_id"]) & {row["response_id"] for row in verdicts}
        con.close()


@pytest.fixture
def small(tmp_path):
    return random_study.plain(
        tmp_path / "s.duckdb",
        [
            {"query": 1, "mode": "gap", "domain": "Legal", "verdicts": [1, "error"]},
            {"query": 2, "mode": "noise", "verdicts": [None, 0]},
            {"query": 3, "mode": "conflict", "verdicts": [None, None], "error": "timeout"},
        ],
        rules=("no_emoji", None),
    )


def test_rules_are_asked_about_rules_and_others_about_the_rest(small):
    def listed(judge, **more):
        frame = ragbench.pending(small, "judge", judge=judge, **more)
        return frame.select("response_id", "criterion", "target_id").rows()

    first, second = "1-gap/m/given_context/0", "2-noise/m/given_context/0"
    assert listed("rules@7") == [(first, "adherence", "1.c0"), (second, "adherence", "2.c0")]
    assert listed("kimi") == [(first, "rejection", first)]
    assert listed("kimi", retry_errors=True)[0] == (first, "adherence", "1.c1")
    assert len(listed("someone new", where={"domain": "Legal"})) == 2
    assert listed("someone new", criteria=["adherence"])[1] == (second, "adherence", "2.c1")
    assert len(listed("kimi", criteria=["rejection"], repeats=3)) == 3


def test_pending_says_what_it_needs(small):
    with pytest.raises(RagbenchError, match="needs judge="):
        ragbench.pending(small, "judge")
    with pytest.raises(UnknownName, match="no step 'answers'; did you mean 'answer'"):
        ragbench.pending(small, "answers")
    with pytest.raises(UnknownName, match="no criterion 'adherance'; did you mean 'adherence'"):
        ragbench.pending(small, "judge", judge="kimi", criteria=["adherance"])
    errors = ragbench.pending(small, "answer", retry_errors=True)
    assert errors["response_id"].to_list() == ["3-conflict/m/given_context/0"]
    assert ragbench.pending(small, "answer").is_empty()
    some = ragbench.pending(small, "answer", models=["n'"], where={"query_id": ["2", "3"]})
    assert some["instance_id"].to_list() == ["2-noise", "3-conflict"]


# ---------------------------------------------------------------- ledger


@pytest.mark.parametrize("seed", random_study.POOL)
def test_the_ledger_adds_up_and_says_where_every_response_is(seed):
    study, con = random_study.stored(seed)
    for panel in list(recompute.panels(study))[:3]:
        by = ("model", "context_mode")
        frame = ragbench.ledger(con, by, panel=panel)
        rows = recompute.chosen(study, by, {}, panel)
        expected = {
            group: {name: n for name, n in recompute.ledger(rows).items() if name != "origin"}
            for group, rows in recompute.grouped(rows, by, lambda r: r.row).items()
        }
        found = {(r.pop("model"), r.pop("context_mode")): r for r in frame.to_dicts()}
        for row in found.values():
            assert row["planned"] == row["judged"] + row["errors"] + row.pop("pending")
        assert found == expected


def test_without_a_judge_everything_is_pending_or_an_error(tmp_path):
    path = tmp_path / "s.duckdb"
    frames = {
        "queries": [{"query_id": "q"}],
        "instances": [{"instance_id": "i", "query_id": "q", "context_mode": "open"}],
        "responses": [
            {"instance_id": "i", "model": "a", "text": "…"},
            {"instance_id": "i", "model": "b", "error": "timeout"},
        ],
    }
    ragbench.append(path, frames)
    counts = ragbench.ledger(ragbench.connect(path), "model").rows()
    assert counts == [("a", 1, 1, 0, 0, 1), ("b", 1, 0, 0, 1, 0)]


# ---------------------------------------------------------------- check


def test_a_sound_study_has_nothing_to_report(small):
    assert ragbench.check(small).is_empty()


KEY = "1-gap/m/given_context/0"
VERDICT = f"INSERT INTO judgments VALUES ('{KEY}', "
FAULTS = {
    "doubled key": (
        "INSERT INTO queries BY NAME SELECT '1' AS query_id",
        "queries",
        "the key stands more than once",
    ),
    "no such query": (
        "INSERT INTO instances VALUES ('i', 'nowhere', 'gap', NULL, NULL, NULL)",
        "instances",
        "query_id is not in queries",
    ),
    "no such constraint": (
        "INSERT INTO instance_constraints VALUES ('1-gap', 9, 'nowhere')",
        "instance_constraints",
        "constraint_id is not in constraints",
    ),
    "no such judge": (
        f"{VERDICT}'adherence', '1.c0', 'nobody', 0, 1, NULL, NULL, 'r')",
        "judgments",
        "judge is not in judges",
    ),
    "no such run": (
        "INSERT INTO wanted VALUES ('1-gap', 'm', 's', 0, 'nowhere')",
        "wanted",
        "run_id is not in runs",
    ),
    "out of range": (
        f"{VERDICT}'rejection', '{KEY}', 'kimi', 0, 1.5, NULL, NULL, 'r')",
        "judgments",
        "outside its criterion's range",
    ),
    "half adherence": (
        f"{VERDICT}'adherence', '1.c0', 'kimi', 1, 0.5, NULL, NULL, 'r')",
        "judgments",
        "neither 0 nor 1",
    ),
    "untriggered and failed": (
        f"{VERDICT}'adherence', '1.c0', 'kimi', 1, 0, false, NULL, 'r')",
        "judgments",
        "the condition did not hold",
    ),
    "not shown": (
        f"{VERDICT}'adherence', '2.c0', 'kimi', 0, 1, NULL, NULL, 'r')",
        "judgments",
        "not shown with the instance",
    ),
    "another's claim": (
        f"{VERDICT}'coverage', 'a claim', 'kimi', 0, 1, NULL, NULL, 'r')",
        "judgments",
        "not one of the response or of its instance",
    ),
    "not the response": (
        f"{VERDICT}'rejection', 'else', 'kimi', 0, 1, NULL, NULL, 'r')",
        "judgments",
        "the target is not the response",
    ),
    "judged error": (
        "INSERT INTO judgments VALUES ('3-conflict/m/given_context/0', 'adherence', '3.c0', "
        "'kimi', 0, 1, NULL, NULL, 'r')",
        "judgments",
        "there was nothing to judge",
    ),
    "evidence of nothing": (
        f"INSERT INTO evidence BY NAME SELECT '{KEY}' AS response_id, 'adherence' AS criterion, "
        "'1.c0' AS target_id, 'nobody' AS judge, 0 AS repeat, 'r' AS run_id",
        "evidence",
        "no judgment that it explains",
    ),
    "claim of no response": (
        "INSERT INTO claims VALUES ('c', '1-gap', 'none', 'response', NULL, NULL)",
        "claims",
        "points to none",
    ),
    "shown twice": (
        "INSERT INTO instance_constraints VALUES ('1-gap', 9, '1.c0')",
        "instance_constraints",
        "stands twice",
    ),
    "one id, two responses": (
        "INSERT INTO wanted VALUES ('i', 'a/b', 's', 0, 'r'), ('i/a', 'b', 's', 0, 'r')",
        "wanted",
        "the same response_id",
    ),
    "a taken name": (
        "INSERT INTO criteria VALUES ('strict_ias_low', 'response', 0, 1, NULL, NULL)",
        "criteria",
        "taken by a column of scores",
    ),
    "failed its check": (
        "INSERT INTO verifications VALUES ('1-gap', 'fit', 'ann', false, NULL)",
        "wanted",
        "failed a check",
    ),
    "stale summary": (
        "UPDATE adherence_summary SET satisfied = satisfied + 1 WHERE instance_id = '1-gap'",
        "adherence_summary",
        "fold again",
    ),
    "stale criteria": (
        "DELETE FROM criterion_summary WHERE instance_id = '1-gap'",
        "criterion_summary",
        "fold again",
    ),
    "stale sums": (
        "UPDATE adherence_by_query SET loose_ias = loose_ias + 0.25",
        "adherence_by_query",
        "fold again",
    ),
    "stale sums of criteria": (
        "UPDATE criterion_by_query SET value_n = 7",
        "criterion_by_query",
        "fold again",
    ),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "s.duckdb"
    lines = [
        {"query": 1, "mode": "gap", "verdicts": [1], "more": {"rejection": 0}},
        {"query": 2, "verdicts": [0]},
        {"query": 3, "mode": "conflict", "verdicts": [None], "error": "timeout"},
    ]
    random_study.plain(path, lines).close()
    return path


@pytest.mark.parametrize("fault", FAULTS)
def test_check_finds_each_planted_fault(sound, tmp_path, fault):
    sql, relation, problem = FAULTS[fault]
    path = tmp_path / "s.duckdb"
    path.write_bytes(sound.read_bytes())
    with duckdb.connect(str(path)) as writer:
        writer.execute("DELETE FROM judgments WHERE criterion = 'rejection'; " + sql)
    found = ragbench.check(ragbench.connect(path))
    row = found.filter(relation=relation).to_dicts()
    assert [problem in one["problem"] for one in row].count(True) == 1, found
    assert all(one["rows"] > 0 and one["example"] for one in row)
    assert found["relation"].to_list() == sorted(
        found["relation"], key=lambda name: relations.order(name)
    )


# ---------------------------------------------------------------- content hash


def test_the_content_hash_ignores_order_runs_and_times_only(tmp_path):
    study = random_study.draw(5)
    again = {name: list(reversed(rows)) for name, rows in study.items()}
    for response in study["responses"]:
        response["seconds"] = 1.5
    first = random_study.store(tmp_path / "a" / "s.duckdb", study)
    path = tmp_path / "b" / "s.duckdb"
    verdicts = again.pop("judgments")
    random_study.store(path, again | {"judgments": verdicts[:10]}).close()
    assert content_hash(ragbench.connect(path)) != content_hash(first)
    second = random_study.store(path, {"judgments": verdicts})
    assert content_hash(second) == content_hash(first)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE judgments SET score = 1 - score WHERE target_id = '1.c0'",
        "UPDATE judgments SET is_triggered = false WHERE target_id = '1.c0'",
        "UPDATE responses SET text = '……' WHERE instance_id = '1-gap'",
        "UPDATE queries SET domain = '' WHERE query_id = '1'",
        "DELETE FROM judgments WHERE target_id = '1.c0'",
        "INSERT INTO nodes VALUES ('n', NULL, NULL, NULL, NULL)",
        "UPDATE study SET licence = 'CC0-1.0'",
        "UPDATE responses SET cost = 0.25 WHERE instance_id = '1-gap'",
        "UPDATE judgments SET score = NULL, error = 'timeout' WHERE target_id = '1.c0'",
    ],
)
def test_the_content_hash_sees_every_change(sound, tmp_path, change):
    path = tmp_path / "s.duckdb"
    path.write_bytes(sound.read_bytes())
    before = content_hash(ragbench.connect(path))
    with duckdb.connect(str(path)) as writer:
        writer.execute(change)
    assert content_hash(ragbench.connect(path)) != before
