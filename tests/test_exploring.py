"""The explorer and the reader: what they show is what the rows say, and nothing in it acts."""

from __future__ import annotations

import itertools
import re

import polars as pl
import pytest
from hostile_study import ATTACKS, hostile_study
from polars.testing import assert_frame_equal

import ragbench as rb
from ragbench import exploring, reader, render, taxonomy, widgets
from ragbench.errors import RagbenchError, UnknownColumn, UnknownName


@pytest.fixture(scope="module")
def con():
    return rb.connect(rb.paper.shipped())


# ---------------------------------------------------------------- what a state shows


def test_the_frame_of_a_state_is_what_its_code_gives(con):
    states = [
        {},
        {"by": "domain", "metric": "loose_ias", "where": {"context_mode": ["gap", "noise"]}},
        {"view": "heatmap", "by": "setting", "across": "language"},
        {"by": "dimension", "where": {"language": "zh"}},
        {"view": "profile", "where": {"domain": "Legal"}},
        {
            "view": "paired",
            "a": {"setting": "constraints_last"},
            "b": {"setting": "given_context"},
            "where": {"language": "en"},
        },
        {"view": "failing together"},
    ]
    for state in states:
        shown = exploring.look(con, state)
        names = {"rb": rb, "con": con}
        exec(shown.code.splitlines()[0], names)
        assert_frame_equal(names["frame"], shown.frame)
        assert len(shown.figure.data), state


def test_a_state_that_cannot_be_shown_says_why(con):
    with pytest.raises(UnknownName, match="view"):
        exploring.look(con, {"view": "dot"})
    with pytest.raises(UnknownName, match="metrc"):
        exploring.look(con, {"metrc": "strict_ias"})
    with pytest.raises(UnknownColumn, match="domian"):
        exploring.look(con, {"by": "domian"})
    with pytest.raises(RagbenchError, match="two groupings"):
        exploring.look(con, {"view": "heatmap", "by": "model", "across": "model"})


def test_an_empty_slice_and_a_small_one_say_so(con):
    nothing = exploring.look(con, {"where": {"context_mode": "counterfactual"}})
    assert nothing.frame.is_empty()
    assert "Nothing in this slice" in nothing.notes[0]
    assert nothing.figure.layout.annotations
    one = con.sql("SELECT min(query_id) FROM queries").fetchall()[0][0]
    small = exploring.look(con, {"where": {"query_id": one}})
    n = small.frame["strict_ias_n"].item()
    assert small.notes == [f"Small: n = {n}."]


def test_a_state_with_a_value_of_another_study_is_refused(con):
    with pytest.raises(UnknownName, match="the study has no domain 'Nowhere'"):
        exploring.look(con, {"where": {"domain": ["Legal", "Nowhere"]}})


def test_failing_together_equals_a_count_of_single_verdicts(con):
    made = exploring.failing_together(con, {"language": "zh"})
    verdicts = con.sql(
        "SELECT response_id, dimension, score FROM constraint_verdicts "
        "JOIN responses USING (response_id) JOIN instances USING (instance_id) "
        "JOIN queries USING (query_id) WHERE language = 'zh' AND score IS NOT NULL "
        "AND is_triggered IS DISTINCT FROM false"
    ).fetchall()
    failed: dict[str, dict[str, bool]] = {}
    for response, dimension, score in verdicts:
        found = failed.setdefault(response, {})
        found[dimension] = found.get(dimension, False) or score < 1
    counted = {}
    for found in failed.values():
        for a, b in itertools.combinations(sorted(found), 2):
            row = counted.setdefault((a, b), [0, 0, 0, 0])
            for i, flag in enumerate((True, found[a], found[b], found[a] and found[b])):
                row[i] += flag
    assert made.height == len(counted) > 20
    for row in made.iter_rows(named=True):
        n, one, other, both = counted[row["dimension"], row["other"]]
        assert (row["n"], row["failed"], row["failed_other"], row["together"]) == (
            n,
            one,
            other,
            both,
        )
        assert row["expected"] == pytest.approx(one * other / n)
        assert row["lift"] == (pytest.approx(both * n / (one * other)) if one * other else None)


# ---------------------------------------------------------------- the widget


