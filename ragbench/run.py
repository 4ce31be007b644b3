"""Have models answer: what is wanted and not there, one response each, straight into the study."""

from __future__ import annotations

import contextlib
import html
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from ragbench import llm, local, prompts
from ragbench.ahead import jobs_of, read_ahead
from ragbench.arguments import named, sendable, whole
from ragbench.checks import pending_rows
from ragbench.errors import RagbenchError, UnknownName
from ragbench.files import ctrl_c, say
from ragbench.journal import Writer
from ragbench.llm.endpoints import defaults, shown
from ragbench.llm.replies import Reply
from ragbench.progress import bar, most_frequent, say_errors
from ragbench.relations import KEYS
from ragbench.store import opened, put_away, step

Row = Mapping[str, Any]
Messages = Callable[[str], list[dict[str, str]]]
"""What asks for the response to an instance."""
SETTINGS = ("given_context", "constraints_last")
"""The settings whose prompts come with the package."""

_BLANKS = {"constraints", "documents", "query"}
_NONE = {"en": "none", "zh": "无"}


@ctrl_c()
def answer(
    path: str | os.PathLike[str],
    models: str | Sequence[str] | Mapping[str, str],
    *,
    setting: str = "given_context",
    prompt: str | os.PathLike[str] | None = None,
    trials: int = 1,
    where: Mapping[str, Any] | None = None,
    limit: int | None = None,
    retry_errors: bool = False,
    parameters: Mapping[str, Any] | None = None,
    origin: str = "measured",
    **calls: Any,
) -> pl.DataFrame:
    """What was answered now, one row per model.

    Columns: model, setting, answered, errors, left (still pending: beyond `limit`, or because the
    endpoint stayed busy, the work was stopped or, with a warning, the query has no text), retries,
    input_tokens, cached_tokens, output_tokens, cost (US dollars, null where no price is known),
    seconds, stopped (why it ended early, else null), error (the most frequent one).

    Each response is stored as soon as it is there, so a run may be stopped at any moment and called
    again: it asks for what is missing. What an endpoint cannot answer is a row with an error.

    Args:
        models: names as in `llm.work`, or a mapping from the name in the study to such a name.
        setting: what the responses are stored under: a prompt of the package (`given_context`:
            constraints, documents, query; `constraints_last`), or the path of a prompt file.
        prompt: name or path of the prompt, where the setting is to be called otherwise.
        trials: answers per instance; where temperature is 0 they are alike.
        where: which instances, as in `scores`.
        limit: at most so many answers of each model now.
        retry_errors: ask again where the response is an error.
        parameters: temperature, max_tokens, …; sent with every call.
        calls: base_url, key_env, concurrency, budget, prices, timeout, retry: as in `llm.work`.

    Raises:
        ModelUnavailable: no call to a model can succeed; what was finished before is stored.
        RagbenchError: an argument cannot be, or responses of this name under this setting were
            made with another prompt or parameters, or by another model.
    """
    setting, texts = prompts_of(setting, prompt)
    names = _called(models)
    given_by_caller = sendable(parameters or {})
    if limit is not None:
        whole("limit", limit, 0)
    reports = []
    for model, called in names.items():
        given = {**defaults(called, calls.get("base_url")), **given_by_caller}
        config = _config(model, called, setting, texts, given, calls.get("base_url"))
        con = opened(path)
        _refuse_mixing(con, config)
        asked_for: dict[str, Any] = {
            "models": [model],
            "setting": setting,
            "trials": trials,
            "where": where,
        }
        wanted = [
            row
            for row in pending_rows(con, "answer", **asked_for, retry_errors=retry_errors)
            if row["trial"] < trials and (row["model"], row["setting"]) == (model, setting)
        ]
        todo = _with_a_query(con, wanted)
        errors: list[str] = []
        tally = llm.Tally(left=len(wanted))
        if rows := todo[:limit]:
            with (
                step(con, "answer", origin=origin, config=config) as writer,
                bar(f"{model}, {setting}", len(rows)) as progress,
                put_away(con),  # before the step ends, which needs memory for its fold
                _jobs(con, texts, rows) as jobs,
            ):
                keep = _keeper(writer, rows, model, called, errors)
                tally = llm.work(called, jobs, keep, parameters=given, progress=progress, **calls)
                tally.left = len(wanted) - tally.done
        reports.append((model, setting, tally, most_frequent(errors)))
    report = _report(reports)
    say_errors(report)
    return report


def _with_a_query(con: duckdb.DuckDBPyConnection, wanted: Sequence[Row]) -> list[Row]:
    """What can be asked; how many cannot, as their query has no text, is said in a warning."""
    askable = con.cursor().execute(
        "SELECT instance_id FROM instances JOIN queries USING (query_id) WHERE trim(text) <> ''"
    )
    ids = {row[0] for row in askable.fetchall()}
    found = [row for row in wanted if row["instance_id"] in ids]
    if silent := len(wanted) - len(found):
        say(
            f"{silent} of {len(wanted)} wanted responses are not asked for: their query has no "
            "text. Import the queries with their text, and run again.",
        )
    return found


