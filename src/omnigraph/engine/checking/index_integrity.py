"""Whether an index finds what a scan of its column finds, for a sample of the values that are there."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.tables.index_advisor import BITMAP, BTREE, INVERTED, LABEL_LIST
from omnigraph.storage.columnar_sets import concat_chunks
from omnigraph.storage.compaction import VECTOR_INDEX
from omnigraph.storage.index_staging import StoredIndex
from omnigraph.storage.integrity_check import find_by_index, find_by_label, find_by_vector, find_by_word, load_index
from omnigraph.storage.lance_table import ADDRESS, LanceTable
from omnigraph.storage.row_addresses import Addresses

_T = TypeVar("_T")
SAMPLE_ROWS = 64
"""So many rows are looked at for values to ask for,"""
MAX_SEARCHES = 8
"""and for so many words or vectors, each of which is a search of its own."""
NEIGHBOURS_PER_SEARCH = 8
_MAX_SELF_DISTANCE = 1e-4
"""How far a vector is at most from itself, as single precision has it."""
_VECTOR_LENGTHS = (1e-12, 1e12)
"""Vectors of other lengths are not asked for: single precision has no square of what is much shorter or longer, and so
no distance of such a vector from itself."""
_BEFORE, _AFTER = r"(?<![0-9A-Za-z\x80-\U0010ffff])", r"(?![0-9A-Za-z\x80-\U0010ffff])"
"""The borders of a word that nobody doubts. What is a letter beyond ASCII, each tokenizer knows for itself."""
_WORD = re.compile(rf"{_BEFORE}[0-9A-Za-z]{{6,39}}{_AFTER}")
"""Words that every way of taking texts apart leaves whole, that are too long to be left out as too common, and too
short to be left out as too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """What an index says that a scan does not, for some values of its column."""

    index: str
    values: int
    """How many values were looked up."""
    missed: int
    """Rows that the index does not find."""
    invented: int
    """Rows that it finds, and that don't hold the value."""
    doubled: int
    """Rows that it finds more than once."""

    def __str__(self) -> str:
        return (
            f"of the rows with {self.values} values it misses {self.missed}, invents {self.invented},"
            f" and gives {self.doubled} twice"
        )


def check_lookups(table: LanceTable, index: StoredIndex) -> Disagreement | None:
    """Ask the index for values from all over the table. DamagedError when it can't be read.

    An index of a kind that is not built here is only read.
    """
    column = index.columns[0]
    sample = _read_sample(table, column)
    if not len(sample):
        return None
    look = _choose_check(index.kind, sample.type)
    if look is None:
        load_index(table, index.name)
        return None
    found = look(table, index, sample)
    return found if found.missed or found.invented or found.doubled else None


def _choose_check(kind: str, type_: pa.DataType) -> Callable[[LanceTable, StoredIndex, pa.Array], Disagreement] | None:
    if kind in {BTREE, BITMAP} and _is_plain(type_):
        return _check_values
    if kind == LABEL_LIST and _is_plain(type_.value_type):
        return _check_labels
    if kind == INVERTED and pa.types.is_string(type_):
        return _check_words
    return _check_vectors if kind == VECTOR_INDEX else None


def _read_sample(table: LanceTable, column: str) -> pa.Array:
    """Values of some rows from all over the table."""
    rows = table.count()
    if not rows:
        return pa.array([], table.schema.field(column).type)
    places = np.unique(np.linspace(0, rows - 1, SAMPLE_ROWS).astype(np.int64))
    return concat_chunks(table.take(places.tolist(), [column]).column(column)).drop_null()


def _is_plain(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_temporal, pa.types.is_floating)
    return any(is_one(type_) for is_one in kinds)


def _check_values(table: LanceTable, index: StoredIndex, sample: pa.Array) -> Disagreement:
    values = _drop_incomparable(sample).unique()
    if not len(values):
        return _sum_disagreements(index, ())
    # Who asks for true and false at once asks for everything, and no index.
    asked = [values[place : place + 1] for place in range(len(values))] if values.type == pa.bool_() else [values]
    found = [(len(one), *find_by_index(table, index.columns[0], one)) for one in asked]
    return _sum_disagreements(
        index, (_compare_rows(index, count, hits, scanned, scanned) for count, hits, scanned in found)
    )


def _drop_incomparable(values: pa.Array) -> pa.Array:
    """Leave out what a scan and an index may differ about: zeros with a sign, and what is no number."""
    if not pa.types.is_floating(values.type):
        return values
    return values.filter(pc.and_(pc.is_finite(values), pc.not_equal(values, 0)))


