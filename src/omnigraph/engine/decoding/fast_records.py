"""Graph JSONL, the quick way: lines are told apart by how they start, and each type's are read as one table."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.decoding.fast_columns import filled_fast, json_type
from omnigraph.engine.decoding.fast_json import Doubts, FastTable, read_fast
from omnigraph.engine.decoding.line_blocks import PADDING, LineBlock, Places
from omnigraph.engine.decoding.older_export import normalize_column, older_data_type
from omnigraph.engine.decoding.typed_rows import Filled, ReadRows, default_column, id_columns, replaced
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, Property

DATA = "data"

_SMALLEST_PIECE = 128
"""So few lines are read the strict way when Arrow can't read them; of more, the bad ones are looked for."""
_PIECES = 8
_MOST_STARTS = 512
"""How many different starts of lines are told apart in one block; the lines of any others are read the strict way."""
_START = re.compile(rb'\{"(type|edge)": ?"([A-Za-z0-9_]{1,255})"')
_GUESS = r'(?P<found>"(?:type|edge)": ?"[A-Za-z0-9_]{1,255}")'
_WORD = 8
_KINDS = tuple(int.from_bytes(start, "little") for start in (b'{"type":', b'{"edge":'))


@dataclass(frozen=True, slots=True)
class Shape:
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


def graph_shape(type_: AnyType) -> Shape:
    """Graph JSONL: the properties are an object of their own."""
    kind = "edge" if isinstance(type_, EdgeType) else "type"
    data = pa.struct([(p.name, json_type(p.type)) for p in type_.properties])
    own = [(name, pa.utf8()) for name in (kind, *id_columns(type_))]
    names = {name: (name,) for name in (*id_columns(type_), *type_.by_name)}
    return Shape(type_, pa.schema([*own, (DATA, data)]), names)


def _fit_shape(shape: Shape, line: bytes) -> Shape:
    """Return the shape that a line has: the given one, or the older form of it."""
    data = older_data_type(shape.type, line) if shape.has_data else None
    if data is None:
        return shape
    own = [field for field in shape.schema if field.name not in (ID, DATA)]
    return replace(shape, schema=pa.schema([*own, (DATA, data)]), is_older=True)


def flat_shape(type_: AnyType, targets: Mapping[str, str]) -> Shape:
    """One object with everything; `targets` says what each name holds."""
    names: dict[str, list[str]] = {}
    for name, target in targets.items():
        names.setdefault(target, []).append(name)
    kinds = {p.name: json_type(p.type) for p in type_.properties}
    schema = pa.schema([(name, kinds.get(target, pa.utf8())) for name, target in targets.items()])
    return Shape(type_, schema, names)


@dataclass(frozen=True, slots=True)
class FastRows:
    """Rows of one type that are beyond doubt, but for the rules that `finish` checks; `first` is their first line."""

    type: AnyType
    first: int
    read: ReadRows


def read_graph_block(block: LineBlock, catalog: Catalog) -> tuple[list[FastRows], Places]:
    """What can be read quickly, and the positions of all other lines, in their order."""
    found: list[FastRows] = []
    is_left = np.zeros(len(block.offsets), bool)
    is_left[block.chosen] = True
    whole = block.whole(block.chosen)
    for shape, positions in chain(_by_start(block, whole, catalog), _by_guess(block, whole, catalog)):
        for rows, done in _pieces(shape, block, positions[is_left[positions]]):
            found.append(FastRows(shape.type, int(block.numbers(done)[0]), rows))
            is_left[done] = False
    return found, np.flatnonzero(is_left)


# --- which lines are of which type -------------------------------------------------------------------


def _by_start(block: LineBlock, whole: Places, catalog: Catalog) -> Iterator[tuple[Shape, Places]]:
    """Lines that start with their type, which is thereby known."""
    words = np.ndarray((len(block.data) - _WORD + 1,), "<u8", block.data, strides=(1,))
    left = whole[np.isin(words[block.offsets[whole]], _KINDS)]
    groups: dict[str, tuple[AnyType, list[Places]]] = {}
    for _ in range(_MOST_STARTS):
        if not len(left):
            break
        place = int(block.offsets[left[0]])
        start = _START.match(block.data, place, place + PADDING - _WORD)
        if start is None:
            left = left[1:]
            continue
        has_it = _starting(words, block.offsets[left], start[0])
        type_ = _type_of(start[1].decode(), start[2].decode(), catalog)
        if type_ is not None and DATA not in type_.by_name:
            groups.setdefault(type_.name, (type_, []))[1].append(left[has_it])
        left = left[~has_it]
    for type_, parts in groups.values():
        yield graph_shape(type_), parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def _starting(words: np.ndarray[tuple[int], np.dtype[np.uint64]], places: Places, start: bytes) -> Doubts:
    """Which of the lines at these places start so."""
    has_it = np.ones(len(places), bool)
    for at in range(0, len(start), _WORD):
        part = start[at : at + _WORD]
        mask = np.uint64((1 << 8 * len(part)) - 1)
        has_it &= (words[places + at] & mask) == np.uint64(int.from_bytes(part, "little"))
    return has_it


