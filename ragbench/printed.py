"""What the paper printed, and how rebuilt numbers stand to it, cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from ragbench.errors import StoreError, UnknownName

Cell = dict[str, Any]


def published(name: str, *, as_text: bool = False) -> pl.DataFrame:
    """The numbers that a paper printed, as they stand in `data/paper/` (percent unless said there).

    A name is a file's (`table2_noisy`) or its number alone (`table2`); `table7` are the scores of
    the judges, `table7_reliability` what was computed from them. README.md there explains each.
    `as_text` keeps every cell as it is printed.

    Raises:
        UnknownName: no such table.
        StoreError: the project's data is not there (ragbench was installed without its checkout).

    Example:
        >>> published("table6")["count"].to_list()
        [447, 227, 309]
    """
    folder = Path(__file__).resolve().parent.parent / "data" / "paper"
    files = {file.stem: file for file in sorted(folder.glob("*.csv"))}
    if not files:
        raise StoreError(
            f"the published numbers are not at {folder}; they come with a checkout of the project."
        )
    for stem in list(files):
        short = stem.partition("_")[0]
        if short.startswith("table"):
            files.setdefault(short, files[stem])
    if name not in files:
        raise UnknownName("published table", name, files, place="data/paper")
    return pl.read_csv(files[name], infer_schema=not as_text, infer_schema_length=None)


def paper_name(model: str) -> str:
    """The name under which the paper prints a model or judge; the given one when it has none.

    >>> paper_name("sim/gpt-4.1"), paper_name("sim/Qwen3-235B-T"), paper_name("local/mine")
    ('GPT-4.1', 'Qwen3-235B-A22B-Thinking-2507', 'local/mine')
    """
    plain = model.partition(" + ")[0].removeprefix("sim/")
    return _names().get(plain.casefold(), model)


@cache
def _names() -> dict[str, str]:
    try:
        lines, judged = published("table3"), published("table7")
    except StoreError:
        return {}
    names = {judge.casefold(): judge for judge in judged["judge"]}
    for model, label in zip(lines["model"], lines["label_in_paper"], strict=True):
        names |= {label.casefold(): model, model.casefold(): model}
    return names | {"qwen3-235b-thinking": "Qwen3-235B-A22B-Thinking-2507"}


# ---------------------------------------------------------------- tables, as data


class Printed(NamedTuple):
    """Where a table's cells stand: the column that names rows, ours -> (theirs, factor)."""

    file: str
    key: str
    ours: str
    columns: dict[str, tuple[str, int]]
    rows: dict[str, str] | None = None  # our value -> theirs; models go by paper_name


_CATEGORIES = ("persona", "output", "protocol")
_SHARES = ("faithfulness", "loose_ias", "strict_ias", *(f"loose_{name}" for name in _CATEGORIES))
_METRICS = {
    "conflict": "Conflict Recognition",
    "strict_ias": "Strict IAS",
    "loose_ias": "Loose IAS",
    "coverage": "Answer Coverage",
    "faithfulness": "Faithfulness",
}
TABLES = {
    "table2": Printed(
        "table2",
        "model",
        "model",
        {name: (name, 100) for name in _SHARES} | {"coverage": ("answer_coverage", 100)},
    ),
    "table3": Printed("table3", "model", "model", {"conflict": ("conflict_recognition_pct", 100)}),
    "table5": Printed(
        "table5",
        "domain",
        "domain",
        {
            name: (name, 1)
            for name in (
                "n_queries",
                "constraints_avg",
                *(f"{category}_avg" for category in _CATEGORIES),
            )
        },
    ),
    "table6": Printed(
        "table6",
        "context",
        "context_mode",
        {
            "count": ("count", 1),
            "ratio": ("ratio_pct", 100),
            "natural_count": ("natural_count", 1),
            "natural": ("natural_pct", 100),
            "augmented_count": ("augmented_count", 1),
            "augmented": ("augmented_pct", 100),
        },
        {"noise": "Noisy", "gap": "Knowledge Gaps", "conflict": "Factual Conflicts"},
    ),
    "table7_reliability": Printed(
        "table7_reliability",
        "metric",
        "metric",
        {
            "icc_2k": ("icc_2k", 1),
            "icc_low": ("icc_ci_low", 1),
            "icc_high": ("icc_ci_high", 1),
            "mean_rho": ("avg_spearman_rho", 1),
        },
        {"rejection": "rejection_accuracy", "conflict": "conflict_accuracy"},
    ),
    "table8": Printed(
        "table8",
        "metric",
        "metric",
        {
            "natural": ("natural", 1),
            "synthetic": ("synthetic", 1),
            "synthetic_minus_natural": ("diff_as_printed", 1),
            "p_value": ("p_value", 1),
        },
        _METRICS,
    ),
    "table9": Printed(
        "table9",
        "dimension",
        "metric",
        {
            "human_kappa": ("human_iaa_kappa", 1),
            "judge_kappa": ("judge_cohen_kappa", 1),
            "judge_agreement": ("judge_agreement_pct", 100),
        },
        _METRICS | {"rejection": "Proper Rejection", "all": "Overall average"},
    ),
}
"""Tables whose cells are rebuilt from rows."""

REFERENCE = {"table1": "benchmark", "table4": "sub_dimension"}
"""Tables that no rows give, and the column that names their rows."""


# ---------------------------------------------------------------- the comparison

