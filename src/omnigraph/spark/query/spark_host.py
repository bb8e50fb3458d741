"""What the lowering of a query asks of Spark."""

from dataclasses import dataclass

from omnigraph.engine.output.result_pipeline import resolve_count
from omnigraph.engine.physical_plan import Node
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.expressions import ExpressionPrinter
from omnigraph.engine.relational.sql_syntax import SPARK
from omnigraph.engine.relational.tree import ComputedRows
from omnigraph.engine.view import View
from omnigraph.query.expr import Expr
from omnigraph.query.logical_plan import Count
from omnigraph.query.union_types import list_members
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.query.dialect import find_variable_column


@dataclass(slots=True)
class SparkHost:
    """What Spark can do, and knows of the tables."""

    view: View
    inputs: QueryInputs
    with_rows: bool = False

    def count_rows(self, type_name: str) -> int:
        """Return the number of rows of a type."""
        types = [self.view.get_type(member) for member in list_members(type_name)]
        tables = [self.view.get_table(type_).list_fragments() for type_ in types]
        return sum(fragment.rows - fragment.deleted for fragments in tables for fragment in fragments)

    def find_type(self, name: str) -> AnyType:
        """Return the catalog's entry of a type."""
        return self.view.get_type(name)

    def get_base(self, union: str, member: str) -> int:
        """Report that rows have no positions here."""
        raise AssertionError(f"the rows of {member} in {union} have no positions")

    def check_expr(self, expr: Expr) -> None:
        """Check that an expression over several variables can be evaluated exactly.

        Raises:
            UnsupportedForm: It can't.
        """
        ExpressionPrinter(SPARK, self.inputs).print_condition(expr, find_variable_column)

    def check_filter(self, expr: Expr) -> None:
        """Check that a predicate over the rows of one table can be evaluated exactly in its scan.

        Raises:
            UnsupportedForm: It can't.
        """
        self.check_expr(expr)

    def resolve_limit(self, limit: Count) -> int:
        """Return the number that the limit of a block is.

        Raises:
            ParameterError: It is negative.
        """
        number = resolve_count(limit, "limit", self.inputs)
        assert number is not None  # noqa: S101 - there is a limit
        return number

    def compute_rows(self, node: Node, columns: tuple[tuple[str, str], ...]) -> ComputedRows | None:  # noqa: ARG002 - scans do
        """Return None: scans find all rows."""
        return None
