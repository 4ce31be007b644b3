"""What a study still lacks and whether it is sound: pending work, ledger, integrity, hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import polars as pl

from ragbench import forecast, relations
from ragbench.arguments import several, whole
from ragbench.errors import RagbenchError, UnknownName
from ragbench.faults import faults
from ragbench.metrics import By, Where
from ragbench.slices import RESPONSE_COLUMNS, conditions, grouping, panel_name
from ragbench.store import refresh, remembered
from ragbench.summaries import define
from ragbench.taxonomy import CONTEXT_CRITERIA

_FROM_PLANNED = "planned_responses AS s LEFT JOIN models AS m ON m.model = s.model"
Asking = tuple[duckdb.DuckDBPyConnection, str, dict[str, Any]]
"""A cursor, and what it is to be asked, with which values."""
_COLUMNS = {name: sql for name, sql in RESPONSE_COLUMNS.items() if name != "panel"}


def pending(
    con: duckdb.DuckDBPyConnection,
    step: str,
    *,
    models: Sequence[str] = (),
    setting: str = "given_context",
    trials: int = 1,
    judge: str | None = None,
    criteria: Sequence[str] | None = None,
    repeats: int = 1,
    where: Where = None,
    retry_errors: bool = False,
) -> pl.DataFrame:
    """The rows a step has still to make: wanted minus present. Empty when nothing is left.

    - `step="answer"`: columns response_id, instance_id, model, setting, trial, for what earlier
      runs wanted and, with `models`, all live instances x models x `setting` x `trials`.
    - `step="judge"`: columns response_id, instance_id, criterion, target_id, judge, repeat, for
      every answered response x criterion that applies x `judge` x `repeats`. A rule set is asked
      about the constraints that name a rule, an LLM or a person about the others; about claims
      that the judge itself extracted or that all judges share; about coverage not in a gap.

    An error is a row too: with `retry_errors` it counts as missing. Sorted by key.

    Raises:
        UnknownName: `step` or a criterion is unknown.
        RagbenchError: `step="judge"` without a judge or with an empty list of criteria, or trials
            or repeats below 1.
    """
    cursor, sql, values = _pending(
        con,
        step,
        models=models,
        setting=setting,
        trials=trials,
        judge=judge,
        criteria=criteria,
        repeats=repeats,
        where=where,
        retry_errors=retry_errors,
    )
    return cursor.sql(sql, params=values).pl()


def pending_rows(
    con: duckdb.DuckDBPyConnection, step: str, **asked_for: Any
) -> list[dict[str, Any]]:
    """What `pending` gives, for a run that asks: a mapping a row."""
    cursor, sql, values = _pending(con, step, **asked_for)
    return relations.mappings(cursor.execute(sql, values))


def _pending(
    con: duckdb.DuckDBPyConnection,
    step: str,
    *,
    models: Sequence[str] = (),
    setting: str = "given_context",
    trials: int = 1,
    judge: str | None = None,
    criteria: Sequence[str] | None = None,
    repeats: int = 1,
    where: Where = None,
    retry_errors: bool = False,
) -> Asking:
    whole("trials", trials)
    whole("repeats", repeats)
    refresh(con)
    cursor = con.cursor()
    if step == "answer":
        return _pending_answers(cursor, models, setting, trials, where, retry_errors)
    if step == "judge":
        if judge is None:
            raise RagbenchError("pending(con, 'judge', …) needs judge=…, the judge to ask.")
        return _pending_verdicts(cursor, judge, criteria, repeats, where, retry_errors)
    raise UnknownName("step", step, ("answer", "judge"), place="pending")


def _pending_answers(
    cursor: duckdb.DuckDBPyConnection,
    models: Sequence[str],
    setting: str,
    trials: int,
    where: Where,
    retry_errors: bool,
) -> Asking:
    condition, values = conditions(cursor, where, _COLUMNS, "pending")
    kept = "WHERE error IS NULL" if retry_errors else ""
    sql = f"""
    WITH asked AS (
        SELECT instance_id, model, setting, trial FROM wanted
        UNION
        SELECT i.instance_id, unnest($models::VARCHAR[]), $setting, t.range
        FROM instances AS i, range($trials) AS t
    ), s AS (
        SELECT a.instance_id || '/' || a.model || '/' || a.setting || '/' || a.trial
            AS response_id, a.*, i.query_id, i.context_mode::VARCHAR AS context_mode,
            i.variant, i.is_augmented, q.benchmark, q.domain, q.language
        FROM asked AS a
        LEFT JOIN instances AS i USING (instance_id)
        LEFT JOIN queries AS q USING (query_id)
        ANTI JOIN (SELECT * FROM verifications WHERE NOT passed) AS f USING (instance_id)
    )
    SELECT s.response_id, s.instance_id, s.model, s.setting, s.trial
    FROM s LEFT JOIN models AS m ON m.model = s.model
    ANTI JOIN (SELECT response_id FROM responses {kept}) AS r ON r.response_id = s.response_id
    WHERE {_numbered(condition, len(values))} ORDER BY ALL
    """
    names = {"models": list(models), "setting": setting, "trials": trials}
    return cursor, sql, {**names, **_named(values)}


def _pending_verdicts(
    cursor: duckdb.DuckDBPyConnection,
    judge: str,
    criteria: Sequence[str] | None,
    repeats: int,
    where: Where,
    retry_errors: bool,
) -> Asking:
    kinds = dict(cursor.execute("SELECT judge, kind::VARCHAR FROM judges").fetchall())
    is_rule = kinds.get(judge, "rule" if judge.startswith("rules") else "llm") == "rule"
    targets = dict(cursor.execute("SELECT criterion, target FROM criteria").fetchall())
    if criteria is None:
        criteria = ["adherence"] if is_rule else ["adherence", *CONTEXT_CRITERIA]
    criteria = several("criteria", criteria)
    if not criteria:
        raise RagbenchError("criteria is empty: name one, or leave it out for all that apply.")
    for name in criteria:
        if name not in targets:
            raise UnknownName("criterion", name, targets, place="the study")
    condition, values = conditions(cursor, where, _COLUMNS, "pending")
    parts = "\nUNION ALL\n".join(_targets(name, targets[name], is_rule) for name in criteria)
    kept = "WHERE error IS NULL" if retry_errors else ""
    sql = f"""
    WITH s AS (SELECT s.* FROM {_FROM_PLANNED}
        WHERE s.is_answered AND {_numbered(condition, len(values))}),
    asked AS ({parts})
    SELECT a.response_id, a.instance_id, a.criterion, a.target_id, $judge AS judge,
        t.range::INTEGER AS repeat
    FROM asked AS a, range($repeats) AS t
    ANTI JOIN (SELECT * FROM judgments {kept}) AS j
        ON j.response_id = a.response_id AND j.criterion = a.criterion
        AND j.target_id = a.target_id AND j.judge = $judge AND j.repeat = t.range
    ORDER BY ALL
    """
    return cursor, sql, {"judge": judge, "repeats": repeats, **_named(values)}


def _targets(criterion: str, target: str, is_rule: bool) -> str:
    """SQL for what has to be judged by one criterion: response_id, instance_id, …, target_id."""
    name = criterion.replace("'", "''")
    columns = f"s.response_id, s.instance_id, '{name}' AS criterion"
    if target == "constraint":
        checked = "IS NOT NULL" if is_rule else "IS NULL"
        return (
            f"SELECT {columns}, ic.constraint_id AS target_id FROM s "
            "JOIN instance_constraints AS ic ON ic.instance_id = s.instance_id "
            "JOIN constraints AS c ON c.constraint_id = ic.constraint_id "
            f"WHERE c.rule {checked}"
        )
    if target == "claim":
        own = (
            "c.response_id = s.response_id AND c.kind = 'response'"
            if criterion == "faithfulness"
            else "c.instance_id = s.instance_id AND c.kind <> 'response' "
            "AND s.context_mode IS DISTINCT FROM 'gap'"
        )
        return (
            f"SELECT {columns}, c.claim_id AS target_id FROM s JOIN claims AS c "
            f"ON {own} AND (c.extractor IS NULL OR c.extractor = $judge) "
            "AND c.text IS DISTINCT FROM ''"
        )
    mode = CONTEXT_CRITERIA.get(criterion)
    scope = f"WHERE s.context_mode = '{mode}'" if mode else ""
    return f"SELECT {columns}, s.response_id AS target_id FROM s {scope}"


def outstanding(
    con: duckdb.DuckDBPyConnection,
    where: Where = None,
    *,
    models: Sequence[str] = (),
    setting: str = "given_context",
    trials: int = 1,
) -> pl.DataFrame:
    """What is left to do, counted, and what the answers will take.

    Columns: step, model, judge, criterion, pending, errors, and for answers input_tokens,
    output_tokens and cost (US dollars) as `forecast.answers` estimates them. Answers that earlier
    runs wanted and those of `models`, as in `pending`, and verdicts of every rule set and LLM that
    the study knows; on claims too where it has begun with them, and then `context_claims` and
    `response_claims` count what it has still to take claims out of: further verdicts come of that.
    `errors` are rows that hold an error; `retry_errors` asks for them again.
    """
    from ragbench.judging.claims import PROMPTS, unclaimed

    refresh(con)
    cursor = con.cursor()
    judges = cursor.execute(_JUDGES).fetchall()
    asked_for = {"models": models, "setting": setting, "trials": trials}
    kinds: list[tuple[str, dict[str, Any]]] = [("answer", asked_for)]
    usual = ("adherence", *CONTEXT_CRITERIA)
    parts = []
    for judge, on_claims in judges:
        criteria = [*usual, *on_claims] if on_claims else None
        kinds.append(("judge", {"judge": judge, "criteria": criteria}))
        for criterion in on_claims or ():
            if count := len(unclaimed(con, criterion, judge, where)):
                row = {"step": "judge", "judge": judge, "criterion": PROMPTS[criterion]}
                parts.append(pl.DataFrame({**row, "pending": count, "errors": 0}))
    for step, who in kinds:
        new = pending(con, step, where=where, **who)
        again = pending(con, step, where=where, retry_errors=True, **who)
        columns = ["model"] if step == "answer" else ["judge", "criterion"]
        counts = (
            again.join(new.with_columns(is_new=True), on=new.columns, how="left")
            .group_by(columns)
            .agg(
                pending=pl.col("is_new").count().cast(pl.Int64),
                errors=pl.col("is_new").null_count().cast(pl.Int64),
            )
        )
        if step == "answer":
            counts = counts.join(forecast.answers(cursor, new), on="model", how="left")
        parts.append(counts.select(pl.lit(step).alias("step"), pl.all()))
    names = ("step", "model", "judge", "criterion", "pending", "errors", *_FORECAST)
    frame = pl.concat(parts, how="diagonal")
    empty = [pl.lit(None, pl.String).alias(name) for name in names if name not in frame.columns]
    return frame.with_columns(empty).select(names).sort("step", "model", "judge", "criterion")


_FORECAST = ("input_tokens", "output_tokens", "cost")
_JUDGES = """
    SELECT g.judge, list(DISTINCT c.criterion ORDER BY c.criterion)
        FILTER (c.criterion IS NOT NULL) AS on_claims
    FROM judges AS g LEFT JOIN (
        SELECT judge, criterion FROM judgments WHERE criterion IN ('coverage', 'faithfulness')
        UNION ALL
        SELECT extractor, CASE kind WHEN 'response' THEN 'faithfulness' ELSE 'coverage' END
        FROM claims
    ) AS c ON c.judge = g.judge AND g.kind = 'llm'
    WHERE g.kind <> 'human' GROUP BY g.judge ORDER BY g.judge
