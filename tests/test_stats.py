"""Every statistic against answers from outside, and what it says of degenerate input."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ragbench import stats
from ragbench.errors import RagbenchError, UnknownColumn, UnknownName

# Nothing here may warn on a researcher's screen.
pytestmark = pytest.mark.filterwarnings("error")

GOLDEN = Path(__file__).parent / "golden"
PAPER = Path(__file__).parents[1] / "data" / "paper"

GAPS = [None, float("nan")]


def cases(name: str) -> list[Any]:
    found = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))["cases"]
    return [pytest.param(case, id=case["id"]) for case in found]


def only(frame: pl.DataFrame) -> dict[str, Any]:
    assert frame.height == 1
    assert not any(isinstance(v, float) and math.isnan(v) for v in frame.row(0))
    return frame.row(0, named=True)


def tolerance(case: dict[str, Any], field: str) -> dict[str, float]:
    given = case["tolerance"]
    return given if "abs" in given or "rel" in given else given.get(field, {})


def is_close(got: Any, expected: Any, allowed: dict[str, float]) -> bool:
    if expected is None or isinstance(expected, str | bool):
        return got is expected or got == expected
    if got is None:
        return False
    return abs(got - expected) <= allowed.get("abs", 0) + allowed.get("rel", 0) * abs(expected)


def interval_columns(field: str) -> tuple[str, str]:
    """The two columns that hold a reference case's interval."""
    if field == "ci95":
        return "low", "high"
    stem = field.removesuffix("_ci").replace("ci95_2_", "icc2_")
    return f"{stem}_low", f"{stem}_high"


def assert_matches(
    row: dict[str, Any], case: dict[str, Any], *, renamed: dict[str, str] | None = None
) -> None:
    """Every expected number is there, in the column of its name, within the case's tolerance."""
    renamed = renamed or {}
    checked = 0
    for field, expected in case["expected"].items():
        if field in ("limit_ci", "mc_low", "mc_high"):
            continue
        if isinstance(expected, list):
            default = interval_columns(field)
            names = [renamed.get(f"{field}_{i}", default[i]) for i in (0, 1)]
            values = expected
        else:
            names, values = [renamed.get(field, field)], [expected]
        for name, value in zip(names, values, strict=True):
            assert is_close(row[name], value, tolerance(case, field)), (name, row[name], value)
            checked += 1
    assert checked


# --- the reference cases -------------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("mcnemar_one_sided"))
def test_mcnemar_gives_the_reference_answers(case: dict[str, Any]) -> None:
    given = case["inputs"]
    row = only(stats.mcnemar(given["b"], given["c"], alternative=given["alternative"]))
    assert_matches(row, case)


@pytest.mark.parametrize("case", cases("mcnemar_one_sided"))
def test_mcnemar_of_outcomes_is_mcnemar_of_their_counts(case: dict[str, Any]) -> None:
    given = case["inputs"]
    first, second = outcomes(given["a"], given["b"], given["c"], given["d"])
    row = only(stats.mcnemar(first, second, alternative=given["alternative"]))
    assert_matches(row, case)
    assert row["n"] == len(first)


def outcomes(a: int, b: int, c: int, d: int) -> tuple[list[bool], list[bool]]:
    first = [True] * (a + b) + [False] * (c + d)
    return first, [True] * a + [False] * b + [True] * c + [False] * d


@pytest.mark.parametrize("case", cases("paired_bootstrap"))
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_bootstrap_limits_lie_where_exact_calculation_allows(
    case: dict[str, Any], seed: int
) -> None:
    given, expected = case["inputs"], case["expected"]
    counts = [given[cell] for cell in "abcd"]
    row = only(stats.paired_bootstrap(counts=counts, seed=seed))
    assert_matches(row, case)
    assert expected["mc_low"][0] - 1e-9 <= row["low"] <= expected["mc_low"][1] + 1e-9
    assert expected["mc_high"][0] - 1e-9 <= row["high"] <= expected["mc_high"][1] + 1e-9
    assert row["method"] == "multinomial"


@pytest.mark.parametrize("case", cases("two_proportions"))
def test_two_proportions_give_the_reference_answers(case: dict[str, Any]) -> None:
    assert_matches(only(stats.two_proportions(**case["inputs"])), case)


@pytest.mark.parametrize("case", cases("single_proportion_ci"))
def test_proportion_intervals_are_the_reference_ones(case: dict[str, Any]) -> None:
    row = only(stats.proportion_interval(**case["inputs"]))
    names = {f"{kind}_{i}": f"{kind}_{end}" for kind in ("wilson", "clopper_pearson", "wald")
             for i, end in enumerate(("low", "high"))}  # fmt: skip
    assert_matches(row, case, renamed=names)


