"""Match the types and properties of two schemas by `@rename_from`, else by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, Property


class _SchemaItem(Protocol):
    """A type or a property."""

    @property
    def name(self) -> str: ...

    @property
    def renamed_from(self) -> str | None: ...


N = TypeVar("N", bound=_SchemaItem)


@dataclass(frozen=True, slots=True)
class SchemaMatch(Generic[N]):
    """The result of a match: pairs (old, new), added and dropped items; each in declared order."""

    pairs: tuple[tuple[N, N], ...]
    added: tuple[N, ...]
    dropped: tuple[N, ...]
    # New items whose `@rename_from` was applied before, and would have to be applied again because another rename took
    # the name that they had: whether they are new or renamed is ambiguous.
    unclear: tuple[N, ...] = ()

    @property
    def new_names(self) -> Mapping[str, str]:
        """The new name of each old item that still exists, by its old name."""
        return {old.name: new.name for old, new in self.pairs}


def match_names(old: Sequence[N], new: Sequence[N]) -> SchemaMatch[N]:
    """Match old items with new ones; a rename takes precedence over an equal name.

    A `@rename_from` takes effect once: a schema may keep the annotation after it was applied, and the item is then
    matched by its own name. Only if another rename takes that name, the annotation applies again.
    """
    before = {item.name: item for item in old}
    after = {item.name: item for item in new}
    renamed: dict[str, N] = {}
    # A worklist: applying a rename may displace an item that was matched by its own name, whose rename then follows.
    waiting = [item for item in new if not _is_already_applied(item, before)]
    reapplied: list[str] = []
    while waiting:
        item = waiting.pop(0)
        source = None if item.renamed_from is None else before.get(item.renamed_from)
        if source is None or source.name == item.name or source.name in renamed:
            continue
        renamed[source.name] = item
        displaced = after.get(source.name)
        if displaced is not None and _is_already_applied(displaced, before):
            waiting.append(displaced)
            reapplied.append(displaced.name)
    origin = {item.name: before[name] for name, item in renamed.items()}
    # What no rename has claimed is matched by its name.
    for item in new:
        if item.name not in origin and item.name in before and item.name not in renamed:
            origin[item.name] = before[item.name]
    matched_names = {item.name for item in origin.values()}
    return SchemaMatch(
        pairs=tuple((origin[item.name], item) for item in new if item.name in origin),
        added=tuple(item for item in new if item.name not in origin),
        dropped=tuple(item for item in old if item.name not in matched_names),
        unclear=tuple(renamed[name] for name in reapplied if name not in origin and renamed[name].name in reapplied),
    )


def _is_already_applied(item: _SchemaItem, before: Mapping[str, _SchemaItem]) -> bool:
    """Return whether the old schema has an item with this name and the same `@rename_from`."""
    old = before.get(item.name)
    return item.renamed_from is not None and old is not None and old.renamed_from == item.renamed_from


def match_nodes(old: Catalog, new: Catalog) -> SchemaMatch[NodeType]:
    """Match the node types of two catalogs."""
    return match_names(tuple(old.nodes.values()), tuple(new.nodes.values()))


def match_edges(old: Catalog, new: Catalog) -> SchemaMatch[EdgeType]:
    """Match the edge types of two catalogs."""
    return match_names(tuple(old.edges.values()), tuple(new.edges.values()))


def match_properties(old: NodeType | EdgeType, new: NodeType | EdgeType) -> SchemaMatch[Property]:
    """Match the properties of two versions of a type."""
    return match_names(old.properties, new.properties)
