"""Labels of people: samples, what is safe when, and the verdicts that come of them."""

from __future__ import annotations

import collections
import json

import polars as pl
import pytest

import ragbench
from ragbench import labels
from ragbench.annotating import _blind, annotator
from ragbench.errors import RagbenchError, UnknownName
from ragbench.reading import reading


def test_a_sample_is_spread_evenly_and_its_weights_give_back_the_study(con):
    whole = labels.sample(con, "adherence")
    assert {item.weight for item in whole} == {1.0}
    answered = con.sql(
        "SELECT count(*) FROM planned_responses JOIN instance_constraints USING (instance_id) "
        "WHERE is_answered"
    ).fetchall()[0][0]
    assert len(whole) == len(set(whole)) == answered
    few = labels.sample(con, "adherence", 6, seed=3)
    assert len(few) == 6
    assert sum(item.weight for item in few) == pytest.approx(answered)
    assert few == labels.sample(con, "adherence", 6, seed=3)
    assert few != labels.sample(con, "adherence", 6, seed=4)
    models = collections.Counter(item.response_id.split("/")[1] for item in few)
    assert max(models.values()) - min(models.values()) <= 1


def test_a_dimension_and_a_criterion_are_tasks_and_others_are_refused(con):
    dimension = con.sql("SELECT min(dimension) FROM constraints").fetchall()[0][0]
    of_it = dict(con.sql("SELECT constraint_id, dimension FROM constraints").fetchall())
    found = labels.sample(con, dimension)
    assert {of_it[item.target_id] for item in found} == {dimension}
    assert {item.criterion for item in found} == {"adherence"}
    gaps = labels.sample(con, "rejection")
    assert all(item.target_id == item.response_id for item in gaps)
    with pytest.raises(UnknownName, match="rejecton"):
        labels.sample(con, "rejecton")
    with pytest.raises(RagbenchError, match="nothing to label"):
        labels.sample(con, "rejection", where={"context_mode": "noise"})


def test_the_page_to_label_does_not_give_the_label_away(study, con):
    shown = 0
    for mode, role in con.sql(
        "SELECT DISTINCT context_mode::VARCHAR, role::VARCHAR FROM contexts "
        "JOIN instances USING (instance_id) WHERE role IS NOT NULL"
    ).fetchall():
        found = con.execute(
            "SELECT response_id FROM responses JOIN contexts USING (instance_id) "
            "JOIN instances USING (instance_id) WHERE context_mode = ? AND role = ? "
            "AND text IS NOT NULL LIMIT 1",
            [mode, role],
        ).fetchall()
        for (response_id,) in found:
            item = labels.Item(response_id, "rejection", response_id, 1.0)
            page, open_page = _blind(con, item), reading(con, response_id)
            assert open_page.head["context_mode"] == mode
            assert role in open_page.documents["role"].to_list()
            assert page.head["context_mode"] is None
            assert set(page.documents["role"]) == {""}
            assert page.documents["text"].equals(open_page.documents["text"])
            mark = f">{role}<"
            assert mark in open_page._repr_html_()
            assert mark not in page._repr_html_()
            shown += 1
    assert shown


def test_each_label_is_safe_at_once_and_work_goes_on_where_it_stopped(study, con):
    first = labels.Labels(study, "rejection", "ann")
    first.begin(labels.sample(con, "rejection", seed=1), seed=1)
    first.put(0, 1.0, "拒绝了")
    again = labels.Labels(study, "rejection", "ann")
    assert again.items == first.items
    assert again.about == {"seed": 1}
    assert again.labels == {0: (1.0, "拒绝了")}
    assert again.next() == 1
    other = labels.Labels(study, "rejection", "ben")
    assert (other.items, other.labels) == ([], {}), "experts do not see each other's labels"


def test_undo_takes_back_one_label_after_the_other_also_after_a_restart(study, con):
    given = labels.Labels(study, "rejection", "ann")
    given.begin(labels.sample(con, "rejection"))
    given.put(0, 1.0)
    given.put(0, 0.0)
    given.put(1, 1.0)
    assert given.undo() == 1
    given = labels.Labels(study, "rejection", "ann")
    assert given.undo() == 0
    assert given.labels == {0: (1.0, "")}
    given.put(0, None)
    assert given.labels == {}
    assert [given.undo(), given.undo(), given.undo()] == [0, 0, None]


