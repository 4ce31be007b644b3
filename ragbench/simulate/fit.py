"""Verdicts that follow a latent order and still add up to what was printed, in whole numbers.

Every verdict has a latent score: the higher, the likelier it is met. Counts are met by drawing the
line at the right place of the order; what a line cannot meet (all-or-nothing counts, means of
shares) by exchanging the few verdicts next to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ragbench.simulate.draws import Array, order

SCALE = math.lcm(*range(1, 21))
"""A response with k constraints counts SCALE / k for each: shares stay whole numbers."""


class Block(NamedTuple):
    """The constraints of one model's responses in one part of the study."""

    response: Array  # of each constraint, from 0
    size: Array  # constraints of its response
    group: Array  # whose counts are fixed one by one
    is_locked: Array  # met whatever its score: the condition does not hold
    score: Array
    effect: Array  # of each response: what its constraints share
    is_full: Array  # of each response: all its constraints are judged


class Fitted(NamedTuple):
    """Which constraints are met, and the strengths that were found on the way."""

    met: Array
    line: list[float]  # score at which each group is cut
    sigma: float  # of the response effect
    slope: float  # per constraint that a response has more than others


def fit(
    block: Block, strict: int, total: int, counts: Sequence[int] = (), slope: float = 0.0
) -> Fitted:
    """Verdicts with `strict` responses met in full and shares that add up to `total` / SCALE.

    With `counts`, so many are met in each group; else only their sum is free, and `slope` given.
    """
    sigma = 0.5
    for _ in range(3):

        def too_few(x: float, at: float = slope) -> bool:
            return _strict(block, _draw(block, counts, total, x, at)) < strict

        sigma = _bisect(too_few, (0.0, 3.0))

        def too_much(x: float, at: float = sigma) -> bool:
            return _total(block, _draw(block, counts, total, at, x)) > total

        slope = _bisect(too_much, (-1.0, 1.0)) if counts else slope
    score = _latent(block, sigma, slope)
    met = _draw(block, counts, total, sigma, slope)
    line = [
        float(score[(block.group == g) & met & ~block.is_locked].min(initial=9.0))
        for g in range(max(1, len(counts)))
    ]
    _settle_strict(block, met, score, strict)
    _settle_total(block, met, score, total)
    return Fitted(met, line, sigma, slope)


def _latent(block: Block, sigma: float, slope: float) -> Array:
    shared = sigma * block.effect[block.response] + slope * (block.size - 8)
    return np.where(block.is_locked, 99.0, block.score + shared)


