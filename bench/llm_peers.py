"""What other clients need for the same calls; `bench/llm.py` runs each in a process of its own.

Nothing of ragbench is imported here, so that a peer may live in an environment of its own. A
client is a function that imports what it needs and gives its parts, to be called and timed one
after the other: a thousand answers and a thousand verdicts, or both where it mixes them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

TEXT = "All work and no play. " * 550
"""What stands in every prompt: 12,000 characters."""


class Task(NamedTuple):
    """What is to be done: by which servers, and how many calls of each kind, so many at once."""

    answers: str
    judging: str
    concurrency: int
    calls: int
    folder: str


Parts = dict[str, Callable[[], object]]
Client = Callable[[Task], Parts]


def measured(client: Client, task: Task) -> dict[str, Any]:
    """Seconds and CPU seconds of each part, and the megabytes that all of them came to."""
    parts = client(task)
    before = _memory()
    found = {}
    for name, part in parts.items():
        wall, cpu = time.perf_counter(), time.process_time()
        part()
        found[name] = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return {"parts": found, "memory": _memory() - before}


def _memory() -> float:
    """The most that this process has held, in megabytes (getrusage would count its parent in)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


# ---------------------------------------------------------------- clients that only call


def _question(number: int) -> str:
    return f"{TEXT} Why {number}?"


def _messages(number: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": _question(number)}]


def _rounds(task: Task, opened: Callable[[str, str], Any]) -> Parts:
    """Two rounds of calls; `opened(url, model)` gives a function from messages to a reply."""

    async def play(url: str, model: str) -> None:
        free = asyncio.Semaphore(task.concurrency)
        async with opened(url, model) as ask:

            async def bounded(number: int) -> None:
                async with free:
                    assert await ask(_messages(number))

            await asyncio.gather(*map(bounded, range(task.calls)))

    return {
        "answers": lambda: asyncio.run(play(task.answers, "ok")),
        "judging": lambda: asyncio.run(play(task.judging, "honest")),
    }


def bare(task: Task) -> Parts:
    import aiohttp

    @contextlib.asynccontextmanager
    async def opened(url: str, model: str) -> Any:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def ask(messages: list[dict[str, str]]) -> str:
                body = {"model": model, "messages": messages}
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    found = await response.json()
                return str(found["choices"][0]["message"]["content"])

            yield ask

    return _rounds(task, opened)


def by_openai(task: Task) -> Parts:
    import openai

    @contextlib.asynccontextmanager
    async def opened(url: str, model: str) -> Any:
        http = openai.DefaultAioHttpClient()
        async with openai.AsyncOpenAI(base_url=url, api_key="x", http_client=http) as client:

            async def ask(messages: Any) -> str:
                found = await client.chat.completions.create(model=model, messages=messages)
                return str(found.choices[0].message.content)

            yield ask

    return _rounds(task, opened)


def by_litellm(task: Task) -> Parts:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    @contextlib.asynccontextmanager
    async def opened(url: str, model: str) -> Any:
        async def ask(messages: Any) -> str:
            found = await litellm.acompletion(
                model=f"openai/{model}", api_base=url, api_key="x", messages=messages
            )
            return str(found.choices[0].message.content)

        yield ask

    return _rounds(task, opened)


# ---------------------------------------------------------------- frameworks
# Both ask the first server for verdicts too: they want fields of usage that the second leaves out.


def by_inspect(task: Task) -> Parts:
    """Samples with a model-graded scorer: each is graded as soon as it is answered."""
    from inspect_ai import Task as Evaluation
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.model import GenerateConfig, get_model
    from inspect_ai.scorer import model_graded_qa

    def model(name: str) -> Any:
        config = GenerateConfig(max_connections=task.concurrency)
        return get_model(
            f"openai-api/bench/{name}", base_url=task.answers, api_key="x", config=config
        )

    def both() -> None:
        samples = [Sample(input=_question(i), target="whatever") for i in range(task.calls)]
        scorer = model_graded_qa(grade_pattern=r"answer \w*?(\d)", model=model("ok"))
        [log] = evaluate(
            Evaluation(dataset=samples, scorer=scorer),
            model=model("ok"),
            max_samples=task.concurrency,
            display="none",
            log_dir=task.folder,
        )
        assert log.status == "success"
        assert log.results.completed_samples == task.calls

    return {"both": both}


def by_lm_eval(task: Task) -> Parts:
    """It has no judge by a model: the same calls once more stand for one."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.api_models import JsonChatStr
    from lm_eval.models.openai_completions import LocalChatCompletion

    def play() -> None:
        model = LocalChatCompletion(
            model="ok",
            base_url=f"{task.answers}/chat/completions",
            num_concurrent=task.concurrency,
        )
        requests = [
            Instance(
                "generate_until",
                {},
                (JsonChatStr(json.dumps(_messages(i))), {"until": [], "max_gen_toks": 64}),
                i,
            )
            for i in range(task.calls)
        ]
        said = model.generate_until(requests)
        assert len(said) == task.calls
        assert all(text.startswith("answer") for text in said)

    return {"answers": play, "judging": play}


class Peer(NamedTuple):
    """A client, the package that it imports, and what pip is told to install."""

    client: Client
    package: str
    install: str


PEERS = {
    "aiohttp": Peer(bare, "aiohttp", "aiohttp"),
    "openai": Peer(by_openai, "openai", "openai[aiohttp]"),
    "litellm": Peer(by_litellm, "litellm", "litellm"),
    "inspect_ai": Peer(by_inspect, "inspect_ai", "inspect-ai openai"),
    "lm-eval": Peer(by_lm_eval, "lm_eval", "lm-eval[api]"),
}


def main() -> None:
    """Measure one client and print what it took, or that its package is not there."""
    name, *words = sys.argv[1:]
    peer = PEERS[name]
    if importlib.util.find_spec(peer.package) is None:
        print(json.dumps({"is_missing": True}))
        return
    answers, judging, concurrency, calls, folder = words
    task = Task(answers, judging, int(concurrency), int(calls), folder)
    print(json.dumps(measured(peer.client, task)))


if __name__ == "__main__":
    main()
