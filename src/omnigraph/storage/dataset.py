"""A table at its pin: scans, look-ups, counts, index coverage. Immutable, so every answer is of one version."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.handles import Handles, read_errors
from omnigraph.storage.requests import counted

MAX_PUSHED_KEYS = 4_096
"""Beyond so many keys one scan of the column is cheaper than a pushed `in`, and Lance is not handed a huge filter."""


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """How much of a table one index covers."""

    name: str
    columns: tuple[str, ...]
    kind: str
    covered_fragments: int
    fragments: int

    @property
    def is_complete(self) -> bool:
        """Whether no row is outside of the index."""
        return self.covered_fragments == self.fragments


_TYPE_MARK, _BLOB = b"omnigraph:type", b"Blob"


def is_blob(field: pa.Field) -> bool:
    """Whether a column holds large binary values; a scan shows where they lie, not what they are."""
    return (field.metadata or {}).get(_TYPE_MARK) == _BLOB


class Table:
    """One table at one version."""

    def __init__(self, handles: Handles, path: str, version: int) -> None:
        self.handles, self.path, self.version = handles, path, version

    def __repr__(self) -> str:
        return f"Table({self.path!r}, {self.version})"

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.handles.open(self.path, self.version).schema

    def count(self, where: pc.Expression | None = None) -> int:
        """How many rows there are, or match; without a filter this needs no request."""
        dataset = self.handles.open(self.path, self.version)
        with self._reading():
            return int(dataset.count_rows(filter=where))

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        limit: int | None = None,
        *,
        with_address: bool = False,
    ) -> pa.Table:
        """The matching rows, filter pushed into Lance."""
        dataset = self.handles.open(self.path, self.version)
        with self._reading():
            return dataset.to_table(
                columns=None if columns is None else list(columns),
                filter=where,
                limit=limit,
                with_row_address=with_address,
            )

    def batches(
        self,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        *,
        batch_rows: int | None = None,
        with_blobs: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """The matching rows, streamed, in the order of their positions; at most `batch_rows` at once.

        A blob is its description, or `with_blobs` its bytes.
        """
        dataset = self.handles.open(self.path, self.version)
        with read_errors(self.path, self.version):
            yield from dataset.to_batches(
                columns=None if columns is None else list(columns),
                filter=where,
                batch_size=batch_rows,
                blob_handling="all_binary" if with_blobs else None,
            )

    def take(self, positions: Sequence[int], columns: Sequence[str] | None = None) -> pa.Table:
        """The rows at these positions, in that order."""
        dataset = self.handles.open(self.path, self.version)
        with self._reading():
            return dataset.take(list(positions), columns=None if columns is None else list(columns))

    def take_with_blobs(self, positions: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """The rows at these positions, in that order, each blob as its bytes."""
        dataset = self.handles.open(self.path, self.version)
        blobs = [name for name in columns if is_blob(dataset.schema.field(name))]
        taken = self.take(positions, [name for name in columns if name not in blobs])
        for name in blobs:
            with self._reading():
                files = dataset.take_blobs(name, indices=list(positions))
                values = [None if file is None else file.readall() for file in files]
            taken = taken.append_column(pa.field(name, pa.large_binary()), pa.array(values, pa.large_binary()))
        return taken.select(list(columns))

    def matching(
        self, column: str, keys: Sequence[str] | pa.Array, columns: Sequence[str], *, with_address: bool = False
    ) -> pa.Table:
        """The rows whose `column` is one of `keys`: by index where one covers, else by one scan of the column."""
        wanted = keys.unique().drop_null() if isinstance(keys, pa.Array) else pa.array(sorted(set(keys)), pa.string())
        if len(wanted) <= MAX_PUSHED_KEYS:
            return self.scan(columns, pc.field(column).isin(wanted), with_address=with_address)
        dataset = self.handles.open(self.path, self.version)
        names = list(dict.fromkeys([*columns, column]))
        parts = []
        with self._reading():
            for batch in dataset.to_batches(columns=names, with_row_address=with_address):
                kept = batch.filter(pc.is_in(batch.column(column), value_set=wanted))
                if kept.num_rows:
                    parts.append(kept)
        shown = [*columns, "_rowaddr"] if with_address else list(columns)
        schema = parts[0].schema if parts else self.scan(names, limit=0, with_address=with_address).schema
        return pa.Table.from_batches(parts, schema).select(shown)

    def index_coverage(self) -> tuple[IndexCoverage, ...]:
        """Every index of this version, and how many fragments it covers."""
        dataset = self.handles.open(self.path, self.version)
        with self._reading():
            fragments = {fragment.fragment_id for fragment in dataset.get_fragments()}
            indexes = dataset.describe_indices()
        found = []
        for index in indexes:
            covered = {number for segment in index.segments for number in segment.fragment_ids} & fragments
            columns = tuple(index.field_names)
            found.append(IndexCoverage(index.name, columns, index.index_type, len(covered), len(fragments)))
        return tuple(sorted(found, key=lambda index: index.name))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with counted(self.handles.store.runtime.telemetry, "table"), read_errors(self.path, self.version):
            yield