def test_a_line_that_was_cut_off_never_counted_and_a_damaged_one_is_named(study, con):
    given = labels.Labels(study, "rejection", "ann")
    given.begin(labels.sample(con, "rejection"))
    given.put(0, 1.0)
    whole = given.file.read_bytes()
    given.file.write_bytes(whole + b'{"at": 1, "sco')
    again = labels.Labels(study, "rejection", "ann")
    assert again.labels == {0: (1.0, "")}
    again.put(1, 0.0)
    assert labels.Labels(study, "rejection", "ann").labels == {0: (1.0, ""), 1: (0.0, "")}
    given.file.write_bytes(b"no json\n" + whole)
    with pytest.raises(RagbenchError, match="line 1 is no label"):
        labels.Labels(study, "rejection", "ann")
    with pytest.raises(RagbenchError, match="cannot be the name"):
        labels.Labels(study, "rejection", "../ann")


def test_finished_labels_are_verdicts_of_a_person_with_seed_and_weights(study, con):
    for expert, score in (("ann", 1.0), ("ben", 0.0)):
        given = labels.Labels(study, "rejection", expert)
        given.begin(labels.sample(con, "rejection", seed=7), seed=7)
        for at in range(len(given.items)):
            given.put(at, score if at == 0 else 1.0, "why" if at == 0 else "")
        made = given.finish()
        assert made["verdicts"].item() == len(given.items)
        given.finish()  # twice changes nothing
    con = ragbench.connect(study)
    kinds = con.sql("SELECT judge, kind::VARCHAR FROM judges WHERE kind = 'human'").fetchall()
    assert sorted(kinds) == [("ann", "human"), ("ben", "human")]
    config = json.loads(con.sql("SELECT config FROM runs WHERE step = 'annotate'").fetchall()[0][0])
    assert config["seed"] == 7
    assert set(config["weights"].values()) == {1.0}
    apart = labels.disagreements(con, "rejection")
    assert apart["response_id"].to_list() == [given.items[0].response_id]
    assert apart["votes"].item() == "ann: 1.0; ben: 0.0"
    both = ragbench.agreement(con, "rejection", ["ann", "ben"])
    assert both["n"].item() == len(given.items)
    assert both["agreement"].item() == pytest.approx(1 - 1 / len(given.items))
    reasons = con.sql("SELECT reason FROM evidence WHERE judge = 'ann'").fetchall()
    assert reasons == [("why",)]
    assert ragbench.check(con).filter(pl.col("relation") == "judgments").is_empty()


def test_expert_checks_draw_instances_with_responses_or_without(study, con):
    ragbench.append(
        study,
        {"instances": [{"instance_id": "new", "query_id": "law", "context_mode": "clean"}]},
        origin="recorded",
    )
    whole = labels.sample(con, "context_validity")
    assert {item.instance_id for item in whole} == {
        "law-noise",
        "law-gap",
        "med-noise",
        "med-gap",
        "new",
    }
    few = labels.sample(con, "query_consistency", 2, seed=1, strata=["language"])
    assert few == labels.sample(con, "query_consistency", 2, seed=1, strata=["language"])
    assert sum(item.weight for item in few) == pytest.approx(5)
    assert {item.check for item in few} == {"query_consistency"}
    (new,) = labels.sample(con, "context_validity", where={"context_mode": "clean"})
    assert new == labels.Check("new", "context_validity", 1.0)
    with pytest.raises(UnknownName, match="no column 'model'"):
        labels.sample(con, "context_validity", strata=["model"])


def test_the_page_of_a_check_shows_no_response_role_or_verdict(study, con):
    text = con.sql(
        "SELECT text FROM responses WHERE response_id = 'law-gap/model-a/given_context/0'"
    )
    answer = text.fetchall()[0][0]
    page = _blind(con, labels.Check("law-gap", "context_validity", 1.0))
    shown = page._repr_html_()
    assert "Knowledge gap" in shown, "what the context is to be"
    for requirement in ("knowledge_gap", "如果资料中没有答案，请明说。"):
        assert requirement in shown or "Knowledge" in shown
    assert "Documents" in shown
    for hidden in (answer, "model-a", ">noise<", "met", "Response", "panel"):
        assert hidden not in shown, hidden
        assert hidden not in str(page), hidden
    page = _blind(con, labels.Check("law-gap", "query_consistency", 1.0))._repr_html_()
    assert "Every requirement" in page
    assert "Documents" not in page
    assert "Knowledge gap<" not in page.split("Query")[0]


