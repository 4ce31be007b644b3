"""What the explorer shows for a state: a frame, a picture of it, and the code that gives both.

A state is a plain mapping, so that it can be kept, compared and written down. Nothing here knows
of widgets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np
import polars as pl

from ragbench.comparisons import are_paired, paired, unpaired
from ragbench.constraint_rows import constraint_rows
from ragbench.draft import Draft, drawn
from ragbench.errors import EmptySide, RagbenchError, UnknownName
from ragbench.metrics import Where, constraint_scores, scores
from ragbench.slices import CONSTRAINT_COLUMNS, RESPONSE_COLUMNS, panel_of, scope
from ragbench.store import reading, state
from ragbench.style import columns

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from numpy.typing import NDArray

USED: Mapping[str, tuple[str, ...]] = {
    "dots": ("metric", "by"),
    "heatmap": ("metric", "by", "across"),
    "profile": (),
    "paired": ("metric", "a", "b"),
    "failing together": (),
}
"""What each view depends on, besides filters and the panel."""

VIEWS = tuple(USED)
"""The views, in the order in which they are offered."""

DEFAULT: Mapping[str, Any] = {
    "view": "dots",
    "metric": "strict_ias",
    "by": "model",
    "across": "domain",
    "where": {},
    "panel": None,
    "a": {},
    "b": {},
}
"""The state at the start. `across` is the second grouping of the heat map, `a` and `b` the sides of
a paired comparison."""

OF_CONSTRAINTS = CONSTRAINT_COLUMNS.keys() - RESPONSE_COLUMNS.keys()
"""Groupings and filters with which a view is about single constraints, whatever the metric."""

FEW = 30
"""Below this n a value is called small."""


class Look(NamedTuple):
    """What a state shows."""

    frame: pl.DataFrame
    draft: Draft
    code: str
    notes: list[str]  # what must be known beside the picture: small n, empty slices, tests
    cells: tuple[list[Any], list[Any]] = ([], [])  # what rows and columns of a heat map stand for

    @property
    def figure(self) -> go.Figure:
        """The picture."""
        return self.draft.figure()


def look(con: duckdb.DuckDBPyConnection, state: Mapping[str, Any]) -> Look:
    """The frame, the picture, the code and the notes of `state`; what it leaves out is `DEFAULT`.

    A slice with nothing in it gives an empty frame and a picture that says so.

    Raises:
        UnknownName: a view, metric, panel or key of the state that there is not.
        UnknownColumn: a column that rows cannot be grouped or filtered by.
        RagbenchError: sides without responses, or a filter that the view cannot have.
    """
    whole = whole_state(state)
    if whole["view"] not in VIEWS:
        raise UnknownName("view", whole["view"], VIEWS, place="the explorer")
    narrowed = [name for name in whole["where"] if name in OF_CONSTRAINTS]
    if narrowed and whole["view"] in ("paired", "failing together"):
        raise RagbenchError(
            f"the view {whole['view']!r} is about whole responses, and a filter on "
            f"{' and '.join(narrowed)} about single constraints. Take it away, or choose a view of "
            "dots, a heat map or the profile."
        )
    shown = {
        "dots": _dots,
        "heatmap": _heatmap,
        "profile": _profile,
        "paired": _paired,
        "failing together": _together,
    }[whole["view"]](con, whole)
    small = _small(shown.frame) if shown.code else []  # else there is nothing to be counted
    return shown._replace(notes=[*small, *shown.notes])


def whole_state(state: Mapping[str, Any] | None) -> dict[str, Any]:
    """`state` with `DEFAULT` for what it leaves out, or says nothing (None) about.

    Raises:
        UnknownName: a part that no state has.
        RagbenchError: a part that is not a mapping, or no text, where it has to be one.
    """
    if not isinstance(state, Mapping | None):
        raise RagbenchError(f"a state is a mapping such as {{'by': 'domain'}}, and not {state!r}.")
    given = dict(state or {})
    for name, value in given.items():
        if name not in DEFAULT:
            raise UnknownName("part of a state", name, DEFAULT, place="the explorer")
        if name in ("a", "b", "where") and not isinstance(value, Mapping | None):
            raise RagbenchError(
                f"{name} is a mapping of columns to values, such as {{'domain': 'Legal'}}, and "
                f"not {value!r}."
            )
        if name in ("view", "metric", "by", "across") and not isinstance(value, str | None):
            raise RagbenchError(f"{name} is one name, and not {value!r}.")
    return {**DEFAULT, **{name: value for name, value in given.items() if value is not None}}


def _dots(con: duckdb.DuckDBPyConnection, state: Mapping[str, Any]) -> Look:
    from ragbench import figures

    frame, call, metric = _scored(con, state, [state["by"]])
    draft = figures.dots.draft(frame, metric, title=_title(state, _label(metric)))
    return Look(frame, draft, f"frame = {call}\nrb.figures.dots(frame, {_written(metric)})", [])


def _heatmap(con: duckdb.DuckDBPyConnection, state: Mapping[str, Any]) -> Look:
    from ragbench import figures

    by, across = state["by"], state["across"]
    if by == across:
        raise RagbenchError(f"a heat map needs two groupings, and both are {by}. Choose another.")
    frame, call, metric = _scored(con, state, [by, across])
    cells = frame.filter(pl.col(by).is_not_null() & pl.col(across).is_not_null())
    draft = figures.heatmap.draft(cells, across, by, metric, title=_title(state, _label(metric)))
    code = f'frame = {call}\nrb.figures.heatmap(frame, "{across}", "{by}", {_written(metric)})'
    lines, columns = (cells[name].unique(maintain_order=True).to_list() for name in (by, across))
    return Look(frame, draft, code, [], (lines, columns))


def _profile(con: duckdb.DuckDBPyConnection, state: Mapping[str, Any]) -> Look:
    """Adherence by dimension: which requirements fail most."""
    from ragbench import figures

    frame = constraint_scores(con, "dimension", state["where"], state["panel"])
    title = _title(state, "Which requirements are met?")
    draft = figures.dots.draft(frame, "adherence", title=title)
    call = _call("constraint_scores", state, '"dimension"')
    return Look(frame, draft, f'frame = {call}\nrb.figures.dots(frame, "adherence")', [])


def _paired(con: duckdb.DuckDBPyConnection, state: Mapping[str, Any]) -> Look:
    from ragbench import figures
    from ragbench.layout import empty

    a, b = state["a"], state["b"]
    if not a or not b or a == b:
        said = "Choose two sides that differ, such as two models or two settings."
        return Look(pl.DataFrame(), empty.draft(said, "A paired difference"), "", [])
    compare = paired if are_paired(a, b) else unpaired  # the same instances, or groups of them
    try:
        frame = compare(con, state["metric"], a, b, state["where"], state["panel"])
    except EmptySide as lacking:
        return Look(
            pl.DataFrame(), empty.draft(str(lacking), "A paired difference"), "", [_NOTHING]
        )
    both = [", ".join(map(_words, side.values())) for side in (a, b)]
    sides = " − ".join(both)
    rows = frame.with_columns(comparison=pl.lit(sides))
    about = f"Difference in {_label(state['metric'])}"
    if columns(sides) > _BESIDE:  # a title has more room, though not for whose models these are
        about += ": " + " − ".join(side.rpartition("/")[2] for side in both)
    title = _title(state, about)
    draft = figures.forest.draft(rows, label="comparison", p_value="p_value", title=title)
    call = _call(compare.__name__, state, f"{_written(state['metric'])}, {a!r}, {b!r}")
    row = frame.row(0, named=True)
    if compare is paired:
        lost = row["lost_a"] + row["lost_b"] + row["lost_both"]
        notes = [f"{row['n']:,} pairs in {row['n_queries']:,} queries, {lost:,} lost"]
    else:
        notes = [
            f"{row['n_a']:,} and {row['n_b']:,} responses in {row['n_queries']:,} queries, "
            f"{row['lost_a']:,} and {row['lost_b']:,} lost",
            "other instances on each side: what else tells these apart is in the difference too",
        ]
    if row["p_value"] is not None:
        notes.append(f"p = {row['p_value']:.3g} (t clustered by query)")
    picture = (
        f"rows = frame.with_columns(comparison=pl.lit({sides!r}))\n"
        'rb.figures.forest(rows, label="comparison", p_value="p_value")'
    )
    return Look(frame, draft, f"frame = {call}\n{picture}", notes)


_BESIDE = 48  # columns


def _together(con: duckdb.DuckDBPyConnection, state: Mapping[str, Any]) -> Look:
    from ragbench.layout import empty

    frame = failing_together(con, state["where"], state["panel"])
    call = f"frame = {_call('exploring.failing_together', state)}"
    if frame["lift"].null_count() == frame.height:
        said = "No two requirements failed together."
        return Look(frame, empty.draft(said, "Failing together"), call, [])
    said = "lift: how many times as often as independent failures would both fail; 1 is chance"
    lines = _mirrored(frame)["dimension"].unique(maintain_order=True).to_list()
    code = f"{call}\nrb.exploring.lift_map(frame)"
    draft = lift_map.draft(frame, title=_title(state, _TOGETHER))
    return Look(frame, draft, code, [said], (lines, lines))


_TOGETHER = "Which requirements fail together?"


@drawn
def lift_map(frame: pl.DataFrame, *, title: str = _TOGETHER) -> Draft:
    """The lifts of `failing_together` as a heat map, each pair on both sides of the diagonal."""
    from ragbench import figures
    from ragbench.facts import value_label

    cells = _mirrored(frame).with_columns(
        pl.col("other").map_elements(
            lambda name: value_label("dimension", name), return_dtype=pl.String
        )
    )
    return figures.heatmap.draft(
        cells, "other", "dimension", "lift", title=title, percent=False, digits=1
    )


def _mirrored(frame: pl.DataFrame) -> pl.DataFrame:
    """Pairs that have a lift, both ways round, with rows and columns in one order."""
    known = frame.filter(pl.col("lift").is_not_null())
    turned = known.rename({"dimension": "other", "other": "dimension"}).select(known.columns)
    names = pl.concat([known["dimension"], turned["dimension"]]).unique().sort()
    own = pl.DataFrame({"dimension": names, "other": names})
    return pl.concat([own, known, turned], how="diagonal")


def failing_together(
    con: duckdb.DuckDBPyConnection, where: Where = None, panel: str | None = None
) -> pl.DataFrame:
    """One row per pair of dimensions: do they fail in the same responses?

    Columns: dimension, other; n responses that have verdicts on both; failed, failed_other and
    together (of these, with a constraint of the one, the other, both that failed); expected
    (together, if failures were independent); lift (together / expected; null where none is
    expected); panel, origin. Verdicts whose condition did not hold are left out. Most expected
    first.
    """
    cursor = reading(con)
    condition, values = scope(cursor, where, panel, RESPONSE_COLUMNS, "failing_together")
    name = panel_of(cursor, where, panel)
    names, seen, failed = _outcomes(cursor, condition, values, name)
    origins = cursor.execute("SELECT string_agg(DISTINCT origin::VARCHAR, ', ') FROM runs")
    n, failures, both = seen @ seen.T, failed @ seen.T, failed @ failed.T
    one, other = np.nonzero(np.triu(n, k=1))
    counts = {
        "n": n[one, other],
        "failed": failures[one, other],
        "failed_other": failures[other, one],
        "together": both[one, other],
    }
    labels = np.array(names, dtype=object)
    return (
        pl.DataFrame(
            {"dimension": labels[one], "other": labels[other], **counts},
            schema={"dimension": pl.String, "other": pl.String} | dict.fromkeys(counts, pl.Int64),
            strict=False,
        )
        .with_columns(expected=pl.col("failed") * pl.col("failed_other") / pl.col("n"))
        .with_columns(
            lift=pl.when(pl.col("expected") > 0).then(pl.col("together") / pl.col("expected")),
            panel=pl.lit(name),
            origin=pl.lit(origins.fetchall()[0][0], pl.String),
        )
        .sort("expected", "dimension", "other", descending=[True, False, False])
    )


def _outcomes(
    cursor: duckdb.DuckDBPyConnection, condition: str, values: list[Any], panel: str
) -> tuple[list[str], NDArray[Any], NDArray[Any]]:
    """Dimensions, and by dimension and response: 1 where there is a verdict; where one failed.

    Two arrays of numbered rows cost less than to group and join the verdicts in the database.
    """
    here = f"store_{state(cursor).number}.main"
    numbered = f"""
        SELECT dimension, row_number() OVER (ORDER BY dimension) - 1 AS place
        FROM (SELECT DISTINCT dimension FROM {here}.constraints)"""
    models = f"LEFT JOIN {here}.models AS m ON m.model = s.model" if "m." in condition else ""
    verdicts = cursor.execute(
        f"""
        SELECT d.place::USMALLINT AS place, s.rowid::UINTEGER AS response,
            j.score < 1 AS is_failed
        {constraint_rows(cursor, panel)}
        JOIN ({numbered}) AS d ON d.dimension = c.dimension
        {models}
        WHERE {condition} AND j.score IS NOT NULL AND j.is_triggered IS DISTINCT FROM false""",
        values,
    ).fetchnumpy()
    place, response, is_failed = (verdicts[name] for name in ("place", "response", "is_failed"))
    names = [row[0] for row in cursor.execute(f"{numbered} ORDER BY place").fetchall()]
    is_there = np.bincount(response) > 0  # of all responses
    response = (np.cumsum(is_there) - 1)[response]
    seen, failed = np.zeros((2, len(names), int(is_there.sum())))
    seen[place, response] = 1
    failed[place[is_failed], response[is_failed]] = 1
    return names, seen, failed


def _scored(
    con: duckdb.DuckDBPyConnection, state: Mapping[str, Any], by: Sequence[str]
) -> tuple[pl.DataFrame, str, str]:
    """Scores by `by`, the call that gives them, and the metric: single constraints where asked."""
    listed = f'"{by[0]}"' if len(by) == 1 else repr(tuple(by)).replace("'", '"')
    if any(name in OF_CONSTRAINTS for name in (*by, *state["where"])):
        frame = constraint_scores(con, by, state["where"], state["panel"])
        return frame, _call("constraint_scores", state, listed), "adherence"
    metric = state["metric"]
    frame = scores(con, by, state["where"], state["panel"], metrics=[metric])
    return frame, _call("scores", state, listed, f"metrics=[{_written(metric)}]"), metric


def _call(name: str, state: Mapping[str, Any], *arguments: str) -> str:
    """The call that gives the frame, as one would write it."""
    named = [text for text in arguments if not text.startswith("metrics=")]
    named += [f"where={state['where']!r}"] if state["where"] else []
    named += [f"panel={state['panel']!r}"] if state["panel"] else []
    named += [text for text in arguments if text.startswith("metrics=")]
    return f"rb.{name}({', '.join(['con', *named])})"


def _label(metric: str) -> str:
    from ragbench.facts import metric_label

    return metric_label(metric)


def _written(text: str) -> str:
    """`text` as code, in double quotes where it needs no escapes."""
    return repr(text) if {*'"\\'} & {*text} or not text.isprintable() else f'"{text}"'


def _title(state: Mapping[str, Any], about: str) -> str:
    """What a picture is about, and of which slice it is."""
    said = [f"{name}: {_words(value)}" for name, value in state["where"].items()]
    return " · ".join([about, *said])


def _words(value: Any) -> str:
    many = value if isinstance(value, (list, tuple)) else [value]
    return ", ".join("none" if one is None else str(one) for one in many)


_NOTHING = "Nothing in this slice: no row has all the filters' values."


def _small(frame: pl.DataFrame) -> list[str]:
    """What a reader has to know of the size of the slice."""
    if frame.is_empty():
        return [_NOTHING]
    names = [name for name in frame.columns if name in ("n", "n_a") or name.endswith("_n")]
    if not names:
        return []
    if "lift" in frame.columns:
        frame = frame.filter(pl.col("lift").is_not_null())  # those that are drawn
    n = frame[names[0]].fill_null(0)
    if names[0] == "n_a":
        n = frame.select(pl.min_horizontal("n_a", "n_b")).to_series()
    few = int((n < FEW).sum())
    if frame.height == 1 and few:
        return [f"Small: n = {n[0]:,}."]
    return [f"Small: {few} of {frame.height} rows have n below {FEW}."] if few else []
