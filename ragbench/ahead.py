"""Texts for many calls: read some at a time, ahead of their use."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from types import FrameType
from typing import Any, TypeVar

import duckdb

T = TypeVar("T")
Texts = TypeVar("Texts")
Job = TypeVar("Job")

AT_A_TIME = 100
"""What texts are held for: all of a study's may not fit into memory."""


@contextlib.contextmanager
def read_ahead(
    con: duckdb.DuckDBPyConnection,
    given: Sequence[T],
    read: Callable[[duckdb.DuckDBPyConnection, Sequence[T]], Texts],
) -> Iterator[Iterator[tuple[T, Future[Texts]]]]:
    """Each of `given` with what `read` will find for it and its neighbours, within the block.

    A thread reads for the first ones at once and then for the next ones, with a cursor of its own,
    so that no call that is under way has to wait. When the block has ended nothing is being read
    any more: what is, is interrupted.
    """
    parts = [given[start : start + AT_A_TIME] for start in range(0, len(given), AT_A_TIME)]
    cursor = con.cursor()
    unread: set[Future[Texts]] = set()
    with ThreadPoolExecutor(1, thread_name_prefix="texts") as thread:

        def begin(number: int) -> Future[Texts] | None:
            if number >= len(parts):
                return None
            texts = begun(thread, read, cursor, parts[number])
            unread.add(texts)
            texts.add_done_callback(unread.discard)
            return texts

        def found(coming: Future[Texts] | None) -> Iterator[tuple[T, Future[Texts]]]:
            for number, part in enumerate(parts, start=1):
                texts, coming = coming, begin(number)
                assert texts is not None
                yield from ((one, texts) for one in part)

        try:
            yield found(begin(0))
        finally:
            _interrupt(cursor, unread)


def begun(pool: Executor, call: Callable[..., T], *given: Any) -> Future[T]:
    """`call(*given)` in a thread of `pool`, or done here and now where that takes no more work.

    Once the main thread has ended no pool does.
    """
    try:
        with _undisturbed():
            return pool.submit(call, *given)
    except RuntimeError:
        done: Future[T] = Future()
        try:
            done.set_result(call(*given))
        except Exception as error:
            done.set_exception(error)
        return done


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C comes after the block: a thread that it meets at its start is never told to end."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield
        return
    met: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *given: met.append(given))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if met:
        usual(*met[0])


def jobs_of(
    coming: Iterator[tuple[T, Future[Texts]]], make: Callable[[T, Texts], Job]
) -> Iterator[Job | Future[Texts]]:
    """What `make` gives for each, behind the future that has its texts, for `llm.work`."""
    for one, texts in coming:
        yield texts
        yield make(one, texts.result())


def _interrupt(cursor: duckdb.DuckDBPyConnection, unread: set[Future[Texts]]) -> None:
    """Have all that is `unread` left so. Ctrl-C waits for that, as what is in use cannot be closed.

    Again and again, since a reading takes several statements.
    """
    try:
        while left := {texts for texts in tuple(unread) if not texts.cancel()}:
            cursor.interrupt()
            wait(left, timeout=0.1)
    except KeyboardInterrupt:
        _interrupt(cursor, unread)
        raise