def test_quick_changes_end_in_the_last_state_and_it_can_be_put_back(con):
    shown = widgets.explorer(con)
    for _ in range(7):
        for by in ("domain", "language", "setting"):
            shown._controls["by"].value = by
    shown._filters["language"].value = ("zh",)
    shown._controls["metric"].value = "loose_ias"
    state = shown.state
    assert (state["by"], state["metric"], state["where"]) == (
        "setting",
        "loose_ias",
        {"language": "zh"},
    )
    # Sums in threads: their last bits depend on the order in which these end.
    expected = rb.scores(con, "setting", where={"language": "zh"}, metrics=["loose_ias"])
    assert_frame_equal(shown.frame, expected)
    again = widgets.explorer(con, state)
    assert again.state == state
    assert again.code == shown.code
    assert len(again.figure.data) == len(shown.figure.data)


def test_a_view_that_cannot_be_made_keeps_what_was_shown(con):
    shown = widgets.explorer(con, {"by": "domain"})
    before = shown.frame
    shown._controls["view"].value = "heatmap"  # by domain, across domain
    assert "two groupings" in shown._notes.value
    assert_frame_equal(shown.frame, before)


def test_a_click_on_a_dot_lists_its_responses_and_one_can_be_read(con):
    shown = widgets.explorer(con, {"by": "domain"})
    trace = next(trace for trace in shown.figure.data if trace.name == "Legal")

    class Points:
        point_inds = (0,)

    shown._clicked(trace, Points, None)
    there = con.sql(
        "SELECT response_id FROM response_scores WHERE domain = 'Legal' AND is_answered"
    ).fetchall()
    listed = shown.listed["response_id"].to_list()
    assert sorted(listed) == sorted(row[0] for row in there)
    assert len(shown._responses.options) == len(listed)
    shown._responses.value = 0
    query = con.sql(
        "SELECT q.text FROM responses JOIN instances USING (instance_id) "
        "JOIN queries AS q USING (query_id) WHERE response_id = ?",
        params=[listed[0]],
    ).fetchall()[0][0]
    assert query in shown._page.value


def click(shown, trace, place):
    shown._clicked(trace, type("Points", (), {"point_inds": [place]}), None)
    return shown.listed


def labels_of(cells, row, column):
    """What the cell's hover says that it is about."""
    return re.match(r"<b>(.+) · (.+)</b>", cells.hovertext[row][column]).groups()


def test_a_click_on_a_cell_lists_its_responses(con):
    shown = widgets.explorer(con, {"view": "heatmap", "by": "domain", "across": "language"})
    cells = next(trace for trace in shown.figure.data if trace.type == "heatmap")
    for row, column in itertools.product(range(len(cells.y)), range(len(cells.x))):
        listed = click(shown, cells, [row, column])
        there = con.sql(
            "SELECT response_id FROM response_scores WHERE domain = ? AND language = ?",
            params=list(labels_of(cells, row, column)),
        ).fetchall()
        assert sorted(listed["response_id"]) == sorted(found[0] for found in there)


def test_a_click_on_a_pair_of_requirements_lists_where_both_failed(con):
    shown = widgets.explorer(con, {"view": "failing together", "where": {"language": "zh"}})
    cells = next(trace for trace in shown.figure.data if trace.type == "heatmap")
    failed = {}
    for response, dimension in con.sql(
        "SELECT DISTINCT j.response_id, c.dimension FROM judgments AS j "
        "JOIN constraints AS c ON c.constraint_id = j.target_id JOIN responses USING (response_id) "
        "JOIN instances AS i USING (instance_id) JOIN queries AS q ON q.query_id = i.query_id "
        "WHERE j.score < 1 AND q.language = 'zh'"
    ).fetchall():
        failed.setdefault(response, set()).add(dimension)
    found = 0
    keys = {dimension.label: dimension.key for dimension in taxonomy.DIMENSIONS}
    for row, column in itertools.product(range(len(cells.y)), range(len(cells.x))):
        if row == column:
            continue
        listed = click(shown, cells, [row, column])
        pair = {keys[label] for label in labels_of(cells, row, column)}
        expected = {response for response, dimensions in failed.items() if pair <= dimensions}
        assert set(listed["response_id"]) == expected
        found += len(expected)
    assert found > 50


