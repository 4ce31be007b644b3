"""Whose verdict it is: ids that are clean and unambiguous, made where the file has none.

- Ids are trimmed. `/` in the ids of queries, instances and settings is written `%2F`, because a
  response is called `instance/model/setting/trial` and only the model may contain the mark.
- A query without an id, or whose id is a text of more than 80 characters, is called `q-` and a hash
  of its text; a constraint likewise `c-`.
- An instance without an id is called after its query and context mode: `legal-017-gap`.
- A constraint is called after its query: `legal-017.c03`, unless its id begins that way already or
  is in the study, under that query, as it stands.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import polars as pl

from ragbench import taxonomy
from ragbench.importers.report import Report, near
from ragbench.importers.study import Study

FREE_TEXTS = frozenset(
    {"text", "reasoning", "query_text", "constraint_text", "claim_text", "reason", "raw", "error"}
    | {"response_error", "judge_prompt", "answers"}
)
_IDS = ("query", "instance", "model", "setting", "judge", "criterion", "constraint", "claim")
_NAMED_BY_TEXT = ("query", "constraint")
_LONGEST_ID = 200
_LONGEST_NAME = 80
_WHOLE = r"^[+]?\d{1,9}(?:\.0*)?$"


def cleaned(frame: pl.DataFrame) -> pl.DataFrame:
    """Cells trimmed, and empty ones null; texts keep their blanks and an empty answer stays."""
    expressions = []
    for name in frame.columns:
        if name == "line":
            continue
        cell = pl.col(name)
        trimmed = cell.str.strip_chars() if name not in FREE_TEXTS else cell
        if name != "text":
            trimmed = pl.when(cell.str.strip_chars() != "").then(trimmed)
        expressions.append(trimmed.alias(name))
    return frame.with_columns(expressions)


def with_columns(frame: pl.DataFrame, *names: str) -> pl.DataFrame:
    """`frame` in which the columns `names` exist, null where the file lacks them."""
    lacking = [name for name in names if name not in frame.columns]
    return frame.with_columns(pl.lit(None, pl.String).alias(name) for name in lacking)


def mapped(frame: pl.DataFrame, column: str, read: Callable[[str], Any], kind: Any) -> pl.Series:
    """`read` of each distinct text in `column`, row by row; null stays null."""
    texts = frame[column].unique().drop_nulls()
    values = [read(text) for text in texts]
    if not values:
        return pl.Series(column, [None] * frame.height, kind)
    return frame[column].replace_strict(texts, pl.Series(values, dtype=kind), default=None)


def refuse(
    frame: pl.DataFrame,
    report: Report,
    condition: pl.Expr,
    message: str | pl.Expr,
    remedy: str,
    value: pl.Expr | None = None,
) -> pl.DataFrame:
    """The rows of `frame` to which `condition` does not apply; the others go into the report."""
    chosen = frame.select(condition.fill_null(False).alias("is_bad")).to_series()
    if not chosen.any():
        return frame
    text = pl.lit(message) if isinstance(message, str) else message
    shown = pl.lit(None, pl.String) if value is None else value
    bad = frame.filter(chosen).select("line", text.alias("problem"), shown.alias("value"))
    report.lines(bad, what="refused", remedy=remedy)
    return frame.filter(~chosen)


def refuse_odd_ids(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    """Rows whose ids can be told apart by eye: without control characters and broken bytes."""
    for name in (name for name in _IDS if name in frame.columns):
        odd = pl.col(name).str.contains(r"[\x00-\x1f\x7f\u{fffd}\u{2028}\u{2029}]")
        if name in _NAMED_BY_TEXT:
            odd &= pl.col(name).str.len_chars() <= _LONGEST_NAME
        frame = refuse(
            frame,
            report,
            odd,
            f"the {name} holds a line break, a control character or broken bytes",
            "Clean the id, or map the right column.",
            pl.col(name),
        )
        if name not in _NAMED_BY_TEXT:
            frame = refuse(
                frame,
                report,
                pl.col(name).str.len_chars() > _LONGEST_ID,
                f"the {name} has more than {_LONGEST_ID} characters",
                "Map the column with its name.",
                pl.col(name),
            )
    return frame


def identified(frame: pl.DataFrame, study: Study, report: Report) -> pl.DataFrame:
    """Rows with query_id, instance_id and context_mode; rows that contradict others are refused."""
    frame = with_columns(frame, "query", "instance", "context_mode", "query_text", "variant")
    frame = _named_queries(frame)
    frame = refuse(
        frame,
        report,
        pl.col("query").is_null() & pl.col("instance").is_null(),
        "names neither a query nor an instance",
        "Fill in one of them; a line of totals belongs elsewhere.",
    )
    frame = _without_slashes(frame, report)
    frame = _with_modes(frame, report)
    derived = pl.concat_str(
        "query",
        pl.when(pl.col("context_mode").is_not_null()).then("-" + pl.col("context_mode")),
        pl.when(pl.col("variant").is_not_null()).then("-" + pl.col("variant")),
        ignore_nulls=True,
    )
    frame = frame.with_columns(instance_id=pl.coalesce("instance", derived))
    there = study.rows("instances", frame.select("instance_id"), ("query_id", "context_mode"))
    there = there.rename({"query_id": "_query", "context_mode": "_mode"})
    frame = frame.join(there, on="instance_id", how="left", maintain_order="left")
    frame = _settled(frame, report, "query", "_query", pl.col("instance_id"))
    frame = _settled(frame, report, "context_mode", "_mode", pl.lit("open"))
    return frame.rename({"query": "query_id"}).drop("instance", "_query", "_mode")


def _named_queries(frame: pl.DataFrame) -> pl.DataFrame:
    is_long = pl.col("query").str.len_chars() > _LONGEST_NAME
    text = pl.coalesce("query_text", pl.when(is_long).then("query"))
    frame = frame.with_columns(
        query_text=text,
        query=pl.when(is_long.fill_null(False)).then(None).otherwise("query"),
    )
    hashed = mapped(frame, "query_text", lambda text: f"q-{short_hash(text)}", pl.String)
    nameless = pl.col("query").is_null() & pl.col("instance").is_null()
    return frame.with_columns(query=pl.when(nameless).then(hashed).otherwise("query"))


def short_hash(text: str) -> str:
    """Eight hexadecimal digits that stand for `text`, blanks at its ends apart."""
    return hashlib.sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:8]


def _without_slashes(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    names = [name for name in ("query", "instance", "setting", "variant") if name in frame.columns]
    has_slash = pl.any_horizontal(pl.col(name).str.contains("/", literal=True) for name in names)
    if not frame.select(has_slash.fill_null(False)).to_series().any():
        return frame
    report.note("'/' in ids of queries, instances and settings is written %2F")
    for name in names:
        slashed = frame[name].filter(frame[name].str.contains("/", literal=True)).unique()
        taken = slashed.str.replace_all("/", "%2F", literal=True)
        frame = refuse(
            frame,
            report,
            pl.col(name).is_in(taken.to_list()),
            f"the {name} is written as another one becomes when its '/' is replaced",
            "Rename one of them.",
            pl.col(name),
        )
        frame = frame.with_columns(pl.col(name).str.replace_all("/", "%2F", literal=True))
    return frame


def _with_modes(frame: pl.DataFrame, report: Report) -> pl.DataFrame:
    keys = [entry.key for entry in taxonomy.CONTEXT_MODES]
    known = [*keys, *(entry.label for entry in taxonomy.CONTEXT_MODES)]

    def hint(text: str) -> str | None:
        mode = taxonomy.canonical(taxonomy.CONTEXT_MODES, text)
        return None if mode in keys else near(text, known)

    frame = frame.with_columns(_hint=mapped(frame, "context_mode", hint, pl.String))
    frame = refuse(
        frame,
        report,
        pl.col("_hint").is_not_null(),
        pl.concat_str(pl.lit("no such context mode"), "_hint"),
        f"Use one of {', '.join(keys)}, or leave it out.",
        pl.col("context_mode"),
    )
    return frame.with_columns(
        context_mode=mapped(
            frame,
            "context_mode",
            lambda text: taxonomy.canonical(taxonomy.CONTEXT_MODES, text),
            pl.String,
        )
    ).drop("_hint")


def _settled(
    frame: pl.DataFrame, report: Report, column: str, stored: str, default: pl.Expr
) -> pl.DataFrame:
    """`column` filled in from the study or the instance's other rows; rows that differ refused."""
    first = pl.col(column).drop_nulls().first().over("instance_id")
    settled = pl.coalesce(stored, first, default)
    frame = frame.with_columns(settled.alias("_settled"))
    name = column.replace("_", " ")
    frame = refuse(
        frame,
        report,
        pl.col(column) != pl.col("_settled"),
        pl.format(
            f"instance {{}} has {name} {{}} {{}}",
            "instance_id",
            "_settled",
            pl.when(pl.col(stored).is_null())
            .then(pl.lit("on an earlier line"))
            .otherwise(pl.lit("in the study")),
        ),
        "An instance has one query and one context mode; give this one an id of its own.",
        pl.col(column),
    )
    return frame.with_columns(pl.col("_settled").alias(column)).drop("_settled")


