"""What the relations of a study are made of: columns, keys, references.

`schema.sql` says which columns there are; this module reads it once. `rows` makes rows fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import duckdb
import polars as pl

from ragbench.errors import UnknownName

SCHEMA_VERSION = 2

KEYS: dict[str, tuple[str, ...]] = {
    "study": (),
    "runs": ("run_id",),
    "models": ("model",),
    "judges": ("judge",),
    "dimensions": ("dimension",),
    "criteria": ("criterion",),
    "queries": ("query_id",),
    "constraints": ("constraint_id",),
    "documents": ("doc_id",),
    "instances": ("instance_id",),
    "instance_constraints": ("instance_id", "ordinal"),
    "contexts": ("instance_id", "rank"),
    "conflict_points": ("instance_id", "point"),
    "verifications": ("instance_id", "check", "judge"),
    "wanted": ("instance_id", "model", "setting", "trial"),
    "responses": ("response_id",),
    "steps": ("response_id", "step"),
    "claims": ("claim_id",),
    "judgments": ("response_id", "criterion", "target_id", "judge", "repeat"),
    "evidence": ("response_id", "criterion", "target_id", "judge", "repeat"),
    "nodes": ("node_id",),
    "edges": ("source", "relation", "target"),
}
"""The key of each relation, in the order in which rows are folded in."""

SUPERSEDED = ("responses", "judgments")
"""Relations in which a success takes the place of an error with the same key."""

FOLLOWS = {"evidence": "judgments", "steps": "responses"}
"""Relations whose rows belong to one row of another, and are replaced together with it."""

DESCRIBED = ("models", "queries", "constraints", "instances", "documents", "claims")
"""Relations whose rows may come as little more than a key; a later row fills what is blank."""

NEVER_FILLED = ("rule", "params", "extractor", "response_id")
"""Columns whose blank says something: the judge checks a constraint that names no rule, and a claim
without an extractor is everybody's."""

REFERENCES = (
    ("instances", "query_id", "queries", "query_id"),
    ("constraints", "query_id", "queries", "query_id"),
    ("constraints", "dimension", "dimensions", "dimension"),
    ("instance_constraints", "instance_id", "instances", "instance_id"),
    ("instance_constraints", "constraint_id", "constraints", "constraint_id"),
    ("contexts", "instance_id", "instances", "instance_id"),
    ("contexts", "doc_id", "documents", "doc_id"),
    ("conflict_points", "instance_id", "instances", "instance_id"),
    ("verifications", "instance_id", "instances", "instance_id"),
    ("wanted", "instance_id", "instances", "instance_id"),
    ("wanted", "model", "models", "model"),
    ("wanted", "run_id", "runs", "run_id"),
    ("responses", "instance_id", "instances", "instance_id"),
    ("responses", "run_id", "runs", "run_id"),
    ("steps", "response_id", "responses", "response_id"),
    ("claims", "instance_id", "instances", "instance_id"),
    ("judgments", "response_id", "responses", "response_id"),
    ("judgments", "criterion", "criteria", "criterion"),
    ("judgments", "judge", "judges", "judge"),
    ("judgments", "run_id", "runs", "run_id"),
)
"""(relation, column, relation it points into, column there)."""

DEFAULTS: dict[str, Any] = {"trial": 0, "repeat": 0, "setting": "given_context"}
"""Values of key columns that may be left out."""


class Column(NamedTuple):
    """A column as `schema.sql` declares it."""

    name: str
    type: str
    is_required: bool
    values: tuple[str, ...]  # of an ENUM, else empty


@cache
def read_sql(name: str) -> str:
    """The text of `schema.sql`, `views.sql` or `scores.sql`."""
    return resources.files("ragbench").joinpath(name).read_text(encoding="utf-8")


@cache
def definitions(name: str) -> dict[str, str]:
    """What `views.sql` or `scores.sql` defines, as queries by name, in their order."""
    view = r"^CREATE OR REPLACE VIEW (\w+) AS\n(.*?);$"
    return dict(re.findall(view, read_sql(name), re.DOTALL | re.MULTILINE))


@cache
def tables() -> list[str]:
    """The names of all tables of a study, as `schema.sql` makes them."""
    return re.findall(r"^CREATE TABLE (\w+)", read_sql("schema.sql"), re.MULTILINE)


@cache
def layout() -> dict[str, dict[str, Column]]:
    """The columns of every relation, by relation and name.

    Read from the text: DuckDB would take 20 ms to make the tables and tell what they are.
    """
    text = read_sql("schema.sql")
    enums = {name: tuple(re.findall(r"'(\w+)'", values)) for name, values in _TYPE.findall(text)}
    return {
        table: {
            name: Column(
                name, "ENUM" if kind in enums else kind, bool(required), enums.get(kind, ())
            )
            for name, kind, required in _COLUMN.findall(declared)
        }
        for table, declared in _TABLE.findall(text)
    }


_TYPE = re.compile(r"^CREATE TYPE (\w+) AS ENUM \((.*)\);", re.MULTILINE)
_TABLE = re.compile(r"^CREATE TABLE (\w+) \(\n(.*?)^\);", re.MULTILINE | re.DOTALL)
_COLUMN = re.compile(r"^ +\"?(\w+)\"? +(\w+(?:\[\])?)( NOT NULL)?", re.MULTILINE)


def columns(relation: str) -> dict[str, Column]:
    """The columns of one relation that rows may be added to.

    Raises:
        UnknownName: there is no such relation.
    """
    if relation not in KEYS:
        raise UnknownName("relation", relation, KEYS, place="a study")
    return layout()[relation]


_POLARS: dict[str, pl.DataType | type[pl.DataType]] = {
    "VARCHAR": pl.String,
    "ENUM": pl.String,
    "JSON": pl.String,
    "INTEGER": pl.Int64,
    "BIGINT": pl.Int64,
    "DOUBLE": pl.Float64,
    "BOOLEAN": pl.Boolean,
    "DATE": pl.Date,
    "TIMESTAMP": pl.Datetime("us"),
    "VARCHAR[]": pl.List(pl.String),
    "FLOAT[]": pl.List(pl.Float32),
}


def schema(relation: str) -> dict[str, pl.DataType | type[pl.DataType]]:
    """Polars types of the columns of `relation`."""
    return {name: _POLARS[column.type] for name, column in columns(relation).items()}


def journal_schema(relation: str) -> dict[str, pl.DataType | type[pl.DataType]]:
    """The types that the values of a journal line have: as `schema`, with times still as text."""
    return {
        name: pl.String if kind in (pl.Date, pl.Datetime("us")) else kind
        for name, kind in schema(relation).items()
    }


def mappings(found: duckdb.DuckDBPyConnection | duckdb.DuckDBPyRelation) -> list[dict[str, Any]]:
    """The rows that were found, a mapping each. The first frame would take 10 MB of memory."""
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def order(relation: str) -> int:
    return list(KEYS).index(relation) if relation in KEYS else len(KEYS)


def response_key(row: Mapping[str, Any]) -> str:
    """`instance/model/setting/trial`, the key of a response."""
    return f"{row['instance_id']}/{row['model']}/{row['setting']}/{row['trial']}"
