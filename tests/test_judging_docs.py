"""The examples of docs/judging.md run, against a judge on loopback."""

from __future__ import annotations

import re
from pathlib import Path

import judge_server
import pytest
from test_judge_llm import rows

import ragbench as rb

PAGE = (Path(__file__).resolve().parent.parent / "docs/judging.md").read_text(encoding="utf-8")


def test_the_examples_run_and_say_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```markdown\n(.*?)```", PAGE, re.DOTALL):
        Path(name).write_text(text, encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert "openai/" in blocks[0]  # needs a key; its second line is what the others do
    with judge_server.serve() as server:
        path = tmp_path / "my.duckdb"
        rb.append(path, rows())
        names = {"rb": rb, "path": path, "con": rb.connect(path), "url": server.base_url}
        for block in blocks[1:]:
            for line in block.strip().splitlines():
                code, _, comment = line.partition("#")
                expected = comment.strip().strip("'").rstrip("…").strip()
                if not code.strip():
                    continue
                try:
                    value = eval(code.strip(), names)
                except SyntaxError:
                    exec(code.strip(), names)
                    continue
                if isinstance(value, str):
                    assert value.startswith(expected.removesuffix("'").strip())
                elif "rate" in comment:
                    assert "rate" in " ".join(value.columns)


def test_every_field_of_a_head_and_every_prompt_is_on_the_page() -> None:
    from ragbench import prompts
    from ragbench.judging.questions import BLANKS

    for name in set(prompts.names()) & {"adherence", "rejection", "conflict", "coverage"}:
        assert f"`{name}`" in PAGE
    for blank in set(BLANKS) - {"constraint", "claims"}:
        assert f"`${blank}`" in PAGE
