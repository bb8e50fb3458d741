"""Assign identities: numbers that types and properties keep through renames."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from omnigraph.schema.catalog import UNASSIGNED, Catalog, EdgeType, NodeType, Property, build_catalog
from omnigraph.schema.matching import SchemaMatch, match_edges, match_nodes, match_properties

# Maps an identity to the one that replaces it, where two branches made the same addition.
Aliases: TypeAlias = Mapping[int, int]


T = TypeVar("T", NodeType, EdgeType)


def join_aliases(*parts: Aliases) -> dict[int, int]:
    """Combine aliases: identities that are connected through any of them get the same replacement, the smallest."""
    # A union-find without ranks: `parents` leads from an identity to a smaller one, and in the end to its root.
    parents: dict[int, int] = {}
    for part in parts:
        for identity, alias in part.items():
            roots = {_find_root(parents, identity), _find_root(parents, alias)}
            if len(roots) > 1:
                parents[max(roots)] = min(roots)
    return {identity: _find_root(parents, identity) for identity in parents}


def _find_root(aliases: Aliases, identity: int) -> int:
    while identity in aliases:
        identity = aliases[identity]
    return identity


def renumber_catalog(catalog: Catalog, aliases: Aliases) -> Catalog:
    """Return the catalog with aliased identities replaced."""
    if not aliases:
        return catalog
    nodes = tuple(_renumber_type(node, aliases) for node in catalog.nodes.values())
    edges = tuple(_renumber_type(edge, aliases) for edge in catalog.edges.values())
    return build_catalog(nodes, edges, tuple(catalog.interfaces.values()), catalog.next_identity)


def _renumber_type(type_: T, aliases: Aliases) -> T:
    properties = tuple(replace(p, identity=aliases.get(p.identity, p.identity)) for p in type_.properties)
    return replace(type_, identity=aliases.get(type_.identity, type_.identity), properties=properties)


def assign_identities(catalog: Catalog, previous: Catalog | None, *, first: int = 0) -> Catalog:
    """Assign an identity to every type and property.

    A type or property that continues one of `previous`, by name or by `@rename_from`, keeps its identity; all others
    get the next ones. The counter only grows, so a dropped name that returns gets a new identity. New identities are at
    least `first`: branches that continue one schema independently start far apart, so that an identity means the same
    in all of them.
    """
    before = previous if previous is not None else Catalog(nodes={}, edges={}, interfaces={})
    # A built catalog has `next_identity` 1 unless it is given, so the highest identity counts too.
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
        """Return the identity itself if it is assigned, else the next one."""
        if identity != UNASSIGNED:
            return identity
        self.next += 1
        return self.next - 1


def _find_highest_identity(catalog: Catalog) -> int:
    types = catalog.types
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
