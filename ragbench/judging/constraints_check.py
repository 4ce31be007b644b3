"""Problems of constraints before anything is judged, and verdicts that mean nothing after."""

from __future__ import annotations

import polars as pl

__all__ = ["degenerate", "validate_constraints"]


def validate_constraints(constraints: pl.DataFrame) -> pl.DataFrame:
    raise NotImplementedError


def degenerate(verdicts: pl.DataFrame) -> pl.DataFrame:
    raise NotImplementedError
