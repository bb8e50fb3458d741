"""The progress of a query that reads whole tables: how many of their rows were read."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

ReportProgress = Callable[["QueryProgress"], None]


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """How far a query on DuckDB is. Joins and sorts may go on after the last row was read."""

    rows: int
    """The rows that were read so far, of all tables."""
    total_rows: int
    """The rows of the tables. One that is joined with itself counts each time."""

    @property
    def share(self) -> float:
        """The share of the rows that was read."""
        return self.rows / self.total_rows if self.total_rows else 1.0


class ProgressMeter:
    """Counts the rows that the streams of a query read, in several threads."""

    def __init__(self, report: ReportProgress | None) -> None:
        self._report = report
        self._lock = threading.Lock()
        self._rows = 0
        self._total = 0

    def expect(self, rows: int) -> None:
        """Add to the rows that will be read."""
        with self._lock:
            self._total += rows

    def add(self, rows: int) -> None:
        """Add to the rows that were read."""
        with self._lock:
            self._rows += rows
            # DuckDB may read a stream again.
            self._total = max(self._total, self._rows)

    def report(self) -> None:
        """Report the rows so far to the caller, if there is one."""
        if self._report is not None:
            with self._lock:
                progress = QueryProgress(self._rows, self._total)
            self._report(progress)
