# ruff: noqa: S608 - names are quoted, and values never part of a text
"""Print a relational tree for DuckDB. What SQL can't say exactly, our own evaluator computes, as a function of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from omnigraph.engine.duckdb.table_streams import ReadFailures
from omnigraph.engine.predicate_eval import Column, VariableValue, evaluate_over, get_column_name
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.dialect import ReachText, UnsupportedForm
from omnigraph.engine.relational.tree import ComputedRows, ScanRows, SortTerm, name_property
from omnigraph.engine.value_store import to_stored_type
from omnigraph.query.expr import (
    Aggregate,
    And,
    Bm25,
    Compare,
    Distance,
    Entity,
    Expr,
    Identity,
    IsNull,
    Missing,
    Nearest,
    Not,
    Op,
    Or,
    Prop,
    RecordsParam,
    Rrf,
    Snippet,
    TextMatch,
    United,
    ValueRef,
    Window,
)
from omnigraph.query.expr_tree import walk
from omnigraph.schema.types import EnumOf, Scalar
from omnigraph.storage.columnar_sets import concat_chunks

# Expressions that need more than the columns of the rows: positions, stored values, or an index.
_ELSEWHERE = (
    TextMatch,
    Nearest,
    Bm25,
    Rrf,
    Distance,
    Snippet,
    Entity,
    United,
    Missing,
    ValueRef,
    RecordsParam,
    Aggregate,
    Window,
)
_OPERATORS = {Op.EQ: "=", Op.NE: "<>", Op.LT: "<", Op.LE: "<=", Op.GT: ">", Op.GE: ">="}
# Types whose values DuckDB compares as we do: texts by code points, integers by value.
_PLAIN_TYPES = (Scalar.STRING, Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64, Scalar.BOOL, Scalar.DATE)
_SQL_TYPES = {
    Scalar.STRING: "VARCHAR",
    Scalar.BOOL: "BOOLEAN",
    Scalar.I32: "INTEGER",
    Scalar.I64: "BIGINT",
    Scalar.U32: "UINTEGER",
    Scalar.U64: "UBIGINT",
    Scalar.F32: "FLOAT",
    Scalar.F64: "DOUBLE",
    Scalar.DATE: "DATE",
    Scalar.DATETIME: "TIMESTAMP WITH TIME ZONE",
}


def quote(name: str) -> str:
    """Return a name as an identifier of DuckDB."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


@dataclass(slots=True)
class DuckDbDialect:
    """Print relations for one connection, in which expressions become functions."""

    connection: duckdb.DuckDBPyConnection
    inputs: QueryInputs
    failures: ReadFailures
    tables: Mapping[int, str]
    """By `id` of a scan, or of rows that were computed before, the name of its table."""
    name: str = "duckdb"
    _functions: dict[Expr, str] = field(default_factory=dict)

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
        first = (
            f"select distinct s.{source} as s, e.{far} as t, 1 as d from {parts.sources} as s join {parts.edges} as e"
        )
        first += f" on s.{source} = e.{near}"
        next_ = f"select distinct r.s, e.{far}, r.d + 1 from (select r.s, r.t, r.d from reach as r{through}) as r"
        next_ += f" join {parts.edges} as e on r.t = e.{near} where {bound}not exists"
        next_ += f" (select 1 from recurring.reach as k where k.s = r.s and k.t = e.{far})"
        search = f"with recursive reach(s, t, d) using key (s, t) as ({first} union ({next_}))"
        names = f"s as {source}, t as {parts.target}"
        if parts.low > 0:
            return f"{search} select {names} from reach where d >= {parts.low}"
        # A node is at distance 0 from itself, whatever cycles there are.
        own = f"select {source}, {source} as {parts.target} from {parts.sources} where {source} is not null"
        return f"{search} select {names} from reach where s <> t union all {own}"

    def print_expression(self, expr: Expr) -> str:
        """Return the text of an expression, or the call of a function that our own evaluator is."""
        text = _print_plain(expr)
        return self._print_call(expr) if text is None else text

    def print_fold(self, aggregate: Aggregate, multiplicity: str | None) -> str:
        """Refuse: aggregates are made by our own sinks."""
        del multiplicity
        raise UnsupportedForm(aggregate.fold.value)

    def _print_call(self, expr: Expr) -> str:
        check_evaluable(expr)
        columns = _list_columns(expr)
        name = self._functions.get(expr)
        if name is None:
            name = f"omnigraph_{len(self._functions)}"
            self._functions[expr] = name
            self._create_function(name, expr, columns)
        return f"{name}({', '.join(quote(_name_column(column)) for column in columns)})"

    def _create_function(self, name: str, expr: Expr, columns: tuple[VariableValue, ...]) -> None:
        types = [to_stored_type(column.type) for column in columns]

        def compute(*arguments: Column) -> pa.Array:
            try:
                size = len(arguments[0])
                arrays = [_cast(argument, type_) for argument, type_ in zip(arguments, types, strict=True)]
                source = _ArgumentValues(dict(zip(columns, arrays, strict=True)), size)
                return concat_chunks(evaluate_over(expr, source, self.inputs))
            except BaseException as error:
                self.failures.add(error)
                raise

        self.connection.create_function(
            name,
            _with_arguments(compute, len(columns)),
            [_print_type(column) for column in columns],
            "BOOLEAN",
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )


