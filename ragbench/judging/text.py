"""What a character, word, sentence, paragraph, list item, heading and quotation is.

One definition each, written down for readers in `docs/rules.md`; every rule counts with these.
All functions are pure, take raw text and return pieces of it, and run in time linear in it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

# --- Folding: the documented set, one character for one, so that places stay comparable.

_FOLDS = {0xFF01 + offset: 0x21 + offset for offset in range(94)}  # ！…～ to !…~
_FOLDS |= {0x3000: 0x20, 0xFFE0: 0xA2, 0xFFE1: 0xA3, 0xFFE5: 0xA5}  # wide space, ￠ ￡ ￥
_FOLDS |= {0xFF61: 0x3002, 0xFF62: 0x300C, 0xFF63: 0x300D, 0xFF64: 0x3001}  # ｡ ｢ ｣ ､


def fold(text: str) -> str:
    """Return the text with full-width ASCII, the wide space and ￠￡￥ in their usual width.

    Half-width ｡｢｣､ become 。「」、. Nothing else changes: ① stays ①, and 。 is not a full stop.

    >>> fold("ＡＩ２！①。")
    'AI2!①。'
    """
    return text if text.isascii() else text.translate(_FOLDS)


# --- Scripts. Text in these has no spaces between words, so each character stands for itself.

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u30fa\u30fc-\u312f\u31a0-\u31bf"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# Vowel signs and accents, which `\w` leaves out although no word is whole without them.
MARKS = (
    "\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4"
    "\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u09e2\u09e3"
    "\u0a01-\u0a03\u0a3c-\u0a51\u0a70\u0a71\u0a75\u0a81-\u0a83\u0abc-\u0acd\u0ae2\u0ae3\u0b01-\u0b03"
    "\u0b3c-\u0b57\u0b62\u0b63\u0b82\u0bbe-\u0bcd\u0bd7\u0c00-\u0c04\u0c3c-\u0c56\u0c62\u0c63"
    "\u0c81-\u0c83\u0cbc-\u0cd6\u0ce2\u0ce3\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0d62\u0d63\u0d81-\u0d83"
    "\u0dca-\u0df3\u200c\u200d"
)
_SPACED = rf"[^\W{UNSPACED}]"  # a letter, digit or underscore of a script that spaces its words
_IN_WORD = rf"(?:{_SPACED}|[{MARKS}])"
_WORD = re.compile(
    rf"[^\W{UNSPACED}_]{_IN_WORD}*(?:(?:['’‐‑-]|(?<=\d)[.,](?=\d)){_SPACED}{_IN_WORD}*)*"
    rf"|(?:[^\W{MARKS}_])"
)
_ACRONYM = re.compile(r"(?<!\w)(?:[A-Za-z]\.){2,}")
_RUN = re.compile(rf"{_SPACED}{_IN_WORD}*|[{UNSPACED}]")
_ALNUM = re.compile(r"[^\W_]")


def has_content(text: str) -> bool:
    """Return whether the text holds any letter or digit at all."""
    return _ALNUM.search(text) is not None


def characters(text: str) -> int:
    """Return the number of letters and digits; punctuation, symbols and spaces do not count.

    >>> characters("根据现有资料，无法直接回答您的问题。"), characters("AI模型 v2")
    (16, 6)
    """
    return len(_ALNUM.findall(text))


@lru_cache(maxsize=4096)
def _is_visible(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "LNPS" or category == "Co"


def characters_with_punctuation(text: str) -> int:
    """Return the number of visible characters: letters, digits, punctuation and symbols.

    Spaces, line breaks, invisible and combining characters do not count; an emoji, however it is
    composed, is one.

    >>> characters_with_punctuation("根据现有资料，无法直接回答您的问题。")
    18
    >>> characters_with_punctuation("好👨‍👩‍👧 ok"), characters_with_punctuation("e\u0301")
    (4, 1)
    """
    if text.isascii():
        return sum(map(len, re.findall(r"[!-~]+", text)))
    return sum(map(_is_visible, _EMOJI.sub("\u25a0", text)))


def words(text: str) -> list[str]:
    """Return the words: runs of letters and digits, each character for itself in Chinese.

    An apostrophe or hyphen between letters, a point or comma between digits, and the points of
    U.S. do not split a word. Scripts without spaces (Han, kana, Thai, Lao, Khmer, Burmese) give
    one word a character.

    >>> words("Don't pay 3.14 for a well-known U.S. brand!")
    ["Don't", 'pay', '3.14', 'for', 'a', 'well-known', 'U.S.', 'brand']
    >>> words("用Python写3行")
    ['用', 'Python', '写', '3', '行']
    """
    if "." not in text:
        return _WORD.findall(text)
    return _WORD_OR_ACRONYM.findall(text)


_WORD_OR_ACRONYM = re.compile(f"{_ACRONYM.pattern}|{_WORD.pattern}")


def runs(text: str) -> list[str]:
    """Return the words as IFEval counts them: every mark but the underscore splits.

    What IFEval's own count leaves out is mended: Chinese gives one a character, and vowel signs
    do not split a word of Hindi.

    >>> runs("Don't pay 3.14"), runs("好的 ok")
    (['Don', 't', 'pay', '3', '14'], ['好', '的', 'ok'])
    """
    return _RUN.findall(text)


# --- Sentences.

_CLOSERS = "\"'”’」』】）)\\]》〉}*_`~"
_WIDE_ENDS = "。！？｡‼⁉؟।॥"
_STOP = re.compile(rf"(?P<marks>[.!?…{_WIDE_ENDS}]+)(?P<closers>[{_CLOSERS}]*)")
# Never an end before more text; the second set is one when a capital or Chinese follows.
_TITLES = frozenset(
    "mr mrs ms dr prof rev hon gen col capt lt sgt gov sen rep st mt fr messrs vs v viz cf e.g i.e "
    "eg ie no nos fig figs eq vol pp p ch sec art ca approx al op ed eds trans ph".split()
)
_ABBREVIATIONS = frozenset(
    "etc inc ltd co corp bros jr sr esq dept univ assn est ave blvd rd a.m p.m am pm ph.d m.d b.a "
    "m.a b.sc m.sc u.s u.k u.n e.u d.c u.s.a l.a jan feb mar apr jun jul aug sept sep oct nov dec "
    "mon tue tues wed thu thurs fri sat sun min max hr hrs km kg cm mm lb oz ft".split()
)
_BEFORE = re.compile(r"[^\W\d_](?:[^\W\d_]|\.(?=[^\W\d_]))*$")
_LIST_NUMBER = re.compile(r"[ \t>*_#-]*(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,4})$")


def sentences(text: str) -> list[str]:
    """Return the sentences, each with its end mark and closing quotes.

    。！？ and …… end a sentence anywhere. A half-width . ! ? ends one before a space, a Chinese
    character or the end of the text, but not in a decimal, an address, an abbreviation, an initial
    or a list number. A line break ends none; what follows the last mark is one more sentence. A
    piece without letters and digits belongs to the sentence before it.

    >>> sentences("The rate is 3.14 percent. OK.")
    ['The rate is 3.14 percent.', 'OK.']
    >>> len(sentences("第一句。第二句！第三句？"))
    3
    """
    spans: list[list[int]] = []
    start = 0
    for match in _STOP.finditer(text):
        if _ends_sentence(text, match, start):
            _add_span(spans, text, start, match.end())
            start = match.end()
    _add_span(spans, text, start, len(text))
    return [text[start:end].strip() for start, end in spans]


def _add_span(spans: list[list[int]], text: str, start: int, end: int) -> None:
    if _ALNUM.search(text, start, end):
        spans.append([start, end])
    elif spans:
        spans[-1][1] = end


def _ends_sentence(text: str, match: re.Match[str], start: int) -> bool:
    marks = match["marks"]
    after = text[match.end() : match.end() + 1]
    if any(mark in _WIDE_ENDS for mark in marks) or marks.count("…") > 1:
        return after not in tuple("，、；：,;")
    if after and not after.isspace() and not _is_cjk(after):
        return False
    if "!" in marks or "?" in marks:
        return True
    if marks == ".":
        return _point_ends(text, match, start)
    following = _next_visible(text, match.end())  # ... and a single …
    return not following or not (following.islower() or following.isdigit())


def _point_ends(text: str, match: re.Match[str], start: int) -> bool:
    """Return whether one half-width point, with a space or nothing after it, is a full stop."""
    window = text[max(start, match.start() - 40) : match.start()]
    opens_text = match.start() <= 40 and start == 0
    line = window.rpartition("\n")[2]
    if (opens_text or line != window) and _LIST_NUMBER.match(line):
        return False
    following = _next_visible(text, match.end())
    before = _BEFORE.search(window)
    if not following or before is None:
        return True
    token = before.group().lower()
    if token in _TITLES:
        return False
    if len(token) == 1 and before.group().isupper() and token != "i":
        return False
    if token in _ABBREVIATIONS:
        return not (following.islower() or following.isdigit())
    return True


_VISIBLE = re.compile(r"[^\s\"'“”‘’(\[*_`#>-]")


def _next_visible(text: str, position: int) -> str:
    match = _VISIBLE.search(text, position, position + 80)
    return match.group() if match else ""


def _is_cjk(character: str) -> bool:
    return _CJK.match(character) is not None


_CJK = re.compile(rf"[{UNSPACED}“‘「『（《【]")


# --- Lines and blocks.

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_RULE_LINE = re.compile(r"[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t\u3000]+(\S.*)$")
_BULLET = re.compile(r"([ \t\u3000]*)(?:([-*+–])[ \t\u3000]+|([•·▪‣●○■□◆▶➢✓])[ \t\u3000]*)(\S.*)$")
_NUMERALS = "〇零一二三四五六七八九十百"
_NUMBERED = re.compile(
    r"([ \t\u3000]*)(?:\*\*|__)?(?:"
    r"(?P<arabic>\d{1,3})(?:[.)、．）](?!\d)|[ \t]*[、])"
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

    >>> [item.marker for item in numbered_items("1. 甲\\n（2）乙\\n③丙\\n四、丁\\n3.5倍\\n2024.10.28 发布")]
    ['1', '2', '③', '四']
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
    bare = re.sub(r"\*\*|__|`|^[\s>#*]+", "", text).strip()
    match = _NUMBERED.match(bare)
    bare = match.group(match.re.groups) if match else bare
    return re.sub(r"^【(.*?)】", r"\1", bare).strip()


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs: blocks parted by blank lines, or by line breaks if there is none.

    Headings and horizontal rules are none; a list, a table or a code block is one, together with
    nothing else where only line breaks part the blocks.

    >>> paragraphs("# 题\\n\\n第一段。\\n\\n第二段，\\n仍是第二段。")
    ['第一段。', '第二段，\\n仍是第二段。']
    >>> len(paragraphs("第一段。\\n第二段。")), len(paragraphs("要点：\\n- a\\n- b\\n完。"))
    (2, 3)
    """
    blocks = _blocks(text)
    if len(blocks) == 1:
        blocks = _line_blocks(blocks[0])
    joined = (
        "\n".join(line for line, in_code in block if in_code or not _is_frame(line))
        for block in blocks
    )
    return [block.strip() for block in joined if has_content(block)]


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


