"""The things that verdicts are about: queries, instances, models, judges, constraints, answers.

A file repeats what it says of a thing on every row. The first value counts; a row that says
something else is imported without it, and the report names the line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from ragbench import taxonomy
from ragbench.importers.identity import mapped, with_columns
from ragbench.importers.report import Report
from ragbench.judging.rules import validate_constraints

_NUMBERS = {
    "input_tokens": pl.Int64,
    "cached_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "reasoning_tokens": pl.Int64,
    "cost": pl.Float64,
    "seconds": pl.Float64,
    "params_b": pl.Float64,
}
_FLAGS = ("is_open", "is_augmented", "is_triggered")
_LANGUAGES = {
    "中文": "zh",
    "汉语": "zh",
    "chinese": "zh",
    "英文": "en",
    "英语": "en",
    "english": "en",
}
_JUDGE_KINDS = {
    "rule": "rule",
    "rules": "rule",
    "规则": "rule",
    "llm": "llm",
    "model": "llm",
    "模型": "llm",
    "human": "human",
    "person": "human",
    "人工": "human",
}


def typed(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """Numbers, flags, JSON and names of the taxonomy read; what cannot be read is left out."""
    for name, kind in _NUMBERS.items():
        if name in frame.columns:
            number = pl.col(name).cast(pl.Float64, strict=False)
            number = pl.when(number.is_finite()).then(number).cast(kind, strict=False)
            frame = _read(frame, report, name, frame.select(number).to_series(), "a number")
    for name in _FLAGS:
        if name in frame.columns:
            frame = _read(frame, report, name, mapped(frame, name, _flag, pl.Boolean), "yes or no")
    if "params" in frame.columns:
        read = mapped(frame, "params", _json_object, pl.String)
        frame = _read(frame, report, "params", read, "a JSON object")
    if "judge_kind" in frame.columns:
        read = mapped(
            frame, "judge_kind", lambda text: _JUDGE_KINDS.get(text.casefold()), pl.String
        )
        frame = _read(frame, report, "judge_kind", read, "rule, llm or human")
    if "category" in frame.columns:
        keys = [entry.key for entry in taxonomy.CATEGORIES]
        read = mapped(frame, "category", lambda text: _one_of(keys, text), pl.String)
        frame = _read(frame, report, "category", read, f"one of {', '.join(keys)}")
    for name, read_text in (
        ("dimension", lambda text: taxonomy.canonical(taxonomy.DIMENSIONS, text)),
        ("domain", lambda text: taxonomy.canonical(taxonomy.DOMAINS, text)),
        ("language", _language),
        ("answers", _answers),
    ):
        if name in frame.columns:
            frame = frame.with_columns(mapped(frame, name, read_text, pl.String).alias(name))
    return frame


def _read(
    frame: pl.DataFrame, report: Report, name: str, read: pl.Series, wanted: str
) -> pl.DataFrame:
    odd = read.is_null() & frame[name].is_not_null()
    if odd.any():
        report.lines(
            frame.filter(odd).select("line", value=name),
            what="ignored",
            problem=f"{name} is not {wanted}; the row came in without it",
            remedy=f"Write {wanted}, or leave the cell empty.",
        )
    return frame.with_columns(read.alias(name))


def _flag(text: str) -> bool | None:
    from ragbench.judging.verdicts import read_value

    score, _ = read_value(text)
    return bool(score) if score in (0.0, 1.0) else None


def _json_object(text: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else None


def _one_of(keys: list[str], text: str) -> str | None:
    key = taxonomy.canonical(taxonomy.CATEGORIES, text)
    return key if key in keys else None


def _language(text: str) -> str:
    plain = text.casefold()
    return _LANGUAGES.get(plain, "zh" if plain.startswith("zh") else plain)


def _answers(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return json.dumps(value if isinstance(value, list) else [text], ensure_ascii=False)


def entity(
    frame: pl.DataFrame,
    relation: str,
    key: str,
    attributes: Mapping[str, str],
    report: Report,
) -> pl.DataFrame:
    """One row per `key`: its first line and the first value of each of `attributes`.

    `attributes` maps columns of `relation` to columns of `frame`; those that the file lacks are
    left out.
    """
    present = {name: column for name, column in attributes.items() if column in frame.columns}
    rows = frame.filter(pl.col(key).is_not_null())
    grouped = rows.group_by(key, maintain_order=True).agg(
        pl.col("line").first(),
        *(pl.col(column).drop_nulls().first().alias(name) for name, column in present.items()),
    )
    for name, column in present.items():
        if name == key or not rows[column].null_count() < rows.height:
            continue
        _report_disagreement(rows, grouped, relation, key, name, column, report)
    return grouped


def _report_disagreement(
    rows: pl.DataFrame,
    grouped: pl.DataFrame,
    relation: str,
    key: str,
    name: str,
    column: str,
    report: Report,
) -> None:
    given = rows.select("line", key, pl.col(column).alias("given"))
    first = grouped.select(key, pl.col(name).alias("first"), pl.col("line").alias("before"))
    odd = given.join(first, on=key, how="left").filter(pl.col("given") != pl.col("first"))
    shown = pl.col("first").cast(pl.String).str.slice(0, 60)
    report.lines(
        odd.select(
            "line",
            problem=pl.format(
                f"{name} of {{}} is {{}} from an earlier line on; it stays", key, shown
            ),
            value=pl.col("given").cast(pl.String),
        ),
        what="ignored",
        relation=relation,
        remedy=f"One {key.removesuffix('_id')} has one {name}; give the other an id of its own.",
    )


def queries(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """One row per query."""
    names = ("benchmark", "domain", "language", "answers")
    attributes = {**{name: name for name in names}, "text": "query_text"}
    return entity(frame, "queries", "query_id", attributes, report)


def instances(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """One row per instance."""
    names = ("query_id", "context_mode", "variant", "is_augmented")
    return entity(frame, "instances", "instance_id", {name: name for name in names}, report)


def models(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """One row per model."""
    names = ("label", "family", "paradigm", "is_open", "params_b")
    return entity(frame, "models", "model", {name: name for name in names}, report)


def judges(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """One row per judge; its kind is guessed from its name where the file says nothing."""
    frame = with_columns(frame, "judge_kind")
    found = entity(frame, "judges", "judge", {"kind": "judge_kind"}, report)
    guessed = mapped(found, "judge", _guessed_kind, pl.String)
    unsaid = found.filter(found["kind"].is_null()).with_columns(
        guess=guessed.filter(found["kind"].is_null())
    )
    for kind, names in unsaid.group_by("guess", maintain_order=True).agg("judge").iter_rows():
        listed = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        report.note(f"taken as judges of kind {kind}: {listed}", "Give a judge_kind column.")
    return found.with_columns(kind=pl.coalesce("kind", guessed))


def _guessed_kind(judge: str) -> str:
    name = judge.casefold()
    if name.startswith(("rule", "规则")):
        return "rule"
    return "human" if name.startswith(("human", "annotator", "人工", "专家")) else "llm"


def constraints(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """One row per constraint, with `category` beside the columns of the relation."""
    frame = with_columns(frame, "dimension", "category")
    by_category = {"operational": "operational_goal"}
    fallback = pl.col("category").replace(by_category).fill_null("additional")
    names = ("query_id", "dimension", "category", "rule", "params", "judge_prompt")
    attributes = {**{name: name for name in names}, "text": "constraint_text"}
    found = entity(frame, "constraints", "constraint_id", attributes, report)
    return _without_foreign_rules(found, report).with_columns(
        dimension=pl.coalesce("dimension", fallback)
    )


def _without_foreign_rules(found: pl.DataFrame, report: Report) -> pl.DataFrame:
    """Constraints whose rule is one of ours; the others stay, for a judge that needs no rule."""
    if "rule" not in found.columns:
        return found
    found = with_columns(found, "params", "text")
    problems = validate_constraints(found.filter(pl.col("rule").is_not_null()))
    if problems.is_empty():
        return found
    plain = found.filter(pl.col("rule").is_not_null()).with_columns(text=pl.lit(None, pl.String))
    fatal = validate_constraints(plain)["constraint_id"].to_list()  # whatever the text says
    lines = found.select("constraint_id", "line", value="rule")
    told = problems.join(lines, on="constraint_id", how="left", maintain_order="left")
    is_fatal = pl.col("constraint_id").is_in(fatal)
    report.lines(
        told.select(
            "line",
            "value",
            "remedy",
            problem=pl.when(is_fatal)
            .then(pl.format("{}; stored without its rule", "problem"))
            .otherwise("problem"),
        ),
        what="ignored",
        relation="constraints",
    )
    return found.with_columns(
        rule=pl.when(~is_fatal).then("rule"), params=pl.when(~is_fatal).then("params")
    )


def dimensions(constraints: pl.DataFrame, report: Report) -> pl.DataFrame:
    """The dimensions among `constraints` that the taxonomy lacks, with their category."""
    known = {entry.key: entry.category for entry in taxonomy.DIMENSIONS}
    own = constraints.filter(~pl.col("dimension").is_in(list(known)))
    found = entity(own, "dimensions", "dimension", {"category": "category"}, report)
    report.own("dimensions", found["dimension"].to_list(), known)
    given = constraints.filter(pl.col("category").is_not_null())
    listed = pl.col("dimension").replace_strict(known, default=None, return_dtype=pl.String)
    report.lines(
        given.filter(pl.col("category") != listed).select(
            "line",
            problem=pl.format("dimension {} belongs to category {}; it stays", "dimension", listed),
            value="category",
        ),
        what="ignored",
        relation="constraints",
        remedy="Name a dimension of your own to place it elsewhere.",
    )
    return found.with_columns(pl.col("category").fill_null("additional"))


def responses(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """One row per response, `error` where the answer failed."""
    names = ("instance_id", "model", "setting", "trial", "text", "reasoning", "finish", "endpoint")
    attributes: dict[str, Any] = {name: name for name in (*names, *_NUMBERS) if name != "params_b"}
    attributes["error"] = "response_error"
    return entity(frame, "responses", "response_id", attributes, report)
