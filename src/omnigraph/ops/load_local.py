"""Records of a load in a spool: checked and written by this process, whoever has read them."""

from collections.abc import Sequence

from omnigraph.commit.publisher import ArmedWrite
from omnigraph.commit.requirements import Requirement
from omnigraph.engine.bulk.load_batch import LoadBatch, LoadMode, TypeBatch
from omnigraph.engine.bulk.load_checks import check_batch
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.rejected_records import UnreadableRecords
from omnigraph.engine.bulk.row_spool import Spool
from omnigraph.engine.bulk.upsert import find_unchanged
from omnigraph.engine.view import View
from omnigraph.ops.load_call import LoadCall, TypeCounts
from omnigraph.ops.load_writing import LoadWriter, count_changes
from omnigraph.ops.write_tables import TableWrite
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.watch import Watch


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
