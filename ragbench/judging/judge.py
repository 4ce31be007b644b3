"""Judge responses: what is pending, one verdict each, straight into the study."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ragbench.errors import RagbenchError
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
    origin: str | None = None,
) -> pl.DataFrame:
    """What was judged now, one row per rule: criterion, rule, judged, met, degenerate, errors.

    Only verdicts that are not there yet are made, and each is stored at once, so a run may be
    stopped at any moment and called again. A rule that fails on a text gives an error row with
    the reason; the others go on. A pass that means nothing (`degenerate`: no forbidden word in an
    empty text) counts as a pass, and `evidence.parse_path` says so; `findings` lists such rules.

    Args:
        judge: "rules", the rule set of this package (`rules/1` in the study).
        where: which responses, as in `scores`.
        retry_errors: ask again where the verdict is an error.
        origin: of the new verdicts; measured, or simulated where all of the study is.

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
    origin: str | None,
) -> pl.DataFrame:
    from ragbench.checks import pending
    from ragbench.judging.rules import refuse_bad

    name = rules_judge()
    con = connect(path)
    constraints = con.sql("SELECT * FROM constraints WHERE rule IS NOT NULL").pl()
    refuse_bad(constraints)
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
    origin = origin or _origin(con)
    append(path, "judges", [{"judge": name, "kind": "rule"}], step="judge", origin=origin)
    verdicts = []
    config = {"judge": name, "where": dict(where or {})}
    with step(path, "judge", origin=origin, config=config) as writer:
        for row in _progress(_with_texts(con, todo, constraints)):
            verdict, why = _verdict(row)
            writer.add({"judgments": verdict, "evidence": why})
            is_degenerate = why.get("parse_path") == "degenerate"
            verdicts.append({"rule": row["rule"], "is_degenerate": is_degenerate, **verdict})
    return _report(verdicts)


def _origin(con: Any) -> str:
    origins = con.sql("SELECT DISTINCT origin::VARCHAR FROM runs").fetchall()
    return "simulated" if origins == [("simulated",)] else "measured"


def findings(con: Any) -> pl.DataFrame:
    """Rules of the study that never failed or never passed, and constraints met trivially.

    Columns: rule, constraint_id (null: the rule as a whole), problem, judged, passed, degenerate.
    """
    from ragbench.judging.rules import degenerate
    from ragbench.store import refresh

    refresh(con)
    return degenerate(
        con.cursor()
        .sql(
            "SELECT c.rule, c.constraint_id, j.score, "
            "e.parse_path IS NOT DISTINCT FROM 'degenerate' AS is_degenerate "
            "FROM judgments AS j JOIN judges AS g ON g.judge = j.judge AND g.kind = 'rule' "
            "JOIN constraints AS c ON c.constraint_id = j.target_id AND c.rule IS NOT NULL "
            "LEFT JOIN evidence AS e ON e.response_id = j.response_id AND e.judge = j.judge "
            "AND e.criterion = j.criterion AND e.target_id = j.target_id AND e.repeat = j.repeat"
        )
        .pl()
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
    path = "degenerate" if found.degenerate else None
    return (
        {**key, "score": float(bool(found))},
        {**key, "reason": found.reason, "parse_path": path},
    )


def _report(verdicts: list[dict[str, Any]]) -> pl.DataFrame:
    frame = pl.DataFrame(
        [
            (v["criterion"], v["rule"], v.get("score"), v["is_degenerate"], v.get("error"))
            for v in verdicts
        ],
        schema={
            "criterion": str,
            "rule": str,
            "score": pl.Float64,
            "is_degenerate": pl.Boolean,
            "error": str,
        },
        orient="row",
    )
    return (
        frame.group_by("criterion", "rule")
        .agg(
            judged=pl.col("score").count(),
            met=pl.col("score").sum().cast(pl.Int64),
            degenerate=pl.col("is_degenerate").sum().cast(pl.Int64),
            errors=pl.col("error").count(),
        )
        .sort("criterion", "rule")
    )


def _progress(rows: list[dict[str, Any]]) -> Any:
    """A bar on a terminal, nothing in a pipe."""
    from tqdm import tqdm

    return tqdm(rows, desc="judging by rules", unit="verdict", disable=not sys.stderr.isatty())
