"""Rates: one with its interval, two independent ones, and two compared within strata."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ragbench.errors import RagbenchError, UnknownColumn
from ragbench.stats.frames import (
    ALTERNATIVES,
    chosen,
    columns,
    notes,
    one_row,
    quiet,
    share,
    whole,
)

_PROPORTION = {
    **columns(pl.Int64, "x n"),
    **columns(
        pl.Float64,
        "p wilson_low wilson_high clopper_pearson_low clopper_pearson_high wald_low wald_high "
        "confidence",
    ),
    "note": pl.String,
}


def proportion_interval(x: int, n: int, *, confidence: float = 0.95) -> pl.DataFrame:
    """The rate x / n with its Wilson, Clopper-Pearson and (unclipped) Wald interval.

    n = 0 has no rate and no interval; at 0 and n the Wald interval has no width.

    >>> proportion_interval(0, 27).select("wilson_low", pl.col("wilson_high").round(3)).row(0)
    (0.0, 0.125)
    """
    level = share(confidence, "confidence", "proportion_interval")
    successes, trials = _part(x, n, "x", "n", "proportion_interval")
    row: dict[str, Any] = {"x": successes, "n": trials, "confidence": level}
    if not trials:
        return one_row(_PROPORTION, {**row, "note": "undefined: n = 0"})
    from scipy.stats import binomtest, norm

    rate = successes / trials
    reach = float(norm.isf((1 - level) / 2)) * math.sqrt(rate * (1 - rate) / trials)
    row |= {"p": rate, "wald_low": rate - reach, "wald_high": rate + reach}
    test = binomtest(successes, trials)
    for name, method in (("wilson", "wilson"), ("clopper_pearson", "exact")):
        limits = test.proportion_ci(level, method=method)
        row |= {f"{name}_low": limits.low, f"{name}_high": limits.high}
    if successes in (0, trials):
        # The score interval ends exactly at the end of the range; its formula rounds.
        row["wilson_low" if successes == 0 else "wilson_high"] = rate
        row["note"] = "the Wald interval has no width here: use Wilson or Clopper-Pearson"
    return one_row(_PROPORTION, row)


def _part(x: Any, n: Any, x_name: str, n_name: str, place: str) -> tuple[int, int]:
    successes, trials = whole(x, x_name, place), whole(n, n_name, place)
    if successes > trials:
        raise RagbenchError(f"{place}: {x_name} = {successes} exceeds {n_name} = {trials}.")
    return successes, trials


_TWO = {
    **columns(pl.Int64, "x1 n1 x2 n2"),
    **columns(pl.Float64, "p1 p2 diff"),
    **columns(pl.String, "alternative method"),
    **columns(pl.Float64, "min_expected statistic p_value wald_low wald_high newcombe_low"),
    **columns(pl.Float64, "newcombe_high agresti_caffo_low agresti_caffo_high confidence"),
    "note": pl.String,
}


def two_proportions(
    x1: int,
    n1: int,
    x2: int,
    n2: int,
    *,
    alternative: str = "two-sided",
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Test and intervals for the difference x1 / n1 - x2 / n2 of two independent rates.

    All four expected counts at least 5: Pearson's chi-square with Yates' correction; otherwise
    Fisher's exact test, which has no statistic. One-sided, the chi-square's signed root is taken
    as normal. Wald is what the paper shows (unclipped); Newcombe's hybrid score interval is the
    better one. Test and interval may disagree close to the line: the test is corrected for
    continuity. Without any success, or any failure, there is nothing to test: p = 1 and a note.

    >>> two_proportions(33, 113, 24, 193).select("method", "p_value", "diff").row(0)
    ('chi2_yates', 0.00049..., 0.16...)
    """
    chosen("alternative", alternative, ALTERNATIVES, "two_proportions")
    level = share(confidence, "confidence", "two_proportions")
    a, m = _part(x1, n1, "x1", "n1", "two_proportions")
    b, k = _part(x2, n2, "x2", "n2", "two_proportions")
    row: dict[str, Any] = {"x1": a, "n1": m, "x2": b, "n2": k}
    row |= {"alternative": alternative, "confidence": level}
    row |= {"p1": a / m if m else None, "p2": b / k if k else None}
    if not (m and k):
        return one_row(_TWO, {**row, "note": "undefined: a group is empty"})
    row |= {"diff": a / m - b / k, **_test([[a, m - a], [b, k - b]], alternative)}
    row |= _intervals(a, m, b, k, level)
    total = a + b
    if total in (0, m + k):
        row["note"] = f"not testable: no {'success' if total == 0 else 'failure'} in either group"
    elif row["wald_low"] == row["wald_high"]:
        row["note"] = "the Wald interval has no width here: use Newcombe"
    return one_row(_TWO, row)


