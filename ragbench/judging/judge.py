"""Judge responses: what is pending, one verdict each, straight into the study."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import Any

import polars as pl

from ragbench.ahead import read_ahead
from ragbench.arguments import named, several
from ragbench.errors import RagbenchError
from ragbench.files import ctrl_c, say
from ragbench.progress import most_frequent, say_errors
from ragbench.slices import panel_names
from ragbench.store import append, opened, step, study_path

Row = dict[str, Any]
RULES_VERSION = 1
"""Raised when a rule changes what it says about some text: another version is another judge."""


@ctrl_c()
def judge(
    path: str | os.PathLike[str],
    judge: str = "rules",
    *,
    criteria: Sequence[str] | None = None,
    prompt: str | os.PathLike[str] | None = None,
    repeats: int = 1,
    where: Mapping[str, Any] | None = None,
    retry_errors: bool = False,
    origin: str | None = None,
    base_url: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    **calling: Any,
) -> pl.DataFrame:
    """What was judged now, one row per criterion and rule.

    Columns: criterion; rule (null where a model judged); judged (a score), met (the best score),
    degenerate (rules: passes that mean nothing), repaired (read only after a repair of the reply's
    JSON), errors, left (not judged because the endpoint stayed busy or the work was stopped),
    stopped (why it ended early, else null), error (the most frequent one). A row `context_claims`
    or `response_claims` counts extractions of claims, and those that found some as met. Where
    scores come from another panel by default than before, a warning says so.

    Only verdicts that are not there yet are made, and each is stored at once, so a run may be
    stopped at any moment and called again. What cannot be judged is an error row with the reason.

    A model is asked only what no rule checks; the rules go first. Its name in the study is
    `model@` and a hash of the model, `base_url`, `parameters` and all evaluation prompts: change
    one of them and it is another judge, whose verdicts stand beside the first one's. Several judges
    are several calls. See docs/judging.md.

    Args:
        judge: "rules", the rule set of this package (`rules/1` in the study), or a model: a name
            that litellm knows, `local/smollm2`, or with `base_url` what that endpoint serves.
        criteria: for a model adherence, rejection and conflict when left out; faithfulness and
            coverage first have it extract claims.
        prompt: a Markdown file of your own: a new criterion, or another version of a prompt of
            this package (a file named as it is). Without `criteria` only it is judged.
        repeats: verdicts on each; further ones measure stability (`flip_rates`).
        where: which responses, as in `scores`.
        retry_errors: ask again where the verdict is an error.
        origin: of the new verdicts; measured, or simulated where all of the study is.
        parameters: sent with each request; {"temperature": 0} when left out.
        calling: key_env, concurrency, budget, prices, timeout and retry, as in `llm.work`.

    Raises:
        BadConstraint: constraints name rules or arguments that do not exist; nothing is judged.
        ModelUnavailable: the model cannot be asked; what was judged before is kept.
        UnknownName, RagbenchError: a criterion, prompt or parameter that cannot be.
    """
    named(judge)
    if judge in ("rules", rules_judge()):
        others = [name for name in several("criteria", criteria) if name != "adherence"]
        if others:
            raise RagbenchError(
                f"rules check constraints, whose criterion is 'adherence', not {others[0]!r}. "
                "Leave criteria out, or name an LLM as the judge."
            )
        con = opened(path)
        before = _default_panels(con)
        report = _report(_judge_by_rules(con, repeats, where, retry_errors, origin))
        _say_what_is_open(path)
        _say_what_is_new(before, path)
        return report
    if judge.startswith("rules"):
        raise RagbenchError(
            f"no judge {judge!r}: the rules of this version are {rules_judge()!r}. Verdicts of "
            "others come in through `ragbench import`."
        )
    from ragbench.judging import llm_judge

    con = opened(path)
    before = _default_panels(con)
    plan = llm_judge.plan(
        con,
        judge,
        criteria=criteria,
        prompt=prompt,
        base_url=base_url,
        parameters=parameters,
    )
    rows: list[dict[str, Any]] = []
    if "adherence" in plan.criteria and _uses_our_rules(con):
        rows = _judge_by_rules(con, 1, where, retry_errors, origin)
    rows += llm_judge.run(
        con,
        plan,
        origin=origin or _origin(con),
        repeats=repeats,
        where=where,
        retry_errors=retry_errors,
        calling={**calling, "base_url": base_url},
    )
    report = _report(rows)
    _say_what_is_new(before, path)
    return report


def _default_panels(con: Any) -> list[str]:
    """The panels that scores come from when none is named; several are refused there."""
    with contextlib.suppress(RagbenchError):  # the study's own panel may not be there
        if con.execute("SELECT 1 FROM judges LIMIT 1").fetchall():
            return panel_names(con, None)
    return []


def _say_what_is_new(before: list[str], path: str | os.PathLike[str]) -> None:
    """Warn where numbers that were there without naming a panel are others from now on."""
    if len(before) != 1:  # of several none was chosen: there were no such numbers
        return
    with opened(path) as con:
        now = _default_panels(con)
    if before == now:
        return
    told = (
        f"come from the panel {now[0]!r} now"
        if len(now) == 1
        else f"are refused now, since several panels fit ({', '.join(now)})"
    )
    say(
        f"without a panel named, scores came from {before[0]!r} and {told}. To "
        f"choose one: ragbench.append(path, 'study', {{'primary_panel': {before[0]!r}}}).",
    )


def _say_what_is_open(path: str | os.PathLike[str]) -> None:
    """Warn of constraints that no rule checks: without them nothing has a Strict score."""
    count = opened(path).sql(
        "SELECT count(DISTINCT constraint_id) FROM instance_constraints "
        "JOIN constraints USING (constraint_id) WHERE rule IS NULL"
    )
    if unchecked := count.fetchall()[0][0]:
        say(
            f"{unchecked} constraints name no rule and are not judged yet, so responses to them "
            "have no Loose or Strict score. Have a model judge them (judge=…; --judge-model), or "
            "bring a person's verdicts in.",
        )


def _uses_our_rules(con: Any) -> bool:
    """Whether no other rule set has judged: two of them would make two panels of every judge."""
    found = {
        row[0] for row in con.execute("SELECT judge FROM judges WHERE kind = 'rule'").fetchall()
    }
    return not found or rules_judge() in found


def rules_judge() -> str:
    """The name of this package's rule set as a judge."""
    return f"rules/{RULES_VERSION}"


