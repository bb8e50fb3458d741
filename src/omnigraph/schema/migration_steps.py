"""A migration plan as data: ordered steps, each with its effect on existing rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from typing import TypeAlias

import msgspec

from omnigraph.json_struct import JsonStruct
from omnigraph.lang.diagnostic_codes import MIGRATION_CODES
from omnigraph.lang.expression_printer import print_float, quote
from omnigraph.schema.catalog import AnyType, Cardinality, CheckRule, Property, RangeRule, Value
from omnigraph.schema.values import Json, format_date, format_datetime, to_json

Details: TypeAlias = dict[str, Json]


@dataclass(frozen=True, slots=True)
class KeyRule:
    """`@key(columns)`."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UniqueRule:
    """`@unique(columns)`."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IndexRule:
    """`@index(property)`."""

    property: str


# A constraint that a step adds or drops; a range or cardinality replaces the previous one.
Rule: TypeAlias = KeyRule | UniqueRule | IndexRule | RangeRule | CheckRule | Cardinality


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """One changed aspect of an `update_metadata` step: `values` has the old value (`from`) and the new one (`to`).

    A side without a value is left out, so that no default and `@default(null)` differ.
    """

    aspect: str
    values: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def to_json(self) -> Json:
        """Return the JSON form: `{"aspect": …, "from": …, "to": …}`."""
        return {"aspect": self.aspect, **self.values}


def build_from_to(before: Json, after: Json) -> Details:
    """Return the old and the new value as `from` and `to`; None is left out."""
    return {name: value for name, value in (("from", before), ("to", after)) if value is not None}


def build_property_details(p: Property) -> Details:
    """Return type and nullability of a property, and its default if it has one."""
    details: Details = {"type": str(p.type), "nullable": p.nullable}
    return {**details, "default": to_json(p.type, p.default)} if p.has_default else details


def rule_to_json(rule: Rule) -> Details:
    """Return the JSON form: `kind`, `columns`, bounds or pattern, and `text` as the schema language writes it.

    An open bound is null; bounds are numbers, and texts for Date and DateTime.
    """
    text = format_rule(rule)
    match rule:
        case KeyRule(columns=columns):
            return {"kind": "key", "columns": list(columns), "text": text}
        case UniqueRule(columns=columns):
            return {"kind": "unique", "columns": list(columns), "text": text}
        case IndexRule(property=name):
            return {"kind": "index", "columns": [name], "text": text}
        case RangeRule(property=name, low=low, high=high):
            return {
                "kind": "range",
                "columns": [name],
                "low": _bound_to_json(low),
                "high": _bound_to_json(high),
                "text": text,
            }
        case CheckRule(property=name, pattern=pattern):
            return {"kind": "check", "columns": [name], "pattern": pattern, "text": text}
        case Cardinality(low=minimum, high=maximum):
            return {"kind": "card", "columns": [], "low": minimum, "high": maximum, "text": text}


def format_rule(rule: Rule) -> str:
    """Format a constraint as the schema language writes it."""
    match rule:
        case KeyRule(columns=columns):
            return f"@key({', '.join(columns)})"
        case UniqueRule(columns=columns):
            return f"@unique({', '.join(columns)})"
        case IndexRule(property=name):
            return f"@index({name})"
        case RangeRule(property=name, low=low, high=high):
            return f"@range({name}, {_format_bound(low)}..{_format_bound(high)})"
        case CheckRule(property=name, pattern=pattern):
            return f"@check({name}, {quote(pattern)})"
        case Cardinality():
            return f"@card({rule})"


def _format_bound(value: Value) -> str:
    # `datetime` is a subclass of `date`, so it comes first, here and below.
    match value:
        case None:
            return ""
        case datetime():
            return f'datetime("{format_datetime(value)}")'
        case date():
            return f'date("{format_date(value)}")'
        case float():
            return print_float(value)
        case _:
            return str(value)


def _bound_to_json(value: Value) -> Json:
    match value:
        case datetime():
            return format_datetime(value)
        case date():
            return format_date(value)
        case int() | float():
            return value
        case _:
            return None


# The code that apply reports if committed rows break a constraint that it validates.
CONSTRAINT_VIOLATED = "OG-MF-107"


class StepKind(Enum):
    """The kinds of steps, by their names in plans and on the command line."""

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
        """Whether rows or values are removed from the newest state."""
        return self in (StepKind.DROP_TYPE, StepKind.DROP_PROPERTY)


class Step(JsonStruct, frozen=True, kw_only=True):
    """One step of a migration.

    `type`, `property_name` and the columns of `rule` are names after the previous steps: a dropped type has its old
    name, and so have the columns of a dropped constraint, which is dropped before properties are renamed.
    """

    json_keys = "step=kind type property=property_name code safe=is_safe validates message details table? soft?"

    kind: StepKind
    type: str
    table: str | None
    """The key of the changed table; None for an interface, which has none."""
    message: str
    property_name: str | None = None
    previous: str | None = None
    """The name before a rename."""
    rule: Rule | None = None
    replaces: Rule | None = None
    """The constraint that `rule` replaces."""
    changes: tuple[MetadataChange, ...] = ()
    """The changes of an `update_metadata` step."""
    facts: Mapping[str, Json] = {}
    """Further fields of `details`."""
    code: str | None = None
    validates: bool = False
    """Whether apply must scan the committed rows first; it may then fail with `code`."""
    is_hard: bool = False
    """Whether the dropped data is removed from earlier states too."""

    def __post_init__(self) -> None:
        # The registry documents every code, so an unknown one is a bug.
        if self.code is not None and self.code not in MIGRATION_CODES:
            msg = f"migration code {self.code!r} is not in the registry lang/diagnostic_codes.py"
            raise ValueError(msg)

    @property
    def lost(self) -> int | None:
        """The number of rows or values that a drop removes from the newest state; None if they were not counted."""
        # A plan between two schema files has no rows to count; see `count_losses`.
        count = self.facts.get("values" if self.kind is StepKind.DROP_PROPERTY else "rows")
        return count if isinstance(count, int) and self.kind.drops_data else None

    @property
    def is_safe(self) -> bool:
        """Whether the step loses no data and can't fail, whatever rows exist."""
        return self.is_supported and not self.kind.drops_data and not self.validates

    @property
    def is_supported(self) -> bool:
        """Whether a migration can make this change."""
        return self.kind is not StepKind.UNSUPPORTED_CHANGE

    @property
    def soft(self) -> bool | None:
        """Whether a drop leaves the data in earlier states; None for a step that drops none."""
        return not self.is_hard if self.kind.drops_data else None

    @property
    def details(self) -> Details:
        """The content of the message as fields, which depend on the kind of the step."""
        details: Details = {}
        if self.previous is not None:
            details["from"] = self.previous
        # A widened cardinality is no new constraint: it has `from` and `to`, like any other changed value.
        if self.kind is StepKind.WIDEN_CARDINALITY and self.rule is not None and self.replaces is not None:
            details |= {"from": rule_to_json(self.replaces), "to": rule_to_json(self.rule)}
        elif self.rule is not None:
            details["constraint"] = rule_to_json(self.rule)
            if self.replaces is not None:
                details["replaces"] = rule_to_json(self.replaces)
        if self.changes:
            details["changes"] = [change.to_json() for change in self.changes]
        return {**details, **self.facts}

    def __str__(self) -> str:
        if not self.is_supported:
            mark = "unsupported"
        elif self.kind.drops_data:
            mark = "loses" if self.is_hard else "drops"
        else:
            mark = "validates" if self.validates else "safe"
        code = "" if self.code is None else f" [{self.code}]"
        return f"{mark:<11} {self.kind.value:<18} {self.message}{code}"


