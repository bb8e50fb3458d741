"""The first half of a load: every record of its input, in the spool or among the rejects."""

from collections.abc import Sequence

from omnigraph.commit.manifest_log import Head
from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.row_rules import reject_broken_rows
from omnigraph.engine.decoding.typed_source import TypedFile
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_inputs import GraphLines, InputSource, expand_inputs
from omnigraph.ops.load_local import SpooledRecords
from omnigraph.ops.session import Session
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.s3_input_files import InputFile


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
