"""From the text of a schema to its catalog in one call."""

from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import Catalog


def load_schema(source: Source) -> Catalog:
    """The catalog of a schema text, without identities; `SourceError` with everything that is wrong.

    A text that does not parse is not bound: what its broken parts would have declared is unknown.
    """
    tree = parse_schema(source).require(source)
    return bind_schema(tree).require(source)
