"""The rows that slices of single constraints read: what was asked, of whom, and the verdict."""

from __future__ import annotations

import duckdb

from ragbench.store import kept, remembered, state

_KEPT_AT_MOST = 1_000_000
"""Rows of a panel; they take about 23 bytes each."""


def constraint_rows(cursor: duckdb.DuckDBPyConnection, panel: str | None) -> str:
    """SQL from FROM on: a row for each constraint of each planned response, by panel.

    In it s is the response (`adherence_summary`), c the constraint (null where unknown) and j the
    verdict, if any: its score, error (of which it may say only that there is one) and is_triggered.
    Rows of other panels than the one named may be among them, or not: the caller's condition says.

    To find the verdicts takes most of the time of a slice. Those of one panel of a study of the
    paper's size are few enough to be found once for each state of the study.
    """
    here = f"store_{state(cursor).number}.main"

    def planned() -> dict[str, int]:
        sql = f"SELECT panel, sum(planned)::BIGINT FROM {here}.adherence_summary GROUP BY panel"
        return dict(cursor.execute(sql).fetchall())

    def verdicts() -> str:
        return (
            "SELECT s.rowid::UINTEGER AS response, c.rowid::UINTEGER AS asked, j.score, "
            "if(j.error IS NULL, NULL, true) AS error, j.is_triggered "
            f"{_found(cursor, here)} WHERE s.panel = ?"
        )

    if panel is None or remembered(cursor, planned).get(panel, 0) > _KEPT_AT_MOST:
        return _found(cursor, here)
    return f"""
        FROM {kept(cursor, f"verdicts of {panel}", verdicts, [panel])} AS j
        JOIN {here}.adherence_summary AS s ON s.rowid = j.response
        LEFT JOIN {here}.constraints AS c ON c.rowid = j.asked"""


def _found(cursor: duckdb.DuckDBPyConnection, here: str) -> str:
    # One number joins in half the time of three texts, and known panels in less than those to be
    # found. Errors come as texts: without, DuckDB takes the verdicts for the small side of the last
    # join, and a filtered slice of ten million takes twice as long.
    cursor.execute("CREATE OR REPLACE TEMP TABLE _panels AS SELECT panel, judge, rules FROM panels")
    return f"""
        FROM {here}.adherence_summary AS s
        JOIN _panels AS p ON p.panel = s.panel
        JOIN {here}.instance_constraints AS ic ON ic.instance_id = s.instance_id
        LEFT JOIN {here}.constraints AS c ON c.constraint_id = ic.constraint_id
        LEFT JOIN (
            SELECT *, hash(response_id, target_id, judge) AS key FROM {here}.judgments
            WHERE criterion = 'adherence' AND repeat = 0
        ) AS j ON s.is_answered AND j.key = hash(
            s.response_id, ic.constraint_id,
            CASE WHEN c.rule IS NULL THEN p.judge ELSE p.rules END
        )"""
