"""What differs between engines of SQL in the text of a relational tree."""

from dataclasses import dataclass
from typing import Protocol

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
)
from omnigraph.query.expr import Aggregate, Expr
from omnigraph.schema.types import ValueType


class UnsupportedForm(Exception):  # noqa: N818 - it is caught inside the engine, and no error of a caller
    """A form of the language that an engine can't compute exactly; `form` names it for the user."""

    def __init__(self, form: str) -> None:
        super().__init__(form)
        self.form = form


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachText:
    """The relations of a multi-hop search, each a name or a query in parentheses, and its quoted columns."""

    sources: str
    source: str
    edges: str
    near: str
    far: str
    target: str
    low: int
    high: int | None
    through: str | None
    is_undirected: bool


class SqlDialect(Protocol):
    """The words of one engine."""

    name: str

    def quote(self, name: str) -> str:
        """Return a name as an identifier."""
        ...

    def print_scan(self, scan: ScanRows) -> str:
        """Return a query with the columns and rows of a scan, or the name of a table that is it."""
        ...

    def print_computed(self, rows: ComputedRows) -> str:
        """Return the name of a table with rows that were computed before."""
        ...

    def print_count_sum(self, column: str) -> str:
        """Return the sum of a quoted column of counts, as a 64-bit integer; an error at run time if it is larger."""
        ...

    def print_sort_term(self, term: SortTerm) -> str:
        """Return a sort term, with null as the smallest value."""
        ...

    def print_reach(self, parts: ReachText) -> str:
        """Return a query for the pairs of a multi-hop search.

        Raises:
            UnsupportedForm: The engine searches in another way.
        """
        ...

    def print_expression(self, expr: Expr) -> str:
        """Return the text of an expression over the columns of `tree`.

        Raises:
            UnsupportedForm: It has no exact counterpart.
        """
        ...

    def print_type(self, type_: ValueType) -> str:
        """Return the name of a type."""
        ...

    def print_key(self, expr: Expr) -> str:
        """Return the text of an expression to group or sort by.

        Raises:
            UnsupportedForm: It has no exact counterpart.
        """
        ...

    def print_fold(self, aggregate: Aggregate, multiplicity: str | None) -> str:
        """Return the text of an aggregate; rows count as often as the quoted column `multiplicity` says.

        Raises:
            UnsupportedForm: It has no exact counterpart.
        """
        ...

    def print_partial(self, measure: PartialFold | CombinedFold | DigitSum | DigitList) -> str:
        """Return the text of an aggregate that is made in two steps: over parts of a group, then over these.

        Raises:
            UnsupportedForm: It has no exact counterpart.
        """
        ...

    def print_float_part(self, term: FloatTerm) -> str:
        """Return the text of the digit or the place of a float.

        Raises:
            UnsupportedForm: The engine adds floats in another way.
        """
        ...

    def print_block(self, measure: BlockFold | ListOfValues) -> str:
        """Return the text of the value of a block.

        Raises:
            UnsupportedForm: It has no exact counterpart.
        """
        ...

    def print_unnest(self, rows: UnnestRows, source: str) -> str:
        """Return a query for a row per element of a list; `source` follows `from`.

        Raises:
            UnsupportedForm: It has no exact counterpart.
        """
        ...
