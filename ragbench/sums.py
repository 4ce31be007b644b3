"""Sums per group and metric: all that a mean, its bounds and a clustered interval need.

A metric says in SQL what each row of a source gives; the statements here add that up, first per
query and then per group. At ten million verdicts this is where the time of `scores` goes, and
three things make it quick: doubles (what DuckDB sums fastest), groups known by a hash of their
columns (text is slow to group by), and metrics that are alike and share their n.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ragbench.intervals import Sums


class Metric(NamedTuple):
    """How a number is averaged over rows: SQL for what each row gives."""

    name: str
    value: str  # null: not judged in full
    lowest: str  # null: does not apply to the row
    highest: str
    is_binary: bool = False
    weight: str = "1"
    like: str = ""  # has a value wherever this has one; metrics that are alike share their n

    @property
    def counted(self) -> str:
        """What `n` is counted by: the rows where this is not null, by weight."""
        return self.like or self.value

    @property
    def summed_n(self) -> str:
        """The column of `n` in rows that are summed already."""
        return f"s.{self.name}_n" if self.weight != "1" else f"{self.counted}_n"


class Source(NamedTuple):
    """Rows to sum: SQL from FROM on, in which they are called s and have a `query_hash`."""

    rows: str
    keys: Sequence[str]  # one or more numbers that tell the groups apart
    is_open: str = "true"  # true for every row in which a verdict is missing
    is_summed: bool = False  # the rows are sums per query: columns of metrics, and of their n
    is_whole: bool = False  # such rows, and no group has two of one query


Key = tuple[Any, ...]


def key_of(columns: Iterable[str]) -> str:
    """SQL for a number that tells rows with different values in `columns` apart."""
    listed = ", ".join(columns)
    return f"hash({listed})" if listed else "0::UBIGINT"


def statements(
    source: Source, metrics: Sequence[Metric], summed: Source | None = None
) -> tuple[str, str]:
    """Two statements for `read`: over what was judged, and over the rows with gaps.

    The first reads `summed` where that is given: the same rows added up per query.
    """
    return _judged(summed or source, metrics), _missing(source, metrics)


def read(
    metrics: Sequence[Metric],
    judged: Iterable[Key],
    missing: Iterable[Key],
    width: int = 1,
) -> dict[Key, dict[str, Sums]]:
    """The sums of each group and metric, from the rows of the two statements."""
    gaps = {row[:width]: row[width:] for row in missing}
    sums = {row[:width]: row[width:] for row in judged}
    shared = {counted: i for i, counted in enumerate(_alike(metrics))}
    found: dict[Key, dict[str, Sums]] = {}
    for group in dict.fromkeys([*sums, *gaps]):
        counts, totals = _split(sums.get(group), 3, len(shared), 3, len(metrics))
        planned, bounds = _split(gaps.get(group), 1, len(shared), 2, len(metrics))
        found[group] = {}
        for metric, (total, ss, ns), (lowest, highest) in zip(metrics, totals, bounds, strict=True):
            i = shared[metric.weight, metric.counted]
            n, queries, nn = counts[i]
            found[group][metric.name] = Sums(
                n, total, n + planned[i][0], total + lowest, total + highest, queries, nn, ss, ns
            )
    return found


def _split(row: Key | None, *shape: int) -> list[list[list[Any]]]:
    """`row` in parts: of so many numbers, so many times, and again; nulls are 0."""
    numbers = iter(row or [0] * (shape[0] * shape[1] + shape[2] * shape[3]))
    return [
        [[next(numbers) or 0 for _ in range(width)] for _ in range(times)]
        for width, times in (shape[:2], shape[2:])
    ]


def _alike(metrics: Iterable[Metric]) -> dict[tuple[str, str], Metric]:
    """The different ways in which the metrics count their n, each with one that does."""
    return {(m.weight, m.counted): m for m in reversed(list(metrics))}


def _judged(source: Source, metrics: Sequence[Metric]) -> str:
    """Per group: n, queries, sum of n squared for each n; total, ss, ns for each metric."""
    names: Mapping[tuple[str, str], str] = {
        counted: f"n{i}" for i, counted in enumerate(_alike(metrics))
    }
    inner, outer = [], []
    add = "" if source.is_whole else "sum"
    for (weight, value), metric in _alike(metrics).items():
        name = names[weight, value]
        if source.is_summed:
            inner.append(f"{add}({metric.summed_n}) AS {name}")
        elif weight == "1":
            inner.append(f"count({value})::DOUBLE AS {name}")
        else:
            counted = f"CASE WHEN {value} IS NOT NULL THEN {weight} END"
            inner.append(f"sum(({counted})::DOUBLE) AS {name}")
        outer.append(f"sum({name}), count(nullif({name}, 0)), sum({name} * {name})")
    for i, m in enumerate(metrics):
        inner.append(f"{add}({m.value}) AS s{i}" if source.is_summed else _sum_of(m, i))
        outer.append(f"sum(s{i}), sum(s{i} * s{i}), sum(s{i} * {names[m.weight, m.counted]})")
    keys = [f"k{i}" for i in range(len(source.keys))]
    named = [f"{sql} AS {key}" for sql, key in zip(source.keys, keys, strict=True)]
    per_query = "" if source.is_whole else f"GROUP BY {', '.join(keys)}, s.query_hash"
    return (
        f"SELECT {', '.join(keys + outer)} FROM (SELECT {', '.join(named + inner)} {source.rows} "
        f"{per_query}) GROUP BY {', '.join(keys)}"
    )


def _sum_of(metric: Metric, place: int) -> str:
    return f"sum(({metric.value})::DOUBLE) AS s{place}"


def _missing(source: Source, metrics: Sequence[Metric]) -> str:
    """Over the rows not judged in full, per group: planned for each n, lowest and highest."""
    columns = [
        f"count({m.lowest}) FILTER (WHERE {m.value} IS NULL)"
        if m.weight == "1"
        else f"sum({m.weight}) FILTER (WHERE {m.value} IS NULL AND {m.lowest} IS NOT NULL)"
        for m in _alike(metrics).values()
    ]
    for m in metrics:
        columns += [f"sum({sql}) FILTER (WHERE {m.value} IS NULL)" for sql in (m.lowest, m.highest)]
    return (
        f"SELECT {', '.join([*source.keys, *columns])} {source.rows} AND {source.is_open} "
        f"GROUP BY {', '.join(source.keys)}"
    )
