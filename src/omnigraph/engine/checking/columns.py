"""Whether a table has the columns that its type declares."""

from collections.abc import Iterator

from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.physical import build_physical_schema


def find_differing_columns(table: LanceTable, type_: AnyType) -> Iterator[str]:
    """What is said of each column that is missing, too many, or of another type; a vector's size is part of that."""
    declared = {one.name: one.type for one in build_physical_schema(build_arrow_schema(type_))}
    there = {one.name: one.type for one in table.schema}
    for name in sorted(declared.keys() | there.keys()):
        expected, found = declared.get(name), there.get(name)
        if expected != found:
            told = f"it is {'missing' if found is None else found}, and should be {expected or 'not there'}"
            yield f"the column `{name}` of {type_.table_key}: {told}"