def _called(models: str | Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    """From the name in the study to the name that is asked for."""
    if isinstance(models, Mapping):
        return {named(name): named(called) for name, called in models.items()}
    listed: Iterable[Any] = models if isinstance(models, (list, tuple)) else [models]
    return {named(name): name for name in listed}


@contextlib.contextmanager
def _jobs(
    con: duckdb.DuckDBPyConnection, texts: Mapping[str, prompts.Prompt], rows: Sequence[Row]
) -> Iterator[Iterator[Any]]:
    """One call for each row, within the block."""

    def read(cursor: duckdb.DuckDBPyConnection, some: Sequence[Row]) -> Messages:
        return messages_of(cursor, texts, [row["instance_id"] for row in some])

    with read_ahead(con, rows, read) as coming:
        yield jobs_of(coming, _job)


def _job(row: Row, messages: Messages) -> Callable[[llm.Ask], Awaitable[tuple[Row, Reply]]]:
    async def run(ask: llm.Ask) -> tuple[Row, Reply]:
        return row, await ask(messages(row["instance_id"]))

    return run


def _keeper(
    writer: Writer, rows: Sequence[Row], model: str, called: str, errors: list[str]
) -> Callable[[tuple[Row, Reply]], None]:
    """A function that stores one response; with the first, what was wanted and the model.

    What went wrong is added to `errors`.
    """
    first: dict[str, Any] = {
        "wanted": ({name: row[name] for name in KEYS["wanted"]} for row in rows)
    }
    if called in local.MODELS:
        first["models"] = {"model": model, **local.MODELS[called]}

    def keep(found: tuple[Row, Reply]) -> None:
        row, reply = found
        writer.add({**first, "responses": {**row, **_columns(reply)}})
        if reply.error is not None:
            errors.append(reply.error)
        first.clear()  # it is sure now that the model can be asked

    return keep


# ---------------------------------------------------------------- what is asked


def messages_of(
    con: duckdb.DuckDBPyConnection,
    texts: Mapping[str, prompts.Prompt],
    instances: Sequence[str] | None = None,
) -> Messages:
    """A function from an instance to the messages that ask for its response.

    `texts` are prompts by language; a query that is not Chinese gets the English one.
    """
    chosen = "" if instances is None else "WHERE i.instance_id IN (SELECT unnest($ids))"
    given = {} if instances is None else {"ids": list(instances)}

    def rows(sql: str) -> list[tuple[Any, ...]]:
        return con.execute(sql.format(chosen=chosen), given).fetchall()

    queries = {
        row[0]: row[1:]
        for row in rows(
            "SELECT instance_id, q.text, q.language FROM instances AS i "
            "JOIN queries AS q USING (query_id) {chosen}"
        )
    }
    constraints = dict(
        rows(
            "SELECT instance_id, list(c.text ORDER BY ordinal) FROM instance_constraints AS i "
            "JOIN constraints AS c USING (constraint_id) {chosen} GROUP BY ALL"
        )
    )
    contexts = dict(
        rows(
            "SELECT instance_id, list(doc_id ORDER BY rank) FROM contexts AS i {chosen} "
            "GROUP BY instance_id"
        )
    )
    shown = (
        "WHERE doc_id IN (SELECT i.doc_id FROM contexts AS i {chosen})"
        if instances is not None
        else ""
    )
    names = ("title", "source", "published_on", "text")
    documents = {
        row[0]: dict(zip(names, row[1:], strict=True))
        for row in rows(f"SELECT doc_id, {', '.join(names)} FROM documents {shown}")
    }

    def messages(instance_id: str) -> list[dict[str, str]]:
        query, language = queries[instance_id]
        return asked(
            texts,
            language,
            query,
            constraints.get(instance_id, []),
            [documents[doc_id] for doc_id in contexts.get(instance_id, [])],
        )

    return messages


def asked(
    texts: Mapping[str, prompts.Prompt],
    language: str | None,
    query: str | None,
    constraints: Iterable[str | None],
    documents: Iterable[Row],
) -> list[dict[str, str]]:
    """The messages that ask one query with its constraints, in order, and its documents."""
    tongue = "zh" if (language or "").casefold().startswith("zh") else "en"
    numbered = [f"{number}. {text or ''}" for number, text in enumerate(constraints, start=1)]
    return texts[tongue].messages(
        constraints="\n".join(numbered) or _NONE[tongue],
        documents=fenced(documents) or _NONE[tongue],
        query=query or "",
    )


def fenced(documents: Iterable[Row]) -> str:
    """Documents (title, source, published_on, text) as data: none can close its own tag."""
    parts = []
    for number, row in enumerate(documents, start=1):
        head = "".join(
            f' {name}="{html.escape(str(row[column]))}"'
            for name, column in (("title", "title"), ("source", "source"), ("date", "published_on"))
            if row.get(column) is not None
        )
        text = html.escape(row.get("text") or "", quote=False)
        parts.append(f'<document id="{number}"{head}>\n{text}\n</document>')
    return "\n".join(parts)


def prompts_of(
    setting: str, prompt: str | os.PathLike[str] | None = None
) -> tuple[str, dict[str, prompts.Prompt]]:
    """The name of the setting, and its prompt by language.

    Raises:
        UnknownName: the package has no such prompt, or it has a blank that nothing fills.
        RagbenchError: the file is no prompt, or asks nothing.
    """
    name = str(prompt if prompt is not None else setting)
    if not name.endswith(".md") and name not in SETTINGS:
        raise UnknownName("setting", name, SETTINGS, place="ragbench (or give a file, name.md)")
    if setting.endswith(".md"):
        setting = Path(setting).stem.removesuffix(".en").removesuffix(".zh")
    texts = {tongue: prompts.load(name, tongue) for tongue in prompts.LANGUAGES}
    for text in texts.values():
        for blank in sorted(text.blanks() - _BLANKS):
            raise UnknownName(
                "blank", blank, sorted(_BLANKS), place=f"a prompt for answers ({name})"
            )
        if "query" not in text.blanks():
            raise RagbenchError(f"the prompt {name} has no $query, so it would ask nothing.")
    return setting, texts


# ---------------------------------------------------------------- what is stored


def _config(
    model: str,
    called: str,
    setting: str,
    texts: Mapping[str, prompts.Prompt],
    parameters: Mapping[str, Any],
    base_url: str | None,
) -> dict[str, Any]:
    """What a run was asked to do, without anything secret."""
    made = local.provenance() if base_url is None and called in local.MODELS else {}
    return {
        **made,
        "model": model,
        "called": called,
        "base_url": shown(base_url) if base_url else None,
        "setting": setting,
        "parameters": dict(parameters),
        "prompts": {tongue: text.hash for tongue, text in texts.items()},
        "texts": {text.hash: {"system": text.system, "user": text.user} for text in texts.values()},
    }


def _refuse_mixing(con: duckdb.DuckDBPyConnection, config: Mapping[str, Any]) -> None:
    """Raise where the study has responses of the model and setting that were asked otherwise.

    Another address may be the same server, moved, or another with a model of the same name: warn.
    """
    earlier = (
        con.cursor()
        .execute(
            "SELECT config FROM runs SEMI JOIN (SELECT run_id FROM responses "
            "WHERE model = ? AND setting = ? AND error IS NULL) AS r USING (run_id)",
            [config["model"], config["setting"]],
        )
        .fetchall()
    )
    for (text,) in earlier:
        before = json.loads(text or "{}")
        for part in ("called", "prompts", "parameters"):
            if "prompts" in before and before.get(part, config[part]) != config[part]:
                raise RagbenchError(
                    f"{config['model']} has responses under the setting {config['setting']!r} that "
                    f"were made with other {_PARTS[part]} ({before.get(part)}, now {config[part]})."
                    f" {_REMEDIES[part == 'called']}"
                )
        if "prompts" in before and before.get("base_url") != config["base_url"]:
            say(
                f"{config['model']} has responses from {before.get('base_url') or 'its provider'}, "
                f"and now from {config['base_url'] or 'its provider'}; `endpoint` tells them "
                f"apart. If it is not the same model: {_REMEDIES[True]}",
            )
            break


_PARTS = {"called": "models", "prompts": "prompts", "parameters": "parameters"}
_REMEDIES = {
    False: "Give these another name: setting='…' with prompt=…",
    True: "Give this model another name in the study: models={'name': 'model'}.",
}


def _columns(reply: Reply) -> dict[str, Any]:
    """A reply as columns of `responses`; the exact version is part of `endpoint`."""
    return {name: value for name, value in reply._asdict().items() if name != "version"}


def _report(tallies: Sequence[tuple[str, str, llm.Tally, str | None]]) -> pl.DataFrame:
    types: dict[str, Any] = {
        "model": pl.String,
        "setting": pl.String,
        "answered": pl.Int64,
        "errors": pl.Int64,
        "left": pl.Int64,
        "retries": pl.Int64,
        "input_tokens": pl.Int64,
        "cached_tokens": pl.Int64,
        "output_tokens": pl.Int64,
        "cost": pl.Float64,
        "seconds": pl.Float64,
        "stopped": pl.String,
        "error": pl.String,
    }
    rows = [
        {
            **{name: value for name, value in vars(tally).items() if name in types},
            "model": model,
            "setting": setting,
            "answered": tally.done - tally.errors,
            "error": error,
        }
        for model, setting, tally, error in tallies
    ]
    return pl.DataFrame(rows, schema=types)
