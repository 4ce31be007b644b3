"""Simulated papers whose data sets are known, and a brute force that says what can be detected.

A paper has groups with known sizes, the successes of two systems in each (as percent), the overall
rates, the difference per group, the share of each group, and claims about them (the best group, the
largest difference, how many groups). Beside them stand some of `BLOCKS`: mean numbers of
constraints in two parts and their sum; agreement and kappa of two raters; a rank correlation with
its p; raw ratings with ICC and mean rho; two proportions with p and an interval; paired rates with
McNemar's p; standard errors. Tables are wide or long, decimals and ways of rounding vary. All of it
follows from counts and orders.

The brute force uses nothing of the package: it prints candidate data sets with `decimal` and scipy
and compares texts. A paper is impossible when, for each way of rounding, no data set prints it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations, permutations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy import stats

TWICE = "half up, to one digit more and then to the last"
WAYS = (ROUND_HALF_UP, ROUND_HALF_EVEN, TWICE, ROUND_DOWN)
Place = tuple[str, str, str]  # table, row, column
Paper = dict[Place, str]


class Block(NamedTuple):
    """A part of a paper: what it prints, what is declared about it, what some data set prints."""

    make: Callable[[random.Random, str], Paper]
    declared: Callable[[Paper], str]
    fits: Callable[[Paper, str], bool]


@cache
def printed(top: int, bottom: int, decimals: int, way: str) -> str:
    """A ratio of whole numbers as text, rounded from its exact value."""
    # Enough digits that no ratio with these denominators is mistaken for a tie.
    return _rounded(Decimal(top) / Decimal(bottom), decimals, way)


def _rounded(value: Decimal, decimals: int, way: str) -> str:
    if way == TWICE:
        value = value.quantize(Decimal(1).scaleb(-decimals - 1), rounding=ROUND_HALF_UP)
    rounding = ROUND_HALF_UP if way == TWICE else way
    text = str(value.quantize(Decimal(1).scaleb(-decimals), rounding=rounding))
    return text.replace("-", "", 1) if Decimal(text) == 0 else text


def _number(value: float, decimals: int, way: str) -> str:
    return _rounded(Decimal(float(value)), decimals, way)


def _p_text(p: float, way: str) -> str:
    return "<0.001" if p < 0.001 else _number(p, 3, way)


def _is_p(text: str, values: Iterable[float], way: str) -> bool:
    if text.startswith("<"):
        return any(p < float(text[1:]) for p in values)
    return any(_p_text(p, way) == text or _number(p, 3, way) == text for p in values)


def _check(kind: str, **options: object) -> str:
    lines = [f"{name} = {_toml(value)}" for name, value in options.items()]
    return "\n".join(["[[check]]", f'kind = "{kind}"', *lines, ""])


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _rows(paper: Paper, table: str) -> list[str]:
    return list(dict.fromkeys(row for t, row, _ in paper if t == table))


def _decimals(paper: Paper, *places: Place) -> int:
    """How many decimals a column has; a digit that changes leaves them as they are."""
    return max(len(paper[place].partition(".")[2]) for place in places)


def _counts(text: str, n: int, scale: int, most: int, way: str) -> Iterator[int]:
    """The whole numbers out of n that print as the text, by printing them."""
    decimals = len(text.partition(".")[2])
    low, high = (float(text) + sign * 2 * 10.0**-decimals for sign in (-1, 1))
    for count in range(max(0, int(low * n / scale) - 1), min(most, int(high * n / scale) + 1) + 1):
        if printed(scale * count, n, decimals, way) == text:
            yield count


# ---------------------------------------------------------------- groups, wide or long


def _make_groups(draw: random.Random, way: str) -> Paper:
    decimals, is_long = draw.choice((0, 1, 1, 2)), draw.random() < 0.4
    most = draw.choice((60, 180) if decimals == 0 else (60, 400))
    names = [f"g{place}" for place in range(draw.randint(2, 6))]
    sizes = {name: draw.randint(12, most) for name in names}
    counts = {name: (draw.randint(0, n), draw.randint(0, n)) for name, n in sizes.items()}
    best = max(names, key=lambda name: Fraction(counts[name][0], sizes[name]))
    gains = {name: Fraction(x - y, sizes[name]) for name, (x, y) in counts.items()}
    sizes["all"] = sum(sizes.values())
    counts["all"] = (sum(x for x, _ in counts.values()), sum(y for _, y in counts.values()))
    paper: Paper = {}
    for name, n in sizes.items():
        x, y = counts[name]
        row = {"first": x, "second": y, "difference": x - y}
        paper |= {
            _at(is_long, name, column): printed(100 * count, n, decimals, way)
            for column, count in row.items()
        }
        paper[_at(is_long, name, "n")] = str(n)
        if name != "all":
            paper[_at(is_long, name, "share")] = printed(100 * n, sizes["all"], 1, way)
    top = max(gains.values())
    paper["claims", f"best {best}", "value"] = paper[_at(is_long, best, "first")]
    coarse = max(0, decimals - draw.randint(0, 1))
    paper["claims", "gain", "value"] = printed(100 * top.numerator, top.denominator, coarse, way)
    paper["claims", "groups", "value"] = str(len(names))
    return paper


def _at(is_long: bool, group: str, column: str) -> Place:
    return ("long", f"{group} | {column}", "value") if is_long else ("rates", group, column)


def _groups(paper: Paper) -> tuple[bool, list[str]]:
    """Whether the table is long, and its groups but the last, which counts all."""
    is_long = any(table == "long" for table, _, _ in paper)
    rows = _rows(paper, "long" if is_long else "rates")
    return is_long, list(dict.fromkeys(row.split(" | ")[0] for row in rows))[:-1]


def _declared_groups(paper: Paper) -> str:
    is_long, names = _groups(paper)

    def cell(group: str, column: str) -> str:
        table, row, name = _at(is_long, group, column)
        return f"{table}[{row}].{name}"

    def column(name: str) -> list[str]:
        return [cell(group, name) for group in names]

    size = cell("all", "n")
    if is_long:
        parts = ['[tables.long]\nfile = "long.csv"\nkey = ["group", "measure"]']
        parts.append('percent_if = { measure = ["first", "second", "difference", "share"] }')
        parts.append('exact_if = { measure = ["n"] }\n')
    else:
        parts = ['[tables.rates]\nfile = "rates.csv"\nkey = "group"\nexact = ["n"]']
        parts.append('percent = ["first", "second", "difference", "share"]\n')
    parts.append('[tables.claims]\nfile = "claims.csv"\nkey = "of"\nexact_if = { of = ["groups"] }')
    best = next(row for row in _rows(paper, "claims") if row.startswith("best "))
    parts.append(f'percent_if = {{ of = ["{best}", "gain"] }}\n')
    parts.append(_check("sum", total=size, parts=column("n")))
    for group in [*names, "all"]:
        first, second, n = (cell(group, name) for name in ("first", "second", "n"))
        parts += [_check("count", value=value, n=n) for value in (first, second)]
        result = cell(group, "difference")
        parts.append(_check("difference", result=result, first=first, second=second))
    parts += [_check("ratio", share=cell(g, "share"), part=cell(g, "n"), whole=size) for g in names]
    for name in ("first", "second"):
        parts.append(
            _check("mean", result=cell("all", name), values=column(name), weights=column("n"))
        )
    leader = cell(best.removeprefix("best "), "first")
    parts.append(_check("equal", values=[f"claims[{best}].value", leader]))
    parts.append(_check("best", value=leader, others=column("first")))
    parts.append(_check("up_to", value="claims[gain].value", values=column("difference")))
    if not is_long:
        counted = {"table": "rates", "value": "claims[groups].value"}
        parts.append(_check("tally", **counted) + 'where_not = { group = "all" }\n')
    return "\n".join(parts)


def _groups_fit(paper: Paper, way: str) -> bool:
    is_long, names = _groups(paper)
    text = {(g, c): paper.get(_at(is_long, g, c), "") for g in [*names, "all"] for c in _COLUMNS}
    sizes = {name: int(text[name, "n"]) for name in [*names, "all"]}
    if sum(sizes[name] for name in names) != sizes["all"]:
        return False
    if not is_long and paper["claims", "groups", "value"] != str(len(names)):
        return False
    if any(text[g, "share"] != printed(100 * sizes[g], sizes["all"], 1, way) for g in names):
        return False

    def pairs(name: str) -> list[tuple[int, int]]:
        n, decimals = sizes[name], len(text[name, "difference"].partition(".")[2])
        return [
            (x, y)
            for x in _counts(text[name, "first"], n, 100, n, way)
            for y in _counts(text[name, "second"], n, 100, n, way)
            if printed(100 * (x - y), n, decimals, way) == text[name, "difference"]
        ]

    claim = next(row for row in _rows(paper, "claims") if row.startswith("best "))
    best, gain = claim.removeprefix("best "), paper["claims", "gain", "value"]
    if paper["claims", claim, "value"] != text[best, "first"]:
        return False
    whole = set(pairs("all"))
    for chosen in product(*(pairs(name) for name in names)):
        if (sum(x for x, _ in chosen), sum(y for _, y in chosen)) not in whole:
            continue
        rate = {name: Fraction(x, sizes[name]) for name, (x, _) in zip(names, chosen, strict=True)}
        top = max(Fraction(x - y, sizes[g]) for g, (x, y) in zip(names, chosen, strict=True))
        shown = printed(100 * top.numerator, top.denominator, len(gain.partition(".")[2]), way)
        if rate[best] == max(rate.values()) and shown == gain:
            return True
    return False


_COLUMNS = ("first", "second", "difference", "share", "n")


# ---------------------------------------------------------------- means of whole numbers


def _make_parts(draw: random.Random, way: str) -> Paper:
    paper: Paper = {}
    decimals = draw.choice((1, 2, 2))
    for place in range(draw.randint(2, 4)):
        n = draw.randint(12, 120)
        form, content = draw.randint(n, 4 * n), draw.randint(n, 4 * n)
        means = {"form": form, "content": content, "both": form + content}
        row = f"d{place}"
        paper |= {("parts", row, c): printed(k, n, decimals, way) for c, k in means.items()}
        paper["parts", row, "n"] = str(n)
    return paper


def _declared_parts(paper: Paper) -> str:
    table = '[tables.parts]\nfile = "parts.csv"\nkey = "of"\nexact = ["n"]\n'
    counts = [
        _check("count", over="parts", value=f"@{name}", n="@n")
        for name in ("form", "content", "both")
    ]
    total = _check("sum", over="parts", total="@both", parts=["@form", "@content"])
    return "\n".join([table, *counts, total])


def _parts_fit(paper: Paper, way: str) -> bool:
    for row in _rows(paper, "parts"):
        n = int(paper["parts", row, "n"])
        if not n:
            return False
        both = paper["parts", row, "both"]
        first, second = (
            list(_counts(paper["parts", row, c], n, 1, 10**6, way)) for c in ("form", "content")
        )
        decimals = len(both.partition(".")[2])
        if not any(printed(a + b, n, decimals, way) == both for a in first for b in second):
            return False
    return True


# ---------------------------------------------------------------- two raters


def _kappa(both: int, only: int, other: int, n: int) -> Fraction | None:
    first, second = both + only, both + other
    agreed = Fraction(n - only - other, n)
    chance = Fraction(first * second + (n - first) * (n - second), n * n)
    return None if chance == 1 else (agreed - chance) / (1 - chance)


def _make_raters(draw: random.Random, way: str) -> Paper:
    n, kappa = draw.choice((20, 30)), None
    while kappa is None:
        only, other = draw.randint(0, 5), draw.randint(0, 5)
        both = draw.randint(0, n - only - other)
        kappa = _kappa(both, only, other, n)
    texts = {
        "agreement": printed(100 * (n - only - other), n, 0, way),
        "kappa": printed(kappa.numerator, kappa.denominator, 2, way),
        "first": printed(100 * (both + only), n, 0, way),
        "second": printed(100 * (both + other), n, 0, way),
    }
    if draw.random() < 0.5:  # the margins are not always printed
        del texts["first"], texts["second"]
    return {("raters", f"of {n}", column): text for column, text in texts.items()}


def _declared_raters(paper: Paper) -> str:
    (row,) = _rows(paper, "raters")
    n = int(row.removeprefix("of "))
    columns = [column for t, _, column in paper if t == "raters" and column != "kappa"]
    table = f'[tables.raters]\nfile = "raters.csv"\nkey = "of"\npercent = {_toml(columns)}\n'
    counts = [_check("count", over="raters", value=f"@{column}", n=n) for column in columns]
    asked = {column: f"@{column}" for column in ("kappa", *columns)}
    return "\n".join([table, *counts, _check("kappa", over="raters", n=n, **asked)])


def _raters_fit(paper: Paper, way: str) -> bool:
    (row,) = _rows(paper, "raters")
    names = ("agreement", "kappa", "first", "second")
    wanted = tuple(paper.get(("raters", row, name)) for name in names)
    possible = _raters(int(row.removeprefix("of ")), way)
    return wanted in possible if wanted[2] else wanted[:2] in {found[:2] for found in possible}


@cache
def _raters(n: int, way: str) -> frozenset[tuple[str, ...]]:
    """All agreements, kappas and margins that n items can print."""
    found = set()
    for apart in range(n + 1):
        for only in range(apart + 1):
            for both in range(n - apart + 1):
                kappa = _kappa(both, only, apart - only, n)
                if kappa is not None:
                    shares = (n - apart, both + only, both + apart - only)
                    agreed, *margins = (printed(100 * share, n, 0, way) for share in shares)
                    text = printed(kappa.numerator, kappa.denominator, 2, way)
                    found.add((agreed, text, *margins))
    return frozenset(found)


# ---------------------------------------------------------------- a rank correlation


def _rho(order: Sequence[int]) -> Fraction:
    n = len(order)
    apart = sum((place - rank) ** 2 for place, rank in enumerate(order))
    return 1 - Fraction(6 * apart, n * (n * n - 1))


@cache
def _p_of_rho(n: int) -> dict[Fraction, tuple[float, float]]:
    """Correlation -> its two-sided p, exact and by Student's t."""
    every = [_rho(order) for order in permutations(range(n))]
    found = {}
    for rho in set(every):
        exact = sum(abs(other) >= abs(rho) for other in every) / len(every)
        size = min(abs(float(rho)), 1 - 1e-16)
        t = size * ((n - 2) / (1 - size**2)) ** 0.5
        found[rho] = (exact, 2 * float(stats.t.sf(t, n - 2)))
    return found


