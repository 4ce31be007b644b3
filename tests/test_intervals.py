"""Intervals: the closed forms against statsmodels and against published cases."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from ragbench import intervals

GOLDEN = Path(__file__).parent / "golden"
_quick = settings(max_examples=60, deadline=None)


def golden(name: str) -> list[dict]:
    return json.loads((GOLDEN / f"{name}.json").read_text())["cases"]


def sums(scores, clusters, weights=None):
    """What SQL gives to `intervals`: sums over the clusters of weights and weighted scores."""
    scores = np.asarray(scores, dtype=float)
    weights = np.ones_like(scores) if weights is None else np.asarray(weights, dtype=float)
    codes = np.unique([str(name) for name in clusters], return_inverse=True)[1]
    n = np.bincount(codes, weights)
    s = np.bincount(codes, weights * scores)
    return intervals.Sums(
        *(n.sum(), s.sum(), n.sum(), s.sum(), s.sum(), len(n)),
        *((n * n).sum(), (s * s).sum(), (n * s).sum()),
    )


def detail(scores, clusters, *, is_binary=False, limits=(0.0, 1.0), weights=None):
    return intervals.detail(sums(scores, clusters, weights), is_binary=is_binary, bounds=limits)


def least_squares(scores, clusters):
    """Mean and standard error of a regression on a constant, clustered (CR1)."""
    codes = np.unique([str(name) for name in clusters], return_inverse=True)[1]
    fit = sm.OLS(np.asarray(scores, dtype=float), np.ones(len(scores))).fit(
        cov_type="cluster", cov_kwds={"groups": codes}
    )
    return float(fit.params[0]), float(fit.bse[0]), len(set(codes))


clustered_data = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 0.7, 1.0]), st.integers(0, 12)),
    min_size=3,
    max_size=80,
).filter(lambda rows: len({cluster for _, cluster in rows}) > 1)


@_quick
@given(clustered_data)
def test_the_mean_and_its_interval_are_those_of_clustered_least_squares(rows):
    scores, clusters = zip(*rows, strict=True)
    mean, error, groups = least_squares(scores, clusters)
    found = detail(scores, clusters)
    assert found.value == pytest.approx(mean, abs=1e-12)
    if error < 1e-8:
        assert found.interval != "clustered by query"
        return
    reach = stats.t.ppf(0.975, groups - 1) * error
    assert found.interval == "clustered by query"
    assert found.low == pytest.approx(max(0, mean - reach), abs=1e-9)
    assert found.high == pytest.approx(min(1, mean + reach), abs=1e-9)


@_quick
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.floats(0, 1), st.integers(0, 8)), min_size=2, max_size=40
    ).filter(lambda rows: len({cluster for *_, cluster in rows}) > 1)
)
def test_a_pooled_ratio_is_a_regression_over_single_constraints(rows):
    satisfied = [round(share * planned) for planned, share, _ in rows]
    planned = [planned for planned, *_ in rows]
    clusters = [cluster for *_, cluster in rows]
    found = detail(
        [s / p for s, p in zip(satisfied, planned, strict=True)], clusters, weights=planned
    )
    single = [i < s for s, p in zip(satisfied, planned, strict=True) for i in range(p)]
    mean, error, groups = least_squares(single, np.repeat(clusters, planned))
    assert found.value == pytest.approx(mean, abs=1e-12)
    assert found.n == len(single)
    if error > 1e-8:
        reach = stats.t.ppf(0.975, groups - 1) * error
        assert found.low == pytest.approx(max(0, mean - reach), abs=1e-9)
        assert found.high == pytest.approx(min(1, mean + reach), abs=1e-9)


def test_the_ratio_s_error_is_the_delta_method_s():
    # Linearised by hand: r = sum(s) / sum(n) moves by (s - r n) / sum(n) when a query is added.
    n, s = np.array([1.0, 9, 4, 6]), np.array([1.0, 5, 4, 1])
    ratio = s.sum() / n.sum()
    gradient = np.array([-ratio, 1]) / n.mean()
    variance = gradient @ np.cov(np.vstack([n, s])) @ gradient / len(n)
    found = intervals.clustered_error(sums(s / n, range(4), n))
    # `np.cov` centres n and s; their residuals sum to zero, so the two agree.
    assert found == pytest.approx(math.sqrt(variance), abs=1e-12)


@pytest.mark.parametrize("case", golden("clustered_se"), ids=lambda case: case["id"])
def test_reference_cases_of_clustered_errors(case):
    scores, clusters = case["inputs"]["score"], case["inputs"]["cluster"]
    expected = case["expected"]
    found = sums(scores, clusters)
    assert found.queries == expected["n_clusters"]
    assert detail(scores, clusters).value == pytest.approx(expected["mean"], abs=1e-9)
    if expected["se_cluster_cr1"] is None:
        assert detail(scores, clusters).interval == "none: one query"
    else:
        error = expected["se_cluster_cr1"]
        assert intervals.clustered_error(found) == pytest.approx(error, abs=1e-9, rel=1e-8)


@pytest.mark.parametrize("case", golden("single_proportion_ci"), ids=lambda case: case["id"])
def test_reference_cases_of_wilson(case):
    if case["inputs"]["n"]:
        limits = intervals.wilson(case["inputs"]["x"], case["inputs"]["n"])
        assert limits == pytest.approx(tuple(case["expected"]["wilson"]), abs=1e-9, rel=1e-8)


@_quick
@given(st.integers(1, 5000), st.floats(0, 1))
def test_wilson_is_statsmodels_wilson(n, share):
    successes = round(share * n)
    low, high = proportion_confint(successes, n, method="wilson")
    assert intervals.wilson(successes, n) == pytest.approx((low, high), abs=1e-12)
    assert 0 <= intervals.wilson(successes, n)[0] <= successes / n
    assert successes / n <= intervals.wilson(successes, n)[1] <= 1


def test_wilson_does_not_close_at_the_ends():
    assert intervals.wilson(0, 27) == pytest.approx((0, 0.1246), abs=5e-5)
    assert intervals.wilson(27, 27) == pytest.approx((1 - 0.1246, 1), abs=5e-5)
    assert intervals.wilson(0, 1) == pytest.approx((0, 0.7935), abs=5e-5)
    assert (intervals.wilson(0, 27)[0], intervals.wilson(27, 27)[1]) == (0, 1)


@pytest.mark.parametrize("df", [1, 2, 5, 30, 490, 1e6])
def test_student_s_t_is_scipy_stats_s(df):
    assert intervals.t_quantile(df) == pytest.approx(stats.t.ppf(0.975, df), rel=1e-12)
    for statistic in (0.0, -0.3, 2.5, 40.0):
        p = 2 * stats.t.sf(abs(statistic), df)
        assert intervals.t_p_value(statistic, df) == pytest.approx(p, rel=1e-9, abs=1e-300)


def test_one_yes_or_no_per_query_is_wilson_and_two_are_clustered():
    one = detail([1, 0, 1], "abc", is_binary=True)
    assert (one.low, one.high, one.interval) == (*intervals.wilson(2, 3), "Wilson")
    assert detail([1, 0, 1, 1], "aabc", is_binary=True).interval == "clustered by query"
    assert detail([1, 0.5, 1], "abc").interval == "clustered by query"


@pytest.mark.parametrize("value", [1 / 3, 0.1, 0.7, 2 / 7, 0.999])
@pytest.mark.parametrize("queries", [2, 27, 983])
def test_equal_queries_give_no_interval_whatever_rounding_does(value, queries):
    found = detail([value] * queries, range(queries))
    assert (found.low, found.high, found.interval) == (None, None, "none: all queries alike")
    assert found.value == pytest.approx(value)


def test_the_smallest_real_spread_is_not_taken_for_rounding():
    found = detail([1.0] * 99_999 + [7 / 8], range(100_000))
    assert found.interval == "clustered by query"
    assert found.value - found.low == pytest.approx(1.96 * 0.125 / 100_000, rel=1e-3)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_at_an_end_counts_each_query_once(value):
    found = detail([value] * 54, [i // 2 for i in range(54)], is_binary=True)
    assert found.interval == "Wilson over queries"
    assert (found.low, found.high) == intervals.wilson(27 * value, 27)
    assert detail([value] * 27, range(27))[3:5] == found[3:5]


def test_queries_that_are_all_half_right_keep_their_middle():
    found = detail([0, 1] * 5, [i // 2 for i in range(10)], is_binary=True)
    assert found.interval == "Wilson over queries"
    assert (found.low + found.high) / 2 == pytest.approx(0.5)


def test_a_range_of_ones_own_is_kept():
    found = detail([1, 5, 5, 4.5], "abcd", limits=(1.0, 5.0))
    assert (found.high, found.interval) == (5, "clustered by query")
    assert detail([5, 5], "ab", limits=(1.0, 5.0)).interval == "none: all queries alike"
    assert detail([1, 1], "ab", limits=(1.0, 5.0)).interval == "none: all queries alike"


def test_nothing_judged_has_bounds_and_nothing_planned_has_nothing():
    none = intervals.Sums(0, 0, 4, 0, 4, 0, 0, 0, 0)
    found = intervals.detail(none, is_binary=True)
    assert found == (None, 0, 4, None, None, 0, 1, None)
    empty = intervals.Sums(None, None, None, None, None, 0, None, None, None)
    found = intervals.detail(empty, is_binary=True)
    assert found == intervals.Detail()
