"""The paper's comparisons of groups of instances: with and without a protocol, found and made.

Observational, both: the instances of the two groups are different ones. EnterpriseRAG (arXiv
2608.11584), Appendix C, Figures 6 and 8, Table 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import polars as pl

from ragbench import stats
from ragbench.arguments import several
from ragbench.errors import RagbenchError, UnknownName
from ragbench.metrics import METRICS, Where, criteria_of, merged
from ragbench.slices import RESPONSE_COLUMNS, conditions, mapping, panel_of
from ragbench.store import refresh

PROTOCOLS = {"rejection": "knowledge_gap", "conflict": "conflict_handling"}
"""The dimension whose presence makes a protocol for each behaviour."""

READINGS = ("matching", "any")


def protocol_effect(
    con: duckdb.DuckDBPyConnection,
    metric: str = "conflict",
    where: Where = None,
    panel: str | None = None,
    *,
    reading: str = "matching",
) -> pl.DataFrame:
    """One row per model: the rate with and without an explicit protocol, and the difference.

    Columns: model, n_with, n_without, lost_with, lost_without (planned and not judged), rate_with,
    rate_without, difference, low, high (Wald, as the paper), newcombe_low, newcombe_high, method
    and p_value (chi-square with Yates, or Fisher), p_holm over the models; stratified_difference
    with low and high and stratified_p_value (Mantel-Haenszel over domains); panel, origin, note.
    Sorted by model.

    Args:
        metric: "rejection" (in gaps) or "conflict" (in conflicts).
        reading: what "protocol present" means: "matching", a constraint of the sub-dimension made
            for it (`PROTOCOLS`), or "any" constraint on how to treat knowledge.

    Raises:
        UnknownName: another metric or reading.
    """
    if metric not in PROTOCOLS:
        raise UnknownName("metric", metric, PROTOCOLS, place="protocol_effect")
    if reading not in READINGS:
        raise UnknownName("reading", reading, READINGS, place="protocol_effect")
    refresh(con)
    cursor = con.cursor()
    name = panel_of(cursor, where, panel)
    condition, values = conditions(
        cursor, {**mapping(where), "panel": name}, RESPONSE_COLUMNS, "protocol_effect"
    )
    wanted = (
        "d.category = 'protocol'" if reading == "any" else f"c.dimension = '{PROTOCOLS[metric]}'"
    )
    mode = "gap" if metric == "rejection" else "conflict"
    counts = cursor.sql(
        f"""
        WITH marked AS (
            SELECT i.instance_id, coalesce(bool_or({wanted}), false) AS has_protocol
            FROM instances AS i
            LEFT JOIN instance_constraints AS ic USING (instance_id)
            LEFT JOIN constraints AS c USING (constraint_id)
            LEFT JOIN dimensions AS d USING (dimension)
            GROUP BY i.instance_id
        )
        SELECT s.model, s.domain, has_protocol, s.origin, count(*) AS planned,
            count(s.value) AS n, coalesce(sum(s.value), 0)::INTEGER AS met
        FROM criterion_summary AS s JOIN marked USING (instance_id)
        LEFT JOIN models AS m ON m.model = s.model
        WHERE {condition} AND s.metric = ? AND s.context_mode = ?
        GROUP BY ALL ORDER BY ALL
        """,
        params=[*values, metric, mode],
    ).pl()
    rows = [
        _effect(part) | {"model": model, "panel": name}
        for (model,), part in counts.partition_by(
            "model", as_dict=True, maintain_order=True
        ).items()
    ]
    frame = pl.DataFrame(rows, schema=_EFFECT)
    known = frame["p_value"].drop_nulls()
    if known.is_empty():
        return frame
    adjusted = stats.adjust(known.to_list())["holm"]
    holm = (
        frame.filter(pl.col("p_value").is_not_null()).select("model").with_columns(p_holm=adjusted)
    )
    return (
        frame.drop("p_holm").join(holm, on="model", how="left").select(list(_EFFECT)).sort("model")
    )


_EFFECT: dict[str, Any] = (
    {"model": pl.String}
    | dict.fromkeys(("n_with", "n_without", "lost_with", "lost_without"), pl.Int64)
    | dict.fromkeys(
        ("rate_with", "rate_without", "difference", "low", "high", "newcombe_low", "newcombe_high"),
        pl.Float64,
    )
    | {"method": pl.String}
    | dict.fromkeys(
        (
            "p_value",
            "p_holm",
            "stratified_difference",
            "stratified_low",
            "stratified_high",
            "stratified_p_value",
        ),
        pl.Float64,
    )
    | dict.fromkeys(("panel", "origin", "note"), pl.String)
)


def _effect(part: pl.DataFrame) -> dict[str, Any]:
    both = {flag: part.filter(pl.col("has_protocol") == flag) for flag in (True, False)}
    met, n, planned = (
        {flag: int(rows[name].sum()) for flag, rows in both.items()}
        for name in ("met", "n", "planned")
    )
    test = stats.two_proportions(met[True], n[True], met[False], n[False]).row(0, named=True)
    strata = (
        part.group_by("domain", maintain_order=True)
        .agg(
            x1=pl.col("met").filter("has_protocol").sum(),
            n1=pl.col("n").filter("has_protocol").sum(),
            x2=pl.col("met").filter(~pl.col("has_protocol")).sum(),
            n2=pl.col("n").filter(~pl.col("has_protocol")).sum(),
        )
        .select("x1", "n1", "x2", "n2")
    )
    pooled = stats.mantel_haenszel(strata).row(0, named=True)
    return {
        "n_with": n[True],
        "n_without": n[False],
        "lost_with": planned[True] - n[True],
        "lost_without": planned[False] - n[False],
        "rate_with": test["p1"],
        "rate_without": test["p2"],
        "difference": test["diff"],
        "low": test["wald_low"],
        "high": test["wald_high"],
        "newcombe_low": test["newcombe_low"],
        "newcombe_high": test["newcombe_high"],
        "method": test["method"],
        "p_value": test["p_value"],
        "stratified_difference": pooled["diff"],
        "stratified_low": pooled["diff_low"],
        "stratified_high": pooled["diff_high"],
        "stratified_p_value": pooled["p_value"],
        "origin": merged(", ".join(part["origin"].unique())),
        "note": test["note"],
    }


def natural_vs_synthetic(
    con: duckdb.DuckDBPyConnection,
    metrics: Sequence[str] = ("conflict", "strict_ias", "loose_ias", "coverage", "faithfulness"),
    where: Where = None,
    panel: str | None = None,
    *,
    margin: float = 0.2,
) -> pl.DataFrame:
    """One row per metric: conflicts that were found against conflicts that were made.

    Columns: metric; n_natural and n_synthetic instances, n_models; natural and synthetic (means
    over models, 0-1), difference (natural - synthetic); t, p_value and d_z of a paired t test over
    models (Table 8); low_95, high_95, low_90, high_90 of the difference between instances, each
    averaged over models (Welch); margin, the paper's verdict (95 % interval within it) and
    verdict_standard_90 (90 % interval, Figure 8); smallest_margin_95 and _90, which would just have
    given equivalence; panel, origin, note. In the order of `metrics`.

    Raises:
        UnknownName: a metric that single responses do not have.
    """
    refresh(con)
    cursor = con.cursor()
    name = panel_of(cursor, where, panel)
    rows = [
        {
            "metric": metric,
            "panel": name,
            **_contrast(_values(cursor, metric, where, name), margin),
        }
        for metric in several("metrics", metrics)
    ]
    return pl.DataFrame(rows, schema=_CONTRAST)


_CONTRAST: dict[str, Any] = (
    {"metric": pl.String}
    | dict.fromkeys(("n_natural", "n_synthetic", "n_models"), pl.Int64)
    | dict.fromkeys(
        ("natural", "synthetic", "difference", "t", "p_value", "d_z"),
        pl.Float64,
    )
    | dict.fromkeys(("low_95", "high_95", "low_90", "high_90", "margin"), pl.Float64)
    | {"verdict": pl.String, "verdict_standard_90": pl.String}
    | dict.fromkeys(("smallest_margin_95", "smallest_margin_90"), pl.Float64)
    | dict.fromkeys(("panel", "origin", "note"), pl.String)
)


def _values(
    cursor: duckdb.DuckDBPyConnection, metric: str, where: Where, panel: str
) -> pl.DataFrame:
    """Value per conflict instance and model, trials averaged, with is_augmented and origin."""
    condition, values = conditions(
        cursor,
        {**mapping(where), "panel": panel},
        RESPONSE_COLUMNS,
        "natural_vs_synthetic",
    )
    condition += " AND s.context_mode = 'conflict'"
    columns = {m.name: m.value for m in METRICS if m.weight == "1"}
    source, value = "adherence_summary", columns.get(metric, "s.value")
    if metric not in columns:
        criteria = criteria_of(cursor)
        if metric not in criteria:
            raise UnknownName("metric of single responses", metric, [*columns, *criteria])
        source, condition = "criterion_summary", f"{condition} AND s.metric = ?"
        values.append(metric)
    return cursor.sql(
        f"SELECT s.model, s.instance_id, s.is_augmented, s.origin, avg({value}) AS value "
        f"FROM {source} AS s LEFT JOIN models AS m ON m.model = s.model "
        f"WHERE {condition} AND s.is_augmented IS NOT NULL GROUP BY ALL "
        f"HAVING avg({value}) IS NOT NULL ORDER BY ALL",
        params=values,
    ).pl()


def _contrast(values: pl.DataFrame, margin: float) -> dict[str, Any]:
    models = (
        values.group_by("model", "is_augmented")
        .agg(pl.col("value").mean())
        .pivot("is_augmented", index="model", values="value")
        .sort("model")
    )
    if not {"true", "false"} <= set(models.columns):
        return {"note": "not testable: the study has no conflicts of both kinds with this metric"}
    models = models.drop_nulls()
    natural, synthetic = models["false"], models["true"]
    instances = values.group_by("instance_id", "is_augmented", maintain_order=True).agg(
        pl.col("value").mean()
    )
    parts = {flag: instances.filter(is_augmented=flag)["value"].to_list() for flag in (False, True)}
    row: dict[str, Any] = {
        "n_natural": len(parts[False]),
        "n_synthetic": len(parts[True]),
        "n_models": models.height,
        "natural": natural.mean(),
        "synthetic": synthetic.mean(),
        "difference": (natural - synthetic).mean(),
        "origin": merged(", ".join(values["origin"].unique())),
    }
    test = stats.paired_t(natural.to_list(), synthetic.to_list()).row(0, named=True)
    bounds = stats.tost(
        parts[False], parts[True], margin=margin, design="independent", unequal_variances=True
    ).row(0, named=True)
    row |= {name: test[name] for name in ("t", "p_value", "d_z")}
    kept = ("low_95", "high_95", "low_90", "high_90", "verdict", "verdict_standard_90")
    row |= {name: bounds[name] for name in (*kept, "smallest_margin_95", "smallest_margin_90")}
    return row | {"margin": margin, "note": test["note"] or bounds["note"]}


def agreement(
    con: duckdb.DuckDBPyConnection,
    criterion: str,
    judges: Sequence[str] = (),
    where: Where = None,
) -> pl.DataFrame:
    """One row per pair of judges: agreement on the verdicts that both gave.

    Columns: criterion, judge_a, kind_a, judge_b, kind_b, n, unmatched (verdicts that only one gave
    as a score), agreement (0-1), kappa with low and high, origin, note. Sorted by judges; all
    judges of the criterion unless named.

    Raises:
        RagbenchError: fewer than two judges gave verdicts.
    """
    refresh(con)
    cursor = con.cursor()
    condition, values = conditions(cursor, where, _BY_RESPONSE, "agreement")
    chosen = " AND j.judge IN (SELECT unnest(?))" if judges else ""
    rows = cursor.sql(
        "SELECT j.judge, g.kind::VARCHAR AS kind, j.response_id, j.target_id, j.score, "
        "o.origin::VARCHAR AS origin FROM judgments AS j JOIN judges AS g USING (judge) "
        "JOIN planned_responses AS s ON s.response_id = j.response_id "
        "LEFT JOIN models AS m ON m.model = s.model LEFT JOIN runs AS o ON o.run_id = j.run_id "
        f"WHERE j.criterion = ? AND j.repeat = 0 AND {condition}{chosen} ORDER BY ALL",
        params=[criterion, *values, *([list(judges)] if judges else [])],
    ).pl()
    kinds = dict(rows.select("judge", "kind").unique().sort("judge").rows())
    if len(kinds) < 2:
        raise RagbenchError(
            f"{len(kinds)} judge gave verdicts on {criterion!r} here; agreement needs two. Judge "
            "the same responses by another, or bring its verdicts in with `ragbench import`."
        )
    names = sorted(kinds)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    made = [
        {"criterion": criterion, "judge_a": a, "kind_a": kinds[a], "judge_b": b, "kind_b": kinds[b]}
        | _agreement(rows.filter(judge=a), rows.filter(judge=b))
        for a, b in pairs
    ]
    return pl.DataFrame(made, schema=_AGREEMENT)


_BY_RESPONSE = {name: sql for name, sql in RESPONSE_COLUMNS.items() if name != "panel"}
_AGREEMENT: dict[str, Any] = (
    dict.fromkeys(("criterion", "judge_a", "kind_a", "judge_b", "kind_b"), pl.String)
    | {"n": pl.Int64, "unmatched": pl.Int64}
    | dict.fromkeys(("agreement", "kappa", "low", "high"), pl.Float64)
    | {"origin": pl.String, "note": pl.String}
)


def _agreement(a: pl.DataFrame, b: pl.DataFrame) -> dict[str, Any]:
    both = a.join(b, on=["response_id", "target_id"], how="full", suffix="_b", coalesce=True)
    known = both.drop_nulls(["score", "score_b"]).sort("response_id", "target_id")
    unmatched = both.filter(pl.col("score").is_null() != pl.col("score_b").is_null()).height
    row: dict[str, Any] = {"n": known.height, "unmatched": unmatched}
    row["origin"] = merged(", ".join([*a["origin"].unique(), *b["origin"].unique()]))
    if not known.height:
        return row | {"note": "no verdict in common"}
    found = stats.cohen_kappa(known["score"].to_list(), known["score_b"].to_list()).row(
        0, named=True
    )
    row |= {name: found[name] for name in ("kappa", "low", "high", "note")}
    return row | {"agreement": float((known["score"] == known["score_b"]).mean())}  # type: ignore[arg-type]


def judge_reliability(
    con: duckdb.DuckDBPyConnection,
    metric: str,
    panels: Sequence[str],
    where: Where = None,
) -> pl.DataFrame:
    """One row: how far panels give the models the same scores (Table 7).

    Columns: metric, n_models, n_panels, n (fewest responses behind a score), icc_2k with low and
    high, mean_rho, origin, note. `where` chooses the responses that all panels judged.
    """
    from ragbench.metrics import scores

    frames = [
        scores(con, "model", where, panel, metrics=[metric]).select(
            "model",
            pl.lit(panel).alias("panel"),
            pl.col(metric).alias("score"),
            pl.col(f"{metric}_n").alias("n"),
            "origin",
        )
        for panel in panels
    ]
    long = pl.concat(frames)
    wide = long.pivot("panel", index="model", values="score").sort("model")
    rated = {"target": "model", "rater": "panel", "rating": "score"}
    icc = stats.icc2k(long.select("model", "panel", "score"), **rated).row(0, named=True)
    rho = stats.mean_spearman(long.select("model", "panel", "score"), **rated).row(0, named=True)
    notes = [note for note in (icc["note"], rho["note"]) if note]
    return pl.DataFrame(
        [
            {
                "metric": metric,
                "n_models": wide.drop_nulls().height,
                "n_panels": len(panels),
                "n": long["n"].min(),
                "icc_2k": icc["icc2_k"],
                "low": icc["icc2_k_low"],
                "high": icc["icc2_k_high"],
                "mean_rho": rho["mean_rho"],
                "origin": merged(", ".join(long["origin"].unique())),
                "note": "; ".join(notes) or None,
            }
        ],
        schema_overrides={"note": pl.String},
    )
