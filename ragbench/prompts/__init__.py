"""Prompts: one Markdown file each, in English and in Chinese, and the one function that reads them.

A file begins with a short head between two lines of `---`, `field: value` on each line, and goes on
with what is said under `# System` and `# User` (a file without headings is all said by the user).
Blanks are written `$query`, and a dollar sign `$$`, because the JSON in prompts is full of braces.
The requirements are those of EnterpriseRAG (arXiv 2608.11584); the words are ours, and so are the
Chinese versions: the originals were not published.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from string import Template
from typing import NamedTuple

from ragbench.errors import RagbenchError, UnknownName

__all__ = ["LANGUAGES", "Prompt", "load", "names", "parse"]

LANGUAGES = ("en", "zh")

Messages = list[dict[str, str]]


class Prompt(NamedTuple):
    """One prompt in one language."""

    name: str
    language: str
    head: Mapping[str, str]
    system: str
    user: str
    hash: str  # of the whole file, line ends and white space at the end apart

    def blanks(self) -> frozenset[str]:
        """The names of its blanks."""
        return _blanks(self.system) | _blanks(self.user)

    def messages(self, **values: str) -> Messages:
        """The messages of a call, every blank filled in; an empty system message is left out.

        Raises:
            UnknownName: a blank has no value among `values`.
        """
        for blank in sorted(self.blanks()):
            if blank not in values:
                raise UnknownName("blank", blank, sorted(values), place=f"prompt {self.name!r}")
        said = (("system", self.system), ("user", self.user))
        filled = [(role, Template(text).substitute(values)) for role, text in said]
        return [{"role": role, "content": text} for role, text in filled if text]


@cache
def _blanks(text: str) -> frozenset[str]:
    return frozenset(Template(text).get_identifiers())


@cache
def names() -> list[str]:
    """The names of the package's prompts, sorted."""
    files = (entry.name for entry in resources.files("ragbench.prompts").iterdir())
    return sorted({name.split(".")[0] for name in files if name.endswith(".md")})


@cache
def _packaged(name: str, language: str) -> Prompt:
    file = resources.files("ragbench.prompts").joinpath(f"{name}.{language}.md")
    return parse(file.read_text(encoding="utf-8"), name, language)


def load(name: str | os.PathLike[str], language: str | None = "en") -> Prompt:
    """The prompt `name` of the package, or the one in the file at that path.

    `language` zh (or zh-CN, …) gives the Chinese one, anything else the English one. A file of
    your own called `tone.en.md` may have a `tone.zh.md` beside it, and stands for both if not.

    Raises:
        UnknownName: the package has no prompt of that name.
        RagbenchError: the file cannot be read, or is no prompt.
    """
    wanted = "zh" if (language or "").casefold().startswith("zh") else "en"
    text = str(name)
    if text in names():
        return _packaged(text, wanted)
    path = _in_language(Path(name), wanted)
    if not text.endswith(".md") and not path.exists():
        raise UnknownName("prompt", text, names(), place="ragbench")
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise RagbenchError(f"the prompt {path} is not UTF-8; save it in that encoding.") from None
    except OSError as error:
        raise RagbenchError(
            f"the prompt {path} cannot be read ({error}); give the path of a Markdown file."
        ) from None
    return parse(content, _stem(path), wanted)


def _stem(path: Path) -> str:
    return re.sub(r"\.(en|zh)$", "", path.stem)


def _in_language(path: Path, language: str) -> Path:
    other = path.with_name(f"{_stem(path)}.{language}.md")
    return other if other.exists() and path.suffix == ".md" else path


_HEAD = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*\n", re.DOTALL | re.MULTILINE)
_PART = re.compile(r"^# (System|User)[ \t]*$", re.IGNORECASE | re.MULTILINE)


def parse(text: str, name: str, language: str = "en") -> Prompt:
    """The prompt that `text` holds; its head may name it otherwise than its file is called.

    Raises:
        RagbenchError: a line of the head is no `field: value`, or a dollar sign is no blank.

    >>> parse("---\\nname: tone\\n---\\nIs this polite? $response", "file").user
    'Is this polite? $response'
    """
    text = text.replace("\r\n", "\n").strip() + "\n"
    head: dict[str, str] = {}
    if found := _HEAD.match(text):
        for line in filter(str.strip, found[1].split("\n")):
            field, colon, value = line.partition(":")
            if not colon:
                raise RagbenchError(
                    f"prompt {name!r}: its head has the line {line!r}; write 'field: value'."
                )
            if not value.strip():
                raise RagbenchError(
                    f"prompt {name!r}: its head has {line.strip()!r} without a value; write one, "
                    "or leave the line out."
                )
            head[field.strip().casefold()] = value.strip()
    body = text[found.end() :] if found else text
    parts = _PART.split(body)
    said = {
        role.casefold(): part.strip() for role, part in zip(parts[1::2], parts[2::2], strict=True)
    }
    if not said:
        said = {"user": body.strip()}
    prompt = Prompt(
        name=head.get("name", name),
        language=language,
        head=head,
        system=said.get("system", ""),
        user=said.get("user", ""),
        hash=hashlib.sha256(re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).encode()).hexdigest()[
            :12
        ],
    )
    for part in (prompt.system, prompt.user):
        if not Template(part).is_valid():
            raise RagbenchError(
                f"prompt {prompt.name!r} holds a dollar sign that is no blank; write it as $$."
            )
    if not prompt.user:
        raise RagbenchError(f"prompt {prompt.name!r} says nothing under '# User'.")
    return prompt
