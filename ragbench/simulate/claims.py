"""Claims: what the contexts hold (coverage) and what the responses say (faithfulness)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ragbench.simulate.benchmark import Benchmark
from ragbench.simulate.draws import Array, bell, categories, stream
from ragbench.simulate.fit import balance, cut
from ragbench.simulate.plan import Plan, table8
from ragbench.simulate.targets import MODELS, per_mille, t_window

# Ours: how many claims there are, what claims of one instance or response share, what gets lost.
CORE, SUPPLEMENTARY, RESPONSE = (
    (0, 0.35, 0.4, 0.25),
    (0.06, 0, 0.34, 0.4, 0.2),
    (0, 0, 0.2, 0.3, 0.3, 0.2),
)
INSTANCE, RESPONSE_SHARED = 0.7, 0.5
NO_CLAIMS, LOST = 0.004, 0.0007
UNIT = 600
"""A response's coverage or faithfulness in whole numbers: 600 is 1."""

COVERAGE_IN_CONFLICTS = (
    0.455, 0.510, 0.495, 0.567, 0.475, 0.525, 0.600, 0.500, 0.548, 0.585, 0.555, 0.535, 0.580,
)  # fmt: skip
"""Ours but for the order, whose rank correlations with Table 3 are the stated +0.90 and -0.50."""


class Claims(NamedTuple):
    """Claims of contexts (shared by all models), and of responses."""

    instance: Array
    is_core: Array
    number: Array  # within the instance
    is_covered: Array  # models x claims
    is_lost: Array  # models x claims: the verdict could not be read
    own_model: Array
    own_instance: Array
    own_number: Array
    own_is_supported: Array
    own_is_lost: Array


def make(seed: int, bench: Benchmark, plan: Plan) -> Claims:
    """The claims and verdicts of a seed. Gaps have none: there is nothing to cover."""
    places = np.flatnonzero(bench.instance_mode != 1)
    instance, is_core, weight = _context_claims(seed, places)
    answered = ~plan.is_failed
    rng = stream(seed, "coverage")
    score = INSTANCE * bell(rng, len(bench.instance_mode))[instance] + 0.4 * is_core
    score = score + bell(rng, len(MODELS), len(instance))
    score += RESPONSE_SHARED * bell(rng, *plan.is_failed.shape)[:, instance]
    is_lost = _lost(rng, answered[:, instance], score.shape)
    everyone = np.arange(len(MODELS))
    coverage = _verdicts(
        bench,
        "Answer Coverage",
        (per_mille("answer_coverage"), _conflict_coverage()),
        [(instance, weight, score[m], answered[m, instance], is_lost[m]) for m in everyone],
        stream(seed, "coverage in conflicts"),
    )
    model, own = _response_claims(seed, places, answered)
    count = np.bincount(model * answered.shape[1] + own, minlength=answered.size)
    own_weight = UNIT // count[model * answered.shape[1] + own]
    rng = stream(seed, "faithfulness")
    own_score = bell(rng, len(own)) + INSTANCE * bell(rng, len(bench.instance_mode))[own]
    own_lost = _lost(rng, np.ones(len(own), dtype=bool), (len(own),))
    parts = [np.flatnonzero(model == m) for m in everyone]
    supported = _verdicts(
        bench,
        "Faithfulness",
        (per_mille("faithfulness"), _conflict_faithfulness()),
        [
            (own[p], own_weight[p], own_score[p], np.ones(len(p), dtype=bool), own_lost[p])
            for p in parts
        ],
        stream(seed, "faithfulness in conflicts"),
    )
    return Claims(
        instance,
        is_core,
        _rank(instance),
        np.array(coverage),
        is_lost,
        model,
        own,
        _rank(model * answered.shape[1] + own),
        np.concatenate(supported),
        own_lost,
    )