def _weights(block: Block) -> Array:
    return np.where(block.is_full[block.response], SCALE // block.size, 0)


def _draw(block: Block, counts: Sequence[int], total: int, sigma: float, slope: float) -> Array:
    """The verdicts when the line is drawn through the latent order."""
    places = order(_latent(block, sigma, slope))
    met = np.zeros(len(places), dtype=bool)
    if counts:
        groups = block.group[places]
        for group, count in enumerate(counts):
            met[places[groups == group][:count]] = True
        return met
    reached = np.cumsum(_weights(block)[places])
    met[places[: int(np.searchsorted(reached, total))]] = True
    return met


def _failures(block: Block, met: Array) -> Array:
    return np.bincount(block.response[~met], minlength=len(block.is_full))


def _strict(block: Block, met: Array) -> int:
    return int((block.is_full & (_failures(block, met) == 0)).sum())


def _total(block: Block, met: Array) -> int:
    return int(_weights(block)[met].sum())


def _bisect(is_below: Callable[[float], bool], span: tuple[float, float]) -> float:
    low, high = span
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2


def _settle_strict(block: Block, met: Array, score: Array, wanted: int) -> None:
    """Exchange verdicts within groups until `wanted` responses are met in full."""
    counted = block.is_full[block.response]
    while (now := _strict(block, met)) != wanted:
        failures = _failures(block, met)[block.response]
        if now < wanted:
            gains = counted & ~met & (failures == 1)
            losses = counted & met & ~block.is_locked & (failures >= 1)
        else:
            gains = counted & ~met & (failures >= 2)
            losses = counted & met & ~block.is_locked & (failures == 0)
        best = None
        for group in range(int(block.group.max()) + 1):
            here = block.group == group
            gain = _extreme(score, gains & here, highest=True)
            if gain is None:
                continue
            other = losses & here & (block.response != block.response[gain])
            loss = _extreme(score, other, highest=False)
            if loss is not None and (best is None or score[gain] - score[loss] > best[0]):
                best = (score[gain] - score[loss], gain, loss)
        if best is None:
            return
        met[best[1]], met[best[2]] = True, False


def _settle_total(block: Block, met: Array, score: Array, wanted: int) -> None:
    """Move failures between responses of other sizes, both failed anyway, until shares add up."""
    counted = block.is_full[block.response]
    weights = _weights(block)
    while (missing := wanted - _total(block, met)) != 0:
        failures = _failures(block, met)[block.response]
        gains = counted & ~met & (failures >= 2)
        losses = counted & met & ~block.is_locked & (failures >= 1)
        best = (abs(missing), -1, -1)
        for group in range(int(block.group.max()) + 1):
            here = block.group == group
            ups = _one_per_weight(weights, score, gains & here, highest=True)
            downs = _one_per_weight(weights, score, losses & here, highest=False)
            for up in ups:
                for down in downs:
                    left = abs(missing - int(weights[up] - weights[down]))
                    if left < best[0]:
                        best = (left, up, down)
        if best[1] < 0:
            return
        met[best[1]], met[best[2]] = True, False


def _extreme(score: Array, among: Array, *, highest: bool) -> int | None:
    places = np.flatnonzero(among)
    if not len(places):
        return None
    found = np.argmax(score[places]) if highest else np.argmin(score[places])
    return int(places[found])


def _one_per_weight(weights: Array, score: Array, among: Array, *, highest: bool) -> list[int]:
    found = [
        _extreme(score, among & (weights == weight), highest=highest)
        for weight in np.unique(weights[among])
    ]
    return [place for place in found if place is not None]


def cut(score: Array, weight: Array, total: int) -> Array:
    """Which verdicts are met so that their weights add up to `total`, as nearly as one exchange
    across the line can make it."""
    places = order(score)
    reached = np.cumsum(weight[places])
    line = int(np.searchsorted(reached, total))
    line += int(
        line < len(reached) and reached[line] - total < total - (reached[line - 1] if line else 0)
    )
    met = np.zeros(len(places), dtype=bool)
    met[places[:line]] = True
    missing = total - int(weight[met].sum())
    above, below = places[max(0, line - 80) : line], places[line : line + 80]
    change = weight[below][:, None] - weight[above][None, :]
    if change.size:
        up, down = np.unravel_index(np.argmin(np.abs(missing - change)), change.shape)
        if abs(missing - int(change[up, down])) < abs(missing):
            met[below[up]], met[above[down]] = True, False
    return met


Pair = tuple[float, float]
HALF = 0.00049
"""Just under half a unit of the third decimal."""


def balance(
    rng: np.random.Generator,
    options: Sequence[Sequence[Pair]],
    wanted: tuple[float, float, float],
    t_window: Pair,
    *,
    steps: int = 40_000,
) -> tuple[list[int], float]:
    """Which (natural, synthetic) pair of each model to take so that a table of means comes out.

    Wanted are both means and their difference within half a unit of the third decimal, and the
    paired t within `t_window`. Also returned is how far off the choice is: 0 when all is met. The
    first option of each model is where the search begins.
    """
    n = len(options)
    terms = [[(a, b, a - b, (a - b) ** 2) for a, b in option] for option in options]

    def loss(sums: Sequence[float]) -> float:
        off = 0.0
        for got, want in zip(sums, wanted, strict=False):
            off += max(0.0, abs(got / n - want) - HALF)
        spread = sums[3] / n - (sums[2] / n) ** 2
        t = sums[2] / n * math.sqrt((n - 1) / spread) if spread > 1e-12 else 99.0
        return 300 * off + max(0.0, t_window[0] - t, t - t_window[1])

    chosen = [0] * n
    sums = [sum(term[0][i] for term in terms) for i in range(4)]
    best = loss(sums)
    # Two models at a time: one may give what the other takes.
    who = rng.integers(0, n, (steps, 2)).tolist()
    what = rng.random((steps, 2)).tolist()
    for models, shares in zip(who, what, strict=True):
        if best == 0:
            break
        moves = {m: int(share * len(terms[m])) for m, share in zip(models, shares, strict=True)}
        new = [
            value + sum(terms[m][to][i] - terms[m][chosen[m]][i] for m, to in moves.items())
            for i, value in enumerate(sums)
        ]
        if (found := loss(new)) <= best:
            best, sums = found, new
            for m, to in moves.items():
                chosen[m] = to
    return chosen, best


def choose_members(
    columns: Array, size: int, wanted: Sequence[int], fixed_in: Array, fixed_out: Array
) -> Array:
    """`size` rows of `columns` (rows by measures, whole numbers) whose sums come near `wanted`.

    Rows `fixed_in` are members, rows `fixed_out` are not; others change places while that helps.
    """
    aims = np.asarray(wanted)
    is_member = np.zeros(len(columns), dtype=bool)
    is_member[fixed_in] = True
    free = np.setdiff1d(np.arange(len(columns)), np.concatenate([fixed_in, fixed_out]))
    spare = size - int(is_member.sum())
    is_member[free[np.arange(spare) * len(free) // spare]] = True
    while (off := np.abs(aims - columns[is_member].sum(axis=0)).sum()) != 0:
        missing = aims - columns[is_member].sum(axis=0)
        inside, outside = free[is_member[free]], free[~is_member[free]]
        left = np.zeros((len(outside), len(inside)), dtype=np.int64)
        for measure in range(columns.shape[1]):
            change = columns[outside, measure][:, None] - columns[inside, measure][None, :]
            left += np.abs(missing[measure] - change)
        enter, leave = np.unravel_index(np.argmin(left), left.shape)
        if left[enter, leave] >= off:
            break
        is_member[outside[enter]], is_member[inside[leave]] = True, False
    return is_member
