"""Spool the rows of a load to temporary Arrow files, so that only single columns of all rows are ever in memory.

Each type has its own files in a private directory: one, unless there are more types than files may be open. They have
the columns of the type's table, then the origin of each row (input and line), then, if the spool keeps them, masks of
the properties that records left out.
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

# The origin of a row: the number of its input, and the line or row there. No property has such a name.
FILE, LINE = "@file", "@line"
_LEFT_OUT = "@left_out:"

# Types with an open file while rows arrive. Beyond that, the least recently written file is closed (LRU), and later
# rows of its type go to a new file.
MAX_OPEN_FILES = 64


class SpoolError(OmnigraphError):
    """The temporary files of a load can't be written or read, most likely because the disk is full."""

    kind = Kind.EXHAUSTED
    code = "spool_failed"
    directory: str
    reason: str

    def __str__(self) -> str:
        is_about_files = self.reason in (os.strerror(errno.EMFILE), os.strerror(errno.ENFILE))
        more = "let the process open more files (ulimit -n)"
        way_out = more if is_about_files else "free some space, or set TMPDIR to a directory that has more"
        return (
            f"a load keeps its rows in `{self.directory}` until they are checked, and that failed: {self.reason};"
            f" {way_out}"
        )


def build_left_out_name(property_name: str) -> str:
    """Return the name of the column that marks where a property was left out."""
    return _LEFT_OUT + property_name


