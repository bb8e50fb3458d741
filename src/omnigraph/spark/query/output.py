# ruff: noqa: S608 - names are quoted, and values printed by the dialect
"""The output of a query in Spark SQL: groups, conditions, distinct rows, order, pages and columns.

Each part is a query over the one before it. Columns of the pattern keep their names; those that are added begin with
`#`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.engine.output.result_pipeline import resolve_row_range
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.lower_state import ValueColumn
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.engine.relational.tree import (
    MULTIPLICITY,
    list_id_columns,
    name_id,
    name_overflow,
    name_property,
    name_value,
)
from omnigraph.query.expr import (
    Aggregate,
    ArrayOf,
    Const,
    EdgeRef,
    Entity,
    Expr,
    ExprType,
    ListRank,
    Missing,
    Nearest,
    NodeRef,
    Prop,
    Rank,
    RecordExpr,
    RecordOf,
    ShapedType,
    United,
    ValueRef,
    WalkOf,
    Window,
)
from omnigraph.query.expr_tree import find_variable, find_windows
from omnigraph.query.logical_plan import ReadQuery, StageVariable
from omnigraph.query.union_types import TYPE_COLUMN, is_union
from omnigraph.schema.arrow import ID
from omnigraph.schema.types import EnumOf, Scalar
from omnigraph.spark.query.aggregates import fold_condition, is_float, print_zero, quote_aggregate
from omnigraph.spark.query.dialect import find_variable_column
from omnigraph.spark.query.searches import VALUE_COLUMN, SearchColumns
from omnigraph.spark.query.statement import StatementBuilder
from omnigraph.spark.query.windows import WindowPrinter

# Spark counts the rows of a limit and an offset in 32 bits.
_MAX_ROWS = 2**31 - 1
_quote = SPARK.quote_name


@dataclass(slots=True)
class OutputPrinter:
    """Print the output of one query over the statement of its pattern."""

    query: ReadQuery
    builder: StatementBuilder
    text: str
    """The statement so far."""
    names: tuple[str, ...]
    """Its columns that come from the pattern."""
    values: Mapping[str, ValueColumn] = field(default_factory=dict)
    """By variable, the values that the pattern has computed."""
    is_merged: bool = False
    """Whether a row may stand for several equal ones."""
    _is_grouped: bool = False
    _columns: dict[Expr, str] = field(default_factory=dict)
    """The columns of values that were computed before."""
    _sums: dict[str, str] = field(default_factory=dict)
    """By variable, its sum as a value of the result."""

    def print_output(self) -> str:
        """Return the statement whose rows are those of the query, in its order.

        Raises:
            UnsupportedForm: A part of it has no exact counterpart.
        """
        self._print_rows()
        items = [f"{self._print_column(column.value)} AS {_quote(column.name)}" for column in self.query.output]
        return f"SELECT {', '.join(items)} FROM ({self.text}) AS q"

    def print_stage(self, inputs: Sequence[StageVariable]) -> str:
        """Return the statement whose rows are those of the query, as the read that starts from them has its variables.

        Raises:
            UnsupportedForm: A part of it has no exact counterpart.
        """
        self._print_rows()
        items = [
            f"{self._print_stored(column.value, each.type)} AS {_quote(name_input(each))}"
            for column, each in zip(self.query.output, inputs, strict=True)
        ]
        return f"SELECT {', '.join(items)} FROM ({self.text}) AS q"

    def print_aggregates(self) -> tuple[str, dict[Expr, str]]:
        """Return the statement with the only row of a query that folds all of its matches, and its columns."""
        assert self.query.grouping is not None  # noqa: S101 - the planner makes such parts
        self._group()
        return self.text, {each: self._columns[each] for each in self.query.grouping.aggregates}

    def set_aggregates(self, columns: Mapping[Expr, str]) -> None:
        """Take the aggregates of the query from columns that the statement has: they are computed."""
        self._columns.update(columns)
        self._is_grouped = True

    def _print_rows(self) -> None:
        query = self.query
        windows = tuple(dict.fromkeys(window for expr in query.results for window in find_windows(expr)))
        if windows:
            self._repeat_rows()
            self._add_windows(windows)
        if query.grouping is None:
            self._filter_having()
        if query.grouping is not None:
            if not self._is_grouped:
                self._group()
            self._filter_having()
        elif query.distinct:
            self._drop_repeated()
        elif not windows:
            self._repeat_rows()
        if query.is_ordered:
            self._order()

    def _add_windows(self, windows: Sequence[Window]) -> None:
        printer = WindowPrinter(self.builder.aggregates, self.text, self._print_compared)
        for number, window in enumerate(windows):
            name = f"#w{number}"
            printer.add(window, name)
            self._columns[window] = _quote(name)
            self.names = (*self.names, name)
        self.text = printer.text

    # --- rows --------------------------------------------------------------------------------------

    def _filter_having(self) -> None:
        if self.query.having is not None:
            # A sum that does not fit is unknown in a condition: an error only where it is shown.
            condition = self.builder.dialect.printer.print_condition(self.query.having, self._find_stored)
            self.text = f"SELECT * FROM ({self.text}) AS q WHERE {condition}"

    def _repeat_rows(self) -> None:
        if MULTIPLICITY not in self.names:
            return
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
            text = self.builder.aggregates.print_aggregate(
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
        first, last = resolve_row_range(query, self.builder.dialect.inputs)
        terms = {term.value: term.descending for term in reversed(query.order)}
        values = list(dict.fromkeys((*(term.value for term in query.order), *query.ties)))
        keys = self._add_columns("#s", values)
        words = [
            f"{key} {'DESC NULLS LAST' if terms.get(value, False) else 'ASC NULLS FIRST'}"
            for key, value in zip(keys, values, strict=True)
        ]
        if query.rank is not None:
            words.insert(0, self._print_rank(query.rank, last))
        by = f" ORDER BY {', '.join(words)}" if words else ""
        if query.per:
            groups = ", ".join(self._add_columns("#p", query.per))
            numbered = f"SELECT *, row_number() OVER (PARTITION BY {groups}{by}) AS `#number` FROM ({self.text}) AS q"
            end = "" if last is None else f" AND `#number` <= {last}"
            self.text = f"SELECT * FROM ({numbered}) AS q WHERE `#number` > {first}{end}{by}"
            return
        count = None if last is None or last - first > _MAX_ROWS else last - first
        limit = "" if count is None else f" LIMIT {count}"
        # Both together are counted in 32 bits, too.
        offset = f" OFFSET {min(first, _MAX_ROWS - (count or 0))}" if first else ""
        self.text = f"SELECT * FROM ({self.text}) AS q{by}{limit}{offset}"

    def _print_rank(self, rank: Rank, last: int | None) -> str:
        """Leave out the rows that a search does not rank, and return the first sort key."""
        searches = self.builder.dialect.searches
        if not isinstance(rank, ListRank):
            column = self._add_columns("#r", [searches.replace_expr(rank)])[0]
            self.text = f"SELECT * FROM ({self.text}) AS q WHERE {column} IS NOT NULL"
            return f"{column} {'ASC' if isinstance(rank, Nearest) else 'DESC'}"
        if self.query.per:
            raise UnsupportedForm("`rrf`, `mmr` or `rerank` that orders the rows of each group")
        variable = find_variable(rank)
        type_ = self.query.types[variable]
        assert isinstance(type_, NodeRef | EdgeRef)  # noqa: S101 - only rows have texts and vectors
        key, type_name = _quote(name_id(variable)), type_.name
        if is_union(type_name):
            raise UnsupportedForm("a search over several types")
        # How high a row ranks depends on all that match, so Spark finds their ids first.
        ids = f"SELECT DISTINCT {key} AS id FROM ({self.text}) AS q WHERE {key} IS NOT NULL"
        ranked = self.builder.add_ranked(
            ids, lambda found: searches.rank_ids(rank, type_name, found, last), (ID, VALUE_COLUMN)
        )
        view = self.builder.dialect.print_computed(ranked)
        score = f"r.{VALUE_COLUMN} AS `#rank`"
        self.text = f"SELECT q.*, {score} FROM ({self.text}) AS q JOIN {view} AS r ON q.{key} = r.{ID}"
        return "`#rank` DESC"

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
        return self.builder.dialect.printer.print_value(value, self._find_column)

    def _print_column(self, value: Expr) -> str:
        """Return the text of an output column: objects for whole nodes, edges and records."""
        match value:
            case Entity():
                ids = [(name, name_property(value.variable, column)) for name, column in list_id_columns(value)]
                fields = [(p.name, name_property(p.variable, p.name)) for p in value.fields]
                texts = [f"{SPARK.quote_text(name)}, {_quote(column)}" for name, column in (*ids, *fields)]
                if not is_union(value.type.name):
                    texts.insert(len(ids), f"{SPARK.quote_text(TYPE_COLUMN)}, {SPARK.quote_text(value.type.name)}")
                parts = ", ".join(texts)
                return f"CASE WHEN {_quote(name_id(value.variable))} IS NOT NULL THEN named_struct({parts}) END"
            case RecordExpr(items=()):
                raise UnsupportedForm("an empty map")
            case RecordExpr():
                items = ", ".join(f"{SPARK.quote_text(name)}, {self._print_column(part)}" for name, part in value.items)
                return f"named_struct({items})"
            case _ if isinstance(value.type, ShapedType):
                column = self._find_column(value)
                if column is None or not is_flat(value.type):
                    raise UnsupportedForm(f"a column of the type {value.type}")
                return column
            case _:
                return self.builder.dialect.printer.print_value(value, self._find_column)

    def _print_stored(self, value: Expr, type_: ExprType) -> str:
        """Return a column of a stage as the read that starts from it has its variable."""
        if isinstance(type_, NodeRef | EdgeRef):
            if isinstance(value, Const | Missing):
                return "CAST(NULL AS STRING)"
            value = value.operand if isinstance(value, United) else value
            if not isinstance(value, Entity):
                raise UnsupportedForm(f"a stage with a column of the type {type_}")
            key = _quote(name_id(value.variable))
            is_wider = is_union(type_.name) and not is_union(value.type.name)
            # As `TypedIdTerm` prints them.
            return f"'{value.type.name}!' || {key}" if is_wider else key
        text = self._print_column(value)
        if not isinstance(type_, Scalar | EnumOf):
            if value.type != type_:
                raise UnsupportedForm(f"a union of columns of the types {value.type} and {type_}")
            return text
        if value.type != type_:
            text = f"CAST({text} AS {SPARK.print_type(type_)})"
        # Zeros are compared as equal, so it must not depend on the rows which of them is handed on.
        return f"({text} + {print_zero(type_)})" if is_float(type_) else text

    def _find_column(self, expr: Expr) -> str | None:
        """Return the column of a value of the result, in which a sum that does not fit is an error."""
        if expr not in self._columns and isinstance(expr, ValueRef):
            total = self._find_sum(expr.variable)
            if total is not None:
                return total
        return self._find_stored(expr)

    def _find_stored(self, expr: Expr) -> str | None:
        column = self._columns.get(expr) or find_variable_column(expr)
        if column is None or isinstance(expr, Aggregate) or not self.is_merged:
            return column
        # 0.0 and -0.0 are merged as equal: without this, it would depend on the rows which of them is shown.
        type_ = expr.type if isinstance(expr, Prop) else Scalar.STRING
        return f"({column} + {print_zero(type_)})" if is_float(type_) else column

    def _find_sum(self, variable: str) -> str | None:
        """Return the value of a variable whose sum may not fit into an integer, which is an error where it is shown."""
        known = self.values.get(variable)
        if known is None or known.overflow is None:
            return None
        value, overflow = _quote(name_value(variable)), _quote(name_overflow(variable))
        if variable not in self._sums:
            self._sums[variable] = self.builder.aggregates.print_checked(known.overflow, value, overflow)
        return self._sums[variable]


def name_input(each: StageVariable) -> str:
    """Return the column of a variable that a read takes from its source."""
    return name_value(each.variable) if each.entity is None else name_id(each.variable)


def is_flat(type_: ExprType) -> bool:
    """Return whether values of a type hold no nodes, edges and walks, which would be objects in the result."""
    if isinstance(type_, RecordOf):
        return all(is_flat(field_type) for _, field_type in type_.fields)
    if isinstance(type_, ArrayOf):
        return is_flat(type_.element)
    return not isinstance(type_, NodeRef | EdgeRef | WalkOf)


def list_reads(query: ReadQuery, searches: SearchColumns) -> tuple[Expr, ...]:
    """Return the expressions whose columns the output of a query reads."""
    grouped = () if query.grouping is None else (*query.grouping.keys, *query.grouping.aggregates)
    rank = () if query.rank is None or isinstance(query.rank, ListRank) else (searches.replace_expr(query.rank),)
    return (*query.results, *grouped, *rank)


def counts_rows(query: ReadQuery) -> bool:
    """Return whether the number of equal matches matters; else only that there is one."""
    if query.grouping is not None:
        return any(aggregate.counts_rows for aggregate in query.grouping.aggregates)
    # A window counts rows that are dropped after it.
    return not query.distinct or any(find_windows(expr) for expr in query.results)
