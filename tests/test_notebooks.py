"""The notebooks run from a clean state, keep to the house limits, and show what they promise."""

from __future__ import annotations

import ast
import base64
import importlib.util
import io
import math
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import numpy as np
import polars as pl
import pytest
from hostile_study import ATTACKS, Page, hostile_study
from PIL import Image

import ragbench as rb
from ragbench import paper

ROOT = Path(__file__).resolve().parent.parent
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
NAMES = [path.name for path in PATHS]
PLOTLY = "application/vnd.plotly.v1+json"
Notebook = nbformat.NotebookNode


def _runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run", ROOT / "notebooks" / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run = _runner()
WRITERS = ("one writer", "another writer")


def _cells(notebook: Notebook, kind: str = "code") -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == kind]


def _outputs(notebook: Notebook) -> list[Any]:
    return [output for cell in _cells(notebook) for output in cell.outputs]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that does not exist yet, for two notebooks to write to."""
    return tmp_path_factory.mktemp("shared") / "shared.duckdb"


@pytest.fixture(scope="module")
def executed(shared: Path) -> dict[str, Notebook]:
    """The notebooks after a run, two kernels at a time.

    The tour ran twice on the shipped study, and "your results" twice into the study `shared`.
    """
    jobs: dict[str, tuple[str, str | None]] = {name: (name, None) for name in NAMES}
    jobs["tour again"] = ("00_tour.ipynb", None)
    jobs |= {label: ("01_your_results.ipynb", str(shared)) for label in WRITERS}
    paper.shipped()
    paper.shipped("simulated")
    with ThreadPoolExecutor(2) as pool:
        futures = {
            label: pool.submit(run.executed, ROOT / "notebooks" / name, study)
            for label, (name, study) in jobs.items()
        }
        return {label: future.result() for label, future in futures.items()}


# ---------------------------------------------------------------- as they are committed


@pytest.fixture(params=PATHS, ids=NAMES)
def committed(request: pytest.FixtureRequest) -> Notebook:
    return nbformat.read(request.param, as_version=4)


def test_title_is_a_question(committed: Notebook) -> None:
    first = committed.cells[0].source.splitlines()[0]
    assert re.fullmatch(r"# .+\?", first)


def test_cells_are_few_and_short(committed: Notebook) -> None:
    code = _cells(committed)
    assert len(code) <= 15
    assert max(len(cell.source.splitlines()) for cell in code) <= 15
    lines = [line for cell in code for line in cell.source.splitlines()]
    assert max(map(len, lines)) <= 88, "a window of half a screen cuts it off"


def test_cells_define_nothing_and_loop_over_nothing(committed: Notebook) -> None:
    refused = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    refused += (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.DictComp, ast.GeneratorExp)
    for cell in _cells(committed):
        found = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, refused)]
        assert not found, cell.source


def test_imports_stand_in_the_first_cell(committed: Notebook) -> None:
    for cell in _cells(committed)[1:]:
        nodes = ast.walk(ast.parse(cell.source))
        assert not any(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes), cell.source


def test_a_sentence_stands_before_each_cell(committed: Notebook) -> None:
    for before, cell in zip(committed.cells, committed.cells[1:], strict=False):
        if cell.cell_type == "code":
            assert before.cell_type == "markdown", cell.source
            assert re.search(r"[.?:]$", before.source.strip()), before.source


def test_findings_are_computed_and_not_typed(committed: Notebook) -> None:
    for cell in _cells(committed, "markdown"):
        text = cell.source.replace("95\u00a0% interval", "")
        assert not re.search(r"\d\s*%|\d\.\d|\bn = \d", text), cell.source


def test_links_lead_to_files(committed: Notebook) -> None:
    for cell in _cells(committed, "markdown"):
        for target in re.findall(r"\]\(([^)#:]+)\)", cell.source):
            assert (ROOT / "notebooks" / target).exists(), target


@pytest.mark.parametrize("name", NAMES)
def test_committed_outputs_are_whole_and_hold_nothing_of_one_machine(name: str) -> None:
    path = ROOT / "notebooks" / name
    text = path.read_text(encoding="utf-8")
    assert len(text) < 1_000_000
    assert not re.search(r"/(?:home|root|tmp|work|Users|var)/\w", text)
    assert not re.search(r" at 0x[0-9a-f]{6}", text)
    notebook = nbformat.reads(text, as_version=4)
    code = _cells(notebook)
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(cell.outputs for cell in code)
    assert all("execution" not in cell.metadata for cell in code), "times are stored"


@pytest.mark.parametrize("name", NAMES)
def test_committed_outputs_are_those_of_a_run_today(
    name: str, executed: dict[str, Notebook]
) -> None:
    stored = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    for then, now in zip(_cells(stored), _cells(executed[name]), strict=True):
        assert _text(then) == _text(now), (
            f"{name}, {then.id}: store the outputs anew with `python notebooks/run.py {name}`"
        )


def _text(cell: Any) -> list[str]:
    """What a cell's outputs say in text; pictures may differ by the fonts of a machine."""
    return [output.get("text") or output.data.get("text/plain", "") for output in cell.outputs]


