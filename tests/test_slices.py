"""`where`, `by` and `panel`: what they turn into."""

from __future__ import annotations

import datetime

import duckdb
import numpy as np
import pytest

import ragbench as rb
from ragbench.errors import AmbiguousPanel, RagbenchError, UnknownColumn, UnknownName
from ragbench.slices import (
    CONSTRAINT_COLUMNS,
    RESPONSE_COLUMNS,
    conditions,
    grouping,
    panel_of,
    scope,
)


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    """A study with the values that the tests ask for."""
    path = tmp_path_factory.mktemp("slices") / "study.duckdb"
    domains = ("Legal", "a", "b", "7", "2026-11-30", "x') OR ('1'='1")
    queries = [
        {"query_id": f"q{i}", "domain": domain, "language": "zh", "text": "问题"}
        for i, domain in enumerate(domains)
    ]
    rb.append(path, {"queries": queries, "models": [{"model": "b", "paradigm": "reasoning"}]})
    return rb.connect(path)


@pytest.fixture
def bound(con):
    return lambda **where: conditions(con, where, RESPONSE_COLUMNS, "scores")


@pytest.mark.parametrize(
    ("value", "sql", "values"),
    [
        ("Legal", "(s.domain IN (?))", ["Legal"]),
        (None, "(s.domain IS NULL)", []),
        (["a", None], "(s.domain IN (?) OR s.domain IS NULL)", ["a"]),
        ([], "(false)", []),
        ("x') OR ('1'='1", "(s.domain IN (?))", ["x') OR ('1'='1"]),
        (7, "(s.domain IN (?))", ["7"]),
        (datetime.date(2026, 11, 30), "(s.domain IN (?))", ["2026-11-30"]),
        (np.array(["a", "b"]), "(s.domain IN (?, ?))", ["a", "b"]),
        ((name for name in "ab"), "(s.domain IN (?, ?))", ["a", "b"]),
    ],
)
def test_values_are_bound_and_never_part_of_the_sql(bound, value, sql, values):
    assert bound(domain=value) == (sql, values)


def test_several_columns_must_all_fit_and_none_means_everything(bound, con):
    assert bound(domain="a", model="b") == ("(s.domain IN (?)) AND (s.model IN (?))", ["a", "b"])
    assert conditions(con, None, RESPONSE_COLUMNS, "scores") == ("true", [])
    assert conditions(con, {}, RESPONSE_COLUMNS, "scores") == ("true", [])


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("trial", 2, 2),
        ("trial", "2", 2),
        ("trial", np.int64(2), 2),
        ("trial", 2.0, 2),
        ("is_augmented", True, True),
        ("is_augmented", "False", False),
        ("is_open", np.True_, True),
        ("params_b", "7.5", 7.5),
        ("params_b", 8, 8.0),
    ],
)
def test_values_take_the_type_of_their_column(bound, name, value, read):
    (found,) = bound(**{name: value})[1]
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("trial", "one"),
        ("trial", 1.5),
        ("trial", False),
        ("trial", float("nan")),
        ("trial", float("inf")),
        ("params_b", "big"),
        ("is_open", 1),
        ("is_augmented", "yes"),
    ],
)
def test_values_of_another_type_are_refused_by_name(bound, name, value):
    with pytest.raises(RagbenchError, match=f"where: {name} is"):
        bound(**{name: value})


@pytest.mark.parametrize("where", ["domain = 'a'", ["domain"], 3])
def test_where_is_a_mapping(con, where):
    with pytest.raises(RagbenchError, match="where is a mapping"):
        conditions(con, where, RESPONSE_COLUMNS, "scores")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("domain", "Lega", r"the study has no domain 'Lega'; did you mean 'Legal'\?"),
        ("domain", ["Legal", "法律"], "no domain '法律'"),
        ("model", "nosuch", "no model 'nosuch'"),
        ("paradigm", "Reasoning", "did you mean 'reasoning'"),
        ("context_mode", "conflicts", "did you mean 'conflict'"),
        ("setting", "x", "It has none at all"),
        ("query_id", "q9", "no query_id 'q9'"),
    ],
)
def test_a_value_that_the_study_does_not_have_is_refused_and_not_an_empty_slice(
    bound, name, value, said
):
    with pytest.raises(UnknownName, match=said):
        bound(**{name: value})


def test_a_value_of_a_closed_list_is_a_filter_even_where_the_study_has_none(bound):
    assert bound(context_mode="noise")[1] == ["noise"]


