"""What a thousand answers and their verdicts cost beside the calls: wall time, CPU and memory.

    python bench/llm.py                 # concurrency 10, 50, 200
    python bench/llm.py --calls 300 --clients ragbench,aiohttp
    python bench/llm.py --python inspect_ai=/a/venv/bin/python --python lm-eval=/b/venv/bin/python

Two servers on loopback, each a process of its own, take 200 ms: one answers, one judges. Prompts
have 12,000 characters. Each answer is judged once; the ideal is calls x latency / concurrency over
all of them. `ragbench` is `answer` and then `judge`, from the opened study to the stored row; the
peers keep nothing, except inspect_ai, which writes its log. Each client runs in a process of its
own and is measured after its imports; memory is the most that was resident, pages of library code
that are first touched among it. A peer that ragbench does not depend on runs where it is installed,
or in the interpreter that --python names.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from llm_peers import PEERS, TEXT, Parts, Task, measured

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

LATENCY = 0.2
WALL_LIMITS = {10: 1.1, 50: 1.1, 200: 1.6}
CPU_LIMIT, MEMORY_LIMIT = 2.5, 80.0
OVER_LITELLM = 2.0  # ms of CPU per call
THROUGH = "ragbench-litellm"
OURS = ("ragbench", THROUGH)
CLIENTS = ("ragbench", "aiohttp", "openai", "lm-eval", "litellm", THROUGH, "inspect_ai")
PARTS = ("answers", "judging")
PEER_FILE = Path(__file__).with_name("llm_peers.py")


# ---------------------------------------------------------------- ragbench


def study(path: Path, calls: int) -> None:
    """Queries with one document and one constraint that only a model can judge."""
    import ragbench as rb

    names = ("queries", "documents", "constraints")
    names += ("instances", "instance_constraints", "contexts")
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for i in range(calls):
        query, constraint, instance = f"q{i}", f"q{i}.c1", f"q{i}-open"
        rows["queries"].append({"query_id": query, "language": "en", "text": f"Why {i}?"})
        rows["documents"].append({"doc_id": f"d{i}", "text": TEXT})
        rows["constraints"].append(
            {"constraint_id": constraint, "query_id": query, "dimension": "audience"}
            | {"text": "Write for newcomers."}
        )
        rows["instances"].append(
            {"instance_id": instance, "query_id": query, "context_mode": "open"}
        )
        rows["instance_constraints"].append(
            {"instance_id": instance, "ordinal": 1, "constraint_id": constraint}
        )
        rows["contexts"].append({"instance_id": instance, "rank": 1, "doc_id": f"d{i}"})
    rb.append(path, rows)


def ours(task: Task, *, by_litellm: bool = False) -> Parts:
    """`answer` and `judge`, to the last stored row."""
    import aiohttp  # noqa: F401
    import duckdb  # noqa: F401
    import polars  # noqa: F401
    import pyarrow  # noqa: F401

    import ragbench as rb
    from ragbench.judging import llm_judge, rules  # noqa: F401
    from ragbench.run import answer

    if by_litellm:
        os.environ |= {"OPENAI_API_KEY": "x", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        import litellm  # noqa: F401

    def asked(model: str, url: str) -> tuple[str, dict[str, Any]]:
        options: dict[str, Any] = {"concurrency": task.concurrency}
        if not by_litellm:
            return model, {**options, "base_url": url}
        os.environ |= {"OPENAI_BASE_URL": url, "OPENAI_API_BASE": url}
        return f"openai/{model}", options

    def answers() -> None:
        model, options = asked("ok", task.answers)
        assert answer(task.folder, model, **options)["answered"].item() == task.calls

    def judging() -> None:
        model, options = asked("honest", task.judging)
        found = rb.judge(task.folder, model, criteria=["adherence"], **options)
        assert found["judged"].item() == task.calls

    return {"answers": answers, "judging": judging}


def stored(path: str) -> tuple[int, int]:
    """How many responses and verdicts are in the file itself."""
    import duckdb

    count = "SELECT count(*) FROM"
    with duckdb.connect(path, read_only=True) as con:
        responses = con.sql(f"{count} responses WHERE text IS NOT NULL").fetchall()
        verdicts = con.sql(f"{count} judgments WHERE score IS NOT NULL").fetchall()
    return int(responses[0][0]), int(verdicts[0][0])


# ---------------------------------------------------------------- the table


def run(name: str, concurrency: int, calls: int, python: str) -> dict[str, Any]:
    """One client in a process of its own, against servers of its own."""
    import judge_server
    import llm_server

    with (
        tempfile.TemporaryDirectory() as folder,
        llm_server.running(Path(folder), latency=LATENCY) as answers,
        judge_server.serve(LATENCY) as judges,
    ):
        place = Path(folder) / "study.duckdb"
        if name in OURS:
            study(place, calls)
        words = (name, answers.base_url, judges.base_url, str(concurrency), str(calls), str(place))
        command = [sys.executable, __file__, "--one"] if name in OURS else [python, str(PEER_FILE)]
        done = subprocess.run([*command, *words], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
        if name in OURS and stored(str(place)) != (calls, calls):
            raise SystemExit(f"{name} stored {stored(str(place))} responses and verdicts")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


HEAD = (
    "                           wall/ideal                CPU ms/call               memory\n"
    "client             at once      all  answers judging      all  answers judging     MB  limits"
)


def line(name: str, concurrency: int, calls: int, found: Mapping[str, Any]) -> str:
    """A line of the table; `-` where a client answers and judges in one go."""
    parts = found["parts"]
    cells = f"{name:<18} {concurrency:>7}"
    for what, unit in (("wall", calls * LATENCY / concurrency), ("cpu", calls / 1000)):
        cells += f" {_total(found, what) / unit / 2:>8.2f}"
        for part in PARTS:
            cells += f" {parts[part][what] / unit:>8.2f}" if part in parts else f" {'-':>8}"
    return f"{cells} {found['memory']:>6.0f}"


def _total(found: Mapping[str, Any], what: str) -> float:
    return float(sum(part[what] for part in found["parts"].values()))


def verdict(name: str, concurrency: int, calls: int, found: Mapping[str, Any], bare: float) -> str:
    """What is claimed of a client, and whether it holds; `bare` is the CPU time of litellm."""
    cpu = _total(found, "cpu") / calls / 2 * 1000
    if name == THROUGH and bare:
        over = cpu - bare / calls / 2 * 1000
        is_met = over <= OVER_LITELLM
        return f"{over:+.2f} ms to litellm, at most {OVER_LITELLM:g}: {_says(is_met)}"
    if name != "ragbench" or concurrency not in WALL_LIMITS:
        return ""
    limit = WALL_LIMITS[concurrency]
    wall = _total(found, "wall") / (2 * calls * LATENCY / concurrency)
    is_met = wall <= limit and cpu <= CPU_LIMIT and found["memory"] <= MEMORY_LIMIT
    return f"{limit:g}, {CPU_LIMIT:g}, {MEMORY_LIMIT:g}: {_says(is_met)}"


def _says(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def table(
    clients: Sequence[str], concurrencies: Sequence[int], calls: int, pythons: Mapping[str, str]
) -> None:
    """Every client at every concurrency, one after the other; a peer that is not there, once."""
    missing: set[str] = set()
    for concurrency in concurrencies:
        bare = 0.0
        for name in clients:
            if name in missing:
                continue
            found = run(name, concurrency, calls, pythons.get(name, sys.executable))
            if found.get("is_missing"):
                missing.add(name)
                print(f"{name:<18} not installed: pip install {PEERS[name].install}")
                continue
            if name == "litellm":
                bare = _total(found, "cpu")
            shown = line(name, concurrency, calls, found)
            print(f"{shown}  {verdict(name, concurrency, calls, found, bare)}".rstrip(), flush=True)


def _pair(given: str) -> tuple[str, str]:
    name, mark, path = given.partition("=")
    if not (name and mark and path):
        raise argparse.ArgumentTypeError(f"{given!r} is not NAME=PATH")
    return name, path


def main() -> None:
    """Run what was asked for, or one client where this process is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=1000, help="answers, and as many verdicts")
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--concurrency", default=",".join(map(str, WALL_LIMITS)))
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", type=_pair)
    parser.add_argument("--one", nargs=6, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        name, answers, judging, concurrency, calls, path = chosen.one
        task = Task(answers, judging, int(concurrency), int(calls), path)
        print(json.dumps(measured(partial(ours, by_litellm=name == THROUGH), task)))
        return
    clients = chosen.clients.split(",")
    pythons = dict(chosen.python)
    if unknown := {*clients, *pythons} - set(CLIENTS):
        parser.error(f"no client {', '.join(sorted(unknown))}; there are {', '.join(CLIENTS)}")
    print(
        f"{chosen.calls:,} answers and as many verdicts, {LATENCY * 1000:.0f} ms each, prompts of "
        f"{len(TEXT):,} characters\n{HEAD}"
    )
    table(clients, [int(n) for n in chosen.concurrency.split(",")], chosen.calls, pythons)


if __name__ == "__main__":
    main()
