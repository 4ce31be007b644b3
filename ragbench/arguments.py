"""Arguments that several steps share, refused before anything is asked, paid for or stored."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ragbench.errors import RagbenchError
from ragbench.hiding import hide

_SECRET = re.compile(
    r"api.?key|authorization|headers|secret|password|credential|token$", re.IGNORECASE
)
_OURS = {
    "model": "name it as the model",
    "messages": "they are made from the prompt: give prompt=",
    "stream": "a whole reply is read",
    "n": "ask several times with trials= or repeats=",
}


def named(model: object) -> str:
    """`model`, which must be a name.

    Raises:
        RagbenchError: it is none.
    """
    if not isinstance(model, str) or not model.strip():
        raise RagbenchError(
            f"a model is named by a text such as 'openai/gpt-4o', not by {model!r}."
        )
    if any(hide(part.strip()) == "***" for part in [model, *model.split("/")]):
        raise RagbenchError(f"the model is named by what is a key: {_KEYS_ARE_NAMED}.")
    return model


def several(name: str, given: object) -> list[str]:
    """The names that `given` is or holds, once each and in order; none for None.

    Raises:
        RagbenchError: it is neither a name nor several.
    """
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    names: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    for one in names:
        if not isinstance(one, str):
            raise RagbenchError(f"{name}={given!r}: give a name, or a list of names.")
    return list(dict.fromkeys(names))


def whole(name: str, value: object, least: int = 1) -> int:
    """`value`, which must be a whole number of at least `least`.

    Raises:
        RagbenchError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise RagbenchError(f"{name}={value!r}: give a whole number of at least {least}.")
    return value


def amount(name: str, value: object, *, may_be_zero: bool = False) -> float:
    """`value`, which must be a finite number above zero.

    Raises:
        RagbenchError: it is none.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    number = float(value) if is_number else math.nan  # type: ignore[arg-type]
    if not math.isfinite(number) or number < 0 or (number == 0 and not may_be_zero):
        least = "an amount of at least zero" if may_be_zero else "an amount above zero"
        raise RagbenchError(f"{name}={hide(repr(value))}: give {least}.")
    return number


def sendable(parameters: object) -> dict[str, Any]:
    """`parameters` as they are sent and stored: JSON, nothing secret at any depth, nothing of ours.

    Raises:
        RagbenchError: they are not.
    """
    if not isinstance(parameters, Mapping):
        raise RagbenchError(
            f"parameters are a mapping such as {{'temperature': 0}}, and not {type(parameters)}."
        )
    for name, remedy in _OURS.items():
        if name in parameters:
            raise RagbenchError(f"parameters hold {name!r}, which is not for them: {remedy}.")
    _refuse_secrets(parameters)
    try:
        json.dumps(parameters, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RagbenchError(f"parameters cannot be sent as JSON: {error}.") from None
    return dict(parameters)


def _refuse_secrets(value: object) -> None:
    if isinstance(value, Mapping):
        for name, part in value.items():
            _refuse_secrets(str(name))
            if _SECRET.search(str(name)):
                raise RagbenchError(
                    f"parameters hold {str(name)!r}, and what they hold is stored; what is secret "
                    "comes from an environment variable: key_env='NAME'."
                )
            _refuse_secrets(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _refuse_secrets(part)
    elif isinstance(value, str) and (hidden := hide(value)) != value:
        raise RagbenchError(
            f"a parameter holds the secret of an environment variable ({hidden!r}), and parameters "
            f"are stored: {_KEYS_ARE_NAMED}."
        )


_KEYS_ARE_NAMED = "a key is not given, its environment variable is named: key_env='NAME'"
