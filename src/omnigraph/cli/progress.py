"""The progress line of a long command: on stderr, on a terminal only, and removed at the end."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from omnigraph.telemetry import format_bytes

if TYPE_CHECKING:
    from omnigraph.engine.query_progress import QueryProgress

# The line is redrawn at most this often.
_MIN_REDRAW_SECONDS = 0.1
_BAR_CELLS = 24
# A query that takes less has no progress line.
_MIN_QUERY_SECONDS = 0.5
# Back to the start of the line, then erase it.
_CLEAR = "\r\x1b[2K"


@dataclass(slots=True)
class ProgressLine:
    """A line that is redrawn in place. It writes nothing if it is quiet or the stream is no terminal."""

    stream: TextIO | None
    is_quiet: bool = False
    _shown_at: float = field(default=-_MIN_REDRAW_SECONDS, init=False)
    _phase: str | None = field(default=None, init=False)

    @property
    def is_shown(self) -> bool:
        """Whether the stream is a terminal, and the line is not quiet."""
        return not self.is_quiet and self.stream is not None and self.stream.isatty()

    def show(self, phase: str, *, rows: int | None = None, nbytes: int = 0, share: float | None = None) -> None:
        """Show the phase, the rows and bytes processed so far, and their share of the total if known.

        Redraws are limited to a few per second; a new phase is shown immediately.
        """
        now = time.monotonic()
        if not self.is_shown or (phase == self._phase and now - self._shown_at < _MIN_REDRAW_SECONDS):
            return
        self._shown_at = now
        self._phase = phase
        # One column less than the terminal has: a full line would wrap, and could not be erased.
        width = shutil.get_terminal_size().columns - 1
        self._write(_CLEAR + format_progress(phase, rows=rows, nbytes=nbytes, share=share)[:width])

    def say(self, text: str) -> None:
        """Print a line that stays above the progress line."""
        if self.is_shown:
            self.clear()
            self._write(f"{text}\n")

    def clear(self) -> None:
        """Remove the progress line."""
        if self._phase is not None:
            self._write(_CLEAR)
            self._phase = None

    def _write(self, text: str) -> None:
        if self.stream is not None:
            self.stream.write(text)
            self.stream.flush()


@contextmanager
def show_progress(title: str, *, is_quiet: bool) -> Iterator[ProgressLine]:
    """Print the title and yield the progress line below it; both on a terminal's stderr only."""
    line = ProgressLine(sys.stderr, is_quiet=is_quiet)
    if line.is_shown:
        sys.stderr.write(f"{title}\n")
    try:
        yield line
    finally:
        line.clear()


@contextmanager
def show_query_progress() -> Iterator["Callable[[QueryProgress], None]"]:
    """Yield what shows the progress of a query in DuckDB, on a terminal's stderr, once it has taken some time."""
    line = ProgressLine(sys.stderr)
    start = time.monotonic()

    def show(progress: "QueryProgress") -> None:
        # Most queries end before anyone could read the line.
        if time.monotonic() - start >= _MIN_QUERY_SECONDS:
            phase = "reading" if progress.rows < progress.total_rows else "joining"
            line.show(phase, rows=progress.rows, share=progress.share)

    try:
        yield show
    finally:
        line.clear()


def format_progress(phase: str, *, rows: int | None = None, nbytes: int = 0, share: float | None = None) -> str:
    """Format the line, such as `reading  [=========>              ]  41%  120,000 rows  12.3 MB`."""
    parts = [] if rows is None else [f"{rows:,} rows"]
    if nbytes:
        parts.append(format_bytes(nbytes))
    counts = "  ".join(parts)
    if share is None:
        return f"{phase}  {counts}"
    full = int(min(share, 1.0) * _BAR_CELLS)
    bar = ("=" * full + (">" if full < _BAR_CELLS else "")).ljust(_BAR_CELLS)
    return f"{phase}  [{bar}] {min(share, 1.0):4.0%}  {counts}"
