"""Secrets stay in environment variables: what is shown or stored passes `hide` first."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence


def hide(text: str, values: Sequence[str] | None = None) -> str:
    """`text` without the value of any environment variable that holds a secret.

    Whoever hides often looks them up once and gives them: `values`, as `secrets` found them.
    """
    for value in secrets() if values is None else values:
        text = text.replace(value, "***")
    return text


def secrets() -> list[str]:
    """The values of the environment variables that hold a secret, line by line.

    What is shorter than eight characters is none: hiding it would eat words.
    """
    return [
        part
        for name, value in os.environ.items()
        if name in _named or sounds_secret(name)
        for line in value.splitlines()
        if len(part := line.strip()) >= 8
    ]


def sounds_secret(variable: str) -> bool:
    """Whether a variable of that name holds a secret, as a rule."""
    return _SECRET.search(variable) is not None


def holds_secret(variable: str) -> None:
    """From now on `variable` is known to hold a secret, whatever it is called."""
    _named.add(variable)


_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)", re.IGNORECASE)
_named: set[str] = set()
