"""Labels of people: samples, what is safe when, and the verdicts that come of them."""

from __future__ import annotations

import collections
import json

import polars as pl
import pytest

import ragbench
from ragbench import labels
from ragbench.annotating import _blind
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
        labels.sample(con, "rejection", where={"model": "nobody"})


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
