"""The conformance suite: cases of our own with expected verdicts, for any checker.

Each line of `data/rules_conformance.jsonl` holds a rule, its params, a text, the expected verdict
and why. Another checker takes part through one function of (rule, text, params, context) that
returns true, false, or None for a rule it does not have.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ragbench.errors import ImportFailed
from ragbench.judging.rules import check

__all__ = ["CASES", "cases", "ours", "run", "summary"]

Checker = Callable[[str, str, Mapping[str, Any], "str | None"], object]

CASES = Path(__file__).resolve().parents[2] / "data" / "rules_conformance.jsonl"


def cases(path: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Return the cases of the suite, from the checkout or from the file given."""
    file = Path(path) if path is not None else CASES
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ImportFailed(
            f"no conformance cases at {file}; give the path of rules_conformance.jsonl"
        ) from error
    return [json.loads(line) for line in lines if line.strip()]


def ours(rule: str, text: str, params: Mapping[str, Any], context: str | None) -> bool:
    """Return the verdict of this package, in the shape that `run` takes."""
    return bool(check(rule, text, params, context=context))


def run(checker: Checker = ours, path: str | os.PathLike[str] | None = None) -> pl.DataFrame:
    """Return one row per case: id, language, rule, expected, found, agrees, error, why.

    A case whose rule the checker does not have (None) has found and agrees null; a checker that
    raises has the error's text there and does not agree.
    """
    rows = []
    for case in cases(path):
        error = None
        try:
            verdict = checker(case["rule"], case["text"], case["params"], case.get("context"))
            found = None if verdict is None else bool(verdict)
        except Exception as raised:  # whatever another checker does, the run goes on
            found, error = None, f"{type(raised).__name__}: {raised}"[:200]
        agrees = found == case["expected"] if found is not None else (False if error else None)
        kept = {key: case[key] for key in ("id", "language", "rule", "expected")}
        rows.append({**kept, "found": found, "agrees": agrees, "error": error, "why": case["why"]})
    return pl.DataFrame(rows, schema=_COLUMNS)


_COLUMNS = {
    "id": pl.String,
    "language": pl.String,
    "rule": pl.String,
    "expected": pl.Boolean,
    "found": pl.Boolean,
    "agrees": pl.Boolean,
    "error": pl.String,
    "why": pl.String,
}


def summary(results: pl.DataFrame) -> pl.DataFrame:
    """Return cases, judged, agreed and errors per rule and language, sorted by both."""
    return (
        results.group_by("rule", "language")
        .agg(
            pl.len().alias("cases"),
            pl.col("agrees").is_not_null().sum().alias("judged"),
            pl.col("agrees").sum().alias("agreed"),
            pl.col("error").is_not_null().sum().alias("errors"),
        )
        .sort("rule", "language")
    )
