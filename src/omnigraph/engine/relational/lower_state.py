"""The state of a lowering: the relation that grows step by step, and what its columns are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.engine.physical_plan import SEED, VALUE_TYPE
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.lower_unions import scan_rows
from omnigraph.engine.relational.lowering_host import LoweringHost
from omnigraph.engine.relational.tree import (
    MULTIPLICITY,
    ROW_POSITION,
    ColumnTerm,
    JoinKind,
    JoinRows,
    ProductTerm,
    Project,
    Relation,
    Term,
    mark_capitals,
    name_id,
    name_property,
    name_row,
    name_value,
)
from omnigraph.query.expr import ArrayOf, Expr, ExprType, RecordOf
from omnigraph.query.expr_tree import find_variables
from omnigraph.schema.arrow import ID
from omnigraph.schema.types import EnumOf, ListOf, Scalar

# The counts of a side that is about to be joined.
INNER_COUNT = "#inner count"


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """The values of a variable that a relation computes."""

    type: ExprType
    overflow: str | None = None
    """The calculation, if values may be null because it overflowed; the column `name_overflow` tells which."""
    has_one_zero: bool = False
    """Whether a float is never -0.0, as those that a stage hands on."""

    @property
    def is_comparable(self) -> bool:
        """Whether an engine of tables merges only values that are the same: it takes 0.0 and -0.0 for one."""
        return self.has_one_zero or has_one_form(self.type)


@dataclass(slots=True, kw_only=True)
class LoweringState:
    """A relation, and the types of the variables that it binds."""

    host: LoweringHost
    relation: Relation
    bound: dict[str, str]
    columns: Mapping[str, set[str]]
    """By variable, the columns that are read after it is bound."""
    is_set: bool
    """Whether only the existence of a match matters."""
    rows: float
    """The expected number of rows."""
    seeds: tuple[str, ...] = ()
    """In a block, the columns of the outer combination that a row belongs to: they are never dropped."""
    values: dict[str, ValueColumn] = field(default_factory=dict)
    """By variable, the values that the relation has in the column `name_value`."""

    def list_scan_columns(self, variable: str) -> tuple[tuple[str, str], ...]:
        """Return what a scan of a variable's table reads: its id, its position if needed, and what is read later."""
        row = ((ROW_POSITION, name_row(variable)),) if self.host.with_rows else ()
        wanted = sorted(self.columns.get(variable, set()) - {ID})
        return ((ID, name_id(variable)), *row, *((name, name_property(variable, name)) for name in wanted))

    def attach(self, variable: str, type_name: str) -> None:
        """Join the columns of a variable's row that the relation does not have yet."""
        columns = self.list_scan_columns(variable)
        fresh = [(stored, name) for stored, name in columns if name not in self.relation.names]
        if fresh:
            key = name_id(variable)
            scan = scan_rows(self.host, type_name, variable, ((ID, key), *fresh))
            # A variable of an optional block may have no row.
            self.relation = JoinRows(kind=JoinKind.LEFT, left=self.relation, right=scan, equal=((key, key),))

    def require_columns(self, expr: Expr) -> None:
        """Join what an expression reads of the bound variables and the relation does not have yet."""
        for variable in find_variables(expr):
            if variable in self.bound:
                self.require_variable(variable)

    def require_variable(self, variable: str) -> None:
        """Join what is read of a bound variable and the relation does not have yet."""
        type_name = self.bound[variable]
        if type_name == VALUE_TYPE:
            if variable not in self.values:
                raise UnsupportedForm("a value of an earlier stage")
        else:
            self.attach(variable, type_name)

    def require_values(self, expr: Expr) -> None:
        """Join what an expression reads, whose value is kept: so no integer in it may have overflowed.

        Raises:
            UnsupportedForm: One may have.
        """
        self.require_columns(expr)
        for variable in find_variables(expr):
            if self.bound.get(variable) == VALUE_TYPE:
                check_value(variable, self.values)

    def bind_value(self, variable: str, column: ValueColumn) -> None:
        """Record that the relation has the values of a variable."""
        self.bound[variable] = VALUE_TYPE
        self.values[variable] = column

    def attach_rows(self) -> None:
        """Add the columns that are still missing: positions of rows, and properties that are read later."""
        for variable, type_name in self.bound.items():
            if type_name != VALUE_TYPE:
                self.attach(variable, type_name)

    def join_inner(self, other: Relation, other_rows: float, equal: tuple[tuple[str, str], ...]) -> Relation:
        """Join the relation with another one; the smaller side becomes the hash table."""
        if other_rows <= self.rows:
            return JoinRows(kind=JoinKind.INNER, left=self.relation, right=other, equal=equal)
        swapped = tuple((right, left) for left, right in equal)
        return JoinRows(kind=JoinKind.INNER, left=other, right=self.relation, equal=swapped)

    def multiply(self, joined: Relation) -> Relation:
        """Return a relation whose counts are multiplied by those of a joined side."""
        has_counts = MULTIPLICITY in joined.names
        factors = (MULTIPLICITY, INNER_COUNT) if has_counts else (INNER_COUNT,)
        kept = [name for name in joined.names if name not in (MULTIPLICITY, INNER_COUNT)]
        items: list[tuple[str, Term]] = [(name, ColumnTerm(name)) for name in kept]
        return Project(input=joined, items=(*items, (MULTIPLICITY, ProductTerm(factors))))

    def keep(self, variables: tuple[str, ...]) -> None:
        """Drop the variables that nothing reads any more; the number of rows stays."""
        if SEED in variables:
            # The outer variables of a block identify its seeds.
            is_seed = {name for name in self.bound if not {name_id(name), name_value(name)}.isdisjoint(self.seeds)}
            variables = (*variables, *is_seed)
        self.bound = {name: type_name for name, type_name in self.bound.items() if name in variables}
        self.relation = pick_columns(self.relation, self.list_live_columns())

    def list_live_columns(self) -> tuple[str, ...]:
        """Return the columns of bound variables, of seeds and of counts."""
        return tuple(
            name
            for name in self.relation.names
            if name == MULTIPLICITY or name in self.seeds or is_column_of(name, self.bound)
        )

    def list_shared(self, shared: Iterable[tuple[str, str]]) -> tuple[str, ...]:
        """Return the columns of the outer variables that a block reads."""
        return tuple(self._name_shared(variable, type_name) for variable, type_name in shared)

    def _name_shared(self, variable: str, type_name: str) -> str:
        if type_name != VALUE_TYPE:
            return name_id(variable)
        check_value(variable, self.values)
        if not self.values[variable].is_comparable:
            raise UnsupportedForm(f"a comparison of values of the type {self.values[variable].type}")
        return name_value(variable)


