"""Find which of many texts contain, or begin with, which of many parts, without comparing each pair.

All parts of one length are looked up together: every place of the texts has a hash of the bytes from there on, and what
has the hash of a part is compared byte by byte. UTF-8 bytes of a text never begin in the middle of another's character,
so parts are compared as bytes.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.kernels import Check, expand_runs
from omnigraph.storage.arrow_buffers import fill_nulls, read_booleans

Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

# Fewer parts of one length are searched one after the other: hashing all places took as long as 40 to 80 searches.
MIN_HASHED_PARTS = 48
# Texts are hashed in blocks of about this many bytes, with 8 bytes for each place in four arrays.
MAX_BLOCK_BYTES = 1 << 21
# Odd, so that it has an inverse: a hash of the bytes from any place on is a difference of two sums, times a power.
_BASE = np.uint64(0x9E3779B97F4A7C15)
_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))


def find_prefixes(texts: pa.Array, prefixes: pa.Array, check: Check) -> tuple[Ints, Ints]:
    """Return the pairs of a text and a prefix that it begins with; all of them distinct and none null."""
    texts, prefixes = texts.cast(pa.large_binary()), prefixes.cast(pa.large_binary())
    pairs: list[tuple[Ints, Ints]] = []
    for length, numbers in _iter_lengths(prefixes):
        heads = pc.binary_slice(texts, 0, length)
        index = fill_nulls(pc.index_in(heads, value_set=prefixes.take(pa.array(numbers))), -1)
        rows = np.flatnonzero(index >= 0)
        pairs.append((rows, numbers[index[rows]]))
        check()
    return _concat_pairs(pairs)


def find_parts(texts: pa.Array, parts: pa.Array, check: Check) -> tuple[Ints, Ints]:
    """Return the pairs of a text and a part that it contains, each once; texts and parts are distinct and not null."""
    texts, parts = texts.cast(pa.large_binary()), parts.cast(pa.large_binary())
    pairs: list[tuple[Ints, Ints]] = []
    for length, numbers in _iter_lengths(parts):
        if length == 0:
            # Every text contains the empty one.
            pairs.append((np.arange(len(texts)), np.repeat(numbers, len(texts))))
        elif len(numbers) < MIN_HASHED_PARTS:
            pairs.extend(_search_part(texts, parts, number, check) for number in numbers.tolist())
        else:
            members = parts.take(pa.array(numbers))
            for start, block in _iter_blocks(texts):
                rows, members_found = _search_hashed(block, members, length)
                pairs.append((rows + start, numbers[members_found]))
                check()
    return _concat_pairs(pairs)


def _iter_lengths(parts: pa.Array) -> Iterator[tuple[int, Ints]]:
    """Yield each length of parts in bytes, and the numbers of the parts that have it."""
    lengths = np.diff(_read_offsets(parts))
    for length in np.unique(lengths).tolist():
        yield length, np.flatnonzero(lengths == length)


def _search_part(texts: pa.Array, parts: pa.Array, number: int, check: Check) -> tuple[Ints, Ints]:
    rows = np.flatnonzero(read_booleans(pc.match_substring(texts, pattern=parts[number].as_py())))
    check()
    return rows, np.full(len(rows), number, np.int64)


def _iter_blocks(texts: pa.Array) -> Iterator[tuple[int, pa.Array]]:
    """Yield blocks of texts and the row that each begins with; a longer text is a block of its own."""
    offsets = _read_offsets(texts)
    start = 0
    while start < len(texts):
        end = int(np.searchsorted(offsets, offsets[start] + MAX_BLOCK_BYTES, side="right")) - 1
        end = max(end, start + 1)
        yield start, texts[start:end]
        start = end


def _search_hashed(texts: pa.Array, parts: pa.Array, length: int) -> tuple[Ints, Ints]:
    """Return the pairs of a text and a part of this length that it contains."""
    data, offsets = _read_bytes(texts)
    part_data, part_offsets = _read_bytes(parts)
    counts = np.maximum(np.diff(offsets) - length + 1, 0)
    places = expand_runs(offsets[:-1], counts)
    part_hashes = _hash_places(part_data, part_offsets[:-1], length)
    order = np.argsort(part_hashes, kind="stable")
    ordered = part_hashes[order]
    hashes = _hash_places(data, places, length)
    begins, ends = np.searchsorted(ordered, hashes), np.searchsorted(ordered, hashes, side="right")
    hits = np.flatnonzero(ends > begins)
    # Different parts may have the same hash, so a place may have several candidates.
    candidates = (ends - begins)[hits]
    rows = np.repeat(np.repeat(np.arange(len(texts)), counts)[hits], candidates)
    members = order[expand_runs(begins[hits], candidates)]
    is_equal = _compare_bytes(data, np.repeat(places[hits], candidates), part_data, part_offsets[members], length)
    pairs = np.unique(rows[is_equal] * len(parts) + members[is_equal])
    return pairs // len(parts), pairs % len(parts)


def _hash_places(data: NDArray[np.uint8], places: Ints, length: int) -> Hashes:
    """Return a hash of the `length` bytes from each place on."""
    powers = np.full(len(data) + 1, _BASE)
    powers[0] = 1
    np.cumprod(powers, out=powers)
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum((data.astype(np.uint64) + np.uint64(1)) * powers[:-1], out=sums[1:])
    inverses = np.full(len(data) + 1, _INVERSE)
    inverses[0] = 1
    np.cumprod(inverses, out=inverses)
    hashes: Hashes = (sums[places + length] - sums[places]) * inverses[places]
    return hashes


def _compare_bytes(
    data: NDArray[np.uint8], places: Ints, others: NDArray[np.uint8], other_places: Ints, length: int
) -> NDArray[np.bool_]:
    """Return where the `length` bytes from two places on are equal."""
    is_equal = np.ones(len(places), np.bool_)
    for offset in range(length):
        is_equal &= data[places + offset] == others[other_places + offset]
    return is_equal


def _read_offsets(array: pa.Array) -> Ints:
    if not len(array):  # an empty array may have no offsets
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)


def _read_bytes(array: pa.Array) -> tuple[NDArray[np.uint8], Ints]:
    """Return the bytes of all values, and where each begins; one entry more for the end."""
    offsets = _read_offsets(array)
    first = int(offsets[0])
    buffer = array.buffers()[2]
    size = int(offsets[-1]) - first
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8, size, first)
    return data, offsets - first


def _concat_pairs(pairs: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([rows for rows, _ in pairs]), np.concatenate([parts for _, parts in pairs])
