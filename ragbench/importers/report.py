"""What an import says of itself.

One row (`what` = rows) per relation, then one per thing that was assumed (note), then one per line
of the file that did not come in as it stands: `error` was stored as a verdict without a score,
`ignored` was stored but for one value, `refused` was left out. `line` is where the record starts.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import polars as pl

SCHEMA: dict[str, Any] = {
    "what": pl.String,
    "line": pl.Int64,
    "relation": pl.String,
    "rows": pl.Int64,
    "added": pl.Int64,
    "replaced": pl.Int64,
    "present": pl.Int64,
    "note": pl.String,
    "problem": pl.String,
    "remedy": pl.String,
    "value": pl.String,
}
_SHOWN = 200


class Report:
    """Collects the rows of the report while an import is read; `frame` gives them out."""

    def __init__(self) -> None:
        self._notes: list[dict[str, Any]] = []
        self._lines: list[pl.DataFrame] = []
        self._refused: list[dict[str, Any]] = []

    def note(self, message: str, remedy: str | None = None, value: object = None) -> None:
        """Say something about the file as a whole."""
        row = {"what": "note", "note": message, "remedy": remedy, "value": _short(value)}
        if row not in self._notes:
            self._notes.append(row)

    def own(self, what: str, names: Iterable[str], known: Iterable[str]) -> None:
        """Say which names are new, and apart those that look like a slip."""
        known = list(known)
        new = {name: near(name, known) for name in names}
        for name, hint in new.items():
            if hint:
                self.note(f"{name!r} is new among the {what}{hint}", "Mend the name, or leave it.")
        plain = [name for name, hint in new.items() if not hint]
        if plain:
            listed = ", ".join(plain[:20]) + (", …" if len(plain) > 20 else "")
            self.note(f"{what} of your own: {listed}")

    def refuse(
        self,
        line: int,
        message: str,
        remedy: str,
        value: object = None,
        relation: str | None = None,
    ) -> None:
        """Say that the record on `line` was left out, and why."""
        row = {"what": "refused", "line": line, "relation": relation, "problem": message}
        self._refused.append({**row, "remedy": remedy, "value": _short(value)})

    def lines(self, frame: pl.DataFrame, **constant: str) -> None:
        """Add rows that have at least `line`, with the columns in `constant` set alike for all."""
        if frame.is_empty():
            return
        frame = frame.with_columns(pl.lit(text).alias(name) for name, text in constant.items())
        if "value" in frame.columns:
            frame = frame.with_columns(pl.col("value").cast(pl.String).str.slice(0, _SHOWN))
        self._lines.append(
            frame.select(
                pl.col(name).cast(kind) if name in frame.columns else pl.lit(None, kind).alias(name)
                for name, kind in SCHEMA.items()
            )
        )

    def frame(self, summary: Iterable[dict[str, Any]]) -> pl.DataFrame:
        """The whole report; `summary` has one row per relation."""
        head = pl.DataFrame([{"what": "rows", **row} for row in summary], schema=SCHEMA)
        notes = pl.DataFrame(self._notes, schema=SCHEMA)
        refused = pl.DataFrame(self._refused, schema=SCHEMA)
        lines = pl.concat([refused, *self._lines]).sort("line", maintain_order=True)
        return pl.concat([head, notes, lines])


def near(value: str, allowed: Iterable[str]) -> str:
    """` (did you mean 'x'?)` when one of `allowed` is close to `value`, else nothing."""
    found = difflib.get_close_matches(value.casefold(), {text.casefold() for text in allowed}, n=1)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _short(value: object) -> str | None:
    if value is None:
        return None
    text = value[: _SHOWN + 1] if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
