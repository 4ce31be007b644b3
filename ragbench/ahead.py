"""Texts for many calls: read some at a time, ahead of their use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

T = TypeVar("T")
Texts = TypeVar("Texts")

AT_A_TIME = 100
"""What texts are held for: all of a study's may not fit into memory."""


@contextlib.contextmanager
def read_ahead(
    given: Sequence[T], read: Callable[[Sequence[T]], Texts]
) -> Iterator[Iterator[tuple[T, Texts]]]:
    """Each of `given` with what `read` found for it and its neighbours, within the block.

    A thread reads for the first ones at once and then for the next ones, so that no call that is
    under way has to wait. When the block has ended nothing is being read any more.
    """
    parts = [given[start : start + AT_A_TIME] for start in range(0, len(given), AT_A_TIME)]
    with ThreadPoolExecutor(1, thread_name_prefix="texts") as thread:

        def begin(some: Sequence[Sequence[T]]) -> list[Callable[[], Texts]]:
            try:
                return [thread.submit(read, part).result for part in some]
            except RuntimeError:  # no thread does anything for others once the main one has ended
                return [partial(read, part) for part in some]

        def found(coming: list[Callable[[], Texts]]) -> Iterator[tuple[T, Texts]]:
            for number, part in enumerate(parts, start=1):
                texts = coming.pop()()
                coming += begin(parts[number : number + 1])
                yield from ((one, texts) for one in part)

        yield found(begin(parts[:1]))
