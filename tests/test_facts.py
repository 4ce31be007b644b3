"""What a frame of scores says about itself: labels, n, missing rows, intervals, panel, origin."""

import re

import polars as pl
import pytest

import ragbench as rb
from ragbench import facts as module
from ragbench.errors import UnknownColumn
from ragbench.facts import facts, groups, points


def scores(models=("steady", "uneven", "模型", "poor"), **changed):
    size = len(models)
    columns = {
        "model": list(models),
        "panel": ["rules"] * size,
        "origin": ["recorded"] * size,
        "strict_ias": [0.7, 0.2, 0.3, 0.1][:size],
        "strict_ias_n": [20] * size,
        "strict_ias_planned": [20] * size,
        "strict_ias_low": [0.1] * size,
        "strict_ias_interval": ["Wilson"] * size,
    }
    return pl.DataFrame(columns | changed)


def test_labels_join_the_grouping_columns_under_their_names_in_the_taxonomy():
    frame = scores().insert_column(1, pl.Series("context_mode", ["gap", "noise", None, "open"]))
    labels = points(frame, "strict_ias")["label"].to_list()
    assert groups(frame) == ["model", "context_mode"]
    assert labels[0] == "steady · Knowledge gap"
    assert labels[2] == "模型 · (no context mode)"


def test_panels_that_differ_are_part_of_the_label():
    frame = scores(list("mmmm"), panel=["a", "b", "c", "d"])
    assert points(frame, "strict_ias")["label"].to_list() == ["m · a", "m · b", "m · c", "m · d"]
    assert "panels: a, b, c, d" in facts(frame, ["strict_ias"])


def test_one_number_for_everything_has_a_label():
    assert points(scores().drop("model"), "strict_ias")["label"][0] == "all responses"


def test_a_frame_says_n_missing_interval_panel_and_origin():
    assert facts(scores(), ["strict_ias"]) == [
        "n = 20 responses per row",
        "none missing",
        "bars: 95 % interval (Wilson)",
        "panel: rules",
        "recorded",
    ]


def test_rows_without_an_interval_name_no_kind_of_it():
    kinds = ["none: one query", "Wilson", "clustered by query", "none: one query"]
    low = [None, 0.1, 0.1, None]
    said = facts(scores(strict_ias_interval=kinds, strict_ias_low=low), ["strict_ias"])
    assert "bars: 95 % interval (Wilson, clustered by query)" in said
    none = scores(strict_ias_low=[None] * 4)
    assert not any("interval" in text for text in facts(none, ["strict_ias"]))


def test_pooled_metrics_count_constraints():
    pooled = scores().rename(lambda name: name.replace("strict_ias", "adherence"))
    assert facts(pooled, ["adherence"])[0] == "n = 20 constraints per row"


def test_what_a_frame_does_not_say_is_called_unstated():
    bare = pl.DataFrame({"model": ["a"], "strict_ias": [0.5]})
    assert facts(bare, ["strict_ias"]) == ["n not stated", "origin not stated"]


def test_parts_of_another_metric_are_not_taken_for_ones_own():
    frame = scores().with_columns(independent=pl.lit(0.1), n=pl.lit(7))
    read = points(frame, "strict_ias")
    assert read["n"].to_list() == [20] * 4
    assert points(frame.select("model", "independent", "n"), "independent")["n"][0] == 7


def test_an_unknown_metric_is_named_with_its_near_miss():
    with pytest.raises(UnknownColumn, match="did you mean 'strict_ias'"):
        points(scores(), "strict_iaas")


def test_every_metric_of_scores_has_a_label_and_a_unit():
    from ragbench import metrics

    names = [metric.name for metric in metrics.METRICS] + list(metrics.CRITERION_METRICS)
    assert set(names) <= set(module.METRICS)
    assert all(module.unit(name) != "mean score" for name in names)
    assert module.unit("tone") == "mean score"


def test_a_panel_that_leads_is_a_group_and_loses_no_model():
    frame = scores(list("mnmn")).select(pl.Series("panel", list("aabb")), pl.exclude("panel"))
    assert groups(frame) == ["panel", "model"]
    labels = points(frame, "strict_ias")["label"].to_list()
    assert labels == ["a · m", "a · n", "b · m", "b · n"]
    assert points(frame, "strict_ias")["key"].n_unique() == 4


def test_a_row_per_metric_is_told_in_the_units_of_its_metrics():
    frame = pl.DataFrame(
        {
            "model": ["a", "a"],
            "metric": ["strict_ias", "loose_ias"],
            "value": [0.2, 0.8],
            "n": [20, 19],
            "planned": [20, 20],
            "origin": ["recorded"] * 2,
        }
    )
    assert module.axis(frame, "value") == (
        "share of responses; Loose IAS: mean share of constraints"
    )
    said = facts(frame, ["value"])
    assert "n = 19–20 responses per row" in said
    assert "1 of 20 missing" in said, "responses are counted once and not for each metric"


def test_metrics_over_constraints_count_constraints_and_are_named():
    for name in ("error_rate", "loose_persona", "loose_output", "loose_protocol"):
        frame = scores().rename(lambda column, name=name: column.replace("strict_ias", name))
        assert facts(frame, [name])[0] == "n = 20 constraints per row"
        assert "constraints" in module.unit(name)


def test_no_artifact_has_a_header_that_nobody_can_read():
    from ragbench import paper, tables

    con = rb.connect(paper.shipped())
    headers = set()
    for name in ("table1", "table2", "table4", "table5", "table6", "figure4", "figure7"):
        frame = paper.rebuild(name, con).frame
        headers |= {column.header for column in tables.columns_of(frame)}
    assert not {header for header in headers if re.match(r"N |Icc|D z|.*_| avg$", header)}
    assert {"n queries", "Constraints per query", "Conflict recognition"} <= headers
