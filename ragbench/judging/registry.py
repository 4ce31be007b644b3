"""What a rule is: a named predicate with typed arguments; how it is found, checked and applied."""

from __future__ import annotations

import difflib
import inspect
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar

from ragbench.errors import BadConstraint
from ragbench.judging.text import has_content

__all__ = [
    "RULES",
    "Parameter",
    "Verdict",
    "argument_problems",
    "check",
    "parameters",
    "rule",
    "validate",
]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule found: its truth value is the verdict, `reason` the measured quantity or place.

    `degenerate` marks a pass that means nothing, such as a forbidden word absent from an empty
    answer: it counts as a pass and is listed beside the score.
    """

    passed: bool
    reason: str
    degenerate: bool = False

    def __bool__(self) -> bool:
        return self.passed


Predicate = Callable[..., Verdict]
P = TypeVar("P", bound=Predicate)
Extra = Callable[[Mapping[str, Any]], Sequence[str]]

RULES: dict[str, Predicate] = {}
_EXTRAS: dict[str, tuple[Extra, ...]] = {}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a rule: its name, what it may hold, and whether it must be given."""

    name: str
    kind: str
    required: bool
    default: object
    accepts: Callable[[object], bool]


@typing.overload
def rule(function: P, /) -> P: ...
@typing.overload
def rule(name: str, /, *extras: Extra) -> Callable[[P], P]: ...
def rule(target: Predicate | str, /, *extras: Extra) -> Any:
    """Register a predicate under its own name, or under the name given.

    `extras` are functions of the arguments that return problems no type can express, such as a
    lower bound above the upper one.
    """
    if not isinstance(target, str):
        return rule(target.__name__)(target)

    def register(function: P) -> P:
        if target in RULES:
            raise BadConstraint(f"two rules are called {target!r}; give one another name")
        RULES[target] = function
        _EXTRAS[target] = (_bounds, *extras)
        return function

    return register


@cache
def parameters(name: str) -> tuple[Parameter, ...]:
    """Return the arguments a rule takes, in order, `text` and `context` left out."""
    function = RULES[name]
    hints = typing.get_type_hints(function)
    found = []
    for key, spec in inspect.signature(function).parameters.items():
        if key == "context" or spec.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        kind, accepts = _kind(hints[key])
        required = spec.default is inspect.Parameter.empty
        found.append(Parameter(key, kind, required, None if required else spec.default, accepts))
    return tuple(found)


@cache
def _takes_context(name: str) -> bool:
    return "context" in inspect.signature(RULES[name]).parameters


def _kind(hint: Any) -> tuple[str, Callable[[object], bool]]:
    """Return how an annotation reads in a message, and the test of a value against it."""
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if hint is bool:
        return "true or false", lambda value: isinstance(value, bool)
    if hint is int:
        # True is an int to Python but not to whoever writes constraints.
        return (
            "a whole number",
            lambda value: isinstance(value, int) and value is not True and (value is not False),
        )
    if hint is str:
        return "text", lambda value: isinstance(value, str)
    if origin is Literal:
        shown = "one of " + ", ".join(repr(option) for option in options)
        return shown, lambda value: isinstance(value, str) and value in options
    if origin is list:
        inner, accepts = _kind(options[0])
        return (
            f"a list of {inner}",
            lambda value: isinstance(value, list | tuple) and all(map(accepts, value)),
        )
    if origin in (typing.Union, types.UnionType):
        kinds = [_kind(option) for option in options if option is not type(None)]
        shown = " or ".join(kind for kind, _ in kinds)
        return shown, lambda value: value is None or any(accepts(value) for _, accepts in kinds)
    raise TypeError(f"a rule cannot take an argument of type {hint!r}")