@pytest.mark.parametrize("case", cases("tost"))
def test_tost_gives_the_reference_answers(case: dict[str, Any]) -> None:
    given = dict(case["inputs"])
    design = given.pop("design").removesuffix("_models")
    margin = (given.pop("low"), given.pop("upp"))
    row = only(stats.tost(given.pop("x"), given.pop("y"), margin=margin, design=design, **given))
    names = {f"ci{p}_{i}": f"{end}_{p}" for p in (90, 95) for i, end in enumerate(("low", "high"))}
    assert_matches(row, case, renamed=names)
    expected = case["expected"]
    if design == "bootstrap":
        assert expected["mc_low"][0] - 1e-9 <= row["low_95"] <= expected["mc_low"][1] + 1e-9
        assert expected["mc_high"][0] - 1e-9 <= row["high_95"] <= expected["mc_high"][1] + 1e-9


@pytest.mark.parametrize("case", cases("paired_t"))
def test_paired_t_gives_the_reference_answers(case: dict[str, Any]) -> None:
    assert_matches(only(stats.paired_t(**case["inputs"])), case)


@pytest.mark.parametrize("case", cases("spearman_exact"))
def test_spearman_gives_the_reference_answers(case: dict[str, Any]) -> None:
    row = only(stats.spearman(**case["inputs"]))
    assert_matches(row, case)
    assert row["p_value"] == row["p_exact_two_sided"]


@pytest.mark.parametrize("case", cases("icc2k"))
def test_icc_gives_the_reference_answers(case: dict[str, Any]) -> None:
    assert_matches(only(stats.icc2k(case["inputs"]["ratings"])), case)


@pytest.mark.parametrize("case", cases("cohen_kappa"))
def test_kappa_gives_the_reference_answers(case: dict[str, Any]) -> None:
    table, weights = case["inputs"]["table"], case["inputs"]["weights"]
    assert_matches(only(stats.cohen_kappa(table, weights=weights)), case)
    cells = [(i, j) for i, line in enumerate(table) for j, n in enumerate(line) for _ in range(n)]
    first, second = [i for i, _ in cells], [j for _, j in cells]
    assert_matches(only(stats.cohen_kappa(first, second, weights=weights)), case)


@pytest.mark.parametrize("case", cases("p_adjust"))
def test_adjusted_p_values_are_the_reference_ones(case: dict[str, Any]) -> None:
    frame = stats.adjust(case["inputs"]["p"])
    for name, expected in case["expected"].items():
        if name.startswith("reject"):
            assert frame[name].to_list() == expected
        else:
            assert frame[name].to_list() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("case", cases("clustered_se"))
def test_clustered_errors_are_the_reference_ones(case: dict[str, Any]) -> None:
    given = case["inputs"]
    assert_matches(only(stats.clustered_mean(given["score"], given["cluster"])), case)


@pytest.mark.parametrize("case", cases("power_paired"))
def test_power_gives_the_reference_answers(case: dict[str, Any]) -> None:
    given = dict(case["inputs"])
    kind = given.pop("kind")
    if kind.startswith("miller"):
        row = only(stats.paired_mean_power(given.pop("omega2"), **given))
    else:
        side = "two-sided" if kind == "mde_paired_binary" else "greater"
        row = only(
            stats.paired_power(given.pop("p10"), given.pop("p01"), alternative=side, **given)
        )
    assert_matches(row, case, renamed={"n": "n_needed"})


def test_every_reference_file_is_used() -> None:
    text = Path(__file__).read_text("utf-8")
    for path in GOLDEN.glob("*.json"):
        assert f'cases("{path.stem}")' in text, path


# --- what was printed elsewhere ------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["loose_ias", "rejection_accuracy", "conflict_accuracy"])
def test_lower_half_of_table_7_comes_from_its_upper_half(metric: str) -> None:
    judges = pl.read_csv(PAPER / "table7_judges.csv").filter(metric=metric)
    printed = pl.read_csv(PAPER / "table7_reliability.csv").filter(metric=metric).row(0, named=True)
    columns = {"target": "model", "rater": "judge", "rating": "score_pct"}
    icc = only(stats.icc2k(judges, **columns))
    rho = only(stats.mean_spearman(judges, **columns))
    assert round(icc["icc2_k"], 3) == printed["icc_2k"]
    assert round(icc["icc2_k_low"], 2) == printed["icc_ci_low"]
    assert round(icc["icc2_k_high"], 2) == printed["icc_ci_high"]
    assert round(rho["mean_rho"], 3) == printed["avg_spearman_rho"]
    assert (icc["n"], icc["k"], rho["n_pairs"]) == (4, 3, 3)


