# ruff: noqa: S608 - names are quoted, and values printed by the printer of expressions
"""Print a relational tree for DuckDB. What SQL can't say exactly, our own evaluator computes, as a function of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.dialect import ReachText, UnsupportedForm
from omnigraph.engine.relational.duckdb_functions import EngineFunction
from omnigraph.engine.relational.expressions import ExpressionPrinter
from omnigraph.engine.relational.float_parts import HIGH, HIGH_BITS, LOW, PLACE, FloatPartFunction
from omnigraph.engine.relational.fold_functions import ListFold, TotalFunction
from omnigraph.engine.relational.print_sql import NO_COLUMN
from omnigraph.engine.relational.sql_syntax import DUCKDB
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
from omnigraph.query.expr import Aggregate, AggregateFunction, Entity, Expr, Identity, IsNull, Prop, ValueRef
from omnigraph.query.expr_tree import walk
from omnigraph.query.format_expr import format_expr
from omnigraph.schema.types import Scalar, ValueType

quote = DUCKDB.quote_name
_F = AggregateFunction
_TOTALS = (AggregateFunction.COUNT, AggregateFunction.SUM)
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
            return quote(name_read(expr))
        case ValueRef():
            return quote(name_value(expr.variable))
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
    functions: dict[str, EngineFunction] = field(default_factory=dict)
    """Functions beside those of the printer, by name."""

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
        is_searched_for_cycles = parts.is_undirected and parts.low > 0
        through = f" semi join {parts.through} as w on r.t = w.{near}" if parts.through else ""
        bound = "" if parts.high is None else f"r.d < {parts.high} and "
        # Read once, not in every round: its rows are spilled if they don't fit.
        edges = f"edges as materialized (select {near}, {far} from {parts.edges})"
        # The branch of an id is the neighbour of its source that it was first reached through.
        branch, kept, back, begin = "", "", "", ""
        if is_searched_for_cycles:
            branch, kept = f", e.{far} as b", ", r.b"
            back, begin = f" and r.s <> e.{far}", f" and s.{source} <> e.{far}"
        first = (
            f"select distinct s.{source} as s, e.{far} as t, 1 as d{branch}"
            f" from {parts.sources} as s join edges as e on s.{source} = e.{near}{begin}"
        )
        reached = f"(select r.s, r.t, r.d{kept} from reach as r{through}) as r"
        longer = (
            f"select distinct r.s, e.{far}, r.d + 1{kept} from {reached}"
            f" join edges as e on r.t = e.{near}{back} where {bound}not exists"
            f" (select 1 from recurring.reach as k where k.s = r.s and k.t = e.{far})"
        )
        columns = f"s, t, d{', b' if branch else ''}"
        search = f"with recursive {edges}, reach({columns}) using key (s, t) as ({first} union ({longer}))"
        names = f"s as {source}, t as {parts.target}"
        if is_searched_for_cycles:
            return f"{search} {self._print_undirected(parts, names)}"
        if parts.low > 0:
            return f"{search} select {names} from reach where d >= {parts.low}"
        # A node is at distance 0 from itself, whatever cycles there are.
        own = f"select {source}, {source} as {parts.target} from {parts.sources} where {source} is not null"
        return f"{search} select {names} from reach where s <> t union all {own}"

    def _print_undirected(self, parts: ReachText, names: str) -> str:
        """Return the pairs of a search without direction, and the ids that a cycle leads back to.

        The shortest cycle through an id closes where two of its branches meet, or it is an edge to itself.
        """
        passing = "reach"
        if parts.through is not None:
            passing = f"(select r.* from reach as r semi join {parts.through} as w on r.t = w.{parts.near})"
        cycles = (
            f"select r.s, r.d + k.d + 1 as d from {passing} as r join edges as e on r.t = e.{parts.near}"
            f" join {passing} as k on k.s = r.s and k.t = e.{parts.far} where r.b <> k.b"
            f" union all select s.{parts.source}, 1 from {parts.sources} as s"
            f" join edges as e on s.{parts.source} = e.{parts.near} and s.{parts.source} = e.{parts.far}"
        )
        bound = "" if parts.high is None else f" and min(d) <= {parts.high}"
        return (
            f"select {names} from reach where d >= {parts.low} union all select s, s from ({cycles}) as c"
            f" group by s having min(d) >= {parts.low}{bound}"
        )

    def print_expression(self, expr: Expr) -> str:
        """Return the text of a predicate."""
        return print_condition(self.printer, expr)

    def print_type(self, type_: ValueType) -> str:
        """Return the name of a type."""
        return DUCKDB.print_type(type_)

    def print_key(self, expr: Expr) -> str:
        """Return a value to group or sort by: both zeros are equal, and an integer that overflows is an error."""
        _check_entities(expr)
        text = self.printer.print_value(expr, find_column)
        is_float = isinstance(expr.type, Scalar) and expr.type.is_float
        # -0.0 + 0.0 is 0.0, and every other float stays as it is.
        return f"({text} + cast(0 as double))" if is_float else text

    def print_fold(self, aggregate: Aggregate, multiplicity: str | None) -> str:
        """Return an aggregate that DuckDB computes exactly; a sum of integers is a text, however large it is.

        Raises:
            UnsupportedForm: Our own sinks compute it.
        """
        text = self._print_partial_fold(aggregate, multiplicity)
        # A total may have more digits than I64 and than Arrow's decimals: as a text it reaches `group_rows`, which
        # names the aggregate in the error.
        return f"cast({text} as varchar)" if aggregate.fold in _TOTALS else text

    def _print_partial_fold(self, aggregate: Aggregate, multiplicity: str | None) -> str:
        """Return an aggregate whose count or sum is an integer of up to 128 bits."""
        argument = aggregate.argument
        where = "" if aggregate.where is None else f" filter (where {self.print_expression(aggregate.where)})"
        if argument is None:
            counted = "count(*)" if multiplicity is None else f"sum({multiplicity})"
            return f"coalesce({counted}{where}, 0)"
        is_integer = isinstance(argument.type, Scalar) and argument.type.is_integer
        match aggregate.fold:
            case AggregateFunction.COUNT if aggregate.distinct:
                return f"count(distinct {self.print_key(argument)}){where}"
            case AggregateFunction.COUNT:
                value = self.print_key(argument)
                if multiplicity is None:
                    return f"count({value}){where}"
                return f"coalesce(sum(case when {value} is not null then {multiplicity} end){where}, 0)"
            case AggregateFunction.SUM if is_integer:
                times = "" if multiplicity is None else f" * {multiplicity}"
                return f"sum(cast({self.print_key(argument)} as hugeint){times}){where}"
            case AggregateFunction.MIN | AggregateFunction.MAX | AggregateFunction.ANY | AggregateFunction.ALL:
                return f"{_FUNCTIONS[aggregate.fold]}({self.print_key(argument)}){where}"
            case _:
                raise UnsupportedForm(f"`{aggregate.fold.value}` of {argument.type}")

    def print_partial(self, measure: PartialFold | CombinedFold | DigitSum | DigitList) -> str:
        """Return an aggregate of a part of a group, or of the group from those of its parts.

        Raises:
            UnsupportedForm: Our own sinks compute it.
        """
        match measure:
            # Groups are made twice: by keys and places, then by keys alone. A value may be in several parts of a group,
            # so distinct values can't be counted by part.
            case PartialFold(aggregate=aggregate):
                if aggregate.distinct:
                    raise UnsupportedForm("`distinct` beside a sum of floats")
                times = None if measure.multiplicity is None else quote(measure.multiplicity)
                return self._print_partial_fold(aggregate, times)
            case CombinedFold():
                column = quote(measure.column)
                if measure.aggregate.fold not in (*_TOTALS, *_FUNCTIONS):
                    raise UnsupportedForm(f"`{measure.aggregate.fold.value}` beside a sum of floats")
                if measure.aggregate.fold not in _TOTALS:
                    return f"{_FUNCTIONS[measure.aggregate.fold]}({column})"
                total = f"sum({column})" if measure.aggregate.fold is _F.SUM else f"coalesce(sum({column}), 0)"
                return f"cast({total} as varchar)"
            case DigitSum():
                times = "" if measure.multiplicity is None else f" * {quote(measure.multiplicity)}"
                return f"sum(cast({quote(measure.digit)} as hugeint){times})"
            case DigitList():
                place, total = quote(measure.place), quote(measure.total)
                # `//` and `%` both cut towards zero, so that the halves of a negative total add up to it as well.
                base = f"cast({2**HIGH_BITS} as hugeint)"
                high, low = f"cast({total} // {base} as bigint)", f"cast({total} % {base} as bigint)"
                pair = f"struct_pack({PLACE} := {place}, {HIGH} := {high}, {LOW} := {low})"
                return f"list({pair}) filter (where {total} is not null)"

    def print_float_part(self, term: FloatTerm) -> str:
        """Return a call of our function that splits floats."""
        # The same name for every float of the statement: the functions hold nothing of the expression.
        name = "omnigraph_place" if term.is_place else "omnigraph_digit"
        part = FloatPartFunction(name=name, is_place=term.is_place)
        self.functions[name] = EngineFunction(
            name=name, argument_types=("DOUBLE",), type="BIGINT", evaluate=part.evaluate
        )
        value = f"cast({self.printer.print_value(term.expr, find_column)} as double)"
        if term.where is not None:
            # Inside of the function: place and digit of a row that is left out are null, so it adds to no place.
            value = f"case when {self.print_expression(term.where)} then {value} end"
        return f"{name}({value})"

    def print_block(self, measure: BlockFold | ListOfValues) -> str:
        """Return the value of a block."""
        if isinstance(measure, BlockFold):
            return self._print_block_fold(measure)
        column = quote(measure.column)
        by = ", ".join(map(self.print_sort_term, measure.order))
        values = f"list({column}{f' order by {by}' if by else ''}) filter (where {column} is not null)"
        return f"coalesce({values}, [])"

    def _print_block_fold(self, measure: BlockFold) -> str:
        aggregate = measure.aggregate
        times = None if measure.multiplicity is None else quote(measure.multiplicity)
        if measure.column is None:
            return "count(*)" if times is None else f"cast(sum({times}) as bigint)"
        column = quote(measure.column)
        is_valid = f"filter (where {column} is not null)"
        count = f"count({column})" if times is None else f"coalesce(sum({times}) {is_valid}, 0)"
        if aggregate.fold is _F.COUNT:
            return f"cast({count} as bigint)"
        if aggregate.fold in _FUNCTIONS:
            return f"{_FUNCTIONS[aggregate.fold]}({column})"
        argument = aggregate.argument
        assert argument is not None  # noqa: S101 - it has a column
        assert isinstance(argument.type, Scalar)  # noqa: S101 - a sum is one of numbers
        text = format_expr(aggregate)
        if not argument.type.is_integer:
            # Unlike the groups of a result, those of a block are listed: the matches of one combination of outer values
            # have to fit into memory.
            lists = [f"list({column}) {is_valid}"]
            lists += [] if times is None else [f"list({times}) {is_valid}"]
            fold = ListFold(name=self._name_fold(), text=text, fold=aggregate.fold, of=Scalar.F64)
            types = ("DOUBLE[]", "BIGINT[]")[: len(lists)]
            return self._call(fold.name, types, "DOUBLE", fold.evaluate, ", ".join(lists))
        wide = f"cast({column} as hugeint)"
        total = f"sum({wide if times is None else f'{wide} * {times}'})"
        if aggregate.fold is _F.AVG:
            average = TotalFunction(name=self._name_fold(), text=text, is_average=True)
            # As a text, because the total of an average may exceed 64 bits without an error.
            arguments = f"cast({total} as varchar), cast({count} as bigint)"
            return self._call(average.name, ("VARCHAR", "BIGINT"), "DOUBLE", average.evaluate, arguments)
        # `try_cast` makes null of what does not fit. A sum of nothing is null before the cast, which tells both apart.
        if measure.is_overflow:
            return f"({total} is not null and try_cast({total} as bigint) is null)"
        return f"try_cast({total} as bigint)"

    def _name_fold(self) -> str:
        return f"omnigraph_fold_{len(self.functions)}"

    def _call(
        self,
        name: str,
        types: tuple[str, ...],
        type_: str,
        evaluate: Callable[[Sequence[pa.Array]], pa.Array],
        arguments: str,
    ) -> str:
        self.functions[name] = EngineFunction(name=name, argument_types=types, type=type_, evaluate=evaluate)
        return f"{name}({arguments})"

    def print_unnest(self, rows: UnnestRows, source: str) -> str:
        """Return a query that calls `unnest`, which makes a row for each element."""
        items = "".join(f", {quote(name)}" for name in rows.input.names)
        elements, value = quote("#list"), self.print_expression(rows.value)
        listed = f"select q.*, {value} as {elements} from {source}"
        # The length of a missing list is null, and a comparison with null keeps no row: as if it were empty.
        if rows.is_test:
            return f"select {items[2:] or f'1 as {quote(NO_COLUMN)}'} from ({listed}) as q where len({elements}) > 0"
        if rows.element is None and rows.position is None:
            # How many rows there are is all that is read.
            listed = f"select q.*, unnest({elements}) as {quote('#element')} from ({listed}) as q"
            return f"select {items[2:] or f'1 as {quote(NO_COLUMN)}'} from ({listed}) as q"
        # Two `unnest` of one `select` advance together, so that each element is beside its place.
        if rows.element is not None:
            items += f", unnest({elements}) as {quote(rows.element)}"
        if rows.position is not None:
            items += f", unnest(range(len({elements}))) as {quote(rows.position)}"
        return f"select {items[2:]} from ({listed}) as q"
