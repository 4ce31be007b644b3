"""Judging by a model: who the judge is, what is pending, one request each, into the study."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from ragbench import prompts, taxonomy
from ragbench.ahead import jobs_of, read_ahead
from ragbench.arguments import named, sendable, several
from ragbench.checks import pending_rows
from ragbench.errors import RagbenchError, UnknownName
from ragbench.judging import claims as claiming
from ragbench.judging.material import Material, Shown
from ragbench.judging.questions import Answer, Call, answer, form, refuse_blind
from ragbench.judging.verdicts import Form, Reading, read_numbered, read_verdict
from ragbench.llm import Ask, work
from ragbench.llm.endpoints import defaults
from ragbench.llm.endpoints import shown as shown_url
from ragbench.progress import bar
from ragbench.store import append, opened, put_away, refresh, step, study_path

DEFAULT_CRITERIA = ("adherence", *taxonomy.CONTEXT_CRITERIA)
"""What a judge is asked about when nothing is named. Claims cost more calls and are named."""

DEFAULT_PARAMETERS = {"temperature": 0}
"""Sent when none are given."""

_BUILT_IN = {criterion.key: criterion for criterion in taxonomy.CRITERIA}
_AT_ONCE = 40
"""How many claims are put into one request."""

Row = dict[str, Any]
Rows = dict[str, list[Row]]
Job = Callable[[Ask], Any]


@dataclass
class Plan:
    """One run of one judge: who it is, what it is asked, and how it is called."""

    model: str
    name: str = ""
    criteria: Sequence[str] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    base_url: str | None = None
    own: str | None = None  # path of the prompt given
    own_criterion: str | None = None
    rows: Rows = field(default_factory=dict)  # to be in the study before any verdict
    read: dict[tuple[str, str | None], prompts.Prompt] = field(default_factory=dict)

    def prompt(self, criterion: str, language: str | None) -> prompts.Prompt:
        """The prompt for a criterion, read once: an edit in the middle of a run changes nothing."""
        if (criterion, language) not in self.read:
            source = self.own if self.own and criterion == self.own_criterion else criterion
            self.read[criterion, language] = prompts.load(source, language)
        return self.read[criterion, language]

    def texts(self) -> dict[str, dict[str, str]]:
        """A prompt of one's own as it was used: its file may be edited or lost."""
        if self.own is None or self.own_criterion is None:
            return {}
        used = [self.prompt(self.own_criterion, language) for language in prompts.LANGUAGES]
        return {text.hash: {"system": text.system, "user": text.user} for text in used}


def plan(
    con: Any,
    model: str,
    *,
    criteria: Sequence[str] | None = None,
    prompt: str | os.PathLike[str] | None = None,
    base_url: str | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> Plan:
    """Who is going to judge what.

    The judge's name is `model@` and eight characters of a hash over the model, the address, the
    parameters and the text of every evaluation prompt of this package. A prompt of your own does
    not change it as long as it is the one that the study knows for its criterion
    (`criteria.prompt`), so that its scores stand beside the judge's others; edited, or in place of
    a prompt of the package, it makes another judge.

    Raises:
        RagbenchError: a parameter holds a secret; a prompt grades something else than responses.
        UnknownName: a criterion that neither the study nor the prompt defines.
    """
    given = DEFAULT_PARAMETERS if parameters is None else parameters
    made = Plan(named(model), parameters={**defaults(model, base_url), **sendable(given)})
    made.base_url = None if base_url is None else shown_url(base_url.rstrip("/"))
    identity: dict[str, Any] = {
        "model": model,
        "base_url": made.base_url,
        "parameters": made.parameters,
        "prompts": {name: _version(name) for name in _BUILT_IN},
    }
    if prompt is not None:
        made.own = os.fspath(prompt)
        identity |= _own(con, made)
    made.criteria = _chosen(con, criteria, made)
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode())
    made.name = f"{model}@{digest.hexdigest()[:8]}"
    params = {"base_url": made.base_url} if made.base_url else {}
    made.rows["judges"] = [
        {
            "judge": made.name,
            "kind": "llm",
            "model": model,
            "params": {**params, **made.parameters},
            "prompts": {**identity["prompts"], **identity.get("own", {})},
        }
    ]
    for criterion in made.criteria:
        asked = made.prompt(criterion, "en")
        form(asked)
        if "also_criterion" in asked.head:
            made.rows.setdefault("criteria", []).append(
                {
                    "criterion": asked.head["also_criterion"],
                    "target": "response",
                    "lowest": 0,
                    "highest": 1,
                    "description": asked.head.get("also_description"),
                }
            )
    return made


