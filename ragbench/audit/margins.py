"""What printed margins identify: the range of a result over all data sets that they allow."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ragbench.audit.declaration import Cell, Check
from ragbench.audit.kinds import Test, Verdict, amount, between, kind, shown, stated
from ragbench.audit.rounding import Span, plain

if TYPE_CHECKING:
    from ragbench.audit.findings import Audit

_Z = 1.959963984540054

# ---------------------------------------------------------------- two groups


def two_samples(n1: int, n2: int, totals: Sequence[int], *, alpha: float = 0.05) -> pl.DataFrame:
    """Every way in which `totals` successes can fall on two groups of n1 and n2, one a row.

    Columns x1, x2, diff (rate 1 - rate 2), low and high (95 % Wald), p_value (two-sided: chi-square
    with Yates' correction, Fisher's exact test where an expected count is below 5, as in
    `stats.two_proportions`), is_fisher, is_gain and is_loss (p below `alpha`, in that direction).

    >>> ways = two_samples(113, 193, [57])
    >>> ways.filter(x1=33).select("x2", pl.col("p_value").round(5)).row(0)
    (24, 0.00049)
    """
    pairs = [(x, t - x) for t in totals for x in range(max(0, t - n2), min(n1, t) + 1)]
    return _ways(pairs, n1, n2, alpha)


def _ways(pairs: Sequence[tuple[int, int]], n1: int, n2: int, alpha: float) -> pl.DataFrame:
    """`two_samples` for given successes of the two groups."""
    first, second = np.array(pairs, dtype=float).reshape(-1, 2).T
    p, is_fisher = _p_two(first, n1, second, n2)
    rates = first / n1, second / n2
    diff = rates[0] - rates[1]
    reach = _Z * np.sqrt(rates[0] * (1 - rates[0]) / n1 + rates[1] * (1 - rates[1]) / n2)
    frame = pl.DataFrame({"x1": first.astype(int), "x2": second.astype(int), "diff": diff})
    frame = frame.with_columns(
        low=pl.Series(diff - reach),
        high=pl.Series(diff + reach),
        p_value=pl.Series(p),
        is_fisher=pl.Series(is_fisher),
    )
    return _tested(frame, p.tolist(), alpha)


def _chi_square(x1: np.ndarray, n1: int, x2: np.ndarray, n2: int, is_corrected: bool) -> np.ndarray:
    from scipy.stats import chi2

    total, n = x1 + x2, n1 + n2
    gap = np.abs(x1 * (n2 - x2) - x2 * (n1 - x1)) - is_corrected * n / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = n * np.maximum(0.0, gap) ** 2 / (n1 * n2 * total * (n - total))
    return np.where((total == 0) | (total == n), 1.0, chi2.sf(statistic, 1))


def _p_two(x1: np.ndarray, n1: int, x2: np.ndarray, n2: int) -> tuple[np.ndarray, np.ndarray]:
    from scipy.stats import fisher_exact

    total, n = x1 + x2, n1 + n2
    least = min(n1, n2) * np.minimum(total, n - total) / n
    is_fisher = least < 5 - 1e-9
    p = _chi_square(x1, n1, x2, n2, True)
    for place in np.flatnonzero(is_fisher):
        a, b = int(x1[place]), int(x2[place])
        p[place] = fisher_exact([[a, n1 - a], [b, n2 - b]])[1]
    return p, is_fisher


def _tested(ways: pl.DataFrame, p: list[float], alpha: float) -> pl.DataFrame:
    """The ways with the p of a test, and whether it is a gain or a loss at `alpha`."""
    return ways.with_columns(p_value=pl.Series(p)).with_columns(
        is_gain=(pl.col("p_value") < alpha) & (pl.col("diff") > 0),
        is_loss=(pl.col("p_value") < alpha) & (pl.col("diff") < 0),
    )


def _any_test(p: Cell, fits: Mapping[str, pl.Series]) -> tuple[pl.Series, str]:
    """Which ways give the printed p by one of the tests, and the words for it."""
    names = [name for name, fit in fits.items() if fit.any()]
    told = f"as {names[0]} gives" if names else f"as none of {', '.join(fits)} gives"
    return functools.reduce(pl.Series.__or__, fits.values()), f"; printed is p {shown(p)}, {told}"


def _holds(cell: Cell, values: list[float], convention: str) -> pl.Series:
    span = cell.span(convention)
    return pl.Series([span.holds(value) for value in values], dtype=pl.Boolean)


def _p_by(ways: pl.DataFrame, sizes: list[int], test: str) -> list[float]:
    """The two-sided p of every way, by the name of a test of two proportions."""
    if test == "switch":
        return ways["p_value"].to_list()
    if test == "fisher":
        from scipy.stats import fisher_exact

        return [
            fisher_exact([[a, sizes[0] - a], [b, sizes[1] - b]])[1]
            for a, b in ways.select("x1", "x2").iter_rows()
        ]
    counts = (ways["x1"].to_numpy().astype(float), ways["x2"].to_numpy().astype(float))
    return _chi_square(counts[0], sizes[0], counts[1], sizes[1], test == "yates").tolist()


_TWO_SAMPLE_TESTS = ("switch", "yates", "pearson", "fisher")


@kind("two_samples", "n1 n2 overall n rate1 rate2 difference low high p test alpha direction")
def two_sample_tests(check: Check) -> list[Test]:
    """What sizes `n1`, `n2` and the rates printed leave open of a test of two proportions.

    `overall` is the rate of both groups together (of `n`, which may exceed n1 + n2), `rate1` and
    `rate2` those of the groups, `difference` that between them. Asked is what is printed of `p`
    and of the 95 % Wald interval (`low`, `high`), or else p below `alpha` in a `direction` (gain,
    loss or either). `test` is the one that is stated: yates, pearson, fisher, or switch (yates, but
    fisher where an expected count is below 5); all are tried for a printed `p` where none is.
    """
    sizes = [int(check.one(name).printed.value) for name in ("n1", "n2")]
    overall, p = check.maybe("overall"), check.maybe("p")
    rates = [check.maybe("rate1"), check.maybe("rate2")]
    columns = {"difference": "diff", "low": "low", "high": "high"}
    printed = [(cell, column) for x, column in columns.items() if (cell := check.maybe(x))]
    tests = stated(check, _TWO_SAMPLE_TESTS)
    alpha, direction = float(check.option("alpha", 0.05)), check.option("direction", "either")
    whole = check.maybe("n")
    n = int(whole.printed.value) if whole else sum(sizes)

    def judge(convention: str) -> Verdict:
        each = [
            cell.span(convention).times(Fraction(size)).whole() if cell else range(size + 1)
            for cell, size in zip(rates, sizes, strict=True)
        ]
        if overall is None:
            pairs = [(x, y) for x in each[0] for y in each[1]]
        else:
            totals = _totals(overall, sum(sizes), n, convention)
            pairs = [(x, t - x) for t in totals for x in each[0] if t - x in each[1]]
        ways = _ways(pairs, sizes[0], sizes[1], alpha)
        if ways.is_empty():
            return None, "No counts give the printed rates; see the counts."
        if len(tests) == 1:
            ways = _tested(ways, _p_by(ways, sizes, tests[0]), alpha)
        asked, by = None, ""
        if p is not None:
            fits_by = {test: _holds(p, _p_by(ways, sizes, test), convention) for test in tests}
            asked, by = _any_test(p, fits_by)
        for cell, column in printed:
            fits = _holds(cell, ways[column].to_list(), convention)
            asked = fits if asked is None else asked & fits
        return _told(ways, sizes, asked, by, p, alpha, direction)

    cells = [
        c
        for name in ("n1", "n2", "n", "overall", "rate1", "rate2", *columns, "p")
        if (c := check.maybe(name))
    ]
    settle = f"how many of the {sizes[0]} and how many of the {sizes[1]} are successes"
    return [Test(check, cells, judge, settle, is_slow=True)]


def _totals(overall: Cell, inside: int, n: int, convention: str) -> list[int]:
    """Successes that both groups can have together, when the overall rate is of up to n responses.

    Responses in neither group may have been successes or not, or may have no verdict at all.
    """
    return sorted(
        {
            total - outside
            for size in range(inside, max(n, inside) + 1)
            for total in overall.span(convention).times(Fraction(size)).whole()
            for outside in range(size - inside + 1)
            if 0 <= total - outside <= inside
        }
    )


def _points(difference: float) -> str:
    return plain(100 * difference, 3)


def _told(
    ways: pl.DataFrame,
    sizes: list[int],
    printed: pl.Series | None,
    by: str,
    p: Cell | None,
    alpha: float,
    direction: str,
) -> Verdict:
    """The verdict on all possible data sets, and what they have in common.

    `printed` says which of them print the numbers asked for; without it p below alpha is asked.
    """
    gain, loss = ways["is_gain"], ways["is_loss"]
    asked = {"gain": gain, "loss": loss}.get(direction, gain | loss) if printed is None else printed
    diffs, ps = sorted(ways["diff"].to_list()), sorted(ways["p_value"].to_list())
    words = (
        f"Ways to divide the successes between {sizes[0]} and {sizes[1]}: {ways.height}; "
        f"difference {_points(diffs[0])} to {_points(diffs[-1])} points, "
        f"p from {plain(ps[0], 2)} to {plain(ps[-1], 2)}, 95 % intervals within "
        f"{_points(min(ways['low'].to_list()))} and {_points(max(ways['high'].to_list()))} points"
    )
    tests = ways["is_fisher"].unique().to_list()
    words += "" if len(tests) > 1 else f" ({'Fisher' if tests[0] else 'chi-square'} in all)"
    words += by
    if asked.all():
        return True, f"Implied. {words}."
    if not asked.any():
        return False, f"Impossible. {words}."
    if printed is None and direction == "gain":
        least = ways.filter(asked).sort("diff").row(0, named=True)
        words += (
            f"; a gain with p < {plain(alpha)} needs {least['x1']} of {sizes[0]} against "
            f"{least['x2']} of {sizes[1]}, {_points(least['diff'])} points or more"
        )
    # One way will do for a printed number; a claim, or a printed bound, is left open.
    is_number = printed is not None and not (p and p.printed.bound)
    return True if is_number else None, f"{_SOME}{words}."


_SOME = "Possible, not implied. "


# ---------------------------------------------------------------- the same instances


def paired_margins(
    n: int, first: int, second: int, *, alternative: str = "greater"
) -> pl.DataFrame:
    """McNemar's test for every overlap of `first` and `second` successes among n instances.

    Columns discordant, p_value (`stats.mcnemar`), diff, low and high (95 % Wald for paired rates),
    one row per number of discordant pairs that the margins allow.

    >>> ways = paired_margins(447, 120, 93)
    >>> ways["discordant"].min(), ways["discordant"].max(), round(ways["p_value"].max(), 3)
    (27, 213, 0.037)
    """
    from ragbench.stats import mcnemar

    rows = []
    for only in range(max(0, first - second), min(first, n - second) + 1):
        other = only - (first - second)
        diff = (first - second) / n
        reach = _Z * math.sqrt(max(0.0, (only + other) / n - diff**2) / n)
        p = mcnemar(only, other, alternative=alternative)["p_value"].item()
        rows.append((only + other, p, diff, diff - reach, diff + reach))
    names = ["discordant", "p_value", "diff", "low", "high"]
    return pl.DataFrame(rows, schema=names, orient="row")


def _mcnemar_p(ways: pl.DataFrame, n: int, test: str, alternative: str) -> list[float]:
    """McNemar's p of every way, by the name of the test."""
    if test == "switch":
        return ways["p_value"].to_list()
    from scipy.stats import binom, norm

    apart = ways["discordant"].to_numpy()
    more = np.rint(ways["diff"].to_numpy() * n)
    only = np.rint((apart + more) / 2)
    if test == "exact":
        tails = binom.sf(only - 1, apart, 0.5), binom.cdf(only, apart, 0.5)
    else:
        less = 1 if test == "corrected" else 0
        root = np.sqrt(np.maximum(apart, 1))
        tails = norm.sf((more - less) / root), norm.cdf((more + less) / root)
    p = tails[0] if alternative == "greater" else np.minimum(1, 2 * np.minimum(*tails))
    return np.where(apart == 0, 1.0, p).tolist()


