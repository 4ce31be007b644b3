"""Printed statistics against what they are computed from: kappa, rho, ICC, intervals, errors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from ragbench.audit.declaration import Cell, Check
from ragbench.audit.kinds import Linear, Test, Verdict, amount, kind, shown, stated
from ragbench.audit.rounding import Span, plain
from ragbench.errors import BadRow

# ---------------------------------------------------------------- kappa


def highest_kappa(agreement: float, categories: int = 2) -> float:
    """The largest kappa of two raters who agree on this share, whatever their margins.

    Kappa is largest where chance agrees least: all disagreements d are of one kind, so that two
    categories carry them and the agreement is spread. With two categories that gives
    (1 - d)² / (1 + d²).

    >>> round(highest_kappa(0.91), 3), round(highest_kappa(0.91, categories=5), 3)
    (0.821, 0.888)
    """
    apart, rest = 1 - agreement, max(0, categories - 2)
    # They agree on x in each of the two, and on x + d / 2 in each other one, where that adds up.
    x = (agreement - rest * apart / 2) / categories
    if x < 0:  # all agreement is in the others
        return (agreement - agreement**2 / rest) / (1 - agreement**2 / rest)
    chance = 2 * x * (x + apart) + rest * (x + apart / 2) ** 2
    return (agreement - chance) / (1 - chance)


def lowest_kappa(agreement: float) -> float:
    """The smallest kappa at this agreement: disagreements in both directions alike, -d / (2 - d).

    >>> round(lowest_kappa(0.91), 3), lowest_kappa(0.0)
    (-0.047, -1.0)
    """
    return -(1 - agreement) / (1 + agreement)


def _kappa_ends(share: Span, rates: Sequence[Span]) -> tuple[float, float] | None:
    """Smallest and largest kappa at an agreement and two rates of positives, each in an interval.

    Kappa rises with the agreement and falls with chance agreement, which is bilinear in the rates.
    None where no table has this agreement beside these rates.
    """
    low, high = max(0.0, float(share.low or 0)), min(1.0, float(share.high or 0))
    ends = [(max(0.0, float(r.low or 0)), min(1.0, float(r.high or 0))) for r in rates]
    (p0, p1), (q0, q1) = ends
    most = 1 - max(0.0, p0 - q1, q0 - p1)  # 1 - |p - q| at its largest
    least = max(0.0, p0 + q0 - 1, 1 - p1 - q1)  # |p + q - 1| at its smallest
    if high < least - 1e-9 or low > most + 1e-9:
        return None
    chances = [p * q + (1 - p) * (1 - q) for p, q in itertools.product(*ends)]
    largest, smallest = min(max(chances), 1 - 1e-12), min(min(chances), 1 - 1e-12)
    return (low - largest) / (1 - largest), min(1.0, (high - smallest) / (1 - smallest))


def kappas(
    agreements: range,
    n: int,
    margins: tuple[Sequence[int] | None, Sequence[int] | None] = (None, None),
) -> np.ndarray:
    """The kappa of every two-by-two table of n items with a number of agreements in the range.

    `margins` restricts how many items the first and the second rater call positive.
    """
    found = []
    for agreed in agreements:
        kappa, first, second = _tables(agreed, n)
        for margin, allowed in zip((first, second), margins, strict=True):
            if allowed is not None:
                kappa = np.where(np.isin(margin, list(allowed)), kappa, np.nan)
        found.append(kappa)
    every = np.concatenate(found) if found else np.array([])
    return every[np.isfinite(every)]


def _tables(agreed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kappa, and positives of both raters, of every table of n items with so many agreements."""
    both, only = (x.ravel() for x in np.meshgrid(np.arange(agreed + 1), np.arange(n - agreed + 1)))
    first, second = both + only, both + (n - agreed - only)
    chance = (first * second + (n - first) * (n - second)) / n**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return (agreed / n - chance) / (1 - chance), first, second


