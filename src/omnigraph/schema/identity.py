"""Identities: numbers that types and properties are given once and keep through renames."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from omnigraph.schema.catalog import UNASSIGNED, Catalog, EdgeType, NodeType, Property
from omnigraph.schema.matching import SchemaMatch, match_edges, match_nodes, match_properties

T = TypeVar("T", NodeType, EdgeType)


def assign_identities(catalog: Catalog, previous: Catalog | None, *, first: int = 0) -> Catalog:
    """The catalog with a number for every type and property.

    What continues something of `previous`, by name or by `@rename_from`, keeps its number; everything else gets the
    next one. One counter serves the whole graph and only grows, so a dropped name that returns is somebody new.
    New numbers are at least `first`: branches that go on from one schema, each for itself, start at places of their
    own, so that a number means one thing in all of them.
    """
    before = previous if previous is not None else Catalog(nodes={}, edges={}, interfaces={})
    counter = _IdentityCounter(max(before.next_identity, _find_highest_identity(before) + 1, first))
    nodes = _number_types(catalog.nodes.values(), match_nodes(before, catalog), counter)
    edges = _number_types(catalog.edges.values(), match_edges(before, catalog), counter)
    return replace(
        catalog,
        nodes={node.name: node for node in nodes},
        edges={edge.name: edge for edge in edges},
        next_identity=counter.next,
    )


@dataclass(slots=True)
class _IdentityCounter:
    next: int

    def assign(self, identity: int) -> int:
        """The number itself if it is one, else the next."""
        if identity != UNASSIGNED:
            return identity
        self.next += 1
        return self.next - 1


def _find_highest_identity(catalog: Catalog) -> int:
    types = (*catalog.nodes.values(), *catalog.edges.values())
    return max((n for t in types for n in (t.identity, *(p.identity for p in t.properties))), default=0)


def _number_types(types: Iterable[T], matched: SchemaMatch[T], counter: _IdentityCounter) -> list[T]:
    origin = {new.name: old for old, new in matched.pairs}
    return [_number_type(type_, origin.get(type_.name), counter) for type_ in types]


def _number_type(type_: T, old: T | None, counter: _IdentityCounter) -> T:
    identity = counter.assign(UNASSIGNED if old is None else old.identity)
    origin: dict[str, Property] = {}
    if old is not None:
        origin = {new.name: before for before, new in match_properties(old, type_).pairs}
    properties = tuple(
        replace(p, identity=counter.assign(origin[p.name].identity if p.name in origin else UNASSIGNED))
        for p in type_.properties
    )
    return replace(type_, identity=identity, properties=properties)
