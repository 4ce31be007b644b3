"""The same calls through litellm: what it returns and raises is understood as by HTTP."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from llm_server import Running, running

from ragbench.errors import ModelUnavailable
from ragbench.llm import Reply, Retry, Tally, work

KEY = "sk-a-fake-key-of-the-tests-litellm-123"
QUICK = Retry(failures=2, timeouts=0, first_wait=0.01, longest_wait=0.1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("litellm"), key=KEY) as found:
        yield found


@pytest.fixture(autouse=True)
def provider(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """What litellm calls `openai` is the server of these tests."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.setenv(name, server.base_url)


def one(model: str, **options: Any) -> tuple[Reply, Tally]:
    async def run(ask: Any) -> Reply:
        return await ask([{"role": "user", "content": f"a question to {model}"}])

    kept: list[Reply] = []
    tally = work(f"openai/{model}", [run], kept.append, retry=QUICK, timeout=20, **options)
    return kept[0], tally


def test_cost_counts_cached_tokens_and_the_version_is_kept() -> None:
    reply, _ = one("gpt-4o-mini")  # 0.15, cached 0.075, and 0.60 dollars per million, as published
    fresh, cached, output = 3, 3, 7
    assert (reply.input_tokens, reply.cached_tokens) == (fresh + cached, cached)
    expected = (fresh * 0.15 + cached * 0.075 + output * 0.60) / 1e6
    assert reply.cost == pytest.approx(expected)
    assert reply.endpoint == "openai#served-2026-11-30"
    assert one("ok")[0].cost is None  # no price known: not 0
    # Four tokens: without a price of their own, cached ones cost as much as the others.
    assert one("ok", prices={"input": 1e6, "output": 0})[0].cost == pytest.approx(4)


@pytest.mark.parametrize(
    "fault", ["busy", "after", "error", "drop", "broken", "shapeless", "ended"]
)
def test_faults_are_tried_again(fault: str) -> None:
    reply, tally = one(f"{fault},ok")
    assert (reply.text or "").startswith("answer")
    assert tally.retries == 1


@pytest.mark.parametrize(
    ("model", "text", "finish", "says"),
    [
        ("think", "答案", "stop", None),
        ("reasoning", "答案", "stop", None),
        ("length", "cut o", "length", None),
        ("refused", "I will not.", "refused", None),
        ("stopped", None, "filtered", "filtered"),
        ("filtered", None, "filtered", "the prompt was stopped"),
        ("empty", None, "empty", "empty"),
        ("long", None, None, "maximum context length"),
    ],
)
def test_ends_are_told_apart(model: str, text: str, finish: str, says: str) -> None:
    reply, _ = one(model)
    assert (reply.text, reply.finish) == (text, finish)
    assert (reply.reasoning is not None) == (text == "答案")
    assert says in (reply.error or "") if says else reply.error is None


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("unknown", "no such model"),
        ("quota", "no credit"),
        ("key", r"\*\*\*.*Check the key in the environment variable OPENAI_API_KEY\."),
    ],
)
def test_what_cannot_succeed_is_one_message_without_the_key(model: str, says: str) -> None:
    with pytest.raises(ModelUnavailable, match=says) as caught:
        one(model)
    assert KEY not in str(caught.value)


def test_a_key_is_hidden_in_any_spelling() -> None:
    reply, _ = one("escaped")
    assert (reply.text, reply.reasoning) == ("***", "***")


def test_space_around_a_key_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f" {KEY}\n")
    assert one("echo")[0].text == "your key is ***"
    monkeypatch.setenv("MY_KEY", f"{KEY}\r\n")
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    assert one("ok", key_env="MY_KEY")[0].error is None


@pytest.mark.parametrize("sign", ["\n", "…"])
def test_what_cannot_be_sent_as_a_key_is_named_by_its_variable(
    sign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY[:20] + sign + KEY[20:])
    with pytest.raises(ModelUnavailable, match="OPENAI_API_KEY") as caught:
        one("ok")
    assert KEY[:20] not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "variable"),
    [("openai/m", "OPENAI_BASE_URL"), ("anthropic/claude-haiku-4-5", "ANTHROPIC_BASE_URL")],
)
def test_an_endpoint_that_is_not_there_ends_the_work(
    model: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv(variable, "http://127.0.0.1:9/v1")
    monkeypatch.delenv("OPENAI_API_BASE")

    async def run(ask: Any) -> Reply:
        return await ask([{"role": "user", "content": "is anybody there?"}])

    kept: list[Reply] = []
    with pytest.raises(ModelUnavailable, match=r"cannot be reached: .*127\.0\.0\.1"):
        work(model, [run] * 3, kept.append, retry=QUICK)
    assert kept == []


@pytest.mark.parametrize("blank", [None, "", " \n"])
@pytest.mark.parametrize(
    ("model", "variable"),
    [("openai/gpt-4o-mini", "OPENAI_API_KEY"), ("anthropic/claude-haiku-4-5", "ANTHROPIC_API_KEY")],
)
def test_a_missing_key_ends_the_work_at_once_and_names_its_variable(
    model: str, variable: str, blank: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if blank is None:
        monkeypatch.delenv(variable, raising=False)
    else:
        monkeypatch.setenv(variable, blank)
    tries: list[None] = []

    async def run(ask: Any) -> Reply:
        tries.append(None)
        return await ask([{"role": "user", "content": "a question"}])

    kept: list[Reply] = []
    with pytest.raises(ModelUnavailable, match=f"Set {variable}|variable {variable} is not set"):
        work(model, [run] * 3, kept.append, concurrency=1)  # waits of the usual length
    assert kept == []
    assert len(tries) <= 1


def test_a_name_without_a_provider_says_how_to_write_it() -> None:
    with pytest.raises(ModelUnavailable, match="provider/model"):
        work("nobody-knows-this", [], print)


WATCHED = """
import sys

away = []

def watch(event, given):
    if event == "socket.getaddrinfo":
        host = given[0]
    elif event == "socket.connect" and isinstance(given[1], tuple):
        host = given[1][0]
    else:
        return
    if host not in ("127.0.0.1", "localhost", "::1", None):
        away.append(host)

sys.addaudithook(watch)
from ragbench.llm import work

async def run(ask):
    return await ask([{"role": "user", "content": "who else is asked?"}])

kept = []
work("openai/ok", [run] * 3, kept.append)
assert [reply.error for reply in kept] == [None] * 3, kept
assert len(sys.modules["litellm"].model_cost) > 1000
print("asked elsewhere:", away)
"""


def test_nobody_else_is_asked_and_the_list_of_prices_is_not_fetched() -> None:
    done = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True)
    assert done.stdout == "asked elsewhere: []\n", done.stderr


def test_a_price_is_looked_up_in_the_packaged_list() -> None:
    from ragbench.forecast import listed_prices

    assert listed_prices("openai/gpt-4o-mini") == pytest.approx({"input": 0.15, "output": 0.60})
    assert listed_prices("nobody-knows-this") is None
