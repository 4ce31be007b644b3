"""No false alarm on consistent papers; single slips are found where they can be found at all.

Which slips can be found is decided without the package: `audit_papers` prints data sets until one
gives the same texts, or none does.
"""

from __future__ import annotations

from pathlib import Path

import audit_papers as papers

from ragbench import audit

SEEDS = range(200)


def _alarms(paper: papers.Paper, folder: Path) -> list[audit.Finding]:
    found = audit.audit(papers.write(paper, folder))
    return [finding for finding in found.findings if finding.status == "inconsistent"]


def test_no_false_alarm_on_200_consistent_papers(tmp_path: Path) -> None:
    for seed in SEEDS:
        paper = papers.consistent(seed)
        assert papers.is_possible(paper), seed
        alarms = _alarms(paper, tmp_path / str(seed))
        assert not alarms, (seed, alarms[0].arithmetic)


def test_slips_that_no_data_set_explains_are_found_in_200_papers(tmp_path: Path) -> None:
    detectable, missed, pointed = 0, [], 0
    kinds: set[str] = set()
    for seed in SEEDS:
        paper, cell = papers.with_a_slip(papers.consistent(seed), seed)
        alarms = _alarms(paper, tmp_path / str(seed))
        if papers.is_possible(paper):
            assert not alarms, (seed, cell, alarms[0].arithmetic)
            continue
        detectable += 1
        if not alarms:
            missed.append((seed, cell, paper[cell]))
        kinds |= {alarm.kind for alarm in alarms}
        pointed += any(cell in [c.place for c in alarm.cells] for alarm in alarms)
    assert detectable >= 150
    assert len(missed) <= 0.05 * detectable, missed
    assert pointed >= 0.95 * (detectable - len(missed)), "findings must name the cell with the slip"
    assert len(kinds) >= 14, f"the papers are too tame: only {sorted(kinds)} found something"
