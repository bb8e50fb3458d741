"""What is said of data that breaks the schema."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

from omnigraph.commit.requirements import Requirement
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.values import format_date, format_datetime, format_value

MAX_REPORTED_PROBLEMS = 20
BYTES_PER_VIOLATION = 600
"""About what a violation takes, with its message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintViolation:
    """One row that breaks one rule; `id` is the row's, None where it has none yet."""

    rule: str
    type: str
    id: str | None
    message: str
    properties: tuple[str, ...] = ()
    """What the rule is about, where it is about values of the row."""
    holder: str | None = None
    """The id of another row that has these values, where they have to be unique."""


class ConstraintError(OmnigraphError):
    """The write would break the schema. `violations` are the first of them, `total` says how many there are."""

    kind = Kind.INVALID
    code = "constraint_violation"

    def __init__(self, violations: Sequence[ConstraintViolation], total: int) -> None:
        super().__init__(tuple(violations), total)
        self.violations, self.total = tuple(violations), total

    def facts(self) -> dict[str, object]:
        """Every violation as a mapping, so that a program needs no parsing of messages."""
        found = [{"rule": v.rule, "type": v.type, "id": v.id, "message": v.message} for v in self.violations]
        return {"violations": found, "total": self.total}

    def __str__(self) -> str:
        lines = [violation.message for violation in self.violations]
        if self.total > len(lines):
            lines.append(f"and {self.total - len(lines)} more")
        return "\n".join(lines)


@dataclass(slots=True)
class ConstraintFindings:
    """What checks found: the violations, and what has to stay so that there are none."""

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
        """One more violation."""
        self.violations.append(
            ConstraintViolation(rule=rule, type=type_, id=row_id, message=message, properties=properties, holder=holder)
        )

    def require(self) -> tuple[Requirement, ...]:
        """The requirements, or ConstraintError with the first violations."""
        if self.violations:
            raise ConstraintError(self.violations[:MAX_REPORTED_PROBLEMS], len(self.violations))
        return tuple(self.requirements)


def quote_value(value: object) -> str:
    """A value as messages about data show it: text and dates in single quotes, numbers bare, nothing long."""
    if isinstance(value, datetime):
        return f"'{format_datetime(value)}'"
    if isinstance(value, date):
        return f"'{format_date(value)}'"
    if isinstance(value, str):
        text = format_value(value)
        if not {"'", "\\"} & set(value):  # then double quotes need no escape: ids of several columns have them
            text = text.replace('\\"', '"')
        return f"'{value}'" if text == f'"{value}"' else format_value(value)
    return format_value(value)


def format_row_value(value: object) -> str:
    """A value as facts about data show it: its JSON form on one line, never long."""
    if isinstance(value, datetime):
        return format_value(format_datetime(value))
    return format_value(format_date(value)) if isinstance(value, date) else format_value(value)


def format_ids(ids: Iterable[str]) -> str:
    """`'a' and 'b'`."""
    names = [quote_value(row_id) for row_id in ids]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
