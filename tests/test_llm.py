"""Calls to a real server on loopback: what comes back, what is tried again, what ends the work."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from llm_server import ASKED_AGAIN, Running, request_of, running

import ragbench
from ragbench.errors import ModelUnavailable, RagbenchError, UnknownName
from ragbench.llm import Reply, Retry, complete, work
from ragbench.llm.endpoints import Key, shown
from ragbench.llm.limits import Budget, Limiter, Tally, retry_after
from ragbench.llm.replies import priced, read_reply, split_reasoning

QUICK = Retry(first_wait=0.01, longest_wait=0.1)
KEY = "sk-a-fake-key-of-the-tests-0123456789"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("server")) as found:
        yield found


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def job(text: str, **parameters: Any) -> Callable[[Any], Any]:
    async def run(ask: Any) -> tuple[str, Reply]:
        return text, await ask(said(text), **parameters)

    return run


def replies(
    server: Running, model: str, texts: list[str], **options: Any
) -> tuple[dict[str, Reply], Tally]:
    kept: list[tuple[str, Reply]] = []
    options = {"base_url": server.base_url, "retry": QUICK, "timeout": 10, **options}
    tally = work(model, [job(text) for text in texts], kept.append, **options)
    assert len(kept) == len(dict(kept)) == tally.done
    return dict(kept), tally


def one(server: Running, model: str, text: str = "", **options: Any) -> Reply:
    name = text or f"a question to {model}"
    return replies(server, model, [name], **options)[0][name]


# ---------------------------------------------------------------- what comes back


def test_a_reply_says_what_it_took_and_who_gave_it(server: Running) -> None:
    reply = one(server, "ok", "x" * 400, prices={"input": 1, "cached": 0.1, "output": 10})
    assert reply.text is not None
    assert reply.text.startswith("answer ")
    assert (reply.finish, reply.error, reply.reasoning) == ("stop", None, None)
    assert (reply.input_tokens, reply.cached_tokens) == (100, 50)
    assert (reply.output_tokens, reply.reasoning_tokens) == (7, 3)
    assert reply.cost == pytest.approx((50 * 1 + 50 * 0.1 + 7 * 10) / 1e6)
    assert reply.version == "served-2026-11-30"
    assert reply.endpoint == f"{server.base_url}#served-2026-11-30"
    assert reply.seconds is not None
    assert 0 < reply.seconds < 10


@pytest.mark.parametrize(
    ("model", "text", "reasoning", "finish", "says"),
    [
        ("think", "答案", "用了！感叹号", "stop", None),
        ("reasoning", "答案", "用了！感叹号", "stop", None),
        ("unclosed", None, "and then", "length", "max_tokens"),
        ("length", "cut o", None, "length", None),
        ("refused", "I will not.", None, "refused", None),
        ("stopped", None, None, "filtered", "filtered"),
        ("filtered", None, None, "filtered", "the prompt was stopped"),
        ("empty", None, None, "empty", "empty"),
        ("parts", "one two", None, "stop", None),
        ("thinking", "答案", "用了！感叹号", "stop", None),
    ],
)
def test_ends_are_told_apart_and_reasoning_is_kept_apart(
    server: Running, model: str, text: str, reasoning: str, finish: str, says: str
) -> None:
    reply = one(server, model)
    assert (reply.text, reply.reasoning, reply.finish) == (text, reasoning, finish)
    assert (reply.error is None) == (says is None)
    assert says is None or says in (reply.error or "")


@pytest.mark.parametrize(
    ("text", "answer", "thought"),
    [
        ("<think>a</think>b", "b", "a"),
        ("\n<THINK>a</think>\n\nb", "b", "a"),
        ("<think>a</think><think>c</think>b", "b", "a\n\nc"),
        ("thought without an opening\n</think>\n\nb", "b", "thought without an opening"),
        ("<think></think>b", "b", None),
        ("<think>never closed", "", "never closed"),
        ("the opening was eaten</think>b", "b", "the opening was eaten"),
        ("eaten</think>\n\n</think>\nb", "b", "eaten"),
        ('<think type="deep">a</think>b', "b", "a"),
        ("<think>a <think>c</think> d</think>b", "b", "a <think>c\n\nd"),
        ("<think>I open with <think> now</think>b", "b", "I open with <think> now"),
        ("Okay. <think>a</think>b", "Okay. b", "a"),
        ("b <think>a</think>", "b", "a"),
        ("[THINK]a[/THINK]b", "b", "a"),
        ("◁think▷a◁/think▷b", "b", "a"),
        ("<|begin_of_thought|>a<|end_of_thought|>b", "b", "a"),
        ("<thinking>a</thinking>b", "b", "a"),
        ("<reasoning>a</reasoning>b", "b", "a"),
        ("<think>one ` of them</think>b with `code`", "b with `code`", "one ` of them"),
        ("<think>```\nx</think>b\n```\ny\n```", "b\n```\ny\n```", "```\nx"),
    ],
)
def test_thought_is_kept_apart_from_the_answer(text: str, answer: str, thought: str) -> None:
    assert split_reasoning(text) == (answer, thought)


@pytest.mark.parametrize(
    "text",
    [
        " b ",
        "Close it with `</think>`.",
        "Models write `<think>…</think>` first, and `` </think> `` ends it.",
        "So:\n```xml\n<think>a</think>\n```\nand no more.\n",
        "~~~\n</think>\n~~~\n",
        "It is <reasoning>sound</reasoning>, and <thinking>is</thinking> another tag.",
        "The tag <think> opens it.",
        "I think <b>this</b> [1] is <thinkable>.",
    ],
)
def test_what_only_speaks_of_tags_is_answer(text: str) -> None:
    assert split_reasoning(text) == (text, None)


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        ("max_output_tokens", "length"),
        ("model_length", "length"),
        ("MAX_TOKENS", "length"),
        ("Max_Length", "length"),
        ("incomplete", "length"),
        ("SAFETY", "filtered"),
        ("RECITATION", "filtered"),
        ("blocklist", "filtered"),
        ("PROHIBITED_CONTENT", "filtered"),
        ("eos", "stop"),
    ],
)
def test_ends_have_many_names(server: Running, said: str, finish: str) -> None:
    assert one(server, f"finish={said}").finish == finish


def test_cached_tokens_cost_what_they_cost() -> None:
    reply = Reply(input_tokens=10_000, cached_tokens=9_000, output_tokens=0)
    assert priced(reply, {"input": 1, "cached": 0.1, "output": 3}) == pytest.approx(0.0019)
    assert priced(Reply(), {"input": 1, "output": 3}) is None


def test_parameters_are_sent_and_a_call_may_add_its_own(server: Running) -> None:
    kept: list[Any] = []
    work(
        "ok",
        [job("with parameters", max_tokens=5)],
        kept.append,
        base_url=server.base_url,
        parameters={"temperature": 0, "max_tokens": 9},
    )
    sent = next(
        e["sent"] for e in server.log() if e["request"] == request_of(said("with parameters"))
    )
    assert sent == {"model": "ok", "temperature": 0, "max_tokens": 5}


# ---------------------------------------------------------------- tried again


@pytest.mark.parametrize(
    "fault",
    [
        "busy",
        "after",
        "error",
        "unavailable",
        "drop",
        "broken",
        "shapeless",
        "ended",
        "aborted",
        "gateway",
        "cut",
        "hang",
    ],
)
def test_a_call_that_failed_is_made_again_and_the_answer_is_the_same(
    server: Running, fault: str
) -> None:
    text = f"first {fault}"
    reply = one(server, f"{fault},ok", text, timeout=1.0 if fault == "hang" else 60)
    assert reply.error is None
    assert reply.text == one(server, "ok", text).text
    tries = [e for e in server.log() if e["request"] == request_of(said(text))]
    assert [e["outcome"] for e in tries] == [fault, "ok", "ok"]


def test_the_wait_that_was_asked_for_is_kept(server: Running) -> None:
    for fault, seconds in (("after", ASKED_AGAIN), ("date", 0.4)):
        text = f"wait {fault}"
        one(server, f"{fault},ok", text)
        began = [e["began"] for e in server.log() if e["request"] == request_of(said(text))]
        assert began[1] - began[0] >= seconds


def test_a_slow_body_arrives_and_a_second_answer_is_not_taken_for_the_next(server: Running) -> None:
    texts = [f"twice {i}" for i in range(6)]
    found, _ = replies(server, "twice", texts, concurrency=1)
    assert {r.text for r in found.values()} == {one(server, "ok", t).text for t in texts}
    assert (one(server, "slow").text or "").startswith("answer")


@pytest.mark.parametrize(
    ("model", "says", "tries", "timeout"),
    # A busy machine may not answer within a short time, which would be a failure of another kind.
    [
        ("error", "500", 6, 60),
        ("broken", "no chat completion", 6, 60),
        ("ended", "broke its reply off", 6, 60),
        ("hang", "timeout", 3, 0.2),
    ],
)
def test_tries_are_bounded_and_the_error_says_what_happened(
    server: Running, model: str, says: str, tries: int, timeout: float
) -> None:
    text = f"always {model}"
    reply = one(server, model, text, timeout=timeout)
    assert reply.text is None
    assert says in (reply.error or "")
    assert "\n" not in (reply.error or "")
    assert len([e for e in server.log() if e["request"] == request_of(said(text))]) == tries


def test_a_request_that_is_refused_is_an_error_of_its_own(server: Running) -> None:
    texts = ["fine 1", "fine 2"]
    assert all(r.error is None for r in replies(server, "ok", texts)[0].values())
    reply = one(server, "long")
    assert "maximum context length" in (reply.error or "")


def test_an_endpoint_that_stays_busy_leaves_the_call_pending(server: Running) -> None:
    found, tally = replies(server, "busy", ["never"], retry=QUICK._replace(busy=3))
    assert found == {}
    assert (tally.done, tally.left, tally.errors) == (0, 1, 0)


# ---------------------------------------------------------------- nothing can succeed


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("key", "key"),
        ("unknown", "no such model"),
        ("quota", "no credit"),
        ("redirect", r"307\. It sends .* another address: give the final one"),
        ("rejected", "max_tokens is not supported"),
        ("error", "in a row"),
    ],
)
def test_one_message_instead_of_a_thousand_errors(server: Running, model: str, says: str) -> None:
    kept: list[Any] = []
    jobs = (job(f"hopeless {model} {i}") for i in range(1000))
    quick = QUICK._replace(failures=1)
    with pytest.raises(ModelUnavailable, match=says) as caught:
        work(model, jobs, kept.append, base_url=server.base_url, retry=quick, timeout=5)
    assert kept == []
    assert "\n" not in str(caught.value)
    assert len(server.log(model)) < 100


@pytest.mark.parametrize(
    ("key_env", "is_set", "says"),
    [
        (None, True, "Check the key in the environment variable OPENAI_API_KEY."),
        (None, False, "No key was sent, as OPENAI_API_KEY is not set; set it, or name another"),
        ("MY_KEY", True, "Check the key in the environment variable MY_KEY."),
    ],
)
def test_a_key_that_is_refused_is_named_by_its_variable(
    server: Running,
    monkeypatch: pytest.MonkeyPatch,
    key_env: str | None,
    is_set: bool,
    says: str,
) -> None:
    name = key_env or "OPENAI_API_KEY"
    monkeypatch.delenv(name, raising=False)
    if is_set:
        monkeypatch.setenv(name, "sk-a-fake-key-that-is-refused")
    with pytest.raises(ModelUnavailable) as caught:
        work("key", [job("x")], print, base_url=server.base_url, key_env=key_env, retry=QUICK)
    assert says in str(caught.value)
    assert "sk-a-fake" not in str(caught.value)


def test_an_endpoint_that_is_not_there_is_named_at_once() -> None:
    began = time.monotonic()
    with pytest.raises(ModelUnavailable, match=r"127\.0\.0\.1:9"):
        work("m", [job("x")] * 1000, print, base_url="http://127.0.0.1:9/v1", retry=QUICK)
    assert time.monotonic() - began < 60


def test_what_was_finished_before_the_end_is_kept(server: Running) -> None:
    kept: list[Any] = []
    jobs = [job("kept"), job("kept too"), job("kept")]  # the third is refused: it comes again
    with pytest.raises(ModelUnavailable, match="wrong key"):
        work("ok,key", jobs, kept.append, base_url=server.base_url, concurrency=1)
    assert [text for text, _ in kept] == ["kept", "kept too"]


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"base_url": "127.0.0.1:1"}, RagbenchError, "no address"),
        (
            {"base_url": "http://127.0.0.1:1/v1", "key_env": "NO_SUCH_KEY"},
            ModelUnavailable,
            "NO_SUCH",
        ),
        ({"base_url": "http://me:@127.0.0.1:1/v1"}, RagbenchError, "user or password"),
        ({"base_url": "http://me:hunter2@127.0.0.1:1/v1"}, RagbenchError, "127.0.0.1:1/v1 was"),
        ({"base_url": "me:hunter2@127.0.0.1:1/v1"}, RagbenchError, "no address"),
        ({"base_url": "http://me:hunter2/2@127.0.0.1:1/v1"}, RagbenchError, "no address"),
        ({"base_url": "http://me:1234/hunter2@127.0.0.1:1/v1"}, RagbenchError, "no address"),
        ({"base_url": "me:@127.0.0.1:1/v1?key=hunter2"}, RagbenchError, "no address"),
        ({"key_env": "sk-1234"}, RagbenchError, "not repeated"),
        ({"key_env": "gsk_hunter2ABCdef0123456789"}, RagbenchError, "not repeated"),
        ({"key_env": "hf_hunter2AbCdEfGhIjKlMn"}, RagbenchError, "not repeated"),
        ({"key_env": "A_SECRET_OF_2026_WITHOUT_VALUE"}, ModelUnavailable, "A_SECRET_OF_2026"),
        ({"parameters": {"api_key": "x"}}, RagbenchError, "key_env"),
        ({"prices": {"input": 1}}, RagbenchError, "output"),
        ({"budget": {"dollars": 1}}, UnknownName, "cost"),
        ({"budget": {"cost": 0}}, RagbenchError, "above zero"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_any_call(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        work("m", [job("x")], print, **{"base_url": "http://127.0.0.1:9/v1", **options})
    assert "hunter2" not in str(caught.value)


def test_a_fault_of_a_job_or_of_keep_comes_out_as_it_is(server: Running) -> None:
    async def bad(ask: Any) -> None:
        raise ZeroDivisionError("in the job")

    def full(result: Any) -> None:
        raise OSError("no room")

    with pytest.raises(ZeroDivisionError, match="in the job"):
        work("ok", [bad, *[job(f"z{i}") for i in range(50)]], print, base_url=server.base_url)
    with pytest.raises(OSError, match="no room"):
        work("ok", [job(f"full {i}") for i in range(50)], full, base_url=server.base_url)


# ---------------------------------------------------------------- the loop, the end


def test_it_works_inside_a_running_loop_and_leaves_no_thread(server: Running) -> None:
    async def cell() -> tuple[str | None, str | None]:
        kept: list[tuple[str, Reply]] = []
        work("ok", [job("in a loop")], kept.append, base_url=server.base_url)
        reply = await complete(said("in a loop"), "ok", base_url=server.base_url)
        return kept[0][1].text, reply.text

    first, second = asyncio.run(cell())
    assert first == second
    assert not [t for t in threading.enumerate() if t.name.startswith("ragbench")]


def test_calls_go_on_while_a_future_among_the_jobs_is_waited_for(server: Running) -> None:
    coming: Future[None] = Future()
    order: list[str] = []

    def keep(found: tuple[str, Reply]) -> None:
        order.append(found[0])
        if found[0] == "before":
            coming.set_result(None)

    def jobs() -> Iterator[Any]:
        yield job("before")
        yield coming
        assert coming.done()
        yield job("after")

    until = threading.Timer(20, coming.cancel)
    until.start()
    work("ok", jobs(), keep, base_url=server.base_url)
    until.cancel()
    assert order == ["before", "after"]


def test_a_future_that_never_comes_does_not_hold_up_the_end(server: Running) -> None:
    kept: list[Any] = []
    jobs: list[Any] = [job("one"), Future(), job("two")]
    tally = work("ok", jobs, kept.append, base_url=server.base_url, budget={"minutes": 0.02})
    assert [text for text, _ in kept] == ["one"]
    assert "minutes" in (tally.stopped or "")


def test_complete_says_when_nothing_can_succeed(server: Running) -> None:
    with pytest.raises(ModelUnavailable, match="no such model"):
        asyncio.run(complete(said("x"), "unknown", base_url=server.base_url))


def test_a_budget_stops_the_work_and_keeps_what_is_paid_for(server: Running) -> None:
    prices = {"input": 0, "output": 1e6 / 7}  # a dollar a call
    for budget in ({"cost": 20}, {"tokens": 20 * (7 + 25)}):
        texts = [f"{budget} {i} ".ljust(100, "x") for i in range(200)]
        found, tally = replies(server, "ok", texts, budget=budget, prices=prices)
        assert len(found) == 20
        assert "budget" in (tally.stopped or "")
        assert tally.cost == pytest.approx(len(found))
    found, tally = replies(server, "hang", ["h1", "h2"], budget={"minutes": 0.01}, timeout=60)
    assert found == {}
    assert tally.left == 2
    assert "minutes" in (tally.stopped or "")
    assert tally.seconds < 30


def test_a_job_that_begins_to_ask_when_the_work_was_stopped_asks_nobody(server: Running) -> None:
    async def late(ask: Any) -> Any:
        await asyncio.sleep(1.5)
        return await ask(said("too late"))

    kept: list[Any] = []
    tally = work("ok", [late], kept.append, base_url=server.base_url, budget={"minutes": 0.005})
    assert (kept, tally.left, tally.calls) == ([], 1, 0)
    assert request_of(said("too late")) not in {entry["request"] for entry in server.log()}


def test_a_budget_that_cannot_be_kept_ends_the_work_after_one_call(server: Running) -> None:
    kept: list[Any] = []
    jobs = [job(f"no price {i}") for i in range(50)]
    with pytest.raises(RagbenchError, match="prices="):
        work("ok/free", jobs, kept.append, base_url=server.base_url, budget={"cost": 1})
    assert len(kept) == 1
    assert len([e for e in server.log() if e["sent"]["model"] == "ok/free"]) == 1


def test_two_calls_never_wait_for_one_that_hangs(server: Running) -> None:
    kept: list[str] = []
    jobs = [job("ok"), job("never comes")]

    async def slow(ask: Any) -> tuple[str, Reply]:
        return await jobs[1](ask)

    work(
        "ok,hang",
        [*[job(f"quick {i}") for i in range(20)], slow],
        lambda found: kept.append(found[0]),
        base_url=server.base_url,
        timeout=1,
        retry=QUICK._replace(timeouts=0),
    )
    assert len(kept) == 21


STOPPED = """
import sys, time
from ragbench.llm import work
def job(i):
    async def run(ask):
        return i, await ask([{"role": "user", "content": f"ctrl-c {i}"}])
    return run
