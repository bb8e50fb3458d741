"""The first half of a load: every record of its input, in the spool or among the rejects."""

from collections.abc import Sequence
from pathlib import Path

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import Armed
from omnigraph.commit.requirement import Requirement
from omnigraph.engine.bulk.incoming import Batch, Incoming, LoadMode
from omnigraph.engine.bulk.load_checks import check_batch
from omnigraph.engine.bulk.merging import find_unchanged
from omnigraph.engine.bulk.quarantine import Rejects
from omnigraph.engine.bulk.refusals import Inputs
from omnigraph.engine.bulk.row_rules import keeping_rules
from omnigraph.engine.bulk.spool import Spool
from omnigraph.engine.decoding.typed_source import TypedFile
from omnigraph.engine.view import View
from omnigraph.ids import Ids
from omnigraph.ops.load_call import LoadCall, TypeCounts
from omnigraph.ops.load_inputs import GraphLines, OneInput, expand_inputs
from omnigraph.ops.load_writing import Writer, counts_of
from omnigraph.ops.session import Session
from omnigraph.ops.write import TableWrite
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.blob_sources import BlobSources


class ReadRecords:
    """The records of a load, read once. Close it, and its temporary files are gone."""

    armed: Armed | None = None
    """Nothing is written before the load is checked."""

    def __init__(self, call: LoadCall, catalog: Catalog, schema_id: str, blobs: BlobSources, ids: Ids) -> None:
        self._call, self.schema_id = call, schema_id
        self._blobs, self._ids = blobs, ids
        is_partial = call.mode is LoadMode.MERGE
        self._given = expand_inputs(call.input, catalog, is_partial=is_partial, blobs=blobs)
        names = tuple(one.name for one in self._given)
        self.inputs = Inputs(names, tuple(map(unit_of, self._given)))
        # A record that is kept aside says what it said, no more: loaded again by merge, a null would clear.
        self.spool = Spool(keeps_left_out=is_partial or call.on_error is not None)
        numbers = {name: number for number, name in reversed(list(enumerate(names)))}
        self.rejects = Rejects(self.spool.directory if call.on_error is not None else None, numbers)
        self.unreadable: set[str] = set()
        """The types of which records were refused while they were read."""

    @property
    def is_repeatable(self) -> bool:
        """Whether the input can be read again: files can, streams can't."""
        return is_repeatable(self._given)

    def read(self) -> None:
        """Read everything."""
        sizes = [one.size for one in self._given]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        rows = before = taken = 0

        def tell(count: int = 0) -> None:
            nonlocal taken
            taken += count
            # A compressed file gives more bytes than it has.
            self._call.tell("read", rows, before + (taken if size is None else min(taken, size)), total)

        for number, one in enumerate(self._given):
            size, taken = one.size, 0
            if one.type is not None:
                self.spool.name(one.type)
            refused = self.rejects.count
            for window in one.rows(self._ids, reject=self.rejects.add, read=tell):
                self.spool.add(number, keeping_rules(window, one.name, self.inputs.units[number], self.rejects.add))
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


def is_repeatable(inputs: Sequence[OneInput]) -> bool:
    """Whether inputs can be read again: files can, streams can't."""
    return all(
        isinstance(one.source, TypedFile) or (isinstance(one.source, GraphLines) and isinstance(one.source.data, Path))
        for one in inputs
    )


def unit_of(one: OneInput) -> str:
    """What places in an input are called."""
    is_lines = one.type is None or any(mark in one.name.lower() for mark in (".jsonl", ".ndjson"))
    return "line" if is_lines else "row"


def read_here(session: Session, call: LoadCall, head: Head) -> ReadRecords:
    """The records of a load that this process does."""
    snapshot = head.snapshot
    catalog, schema_id = session.catalog(snapshot), snapshot.manifest.schema.id
    return ReadRecords(call, catalog, schema_id, session.blob_sources, session.runtime.ids)
