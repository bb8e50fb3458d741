"""The edges of a hop as a relation of pairs of ids."""

from collections.abc import Iterator
from dataclasses import dataclass

from omnigraph.engine.physical_plan import Link
from omnigraph.engine.relational.lower_unions import convert_ids, scan_member
from omnigraph.engine.relational.lowering_host import LoweringHost
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
from omnigraph.query.union_types import is_union, list_members
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
    host: LoweringHost,
    link: Link,
    columns: EdgeColumns,
    *,
    is_set: bool,
    few: Relation | None = None,
    derived: tuple[Relation, tuple[str, str]] | None = None,
) -> Relation:
    """Return the pairs of ids that one edge of a hop connects, between the types of its space.

    Parallel edges are one pair, unless the hop reads its edges, or `is_set` says that repeated pairs do no harm. With
    `few`, which has the column of the near end, only edges of these nodes are looked at. `derived` are the matches of a
    named pattern, and the variables that are the start and the end of its edges.
    """
    if derived is not None:
        parts = [_read_derived(columns, derived, is_forward=each) for each in _list_ways(link.direction)]
    elif link.members:
        parts = list(_iter_members(host, link, columns))
    else:
        parts = [_read_pairs(link, columns, is_forward=each) for each in _list_ways(link.direction)]
    pairs = parts[0] if len(parts) == 1 else UnionAll(inputs=tuple(parts))
    if few is not None:
        key = (columns.near, columns.near)
        pairs = JoinRows(kind=JoinKind.SEMI, left=pairs, right=few, equal=(key,))
    if link.reads_edges or is_set:
        return pairs
    return Distinct(input=pairs)


def _list_ways(direction: HopDirection) -> tuple[bool, ...]:
    """Return the ways in which edges are followed: from their start, from their end, or both."""
    if direction is HopDirection.BOTH:
        return (True, False)
    return (direction is HopDirection.OUT,)


def _read_derived(columns: EdgeColumns, derived: tuple[Relation, tuple[str, str]], *, is_forward: bool) -> Relation:
    matches, ends = derived
    near, far = ends if is_forward else ends[::-1]
    items = ((columns.near, ColumnTerm(name_id(near))), (columns.far, ColumnTerm(name_id(far))))
    return Project(input=matches, items=items)


def _list_ends(columns: EdgeColumns, *, is_forward: bool) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the stored columns of the near and the far end, in this order in both directions, so that these unite."""
    near, far = (SRC, DST) if is_forward else (DST, SRC)
    return (near, columns.near), (far, columns.far)


def _read_pairs(link: Link, columns: EdgeColumns, *, is_forward: bool) -> Relation:
    return ScanRows(
        type=link.edge,
        variable=link.edge_variable or _EDGE,
        columns=_list_ends(columns, is_forward=is_forward) + columns.extra,
        filters=(*link.filters, *link.along),
        # An edge from a node to itself is the same in both directions, so it counts once.
        is_loop_left_out=link.reads_edges and link.direction is HopDirection.BOTH and not is_forward,
    )


def _iter_members(host: LoweringHost, link: Link, columns: EdgeColumns) -> Iterator[Relation]:
    """Yield the pairs of each way in which a hop of several types is followed."""
    spaces, seen = link.space, set[str]()
    for member in link.members:
        for is_forward in _list_ways(member.direction):
            types = (member.source, member.target) if is_forward else (member.target, member.source)
            if any(type_ not in list_members(space) for type_, space in zip(types, spaces, strict=True)):
                continue
            scan = scan_member(
                host,
                link.edge,
                member.edge,
                link.edge_variable or _EDGE,
                _list_ends(columns, is_forward=is_forward) + columns.extra,
                (*link.filters, *link.along),
                # The ids of edges of one type stay as they are.
                plain=() if is_union(link.edge) else tuple(name for _, name in columns.extra),
                # An edge from a node to itself is the same in all ways in which its type is followed.
                is_loop_left_out=link.reads_edges and member.edge in seen,
            )
            seen.add(member.edge)
            for column, type_, space in zip((columns.near, columns.far), types, spaces, strict=True):
                scan = convert_ids(scan, column, type_, space)
            yield scan