def _version(name: str) -> str:
    """A hash of all that is said to a judge about a criterion, in both languages."""
    files = ["fences", "again", name, *filter(None, [claiming.PROMPTS.get(name)])]
    texts = [prompts.load(file, language).hash for file in files for language in prompts.LANGUAGES]
    return hashlib.sha256(" ".join(texts).encode()).hexdigest()[:12]


def _own(con: Any, made: Plan) -> dict[str, Any]:
    """What a prompt of one's own adds to the judge's identity; its criterion is put into `made`."""
    versions = [prompts.load(str(made.own), language) for language in prompts.LANGUAGES]
    own, shape = versions[0], form(versions[0])
    name = made.own_criterion = own.head.get("criterion", own.name)
    digest = hashlib.sha256(" ".join(v.hash for v in versions).encode()).hexdigest()[:12]
    if name not in _BUILT_IN and own.head.get("target", "response") != "response":
        raise RagbenchError(
            f"prompt {own.name!r} has the target {own.head['target']!r}; a criterion of your own "
            "grades whole responses: write 'target: response', or leave it out."
        )
    known = con.execute(
        "SELECT prompt, lowest, highest FROM criteria WHERE criterion = ?", [name]
    ).fetchall()
    for version_of in versions:
        refuse_blind(version_of, _BUILT_IN[name].target if name in _BUILT_IN else "response")
    version = f"{own.name}#{digest}"
    if known:
        _refuse_other_scale(name, shape, *known[0][1:])
        return {} if known[0][0] == version else {"own": {name: digest}}
    made.rows["criteria"] = [
        {
            "criterion": name,
            "target": "response",
            "lowest": shape.lowest,
            "highest": shape.highest,
            "prompt": version,
            "description": own.head.get("description"),
        }
    ]
    return {}


def _refuse_other_scale(name: str, shape: Form, lowest: float, highest: float) -> None:
    if (shape.lowest, shape.highest) != (lowest, highest):
        raise RagbenchError(
            f"criterion {name!r} goes from {lowest:g} to {highest:g} in this study, and the prompt "
            f"from {shape.lowest:g} to {shape.highest:g}; call it otherwise with 'criterion: …'."
        )


def _chosen(con: Any, criteria: Sequence[str] | None, made: Plan) -> list[str]:
    if criteria is None:
        return [made.own_criterion] if made.own_criterion else list(DEFAULT_CRITERIA)
    criteria = several("criteria", criteria)
    known = [*_BUILT_IN, *filter(None, [made.own_criterion])]
    for name in criteria:
        if name not in known:
            found = con.execute("SELECT 1 FROM criteria WHERE criterion = ?", [name]).fetchall()
            if found:
                raise RagbenchError(
                    f"criterion {name!r} has a prompt of its own; give its file with prompt=…."
                )
            raise UnknownName("criterion", name, known, place="this judge")
    return criteria


# ---------------------------------------------------------------- a run