def _test(table: list[list[int]], alternative: str) -> dict[str, Any]:
    from scipy.stats import chi2_contingency, fisher_exact, norm

    rows = [sum(line) for line in table]
    cols = [table[0][j] + table[1][j] for j in (0, 1)]
    total = sum(rows)
    least = min(rows) * min(cols)  # whole numbers: an expected count of exactly 5 stays 5
    result: dict[str, Any] = {"min_expected": least / total}
    if least < 5 * total:
        p = float(fisher_exact(table, alternative=alternative).pvalue)
        return result | {"method": "fisher", "p_value": p}
    test = chi2_contingency(table, correction=True)
    result |= {"method": "chi2_yates", "statistic": float(test.statistic)}
    if alternative == "two-sided":
        return result | {"p_value": float(test.pvalue)}
    root = math.copysign(math.sqrt(test.statistic), table[0][0] * rows[1] - table[1][0] * rows[0])
    tail = norm.sf if alternative == "greater" else norm.cdf
    return result | {"p_value": float(tail(root))}


def _intervals(x1: int, n1: int, x2: int, n2: int, level: float) -> dict[str, float]:
    from statsmodels.stats.proportion import confint_proportions_2indep

    methods = {"wald": "wald", "newcombe": "newcomb", "agresti_caffo": "agresti-caffo"}
    limits: dict[str, float] = {}
    for name, method in methods.items():
        low, high = confint_proportions_2indep(
            x1, n1, x2, n2, compare="diff", method=method, alpha=1 - level
        )
        limits |= {f"{name}_low": low, f"{name}_high": high}
    return limits


_STRATIFIED = {
    **columns(pl.Int64, "n_strata n_used n1 n2"),
    **columns(pl.Float64, "diff diff_low diff_high odds_ratio odds_ratio_low odds_ratio_high"),
    "alternative": pl.String,
    **columns(pl.Float64, "statistic p_value homogeneity_statistic"),
    "homogeneity_df": pl.Int64,
    **columns(pl.Float64, "homogeneity_p_value crude_diff confidence"),
    "note": pl.String,
}

_CELLS = ("x1", "n1", "x2", "n2")


def mantel_haenszel(
    strata: pl.DataFrame | Mapping[Any, Sequence[int]] | Sequence[Sequence[int]],
    *,
    alternative: str = "two-sided",
    confidence: float = 0.95,
) -> pl.DataFrame:
    """The effect of being in group 1 rather than 2, compared within strata only.

    `strata` has x1, n1, x2, n2 per stratum (successes and size of both groups): a frame with
    these columns, a mapping from stratum to the four, or a sequence of fours.

    `diff`: Mantel-Haenszel difference of rates with Sato's interval, which holds for few large
    and for many small strata; `crude_diff` without strata. `odds_ratio` with the interval of
    Robins, Breslow and Greenland. `statistic`: Cochran-Mantel-Haenszel chi-square, 1 df, with
    continuity correction floored at 0 (one-sided: its signed root). `homogeneity_*`:
    Breslow-Day test, with Tarone's adjustment, that the odds ratio is the same everywhere. A
    stratum with one empty group tells nothing and is left out, with a note.

    >>> by_domain = {"legal": (12, 40, 5, 38), "medical": (20, 50, 9, 45)}
    >>> mantel_haenszel(by_domain).select(pl.col("diff", "p_value").round(4)).row(0)
    (0.1857, 0.0097)
    """
    chosen("alternative", alternative, ALTERNATIVES, "mantel_haenszel")
    level = share(confidence, "confidence", "mantel_haenszel")
    cells = _stratum_counts(strata)
    used = [cell for cell in cells if cell[1] and cell[3]]
    row: dict[str, Any] = {"n_strata": len(cells), "n_used": len(used), "alternative": alternative}
    row |= {"n1": sum(c[1] for c in used), "n2": sum(c[3] for c in used), "confidence": level}
    empty = len(cells) - len(used)
    strata_word = "stratum" if empty == 1 else "strata"
    dropped = f"{empty} {strata_word} with an empty group left out" if empty else None
    if not used:
        return one_row(_STRATIFIED, {**row, "note": notes("undefined: no stratum", dropped)})
    row |= _rate_difference(used, level)
    if row["diff_low"] == row["diff_high"]:
        dropped = notes("the zero width of the difference's interval is no precision", dropped)
    # A stratum with only successes or only failures says nothing about odds.
    mixed = [cell for cell in used if 0 < cell[0] + cell[2] < cell[1] + cell[3]]
    if not mixed:
        note = notes("not testable: no stratum has both successes and failures", dropped)
        return one_row(_STRATIFIED, {**row, "p_value": 1.0, "note": note})
    odds, doubt = _odds(mixed, level, alternative)
    return one_row(_STRATIFIED, {**row, **odds, "note": notes(*doubt, dropped)})