# --- Emoji. Ranges of the Unicode emoji data; signs such as © and ™ need the selector U+FE0F.

_EMOJI_BASE = (
    "\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u25fd\u25fe\u2600-\u2604\u260e\u2611\u2614\u2615\u2618"
    "\u261d\u2620\u2622\u2623\u2626\u262a\u262e\u262f\u2638-\u263a\u2640\u2642\u2648-\u2653\u265f"
    "\u2660\u2663\u2665\u2666\u2668\u267b\u267e\u267f\u2692-\u2697\u2699\u269b\u269c\u26a0\u26a1"
    "\u26a7\u26aa\u26ab\u26b0\u26b1\u26bd\u26be\u26c4\u26c5\u26c8\u26ce\u26cf\u26d1\u26d3\u26d4"
    "\u26e9\u26ea\u26f0-\u26f5\u26f7-\u26fa\u26fd\u2702\u2705\u2708-\u270d\u270f\u2712\u2714\u2716"
    "\u271d\u2721\u2728\u2733\u2734\u2744\u2747\u274c\u274e\u2753-\u2755\u2757\u2763\u2764"
    "\u2795-\u2797\u27a1\u27b0\u27bf\u2b1b\u2b1c\u2b50\u2b55"
    "\U0001f004\U0001f0cf\U0001f18e\U0001f191-\U0001f19a\U0001f201\U0001f21a\U0001f22f"
    "\U0001f232-\U0001f236\U0001f238-\U0001f23a\U0001f250\U0001f251\U0001f300-\U0001f321"
    "\U0001f324-\U0001f393\U0001f396\U0001f397\U0001f399-\U0001f39b\U0001f39e-\U0001f3f0"
    "\U0001f3f3-\U0001f3f5\U0001f3f7-\U0001f4fd\U0001f4ff-\U0001f53d\U0001f549-\U0001f54e"
    "\U0001f550-\U0001f567\U0001f56f\U0001f570\U0001f573-\U0001f57a\U0001f587\U0001f58a-\U0001f58d"
    "\U0001f590\U0001f595\U0001f596\U0001f5a4\U0001f5a5\U0001f5a8\U0001f5b1\U0001f5b2\U0001f5bc"
    "\U0001f5c2-\U0001f5c4\U0001f5d1-\U0001f5d3\U0001f5dc-\U0001f5de\U0001f5e1\U0001f5e3\U0001f5e8"
    "\U0001f5ef\U0001f5f3\U0001f5fa-\U0001f64f\U0001f680-\U0001f6c5\U0001f6cb-\U0001f6d2"
    "\U0001f6d5-\U0001f6d8\U0001f6dc-\U0001f6e5\U0001f6e9\U0001f6eb\U0001f6ec\U0001f6f0"
    "\U0001f6f3-\U0001f6fc\U0001f7e0-\U0001f7eb\U0001f7f0\U0001f90c-\U0001f93a\U0001f93c-\U0001f945"
    "\U0001f947-\U0001f9ff\U0001fa70-\U0001faff"
)
_PICTURE = (
    rf"(?:[{_EMOJI_BASE}](?!\ufe0e)|[\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299"
    r"\U0001f170-\U0001f171\U0001f17e-\U0001f17f\U0001f202\U0001f237]\ufe0f)"
    r"\ufe0f?[\U0001f3fb-\U0001f3ff]?[\U000e0020-\U000e007f]*"
)
_EMOJI = re.compile(
    rf"[0-9#*]\ufe0f?\u20e3|[\U0001f1e6-\U0001f1ff]{{2}}|{_PICTURE}(?:\u200d{_PICTURE})*"
)


