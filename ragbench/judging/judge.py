"""Judge responses: what is pending, one verdict each, straight into the study."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ragbench.errors import BadConstraint, RagbenchError
from ragbench.store import append, connect, step

RULES_VERSION = 1
"""Raised when a rule changes what it says about some text: another version is another judge."""


def judge(
    path: str | os.PathLike[str],
    judge: str = "rules",
    *,
    criteria: Sequence[str] | None = None,
    repeats: int = 1,
    where: Mapping[str, Any] | None = None,
    retry_errors: bool = False,
    origin: str = "measured",
) -> pl.DataFrame:
    """What was judged now, one row per rule: columns criterion, rule, judged, met, errors.

    Only verdicts that are not there yet are made, and each is stored at once, so a run may be
    stopped at any moment and called again. A rule that fails on a text gives an error row with
    the reason; the others go on.

    Args:
        judge: "rules", the rule set of this package (`rules/1` in the study).
        where: which responses, as in `scores`.
        retry_errors: ask again where the verdict is an error.

    Raises:
        BadConstraint: constraints name rules or arguments that do not exist; nothing is judged.
        RagbenchError: `judge` is not one that this version can ask.
    """
    if judge not in ("rules", rules_judge()):
        raise RagbenchError(
            f"no judge {judge!r}: this version judges with 'rules'. Verdicts of others come in "
            "through `ragbench import`."
        )
    return _judge_by_rules(path, criteria, repeats, where, retry_errors, origin)


def rules_judge() -> str:
    """The name of this package's rule set as a judge."""
    return f"rules/{RULES_VERSION}"


def _judge_by_rules(
    path: str | os.PathLike[str],
    criteria: Sequence[str] | None,
    repeats: int,
    where: Mapping[str, Any] | None,
    retry_errors: bool,
    origin: str,
) -> pl.DataFrame:
    from ragbench.checks import pending

    name = rules_judge()
    con = connect(path)
    constraints = con.sql("SELECT * FROM constraints WHERE rule IS NOT NULL").pl()
    _refuse_bad(constraints)
    todo = pending(
        con,
        "judge",
        judge=name,
        criteria=criteria or ["adherence"],
        repeats=repeats,
        where=where,
        retry_errors=retry_errors,
    )
    if todo.is_empty():
        return _report([])
    append(path, "judges", [{"judge": name, "kind": "rule"}], step="judge", origin=origin)
    verdicts = []
    config = {"judge": name, "where": dict(where or {})}
    with step(path, "judge", origin=origin, config=config) as writer:
        for row in _progress(_with_texts(con, todo, constraints)):
            verdict, why = _verdict(row)
            writer.add({"judgments": verdict, "evidence": why})
            verdicts.append({"rule": row["rule"], **verdict})
    return _report(verdicts)


def _refuse_bad(constraints: pl.DataFrame) -> None:
    """Raise when any constraint names a rule or arguments that do not exist: nothing is judged."""
    from ragbench.judging.rules import argument_problems

    found = [
        (row["constraint_id"], problem)
        for row in constraints.iter_rows(named=True)
        for problem in argument_problems(row["rule"], json.loads(row["params"] or "{}"))
    ]
    if found:
        raise BadConstraint(
            f"{len({name for name, _ in found})} constraints cannot be judged; the first is "
            f"{found[0][0]}: {found[0][1]}. Mend the constraints; nothing was judged."
        )


def _with_texts(con: Any, todo: pl.DataFrame, constraints: pl.DataFrame) -> list[dict[str, Any]]:
    """What is to be judged, with the response's text, the rule and the documents shown."""
    texts = con.sql("SELECT response_id, text FROM responses").pl()
    documents = con.sql(
        "SELECT instance_id, list(d.text ORDER BY rank) AS context FROM contexts "
        "JOIN documents AS d USING (doc_id) GROUP BY instance_id"
    ).pl()
    rules = constraints.select(pl.col("constraint_id").alias("target_id"), "rule", "params")
    return (
        todo.join(texts, on="response_id", how="left", maintain_order="left")
        .join(documents, on="instance_id", how="left", maintain_order="left")
        .join(rules, on="target_id", how="left", maintain_order="left")
        .to_dicts()
    )


def _verdict(row: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    from ragbench.judging.rules import check

    key = {k: row[k] for k in ("response_id", "criterion", "target_id", "judge", "repeat")}
    if row["text"] is None:
        return {**key, "error": "no text to judge"}, {**key}
    try:
        found = check(
            row["rule"],
            row["text"],
            json.loads(row["params"] or "{}"),
            context=row["context"] or [],
        )
    except Exception as error:  # one rule that fails on one text must not stop the others
        text = f"{type(error).__name__}: {error}"[:500]
        return {**key, "error": f"unscored: {text}"}, {**key, "reason": text}
    return {**key, "score": float(bool(found))}, {**key, "reason": found.reason}


def _report(verdicts: list[dict[str, Any]]) -> pl.DataFrame:
    frame = pl.DataFrame(
        [(v["criterion"], v["rule"], v.get("score"), v.get("error")) for v in verdicts],
        schema={"criterion": str, "rule": str, "score": pl.Float64, "error": str},
        orient="row",
    )
    return (
        frame.group_by("criterion", "rule")
        .agg(
            judged=pl.col("score").count(),
            met=pl.col("score").sum().cast(pl.Int64),
            errors=pl.col("error").count(),
        )
        .sort("criterion", "rule")
    )


def _progress(rows: list[dict[str, Any]]) -> Any:
    """A bar on a terminal, nothing in a pipe."""
    from tqdm import tqdm

    return tqdm(rows, desc="judging by rules", unit="verdict", disable=not sys.stderr.isatty())
