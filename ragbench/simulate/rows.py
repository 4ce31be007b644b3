"""The arrays of a simulated study as frames for the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ragbench.simulate.adherence import Adherence
from ragbench.simulate.behaviour import Behaviour
from ragbench.simulate.benchmark import DIMENSIONS, DOMAINS, MODES, Benchmark
from ragbench.simulate.claims import Claims
from ragbench.simulate.draws import Array, stream
from ragbench.simulate.judges import Rows
from ragbench.simulate.plan import Plan
from ragbench.simulate.targets import (
    EXPERTS,
    GOLD,
    JUDGE,
    MODELS,
    OTHER_JUDGES,
    PANEL,
    RULES,
    SUBSET,
)
from ragbench.simulate.texts import GAP_TEXTS, NO_TEXT, in_language, query_text, wording

BENCHMARK, SETTING = "EnterpriseRAG (simulated)", "given_context"
DOCUMENTS = (("support", 2), ("noise", 6), ("conflict", 2))
"""Documents per query by role. Each mode shows the roles that make it what it is."""
SHOWN_ROLES = {"noise": ("support", "noise"), "gap": ("noise",)}
FAILURES = ("timeout", "context length exceeded", "refused by the provider")
LOST = ("unparsed", "timeout")
DISCLAIMERS = 0.18
"""Share of the answers in a gap that begin with a disclaimer. Ours: the paper is silent on it."""


class Made(NamedTuple):
    """All parts of a study."""

    bench: Benchmark
    plan: Plan
    behaviour: Behaviour
    adherence: Adherence
    claims: Claims
    is_member: Array
    others: list[Rows]
    wordings: list[tuple[str, str | None, str | None]]


def constraint_wordings(bench: Benchmark) -> list[tuple[str, str | None, str | None]]:
    """Text, rule and arguments of each constraint."""
    languages = np.where(bench.query_is_english, "en", "zh")[bench.constraint_query]
    return [
        in_language(wording(DIMENSIONS[d], int(w)), language)
        for d, w, language in zip(
            bench.constraint_dimension, bench.constraint_wording, languages, strict=True
        )
    ]


def frames(seed: int, made: Made) -> dict[str, pl.DataFrame]:
    """Relation -> its rows."""
    names = _Names(made.bench)
    return {
        "study": pl.DataFrame(
            {"name": ["simulated study"], "primary_panel": [PANEL], "licence": ["Apache-2.0"]}
        ),
        "models": pl.DataFrame(
            [(m.key, m.label, m.family, m.paradigm, m.is_open, m.params_b) for m in MODELS],
            schema=["model", "label", "family", "paradigm", "is_open", "params_b"],
            orient="row",
        ),
        "judges": _judges(),
        **_benchmark(made, names),
        **_contexts(made.bench, names),
        "responses": _responses(seed, made, names),
        "claims": _claims(made, names),
        "judgments": _judgments(seed, made, names),
        "evidence": _evidence(seed, made, names),
    }


class _Names:
    """Keys of queries, instances and constraints, in the order of the arrays."""

    def __init__(self, bench: Benchmark) -> None:
        slugs = [name.lower().replace(" ", "-") for name in DOMAINS]
        self.query = pl.Series(
            [
                f"{slugs[d]}-{n:03}"
                for d, n in zip(bench.query_domain, bench.query_number, strict=True)
            ]
        )
        modes = pl.Series(MODES).gather(bench.instance_mode)
        self.instance = self.query.gather(bench.instance_query) + "-" + modes
        numbers = pl.Series([f"{n:02}" for n in bench.constraint_number])
        self.constraint = self.query.gather(bench.constraint_query) + ".c" + numbers
        self.shown = self.constraint.gather(bench.shown_constraint)
        self.model = pl.Series([model.key for model in MODELS])

    def response(self, model: Array, instance: Array) -> pl.Series:
        return self.instance.gather(instance) + "/" + self.model.gather(model) + f"/{SETTING}/0"


def _judges() -> pl.DataFrame:
    kinds = [(RULES, "rule"), (JUDGE, "llm"), *((name, "llm") for name in OTHER_JUDGES)]
    kinds += [(name, "human") for name in (*EXPERTS, GOLD)]
    return pl.DataFrame(kinds, schema=["judge", "kind"], orient="row")


def _benchmark(made: Made, names: _Names) -> dict[str, pl.DataFrame]:
    bench = made.bench
    domains = pl.Series(DOMAINS).gather(bench.query_domain)
    languages = pl.Series(["zh", "en"]).gather(bench.query_is_english.astype(int))
    texts, rules, params = zip(*made.wordings, strict=True)
    first = np.searchsorted(bench.shown_instance, bench.shown_instance)
    return {
        "queries": pl.DataFrame(
            {
                "query_id": names.query,
                "benchmark": [BENCHMARK] * len(names.query),
                "domain": domains,
                "language": languages,
                "text": [
                    query_text(d, language, int(n))
                    for d, language, n in zip(domains, languages, bench.query_number, strict=True)
                ],
            }
        ),
        "constraints": pl.DataFrame(
            {
                "constraint_id": names.constraint,
                "query_id": names.query.gather(bench.constraint_query),
                "dimension": pl.Series(DIMENSIONS).gather(bench.constraint_dimension),
                "text": texts,
                "rule": pl.Series(rules, dtype=pl.String),
                "params": pl.Series(params, dtype=pl.String),
            }
        ),
        "instances": pl.DataFrame(
            {
                "instance_id": names.instance,
                "query_id": names.query.gather(bench.instance_query),
                "context_mode": pl.Series(MODES).gather(bench.instance_mode),
                "variant": pl.Series([None, SUBSET]).gather(made.is_member.astype(int)),
                "is_augmented": ~bench.instance_is_natural,
            }
        ),
        "instance_constraints": pl.DataFrame(
            {
                "instance_id": names.instance.gather(bench.shown_instance),
                "ordinal": np.arange(len(first)) - first + 1,
                "constraint_id": names.shown,
            }
        ),
    }


def _contexts(bench: Benchmark, names: _Names) -> dict[str, pl.DataFrame]:
    """Ten short documents per query, and which of them each instance shows in which order."""
    numbered = [(role, place) for role, count in DOCUMENTS for place in range(1, count + 1)]
    per_query = pl.DataFrame(
        [(role, f"{role[0]}{place}") for role, place in numbered],
        schema=["role", "suffix"],
        orient="row",
    )
    queries = pl.DataFrame({"query_id": names.query})
    documents = queries.join(per_query, how="cross", maintain_order="left_right").with_columns(
        doc_id=pl.format("{}-{}", "query_id", "suffix")
    )
    instances = pl.DataFrame(
        {
            "instance_id": names.instance,
            "query_id": names.query.gather(bench.instance_query),
            "mode": pl.Series(MODES).gather(bench.instance_mode),
        }
    )
    shown = instances.join(documents, on="query_id", how="left", maintain_order="left_right")
    fits = pl.any_horizontal(
        pl.col("mode").eq("conflict"),
        *(pl.col("mode").eq(m) & pl.col("role").is_in(r) for m, r in SHOWN_ROLES.items()),
    )
    contexts = shown.filter(fits).with_columns(
        rank=pl.int_range(1, pl.len() + 1).over("instance_id")
    )
    conflicts = instances.filter(mode="conflict")
    return {
        "documents": documents.select(
            "doc_id",
            title=pl.format("【模拟】资料 {}", "suffix"),
            text=pl.lit("【模拟】此处没有真实正文。"),
        ),
        "contexts": contexts.select("instance_id", "rank", "doc_id", "role"),
        "conflict_points": conflicts.select(
            "instance_id",
            point=pl.lit(1),
            doc_ids=pl.concat_list(pl.format("{}-s1", "query_id"), pl.format("{}-c1", "query_id")),
            summary=pl.lit("【模拟】两份资料对同一事实的说法不同。"),
            affects_answer=pl.lit(True),
        ),
    }


def _gap_kinds(seed: int, made: Made) -> Array:
    """How each gap response deals with the question: index into GAP_TEXTS."""
    chance = stream(seed, "disclaimers").random(made.behaviour.is_shown.shape)
    return np.where(made.behaviour.is_shown, 1, np.where(chance < DISCLAIMERS, 2, 0))


def _responses(seed: int, made: Made, names: _Names) -> pl.DataFrame:
    shape = made.plan.is_failed.shape
    model, instance = (grid.ravel() for grid in np.indices(shape))
    failed = made.plan.is_failed.ravel()
    reason = (stream(seed, "failures").random(failed.size) * len(FAILURES)).astype(int)
    texts = pl.Series([NO_TEXT, *GAP_TEXTS.values()])
    is_gap = made.bench.instance_mode[instance] == 1
    kind = np.where(is_gap, 1 + _gap_kinds(seed, made).ravel(), 0)
    is_failed = pl.Series(failed)
    nothing = pl.Series([None] * len(failed), dtype=pl.String)
    return pl.DataFrame(
        {
            "instance_id": names.instance.gather(instance),
            "model": names.model.gather(model),
            "setting": [SETTING] * len(failed),
            "trial": np.zeros(len(failed), dtype=int),
            "text": nothing.zip_with(is_failed, texts.gather(kind)),
            "finish": nothing.zip_with(is_failed, pl.Series(["stop"] * len(failed))),
            "error": pl.Series(FAILURES).gather(reason).zip_with(is_failed, nothing),
        }
    )


def _claims(made: Made, names: _Names) -> pl.DataFrame:
    claims = made.claims
    of_context = names.instance.gather(claims.instance)
    response = names.response(claims.own_model, claims.own_instance)
    kinds = pl.Series(["supplementary", "core"]).gather(claims.is_core.astype(int))
    return pl.concat(
        [
            pl.DataFrame(
                {
                    "claim_id": _claim_ids(of_context, claims.number),
                    "instance_id": of_context,
                    "response_id": pl.Series([None] * len(of_context), dtype=pl.String),
                    "kind": kinds,
                    "text": "【模拟】要点" + pl.Series(claims.number).cast(pl.String),
                }
            ),
            pl.DataFrame(
                {
                    "claim_id": _claim_ids(response, claims.own_number),
                    "instance_id": names.instance.gather(claims.own_instance),
                    "response_id": response,
                    "kind": ["response"] * len(response),
                    "text": "【模拟】论断" + pl.Series(claims.own_number).cast(pl.String),
                }
            ),
        ]
    ).with_columns(extractor=pl.lit(JUDGE))


def _claim_ids(owner: pl.Series, number: Array) -> pl.Series:
    return owner + ".k" + pl.Series(number).cast(pl.String)


def _judgments(seed: int, made: Made, names: _Names) -> pl.DataFrame:
    rng = stream(seed, "lost verdicts")
    parts = [*_adherence_rows(made, names, rng), *_criterion_rows(made, names, rng)]
    parts += [*_claim_rows(made, names, rng)]
    for rows in made.others:
        if rows.criterion == "adherence":
            instance, target = made.bench.shown_instance[rows.target], names.shown
            held = _triggers(made, rows.target)
        else:
            instance, target, held = rows.target, None, None
        response = names.response(rows.model, instance)
        ids = response if target is None else target.gather(rows.target)
        verdicts = (rows.judge, rows.score, rows.is_lost, rng, held)
        parts.append(_verdicts(response, rows.criterion, ids, *verdicts))
    return pl.concat(parts)


def _verdicts(
    response: pl.Series,
    criterion: str,
    target: pl.Series,
    judge: str | pl.Series,
    is_met: Array,
    is_lost: Array,
    rng: np.random.Generator,
    is_triggered: pl.Series | None = None,
) -> pl.DataFrame:
    n = len(response)
    lost = pl.Series(is_lost)
    reasons = pl.Series(LOST).gather((rng.random(n) * len(LOST)).astype(int))
    nothing = pl.Series([None] * n, dtype=pl.String)
    columns: dict[str, Any] = {
        "response_id": response,
        "criterion": [criterion] * n,
        "target_id": target,
        "judge": [judge] * n if isinstance(judge, str) else judge,
        "score": pl.Series(np.where(is_lost, np.nan, is_met)).fill_nan(None),
        "is_triggered": pl.Series([None] * n, dtype=pl.Boolean)
        if is_triggered is None
        else pl.Series([None] * n, dtype=pl.Boolean).zip_with(lost, is_triggered),
        "error": reasons.zip_with(lost, nothing),
    }
    return pl.DataFrame(columns)


def _triggers(made: Made, shown: Array) -> pl.Series:
    """Whether the condition held; null for constraints that have none."""
    dimension = pl.Series(DIMENSIONS).gather(
        made.bench.constraint_dimension[made.bench.shown_constraint[shown]]
    )
    has_condition = dimension.is_in(["conflict_handling", "knowledge_gap", "uncertainty"])
    held = pl.Series(made.bench.shown_is_triggered[shown])
    return held.zip_with(has_condition, pl.Series([None] * len(shown), dtype=pl.Boolean))


def _adherence_rows(made: Made, names: _Names, rng: np.random.Generator) -> Sequence[pl.DataFrame]:
    bench = made.bench
    has_rule = np.array([rule is not None for _, rule, _ in made.wordings])
    judges = pl.Series([JUDGE, RULES]).gather(has_rule[bench.shown_constraint].astype(int))
    parts = []
    for model in range(len(MODELS)):
        shown = np.flatnonzero(~made.plan.is_failed[model, bench.shown_instance])
        instance = bench.shown_instance[shown]
        parts.append(
            _verdicts(
                names.response(np.full(len(shown), model), instance),
                "adherence",
                names.shown.gather(shown),
                judges.gather(shown),
                made.adherence.is_met[model, shown],
                made.plan.is_adherence_lost[model, shown],
                rng,
                _triggers(made, shown),
            )
        )
    return parts


def _criterion_rows(made: Made, names: _Names, rng: np.random.Generator) -> Sequence[pl.DataFrame]:
    parts = []
    for mode, criterion in ((1, "rejection"), (2, "conflict")):
        there = ~made.plan.is_failed & (made.bench.instance_mode == mode)
        model, instance = np.nonzero(there)
        response = names.response(model, instance)
        shown = made.behaviour.is_shown[there]
        lost = made.plan.is_criterion_lost[there]
        parts.append(_verdicts(response, criterion, response, JUDGE, shown, lost, rng))
    return parts


def _claim_rows(made: Made, names: _Names, rng: np.random.Generator) -> Sequence[pl.DataFrame]:
    claims = made.claims
    model, claim = np.nonzero(~made.plan.is_failed[:, claims.instance])
    ids = _claim_ids(names.instance.gather(claims.instance), claims.number)
    own = names.response(claims.own_model, claims.own_instance)
    return [
        _verdicts(
            names.response(model, claims.instance[claim]),
            "coverage",
            ids.gather(claim),
            JUDGE,
            claims.is_covered[model, claim],
            claims.is_lost[model, claim],
            rng,
        ),
        _verdicts(
            own,
            "faithfulness",
            _claim_ids(own, claims.own_number),
            JUDGE,
            claims.own_is_supported,
            claims.own_is_lost,
            rng,
        ),
    ]


def _evidence(seed: int, made: Made, names: _Names) -> pl.DataFrame:
    """Why each rejection verdict is what it is: a disclaimer before an answer is told apart."""
    there = ~made.plan.is_failed & ~made.plan.is_criterion_lost & (made.bench.instance_mode == 1)
    model, instance = np.nonzero(there)
    response = names.response(model, instance)
    return pl.DataFrame(
        {
            "response_id": response,
            "criterion": ["rejection"] * len(response),
            "target_id": response,
            "judge": [JUDGE] * len(response),
            "reason": pl.Series(list(GAP_TEXTS)).gather(_gap_kinds(seed, made)[there]),
        }
    )
