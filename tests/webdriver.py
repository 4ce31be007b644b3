"""JupyterLab in a headless Chromium, driven over plain HTTP (the W3C WebDriver protocol).

`Lab` starts a server of its own, with settings of its own, on a copy of some notebooks; `Browser`
starts chromedriver. Both choose free ports, wait for what they need instead of sleeping, and end
only the processes they started.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

NO_KERNEL = {"shouldStart": False, "canStart": False, "autoStartDefault": False}
PATIENCE = 300.0  # seconds: a busy machine needs them, a quiet one never does


def wait(condition: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
    """What `condition` gives as soon as it gives anything; else a failure that names `what`."""
    end = time.monotonic() + patience
    pause = 0.05
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(pause)
        pause = min(1.0, pause * 1.3)
    raise TimeoutError(f"{patience:.0f} s went by without: {what}")


def chromium() -> str | None:
    """The browser of this machine."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    named = os.environ.get("BROWSER_PATH")
    return named or next((found for name in names if (found := shutil.which(name))), None)


def chromedriver() -> str | None:
    """The driver of that browser."""
    return shutil.which("chromedriver")


@contextlib.contextmanager
def process(command: list[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own, whose whole group is ended afterwards."""
    with log.open("wb") as file:
        started = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, **options
        )
        try:
            yield started
        finally:
            for kind, patience in ((signal.SIGTERM, 15), (signal.SIGKILL, 15)):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(started.pid, kind)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    started.wait(patience)
                    break


class Browser:
    """One window; `run` executes JavaScript in it and gives what it returns."""

    def __init__(self, address: str, width: int = 1280, height: int = 1000) -> None:
        self._address = address
        arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--hide-scrollbars",
            "--lang=en",
            # Nothing beyond this machine: a notebook must not need it.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
            f"--window-size={width},{height}",
        ]
        options = {"args": arguments, "binary": chromium()}
        wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}
        answer = self._call("POST", "/session", {"capabilities": wanted})
        self._session = f"/session/{answer['sessionId']}"
        patience = {"script": int(1000 * PATIENCE), "pageLoad": int(1000 * PATIENCE)}
        self._call("POST", f"{self._session}/timeouts", patience)

    def open(self, url: str) -> None:
        self._call("POST", f"{self._session}/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        body = {"script": script, "args": list(arguments)}
        return self._call("POST", f"{self._session}/execute/sync", body)

    def resize(self, width: int, height: int) -> None:
        body = {"width": width, "height": height}
        self._call("POST", f"{self._session}/window/rect", body)

    def screenshot(self) -> bytes:
        return base64.b64decode(self._call("GET", f"{self._session}/screenshot"))

    def point_at(self, x: float, y: float) -> None:
        """Move the pointer to a place in the window."""
        moves = [{"type": "pointerMove", "x": round(x), "y": round(y), "duration": 50}]
        mouse = {"type": "pointer", "id": "mouse", "actions": moves}
        self._call("POST", f"{self._session}/actions", {"actions": [mouse]})

    def click(self, x: float, y: float) -> None:
        """Move the pointer to a place in the window and click there."""
        self.point_at(x, y)
        acts = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        mouse = {"type": "pointer", "id": "mouse", "actions": acts}
        self._call("POST", f"{self._session}/actions", {"actions": [mouse]})

    def press(self, key: str) -> None:
        """Press a key, wherever the focus is."""
        acts = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        keyboard = {"type": "key", "id": "keyboard", "actions": acts}
        self._call("POST", f"{self._session}/actions", {"actions": [keyboard]})

    def alert(self) -> str | None:
        """The text of an open alert: what a script hidden in a text would raise."""
        try:
            return str(self._call("GET", f"{self._session}/alert/text"))
        except LookupError:
            return None

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._call("DELETE", self._session)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._address + path, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE + 30) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as problem:
            told = json.load(problem)["value"]
            kind = LookupError if told["error"].startswith("no such") else RuntimeError
            raise kind(f"{told['error']}: {told['message'].splitlines()[0]}") from None


@contextlib.contextmanager
def browser(folder: Path, **size: int) -> Iterator[Browser]:
    """A headless Chromium; its driver's log goes to `folder`."""
    log = folder / "chromedriver.log"
    with process([chromedriver() or "chromedriver", "--port=0"], log) as driver:

        def port() -> str | None:
            found = re.search(r"started successfully on port (\d+)", log.read_text("utf-8"))
            assert driver.poll() is None, log.read_text("utf-8")
            return found and found[1]

        window = Browser(f"http://127.0.0.1:{wait(port, 'chromedriver')}", **size)
        try:
            yield window
        finally:
            window.close()


@contextlib.contextmanager
def lab(notebooks: Path, folder: Path, theme: str = "JupyterLab Light") -> Iterator[str]:
    """The address of a JupyterLab on the folder `notebooks`; what it keeps lies in `folder`."""
    settings = folder / "jupyter" / "settings" / "@jupyterlab"
    for name, values in {
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
        "apputils-extension/themes": {"theme": theme},
    }.items():
        file = settings / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    own = {
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",  # no notebook is trusted here, as on a new machine
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
    }
    environment = {
        **os.environ,
        **{name: str(folder / "jupyter" / part) for name, part in own.items()},
    }
    environment |= {"JUPYTER_PLATFORM_DIRS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "jupyterlab", f"--notebook-dir={notebooks}", "--no-browser"]
    command += ["--allow-root", "--ip=127.0.0.1", "--port=0", "--IdentityProvider.token="]
    command += ["--expose-app-in-browser", "--ServerApp.disable_check_xsrf=True"]
    log = folder / "jupyterlab.log"
    with process(command, log, env=environment, cwd=notebooks) as server:

        def url() -> str | None:
            assert server.poll() is None, log.read_text("utf-8")
            for file in (folder / "jupyter" / "runtime").glob("jpserver-*.json"):
                with contextlib.suppress(ValueError):  # being written
                    address = json.loads(file.read_text("utf-8"))["url"]
                    with contextlib.suppress(OSError), urllib.request.urlopen(address + "api"):
                        return str(address)
            return None

        yield wait(url, f"JupyterLab, which says:\n{log.read_text('utf-8')}")


class Notebook:
    """A notebook open in JupyterLab."""

    def __init__(
        self, window: Browser, address: str, name: str, *, has_kernel: bool = True
    ) -> None:
        self.window, self._address = window, address
        window.open(f"{address}lab?reset")
        started = "return window.jupyterapp && window.jupyterapp.restored && true"
        wait(lambda: window.run(started), "JupyterLab in the browser")
        options = {} if has_kernel else {"kernelPreference": NO_KERNEL}
        asked = -math.inf

        def opened() -> Any:
            # What double-clicking the file does; again when nothing came of it, as a page that
            # goes on loading forgets what it was asked. It reveals what is open already.
            nonlocal asked
            if time.monotonic() - asked > 30:
                asked = time.monotonic()
                window.run(
                    "window.jupyterapp && window.jupyterapp.restored.then(() => "
                    "window.jupyterapp.commands.execute('docmanager:open', "
                    "{path: arguments[0], factory: 'Notebook', ...arguments[1]}))",
                    name,
                    options,
                )
            return self._run("return panel.context.isReady && panel.content.widgets.length > 1")

        wait(opened, f"{name} opened")

    def _run(self, script: str, *arguments: Any) -> Any:
        """The script with `app`, the open `panel` and its `cells`; null before they are there."""
        head = (
            "const app = window.jupyterapp; const panel = app && app.shell.currentWidget;"
            "if (!panel || !panel.content || !panel.content.model) return null;"
            "const cells = panel.content.widgets;"
        )
        return self.window.run(head + script, *arguments)

    def wait_for_kernel(self) -> None:
        ready = (
            "const kernel = panel.sessionContext.session && panel.sessionContext.session.kernel;"
            "return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle'"
        )
        wait(lambda: self._run(ready), "an idle kernel")

    def run_all(self) -> None:
        """Run all cells, as the menu does, and wait until the last one has come to its end."""
        self._run(
            "window.ended = null;"
            "app.commands.execute('notebook:run-all-cells')"
            ".then(() => { window.ended = 'done' }, error => { window.ended = String(error) });"
            "return true"
        )
        assert wait(lambda: self.window.run("return window.ended"), "all cells run") == "done"
        self.wait_for_kernel()

    def save(self) -> None:
        self._run("window.saved = null; panel.context.save().then(() => { window.saved = true });")
        wait(lambda: self.window.run("return window.saved"), "the notebook saved")

    def shut_down(self) -> None:
        """End the kernel."""
        self._run(
            "window.ended = null;"
            "panel.sessionContext.shutdown().then(() => { window.ended = 'done' });"
        )
        wait(lambda: self.window.run("return window.ended"), "the kernel ended")

    def kernels(self) -> list[Any]:
        """The kernels that run on the server."""
        with urllib.request.urlopen(f"{self._address}api/kernels", timeout=PATIENCE) as reply:
            found: list[Any] = json.load(reply)
        return found

    def outputs(self) -> list[list[dict[str, Any]]]:
        """The outputs of each code cell, as nbformat has them."""
        found: list[list[dict[str, Any]]] = self._run(
            "return cells.filter(cell => cell.model.type === 'code')"
            ".map(cell => cell.model.outputs.toJSON())"
        )
        return found

    def show(self, number: int) -> dict[str, float]:
        """Scroll code cell `number` (from 0) into view; where its output lies in the window."""
        scroll = (
            "const index = cells.findIndex(cell => cell.model.type === 'code' && "
            "cells.filter(c => c.model.type === 'code').indexOf(cell) === arguments[0]);"
            "const cell = cells[index];"
            "const area = cell.node.querySelector('.jp-OutputArea-output');"
            "if (!area) { panel.content.scrollToItem(index, 'start'); return null }"
            "area.scrollIntoView({block: 'nearest'});"
            "const box = area.getBoundingClientRect();"
            "const was = window.lastBox; window.lastBox = box;"
            "if (!was || was.top !== box.top || was.height !== box.height) return null;"
            "return {x: box.x, y: box.y, width: box.width, height: box.height}"
        )
        found: dict[str, float] = wait(lambda: self._run(scroll, number), f"cell {number} in view")
        return found

    def in_output(self, number: int, script: str, *arguments: Any) -> Any:
        """What a script gives that is told the output area of code cell `number` as `area`.

        `arguments` are arguments[1] and on.
        """
        return self._run(
            "const cell = cells.filter(cell => cell.model.type === 'code')[arguments[0]];"
            "const area = cell.node.querySelector('.jp-OutputArea');" + script,
            number,
            *arguments,
        )


def write_notebook(file: Path, *cells: str) -> None:
    """Make a notebook of these code cells."""
    code = [
        {
            "cell_type": "code",
            "id": f"cell-{i}",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": source,
        }
        for i, source in enumerate(cells)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "name": "python3"}}
    made = {"cells": code, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(made), encoding="utf-8")
