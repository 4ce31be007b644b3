"""Explorer and annotator in JupyterLab, as a person uses them: choose, click, read, label."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from webdriver import Browser, Notebook, browser, chromedriver, chromium, lab, wait, write_notebook

import ragbench as rb
from ragbench import labels

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (chromium() and chromedriver()), reason="no Chromium with chromedriver here"
    ),
]
CHOOSE = """
const box = [...area.querySelectorAll('.widget-dropdown, .widget-select-multiple')]
  .find(one => one.querySelector('label')?.textContent.trim() === arguments[1]);
if (!box) return null;
const select = box.querySelector('select');
for (const option of select.options) {
  option.selected = arguments[2].includes(option.textContent.replaceAll('\u00a0', ' '));
}
select.dispatchEvent(new Event('change', {bubbles: true}));
return [...select.selectedOptions].map(one => one.textContent.replaceAll('\u00a0', ' '))
"""
TITLE = "return area.querySelector('.js-plotly-plot .gtitle')?.textContent ?? ''"
DOTS = "return area.querySelectorAll('.js-plotly-plot .trace.scatter path.point').length"
CODE = "return area.querySelector('textarea')?.value ?? ''"
WHERE = """
const dots = [...area.querySelectorAll('.js-plotly-plot .trace.scatter path.point')];
const box = dots[0].getBoundingClientRect();
return [box.x + box.width / 2, box.y + box.height / 2]
"""
LISTED = "return area.querySelectorAll('.widget-select select option').length"
READ = """
const select = [...area.querySelectorAll('.widget-select select')].at(-1);
select.selectedIndex = 0;
select.dispatchEvent(new Event('change', {bubbles: true}));
return select.options[0].innerText
"""
CELLS = """
const box = area.querySelector('.js-plotly-plot .heatmaplayer image').getBoundingClientRect();
return [box.x, box.y, box.width, box.height]
"""
PAGE = "return area.innerText"
SLOW = """
const made = URL.createObjectURL;
URL.createObjectURL = (blob) => made.call(URL, blob.size < 1e6 ? blob : new Blob(
  ["await new Promise(done => setTimeout(done, 4000));\\n", blob], {type: blob.type}));
return 1
"""
FINISH = """
const button = [...area.querySelectorAll('button')].find(one => one.textContent === 'Finish');
button?.click();
return Boolean(button)
"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "notebooks").mkdir()
    shutil.copy(rb.paper.shipped(), folder / "study.duckdb")
    write_notebook(
        folder / "notebooks" / "try.ipynb",
        "import ragbench as rb\ncon = rb.connect('../study.duckdb')",
        "rb.explorer(con, {'metric': 'loose_ias', 'by': 'domain'})",
        "rb.annotator('../study.duckdb', 'format', 'eva', n=4, seed=1)",
    )
    return folder


@pytest.fixture(scope="module")
def places(workplace: Path) -> Iterator[tuple[Browser, str]]:
    with browser(workplace) as window, lab(workplace / "notebooks", workplace) as address:
        yield window, address


def _kept(window: Browser, name: str) -> None:
    """The screen as a file, for people who want to look (RAGBENCH_SHOTS names a folder)."""
    if folder := os.environ.get("RAGBENCH_SHOTS"):
        (Path(folder) / f"{name}.png").write_bytes(window.screenshot())


def test_a_person_filters_compares_reads_labels_and_finds_the_label_again(
    places: tuple[Browser, str], workplace: Path
) -> None:
    window, address = places
    window.resize(1280, 1400)
    notebook = Notebook(window, address, "try.ipynb")
    notebook.wait_for_kernel()
    notebook.run_all()

    # Choose: the picture and the code follow.
    assert wait(lambda: notebook.in_output(1, DOTS), "the dots of the explorer") >= 6
    notebook.show(1)
    assert notebook.in_output(1, CHOOSE, "by", ["setting"]) == ["setting"]
    wait(lambda: '"setting"' in notebook.in_output(1, CODE), "the code of the new grouping")
    assert wait(lambda: notebook.in_output(1, DOTS) == 2, "two settings")
    _kept(window, "explorer")

    # Filter.
    assert notebook.in_output(1, CHOOSE, "language", ["zh"]) == ["zh"]
    wait(lambda: "'language': 'zh'" in notebook.in_output(1, CODE), "the filter in the code")
    assert "zh" in wait(lambda: notebook.in_output(1, TITLE), "a title")

    # Compare.
    assert notebook.in_output(1, CHOOSE, "a", ["setting: constraints_last"]) == [
        "setting: constraints_last"
    ]
    assert notebook.in_output(1, CHOOSE, "b", ["setting: given_context"]) == [
        "setting: given_context"
    ]
    notebook.in_output(1, CHOOSE, "view", ["paired"])
    wait(lambda: "Holm-adjusted p" in notebook.in_output(1, PAGE), "the test of the comparison")
    _kept(window, "paired")
    notebook.in_output(1, CHOOSE, "view", ["dots"])
    wait(lambda: notebook.in_output(1, DOTS) == 2, "dots again")
    shapes = "return area.querySelector('.js-plotly-plot').layout.shapes?.length ?? 0"
    wait(lambda: notebook.in_output(1, shapes) == 0, "the line of the comparison gone")

    # Click on a dot, read a response behind it.
    notebook.show(1)
    x, y = notebook.in_output(1, WHERE)
    window.click(x, y)
    chinese = rb.connect(workplace / "study.duckdb").sql(
        "SELECT count(*) FROM response_scores WHERE language = 'zh' AND setting = 'given_context'"
    )
    behind = chinese.fetchall()[0][0]
    wait(lambda: notebook.in_output(1, LISTED) >= behind, "the rows behind the dot")
    notebook.in_output(1, READ)
    wait(lambda: "Every requirement" in notebook.in_output(1, PAGE), "the reading")
    _kept(window, "reading")

    # Label with the keyboard; reload; the label is there.
    notebook.show(2)
    notebook.in_output(2, "area.querySelector('.ragbench-keys').focus(); return 1")
    window.press("y")
    wait(lambda: "1 of 4 labelled" in notebook.in_output(2, PAGE), "the first label")
    window.press("n")
    wait(lambda: "2 of 4 labelled" in notebook.in_output(2, PAGE), "the second label")
    _kept(window, "annotator")
    given = labels.Labels(workplace / "study.duckdb", "format", "eva")
    assert [given.labels[at][0] for at in (0, 1)] == [1.0, 0.0]
    notebook.save()
    notebook.shut_down()
    again = Notebook(window, address, "try.ipynb")
    again.wait_for_kernel()
    again.run_all()
    wait(lambda: "2 of 4 labelled" in (again.in_output(2, PAGE) or ""), "the labels after a reload")
    again.shut_down()


