"""Check that an index finds the same rows as a scan of its column, for a sample of stored values."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.tables.index_advisor import BITMAP, BTREE, INVERTED, LABEL_LIST
from omnigraph.storage.columnar_sets import concat_chunks
from omnigraph.storage.index_staging import StoredIndex
from omnigraph.storage.integrity_check import find_by_index, find_by_label, find_by_vector, find_by_word, load_index
from omnigraph.storage.lance_table import ADDRESS, LanceTable
from omnigraph.storage.row_addresses import Addresses
from omnigraph.storage.vector_search import IVF_FLAT

_T = TypeVar("_T")
# The number of rows whose values are looked up.
SAMPLE_ROWS = 64
# The number of labels, words or vectors, each of which needs a separate search.
MAX_SEARCHES = 8
NEIGHBOURS_PER_SEARCH = 8
# The largest distance of a vector from itself in single precision.
_MAX_SELF_DISTANCE = 1e-4
# Vectors of other lengths are not searched: single precision can't represent the square of a much shorter or longer
# one, and so no distance of such a vector from itself.
_VECTOR_LENGTHS = (1e-12, 1e12)
# Word borders on which all tokenizers agree; they differ in which characters beyond ASCII are letters.
_BEFORE = r"(?<![0-9A-Za-z\x80-\U0010ffff])"
_AFTER = r"(?![0-9A-Za-z\x80-\U0010ffff])"
# Words that every tokenizer keeps whole: too long to be dropped as stop words, too short to be dropped as too long.
_WORD = re.compile(rf"{_BEFORE}[0-9A-Za-z]{{6,39}}{_AFTER}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """The differences between an index and a scan, for some values of its column."""

    index: str
    values: int
    """The number of values that were looked up."""
    missed: int
    """Rows that the index does not find."""
    invented: int
    """Rows that it finds but that don't have the value."""
    doubled: int
    """Rows that it finds more than once."""

    def __str__(self) -> str:
        return (
            f"of the rows with {self.values} values it misses {self.missed}, invents {self.invented},"
            f" and returns {self.doubled} twice"
        )


def check_lookups(table: LanceTable, index: StoredIndex) -> Disagreement | None:
    """Look up values from all over the table in an index; return its disagreement with a scan, or None.

    An index of a kind that this engine does not build is only loaded.

    Raises:
        DamagedError: The index can't be read.
    """
    column = index.columns[0]
    sample = _read_sample(table, column)
    if not len(sample):
        return None
    check = _choose_check(index.kind, sample.type)
    if check is None:
        load_index(table, index.name)
        return None
    result = check(table, index, sample)
    return result if result.missed or result.invented or result.doubled else None


def _choose_check(kind: str, type_: pa.DataType) -> Callable[[LanceTable, StoredIndex, pa.Array], Disagreement] | None:
    if kind in {BTREE, BITMAP} and _is_plain(type_):
        return _check_values
    if kind == LABEL_LIST and _is_plain(type_.value_type):
        return _check_labels
    if kind == INVERTED and pa.types.is_string(type_):
        return _check_words
    return _check_vectors if kind == IVF_FLAT else None


def _read_sample(table: LanceTable, column: str) -> pa.Array:
    """Return the values of evenly spaced rows, without nulls."""
    rows = table.count()
    if not rows:
        return pa.array([], table.schema.field(column).type)
    positions = np.unique(np.linspace(0, rows - 1, SAMPLE_ROWS).astype(np.int64))
    return concat_chunks(table.take(positions.tolist(), [column]).column(column)).drop_null()


def _is_plain(type_: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_temporal, pa.types.is_floating)
    return any(is_kind(type_) for is_kind in kinds)


def _check_values(table: LanceTable, index: StoredIndex, sample: pa.Array) -> Disagreement:
    values = _drop_incomparable(sample).unique()
    if not len(values):
        return _sum_disagreements(index, ())
    lookups = [values]
    if values.type == pa.bool_():
        # A lookup of both true and false would select every row, and Lance would not use the index.
        lookups = [values[row : row + 1] for row in range(len(values))]
    results = []
    for lookup in lookups:
        hits, scanned = find_by_index(table, index.columns[0], lookup)
        results.append(_compare_rows(index, len(lookup), hits, scanned, scanned))
    return _sum_disagreements(index, results)


def _drop_incomparable(values: pa.Array) -> pa.Array:
    """Drop values about which a scan and an index may rightly differ: signed zeros, and what is not a finite number."""
    if not pa.types.is_floating(values.type):
        return values
    return values.filter(pc.and_(pc.is_finite(values), pc.not_equal(values, 0)))