def test_a_click_on_a_comparison_lists_pairs_and_reads_them_side_by_side(con):
    sides = {"a": {"setting": "constraints_last"}, "b": {"setting": "given_context"}}
    shown = widgets.explorer(con, {"view": "paired", "metric": "loose_ias"} | sides)
    trace = next(trace for trace in shown.figure.data if trace.type == "scatter" and trace.name)
    listed = click(shown, trace, 0)
    assert listed.height == shown.frame["n"].item()
    assert set(listed["setting"]) == {"constraints_last"}
    instances = "SELECT instance_id, text FROM responses WHERE response_id = ?"
    gaps = []
    for row in listed.iter_rows(named=True):
        pair = [
            con.sql(instances, params=[row[name]]).fetchall() for name in ("response_id", "beside")
        ]
        assert pair[0][0][0] == pair[1][0][0]
        other = con.sql(
            "SELECT satisfied / planned FROM response_scores WHERE response_id = ?",
            params=[row["beside"]],
        ).fetchall()[0][0]
        gaps.append(abs(row["satisfied"] / row["planned"] - other))
    assert gaps == sorted(gaps, reverse=True)
    shown._responses.value = 0
    assert shown._page.value.count("given_context") >= 1
    assert shown._page.value.count("constraints_last") >= 1


def test_groups_of_instances_are_compared_as_groups(con):
    sides = {"a": {"context_mode": "gap"}, "b": {"context_mode": "noise"}}
    shown = widgets.explorer(con, {"view": "paired", "metric": "loose_ias"} | sides)
    expected = rb.unpaired(con, "loose_ias", sides["a"], sides["b"])
    assert_frame_equal(shown.frame, expected)
    assert shown.code.startswith("frame = rb.unpaired(con, ")
    assert "other instances on each side" in shown._notes.value
    trace = next(trace for trace in shown.figure.data if trace.type == "scatter" and trace.name)
    assert set(click(shown, trace, 0)["context_mode"]) == {"gap", "noise"}


def test_a_filter_on_requirements_makes_a_view_of_single_constraints(con):
    shown = widgets.explorer(con, {"by": "domain"})
    shown._filters["dimension"].value = ("format", "citation")
    assert shown.state["where"] == {"dimension": ["format", "citation"]}
    expected = rb.constraint_scores(con, "domain", {"dimension": ["format", "citation"]})
    assert_frame_equal(shown.frame, expected)
    shown._controls["view"].value = "failing together"
    assert "Take it away" in shown._notes.value


def test_a_click_is_about_the_picture_and_not_about_what_could_not_be_shown(con):
    shown = widgets.explorer(con, {"view": "heatmap", "by": "language", "across": "domain"})
    cells = next(trace for trace in shown.figure.data if trace.type == "heatmap")
    before = click(shown, cells, [0, 1])
    shown._controls["by"].value = "domain"  # twice
    assert "two groupings" in shown._notes.value
    assert_frame_equal(click(shown, cells, [0, 1]), before)


def test_a_comparison_of_nothing_says_so(con):
    sides = {"a": {"setting": "constraints_last"}, "b": {"setting": "given_context"}}
    state = {"view": "paired", **sides, "where": {"context_mode": "counterfactual"}}
    nothing = exploring.look(con, state)
    assert nothing.frame.is_empty()
    assert "Nothing in this slice" in nothing.notes[0]
    assert "counterfactual" in nothing.figure.layout.annotations[0].text
    unchosen = exploring.look(con, {"view": "paired"})
    assert unchosen.notes == []
    assert "Choose two sides" in unchosen.figure.layout.annotations[0].text


@pytest.mark.parametrize("view", exploring.VIEWS)
def test_a_picture_says_of_which_slice_it_is(con, view):
    sides = {"a": {"setting": "constraints_last"}, "b": {"setting": "given_context"}}
    shown = exploring.look(con, {"view": view, **sides, "where": {"domain": "Legal"}})
    assert "domain: Legal" in shown.figure.layout.title.text