@kind("kappa", "kappa agreement n categories first second")
def kappa_tests(check: Check) -> list[Test]:
    """`kappa` and raw `agreement` belong to one table of two raters (of `n` items).

    `first` and `second` are the rates of positive verdicts of the two raters, where printed.
    """
    kappa, agreement, n = check.one("kappa"), check.one("agreement"), check.maybe("n")
    categories = int(check.option("categories", 2))
    rates = (check.maybe("first"), check.maybe("second"))
    items = int(n.printed.value) if n else 0

    def judge(convention: str) -> Verdict:
        target, share = kappa.span(convention), agreement.span(convention)
        highest = highest_kappa(min(1.0, float(share.high or 1)), categories)
        lowest = lowest_kappa(max(0.0, float(share.low or 0)))
        words = (
            f"With an agreement of {shown(agreement)}, kappa is at most {plain(highest, 3)}, "
            f"whatever the margins; printed is {shown(kappa)}."
        )
        if _apart(target, -math.inf, highest):
            return False, f"{words} {_needed(kappa, convention, categories)}"
        if _apart(target, lowest, math.inf):
            return False, words.replace(f"most {plain(highest, 3)}", f"least {plain(lowest, 3)}")
        if categories == 2 and rates[0] and rates[1]:
            ends = _kappa_ends(share, [rate.span(convention) for rate in rates if rate])
            words += f" With {shown(rates[0])} and {shown(rates[1])} positive verdicts "
            if ends is None:
                return False, f"{words}no table has this agreement."
            words += f"it is {plain(ends[0], 3)} to {plain(ends[1], 3)}."
            if _apart(target, *ends):
                return False, words
        if not items or items > 400 or categories > 2:
            return True, words
        whole = share.times(n.printed.value if n else kappa.printed.value).whole()
        if not whole:
            return None, f"{words} No number of {items} items is {shown(agreement)}."
        margins = [r.span(convention).times(Fraction(items)).whole() if r else None for r in rates]
        values = kappas(whole, items, (margins[0], margins[1]))
        if not values.size:
            return False, f"{words} No table of {items} items has these margins and this agreement."
        near = values[np.argmin(np.abs(values - float(kappa.printed.value)))]
        words += f" Of all tables of {items} items the nearest has kappa {plain(near, 4)}."
        return any(target.holds(float(value)) for value in np.unique(values)), words

    cells = [cell for cell in (kappa, agreement, n, *rates) if cell]
    return [Test(check, cells, judge, "the table of counts of the two raters")]


@kind("adjudicated", "experts judge n")
def adjudicated_tests(check: Check) -> list[Test]:
    """Kappa of two `experts`, and of a `judge` against the gold they agreed on, of the same `n`.

    Where the experts agree their verdict is gold, so how balanced gold is follows from their table.
    """
    experts, judge_kappa, n = (check.one(name) for name in ("experts", "judge", "n"))
    items = int(n.printed.value)
    if items > 200:
        raise BadRow(f"check {check.name!r}: adjudicated tables are enumerated up to n = 200.")

    def judge(convention: str) -> Verdict:
        span = experts.span(convention)
        positive: set[int] = set()
        for agreed in range(items + 1):
            apart = items - agreed
            values, first, second = _tables(agreed, items)
            both = (first + second - apart) // 2  # positive for both experts, so in gold
            for k, least in zip(values.tolist(), both.tolist(), strict=True):
                if span.holds(k):
                    positive |= set(range(least, least + apart + 1))
        allowed = sorted(positive)
        values = kappas(range(items + 1), items, (allowed, None))
        words = f"Experts with kappa {shown(experts)} on {items} items "
        if not values.size:
            return False, f"{words}do not exist: no table gives it."
        near = values[np.argmin(np.abs(values - float(judge_kappa.printed.value)))]
        words += (
            f"leave {allowed[0]} to {allowed[-1]} positives in the gold they agree on; the nearest "
            f"kappa of a judge against it is {plain(near, 4)}, printed is {shown(judge_kappa)}."
        )
        return any(judge_kappa.span(convention).holds(float(v)) for v in np.unique(values)), words

    settle = "the verdicts of the two experts, of the judge, and the gold"
    return [Test(check, [experts, judge_kappa, n], judge, settle, is_slow=True)]


def _needed(kappa: Cell, convention: str, categories: int) -> str:
    """The agreement that a kappa asks for at least."""
    least = float(kappa.span(convention).low or 0)
    shares = np.linspace(0, 1, 10_001)
    enough = next((s for s in shares if highest_kappa(float(s), categories) >= least), None)
    if enough is None:
        return "No agreement gives such a kappa."
    return f"Such a kappa needs an agreement of at least {plain(100 * enough, 4)} %."


# ---------------------------------------------------------------- rank correlation


@cache
def _squares(n: int) -> np.ndarray:
    """The sum of squared rank differences of every order of n."""
    orders = np.array(list(itertools.permutations(range(n))), dtype=np.int16)
    return ((orders - np.arange(n)) ** 2).sum(axis=1)


def spearman_p(rho: float, n: int, *, method: str = "exact") -> float:
    """Two-sided p of a rank correlation without ties; `exact` up to n = 8, else by Student's `t`.

    >>> round(spearman_p(-0.5, 5), 2), round(spearman_p(-0.5, 5, method="t"), 2)
    (0.45, 0.39)
    """
    if method == "exact" and n <= 8:
        every = 1 - 6 * _squares(n) / (n * (n * n - 1))
        return float((np.abs(every) >= abs(rho) - 1e-9).mean())
    from scipy.stats import t

    return float(2 * t.sf(abs(rho) * math.sqrt((n - 2) / max(1e-300, 1 - rho**2)), n - 2))


