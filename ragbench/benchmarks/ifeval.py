"""IFEval: prompts whose instructions a program can check, as rows of a study.

Zhou et al., arXiv 2311.07911. The files are JSON lines with key, prompt, instruction_id_list and
kwargs; where a response is given too, it becomes a row of `responses`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ragbench.errors import ImportFailed

__all__ = ["DIMENSIONS", "load"]

Row = dict[str, Any]

# The dimension of the taxonomy that each instruction belongs to.
DIMENSIONS = {
    "keywords:existence": "content",
    "keywords:frequency": "content",
    "keywords:forbidden_words": "negative",
    "keywords:letter_frequency": "content",
    "language:response_language": "style",
    "length_constraints:number_sentences": "content",
    "length_constraints:number_paragraphs": "format",
    "length_constraints:number_words": "content",
    "length_constraints:nth_paragraph_first_word": "format",
    "detectable_content:number_placeholders": "content",
    "detectable_content:postscript": "content",
    "detectable_format:number_bullet_lists": "format",
    "detectable_format:constrained_response": "content",
    "detectable_format:number_highlighted_sections": "format",
    "detectable_format:multiple_sections": "format",
    "detectable_format:json_format": "format",
    "detectable_format:title": "format",
    "combination:two_responses": "format",
    "combination:repeat_prompt": "content",
    "startend:end_checker": "content",
    "startend:quotation": "format",
    "change_case:capital_word_frequency": "style",
    "change_case:english_capital": "style",
    "change_case:english_lowercase": "style",
    "punctuation:no_comma": "negative",
}

_WORDING = {
    "keywords:existence": "Use the keywords {keywords}.",
    "keywords:frequency": "Use the word “{keyword}” {relation} {frequency} times.",
    "keywords:forbidden_words": "Do not use the words {forbidden_words}.",
    "keywords:letter_frequency": "Use the letter “{letter}” {let_relation} {let_frequency} times.",
    "language:response_language": "Write in the language {language} only.",
    "length_constraints:number_sentences": "Write {relation} {num_sentences} sentences.",
    "length_constraints:number_paragraphs": "Write {num_paragraphs} paragraphs parted by ***.",
    "length_constraints:number_words": "Write {relation} {num_words} words.",
    "length_constraints:nth_paragraph_first_word": "Write {num_paragraphs} paragraphs parted by "
    "blank lines; begin paragraph {nth_paragraph} with “{first_word}”.",
    "detectable_content:number_placeholders": "Use at least {num_placeholders} placeholders in "
    "square brackets.",
    "detectable_content:postscript": "Add a postscript that opens with “{postscript_marker}”.",
    "detectable_format:number_bullet_lists": "Write exactly {num_bullets} bullet points.",
    "detectable_format:constrained_response": "Give one of the set answers: yes, no or maybe.",
    "detectable_format:number_highlighted_sections": "Highlight at least {num_highlights} "
    "stretches with asterisks.",
    "detectable_format:multiple_sections": "Write {num_sections} sections, each opened by "
    "“{section_spliter}” and its number.",
    "detectable_format:json_format": "Write nothing but JSON.",
    "detectable_format:title": "Give a title in double angular brackets.",
    "combination:two_responses": "Give two different responses parted by ******.",
    "combination:repeat_prompt": "Repeat the request word for word, then answer.",
    "startend:end_checker": "End with the words “{end_phrase}”.",
    "startend:quotation": "Put the whole response in double quotation marks.",
    "change_case:capital_word_frequency": "Write {capital_relation} {capital_frequency} words in "
    "capitals.",
    "change_case:english_capital": "Write in English, in capitals only.",
    "change_case:english_lowercase": "Write in English, in lower case only.",
    "punctuation:no_comma": "Use no comma.",
}


def load(
    prompts_path: str | os.PathLike[str], *, model: str = "gpt-4", setting: str = "closed_book"
) -> dict[str, pl.DataFrame]:
    """Return the rows of an IFEval file by relation, ready to append to a study in this order.

    Always there: queries, constraints, instances, instance_constraints. Where prompts come with a
    response also models, wanted and responses, under the name `model`. Rules carry the official
    instruction ids, params the official arguments without nulls.
    """
    prompts = list(_prompts(Path(prompts_path)))
    rows: dict[str, list[Row]] = {name: [] for name in _SCHEMAS}
    for prompt in prompts:
        _add_prompt(rows, prompt)
        if isinstance(prompt.get("response"), str):
            _add_response(rows, prompt, model, setting)
    if rows["responses"]:
        rows["models"].append({"model": model, "label": model})
    return {
        name: pl.DataFrame(found, schema=_SCHEMAS[name])
        for name, found in rows.items()
        if found or name in ("queries", "constraints", "instances", "instance_constraints")
    }


def _prompts(path: Path) -> Iterator[Row]:
    """Yield the prompts of a JSON-lines file; raise with the line where one cannot be read."""
    try:
        raw = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ImportFailed(f"cannot read {path}: {error}") from error
    for place, line in enumerate(raw.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            prompt = json.loads(line)
        except ValueError as error:
            raise ImportFailed(f"{path.name} line {place} is not JSON: {error}") from error
        missing = _NEEDED - set(prompt) if isinstance(prompt, dict) else _NEEDED
        if missing:
            raise ImportFailed(f"{path.name} line {place} has no {sorted(missing)[0]!r}")
        if len(prompt["instruction_id_list"]) != len(prompt["kwargs"]):
            raise ImportFailed(
                f"{path.name} line {place}: {len(prompt['instruction_id_list'])} instructions but "
                f"{len(prompt['kwargs'])} sets of arguments"
            )
        yield prompt


_NEEDED = {"key", "prompt", "instruction_id_list", "kwargs"}


def _add_prompt(rows: dict[str, list[Row]], prompt: Row) -> None:
    query = f"ifeval-{prompt['key']}"
    instance = f"{query}-open"
    rows["queries"].append(
        {
            "query_id": query,
            "benchmark": "ifeval",
            "domain": "General",
            "language": "en",
            "text": prompt["prompt"],
        }
    )
    rows["instances"].append(
        {
            "instance_id": instance,
            "query_id": query,
            "context_mode": "open",
            "variant": "open",
            "is_augmented": False,
        }
    )
    pairs = zip(prompt["instruction_id_list"], prompt["kwargs"], strict=True)
    for ordinal, (rule, raw) in enumerate(pairs, start=1):
        params = {key: value for key, value in (raw or {}).items() if value is not None}
        constraint = f"{query}.c{ordinal:02d}"
        rows["constraints"].append(
            {
                "constraint_id": constraint,
                "query_id": query,
                "dimension": DIMENSIONS.get(rule, "additional"),
                "text": wording(rule, params),
                "rule": rule,
                "params": json.dumps(params, ensure_ascii=False, sort_keys=True),
            }
        )
        rows["instance_constraints"].append(
            {"instance_id": instance, "ordinal": ordinal, "constraint_id": constraint}
        )


def _add_response(rows: dict[str, list[Row]], prompt: Row, model: str, setting: str) -> None:
    instance = f"ifeval-{prompt['key']}-open"
    shown = {"instance_id": instance, "model": model, "setting": setting, "trial": 0}
    rows["wanted"].append(dict(shown))
    rows["responses"].append(
        {
            "response_id": f"{instance}/{model}/{setting}/0",
            **shown,
            "text": prompt["response"],
            "finish": "stop",
        }
    )


def wording(rule: str, params: Mapping[str, Any]) -> str:
    """Return an instruction in words, with its arguments, for people to read.

    >>> wording("length_constraints:number_words", {"relation": "at least", "num_words": 300})
    'Write at least 300 words.'
    """
    told = {
        key: ", ".join(f"“{part}”" for part in value)
        if isinstance(value, Sequence) and not isinstance(value, str)
        else value
        for key, value in params.items()
    }
    try:
        return _WORDING[rule].format_map(told)
    except (KeyError, IndexError):
        return rule


_SCHEMAS: dict[str, dict[str, Any]] = {
    "queries": {
        "query_id": pl.String,
        "benchmark": pl.String,
        "domain": pl.String,
        "language": pl.String,
        "text": pl.String,
        "answers": pl.String,
    },
    "constraints": {
        "constraint_id": pl.String,
        "query_id": pl.String,
        "dimension": pl.String,
        "text": pl.String,
        "rule": pl.String,
        "params": pl.String,
        "judge_prompt": pl.String,
    },
    "instances": {
        "instance_id": pl.String,
        "query_id": pl.String,
        "context_mode": pl.String,
        "variant": pl.String,
        "is_augmented": pl.Boolean,
        "witness": pl.String,
    },
    "instance_constraints": {
        "instance_id": pl.String,
        "ordinal": pl.Int32,
        "constraint_id": pl.String,
    },
    "models": {"model": pl.String, "label": pl.String},
    "wanted": {
        "instance_id": pl.String,
        "model": pl.String,
        "setting": pl.String,
        "trial": pl.Int32,
    },
    "responses": {
        "response_id": pl.String,
        "instance_id": pl.String,
        "model": pl.String,
        "setting": pl.String,
        "trial": pl.Int32,
        "text": pl.String,
        "finish": pl.String,
    },
}
