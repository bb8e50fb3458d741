"""Present a scan of a plan to DuckDB as Arrow streams: our own evaluator applies its filters to every batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.duckdb.table_streams import (
    MIN_STREAM_ROWS,
    ReadState,
    TableStream,
    group_fragments,
    iter_small_batches,
)
from omnigraph.engine.predicate_eval import evaluate, find_columns
from omnigraph.engine.query_inputs import QueryInputs
from omnigraph.engine.relational.tree import ROW_POSITION, ScanRows
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.schema.arrow import DST, SRC
from omnigraph.storage.lance_table import ADDRESS


@dataclass(frozen=True, slots=True)
class ScanSource:
    """What all streams of one scan share."""

    scan: ScanRows
    reader: TableReader
    inputs: QueryInputs
    state: ReadState

    @property
    def schema(self) -> pa.Schema:
        """The columns of the scan, under the names that they have in the plan."""
        stored = self.reader.table.schema
        return pa.schema(
            [
                pa.field(name, pa.int64() if column == ROW_POSITION else stored.field(column).type)
                for column, name in self.scan.columns
            ]
        )


class ScanStream(TableStream):
    """The rows of some fragments that pass the filters of a scan."""

    def __init__(self, source: ScanSource, fragments: Sequence[int]) -> None:
        super().__init__(source.reader.table, fragments, source.state)
        self._source = source
        self._schema = source.schema
        self._stored = {name: column for column, name in source.scan.columns}

    def _read_batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        scan = self._source.scan
        wanted = [self._stored[name] for name in schema.names]
        filtered = [column for expr in scan.filters for column in find_columns(expr)]
        ends = [SRC, DST] if scan.is_loop_left_out else []
        stored = list(dict.fromkeys([*(column for column in wanted if column != ROW_POSITION), *filtered, *ends]))
        with_row = ROW_POSITION in wanted or not stored
        batches = iter_small_batches(self._table, stored, self._fragments, with_address=with_row)
        for batch in batches:
            self._state.meter.add(batch.num_rows)
            rows = self._filter(pa.Table.from_batches([batch]))
            columns = [self._read_column(rows, column) for column in wanted]
            yield from pa.Table.from_arrays(columns, schema=schema).to_batches()

    def _filter(self, rows: pa.Table) -> pa.Table:
        # Each predicate reads only the rows that the ones before it have left.
        for predicate in self._source.scan.filters:
            rows = rows.filter(evaluate(predicate, rows, self._source.inputs))
        if self._source.scan.is_loop_left_out:
            rows = rows.filter(pc.not_equal(rows.column(SRC), rows.column(DST)))
        return rows

    def _read_column(self, rows: pa.Table, column: str) -> pa.Array | pa.ChunkedArray:
        if column != ROW_POSITION:
            return rows.column(column)
        return pa.array(self._source.reader.columns.layout.find_positions(rows.column(ADDRESS)), pa.int64())


def split_scan(source: ScanSource, count: int, min_rows: int = MIN_STREAM_ROWS) -> list[ScanStream]:
    """Return a scan as up to `count` streams with similar numbers of rows."""
    source.state.meter.expect(source.reader.count)
    return [ScanStream(source, numbers) for numbers in group_fragments(source.reader.table, count, min_rows)]
