"""Results of promptfoo, as its JSON or JSON Lines output has them.

- A test becomes a query, `promptfoo-` and a hash of its variables, so that two runs of one test
  meet; a further result of the same test, provider and prompt is a further trial.
- An assertion becomes a constraint with its type as dimension, an assertion set one constraint; its
  `pass` is the verdict. A verdict whose pass and score contradict each other, or whose grader
  failed, is an error.
- The provider is the model, the prompt's label the setting, and `promptfoo` the judge of all.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragbench.importers.inspect_ai import scalars
from ragbench.importers.report import Report
from ragbench.importers.tables import Record

_BY_MODEL = ("llm-rubric", "model-graded", "factuality", "g-eval", "answer-relevance", "context-")
_LONGEST_LABEL = 60
_NOT_RUN = 2  # promptfoo's failureReason for an error, as opposed to a failed assertion


def read_results(path: Path, document: Mapping[str, Any], report: Report) -> list[Record]:
    """A row per assertion of each result of a JSON file."""
    results = document["results"]
    listed = results["results"] if isinstance(results, dict) else results
    report.note("`line` is the place of the result in the file, from 1")
    return read_lines(path, list(enumerate(listed, start=1)), report)


def read_lines(path: Path, records: list[Record], report: Report) -> list[Record]:
    """A row per assertion of each (line, result)."""
    rows: list[Record] = []
    trials: Counter[tuple[Any, ...]] = Counter()
    kind = "llm" if any(_is_graded_by_model(result) for _, result in records) else "rule"
    for number, result in records:
        try:
            response = {**_response(result), "judge": "promptfoo", "judge_kind": kind}
            verdicts = list(_verdicts(result))
            key = (response["query"], response["model"], response["setting"])
            response["trial"] = trials[key]
        except (AttributeError, TypeError, ValueError, KeyError, IndexError) as error:
            report.refuse(number, f"not a result of promptfoo: {error}", "Write the file again.")
            continue
        trials[key] += 1
        if response["response_error"] or not verdicts:
            verdicts = [{"judge": None}]
        rows += [(number, {**response, **verdict}) for verdict in verdicts]
    return rows


def _response(result: Mapping[str, Any]) -> dict[str, Any]:
    given = result.get("vars") or {}
    test = result.get("testCase") or {}
    provider = result.get("provider") or {}
    if isinstance(provider, str):
        provider = {"id": provider}
    answer = result.get("response") or {}
    if isinstance(answer, str):
        answer = {"output": answer}
    usage = answer.get("tokenUsage") or {}
    error = answer.get("error")
    if result.get("failureReason") == _NOT_RUN:
        error = error or result.get("error") or "not run"
    output = answer.get("output")
    query = f"promptfoo-{_hash(given)}"
    latency = result.get("latencyMs")
    return {
        "query": query,
        "instance": query,
        "query_text": _question(given),
        "benchmark": "promptfoo",
        "model": provider.get("label") or provider.get("id"),
        "setting": _setting(result),
        "text": None if error else output if isinstance(output, str) else _json(output),
        "response_error": error,
        "input_tokens": usage.get("prompt"),
        "output_tokens": usage.get("completion"),
        "cached_tokens": usage.get("cached"),
        "cost": answer.get("cost"),
        "seconds": latency / 1000 if isinstance(latency, (int, float)) else None,
        "vars": scalars(given),
        "metadata": scalars(test.get("metadata")),
    }


def _question(given: Mapping[str, Any]) -> str | None:
    """The only variable, the one that is called like a question, or all of them."""
    for name in ("query", "question", "q", "input", "prompt"):
        if isinstance(given.get(name), str):
            return str(given[name])
    texts = [value for value in given.values() if isinstance(value, str)]
    return texts[0] if len(texts) == len(given) == 1 else _json(given)


def _setting(result: Mapping[str, Any]) -> str:
    prompt = result.get("prompt") or {}
    label = str(prompt.get("label") or prompt.get("raw") or "prompt")
    if len(label) > _LONGEST_LABEL or "\n" in label:
        return f"prompt-{_hash(label)}"
    return label


def _verdicts(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """One verdict per assertion; the parts of an assertion set follow it in the list."""
    grading = result.get("gradingResult") or {}
    parts = grading.get("componentResults") or []
    place = ordinal = 0
    while place < len(parts):
        part = parts[place]
        inner = part.get("componentResults") or []
        place += 1 + (len(inner) if not part.get("assertion") else 0)
        ordinal += 1
        yield {**_constraint(ordinal, part, inner), **_verdict(part)}


def _constraint(ordinal: int, part: Mapping[str, Any], inner: list[Any]) -> dict[str, Any]:
    assertion = part.get("assertion") or {}
    kind = str(assertion.get("type") or "assert-set")
    value = assertion.get("value")
    text = value if isinstance(value, str) else _json(value)
    if inner and not assertion:
        text = "; ".join(_constraint(0, each, [])["constraint_text"] for each in inner)
    name = assertion.get("metric")
    return {
        "criterion": "adherence",
        "constraint": f"c{ordinal:02d}" + (f" {name}" if name else ""),
        "constraint_text": f"{kind}: {text}" if text else kind,
        "dimension": kind,
    }


def _verdict(part: Mapping[str, Any]) -> dict[str, Any]:
    passed, score = part.get("pass"), part.get("score")
    found: dict[str, Any] = {"score": passed, "reason": part.get("reason")}
    if (part.get("metadata") or {}).get("graderError"):
        return {**found, "score": None, "error": f"grader failed: {part.get('reason')}"}
    if isinstance(passed, bool) and score in (0, 1) and bool(score) != passed:
        found["score"] = f"pass {passed}, score {score}"
    return found


def _is_graded_by_model(result: Mapping[str, Any]) -> bool:
    test = result.get("testCase") if isinstance(result, dict) else None
    asserts = test.get("assert") if isinstance(test, dict) else None
    return any(
        str(one.get("type", "")).removeprefix("not-").startswith(_BY_MODEL)
        for one in asserts or []
        if isinstance(one, dict)
    )


def _hash(value: object) -> str:
    return hashlib.sha256((_json(value) or "").encode("utf-8", "replace")).hexdigest()[:8]


def _json(value: object) -> str | None:
    if value is None:
        return None
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
