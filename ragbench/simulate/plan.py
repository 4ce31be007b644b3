"""Which responses and verdicts each model lacks, and how many of the others succeed.

The paper states one n for all models; here some are missing, and differ per model, so that what
deals with missing rows has something to deal with. They are chosen so that the printed percentages
still come out: 42.3 % of 309 is no whole number, of 305 it is 129.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ragbench.simulate.benchmark import CATEGORY_OF, MODES, Benchmark
from ragbench.simulate.draws import Array, pick, stream
from ragbench.simulate.fit import balance
from ragbench.simulate.targets import (
    INDEX,
    INSTRUCT,
    JUDGED,
    MODELS,
    R1,
    THINKING,
    V31,
    counts_printed_as,
    denominators,
    per_mille,
    t_window,
    table,
)

FEWEST_NOISE, FEWEST_CONFLICT, FEWEST_GAP = 437, 300, 224

# Not printed, ours: how often each model declines in a gap. Printed ones are put in their place.
REJECTION = (0.115, 0.15, 0.20, 0, 0, 0, 0.30, 0, 0.335, 0, 0, 0, 0.36)
# Printed with these names elsewhere than in a table of 13 models.
STATED_REJECTION = {"Qwen3-30B-A3B-Instruct-2507": "C034", "Claude-Opus-4.5": "C036"}


class Plan(NamedTuple):
    """Boolean arrays of models x instances (or shown constraints), and counts per model."""

    is_failed: Array  # no response
    is_adherence_lost: Array  # models x shown constraints: verdict could not be read
    is_criterion_lost: Array  # rejection or conflict verdict could not be read
    is_strict_barred: Array  # must not meet every constraint: its pair is lost
    strict: dict[str, list[int]]  # block -> responses of each model that meet every constraint
    recognised: list[tuple[int, int]]  # natural and synthetic conflicts
    rejected: list[int]


def make(seed: int, bench: Benchmark) -> Plan:
    """The plan of a seed."""
    models, shown = len(MODELS), len(bench.shown_instance)
    empty = np.zeros((models, len(bench.instance_mode)), dtype=bool)
    plan = Plan(
        empty.copy(),
        np.zeros((models, shown), dtype=bool),
        empty.copy(),
        empty.copy(),
        {},
        [],
        [],
    )
    _lose_in_noise(seed, bench, plan)
    plan.rejected.extend(_lose_in_gaps(seed, bench, plan))
    plan.recognised.extend(_lose_in_conflicts(seed, bench, plan))
    plan.strict.update(_strict_counts(seed, bench, plan))
    return plan


def judged_in_full(bench: Benchmark, plan: Plan) -> Array:
    """Models x instances: every constraint has a verdict."""
    lost = np.zeros_like(plan.is_failed)
    for model in range(len(MODELS)):
        lost[model, bench.shown_instance[plan.is_adherence_lost[model]]] = True
    return ~(plan.is_failed | lost)


# ---------------------------------------------------------------- noise: Table 2


def _lose_in_noise(seed: int, bench: Benchmark, plan: Plan) -> None:
    """Lose responses and verdicts until every cell of Table 2's counts can be met."""
    rng = stream(seed, "lost in noise")
    here = np.flatnonzero(bench.instance_mode == 0)
    printed = per_mille("strict_ias")
    pair = _qwen_denominators(rng, printed, len(here))
    for model in range(len(MODELS)):
        options = denominators(printed[model], len(here), FEWEST_NOISE)
        options = [n for n in options if n < len(here)] or options
        n = pair.get(model) or options[int(rng.integers(0, len(options)))]
        kept = _missing(bench, plan, THINKING)[0] if model == INSTRUCT else np.array([], dtype=int)
        for _ in range(200):
            lost = _draw_lost(rng, bench, here, len(here) - n, kept)
            if _categories_fit(bench, model, lost):
                break
        plan.is_failed[model, lost[0]] = True
        plan.is_adherence_lost[model, lost[1]] = True
        if model == INSTRUCT:
            gone = np.setdiff1d(_missing(bench, plan, INSTRUCT)[0], kept)
            plan.is_strict_barred[THINKING, gone] = True


