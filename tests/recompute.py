"""Every number of `scores`, `constraint_scores`, `paired` and `independence`, computed again.

Plain Python over lists of rows, written from the definitions of the metrics and not from
`scores.sql`: verdicts are looked up one by one, and bounds are found by trying every way in which
the missing verdicts could have turned out.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from functools import cache
from typing import Any, NamedTuple

from scipy import stats

Study = dict[str, list[dict[str, Any]]]

# How a missing verdict may turn out: (is satisfied, its condition held).
OUTCOMES = ((False, True), (True, True), (True, False))


class Verdict(NamedTuple):
    """One constraint of one response: what kind it is, and how it was judged (None: not)."""

    dimension: str
    has_rule: bool
    outcome: tuple[bool, bool] | None = None
    is_error: bool = False


class Response(NamedTuple):
    """A response that was asked for, as one panel sees it."""

    row: dict[str, Any]  # everything it can be grouped by
    is_answered: bool
    is_failed: bool
    origins: frozenset[str]
    verdicts: tuple[Verdict, ...]
    constraints: tuple[dict[str, Any], ...]
    criteria: dict[str, tuple[float | None, float, float]]  # value, lowest, highest
    criterion_errors: int


# ---------------------------------------------------------------- definitions


def loose(verdicts: list[Verdict]) -> float | None:
    return _share([v.outcome[0] for v in verdicts])


def strict(verdicts: list[Verdict]) -> float | None:
    return float(all(v.outcome[0] for v in verdicts)) if verdicts else None


def _share(flags: list[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None


def triggered(verdicts: list[Verdict]) -> list[Verdict]:
    return [v for v in verdicts if v.outcome[1]]


def by_rule(verdicts: list[Verdict]) -> list[Verdict]:
    return [v for v in verdicts if v.has_rule]


def refusal_exempt(verdicts: list[Verdict], mode: str | None) -> float | None:
    """Strict, but format and citation are freed when the gap protocol was rightly followed."""
    protocol = [v for v in verdicts if v.dimension == "knowledge_gap"]
    followed = mode == "gap" and protocol and all(v.outcome == (True, True) for v in protocol)
    counted = [v for v in verdicts if not (followed and v.dimension in ("format", "citation"))]
    return float(all(v.outcome[0] for v in counted)) if verdicts else None


def metric(name: str, verdicts: list[Verdict], mode: str | None) -> float | None:
    """One metric of one response all of whose verdicts are known."""
    return {
        "loose_ias": lambda: loose(verdicts),
        "strict_ias": lambda: strict(verdicts),
        "loose_ias_triggered": lambda: loose(triggered(verdicts)),
        "strict_ias_triggered": lambda: strict(triggered(verdicts)),
        "strict_ias_refusal_exempt": lambda: refusal_exempt(verdicts, mode),
        "loose_rules": lambda: loose(by_rule(verdicts)),
        "strict_rules": lambda: strict(by_rule(verdicts)),
    }[name]()


@cache
def value_and_bounds(
    name: str, verdicts: tuple[Verdict, ...], mode: str | None
) -> tuple[float | None, float | None, float | None]:
    """A metric of a response: null unless all it needs was judged; least and most it could be."""
    needed = by_rule(list(verdicts)) if name.endswith("_rules") else list(verdicts)
    choices = [[v.outcome] if v.outcome else OUTCOMES for v in needed]
    possible = [
        metric(name, [v._replace(outcome=o) for v, o in zip(needed, combined, strict=True)], mode)
        for combined in itertools.product(*choices)
    ]
    reached = [value for value in possible if value is not None]
    if not reached:
        return None, None, None
    is_complete = all(v.outcome for v in needed)
    return (possible[0] if is_complete else None), min(reached), max(reached)


def coverage(met: list[tuple[str, bool]]) -> float:
    """Core claims weigh 0.7 and supplementary ones 0.3; with one kind only, that kind alone."""
    shares = {
        kind: sum(flags) / len(flags)
        for kind in ("core", "supplementary")
        if (flags := [is_met for of, is_met in met if of == kind])
    }
    if len(shares) == 1:
        return next(iter(shares.values()))
    return 0.7 * shares["core"] + 0.3 * shares["supplementary"]


def faithfulness(met: list[tuple[str, bool]]) -> float:
    return sum(is_met for _, is_met in met) / len(met)


# ---------------------------------------------------------------- responses under a panel


def panels(study: Study) -> dict[str, tuple[str, str]]:
    """Judge of the constraints that no rule checks, and of those that a rule checks, by panel."""
    sets = [row["judge"] for row in study["judges"] if row["kind"] == "rule"]
    found = {judge: (judge, judge) for judge in sets}
    for row in study["judges"]:
        if row["kind"] != "rule":
            judge = row["judge"]
            if sets:
                found |= {f"{judge} + {rules}": (judge, rules) for rules in sets}
            else:
                found[judge] = (judge, judge)
    return found


def _index(rows: list[dict[str, Any]], key: str) -> dict[Any, dict[str, Any]]:
    return {row[key]: row for row in rows}


def responses(study: Study, panel: str) -> list[Response]:
    """Every response wanted of a live instance, with the verdicts of `panel`."""
    judge, rules = panels(study)[panel]
    queries = _index(study["queries"], "query_id")
    instances = _index(study["instances"], "instance_id")
    constraints = _index(study["constraints"], "constraint_id")
    models = _index(study["models"], "model")
    made = _index(study["responses"], "response_id")
    failed_checks = {row["instance_id"] for row in study["verifications"] if not row["passed"]}
    shown = defaultdict(list)
    for row in sorted(study["instance_constraints"], key=lambda row: row["ordinal"]):
        shown[row["instance_id"]].append(constraints[row["constraint_id"]])
    given = {
        (row["response_id"], row["criterion"], row["target_id"], row["judge"]): row
        for row in study["judgments"]
        if row["repeat"] == 0
    }
    graded = _graded(study)
    result = []
    for want in study["wanted"]:
        if want["instance_id"] in failed_checks:
            continue
        instance = instances[want["instance_id"]]
        key = "/".join([want["instance_id"], want["model"], want["setting"], str(want["trial"])])
        response = made.get(key)
        is_answered = response is not None and response["error"] is None
        seen = given if is_answered else {}
        verdicts, origins = [], {(response or want)["origin"]}
        for constraint in shown[want["instance_id"]]:
            by = rules if constraint["rule"] is not None else judge
            row = seen.get((key, "adherence", constraint["constraint_id"], by))
            verdicts.append(_verdict(constraint, row))
            origins |= {row["origin"]} if row else set()
        scored, errors, more = _criteria(study, graded, want, key, judge, seen)
        result.append(
            Response(
                queries[instance["query_id"]]
                | {k: v for k, v in instance.items() if k != "query_id"}
                | models[want["model"]]
                | {"setting": want["setting"], "trial": want["trial"], "panel": panel}
                | {"response_id": key},
                is_answered,
                response is not None and response["error"] is not None,
                frozenset(origins | more),
                tuple(verdicts),
                tuple(shown[want["instance_id"]]),
                scored,
                errors,
            )
        )
    return result


def _verdict(constraint: dict[str, Any], row: dict[str, Any] | None) -> Verdict:
    kind = (constraint["dimension"], constraint["rule"] is not None)
    if row is None:
        return Verdict(*kind)
    if row["score"] is None:
        return Verdict(*kind, is_error=True)
    return Verdict(*kind, (row["score"] == 1, row["is_triggered"] is not False))


def _criteria(
    study: Study,
    graded: set[tuple[str, str]],
    want: dict[str, Any],
    key: str,
    judge: str,
    seen: dict[Any, dict[str, Any]],
) -> tuple[dict[str, tuple[float | None, float, float]], int, set[str]]:
    """Values and bounds of the criteria that apply to a response, its errors, their origins."""
    found: dict[str, tuple[float | None, float, float]] = {}
    errors, origins = 0, set()
    for criterion, row in _index(study["criteria"], "criterion").items():
        if row["target"] == "response" and (want["instance_id"], criterion) in graded:
            verdict = seen.get((key, criterion, key, judge))
            score = verdict["score"] if verdict else None
            errors += bool(verdict) and score is None
            origins |= {verdict["origin"]} if verdict else set()
            known = (score, score, score)
            found[criterion] = (None, row["lowest"], row["highest"]) if score is None else known
    for criterion, rule in (("coverage", coverage), ("faithfulness", faithfulness)):
        claims = _claims(study, criterion, want["instance_id"], key, judge)
        if claims:
            rows = [seen.get((key, criterion, claim["claim_id"], judge)) for claim in claims]
            errors += sum(1 for row in rows if row and row["score"] is None)
            origins |= {row["origin"] for row in rows if row}
            worst, best = (
                [
                    (claim["kind"], (row["score"] if row and row["error"] is None else rest) == 1)
                    for claim, row in zip(claims, rows, strict=True)
                ]
                for rest in (0, 1)
            )
            is_complete = all(row and row["score"] is not None for row in rows)
            low, high = rule(worst), rule(best)
            found[criterion] = (low if is_complete else None, low, high)
        elif criterion == "faithfulness" and _others_claim(study, want["instance_id"], judge):
            found[criterion] = (None, 0.0, 1.0)
    return found, errors, origins


def _graded(study: Study) -> set[tuple[str, str]]:
    """Instances and the criteria that apply: by their mode, or because anybody used them."""
    by_mode = {"gap": "rejection", "conflict": "conflict"}
    instance_of = {row["response_id"]: row["instance_id"] for row in study["responses"]}
    return {
        (row["instance_id"], by_mode[row["context_mode"]])
        for row in study["instances"]
        if row["context_mode"] in by_mode
    } | {(instance_of[row["response_id"]], row["criterion"]) for row in study["judgments"]}


def _claims(
    study: Study, criterion: str, instance_id: str, key: str, judge: str
) -> list[dict[str, Any]]:
    mode = _index(study["instances"], "instance_id")[instance_id]["context_mode"]
    own = [row for row in study["claims"] if row["extractor"] in (None, judge)]
    if criterion == "faithfulness":
        return [row for row in own if row["kind"] == "response" and row["response_id"] == key]
    if mode == "gap":
        return []
    return [row for row in own if row["kind"] != "response" and row["instance_id"] == instance_id]


def _others_claim(study: Study, instance_id: str, judge: str) -> bool:
    return any(
        row["kind"] == "response"
        and row["instance_id"] == instance_id
        and row["extractor"] in (None, judge)
        for row in study["claims"]
    )


# ---------------------------------------------------------------- means, bounds, intervals


class Part(NamedTuple):
    """What one response or constraint gives to a mean."""

    query: str
    value: float | None
    lowest: float
    highest: float
    weight: float = 1


def summary(
    parts: list[Part], is_binary: bool, limits: tuple[float, float] = (0.0, 1.0)
) -> dict[str, Any]:
    """Mean, n, planned, bounds and interval of the parts to which a metric applies."""
    if not parts:
        return {
            "n": 0,
            "planned": 0,
            "value": None,
            "lowest": None,
            "highest": None,
        } | dict.fromkeys(("low", "high", "interval"))
    planned = sum(part.weight for part in parts)
    known = [part for part in parts if part.value is not None]
    n = sum(part.weight for part in known)
    value = math.fsum(part.value * part.weight for part in known) / n if known else None
    low, high, kind = interval(known, value, is_binary, limits)
    return {
        "value": value,
        "n": n,
        "planned": planned,
        "low": low,
        "high": high,
        "lowest": math.fsum(part.lowest * part.weight for part in parts) / planned,
        "highest": math.fsum(part.highest * part.weight for part in parts) / planned,
        "interval": kind,
    }


def interval(
    known: list[Part], mean: float | None, is_binary: bool, limits: tuple[float, float]
) -> tuple[float | None, float | None, str | None]:
    if mean is None:
        return None, None, None
    by_query = defaultdict(list)
    for part in known:
        by_query[part.query].append(part)
    groups = len(by_query)
    if is_binary and all(len(parts) == 1 for parts in by_query.values()):
        return (*wilson(round(sum(part.value for part in known)), len(known)), "Wilson")
    if groups == 1:
        return None, None, "none: one query"
    residuals = [
        math.fsum(part.weight * (part.value - mean) for part in parts)
        for parts in by_query.values()
    ]
    error = math.sqrt(groups / (groups - 1) * math.fsum(e * e for e in residuals))
    error /= sum(part.weight for part in known)
    if error < 1e-9:
        if is_binary or (limits == (0, 1) and mean in (0, 1)):
            return (*wilson(mean * groups, groups), "Wilson over queries")
        return None, None, "none: all queries alike"
    reach = stats.t.ppf(0.975, groups - 1) * error
    return max(limits[0], mean - reach), min(limits[1], mean + reach), "clustered by query"


def wilson(successes: float, n: int) -> tuple[float, float]:
    """The two rates p at which (successes / n - p) is 1.96 standard errors of p."""
    z2 = stats.norm.ppf(0.975) ** 2
    share = successes / n
    a, b, c = 1 + z2 / n, -(2 * share + z2 / n), share * share
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return max(0.0, (-b - root) / (2 * a)), min(1.0, (-b + root) / (2 * a))


# ---------------------------------------------------------------- tables

BINARY = ("strict_ias", "strict_ias_triggered", "strict_ias_refusal_exempt", "strict_rules")
METRICS = ("loose_ias", *BINARY, "loose_ias_triggered", "loose_rules")


def chosen(
    study: Study, by: tuple[str, ...], where: dict[str, Any], panel: str | None
) -> list[Response]:
    """The responses a table is about: of one panel, or of all when panels are compared."""
    names = panels(study) if panel is None and "panel" in by else [panel]
    rows = [response for name in names for response in responses(study, name)]
    return [response for response in rows if fits(response.row, where)]


def fits(row: dict[str, Any], where: dict[str, Any]) -> bool:
    return all(
        row[name] in (value if isinstance(value, list) else [value])
        for name, value in where.items()
    )


def grouped(rows: list[Any], by: tuple[str, ...], row_of: Any) -> dict[tuple[Any, ...], list[Any]]:
    groups = defaultdict(list)
    for row in rows:
        groups[tuple(row_of(row)[name] for name in by)].append(row)
    return dict(groups) or ({(): []} if not by else {})


def criteria_limits(study: Study) -> dict[str, tuple[float, float]]:
    return {
        row["criterion"]: (row["lowest"], row["highest"])
        for row in study["criteria"]
        if row["target"] == "response" or row["criterion"] in ("coverage", "faithfulness")
    }


def yes_no_criteria(study: Study) -> set[str]:
    """Criteria of whole responses from 0 to 1 that were never given anything between."""
    between = {
        name
        for panel in panels(study)
        for response in responses(study, panel)
        for name, (value, _, _) in response.criteria.items()
        if value not in (None, 0, 1)
    }
    return {
        row["criterion"]
        for row in study["criteria"]
        if row["target"] == "response" and (row["lowest"], row["highest"]) == (0, 1)
    } - between


def scores(
    study: Study, by: tuple[str, ...], where: dict[str, Any], panel: str | None
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What `ragbench.scores` should give: by group, every column but the panel."""
    yes_no, limits = yes_no_criteria(study), criteria_limits(study)
    table = {}
    for group, rows in grouped(chosen(study, by, where, panel), by, lambda r: r.row).items():
        row = ledger(rows)
        for name in METRICS:
            parts = []
            for r in rows:
                value, low, high = value_and_bounds(name, r.verdicts, r.row["context_mode"])
                if low is not None:
                    parts.append(Part(r.row["query_id"], value, low, high))
            row |= columns(name, summary(parts, name in BINARY))
        pooled = [
            Part(r.row["query_id"], v, low, high, len(r.verdicts))
            for r in rows
            if r.verdicts
            for v, low, high in [value_and_bounds("loose_ias", r.verdicts, None)]
        ]
        row |= columns("loose_pooled", summary(pooled, False))
        for name, ends in limits.items():
            parts = [Part(r.row["query_id"], *r.criteria[name]) for r in rows if name in r.criteria]
            row |= columns(name, summary(parts, name in yes_no, ends))
        table[group] = row
    return table