"""
"""Judges that can be asked, and the criteria on claims that each has begun with (null: none)."""


def ledger(
    con: duckdb.DuckDBPyConnection,
    by: By = ("model", "context_mode"),
    where: Where = None,
    panel: str | None = None,
) -> pl.DataFrame:
    """Where the responses are: planned, answered, judged, errors, pending, per group.

    planned = judged + errors + pending. `judged` needs every constraint judged by the panel;
    `errors` have an error for a response or for a verdict. Without any judge nothing is judged.
    """
    refresh(con)
    cursor = con.cursor()
    names = grouping(by, _COLUMNS, "ledger")
    condition, values = conditions(cursor, where, _COLUMNS, "ledger")
    source = f"{_FROM_PLANNED} WHERE {condition}"
    is_judged, has_error = "false", "s.is_failed"
    if cursor.execute("SELECT 1 FROM judges LIMIT 1").fetchall():
        source = (
            "adherence_summary AS s LEFT JOIN models AS m ON m.model = s.model "
            f"WHERE {condition} AND s.panel = ?"
        )
        values.append(panel_name(cursor, panel))
        is_judged, has_error = "s.is_judged", "s.has_error"
    select = "".join(f'{_COLUMNS[name]} AS "{name}", ' for name in names)
    counts = (
        f"SELECT {select} count(*) AS _planned, "
        f"count(*) FILTER (WHERE s.is_answered) AS _answered, "
        f"count(*) FILTER (WHERE {is_judged}) AS _judged, "
        f"count(*) FILTER (WHERE {has_error}) AS _errors FROM {source} GROUP BY ALL"
    )
    listed = "".join(f'"{name}", ' for name in names)
    return cursor.sql(
        f"SELECT {listed} _planned AS planned, _answered AS answered, _judged AS judged, "
        f"_errors AS errors, _planned - _judged - _errors AS pending FROM ({counts}) ORDER BY ALL",
        params=values,
    ).pl()


def check(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """What is wrong with the study: columns relation, problem, rows, example. Empty when sound.

    Doubled keys, rows that point nowhere, scores out of their criterion's range, verdicts on what
    was not asked (a constraint that was not shown, a claim of another response), claims that a
    condition did not hold beside a failure, names that get in each other's way, stale summaries.
    """
    refresh(con)
    cursor = con.cursor()
    define(cursor)  # on this cursor alone, in place of the summaries
    found = []
    for relation, problem, sql in faults():
        count, example = cursor.execute(
            f"SELECT count(*), min(example) FROM ({sql}) AS found"
        ).fetchall()[0]
        if count:
            found.append((relation, problem, count, example))
    return pl.DataFrame(
        found,
        schema={"relation": str, "problem": str, "rows": pl.Int64, "example": str},
        orient="row",
    )


_PASSING = {"run_id", "seconds", "started_at"}


def content_hash(con: duckdb.DuckDBPyConnection) -> str:
    """A hash of all rows, equal for equal content: run ids, times and durations left out.

    Two studies that were filled in another order, in more runs, or with interruptions between,
    hash the same when they hold the same rows.
    """
    refresh(con)
    cursor = con.cursor()

    def content() -> str:
        digest = hashlib.sha256()
        for relation in relations.KEYS:
            names = [name for name in relations.columns(relation) if name not in _PASSING]
            listed = ", ".join(f'"{name}"' for name in names)
            # A sum of row hashes does not depend on the order of rows, nor on that of threads.
            row = cursor.execute(
                f"SELECT count(*), sum(md5_number_lower(to_json(t)::VARCHAR)::HUGEINT) "
                f"FROM (SELECT DISTINCT {listed} FROM {relation}) AS t"
            ).fetchall()[0]
            digest.update(f"{relation} {row[0]} {row[1]}\n".encode())
        return digest.hexdigest()

    return remembered(con, content)


def _numbered(condition: str, count: int) -> str:
    """`condition` with named parameters in place of question marks."""
    for i in range(count):
        condition = condition.replace("?", f"$w{i}", 1)
    return condition


def _named(values: Sequence[Any]) -> Mapping[str, Any]:
    return {f"w{i}": value for i, value in enumerate(values)}
