"""Which type or property of an earlier schema a new one continues: by `@rename_from`, else by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from omnigraph.schema.catalog import Catalog, EdgeType, NodeType, Property


class _Named(Protocol):
    """A type or a property."""

    @property
    def name(self) -> str: ...

    @property
    def renamed_from(self) -> str | None: ...


N = TypeVar("N", bound=_Named)


@dataclass(frozen=True, slots=True)
class Matched(Generic[N]):
    """The pairs (old, new) that are one and the same, what is new, and what is gone; each in declared order."""

    pairs: tuple[tuple[N, N], ...]
    added: tuple[N, ...]
    dropped: tuple[N, ...]

    @property
    def new_names(self) -> Mapping[str, str]:
        """The new name of every old one that lives on."""
        return {old.name: new.name for old, new in self.pairs}


def match_names(old: Sequence[N], new: Sequence[N]) -> Matched[N]:
    """Pair the old with the new.

    A `@rename_from` takes effect once: a schema keeps the annotation after it was applied, and what was renamed
    from that very name before is then found under its own. A rename takes precedence over a name that stayed.
    """
    before = {item.name: item for item in old}
    renamed: dict[str, N] = {}
    for item in new:
        source = None if item.renamed_from is None else before.get(item.renamed_from)
        if source is None or source.name == item.name or source.name in renamed:
            continue
        same_name = before.get(item.name)
        if same_name is None or same_name.renamed_from != item.renamed_from:
            renamed[source.name] = item
    origin = {item.name: before[name] for name, item in renamed.items()}
    for item in new:
        if item.name not in origin and item.name in before and item.name not in renamed:
            origin[item.name] = before[item.name]
    lives_on = {item.name for item in origin.values()}
    return Matched(
        pairs=tuple((origin[item.name], item) for item in new if item.name in origin),
        added=tuple(item for item in new if item.name not in origin),
        dropped=tuple(item for item in old if item.name not in lives_on),
    )


def match_nodes(old: Catalog, new: Catalog) -> Matched[NodeType]:
    """The node types of two catalogs, paired."""
    return match_names(tuple(old.nodes.values()), tuple(new.nodes.values()))


def match_edges(old: Catalog, new: Catalog) -> Matched[EdgeType]:
    """The edge types of two catalogs, paired."""
    return match_names(tuple(old.edges.values()), tuple(new.edges.values()))


def match_properties(old: NodeType | EdgeType, new: NodeType | EdgeType) -> Matched[Property]:
    """The properties of two versions of a type, paired."""
    return match_names(old.properties, new.properties)
