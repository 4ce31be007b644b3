"""What a frame of scores says about itself: its groups, the parts of each metric, n and origin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from ragbench import taxonomy
from ragbench.errors import UnknownColumn

SIMULATED = "simulated: not a result"
PARTS = ("n", "planned", "low", "high", "lowest", "highest", "interval")
_AFTER_GROUPS = {"panel", "origin", "planned", "answered", "judged", "errors", "n", "metric"}
METRICS = {
    "loose_ias": "Loose IAS",
    "strict_ias": "Strict IAS",
    "loose_pooled": "Loose IAS (pooled)",
    "loose_ias_triggered": "Loose IAS (triggered)",
    "strict_ias_triggered": "Strict IAS (triggered)",
    "strict_ias_refusal_exempt": "Strict IAS (refusal exempt)",
    "loose_rules": "Loose, rules only",
    "strict_rules": "Strict, rules only",
    "faithfulness": "Faithfulness",
    "coverage": "Answer coverage",
    "rejection": "Rejection accuracy",
    "conflict": "Conflict recognition",
    "adherence": "Adherence",
    "adherence_triggered": "Adherence (triggered)",
    "independent": "Strict IAS if failures were independent",
}
UNITS = {
    "loose_ias": "mean share of constraints",
    "loose_pooled": "share of constraints",
    "loose_ias_triggered": "mean share of triggered constraints",
    "loose_rules": "mean share of rule-checked constraints",
    "faithfulness": "mean share of claims",
    "coverage": "mean weighted share of claims",
    "adherence": "share of constraints",
    "adherence_triggered": "share of triggered constraints",
}
_OVER_CONSTRAINTS = {"loose_pooled", "adherence", "adherence_triggered"}  # what their n counts
_LISTS: dict[str, Iterable[taxonomy.Entry]] = {
    "domain": taxonomy.DOMAINS,
    "context_mode": taxonomy.CONTEXT_MODES,
    "category": taxonomy.CATEGORIES,
    "dimension": taxonomy.DIMENSIONS,
}


def metric_label(metric: str) -> str:
    """What a metric is called in figures and tables.

    >>> metric_label("strict_ias"), metric_label("tone_of_voice")
    ('Strict IAS', 'Tone of voice')
    """
    words = metric.replace("_", " ")
    return METRICS.get(metric, words[:1].upper() + words[1:])


def unit(metric: str) -> str:
    """What a metric is a share of, for axes.

    >>> unit("strict_ias"), unit("loose_ias")
    ('share of responses', 'mean share of constraints')
    """
    return UNITS.get(metric, "share of responses" if is_share(metric) else "mean score")


def is_share(metric: str) -> bool:
    """Whether a metric is a proportion, so that percent may be shown.

    A criterion of a user's own has a range of its own: it is shown as it is.
    """
    return metric in METRICS


def value_label(column: str, value: object) -> str:
    """What a value of a grouping column is called: the label of the taxonomy, else itself.

    >>> value_label("context_mode", "gap"), value_label("domain", None)
    ('Knowledge gap', '(no domain)')
    """
    if value is None:
        return f"(no {column.replace('_', ' ')})"
    known = {entry.key: entry.label for entry in _LISTS.get(column, ())}
    return known.get(str(value), str(value))


def groups(frame: pl.DataFrame) -> list[str]:
    """The columns a frame of scores is grouped by: those before panel, origin, ledger and numbers.

    >>> frame = pl.DataFrame({"model": ["a"], "domain": ["Legal"], "panel": ["rules"]})
    >>> groups(frame.with_columns(strict_ias=0.2))
    ['model', 'domain']
    """
    names: list[str] = []
    for name, kind in frame.schema.items():
        is_number = kind.is_float() and "panel" not in frame.columns
        if name in _AFTER_GROUPS or is_number:
            break
        names.append(name)
    return names


def part(frame: pl.DataFrame, metric: str, name: str) -> str | None:
    """The column that holds one part of a metric, such as its `low`; None when there is none.

    `<metric>_<part>` where any such column exists; else the bare part, such as `low`, as in frames
    that hold a single metric.
    """
    own = f"{metric}_{name}"
    if own in frame.columns:
        return own
    has_own = any(f"{metric}_{other}" in frame.columns for other in PARTS)
    return name if name in frame.columns and not has_own else None


def points(frame: pl.DataFrame, metric: str, *, place: str = "the frame") -> pl.DataFrame:
    """One row per row of `frame`, in its order: key, label, model, value and the parts of `metric`.

    What is absent is null, and so is NaN. An unknown metric raises `UnknownColumn`.

    >>> frame = pl.DataFrame({"model": ["a"], "strict_ias": [0.2], "strict_ias_n": [5]})
    >>> points(frame, "strict_ias").select("label", "value", "n", "low").row(0)
    ('a', 0.2, 5, None)
    """
    if metric not in frame.columns:
        raise UnknownColumn(place, metric, frame.columns)
    by = groups(frame)
    shown = [*by, "panel"] if _differ(frame, "panel") and "panel" not in by else by
    keys = [tuple(str(value) for value in row) for row in frame.select(by).rows()] if by else []
    labels = [
        " · ".join(value_label(name, value) for name, value in zip(shown, row, strict=True))
        for row in (frame.select(shown).rows() if shown else [()] * frame.height)
    ]
    numbers = {"value": metric} | {name: part(frame, metric, name) for name in PARTS}
    kinds: dict[str, type[pl.DataType]] = dict.fromkeys(numbers, pl.Float64)
    kinds |= {"n": pl.Int64, "planned": pl.Int64, "interval": pl.String}
    return pl.DataFrame(
        {
            "key": pl.Series(
                ["\x1f".join(key) for key in keys] or [""] * frame.height, dtype=pl.String
            ),
            "label": pl.Series([text or "all responses" for text in labels], dtype=pl.String),
            "model": frame["model"].cast(pl.String)
            if "model" in frame.columns
            else pl.repeat(None, frame.height, dtype=pl.String, eager=True),
        }
        | {
            name: frame[column].cast(kinds[name])
            if column
            else pl.repeat(None, frame.height, dtype=kinds[name], eager=True)
            for name, column in numbers.items()
        }
    ).with_columns(pl.col(pl.Float64).fill_nan(None))


def origins(frame: pl.DataFrame) -> list[str]:
    """Where the rows come from, each kind once; empty when the frame does not say."""
    if "origin" not in frame.columns:
        return []
    found = {
        part.strip() for value in frame["origin"].drop_nulls() for part in str(value).split(",")
    }
    return sorted(found - {""})


def marks(
    frame: pl.DataFrame,
    value: str,
    label: str,
    *,
    low: str | None = None,
    high: str | None = None,
    place: str = "the frame",
) -> list[dict[str, Any]]:
    """One dict per row of `frame`, in its order: label, model, value, low, high, n, planned.

    Other than `points`, `label` names the column that tells the rows apart, and may be any. The
    parts of `value` are found as there unless `low` and `high` name columns, which may be absent.
    What is absent is None, and so is NaN. An unknown `value` or `label` raises `UnknownColumn`.

    >>> frame = pl.DataFrame({"metric": ["strict_ias"], "difference": [0.1], "low": [-0.1]})
    >>> [(row["label"], row["low"], row["high"]) for row in marks(frame, "difference", "metric")]
    [('Strict IAS', -0.1, None)]
    """
    for name in (value, label):
        if name not in frame.columns:
            raise UnknownColumn(place, name, frame.columns)
    columns = {name: part(frame, value, name) for name in ("low", "high", "n", "planned")}
    columns |= {name: end for name, end in (("low", low), ("high", high)) if end is not None}
    columns = {"value": value, **columns}
    models = frame["model"].cast(pl.String) if "model" in frame.columns else [None] * frame.height
    read: dict[str, Any] = {
        "label": [_row_label(label, key) for key in frame[label]],
        "model": list(models),
        **{
            name: _numbers(frame, column, whole=name in ("n", "planned"))
            for name, column in columns.items()
        },
    }
    return [dict(zip(read, row, strict=True)) for row in zip(*read.values(), strict=True)]


def _row_label(column: str, key: object) -> str:
    return metric_label(str(key)) if column == "metric" and key else value_label(column, key)


def _numbers(frame: pl.DataFrame, column: str | None, *, whole: bool) -> list[Any]:
    if column is None or column not in frame.columns:
        return [None] * frame.height
    known = frame[column].cast(pl.Float64).fill_nan(None)
    return (known.cast(pl.Int64) if whole else known).to_list()


def is_proportion(frame: pl.DataFrame, value: str) -> bool:
    """Whether a column holds proportions or differences of them, so that percent may be shown.

    A known metric does; any other column does when all its values lie between -1 and 1. A scale of
    one's own with such values is the reader's to name, with `percent=False`.
    """
    known = frame[value].cast(pl.Float64).fill_nan(None).drop_nulls()
    return is_share(value) or bool((known.abs() <= 1).all())


def facts(frame: pl.DataFrame, metrics: Sequence[str], *, each: str = "row") -> list[str]:
    """What must stand beside numbers, as short texts: n, missing rows, interval, panel, origin.

    Where there is no n, the columns n_… and lost_… (of two groups) are told. `each` is what a row
    of the frame is in the picture.

    >>> frame = pl.DataFrame({"model": ["a", "b"], "panel": ["rules"] * 2})
    >>> frame = frame.with_columns(origin=pl.lit("simulated"), strict_ias=pl.Series([0.2, 0.4]),
    ...     strict_ias_n=pl.Series([20, 25]), strict_ias_planned=pl.lit(25))
    >>> facts(frame, ["strict_ias"])
    ['n = 20–25 responses per row', '5 of 50 missing', 'panel: rules', 'simulated: not a result']
    """
    read = [points(frame, metric) for metric in metrics if metric in frame.columns]
    panels = (
        [str(panel) for panel in frame["panel"].drop_nulls().unique(maintain_order=True)]
        if ("panel" in frame.columns)
        else []
    )
    origin = [SIMULATED if name == "simulated" else name for name in origins(frame)]
    texts = [*_n(frame, metrics, read, each), *_missing(frame, read), *_intervals(read)]
    if panels:
        texts.append(("panel: " if len(panels) == 1 else "panels: ") + ", ".join(panels))
    return [*texts, " and ".join(origin) or "origin not stated"] if frame.height else []


def _differ(frame: pl.DataFrame, column: str) -> bool:
    return column in frame.columns and frame[column].n_unique() > 1


def _n(
    frame: pl.DataFrame, metrics: Sequence[str], read: list[pl.DataFrame], each: str
) -> list[str]:
    counts = [n for table in read for n in table["n"].drop_nulls()]
    per = f" per {each}" if frame.height > 1 else ""
    if not counts:
        parts = {name[2:].replace("_", " "): frame[name].drop_nulls() for name in _parts(frame)}
        texts = [f"{name} {_span(list(counts))}" for name, counts in parts.items() if len(counts)]
        return [f"n{per}: {', '.join(texts)}" if texts else "n not stated"]
    unit = "constraints" if metrics[0] in _OVER_CONSTRAINTS else "responses"
    return [f"n = {_span(counts)} {unit}{per}"]


def _parts(frame: pl.DataFrame) -> list[str]:
    """The columns that count groups of their own, such as n_with and n_without."""
    return [
        name
        for name, kind in frame.schema.items()
        if name.startswith("n_") and kind.is_integer() and not name.endswith("_n")
    ]


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _missing(frame: pl.DataFrame, read: list[pl.DataFrame]) -> list[str]:
    """Counted for the metric that lacks most: the metrics of a figure share their responses."""
    worst = None
    for table in read:
        known = table.drop_nulls(["n", "planned"])
        if known.height:
            planned = int(known["planned"].sum())
            pair = (max(planned - int(known["n"].sum()), 0), planned)
            worst = max(worst, pair) if worst else pair
    lost = [
        name
        for name, kind in frame.schema.items()
        if name.startswith("lost_") and kind.is_integer()
    ]
    if worst is None and lost:
        count = sum(int(frame[name].sum()) for name in lost)
        return [f"{count:,} missing" if count else "none missing"]
    if worst is None:
        return []
    return [f"{worst[0]:,} of {worst[1]:,} missing" if worst[0] else "none missing"]


def _intervals(read: list[pl.DataFrame]) -> list[str]:
    """How the intervals were made; of rows that have none nothing is said."""
    if not any(table["low"].drop_nulls().len() for table in read):
        return []
    found = {kind for table in read for kind in table["interval"].drop_nulls()}
    kinds = sorted(kind for kind in found if not kind.startswith("none"))
    return ["bars: 95 % interval" + (f" ({', '.join(kinds)})" if kinds else "")]
