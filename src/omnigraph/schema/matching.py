"""Which type or property of an earlier schema a new one continues: by `@rename_from`, else by name."""

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
    """The pairs (old, new) that are one and the same, what is new, and what is gone; each in declared order."""

    pairs: tuple[tuple[N, N], ...]
    added: tuple[N, ...]
    dropped: tuple[N, ...]
    unclear: tuple[N, ...] = ()
    """New ones whose `@rename_from` was made before and would have to be made again, at the cost of another one's."""

    @property
    def new_names(self) -> Mapping[str, str]:
        """The new name of every old one that lives on."""
        return {old.name: new.name for old, new in self.pairs}


def match_names(old: Sequence[N], new: Sequence[N]) -> SchemaMatch[N]:
    """Pair the old with the new.

    A `@rename_from` takes effect once: a schema keeps the annotation after it was applied, and what was renamed
    from that very name before is then found under its own; unless another rename takes that, so that the annotation
    means the old one of its name once more. A rename takes precedence over a name that stayed.
    """
    before = {item.name: item for item in old}
    after = {item.name: item for item in new}
    renamed: dict[str, N] = {}
    waiting = [item for item in new if not _is_already_applied(item, before)]
    again: list[str] = []
    while waiting:
        item = waiting.pop(0)
        source = None if item.renamed_from is None else before.get(item.renamed_from)
        if source is None or source.name == item.name or source.name in renamed:
            continue
        renamed[source.name] = item
        displaced = after.get(source.name)
        if displaced is not None and _is_already_applied(displaced, before):
            waiting.append(displaced)
            again.append(displaced.name)
    origin = {item.name: before[name] for name, item in renamed.items()}
    for item in new:
        if item.name not in origin and item.name in before and item.name not in renamed:
            origin[item.name] = before[item.name]
    lives_on = {item.name for item in origin.values()}
    return SchemaMatch(
        pairs=tuple((origin[item.name], item) for item in new if item.name in origin),
        added=tuple(item for item in new if item.name not in origin),
        dropped=tuple(item for item in old if item.name not in lives_on),
        unclear=tuple(renamed[name] for name in again if name not in origin and renamed[name].name in again),
    )


def _is_already_applied(item: _SchemaItem, before: Mapping[str, _SchemaItem]) -> bool:
    """Whether the old schema has it under its name, with the same `@rename_from`."""
    known = before.get(item.name)
    return item.renamed_from is not None and known is not None and known.renamed_from == item.renamed_from


def match_nodes(old: Catalog, new: Catalog) -> SchemaMatch[NodeType]:
    """The node types of two catalogs, paired."""
    return match_names(tuple(old.nodes.values()), tuple(new.nodes.values()))


def match_edges(old: Catalog, new: Catalog) -> SchemaMatch[EdgeType]:
    """The edge types of two catalogs, paired."""
    return match_names(tuple(old.edges.values()), tuple(new.edges.values()))


def match_properties(old: NodeType | EdgeType, new: NodeType | EdgeType) -> SchemaMatch[Property]:
    """The properties of two versions of a type, paired."""
    return match_names(old.properties, new.properties)
