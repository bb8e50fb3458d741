"""The plan of a mutation: statements in order, each sees the effects of the earlier ones.

Values are typed and fit their property. A property that an insert leaves out is listed, not filled: the engine
fills in what a row with the key has, else defaults and nulls, and derives ids from keys. An engine needs no tree of
the text to run this.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.lang.source import Span
from omnigraph.query.expr import (
    Const,
    EdgeRef,
    EntityType,
    Expr,
    NodeRef,
    Now,
    Parameter,
    ParamRef,
    find_variables,
    is_predicate,
    walk,
)
from omnigraph.schema.types import Scalar

ROW = "#row"
"""The variable that stands for the row at hand in the `where` of an update or delete; no user can write it."""

StoredValue: TypeAlias = Const | ParamRef | Now


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """One property and the value it gets; `Const(None)` stores a null."""

    property: str
    value: StoredValue
    origin: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertNode:
    """A new node, or an update of the one with the same key when `is_upsert` (the type has a key).

    `omitted` are the properties without a value here, in declared order: a new node gets their default or null, one
    that exists keeps what it has.
    """

    type: NodeRef
    values: tuple[Assign, ...]
    omitted: tuple[str, ...]
    is_upsert: bool
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_insert(self.values, self.omitted)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertEdge:
    """A new edge between the nodes with the ids `source` and `target`, or an update when `is_upsert`."""

    type: EdgeRef
    source: StoredValue
    target: StoredValue
    values: tuple[Assign, ...]
    omitted: tuple[str, ...]
    is_upsert: bool
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_insert(self.values, self.omitted)
        for end in (self.source, self.target):
            if end.type is not Scalar.STRING or end.nullable:
                msg = "an end of an edge is the id of a node: a String that is not null"
                raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Sets `values` in every row for which `where` is true; the row's variable is `ROW`."""

    type: EntityType
    values: tuple[Assign, ...]
    where: Expr
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_unique_names(tuple(assign.property for assign in self.values))
        _check_where(self.where)
        if not self.values:
            msg = "an update sets something"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Deletes every row for which `where` is true; a node takes its edges of every type along."""

    type: EntityType
    where: Expr
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_where(self.where)


Statement: TypeAlias = InsertNode | InsertEdge | Update | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationQuery:
    """A bound mutation. Deletes don't mix with other statements."""

    name: str
    params: tuple[Parameter, ...] = ()
    statements: tuple[Statement, ...]
    description: str | None = None
    instruction: str | None = None
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        kinds = {isinstance(statement, Delete) for statement in self.statements}
        if len(kinds) != 1:
            msg = "a mutation has at least one statement, and deletes stand alone"
            raise ValueError(msg)
        declared = {param.name: param for param in self.params}
        for used in self._find_param_refs():
            param = declared.get(used.name)
            if param is None or (param.type, param.nullable) != (used.type, used.nullable):
                msg = f"parameter {used.name} is not declared like that"
                raise ValueError(msg)

    def _find_param_refs(self) -> tuple[ParamRef, ...]:
        found: list[Expr] = []
        for statement in self.statements:
            if not isinstance(statement, Delete):
                found.extend(assign.value for assign in statement.values)
            if isinstance(statement, InsertEdge):
                found.extend((statement.source, statement.target))
            if isinstance(statement, Update | Delete):
                found.extend(walk(statement.where))
        return tuple(expr for expr in found if isinstance(expr, ParamRef))


def _check_insert(values: tuple[Assign, ...], omitted: tuple[str, ...]) -> None:
    _check_unique_names((*(assign.property for assign in values), *omitted))


def _check_unique_names(names: tuple[str, ...]) -> None:
    if len(set(names)) != len(names):
        msg = "a property stands twice in one statement"
        raise ValueError(msg)


def _check_where(where: Expr) -> None:
    if not is_predicate(where):
        msg = "`where` needs a predicate"
        raise ValueError(msg)
    if any(name != ROW for name in find_variables(where)):
        msg = "`where` reads nothing but the row at hand"
        raise ValueError(msg)
