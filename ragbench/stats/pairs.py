"""Two systems on the same instances: McNemar's test, the paired bootstrap, the paired t-test."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from ragbench.errors import RagbenchError
from ragbench.stats.frames import (
    ALTERNATIVES,
    Array,
    Pairs,
    chosen,
    columns,
    lost_note,
    notes,
    one_row,
    paired_values,
    quiet,
    share,
    whole,
)

EXACT_BELOW = 25
"""From this many discordant pairs on McNemar's test uses the normal approximation."""

_MULTINOMIAL_UP_TO = 256  # distinct differences; beyond, drawing cells costs more than indices

_MCNEMAR = {
    **columns(pl.Int64, "n n_lost b c n_discordant"),
    **columns(pl.String, "alternative method"),
    **columns(pl.Float64, "z p_value p_mid z_shrink p_value_shrink"),
    "note": pl.String,
}


def mcnemar(b: Any, c: Any, *, alternative: str = "two-sided") -> pl.DataFrame:
    """McNemar's test that two systems succeed equally often on the same instances.

    `b` and `c` are the discordant counts (only the first right, only the second right), or the
    yes/no outcomes of the first and the second system: sequences in the same order, or mappings
    from instance to outcome. `greater` tests that the first is better.

    Fewer than 25 discordant pairs: exact binomial. Otherwise a continuity-corrected z: one-sided
    (b - c - 1) / sqrt(b + c), also when b <= c; two-sided with |b - c| - 1 floored at 0, so that
    b = c gives p = 1. `z_shrink`, `p_value_shrink`: the other textbook form, whose z never
    passes 0. `p_mid`: the exact mid-p. No discordant pairs: p = 1.

    >>> mcnemar(57, 30, alternative="greater").select("method", "z", "p_value").row(0)
    ('z_cc', 2.787..., 0.00265...)
    """
    chosen("alternative", alternative, ALTERNATIVES, "mcnemar")
    n, only_b, only_c, lost = _discordant(b, c)
    total = only_b + only_c
    row: dict[str, Any] = {"n": n, "n_lost": lost, "b": only_b, "c": only_c, "n_discordant": total}
    row |= {"alternative": alternative, "method": "exact" if total < EXACT_BELOW else "z_cc"}
    if total == 0:
        note = notes("no discordant pairs", lost_note(lost))
        return one_row(_MCNEMAR, {**row, "p_value": 1.0, "p_mid": 1.0, "note": note})
    exact, row["p_mid"] = _binomial(only_b, total, alternative)
    if total < EXACT_BELOW:
        row["p_value"] = exact
    else:
        row |= _corrected_z(only_b, only_c, alternative)
    return one_row(_MCNEMAR, {**row, "note": lost_note(lost)})


def _discordant(b: Any, c: Any) -> tuple[int | None, int, int, int]:
    """Pairs (unknown when counts were given), only first, only second, pairs lost."""
    if isinstance(b, numbers.Real) and isinstance(c, numbers.Real):
        return None, whole(b, "b", "mcnemar"), whole(c, "c", "mcnemar"), 0
    pairs = paired_values(b, c, "mcnemar")
    if not (_is_binary(pairs.x) and _is_binary(pairs.y)):
        raise RagbenchError(
            "mcnemar takes yes/no outcomes (True/False, 1/0); for scores in between use "
            "paired_bootstrap or paired_t."
        )
    only_b = int(((pairs.x == 1) & (pairs.y == 0)).sum())
    only_c = int(((pairs.x == 0) & (pairs.y == 1)).sum())
    return len(pairs.x), only_b, only_c, pairs.lost


def _is_binary(values: Array) -> bool:
    return bool(((values == 0) | (values == 1)).all())


def _binomial(successes: int, n: int, alternative: str) -> tuple[float, float]:
    """Exact p and mid-p of a fair coin."""
    from scipy.stats import binom, binomtest

    exact = float(binomtest(successes, n, 0.5, alternative=alternative).pvalue)
    # Two-sided, a tie is the single most probable outcome: both p are 1.
    if alternative == "two-sided" and 2 * successes == n:
        return exact, 1.0
    point = float(binom.pmf(successes, n, 0.5))
    return exact, exact - (point if alternative == "two-sided" else point / 2)


