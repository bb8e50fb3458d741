"""Recommend the indexes of a type's table, by its declaration and by what queries and checks look up.

Comparisons and `contains` use the index of a column of any type, and `nearest` one that the schema declares with its
kind. Other indexes of texts and vectors are for other tools that read the table, and are only built on request.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType, Property, VectorIndexKind
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.storage.vector_search import IVF_FLAT, IVF_HNSW, IVF_PQ, IVF_RQ

BTREE = "BTREE"
BITMAP = "BITMAP"
INVERTED = "INVERTED"
LABEL_LIST = "LABEL_LIST"


@dataclass(frozen=True, slots=True)
class RecommendedIndex:
    """An index of one column."""

    column: str
    kind: str
    is_consulted: bool
    """Whether queries or the checks of writes use it; full-text indexes are for other tools."""
    metric: str | None = None
    """The metric of a vector index."""


def recommend_indexes(type_: AnyType) -> tuple[RecommendedIndex, ...]:
    """Return the indexes that a type's table should have, each column and kind once."""
    return tuple({(index.column, index.kind): index for index in _iter_recommended(type_)}.values())


def list_looked_up(type_: AnyType) -> list[str]:
    """Return the columns of a type's table in which each write looks values up: ids, ends and unique values."""
    names = [name for group in type_.unique for name in group if not _is_id_copy(type_, name)]
    return list(dict.fromkeys([ID, *((SRC, DST) if isinstance(type_, EdgeType) else ()), *names]))


def _iter_recommended(type_: AnyType) -> Iterator[RecommendedIndex]:
    for column in (ID, SRC, DST) if isinstance(type_, EdgeType) else (ID,):
        yield RecommendedIndex(column, BTREE, is_consulted=True)
    for name in dict.fromkeys([*type_.key, *(name for group in type_.unique for name in group)]):
        declared = type_.find_property(name)
        if declared is not None and not _is_id_copy(type_, name):
            yield _recommend_ordered(name, declared.type)
    for name in type_.indexed:
        declared = type_.find_property(name)
        if declared is not None:
            yield from _iter_property_indexes(declared)


def _is_id_copy(type_: AnyType, name: str) -> bool:
    """Return whether a property is the whole key and a text: then the id is equal, and has its own index."""
    declared = type_.find_property(name)
    return type_.key == (name,) and declared is not None and declared.type is Scalar.STRING


# The kinds of the schema language, by the names of Lance.
VECTOR_KINDS = {
    VectorIndexKind.IVF_FLAT: IVF_FLAT,
    VectorIndexKind.IVF_PQ: IVF_PQ,
    VectorIndexKind.IVF_RQ: IVF_RQ,
    VectorIndexKind.HNSW: IVF_HNSW,
}


def _iter_property_indexes(declared: Property) -> Iterator[RecommendedIndex]:
    name, type_ = declared.name, declared.type
    match type_:
        case Scalar.BLOB:
            return
        case Scalar.STRING:
            yield _recommend_ordered(name, type_)
            # Searches analyse texts on their own; this one is for other tools.
            yield RecommendedIndex(name, INVERTED, is_consulted=False)
        case Scalar() | EnumOf():
            yield _recommend_ordered(name, type_)
        case ListOf():
            yield RecommendedIndex(name, LABEL_LIST, is_consulted=True)
        case VectorOf():
            # Without a declared kind, searches are exact, and the index is for other tools.
            kind = None if declared.vector_index is None else VECTOR_KINDS[declared.vector_index.kind]
            yield RecommendedIndex(name, kind or IVF_FLAT, is_consulted=kind is not None, metric=declared.metric.value)
        case _:
            assert_never(type_)


def _recommend_ordered(name: str, type_: ValueType) -> RecommendedIndex:
    # With two values, a set of rows per value is enough.
    kind = BITMAP if type_ is Scalar.BOOL else BTREE
    return RecommendedIndex(name, kind, is_consulted=True)