def _judge_by_rules(
    con: Any,
    repeats: int,
    where: Mapping[str, Any] | None,
    retry_errors: bool,
    origin: str | None,
) -> list[dict[str, Any]]:
    name, path = rules_judge(), study_path(con)
    checked = "FROM constraints WHERE rule IS NOT NULL"
    if not con.execute(f"{checked} LIMIT 1").fetchall():
        return []
    constraints = con.sql(checked).pl()
    from ragbench.checks import pending_rows
    from ragbench.judging.rules import refuse_bad

    refuse_bad(constraints)
    todo = pending_rows(
        con,
        "judge",
        judge=name,
        criteria=["adherence"],
        repeats=repeats,
        where=where,
        retry_errors=retry_errors,
    )
    if not todo:
        return []
    origin = origin or _origin(con)
    append(path, "judges", [{"judge": name, "kind": "rule"}], step="judge", origin=origin)
    verdicts = []
    config = {"judge": name, "where": dict(where or {})}
    with step(con, "judge", origin=origin, config=config) as writer:
        for row in _progress(_with_texts(con, todo, constraints), len(todo)):
            verdict, why = _verdict(row)
            writer.add({"judgments": verdict, "evidence": why})
            verdicts.append({"rule": row["rule"], "path": why.get("parse_path"), **verdict})
    return verdicts


def _origin(con: Any) -> str:
    origins = con.execute("SELECT DISTINCT origin::VARCHAR FROM runs").fetchall()
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


def _with_texts(con: Any, todo: list[Row], constraints: pl.DataFrame) -> Iterator[Row]:
    """What is to be judged, with the response's text, the rule and the documents shown."""
    rules = {row["constraint_id"]: row for row in constraints.iter_rows(named=True)}

    def read(cursor: Any, some: Sequence[Row]) -> tuple[dict[str, str], dict[str, list[str]]]:
        def found(sql: str, ids: Iterable[str]) -> dict[str, Any]:
            return dict(cursor.execute(sql, {"ids": list(ids)}).fetchall())

        texts = found(
            "SELECT response_id, text FROM responses WHERE response_id IN (SELECT unnest($ids))",
            {row["response_id"] for row in some},
        )
        contexts = found(
            "SELECT instance_id, list(d.text ORDER BY rank) FROM contexts "
            "JOIN documents AS d USING (doc_id) WHERE instance_id IN (SELECT unnest($ids)) "
            "GROUP BY instance_id",
            {row["instance_id"] for row in some},
        )
        return texts, contexts

    with read_ahead(con, todo, read) as coming:
        for row, material in coming:
            texts, contexts = material.result()
            rule = rules[row["target_id"]]
            yield {
                **row,
                "text": texts.get(row["response_id"]),
                "context": contexts.get(row["instance_id"]),
                "rule": rule["rule"],
                "params": rule["params"],
            }


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


def _report(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Counted here, as the code with which polars would do it takes 15 MB of memory."""
    names = ("judged", "met", "degenerate", "repaired", "errors", "left")
    counts: dict[tuple[str, bool, str | None], list[int]] = {}
    errors: dict[tuple[str, bool, str | None], list[str]] = {}
    stopped: dict[tuple[str, bool, str | None], str] = {}
    for row in rows:
        score, rule = row.get("score"), row.get("rule")
        highest = 1.0 if row.get("highest") is None else row["highest"]
        is_judged = score is not None
        key = (row["criterion"], rule is not None, rule)
        if row.get("error") is not None:
            errors.setdefault(key, []).append(row["error"])
        if row.get("stopped") is not None:
            stopped[key] = row["stopped"]
        seen = (
            is_judged,
            is_judged and score == highest,
            row.get("path") == "degenerate",
            is_judged and row.get("path") == "repair",
            row.get("error") is not None,
            bool(row.get("is_left")),
        )
        counts[key] = list(map(add, counts.get(key, [0] * len(names)), seen))
    texts = {"criterion": pl.String, "rule": pl.String}
    report = pl.DataFrame(
        [
            (
                *(key[0], key[2], *count),
                *(stopped.get(key), most_frequent(errors.get(key, []))),
            )
            for key, count in sorted(counts.items())
        ],
        schema=texts
        | dict.fromkeys(names, pl.Int64)
        | dict.fromkeys(("stopped", "error"), pl.String),
        orient="row",
    )
    say_errors(report)
    return report


def _progress(rows: Iterable[Row], total: int) -> Iterable[Row]:
    """A bar on a terminal, nothing in a pipe."""
    from tqdm import tqdm

    is_quiet = not sys.stderr.isatty()
    return tqdm(rows, desc="judging by rules", unit="verdict", total=total, disable=is_quiet)
