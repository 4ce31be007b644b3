"""What must hold of the statistics for any input, and a second way to the same number."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragbench import stats

pytestmark = pytest.mark.filterwarnings("error")

quick = settings(max_examples=40, deadline=None, derandomize=True)

count = st.integers(0, 60)
score = st.integers(0, 20).map(lambda k: k / 20)
pairs = st.lists(st.tuples(score, score), min_size=0, max_size=25)
sides = st.sampled_from(["two-sided", "greater", "less"])
OTHER_WAY = {"two-sided": "two-sided", "greater": "less", "less": "greater"}


def only(frame: Any) -> dict[str, Any]:
    assert frame.height == 1
    assert not any(isinstance(v, float) and not math.isfinite(v) for v in frame.row(0))
    return frame.row(0, named=True)


def assert_probability(*values: float | None) -> None:
    assert all(value is None or 0 <= value <= 1 for value in values)


def assert_within(row: dict[str, Any], estimate: str, *intervals: tuple[str, str]) -> None:
    for low, high in intervals:
        if row[low] is not None and row[high] is not None:
            assert row[low] - 1e-9 <= row[estimate] <= row[high] + 1e-9, (low, high)


@quick
@given(count, count, sides)
def test_mcnemar_of_swapped_systems_is_the_mirrored_test(b: int, c: int, side: str) -> None:
    row = only(stats.mcnemar(b, c, alternative=side))
    swapped = only(stats.mcnemar(c, b, alternative=OTHER_WAY[side]))
    for name in ("p_value", "p_mid", "p_value_shrink"):
        assert_probability(row[name])
        assert row[name] == pytest.approx(swapped[name])
    assert row["p_mid"] <= 1


@quick
@given(count, count)
def test_mcnemar_agrees_with_statsmodels(b: int, c: int) -> None:
    from statsmodels.stats.contingency_tables import mcnemar

    assume(b != c)  # there the library's correction overshoots
    row = only(stats.mcnemar(b, c))
    is_exact = b + c < 25
    other = mcnemar([[5, b], [c, 5]], exact=is_exact, correction=True)
    assert row["method"] == ("exact" if is_exact else "z_cc")
    assert row["p_value"] == pytest.approx(other.pvalue, rel=1e-9)


@quick
@given(count, count)
def test_more_successes_of_the_first_never_weaken_the_case_for_it(b: int, c: int) -> None:
    # Not across the threshold of 25, where the test itself changes.
    assume(b + c != 24)
    more = only(stats.mcnemar(b + 1, c, alternative="greater"))["p_value"]
    assert more <= only(stats.mcnemar(b, c, alternative="greater"))["p_value"] + 1e-12


@quick
@given(pairs, st.randoms())
def test_a_bootstrap_ignores_order_and_mirrors_when_swapped(
    drawn: list[tuple[float, float]], random: Any
) -> None:
    x, y = [a for a, _ in drawn], [b for _, b in drawn]
    row = only(stats.paired_bootstrap(x, y, n_resamples=2000))
    shuffled = random.sample(drawn, len(drawn))
    again = (
        only(stats.paired_bootstrap(*zip(*shuffled, strict=True), n_resamples=2000))
        if drawn
        else row
    )
    assert again == row
    if not drawn:
        assert row["diff"] is None
        return
    assert row["diff"] == pytest.approx(np.mean(x) - np.mean(y), abs=1e-12)
    assert row["low"] <= row["high"]
    swapped = only(stats.paired_bootstrap(y, x, n_resamples=2000))
    assert swapped["diff"] == pytest.approx(-row["diff"], abs=1e-12)
    assert swapped["low"] == pytest.approx(-row["high"], abs=6 * row["se"] / math.sqrt(100))


@quick
@given(pairs)
def test_a_bootstrap_of_a_million_times_the_pairs_centres_on_the_same_difference(
    drawn: list[tuple[float, float]],
) -> None:
    cells = [sum((a > 0.5, b > 0.5) == cell for a, b in drawn)
             for cell in ((True, True), (True, False), (False, True), (False, False))]  # fmt: skip
    assume(sum(cells))
    small = only(stats.paired_bootstrap(counts=cells, n_resamples=1000))
    large = only(stats.paired_bootstrap(counts=[k * 1_000_000 for k in cells], n_resamples=1000))
    assert large["diff"] == pytest.approx(small["diff"])
    assert large["se"] == pytest.approx(small["se"] / 1000)
    assert_within(large, "diff", ("low", "high"))


@quick
@given(pairs, sides)
def test_the_paired_t_test_mirrors_and_ignores_a_shift(
    drawn: list[tuple[float, float]], side: str
) -> None:
    x, y = np.array([a for a, _ in drawn]), np.array([b for _, b in drawn])
    row = only(stats.paired_t(x, y, alternative=side))
    swapped = only(stats.paired_t(y, x, alternative=OTHER_WAY[side]))
    moved = only(stats.paired_t(x * 100 + 7, y * 100 + 7, alternative=side))
    assert_probability(row["p_value"])
    assert_within(row, "mean_diff", ("low", "high"))
    for other, sign in ((swapped, -1), (moved, 1)):
        assert (row["p_value"] is None) == (other["p_value"] is None)
        if row["p_value"] is not None:
            assert other["p_value"] == pytest.approx(row["p_value"], abs=1e-9)
            assert other["d_z"] == pytest.approx(sign * row["d_z"])
            assert row["d_z"] == pytest.approx(row["t"] / math.sqrt(row["n"]))


@quick
@given(st.tuples(count, count, count, count), sides)
def test_two_proportions_mirror_when_groups_or_outcomes_are_swapped(
    cells: tuple[int, int, int, int], side: str
) -> None:
    a, b, c, d = cells
    row = only(stats.two_proportions(a, a + b, c, c + d, alternative=side))
    assert_probability(row["p_value"])
    spans = [(f"{kind}_low", f"{kind}_high") for kind in ("wald", "newcombe")]
    assert_within(row, "diff", *spans)
    for other in (
        only(stats.two_proportions(c, c + d, a, a + b, alternative=OTHER_WAY[side])),
        only(stats.two_proportions(b, a + b, d, c + d, alternative=OTHER_WAY[side])),
    ):
        assert other["method"] == row["method"]
        if row["p_value"] is not None:
            assert other["p_value"] == pytest.approx(row["p_value"], abs=1e-9)
            assert other["diff"] == pytest.approx(-row["diff"], abs=1e-12)
            assert other["newcombe_low"] == pytest.approx(-row["newcombe_high"], abs=1e-9)


@quick
@given(st.tuples(count, count, count, count))
def test_the_yates_statistic_is_the_formula(cells: tuple[int, int, int, int]) -> None:
    a, b, c, d = cells
    row = only(stats.two_proportions(a, a + b, c, c + d))
    if row["method"] != "chi2_yates":
        return
    n = sum(cells)
    inner = max(0.0, abs(a * d - b * c) - n / 2)
    formula = n * inner**2 / ((a + b) * (c + d) * (a + c) * (b + d))
    assert row["statistic"] == pytest.approx(formula, abs=1e-9)


@quick
@given(count, count)
def test_intervals_of_a_rate_contain_it_and_agree_with_statsmodels(x: int, extra: int) -> None:
    from statsmodels.stats.proportion import proportion_confint

    n = x + extra
    row = only(stats.proportion_interval(x, n))
    if not n:
        assert row["p"] is None
        return
    names = {"wilson": "wilson", "clopper_pearson": "beta"}
    assert_within(row, "p", *((f"{kind}_low", f"{kind}_high") for kind in (*names, "wald")))
    for kind, method in names.items():
        low, high = proportion_confint(x, n, method=method)
        assert row[f"{kind}_low"] == pytest.approx(low, abs=1e-9)
        assert row[f"{kind}_high"] == pytest.approx(high, abs=1e-9)


strata = st.lists(
    st.tuples(count, count, count, count).map(lambda c: (c[0], c[0] + c[1], c[2], c[2] + c[3])),
    max_size=5,
)


@quick
@given(strata, sides)
def test_strata_can_come_in_any_order_and_groups_can_be_swapped(
    cells: list[tuple[int, int, int, int]], side: str
) -> None:
    row = only(stats.mantel_haenszel(cells, alternative=side))
    assert_probability(row["p_value"], row["homogeneity_p_value"])
    if row["diff"] is not None:
        assert_within(row, "diff", ("diff_low", "diff_high"))
    if row["odds_ratio"] is not None:
        assert_within(row, "odds_ratio", ("odds_ratio_low", "odds_ratio_high"))
    turned = only(stats.mantel_haenszel(cells[::-1], alternative=side))
    swapped = only(
        stats.mantel_haenszel([(c, d, a, b) for a, b, c, d in cells], alternative=OTHER_WAY[side])
    )
    for name in ("diff", "p_value", "statistic"):
        if row[name] is not None:
            assert turned[name] == pytest.approx(row[name], abs=1e-9)
    if row["diff"] is not None:
        assert swapped["diff"] == pytest.approx(-row["diff"], abs=1e-9)
        assert swapped["p_value"] == pytest.approx(row["p_value"], abs=1e-9)


@quick
@given(strata)
def test_breslow_day_agrees_with_statsmodels_where_that_is_stable(
    cells: list[tuple[int, int, int, int]],
) -> None:
    from statsmodels.stats.contingency_tables import StratifiedTable

    inner = [(a, m, b, k) for a, m, b, k in cells if 0 < a < m and 0 < b < k]
    assume(len(inner) > 1)
    row = only(stats.mantel_haenszel(inner))
    assume(abs(row["odds_ratio"] - 1) > 0.01)
    other = StratifiedTable([[[a, m - a], [b, k - b]] for a, m, b, k in inner])
    expected = other.test_equal_odds(adjust=True)
    assert row["homogeneity_statistic"] == pytest.approx(expected.statistic, rel=1e-6, abs=1e-6)


@quick
@given(pairs, st.floats(0.05, 1))
def test_tost_mirrors_and_its_p_is_the_larger_one(
    drawn: list[tuple[float, float]], margin: float
) -> None:
    x, y = [a for a, _ in drawn], [b for _, b in drawn]
    for design in ("paired", "independent"):
        row = only(stats.tost(x, y, margin=margin, design=design))
        swapped = only(stats.tost(y, x, margin=margin, design=design))
        assert row["verdict"] == swapped["verdict"]
        if row["p_value"] is None:
            assert row["note"]
            continue
        assert_probability(row["p_value"])
        assert row["p_value"] == max(row["p_lower"], row["p_upper"])
        assert swapped["p_value"] == pytest.approx(row["p_value"], abs=1e-9)
        assert (
            row["low_95"] <= row["low_90"] <= row["mean_diff"] <= row["high_90"] <= row["high_95"]
        )
        if abs(row["p_value"] - 0.05) > 1e-9:
            assert row["equivalent_standard_90"] == (row["p_value"] < 0.05)
        if row["equivalent_paper_95"]:
            assert row["equivalent_standard_90"]  # the paper's rule is the stricter one


@quick
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=5))
def test_exact_spearman_is_the_share_of_all_orders(drawn: list[tuple[int, int]]) -> None:
    from scipy.stats import rankdata

    x, y = rankdata([a for a, _ in drawn]), rankdata([b for _, b in drawn])
    row = only(stats.spearman([a for a, _ in drawn], [b for _, b in drawn]))
    if row["rho"] is None:
        assert len(set(x)) == 1 or len(set(y)) == 1
        return
    assert row["rho"] == pytest.approx(np.corrcoef(x, y)[0, 1])
    every = [np.corrcoef(order, y)[0, 1] for order in permutations(x)]
    assert row["p_value"] == pytest.approx(
        np.mean([abs(r) >= abs(row["rho"]) - 1e-9 for r in every])
    )
    assert row["p_exact_less"] == pytest.approx(np.mean([r <= row["rho"] + 1e-9 for r in every]))


@quick
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=7))
def test_spearman_is_symmetric_and_knows_only_ranks(drawn: list[tuple[int, int]]) -> None:
    x, y = [a for a, _ in drawn], [b for _, b in drawn]
    row = only(stats.spearman(x, y))
    stretched = only(stats.spearman([2.0**a for a in x], y))
    swapped = only(stats.spearman(y, x))
    negated = only(stats.spearman(x, [-b for b in y]))
    assert_probability(*(row[name] for name in row if name.startswith("p_")))
    if row["rho"] is not None:
        assert stretched["p_value"] == row["p_value"] == pytest.approx(swapped["p_value"])
        assert negated["rho"] == pytest.approx(-row["rho"])
        assert negated["p_exact_greater"] == pytest.approx(row["p_exact_less"])


tables = st.integers(2, 4).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 10), min_size=k, max_size=k), min_size=3, max_size=8)
)


@settings(quick, max_examples=20)
@given(tables, st.randoms())
def test_the_icc_is_its_formula_and_ignores_order_and_level(ratings: Any, random: Any) -> None:
    scores = np.array(ratings, dtype=float)
    n, k = scores.shape
    row = only(stats.icc2k(scores))
    if row["F"] is None:
        return
    middle = scores.mean()
    between = k * ((scores.mean(1) - middle) ** 2).sum()
    raters = n * ((scores.mean(0) - middle) ** 2).sum()
    rest = ((scores - middle) ** 2).sum() - between - raters
    msb, msj, mse = between / (n - 1), raters / (k - 1), rest / ((n - 1) * (k - 1))
    if abs(msb + (msj - mse) / n) > 1e-6:
        assert row["icc2_k"] == pytest.approx((msb - mse) / (msb + (msj - mse) / n), abs=1e-6)
    assert row["F"] == pytest.approx(msb / mse, abs=1e-6)
    if row["icc2_k"] is not None and row["icc2_k"] <= 1:
        assert_within(row, "icc2_k", ("icc2_k_low", "icc2_k_high"))
    else:
        assert row["note"].startswith("not meaningful")
        assert row["icc2_k_low"] is None
    moved = only(
        stats.icc2k(scores[random.sample(range(n), n)][:, random.sample(range(k), k)] + 90)
    )
    for name in ("icc2_1", "icc2_k", "icc2_k_low", "F"):
        if row[name] is not None and abs(row[name]) < 1e3:
            assert moved[name] == pytest.approx(row[name], rel=1e-6, abs=1e-6), name


labelled = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


@quick
@given(labelled, st.sampled_from([None, "linear", "quadratic"]))
def test_kappa_is_symmetric_and_agrees_with_scikit_learn(
    drawn: list[tuple[int, int]], weights: str | None
) -> None:
    from sklearn.metrics import cohen_kappa_score

    first, second = [a for a, _ in drawn], [b for _, b in drawn]
    row = only(stats.cohen_kappa(first, second, weights=weights))
    swapped = only(stats.cohen_kappa(second, first, weights=weights))
    assert row["percent_agreement"] == np.mean(np.array(first) == np.array(second))
    if row["kappa"] is None:
        assert row["note"] == "undefined (one class)"
        return
    # Weights count steps between the classes in use.
    ranks = {label: rank for rank, label in enumerate(sorted({*first, *second}))}
    other = cohen_kappa_score(
        [ranks[a] for a in first], [ranks[b] for b in second], weights=weights
    )
    assert row["kappa"] == pytest.approx(other, abs=1e-9)
    assert swapped["kappa"] == pytest.approx(row["kappa"], abs=1e-9)
    assert swapped["se"] == pytest.approx(row["se"], abs=1e-6)
    assert_within(row, "kappa", ("low", "high"))
    assert row["kappa"] <= 1


rated = st.lists(
    st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=3, max_size=3),
    min_size=1,
    max_size=15,
)
DISTANCE = {"nominal": lambda x, y: float(x != y), "interval": lambda x, y: float((x - y) ** 2)}


@quick
@given(rated, st.sampled_from(["nominal", "ordinal", "interval"]), st.randoms())
def test_alpha_is_its_definition_and_ignores_order(ratings: Any, level: str, random: Any) -> None:
    row = only(stats.krippendorff_alpha(ratings, level=level, n_resamples=200))
    units = [[v for v in unit if v is not None] for unit in ratings]
    units = [unit for unit in units if len(unit) > 1]
    pool = [v for unit in units for v in unit]
    assert row["n_ratings"] == len(pool)
    if len(set(pool)) < 2:
        assert row["alpha"] is None
        assert row["note"]
        return

    def ordinal(x: int, y: int) -> float:
        low, high = min(x, y), max(x, y)
        between = sum(low <= v <= high for v in pool)
        return (between - (pool.count(x) + pool.count(y)) / 2) ** 2 if x != y else 0.0

    distance = {**DISTANCE, "ordinal": ordinal}[level]
    within = sum(sum(distance(x, y) for x in u for y in u) / (len(u) - 1) for u in units)
    overall = sum(distance(x, y) for x in pool for y in pool) / (len(pool) - 1)
    assert row["alpha"] == pytest.approx(1 - within / overall, abs=1e-9)
    assert row["alpha"] <= 1 + 1e-12
    mixed = [random.sample(unit, 3) for unit in random.sample(ratings, len(ratings))]
    again = only(stats.krippendorff_alpha(mixed, level=level, n_resamples=0))
    assert again["alpha"] == pytest.approx(row["alpha"], abs=1e-9)
    if row["low"] is not None:
        assert row["low"] <= row["high"] <= 1 + 1e-12


@quick
@given(rated)
def test_agreement_is_the_share_of_equal_pairs(ratings: Any) -> None:
    row = only(stats.agreement(ratings))
    pairs_of = [
        (x, y)
        for unit in ratings
        for i, x in enumerate(unit)
        for y in unit[i + 1 :]
        if x is not None and y is not None
    ]
    assert row["n_pairs"] == len(pairs_of)
    if pairs_of:
        assert row["agreement"] == pytest.approx(np.mean([x == y for x, y in pairs_of]))
        given_sets = [{v for v in unit if v is not None} for unit in ratings]
        twice = [sum(v is not None for v in unit) > 1 for unit in ratings]
        alike = [len(s) == 1 for s, is_rated in zip(given_sets, twice, strict=True) if is_rated]
        assert row["unanimous"] == pytest.approx(np.mean(alike))
        assert_within(row, "agreement", ("low", "high"))


@quick
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=20), st.randoms())
def test_adjusted_p_values_keep_order_and_agree_with_scipy(
    p_values: list[float | None], random: Any
) -> None:
    from scipy.stats import false_discovery_control

    frame = stats.adjust(p_values)
    known = [p for p in p_values if p is not None]
    assert frame["p_value"].to_list() == p_values
    if known:
        kept = frame.drop_nulls("p_value")
        assert kept["bh"].to_list() == pytest.approx(list(false_discovery_control(known)))
        m = len(known)
        assert kept["bonferroni"].to_list() == pytest.approx([min(1, m * p) for p in known])
        ranked = sorted(known)
        holm = {p: min(1, max((m - i) * q for i, q in enumerate(ranked) if q <= p)) for p in known}
        assert kept["holm"].to_list() == pytest.approx([holm[p] for p in known])
        ordered = kept.sort("p_value")
        for name in ("bonferroni", "holm", "bh"):
            assert ordered[name].is_sorted()
            assert (kept[name] >= kept["p_value"] - 1e-15).all()
            assert kept[name].max() <= 1
    places = random.sample(range(len(p_values)), len(p_values))
    shuffled = stats.adjust([p_values[i] for i in places])
    assert shuffled["holm"].to_list() == [frame["holm"][i] for i in places]


clustered = st.lists(
    st.tuples(score, st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=30
)


@quick
@given(clustered)
def test_clustered_errors_are_their_formulas(drawn: list[tuple[float, int, int]]) -> None:
    s, codes, w = (np.array(part, dtype=float) for part in zip(*drawn, strict=True))
    row = only(stats.clustered_mean(s, codes.astype(int), weights=w))
    groups = sorted(set(codes))
    mean = (w * s).sum() / w.sum()
    sums = np.array([(w * (s - mean))[codes == g].sum() for g in groups])
    cr0 = math.sqrt((sums**2).sum()) / w.sum()
    assert row["mean"] == pytest.approx(mean)
    assert row["se_cluster_cr0"] == pytest.approx(cr0, abs=1e-12)
    if len(groups) < 2:
        assert row["low"] is None
        return
    assert row["se_cluster_cr1"] == pytest.approx(
        cr0 * math.sqrt(len(groups) / (len(groups) - 1)), abs=1e-10
    )
    assert_within(row, "mean", ("low", "high"))


@quick
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 6)), min_size=2, max_size=40))
def test_the_closed_form_behind_scores_is_the_library_s_interval(
    drawn: list[tuple[int, int]],
) -> None:
    from ragbench.intervals import Sums, clustered_error

    scores, queries = [a for a, _ in drawn], [q for _, q in drawn]
    row = only(stats.clustered_mean(scores, queries))
    assume(row["se_cluster_cr1"] is not None)
    n = [queries.count(q) for q in sorted(set(queries))]
    t = [sum(a for a, q2 in drawn if q2 == q) for q in sorted(set(queries))]
    sums = Sums(
        n=sum(n),
        total=sum(t),
        planned=sum(n),
        lowest=None,
        highest=None,
        queries=len(n),
        nn=sum(k * k for k in n),
        ss=sum(k * k for k in t),
        ns=sum(i * j for i, j in zip(n, t, strict=True)),
    )
    assert clustered_error(sums) == pytest.approx(row["se_cluster_cr1"], abs=1e-7)


@quick
@given(
    st.integers(1, 40),
    st.integers(0, 10),
    st.integers(0, 10),
    st.sampled_from(["two-sided", "greater"]),
    st.sampled_from([0.005, 0.05, 0.2]),
)
def test_power_is_the_chance_that_mcnemar_rejects(
    n: int, only_a: int, only_b: int, side: str, alpha: float
) -> None:
    p10, p01 = only_a / 20, only_b / 20
    row = only(stats.paired_power(p10, p01, n=n, alpha=alpha, alternative=side))
    assert row["power"] == pytest.approx(power_by_every_table(n, p10, p01, alpha, side), abs=1e-9)


P_VALUES: dict[tuple[int, int, str], float] = {}


def power_by_every_table(n: int, p10: float, p01: float, alpha: float, side: str) -> float:
    total = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            key = (b, c, side)
            chance = (
                math.comb(n, b) * math.comb(n - b, c)
                * p10**b * p01**c * max(0.0, 1 - p10 - p01) ** (n - b - c)
            )  # fmt: skip
            if chance:
                if key not in P_VALUES:
                    P_VALUES[key] = only(stats.mcnemar(b, c, alternative=side))["p_value"]
                total += chance * (P_VALUES[key] <= alpha)
    return total


@quick
@given(st.integers(1, 19), st.integers(1, 19))
def test_needed_instances_give_about_the_power_asked_for(only_a: int, only_b: int) -> None:
    p10, p01 = only_a / 40, only_b / 40
    assume(abs(p10 - p01) >= 0.05)
    row = only(stats.paired_power(p10, p01, power=0.8))
    assume(row["n_ceil"] > 60)
    got = only(stats.paired_power(p10, p01, n=row["n_ceil"]))["power"]
    assert 0.7 < got < 0.86
