"""A pack holds all that a reviewer needs, and gives the same study and numbers again."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import zipfile
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ragbench as rb
from ragbench import cli, packs, relations
from ragbench.errors import ExportFailed, RagbenchError, UnknownName


@pytest.fixture(scope="module")
def study() -> Path:
    return rb.paper.shipped()


@pytest.fixture(scope="module")
def packed(study, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("packs") / "whole"
    rb.pack(study, target)
    return target


def test_the_rows_of_a_pack_are_the_study(study, packed):
    again = packs.opened(packed)
    assert rb.checks.content_hash(rb.connect(again)) == rb.checks.content_hash(rb.connect(study))
    assert packs.opened(packed) == again, "the second time the study is there already"
    assert packs.opened(study) == study, "a study is opened as it is"


def test_a_pack_has_definitions_prompts_versions_artifacts_and_a_card(packed):
    for name in ("schema.sql", "views.sql", "scores.sql"):
        assert (packed / "definitions" / name).read_text("utf-8") == relations.read_sql(name)
    versions = dict(
        line.split("==") for line in (packed / "requirements.txt").read_text().splitlines()
    )
    assert versions["ragbench"] == rb.__version__
    assert versions["polars"] == pl.__version__
    assert {"duckdb", "plotly", "numpy"} <= versions.keys()
    card = (packed / "README.md").read_text("utf-8")
    assert "recorded" in card
    assert "CC0-1.0" in card
    assert "| local/smollm2-135m-instruct |" in card
    made = rb.output.read_csv(packed / "artifacts" / "rebuilt.csv")
    for row in made.filter(pl.col("status") == "made").iter_rows(named=True):
        assert (packed / "artifacts" / row["path"]).stat().st_size > 0
    assert str(Path.home()) not in card + made.write_csv()


def test_the_sums_are_those_of_the_files(packed):
    lines = (packed / "SHA256SUMS").read_text().splitlines()
    listed = dict(reversed(line.split("  ", 1)) for line in lines)
    assert len(listed) == len(lines) > 20
    for name, digest in listed.items():
        assert hashlib.sha256((packed / name).read_bytes()).hexdigest() == digest
    left = {
        path.relative_to(packed).as_posix() for path in packed.rglob("*") if path.is_file()
    } - listed.keys()
    assert {name for name in left if not name.startswith("study.duckdb")} == {"SHA256SUMS"}


def test_without_documents_no_text_of_one_is_in_any_file_and_every_score_stays(study, tmp_path):
    archive = tmp_path / "small.zip"
    report = rb.pack(
        study, archive, without=["documents"], licences={"Baking column": "CC BY-SA 4.0"}
    )
    con = rb.connect(study)
    texts = [row[0] for row in con.sql("SELECT text FROM documents").fetchall()]
    with zipfile.ZipFile(archive) as there:
        names = [name.split("/", 1)[1] for name in there.namelist() if not name.endswith("/")]
        assert set(report["file"]) | {"SHA256SUMS"} == set(names)
        plain = b"".join(
            there.read(name) for name in there.namelist() if not name.endswith("parquet")
        )
        card = there.read("small/README.md").decode()
    assert not [text for text in texts if text.encode() in plain]
    assert "| Baking column | 1 | CC BY-SA 4.0 |" in card
    assert "Left out of this pack: texts of documents." in card
    again = rb.connect(packs.opened(archive))
    assert again.sql("SELECT count(*), count(text) FROM documents").fetchall() == [(len(texts), 0)]
    assert_frame_equal(rb.scores(again), rb.scores(con))


def test_rebuild_works_from_a_pack(packed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv",
        ["ragbench", "rebuild", "table5", "--study", str(packed), "--out", str(tmp_path)],
    )
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    assert "made" in capsys.readouterr().out
    made = (tmp_path / packed.name / "table5.csv").read_bytes()
    assert made == (packed / "artifacts" / "table5.csv").read_bytes()


def test_a_changed_pack_is_refused(study, tmp_path):
    target = tmp_path / "pack"
    rb.pack(study, target)
    file = target / "rows" / "judgments.parquet"
    pl.read_parquet(file).with_columns(score=1.0).write_parquet(file)
    with pytest.raises(RagbenchError, match=r"judgments\.parquet is not the file"):
        packs.opened(target)
    (target / "SHA256SUMS").unlink()
    assert packs.opened(target).exists()


def small(file: Path, text: str) -> Path:
    """A study of one document that holds `text`."""
    rb.append(file, {"documents": [{"doc_id": "d", "text": text}]})
    return file


def archive(folder: Path, text: str, name: str = "p.zip") -> Path:
    """The rows of such a study, archived with sums as `pack` does, without its artifacts."""
    made = folder / f"of {text}" / "p"
    con = rb.connect(small(folder / f"{text}.duckdb", text))
    rb.export(con, made / "rows")
    (made / "definitions").mkdir()
    (made / "definitions" / "scores.sql").write_text("SELECT 1;")
    packs._sums(made)
    with zipfile.ZipFile(folder / name, "w") as there:
        for part, file in packs._files(made):
            there.write(file, f"p/{part}")
    return folder / name


def text_of(study: Path) -> str:
    return rb.connect(study).sql("SELECT text FROM documents").fetchall()[0][0]


def test_another_archive_under_the_name_of_one_gives_its_own_rows(tmp_path):
    first = packs.opened(archive(tmp_path, "one"))
    assert text_of(first) == "one"
    second = packs.opened(archive(tmp_path, "two"))
    assert (text_of(second), text_of(first)) == ("two", "one")
    assert packs.opened(tmp_path / "p.zip") == second


def test_a_folder_of_the_archives_name_is_neither_used_nor_touched(tmp_path):
    mine = tmp_path / "p"
    mine.mkdir()
    shutil.copy(small(tmp_path / "mine.duckdb", "mine"), mine / "study.duckdb")
    before = (mine / "study.duckdb").read_bytes()
    assert text_of(packs.opened(archive(tmp_path, "theirs"))) == "theirs"
    assert (mine / "study.duckdb").read_bytes() == before
    assert [file.name for file in mine.iterdir()] == ["study.duckdb"]


@pytest.mark.parametrize("part", ["rows/documents.parquet", "definitions/scores.sql", "SHA256SUMS"])
@pytest.mark.parametrize("was_open", [True, False])
def test_what_was_changed_after_unpacking_is_refused_also_when_opened_again(
    part, was_open, tmp_path
):
    file = archive(tmp_path, "one")
    folder = packs.opened(file).parent
    if not was_open:
        (folder / "study.duckdb").unlink()
    with (folder / part).open("ab") as handle:
        handle.write(b" ")
    with pytest.raises(RagbenchError, match=rf"{folder.name} is not what p\.zip holds"):
        packs.opened(file)
    shutil.rmtree(folder)
    assert text_of(packs.opened(file)) == "one"


@pytest.mark.parametrize(
    "change", ["rows", "definitions", "prompts", "added", "removed", "listing"]
)
def test_a_changed_file_of_a_pack_is_refused_also_when_its_study_stands(change, packed, tmp_path):
    packs.opened(packed)
    folder = tmp_path / "pack"
    shutil.copytree(packed, folder)
    said = {
        "rows": folder / "rows" / "judgments.parquet",
        "definitions": folder / "definitions" / "scores.sql",
        "prompts": next((folder / "prompts").glob("*.md")),
        "added": folder / "rows" / "claims.parquet",
        "removed": folder / "rows" / "judgments.parquet",
        "listing": folder / "README.md",
    }[change]
    if change == "removed":
        said.unlink()
    elif change == "listing":
        (folder / "SHA256SUMS").write_bytes(b"\xff\n")
    elif change == "added":
        assert not said.exists()
        shutil.copy(folder / "rows" / "runs.parquet", said)
    else:
        said.write_bytes(said.read_bytes() + b"\n")
    with pytest.raises(RagbenchError, match="is not the file that the pack was made with"):
        packs.opened(folder)


def test_the_study_of_a_folder_is_made_again_when_its_rows_are_others(tmp_path):
    folder = tmp_path / "rows of mine"
    rb.export(rb.connect(small(tmp_path / "a.duckdb", "one")), folder)
    study = packs.opened(folder)
    before = study.stat().st_mtime_ns
    assert text_of(packs.opened(folder)) == "one"
    assert study.stat().st_mtime_ns == before
    rb.export(rb.connect(small(tmp_path / "b.duckdb", "two")), folder)
    assert text_of(packs.opened(folder)) == "two"


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_study_that_rows_did_not_give_is_neither_used_nor_overwritten(is_ours, tmp_path):
    folder = tmp_path / "folder"
    rb.export(rb.connect(small(tmp_path / "a.duckdb", "one")), folder)
    study = folder / "study.duckdb"
    if is_ours:
        packs.opened(folder)
        rb.append(study, "models", [{"model": "added later"}])
    else:
        shutil.copy(small(tmp_path / "b.duckdb", "mine"), study)
    before = study.read_bytes()
    with pytest.raises(RagbenchError, match=r"study\.duckdb is not what the rows beside it gave"):
        packs.opened(folder)
    assert study.read_bytes() == before
    assert packs.opened(study) == study
    study.unlink()
    assert text_of(packs.opened(folder)) == "one"


def refuse(*_, **__):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), "here")


@pytest.mark.parametrize("place", ["tempfile.mkdtemp", "os.replace", "zipfile.ZipFile.extractall"])
def test_an_archive_in_a_folder_that_takes_nothing_is_one_line(place, tmp_path, monkeypatch):
    file = archive(tmp_path, "one")
    monkeypatch.setattr(place, refuse)
    with pytest.raises(RagbenchError, match=r"p\.zip cannot be .*Read-only.*copy it to") as said:
        packs.opened(file)
    assert len(str(said.value).splitlines()) == 1


def test_an_archive_that_cannot_be_read_is_one_line(tmp_path):
    file = archive(tmp_path, "one")
    content = bytearray(file.read_bytes())
    for at in (10, 60, 200):  # the method of the first file, its content
        content[at] ^= 0x55
    file.write_bytes(content)
    with pytest.raises(RagbenchError, match=r"p\.zip cannot be unpacked"):
        packs.opened(file)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".", "p.zip."))]


def test_a_pack_goes_into_a_folder_that_is_there(study, tmp_path):
    with pytest.raises(ExportFailed, match=f"there is no folder {tmp_path / 'typo'}"):
        rb.pack(study, tmp_path / "typo" / "pack.zip")
    assert not list(tmp_path.iterdir())


def test_a_pack_never_overwrites_and_leaves_nothing_half_written(study, tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    with pytest.raises(ExportFailed, match="exists"):
        rb.pack(study, there)
    with pytest.raises(UnknownName, match="document"):
        rb.pack(study, tmp_path / "new", without=["document"])
    with pytest.raises(RagbenchError, match="no study"):
        rb.pack(tmp_path / "none.duckdb", tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_names_in_an_archive_cannot_leave_its_folder(tmp_path):
    archive = tmp_path / "deep" / "evil.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as there:
        there.writestr("evil/rows/runs.parquet", b"no parquet")
        there.writestr("../../outside.txt", b"out")
    with pytest.raises(RagbenchError):
        packs.opened(archive)
    assert not (tmp_path / "outside.txt").exists()
    assert not (tmp_path.parent / "outside.txt").exists()


def test_hostile_names_stay_in_their_cell_of_the_card(study, tmp_path):
    file = tmp_path / "hostile.duckdb"
    document = {"doc_id": "d", "title": "t", "text": "x", "source": "a|b\n# <img onerror=x>"}
    rb.append(file, "documents", [document])
    rb.append(file, "judges", [{"judge": "rules/1", "kind": "rule"}])  # so that there is a panel
    rb.pack(file, tmp_path / "pack")
    card = (tmp_path / "pack" / "README.md").read_text("utf-8")
    assert "<img" not in card
    assert "| a\\|b \\# &lt;img onerror=x&gt; | 1 | not stated |" in card


def test_nothing_acts_in_the_markdown_of_a_card():
    said = packs._inert("<img onerror> $x$ [a](b) `c` | **d** \u202egnp.exe\nnext")
    assert "<" not in said
    assert "\u202e" not in said
    assert "\n" not in said
    for mark in "$[]`|*":
        assert said.count(mark) == said.count("\\" + mark)
