"""Which indexes a type's table should have: by its declaration, and by what queries and checks ask of the table.

Comparisons and `contains` ask the index of a column of any type. Searches by words and vectors ask none of a table's
own indexes: such an index is for other tools that read the table, and built when it is asked for.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from omnigraph.storage.upkeep import VECTOR_INDEX

BTREE, BITMAP, INVERTED, LABEL_LIST = "BTREE", "BITMAP", "INVERTED", "LABEL_LIST"


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """An index of one column."""

    column: str
    kind: str
    is_consulted: bool
    """Whether queries or the checks of writes ask it; full text and vectors are for other tools."""


def wanted_indexes(type_: AnyType) -> tuple[WantedIndex, ...]:
    """The indexes of a type's table, each column and kind once."""
    found = {(one.column, one.kind): one for one in _wanted(type_)}
    return tuple(found.values())


def _wanted(type_: AnyType) -> Iterator[WantedIndex]:
    for column in (ID, SRC, DST) if isinstance(type_, EdgeType) else (ID,):
        yield WantedIndex(column, BTREE, is_consulted=True)
    for name in dict.fromkeys([*type_.key, *(name for group in type_.unique for name in group)]):
        declared = type_.property(name)
        if declared is not None and not _is_the_id(type_, name):
            yield _ordered(name, declared.type)
    for name in type_.indexed:
        declared = type_.property(name)
        if declared is not None:
            yield from _indexed(name, declared.type)


def _is_the_id(type_: AnyType, name: str) -> bool:
    """Whether the property is the only one of the key and a text: then the id is the same, and has its index."""
    declared = type_.property(name)
    return type_.key == (name,) and declared is not None and declared.type is Scalar.STRING


def _indexed(name: str, type_: ValueType) -> Iterator[WantedIndex]:
    match type_:
        case Scalar.BLOB:
            return
        case Scalar.STRING:
            yield _ordered(name, type_)
            yield WantedIndex(name, INVERTED, is_consulted=False)
        case Scalar() | EnumOf():
            yield _ordered(name, type_)
        case ListOf():
            yield WantedIndex(name, LABEL_LIST, is_consulted=True)
        case VectorOf():
            yield WantedIndex(name, VECTOR_INDEX, is_consulted=False)
        case _:
            assert_never(type_)


def _ordered(name: str, type_: ValueType) -> WantedIndex:
    return WantedIndex(name, BITMAP if type_ is Scalar.BOOL else BTREE, is_consulted=True)
