"""Group comparisons against counts worked out by hand and values of other libraries."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import ragbench as rb
from ragbench import contrasts
from ragbench.errors import RagbenchError, UnknownName


def conflicts(with_protocol: tuple[int, int], without: tuple[int, int]) -> dict[str, pl.DataFrame]:
    """One model on conflict instances: (recognised, all) with and without a protocol."""
    plan = [(True, i < with_protocol[0]) for i in range(with_protocol[1])]
    plan += [(False, i < without[0]) for i in range(without[1])]
    ids = [f"q{i:03d}" for i in range(len(plan))]
    dimensions = ["conflict_handling" if has else "citation" for has, _ in plan]
    frame = pl.DataFrame({"query_id": ids})
    return {
        "queries": frame.with_columns(domain=pl.lit("Legal")),
        "constraints": frame.with_columns(
            constraint_id=pl.col("query_id") + ".c1", dimension=pl.Series(dimensions)
        ),
        "instances": frame.with_columns(
            instance_id=pl.col("query_id") + "-conflict",
            context_mode=pl.lit("conflict"),
            is_augmented=pl.Series([i % 5 != 0 for i in range(len(plan))]),
        ),
        "instance_constraints": frame.select(
            instance_id=pl.col("query_id") + "-conflict",
            ordinal=pl.lit(1),
            constraint_id=pl.col("query_id") + ".c1",
        ),
        "judges": pl.DataFrame({"judge": ["a", "b"], "kind": ["llm", "llm"]}),
        "responses": frame.select(
            instance_id=pl.col("query_id") + "-conflict", model=pl.lit("m"), text=pl.lit("t")
        ),
        "judgments": frame.select(
            response_id=pl.col("query_id") + "-conflict/m/given_context/0",
            criterion=pl.lit("conflict"),
            target_id=pl.col("query_id") + "-conflict/m/given_context/0",
            judge=pl.lit("a"),
            score=pl.Series([float(recognised) for _, recognised in plan]),
        ),
    }


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.duckdb"
    rb.append(path, conflicts((33, 113), (24, 193)))
    return path


def test_protocol_effect_is_the_papers_test_on_the_counts(study: Path) -> None:
    row = contrasts.protocol_effect(rb.connect(study), "conflict", panel="a").row(0, named=True)
    assert (row["n_with"], row["n_without"]) == (113, 193)
    assert row["difference"] == pytest.approx(33 / 113 - 24 / 193)
    # scipy.stats.chi2_contingency([[33, 80], [24, 169]]), which corrects as Yates does.
    assert row["p_value"] == pytest.approx(0.00049, abs=5e-6)
    assert row["low"] < row["difference"] < row["high"]
    # One domain: the stratified difference is the plain one.
    assert row["stratified_difference"] == pytest.approx(row["difference"])
    assert row["p_holm"] == row["p_value"]


def test_under_the_other_reading_every_instance_here_has_a_protocol(study: Path) -> None:
    row = contrasts.protocol_effect(rb.connect(study), "conflict", panel="a", reading="any")
    assert row["n_with"].item() == 113 + 193
    assert row["difference"].item() is None
    assert row["note"].item()


def test_a_verdict_that_is_an_error_is_lost_and_said_so(study: Path) -> None:
    key = "q000-conflict/m/given_context/0"
    frames = conflicts((33, 113), (24, 193))
    frames["judgments"] = frames["judgments"].filter(pl.col("target_id") != key)
    path = study.with_name("lost.duckdb")
    rb.append(path, frames)
    row = contrasts.protocol_effect(rb.connect(path), "conflict", panel="a").row(0, named=True)
    assert (row["n_with"], row["lost_with"], row["lost_without"]) == (112, 1, 0)


def test_natural_against_synthetic_compares_means_over_models(study: Path) -> None:
    row = contrasts.natural_vs_synthetic(rb.connect(study), ["conflict"], panel="a").row(
        0, named=True
    )
    scores = [1.0] * 33 + [0.0] * 80 + [1.0] * 24 + [0.0] * 169
    natural = [score for i, score in enumerate(scores) if i % 5 == 0]
    synthetic = [score for i, score in enumerate(scores) if i % 5 != 0]
    assert (row["n_natural"], row["n_synthetic"]) == (len(natural), len(synthetic))
    assert row["natural"] == pytest.approx(sum(natural) / len(natural))
    assert row["difference"] == pytest.approx(
        sum(natural) / len(natural) - sum(synthetic) / len(synthetic)
    )


def test_intervals_and_smallest_margins_belong_together(study: Path) -> None:
    con = rb.connect(study)
    found = rb.natural_vs_synthetic(con, ["conflict"], panel="a", margin=0.3).row(0, named=True)
    assert found["margin"] == 0.3
    assert found["low_95"] < found["low_90"] < found["difference"] < found["high_90"]
    for level in ("95", "90"):
        reach = max(abs(found[f"low_{level}"]), abs(found[f"high_{level}"]))
        assert found[f"smallest_margin_{level}"] == pytest.approx(reach)


def test_agreement_counts_only_what_both_judged(study: Path) -> None:
    con = rb.connect(study)
    verdicts = con.sql("FROM judgments ORDER BY target_id").pl().head(40)
    other = verdicts.with_columns(
        judge=pl.lit("b"),
        score=pl.when(pl.int_range(pl.len()) < 4).then(1 - pl.col("score")).otherwise("score"),
    )
    rb.append(study, "judgments", other.drop("run_id"))
    row = contrasts.agreement(con, "conflict").row(0, named=True)
    assert (row["n"], row["unmatched"]) == (40, 306 - 40)
    assert row["agreement"] == pytest.approx(36 / 40)
    # Of the first 40 all but 7 are recognised by a; b turns the first four round.
    a, b = 33 / 40, 29 / 40
    expected = a * b + (1 - a) * (1 - b)
    assert row["kappa"] == pytest.approx((0.9 - expected) / (1 - expected))


def test_one_judge_alone_is_refused_and_names_are_checked(study: Path) -> None:
    con = rb.connect(study)
    with pytest.raises(RagbenchError, match="needs two"):
        contrasts.agreement(con, "conflict")
    with pytest.raises(UnknownName, match="conflict"):
        contrasts.protocol_effect(con, "conflikt")
    with pytest.raises(UnknownName, match="matching"):
        contrasts.protocol_effect(con, "conflict", reading="matchin")


def test_natural_against_synthetic_keeps_to_what_where_says(study: Path) -> None:
    con = rb.connect(study)
    whole = rb.natural_vs_synthetic(con, ["conflict"], panel="a")
    for where in ({"context_mode": "conflict"}, {"panel": "a"}):
        named = "a" if "panel" not in where else None
        assert rb.natural_vs_synthetic(con, "conflict", where, named).equals(whole)
    none = rb.natural_vs_synthetic(con, "conflict", {"context_mode": "gap"}, "a")
    assert none["note"].str.starts_with("not testable").all()
