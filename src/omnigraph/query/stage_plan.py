"""The sources of a read: an earlier stage, whose columns go on as variables, or a union of reads."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.query.expr_types import EdgeRef, ExprType, NodeRef
from omnigraph.query.plan_checks import require

if TYPE_CHECKING:
    from omnigraph.query.logical_plan import ReadQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class StageVariable:
    """A variable that a read takes from the column of its source with this name.

    A whole node or edge stays bound to its row; any other column is bound to its value. If `is_matched`, the pattern
    needs a row of the variable: rows of the source in which it is null have no match.
    """

    variable: str
    type: ExprType
    nullable: bool = False
    is_matched: bool = False

    @property
    def entity(self) -> NodeRef | EdgeRef | None:
        """The type of the node or edge that it is bound to; None for a value."""
        return self.type if isinstance(self.type, NodeRef | EdgeRef) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionSource:
    """The rows of two or more reads with equal column names, one read after the other.

    `keeps_equal` says for each gap between two reads whether it is `union all`; a `union` leaves one of the equal rows
    of all reads before and after it up to the next gap. Gaps are read from the left.
    """

    reads: tuple["ReadQuery", ...]
    keeps_equal: tuple[bool, ...]

    def __post_init__(self) -> None:
        require(len(self.reads) >= 2 and len(self.keeps_equal) == len(self.reads) - 1, "a gap between all reads")
        names = {tuple(column.name for column in read.output) for read in self.reads}
        require(len(names) == 1, "the reads of a union have equal columns")


def iter_stages(query: "ReadQuery") -> Iterator["ReadQuery"]:
    """Yield a read and all reads that it starts from, in the order in which they run."""
    for source in list_sources(query):
        yield from iter_stages(source)
    yield query


def list_sources(query: "ReadQuery") -> tuple["ReadQuery", ...]:
    """Return the reads that a read starts from directly: an earlier stage, those of a union, or none."""
    if query.source is None:
        return ()
    return query.source.reads if isinstance(query.source, UnionSource) else (query.source,)


def map_source(query: "ReadQuery", change: Callable[["ReadQuery"], "ReadQuery"]) -> "ReadQuery":
    """Return the read with `change` applied to each read that it starts from directly."""
    if query.source is None:
        return query
    if not isinstance(query.source, UnionSource):
        return replace(query, source=change(query.source))
    return replace(query, source=replace(query.source, reads=tuple(map(change, query.source.reads))))
