"""Every rule under its name, and how to apply one.

A rule is a predicate: a pure function of a text and named arguments that returns a `Verdict`.
`RULES` maps names to predicates, `check` applies one by name, `validate` finds what is wrong with
a name and arguments before anything is judged.
"""

from ragbench.judging import (
    content_rules,
    format_rules,
    ifeval_rules,
    ordering,
    protocol_rules,
    tone_rules,
)
from ragbench.judging.constraints_check import degenerate, refuse_bad, validate_constraints
from ragbench.judging.registry import (
    RULES,
    Parameter,
    Verdict,
    argument_problems,
    check,
    parameters,
    rule,
    validate,
)

__all__ = [
    "RULES",
    "Parameter",
    "Verdict",
    "argument_problems",
    "check",
    "content_rules",
    "degenerate",
    "format_rules",
    "ifeval_rules",
    "ordering",
    "parameters",
    "protocol_rules",
    "refuse_bad",
    "rule",
    "tone_rules",
    "validate",
    "validate_constraints",
]
