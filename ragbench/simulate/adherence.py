"""Verdicts on constraints: which are met, so that Loose and Strict come out together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ragbench.simulate.behaviour import Behaviour
from ragbench.simulate.benchmark import (
    CATEGORIES,
    CATEGORY_OF,
    CONFLICT,
    DIMENSIONS,
    DOMAINS,
    GAP,
    Benchmark,
)
from ragbench.simulate.draws import Array, bell, stream
from ragbench.simulate.fit import SCALE, Block, fit
from ragbench.simulate.plan import Plan, judged_in_full, table8
from ragbench.simulate.targets import MODELS, counts_printed_as, per_mille

# Nothing of this is printed: how far constraints and instances differ in difficulty, what models
# of one family and variants of one model share, and which dimensions and domains are hard
# (the paper has words only).
ITEM, CONSTRAINT, FAMILY, TWIN, NOISE = 0.25, 0.8, 0.8, 0.7, 0.7
DIMENSION = {
    "role": 0.4,
    "format": -0.3,
    "content": -0.2,
    "negative": 0.5,
    "ordering": -0.3,
    "style": 0.3,
    "conflict_handling": 0.2,
    "knowledge_gap": -0.5,
    "citation": -0.8,
}
MODEL_BY_DIMENSION, MODEL_BY_HARD_DIMENSION = 0.15, 0.4
DOMAIN = {
    "Energy": -0.15,
    "Legal": -0.3,
    "Medical": -0.2,
    "Party Building": 0.05,
    "Web Search": 0.25,
}
LOOSE_IN_GAPS = -0.012
"""Loose IAS in gaps against Table 2; in conflicts the mean is Table 8's."""
BEHAVIOUR = 0.8
"""How far a gap (conflict) constraint goes with refusing (naming the conflict)."""
BARRED = -8.0


class Adherence(NamedTuple):
    """Models x shown constraints."""

    is_met: Array
    latent: Array
    truth: list[dict[str, Any]]


def make(seed: int, bench: Benchmark, plan: Plan, behaviour: Behaviour) -> Adherence:
    """The verdicts of a seed, with the counts of the plan."""
    score, truth = _scores(seed, bench)
    effect = bell(stream(seed, "responses"), *plan.is_failed.shape)
    is_full = judged_in_full(bench, plan)
    is_met = np.zeros(score.shape, dtype=bool)
    loose = _loose_targets(seed)
    dimension = bench.constraint_dimension[bench.shown_constraint]
    for model in range(len(MODELS)):
        own = score[model] + BARRED * plan.is_strict_barred[model, bench.shown_instance]
        for mode, wanted in ((1, GAP), (2, CONFLICT)):
            tied = (bench.instance_mode[bench.shown_instance] == mode) & (dimension == wanted)
            own = own + BEHAVIOUR * tied * behaviour.latent[model, bench.shown_instance]
        judged = ~(plan.is_failed[model, bench.shown_instance] | plan.is_adherence_lost[model])
        lines, slope = np.zeros(len(CATEGORIES)), 0.0
        for name, members in _blocks(bench).items():
            places = np.flatnonzero(judged & members[bench.shown_instance])
            lift = lines[CATEGORY_OF[dimension[places]]]
            block = _block(bench, places, own[places] - lift, effect[model], is_full[model])
            counts = _category_counts(model, block) if name == "noise" else ()
            total = round(loose[name][model] * SCALE * int(block.is_full.sum()))
            fitted = fit(block, plan.strict[name][model], total, counts, slope)
            if counts:
                lines, slope = np.array(fitted.line), fitted.slope
            is_met[model, places] = fitted.met
            truth += _found(model, name, fitted.sigma, fitted.slope)
        truth += [
            _row("ability", model, CATEGORIES[c], -lines[c]) for c in range(len(CATEGORIES) - 1)
        ]
    return Adherence(is_met, score, truth)


