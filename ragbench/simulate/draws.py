"""Random numbers that are the same on every machine.

Each part of the study has a stream of its own, named; only uniform numbers are drawn, and only
added and multiplied afterwards, so that no result hangs on a processor's way to compute a
logarithm. Whatever has to be met exactly is met in whole numbers (`fit`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


def stream(seed: int, name: str) -> np.random.Generator:
    """The generator of one part of the study."""
    words = [seed, zlib.crc32(name.encode())]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def bell(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers of mean 0 and variance 1, nearly normal: a sum of four uniforms."""
    total = rng.random(shape)
    for _ in range(3):
        total = total + rng.random(shape)
    return (total - 2.0) * 1.7320508075688772


def order(values: Array) -> Array:
    """Indices from the highest value to the lowest; equal values in their order."""
    return np.argsort(-values, kind="stable")


def pick(rng: np.random.Generator, options: Array, count: int) -> Array:
    """`count` of `options` without repetition, sorted."""
    return np.sort(options[order(rng.random(len(options)))[:count]])


def categories(rng: np.random.Generator, weights: Sequence[float], count: int) -> Array:
    """`count` indices into `weights`, drawn in proportion to them."""
    edges = np.array([sum(weights[: i + 1]) for i in range(len(weights))])
    drawn = np.searchsorted(edges, rng.random(count) * edges[-1], side="right")
    return np.minimum(drawn, len(weights) - 1)
