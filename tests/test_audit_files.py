"""What people type: declarations of the wrong shape, other encodings, numbers as printed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ragbench import audit
from ragbench.audit.rounding import numbers
from ragbench.errors import BadRow, ImportFailed, RagbenchError, UnknownColumn

CSV = "system,n,right\nplain,120,78\nsearch,120,91\nall,240,169\n"
TOML = """
title = "Systems"
[tables.t]
file = "s.csv"
key = "system"
exact = ["n", "right"]
[[check]]
name = "all"
kind = "sum"
total = "t[all].n"
parts = "t[!all].n"
"""


def put(folder: Path, csv: str | bytes = CSV, toml: str | bytes = TOML) -> Path:
    for name, content in (("s.csv", csv), ("s.toml", toml)):
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    return folder / "s.toml"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (TOML, 'title = "x"', "tables has to be"),
        (TOML, 'tables = "x"', "tables has to be"),
        (TOML, "[[tables.t]]", "tables.t has to be"),
        ('file = "s.csv"\n', "", "file of tables.t"),
        ('"s.csv"', "3", "file of tables.t"),
        ('"system"', "3", "key of tables.t"),
        ('["n", "right"]', '["n", 3]', "exact of tables.t"),
        ("[[check]]", "[check]", "double brackets"),
        ('"sum"', '["sum"]', "kind of check 1"),
        ('kind = "sum"', 'kind = "sum"\nover = 3', "over of check 1"),
        ("[[check]]", '[claims]\ntext = ["n"]\n[[check]]', "text of claims"),
        ('exact = ["n", "right"]', 'decimals = {n = "1"}', "decimals of tables.t"),
    ],
)
def test_a_declaration_of_another_shape_is_told_what_it_has_to_be(
    tmp_path: Path, before: str, after: str, says: str
) -> None:
    file = put(tmp_path, toml=TOML.replace(before, after))
    with pytest.raises(ImportFailed, match=says) as told:
        audit.read(file)
    assert "\n" not in str(told.value)


def test_one_column_needs_no_list(tmp_path: Path) -> None:
    found = audit.read(put(tmp_path, toml=TOML.replace('["n", "right"]', '"right"')))
    assert found.tables["t"].exact == {"right"}


def test_a_claim_reads_as_the_declaration_says(tmp_path: Path) -> None:
    claims = '[claims]\ntable = "t"\ntext = "{system}: {right} of {n}"\n[[check]]'
    found = audit.read(put(tmp_path, toml=TOML.replace("[[check]]", claims)))
    assert found.claims["t", "plain"] == "plain: 78 of 120"
    with pytest.raises(UnknownColumn, match="wrong"):
        audit.read(put(tmp_path, toml=TOML.replace("[[check]]", claims.replace("right", "wrong"))))


def test_other_encodings_and_doubled_columns_are_named(tmp_path: Path) -> None:
    for csv, toml in (
        (CSV.replace("plain", "普通").encode("gbk"), TOML),
        (CSV, "#普".encode("gbk")),
    ):
        with pytest.raises(ImportFailed, match="UTF-8"):
            audit.read(put(tmp_path, csv, toml))
    with pytest.raises(ImportFailed, match="two columns 'n'"):
        audit.read(put(tmp_path, CSV.replace("right", "n")))
    put(tmp_path)
    (tmp_path / "s.toml").rename(tmp_path / "all.toml")
    (tmp_path / "a.toml").write_bytes("#普通".encode("gbk"))  # of somebody else
    assert audit.read(tmp_path / "s.csv").path.name == "all.toml"


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("3.2e-4", 0.00032, 0.00001),
        ("1E−5", 0.00001, 0.00001),
        ("1.2 × 10⁻³", 0.0012, 0.0001),
        ("5×10^-3", 0.005, 0.001),
        ("1\u202f358", 1358, 1),
        ("３．２", 3.2, 0.1),
        ("10²", 10, 1),  # a mark, not a power
        ("3 × 104", 3, 1),
    ],
)
def test_numbers_are_read_as_papers_print_them(text: str, value: float, unit: float) -> None:
    first = numbers(text)[0]
    assert (float(first.value), float(first.unit)) == pytest.approx((value, unit))


def test_a_decimal_comma_is_not_two_numbers(tmp_path: Path) -> None:
    with pytest.raises(BadRow, match="write a point"):
        audit.audit(put(tmp_path, CSV.replace("240", '"240,5"')))
    thousands = CSV.replace("120", '"120,000"').replace("240", '"240,000"')
    assert [f.status for f in audit.audit(put(tmp_path, thousands)).findings] == ["consistent"]


def test_a_draft_can_be_read_whatever_columns_are_called(tmp_path: Path) -> None:
    (tmp_path / 'a "b".csv').write_text('"the ""key"" \\n",全部\nx,1.5\n', encoding="utf-8")
    made = tomllib.loads(audit.draft(tmp_path / 'a "b".csv'))
    assert made["tables"]["t"] == {
        "file": 'a "b".csv',
        "label": "Table 1",
        "key": 'the "key" \\n',
        "percent": ["全部"],
        "exact": [],
    }
    with pytest.raises(RagbenchError, match="cannot be read as CSV"):
        audit.draft(tmp_path)
