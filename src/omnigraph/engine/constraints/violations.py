"""Collect and report violations of the schema's constraints."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date

from omnigraph.commit.requirements import Requirement
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.values import format_value

# Violations that an error contains; its `total` counts all of them.
MAX_REPORTED_PROBLEMS = 20
# An estimate of the memory that a violation takes, with its message.
BYTES_PER_VIOLATION = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintViolation:
    """One row that breaks one rule; `id` is None if the row has none yet."""

    rule: str
    type: str
    id: str | None
    message: str
    properties: tuple[str, ...] = ()
    """The properties that the rule concerns, if it concerns values of the row."""
    holder: str | None = None
    """For a unique rule, the id of the other row that has these values."""


class ConstraintError(OmnigraphError):
    """The write would break constraints of the schema. `violations` are the first of `total`."""

    kind = Kind.INVALID
    code = "constraint_violation"

    def __init__(self, violations: Sequence[ConstraintViolation], total: int) -> None:
        super().__init__(tuple(violations), total)
        self.violations, self.total = tuple(violations), total

    def facts(self) -> dict[str, object]:
        """Return each violation as a mapping, so that programs need not parse messages."""
        violations = [{"rule": v.rule, "type": v.type, "id": v.id, "message": v.message} for v in self.violations]
        return {"violations": violations, "total": self.total}

    def __str__(self) -> str:
        lines = [violation.message for violation in self.violations]
        if self.total > len(lines):
            lines.append(f"and {self.total - len(lines)} more")
        return "\n".join(lines)


@dataclass(slots=True)
class ConstraintFindings:
    """The violations found by checks, and the requirements under which there are no others."""

    requirements: list[Requirement] = field(default_factory=list)
    violations: list[ConstraintViolation] = field(default_factory=list)

    def add(
        self,
        rule: str,
        type_: str,
        row_id: str | None,
        message: str,
        properties: tuple[str, ...] = (),
        holder: str | None = None,
    ) -> None:
        """Add a violation."""
        self.violations.append(
            ConstraintViolation(rule=rule, type=type_, id=row_id, message=message, properties=properties, holder=holder)
        )

    def require(self) -> tuple[Requirement, ...]:
        """Return the requirements if there are no violations.

        Raises:
            ConstraintError: There are violations; it contains the first of them.
        """
        if self.violations:
            raise ConstraintError(self.violations[:MAX_REPORTED_PROBLEMS], len(self.violations))
        return tuple(self.requirements)


def quote_value(value: object) -> str:
    """Format a value for messages: text and dates in single quotes, numbers bare, long values shortened."""
    text = format_value(value, is_typed=True)
    if isinstance(value, date):
        return f"'{text[1:-1]}'"
    if isinstance(value, str):
        # Inside single quotes, double quotes need no escape; the ids of several key columns contain them.
        unescaped = text if {"'", "\\"} & set(value) else text.replace('\\"', '"')
        # A value that had to be escaped or shortened is shown in its JSON form instead.
        return f"'{value}'" if unescaped == f'"{value}"' else text
    return text


def format_ids(ids: Iterable[str]) -> str:
    """Format ids as a list in words: `'a', 'b' and 'c'`."""
    names = [quote_value(row_id) for row_id in ids]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
