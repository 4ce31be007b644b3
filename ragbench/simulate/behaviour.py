"""Refusals in gaps and recognised contradictions: one verdict per response."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ragbench.simulate.benchmark import Benchmark
from ragbench.simulate.draws import Array, bell, order, stream
from ragbench.simulate.plan import Plan
from ragbench.simulate.targets import INDEX, MODELS

ITEM, FAMILY = 0.9, 0.5
"""Spread of what all models, and the models of one family, share on an instance; noise has 1."""

# Log-odds that an explicit protocol adds. The paper gives no sizes: recognition gains in all
# models, refusal in 2 of 13, and one model loses a little.
RECOGNITION_GAIN = 1.1
REFUSAL_GAIN = 0.1
REFUSAL_EXCEPTIONS = {"DeepSeek-R1-0528": 1.3, "GLM-4.5": 1.2, "Claude-Opus-4.5": -0.15}

EFFECTS = ("recognition_protocol", "refusal_protocol")
"""What a caller may plant instead: log-odds for all models."""


class Behaviour(NamedTuple):
    """Models x instances."""

    latent: Array
    is_shown: Array  # declines in a gap, names the contradiction in a conflict
    gains: dict[str, list[float]]  # effect -> log-odds per model


def make(seed: int, bench: Benchmark, plan: Plan, effects: Mapping[str, float]) -> Behaviour:
    """The verdicts of a seed, with the counts of the plan."""
    rng = stream(seed, "behaviour")
    models, instances = plan.is_failed.shape
    families = sorted({model.family for model in MODELS})
    family = [families.index(model.family) for model in MODELS]
    item = ITEM * bell(rng, instances)
    shared = FAMILY * bell(rng, len(families), instances)
    latent = item[None, :] + shared[family] + bell(rng, models, instances)
    gains = planted(effects)
    is_shown = np.zeros(plan.is_failed.shape, dtype=bool)
    has = bench.instance_has_protocol
    for model in range(models):
        there = ~(plan.is_failed[model] | plan.is_criterion_lost[model])
        gap = there & (bench.instance_mode == 1)
        declines = (plan.rejected[model], gains["refusal_protocol"][model])
        _raise(is_shown[model], latent[model], gap, has, *declines)
        conflict = there & (bench.instance_mode == 2)
        gain = gains["recognition_protocol"][model]
        natural = conflict & bench.instance_is_natural
        for part, count in zip((natural, conflict & ~natural), plan.recognised[model], strict=True):
            _raise(is_shown[model], latent[model], part, has, count, gain)
    return Behaviour(latent, is_shown, gains)


def planted(effects: Mapping[str, float]) -> dict[str, list[float]]:
    """Log-odds that a protocol adds, per effect and model."""
    refusal = [REFUSAL_GAIN] * len(MODELS)
    for name, gain in REFUSAL_EXCEPTIONS.items():
        refusal[INDEX[name]] = gain
    gains = {"recognition_protocol": [RECOGNITION_GAIN] * len(MODELS), "refusal_protocol": refusal}
    return gains | {name: [float(value)] * len(MODELS) for name, value in effects.items()}


def _raise(
    is_shown: Array, latent: Array, part: Array, has: Array, count: int, gain: float
) -> None:
    """Let `count` responses of `part` show the behaviour, more of them where a protocol asks."""
    explicit, implicit = np.flatnonzero(part & has), np.flatnonzero(part & ~has)
    first = _explicit_count(count, len(explicit), len(implicit), gain)
    for members, number in ((explicit, first), (implicit, count - first)):
        is_shown[members[order(latent[members])[:number]]] = True


def _explicit_count(count: int, explicit: int, implicit: int, gain: float) -> int:
    """How many of `count` fall to the explicit part for log-odds that differ by `gain`.

    >>> _explicit_count(50, 100, 100, 0.0)
    25
    """

    def off(first: int) -> float:
        odds = math.log((first + 0.5) / (explicit - first + 0.5))
        other = math.log((count - first + 0.5) / (implicit - count + first + 0.5))
        return round(abs(odds - other - gain), 6)

    return min(range(max(0, count - implicit), min(count, explicit) + 1), key=off)
