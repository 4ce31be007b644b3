"""Claims: what the documents say on a question, and what a response says, taken out by a judge.

Claims belong to the judge that extracted them (`claims.extractor`) and are made once; whether a
response covers them, or documents support them, is judged like anything else. EnterpriseRAG (arXiv
2608.11584), Section 5, for coverage; RAGAS for faithfulness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import duckdb

from ragbench import prompts
from ragbench.judging.material import Material
from ragbench.judging.questions import Answer, Call, answer
from ragbench.llm import Ask
from ragbench.relations import mappings
from ragbench.slices import RESPONSE_COLUMNS, conditions

PROMPTS = {"coverage": "context_claims", "faithfulness": "response_claims"}
"""The prompt that makes the claims which each criterion grades."""

NONE_FOUND = ""
"""The text of the one claim that stands for none: somebody looked, and need not look again."""

_KINDS = {
    "core": "core",
    "核心": "core",
    "supplementary": "supplementary",
    "补充": "supplementary",
    "claim": "response",
    "事实": "response",
}
_LINE = re.compile(
    r"^\s*(?:[-*•]\s+|\d{1,3}[.)、]\s*)?\**\s*[\[［【]\s*([^\]］】]{1,15}?)\s*[\]］】]\s*\**\s*[:：]?\s*(\S.*)$"
)
_NOTHING = re.compile(r"[\s\"'`*]*(?:none|无|没有)[\s\"'`*.。]*", re.IGNORECASE)


def read_claims(
    reply: str, kinds: Iterable[str]
) -> tuple[list[tuple[str, str]] | None, str | None]:
    """The (kind, text) of each claim in a reply and None, or None and why it cannot be read.

    Every line is a tagged claim, perhaps behind a list mark; `None` alone means that there is
    none. A line that announces the list is passed over, and code fences are; anything else is an
    error, because it may be half of a claim. A claim that stands twice counts once.

    >>> read_claims("[core] A.\\n- [Supplementary] B.", ("core", "supplementary"))
    ([('core', 'A.'), ('supplementary', 'B.')], None)
    >>> read_claims("None.", ("core",)), read_claims("I see no claims.", ("core",))[1]
    (([], None), "unparsed: the line 'I see no claims.' is no tagged claim")
    """
    if _NOTHING.fullmatch(reply):
        return [], None
    allowed = set(kinds)
    found: dict[str, str] = {}
    for line in reply.splitlines():
        bare = line.strip()
        if not bare or bare.startswith(("```", "~~~")):
            continue
        match = _LINE.match(line)
        kind = _KINDS.get(match[1].casefold()) if match else None
        if match is None or kind not in allowed:
            if not found and bare.endswith((":", "：")):
                continue
            return None, f"unparsed: the line {bare[:80]!r} is no tagged claim"
        if _NOTHING.fullmatch(match[2]):
            return None, f"unparsed: the line {bare[:80]!r} is a claim and none at once"
        found.setdefault(match[2].strip(), str(kind))
    if not found:
        return None, "unparsed: no claim and no None in the reply"
    return [(kind, text) for text, kind in found.items()], None


def unclaimed(
    con: duckdb.DuckDBPyConnection,
    criterion: str,
    judge: str,
    where: Mapping[str, Any] | None = None,
    *,
    retry_errors: bool = False,
) -> list[dict[str, Any]]:
    """What `judge` has to extract claims from before it can judge `criterion`, sorted.

    Each has instance_id, for faithfulness response_id, and has_failed: it could not before. Left
    out is what has claims of this judge, or claims that all judges share; for coverage instances
    with a gap, for faithfulness responses without text, and unless `retry_errors` what has failed.
    """
    columns = {name: sql for name, sql in RESPONSE_COLUMNS.items() if name != "panel"}
    cursor = con.cursor()
    condition, values = conditions(cursor, where, columns, "judge")
    source = (
        "planned_responses AS s LEFT JOIN models AS m ON m.model = s.model "
        f"WHERE s.is_answered AND {condition}"
    )
    if criterion == "faithfulness":
        asked = (  # a response of spaces alone claims nothing
            f"SELECT s.instance_id, s.response_id FROM {source} AND s.response_id IN ("
            r"SELECT response_id FROM responses WHERE regexp_matches(text, '[^\s\p{Z}]'))"
        )
        key = "response_id"
        kind = "kind = 'response'"
    else:
        asked = (
            f"SELECT DISTINCT s.instance_id FROM {source} "
            "AND s.context_mode IS DISTINCT FROM 'gap' "
            "AND s.instance_id IN (SELECT instance_id FROM contexts)"
        )
        key, kind = "instance_id", "kind <> 'response'"
    return mappings(
        cursor.execute(
            f"SELECT a.*, {key} IN (SELECT {key} FROM claims WHERE {kind} AND extractor = ? "
            f"AND text IS NULL) AS has_failed FROM ({asked}) AS a "
            f"ANTI JOIN (SELECT {key} FROM claims WHERE {kind} AND (extractor IS NULL "
            f"OR extractor = ? AND (text IS NOT NULL OR NOT ?))) AS c USING ({key}) ORDER BY ALL",
            [judge, *values, judge, retry_errors],
        )
    )


async def extracted(
    ask: Ask, criterion: str, row: Mapping[str, Any], material: Material, judge: str
) -> tuple[list[dict[str, Any]], Answer]:
    """Rows for `claims` out of one response or one instance's documents.

    After an error it is one without a text, which nobody can judge: so the response counts, as an
    error. When it works later that one says that it stands for none.
    """
    prompt = prompts.load(PROMPTS[criterion], material.language)
    kinds = ("response",) if criterion == "faithfulness" else ("core", "supplementary")

    def read(reply: str, made: Call, is_truncated: bool) -> tuple[Any, str | None]:
        if is_truncated:
            return None, "truncated: the list of claims was cut off"
        return read_claims(reply, kinds)

    said = await answer(ask, prompt, material, "claims", read)
    found = said.found or [(kinds[0], NONE_FOUND)]
    rows: dict[str, tuple[str, str | None]] = {}
    if said.error is not None:
        rows = {"failed": (kinds[0], None)}
    else:
        rows = {f"{number:02d}": claim for number, claim in enumerate(found, start=1)}
        if row["has_failed"]:
            rows["failed"] = (kinds[0], NONE_FOUND)
    return list(_rows(row, rows, judge)), said


def _rows(
    row: Mapping[str, Any], found: Mapping[str, tuple[str, str | None]], judge: str
) -> Iterator[dict[str, Any]]:
    owner = row.get("response_id") or row["instance_id"]
    for name, (kind, text) in found.items():
        yield {
            "claim_id": f"{owner}/claims/{judge}/{name}",
            "instance_id": row["instance_id"],
            "response_id": row.get("response_id"),
            "kind": kind,
            "text": text,
            "extractor": judge,
        }
