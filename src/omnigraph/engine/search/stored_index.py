"""Search a stored segment: only the blocks, postings and words that a query needs are read, and cached.

What is damaged or gone is noticed when it is read. The segment is then built again in memory from the texts, with the
same numbers for words and stems, so that a search which has begun goes on.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from omnigraph.concurrency import create_lock
from omnigraph.engine.search.fuzzy_terms import Spellings
from omnigraph.engine.search.index_codec import BLOCK_TOKENS, FragmentRows
from omnigraph.engine.search.inverted_index import InvertedIndex, Rows
from omnigraph.engine.search.segment_reader import SegmentReader
from omnigraph.engine.tables.content_cache import ContentCache
from omnigraph.engine.tables.derived_format import DerivedDataError
from omnigraph.telemetry import log

T = TypeVar("T")
TEXT_CACHE = "text segment"
# numpy raises a ValueError for bytes that are no whole number of items.
_UNREADABLE = (DerivedDataError, ValueError)
# Memory of a cached value besides its arrays, and of a stem as a Python string.
_ENTRY_BYTES, _STEM_BYTES = 256, 64


class StoredTextIndex:
    """A `TextIndex` in storage. Thread-safe."""

    def __init__(
        self,
        reader: SegmentReader,
        covered: FragmentRows,
        cache: ContentCache,
        key: str,
        rebuild: Callable[[], InvertedIndex],
    ) -> None:
        """Create an index of an open object; `rebuild` builds another if it can't be read."""
        self._reader = reader
        self._cache = cache
        self._key = key
        self._rebuild = rebuild
        self._rebuilt: InvertedIndex | None = None
        self._lock = create_lock()
        # `open_segment` has compared the header with what is wanted, so these numbers belong to these rows.
        self.size = covered.rows
        self.text_count, self.word_count = reader.text_count, reader.word_count

    @property
    def nbytes(self) -> int:
        """See `TextIndex`: what was read is cached, and counted, on its own."""
        return self._reader.nbytes + (0 if self._rebuilt is None else self._rebuilt.nbytes)

    @property
    def stored_bytes(self) -> int:
        """The size of the segment in storage."""
        return self._reader.stored_bytes

    @property
    def has_text(self) -> NDArray[np.bool_]:
        """See `TextIndex`."""
        return self._load("has_text", self._reader.read_has_text, lambda index: index.has_text, _measure)

    @property
    def lengths(self) -> NDArray[np.int32]:
        """See `TextIndex`."""
        return self._load("lengths", self._reader.read_lengths, lambda index: index.lengths, _measure)

    @property
    def starts(self) -> NDArray[np.int64]:
        """See `TextIndex`."""
        return self._load("starts", self._reader.read_starts, lambda index: index.starts, _measure)

    @property
    def token_of(self) -> NDArray[np.int32]:
        """See `TextIndex`."""
        return self._load("token_of", self._reader.read_token_of, lambda index: index.token_of, _measure)

    @property
    def spellings(self) -> Spellings:
        """See `TextIndex`."""
        return self._load(
            "spellings", self._reader.read_spellings, lambda index: index.spellings, lambda value: value.nbytes
        )

    @property
    def token_spellings(self) -> Spellings:
        """See `TextIndex`."""
        return self._load(
            "token spellings", self._read_token_spellings, lambda index: index.token_spellings, lambda v: v.nbytes
        )

    def find_token(self, stem: str) -> int | None:
        """See `TextIndex`."""
        stems = self._load(
            "block stems", self._reader.read_block_stems, lambda index: tuple(index.tokens), _measure_stems
        )
        # This read may have noticed damage: then `stems` are all stems of the rebuilt index, not the first of blocks.
        if self._rebuilt is not None:
            return self._rebuilt.find_token(stem)
        # Stems are numbered in their order as text, which is that of the blocks: no hash table has to be read.
        block = bisect_right(stems, stem) - 1
        if block < 0:
            return None
        _, of_block = self._get_block(block)
        if self._rebuilt is not None:
            return self._rebuilt.find_token(stem)
        at = bisect_right(of_block, stem) - 1
        return block * BLOCK_TOKENS + at if of_block[at] == stem else None

    def get_postings(self, token: int) -> tuple[Rows, NDArray[np.int32]]:
        """See `TextIndex`."""
        return self._load(
            ("postings", token),
            lambda: self._read_postings(token),
            lambda index: index.get_postings(token),
            lambda postings: _measure(postings[0]) + _measure(postings[1]),
        )

    def take_words(self, at: NDArray[np.int64]) -> NDArray[np.int32]:
        """See `TextIndex`. What is read is not cached: it is needed for single rows."""
        if self._rebuilt is None:
            try:
                return self._reader.take_words(at)
            except _UNREADABLE as error:
                self._replace(error)
        return self._get_rebuilt().take_words(at)

    def _get_block(self, block: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return where the postings of each token of a block begin, and the last ones end, and the stems."""

        def measure(found: tuple[NDArray[np.int64], tuple[str, ...]]) -> int:
            return _measure(found[0]) + _measure_stems(found[1])

        return self._load(
            ("block", block),
            lambda: self._reader.read_block(block),
            lambda index: (
                index.bounds[block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS + 1],
                tuple(index.tokens)[block * BLOCK_TOKENS : (block + 1) * BLOCK_TOKENS],
            ),
            measure,
        )

    def _read_postings(self, token: int) -> tuple[Rows, NDArray[np.int32]]:
        # These may be of a rebuilt index: it has the same numbers for tokens, and so the same bounds of postings.
        bounds, _ = self._get_block(token // BLOCK_TOKENS)
        low, high = bounds[token % BLOCK_TOKENS : token % BLOCK_TOKENS + 2].tolist()
        return self._reader.read_postings(low, high)

    def _read_token_spellings(self) -> Spellings:
        blocks = range(-(-self._reader.tokens // BLOCK_TOKENS))
        return Spellings([stem for block in blocks for stem in self._get_block(block)[1]])

    # --- falling back ---------------------------------------------------------------------------------

    def _load(
        self, what: Hashable, read: Callable[[], T], get: Callable[[InvertedIndex], T], nbytes: Callable[[T], int]
    ) -> T:
        if self._rebuilt is None:
            # It names the files of the rows, and a segment never changes: all versions and branches share the entry.
            key = (TEXT_CACHE, self._key, what)
            try:
                return self._cache.get_or_build(key, read, lambda value: _ENTRY_BYTES + nbytes(value))
            except _UNREADABLE as error:
                self._replace(error)
        return get(self._get_rebuilt())

    def _replace(self, error: Exception) -> None:
        # Searches of several threads notice the same damage; the texts are analysed once.
        with self._lock:
            if self._rebuilt is None:
                log.warning("a stored text index can't be used (%s) and is built again", error)
                self._rebuilt = self._rebuild()

    def _get_rebuilt(self) -> InvertedIndex:
        rebuilt = self._rebuilt
        assert rebuilt is not None  # noqa: S101 - callers have replaced what is stored
        return rebuilt


def _measure(array: NDArray[np.generic]) -> int:
    return int(array.nbytes)


def _measure_stems(stems: tuple[str, ...]) -> int:
    return _STEM_BYTES * len(stems)
