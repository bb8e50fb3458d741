"""Rows on their way from a task to the driver: one Arrow stream per split and type, with the place of every row."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.engine.blob_marks import claim, claims_in
from omnigraph.engine.bulk.spool import LINE, left_out_name
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.engine.writing.blobs import blob_names
from omnigraph.schema.arrow import arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.column_sets import Positions, one_array

ORDINAL = "@ordinal"
"""The column that says the how-manieth row of its type a row is in its split."""
_CLAIMS = b"claims"


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceRows:
    """Some rows of a piece, as they were read, and their ordinals."""

    window: TypedRows
    ordinals: Positions


class PieceWriter:
    """Collects rows of one type as the bytes of an Arrow stream."""

    def __init__(self, type_: AnyType) -> None:
        self._type = type_
        self._sink = io.BytesIO()
        fields = [pa.field(one.name, one.type) for one in arrow_schema(type_)]
        fields += [pa.field(LINE, pa.int64()), pa.field(ORDINAL, pa.int64())]
        self._names = [p.name for p in type_.properties]
        fields += [pa.field(left_out_name(name), pa.bool_()) for name in ("id", *self._names)]
        self._schema = pa.schema(fields)
        self._writer = pa.ipc.new_stream(self._sink, self._schema)
        self.rows = 0

    def add(self, window: TypedRows, ordinals: Positions) -> None:
        """Some more rows."""
        if not window.rows.num_rows:
            return
        nowhere = pa.repeat(pa.scalar(False), window.rows.num_rows)
        columns = [*window.rows.columns, window.lines, pa.array(ordinals)]
        columns += [window.left_out.get(name, nowhere) for name in ("id", *self._names)]
        table = pa.Table.from_arrays(columns, schema=self._schema).combine_chunks()
        # A claim is marked in the way of this process: what it stands for goes along in plain words.
        claims = {name: claims_in(table.column(name)) for name in blob_names(self._type)}
        for batch in table.to_batches():
            self._writer.write_batch(batch, custom_metadata={_CLAIMS: json.dumps(claims).encode()})
        self.rows += table.num_rows

    def bytes(self) -> bytes:
        """The whole stream."""
        self._writer.close()
        return self._sink.getvalue()


def piece_rows(type_: AnyType, data: bytes, lines_before: int) -> Iterator[PieceRows]:
    """The rows of a piece, with lines counted from the start of their input."""
    names = arrow_schema(type_).names
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        while True:
            try:
                batch, metadata = reader.read_next_batch_with_custom_metadata()
            except StopIteration:
                return
            rows = _claimed(pa.Table.from_batches([batch]), json.loads(metadata[_CLAIMS]))
            left_out = {
                name: one_array(rows.column(left_out_name(name)))
                for name in ("id", *(p.name for p in type_.properties))
            }
            lines = np.asarray(rows.column(LINE).to_numpy(), np.int64) + lines_before
            window = TypedRows(
                type=type_,
                rows=pa.Table.from_arrays(rows.select(names).columns, schema=arrow_schema(type_)),
                lines=pa.array(lines),
                left_out={name: mask for name, mask in left_out.items() if mask.true_count},
            )
            yield PieceRows(window=window, ordinals=np.asarray(rows.column(ORDINAL).to_numpy(), np.int64))


def _claimed(rows: pa.Table, claims: Mapping[str, Mapping[str, str]]) -> pa.Table:
    for name, uris in claims.items():
        if uris:
            place = rows.schema.get_field_index(name)
            values: list[object] = rows.column(place).to_pylist()
            for row, uri in uris.items():
                values[int(row)] = claim(uri)
            rows = rows.set_column(place, rows.schema.field(place), pa.array(values, pa.large_binary()))
    return rows


def chosen_rows(window: TypedRows, rows: Positions | Sequence[int]) -> TypedRows:
    """Some rows of a window."""
    at = pa.array(rows, pa.int64())
    return TypedRows(
        type=window.type,
        rows=window.rows.take(at),
        lines=window.lines.take(at),
        left_out={name: mask.take(at) for name, mask in window.left_out.items()},
    )