def _make_ranks(draw: random.Random, way: str) -> Paper:
    n = draw.choice((5, 6))
    rho = _rho(draw.sample(range(n), n))
    p = draw.choice(_p_of_rho(n)[rho])
    row = f"of {n}"
    return {
        ("ranks", row, "rho"): printed(rho.numerator, rho.denominator, 2, way),
        ("ranks", row, "p"): _p_text(p, way),
    }


def _declared_ranks(paper: Paper) -> str:
    (row,) = _rows(paper, "ranks")
    n = int(row.removeprefix("of "))
    table = '[tables.ranks]\nfile = "ranks.csv"\nkey = "of"\n'
    return "\n".join([table, _check("spearman", over="ranks", rho="@rho", p="@p", n=n)])


def _ranks_fit(paper: Paper, way: str) -> bool:
    (row,) = _rows(paper, "ranks")
    rho, p = (paper["ranks", row, column] for column in ("rho", "p"))
    return any(
        printed(value.numerator, value.denominator, 2, way) == rho and _is_p(p, found, way)
        for value, found in _p_of_rho(int(row.removeprefix("of "))).items()
    )


# ---------------------------------------------------------------- raw ratings


def _reliability(scores: np.ndarray) -> tuple[float | None, float | None]:
    """ICC(2,k) by Shrout and Fleiss, and the mean rank correlation of the raters."""
    rows, raters = scores.shape
    grand = scores.mean()
    between = raters * ((scores.mean(axis=1) - grand) ** 2).sum()
    judges = rows * ((scores.mean(axis=0) - grand) ** 2).sum()
    error = ((scores - grand) ** 2).sum() - between - judges
    msr, msc = between / (rows - 1), judges / (raters - 1)
    mse = error / ((rows - 1) * (raters - 1))
    below = msr + (msc - mse) / rows
    icc = (msr - mse) / below if abs(below) > 1e-9 and mse > 1e-9 and msr > 1e-9 else None
    if any(np.ptp(column) == 0 for column in scores.T):
        return icc, None
    pairs = combinations(range(raters), 2)
    return icc, float(np.mean([stats.spearmanr(scores[:, a], scores[:, b])[0] for a, b in pairs]))


