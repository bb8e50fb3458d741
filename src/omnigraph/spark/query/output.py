# ruff: noqa: S608 - names are quoted, and values printed by the dialect
"""The output of a query in Spark SQL: groups, conditions, distinct rows, order, pages and columns.

Each part is a query over the one before it. Columns of the pattern keep their names; those that are added begin with
`#`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from omnigraph.engine.output.result_pipeline import resolve_row_range
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.expressions import FindColumn
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.engine.relational.tree import MULTIPLICITY, name_id, name_property
from omnigraph.query.expr import Aggregate, Entity, Expr, Prop, RecordExpr, ShapedType, Window
from omnigraph.query.expr_tree import walk
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.schema.types import Scalar
from omnigraph.spark.query.aggregates import AggregatePrinter, fold_condition, quote_aggregate
from omnigraph.spark.query.dialect import SparkDialect, find_variable_column

# Spark counts the rows of a limit and an offset in 32 bits.
_MAX_ROWS = 2**31 - 1
_quote = SPARK.quote_name


@dataclass(slots=True)
class OutputPrinter:
    """Print the output of one query over the statement of its pattern."""

    query: ReadQuery
    dialect: SparkDialect
    aggregates: AggregatePrinter
    text: str
    """The statement so far."""
    names: tuple[str, ...]
    """Its columns that come from the pattern."""
    is_merged: bool = False
    """Whether a row may stand for several equal ones."""
    _columns: dict[Expr, str] = field(default_factory=dict)
    """The columns of values that were computed before."""

    def print_output(self) -> str:
        """Return the statement whose rows are those of the query, in its order.

        Raises:
            UnsupportedForm: A part of it has no exact counterpart.
        """
        query = self.query
        self._check()
        if query.grouping is None:
            self._filter_having()
        if query.grouping is not None:
            self._group()
            self._filter_having()
        elif query.distinct:
            self._drop_repeated()
        elif MULTIPLICITY in self.names:
            self._repeat_rows()
        if query.is_ordered:
            self._order()
        items = [f"{self._print_column(column.value)} AS {_quote(column.name)}" for column in query.output]
        return f"SELECT {', '.join(items)} FROM ({self.text}) AS q"

    def _check(self) -> None:
        if self.query.rank is not None:
            raise UnsupportedForm("a search that orders the result")
        for part in (part for expr in self.query.results for part in walk(expr)):
            if isinstance(part, Window):
                raise UnsupportedForm("a window function")

    # --- rows --------------------------------------------------------------------------------------

    def _filter_having(self) -> None:
        if self.query.having is not None:
            condition = self.dialect.printer.print_condition(self.query.having, self._find_column)
            self.text = f"SELECT * FROM ({self.text}) AS q WHERE {condition}"

    def _repeat_rows(self) -> None:
        count = _quote(MULTIPLICITY)
        self.text = (
            f"SELECT * FROM ({self.text}) AS q LATERAL VIEW explode(sequence(CAST(1 AS BIGINT), {count})) AS `#copy`"
        )

    def _drop_repeated(self) -> None:
        keys = self._add_columns("#c", self.query.compared)
        kept = [name for name in self.names if name != MULTIPLICITY]
        items = [*keys, *(f"any_value({_quote(name)}) AS {_quote(name)}" for name in kept)]
        by = ", ".join(keys) or "()"
        self.text = f"SELECT {', '.join(items)} FROM ({self.text}) AS q GROUP BY {by}"
        self._remember(self.query.compared, keys)
        self.is_merged = True

    def _group(self) -> None:
        grouping = self.query.grouping
        assert grouping is not None  # noqa: S101 - asked for
        folds = [fold_condition(aggregate) for aggregate in grouping.aggregates]
        keys = self._add_columns("#g", grouping.keys)
        multiplicity = _quote(MULTIPLICITY) if MULTIPLICITY in self.names else None
        items = list(keys)
        columns = [_quote(f"#a{number}") for number in range(len(folds))]
        for number, (aggregate, fold) in enumerate(zip(grouping.aggregates, folds, strict=True)):
            argument = () if fold.argument is None else (fold.argument,)
            values = self._add_columns(f"#v{number}.", (*argument, *(t.value for t in fold.order), *fold.ties))
            column = values[0] if argument else None
            text = self.aggregates.print_aggregate(
                fold, quote_aggregate(aggregate), column, tuple(values[1:]), multiplicity
            )
            items.append(f"{text} AS {columns[number]}")
        # What belongs to a key that is a whole node or edge is the same in all of its rows.
        items += [f"any_value({_quote(name)}) AS {_quote(name)}" for name in self.names if name != MULTIPLICITY]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        self.text = f"SELECT {', '.join(items)} FROM ({self.text}) AS q{by}"
        self._remember(grouping.keys, keys)
        self._remember(grouping.aggregates, columns)
        self.is_merged = True

    def _order(self) -> None:
        query = self.query
        first, last = resolve_row_range(query, self.dialect.inputs)
        terms = {term.value: term.descending for term in reversed(query.order)}
        values = list(dict.fromkeys((*(term.value for term in query.order), *query.ties)))
        keys = self._add_columns("#s", values)
        words = [
            f"{key} {'DESC NULLS LAST' if terms.get(value, False) else 'ASC NULLS FIRST'}"
            for key, value in zip(keys, values, strict=True)
        ]
        by = f" ORDER BY {', '.join(words)}" if words else ""
        if query.per:
            groups = ", ".join(self._add_columns("#p", query.per))
            numbered = f"SELECT *, row_number() OVER (PARTITION BY {groups}{by}) AS `#number` FROM ({self.text}) AS q"
            end = "" if last is None else f" AND `#number` <= {last}"
            self.text = f"SELECT * FROM ({numbered}) AS q WHERE `#number` > {first}{end}{by}"
            return
        limit = "" if last is None or last - first > _MAX_ROWS else f" LIMIT {last - first}"
        offset = f" OFFSET {min(first, _MAX_ROWS)}" if first else ""
        self.text = f"SELECT * FROM ({self.text}) AS q{by}{limit}{offset}"

    # --- columns -----------------------------------------------------------------------------------

    def _add_columns(self, prefix: str, values: Sequence[Expr]) -> list[str]:
        """Add a column for each value, unless there is one, and return their names."""
        texts = [self._print_compared(value) for value in values]
        names = [_quote(f"{prefix}{number}") for number in range(len(values))]
        if texts:
            added = ", ".join(f"{text} AS {name}" for text, name in zip(texts, names, strict=True))
            self.text = f"SELECT *, {added} FROM ({self.text}) AS q"
        return names

    def _remember(self, values: Sequence[Expr], columns: Sequence[str]) -> None:
        self._columns.update(
            {value: column for value, column in zip(values, columns, strict=True) if not isinstance(value, Entity)}
        )

    def _print_compared(self, value: Expr) -> str:
        """Return what a value is compared, counted and sorted by: a whole node or edge by its id."""
        if isinstance(value, Entity):
            return _quote(name_id(value.variable))
        if isinstance(value.type, ShapedType):
            raise UnsupportedForm(f"a value of the type {value.type}")
        return self.dialect.printer.print_value(value, self._find_column)

    def _print_column(self, value: Expr) -> str:
        """Return the text of an output column: objects for whole nodes, edges and records."""
        match value:
            case Entity():
                ids = [(meta.value, name_property(value.variable, meta.value)) for meta in value.ids]
                fields = [(p.name, name_property(p.variable, p.name)) for p in value.fields]
                parts = ", ".join(f"{SPARK.quote_text(name)}, {_quote(column)}" for name, column in (*ids, *fields))
                return f"CASE WHEN {_quote(name_id(value.variable))} IS NOT NULL THEN named_struct({parts}) END"
            case RecordExpr():
                items = ", ".join(f"{SPARK.quote_text(name)}, {self._print_column(part)}" for name, part in value.items)
                return f"named_struct({items})"
            case _ if isinstance(value.type, ShapedType):
                raise UnsupportedForm(f"a column of the type {value.type}")
            case _:
                return self.dialect.printer.print_value(value, self._find_column)

    @property
    def _find_column(self) -> FindColumn:
        def find(expr: Expr) -> str | None:
            column = self._columns.get(expr) or find_variable_column(expr)
            if column is None or isinstance(expr, Aggregate) or not self.is_merged:
                return column
            # 0.0 and -0.0 are merged as equal: without this, it would depend on the rows which of them is shown.
            type_ = expr.type if isinstance(expr, Prop) else Scalar.STRING
            is_float = isinstance(type_, Scalar) and type_.is_float
            return f"({column} + CAST('0.0' AS {SPARK.print_type(type_)}))" if is_float else column

        return find


def list_reads(query: ReadQuery) -> tuple[Expr, ...]:
    """Return the expressions whose columns the output of a query reads."""
    grouped = () if query.grouping is None else (*query.grouping.keys, *query.grouping.aggregates)
    return (*query.results, *grouped)


def counts_rows(query: ReadQuery) -> bool:
    """Return whether the number of equal matches matters; else only that there is one."""
    if query.grouping is not None:
        return any(aggregate.counts_rows for aggregate in query.grouping.aggregates)
    return not query.distinct