def _by_guess(block: LineBlock, whole: Places, catalog: Catalog) -> Iterator[tuple[Shape, Places]]:
    """Lines whose type stands further behind: it is guessed here, and compared when the line has been read."""
    words = np.ndarray((len(block.data) - _WORD + 1,), "<u8", block.data, strides=(1,))
    left = whole[~np.isin(words[block.offsets[whole]], _KINDS)]
    if not len(left):
        return
    found = pc.extract_regex(block.part(left).lines(), _GUESS).field("found").dictionary_encode()
    codes = found.indices.to_numpy()
    for code, guess in enumerate(found.dictionary[:_MOST_STARTS].to_pylist()):
        if not guess:
            continue  # lines that name no type at all
        kind, name = guess.decode().split('"')[1::2]
        type_ = _type_of(kind, name, catalog)
        if type_ is not None and DATA not in type_.by_name and kind not in type_.by_name:
            yield replace(graph_shape(type_), guess=(kind, name)), left[codes == code]


def _type_of(kind: str, name: str, catalog: Catalog) -> AnyType | None:
    return catalog.nodes.get(name) if kind == "type" else catalog.edge(name)


# --- rows --------------------------------------------------------------------------------------------


def read_flat_block(block: LineBlock, shape: Shape) -> tuple[list[ReadRows], Places]:
    """What can be read quickly of lines that all have one shape, and the positions of all others, in their order."""
    found: list[ReadRows] = []
    is_left = np.zeros(len(block.offsets), bool)
    is_left[block.chosen] = True
    for rows, done in _pieces(shape, block, block.whole(block.chosen)):
        found.append(rows)
        is_left[done] = False
    return found, np.flatnonzero(is_left)


def _pieces(shape: Shape, block: LineBlock, positions: Places) -> Iterator[tuple[ReadRows, Places]]:
    """The rows of these lines that are sure, and which lines those are; in pieces, where some can't be read."""
    if not len(positions):
        return
    # Each piece is read by the shape of its first line: a file may hold records of both shapes, one after the other.
    fitted = _fit_shape(shape, block.line(int(positions[0])))
    table = read_fast(block, positions, fitted.schema)
    if table is not None:
        rows, is_sure = _rows(fitted, table, block.numbers(positions))
        if len(rows.lines):
            yield rows, positions[is_sure]
    elif len(positions) > _SMALLEST_PIECE:
        for piece in np.array_split(positions, _PIECES):
            yield from _pieces(shape, block, piece)


def _rows(shape: Shape, table: FastTable, lines: Places) -> tuple[ReadRows, Doubts]:
    type_, doubts = shape.type, table.doubts
    if shape.guess is not None:
        kind, name = shape.guess
        doubts = doubts | ~_flags(pc.fill_null(pc.equal(table.columns[kind], name), fill_value=False))
    columns: dict[str, Filled] = {}
    for name in id_columns(type_):
        array, left_out, doubts = _one_of(shape.names[name], table, doubts)
        columns[name] = Filled(array=array, left_out=left_out)
    if shape.has_data:
        doubts = doubts | _explicit_nulls(table, DATA)
    for p in type_.properties:
        array, left_out, doubts = _one_of(shape.names[p.name], table, doubts)
        if shape.is_older:
            array, wrong = normalize_column(p.type, array)
            doubts = doubts if wrong is None else doubts | wrong
        filled, wrong = filled_fast(p, array)
        columns[p.name] = _with_defaults(p, filled, left_out)
        if wrong is not None:
            doubts = doubts | wrong
    rows = ReadRows(lines=lines, columns=columns)
    return (rows.kept(~doubts) if doubts.any() else rows), ~doubts


def _one_of(names: Sequence[str], table: FastTable, doubts: Doubts) -> tuple[pa.Array, pa.Array | None, Doubts]:
    """The column that goes by one of several names; rows that have another than the first in use are in doubt."""
    used = next((name for name in names if table.columns[name].null_count < len(doubts)), names[0])
    for name in names:
        if name != used:
            doubts = doubts | ~_absent(table, name)
    return table.columns[used], table.left_out.get(used), doubts


def _explicit_nulls(table: FastTable, name: str) -> Doubts:
    return _flags(table.columns[name].is_null()) & ~_absent(table, name)


def _absent(table: FastTable, name: str) -> Doubts:
    left_out = table.left_out.get(name)
    return np.zeros(len(table.doubts), bool) if left_out is None else _flags(left_out)


def _flags(mask: pa.Array) -> Doubts:
    flags: Doubts = mask.to_numpy(zero_copy_only=False)
    return flags


def _with_defaults(p: Property, filled: Filled, left_out: pa.Array | None) -> Filled:
    if left_out is None:
        return filled
    array = filled.array
    if p.has_default and p.default is not None:
        array = replaced(array, _flags(left_out), default_column(p, left_out.true_count))
    return Filled(array=array, misfits=filled.misfits, left_out=left_out)
