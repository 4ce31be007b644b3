"""Labels that people give: a seeded sample of work, each label safe at once, verdicts at the end.

Labels wait in a file beside the study, a line each, until their expert is done: a person may change
or take back any of them, while a verdict in a study stays as it is. `finish` makes them verdicts of
a judge of kind *human*: on responses, or, for the checks in `CHECKS`, on instances before use.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
import polars as pl

from ragbench import stats
from ragbench.errors import RagbenchError, UnknownName
from ragbench.files import study_file
from ragbench.metrics import Where
from ragbench.slices import RESPONSE_COLUMNS, conditions, grouping
from ragbench.store import connect, refresh, step
from ragbench.values import mended

STRATA = ("model", "context_mode")
"""What a sample of responses is spread over, unless told otherwise."""

CHECK_STRATA = ("domain", "context_mode")
"""The same for instances, which have no model."""

CHECKS = {
    "query_consistency": "Do the requirements suit the query and one another, so that one answer "
    "can meet them all?",
    "context_validity": "Are the documents about the query, and are they what was asked for: {}?",
}
"""What experts check of an instance before use: the two stages of EnterpriseRAG (arXiv 2608.11584),
Instruction-Query Consistency and Context Validity; the questions are in our words. In place of the
braces stands what the mode of the instance's context means."""


class Item(NamedTuple):
    """One thing to label."""

    response_id: str
    criterion: str
    target_id: str
    weight: float  # how many items of the study this one stands for


class Check(NamedTuple):
    """One instance to check."""

    instance_id: str
    check: str
    weight: float


def sample(
    con: duckdb.DuckDBPyConnection,
    task: str,
    n: int | None = None,
    *,
    seed: int = 0,
    strata: Sequence[str] | None = None,
    where: Where = None,
) -> list[Item] | list[Check]:
    """What to label, in a random order: all of it, or `n` items spread evenly over the strata.

    `task` is a criterion of responses (`rejection`, `conflict`, one of your own), `adherence`, a
    dimension, whose constraints are then labelled, or one of `CHECKS`, for which instances are
    drawn, with responses or without. Each stratum (`STRATA` or `CHECK_STRATA` unless named) gives
    as near as possible to the same number of items; an item's weight is the size of its stratum
    over what was drawn from it, so that weighted means are those of the study. The same seed gives
    the same sample.

    Raises:
        UnknownName: no such task.
        UnknownColumn: a stratum or filter that the study does not have.
        RagbenchError: there is nothing to label.
    """
    refresh(con)
    cursor = con.cursor()
    is_check = task in CHECKS
    allowed = {name: sql for name, sql in RESPONSE_COLUMNS.items() if name != "panel"}
    if is_check:
        allowed = {name: allowed[name] for name in _OF_INSTANCES}
    names = grouping(strata_of(task) if strata is None else strata, allowed, "a sample")
    condition, values = conditions(cursor, where, allowed, "a sample")
    target, source, more = _source(cursor, task)
    listed = "".join(f", {allowed[name]} AS stratum_{name}" for name in names)
    about = "s.instance_id" if is_check else "s.response_id"
    rows = cursor.sql(
        f"SELECT {about} AS about, {target} AS target_id {listed} FROM {source} "
        f"WHERE {condition} ORDER BY ALL",
        params=[*more, *values],
    ).pl()
    if rows.is_empty():
        kind = "instance" if is_check else "answered response that it applies to"
        raise RagbenchError(f"there is nothing to label for {task!r} here: no {kind}.")
    draw = random.Random(f"{seed} {task}")
    groups: dict[tuple[Any, ...], list[tuple[str, str]]] = {}
    for key, target_id, *stratum in rows.iter_rows():
        groups.setdefault(tuple(stratum), []).append((key, target_id))
    chosen: list[tuple[str, str, float]] = []
    shares = _shares([len(group) for group in groups.values()], rows.height if n is None else n)
    for group, share in zip(groups.values(), shares, strict=True):
        chosen += [(*pair, len(group) / share) for pair in draw.sample(group, share)]
    draw.shuffle(chosen)
    if is_check:
        return [Check(key, task, weight) for key, _, weight in chosen]
    criterion = task if target == about else "adherence"
    return [Item(key, criterion, target_id, weight) for key, target_id, weight in chosen]