# ---------------------------------------------------------------- after a run


@pytest.mark.parametrize("name", NAMES)
def test_runs_from_a_clean_state_without_a_word_of_complaint(
    name: str, executed: dict[str, Notebook]
) -> None:
    for output in _outputs(executed[name]):
        assert output.output_type != "error"
        assert output.get("name") != "stderr", output.text
    assert all(cell.outputs for cell in _cells(executed[name])), "a cell shows nothing"


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_traces_and_a_picture_that_is_not_blank(
    name: str, executed: dict[str, Notebook]
) -> None:
    code = _cells(executed[name])
    shows = re.compile(r"rb\.figures\.|[\w.]*figure$")
    promised = [cell for cell in code if shows.match(cell.source.splitlines()[-1])]
    drawn = [cell for cell in code if any(PLOTLY in o.get("data", {}) for o in cell.outputs)]
    assert promised == drawn
    assert len(drawn) >= 2
    for cell in drawn:
        (output,) = cell.outputs
        traces = output.data[PLOTLY]["data"]
        values = [x for trace in traces for x in _values(trace)]
        assert len(values) >= 2
        assert all(math.isfinite(x) for x in values)
        picture = Image.open(io.BytesIO(base64.b64decode(output.data["image/png"])))
        pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
        assert picture.width >= 400
        assert picture.height >= 100
        assert len(np.unique(pixels, axis=0)) > 50
        assert (pixels.min(axis=1) < 200).mean() > 0.01, "almost nothing was drawn"


def _values(trace: dict[str, Any]) -> list[float]:
    """The numbers that a trace shows: along its axes, in its cells, or as shares of a whole."""
    shown = next(trace[name] for name in ("z", "r", "values", "x") if name in trace)
    rows = shown if isinstance(shown, list) and shown and isinstance(shown[0], list) else [shown]
    return [x for row in rows for x in _numbers(row) if x is not None]


def _numbers(values: Any) -> list[float | None]:
    """Values of a trace, which plotly may hold as base64."""
    if isinstance(values, dict):
        kinds = {"f8": "<f8", "i1": "<i1", "i2": "<i2", "i4": "<i4"}
        return list(np.frombuffer(base64.b64decode(values["bdata"]), kinds[values["dtype"]]))
    return list(values)


PAPER = [name for name in NAMES if "against_paper" in (ROOT / "notebooks" / name).read_text()]


@pytest.mark.parametrize("name", PAPER)
def test_notebooks_of_the_paper_end_with_its_cells_beside_ours(
    name: str, executed: dict[str, Notebook]
) -> None:
    last = _cells(executed[name])[-1]
    assert "rb.paper.against_paper(" in last.source
    page = "".join(output.get("data", {}).get("text/html", "") for output in last.outputs)
    assert all(f">{word}<" in page for word in ("rebuilt", "published", "difference", "status"))


@pytest.mark.parametrize("name", PAPER)
def test_notebooks_of_the_paper_say_loudly_what_is_simulated(name: str) -> None:
    first = nbformat.read(ROOT / "notebooks" / name, as_version=4).cells[0].source
    bold = " ".join(re.findall(r"\*\*(.+?)\*\*", first, flags=re.DOTALL))
    assert "simulated" in bold
    assert "result" in bold
    assert "by construction" in first


