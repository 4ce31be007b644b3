"""Tables 1 to 9 of EnterpriseRAG (arXiv 2608.11584), each made from the rows of any study.

Every maker takes a connection and a panel (None: the study's primary one) and gives a frame in the
paper's order. A study that lacks what a table is about gets an error that names what is missing.
Proportions are 0-1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import duckdb
import polars as pl

from ragbench import taxonomy
from ragbench.contrasts import natural_vs_synthetic
from ragbench.errors import RagbenchError, StoreError
from ragbench.metrics import constraint_scores, scores
from ragbench.printed import paper_name, published

Con = duckdb.DuckDBPyConnection
CATEGORIES = ("persona", "output", "protocol")
BEHAVIOURS = {"rejection": "gap", "conflict": "conflict"}
"""Behaviours that are judged per response, and the context they are judged in."""


def reference(name: str) -> pl.DataFrame:
    """A table of the paper that no rows give: as printed, with origin *published*."""
    try:
        return published(name).with_columns(origin=pl.lit("published"))
    except StoreError as error:
        raise RagbenchError(str(error)) from None


def noisy(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Table 2: one row per model on noise contexts, with the details of each metric.

    `loose_persona`, `loose_output` and `loose_protocol` are adherence pooled over the constraints
    of a category.
    """
    where = needed(con, "noise")
    by = model_by(con, "noise")
    chosen = ["faithfulness", "coverage", "loose_ias", "strict_ias"]
    frame = scores(con, by, where, panel, metrics=chosen)
    pooled = constraint_scores(con, (*by, "category"), where, panel)
    for category in CATEGORIES:
        part = pooled.filter(category=category).select(
            *by, pl.col("^adherence(_n|_planned|_low|_high|_lowest|_highest|_interval)?$")
        )
        renamed = {name: name.replace("adherence", f"loose_{category}") for name in part.columns}
        frame = frame.join(part.rename(renamed), on=by, how="left", nulls_equal=True)
    return in_order(described(con, frame))


