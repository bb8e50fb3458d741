"""Graph JSONL, the quick way: lines are told apart by how they start, and each type's are read as one table."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decoding.fast_columns import choose_json_type, decode_fast_column
from omnigraph.engine.decoding.fast_json import Doubts, FastTable, read_fast
from omnigraph.engine.decoding.line_blocks import PADDING, LineBlock, LinePositions
from omnigraph.engine.decoding.older_export import infer_older_data_type, normalize_column
from omnigraph.engine.decoding.typed_rows import (
    DecodedColumn,
    DecodedRows,
    build_default_column,
    list_id_columns,
    replace_values,
)
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, Property

DATA = "data"

_MIN_SPLIT_LINES = 128
"""So few lines are read the strict way when Arrow can't read them; of more, the bad ones are looked for."""
_SPLIT_FACTOR = 8
_MAX_LINE_STARTS = 512
"""How many different starts of lines are told apart in one block; the lines of any others are read the strict way."""
_START = re.compile(rb'\{"(type|edge)": ?"([A-Za-z0-9_]{1,255})"')
_GUESS = r'(?P<found>"(?:type|edge)": ?"[A-Za-z0-9_]{1,255}")'
_WORD_BYTES = 8
_KIND_WORDS = tuple(int.from_bytes(start, "little") for start in (b'{"type":', b'{"edge":'))


@dataclass(frozen=True, slots=True)
class RecordShape:
    """How a record of a type is written: as what it is read, and by which names its fields and properties go.

    With a guess, a column and its text, rows where that column says something else are in doubt. `is_older` is for the
    shape of `older_export`: the id in `data`, and its spellings.
    """

    type: AnyType
    schema: pa.Schema
    names: Mapping[str, Sequence[str]]
    guess: tuple[str, str] | None = None
    is_older: bool = False

    @property
    def has_data(self) -> bool:
        """Whether the properties are an object of their own."""
        return DATA in self.schema.names and bool(pa.types.is_struct(self.schema.field(DATA).type))


def build_graph_shape(type_: AnyType) -> RecordShape:
    """Graph JSONL: the properties are an object of their own."""
    kind = "edge" if isinstance(type_, EdgeType) else "type"
    data = pa.struct([(p.name, choose_json_type(p.type)) for p in type_.properties])
    own = [(name, pa.utf8()) for name in (kind, *list_id_columns(type_))]
    names = {name: (name,) for name in (*list_id_columns(type_), *type_.by_name)}
    return RecordShape(type_, pa.schema([*own, (DATA, data)]), names)


def _fit_shape(shape: RecordShape, line: bytes) -> RecordShape:
    """Return the shape that a line has: the given one, or the older form of it."""
    data = infer_older_data_type(shape.type, line) if shape.has_data else None
    if data is None:
        return shape
    own = [field for field in shape.schema if field.name not in (ID, DATA)]
    return replace(shape, schema=pa.schema([*own, (DATA, data)]), is_older=True)


def build_flat_shape(type_: AnyType, targets: Mapping[str, str]) -> RecordShape:
    """One object with everything; `targets` says what each name holds."""
    names: dict[str, list[str]] = {}
    for name, target in targets.items():
        names.setdefault(target, []).append(name)
    kinds = {p.name: choose_json_type(p.type) for p in type_.properties}
    schema = pa.schema([(name, kinds.get(target, pa.utf8())) for name, target in targets.items()])
    return RecordShape(type_, schema, names)


@dataclass(frozen=True, slots=True)
class FastRows:
    """Rows of one type that are beyond doubt, but for the rules that `finish` checks; `first` is their first line."""

    type: AnyType
    first: int
    read: DecodedRows


def read_graph_block(block: LineBlock, catalog: Catalog) -> tuple[list[FastRows], LinePositions]:
    """What can be read quickly, and the positions of all other lines, in their order."""
    found: list[FastRows] = []
    is_left = np.zeros(len(block.offsets), bool)
    is_left[block.chosen] = True
    whole = block.find_whole(block.chosen)
    for shape, positions in chain(_group_by_start(block, whole, catalog), _group_by_guess(block, whole, catalog)):
        for rows, done in _iter_chunks(shape, block, positions[is_left[positions]]):
            found.append(FastRows(shape.type, int(block.to_numbers(done)[0]), rows))
            is_left[done] = False
    return found, np.flatnonzero(is_left)


# --- which lines are of which type -------------------------------------------------------------------


def _group_by_start(
    block: LineBlock, whole: LinePositions, catalog: Catalog
) -> Iterator[tuple[RecordShape, LinePositions]]:
    """Lines that start with their type, which is thereby known."""
    words = np.ndarray((len(block.data) - _WORD_BYTES + 1,), "<u8", block.data, strides=(1,))
    left = whole[np.isin(words[block.offsets[whole]], _KIND_WORDS)]
    groups: dict[str, tuple[AnyType, list[LinePositions]]] = {}
    for _ in range(_MAX_LINE_STARTS):
        if not len(left):
            break
        place = int(block.offsets[left[0]])
        start = _START.match(block.data, place, place + PADDING - _WORD_BYTES)
        if start is None:
            left = left[1:]
            continue
        has_it = _match_start(words, block.offsets[left], start[0])
        type_ = _find_type(start[1].decode(), start[2].decode(), catalog)
        if type_ is not None and DATA not in type_.by_name:
            groups.setdefault(type_.name, (type_, []))[1].append(left[has_it])
        left = left[~has_it]
    for type_, parts in groups.values():
        yield build_graph_shape(type_), parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def _match_start(words: np.ndarray[tuple[int], np.dtype[np.uint64]], places: LinePositions, start: bytes) -> Doubts:
    """Which of the lines at these places start so."""
    has_it = np.ones(len(places), bool)
    for at in range(0, len(start), _WORD_BYTES):
        part = start[at : at + _WORD_BYTES]
        mask = np.uint64((1 << 8 * len(part)) - 1)
        has_it &= (words[places + at] & mask) == np.uint64(int.from_bytes(part, "little"))
    return has_it


