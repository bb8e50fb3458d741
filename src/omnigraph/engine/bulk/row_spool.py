"""The rows of a load between reading and writing: in files of their own, so that memory holds columns, never payloads.

Each type has its own Arrow files in a private directory: one, unless there are more types than files may be open. Their
columns are those of the type's table, and behind them where each row came from; for a merge also which properties its
record left out.
"""

import errno
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from omnigraph.engine.bulk.temp_directory import TempDirectory
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.schema.arrow import ID, build_arrow_schema
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.watch import Watch
from omnigraph.telemetry import log

FILE, LINE = "@file", "@line"
"""Where a row came from: the number of its input, and the line or row there. No property has such a name."""
_LEFT_OUT = "@left_out:"

MAX_OPEN_FILES = 64
"""So many types have an open file while rows come. The one that got none for longest is closed for another; what comes
for it later goes into a file of its own."""


class SpoolError(OmnigraphError):
    """The temporary files of a load can't be written or read, most likely because the disk is full."""

    kind = Kind.EXHAUSTED
    code = "spool_failed"

    def __init__(self, directory: str, reason: str) -> None:
        super().__init__(directory, reason)
        self.directory, self.reason = directory, reason

    def __str__(self) -> str:
        is_about_files = self.reason in (os.strerror(errno.EMFILE), os.strerror(errno.ENFILE))
        more = "let the process open more files (ulimit -n)"
        way_out = more if is_about_files else "free some space, or set TMPDIR to a directory that has more"
        return (
            f"a load keeps its rows in `{self.directory}` until they are checked, and that failed: {self.reason};"
            f" {way_out}"
        )


def build_left_out_name(property_name: str) -> str:
    """The column that says where a property was left out."""
    return _LEFT_OUT + property_name


@dataclass(slots=True)
class SpooledType:
    """The rows of one type, in the order in which they came; each has a position, counted from 0."""

    type: AnyType
    paths: tuple[Path, ...]
    firsts: np.ndarray[tuple[int], np.dtype[np.int64]]
    """The number of each file's first batch, and at the end how many there are."""
    schema: pa.Schema
    left_out: frozenset[str]
    """The properties that at least one record left out, and `id` if one was made."""
    starts: np.ndarray[tuple[int], np.dtype[np.int64]]
    """The position of each batch's first row, and at the end the number of rows."""
    generated_ids: int = 0
    """How many rows have an id that was made for them, so that no other row can have it."""
    watch: Watch | None = None
    """The limits of the load: asked for every batch that is read back, and how much is held."""

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.starts[-1])

    def read_columns(self, names: Sequence[str]) -> pa.Table:
        """Read some columns of all rows, which are in memory together."""
        parts, held = [], 0
        for batch in self.read_batches(names):
            held += batch.nbytes
            self.check_size(held)
            parts.append(batch)
        return pa.Table.from_batches(parts, self._select_schema(names))

    def check_size(self, nbytes: int) -> None:
        """Raise what the load's limits raise when so much of this type may not be in memory at once."""
        if self.watch is not None:
            self.watch.check_size(nbytes, f"the keys of {self.rows:,} rows of {self.type.name}")

    def read_batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns, a batch at a time."""
        for file in range(len(self.paths)):
            with self._open(file, names) as reader:
                for number in range(reader.num_record_batches):
                    if self.watch is not None:
                        self.watch.check()
                    yield reader.get_batch(number).select(list(names))

    def take(self, positions: "np.ndarray[tuple[int], np.dtype[np.int64]]", names: Sequence[str]) -> pa.Table:
        """Some columns of the rows at these positions, which are in ascending order."""
        parts: list[pa.RecordBatch] = []
        bounds = np.searchsorted(positions, self.starts)
        asked = np.flatnonzero(np.diff(bounds))
        for file, numbers in enumerate(np.split(asked, np.searchsorted(asked, self.firsts[1:-1]))):
            if not len(numbers):
                continue
            with self._open(file, names) as reader:
                for number in numbers.tolist():
                    local = positions[bounds[number] : bounds[number + 1]] - self.starts[number]
                    batch = reader.get_batch(int(number - self.firsts[file]))
                    parts.append(batch.select(list(names)).take(pa.array(local)))
        return pa.Table.from_batches(parts, self._select_schema(names))

    def _select_schema(self, names: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in names])

    @contextmanager
    def _open(self, file: int, names: Sequence[str]) -> Iterator[pa.RecordBatchFileReader]:
        wanted = sorted({self.schema.get_field_index(name) for name in names})
        with (
            _translate_spool_errors(self.paths[file].parent),
            pa.OSFile(str(self.paths[file]), "rb") as opened,
            pa.ipc.open_file(opened, options=pa.ipc.IpcReadOptions(included_fields=wanted)) as reader,
        ):
            yield reader


@dataclass(slots=True)
class _TypeWriter:
    """A type's files while they are written."""

    type: AnyType
    schema: pa.Schema
    paths: list[Path] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)
    generated_ids: int = 0
    file: pa.OSFile | None = None
    writer: pa.RecordBatchFileWriter | None = None

    def write(self, rows: pa.Table) -> None:
        assert self.writer is not None  # noqa: S101 - it is open when rows come
        for batch in rows.to_batches():
            self.writer.write_batch(batch)
            self.sizes.append(batch.num_rows)

    def open(self, path: Path) -> None:
        self.paths.append(path)
        self.firsts.append(len(self.sizes))
        self.file = pa.OSFile(str(path), "wb")
        self.writer = pa.ipc.new_file(self.file, self.schema)

    def close(self) -> None:
        file, writer = self.file, self.writer
        self.file = self.writer = None
        try:
            if writer is not None:
                writer.close()
        finally:
            if file is not None:
                file.close()

    def seal(self, watch: Watch | None) -> SpooledType:
        self.close()
        return SpooledType(
            type=self.type,
            paths=tuple(self.paths),
            firsts=np.array([*self.firsts, len(self.sizes)], np.int64),
            schema=self.schema,
            left_out=frozenset(self.left_out),
            starts=np.cumsum([0, *self.sizes], dtype=np.int64),
            generated_ids=self.generated_ids,
            watch=watch,
        )


