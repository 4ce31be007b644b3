"""Printed numbers: which true values a print allows, under each way of rounding."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

CONVENTIONS = ("half up", "half even", "ties either way", "rounded twice", "cut off")
"""Ways to round, likeliest first.

Binary floats break ties either way; who prints 18.5 for 18.447 % rounded 18.45 before.
"""


@lru_cache(maxsize=10_000)
def _span(
    top: int, bottom: int, unit_top: int, unit_bottom: int, bound: str, is_exact: bool, way: str
) -> Span:
    """`Printed.span`, remembered by whole numbers, which are quick to hash."""
    value, unit = Fraction(top, bottom), Fraction(unit_top, unit_bottom)
    if bound == "<":
        return Span(None, value, True, False)
    if bound == ">":
        return Span(value, None, False, True)
    if is_exact:
        return Span(value, value)
    if value < 0:
        mirrored = _span(-top, bottom, unit_top, unit_bottom, bound, is_exact, way)
        return mirrored.times(Fraction(-1))
    half = unit / 2
    if way == "cut off":
        zero = value == 0
        return Span(value - unit * zero, value + unit, not zero, False)
    if way == "rounded twice":  # half up, first to one digit more than is printed
        low, high = value - half - unit / 20, value + half - unit / 20
        return Span(low, high, True, False) if value else Span(-high, high, False, False)
    is_even = int(value / unit) % 2 == 0
    has_low, has_high = {
        "half up": (value != 0, False),
        "half even": (is_even, is_even),
        "ties either way": (True, True),
    }[way]
    return Span(value - half, value + half, has_low, has_high)


_NUMBER = re.compile(
    r"(?P<digits>[-−+]?\d{1,3}(?:[,\u2009\u00a0\u202f]\d{3})+(?!\d)(?:\.\d+)?"
    r"|[-−+]?(?:\d+\.?\d*|\.\d+))"
    r"(?:(?:[eE]| ?[×·] ?10(?:\^|(?=[-−+])))(?P<power>[-−+]?\d{1,3})(?![\d.]))?"
)
_WIDE = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_POWER = re.compile(r"(?:(?<=[×·]10)|(?<=[×·] 10))[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")


class Span(NamedTuple):
    """An interval of true values; None is without end. `has_low`: the end itself belongs to it."""

    low: Fraction | None
    high: Fraction | None
    has_low: bool = True
    has_high: bool = True

    def times(self, factor: Fraction) -> Span:
        """Every value multiplied."""
        if factor == 0:
            return Span(Fraction(0), Fraction(0))
        low, high = (None if end is None else end * factor for end in self[:2])
        if factor > 0:
            return Span(low, high, self.has_low, self.has_high)
        return Span(high, low, self.has_high, self.has_low)

    def plus(self, other: Span) -> Span:
        """Every sum of a value of each."""
        low = None if self.low is None or other.low is None else self.low + other.low
        high = None if self.high is None or other.high is None else self.high + other.high
        return Span(low, high, self.has_low and other.has_low, self.has_high and other.has_high)

    def over(self, other: Span) -> Span:
        """Every ratio of a value to one of `other`; both without negative values."""
        if self.low is None or other.low is None or self.low < 0 or other.low < 0:
            return Span(None, None)
        low = None if other.high is None else self.low / other.high
        low = Fraction(0) if low is None else low
        high = None if self.high is None or other.low == 0 else self.high / other.low
        return Span(low, high, self.has_low and other.has_high, self.has_high and other.has_low)

    def meets(self, other: Span) -> bool:
        """Whether some value lies in both.

        >>> Span(Fraction(0), Fraction(1), True, False).meets(Span(Fraction(1), None))
        False
        """
        return _before(self, other) and _before(other, self)

    def holds(self, value: float | Fraction) -> bool:
        """Whether a value lies in it; floats get the room of their own error."""
        if isinstance(value, float):
            room = 1e-9 * max(1.0, abs(value))
            above = self.low is None or value >= float(self.low) - room
            return above and (self.high is None or value <= float(self.high) + room)
        return self.meets(Span(value, value))

    def whole(self) -> range:
        """The whole numbers in it; it must have both ends."""
        assert self.low is not None
        assert self.high is not None
        low, high = math.ceil(self.low), math.floor(self.high)
        low += low == self.low and not self.has_low
        high -= high == self.high and not self.has_high
        return range(low, high + 1)


def _before(one: Span, other: Span) -> bool:
    """Whether `one` begins no later than `other` ends."""
    if one.low is None or other.high is None or one.low < other.high:
        return True
    return one.low == other.high and one.has_low and other.has_high


class Printed(NamedTuple):
    """A number as it stands in print: its value, the unit of its last digit, `<` or `>`."""

    value: Fraction
    unit: Fraction
    bound: str = ""
    is_exact: bool = False

    def span(self, convention: str) -> Span:
        """The true values that would be printed like this.

        >>> printed = numbers("-0.5")[0]
        >>> span = printed.span("half even")
        >>> float(span.low), float(span.high), span.has_low
        (-0.55, -0.45, False)
        """
        value, unit = self.value, self.unit
        ints = (value.numerator, value.denominator, unit.numerator, unit.denominator)
        return _span(*ints, self.bound, self.is_exact, convention)

    def to_decimals(self, decimals: int) -> Printed:
        """The same number when its last digits are zeros that its file has dropped."""
        return self._replace(unit=min(self.unit, Fraction(1, 10**decimals)))

    def scaled(self, factor: Fraction) -> Printed:
        """The same print in another unit, as percent are in proportions."""
        return self._replace(value=self.value * factor, unit=self.unit * factor)


def numbers(text: str, *, is_exact: bool = False) -> list[Printed]:
    """The numbers in a printed cell, in order: `157/69` and `6.1 to 10.6` hold two, `<.001` one.

    >>> [(float(x.value), float(x.unit), x.bound) for x in numbers("<.001")]
    [(0.001, 0.001, '<')]
    >>> [float(x.value) for x in numbers("10-20")], float(numbers("1,234")[0].value)
    ([10.0, 20.0], 1234.0)
    >>> [float(numbers(x)[0].value) for x in ("3.2e-4", "1.2 × 10⁻³", "３．２")]
    [0.00032, 0.0012, 3.2]
    """
    found = []
    text = _POWER.sub(lambda raised: "^" + raised[0].translate(_RAISED), text).translate(_WIDE)
    for match in _NUMBER.finditer(text):
        digits = re.sub("[,\u2009\u00a0\u202f]", "", match["digits"]).replace("−", "-")
        before = text[: match.start()].rstrip()
        if digits[0] == "-" and before[-1:].isdigit():  # a range, not a sign
            digits = digits[1:]
        decimals = len(digits.partition(".")[2])
        bound = before[-1:] if before[-1:] in ("<", ">") and before else ""
        power = Fraction(10) ** int((match["power"] or "0").replace("−", "-"))
        unit = Fraction(1, 10**decimals)
        found.append(Printed(Fraction(digits) * power, unit * power, bound, is_exact))
    return found


def plain(value: float | Fraction, digits: int = 6) -> str:
    """A number for a sentence, with at most so many significant digits.

    >>> plain(Fraction(482, 50)), plain(0.30000000000000004), plain(Fraction(1, 3), 3)
    ('9.64', '0.3', '0.333')
    """
    text = f"{float(value):.{digits}g}"
    return text if "e" not in text or abs(float(value)) < 1e-4 else f"{float(value):.0f}"