@dataclass(slots=True)
class SpooledType:
    """The spooled rows of one type in the order of arrival; a row's position counts from 0."""

    type: AnyType
    paths: tuple[Path, ...]
    firsts: np.ndarray[tuple[int], np.dtype[np.int64]]
    """The number of each file's first batch, then the total number of batches."""
    schema: pa.Schema
    left_out: frozenset[str]
    """The properties that at least one record left out, and `id` if one was generated."""
    starts: np.ndarray[tuple[int], np.dtype[np.int64]]
    """The position of each batch's first row, then the total number of rows."""
    generated_ids: int = 0
    """The number of rows with a generated id, which no other row can have."""
    watch: Watch | None = None
    """The limits of the load, checked for every batch that is read back and for the size of columns."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.starts[-1])

    def read_columns(self, names: Sequence[str]) -> pa.Table:
        """Read some columns of all rows into memory."""
        batches = []
        nbytes = 0
        for batch in self.read_batches(names):
            nbytes += batch.nbytes
            self.check_size(nbytes)
            batches.append(batch)
        return pa.Table.from_batches(batches, self._select_schema(names))

    def check_size(self, nbytes: int) -> None:
        """Check the size of this type's keys in memory against the limits of the load, which raise their error."""
        if self.watch is not None:
            self.watch.check_size(nbytes, f"the keys of {self.rows:,} rows of {self.type.name}")

    def read_batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of all rows, batch by batch."""
        for file in range(len(self.paths)):
            with self._open(file, names) as reader:
                for number in range(reader.num_record_batches):
                    if self.watch is not None:
                        self.watch.check()
                    yield reader.get_batch(number).select(list(names))

    def take(self, positions: "np.ndarray[tuple[int], np.dtype[np.int64]]", names: Sequence[str]) -> pa.Table:
        """Return some columns of the rows at these positions, which are in ascending order."""
        parts: list[pa.RecordBatch] = []
        # Only batches that contain one of the positions are read, file by file.
        bounds = np.searchsorted(positions, self.starts)
        batches = np.flatnonzero(np.diff(bounds))
        for file, numbers in enumerate(np.split(batches, np.searchsorted(batches, self.firsts[1:-1]))):
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
        columns = sorted({self.schema.get_field_index(name) for name in names})
        with (
            _translate_spool_errors(self.paths[file].parent),
            pa.OSFile(str(self.paths[file]), "rb") as source,
            pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=columns)) as reader,
        ):
            yield reader


@dataclass(slots=True)
class _TypeWriter:
    """The spool files of one type while they are written."""

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
        # Cleared first: a second call after an error must not close them again.
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
    """The spool of a load: `add` windows, `seal` once, then read `types`; `close` removes the files."""

    def __init__(self, *, keeps_left_out: bool, watch: Watch | None = None) -> None:
        self._keeps_left_out, self._watch = keeps_left_out, watch
        self._writers: dict[str, _TypeWriter] = {}
        # Writers with an open file, the most recently used last.
        self._open: dict[str, _TypeWriter] = {}
        self._sealed: dict[str, SpooledType] = {}
        self._files = 0
        try:
            self._temp_directory = TempDirectory("omnigraph-load-")
        except OSError as error:
            raise SpoolError(tempfile.gettempdir(), error.strerror or str(error)) from error
        self.directory = self._temp_directory.directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def declare_type(self, type_: AnyType) -> None:
        """Declare a type that the load names, even if it has no rows: an overwrite then empties its table."""
        if type_.name not in self._writers:
            self._begin(type_)

    def add(self, file: int, window: TypedRows) -> None:
        """Add the rows of a window, which came from the input with number `file`."""
        if not window.rows.num_rows:
            return
        with _translate_spool_errors(self.directory):
            writer = self._writers.get(window.type.name) or self._begin(window.type)
            writer.left_out.update(window.left_out)
            # The id counts as left out exactly where one was generated.
            writer.generated_ids += window.left_out[ID].true_count if ID in window.left_out else 0
            self._ensure_open(writer).write(self._build_table(file, window, writer.schema))

    def seal(self) -> None:
        """Finish writing; from then on `types` can be read."""
        with _translate_spool_errors(self.directory):
            for name, writer in self._writers.items():
                self._sealed[name] = writer.seal(self._watch)
        self._writers, self._open = {}, {}

    @property
    def types(self) -> Mapping[str, SpooledType]:
        """The types that were declared or have rows, by name, in the order of first appearance."""
        return self._sealed

    @property
    def nbytes(self) -> int:
        """The disk space that the rows take."""
        return sum(path.stat().st_size for spooled in self._sealed.values() for path in spooled.paths)

    def close(self) -> None:
        """Remove all files."""
        for writer in self._writers.values():
            try:
                writer.close()
            except OSError as error:
                log.warning("a temporary file of a load was not closed: %s", error)
        self._writers, self._open = {}, {}
        self._temp_directory.close()

    def _begin(self, type_: AnyType) -> _TypeWriter:
        # All columns are nullable: a record of a merge may leave out a required property.
        stored = build_arrow_schema(type_)
        fields = [pa.field(field.name, field.type, metadata=field.metadata) for field in stored]
        fields += [pa.field(FILE, pa.int32()), pa.field(LINE, pa.int64())]
        if self._keeps_left_out:
            fields += [pa.field(build_left_out_name(name), pa.bool_()) for name in _list_optional_columns(type_)]
        writer = self._writers[type_.name] = _TypeWriter(type_, pa.schema(fields))
        return writer

    def _ensure_open(self, writer: _TypeWriter) -> _TypeWriter:
        """Return the writer with an open file; the least recently used one may be closed for it."""
        name = writer.type.name
        if self._open.pop(name, None) is None:
            if len(self._open) >= MAX_OPEN_FILES:
                self._open.pop(next(iter(self._open))).close()
            writer.open(self.directory / f"{self._files}.arrow")
            self._files += 1
        # A dict keeps the order of insertion: popped and added again, this writer is the last.
        self._open[name] = writer
        return writer

    def _build_table(self, file: int, window: TypedRows, schema: pa.Schema) -> pa.Table:
        rows = window.rows.num_rows
        columns: list[pa.Array | pa.ChunkedArray] = [*window.rows.columns]
        columns += [pa.repeat(pa.scalar(file, pa.int32()), rows), window.lines]
        if self._keeps_left_out:
            no_rows = pa.repeat(pa.scalar(False), rows)
            columns += [window.left_out.get(name, no_rows) for name in _list_optional_columns(window.type)]
        return pa.Table.from_arrays(columns, schema=schema)


def _list_optional_columns(type_: AnyType) -> list[str]:
    return [ID, *(p.name for p in type_.properties)]


@contextmanager
def _translate_spool_errors(directory: Path) -> Iterator[None]:
    """Raise errors of the temporary files as SpoolError; those of stores and tables are no OSError here."""
    try:
        yield
    except OSError as error:
        raise SpoolError(str(directory), error.strerror or str(error)) from error
