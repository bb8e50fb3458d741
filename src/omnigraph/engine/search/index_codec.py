"""Encode the inverted index of some rows for storage beside the table, and name it by the files of these rows.

The words of a column are stored in segments that never change. A segment is named by the fragments that it covers, so
that a reader finds those of its version in one listing, whichever branch or commit it reads.
"""

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import Stemmer
from numpy.typing import NDArray

from omnigraph.engine.search.inverted_index import InvertedIndex
from omnigraph.engine.tables.derived_format import Body
from omnigraph.engine.tables.derived_pages import encode_paged
from omnigraph.storage.layout import build_derived_key

TEXT = "text"
# Names the format, and the versions that words depend on: an index of other versions must not be used.
TAG = f"omnigraph derived text 1, unicode {unicodedata.unidata_version}, stemmer {Stemmer.version()}\n".encode()
# Tokens of one block of the dictionary. A look-up reads one block: its first tokens are in memory.
BLOCK_TOKENS = 128
# Stored types are little-endian, whatever the machine; row numbers and places in a text fit into 32 bits.
INT32, INT64 = np.dtype("<i4"), np.dtype("<i8")
_SMALL = np.dtype("<u2")

Files = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FragmentRows:
    """The rows that were written to some fragments, each identified by its files, or a part of those of one."""

    fragments: tuple[Files, ...]
    rows: int
    offset: int = 0
    """The first row, counted in the first fragment."""

    def merge(self, other: "FragmentRows") -> "FragmentRows":
        """Return all rows of both, which are whole fragments."""
        return FragmentRows(self.fragments + other.fragments, self.rows + other.rows)


@dataclass(frozen=True, slots=True)
class SegmentName:
    """The name of a stored segment, which tells what it covers."""

    first: str
    """A digest of the first fragment: a reader looks segments up by it."""
    count: int
    offset: int
    rows: int
    digest: str
    """A digest of all fragments, the language and the format."""

    def __str__(self) -> str:
        return f"{self.first}-{self.count}-{self.offset}-{self.rows}-{self.digest}"


def build_segment_name(covered: FragmentRows, language: str | None) -> SegmentName:
    """Return the name of the segment with these rows."""
    return SegmentName(
        digest_fragments(covered.fragments[:1]),
        len(covered.fragments),
        covered.offset,
        covered.rows,
        digest_fragments(covered.fragments, language or "", TAG.decode()),
    )


def parse_segment_name(key: str) -> SegmentName | None:
    """Return the name at the end of an object's key; None if it is of another form."""
    *_, first, count_text, offset_text, rows_text, digest = ["", "", "", "", *key.split("-")]
    numbers = (count_text, offset_text, rows_text)
    if not all(number.isdecimal() for number in numbers):
        return None
    count, offset, rows = map(int, numbers)
    return SegmentName(first, count, offset, rows, digest)


def digest_fragments(fragments: Sequence[Files], *others: str) -> str:
    """Return a digest of fragments and what else a segment depends on."""
    text = "\n".join([*map(" ".join, fragments), *others])
    # Eight bytes keep keys short. Two digests that are equal by chance do no harm: a reader compares the header too.
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def build_text_prefix(path: str, field: int) -> str:
    """Return what the keys of a column's segments begin with, by the path of its table and its field number."""
    return f"{build_derived_key(TEXT, [path, str(field)])}-"


def encode_segment(index: InvertedIndex, covered: FragmentRows, language: str | None) -> list[Body]:
    """Encode the index of some rows."""
    stems = list(index.tokens)
    blocks = [
        _encode_block(stems[start : start + BLOCK_TOKENS], index.bounds[start : start + BLOCK_TOKENS + 1])
        for start in range(0, len(stems), BLOCK_TOKENS)
    ]
    # A million texts of 50 words take 0.3 GB of disk, with all parts.
    lengths, words = _shrink(index.lengths), _shrink(index.stream)
    arrays: dict[str, NDArray[Any]] = {
        "block_starts": np.cumsum([0, *map(len, blocks)]).astype(INT64),
        "postings": _interleave_postings(index),
        "lengths": lengths,
        "has_text": np.packbits(index.has_text),
        "token_of": index.token_of.astype(INT32),
        "stream": words,
    }
    parts: dict[str, Body] = {name: _to_bytes(array) for name, array in arrays.items()}
    # Words consist of letters, digits and marks, so a line break can separate them.
    parts["block_stems"] = "\n".join(stems[::BLOCK_TOKENS]).encode()
    parts["blocks"] = b"".join(blocks)
    parts["words"] = "\n".join(index.words).encode()
    header: dict[str, object] = {
        "fragments": covered.fragments,
        "offset": covered.offset,
        "rows": covered.rows,
        "language": language,
        "tokens": len(stems),
        "words": len(index.words),
        "text_count": index.text_count,
        "word_count": index.word_count,
        "types": {"lengths": lengths.dtype.str, "stream": words.dtype.str},
    }
    # Cleanup removes a segment with the first of these files that goes.
    files = {file for fragment in covered.fragments for file in fragment}
    return encode_paged(TAG, header, files, parts)


def _encode_block(stems: Sequence[str], bounds: NDArray[np.int64]) -> bytes:
    """Return where the postings of each stem begin, and after the last one end; then the stems."""
    return bounds.astype(INT64).tobytes() + "\n".join(stems).encode()


def _interleave_postings(index: InvertedIndex) -> NDArray[np.int32]:
    """Return token by token its rows, then its frequency in each: so that one read gets both."""
    postings = np.empty(2 * len(index.rows), INT32)
    for start in range(0, len(index.tokens), _TOKENS_PER_STEP):
        bounds = index.bounds[start : start + _TOKENS_PER_STEP + 1]
        low, high = int(bounds[0]), int(bounds[-1])
        counts = np.diff(bounds)
        at = np.arange(low, high)
        postings[at + np.repeat(bounds[:-1], counts)] = index.rows[low:high]
        postings[at + np.repeat(bounds[1:], counts)] = index.times[low:high]
    return postings


# It limits the memory of encoding.
_TOKENS_PER_STEP = 4_096


def _shrink(numbers: NDArray[np.int32]) -> NDArray[Any]:
    """Return the same numbers, none negative, in 16 bits each if they fit."""
    is_small = not len(numbers) or int(numbers.max()) <= np.iinfo(_SMALL).max
    return numbers.astype(_SMALL if is_small else INT32)


def _to_bytes(array: NDArray[Any]) -> Body:
    return array.data.cast("B") if array.size else b""


def is_ascending(numbers: NDArray[np.int32]) -> bool:
    """Return whether each number is larger than the one before."""
    return bool((numbers[1:] > numbers[:-1]).all())


def split_rows(rows: int, limit: int) -> list[tuple[int, int]]:
    """Split rows into parts of at most `limit`: the first row and the number of each."""
    bounds = [*range(0, rows, limit), rows]
    return [(start, stop - start) for start, stop in pairwise(bounds)]
