"""Every statistic against answers from outside: reference cases and published tables."""

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
from ragbench.errors import UnknownColumn

# Nothing here may warn on a researcher's screen.
pytestmark = pytest.mark.filterwarnings("error")

GOLDEN = Path(__file__).parent / "golden"
PAPER = Path(__file__).parents[1] / "data" / "paper"


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
