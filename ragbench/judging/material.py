"""What judges are shown: the texts of a response's instance, read for some responses at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.relations import mappings

CLAIM_CRITERIA = ("coverage", "faithfulness")
"""Criteria whose targets are claims, judged in one request for all claims of a response."""


class Material(NamedTuple):
    """What a judge is shown, all of it written by others."""

    query: str = ""
    documents: Sequence[Mapping[str, Any]] = ()  # title, source, published_on, text
    response: str = ""
    constraint: str = ""
    constraints: Sequence[str] = ()
    claims: Sequence[str] = ()
    language: str | None = None

    def texts(self) -> list[str]:
        """Every text a judge might take a verdict from."""
        shown = [document(row) for row in self.documents]
        parts = (self.query, self.response, self.constraint, *self.constraints, *self.claims)
        return [*shown, *filter(None, parts)]


def document(row: Mapping[str, Any]) -> str:
    names = (("title", "title"), ("source", "source"), ("published_on", "date"))
    lines = [f"{label}: {row[name]}" for name, label in names if row.get(name) is not None]
    return "\n".join([*lines, *([""] if lines else []), row.get("text") or ""])


class Shown:
    """The texts that judges are shown of some instances, responses and targets."""

    def __init__(
        self,
        con: Any,
        instances: Iterable[str],
        responses: Iterable[str | None] = (),
        targets: Iterable[str] = (),
    ) -> None:
        def read(sql: str, ids: Iterable[str | None]) -> list[dict[str, Any]]:
            given = [one for one in ids if one is not None]
            return mappings(con.execute(sql, {"ids": given}))

        chosen = "IN (SELECT unnest($ids::VARCHAR[]))"
        self.queries = {
            row["instance_id"]: row
            for row in read(
                "SELECT i.instance_id, q.text, q.language FROM instances AS i "
                f"LEFT JOIN queries AS q USING (query_id) WHERE i.instance_id {chosen}",
                instances,
            )
        }
        self.documents: dict[str, list[dict[str, Any]]] = {}
        for row in read(
            "SELECT c.instance_id, d.title, d.source, d.published_on, d.text FROM contexts AS c "
            f"JOIN documents AS d USING (doc_id) WHERE c.instance_id {chosen} "
            "ORDER BY c.instance_id, c.rank",
            instances,
        ):
            self.documents.setdefault(row["instance_id"], []).append(row)
        self.constraints: dict[str, list[str]] = {}
        for row in read(
            "SELECT s.instance_id, c.text FROM instance_constraints AS s JOIN constraints AS c "
            f"USING (constraint_id) WHERE s.instance_id {chosen} ORDER BY s.instance_id, s.ordinal",
            instances,
        ):
            self.constraints.setdefault(row["instance_id"], []).append(row["text"] or "")
        self.responses = {
            row["response_id"]: row["text"]
            for row in read(
                f"SELECT response_id, text FROM responses WHERE response_id {chosen}", responses
            )
        }
        self.targets = {
            row["id"]: row["text"]
            for row in read(
                "SELECT constraint_id AS id, concat_ws(chr(10), text, judge_prompt) AS text "
                f"FROM constraints WHERE constraint_id {chosen} AND text IS NOT NULL "
                f"UNION ALL SELECT claim_id, text FROM claims WHERE claim_id {chosen} "
                "AND text IS NOT NULL",
                targets,
            )
        }

    def is_whole(self, response: str, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the study holds every text that a verdict on `rows` needs."""
        targets = [row["target_id"] for row in rows if row["target_id"] != response]
        has_targets = all(self.targets.get(target) for target in targets)
        return self.responses.get(response) is not None and has_targets

    def material(
        self, instance: str, response: str | None = None, rows: Sequence[Mapping[str, Any]] = ()
    ) -> Material:
        query = self.queries.get(instance, {})
        texts = [self.targets.get(row["target_id"]) or "" for row in rows]
        is_claims = bool(rows) and rows[0]["criterion"] in CLAIM_CRITERIA
        return Material(
            query=query.get("text") or "",
            documents=self.documents.get(instance, []),
            response=self.responses.get(response) or "" if response else "",
            constraint=texts[0] if texts and not is_claims else "",
            constraints=self.constraints.get(instance, []),
            claims=texts if is_claims else (),
            language=query.get("language"),
        )
