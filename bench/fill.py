"""Study files of a given size, for the benchmarks: every relation really filled.

One unit is the paper's size: 491 queries, 983 instances, 13 models, ten constraints per query of
which rules check five, three LLM judges. It holds about 277,000 verdicts; `scale` repeats it with
other queries. Rows are made by SQL inside DuckDB, so that a hundred million take minutes.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from ragbench.files import create, open_study
from ragbench.folding import rewrite_summaries

ROWS = """
INSERT INTO store.main.runs VALUES ('r', 'bench', 'simulated', NULL, NULL, NULL);
INSERT INTO store.main.models (model, family)
    SELECT 'model-' || m, 'f' || m % 4 FROM range(13) t(m);
INSERT INTO store.main.judges (judge, kind)
    VALUES ('rules/1', 'rule'), ('judge-a', 'llm'), ('judge-b', 'llm'), ('judge-c', 'llm');
UPDATE store.main.study SET primary_panel = 'judge-a';
INSERT INTO store.main.queries (query_id, domain, language)
SELECT 'q' || q, list_value('Financial', 'Energy', 'Legal', 'Medical', 'Party Building',
    'Web Search')[1 + q % 6], if(q % 5 = 0, 'en', 'zh') FROM range(491 * {scale}) t(q);
INSERT INTO store.main.constraints (constraint_id, query_id, dimension, rule, params)
SELECT 'q' || q || '.c' || c, 'q' || q, list_value('role', 'audience', 'format', 'content',
    'negative', 'ordering', 'style', 'conflict_handling', 'knowledge_gap', 'citation')[1 + c],
    if(c % 2 = 0, 'no_emoji', NULL), '{{}}' FROM range(491 * {scale}) t(q), range(10) u(c);
CREATE TEMP TABLE i AS
SELECT 'q' || (n % (491 * {scale})) || '-' || n // (491 * {scale}) AS instance_id,
    'q' || (n % (491 * {scale})) AS query_id,
    if(n % 20 < 9, 'noise', if(n % 20 < 14, 'gap', 'conflict')) AS mode
FROM range(983 * {scale}) t(n);
INSERT INTO store.main.instances (instance_id, query_id, context_mode)
SELECT instance_id, query_id, mode FROM i;
INSERT INTO store.main.instance_constraints
SELECT instance_id, c + 1, query_id || '.c' || c FROM i, range(10) u(c);
INSERT INTO store.main.wanted
SELECT instance_id, 'model-' || m, 'given_context', 0, 'r' FROM range(13) t(m), i;
INSERT INTO store.main.responses (response_id, instance_id, model, setting, trial, text, run_id)
SELECT instance_id || '/' || model || '/given_context/0', instance_id, model, setting, trial,
    'An answer.', 'r' FROM store.main.wanted;
INSERT INTO store.main.judgments
SELECT r.response_id, 'adherence', c.constraint_id, j.judge, 0,
    (hash(r.response_id, c.constraint_id, j.judge) % 100 < 80)::INTEGER, NULL, NULL, 'r'
FROM store.main.responses AS r
JOIN store.main.instance_constraints AS ic USING (instance_id)
JOIN store.main.constraints AS c USING (constraint_id)
JOIN store.main.judges AS j ON (c.rule IS NULL) = (j.kind = 'llm');
INSERT INTO store.main.judgments
SELECT r.response_id, if(i.mode = 'gap', 'rejection', 'conflict'), r.response_id, j.judge, 0,
    (hash(r.response_id, j.judge) % 100 < 40)::INTEGER, NULL, NULL, 'r'
FROM store.main.responses AS r JOIN i USING (instance_id) JOIN store.main.judges AS j
    ON j.kind = 'llm'
WHERE i.mode <> 'noise';
"""


def fill(file: Path, scale: int) -> int:
    """The number of verdicts in the study made at `file`."""
    create(file, "bench")
    con: duckdb.DuckDBPyConnection = open_study(file, read_only=False)
    for statement in ROWS.format(scale=scale).split(";"):
        if statement.strip():
            con.execute(statement).fetchall()
    rewrite_summaries(con)
    con.execute("CHECKPOINT store").fetchall()
    verdicts = con.execute("SELECT count(*) FROM store.main.judgments").fetchall()[0][0]
    con.close()
    return int(verdicts)
