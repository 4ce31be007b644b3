"""Labels that people give: a seeded sample of work, each label safe at once, verdicts at the end.

Labels wait in a file beside the study, a line each, until their expert is done: a person may change
or take back any of them, while a verdict in a study stays as it is. `finish` makes them verdicts of
a judge of kind *human*.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import duckdb
import polars as pl

from ragbench.errors import RagbenchError, UnknownName
from ragbench.files import study_file
from ragbench.metrics import Where
from ragbench.slices import RESPONSE_COLUMNS, conditions, grouping
from ragbench.store import connect, refresh, step

STRATA = ("model", "context_mode")
"""What a sample is spread over, unless told otherwise."""


class Item(NamedTuple):
    """One thing to label."""

    response_id: str
    criterion: str
    target_id: str
    weight: float  # how many items of the study this one stands for


def sample(
    con: duckdb.DuckDBPyConnection,
    task: str,
    n: int | None = None,
    *,
    seed: int = 0,
    strata: Sequence[str] = STRATA,
    where: Where = None,
) -> list[Item]:
    """What to label, in a random order: all of it, or `n` items spread evenly over the strata.

    `task` is a criterion of responses (`rejection`, `conflict`, one of your own), `adherence`, or a
    dimension, whose constraints are then labelled. Each stratum gives as near as possible to the
    same number of items; an item's weight is the size of its stratum over what was drawn from it,
    so that weighted means are those of the study. The same seed gives the same sample.

    Raises:
        UnknownName: no such task.
        UnknownColumn: a stratum or filter that the study does not have.
        RagbenchError: there is nothing to label.
    """
    refresh(con)
    cursor = con.cursor()
    allowed = {name: sql for name, sql in RESPONSE_COLUMNS.items() if name != "panel"}
    names = grouping(strata, allowed, "a sample")
    condition, values = conditions(cursor, where, allowed, "a sample")
    target, source, more = _source(cursor, task)
    listed = "".join(f", {allowed[name]} AS stratum_{name}" for name in names)
    rows = cursor.sql(
        f"SELECT s.response_id, {target} AS target_id {listed} FROM planned_responses AS s "
        f"LEFT JOIN models AS m ON m.model = s.model {source} "
        f"WHERE s.is_answered AND {condition} ORDER BY ALL",
        params=[*more, *values],
    ).pl()
    if rows.is_empty():
        raise RagbenchError(
            f"there is nothing to label for {task!r} here: no answered response that it applies to."
        )
    criterion = "adherence" if target != "s.response_id" else task
    draw = random.Random(f"{seed} {task}")
    groups: dict[tuple[Any, ...], list[tuple[str, str]]] = {}
    for response_id, target_id, *stratum in rows.iter_rows():
        groups.setdefault(tuple(stratum), []).append((response_id, target_id))
    chosen: list[Item] = []
    shares = _shares([len(group) for group in groups.values()], rows.height if n is None else n)
    for group, share in zip(groups.values(), shares, strict=True):
        drawn = draw.sample(group, share)
        chosen += [Item(r, criterion, t, len(group) / share) for r, t in drawn]
    draw.shuffle(chosen)
    return chosen


def _source(cursor: duckdb.DuckDBPyConnection, task: str) -> tuple[str, str, list[Any]]:
    """The target of a label, the joins that give it, and what to bind in them."""
    criteria = dict(cursor.execute("SELECT criterion, target::VARCHAR FROM criteria").fetchall())
    dimensions = [row[0] for row in cursor.execute("SELECT dimension FROM dimensions").fetchall()]
    if criteria.get(task) == "response":
        return "s.response_id", "JOIN applicable AS a USING (instance_id)", []
    constraints = (
        "JOIN instance_constraints AS ic ON ic.instance_id = s.instance_id "
        "JOIN constraints AS c ON c.constraint_id = ic.constraint_id"
    )
    if task == "adherence":
        return "ic.constraint_id", constraints, []
    if task in dimensions:
        return "ic.constraint_id", f"{constraints} AND c.dimension = ?", [task]
    known = [name for name, target in criteria.items() if target == "response"]
    raise UnknownName("task", task, [*known, "adherence", *dimensions], place="the study")


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
        safe = re.sub(r"[^\w.-]", "_", task)
        folder = self.study.with_name(f"{self.study.name}.labels")
        self.file = folder / f"{expert}-{safe}.jsonl"
        self.items: list[Item] = []
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
                    self.items = [Item(*item) for item in row.pop("items")]
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

    def begin(self, items: Sequence[Item], **about: Any) -> None:
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
        row = {"at": at, "score": score, "note": note}
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

    def finish(self) -> pl.DataFrame:
        """What became of the labels as verdicts in the study: columns as in `append`.

        The judge is the expert's name, of kind human; the note is the reason. Seed, strata and
        weights are in the config of the run. Labels that are verdicts already stay as they are.
        """
        items = [(self.items[at], label) for at, label in sorted(self.labels.items())]
        config = {
            "task": self.task,
            **self.about,
            "weights": {"/".join(item[:3]): item.weight for item, _ in items},
        }
        there = connect(self.study).sql("SELECT DISTINCT origin::VARCHAR FROM runs").fetchall()
        origin = "simulated" if there == [("simulated",)] else "measured"
        with step(self.study, "annotate", origin=origin, config=config) as writer:
            writer.add({"judges": {"judge": self.expert, "kind": "human"}})
            for item, (score, note) in items:
                key = {**dict(zip(_KEY, item, strict=False)), "judge": self.expert}
                rows: dict[str, Any] = {"judgments": {**key, "score": score}}
                if note:
                    rows["evidence"] = {**key, "reason": note}
                writer.add(rows)
        found = connect(self.study).sql(
            "SELECT count(*) AS verdicts, count(*) FILTER (WHERE score = 1) AS yes "
            "FROM judgments WHERE judge = ?",
            params=[self.expert],
        )
        return found.pl()


_KEY = ("response_id", "criterion", "target_id")


def disagreements(con: duckdb.DuckDBPyConnection, task: str) -> pl.DataFrame:
    """What people saw differently, to be settled together: one row per item.

    Columns: response_id, target_id, votes (expert: score), lowest, highest. Adherence is listed for
    `adherence` and for the name of a dimension. Sorted by response.
    """
    refresh(con)
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
