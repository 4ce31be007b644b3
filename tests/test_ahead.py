"""What is read ahead: for whom, how much of it, and what becomes of an error."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ragbench.ahead import AT_A_TIME, read_ahead


@pytest.mark.parametrize("count", [0, 1, AT_A_TIME, 2 * AT_A_TIME + 1])
def test_each_comes_in_order_with_what_was_read_for_it(count: int) -> None:
    found = list(read_ahead(range(count), set))
    assert [one for one, _ in found] == list(range(count))
    assert all(one in texts and len(texts) <= AT_A_TIME for one, texts in found)


def test_no_more_than_one_part_is_read_ahead() -> None:
    parts: list[int] = []

    def read(part: Sequence[int]) -> None:
        parts.append(part[0])

    coming = read_ahead(range(5 * AT_A_TIME), read)
    assert parts == []
    for number in range(AT_A_TIME + 1):
        assert next(coming)[0] == number
    coming.close()  # waits for what is being read
    assert parts == [0, AT_A_TIME, 2 * AT_A_TIME]


def test_what_cannot_be_read_stops_nothing_that_comes_before_it() -> None:
    def read(part: Sequence[int]) -> None:
        if part[0]:
            raise OSError("the disk is gone")

    coming = read_ahead(range(2 * AT_A_TIME), read)
    for _ in range(AT_A_TIME):
        next(coming)
    with pytest.raises(OSError, match="the disk is gone"):
        next(coming)
