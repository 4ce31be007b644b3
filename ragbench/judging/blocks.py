"""Lines, list items, headings, paragraphs and quotations: the blocks of a text.

Read as Markdown, with the list marks and headings that Chinese answers use beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ragbench.judging.text import has_content

__all__ = [
    "Heading",
    "Item",
    "bullet_items",
    "fenced",
    "headings",
    "lines",
    "list_items",
    "numbered_items",
    "paragraphs",
    "plain",
    "quotations",
    "unmarked",
]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE_LINE = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t\u3000]+(\S.*)$")
_BULLET = re.compile(r"([ \t\u3000]*)(?:([-*+–])[ \t\u3000]+|([•·▪‣●○■□◆▶➢✓])[ \t\u3000]*)(\S.*)$")
_NUMERALS = "〇零一二三四五六七八九十百"
_NUMBERED = re.compile(
    r"([ \t\u3000]*)(?:\*\*|__)?(?:"
    # A digit after a point of the digits' own width makes a decimal, but for a year (1.2024年).
    r"(?P<arabic>\d{1,3})(?:[)）]|[ \t]*、|\.(?!\d)|\.(?=\d{4}年)|(?<![０-９])．|．(?![０-９]))"
    rf"|[(（](?P<bracketed>\d{{1,3}}|[{_NUMERALS}]{{1,4}})[)）]"
    r"|(?P<circled>[①-⑳㉑-㉟㊱-㊿⑴-⒇⒈-⒛❶-❿])"
    rf"|(?P<chinese>[{_NUMERALS}]{{1,4}})[、.．]"
    r")[ \t\u3000]*(\S.*)$"
)


def _marked_lines(text: str) -> list[tuple[str, bool]]:
    """Return every line and whether it belongs to a fenced code block."""
    marked: list[tuple[str, bool]] = []
    fence = ""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        opening = _FENCE.match(line)
        marked.append((line, bool(fence or opening)))
        if opening and not fence:
            fence = opening[1]
        elif opening and opening[1].startswith(fence) and line.strip() == opening[1]:
            fence = ""
    return marked


def fenced(text: str) -> list[str]:
    """Return what the fenced code blocks hold, their fences left out."""
    found: list[list[str]] = []
    fence = ""
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        opening = _FENCE.match(line)
        if not fence and opening:
            fence = opening[1]
            found.append([])
        elif fence and opening and opening[1].startswith(fence) and line.strip() == opening[1]:
            fence = ""
        elif fence:
            found[-1].append(line)
    return ["\n".join(block) for block in found]


def lines(text: str) -> list[str]:
    """Return the lines outside fenced code blocks; a line of a code block becomes empty."""
    return ["" if in_code else line for line, in_code in _marked_lines(text)]


@dataclass(frozen=True, slots=True)
class Item:
    """One list item: the text after its marker, how far it is indented, and its number's text."""

    text: str
    indent: int
    marker: str


def numbered_items(text: str) -> list[Item]:
    """Return the numbered items: 1. 1) 1、 （1） ① 一、 （一） at the start of a line.

    Code blocks do not count, nor a decimal, a year or a date at the start of a line.

    >>> [item.marker for item in numbered_items("1. 甲\\n（2）乙\\n③丙\\n四、丁")]
    ['1', '2', '③', '四']
    >>> numbered_items("3.5倍\\n2024.10.28 发布")
    []
    """
    return list(_numbered(lines(text)))


def _numbered(given: list[str]) -> Iterator[Item]:
    for line in given:
        match = _NUMBERED.match(line)
        if match:
            marker = match["arabic"] or match["bracketed"] or match["circled"] or match["chinese"]
            yield Item(match.group(match.re.groups), _indent(match[1]), marker)


def bullet_items(text: str) -> list[Item]:
    """Return the bullet items: - * + – before a space, or • · ● ■ and their like.

    Horizontal rules, table lines, negative numbers, emphasis and code blocks are none.

    >>> [item.text for item in bullet_items("- a\\n---\\n-5 degrees\\n--- | ---\\n•乙")]
    ['a', '乙']
    """
    found = []
    for line in lines(text):
        match = _BULLET.match(line)
        if match and not _RULE_LINE.match(line) and not _is_table_line(line):
            found.append(Item(match[4], _indent(match[1]), match[2] or match[3]))
    return found


def _indent(space: str) -> int:
    return len(space.replace("\t", "    ").replace("\u3000", "  "))


def list_items(text: str) -> list[Item]:
    """Return the items of numbered and bullet lists together, in the order of the text."""
    found = []
    for line in lines(text):
        numbered = next(_numbered([line]), None)
        found += [numbered] if numbered else bullet_items(line)
    return found


@dataclass(frozen=True, slots=True)
class Heading:
    """One Markdown heading: its level from 1 to 6 and its text without marks."""

    level: int
    text: str


def headings(text: str) -> list[Heading]:
    """Return the Markdown headings: one to six # and a space at the start of a line.

    >>> headings("# 背景\\n#话题\\n```\\n# code\\n```\\n## Next ##")
    [Heading(level=1, text='背景'), Heading(level=2, text='Next')]
    """
    matches = (_HEADING.match(line) for line in lines(text))
    return [Heading(len(match[1]), _heading_text(match[2])) for match in matches if match]


