"""Rows of one type, from columns that were read: checked for presence, given their ids, in the form of the table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.engine.columns import column_from_json
from omnigraph.engine.record_error import RecordError
from omnigraph.schema.arrow import DST, ID, SRC, arrow_schema
from omnigraph.schema.catalog import AnyType, EdgeType, Property
from omnigraph.schema.misfit import Misfit, shown
from omnigraph.schema.types import Scalar
from omnigraph.schema.values import derive_id, expected, from_json, key_text, to_json

FROM, TO = "from", "to"
SHOWN_AS = {SRC: FROM, DST: TO}

Rejected: TypeAlias = tuple[RecordError, bytes]


class Absent(Enum):
    """What stands for a value that a record does not have, because None is one."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedRows:
    """Some records of one type.

    `rows` has the columns of the type's table, in order, and `lines` says where each row came from. A property that a
    record leaves out has its default in `rows`, or null. `left_out` tells it from an explicit null: a mask, true where
    the property was left out, for each property that at least one of these records leaves out.
    """

    type: AnyType
    rows: pa.Table
    lines: pa.Array
    left_out: Mapping[str, pa.Array]


@dataclass(slots=True, kw_only=True)
class Filled:
    """One property's column: null where a value does not fit, and then its text and the reason, by row."""

    array: pa.Array
    misfits: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    left_out: pa.Array | None = None


