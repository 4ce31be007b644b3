"""Which column of a file means what: names, their other names, the caller's map, constants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import polars as pl

from ragbench.errors import ImportFailed, UnknownColumn
from ragbench.importers.report import Report
from ragbench.importers.tables import Source
from ragbench.judging.verdicts import read_value

NAMES: dict[str, tuple[str, ...]] = {
    # who, what, under which conditions
    "query": ("query_id", "question_id", "qid", "查询", "问题编号"),
    "instance": ("instance_id", "实例"),
    "model": ("model_id", "model_name", "llm", "模型"),
    "setting": ("设置",),
    "trial": ("epoch", "轮次"),
    "context_mode": ("scenario", "场景", "检索场景"),
    "variant": (),
    "is_augmented": ("augmented",),
    # the verdict
    "criterion": ("metric", "准则", "指标"),
    "target": ("target_id",),
    "constraint": ("constraint_id", "instruction_id", "约束", "约束编号"),
    "claim": ("claim_id",),
    "judge": ("judge_id", "evaluator", "grader", "annotator", "裁判", "评委"),
    "judge_kind": ("judge_type", "裁判类型"),
    "repeat": ("重复",),
    "score": ("verdict", "passed", "pass", "judgment", "judgement", "得分", "分数", "判定"),
    "is_triggered": ("triggered",),
    "reason": ("explanation", "rationale", "理由"),
    "raw": ("raw_output", "judge_output"),
    "error": ("错误",),
    "lowest": (),
    "highest": (),
    # the constraint
    "constraint_text": ("instruction", "约束内容"),
    "dimension": ("sub_dimension", "维度"),
    "category": ("类别",),
    "rule": ("规则",),
    "params": ("kwargs", "参数"),
    "judge_prompt": (),
    # the query and the claim
    "query_text": ("question", "问题"),
    "answers": ("reference", "gold", "参考答案"),
    "benchmark": ("dataset", "task"),
    "domain": ("领域",),
    "language": ("lang", "语言"),
    "claim_text": (),
    "claim_kind": (),
    # the response
    "text": ("response", "answer", "output", "completion", "回答", "答案"),
    "reasoning": ("thinking",),
    "finish": ("finish_reason", "stop_reason"),
    "response_error": (),
    "input_tokens": ("prompt_tokens",),
    "cached_tokens": (),
    "output_tokens": ("completion_tokens",),
    "reasoning_tokens": (),
    "cost": (),
    "seconds": ("latency",),
    "endpoint": (),
    # the model
    "label": (),
    "family": (),
    "paradigm": (),
    "is_open": (),
    "params_b": (),
}
"""Every column an import understands, with the other names it goes by."""

_HOLDERS = ("metadata", "vars", "doc")
_INNER = ("domain", "language", "context_mode")

PLANNED = "_planned"
"""Set by logs on rows that name a response which was wanted and never made."""

KINDS = ("verdicts", "responses", "constraints", "inspect", "lm_eval", "promptfoo")


def _folded(name: str) -> str:
    return re.sub(r"[\s_\-]+", "_", name.strip().casefold())


_MEANING = {_folded(other): name for name, others in NAMES.items() for other in (name, *others)}


def count_known(header: Sequence[str], map: Mapping[str, str]) -> int:
    """How many columns of `header` have a meaning, by name or by `map`."""
    return sum(_folded(name) in _MEANING or name in map.values() for name in header)


def canonical(
    path: Path, source: Source, map: Mapping[str, str], report: Report
) -> tuple[pl.DataFrame, list[str]]:
    """The columns that mean something, under their names in NAMES, with `line`; and the others.

    `map` goes first: name here to column in the file, or to `=text` for one text in every row.
    Other columns are taken by name and by other name. The report says what was taken for what.

    Raises:
        UnknownColumn: `map` names a column that the file or an import does not have.
    """
    found: dict[str, str] = {}
    constants: dict[str, str] = {}
    for name, column in map.items():
        if name not in NAMES:
            raise UnknownColumn("an import", name, NAMES)
        if column in source.columns:
            found[name] = column
        elif column.startswith("="):
            constants[name] = column[1:]
        else:
            raise UnknownColumn(path.name, column, source.columns)
    free = [name for name in source.columns if name not in found.values()]
    for name, other in _by_name(free).items():
        if name not in found and name not in constants:
            found[name] = other
    if PLANNED in source.columns:
        found[PLANNED] = PLANNED
    unused = _say(source, found, report)
    columns = {name: source.columns[column].alias(name) for name, column in found.items()}
    frame = pl.DataFrame([source.lines, *columns.values()])
    frame = frame.with_columns(pl.lit(text).alias(name) for name, text in constants.items())
    return _without_disputed(frame, source, found, report), unused


def _by_name(columns: Iterable[str]) -> dict[str, str]:
    """Canonical name to column: the name itself before other names, outer before inner keys.

    Of what lies inside other objects only the plainest is taken: `metadata.domain` is a domain.
    """
    ranked = []
    for order, name in enumerate(columns):
        *outer, last = name.split(".")
        meaning = _MEANING.get(_folded(last if outer else name))
        is_inner = bool(outer) and outer[0] in _HOLDERS and last in _INNER
        if meaning and (is_inner or not outer):
            ranked.append((len(outer), _folded(name) != meaning, order, meaning, name))
    found: dict[str, str] = {}
    for *_, meaning, name in sorted(ranked):
        found.setdefault(meaning, name)
    return found


def _say(source: Source, found: Mapping[str, str], report: Report) -> list[str]:
    """Note what was read as what; the columns that were not."""
    renamed = [f"{column} as {name}" for name, column in found.items() if column != name]
    if renamed:
        report.note(f"columns read: {', '.join(renamed)}", "Give `map` to read them otherwise.")
    unused = [
        name
        for name in source.columns
        if name not in (*found.values(), *_HOLDERS) and "." not in name and name[:1] != "_"
    ]
    if unused:
        listed = ", ".join(unused[:20]) + (", …" if len(unused) > 20 else "")
        report.note(f"columns not used: {listed}", "Give `map` if one of them is meant.")
    return unused


def _without_disputed(
    frame: pl.DataFrame, source: Source, found: Mapping[str, str], report: Report
) -> pl.DataFrame:
    """Rows in which columns of one name agree; where such a column is not used it is noted."""
    for column, others in source.repeated.items():
        if column not in found.values():
            report.note(f"the header names {column!r} more than once; it is not used")
            continue
        first = source.columns[column]
        differs = pl.Series([False] * len(first))
        for other in others:
            differs |= first.ne_missing(other)
        report.note(
            f"the header names {column!r} more than once; rows in which they differ are refused",
            "Rename one of them.",
        )
        disputed = frame.filter(differs.rename("differs"))
        report.lines(
            disputed.select("line"),
            what="refused",
            problem=f"columns named {column!r} have different values",
            remedy="Rename one of them.",
        )
        frame = frame.filter(~pl.col("line").is_in(disputed["line"].to_list()))
    return frame


def infer_kind(path: Path, columns: Iterable[str], unused: Mapping[str, pl.Series]) -> str:
    """verdicts, responses or constraints, from the columns that mean something.

    Raises:
        ImportFailed: the columns fit none of them, or an unused one may hold the score: a table of
            verdicts that is taken for another loses them all.
    """
    have = set(columns)
    if "score" in have:
        return "verdicts"
    if "model" in have and have & {"text", "response_error", "error"}:
        kind = "responses"
    elif have & {"constraint", "constraint_text"} and have & {
        *("constraint_text", "dimension", "rule")
    }:
        kind = "constraints"
    else:
        kind = ""
    # Beside a model and what it was to do, any column may be the verdict; else one that looks so.
    is_verdict = "model" in have and (
        kind == "constraints" or bool(have & {"constraint", "criterion", "target", "judge"})
    )
    maybe = [name for name, cells in unused.items() if is_verdict or _may_be_score(name, cells)]
    if kind and maybe:
        likely = next((name for name in maybe if _may_be_score(name, unused[name])), maybe[0])
        raise ImportFailed(
            f"{path} has no column for a score (score, {', '.join(NAMES['score'])}), and read as "
            f"{kind} it would lose {', '.join(map(repr, maybe))}. If one of them holds the "
            f'verdicts, name it: map={{"score": "{likely}"}}; if none does, say what the table is: '
            f'kind="{kind}".'
        )
    if kind:
        return kind
    raise ImportFailed(
        f"{path} has no column for a score, a response or a constraint. Name the columns, as in "
        'map={"score": "my column"}, or the kind of file. Columns that mean something: '
        f"{', '.join(sorted(have - {'line'})) or 'none'}. Not used: "
        f"{', '.join(map(repr, list(unused)[:20])) or 'none'}."
    )


def _may_be_score(name: str, cells: pl.Series) -> bool:
    """Whether a column goes by a name of grades, or has nothing but values from 0 to 1."""
    if _GRADES.search(_folded(name)):
        return True
    said = cells.drop_nulls().str.strip_chars().unique()
    said = said.filter(said != "")
    is_read = (read_value(text)[0] is not None for text in said)
    return len(said) > 0 and not _PARAMETERS.search(_folded(name)) and all(is_read)


_GRADES = re.compile(
    r"(^|_)(score|grade|rating|verdict|result|correct|pass(ed)?|ok|met|satisfied)s?($|_)"
    "|评分|分数|得分|判定|是否|结果"
)
_PARAMETERS = re.compile(r"temperature|top_p|penalty|seed|stream|cached|index|(^|_)(id|no|line)$")
"""Names of what is often 0, 1, true or false and is said of a call or a row."""


NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "verdicts": (
        ("query", "instance", "query_text"),
        ("model",),
        ("criterion", "constraint", "constraint_text", "target"),
        ("judge",),
        ("score",),
    ),
    "responses": (
        ("query", "instance", "query_text"),
        ("model",),
        ("text", "error", "response_error"),
    ),
    "constraints": (("query", "instance", "query_text"), ("constraint", "constraint_text")),
}
"""What each kind of table needs: one column of each group."""


def require(path: Path, kind: str, frame: pl.DataFrame, source: Source) -> None:
    """Nothing, when the columns that `kind` needs are there.

    Raises:
        ImportFailed: naming what is missing, what the file has, and how to map it.
    """
    missing = [group for group in NEEDED[kind] if not set(group) & set(frame.columns)]
    if not missing:
        return
    wanted = "; ".join(" or ".join(group) for group in missing)
    there = ", ".join(repr(name) for name in list(source.columns)[:30]) or "none"
    example = missing[0][0]
    raise ImportFailed(
        f"{path} has no column for {wanted}. It has: {there}. Map what is there, as in "
        f'map={{"{example}": "column"}}, or give one value for all rows, as in '
        f'map={{"{example}": "=value"}}. If the names above are data, the file lacks a header line.'
    )
