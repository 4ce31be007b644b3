"""Problems of constraints before anything is judged, and verdicts that mean nothing after."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from ragbench.errors import BadConstraint
from ragbench.judging import blocks
from ragbench.judging import text as measure
from ragbench.judging.numerals import bounds_stated, numbers_stated, vague_quantity
from ragbench.judging.registry import RULES, argument_problems, check, parameters

__all__ = ["degenerate", "refuse_bad", "validate_constraints"]

_PROBLEMS = {"constraint_id": pl.String, "problem": pl.String, "remedy": pl.String}
Problem = tuple[str, str]


def validate_constraints(constraints: pl.DataFrame) -> pl.DataFrame:
    """Return one row per problem, in the order given: constraint_id, problem, remedy.

    Taken are the columns constraint_id, text, rule (null where no rule checks) and params (JSON
    text or null). Found are unknown rules, missing, extra and ill-typed arguments, a text that
    states another number, bound or term than the arguments, and ids that occur twice.

    >>> rows = pl.DataFrame({"constraint_id": ["a"], "text": ["不超过300字"], "rule": ["length"],
    ...                      "params": ['{"unit": "characters", "at_most": 400}']})
    >>> validate_constraints(rows)["problem"].item()
    'the text states 300, the arguments have at_most 400'
    """
    missing = {"constraint_id", "rule", "params"} - set(constraints.columns)
    if missing:
        raise BadConstraint(
            f"constraints have no column {sorted(missing)[0]!r}; needed are constraint_id, rule "
            "and params, and text if it is to be compared"
        )
    found: list[dict[str, str]] = []
    seen: dict[object, int] = {}
    for place, row in enumerate(constraints.iter_rows(named=True), start=1):
        name = row["constraint_id"]
        shown = str(name) if name else f"row {place}"
        problems = list(_id_problems(name, place, seen))
        if row["rule"] is not None:
            problems += _rule_problems(row["rule"], row["params"], row.get("text"))
        found += [
            {"constraint_id": shown, "problem": problem, "remedy": remedy}
            for problem, remedy in problems
        ]
    return pl.DataFrame(found, schema=_PROBLEMS)


def refuse_bad(constraints: pl.DataFrame) -> None:
    """Raise where a rule or its arguments do not exist: such a constraint can never be judged.

    Raises:
        BadConstraint: names the first such constraint, and says how many there are.
    """
    found = [
        (row["constraint_id"], problem, remedy)
        for row in constraints.filter(pl.col("rule").is_not_null()).iter_rows(named=True)
        for problem, remedy in _rule_problems(row["rule"], row["params"], None)
    ]
    if found:
        name, problem, remedy = found[0]
        count = len({row[0] for row in found})
        many = f"{count} constraints cannot be checked; the first is " if count > 1 else ""
        raise BadConstraint(f"{many}{name}: {problem}. Remedy: {remedy}")


def _id_problems(name: object, place: int, seen: dict[object, int]) -> Iterator[Problem]:
    if not name:
        yield "no constraint_id", "give every constraint an id of its own"
    elif name in seen:
        yield (
            f"row {place} has the id of row {seen[name]}",
            "give one of the two another id: verdicts are told apart by it",
        )
    else:
        seen[name] = place


def _rule_problems(name: object, raw: object, text: str | None) -> list[Problem]:
    params, unreadable = _arguments(raw)
    if unreadable:
        return [(unreadable, 'write params as a JSON object, such as {"at_most": 300}')]
    problems = argument_problems(name, params)
    if problems:
        return [(problem, _remedy(name)) for problem in problems]
    if not text or not params:
        return []
    return [
        (problem, "make the text and the arguments state the same")
        for problem in _contradictions(text, params)
    ]


def _arguments(raw: object) -> tuple[dict[str, Any] | None, str]:
    if raw is None or isinstance(raw, Mapping):
        return (dict(raw) if raw is not None else None), ""
    try:
        value = json.loads(str(raw))
    except (ValueError, RecursionError) as error:
        return None, f"params are not JSON: {error}"
    if value is not None and not isinstance(value, dict):
        return None, f"params hold {str(raw)[:40]!r}, not an object of names and values"
    return value, ""


def _remedy(name: object) -> str:
    if not isinstance(name, str) or name not in RULES:
        return "name a rule of docs/rules.md, or leave rule empty for another judge"
    taken = [
        f"{one.name} ({one.kind}{'' if one.required else ', optional'})" for one in parameters(name)
    ]
    return f"{name} takes {'; '.join(taken) if taken else 'no arguments: use {}'}"


# --- Text against arguments.

_LOWER = (
    "at_least",
    "num_words",
    "num_sentences",
    "frequency",
    "let_frequency",
    "capital_frequency",
)


def _contradictions(text: str, params: Mapping[str, Any]) -> list[str]:
    """Return where the wording and the arguments state different things."""
    counts = {
        key: value
        for key, value in params.items()
        if isinstance(value, int) and not isinstance(value, bool)
    }
    wording = _without_terms(text, params)
    return [*_number_problems(wording, counts, params), *_term_problems(text, params)]


def _without_terms(text: str, params: Mapping[str, Any]) -> str:
    """Return the text without the terms it quotes, whose digits state no count."""
    bare = measure.fold(text)
    for term in sorted(_texts(params), key=len, reverse=True):
        if len(term) > 1 or not term.isalnum():
            bare = bare.replace(measure.fold(term), " ")
    return re.sub(r"[\"“「『《][^\"”」』》]*[\"”」』》]", " ", bare)


def _texts(params: Mapping[str, Any]) -> list[str]:
    values = [value for key, value in params.items() if key not in _CHOICES]
    flat = [part for value in values for part in (value if isinstance(value, list) else [value])]
    return [part for part in flat if isinstance(part, str) and part.strip()]


_CHOICES = {
    "unit", "match", "by", "of", "within", "code", "language", "relation", "let_relation",
    "capital_relation",
}  # fmt: skip


def _number_problems(
    wording: str, counts: Mapping[str, int], params: Mapping[str, Any]
) -> Iterator[str]:
    stated = numbers_stated(wording)
    if not counts:
        return
    if not stated:
        vague = vague_quantity(wording)
        if vague:
            told = ", ".join(f"{key} {value}" for key, value in counts.items())
            yield f"the text says {vague!r}, the arguments have {told}"
        return
    shown = ", ".join(str(number) for number in dict.fromkeys(stated))
    allowed = bounds_stated(wording)
    for key, value in counts.items():
        # One or none at least is what a wording without a lower bound means.
        if value in stated or (key.endswith("at_least") and value <= 1):
            side = _side(key, params)
            sides = {_SAME_SIDE[told] for number, told in allowed if number == value and told}
            if side and value in stated and sides and side not in sides and len(counts) == 1:
                yield f"the text states {value} as {sides.pop()}, the arguments have {key} {value}"
            continue
        if not any(_shifted(number, told, key, value) for number, told in allowed):
            yield f"the text states {shown}, the arguments have {key} {value}"


_SAME_SIDE = {"at least": "at least", "above": "at least", "at most": "at most", "below": "at most"}


def _side(key: str, params: Mapping[str, Any]) -> str:
    if key in ("at_least", "at_most"):
        return key.replace("_", " ")
    relation = next((params[name] for name in params if name.endswith("relation")), "")
    return "at least" if relation == "at least" else "at most" if relation else ""


def _shifted(number: int, told: str, key: str, value: int) -> bool:
    """Return whether a strict bound of the wording is meant: fewer than 300 is 299 at most."""
    if told == "below":
        return key == "at_most" and value == number - 1
    return told == "above" and key == "at_least" and value == number + 1


def _term_problems(text: str, params: Mapping[str, Any]) -> Iterator[str]:
    quoted = [quote for quote in blocks.quotations(text) if quote.strip()]
    terms = _texts(params)
    if not quoted or not terms:
        return
    folded = measure.fold(text).lower()
    if not any(measure.fold(term).strip().lower() in folded for term in terms):
        yield f"the text quotes {quoted[0]!r}, the arguments have {terms[0]!r}"


# --- Verdicts that mean nothing.

_FINDINGS = {
    "rule": pl.String,
    "constraint_id": pl.String,
    "problem": pl.String,
    "judged": pl.Int64,
    "passed": pl.Int64,
    "degenerate": pl.Int64,
}


def degenerate(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return the rules that never failed or never passed, and the constraints trivially satisfied.

    Taken are rows of verdicts with the columns rule, constraint_id and score (1, 0, or null for an
    error, which is left out). Whether a pass was trivial is read from a column is_degenerate, or
    found again from text and params where those are given. One row per finding: a rule with
    constraint_id null, or one constraint. Sorted by rule, then constraint.

    >>> rows = pl.DataFrame({"rule": ["no_emoji"] * 2, "constraint_id": ["a", "a"], "score": [1, 1],
    ...                      "text": ["好", ""], "params": ["{}", "{}"]})
    >>> degenerate(rows).select("constraint_id", "problem", "judged", "degenerate").rows()
    [(None, 'never failed', 2, 1), ('a', 'trivially satisfied', 2, 1)]
    """
    rows = _with_degenerate(verdicts).filter(pl.col("score").is_not_null())
    counts = (
        pl.len().cast(pl.Int64).alias("judged"),
        (pl.col("score") == 1).sum().cast(pl.Int64).alias("passed"),
        pl.col("is_degenerate").sum().cast(pl.Int64).alias("degenerate"),
    )
    rules = (
        rows.group_by("rule")
        .agg(*counts)
        .with_columns(
            pl.lit(None, pl.String).alias("constraint_id"),
            pl.when(pl.col("passed") == pl.col("judged"))
            .then(pl.lit("never failed"))
            .when(pl.col("passed") == 0)
            .then(pl.lit("never passed"))
            .alias("problem"),
        )
    )
    constraints = (
        rows.group_by("rule", "constraint_id")
        .agg(*counts)
        .with_columns(
            pl.when(pl.col("degenerate") > 0).then(pl.lit("trivially satisfied")).alias("problem")
        )
    )
    columns = [pl.col(name).cast(kind) for name, kind in _FINDINGS.items()]
    return (
        pl.concat([rules.select(columns), constraints.select(columns)])
        .filter(pl.col("problem").is_not_null())
        .sort("rule", "constraint_id", nulls_last=False)
    )


def _with_degenerate(verdicts: pl.DataFrame) -> pl.DataFrame:
    missing = {"rule", "constraint_id", "score"} - set(verdicts.columns)
    if missing:
        raise BadConstraint(f"the verdicts have no column {sorted(missing)[0]!r}")
    verdicts = verdicts.filter(pl.col("rule").is_not_null())
    if "is_degenerate" in verdicts.columns:
        return verdicts.with_columns(pl.col("is_degenerate").fill_null(value=False))
    if not {"text", "params"} <= set(verdicts.columns):
        return verdicts.with_columns(pl.lit(value=False).alias("is_degenerate"))
    flags = [_is_degenerate(row) for row in verdicts.iter_rows(named=True)]
    return verdicts.with_columns(pl.Series("is_degenerate", flags, dtype=pl.Boolean))


def _is_degenerate(row: Mapping[str, Any]) -> bool:
    if row["score"] != 1 or row["text"] is None:
        return False
    params, unreadable = _arguments(row["params"])
    try:
        return (
            not unreadable
            and check(row["rule"], row["text"], params, context=row.get("context")).degenerate
        )
    except BadConstraint:
        return False
