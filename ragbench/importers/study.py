"""What the study holds already, as far as an import touches it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ragbench import relations, taxonomy
from ragbench.importers.report import Report
from ragbench.store import connect


class Study:
    """Reads a study that may not exist yet."""

    def __init__(self, path: Path) -> None:
        self.con = connect(path) if path.exists() or Path(f"{path}.journal").exists() else None

    def close(self) -> None:
        """Let the file go."""
        if self.con is not None:
            self.con.close()

    def rows(self, relation: str, keys: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
        """The rows of `relation` whose key columns are among `keys`, with `columns`, as text."""
        names = [*keys.columns, *columns]
        schema = {name: relations.schema(relation)[name] for name in names}
        keys = keys.drop_nulls().unique()
        if self.con is None or keys.is_empty():
            return pl.DataFrame(schema=schema)
        types = relations.columns(relation)
        listed = ", ".join(
            f'"{name}"::VARCHAR AS "{name}"'
            if types[name].type in ("ENUM", "JSON")
            else f'"{name}"'
            for name in names
        )
        using = ", ".join(f'"{name}"' for name in keys.columns)
        self.con.register("_import_keys", keys.to_arrow())
        try:
            rows = self.con.sql(
                f"SELECT {listed} FROM {relation} SEMI JOIN _import_keys USING ({using})"
            ).pl()
        finally:
            self.con.unregister("_import_keys")
        return rows.cast(schema)

    def criteria(self) -> dict[str, tuple[str, float, float]]:
        """Target, lowest and highest score of each criterion, by name."""
        known = {c.key: (c.target, float(c.lowest), float(c.highest)) for c in taxonomy.CRITERIA}
        if self.con is not None:
            rows = self.con.sql("SELECT criterion, target, lowest, highest FROM criteria")
            known |= {name: (target, low, high) for name, target, low, high in rows.fetchall()}
        return known

    def report_differences(self, frames: dict[str, pl.DataFrame], report: Report) -> None:
        """Say where `frames` (with `line`) and the study disagree; the study keeps what it has."""
        for relation, frame in frames.items():
            if relation == "evidence":  # goes with its judgment
                continue
            keys = list(relations.KEYS[relation])
            names = [name for name in frame.columns if name not in (*keys, "line")]
            stored = self.rows(relation, frame.select(keys), names)
            if stored.is_empty():
                continue
            both = frame.join(stored, on=keys, how="inner", suffix="_stored", nulls_equal=True)
            for name in names:
                self._report_column(relation, both, name, keys, report)

    @staticmethod
    def _report_column(
        relation: str, both: pl.DataFrame, name: str, keys: list[str], report: Report
    ) -> None:
        if name in ("error", "is_triggered") and relation == "judgments":
            return
        old = f"{name}_stored"
        lacking = both.filter(pl.col(name).is_not_null() & pl.col(old).is_null()).height
        if lacking and name not in ("score", "error"):
            report.note(
                f"{relation}: {lacking} rows in the study lack {name}, which this file has; they "
                "stay as they are",
                "Import into a new study, the file that says more first.",
            )
        differ = both.filter(pl.col(name).is_not_null() & pl.col(old).is_not_null())
        differ = differ.filter(pl.col(name) != pl.col(old))
        if differ.is_empty():
            return
        key = pl.concat_str([pl.col(part).cast(pl.String) for part in keys], separator=" ")
        stored = pl.col(old).cast(pl.String).str.slice(0, 80)
        report.lines(
            differ.select(
                "line",
                problem=pl.format(f"the study has {name} {{}} for {{}}; it stays", stored, key),
                value=pl.col(name).cast(pl.String),
            ),
            what="refused" if name == "score" else "ignored",
            relation=relation,
            remedy=_REMEDY,
        )


_REMEDY = (
    "Rows that are there are never changed. If this is another answer or another judging, give it "
    "a trial, repeat, setting or judge of its own; else import into a new study."
)


def drop_lines(frames: dict[str, Any]) -> dict[str, pl.DataFrame]:
    """`frames` as relations take them."""
    return {name: frame.drop("line") for name, frame in frames.items() if not frame.is_empty()}
