"""The first half of a load: every record of its input, in the spool or among the rejects."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.incoming import LoadMode
from omnigraph.engine.bulk.quarantine import Rejects, texts_of
from omnigraph.engine.bulk.refusals import Inputs
from omnigraph.engine.bulk.spool import Spool
from omnigraph.engine.decoding.record_error import RecordError
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.engine.decoding.typed_source import TypedFile
from omnigraph.engine.writing.value_rules import BrokenValue, broken_values
from omnigraph.engine.writing.violations import shown_value
from omnigraph.ids import Ids
from omnigraph.ops.load_call import LoadCall
from omnigraph.ops.load_inputs import GraphLines, OneInput, expand_inputs
from omnigraph.schema.catalog import Catalog
from omnigraph.storage.blob_sources import BlobSources


class ReadRecords:
    """The records of a load, read once. Close it, and its temporary files are gone."""

    def __init__(self, call: LoadCall, catalog: Catalog, schema_id: str, blobs: BlobSources) -> None:
        self._call, self.schema_id = call, schema_id
        is_partial = call.mode is LoadMode.MERGE
        self._given = expand_inputs(call.input, catalog, is_partial=is_partial, blobs=blobs)
        names = tuple(one.name for one in self._given)
        self.inputs = Inputs(names, tuple(map(_unit, self._given)))
        # A record that is kept aside says what it said, no more: loaded again by merge, a null would clear.
        self.spool = Spool(keeps_left_out=is_partial or call.on_error is not None)
        numbers = {name: number for number, name in reversed(list(enumerate(names)))}
        self.rejects = Rejects(self.spool.directory if call.on_error is not None else None, numbers)
        self.unreadable: set[str] = set()
        """The types of which records were refused while they were read."""

    @property
    def is_repeatable(self) -> bool:
        """Whether the input can be read again: files can, streams can't."""
        return all(
            isinstance(one.source, TypedFile)
            or (isinstance(one.source, GraphLines) and isinstance(one.source.data, Path))
            for one in self._given
        )

    def read(self, ids: Ids) -> None:
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
            for window in one.rows(ids, reject=self.rejects.add, read=tell):
                self.spool.add(number, self._keeping_rules(number, window))
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

    def close(self) -> None:
        """Remove the temporary files."""
        self.rejects.close()
        self.spool.close()

    def _keeping_rules(self, number: int, window: TypedRows) -> TypedRows:
        """The rows of a window that keep the rules over single values; the others are rejected."""
        broken = broken_values(window.type, window.rows)
        if not broken:
            return window
        first: dict[int, BrokenValue] = {}
        for one in broken:
            first.setdefault(one.row, one)
        rows = sorted(first)
        chosen = pa.array(rows)
        left_out = {name: mask.take(chosen) for name, mask in window.left_out.items()}
        texts = texts_of(window.type, window.rows.take(chosen), left_out)
        for row, text in zip(rows, texts, strict=True):
            one = first[row]
            error = RecordError(
                self.inputs.names[number],
                window.lines[row].as_py(),
                window.type.name,
                one.property,
                shown_value(one.value),
                one.message,
                self.inputs.units[number],
            )
            self.rejects.add(error, text, one.rule)
        is_kept = np.ones(window.rows.num_rows, np.bool_)
        is_kept[rows] = False
        kept = pa.array(is_kept)
        return TypedRows(
            type=window.type,
            rows=window.rows.filter(kept),
            lines=window.lines.filter(kept),
            left_out={name: mask.filter(kept) for name, mask in window.left_out.items()},
        )


def _unit(one: OneInput) -> str:
    """What places in an input are called."""
    is_lines = one.type is None or any(mark in one.name.lower() for mark in (".jsonl", ".ndjson"))
    return "line" if is_lines else "row"
