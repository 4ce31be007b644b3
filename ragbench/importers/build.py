"""From rows with known columns to the relations of a study."""

from __future__ import annotations

import polars as pl

from ragbench.importers import entities, verdicts
from ragbench.importers.identity import (
    cleaned,
    identified,
    refuse,
    refuse_odd_ids,
    with_columns,
    with_constraints,
    with_whole,
)
from ragbench.importers.report import Report
from ragbench.importers.study import Study

Frames = dict[str, pl.DataFrame]

# Rows that bring or plan a response and no verdict, as logs do for answers that failed.
_IS_ANSWER_ONLY = pl.all_horizontal(
    pl.col("criterion", "score", "error").is_null()
) & pl.any_horizontal(pl.col("text", "response_error", "_planned").is_not_null())


def frames_of(kind: str, frame: pl.DataFrame, study: Study, report: Report) -> Frames:
    """The rows of each relation, each with the `line` of the file that it comes from."""
    if frame.is_empty():
        return {}
    frame = refuse_odd_ids(cleaned(frame), report)
    frame = entities.typed(frame, report)
    frame = identified(frame, study, report)
    if kind == "constraints":
        return _constraints(frame, study, report)
    if kind == "responses":
        return _responses(frame, report)
    return _verdicts(frame, study, report)


def _about(frame: pl.DataFrame, report: Report) -> Frames:
    return {
        "queries": entities.queries(frame, report),
        "instances": entities.instances(frame, report),
    }


def _constraints(frame: pl.DataFrame, study: Study, report: Report) -> Frames:
    """Constraint sets. Where no instance is named they go to all instances of their query."""
    is_plain = pl.col("instance_id") == pl.col("query_id")
    frame = with_constraints(frame, study, report)
    frame = refuse(
        frame,
        report,
        pl.col("constraint_id").is_null(),
        "names no constraint",
        "Fill in the constraint's id or its text.",
    )
    there = study.rows("instances", frame.select("query_id"), ("instance_id",))
    shown = frame.select("line", "query_id", "instance_id", "constraint_id", is_plain=is_plain)
    spread = (
        shown.filter("is_plain")
        .drop("instance_id")
        .join(there, on="query_id", how="inner", maintain_order="left")
    )
    reached = spread["line"].unique().to_list()
    pairs = pl.concat([shown.filter(~pl.col("line").is_in(reached)), spread], how="diagonal")
    if not spread.is_empty():
        report.note(
            f"constraints of {spread['query_id'].n_unique()} queries went to the "
            f"{spread['instance_id'].n_unique()} instances that the study has of them",
            "Give an instance column if they are meant for some of them.",
        )
    made = frame.filter(~pl.col("line").is_in(reached))
    return {
        "queries": entities.queries(frame, report),
        "instances": entities.instances(made, report),
        **_constraint_frames(frame, report),
        "instance_constraints": _sets(pairs, study, report),
    }


def _constraint_frames(frame: pl.DataFrame, report: Report) -> Frames:
    found = entities.constraints(frame, report)
    return {
        "dimensions": entities.dimensions(found, report),
        "constraints": found.drop("category"),
    }


def _sets(pairs: pl.DataFrame, study: Study, report: Report) -> pl.DataFrame:
    """The constraints of each instance that the study does not have there yet, numbered on."""
    keys = ["instance_id", "constraint_id"]
    pairs = pairs.drop_nulls("constraint_id").unique(keys, keep="first", maintain_order=True)
    there = study.rows(
        "instance_constraints", pairs.select("instance_id"), ("ordinal", "constraint_id")
    )
    last = there.group_by("instance_id").agg(last=pl.col("ordinal").max())
    new = pairs.join(there, on=keys, how="anti").sort("line", maintain_order=True)
    grown = new.filter(pl.col("instance_id").is_in(last["instance_id"].to_list()))
    if not grown.is_empty():
        report.note(
            f"{grown['instance_id'].n_unique()} instances of the study have "
            f"{grown.height} constraints more now; responses not judged on them have no Strict "
            "score until they are",
            "Import into a new study if the sets are meant to differ.",
        )
    count = pl.int_range(pl.len()).over("instance_id")
    return (
        new.join(last, on="instance_id", how="left", maintain_order="left")
        .with_columns(ordinal=pl.col("last").fill_null(0) + 1 + count)
        .select("line", "instance_id", "ordinal", "constraint_id")
    )


def _with_responses(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """Rows whose response is known, with response_id."""
    frame = refuse(
        with_columns(frame, "model", "setting"),
        report,
        pl.col("model").is_null(),
        "names no model",
        "Fill in the model; a line of totals belongs elsewhere.",
    )
    frame = with_whole(frame, report, "trial")
    frame = frame.with_columns(pl.col("setting").fill_null("given_context"))
    key = pl.concat_str("instance_id", "model", "setting", "trial", separator="/")
    return frame.with_columns(response_id=key)


def _responses(frame: pl.DataFrame, report: Report) -> Frames:
    frame = _with_responses(with_columns(frame, "text", "error", "response_error"), report)
    frame = frame.with_columns(response_error=pl.coalesce("response_error", "error"))
    frame = refuse(
        frame,
        report,
        pl.col("text").is_null() & pl.col("response_error").is_null(),
        "has neither a text nor an error",
        "Fill in one of them.",
    )
    frame = frame.with_columns(
        text=pl.when((pl.col("text") != "") | pl.col("response_error").is_null()).then("text")
    )
    return {
        "models": entities.models(frame, report),
        **_about(frame, report),
        "responses": entities.responses(frame, report),
    }


def _verdicts(frame: pl.DataFrame, study: Study, report: Report) -> Frames:
    frame = with_columns(frame, "text", "score", "error", "response_error", "_planned")
    frame = frame.with_columns(text=pl.when(pl.col("text") != "").then("text"))
    frame, criteria = verdicts.with_criteria(frame, study, report)
    frame = with_constraints(frame, study, report)
    named = frame
    frame = _with_responses(frame, report)
    frame = refuse(
        with_columns(frame, "judge"),
        report,
        pl.col("judge").is_null() & ~_IS_ANSWER_ONLY,
        "names no judge",
        "Fill in the judge, or give one for all rows with map.",
    )
    frame = with_whole(frame, report, "repeat")
    answers = frame.filter(pl.col("_planned").is_null())
    planned = frame.filter(pl.col("_planned").is_not_null())
    graded = frame.filter(~_IS_ANSWER_ONLY)
    graded = verdicts.with_targets(graded, study, report)
    graded = verdicts.with_scores(graded)
    graded = verdicts.without_repetitions(graded, study, report)
    # A row that was refused still names a constraint of an instance that others speak of.
    named = named.filter(pl.col("instance_id").is_in(frame["instance_id"].to_list()))
    if named["constraint_id"].null_count() < named.height:
        report.note(
            "the constraint set of an instance is every constraint that a row of this file names "
            "for it; a response that was judged on part of them has no Strict score",
            "Import the constraints as well if nobody judged some of them.",
        )
    return {
        "models": entities.models(answers, report),
        "judges": entities.judges(graded, report),
        "criteria": criteria.filter(pl.col("criterion").is_in(graded["criterion"].to_list())),
        **_about(named, report),
        **_constraint_frames(named, report),
        "instance_constraints": _sets(named, study, report),
        "wanted": planned.select("line", "instance_id", "model", "setting", "trial"),
        "responses": entities.responses(answers, report),
        "claims": verdicts.claims(graded, report),
        "judgments": verdicts.judgments(graded),
        "evidence": verdicts.evidence(graded),
    }
