"""The state of a lowering: the relation that grows step by step, and what its columns are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from omnigraph.engine.physical_plan import SEED, VALUE_TYPE, Node
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.tree import (
    MULTIPLICITY,
    ROW_POSITION,
    ColumnTerm,
    ComputedRows,
    JoinKind,
    JoinRows,
    ProductTerm,
    Project,
    Relation,
    ScanRows,
    Term,
    mark_capitals,
    name_id,
    name_property,
    name_row,
)
from omnigraph.query.expr import Expr
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.union_types import is_union
from omnigraph.schema.arrow import ID

# The counts of a side that is about to be joined.
INNER_COUNT = "#inner count"


class LoweringHost(Protocol):
    """What the engine that will run the relations can do, and knows of the tables."""

    with_rows: bool
    """Whether bound variables need the positions of their rows in the end."""

    def count_rows(self, type_name: str) -> int:
        """Return the number of rows of a type."""
        ...

    def check_expr(self, expr: Expr) -> None:
        """Check that an expression over several variables can be evaluated exactly.

        Raises:
            UnsupportedForm: It can't.
        """
        ...

    def check_filter(self, expr: Expr) -> None:
        """Check that a predicate over the rows of one table can be evaluated exactly in its scan.

        Raises:
            UnsupportedForm: It can't.
        """
        ...

    def compute_rows(self, node: Node, columns: tuple[tuple[str, str], ...]) -> ComputedRows | None:
        """Return the rows that a node's filters leave if our own engine should find them first, else None."""
        ...


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
            scan = ScanRows(type=type_name, variable=variable, columns=((ID, key), *fresh))
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
        if type_name == VALUE_TYPE or is_union(type_name):
            raise UnsupportedForm("a condition on a computed value")
        self.attach(variable, type_name)

    def attach_rows(self) -> None:
        """Add the columns that are still missing: positions of rows, and properties that are read later."""
        for variable, type_name in self.bound.items():
            if type_name != VALUE_TYPE and not is_union(type_name):
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
            variables = (*variables, *(name for name in self.bound if name_id(name) in self.seeds))
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
        names = []
        for variable, type_name in shared:
            if type_name == VALUE_TYPE or is_union(type_name):
                raise UnsupportedForm("a block that reads a computed value")
            names.append(name_id(variable))
        return tuple(names)


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
