"""The kinds of check, by name: each takes a declared check and gives the tests it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from ragbench.audit.declaration import Cell, Check
from ragbench.audit.rounding import Span, plain
from ragbench.errors import UnknownName

Verdict = tuple[bool | None, str]


class Linear(NamedTuple):
    """The sum of factor times cell lies within `span`, or (`is_whole`) is a whole number."""

    terms: tuple[tuple[Fraction, Cell], ...]
    span: Span = Span(Fraction(0), Fraction(0))
    is_whole: bool = False

    def value(self, convention: str) -> Span:
        """All values that the sum can take when each cell is rounded like this."""
        total = Span(Fraction(0), Fraction(0))
        for factor, cell in self.terms:
            total = total.plus(cell.span(convention).times(factor))
        return total

    def can_hold(self, convention: str) -> bool:
        """Whether some true values of the cells satisfy it."""
        value = self.value(convention)
        return bool(value.whole()) if self.is_whole else value.meets(self.span)


@dataclass
class Test:
    """What is asked of some cells: `judge` says, for a way of rounding, whether it can hold.

    True: it holds, or can. False: no true values that print like this satisfy it. None: the print
    does not decide. `linear` is the same for the search over all tests at once.
    """

    check: Check
    cells: list[Cell]
    judge: Callable[[str], Verdict]
    settle: str = ""
    linear: list[Linear] = field(default_factory=list)
    is_slow: bool = False  # judged last, and only under ways of rounding that fit the others


Maker = Callable[[Check], list[Test]]
KINDS: dict[str, Maker] = {}
OPTIONS: dict[str, frozenset[str]] = {}
COMMON = frozenset({"kind", "name", "over", "assume", "claims", "settle"})


def kind(name: str, options: str) -> Callable[[Maker], Maker]:
    """Registers a kind of check under its name, with the options it takes."""

    def register(maker: Maker) -> Maker:
        KINDS[name] = maker
        OPTIONS[name] = COMMON | set(options.split())
        return maker

    return register


def stated(check: Check, tests: Sequence[str]) -> list[str]:
    """The test that the paper states (option `test`); all of them where it states none."""
    name = check.option("test")
    if name is not None and name not in tests:
        raise UnknownName("test", str(name), tests, place=f"check {check.name!r}")
    return [name] if name else list(tests)


def shown(cell: Cell) -> str:
    """A cell's number as it is printed, with its unit."""
    number = cell.printed.scaled(Fraction(100)) if cell.is_percent else cell.printed
    decimals = 0
    while number.unit * 10**decimals < 1:
        decimals += 1
    text = f"{number.bound}{float(number.value):.{decimals}f}"
    if number.is_exact:
        text = plain(number.value, 12)
    return text + (" %" if cell.is_percent else "")


def said(cell: Cell) -> str:
    """The printed number as the end of a sentence."""
    is_printed = cell.table or not cell.printed.is_exact
    return f"{'printed is' if is_printed else 'it should be'} {shown(cell)}"


def amount(value: Fraction | float, like: Cell, digits: int = 6) -> str:
    """A computed number in the unit of a cell."""
    return f"{plain(100 * value, digits)} %" if like.is_percent else plain(value, digits)


def percent(value: float) -> str:
    """A computed proportion as percent.

    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{plain(100 * value, 3)} %"


def between(span: Span, like: Cell) -> str:
    """An interval in the unit of a cell, in words."""
    if span.low is None or span.high is None:
        end = span.high if span.low is None else span.low
        return f"{'below' if span.low is None else 'above'} {amount(end or 0, like)}"
    if span.low == span.high:
        return f"exactly {amount(span.low, like)}"
    return f"{amount(span.low, like)} to {amount(span.high, like)}"


def listed(items: Sequence[object], most: int = 6) -> str:
    """Items with commas, the first few."""
    texts = [str(item) for item in items[:most]]
    return ", ".join(texts) + (", …" if len(items) > most else "")


# The modules below register their kinds when they are imported.
from ragbench.audit import columns, counts, linear, margins, statistics  # noqa: E402, F401
