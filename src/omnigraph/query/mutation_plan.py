"""The logical plan of a mutation: statements in order, each sees the effects of the earlier ones.

Values are typed and fit their property. A property that an insert omits is listed, not filled: the engine takes it from
the existing row with the key, else from defaults and nulls, and derives ids from keys. The plan needs no syntax tree.

A `match` that drives statements is a read whose columns are what the statements need of a row: a column named like a
variable has the ids of its nodes or edges, or its values; the others are values that statements store.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from omnigraph.lang.source import Span
from omnigraph.query.expr import (
    Const,
    EdgeRef,
    EntityType,
    Expr,
    Identity,
    MetaColumn,
    NodeRef,
    Now,
    Parameter,
    ParamRef,
    ValueRef,
    is_predicate,
    require,
)
from omnigraph.query.expr_tree import find_variables, walk
from omnigraph.query.expr_types import ROW
from omnigraph.query.logical_plan import OutputColumn, ReadQuery
from omnigraph.schema.types import Scalar

# Values that are known before a row is read.
StoredValue: TypeAlias = Const | ParamRef | Now
# The id of a node at an end of an edge: a value, or the id of a variable, which a match or an `as` binds.
EndValue: TypeAlias = StoredValue | Identity | ValueRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign:
    """An assignment of a value to a property; `Const(None)` stores a null.

    In an update it may read the row as it was before; in an insert there is no row to read. After a match it is a
    value, or a column of the match.
    """

    property: str
    value: Expr
    origin: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertNode:
    """An insert of a node; if `is_upsert` (the type has a key), an update of the existing node with the same key.

    `omitted` are the properties without a value, in declared order: a new node gets their default or null, an existing
    one keeps its values. With `if_absent`, an existing node is left as it is. `variable` names the node for later
    statements.
    """

    type: NodeRef
    values: tuple[Assign, ...]
    omitted: tuple[str, ...]
    is_upsert: bool
    if_absent: bool = False
    variable: str | None = None
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_insert(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertEdge:
    """An insert of an edge between the nodes with the ids `source` and `target`; otherwise like `InsertNode`."""

    type: EdgeRef
    source: EndValue
    target: EndValue
    values: tuple[Assign, ...]
    omitted: tuple[str, ...]
    is_upsert: bool
    if_absent: bool = False
    variable: str | None = None
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_insert(self)
        for end in (self.source, self.target):
            # Whether a column of a match has a null is checked when it has been answered.
            is_id = end.type is Scalar.STRING and (isinstance(end, ValueRef) or not end.nullable)
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
        # The values are those before the update, so the order of the assignments means nothing.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMatched:
    """An update of the rows that a match binds to a variable; a row of the match where it is null changes nothing."""

    type: EntityType
    variable: str
    values: tuple[Assign, ...]
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        _check_unique_names(tuple(assign.property for assign in self.values))
        require(bool(self.values), "an update needs at least one value")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMatched:
    """A delete of the rows that a match binds to a variable, and of the edges of deleted nodes."""

    type: EntityType
    variable: str
    origin: Span = field(compare=False, repr=False)


DrivenStatement: TypeAlias = InsertNode | InsertEdge | UpdateMatched | DeleteMatched


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveMatch:
    """A match that drives statements: it is answered once, then each statement runs for all its rows.

    All values come from the answer: no statement sees what another one of the same match writes. Deletes run first.
    """

    read: ReadQuery
    statements: tuple[DrivenStatement, ...]
    types: tuple[tuple[str, EntityType], ...] = ()
    """The types of the variables whose ids are columns of the match."""
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        columns = {column.name: column.value for column in self.read.output}
        named = {s.variable for s in self.statements if isinstance(s, InsertNode | InsertEdge)}
        for statement in self.statements:
            if isinstance(statement, UpdateMatched | DeleteMatched):
                # Rows are changed by their ids, so that of the variable has to be a column.
                is_id = isinstance(columns.get(statement.variable), Identity)
                require(is_id, f"the match has no ids of {statement.variable}")
            if not isinstance(statement, DeleteMatched):
                for ref in find_column_refs(statement):
                    require(ref in columns, f"the match has no column {ref}")
        require(not named & columns.keys() - {None}, "a variable of the match is bound again")
        require(bool(self.statements), "a match drives at least one statement")


Statement: TypeAlias = InsertNode | InsertEdge | Update | Delete | DriveMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class MutationQuery:
    """The logical plan of a mutation. Deletes can't be mixed with other statements, except after one match.

    `returning` are columns over the rows of the last match, and the nodes and edges that inserts have named, with the
    values after the mutation; without a match there is one row.
    """

    name: str
    params: tuple[Parameter, ...] = ()
    statements: tuple[Statement, ...]
    returning: tuple[OutputColumn, ...] = ()
    description: str | None = None
    instruction: str | None = None
    origin: Span = field(compare=False, repr=False)

    def __post_init__(self) -> None:
        # Statements of one match run on its answer, so their order is fixed and deletes may be among them.
        deletes = {number for number, kinds in self._list_kinds() if True in kinds}
        others = {number for number, kinds in self._list_kinds() if False in kinds}
        is_apart = not deletes or not others or len(deletes | others) == 1
        require(
            bool(self.statements) and is_apart,
            "a mutation has at least one statement, and deletes are not mixed with others",
        )
        declared = {param.name: param for param in self.params}
        for ref in self._find_param_refs():
            param = declared.get(ref.name)
            fits = param is not None and (param.type, param.nullable) == (ref.type, ref.nullable)
            require(fits, f"parameter {ref.name} is declared differently")

    @property
    def last_match(self) -> DriveMatch | None:
        """The match whose rows `returning` is about."""
        matches = [statement for statement in self.statements if isinstance(statement, DriveMatch)]
        return matches[-1] if matches else None

    def _list_kinds(self) -> list[tuple[int, set[bool]]]:
        """Return the number of each statement, or match, and whether it deletes, or has statements that do."""
        return [
            (number, {isinstance(inner, Delete | DeleteMatched) for inner in list_inner(statement)})
            for number, statement in enumerate(self.statements)
        ]

    def _find_param_refs(self) -> tuple[ParamRef, ...]:
        exprs: list[Expr] = [column.value for column in self.returning]
        for statement in self.list_statements():
            if not isinstance(statement, Delete | DeleteMatched):
                exprs.extend(assign.value for assign in statement.values)
            if isinstance(statement, InsertEdge):
                exprs.extend((statement.source, statement.target))
            if isinstance(statement, Update | Delete):
                exprs.append(statement.where)
        return tuple(part for expr in exprs for part in walk(expr) if isinstance(part, ParamRef))

    def list_statements(self) -> "list[PlainStatement]":
        """Return all statements, those after a match in its place."""
        return [inner for statement in self.statements for inner in list_inner(statement)]


PlainStatement: TypeAlias = InsertNode | InsertEdge | Update | Delete | UpdateMatched | DeleteMatched
BoundQuery: TypeAlias = ReadQuery | MutationQuery


def list_inner(statement: Statement) -> tuple[PlainStatement, ...]:
    """Return the statements that a match drives; any other statement itself."""
    return statement.statements if isinstance(statement, DriveMatch) else (statement,)


def find_column_refs(statement: InsertNode | InsertEdge | UpdateMatched) -> tuple[str, ...]:
    """Return the columns of a match that a statement reads as values."""
    values: list[Expr] = [assign.value for assign in statement.values]
    if isinstance(statement, InsertEdge):
        values += [statement.source, statement.target]
    return tuple(value.variable for value in values if isinstance(value, ValueRef))


def _check_insert(statement: InsertNode | InsertEdge) -> None:
    _check_unique_names((*(assign.property for assign in statement.values), *statement.omitted))
    # A column of a match is computed by the match; the insert itself has no row to read.
    values = (assign.value for assign in statement.values)
    has_row = any(find_variables(value) for value in values if not isinstance(value, ValueRef))
    require(not has_row, "an insert has no row to read")
    require(statement.is_upsert or not statement.if_absent, "only a row with a key can be absent")


def _check_unique_names(names: tuple[str, ...]) -> None:
    require(len(set(names)) == len(names), "a property is repeated in one statement")


def _check_where(where: Expr) -> None:
    require(is_predicate(where), "`where` needs a predicate")
    # A mutation has no pattern, so there is no other variable.
    require(all(name == ROW for name in find_variables(where)), "`where` reads the current row only")


def build_id(variable: str, origin: Span, *, nullable: bool = False) -> Identity:
    """Build the expression of the id of a variable."""
    return Identity(variable=variable, part=MetaColumn.ID, nullable=nullable, origin=origin)
