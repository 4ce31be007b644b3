"""Random studies with everything that can be missing missing somewhere."""

from __future__ import annotations

import atexit
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

import ragbench
from ragbench import taxonomy

Rows = dict[str, list[dict[str, Any]]]

MODELS = (
    {"model": "sim/“o'neil\" --; DROP TABLE x", "label": "甲", "family": "f", "is_open": True},
    {"model": "b", "label": None, "family": "f", "is_open": False},
    {"model": "C d/é\n2", "label": "丙", "family": None, "is_open": None},
)
DOMAINS = (None, "Legal", "医疗", "O'Brien; --")
DIMENSIONS = ("role", "format", "citation", "knowledge_gap", "knowledge_gap", "our own")
MODES = ("gap", "gap", "conflict", "noise", "open")
JUDGES = (
    {"judge": "rules@1", "kind": "rule"},
    {"judge": "rules@2", "kind": "rule"},
    {"judge": "kimi", "kind": "llm"},
    {"judge": "gpt?", "kind": "llm"},
    {"judge": "人", "kind": "human"},
)
OWN_CRITERIA = (
    {"criterion": "tone", "target": "response", "lowest": 1.0, "highest": 5.0},
    {"criterion": "polite", "target": "response", "lowest": 0.0, "highest": 1.0},
)


def draw(seed: int, *, completeness: float | None = None) -> Rows:
    """The rows of a small study: all relations the metrics read, every row with its origin."""
    rng = random.Random(seed)
    present = completeness if completeness is not None else rng.choice((0.8, 0.95, 1.0))
    study: Rows = {name: [] for name in _RELATIONS}
    study["models"] = [{**row, "params_b": rng.choice((7.0, None))} for row in MODELS]
    study["judges"] = [row for row in JUDGES if rng.random() < 0.7] or [JUDGES[2]]
    study["dimensions"] = [
        {"dimension": entry.key, "category": entry.category} for entry in taxonomy.DIMENSIONS
    ] + [{"dimension": "our own", "category": "additional"}]
    study["criteria"] = [
        {"criterion": c.key, "target": c.target, "lowest": c.lowest, "highest": c.highest}
        for c in taxonomy.CRITERIA
    ] + [dict(row) for row in OWN_CRITERIA]
    for number in range(rng.randint(2, 7)):
        _add_query(rng, study, f"q{number}")
    _add_wanted(rng, study)
    second = rng.choice(("measured", "recorded"))
    for response in study["responses"]:
        for judge in study["judges"]:
            if rng.random() < 0.9:
                _judge(rng, study, response, judge, present, second)
    for rows in study.values():
        rng.shuffle(rows)
    return study


_RELATIONS = (
    *("models", "judges", "dimensions", "criteria", "queries", "constraints", "instances"),
    *("instance_constraints", "verifications", "wanted", "responses", "claims", "judgments"),
)


def _add_query(rng: random.Random, study: Rows, query: str) -> None:
    study["queries"].append(
        {"query_id": query, "domain": rng.choice(DOMAINS), "language": "zh", "benchmark": None}
    )
    constraints = [
        {
            "constraint_id": f"{query}.c{i}",
            "query_id": query,
            "dimension": rng.choice(DIMENSIONS),
            "rule": rng.choice((None, "no_emoji")),
        }
        for i in range(rng.randint(0, 5))
    ]
    study["constraints"] += constraints
    for variant in range(rng.choice((1, 1, 2, 3))):
        instance = f"{query}-{variant}"
        study["instances"].append(
            {
                "instance_id": instance,
                "query_id": query,
                "context_mode": rng.choice(MODES),
                "variant": rng.choice((None, str(variant))),
                "is_augmented": rng.choice((None, True, False)),
            }
        )
        shown = [c for c in constraints if rng.random() < 0.85]
        study["instance_constraints"] += [
            {"instance_id": instance, "ordinal": i, "constraint_id": c["constraint_id"]}
            for i, c in enumerate(shown)
        ]
        if rng.random() < 0.2:
            study["verifications"].append(
                {
                    "instance_id": instance,
                    "check": "fit",
                    "judge": "人",
                    "passed": rng.random() < 0.5,
                }
            )
        for kind in ("core", "supplementary"):
            for i in range(rng.choice((0, 0, 1, 3))):
                study["claims"].append(
                    {
                        "claim_id": f"{instance}.{kind}{i}",
                        "instance_id": instance,
                        "response_id": None,
                        "kind": kind,
                        "extractor": rng.choice((None, None, "kimi")),
                    }
                )


