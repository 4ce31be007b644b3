"""How long a slice, an opening, a fold and an import take; each beside a limit or a peer.

    python bench/store.py             # 0.3 and 10 million verdicts
    python bench/store.py --large     # 100 million as well (minutes, about 10 GB of disk)

The peer is polars computing Loose and Strict per model from the same verdicts in Parquet.
Medians of several calls in one process; a limit is met or missed in the last column.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
from fill import fill

import ragbench as rb
from ragbench import store
from ragbench.files import create
from ragbench.folding import fold

SIZES = {"0.3 million": (1, 30), "10 million": (36, 150), "100 million": (360, None)}


def median(call: Callable[[], object], times: int = 7) -> float:
    """Milliseconds, the first call left out."""
    call()
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds) * 1000


def line(what: str, value: float, unit: str, limit: float | None = None, note: str = "") -> None:
    verdict = (
        "" if limit is None else f"limit {limit:g} {unit}: {'met' if value <= limit else 'MISSED'}"
    )
    print(f"{what:<52} {value:>10,.1f} {unit:<3} {verdict:<28} {note}", flush=True)


def peer(parquet: Path) -> pl.DataFrame:
    """Loose and Strict per model under one judge, by polars from the long table."""
    return (
        pl.scan_parquet(parquet)
        .filter(pl.col("criterion") == "adherence", pl.col("judge").is_in(["judge-a", "rules/1"]))
        .group_by("response_id", "model")
        .agg(loose=pl.col("score").mean(), strict=pl.col("score").min())
        .group_by("model")
        .agg(pl.col("loose", "strict").mean())
        .collect()
    )


def slices(folder: Path, name: str, scale: int, limit: float | None) -> None:
    file = folder / f"{scale}.duckdb"
    began = time.perf_counter()
    verdicts = fill(file, scale)
    size = file.stat().st_size / 1e6
    seconds = time.perf_counter() - began
    print(f"\n{name}: {verdicts:,} verdicts, {size:,.0f} MB, filled in {seconds:.0f} s")
    con = rb.connect(file)
    line("scores(con), all metrics, by model", median(lambda: rb.scores(con)), "ms", limit)
    line(
        "scores(con), by domain and context mode",
        median(lambda: rb.scores(con, by=("domain", "context_mode"))),
        "ms",
    )
    one = {"model": "model-3", "domain": "Legal"}
    line("scores(con), one model and domain", median(lambda: rb.scores(con, where=one)), "ms")
    line(
        "constraint_scores(con), by model and category",
        median(lambda: rb.constraint_scores(con), 3),
        "ms",
    )
    if scale < 100:
        parquet = folder / f"{scale}.parquet"
        con.execute(
            "COPY (SELECT j.*, r.model FROM judgments AS j "
            "JOIN responses AS r USING (response_id)) "
            f"TO '{parquet}'"
        ).fetchall()
        line("peer: polars from the verdicts in Parquet", median(lambda: peer(parquet), 3), "ms")
    folding(file)


def folding(file: Path) -> None:
    """One fold of a thousand new verdicts."""
    rows = rb.connect(file).sql("FROM judgments WHERE repeat = 0 LIMIT 1000").pl().to_dicts()
    with store.step(file, "bench", origin="simulated") as writer:
        for row in rows:
            writer.add({"judgments": {**row, "repeat": 1}})
        began = time.perf_counter()
        fold(file)
        seconds = time.perf_counter() - began
    line("one fold of 1,000 verdicts", seconds * 1000, "ms")


def opening(folder: Path) -> None:
    """A new process: import, open, first slice."""
    file = folder / "1.duckdb"
    code = (
        "import time, duckdb, polars, pyarrow; began = time.perf_counter(); import ragbench as rb; "
        f"con = rb.connect({str(file)!r}); rb.scores(con); print(time.perf_counter() - began)"
    )
    line("a new process: open and first slice", in_process(code) * 1000, "ms", 500)


def importing() -> None:
    base = "import duckdb, polars; "
    timed = "import time; began = time.perf_counter(); {} print(time.perf_counter() - began)"
    bare = in_process(timed.format(base))
    ours = in_process(timed.format(base + "import ragbench;"))
    line("import ragbench, above duckdb and polars", (ours - bare) * 1000, "ms", 100)
    heavy = ["litellm", "openai", "pingouin", "statsmodels", "scipy", "plotly", "pandas"]
    code = f"import ragbench, sys; print(sum(name in sys.modules for name in {heavy}))"
    line("heavy modules that it loads", in_process(code, times=1), "", 0)


def in_process(code: str, times: int = 5) -> float:
    """The number that a new Python prints, the median of several."""
    outputs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(times)
    ]
    return statistics.median(outputs)


def journal(folder: Path) -> None:
    """What it costs to make a row safe."""
    file = folder / "journal.duckdb"
    create(file, "journal")
    key = {"criterion": "adherence", "target_id": "c", "judge": "j", "score": 1.0}
    with store.step(file, "bench", origin="simulated") as writer:
        began = time.perf_counter()
        for i in range(20_000):
            writer.add({"judgments": {"response_id": f"r{i}", **key}})
        each = (time.perf_counter() - began) / 20_000
    line("one row made safe in a journal", each * 1e6, "µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", action="store_true", help="100 million verdicts as well")
    large = parser.parse_args().large
    importing()
    with tempfile.TemporaryDirectory(prefix="ragbench-bench-") as name:
        folder = Path(name)
        journal(folder)
        for label, (scale, limit) in SIZES.items():
            if scale < 100 or large:
                slices(folder, label, scale, limit)
            if scale == 1:
                opening(folder)


if __name__ == "__main__":
    main()
