"""Identities that turned out to be one: two branches added the same thing, each with a number of its own."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, build_catalog

Aliases: TypeAlias = Mapping[int, int]
"""By identity, the one that stands for it."""


T = TypeVar("T", NodeType, EdgeType)


def join_aliases(*parts: Aliases) -> dict[int, int]:
    """All of these at once: whatever is one with something that is one with a third is one with that too."""
    found: dict[int, int] = {}
    for part in parts:
        for one, other in part.items():
            roots = {_find_root(found, one), _find_root(found, other)}
            if len(roots) > 1:
                found[max(roots)] = min(roots)
    return {one: _find_root(found, one) for one in found}


def _find_root(aliases: Aliases, identity: int) -> int:
    while identity in aliases:
        identity = aliases[identity]
    return identity


def renumber_catalog(catalog: Catalog, aliases: Aliases) -> Catalog:
    """The catalog with the identities that stand for others."""
    if not aliases:
        return catalog
    nodes = tuple(_renumber_type(node, aliases) for node in catalog.nodes.values())
    edges = tuple(_renumber_type(edge, aliases) for edge in catalog.edges.values())
    return build_catalog(nodes, edges, tuple(catalog.interfaces.values()), catalog.next_identity)


def _renumber_type(type_: T, aliases: Aliases) -> T:
    properties = tuple(replace(p, identity=aliases.get(p.identity, p.identity)) for p in type_.properties)
    return replace(type_, identity=aliases.get(type_.identity, type_.identity), properties=properties)
