"""Artifacts of the paper: from rows, by hand, beside the print, and what a study lacks is said."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from conftest import study_rows
from typer.testing import CliRunner

import ragbench as rb
from ragbench import paper, paper_judges, printed, render
from ragbench.cli import app
from ragbench.errors import RagbenchError, UnknownName

PAPERS = [name for name in paper.ARTIFACTS if name[:5] in ("table", "figur")]
MADE = [name for name in PAPERS if name not in ("table1", "table4")]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, paper.Artifact]:
    """Every artifact of a simulated study of seed 0."""
    path = tmp_path_factory.mktemp("simulated") / "study.duckdb"
    rb.simulate.study(path, seed=0)
    with rb.connect(path) as con:
        return {name: paper.rebuild(name, con) for name in PAPERS}


@pytest.fixture(scope="module")
def recorded() -> duckdb.DuckDBPyConnection:
    return rb.connect(paper.shipped())


# ---------------------------------------------------------------- the simulated study


@pytest.mark.slow
def test_every_artifact_of_the_paper_comes_from_rows_and_figures_have_pictures(simulated) -> None:
    assert set(PAPERS) == {
        *(f"table{n}" for n in range(1, 10)),
        "table7_reliability",
        "figure9_heatmap",
        *(f"figure{n}" for n in range(2, 10)),
    }
    for name, made in simulated.items():
        assert made.frame.height, name
        assert (made.figure is not None) == name.startswith("figure")
        if made.figure is not None:
            assert len(made.figure.data) >= 1
        expected = "simulated" if name in MADE else "published"
        assert made.frame["origin"].unique().to_list() == [expected]


@pytest.mark.slow
def test_what_the_paper_prints_comes_out_by_construction_or_is_named(simulated) -> None:
    """The cells that differ are those of docs/simulation.md, and no others."""
    cells = pl.concat(paper.against_paper(name, simulated[name].frame) for name in MADE)
    assert cells.filter(status="agrees").is_empty()  # simulated rows never agree
    differs = cells.filter(status="differs")
    assert set(differs.select("artifact", "row", "column").rows()) == {
        ("table5", "Medical", "constraints_avg"),
        ("table5", "All", "output_avg"),
        ("table9", "Proper Rejection", "judge_agreement"),
        ("table9", "Conflict Recognition", "judge_kappa"),
        ("table9", "Conflict Recognition", "judge_agreement"),
        ("table9", "Overall average", "judge_agreement"),
        ("figure6", "all models: rejection", "instances without"),
        ("figure6", "all models: conflict", "instances without"),
        ("figure7", "output", "share"),
    }
    # Every printed cell has its counterpart: nothing is left out by a name that does not match.
    assert cells.filter(status="cannot be rebuilt from rows").is_empty()
    made = cells.filter(status="by construction")
    assert made.group_by("artifact").len().sort("artifact").rows() == [
        ("figure2", 2), ("figure3", 16), ("figure5", 4), ("figure6", 4), ("figure7", 1),
        ("figure8", 4), ("table2", 91), ("table3", 13), ("table5", 33), ("table6", 16),
        ("table7", 36), ("table7_reliability", 12), ("table8", 20), ("table9", 8),
    ]  # fmt: skip
    assert made["n"].null_count() == 0


@pytest.mark.slow
def test_models_stand_in_the_order_of_the_paper(simulated) -> None:
    names = [paper.paper_name(model) for model in simulated["table2"].frame["model"]]
    assert names == paper.published("table2")["model"].to_list()
    assert [paper.paper_name(m) for m in simulated["table3"].frame["model"]] == paper.published(
        "table3"
    )["model"].to_list()
    printed_domains = paper.published("table5")["domain"].to_list()
    assert simulated["table5"].frame["domain"].to_list() == printed_domains


@pytest.mark.slow
def test_figure5_has_the_ten_planned_comparisons_and_holm_is_never_smaller(simulated) -> None:
    frame = simulated["figure5"].frame
    assert frame.height == 10
    pairs = {(printed.paper_name(a), printed.paper_name(b)) for a, b in frame["a", "b"].rows()}
    assert pairs == {
        ("Qwen3-235B-A22B-Thinking-2507", "Qwen3-235B-A22B-Instruct-2507"),
        ("DeepSeek-R1-0528", "DeepSeek-V3.1"),
    }
    assert (frame["p_holm"] >= frame["p_value"]).all()
    assert (frame["low"] < frame["difference"]).all()
    assert (frame["difference"] < frame["high"]).all()
    lengths = {"": 1.0, "*": 0.05, "**": 0.01, "***": 0.001}
    assert all(p < lengths[stars] or not stars for p, stars in frame["p_value", "stars"].rows())


@pytest.mark.slow
def test_figure3_correlates_within_each_paradigm(simulated) -> None:
    frame = simulated["figure3"].frame
    groups = (
        frame.select("paradigm", "rho_models", pl.col("rho").round(2)).unique().sort("paradigm")
    )
    assert groups.rows() == [("reasoning", 8, 0.9), ("standard", 5, -0.5)]
    # Five points can be ordered in 120 ways, so an exact p is a whole number of them.
    p = frame.filter(paradigm="standard")["rho_p_value"][0]
    assert 120 * p == pytest.approx(round(120 * p))


@pytest.mark.slow
def test_error_shares_of_a_model_make_one_and_rates_mirror_adherence(simulated) -> None:
    frame = simulated["figure4"].frame
    totals = frame.group_by("model").agg(pl.col("share_of_errors").sum())["share_of_errors"]
    assert totals.to_list() == pytest.approx([1.0] * 13)
    assert (frame["error_rate_low"] <= frame["error_rate"]).all()
    assert (frame["error_rate"] <= frame["error_rate_high"]).all()


# ---------------------------------------------------------------- from printed numbers


def test_table7_lower_half_comes_from_the_printed_upper_half() -> None:
    names = {"loose_ias": "loose_ias", "rejection_accuracy": "rejection"}
    names |= {"conflict_accuracy": "conflict"}
    upper = (
        paper.published("table7")
        .with_columns(pl.col("metric").replace(names), pl.col("score_pct") / 100)
        .pivot("metric", index=["model", "judge"], values="score_pct")
        .rename({"judge": "panel"})
        .with_columns(origin=pl.lit("published"))
    )
    lower = paper_judges.reliability(upper)
    cells = paper.against_paper("table7_reliability", lower)
    assert cells.height == 12
    assert cells["status"].unique().to_list() == ["agrees"]
    assert lower["verdict"].to_list() == paper.published("table7_reliability")["verdict"].to_list()


@pytest.mark.parametrize(
    ("value", "text", "origin", "status"),
    [
        (26.849, "26.8", "measured", "agrees"),
        (26.851, "26.8", "measured", "differs"),
        (26.8, "26.8", "recorded, simulated", "by construction"),
        (27.0, "26.8", "simulated", "differs"),
        (0.0009, "<.001", "measured", "agrees"),
        (0.001, "<.001", "measured", "differs"),
        (0.0544, ".054", "measured", "agrees"),
        (1.0, None, "measured", "not published"),
        (None, "26.8", "measured", "cannot be rebuilt from rows"),
        (None, "yes", "published", "cannot be rebuilt from rows"),
    ],
)
def test_the_status_of_a_cell(value: Any, text: str | None, origin: str, status: str) -> None:
    cell = printed.compared({"value": value, "n": 10, "origin": origin}, text)
    assert cell["status"] == status


def test_models_are_known_by_every_name_that_the_paper_gives_them() -> None:
    for label in ("Qwen3-235B-T", "sim/qwen3-235b-a22b-thinking-2507", "Qwen3-235B-Thinking"):
        assert paper.paper_name(label) == "Qwen3-235B-A22B-Thinking-2507"
    assert paper.paper_name("sim/kimi-k2-thinking + sim/rules") == "Kimi-k2-thinking"
    assert paper.paper_name("local/other") == "local/other"


def test_a_model_of_the_paper_with_measured_rows_agrees_or_differs() -> None:
    frame = pl.DataFrame(
        {"model": ["gpt-4.1", "mine"], "conflict": [0.1848, 0.5], "conflict_n": [303, 10]}
    ).with_columns(origin=pl.lit("measured"))
    cells = paper.against_paper("table3", frame)
    status = dict(cells.select("row", "status").rows())
    assert status["GPT-4.1"] == "agrees"
    assert status["mine"] == "not published"
    assert status["GLM-4.5"] == "cannot be rebuilt from rows"
    assert cells.height == 14


def test_tables_that_no_rows_give_say_so_and_other_artifacts_have_no_cells(con) -> None:
    table = paper.rebuild("table1", con).frame
    cells = paper.against_paper("table1", table)
    assert cells["status"].unique().to_list() == ["cannot be rebuilt from rows"]
    assert cells.height == 9 * 6
    assert paper.against_paper("gap", table).is_empty()


# ---------------------------------------------------------------- small studies, by hand


def test_figure2_of_the_small_study(con) -> None:
    frame = paper.rebuild("figure2", con).frame
    rows = frame.select("model", "rejection", "rejection_n", "strict_ias").rows()
    assert rows == [("model-a", 1.0, 2, 0.5), ("model-b", 0.5, 2, 0.0)]


def test_figure4_of_the_small_study(con) -> None:
    frame = paper.rebuild("figure4", con).frame.filter(model="model-a")
    found = {row["dimension"]: row for row in frame.to_dicts()}
    # model-a fails one format constraint and one audience constraint of twelve.
    assert {name: row["error_rate"] for name, row in found.items()} == {
        "audience": 0.25, "format": 0.25, "knowledge_gap": 0.0}  # fmt: skip
    assert found["format"]["share_of_errors"] == 0.5


def test_figure5_of_the_small_study_with_named_pairs(con) -> None:
    frame = paper.rebuild("figure5", con, pairs=[("model-a", "model-b")]).frame
    rows = {(row["metric"], row["context_mode"]): row for row in frame.to_dicts()}
    assert set(rows) == {("strict_ias", "gap"), ("rejection", "gap")}  # noise: no pair judged
    refusal = rows["rejection", "gap"]
    assert (refusal["n"], refusal["only_a"], refusal["only_b"]) == (2, 1, 0)
    assert (refusal["difference"], refusal["p_value"]) == (0.5, 0.5)
    assert refusal["p_holm"] == 1.0
    with pytest.raises(RagbenchError, match="family and size"):
        paper.rebuild("figure5", con)


def test_tables_5_and_6_and_figure_7_of_the_small_study(con) -> None:
    domains = paper.rebuild("table5", con).frame
    assert domains.drop("origin").rows() == [
        ("Legal", 1, 3.0, 1.0, 1.0, 1.0),
        ("Medical", 1, 3.0, 1.0, 1.0, 1.0),
        ("All", 2, 3.0, 1.0, 1.0, 1.0),
    ]
    contexts = paper.rebuild("table6", con).frame
    assert contexts["context_mode", "count", "ratio", "natural_count"].rows() == [
        ("noise", 2, 0.5, 0),
        ("gap", 2, 0.5, 0),
    ]
    shares = paper.rebuild("figure7", con).frame
    assert shares["dimension", "count"].rows() == [
        ("audience", 2),
        ("format", 2),
        ("knowledge_gap", 2),
    ]


def people(study: Path, votes: dict[str, list[int]]) -> duckdb.DuckDBPyConnection:
    """The small study with further judges of its rejections, in the order of their ids."""
    con = rb.connect(study)
    first = con.sql("FROM judgments WHERE criterion = 'rejection' ORDER BY response_id").pl()
    judges = pl.DataFrame({"judge": list(votes), "kind": "human"})
    verdicts = pl.concat(
        first.drop("run_id").with_columns(judge=pl.lit(name), score=pl.Series(scores, dtype=float))
        for name, scores in votes.items()
    )
    rb.append(study, {"judges": judges, "judgments": verdicts}, origin="recorded")
    return con


def test_table9_of_four_refusals_judged_by_people(study: Path) -> None:
    # The LLM says 1 0 1 1 (law a, law b, med a, med b).
    votes = {"expert-1": [1, 0, 1, 0], "expert-2": [1, 0, 0, 0], "gold": [1, 0, 1, 0]}
    con = people(study, votes)
    frame = paper.rebuild("table9", con, "llm-judge").frame
    row = frame.filter(metric="rejection").row(0, named=True)
    # Experts agree on 3 of 4, by chance on 1/2 * 1/4 + 1/2 * 3/4 = 1/2; judge and gold alike.
    assert row["human_kappa"] == pytest.approx(0.5)
    assert row["judge_kappa"] == pytest.approx(0.5)
    assert (row["judge_agreement"], row["n"]) == (0.75, 4)
    # Five zeros and three ones, one pair of four differs: 1 - (2 / 8) / (2 * 5 * 3 / (8 * 7)).
    assert row["human_alpha"] == pytest.approx(1 - 0.25 / (30 / 56))
    assert (row["human_agreement"], row["n_human"]) == (0.75, 4)
    assert frame.row(-1, named=True)["metric"] == "all"
    other = paper.rebuild("table9", con, "llm-judge", gold="expert-2").frame.row(0, named=True)
    assert other["judge_agreement"] == 0.5


def test_without_a_gold_the_people_are_listed(study: Path) -> None:
    con = people(study, {"ann": [1, 0, 1, 0], "bob": [1, 0, 0, 0]})
    with pytest.raises(RagbenchError, match=r"ann, bob.*gold="):
        paper.rebuild("table9", con, "llm-judge")


def test_table7_compares_only_what_all_llm_judges_saw(study: Path) -> None:
    con = rb.connect(study)
    with pytest.raises(RagbenchError, match="fewer than two LLM judges"):
        paper.rebuild("table7", con)
    mine = con.sql("FROM judgments WHERE criterion = 'rejection' AND response_id LIKE 'law%'").pl()
    second = mine.drop("run_id").with_columns(judge=pl.lit("second"), score=pl.lit(0.0))
    judges = [{"judge": "second", "kind": "llm"}]
    rb.append(study, {"judges": judges, "judgments": second}, origin="recorded")
    frame = paper.rebuild("table7", con).frame
    rows = {(row["model"], row["panel"]): row for row in frame.to_dicts()}
    assert {row["rejection_n"] for row in rows.values()} == {1}
    assert rows["model-b", "llm-judge + rules/1"]["rejection"] == 0.0  # law alone; with med 1/2
    assert rows["model-a", "second + rules/1"]["rejection"] == 0.0
    assert "loose_ias" not in frame.columns


# ---------------------------------------------------------------- what a study lacks


@pytest.mark.parametrize(
    ("artifact", "lack"),
    [
        ("table3", "no responses in conflict contexts; it has gap, noise"),
        ("figure3", "no responses in conflict contexts"),
        ("table8", "no responses in conflict contexts"),
        ("figure8", "no responses in conflict contexts"),
        ("figure6", "both with and without a protocol"),
        ("table9", "no person judged"),
        ("table7_reliability", "fewer than two LLM judges"),
    ],
)
def test_what_the_small_study_lacks_is_said(con, artifact: str, lack: str) -> None:
    with pytest.raises(RagbenchError, match=lack):
        paper.rebuild(artifact, con)


@pytest.mark.parametrize(
    ("artifact", "lack"),
    [
        ("table3", "no recognition verdicts .* by rules/1"),
        ("figure2", "no rejection verdicts .* by rules/1"),
        ("table8", "both kinds"),
        ("figure5", "no reasoning and standard variant"),
    ],
)
def test_what_the_recorded_study_lacks_is_said(recorded, artifact: str, lack: str) -> None:
    with pytest.raises(RagbenchError, match=lack):
        paper.rebuild(artifact, recorded)


def test_an_empty_study_lacks_everything_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.duckdb"
    rb.append(path, "judges", [{"judge": "r", "kind": "rule"}])
    con = rb.connect(path)
    for name in MADE:
        with pytest.raises(RagbenchError, match=r"no |fewer than two"):
            paper.rebuild(name, con)


def test_settings_are_never_one_number(recorded) -> None:
    frame = paper.rebuild("table2", recorded).frame
    assert frame["setting"].to_list() == ["constraints_last", "given_context"]
    cells = paper.against_paper("table2", frame).filter(pl.col("rebuilt").is_not_null())
    assert cells["row"].n_unique() == 2
    assert cells["status"].unique().to_list() == ["not published"]


# ---------------------------------------------------------------- files


def test_rebuild_all_makes_what_it_can_and_names_the_rest(study: Path, tmp_path: Path) -> None:
    names = ["table5", "table3", "figure2"]
    report = paper.rebuild_all(study, tmp_path / "out", names)
    assert report["artifact"].to_list() == names
    status = dict(report.select("artifact", "status").rows())
    assert status["table3"].startswith("not made: the study has no responses in conflict contexts")
    assert (status["table5"], status["figure2"]) == ("made", "made")
    assert report["cells"][0] == "20 cannot be rebuilt from rows, 15 differs"
    assert report["path"].to_list() == [
        str(tmp_path / "out" / "table5.html"),
        None,
        str(tmp_path / "out" / "figure2.html"),
    ]
    written = {file.name for file in (tmp_path / "out").iterdir()}
    assert written == {f"table5.{e}" for e in ("html", "tex", "md", "csv", "json")} | {
        f"figure2.{e}" for e in ("html", "csv", "json")
    } | {"rebuilt.csv"}
    again = paper.rebuild_all(study, tmp_path / "out", names)
    assert again["status"].to_list() == ["unchanged", status["table3"], "unchanged"]


ENDINGS = {"figure2": ("html", "csv", "json"), "table5": ("html", "tex", "md", "csv", "json")}


@pytest.mark.parametrize(
    ("name", "ending"), [(name, ending) for name, all_ in ENDINGS.items() for ending in all_]
)
@pytest.mark.parametrize("damage", ["other", "emptied", "gone"])
def test_an_artifact_that_was_changed_is_made_again(
    name: str, ending: str, damage: str, study: Path, tmp_path: Path
) -> None:
    paper.rebuild_all(study, tmp_path, [name])
    file = tmp_path / f"{name}.{ending}"
    before = file.read_bytes()
    assert paper.rebuild_all(study, tmp_path, [name])["status"].to_list() == ["unchanged"]
    if damage == "gone":
        file.unlink()
    elif ending == "json" and damage == "other":  # as readable as before, and no longer true
        file.write_bytes(before.replace(b'"recorded"', b'"measured"'))
        assert file.read_bytes() != before
    else:
        file.write_bytes(b"tampered" if damage == "other" else b"")
    assert paper.rebuild_all(study, tmp_path, [name])["status"].to_list() == ["made"]
    if ending != "json":  # which holds the time
        assert file.read_bytes() == before
    assert paper.rebuild_all(study, tmp_path, [name])["status"].to_list() == ["unchanged"]


def without_rejection(study: Path) -> None:
    """Let `study` be one that cannot give figure2 any more, but still table5."""
    rows = {name: rows for name, rows in study_rows().items() if name != "evidence"}
    rows["judgments"] = [row for row in rows["judgments"] if row["criterion"] == "adherence"]
    study.unlink()
    rb.append(study, rows, origin="recorded")


def test_what_cannot_be_made_any_more_leaves_nothing_behind(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    paper.rebuild_all(study, out, ["table5", "figure2"])
    (out / "figure2.txt").write_text("mine")
    without_rejection(study)
    report = paper.rebuild_all(study, out, ["figure2"])
    assert report["status"][0].startswith("not made: the study has no rejection verdicts")
    assert report["status"][0].endswith("; the former html, csv, json was removed")
    assert report["path"].to_list() == [None]
    assert {file.name for file in out.glob("figure2.*")} == {"figure2.txt"}
    assert rb.output.read_csv(out / "rebuilt.csv")["path"].to_list() == [
        str(out / "table5.html"),
        None,
    ]


def test_what_somebody_changed_is_not_removed_and_not_named(study: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    paper.rebuild_all(study, out, ["figure2"])
    (out / "figure2.html").write_text("notes of mine")
    without_rejection(study)
    assert paper.rebuild_all(study, out, ["figure2"])["path"].to_list() == [None]
    assert {file.name for file in out.glob("figure2.*")} == {"figure2.html"}
    rb.output.save(
        paper.rebuild("figure7", rb.connect(study)).figure,
        out / "figure2",
        frame=pl.DataFrame({"n": [1]}),
        call="by hand",
    )
    paper.rebuild_all(study, out, ["figure2"])
    assert {file.suffix for file in out.glob("figure2.*")} == {".html", ".csv", ".json"}


def test_another_study_in_the_place_of_one_is_said_and_growth_is_not(
    study: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    paper.rebuild_all(study, out, ["table5", "figure2"])
    rb.append(study, "models", [{"model": "another"}])
    grown = paper.rebuild_all(study, out, ["table5", "figure2"])
    assert grown["status"].to_list() == ["made", "made"]
    other = tmp_path / "elsewhere" / study.name
    other.parent.mkdir()
    shutil.copy(study, other)
    rb.append(other, "models", [{"model": "one more"}])
    report = paper.rebuild_all(other, out, ["table5", "figure2"])
    assert report["status"].to_list() == ["made; what stood here came from another study file"] * 2
    again = paper.rebuild_all(other, out, ["table5", "figure2"])
    assert again["status"].to_list() == ["unchanged", "unchanged"]
    assert str(tmp_path) not in (out / "figure2.json").read_text(encoding="utf-8")


def test_formats_that_were_made_before_never_stay_behind(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter([b"first", b"second", render.NoImages("there is no browser")])

    def images(_: Any, formats: list[str]) -> dict[str, bytes]:
        found = next(drawn)
        if isinstance(found, Exception):
            raise found
        return dict.fromkeys(formats, found)

    monkeypatch.setattr(render, "images", images)
    paper.rebuild_all(study, tmp_path / "out", ["figure2"], formats=["svg"])
    file = tmp_path / "out" / "figure2.svg"
    assert file.read_bytes() == b"first"
    rb.append(study, "models", [{"model": "another"}])
    paper.rebuild_all(study, tmp_path / "out", ["figure2"])
    assert file.read_bytes() == b"second"
    rb.append(study, "models", [{"model": "one more"}])
    report = paper.rebuild_all(study, tmp_path / "out", ["figure2"])
    assert report["status"][0].startswith("not written: there is no browser")
    assert not file.exists()


def test_a_stopped_call_leaves_no_word_on_what_it_was_making(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper.rebuild_all(study, tmp_path / "out", ["table5", "figure2"])
    rb.append(study, "models", [{"model": "another"}])

    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rb.output, "save", stop)  # after the table
    with pytest.raises(KeyboardInterrupt):
        paper.rebuild_all(study, tmp_path / "out", ["table5", "figure2"])
    assert rb.output.read_csv(tmp_path / "out" / "rebuilt.csv").is_empty()


def test_wrong_names_are_refused_before_anything_is_written(study: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="table2"):
        paper.rebuild_all(study, tmp_path / "out", ["table5", "tabel2"])
    with pytest.raises(UnknownName, match="format"):
        paper.rebuild_all(study, tmp_path / "out", ["table5"], formats=["gif"])
    assert not (tmp_path / "out").exists()


def test_the_command_makes_one_table_of_a_study(study: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    result = CliRunner().invoke(app, ["rebuild", "table2", "--study", str(study), "--out", out])
    assert result.exit_code == 0, result.output
    text = (tmp_path / "out" / "study" / "table2.md").read_text(encoding="utf-8")
    assert "| model\\-a |" in text or "| model-a |" in text
    assert "| 83.3 | 2 |" in text  # 5/6 of two, by hand in conftest.py


def test_a_difference_of_nothing_but_last_bits_is_nought() -> None:
    for value in (80.0, 80.00000000000001, 79.99999999999999):
        difference = printed.compared({"value": value, "n": 1, "origin": "measured"}, "80.0")
        assert str(difference["difference"]) == "0.0"
