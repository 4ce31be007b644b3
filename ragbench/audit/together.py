"""All linear statements at once: is there one data set that prints everything, and if not, why?

Each statement alone may hold while several cannot together: two sums may ask different things of
one cell. Whether true values exist is a small mixed-integer program; where none do, statements are
taken away one by one until the rest can hold, which leaves a smallest set that cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ragbench.audit.declaration import Cell
from ragbench.audit.kinds import Linear, Test
from ragbench.audit.rounding import Span


class Piece(NamedTuple):
    """One statement and the test it comes from."""

    test: Test
    statement: Linear


def conflicts(
    tests: Sequence[Test], convention: str, wrong: Sequence[Test] = ()
) -> list[list[Test]]:
    """Smallest sets of tests that cannot hold together, of tests that can hold each alone.

    Where a group of linked tests cannot hold, each relation is tried with the counts behind its
    cells; only when that explains nothing is the group searched, and not if a cell of it is in a
    test that is `wrong` by itself, of which that search would find echoes.
    """
    spoilt = {cell for test in wrong for cell in test.cells if not cell.printed.is_exact}
    found: list[list[Piece]] = []
    every = [Piece(test, statement) for test in tests for statement in test.linear]
    if not every or possible(every, convention):
        return []
    for group in _linked(every):
        if possible(group, convention):
            continue
        counts = {p.statement.terms[0][1]: p for p in group if p.statement.is_whole}
        cores = []
        for test in {id(p.test): p.test for p in group if not p.statement.is_whole}.values():
            own = [piece for piece in group if piece.test is test]
            own += [counts[cell] for cell in test.cells if cell in counts]
            if not possible(own, convention):
                cores.append(_smallest(own, convention))
        is_spoilt = any(c in spoilt for p in group for _, c in p.statement.terms)
        found += cores if cores or is_spoilt else [_smallest(group, convention)]
    return [list({id(piece.test): piece.test for piece in core}.values()) for core in found]


def _linked(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """The statements in groups that share no rounded cell."""
    groups: list[tuple[set[Cell], list[Piece]]] = []
    for piece in pieces:
        cells = {cell for _, cell in piece.statement.terms if not cell.printed.is_exact}
        touched = [group for group in groups if group[0] & cells]
        groups = [group for group in groups if not group[0] & cells]
        groups.append(
            (cells.union(*(g[0] for g in touched)), [p for g in touched for p in g[1]] + [piece])
        )
    order = {id(piece): place for place, piece in enumerate(pieces)}
    for _, members in groups:
        if len(members) > 1:
            yield sorted(members, key=lambda piece: order[id(piece)])


def possible(pieces: Sequence[Piece], convention: str) -> bool:
    """Whether true values of all cells satisfy all the statements."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    cells = list(dict.fromkeys(c for piece in pieces for _, c in piece.statement.terms))
    column = {cell: place for place, cell in enumerate(cells)}
    size = len(cells) + sum(piece.statement.is_whole for piece in pieces)
    rows, ends, counts = [], [], 0
    for _, statement in pieces:
        row = np.zeros(size)
        for factor, cell in statement.terms:
            row[column[cell]] += float(factor)
        span = statement.span
        if statement.is_whole:  # equal to a whole number of its own
            row[len(cells) + counts] = -1.0
            counts += 1
            span = Span(Fraction(0), Fraction(0))
        # Rows are scaled so that the solver's tolerance is far below a unit of rounding.
        scale = 1000.0 / max(1.0, float(np.abs(row).max()))
        rows.append(row * scale)
        ends.append([end * scale for end in _ends(span)])
    free = [[-np.inf, np.inf]] * (size - len(cells))
    bounds = np.array([_ends(cell.span(convention)) for cell in cells] + free)
    result = milp(
        np.zeros(size),
        constraints=LinearConstraint(np.array(rows), *np.array(ends).T),
        integrality=[0] * len(cells) + [1] * (size - len(cells)),
        bounds=Bounds(*bounds.T),
    )
    return result.status != 2  # 2: infeasible; anything else proves nothing


def _ends(span: Span) -> list[float]:
    return [
        -np.inf if span.low is None else float(span.low),
        np.inf if span.high is None else float(span.high),
    ]


def _smallest(pieces: Sequence[Piece], convention: str) -> list[Piece]:
    """A set that cannot hold and of which every part is needed for that."""
    core = list(pieces)
    for test in {id(piece.test): piece.test for piece in reversed(pieces)}.values():
        rest = [piece for piece in core if piece.test is not test]
        if rest and not possible(rest, convention):
            core = rest
    return core
