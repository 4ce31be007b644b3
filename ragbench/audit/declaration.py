"""What a reader declares about printed tables: a TOML file beside the CSV files.

`[tables.NAME]` gives a file, its `label`, its `key` (the columns that name a row), and which
columns hold `percent`, which are `exact` counts, and to how many `decimals` a column is printed
where its file does not show it. Each `[[check]]` names a kind, the cells it is
about, and what is assumed. docs/audit.md lists the kinds and how cells are written.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from ragbench.audit.files import listed, read_csv, refuse_misshapen
from ragbench.audit.rounding import CONVENTIONS, Printed, Span, numbers
from ragbench.errors import BadRow, ImportFailed, UnknownColumn, UnknownName

_REFERENCE = re.compile(
    r"^(?P<table>[\w-]+)\[(?P<row>.*)\]\.(?P<column>[^#]+?)(?:#(?P<part>\d+))?$"
)


_DECIMAL_COMMA = re.compile(r"\d,(?!\d{3}(?!\d))\d")


class Cell(NamedTuple):
    """One printed number and where it stands; percent are proportions in `printed`."""

    table: str
    row: str
    column: str
    part: int
    text: str
    printed: Printed
    label: str = ""
    is_percent: bool = False

    def __hash__(self) -> int:  # by its place: fractions are slow to hash
        return hash((self.table, self.row, self.column, self.part))

    @property
    def where(self) -> str:
        """Table, row and column, for people."""
        number = f"number {self.part}" if self.part else ""
        return ", ".join(part for part in (self.label, self.row, self.column, number) if part)

    @property
    def place(self) -> tuple[str, str, str]:
        """What finds the cell in its table."""
        return self.table, self.row, self.column

    def span(self, convention: str) -> Span:
        """The true values that would be printed like this."""
        return self.printed.span(convention)


def constant(value: float | int | str) -> Cell:
    """A number of the declaration itself, exact as it is written; "5 %" is a proportion."""
    text = str(value).strip()
    number = Printed(Fraction(text.removesuffix("%").strip()), Fraction(1), is_exact=True)
    is_percent = text.endswith("%")
    number = number.scaled(Fraction(1, 100)) if is_percent else number
    return Cell("", "", "", 0, text, number, "the declaration", is_percent)


def in_the_text(words: str) -> Cell:
    """A number printed outside of tables, rounded as it is written, such as "printed 12.3 %".

    >>> in_the_text("printed <.01").printed.bound, in_the_text("printed 12.3 %").is_percent
    ('<', True)
    """
    text = words.removeprefix("printed ").strip()
    found = numbers(text)
    if len(found) != 1:
        raise BadRow(f'{words!r} should hold one number, as "printed 12.3 %" does.')
    is_percent = text.endswith("%")
    number = found[0].scaled(Fraction(1, 100)) if is_percent else found[0]
    return Cell("", "", "", 0, text, number, "the text", is_percent)


@dataclass
class Table:
    """A printed table: its cells as text, and what its columns mean."""

    name: str
    label: str
    key: list[str]
    frame: pl.DataFrame
    percent: set[str] = field(default_factory=set)
    exact: set[str] = field(default_factory=set)
    percent_if: dict[str, list[str]] = field(default_factory=dict)
    exact_if: dict[str, list[str]] = field(default_factory=dict)
    decimals: dict[str, int] = field(default_factory=dict)

    def rows(self, wanted: str) -> list[dict[str, Any]]:
        """The lines that a row reference names, in its order (`A; B`), or in that of the table."""
        found: list[dict[str, Any]] = []
        for choice in wanted.removeprefix("!").split(";"):
            parts = [part.strip() for part in choice.split("|")]
            if len(parts) != len(self.key):
                raise BadRow(
                    f"[{wanted}] has {len(parts)} part(s), but a row of table {self.name} is named "
                    f"by {len(self.key)} ({' | '.join(self.key)}); * stands for any."
                )
            lines = [
                line
                for line in self.frame.iter_rows(named=True)
                if all(p in ("*", line[k]) for p, k in zip(parts, self.key, strict=True))
            ]
            if not lines:
                have = [self.row_name(line) for line in self.frame.iter_rows(named=True)]
                raise UnknownName("row", choice.strip(), have, place=f"table {self.name}")
            found += [line for line in lines if line not in found]
        if wanted.startswith("!"):
            return [line for line in self.frame.iter_rows(named=True) if line not in found]
        return found

    def row_name(self, line: Mapping[str, Any]) -> str:
        """What a row is called: its keys, joined."""
        return " | ".join(str(line[key]) for key in self.key)

    def cell(self, line: Mapping[str, Any], column: str, part: int | None = None) -> Cell | None:
        """The printed number there; None where the cell is empty."""
        if column not in line:
            raise UnknownColumn(f"table {self.name}", column, self.frame.columns)
        text = str(line[column] or "").strip()
        if not text:
            return None
        if _DECIMAL_COMMA.search(text):
            raise BadRow(
                f"table {self.name}, row {self.row_name(line)}: {column} is {text!r}, where the "
                "comma parts no thousands; write a point for decimals, / between two numbers."
            )
        exact = column in self.exact or _applies(self.exact_if, line)
        found = numbers(text, is_exact=exact)
        if len(found) < (part or 1):
            raise BadRow(
                f"table {self.name}, row {self.row_name(line)}: {column} is {text!r}, which holds "
                f"{len(found)} number(s); a check asks for number {part or 1}."
            )
        percent = column in self.percent or _applies(self.percent_if, line)
        number = found[(part or 1) - 1].to_decimals(self.decimals.get(column, 0))
        number = number.scaled(Fraction(1, 100)) if percent else number
        row = self.row_name(line)
        return Cell(self.name, row, column, part or 0, text, number, self.label, percent)


def _applies(condition: Mapping[str, list[str]], line: Mapping[str, Any]) -> bool:
    return any(line.get(column) in values for column, values in condition.items())


@dataclass
class Check:
    """One declared check on resolved tables: `one`, `many` and `option` read its parameters."""

    kind: str
    name: str
    options: dict[str, Any]
    tables: dict[str, Table]
    over: tuple[Table, dict[str, Any]] | None = None

    def many(self, option: str) -> list[Cell]:
        """The cells that an option names, those that are empty left out."""
        return self.cells(self._given(option))

    def cells(self, given: Any) -> list[Cell]:
        """The cells of one reference or of a list of them."""
        found = (self._cells(part) for part in (given if isinstance(given, list) else [given]))
        return [cell for cells in found for cell in cells if cell is not None]

    def one(self, option: str) -> Cell:
        """The one cell that an option names."""
        cells = self.many(option)
        if len(cells) != 1:
            if not cells:
                raise EmptyCell(f"Nothing is printed where {option} should stand.")
            raise BadRow(f"check {self.name!r}: {option} names {len(cells)} numbers and not one.")
        return cells[0]

    def maybe(self, option: str) -> Cell | None:
        """The cell that an option names, or None when the option is not given."""
        return self.one(option) if option in self.options else None

    def option(self, name: str, default: Any = None) -> Any:
        """An option as it is written."""
        return self.options.get(name, default)

    def _given(self, option: str) -> Any:
        if option not in self.options:
            raise BadRow(f"check {self.name!r} of kind {self.kind!r} needs the option {option!r}.")
        return self.options[option]

    def _cells(self, reference: Any) -> list[Cell | None]:
        if isinstance(reference, int | float) or re.fullmatch(r"[-\d.]+ ?%", reference):
            return [constant(reference)]
        if reference.startswith("printed "):
            return [in_the_text(reference)]
        if reference.startswith("@"):
            if self.over is None:
                raise BadRow(f"check {self.name!r}: {reference} needs `over`, the rows it is in.")
            column, _, part = reference[1:].partition("#")
            table, line = self.over
            return [table.cell(line, column, int(part) if part else None)]
        if self.over is not None:  # [* | @metric | *]: a value of the row in hand names a row
            line = self.over[1]
            reference = re.sub(r"@(\w+)", lambda m: str(line.get(m[1], m[0])), reference)
        match = _REFERENCE.match(reference)
        if match is None:
            raise BadRow(
                f"check {self.name!r}: {reference!r} names no cell; write table[row].column, "
                '@column for the row in hand, a number (exact), or "printed 12.3 %" for one that '
                "stands in the text and is rounded."
            )
        table = named(self.tables, match["table"])
        part = int(match["part"]) if match["part"] else None
        return [table.cell(line, match["column"], part) for line in table.rows(match["row"])]


class EmptyCell(BadRow):
    """A check needs a number where nothing is printed."""


def named(tables: Mapping[str, Table], name: str) -> Table:
    """The table of that name."""
    if name not in tables:
        raise UnknownName("table", name, tables, place="the declaration")
    return tables[name]


@dataclass
class Declaration:
    """A read declaration: its tables, its checks, and the claims that checks bear on."""

    path: Path
    title: str
    tables: dict[str, Table]
    checks: list[Check]
    claims: dict[tuple[str, str], str]
    rounding: str | None = None


def read(path: str | Path) -> Declaration:
    """The declaration in a TOML file, or the one beside a CSV file, with its tables and checks.

    For a CSV that other tables share a declaration with, only checks that name its table are kept.

    Raises:
        ImportFailed: a file is missing, is not TOML or CSV, or no declaration is beside it.
        BadRow, UnknownName, UnknownColumn: a check names what is not there.
    """
    path = Path(path)
    if path.suffix != ".toml":
        return _beside(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ImportFailed(f"{path} is not UTF-8; save it in that encoding.") from None
    except (OSError, ValueError) as problem:
        raise ImportFailed(f"{path} cannot be read as a declaration (TOML): {problem}") from None
    refuse_misshapen(path, raw)
    if (way := raw.get("rounding")) not in (None, *CONVENTIONS):
        raise UnknownName("rounding", str(way), CONVENTIONS, place=path.name)
    tables = {name: _table(path, name, about) for name, about in raw.get("tables", {}).items()}
    checks = [
        check
        for place, given in enumerate(raw.get("check", ()))
        for check in _checks(place, given, tables)
    ]
    claims = _claims(tables, raw.get("claims", {}))
    title = raw.get("title", path.stem)
    return Declaration(path, title, tables, checks, claims, raw.get("rounding"))


def _claims(tables: dict[str, Table], about: dict[str, Any]) -> dict[tuple[str, str], str]:
    """What each claim says, by table and row; claims in words alone have no table."""
    found: dict[tuple[str, str], str] = {}
    if "table" in about:
        table = named(tables, about["table"])
        template = about.get("text", " | ".join(f"{{{key}}}" for key in table.key))
        for column in re.findall(r"\{(.+?)\}", template):
            if column not in table.frame.columns:
                raise UnknownColumn(f"table {table.name}", column, table.frame.columns)
        for line in table.frame.iter_rows(named=True):
            text = template
            for column, value in line.items():
                text = text.replace(f"{{{column}}}", value or "")
            found[table.name, table.row_name(line)] = " ".join(text.split())
    return found | {("", name): text for name, text in about.get("words", {}).items()}


def _beside(path: Path) -> Declaration:
    if not path.exists():
        raise ImportFailed(f"{path} is not there.")
    own = path.with_suffix(".toml")
    candidates = [own] if own.exists() else sorted(path.parent.glob("*.toml"))
    for candidate in candidates:
        if candidate == own or re.search(
            rf'^\s*file\s*=\s*"{re.escape(path.name)}"',
            candidate.read_text("utf-8", "replace"),
            re.MULTILINE,
        ):
            found = read(candidate)
            files = tomllib.loads(candidate.read_text("utf-8"))["tables"]
            wanted = {name for name, about in files.items() if about["file"] == path.name}
            found.checks = [check for check in found.checks if wanted & set(_tables_of(check))]
            return found
    raise ImportFailed(
        f"no declaration is beside {path}: write {own.name}; `ragbench audit {path.name} --draft` "
        "begins one."
    )


def _tables_of(check: Check) -> Iterator[str]:
    texts = [x for v in check.options.values() for x in (v if isinstance(v, list) else [v])]
    if check.over:
        yield check.over[0].name
    for text in texts:
        if isinstance(text, str) and (match := _REFERENCE.match(text)):
            yield match["table"]


def _table(path: Path, name: str, about: Mapping[str, Any]) -> Table:
    try:
        frame = read_csv(path.parent / about["file"])
    except ImportFailed as problem:
        raise ImportFailed(f"table {name} of {path.name}: {problem}") from None
    keys = listed(about.get("key", frame.columns[0]))
    percent, exact = (listed(about.get(option, [])) for option in ("percent", "exact"))
    decimals = about.get("decimals", {})
    for column in [*keys, *percent, *exact, *decimals]:
        if column not in frame.columns:
            raise UnknownColumn(f"table {name} ({about['file']})", column, frame.columns)
    return Table(
        name,
        about.get("label", name),
        keys,
        frame,
        set(percent),
        set(exact),
        about.get("percent_if", {}),
        about.get("exact_if", {}),
        decimals,
    )


def _checks(place: int, given: dict[str, Any], tables: dict[str, Table]) -> Iterator[Check]:
    """One check, or one for each row that `over` names."""
    from ragbench.audit.kinds import KINDS, OPTIONS

    kind = given.get("kind", "")
    if kind not in KINDS:
        raise UnknownName("kind", kind, KINDS, place=f"check {place + 1} of the declaration")
    name = given.get("name", f"{kind} {place + 1}")
    for option in given:
        if option not in OPTIONS[kind]:
            raise UnknownName("option", option, sorted(OPTIONS[kind]), place=f"check {name!r}")
    if "over" not in given:
        yield Check(kind, name, given, tables)
        return
    over, _, row = given["over"].partition("[")
    table = named(tables, over)
    for line in table.rows(row.removesuffix("]") or " | ".join("*" for _ in table.key)):
        yield Check(kind, f"{name}: {table.row_name(line)}", given, tables, (table, line))


def draft(path: str | Path) -> str:
    """A declaration to begin with for a CSV file: its table, columns guessed, one check to adapt.

    Columns whose values all lie in 0 to 100, not all in 0 to 1, and have decimals, or are named
    pct or percent, are guessed to be percent; whole numbers elsewhere to be exact counts; cells
    with fewer decimals than others of their column to have lost zeros. The check is a comment:
    which n a percentage is of only the paper says.
    """
    path = Path(path)
    frame = read_csv(path)
    found = {name: [numbers(x) for x in frame[name].drop_nulls()] for name in frame.columns[1:]}
    numeric = {
        name: [x[0] for x in cells if x] for name, cells in found.items() if all(map(len, cells))
    }
    named_so = {name for name in numeric if re.search("pct|percent|%", name.lower())}
    share = {
        name
        for name, xs in numeric.items()
        if all(0 <= x.value <= 100 for x in xs)
        and any(x.unit < 1 for x in xs)
        and any(x.value > 1 for x in xs)
    }
    percent = [name for name in numeric if name in named_so | share]
    exact = [
        name for name in numeric if name not in percent and all(x.unit == 1 for x in numeric[name])
    ]
    example = percent[0] if percent else (list(numeric) or ["column"])[0]
    digits = {name: {_decimals(x.unit) for x in xs} for name, xs in numeric.items()}
    uneven = {name: max(found) for name, found in digits.items() if len(found) > 1}
    size = _toml(f"@{exact[0]}") if exact else "120"
    lines = [f"title = {_toml(path.stem)}", "", "[tables.t]", f"file = {_toml(path.name)}"]
    lines += [
        'label = "Table 1"',
        f"key = {_toml(frame.columns[0])}  # the columns that name a row",
    ]
    lines += [f"percent = {_toml(percent)}", f"exact = {_toml(exact)}"]
    if uneven:
        inside = ", ".join(f"{_toml(name)} = {most}" for name, most in uneven.items())
        lines.append(f"decimals = {{ {inside} }}  # if the file dropped zeros that are printed")
    check = ["[[check]]", f"name = {_toml(f'{example}: whole answers')}", 'kind = "count"']
    check += ['over = "t"', f"value = {_toml(f'@{example}')}"]
    check += [f"n = {size}  # the column, or the number, that the paper states as its n"]
    lines += [
        "",
        "# Nothing is checked yet. An example; take the # away once it says what the paper says.",
    ]
    return "\n".join([*lines, *(f"# {line}" for line in check), ""])


def _decimals(unit: Fraction) -> int:
    """How many decimals a unit of the last digit stands for."""
    return len(str(unit.denominator)) - 1


def _toml(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
