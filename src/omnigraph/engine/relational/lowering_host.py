"""What the lowering of a plan asks of the engine that will run it."""

from typing import Protocol

from omnigraph.engine.physical_plan import Node
from omnigraph.engine.relational.tree import ComputedRows
from omnigraph.query.expr import Expr
from omnigraph.query.logical_plan import Count
from omnigraph.schema.catalog import AnyType


class LoweringHost(Protocol):
    """What the engine that will run the relations can do, and knows of the tables."""

    with_rows: bool
    """Whether bound variables need the positions of their rows in the end."""

    def count_rows(self, type_name: str) -> int:
        """Return the number of rows of a type."""
        ...

    def find_type(self, name: str) -> AnyType:
        """Return the catalog's entry of a type."""
        ...

    def get_base(self, union: str, member: str) -> int:
        """Return where the positions of a member begin among those of a union."""
        ...

    def check_expr(self, expr: Expr) -> None:
        """Check that an expression over several variables can be evaluated exactly.

        Raises:
            UnsupportedForm: It can't.
        """
        ...

    def check_filter(self, expr: Expr) -> None:
        """Check that a predicate over the rows of one table can be evaluated exactly in its scan.

        Raises:
            UnsupportedForm: It can't.
        """
        ...

    def resolve_limit(self, limit: Count) -> int:
        """Return the number that the limit of a block is.

        Raises:
            UnsupportedForm: It is negative, which is an error only where there is a match.
            ParameterError: The same, of an engine that can't wait for a match.
        """
        ...

    def compute_rows(self, node: Node, columns: tuple[tuple[str, str], ...]) -> ComputedRows | None:
        """Return the rows that a node's filters leave if our own engine should find them first, else None."""
        ...
