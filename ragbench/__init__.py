"""A research workbench for instruction following and robustness in retrieval-augmented generation.

The public names, loaded when first used so that `import ragbench` stays quick:

- the study file: `connect`, `refresh`, `append`, `pending`, `check`, `ledger`, `load`
- numbers: `scores`, `constraint_scores`, `paired`, `unpaired`, `independence`;
  `protocol_effect`, `natural_vs_synthetic`, `agreement`, `judge_reliability`, `flip_rates`; the
  tests are in `stats`
- steps: `answer`, `judge`
- pictures and tables: `figures`, `tables`, `paper`; for notebooks `notebook`, `behaviours`
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ragbench.notebook import show_texts_as_written

__version__ = "0.1.0"

_FUNCTIONS = {
    "connect": "store",
    "refresh": "store",
    "append": "store",
    "pending": "checks",
    "check": "checks",
    "ledger": "checks",
    "load": "importers",
    "export": "exports",
    "load_folder": "exports",
    "pack": "packs",
    "answer": "run",
    "judge": "judging.judge",
    "scores": "metrics",
    "constraint_scores": "metrics",
    "paired": "comparisons",
    "unpaired": "comparisons",
    "independence": "comparisons",
    "protocol_effect": "contrasts",
    "natural_vs_synthetic": "contrasts",
    "agreement": "contrasts",
    "flip_rates": "judging.stability",
    "judge_reliability": "contrasts",
    "explorer": "widgets",
    "annotator": "annotating",
    "response_reader": "reader",
}
_MODULES = (
    "behaviours",
    "errors",
    "exploring",
    "figures",
    "metrics",
    "notebook",
    "output",
    "paper",
    "simulate",
    "stats",
    "store",
    "tables",
    "taxonomy",
)

__all__ = sorted([*_FUNCTIONS, *_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        value = getattr(import_module(f"ragbench.{_FUNCTIONS[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"ragbench.{name}")
    else:
        raise AttributeError(f"module 'ragbench' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


show_texts_as_written()
