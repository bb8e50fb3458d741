# ruff: noqa: S608 - names are quoted, and values printed by the printer of expressions
"""Print a relational tree for DuckDB. What SQL can't say exactly, our own evaluator computes, as a function of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.engine.predicate_eval import get_column_name
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.dialect import ReachText, UnsupportedForm
from omnigraph.engine.relational.expressions import ExpressionPrinter
from omnigraph.engine.relational.sql_syntax import DUCKDB
from omnigraph.engine.relational.tree import ComputedRows, ScanRows, SortTerm, name_id, name_property
from omnigraph.query.expr import Aggregate, AggregateFunction, Entity, Expr, Identity, IsNull, Prop
from omnigraph.query.expr_tree import walk
from omnigraph.schema.types import Scalar

quote = DUCKDB.quote_name
_FUNCTIONS = {
    AggregateFunction.MIN: "min",
    AggregateFunction.MAX: "max",
    AggregateFunction.ANY: "bool_or",
    AggregateFunction.ALL: "bool_and",
}


def build_printer(inputs: QueryInputs) -> ExpressionPrinter:
    """Return a printer of expressions for one statement."""
    return ExpressionPrinter(DUCKDB, inputs)


def find_column(expr: Expr) -> str | None:
    """Return the column of a property or id; None for every other expression."""
    match expr:
        case Prop() | Identity() if expr.type is not Scalar.BLOB:
            return quote(name_property(expr.variable, get_column_name(expr)))
        case Entity():
            return quote(name_id(expr.variable))
        case _:
            return None


def print_condition(printer: ExpressionPrinter, expr: Expr) -> str:
    """Return the text of a predicate.

    Raises:
        UnsupportedForm: It can't be printed, nor evaluated by us from the columns of its rows.
    """
    _check_entities(expr)
    return printer.print_condition(expr, find_column)


def _check_entities(expr: Expr) -> None:
    """Check that whole nodes and edges are asked only whether they are there, which their ids tell."""
    tested = {part.operand for part in walk(expr) if isinstance(part, IsNull) and isinstance(part.operand, Entity)}
    if any(isinstance(part, Entity) and part not in tested for part in walk(expr)):
        raise UnsupportedForm("a whole node or edge as a value")


@dataclass(slots=True)
class DuckDbDialect:
    """Print relations for one statement."""

    printer: ExpressionPrinter
    tables: Mapping[int, str]
    """By `id` of a scan, the name of its table."""
    name: str = "duckdb"

    def quote(self, name: str) -> str:
        """Return a name as an identifier."""
        return quote(name)

    def print_scan(self, scan: ScanRows) -> str:
        """Return the name of the table that a scan is."""
        return quote(self.tables[id(scan)])

    def print_computed(self, rows: ComputedRows) -> str:
        """Return the name of the table with rows that were computed before."""
        return quote(rows.label)

    def print_count_sum(self, column: str) -> str:
        """Return the sum of counts, which DuckDB makes of 128 bits: the cast is an error if it does not fit."""
        return f"cast(sum({column}) as bigint)"

    def print_sort_term(self, term: SortTerm) -> str:
        """Return a sort term, with null as the smallest value."""
        return f"{quote(term.column)} {'desc nulls last' if term.is_descending else 'asc nulls first'}"

    def print_reach(self, parts: ReachText) -> str:
        """Return a breadth-first search: the key of a row is its pair of ids, so each pair is reached once."""
        near, far, source = parts.near, parts.far, parts.source
        through = f" semi join {parts.through} as w on r.t = w.{near}" if parts.through else ""
        bound = "" if parts.high is None else f"r.d < {parts.high} and "
        # Read once, not in every round: its rows are spilled if they don't fit.
        edges = f"edges as materialized (select {near}, {far} from {parts.edges})"
        first = (
            f"select distinct s.{source} as s, e.{far} as t, 1 as d"
            f" from {parts.sources} as s join edges as e on s.{source} = e.{near}"
        )
        longer = (
            f"select distinct r.s, e.{far}, r.d + 1 from (select r.s, r.t, r.d from reach as r{through}) as r"
            f" join edges as e on r.t = e.{near} where {bound}not exists"
            f" (select 1 from recurring.reach as k where k.s = r.s and k.t = e.{far})"
        )
        search = f"with recursive {edges}, reach(s, t, d) using key (s, t) as ({first} union ({longer}))"
        names = f"s as {source}, t as {parts.target}"
        if parts.low > 0:
            return f"{search} select {names} from reach where d >= {parts.low}"
        # A node is at distance 0 from itself, whatever cycles there are.
        own = f"select {source}, {source} as {parts.target} from {parts.sources} where {source} is not null"
        return f"{search} select {names} from reach where s <> t union all {own}"

    def print_expression(self, expr: Expr) -> str:
        """Return the text of a predicate."""
        return print_condition(self.printer, expr)

    def print_key(self, expr: Expr) -> str:
        """Return a value to group or sort by: both zeros are equal, and an integer that overflows is an error."""
        _check_entities(expr)
        text = self.printer.print_value(expr, find_column)
        is_float = isinstance(expr.type, Scalar) and expr.type.is_float
        return f"({text} + cast(0 as double))" if is_float else text

    def print_fold(self, aggregate: Aggregate, multiplicity: str | None) -> str:
        """Return an aggregate that DuckDB computes exactly; a sum of integers is a text, however large it is.

        Raises:
            UnsupportedForm: Our own sinks compute it.
        """
        argument = aggregate.argument
        where = "" if aggregate.where is None else f" filter (where {self.print_expression(aggregate.where)})"
        if argument is None:
            counted = "count(*)" if multiplicity is None else f"sum({multiplicity})"
            return f"cast(coalesce({counted}{where}, 0) as varchar)"
        is_integer = isinstance(argument.type, Scalar) and argument.type.is_integer
        match aggregate.fold:
            case AggregateFunction.COUNT if aggregate.distinct:
                return f"cast(count(distinct {self.print_key(argument)}){where} as varchar)"
            case AggregateFunction.COUNT:
                value = self.print_key(argument)
                if multiplicity is None:
                    return f"cast(count({value}){where} as varchar)"
                return (
                    f"cast(coalesce(sum(case when {value} is not null then {multiplicity} end){where}, 0) as varchar)"
                )
            case AggregateFunction.SUM if is_integer:
                times = "" if multiplicity is None else f" * {multiplicity}"
                return f"cast(sum(cast({self.print_key(argument)} as hugeint){times}){where} as varchar)"
            case AggregateFunction.MIN | AggregateFunction.MAX | AggregateFunction.ANY | AggregateFunction.ALL:
                return f"{_FUNCTIONS[aggregate.fold]}({self.print_key(argument)}){where}"
            case _:
                raise UnsupportedForm(f"`{aggregate.fold.value}` of {argument.type}")
