"""What responses do: decline or answer in a gap, name a conflict and cover how much."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl

from ragbench import stats
from ragbench.errors import RagbenchError
from ragbench.metrics import merged
from ragbench.paper_tables import model_by
from ragbench.slices import panel_name
from ragbench.store import refresh

KINDS = ("declines", "disclaims, then answers", "answers")
"""What a response in a gap does. Only the first is a refusal."""


def refusals(con: duckdb.DuckDBPyConnection, panel: str | None = None) -> pl.DataFrame:
    """One row per model (and setting, where there are several) and kind of response in gaps.

    Columns: model, setting, kind (one of `KINDS`), panel, origin, count, and share_of_responses
    with _n (judged), _planned, _low and _high (Wilson; null where a query has several responses).
    Who refuses most often comes first. A disclaimer before an answer is what the judge called so: a
    verdict 1 on the criterion `disclaimer`, or, where there is no such verdict, that kind as the
    reason for the verdict on refusal. Judges that do not tell it apart have it among *answers*.

    Raises:
        RagbenchError: the panel gave no verdict on refusal in a gap.
    """
    refresh(con)
    cursor = con.cursor()
    name = panel_name(cursor, panel)
    rows = cursor.sql(
        "SELECT s.model, s.setting, s.origin, s.query_id, s.value, coalesce(d.score = 1, "
        "e.reason = 'disclaims, then answers', false) AS disclaims "
        "FROM criterion_summary AS s JOIN panels AS p ON p.panel = s.panel "
        "LEFT JOIN judgments AS d ON d.response_id = s.response_id AND d.judge = p.judge "
        "AND d.criterion = 'disclaimer' AND d.repeat = 0 AND d.score IS NOT NULL "
        "LEFT JOIN evidence AS e ON e.response_id = s.response_id AND e.judge = p.judge "
        "AND e.criterion = 'rejection' AND e.repeat = 0 "
        "WHERE s.panel = ? AND s.metric = 'rejection' AND s.context_mode = 'gap'",
        params=[name],
    ).pl()
    if not rows["value"].drop_nulls().len():
        raise RagbenchError(f"the study has no rejection verdicts in gap contexts by {name}.")
    made = []
    by = model_by(con, "gap")
    for group, part in rows.group_by(by):
        about = dict(zip(by, group, strict=True)) | {"panel": name}
        made += [about | row for row in _kinds(part)]
    frame = pl.DataFrame(made, schema=_SCHEMA).select(*by, pl.exclude("model", "setting"))
    declined = pl.col("share_of_responses").filter(kind=KINDS[0]).first().over(by)
    place = {kind: nth for nth, kind in enumerate(KINDS)}
    nth = pl.col("kind").replace_strict(place, return_dtype=pl.Int64)
    return frame.sort(-declined, *by, nth, nulls_last=True)


_SCHEMA: dict[str, Any] = (
    dict.fromkeys(("model", "setting", "kind", "panel", "origin"), pl.String)
    | {"count": pl.Int64, "share_of_responses": pl.Float64}
    | dict.fromkeys(("share_of_responses_n", "share_of_responses_planned"), pl.Int64)
    | dict.fromkeys(("share_of_responses_low", "share_of_responses_high"), pl.Float64)
    | {"share_of_responses_interval": pl.String}
)


def _kinds(part: pl.DataFrame) -> list[dict[str, Any]]:
    known = part.drop_nulls("value")
    is_refusal = known["value"] == 1
    disclaims = ~is_refusal & known["disclaims"]
    counts = (int(is_refusal.sum()), int(disclaims.sum()), int((~is_refusal & ~disclaims).sum()))
    is_one_per_query = known["query_id"].n_unique() == known.height
    about = {
        "origin": merged(", ".join(part["origin"].unique())),
        "share_of_responses_n": known.height,
        "share_of_responses_planned": part.height,
        "share_of_responses_interval": "Wilson" if is_one_per_query else "none: clustered",
    }
    rows = []
    for kind, count in zip(KINDS, counts, strict=True):
        row: dict[str, Any] = about | {"kind": kind, "count": count}
        if known.height:
            row["share_of_responses"] = count / known.height
        if known.height and is_one_per_query:
            ends = stats.proportion_interval(count, known.height).row(0, named=True)
            row |= {f"share_of_responses_{end}": ends[f"wilson_{end}"] for end in ("low", "high")}
        rows.append(row)
    return rows


def recognition_cost(con: duckdb.DuckDBPyConnection, panel: str | None = None) -> pl.DataFrame:
    """Two rows: how much more responses cover that name their conflict than those that do not.

    *same instance* compares responses of different models to one instance, *same model* responses
    of one model to different instances; the one leaves the ability of models in the difference, the
    other the difficulty of instances. Columns: comparison, difference of mean coverage (named -
    not named) with low and high (95 % t interval, clustered by query, or over models),
    n_responses, n_instances or n_models that have both kinds; panel, origin.

    Raises:
        RagbenchError: no response in a conflict has verdicts on both.
    """
    refresh(con)
    cursor = con.cursor()
    name = panel_name(cursor, panel)
    rows = cursor.sql(
        "SELECT c.instance_id, c.query_id, c.model, c.origin, c.value = 1 AS is_named, "
        "a.value AS coverage FROM criterion_summary AS c "
        "JOIN criterion_summary AS a ON a.response_id = c.response_id AND a.panel = c.panel "
        "WHERE c.panel = ? AND c.metric = 'conflict' AND a.metric = 'coverage' "
        "AND c.context_mode = 'conflict' AND c.value IS NOT NULL AND a.value IS NOT NULL",
        params=[name],
    ).pl()
    if rows.is_empty():
        raise RagbenchError(
            f"the study has no responses in conflict contexts with verdicts by {name} on both "
            "recognition and coverage."
        )
    about = {"panel": name, "origin": merged(", ".join(rows["origin"].unique()))}
    kinds = (
        ("same instance", ["instance_id", "query_id"], "query_id", "n_instances"),
        ("same model", ["model"], "model", "n_models"),
    )
    made = [
        {"comparison": kind, **_cost(rows, by, cluster, count), **about}
        for kind, by, cluster, count in kinds
    ]
    return pl.DataFrame(made, schema=_COST)


_COST: dict[str, Any] = (
    {"comparison": pl.String}
    | dict.fromkeys(("difference", "low", "high"), pl.Float64)
    | dict.fromkeys(("n_responses", "n_instances", "n_models"), pl.Int64)
    | dict.fromkeys(("panel", "origin"), pl.String)
)


def _cost(rows: pl.DataFrame, by: list[str], cluster: str, count: str) -> dict[str, Any]:
    """The mean over groups of the difference within each group that has both kinds."""
    is_named, coverage = pl.col("is_named"), pl.col("coverage")
    gap = coverage.filter(is_named).mean() - coverage.filter(~is_named).mean()
    groups = rows.group_by(by).agg(gap=gap, size=pl.len()).drop_nulls("gap").sort(by)
    found = stats.clustered_mean(groups["gap"].to_list(), groups[cluster].to_list())
    numbers = found.select(difference="mean", low="low", high="high").row(0, named=True)
    return numbers | {"n_responses": int(groups["size"].sum()), count: groups.height}
