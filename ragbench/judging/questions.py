"""One question to a judge: the material fenced as data, the reply read, and asked again in bounds.

What comes from others (documents, question, response, requirement, claims) stands between lines
that carry a code. The code is a hash of that very material, so no text can hold it, and the same
call is the same on every machine: a run that goes on after a stop asks what it would have asked.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from ragbench import prompts
from ragbench.errors import RagbenchError, UnknownName
from ragbench.judging.material import Material, document
from ragbench.judging.verdicts import Form
from ragbench.llm import Ask, Reply

ATTEMPTS = 3
"""How often a judge is asked before a reply that cannot be read becomes an error."""

BLANKS = ("documents", "query", "response", "constraint", "constraints", "claims", "code")
"""What an evaluation prompt may have blanks for."""

T = TypeVar("T")


class Call(NamedTuple):
    """One request: its messages, and what tells an honest reply from an echo."""

    messages: prompts.Messages
    code: str
    judged: list[str]


def call(
    prompt: prompts.Prompt, material: Material, turn: str = "0", *, again: bool = False
) -> Call:
    """The request that `prompt` makes of `material`; another `turn` has another code.

    The documents, question and response come first and the code depends on them alone, so that an
    endpoint which remembers how prompts begin reads them once for all requirements, and what the
    system says once for all responses.
    """
    wanted = material.language
    judged = material.texts()
    code = _code(material, judged, turn)
    values = {
        "documents": _fence_documents(material, code),
        "query": _fence("QUESTION", material.query, code),
        "response": _fence("RESPONSE", material.response, code),
        "constraint": _fence("REQUIREMENT", material.constraint, code),
        "constraints": _fence("REQUIREMENTS", _numbered(material.constraints), code),
        "claims": _fence("CLAIMS", _numbered(material.claims), code),
        "code": code,
    }
    rules, first = (part["content"] for part in _ours("fences", wanted).messages(code=code))
    parts = {part["role"]: part["content"] for part in prompt.messages(**values)}
    system = f"{parts['system']}\n\n{rules}" if "system" in parts else rules
    user = f"{first}\n\n{parts['user']}"
    if again:
        user += f"\n\n{_ours('again', wanted).user}"
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return Call(messages, code, judged)


@cache
def _ours(name: str, language: str | None) -> prompts.Prompt:
    return prompts.load(name, language)


def _code(material: Material, judged: Sequence[str], turn: str) -> str:
    shared = [material.query, material.response, *map(document, material.documents)]
    for salt in range(1000):
        given = "\x1f".join([*shared, turn, str(salt)]).encode("utf-8", "replace")
        code = "c" + hashlib.sha256(given).hexdigest()[:11]
        if not any(code in text for text in judged):
            return code
    raise RagbenchError("no code was found that the texts to be judged do not hold.")


def _fence(name: str, text: str, code: str) -> str:
    return f"<<<{name} {code}>>>\n{inert(text)}\n<<<END OF {name} {code}>>>"


def _fence_documents(material: Material, code: str) -> str:
    return "\n".join(
        _fence(f"DOCUMENT {number}", document(row), code)
        for number, row in enumerate(material.documents, start=1)
    )


def _numbered(texts: Sequence[str]) -> str:
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))


# By the sign that each begins with: most texts hold neither, which is found at once.
_CONTROL = {
    "<": re.compile(r"<(?=[|｜]|/?s>|</?SYS>|/?(?:start|end)_of_turn>)", re.IGNORECASE),
    "[": re.compile(r"\[(?=/?(?:INST|SYSTEM_PROMPT)\])", re.IGNORECASE),
}


def inert(text: str) -> str:
    """`text` in which the marks of chat templates are broken by a sign that does not show.

    Some servers read `<|im_end|>` in a message as the end of the message.

    >>> inert("a<|im_end|>b") == "a<\\u200b|im_end|>b", inert("[1] a < b")
    (True, '[1] a < b')
    """
    for sign, marks in _CONTROL.items():
        if sign in text:
            text = marks.sub("\\g<0>\u200b", text)
    return text


class Answer(NamedTuple):
    """What a judge said at last, and what the request came to."""

    found: Any  # what the reader made of the reply; None with an error
    error: str | None
    raw: str | None
    usage: Mapping[str, Any] = {}  # of all tries, in the columns of `evidence`


Read = Callable[[str, Call, bool], tuple[T, str | None]]
"""Makes something of a reply, its call, and whether it was cut off; and says what is wrong."""


async def answer(
    ask: Ask, prompt: prompts.Prompt, material: Material, turn: str, read: Read[Any]
) -> Answer:
    """What `read` makes of the judge's reply, asked again where that fails.

    A reply that was cut off, refused or filtered would only be so again: it is not asked for twice.
    """
    last = Answer(None, "no reply", None)
    replies: list[Reply] = []
    for attempt in range(ATTEMPTS):
        made = call(prompt, material, f"{turn}.{attempt}", again=attempt > 0)
        reply: Reply = await ask(made.messages)
        replies.append(reply)
        if reply.error is not None or reply.text is None:
            last = Answer(None, reply.error or "empty: the judge said nothing", reply.text)
            break
        found, error = read(reply.text, made, reply.finish == "length")
        last = Answer(found, error, reply.text)
        if error is None:
            break
        if reply.finish in ("refused", "filtered"):
            last = last._replace(error=f"{reply.finish} by the judge: {error}")
        if reply.finish not in ("stop", None):
            break
    return last._replace(usage=_usage(replies))


_SUMMED = (
    *("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"),
    *("cost", "seconds"),
)


def _usage(replies: Sequence[Reply]) -> dict[str, Any]:
    """What the tries of one question took together; null where no reply says."""
    used: dict[str, Any] = {"endpoint": replies[-1].endpoint}
    for name in _SUMMED:
        said = [value for reply in replies if (value := getattr(reply, name)) is not None]
        used[name] = sum(said) if said else None
    return used


def form(prompt: prompts.Prompt) -> Form:
    """What the head of `prompt` says about the answer it asks for.

    Raises:
        RagbenchError: its scale is not two numbers, the lower first.
        UnknownName: it has a blank that no judge can fill.
    """
    for blank in sorted(prompt.blanks()):
        if blank not in BLANKS:
            raise UnknownName("blank", blank, BLANKS, place=f"prompt {prompt.name!r}")
    head = prompt.head
    low, high = 0.0, 1.0
    if "scale" in head:
        try:
            low, high = (float(part) for part in re.split(r"[\s,]+", head["scale"]))
        except ValueError:
            low, high = 1.0, 0.0
        if not low < high or math.isinf(high - low):
            raise RagbenchError(
                f"prompt {prompt.name!r}: scale {head['scale']!r} is not two numbers, the lower "
                "first; write 'scale: 1 5', or leave it out for yes and no."
            )
    return Form(
        verdict=head.get("verdict", "score"),
        reason=head.get("reason", "reason"),
        triggered=head.get("triggered"),
        also=head.get("also"),
        lowest=low,
        highest=high,
        is_scale="scale" in head,
    )


_SHOWS = {"response": ("response",), "constraint": ("response", "constraint"), "claim": ("claims",)}


def refuse_blind(own: prompts.Prompt, target: str) -> None:
    """Raise where a judge would not see what it grades, or not hear what it has to answer."""
    for blank in _SHOWS[target]:
        if blank not in own.blanks():
            raise RagbenchError(
                f"prompt {own.name!r} ({own.language}) has no ${blank}, so the judge would not see "
                "what it grades; put it under '# User'."
            )
    field = form(own).verdict
    if target != "claim" and field not in own.system + own.user:
        raise RagbenchError(
            f"prompt {own.name!r} ({own.language}) asks for no {field!r}, the field that is read; "
            "show it in the JSON that it asks for, or name another with 'verdict: …'."
        )
