"""Spark SQL as a dialect of relational trees: scans are views of DataFrames, and expressions may call our functions."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.dialect import ReachText, UnsupportedForm
from omnigraph.engine.relational.expressions import ExpressionPrinter
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.engine.relational.tree import (
    ComputedRows,
    ScanRows,
    SortTerm,
    name_id,
    name_property,
    name_value,
)
from omnigraph.query.expr import Aggregate, Entity, Expr, Identity, Prop, ValueRef
from omnigraph.query.expr_tree import build_conjunction
from omnigraph.schema.arrow import DST, SRC
from omnigraph.schema.catalog import Catalog
from omnigraph.spark.read.table_scan import TableScan


def find_variable_column(expr: Expr) -> str | None:
    """Return the column of a relation that has the value of a property, an id, or a variable."""
    match expr:
        case Prop():
            return SPARK.quote_name(name_property(expr.variable, expr.name))
        case Identity():
            return SPARK.quote_name(name_property(expr.variable, expr.part.value))
        case ValueRef():
            return SPARK.quote_name(name_value(expr.variable))
        case Entity():
            return SPARK.quote_name(name_id(expr.variable))
        case _:
            return None


@dataclass(slots=True)
class SparkDialect:
    """The words of Spark SQL for one query, and the views and functions that its statements need."""

    catalog: Catalog
    inputs: QueryInputs
    plan_scan: Callable[[str], TableScan]
    """Returns the scan of a whole type."""
    prefix: str
    """What the names of views and functions begin with."""
    printer: ExpressionPrinter
    name: str = "spark"
    scans: dict[tuple[str, tuple[Expr, ...]], str] = field(default_factory=dict)
    """The view of each table and its filters: scans with equal filters share one, and Spark may reuse its shuffle."""
    columns: dict[str, set[str]] = field(default_factory=dict)
    """The columns that are read of each view."""

    def quote(self, name: str) -> str:
        """Return a name as an identifier."""
        return SPARK.quote_name(name)

    def print_scan(self, scan: ScanRows) -> str:
        """Return a query with the columns and rows of a scan."""
        view = self.scans.setdefault((scan.type, scan.filters), f"{self.prefix}scan_{len(self.scans)}")
        read = self.columns.setdefault(view, set())
        read.update(stored for stored, _ in scan.columns)
        where = ""
        if scan.is_loop_left_out:
            read.update((SRC, DST))
            where = f" where {self.quote(SRC)} <> {self.quote(DST)}"
        items = ", ".join(f"{self.quote(stored)} as {self.quote(name)}" for stored, name in scan.columns)
        return f"select {items} from {view}{where}"  # noqa: S608 - names are quoted

    def build_views(self) -> dict[str, Callable[[], TableScan]]:
        """Return how to plan the scan of each view."""
        return {view: self._build_scan(type_name, filters, view) for (type_name, filters), view in self.scans.items()}

    def _build_scan(self, type_name: str, filters: tuple[Expr, ...], view: str) -> Callable[[], TableScan]:
        def build() -> TableScan:
            scan = self.plan_scan(type_name)
            # In the order of the schema, so that the plan does not depend on the order of a set.
            columns = tuple(name for name in scan.columns if name in self.columns[view])
            where = build_conjunction(filters) if filters else None
            return replace(scan, columns=columns, where=where, params=self.inputs.params, now=self.inputs.now)

        return build

    def print_computed(self, rows: ComputedRows) -> str:
        """Return the name of a view with rows that were computed before."""
        return f"{self.prefix}{rows.label}"

    def print_count_sum(self, column: str) -> str:
        """Return the sum of a quoted column of counts, as a 64-bit integer; an error at run time if it is larger."""
        return f"CAST(sum(CAST({column} AS DECIMAL(38,0))) AS BIGINT)"

    def print_sort_term(self, term: SortTerm) -> str:
        """Return a sort term, with null as the smallest value."""
        return f"{self.quote(term.column)} {'DESC NULLS LAST' if term.is_descending else 'ASC NULLS FIRST'}"

    def print_reach(self, parts: ReachText) -> str:
        """Report that a search over several edges is no statement: it is iterated before."""
        raise AssertionError(f"a search from {parts.source} was not replaced")

    def print_expression(self, expr: Expr) -> str:
        """Return the text of a predicate over the columns of `tree`.

        Raises:
            UnsupportedForm: It has no exact counterpart.
        """
        return self.printer.print_condition(expr, find_variable_column)

    def print_key(self, expr: Expr) -> str:
        """Return the text of a value to group or sort by.

        Raises:
            UnsupportedForm: It has no exact counterpart.
        """
        return self.printer.print_value(expr, find_variable_column)

    def print_fold(self, aggregate: Aggregate, multiplicity: str | None) -> str:
        """Report that aggregates are printed with the output of a query, not inside of its pattern."""
        raise UnsupportedForm(f"`{aggregate.fold.value}` in this place ({multiplicity})")