_PAIRED_TESTS = ("switch", "exact", "corrected", "uncorrected")


@kind("paired", "n first second difference p test alpha alternative")
def paired_tests(check: Check) -> list[Test]:
    """What rates `first`, `second` (or their `difference`) of `n` leave open of McNemar's test.

    Asked is the printed `p`, or p below `alpha`; `alternative` is greater (default) or two-sided.
    `test` is the one that is stated: exact, corrected, uncorrected, or switch (exact below 25
    differing pairs, else corrected); all are tried for a printed `p` where none is.
    """
    n = int(check.one("n").printed.value)
    rates = [check.maybe("first"), check.maybe("second")]
    difference, p, tests = check.maybe("difference"), check.maybe("p"), stated(check, _PAIRED_TESTS)
    alpha, alternative = float(check.option("alpha", 0.05)), check.option("alternative", "greater")

    def judge(convention: str) -> Verdict:
        margins = _margins(n, rates, difference, convention)
        if not margins:
            return None, f"No whole numbers of {n} give the printed rates; see the counts."
        ways = pl.concat([paired_margins(n, *pair, alternative=alternative) for pair in margins])
        if len(tests) == 1:
            ways = ways.with_columns(
                p_value=pl.Series(_mcnemar_p(ways, n, tests[0], alternative), dtype=pl.Float64)
            )
        if p:
            fits_by = {
                test: _holds(p, _mcnemar_p(ways, n, test, alternative), convention)
                for test in tests
            }
            asked, by = _any_test(p, fits_by)
        else:
            asked, by = ways["p_value"] < alpha, ""
        ps, apart = sorted(ways["p_value"].to_list()), sorted(ways["discordant"].to_list())
        widest = ways.sort("discordant").row(-1, named=True)
        words = (
            f"{margins[0][0] - margins[0][1]} more of {n}; {apart[0]} to {apart[-1]} pairs can "
            f"differ, so p is {plain(ps[0], 2)} to {plain(ps[-1], 2)} (McNemar, {alternative}) "
            f"and the 95 % interval at its widest {_points(widest['low'])} to "
            f"{_points(widest['high'])} points{by}"
        )
        if asked.all():
            return True, f"Implied. {words}."
        if not asked.any():
            return False, f"Impossible. {words}."
        most = max(ways.filter(asked)["discordant"].to_list())
        words += f"; it holds with up to {most} differing pairs"
        return True if p and not p.printed.bound else None, f"{_SOME}{words}."

    cells = [c for name in ("n", "first", "second", "difference", "p") if (c := check.maybe(name))]
    settle = f"how many of the {n} pairs differ, in each direction"
    return [Test(check, cells, judge, settle, is_slow=True)]


