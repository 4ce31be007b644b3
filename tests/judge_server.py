"""A judge behind an OpenAI-compatible address, in a process of its own: `with serve() as server`.

What it thinks follows from the texts alone, so it says the same to whoever asks again: a response
(or claim) that holds the word GOOD or 好 is worth the best score, OTHERWISE or 不适用 marks a
condition that did not hold. The model's name says how it behaves:

    honest      JSON as asked, with the code of the call
    plain       the same without the code
    gullible    repeats the last verdict that stands anywhere in what it was shown, if any does
    swayed      is talked round by whatever the texts ask for, and answers in the form asked for
    moody       says yes and no by turns, call by call
    MANNER+…    honest, written in that manner: fence, prose, python, truncated, menu, empty,
                broken, refused, first-broken (the first reply to a request cannot be read)
    silent      finds no claims · forgetful: leaves the last claim out · always: the best score
    sick        unreadable, until the server is told to `heal`
    TROUBLE/…   anything of the above behind an endpoint with trouble: busy (429), down (500), both
                at the first try of every third request, and locked (401, which repeats the key)
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GOOD = ("GOOD", "好")
UNTRIGGERED = ("OTHERWISE", "不适用")


class Server:
    """The running server as a test sees it."""

    def __init__(self, port: int) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"

    def log(self) -> list[dict[str, Any]]:
        """All requests so far: model, messages, parameters, key, status."""
        with urllib.request.urlopen(f"{self.base_url}/log", timeout=30) as reply:
            found: list[dict[str, Any]] = json.load(reply)
        return found

    def count(self, model: str) -> int:
        """Requests to `model` that were answered."""
        return sum(entry["model"] == model and entry["status"] == 200 for entry in self.log())

    def heal(self) -> None:
        urllib.request.urlopen(f"{self.base_url}/heal", timeout=30).close()


@contextmanager
def serve(latency: float = 0.0) -> Iterator[Server]:
    """A server on loopback that ends with the block."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(latency)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield Server(int(process.stdout.readline()))
    finally:
        process.terminate()
        process.wait(timeout=30)


# ---------------------------------------------------------------- what the judge does


def fenced(text: str, name: str) -> str:
    """What stands in the fence `name` that carries the code of the call."""
    found = re.search(rf"<<<{name} (c[0-9a-f]{{11}})>>>\n(.*?)\n<<<END OF {name} \1>>>", text, re.S)
    return found[2] if found else ""


def shown(user: str) -> str:
    """All that stands in fences that carry the code of the call."""
    found = re.findall(r"<<<([A-Z0-9 ]+) (c[0-9a-f]{11})>>>\n(.*?)\n<<<END OF \1 \2>>>", user, re.S)
    return "\n".join(text for _, _, text in found)


def opinion(user: str) -> dict[str, Any]:
    """The verdict as an honest judge gives it, without the code."""
    response, claims = fenced(user, "RESPONSE"), fenced(user, "CLAIMS")
    is_good = any(word in response for word in GOOD)
    if claims:
        texts = [line.split(". ", 1) for line in claims.splitlines()]
        return {number: any(word in text for word in GOOD) for number, text in texts}
    if '"satisfied"' in user:
        requirement = fenced(user, "REQUIREMENT")
        if any(word in requirement for word in UNTRIGGERED):
            return {"reason": "no such case", "triggered": "No", "satisfied": "Yes"}
        said = "Yes" if is_good else "No"
        return {"reason": f"因为 {response[:9]}", "triggered": "Yes", "satisfied": said}
    if '"reject_answer"' in user:
        anyway = int("anyway" in response)
        return {
            "reason": "r",
            "answers_anyway": anyway,
            "reject_answer": int(is_good and not anyway),
        }
    if '"conflict_recog"' in user:
        return {"reason": "r", "conflict_recog": int(is_good)}
    return {"reason": "r", "score": 5 if is_good else 2}


def claim_lines(user: str) -> str | None:
    """The claims an honest judge extracts: the sentences of the text, tagged."""
    if "tagged line" not in user and "每行一条并带标签" not in user:
        return None
    response = fenced(user, "RESPONSE")
    documents = re.findall(r"<<<DOCUMENT (\d+) c\w+>>>\n(.*?)\n<<<END", user, re.S)
    text = response or "\n".join(text for _, text in documents)
    sentences = [s.strip() for s in re.split(r"(?<=[.。])", text) if s.strip()]
    tags = ["[claim]"] * 99 if response else ["[core]", *["[supplementary]"] * 98]
    lines = [f"{tag} {' '.join(s.split())}" for tag, s in zip(tags, sentences, strict=False)]
    return "\n".join(lines) or "None"


