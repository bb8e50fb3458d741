"""What a match that drives statements depends on: the types that it reads, and the requirements of its answer."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import pyarrow as pa

from omnigraph.commit.requirements import IdsAbsent, Requirement, RowsUnchanged, TableUnchanged
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.tables.key_predicates import find_named_ids
from omnigraph.engine.writing.write_buffer import WriteBuffer
from omnigraph.query.expr import Bm25, EdgeRef, ListRank, NodeRef
from omnigraph.query.expr_tree import split_conjuncts
from omnigraph.query.logical_plan import Hop, NodeBinding, ReadQuery
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.columnar_sets import is_among


def find_read_types(read: ReadQuery, catalog: Catalog) -> frozenset[str]:
    """Return the names of all node and edge types whose rows can change the answer of a read."""
    return _resolve_names(_iter_type_names(read, ()), catalog)


def build_match_requirements(read: ReadQuery, pending: WriteBuffer, inputs: QueryInputs) -> list[Requirement]:
    """Return what must not change until the statements after a match are published.

    A node that the match selects by its id or key depends on that row alone; of any other type, the whole table must
    stay as it is. That is strict, but simple to prove: two writers that each read what the other one writes run one
    after the other.
    """
    named = {} if _ranks_by_statistics(read) else _find_named_nodes(read, pending, inputs)
    nodes = tuple(node for node in read.pattern.nodes if node.variable in named)
    others = _resolve_names(_iter_type_names(read, nodes), pending.view.catalog)
    requirements: list[Requirement] = [
        TableUnchanged(table_key=pending.view.get_type(name).table_key) for name in sorted(others)
    ]
    for node in nodes:
        if node.type.name in others:
            continue
        table = pending.get_table(pending.view.get_type(node.type.name))
        ids = pa.array(named[node.variable], pa.string())
        existing = table.find_committed_ids(ids)
        absent = ids.filter(pa.array(~is_among(ids, existing)))
        key = table.type.table_key
        if len(existing):
            requirements.append(RowsUnchanged(table_key=key, ids=existing))
        if len(absent):
            requirements.append(IdsAbsent(table_key=key, ids=absent))
    return requirements


def _ranks_by_statistics(read: ReadQuery) -> bool:
    """Return whether the answer has scores that depend on all rows of a table."""
    return any(isinstance(part, Bm25 | ListRank) for part in _iter_parts(read, ()))


def _find_named_nodes(read: ReadQuery, pending: WriteBuffer, inputs: QueryInputs) -> dict[str, list[str]]:
    """Return the ids of the nodes that filters select by id or key, by variable."""
    named: dict[str, list[str]] = {}
    for node in read.pattern.nodes:
        type_ = pending.view.catalog.nodes.get(node.type.name)
        terms = tuple(term for expr in node.filters for term in split_conjuncts(expr))
        ids = None if type_ is None else find_named_ids(type_, terms, inputs)
        if ids is not None:
            named[node.variable] = ids
    return named


def _iter_parts(value: object, skipped: tuple[NodeBinding, ...]) -> Iterator[object]:
    """Yield a plan and all plain data in it, whatever its kind, so that no new form is forgotten here."""
    stack = [value]
    while stack:
        part = stack.pop()
        if any(part is node for node in skipped):
            continue
        yield part
        if isinstance(part, tuple | list | frozenset):
            stack.extend(part)
        elif is_dataclass(part) and not isinstance(part, type | EdgeRef | NodeRef):
            # The ends of a single hop are nodes of the pattern; only these say which of their rows are read.
            is_hop = isinstance(part, Hop) and not part.is_multi
            stack.extend(getattr(part, f.name) for f in fields(part) if not (is_hop and f.name == "edge"))


def _iter_type_names(read: ReadQuery, skipped: tuple[NodeBinding, ...]) -> Iterator[str]:
    for part in _iter_parts(read, skipped):
        match part:
            case Hop(edge=edge):
                yield edge.name
            case NodeRef():
                yield part.name
            case EdgeRef():
                yield from (part.name, part.source, part.target)
            case _:
                pass


def _resolve_names(names: Iterator[str], catalog: Catalog) -> frozenset[str]:
    """Return the types that names of types, or of unions of types, stand for."""
    members = {member for name in names for member in name.split("|")}
    known = {name for name in members if catalog.find_type(name) is not None}
    if known == members:
        return frozenset(known)
    # The name of an interface, or of any edge: every type may be meant.
    return frozenset({*catalog.nodes, *catalog.edges})
