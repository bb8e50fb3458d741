# ruff: noqa: S608 - names are quoted, and values printed by the dialect
"""Window functions of a query in Spark SQL."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.fold_functions import TotalFunction
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.query.expr import Aggregate, AggregateFunction, Expr, Window, WindowFunction
from omnigraph.query.format_expr import format_expr
from omnigraph.schema.types import Scalar
from omnigraph.spark.query.aggregates import AggregatePrinter, fold_condition, is_float, print_wide_sum, print_zero

_F = AggregateFunction
_quote = SPARK.quote_name
_PLACES = {
    WindowFunction.ROW_NUMBER: "row_number",
    WindowFunction.RANK: "rank",
    WindowFunction.LAG: "lag",
    WindowFunction.LEAD: "lead",
}
_EXTREMES = {_F.MIN: "min", _F.ANY: "max", _F.MAX: "max", _F.ALL: "min"}
# The rows of a running aggregate: ties make the order total, so no two rows are peers.
_FRAME = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


@dataclass(slots=True)
class WindowPrinter:
    """Add the values of window functions to a statement, one after the other."""

    aggregates: AggregatePrinter
    text: str
    """The statement so far."""
    print_value: Callable[[Expr], str]
    """Returns the text of a value over the columns of the statement."""
    _numbers: "count[int]" = field(default_factory=count)

    def add(self, window: Window, name: str) -> None:
        """Add a column with the value of a window function.

        Raises:
            UnsupportedForm: Spark does not compute it exactly.
        """
        keys = [self._add(expr) for expr in window.per]
        if window.aggregate is not None and not window.order:
            self._fold(window.aggregate, format_expr(window.aggregate), keys, name)
            return
        words = [
            f"{self._add(term.value)} {'DESC NULLS LAST' if term.descending else 'ASC NULLS FIRST'}"
            for term in window.order
        ]
        if window.function is not WindowFunction.RANK:
            # Rows with equal keys share a rank; everything else tells them apart.
            words += [f"{self._add(tie)} ASC NULLS FIRST" for tie in window.ties]
        over = f"{_list('PARTITION BY', keys)} {_list('ORDER BY', words or ['1'])}"
        value = self._print_place(window, over) if window.aggregate is None else self._accumulate(window, over)
        self.text = f"SELECT *, {value} AS {_quote(name)} FROM ({self.text}) AS q"

    def _add(self, expr: Expr) -> str:
        """Add a column with a value, and return its name."""
        name = _quote(f"#x{next(self._numbers)}")
        self.text = f"SELECT *, {self.print_value(expr)} AS {name} FROM ({self.text}) AS q"
        return name

    def _print_place(self, window: Window, over: str) -> str:
        assert window.function is not None  # noqa: S101 - a window without an aggregate has a function
        word = _PLACES[window.function]
        if window.argument is None:
            return f"CAST({word}() OVER ({over}) AS BIGINT)"
        return f"{word}({self._add(window.argument)}) OVER ({over})"

    def _fold(self, aggregate: Aggregate, text: str, keys: list[str], name: str) -> None:
        """Add the aggregate of all rows of a partition: a group, so that no row has the values of all others."""
        fold = fold_condition(aggregate)
        column = None if fold.argument is None else self._add(fold.argument)
        orders = tuple(self._add(value) for value in (*(term.value for term in fold.order), *fold.ties))
        value = self.aggregates.print_aggregate(fold, text, column, orders, None)
        listed = "".join(f"{key}, " for key in keys)
        by = _list("GROUP BY", keys)
        groups = f"SELECT {listed}{value} AS {_quote(name)} FROM ({self.text}) AS q {by}"
        on = " AND ".join(f"q.{key} <=> r.{key}" for key in keys)
        joined = f"JOIN ({groups}) AS r ON {on}" if keys else f"CROSS JOIN ({groups}) AS r"
        self.text = f"SELECT q.*, r.{_quote(name)} FROM ({self.text}) AS q {joined}"

    def _accumulate(self, window: Window, over: str) -> str:
        """Return an aggregate of the rows up to each row."""
        assert window.aggregate is not None  # noqa: S101 - as the caller has checked
        fold = fold_condition(window.aggregate)
        running = f"OVER ({over} {_FRAME})"
        if fold.argument is None:
            return f"count(1) {running}"
        type_ = fold.argument.type
        if fold.distinct:
            raise UnsupportedForm("a running `distinct`")
        if fold.fold is _F.COUNT:
            return f"count({self._add(fold.argument)}) {running}"
        if fold.fold in _EXTREMES:
            zero = f" + {print_zero(type_)}" if is_float(type_) else ""
            return f"{_EXTREMES[fold.fold]}({self._add(fold.argument)}{zero}) {running}"
        if not (isinstance(type_, Scalar) and type_.is_integer):
            # Its sums would be rounded row by row, and depend on the order in which Spark adds.
            raise UnsupportedForm(f"a running `{fold.fold.value}` of floats")
        column = self._add(fold.argument)
        total = f"{print_wide_sum(column, None)} {running}"
        text = format_expr(window)
        if fold.fold is _F.SUM:
            return f"{self.aggregates.add_total(text)}({total})"
        average = TotalFunction(name=self.aggregates.name_function(), text=text, is_average=True)
        self.aggregates.functions.append(average)
        return f"{average.name}({total}, count({column}) {running})"


def _list(word: str, items: list[str]) -> str:
    return f"{word} {', '.join(items)}" if items else ""