def strata_of(task: str) -> tuple[str, ...]:
    """What a sample for `task` is spread over, unless told otherwise."""
    return CHECK_STRATA if task in CHECKS else STRATA


_OF_INSTANCES = (
    *("benchmark", "domain", "language", "context_mode", "variant", "is_augmented"),
    *("query_id", "instance_id", "has_protocol"),
)
"""Columns that instances have without a response."""


def _source(cursor: duckdb.DuckDBPyConnection, task: str) -> tuple[str, str, list[Any]]:
    """The target of a label, where it comes from, and what to bind there."""
    if task in CHECKS:
        return "s.instance_id", f"({_INSTANCES}) AS s", []
    criteria = dict(cursor.execute("SELECT criterion, target::VARCHAR FROM criteria").fetchall())
    dimensions = [row[0] for row in cursor.execute("SELECT dimension FROM dimensions").fetchall()]
    answered = (
        "(FROM planned_responses WHERE is_answered) AS s LEFT JOIN models AS m ON m.model = s.model"
    )
    if criteria.get(task) == "response":
        return "s.response_id", f"{answered} JOIN applicable AS a USING (instance_id)", []
    constraints = (
        f"{answered} JOIN instance_constraints AS ic ON ic.instance_id = s.instance_id "
        "JOIN constraints AS c ON c.constraint_id = ic.constraint_id"
    )
    if task == "adherence":
        return "ic.constraint_id", constraints, []
    if task in dimensions:
        return "ic.constraint_id", f"{constraints} AND c.dimension = ?", [task]
    known = [name for name, target in criteria.items() if target == "response"]
    tasks = [*known, "adherence", *CHECKS, *dimensions]
    raise UnknownName("task", task, tasks, place="the study")


_INSTANCES = (
    "SELECT i.instance_id, i.query_id, i.context_mode::VARCHAR AS context_mode, i.variant, "
    "i.is_augmented, q.benchmark, q.domain, q.language "
    "FROM instances AS i LEFT JOIN queries AS q USING (query_id)"
)


def _shares(sizes: Sequence[int], n: int) -> list[int]:
    """How many to draw from groups of these sizes: as evenly as they allow, `n` in all.

    >>> _shares([2, 100, 100], 50)
    [2, 24, 24]
    """
    shares = [0] * len(sizes)
    left = min(n, sum(sizes))
    while left:
        for i in sorted(range(len(sizes)), key=lambda i: (shares[i], i)):
            if left and shares[i] < sizes[i]:
                shares[i] += 1
                left -= 1
    return shares