def emoji(text: str) -> list[str]:
    """Return the emoji, a composed one as one; ©, ™, arrows and digits only with U+FE0F.

    >>> emoji("好👍🏽 1️⃣ © ❤ ①")
    ['👍🏽', '1️⃣', '❤']
    """
    return [] if text.isascii() else _EMOJI.findall(text)


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


# --- Terms.


@lru_cache(maxsize=2048)
def _term_pattern(term: str, case_sensitive: bool, whole_words: bool) -> re.Pattern[str]:
    body = r"\s+".join(map(re.escape, term.split())) if term.split() else re.escape(term)
    if whole_words and re.match(_IN_WORD, term):
        body = rf"(?<!{_SPACED})(?<![{MARKS}])" + body
    if whole_words and re.search(rf"{_IN_WORD}\Z", term):
        body += rf"(?!{_IN_WORD})"
    return re.compile(body, 0 if case_sensitive else re.IGNORECASE)


def occurrences(
    text: str, term: str, *, case_sensitive: bool = False, whole_words: bool = True
) -> list[int]:
    """Return where a term stands in the text, both folded, without overlaps.

    At an end that is a letter or digit of a spaced script the term must not run on into a longer
    word; Chinese terms and punctuation are found anywhere. Spaces inside a term match any run of
    white space.

    >>> occurrences("We start modern ART.", "art"), occurrences("使用ＡＩ技术！", "ai")
    ([16], [2])
    >>> occurrences("好消息！", "!")
    [3]
    """
    pattern = _term_pattern(fold(term), case_sensitive, whole_words)
    return [match.start() for match in pattern.finditer(fold(text))]