def _context_claims(seed: int, places: Array) -> tuple[Array, Array, Array]:
    """Instance, whether core, and weight of each claim: core ones share 0.7, the others 0.3."""
    rng = stream(seed, "claims of contexts")
    core = categories(rng, CORE, len(places))
    extra = categories(rng, SUPPLEMENTARY, len(places))
    instance = np.repeat(places, core + extra)
    first = np.repeat(np.cumsum(core + extra) - core - extra, core + extra)
    is_core = np.arange(len(instance)) - first < np.repeat(core, core + extra)
    of_core = np.where(extra == 0, UNIT, UNIT * 7 // 10) // core
    of_extra = UNIT * 3 // 10 // np.maximum(extra, 1)
    sizes = core + extra
    return (
        instance,
        is_core,
        np.where(is_core, np.repeat(of_core, sizes), np.repeat(of_extra, sizes)),
    )


def _response_claims(seed: int, places: Array, answered: Array) -> tuple[Array, Array]:
    """Model and instance of each claim of a response; a few responses make none."""
    rng = stream(seed, "claims of responses")
    shape = (len(MODELS), len(places))
    drawn = categories(rng, RESPONSE, shape[0] * shape[1])
    is_empty = (rng.random(shape) < NO_CLAIMS) | ~answered[:, places]
    counts = np.where(is_empty.ravel(), 0, drawn)
    model = np.repeat(np.repeat(np.arange(shape[0]), shape[1]), counts)
    return model, np.repeat(np.tile(places, shape[0]), counts)


def _lost(rng: np.random.Generator, there: Array, shape: tuple[int, ...]) -> Array:
    return there & (rng.random(shape) < LOST)


def _rank(groups: Array) -> Array:
    change = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(np.append(change, len(groups)))
    return np.arange(len(groups)) - np.repeat(change, lengths) + 1


def _means(metric: str) -> tuple[float, float]:
    """Natural and synthetic means that print as Table 8 does, their difference too."""
    natural, synthetic, difference, _ = table8(metric)
    apart = 0.35 * (difference - (natural - synthetic))
    return natural + apart, synthetic - apart


def _conflict_coverage() -> tuple[list[float], list[float]]:
    natural, synthetic = _means("Answer Coverage")
    shift = synthetic - sum(COVERAGE_IN_CONFLICTS) / len(MODELS)
    other = [value + shift for value in COVERAGE_IN_CONFLICTS]
    return [value + natural - synthetic for value in other], other


def _conflict_faithfulness() -> tuple[list[float], list[float]]:
    natural, synthetic = _means("Faithfulness")
    printed = [tenths / 1000 for tenths in per_mille("faithfulness")]
    other = [value + synthetic - sum(printed) / len(printed) for value in printed]
    return [value + natural - synthetic for value in other], other


Judged = tuple[Array, Array, Array, Array, Array]  # instance, weight, score, is there, is lost


def _verdicts(
    bench: Benchmark,
    metric: str,
    targets: tuple[Sequence[int], tuple[list[float], list[float]]],
    models: Sequence[Judged],
    rng: np.random.Generator,
) -> list[Array]:
    """Met or not, per model, with the means of Tables 2 and 8 over responses judged in full."""
    found = [np.zeros(len(judged[0]), dtype=bool) for judged in models]
    natural, other = [], []
    for model, judged in enumerate(models):
        noise = bench.instance_mode[judged[0]] == 0
        own = bench.instance_is_natural[judged[0]]
        whole = _Part(judged, noise)
        found[model][noise] = whole.met_at(targets[0][model] / 1000)
        rest = _Part(judged, ~noise & ~own)
        found[model][~noise & ~own] = rest.met_at(targets[1][1][model])
        other.append(rest.mean(found[model][~noise & ~own]))
        natural.append(_Part(judged, ~noise & own))
    # Few natural conflicts: each way of cutting is tried together with those of the other models.
    steps = [0.0, *(sign * step / 200 for step in range(1, 21) for sign in (-1, 1))]
    ways = [
        [part.met_at(aim + step) for step in steps if 0 <= aim + step <= 1]
        for part, aim in zip(natural, targets[1][0], strict=True)
    ]
    options = [
        [(part.mean(way), mean) for way in tried]
        for part, tried, mean in zip(natural, ways, other, strict=True)
    ]
    row = table8(metric)
    chosen, _ = balance(rng, options, row[:3], t_window(row[3]))
    for model, choice in enumerate(chosen):
        judged = models[model]
        here = (bench.instance_mode[judged[0]] == 2) & bench.instance_is_natural[judged[0]]
        found[model][here] = ways[model][choice]
    return found


class _Part:
    """The claims of one model in one part of the study."""

    def __init__(self, judged: Judged, members: Array) -> None:
        instance, weight, score, there, lost = (column[members] for column in judged)
        spoilt = np.isin(instance, instance[lost | ~there])
        self.weight = np.where(spoilt, 0, weight)
        self.score = score
        self.n = len(np.unique(instance[~spoilt]))

    def met_at(self, mean: float) -> Array:
        return cut(self.score, self.weight, round(mean * self.n * UNIT))

    def mean(self, met: Array) -> float:
        return int(self.weight[met].sum()) / (self.n * UNIT)