def _group_by_guess(
    block: LineBlock, whole: LinePositions, catalog: Catalog
) -> Iterator[tuple[RecordShape, LinePositions]]:
    """Lines whose type stands further behind: it is guessed here, and compared when the line has been read."""
    words = np.ndarray((len(block.data) - _WORD_BYTES + 1,), "<u8", block.data, strides=(1,))
    left = whole[~np.isin(words[block.offsets[whole]], _KIND_WORDS)]
    if not len(left):
        return
    found = pc.extract_regex(block.select(left).to_array(), _GUESS).field("found").dictionary_encode()
    codes = found.indices.to_numpy()
    for code, guess in enumerate(found.dictionary[:_MAX_LINE_STARTS].to_pylist()):
        if not guess:
            continue  # lines that name no type at all
        kind, name = guess.decode().split('"')[1::2]
        type_ = _find_type(kind, name, catalog)
        if type_ is not None and DATA not in type_.by_name and kind not in type_.by_name:
            yield replace(build_graph_shape(type_), guess=(kind, name)), left[codes == code]


def _find_type(kind: str, name: str, catalog: Catalog) -> AnyType | None:
    return catalog.nodes.get(name) if kind == "type" else catalog.find_edge(name)


# --- rows --------------------------------------------------------------------------------------------


def read_flat_block(block: LineBlock, shape: RecordShape) -> tuple[list[DecodedRows], LinePositions]:
    """What can be read quickly of lines that all have one shape, and the positions of all others, in their order."""
    found: list[DecodedRows] = []
    is_left = np.zeros(len(block.offsets), bool)
    is_left[block.chosen] = True
    for rows, done in _iter_chunks(shape, block, block.find_whole(block.chosen)):
        found.append(rows)
        is_left[done] = False
    return found, np.flatnonzero(is_left)


def _iter_chunks(
    shape: RecordShape, block: LineBlock, positions: LinePositions
) -> Iterator[tuple[DecodedRows, LinePositions]]:
    """The rows of these lines that are sure, and which lines those are; in pieces, where some can't be read."""
    if not len(positions):
        return
    # Each piece is read by the shape of its first line: a file may hold records of both shapes, one after the other.
    fitted = _fit_shape(shape, block.get_line(int(positions[0])))
    table = read_fast(block, positions, fitted.schema)
    if table is not None:
        rows, is_sure = _build_rows(fitted, table, block.to_numbers(positions))
        if len(rows.lines):
            yield rows, positions[is_sure]
    elif len(positions) > _MIN_SPLIT_LINES:
        for piece in np.array_split(positions, _SPLIT_FACTOR):
            yield from _iter_chunks(shape, block, piece)


def _build_rows(shape: RecordShape, table: FastTable, lines: LinePositions) -> tuple[DecodedRows, Doubts]:
    type_, doubts = shape.type, table.doubts
    if shape.guess is not None:
        kind, name = shape.guess
        doubts = doubts | ~_to_flags(pc.fill_null(pc.equal(table.columns[kind], name), fill_value=False))
    columns: dict[str, DecodedColumn] = {}
    for name in list_id_columns(type_):
        array, left_out, doubts = _select_column(shape.names[name], table, doubts)
        columns[name] = DecodedColumn(array=array, left_out=left_out)
    if shape.has_data:
        doubts = doubts | _find_explicit_nulls(table, DATA)
    for p in type_.properties:
        array, left_out, doubts = _select_column(shape.names[p.name], table, doubts)
        if shape.is_older:
            array, wrong = normalize_column(p.type, array)
            doubts = doubts if wrong is None else doubts | wrong
        filled, wrong = decode_fast_column(p, array)
        columns[p.name] = _fill_defaults(p, filled, left_out)
        if wrong is not None:
            doubts = doubts | wrong
    rows = DecodedRows(lines=lines, columns=columns)
    return (rows.filter(~doubts) if doubts.any() else rows), ~doubts


def _select_column(names: Sequence[str], table: FastTable, doubts: Doubts) -> tuple[pa.Array, pa.Array | None, Doubts]:
    """The column that goes by one of several names; rows that have another than the first in use are in doubt."""
    used = next((name for name in names if table.columns[name].null_count < len(doubts)), names[0])
    for name in names:
        if name != used:
            doubts = doubts | ~_find_absent(table, name)
    return table.columns[used], table.left_out.get(used), doubts


def _find_explicit_nulls(table: FastTable, name: str) -> Doubts:
    return _to_flags(table.columns[name].is_null()) & ~_find_absent(table, name)


def _find_absent(table: FastTable, name: str) -> Doubts:
    left_out = table.left_out.get(name)
    return np.zeros(len(table.doubts), bool) if left_out is None else _to_flags(left_out)


def _to_flags(mask: pa.Array) -> Doubts:
    flags: Doubts = mask.to_numpy(zero_copy_only=False)
    return flags


def _fill_defaults(p: Property, filled: DecodedColumn, left_out: pa.Array | None) -> DecodedColumn:
    if left_out is None:
        return filled
    array = filled.array
    if p.has_default and p.default is not None:
        array = replace_values(array, _to_flags(left_out), build_default_column(p, left_out.true_count))
    return DecodedColumn(array=array, misfits=filled.misfits, left_out=left_out)
