"""The second half of a load in this process: checked rows stream into their tables."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from omnigraph.engine.bulk.load_batch import TypeBatch
from omnigraph.engine.bulk.upsert import iter_merged_batches
from omnigraph.engine.writing.blob_claims import redeem_claims
from omnigraph.ops.load_call import PUBLISHING, LoadCall, TypeCounts
from omnigraph.ops.write_tables import TableWrite
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.staging import RowStream


def count_changes(rows: TypeBatch) -> TypeCounts:
    """What a load does to a type, all of whose rows are here."""
    is_kept = ~rows.is_excluded
    known = int((rows.exists & is_kept).sum())
    read = int(is_kept.sum())
    unchanged = int((rows.is_unchanged & is_kept).sum())
    return TypeCounts(
        read=read,
        inserted=read - known,
        updated=known - unchanged,
        unchanged=unchanged,
        deleted=rows.table.count() - known if rows.replaces_all else 0,
    )


class LoadWriter:
    """The rows of every type on their way into their tables."""

    def __init__(self, call: LoadCall, blobs: BlobSources) -> None:
        self._call, self._blobs = call, blobs
        self._rows = self._open = 0

    def build_writes(self, rows: TypeBatch) -> Iterator[TableWrite]:
        """What happens to a type's table: nothing, or one write."""
        key = rows.type.table_key
        is_written = ~rows.is_excluded & ~rows.is_unchanged
        if not is_written.any() and not (rows.replaces_all and rows.table.count()):
            return
        self._open += 1
        stream = RowStream(
            batches=lambda: self._report_rows(
                redeem_claims(rows.type, iter_merged_batches(rows, is_written), rows.table, self._blobs)
            )
        )
        if rows.replaces_all:
            yield TableWrite(table_key=key, overwrite=stream)
        elif rows.existing is not None and rows.exists[is_written].any():
            is_replacing = is_written & rows.exists
            replaced = rows.read_ids().filter(pa.array(is_replacing))
            stream = replace(stream, keys=replaced, located=rows.existing.locate(is_replacing))
            yield TableWrite(table_key=key, upsert=stream)
        else:
            yield TableWrite(table_key=key, append=stream)

    def _report_rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._rows += batch.num_rows
            self._call.report_progress("write", self._rows)
            yield batch
        self._open -= 1
        if not self._open:
            self._call.report_progress(PUBLISHING, self._rows)
