"""Sums, means, differences, ratios, orders: whether rounded cells can stand in that relation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from ragbench.audit.declaration import Cell, Check
from ragbench.audit.kinds import Linear, Test, Verdict, amount, between, kind, said, shown
from ragbench.audit.rounding import Span
from ragbench.errors import BadRow

_ONE = Fraction(1)


def _equation(
    check: Check, target: Cell, terms: Sequence[tuple[Fraction, Cell]], words: str, settle: str
) -> list[Test]:
    """The test that the terms add up to the target."""
    computed = sum((f * cell.printed.value for f, cell in terms), Fraction(0))
    statement = Linear((*terms, (-_ONE, target)))

    def judge(convention: str) -> Verdict:
        given = Linear(tuple(terms)).value(convention)
        holds = given.meets(target.span(convention))
        text = f"{words} = {amount(computed, target)}; {said(target)}."
        if given.low != given.high:
            text += f" The rounding of the parts allows {between(given, target)}"
            stands = f"{shown(target)} stands for {between(target.span(convention), target)}"
            text += "." if target.printed.is_exact else f"; {stands}."
        return holds, text

    return [Test(check, [target, *(c for _, c in terms)], judge, settle, [statement])]


@kind("sum", "total parts")
def sums(check: Check) -> list[Test]:
    """`total` is the sum of `parts`."""
    total, parts = check.one("total"), check.many("parts")
    words = " + ".join(shown(part) for part in parts)
    settle = "the unrounded parts, and whether a part is left out of the print or out of the total"
    return _equation(check, total, [(_ONE, part) for part in parts], words, settle)


@kind("mean", "result values weights")
def means(check: Check) -> list[Test]:
    """`result` is the mean of `values`, weighted by `weights` (exact numbers) if there are any."""
    result, values = check.one("result"), check.many("values")
    given = check.many("weights") if "weights" in check.options else []
    weights = [cell.printed.value for cell in given] or [_ONE] * len(values)
    total = sum(weights, Fraction(0))
    terms = [(w / total, value) for w, value in zip(weights, values, strict=True)]
    if given:
        pairs = zip(given, values, strict=True)
        inside = " + ".join(f"{shown(w)}·{shown(v)}" for w, v in pairs)
        words = f"({inside}) / {amount(total, given[0])}"
    else:
        words = (
            f"the mean of {len(values)} numbers ({' + '.join(map(shown, values))}) / {len(values)}"
        )
    settle = "the unrounded values, the weights that were used, and which rows the mean is over"
    tests = _equation(check, result, terms, words, settle)
    tests[0].cells += given
    return tests


@kind("difference", "result first second")
def differences(check: Check) -> list[Test]:
    """`result` is `first` minus `second`, with that sign."""
    result, first, second = (check.one(name) for name in ("result", "first", "second"))
    terms = [(_ONE, first), (-_ONE, second)]
    settle = "the unrounded values, and in which direction the difference was taken"
    (test,) = _equation(check, result, terms, f"{shown(first)} − {shown(second)}", settle)
    straight = test.judge

    def judge(convention: str) -> Verdict:
        holds, text = straight(convention)
        turned = Linear(((_ONE, second), (-_ONE, first), (-_ONE, result)))
        if not holds and turned.can_hold(convention):
            text += " The size fits and the sign does not: it is that of the opposite direction."
        return holds, text

    test.judge = judge
    return [test]


@kind("ratio", "share part whole")
def ratios(check: Check) -> list[Test]:
    """`share` is `part` divided by `whole` (no negative numbers)."""
    share, part, whole = (check.one(name) for name in ("share", "part", "whole"))

    def judge(convention: str) -> Verdict:
        if not whole.printed.value:
            return None, f"{shown(part)} / {shown(whole)} is no share of anything."
        allowed = part.span(convention).over(whole.span(convention))
        computed = part.printed.value / whole.printed.value
        text = f"{shown(part)} / {shown(whole)} = {amount(computed, share)}; {said(share)}."
        if allowed.low != allowed.high:
            text += f" The rounding of the two allows {between(allowed, share)}."
        return allowed.meets(share.span(convention)), text

    statements = []
    if whole.printed.is_exact and whole.printed.value:
        statements = [Linear(((_ONE / whole.printed.value, part), (-_ONE, share)))]
    settle = "both counts, and what the share is a share of"
    return [Test(check, [share, part, whole], judge, settle, statements)]


@kind("equal", "values")
def equals(check: Check) -> list[Test]:
    """`values` are the same quantity, printed in several places (not always to the same digit)."""
    first, *others = check.many("values")
    settle = "which of the two is meant, or what makes them different quantities"
    tests = []
    for other in others:
        words = f"{shown(first)} ({first.where}) and {shown(other)} ({other.where})"

        def judge(convention: str, other: Cell = other, words: str = words) -> Verdict:
            holds = first.span(convention).meets(other.span(convention))
            if first.printed == other.printed:
                return True, f"{words} agree."
            return holds, f"{words} {'can be' if holds else 'cannot be'} one number, rounded."

        statement = Linear(((_ONE, first), (-_ONE, other)))
        tests.append(Test(check, [first, other], judge, settle, [statement]))
    return tests


# ---------------------------------------------------------------- orders


def _at_least(pairs: Sequence[tuple[Cell, Cell]]) -> list[Linear]:
    """Of each pair, the first is at least the second."""
    return [Linear(((_ONE, a), (-_ONE, b)), Span(Fraction(0), None)) for a, b in pairs]


def _ordered(
    check: Check,
    pairs: Sequence[tuple[Cell, Cell]],
    words: Callable[[], str],
    *,
    strict: bool = False,
) -> Test:
    """The test that in every pair the first is larger: implied, excluded, or within rounding."""
    statements = _at_least(pairs)

    def judge(convention: str) -> Verdict:
        gaps = [statement.value(convention) for statement in statements]
        against = [
            pair
            for gap, pair in zip(gaps, pairs, strict=True)
            if not gap.meets(Span(Fraction(0), None, not strict))
        ]
        text = words()
        if against:
            told = "; ".join(
                f"{shown(a)} ({a.where}) is below {shown(b)} ({b.where})" for a, b in against
            )
            return False, f"{text} But {told.replace('is below', 'is not above')}."
        if all(gap.low is not None and gap.low >= 0 for gap in gaps):
            return True, f"{text} The printed numbers imply it."
        return (None if any(a.printed.value == b.printed.value for a, b in pairs) else True), (
            f"{text} It holds for the printed numbers; some differ by no more than rounding."
        )

    cells = list(dict.fromkeys(cell for pair in pairs for cell in pair))
    return Test(
        check,
        cells,
        judge,
        "more decimals where cells are close; else, whether another cell or word is meant",
        statements,
    )


@kind("order", "values direction")
def orders(check: Check) -> list[Test]:
    """`values` are `rising` (the default) or `falling` in the order given."""
    values = check.many("values")
    falling = check.option("direction", "rising") == "falling"
    pairs = [(a, b) if falling else (b, a) for a, b in itertools.pairwise(values)]
    words = f"{' → '.join(map(shown, values))} should be {'falling' if falling else 'rising'}."
    return [_ordered(check, pairs, lambda: words)]


@kind("slope", "values at log direction")
def slopes(check: Check) -> list[Test]:
    """The rise of `values` from one point of `at` to the next grows (or is `falling`, `uneven`).

    With `log` a point is a doubling: the rise is per factor of 2.
    """
    values, at = check.many("values"), check.option("at")
    points = [math.log2(x) if check.option("log") else float(x) for x in at]
    steps = [Fraction(b - a) for a, b in itertools.pairwise(points)]
    rises = [
        ((_ONE / step, b), (-_ONE / step, a))
        for step, a, b in zip(steps, values[:-1], values[1:], strict=True)
    ]
    direction = check.option("direction", "rising")
    pairs = list(itertools.pairwise(rises))
    pairs = [(b, a) for a, b in pairs] if direction == "falling" else pairs
    statements = [
        Linear((*later, *((-f, c) for f, c in earlier)), Span(Fraction(0), None))
        for earlier, later in pairs
    ]
    should = {"rising": "grow", "falling": "fall", "uneven": "differ"}[direction]
    rise_texts = [
        amount(sum((f * c.printed.value for f, c in rise), Fraction(0)), values[0], 3)
        for rise in rises
    ]

    def judge(convention: str) -> Verdict:
        gaps = [statement.value(convention) for statement in statements]
        words = (
            f"The rises {'per doubling' if check.option('log') else 'per unit'} are "
            f"{', '.join(rise_texts)}; they should {should}."
        )
        if direction == "uneven":
            return any(not gap.meets(Span(Fraction(0), Fraction(0))) for gap in gaps) or None, words
        if not all(gap.meets(Span(Fraction(0), None)) for gap in gaps):
            return False, words
        return True if all(gap.low is not None and gap.low >= 0 for gap in gaps) else None, words

    return [Test(check, values, judge, "more points", [] if direction == "uneven" else statements)]


@kind("best", "value others direction rank")
def bests(check: Check) -> list[Test]:
    """`value` is the highest of `others` (or with direction `lowest`); `rank` 2 is second best."""
    value, others = check.one("value"), check.many("others")
    rank = int(check.option("rank", 1))
    lowest = check.option("direction", "highest") == "lowest"
    others = [c for c in others if c.place != value.place]
    ranked = sorted(others, key=lambda c: c.printed.value, reverse=not lowest)
    pairs = [(value, other) for other in ranked[rank - 1 :]] + [
        (o, value) for o in ranked[: rank - 1]
    ]
    pairs = [(b, a) for a, b in pairs] if lowest else pairs
    extreme = "lowest" if lowest else "highest"
    place = "" if rank == 1 else f"number {rank} of the "
    words = f"{shown(value)} ({value.where}) should be the {place}{extreme} of "
    words += f"{len(others) + 1}; the {extreme} other is {shown(ranked[0])}."
    return [_ordered(check, pairs, lambda: words)]


@kind("up_to", "value values first second at direction")
def extremes(check: Check) -> list[Test]:
    """`value` is the largest (direction `least`: the smallest) of `values`, as in "up to 6.5".

    With `first` and `second`, of the differences between them, one by one. `at` names the cell, of
    `values` or `first`, where the largest is said to be; with it `value` may be left out.
    """
    sign = -_ONE if check.option("direction", "most") == "least" else _ONE
    word = "largest" if sign > 0 else "smallest"
    if "values" in check.options:
        items: list[tuple[tuple[Fraction, Cell], ...]] = [
            ((sign, cell),) for cell in check.many("values")
        ]
    else:
        sides = zip(check.many("first"), check.many("second"), strict=True)
        items = [((sign, a), (-sign, b)) for a, b in sides]
    cells = [cell for item in items for _, cell in item]
    top = max(items, key=lambda item: sum(f * c.printed.value for f, c in item))
    size = sign * sum(f * c.printed.value for f, c in top)
    told = " − ".join(shown(cell) for _, cell in top)
    told += f" = {amount(size, top[0][1])}" if len(top) > 1 else ""
    told = f"The {word} of {len(items)} is {told} ({top[0][1].where})"
    settle = f"whether the {word} is meant, and of which rows"
    value, at = check.maybe("value"), check.maybe("at")
    if value is None and at is None:
        raise BadRow(f"check {check.name!r} needs the option 'value', or 'at'.")
    tests = []
    if value is not None:
        limit = value
        above = [Linear(((sign, limit), *_minus(item)), Span(Fraction(0), None)) for item in items]

        def judge(convention: str) -> Verdict:
            found = _largest([Linear(item).value(convention) for item in items])
            holds = found.meets(limit.span(convention).times(sign))
            return holds, f"{told}; {said(limit)}."

        tests.append(Test(check, [limit, *cells], judge, settle, above))
    if at is not None:
        chosen = next((item for item in items if item[0][1].place == at.place), None)
        if chosen is None:
            raise BadRow(f"check {check.name!r}: at ({at.where}) is none of what is compared.")
        others = [item for item in items if item is not chosen]
        gaps = [Linear((*chosen, *_minus(item)), Span(Fraction(0), None)) for item in others]

        def judge_at(convention: str) -> Verdict:
            holds = all(gap.can_hold(convention) for gap in gaps)
            return holds, f"{told}; it should be that of {at.where}."

        tests.append(Test(check, [at, *cells], judge_at, settle, gaps))
    return tests


def _minus(terms: Sequence[tuple[Fraction, Cell]]) -> list[tuple[Fraction, Cell]]:
    return [(-factor, cell) for factor, cell in terms]


def _largest(spans: Sequence[Span]) -> Span:
    """All values that the largest of several can take."""
    lows = [(s.low, s.has_low) for s in spans if s.low is not None]
    low, has_low = max(lows, default=(None, True))
    if any(s.high is None for s in spans):
        return Span(low, None, has_low)
    high, has_high = max((s.high, s.has_high) for s in spans)  # type: ignore[type-var]
    return Span(low, high, has_low, has_high)


@kind("above", "values bound")
def above(check: Check) -> list[Test]:
    """Each of `values` is above the `bound` (one number, or one for each)."""
    return _bounded(check, is_above=True)


@kind("below", "values bound")
def below(check: Check) -> list[Test]:
    """Each of `values` is below the `bound` (one number, or one for each)."""
    return _bounded(check, is_above=False)


def _bounded(check: Check, *, is_above: bool) -> list[Test]:
    values, bounds = check.many("values"), check.many("bound")
    bounds = bounds * len(values) if len(bounds) == 1 else bounds
    # A limit in words ("below 45 %") is meant as it stands and is no rounded measurement.
    if len(check.many("bound")) == 1:
        bounds = [b._replace(printed=b.printed._replace(is_exact=True)) for b in bounds]
    pairs = list(zip(values, bounds, strict=True))
    pairs = pairs if is_above else [(b, a) for a, b in pairs]
    near = sorted(values, key=lambda c: c.printed.value, reverse=not is_above)[0]
    subject = f"{len(values)} numbers" if len(values) > 1 else f"{shown(near)} ({near.where})"
    words = (
        f"{subject} should be {'above' if is_above else 'below'} "
        f"{shown(bounds[0]) if len(set(bounds)) == 1 else 'their partners'}"
        + (
            f"; the {'lowest' if is_above else 'highest'} is {shown(near)}."
            if len(values) > 1
            else "."
        )
    )
    return [_ordered(check, pairs, lambda: words, strict=True)]


@kind("within", "values first second low high")
def within(check: Check) -> list[Test]:
    """`values`, or the difference `first` − `second`, lie in the printed range `low` to `high`."""
    low, high = check.one("low"), check.one("high")
    if "first" in check.options:
        a, b = check.one("first"), check.one("second")
        sides: list[tuple[tuple[Fraction, Cell], ...]] = [((_ONE, a), (-_ONE, b))]
        told = f"{shown(a)} − {shown(b)} = {amount(a.printed.value - b.printed.value, a)}"
    else:
        sides = [((_ONE, value),) for value in check.many("values")]
        told = ", ".join(shown(side[0][1]) for side in sides)
    statements = [
        Linear(terms, Span(Fraction(0), None))
        for side in sides
        for terms in (
            (*side, (-_ONE, low)),
            (*((-factor, cell) for factor, cell in side), (_ONE, high)),
        )
    ]

    def judge(convention: str) -> Verdict:
        holds = all(statement.can_hold(convention) for statement in statements)
        return holds, f"{told}; the range printed is {shown(low)} to {shown(high)}."

    cells = [low, high, *(cell for side in sides for _, cell in side)]
    return [Test(check, cells, judge, "the unrounded values", statements)]
