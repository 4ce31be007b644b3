"""Simulated papers whose data sets are known, and a brute force that says what can be detected.

A paper has groups with known sizes, the successes of two systems in each (as percent), the
overall rates, the difference per group, the share of each group, mean numbers of constraints in two
parts and their sum, agreement and kappa of two raters, and a rank correlation of six points with
its exact p. All of it follows from counts and orders.

The brute force uses nothing of the package: it prints candidate data sets with `decimal` and
compares texts. A paper is impossible when, for each way of rounding, no data set prints it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import cache
from itertools import permutations
from pathlib import Path

import polars as pl

WAYS = (ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN)
RATERS, POINTS = 30, 6
Paper = dict[tuple[str, str, str], str]  # table, row, column -> what is printed

DECLARATION = """
[tables.rates]
file = "rates.csv"
key = "group"
percent = ["first", "second", "difference", "share"]
exact = ["n"]

[tables.parts]
file = "parts.csv"
key = "group"
exact = ["n"]

[tables.raters]
file = "raters.csv"
key = "of"
percent = ["agreement"]

[tables.ranks]
file = "ranks.csv"
key = "of"

[[check]]
kind = "spearman"
over = "ranks"
rho = "@rho"
n = 6
p = "@p"
[[check]]
kind = "sum"
total = "rates[all].n"
parts = "rates[!all].n"
[[check]]
kind = "equal"
over = "parts"
values = ["@n", "rates[@group].n"]
[[check]]
kind = "ratio"
over = "rates[!all]"
share = "@share"
part = "@n"
whole = "rates[all].n"
[[check]]
kind = "count"
over = "rates"
value = "@first"
n = "@n"
[[check]]
kind = "count"
over = "rates"
value = "@second"
n = "@n"
[[check]]
kind = "difference"
over = "rates"
result = "@difference"
first = "@first"
second = "@second"
[[check]]
kind = "mean"
result = "rates[all].first"
values = "rates[!all].first"
weights = "rates[!all].n"
[[check]]
kind = "mean"
result = "rates[all].second"
values = "rates[!all].second"
weights = "rates[!all].n"
[[check]]
kind = "count"
over = "parts"
value = "@form"
n = "@n"
[[check]]
kind = "count"
over = "parts"
value = "@content"
n = "@n"
[[check]]
kind = "count"
over = "parts"
value = "@both"
n = "@n"
[[check]]
kind = "sum"
over = "parts"
total = "@both"
parts = ["@form", "@content"]
[[check]]
kind = "count"
over = "raters"
value = "@agreement"
n = 30
[[check]]
kind = "kappa"
over = "raters"
kappa = "@kappa"
agreement = "@agreement"
n = 30
"""


@cache
def printed(top: int, bottom: int, decimals: int, way: str) -> str:
    """A ratio of whole numbers as text, rounded in one step from its exact value."""
    # Enough digits that no ratio with these denominators is mistaken for a tie.
    value = Decimal(top) / Decimal(bottom)
    text = str(value.quantize(Decimal(1).scaleb(-decimals), rounding=way))
    return text.replace("-", "", 1) if Decimal(text) == 0 else text


def rank_correlation(order: Sequence[int]) -> Fraction:
    apart = sum((place - rank) ** 2 for place, rank in enumerate(order))
    return 1 - Fraction(6 * apart, POINTS * (POINTS**2 - 1))


@cache
def _exact_p() -> dict[Fraction, tuple[int, int]]:
    """Size of a correlation -> how many of all orders are at least as extreme, and of how many."""
    every = [abs(rank_correlation(order)) for order in permutations(range(POINTS))]
    return {rho: (sum(other >= rho for other in every), len(every)) for rho in set(every)}


@cache
def _ranks(way: str) -> frozenset[tuple[str, str]]:
    """All pairs of rho and p that six points can print."""
    signed = {sign * rho: p for rho, p in _exact_p().items() for sign in (1, -1)}
    return frozenset(
        (printed(rho.numerator, rho.denominator, 2, way), printed(*p, 3, way))
        for rho, p in signed.items()
    )


def kappa_of(both: int, only: int, other: int) -> Fraction | None:
    first, second = both + only, both + other
    agreed = Fraction(RATERS - only - other, RATERS)
    chance = Fraction(first * second + (RATERS - first) * (RATERS - second), RATERS * RATERS)
    return None if chance == 1 else (agreed - chance) / (1 - chance)


def consistent(seed: int) -> Paper:
    """What a paper prints that made no slip."""
    draw = random.Random(seed)
    way = draw.choice(WAYS)
    names = [f"g{place}" for place in range(draw.randint(3, 5))]
    sizes = {name: draw.randint(12, 60) for name in names}
    counts = {name: (draw.randint(0, n), draw.randint(0, n)) for name, n in sizes.items()}
    sizes["all"] = sum(sizes.values())
    counts["all"] = (sum(x for x, _ in counts.values()), sum(y for _, y in counts.values()))
    paper: Paper = {}
    for name, n in sizes.items():
        x, y = counts[name]
        row = {"first": x, "second": y, "difference": x - y}
        texts = {column: printed(100 * count, n, 1, way) for column, count in row.items()}
        if name != "all":
            texts["share"] = printed(100 * n, sizes["all"], 1, way)
            form, content = draw.randint(n, 4 * n), draw.randint(n, 4 * n)
            means = {"form": form, "content": content, "both": form + content}
            paper |= {("parts", name, c): printed(k, n, 2, way) for c, k in means.items()}
            paper["parts", name, "n"] = str(n)
        paper |= {("rates", name, column): text for column, text in texts.items()}
        paper["rates", name, "n"] = str(n)
    kappa = None
    while kappa is None:
        only, other = draw.randint(0, 5), draw.randint(0, 5)
        both = draw.randint(0, RATERS - only - other)
        kappa = kappa_of(both, only, other)
    paper["raters", "judge", "agreement"] = printed(100 * (RATERS - only - other), RATERS, 0, way)
    paper["raters", "judge", "kappa"] = printed(kappa.numerator, kappa.denominator, 2, way)
    order = draw.sample(range(POINTS), POINTS)
    rho = rank_correlation(order)
    paper["ranks", "points", "rho"] = printed(rho.numerator, rho.denominator, 2, way)
    paper["ranks", "points", "p"] = printed(*_exact_p()[abs(rho)], 3, way)
    return paper


def with_a_slip(paper: Paper, seed: int) -> tuple[Paper, tuple[str, str, str]]:
    """The paper with one digit of one cell changed, and the cell."""
    draw = random.Random(seed)
    cell = draw.choice(sorted(paper))
    text = paper[cell]
    place = draw.choice([i for i, letter in enumerate(text) if letter.isdigit()])
    digit = draw.choice([d for d in "0123456789" if d != text[place]])
    if digit == "0" and place == 0 and text.isdigit():
        digit = "9" if text[0] != "9" else "8"
    return {**paper, cell: text[:place] + digit + text[place + 1 :]}, cell


def write(paper: Paper, folder: Path) -> Path:
    """The paper as CSV files and the declaration beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = {"rates": "group", "parts": "group", "raters": "of", "ranks": "of"}
    for table, key in keys.items():
        rows = list(dict.fromkeys(row for t, row, _ in paper if t == table))
        columns = list(dict.fromkeys(column for t, _, column in paper if t == table))
        lines = [{key: row, **{c: paper.get((table, row, c)) for c in columns}} for row in rows]
        pl.DataFrame(lines, infer_schema_length=None).write_csv(folder / f"{table}.csv")
    path = folder / "paper.toml"
    path.write_text(DECLARATION, encoding="utf-8")
    return path