def _margins(
    n: int, rates: list[Cell | None], difference: Cell | None, convention: str
) -> list[tuple[int, int]]:
    """Success counts of the two sides; with their difference alone, those with the widest room."""
    sides = [
        list(cell.span(convention).times(Fraction(n)).whole()) if cell else None for cell in rates
    ]
    gaps = list(difference.span(convention).times(Fraction(n)).whole()) if difference else None
    if sides[0] is not None and sides[1] is not None:
        pairs = itertools.product(sides[0], sides[1])
        return [(a, b) for a, b in pairs if gaps is None or a - b in gaps]
    return [((n + gap) // 2, (n + gap) // 2 - gap) for gap in gaps or ()]


@kind("paired_t", "difference p n margin")
def paired_t_tests(check: Check) -> list[Test]:
    """What `difference` and `p` of a paired t test over `n` give: its interval against `margin`.

    Asked is whether the 95 % interval lies within plus or minus `margin`.
    """
    difference, p, n = check.one("difference"), check.one("p"), check.one("n")
    margin, df = float(check.one("margin").printed.value), int(n.printed.value) - 1

    def judge(convention: str) -> Verdict:
        from scipy.stats import t

        sizes = [abs(float(end)) for end in difference.span(convention)[:2] if end is not None]
        span = p.span(convention)
        ps = [float(span.low or 0), min(1.0, float(span.high if span.high is not None else 1))]
        quantile = float(t.isf(0.025, df))
        # |difference| / t is the standard error; a smaller p means a smaller one.
        errors = [
            size / float(t.isf(x / 2, df)) if x > 0 else 0.0
            for size, x in zip((min(sizes), max(sizes)), ps, strict=True)
        ]
        far = [min(sizes) + quantile * errors[0], max(sizes) + quantile * errors[1]]
        words = (
            f"p {shown(p)} over {shown(n)} means a standard error of "
            f"{plain(errors[0], 3)} to {plain(errors[1], 3)}, so the 95 % interval of "
            f"{shown(difference)} reaches {plain(far[0], 3)} to {plain(far[1], 3)} away from 0, "
            f"against a margin of {plain(margin)}"
        )
        if far[1] <= margin:
            return True, f"Implied. {words}."
        return (False, f"Impossible. {words}.") if far[0] > margin else (None, f"{_SOME}{words}.")

    return [Test(check, [difference, p, n], judge, "the interval itself", is_slow=True)]


# ---------------------------------------------------------------- Strict under given rates


def strict_bounds(rates: Sequence[float], times: Sequence[float] | None = None) -> pl.DataFrame:
    """Strict (all constraints met) under given rates of constraints: lowest, independent, highest.

    `times` says how often a constraint of each rate occurs in a response (its mean number is enough
    for the two ends). The ends are Fréchet's: 1 minus the sum of all failure rates, at least 0,
    when failures avoid each other; the smallest rate when they coincide. Independent failures give
    the product; unequal rates behind one rate make it smaller, unequal numbers larger.

    >>> strict_bounds([0.9, 0.8]).row(0)
    (0.7, 0.72, 0.8)
    """
    often = [1.0] * len(rates) if times is None else times
    failures = sum(k * (1 - q) for q, k in zip(rates, often, strict=True))
    row = {
        "lowest": max(0.0, round(1 - failures, 12)),
        "independent": round(math.prod(q**k for q, k in zip(rates, often, strict=True)), 12),
        "highest": min(rates),
    }
    return pl.DataFrame([row])


def independence(found: Audit, check: str, *, key: str = "model") -> pl.DataFrame:
    """What `figures.gap` draws for every row of a `strict` check: Strict beside what is possible.

    Columns: `key`, strict_ias as printed; lowest, independent, highest (`strict_bounds`); origin.
    """
    rows = []
    for made in found.declaration.checks:
        if made.kind == "strict" and made.name.startswith(check):
            strict, rates, times = made.one("strict"), made.many("rates"), made.many("times")
            bounds = strict_bounds(*([float(c.printed.value) for c in x] for x in (rates, times)))
            row = {key: strict.row, "strict_ias": float(strict.printed.value), "origin": "printed"}
            rows.append(row | bounds.row(0, named=True))
    return pl.DataFrame(rows)


@kind("strict", "strict rates times")
def strict_tests(check: Check) -> list[Test]:
    """`strict` lies between the extremes that `rates` of constraints (each `times` often) allow."""
    strict, rates = check.one("strict"), check.many("rates")
    times = check.many("times") if "times" in check.options else []

    def judge(convention: str) -> Verdict:
        often = [float(cell.printed.value) for cell in times] or [1.0] * len(rates)
        rows = []
        for end in (0, 1):
            each = [float(cell.span(convention)[end] or 0) for cell in rates]
            rows.append(strict_bounds([min(1.0, q) for q in each], often).row(0))
        middle = strict_bounds([float(cell.printed.value) for cell in rates], often).row(0)[1]
        span = Span(Fraction(str(rows[0][0])), Fraction(str(rows[1][2])))
        words = (
            f"Rates of {', '.join(shown(c) for c in rates)}"
            + (f" with {', '.join(shown(c) for c in times)} constraints" if times else "")
            + f" allow a Strict of {between(span, strict)}; independent failures give "
            f"{amount(middle, strict, 3)}; printed is {shown(strict)}."
        )
        return span.meets(strict.span(convention)), words

    settle = "which constraints fail in the same response"
    return [Test(check, [strict, *rates], judge, settle)]