def _make_scores(draw: random.Random, way: str) -> Paper:
    icc, rho = None, None
    while icc is None or rho is None or not -1 < icc < 1:
        levels = [draw.randint(1, 5) for _ in range(draw.randint(4, 7))]
        table = [[min(5, max(1, x + draw.randint(-1, 1))) for _ in range(3)] for x in levels]
        icc, rho = _reliability(np.array(table, dtype=float))
    paper = {
        ("scores", f"i{place}", f"r{rater}"): str(score)
        for place, row in enumerate(table)
        for rater, score in enumerate(row)
    }
    paper["reliability", "ratings", "icc"] = _number(icc, 3, way)
    paper["reliability", "ratings", "rho"] = _number(rho, 2, way)
    return paper


def _declared_scores(paper: Paper) -> str:
    rows = _rows(paper, "scores")
    names = [f"r{rater}" for rater in range(3)]
    cells = [f"scores[{row}].{name}" for row in rows for name in names]
    table = f'[tables.scores]\nfile = "scores.csv"\nkey = "of"\nexact = {_toml(names)}\n'
    table += '[tables.reliability]\nfile = "reliability.csv"\nkey = "of"\n'
    given = {"scores": cells, "targets": len(rows), "over": "reliability"}
    return "\n".join(
        [table, _check("icc", value="@icc", **given), _check("mean_rho", value="@rho", **given)]
    )


