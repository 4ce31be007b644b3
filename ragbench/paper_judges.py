"""Tables 7 and 9 of EnterpriseRAG (arXiv 2608.11584): judges beside judges, and beside people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import polars.selectors as cs

from ragbench import stats
from ragbench.errors import RagbenchError
from ragbench.metrics import METRICS, merged, scores
from ragbench.paper_tables import BEHAVIOURS, Con, in_order, places
from ragbench.slices import panel_name


def judges(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Table 7, upper half: model and LLM panel, with Loose IAS, rejection and recognition.

    Each metric over the instances on which all LLM judges gave verdicts, and the models they all
    judged: what not all of them saw compares models of different instances.
    """
    frames = []
    for metric, criterion in (
        ("loose_ias", "adherence"),
        ("rejection", "rejection"),
        ("conflict", "conflict"),
    ):
        found = _seen_by_all(con, criterion, BEHAVIOURS.get(metric))
        if found:
            frames.append(scores(con, ("model", "panel"), found, metrics=[metric]))
    if not frames:
        raise RagbenchError(
            "fewer than two LLM judges gave verdicts on the same responses; comparing judges needs "
            "two. Judge the responses by another, or bring its verdicts in with `ragbench import`."
        )
    keys = ["model", "panel"]
    frame = frames[0]
    for other in frames[1:]:
        frame = frame.join(other, on=keys, how="full", coalesce=True, suffix="_other")
        frame = frame.with_columns(pl.coalesce("origin", "origin_other").alias("origin"))
        frame = frame.drop(cs.ends_with("_other"))
    frame = frame.drop("planned", "answered", "judged", "errors")
    frame = frame.with_columns(_judge=places("table7", "judge", frame["panel"]))
    return in_order(frame, "_judge", "panel").drop("_judge")


def reliability(frame: pl.DataFrame) -> pl.DataFrame:
    """Table 7, lower half, from its upper half (`judges`): how alike the panels score the models.

    One row per metric: n_models, n_judges, n (fewest responses behind a score); icc_2k with icc_low
    and icc_high; mean_rho, Spearman's, over pairs of judges; verdict (of the ICC: good from 0.75,
    excellent from 0.9); origin, note.
    """
    rows = []
    for metric in ("loose_ias", "rejection", "conflict"):
        if metric not in frame.columns:
            continue
        long = frame.select("model", "panel", score=metric).drop_nulls()
        if long.is_empty():
            continue
        rated = {"target": "model", "rater": "panel", "rating": "score"}
        icc = stats.icc2k(long, **rated).row(0, named=True)
        rho = stats.mean_spearman(long, **rated).row(0, named=True)
        rows.append(
            {
                "metric": metric,
                "n_models": long["model"].n_unique(),
                "n_judges": long["panel"].n_unique(),
                "n": frame[f"{metric}_n"].min() if f"{metric}_n" in frame.columns else None,
                "icc_2k": icc["icc2_k"],
                "icc_low": icc["icc2_k_low"],
                "icc_high": icc["icc2_k_high"],
                "mean_rho": rho["mean_rho"],
                "verdict": _verdict(icc["icc2_k"]),
                "origin": merged(", ".join(frame["origin"].unique())),
                "note": "; ".join(note for note in (icc["note"], rho["note"]) if note) or None,
            }
        )
    if not rows:
        raise RagbenchError("no metric has scores of the same models by two judges.")
    return pl.DataFrame(rows, schema_overrides={"note": pl.String, "n": pl.Int64})


def alignment(con: Con, panel: str | None = None, *, gold: str | None = None) -> pl.DataFrame:
    """Table 9: how far experts agree with one another, and the judge with the adjudicated gold.

    One row per metric: n (responses that judge and gold graded), human_kappa (mean over pairs of
    experts), judge_kappa with judge_kappa_low and _high, judge_agreement (0-1); n_human (responses
    that two experts graded), human_agreement (0-1, all pairs) and Krippendorff's human_alpha with
    human_alpha_low and _high; a last row *all* with the means. `gold` names the human judge whose
    verdicts are the gold, else the one whose name says "gold", else the only one; the other people
    are the experts.
    """
    judge = panel_name(con, panel)
    gold_panel, experts = _people(con, gold)
    rows = []
    for metric in ("strict_ias", "rejection", "conflict"):
        votes = _votes(con, metric, [gold_panel, *experts, judge])
        both = votes.drop_nulls([gold_panel, judge])
        if both.is_empty():
            continue
        found = stats.cohen_kappa(both[gold_panel].to_list(), both[judge].to_list()).row(
            0, named=True
        )
        rows.append(
            {
                "metric": metric,
                "n": both.height,
                "human_kappa": _mean_kappa(votes, experts),
                "judge_kappa": found["kappa"],
                "judge_kappa_low": found["low"],
                "judge_kappa_high": found["high"],
                "judge_agreement": found["percent_agreement"],
                **_among(votes, experts),
                "origin": merged(", ".join(both["origin"].unique())),
                "note": found["note"],
            }
        )
    if not rows:
        raise RagbenchError(f"{judge} and {gold_panel} graded no response in common.")
    numbers = dict.fromkeys(("human_kappa", *_AMONG[1:]), pl.Float64)
    frame = pl.DataFrame(rows, schema_overrides={"note": pl.String, "n_human": pl.Int64, **numbers})
    means = ("human_kappa", "judge_kappa", "judge_agreement", "human_agreement", "human_alpha")
    total = frame.select(
        pl.lit("all").alias("metric"),
        pl.col("n", "n_human").sum(),
        pl.col(means).mean(),
        pl.lit(merged(", ".join(frame["origin"]))).alias("origin"),
    )
    return pl.concat([frame, total], how="diagonal")


