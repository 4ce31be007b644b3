"""What a frame of scores says about itself: its groups, the parts of each metric, n and origin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from ragbench import taxonomy
from ragbench.errors import UnknownColumn

SIMULATED = "simulated: not a result"
PARTS = ("n", "planned", "low", "high", "lowest", "highest", "interval")
_ASPECTS = ("metric", "kind")  # rows that differ in these alone are about the same responses
_AFTER_GROUPS = {"origin", "planned", "answered", "judged", "errors", "n", "metric"}
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
    "loose_persona": "Loose IAS, persona",
    "loose_output": "Loose IAS, output",
    "loose_protocol": "Loose IAS, protocol",
    "error_rate": "Error rate",
    "share_of_errors": "Share of failures",
}
HEADERS = {
    "d_z": "d (z)",
    "icc_2k": "ICC(2,k)",
    "icc_low": "ICC, low",
    "icc_high": "ICC, high",
    "mean_rho": "mean ρ",
    "rho": "ρ",
    "rho_p_value": "p of ρ",
    "rho_models": "Models behind ρ",
    "p_value": "p",
    "p_holm": "p (Holm)",
    "t": "t",
    "params_b": "Parameters, billions",
    "n_with": "n with",
    "n_without": "n without",
    "low_95": "Low, 95 %",
    "high_95": "High, 95 %",
    "verdict_standard_90": "Verdict, 90 %",
    "synthetic_minus_natural": "Synthetic − natural",
    "human_kappa": "κ of people",
    "judge_kappa": "κ of judge",
    "constraints_avg": "Constraints per query",
    "persona_avg": "Persona per query",
    "output_avg": "Output per query",
    "protocol_avg": "Protocol per query",
}
"""What columns are called whose names do not read as words."""
UNITS = {
    "loose_ias": "mean share of constraints",
    "loose_pooled": "share of constraints",
    "loose_ias_triggered": "mean share of triggered constraints",
    "loose_rules": "mean share of rule-checked constraints",
    "faithfulness": "mean share of claims",
    "coverage": "mean weighted share of claims",
    "adherence": "share of constraints",
    "adherence_triggered": "share of triggered constraints",
    "loose_persona": "share of persona constraints",
    "loose_output": "share of output constraints",
    "loose_protocol": "share of protocol constraints",
    "error_rate": "share of constraints that failed",
    "share_of_errors": "share of the constraints that failed",
}
_OVER_CONSTRAINTS = {  # what their n counts
    "loose_pooled",
    "adherence",
    "adherence_triggered",
    "loose_persona",
    "loose_output",
    "loose_protocol",
    "error_rate",
    "share_of_errors",
}
_LISTS: dict[str, Iterable[taxonomy.Entry]] = {
    "domain": taxonomy.DOMAINS,
    "context_mode": taxonomy.CONTEXT_MODES,
    "category": taxonomy.CATEGORIES,
    "dimension": taxonomy.DIMENSIONS,
}


def metric_label(metric: str) -> str:
    """What a metric, or any column of a table, is called.

    >>> metric_label("strict_ias"), metric_label("tone_of_voice"), metric_label("n_queries")
    ('Strict IAS', 'Tone of voice', 'n queries')
    """
    words = metric.replace("_", " ")
    if metric.endswith("_n"):  # counts of a part, such as natural_n
        words = f"n {words[:-2]}"
    named = METRICS.get(metric) or HEADERS.get(metric)
    return named or (
        words if words.startswith("n ") or words == "n" else words[:1].upper() + words[1:]
    )


def lowered(label: str) -> str:
    """A label inside a sentence: words with more than one capital letter keep theirs.

    >>> lowered("Error rate"), lowered("ICC(2,k)")
    ('error rate', 'ICC(2,k)')
    """
    words = label.split(" ")
    return " ".join(word if word[1:] != word[1:].lower() else word.lower() for word in words)


def unit(metric: str) -> str:
    """What a metric is a share of, for axes.

    >>> unit("strict_ias"), unit("loose_ias")
    ('share of responses', 'mean share of constraints')
    """
    if metric in UNITS:
        return UNITS[metric]
    if metric.startswith("share_of_"):
        return metric.replace("_", " ")
    return "share of responses" if is_share(metric) else "mean score"


def axis(frame: pl.DataFrame, value: str) -> str:
    """What `value` is a share of; with a column `metric` (`metrics.tidy`), what each of them is.

    >>> axis(pl.DataFrame({"metric": ["strict_ias", "loose_pooled"]}), "value")
    'share of responses; Loose IAS (pooled): share of constraints'
    """
    names = _metrics(frame, [value])
    units: dict[str, list[str]] = {}
    for name in names:
        units.setdefault(unit(name), []).append(metric_label(name))
    (first, _), *others = units.items()
    texts = [f"{', '.join(labels)}: {what}" for what, labels in others]
    return "; ".join([first, *texts])


def _metrics(frame: pl.DataFrame, metrics: Sequence[str]) -> list[str]:
    """The metrics that a frame holds; in the long form those that its column `metric` names."""
    if list(metrics) != ["value"] or "metric" not in frame.columns:
        return list(metrics)
    return [str(name) for name in frame["metric"].drop_nulls().unique(maintain_order=True)]


def is_share(metric: str) -> bool:
    """Whether a metric is a proportion, so that percent may be shown.

    A criterion of a user's own has a range of its own: it is shown as it is.
    """
    return metric in METRICS


def value_label(column: str, value: object) -> str:
    """What a value of a grouping column is called: the label of the taxonomy, else itself.

    >>> value_label("context_mode", "gap"), value_label("domain", None)
    ('Knowledge gap', '(no domain)')
    >>> value_label("metric", "strict_ias"), value_label("is_open", False)
    ('Strict IAS', 'not open')
    """
    if value is None:
        return f"(no {column.replace('_', ' ')})"
    if column == "metric":
        return metric_label(str(value))
    if isinstance(value, bool):
        words = column.removeprefix("is_").replace("_", " ")
        return words if value else f"not {words}"
    known = {entry.key: entry.label for entry in _LISTS.get(column, ())}
    return known.get(str(value), str(value))


def groups(frame: pl.DataFrame) -> list[str]:
    """The columns a frame of scores is grouped by: those before origin, ledger and numbers.

    The panel is one of them when another group stands behind it; else it says who judged.

    >>> frame = pl.DataFrame({"model": ["a"], "domain": ["Legal"], "panel": ["rules"]})
    >>> groups(frame.with_columns(strict_ias=0.2))
    ['model', 'domain']
    >>> groups(pl.DataFrame({"panel": ["rules"], "model": ["a"], "origin": ["measured"]}))
    ['panel', 'model']
    """
    names: list[str] = []
    for name, kind in frame.schema.items():
        is_number = kind.is_float() and ("panel" not in frame.columns or "panel" in names)
        if name in _AFTER_GROUPS or is_number:
            break
        names.append(name)
    return names[:-1] if names[-1:] == ["panel"] else names


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
    return value_label(column, key)


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
    kinds = {
        "constraints" if name in _OVER_CONSTRAINTS else "responses"
        for name in _metrics(frame, metrics)
    }
    return [f"n = {_span(counts)} {' or '.join(sorted(kinds))}{per}"]


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
    for name in _ASPECTS:
        if name in frame.columns:
            read = [part for table in read for part in _parted(table, frame[name])]
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


def _parted(table: pl.DataFrame, by: pl.Series) -> list[pl.DataFrame]:
    return table.with_columns(_by=by).partition_by("_by", maintain_order=True)


def _intervals(read: list[pl.DataFrame]) -> list[str]:
    """How the intervals were made; of rows that have none nothing is said."""
    if not any(table["low"].drop_nulls().len() for table in read):
        return []
    found = {kind for table in read for kind in table["interval"].drop_nulls()}
    kinds = sorted(kind for kind in found if not kind.startswith("none"))
    return ["bars: 95 % interval" + (f" ({', '.join(kinds)})" if kinds else "")]
