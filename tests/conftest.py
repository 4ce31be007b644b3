"""A study of 25 verdicts, small enough to be checked by hand, and what is in it.

Two queries (Chinese, English) with three constraints each, shown with a noise and a gap context,
answered by two models, judged by a rule set (c1) and an LLM (c2, c3, rejection). `model-b` failed
to answer once, the LLM failed to give one verdict, and one constraint's condition did not hold.

                   model-a        model-b
    law-noise      1 1 1(untr.)   1 1 error      rejection  –  –
    law-gap        1 0 1          0 1 1          rejection  1  0
    med-noise      0 1 1          (error)        rejection  –  –
    med-gap        1 1 1          1 1 0          rejection  1  1

Under the panel `llm-judge + rules/1`: `model-a` loose 5/6, strict 1/2 of 4; `model-b` loose 2/3,
strict 0 of 2 judged and 4 planned, loose between 1/2 and 5/6 when all were judged.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy  # noqa: F401  (whole before `pytest.approx` looks at what a thread is importing)
import pytest
import store_worker

import ragbench

RULES, LLM = "rules/1", "llm-judge"

ANSWERS = {
    ("law-noise", "model-a"): "合同自双方签字之日起生效。资料[1]如此规定。",
    ("law-gap", "model-a"): "根据现有资料，无法回答您的问题。",
    ("med-noise", "model-a"): "The leaflet says that adults may take one tablet every six hours, "
    "and at most four in a day.",
    ("med-gap", "model-a"): "The documents do not say; ask a pharmacist.",
    ("law-noise", "model-b"): "合同自签字之日起生效。",
    ("law-gap", "model-b"): "合同一般自双方当事人签字或者盖章之日起成立并生效，但是法律另有规定或者"
    "当事人另有约定的除外，请您留意。",
    ("med-noise", "model-b"): None,
    ("med-gap", "model-b"): "I cannot tell from the documents.",
}
VERDICTS: dict[tuple[str, str], tuple[Any, Any, Any]] = {
    ("law-noise", "model-a"): (1, 1, 1),
    ("law-gap", "model-a"): (1, 0, 1),
    ("med-noise", "model-a"): (0, 1, 1),
    ("med-gap", "model-a"): (1, 1, 1),
    ("law-noise", "model-b"): (1, 1, "no verdict in the reply"),
    ("law-gap", "model-b"): (0, 1, 1),
    ("med-gap", "model-b"): (1, 1, 0),
}
UNTRIGGERED = [("law-noise", "model-a", 3)]
REJECTIONS = {
    ("law-gap", "model-a"): 1,
    ("law-gap", "model-b"): 0,
    ("med-gap", "model-a"): 1,
    ("med-gap", "model-b"): 1,
}


def study_rows() -> dict[str, list[dict[str, Any]]]:
    """All rows of the study by relation, as they are appended."""
    modes = {"law-noise": "noise", "law-gap": "gap", "med-noise": "noise", "med-gap": "gap"}
    rows: dict[str, list[dict[str, Any]]] = {
        "models": [
            {"model": "model-a", "label": "A", "family": "alpha", "is_open": True},
            {"model": "model-b", "label": "乙", "family": "beta", "is_open": False},
        ],
        "judges": [{"judge": RULES, "kind": "rule"}, {"judge": LLM, "kind": "llm", "model": "x"}],
        "queries": [
            {"query_id": "law", "domain": "Legal", "language": "zh", "text": "合同何时生效？"},
            {
                "query_id": "med",
                "domain": "Medical",
                "language": "en",
                "text": "How many tablets may an adult take in a day?",
            },
        ],
        "documents": [
            {"doc_id": "law-1", "text": "合同自双方签字之日起生效。"},
            {"doc_id": "law-2", "text": "仓库每周一盘点。"},
            {"doc_id": "med-1", "text": "Adults: one tablet every six hours, four a day."},
            {"doc_id": "med-2", "text": "Keep the box dry."},
        ],
        "constraints": [
            _constraint("law", 1, "format", "不超过30字。", unit="characters", at_most=30),
            _constraint("law", 2, "audience", "写给没有法律知识的读者。"),
            _constraint("law", 3, "knowledge_gap", "如果资料中没有答案，请明说。"),
            _constraint("med", 1, "format", "At most 12 words.", unit="words", at_most=12),
            _constraint("med", 2, "audience", "Write for patients."),
            _constraint("med", 3, "knowledge_gap", "If the documents do not say, say so."),
        ],
        "instances": [
            {"instance_id": name, "query_id": name[:3], "context_mode": mode}
            for name, mode in modes.items()
        ],
        "instance_constraints": [
            {"instance_id": name, "ordinal": i, "constraint_id": f"{name[:3]}.c{i}"}
            for name in modes
            for i in (1, 2, 3)
        ],
        "contexts": [
            {"instance_id": name, "rank": rank, "doc_id": f"{name[:3]}-{number}", "role": role}
            for name, mode in modes.items()
            for rank, (number, role) in enumerate(
                [(2, "noise")] if mode == "gap" else [(1, "support"), (2, "noise")], start=1
            )
        ],
        "responses": [
            {"instance_id": name, "model": model, "text": text}
            if text is not None
            else {"instance_id": name, "model": model, "error": "timeout after 60 s"}
            for (name, model), text in ANSWERS.items()
        ],
    }
    rows["judgments"], rows["evidence"] = _verdicts()
    return rows


def _constraint(query: str, number: int, dimension: str, text: str, **params: Any) -> dict:
    row = {
        "constraint_id": f"{query}.c{number}",
        "query_id": query,
        "dimension": dimension,
        "text": text,
    }
    return {**row, "rule": "length", "params": params} if params else row


def _verdicts() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    judgments, evidence = [], []
    for (name, model), values in VERDICTS.items():
        for number, value in enumerate(values, start=1):
            key = {
                "response_id": f"{name}/{model}/given_context/0",
                "criterion": "adherence",
                "target_id": f"{name[:3]}.c{number}",
                "judge": RULES if number == 1 else LLM,
            }
            said = {"error": value} if isinstance(value, str) else {"score": float(value)}
            is_triggered = (name, model, number) not in UNTRIGGERED
            judgments.append({**key, **said, "is_triggered": is_triggered})
            evidence.append({**key, "reason": f"because of {name} {number}", "raw": str(value)})
    for (name, model), value in REJECTIONS.items():
        response = f"{name}/{model}/given_context/0"
        key = {"response_id": response, "criterion": "rejection", "target_id": response}
        judgments.append({**key, "judge": LLM, "score": float(value)})
        evidence.append({**key, "judge": LLM, "reason": "拒答" if value else "未拒答"})
    return judgments, evidence


@pytest.fixture(scope="session")
def _built_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("study") / "study.duckdb"
    ragbench.append(path, {**study_rows(), "study": [{"name": "A small study"}]}, origin="recorded")
    return path


@pytest.fixture
def study(_built_study: Path, tmp_path: Path) -> Path:
    """The path of a fresh copy of the small study, origin recorded."""
    path = tmp_path / "study.duckdb"
    shutil.copy(_built_study, path)
    return path


@pytest.fixture
def con(study: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to `study`."""
    connection = ragbench.connect(study)
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def _built_skeleton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("skeleton") / "study.duckdb"
    ragbench.append(path, store_worker.skeleton())
    return path


@pytest.fixture
def path(_built_skeleton: Path, tmp_path: Path) -> Path:
    """The path of a study without answers, to be filled with `store_worker.unit`s."""
    path = tmp_path / "study.duckdb"
    shutil.copy(_built_skeleton, path)
    return path
