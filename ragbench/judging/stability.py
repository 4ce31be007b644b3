"""How stable a judge is: repeats of one verdict that do not say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import polars as pl

from ragbench.intervals import wilson
from ragbench.slices import CONSTRAINT_COLUMNS, conditions, grouping
from ragbench.store import refresh

_COLUMNS = {name: sql for name, sql in CONSTRAINT_COLUMNS.items() if name != "panel"}


def flip_rates(
    con: duckdb.DuckDBPyConnection,
    by: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """How often a judge changes its mind, one row per judge, criterion and group, sorted.

    Columns: judge, criterion, the names in `by`; n (targets with scores in two repeats or more),
    flipped (of these, not always the same score), flip_rate with low and high (95 %, Wilson),
    pairs (of repeats), pair_disagreement (share of pairs that differ), errors (repeats without a
    score). Rates are null where n is 0.

    Args:
        by: columns of responses and constraints, as in `constraint_scores` (dimension, domain, …).

    Raises:
        UnknownColumn: a name in `by` or `where` that neither responses nor constraints have.
    """
    refresh(con)
    cursor = con.cursor()
    condition, values = conditions(cursor, where, _COLUMNS, "flip_rates")
    names = grouping(by, _COLUMNS, "flip_rates")
    listed = "".join(f'{_COLUMNS[name]} AS "{name}", ' for name in names)
    keys = ", ".join(["judge", "criterion", *(f'"{name}"' for name in names)])
    counts = cursor.sql(
        f"""
            WITH said AS (
                SELECT j.judge, j.criterion, {listed} j.response_id, j.target_id, j.score,
                    count(*) AS times, max(j.repeat) AS last
                FROM judgments AS j
                JOIN planned_responses AS s ON s.response_id = j.response_id AND s.is_answered
                LEFT JOIN models AS m ON m.model = s.model
                LEFT JOIN constraints AS c ON c.constraint_id = j.target_id
                LEFT JOIN dimensions AS d ON d.dimension = c.dimension
                WHERE {condition} GROUP BY ALL
            ), targets AS (
                SELECT {keys}, response_id, target_id,
                    coalesce(sum(times) FILTER (WHERE score IS NOT NULL), 0) AS scores,
                    coalesce(sum(times * times) FILTER (WHERE score IS NOT NULL), 0) AS squares,
                    coalesce(sum(times) FILTER (WHERE score IS NULL), 0) AS errors
                FROM said GROUP BY ALL HAVING max(last) > 0
            )
            SELECT {keys},
                count(*) FILTER (WHERE scores > 1)::BIGINT AS n,
                count(*) FILTER (WHERE scores * scores > squares)::BIGINT AS flipped,
                (sum(scores * (scores - 1)) / 2)::BIGINT AS pairs,
                ((sum(scores * scores) - sum(squares)) / 2)::BIGINT AS apart,
                sum(errors)::BIGINT AS errors
            FROM targets GROUP BY ALL ORDER BY ALL
            """,
        params=values,
    ).pl()
    limits = [wilson(x, n) if n else (None, None) for x, n in counts.select("flipped", "n").rows()]
    n, pairs = pl.col("n"), pl.col("pairs")
    return counts.select(
        "judge",
        "criterion",
        *names,
        "n",
        "flipped",
        pl.when(n > 0).then(pl.col("flipped") / n).alias("flip_rate"),
        pl.Series("low", [low for low, _ in limits], pl.Float64),
        pl.Series("high", [high for _, high in limits], pl.Float64),
        "pairs",
        pl.when(pairs > 0).then(pl.col("apart") / pairs).alias("pair_disagreement"),
        "errors",
    )
