"""Texts are read some at a time, ahead of their use, in the order of their use."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import duckdb
import pytest

from ragbench.ahead import AT_A_TIME, begun, jobs_of, read_ahead


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        yield found


def whole(cursor: Any, part: Sequence[int]) -> set[int]:
    return set(part)


@pytest.mark.parametrize("count", [0, 1, AT_A_TIME, 2 * AT_A_TIME + 1])
def test_each_comes_in_order_with_what_was_read_for_it(con: Any, count: int) -> None:
    with read_ahead(con, range(count), whole) as coming:
        found = [(one, texts.result()) for one, texts in coming]
    assert [one for one, _ in found] == list(range(count))
    assert all(one in texts and len(texts) <= AT_A_TIME for one, texts in found)


def test_no_more_than_one_part_is_read_ahead(con: Any) -> None:
    parts = []
    read = threading.Semaphore(0)

    def note(cursor: Any, part: Sequence[int]) -> None:
        parts.append(part[0])
        read.release()

    with read_ahead(con, range(5 * AT_A_TIME), note) as coming:
        for number in range(AT_A_TIME + 1):
            assert next(coming)[0] == number
        for _ in range(3):
            assert read.acquire(timeout=30)
    assert parts == [0, AT_A_TIME, 2 * AT_A_TIME]


def test_the_first_are_read_before_they_are_asked_for(con: Any) -> None:
    began = threading.Event()
    with read_ahead(con, [1], lambda cursor, part: began.set()):
        assert began.wait(30)


def test_a_job_is_made_once_its_texts_are_there(con: Any) -> None:
    """And not before: whoever takes the jobs is given the future of the texts to wait for."""
    may_read = threading.Event()

    def read(cursor: Any, part: Sequence[int]) -> set[int]:
        assert may_read.wait(30)
        return set(part)

    with read_ahead(con, [1, 2], read) as coming:
        jobs = jobs_of(coming, lambda one, texts: f"{one} of {len(texts)}")
        future = next(jobs)
        assert isinstance(future, Future)
        assert not future.done()
        may_read.set()
        assert future.result(30) == {1, 2}
        assert [job for job in jobs if not isinstance(job, Future)] == ["1 of 2", "2 of 2"]


# ---------------------------------------------------------------- the end of the block


def test_what_is_being_read_when_the_block_ends_is_interrupted(con: Any) -> None:
    """And the next part is not begun, so that the connection can be closed at once."""
    began, ends = threading.Event(), []

    def read(cursor: Any, part: Sequence[int]) -> None:
        began.set()
        for _ in range(2):  # the next statement is interrupted, too
            try:
                cursor.execute(
                    "SELECT count(*) FROM range(100000) AS a, range(100000) AS b "
                    "WHERE a.range * b.range % 7 = 3"
                )
            except duckdb.InterruptException:
                ends.append(part[0])

    with read_ahead(con, range(2 * AT_A_TIME), read) as coming:
        next(coming)
        assert began.wait(30)
    con.close()
    assert ends == [0, 0]


IMPATIENT = """
import duckdb, signal, threading, time
from ragbench.ahead import read_ahead

began, is_over = threading.Event(), threading.Event()

def read(cursor, part):
    began.set()
    for _ in range(3):
        time.sleep(0.3)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    time.sleep(0.3)
    is_over.set()

try:
    with read_ahead(duckdb.connect(), [1], read):
        began.wait()
except KeyboardInterrupt:
    print("stopped", is_over.is_set())
"""


def test_ctrl_c_does_not_end_the_block_before_the_reading() -> None:
    """However often it comes: what is being read from cannot be closed."""
    done = subprocess.run([sys.executable, "-c", IMPATIENT], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("stopped True\n", "")


def test_what_cannot_be_read_stops_nothing_that_comes_before_it(con: Any) -> None:
    def read(cursor: Any, part: Sequence[int]) -> None:
        if part[0]:
            raise OSError("the disk is gone")

    with read_ahead(con, range(2 * AT_A_TIME), read) as coming:
        for _ in range(AT_A_TIME):
            next(coming)[1].result()
        with pytest.raises(OSError, match="the disk is gone"):
            next(coming)[1].result()


class Met(ThreadPoolExecutor):
    """Ctrl-C comes while the first thread is being started."""

    has_begun = False

    def submit(self, *given: Any, **named: Any) -> Future[Any]:
        signal.raise_signal(signal.SIGINT)
        self.has_begun = True
        return super().submit(*given, **named)


def test_ctrl_c_does_not_fall_into_the_start_of_a_thread() -> None:
    """Python tells such a thread never to end, and waits for it when the process does."""
    with Met(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            begun(pool, int)
        assert pool.has_begun
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
