"""What the calls that are still to be made will take: tokens and US dollars."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

TOKENS_PER_BYTE = 0.25
"""Of a prompt in UTF-8, where the model has not answered yet: English has about four characters to
a token, and a Chinese character, three bytes long, is a little less than one."""

OUTPUT_TOKENS = 500
"""Of a response, where no model of the study has answered yet."""


def answers(cursor: duckdb.DuckDBPyConnection, todo: pl.DataFrame) -> pl.DataFrame:
    """What answering `todo` (instance_id, model) takes, one row per model.

    Columns: model, input_tokens, output_tokens, cost (US dollars; null where no price is known).
    Estimated by the model's own responses so far; where it has none, by the length of what will be
    shown, the mean output of the other models (else 500 tokens), and the list of prices that
    litellm carries.
    """
    cursor.register("_todo", todo.select("instance_id", "model").to_arrow())
    try:
        rows = cursor.execute(_SQL, {"ratio": TOKENS_PER_BYTE, "output": OUTPUT_TOKENS}).fetchall()
    finally:
        cursor.unregister("_todo")
    found = []
    for model, tokens_in, tokens_out, cost in rows:
        if cost is None and (price := listed_prices(model)):
            cost = (tokens_in * price["input"] + tokens_out * price["output"]) / 1e6
        found.append((model, tokens_in, tokens_out, cost))
    types: dict[str, Any] = {
        "model": pl.String,
        "input_tokens": pl.Int64,
        "output_tokens": pl.Int64,
        "cost": pl.Float64,
    }
    return pl.DataFrame(found, schema=types, orient="row")


_SQL = """
    WITH sizes AS (
        SELECT i.instance_id, 300 + coalesce(strlen(q.text), 0)  -- and what stands around them
            + coalesce((SELECT sum(strlen(c.text)) FROM instance_constraints AS ic
                JOIN constraints AS c USING (constraint_id)
                WHERE ic.instance_id = i.instance_id), 0)
            + coalesce((SELECT sum(100 + strlen(d.text)) FROM contexts AS x
                JOIN documents AS d USING (doc_id) WHERE x.instance_id = i.instance_id), 0) AS bytes
        FROM instances AS i LEFT JOIN queries AS q USING (query_id)
    ), known AS (
        SELECT r.model, sum(input_tokens) / sum(bytes) FILTER (WHERE input_tokens > 0) AS ratio,
            avg(output_tokens) AS output, avg(cost) AS cost
        FROM responses AS r JOIN sizes USING (instance_id) WHERE error IS NULL GROUP BY r.model
    )
    SELECT t.model,
        round(sum(coalesce(bytes, 0)) * coalesce(any_value(k.ratio), $ratio))::BIGINT,
        round(count(*) * coalesce(any_value(k.output), (SELECT avg(output) FROM known), $output)
            )::BIGINT,
        count(*) * any_value(k.cost)
    FROM _todo AS t LEFT JOIN sizes USING (instance_id) LEFT JOIN known AS k ON k.model = t.model
    GROUP BY t.model ORDER BY t.model
"""


@cache
def listed_prices(model: str) -> dict[str, float] | None:
    """US dollars per million tokens (input, output) in litellm's list; None where it is not there.

    The list is read without importing litellm, which takes seconds.
    """
    if model.startswith("local/"):
        return {"input": 0.0, "output": 0.0}
    entry = _price_list().get(model) or _price_list().get(model.partition("/")[2]) or {}
    try:
        return {
            "input": float(entry["input_cost_per_token"]) * 1e6,
            "output": float(entry["output_cost_per_token"]) * 1e6,
        }
    except (KeyError, TypeError, ValueError):
        return None


@cache
def _price_list() -> dict[str, Any]:
    package = find_spec("litellm")
    if package is None or package.origin is None:
        return {}
    file = Path(package.origin).with_name("model_prices_and_context_window_backup.json")
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