# Berkeley admissions 1973 by department: men admitted, applied, women admitted, applied.
BERKELEY = {
    "A": (512, 825, 89, 108),
    "B": (353, 560, 17, 25),
    "C": (120, 325, 202, 593),
    "D": (138, 417, 131, 375),
    "E": (53, 191, 94, 393),
    "F": (22, 373, 24, 341),
}


def test_mantel_haenszel_gives_the_answer_printed_for_berkeley() -> None:
    # As R's mantelhaen.test prints them for UCBAdmissions.
    row = only(stats.mantel_haenszel(BERKELEY))
    assert round(row["odds_ratio"], 7) == 0.9046968
    assert round(row["odds_ratio_low"], 7) == 0.7719074
    assert round(row["odds_ratio_high"], 7) == 1.0603298
    assert round(row["statistic"], 4) == 1.4269
    assert round(row["p_value"], 4) == 0.2323
    assert row["diff"] < 0 < row["crude_diff"]  # the paradox it is known for


def test_mirrored_strata_have_a_homogeneity_test_too() -> None:
    # The pooled odds ratio is exactly 1, where the textbook quadratic loses its leading term.
    row = only(stats.mantel_haenszel([(3, 10, 7, 10), (7, 10, 3, 10)]))
    near = only(stats.mantel_haenszel([(3000, 10000, 7000, 10000), (7001, 10000, 3000, 10000)]))
    assert row["odds_ratio"] == 1
    assert row["homogeneity_statistic"] == pytest.approx(2 * 2**2 / (10 / 8))
    assert near["homogeneity_statistic"] == pytest.approx(1000 * 6.4, rel=1e-3)


def test_mantel_haenszel_gives_the_answer_printed_for_penicillin() -> None:
    # Mantel (1963), rabbits by penicillin level; the two levels where all or none are cured
    # carry no information.
    rabbits = [(0, 6, 0, 5), (3, 6, 0, 6), (6, 6, 2, 6), (5, 6, 6, 6), (2, 2, 5, 5)]
    row = only(stats.mantel_haenszel(rabbits))
    assert round(row["statistic"], 4) == 3.9286
    assert round(row["p_value"], 5) == 0.04747
    assert round(row["odds_ratio"], 6) == 7
    assert round(row["odds_ratio_low"], 6) == 1.026713
    assert round(row["odds_ratio_high"], 6) == 47.725133


# Krippendorff (2011), Computing Krippendorff's Alpha-Reliability: four observers, twelve units.
FOUR_OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
TARGETS = [list(unit) for unit in zip(*FOUR_OBSERVERS, strict=True)]