def _seen_by_all(con: Con, criterion: str, mode: str | None) -> dict[str, Any]:
    """`where` for the instances, models and panels of all LLM judges; empty without two."""
    rows = con.sql(
        "SELECT DISTINCT j.judge, s.instance_id, s.model FROM judgments AS j "
        "JOIN judges AS g USING (judge) JOIN planned_responses AS s USING (response_id) "
        "WHERE g.kind = 'llm' AND j.criterion = ? AND j.repeat = 0 "
        "AND (?::VARCHAR IS NULL OR s.context_mode = ?)",
        params=[criterion, mode, mode],
    ).pl()
    names = rows["judge"].unique().sort().to_list()
    shared = rows.group_by("instance_id", "model").len().filter(pl.col("len") == len(names))
    if len(names) < 2 or shared.is_empty():
        return {}
    where: dict[str, Any] = {
        name: shared[name].unique().sort().to_list() for name in ("instance_id", "model")
    }
    return where | {"panel": names}


def _verdict(icc: float | None) -> str | None:
    """The words of Koo and Li (2016) for a coefficient."""
    if icc is None:
        return None
    return next(
        word
        for least, word in ((0.9, "Excellent"), (0.75, "Good"), (0.5, "Moderate"), (-9, "Poor"))
        if icc >= least
    )


def _people(con: Con, gold: str | None) -> tuple[str, list[str]]:
    """The panel of the gold verdicts, and those of the experts."""
    found = con.sql(
        "SELECT panel, judge FROM panels WHERE kind = 'human' ORDER BY panel"
    ).fetchall()
    if not found:
        raise RagbenchError(
            "no person judged this study, so no judge can be compared with people. Bring people's "
            "verdicts in with `ragbench import` and a judge of kind 'human'."
        )
    if gold is not None:
        chosen = panel_name(con, gold)
    else:
        named = [panel for panel, judge in found if "gold" in judge.casefold()]
        if len(named) != 1 and len(found) > 1:
            raise RagbenchError(
                f"several people judged ({', '.join(judge for _, judge in found)}): name the one "
                "whose verdicts are the gold with gold=…."
            )
        chosen = named[0] if len(named) == 1 else found[0][0]
    return chosen, [panel for panel, _ in found if panel != chosen]


def _votes(con: Con, metric: str, panels: Sequence[str]) -> pl.DataFrame:
    """One row per response, one column per panel: 0 or 1, null where it did not grade."""
    if metric in {known.name for known in METRICS}:
        source, condition = f"SELECT *, {metric} AS vote FROM adherence_summary", "true"
    else:
        source = "SELECT *, value AS vote FROM criterion_summary"
        condition = f"metric = '{metric}' AND context_mode = '{BEHAVIOURS[metric]}'"
    rows = con.sql(
        f"SELECT panel, response_id, vote, origin FROM ({source}) WHERE {condition} "
        "AND panel IN (SELECT unnest(?)) AND vote IS NOT NULL",
        params=[list(dict.fromkeys(panels))],
    ).pl()
    origin = rows.group_by("response_id").agg(pl.col("origin").unique().sort().str.join(", "))
    wide = rows.pivot("panel", index="response_id", values="vote").sort("response_id")
    absent = [pl.lit(None, pl.Float64).alias(name) for name in panels if name not in wide.columns]
    return wide.with_columns(absent).join(origin, on="response_id")


_AMONG = ("n_human", "human_agreement", "human_alpha", "human_alpha_low", "human_alpha_high")


def _among(votes: pl.DataFrame, experts: Sequence[str]) -> dict[str, Any]:
    """How far the experts agree, whatever the number of them; nothing with fewer than two."""
    if len(experts) < 2:
        return dict.fromkeys(_AMONG)
    rated = votes.select(experts).rows()
    alpha = stats.krippendorff_alpha(rated).row(0, named=True)
    same = stats.agreement(rated).row(0, named=True)
    values = (alpha["n"], same["agreement"], alpha["alpha"], alpha["low"], alpha["high"])
    return dict(zip(_AMONG, values, strict=True))


def _mean_kappa(votes: pl.DataFrame, experts: Sequence[str]) -> float | None:
    found = []
    for place, first in enumerate(experts):
        for second in experts[place + 1 :]:
            both = votes.drop_nulls([first, second])
            kappa = stats.cohen_kappa(both[first].to_list(), both[second].to_list())["kappa"][0]
            found += [] if kappa is None else [float(kappa)]
    return sum(found) / len(found) if found else None
