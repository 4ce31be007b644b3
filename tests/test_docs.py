"""The README's examples run, and it mentions every command and public name that it should."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ragbench as rb
from ragbench import cli

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = [
    line
    for block in re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)
    for line in block.splitlines()
    if line.startswith("ragbench ")
]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the project's data in it, so that examples leave nothing in the checkout."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "data").symlink_to(ROOT / "data")
    return folder


def test_readme_python_examples_run(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    names: dict[str, object] = {}
    for block in PYTHON:
        exec(compile(block, "README.md", "exec"), names)
    assert Path("figures/out/my_gap.html").stat().st_size > 100_000
    assert {path.suffix for path in Path("figures/out").glob("my_gap.*")} >= {
        ".html",
        ".csv",
        ".json",
    }


def test_recipes_run_and_each_answers_its_question() -> None:
    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    first, *recipes = re.findall(r"\*\*(.+?)\*\*|```python\n(.*?)```", text, flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(first[1], names)
    questions = [question for question, _ in recipes if question]
    blocks = [block for _, block in recipes if block]
    assert len(blocks) == len(questions) >= 15, "every question has its answer"
    for question, block in zip(questions, blocks, strict=True):
        *before, last = ast.parse(block).body
        assert isinstance(last, ast.Expr), question
        exec(compile(ast.Module(before, []), question, "exec"), names)
        answer = eval(compile(ast.Expression(last.value), question, "eval"), names)
        assert isinstance(answer, pl.DataFrame), question
        assert answer.height, question
        lines = [line for line in block.splitlines() if line.strip()]
        assert len(lines) <= 9, question


def test_readme_commands_run_in_the_order_they_stand(workplace: Path) -> None:
    program = Path(sys.executable).with_name("ragbench")
    for line in COMMANDS:
        done = subprocess.run(
            [program, *line.split()[1:]], cwd=workplace, capture_output=True, text=True, check=False
        )
        # 3: done, and something was left out and listed. The example file has such lines.
        assert done.returncode in (0, 3), f"{line}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == 0 or line.startswith("ragbench import"), line


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_readme_shows_every_command(command: str) -> None:
    assert f"ragbench {command}" in README


def test_every_command_is_listed() -> None:
    names = {command.name or command.callback.__name__ for command in cli.app.registered_commands}
    assert names == set(cli.COMMANDS)


def test_every_public_name_loads_and_says_what_it_gives() -> None:
    for name in rb.__all__:
        value = getattr(rb, name)
        assert name == "__version__" or (value.__doc__ or "").strip(), name


def test_local_links_of_the_documents_lead_somewhere() -> None:
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    ]:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_lock_holds_hashes_and_no_address() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    pinned = re.findall(r"^\S+==\S+.*\\$", lock, flags=re.MULTILINE)
    assert len(pinned) > 100
    assert lock.count("--hash=sha256:") >= len(pinned)


def test_tracked_text_names_no_path_of_one_machine() -> None:
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    if not files:
        pytest.skip("not a git checkout")
    for name in files:
        path = ROOT / name
        if path.suffix in {".parquet", ".png", ".pdf"} or not path.exists():
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        assert not re.search(r"/(?:home|root|work|Users)/\w", text), name
