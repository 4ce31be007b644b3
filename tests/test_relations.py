"""Rows are made to fit the relations, in the same way one by one and as frames."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragbench import relations
from ragbench.errors import BadRow, UnknownColumn, UnknownName
from ragbench.rows import clean, fit
from ragbench.summaries import SUMMARIES

VERDICT = {"response_id": "r", "criterion": "adherence", "target_id": "c", "judge": "j"}


def one(relation: str, row: dict[str, Any]) -> dict[str, Any]:
    return fit(relation, [row], "run").row(0, named=True)


# ---------------------------------------------------------------- the layout


def test_every_relation_has_a_key_of_required_columns():
    derived = set(SUMMARIES)
    tables = set(relations.layout()) - derived - {"folded"}
    assert tables == set(relations.KEYS)
    for relation, keys in relations.KEYS.items():
        assert all(relations.columns(relation)[key].is_required for key in keys)


def test_the_layout_is_what_duckdb_makes_of_the_schema():
    with duckdb.connect() as con:
        con.execute(relations.read_sql("schema.sql"))
        made = con.sql(
            "SELECT table_name, column_name, data_type, NOT is_nullable FROM duckdb_columns() "
            "WHERE NOT internal ORDER BY table_name, column_index"
        ).fetchall()
    read = [
        (relation, column.name, _declared(column), column.is_required)
        for relation, columns in sorted(relations.layout().items())
        for column in columns.values()
    ]
    assert read == made


def _declared(column: relations.Column) -> str:
    return f"ENUM({', '.join(map(repr, column.values))})" if column.values else column.type


def test_references_name_columns_that_exist():
    for relation, column, target, name in relations.REFERENCES:
        assert column in relations.columns(relation)
        assert relations.KEYS[target] == (name,)


def test_rows_are_folded_in_after_what_they_point_to():
    for relation, _, target, _ in relations.REFERENCES:
        assert relations.order(target) < relations.order(relation)
    for follower, parent in relations.FOLLOWS.items():
        assert relations.order(parent) < relations.order(follower)


# ---------------------------------------------------------------- what fits


def test_what_is_left_out_is_filled_in():
    row = one("responses", {"instance_id": "i", "model": "m"})
    assert row["response_id"] == "i/m/given_context/0"
    assert (row["setting"], row["trial"], row["run_id"]) == ("given_context", 0, "run")
    assert row["text"] is None


def test_a_trial_that_pandas_made_a_float_gives_the_same_key():
    frame = pl.DataFrame({"instance_id": ["i"], "model": ["m"], "trial": [1.0]})
    assert fit("responses", frame, "")["response_id"].to_list() == ["i/m/given_context/1"]


@pytest.mark.parametrize("given_key", [None, "i/m/given_context/0"])
def test_a_response_id_may_be_given_if_it_is_right(given_key):
    row = {"instance_id": "i", "model": "m", "response_id": given_key}
    assert clean("responses", row, "")["response_id"] == "i/m/given_context/0"
    assert fit("responses", pl.DataFrame([row]), "")["response_id"][0] == "i/m/given_context/0"


@pytest.mark.parametrize("make", [lambda row: [row], lambda row: pl.DataFrame([row])])
def test_a_response_id_that_is_not_its_parts_is_refused(make):
    row = {"instance_id": "i", "model": "m", "response_id": "other"}
    with pytest.raises(BadRow, match="should be 'i/m/given_context/0'"):
        fit("responses", make(row), "")


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, "nan", "inf", np.float32("nan")])
@pytest.mark.parametrize("make", [lambda row: [row], lambda row: pl.DataFrame([row], strict=False)])
def test_a_score_that_is_no_finite_number_becomes_an_error(score, make):
    found = fit("judgments", make({**VERDICT, "score": score}), "").row(0, named=True)
    assert found["score"] is None
    assert found["error"].startswith("score is not a number: ")


@pytest.mark.parametrize("value", [1, 1.0, True, "1", "1.0", Decimal("1"), np.int64(1), np.True_])
def test_the_same_number_in_any_type_is_the_same_score(value):
    assert one("judgments", {**VERDICT, "score": value})["score"] == 1.0


def test_frames_of_any_type_are_read_by_value():
    frame = pl.DataFrame(
        {
            "instance_id": pl.Series(["i", "j"], dtype=pl.Categorical),
            "rank": pl.Series([1, 2], dtype=pl.UInt8),
            "doc_id": pl.Series([17, 18]),
            "role": pl.Series(["noise", None], dtype=pl.Enum(["noise", "support"])),
            "score": pl.Series([Decimal("0.25"), None], dtype=pl.Decimal(10, 2)),
        }
    )
    assert fit("contexts", frame, "").rows() == [
        ("i", 1, "17", "noise", 0.25),
        ("j", 2, "18", None, None),
    ]
    dated = pl.DataFrame({"doc_id": ["a", "b"], "published_on": [date(2026, 1, 2), None]})
    assert fit("documents", dated, "")["published_on"].to_list() == [date(2026, 1, 2), None]


def test_dates_and_times_come_in_many_ways_and_times_are_utc():
    east = timezone(timedelta(hours=8))
    moments = [
        datetime(2026, 1, 2, 3, 4, 5),
        datetime(2026, 1, 2, 11, 4, 5, tzinfo=east),
        "2026-01-02T03:04:05",
        "2026-01-02 11:04:05+08:00",
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    ]
    run = {"run_id": "r", "step": "s", "origin": "measured"}
    rows = fit("runs", [{**run, "started_at": moment} for moment in moments], "")
    assert rows["started_at"].unique().to_list() == [datetime(2026, 1, 2, 3, 4, 5)]
    zoned = pl.DataFrame([run]).with_columns(
        started_at=pl.lit(datetime(2026, 1, 2, 11, 4, 5, tzinfo=east))
    )
    assert fit("runs", zoned, "")["started_at"].to_list() == [datetime(2026, 1, 2, 3, 4, 5)]


def test_arguments_of_different_rules_do_not_mix():
    base = {"query_id": "q", "dimension": "format"}
    given_rows = [
        {**base, "constraint_id": "a", "params": {"at_most": 3}},
        {**base, "constraint_id": "b", "params": {"terms": ["x", "y"], "deep": {"on": True}}},
        {**base, "constraint_id": "c", "params": '{"at_least": 1}'},
        {**base, "constraint_id": "d", "params": None},
    ]
    expected = [{"at_most": 3}, {"terms": ["x", "y"], "deep": {"on": True}}, {"at_least": 1}, None]
    found = fit("constraints", given_rows, "")["params"].to_list()
    assert [value and json.loads(value) for value in found] == expected
    padded = pl.DataFrame([given_rows[0], given_rows[1]])  # polars gives both all the fields
    found = fit("constraints", padded, "")["params"].to_list()
    assert [json.loads(value) for value in found] == expected[:2]


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: rows,
        lambda rows: iter(rows),
        lambda rows: pl.DataFrame(rows),
        lambda rows: pl.LazyFrame(rows),
        lambda rows: pa.Table.from_pylist(rows),
        lambda rows: pytest.importorskip("pandas").DataFrame(rows),
        lambda rows: duckdb.from_arrow(pa.Table.from_pylist(rows)),
        lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
    ],
    ids=["list", "iterator", "polars", "lazy", "arrow", "pandas", "duckdb", "columns"],
)
def test_rows_come_in_any_shape(make):
    rows = [{"model": "甲", "params_b": 7.0}, {"model": "b", "params_b": None}]
    found = fit("models", make(rows), "")
    assert found.select("model", "params_b").rows() == [("甲", 7.0), ("b", None)]


@pytest.mark.parametrize("relation", relations.KEYS)
def test_no_rows_are_no_rows(relation):
    for empty in ([], pl.DataFrame(), pl.DataFrame(schema=relations.schema(relation))):
        frame = fit(relation, empty, "run")
        assert frame.height == 0
        assert frame.columns == list(relations.columns(relation))


@pytest.mark.parametrize(
    ("text", "kept"),
    [("a\0b", "a\0b"), ("x\ud800y", "x\ufffdy"), ("\ud83d\ude00", "😀"), ("𠮷\r\n", "𠮷\r\n")],
)
def test_odd_characters_are_kept_or_replaced_in_one_way(text, kept):
    assert one("queries", {"query_id": "q", "text": text})["text"] == kept
    params = {"query_id": "q", "answers": [text]}
    assert json.loads(one("queries", params)["answers"]) == [kept]
    escaped = {"query_id": "q", "answers": json.dumps([text])}
    assert json.loads(one("queries", escaped)["answers"]) == [kept]


# ---------------------------------------------------------------- what does not fit


def test_an_unknown_column_names_the_near_miss():
    with pytest.raises(
        UnknownColumn, match="queries has no column 'domian'; did you mean 'domain'"
    ):
        fit("queries", pl.DataFrame({"query_id": ["q"], "domian": ["Legal"]}), "")
    with pytest.raises(UnknownColumn, match="did you mean 'domain'"):
        clean("queries", {"query_id": "q", "domian": "Legal"}, "")
    with pytest.raises(UnknownName, match="did you mean 'judgments'"):
        fit("judgements", [], "")


@pytest.mark.parametrize(
    ("relation", "column", "value"),
    [
        ("responses", "trial", 0.5),
        ("responses", "trial", "first"),
        ("responses", "trial", 2**31),
        ("responses", "input_tokens", 2**63),
        ("responses", "cost", "cheap"),
        ("responses", "cost", [1]),
        ("responses", "text", ["a list"]),
        ("responses", "text", {"a": "mapping"}),
        ("responses", "text", b"\xff"),
        ("models", "is_open", 2),
        ("models", "is_open", "maybe"),
        ("documents", "published_on", "2026-13-01"),
        ("runs", "started_at", "yesterday"),
        ("runs", "config", "{'single': 'quotes'}"),
        ("conflict_points", "doc_ids", "d1"),
        ("nodes", "embedding", ["x"]),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(relation, column, value):
    fine = {
        "responses": {"instance_id": "i", "model": "m"},
        "models": {"model": "m"},
        "documents": {"doc_id": "d"},
        "runs": {"run_id": "r", "step": "s", "origin": "measured"},
        "conflict_points": {"instance_id": "i", "point": 1},
        "nodes": {"node_id": "n"},
    }[relation]
    row = {**fine, column: value}
    with pytest.raises(BadRow, match=rf"{relation}\.{column}: .* is not (a|true|JSON)"):
        clean(relation, row, "")
    with pytest.raises(BadRow, match=rf"row 2: {relation}\.{column}"):
        fit(relation, [fine, row], "")
    frame = pl.DataFrame(
        [*(pl.Series(name, [part, part]) for name, part in fine.items())]
    ).with_columns(pl.Series(column, [value, value]))
    with pytest.raises(BadRow, match=rf"{relation}\.{column}: row 1 holds"):
        fit(relation, frame, "")


@pytest.mark.parametrize("name", ["instance_id", "setting"])
def test_two_responses_cannot_share_a_key(name):
    """Without this, `a/b` answered by `c` would be taken for `a` answered by `b/c`."""
    row = {"instance_id": "a", "model": "openai/gpt", "setting": "s", name: "a/b"}
    for way in (
        lambda: clean("responses", row, ""),
        lambda: fit("responses", pl.DataFrame([row]), ""),
        lambda: fit("wanted", pl.DataFrame([row]), ""),
    ):
        with pytest.raises(BadRow, match=rf"{name}: 'a/b' holds a slash"):
            way()


def test_a_value_outside_a_closed_list_is_refused_with_the_near_miss():
    row = {"instance_id": "i", "query_id": "q", "context_mode": "noisy"}
    for way in (lambda: clean("instances", row, ""), lambda: fit("instances", [row], "")):
        with pytest.raises(BadRow, match="no context_mode 'noisy'; did you mean 'noise'"):
            way()


def test_a_missing_key_is_named():
    with pytest.raises(BadRow, match=r"responses\.instance_id"):
        clean("responses", {"model": "m"}, "")
    with pytest.raises(BadRow, match=r"responses\.instance_id: row 2 has no value"):
        fit("responses", pl.DataFrame({"instance_id": ["i", None], "model": ["m", "m"]}), "")


@pytest.mark.parametrize("said", [{}, {"score": 1.0, "error": "both"}])
def test_a_verdict_has_a_score_or_an_error(said):
    for way in (clean, lambda *a: fit(a[0], pl.DataFrame([a[1]]), a[2])):
        with pytest.raises(BadRow, match="r/adherence/c/j/0 must have either a score or an error"):
            way("judgments", {**VERDICT, **said}, "")


@pytest.mark.parametrize(
    "rows", ["text", 17, ["a"], [["a"]], {"query_id": ["a"], "text": ["b", "c"]}]
)
def test_what_are_no_rows_is_refused(rows):
    with pytest.raises(BadRow, match="queries"):
        fit("queries", rows, "")


# ---------------------------------------------------------------- both ways agree


_texts = st.text(max_size=8)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_scores = st.none() | st.floats() | st.integers(0, 1) | st.booleans()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fixed_dictionaries({"target_id": _texts, "score": _scores}), max_size=5))
@example([{"target_id": "", "score": math.nan}])
def test_rows_and_frames_of_verdicts_agree(rows):
    rows = [
        {**VERDICT, **row, "error": "none given" if row["score"] is None else None} for row in rows
    ]
    types = {"score": pl.Float64, "error": pl.String, "target_id": pl.String}
    numbers = [
        {**row, "score": None if row["score"] is None else float(row["score"])} for row in rows
    ]
    frame = pl.DataFrame(numbers, schema_overrides=types) if rows else []
    assert fit("judgments", rows, "run").equals(fit("judgments", frame, "run"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(_json.filter(lambda value: not isinstance(value, str)), min_size=1, max_size=4), _texts
)
def test_whatever_fits_can_be_stored(values, text):
    rows = [{"query_id": f"q{i}", "text": text, "answers": value} for i, value in enumerate(values)]
    frame = fit("queries", rows, "").to_arrow()
    _scratch.register("given", frame)
    _scratch.execute("DELETE FROM stored")
    _scratch.execute("INSERT INTO stored SELECT text, answers FROM given")
    assert _scratch.execute("SELECT text FROM stored LIMIT 1").fetchall() == [(text,)]


_scratch = duckdb.connect()
_scratch.execute("CREATE TABLE stored (text VARCHAR, answers JSON)")
