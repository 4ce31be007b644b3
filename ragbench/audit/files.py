"""The files of a declaration: CSV tables as text, and what its parts have to be."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from ragbench.errors import ImportFailed


def read_csv(path: Path) -> pl.DataFrame:
    """All cells of a CSV file as text."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        frame = pl.read_csv(text.encode(), infer_schema=False)
    except UnicodeDecodeError:
        raise ImportFailed(f"{path} is not UTF-8; save it in that encoding.") from None
    except (OSError, pl.exceptions.PolarsError) as problem:
        said = " ".join(str(problem).split(". ")[0].split("Consider")[0].split())
        raise ImportFailed(f"{path} cannot be read as CSV: {said}") from None
    header = next(csv.reader(io.StringIO(text, newline="")), [])
    if doubled := [name for name in header if header.count(name) > 1]:
        raise ImportFailed(f"{path} has two columns {doubled[0]!r}; give each a name of its own.")
    return frame.rename(dict(zip(frame.columns, header, strict=False)))  # quotes in names undone


def refuse_misshapen(path: Path, raw: Mapping[str, Any]) -> None:
    """Raise where a part of the declaration is not of the kind that it has to be."""

    def must(is_right: bool, what: str, wanted: str) -> None:
        if not is_right:
            raise ImportFailed(f"{path}: {what} has to be {wanted}; docs/audit.md shows it.")

    tables, checks = raw.get("tables"), raw.get("check", [])
    must(isinstance(tables, dict) and bool(tables), "tables", "one [tables.NAME] for each table")
    for name, about in raw["tables"].items():
        must(isinstance(about, dict), f"tables.{name}", "a part [tables.NAME] of its own")
        must(isinstance(about.get("file"), str), f"file of tables.{name}", "the name of a CSV file")
        for option in ("key", "percent", "exact"):
            columns = listed(about.get(option, []))
            is_right = isinstance(columns, list) and all(isinstance(c, str) for c in columns)
            must(is_right, f"{option} of tables.{name}", "a column, or a list of columns")
        for option in ("percent_if", "exact_if"):
            must(isinstance(about.get(option, {}), dict), option, "columns, each with its values")
        decimals = about.get("decimals", {})
        is_right = isinstance(decimals, dict) and all(isinstance(x, int) for x in decimals.values())
        must(is_right, f"decimals of tables.{name}", "columns, each with a number of decimals")
    must(isinstance(checks, list), "check", "[[check]] in double brackets, one for each check")
    for place, check in enumerate(checks, 1):
        must(isinstance(check, dict), f"check {place}", "[[check]] in double brackets")
        for option in ("kind", "name", "over"):
            must(isinstance(check.get(option, ""), str), f"{option} of check {place}", "a text")
    claims = raw.get("claims", {})
    must(isinstance(claims, dict), "claims", "one part [claims]")
    must(isinstance(claims.get("text", ""), str), "text of claims", "a text with {column} in it")


def listed(given: Any) -> Any:
    """A single text as a list of one."""
    return [given] if isinstance(given, str) else given
