"""How hard an endpoint is pressed: calls at once, waits between tries, budgets."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from ragbench.arguments import amount
from ragbench.errors import UnknownName


class Retry(NamedTuple):
    """How often a call is tried again, and after how many seconds."""

    failures: int = 5  # server errors, dropped connections, bodies that cannot be read
    timeouts: int = 2
    busy: int = 40  # told to come back later; after that the call stays pending
    first_wait: float = 0.5  # doubled with every try, and a random part of it is waited
    longest_wait: float = 60.0

    def wait(self, tries: int) -> float:
        """Seconds before the next try, drawn at random so that calls do not come back together."""
        return random.uniform(0.1, 1.0) * min(self.longest_wait, self.first_wait * 2.0**tries)


class Limiter:
    """Calls at once to one endpoint: more while it answers, fewer when it says that it is busy.

    The number doubles per round of answers until the endpoint is busy for the first time, and
    grows by one per round from then on. Being busy takes away a third, once per round.
    """

    def __init__(self, most: int | None) -> None:
        self.most = most or _MOST
        self.limit = float(most or _FIRST)
        self.in_flight = 0
        self._is_starting = True
        self._resume_at = 0.0  # nothing is sent before
        self._shrunk_at = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> float:
        """Wait for a place; the moment at which it was got."""
        while (pause := self._resume_at - time.monotonic()) > 0 or self.in_flight >= int(
            self.limit
        ):
            if pause > 0:
                await asyncio.sleep(pause)
                continue
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._wake()  # the place goes to another
                raise
        self.in_flight += 1
        return time.monotonic()

    def leave(self) -> None:
        self.in_flight -= 1
        self._wake()

    def answered(self) -> None:
        if self.limit < self.most:
            self.limit = min(self.most, self.limit + (1 if self._is_starting else 1 / self.limit))
            self._wake()

    def busy(self, since: float, wait: float | None) -> None:
        """A call that was sent at `since` was told to come back later, perhaps after `wait`."""
        self._is_starting = False
        if since >= self._shrunk_at:  # the others of that round say nothing new
            self.limit = max(1.0, self.limit * 2 / 3)
            self._shrunk_at = time.monotonic()
        if wait is not None:
            self._resume_at = max(self._resume_at, time.monotonic() + wait)

    def _wake(self) -> None:
        for _ in range(max(0, int(self.limit) - self.in_flight)):
            while self._waiting:
                place = self._waiting.popleft()
                if not place.done():
                    place.set_result(None)
                    break


_FIRST, _MOST = 8, 256


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the headers ask to wait: a number or a date; None when they do not say.

    >>> retry_after({"Retry-After": "1.5"}), retry_after({"retry-after-ms": "200"})
    (1.5, 0.2)
    >>> retry_after({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), retry_after({})
    (0.0, None)
    """
    given = {name.lower(): value for name, value in headers.items()}
    if (text := given.get("retry-after-ms")) and (number := _number(text)) is not None:
        return number / 1000
    text = given.get("retry-after", "").strip()
    if not text or (number := _number(text)) is not None:
        return number if text else None
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return max(0.0, number) if number < float("inf") else None


@dataclass
class Tally:
    """What a piece of work came to. `stopped` says why it ended early, if it did."""

    done: int = 0  # jobs whose result was kept
    left: int = 0  # jobs given up because the endpoint stayed busy; they are still pending
    calls: int = 0  # that came to an end, errors among them
    errors: int = 0
    retries: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None  # US dollars; None while no price is known
    seconds: float = 0.0
    stopped: str | None = None


class Budget:
    """What may be spent: `cost` in US dollars, `tokens`, `minutes`; any of them.

    Raises:
        UnknownName: a key that is none of these.
        RagbenchError: an amount that is not above zero.
    """

    def __init__(self, given: Mapping[str, float] | None) -> None:
        self.limits = dict(given or {})
        self.began = time.monotonic()
        self._squares = {"cost": 0.0, "tokens": 0.0}
        self._length = self._length_in_flight = 0
        for name, most in self.limits.items():
            if name not in _UNITS:
                raise UnknownName("limit", name, _UNITS, place="budget")
            amount(f"budget {name}", most)

    @contextlib.contextmanager
    def counted(self, length: int) -> Iterator[Callable[[float | None, int], None]]:
        """For one call whose messages are so long; what it took is told to what this gives."""

        def took(cost: float | None, tokens: int) -> None:
            self._length += length
            self._squares["cost"] += (cost or 0.0) ** 2
            self._squares["tokens"] += tokens**2

        self._length_in_flight += length
        try:
            yield took
        finally:
            self._length_in_flight -= length

    def exhausted(self, tally: Tally, in_flight: int = 0) -> str | None:
        """Why nothing more may be sent while so many calls are in flight, or None.

        They are longer than those that have ended: a call twice as long is met there twice as
        often. So each counts as much as the mean in which every call weighs what it took, and
        twice, since calls that ended first were short; at least as much as its messages are long.
        Near the end fewer are sent at once.
        """
        spent = {
            "cost": tally.cost or 0.0,
            "tokens": float(tally.input_tokens + tally.output_tokens),
            "minutes": (time.monotonic() - self.began) / 60,
        }
        for name, most in self.limits.items():
            coming = 0.0
            if in_flight and spent[name] and (squares := self._squares.get(name)):
                by_length = self._length_in_flight * spent[name] / max(self._length, 1)
                coming = max(2 * in_flight * squares / spent[name], by_length)
            if spent[name] + coming >= most:
                return f"the budget of {most:g} {_UNITS[name]} is used up"
        return None

    def unknown(self, tally: Tally) -> str | None:
        """Why the budget cannot be kept: calls succeeded, and nobody knows what they took."""
        if tally.calls == tally.errors:
            return None
        if "cost" in self.limits and tally.cost is None:
            return "no price is known, so a budget of cost cannot be kept; give prices=, or tokens"
        if "tokens" in self.limits and not tally.input_tokens + tally.output_tokens:
            return "the endpoint reports no tokens, so a budget of them cannot be kept"
        return None

    @property
    def is_of_calls(self) -> bool:
        """Whether what one call takes has to be known: then a first one goes alone."""
        return bool({"cost", "tokens"} & set(self.limits))

    @property
    def seconds_left(self) -> float | None:
        """Until the budget of minutes ends; None without one."""
        if "minutes" not in self.limits:
            return None
        return max(0.0, self.began + 60 * self.limits["minutes"] - time.monotonic())


_UNITS = {"cost": "US dollars", "tokens": "tokens", "minutes": "minutes"}
