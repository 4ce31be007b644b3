"""Processes that fill and read one study, to be started, watched and killed by the tests.

A unit of work is one answer with two verdicts and their evidence, the same whoever makes it; every
seventh is an error first. `python store_worker.py COMMAND PATH …` prints one line of JSON.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import signal
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

import ragbench
from ragbench import checks, store

INSTANCES = 40


def skeleton() -> dict[str, list[dict[str, Any]]]:
    """What the units of work point to."""
    return {
        "judges": [{"judge": "rules/1", "kind": "rule"}],
        "queries": [{"query_id": "q", "domain": "法律", "language": "zh"}],
        "constraints": [
            {
                "constraint_id": f"c{i}",
                "query_id": "q",
                "dimension": "format",
                "rule": "length",
                "params": {"unit": "characters", "at_most": 100 * i},
            }
            for i in (1, 2)
        ],
        "instances": [
            {"instance_id": f"i{i}", "query_id": "q", "context_mode": "gap"}
            for i in range(INSTANCES)
        ],
        "instance_constraints": [
            {"instance_id": f"i{i}", "ordinal": c, "constraint_id": f"c{c}"}
            for i in range(INSTANCES)
            for c in (1, 2)
        ],
    }


def response_id(number: int) -> str:
    return f"i{number % INSTANCES}/m{number // INSTANCES}/given_context/0"


def unit(number: int) -> dict[str, Any]:
    """The rows of one unit of work."""
    made = hashlib.pbkdf2_hmac("sha256", b"work", str(number).encode(), 200).hex()
    key = {"response_id": response_id(number), "criterion": "adherence", "judge": "rules/1"}
    return {
        "responses": {
            "instance_id": f"i{number % INSTANCES}",
            "model": f"m{number // INSTANCES}",
            "text": f"答案 {made} " * (1 + number % 5),
        },
        "judgments": [{**key, "target_id": f"c{c}", "score": int(made[c], 16) % 2} for c in (1, 2)],
        "evidence": [{**key, "target_id": f"c{c}", "reason": made[: 9 * c]} for c in (1, 2)],
    }


def fill(
    path: Path, numbers: Sequence[int], acknowledged: int | None = None, *, is_endless: bool = False
) -> None:
    """Do the units that are not done yet; write the number of each to a file once it is stored.

    Endless: store the same units again and again after that, until somebody ends the process.
    """
    con = ragbench.connect(path)
    done = con.sql("SELECT response_id FROM responses WHERE error IS NULL").fetchall()
    there = {row[0] for row in done}
    with store.step(path, "answer") as writer:
        for number in numbers:
            if response_id(number) in there:
                continue
            rows = unit(number)
            if number % 7 == 0:
                failed = {**rows["responses"], "text": None, "error": "timeout"}
                writer.add({"responses": failed})
            writer.add(rows)
            if acknowledged is not None:
                os.write(acknowledged, f"{number}\n".encode())
        while is_endless:
            writer.add(unit(random.choice(numbers)))


def survive(path: Path, count: int, kills: int, seed: int, acknowledged: Path) -> dict[str, Any]:
    """Start a process that fills the study, kill it, start it again, …; then let one finish.

    By turns the kill comes at a random instant, after some units of work, and in a fold.
    """
    choose = random.Random(seed)
    acks = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    folding = path.with_name(f"{path.name}.fold")
    landed = in_fold = 0
    for turn in range(kills + 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads, of which none runs
            child = os.fork()  # everything is imported, nothing was started: a quick new process
        if child == 0:
            status = 1
            try:
                share = count * (turn + 1) // (kills + 1)
                fill(path, range(share), acks, is_endless=turn < kills)
                status = 0
            finally:
                os._exit(status)
        if turn < kills:
            size = acknowledged.stat().st_size + choose.uniform(1, count / kills)
            until = (
                lambda: False,
                lambda size=size: acknowledged.stat().st_size > size,
                folding.exists,
            )[turn % 3]
            limit = time.monotonic() + (choose.uniform(0, 1) if turn % 3 == 0 else 20)
            while time.monotonic() < limit and not until():
                time.sleep(0.0005)
            time.sleep(choose.uniform(0, 0.1))
            in_fold += folding.exists()
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        landed += os.WIFSIGNALED(status)
        if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status):
            raise SystemExit(f"turn {turn} failed")
    return {"killed": landed, "in_fold": in_fold}


def read(path: Path, stop: Path) -> dict[str, Any]:
    """Look at the study every 50 ms, as a notebook does, until `stop` is there."""
    con = ragbench.connect(path)
    counts: list[int] = []
    look = 0
    while not stop.exists():
        look += 1
        if look % 10 == 0:
            con = ragbench.connect(path)  # the old one is just dropped
        else:
            ragbench.refresh(con)
        counts += con.execute("SELECT count(*) FROM judgments").fetchall()[0]
        scores = ragbench.scores(con, by=())
        assert scores["planned"].sum() >= counts[-1] / 2
        time.sleep(0.05)
    return {"looks": look, "falls": falls(counts), "distinct": len(set(counts))}


def falls(counts: list[int]) -> int:
    return sum(later < earlier for earlier, later in itertools.pairwise(counts))


def append(path: Path, first: int, last: int, size: int) -> dict[str, Any]:
    """Append units in frames of `size`."""
    added = 0
    for start in range(first, last, size):
        units = [unit(number) for number in range(start, min(start + size, last))]
        frames = {
            "responses": pl.DataFrame([u["responses"] for u in units]),
            "judgments": pl.DataFrame([row for u in units for row in u["judgments"]]),
            "evidence": [row for u in units for row in u["evidence"]],
        }
        added += ragbench.append(path, frames, step="answer")["added"].sum()
    return {"added": added}


def main(command: str, path: Path, *rest: str) -> dict[str, Any]:
    if command == "survive":
        return survive(path, int(rest[0]), int(rest[1]), int(rest[2]), Path(rest[3]))
    if command == "read":
        return read(path, Path(rest[0]))
    if command == "append":
        return append(path, *(int(number) for number in rest))
    if command == "fill":
        acks = os.open(rest[2], os.O_WRONLY | os.O_CREAT) if len(rest) > 2 else None
        fill(path, range(int(rest[0]), int(rest[1])), acks)
        return {}
    raise SystemExit(f"no command {command}")


def content(path: Path) -> str:
    return checks.content_hash(ragbench.connect(path))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])))
