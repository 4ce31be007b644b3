"""From rows that name their response to verdicts: criteria, what is graded, scores, repetitions."""

from __future__ import annotations

import math

import polars as pl

from ragbench import taxonomy
from ragbench.importers.entities import entity
from ragbench.importers.identity import mapped, refuse, with_columns
from ragbench.importers.report import Report
from ragbench.importers.study import Study
from ragbench.judging.verdicts import read_value
from ragbench.metrics import taken_names

_NAMES_CONSTRAINT = pl.any_horizontal(
    pl.col("constraint", "constraint_text", "target").is_not_null()
)
_YES_OR_NO = [criterion.key for criterion in taxonomy.CRITERIA]
KEY = ["response_id", "criterion", "target_id", "judge", "repeat"]


def with_criteria(
    frame: pl.DataFrame, study: Study, report: Report
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows with `criterion`, what it grades (`grades`) and its range; and the new criteria.

    A row without a criterion that names a constraint is about adherence. A criterion that nobody
    knows yet takes its range from columns `lowest` and `highest`, else from its values.
    """
    frame = with_columns(frame, "criterion", "constraint", "constraint_text", "claim", "target")
    known = study.criteria()
    spelled = {name.casefold(): name for name in known}
    frame = frame.with_columns(
        criterion=pl.coalesce(
            mapped(frame, "criterion", lambda text: spelled.get(text.casefold(), text), pl.String),
            pl.when(_NAMES_CONSTRAINT).then(pl.lit("adherence")),
        )
    )
    new = [
        name
        for name in frame["criterion"].unique(maintain_order=True).drop_nulls()
        if name not in known
    ]
    rows = []
    for name in new:
        part = frame.filter(pl.col("criterion") == name)
        lowest, highest = _range(part, name, report)
        grades = _grades(part)
        known[name] = (grades, lowest, highest)
        rows.append((name, grades, lowest, highest, part["line"][0]))
    report.own("criteria", new, spelled)
    added = pl.DataFrame(rows, ["criterion", "target", "lowest", "highest", "line"], orient="row")
    table = pl.DataFrame(
        [(name, *values) for name, values in known.items()],
        schema={
            "criterion": pl.String,
            "grades": pl.String,
            "_lowest": pl.Float64,
            "_highest": pl.Float64,
        },
        orient="row",
    )
    frame = frame.join(table, on="criterion", how="left", maintain_order="left")
    is_constraint = (pl.col("grades") == "constraint").fill_null(False)
    frame = frame.with_columns(
        constraint=pl.when(is_constraint).then(pl.coalesce("constraint", "target")),
        constraint_text=pl.when(is_constraint).then("constraint_text"),
    )
    return frame, added


def _grades(rows: pl.DataFrame) -> str:
    if rows["claim"].null_count() < rows.height:
        return "claim"
    return "constraint" if rows.select(_NAMES_CONSTRAINT.any()).item() else "response"


def _range(rows: pl.DataFrame, name: str, report: Report) -> tuple[float, float]:
    limits: list[float] = []
    for column, pick in (("lowest", "min"), ("highest", "max")):
        if column in rows.columns:
            said = rows[column].cast(pl.Float64, strict=False).drop_nulls()
            said = said.filter(said.is_finite())
            limits += [getattr(said, pick)()] if len(said) else []
    if len(limits) == 2 and limits[0] < limits[1]:
        return limits[0], limits[1]
    scores = mapped(
        rows, "score", lambda text: read_value(text, -math.inf, math.inf)[0], pl.Float64
    )
    values = [score for score in scores.drop_nulls().to_list() if math.isfinite(score)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    low, high = float(math.floor(low)), float(math.ceil(high))
    high = high if high > low else low + 1
    report.note(
        f"{name!r} runs from {low:g} to {high:g} in this file; that is taken as its range",
        "Give columns lowest and highest if the scale is wider.",
    )
    return low, high


def with_targets(frame: pl.DataFrame, study: Study, report: Report) -> pl.DataFrame:
    """Rows with target_id: the constraint, the claim or the response that was graded."""
    frame = refuse(
        frame,
        report,
        pl.col("criterion").is_null(),
        "names no criterion",
        "Fill in the criterion, or the constraint for adherence.",
    )
    frame = refuse(
        frame,
        report,
        pl.col("criterion").is_in(sorted(taken_names())),
        "the criterion has the name of a column of scores",
        "Give it another name, as `my …`.",
        pl.col("criterion"),
    )
    frame = refuse(
        frame,
        report,
        (pl.col("grades") == "constraint") & pl.col("constraint_id").is_null(),
        pl.format("{} grades constraints, and the line names none", "criterion"),
        "Fill in the constraint.",
    )
    claim = pl.coalesce("claim", "target")
    frame = refuse(
        frame,
        report,
        (pl.col("grades") == "claim") & claim.is_null(),
        pl.format("{} grades single claims, and the line names none", "criterion"),
        "Name the claim in `target`; import a score of whole responses under a name of its own.",
        pl.col("criterion"),
    )
    frame = _with_claims(frame.with_columns(_claim=claim), study)
    target = (
        pl.when(pl.col("grades") == "constraint")
        .then("constraint_id")
        .when(pl.col("grades") == "claim")
        .then("claim_id")
        .otherwise("response_id")
    )
    return frame.with_columns(target_id=target)


def _with_claims(frame: pl.DataFrame, study: Study) -> pl.DataFrame:
    """Claims are called after the response that makes them, else after their instance."""
    frame = with_columns(frame, "claim_kind")
    is_claim = pl.col("grades") == "claim"
    of_response = pl.col("criterion") == "faithfulness"
    kind = (
        pl.when(of_response)
        .then(pl.lit("response"))
        .when(pl.col("claim_kind").str.to_lowercase() == "supplementary")
        .then(pl.lit("supplementary"))
        .otherwise(pl.lit("core"))
    )
    there = study.rows("claims", frame.select(claim_id="_claim"), ("instance_id",))
    there = there.rename({"claim_id": "_claim", "instance_id": "_owner"})
    frame = frame.join(there, on="_claim", how="left", maintain_order="left")
    owner = pl.when(of_response).then("response_id").otherwise("instance_id")
    is_full = pl.col("_claim").str.starts_with(owner + ".") | (
        pl.col("_owner") == pl.col("instance_id")
    ).fill_null(False)
    full = pl.when(is_full).then("_claim").otherwise(pl.concat_str(owner, pl.lit("."), "_claim"))
    return frame.with_columns(
        claim_id=pl.when(is_claim).then(full),
        kind=pl.when(is_claim).then(kind),
        claim_response=pl.when(is_claim & of_response).then("response_id"),
    ).drop("_claim", "_owner")


def claims(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """One row per claim that is graded."""
    attributes = {
        "instance_id": "instance_id",
        "response_id": "claim_response",
        "kind": "kind",
        "text": "claim_text",
    }
    return entity(frame, "claims", "claim_id", attributes, report)


def with_scores(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows with `value` (a number) or `why` (the error); lines without either are dropped.

    Those belong to responses that failed: there is nothing to grade. The criteria of the papers are
    met or not; half a point of them is an error. `without_repetitions` reports what is stored.
    """
    frame = with_columns(frame, "score", "error", "response_error")
    given = ["score", "_lowest", "_highest"]
    distinct = frame.select(given).unique()
    read = [read_value(*row) for row in distinct.iter_rows()]
    distinct = distinct.with_columns(
        pl.Series("value", [score for score, _ in read], pl.Float64),
        pl.Series("why", [why for _, why in read], pl.String),
    )
    frame = frame.join(distinct, on=given, how="left", maintain_order="left", nulls_equal=True)
    failed = pl.col("response_error").is_not_null() & pl.col("score").is_null()
    frame = frame.filter(~(failed & pl.col("error").is_null()))
    frame = frame.with_columns(why=pl.coalesce(_contradiction(frame), "error", "why")).with_columns(
        value=pl.when(pl.col("why").is_null()).then("value")
    )
    return frame


def _contradiction(frame: pl.DataFrame) -> pl.Expr:
    """Why a number that could be read is no verdict, else null."""
    scored, fails = pl.col("score").is_not_null(), pl.col("value") < 1
    failed = pl.col("response_error").is_not_null().any().over("response_id")
    triggered = pl.col("is_triggered") if "is_triggered" in frame.columns else pl.lit(True)
    return (
        pl.when(scored & pl.col("error").is_not_null())
        .then(pl.format("both a score ({}) and an error: {}", "score", "error"))
        .when(scored & failed)
        .then(pl.format("a score ({}) of a response that is an error", "score"))
        .when(pl.col("criterion").is_in(_YES_OR_NO) & fails & (pl.col("value") > 0))
        .then(pl.format("{} is 0 or 1 and nothing between: {}", "criterion", "score"))
        .when((pl.col("criterion") == "adherence") & fails & ~triggered)
        .then(pl.lit("not triggered, which satisfies the constraint, and yet failed"))
    )


def without_repetitions(frame: pl.DataFrame, study: Study, report: Report) -> pl.DataFrame:
    """One row per verdict, with every error reported for what became of it.

    The same twice counts once, two different scores are an error, and a score goes before an error.
    """
    first = frame.unique(KEY, keep="first", maintain_order=True)
    if first.height == frame.height:
        _report_errors(frame.filter(pl.col("why").is_not_null()), study, report)
        return frame
    groups = frame.group_by(KEY, maintain_order=True).agg(
        pl.col("value").drop_nulls().unique(maintain_order=True).alias("_values"),
        pl.col("line").filter(pl.col("value").is_not_null()).alias("_lines"),
    )
    frame = frame.join(groups, on=KEY, how="left", maintain_order="left")
    clash = pl.col("_values").list.len() > 1
    disputed = frame.filter(clash & pl.col("value").is_not_null())
    shown = pl.col("_lines").cast(pl.List(pl.String)).list.head(5).list.join(", ")
    why = pl.format(
        "lines {} contradict each other: {}",
        shown,
        pl.col("_values").cast(pl.List(pl.String)).list.join(", "),
    )
    report.lines(
        disputed.select("line", problem=why, value="score"),
        what="error",
        relation="judgments",
        remedy="Stored once, without a score. If they are repeats or trials, give such a column.",
    )
    is_error = pl.col("why").is_not_null()
    has_score = pl.col("_values").list.len() == 1
    _report_errors(frame.filter(is_error & ~has_score), study, report)
    outdone = frame.filter(is_error & has_score)
    report.lines(
        outdone.select(
            "line",
            problem=pl.format(
                "{}; line {} has a score for the same verdict",
                "why",
                pl.col("_lines").list.first(),
            ),
            value="score",
        ),
        what="refused",
        relation="judgments",
        remedy="Not stored: the score counts. If they are repeats or trials, give such a column.",
    )
    kept = frame.sort(pl.col("value").is_null(), maintain_order=True)
    kept = kept.unique(KEY, keep="first", maintain_order=True).sort("line", maintain_order=True)
    told = outdone.height + disputed.height - disputed.unique(KEY).height
    repeated = frame.height - kept.height - told
    if repeated:
        report.note(f"{repeated} lines repeat a verdict of another line; it counts once")
    return kept.with_columns(
        why=pl.when(clash).then(why).otherwise("why"), value=pl.when(~clash).then("value")
    )


def _report_errors(rows: pl.DataFrame, study: Study, report: Report) -> None:
    """Say of lines without a score in this file whether they are stored."""
    there = study.rows("judgments", rows.select(KEY), ("score",)).drop_nulls("score")
    problem = pl.format("{}; the study has a score for this verdict", "why")
    report.lines(
        rows.join(there, on=KEY, how="semi").select("line", problem=problem, value="score"),
        what="refused",
        relation="judgments",
        remedy="Not stored: a score is never replaced.",
    )
    report.lines(
        rows.join(there, on=KEY, how="anti").select("line", problem="why", value="score"),
        what="error",
        relation="judgments",
        remedy="Stored without a score. Mend the cell and import again: a score takes its place.",
    )


def judgments(frame: pl.DataFrame) -> pl.DataFrame:
    """The verdicts as the relation has them."""
    triggered = ["is_triggered"] if "is_triggered" in frame.columns else []
    return frame.select("line", *KEY, *triggered, score="value", error="why")


def evidence(frame: pl.DataFrame) -> pl.DataFrame:
    """Reasons, and what stood in the file where it was more than the number that it means."""
    frame = with_columns(frame, "reason", "raw")
    is_plain = pl.col("score").cast(pl.Float64, strict=False) == pl.col("value")
    raw = pl.coalesce("raw", pl.when(~is_plain.fill_null(False)).then("score"))
    rows = frame.select("line", *KEY, "reason", raw=raw, parse_path=pl.lit("import"))
    return rows.filter(pl.col("reason").is_not_null() | pl.col("raw").is_not_null())
