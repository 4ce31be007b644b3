"""Rules about the form of a text: lists, headings, sections, tables, JSON, emoji."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ragbench.judging import blocks
from ragbench.judging import text as measure
from ragbench.judging.content_rules import bounded, no_blank, some_bound
from ragbench.judging.emoji import emoji
from ragbench.judging.registry import Verdict, rule

__all__ = [
    "bullet_list",
    "headings",
    "json_object",
    "json_object_lenient",
    "markdown_table",
    "no_emoji",
    "numbered_list",
    "sections",
]


def _outermost(items: list[blocks.Item]) -> list[blocks.Item]:
    """Return the items that are not indented deeper than the shallowest one."""
    least = min((item.indent for item in items), default=0)
    return [item for item in items if item.indent < least + 2]


@rule
def numbered_list(
    text: str, *, at_least: int = 1, at_most: int | None = None, nested: bool = True
) -> Verdict:
    """The text has between `at_least` and `at_most` numbered items.

    Numbers are 1. 1) 1、 1． (1) （1） ① 一、 一. （一）, as under List item. Items of nested lists
    count too, unless `nested` is false.

    >>> bool(numbered_list("1. Cite the statute.\\n2. State the gap.", at_least=2))
    True
    >>> bool(numbered_list("（1）依据\\n（2）结论", at_least=2, at_most=2))
    True
    >>> bool(numbered_list("First cite, then state."))
    False
    >>> bool(numbered_list("3.5倍以上\\n2024.10.28 发布"))
    False
    """
    items = blocks.numbered_items(text)
    items = items if nested else _outermost(items)
    return bounded(len(items), "numbered items", at_least, at_most)


@rule
def bullet_list(
    text: str, *, at_least: int = 1, at_most: int | None = None, nested: bool = True
) -> Verdict:
    """The text has between `at_least` and `at_most` bullets.

    Bullets are - * + – before a space, and • · ● ○ ■ □ ◆ ▪ ‣ ▶ ➢ ✓ with or without one. Items of
    nested lists count too, unless `nested` is false.

    >>> bool(bullet_list("- a\\n---\\n-5 degrees\\n--- | ---", at_least=1, at_most=1))
    True
    >>> bool(bullet_list("•依据\\n•结论", at_least=2))
    True
    >>> bool(bullet_list("*Note* the deadline."))
    False
    >>> bool(bullet_list("- 甲\\n- 乙\\n  - 丙", at_most=2))
    False
    """
    items = blocks.bullet_items(text)
    items = items if nested else _outermost(items)
    return bounded(len(items), "bullets", at_least, at_most)


@rule("headings", no_blank("titles"))
def headings(
    text: str,
    *,
    at_least: int = 1,
    at_most: int | None = None,
    level: int | None = None,
    titles: list[str] | None = None,
) -> Verdict:
    """The text has between `at_least` and `at_most` Markdown headings, of one `level` if given.

    With `titles`, headings of these texts are there too, in this order; others may stand between.

    >>> bool(headings("# Scope\\n\\nText\\n\\n## Risk", at_least=2))
    True
    >>> bool(headings("## 背景\\n内容\\n## 建议\\n内容", titles=["背景", "建议"]))
    True
    >>> bool(headings("#话题# 没有标题"))
    False
    >>> bool(headings("## Risk\\n## Scope", titles=["Scope", "Risk"]))
    False
    """
    found = [head for head in blocks.headings(text) if level in (None, head.level)]
    if titles:
        missing = _first_missing([head.text for head in found], titles)
        if missing is not None:
            return Verdict(False, f"no heading {missing!r} in its place")
    return bounded(len(found), "headings", at_least, at_most)


def _first_missing(texts: list[str], titles: list[str]) -> str | None:
    """Return the first title that does not follow the ones before it."""
    rest = iter(measure.fold(text).strip(" :").lower() for text in texts)
    for title in titles:
        wanted = measure.fold(title).strip(" :").lower()
        if wanted not in rest:  # membership consumes the iterator: that is the order
            return title
    return None


_NUMBER = r"(?:\d{1,3}|[〇零一二三四五六七八九十百]{1,4})"
_PART = re.compile(rf"[\s#>*_【]*第\s*{_NUMBER}\s*(?:部分|[章节節篇])")
_CHINESE_NUMBER = re.compile(r"[\s>*_]*[一二三四五六七八九十]{1,3}[、.．]")


@rule("sections", some_bound, no_blank("marker"))
def sections(
    text: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    marker: str | None = None,
) -> Verdict:
    """The text has between `at_least` and `at_most` sections.

    With `marker` a section begins with that word and a number on a line (Section 1, 部分一).
    Without it, what opens sections is the first of these that the text has: Markdown headings of
    the highest level used at least twice, lines 第一部分 or 第1章, lines 一、 or 二、, and single
    headings.

    >>> bool(sections("# Report\\n## A\\ntext\\n## B\\ntext", at_least=2, at_most=2))
    True
    >>> bool(sections("一、背景\\n内容\\n二、建议\\n内容", at_least=2))
    True
    >>> bool(sections("Section 1\\nAs Section 2 of the act says", at_least=2, marker="Section"))
    False
    >>> bool(sections("第一部分 背景\\n第二部分 建议", at_least=3))
    False
    """
    given = blocks.lines(text)
    if marker is not None:
        return bounded(len(_marked(given, marker)), f"sections {marker!r}", at_least, at_most)
    levels = [head.level for head in blocks.headings(text)]
    repeated = [levels.count(level) for level in sorted(set(levels)) if levels.count(level) > 1]
    parts = sum(_PART.match(line) is not None for line in given)
    numbered = sum(_CHINESE_NUMBER.match(line) is not None for line in given)
    count = (repeated[0] if repeated else 0) or parts or numbered or len(levels)
    return bounded(count, "sections", at_least, at_most)


def _marked(given: list[str], marker: str) -> list[str]:
    word = r"\s+".join(re.escape(part) for part in measure.fold(marker).split())
    opening = re.compile(rf"[\s#>*_【\[(（\"“]*{word}\s*(?:{_NUMBER}(?!\d)|[IVX]+\b)")
    return [line for line in given if opening.match(measure.fold(line))]


_DASHES = re.compile(r":?-+:?")


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner.removesuffix("|") if not inner.endswith("\\|") else inner
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", inner)]


def _tables(text: str) -> Iterator[list[list[str]]]:
    """Yield each table as its header and rows: a line of cells, a line of dashes, rows."""
    given = blocks.lines(text)
    place = 0
    while place + 1 < len(given):
        header, dashes = given[place], given[place + 1]
        place += 1
        if "|" not in header or "|" not in dashes:
            continue
        if len(_cells(header)) != len(_cells(dashes)) or not all(
            map(_DASHES.fullmatch, _cells(dashes))
        ):
            continue
        rows = [_cells(header)]
        place += 1
        while place < len(given) and "|" in given[place]:
            rows.append(_cells(given[place]))
            place += 1
        yield rows


@rule("markdown_table", no_blank("headers"))
def markdown_table(
    text: str,
    *,
    at_least: int = 1,
    at_most: int | None = None,
    columns: int | None = None,
    rows_at_least: int = 1,
    headers: list[str] | None = None,
) -> Verdict:
    """The text has between `at_least` and `at_most` Markdown tables of the form asked.

    A table is a line of cells, a line of dashes (---, :--, --:, :-:) with as many cells, and at
    least `rows_at_least` rows below; `columns` and `headers` (all of them, in any order) narrow
    what counts.

    >>> bool(markdown_table("| item | risk |\\n| --- | --- |\\n| a | low |", columns=2))
    True
    >>> bool(markdown_table("指标 | 数值\\n--- | ---\\n利率 | 3%", headers=["指标", "数值"]))
    True
    >>> bool(markdown_table("| 指标 | 数值 |\\n| 利率 | 3% |"))
    False
    >>> bool(markdown_table("```\\n| a | b |\\n| --- | --- |\\n| 1 | 2 |\\n```"))
    False
    """
    wanted = {measure.fold(header).strip().lower() for header in headers or ()}
    count = sum(
        len(table) - 1 >= rows_at_least
        and columns in (None, len(table[0]))
        and wanted <= {blocks.plain(measure.fold(cell)).lower() for cell in table[0]}
        for table in _tables(text)
    )
    return bounded(count, "tables of this form", at_least, at_most)


class _Invalid(ValueError):
    """Raised for NaN and Infinity, which Python reads and JSON does not have."""


def _refuse(constant: str) -> Any:
    raise _Invalid(constant)


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; raise ValueError for all that is not JSON."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _keys_found(value: object, keys: list[str], only: bool, path: str) -> Verdict:
    if not isinstance(value, dict):
        return Verdict(False, f"{path}: JSON, but not an object")
    missing = [key for key in keys if key not in value]
    extra = [key for key in value if key not in keys] if only else []
    if missing:
        return Verdict(False, f"{path}: no key {missing[0]!r}")
    if extra:
        return Verdict(False, f"{path}: key {extra[0]!r} was not asked for")
    return Verdict(True, f"{path}: an object with {len(value)} keys")


@rule
def json_object(text: str, *, keys: list[str] | None = None, only: bool = False) -> Verdict:
    """The whole text is one JSON object, bare or in one code fence, with all `keys` at its top.

    With `only` it has no other keys. Nothing may stand before or after it.

    >>> bool(json_object('{"结论": "可行", "依据": []}', keys=["结论", "依据"]))
    True
    >>> bool(json_object('```json\\n{"answer": null}\\n```', keys=["answer"], only=True))
    True
    >>> bool(json_object('结果如下：\\n```json\\n{"a": 1}\\n```', keys=["a"]))
    False
    >>> bool(json_object("{'answer': 1}"))
    False
    """
    bare = text.strip().removeprefix("\ufeff").strip()
    code = blocks.fenced(bare)
    # One block and no line outside it, its closing fence included.
    in_fence = len(code) == 1 and bare.count("\n") - code[0].count("\n") == 2
    if in_fence and has_words_outside(bare):
        in_fence = False
    try:
        value = parse_json(code[0] if in_fence else bare)
    except ValueError as error:
        return Verdict(False, f"not JSON: {str(error)[:80]}")
    return _keys_found(value, keys or [], only, "fence" if in_fence else "whole text")


def has_words_outside(text: str) -> bool:
    """Return whether anything visible stands outside the fenced code blocks."""
    return any(line.strip() for line in blocks.lines(text))


@rule
def json_object_lenient(text: str, *, keys: list[str] | None = None, only: bool = False) -> Verdict:
    """Somewhere in the text stands a JSON object with all `keys` at its top.

    Words may surround it, and it may be one of several or stand in a list; an object inside
    another object is not looked at. With `only` it has no other keys. Another constraint than
    json_object, not a milder reading of it.

    >>> bool(json_object_lenient('结果如下：\\n```json\\n{"a": 1}\\n```', keys=["a"]))
    True
    >>> bool(json_object_lenient('Here it is: {"answer": "yes"}. Bye.', keys=["answer"]))
    True
    >>> bool(json_object_lenient('结果：{"b": 1}', keys=["a"]))
    False
    >>> bool(json_object_lenient("The set {1, 2} is finite."))
    False
    """
    last = Verdict(False, "no JSON object found")
    for candidate in _candidates(text):
        try:
            value = parse_json(candidate)
        except ValueError:
            continue
        if isinstance(value, dict):
            last = _keys_found(value, keys or [], only, "found")
            if last:
                return last
    return last


def _candidates(text: str) -> Iterator[str]:
    """Yield the fenced blocks, then the stretches of balanced braces, from the left."""
    yield from blocks.fenced(text)
    yield from _balanced(text, _BRACES_AND_STRINGS)
    # Where a lone quote mark in the prose hides the braces, quotes are taken for plain characters.
    yield from _balanced(text, _BRACES)


_BRACES = re.compile(r"[{}]")
_BRACES_AND_STRINGS = re.compile(r'[{}]|"(?:[^"\\\n]|\\.)*"?')


def _balanced(text: str, tokens: re.Pattern[str]) -> Iterator[str]:
    """Yield each outermost stretch from { to its }; one that never closes is stepped over."""
    closes: dict[int, int] = {}
    stack: list[int] = []
    for match in tokens.finditer(text):
        if match.group() == "{":
            stack.append(match.start())
        elif match.group() == "}" and stack:
            closes[stack.pop()] = match.end()
    place = 0
    for start in sorted(closes):
        if start >= place:
            place = closes[start]
            yield text[start:place]


@rule
def no_emoji(text: str) -> Verdict:
    """The text has no emoji; ①, ©, ™, →, ★ and plain digits are none, ✔ and ☀ are.

    >>> bool(no_emoji("注册商标®，第①条 → 完成"))
    True
    >>> bool(no_emoji("Done :-) 100%"))
    True
    >>> bool(no_emoji("好的👍"))
    False
    >>> bool(no_emoji("Warning ⚠️ hot"))
    False
    """
    found = emoji(text)
    return Verdict(not found, f"{len(found)} emoji" + (f", first {found[0]!r}" if found else ""))
