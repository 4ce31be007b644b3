"""What is exported as Parquet comes back, with the origin it had."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import study_rows

import ragbench as rb
from ragbench.checks import content_hash


@pytest.mark.parametrize("origin", ["measured", "recorded", "simulated"])
def test_an_exported_study_comes_back_with_its_origin(tmp_path: Path, origin: str) -> None:
    rb.append(tmp_path / "first.duckdb", study_rows(), origin=origin)
    first = rb.connect(tmp_path / "first.duckdb")
    rb.export(first, tmp_path / "folder")
    rb.load_folder(tmp_path / "second.duckdb", tmp_path / "folder")
    second = rb.connect(tmp_path / "second.duckdb")
    assert content_hash(second) == content_hash(first)
    assert second.sql("SELECT DISTINCT origin FROM runs").pl()["origin"].to_list() == [origin]


def test_the_shipped_study_says_recorded_of_every_row() -> None:
    con = rb.connect(rb.paper.shipped())
    assert con.sql("SELECT DISTINCT origin FROM runs").pl()["origin"].to_list() == ["recorded"]
