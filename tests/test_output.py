"""What is saved is whole, inert, and says where it comes from."""

import errno
import json
import os
import subprocess
import sys
from html.parser import HTMLParser

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragbench import figures, output, render
from ragbench.errors import ExportFailed, UnknownName

FRAME = pl.DataFrame(
    {
        "model": ["glm-4.5", "=cmd|' /C calc'!A0"],
        "panel": ["rules", "rules"],
        "origin": ["recorded", "measured"],
        "strict_ias": [0.25, 0.5],
        "strict_ias_n": [20, 18],
        "strict_ias_planned": [20, 20],
    }
)
EXECUTED = ["=1+1", "+cmd", "@x", "-2+3", "\t=1", "\r=1", "\n=1", " =1", "\u00a0=1", "\ufeff=1"]
EXECUTED += ["＝1", "－5", "'=1", "''+1"]


@pytest.mark.parametrize("text", EXECUTED)
def test_what_a_spreadsheet_executes_is_guarded(text):
    guarded = output.inert(pl.DataFrame({"text": [text]}))["text"][0]
    assert guarded == f"'{text}"


@pytest.mark.parametrize("text", ["it's", "'quoted'", "1+1", "a=b", "", "中文", "#N/A", "x\n=1"])
def test_harmless_text_is_left_alone(text):
    assert output.inert(pl.DataFrame({"text": [text]}))["text"][0] == text


LETTERS = st.sampled_from(list("'=+-@ \t\r\n\u200b\ufeff＝aé中,;\"\\#"))
TEXTS = st.lists(st.none() | st.text(LETTERS, max_size=6) | st.text(max_size=6), min_size=1)


@settings(deadline=None)
@given(TEXTS)
def test_guarding_is_undone_exactly(texts):
    frame = pl.DataFrame({"text": pl.Series(texts, dtype=pl.String)})
    guarded = output.inert(frame)
    assert output.restored(guarded).equals(frame)
    for text in guarded["text"].drop_nulls():
        bare = text.lstrip(" \t\r\n\x0b\x0c\u200b\ufeff")
        assert not bare.startswith(("=", "+", "-", "@", "＝"))


@settings(deadline=None)
@given(TEXTS)
def test_csv_gives_every_text_back(texts):
    # A letter in front keeps texts of digits from being read as numbers.
    frame = pl.DataFrame({"text": [f"a{text}" for text in texts], "raw": texts, "x": 1.5})
    frame = frame.with_columns(
        raw=pl.when(pl.col("raw").is_null()).then(None).otherwise("=" + pl.col("raw"))
    )
    back = pl.read_csv(output.to_csv(frame), infer_schema=False)
    assert (
        output.restored(back)
        .select("text", "raw")
        .equals(frame.select("text", "raw").cast(pl.String))
    )


def test_numbers_stay_numbers_and_column_names_are_guarded():
    frame = output.inert(pl.DataFrame({"=x": [-1.5, None], "n": [1, 2]}))
    assert frame.schema == {"'=x": pl.Float64, "n": pl.Int64}
    assert output.restored(frame).columns == ["=x", "n"]


def test_enums_lists_and_structs_become_text():
    kind = pl.Enum(["=a", "b"])
    frame = pl.DataFrame({"e": pl.Series(["=a", None], dtype=kind), "l": [["中", "=1"], None]})
    assert output.inert(frame).rows() == [("'=a", '["中", "=1"]'), (None, None)]


def test_an_empty_text_and_a_missing_one_stay_different():
    csv = output.to_csv(pl.DataFrame({"a": ["", None], "b": ["x", "y"]}))
    assert csv.decode("utf-8-sig").splitlines() == ['"a","b"', '"","x"', ',"y"']


def test_spreadsheets_and_databases_read_the_same_names(tmp_path):
    path = output.write(tmp_path / "a.csv", output.to_csv(FRAME))
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")  # Excel needs it to read Chinese
    assert duckdb.sql(f"FROM '{path}'").columns == FRAME.columns
    assert output.read_csv(path).equals(FRAME)


def test_saving_writes_picture_numbers_and_provenance(tmp_path):
    files = output.save(
        figures.dots(FRAME, "strict_ias"),
        tmp_path / "new" / "glm-4.5",
        frame=FRAME,
        call="dots",
        seed=7,
    )
    assert files["format"].to_list() == ["html", "csv", "json"]
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "glm-4.5.html",
        "glm-4.5.csv",
        "glm-4.5.json",
    }
    about = json.loads((tmp_path / "new" / "glm-4.5.json").read_text("utf-8"))
    assert about["call"] == "dots"
    assert about["seed"] == 7
    assert about["origin"] == ["measured", "recorded"]
    assert about["n"] == {"strict_ias": {"lowest": 18, "highest": 20}}
    assert about["formats"] == ["html"]
    assert about["study_hash"] is None
    assert output.read_csv(tmp_path / "new" / "glm-4.5.csv").equals(FRAME)