def columns(name: str, detail: dict[str, Any]) -> dict[str, Any]:
    return {name: detail["value"]} | {
        f"{name}_{part}": value for part, value in detail.items() if part != "value"
    }


def state(response: Response) -> str:
    """Where a response is: judged, an error, or pending."""
    if response.is_failed:
        return "error"
    if response.verdicts:
        if all(v.outcome for v in response.verdicts):
            return "judged"
        return "error" if any(v.is_error for v in response.verdicts) else "pending"
    if response.criterion_errors:
        return "error"
    values = [value for value, _, _ in response.criteria.values()]
    return "judged" if any(value is not None for value in values) else "pending"


def ledger(rows: list[Response]) -> dict[str, Any]:
    states = [state(row) for row in rows]
    return {
        "origin": ", ".join(sorted(set().union(*(row.origins for row in rows)))),
        "planned": len(rows),
        "answered": sum(row.is_answered for row in rows),
        "judged": states.count("judged"),
        "errors": states.count("error"),
    }


def constraint_scores(
    study: Study, by: tuple[str, ...], where: dict[str, Any], panel: str | None
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What `ragbench.constraint_scores` should give."""
    categories = {row["dimension"]: row["category"] for row in study["dimensions"]}
    pairs = [
        (
            response,
            verdict,
            response.row
            | constraint
            | {"category": categories[constraint["dimension"]]}
            | {"query_id": response.row["query_id"]},
        )
        for response in chosen(study, by, {}, panel)
        for constraint, verdict in zip(response.constraints, response.verdicts, strict=True)
    ]
    pairs = [pair for pair in pairs if fits(pair[2], where)]
    table = {}
    for group, rows in grouped(pairs, by, lambda pair: pair[2]).items():
        parts, held = [], []
        for response, verdict, _ in rows:
            query = response.row["query_id"]
            met = None if verdict.outcome is None else float(verdict.outcome[0])
            part = Part(query, met, *((0, 1) if met is None else (met, met)))
            parts.append(part)
            if verdict.outcome is None or verdict.outcome[1]:
                held.append(part)
        origins = set().union(*(response.origins for response, _, _ in rows))
        table[group] = {
            "origin": ", ".join(sorted(origins)),
            "planned": len(rows),
            "judged": sum(verdict.outcome is not None for _, verdict, _ in rows),
            "errors": sum(verdict.is_error for _, verdict, _ in rows),
            **columns("adherence", summary(parts, True)),
            **columns("adherence_triggered", summary(held, True)),
        }
    return table


def independent_rate(rows: list[Response]) -> float:
    """Mean over responses of the product of the rates of their constraints' dimensions."""
    met = defaultdict(list)
    for response in rows:
        for verdict in response.verdicts:
            met[verdict.dimension].append(verdict.outcome[0])
    rates = {dimension: sum(flags) / len(flags) for dimension, flags in met.items()}
    return sum(math.prod(rates[v.dimension] for v in r.verdicts) for r in rows) / len(rows)


def independence(
    study: Study, by: tuple[str, ...], where: dict[str, Any], panel: str
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What `ragbench.independence` should give, the jackknife as a loop over queries."""
    complete = [
        response
        for response in chosen(study, by, where, panel)
        if response.verdicts and all(v.outcome for v in response.verdicts)
    ]
    table = {}
    for group, rows in grouped(complete, by, lambda r: r.row).items():
        if not rows:
            continue
        value = independent_rate(rows)
        names = sorted({r.row["query_id"] for r in rows})
        row: dict[str, Any] = {"n": len(rows), "independent": value}
        row["strict_ias"] = sum(strict(list(r.verdicts)) for r in rows) / len(rows)
        row |= {"independent_low": None, "independent_high": None}
        if len(names) > 1:
            left_out = [
                independent_rate([r for r in rows if r.row["query_id"] != name]) for name in names
            ]
            middle = sum(left_out) / len(names)
            spread = sum((one - middle) ** 2 for one in left_out) * (len(names) - 1) / len(names)
            if spread > 1e-20:
                reach = stats.t.ppf(0.975, len(names) - 1) * math.sqrt(spread)
                row["independent_low"] = max(0, value - reach)
                row["independent_high"] = min(1, value + reach)
        table[group] = row
    return table


def paired_values(
    study: Study, name: str, side: dict[str, Any], panel: str
) -> dict[tuple[Any, ...], tuple[str, float | None, float, float]]:
    """Query, mean value over trials, and mean bounds, by (instance, model, setting)."""
    units = defaultdict(list)
    for r in responses(study, panel):
        if not fits(r.row, side):
            continue
        if name in METRICS:
            found = value_and_bounds(name, r.verdicts, r.row["context_mode"])
        else:
            found = r.criteria.get(name, (None, None, None))
        if found[1] is not None:
            key = (r.row["instance_id"], r.row["model"], r.row["setting"])
            units[key].append((r.row["query_id"], *found))
    result = {}
    for key, trials in units.items():
        values = [value for _, value, _, _ in trials if value is not None]
        result[key] = (
            trials[0][0],
            sum(values) / len(values) if values else None,
            sum(low for _, _, low, _ in trials) / len(trials),
            sum(high for _, _, _, high in trials) / len(trials),
        )
    return result
