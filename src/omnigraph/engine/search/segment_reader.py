"""Read the parts of a stored segment, and check that their numbers are in range."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.search.fuzzy_terms import Spellings
from omnigraph.engine.search.index_codec import BLOCK_TOKENS, INT32, INT64, TAG, FragmentRows, is_ascending
from omnigraph.engine.search.inverted_index import Rows
from omnigraph.engine.tables.derived_format import DerivedDataError
from omnigraph.engine.tables.derived_pages import PagedObject, RangeReader, open_paged

_TYPES: dict[str, np.dtype[Any]] = {"<u2": np.dtype("<u2"), "<i4": INT32}


class SegmentReader:
    """The parts of a stored segment. Nothing is cached.

    Every method may raise a DerivedDataError, or a ValueError for bytes that are no whole number of items.
    """

    def __init__(self, stored: PagedObject, covered: FragmentRows) -> None:
        self._stored = stored
        self._rows = covered.rows
        self.nbytes = stored.nbytes
        self.stored_bytes = stored.stored_bytes
        header = stored.header
        self.text_count = int(header["text_count"])
        self.word_count = int(header["word_count"])
        self.tokens, self._words = int(header["tokens"]), int(header["words"])

    def read_has_text(self) -> NDArray[np.bool_]:
        """Return which rows have a text."""
        bits = np.frombuffer(self._stored.read_part("has_text"), np.uint8)
        if len(bits) != -(-self._rows // 8):
            _reject("has_text")
        return np.unpackbits(bits, count=self._rows).astype(np.bool_)

    def read_lengths(self) -> NDArray[np.int32]:
        """Return the number of words of each row."""
        lengths = np.frombuffer(self._stored.read_part("lengths"), self._get_type("lengths")).astype(np.int32)
        # `starts` are sums of these lengths: with a wrong one, the words of another row would be read.
        if len(lengths) != self._rows or (lengths < 0).any() or int(lengths.sum(dtype=np.int64)) != self.word_count:
            _reject("lengths")
        return lengths

    def read_starts(self) -> NDArray[np.int64]:
        """Return where the words of each row start."""
        starts = np.zeros(self._rows + 1, np.int64)
        np.cumsum(self.read_lengths(), out=starts[1:])
        return starts

    def read_token_of(self) -> NDArray[np.int32]:
        """Return the token of each word."""
        numbers = np.frombuffer(self._stored.read_part("token_of"), INT32)
        if len(numbers) != self._words:
            _reject("token_of")
        return self._check_numbers(numbers, self.tokens)

    def read_spellings(self) -> Spellings:
        """Return the words, laid out for fuzzy matching."""
        return Spellings(_split(self._stored.read_part("words"), self._words, "words"))

    def read_block_stems(self) -> tuple[str, ...]:
        """Return the first stem of each block."""
        stems = _split(self._stored.read_part("block_stems"), -(-self.tokens // BLOCK_TOKENS), "block_stems")
        return tuple(stems)

    def read_block(self, block: int) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return where the postings of each token of a block begin, and the last ones end, and the stems."""
        tokens = min(BLOCK_TOKENS, self.tokens - block * BLOCK_TOKENS)
        start, stop = np.frombuffer(self._stored.read_range("block_starts", 8 * block, 16), INT64).tolist()
        data = self._stored.read_range("blocks", start, stop - start)
        size = (tokens + 1) * INT64.itemsize
        if tokens <= 0 or len(data) < size:
            _reject("blocks")
        bounds = np.frombuffer(data[:size], INT64)
        # A stem is in the dictionary because a row has it, so none has an empty list.
        if int(bounds[0]) < 0 or (np.diff(bounds) <= 0).any():
            _reject("blocks")
        return bounds, tuple(_split(data[size:], tokens, "blocks"))

    def read_postings(self, low: int, high: int) -> tuple[Rows, NDArray[np.int32]]:
        """Return rows and frequencies of the postings from one number on to another."""
        width = 2 * INT32.itemsize
        data = np.frombuffer(self._stored.read_range("postings", low * width, (high - low) * width), INT32)
        rows, times = data[: high - low], data[high - low :]
        if not is_ascending(rows) or (times <= 0).any():
            _reject("postings")
        return self._check_numbers(rows, self._rows), times

    def take_words(self, at: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the words at these ascending places."""
        return self._check_numbers(self._stored.take("stream", self._get_type("stream"), at), self._words)

    def _get_type(self, part: str) -> np.dtype[Any]:
        try:
            return _TYPES[self._stored.header["types"][part]]
        except (KeyError, TypeError) as error:
            message = f"`{part}` is of another type"
            raise DerivedDataError(message) from error

    def _check_numbers(self, numbers: NDArray[np.int32] | NDArray[np.uint16], limit: int) -> NDArray[np.int32]:
        """Return the numbers if they count something of `limit` items.

        Bytes that match their checksums may still be foreign: they must not be used as indices unchecked.
        """
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < limit:
            message = "it has numbers out of range"
            raise DerivedDataError(message)
        return numbers.astype(np.int32, copy=False)


def open_segment(read: RangeReader, covered: FragmentRows, language: str | None) -> SegmentReader:
    """Open a stored segment with these rows.

    Raises:
        DerivedDataError: It is missing, damaged, of another format or of other rows.
    """
    # The digest in a name proves nothing: the header says in full what is covered, and is compared.
    stored = open_paged(TAG, read)
    header = stored.header
    try:
        fragments = tuple(map(tuple, header["fragments"]))
        is_wanted = (fragments, header["offset"], header["rows"], header["language"]) == (
            covered.fragments,
            covered.offset,
            covered.rows,
            language,
        )
        counts = [int(header[name]) for name in ("tokens", "words", "text_count", "word_count")]
    except (KeyError, TypeError, ValueError) as error:
        message = "its header has another form"
        raise DerivedDataError(message) from error
    if not is_wanted or min(counts) < 0 or counts[2] > covered.rows:
        _reject("header")
    return SegmentReader(stored, covered)


def _reject(part: str) -> None:
    message = f"`{part}` is inconsistent"
    raise DerivedDataError(message)


def _split(data: memoryview, count: int, part: str) -> list[str]:
    """Return the texts of a list separated by line breaks."""
    try:
        texts = str(data, "utf-8").split("\n") if len(data) else []
    except UnicodeDecodeError as error:
        message = f"`{part}` is no text"
        raise DerivedDataError(message) from error
    if len(texts) != count or not all(texts):
        _reject(part)
    return texts