def run(
    con: Any,
    made: Plan,
    *,
    origin: str,
    repeats: int,
    where: Mapping[str, Any] | None,
    retry_errors: bool,
    calling: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """What became of all that was pending: a row each, with criterion, score, error, path, and
    is_left and stopped (why) of what was not asked.

    `con` is closed before the verdicts are folded, which takes memory of its own.
    """
    path = study_path(con)
    there = {row[0] for row in con.execute("SELECT criterion FROM criteria").fetchall()}
    if lacking := [r for r in made.rows.get("criteria", []) if r["criterion"] not in there]:
        append(path, {"criteria": lacking}, step="judge", origin=origin)
        refresh(con)
    # With the first verdict: a judge that never judged would stand among the panels.
    first: Rows = {"judges": made.rows["judges"]}
    config = {"judge": made.name, "where": dict(where or {}), "texts": made.texts()}
    rows: list[dict[str, Any]] = []
    calling = {**calling, "parameters": made.parameters}

    def drive(asking: AbstractContextManager[Iterable[Any]], count: int) -> str | None:
        """Why it ended early, if it did."""
        with (
            step(con, "judge", origin=origin, config=config) as writer,
            bar(made.name, count) as progress,
            put_away(con),
            asking as jobs,
        ):

            def keep(result: tuple[Rows, list[dict[str, Any]]]) -> None:
                stored, seen = result
                if stored:
                    writer.add({**first, **stored})
                    first.clear()
                rows.extend(seen)

            return work(made.model, jobs, keep, progress=progress, **calling).stopped

    for criterion in made.criteria:
        if criterion not in claiming.PROMPTS:
            continue
        if unclaimed := claiming.unclaimed(
            con, criterion, made.name, where, retry_errors=retry_errors
        ):
            before = len(rows)
            why = drive(_extractions(con, made, criterion, unclaimed), len(unclaimed))
            con = opened(path)
            left = len(unclaimed) + before - len(rows)
            rows += [_left(claiming.PROMPTS[criterion], why)] * left
    todo = pending_rows(
        con,
        "judge",
        judge=made.name,
        criteria=made.criteria,
        repeats=repeats,
        where=where,
        retry_errors=retry_errors,
    )
    done = len(rows)
    wanted = Counter(row["criterion"] for row in todo)
    why = None
    if requests := _requests(todo):
        why = drive(_verdicts(con, made, requests), len(requests))
    for criterion, count in wanted.items():
        made_now = sum(row["criterion"] == criterion for row in rows[done:])
        rows += [_left(criterion, why)] * (count - made_now)
    return rows


def _left(criterion: str, why: str | None) -> dict[str, Any]:
    return {"criterion": criterion, "is_left": True, "stopped": why}


@contextlib.contextmanager
def _extractions(
    con: Any, made: Plan, criterion: str, todo: Sequence[Row]
) -> Iterator[Iterator[Any]]:
    """One call for each instance or response that claims are taken out of, within the block."""

    def job(row: Row, shown: Shown) -> Job:
        async def extract(ask: Ask) -> tuple[Rows, list[Row]]:
            material = shown.material(row["instance_id"], row.get("response_id"))
            found, said = await claiming.extracted(ask, criterion, row, material, made.name)
            seen = {"criterion": claiming.PROMPTS[criterion], "error": said.error}
            number = sum(bool(claim["text"]) for claim in found)
            score = None if said.error else float(number > 0)
            stored: Rows = {"claims": found}
            if said.error and "response_id" in row:  # of documents many verdicts come
                key = {"response_id": row["response_id"], "criterion": criterion}
                key |= {"target_id": found[0]["claim_id"], "judge": made.name}
                stored["judgments"] = [{**key, "error": said.error}]
                stored["evidence"] = [{**key, "raw": said.raw, **said.usage}]
            return stored, [{**seen, "score": score}]

        return extract

    def read(cursor: Any, some: Sequence[Row]) -> Shown:
        instances = [row["instance_id"] for row in some]
        return Shown(cursor, instances, [row.get("response_id") for row in some])

    with read_ahead(con, todo, read) as coming:
        yield jobs_of(coming, job)


def _requests(todo: list[Row]) -> list[list[Row]]:
    """What is asked together: each verdict alone, the claims of one response in bundles."""

    def bundle(row: dict[str, Any]) -> tuple[Any, ...]:
        is_claim = row["criterion"] in claiming.PROMPTS
        return (row["response_id"], row["criterion"], row["repeat"], is_claim or row["target_id"])

    ordered = sorted(todo, key=lambda row: [str(part) for part in bundle(row)])
    found = []
    for _, group in groupby(ordered, key=bundle):
        rows = sorted(group, key=lambda row: row["target_id"])
        found += [rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)]
    return found


