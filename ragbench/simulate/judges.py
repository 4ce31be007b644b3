"""Other judges: the three judges of Table 7 on four models, experts and gold of Table 9.

The paper does not say on which instances Table 7's scores were computed; they differ from Tables 2
and 3, so they are met on a subset of the instances, marked in `instances.variant`: some of the
noise instances (Loose), all gaps (rejection) and most conflicts (recognition).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ragbench.simulate.adherence import Adherence
from ragbench.simulate.behaviour import Behaviour
from ragbench.simulate.benchmark import Benchmark
from ragbench.simulate.draws import Array, bell, order, pick, stream
from ragbench.simulate.fit import SCALE, choose_members, cut
from ragbench.simulate.plan import Plan, judged_in_full
from ragbench.simulate.targets import (
    EXPERTS,
    GOLD,
    JUDGED,
    MODELS,
    OTHER_JUDGES,
    counts_printed_as,
    denominators,
    table,
)

SUBSET_NOISE = 160
PER_DIMENSION = 50
LEAN = 1.5
"""How far another judge leans to what the first one said; its own view has spread 1."""


class Rows(NamedTuple):
    """Verdicts of one judge: by model and shown constraint, or by model and instance."""

    judge: str
    criterion: str
    model: Array
    target: Array  # shown constraint (adherence), else instance
    score: Array
    is_lost: Array


def subset(seed: int, bench: Benchmark, plan: Plan, made: tuple[Behaviour, Adherence]) -> Array:
    """Whether each instance belongs to the subset that three judges saw."""
    behaviour, adherence = made
    is_member = bench.instance_mode == 1
    whole = judged_in_full(bench, plan)[list(JUDGED)].all(axis=0)
    noise = np.flatnonzero((bench.instance_mode == 0) & whole)
    met = [
        np.bincount(bench.shown_instance[adherence.is_met[m]], minlength=len(is_member))
        for m in JUDGED
    ]
    shares = np.array([met[i][noise] * (SCALE // bench.instance_size[noise]) for i in range(4)]).T
    wanted = [round(_printed(m, "loose_ias", 0) * SUBSET_NOISE * SCALE / 1000) for m in JUDGED]
    none = np.array([], dtype=int)
    is_member[noise[choose_members(shares, SUBSET_NOISE, wanted, none, none)]] = True
    conflict = np.flatnonzero(bench.instance_mode == 2)
    is_member[conflict[_conflict_members(plan, behaviour, conflict)]] = True
    return is_member


def _printed(model: int, metric: str, judge: int) -> int:
    """Table 7 in tenths of a percent; judge 0 is the one of all other tables."""
    rows = table("table7").filter(metric=metric, model=MODELS[model].judged_as)
    return round(10 * rows["score_pct"][judge])


def _conflict_members(plan: Plan, behaviour: Behaviour, conflict: Array) -> Array:
    """Conflicts on which the four models' recognition is Table 7's: as many as possible."""
    metric = "conflict_accuracy"
    lost = plan.is_criterion_lost[list(JUDGED)][:, conflict].astype(int)
    shows = behaviour.is_shown[list(JUDGED)][:, conflict].astype(int)
    best: tuple[int, int, list[int], list[int]] | None = None
    for size in range(len(conflict) - 20, len(conflict) // 2, -1):
        errors, wanted, cost = [], [], 0
        for i, model in enumerate(JUDGED):
            own = _fewest_errors(_printed(model, metric, 0), size, int(lost[i].sum()))
            others = [_fewest_errors(_printed(model, metric, j), size, 4) for j in (1, 2)]
            if own is None or None in others:
                break
            outside = len(conflict) - size - int(lost[i].sum()) + own
            rest = (
                int(shows[i].sum()) - counts_printed_as(_printed(model, metric, 0), size - own)[0]
            )
            if not 0 <= rest <= 0.8 * outside:
                break
            errors.append(own)
            wanted.append(int(shows[i].sum()) - rest)
            cost += own + sum(e for e in others if e)
        else:
            if best is None or cost < best[0]:
                best = (cost, size, errors, wanted)
    if best is None:
        return np.ones(len(conflict), dtype=bool)
    inside = [np.flatnonzero(lost[i])[:e] for i, e in enumerate(best[2])]
    fixed_in = np.unique(np.concatenate(inside))
    fixed_out = np.setdiff1d(np.flatnonzero(lost.any(axis=0)), fixed_in)
    return choose_members(shows.T, best[1], best[3], fixed_in, fixed_out)


def _fewest_errors(tenths: int, n: int, most: int) -> int | None:
    options = denominators(tenths, n, n - most)
    return n - options[0] if options else None


def other_judges(
    seed: int,
    bench: Benchmark,
    plan: Plan,
    made: tuple[Behaviour, Adherence],
    is_member: Array,
    has_rule: Array,
) -> list[Rows]:
    """Verdicts of the two further judges of Table 7 on the subset."""
    behaviour, adherence = made
    rows = []
    for place, judge in enumerate(OTHER_JUDGES, start=1):
        rng = stream(seed, f"judge {place}")
        for model in JUDGED:
            shown = np.flatnonzero(
                is_member[bench.shown_instance] & (bench.instance_mode[bench.shown_instance] == 0)
            )
            met = adherence.is_met[model, shown]
            weight = SCALE // bench.instance_size[bench.shown_instance[shown]]
            free = ~has_rule[bench.shown_constraint[shown]]
            total = round(_printed(model, "loose_ias", place) * SUBSET_NOISE * SCALE / 1000)
            total -= int(weight[~free & met].sum())
            score = np.where(bench.shown_is_triggered[shown], _lean(rng, met), 99.0)
            verdicts = cut(score[free], weight[free], total)
            rows.append(_rows(judge, "adherence", model, shown[free], verdicts))
            for criterion, metric, mode in (
                ("rejection", "rejection_accuracy", 1),
                ("conflict", "conflict_accuracy", 2),
            ):
                there = is_member & (bench.instance_mode == mode) & ~plan.is_failed[model]
                target = np.flatnonzero(there)
                tenths = _printed(model, metric, place)
                n = (denominators(tenths, len(target), len(target) - 6) or [len(target)])[0]
                k = (counts_printed_as(tenths, n) or [round(tenths * n / 1000)])[0]
                is_lost = np.zeros(len(target), dtype=bool)
                is_lost[pick(rng, np.arange(len(target)), len(target) - n)] = True
                score = _lean(rng, behaviour.is_shown[model, target]) - 99.0 * is_lost
                verdicts = np.zeros(len(target), dtype=bool)
                verdicts[order(score)[:k]] = True
                rows.append(_rows(judge, criterion, model, target, verdicts, is_lost))
    return rows


def _lean(rng: np.random.Generator, first: Array) -> Array:
    return np.where(first, LEAN, -LEAN) + bell(rng, len(first))


def _rows(
    judge: str,
    criterion: str,
    model: int | Array,
    target: Array,
    score: Array,
    is_lost: Array | None = None,
) -> Rows:
    models = np.full(len(target), model) if isinstance(model, int) else model
    lost = np.zeros(len(target), dtype=bool) if is_lost is None else is_lost
    return Rows(judge, criterion, models, target, score, lost)


# ---------------------------------------------------------------- Table 9


class Cells(NamedTuple):
    """How 50 responses fall out between two experts, the gold verdict and the LLM judge."""

    both_yes: int
    disputed_yes: int  # experts differ, gold yes
    disputed_no: int
    missed: int  # gold yes, judge no
    false: int  # gold no, judge yes


def kappa(both: int, first: int, second: int, n: int) -> float:
    """Cohen's kappa from the yes of both, of the first and of the second among n.

    >>> round(kappa(20, 25, 30, 50), 2)
    0.4
    """
    agreed = (n - first - second + 2 * both) / n
    chance = (first * second + (n - first) * (n - second)) / (n * n)
    return 1.0 if chance == 1 else (agreed - chance) / (1 - chance)


def cells(experts: float, judge: float, agreement: float, n: int = PER_DIMENSION) -> Cells:
    """Counts nearest to two printed kappas, then to a printed agreement in percent.

    What the three cannot print together gives way in the order agreement, judge, experts: a kappa
    above the agreement, for one, does not exist.
    """
    found: tuple[tuple[float, ...], Cells] | None = None
    for yes in range(8, n // 2 + 1):
        for disputed in range(11):
            first, second = yes + (disputed + 1) // 2, yes + disputed // 2
            off = _off(kappa(yes, first, second, n), experts, 0.005)
            if off > 0.02:
                continue
            for_yes = disputed // 2
            gold = yes + for_yes
            for missed in range(min(7, gold)):
                for false in range(7):
                    judged = gold - missed + false
                    other = _off(kappa(gold - missed, gold, judged, n), judge, 0.005)
                    agreed = 100 * (n - missed - false) / n
                    near = (abs(gold - 0.35 * n), abs(missed - false))
                    rank = (off, other, _off(agreed, agreement, 0.5), *near)
                    if found is None or rank < found[0]:
                        found = (rank, Cells(yes, for_yes, disputed - for_yes, missed, false))
    assert found is not None
    return found[1]


def _off(value: float, printed: float, half: float) -> float:
    """How far a value lies outside what is printed so."""
    return round(max(0.0, abs(value - printed) - 0.98 * half), 6)


def humans(
    seed: int,
    bench: Benchmark,
    plan: Plan,
    made: tuple[Behaviour, Adherence],
    has_rule: Array,
) -> list[Rows]:
    """Verdicts of two experts and the adjudicated gold on 150 responses."""
    behaviour, adherence = made
    printed = table("table9").filter(table("table9")["dimension"] != "Overall average")
    rows = []
    for line, (mode, criterion) in zip(
        printed.iter_rows(named=True),
        enumerate(("adherence", "rejection", "conflict")),
        strict=True,
    ):
        rng = stream(seed, f"experts on {criterion}")
        count = cells(*(line[c] for c in _TABLE9))
        if mode == 0:
            pools = _strict_pools(bench, plan, adherence, has_rule)
        else:
            there = ~(plan.is_failed | plan.is_criterion_lost) & (bench.instance_mode == mode)
            yes, no = there & behaviour.is_shown, there & ~behaviour.is_shown
            pools = {"yes": yes, "no": no, "no but open": no}
        sample = _sample(rng, count, pools)
        for judge in (*EXPERTS, GOLD):
            votes = [_vote(judge, kind) for kind, _, _ in sample]
            if mode == 0:
                rows.append(_graded(bench, adherence, has_rule, judge, sample, votes))
            else:
                models = np.array([m for _, m, _ in sample])
                target = np.array([i for _, _, i in sample])
                rows.append(_rows(judge, criterion, models, target, np.array(votes)))
    return rows


_TABLE9 = ("human_iaa_kappa", "judge_cohen_kappa", "judge_agreement_pct")
Sampled = list[tuple[tuple[bool, str], int, int]]  # (gold, who differs), model, instance


def _strict_pools(
    bench: Benchmark, plan: Plan, adherence: Adherence, has_rule: Array
) -> Mapping[str, Array]:
    """Noise responses by the judge's strict verdict; *open* ones break no rule."""
    there = judged_in_full(bench, plan) & (bench.instance_mode == 0)
    by_rule = has_rule[bench.shown_constraint]
    can_fail = ~by_rule & bench.shown_is_triggered
    there &= np.bincount(bench.shown_instance[can_fail], minlength=there.shape[1]) > 0
    failed = np.zeros(there.shape, dtype=bool)
    broken = np.zeros(there.shape, dtype=bool)
    for model in range(len(there)):
        failed[model, bench.shown_instance[~adherence.is_met[model]]] = True
        broken[model, bench.shown_instance[~adherence.is_met[model] & by_rule]] = True
    return {
        "yes": there & ~failed,
        "no": there & failed,
        "no but open": there & failed & ~broken,
    }