def _check_labels(table: LanceTable, index: StoredIndex, sample: pa.Array) -> Disagreement:
    labels = list(_drop_incomparable(pc.list_flatten(sample).drop_null().unique()))
    lookups = [find_by_label(table, index.columns[0], label) for label in _pick_sample(labels)]
    return _sum_disagreements(index, (_compare_rows(index, 1, hits, scanned, scanned) for hits, scanned in lookups))


def _check_words(table: LanceTable, index: StoredIndex, sample: pa.Array) -> Disagreement:
    """Check that the index finds all texts with a whole word, and none that can't have a form of it."""
    column = index.columns[0]
    words_by_text = [_WORD.findall(text) for text in sample.to_pylist()]
    words = _pick_sample(list(dict.fromkeys(max(words, key=len) for words in words_by_text if words)))
    rows_by_word = {word: _WordRows(word) for word in words}
    for batch in table.iter_batches([column], with_address=True) if words else ():
        for rows in rows_by_word.values():
            rows.scan(batch.column(column), batch.column(ADDRESS).to_numpy())
    searches = ((find_by_word(table, column, word), rows) for word, rows in rows_by_word.items())
    return _sum_disagreements(
        index, (_compare_rows(index, 1, hits, rows.certain, rows.possible) for hits, rows in searches)
    )


class _WordRows:
    """The rows of a column that certainly contain a word, and those that may contain a form of it."""

    def __init__(self, word: str) -> None:
        self._exact = re.compile(rf"{_BEFORE}{word}{_AFTER}")
        self._word = word
        # Stemming keeps the first letters; letters beyond ASCII may be folded into others.
        self._similar = rf"(?i)(^|[^0-9a-z]){word[:2]}|[^\x00-\x7f]"
        self._certain: list[Addresses] = []
        self._possible: list[Addresses] = []

    def scan(self, texts: pa.Array, addresses: Addresses) -> None:
        """Add the matches among these rows."""
        # Arrow's substring search is a cheap prefilter: only its hits are matched by Python's regular expression.
        has_substring = pc.fill_null(pc.match_substring(texts, self._word), False).to_numpy(zero_copy_only=False)
        is_similar = pc.fill_null(pc.match_substring_regex(texts, self._similar), False).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(has_substring)
        is_whole = [bool(self._exact.search(text)) for text in texts.take(pa.array(rows)).to_pylist()]
        self._certain.append(addresses[rows[np.array(is_whole, bool)]])
        self._possible.append(addresses[is_similar])

    @property
    def certain(self) -> Addresses:
        """The rows that the index must find."""
        return np.concatenate([*self._certain, np.array([], np.uint64)])

    @property
    def possible(self) -> Addresses:
        """The rows that the index may find."""
        return np.concatenate([*self._possible, np.array([], np.uint64)])


def _check_vectors(table: LanceTable, index: StoredIndex, sample: pa.Array) -> Disagreement:
    """Check that a search for a stored vector finds a row at distance zero, and no row twice."""
    vectors = _pick_sample([scalar.values for scalar in sample if _has_distance(scalar.values)])
    missed = 0
    doubled = 0
    for vector in vectors:
        addresses, distances = find_by_vector(table, index.columns[0], vector, NEIGHBOURS_PER_SEARCH)
        missed += not len(distances) or float(distances.min()) > _MAX_SELF_DISTANCE
        doubled += len(addresses) - len(np.unique(addresses))
    return Disagreement(index=index.name, values=len(vectors), missed=missed, invented=0, doubled=doubled)


def _has_distance(vector: pa.Array) -> bool:
    """Return whether a vector has a distance from itself: false with NaN or infinity in it, and for a zero vector."""
    shortest, longest = _VECTOR_LENGTHS
    return bool(shortest <= np.linalg.norm(np.asarray(vector, np.float64)) <= longest)


def _pick_sample(values: list[_T]) -> list[_T]:
    """Return a few evenly spaced values."""
    indexes = np.unique(np.linspace(0, len(values) - 1, MAX_SEARCHES).astype(np.int64)) if values else ()
    return [values[index] for index in indexes]


def _compare_rows(
    index: StoredIndex, values: int, hits: Addresses, required: Addresses, allowed: Addresses
) -> Disagreement:
    distinct_hits = np.unique(hits)
    return Disagreement(
        index=index.name,
        values=values,
        missed=len(np.setdiff1d(required, distinct_hits)),
        invented=len(np.setdiff1d(distinct_hits, allowed)),
        doubled=len(hits) - len(distinct_hits),
    )


def _sum_disagreements(index: StoredIndex, parts: Iterable[Disagreement]) -> Disagreement:
    terms = list(parts)
    return Disagreement(
        index=index.name,
        values=sum(part.values for part in terms),
        missed=sum(part.missed for part in terms),
        invented=sum(part.invented for part in terms),
        doubled=sum(part.doubled for part in terms),
    )