def test_what_was_changed_since_it_was_written_is_told(tmp_path):
    stem = tmp_path / "a"
    assert output.written(stem) == {}
    output.write_all(stem, {"html": b"<p>", "svg": None}, frame=FRAME, call="dots")
    assert output.written(stem)["call"] == "dots"
    assert output.written(stem)["intact"] == ["html", "csv", "json"]
    (tmp_path / "a.html").write_bytes(b"<b>")
    (tmp_path / "a.csv").unlink()
    about = (tmp_path / "a.json").read_text("utf-8")
    assert output.written(stem)["intact"] == ["json"]
    (tmp_path / "a.json").write_text(about.replace('"dots"', '"bars"'), "utf-8")
    assert output.written(stem)["intact"] == []
    for text in ("[]", "nonsense", '{"sha256": 3}', "{}", '{"sha256": {"../../x": "0"}}'):
        (tmp_path / "a.json").write_text(text)
        assert not output.written(stem).get("intact")


class Tags(HTMLParser):
    """What a page fetches; text inside scripts is not markup."""

    def __init__(self):
        super().__init__()
        self.fetched = []

    def handle_starttag(self, tag, attrs):
        self.fetched += [(tag, name, value) for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_no_network_and_runs_no_text_of_a_row(tmp_path):
    hostile = FRAME.with_columns(model=pl.lit("</script><script>alert(1)</script>"))
    output.save(figures.dots(hostile, "strict_ias"), tmp_path / "page", frame=hostile)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "alert(1)</script>" not in page
    seen = Tags()
    seen.feed(page)
    assert not seen.fetched
    assert len(page) > 1_000_000  # plotly.js is inside


def test_pictures_are_written_on_request(tmp_path):
    files = output.save(
        figures.dots(FRAME, "strict_ias"),
        tmp_path / "a",
        frame=FRAME,
        formats=("svg", "pdf", "png"),
    )
    if files["note"].str.len_chars().max():
        pytest.skip(f"no picture can be drawn here: {files['note'].max()}")
    assert files["format"].to_list() == ["html", "svg", "pdf", "png", "csv", "json"]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert b"glm-4.5" in (tmp_path / "a.svg").read_bytes()


def test_without_a_browser_the_rest_is_saved_and_one_line_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("BROWSER_PATH", "/nowhere/chromium")
    monkeypatch.setattr(render, "_BROWSER", render._Browser())
    files = output.save(
        figures.dots(FRAME, "strict_ias"),
        tmp_path / "a",
        frame=FRAME,
        formats=("html", "svg", "png"),
    )
    notes = dict(files.select("format", "note").rows())
    assert notes["html"] == notes["csv"] == notes["json"] == ""
    assert "install Chromium" in notes["svg"]
    assert capsys.readouterr().out.count("\n") == 1
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".html", ".json"]
    assert json.loads((tmp_path / "a.json").read_text())["formats"] == ["html"]


def test_an_unknown_format_is_named_before_anything_is_written(tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'png'"):
        output.save(
            figures.dots(FRAME, "strict_ias"), tmp_path / "a", frame=FRAME, formats=["pngg"]
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "Free some space"),
        (errno.EACCES, "Choose a folder you may write to"),
        (errno.EROFS, "Choose a folder you may write to"),
        (errno.ENAMETOOLONG, "shorter name"),
    ],
)
def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch, code, remedy):
    path = output.write(tmp_path / "a.csv", b"old")

    def fail(_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ExportFailed, match=rf"a\.csv was not written: .*{remedy}"):
        output.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["a.csv"]


def test_a_disk_that_takes_no_more_is_reported_by_a_real_write(tmp_path):
    code = (
        "import resource, signal, sys; from ragbench import output, errors\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: output.write(sys.argv[1], b'x' * 5000)\n"
        "except errors.ExportFailed as error: print(error)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.html")], capture_output=True, text=True
    )
    assert "a.html was not written: File too large" in told.stdout
    assert not list(tmp_path.iterdir())


def test_a_file_where_a_folder_is_needed_is_named(tmp_path):
    (tmp_path / "taken").write_text("x")
    with pytest.raises(ExportFailed, match=r"taken/a\.csv was not written.*choose another name"):
        output.write(tmp_path / "taken" / "a.csv", b"x")
