"""Spark SQL as a dialect of relational trees: scans are views of DataFrames, and expressions may call our functions."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from omnigraph.engine.predicate_eval import find_columns, get_column_name
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.dialect import ReachText, UnsupportedForm
from omnigraph.engine.relational.expressions import ExpressionPrinter
from omnigraph.engine.relational.print_sql import NO_COLUMN
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.engine.relational.tree import (
    BlockFold,
    CombinedFold,
    ComputedRows,
    DigitList,
    DigitSum,
    FloatTerm,
    ListOfValues,
    PartialFold,
    ScanRows,
    SortTerm,
    UnnestRows,
    name_id,
    name_read,
    name_value,
)
from omnigraph.query.expr import (
    Aggregate,
    AggregateFunction,
    Entity,
    Expr,
    FieldRef,
    Identity,
    Prop,
    RecordOf,
    ValueRef,
)
from omnigraph.query.expr_tree import build_conjunction
from omnigraph.query.format_expr import format_expr
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.types import Scalar, ValueType
from omnigraph.spark.query.aggregates import AggregatePrinter, is_float, print_wide_sum, print_zero
from omnigraph.spark.query.searches import SearchColumns, find_search_columns, is_search_column
from omnigraph.spark.read.table_scan import TableScan


def find_variable_column(expr: Expr) -> str | None:
    """Return the column of a relation that has the value of a property, an id, or a variable."""
    match expr:
        case Prop() | Identity():
            return SPARK.quote_name(name_read(expr))
        case ValueRef():
            return SPARK.quote_name(name_value(expr.variable))
        case Entity():
            return SPARK.quote_name(name_id(expr.variable))
        case FieldRef() if isinstance(expr.operand.type, RecordOf):
            operand = find_variable_column(expr.operand)
            return None if operand is None else f"{operand}.{SPARK.quote_name(expr.name)}"
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
    searches: SearchColumns
    aggregates: AggregatePrinter
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
        searched = [each for each in scan.filters if find_search_columns(each)]
        plain = tuple(each for each in scan.filters if each not in searched)
        view = self.scans.setdefault((scan.type, plain), f"{self.prefix}scan_{len(self.scans)}")
        read = dict.fromkeys(stored for stored, _ in scan.columns)
        read.update(dict.fromkeys(name for each in searched for name in find_columns(each)))
        if scan.is_loop_left_out:
            read.update(dict.fromkeys((SRC, DST)))
        shipped = [name for name in read if is_search_column(name)]
        columns = self.columns.setdefault(view, set())
        columns.update(name for name in read if not is_search_column(name))
        source = f"{view} as q"
        if shipped:
            columns.add(ID)
            source = f"({self._join_searches(scan.type, view, shipped)}) as q"
        conditions = [f"({self.printer.print_condition(each, self._find_stored)})" for each in searched]
        if scan.is_loop_left_out:
            conditions.append(f"{self.quote(SRC)} <> {self.quote(DST)}")
        items = ", ".join(f"{self.quote(stored)} as {self.quote(name)}" for stored, name in scan.columns)
        where = f" where {' and '.join(conditions)}" if conditions else ""
        return f"select {items} from {source}{where}"  # noqa: S608 - names are quoted

    def _find_stored(self, expr: Expr) -> str | None:
        """Return the column of a table that a condition on its rows reads."""
        return self.quote(get_column_name(expr)) if isinstance(expr, Prop | Identity) else None

    def _join_searches(self, type_name: str, view: str, names: list[str]) -> str:
        """Return the rows of a view, with columns of searches."""
        items, joins = ["s.*"], []
        for number, name in enumerate(names):
            rows = self.print_computed(self.searches.get_rows(type_name, name))
            items.append(f"{self.searches.print_value(name, f'r{number}')} as {self.quote(name)}")
            joins.append(f"left join {rows} as r{number} on s.{self.quote(ID)} = r{number}.{self.quote(ID)}")
        return f"select {', '.join(items)} from {view} as s {' '.join(joins)}"  # noqa: S608 - as above

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

    def print_type(self, type_: ValueType) -> str:
        """Return the name of a type."""
        return SPARK.print_type(type_)

    def print_key(self, expr: Expr) -> str:
        """Return the text of a value to group or sort by: both zeros are equal.

        Raises:
            UnsupportedForm: It has no exact counterpart.
        """
        text = self.printer.print_value(expr, find_variable_column)
        return f"({text} + {print_zero(expr.type)})" if is_float(expr.type) else text

    def print_fold(self, aggregate: Aggregate, multiplicity: str | None) -> str:
        """Report that aggregates are printed with the output of a query, not inside of its pattern."""
        raise UnsupportedForm(f"`{aggregate.fold.value}` in this place ({multiplicity})")

    def print_partial(self, measure: PartialFold | CombinedFold | DigitSum | DigitList) -> str:
        """Report that aggregates are printed with the output of a query, not inside of its pattern."""
        raise UnsupportedForm(f"an aggregate in this place ({type(measure).__name__})")

    def print_float_part(self, term: FloatTerm) -> str:
        """Report that floats are added with the output of a query, not inside of its pattern."""
        raise UnsupportedForm(f"a sum of floats in this place ({type(term.expr).__name__})")

    def print_block(self, measure: BlockFold | ListOfValues) -> str:
        """Return the text of the value of a block.

        Raises:
            UnsupportedForm: It has no exact counterpart.
        """
        aggregate = measure.aggregate
        text = format_expr(aggregate)
        column = None if measure.column is None else self.quote(measure.column)
        if isinstance(measure, ListOfValues):
            sorts = tuple(self.quote(term.column) for term in measure.order)
            return self.aggregates.print_aggregate(aggregate, text, column, sorts, None, keeps_zeros=True)
        times = None if measure.multiplicity is None else self.quote(measure.multiplicity)
        if aggregate.fold is AggregateFunction.SUM and aggregate.type is Scalar.I64:
            assert column is not None  # noqa: S101 - it adds values
            total = print_wide_sum(column, times)
            narrow = f"TRY_CAST({total} AS BIGINT)"
            return f"({total} IS NOT NULL AND {narrow} IS NULL)" if measure.is_overflow else narrow
        return self.aggregates.print_aggregate(aggregate, text, column, (), times)

    def print_unnest(self, rows: UnnestRows, source: str) -> str:
        """Return a query for a row per element of a list; `source` follows `from`."""
        value = self.print_expression(rows.value)
        items = [self.quote(name) for name in rows.input.names]
        if rows.element is not None:
            items.append(f"`#element` as {self.quote(rows.element)}")
        if rows.position is not None:
            items.append(f"CAST(`#place` AS BIGINT) as {self.quote(rows.position)}")
        listed = ", ".join(items) or f"1 as {self.quote(NO_COLUMN)}"
        if rows.is_test:
            return f"select {listed} from {source} where size({value}) > 0"  # noqa: S608 - as above
        view = f"LATERAL VIEW posexplode({value}) AS `#place`, `#element`"
        return f"select {listed} from {source} {view}"  # noqa: S608 - as above
