"""The only package that calls a model.

`work` has jobs call one endpoint, as many at once as it bears, and hands over each result when it
is there. It runs an event loop in a thread of its own, so scripts, notebooks and tests call it
alike. `complete` is one call, for code that is async itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import signal
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from types import FrameType
from typing import Any, Generic, TypeVar

from ragbench.arguments import whole
from ragbench.errors import ModelUnavailable, RagbenchError
from ragbench.hiding import hide
from ragbench.llm.endpoints import Failure, Messages, Send, Target, opened, place_of, target
from ragbench.llm.limits import Budget, Limiter, Retry, Tally
from ragbench.llm.replies import Reply

__all__ = ["Ask", "Reply", "Retry", "Tally", "complete", "work"]

Ask = Callable[..., Awaitable[Reply]]
"""`await ask(messages, **parameters)`: a `Reply`, whatever the endpoint does."""

T = TypeVar("T")
Job = Callable[[Ask], Awaitable[T]]


async def complete(
    messages: Messages,
    model: str,
    *,
    base_url: str | None = None,
    key_env: str | None = None,
    timeout: float = 300.0,
    retry: Retry = Retry(),  # noqa: B008 (a tuple)
    **parameters: Any,
) -> Reply:
    """The reply of `model` to one request; `parameters` are sent along (temperature, …).

    Raises:
        ModelUnavailable: no call to this model can succeed.
    """
    whom = await asyncio.to_thread(
        target, model, base_url=base_url, key_env=key_env, timeout=timeout, parameters=parameters
    )
    async with opened(whom) as send:
        caller = _Caller(whom, send, Limiter(1), retry, Tally())
        try:
            return await caller.complete(messages)
        except _GivenUp as given_up:
            raise ModelUnavailable(str(given_up)) from None


def work(
    model: str,
    jobs: Iterable[Job[T] | Future[Any]],
    keep: Callable[[T], object],
    *,
    base_url: str | None = None,
    key_env: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    concurrency: int | None = None,
    budget: Mapping[str, float] | None = None,
    prices: Mapping[str, float] | None = None,
    timeout: float = 300.0,
    retry: Retry = Retry(),  # noqa: B008 (a tuple)
    progress: Callable[[Tally], object] | None = None,
) -> Tally:
    """What the jobs came to. Each job is given `ask` and its result goes to `keep` at once.

    `keep` is called in the calling thread, in the order in which jobs end. A job whose calls the
    endpoint was too busy for is left out, as are those that a used-up budget or Ctrl-C leaves: the
    tally says so, and what is finished has been kept.

    Args:
        jobs: a future among them is waited for before the next is taken, while calls go on.
        model: `local/smollm2`; a name that litellm knows (`openai/…`, `anthropic/…`); or with
            `base_url` any name that this OpenAI-compatible endpoint knows.
        key_env: the environment variable that holds the key (with `base_url`: OPENAI_API_KEY).
        parameters: sent with every call: temperature, max_tokens, …
        concurrency: calls at once at most; None: as many as the endpoint bears.
        budget: any of `cost` (US dollars), `tokens`, `minutes`.
        prices: US dollars per million tokens: input, output, and cached.
        timeout: seconds for one try.
        progress: called now and then with the tally so far.

    Raises:
        ModelUnavailable: no call to this model can succeed; what was finished before is kept.
        RagbenchError: the budget cannot be kept, since what a call takes is not known.
    """
    whom = target(
        model,
        base_url=base_url,
        key_env=key_env,
        timeout=timeout,
        parameters=parameters,
        prices=prices,
    )
    if concurrency is not None:
        whole("concurrency", concurrency)
    most = min(filter(None, (concurrency, whom.most)), default=None)
    drive = _Drive(whom, jobs, Limiter(most), retry, Budget(budget))
    return drive.run(keep, progress or (lambda tally: None))


class _GivenUp(asyncio.CancelledError):
    """Ends a job that cannot be finished: it stays pending. No job may catch it by accident."""


class _Caller:
    """Calls to one endpoint: places, tries, and what they came to."""

    def __init__(
        self, whom: Target, send: Send, limiter: Limiter, retry: Retry, tally: Tally
    ) -> None:
        self.whom, self.send, self.limiter, self.retry = whom, send, limiter, retry
        self.tally = tally
        self.has_answered = False
        self.fatal: Failure | None = None

    async def complete(self, messages: Messages, **parameters: Any) -> Reply:
        """The reply to one request.

        Raises:
            _GivenUp: the endpoint stays busy, or nothing can succeed (`fatal` says why).
        """
        tries: Counter[str] = Counter()
        given = {**self.whom.parameters, **parameters}
        while True:
            began = await self.limiter.enter()
            try:
                if self.fatal:
                    raise _GivenUp(self.fatal.text)
                reply = await self.send(messages, given)
            except Failure as failure:
                tries[failure.kind] += 1
                if failure.kind == "busy":
                    self.limiter.busy(began, failure.wait)
                wait = self._wait(failure, tries)
                if wait is None:
                    return self._ended(self._lost(failure, tries))
            else:
                self.has_answered = True
                self.limiter.answered()
                return self._ended(reply)
            finally:
                self.limiter.leave()
            self.tally.retries += 1
            await asyncio.sleep(wait)

    def _wait(self, failure: Failure, tries: Counter[str]) -> float | None:
        """Seconds until the next try; None when there is none."""
        many = {
            "busy": self.retry.busy,
            "broken": self.retry.failures,
            "timeout": self.retry.timeouts,
            "unreachable": self.retry.failures if self.has_answered else 2,
        }.get(failure.kind, 0)
        if tries[failure.kind] > many or (failure.wait or 0) > _LONGEST_PAUSE:
            return None
        # The limiter makes all wait that long; together they would come back as one crowd.
        return self.retry.wait(tries[failure.kind] - 1) if not failure.wait else 0.0

    def _lost(self, failure: Failure, tries: Counter[str]) -> Reply:
        if failure.kind in ("unusable", "unreachable"):
            self.fatal = self.fatal or failure
            raise _GivenUp(failure.text)
        if failure.kind == "busy":
            raise _GivenUp(failure.text)
        many = sum(tries.values())
        error = failure.text + (f" ({many} tries)" if many > 1 else "")
        return Reply(error=error, endpoint=place_of(self.whom))

    def _ended(self, reply: Reply) -> Reply:
        tally = self.tally
        tally.calls += 1
        tally.errors += reply.error is not None
        tally.input_tokens += reply.input_tokens or 0
        tally.cached_tokens += reply.cached_tokens or 0
        tally.output_tokens += reply.output_tokens or 0
        if reply.cost is not None:
            tally.cost = (tally.cost or 0.0) + reply.cost
        return reply


_LONGEST_PAUSE = 900.0
"""Seconds: an endpoint that wants more has told us to come back another day."""


class _Drive(Generic[T]):
    """One `work`: an event loop in a thread makes calls, the calling thread keeps results."""

    def __init__(
        self,
        whom: Target,
        jobs: Iterable[Job[T] | Future[Any]],
        limiter: Limiter,
        retry: Retry,
        budget: Budget,
    ) -> None:
        self.whom, self.jobs, self.limiter, self.retry = whom, jobs, limiter, retry
        self.budget, self.tally = budget, Tally()
        self.results: queue.SimpleQueue[T | _Sign] = queue.SimpleQueue()
        self.tasks: set[asyncio.Task[T]] = set()
        self.grace: float | None = None  # seconds for what is in flight when work stops
        self.failed: BaseException | None = None
        self.held: list[T] = []  # error results while nothing has succeeded since

    # ------------------------------------------------ the calling thread

    def run(self, keep: Callable[[T], object], progress: Callable[[Tally], object]) -> Tally:
        began = time.monotonic()
        self.loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._in_thread, name="ragbench calls", daemon=True)
        thread.start()
        stopped: BaseException | None = None
        with self._interrupts():
            while not isinstance(found := self._next(), _End):
                try:
                    if isinstance(found, _Interrupt):
                        self._ask_to_stop(0.0 if stopped else _GRACE)
                        stopped = stopped or KeyboardInterrupt()
                    elif not isinstance(found, _Sign) and not isinstance(stopped, Exception):
                        keep(found)
                        self.tally.done += 1
                    progress(self.tally)
                except BaseException as error:  # what `keep` could not store
                    stopped = stopped or error
                    self._ask_to_stop(0.0)
        thread.join()
        self.tally.seconds = time.monotonic() - began
        if stopped or self.failed:
            raise stopped or self.failed  # type: ignore[misc]
        return self.tally

    def _next(self) -> T | _Sign:
        try:
            return self.results.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            return _Tick()

    def _ask_to_stop(self, grace: float) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            self.loop.call_soon_threadsafe(self._stop, "stopped", grace)

    @contextlib.contextmanager
    def _interrupts(self) -> Iterator[None]:
        """Take Ctrl-C as a request, so that it never falls between an answer and its storing.

        The second one does not wait for what is in flight, the third does what it always does.
        """
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return
        count = 0

        def note(number: int, frame: FrameType | None) -> None:
            nonlocal count
            count += 1
            if count > 2:
                before(number, frame)
            self.results.put(_Interrupt())

        signal.signal(signal.SIGINT, note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _in_thread(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
                runner.run(self._drive())
        except BaseException as error:
            self.failed = self.failed or error
        finally:
            self.results.put(_End())

    # ------------------------------------------------ the thread of the loop

    async def _drive(self) -> None:
        self.wake = asyncio.Event()
        if (seconds := self.budget.seconds_left) is not None:
            why = f"the budget of {self.budget.limits['minutes']:g} minutes is used up"
            self.loop.call_later(seconds, self._stop, why, _GRACE)
        async with opened(self.whom) as send:
            self.caller = _Caller(self.whom, send, self.limiter, self.retry, self.tally)
            jobs = iter(self.jobs)
            while await self._has_room() and (job := await self._next_of(jobs)) is not None:
                task = self.loop.create_task(self._do(job))
                self.tasks.add(task)
                task.add_done_callback(self._ended)
                await asyncio.sleep(0)  # it is sent before the next one is made
            while self.tasks and (self.tally.stopped is None or self.grace is None):
                self.wake.clear()
                await self.wake.wait()
            if self.tasks:
                await asyncio.wait(self.tasks, timeout=self.grace)
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            if not self.failed:
                for result in self.held:
                    self.results.put(result)

    async def _next_of(self, jobs: Iterator[Job[T] | Future[Any]]) -> Job[T] | None:
        """The next job; None when there is none, or the work was stopped before it came."""
        for job in jobs:
            if not isinstance(job, Future):
                return job
            if not job.done():
                job.add_done_callback(self._wake)
            while not job.done():
                if self.tally.stopped is not None:
                    return None
                self.wake.clear()
                await self.wake.wait()
        return None

    def _wake(self, come: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended by itself
            self.loop.call_soon_threadsafe(self.wake.set)

    async def _has_room(self) -> bool:
        """Wait until one more job may start; false when none may any more."""
        while self.tally.stopped is None:
            if why := self.budget.unknown(self.tally):
                self.failed = self.failed or RagbenchError(f"{self.whom.model}: {why}.")
                self._stop("stopped", None)
                break
            if why := self.budget.exhausted(self.tally):
                self._stop(why, None)
                break
            room = self.limiter.limit if self.tally.calls or not self.budget.is_of_calls else 1
            if (busy := len(self.tasks)) < int(room) and (
                not busy or not self.budget.exhausted(self.tally, busy)
            ):
                return True
            self.wake.clear()
            await self.wake.wait()
        return False

    async def _do(self, job: Job[T]) -> T:
        errors: list[str] = []

        async def ask(messages: Messages, **parameters: Any) -> Reply:
            if self.grace is not None and not errors:  # grace is for what was sent
                raise _GivenUp(self.tally.stopped)
            length = sum(len(str(part.get("content"))) for part in messages)
            with self.budget.counted(length) as took:
                reply = await self.caller.complete(messages, **parameters)
                took(reply.cost, (reply.input_tokens or 0) + (reply.output_tokens or 0))
            errors.append(reply.error or "")
            return reply

        result = await job(ask)
        self._sort(result, errors)
        return result

    def _sort(self, result: T, errors: list[str]) -> None:
        """Hand a result over; errors wait until it is sure that not everything fails."""
        if not errors or not errors[-1]:
            for held in self.held:
                self.results.put(held)
            self.held = []
            self.results.put(result)
            return
        self.held.append(result)
        if len(self.held) >= _HOPELESS:
            self._fail(f"{len(self.held)} calls in a row failed, the last with: {errors[-1]}")

    def _ended(self, task: asyncio.Task[T]) -> None:
        self.tasks.discard(task)
        if self.caller.fatal:
            self._fail(self.caller.fatal.text)
        elif task.cancelled():
            self.tally.left += 1
        elif error := task.exception():
            self.failed = self.failed or error
            self._stop("stopped", 0.0)
        self.wake.set()

    def _fail(self, text: str) -> None:
        self.failed = self.failed or ModelUnavailable(f"{self.whom.model}: {hide(text)}")
        self._stop("stopped", _GRACE)

    def _stop(self, why: str, grace: float | None) -> None:
        self.tally.stopped = self.tally.stopped or why
        if grace is not None:
            self.grace = grace if self.grace is None else min(grace, self.grace)
        self.wake.set()


class _Sign:
    """What comes among the results and is none."""


class _Tick(_Sign):
    """Nothing has come for a while."""


class _Interrupt(_Sign):
    """Ctrl-C."""


class _End(_Sign):
    """No more results."""


_TICK_SECONDS = 0.5
_GRACE = 3.0
"""Seconds for calls in flight, which have been paid for, when work is stopped."""
_HOPELESS = 20
"""So many errors in a row, and none of them is stored: the fault is not in the requests."""