kept = []
def keep(found):
    kept.append(found)
    print(len(kept), flush=True)
try:
    work("any", [job(i) for i in range(100_000)], keep, base_url=sys.argv[1], concurrency=20)
except KeyboardInterrupt:
    print("stopped", len(kept), flush=True)
"""


def test_ctrl_c_ends_within_seconds_and_keeps_what_is_finished(tmp_path: Path) -> None:
    with running(tmp_path, latency=0.02, rates={"hang": 0.02}) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", STOPPED, server.base_url], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        for _ in range(30):
            process.stdout.readline()
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=60)[0].splitlines()
        assert time.monotonic() - began < 30
        assert rest[-1].startswith("stopped")
        count = int(rest[-1].split()[1])
        assert count == sum(server.answered().values())


# ---------------------------------------------------------------- limits


def test_more_at_once_while_it_succeeds_and_fewer_when_it_is_busy(tmp_path: Path) -> None:
    with running(tmp_path, latency=0.05) as server:
        _, tally = replies(server, "ok", [f"g{i}" for i in range(300)])
        began = sorted(e["began"] for e in server.log())
        together = [sum(t <= u < t + 0.05 for u in began) for t in began]
        assert max(together[:8]) <= max(together)
        assert max(together) > 16
        assert tally.retries == 0
    limiter = Limiter(100)
    limiter.busy(since=time.monotonic(), wait=None)
    assert 60 < limiter.limit < 70
    limiter.busy(since=0.0, wait=None)  # of the same round: it says nothing new
    assert 60 < limiter.limit < 70
    for _ in range(500):
        limiter.busy(since=time.monotonic() + 1, wait=None)
    assert limiter.limit == 1
    limiter.answered()
    assert limiter.limit == 2


def test_never_more_at_once_than_allowed(tmp_path: Path) -> None:
    with running(tmp_path, latency=0.05) as server:
        replies(server, "ok", [f"n{i}" for i in range(40)], concurrency=3)
        began = sorted(e["began"] for e in server.log())
        assert all(began[i + 3] - began[i] > 0.04 for i in range(len(began) - 3))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("3", 3), ("0", 0), ("-5", 0), ("1e400", None), ("soon", None), ("", None)],
)
def test_retry_after_is_read_or_left(text: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": text}) == seconds


def test_waits_grow_are_drawn_and_are_bounded() -> None:
    retry = Retry(first_wait=1, longest_wait=8)
    for tries, most in ((0, 1), (1, 2), (2, 4), (3, 8), (50, 8)):
        drawn = {retry.wait(tries) for _ in range(50)}
        assert len(drawn) > 10
        assert 0 < min(drawn) <= max(drawn) <= most


def test_a_budget_counts_what_is_in_flight() -> None:
    budget = Budget({"tokens": 100})
    tally = Tally(calls=5, input_tokens=40, output_tokens=10)
    for tokens in (4, 4, 4, 4, 34):  # what is in flight is more like the last: 24.4 on average
        with budget.counted(1) as took:
            took(None, tokens)
    with budget.counted(1):
        assert budget.exhausted(tally, in_flight=1) is None
        assert budget.exhausted(tally, in_flight=2) is not None
    assert budget.exhausted(tally) is None
    with budget.counted(6):  # ten tokens a letter until now
        assert budget.exhausted(tally, in_flight=1) is not None


def test_a_budget_is_not_overrun_by_calls_longer_than_the_first(server: Running) -> None:
    texts = ["short", *(f"{i} ".ljust(40_000, "x") for i in range(60))]
    found, tally = replies(server, "ok", texts, budget={"tokens": 25_000}, concurrency=20)
    assert len(found) == 4  # 8 tokens, and ten thousand each
    assert 25_000 <= tally.input_tokens + tally.output_tokens < 36_000


# ---------------------------------------------------------------- keys


def test_a_key_comes_from_the_environment_and_is_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with running(tmp_path, key=KEY) as server:
        assert one(server, "ok", key_env="MY_KEY").error is None
        echoed = one(server, "echo", key_env="MY_KEY")
        assert echoed.text == "your key is ***"
        monkeypatch.setenv("OPENAI_API_KEY", KEY[:-1])
        with pytest.raises(ModelUnavailable) as caught:
            one(server, "ok")
        assert "***" in str(caught.value)
        assert KEY[:-1] not in str(caught.value)
        assert caught.value.__context__ is None
    assert KEY not in repr(Key(KEY))
    assert shown(f"https://user:{KEY}@host:1/v1?key={KEY}") == "https://host:1/v1"
    assert shown(f"https://host:1/{KEY}/v1") == "https://host:1/***/v1"
    with pytest.raises(RagbenchError, match=r"no address") as refused:
        shown(f"host/{KEY}")
    assert KEY not in str(refused.value)


def test_a_key_is_hidden_in_any_spelling_and_where_a_message_is_cut(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    reply = one(server, "escaped", key_env="MY_KEY")
    assert (reply.text, reply.reasoning) == ("***", "***")
    with pytest.raises(ModelUnavailable) as caught:
        one(server, "detail", key_env="MY_KEY")
    assert "long long" in str(caught.value)
    assert KEY[:4] not in str(caught.value)


@pytest.mark.parametrize("key", ["EMPTY", "a", "answer"])
def test_a_key_too_short_to_be_one_eats_no_words(
    server: Running, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert one(server, "echo").text == f"your key is {key}"


@pytest.mark.parametrize("written", [f"{KEY}\n", f" {KEY}\r\n", f"\t{KEY}"])
def test_space_around_a_key_is_no_part_of_it(
    tmp_path: Path, written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", written)
    with running(tmp_path, key=KEY) as server:
        assert one(server, "echo", key_env="MY_KEY").text == "your key is ***"


@pytest.mark.parametrize("sign", ["\n", "\r", "\x1b", "\x7f", "…", "\udcff"])
@pytest.mark.parametrize("key_env", ["MY_KEY", None])
def test_what_cannot_be_sent_as_a_key_is_named_by_its_variable(
    server: Running, sign: str, key_env: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(key_env or "OPENAI_API_KEY", KEY[:20] + sign + KEY[20:])
    with pytest.raises(ModelUnavailable, match=key_env or "OPENAI_API_KEY") as caught:
        one(server, "ok", key_env=key_env)
    assert "\n" not in str(caught.value)
    assert KEY[:20] not in str(caught.value)
    assert KEY[20:] not in str(caught.value)


def test_a_key_is_neither_a_part_of_a_models_name_nor_the_name_of_a_parameter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    given: list[tuple[str, dict[str, Any]]] = [
        (f"openai/{KEY}", {}),
        (f"openrouter/{KEY}/model", {}),
        ("m", {KEY: 1}),
        ("m", {"metadata": [{f"x-{KEY}": 1}]}),
    ]
    for model, parameters in given:
        with pytest.raises(RagbenchError, match="key_env") as caught:
            work(model, [], print, base_url="http://127.0.0.1:9/v1", parameters=parameters)
        assert KEY not in str(caught.value)


TRACEBACK = """
import sys
from IPython.core.ultratb import VerboseTB
from ragbench.llm import work
def job(i):
    async def run(ask):
        return await ask([{"role": "user", "content": str(i)}])
    return run
