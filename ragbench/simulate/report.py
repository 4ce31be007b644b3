"""What the rows of a simulated study give for every number the paper prints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import polars as pl

from ragbench.comparisons import paired
from ragbench.metrics import constraint_scores, scores
from ragbench.simulate.judges import kappa
from ragbench.simulate.targets import (
    EXPERTS,
    GOLD,
    INSTRUCT,
    JUDGE,
    MODELS,
    OTHER_JUDGES,
    R1,
    RULES,
    SUBSET,
    THINKING,
    V31,
    per_mille,
    table,
)

Cell = dict[str, Any]
SCHEMA = {
    "artifact": pl.String,
    "cell": pl.String,
    "published": pl.Float64,
    "rebuilt": pl.Float64,
    "decimals": pl.Int64,
    "n": pl.Int64,
    "status": pl.String,
    "note": pl.String,
}
KEYS = [model.key for model in MODELS]
NOTES = {
    ("Table 5", "Medical all"): "its parts add up to 9.64, and the row All fits the parts",
    ("Table 5", "All output"): "the domains' averages allow no other total",
    ("Figure 7", "output share"): "follows from Table 5's counts, which allow no other total",
    ("Figure 6", "rejection without"): "157 + 69 = 226, but Table 6 has 227 gap instances",
    ("Figure 6", "conflict without"): "113 + 193 = 306, but Table 6 has 309 conflict instances",
    ("Table 9", "Proper Rejection agreement"): "87 % of 50 is no whole number",
    ("Table 9", "Conflict Recognition agreement"): "no kappa lies above the agreement; 45.5 of 50",
    ("Table 9", "Conflict Recognition judge kappa"): "with the experts' 0.96, 0.92 is the nearest",
    ("Table 9", "Overall average agreement"): "the mean of the three above",
}
"""Why a printed number cannot come out of whole numbers together with the others."""


def report(con: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    """One row per printed number: published and rebuilt from the rows, with n and status.

    Percentages are in percent, as printed. *by construction*: the same to the printed precision;
    *not attainable*: the nearest that whole numbers allow, with the reason.
    """
    cells: list[Cell] = []
    for part in (_table2, _table3, _table5, _table6, _table7, _table8, _table9, _figures):
        cells += part(con)
    for cell in cells:
        half = 0.5 * 10.0 ** -cell["decimals"]
        is_met = cell["rebuilt"] is not None and (
            abs(cell["rebuilt"] - cell["published"]) <= half * (1 + 1e-9)
        )
        cell["status"] = "by construction" if is_met else "not attainable"
        cell["note"] = None if is_met else NOTES.get((cell["artifact"], cell["cell"]))
    return pl.DataFrame(cells, schema=SCHEMA)


def _cell(
    artifact: str, cell: str, published: float, rebuilt: float | None, decimals: int, n: int | None
) -> Cell:
    return {
        "artifact": artifact,
        "cell": cell,
        "published": float(published),
        "rebuilt": rebuilt,
        "decimals": decimals,
        "n": n,
    }


def _by_model(frame: pl.DataFrame) -> dict[str, dict[str, Any]]:
    return {row["model"]: row for row in frame.iter_rows(named=True)}


_TABLE2 = {
    "faithfulness": "faithfulness",
    "answer_coverage": "coverage",
    "loose_ias": "loose_ias",
    "strict_ias": "strict_ias",
}


def _table2(con: duckdb.DuckDBPyConnection) -> Iterator[Cell]:
    noise = {"context_mode": "noise"}
    found = _by_model(scores(con, where=noise, metrics=list(_TABLE2.values())))
    pooled = {
        (row["model"], row["category"]): row
        for row in constraint_scores(con, where=noise).iter_rows(named=True)
    }
    for model in MODELS:
        row = table("table2").row(by_predicate=pl.col("model") == model.published, named=True)
        for column, metric in _TABLE2.items():
            made = found[model.key]
            yield _cell(
                "Table 2",
                f"{model.key} {column}",
                row[column],
                100 * made[metric],
                1,
                made[f"{metric}_n"],
            )
        for category in ("persona", "output", "protocol"):
            made, column = pooled[model.key, category], f"loose_{category}"
            yield _cell(
                "Table 2",
                f"{model.key} {column}",
                row[column],
                100 * made["adherence"],
                1,
                made["adherence_n"],
            )


def _table3(con: duckdb.DuckDBPyConnection) -> Iterator[Cell]:
    found = _by_model(scores(con, where={"context_mode": "conflict"}, metrics=["conflict"]))
    printed = per_mille("conflict_recognition_pct", "table3")
    for key, tenths in zip(KEYS, printed, strict=True):
        row = found[key]
        yield _cell("Table 3", key, tenths / 10, 100 * row["conflict"], 1, row["conflict_n"])


def _table5(con: duckdb.DuckDBPyConnection) -> Iterator[Cell]:
    rows = con.sql(
        "SELECT coalesce(q.domain, 'All') AS domain, count(DISTINCT q.query_id) AS n_queries, "
        "count(*) / count(DISTINCT q.query_id) AS constraints_avg, "
        "count(*) FILTER (d.category = 'persona') / count(DISTINCT q.query_id) AS persona_avg, "
        "count(*) FILTER (d.category = 'output') / count(DISTINCT q.query_id) AS output_avg, "
        "count(*) FILTER (d.category = 'protocol') / count(DISTINCT q.query_id) AS protocol_avg "
        "FROM queries AS q JOIN constraints USING (query_id) JOIN dimensions AS d "
        "USING (dimension) GROUP BY ROLLUP (q.domain)"
    ).pl()
    found = {row["domain"]: row for row in rows.iter_rows(named=True)}
    for line in table("table5").iter_rows(named=True):
        made = found[line["domain"]]
        n = made["n_queries"]
        yield _cell("Table 5", f"{line['domain']} queries", line["n_queries"], n, 0, n)
        for column in ("constraints_avg", "persona_avg", "output_avg", "protocol_avg"):
            name = column.removesuffix("_avg").replace("constraints", "all")
            yield _cell("Table 5", f"{line['domain']} {name}", line[column], made[column], 2, n)


def _table6(con: duckdb.DuckDBPyConnection) -> Iterator[Cell]:
    found = dict(
        con.sql(
            "SELECT context_mode::VARCHAR, (count(*), count(*) FILTER (NOT is_augmented)) "
            "FROM instances GROUP BY ALL"
        ).fetchall()
    )
    total = sum(count for count, _ in found.values())
    for mode, line in zip(
        ("noise", "gap", "conflict"), table("table6").iter_rows(named=True), strict=True
    ):
        count, natural = found[mode]
        yield _cell("Table 6", f"{mode} count", line["count"], count, 0, total)
        yield _cell("Table 6", f"{mode} ratio", line["ratio_pct"], 100 * count / total, 1, total)
        yield _cell("Table 6", f"{mode} natural", line["natural_count"], natural, 0, count)


_TABLE7 = {
    "loose_ias": ("loose_ias", "noise"),
    "rejection_accuracy": ("rejection", "gap"),
    "conflict_accuracy": ("conflict", "conflict"),
}


def _table7(con: duckdb.DuckDBPyConnection) -> Iterator[Cell]:
    for metric, (ours, mode) in _TABLE7.items():
        where = {"variant": SUBSET, "context_mode": mode}
        found = {
            (row["panel"], row["model"]): row
            for row in scores(con, ("panel", "model"), where, metrics=[ours]).iter_rows(named=True)
        }
        for model in MODELS:
            lines = table("table7").filter(metric=metric, model=model.judged_as or "")
            judges = (JUDGE, *OTHER_JUDGES)
            for judge, printed in zip(judges, lines["score_pct"], strict=False):
                row = found[f"{judge} + {RULES}", model.key]
                cell = f"{model.key} {metric} by {judge}"
                yield _cell("Table 7", cell, printed, 100 * row[ours], 1, row[f"{ours}_n"])


_TABLE8 = {
    "Conflict Recognition": "conflict",
    "Strict IAS": "strict_ias",
    "Loose IAS": "loose_ias",
    "Answer Coverage": "coverage",
    "Faithfulness": "faithfulness",
}


def _table8(con: duckdb.DuckDBPyConnection) -> Iterator[Cell]:
    sides = []
    for is_augmented in (False, True):
        where = {"context_mode": "conflict", "is_augmented": is_augmented}
        sides.append(_by_model(scores(con, where=where, metrics=list(_TABLE8.values()))))
    n = len(KEYS)
    for line in table("table8").iter_rows(named=True):
        metric = _TABLE8[line["metric"]]
        pairs = [(sides[0][key][metric], sides[1][key][metric]) for key in KEYS]
        natural, synthetic = (sum(pair[i] for pair in pairs) / n for i in (0, 1))
        for name, value in (("natural", natural), ("synthetic", synthetic)):
            yield _cell("Table 8", f"{line['metric']} {name}", line[name], value, 3, n)
        printed = line["diff_as_printed"]
        yield _cell("Table 8", f"{line['metric']} diff", printed, synthetic - natural, 3, n)
        if not line["p_value"].startswith("<"):
            p = _paired_p([a - b for a, b in pairs])
            yield _cell("Table 8", f"{line['metric']} p", float(line["p_value"]), p, 3, n)


def _paired_p(gaps: Sequence[float]) -> float:
    from ragbench.intervals import t_p_value

    n, mean = len(gaps), sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / (n - 1))
    return t_p_value(mean / spread * math.sqrt(n), n - 1)


_TABLE9 = {
    "Strict IAS": ("strict_ias", "noise"),
    "Proper Rejection": ("rejection", "gap"),
    "Conflict Recognition": ("conflict", "conflict"),
}


def _table9(con: duckdb.DuckDBPyConnection) -> Iterator[Cell]:
    sums = {"experts kappa": 0.0, "judge kappa": 0.0, "agreement": 0.0}
    for line in table("table9").iter_rows(named=True):
        name = line["dimension"]
        printed = [line[c] for c in ("human_iaa_kappa", "judge_cohen_kappa", "judge_agreement_pct")]
        if name in _TABLE9:
            votes = _votes(con, *_TABLE9[name])
            n = votes.height
            made = dict.fromkeys(sums, 0.0)
            for key, (a, b) in (("experts kappa", EXPERTS), ("judge kappa", (GOLD, JUDGE))):
                both = votes.select(pl.col(a) * pl.col(b)).to_series().sum()
                made[key] = kappa(int(both), int(votes[a].sum()), int(votes[b].sum()), n)
            made["agreement"] = 100 * int((votes[GOLD] == votes[JUDGE]).sum()) / n
            sums = {key: sums[key] + value / len(_TABLE9) for key, value in made.items()}
        else:
            made, n = sums, 150
        for (key, value), number, decimals in zip(made.items(), printed, (2, 2, 0), strict=True):
            yield _cell("Table 9", f"{name} {key}", number, value, decimals, n)


def _votes(con: duckdb.DuckDBPyConnection, metric: str, mode: str) -> pl.DataFrame:
    """One row per response that people judged, one column per judge: 0 or 1."""
    panels = {f"{judge} + {RULES}": judge for judge in (*EXPERTS, GOLD, JUDGE)}
    listed = ", ".join(f"'{panel}'" for panel in panels)
    source = f"(SELECT *, value AS {metric} FROM criterion_summary WHERE metric = '{metric}')"
    if metric == "strict_ias":
        source = "response_scores"
    rows = con.sql(
        f"SELECT panel, response_id, {metric} AS value FROM {source} "
        f"WHERE panel IN ({listed}) AND context_mode = '{mode}'"
    ).pl()
    rows = rows.drop_nulls("value").with_columns(pl.col("panel").replace(panels))
    return rows.pivot("panel", index="response_id", values="value").drop_nulls()


def _figures(con: duckdb.DuckDBPyConnection) -> Iterator[Cell]:
    stated = {row["claim_id"]: str(row["value"]) for row in table("claims").iter_rows(named=True)}
    gap = _by_model(scores(con, where={"context_mode": "gap"}, metrics=["rejection"]))
    for claim, name in (("C034", "Qwen3-30B-A3B-Instruct-2507"), ("C036", "Claude-Opus-4.5")):
        row = gap[f"sim/{name.lower()}"]
        cell = f"{row['model']} rejection"
        value = 100 * row["rejection"]
        yield _cell("Figure 2", cell, float(stated[claim]), value, 1, row["rejection_n"])
    for claim, metric, sides, mode in (
        ("C044", "rejection", (THINKING, INSTRUCT), "gap"),
        ("C045", "conflict", (R1, V31), "conflict"),
    ):
        made = _gain(con, metric, sides, mode)
        cell = f"{metric} gain of {KEYS[sides[0]]}"
        yield _cell("Figure 5", cell, float(stated[claim]), *made)
    gains = [
        _gain(con, "strict_ias", (THINKING, INSTRUCT), m) for m in ("noise", "conflict", "gap")
    ]
    least, most = stated["C046"].split(" to ")
    cell = f"strict_ias gain of {KEYS[THINKING]}"
    yield _cell("Figure 5", f"least {cell}", float(least), *min(gains))
    yield _cell("Figure 5", f"most {cell}", float(most), *max(gains))
    yield from _correlations(con, stated)
    yield from _counts(con, stated)


def _gain(
    con: duckdb.DuckDBPyConnection, metric: str, sides: tuple[int, int], mode: str
) -> tuple[float, int, int]:
    a, b = ({"model": KEYS[side]} for side in sides)
    row = paired(con, metric, a, b, where={"context_mode": mode}).row(0, named=True)
    return 100 * row["difference"], 1, row["n"]


def _correlations(con: duckdb.DuckDBPyConnection, stated: dict[str, str]) -> Iterator[Cell]:
    where = {"context_mode": "conflict"}
    found = _by_model(scores(con, where=where, metrics=["conflict", "coverage"]))
    for claim, paradigm in (("C025", "reasoning"), ("C026", "standard")):
        rows = [found[model.key] for model in MODELS if model.paradigm == paradigm]
        ranks = [
            pl.Series([row[metric] for row in rows]).rank() for metric in ("conflict", "coverage")
        ]
        n = len(rows)
        rho = 1 - 6 * float(((ranks[0] - ranks[1]) ** 2).sum()) / (n * (n * n - 1))
        yield _cell("Figure 3", f"Spearman {paradigm}", float(stated[claim]), rho, 2, n)


def _counts(con: duckdb.DuckDBPyConnection, stated: dict[str, str]) -> Iterator[Cell]:
    for claim, mode, name, dimension in (
        ("C030", "gap", "rejection", "knowledge_gap"),
        ("C031", "conflict", "conflict", "conflict_handling"),
    ):
        has, total = con.execute(
            "SELECT count(*) FILTER (has), count(*) FROM (SELECT bool_or(c.dimension = ?) AS has "
            "FROM instances AS i JOIN instance_constraints USING (instance_id) "
            "JOIN constraints AS c USING (constraint_id) WHERE context_mode = ? "
            "GROUP BY instance_id)",
            [dimension, mode],
        ).fetchall()[0]
        explicit, implicit = stated[claim].split("/")
        yield _cell("Figure 6", f"{name} with", float(explicit), has, 0, total)
        yield _cell("Figure 6", f"{name} without", float(implicit), total - has, 0, total)
    for claim, category in (("C056", "output"), ("C057", "protocol")):
        count, total = con.execute(
            "SELECT count(*) FILTER (category = ?), count(*) FROM constraints "
            "JOIN dimensions USING (dimension)",
            [category],
        ).fetchall()[0]
        share = 100 * count / total
        yield _cell("Figure 7", f"{category} share", float(stated[claim]), share, 1, total)