def test_a_value_that_came_in_later_is_known(tmp_path):
    path = tmp_path / "study.duckdb"
    rb.append(path, "queries", [{"query_id": "q", "domain": "a", "text": "?"}])
    con = rb.connect(path)
    with pytest.raises(UnknownName):
        conditions(con, {"domain": "b"}, RESPONSE_COLUMNS, "scores")
    rb.append(path, "queries", [{"query_id": "r", "domain": "b", "text": "?"}])
    rb.store.refresh(con)
    assert conditions(con, {"domain": "b"}, RESPONSE_COLUMNS, "scores")[1] == ["b"]


def test_grouping_takes_a_name_or_several_once_each():
    assert grouping("model", RESPONSE_COLUMNS, "scores") == ["model"]
    assert grouping(("model", "domain", "model"), RESPONSE_COLUMNS, "scores") == [
        "model",
        "domain",
    ]
    assert grouping((), RESPONSE_COLUMNS, "scores") == grouping(None, RESPONSE_COLUMNS, "x") == []
    with pytest.raises(UnknownColumn, match="scores has no column 'category'"):
        grouping("category", RESPONSE_COLUMNS, "scores")
    assert grouping("category", CONSTRAINT_COLUMNS, "x") == ["category"]


@pytest.mark.parametrize("by", [3, ["model", 3], {"model": 1}.values()])
def test_grouping_by_what_is_no_name_is_refused_in_one_line(by):
    with pytest.raises(RagbenchError, match="give a name, or a list of names"):
        grouping(by, RESPONSE_COLUMNS, "scores")


def test_the_message_on_an_unknown_value_says_how_rows_without_one_are_named(tmp_path):
    path = tmp_path / "study.duckdb"
    rb.append(path, "queries", [{"query_id": "q", "text": "?"}])
    con = rb.connect(path)
    for _ in range(2):  # the second time from memory
        with pytest.raises(
            UnknownName, match=r"no domain 'none'. It has none at all. Rows without"
        ):
            conditions(con, {"domain": "none"}, RESPONSE_COLUMNS, "scores")
    with pytest.raises(UnknownName) as raised:
        conditions(con, {"query_id": "none"}, RESPONSE_COLUMNS, "scores")
    assert "Rows without" not in str(raised.value)


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A study that two people and a rule set judged."""
    path = tmp_path_factory.mktemp("panels") / "study.duckdb"
    judges = [{"judge": name, "kind": "human"} for name in ("ann", "bob")]
    rb.append(path, "judges", [*judges, {"judge": "r", "kind": "rule"}])
    return rb.connect(path)


@pytest.mark.parametrize(
    ("named", "panel", "found"),
    [
        ("ann", None, ["ann + r"]),
        (None, "ann", ["ann + r"]),
        ("ann", "ann + r", ["ann + r"]),
        (["ann", "bob"], "bob", ["bob + r"]),
        ("ann", "bob", RagbenchError),
        ("r", "ann", RagbenchError),
        (["ann", "bob"], None, AmbiguousPanel),
        (["ann", "bob"], "r", RagbenchError),
        ([None], None, ["r"]),
        ([], None, RagbenchError),
        ([], "ann", RagbenchError),
    ],
)
def test_panel_and_where_must_agree_on_who_judged(judged, named, panel, found):
    where = {} if named is None else {"panel": named}
    if isinstance(found, list):
        assert scope(judged, where, panel, RESPONSE_COLUMNS, "scores")[1] == found
        assert [panel_of(judged, where, panel)] == found
        return
    with pytest.raises(found):
        scope(judged, where, panel, RESPONSE_COLUMNS, "scores")
    with pytest.raises(found):
        panel_of(judged, where, panel)


def test_compared_panels_are_those_that_panel_and_where_allow(judged):
    def compared(where, panel):
        return scope(judged, where, panel, RESPONSE_COLUMNS, "scores", by=["panel"])

    assert compared({"panel": ["ann", "bob"]}, "bob")[1] == ["bob + r"]
    assert compared({"panel": ["ann", "bob"]}, None)[1] == ["ann + r", "bob + r"]
    assert compared({"panel": []}, None) == ("(false)", [])
    assert compared({}, None) == compared({"panel": [None]}, None) == ("true", [])
    with pytest.raises(RagbenchError, match="no verdict is by both"):
        compared({"panel": "ann"}, "bob")


def test_the_sql_is_sql_that_duckdb_takes(bound):
    condition, values = bound(domain=["a", None], trial="0", is_open="true")
    rows = duckdb.sql(
        "SELECT count(*) FROM (SELECT 'a' AS domain, 0 AS trial) AS s, "
        f"(SELECT true AS is_open) AS m WHERE {condition}",
        params=values,
    ).fetchall()
    assert rows == [(1,)]