def manner(name: str, verdict: dict[str, Any], said: str, is_first: bool) -> tuple[str, str]:
    """A reply and how it finished."""
    if name == "fence":
        return f"```json\n{said}\n```\n希望有帮助。", "stop"
    if name == "prose":
        return f"Let me {{think}}. My verdict: {said} That is all.", "stop"
    if name == "python":
        return repr(verdict), "stop"
    if name == "truncated":
        return said[: len(said) * 2 // 3], "length"
    if name == "menu":
        return "Answer Yes or No:", "stop"
    if name == "empty":
        return "", "stop"
    if name == "broken" or (name == "first-broken" and is_first):
        return "I would say that it is mostly fine, 4 out of 5.", "stop"
    if name == "refused":
        return "I cannot help with that.", "content_filter"
    return said, "stop"


class Judge:
    """State of the process: what was asked, and how often."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.requests: list[dict[str, Any]] = []
        self.seen: dict[str, int] = {}
        self.is_healed = False

    def trouble(self, name: str, key: str) -> int:
        """The status of the reply."""
        if name == "locked":
            return 401
        times = self.seen[key] = self.seen.get(key, 0) + 1
        if times == 1 and sum(map(ord, key)) % 3 == 0:
            return {"busy": 429, "down": 500}.get(name, 200)
        return 200

    def reply(self, model: str, messages: list[dict[str, str]]) -> tuple[str, str]:
        name = model.rpartition("/")[2].partition("+")[0]
        user = messages[-1]["content"]
        if name == "sick" and not self.is_healed:
            return "Mostly fine.", "stop"
        if (lines := claim_lines(user)) is not None:
            lines = "None" if name == "silent" else lines
            return (lines[: len(lines) // 2], "length") if name == "truncated" else (lines, "stop")
        verdict = opinion(user)
        code = re.search(r"(c[0-9a-f]{11})", user.split("\n", 1)[0])
        if '"code"' not in user[user.rfind("<<<END OF") :]:
            code = None
        if name == "gullible":
            dictated = re.findall(r"\{[^{}]*\}", shown(user))
            readable = [text for text in dictated if text.count('"') >= 2]
            return (readable[-1], "stop") if readable else (json.dumps(verdict), "stop")
        if name == "swayed" and re.search("verdict|judge|grader|评判|评审|判定", shown(user)):
            verdict = {k: {"No": "Yes", 0: 1}.get(v, v) for k, v in verdict.items()}
        if name == "always":
            verdict = {k: {"No": "Yes", 0: 1}.get(v, v) for k, v in verdict.items()}
        if name == "forgetful" and len(verdict) > 2:
            verdict.popitem()
        if name == "moody":
            verdict |= {"triggered": "Yes", "satisfied": ("Yes", "No")[len(self.requests) // 2 % 2]}
        if code and name != "plain":
            verdict = {"code": code[1], **verdict}
        said = json.dumps(verdict, ensure_ascii=False)
        is_first = "could not be read" not in user and "无法读取" not in user
        return manner(name, verdict, said, is_first)


async def main(latency: float) -> None:
    from aiohttp import web

    judge = Judge(latency)

    async def complete(request: web.Request) -> web.Response:
        body = await request.json()
        model, messages = body.pop("model"), body.pop("messages")
        trouble = model.partition("/")[0] if "/" in model else ""
        status = judge.trouble(trouble, messages[-1]["content"])
        entry = {"model": model, "messages": messages, "parameters": body, "status": status}
        judge.requests.append({**entry, "key": request.headers.get("Authorization")})
        await asyncio.sleep(judge.latency)
        if status != 200:
            said = {"error": {"message": f"trouble for {request.headers.get('Authorization')}"}}
            return web.json_response(said, status=status, headers={"Retry-After": "0"})
        text, finish = judge.reply(model, messages)
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish}
        usage = {"prompt_tokens": len(str(messages)) // 4, "completion_tokens": len(text) // 4}
        return web.json_response({"model": f"{model}-0001", "choices": [choice], "usage": usage})

    async def log(request: web.Request) -> web.Response:
        return web.json_response(judge.requests)

    async def heal(request: web.Request) -> web.Response:
        judge.is_healed = True
        return web.Response()

    app = web.Application(client_max_size=50_000_000)
    app.router.add_post("/v1/chat/completions", complete)
    app.router.add_get("/v1/log", log)
    app.router.add_get("/v1/heal", heal)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)  # type: ignore[union-attr]
    parent = Path("/proc/self/stat").read_text().split()[3] if Path("/proc").exists() else None
    while parent is None or Path("/proc/self/stat").read_text().split()[3] == parent:
        await asyncio.sleep(0.5)  # a test that was killed leaves no server behind


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
