"""What becomes of each type and each column when a schema takes the place of another. Identities tell who is who."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.schema.arrow import DST, ID, SRC, build_arrow_schema
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, Property
from omnigraph.storage.schema_staging import NewColumns


@dataclass(frozen=True, slots=True)
class TypeChange:
    """A type that lives on."""

    old: AnyType
    new: AnyType

    @property
    def is_renamed(self) -> bool:
        """Whether it has another name now."""
        return self.old.table_key != self.new.table_key

    @property
    def has_column_changes(self) -> bool:
        """Whether the table needs another schema."""
        before, after = build_arrow_schema(self.old), build_arrow_schema(self.new)
        return not before.equals(after, check_metadata=True)

    @property
    def old_names(self) -> Mapping[str, str]:
        """The columns that live on: by new name, the old one."""
        own = (ID, SRC, DST) if isinstance(self.new, EdgeType) else (ID,)
        before = {p.identity: p.name for p in self.old.properties}
        lasting = {p.name: before[p.identity] for p in self.new.properties if p.identity in before}
        return {**{name: name for name in own}, **lasting}

    def iter_added(self) -> Iterator[Property]:
        """The properties that are new."""
        known = {p.identity for p in self.old.properties}
        return (p for p in self.new.properties if p.identity not in known)

    def iter_dropped(self) -> Iterator[Property]:
        """The properties that are gone."""
        lasting = {p.identity for p in self.new.properties}
        return (p for p in self.old.properties if p.identity not in lasting)

    def build_new_columns(self) -> NewColumns:
        """The table as it shall be."""
        schema = build_arrow_schema(self.new)
        fills = {p.name: _build_scalar(p, schema) for p in self.iter_added() if p.default is not None}
        return NewColumns(schema=schema, old_names=self.old_names, fills=fills)


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """What becomes of all types."""

    lasting: tuple[TypeChange, ...]
    dropped: tuple[AnyType, ...]
    added: tuple[AnyType, ...]


def diff_catalogs(old: Catalog, new: Catalog) -> CatalogChange:
    """Types by their identities; `new` has been given those of `old`."""
    before = {type_.identity: type_ for type_ in _list_types(old)}
    after = {type_.identity: type_ for type_ in _list_types(new)}
    return CatalogChange(
        lasting=tuple(TypeChange(before[one], type_) for one, type_ in after.items() if one in before),
        dropped=tuple(type_ for one, type_ in before.items() if one not in after),
        added=tuple(type_ for one, type_ in after.items() if one not in before),
    )


def _list_types(catalog: Catalog) -> list[AnyType]:
    return [*catalog.nodes.values(), *catalog.edges.values()]


def _build_scalar(p: Property, schema: pa.Schema) -> pa.Scalar:
    return pa.array([p.default], schema.field(p.name).type)[0]