def _scores(seed: int, bench: Benchmark) -> tuple[Array, list[dict[str, Any]]]:
    """Latent scores, models x shown constraints, without what is found by fitting."""
    rng = stream(seed, "adherence")
    families = sorted({model.family for model in MODELS})
    family = [families.index(model.family) for model in MODELS]
    constraint = CONSTRAINT * bell(rng, len(bench.constraint_query))
    shared = FAMILY * bell(rng, len(families), len(bench.constraint_query))
    sizes = [f"{model.family} {model.params_b or model.label}" for model in MODELS]
    twins = [sorted(set(sizes)).index(size) for size in sizes]
    alike = TWIN * bell(rng, max(twins) + 1, len(bench.constraint_query))
    shared = shared[family] + alike[twins]
    item = ITEM * bell(rng, len(bench.instance_mode))
    is_hard = np.isin(np.array(DIMENSIONS), ["citation", "knowledge_gap"])
    spread = np.where(is_hard, MODEL_BY_HARD_DIMENSION, MODEL_BY_DIMENSION)
    by_model = spread * bell(rng, len(MODELS), len(DIMENSIONS))
    of_dimension = np.array([DIMENSION.get(name, 0.0) for name in DIMENSIONS])
    of_domain = np.array([DOMAIN.get(name, 0.0) for name in DOMAINS])
    dimension = bench.constraint_dimension[bench.shown_constraint]
    domain = bench.query_domain[bench.instance_query[bench.shown_instance]]
    common = constraint[bench.shown_constraint] + item[bench.shown_instance]
    common = common + of_dimension[dimension] + of_domain[domain]
    noise = NOISE * bell(rng, len(MODELS), len(bench.shown_instance))
    score = common + shared[:, bench.shown_constraint] + by_model[:, dimension] + noise
    truth = [_row("spread", None, "item", ITEM), _row("spread", None, "constraint", CONSTRAINT)]
    truth += [_row("spread", None, "family", FAMILY), _row("spread", None, "noise", NOISE)]
    truth += [_row("spread", None, "twin", TWIN)]
    truth += [_row("dimension", None, k, v) for k, v in zip(DIMENSIONS, of_dimension, strict=True)]
    truth += [_row("domain", None, k, v) for k, v in zip(DOMAINS, of_domain, strict=True)]
    for model in range(len(MODELS)):
        truth += [
            _row("model_by_dimension", model, name, by_model[model, i])
            for i, name in enumerate(DIMENSIONS)
        ]
    return score, truth


def _row(parameter: str, model: int | None, group: str, value: float) -> dict[str, Any]:
    key = None if model is None else MODELS[model].key
    return {"parameter": parameter, "model": key, "group": group, "value": round(float(value), 4)}


def _found(model: int, block: str, sigma: float, slope: float) -> list[dict[str, Any]]:
    found = [_row("response_spread", model, block, sigma)]
    return found + ([_row("slope_per_constraint", model, block, slope)] if block == "noise" else [])


def _blocks(bench: Benchmark) -> dict[str, Array]:
    """Block -> its instances; noise comes first: its categories are printed."""
    conflict = bench.instance_mode == 2
    return {
        "noise": bench.instance_mode == 0,
        "gap": bench.instance_mode == 1,
        "natural": conflict & bench.instance_is_natural,
        "synthetic": conflict & ~bench.instance_is_natural,
    }


def _block(bench: Benchmark, places: Array, score: Array, effect: Array, full: Array) -> Block:
    instances, response = np.unique(bench.shown_instance[places], return_inverse=True)
    dimension = bench.constraint_dimension[bench.shown_constraint[places]]
    return Block(
        response,
        bench.instance_size[bench.shown_instance[places]],
        CATEGORY_OF[dimension],
        ~bench.shown_is_triggered[places],
        score,
        effect[instances],
        full[instances],
    )


def _category_counts(model: int, block: Block) -> list[int]:
    """How many constraints of each category are met: the counts that Table 2 prints."""
    counts = []
    for place, name in enumerate(CATEGORIES):
        n = int((block.group == place).sum())
        if name == "additional":
            counts.append(round(0.8 * n))
            continue
        tenths = per_mille(f"loose_{name}")[model]
        counts.append((counts_printed_as(tenths, n) or [round(tenths * n / 1000)])[0])
    return counts


def _loose_targets(seed: int) -> dict[str, list[float]]:
    """Loose IAS per block and model."""
    rng = stream(seed, "loose")
    noise = [tenths / 1000 for tenths in per_mille("loose_ias")]
    gap = [p + LOOSE_IN_GAPS + 0.004 * x for p, x in zip(noise, bell(rng, 13), strict=True)]
    natural, synthetic, _, _ = table8("Loose IAS")
    shift = synthetic - sum(noise) / len(noise)
    jitter = 0.004 * bell(rng, len(MODELS))
    other = [p + shift + x for p, x in zip(noise, jitter - jitter.mean(), strict=True)]
    jitter = 0.010 * bell(rng, len(MODELS))
    own = [p + natural - synthetic + x for p, x in zip(other, jitter - jitter.mean(), strict=True)]
    return {"noise": noise, "gap": gap, "natural": own, "synthetic": other}
