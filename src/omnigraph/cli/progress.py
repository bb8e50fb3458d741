"""How far a long command is: one line on stderr, on a terminal only, gone when the command is done."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from omnigraph.telemetry import format_bytes

_MIN_REDRAW_SECONDS = 0.1
_BAR_CELLS = 24
_CLEAR = "\r\x1b[2K"


@dataclass(slots=True)
class ProgressLine:
    """A line that is written over and over. Off a terminal, or told to be quiet, it writes nothing."""

    stream: TextIO | None
    is_quiet: bool = False
    _shown_at: float = field(default=-_MIN_REDRAW_SECONDS, init=False)
    _phase: str | None = field(default=None, init=False)

    @property
    def is_shown(self) -> bool:
        """Whether there is anybody to look at it."""
        return not self.is_quiet and self.stream is not None and self.stream.isatty()

    def show(self, phase: str, *, rows: int | None = None, nbytes: int = 0, share: float | None = None) -> None:
        """Say what is being done, to how many rows and bytes so far, and which share of all that is, where it is known.

        A few times in a second at most; a new phase is shown at once.
        """
        now = time.monotonic()
        if not self.is_shown or (phase == self._phase and now - self._shown_at < _MIN_REDRAW_SECONDS):
            return
        self._shown_at, self._phase = now, phase
        width = shutil.get_terminal_size().columns - 1
        self._write(_CLEAR + format_progress(phase, rows=rows, nbytes=nbytes, share=share)[:width])

    def say(self, text: str) -> None:
        """A line that stays, above what is under way."""
        if self.is_shown:
            self.clear()
            self._write(f"{text}\n")

    def clear(self) -> None:
        """Leave nothing behind."""
        if self._phase is not None:
            self._write(_CLEAR)
            self._phase = None

    def _write(self, text: str) -> None:
        if self.stream is not None:
            self.stream.write(text)
            self.stream.flush()


@contextmanager
def show_progress(title: str, *, is_quiet: bool) -> Iterator[ProgressLine]:
    """The title on a line of its own, then what is under way below it; both on a terminal's stderr only."""
    line = ProgressLine(sys.stderr, is_quiet=is_quiet)
    if line.is_shown:
        sys.stderr.write(f"{title}\n")
    try:
        yield line
    finally:
        line.clear()


def format_progress(phase: str, *, rows: int | None = None, nbytes: int = 0, share: float | None = None) -> str:
    """`reading  [=========>              ]  41%  120,000 rows  12.3 MB`."""
    parts = [] if rows is None else [f"{rows:,} rows"]
    counts = "  ".join([*parts, format_bytes(nbytes)] if nbytes else parts)
    if share is None:
        return f"{phase}  {counts}"
    full = int(min(share, 1.0) * _BAR_CELLS)
    bar = ("=" * full + (">" if full < _BAR_CELLS else "")).ljust(_BAR_CELLS)
    return f"{phase}  [{bar}] {min(share, 1.0):4.0%}  {counts}"
