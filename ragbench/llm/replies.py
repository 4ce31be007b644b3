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


_ENDS = {
    "length": "length max_tokens max_output_tokens max_length model_length incomplete "
    "model_context_window_exceeded",
    "filtered": "content_filter content_filtered safety recitation blocklist prohibited_content "
    "spii sensitive guardrail_intervened",
    "refused": "refusal",
    "broken": "error network_error failed abort aborted cancelled canceled",
}
_FINISH = {name: finish for finish, names in _ENDS.items() for name in names.split()}
_NOTHING = {
    "length": "cut off before any answer; raise max_tokens",
    "filtered": "filtered by the endpoint",
    "refused": "refused by the endpoint",
    "empty": "the answer is empty",
}

_ANYWHERE = {
    "think": (r"<think(?:\s[^<>]*)?(?<!/)>", r"</think\s*>"),
    "brackets": (r"\[THINK\]", r"\[/THINK\]"),
    "triangles": (r"◁think▷", r"◁/think▷"),
    "bars": (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
}
_FIRST = {  # words that an answer may well use as tags of its own
    name: (rf"<{name}(?:\s[^<>]*)?>", rf"</{name}\s*>")
    for name in ("thinking", "thought", "reasoning")
}
_CLOSING = {
    form: re.compile(closing, re.IGNORECASE) for form, (_, closing) in (_ANYWHERE | _FIRST).items()
}
for name in ("think", "thinking"):  # which models mix up
    _CLOSING[name] = re.compile(r"</think(?:ing)?\s*>", re.IGNORECASE)
_OPENINGS = [f"(?P<{form}>{opening})" for form, (opening, _) in (_ANYWHERE | _FIRST).items()]
_UNOPENED = f"(?P<unopened>{'|'.join(closing for _, closing in _ANYWHERE.values())})"
_TAG = "(?i:" + "|".join([*_OPENINGS, _UNOPENED]) + ")"
_CODE = (  # Markdown's: what opens a block between fences, a span in a line
    r"^ {0,3}(?P<fence>`{3,}+(?=[^`\n]*$)|~{3,}+)",
    r"(?<!`)(`{1,2})(?!`)[^\n]*?[^`\n]\2(?!`)",
)
_CODE_OR_TAG = re.compile("|".join([*_CODE, _TAG]), re.MULTILINE)
_BEGIN = re.compile(r"[<[◁]/?(?i:think|thought|reasoning|\|begin_of|\|end_of)")  # quick to find


def split_reasoning(text: str) -> tuple[str, str | None]:
    """`text` without what the model thought, and that thought.

    Thought stands between tags, as a rule before the answer, whose end a closing tag alone marks
    too: some chat templates eat the opening one. What opens a text and is not closed is all
    thought. Tags in Markdown's code are text.

    >>> split_reasoning("<think>用了！感叹号</think>答案")
    ('答案', '用了！感叹号')
    >>> split_reasoning("The tag `</think>` ends it.")
    ('The tag `</think>` ends it.', None)
    """
    if not _BEGIN.search(text):
        return text, None
    thoughts: list[str] = []
    answer: list[str] = []  # that is not blank
    nowhere: set[str] = set()  # what closes nothing further on: each is looked for to the end once

    def behind(what: str, closing: re.Pattern[str], at: int) -> re.Match[str] | None:
        found = None if what in nowhere else closing.search(text, at)
        if found is None:
            nowhere.add(what)
        return found

    def say(start: int, end: int) -> None:
        if answer or text[start:end].strip():
            answer.append(text[start:end])

    at = 0
    while found := _CODE_OR_TAG.search(text, at):
        say(at, found.start())
        at, form = found.end(), found.lastgroup
        if fence := found["fence"]:
            closed = behind(fence, re.compile(rf"^ {{0,3}}{fence}[`~]*[ \t]*$", re.MULTILINE), at)
            at = closed.end() if closed else at
            say(found.start(), at)
        elif form == "unopened":
            thoughts.append("".join(answer))
            answer.clear()
        elif form is None or (form in _FIRST and answer):
            say(found.start(), at)
        elif closed := behind(form, _CLOSING[form], at):
            thoughts.append(text[at : closed.start()])
            at = closed.end()
        elif answer:
            say(found.start(), at)
        else:
            thoughts.append(text[at:])
            at = len(text)
    if not thoughts:
        return text, None
    say(at, len(text))
    return "".join(answer).strip(), "\n\n".join(filter(None, map(str.strip, thoughts))) or None


def read_reply(body: Any) -> Reply:
    """The reply in the body of a chat completion (the shape that OpenAI gave it).

    Raises:
        Unreadable: the body has another shape, or the endpoint says that it broke the reply off.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        content = message.get("content")
        finish = _finish(choice)
        said, thought_in_parts = _joined(content), _joined(content, of_thought=True)
        given = _joined(message.get("reasoning_content") or message.get("reasoning"))
    except (KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise Unreadable(f"no chat completion in the reply: {body}") from None
    if finish == "broken":
        raise Unreadable(f"the endpoint broke its reply off: {said}")
    text, thought = split_reasoning(said)
    reasoning = "\n\n".join(filter(None, (given, thought_in_parts, thought))) or None
    if not text.strip() and message.get("refusal"):
        text, finish = _joined(message["refusal"]), "refused"
    is_empty = not text.strip()
    if is_empty and finish == "stop":
        finish = "empty"
    usage = body["usage"] if isinstance(body.get("usage"), Mapping) else {}
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


def _finish(choice: Mapping[str, Any]) -> str:
    """How the reply ended. litellm calls an end that it does not know, and an error, stop."""
    native = (choice.get("provider_specific_fields") or {}).get("native_finish_reason")
    names = (str(name).lower() for name in (native, choice.get("finish_reason")))
    return next((_FINISH[name] for name in names if name in _FINISH), "stop")


def _joined(content: Any, of_thought: bool = False) -> str:
    """What is said, or what is thought, in a text or in a list of parts."""
    if not isinstance(content, list):
        return content if isinstance(content, str) and not of_thought else ""
    found = []
    for part in content:
        if isinstance(part, Mapping):
            kind = str(part.get("type"))
            is_thought = "reasoning" in kind or "thinking" in kind
            names = ("text", "thinking", "reasoning", "summary") if is_thought else ("text",)
            if is_thought == of_thought:
                found.append(_joined(next(filter(None, map(part.get, names)), None)))
    return "".join(found)


def _count(usage: Any, name: str) -> int | None:
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


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
