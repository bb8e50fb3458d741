# ruff: noqa: S608 - names are quoted, and values printed by the dialect
"""Print reads that start from the rows of others: stages, unions, and aggregates that are computed apart.

The rows of a source are a view, whose columns are ids of whole nodes and edges and the values of everything else.
"""

from dataclasses import dataclass

from omnigraph.engine.physical_plan import VALUE_TYPE, Nothing, PhysicalPlan, get_type_name
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.lower import lower_steps
from omnigraph.engine.relational.lower_state import ValueColumn
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.engine.relational.tree import Relation, SingleRow, list_id_columns, name_property
from omnigraph.engine.view import View
from omnigraph.query.expr import Entity, Expr
from omnigraph.query.expr_tree import walk
from omnigraph.query.logical_plan import ReadQuery, UnionSource, list_sources
from omnigraph.schema.types import EnumOf, ListOf, Scalar, VectorOf
from omnigraph.spark.query.dialect import find_variable_column
from omnigraph.spark.query.output import OutputPrinter, counts_rows, list_reads, name_input
from omnigraph.spark.query.spark_host import SparkHost
from omnigraph.spark.query.statement import StatementBuilder

_quote = SPARK.quote_name


@dataclass(frozen=True, slots=True)
class StagePrinter:
    """Print the reads of one query, each after those that it starts from."""

    builder: StatementBuilder
    view: View

    def print_read(self, query: ReadQuery, plan: PhysicalPlan) -> str:
        """Return the statement whose rows are those of a read.

        Raises:
            UnsupportedForm: A part of it has no exact counterpart; it is named.
        """
        return self._start_output(query, plan).print_output()

    def _start_output(self, query: ReadQuery, plan: PhysicalPlan) -> OutputPrinter:
        """Return the printer of a read's output, over the matches of its pattern."""
        if plan.parts:
            return self._join_parts(query, plan)
        start = self._print_source(query, plan)
        searches = self.builder.dialect.searches
        query, plan = searches.replace_query(query), searches.replace_plan(plan)
        reads = list_reads(query, searches)
        if plan.steps and isinstance(plan.steps[0], Nothing):
            return self._print_nothing(query, reads)
        bound = {each.variable: get_type_name(each.type) for each in query.inputs}
        # The rows of a stage have no -0.0, but inside of lists and records.
        values = {
            each.variable: ValueColumn(each.type, has_one_zero=isinstance(each.type, Scalar))
            for each in query.inputs
            if bound[each.variable] == VALUE_TYPE
        }
        host = SparkHost(self.view, self.builder.inputs)
        is_set = not counts_rows(query)
        lowered = lower_steps(plan.steps, host, start, bound, is_set=is_set, reads=reads, values=values)
        if lowered.rest:
            raise UnsupportedForm(lowered.reason)
        text = self.builder.print_relation(lowered.relation)
        return OutputPrinter(query, self.builder, text, lowered.relation.names, values=lowered.values)

    # --- sources -----------------------------------------------------------------------------------

    def _print_source(self, query: ReadQuery, plan: PhysicalPlan) -> Relation:
        """Return the rows that a read starts from: those of a stage or a union, or one row without columns."""
        texts = [
            self._start_output(source, source_plan).print_stage(query.inputs)
            for source, source_plan in zip(list_sources(query), plan.sources, strict=True)
        ]
        if not texts:
            return SingleRow()
        names = tuple(name_input(each) for each in query.inputs)
        text = texts[0]
        if isinstance(query.source, UnionSource):
            text = _unite(texts, query.source)
        wanted = [each for each in query.inputs if each.entity is not None and each.is_matched and each.nullable]
        if wanted:
            present = " AND ".join(f"{_quote(name_input(each))} IS NOT NULL" for each in wanted)
            text = f"SELECT * FROM ({text}) AS q WHERE {present}"
        return self.builder.add_text(text, names)

    # --- aggregates that are computed apart --------------------------------------------------------

    def _join_parts(self, query: ReadQuery, plan: PhysicalPlan) -> OutputPrinter:
        """Return the only row of a read whose aggregates are computed from several reads of one row each."""
        rows: list[str] = []
        columns: dict[Expr, str] = {}
        for number, (part, own) in enumerate(plan.parts):
            text, aggregates = self._start_output(part, own).print_aggregates()
            names = {expr: _quote(f"#part {number} {column.strip('`')}") for expr, column in aggregates.items()}
            items = ", ".join(f"{aggregates[expr]} AS {name}" for expr, name in names.items())
            rows.append(f"(SELECT {items} FROM ({text}) AS q) AS p{number}")
            columns.update(names)
        output = OutputPrinter(query, self.builder, f"SELECT * FROM {' CROSS JOIN '.join(rows)}", ())
        output.set_aggregates(columns)
        return output

    # --- patterns without matches ------------------------------------------------------------------

    def _print_nothing(self, query: ReadQuery, reads: tuple[Expr, ...]) -> OutputPrinter:
        """Return the output over no rows, which have every column that is read."""
        columns: dict[str, str] = {}
        for part in (part for expr in reads for part in walk(expr)):
            column = find_variable_column(part)
            if column is None:
                continue
            if isinstance(part, Entity):
                columns[column] = SPARK.print_type(Scalar.STRING)
                stored = [name_property(part.variable, each) for _, each in list_id_columns(part)]
                columns.update({_quote(each): "STRING" for each in stored})
            elif not isinstance(part.type, Scalar | EnumOf | ListOf | VectorOf):
                raise UnsupportedForm("a pattern without matches that has lists of records")
            else:
                columns[column] = SPARK.print_type(part.type)
        items = ", ".join(f"CAST(NULL AS {type_}) AS {column}" for column, type_ in columns.items()) or "1 AS `#one`"
        names = tuple(column.strip("`").replace("``", "`") for column in columns)
        return OutputPrinter(query, self.builder, f"SELECT {items} WHERE FALSE", names)


def _unite(texts: list[str], source: UnionSource) -> str:
    """Return the rows of several reads; a `union` leaves one of the equal rows of all reads up to it."""
    gaps = [index for index, keeps_equal in enumerate(source.keeps_equal) if not keeps_equal]
    if not gaps:
        return " UNION ALL ".join(texts)
    end = gaps[-1] + 2
    # A later `union` makes a set of all rows before it, so only the last one matters.
    merged = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(texts[:end])}) AS q"
    return " UNION ALL ".join((merged, *texts[end:]))
