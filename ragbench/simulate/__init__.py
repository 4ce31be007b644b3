"""A study that nobody measured: made from a seed, with a known truth, to exercise and test methods.

`study` writes one whose printed aggregates are those of the EnterpriseRAG paper where whole numbers
allow it; agreement with the paper is therefore *by construction* and no finding. `truth` gives the
parameters behind it, `small` data sets with planted effects for tests of tests. What is printed and
what is ours is told apart in docs/simulation.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from ragbench.errors import StoreError, UnknownName

__all__ = ["EFFECTS", "frames", "study", "truth"]

EFFECTS = ("recognition_protocol", "refusal_protocol")
"""What can be planted: log-odds that an explicit protocol adds to recognition, to refusal."""


PARTS = 10


def study(
    path: str | os.PathLike[str], *, seed: int = 0, effects: Mapping[str, float] | None = None
) -> pl.DataFrame:
    """The printed numbers beside those of the new study at `path`, computed from its rows.

    Columns: artifact, cell, published, rebuilt, decimals, n, status (*by construction* or *not
    attainable*) and note. 491 queries, 983 instances, 13 models called `sim/…`; the same seed gives
    the same study on every machine. `effects` plants others than the stated model has (`EFFECTS`).

    Raises:
        UnknownName: an effect that cannot be planted.
        StoreError: `path` exists (simulated rows share no file with others), lies in no folder that
            there is, or cannot be written.

    Example:
        >>> study("sim.duckdb", seed=1).filter(status="not attainable")  # doctest: +SKIP
    """
    from ragbench.files import in_one_piece, no_folder, study_file
    from ragbench.simulate.report import report
    from ragbench.store import connect

    file = study_file(path)
    if os.path.lexists(file):
        raise StoreError(f"{file} exists; a simulated study gets a file of its own. Name another.")
    if not os.path.isdir(file.parent):
        raise StoreError(no_folder(file))
    with in_one_piece(file) as part:
        _store(part, *frames(seed, effects=effects))
    return report(connect(file))


def _store(path: Path, rows: dict[str, pl.DataFrame], config: dict[str, Any]) -> None:
    """Add the rows, responses and what hangs on them in a few parts: half the memory."""
    from ragbench.store import append

    late = ("responses", "claims", "judgments", "evidence")
    early = {name: frame for name, frame in rows.items() if name not in late}
    append(path, early, step="simulate", origin="simulated")
    instances = rows["instances"]["instance_id"]
    size = -(-len(instances) // PARTS)
    for start in range(0, len(instances), size):
        here = instances.slice(start, size).implode()
        part = {name: rows[name].filter(_instance(rows[name]).is_in(here)) for name in late}
        append(path, part, step="simulate", origin="simulated", config=config)
        config = {"seed": config["seed"], "effects": config["effects"]}  # the truth once


def _instance(frame: pl.DataFrame) -> pl.Expr:
    if "instance_id" in frame.columns:
        return pl.col("instance_id")
    return pl.col("response_id").str.split("/").list.first()


def frames(
    seed: int = 0, *, effects: Mapping[str, float] | None = None
) -> tuple[dict[str, pl.DataFrame], dict[str, Any]]:
    """The rows of a study by relation, and its truth as the run's config."""
    from ragbench.simulate import adherence, behaviour, benchmark, claims, judges, plan, rows

    for name in effects or ():
        if name not in EFFECTS:
            raise UnknownName("effect", name, EFFECTS, place="the simulated study")
    bench = benchmark.build(seed)
    planned = plan.make(seed, bench)
    shown = behaviour.make(seed, bench, planned, effects or {})
    met = adherence.make(seed, bench, planned, shown)
    wordings = rows.constraint_wordings(bench)
    has_rule = np.array([rule is not None for _, rule, _ in wordings])
    is_member = judges.subset(seed, bench, planned, (shown, met))
    others = judges.other_judges(seed, bench, planned, (shown, met), is_member, has_rule)
    others += judges.humans(seed, bench, planned, (shown, met), has_rule)
    made = rows.Made(
        bench,
        planned,
        shown,
        met,
        claims.make(seed, bench, planned),
        is_member,
        others,
        wordings,
    )
    parameters = [*met.truth, *_gains(shown.gains)]
    config = {"seed": seed, "effects": dict(effects or {}), "truth": parameters}
    return rows.frames(seed, made), config


def _gains(gains: Mapping[str, list[float]]) -> list[dict[str, Any]]:
    from ragbench.simulate.targets import MODELS

    return [
        {"parameter": name, "model": model.key, "group": "log-odds", "value": value}
        for name, values in sorted(gains.items())
        for model, value in zip(MODELS, values, strict=True)
    ]


def truth(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """The parameters behind a simulated study: columns parameter, model, group, value.

    Model is null where all share a parameter. Read from the run that made the study; empty for any
    other study.
    """
    rows = con.sql("SELECT config FROM runs WHERE step = 'simulate'").fetchall()
    found = [entry for (config,) in rows for entry in json.loads(config).get("truth", ())]
    schema = {"parameter": str, "model": str, "group": str, "value": float}
    return pl.DataFrame(found, schema=schema)