def _corrected_z(b: int, c: int, alternative: str) -> dict[str, float]:
    from scipy.stats import norm

    root = math.sqrt(b + c)
    shrunk = math.copysign(max(abs(b - c) - 1, 0), b - c) / root
    if alternative == "two-sided":
        p = min(1.0, 2 * float(norm.sf(abs(shrunk))))
        return {"z": shrunk, "p_value": p, "z_shrink": shrunk, "p_value_shrink": p}
    tail = norm.sf if alternative == "greater" else norm.cdf
    z = (b - c - (1 if alternative == "greater" else -1)) / root
    return {
        "z": z,
        "p_value": float(tail(z)),
        "z_shrink": shrunk,
        "p_value_shrink": float(tail(shrunk)),
    }


_BOOTSTRAP = {
    **columns(pl.Int64, "n n_lost"),
    **columns(pl.Float64, "diff se low high confidence"),
    "method": pl.String,
    **columns(pl.Int64, "n_resamples seed"),
    "note": pl.String,
}


def paired_bootstrap(
    x: Any = None,
    y: Any = None,
    *,
    counts: Sequence[int] | None = None,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> pl.DataFrame:
    """Mean of `x` minus mean of `y` on the same instances, with a percentile bootstrap interval.

    Instances are resampled and both outcomes of an instance stay together. `counts` gives yes/no
    outcomes as (both, only_a, only_b, neither), the columns of `paired`. `se` is the exact
    bootstrap standard error.

    With few distinct differences (always with yes/no outcomes) the resampled counts are drawn
    from the multinomial distribution they follow: the same interval at a cost that does not grow
    with n. Otherwise the differences are resampled by scipy. Where all differences are equal the
    interval has no width, and the note says that this is no precision.

    >>> paired_bootstrap(counts=(63, 57, 30, 297)).select("n", "diff", "low", "high").row(0)
    (447, 0.060..., 0.02..., 0.10...)
    """
    level = share(confidence, "confidence", "paired_bootstrap")
    resamples = whole(n_resamples, "n_resamples", "paired_bootstrap")
    if resamples < 1:
        raise RagbenchError("paired_bootstrap needs at least one resample.")
    row: dict[str, Any] = {"confidence": level, "n_resamples": resamples, "seed": seed}
    values, weights, every, lost = _differences(x, y, counts)
    n = int(weights.sum())
    row |= {"n": n, "n_lost": lost}
    if not n:
        return one_row(_BOOTSTRAP, {**row, "note": notes("no pairs", lost_note(lost))})
    mean = float(values @ weights) / n
    row |= {"diff": mean, "se": math.sqrt(float(((values - mean) ** 2) @ weights)) / n}
    if every is not None:
        row |= {"method": "resampled", **_resampled(every, resamples, level, seed)}
        return one_row(_BOOTSTRAP, {**row, "note": lost_note(lost)})
    row["method"] = "multinomial"
    if len(values) == 1:
        row |= {"se": 0.0, "low": mean, "high": mean}
        note = notes(_alike(n, mean), lost_note(lost))
        return one_row(_BOOTSTRAP, {**row, "note": note})
    drawn = np.random.default_rng(seed).multinomial(n, weights / n, size=resamples)
    low, high = np.quantile(drawn @ values / n, [(1 - level) / 2, (1 + level) / 2])
    return one_row(_BOOTSTRAP, {**row, "low": low, "high": high, "note": lost_note(lost)})


def _alike(n: int, difference: float) -> str:
    if n == 1:
        return "one pair: the zero width is no precision"
    what = "no pair differs" if difference == 0 else "all differences are equal"
    return f"degenerate: {what}, the zero width is no precision"


def _differences(
    x: Any, y: Any, counts: Sequence[int] | None
) -> tuple[Array, Array, Array | None, int]:
    """Distinct differences and how often each occurs; all of them where they are too many."""
    if counts is not None:
        if x is not None or y is not None or len(counts) != 4:
            raise RagbenchError(
                "paired_bootstrap takes two sides, or counts=(both, only_a, only_b, neither)."
            )
        both, only_a, only_b, neither = (whole(k, "counts", "paired_bootstrap") for k in counts)
        values, weights, lost = (
            np.array([1.0, 0.0, -1.0]),
            np.array([only_a, both + neither, only_b]),
            0,
        )
    else:
        pairs = paired_values(x, y, "paired_bootstrap")
        gap, lost = pairs.x - pairs.y, pairs.lost
        if _is_binary(pairs.x) and _is_binary(pairs.y):
            values = np.array([-1.0, 0.0, 1.0])
            weights = np.bincount((gap + 1).astype(np.intp), minlength=3)
        elif len(gap) and is_constant(gap, pairs.x, pairs.y):
            values, weights = np.array([float(gap.mean())]), np.array([len(gap)])
        else:
            values, weights = np.unique(gap, return_counts=True)
            if len(values) > _MULTINOMIAL_UP_TO:
                return values, weights, gap, lost
    kept = weights > 0
    return values[kept], weights[kept], None, lost


def _resampled(gap: Array, resamples: int, level: float, seed: int) -> dict[str, float]:
    from scipy.stats import bootstrap

    limits = bootstrap(
        (gap,),
        np.mean,
        n_resamples=resamples,
        batch=50,  # the default builds the whole index matrix: 2.3 GB at n = 10,000
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return {"low": limits.low, "high": limits.high}


_PAIRED_T = {
    **columns(pl.Int64, "n n_lost"),
    "alternative": pl.String,
    **columns(pl.Float64, "mean_diff t"),
    "df": pl.Int64,
    **columns(pl.Float64, "p_value low high confidence d_z d_av"),
    "note": pl.String,
}


def paired_t(
    x: Any, y: Any, *, alternative: str = "two-sided", confidence: float = 0.95
) -> pl.DataFrame:
    """Paired t-test of `x` - `y`, with both of Cohen's d for paired scores.

    `d_z` is the mean difference over the standard deviation of the differences; `d_av` over the
    root of the mean variance of the two sides; both keep their sign. The interval is two-sided
    whatever the alternative. Differences that are all equal have no t, p or interval.

    >>> paired_t([5.5, 2.4, 6.8, 9.6, 4.2], [6.4, 3.4, 6.4, 11.0, 4.8])["d_z"].round(2).item()
    -1.03
    """
    chosen("alternative", alternative, ALTERNATIVES, "paired_t")
    level = share(confidence, "confidence", "paired_t")
    pairs = paired_values(x, y, "paired_t")
    n, lost = len(pairs.x), lost_note(pairs.lost)
    row: dict[str, Any] = {"n": n, "n_lost": pairs.lost, "confidence": level}
    row["alternative"] = alternative
    if n < 2:
        row["mean_diff"] = float((pairs.x - pairs.y)[0]) if n else None
        return one_row(_PAIRED_T, {**row, "note": notes("fewer than two pairs", lost)})
    gap = pairs.x - pairs.y
    row |= {"mean_diff": float(gap.mean()), "df": n - 1}
    row["d_av"] = _effect(pairs, "cohen") if _varies(pairs) else None
    if is_constant(gap, pairs.x, pairs.y):
        note = notes("degenerate: all differences are equal, no t or p exists", lost)
        return one_row(_PAIRED_T, {**row, "note": note})
    from scipy.stats import ttest_rel

    with quiet():
        result = ttest_rel(pairs.x, pairs.y)
        row["p_value"] = ttest_rel(pairs.x, pairs.y, alternative=alternative).pvalue
    limits = result.confidence_interval(level)
    row |= {"t": result.statistic, "low": limits.low, "high": limits.high, "note": lost}
    row["d_z"] = _effect(pairs, "cohen_dz")
    return one_row(_PAIRED_T, row)


def _varies(pairs: Pairs) -> bool:
    return not (is_constant(pairs.x) and is_constant(pairs.y))


def _effect(pairs: Pairs, kind: str) -> float:
    with quiet():
        from pingouin import compute_effsize

        return float(compute_effsize(pairs.x, pairs.y, paired=True, eftype=kind))


def is_constant(values: Array, *scale: Array) -> bool:
    """All values equal but for rounding, judged on the size of the numbers they came from."""
    largest = max(float(np.abs(part).max()) for part in (values, *scale))
    return float(np.ptp(values)) <= 1e-12 * largest
