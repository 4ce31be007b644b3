"""Refusals with disclaimers apart, and coverage of responses that name their conflict."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl
import pytest

import ragbench as rb
from ragbench import behaviours, paper
from ragbench.errors import RagbenchError

Con = duckdb.DuckDBPyConnection


@pytest.fixture(scope="module")
def simulated() -> Con:
    return rb.connect(paper.shipped("simulated"))


def test_declining_is_what_rejection_counts(simulated: Con) -> None:
    found = behaviours.refusals(simulated)
    rate = rb.scores(simulated, "model", {"context_mode": "gap"}, metrics=["rejection"])
    both = found.filter(kind="declines").join(rate, on="model")
    assert both.height == rate.height == 13
    assert both["share_of_responses"].to_list() == pytest.approx(both["rejection"].to_list())
    for end in ("n", "planned", "low", "high"):
        ours, theirs = both[f"share_of_responses_{end}"], both[f"rejection_{end}"]
        assert ours.to_list() == pytest.approx(theirs.to_list()), end


def test_disclaimers_are_counted_once_and_by_the_panel_that_gave_them(simulated: Con) -> None:
    found = behaviours.refusals(simulated)
    told = simulated.sql(
        "SELECT count(*) FROM evidence JOIN judgments USING "
        "(response_id, criterion, target_id, judge, repeat) "
        "WHERE judge = 'sim/kimi-k2-thinking' AND criterion = 'rejection' AND score = 0 "
        "AND reason = 'disclaims, then answers'"
    ).fetchall()[0][0]
    assert found.filter(kind="disclaims, then answers")["count"].sum() == told > 100
    whole = found.group_by("model").agg(
        pl.col("count").sum(),
        pl.col("share_of_responses_n").first(),
        pl.col("share_of_responses").sum(),
    )
    assert whole["count"].to_list() == whole["share_of_responses_n"].to_list()
    assert whole["share_of_responses"].to_list() == pytest.approx([1.0] * whole.height)
    assert found["kind"].head(3).to_list() == list(behaviours.KINDS)


def test_a_verdict_on_the_disclaimer_tells_it_apart(tmp_path: Path) -> None:
    scores = {"q1": (1, 0), "q2": (0, 1), "q3": (0, 0), "q4": (None, None)}
    rows = [
        {
            "query": query,
            "model": "m",
            "context_mode": "gap",
            "criterion": criterion,
            "judge": "j",
            "score": score,
        }
        for query, pair in scores.items()
        for criterion, score in zip(("rejection", "disclaimer"), pair, strict=True)
    ]
    table = pl.DataFrame(rows).with_columns(pl.col("score").cast(pl.String).fill_null("?"))
    table.write_csv(tmp_path / "verdicts.csv")
    rb.load(tmp_path / "study.duckdb", tmp_path / "verdicts.csv")
    found = behaviours.refusals(rb.connect(tmp_path / "study.duckdb"))
    assert found["count"].to_list() == [1, 1, 1]
    assert set(found["share_of_responses_n"]) == {3}
    assert set(found["share_of_responses_planned"]) == {4}


def test_the_cost_of_naming_a_conflict_is_the_mean_difference_within_groups(
    simulated: Con,
) -> None:
    found = behaviours.recognition_cost(simulated).rows(named=True)
    rows = simulated.sql(
        "SELECT instance_id, model, metric, value FROM criterion_summary "
        "WHERE panel = 'sim/kimi-k2-thinking + sim/rules' AND context_mode = 'conflict'"
    ).pl()
    wide = rows.pivot("metric", index=["instance_id", "model"], values="value")
    wide = wide.drop_nulls(["conflict", "coverage"])
    for row, key, count in zip(
        found, ("instance_id", "model"), ("n_instances", "n_models"), strict=True
    ):
        means = wide.group_by(key, "conflict").agg(pl.col("coverage").mean())
        pairs = means.pivot("conflict", index=key, values="coverage").drop_nulls()
        gaps = pairs["1.0"] - pairs["0.0"]
        assert row["difference"] == pytest.approx(gaps.mean())
        assert row[count] == pairs.height
        assert row["low"] < row["difference"] < row["high"]
        assert row["origin"] == "simulated"
    models = found[1]
    half = (models["high"] - models["low"]) / 2
    assert half == pytest.approx(2.1788 * gaps.std() / 13**0.5, rel=1e-3)  # t with 12 df


def test_a_study_without_such_verdicts_is_told_so() -> None:
    con = rb.connect(paper.shipped())
    with pytest.raises(RagbenchError, match="no rejection verdicts in gap"):
        behaviours.refusals(con)
    with pytest.raises(RagbenchError, match="both recognition and coverage"):
        behaviours.recognition_cost(con)
