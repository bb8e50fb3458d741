"""The logical plan of a mutation: statements in order, each sees the effects of the earlier ones.

Values are typed and fit their property. A property that an insert omits is listed, not filled: the engine takes it from
the existing row with the key, else from defaults and nulls, and derives ids from keys. The plan needs no syntax tree.
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
    is_predicate,
    require,
)
from omnigraph.query.expr_tree import find_variables, walk
from omnigraph.schema.types import Scalar

# The variable of the current row in the `where` of an update or delete; no user can write such a name.
ROW = "#row"

# Values that are known before a row is read.
StoredValue: TypeAlias = Const | ParamRef | Now


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """An assignment of a value to a property; `Const(None)` stores a null.

    In an update it may read the row as it was before; in an insert there is no row to read.
    """

    property: str
    value: Expr
    origin: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertNode:
    """An insert of a node; if `is_upsert` (the type has a key), an update of the existing node with the same key.

    `omitted` are the properties without a value, in declared order: a new node gets their default or null, an existing
    one keeps its values.
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
    """An insert of an edge between the nodes with the ids `source` and `target`; an upsert if `is_upsert`."""

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
            is_id = end.type is Scalar.STRING and not end.nullable
            require(is_id, "an end of an edge is the id of a node: a String that is not null")


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """An update of every row for which `where` is true; the row's variable is `ROW`."""

    type: EntityType
    values: tuple[Assign, ...]
    where: Expr
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_unique_names(tuple(assign.property for assign in self.values))
        _check_where(self.where)
        for assign in self.values:
            require(all(name == ROW for name in find_variables(assign.value)), "an update reads the current row only")
        require(bool(self.values), "an update needs at least one value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A delete of every row for which `where` is true; the edges of a deleted node are deleted too."""

    type: EntityType
    where: Expr
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_where(self.where)


Statement: TypeAlias = InsertNode | InsertEdge | Update | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationQuery:
    """The logical plan of a mutation. Deletes can't be mixed with other statements."""

    name: str
    params: tuple[Parameter, ...] = ()
    statements: tuple[Statement, ...]
    description: str | None = None
    instruction: str | None = None
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        kinds = {isinstance(statement, Delete) for statement in self.statements}
        require(len(kinds) == 1, "a mutation has at least one statement, and deletes are not mixed with others")
        declared = {param.name: param for param in self.params}
        for ref in self._find_param_refs():
            param = declared.get(ref.name)
            fits = param is not None and (param.type, param.nullable) == (ref.type, ref.nullable)
            require(fits, f"parameter {ref.name} is declared differently")

    def _find_param_refs(self) -> tuple[ParamRef, ...]:
        exprs: list[Expr] = []
        for statement in self.statements:
            if not isinstance(statement, Delete):
                exprs.extend(part for assign in statement.values for part in walk(assign.value))
            if isinstance(statement, InsertEdge):
                exprs.extend((statement.source, statement.target))
            if isinstance(statement, Update | Delete):
                exprs.extend(walk(statement.where))
        return tuple(expr for expr in exprs if isinstance(expr, ParamRef))


def _check_insert(values: tuple[Assign, ...], omitted: tuple[str, ...]) -> None:
    _check_unique_names((*(assign.property for assign in values), *omitted))
    require(not any(find_variables(assign.value) for assign in values), "an insert has no row to read")


def _check_unique_names(names: tuple[str, ...]) -> None:
    require(len(set(names)) == len(names), "a property is repeated in one statement")


def _check_where(where: Expr) -> None:
    require(is_predicate(where), "`where` needs a predicate")
    # A mutation has no pattern, so there is no other variable.
    require(all(name == ROW for name in find_variables(where)), "`where` reads the current row only")