@contextlib.contextmanager
def _verdicts(con: Any, made: Plan, requests: Sequence[list[Row]]) -> Iterator[Iterator[Any]]:
    """One call for each request, within the block."""

    def read(cursor: Any, some: Sequence[list[Row]]) -> Shown:
        rows = [row for request in some for row in request]
        names = ("instance_id", "response_id", "target_id")
        return Shown(cursor, *({row[name]: None for row in rows} for name in names))

    with read_ahead(con, requests, read) as coming:
        yield jobs_of(coming, partial(_verdict_job, made))


def _verdict_job(made: Plan, rows: list[dict[str, Any]], shown: Shown) -> Job:
    first = rows[0]
    criterion = first["criterion"]

    async def judge(ask: Ask) -> tuple[Rows, list[dict[str, Any]]]:
        material = shown.material(first["instance_id"], first["response_id"], rows)
        if not shown.is_whole(first["response_id"], rows):
            is_claim = criterion in claiming.PROMPTS
            error = "no claims: they could not be taken out" if is_claim else "no text to judge"
            return _stored(rows, [Reading(error=error)] * len(rows))
        prompt = made.prompt(criterion, material.language)
        asked = form(prompt)
        turn = str(first["repeat"])
        if criterion in claiming.PROMPTS:
            readings, said = await one_claims(ask, prompt, material, turn)
        else:
            reading, said = await one_verdict(ask, prompt, asked, material, turn)
            readings = [reading]
        also = prompt.head.get("also_criterion")
        return _stored(rows, readings, said, also, asked.highest)

    return judge


async def one_verdict(
    ask: Ask, prompt: prompts.Prompt, asked: Form, material: Material, turn: str
) -> tuple[Reading, Answer]:
    def read(reply: str, made: Call, is_truncated: bool) -> tuple[Reading, str | None]:
        found = read_verdict(
            reply, asked, judged=made.judged, code=made.code, is_truncated=is_truncated
        )
        return found, found.error

    said = await answer(ask, prompt, material, turn, read)
    found = said.found or Reading()
    return (found._replace(error=said.error) if said.error else found), said


async def one_claims(
    ask: Ask, prompt: prompts.Prompt, material: Material, turn: str
) -> tuple[list[Reading], Answer]:
    count = len(material.claims)

    def read(reply: str, made: Call, is_truncated: bool) -> tuple[list[Reading], str | None]:
        return read_numbered(
            reply, count, judged=made.judged, code=made.code, is_truncated=is_truncated
        )

    said = await answer(ask, prompt, material, turn, read)
    return said.found or [Reading(error=said.error)] * count, said


def _stored(
    rows: Sequence[Mapping[str, Any]],
    readings: Sequence[Reading],
    said: Answer | None = None,
    also: str | None = None,
    highest: float = 1.0,
) -> tuple[Rows, list[dict[str, Any]]]:
    """Rows for the study, verdict and evidence together, and what the report says about them."""
    judgments, evidence, seen = [], [], []
    for row, reading in zip(rows, readings, strict=True):
        key = {k: row[k] for k in ("response_id", "criterion", "target_id", "judge", "repeat")}
        why = {"reason": reading.reason, "parse_path": reading.path}
        why["raw"] = said.raw if said else None
        verdicts = [{**key, "score": reading.score, "is_triggered": reading.is_triggered}]
        verdicts[0] |= {"error": reading.error}
        if also:
            lost = None if reading.also is not None else reading.error or "unparsed: no value"
            second = {**key, "criterion": also, "target_id": row["response_id"]}
            verdicts.append({**second, "score": reading.also, "error": lost})
        judgments += verdicts
        evidence += [{**key, "criterion": v["criterion"], **why} for v in verdicts]
        seen.append({**verdicts[0], "path": reading.path, "highest": highest})
    if said and evidence:
        evidence[0] |= said.usage
    return {"judgments": judgments, "evidence": evidence}, seen