@pytest.mark.parametrize(
    ("level", "printed"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_is_the_one_krippendorff_printed(level: str, printed: float) -> None:
    row = only(stats.krippendorff_alpha(TARGETS, level=level))
    assert round(row["alpha"], 3) == printed
    assert row["low"] < row["alpha"] < row["high"]
    assert (row["n"], row["n_lost"], row["n_ratings"], row["n_raters"]) == (11, 1, 40, 4)


@pytest.mark.parametrize(
    ("first", "second", "printed"),
    [("0100000010", "1110010000", 0.095), ("aabbdcccedda", "babbbccceddd", 0.692)],
)
def test_alpha_of_two_observers(first: str, second: str, printed: float) -> None:
    alpha = only(stats.krippendorff_alpha(list(zip(first, second, strict=True))))["alpha"]
    assert round(alpha, 3) == printed
    assert alpha == pytest.approx(
        alpha_by_pairs([list(p) for p in zip(first, second, strict=True)])
    )


def alpha_by_pairs(units: list[list[Any]]) -> float:
    """Alpha straight from its definition: mean disagreement of pairs within and over all units."""
    rated = [[v for v in unit if v is not None] for unit in units]
    rated = [unit for unit in rated if len(unit) > 1]
    pool = [v for unit in rated for v in unit]
    n = len(pool)
    within = sum(sum(x != y for x in unit for y in unit) / (len(unit) - 1) for unit in rated)
    return 1 - (within / n) / (sum(x != y for x in pool for y in pool) / (n * (n - 1)))


# --- degenerate input ----------------------------------------------------------------------------


def test_no_discordant_pairs_is_no_evidence() -> None:
    for alternative in ("two-sided", "greater", "less"):
        row = only(stats.mcnemar(0, 0, alternative=alternative))
        assert (row["p_value"], row["p_mid"], row["note"]) == (1.0, 1.0, "no discordant pairs")
    assert only(stats.mcnemar([], []))["p_value"] == 1.0


def test_sides_of_different_instances_are_refused() -> None:
    for function in (stats.mcnemar, stats.paired_bootstrap, stats.paired_t, stats.spearman):
        with pytest.raises(RagbenchError, match="2 values and the other 3"):
            function([0, 1], [0, 1, 1])
        with pytest.raises(RagbenchError, match="2 are on one side only"):
            function({"q1": 1, "q2": 0}, {"q1": 1, "q3": 0})
    with pytest.raises(RagbenchError, match="same instances"):
        stats.cohen_kappa(["yes"], ["yes", "no"])


def test_mappings_are_paired_by_key_not_by_order() -> None:
    row = only(stats.mcnemar({"q1": True, "q2": False}, {"q2": False, "q1": True}))
    assert (row["b"], row["c"], row["n"]) == (0, 0, 2)


@pytest.mark.parametrize("gap", GAPS)
def test_a_missing_value_costs_its_pair_and_is_counted(gap: float | None) -> None:
    x, y = [1.0, 0.0, gap, 1.0, 0.5], [0.0, 1.0, 1.0, gap, 0.1]
    for row in (
        only(stats.paired_bootstrap(x, y)),
        only(stats.paired_t(x, y)),
        only(stats.spearman(x, y)),
        only(stats.tost(x, y)),
    ):
        assert row["n"] == 3
        assert "2 pairs with a missing value left out" in row["note"]
    kappa = only(stats.cohen_kappa(["a", gap, "b"], ["a", "b", "b"]))
    assert (kappa["n"], kappa["n_lost"]) == (2, 1)
    mean = only(stats.clustered_mean(x, [1, 1, 2, 2, 3]))
    assert (mean["n"], mean["n_lost"]) == (4, 1)


def test_input_without_an_order_is_refused() -> None:
    with pytest.raises(RagbenchError, match="both as sequences"):
        stats.mcnemar({1: True}, [True])
    with pytest.raises(RagbenchError, match="no order"):
        stats.adjust({0.1, 0.2})
    with pytest.raises(RagbenchError, match="polars frame"):
        stats.icc2k({"judge": [1, 2]})


def test_scores_in_between_are_not_taken_for_successes() -> None:
    with pytest.raises(RagbenchError, match="paired_bootstrap"):
        stats.mcnemar([0.5, 1], [0, 1])


@pytest.mark.parametrize("counts", [(10, 0, 0, 5), (0, 7, 0, 0)])
def test_a_bootstrap_without_spread_says_so(counts: tuple[int, ...]) -> None:
    row = only(stats.paired_bootstrap(counts=counts))
    assert row["low"] == row["diff"] == row["high"]
    assert "degenerate" in row["note"]


def test_rounding_is_not_mistaken_for_spread() -> None:
    row = only(stats.paired_bootstrap([0.3, 0.4, 0.5], [0.25, 0.35, 0.45]))
    assert "degenerate" in row["note"]
    assert row["low"] == row["high"] == pytest.approx(0.05)


def test_an_interval_without_width_is_labelled() -> None:
    assert "Wald interval has no width" in only(stats.two_proportions(10, 10, 0, 10))["note"]
    assert "zero width" in only(stats.mantel_haenszel([(5, 5, 0, 5)]))["note"]


def test_labels_that_are_no_single_value_are_refused() -> None:
    with pytest.raises(RagbenchError, match="one value"):
        stats.krippendorff_alpha([[[1], [2]], [[1], [1]]])
    with pytest.raises(RagbenchError, match="one value"):
        stats.cohen_kappa([[1], [2]], [[1], [1]])
    with pytest.raises(RagbenchError, match="infinite"):
        stats.icc2k([[math.inf, 1, 2], [1, 2, 3]])


def test_a_bootstrap_of_nothing_or_of_one_pair_is_labelled() -> None:
    empty = only(stats.paired_bootstrap([], []))
    assert (empty["n"], empty["diff"], empty["low"], empty["note"]) == (0, None, None, "no pairs")
    assert "one pair" in only(stats.paired_bootstrap([1], [0]))["note"]


def test_two_groups_without_any_success_are_not_testable_but_do_not_stop_a_notebook() -> None:
    row = only(stats.two_proportions(0, 10, 0, 20))
    assert row["note"] == "not testable: no success in either group"
    assert only(stats.two_proportions(10, 10, 20, 20))["note"].startswith("not testable")


def test_no_successes_in_27_leaves_room_for_an_eighth() -> None:
    row = only(stats.proportion_interval(0, 27))
    assert row["wilson_low"] == 0
    assert round(row["wilson_high"], 3) == 0.125


@pytest.mark.parametrize(
    ("x", "n"), [(5, 4), (-1, 4), (1.5, 4), (float("nan"), 4), ("3", 4), (None, 4)]
)
def test_counts_that_are_none_are_refused(x: Any, n: int) -> None:
    with pytest.raises(RagbenchError, match="proportion_interval"):
        stats.proportion_interval(x, n)


def test_strata_that_tell_nothing_are_left_out_and_said() -> None:
    row = only(stats.mantel_haenszel({**BERKELEY, "G": (0, 0, 3, 9), "H": (0, 4, 0, 9)}))
    without = only(stats.mantel_haenszel({**BERKELEY, "H": (0, 4, 0, 9)}))
    assert (row["n_strata"], row["n_used"]) == (8, 7)
    assert row["note"] == "1 stratum with an empty group left out"
    assert row["diff"] == without["diff"]
    # A stratum of failures only has no odds ratio, and a difference of 0.
    assert row["odds_ratio"] == pytest.approx(only(stats.mantel_haenszel(BERKELEY))["odds_ratio"])


@pytest.mark.parametrize(
    ("strata", "note"),
    [
        ([], "undefined: no stratum"),
        ([(0, 0, 1, 2)], "undefined: no stratum; 1 stratum with an empty group left out"),
        ([(0, 5, 0, 5), (3, 3, 2, 2)], "not testable: no stratum has both successes and failures"),
        ([(5, 5, 0, 5), (3, 3, 0, 4)], "odds ratio infinite: no interval for it"),
        ([(0, 5, 5, 5)], "odds ratio 0: no interval for it"),
    ],
)
def test_degenerate_strata_are_labelled(strata: list[tuple[int, ...]], note: str) -> None:
    row = only(stats.mantel_haenszel(strata))
    assert row["note"].startswith(note)
    assert row["odds_ratio_low"] is None


def test_a_frame_of_strata_is_a_mapping_of_strata() -> None:
    frame = pl.DataFrame(
        [(k, *v) for k, v in BERKELEY.items()],
        schema=["stratum", "x1", "n1", "x2", "n2"],
        orient="row",
    )
    assert stats.mantel_haenszel(frame).equals(stats.mantel_haenszel(BERKELEY))
    with pytest.raises(UnknownColumn, match="n2"):
        stats.mantel_haenszel(frame.drop("n2"))


def test_one_balanced_stratum_has_the_wald_interval() -> None:
    row = only(stats.mantel_haenszel([(30, 100, 18, 100)]))
    plain = only(stats.two_proportions(30, 100, 18, 100))
    assert row["diff_low"] == pytest.approx(plain["wald_low"])
    assert row["diff_high"] == pytest.approx(plain["wald_high"])


def test_the_stratified_interval_has_the_width_that_repetition_shows() -> None:
    random = np.random.default_rng(7)
    sizes = [(40, 10), (12, 60), (25, 25), (5, 9)]
    rates = [(0.5, 0.3), (0.3, 0.1), (0.7, 0.5), (0.25, 0.05)]  # 0.2 apart everywhere
    found = []
    for _ in range(400):
        strata = [
            (random.binomial(n1, p1), n1, random.binomial(n2, p2), n2)
            for (n1, n2), (p1, p2) in zip(sizes, rates, strict=True)
        ]
        row = only(stats.mantel_haenszel(strata))
        found.append((row["diff"], (row["diff_high"] - row["diff_low"]) / 2 / 1.959964))
    seen = np.array(found)
    assert seen[:, 0].mean() == pytest.approx(0.2, abs=0.015)
    assert seen[:, 1].mean() == pytest.approx(seen[:, 0].std(), rel=0.12)


def test_constant_differences_have_no_t_and_no_equivalence() -> None:
    x = [0.3, 0.4, 0.5]
    row = only(stats.paired_t(x, [v - 0.05 for v in x]))
    assert (row["t"], row["p_value"], row["low"], row["d_z"]) == (None, None, None, None)
    assert row["note"].startswith("degenerate")
    assert only(stats.tost(x, [v - 0.05 for v in x]))["verdict"] is None


@pytest.mark.parametrize("function", [stats.paired_t, stats.tost, stats.spearman])
def test_one_pair_or_none_is_undefined(function: Any) -> None:
    assert function([], [])["note"].item()
    row = only(function([0.5], [0.4]))
    assert row["note"]
    assert row["p_value"] is None


def test_groups_without_spread_are_no_evidence_of_equivalence() -> None:
    row = only(stats.tost([0.3, 0.3], [0.3, 0.3], design="independent"))
    assert row["verdict"] is None
    assert row["note"].startswith("degenerate")
    # One value against several has a pooled spread, but no spread of its own.
    assert only(stats.tost([0.3], [0.3, 0.4], design="independent"))["p_value"] is not None
    welch = stats.tost([0.3], [0.3, 0.4], design="independent", unequal_variances=True)
    assert only(welch)["p_value"] is None


def test_missing_ratings_are_listed_not_swallowed() -> None:
    ratings = [[9, 2, 5], [6, 1, 3], [8, 4, 6], [7, 1, None], [10, 5, 6], [6, 2, 4]]
    row = only(stats.icc2k(ratings))
    assert (row["n"], row["n_lost"]) == (5, 1)
    assert row["note"] == "1 target with a missing value left out, 5 remain"


def test_perfect_agreement_is_1_without_an_infinite_f() -> None:
    row = only(stats.icc2k([[1, 1], [2, 2], [3, 3], [4.5, 4.5]]))
    assert (row["icc2_k"], row["icc2_k_low"], row["icc2_k_high"]) == (1, 1, 1)
    assert (row["F"], row["p_value"]) == (None, None)
    assert "no error variance" in row["note"]


def test_an_icc_with_vanishing_error_is_the_limit_of_small_errors() -> None:
    exact = np.arange(6.0)[:, None] + np.array([0.0, 0.4, 1.0])
    noise = np.random.default_rng(3).normal(size=exact.shape) * 1e-6
    limit, near = only(stats.icc2k(exact)), only(stats.icc2k(exact + noise))
    for name in ("icc2_1", "icc2_1_low", "icc2_1_high", "icc2_k", "icc2_k_low", "icc2_k_high"):
        assert limit[name] == pytest.approx(near[name], rel=1e-4), name


@pytest.mark.parametrize(
    "ratings", [[], [[1, 2]], [[1], [2], [3], [4], [5]], [[1, 2], [3, 4]], [[None, 1], [2, None]]]
)
def test_too_few_ratings_for_an_icc_are_labelled(ratings: Any) -> None:
    row = only(stats.icc2k(ratings))
    assert row["icc2_k"] is None
    assert row["note"].startswith("undefined")


def test_a_target_rated_twice_by_one_rater_is_refused() -> None:
    frame = pl.DataFrame({"m": ["a", "a", "b"], "j": ["x", "x", "y"], "s": [1, 2, 3]})
    for function in (stats.icc2k, stats.krippendorff_alpha, stats.agreement, stats.mean_spearman):
        with pytest.raises(RagbenchError, match="rated m 'a' 2 times"):
            function(frame, target="m", rater="j", rating="s")


def test_kappa_of_one_class_is_undefined_beside_full_agreement() -> None:
    row = only(stats.cohen_kappa(["Yes"] * 20, ["Yes"] * 20))
    assert (row["kappa"], row["percent_agreement"]) == (None, 1.0)
    assert row["note"] == "undefined (one class)"


def test_a_table_of_classes_only_one_rater_used_is_made_square() -> None:
    row = only(stats.cohen_kappa(["yes", "no", "no"], ["yes", "no", "unsure"]))
    assert row["n_classes"] == 3
    with pytest.raises(RagbenchError, match="square"):
        stats.cohen_kappa([[1, 2, 3], [4, 5, 6]])


def test_weighted_labels_need_an_order() -> None:
    first, second = ["low", "high", "mid", "mid"], ["low", "mid", "mid", "high"]
    with pytest.raises(RagbenchError, match="order of the labels"):
        stats.cohen_kappa(first, second, weights="linear")
    named = only(stats.cohen_kappa(first, second, weights="linear", labels=["low", "mid", "high"]))
    numbered = only(stats.cohen_kappa([0, 2, 1, 1], [0, 1, 1, 2], weights="linear"))
    assert named == numbered
    with pytest.raises(UnknownName, match="high"):
        stats.cohen_kappa(first, second, labels=["low", "mid"])


@pytest.mark.parametrize(
    ("ratings", "note"),
    [
        ([], "undefined: no target has two ratings"),
        ([["a", None], [None, "b"]], "undefined: no target has two ratings; 2 with fewer"),
        ([["a", "a"], ["a", "a"]], "undefined (one class)"),
        ([["a", "b"]], "no interval: one target"),
        ([["a", "a"], ["b", "b"]], "the zero width of the interval is no precision; "),
    ],
)
def test_degenerate_ratings_are_labelled(ratings: Any, note: str) -> None:
    row = only(stats.krippendorff_alpha(ratings))
    assert row["note"].startswith(note)


def test_alpha_of_many_distinct_scores_stays_small_and_quick() -> None:
    random = np.random.default_rng(2)
    truth = random.normal(size=(3000, 1))
    scores = truth + random.normal(size=(3000, 3))
    row = only(stats.krippendorff_alpha(scores, level="interval", n_resamples=100))
    assert row["alpha"] == pytest.approx(0.5, abs=0.05)
    assert row["low"] < row["alpha"] < row["high"]


def test_agreement_counts_pairs_and_skips_lonely_ratings() -> None:
    row = only(stats.agreement([["a", "a", "b"], ["b", "b", "b"], ["a", None, None]]))
    assert (row["n"], row["n_lost"], row["n_pairs"]) == (2, 1, 6)
    assert row["agreement"] == pytest.approx(4 / 6)
    assert row["unanimous"] == 0.5
    two = only(stats.agreement([["a", "a"], ["b", "b"], ["a", "b"], ["c", "c"]]))
    assert two["interval"] == "Wilson"
    assert two["agreement"] == 0.75
    assert only(stats.agreement([], []))["note"].startswith("undefined")


def test_one_cluster_is_not_usable() -> None:
    row = only(stats.clustered_mean([1, 0, 1], ["q", "q", "q"]))
    assert (row["se_cluster_cr0"], row["se_cluster_cr1"], row["low"]) == (
        pytest.approx(0),
        None,
        None,
    )
    assert row["note"] == "not usable: one cluster"


def test_a_rate_without_exception_gets_an_interval_over_clusters() -> None:
    row = only(stats.clustered_mean([1] * 6, [1, 1, 2, 2, 3, 3]))
    wilson = only(stats.proportion_interval(3, 3))
    assert (row["low"], row["high"]) == (wilson["wilson_low"], 1)
    assert row["interval"] == "Wilson over clusters"
    other = only(stats.clustered_mean([0.1] * 6, [1, 1, 2, 2, 3, 3]))
    assert (other["low"], other["se_cluster_cr1"]) == (None, 0)
    assert other["interval"] == "none: all clusters alike"


def test_a_weight_counts_like_copies_of_a_score() -> None:
    weighted = only(stats.clustered_mean([1, 0, 0.5], ["p", "q", "r"], weights=[3, 1, 2]))
    copied = only(stats.clustered_mean([1, 1, 1, 0, 0.5, 0.5], ["p", "p", "p", "q", "r", "r"]))
    for name in ("mean", "se_cluster_cr0", "se_cluster_cr1", "low", "high"):
        assert weighted[name] == pytest.approx(copied[name]), name


def test_a_null_p_value_is_left_out_of_the_family() -> None:
    frame = stats.adjust([0.01, None, 0.04, float("nan")])
    assert frame["bonferroni"].to_list() == [0.02, None, 0.08, None]
    assert frame["reject_holm"].to_list() == [True, None, True, None]
    assert stats.adjust([None, None])["holm"].to_list() == [None, None]
    with pytest.raises(RagbenchError, match="outside 0 to 1"):
        stats.adjust([0.5, 1.2])


def test_power_without_an_effect_promises_nothing() -> None:
    row = only(stats.paired_power(0.1, 0.1, n=200))
    assert row["n_needed"] is None
    assert row["power"] < 0.05
    assert only(stats.paired_power(0, 0, n=10))["power"] == 0
    assert only(stats.paired_power(0.2, 0.1, n=0))["mde"] is None


def test_a_misspelt_choice_is_answered_with_the_near_miss() -> None:
    with pytest.raises(UnknownName, match="did you mean 'greater'"):
        stats.mcnemar(3, 1, alternative="greter")
    with pytest.raises(UnknownName, match="did you mean 'paired'"):
        stats.tost([1], [2], design="pared")


@pytest.mark.parametrize("values", [["1", "0"], [1, math.inf], [[1], [0]], [object(), 1]])
def test_values_that_are_no_numbers_are_refused(values: Any) -> None:
    with pytest.raises(RagbenchError):
        stats.paired_t(values, [1, 0])


def test_a_text_column_among_ratings_is_named() -> None:
    frame = pl.DataFrame({"model": ["a", "b"], "judge": [1.0, 2.0]})
    with pytest.raises(RagbenchError, match="'model'"):
        stats.icc2k(frame)


# --- choices -------------------------------------------------------------------------------------


def test_verdicts_follow_the_intervals() -> None:
    small = only(stats.tost_estimate(0.05, 0.02, margin=0.2))
    assert (small["verdict"], small["p_value"] < 0.05) == ("equivalent", True)
    assert "excludes 0" in small["note"]
    assert only(stats.tost_estimate(0.3, 0.02))["verdict"] == "different"
    assert only(stats.tost_estimate(0.05, 0.2))["verdict"] == "inconclusive"
    near = only(stats.tost_estimate(-0.15, 0.06))
    assert (round(near["p_value"], 3), near["verdict_standard_90"]) == (0.202, "different")


def test_the_smallest_margin_is_where_the_verdict_turns() -> None:
    x, y = [0.31, 0.52, 0.18, 0.44, 0.27], [0.14, 0.36, 0.17, 0.29, 0.13]
    for rule, column in (("paper_95", "95"), ("standard_90", "90")):
        margin = only(stats.tost(x, y))[f"smallest_margin_{column}"]
        assert only(stats.tost(x, y, margin=margin * 1.0001))[f"equivalent_{rule}"]
        assert not only(stats.tost(x, y, margin=margin * 0.9999))[f"equivalent_{rule}"]


def test_an_estimate_with_degrees_of_freedom_is_the_t_test() -> None:
    x, y = [0.44, 0.41, 0.33, 0.37, 0.26], [0.4, 0.36, 0.36, 0.3, 0.19]
    whole = only(stats.tost(x, y))
    part = only(stats.tost_estimate(whole["mean_diff"], whole["se"], df=whole["df"]))
    for name in ("p_value", "low_90", "high_95", "t_lower"):
        assert part[name] == pytest.approx(whole[name])


def test_few_values_and_many_values_are_resampled_to_the_same_interval() -> None:
    random = np.random.default_rng(5)
    x = random.integers(0, 5, 300) / 4
    few = only(stats.paired_bootstrap(x, np.zeros(300)))
    many = only(stats.paired_bootstrap(x + random.normal(0, 1e-9, 300), np.zeros(300)))
    assert (few["method"], many["method"]) == ("multinomial", "resampled")
    for name in ("diff", "se", "low", "high"):
        assert few[name] == pytest.approx(many[name], abs=0.004)


def test_pairing_makes_the_interval_as_narrow_as_it_should_be() -> None:
    # Drawn apart, these sides would give a half-width near 0.065.
    row = only(stats.paired_bootstrap(*outcomes(200, 12, 8, 227)))
    assert row["high"] - row["low"] < 0.05


def test_a_seed_repeats_and_another_seed_differs() -> None:
    counts = (400_000, 150_000, 149_000, 301_000)
    assert stats.paired_bootstrap(counts=counts).equals(stats.paired_bootstrap(counts=counts))
    assert not stats.paired_bootstrap(counts=counts).equals(
        stats.paired_bootstrap(counts=counts, seed=1)
    )


def test_a_million_pairs_cost_what_447_cost() -> None:
    def seconds(counts: tuple[int, ...]) -> float:
        best = math.inf
        for _ in range(5):
            start = time.perf_counter()
            stats.paired_bootstrap(counts=counts)
            best = min(best, time.perf_counter() - start)
        return best

    small = seconds((63, 57, 30, 297))
    assert seconds((400_000, 150_000, 149_000, 301_000)) < 5 * small + 0.02


def test_series_arrays_and_lists_say_the_same() -> None:
    x, y = [True, False, True, True], [False, False, True, False]
    expected = stats.mcnemar(x, y)
    assert stats.mcnemar(np.array(x), np.array(y)).equals(expected)
    assert stats.mcnemar(pl.Series(x), pl.Series(y)).equals(expected)
    assert stats.mcnemar(np.int64(2), np.int64(0)).drop("n").equals(expected.drop("n"))


def test_results_keep_their_types_whatever_is_null() -> None:
    assert stats.two_proportions(0, 0, 1, 2).schema == stats.two_proportions(1, 4, 1, 2).schema
    assert stats.icc2k([]).schema == stats.icc2k(TARGETS[:9]).schema
    assert stats.adjust([]).schema == stats.adjust([0.1]).schema


def test_importing_the_statistics_loads_no_heavy_library() -> None:
    heavy = "('scipy', 'statsmodels', 'pingouin', 'pandas', 'plotly')"
    code = f"import sys, ragbench.stats; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_the_page_on_statistics_names_every_function() -> None:
    page = (PAPER.parents[1] / "docs" / "statistics.md").read_text("utf-8")
    assert [name for name in stats.__all__ if f"`{name}" not in page] == []
