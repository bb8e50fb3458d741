"""Records of a load in a spool: checked and written by this process, whoever has read them."""

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


class SpooledRecords:
    """All records of a load. Close it, and its temporary files are gone."""

    armed: ArmedWrite | None = None
    """Nothing is written before the load is checked."""

    def __init__(
        self, call: LoadCall, schema_id: str, blobs: BlobSources, inputs: InputNames, watch: Watch | None = None
    ) -> None:
        self._call, self.schema_id, self._blobs, self.inputs = call, schema_id, blobs, inputs
        # A record that is kept aside says what it said, no more: loaded again by merge, a null would clear.
        self.spool = Spool(keeps_left_out=call.mode is LoadMode.MERGE or call.on_error is not None, watch=watch)
        numbers = {name: number for number, name in reversed(list(enumerate(inputs.names)))}
        self.rejects = UnreadableRecords(self.spool.directory if call.on_error is not None else None, numbers)
        self.unreadable: set[str] = set()
        """The types of which records were refused while they were read."""
        self.export: str | None = None
        """See Records."""

    def describe(self, export: str) -> None:
        """Take what an input says of itself; the first one that says anything is kept."""
        self.export = self.export or export

    def check(self, view: View, *, leaves_out: bool) -> LoadBatch:
        """See Records."""
        call = self._call
        types = {
            name: TypeBatch(spooled, view.get_table(spooled.type), call.mode)
            for name, spooled in self.spool.types.items()
        }
        for name, rows in types.items():
            rows.leaves_out, rows.has_unreadable = leaves_out, name in self.unreadable
            rows.only_known = call.only_known
        batch = LoadBatch(view=view, mode=call.mode, types=types)
        call.report_progress("check", sum(rows.spooled.rows for rows in types.values()))
        check_batch(batch, self.inputs)
        return batch

    def compare(self, batch: LoadBatch) -> None:
        """See Records."""
        if batch.mode is LoadMode.MERGE:
            for rows in batch.types.values():
                find_unchanged(rows)

    def count_changes(self, rows: TypeBatch) -> TypeCounts:
        """See Records."""
        return count_changes(rows)

    def build_writes(self, batch: LoadBatch) -> Sequence[TableWrite]:
        """See Records."""
        writer = LoadWriter(self._call, self._blobs)
        return [
            write
            for rows in (*batch.list_node_batches(), *batch.list_edge_batches())
            for write in writer.build_writes(rows)
        ]

    def build_requirements(self, batch: LoadBatch) -> Sequence[Requirement]:
        """See Records."""
        return batch.requirements

    def close(self) -> None:
        """Remove the temporary files."""
        self.rejects.close()
        self.spool.close()


class LocalRecords(SpooledRecords):
    """The records of a load that this process reads, once."""

    def __init__(self, session: Session, call: LoadCall, catalog: Catalog, schema_id: str) -> None:
        blobs, runtime = session.blob_sources, session.runtime
        self._sources = expand_inputs(
            call.input,
            catalog,
            is_partial=call.mode is LoadMode.MERGE,
            blobs=blobs,
            storage=runtime.options.storage,
        )
        names = tuple(one.name for one in self._sources)
        super().__init__(
            call, schema_id, blobs, InputNames(names, tuple(map(choose_unit, self._sources))), session.watch
        )
        self._ids = runtime.ids

    @property
    def is_repeatable(self) -> bool:
        """Whether the input can be read again: files can, streams can't."""
        return is_repeatable(self._sources)

    def read(self) -> None:
        """Read everything."""
        sizes = [one.size for one in self._sources]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        rows = before = taken = 0

        def tell(count: int = 0) -> None:
            nonlocal taken
            taken += count
            # A compressed file gives more bytes than it has.
            self._call.report_progress("read", rows, before + (taken if size is None else min(taken, size)), total)

        for number, one in enumerate(self._sources):
            size, taken = one.size, 0
            if one.type is not None:
                self.spool.declare_type(one.type)
            refused = self.rejects.count
            for window in one.read_rows(self._ids, reject=self.rejects.add, read=tell, describe=self.describe):
                self.spool.add(
                    number, reject_broken_rows(window, one.name, self.inputs.units[number], self.rejects.add)
                )
                rows += window.rows.num_rows
                tell()
            if one.type is not None and self.rejects.count > refused:
                self.unreadable.add(one.type.name)
            before += taken if size is None else size
            taken = 0
            tell()
        self.unreadable |= self.rejects.types.keys()
        self.spool.seal()
        self.rejects.close()


def is_repeatable(inputs: Sequence[InputSource]) -> bool:
    """Whether inputs can be read again: files can, streams can't."""
    return all(
        isinstance(one.source, TypedFile)
        or (isinstance(one.source, GraphLines) and isinstance(one.source.data, InputFile))
        for one in inputs
    )


def choose_unit(one: InputSource) -> str:
    """What places in an input are called."""
    is_lines = one.type is None or any(mark in one.name.lower() for mark in (".jsonl", ".ndjson"))
    return "line" if is_lines else "row"


def read_locally(session: Session, call: LoadCall, head: Head) -> LocalRecords:
    """The records of a load that this process does."""
    snapshot = head.snapshot
    catalog, schema_id = session.load_catalog(snapshot), snapshot.manifest.schema.id
    return LocalRecords(session, call, catalog, schema_id)