class MigrationPlan(JsonStruct, frozen=True):
    """The steps from one schema to another, in an order in which each can be applied.

    Names are freed before they are taken: types and properties are dropped, then renamed, then added. Edge types are
    dropped before and added after the node types at their ends. Renames that form a cycle are consecutive, and are
    applied together.
    """

    json_keys = "steps safe=is_safe supported=is_supported drops_values notes"

    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()
    """Warnings about parts of the schema that are allowed but probably not intended."""

    @property
    def is_empty(self) -> bool:
        """Whether the two schemas are equal."""
        return not self.steps

    @property
    def is_safe(self) -> bool:
        """Whether every step is safe."""
        return all(step.is_safe for step in self.steps)

    @property
    def is_supported(self) -> bool:
        """Whether no step is an unsupported change."""
        return all(step.is_supported for step in self.steps)

    @property
    def validates(self) -> bool:
        """Whether a step must scan the committed rows first."""
        return any(step.validates for step in self.steps)

    @property
    def drops_data(self) -> bool:
        """Whether a step drops a type or property."""
        return any(step.kind.drops_data for step in self.steps)

    @property
    def drops_values(self) -> bool:
        """Whether a step drops a type with rows, or a property with values, if they were counted."""
        return any(step.lost for step in self.steps)

    @property
    def loses_data(self) -> bool:
        """Whether a step drops a type or property permanently, from earlier states too."""
        return any(step.is_hard for step in self.steps)

    def render(self) -> str:
        """Format the plan as text: one line per step and note, and a verdict."""
        if self.is_empty:
            return "nothing to change"
        lines = [*map(str, self.steps), *(f"note: {note}" for note in self.notes)]
        count = len(self.steps)
        return "\n".join((*lines, f"{count} {'step' if count == 1 else 'steps'}: {self._format_verdict()}"))

    def _format_verdict(self) -> str:
        if not self.is_supported:
            return "can't be applied; see the unsupported changes"
        parts = []
        if self.loses_data:
            parts.append("dropped data is removed permanently, from earlier states too")
        elif self.drops_data:
            parts.append("dropped data stays in earlier versions unless data loss is allowed")
        if self.validates:
            parts.append("committed rows are checked first")
        return "; ".join(parts) or "safe"

    def __str__(self) -> str:
        return self.render()