def _scores_fit(paper: Paper, way: str) -> bool:
    cells = [[paper["scores", row, f"r{r}"] for r in range(3)] for row in _rows(paper, "scores")]
    icc, rho = _reliability(np.array(cells, dtype=float))
    given = [paper["reliability", "ratings", column] for column in ("icc", "rho")]
    # A mean over floats may fall on either side of a tie.
    return all(
        value is None
        or any(_number(value + shift, decimals, way) == text for shift in (-1e-12, 0, 1e-12))
        for value, text, decimals in zip((icc, rho), given, (3, 2), strict=True)
    )


# ---------------------------------------------------------------- two proportions


def _p_values(x1: int, n1: int, x2: int, n2: int) -> list[float]:
    """Fisher's, and chi-square with and without Yates' correction."""
    table = [[x1, n1 - x1], [x2, n2 - x2]]
    if 0 < x1 + x2 < n1 + n2:
        chi = [float(stats.chi2_contingency(table, correction=c)[1]) for c in (True, False)]
    else:
        chi = [1.0]
    return [float(stats.fisher_exact(table)[1]), *chi]


def _wilson(x: int, n: int, way: str) -> tuple[str, str]:
    interval = stats.binomtest(x, n).proportion_ci(method="wilson")
    low, high = (100 * float(end) for end in (interval.low, interval.high))
    return _number(max(0.0, low), 1, way), _number(min(100.0, high), 1, way)


