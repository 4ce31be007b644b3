"""Records the study of this folder: sources -> answers of a local model -> verdicts -> Parquet.

    python data/recorded/record.py               # ask the model, judge, write *.parquet
    python data/recorded/record.py --study FILE  # the same, in a file that survives interruption
    python data/recorded/record.py --judge-only  # keep the stored answers, judge them anew

README.md beside this file says what is recorded, how to install the model, and how little its
answers are worth.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

import ragbench
from ragbench import relations
from ragbench.judging.judge import rules_judge
from ragbench.local import MODELS
from ragbench.rows import fit
from ragbench.run import asked, prompts_of

Row = dict[str, Any]
Rows = dict[str, list[Row]]
Messages = list[dict[str, str]]

HERE = Path(__file__).parent
MODES = ("noise", "gap", "conflict")
SETTINGS = ("given_context", "constraints_last")
MODEL = {"model": "local/smollm2-135m-instruct", **MODELS["local/smollm2"]}
SHOWN = {
    "queries": ["query_id", "language", "text"],
    "documents": ["doc_id", "title", "text", "source", "published_on"],
    "constraints": ["constraint_id", "text"],
    "instance_constraints": ["instance_id", "ordinal", "constraint_id"],
    "contexts": ["instance_id", "rank", "doc_id"],
}
"""The columns a prompt is made of: while they are unchanged, a stored answer stays one."""


# ---------------------------------------------------------------- sources -> rows


def read_sources(folder: Path = HERE / "sources") -> list[Row]:
    """The queries as written, each with its domain, documents, constraints and contexts."""
    queries = []
    for file in sorted(folder.glob("*.toml")):
        source = tomllib.loads(file.read_text(encoding="utf-8"))
        queries += [{**query, "domain": source["domain"]} for query in source["queries"]]
    return queries


def build(queries: Sequence[Row]) -> Rows:
    """The rows of the study before anyone has answered, by relation, in the order of the files."""
    rows: Rows = {}
    for query in queries:
        for relation, found in _query_rows(query).items():
            rows.setdefault(relation, []).extend(found)
    return rows


def _query_rows(query: Row) -> Rows:
    query_id = query["id"]
    row = {
        "query_id": query_id,
        "benchmark": "recorded",
        "domain": query["domain"],
        "language": query["language"],
        "text": query["text"],
        "answers": query["answer"],
    }
    documents = [
        {
            "doc_id": f"{query_id}-{document['id']}",
            **{name: document[name] for name in ("title", "text", "source", "published_on")},
        }
        for document in query["documents"]
    ]
    constraints = [
        {
            "constraint_id": f"{query_id}.c{number:02}",
            "query_id": query_id,
            **{name: constraint[name] for name in ("dimension", "text", "rule")},
            # As text: a frame of mappings would give every rule the names of all arguments.
            "params": json.dumps(constraint["params"], ensure_ascii=False, sort_keys=True),
        }
        for number, constraint in enumerate(query["constraints"], start=1)
    ]
    rows: Rows = {"queries": [row], "documents": documents, "constraints": constraints}
    for mode in MODES:
        if mode in query["contexts"]:
            for relation, found in _instance_rows(query, mode).items():
                rows.setdefault(relation, []).extend(found)
    return rows


def _instance_rows(query: Row, mode: str) -> Rows:
    """One query in one context mode: the constraints that mode can trigger, and its documents."""
    query_id, context = query["id"], query["contexts"][mode]
    instance_id = f"{query_id}-{mode}"
    roles = {document["id"]: document["role"] for document in query["documents"]}
    numbers = [
        number
        for number, constraint in enumerate(query["constraints"], start=1)
        if mode in constraint.get("modes", MODES)
    ]
    instance = {
        "instance_id": instance_id,
        "query_id": query_id,
        "context_mode": mode,
        "is_augmented": True,
        "witness": context["witness"].strip(),
    }
    point = {
        "instance_id": instance_id,
        "point": 1,
        "doc_ids": [
            f"{query_id}-{name}"
            for name in sorted(context["documents"])
            if roles[name] in ("support", "conflict")
        ],
        "summary": context.get("point"),
        "affects_answer": True,
    }
    return {
        "instances": [instance],
        "instance_constraints": [
            {
                "instance_id": instance_id,
                "ordinal": ordinal,
                "constraint_id": f"{query_id}.c{number:02}",
            }
            for ordinal, number in enumerate(numbers, start=1)
        ],
        "contexts": [
            {
                "instance_id": instance_id,
                "rank": rank,
                "doc_id": f"{query_id}-{name}",
                "role": roles[name],
            }
            for rank, name in enumerate(context["documents"], start=1)
        ],
        "conflict_points": [point] if mode == "conflict" else [],
    }


# ---------------------------------------------------------------- rows -> prompts


def prompts(rows: Mapping[str, Sequence[Row]], setting: str) -> Iterator[tuple[str, Messages]]:
    """Each instance with the messages sent for it under `setting`, as `ragbench.answer` makes them.

    `given_context` shows constraints, documents, query; `constraints_last` documents, query,
    constraints.
    """
    queries = {row["query_id"]: row for row in rows["queries"]}
    constraints = {row["constraint_id"]: row["text"] for row in rows["constraints"]}
    documents = {row["doc_id"]: row for row in rows["documents"]}
    _, texts = prompts_of(setting)
    for instance in rows["instances"]:
        key, query = instance["instance_id"], queries[instance["query_id"]]
        demanded = [constraints[r["constraint_id"]] for r in _of(rows["instance_constraints"], key)]
        shown = [documents[r["doc_id"]] for r in _of(rows["contexts"], key)]
        yield key, asked(texts, query["language"], query["text"], demanded, shown)


def _of(rows: Sequence[Row], instance_id: str) -> list[Row]:
    return [row for row in rows if row["instance_id"] == instance_id]


# ---------------------------------------------------------------- checks, verdicts, files


def checks(queries: Sequence[Row], rows: Rows) -> list[Row]:
    """One row per instance and check: its context fits its mode, its witness passes every rule."""
    sources = {query["id"]: query for query in queries}
    texts = {row["doc_id"]: row["text"] for row in rows["documents"]}
    rules = {row["constraint_id"]: row for row in rows["constraints"]}
    found = []
    for instance in rows["instances"]:
        key = instance["instance_id"]
        shown = {row["role"]: "" for row in _of(rows["contexts"], key)}
        for row in _of(rows["contexts"], key):
            shown[row["role"]] += texts[row["doc_id"]] + "\n\n"
        asked = [rules[row["constraint_id"]] for row in _of(rows["instance_constraints"], key)]
        context = [texts[row["doc_id"]] for row in _of(rows["contexts"], key)]
        for name, problems, note in (
            ("context_fits_mode", misfits(sources[instance["query_id"]], shown), "as intended"),
            ("witness_passes", failures(instance["witness"], asked, context), f"{len(asked)} hold"),
        ):
            row = {"instance_id": key, "check": name, "judge": rules_judge()}
            note = "; ".join(problems) or note
            found.append({**row, "passed": not problems, "note": note})
    return found


def misfits(query: Row, shown: Mapping[str, str]) -> list[str]:
    """What is wrong with a context, given the text of its passages by role.

    The accepted answer stands in a supporting passage and nowhere else, the contrary value in a
    conflicting one and nowhere else; so a context without either role leaks neither.
    """
    bearers = {"support": query["answer"], "conflict": query.get("contrary", [])}
    problems = []
    for role, text in shown.items():
        for bearer, values in bearers.items():
            there = [value for value in values if value in text]
            if role == bearer and not there:
                problems.append(f"no {role} passage holds any of {values}")
            if role != bearer and there:
                problems.append(f"{there[0]!r} stands in a passage for {role}")
    return problems


def failures(text: str, constraints: Sequence[Row], context: Sequence[str]) -> list[str]:
    """The constraints that `text` does not satisfy, each with what the rule measured."""
    from ragbench.judging.rules import check

    verdicts = [
        (row["constraint_id"], check(row["rule"], text, json.loads(row["params"]), context=context))
        for row in constraints
    ]
    return [f"{name}: {verdict.reason}" for name, verdict in verdicts if not verdict]


def write_parquet(path: Path, folder: Path = HERE) -> None:
    """One Parquet file per relation that has rows, sorted by key."""
    con = ragbench.connect(path)
    for relation, keys in relations.KEYS.items():
        frame = con.sql(f"FROM {relation}").pl()
        file = folder / f"{relation}.parquet"
        if relation in ("dimensions", "criteria") or frame.is_empty():
            file.unlink(missing_ok=True)  # the taxonomy comes with every store
            continue
        if relation == "runs":  # of the steps, not of the appends that carried their rows
            made = con.sql("SELECT run_id FROM wanted UNION SELECT run_id FROM judgments").pl()
            frame = frame.join(made, on="run_id", how="semi")
        plain = [pl.col(pl.Categorical, pl.Enum).cast(pl.String)]
        frame.with_columns(plain).sort(keys or frame.columns).write_parquet(
            file, compression="zstd", compression_level=15
        )


def read_parquet(folder: Path = HERE) -> dict[str, pl.DataFrame]:
    """What is recorded: one frame per relation, as `ragbench.append` takes it."""
    return {file.stem: pl.read_parquet(file) for file in sorted(folder.glob("*.parquet"))}


def _kept_answers(rows: Rows) -> dict[str, pl.DataFrame]:
    """The recorded answers and their runs; refused when the prompts they answer have changed."""
    kept = read_parquet()
    for relation, names in SHOWN.items():
        now = fit(relation, rows[relation], "").select(names)
        if not now.sort(names).equals(kept[relation].select(names).sort(names)):
            sys.exit(f"{relation}: what the model was shown has changed; record anew.")
    runs = kept["runs"].filter(pl.col("step") == "answer")
    return {"runs": runs, "wanted": kept["wanted"], "responses": kept["responses"]}


def main(arguments: Sequence[str] | None = None) -> None:
    """Record the study, or judge the recorded answers anew."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--judge-only", action="store_true", help="keep the recorded answers")
    parser.add_argument("--study", type=Path, help="work in this file; go on where it stopped")
    chosen = parser.parse_args(arguments)
    queries = read_sources()
    rows = build(queries)
    study = {
        "name": "recorded",
        "schema_version": relations.SCHEMA_VERSION,
        "licence": "CC0-1.0",
    }
    built = {**rows, "verifications": checks(queries, rows), "models": [MODEL], "study": [study]}
    failed = [row for row in built["verifications"] if not row["passed"]]
    if failed:
        sys.exit(
            "\n".join(f"{row['instance_id']}: {row['check']}: {row['note']}" for row in failed)
        )
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.study or Path(folder) / "recorded.duckdb"
        ragbench.append(path, built, step="build", origin="recorded")
        if chosen.judge_only:
            ragbench.append(path, _kept_answers(rows), origin="recorded")
        else:
            for setting in SETTINGS:
                names = {MODEL["model"]: "local/smollm2"}
                ragbench.answer(path, names, setting=setting, origin="recorded")
        ragbench.judge(path, "rules", origin="recorded")
        write_parquet(path)


if __name__ == "__main__":
    main()
