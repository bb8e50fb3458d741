"""Validation of CSV quotes while the bytes are read: a reader that guesses would swallow rows or join cells."""

import numpy as np
import numpy.typing as npt

from omnigraph.engine.decoding.input_files import FileDamagedError

_QUOTE = ord('"')
_IS_QUOTE_NEIGHBOUR = np.zeros(256, bool)
_IS_QUOTE_NEIGHBOUR[list(b',\n\r"')] = True
"""The bytes that may surround a pair of quotes. A doubled quote is one that closes and opens."""


class QuoteChecker:
    """A checker of a file's bytes, in order, that rejects quotes that neither enclose a whole cell nor are doubled."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_open = False
        self._before = ord("\n")  # the byte before the next one
        self._lines = 1
        self._opened_at = 0

    @property
    def is_open(self) -> bool:
        """Whether the next byte is inside quotes."""
        return self._is_open

    def feed(self, chunk: bytes) -> None:
        """Check the next bytes."""
        if not chunk:
            return
        values = np.frombuffer(chunk, np.uint8)
        if not self._is_open and self._before == _QUOTE and not _IS_QUOTE_NEIGHBOUR[values[0]]:
            self._refuse(chunk, 0, "text follows a closing quote")
        quotes = np.flatnonzero(values == _QUOTE)
        if len(quotes):
            opening, closing = quotes[int(self._is_open) :: 2], quotes[int(not self._is_open) :: 2]
            self._check(chunk, values, opening, closing)
            self._is_open ^= len(quotes) % 2 == 1
            if len(opening):
                self._opened_at = self._find_line(chunk, int(opening[-1]))
        self._lines += chunk.count(b"\n")
        self._before = chunk[-1]

    def finish(self) -> None:
        """Check that the file does not end inside quotes."""
        if self._is_open:
            raise FileDamagedError(self._path, f"the quote that is opened on line {self._opened_at} is never closed")

    def _check(
        self,
        chunk: bytes,
        values: npt.NDArray[np.uint8],
        opening: npt.NDArray[np.int64],
        closing: npt.NDArray[np.int64],
    ) -> None:
        before = np.where(opening > 0, values[np.maximum(opening - 1, 0)], self._before)
        if not (is_right := _IS_QUOTE_NEIGHBOUR[before]).all():
            reason = 'a quote stands inside of a cell; write the cell in quotes, and its own quotes twice (`""`)'
            self._refuse(chunk, int(opening[~is_right][0]), reason)
        behind = closing[closing < len(values) - 1]
        if not (is_right := _IS_QUOTE_NEIGHBOUR[values[behind + 1]]).all():
            self._refuse(chunk, int(behind[~is_right][0]), "text follows a closing quote")

    def _refuse(self, chunk: bytes, place: int, reason: str) -> None:
        raise FileDamagedError(self._path, f"on line {self._find_line(chunk, place)}, {reason}")

    def _find_line(self, chunk: bytes, place: int) -> int:
        return self._lines + chunk.count(b"\n", 0, place)
