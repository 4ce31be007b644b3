"""An OpenAI-compatible server on loopback that does what real ones do: a process of its own.

    with running(tmp_path, latency=0.01, rates={"busy": 0.3}) as server:
        work("ok", jobs, keep, base_url=server.base_url)
        server.log()  # which calls came, and which of them were answered

What happens to a call is decided by the model's name: `busy,error,ok` is 429 to the first try of
each request, 500 to the second and an answer from then on. The model `any` follows `rates`, drawn
from the request and the number of its try, so that two runs meet the same faults. The answer
depends on the messages alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

ASKED_AGAIN = 0.05  # seconds of Retry-After


class Running(NamedTuple):
    """A server that runs: its address, and the file of what it did."""

    base_url: str
    file: Path

    def log(self, outcome: str | None = None) -> list[dict[str, Any]]:
        """What it did, one entry a call, in order; only those with `outcome` when given."""
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        return [line for line in lines if outcome in (None, line["outcome"])]

    def count(self) -> int:
        """How many calls were answered in full, read quickly."""
        return self.file.read_bytes().count(b'"is_answered": true')

    def answered(self) -> Counter[str]:
        """How often each request was answered in full."""
        return Counter(line["request"] for line in self.log() if line["is_answered"])


@contextlib.contextmanager
def running(folder: Path, port: int = 0, **options: Any) -> Iterator[Running]:
    """A server with its log in `folder`; options: latency, rates, seed, key."""
    file = folder / "server.jsonl"
    file.touch()
    words = [f"--{name}={json.dumps(value)}" for name, value in options.items()]
    process = subprocess.Popen(
        [sys.executable, __file__, f"--log={file}", f"--port={port}", *words],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield Running(f"http://127.0.0.1:{port}/v1", file)
    finally:
        process.kill()
        process.communicate()


def reply_to(messages: list[dict[str, str]], **message: Any) -> dict[str, Any]:
    """The chat completion that answers `messages`; `message` and `finish_reason` replace parts."""
    digest = hashlib.sha256(json.dumps(messages).encode()).hexdigest()
    finish = message.pop("finish_reason", "stop")
    content = {"role": "assistant", "content": f"answer {digest[:12]}", **message}
    size = sum(len(part["content"]) for part in messages) // 4
    return {
        "id": f"chatcmpl-{digest[:8]}",
        "object": "chat.completion",
        "created": 1,
        "model": "served-2026-11-30",
        "choices": [{"index": 0, "message": content, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": size,
            "completion_tokens": 7,
            "total_tokens": size + 7,
            "prompt_tokens_details": {"cached_tokens": size // 2},
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
    }


def request_of(messages: list[dict[str, str]]) -> str:
    return hashlib.sha256(json.dumps(messages).encode()).hexdigest()[:16]


# ---------------------------------------------------------------- the process


BODIES: dict[str, dict[str, Any]] = {
    "ok": {},
    "think": {"content": "<think>用了！感叹号</think>答案"},
    "reasoning": {"content": "答案", "reasoning_content": "用了！感叹号"},
    "unclosed": {"content": "<think>and then", "finish_reason": "length"},
    "length": {"content": "cut o", "finish_reason": "length"},
    "refused": {"content": None, "refusal": "I will not."},
    "stopped": {"content": "", "finish_reason": "content_filter"},
    "empty": {"content": " \n"},
    "parts": {"content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]},
    "thinking": {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "用了！"}]},
            {"type": "reasoning", "text": "感叹号"},
            {"type": "text", "text": "答案"},
        ]
    },
    "ended": {"finish_reason": "error"},
    "aborted": {"finish_reason": "Abort"},
}
BENT = ("broken", "shapeless", "gateway", "drop", "twice", "slow", "cut")
ERRORS: dict[str, tuple[int, dict[str, Any]]] = {
    "busy": (429, {"message": "slow down", "code": "rate_limit_exceeded"}),
    "quota": (429, {"message": "you have no credit left", "code": "insufficient_quota"}),
    "error": (500, {"message": "internal error"}),
    "unavailable": (503, {"message": "overloaded"}),
    "key": (401, {"message": "wrong key"}),
    "unknown": (404, {"message": "no such model"}),
    "filtered": (400, {"message": "the prompt was stopped", "code": "content_filter"}),
    "rejected": (400, {"message": "max_tokens is not supported"}),
    "long": (400, {"message": "maximum context length exceeded", "code": "context_length"}),
}


class Server:
    """The handler and what it remembers."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.tries: Counter[tuple[str, str]] = Counter()
        self.log = os.open(options.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        name = request_of(body["messages"])
        number = self.tries[body["model"], name]
        self.tries[body["model"], name] += 1
        outcome = self._outcome(body["model"], name, number)
        entry = {"request": name, "try": number, "outcome": outcome, "is_answered": False}
        entry["sent"] = {key: value for key, value in body.items() if key != "messages"}
        entry["began"] = time.time()
        if outcome == "hang":
            self._note(entry)
            await asyncio.sleep(3600)
        try:
            await asyncio.sleep(self.options.latency)
            response = await self._respond(request, body, outcome)
            if response.status == 200 and outcome not in ("broken", "shapeless", "gateway", "cut"):
                entry["is_answered"] = True
            return response
        finally:
            self._note(entry)

    def _note(self, entry: dict[str, Any]) -> None:
        os.write(self.log, (json.dumps(entry) + "\n").encode())

    def _outcome(self, model: str, name: str, number: int) -> str:
        if model != "any":
            listed = model.split("/")[-1].split(",")
            return listed[min(number, len(listed) - 1)]
        draw = random.Random(f"{self.options.seed}/{name}/{number}").random()
        for outcome, rate in self.options.rates.items():
            draw -= rate
            if draw < 0:
                return str(outcome)
        return "ok"

    async def _respond(
        self, request: web.Request, body: dict[str, Any], outcome: str
    ) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.options.key and given != self.options.key:
            outcome = "key"
        if outcome in ERRORS:
            status, error = ERRORS[outcome]
            if outcome == "key":
                error = {"message": f"wrong key {given}"}
            return web.json_response({"error": error}, status=status)
        if outcome in ("after", "date"):
            soon = {"Retry-After": str(ASKED_AGAIN)}
            date = {"Retry-After": formatdate(time.time() + 1.5, usegmt=True)}
            return web.json_response(
                {"error": {"message": "slow down"}},
                status=429,
                headers=soon if outcome == "after" else date,
            )
        if outcome == "redirect":
            return web.Response(status=307, headers={"Location": "http://127.0.0.1:9/v1"})
        if outcome == "echo":
            return web.json_response(reply_to(body["messages"], content=f"your key is {given}"))
        if outcome == "escaped":  # the same key, as JSON may spell it
            spelt = "".join(f"\\u{ord(sign):04X}" for sign in given)
            parts = {"content": "K", "reasoning_content": "K"}
            text = json.dumps(reply_to(body["messages"], **parts)).replace('"K"', f'"{spelt}"')
            return web.Response(text=text, content_type="application/json")
        if outcome == "detail":
            spelt = "".join(f"\\u{ord(sign):04X}" for sign in given)
            text = f'{{"error": {{"detail": "{"long " * 54}{spelt}"}}}}'
            return web.Response(text=text, content_type="application/json", status=404)
        if outcome.startswith("finish="):
            body = reply_to(body["messages"], finish_reason=outcome.removeprefix("finish="))
            return web.json_response(body)
        if outcome not in BENT:  # whatever else a model is called, it is noted before it answers
            return web.json_response(reply_to(body["messages"], **BODIES.get(outcome, {})))
        return await self._bent(request, json.dumps(reply_to(body["messages"])).encode(), outcome)

    async def _bent(self, request: web.Request, data: bytes, outcome: str) -> web.StreamResponse:
        """Answers that are wrong in their shape, not in what they say."""
        if outcome == "broken":
            return web.Response(body=data[: len(data) // 2], content_type="application/json")
        if outcome == "shapeless":
            return web.json_response({"choices": []})
        if outcome == "gateway":
            return web.json_response({"error": {"message": "upstream", "code": 502}})
        assert request.transport is not None
        if outcome == "drop":
            request.transport.abort()
            return web.Response(status=500)
        if outcome == "twice":  # a second answer that nobody asked for, on the same connection
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n".encode()
            whole = head + b"Content-Type: application/json\r\n\r\n" + data
            request.transport.write(whole + whole.replace(b"answer", b"stale!"))
            await asyncio.sleep(0.05)
            request.transport.close()
            return web.Response(status=200)
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        step = 1 if outcome == "slow" else len(data) // 2
        for start in range(0, len(data), step):
            await response.write(data[start : start + step])
            if outcome == "cut":
                request.transport.abort()
                break
            await asyncio.sleep(0.01)
        return response


def main() -> None:
    """Serve until killed; the port is printed first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--rates", type=json.loads, default={})
    parser.add_argument("--seed", type=json.loads, default=0)
    parser.add_argument("--key", type=json.loads, default=None)
    options = parser.parse_args()

    async def serve() -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", Server(options).handle)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", options.port, backlog=1024)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.sleep(1e9)

    asyncio.run(serve())


if __name__ == "__main__":
    main()