def _make_tests(draw: random.Random, way: str) -> Paper:
    paper: Paper = {}
    for place in range(draw.randint(1, 3)):
        sizes = [draw.randint(15, 200) for _ in range(2)]
        counts = [draw.randint(1, n - 1) for n in sizes]
        low, high = _wilson(counts[0], sizes[0], way)
        p = draw.choice(_p_values(counts[0], sizes[0], counts[1], sizes[1]))
        texts = {"n1": str(sizes[0]), "rate1": printed(100 * counts[0], sizes[0], 1, way)}
        texts |= {"low": low, "high": high}
        texts |= {"n2": str(sizes[1]), "rate2": printed(100 * counts[1], sizes[1], 1, way)}
        texts["p"] = _p_text(p, way)
        paper |= {("tests", f"c{place}", column): text for column, text in texts.items()}
    return paper


def _declared_tests(paper: Paper) -> str:
    table = '[tables.tests]\nfile = "tests.csv"\nkey = "of"\nexact = ["n1", "n2"]\n'
    table += 'percent = ["rate1", "low", "high", "rate2"]\n'
    ends = {"low": "@low", "high": "@high", "n": "@n1", "method": "wilson"}
    given = {name: f"@{name}" for name in ("n1", "n2", "rate1", "rate2", "p")}
    checks = [_check("count", over="tests", value=f"@rate{x}", n=f"@n{x}") for x in (1, 2)]
    checks.append(_check("interval", over="tests", estimate="@rate1", **ends))
    return "\n".join([table, *checks, _check("two_samples", over="tests", **given)])