def test_an_instance_that_fails_a_check_of_a_person_leaves_all_scores(study, con):
    before = ragbench.scores(con, "model")["planned"].to_list()
    for expert in ("ann", "ben"):
        given = labels.Labels(study, "context_validity", expert)
        given.begin(labels.sample(con, "context_validity", seed=7), seed=7)
        for at, item in enumerate(given.items):
            fails = expert == "ann" and item.instance_id == "law-gap"
            given.put(at, 0.0 if fails else 1.0, "the answer is there" if fails else "")
        again = labels.Labels(study, "context_validity", expert)
        assert again.items == given.items
        made = again.finish()
        assert made.row(0) == (4, 3 if expert == "ann" else 4, 0)
        again.finish()  # twice changes nothing
    con = ragbench.connect(study)
    assert con.sql("SELECT kind::VARCHAR FROM judges WHERE judge = 'ann'").fetchall() == [
        ("human",)
    ]
    failed = con.sql(
        'SELECT instance_id, "check", judge, note FROM verifications WHERE NOT passed'
    ).fetchall()
    assert failed == [("law-gap", "context_validity", "ann", "the answer is there")]
    config = json.loads(con.sql("SELECT config FROM runs WHERE step = 'annotate'").fetchall()[0][0])
    assert config["seed"] == 7
    assert config["weights"]["law-gap/context_validity"] == 1.0
    after = ragbench.scores(con, "model")["planned"].to_list()
    assert after == [planned - 1 for planned in before]
    both = labels.check_agreement(con, "context_validity")
    assert both.select("judge_a", "judge_b", "n", "unmatched", "agreement").row(0) == (
        *("ann", "ben", 4, 0),
        0.75,
    )
    apart = labels.disagreements(con, "context_validity")
    assert apart.row(0) == ("law-gap", "ann: failed (the answer is there); ben: passed")
    assert apart.height == 1
    assert labels.check_agreement(con, "query_consistency").is_empty()
    assert ragbench.check(con).filter(pl.col("relation") == "verifications").is_empty()


def test_the_widget_says_what_a_failed_check_does_and_asks_before_it_is_stored(study):
    made = annotator(study, "context_validity", "ann", seed=2)
    assert "leaves all scores" in made._question.value
    made.press("n")
    for _ in range(3):
        made.press("y")
    assert "4 of 4 labelled" in made._said.value
    made._done.click()
    assert "1 of 4 failed" in made._end.value
    assert "press Finish again" in made._end.value
    stored = "SELECT count(*) FROM verifications"
    assert ragbench.connect(study).sql(stored).fetchall() == [(0,)]
    made._done.click()
    assert "4 verdicts of ann stored" in made._end.value
    assert ragbench.connect(study).sql(stored).fetchall() == [(4,)]
    resumed = annotator(study, "context_validity", "ann")
    assert "4 of 4 labelled" in resumed._said.value
    resumed._done.click()
    assert "press Finish again" not in resumed._end.value, "what is stored already is not asked"


def test_no_two_people_or_tasks_share_a_file(study):
    pairs = [("eva", "tone-of-voice"), ("eva-tone", "of-voice"), ("eva", "tone of voice")]
    pairs += [("eva", "tone_of_voice"), ("eva-tone-of", "voice")]
    files = {labels.Labels(study, task, expert).file for expert, task in pairs}
    assert len(files) == len(pairs)
    assert {file.parent.name for file in files} == {f"{study.name}.labels"}


def test_half_a_sign_in_a_note_loses_no_label(study):
    made = annotator(study, "rejection", "ann")
    made._note.value = "cut \ud83d off"
    made.press("y")
    again = labels.Labels(study, "rejection", "ann")
    assert again.labels == {0: (1.0, "cut \ufffd off")}
    again.finish()
    con = ragbench.connect(study)
    assert con.sql("SELECT reason FROM evidence WHERE judge = 'ann'").fetchall() == [
        ("cut \ufffd off",)
    ]


def test_finish_counts_the_labels_of_its_task_and_those_that_came_too_late(study):
    made = annotator(study, "rejection", "ann")
    for _ in made.labels.items:
        made.press("y")
    made._finish()
    n = len(made.labels.items)
    assert f"{n} verdicts of ann stored" in made._end.value
    assert "changed after" not in made._end.value
    made.press("n")  # the last one, once more
    made._finish()
    assert f"{n} verdicts of ann stored" in made._end.value
    assert "1 labels were changed after they had been stored" in made._end.value
    scores = "SELECT DISTINCT score FROM judgments WHERE judge = 'ann'"
    assert ragbench.connect(study).sql(scores).fetchall() == [(1.0,)]
    other = annotator(study, "format", "ann", n=2)
    other.press("n")
    assert other.labels.finish().row(0) == (1, 0, 0)
