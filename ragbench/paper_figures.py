"""The frames behind Figures 2 to 9 of EnterpriseRAG (arXiv 2608.11584), from any study's rows.

Every maker takes a connection and a panel (None: the study's primary one). A study that lacks what
a figure is about gets an error that names what is missing. Proportions are 0-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from ragbench import stats
from ragbench.comparisons import paired
from ragbench.contrasts import PROTOCOLS, protocol_effect
from ragbench.errors import RagbenchError
from ragbench.metrics import constraint_scores, scores
from ragbench.paper_tables import (
    BEHAVIOURS,
    ORIGIN,
    Con,
    described,
    in_order,
    listed,
    model_by,
    needed,
    per_setting,
    refuse_unjudged,
)
from ragbench.taxonomy import CATEGORIES, DIMENSIONS, DOMAINS

PLANNED = (
    ("strict_ias", "noise"),
    ("strict_ias", "gap"),
    ("strict_ias", "conflict"),
    ("rejection", "gap"),
    ("conflict", "conflict"),
)
"""What Figure 5 compares for each pair of variants: metric and context mode."""


def rejection(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Figure 2: rejection, Strict and Loose IAS per model on gaps, best rejection first."""
    chosen = ["rejection", "strict_ias", "loose_ias"]
    frame = scores(con, model_by(con, "gap"), needed(con, "gap"), panel, metrics=chosen)
    refuse_unjudged(frame, "rejection", "rejection verdicts (criterion 'rejection')")
    return described(con, frame).sort("rejection", descending=True, nulls_last=True)


