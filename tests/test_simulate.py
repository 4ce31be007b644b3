"""The simulated study: what the paper prints comes out, what it does not print is as stated."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from scipy import stats as reference

import ragbench as rb
from ragbench import paper, simulate
from ragbench.errors import BadRow, StoreError, UnknownName
from ragbench.judging.rules import validate, validate_constraints
from ragbench.simulate import benchmark
from ragbench.simulate.judges import cells, kappa
from ragbench.simulate.targets import MODELS, SUBSET, counts_printed_as, denominators

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """A study of seed 0, and the report on it."""
    path = tmp_path_factory.mktemp("simulated") / "study.duckdb"
    return path, simulate.study(path, seed=0)


@pytest.fixture(scope="module")
def con(made: tuple[Path, pl.DataFrame]) -> duckdb.DuckDBPyConnection:
    return rb.connect(made[0])


def percent(value: float, decimals: int = 1) -> float:
    return round(100 * value + 1e-9, decimals)


# ---------------------------------------------------------------- counts


def test_queries_instances_and_models_are_as_many_as_the_paper_has(con) -> None:
    counts = {name: con.sql(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in (
        "queries", "instances", "models", "wanted")}  # fmt: skip
    assert counts == {"queries": 491, "instances": 983, "models": 13, "wanted": 983 * 13}
    domains = dict(con.sql("SELECT domain, count(*) FROM queries GROUP BY ALL").fetchall())
    printed = paper.published("table5").filter(pl.col("domain") != "All")
    assert domains == dict(zip(printed["domain"], printed["n_queries"], strict=True))


def test_a_panel_has_about_107000_constraint_verdicts(con) -> None:
    found = con.sql(
        "SELECT count(*) FROM judgments WHERE criterion = 'adherence' "
        "AND judge IN ('sim/kimi-k2-thinking', 'sim/rules')"
    ).fetchall()[0][0]
    assert 104_000 < found < 110_000


def test_table6_counts_of_natural_and_augmented_instances(con) -> None:
    rows = con.sql(
        "SELECT context_mode::VARCHAR, count(*), count(*) FILTER (NOT is_augmented) "
        "FROM instances GROUP BY ALL ORDER BY 2 DESC"
    ).fetchall()
    assert rows == [("noise", 447, 447), ("conflict", 309, 27), ("gap", 227, 12)]


def test_all_models_and_judges_are_called_sim_and_every_row_is_simulated(con) -> None:
    for relation, column in (("models", "model"), ("models", "label"), ("judges", "judge")):
        names = [row[0] for row in con.sql(f"SELECT {column} FROM {relation}").fetchall()]
        assert all(name.startswith("sim/") for name in names)
    assert con.sql("SELECT DISTINCT origin::VARCHAR FROM runs").fetchall() == [("simulated",)]
    assert rb.scores(con)["origin"].unique().to_list() == ["simulated"]
    assert con.sql("FROM models WHERE family IS NULL OR paradigm IS NULL").fetchall() == []


def test_simulated_rows_share_no_file_with_others(made, con) -> None:
    instance = con.sql("SELECT min(instance_id) FROM instances").fetchall()[0][0]
    mine = [{"instance_id": instance, "model": "mine", "text": "x"}]
    with pytest.raises(BadRow, match="simulated"):
        rb.append(made[0], "responses", mine, origin="measured")
    with pytest.raises(StoreError, match="exists"):
        simulate.study(made[0])


def test_the_study_is_sound(con) -> None:
    assert rb.check(con).is_empty()


def test_the_study_file_stays_small(made) -> None:
    assert made[0].stat().st_size < 30e6
    assert not list(made[0].parent.glob("*.part*"))


# ---------------------------------------------------------------- printed numbers


def test_table2_is_met_by_the_public_scores(con) -> None:
    noise = {"context_mode": "noise"}
    found = {row["model"]: row for row in rb.scores(con, where=noise).iter_rows(named=True)}
    pooled = {
        (row["model"], row["category"]): percent(row["adherence"])
        for row in rb.constraint_scores(con, where=noise).iter_rows(named=True)
    }
    for row in paper.published("table2").iter_rows(named=True):
        made = found[f"sim/{row['model'].lower()}"]
        for ours, theirs in (
            ("faithfulness", "faithfulness"),
            ("coverage", "answer_coverage"),
            ("loose_ias", "loose_ias"),
            ("strict_ias", "strict_ias"),
        ):
            assert percent(made[ours]) == row[theirs], (row["model"], ours)
        for category in ("persona", "output", "protocol"):
            assert pooled[made["model"], category] == row[f"loose_{category}"]


def test_table3_is_met_by_the_public_scores(con) -> None:
    found = rb.scores(con, where={"context_mode": "conflict"}, metrics=["conflict"])
    ours = dict(zip(found["model"], found["conflict"], strict=True))
    for row in paper.published("table3").iter_rows(named=True):
        assert percent(ours[f"sim/{row['model'].lower()}"]) == row["conflict_recognition_pct"]


def test_table7_upper_half_on_its_own_subset_gives_the_lower_half(con) -> None:
    from ragbench.stats import icc2k, mean_spearman

    printed = {row["metric"]: row for row in paper.published("table7_reliability").to_dicts()}
    for metric, ours, mode in (
        ("loose_ias", "loose_ias", "noise"),
        ("rejection_accuracy", "rejection", "gap"),
        ("conflict_accuracy", "conflict", "conflict"),
    ):
        where = {"variant": SUBSET, "context_mode": mode}
        frame = rb.scores(con, ("panel", "model"), where, metrics=[ours])
        theirs = paper.published("table7").filter(metric=metric)
        names = {model.judged_as: model.key for model in MODELS if model.judged_as}
        rows = []
        for row in theirs.iter_rows(named=True):
            judge = row["judge"].lower()
            found = frame.filter(
                pl.col("panel").str.starts_with(f"sim/{judge} "), model=names[row["model"]]
            )
            assert percent(found[ours][0]) == row["score_pct"]
            rows.append((row["model"], judge, found[ours][0]))
        table = pl.DataFrame(rows, schema=["model", "judge", "score"], orient="row")
        columns = {"target": "model", "rater": "judge", "rating": "score"}
        assert icc2k(table, **columns)["icc2_k"][0] == pytest.approx(
            printed[metric]["icc_2k"], abs=0.003
        )
        rho = mean_spearman(table, **columns).row(0, named=True)
        assert rho["mean_rho"] == pytest.approx(printed[metric]["avg_spearman_rho"], abs=0.001)


def test_table8_means_and_paired_t_tests_over_models(con) -> None:
    names = {
        "Conflict Recognition": "conflict",
        "Strict IAS": "strict_ias",
        "Loose IAS": "loose_ias",
        "Answer Coverage": "coverage",
        "Faithfulness": "faithfulness",
    }
    sides = [
        rb.scores(con, where={"context_mode": "conflict", "is_augmented": made})
        for made in (False, True)
    ]
    for row in paper.published("table8").iter_rows(named=True):
        natural, synthetic = (side[names[row["metric"]]].to_numpy() for side in sides)
        assert natural.mean() == pytest.approx(row["natural"], abs=0.0005)
        assert synthetic.mean() == pytest.approx(row["synthetic"], abs=0.0005)
        difference = synthetic.mean() - natural.mean()
        assert difference == pytest.approx(row["diff_as_printed"], abs=0.0005)
        p = reference.ttest_rel(natural, synthetic).pvalue
        if row["p_value"].startswith("<"):
            assert p < 0.001
        else:
            assert p == pytest.approx(float(row["p_value"]), abs=0.0005)


def test_everything_else_the_paper_prints_is_met_or_listed_with_a_reason(made) -> None:
    report = made[1]
    missed = report.filter(status="not attainable")
    assert set(missed["cell"]) == {
        "Medical all",
        "All output",
        "Proper Rejection agreement",
        "Conflict Recognition judge kappa",
        "Conflict Recognition agreement",
        "Overall average agreement",
        "rejection without",
        "conflict without",
        "output share",
    }
    assert missed["note"].null_count() == 0
    assert report.height > 220


def test_stated_gains_of_reasoning_hold_pair_by_pair(con) -> None:
    from ragbench.stats import mcnemar

    qwen = [{"model": f"sim/qwen3-235b-a22b-{kind}-2507"} for kind in ("thinking", "instruct")]
    for mode in ("noise", "gap", "conflict"):
        row = rb.paired(con, "strict_ias", *qwen, where={"context_mode": mode}).row(0, named=True)
        assert 6.05 <= 100 * row["difference"] < 10.65
        test = mcnemar(row["only_a"], row["only_b"], alternative="greater")
        assert test["p_value"][0] < 0.01
    deepseek = [{"model": "sim/deepseek-r1-0528"}, {"model": "sim/deepseek-v3.1"}]
    row = rb.paired(con, "conflict", *deepseek, where={"context_mode": "conflict"})
    assert percent(row["difference"][0]) == 14.4


def test_protocol_raises_recognition_in_all_models_and_refusal_in_two(con) -> None:
    from ragbench.stats import two_proportions

    significant, methods = {}, []
    for metric, mode, dimension in (
        ("conflict", "conflict", "conflict_handling"),
        ("rejection", "gap", "knowledge_gap"),
    ):
        rows = con.execute(
            "SELECT model, has, sum(value), count(value) FROM criterion_summary JOIN ("
            "SELECT instance_id, bool_or(dimension = ?) AS has FROM instance_constraints "
            "JOIN constraints USING (constraint_id) GROUP BY ALL) USING (instance_id) "
            "WHERE metric = ? AND context_mode = ? AND panel LIKE 'sim/kimi%' GROUP BY ALL",
            [dimension, metric, mode],
        ).fetchall()
        counts = {(model, has): (int(k), n) for model, has, k, n in rows}
        tests = {
            model.key: two_proportions(*counts[model.key, True], *counts[model.key, False])
            for model in MODELS
        }
        methods += [test["method"][0] for test in tests.values()]
        significant[metric] = [key for key, test in tests.items() if test["p_value"][0] < 0.05]
    assert len(significant["conflict"]) == 13
    assert significant["rejection"] == ["sim/deepseek-r1-0528", "sim/glm-4.5"]
    assert sorted(methods) == ["chi2_yates"] * 25 + ["fisher"]


def test_a_kappa_above_the_agreement_does_not_exist() -> None:
    found = cells(0.96, 0.93, 91)
    gold = found.both_yes + found.disputed_yes
    assert kappa(gold - found.missed, gold, gold - found.missed + found.false, 50) < 0.925
    assert kappa(30, 30, 30, 50) == 1


def test_counts_and_denominators_that_print_a_percentage() -> None:
    for tenths, n in ((268, 447), (268, 446), (423, 309), (66, 227)):
        every = [k for k in range(n + 1) if f"{1000 * k / n:.0f}" == str(tenths)]
        assert counts_printed_as(tenths, n) == every
    assert denominators(268, 447, 440) == [447, 444, 441, 440]


# ---------------------------------------------------------------- structure


def test_constraints_are_valid_and_a_third_of_them_is_checked_by_rules(con) -> None:
    rows = con.sql("SELECT * FROM constraints").pl()
    assert validate_constraints(rows).is_empty()
    ruled = rows.filter(pl.col("rule").is_not_null())
    for row in ruled.iter_rows(named=True):
        validate(row["rule"], json.loads(row["params"]))
    assert 0.25 < ruled.height / rows.height < 0.45
    twice = rows.group_by("query_id", "text").len().filter(pl.col("len") > 1)
    assert twice.is_empty()


def test_all_twelve_dimensions_occur_and_citation_leads_the_protocols(con) -> None:
    counts = dict(con.sql("SELECT dimension, count(*) FROM constraints GROUP BY ALL").fetchall())
    assert set(paper.published("table4")["sub_dimension"].str.to_lowercase().str.slice(0, 4)) <= {
        name.replace("_", " ")[:4] for name in counts
    }
    protocols = ("conflict_handling", "knowledge_gap", "uncertainty", "source_filtering")
    assert min(counts["citation"], counts["conflict_handling"]) > max(
        counts[name] for name in protocols[1:]
    )


def strict_by_model(con: duckdb.DuckDBPyConnection) -> np.ndarray:
    rows = con.sql(
        "SELECT instance_id, model, strict_ias FROM response_scores "
        "WHERE context_mode = 'noise' AND panel LIKE 'sim/kimi%'"
    ).pl()
    wide = rows.pivot("model", index="instance_id", values="strict_ias").drop("instance_id")
    return wide.drop_nulls().to_numpy().astype(float)


def test_models_succeed_on_the_same_instances_more_than_chance_would_have_it(con) -> None:
    pairs = np.corrcoef(strict_by_model(con).T)[np.triu_indices(13, 1)]
    assert pairs.min() > -0.05
    assert pairs.mean() > 0.1


def test_failures_within_a_response_come_together(con) -> None:
    found = rb.independence(con)
    more = (found["strict_ias"] > found["independent"]).sum()
    assert more >= 11  # Table 2 leaves DeepSeek-R1 no room: 21.9 is what 83.1 gives by chance
    assert (found["strict_ias"] - found["independent"]).mean() > 0.01


def test_protocols_that_hold_are_met_least(con) -> None:
    found = rb.constraint_scores(con, by="category")
    rates = dict(zip(found["category"], found["adherence_triggered"], strict=True))
    assert rates["protocol"] < min(rates["persona"], rates["output"]) - 0.05


def test_verdicts_whose_condition_did_not_hold_count_as_met(con) -> None:
    rows = con.sql(
        "SELECT avg(score), count(*) FROM judgments WHERE is_triggered = false AND error IS NULL"
    ).fetchall()
    assert rows[0][0] == 1
    assert rows[0][1] > 5000


def test_missing_rows_differ_per_model_and_come_in_all_kinds(con) -> None:
    found = rb.scores(con, where={"context_mode": "noise"})
    assert found["strict_ias_n"].n_unique() >= 5
    assert (found["answered"] < 447).all()
    assert (found["judged"] < found["answered"]).any()
    errors = con.sql(
        "SELECT criterion, count(error) FROM judgments WHERE judge = 'sim/kimi-k2-thinking' "
        "GROUP BY ALL"
    ).fetchall()
    assert all(count > 0 for _, count in errors)
    assert (found["faithfulness_n"] < found["answered"]).any()


def test_refusals_and_disclaimers_before_an_answer_are_told_apart(con) -> None:
    rows = con.sql(
        "SELECT reason, score, count(*) FROM evidence JOIN judgments "
        "USING (response_id, criterion, target_id, judge, repeat) "
        "WHERE criterion = 'rejection' GROUP BY ALL"
    ).fetchall()
    assert {(reason, score) for reason, score, _ in rows} == {
        ("declines", 1),
        ("answers", 0),
        ("disclaims, then answers", 0),
    }


def test_the_three_judges_saw_a_marked_subset_and_experts_150_responses(con) -> None:
    people = dict(
        con.sql(
            "SELECT judge, count(DISTINCT response_id) FROM judgments "
            "JOIN judges USING (judge) WHERE kind = 'human' GROUP BY ALL"
        ).fetchall()
    )
    assert people == {"sim/expert-1": 150, "sim/expert-2": 150, "sim/gold": 150}
    others = con.sql(
        "SELECT DISTINCT i.variant, r.model FROM judgments JOIN responses AS r USING (response_id) "
        "JOIN instances AS i USING (instance_id) WHERE judge = 'sim/gpt-4o'"
    ).fetchall()
    assert {variant for variant, _ in others} == {SUBSET}
    assert {model for _, model in others} == {m.key for m in MODELS if m.judged_as}


# ---------------------------------------------------------------- seeds and truth


def test_truth_is_stored_with_the_study(con) -> None:
    truth = simulate.truth(con)
    assert truth.columns == ["parameter", "model", "group", "value"]
    gains = truth.filter(parameter="recognition_protocol")
    assert gains.height == 13
    assert (gains["value"] == 1.1).all()
    assert truth.filter(parameter="ability").height == 39


def test_unknown_effects_are_refused_and_known_ones_planted() -> None:
    with pytest.raises(UnknownName, match="recognition_protocol"):
        simulate.frames(0, effects={"recognition": 1.0})
    rows, config = simulate.frames(0, effects={"recognition_protocol": 0.0})
    assert config["effects"] == {"recognition_protocol": 0.0}
    bench = benchmark.build(0)
    has = dict(
        zip(rows["instances"]["instance_id"], bench.instance_has_protocol.tolist(), strict=True)
    )
    shown = rows["judgments"].filter(criterion="conflict", judge="sim/kimi-k2-thinking")
    instance = shown["response_id"].str.split("/").list.first()
    rates = shown.group_by(instance.replace_strict(has).alias("has")).agg(pl.col("score").mean())
    assert rates["score"].max() - rates["score"].min() < 0.02


DIGEST = """
import hashlib, json
from ragbench import simulate
rows, config = simulate.frames({seed})
digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
for name in sorted(rows):
    digest.update(rows[name].write_json().encode())
print(digest.hexdigest())
"""


def digest(seed: int, hash_seed: str) -> str:
    import os

    done = subprocess.run(
        [sys.executable, "-c", DIGEST.format(seed=seed)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "POLARS_MAX_THREADS": hash_seed},
    )
    return done.stdout.strip()


def test_the_same_seed_gives_the_same_rows_in_another_process_and_another_seed_others() -> None:
    first = digest(7, "1")
    assert digest(7, "2") == first
    assert digest(8, "1") != first


def test_another_seed_meets_the_printed_numbers_too(tmp_path: Path) -> None:
    report = simulate.study(tmp_path / "study.duckdb", seed=1)
    assert report.filter(status="not attainable").height <= 10


def test_published_names_the_near_miss() -> None:
    assert paper.published("table6")["count"].to_list() == [447, 227, 309]
    assert paper.published("table7_reliability").height == 3
    with pytest.raises(UnknownName, match="table7_judges"):
        paper.published("table7_judge")
