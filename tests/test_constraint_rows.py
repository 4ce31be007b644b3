"""Verdicts that are kept between slices: what is read from them is what the study says now."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import LLM, RULES
from polars.testing import assert_frame_equal

import ragbench as rb
from ragbench import constraint_rows, exploring, store

BOTH = f"{LLM} + {RULES}"
LACKING = {
    "response_id": "law-noise/model-b/given_context/0",
    "criterion": "adherence",
    "target_id": "law.c3",
    "judge": LLM,
}


def slices(con, panel=BOTH):
    """What is made of the verdicts on single constraints, whole and filtered."""
    return [
        rb.constraint_scores(con, "dimension", panel=panel),
        rb.constraint_scores(con, ("model", "category"), {"context_mode": "gap"}, panel),
        rb.constraint_scores(con, "family", {"dimension": "audience"}, panel),
        exploring.failing_together(con, {"is_open": False}, panel),
        exploring.failing_together(con, panel=panel),
    ]


def assert_same(made, expected):
    for ours, theirs in zip(made, expected, strict=True):
        assert_frame_equal(ours, theirs, check_exact=True)


def kept_in(con):
    """The schemas with kept tables, and how many each has."""
    return dict(
        con.sql(
            "SELECT schema_name, count(*) FROM duckdb_tables() "
            "WHERE starts_with(schema_name, '_kept') GROUP BY ALL"
        ).fetchall()
    )


def test_kept_verdicts_give_what_the_study_gives(con, study, monkeypatch):
    found = slices(con)
    again = slices(con)
    assert kept_in(con) == {"_kept_store_0": 1}
    monkeypatch.setattr(constraint_rows, "_KEPT_AT_MOST", 0)
    other = rb.connect(study)
    expected = slices(other)
    assert kept_in(other) == {}
    assert_same(found, expected)
    assert_same(again, expected)


def test_a_verdict_that_comes_later_is_counted(con, study):
    before = slices(con)
    rb.append(study, "judgments", [{**LACKING, "score": 0.0}], origin="recorded")
    after = slices(con)
    assert_same(after, slices(rb.connect(study)))
    judged = [frame["judged"].sum() for frame in (before[0], after[0])]
    assert judged == [20, 21]
    pair = {"dimension": "audience", "other": "knowledge_gap"}
    n = [frame.filter(**pair)["n"].item() for frame in (before[-1], after[-1])]
    assert n == [5, 6]  # of seven answers one lacks the verdict, and of one the condition fails


def test_what_another_panel_says_is_kept_apart(con, study):
    others = ['a "judge"', 'A "Judge"']
    rb.append(
        study,
        {
            "judges": [{"judge": name, "kind": "llm"} for name in others],
            "judgments": [{**LACKING, "judge": others[0], "score": 1.0}],
        },
        origin="recorded",
    )
    panels = [*(f"{name} + {RULES}" for name in others), BOTH, RULES]
    found = {panel: slices(con, panel) for panel in [*panels, *panels]}
    assert [found[panel][0]["judged"].sum() for panel in panels] == [8, 7, 20, 7]
    for panel in panels:
        assert_same(found[panel], slices(rb.connect(study), panel))


def test_threads_that_ask_at_once_get_the_same(con, study):
    expected = slices(rb.connect(study))
    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(lambda _: slices(con), range(16)):
            assert_same(found, expected)


def test_what_was_kept_goes_with_its_file(con, study, monkeypatch):
    monkeypatch.setattr(store, "_KEEP_SECONDS", 0.0)
    for score in (0.0, 1.0):
        slices(con)
        rb.append(study, "judgments", [{**LACKING, "repeat": int(score) + 1, "score": score}])
    slices(con)
    rb.refresh(con)
    assert kept_in(con) == {"_kept_store_2": 1}


@pytest.mark.parametrize("by", ["dimension", "rule"])
def test_an_open_transaction_does_no_harm(con, study, by):
    con.execute("BEGIN")
    con.execute("CREATE TABLE mine AS SELECT 1 AS x")
    found = rb.constraint_scores(con, by)
    con.execute("ROLLBACK")
    assert_frame_equal(rb.constraint_scores(con, by), found)
    assert_frame_equal(rb.constraint_scores(rb.connect(study), by), found)
