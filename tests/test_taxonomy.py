"""The closed lists: complete, in the paper's order, and known under their other names."""

from __future__ import annotations

import pytest

from ragbench import relations, taxonomy

LISTS = {
    "domains": taxonomy.DOMAINS,
    "context modes": taxonomy.CONTEXT_MODES,
    "categories": taxonomy.CATEGORIES,
    "dimensions": taxonomy.DIMENSIONS,
}


@pytest.mark.parametrize("name", LISTS)
def test_every_name_means_one_thing(name):
    entries = LISTS[name]
    for entry in entries:
        for text in (entry.key, entry.label, *entry.aliases):
            assert taxonomy.canonical(entries, text) == entry.key, text
    assert len({entry.key for entry in entries}) == len(entries)
    assert all(entry.meaning for entry in entries)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ("  KNOWLEDGE_gap ", "knowledge_gap"),
        ("Gap ID", "knowledge_gap"),
        ("evidence-chaining", "citation"),
        ("Uncertainty", "uncertainty"),
        ("角色", "role"),
        ("House style", "House style"),
    ],
)
def test_dimensions_are_known_under_the_paper_s_other_names(given, key):
    assert taxonomy.canonical(taxonomy.DIMENSIONS, given) == key


def test_the_twelve_sub_dimensions_come_first_and_in_order():
    keys = [entry.key for entry in taxonomy.DIMENSIONS]
    assert keys == [
        *("role", "audience"),
        *("format", "content", "negative", "ordering", "style"),
        *("conflict_handling", "knowledge_gap", "uncertainty", "source_filtering", "citation"),
        *("operational_goal", "additional"),
    ]
    by_category = {entry.key: entry.category for entry in taxonomy.DIMENSIONS}
    assert [key for key in keys if by_category[key] == "persona"] == keys[:2]
    assert [key for key in keys if by_category[key] == "output"] == keys[2:7]
    assert [key for key in keys if by_category[key] == "protocol"] == keys[7:12]
    assert {entry.category for entry in taxonomy.DIMENSIONS} == {
        entry.key for entry in taxonomy.CATEGORIES
    }


def test_lists_that_the_papers_close_are_the_schema_s():
    layout = relations.layout()
    modes = tuple(entry.key for entry in taxonomy.CONTEXT_MODES)
    assert layout["instances"]["context_mode"].values == modes
    categories = tuple(entry.key for entry in taxonomy.CATEGORIES)
    assert layout["dimensions"]["category"].values == categories


def test_headline_criteria_grade_responses_in_their_mode():
    targets = {criterion.key: criterion.target for criterion in taxonomy.CRITERIA}
    modes = {entry.key for entry in taxonomy.CONTEXT_MODES}
    for criterion, mode in taxonomy.CONTEXT_CRITERIA.items():
        assert targets[criterion] == "response"
        assert mode in modes
    assert targets["adherence"] == "constraint"
    assert targets["faithfulness"] == targets["coverage"] == "claim"
    assert all((c.lowest, c.highest) == (0, 1) for c in taxonomy.CRITERIA)


def test_labels_keep_the_order():
    assert list(taxonomy.labels(taxonomy.CONTEXT_MODES))[:3] == ["noise", "gap", "conflict"]
    assert taxonomy.labels(taxonomy.CRITERIA)["coverage"] == "Answer coverage"
