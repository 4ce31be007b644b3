"""What the statistics say of degenerate and meaningless input: a label or a refusal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest

from ragbench import stats
from ragbench.errors import RagbenchError, UnknownName

# Nothing here may warn on a researcher's screen.
pytestmark = pytest.mark.filterwarnings("error")

GAPS = [None, float("nan")]
STRATA = {"legal": (12, 40, 5, 38), "medical": (20, 50, 9, 45)}


def only(frame: pl.DataFrame) -> dict[str, Any]:
    assert frame.height == 1
    assert not any(isinstance(v, float) and math.isnan(v) for v in frame.row(0))
    return frame.row(0, named=True)


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
        assert (row["n"], row["n_lost"]) == (3, 2)
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
    row = only(stats.mantel_haenszel({**STRATA, "G": (0, 0, 3, 9), "H": (0, 4, 0, 9)}))
    without = only(stats.mantel_haenszel({**STRATA, "H": (0, 4, 0, 9)}))
    assert (row["n_strata"], row["n_used"]) == (4, 3)
    assert row["note"] == "1 stratum with an empty group left out"
    assert row["diff"] == without["diff"]
    # A stratum of failures only has no odds ratio, and a difference of 0.
    assert row["odds_ratio"] == pytest.approx(only(stats.mantel_haenszel(STRATA))["odds_ratio"])


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
