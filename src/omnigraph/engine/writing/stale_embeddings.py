"""Vectors that are computed from a text (`@embed`) never outlive it: a changed text leaves a vector that is missing."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.writing.violations import quote_value
from omnigraph.schema.catalog import AnyType, Property


def clear_stale_vectors(type_: AnyType, before: pa.Table, after: pa.Table, kept: Mapping[str, pa.Array]) -> pa.Table:
    """The rows of `after`, with a null for every vector whose text is another one than in `before`.

    The two tables hold the same rows in the same order. `kept` is true where a write does not give the vector itself,
    by the vector's name; one that is not there is given in every row.
    """
    for p in type_.properties:
        if p.embedding is None or p.name not in kept:
            continue
        source = p.embedding.source
        is_outdated = pc.and_(kept[p.name], pc.invert(_is_same(before.column(source), after.column(source))))
        if pc.any(is_outdated).as_py():
            place = after.schema.get_field_index(p.name)
            field = after.schema.field(place)
            vectors = pc.if_else(is_outdated, pa.scalar(None, field.type), after.column(place))
            after = after.set_column(place, field, vectors)
    return after


def _is_same(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    are_equal = pc.fill_null(pc.equal(one, other), fill_value=False)
    return pc.or_(are_equal, pc.and_(pc.is_null(one), pc.is_null(other)))


def format_missing_value(type_: AnyType, p: Property, row_id: str) -> str:
    """What is said of a row without the value of a required property."""
    message = f"{type_.name}.{p.name} is required, but {quote_value(row_id)} has none"
    return message if p.embedding is None else f"{message}; {format_remedy(type_, p)}"


def format_remedy(type_: AnyType, p: Property) -> str:
    """What to do about a vector that is required and missing."""
    assert p.embedding is not None  # noqa: S101 - asked for such vectors only
    return (
        f"give it together with `{p.embedding.source}`, or declare it nullable (`{p.type}?`)"
        f" and let `omnigraph embed --type {type_.name}` compute it"
    )
