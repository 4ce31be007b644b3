"""Reading what an endpoint sent: the answer, the reasoning beside it, how it ended, its usage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """One call that came to an end, whatever the end.

    `finish` is stop, length (cut off), filtered, refused or empty. `error` is set when there is
    nothing to judge: one line that holds no key.
    """

    text: str | None = None  # without reasoning
    reasoning: str | None = None
    finish: str | None = None
    error: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None  # of the input
    output_tokens: int | None = None
    reasoning_tokens: int | None = None  # of the output
    cost: float | None = None  # US dollars
    seconds: float | None = None  # of the try that was answered
    endpoint: str | None = None
    version: str | None = None  # the exact model that the endpoint says it used


class Unreadable(Exception):
    """What came is not a chat completion; asking again may help."""


_OPEN = re.compile(r"\s*<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSE_ALONE = re.compile(r"^\s*</think>\s*$", re.IGNORECASE | re.MULTILINE)
_FINISH = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "filtered",
    "safety": "filtered",
    "refusal": "refused",
}
_NOTHING = {
    "length": "cut off before any answer; raise max_tokens",
    "filtered": "filtered by the endpoint",
    "refused": "refused by the endpoint",
    "empty": "the answer is empty",
}


def split_reasoning(text: str) -> tuple[str, str | None]:
    """`text` without what the model thought before it, and that thought.

    Thought stands in tags at the beginning; some chat templates eat the opening one, so a closing
    tag alone on its line ends it too. Without a closing tag all of it is thought.

    >>> split_reasoning("<think>用了！感叹号</think>答案")
    ('答案', '用了！感叹号')
    >>> split_reasoning("The tag `</think>` ends it.")
    ('The tag `</think>` ends it.', None)
    """
    thoughts = []
    while opened := _OPEN.match(text):
        close = re.compile(rf"</{opened[1]}>", re.IGNORECASE).search(text, opened.end())
        thoughts.append(text[opened.end() : close.start() if close else None].strip())
        text = text[close.end() :] if close else ""
    if not thoughts and (close := _CLOSE_ALONE.search(text)):
        thoughts.append(text[: close.start()].strip())
        text = text[close.end() :]
    return (text.strip() if thoughts else text), "\n\n".join(filter(None, thoughts)) or None


def read_reply(body: Any) -> Reply:
    """The reply in the body of a chat completion (the shape that OpenAI gave it).

    Raises:
        Unreadable: the body has another shape.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content = message.get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise Unreadable(f"no chat completion in the reply: {str(body)[:200]}") from None
    text, thought = split_reasoning(_joined(content))
    given = message.get("reasoning_content") or message.get("reasoning")
    reasoning = "\n\n".join(part for part in (_joined(given), thought) if part) or None
    finish = _FINISH.get(str(choice.get("finish_reason")).lower(), "stop")
    if not text.strip() and message.get("refusal"):
        text, finish = _joined(message["refusal"]), "refused"
    is_empty = not text.strip()
    if is_empty and finish == "stop":
        finish = "empty"
    usage = body.get("usage") or {}
    return Reply(
        text=None if is_empty else text,
        reasoning=reasoning,
        finish=finish,
        error=_NOTHING[finish] if is_empty else None,
        input_tokens=_count(usage, "prompt_tokens"),
        cached_tokens=_count(usage.get("prompt_tokens_details"), "cached_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        reasoning_tokens=_count(usage.get("completion_tokens_details"), "reasoning_tokens"),
        version=body.get("model") if isinstance(body.get("model"), str) else None,
    )


def _joined(content: Any) -> str:
    """Content is a text, or a list of parts of which some are texts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def priced(reply: Reply, prices: Mapping[str, float]) -> float | None:
    """US dollars of a reply at `prices` per million tokens: input, output, and cached if cheaper.

    >>> reply = Reply(input_tokens=10_000, cached_tokens=9_000, output_tokens=0)
    >>> round(priced(reply, {"input": 1, "cached": 0.1, "output": 3}), 6)
    0.0019
    """
    if reply.input_tokens is None or reply.output_tokens is None:
        return None
    cached = min(reply.cached_tokens or 0, reply.input_tokens)
    return (
        (reply.input_tokens - cached) * prices["input"]
        + cached * prices.get("cached", prices["input"])
        + reply.output_tokens * prices["output"]
    ) / 1e6