def _add_wanted(rng: random.Random, study: Rows) -> None:
    models = [row["model"] for row in MODELS[: rng.randint(1, 3)]]
    settings = ["given_context", "closed book"][: rng.randint(1, 2)]
    trials = range(rng.choice((1, 1, 2)))
    for instance in [row["instance_id"] for row in study["instances"]]:
        for model, setting, trial in [(m, s, t) for m in models for s in settings for t in trials]:
            if rng.random() < 0.1:
                continue
            wanted = {
                "instance_id": instance,
                "model": model,
                "setting": setting,
                "trial": trial,
                "origin": "recorded",
            }
            study["wanted"].append(wanted)
            if rng.random() < 0.1:
                continue
            key = f"{instance}/{model}/{setting}/{trial}"
            is_failed = rng.random() < 0.1
            study["responses"].append(
                {
                    **wanted,
                    "response_id": key,
                    "text": None if is_failed else "答",
                    "error": "timeout" if is_failed else None,
                }
            )
            for i in range(rng.choice((0, 0, 2))):
                study["claims"].append(
                    {
                        "claim_id": f"{key}.{i}",
                        "instance_id": instance,
                        "response_id": key,
                        "kind": "response",
                        "extractor": rng.choice((None, "kimi")),
                    }
                )


def _judge(
    rng: random.Random,
    study: Rows,
    response: dict[str, Any],
    judge: dict[str, Any],
    present: float,
    second: str,
) -> None:
    """Verdicts of one judge on one response: of every kind, some missing, some errors."""
    instance = next(
        row for row in study["instances"] if row["instance_id"] == response["instance_id"]
    )
    skill = rng.choice((0.5, 0.9, 1.0))

    def add(criterion: str, target: str, score: float, is_triggered: bool | None = None) -> None:
        for repeat in range(1 if rng.random() < 0.8 else 2):
            if rng.random() > present:
                continue
            is_error = rng.random() > present
            study["judgments"].append(
                {
                    "response_id": response["response_id"],
                    "criterion": criterion,
                    "target_id": target,
                    "judge": judge["judge"],
                    "repeat": repeat,
                    "score": None if is_error else score,
                    "error": "unparsed" if is_error else None,
                    "is_triggered": is_triggered,
                    "origin": rng.choice(("recorded", second)),
                }
            )

    for constraint in study["constraints"]:
        if constraint["query_id"] == instance["query_id"] and (
            judge["kind"] != "rule" or constraint["rule"] or rng.random() < 0.1
        ):
            score = float(rng.random() < skill)
            is_triggered = rng.choice((None, True, False)) if score else rng.choice((None, True))
            add("adherence", constraint["constraint_id"], score, is_triggered)
    asked = ["rejection"] * (instance["context_mode"] == "gap")
    asked += ["conflict"] * (instance["context_mode"] == "conflict" or rng.random() < 0.05)
    asked += ["polite"] * (rng.random() < 0.5)
    for criterion in asked if judge["kind"] != "rule" else []:
        add(criterion, response["response_id"], float(rng.random() < skill))
    if judge["kind"] == "human":
        add("tone", response["response_id"], rng.choice((1.0, 2.5, 5.0)))
    for claim in study["claims"] if judge["kind"] == "llm" else []:
        if claim["response_id"] == response["response_id"]:
            add("faithfulness", claim["claim_id"], float(rng.random() < skill))
        elif claim["response_id"] is None and claim["instance_id"] == response["instance_id"]:
            add("coverage", claim["claim_id"], float(rng.random() < skill))


