"""Recommend the indexes of a type's table, by its declaration and by what queries and checks look up.

Comparisons and `contains` use the index of a column of any type. Text and vector searches use none of a table's own
indexes: such an index is for other tools that read the table, and is only built on request.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.storage.compaction import VECTOR_INDEX

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
    """Whether queries or the checks of writes use it; full-text and vector indexes are for other tools."""


def recommend_indexes(type_: AnyType) -> tuple[RecommendedIndex, ...]:
    """Return the indexes that a type's table should have, each column and kind once."""
    return tuple({(index.column, index.kind): index for index in _iter_recommended(type_)}.values())


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
            yield from _iter_property_indexes(name, declared.type)


def _is_id_copy(type_: AnyType, name: str) -> bool:
    """Return whether a property is the whole key and a text: then the id is equal, and has its own index."""
    declared = type_.find_property(name)
    return type_.key == (name,) and declared is not None and declared.type is Scalar.STRING


def _iter_property_indexes(name: str, type_: ValueType) -> Iterator[RecommendedIndex]:
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
            yield RecommendedIndex(name, VECTOR_INDEX, is_consulted=False)
        case _:
            assert_never(type_)


def _recommend_ordered(name: str, type_: ValueType) -> RecommendedIndex:
    # With two values, a set of rows per value is enough.
    kind = BITMAP if type_ is Scalar.BOOL else BTREE
    return RecommendedIndex(name, kind, is_consulted=True)
