"""All checks of a declaration, made in the way of rounding that fits the print best."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ragbench.audit.declaration import Cell, Check, Declaration, EmptyCell, read
from ragbench.audit.kinds import KINDS, Test
from ragbench.audit.rounding import CONVENTIONS
from ragbench.audit.together import conflicts
from ragbench.errors import BadRow

STATUS = {True: "consistent", False: "inconsistent", None: "undecidable"}


@dataclass
class Finding:
    """What one check found: the cells, the arithmetic in words, and what would settle it."""

    check: str
    kind: str
    status: str
    cells: list[Cell]
    arithmetic: str
    settle: str
    assume: str = ""
    rounding: str = ""
    claims: list[str] | None = None  # None: those whose cells are read


@dataclass
class Audit:
    """A declaration, its findings, and the way of rounding that fits the print best."""

    declaration: Declaration
    findings: list[Finding]
    rounding: str


def audit(path: str | Path) -> Audit:
    """The findings of every check that is declared for a file.

    `path` is a declaration (TOML) or a CSV file with one beside it. All ways of rounding are tried;
    the print is read in the one that leaves fewest contradictions, and a finding says when another
    one would lift it. Besides the single checks, all sums, means, differences, counts and orders
    are asked to hold at once.

    Raises:
        ImportFailed: a file is missing or cannot be read, or there is no declaration.
        BadRow, UnknownName, UnknownColumn: the declaration names what is not there.

    Example:
        >>> audit("data/paper/enterpriserag.toml")  # doctest: +SKIP
    """
    declaration = read(path)
    tests = [test for check in declaration.checks for test in _made(check)]
    ways = [declaration.rounding] if declaration.rounding else list(CONVENTIONS)
    way, cores = _chosen(tests, ways)
    findings = [_finding(test, way) for test in tests]
    findings += [_joint(core, tests, way) for core in cores]
    return Audit(declaration, findings, way)


def _chosen(tests: list[Test], ways: list[str]) -> tuple[str, list[list[Test]]]:
    """The way of rounding with fewest contradictions, and the sets that conflict under it."""
    slow = [test for test in tests if test.is_slow]

    def contradicted(some: list[Test], way: str) -> list[Test]:
        return [test for test in some if test.judge(way)[0] is False]

    alone: dict[str, list[Test]] = {}
    for way in ways:
        alone[way] = contradicted([test for test in tests if not test.is_slow], way)
        if not alone[way] and not conflicts(tests, way) and not contradicted(slow, way):
            return way, []
    best: tuple[int, str, list[list[Test]]] | None = None
    for way, wrong in sorted(alone.items(), key=lambda item: len(item[1])):
        if best is None or len(wrong) < best[0]:
            known = {id(test) for test in wrong}
            cores = conflicts([test for test in tests if id(test) not in known], way, wrong)
            count = len(wrong) + len(cores)
            if best is None or count < best[0]:
                count += len(contradicted(slow, way))
                best = min(best or (count, way, cores), (count, way, cores), key=lambda x: x[0])
    assert best is not None
    return best[1], best[2]


def _made(check: Check) -> list[Test]:
    """The tests of a check; one that nothing can be said of where a number is not printed."""
    try:
        return KINDS[check.kind](check)
    except EmptyCell as problem:
        reason = str(problem)
        return [Test(check, [], lambda convention: (None, reason), "the number that is missing")]
    except (ValueError, TypeError, ArithmeticError) as problem:
        raise BadRow(f"check {check.name!r} ({check.kind}) cannot be made: {problem}") from problem


def _finding(test: Test, way: str) -> Finding:
    verdict, words = test.judge(way)
    other = ""
    if verdict is False:
        lifts = [w for w in CONVENTIONS if w != way and test.judge(w)[0] is not False]
        other = f"would hold with: {', '.join(lifts)}" if lifts else "no way of rounding lifts it"
    check = test.check
    return Finding(
        check.name,
        check.kind,
        STATUS[verdict],
        list(dict.fromkeys(test.cells)),
        words,
        check.option("settle", test.settle),
        check.option("assume", ""),
        other,
        check.option("claims"),
    )


def _joint(core: list[Test], tests: list[Test], way: str) -> Finding:
    """The finding that some tests, each fine alone, cannot hold together."""
    cells = list(dict.fromkeys(cell for test in core for cell in test.cells))
    # Another way of rounding must be fine with the counts of all these cells, not of some.
    counts = [t for t in tests if any(x.is_whole and x.terms[0][1] in cells for x in t.linear)]
    wider = [*core, *(test for test in counts if test not in core)]
    names = list(dict.fromkeys(test.check.name for test in core))
    told = " ".join(f"({place}) {test.judge(way)[1]}" for place, test in enumerate(core, 1))
    words = f"Each of these can hold alone, but no numbers that print like this satisfy all: {told}"
    lifts = [w for w in CONVENTIONS if w != way and not _conflict(wider, w)]
    return Finding(
        " + ".join(names),
        "together",
        STATUS[False],
        [cell for cell in cells if cell.table],
        words,
        "; ".join(dict.fromkeys(test.check.option("settle", test.settle) for test in core)),
        "; ".join(dict.fromkeys(a for test in core if (a := test.check.option("assume", "")))),
        f"would hold with: {', '.join(lifts)}" if lifts else "no way of rounding lifts it",
        list(dict.fromkeys(name for test in core for name in test.check.option("claims", ())))
        or None,
    )


def _conflict(tests: list[Test], way: str) -> bool:
    return any(test.judge(way)[0] is False for test in tests) or bool(conflicts(tests, way))


def frame(found: Audit, status: str | None = None) -> pl.DataFrame:
    """One row per finding: status, check, kind, cells, arithmetic, assumes, rounding, settle.

    `status` keeps one of *inconsistent*, *undecidable*, *consistent*; inconsistent ones come first.
    """
    rows = [
        {
            "status": x.status,
            "check": x.check,
            "kind": x.kind,
            "cells": _places([cell for cell in x.cells if cell.table]),
            "arithmetic": x.arithmetic,
            "assumes": x.assume,
            "rounding": x.rounding,
            "settle": x.settle,
        }
        for x in sorted(found.findings, key=lambda x: _ORDER.index(x.status))
        if status in (None, x.status)
    ]
    names = ("status", "check", "kind", "cells", "arithmetic", "assumes", "rounding", "settle")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))


def _places(cells: list[Cell]) -> str:
    """Where cells stand, those of one row or of one column together, whichever is shorter."""
    texts = []
    for is_by_row in (True, False):
        groups: dict[tuple[str, str], list[str]] = {}
        for cell in cells:
            column = cell.column + (f" number {cell.part}" if cell.part else "")
            common, own = (cell.row, column) if is_by_row else (column, cell.row)
            groups.setdefault((cell.label, common), []).append(own)
        told = (f"{label}, {common}: {', '.join(own)}" for (label, common), own in groups.items())
        texts.append("; ".join(told))
    return min(texts, key=len)


def claims(found: Audit) -> pl.DataFrame:
    """One row per claim: claim, text, verdict, why (one line), settle, checks (their number).

    *inconsistent*: a finding that bears on the claim is. *undecidable*: one leaves it open, or is
    inconsistent under an assumption that is not printed, or nothing printed bears on it. Else
    *consistent*. A check bears on the claims it names, or else on those whose cells it reads.
    """
    rows = []
    for (table, name), text in found.declaration.claims.items():
        bearing = [x for x in found.findings if _bears(x, table, name)]
        first = min(bearing, key=_weight, default=None)
        verdict, why = "undecidable", "No other printed number bears on it."
        if first:
            is_open = first.status == "inconsistent" and first.assume
            verdict = "undecidable" if is_open else first.status
            why = (
                f"Inconsistent if {first.assume}: {first.arithmetic}"
                if is_open
                else first.arithmetic
            )
        settle = first.settle if first and verdict != "consistent" else ""
        rows.append(
            {"claim": name, "text": text, "verdict": verdict, "why": why, "settle": settle}
            | {"checks": len(bearing)}
        )
    return pl.DataFrame(rows)


def _weight(finding: Finding) -> int:
    """Which of several findings speaks for a claim: the smallest."""
    if finding.status == "inconsistent":
        return 1 if finding.assume else 0
    return 2 + _ORDER.index(finding.status)


def _bears(finding: Finding, table: str, name: str) -> bool:
    if finding.claims is not None:
        return name in finding.claims
    return bool(table) and any((cell.table, cell.row) == (table, name) for cell in finding.cells)


_ORDER = ["inconsistent", "undecidable", "consistent"]