# ---------------------------------------------------------------- what no data set prints


def is_possible(paper: Paper) -> bool:
    """Whether some data set, rounded in some one way, prints exactly this."""
    return any(_possible(paper, way) for way in WAYS)


def _possible(paper: Paper, way: str) -> bool:
    groups = [row for table, row, column in paper if table == "rates" and column == "n"]
    groups = [row for row in groups if row != "all"]
    sizes = {row: int(paper["rates", row, "n"]) for row in [*groups, "all"]}
    if sum(sizes[row] for row in groups) != sizes["all"]:
        return False
    for row in groups:
        if paper["parts", row, "n"] != paper["rates", row, "n"]:
            return False
        if paper["rates", row, "share"] != printed(100 * sizes[row], sizes["all"], 1, way):
            return False
        if not _parts_possible(paper, row, sizes[row], way):
            return False
    if tuple(paper["ranks", "points", column] for column in ("rho", "p")) not in _ranks(way):
        return False
    return _rates_possible(paper, groups, sizes, way) and _raters_possible(paper, way)


def _counts(text: str, n: int, scale: int, decimals: int, most: int, way: str) -> Iterator[int]:
    """The whole numbers that print as the text, by printing them."""
    near = int(float(text) * n / scale)
    for count in range(max(0, near - 3), min(most, near + 4) + 1):
        if printed(scale * count, n, decimals, way) == text:
            yield count


def _parts_possible(paper: Paper, row: str, n: int, way: str) -> bool:
    first = list(_counts(paper["parts", row, "form"], n, 1, 2, 10**6, way))
    second = list(_counts(paper["parts", row, "content"], n, 1, 2, 10**6, way))
    both = paper["parts", row, "both"]
    return any(printed(a + b, n, 2, way) == both for a in first for b in second)


def _rates_possible(paper: Paper, groups: list[str], sizes: dict[str, int], way: str) -> bool:
    def pairs(row: str) -> set[tuple[int, int]]:
        n = sizes[row]
        texts = [paper["rates", row, c] for c in ("first", "second", "difference")]
        return {
            (x, y)
            for x in _counts(texts[0], n, 100, 1, n, way)
            for y in _counts(texts[1], n, 100, 1, n, way)
            if printed(100 * (x - y), n, 1, way) == texts[2]
        }

    sums = {(0, 0)}
    for row in groups:
        sums = {(a + x, b + y) for a, b in sums for x, y in pairs(row)}
    return bool(sums & pairs("all"))


def _raters_possible(paper: Paper, way: str) -> bool:
    agreement, kappa = (paper["raters", "judge", c] for c in ("agreement", "kappa"))
    return (agreement, kappa) in _raters(way)


@cache
def _raters(way: str) -> frozenset[tuple[str, str]]:
    """All pairs of agreement and kappa that 30 items can print."""
    found = set()
    for apart in range(RATERS + 1):
        for only in range(apart + 1):
            for both in range(RATERS - apart + 1):
                value = kappa_of(both, only, apart - only)
                if value is not None:
                    shown = printed(value.numerator, value.denominator, 2, way)
                    found.add((printed(100 * (RATERS - apart), RATERS, 0, way), shown))
    return frozenset(found)
