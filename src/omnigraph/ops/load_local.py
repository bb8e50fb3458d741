"""Check and write the records of a load in this process, from a spool; `LocalRecords` also reads them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import ArmedWrite
from omnigraph.commit.requirements import Requirement
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch
from omnigraph.engine.bulk.load_checks import check_batch, reject_broken_rows
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.rejected_records import UnreadableRecords
from omnigraph.engine.bulk.row_spool import Spool
from omnigraph.engine.bulk.upsert import find_unchanged, iter_merged_batches
from omnigraph.engine.decoding.typed_source import TypedFile
from omnigraph.engine.view import View
from omnigraph.engine.writing.blob_claims import redeem_claims
from omnigraph.ops.load_call import PUBLISHING, LoadCall, TypeCounts
from omnigraph.ops.load_inputs import GraphLines, InputSource, expand_inputs
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.s3_input_files import InputFile
from omnigraph.storage.staging import RowStream
from omnigraph.storage.watch import Watch


def count_changes(rows: TypeBatch) -> TypeCounts:
    """Return the row counts of a type whose rows are all in the batch."""
    is_accepted = ~rows.is_excluded
    existing = int((rows.exists & is_accepted).sum())
    read = int(is_accepted.sum())
    unchanged = int((rows.is_unchanged & is_accepted).sum())
    return TypeCounts(
        read=read,
        inserted=read - existing,
        updated=existing - unchanged,
        unchanged=unchanged,
        deleted=rows.table.count() - existing if rows.replaces_all else 0,
        duplicates=rows.duplicates,
    )


class LoadWriter:
    """Build the writes of a load, and report progress while their rows are streamed."""

    def __init__(self, call: LoadCall, blobs: BlobSources) -> None:
        self._call, self._blobs = call, blobs
        self._rows = 0
        self._unfinished = 0

    def build_writes(self, rows: TypeBatch) -> Iterator[TableWrite]:
        """Yield the write of a type's table, if it changes."""
        key = rows.type.table_key
        is_written = ~rows.is_excluded & ~rows.is_unchanged
        if not is_written.any() and not (rows.replaces_all and rows.table.count()):
            return
        # Counted when the writes are built, all of them before the first is streamed.
        self._unfinished += 1
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
        self._unfinished -= 1
        # The rows of the last table are written: publishing comes next.
        if not self._unfinished:
            self._call.report_progress(PUBLISHING, self._rows)


class SpooledRecords:
    """The records of a load in a spool of temporary files, see `LoadRecords`. `close` removes the files."""

    # No table file is written before the load is checked.
    armed: ArmedWrite | None = None

    def __init__(
        self, call: LoadCall, schema_id: str, blobs: BlobSources, inputs: InputNames, watch: Watch | None = None
    ) -> None:
        self._call = call
        self.schema_id = schema_id
        self._blobs = blobs
        self.inputs = inputs
        # Omitted properties are distinguished from nulls: a merge leaves them unchanged, and a quarantined record that
        # is loaded again by a merge must not clear them.
        self.spool = Spool(keeps_left_out=call.mode is LoadMode.MERGE or call.on_error is not None, watch=watch)
        numbers = {name: number for number, name in reversed(list(enumerate(inputs.names)))}
        self.rejects = UnreadableRecords(self.spool.directory if call.on_error is not None else None, numbers)
        # The types with records that were rejected while they were decoded.
        self.unreadable: set[str] = set()
        # The metadata of the first input that has any, see `LoadRecords.export`.
        self.export: str | None = None

    def describe(self, export: str) -> None:
        """Record the metadata of an input, unless an earlier one had some."""
        self.export = self.export or export

    def check(self, view: View, *, leaves_out: bool) -> LoadBatch:
        """See LoadRecords."""
        call = self._call
        types = {
            name: TypeBatch(spooled, view.get_table(spooled.type), call.mode)
            for name, spooled in self.spool.types.items()
        }
        for name, rows in types.items():
            rows.leaves_out, rows.has_unreadable = leaves_out, name in self.unreadable
            rows.only_known = call.only_known
            rows.on_duplicate = call.on_duplicate
        batch = LoadBatch(view=view, mode=call.mode, types=types)
        call.report_progress("check", sum(rows.spooled.rows for rows in types.values()))
        check_batch(batch, self.inputs)
        return batch

    def compare(self, batch: LoadBatch) -> None:
        """See LoadRecords."""
        if batch.mode is LoadMode.MERGE:
            for rows in batch.types.values():
                find_unchanged(rows)

    def count_changes(self, rows: TypeBatch) -> TypeCounts:
        """See LoadRecords."""
        return count_changes(rows)

    def count_generated_ids(self, rows: TypeBatch) -> int:
        """See LoadRecords."""
        return rows.spooled.generated_ids

    def build_writes(self, batch: LoadBatch) -> Sequence[TableWrite]:
        """See LoadRecords."""
        writer = LoadWriter(self._call, self._blobs)
        return [
            write
            for rows in (*batch.list_node_batches(), *batch.list_edge_batches())
            for write in writer.build_writes(rows)
        ]

    def build_requirements(self, batch: LoadBatch) -> Sequence[Requirement]:
        """See LoadRecords."""
        return batch.requirements

    def close(self) -> None:
        """Remove the temporary files."""
        self.rejects.close()
        self.spool.close()


