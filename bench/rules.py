"""Strict verdicts per second on one core: these rules beside the official IFEval checker.

    python bench/rules.py [RESPONSES.jsonl] [--peer PYTHON] [--rounds N]

RESPONSES holds IFEval prompts with responses. PYTHON (or the variable RAGBENCH_IFEVAL_PEER) is the
interpreter of a separate environment that has lm-eval, nltk with punkt_tab (NLTK_DATA), langdetect
and immutabledict; without it our figure is printed alone. Both sides judge the same responses in
one run, turn by turn, each in a process of its own pinned to the same core. Each judges all of them
once before it is timed, so that neither pays for loading its models.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT.parent / "shared" / "data" / "ifeval" / "ifeval_gpt4.jsonl"
TARGET = 4.0

# Each side reads the rows, judges them once to warm up, and prints its verdicts and CPU seconds.
COMMON = """
import json, os, sys, time
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8") if line.strip()]
def timed(judge):
    for row in rows:
        judge(row)
    start = time.process_time()
    found = [judge(row) for row in rows]
    print(json.dumps({"seconds": time.process_time() - start, "verdicts": found}))
"""
OURS = """
from ragbench.judging.rules import check
def judge(row):
    pairs = zip(row["instruction_id_list"], row["kwargs"])
    return [bool(check(rule, row["response"], params)) for rule, params in pairs]
timed(judge)
"""
OFFICIAL = """
import langdetect
from lm_eval.tasks.ifeval.utils import InputExample, test_instruction_following_strict
langdetect.DetectorFactory.seed = 0  # else it varies from run to run
def judge(row):
    asked = InputExample(row["key"], row["instruction_id_list"], row["prompt"], row["kwargs"])
    return test_instruction_following_strict(asked, row["response"]).follow_instruction_list
timed(judge)
"""


def measured(python: str, script: str, responses: Path) -> tuple[float, list[list[bool]]]:
    """Return CPU seconds and verdicts of one side, run once in a fresh process."""
    done = subprocess.run(
        [python, "-c", COMMON + script, str(responses)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    result = json.loads(done.stdout.splitlines()[-1])
    return result["seconds"], result["verdicts"]


def main() -> int:
    """Print verdicts per second of both sides and their ratio; 1 when it is below the target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("responses", nargs="?", type=Path, default=SAMPLE)
    parser.add_argument("--peer", default=os.environ.get("RAGBENCH_IFEVAL_PEER"))
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if not given.responses.exists():
        print(f"no responses at {given.responses}: name a JSON-lines file of IFEval responses")
        return 2
    spent: dict[str, list[float]] = {"ours": [], "official": []}
    found: dict[str, list[list[bool]]] = {}
    peer = given.peer
    for _ in range(given.rounds):
        seconds, found["ours"] = measured(sys.executable, OURS, given.responses)
        spent["ours"].append(seconds)
        if peer:
            try:
                seconds, found["official"] = measured(peer, OFFICIAL, given.responses)
                spent["official"].append(seconds)
            except (OSError, RuntimeError) as error:
                print(f"the official checker does not run under {peer}: {error}")
                peer = None
    return report(spent, found)


def report(spent: dict[str, list[float]], found: dict[str, list[list[bool]]]) -> int:
    """Print what was measured; return 1 when the ratio misses the target."""
    count = sum(map(len, found["ours"]))
    # The best of the rounds: other work on the machine only ever adds.
    rates = {side: count / min(times) for side, times in spent.items() if times}
    for side, rate in rates.items():
        times = ", ".join(f"{seconds:.2f}" for seconds in spent[side])
        print(f"{side:9} {rate:8.0f} verdicts/s and core  ({count} verdicts in {times} CPU s)")
    if "official" not in rates:
        print("official  not measured: name its interpreter with --peer or RAGBENCH_IFEVAL_PEER")
        return 0
    ours, official = (list(itertools.chain(*found[side])) for side in ("ours", "official"))
    same = sum(one == other for one, other in zip(ours, official, strict=True))
    ratio = rates["ours"] / rates["official"]
    print(f"ratio     {ratio:8.1f} ×, at least {TARGET:.0f} × wanted")
    print(f"agreement {same} of {count}")
    return 0 if ratio >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
