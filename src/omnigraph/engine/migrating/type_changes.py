"""The changes of types and columns from one schema to the next, matched by identity."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.schema.arrow import DST, ID, SRC, build_arrow_schema
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, Property
from omnigraph.storage.schema_staging import NewColumns


@dataclass(frozen=True, slots=True)
class TypeChange:
    """A type that both schemas have, before and after."""

    old: AnyType
    new: AnyType

    @property
    def is_renamed(self) -> bool:
        """Whether its table key has changed."""
        return self.old.table_key != self.new.table_key

    @property
    def has_column_changes(self) -> bool:
        """Whether the table needs another Arrow schema."""
        # Metadata is compared too: it has the identities of the columns.
        before, after = build_arrow_schema(self.old), build_arrow_schema(self.new)
        return not before.equals(after, check_metadata=True)

    @property
    def old_names(self) -> Mapping[str, str]:
        """The old name of each column that both schemas have, by new name."""
        identifiers = (ID, SRC, DST) if isinstance(self.new, EdgeType) else (ID,)
        before = {p.identity: p.name for p in self.old.properties}
        lasting = {p.name: before[p.identity] for p in self.new.properties if p.identity in before}
        return {**{name: name for name in identifiers}, **lasting}

    def iter_added(self) -> Iterator[Property]:
        """Return the properties that only the new schema has."""
        before = {p.identity for p in self.old.properties}
        return (p for p in self.new.properties if p.identity not in before)

    def iter_dropped(self) -> Iterator[Property]:
        """Return the properties that only the old schema has."""
        lasting = {p.identity for p in self.new.properties}
        return (p for p in self.old.properties if p.identity not in lasting)

    def build_new_columns(self) -> NewColumns:
        """Return the columns of the migrated table."""
        schema = build_arrow_schema(self.new)
        # A default may be false, 0 or empty, so only None means that there is none.
        fills = {p.name: _build_scalar(p, schema) for p in self.iter_added() if p.default is not None}
        return NewColumns(schema=schema, old_names=self.old_names, fills=fills)


@dataclass(frozen=True, slots=True)
class CatalogChange:
    """The types that both schemas have, and those that were dropped or added."""

    lasting: tuple[TypeChange, ...]
    dropped: tuple[AnyType, ...]
    added: tuple[AnyType, ...]


def diff_catalogs(old: Catalog, new: Catalog) -> CatalogChange:
    """Compare the types of two catalogs by identity; `new` must have been assigned the identities of `old`."""
    before = {type_.identity: type_ for type_ in old.types}
    after = {type_.identity: type_ for type_ in new.types}
    return CatalogChange(
        lasting=tuple(TypeChange(before[identity], type_) for identity, type_ in after.items() if identity in before),
        dropped=tuple(type_ for identity, type_ in before.items() if identity not in after),
        added=tuple(type_ for identity, type_ in after.items() if identity not in before),
    )


def _build_scalar(p: Property, schema: pa.Schema) -> pa.Scalar:
    return pa.array([p.default], schema.field(p.name).type)[0]