class LocalRecords(SpooledRecords):
    """The records of a load that this process reads."""

    def __init__(self, session: Session, call: LoadCall, catalog: Catalog, schema_id: str) -> None:
        blobs = session.blob_sources
        runtime = session.runtime
        self._sources = expand_inputs(
            call.input,
            catalog,
            is_partial=call.mode is LoadMode.MERGE,
            blobs=blobs,
            storage=runtime.options.storage,
        )
        names = tuple(source.name for source in self._sources)
        units = tuple(map(choose_unit, self._sources))
        super().__init__(call, schema_id, blobs, InputNames(names, units), session.watch)
        self._ids = runtime.ids

    @property
    def is_repeatable(self) -> bool:
        """Whether the input can be read again: files can, streams can't."""
        return is_repeatable(self._sources)

    def read(self) -> None:
        """See LoadRecords."""
        sizes = [source.size for source in self._sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        rows = earlier_bytes = source_bytes = 0

        def report(count: int = 0) -> None:
            nonlocal source_bytes
            source_bytes += count
            # A compressed file yields more bytes than its size.
            done = source_bytes if size is None else min(source_bytes, size)
            self._call.report_progress("read", rows, earlier_bytes + done, total)

        for number, source in enumerate(self._sources):
            size, source_bytes = source.size, 0
            if source.type is not None:
                self.spool.declare_type(source.type)
            rejected_before = self.rejects.count
            for window in source.read_rows(self._ids, reject=self.rejects.add, read=report, describe=self.describe):
                self.spool.add(
                    number, reject_broken_rows(window, source.name, self.inputs.units[number], self.rejects.add)
                )
                rows += window.rows.num_rows
                report()
            if source.type is not None and self.rejects.count > rejected_before:
                self.unreadable.add(source.type.name)
            earlier_bytes += source_bytes if size is None else size
            source_bytes = 0
            report()
        self.unreadable |= self.rejects.types.keys()
        self.spool.seal()
        self.rejects.close()


def is_repeatable(inputs: Sequence[InputSource]) -> bool:
    """Return whether inputs can be read again: files can, streams can't."""
    return all(
        isinstance(item.source, TypedFile)
        or (isinstance(item.source, GraphLines) and isinstance(item.source.data, InputFile))
        for item in inputs
    )


def choose_unit(source: InputSource) -> str:
    """Return `line` or `row`: the word for the position of a record of this input in messages."""
    if isinstance(source.source, GraphLines):
        return source.source.unit
    # Not by the ending alone: a name may end in that of a compression.
    is_lines = any(mark in source.name.lower() for mark in (".csv", ".jsonl", ".ndjson"))
    return "line" if is_lines else "row"


def read_locally(session: Session, call: LoadCall, head: Head) -> LocalRecords:
    """Create the records of a load that this process reads, checks and writes: a `Reader`."""
    snapshot = head.snapshot
    return LocalRecords(session, call, session.load_catalog(snapshot), snapshot.manifest.schema.id)
