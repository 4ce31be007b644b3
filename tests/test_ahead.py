"""What is read ahead: for whom, how much of it, and what becomes of an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from ragbench.ahead import AT_A_TIME, read_ahead


@pytest.mark.parametrize("count", [0, 1, AT_A_TIME, 2 * AT_A_TIME + 1])
def test_each_comes_in_order_with_what_was_read_for_it(count: int) -> None:
    with read_ahead(range(count), set) as coming:
        found = list(coming)
    assert [one for one, _ in found] == list(range(count))
    assert all(one in texts and len(texts) <= AT_A_TIME for one, texts in found)


def test_no_more_than_one_part_is_read_ahead() -> None:
    parts: list[int] = []

    def read(part: Sequence[int]) -> None:
        parts.append(part[0])

    with read_ahead(range(5 * AT_A_TIME), read) as coming:
        for number in range(AT_A_TIME + 1):
            assert next(coming)[0] == number
    assert parts == [0, AT_A_TIME, 2 * AT_A_TIME]  # the block waited for what was being read


def test_the_first_are_read_before_they_are_asked_for() -> None:
    began = threading.Event()
    with read_ahead([1], lambda part: began.set()):
        assert began.wait(30)


def test_nothing_is_read_any_more_when_the_block_has_ended() -> None:
    """Not even where nobody took anything: what is read from may be closed then."""
    is_over = False
    late = []

    def read(part: Sequence[int]) -> None:
        time.sleep(0.05)
        late.append(is_over)

    with pytest.raises(KeyError), read_ahead([1], read):
        raise KeyError
    is_over = True
    assert late == [False]


def test_what_cannot_be_read_stops_nothing_that_comes_before_it() -> None:
    def read(part: Sequence[int]) -> None:
        if part[0]:
            raise OSError("the disk is gone")

    with read_ahead(range(2 * AT_A_TIME), read) as coming:
        for _ in range(AT_A_TIME):
            next(coming)
        with pytest.raises(OSError, match="the disk is gone"):
            next(coming)
