"""The table of rules in `docs/rules.md`, made from the rules' own examples."""

from __future__ import annotations

import ast
import doctest
import re
from pathlib import Path

from ragbench.judging.rules import RULES, Parameter, parameters

__all__ = ["CLOSING", "OPENING", "examples", "table", "update"]

OPENING = "<!-- rules: made by `python -m ragbench.judging.reference`, do not edit by hand -->"
CLOSING = "<!-- end of rules -->"


def examples(name: str) -> list[tuple[bool, str, dict[str, object]]]:
    """Return the examples of a rule: expected verdict, text and the arguments shown.

    >>> examples("no_emoji")[2]
    (False, '好的👍', {})
    """
    names: dict[str, object] = {}
    found = []
    for example in doctest.DocTestParser().get_examples(RULES[name].__doc__ or ""):
        statement = ast.parse(example.source.strip()).body[0]
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
            if isinstance(target, ast.Name) and isinstance(statement.value, ast.Constant):
                names[target.id] = statement.value.value
            continue
        if not isinstance(statement, ast.Expr) or example.want.strip() not in ("True", "False"):
            continue
        call = statement.value
        if isinstance(call, ast.Call) and isinstance(call.args[0], ast.Call):
            inner = call.args[0]
            shown = {
                word.arg or "": names[word.value.id]
                if isinstance(word.value, ast.Name)
                else ast.literal_eval(word.value)
                for word in inner.keywords
            }
            found.append((example.want.strip() == "True", ast.literal_eval(inner.args[0]), shown))
    return found


def table() -> str:
    """Return the table of all rules: arguments, meaning, and examples that pass and fail."""
    lines = [
        "| rule | arguments | passes when | passes | fails |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in sorted(RULES, key=lambda name: (":" in name, name)):
        shown = examples(name)
        cells = [
            f"`{name}`",
            "<br>".join(_argument(name)) or "none",
            _meaning(name),
            "<br>".join(_example(text, given) for passed, text, given in shown if passed),
            "<br>".join(_example(text, given) for passed, text, given in shown if not passed),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _argument(name: str) -> list[str]:
    return [
        f"`{one.name}`: {one.kind}{'' if one.required else f', else {_default(name, one)}'}"
        for one in parameters(name)
    ]


# What no value means; everywhere else a bound is none and any other thing is any.
_ABSENT = {
    ("ordered", "descending"): "false, by frequency true",
    ("required_terms", "at_least"): "all of them",
    ("tone", "words"): "our list",
    ("conclusion_first", "markers"): "our list",
    ("vocabulary", "among"): "none",
    ("sections", "marker"): "none",
}


def _default(rule: str, argument: Parameter) -> str:
    """Return what holds where an argument is not given.

    >>> [_default("ordered", one) for one in parameters("ordered") if one.name == "descending"]
    ['false, by frequency true']
    """
    if argument.default is None:
        bound = "no bound" if argument.name in ("at_least", "at_most") else "any"
        return _ABSENT.get((rule, argument.name), bound)
    value = argument.default
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meaning(name: str) -> str:
    """Return the prose of the docstring, without its examples, on one line."""
    prose = (RULES[name].__doc__ or "").split(">>>")[0]
    parts = " ".join(prose.split()).split("`")
    escaped = [_escaped(part) if place % 2 == 0 else part for place, part in enumerate(parts)]
    return "`".join(escaped).replace("|", "\\|")


def _escaped(prose: str) -> str:
    for mark, shown in (("<", "&lt;"), (">", "&gt;"), ("*", "\\*"), ("#", "\\#"), ("_", "\\_")):
        prose = prose.replace(mark, shown)
    return prose


def _example(text: str, given: dict[str, object]) -> str:
    arguments = ", ".join(f"{key}={value!r}" for key, value in given.items())
    return _code(text.replace("\n", "⏎")) + (f" with {_code(arguments)}" if arguments else "")


def _code(text: str) -> str:
    bare = text.replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", bare)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{bare}{pad}{fence}"


def update(path: Path) -> bool:
    """Put the current table into a page between its marks; return whether that changed it."""
    page = path.read_text(encoding="utf-8")
    before, rest = page.split(OPENING)
    _, after = rest.split(CLOSING)
    fresh = f"{before}{OPENING}\n\n{table()}\n\n{CLOSING}{after}"
    path.write_text(fresh, encoding="utf-8")
    return fresh != page


if __name__ == "__main__":
    page = Path(__file__).resolve().parents[2] / "docs" / "rules.md"
    print(f"{page.name}: {'updated' if update(page) else 'current'}")