def recognition_and_coverage(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Figure 3: recognition and coverage per model on conflicts, with their rank correlation.

    `rho`, its exact `rho_p_value` (two-sided) and `rho_models` are of the model's paradigm, and
    stand in each of its rows; null where fewer than two models have both metrics.
    """
    where = needed(con, "conflict")
    by = model_by(con, "conflict")
    frame = described(con, scores(con, by, where, panel, metrics=["conflict", "coverage"]))
    refuse_unjudged(frame, "conflict", "recognition verdicts (criterion 'conflict')")
    refuse_unjudged(frame, "coverage", "coverage verdicts in conflict contexts")
    keys = ["paradigm", *by[1:]]
    found = []
    for group, part in frame.group_by(keys, maintain_order=True):
        test = stats.spearman(part["conflict"].to_list(), part["coverage"].to_list())
        numbers = test.select(rho="rho", rho_p_value="p_value", rho_models="n").row(0, named=True)
        found.append(dict(zip(keys, group, strict=True)) | numbers)
    types: dict[str, Any] = {"rho": pl.Float64, "rho_p_value": pl.Float64, "rho_models": pl.Int64}
    rho = pl.DataFrame(found, schema=types | {key: frame.schema[key] for key in keys})
    return in_order(frame.join(rho, on=keys, how="left", nulls_equal=True))


def errors_by_dimension(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Figure 4: share of failed constraints per dimension and model, over all context modes.

    `error_rate` with low and high is 1 - adherence; `share_of_errors` the part of the model's
    failures that the dimension makes.
    """
    by = model_by(con)
    frame = constraint_scores(con, (*by, "category", "dimension"), None, panel)
    refuse_unjudged(frame, "adherence", "verdicts on constraints")
    failed = (1 - pl.col("adherence")) * pl.col("adherence_n")
    frame = frame.select(
        *by,
        "category",
        "dimension",
        "panel",
        "origin",
        "planned",
        "judged",
        "errors",
        error_rate=1 - pl.col("adherence"),
        error_rate_n="adherence_n",
        error_rate_planned="adherence_planned",
        error_rate_low=1 - pl.col("adherence_high"),
        error_rate_high=1 - pl.col("adherence_low"),
        error_rate_interval="adherence_interval",
        share_of_errors=failed / failed.sum().over(by),
    )
    return listed(in_order(frame), "dimension", DIMENSIONS)


def reasoning_gains(
    con: Con, panel: str | None = None, *, pairs: Iterable[Sequence[str]] = ()
) -> pl.DataFrame:
    """Figure 5: reasoning against standard variant on the same instances, one row per comparison.

    Columns: a (reasoning), b (standard), metric, context_mode, n pairs, lost (planned, without
    both values), only_a, only_b; mean_a, mean_b, difference with low and high (percentile
    bootstrap of pairs, 10,000); p_value (McNemar, one-sided: a is better), method, stars (of the
    p as it is: * .05, ** .01, *** .001), p_holm over all rows; beside them clustered_low,
    clustered_high and the two-sided clustered_p_value of `paired`, with clustered_p_holm; panel,
    origin, note.

    `pairs` names (reasoning, standard) models; otherwise those of one family and size
    (models.family, params_b, paradigm) are taken. Comparisons that the study has no verdicts for
    are left out.
    """
    chosen = [tuple(pair) for pair in pairs] or _variants(con)
    rows = []
    for a, b in chosen:
        for metric, mode in PLANNED:
            try:
                found = paired(
                    con, metric, {"model": a}, {"model": b}, {"context_mode": mode}, panel
                )
            except RagbenchError as error:
                lacking = error
                continue
            row = found.row(0, named=True)
            if row["n"]:
                rows.append({**row, "a": a, "b": b, "context_mode": mode} | _gain(row))
    if not rows:
        raise RagbenchError(f"no pair of variants has verdicts on the same instances: {lacking}")
    frame = pl.DataFrame(rows, schema=_GAIN)
    adjusted = {
        f"{kind}p_holm": stats.adjust(frame[f"{kind}p_value"])["holm"]
        for kind in ("", "clustered_")
        if frame[f"{kind}p_value"].is_not_null().any()
    }
    return frame.with_columns(**adjusted)


_GAIN: dict[str, Any] = (
    dict.fromkeys(("a", "b", "metric", "context_mode"), pl.String)
    | dict.fromkeys(("n", "lost", "only_a", "only_b"), pl.Int64)
    | dict.fromkeys(("mean_a", "mean_b", "difference", "low", "high", "p_value"), pl.Float64)
    | {"method": pl.String, "stars": pl.String, "p_holm": pl.Float64}
    | dict.fromkeys([f"clustered_{name}" for name in ("low", "high", "p_value")], pl.Float64)
    | {"clustered_p_holm": pl.Float64}
    | dict.fromkeys(("panel", "origin", "note"), pl.String)
)


def _gain(row: dict[str, Any]) -> dict[str, Any]:
    """What the paper adds to a paired difference: its own interval, test and stars."""
    made: dict[str, Any] = {"lost": row["lost_a"] + row["lost_b"] + row["lost_both"]}
    made |= {f"clustered_{name}": row[name] for name in ("low", "high", "p_value")}
    made |= dict.fromkeys(("p_holm", "clustered_p_holm", "p_value", "method", "note"))
    made["stars"] = ""
    cells = [row[name] for name in ("both", "only_a", "only_b", "neither")]
    if None in cells:
        return made | {"note": "trials were averaged: no McNemar test; interval clustered by query"}
    test = stats.mcnemar(row["only_a"], row["only_b"], alternative="greater").row(0, named=True)
    drawn = stats.paired_bootstrap(counts=cells).row(0, named=True)
    made |= {"low": drawn["low"], "high": drawn["high"], "method": test["method"]}
    p = test["p_value"]
    stars = "*" * sum(p < level for level in (0.05, 0.01, 0.001))
    return made | {"p_value": p, "stars": stars, "note": test["note"] or drawn["note"]}


def _variants(con: Con) -> list[tuple[str, ...]]:
    """Pairs of a reasoning and a standard model of one family and one size."""
    found = con.sql(
        "SELECT a.model, b.model FROM models AS a JOIN models AS b "
        "ON a.family = b.family AND a.params_b = b.params_b "
        "WHERE a.paradigm = 'reasoning' AND b.paradigm = 'standard' "
        "ORDER BY a.params_b, a.model, b.model"
    ).fetchall()
    if not found:
        raise RagbenchError(
            "the study has no reasoning and standard variant of one family and size "
            "(models.family, paradigm, params_b). Name them with pairs=[(reasoning, standard), …]."
        )
    return found


def protocol_effects(
    con: Con, panel: str | None = None, *, reading: str = "matching"
) -> pl.DataFrame:
    """Figure 6: `protocol_effect` per metric and model, for the behaviours the study has.

    Models without instances both with and without a protocol are left out.
    """
    frames = []
    for metric in PROTOCOLS:
        mode = BEHAVIOURS[metric]
        frame = per_setting(
            con,
            mode,
            lambda where, metric=metric: protocol_effect(  # type: ignore[misc]
                con, metric, where, panel, reading=reading
            ),
        )
        kept = frame.filter(pl.col("difference").is_not_null())
        frames.append(in_order(kept.select(pl.lit(metric).alias("metric"), pl.all())))
    frame = pl.concat(frames, how="diagonal")
    if frame.is_empty():
        raise RagbenchError(
            "the study has no rejection verdicts in gap contexts, nor recognition verdicts in "
            "conflict contexts, on instances both with and without a protocol constraint."
        )
    return frame


def constraint_shares(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Figure 7: how many constraints each category and dimension has, and their share of all."""
    frame = con.sql(
        "SELECT coalesce(d.category::VARCHAR, '(no category)') AS category, c.dimension, "
        "any_value(o.origin) AS origin, count(*) AS count, "
        "count(*) / sum(count(*)) OVER () AS share "
        "FROM constraints AS c LEFT JOIN dimensions AS d USING (dimension) "
        f"CROSS JOIN ({ORIGIN}) AS o GROUP BY ALL"
    ).pl()
    if frame.is_empty():
        raise RagbenchError("the study has no constraints, so there are none to count.")
    return listed(listed(frame, "dimension", DIMENSIONS), "category", CATEGORIES)


def domain_profiles(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Figure 9: Strict, Loose, faithfulness and coverage per model and domain on noise contexts."""
    by = (*model_by(con, "noise"), "domain")
    chosen = ["strict_ias", "loose_ias", "faithfulness", "coverage"]
    frame = scores(con, by, needed(con, "noise"), panel, metrics=chosen)
    if not frame["domain"].drop_nulls().len():
        raise RagbenchError("the study's queries name no domain (queries.domain).")
    return in_order(listed(frame, "domain", DOMAINS))