@kind("spearman", "rho n p test")
def rank_tests(check: Check) -> list[Test]:
    """`rho` is a Spearman correlation of `n` points without ties, and `p` is its p value.

    `test` is the one that is stated, exact or t; both are tried where none is.
    """
    rho, n, p = check.one("rho"), check.one("n"), check.maybe("p")
    points, methods = int(n.printed.value), stated(check, ("exact", "t"))
    if points < 3:
        raise BadRow(f"check {check.name!r}: a rank correlation needs at least 3 points.")

    def judge(convention: str) -> Verdict:
        steps = points * (points**2 - 1)
        apart = np.unique(_squares(points)) if points <= 8 else np.arange(0, steps // 3 + 1, 2)
        values = 1 - 6 * apart / steps
        fits = [float(value) for value in values if rho.span(convention).holds(float(value))]
        near = ", ".join(
            plain(v, 4) for v in sorted(values, key=lambda v: abs(v - float(rho.printed.value)))[:2]
        )
        words = f"Orders of {points} points without ties give rho in steps: "
        words += f"nearest to {shown(rho)} are {near}."
        if not fits or p is None:
            return bool(fits), words
        told = [f"{plain(spearman_p(fits[0], points, method=m), 3)} ({m})" for m in methods]
        words += f" Its two-sided p is {' or '.join(told)}; printed is p {shown(p)}."
        span = p.span(convention)
        return any(
            span.holds(spearman_p(v, points, method=m)) for v in fits for m in methods
        ), words

    cells = [cell for cell in (rho, n, p) if cell]
    return [Test(check, cells, judge, "the points themselves; ties allow other values")]


# ---------------------------------------------------------------- from printed raw scores


@kind("icc", "value low high scores targets")
def icc_tests(check: Check) -> list[Test]:
    """`value` (`low`, `high`) is ICC(2,k) of the printed `scores`, `targets` rows of raters."""
    scores = check.many("scores")
    table = _table(check, scores)
    half = [0.0 if c.printed.is_exact else float(c.printed.unit) / 2 for c in scores]
    asked = {"icc2_k": check.one("value")}
    asked |= {f"icc2_k_{x}": cell for x in ("low", "high") if (cell := check.maybe(x))}

    @cache
    def computed() -> dict[str, float]:
        return _icc(table)

    @cache
    def moved() -> list[dict[str, float]]:
        """One score after another at the end of its rounding."""
        return [_icc(table, place, step) for place, step in enumerate(half) if step]

    def judge_of(name: str, cell: Cell) -> Callable[[str], Verdict]:
        def judge(convention: str) -> Verdict:
            middle, span = computed()[name], cell.span(convention)
            label = name.replace("icc2_k", "ICC(2,k)").replace("_", ", ")
            words = f"{label} of the {len(scores)} printed scores is {plain(middle, 4)}; "
            words += f"printed is {shown(cell)}."
            if math.isnan(middle) or span.holds(middle):
                return (None if math.isnan(middle) else True), words
            # Half as much again, for curvature.
            reach = 1.5 * sum(abs(other[name] - middle) for other in moved()) + 1e-9
            words += f" Their rounding moves it by up to {plain(reach, 2)}."
            return _reaches(span, middle, reach), words

        return judge

    settle = "the unrounded scores"
    return [
        Test(check, [cell, *scores], judge_of(name, cell), settle, is_slow=True)
        for name, cell in asked.items()
    ]


def _icc(table: np.ndarray, place: int = 0, step: float = 0.0) -> dict[str, float]:
    """`stats.icc2k` of the scores, one of them moved by a step."""
    from ragbench.stats import icc2k

    moved = table.copy()
    moved.flat[place] += step
    row = icc2k(moved.tolist()).row(0, named=True)
    names = ("icc2_k", "icc2_k_low", "icc2_k_high")
    return {name: math.nan if row[name] is None else row[name] for name in names}


@kind("mean_rho", "value scores targets")
def mean_rho_tests(check: Check) -> list[Test]:
    """`value` is the mean over pairs of raters of Spearman's rho between their printed `scores`."""
    from ragbench.stats import mean_spearman

    value, scores = check.one("value"), check.many("scores")
    table = _table(check, scores)
    is_exact = all(cell.printed.is_exact for cell in scores)
    has_ties = not is_exact and any(len(set(column)) < len(column) for column in table.T.tolist())

    def judge(convention: str) -> Verdict:
        mean = mean_spearman(table.tolist())["mean_rho"].item()
        if mean is None:
            return None, "A rater whose scores are all equal has no rank correlation."
        words = (
            f"The printed scores give a mean rho of {plain(mean, 4)}; printed is {shown(value)}."
        )
        if value.span(convention).holds(mean):
            return True, words
        return (
            (None, f"{words} Scores that print alike may differ.") if has_ties else (False, words)
        )

    return [Test(check, [value, *scores], judge, "the unrounded scores", is_slow=True)]


def _table(check: Check, scores: list[Cell]) -> np.ndarray:
    targets = int(check.one("targets").printed.value)
    if targets < 1 or len(scores) % targets:
        raise BadRow(f"check {check.name!r}: {len(scores)} scores do not fill {targets} rows.")
    return np.array([float(cell.printed.value) for cell in scores]).reshape(targets, -1)


def _reaches(span: Span, centre: float, reach: float) -> bool:
    return not _apart(span, centre - reach, centre + reach)


def _apart(span: Span, low: float, high: float) -> bool:
    """Whether a printed interval and a computed one have nothing in common, errors aside."""
    is_above = span.low is not None and float(span.low) > high + 1e-9
    return is_above or (span.high is not None and float(span.high) < low - 1e-9)


# ---------------------------------------------------------------- intervals and errors


@kind("interval", "estimate low high n method")
def interval_tests(check: Check) -> list[Test]:
    """`low` to `high` holds `estimate`; `method`: symmetric, wald, wilson or clopper_pearson."""
    from ragbench.stats import proportion_interval

    estimate, low, high, n = (check.maybe(x) for x in ("estimate", "low", "high", "n"))
    assert estimate is not None
    assert low is not None
    assert high is not None
    method = check.option("method", "")
    one = Fraction(1)
    rising = [
        Linear(((one, b), (-one, a)), Span(Fraction(0), None))
        for a, b in ((low, estimate), (estimate, high))
    ]  # type: ignore[arg-type]
    middle = Linear(((one, low), (one, high), (-2 * one, estimate)))

    def judge(convention: str) -> Verdict:
        words = f"{shown(estimate)} [{shown(low)}, {shown(high)}]:"
        if not all(statement.can_hold(convention) for statement in rising):
            return False, f"{words} the estimate lies outside its interval."
        if method in ("symmetric", "wald") and not middle.can_hold(convention):
            half = (low.printed.value + high.printed.value) / 2
            return False, f"{words} the middle is {amount(half, estimate)}, not the estimate."
        if n is None or method in ("", "symmetric"):
            return True, f"{words} the estimate lies inside."
        size = int(n.printed.value)
        nearest = ""
        for x in estimate.span(convention).times(n.printed.value).whole():
            row = proportion_interval(x, size).row(0, named=True)
            ends = row[f"{method}_low"], row[f"{method}_high"]
            nearest = f"{x} of {size} gives {amount(ends[0], low, 4)} to {amount(ends[1], high, 4)}"
            if low.span(convention).holds(ends[0]) and high.span(convention).holds(ends[1]):
                return True, f"{words} {nearest}."
        return False, f"{words} {nearest or f'no count of {size} gives the estimate'} ({method})."

    cells = [cell for cell in (estimate, low, high, n) if cell]
    linear = [*rising, middle] if method in ("symmetric", "wald") else rising
    return [Test(check, cells, judge, "the count, the n and the kind of interval", linear)]


@kind("standard_error", "se n p sd")
def error_tests(check: Check) -> list[Test]:
    """`se` is sqrt(p(1 - p) / n) of a proportion `p`, or `sd` / sqrt(n); n - 1 is tried too."""
    se, n = check.one("se"), check.one("n")
    size = float(n.printed.value)
    if size < 2:
        raise BadRow(f"check {check.name!r}: a standard error needs an n of at least 2.")
    source = check.one("p" if "p" in check.options else "sd")
    roots = [math.sqrt(size), math.sqrt(size - 1)]

    def judge(convention: str) -> Verdict:
        span = source.span(convention)
        ends = [float(end) for end in (span.low or 0, source.printed.value, span.high or 1)]
        if "p" in check.options:
            ends += [0.5] if ends[0] <= 0.5 <= ends[2] else []
            ends = [math.sqrt(max(0.0, p * (1 - p))) for p in ends]
        words = f"{shown(source)} and n = {shown(n)} give {amount(ends[1] / roots[0], se, 4)}; "
        words += f"printed is {shown(se)}."
        return any(
            not _apart(se.span(convention), min(ends) / root, max(ends) / root) for root in roots
        ), words

    return [Test(check, [se, n, source], judge, "which standard error it is, and its n")]
