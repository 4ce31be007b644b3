"""The conformance suite: our rules meet it, and others can take it."""

from __future__ import annotations

import collections
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ragbench.errors import ImportFailed
from ragbench.judging import conformance
from ragbench.judging.rules import RULES, argument_problems, check

ROOT = Path(__file__).resolve().parents[1]
CASES = conformance.cases()

pytest.importorskip("py3langid", reason="a dependency of ragbench is absent")
pytest.importorskip("pypinyin", reason="a dependency of ragbench is absent")


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_our_rules_meet_the_case(case: dict[str, Any]) -> None:
    verdict = check(case["rule"], case["text"], case["params"], context=case.get("context"))
    assert bool(verdict) == case["expected"], f"{case['why']}; measured: {verdict.reason}"


def test_the_suite_is_large_and_even() -> None:
    languages = collections.Counter(case["language"] for case in CASES)
    assert len(CASES) >= 400
    assert min(languages["zh"], languages["en"]) >= 0.45 * len(CASES)
    assert {case["rule"] for case in CASES} == set(RULES)
    assert len({case["id"] for case in CASES}) == len(CASES)
    verdicts = collections.Counter(case["expected"] for case in CASES)
    assert min(verdicts.values()) >= 0.4 * len(CASES)


def test_every_case_is_well_formed() -> None:
    for case in CASES:
        assert argument_problems(case["rule"], case["params"]) == []
        assert case["why"]
        assert case["language"] in ("zh", "en")


def test_another_checker_takes_part_through_one_function() -> None:
    results = conformance.run(lambda rule, text, params, context: None)
    assert results["agrees"].null_count() == len(CASES)
    naive = conformance.run(lambda rule, text, params, context: True)
    assert naive["agrees"].sum() == sum(case["expected"] for case in CASES)

    def broken(rule: str, text: str, params: object, context: object) -> bool:
        raise ValueError("no")

    failed = conformance.run(broken)
    assert failed["error"].unique().to_list() == ["ValueError: no"]
    assert failed["agrees"].sum() == 0
    assert conformance.summary(failed)["errors"].sum() == len(CASES)


def test_the_ten_lines_of_the_docs_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run with a stand-in of the official registry that answers with our own verdicts."""
    page = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(from lm_eval.*?)```", page, flags=re.DOTALL)
    body = [line for line in code.splitlines() if line.strip()]
    assert len(body) <= 10

    class Instruction:
        def __init__(self, name: str) -> None:
            self.name = name

        def build_description(self, **params: object) -> None:
            self.params = params

        def check_following(self, text: str) -> bool:
            return bool(check(self.name, text, self.params))

    name = "lm_eval.tasks.ifeval.instructions_registry"
    for part in ("lm_eval", "lm_eval.tasks", "lm_eval.tasks.ifeval", name):
        monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
    official = {key: Instruction for key in RULES if ":" in key}
    monkeypatch.setattr(sys.modules[name], "INSTRUCTION_DICT", official, raising=False)
    space: dict[str, Any] = {}
    exec(code, space)
    assert "agreed" in capsys.readouterr().out
    results = space["run"](space["official"])
    assert results["agrees"].drop_nulls().all()
    assert results["agrees"].null_count() == sum(":" not in case["rule"] for case in CASES)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r"rules_conformance\.jsonl"):
        conformance.cases(tmp_path / "none.jsonl")