SCHEMA = {
    "artifact": pl.String,
    "row": pl.String,
    "column": pl.String,
    "rebuilt": pl.Float64,
    "published": pl.Float64,
    "difference": pl.Float64,
    "printed": pl.String,
    "n": pl.Int64,
    "status": pl.String,
}


def against_paper(artifact: str, frame: pl.DataFrame) -> pl.DataFrame:
    """One row per cell: what `frame` (of `rebuild`) gives beside what the paper printed.

    Columns: artifact, row, column; rebuilt, published, difference (rebuilt - published), in the
    unit that is printed; printed (as text); n; status. *agrees*: the same to the printed precision.
    *by construction*: the same, from simulated rows that were made to give it. *differs*. *not
    published*: the paper has no such cell. *cannot be rebuilt from rows*: the frame has none.
    Models go by the names of the paper (`paper_name`). Artifacts not of the paper have no cells.

    Raises:
        StoreError: the project's data is not there (ragbench was installed without its checkout).

    Example:
        >>> against_paper("table6", paper.rebuild("table6", con).frame)  # doctest: +SKIP
    """
    from ragbench.paper_cells import FIGURES

    printed: Iterable[Cell] = ()
    made: Iterable[Cell] = ()
    if artifact in TABLES:
        printed, made = _printed(TABLES[artifact]), _made(TABLES[artifact], frame)
    elif artifact in REFERENCE:
        printed = _reference(artifact)
    elif artifact == "table7":
        printed, made = _judges(), _by_judge(frame)
    elif artifact in FIGURES:
        claims, cells = FIGURES[artifact]
        printed, made = claims(), cells(frame) if frame.height else ()
    theirs = {(found["row"], found["column"]): found["printed"] for found in printed}
    ours = {(found["row"], found["column"]): found for found in made}
    rows = [
        {"artifact": artifact, "row": key[0], "column": key[1]}
        | compared(ours.get(key, {}), theirs.get(key))
        for key in [*ours, *(key for key in theirs if key not in ours)]
        if key in theirs or ours[key]["value"] is not None
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def compared(ours: Cell, printed: str | None) -> Cell:
    """Numbers and status of one cell, from what was made and what was printed (None: nothing).

    >>> made = {"value": 26.83, "n": 447, "origin": "measured"}
    >>> compared(made, "26.8")["status"], compared(made, "26.9")["status"]
    ('agrees', 'differs')
    """
    value = ours.get("value")
    cell: Cell = {"rebuilt": value, "printed": printed, "n": ours.get("n")}
    bound = (printed or "").startswith("<")
    number = _number((printed or "").removeprefix("<"))
    cell["published"] = number
    if printed is None:
        return cell | {"status": "not published"}
    if value is None or number is None:
        return cell | {"status": "cannot be rebuilt from rows"}
    if bound:
        same = value < number
    else:
        # Last bits depend on the order in which threads end; +0.0 makes one zero of two.
        cell["difference"] = round(value - number, 9) + 0.0
        decimals = len(printed.partition(".")[2])
        same = abs(value - number) <= 0.5 * 10.0**-decimals * (1 + 1e-9)
    if not same:
        return cell | {"status": "differs"}
    made_up = "simulated" in (ours.get("origin") or "")
    return cell | {"status": "by construction" if made_up else "agrees"}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _printed(table: Printed) -> Iterator[Cell]:
    for line in published(table.file, as_text=True).iter_rows(named=True):
        for column, (theirs, _) in table.columns.items():
            if line[theirs] is not None:
                yield {"row": line[table.key], "column": column, "printed": line[theirs]}


def _made(table: Printed, frame: pl.DataFrame) -> Iterator[Cell]:
    for line in frame.iter_rows(named=True):
        value = line[table.ours]
        row = paper_name(value) if table.ours == "model" else (table.rows or {}).get(value, value)
        if line.get("setting"):
            row = row if frame["setting"].n_unique() == 1 else f"{row} · {line['setting']}"
        for column, (_, factor) in table.columns.items():
            yield cell(row, column, line, factor)


def cell(row: str, column: str, line: Cell, factor: int = 1) -> Cell:
    """One made cell of a line of a frame, with its n and origin."""
    value = line.get(column)
    n = next((line[k] for k in (f"{column}_n", "n", "n_queries") if line.get(k) is not None), None)
    made = {"row": row, "column": column, "n": n, "origin": line.get("origin")}
    return made | {"value": None if value is None else factor * float(value)}


def _reference(name: str) -> Iterator[Cell]:
    for line in published(name, as_text=True).iter_rows(named=True):
        for column, text in line.items():
            if column != REFERENCE[name]:
                yield {"row": line[REFERENCE[name]], "column": column, "printed": text}


_JUDGED = {"loose_ias": "loose_ias", "rejection_accuracy": "rejection"} | {
    "conflict_accuracy": "conflict"
}


def _judges() -> Iterator[Cell]:
    for line in published("table7", as_text=True).iter_rows(named=True):
        row = f"{paper_name(line['model'])} · {paper_name(line['judge'])}"
        yield {"row": row, "column": _JUDGED[line["metric"]], "printed": line["score_pct"]}


def _by_judge(frame: pl.DataFrame) -> Iterator[Cell]:
    for line in frame.iter_rows(named=True):
        row = f"{paper_name(line['model'])} · {paper_name(line['panel'])}"
        for column in _JUDGED.values():
            if column in frame.columns:
                yield cell(row, column, line, 100)
