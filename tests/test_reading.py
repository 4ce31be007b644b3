"""One response as a reading: what it shows agrees with the rows, and nothing in it acts."""

from __future__ import annotations

import html
import re
from pathlib import Path

import duckdb
import pytest
from hostile_study import ATTACKS, Page, hostile_study

import ragbench as rb
from ragbench import paper, reading
from ragbench.errors import UnknownName
from ragbench.style import clean

CASE = "energy-04-gap/local/smollm2-135m-instruct/given_context/0"


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return rb.connect(paper.shipped())


def test_failing_responses_are_those_that_are_not_strict(con: duckdb.DuckDBPyConnection) -> None:
    failed = reading.failing(con)
    strict = con.sql("SELECT count(*) FILTER (strict_ias = 0) FROM adherence_summary").fetchall()
    assert failed.height == strict[0][0]
    assert (failed["satisfied"] < failed["planned"]).all()
    flags = failed["is_gap_missed"].to_list()
    assert flags == sorted(flags, reverse=True), "the paper's kind of failure comes first"
    assert set(failed.filter("is_gap_missed")["context_mode"]) == {"gap"}
    assert set(reading.failing(con, {"domain": "Legal"})["domain"]) == {"Legal"}


def test_verdicts_are_the_rows_of_the_response(con: duckdb.DuckDBPyConnection) -> None:
    judged = reading.verdicts(con, CASE)
    scores = con.execute(
        "SELECT score FROM judgments JOIN instance_constraints AS i ON constraint_id = target_id "
        "WHERE response_id = ? AND i.instance_id = 'energy-04-gap' ORDER BY ordinal",
        [CASE],
    ).fetchall()
    words = ["met" if score else "not met" for (score,) in scores]
    assert judged["verdict"].to_list() == words
    assert judged["ordinal"].to_list() == list(range(1, len(words) + 1))
    assert judged["reason"].null_count() == 0


def test_a_verdict_that_could_not_be_read_is_no_failure(
    con: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    file = tmp_path / "errors.duckdb"
    rb.export(con, tmp_path / "rows")
    rb.load_folder(file, tmp_path / "rows")
    own = duckdb.connect(str(file))
    (first, second, third, *_) = own.execute(
        "SELECT target_id FROM judgments WHERE response_id = ? ORDER BY target_id", [CASE]
    ).fetchall()
    change = "UPDATE judgments SET {} WHERE response_id = ? AND target_id = ?"
    own.execute(change.format("score = NULL, error = 'unparsed'"), [CASE, *first])
    own.execute(change.format("is_triggered = false, score = 1"), [CASE, *second])
    own.execute("DELETE FROM judgments WHERE response_id = ? AND target_id = ?", [CASE, *third])
    own.close()
    shown = reading.verdicts(rb.connect(file), CASE).filter(category="output")["verdict"]
    assert shown.to_list()[:3] == ["error: unparsed", "not triggered", "not judged"]


def test_the_page_holds_query_documents_response_and_reasons(
    con: duckdb.DuckDBPyConnection,
) -> None:
    made = reading.reading(con, CASE)
    page = Page(made._repr_html_())
    papers = reading.documents(con, CASE)
    assert papers["role"].to_list() == ["noise"] * 3
    for text in [made.head["query"], made.head["response"], *papers["text"], "✗ not met"]:
        assert text in page.text
        assert text.removeprefix("✗ ") in str(made)
    assert "recorded" in page.text


def test_the_same_instance_has_a_cell_per_response_and_requirement(
    con: duckdb.DuckDBPyConnection,
) -> None:
    same = reading.same_instance(con, CASE)
    assert set(same["response"]) == {"constraints_last", "given_context"}
    own = same.filter(response="given_context")["met"].to_list()
    assert own == [float(v == "met") for v in reading.verdicts(con, CASE)["verdict"]]


def test_a_response_that_is_not_there_is_named(con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(UnknownName, match="energy-04-gab"):
        reading.reading(con, CASE.replace("gap", "gab"))


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    con = rb.connect(hostile_study(tmp_path / "hostile.duckdb", paper.shipped()))
    seen = ""
    for case in reading.failing(con)["response_id"].head(6):
        page = reading.reading(con, case)._repr_html_()
        read = Page(page)
        seen += read.text
        assert read.tags <= {"div", "small", "b", "br", "table", "tbody", "tr", "td", "span", "wbr"}
        assert read.attributes <= {"style", "class"}
        assert "mathjax_ignore" in page
        assert "\u202e" not in page
    assert all(clean(attack)[:12] in seen for attack in ATTACKS), (
        "an attack was not put to the test"
    )


def test_a_long_address_may_break_and_reads_the_same(study: Path) -> None:
    address = f"https://example.org/{'a' * 200}?q=<b>&x=$1$"
    text = f"see {address} and 参见{address}。"
    edited = duckdb.connect(str(study))
    edited.execute("UPDATE queries SET text = ?", [text])
    edited.close()
    con = rb.connect(study)
    case = con.sql("SELECT min(response_id) FROM responses WHERE error IS NULL").fetchall()[0][0]
    page = reading.reading(con, case)._repr_html_()
    assert text in Page(page).text
    pieces = re.split(r"<wbr>|<br>|</?\w[^>]*>|\s", page[page.index("https:") :])
    assert max(len(html.unescape(piece)) for piece in pieces[:30]) <= 34
