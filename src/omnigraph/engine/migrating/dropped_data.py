"""Count the data that a schema change drops: rows of types, and values of properties."""

from collections.abc import Iterator

from omnigraph.engine.migrating.type_changes import CatalogChange
from omnigraph.engine.view import View
from omnigraph.schema.catalog import AnyType, Property
from omnigraph.schema.migration_steps import Losses


def count_dropped(view: View, change: CatalogChange) -> Losses:
    """Return the number of rows or values that each drop removes from a state; values are counted in a stream."""
    return dict(_iter_counts(view, change))


def _iter_counts(view: View, change: CatalogChange) -> Iterator[tuple[tuple[str, str | None], int]]:
    for type_ in change.dropped:
        yield (type_.table_key, None), _count_rows(view, type_)
    for type_change in change.lasting:
        for p in type_change.iter_dropped():
            yield (type_change.new.table_key, p.name), _count_values(view, type_change.old, p)


def _count_rows(view: View, type_: AnyType) -> int:
    return view.snapshot.pin(type_.table_key).rows


def _count_values(view: View, type_: AnyType, p: Property) -> int:
    rows = _count_rows(view, type_)
    if not rows or not p.nullable:
        return rows  # every row has a value, and the manifest has the number of rows
    table = view.get_table(type_)
    return table.count_values(p.name, [fragment.number for fragment in table.list_fragments()])