def _sample(rng: np.random.Generator, count: Cells, pools: Mapping[str, Array]) -> Sampled:
    """Responses for all cells, no instance twice; disputes lie where the judge errs last."""
    gold_yes, gold_no = count.both_yes + count.disputed_yes, PER_DIMENSION
    gold_no -= gold_yes
    kinds: list[tuple[tuple[bool, str], str]] = []
    for gold, total, disputed, wrong in (
        (True, gold_yes, count.disputed_yes, count.missed),
        (False, gold_no, count.disputed_no, count.false),
    ):
        for place in range(total):
            is_wrong, is_disputed = place < wrong, place >= total - disputed
            who = ("", EXPERTS[place % 2])[is_disputed]
            judged_yes = gold != is_wrong
            is_open = not judged_yes and (gold or is_disputed)
            kinds.append(((gold, who), "yes" if judged_yes else "no but open" if is_open else "no"))
    kinds.sort(key=lambda kind: kind[1] != "no but open")  # the rarest choose first
    taken: set[int] = set()
    sample: Sampled = []
    queues = {
        name: np.argwhere(pool)[order(rng.random(int(pool.sum())))].tolist()
        for name, pool in pools.items()
    }
    for kind, name in kinds:
        model, instance = next(pair for pair in queues[name] if pair[1] not in taken)
        taken.add(instance)
        sample.append((kind, model, instance))
    return sample


def _vote(judge: str, kind: tuple[bool, str]) -> bool:
    gold, differs = kind
    return gold != (judge == differs)


def _graded(
    bench: Benchmark,
    adherence: Adherence,
    has_rule: Array,
    judge: str,
    sample: Sampled,
    votes: list[bool],
) -> Rows:
    """A person's verdicts on what no rule checks: all met for a yes, else as the LLM judge's, and
    where that found nothing, with the constraint that was nearest to failing."""
    models, targets, scores = [], [], []
    for (_, model, instance), vote in zip(sample, votes, strict=True):
        shown = np.flatnonzero(bench.shown_instance == instance)
        free = shown[~has_rule[bench.shown_constraint[shown]]]
        score = np.ones(len(free), dtype=bool) if vote else adherence.is_met[model, free]
        if not vote and adherence.is_met[model, shown].all():
            weakest = np.where(bench.shown_is_triggered[free], adherence.latent[model, free], 99.0)
            score = score.copy()
            score[np.argmin(weakest)] = False
        models.append(np.full(len(free), model))
        targets.append(free)
        scores.append(score)
    return _rows(
        judge, "adherence", np.concatenate(models), np.concatenate(targets), np.concatenate(scores)
    )