def store(path: Path, study: Rows) -> duckdb.DuckDBPyConnection:
    """A connection to `study` as a file: the verdicts of a second origin in a second append."""
    by_relation = {
        name: [{k: v for k, v in row.items() if k != "origin"} for row in rows]
        for name, rows in study.items()
    }
    origins = sorted({row["origin"] for row in study["judgments"]} - {"recorded"})
    for origin in ("recorded", *origins):
        by_relation["judgments"] = [
            {k: v for k, v in row.items() if k != "origin"}
            for row in study["judgments"]
            if row["origin"] == origin
        ]
        frames = by_relation if origin == "recorded" else {"judgments": by_relation["judgments"]}
        ragbench.append(path, {k: v for k, v in frames.items() if v}, origin=origin)
    return ragbench.connect(path)


@cache
def stored(seed: int) -> tuple[Rows, duckdb.DuckDBPyConnection]:
    """A random study and a connection to it, made once and shared by tests that only read."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    study = draw(seed)
    return study, store(Path(folder.name) / "study.duckdb", study)


POOL = (14, 41, 42, 51)
"""Seeds of studies with much in them: versions of rules, trials, errors, checks that failed, …"""


def plain(
    path: Path,
    responses: list[dict[str, Any]],
    *,
    judge: str = "kimi",
    kind: str = "llm",
    dimensions: tuple[str, ...] = (),
    rules: tuple[str | None, ...] = (),
) -> duckdb.DuckDBPyConnection:
    """A study from one line per response: its `query`, and one of `verdicts` per constraint.

    A verdict is 1, 0, "untriggered", "error" or None (not judged). Optional: `instance`, `mode`,
    `domain`, `model`, `setting`, `trial`, `error` of the response, and further criteria in `more`.
    Every instance of a query has the query's constraints, as many as its longest line.
    """
    study: Rows = {name: [] for name in _RELATIONS if name != "dimensions" and name != "wanted"}
    study["judges"].append({"judge": judge, "kind": kind})
    seen: dict[str, set[Any]] = {"queries": set(), "instances": set(), "shown": set()}
    for line in responses:
        query = str(line["query"])
        mode = line.get("mode", "noise")
        instance = str(line.get("instance", f"{query}-{mode}"))
        if query not in seen["queries"]:
            seen["queries"].add(query)
            study["queries"].append({"query_id": query, "domain": line.get("domain")})
        if instance not in seen["instances"]:
            seen["instances"].add(instance)
            study["instances"].append(
                {"instance_id": instance, "query_id": query, "context_mode": mode}
            )
        parts = {
            "instance_id": instance,
            "model": line.get("model", "m"),
            "setting": line.get("setting", "given_context"),
            "trial": line.get("trial", 0),
        }
        study["responses"].append({**parts, "text": "…", "error": line.get("error")})
        key = "/".join(str(part) for part in parts.values())
        for i, verdict in enumerate(line.get("verdicts", ())):
            constraint = f"{query}.c{i}"
            if (instance, i) not in seen["shown"]:
                seen["shown"].add((instance, i))
                study["instance_constraints"].append(
                    {"instance_id": instance, "ordinal": i, "constraint_id": constraint}
                )
                study["constraints"].append(
                    {
                        "constraint_id": constraint,
                        "query_id": query,
                        "dimension": dimensions[i] if dimensions else "role",
                        "rule": rules[i] if rules else None,
                    }
                )
            _give(study, key, "adherence", constraint, judge, verdict)
        for criterion, verdict in line.get("more", {}).items():
            _give(study, key, criterion, key, judge, verdict)
    known = {row["constraint_id"]: row for row in study["constraints"]}
    study["constraints"] = list(known.values())
    ragbench.append(path, {name: rows for name, rows in study.items() if rows})
    return ragbench.connect(path)


def _give(
    study: Rows, response: str, criterion: str, target: str, judge: str, verdict: Any
) -> None:
    if verdict is None:
        return
    row = {
        "response_id": response,
        "criterion": criterion,
        "target_id": target,
        "judge": judge,
        "score": 1.0 if verdict == "untriggered" else verdict,
        "is_triggered": False if verdict == "untriggered" else None,
        "error": None,
    }
    if verdict == "error":
        row |= {"score": None, "error": "unparsed"}
    study["judgments"].append(row)