def check_value(variable: str, values: Mapping[str, ValueColumn]) -> None:
    """Check that a relation has the values of a variable, and that null has one meaning in them.

    In a condition it has: there, an integer that overflowed is unknown.

    Raises:
        UnsupportedForm: They are elsewhere, or a null may be an integer that overflowed.
    """
    if variable not in values:
        raise UnsupportedForm("a value of an earlier stage")
    if values[variable].overflow is not None:
        raise UnsupportedForm("a sum of integers, which may overflow, in this place")


def has_one_form(type_: ExprType) -> bool:
    """Return whether equal values of a type are the same: those without floats and whole nodes or edges."""
    match type_:
        case Scalar():
            return not type_.is_float
        case ListOf(element=element) | ArrayOf(element=element):
            return has_one_form(element)
        case RecordOf(fields=fields):
            return all(has_one_form(field_type) for _, field_type in fields)
        case _:
            return isinstance(type_, EnumOf)


def is_column_of(name: str, variables: Iterable[str]) -> bool:
    """Return whether a column belongs to one of these variables."""
    return any(name.startswith((f"{marked}@", f"{marked}.")) for marked in map(mark_capitals, variables))


def pick_columns(relation: Relation, names: tuple[str, ...]) -> Relation:
    """Return the relation with these columns alone."""
    if relation.names == names:
        return relation
    return Project(input=relation, items=tuple((name, ColumnTerm(name)) for name in names))


def rename_column(relation: Relation, old: str, new: str) -> Relation:
    """Return the relation with another name for one column."""
    return Project(
        input=relation, items=tuple((new if name == old else name, ColumnTerm(name)) for name in relation.names)
    )
