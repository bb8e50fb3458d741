"""Rows on their way from a task to the driver or to other tasks: Arrow streams with the place of every row."""

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

ORDINAL = "@ordinal"
"""The column that says the how-manieth row of its type a row is in its split."""
_CLAIMS = b"claims"
CHUNK_BYTES = 32 * 1024 * 1024
"""A piece that has so many bytes is done, and another one begun."""
MAX_BUFFERED_BYTES = 128 * 1024 * 1024
"""How much the unfinished pieces of a task may have together: beyond it, the largest is done."""


class RowChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one type that a task has kept for others."""

    key: str
    rows: int
    nbytes: int
    ids: str | None = None
    """The key of the hashes of their ids, in their order; None when nobody asked for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRows:
    """Some rows of a piece, as they were read, and their ordinals."""

    window: TypedRows
    ordinals: Positions


class ChunkWriter:
    """Collects rows of one type as the bytes of an Arrow stream."""

    def __init__(self, type_: AnyType) -> None:
        self._type = type_
        self._sink = io.BytesIO()
        fields = [pa.field(one.name, one.type) for one in build_arrow_schema(type_)]
        fields += [pa.field(LINE, pa.int64()), pa.field(ORDINAL, pa.int64())]
        self._names = [p.name for p in type_.properties]
        fields += [pa.field(build_left_out_name(name), pa.bool_()) for name in ("id", *self._names)]
        self._schema = pa.schema(fields)
        self._writer = pa.ipc.new_stream(self._sink, self._schema)
        self.rows = 0

    @property
    def nbytes(self) -> int:
        """How many bytes there are so far."""
        return self._sink.tell()

    def add(self, window: TypedRows, ordinals: Positions) -> None:
        """Some more rows."""
        if not window.rows.num_rows:
            return
        nowhere = pa.repeat(pa.scalar(False), window.rows.num_rows)
        columns = [*window.rows.columns, window.lines, pa.array(ordinals)]
        columns += [window.left_out.get(name, nowhere) for name in ("id", *self._names)]
        table = pa.Table.from_arrays(columns, schema=self._schema).combine_chunks()
        # A claim is marked in the way of this process: what it stands for goes along in plain words.
        claims = {name: find_claims(table.column(name)) for name in list_blob_properties(self._type)}
        for batch in table.to_batches():
            self._writer.write_batch(batch, custom_metadata={_CLAIMS: json.dumps(claims).encode()})
        self.rows += table.num_rows

    def finalize(self) -> bytes:
        """The whole stream."""
        self._writer.close()
        return self._sink.getvalue()


class RollingChunkWriter:
    """The rows of a task in pieces of a size, whatever their number: `keep` puts a finished one somewhere.

    With a seed, the hashes of ids go with every piece.
    """

    def __init__(self, keep: Callable[[str, bytes], str], id_seed: int | None = None) -> None:
        self._keep, self._seed = keep, id_seed
        self._open: dict[str, ChunkWriter] = {}
        self._ids: dict[str, list[bytes]] = {}
        self._count = 0
        self.chunks: dict[str, list[RowChunk]] = {}
        """By type, in the order of their rows; complete after `finish`."""

    def add(self, window: TypedRows, ordinals: Positions) -> None:
        """Some more rows of a type."""
        name = window.type.name
        if name not in self._open:
            self._open[name] = ChunkWriter(window.type)
        self._open[name].add(window, ordinals)
        if self._seed is not None:
            self._ids.setdefault(name, []).append(hash_ids(window.rows.column(ID), self._seed).tobytes())
        if self._open[name].nbytes >= CHUNK_BYTES:
            self._finish(name)
        elif sum(one.nbytes for one in self._open.values()) >= MAX_BUFFERED_BYTES:
            self._finish(max(self._open, key=lambda one: self._open[one].nbytes))

    def finish(self) -> dict[str, list[RowChunk]]:
        """No more rows come: all pieces, by type."""
        while self._open:
            self._finish(next(iter(self._open)))
        return self.chunks

    def _finish(self, name: str) -> None:
        writer = self._open.pop(name)
        data = writer.finalize()
        ids = self._ids.pop(name, None)
        piece = RowChunk(
            key=self._keep(f"{self._count}.piece", data),
            rows=writer.rows,
            nbytes=len(data),
            ids=None if ids is None else self._keep(f"{self._count}.ids", b"".join(ids)),
        )
        self._count += 1
        self.chunks.setdefault(name, []).append(piece)


def read_chunk(type_: AnyType, data: bytes, lines_before: int) -> Iterator[ChunkRows]:
    """The rows of a piece, with lines counted from the start of their input."""
    names = build_arrow_schema(type_).names
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
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
            place = rows.schema.get_field_index(name)
            values: list[object] = rows.column(place).to_pylist()
            for row, uri in uris.items():
                values[int(row)] = encode_claim(uri)
            rows = rows.set_column(place, rows.schema.field(place), pa.array(values, pa.large_binary()))
    return rows


def take_rows(window: TypedRows, rows: Positions | Sequence[int]) -> TypedRows:
    """Some rows of a window."""
    at = pa.array(rows, pa.int64())
    return TypedRows(
        type=window.type,
        rows=window.rows.take(at),
        lines=window.lines.take(at),
        left_out={name: mask.take(at) for name, mask in window.left_out.items()},
    )