def keep(found):
    raise OSError("no room")
for model in ("key", "ok"):
    try:
        work(model, [job(i) for i in range(9)], keep, base_url=sys.argv[1], key_env="MY_KEY")
    except Exception:
        VerboseTB(color_scheme="NoColor")(*sys.exc_info()) if False else None
        print("\\n".join(VerboseTB().text(*sys.exc_info()).splitlines()))
"""


def test_a_traceback_with_all_values_shows_no_key(server: Running) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRACEBACK, server.base_url],
        env={**os.environ, "MY_KEY": KEY},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no room" in done.stdout
    assert "ModelUnavailable" in done.stdout
    assert KEY not in done.stdout + done.stderr
    bad = subprocess.run(
        [sys.executable, "-c", TRACEBACK, server.base_url],
        env={**os.environ, "MY_KEY": f"{KEY}\n{KEY}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "ModelUnavailable" in bad.stdout
    assert KEY not in bad.stdout + bad.stderr


def test_no_other_part_of_the_package_can_call_a_model():
    package = Path(ragbench.__file__).parent
    client = re.compile(r"^\s*(?:import|from) (?:aiohttp|openai|litellm|httpx|requests)\b", re.M)
    callers = {
        file.relative_to(package).parts[0]
        for file in package.rglob("*.py")
        if client.search(file.read_text(encoding="utf-8"))
    }
    assert callers == {"llm"}


def test_a_key_is_hidden_whatever_its_variable_is_called(monkeypatch):
    from ragbench.llm import endpoints

    monkeypatch.setenv("MY_LLM_AUTH", "a-value-nobody-may-see")
    local = "http://127.0.0.1:9/v1"
    endpoints.target(
        "m", base_url=local, key_env="MY_LLM_AUTH", timeout=1, parameters={}, prices=None
    )
    assert endpoints.hide("it said a-value-nobody-may-see twice") == "it said *** twice"
    known = endpoints.secrets()
    assert endpoints.hide("it said a-value-nobody-may-see", known) == "it said ***"
    monkeypatch.setenv("SHORT_KEY", "answer")  # too short to be one: it would eat words
    assert endpoints.hide("the answer") == "the answer"


def test_what_litellm_worked_out_as_cost_is_not_worked_out_again():
    from types import SimpleNamespace

    from ragbench.llm import endpoints

    whom = endpoints.target("openai/nobody-knows-this")
    for known in (0.25, None):
        response = SimpleNamespace(_hidden_params={"response_cost": known})
        assert endpoints._litellm_cost(response, Reply(), whom) == known
    assert endpoints._litellm_cost(SimpleNamespace(), Reply(), whom) is None  # no price known


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>x</thinking>答案", "答案"),
        ("<thinking>x</think>ans", "ans"),
        ("Use <thinking>b</thinking> as a tag.", "Use <thinking>b</thinking> as a tag."),
        ("<think />ans", "<think />ans"),  # nothing was thought
        ("```py\n</think>\n```\nans", "```py\n</think>\n```\nans"),
        ("```py\nx = 1\n</think>ans", "ans"),  # a block that never closes is none
        ("```a``` is code.</think>ans", "ans"),
    ],
)
def test_tags_that_are_mixed_up_or_stand_in_code_take_no_answer_away(
    text: str, answer: str
) -> None:
    assert split_reasoning(text)[0] == answer


@pytest.mark.parametrize("usage", [[1], True, 1, "x", None, {"prompt_tokens": -1}])
def test_an_odd_usage_costs_no_answer(usage: Any) -> None:
    reply = read_reply({"choices": [{"message": {"content": "hi"}}], "usage": usage})
    assert (reply.text, reply.input_tokens) == ("hi", None)
