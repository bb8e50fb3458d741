"""The edges of a hop as a relation of pairs of ids."""

from dataclasses import dataclass

from omnigraph.engine.physical_plan import Link
from omnigraph.engine.relational.tree import (
    ColumnTerm,
    Distinct,
    JoinKind,
    JoinRows,
    Project,
    Relation,
    ScanRows,
    UnionAll,
    name_id,
)
from omnigraph.query.logical_plan import HopDirection
from omnigraph.schema.arrow import DST, SRC

# The variable that a scan of edges has if the query names none. No user can write it.
_EDGE = "#edge"


@dataclass(frozen=True, slots=True)
class EdgeColumns:
    """The columns that the pairs of a hop have: ids of the near and the far end, and what is read of the edge."""

    near: str
    far: str
    extra: tuple[tuple[str, str], ...] = ()
    """Pairs of a stored column of the edge and its name."""


def build_edges(
    link: Link,
    columns: EdgeColumns,
    *,
    is_set: bool,
    few: Relation | None = None,
    derived: tuple[Relation, tuple[str, str]] | None = None,
) -> Relation:
    """Return the pairs of ids that one edge of a hop connects.

    Parallel edges are one pair, unless the hop reads its edges, or `is_set` says that repeated pairs do no harm. With
    `few`, which has the column of the near end, only edges of these nodes are looked at. `derived` are the matches of a
    named pattern, and the variables that are the start and the end of its edges.
    """
    pairs: Relation = _read_pairs(link, columns, derived, is_forward=link.direction is not HopDirection.IN)
    if link.direction is HopDirection.BOTH:
        # An edge from a node to itself is the same in both directions, so it counts once.
        back = _read_pairs(link, columns, derived, is_forward=False, is_loop_left_out=link.reads_edges)
        pairs = UnionAll(inputs=(pairs, back))
    if few is not None:
        key = (columns.near, columns.near)
        pairs = JoinRows(kind=JoinKind.SEMI, left=pairs, right=few, equal=(key,))
    if link.reads_edges or is_set:
        return pairs
    return Distinct(input=pairs)


def _read_pairs(
    link: Link,
    columns: EdgeColumns,
    derived: tuple[Relation, tuple[str, str]] | None,
    *,
    is_forward: bool,
    is_loop_left_out: bool = False,
) -> Relation:
    first, second = (columns.near, columns.far) if is_forward else (columns.far, columns.near)
    if derived is not None:
        matches, (source, target) = derived
        items = ((first, ColumnTerm(name_id(source))), (second, ColumnTerm(name_id(target))))
        return Project(input=matches, items=items)
    return ScanRows(
        type=link.edge,
        variable=link.edge_variable or _EDGE,
        # The same order of columns in both directions, so that they can be united.
        columns=tuple(sorted(((SRC, first), (DST, second)), key=lambda pair: pair[1] != columns.near)) + columns.extra,
        filters=(*link.filters, *link.along),
        is_loop_left_out=is_loop_left_out,
    )
