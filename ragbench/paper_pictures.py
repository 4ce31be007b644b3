"""How the frames of the artifacts are drawn: from a frame and a title to a Figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from ragbench.facts import groups, metric_label, value_label
from ragbench.metrics import tidy

if TYPE_CHECKING:
    import plotly.graph_objects as go

SHOWN_MODELS = 5
"""How many models a radar holds before none can be told from another (as in Figure 9)."""

PROFILED = ("strict_ias", "loose_ias", "faithfulness", "coverage")
"""The metrics of Figure 9."""


def picture(
    kind: str,
    frame: pl.DataFrame,
    title: str,
    value: str | list[str],
    *columns: Any,
    **choices: Any,
) -> go.Figure:
    """The picture of that kind, `figures.<kind>(frame, *columns, value, …)`; plotly is loaded here.

    >>> frame = pl.DataFrame({"model": ["a"], "strict_ias": [0.2]})
    >>> picture("dots", frame, "Strict", "strict_ias").layout.title.text
    'Strict'
    """
    from ragbench import figures

    figure: go.Figure = getattr(figures, kind)(frame, *columns, value, title=title, **choices)
    return figure


def dots(metric: str) -> Any:
    """A drawer of one dot per row."""
    return lambda frame, title: picture("dots", _telling(frame), title, metric)


def _telling(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` without the groups that are the same in every row: labels have little room."""
    same = [name for name in groups(frame) if frame[name].n_unique() == 1]
    return frame.drop(same if len(same) < len(groups(frame)) else same[1:])


def gap(frame: pl.DataFrame, title: str) -> go.Figure:
    """Loose and Strict with the strict rate of independent failures, where the frame has it."""
    from ragbench import figures

    return figures.gap(frame, frame if "independent" in frame.columns else None, title=title)


def rejection(frame: pl.DataFrame, title: str) -> go.Figure:
    """A bar per model and metric."""
    return picture("bars", _labelled(tidy(frame)), title, "value", label="row", group="metric")


def correlation(frame: pl.DataFrame, title: str) -> go.Figure:
    """Recognition against coverage, a point per model, with rho and its exact p per paradigm."""
    groups = frame.drop_nulls("rho").unique("paradigm", maintain_order=True).to_dicts()
    note = "; ".join(
        f"{row['paradigm']}: ρ = {row['rho']:+.2f}, p = {row['rho_p_value']:.3f} "
        f"({row['rho_models']} models)"
        for row in groups
    ).replace("-", "−")
    choices = {"label": "model", "group": "paradigm", "note": note or None}
    return picture("scatter", frame, title, "coverage", "conflict", **choices)


def errors(frame: pl.DataFrame, title: str) -> go.Figure:
    """The mean error rate of each dimension and its spread over models, or over settings of one."""
    over = "model"
    if "setting" in frame.columns:
        over = "setting" if frame["model"].n_unique() == 1 else "run"
        frame = frame.with_columns(run=pl.format("{} · {}", "model", "setting"))
    return picture("spread", frame, title, "error_rate", label="dimension", over=over)


def gains(frame: pl.DataFrame, title: str) -> go.Figure:
    """Paired differences of each pair of variants, with stars as printed and p after Holm."""
    names = [
        f"{metric_label(row['metric'])} · {value_label('context_mode', row['context_mode'])}"
        for row in frame.iter_rows(named=True)
    ]
    pairs = [f"{a} − {_own(b, a)}" for a, b in frame.select("a", "b").rows()]
    named = frame.with_columns(pl.Series("row", names), pl.Series("pair", pairs), model=pl.col("a"))
    choices = {"label": "row", "p_value": "p_value", "adjusted": "p_holm", "has_bars": True}
    lost = int(frame["lost"].sum())
    test = ", ".join(_TESTS.get(way, way) for way in frame["method"].drop_nulls().unique())
    note = f"{lost or 'none'} missing · grey: p adjusted by Holm · stars: p as it is"
    note += f", {test}" if test else ""
    about = {"unit": "pairs", "note": note}
    return picture("panels", named, title, "difference", "pair", **choices, **about)


_TESTS = {
    "exact": "exact McNemar test, one-sided",
    "z_cc": "McNemar test (corrected for continuity), one-sided",
}


def _own(b: str, a: str) -> str:
    """The name of `b` without the provider that it shares with `a`."""
    provider, slash, name = b.rpartition("/")
    return name if slash and a.rpartition("/")[0] == provider else b


def effects(frame: pl.DataFrame, title: str) -> go.Figure:
    """The difference that a protocol makes per model and metric; stratified by domain beside."""
    drawn = _labelled(frame.rename({"metric": "behaviour"})).with_columns(metric=frame["metric"])
    choices = {"label": "row", "p_value": "p_value", "beside": "stratified"}
    return picture("panels", drawn, title, "difference", "metric", **choices)


def shares(frame: pl.DataFrame, title: str) -> go.Figure:
    """Categories inside, dimensions outside."""
    named = frame.rename({"count": "constraints"})
    return picture("sunburst", named, title, "constraints", ["category", "dimension"])


def equivalence(frame: pl.DataFrame, title: str) -> go.Figure:
    """Natural minus made conflicts per metric, both intervals, the margin and the verdicts."""
    counts = {"natural_n": "n_natural", "synthetic_n": "n_synthetic"}
    drawn = _labelled(frame.drop("n").rename(counts))
    margin = frame["margin"].drop_nulls().first()
    return picture("equivalence", drawn, title, "difference", label="row", margin=margin)


def profiles(frame: pl.DataFrame, title: str) -> go.Figure:
    """A radar per metric over domains, of the models with the highest Strict IAS, at most five."""
    means = frame.group_by("model").agg(pl.col("strict_ias").mean()).drop_nulls()
    best = means.sort("strict_ias", "model", descending=[True, False]).head(SHOWN_MODELS)
    drawn = frame.filter(pl.col("model").is_in(best["model"].to_list()))
    label = "row" if "setting" in frame.columns else "model"
    known = [name for name in PROFILED if drawn[name].drop_nulls().len()]
    return picture("radar", _labelled(drawn), title, known, "domain", label=label)


def cells(frame: pl.DataFrame, title: str) -> go.Figure:
    """Strict IAS of every model in every domain, with its number."""
    if "setting" in frame.columns:  # two names: there is room for a short one
        plain = pl.col("model").map_elements(
            lambda name: name if name.startswith("sim/") else short(name), pl.String
        )
        frame = frame.with_columns(row=pl.concat_str(plain, "setting", separator=" · "))
    label = "row" if "setting" in frame.columns else "model"
    return picture("heatmap", frame, title, "strict_ias", "domain", label)


def short(model: str) -> str:
    """A model's name without its provider and the date of its version.

    >>> short("sim/qwen3-235b-a22b-thinking-2507"), short("openai/gpt-4.1")
    ('qwen3-235b-a22b-thinking', 'gpt-4.1')
    """
    name = model.rpartition("/")[2]
    head, _, tail = name.rpartition("-")
    return head if head and tail.isdigit() and len(tail) >= 4 else name


def _labelled(frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with what tells its rows apart as one text, `row`: metric, model, setting."""
    parts = [name for name in ("metric", "model", "setting") if name in frame.columns]
    if "value" in frame.columns:  # a bar per metric
        parts.remove("metric")
    texts = [
        " · ".join(
            metric_label(value) if name == "metric" else str(value)
            for name, value in zip(parts, row, strict=True)
            if value is not None
        )
        for row in frame.select(parts).rows()
    ]
    return frame.with_columns(pl.Series("row", texts, pl.String))