@dataclass(frozen=True, slots=True)
class _ArgumentValues:
    """The arguments of a function as the values of variables."""

    columns: Mapping[VariableValue, Column]
    size: int

    def read_column(self, expr: VariableValue) -> Column:
        return self.columns[expr]

    def compare(self, expr: Compare) -> Column | None:  # noqa: ARG002 - values are all it has
        return None

    def match_text(self, expr: TextMatch) -> Column:
        raise AssertionError(expr)


def check_evaluable(expr: Expr) -> None:
    """Check that an expression needs nothing but the columns of its rows.

    Raises:
        UnsupportedForm: It searches, or reads values that are not columns.
    """
    for part in walk(expr):
        if isinstance(part, _ELSEWHERE) or part.type is Scalar.BLOB:
            raise UnsupportedForm("a condition on a search or a computed value")
    for column in _list_columns(expr):
        _print_type(column)
    if not _list_columns(expr):
        raise UnsupportedForm("a condition without variables")


def _with_arguments(compute: Callable[..., pa.Array], count: int) -> Callable[..., pa.Array]:
    # DuckDB counts the parameters of a function by its signature.
    names = ", ".join(f"a{number}" for number in range(count))
    return eval(f"lambda {names}: compute({names})", {"compute": compute})  # type: ignore[no-any-return] # noqa: S307 - our own text


def _list_columns(expr: Expr) -> tuple[VariableValue, ...]:
    return tuple(dict.fromkeys(part for part in walk(expr) if isinstance(part, Prop | Identity)))


def _name_column(expr: VariableValue) -> str:
    assert not isinstance(expr, ValueRef)  # noqa: S101 - checked by `check_evaluable`
    return name_property(expr.variable, get_column_name(expr))


def _print_type(column: VariableValue) -> str:
    type_ = Scalar.STRING if isinstance(column.type, EnumOf) else column.type
    if type_ not in _SQL_TYPES:
        raise UnsupportedForm(f"a condition on {column.type}")
    assert isinstance(type_, Scalar)  # noqa: S101 - all keys are scalar types
    return _SQL_TYPES[type_]


def _cast(values: Column, type_: pa.DataType) -> Column:
    return values if values.type == type_ else values.cast(type_)


def _print_plain(expr: Expr) -> str | None:
    """Return the text of a comparison that SQL makes exactly as we do, or None."""
    match expr:
        case And() | Or():
            terms = [_print_plain(term) for term in expr.terms]
            word = " and " if isinstance(expr, And) else " or "
            return None if None in terms else word.join(f"({term})" for term in terms)
        case Not():
            term = _print_plain(expr.term)
            return None if term is None else f"not ({term})"
        case IsNull(operand=Prop() | Identity() as operand):
            return f"{quote(_name_column(operand))} is {'not ' if expr.negated else ''}null"
        case Compare(left=Prop() | Identity() as left, right=Prop() | Identity() as right):
            types = [Scalar.STRING if isinstance(side.type, EnumOf) else side.type for side in (left, right)]
            if types[0] == types[1] and types[0] in _PLAIN_TYPES:
                return f"{quote(_name_column(left))} {_OPERATORS[expr.op]} {quote(_name_column(right))}"
            return None
        case _:
            return None