def with_whole(frame: pl.DataFrame, report: Report, name: str) -> pl.DataFrame:
    """Rows in which `name` is a whole number from 0, missing ones 0."""
    if name not in frame.columns:
        return frame.with_columns(pl.lit(0, pl.Int64).alias(name))
    frame = refuse(
        frame,
        report,
        ~pl.col(name).str.contains(_WHOLE),
        f"{name} is not a whole number from 0",
        f"Number {name}s 0, 1, 2, …; leave the column out where there is one only.",
        pl.col(name),
    )
    number = pl.col(name).str.extract(r"(\d+)").cast(pl.Int64).fill_null(0)
    return frame.with_columns(number.alias(name))


def with_constraints(frame: pl.DataFrame, study: Study, report: Report) -> pl.DataFrame:
    """Rows with constraint_id, null where the row names no constraint; clashes are refused."""
    frame = with_columns(frame, "constraint", "constraint_text")
    is_long = pl.col("constraint").str.len_chars() > _LONGEST_NAME
    frame = frame.with_columns(
        constraint_text=pl.coalesce("constraint_text", pl.when(is_long).then("constraint")),
        constraint=pl.when(is_long.fill_null(False)).then(None).otherwise("constraint"),
    )
    hashed = mapped(frame, "constraint_text", lambda text: f"c-{short_hash(text)}", pl.String)
    local = pl.coalesce("constraint", hashed)
    frame = frame.with_columns(local.alias("_local"))
    full = pl.concat_str("query_id", pl.lit("."), "_local")
    is_full = pl.col("_local").str.starts_with(pl.col("query_id") + ".")
    there = study.rows("constraints", frame.select(constraint_id="_local"), ("query_id",))
    there = there.rename({"constraint_id": "_local", "query_id": "_owner"})
    frame = frame.join(there, on="_local", how="left", maintain_order="left")
    keep = is_full | (pl.col("_owner") == pl.col("query_id")).fill_null(False)
    frame = frame.with_columns(constraint_id=pl.when(keep).then("_local").otherwise(full))
    frame = frame.with_columns(
        _first=pl.concat_str("query_id", pl.lit("\n"), "_local").first().over("constraint_id")
    )
    frame = refuse(
        frame,
        report,
        pl.col("constraint_id").is_not_null()
        & (pl.col("_first") != pl.concat_str("query_id", pl.lit("\n"), "_local")),
        pl.format("two constraints would both be called {}", "constraint_id"),
        "Rename one of them.",
        pl.col("_local"),
    )
    return frame.drop("_local", "_owner", "_first")