def test_both_sides_of_a_comparison_are_named_however_long_they_are(con, tmp_path):
    names = [f"organisation-with-a-long-name/model-{part}-{'x' * 30}-fp{part}" for part in "48"]
    found = con.sql("FROM responses WHERE setting = 'given_context'").pl()
    path = tmp_path / "long.duckdb"
    rows = {
        name: con.sql(f"FROM {name}").pl()
        for name in ("queries", "constraints", "instances", "instance_constraints")
    }
    answers = [
        found.select("instance_id", "setting", "trial", "text", model=pl.lit(n)) for n in names
    ]
    rb.append(path, {**rows, "responses": pl.concat(answers)}, origin="recorded")
    rb.judge(path, "rules", origin="recorded")
    state = {"view": "paired", "metric": "loose_ias", "a": {"model": names[0]}}
    shown = exploring.look(rb.connect(path), {**state, "b": {"model": names[1]}})
    title = shown.figure.layout.title.text.replace("<br>", "")
    assert "model-4" in title
    assert "model-8" in title


def test_looking_at_more_comparisons_adjusts_their_p(con):
    state = {
        "view": "paired",
        "metric": "loose_ias",
        "a": {"setting": "constraints_last"},
        "b": {"setting": "given_context"},
    }
    shown = widgets.explorer(con, state)
    first = rb.paired(con, "loose_ias", state["a"], state["b"])["p_value"].item()
    assert f"1 comparison looked at: Holm-adjusted p = {first:.3g}" in shown._notes.value
    shown._filters["language"].value = ("zh",)
    second = rb.paired(con, "loose_ias", state["a"], state["b"], {"language": "zh"})
    holm = rb.stats.adjust([first, second["p_value"].item()])["holm"][1]
    assert f"2 comparisons looked at: Holm-adjusted p = {holm:.3g}" in shown._notes.value