def format_name(type_: AnyType, property: str | None = None) -> str:
    """Format the name of a type or property: `` `Person` `` or `` `Person.age` ``."""
    return f"`{type_.name}`" if property is None else f"`{type_.name}.{property}`"


# The number of rows or values that each step drops, by its table and property; the property is None for a whole type.
Losses: TypeAlias = Mapping[tuple[str | None, str | None], int]


def mark_drops_hard(plan: MigrationPlan) -> MigrationPlan:
    """Return the plan with hard drops, for an apply that allows data loss."""
    return _map_drops(plan, lambda step: msgspec.structs.replace(step, is_hard=True))


def count_losses(plan: MigrationPlan, losses: Losses) -> MigrationPlan:
    """Return the plan with the number of rows or values that each drop removes."""

    def count(step: Step) -> Step:
        noun = "values" if step.kind is StepKind.DROP_PROPERTY else "rows"
        return msgspec.structs.replace(step, facts={**step.facts, noun: losses[step.table, step.property_name]})

    return _map_drops(plan, count)


def describe_drop(step: Step) -> Step:
    """Return a drop with its message, which depends on its count and on whether it is hard."""
    return msgspec.structs.replace(step, message=_format_message(step))


def _format_message(step: Step) -> str:
    if step.kind is StepKind.DROP_PROPERTY:
        what = f"property `{step.type}.{step.property_name}`"
        noun = "value"
        # Values lie in the same files as the rest of their rows, so a hard drop removes the history of the whole type.
        table = f"`{step.type}`"
    else:
        kind = "edge type" if step.facts.get("kind") == "edge" else "node type"
        what = f"{kind} `{step.type}`"
        noun = "row"
        table = "it"
    count = step.lost
    if count == 0 and not step.is_hard:
        return f"drop {what}, which has no {noun}"
    noun = noun if count == 1 else f"{noun}s"
    number = noun if count is None else f"{count} {noun}"
    if step.is_hard:
        return f"drop {what} with its {number}; earlier states of {table} can no longer be read"
    verb = "stays" if count == 1 else "stay"
    return f"drop {what}: its {number} {verb} in earlier versions unless data loss is allowed"


def _map_drops(plan: MigrationPlan, change: Callable[[Step], Step]) -> MigrationPlan:
    """Return the plan with `change` applied to each drop, and its message updated."""
    steps = (describe_drop(change(step)) if step.kind.drops_data else step for step in plan.steps)
    return msgspec.structs.replace(plan, steps=tuple(steps))