class Labels:
    """The labels of one expert for one task: each in a file as soon as it is given."""

    def __init__(self, path: str | os.PathLike[str], task: str, expert: str) -> None:
        if not re.fullmatch(r"[\w.@-]+", expert):
            raise RagbenchError(
                f"{expert!r} cannot be the name of an expert: use letters, digits and . @ _ -"
            )
        self.study, self.task, self.expert = study_file(path), task, expert
        # An expert may have a hyphen and a task has none here: no two share a file.
        safe = re.sub(r"[^\w.]", lambda found: f"%{ord(found[0]):06x}", task)
        folder = self.study.with_name(f"{self.study.name}.labels")
        self.file = folder / f"{expert}-{safe}.jsonl"
        self.items: Sequence[Item | Check] = []
        self.about: dict[str, Any] = {}
        self._given: list[dict[str, Any]] = []
        if self.file.exists():
            self._read()

    def _read(self) -> None:
        whole = self.file.read_bytes()
        end = whole.rfind(b"\n") + 1  # a last line that was cut off never counted
        for number, line in enumerate(whole[:end].splitlines(), 1):
            try:
                row = json.loads(line)
                if "items" in row:
                    kind = Check if self.task in CHECKS else Item
                    self.items = [kind(*item) for item in row.pop("items")]
                    self.about = row
                else:
                    self._given.append(row)
            except (ValueError, TypeError) as problem:
                raise RagbenchError(
                    f"{self.file}, line {number} is no label ({problem}). Restore the file from a "
                    "copy, or delete that line."
                ) from None
        if end < len(whole):
            os.truncate(self.file, end)

    def begin(self, items: Sequence[Item | Check], **about: Any) -> None:
        """Fix what is to be labelled, unless that was done before."""
        if not self.items:
            self._write({"items": [list(item) for item in items], **about})
            self.items, self.about = list(items), about

    def _write(self, row: Mapping[str, Any]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def put(self, at: int, score: float | None, note: str = "") -> None:
        """Label the item in place `at`; None takes its label back."""
        row = {"at": at, "score": score, "note": mended(note)}
        self._write(row)
        self._given.append(row)

    def undo(self) -> int | None:
        """Take back what was done last; the place of that item, None when there is nothing."""
        done = self._done()
        if not done:
            return None
        self._write({"undo": True})
        self._given.append({"undo": True})
        return int(done[-1]["at"])

    @property
    def labels(self) -> dict[int, tuple[float, str]]:
        """The label and the note of each labelled item, by its place."""
        done = self._done()
        last = {row["at"]: (row["score"], row["note"]) for row in done}
        return {at: found for at, found in last.items() if found[0] is not None}

    def _done(self) -> list[dict[str, Any]]:
        """What was done and not undone, in order."""
        done: list[dict[str, Any]] = []
        for row in self._given:
            if not row.get("undo"):
                done.append(row)
            elif done:
                done.pop()
        return done

    def next(self) -> int | None:
        """The place of the first item without a label; None when all have one."""
        labels = self.labels
        return next((at for at in range(len(self.items)) if at not in labels), None)

    def failures(self) -> int:
        """How many instances failed the check and are not in the study yet; 0 for other tasks."""
        if self.task not in CHECKS:
            return 0
        stored = self._stored(connect(self.study))
        given = [(self.items[at][:-1], score) for at, (score, _) in self.labels.items()]
        return sum(not score and about not in stored for about, score in given)

    def finish(self) -> pl.DataFrame:
        """What became of the labels in the study. One row: verdicts, yes, kept.

        These count the labels that are verdicts now; of these, those that say yes, and those whose
        label was changed after that and whose verdict says what it said before.

        The judge is the expert's name, of kind human; the note is the reason. Seed, strata and
        weights are in the config of the run. Labels that are verdicts already stay as they are.
        Checks go to `verifications`: an instance that fails one check of one expert leaves all
        scores.
        """
        items = [(self.items[at], label) for at, label in sorted(self.labels.items())]
        config = {
            "task": self.task,
            **self.about,
            "weights": {"/".join(item[:-1]): item.weight for item, _ in items},
        }
        con = connect(self.study)
        there = con.sql("SELECT DISTINCT origin::VARCHAR FROM runs").fetchall()
        origin = "simulated" if there == [("simulated",)] else "measured"
        with step(con, "annotate", origin=origin, config=config) as writer:
            writer.add({"judges": {"judge": self.expert, "kind": "human"}})
            for item, (score, note) in items:
                writer.add(_rows(item, self.expert, score, note))
        refresh(con)
        stored = self._stored(con)
        pairs = [(stored[item[:-1]], score) for item, (score, _) in items if item[:-1] in stored]
        counts = {
            "verdicts": len(pairs),
            "yes": sum(verdict == 1 for verdict, _ in pairs),
            "kept": sum(verdict != score for verdict, score in pairs),
        }
        return pl.DataFrame([counts])

    def _stored(self, con: duckdb.DuckDBPyConnection) -> dict[tuple[str, ...], float]:
        """What the study holds of this expert, by what it is about."""
        sql = (
            'SELECT instance_id, "check", passed::DOUBLE FROM verifications WHERE judge = ?'
            if self.task in CHECKS
            else "SELECT response_id, criterion, target_id, score FROM judgments "
            "WHERE judge = ? AND repeat = 0 AND score IS NOT NULL"
        )
        rows = con.execute(sql, [self.expert]).fetchall()
        return {tuple(about): score for *about, score in rows}


def _rows(item: Item | Check, expert: str, score: float, note: str) -> dict[str, Any]:
    """A label as rows of a study."""
    if isinstance(item, Check):
        key = {"instance_id": item.instance_id, "check": item.check, "judge": expert}
        return {"verifications": {**key, "passed": score == 1, "note": note or None}}
    key = {name: getattr(item, name) for name in _KEY} | {"judge": expert}
    rows: dict[str, Any] = {"judgments": {**key, "score": score}}
    return {**rows, "evidence": {**key, "reason": note}} if note else rows


_KEY = ("response_id", "criterion", "target_id")


def check_agreement(con: duckdb.DuckDBPyConnection, check: str) -> pl.DataFrame:
    """One row per pair of people that made a check: how far they agree on the same instances.

    Columns: check, judge_a, judge_b, n, unmatched (instances that only one checked), agreement
    (0-1), kappa with low and high, note. No row with fewer than two people.
    """
    refresh(con)
    rows = con.cursor().sql(
        "SELECT v.judge, v.instance_id, v.passed FROM verifications AS v JOIN judges AS g "
        "USING (judge) WHERE v.\"check\" = ? AND g.kind = 'human' ORDER BY ALL",
        params=[check],
    )
    votes: dict[str, dict[str, bool]] = {}
    for judge, instance_id, passed in rows.fetchall():
        votes.setdefault(judge, {})[instance_id] = passed
    made = []
    for a, b in itertools.combinations(votes, 2):
        both = sorted(votes[a].keys() & votes[b].keys())
        found = stats.cohen_kappa([votes[a][i] for i in both], [votes[b][i] for i in both])
        made.append(
            {"check": check, "judge_a": a, "judge_b": b, "n": len(both)}
            | {"unmatched": len(votes[a].keys() ^ votes[b].keys())}
            | {"agreement": found["percent_agreement"].item()}
            | {name: found[name].item() for name in ("kappa", "low", "high", "note")}
        )
    return pl.DataFrame(made, schema=_CHECK_AGREEMENT)


_CHECK_AGREEMENT: dict[str, Any] = (
    dict.fromkeys(("check", "judge_a", "judge_b"), pl.String)
    | dict.fromkeys(("n", "unmatched"), pl.Int64)
    | dict.fromkeys(("agreement", "kappa", "low", "high"), pl.Float64)
    | {"note": pl.String}
)


def disagreements(con: duckdb.DuckDBPyConnection, task: str) -> pl.DataFrame:
    """What people saw differently, to be settled together: one row per item.

    Columns: response_id, target_id, votes (expert: score), lowest, highest. Adherence is listed for
    `adherence` and for the name of a dimension. Sorted by response. For one of `CHECKS`:
    instance_id, votes (expert: passed or failed, with the note); all of these instances are out of
    the scores, as one failed check is enough.
    """
    refresh(con)
    if task in CHECKS:
        return con.cursor().sql(_CHECKED_APART, params=[task]).pl()
    return (
        con.cursor()
        .sql(
            """
            SELECT j.response_id, j.target_id,
                string_agg(j.judge || ': ' || j.score, '; ' ORDER BY j.judge) AS votes,
                min(j.score) AS lowest, max(j.score) AS highest
            FROM judgments AS j JOIN judges AS g USING (judge)
            LEFT JOIN constraints AS c ON c.constraint_id = j.target_id
            WHERE g.kind = 'human' AND j.repeat = 0 AND j.score IS NOT NULL
                AND (j.criterion = $task OR (j.criterion = 'adherence' AND c.dimension = $task))
            GROUP BY ALL HAVING min(j.score) < max(j.score) ORDER BY ALL
            """,
            params={"task": task},
        )
        .pl()
    )


_CHECKED_APART = """
    SELECT v.instance_id, string_agg(v.judge || ': ' || CASE WHEN v.passed THEN 'passed' ELSE
        'failed' END || coalesce(' (' || v.note || ')', ''), '; ' ORDER BY v.judge) AS votes
    FROM verifications AS v JOIN judges AS g USING (judge)
    WHERE g.kind = 'human' AND v."check" = ?
    GROUP BY ALL HAVING count(DISTINCT v.passed) > 1 ORDER BY ALL
"""