def test_every_view_is_drawn_and_a_person_checks_instances(
    places: tuple[Browser, str], workplace: Path
) -> None:
    views = list(rb.exploring.VIEWS)
    start = {"a": {"setting": "constraints_last"}, "b": {"setting": "given_context"}}
    study = workplace / "checked.duckdb"
    shutil.copy(rb.paper.shipped(), study)
    write_notebook(
        workplace / "notebooks" / "views.ipynb",
        "import ragbench as rb\ncon = rb.connect('../checked.duckdb')",
        *(f"rb.explorer(con, {start | {'view': view}!r})" for view in views),
        "rb.annotator('../checked.duckdb', 'context_validity', 'eva', n=2, seed=1)",
    )
    window, address = places
    window.resize(700, 1400)
    notebook = Notebook(window, address, "views.ipynb")
    notebook.wait_for_kernel()
    notebook.run_all()
    for number, view in enumerate(views, 1):
        notebook.show(number)
        wait(lambda number=number: notebook.in_output(number, TITLE), f"the title of {view}")
        assert not notebook.in_output(number, "return area.querySelector('.modebar-btn')"), view
        _kept(window, f"view-{view.replace(' ', '-')}")

    # A click on a cell lists what is behind it.
    number = views.index("heatmap") + 1
    notebook.show(number)
    x, y, wide, high = notebook.in_output(number, CELLS)
    window.click(x + wide / 12, y + high / 2)  # the first of six domains
    domain = rb.scores(rb.connect(study), "domain", metrics=["strict_ias"])["domain"][0]
    wait(lambda: f"domain = {domain}:" in notebook.in_output(number, PAGE), "the responses")
    _kept(window, "cell")

    # A failed check is stored when the person says so twice.
    last = len(views) + 1
    notebook.show(last)
    notebook.in_output(last, "area.querySelector('.ragbench-keys').focus(); return 1")
    window.press("n")
    wait(lambda: "1 of 2 labelled" in notebook.in_output(last, PAGE), "the first check")
    assert notebook.in_output(last, FINISH)
    wait(lambda: "press Finish again" in notebook.in_output(last, PAGE), "the question")
    _kept(window, "checks")
    assert notebook.in_output(last, FINISH)
    wait(lambda: "1 verdicts of eva stored" in notebook.in_output(last, PAGE), "the rows")
    found = rb.connect(study).sql("SELECT \"check\", passed FROM verifications WHERE judge = 'eva'")
    assert found.fetchall() == [("context_validity", False)]
    notebook.shut_down()


def test_a_picture_whose_code_loads_slowly_follows_what_was_chosen_meanwhile(
    places: tuple[Browser, str], workplace: Path
) -> None:
    write_notebook(
        workplace / "notebooks" / "slow.ipynb",
        "import ragbench as rb\ncon = rb.connect('../study.duckdb')",
        "shown = rb.explorer(con, {'metric': 'loose_ias', 'by': 'domain'})\nshown",
        "shown.state = shown.state | {'by': 'setting'}",
    )
    window, address = places
    notebook = Notebook(window, address, "slow.ipynb")
    notebook.wait_for_kernel()
    window.run(SLOW)  # longer than anywidget waits for a widget's code
    notebook.run_all()
    assert wait(lambda: notebook.in_output(1, DOTS), "the dots of the explorer") == 2
    notebook.in_output(1, CHOOSE, "by", ["domain"])
    assert wait(lambda: notebook.in_output(1, DOTS) == 6, "six domains")
    notebook.shut_down()