def test_saving_without_a_browser_says_what_was_left_out_and_why(con, tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", "/nowhere/chromium")
    monkeypatch.setattr(render, "_BROWSER", render._Browser())
    shown = widgets.explorer(con)
    shown._stem.value = str(tmp_path / "slice")
    shown._save.click()
    assert {file.suffix for file in tmp_path.iterdir()} == {".html", ".csv", ".json"}
    assert "html, csv, json" in shown._saved.value
    assert "svg, png not written: no browser" in shown._saved.value
    assert "apt-get install chromium" in shown._saved.value


def test_closing_leaves_no_widget_behind(con):
    from ipywidgets.widgets.widget import _instances

    before = set(_instances)
    shown = widgets.explorer(con)
    shown.state = {"view": "heatmap"}
    assert set(_instances) > before
    shown.close_all()
    assert not {type(_instances[key]).__name__ for key in set(_instances) - before}


# ---------------------------------------------------------------- the reader


def test_the_reader_narrows_to_what_the_rows_say(con):
    failed = rb.response_reader(con, show="failed", limit=1000)
    rows = con.sql("SELECT response_id FROM response_scores WHERE satisfied < judged").fetchall()
    assert failed.found == len(failed) == len(rows)
    assert len(rb.response_reader(con, limit=3)) == 3
    with pytest.raises(UnknownName, match="fail"):
        rb.response_reader(con, show="fail")


def test_an_answer_that_failed_is_an_error_to_read(study):
    con = rb.connect(study)
    page = rb.response_reader(con, show="errors")
    failed = "med-noise/model-b/given_context/0"
    titles = [title for title, _ in page.readings]
    assert [title for title in titles if failed in title] == [
        f"no response · Medical · noise · {failed}"
    ]
    assert "timeout after 60 s" in page._repr_html_()
    assert all(failed not in title for title, _ in rb.response_reader(con).readings)


def test_a_verdict_on_the_whole_response_that_was_lost_is_an_error_to_read(study):
    con = rb.connect(study)
    before = rb.response_reader(con, show="errors").found
    judged = con.sql(
        "SELECT s.response_id, p.judge FROM response_scores AS s JOIN panels AS p USING (panel) "
        "WHERE p.kind = 'llm' AND s.is_answered AND s.errors = 0 "
        "AND (SELECT count(*) FROM judgments AS j WHERE j.response_id = s.response_id "
        "AND j.criterion = 'conflict' AND j.judge = p.judge) = 0 ORDER BY ALL LIMIT 1"
    ).fetchall()
    response, judge = judged[0]
    lost = {"response_id": response, "target_id": response, "criterion": "conflict"}
    rb.append(study, "judgments", [{**lost, "judge": judge, "error": "timeout"}])
    assert rb.response_reader(con, show="errors").found == before + 1


@pytest.mark.parametrize(
    ("show", "test"), [("failed", "score < 1"), ("all", "true"), ("errors", "error <> ''")]
)
def test_the_reader_narrows_to_constraints_of_a_kind(con, show, test):
    for column in ("dimension", "rule"):
        value, n = con.sql(
            f"SELECT {column}, count(DISTINCT response_id) FILTER ({test}) FROM judgments "
            f"JOIN constraints ON constraint_id = target_id WHERE {column} IS NOT NULL "
            "AND repeat = 0 GROUP BY ALL ORDER BY 2 DESC, 1 LIMIT 1"
        ).fetchall()[0]
        page = rb.response_reader(con, {column: value}, show=show, limit=1)
        assert page.found == n
    assert show == "errors" or n > 0


def test_the_reader_names_a_column_that_there_is_not(con):
    with pytest.raises(UnknownColumn, match="dimensoin"):
        rb.response_reader(con, {"dimensoin": "citation"})


def test_a_page_of_readings_needs_nothing_and_nothing_in_it_acts(tmp_path):
    study = hostile_study(tmp_path / "hostile.duckdb", rb.paper.shipped())
    con = rb.connect(study)
    some = con.sql("SELECT model FROM models WHERE model LIKE 'evil%'").fetchall()[0][0]
    page = rb.response_reader(con, limit=50, beside=some)
    text = page.save(tmp_path / "page.html").read_text("utf-8")
    assert "default-src 'none'" in text
    for attack in ATTACKS:
        if "<" in attack:
            assert attack not in text
    assert not re.findall(r"<(script|img|iframe|a|link)\b", text)
    assert not re.findall(r"<[^>]*\son\w+=", text)
    assert not set("\u202e\u2066") & set(text)
    shown = widgets.explorer(con)
    for state in ({"by": "model"}, {"view": "heatmap"}, {"view": "profile"}):
        shown.state = state
        for part in (shown._notes.value, shown._heading.value, str(shown.figure.layout.title.text)):
            assert "<img" not in part
            assert "<script" not in part
    assert isinstance(shown.frame, pl.DataFrame)
    assert reader.SHOWN


def test_what_is_offered_shows_no_mark_of_direction(con, tmp_path):
    name = "m\u202eodel\x1b[31m\u2066"
    rows = {
        relation: con.sql(f"FROM {relation}").pl()
        for relation in ("constraints", "instances", "instance_constraints")
    }
    queries = con.sql("FROM queries").pl().with_columns(domain=pl.lit(name) + pl.col("domain"))
    answers = con.sql("SELECT instance_id, text FROM responses WHERE setting = 'given_context'")
    answers = answers.pl().with_columns(model=pl.lit(name), setting=pl.lit("given_context"))
    path = tmp_path / "turned.duckdb"
    rb.append(path, {**rows, "queries": queries, "responses": answers}, origin="recorded")
    rb.judge(path, "rules", origin="recorded")
    shown = widgets.explorer(rb.connect(path), {"by": "domain", "a": {"model": name}})
    click(shown, next(trace for trace in shown.figure.data if trace.name), 0)
    assert shown.listed.height
    boxes = [*shown._controls.values(), *shown._filters.values(), shown._responses]
    offered = "".join(text for box in boxes for text, _ in box.options)
    assert "odel" in offered
    assert not set("\u202e\u2066\x1b") & set(offered)


def test_the_code_of_a_criterion_with_any_name_can_be_run(con, tmp_path):
    path = hostile_study(tmp_path / "hostile.duckdb", rb.paper.shipped())
    name = "is \"it\" \\ 'good'\n$x$ 好"
    hostile = rb.connect(path)
    found = hostile.sql("SELECT response_id FROM responses WHERE error IS NULL").pl()
    rows = found.with_columns(
        target_id="response_id", criterion=pl.lit(name), judge=pl.lit("ann"), score=pl.lit(1.0)
    )
    grades = {"criterion": name, "target": "response", "lowest": 0.0, "highest": 1.0}
    people = {"judge": "ann", "kind": "human"}
    rb.append(path, {"criteria": [grades], "judges": [people], "judgments": rows})
    settings = hostile.sql("SELECT DISTINCT setting FROM responses ORDER BY 1").fetchall()
    a, b = ({"setting": setting} for (setting,) in settings[:2])
    for view in ("dots", "heatmap", "paired"):
        state = {"view": view, "metric": name, "panel": "ann", "a": a, "b": b}
        shown = exploring.look(hostile, state)
        names = {"rb": rb, "con": hostile, "pl": pl}
        exec(shown.code, names)
        assert_frame_equal(names["frame"], shown.frame)


@pytest.mark.parametrize(
    "state",
    [
        ["by"],
        {"where": "domain=Legal"},
        {"where": float("nan")},
        {"by": ["model"]},
        {"by": float("nan")},
        {"view": "paired", "a": "model", "b": "setting"},
    ],
    ids=str,
)
def test_a_state_of_the_wrong_types_is_named(con, state):
    with pytest.raises(RagbenchError, match=r"is a mapping|is one name"):
        exploring.look(con, state)
    with pytest.raises(RagbenchError, match=r"is a mapping|is one name"):
        rb.explorer(con, state)


def test_none_in_a_state_is_what_it_is_without(con):
    nothing = dict.fromkeys(exploring.DEFAULT)
    assert exploring.look(con, nothing).code == exploring.look(con, {}).code


def test_what_no_box_can_show_is_kept_when_something_else_changes(con):
    query = con.sql("SELECT min(query_id) FROM instances").fetchall()[0][0]
    modes = ["gap", "counterfactual"]  # of which the study has one
    start = {"by": "trial", "where": {"query_id": query, "context_mode": modes}}
    made = rb.explorer(con, start)
    try:
        assert made.state["where"] == start["where"]
        made._controls["metric"].value = "loose_ias"
        assert made.state["by"] == "trial"
        assert made.state["where"] == start["where"]
        expected = exploring.look(con, {**start, "metric": "loose_ias"}).frame
        assert_frame_equal(made.frame, expected)
    finally:
        made.close_all()


@pytest.mark.parametrize("limit", [-1, "x", None])
def test_the_reader_reads_a_number_of_responses(con, limit):
    with pytest.raises(RagbenchError, match="whole number"):
        rb.response_reader(con, limit=limit)


def test_a_study_with_several_judges_opens_with_one_of_them_and_its_code_names_it(tmp_path):
    path = tmp_path / "study.duckdb"
    ids = [f"{instance}/m/given_context/0" for instance in ("one", "two")]
    given = {
        "queries": [{"query_id": "q", "text": "?"}],
        "instances": [
            {"instance_id": name, "query_id": "q", "context_mode": "gap"} for name in ("one", "two")
        ],
        "responses": [{"instance_id": name, "model": "m", "text": "-"} for name in ("one", "two")],
        "criteria": [{"criterion": "tone", "target": "response", "lowest": 1, "highest": 5}],
        "judges": [{"judge": name, "kind": "llm", "model": name} for name in ("a", "b")],
        "judgments": [
            {"response_id": i, "target_id": i, "criterion": "tone", "judge": judge, "score": score}
            for judge, score in (("a", 2), ("b", 5))
            for i in ids
        ],
    }
    rb.append(path, given)
    con = rb.connect(path)
    shown = widgets.explorer(con, {"metric": "tone"})
    assert shown.state["panel"] == "a"
    assert shown.frame["tone"].to_list() == [2]
    assert "panel='a'" in shown.code
    shown.state = shown.state | {"panel": "b"}
    assert shown.frame["tone"].to_list() == [5]
    both = widgets.explorer(con, {"metric": "tone", "by": "panel"})
    assert sorted(both.frame["tone"].to_list()) == [2, 5]
    rb.append(path, "study", {"primary_panel": "b"})
    assert widgets.explorer(con, {"metric": "tone"}).state["panel"] is None