def _heading_text(raw: str) -> str:
    bare = raw.rstrip()
    closed = bare.rstrip("#")
    return plain(closed if closed != closed.rstrip() else bare)


def plain(text: str) -> str:
    """Return a line without the emphasis marks, brackets and number that open a heading or item.

    >>> plain("**一、结论**："), plain("【背景】"), plain("2. `Scope`")
    ('结论：', '背景', 'Scope')
    """
    return re.sub(r"^【(.*?)】", r"\1", unmarked(text)).strip()


def unmarked(text: str) -> str:
    """Return a line without emphasis marks and what opens a heading or item, brackets kept.

    >>> unmarked("- **【结论】**：可以")
    '【结论】：可以'
    """
    bare = re.sub(r"\*\*|__|`|^[\s>#*]+", "", text).strip()
    match = _NUMBERED.match(bare) or _BULLET.match(bare)
    return match.group(match.re.groups) if match else bare


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs: blocks parted by blank lines, or by line breaks if there is none.

    Headings and horizontal rules are none and part what stands around them; a list is one, blank
    lines between its items or not, and so is a table or a code block.

    >>> paragraphs("# 题\\n\\n第一段。\\n\\n第二段，\\n仍是第二段。")
    ['第一段。', '第二段，\\n仍是第二段。']
    >>> len(paragraphs("第一段。\\n第二段。")), len(paragraphs("要点：\\n- a\\n- b\\n完。"))
    (2, 3)
    >>> len(paragraphs("如下。\\n\\n- a\\n\\n- b\\n\\n完。"))
    3
    >>> len(paragraphs("一。\\n# 题\\n二。\\n\\n三。"))
    3
    """
    blocks = _blocks(text)
    blocks = (
        _line_blocks(blocks[0])
        if len(blocks) == 1
        else [part for block in blocks for part in _without_frames(block)]
    )
    joined: list[str] = []
    in_list = False
    for block in blocks:
        if len(block) == 1 and not block[0][1] and _is_frame(block[0][0]):
            in_list = False
            continue
        goes_on = in_list and _is_list(block)
        in_list = _is_list(block)
        whole = "\n".join(line for line, _ in block)
        if goes_on:
            joined[-1] += f"\n{whole}"
        else:
            joined.append(whole)
    return [block.strip() for block in joined if has_content(block)]


def _without_frames(block: list[tuple[str, bool]]) -> list[list[tuple[str, bool]]]:
    """Return the block cut at its headings and horizontal rules, each of them a piece."""
    pieces: list[list[tuple[str, bool]]] = [[]]
    for line, in_code in block:
        if not in_code and _is_frame(line):
            pieces += [[(line, in_code)], []]
        else:
            pieces[-1].append((line, in_code))
    return [piece for piece in pieces if piece]


def _is_list(block: list[tuple[str, bool]]) -> bool:
    """Return whether a block opens with a list item and goes on with items or indented lines."""
    return _line_kind(block[0][0]) == "list" and all(
        not in_code and (line.startswith(("  ", "\t")) or _line_kind(line) == "list")
        for line, in_code in block
    )


def _blocks(text: str) -> list[list[tuple[str, bool]]]:
    """Return the stretches of lines between blank ones; a blank line inside code parts nothing."""
    blocks: list[list[tuple[str, bool]]] = [[]]
    for line, in_code in _marked_lines(text):
        if line.strip() or in_code:
            blocks[-1].append((line, in_code))
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


def _line_blocks(block: list[tuple[str, bool]]) -> list[list[tuple[str, bool]]]:
    """Return one block a line, a run of list items, table lines or code lines kept together."""
    found: list[list[tuple[str, bool]]] = []
    previous = "text"
    for line, in_code in block:
        kind = "code" if in_code else _line_kind(line)
        if found and kind == previous and kind != "text":
            found[-1].append((line, in_code))
        else:
            found.append([(line, in_code)])
        previous = kind
    return found


def _is_table_line(line: str) -> bool:
    bare = line.strip()
    return bare.startswith("|") or ("|" in bare and "-" in bare and not bare.strip("|-: \t"))


def _line_kind(line: str) -> str:
    if _is_table_line(line):
        return "table"
    return "list" if list_items(line) else "text"


def _is_frame(line: str) -> bool:
    return _HEADING.match(line) is not None or _RULE_LINE.match(line) is not None


# --- Quotations.

_QUOTED = re.compile(r"“([^“”]*)”|「([^「」]*)」|『([^『』]*)』|\"([^\"\n]*)\"|＂([^＂\n]*)＂")


def quotations(text: str) -> list[str]:
    """Return what stands between “ ”, 「 」, 『 』 or straight double quotes, marks left out.

    Single quotes and 《 》 mark no quotation, and code blocks have none.

    >>> quotations('他说“可以”，she said "yes"; 《民法典》')
    ['可以', 'yes']
    """
    matches = _QUOTED.finditer("\n".join(lines(text)))
    return [next(part for part in match.groups() if part is not None) for match in matches]
