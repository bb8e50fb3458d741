"""The edges of a hop of several edge types as adjacency lists over the positions of unions of node types."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.neighbour_lists import AdjacencyLists, build_lists
from omnigraph.engine.operators.union_csr import UnionCsr, WayEnds, build_union_csr
from omnigraph.engine.physical_plan import Link, LinkMember, TypeConversion
from omnigraph.engine.predicate_eval import Column
from omnigraph.engine.tables.csr import CsrAdjacency, choose_position_type, collapse_parallel_edges
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.engine.tables.union_reader import UnionReader
from omnigraph.engine.value_store import NO_POSITION, mask_missing
from omnigraph.query.logical_plan import HopDirection
from omnigraph.query.union_types import list_members
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.storage.arrow_buffers import fill_nulls, read_numbers
from omnigraph.storage.columnar_sets import concat_chunks

# Memory per edge while the lists are built: both ends, the edge, and the packed key that is sorted.
_EDGE_BYTES = 48


@dataclass(frozen=True, slots=True)
class _DirectedMember:
    """The edges of a type in one direction: columns of their ends, and where their types begin in the unions."""

    edge: str
    edge_base: int
    is_reversed: bool
    near_base: int
    far_base: int
    near_type: str
    far_type: str

    def find_loops(self, near: Positions, far: Positions) -> NDArray[np.bool_]:
        """Return which edges lead from a node to itself; the two unions number the same node differently."""
        if self.near_type != self.far_type:
            return np.zeros(len(near), np.bool_)
        is_loop: NDArray[np.bool_] = near - self.near_base == far - self.far_base
        return is_loop


def load_union_lists(link: Link, context: ExecutionContext, *, reads_edges: bool) -> AdjacencyLists:
    """Return the lists of every position of the near union; cached across queries by the rows of all tables."""
    hop, tables = _describe_hop(link, context)
    key = ("union lists", reads_edges, hop, *(table.columns.state for table in tables))

    def build() -> AdjacencyLists:
        directed = _list_directed(link, context)
        rows = sum(context.get_reader(way.edge).size for way in directed)
        context.budget.claim(rows * _EDGE_BYTES, f"the edges of {link.edge}")
        csr = _load_union_csr(link, directed, context).csr
        context.budget.check()
        if reads_edges:
            lists = AdjacencyLists(csr.starts, csr.targets, _find_edges(csr, directed, context))
        else:
            collapsed = collapse_parallel_edges(csr)
            lists = AdjacencyLists(collapsed.starts, collapsed.targets)
        context.budget.release(rows * _EDGE_BYTES)
        return lists

    return context.cache.get_or_build(key, build, measure_lists, context.budget)


def _describe_hop(link: Link, context: ExecutionContext) -> tuple[Hashable, list[TableReader]]:
    """Return what identifies the adjacency of a hop apart from rows, and the tables whose rows it is built from."""
    near, far = link.space
    names = dict.fromkeys((*list_members(near), *list_members(far), *(member.edge for member in link.members)))
    ways = tuple((member.edge, member.source, member.target, member.direction.value) for member in link.members)
    return (near, far, ways), [context.get_reader(name) for name in names]


def _load_union_csr(link: Link, directed: list[_DirectedMember], context: ExecutionContext) -> UnionCsr:
    """Return the adjacency of all edges of a hop; after a commit, that of the version before is patched."""
    hop, tables = _describe_hop(link, context)
    key = ("union adjacency", hop, *(table.columns.state for table in tables))
    latest = ("latest union adjacency", context.view.realm, hop, *(table.table.path for table in tables))
    lru = context.cache.lru

    def build() -> UnionCsr:
        older_key = lru.get(latest)
        older = lru.get(older_key) if isinstance(older_key, tuple) else None
        near_sizes, far_sizes = (
            [context.get_reader(name).size for name in list_members(space)] for space in link.space
        )
        ways = _read_ways(directed, context)
        lru.put(latest, key, 256)
        return build_union_csr(ways, near_sizes, far_sizes, older if isinstance(older, UnionCsr) else None)

    return lru.get_or_build(key, build, lambda union: union.nbytes, context.budget)


def _read_ways(directed: list[_DirectedMember], context: ExecutionContext) -> list[WayEnds]:
    """Return the ends of all edges of each way."""
    ways: list[WayEnds] = []
    seen: set[str] = set()
    for way in directed:
        context.budget.check()
        topology = context.get_topology(way.edge)
        near, far = (topology.source, topology.target)[:: -1 if way.is_reversed else 1]
        if way.edge in seen and way.near_type == way.far_type:
            # An edge from a node to itself is the same in both directions: it is left out of the second one.
            is_loop = near == far
            near = np.where(is_loop, near.dtype.type(-1), near) if is_loop.any() else near
        seen.add(way.edge)
        ways.append(WayEnds(near, far, way.near_base, way.far_base))
    return ways


def _find_edges(csr: CsrAdjacency, directed: list[_DirectedMember], context: ExecutionContext) -> Positions:
    """Return the edge of each entry, as a position of the union of edge types."""
    assert csr.edges is not None  # noqa: S101 - it has the slot of every edge
    sizes = [context.get_reader(way.edge).size for way in directed]
    bases = np.cumsum([0, *sizes])[:-1]
    if bases.tolist() == [way.edge_base for way in directed]:
        return csr.edges
    edges = np.concatenate([_NONE, *(np.arange(n) + way.edge_base for way, n in zip(directed, sizes, strict=True))])
    return edges[csr.edges].astype(choose_position_type(sum(sizes)), copy=False)


def list_union_ends(link: Link, edges: Positions, context: ExecutionContext) -> list[tuple[Positions, Positions]]:
    """Return the near and far ends of edges, given by ascending positions of their union, for each way to follow."""
    pairs = []
    looped: set[str] = set()
    for way in _list_directed(link, context):
        size = context.get_reader(way.edge).size
        own = edges[np.searchsorted(edges, way.edge_base) : np.searchsorted(edges, way.edge_base + size)]
        near, far = _read_ends(way, own - way.edge_base, context)
        if way.edge in looped:
            # An edge from a node to itself is the same in both directions, so it counts once.
            is_other = ~way.find_loops(near, far)
            near, far = near[is_other], far[is_other]
        looped.add(way.edge)
        pairs.append((near, far))
    return pairs


def look_up_union_lists(link: Link, sources: Positions, context: ExecutionContext) -> AdjacencyLists:
    """Build the lists of distinct ascending positions by the indexes on the ends of the edges."""
    numbers: list[Positions] = [_NONE]
    targets: list[Positions] = [_NONE]
    edges: list[Positions] = [_NONE]
    seen: set[str] = set()
    for way in _list_directed(link, context):
        nodes = context.get_reader(way.near_type)
        begin, end = np.searchsorted(sources, (way.near_base, way.near_base + nodes.size))
        if begin < end:
            own = sources[begin:end] - way.near_base
            list_numbers, far, at = _look_up(way, own, context)
            if way.edge in seen:
                # An edge from a node to itself is the same in both directions, so it counts once.
                is_other = ~way.find_loops(sources[list_numbers + begin], far)
                list_numbers, far, at = list_numbers[is_other], far[is_other], at[is_other]
            numbers.append(list_numbers + begin)
            targets.append(far)
            edges.append(at)
        seen.add(way.edge)
        context.budget.check()
    is_set = not link.reads_edges
    all_edges = None if is_set else np.concatenate(edges)
    return build_lists(sources, np.concatenate(numbers), np.concatenate(targets), all_edges, is_set=is_set)


def convert_positions(at: Positions, from_name: str, to_name: str, context: ExecutionContext) -> NDArray[np.int64]:
    """Return positions of a type or union as those of another one; -1 for rows of types that it does not have."""
    if from_name == to_name:
        return at.astype(np.int64, copy=False)
    source, result = context.get_reader(from_name), np.full(len(at), -1, np.int64)
    target = context.get_reader(to_name)
    parts = source.split(at) if isinstance(source, UnionReader) else [(source, np.arange(len(at)), at)]
    for member, rows, own in parts:
        base = _find_base(target, member.type.name)
        if base is not None:
            result[rows] = own + base
    return result


def unite_positions(at: Column, from_name: str, to_name: str, context: ExecutionContext) -> pa.Array:
    """Return a column of positions of a type as positions of a union; null where there is none."""
    positions = fill_nulls(concat_chunks(at), NO_POSITION).astype(np.int64, copy=False)
    is_bound = positions >= 0
    converted = np.full(len(positions), NO_POSITION, np.int64)
    converted[is_bound] = convert_positions(positions[is_bound], from_name, to_name, context)
    return mask_missing(converted)


def convert_columns(bindings: Bindings, conversions: Iterable[TypeConversion], context: ExecutionContext) -> Bindings:
    """Return matches whose variables of other types are bound to the rows of unions."""
    for each in conversions:
        # The matches of a pattern that never matches have no columns.
        if each.variable in bindings.columns:
            at = bindings.columns[each.variable]
            context.budget.claim(8 * len(at), "positions in a union of types")
            bindings = bindings.with_column(each.variable, convert_positions(at, each.from_type, each.to_type, context))
    return bindings


def convert_lists(lists: AdjacencyLists, link: Link, context: ExecutionContext) -> AdjacencyLists:
    """Return lists over the types of a walk as lists between the types at its ends; other nodes are left out."""
    near, far = link.space
    if (near, far) == (link.near, link.far):
        return lists
    assert lists.sources is not None  # noqa: S101 - the lists of a search have the sources that it started from
    sources = convert_positions(lists.sources, near, link.near, context)
    targets = convert_positions(lists.targets, far, link.far, context)
    is_inside = targets >= 0
    # How many targets are left before each list begins.
    prefix = np.zeros(len(targets) + 1, np.int64)
    np.cumsum(is_inside, out=prefix[1:])
    return AdjacencyLists(prefix[lists.starts], targets[is_inside], None, sources)


def measure_lists(lists: AdjacencyLists) -> int:
    """Return the memory of adjacency lists."""
    edges = 0 if lists.edges is None else lists.edges.nbytes
    return int(lists.starts.nbytes + lists.targets.nbytes + edges)


_NONE = np.zeros(0, np.int64)


def _list_directed(link: Link, context: ExecutionContext) -> list[_DirectedMember]:
    """Return the ways of a hop whose types are among those of its ends; one that goes either way is two."""
    near, far = (context.get_reader(name) for name in link.space)
    edges = context.get_reader(link.edge)
    ways = []
    for member in link.members:
        for is_reversed in _list_reversals(member):
            near_type, far_type = (member.source, member.target)[:: -1 if is_reversed else 1]
            near_base, far_base = _find_base(near, near_type), _find_base(far, far_type)
            edge_base = _find_base(edges, member.edge)
            if near_base is not None and far_base is not None and edge_base is not None:
                ways.append(
                    _DirectedMember(member.edge, edge_base, is_reversed, near_base, far_base, near_type, far_type)
                )
    return ways


def _list_reversals(member: LinkMember) -> tuple[bool, ...]:
    if member.direction is HopDirection.BOTH:
        return (False, True)
    return (member.direction is HopDirection.IN,)


def _find_base(reader: TableReader, type_name: str) -> int | None:
    """Return where the positions of a type begin in those of a type or union; None if they are not part of it."""
    if not isinstance(reader, UnionReader):
        return 0 if reader.type.name == type_name else None
    number = reader.find_member(type_name)
    return None if number is None else int(reader.bases[number])


def _read_ends(way: _DirectedMember, at: Positions, context: ExecutionContext) -> tuple[Positions, Positions]:
    """Return the near and far ends of some edges of a type as positions of the unions; -1 for no edge."""
    topology = context.get_topology(way.edge)
    near, far = (
        ends[at].astype(np.int64) for ends in (topology.source, topology.target)[:: -1 if way.is_reversed else 1]
    )
    is_edge = near >= 0
    return np.where(is_edge, near + way.near_base, -1), np.where(is_edge, far + way.far_base, -1)


def _look_up(
    way: _DirectedMember, sources: Positions, context: ExecutionContext
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Look up the edges at some nodes: the number of the node, the far end and the edge of each, in the unions."""
    edges, nodes = context.get_reader(way.edge), context.get_reader(way.near_type)
    near_column, far_column = (DST, SRC) if way.is_reversed else (SRC, DST)
    ids = nodes.take_values(ID, sources, context.budget)
    positions, ends = edges.find_matching(near_column, ids, context.budget)
    numbers = read_numbers(pc.index_in(ends, value_set=_cast_ids(ids, ends.type))).astype(np.int64)
    far = context.get_reader(way.far_type).find(edges.take_values(far_column, positions, context.budget))
    return numbers, far + way.far_base, positions + way.edge_base


def _cast_ids(ids: pa.Array, type_: pa.DataType) -> pa.Array:
    return ids if ids.type == type_ else ids.cast(type_)
