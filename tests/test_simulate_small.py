"""Small data sets have the truth they were asked for, and tell naive methods from sound ones."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ragbench import simulate, stats
from ragbench.errors import StoreError
from ragbench.simulate import small

SETS = 150


def test_pairs_have_the_rates_asked_for_whatever_is_shared() -> None:
    for query in (0.0, 0.5):
        data = small.pairs(20_000, 2, rates=(0.35, 0.2), query=query, item=0.4, seed=3)
        assert data["a"].mean() == pytest.approx(0.35, abs=0.01)
        assert data["b"].mean() == pytest.approx(0.20, abs=0.01)


def test_what_is_shared_correlates() -> None:
    data = small.pairs(20_000, 2, query=0.5, item=0.4, seed=1)
    first, second = data["a"].to_numpy().reshape(-1, 2).T
    # Two outcomes use the same number with probability 0.5 squared.
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0.25, abs=0.02)
    alone = small.pairs(40_000, item=0.4, seed=1)
    both = np.corrcoef(alone["a"], alone["b"])[0, 1]
    assert both == pytest.approx(0.16, abs=0.02)


def test_votes_have_the_kappa_asked_for() -> None:
    data = small.votes(50_000, kappa=0.7, seed=2)
    found = stats.cohen_kappa(data["a"], data["b"])["kappa"][0]
    assert found == pytest.approx(0.7, abs=0.01)


def test_ratings_have_the_icc_asked_for() -> None:
    table = small.ratings(20_000, 3, spreads=(2.0, 0.0, 1.0), seed=2)
    assert stats.icc2k(table)["icc2_1"][0] == pytest.approx(0.8, abs=0.01)


def test_the_same_seed_gives_the_same_data_and_another_seed_others() -> None:
    assert small.pairs(50, seed=4).equals(small.pairs(50, seed=4))
    assert not small.pairs(50, seed=4).equals(small.pairs(50, seed=5))


def share(outcomes: list[bool]) -> float:
    return sum(outcomes) / len(outcomes)


def test_a_paired_test_that_ignores_queries_finds_too_much_and_clustering_does_not() -> None:
    naive, clustered = [], []
    for seed in range(SETS):
        data = small.pairs(80, 4, query=0.6, item=0.2, seed=seed)
        naive.append(stats.mcnemar(data["a"], data["b"])["p_value"][0] < 0.05)
        row = stats.clustered_mean(data["a"] - data["b"], data["query_id"]).row(0, named=True)
        clustered.append(not row["low"] <= 0 <= row["high"])
    assert share(naive) > 0.10
    assert share(clustered) < 0.10


def test_wilson_keeps_its_promise_with_one_instance_per_query_and_breaks_with_four() -> None:
    def covered(per_query: int, query: float) -> float:
        found = []
        for seed in range(SETS):
            data = small.one_group(80, per_query, query=query, seed=seed)
            row = stats.proportion_interval(int(data["success"].sum()), data.height)
            found.append(row["wilson_low"][0] <= 0.3 <= row["wilson_high"][0])
        return share(found)

    assert covered(1, 0.0) > 0.90
    assert covered(4, 0.7) < 0.88


def test_stratifying_by_domain_removes_an_effect_that_is_none() -> None:
    crude, pooled = [], []
    for seed in range(SETS):
        data = small.confounded([60] * 4, [0.2, 0.4, 0.6, 0.8], [0.2, 0.3, 0.4, 0.5], seed=seed)
        cells = []
        for part in [data, *data.partition_by("domain", maintain_order=True)]:
            has, rest = (part.filter(pl.col("has") == side)["success"] for side in (True, False))
            cells.append((int(has.sum()), len(has), int(rest.sum()), len(rest)))
        crude.append(stats.two_proportions(*cells[0])["p_value"][0] < 0.05)
        pooled.append(stats.mantel_haenszel(cells[1:])["p_value"][0] < 0.05)
    assert share(crude) > 0.2
    assert share(pooled) < 0.1


def test_holm_keeps_ten_comparisons_without_effect_from_giving_one() -> None:
    single, family = [], []
    for seed in range(60):
        values = []
        for place in range(10):
            data = small.pairs(200, seed=100 * seed + place)
            values.append(stats.mcnemar(data["a"], data["b"])["p_value"][0])
        single.append(min(values) < 0.05)
        family.append(bool(stats.adjust(values)["reject_holm"].any()))
    assert share(single) > 0.15
    assert share(family) < 0.12


# ---------------------------------------------------------------- where a study can be made


@pytest.fixture
def unmade(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rows are drawn in this test: a place that takes none is to be refused before."""
    monkeypatch.setattr(simulate, "frames", lambda *_, **__: pytest.fail("rows were drawn"))


def test_a_missing_folder_is_named_and_not_made(unmade: None, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"there is no folder {tmp_path / 'typo'}"):
        simulate.study(tmp_path / "typo" / "s.duckdb")
    assert not list(tmp_path.iterdir())


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def test_a_read_only_folder_is_one_line(
    unmade: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    monkeypatch.setattr(Path, "unlink", refuse)  # a read-only disk refuses it for no file, too
    with pytest.raises(StoreError, match=r"cannot write beside .*s\.duckdb") as said:
        simulate.study(tmp_path / "s.duckdb")
    assert len(str(said.value).splitlines()) == 1


@pytest.mark.parametrize("place", ["pathlib.Path.unlink", "os.replace", "ragbench.simulate.frames"])
def test_a_disk_that_takes_no_more_is_one_line_and_leaves_nothing(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulate, "frames", lambda *_, **__: ({}, {}))
    monkeypatch.setattr(simulate, "_store", lambda part, *_: part.write_bytes(b"rows"))
    monkeypatch.setattr(place, refuse)
    with pytest.raises(StoreError, match=r"cannot write beside .*Read-only"):
        simulate.study(tmp_path / "s.duckdb")
    assert not (tmp_path / "s.duckdb").exists()
    assert place == "pathlib.Path.unlink" or not list(tmp_path.iterdir())
