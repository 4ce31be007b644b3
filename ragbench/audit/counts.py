"""Which counts can print as a given percentage or mean, for one n, a range of n, or jointly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ragbench.audit.declaration import Cell, Check
from ragbench.audit.kinds import Linear, Test, Verdict, amount, kind, listed, shown
from ragbench.audit.rounding import Span, plain
from ragbench.errors import BadRow, UnknownColumn

_MOST = 20_000  # an n beyond this fits anything that has three decimals


def fitting(cell: Cell, sizes: range, convention: str, items: int = 1) -> np.ndarray:
    """For each n of `sizes`, whether a whole number out of n times `items` can print as the cell.

    Whole-number arithmetic throughout: an interval that ends on a tie is decided exactly.
    """
    span, whole = cell.span(convention), np.arange(sizes.start, sizes.stop) * items
    if span.low is None or span.high is None:
        return np.ones(len(whole), dtype=bool)
    first = -(-whole * span.low.numerator // span.low.denominator)
    last = whole * span.high.numerator // span.high.denominator
    if not span.has_low:
        first = whole * span.low.numerator // span.low.denominator + 1
    if not span.has_high:
        last = -(-whole * span.high.numerator // span.high.denominator) - 1
    return first <= last


@kind("count", "value n items")
def counts(check: Check) -> list[Test]:
    """`value` is a whole number divided by `n` (times `items` each); `n` may be [least, most]."""
    value, items = check.one("value"), int(check.option("items", 1))
    if isinstance(check.option("n"), list) and len(check.option("n")) == 2:
        return [_for_a_range(check, value, items)]
    n = check.one("n")
    size = n.printed.value * items
    if size <= 0 or size.denominator != 1:
        raise BadRow(f"check {check.name!r}: n is {shown(n)}; it must be a whole number above 0.")
    statement = Linear(((size, value),), is_whole=True)

    def judge(convention: str) -> Verdict:
        found = statement.value(convention).whole()
        told = f"{plain(size)}" + (f" ({shown(n)} × {items})" if items > 1 else "")
        if found:
            return True, f"{shown(value)} is {listed(found, 3)} of {told}."
        below = int(size * value.printed.value // 1)
        near = " and ".join(
            f"{x} gives {amount(Fraction(x) / size, value, 5)}" for x in (below, below + 1)
        )
        text = f"No whole number of {told} prints as {shown(value)}: {near}."
        sizes = range(max(1, int(size) // items - 30), int(size) // items)
        smaller = [
            n
            for n, fits in zip(sizes, fitting(value, sizes, convention, items), strict=True)
            if fits
        ]
        if smaller:
            text += f" It would fit n = {listed(smaller[::-1], 4)}, as when responses are missing."
        return False, text

    settle = f"the count behind it, and whether the n was {plain(size)} (missing ones lower it)"
    return [Test(check, [value, n], judge, settle, [statement])]


def _for_a_range(check: Check, value: Cell, items: int) -> Test:
    ends = check.many("n")
    sizes = range(int(ends[0].printed.value), int(ends[1].printed.value) + 1)

    def judge(convention: str) -> Verdict:
        found = [
            n
            for n, fits in zip(sizes, fitting(value, sizes, convention, items), strict=True)
            if fits
        ]
        told = f"n from {sizes[0]} to {sizes[-1]}"
        if not found:
            return False, f"No {told} gives {shown(value)}."
        return True, f"Of {told}, {len(found)} can give {shown(value)}: {listed(found)}."

    return Test(check, [value, *ends], judge, "the count and the n behind it")


@kind("common_n", "values n least items")
def common(check: Check) -> list[Test]:
    """All `values` are counts out of one and the same n, of at most `n` (and at least `least`)."""
    values, most = check.many("values"), check.one("n")
    limit, least = int(most.printed.value), int(check.option("least", 1))
    items = int(check.option("items", 1))

    def judge(convention: str) -> Verdict:
        sizes = range(least, limit + 1)
        each = np.array([fitting(cell, sizes, convention, items) for cell in values])
        found = [n for n, fits in zip(sizes, np.all(each, axis=0).tolist(), strict=True) if fits]
        told = f"the {len(values)} numbers ({listed([shown(c) for c in values], 14)})"
        if found:
            fits = "is one of them" if limit in found else "is not"
            return True, (
                f"Of all n from {least} to {limit}, {len(found)} fit {told}: "
                f"{listed(found[::-1])}; {limit} {fits}."
            )
        most_fit = int(each.sum(axis=0).max())
        near = [n for n, count in zip(sizes, each.sum(axis=0), strict=True) if count == most_fit]
        wide = range(limit + 1, _MOST)
        beyond = np.flatnonzero(
            np.all([fitting(c, wide, convention, items) for c in values], axis=0)
        )
        text = f"No n from {least} to {limit} fits all of {told}; "
        text += f"n = {listed(near[::-1], 3)} fits {most_fit}."
        return False, text + (
            f" The smallest n that fits all is {wide[beyond[0]]}." if len(beyond) else ""
        )

    settle = f"the n of each row, of at most {limit}: with some missing it may differ"
    return [Test(check, [*values, most], judge, settle)]


@kind("tally", "value table where where_not")
def tallies(check: Check) -> list[Test]:
    """`value` is the number of rows of a `table` that fit `where` and not `where_not`."""
    from ragbench.audit.declaration import named

    value, table = check.one("value"), named(check.tables, check.option("table", ""))
    where, where_not = check.option("where", {}), check.option("where_not", {})
    for column in (*where, *where_not):
        if column not in table.frame.columns:
            raise UnknownColumn(f"table {table.name}", column, table.frame.columns)
    count = sum(
        all(line[column] == wanted for column, wanted in where.items())
        and not any(line[column] == wanted for column, wanted in where_not.items())
        for line in table.frame.iter_rows(named=True)
    )

    def judge(convention: str) -> Verdict:
        which = " and ".join(
            [f"{k} {v}" for k, v in where.items()]
            + [f"{k} other than {v}" for k, v in where_not.items()]
        )
        which = f" with {which}" if which else ""
        text = f"{table.label} has {count} rows{which}; printed is {shown(value)}."
        return value.span(convention).meets(Span(Fraction(count), Fraction(count))), text

    return [Test(check, [value], judge, "the list that was counted")]


@kind("setting", "values why")
def settings(check: Check) -> list[Test]:
    """`values` are choices of method: nothing in print bears on them (`why` says more)."""

    def judge(convention: str) -> Verdict:
        return None, check.option(
            "why", "A choice of method; no other printed number depends on it."
        )

    settle = "the code or the configuration that was used"
    return [Test(check, [value], judge, settle) for value in check.many("values")]