def recognition(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Table 3: conflict recognition per model on conflict contexts, the highest first."""
    frame = scores(
        con, model_by(con, "conflict"), needed(con, "conflict"), panel, metrics=["conflict"]
    )
    refuse_unjudged(frame, "conflict", "recognition verdicts (criterion 'conflict')")
    return described(con, frame).sort("conflict", descending=True, nulls_last=True)


def domains(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Table 5: queries and constraints per query by domain, and for all domains."""
    parts = ", ".join(
        f"count(*) FILTER (d.category = '{name}') / count(DISTINCT q.query_id) AS {name}_avg"
        for name in CATEGORIES
    )
    frame = con.sql(
        "SELECT CASE WHEN grouping(q.domain) = 1 THEN 'All' ELSE coalesce(q.domain, '(no domain)') "
        "END AS domain, any_value(o.origin) AS origin, count(DISTINCT q.query_id) AS n_queries, "
        "count(c.constraint_id) / count(DISTINCT q.query_id) AS constraints_avg, "
        f"{parts}, grouping(q.domain) AS _all FROM queries AS q "
        "LEFT JOIN constraints AS c USING (query_id) LEFT JOIN dimensions AS d USING (dimension) "
        f"CROSS JOIN ({ORIGIN}) AS o GROUP BY ROLLUP (q.domain)"
    ).pl()
    if not frame["constraints_avg"].fill_nan(0).sum():
        raise RagbenchError("the study has no constraints, so there are none to count.")
    return listed(frame, "domain", taxonomy.DOMAINS).sort("_all", maintain_order=True).drop("_all")


def contexts(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Table 6: instances per context mode, and how many were found (natural) or made (augmented).

    Instances that do not say which count for neither; n is all instances.
    """
    frame = con.sql(
        "SELECT context_mode::VARCHAR AS context_mode, any_value(o.origin) AS origin, "
        "count(*) AS count, count(*) / sum(count(*)) OVER () AS ratio, "
        "count(*) FILTER (NOT is_augmented) AS natural_count, "
        'count(*) FILTER (NOT is_augmented) / count(*) AS "natural", '
        "count(*) FILTER (is_augmented) AS augmented_count, "
        "count(*) FILTER (is_augmented) / count(*) AS augmented, "
        "(sum(count(*)) OVER ())::BIGINT AS n "
        f"FROM instances CROSS JOIN ({ORIGIN}) AS o "
        "WHERE instance_id NOT IN (SELECT instance_id FROM verifications WHERE NOT passed) "
        "GROUP BY context_mode"
    ).pl()
    if frame.is_empty():
        raise RagbenchError("the study has no instances, so there are no contexts to count.")
    return listed(frame, "context_mode", taxonomy.CONTEXT_MODES)


def natural(con: Con, panel: str | None = None) -> pl.DataFrame:
    """Table 8: conflicts that were found against conflicts that were made, per metric.

    As `natural_vs_synthetic`, with the difference as the paper prints it (synthetic - natural)
    beside. n counts instances.
    """
    needed(con, "conflict")
    frame = per_setting(
        con, "conflict", lambda where: natural_vs_synthetic(con, where=where, panel=panel)
    )
    if frame["difference"].null_count() == frame.height:
        raise RagbenchError(
            "the study has no conflicts of both kinds, found and made (instances.is_augmented), "
            "with verdicts by this panel."
        )
    kept = frame.filter(pl.col("difference").is_not_null())
    return kept.rename({"n_natural": "natural_n", "n_synthetic": "synthetic_n"}).with_columns(
        synthetic_minus_natural=-pl.col("difference"),
        n=pl.col("natural_n") + pl.col("synthetic_n"),
    )


# ---------------------------------------------------------------- what the makers share

ORIGIN = (
    "SELECT string_agg(DISTINCT origin::VARCHAR, ', ' ORDER BY origin::VARCHAR) AS origin FROM runs"
)
"""SQL for the origin of a study's own rows, such as its queries."""


def needed(con: Con, mode: str) -> dict[str, str]:
    """`where` for one context mode; an error when the study has no responses in it."""
    found = [
        row[0]
        for row in con.execute(
            "SELECT DISTINCT context_mode FROM planned_responses WHERE context_mode IS NOT NULL "
            "ORDER BY ALL"
        ).fetchall()
    ]
    if mode not in found:
        raise RagbenchError(
            f"the study has no responses in {mode} contexts; it has "
            f"{', '.join(found) or 'no context modes'} (instances.context_mode)."
        )
    return {"context_mode": mode}


def refuse_unjudged(frame: pl.DataFrame, metric: str, what: str) -> None:
    """Raise when no row of `frame` has a value of `metric`."""
    if not frame[metric].drop_nulls().len():
        panel = frame["panel"][0] if frame.height else "the panel"
        raise RagbenchError(f"the study has no {what} by {panel}.")


def model_by(con: Con, mode: str | None = None) -> tuple[str, ...]:
    """What a row per model is grouped by: the setting too where there are several."""
    condition = "" if mode is None else f" WHERE context_mode = '{mode}'"
    count = con.execute(f"SELECT count(DISTINCT setting) FROM planned_responses{condition}")
    return ("model", "setting") if count.fetchall()[0][0] > 1 else ("model",)


def described(con: Con, frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with is_open and paradigm of its models, after the groups."""
    known = con.sql("SELECT model, is_open, paradigm FROM models").pl()
    place = frame.columns.index("panel")
    joined = frame.join(known, on="model", how="left", maintain_order="left")
    return joined.select(*frame.columns[:place], "is_open", "paradigm", *frame.columns[place:])


def in_order(frame: pl.DataFrame, *then: str) -> pl.DataFrame:
    """Models of the paper in the order of Table 2, then others by name."""
    ranked = frame.with_columns(_place=places("table2", "model", frame["model"]))
    others = [name for name in ("setting", *then) if name in frame.columns]
    return ranked.sort("_place", "model", *others, maintain_order=True).drop("_place")


def places(name: str, column: str, values: pl.Series) -> pl.Series:
    """The place of each model or judge in a printed table; after all others when it has none."""
    try:
        printed = published(name)[column].unique(maintain_order=True)
    except StoreError:
        printed = pl.Series([], dtype=pl.String)
    order = {paper_name(label): place for place, label in enumerate(printed)}
    places = [order.get(paper_name(value), len(order)) for value in values]
    return pl.Series(places, dtype=pl.Int64)


def listed(frame: pl.DataFrame, column: str, entries: Sequence[taxonomy.Entry]) -> pl.DataFrame:
    """`frame` in the order of a closed list, rows alike in it as they were."""
    order = {entry.key: place for place, entry in enumerate(entries)}
    place = pl.col(column).replace_strict(order, default=len(order), return_dtype=pl.Int64)
    return frame.sort(place, pl.col(column), nulls_last=True, maintain_order=True)


def per_setting(
    con: Con, mode: str, make: Callable[[dict[str, str]], pl.DataFrame]
) -> pl.DataFrame:
    """What `make` gives for each setting of a context mode, one below the other.

    A column `setting` comes first where there are several: they are never one number.
    """
    rows = con.execute(
        "SELECT DISTINCT setting FROM planned_responses WHERE context_mode = ? ORDER BY ALL", [mode]
    ).fetchall()
    if len(rows) < 2:
        return make({})
    return pl.concat(
        make({"setting": name}).select(pl.lit(name).alias("setting"), pl.all()) for (name,) in rows
    )