def _tests_fit(paper: Paper, way: str) -> bool:
    for row in _rows(paper, "tests"):
        text = {
            column: t for (table, r, column), t in paper.items() if (table, r) == ("tests", row)
        }
        n1, n2 = int(text["n1"]), int(text["n2"])
        if not (n1 and n2):
            return False
        first = [
            x
            for x in _counts(text["rate1"], n1, 100, n1, way)
            if _wilson(x, n1, way) == (text["low"], text["high"])
        ]
        second = list(_counts(text["rate2"], n2, 100, n2, way))
        if not any(_is_p(text["p"], _p_values(x, n1, y, n2), way) for x in first for y in second):
            return False
    return True


# ---------------------------------------------------------------- paired rates


def _mcnemar(only: int, other: int) -> list[float]:
    """Two-sided p: exact, and by z with and without correction."""
    apart = only + other
    if not apart:
        return [1.0]
    sizes = [max(0, abs(only - other) - less) / apart**0.5 for less in (1, 0)]
    exact = float(stats.binomtest(only, apart).pvalue)
    return [exact, *(min(1.0, 2 * float(stats.norm.sf(size))) for size in sizes)]


def _make_pairs(draw: random.Random, way: str) -> Paper:
    n = draw.randint(20, 90)
    both, only = draw.randint(0, n // 2), draw.randint(0, n // 4)
    other = draw.randint(0, n // 4)
    return {
        ("pairs", "systems", "n"): str(n),
        ("pairs", "systems", "first"): printed(100 * (both + only), n, 1, way),
        ("pairs", "systems", "second"): printed(100 * (both + other), n, 1, way),
        ("pairs", "systems", "p"): _p_text(draw.choice(_mcnemar(only, other)), way),
    }


def _declared_pairs(paper: Paper) -> str:
    table = '[tables.pairs]\nfile = "pairs.csv"\nkey = "of"\nexact = ["n"]\n'
    table += 'percent = ["first", "second"]\n'
    given = {name: f"@{name}" for name in ("n", "first", "second", "p")}
    counts = [_check("count", over="pairs", value=f"@{x}", n="@n") for x in ("first", "second")]
    asked = _check("paired", over="pairs", alternative="two-sided", **given)
    return "\n".join([table, *counts, asked])


def _pairs_fit(paper: Paper, way: str) -> bool:
    text = {column: paper["pairs", "systems", column] for column in ("n", "first", "second", "p")}
    n = int(text["n"])
    if not n:
        return False
    sides = [list(_counts(text[column], n, 100, n, way)) for column in ("first", "second")]
    return any(
        _is_p(text["p"], _mcnemar(x - both, y - both), way)
        for x, y in product(*sides)
        for both in range(max(0, x + y - n), min(x, y) + 1)
    )


# ---------------------------------------------------------------- standard errors


def _make_errors(draw: random.Random, way: str) -> Paper:
    paper: Paper = {}
    for place in range(draw.randint(1, 3)):
        n, sd = draw.randint(8, 300), draw.randint(40, 900)  # in hundredths of a hundredth
        se = sd / 100 / (n - draw.randint(0, 1)) ** 0.5
        texts = {"n": str(n), "sd": printed(sd, 100, 1, way), "se": _number(se, 2, way)}
        paper |= {("errors", f"m{place}", column): text for column, text in texts.items()}
    return paper


def _declared_errors(paper: Paper) -> str:
    table = '[tables.errors]\nfile = "errors.csv"\nkey = "of"\nexact = ["n"]\n'
    return "\n".join([table, _check("standard_error", over="errors", se="@se", n="@n", sd="@sd")])


def _errors_fit(paper: Paper, way: str) -> bool:
    for row in _rows(paper, "errors"):
        n, sd, se = (paper["errors", row, column] for column in ("n", "sd", "se"))
        if int(n) < 2:
            return False
        near = [Decimal(sd) + Decimal(step) / 10_000 for step in range(-1_200, 1_201)]
        values = [float(value) for value in near if _rounded(value, 1, way) == sd]
        roots = [int(n) ** 0.5, (int(n) - 1) ** 0.5]
        if not any(_number(value / root, 2, way) == se for value in values for root in roots):
            return False
    return True


# ---------------------------------------------------------------- papers

GROUPS = Block(_make_groups, _declared_groups, _groups_fit)
BLOCKS = {
    "parts": Block(_make_parts, _declared_parts, _parts_fit),
    "raters": Block(_make_raters, _declared_raters, _raters_fit),
    "ranks": Block(_make_ranks, _declared_ranks, _ranks_fit),
    "scores": Block(_make_scores, _declared_scores, _scores_fit),
    "tests": Block(_make_tests, _declared_tests, _tests_fit),
    "pairs": Block(_make_pairs, _declared_pairs, _pairs_fit),
    "errors": Block(_make_errors, _declared_errors, _errors_fit),
}


def _blocks(paper: Paper) -> list[Block]:
    tables = {table for table, _, _ in paper}
    return [GROUPS, *(block for name, block in BLOCKS.items() if name in tables)]


def consistent(seed: int) -> Paper:
    """What a paper prints that made no slip."""
    draw = random.Random(seed)
    way = draw.choice(WAYS)
    paper = GROUPS.make(draw, way)
    for name in draw.sample(sorted(BLOCKS), draw.randint(2, 4)):
        paper |= BLOCKS[name].make(draw, way)
    return paper


def with_a_slip(paper: Paper, seed: int) -> tuple[Paper, Place]:
    """The paper with one digit of one cell changed, and the cell."""
    draw = random.Random(seed)
    cell = draw.choice(sorted(paper))
    text = paper[cell]
    place = draw.choice([i for i, letter in enumerate(text) if letter.isdigit()])
    digits = [d for d in "0123456789" if d != text[place]]
    if place == 0 and text.isdigit() and len(text) > 1:
        digits.remove("0") if "0" in digits else None  # nobody prints 07
    digit = draw.choice(digits)
    return {**paper, cell: text[:place] + digit + text[place + 1 :]}, cell


def write(paper: Paper, folder: Path) -> Path:
    """The paper as CSV files and the declaration beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    keys = {"rates": ["group"], "long": ["group", "measure"]}
    for table in dict.fromkeys(table for table, _, _ in paper):
        columns = list(dict.fromkeys(column for t, _, column in paper if t == table))
        lines = [
            dict(zip(keys.get(table, ["of"]), row.split(" | "), strict=True))
            | {column: paper.get((table, row, column)) for column in columns}
            for row in _rows(paper, table)
        ]
        pl.DataFrame(lines, infer_schema_length=None).write_csv(folder / f"{table}.csv")
    path = folder / "paper.toml"
    # Tables first: TOML takes what follows [[check]] as part of it.
    declared = "\n".join(block.declared(paper) for block in _blocks(paper))
    parts = [f"[{part}" for part in ("\n" + declared).split("\n[")[1:]]
    parts.sort(key=lambda part: part.startswith("[["))
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


def is_possible(paper: Paper) -> bool:
    """Whether some data set, rounded in some one way, prints exactly this."""
    return any(all(block.fits(paper, way) for block in _blocks(paper)) for way in WAYS)
