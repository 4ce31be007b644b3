"""The artifacts: what each is called, what it shows, and how it is made from rows.

`rebuild` is the only way an artifact is made; notebooks, commands and tests call it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import polars as pl

from ragbench import __version__, output, paper_figures, paper_judges, paper_tables
from ragbench import paper_pictures as pictures
from ragbench.checks import content_hash
from ragbench.comparisons import independence
from ragbench.errors import RagbenchError, StoreError, UnknownName
from ragbench.metrics import constraint_scores, scores
from ragbench.printed import against_paper, paper_name, published
from ragbench.shipped import shipped
from ragbench.store import connect, refresh, study_path

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = [
    "ARTIFACTS",
    "Artifact",
    "against_paper",
    "paper_name",
    "published",
    "rebuild",
    "rebuild_all",
    "shipped",
]

Con = duckdb.DuckDBPyConnection


class Artifact(NamedTuple):
    """A frame of numbers and the picture of it; tables have none."""

    name: str
    title: str
    frame: pl.DataFrame
    figure: go.Figure | None = None


class Spec(NamedTuple):
    """How an artifact is made: its frame from a study, its picture from the frame."""

    title: str
    make: Callable[..., pl.DataFrame]
    draw: Callable[[pl.DataFrame, str], go.Figure] | None = None
    table: Mapping[str, Sequence[str]] = {}  # columns that tables.save shows, marks, …


def _all_models(con: Con, panel: str | None = None) -> pl.DataFrame:
    by = ("model", "setting")
    frame = scores(con, by, panel=panel, metrics=["loose_ias", "strict_ias"])
    product = independence(con, by=by, panel=panel).drop("panel", "origin", "n", "strict_ias")
    return frame.join(product, on=list(by), how="left", maintain_order="left")


def _by_mode(con: Con, panel: str | None = None) -> pl.DataFrame:
    by = ("model", "setting", "context_mode")
    return scores(con, by, panel=panel, metrics=["strict_ias"])


def _by_dimension(con: Con, panel: str | None = None) -> pl.DataFrame:
    return constraint_scores(con, by=("dimension",), panel=panel)


def _judges_reliability(con: Con, panel: str | None = None) -> pl.DataFrame:
    return paper_judges.reliability(paper_judges.judges(con, panel))


def _reference(name: str) -> Callable[..., pl.DataFrame]:
    return lambda con, panel=None: paper_tables.reference(name)


_T2 = ["faithfulness", "coverage", "loose_ias", "strict_ias"]
_T2 += [f"loose_{category}" for category in paper_tables.CATEGORIES]
_T7 = ["loose_ias", "rejection", "conflict"]
_T8 = ["setting", "metric", "natural", "synthetic", "difference"]
_T8 += ["t", "p_value", "d_z", "low_95", "high_95", "verdict", "verdict_standard_90"]

ARTIFACTS: dict[str, Spec] = {
    "gap": Spec("Do responses that meet each requirement meet all?", _all_models, pictures.gap),
    "strict": Spec(
        "Which responses meet every requirement?", _by_mode, pictures.dots("strict_ias")
    ),
    "dimensions": Spec(
        "Which kinds of requirement are met?", _by_dimension, pictures.dots("adherence")
    ),
    "table1": Spec("Table 1: what benchmarks of RAG cover", _reference("table1")),
    "table2": Spec(
        "Table 2: adherence and use of the evidence, noisy retrieval",
        paper_tables.noisy,
        table={"percent": _T2, "best": _T2},
    ),
    "table3": Spec(
        "Table 3: recognition of factual conflicts",
        paper_tables.recognition,
        table={"best": ["conflict"]},
    ),
    "table4": Spec("Table 4: kinds of constraint", _reference("table4")),
    "table5": Spec("Table 5: queries and constraints per query by domain", paper_tables.domains),
    "table6": Spec(
        "Table 6: instances by context",
        paper_tables.contexts,
        table={"percent": ["ratio", "natural", "augmented"]},
    ),
    "table7": Spec(
        "Table 7: scores by judge, on what all LLM judges saw",
        paper_judges.judges,
        table={"columns": ["model", "panel", *_T7], "percent": _T7},
    ),
    "table7_reliability": Spec(
        "Table 7, lower half: how alike the judges score the models", _judges_reliability
    ),
    "table8": Spec(
        "Table 8: conflicts found against conflicts made",
        paper_tables.natural,
        table={"columns": _T8, "percent": []},
    ),
    "table9": Spec("Table 9: agreement with people", paper_judges.alignment, table={"percent": []}),
    "figure2": Spec(
        "Figure 2: rejection and adherence where the evidence is missing",
        paper_figures.rejection,
        pictures.rejection,
    ),
    "figure3": Spec(
        "Figure 3: recognition of conflicts against coverage",
        paper_figures.recognition_and_coverage,
        pictures.correlation,
    ),
    "figure4": Spec(
        "Figure 4: share of failed constraints by kind",
        paper_figures.errors_by_dimension,
        pictures.errors,
    ),
    "figure5": Spec(
        "Figure 5: reasoning against standard variants, same instances",
        paper_figures.reasoning_gains,
        pictures.gains,
    ),
    "figure6": Spec(
        "Figure 6: with against without an explicit protocol",
        paper_figures.protocol_effects,
        pictures.effects,
    ),
    "figure7": Spec(
        "Figure 7: constraints by kind", paper_figures.constraint_shares, pictures.shares
    ),
    "figure8": Spec(
        "Figure 8: conflicts found minus conflicts made",
        paper_tables.natural,
        pictures.equivalence,
    ),
    "figure9": Spec(
        "Figure 9: scores by domain, noisy retrieval",
        paper_figures.domain_profiles,
        pictures.profiles,
    ),
    "figure9_heatmap": Spec(
        "Figure 9 as a map: Strict IAS by domain, noisy retrieval",
        paper_figures.domain_profiles,
        pictures.cells,
    ),
}
"""Name -> title and how it is made; tables and figures of the paper go by their numbers."""


def rebuild(artifact: str, con: Con, panel: str | None = None, **choices: Any) -> Artifact:
    """The artifact made from the rows of the study that `con` reads.

    `panel` is the study's primary one when left out. Choices: `gold` of table9, `pairs` of figure5,
    `reading` of figure6.

    Raises:
        UnknownName: no such artifact.
        RagbenchError: the study lacks what the artifact is about; the message names it.

    Example:
        >>> rebuild("gap", con).figure  # doctest: +SKIP
        >>> rebuild("figure5", con, pairs=[("my-thinker", "my-talker")])  # doctest: +SKIP
    """
    spec = _spec(artifact)
    refresh(con)
    frame = spec.make(con, panel, **choices)
    return Artifact(
        artifact, spec.title, frame, spec.draw(frame, spec.title) if spec.draw else None
    )


def _spec(artifact: str) -> Spec:
    if artifact not in ARTIFACTS:
        raise UnknownName("artifact", artifact, ARTIFACTS, place="ragbench")
    return ARTIFACTS[artifact]


def rebuild_all(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    names: Sequence[str] = (),
    *,
    formats: Sequence[str] = ("html",),
) -> pl.DataFrame:
    """One row per artifact: columns artifact, origin, rows, cells, status, seconds, path.

    Writes each picture (tables: HTML, LaTeX, Markdown), its numbers and its provenance to `out`.
    `cells` counts the cells by how they stand to the paper. What was made from the same rows by the
    same version in the same formats, and is still what was written, is left alone (status
    *unchanged*). An artifact that the study cannot give has no path and is named with the reason
    (*not made: …*); the others are made. Where a former one was removed, or came from another study
    file, the status says so.

    Raises:
        UnknownName: no such artifact, or no such format.
        StoreError: the study cannot be read.
    """
    for name in names:
        _spec(name)
    for ending in formats:
        if ending not in output.FORMATS:
            raise UnknownName("format", ending, output.FORMATS, place="figures")
    con = connect(path)
    report = Path(out) / "rebuilt.csv"
    rows = {row["artifact"]: row for row in _last(report)}
    chosen = list(dict.fromkeys(names or ARTIFACTS))
    for name in chosen:
        if not _is_current(name, con, Path(out) / name, formats):
            rows.pop(name, None)
    _note(report, rows)  # which says nothing of what is being made, should this call be stopped
    for name in chosen:
        began, stem = time.perf_counter(), Path(out) / name
        if name in rows:
            rows[name] |= {"status": "unchanged", "path": f"{stem}.html"}
        else:
            rows[name] = {"artifact": name, **_made_or_not(name, con, stem, formats)}
        rows[name]["seconds"] = round(time.perf_counter() - began, 2)
    _note(report, rows)
    return pl.DataFrame([rows[name] for name in chosen], schema=_REPORT)


def _note(report: Path, rows: Mapping[str, dict[str, Any]]) -> None:
    frame = pl.DataFrame([rows[name] for name in ARTIFACTS if name in rows], schema=_REPORT)
    output.write(report, output.to_csv(frame))


def _last(report: Path) -> list[dict[str, Any]]:
    """The rows of the last report; none when there is no readable one."""
    try:
        return output.read_csv(report).select(list(_REPORT)).cast(_REPORT).to_dicts()  # type: ignore[arg-type]
    except (OSError, pl.exceptions.PolarsError):
        return []


_TABLE_FORMATS = ("html", "tex", "md")
_REPORT: dict[str, Any] = {
    "artifact": pl.String,
    "origin": pl.String,
    "rows": pl.Int64,
    "cells": pl.String,
    "status": pl.String,
    "seconds": pl.Float64,
    "path": pl.String,
}


def _made_or_not(name: str, con: Con, stem: Path, formats: Sequence[str]) -> dict[str, Any]:
    """Make one artifact in the place of the former one; what the report says about it.

    Of the former one nothing stays that would pass for this one: formats that were made before are
    made again, and what cannot be made is removed, unless somebody changed it.
    """
    former = _former(name, stem)
    kept = [ending for ending in former.get("intact", ()) if ending in output.FORMATS]
    try:
        about = _made(name, con, stem, list(dict.fromkeys([*formats, *kept])))
    except StoreError:
        raise
    except RagbenchError as error:
        about = {"status": f"not made: {error}", "new": ()}
    new = about.pop("new")
    gone = [ending for ending in former.get("intact", ()) if ending not in new]
    for ending in gone:
        with contextlib.suppress(OSError):
            Path(f"{stem}.{ending}").unlink(missing_ok=True)
    if former.get("study_file") not in (None, output.file_mark(study_path(con))):
        about["status"] += "; what stood here came from another study file"
    elif gone:
        about["status"] += f"; the former {', '.join(gone)} was removed"
    return about


def _former(name: str, stem: Path) -> dict[str, Any]:
    """The provenance of what `rebuild_all` last made of this artifact at `stem`."""
    about = output.written(stem)
    return about if about.get("call") == _call(name) else {}


def _call(name: str) -> str:
    return f"ragbench rebuild {name}"


def _made(name: str, con: Con, stem: Path, formats: Sequence[str]) -> dict[str, Any]:
    """Make and save one artifact; what the report says about it, and *new*: what was written."""
    from ragbench import tables

    made = rebuild(name, con)
    about: dict[str, Any] = {"frame": made.frame, "con": con, "call": _call(name)}
    if made.figure is not None:
        files = output.save(made.figure, stem, formats=formats, **about)
    else:
        frame = about.pop("frame")
        choices: dict[str, Any] = {
            choice: [column for column in columns if column in frame.columns]
            for choice, columns in ARTIFACTS[name].table.items()
        }
        about |= {"title": made.title, "label": f"tab:{name}", "formats": _TABLE_FORMATS}
        files = tables.save(frame, stem, **about, **choices)
    notes = [note for note in files["note"] if note]
    cells = against_paper(name, made.frame)["status"].value_counts(sort=True).rows()
    return {
        "rows": made.frame.height,
        "origin": "; ".join(made.frame["origin"].drop_nulls().unique().sort()),
        "cells": ", ".join(f"{count} {status}" for status, count in sorted(cells)) or None,
        "status": notes[0] if notes else "made",
        "path": f"{stem}.html",
        "new": files.filter(note="")["format"].to_list(),
    }


def _is_current(name: str, con: Con, stem: Path, formats: Sequence[str]) -> bool:
    """Whether what stands at `stem` is what these rows and this version gave, in all formats."""
    former = _former(name, stem)
    wanted = {"html", "csv", "json", *(formats if ARTIFACTS[name].draw else _TABLE_FORMATS)}
    return (
        former.get("study_hash") == content_hash(con)
        and former.get("ragbench") == __version__
        and wanted <= set(former["intact"]) == set(former["sha256"])
    )
