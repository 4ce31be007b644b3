"""The cells of Figures 2 to 9: what the paper's text gives for them, and what a frame gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from ragbench.printed import Cell, cell, paper_name, published

_Q30, _Q235T, _Q235I, _OPUS, _R1, _V31 = (
    "Qwen3-30B-A3B-Instruct-2507",
    "Qwen3-235B-A22B-Thinking-2507",
    "Qwen3-235B-A22B-Instruct-2507",
    "Claude-Opus-4.5",
    "DeepSeek-R1-0528",
    "DeepSeek-V3.1",
)
_QWEN, _DEEPSEEK = f"{_Q235T} against {_Q235I}", f"{_R1} against {_V31}"

# artifact -> (claim in claims.csv, which of two numbers in it, row, column)
CLAIMS: dict[str, list[tuple[str, int, str, str]]] = {
    "figure2": [("C034", 0, _Q30, "rejection"), ("C036", 0, _OPUS, "rejection")],
    "figure3": [
        ("C025", 0, "reasoning", "rho"),
        ("C040", 0, "reasoning", "p_value"),
        ("C026", 0, "standard", "rho"),
    ],
    "figure4": [],
    "figure5": [
        ("C044", 0, f"{_QWEN}: rejection in gap", "difference"),
        ("C045", 0, f"{_DEEPSEEK}: conflict in conflict", "difference"),
        ("C046", 0, f"{_QWEN}: strict_ias", "least difference"),
        ("C046", 1, f"{_QWEN}: strict_ias", "greatest difference"),
    ],
    "figure6": [
        ("C028", 0, "all models: conflict", "significant gains"),
        ("C029", 0, "all models: rejection", "significant effects"),
        ("C030", 0, "all models: rejection", "instances with"),
        ("C030", 1, "all models: rejection", "instances without"),
        ("C031", 0, "all models: conflict", "instances with"),
        ("C031", 1, "all models: conflict", "instances without"),
    ],
    "figure7": [("C056", 0, "output", "share"), ("C057", 0, "protocol", "share")],
    "figure8": [
        ("C063", 0, "faithfulness", "synthetic_minus_natural"),
        ("C064", 0, "coverage", "synthetic_minus_natural"),
        ("C065", 0, "conflict", "synthetic_minus_natural"),
        ("C066", 0, "strict_ias", "synthetic_minus_natural"),
    ],
    "figure9": [],
}


def _claimed(artifact: str) -> Iterator[Cell]:
    values = dict(published("claims", as_text=True).select("claim_id", "value").iter_rows())
    for claim, part, row, column in CLAIMS[artifact]:
        parts = values[claim].replace(" to ", "/").split("/")
        yield {"row": row, "column": column, "printed": parts[part]}
    if artifact == "figure3":  # its x axis is Table 3
        for line in published("table3", as_text=True).iter_rows(named=True):
            printed = line["conflict_recognition_pct"]
            yield {"row": line["model"], "column": "conflict", "printed": printed}


def _lines(*keys: str, columns: tuple[str, ...], factor: int = 100) -> Any:
    """Cells of every line, named by the values of `keys`."""

    def cells(frame: pl.DataFrame) -> Iterator[Cell]:
        for line in frame.iter_rows(named=True):
            present = [key for key in (*keys, "setting") if line.get(key) is not None]
            row = ": ".join(paper_name(str(line[key])) for key in present if _tells(frame, key))
            for column in columns:
                yield cell(row, column, line, factor)

    return cells


def _tells(frame: pl.DataFrame, key: str) -> bool:
    return key != "setting" or frame["setting"].n_unique() > 1


def _correlations(frame: pl.DataFrame) -> Iterator[Cell]:
    yield from _lines("model", columns=("conflict", "coverage"))(frame)
    for line in frame.drop_nulls("rho").unique("paradigm", maintain_order=True).to_dicts():
        about = {"n": line["rho_models"], "origin": line["origin"]}
        row = line["paradigm"]
        yield cell(row, "rho", {"rho": line["rho"], **about})
        yield cell(row, "p_value", {"p_value": line["rho_p_value"], **about})


def _gains(frame: pl.DataFrame) -> Iterator[Cell]:
    for (a, b), part in frame.group_by("a", "b", maintain_order=True):
        pair = f"{paper_name(str(a))} against {paper_name(str(b))}"
        for line in part.iter_rows(named=True):
            row = f"{pair}: {line['metric']} in {line['context_mode']}"
            yield cell(row, "difference", line, 100)
        strict = part.filter(metric="strict_ias").drop_nulls("difference").sort("difference")
        for column, rows in (("least", strict.head(1)), ("greatest", strict.tail(1))):
            for line in rows.rename({"difference": f"{column} difference"}).to_dicts():
                yield cell(f"{pair}: strict_ias", f"{column} difference", line, 100)


def _effects(frame: pl.DataFrame) -> Iterator[Cell]:
    counted = frame.with_columns(n=pl.col("n_with") + pl.col("n_without"))
    yield from _lines("model", "metric", columns=("difference",))(counted)
    for (metric,), part in frame.group_by("metric", maintain_order=True):
        found = part.filter(pl.col("p_value") < 0.05)
        counts = {
            "significant gains": found.filter(pl.col("difference") > 0).height,
            "significant effects": found.height,
            "instances with": (part["n_with"] + part["lost_with"]).max(),
            "instances without": (part["n_without"] + part["lost_without"]).max(),
        }
        about = {"n": part.height, "origin": part["origin"][0]}
        for column, count in counts.items():
            yield cell(f"all models: {metric}", column, {column: count, **about})


def _shares(frame: pl.DataFrame) -> Iterator[Cell]:
    total = int(frame["count"].sum())
    for (category,), part in frame.group_by("category", maintain_order=True):
        about = {"n": total, "origin": part["origin"][0]}
        yield cell(str(category), "share", {"share": part["share"].sum(), **about}, 100)
        for line in part.iter_rows(named=True):
            yield cell(f"{category}: {line['dimension']}", "share", {**line, "n": total}, 100)


def _figure(name: str, cells: Any) -> tuple[Callable[[], Iterator[Cell]], Any]:
    return (lambda: _claimed(name)), cells


FIGURES = {
    name: _figure(name, cells)
    for name, cells in {
        "figure2": _lines("model", columns=("rejection", "strict_ias", "loose_ias")),
        "figure3": _correlations,
        "figure4": _lines("model", "dimension", columns=("error_rate",)),
        "figure5": _gains,
        "figure6": _effects,
        "figure7": _shares,
        "figure8": _lines("metric", columns=("synthetic_minus_natural",), factor=1),
        "figure9": _lines(
            "model", "domain", columns=("strict_ias", "loose_ias", "faithfulness", "coverage")
        ),
    }.items()
}
"""Figure -> what is printed, and the cells of a frame."""
