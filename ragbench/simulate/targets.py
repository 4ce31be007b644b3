"""What the simulated study has to meet: models, printed numbers, and the counts that print so."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import polars as pl

JUDGE = "sim/kimi-k2-thinking"
RULES = "sim/rules"
PANEL = f"{JUDGE} + {RULES}"
OTHER_JUDGES = ("sim/qwen3-235b-thinking", "sim/gpt-4o")
EXPERTS = ("sim/expert-1", "sim/expert-2")
GOLD = "sim/gold"
SUBSET = "three_judges"
"""`instances.variant` of the subset that all three judges of Table 7 saw."""


class Model(NamedTuple):
    """A simulated model and the names under which the paper prints its original."""

    key: str
    published: str  # Tables 2 and 3
    judged_as: str | None  # Table 7
    label: str
    family: str
    paradigm: str
    is_open: bool
    params_b: float | None


def _model(
    published: str,
    label: str,
    family: str,
    paradigm: str,
    params_b: float | None,
    judged_as: str | None = None,
) -> Model:
    is_open = family in ("Qwen3", "DeepSeek", "GLM")
    key, label = f"sim/{published.lower()}", f"sim/{label}"
    return Model(key, published, judged_as, label, family, paradigm, is_open, params_b)


MODELS = (
    _model("Qwen3-8b", "Qwen3-8B-T", "Qwen3", "reasoning", 8),
    _model("Qwen3-14b", "Qwen3-14B-T", "Qwen3", "reasoning", 14),
    _model("Qwen3-32b", "Qwen3-32B-T", "Qwen3", "reasoning", 32),
    _model(
        "Qwen3-235B-A22B-Thinking-2507",
        "Qwen3-235B-T",
        "Qwen3",
        "reasoning",
        235,
        "Qwen3-235B-Thinking",
    ),
    _model("Qwen3-30B-A3B-Instruct-2507", "Qwen3-30B-I", "Qwen3", "standard", 30),
    _model("Qwen3-235B-A22B-Instruct-2507", "Qwen3-235B-I", "Qwen3", "standard", 235),
    _model("DeepSeek-R1-0528", "DeepSeek-R1", "DeepSeek", "reasoning", 671),
    _model("DeepSeek-V3.1", "DeepSeek-V3.1", "DeepSeek", "standard", 671, "DeepSeek-V3.1"),
    _model("GLM-4.5", "GLM-4.5", "GLM", "reasoning", 355),
    _model("Gemini-2.5-Pro", "Gemini-2.5-Pro", "Gemini", "reasoning", None, "Gemini-2.5-Pro"),
    _model("GPT-4.1", "GPT-4.1", "GPT", "standard", None, "GPT-4.1"),
    _model("Claude-Opus-4.5", "Claude-Opus-4.5", "Claude", "reasoning", None),
    _model("Claude-Sonnet-4", "Claude-Sonnet-4", "Claude", "standard", None),
)
"""In the order of Table 2."""

INDEX = {model.published: i for i, model in enumerate(MODELS)}
THINKING, INSTRUCT = (
    INDEX["Qwen3-235B-A22B-Thinking-2507"],
    INDEX["Qwen3-235B-A22B-Instruct-2507"],
)
R1, V31 = INDEX["DeepSeek-R1-0528"], INDEX["DeepSeek-V3.1"]
JUDGED = tuple(i for i, model in enumerate(MODELS) if model.judged_as)
"""The four models of Table 7."""


@cache
def table(name: str) -> pl.DataFrame:
    """A published table, read once."""
    from ragbench.paper import published

    return published(name)


def per_mille(column: str, name: str = "table2") -> list[int]:
    """A printed percentage of each model of Table 2 or 3 in its tenths, in the order of MODELS."""
    frame = table(name)
    printed = dict(zip(frame["model"], frame[column], strict=True))
    return [round(10 * printed[model.published]) for model in MODELS]


def counts_printed_as(tenths: int, n: int) -> list[int]:
    """The counts k for which k / n is printed as `tenths` / 10 percent.

    >>> counts_printed_as(268, 447), counts_printed_as(268, 446)
    ([120], [])
    """
    near = tenths * n // 1000
    return [k for k in range(max(0, near - 1), near + 3) if abs(1000 * k - tenths * n) * 2 < n]


def denominators(tenths: int, n: int, fewest: int) -> list[int]:
    """The denominators from `n` down to `fewest` at which some count is printed as `tenths`.

    >>> denominators(423, 309, 300)
    [307, 305, 300]
    """
    return [m for m in range(n, fewest - 1, -1) if counts_printed_as(tenths, m)]


def t_window(printed_p: str) -> tuple[float, float]:
    """Between which values the paired t over all models lies when its p is printed so.

    >>> t_window("<.001")[1]
    99.0
    """
    from scipy.special import stdtrit

    def quantile(p: float) -> float:
        return round(float(stdtrit(len(MODELS) - 1, 1 - p / 2)), 6)

    if printed_p.startswith("<"):
        return 1.05 * quantile(float(printed_p[1:])), 99.0
    p, half = float(printed_p), 0.0004
    return quantile(p + half), quantile(p - half)