def _qwen_denominators(rng: np.random.Generator, printed: Sequence[int], n: int) -> dict[int, int]:
    """Denominators of the two Qwen models at which their paired gain is what the paper states."""
    least = round(10 * float(_claim("C046").split(" to ")[0]))
    found = []
    for of_thinking in denominators(printed[THINKING], n, FEWEST_NOISE):
        for of_instruct in denominators(printed[INSTRUCT], of_thinking, FEWEST_NOISE):
            k = counts_printed_as(printed[THINKING], of_thinking)[0]
            gain = k - counts_printed_as(printed[INSTRUCT], of_instruct)[0]
            if gain in counts_printed_as(least, of_instruct):
                found.append({THINKING: of_thinking, INSTRUCT: of_instruct})
    return found[int(rng.integers(0, len(found)))] if found else {}


def _missing(bench: Benchmark, plan: Plan, model: int) -> tuple[Array, Array]:
    """Noise instances that a model lacks, wholly or in part."""
    gone = ~judged_in_full(bench, plan)[model] & (bench.instance_mode == 0)
    return np.flatnonzero(gone), np.flatnonzero(plan.is_failed[model])


def _draw_lost(
    rng: np.random.Generator, bench: Benchmark, here: Array, count: int, kept: Array
) -> tuple[Array, Array]:
    """Instances without a response, and shown constraints without a verdict: `count` in all.

    `kept` instances are among them. A third lose a single verdict.
    """
    fresh = pick(rng, np.setdiff1d(here, kept), max(0, count - len(kept)))
    gone = np.concatenate([fresh, kept])
    partial = gone[: (count + 1) // 3]
    verdicts = []
    for instance in partial:
        shown = np.flatnonzero(bench.shown_instance == instance)
        verdicts.append(shown[int(rng.integers(0, len(shown)))])
    return gone[len(partial) :], np.array(verdicts, dtype=int)


def _categories_fit(bench: Benchmark, model: int, lost: tuple[Array, Array]) -> bool:
    """Whether the pooled percentages per category can be met with what is left."""
    kept = bench.instance_mode[bench.shown_instance] == 0
    kept &= ~np.isin(bench.shown_instance, lost[0])
    kept[lost[1]] = False
    category = CATEGORY_OF[bench.constraint_dimension[bench.shown_constraint]]
    return all(
        counts_printed_as(per_mille(f"loose_{name}")[model], int((kept & (category == i)).sum()))
        for i, name in enumerate(("persona", "output", "protocol"))
    )


# ---------------------------------------------------------------- gaps: Figure 2, Table 7


def _lose_in_gaps(seed: int, bench: Benchmark, plan: Plan) -> list[int]:
    """Lose gap responses; return how many of the others decline."""
    rng = stream(seed, "lost in gaps")
    here = np.flatnonzero(bench.instance_mode == 1)
    counts: list[int] = []
    for model, about in enumerate(MODELS):
        printed = _printed_rejection(about.published, about.judged_as)
        if model == INSTRUCT:
            n = len(here)
            gain = round(10 * float(_claim("C044")))
            counts.append(counts[THINKING] - counts_printed_as(gain, n)[0])
        elif printed is not None:
            options = denominators(printed, len(here), FEWEST_GAP)
            n = options[0] if model in JUDGED else options[int(rng.integers(0, len(options)))]
            counts.append(counts_printed_as(printed, n)[0])
        else:
            n = len(here) - int(rng.integers(0, 4))
            counts.append(round(REJECTION[model] * n))
        lost = pick(rng, here, len(here) - n)
        failed = lost if model in JUDGED else lost[: (len(lost) + 1) // 2]
        plan.is_failed[model, failed] = True
        plan.is_criterion_lost[model, np.setdiff1d(lost, failed)] = True
        if model not in (THINKING, INSTRUCT):
            _lose_verdicts(rng, bench, plan, model, here, int(rng.integers(0, 3)))
    return counts


def _printed_rejection(published: str, judged_as: str | None) -> int | None:
    if published in STATED_REJECTION:
        return round(10 * float(_claim(STATED_REJECTION[published])))
    frame = table("table7").filter(metric="rejection_accuracy", model=judged_as or "")
    return round(10 * frame["score_pct"][0]) if frame.height else None


def _lose_verdicts(
    rng: np.random.Generator, bench: Benchmark, plan: Plan, model: int, here: Array, count: int
) -> None:
    """Make single adherence verdicts unreadable, in responses that there are."""
    there = here[~plan.is_failed[model, here]]
    for instance in pick(rng, there, count):
        shown = np.flatnonzero(bench.shown_instance == instance)
        plan.is_adherence_lost[model, shown[int(rng.integers(0, len(shown)))]] = True


# ---------------------------------------------------------------- conflicts: Tables 3 and 8


def _lose_in_conflicts(seed: int, bench: Benchmark, plan: Plan) -> list[tuple[int, int]]:
    """Lose conflict responses; return how many natural and synthetic conflicts are recognised."""
    rng = stream(seed, "lost in conflicts")
    is_conflict = bench.instance_mode == 2
    natural = np.flatnonzero(is_conflict & bench.instance_is_natural)
    synthetic = np.flatnonzero(is_conflict & ~bench.instance_is_natural)
    printed = per_mille("conflict_recognition_pct", "table3")
    ns = _conflict_denominators(rng, printed, int(is_conflict.sum()))
    ks = [counts_printed_as(printed[m], ns[m])[0] for m in range(len(MODELS))]
    can_lose = [m for m in range(len(MODELS)) if ns[m] < int(is_conflict.sum()) and m != V31]
    can_lose = [m for m in can_lose if m not in JUDGED and m != R1]
    tries: list[tuple[float, int, set[int], list[tuple[int, int]]]] = []
    for _ in range(40):
        losers = {int(m) for m in pick(rng, np.array(can_lose), int(rng.integers(0, 5)))}
        split, off = _split_recognised(rng, ns, ks, losers, len(natural))
        tries.append((off, len(tries), losers, split))
        if off == 0:
            break
    _, _, losers, split = min(tries)
    for model in range(len(MODELS)):
        if model == V31:
            continue
        own = int(model in losers)
        lost = np.concatenate(
            [pick(rng, natural, own), pick(rng, synthetic, is_conflict.sum() - ns[model] - own)]
        )
        _lose_recognition(plan, model, lost)
        if model == R1:
            _lose_recognition(plan, V31, lost)
        _lose_verdicts(rng, bench, plan, model, synthetic, int(rng.integers(0, 4)))
    return split


def _lose_recognition(plan: Plan, model: int, lost: Array) -> None:
    """Models that three judges saw lose the verdict only, others half of the responses too."""
    failed = lost[:0] if model in JUDGED else lost[: (len(lost) + 1) // 2]
    plan.is_failed[model, failed] = True
    plan.is_criterion_lost[model, np.setdiff1d(lost, failed)] = True


def _conflict_denominators(
    rng: np.random.Generator, printed: Sequence[int], n: int
) -> dict[int, int]:
    """Denominators for Table 3, the two DeepSeek models alike and with the stated gain."""
    gain = round(10 * float(_claim("C045")))
    found = {}
    for model in range(len(MODELS)):
        options = denominators(printed[model], n, FEWEST_CONFLICT)
        if model in JUDGED:
            options = options[:2]
        found[model] = options[int(rng.integers(0, len(options)))]
    alike = [
        m
        for m in denominators(printed[R1], n, FEWEST_CONFLICT)
        if counts_printed_as(printed[V31], m)
        and counts_printed_as(printed[R1], m)[0] - counts_printed_as(printed[V31], m)[0]
        in counts_printed_as(gain, m)
    ]
    return found | (dict.fromkeys((R1, V31), alike[0]) if alike else {})


def _split_recognised(
    rng: np.random.Generator,
    ns: dict[int, int],
    ks: Sequence[int],
    losers: set[int],
    natural: int,
) -> tuple[list[tuple[int, int]], float]:
    """Natural and synthetic counts whose means and paired t are Table 8's, and how far off."""
    row = table8("Conflict Recognition")
    counts, options = [], []
    for model, k in enumerate(ks):
        of_natural = natural - int(model in losers)
        middle = round(k / ns[model] * natural + (row[0] - row[1]) * natural)
        tried = [middle + step for step in (0, -1, 1, -2, 2, -3, 3, -4, 4, -5, 5)]
        tried = [t for t in tried if 0 <= t <= of_natural]
        counts.append([(t, k - t) for t in tried])
        of_synthetic = ns[model] - of_natural
        options.append([(t / of_natural, (k - t) / of_synthetic) for t in tried])
    chosen, off = balance(rng, options, row[:3], t_window(row[3]), steps=6_000)
    return [counts[m][i] for m, i in enumerate(chosen)], off


def table8(metric: str) -> tuple[float, float, float, str]:
    """Natural, synthetic, natural - synthetic as printed, and the printed p."""
    row = table("table8").filter(metric=metric).row(0, named=True)
    return row["natural"], row["synthetic"], -row["diff_as_printed"], row["p_value"]


# ---------------------------------------------------------------- strict counts of all blocks


def _strict_counts(seed: int, bench: Benchmark, plan: Plan) -> dict[str, list[int]]:
    """Responses that meet every constraint, per block and model.

    Noise is Table 2's; natural and synthetic conflicts have Table 8's means; in gaps and around
    those means it is ours: in proportion to Table 2, and the two Qwen models as far apart as the
    paper states.
    """
    full = judged_in_full(bench, plan)
    is_conflict = bench.instance_mode == 2
    blocks = {mode: full[:, bench.instance_mode == i].sum(axis=1) for i, mode in enumerate(MODES)}
    natural = full[:, is_conflict & bench.instance_is_natural].sum(axis=1)
    synthetic = blocks["conflict"] - natural
    printed = per_mille("strict_ias")
    noise = [counts_printed_as(p, int(n))[0] for p, n in zip(printed, blocks["noise"], strict=True)]
    gap = [round(0.9 * p / 1000 * n) for p, n in zip(printed, blocks["gap"], strict=True)]
    most = counts_printed_as(
        round(10 * float(_claim("C046").split(" to ")[1])), int(blocks["gap"][THINKING])
    )
    if most:
        middle = (gap[THINKING] + gap[INSTRUCT]) // 2
        gap[INSTRUCT] = middle - most[0] // 2
        gap[THINKING] = gap[INSTRUCT] + most[0]
    pairs = _split_strict(seed, printed, natural.tolist(), synthetic.tolist())
    return {
        "noise": noise,
        "gap": gap,
        "natural": [pair[0] for pair in pairs],
        "synthetic": [pair[1] for pair in pairs],
    }


def _split_strict(
    seed: int, printed: Sequence[int], natural: Sequence[int], synthetic: Sequence[int]
) -> list[tuple[int, int]]:
    row = table8("Strict IAS")
    rates = [row[1] * p / (sum(printed) / len(printed)) for p in printed]
    for model, shift in ((THINKING, 0.0195), (INSTRUCT, -0.0195)):
        rates[model] += shift
    middle = (rates[R1] + rates[V31]) / 2
    rates[R1] = rates[V31] = middle
    counts, options = [], []
    for model, (rate, n, m) in enumerate(zip(rates, natural, synthetic, strict=True)):
        steps = (0,) if model in (THINKING, INSTRUCT) else (0, -1, 1, -2, 2, -3, 3)
        near = [round(rate * n) + step for step in steps]
        tried = [(a, round(rate * m) + b) for b in steps[:3] for a in near if 0 <= a <= n]
        counts.append(tried)
        options.append([(a / n, b / m) for a, b in tried])
    best: tuple[list[int], float] = ([], 9.0)
    for again in range(5):
        rng = stream(seed, f"strict conflicts {again}")
        found = balance(rng, options, row[:3], t_window(row[3]))
        best = min(best, found, key=lambda tried: tried[1])
        if best[1] == 0:
            break
    return [counts[model][i] for model, i in enumerate(best[0])]


def _claim(name: str) -> str:
    return str(table("claims").filter(claim_id=name)["value"][0])


__all__ = ["INDEX", "Plan", "judged_in_full", "make", "table8"]
