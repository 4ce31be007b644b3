"""Running a cell again closes what it showed before, and nothing else."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import duckdb
import pytest
from ipywidgets.widgets.widget import _instances

import ragbench as rb


@pytest.fixture
def run(monkeypatch):
    """Runs what is given in a cell of a notebook, as the request of that number."""

    def run(cell, message, make):
        request = {"header": {"msg_id": message}, "metadata": {"cellId": cell}}
        shell = SimpleNamespace(parent_header=request)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        return make()

    return run


@pytest.mark.parametrize(
    "make",
    [lambda path, con: rb.explorer(con), lambda path, con: rb.annotator(path, "rejection", "ann")],
    ids=["explorer", "annotator"],
)
def test_a_cell_that_runs_again_leaves_no_widget_behind(run, study, con, make):
    other = run(f"other {make}", "0", lambda: make(study, con))
    sizes = []
    for message in "123":
        kept = run(f"this {make}", message, lambda: make(study, con))
        sizes.append(len(_instances))
    assert len(set(sizes)) == 1
    assert other.comm is not None
    assert kept.comm is not None


def test_a_cell_may_show_several(run, con):
    def both():
        return [rb.explorer(con), rb.explorer(con, {"by": "domain"})]

    first = run("pair", "1", both)
    assert all(shown.comm is not None for shown in first)
    second = run("pair", "2", both)
    assert all(shown.comm is None for shown in first)
    assert all(shown.comm is not None for shown in second)


def test_an_annotator_that_is_closed_holds_no_study(run, study):
    made = run("label", "1", lambda: rb.annotator(study, "rejection", "ann"))
    run("label", "2", lambda: rb.annotator(study, "rejection", "ann"))
    with pytest.raises(duckdb.ConnectionException):
        made._con.execute("SELECT 1")
