"""Records of a load in a spool: checked and written by this process, whoever has read them."""

from collections.abc import Sequence

from omnigraph.commit.publisher import Armed
from omnigraph.commit.requirements import Requirement
from omnigraph.engine.bulk.load_batch import Batch, Incoming, LoadMode
from omnigraph.engine.bulk.load_checks import check_batch
from omnigraph.engine.bulk.load_errors import Inputs
from omnigraph.engine.bulk.rejected_records import Rejects
from omnigraph.engine.bulk.row_spool import Spool
from omnigraph.engine.bulk.upsert import find_unchanged
from omnigraph.engine.view import View
from omnigraph.ops.load_call import LoadCall, TypeCounts
from omnigraph.ops.load_writing import Writer, counts_of
from omnigraph.ops.write_tables import TableWrite
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.watch import Watch


class SpooledRecords:
    """All records of a load. Close it, and its temporary files are gone."""

    armed: Armed | None = None
    """Nothing is written before the load is checked."""

    def __init__(
        self, call: LoadCall, schema_id: str, blobs: BlobSources, inputs: Inputs, watch: Watch | None = None
    ) -> None:
        self._call, self.schema_id, self._blobs, self.inputs = call, schema_id, blobs, inputs
        # A record that is kept aside says what it said, no more: loaded again by merge, a null would clear.
        self.spool = Spool(keeps_left_out=call.mode is LoadMode.MERGE or call.on_error is not None, watch=watch)
        numbers = {name: number for number, name in reversed(list(enumerate(inputs.names)))}
        self.rejects = Rejects(self.spool.directory if call.on_error is not None else None, numbers)
        self.unreadable: set[str] = set()
        """The types of which records were refused while they were read."""
        self.export: str | None = None
        """See Records."""

    def describe(self, export: str) -> None:
        """Take what an input says of itself; the first one that says anything is kept."""
        self.export = self.export or export

    def checked(self, view: View, *, leaves_out: bool) -> Batch:
        """See Records."""
        call = self._call
        types = {
            name: Incoming(spooled, view.table(spooled.type), call.mode) for name, spooled in self.spool.types.items()
        }
        for name, rows in types.items():
            rows.leaves_out, rows.has_unreadable = leaves_out, name in self.unreadable
            rows.only_known = call.only_known
        batch = Batch(view=view, mode=call.mode, types=types)
        call.tell("check", sum(rows.spooled.rows for rows in types.values()))
        check_batch(batch, self.inputs)
        return batch

    def compare(self, batch: Batch) -> None:
        """See Records."""
        if batch.mode is LoadMode.MERGE:
            for rows in batch.types.values():
                find_unchanged(rows)

    def counts(self, rows: Incoming) -> TypeCounts:
        """See Records."""
        return counts_of(rows)

    def writes(self, batch: Batch) -> Sequence[TableWrite]:
        """See Records."""
        writer = Writer(self._call, self._blobs)
        return [write for rows in (*batch.node_rows(), *batch.edge_rows()) for write in writer.writes(rows)]

    def requirements(self, batch: Batch) -> Sequence[Requirement]:
        """See Records."""
        return batch.requirements

    def close(self) -> None:
        """Remove the temporary files."""
        self.rejects.close()
        self.spool.close()
