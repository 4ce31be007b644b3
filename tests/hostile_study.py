"""A small study in which names, texts and reasons try to act as markup, formulas or code."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import polars as pl

import ragbench as rb

ATTACKS = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(2)</script>",
    "# heading **bold** [link](javascript:alert(3))",
    r"$\href{javascript:alert(4)}{click}$ from $5 to $7 and \(y^2\)",
    "invoice\u202egnp.exe \u2066turned",
    "<b onmouseover=alert(5)>黑体</b>",
)


def hostile_study(path: Path, source: Path) -> Path:
    """`path`, with a part of the study at `source` in which every text holds an attack."""
    con = rb.connect(source)
    some = "query_id IN (SELECT query_id FROM queries ORDER BY query_id LIMIT 4)"
    instances = f"instance_id IN (SELECT instance_id FROM instances WHERE {some})"
    responses = con.sql(
        f"SELECT instance_id, setting, trial, text FROM responses WHERE {instances} "
        "UNION ALL SELECT instance_id, $more, trial, text FROM responses "
        f"WHERE {instances} AND setting = 'given_context'",
        params={"more": ATTACKS[0]},
    ).pl()
    tag, script, prose, formula, turned, button = ATTACKS
    model = f"evil/{tag}{formula}"
    rows = {
        "queries": con.sql(
            "SELECT query_id, benchmark, domain || $prose AS domain, language, "
            f"$turned || text AS text FROM queries WHERE {some}",
            params={"prose": prose, "turned": turned},
        ).pl(),
        "constraints": con.sql(
            "SELECT constraint_id, query_id, dimension, text, rule, params "
            f"FROM constraints WHERE {some} ORDER BY constraint_id"
        )
        .pl()
        .with_columns(_attacked("text", script, formula, button)),
        "instances": con.sql(
            f"SELECT instance_id, query_id, context_mode FROM instances WHERE {instances}"
        ).pl(),
        "instance_constraints": con.sql(f"FROM instance_constraints WHERE {instances}").pl(),
        "models": pl.DataFrame({"model": [model]}),
        "responses": responses.with_columns(_attacked("text", tag, prose), model=pl.lit(model)),
    }
    rb.append(path, rows, step="answer", origin="recorded")
    rb.judge(path, "rules", origin="recorded")
    return path


def _attacked(column: str, *attacks: str) -> pl.Expr:
    """The texts of a column with the attacks put before them in turn."""
    turn = pl.int_range(pl.len()) % len(attacks)
    texts = turn.replace_strict(dict(enumerate(attacks)), return_dtype=pl.String)
    return (texts + pl.col(column)).alias(column)


class Page(HTMLParser):
    """The tags, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data
