"""What a thousand answers cost beside the calls themselves: wall time, CPU and memory.

    python bench/llm.py                 # concurrency 10, 50, 200
    python bench/llm.py --calls 300 --clients ragbench,aiohttp

A server of its own process on loopback answers after 200 ms; prompts have 12,000 characters. The
ideal is calls x latency / concurrency. `ragbench` is `ragbench.answer` from the connection to the
stored row; the peers only make the calls. Each runs in a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from llm_server import running

LATENCY = 0.2
LIMITS = {10: 1.1, 50: 1.1, 200: 1.6}
CPU_LIMIT, MEMORY_LIMIT = 2.5, 80.0
CLIENTS = ("ragbench", "aiohttp", "openai", "litellm")
TEXT = "All work and no play. " * 550


def study(path: Path, calls: int) -> None:
    import ragbench as rb

    rows: dict[str, list[dict[str, Any]]] = {"queries": [], "documents": []}
    rows |= {"instances": [], "contexts": []}
    for i in range(calls):
        rows["queries"].append({"query_id": f"q{i}", "language": "en", "text": f"Why {i}?"})
        rows["documents"].append({"doc_id": f"d{i}", "text": TEXT})
        instance = {"instance_id": f"q{i}-open"}
        rows["instances"].append({**instance, "query_id": f"q{i}", "context_mode": "open"})
        rows["contexts"].append({**instance, "rank": 1, "doc_id": f"d{i}"})
    rb.append(path, rows)


def client(name: str, base_url: str, concurrency: int, calls: int, path: str) -> dict[str, float]:
    """Seconds, CPU seconds and megabytes that `calls` take, measured after the imports."""
    prepare = {"ragbench": _ragbench, "aiohttp": _aiohttp, "openai": _openai, "litellm": _litellm}
    call = prepare[name](base_url, concurrency, calls, path)
    before = _memory()
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "memory": _memory() - before,
    }


def _memory() -> float:
    """The most that this process has held, in megabytes (getrusage would count its parent in)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def _ragbench(base_url: str, concurrency: int, calls: int, path: str) -> Any:
    import aiohttp  # noqa: F401
    import duckdb  # noqa: F401
    import polars  # noqa: F401
    import pyarrow  # noqa: F401

    import ragbench as rb
    from ragbench.run import answer

    def call() -> None:
        report = answer(path, "ok", base_url=base_url, concurrency=concurrency)
        assert report["answered"].item() == calls
        stored = rb.connect(path).sql("SELECT count(text) FROM responses").fetchall()
        assert stored == [(calls,)]

    return call


def _messages(i: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"{TEXT} Why {i}?"}]


def _together(one: Any, concurrency: int, calls: int) -> Any:
    async def main() -> None:
        free = asyncio.Semaphore(concurrency)

        async def bounded(i: int) -> None:
            async with free:
                assert (await one(i)).startswith("answer")

        await asyncio.gather(*map(bounded, range(calls)))

    return main


def _aiohttp(base_url: str, concurrency: int, calls: int, path: str) -> Any:
    import aiohttp

    async def main() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def one(i: int) -> str:
                body = {"model": "ok", "messages": _messages(i)}
                async with session.post(f"{base_url}/chat/completions", json=body) as response:
                    found = await response.json()
                return str(found["choices"][0]["message"]["content"])

            await _together(one, concurrency, calls)()

    return lambda: asyncio.run(main())


def _openai(base_url: str, concurrency: int, calls: int, path: str) -> Any:
    import openai

    async def main() -> None:
        http = openai.DefaultAioHttpClient()
        asked = openai.AsyncOpenAI(base_url=base_url, api_key="x", http_client=http)
        async with asked:

            async def one(i: int) -> str:
                found = await asked.chat.completions.create(model="ok", messages=_messages(i))
                return str(found.choices[0].message.content)

            await _together(one, concurrency, calls)()

    return lambda: asyncio.run(main())


def _litellm(base_url: str, concurrency: int, calls: int, path: str) -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    import litellm

    async def one(i: int) -> str:
        found = await litellm.acompletion(
            model="openai/ok", api_base=base_url, api_key="x", messages=_messages(i)
        )
        return str(found.choices[0].message.content)

    return lambda: asyncio.run(_together(one, concurrency, calls)())


def main() -> None:
    """Run every client at every concurrency, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--concurrency", default=",".join(map(str, LIMITS)))
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        name, base_url, concurrency, path = chosen.one
        print(json.dumps(client(name, base_url, int(concurrency), chosen.calls, path)))
        return
    print(f"{chosen.calls} calls of {LATENCY * 1000:.0f} ms, prompts of {len(TEXT):,} characters")
    print("client     at once   wall/ideal   CPU ms/call   memory MB   limits")
    for concurrency in map(int, chosen.concurrency.split(",")):
        for name in chosen.clients.split(","):
            _measure(name, concurrency, chosen.calls)


def _measure(name: str, concurrency: int, calls: int) -> None:
    with tempfile.TemporaryDirectory() as folder, running(Path(folder), latency=LATENCY) as server:
        path = Path(folder) / "study.duckdb"
        if name == "ragbench":
            study(path, calls)
        words = [name, server.base_url, str(concurrency), str(path)]
        done = subprocess.run(
            [sys.executable, __file__, f"--calls={calls}", "--one", *words],
            capture_output=True,
            text=True,
            check=True,
        )
    found = json.loads(done.stdout.splitlines()[-1])
    ratio = found["wall"] / (calls * LATENCY / concurrency)
    cpu = found["cpu"] / calls * 1000
    verdict = ""
    if name == "ragbench" and concurrency in LIMITS:
        limit = LIMITS[concurrency]
        is_met = ratio <= limit and cpu <= CPU_LIMIT and found["memory"] <= MEMORY_LIMIT
        verdict = f"{limit:g}, {CPU_LIMIT:g}, {MEMORY_LIMIT:g}: {'met' if is_met else 'MISSED'}"
    print(
        f"{name:<10} {concurrency:>7} {ratio:>12.2f} {cpu:>13.2f} {found['memory']:>11.0f}   "
        f"{verdict}",
        flush=True,
    )


if __name__ == "__main__":
    main()
