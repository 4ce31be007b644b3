"""The audit of printed tables, against enumeration, other libraries and the shipped print."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import shutil
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from typer.testing import CliRunner

from ragbench import audit, cli, stats
from ragbench.audit.counts import fitting
from ragbench.audit.declaration import constant
from ragbench.audit.kinds import KINDS, OPTIONS
from ragbench.audit.rounding import CONVENTIONS, numbers
from ragbench.audit.statistics import highest_kappa, kappas, lowest_kappa, spearman_p
from ragbench.errors import BadRow, ImportFailed, UnknownColumn, UnknownName

ROOT = Path(__file__).resolve().parent.parent
PRINT = ROOT / "data" / "paper"
GUIDE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
HEAD = '[tables.t]\nfile = "t.csv"\nkey = "k"\n'


@pytest.fixture(scope="module")
def paper() -> audit.Audit:
    return audit.audit(PRINT / "enterpriserag.toml")


def made(folder: Path, table: str, check: str, head: str = HEAD) -> list[audit.Finding]:
    """The findings of one check on a table given as CSV."""
    (folder / "t.csv").write_text(table, encoding="utf-8")
    (folder / "t.toml").write_text(f"{head}\n[[check]]\n{check}\n", encoding="utf-8")
    return audit.audit(folder / "t.toml").findings


# ---------------------------------------------------------------- rounding and counts


@pytest.mark.parametrize(
    ("convention", "ways"),
    [
        ("half up", [ROUND_HALF_UP]),
        ("half even", [ROUND_HALF_EVEN]),
        ("rounded twice", [ROUND_HALF_UP, ROUND_HALF_UP]),
        ("cut off", [ROUND_DOWN]),
    ],
)
def test_a_print_allows_exactly_the_values_that_round_to_it(
    convention: str, ways: list[str]
) -> None:
    for thousandths in range(-2_100, 2_101):
        value = Decimal(thousandths) / 1000
        for text in ("-1.5", "-0.1", "0.0", "0.2", "0.3", "1.9", "2", "-1"):
            unit = Decimal(1).scaleb(-len(text.partition(".")[2]))
            rounded = value
            for step, way in enumerate(reversed(ways)):  # to one digit more before the last
                rounded = rounded.quantize(unit.scaleb(step - len(ways) + 1), rounding=way)
            prints = rounded == Decimal(text)
            span = numbers(text)[0].span(convention)
            assert span.meets(type(span)(Fraction(value), Fraction(value))) == prints, (value, text)


def test_cells_with_several_numbers_and_bounds() -> None:
    assert [str(x.value) for x in numbers("6.1 to 10.6")] == ["61/10", "53/5"]
    assert [int(x.value) for x in numbers("157/69")] == [157, 69]
    assert [int(x.value) for x in numbers("40-44")] == [40, 44]
    (p,) = numbers("p<.001")
    assert p.bound == "<"
    assert p.span("half up").high == Fraction(1, 1000)
    assert not p.span("half up").holds(Fraction(1, 1000))
    assert numbers("−0.143")[0].value < 0


def test_the_n_that_fit_are_those_of_which_some_count_prints_the_number() -> None:
    for text, convention in itertools.product(("26.5", "0.5", "37.5", "100.0"), CONVENTIONS):
        cell = constant(1)._replace(printed=numbers(text)[0].scaled(Fraction(1, 100)))
        span = cell.span(convention)
        for n, fits in zip(range(1, 300), fitting(cell, range(1, 300), convention), strict=True):
            expected = any(
                span.meets(type(span)(Fraction(x, n), Fraction(x, n))) for x in range(n + 2)
            )
            assert fits == expected, (text, convention, n)


# ---------------------------------------------------------------- what margins identify


def test_no_table_of_counts_has_a_larger_kappa_than_the_ceiling() -> None:
    for agreed in range(41):
        values = kappas(range(agreed, agreed + 1), 40)
        if values.size:
            assert values.max() <= highest_kappa(agreed / 40) + 1e-12
            if agreed % 2 == 0:  # the disagreements can be split into the best margins
                assert values.max() == pytest.approx(highest_kappa(agreed / 40), abs=0.01)
    for n, categories in ((8, 3), (5, 4)):
        ceilings = _largest_kappas(n, categories)
        for agreed, largest in ceilings.items():
            assert largest <= highest_kappa(agreed / n, categories) + 1e-12
            assert largest == pytest.approx(highest_kappa(agreed / n, categories), abs=0.02)
    for agreed in range(1, 40, 3):
        low = lowest_kappa(agreed / 40)
        values = kappas(range(agreed, agreed + 1), 40)
        assert low - 1e-12 <= values.min() <= low + 0.05
    table = [[20, 3], [4, 13]]
    kappa = stats.cohen_kappa(table)["kappa"].item()
    assert np.isclose(kappas(range(33, 34), 40), kappa).any()
    (with_margins,) = kappas(range(33, 34), 40, (range(23, 24), range(24, 25)))
    assert with_margins == pytest.approx(kappa)


def _largest_kappas(n: int, categories: int) -> dict[int, float]:
    """The largest kappa at each number of agreements, over all tables of n items."""
    cells, found = categories**2, dict[int, float]()
    for bars in itertools.combinations(range(n + cells - 1), cells - 1):
        ends = [-1, *bars, n + cells - 1]
        counts = np.diff(ends).reshape(categories, categories) - 1
        agreed = int(np.trace(counts))
        chance = float(counts.sum(axis=0) @ counts.sum(axis=1)) / n**2
        if chance < 1:
            kappa = (agreed / n - chance) / (1 - chance)
            found[agreed] = max(kappa, found.get(agreed, -1.0))
    return found


def test_kappas_against_an_agreed_gold_are_those_of_some_verdicts(tmp_path: Path) -> None:
    n = 7

    def kappa(both: int, only: int, other: int) -> str | None:
        first, second = both + only, both + other
        chance = Fraction(first * second + (n - first) * (n - second), n * n)
        agreed = Fraction(n - only - other, n)
        return None if chance == 1 else f"{float((agreed - chance) / (1 - chance)):.2f}"

    possible = set()
    for both, only, other in itertools.product(range(n + 1), repeat=3):
        if both + only + other <= n:
            for gold in range(both, both + only + other + 1):
                for right, wrong in itertools.product(range(gold + 1), range(n - gold + 1)):
                    possible.add((kappa(both, only, other), kappa(right, gold - right, wrong)))
    experts, judges = ({pair[place] for pair in possible} - {None} for place in (0, 1))
    never = sorted(set(itertools.product(experts, judges)) - possible)
    pairs = [*never[::7], *sorted(pair for pair in possible if None not in pair)[::40]]
    lines = ["k,e,j", *(f"x{place},{e},{j}" for place, (e, j) in enumerate(pairs)), ""]
    check = 'kind="adjudicated"\nover="t"\nexperts="@e"\njudge="@j"\nn=7'
    found = made(tmp_path, "\n".join(lines), check, 'rounding = "half even"\n' + HEAD)
    status = [finding.status == "consistent" for finding in found]
    assert status == [pair in possible for pair in pairs]
    assert 0 < sum(status) < len(status)


def test_two_samples_are_all_ways_with_the_p_values_of_the_stats_module() -> None:
    ways = audit.two_samples(17, 23, [6, 12])
    assert ways.height == 7 + 13
    for way in ways.iter_rows(named=True):
        row = stats.two_proportions(way["x1"], 17, way["x2"], 23).row(0, named=True)
        assert way["p_value"] == pytest.approx(row["p_value"], rel=1e-9)
        assert way["is_fisher"] == (row["method"] == "fisher")
        assert [way["low"], way["high"]] == pytest.approx([row["wald_low"], row["wald_high"]])


def test_paired_margins_cover_every_data_set_with_these_margins() -> None:
    n, first, second = 12, 7, 4
    apart = set()
    for outcome in itertools.product(range(n + 1), repeat=3):
        both, only, other = outcome
        if sum(outcome) <= n and both + only == first and both + other == second:
            apart.add(only + other)
    ways = audit.paired_margins(n, first, second)
    assert set(ways["discordant"]) == apart
    for way in ways.iter_rows(named=True):
        only = (way["discordant"] + first - second) // 2
        p = stats.mcnemar(only, way["discordant"] - only, alternative="greater")["p_value"].item()
        assert way["p_value"] == p


def test_strict_bounds_are_those_of_all_joint_distributions() -> None:
    rates = [0.9, 0.75, 0.6, 0.95]
    outcomes = np.array(list(itertools.product((0, 1), repeat=len(rates))))
    equalities = np.vstack([outcomes.T, np.ones(len(outcomes))])
    all_met = outcomes.all(axis=1).astype(float)
    ends = [
        linprog(sign * all_met, A_eq=equalities, b_eq=[*rates, 1]).fun * sign for sign in (1, -1)
    ]
    bounds = audit.strict_bounds(rates).row(0, named=True)
    assert [bounds["lowest"], bounds["highest"]] == pytest.approx(ends)
    assert bounds["independent"] == pytest.approx(np.prod(rates))
    repeated = audit.strict_bounds([0.9, 0.8], [2, 1]).row(0)
    assert repeated == pytest.approx(audit.strict_bounds([0.9, 0.9, 0.8]).row(0))


@pytest.mark.parametrize("order", [[1, 0, 2, 3, 4], [4, 3, 1, 2, 0], [0, 2, 1, 4, 3, 5, 6]])
def test_exact_p_of_a_rank_correlation_is_that_of_the_stats_module(order: list[int]) -> None:
    row = stats.spearman(list(range(len(order))), order).row(0, named=True)
    assert spearman_p(row["rho"], len(order)) == pytest.approx(row["p_value"])


# ---------------------------------------------------------------- kinds, one by one

NUMBERS = "k,a,b,c,n\nx,10.0,20.0,30.0,40\ny,12.5,20.5,33.1,40\nz,0.30,0.20,0.50,100\n"
SURE = 'kind="paired"\nn=15\nfirst="printed 1.00"\nsecond="printed 0.00"\nalternative="two-sided"'
WEIGHTED = 'kind="common_weights"\nresults="printed 16.4"\nparts=["t[x].a","t[x].c"]'
UP_TO = 'kind="up_to"\nfirst=["t[x].b","t[y].b"]\nsecond=["t[x].a","t[y].a"]'
INSIDE = 'estimate="t[z].a"\nlow="t[z].b"\nhigh="t[z].c"'
TWO = 'kind="two_samples"\nn1=100\nn2=100'
TWO_OF_THREE = 'kind="subset_mean"\nvalues=["t[x].b","t[y].a","t[x].c"]\nsize=2'
WEIGHTS = 'kind="common_weights"\nparts=["t[x; y].a","t[x; y].c"]'


@pytest.mark.parametrize(
    ("check", "status"),
    [
        ('kind="sum"\ntotal="t[x].c"\nparts=["t[x].a","t[x].b"]', "consistent"),
        ('kind="sum"\ntotal="t[y].c"\nparts=["t[y].a","t[y].b"]', "consistent"),
        ('kind="sum"\ntotal=33.2\nparts=["t[y].a","t[y].b"]', "inconsistent"),
        ('kind="mean"\nresult=16.5\nvalues=["t[x].b","t[y].a"]\nweights=[1,1]', "inconsistent"),
        ('kind="mean"\nresult=16.25\nvalues=["t[x].b","t[y].a"]', "consistent"),
        ('kind="difference"\nresult="t[x].a"\nfirst="t[x].b"\nsecond="t[x].a"', "consistent"),
        ('kind="difference"\nresult="t[x].a"\nfirst="t[x].a"\nsecond="t[x].b"', "inconsistent"),
        ('kind="ratio"\nshare=0.5\npart="t[x].a"\nwhole="t[x].b"', "consistent"),
        ('kind="ratio"\nshare=0.52\npart="t[x].a"\nwhole="t[x].b"', "inconsistent"),
        ('kind="equal"\nvalues=["t[x].a",10.04]', "consistent"),
        ('kind="equal"\nvalues=["t[x].a",10.2]', "inconsistent"),
        ('kind="order"\nvalues=["t[x].a","t[y].a","t[x].b"]', "consistent"),
        ('kind="order"\nvalues=["t[x].a","t[y].a","t[x].b"]\ndirection="falling"', "inconsistent"),
        ('kind="best"\nvalue="t[y].b"\nothers=["t[x].b","t[z].b"]', "consistent"),
        ('kind="best"\nvalue="t[x].b"\nothers=["t[y].b","t[z].b"]\nrank=2', "consistent"),
        ('kind="best"\nvalue="t[x].b"\nothers=["t[y].b"]', "inconsistent"),
        (f'{UP_TO}\nvalue="printed 10"', "consistent"),
        (f'{UP_TO}\nvalue="printed 11"', "inconsistent"),
        (f'{UP_TO}\nvalue="printed 8"\ndirection="least"', "consistent"),
        (f'{UP_TO}\nat="t[x].b"', "consistent"),
        (f'{UP_TO}\nat="t[y].b"', "inconsistent"),
        ('kind="up_to"\nvalue="printed 12.5"\nvalues="t[*].a"', "consistent"),
        ('kind="up_to"\nvalue="printed 10.0"\nvalues="t[*].a"', "inconsistent"),
        ('kind="above"\nvalues="t[*].a"\nbound=0.2', "consistent"),
        ('kind="below"\nvalues="t[*].a"\nbound=12.0', "inconsistent"),
        ('kind="within"\nvalues="t[x; y].a"\nlow=10\nhigh=12.5', "consistent"),
        ('kind="within"\nvalues="t[x; y].b"\nlow=10\nhigh=20', "inconsistent"),
        ('kind="slope"\nvalues=["t[x].a","t[x].b","t[y].c"]\nat=[1,2,3]', "consistent"),
        ('kind="slope"\nvalues=["t[x].a","t[x].b","t[y].b"]\nat=[1,2,3]', "inconsistent"),
        ('kind="count"\nvalue="t[x].a"\nn=40', "consistent"),
        ('kind="count"\nvalue="t[y].c"\nn=3', "inconsistent"),
        ('kind="count"\nvalue="t[y].c"\nn=[3, 5]', "inconsistent"),
        ('kind="count"\nvalue="t[y].c"\nn=[3, 10]', "consistent"),
        ('kind="common_n"\nvalues="t[x; y].a"\nn=2', "consistent"),
        ('kind="common_n"\nvalues=["t[y].c", "t[x].a"]\nn=5', "inconsistent"),
        ('kind="tally"\nvalue=3\ntable="t"', "consistent"),
        ('kind="tally"\nvalue=3\ntable="t"\nwhere={n="40"}', "inconsistent"),
        ('kind="tally"\nvalue=1\ntable="t"\nwhere_not={n="40"}', "consistent"),
        ('kind="kappa"\nkappa="t[z].a"\nagreement="t[z].c"\nn=100', "inconsistent"),
        ('kind="kappa"\nkappa="t[z].b"\nagreement=0.6\nn=100', "consistent"),
        ('kind="kappa"\nkappa="t[z].a"\nagreement=0.6\nfirst=0.7\nsecond=0.7', "inconsistent"),
        ('kind="kappa"\nkappa=0.0476\nagreement=0.6\nfirst=0.7\nsecond=0.7', "inconsistent"),
        ('kind="kappa"\nkappa="printed .05"\nagreement=0.6\nfirst=0.7\nsecond=0.7', "consistent"),
        ('kind="kappa"\nkappa="t[z].a"\nagreement=0.6\nfirst=0.9\nsecond=0.3', "inconsistent"),
        ('kind="kappa"\nkappa="printed -.5"\nagreement=0.91', "inconsistent"),
        ('kind="kappa"\nkappa=0.90\nagreement=0.91\ncategories=3', "inconsistent"),
        ('kind="kappa"\nkappa=0.86\nagreement=0.91\ncategories=3', "consistent"),
        ('kind="adjudicated"\nexperts="t[z].a"\njudge="t[z].b"\nn=30', "consistent"),
        ('kind="spearman"\nrho="t[z].c"\nn=5', "consistent"),
        ('kind="spearman"\nrho="t[z].c"\nn=4', "inconsistent"),
        ('kind="spearman"\nrho="t[z].c"\nn=5\np=0.45', "consistent"),
        ('kind="spearman"\nrho="t[z].c"\nn=5\np="printed .39"', "consistent"),
        ('kind="spearman"\nrho="t[z].c"\nn=5\np="printed .39"\ntest="exact"', "inconsistent"),
        ('kind="spearman"\nrho="t[z].c"\nn=5\np=0.02', "inconsistent"),
        (f'kind="interval"\n{INSIDE}', "consistent"),
        ('kind="interval"\nestimate="t[z].b"\nlow="t[z].a"\nhigh="t[z].c"', "inconsistent"),
        (f'kind="interval"\n{INSIDE}\nmethod="symmetric"', "inconsistent"),
        ('kind="standard_error"\nse=0.05\np=0.5\nn="t[z].n"', "consistent"),
        ('kind="standard_error"\nse=0.05\np=0.3\nn="t[z].n"', "inconsistent"),
        ('kind="standard_error"\nse="printed .1581"\np=0.5\nn=10', "consistent"),
        ('kind="standard_error"\nse="printed .1667"\np=0.5\nn=10', "consistent"),
        ('kind="standard_error"\nse="printed .1400"\np=0.5\nn=10', "inconsistent"),
        ('kind="standard_error"\nse=2.0\nsd="t[x].b"\nn="t[z].n"', "consistent"),
        (f'{TWO}\nrate1="t[z].a"\nrate2="t[z].c"\np=0.0061', "inconsistent"),
        (f'{TWO}\nrate1="t[z].c"\nrate2="t[z].a"\np="printed .0039"', "consistent"),  # pearson
        (f'{TWO}\nrate1="t[z].c"\nrate2="t[z].a"\np="printed .0039"\ntest="yates"', "inconsistent"),
        (f'{TWO}\nrate1="t[z].c"\nrate2="t[z].a"\np="printed .1"', "inconsistent"),
        (f'{TWO}\nrate1="t[z].c"\nrate2="t[z].a"\nlow="printed .07"', "consistent"),
        (f'{TWO}\nrate1="t[z].c"\nrate2="t[z].a"\nlow="printed .08"', "inconsistent"),
        (f'{TWO}\nrate1="t[z].c"\nrate2="t[z].a"\ndifference="printed .30"', "inconsistent"),
        (f'{TWO}\nrate1="t[z].c"\nrate2="t[z].a"\ndirection="gain"', "consistent"),
        (f'{TWO}\noverall="t[z].a"', "undecidable"),
        (f'{SURE}\np="printed .000061"', "consistent"),  # binomial, two-sided 2 / 2**15
        (f'{SURE}\np="printed .0003"', "consistent"),  # corrected: z = 14 / sqrt(15)
        (f'{SURE}\np="printed .0003"\ntest="exact"', "inconsistent"),
        (f'{SURE}\np="printed .0001"', "consistent"),  # uncorrected
        (f'{SURE}\np="printed .02"', "inconsistent"),
        ('kind="paired"\nn=100\nfirst="t[z].c"\nsecond="t[z].a"\nalpha=0.05', "consistent"),
        ('kind="paired"\nn=100\nfirst="t[z].a"\nsecond="t[z].b"\nalpha=0.05', "undecidable"),
        ('kind="paired"\nn=100\nfirst="t[z].b"\nsecond="t[z].a"\nalpha=0.05', "inconsistent"),
        ('kind="paired_t"\ndifference="t[z].b"\np="t[z].c"\nn=13\nmargin=1.0', "consistent"),
        ('kind="paired_t"\ndifference="t[z].b"\np="t[z].c"\nn=13\nmargin=0.5', "inconsistent"),
        ('kind="strict"\nstrict="t[z].a"\nrates=[0.7, 0.5]', "consistent"),
        ('kind="strict"\nstrict="t[z].b"\nrates=[0.9, 0.5]', "inconsistent"),
        (f'{TWO_OF_THREE}\nresults=[16.25]', "undecidable"),
        (f'{TWO_OF_THREE}\nresults=[11.0]', "inconsistent"),
        (f'{WEIGHTS}\nresults="t[x; y].b"', "inconsistent"),
        (f'{WEIGHTED}\nweights=["printed 1.4","printed 0.6"]', "consistent"),
        (f'{WEIGHTED}\nweights=["printed 1.40","printed 0.60"]', "inconsistent"),
        ('kind="common_weights"\nresults="t[x].b"\nparts=["t[x].a","t[x].c"]', "consistent"),
        ('kind="setting"\nvalues="t[x].a"', "undecidable"),
    ],
)  # fmt: skip
def test_each_kind_decides_what_can_be_decided(tmp_path: Path, check: str, status: str) -> None:
    (finding,) = made(tmp_path, NUMBERS, check, HEAD + 'exact = ["n"]\n')
    assert finding.status == status, finding.arithmetic
    assert finding.arithmetic
    assert finding.status == "consistent" or finding.settle


def test_a_difference_of_the_right_size_and_the_wrong_sign_is_told_so(tmp_path: Path) -> None:
    check = 'kind="difference"\nfirst="t[x].b"\nsecond="t[x].a"\nresult="printed -{}"'
    for size, is_turned in (("10.0", True), ("11.0", False)):
        (finding,) = made(tmp_path, NUMBERS, check.format(size))
        assert finding.status == "inconsistent"
        assert ("opposite direction" in finding.arithmetic) == is_turned


def test_intervals_of_known_kinds_are_recomputed(tmp_path: Path) -> None:
    row = stats.proportion_interval(30, 100).row(0, named=True)
    for method in ("wald", "wilson", "clopper_pearson"):
        ends = (row[f"{method}_low"], row[f"{method}_high"])
        check = 'kind="interval"\nestimate="t[x].p"\nlow="t[x].low"\nhigh="t[x].high"\n'
        check += f'n=100\nmethod="{method}"'
        for shift, status in ((0.0, "consistent"), (0.01, "inconsistent")):
            table = f"k,p,low,high\nx,0.300,{ends[0]:.3f},{ends[1] + shift:.3f}\n"
            (finding,) = made(tmp_path, table, check)
            assert finding.status == status, (method, finding.arithmetic)


def test_raw_scores_give_the_printed_reliability_or_not(tmp_path: Path) -> None:
    scores = [[89.6, 89.0, 91.9], [86.0, 86.2, 90.4], [84.9, 89.1, 88.3], [82.7, 83.8, 85.8]]
    lines = ["k,a,b,c", *(f"m{i},{','.join(map(str, row))}" for i, row in enumerate(scores))]
    cells = [f"t[m{row}].{column}" for row in range(4) for column in "abc"]
    given = f"scores={json.dumps(cells)}\ntargets=4"
    for kind, right, wrong in (("icc", "0.809", "0.890"), ("mean_rho", "0.600", "0.700")):
        for value, status in ((right, "consistent"), (wrong, "inconsistent")):
            table = "\n".join([*lines, f"v,{value},,", ""])
            (finding,) = made(tmp_path, table, f'kind="{kind}"\nvalue="t[v].a"\n{given}')
            assert finding.status == status, finding.arithmetic


def test_an_icc_of_scores_before_they_were_rounded_is_not_called_wrong(tmp_path: Path) -> None:
    random, lifted = np.random.default_rng(5), 0
    cells = [f"t[m{row}].{column}" for row in range(5) for column in "abc"]
    check = f'kind="icc"\nvalue="t[v].a"\nscores={json.dumps(cells)}\ntargets=5'
    for _ in range(8):
        scores = 50 + 3 * random.normal(size=(5, 1)) + random.normal(size=(5, 3))
        value = f"{stats.icc2k(scores.tolist())['icc2_k'].item():.3f}"
        lines = [f"m{i},{','.join(f'{x:.0f}' for x in row)}" for i, row in enumerate(scores)]
        (finding,) = made(tmp_path, "\n".join(["k,a,b,c", *lines, f"v,{value},,", ""]), check)
        assert finding.status == "consistent", finding.arithmetic
        lifted += "Their rounding moves it" in finding.arithmetic
    assert lifted >= 4


def test_statements_that_hold_alone_can_exclude_each_other(tmp_path: Path) -> None:
    table = "k,a,b,c\nx,44.3,29.8,14.4\n"
    check = 'kind="difference"\nresult="t[x].c"\nfirst="t[x].a"\nsecond="t[x].b"\n'
    head = HEAD + 'percent=["a","b","c"]\n'
    assert [x.status for x in made(tmp_path, table, check, head)] == ["consistent"]
    for column in "ab":
        check += f'[[check]]\nname="count {column}"\nkind="count"\nvalue="t[x].{column}"\nn=309\n'
    *alone, together = made(tmp_path, table, check, head)
    assert {x.status for x in alone} == {"consistent"}
    assert together.kind == "together"
    assert together.status == "inconsistent"
    assert together.rounding == "no way of rounding lifts it", "29.8 is no count when cut off"
    assert "137 of 309" in together.arithmetic or "92 of 309" in together.arithmetic


def test_the_way_of_rounding_that_fits_is_found(tmp_path: Path) -> None:
    rows = [(2, 3, "66.6"), (1, 6, "16.6"), (5, 9, "55.5")]
    table = "k,a,b,p\n" + "".join(f"x{i},{a},{b},{p}\n" for i, (a, b, p) in enumerate(rows))
    check = 'kind="ratio"\nover="t"\nshare="@p"\npart="@a"\nwhole="@b"'
    head = HEAD + 'percent=["p"]\nexact=["a","b"]\n'
    assert {x.status for x in made(tmp_path, table, check, head)} == {"consistent"}
    assert audit.audit(tmp_path / "t.toml").rounding == "cut off"
    mixed = table.replace("55.5", "55.6")
    assert [x.status for x in made(tmp_path, mixed, check, head)].count("inconsistent") == 1
    with pytest.raises(UnknownName, match="did you mean 'half up'"):
        made(tmp_path, table, check, 'rounding = "half-up"\n' + head)
    fixed = 'rounding = "half up"\n' + head
    assert [x.status for x in made(tmp_path, table, check, fixed)].count("inconsistent") == 3


def test_zeros_that_a_file_dropped_are_declared(tmp_path: Path) -> None:
    table, check = "k,a,n\nx,76,180\n", 'kind="count"\nvalue="t[x].a"\nn="t[x].n"'
    for decimals, status in (("", "consistent"), ("decimals={a=1}\n", "inconsistent")):
        head = f'{HEAD}percent=["a"]\nexact=["n"]\n{decimals}'
        assert [x.status for x in made(tmp_path, table, check, head)] == [status]


def test_a_share_of_nothing_is_undecidable_and_a_mean_over_nothing_a_mistake(
    tmp_path: Path,
) -> None:
    table = "k,a,n\nx,0.5,0\n"
    (finding,) = made(tmp_path, table, 'kind="ratio"\nshare="t[x].a"\npart=1\nwhole="t[x].n"')
    assert finding.status == "undecidable"
    with pytest.raises(BadRow, match="cannot be made"):
        made(tmp_path, table, 'kind="mean"\nresult=1\nvalues="t[x].a"\nweights="t[x].n"')


def test_a_count_that_was_rounded_before_is_told_so(tmp_path: Path) -> None:
    table = "k,a\n" + "".join(f"x{i},{p}\n" for i, p in enumerate(("18.5", "23.9", "44.3")))
    head = HEAD + 'percent=["a"]\n'
    found = made(tmp_path, table, 'kind="count"\nover="t"\nvalue="@a"\nn=309', head)
    assert [x.status for x in found] == ["inconsistent", "consistent", "consistent"]
    assert found[0].rounding == "would hold with: rounded twice"


def test_scores_that_are_exact_leave_their_icc_no_room(tmp_path: Path) -> None:
    scores = [[5, 4, 4], [2, 2, 1], [3, 4, 3], [1, 1, 2]]
    icc = stats.icc2k(scores)["icc2_k"].item()
    lines = ["k,a,b,c", *(f"m{i},{','.join(map(str, row))}" for i, row in enumerate(scores))]
    cells = [f"t[m{row}].{column}" for row in range(4) for column in "abc"]
    check = f'kind="icc"\nvalue="printed {{}}"\nscores={json.dumps(cells)}\ntargets=4'
    head = HEAD + 'exact=["a","b","c"]\n'
    for value, status in ((icc, "consistent"), (icc - 0.002, "inconsistent")):
        (finding,) = made(tmp_path, "\n".join([*lines, ""]), check.format(f"{value:.3f}"), head)
        assert finding.status == status, finding.arithmetic


def test_numbers_that_are_costly_to_check_bear_on_the_way_of_rounding_too(tmp_path: Path) -> None:
    check = 'kind="two_samples"\nn1=100\nn2=100\nrate1="t[z].a"\nrate2="t[z].c"\n'
    check += 'p="printed .003"\ntest="pearson"'  # 0.0039, cut off
    assert [x.status for x in made(tmp_path, NUMBERS, check)] == ["consistent"]
    assert audit.audit(tmp_path / "t.toml").rounding == "cut off"
    wrong = '\n[[check]]\nkind="sum"\ntotal=1\nparts=[1, 1]'
    status = [x.status for x in made(tmp_path, NUMBERS, check + wrong)]
    assert status == ["consistent", "inconsistent"]


# ---------------------------------------------------------------- the shipped print

# Table and row of cells that are known to contradict others, whatever else is found.
KNOWN = [
    ("domains", "Medical", "constraints_avg", "sum"),
    ("domains", "All", "constraints_avg", "mean"),
    ("domains", "All", "output_avg", "mean"),
    ("domains", "Web Search", "constraints_avg", "together"),
    ("claims", "C053", "value", "best"),
    ("claims", "C030", "value", "sum"),
    ("claims", "C031", "value", "sum"),
    ("claims", "C003", "value", "difference"),
    ("claims", "C045", "value", "together"),
    ("claims", "C046", "value", "together"),
    ("claims", "C010", "value", "up_to"),
    ("claims", "C063", "value", "difference"),
    ("claims", "C062", "value", "equal"),
    ("noisy", "Gemini-2.5-Pro", "strict_ias", "count"),
    ("recognition", "Gemini-2.5-Pro", "conflict_recognition_pct", "count"),
    ("recognition", "GPT-4.1", "conflict_recognition_pct", "count"),
    ("alignment", "Conflict Recognition", "judge_cohen_kappa", "kappa"),
    ("alignment", "Conflict Recognition", "judge_agreement_pct", "count"),
    ("alignment", "Conflict Recognition", "human_iaa_kappa", "adjudicated"),
    ("alignment", "Proper Rejection", "judge_agreement_pct", "count"),
    ("natural", "Faithfulness", "diff_as_printed", "difference"),
    ("natural", "Conflict Recognition", "natural", "count"),
]


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: f"{known[1]} {known[2]} {known[3]}")
def test_contradictions_in_the_print_are_found(paper: audit.Audit, known: tuple[str, ...]) -> None:
    wrong = [x for x in paper.findings if x.status == "inconsistent" and x.kind == known[3]]
    assert any(cell.place == known[:3] for x in wrong for cell in x.cells)


def test_what_is_right_in_the_print_is_not_called_wrong(paper: audit.Audit) -> None:
    right = {x.check for x in paper.findings if x.status == "consistent"}
    assert {"contexts add up", "share of protocol constraints", "best strict"} <= right
    assert {"ICC of loose", "correlation over reasoning models", "queries add up"} <= right
    assert {f"categories add up: {name}" for name in ("Financial", "Energy", "Legal")} <= right
    assert {f"mean rho of judges: {name}" for name in ("loose_ias", "conflict_accuracy")} <= right


def test_every_claim_has_a_verdict_and_a_reason(paper: audit.Audit) -> None:
    claims = audit.claims(paper)
    with (PRINT / "claims.csv").open(encoding="utf-8") as file:
        names = [line["claim_id"] for line in csv.DictReader(file)]
    assert claims["claim"].to_list() == [*names, *(f"M{place}" for place in range(1, 8))]
    assert set(claims["verdict"]) == {"consistent", "inconsistent", "undecidable"}
    assert claims["checks"].min() >= 1
    assert not [why for why in claims["why"] if not why or "\n" in why]
    by_name = dict(claims.select("claim", "verdict").iter_rows())
    assert by_name["C071"] == by_name["C030"] == "inconsistent"
    assert by_name["M3"] == by_name["M1"] == "consistent"
    assert by_name["C028"] == by_name["M7"] == "undecidable"
    for name in ("C003", "C010", "C016", "C063", "M2"):  # wrong only under an assumption
        assert by_name[name] == "undecidable"


def _changed(folder: Path, file: str, old: str, new: str) -> audit.Audit:
    """The audit of the print with one piece of text changed."""
    for path in [*PRINT.glob("*.csv"), PRINT / "enterpriserag.toml"]:
        shutil.copy(path, folder / path.name)
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new), encoding="utf-8")
    return audit.audit(folder / file)


def test_a_changed_digit_changes_the_findings(tmp_path: Path) -> None:
    mended = _changed(tmp_path, "table5_domains.csv", "Medical,100,10.21", "Medical,100,9.64")
    status = {x.check: x.status for x in mended.findings}
    assert status["categories add up: Medical"] == "consistent"
    assert status["mean over domains, all"] == "consistent"
    assert status["numbers repeated in A.4: Medical"] == "inconsistent"
    broken = _changed(tmp_path, "table5_domains.csv", "Energy,100,7.01", "Energy,100,7.91")
    status = {x.check: x.status for x in broken.findings}
    assert status["categories add up: Energy"] == "inconsistent"


def test_renamed_columns_and_rows_give_the_same_findings(tmp_path: Path) -> None:
    for path in [*PRINT.glob("*.csv"), PRINT / "enterpriserag.toml"]:
        text = path.read_text(encoding="utf-8")
        for old, new in (
            ("constraints_avg", "per_query"),
            ("Medical", "Ward"),
            ("strict_ias", "s1"),
        ):
            text = text.replace(old, new)
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    found = audit.audit(tmp_path / "table5_domains.csv")
    before = audit.audit(PRINT / "table5_domains.csv")
    assert [x.status for x in found.findings] == [x.status for x in before.findings]
    assert any(
        cell.place == ("domains", "Ward", "per_query") for x in found.findings for cell in x.cells
    )


def test_the_rgb_tables_hold_two_cells_that_no_count_gives() -> None:
    found = audit.audit(PRINT / "rgb.toml")
    wrong = [x for x in found.findings if x.status == "inconsistent" and x.kind == "count"]
    assert sorted(x.cells[0].text for x in wrong) == ["3.37", "67.68"]
    assert all("297" in x.arithmetic for x in wrong)
    drops = [(x.status, x.cells[1].table) for x in found.findings if x.kind == "paired"]
    assert drops.count(("consistent", "noise")) == 11, "of twelve, as the guide says"
    assert [drops.count((s, "integration")) for s in ("consistent", "undecidable")] == [2, 10]
    alone = audit.audit(PRINT / "rgb_noise.csv")
    assert {cell.table for x in alone.findings for cell in x.cells if cell.table} == {"noise"}


# ---------------------------------------------------------------- reports, command, guide


def test_reports_say_the_same_and_execute_nothing(tmp_path: Path) -> None:
    attack = "<img src=x onerror=alert(1)>|`$x$"
    table = f'k,a,b,c\n"{attack}",10.0,20.0,31.0\n'
    check = 'kind="sum"\nname="<script>1</script>"\nover="t"\ntotal="@c"\nparts=["@a","@b"]'
    made(tmp_path, table, check)
    found = audit.audit(tmp_path / "t.toml")
    written = audit.save(found, tmp_path / "out" / "report")
    assert written["format"].to_list() == ["html", "md", "json"]
    page, text, data = (Path(path).read_text(encoding="utf-8") for path in written["path"])
    assert "<img" not in page + text
    assert "<script" not in page + text
    assert json.loads(data)["findings"][0]["cells"][0]["row"] == attack
    assert all("10.0 + 20.0 = 30; printed is 31.0" in report for report in (page, text, data))
    assert "**31.0**" in text
    with pytest.raises(UnknownName, match="pdf"):
        audit.save(found, tmp_path / "report", formats=["pdf"])


def test_cells_are_named_by_what_they_share(paper: audit.Audit) -> None:
    cells = dict(audit.frame(paper).select("check", "cells").iter_rows())
    assert cells["categories add up: Medical"] == (
        "Table 5, Medical: constraints_avg, persona_avg, output_avg, protocol_avg"
    )
    assert cells["queries add up"].startswith("Table 5, n_queries: All, Financial, Energy, ")


def test_a_listing_has_every_finding_in_full(paper: audit.Audit) -> None:
    wrong = audit.frame(paper, "inconsistent")
    page = audit.listing(wrong, ["check", "arithmetic", "rounding"]).as_raw_html()
    assert page.count("<tr") == wrong.height + 1
    assert all(
        text.replace("<", "&lt;").replace("'", "&#x27;") in page for text in wrong["arithmetic"]
    )
    assert "lifted by rounding" in page
    assert "would hold" not in page
    assert "not stated" not in page
    with pytest.raises(UnknownColumn, match="wich"):
        audit.listing(wrong, ["wich"])


def test_the_command_prints_what_is_inconsistent_and_writes_reports(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        cli.app, ["audit", str(PRINT / "rgb_rejection.csv"), "--out", str(tmp_path), "--csv"]
    )
    assert result.exit_code == 0, result.output
    assert "3.37" in result.output
    assert {path.suffix for path in tmp_path.iterdir()} == {".html", ".md", ".json"}
    drafted = CliRunner().invoke(cli.app, ["audit", "--draft", str(PRINT / "table6_contexts.csv")])
    shutil.copy(PRINT / "table6_contexts.csv", tmp_path)
    (tmp_path / "table6_contexts.toml").write_text(drafted.output, encoding="utf-8")
    read = audit.read(tmp_path / "table6_contexts.csv")
    assert read.tables["t"].percent >= {"ratio_pct"}
    assert not read.checks, "a draft states nothing that the paper may not say"


def test_the_guides_first_example_gives_what_the_guide_says(tmp_path: Path) -> None:
    (tmp_path / "systems.csv").write_text(re.findall(r"```csv\n(.*?)```", GUIDE, re.S)[0])
    (tmp_path / "systems.toml").write_text(re.findall(r"```toml\n(.*?)```", GUIDE, re.S)[0])
    wrong = audit.frame(audit.audit(tmp_path / "systems.csv"), "inconsistent")
    assert wrong["kind"].to_list() == ["two_samples", "together"]
    assert "p from 0.09 to 0.09" in wrong["arithmetic"][0]
    assert "91 / 120" in wrong["arithmetic"][1]


def test_the_guide_lists_every_kind_with_its_options() -> None:
    rows = dict(
        re.findall(r"^\| (`[^|]+) \| ([^|]+) \|", GUIDE.partition("## Kinds of check")[2], re.M)
    )
    listed = {
        name: options for names, options in rows.items() for name in re.findall(r"`(\w+)`", names)
    }
    assert set(listed) == set(KINDS)
    for name, options in listed.items():
        assert set(re.findall(r"\w+", options)) - {"or"} == {
            option for option in OPTIONS[name] if option not in OPTIONS["sum"] - {"total", "parts"}
        }, name


@pytest.mark.parametrize(
    ("check", "error", "words"),
    [
        ('kind="sums"', UnknownName, "did you mean 'sum'"),
        ('kind="sum"\ntotal="t[x].d"\nparts=[1]', UnknownColumn, "'d'"),
        ('kind="sum"\ntotal="t[xx].a"\nparts=[1]', UnknownName, "did you mean 'x'"),
        ('kind="sum"\ntotal="s[x].a"\nparts=[1]', UnknownName, "table"),
        ('kind="sum"\ntotal="t[*].a"\nparts=[1]', BadRow, "3 numbers"),
        ('kind="sum"\ntotal="t[x].a"', BadRow, "needs the option 'parts'"),
        ('kind="sum"\ntotal="t[x].a"\npart=[1]', UnknownName, "did you mean 'parts'"),
        ('kind="sum"\ntotal="x.a"\nparts=[1]', BadRow, "names no cell"),
        ('kind="sum"\ntotal="printed 1 of 2"\nparts=[1]', BadRow, "should hold one number"),
        ('kind="up_to"\nvalues="t[*].a"', BadRow, "'value', or 'at'"),
        ('kind="up_to"\nvalues="t[x].a"\nat="t[z].a"', BadRow, "none of what is compared"),
        (f'{TWO}\noverall="t[z].a"\ntest="fischer"', UnknownName, "did you mean 'fisher'"),
        ('kind="sum"\ntotal="@a"\nparts=[1]', BadRow, "over"),
        ('kind="sum"\ntotal="t[x].a#2"\nparts=[1]', BadRow, "holds 1 number"),
        ('kind="count"\nvalue="t[x].a"\nn=0', BadRow, "above 0"),
        ('kind="mean"\nresult=1\nvalues="t[*].a"\nweights=[1,2]', BadRow, "cannot be made"),
    ],
)
def test_mistakes_in_a_declaration_are_named(
    tmp_path: Path, check: str, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=re.escape(words)):
        made(tmp_path, NUMBERS, check)


def test_what_cannot_be_read_is_named_and_what_is_empty_is_undecidable(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("[[check")
    with pytest.raises(ImportFailed, match=r"bad\.toml"):
        audit.audit(tmp_path / "bad.toml")
    (tmp_path / "lone.csv").write_text("k,a\nx,1\n")
    with pytest.raises(ImportFailed, match="--draft"):
        audit.audit(tmp_path / "lone.csv")
    (finding,) = made(tmp_path, "k,a,b\nx,,1\n", 'kind="equal"\nvalues=["t[x].b"]\n') or [None]
    assert finding is None
    (finding,) = made(tmp_path, "k,a,b\nx,,1\n", 'kind="count"\nvalue="t[x].a"\nn=5\n')
    assert finding.status == "undecidable"
    assert "Nothing is printed" in finding.arithmetic
    assert io.StringIO(audit.draft(tmp_path / "lone.csv")).readline()