def _check_labels(table: LanceTable, index: StoredIndex, sample: pa.Array) -> Disagreement:
    labels = list(_drop_incomparable(pc.list_flatten(sample).drop_null().unique()))
    found = [find_by_label(table, index.columns[0], label) for label in _pick_sample(labels)]
    return _sum_disagreements(index, (_compare_rows(index, 1, asked, scanned, scanned) for asked, scanned in found))


def _check_words(table: LanceTable, index: StoredIndex, sample: pa.Array) -> Disagreement:
    """What holds a word as it is must be found by it. What is found may hold another form of the word instead."""
    column = index.columns[0]
    texts = [_WORD.findall(text) for text in sample.to_pylist()]
    words = _pick_sample(list(dict.fromkeys(max(found, key=len) for found in texts if found)))
    holding = {word: _WordRows(word) for word in words}
    for batch in table.iter_batches([column], with_address=True) if words else ():
        for one in holding.values():
            one.scan(batch.column(column), batch.column(ADDRESS).to_numpy())
    found = ((find_by_word(table, column, word), one) for word, one in holding.items())
    return _sum_disagreements(
        index, (_compare_rows(index, 1, asked, one.certain, one.possible) for asked, one in found)
    )


class _WordRows:
    """The rows of a column that hold a word for certain, and those that may hold a form of it."""

    def __init__(self, word: str) -> None:
        self._exact = re.compile(rf"{_BEFORE}{word}{_AFTER}")
        self._word = word
        self._alike = rf"(?i)(^|[^0-9a-z]){word[:2]}|[^\x00-\x7f]"
        """Stems keep the first letters; letters beyond ASCII may stand for others."""
        self._certain: list[Addresses] = []
        self._possible: list[Addresses] = []

    def scan(self, texts: pa.Array, addresses: Addresses) -> None:
        """Go on with some rows."""
        there = pc.fill_null(pc.match_substring(texts, self._word), False).to_numpy(zero_copy_only=False)
        near = pc.fill_null(pc.match_substring_regex(texts, self._alike), False).to_numpy(zero_copy_only=False)
        places = np.flatnonzero(there)
        is_whole = [bool(self._exact.search(text)) for text in texts.take(pa.array(places)).to_pylist()]
        self._certain.append(addresses[places[np.array(is_whole, bool)]])
        self._possible.append(addresses[near])

    @property
    def certain(self) -> Addresses:
        """Those that must be found."""
        return np.concatenate([*self._certain, np.array([], np.uint64)])

    @property
    def possible(self) -> Addresses:
        """Those that may be."""
        return np.concatenate([*self._possible, np.array([], np.uint64)])


def _check_vectors(table: LanceTable, index: StoredIndex, sample: pa.Array) -> Disagreement:
    """A vector that is there must be found by itself, in some row."""
    asked = _pick_sample([one.values for one in sample if _has_distance(one.values)])
    missed = doubled = 0
    for vector in asked:
        addresses, distances = find_by_vector(table, index.columns[0], vector, NEIGHBOURS_PER_SEARCH)
        missed += not len(distances) or float(distances.min()) > _MAX_SELF_DISTANCE
        doubled += len(addresses) - len(np.unique(addresses))
    return Disagreement(index=index.name, values=len(asked), missed=missed, invented=0, doubled=doubled)


def _has_distance(vector: pa.Array) -> bool:
    """Whether its distance from itself can be told; of one that has no number in it, or no direction, it can't."""
    shortest, longest = _VECTOR_LENGTHS
    return bool(shortest <= np.linalg.norm(np.asarray(vector, np.float64)) <= longest)


def _pick_sample(values: list[_T]) -> list[_T]:
    """A few of them, from all over."""
    places = np.unique(np.linspace(0, len(values) - 1, MAX_SEARCHES).astype(np.int64)) if values else ()
    return [values[place] for place in places]


def _compare_rows(
    index: StoredIndex, values: int, asked: Addresses, wanted: Addresses, allowed: Addresses
) -> Disagreement:
    once = np.unique(asked)
    return Disagreement(
        index=index.name,
        values=values,
        missed=len(np.setdiff1d(wanted, once)),
        invented=len(np.setdiff1d(once, allowed)),
        doubled=len(asked) - len(once),
    )


def _sum_disagreements(index: StoredIndex, parts: Iterable[Disagreement]) -> Disagreement:
    found = list(parts)
    return Disagreement(
        index=index.name,
        values=sum(one.values for one in found),
        missed=sum(one.missed for one in found),
        invented=sum(one.invented for one in found),
        doubled=sum(one.doubled for one in found),
    )