class Spool:
    """All rows of a load. `add` windows, `seal` once, then read; the files go with `close`, or at the end of `with`."""

    def __init__(self, *, keeps_left_out: bool, watch: Watch | None = None) -> None:
        self._keeps_left_out, self._watch = keeps_left_out, watch
        self._writers: dict[str, _TypeWriter] = {}
        self._open: dict[str, _TypeWriter] = {}
        """Those with an open file, the one that got rows last at the end."""
        self._sealed: dict[str, SpooledType] = {}
        self._files = 0
        try:
            self._scratch = TempDirectory("omnigraph-load-")
        except OSError as error:
            raise SpoolError(tempfile.gettempdir(), error.strerror or str(error)) from error
        self.directory = self._scratch.directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def declare_type(self, type_: AnyType) -> None:
        """The load names this type, even when it has no rows of it."""
        if type_.name not in self._writers:
            self._begin(type_)

    def add(self, file: int, window: TypedRows) -> None:
        """Keep the rows of a window, which came from the input of that number."""
        if not window.rows.num_rows:
            return
        with _translate_spool_errors(self.directory):
            growing = self._writers.get(window.type.name) or self._begin(window.type)
            growing.left_out.update(window.left_out)
            growing.generated_ids += window.left_out[ID].true_count if ID in window.left_out else 0
            self._ensure_open(growing).write(self._build_table(file, window, growing.schema))

    def seal(self) -> None:
        """No more rows come."""
        with _translate_spool_errors(self.directory):
            for name, growing in self._writers.items():
                self._sealed[name] = growing.seal(self._watch)
        self._writers, self._open = {}, {}

    @property
    def types(self) -> Mapping[str, SpooledType]:
        """Every type that was named or has rows, by name, in the order of first appearance."""
        return self._sealed

    @property
    def nbytes(self) -> int:
        """How much disk the rows take."""
        return sum(path.stat().st_size for one in self._sealed.values() for path in one.paths)

    def close(self) -> None:
        """Remove every file."""
        for growing in self._writers.values():
            try:
                growing.close()
            except OSError as error:
                log.warning("a temporary file of a load was not closed: %s", error)
        self._writers, self._open = {}, {}
        self._scratch.close()

    def _begin(self, type_: AnyType) -> _TypeWriter:
        fields = [pa.field(one.name, one.type, metadata=one.metadata) for one in build_arrow_schema(type_)]
        fields += [pa.field(FILE, pa.int32()), pa.field(LINE, pa.int64())]
        if self._keeps_left_out:
            fields += [pa.field(build_left_out_name(name), pa.bool_()) for name in _list_optional_columns(type_)]
        growing = self._writers[type_.name] = _TypeWriter(type_, pa.schema(fields))
        return growing

    def _ensure_open(self, growing: _TypeWriter) -> _TypeWriter:
        """The type with an open file, for which another one may be closed."""
        name = growing.type.name
        if self._open.pop(name, None) is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            growing.open(self.directory / f"{self._files}.arrow")
            self._files += 1
        self._open[name] = growing
        return growing

    def _build_table(self, file: int, window: TypedRows, schema: pa.Schema) -> pa.Table:
        rows = window.rows.num_rows
        columns: list[pa.Array | pa.ChunkedArray] = [*window.rows.columns]
        columns += [pa.repeat(pa.scalar(file, pa.int32()), rows), window.lines]
        if self._keeps_left_out:
            nowhere = pa.repeat(pa.scalar(False), rows)
            columns += [window.left_out.get(name, nowhere) for name in _list_optional_columns(window.type)]
        return pa.Table.from_arrays(columns, schema=schema)


def _list_optional_columns(type_: AnyType) -> list[str]:
    return [ID, *(p.name for p in type_.properties)]


@contextmanager
def _translate_spool_errors(directory: Path) -> Iterator[None]:
    """The temporary files' own errors. A store's or a table's are not OSError by the time they get here."""
    try:
        yield
    except OSError as error:
        raise SpoolError(str(directory), error.strerror or str(error)) from error
