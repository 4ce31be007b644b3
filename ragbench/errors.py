"""The few kinds of error that ragbench raises: the thing, the place and the remedy in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RagbenchError(Exception):
    """Base of everything ragbench raises on purpose; catch this to catch them all."""


class BadConstraint(RagbenchError):
    """A constraint names an unknown rule, or arguments the rule cannot take."""


class BadRow(RagbenchError):
    """A row does not fit its relation: a key is missing, a value has the wrong type."""


class StoreError(RagbenchError):
    """The study file cannot be used as it is: foreign, damaged, locked, too new, or no room."""


class ImportFailed(RagbenchError):
    """A source file cannot be read at all; single bad rows are reported, not raised."""


class ExportFailed(RagbenchError):
    """A figure, table or relation could not be written."""


class EmptySide(RagbenchError):
    """A side of a comparison has no responses."""


class UnknownName(RagbenchError):
    """A value is not one of those that exist; the message lists them and names the near miss."""

    def __init__(
        self,
        what: str,
        value: object,
        allowed: Iterable[str],
        *,
        place: str = "",
        remedy: str = "",
    ) -> None:
        options = [str(option) for option in allowed]
        near = difflib.get_close_matches(str(value), options, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        shown = ", ".join(options[:30]) + (", …" if len(options) > 30 else "")
        subject = f"{place} has no {what} {str(value)!r}" if place else f"no {what} {str(value)!r}"
        has = f"It has: {shown}." if shown else "It has none at all."
        super().__init__(f"{subject}{hint} {has}{remedy and f' {remedy}'}")


class UnknownColumn(UnknownName):
    """A column that the relation or result does not have."""

    def __init__(self, place: str, value: object, allowed: Iterable[str]) -> None:
        super().__init__("column", value, allowed, place=place)


class AmbiguousPanel(RagbenchError):
    """More than one panel of judges fits, and one number must not mix them."""


class ModelUnavailable(RagbenchError):
    """No call to this model can succeed: unreachable, refused key, unknown model, nothing left."""