def _stratum_counts(strata: Any) -> list[tuple[int, int, int, int]]:
    if isinstance(strata, pl.DataFrame):
        for name in _CELLS:
            if name not in strata.columns:
                raise UnknownColumn("the frame given to mantel_haenszel", name, strata.columns)
        listed: Any = strata.select(_CELLS).rows()
    else:
        listed = strata.values() if isinstance(strata, Mapping) else strata
    counts = []
    for cell in listed:
        if len(cell) != 4:
            raise RagbenchError(
                f"mantel_haenszel: a stratum has x1, n1, x2, n2, not {len(cell)} numbers."
            )
        counts.append(
            (
                *_part(cell[0], cell[1], "x1", "n1", "mantel_haenszel"),
                *_part(cell[2], cell[3], "x2", "n2", "mantel_haenszel"),
            )
        )
    return counts


def _rate_difference(cells: list[tuple[int, int, int, int]], level: float) -> dict[str, float]:
    from scipy.stats import norm

    weight = top = p = q = 0.0
    for x1, n1, x2, n2 in cells:
        total = n1 + n2
        weight += n1 * n2 / total
        top += (x1 * n2 - x2 * n1) / total
        p += (n1 * n1 * x2 - n2 * n2 * x1 + n1 * n2 * (n2 - n1) / 2) / total**2
        q += (x1 * (n2 - x2) + x2 * (n1 - x1)) / (2 * total)
    diff = top / weight
    # The estimated variance can round (or, in tiny strata, fall) below 0.
    reach = float(norm.isf((1 - level) / 2)) * math.sqrt(max(0.0, diff * p + q)) / weight
    sums = [sum(cell[j] for cell in cells) for j in range(4)]
    crude = sums[0] / sums[1] - sums[2] / sums[3]
    return {
        "diff": diff,
        "diff_low": diff - reach,
        "diff_high": diff + reach,
        "crude_diff": crude,
    }


def _odds(
    cells: list[tuple[int, int, int, int]], level: float, alternative: str
) -> tuple[dict[str, Any], list[str]]:
    from scipy.stats import chi2, norm
    from statsmodels.stats.contingency_tables import StratifiedTable

    table = StratifiedTable([[[a, m - a], [b, k - b]] for a, m, b, k in cells])
    excess = sum(a - (a + b) * m / (m + k) for a, m, b, k in cells)
    doubt: list[str] = []
    with quiet():  # zero cells divide by zero; the result is null then
        is_flat = abs(excess) <= 0.5
        statistic = 0.0 if is_flat else float(table.test_null_odds(correction=True).statistic)
        ratio = float(table.oddsratio_pooled)
        row: dict[str, Any] = {"statistic": statistic, "odds_ratio": ratio}
        low, high = table.oddsratio_pooled_confint(alpha=1 - level)
        row |= {"odds_ratio_low": float(low), "odds_ratio_high": float(high)}
    if not (math.isfinite(ratio) and ratio > 0):
        row |= dict.fromkeys(("odds_ratio_low", "odds_ratio_high"))
        doubt.append(f"odds ratio {'0' if ratio == 0 else 'infinite'}: no interval for it")
    elif len(cells) > 1:
        same = breslow_day(cells, ratio)
        row |= {"homogeneity_statistic": same, "homogeneity_df": len(cells) - 1}
        row["homogeneity_p_value"] = float(chi2.sf(same, len(cells) - 1))
    if alternative == "two-sided":
        return row | {"p_value": float(chi2.sf(statistic, 1))}, doubt
    root = math.copysign(math.sqrt(statistic), excess)
    tail = norm.sf if alternative == "greater" else norm.cdf
    return row | {"p_value": float(tail(root))}, doubt


def breslow_day(cells: list[tuple[int, int, int, int]], ratio: float) -> float:
    """Breslow-Day statistic with Tarone's adjustment, for a common odds ratio of `ratio`.

    Own code because the library's divides by 1 - ratio, which fails where there is no effect.
    """
    statistic = excess = spread = 0.0
    for x1, n1, x2, n2 in cells:
        total = x1 + x2
        # The count expected in the first cell solves a quadratic whose leading term may vanish.
        a, c = 1 - ratio, -ratio * n1 * total
        b = ratio * (n1 + total) + n2 - total
        root = math.sqrt(b * b - 4 * a * c)
        expected = 2 * c / (-b - root) if b >= 0 else (-b + root) / (2 * a)
        parts = (expected, total - expected, n1 - expected, n2 - total + expected)
        variance = 1 / sum(1 / part for part in parts)
        statistic += (x1 - expected) ** 2 / variance
        excess += x1 - expected
        spread += variance
    return max(0.0, statistic - excess**2 / spread)
