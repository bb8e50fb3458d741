"""Write and read chunks of rows that a task leaves for the driver or for other tasks: Arrow streams with ordinals."""

import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from omnigraph.engine.blob_marks import encode_claim, find_claims
from omnigraph.engine.bulk.row_spool import LINE, build_left_out_name
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.engine.writing.blobs import list_blob_properties
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.spark.load.key_hashes import hash_ids
from omnigraph.storage.columnar_sets import Positions, concat_chunks

# The column with the number of a row among the rows of its type in its split.
ORDINAL = "@ordinal"
_CLAIMS = b"claims"
# A chunk of this size is closed, and the next one begun.
CHUNK_BYTES = 32 * 1024 * 1024
# The open chunks of a task have at most this size together; beyond it, the largest one is closed.
MAX_BUFFERED_BYTES = 128 * 1024 * 1024


class RowChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A stored chunk of rows of one type."""

    key: str
    rows: int
    nbytes: int
    ids: str | None = None
    """The key of the hashes of their ids, in their order; None if they were not requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRows:
    """A window of rows of a chunk, as they were read from the input, and their ordinals."""

    window: TypedRows
    ordinals: Positions


class ChunkWriter:
    """Collect rows of one type as the bytes of an Arrow stream."""

    def __init__(self, type_: AnyType) -> None:
        self._type = type_
        self._sink = io.BytesIO()
        fields = [pa.field(column.name, column.type) for column in build_arrow_schema(type_)]
        fields += [pa.field(LINE, pa.int64()), pa.field(ORDINAL, pa.int64())]
        self._names = [p.name for p in type_.properties]
        fields += [pa.field(build_left_out_name(name), pa.bool_()) for name in ("id", *self._names)]
        self._schema = pa.schema(fields)
        self._writer = pa.ipc.new_stream(self._sink, self._schema)
        self.rows = 0

    @property
    def nbytes(self) -> int:
        """The number of bytes written so far."""
        return self._sink.tell()

    def add(self, window: TypedRows, ordinals: Positions) -> None:
        """Add the rows of a window."""
        if not window.rows.num_rows:
            return
        no_rows = pa.repeat(pa.scalar(False), window.rows.num_rows)
        columns = [*window.rows.columns, window.lines, pa.array(ordinals)]
        columns += [window.left_out.get(name, no_rows) for name in ("id", *self._names)]
        table = pa.Table.from_arrays(columns, schema=self._schema).combine_chunks()
        # The mark of a blob claim is valid in this process only, so the URIs of claims are sent as metadata.
        claims = {name: find_claims(table.column(name)) for name in list_blob_properties(self._type)}
        for batch in table.to_batches():
            self._writer.write_batch(batch, custom_metadata={_CLAIMS: json.dumps(claims).encode()})
        self.rows += table.num_rows

    def finalize(self) -> bytes:
        """Close the stream and return its bytes."""
        self._writer.close()
        return self._sink.getvalue()


class RollingChunkWriter:
    """Write the rows of a task to chunks of bounded size; `keep` stores a finished one and returns its key.

    With a seed, the hashes of ids are stored beside every chunk.
    """

    def __init__(self, keep: Callable[[str, bytes], str], id_seed: int | None = None) -> None:
        self._keep, self._seed = keep, id_seed
        self._open: dict[str, ChunkWriter] = {}
        self._ids: dict[str, list[bytes]] = {}
        self._count = 0
        # By type, in the order of their rows; complete after `finish`.
        self.chunks: dict[str, list[RowChunk]] = {}

    def add(self, window: TypedRows, ordinals: Positions) -> None:
        """Add the rows of a window to the open chunk of their type."""
        name = window.type.name
        if name not in self._open:
            self._open[name] = ChunkWriter(window.type)
        self._open[name].add(window, ordinals)
        if self._seed is not None:
            self._ids.setdefault(name, []).append(hash_ids(window.rows.column(ID), self._seed).tobytes())
        if self._open[name].nbytes >= CHUNK_BYTES:
            self._finish(name)
        elif sum(writer.nbytes for writer in self._open.values()) >= MAX_BUFFERED_BYTES:
            self._finish(max(self._open, key=lambda other: self._open[other].nbytes))

    def finish(self) -> dict[str, list[RowChunk]]:
        """Close all open chunks, and return the chunks by type."""
        while self._open:
            self._finish(next(iter(self._open)))
        return self.chunks

    def _finish(self, name: str) -> None:
        writer = self._open.pop(name)
        data = writer.finalize()
        ids = self._ids.pop(name, None)
        chunk = RowChunk(
            key=self._keep(f"{self._count}.piece", data),
            rows=writer.rows,
            nbytes=len(data),
            ids=None if ids is None else self._keep(f"{self._count}.ids", b"".join(ids)),
        )
        self._count += 1
        self.chunks.setdefault(name, []).append(chunk)


def read_chunk(type_: AnyType, data: bytes, lines_before: int) -> Iterator[ChunkRows]:
    """Yield the rows of a chunk; `lines_before` is added, so that lines count from the start of their input."""
    names = build_arrow_schema(type_).names
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        # Iterating over the reader would drop the metadata of batches.
        while True:
            try:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            rows = _restore_claims(pa.Table.from_batches([batch]), json.loads(metadata[_CLAIMS]))
            left_out = {
                name: concat_chunks(rows.column(build_left_out_name(name)))
                for name in ("id", *(p.name for p in type_.properties))
            }
            lines = np.asarray(rows.column(LINE).to_numpy(), np.int64) + lines_before
            window = TypedRows(
                type=type_,
                rows=pa.Table.from_arrays(rows.select(names).columns, schema=build_arrow_schema(type_)),
                lines=pa.array(lines),
                left_out={name: mask for name, mask in left_out.items() if mask.true_count},
            )
            yield ChunkRows(window=window, ordinals=np.asarray(rows.column(ORDINAL).to_numpy(), np.int64))


def _restore_claims(rows: pa.Table, claims: Mapping[str, Mapping[str, str]]) -> pa.Table:
    for name, uris in claims.items():
        if uris:
            index = rows.schema.get_field_index(name)
            values: list[object] = rows.column(index).to_pylist()
            for row, uri in uris.items():
                values[int(row)] = encode_claim(uri)
            rows = rows.set_column(index, rows.schema.field(index), pa.array(values, pa.large_binary()))
    return rows


def take_rows(window: TypedRows, rows: Positions | Sequence[int]) -> TypedRows:
    """Return the rows of a window at these positions."""
    at = pa.array(rows, pa.int64())
    return TypedRows(
        type=window.type,
        rows=window.rows.take(at),
        lines=window.lines.take(at),
        left_out={name: mask.take(at) for name, mask in window.left_out.items()},
    )