def _bounds(params: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with `at_least` and `at_most` taken together."""
    low, high = params.get("at_least"), params.get("at_most")
    found = [
        f"{name} is {value}, below 0"
        for name, value in (("at_least", low), ("at_most", high))
        if value is not None and value < 0
    ]
    if low is not None and high is not None and low > high:
        found.append(f"at_least is {low} and at_most is {high}: no text can meet both")
    return found


def _near(value: str, options: Sequence[str]) -> str:
    near = difflib.get_close_matches(value, options, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def argument_problems(name: object, params: Mapping[str, Any] | None) -> list[str]:
    """Return everything wrong with a rule's name and arguments, one short sentence each.

    An argument given as null counts as not given; 0, false and an empty list are values.
    """
    if not isinstance(name, str) or name not in RULES:
        options = sorted(RULES)
        hint = _near(name, options) if isinstance(name, str) else ""
        return [f"no rule {_shown(name)}{hint or '.'} There are: {', '.join(options)}"]
    if params is None:
        params = {}
    if not isinstance(params, Mapping):
        return [f"the arguments of {name} are {_shown(params)}, not an object of names and values"]
    known = {parameter.name: parameter for parameter in parameters(name)}
    given = {key: value for key, value in params.items() if value is not None}
    found = [
        f"{name} takes no argument {_shown(key)}{_near(str(key), list(known)) or '.'} "
        f"It takes: {', '.join(known) or 'none'}"
        for key in params
        if key not in known
    ]
    found += [
        f"{name} needs {parameter.name}: {parameter.kind}"
        for parameter in known.values()
        if parameter.required and parameter.name not in given
    ]
    found += [
        f"{name}: {key} is {_shown(value)}, which is not {known[key].kind}"
        + (_near(value, _choices(known[key].kind)) if isinstance(value, str) else "")
        for key, value in given.items()
        if key in known and not known[key].accepts(value)
    ]
    if not found:
        found = [f"{name}: {problem}" for extra in _EXTRAS[name] for problem in extra(given)]
    return found


def _choices(kind: str) -> list[str]:
    return [part.strip("'") for part in kind.removeprefix("one of ").split(", ")]


def validate(rule: object, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the arguments as the rule will take them, nulls dropped; raise what is wrong.

    >>> validate("forbidden_terms", {"terms": []})
    {'terms': []}
    >>> validate("forbiden_terms", {"terms": ["!"]})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ragbench.errors.BadConstraint: no rule "forbiden_terms"; did you mean 'forbidden_terms'? ...
    """
    problems = argument_problems(rule, params)
    if problems:
        raise BadConstraint("; ".join(problems))
    return {key: value for key, value in (params or {}).items() if value is not None}


def check(
    rule: str,
    text: str,
    params: Mapping[str, Any] | None = None,
    *,
    context: str | Sequence[str] | None = None,
) -> Verdict:
    """Return the verdict of one rule on one text.

    `context` is the retrieved text, needed by the rules that compare with it. A bad rule, bad
    arguments or a context that is needed and absent raise `BadConstraint`.

    >>> check("length", "无法直接回答您的问题。", {"unit": "characters", "at_most": 5})
    Verdict(passed=False, reason='10 characters, at most 5 asked', degenerate=False)
    """
    arguments = validate(rule, params)
    if not isinstance(text, str):
        raise BadConstraint(f"{rule} judges text, not {_shown(text)}")
    if _takes_context(rule):
        arguments["context"] = _joined(rule, context)
    verdict = RULES[rule](text, **arguments)
    if verdict.passed and not verdict.degenerate and not has_content(text):
        return replace(verdict, degenerate=True, reason=f"{verdict.reason}; the text is empty")
    return verdict


def _joined(rule: str, context: str | Sequence[str] | None) -> str | None:
    if context is None or isinstance(context, str):
        return context
    if not context:  # no passages were shown: nothing to compare with
        return None
    if all(isinstance(part, str) for part in context):
        return "\n\n".join(context)
    raise BadConstraint(f"the context given to {rule} holds something that is not text")
