"""A migration as data: ordered steps, each with what it means for the data that is there."""

from dataclasses import dataclass
from datetime import date, datetime
from enum import Enum
from typing import TypeAlias

from omnigraph.lang.codes import MIGRATION_CODES
from omnigraph.lang.print_values import print_float, quote
from omnigraph.schema.catalog import AnyType, Cardinality, CheckRule, RangeRule, Value
from omnigraph.schema.temporal import date_text, datetime_text

DOES_NOT_HOLD = "OG-MF-107"
"""What apply reports when a constraint that it validates does not hold."""


class StepKind(Enum):
    """The kinds of steps, by the names that plans and the command line use."""

    ADD_TYPE = "add_type"
    RENAME_TYPE = "rename_type"
    ADD_PROPERTY = "add_property"
    RENAME_PROPERTY = "rename_property"
    DROP_TYPE = "drop_type"
    DROP_PROPERTY = "drop_property"
    ADD_CONSTRAINT = "add_constraint"
    DROP_CONSTRAINT = "drop_constraint"
    EXTEND_ENUM = "extend_enum"
    RELAX_NULLABILITY = "relax_nullability"
    WIDEN_CARDINALITY = "widen_cardinality"
    UPDATE_METADATA = "update_metadata"
    UNSUPPORTED_CHANGE = "unsupported_change"

    @property
    def drops_data(self) -> bool:
        """Whether rows or values leave the graph's head."""
        return self in (StepKind.DROP_TYPE, StepKind.DROP_PROPERTY)


@dataclass(frozen=True, slots=True)
class KeyOf:
    """`@key(columns)`."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UniqueOf:
    """`@unique(columns)`."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexOf:
    """`@index(property)`."""

    property: str


Rule: TypeAlias = KeyOf | UniqueOf | IndexOf | RangeRule | CheckRule | Cardinality
"""A constraint that a step adds or drops; a range or cardinality takes the place of the one before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One change.

    `type` is the type's name once the steps before this one are done, and `property_name` and the columns of `rule`
    are too: a dropped type has its old name, a constraint that is dropped is named before properties are renamed.
    """

    kind: StepKind
    type: str
    table: str | None
    """The key of the table that is touched; None for an interface, which has none."""
    message: str
    property_name: str | None = None
    previous: str | None = None
    """The name before a rename."""
    rule: Rule | None = None
    changes: tuple[str, ...] = ()
    """What an `update_metadata` changes."""
    code: str | None = None
    validates: bool = False
    """Whether apply must scan the committed rows first; `code` is then what it may fail with."""

    def __post_init__(self) -> None:
        if self.code is not None and self.code not in MIGRATION_CODES:
            msg = f"migration code {self.code!r} is not in the registry lang/codes.py"
            raise ValueError(msg)

    @property
    def is_safe(self) -> bool:
        """Nothing is lost and nothing can be refused, whatever rows there are."""
        return self.is_supported and not self.kind.drops_data and not self.validates

    @property
    def is_supported(self) -> bool:
        """False for a change that no migration makes."""
        return self.kind is not StepKind.UNSUPPORTED_CHANGE

    def to_json(self) -> dict[str, object]:
        """The step for programs; the fields behind `message` are there when they say something."""
        fields: dict[str, object] = {
            "step": self.kind.value,
            "type": self.type,
            "property": self.property_name,
            "code": self.code,
            "safe": self.is_safe,
            "validates": self.validates,
            "message": self.message,
        }
        if self.table is not None:
            fields["table"] = self.table
        if self.previous is not None:
            fields["from"] = self.previous
        if self.rule is not None:
            fields["constraint"] = rule_text(self.rule)
        if self.changes:
            fields["changes"] = list(self.changes)
        if self.kind.drops_data:
            fields["soft"] = True
        return fields

    def __str__(self) -> str:
        if not self.is_supported:
            mark = "unsupported"
        elif self.kind.drops_data:
            mark = "drops"
        else:
            mark = "validates" if self.validates else "safe"
        code = "" if self.code is None else f" [{self.code}]"
        return f"{mark:<11} {self.kind.value:<18} {self.message}{code}"


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The steps from one schema to another, in an order in which each can be applied.

    Names are freed before they are taken: types and properties are dropped, then renamed, then added; edge types go
    before and come after the node types at their ends. Renames that form a circle stand side by side and are applied
    at once.
    """

    steps: tuple[Step, ...] = ()

    @property
    def is_empty(self) -> bool:
        """The two schemas say the same."""
        return not self.steps

    @property
    def is_safe(self) -> bool:
        """Every step is safe."""
        return all(step.is_safe for step in self.steps)

    @property
    def is_supported(self) -> bool:
        """No step is an unsupported change."""
        return all(step.is_supported for step in self.steps)

    @property
    def validates(self) -> bool:
        """Some step needs a scan of the rows that are there."""
        return any(step.validates for step in self.steps)

    @property
    def drops_data(self) -> bool:
        """Some step drops a type or property."""
        return any(step.kind.drops_data for step in self.steps)

    def to_json(self) -> dict[str, object]:
        """The plan for programs."""
        return {
            "steps": [step.to_json() for step in self.steps],
            "safe": self.is_safe,
            "supported": self.is_supported,
        }

    def render(self) -> str:
        """The plan for people, one line per step and a verdict."""
        if self.is_empty:
            return "nothing to change"
        lines = [str(step) for step in self.steps]
        count = len(self.steps)
        return "\n".join((*lines, f"{count} {'step' if count == 1 else 'steps'}: {self._verdict()}"))

    def _verdict(self) -> str:
        if not self.is_supported:
            return "can't be applied; see the unsupported changes"
        parts = []
        if self.drops_data:
            parts.append("what is dropped stays in earlier versions unless data loss is allowed")
        if self.validates:
            parts.append("committed rows are checked first")
        return "; ".join(parts) or "safe"

    def __str__(self) -> str:
        return self.render()


def rule_text(rule: Rule) -> str:
    """A constraint as the schema language writes it."""
    match rule:
        case KeyOf(columns=columns):
            return f"@key({', '.join(columns)})"
        case UniqueOf(columns=columns):
            return f"@unique({', '.join(columns)})"
        case IndexOf(property=name):
            return f"@index({name})"
        case RangeRule(property=name, low=low, high=high):
            return f"@range({name}, {_bound(low)}..{_bound(high)})"
        case CheckRule(property=name, pattern=pattern):
            return f"@check({name}, {quote(pattern)})"
        case Cardinality():
            return f"@card({rule})"


def _bound(value: Value) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return f'datetime("{datetime_text(value)}")'
        case date():
            return f'date("{date_text(value)}")'
        case float():
            return print_float(value)
        case _:
            return str(value)


def about(type_: AnyType, property: str | None = None) -> str:
    """`` `Person` `` or `` `Person.age` ``."""
    return f"`{type_.name}`" if property is None else f"`{type_.name}.{property}`"
