"""Means over a column: of which rows, and with which weights, they can be."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np

from ragbench.audit.declaration import Cell, Check
from ragbench.audit.kinds import Linear, Test, Verdict, amount, between, kind
from ragbench.audit.rounding import plain


@kind("subset_mean", "results weights values size")
def subset_tests(check: Check) -> list[Test]:
    """The mean of `results` (weighted) is the mean of some `size` of the `values` of a column."""
    results, values = check.many("results"), check.many("values")
    weights = check.many("weights") if "weights" in check.options else []
    size = int(check.one("size").printed.value)

    def judge(convention: str) -> Verdict:
        often = [w.printed.value for w in weights] or [Fraction(1)] * len(results)
        total = sum(often, Fraction(0))
        target = Linear(tuple((w / total, c) for w, c in zip(often, results, strict=True)))
        goal = target.value(convention)
        spans = _ends(values, convention).T
        chosen = np.array(list(itertools.combinations(range(len(values)), size)))
        low, high = spans[chosen].mean(axis=1).T
        assert goal.low is not None
        assert goal.high is not None
        fits = int(((high >= float(goal.low) - 1e-9) & (low <= float(goal.high) + 1e-9)).sum())
        mean = sum((c.printed.value for c in values), Fraction(0)) / len(values)
        words = (
            f"The printed mean is {between(goal, results[0])}; {fits} of the {len(chosen)} choices "
            f"of {size} of {len(values)} give it (the mean of all {len(values)} is "
            f"{amount(mean, values[0], 4)})"
        )
        if fits == len(chosen):
            return True, f"{words}."
        return (None, f"Possible, not implied. {words}.") if fits else (False, f"{words}.")

    return [Test(check, [*results, *values], judge, "which rows the mean is over")]


@kind("common_weights", "results parts weights")
def weight_tests(check: Check) -> list[Test]:
    """Every one of `results` is the mean of its `parts` with weights that are the same in each row.

    `parts` is a list of columns; with `weights` the weights are given, else any are allowed.
    """
    results = check.many("results")
    columns = [check.cells(part) for part in check.option("parts")]
    given = check.many("weights") if "weights" in check.options else []

    def judge(convention: str) -> Verdict:
        miss, weights = _best_weights(results, columns, given, convention)
        told = " : ".join(plain(w, 3) for w in weights)
        if miss <= 1e-9:
            return True, f"Weights {told} give all {len(results)} of them within rounding."
        which = "The printed weights do not" if given else "No weights"
        return False, (
            f"{which} give all {len(results)} within rounding; {told} miss by up to "
            f"{amount(miss, results[0], 3)} more than rounding explains."
        )

    cells = [*results, *(cell for column in columns for cell in column)]
    return [Test(check, cells, judge, "how the mean is taken: over responses or over constraints")]


def _best_weights(
    results: list[Cell], columns: list[list[Cell]], given: list[Cell], convention: str
) -> tuple[float, list[float]]:
    """By how much the best weights miss the worst row, beyond rounding, and those weights."""
    from scipy.optimize import linprog

    size = len(columns)
    low, high = (
        np.array([_ends(column, convention)[end] for column in columns]).T for end in (0, 1)
    )
    goal_low, goal_high = _ends(results, convention)
    # weights w and a miss t: low w <= goal_high + t and high w >= goal_low - t
    one = -np.ones(len(results))
    upper = [np.c_[low, one], np.c_[-high, one]]
    limits = [goal_high, -goal_low]
    if given:
        # w is in the ratios of printed weights: low_i / high_j <= w_i / w_j for each i and j
        weight_low, weight_high = _ends(given, convention)
        for i, j in itertools.permutations(range(size), 2):
            row = np.zeros((1, size + 1))
            row[0, i], row[0, j] = -weight_high[j], weight_low[i]
            upper.append(row)
            limits.append(np.zeros(1))
    bounds: list[tuple[Any, Any]] = [(0, 1)] * size + [(0, None)]
    whole = [[1.0] * size + [0.0]]
    objective = [0.0] * size + [1.0]
    found = linprog(objective, np.vstack(upper), np.concatenate(limits), whole, [1.0], bounds)
    return float(found.fun), [float(w) for w in found.x[:size]]


def _ends(cells: list[Cell], convention: str) -> np.ndarray:
    """Lowest and highest true values of some cells."""
    return np.array([[float(end or 0) for end in c.span(convention)[:2]] for c in cells]).T
