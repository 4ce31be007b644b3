"""Sample logs of lm-evaluation-harness: `samples_<task>_<time>.jsonl`.

- A document becomes a query, `task-doc_id`, with one instance; the task the benchmark.
- A metric becomes a criterion on the response, `metric,filter` where a filter was used, as in the
  harness's own results; `acc` where none was. One judge, `lm_eval`, gave all.
- IFEval's verdict lists become verdicts on constraints, one judge for strict and one for loose
  checking.
- The log does not name the model: it is taken from the `results_<time>.json` beside it, else from
  the folder, and can be given as `map={"model": "=name"}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragbench.errors import ImportFailed
from ragbench.importers.inspect_ai import criterion, scalars
from ragbench.importers.report import Report
from ragbench.importers.tables import Record

_NAME = re.compile(r"samples_(.+)_(\d{4}-\d\d-\d\dT[\d.\-:]+)\.jsonl?")
_LARGEST_RESULTS = 100_000_000


def read_samples(path: Path, records: list[Record], report: Report) -> list[Record]:
    """A row per metric of each sample."""
    match = _NAME.fullmatch(path.name)
    task = match[1] if match else path.stem
    common = {
        "model": _model(path, match[2] if match else None, report),
        "benchmark": task,
        "judge": "lm_eval",
        "judge_kind": "rule",
    }
    rows: list[Record] = []
    skipped: set[str] = set()
    for number, sample in records:
        try:
            response = {**common, **_response(task, sample)}
            rows += [(number, {**response, **verdict}) for verdict in _verdicts(sample, skipped)]
        except (AttributeError, TypeError, ValueError, KeyError, IndexError) as error:
            report.refuse(number, f"not a sample of lm_eval: {error}", "Write the log again.")
    if skipped:
        report.note(
            f"no verdicts on single responses: {', '.join(sorted(skipped))}; they are computed "
            "over the whole task and were left out"
        )
    return rows


def _model(path: Path, time: str | None, report: Report) -> str:
    results = path.with_name(f"results_{time}.json")
    if time and results.is_file() and results.stat().st_size < _LARGEST_RESULTS:
        try:
            document = json.loads(results.read_text(encoding="utf-8"))
            name = document.get("model_name") or document["config"]["model"]
        except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError):
            name = None
        if isinstance(name, str) and name:
            report.note(f"the model is {name!r}, as {results.name} says")
            return name
    name = path.resolve().parent.name
    if not name:
        raise ImportFailed(f'{path} does not name its model; give map={{"model": "=name"}}.')
    report.note(f"the model is called {name!r} after the folder", 'Give map={"model": "=name"}.')
    return name


def _response(task: str, sample: Mapping[str, Any]) -> dict[str, Any]:
    query = f"{task}-{sample['doc_id']}"
    return {
        "query": query,
        "instance": query,
        "query_text": _question(sample.get("arguments")),
        "answers": json.dumps([sample.get("target")], ensure_ascii=False),
        "text": _text(sample.get("resps") or sample.get("filtered_resps")),
        "doc": scalars(sample.get("doc")),
    }


def _question(arguments: object) -> str | None:
    """What the model was given: the first argument of the first request."""
    first: Any = arguments
    if isinstance(arguments, dict):
        first = arguments.get("gen_args_0")
    for _ in range(2):
        if isinstance(first, dict):
            first = first.get("arg_0")
        elif isinstance(first, list):
            first = first[0] if first else None
    return first if first is None or isinstance(first, str) else json.dumps(first)


def _text(responses: Any) -> str | None:
    """The text that was generated; None where only likelihoods were asked for."""
    first = responses
    while isinstance(first, list) and len(first) == 1:
        first = first[0]
    if isinstance(first, list) and first and all(isinstance(part, str) for part in first):
        return None if _is_likelihood(first) else str(first[0])
    return first if isinstance(first, str) else None


def _is_likelihood(pair: list[str]) -> bool:
    return len(pair) == 2 and pair[1] in ("True", "False")


def _verdicts(sample: Mapping[str, Any], skipped: set[str]) -> Iterator[dict[str, Any]]:
    filter_name = sample.get("filter") or "none"
    suffix = "" if filter_name == "none" else f",{filter_name}"
    for metric in sample.get("metrics") or []:
        value = sample.get(metric)
        kinds = (sample.get("doc") or {}).get("instruction_id_list")
        if isinstance(value, (list, tuple)):
            if isinstance(kinds, list) and len(kinds) == len(value):
                yield from _constraint_verdicts(str(metric) + suffix, kinds, value)
            else:
                skipped.add(str(metric))
        elif isinstance(value, (bool, int, float, str)) or value is None:
            yield {"criterion": criterion(f"{metric}{suffix}", "lm_eval"), "score": value}
        else:
            skipped.add(str(metric))


def _constraint_verdicts(metric: str, kinds: list[Any], values: Any) -> Iterator[dict[str, Any]]:
    for place, (kind, value) in enumerate(zip(kinds, values, strict=True), start=1):
        yield {
            "criterion": "adherence",
            "constraint": f"c{place:02d}",
            "constraint_text": str(kind),
            "dimension": str(kind).split(":", 1)[0],
            "judge": f"lm_eval {metric}",
            "score": value,
        }
