"""Tables print percent once, keep n, mark the best, and let no text act as markup."""

import html
import json
import re

import polars as pl
import pytest

from ragbench import tables
from ragbench.errors import UnknownColumn, UnknownName


def scores(models=("a", "b", "c", "d"), **changed):
    size = len(models)
    columns = {
        "model": list(models),
        "context_mode": ["gap"] * size,
        "panel": ["rules"] * size,
        "origin": ["recorded"] * size,
        "planned": [20] * size,
        "judged": [20] * size,
        "loose_ias": [0.8, 0.75, None, 0.8004][:size],
        "strict_ias": [0.268, 0.123, 0.2, 0.05][:size],
        "loose_ias_n": [20] * size,
        "loose_ias_low": [0.7, 0.6, None, 0.71][:size],
        "loose_ias_high": [0.9, 0.8, None, 0.91][:size],
        "strict_ias_n": [20] * size,
        "strict_ias_low": [0.2] * size,
        "strict_ias_high": [0.3] * size,
    }
    return pl.DataFrame(columns | changed)


def cells(text):
    return [
        re.split(r"(?<!\\) & ", line.removesuffix(r" \\"))
        for line in text.splitlines()
        if " & " in line
    ]


def test_a_frame_of_scores_prints_groups_metrics_and_n():
    printed = cells(tables.latex(scores()))
    assert printed[0] == ["Model", "Context mode", r"Loose IAS, \%", r"Strict IAS, \%", "n"]
    assert printed[1] == ["a", "Knowledge gap", "80.0", "26.8", "20"]
    assert printed[3] == ["c", "Knowledge gap", "–", "20.0", "20"]


def test_counts_that_differ_stand_beside_their_metric():
    printed = cells(tables.latex(scores(loose_ias_n=[19, 20, 0, 20])))
    assert [name for name in printed[0] if name == "n"] == ["n", "n"]
    assert printed[1][3] == "19"
    assert printed[1][5] == "20"


def test_the_note_says_panel_origin_and_n():
    for text in (tables.latex(scores()), tables.markdown(scores())):
        assert "n = 20 responses per row; panel: rules; recorded" in text
    assert "simulated: not a result" in tables.latex(scores(origin=["simulated"] * 4))


def test_intervals_stand_in_brackets_and_are_explained():
    text = tables.markdown(scores(), intervals=True)
    assert r"80.0 \[70.0, 90.0\]" in text
    assert "brackets: 95 % interval" in text
    assert "95 %" not in tables.markdown(scores())


def test_best_and_second_are_marked_by_what_is_printed():
    printed = cells(tables.latex(scores(), best=True))
    # 80.0 and 80.04 print alike, so both are best and 75.0 is second.
    assert [row[2] for row in printed[1:]] == [
        r"\textbf{80.0}",
        r"\underline{75.0}",
        "–",
        r"\textbf{80.0}",
    ]
    assert printed[1][3] == r"\textbf{26.8}"
    assert "**26.8**" in tables.markdown(scores(), best=["strict_ias"])
    page = tables.html(scores(), best=["strict_ias"]).as_raw_html()
    assert re.search(r"font-weight: bold[^>]*>26\.8<", page)
    assert re.search(r"text-decoration: underline[^>]*>20\.0<", page)


def test_one_row_or_equal_rows_have_no_best():
    assert "textbf" not in tables.latex(scores(["a"]), best=True)
    same = scores().with_columns(strict_ias=pl.lit(0.2))
    assert "textbf" not in tables.latex(same, columns=["model", "strict_ias"], best=True)


def test_percent_is_for_proportions_named_or_known():
    frame = pl.DataFrame({"model": ["a"], "tone": [0.5], "difference": [-0.031]})
    assert cells(tables.latex(frame))[1] == ["a", "0.5", "$-$0.031"]
    shown = cells(tables.latex(frame, percent=["difference"]))
    assert shown[0][2] == r"Difference, \%"
    assert shown[1][2] == "$-$3.1"


def test_columns_are_chosen_and_ordered():
    printed = cells(tables.latex(scores(), columns=["strict_ias", "model"]))
    assert printed[0] == [r"Strict IAS, \%", "Model", "n"]
    with pytest.raises(UnknownColumn, match="did you mean 'strict_ias'"):
        tables.latex(scores(), columns=["strict_iass"])
    with pytest.raises(UnknownColumn):
        tables.latex(scores(), best=["nothing"])


def test_metrics_without_any_value_are_left_out():
    empty = scores().with_columns(strict_ias=pl.lit(None, pl.Float64))
    assert "Strict" not in tables.latex(empty)


def test_an_empty_frame_gives_a_table_without_rows():
    frame = scores().clear()
    assert len(cells(tables.latex(frame))) == 1
    assert tables.markdown(frame).count("\n|") == 1
    assert "Model" in tables.html(frame).as_raw_html()


HOSTILE = [r"\input{/etc/passwd} $x^2$ a_b & 50% #~`'", "[x](javascript:alert(1)) **b** | c"]
HOSTILE += ["<img src=x onerror=alert(1)>{{m^2}}", "a\u202eb\nc -- 医疗 \\(y\\)"]


def test_no_text_acts_as_latex():
    text = tables.latex(scores(HOSTILE), caption=HOSTILE[0], label="tab:x}\\evil")
    assert r"\label{tab:x-evil}" in text
    body = "\n".join(line for line in text.splitlines() if "passwd" in line or "javascript" in line)
    assert r"\textbackslash{}input\{/etc/passwd\} \$x\textasciicircum{}2\$ a\_b \& 50\% \#" in body
    assert "{[}x{]}" in body
    assert "{-}{-} 医疗" in text
    assert all(len(row) == 5 for row in cells(text))


def test_no_text_acts_as_markdown():
    lines = tables.markdown(scores(HOSTILE), title="*t*").splitlines()
    assert lines[0] == r"**\*t\***"
    assert any(r"\[x\](javascript:alert(1)) \*\*b\*\* \| c" in line for line in lines)
    assert not any("<img" in line or "$x" in line.replace(r"\$x", "") for line in lines)
    counts = {len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")}
    assert counts == {6}


def test_no_text_acts_as_html_nor_as_a_formula_of_the_page():
    page = tables.html(scores(HOSTILE).rename({"context_mode": "<b>mode"}), title="<i>t</i>")
    page = page.as_raw_html()
    assert "<img" not in page
    assert "<i>" not in page
    assert "<b>mode" not in page
    assert "<sup" not in page  # {{m^2}} would be read as a unit
    assert "$x" not in page
    assert r"\(y" not in page
    seen = html.unescape(re.sub(r"<[^>]+>", "", page.split("<table")[1]))
    for text in HOSTILE[:3]:
        assert text in seen.replace("\u200b", "")


def test_the_same_table_gives_the_same_page():
    assert tables.html(scores()).as_raw_html() == tables.html(scores()).as_raw_html()


def test_saving_writes_each_format_numbers_and_provenance(tmp_path):
    files = tables.save(scores(), tmp_path / "t", title="T", label="tab:t", best=True, call="c")
    assert files["format"].to_list() == ["html", "tex", "md", "csv", "json"]
    assert r"\caption{T}" in (tmp_path / "t.tex").read_text("utf-8")
    assert (tmp_path / "t.html").read_text("utf-8").lstrip().startswith("<!DOCTYPE html>")
    assert json.loads((tmp_path / "t.json").read_text("utf-8"))["formats"] == ["html", "tex", "md"]
    with pytest.raises(UnknownName, match="tables has no format 'pdf'"):
        tables.save(scores(), tmp_path / "t", formats=["pdf"])
