"""Checks of printed tables: what cannot be, what follows, and what the print leaves open.

`audit(path)` reads a declaration (TOML beside the CSV files, see docs/audit.md), makes every check
it names, and gives the findings; `frame`, `claims`, `listing`, `marked` and `save` show them. It
needs no rows of a study: printed numbers alone. `two_samples`, `paired_margins` and `strict_bounds`
say what margins leave open.
"""

from ragbench.audit.declaration import draft, read
from ragbench.audit.findings import Audit, Finding, audit, claims, frame
from ragbench.audit.margins import independence, paired_margins, strict_bounds, two_samples
from ragbench.audit.report import listing, marked, save, summary

__all__ = [
    "Audit",
    "Finding",
    "audit",
    "claims",
    "draft",
    "frame",
    "independence",
    "listing",
    "marked",
    "paired_margins",
    "read",
    "save",
    "strict_bounds",
    "summary",
    "two_samples",
]
