"""Queries, constraints and instances: what Tables 4 to 6 and Figures 6 and 7 fix of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ragbench import taxonomy
from ragbench.simulate.draws import Array, bell, categories, order, pick, stream
from ragbench.simulate.targets import table
from ragbench.simulate.texts import WORDINGS

DOMAINS = tuple(entry.key for entry in taxonomy.DOMAINS)
CATEGORIES = ("persona", "output", "protocol", "additional")
DIMENSIONS = tuple(entry.key for entry in taxonomy.DIMENSIONS if entry.key in WORDINGS)
MODES = ("noise", "gap", "conflict")
CATEGORY_OF = np.array(
    [CATEGORIES.index(entry.category) for entry in taxonomy.DIMENSIONS if entry.key in WORDINGS]
)
GAP, CONFLICT, UNCERTAIN = (
    DIMENSIONS.index(name) for name in ("knowledge_gap", "conflict_handling", "uncertainty")
)

# Not printed, ours: how a category's constraints spread over its dimensions (within protocols
# citation and conflict handling lead, as the paper says), and how many a query has about the mean.
DIMENSION_WEIGHTS = {
    "persona": (0.6, 0.4),
    "output": (0.27, 0.27, 0.2, 0.08, 0.18),
    "protocol": (0.25, 0.21, 0.15, 0.13, 0.26),
    "additional": (1.0,),
}
SPREAD = {"persona": 0.6, "output": 0.9, "protocol": 0.7}
ENGLISH_SHARE = 0.12
TRIGGERED = {"noise": (0.3, 0.45, 0.6), "gap": (0.2, 1.0, 0.6), "conflict": (1.0, 0.3, 0.6)}
"""Mode -> how often conflict handling, knowledge gap and uncertainty constraints are triggered."""


class Benchmark(NamedTuple):
    """The benchmark as arrays of indices; a shown constraint is one of one instance."""

    query_domain: Array
    query_number: Array  # within the domain, from 1
    query_is_english: Array
    constraint_query: Array
    constraint_dimension: Array
    constraint_number: Array  # within the query, from 1
    constraint_wording: Array
    instance_query: Array
    instance_mode: Array
    instance_is_natural: Array
    instance_size: Array  # constraints shown
    instance_has_protocol: Array  # the sub-dimension that Figure 6 asks about
    shown_instance: Array
    shown_constraint: Array
    shown_is_triggered: Array


def build(seed: int) -> Benchmark:
    """The benchmark of a seed."""
    domain, number = _queries()
    query, dimension = _constraints(seed, domain)
    within = _rank_within(query)
    instances = _instances(seed, len(domain), query, dimension)
    first = np.searchsorted(query, np.arange(len(domain) + 1))
    size = np.diff(first)[instances[0]]
    shown_instance = np.repeat(np.arange(len(size)), size)
    shown_constraint = first[instances[0]][shown_instance] + _rank_within(shown_instance) - 1
    has = _present(len(domain), query, dimension)
    mode = instances[1]
    return Benchmark(
        domain,
        number,
        stream(seed, "language").random(len(domain)) < ENGLISH_SHARE,
        query,
        dimension,
        within,
        _wordings(seed, query, dimension, len(domain)),
        *instances,
        size,
        np.where(mode == 1, has[0][instances[0]], has[1][instances[0]]) & (mode > 0),
        shown_instance,
        shown_constraint,
        _triggered(seed, mode[shown_instance], dimension[shown_constraint]),
    )


def _queries() -> tuple[Array, Array]:
    printed = dict(zip(table("table5")["domain"], table("table5")["n_queries"], strict=True))
    counts = [printed[name] for name in DOMAINS]
    domain = np.repeat(np.arange(len(DOMAINS)), counts)
    return domain, _rank_within(domain)


def totals() -> dict[str, dict[str, int]]:
    """Constraints per domain and category: the counts whose averages Table 5 prints.

    What a domain's average has beyond the sum of its parts is counted as *additional* where it is a
    rounding or two; Medical's 10.21 lies 57 above its parts, and the row All fits the parts.
    """
    found = {}
    for row in table("table5").filter(table("table5")["domain"] != "All").iter_rows(named=True):
        n = row["n_queries"]
        parts = {name: round(row[f"{name}_avg"] * n) for name in CATEGORIES[:3]}
        rest = round(row["constraints_avg"] * n) - sum(parts.values())
        found[row["domain"]] = {**parts, "additional": rest if 0 < rest <= 3 else 0}
    return found


def _constraints(seed: int, domain: Array) -> tuple[Array, Array]:
    """Query and dimension of each constraint, in the order of queries, then categories."""
    queries, dimensions = [], []
    for category, name in enumerate(CATEGORIES):
        rng = stream(seed, f"constraints of {name}")
        members = np.flatnonzero(category == CATEGORY_OF)
        for place, key in enumerate(DOMAINS):
            here = np.flatnonzero(domain == place)
            spread = bell(rng, len(here)) * SPREAD.get(name, 0.3)
            counts = _split(totals()[key][name], spread)
            queries.append(np.repeat(here, counts))
            drawn = categories(rng, DIMENSION_WEIGHTS[name], int(counts.sum()))
            dimensions.append(members[drawn])
    query, dimension = np.concatenate(queries), np.concatenate(dimensions)
    placed = np.lexsort((dimension, query))
    return query[placed], dimension[placed]


def _split(total: int, spread: Array) -> Array:
    """Whole numbers that add up to `total`, each near the mean plus its `spread`."""
    wanted = np.maximum(total / len(spread) + spread, 0.0)
    counts = np.floor(wanted).astype(int)
    part = wanted - counts
    while (short := total - int(counts.sum())) != 0:
        places = order(part if short > 0 else np.where(counts > 0, -part, -9.0))
        chosen = places[: min(abs(short), len(places))]
        counts[chosen] += 1 if short > 0 else -1
        counts = np.maximum(counts, 0)
    return counts


def _wordings(seed: int, query: Array, dimension: Array, queries: int) -> Array:
    """Which wording each constraint has: none twice in a query."""
    start = np.floor(stream(seed, "wordings").random((queries, len(DIMENSIONS))) * 12).astype(int)
    return start[query, dimension] + _rank_within(query * 100 + dimension)


def _rank_within(groups: Array) -> Array:
    """1, 2, … within each run of equal values."""
    change = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(np.append(change, len(groups)))
    return np.arange(len(groups)) - np.repeat(change, lengths) + 1


def _present(queries: int, query: Array, dimension: Array) -> tuple[Array, Array]:
    """Whether each query has a knowledge-gap, and a conflict-handling constraint."""
    found = []
    for wanted in (GAP, CONFLICT):
        has = np.zeros(queries, dtype=bool)
        has[query[dimension == wanted]] = True
        found.append(has)
    return found[0], found[1]


def mode_counts() -> tuple[dict[str, int], dict[str, int]]:
    """Instances per mode, and how many of them are natural (Table 6)."""
    rows = dict(zip(MODES, table("table6").iter_rows(named=True), strict=True))
    return (
        {mode: row["count"] for mode, row in rows.items()},
        {mode: row["natural_count"] for mode, row in rows.items()},
    )


def protocol_counts() -> dict[str, int]:
    """Gap and conflict instances with an explicit protocol (Figure 6)."""
    claims = table("claims")
    stated = {row["claim_id"]: str(row["value"]) for row in claims.iter_rows(named=True)}
    return {mode: int(stated[name].split("/")[0]) for mode, name in PROTOCOL_CLAIMS.items()}


PROTOCOL_CLAIMS = {"gap": "C030", "conflict": "C031"}


def _instances(
    seed: int, queries: int, query: Array, dimension: Array
) -> tuple[Array, Array, Array]:
    """Query, mode and naturalness of each instance: at most one per query and mode."""
    rng = stream(seed, "instances")
    counts, natural = mode_counts()
    everyone = np.arange(queries)
    taken = {}
    for mode, has in zip(("gap", "conflict"), _present(queries, query, dimension), strict=True):
        explicit = min(protocol_counts()[mode], int(has.sum()))
        implicit = counts[mode] - explicit
        parts = pick(rng, everyone[has], explicit), pick(rng, everyone[~has], implicit)
        taken[mode] = np.sort(np.concatenate(parts))
    elsewhere = np.union1d(taken["gap"], taken["conflict"])
    left_out = pick(rng, elsewhere, queries - counts["noise"])
    taken["noise"] = np.setdiff1d(everyone, left_out)
    instance_query = np.concatenate([taken[mode] for mode in MODES])
    instance_mode = np.repeat(np.arange(3), [len(taken[mode]) for mode in MODES])
    is_natural = instance_mode == 0
    for place, mode in enumerate(MODES[1:], start=1):
        here = np.flatnonzero(instance_mode == place)
        is_natural[pick(rng, here, natural[mode])] = True
    placed = np.lexsort((instance_mode, instance_query))
    return instance_query[placed], instance_mode[placed], is_natural[placed]


def _triggered(seed: int, mode: Array, dimension: Array) -> Array:
    chance = stream(seed, "triggered").random(len(mode))
    held = np.ones(len(mode), dtype=bool)
    for place, name in enumerate(MODES):
        for wanted, share in zip((CONFLICT, GAP, UNCERTAIN), TRIGGERED[name], strict=True):
            here = (mode == place) & (dimension == wanted)
            held[here] = chance[here] < share
    return held
