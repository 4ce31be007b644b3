"""What can be wrong with a study: for each fault, SQL whose rows are the offenders."""

from __future__ import annotations

from typing import NamedTuple

from ragbench import relations
from ragbench.metrics import taken_names
from ragbench.summaries import scores_of


class Fault(NamedTuple):
    """One kind of fault, and how its offenders are found."""

    relation: str
    problem: str
    sql: str  # a row per offender, with a text `example`


def faults() -> list[Fault]:
    """All kinds of fault that `check` looks for, in order of relation."""
    found = [*_doubled(), *_orphans(), *(Fault(*fault) for fault in _PARTICULAR)]
    return sorted(found, key=lambda fault: relations.order(fault.relation))


def _doubled() -> list[Fault]:
    return [
        Fault(
            relation,
            "the key stands more than once",
            f"SELECT concat_ws('/', {listed}) AS example FROM {relation} "
            f"GROUP BY {listed} HAVING count(*) > 1",
        )
        for relation, keys in relations.KEYS.items()
        if (listed := relations.listed(keys))
    ]


def _orphans() -> list[Fault]:
    return [
        Fault(
            relation,
            f"{column} is not in {target}",
            f'SELECT DISTINCT t."{column}"::VARCHAR AS example FROM {relation} AS t '
            f'ANTI JOIN {target} AS o ON o."{name}" = t."{column}" '
            f'WHERE t."{column}" IS NOT NULL',
        )
        for relation, column, target, name in relations.REFERENCES
    ]


def _differs(summary: str, example: str, *fractions: str) -> tuple[str, str, str]:
    """Fractions are rounded: the last bit of a sum depends on the order in which threads add up."""
    rounded = ", ".join(f"round({name}, 6) AS {name}" for name in fractions)
    shown = f"* REPLACE ({rounded})" if fractions else "*"
    kept, again = (f"SELECT {shown} FROM {part}" for part in (summary, f"({scores_of(summary)})"))
    return (
        summary,
        "it differs from its definition in scores.sql; fold again",
        f"SELECT {example} AS example FROM ({kept} EXCEPT {again} "
        f"UNION ALL ({again} EXCEPT {kept}))",
    )


_PARTICULAR = (
    (
        "judgments",
        "the score is outside its criterion's range",
        "SELECT response_id || ' ' || criterion || ' ' || score AS example FROM judgments "
        "JOIN criteria USING (criterion) WHERE score < lowest OR score > highest",
    ),
    (
        "judgments",
        "an adherence score is neither 0 nor 1",
        "SELECT response_id || ' ' || score AS example FROM judgments "
        "WHERE criterion = 'adherence' AND score NOT IN (0, 1)",
    ),
    (
        "judgments",
        "the constraint was not shown with the instance",
        "SELECT j.response_id || ' ' || j.target_id AS example FROM judgments AS j "
        "JOIN responses AS r USING (response_id) "
        "ANTI JOIN instance_constraints AS ic "
        "ON ic.instance_id = r.instance_id AND ic.constraint_id = j.target_id "
        "WHERE j.criterion = 'adherence'",
    ),
    (
        "judgments",
        "it says that the condition did not hold, which satisfies the constraint, and fails it",
        "SELECT response_id || ' ' || target_id AS example FROM judgments "
        "WHERE criterion = 'adherence' AND NOT is_triggered AND score < 1",
    ),
    (
        "judgments",
        "the claim is not one of the response or of its instance",
        "SELECT j.response_id || ' ' || j.target_id AS example FROM judgments AS j "
        "JOIN responses AS r USING (response_id) "
        "ANTI JOIN claims AS c ON c.claim_id = j.target_id AND CASE j.criterion "
        "WHEN 'faithfulness' THEN c.kind = 'response' AND c.response_id = j.response_id "
        "ELSE c.kind <> 'response' AND c.instance_id = r.instance_id END "
        "WHERE j.criterion IN ('faithfulness', 'coverage')",
    ),
    (
        "judgments",
        "the criterion grades whole responses, and the target is not the response",
        "SELECT j.response_id || ' ' || j.criterion || ' ' || j.target_id AS example "
        "FROM judgments AS j JOIN criteria AS c USING (criterion) "
        "WHERE c.target = 'response' AND j.target_id <> j.response_id",
    ),
    (
        "evidence",
        "there is no judgment that it explains",
        "SELECT response_id || ' ' || target_id AS example FROM evidence "
        "ANTI JOIN judgments USING (response_id, criterion, target_id, judge, repeat)",
    ),
    (
        "claims",
        "a claim of a response points to none",
        "SELECT claim_id AS example FROM claims AS c "
        "ANTI JOIN responses AS r ON r.response_id = c.response_id WHERE c.kind = 'response'",
    ),
    (
        "instance_constraints",
        "the constraint stands twice with the instance and counts twice",
        "SELECT instance_id || ' ' || constraint_id AS example FROM instance_constraints "
        "GROUP BY instance_id, constraint_id HAVING count(*) > 1",
    ),
    (
        "runs",
        "it is simulated, and the study holds measured or recorded rows as well",
        "SELECT run_id AS example FROM runs WHERE origin = 'simulated' "
        "AND EXISTS (FROM runs WHERE origin <> 'simulated')",
    ),
    (
        "wanted",
        "two responses have the same response_id; rename the model or the instance",
        "SELECT instance_id || '/' || model || '/' || setting || '/' || trial AS example "
        "FROM wanted GROUP BY example HAVING count(*) > 1",
    ),
    (
        "criteria",
        "its name is taken by a column of scores",
        "SELECT criterion AS example FROM criteria WHERE criterion IN "
        f"({', '.join(repr(name) for name in sorted(taken_names()))})",
    ),
    (
        "judgments",
        "the response is an error, so there was nothing to judge",
        "SELECT j.response_id AS example FROM judgments AS j JOIN responses AS r "
        "USING (response_id) WHERE r.error IS NOT NULL AND j.score IS NOT NULL",
    ),
    (
        "wanted",
        "the instance failed a check, so its responses are left out of all scores",
        "SELECT DISTINCT instance_id AS example FROM wanted "
        "SEMI JOIN (SELECT * FROM verifications WHERE NOT passed) AS v USING (instance_id)",
    ),
    _differs("adherence_summary", "response_id"),
    _differs("criterion_summary", "response_id"),
    _differs("adherence_by_query", "query_id", "loose_ias", "loose_ias_triggered", "loose_rules"),
    _differs("criterion_by_query", "query_id", "value"),
)
