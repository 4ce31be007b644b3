"""Paired bootstrap of yes/no outcomes: seconds and ratio to scipy's best setting.

    python bench/stats.py

Both sides answer the same question on the same outcomes in one run: a 95 % percentile interval
of the difference of two rates from 10,000 resamples. scipy runs at its quickest setting
(percentile, differences resampled instead of two arrays, batch=50). Exit code 1 when a target
is missed.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ragbench.stats import paired_bootstrap

TARGETS = {447: 10, 10_000: 300}  # at least so many times as quick as scipy
FLAT = 3  # a million pairs may cost at most so many times what 447 cost: timings of milliseconds
SHARES = (0.14, 0.13, 0.07)  # both, only the first, only the second; the rest neither


def counts(n: int) -> tuple[int, int, int, int]:
    """How many of n pairs fall in each cell."""
    both, only_a, only_b = (round(n * share) for share in SHARES)
    return both, only_a, only_b, n - both - only_a - only_b


def outcomes(cells: tuple[int, int, int, int]) -> tuple[np.ndarray[Any, Any], Any]:
    """The outcomes of both systems, pair by pair, in random order."""
    first = np.repeat([1.0, 1.0, 0.0, 0.0], cells)
    second = np.repeat([1.0, 0.0, 1.0, 0.0], cells)
    order = np.random.default_rng(0).permutation(len(first))
    return first[order], second[order]


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """The shortest of several runs, in seconds."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def scipy_interval(gap: np.ndarray[Any, Any]) -> Any:
    """What scipy makes of the differences at its quickest setting."""
    from scipy.stats import bootstrap

    return bootstrap(
        (gap,),
        np.mean,
        n_resamples=10_000,
        method="percentile",
        batch=50,
        rng=np.random.default_rng(0),
    ).confidence_interval


def main() -> int:
    """Print the table; 0 when every target is met."""
    is_met = True
    print(
        f"{'pairs':>9}  {'counts':>10}  {'outcomes':>10}  {'scipy':>10}  ratio (outcomes : scipy)"
    )
    ours: dict[int, float] = {}
    for n in (*TARGETS, 1_000_000):
        cells = counts(n)
        first, second = outcomes(cells)
        ours[n] = seconds(lambda cells=cells: paired_bootstrap(counts=cells), 30)
        whole = seconds(lambda a=first, b=second: paired_bootstrap(a, b), 20)
        line = f"{n:>9,}  {ours[n]:>9.5f}s  {whole:>9.5f}s"
        if n not in TARGETS:
            print(line)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = seconds(lambda gap=first - second: scipy_interval(gap), 3)
        ratio = theirs / whole
        is_met &= ratio >= TARGETS[n]
        print(f"{line}  {theirs:>9.5f}s  {ratio:,.0f} (target {TARGETS[n]})")
    growth = ours[1_000_000] / ours[447]
    is_met &= growth <= FLAT
    print(
        f"a million pairs against 447, from counts: {growth:.2f} times the cost (target <= {FLAT})"
    )
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