@dataclass(slots=True, kw_only=True)
class ReadRows:
    """What was read, before it is checked. `ids` may be absent; `sources` and `targets` are an edge's ends."""

    lines: list[int] = field(default_factory=list)
    texts: list[bytes] = field(default_factory=list)
    ids: list[object] = field(default_factory=list)
    sources: list[object] = field(default_factory=list)
    targets: list[object] = field(default_factory=list)
    columns: dict[str, Filled] = field(default_factory=dict)

    def kept(self, rows: Sequence[int]) -> "ReadRows":
        """Only these rows, whose values all fit."""
        chosen = pa.array(rows, pa.int64())
        return ReadRows(
            lines=[self.lines[row] for row in rows],
            texts=[self.texts[row] for row in rows],
            ids=[self.ids[row] for row in rows],
            sources=[self.sources[row] for row in rows] if self.sources else [],
            targets=[self.targets[row] for row in rows] if self.targets else [],
            columns={
                name: Filled(
                    array=one.array.take(chosen),
                    left_out=None if one.left_out is None else one.left_out.take(chosen),
                )
                for name, one in self.columns.items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where rows come from, for messages, and how they are to be taken.

    With `is_partial`, a required property may be left out, unless it is part of the key: for a merge, where the row
    that is there may have it.
    """

    file: str
    unit: str = "line"
    is_partial: bool = False


Problems: TypeAlias = dict[int, tuple[str | None, str | None, str]]
"""By row, the first thing that is wrong with it: property, value, reason."""


def filled_from_json(p: Property, values: list[object]) -> Filled:
    """A property's column of decoded JSON values; what a record leaves out becomes the default, or null."""
    left_out = None
    kinds = set(map(type, values))
    if Absent in kinds:
        left_out = pa.array([value is ABSENT for value in values], pa.bool_())
        default = to_json(p.type, p.default) if p.has_default else None
        values = [default if value is ABSENT else value for value in values]
    column = column_from_json(p.type, values)
    misfits = {row: (shown(values[row]), misfit.reason) for row, misfit in column.misfits.items()}
    return Filled(array=column.array, misfits=misfits, left_out=left_out)


def absent_column(p: Property, rows: int) -> Filled:
    """The column of a property that no record has."""
    return filled_from_json(p, [ABSENT] * rows)


def finish(
    type_: AnyType, read: ReadRows, origin: Origin, new_id: Callable[[], str]
) -> tuple[TypedRows, list[Rejected]]:
    """The rows that are right, with their ids, and the others with what is wrong; both in the order they came in."""
    rejected: list[Rejected] = []
    problems = _problems(type_, read, origin)
    if problems:
        read = _without(type_, read, problems, origin, rejected)
    ids = _ids(type_, read, new_id)
    problems = _id_problems(type_, read, ids)
    if problems:
        ids = [row_id for row, row_id in enumerate(ids) if row not in problems]
        read = _without(type_, read, problems, origin, rejected)
    schema = arrow_schema(type_)
    own = {ID: ids, SRC: read.sources, DST: read.targets}
    arrays = [pa.array(own[one.name], pa.utf8()) if one.name in own else read.columns[one.name].array for one in schema]
    masks = {name: one.left_out for name, one in read.columns.items() if one.left_out is not None}
    rows = TypedRows(
        type=type_,
        rows=pa.Table.from_arrays(arrays, schema=schema),
        lines=pa.array(read.lines, pa.int64()),
        left_out={name: mask for name, mask in masks.items() if mask.true_count},
    )
    return rows, sorted(rejected, key=lambda one: one[0].line)


def _without(type_: AnyType, read: ReadRows, problems: Problems, origin: Origin, rejected: list[Rejected]) -> ReadRows:
    for row, (name, value, reason) in problems.items():
        error = RecordError(origin.file, read.lines[row], type_.name, name, value, reason, origin.unit)
        rejected.append((error, read.texts[row]))
    return read.kept([row for row in range(len(read.lines)) if row not in problems])


def _problems(type_: AnyType, read: ReadRows, origin: Origin) -> Problems:
    problems: Problems = {}
    if isinstance(type_, EdgeType):
        _check_texts(FROM, read.sources, problems)
        _check_texts(TO, read.targets, problems)
    _check_texts(ID, read.ids, problems, may_be_absent=True)
    for p in type_.properties:
        column = read.columns[p.name]
        for row, (value, reason) in column.misfits.items():
            problems.setdefault(row, (p.name, value, reason))
        if column.array.null_count and not p.nullable:
            _check_present(p, column, problems, may_be_absent=origin.is_partial and p.name not in type_.key)
    return problems


def _check_present(p: Property, column: Filled, problems: Problems, *, may_be_absent: bool) -> None:
    for row in pc.indices_nonzero(column.array.is_null()).to_pylist():
        if row in column.misfits:
            continue
        if column.left_out is not None and column.left_out[row].as_py():
            if not may_be_absent:
                problems.setdefault(row, (p.name, None, f"a value is required: {expected(p.type)}"))
        else:
            problems.setdefault(row, (p.name, "null", f"expected {expected(p.type)}, got null"))


def _check_texts(name: str, values: list[object], problems: Problems, *, may_be_absent: bool = False) -> None:
    kinds = set(map(type, values))
    if kinds == {Absent} and may_be_absent:
        return
    if kinds == {str} and "" not in values and _is_utf8(values):
        return
    for row, value in enumerate(values):
        if value is ABSENT:
            if not may_be_absent:
                problems.setdefault(row, (name, None, f"an edge needs `{name}`, the id of a node"))
        elif value == "":
            problems.setdefault(row, (name, '""', "an id is not empty"))
        elif isinstance(misfit := from_json(Scalar.STRING, value), Misfit):
            problems.setdefault(row, (name, shown(value), misfit.reason))


def _is_utf8(values: list[object]) -> bool:
    try:
        pa.array(values, pa.utf8())
    except UnicodeEncodeError:
        return False
    return True


# --- ids -----------------------------------------------------------------------------------------


def _ids(type_: AnyType, read: ReadRows, new_id: Callable[[], str]) -> list[object]:
    if not type_.key:
        return [new_id() if given is ABSENT else given for given in read.ids]
    columns = [_key_texts(type_, name, read) for name in type_.key]
    if len(columns) == 1:
        return columns[0]
    return [derive_id([str(text) for text in texts]) for texts in zip(*columns, strict=True)]


def _key_texts(type_: AnyType, name: str, read: ReadRows) -> list[object]:
    if name in SHOWN_AS:
        return read.sources if name == SRC else read.targets
    p = type_.by_name[name]
    array = read.columns[name].array
    if p.type is Scalar.DATETIME:
        return [key_text(p.type, value) for value in array.to_pylist()]
    texts: list[object] = array.cast(pa.utf8()).to_pylist()  # for the others, Arrow's text is that of `key_text`
    return texts


def _id_problems(type_: AnyType, read: ReadRows, ids: list[object]) -> Problems:
    problems: Problems = {}
    if not type_.key:
        return problems
    key = ", ".join(SHOWN_AS.get(name, name) for name in type_.key)
    if "" in ids:
        for row in [row for row, row_id in enumerate(ids) if not row_id]:
            problems[row] = (key, '""', "the key is empty, and the id is made of it")
    if set(map(type, read.ids)) <= {Absent} or read.ids == ids:
        return problems
    for row, (given, derived) in enumerate(zip(read.ids, ids, strict=True)):
        if given is not ABSENT and given != derived:
            reason = f"the id {shown(given)} does not agree with the key ({key}), which makes it {shown(derived)}"
            problems.setdefault(row, (ID, shown(given), reason))
    return problems
