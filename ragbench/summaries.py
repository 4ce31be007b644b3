"""The derived tables: what the metric views say, kept in the file so that slices stay fast."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

import duckdb

from ragbench.relations import definitions

SUMMARIES = {
    "adherence_summary": "response_scores",
    "criterion_summary": "criterion_scores",
    "adherence_by_query": "adherence_sums",
    "criterion_by_query": "criterion_sums",
}
"""Tables kept by every fold, and the definitions that they hold the results of."""

_TOUCHED = {
    "wanted": "SELECT instance_id FROM _new_wanted",
    "instances": "SELECT instance_id FROM _new_instances",
    "instance_constraints": "SELECT instance_id FROM _new_instance_constraints",
    "verifications": "SELECT instance_id FROM _new_verifications",
    "responses": "SELECT instance_id FROM _new_responses",
    # By the parts of its key: a verdict may come before its response.
    "judgments": "SELECT instance_id FROM wanted AS w SEMI JOIN _new_judgments AS j ON "
    "j.response_id = w.instance_id || '/' || w.model || '/' || w.setting || '/' || w.trial",
    "claims": "SELECT instance_id FROM _new_claims",
    "queries": "SELECT instance_id FROM instances SEMI JOIN _new_queries USING (query_id)",
    "constraints": "SELECT instance_id FROM instance_constraints "
    "SEMI JOIN _new_constraints USING (constraint_id)",
    # A run that comes after its rows brings their origin.
    "runs": "SELECT instance_id FROM wanted SEMI JOIN _new_runs USING (run_id) UNION "
    "SELECT instance_id FROM responses SEMI JOIN _new_runs USING (run_id) UNION "
    "SELECT instance_id FROM responses SEMI JOIN (SELECT response_id FROM judgments "
    "SEMI JOIN _new_runs USING (run_id)) AS j USING (response_id)",
    # A new judge makes a new panel, and a new criterion may explain rows that are there already.
    "judges": "SELECT instance_id FROM wanted",
    "criteria": "SELECT instance_id FROM wanted",
}
"""Instances that new rows of a relation can have changed; `_new_<relation>` holds the new rows."""


_READ_ONCE = (
    *("constraint_verdicts", "adherence", "response_scores"),
    *("adherence_sums", "criterion_sums"),
)
"""Definitions with one reader each; one of them is as long as the verdicts."""


@cache
def _definitions() -> dict[str, str]:
    return {**definitions("views.sql"), **definitions("scores.sql")}


def define(con: duckdb.DuckDBPyConnection, *, in_full: bool = True) -> None:
    """Compute what `views.sql` and `scores.sql` define, for this connection or cursor alone.

    Unless `in_full`, what comes of claims and of criteria that grade whole responses is left empty
    where there are none of them, which saves its planning.

    All but what is `_READ_ONCE` become temporary tables. As views inside views DuckDB would plan
    and compute what `planned_responses` says a dozen times over; on a small study planning is all
    that a fold costs.
    """
    made = {name: query for name, query in _definitions().items() if name not in _READ_ONCE}
    for name in [name for name in made if name not in _GRADED]:
        con.execute(_table(name, made.pop(name)))
    if not in_full and not con.execute(_GRADED_ANY).fetchall():
        made = {"criterion_scores": "FROM store.main.criterion_summary LIMIT 0"}
    con.execute("".join(_table(name, query) for name, query in made.items()))


def _table(name: str, query: str) -> str:
    return f"CREATE OR REPLACE TEMP TABLE {name} AS {query};"


_GRADED = ("claim_counts", "criterion_scores")
_GRADED_ANY = "SELECT 1 FROM applicable UNION ALL SELECT 1 FROM claims LIMIT 1"
"""What these two read first: without a row of it they have none."""


@cache
def scores_of(summary: str) -> str:
    """A query for the rows of a summary, over what `define` has made."""
    source = SUMMARIES[summary]
    inner = [f"{name} AS NOT MATERIALIZED ({_definitions()[name]})" for name in _below(source)]
    return f"{'WITH ' if inner else ''}{', '.join(inner)} SELECT * FROM {source}"


def _below(name: str) -> list[str]:
    """`name` after all that it reads, as far as `define` leaves it to its reader."""
    if name not in _READ_ONCE:
        return []
    read = re.findall(r"\b(?:FROM|JOIN) (\w+)", _definitions()[name])
    return [*(lower for other in read for lower in _below(other)), name]


def rewrite_summaries(con: duckdb.DuckDBPyConnection) -> None:
    """Make the summaries anew from their definitions, for the whole study."""
    con.execute(
        "CREATE OR REPLACE TEMP VIEW scoped AS SELECT * FROM store.main.wanted;"
        "CREATE OR REPLACE TEMP VIEW scoped_queries AS "
        "SELECT DISTINCT query_id FROM store.main.adherence_summary"
    )
    define(con)
    for summary in SUMMARIES:
        con.execute(f"DELETE FROM store.main.{summary}")
        _fill(con, summary)


def summarise(con: duckdb.DuckDBPyConnection, changed: Collection[str]) -> None:
    """Bring the summaries up to date for every instance that new rows can have changed."""
    touched = [sql for relation, sql in _TOUCHED.items() if relation in changed]
    if not touched or not con.execute("SELECT 1 FROM store.main.judges LIMIT 1").fetchall():
        return  # without a judge there is no panel, and so no row
    if not {"judges", "criteria"}.isdisjoint(changed):
        touched = [_TOUCHED["judges"]]  # all there are
    con.execute(f"CREATE OR REPLACE TEMP TABLE _touched AS {' UNION '.join(touched)}")
    # A query that got its name only now is another one in the rows that go.
    con.execute(
        "CREATE OR REPLACE TEMP TABLE scoped_queries AS "
        "SELECT query_id FROM store.main.adherence_summary SEMI JOIN _touched USING (instance_id) "
        "UNION SELECT query_id FROM store.main.instances SEMI JOIN _touched USING (instance_id) "
        "UNION SELECT instance_id FROM _touched"
    )
    scope = "CREATE OR REPLACE TEMP VIEW scoped AS SELECT * FROM store.main.wanted"
    con.execute(f"{scope} SEMI JOIN _touched USING (instance_id)")
    define(con, in_full=False)
    for summary in SUMMARIES:
        key, scoped = ("instance_id", "_touched")
        if summary.endswith("_by_query"):
            key, scoped = ("query_id", "scoped_queries")
        con.execute(f"DELETE FROM store.main.{summary} WHERE {key} IN (SELECT {key} FROM {scoped})")
        _fill(con, summary)


def _fill(con: duckdb.DuckDBPyConnection, summary: str) -> None:
    con.execute(
        f"INSERT INTO store.main.{summary} BY NAME "
        f"{scores_of(summary)} ORDER BY panel, model, setting, query_id"
    )
