"""The result of a query: rows of the one snapshot that it read, fetched when they are needed."""

import threading
from collections.abc import Iterator

import pyarrow as pa

from omnigraph.engine.output.result_pipeline import ResultFrame
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result_forms import BATCH_ROWS, ResultForms, Target

# The largest batch when all rows are fetched, in rows and in bytes.
MAX_FETCH_ROWS = 131_072
_FETCH_BYTES = 4 * 1024 * 1024


class Result(ResultForms):
    """The rows of a query. Thread-safe.

    All forms have the same rows in the same order. `batches` holds one batch in memory at a time; the other forms hold
    all rows, once. Pickling fetches all rows, and the copy holds them.
    """

    def __init__(self, frame: ResultFrame, *, commit_id: str, target: Target) -> None:
        self._frame: ResultFrame | None = frame
        self._schema = frame.schema
        self._size = frame.size
        self._lock = threading.Lock()
        self._table: pa.Table | None = None
        self.commit_id = commit_id
        """The commit whose state was read."""
        self.target = target
        self.query_name = frame.query.name
        self.notes = frame.notes
        """What to know about the rows: a traversal that its upper bound cut off. Usually empty."""
        self.total_rows: int | None = None
        """The number of all rows, if these are a window of them."""

    @classmethod
    def of_table(
        cls,
        table: pa.Table,
        *,
        commit_id: str,
        target: Target,
        query_name: str,
        notes: tuple[str, ...] = (),
        total_rows: int | None = None,
    ) -> "Result":
        """Return a result that holds all of its rows, of a statement that was run elsewhere."""
        result = cls.__new__(cls)
        result.__setstate__({"_frame": None, "_table": table, "_schema": table.schema, "_size": table.num_rows})
        result.commit_id = commit_id
        result.target = target
        result.query_name = query_name
        result.notes = notes
        result.total_rows = total_rows
        return result

    def __getstate__(self) -> dict[str, object]:
        # Neither the lock nor the frame, which refers to open tables, can be pickled.
        state = {name: value for name, value in vars(self).items() if name != "_lock"}
        return {**state, "_frame": None, "_table": self.to_arrow()}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __repr__(self) -> str:
        return f"Result({self.query_name!r}, {self.row_count} rows, columns {', '.join(self.columns)})"

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow's fields."""
        return self._schema

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self._size

    def batches(self, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches of at most `size`; each is fetched when it is needed, and not kept in memory."""
        if size < 1:
            msg = f"a batch has at least one row, not {size}"
            raise ValueError(msg)
        if self._table is not None or self._frame is None:
            yield from self.to_arrow().to_batches(max_chunksize=size)
            return
        for start in range(0, self.row_count, size):
            yield self._frame.fetch(start, start + size)

    def part(self, start: int, stop: int) -> pa.RecordBatch:
        """Return the rows from `start` to before `stop`, or fewer at the end; only these are fetched."""
        if self._table is not None or self._frame is None:
            batches = self.to_arrow().slice(start, max(0, stop - start)).combine_chunks().to_batches()
            return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=self.schema)
        return self._frame.fetch(min(start, self.row_count), max(start, min(stop, self.row_count)))

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table. A node or edge is a struct; DateTime is in microseconds, UTC."""
        with self._lock:
            if self._table is None:
                assert self._frame is not None  # noqa: S101 - a copy has its table
                self._table = _fetch_all(self, self._frame.frame.context.budget)
            return self._table


def _fetch_all(result: Result, budget: Budget) -> pa.Table:
    """Return all rows of a result, within its budget."""
    batches = []
    claimed = 0
    start = 0
    size = BATCH_ROWS
    try:
        while start < result.row_count:
            batch = result.part(start, start + size)
            nbytes = batch.nbytes
            budget.claim(nbytes, f"the result of {result.row_count:,} rows")
            claimed += nbytes
            batches.append(batch)
            start += size
            # A batch costs about 0.4 ms beside its rows: narrow rows come in larger ones, of a bounded size.
            size = max(BATCH_ROWS, min(MAX_FETCH_ROWS, _FETCH_BYTES * batch.num_rows // max(nbytes, 1)))
    finally:
        # Only the fetch counts against the budget; the complete table is the caller's.
        budget.release(claimed)
    table = pa.Table.from_batches(batches, schema=result.schema)
    return table if len(batches) < 2 else table.combine_chunks()