@pytest.mark.parametrize("name", PAPER)
def test_a_study_that_lacks_much_gets_a_line_and_the_notebook_goes_on(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the recorded study: one model, no LLM judge. In this process, for the time it takes."""
    shown: list[Any] = []
    names: dict[str, Any] = {"display": shown.append}
    with pl.Config():
        for cell in _cells(nbformat.read(ROOT / "notebooks" / name, as_version=4)):
            source = re.sub(r"^STUDY = .*$", "STUDY = rb.paper.shipped()", cell.source, flags=re.M)
            exec(compile(source, f"{name}, {cell.id}", "exec"), names)
    said = capsys.readouterr().out
    assert "simulated" not in said
    for line in re.findall("^Left out.*", said, flags=re.MULTILINE):
        assert re.match(r"Left out here: (?:Table|Figure) \d.*\. [A-Z].+", line), line


def test_chinese_text_is_in_the_tables(executed: dict[str, Notebook]) -> None:
    tables = [
        o.data["text/html"]
        for o in _outputs(executed["00_tour.ipynb"])
        if "data" in o and "text/html" in o.data
    ]
    assert sum(bool(re.search("[\u4e00-\u9fff]{4}", table)) for table in tables) >= 3


def test_two_kernels_read_one_study_at_once(executed: dict[str, Notebook]) -> None:
    tours = (executed["00_tour.ipynb"], executed["tour again"])
    assert [_text(cell) for cell in _cells(tours[0])] == [_text(cell) for cell in _cells(tours[1])]


def test_two_kernels_write_to_one_study_at_once(
    executed: dict[str, Notebook], shared: Path, tmp_path: Path
) -> None:
    rb.load(tmp_path / "alone.duckdb", ROOT / "data/examples/verdicts.csv", origin="simulated")
    alone, both = rb.connect(tmp_path / "alone.duckdb"), rb.connect(shared)
    assert rb.check(both).is_empty()
    columns = "response_id, criterion, target_id, judge, repeat, score, error"
    for relation, names in {"judgments": columns, "responses": "response_id, text"}.items():
        query = f"SELECT {names} FROM {relation} ORDER BY ALL"
        assert both.sql(query).pl().equals(alone.sql(query).pl()), relation
    for label in WRITERS:
        last = _cells(executed[label])[-1].outputs[0].data["text/plain"]
        added = [int(cells[5]) for cells in (line.split() for line in last.splitlines()[6:-1])]
        assert "added" in last
        assert not any(added), "an import that was there already added rows"


# ---------------------------------------------------------------- what goes wrong


def test_a_failed_cell_gives_a_non_zero_exit_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing, out = tmp_path / "no_such_run.duckdb", tmp_path / "out"
    code = run.main(["00_tour.ipynb", "--study", str(missing), "--out", str(out)])
    said = capsys.readouterr().err
    assert code == 1
    assert "00_tour.ipynb: code cell 1 (cell-01" in said
    assert "no_such_run.duckdb" in said
    assert not out.exists()


def test_a_kernel_that_dies_gives_a_non_zero_exit_that_names_the_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [
        nbformat.v4.new_code_cell("import os, signal", id="first"),
        nbformat.v4.new_code_cell("os.kill(os.getpid(), signal.SIGKILL)", id="second"),
        nbformat.v4.new_code_cell("1", id="third"),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "dies.ipynb")
    assert run.main([str(tmp_path / "dies.ipynb")]) == 1
    said = capsys.readouterr().err
    assert "dies.ipynb: code cell 2 (second" in said
    assert "died" in said.lower()


HARMLESS = {
    "div",
    "style",
    "small",
    "table",
    "thead",
    "tbody",
    "tfoot",
    "tr",
    "th",
    "td",
    "span",
    "b",
}


def test_hostile_names_and_texts_stay_text_in_every_output(tmp_path: Path) -> None:
    study = hostile_study(tmp_path / "hostile.duckdb", paper.shipped())
    notebook = run.executed(ROOT / "notebooks" / "00_tour.ipynb", str(study))
    seen = ""
    for output in _outputs(notebook):
        assert output.output_type != "error"
        data = output.get("data", {})
        assert not {"text/markdown", "text/latex", "application/javascript"} & set(data)
        page = Page(data.get("text/html", ""))
        seen += page.text
        assert page.tags <= HARMLESS
        assert not [name for name in page.attributes if name.startswith("on")]
        if "text/html" in data and "$" in page.text:
            assert "mathjax_ignore" in data["text/html"] or "<span>$</span>" in data["text/html"]
        for text in _texts_of(data.get(PLOTLY, {})):
            assert "<img" not in text
            assert "<script" not in text
    assert all(attack[:12] in seen for attack in ATTACKS), "an attack was not put to the test"


def _texts_of(value: Any) -> list[str]:
    """All strings in a figure."""
    if isinstance(value, dict):
        return [text for part in value.values() for text in _texts_of(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in _texts_of(part)]
    return [value] if isinstance(value, str) else []
