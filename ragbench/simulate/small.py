"""Small data sets with planted effects, to see what a method makes of a truth that is known.

Yes/no outcomes come from uniform numbers that are shared: with probability `query` an outcome uses
the number of its query, with probability `item` that of its instance, else its own. Whatever is
shared, each outcome is a success with exactly the rate asked for, so the truth is known exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from ragbench.simulate.draws import Array, stream

__all__ = ["confounded", "one_group", "pairs", "ratings", "two_groups", "votes"]


def pairs(
    n_queries: int,
    per_query: int = 1,
    *,
    rates: tuple[float, float] = (0.3, 0.3),
    item: float = 0.4,
    query: float = 0.0,
    seed: int = 0,
) -> pl.DataFrame:
    """Two systems on the same instances: columns query_id, a, b (0 or 1).

    The true difference is rates[0] - rates[1]. `item` is what the systems share on an instance,
    `query` what one system's outcomes share within a query: it makes differences cluster.

    >>> pairs(3, 2, seed=1).columns, pairs(3, 2, seed=1).height
    (['query_id', 'a', 'b'], 6)
    """
    rng = stream(seed, "pairs")
    n = n_queries * per_query
    owner = np.repeat(np.arange(n_queries), per_query)
    shared, chance = rng.random(n), rng.random((2, n))
    of_query, own = rng.random((2, n_queries)), rng.random((2, n))
    columns = []
    for side, rate in enumerate(rates):
        used = np.where(chance[side] < query + item, shared, own[side])
        used = np.where(chance[side] < query, of_query[side][owner], used)
        columns.append((used < rate).astype(int))
    return pl.DataFrame({"query_id": owner, "a": columns[0], "b": columns[1]})


def one_group(
    n_queries: int, per_query: int = 1, *, rate: float = 0.3, query: float = 0.0, seed: int = 0
) -> pl.DataFrame:
    """One system's outcomes: columns query_id, success; the true rate is `rate`."""
    frame = two_groups((n_queries, 0), per_query, rates=(rate, rate), query=query, seed=seed)
    return frame.select("query_id", "success")


def two_groups(
    n_queries: tuple[int, int],
    per_query: int = 1,
    *,
    rates: tuple[float, float] = (0.3, 0.3),
    query: float = 0.0,
    seed: int = 0,
) -> pl.DataFrame:
    """Outcomes with and without something: columns query_id, has, success.

    A query belongs to one group with all its instances. The true difference is rates[0] - rates[1].
    """
    rng = stream(seed, "two groups")
    total = sum(n_queries)
    owner = np.repeat(np.arange(total), per_query)
    has = owner < n_queries[0]
    used = _shared(rng, owner, total, query)
    return pl.DataFrame(
        {
            "query_id": owner,
            "has": has,
            "success": (used < np.where(has, *rates)).astype(int),
        }
    )


def confounded(
    sizes: Sequence[int],
    shares: Sequence[float],
    rates: Sequence[float],
    *,
    gain: float = 0.0,
    seed: int = 0,
) -> pl.DataFrame:
    """Outcomes of several domains: columns domain, has, success.

    A share of each domain has a protocol, which adds `gain` to the domain's rate, the same in all.
    Where domains with high rates have more protocols, the crude difference is no effect of them.
    """
    rng = stream(seed, "confounded")
    domain = np.repeat(np.arange(len(sizes)), sizes)
    has = rng.random(len(domain)) < np.asarray(shares)[domain]
    rate = np.asarray(rates)[domain] + gain * has
    return pl.DataFrame(
        {"domain": domain, "has": has, "success": (rng.random(len(domain)) < rate).astype(int)}
    )


def votes(n: int, *, kappa: float, rate: float = 0.35, seed: int = 0) -> pl.DataFrame:
    """Two raters' yes/no: columns a, b. The second copies the first with probability `kappa`.

    Both say yes at `rate`, so that Cohen's kappa is exactly `kappa`.
    """
    rng = stream(seed, "votes")
    first, other = rng.random((2, n)) < rate
    second = np.where(rng.random(n) < kappa, first, other)
    return pl.DataFrame({"a": first.astype(int), "b": second.astype(int)})


def ratings(
    targets: int, raters: int, *, spreads: tuple[float, float, float], seed: int = 0
) -> Array:
    """A table of targets by raters whose ICC is known: two-way random, normal.

    `spreads` are the standard deviations of targets, raters and error; ICC(2,1) is the first's
    share of the total variance, ICC(2,k) the same with the other two divided by k.
    """
    rng = stream(seed, "ratings")
    target, rater, error = spreads
    level = target * rng.standard_normal((targets, 1)) + rater * rng.standard_normal((1, raters))
    return level + error * rng.standard_normal((targets, raters))


def _shared(rng: np.random.Generator, owner: Array, queries: int, query: float) -> Array:
    """Uniform numbers, a share of them the number of the query."""
    chance, own = rng.random((2, len(owner)))
    return np.where(chance < query, rng.random(queries)[owner], own)
