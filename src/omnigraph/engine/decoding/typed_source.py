"""Sources of one type's rows, and the mapping of their columns to properties.

The columns are the properties, `id`, and for an edge `from` and `to` (or `src` and `dst`). A source that lacks a column
omits that property.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from omnigraph.engine.decoding.file_ranges import FilePart
from omnigraph.engine.decoding.record_error import ColumnError
from omnigraph.engine.decoding.typed_rows import EXTERNAL_NAMES, FROM, TO, RowOrigin
from omnigraph.lang.spelling import find_closest
from omnigraph.schema.arrow import ID
from omnigraph.schema.catalog import AnyType, EdgeType
from omnigraph.schema.types import Scalar
from omnigraph.schema.values import format_value
from omnigraph.storage.blob_sources import NO_SOURCES, BlobSources
from omnigraph.storage.s3_input_files import InputFile

BATCH_ROWS = 65_536
BATCH_ROWS_WITH_BLOBS = 256


@runtime_checkable
class ArrowStream(Protocol):
    """Arrow data of any library: tables and streams of pyarrow, frames of pandas and polars."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the stream by Arrow's PyCapsule interface."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSource(ABC):
    """Rows of one type. `columns` maps a property, `id`, `from` or `to` to the column that holds it."""

    type: AnyType
    columns: Mapping[str, str]
    is_partial: bool = False
    blobs: BlobSources = NO_SOURCES
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """Values of all rows by column, from the names of the file's directories, see `partition_values`."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name in messages."""

    @property
    def has_blobs(self) -> bool:
        """Whether the type has Blobs, so that a row may be large."""
        return any(p.type is Scalar.BLOB for p in self.type.properties)

    @property
    def batch_rows(self) -> int:
        """The number of rows in memory at once."""
        return BATCH_ROWS_WITH_BLOBS if self.has_blobs else BATCH_ROWS

    def build_origin(self, unit: str) -> RowOrigin:
        """Build the origin of the rows, for messages."""
        return RowOrigin(file=self.name, unit=unit, is_partial=self.is_partial, blobs=self.blobs)

    def build_targets(self) -> dict[str, str]:
        """Map each name that a column may have to what it holds."""
        own = (ID, FROM, TO) if isinstance(self.type, EdgeType) else (ID,)
        known = dict.fromkeys((*own, *self.type.by_name))
        for target in self.columns:
            if EXTERNAL_NAMES.get(target, target) not in known:
                reason = f"unknown property {format_value(target)} of `{self.type.name}`{format_hint(target, known)}"
                raise ColumnError(self.name, self.type.name, target, reason)
        mapped = {EXTERNAL_NAMES.get(target, target): column for target, column in self.columns.items()}
        names = {mapped.get(target, target): target for target in known}
        if isinstance(self.type, EdgeType):
            for stored, shown_name in EXTERNAL_NAMES.items():
                if shown_name not in mapped:
                    names.setdefault(stored, shown_name)
        return names

    def locate_columns(self, columns: Sequence[str]) -> dict[str, int]:
        """Map what the source has to its columns.

        Raises:
            ColumnError: A column is unknown, duplicate or missing.
        """
        names = self.build_targets()
        positions: dict[str, int] = {}
        unknown = [column for column in columns if column not in names]
        if unknown and unknown[0] in self.partition:
            reason = (
                f"`{self.type.name}` has no property for the directories `{unknown[0]}=…`; map one to it, or leave it"
                f" out by a pattern that names the directories, such as `…/{unknown[0]}=*/*`"
            )
            raise ColumnError(self.name, self.type.name, unknown[0], reason)
        if unknown:
            raise ColumnError(self.name, self.type.name, unknown[0], self._describe_unknown(unknown, columns, names))
        for position, column in enumerate(columns):
            target = names[column]
            if target in positions:
                raise ColumnError(self.name, self.type.name, column, f"two columns hold `{target}`")
            positions[target] = position
        for target, column in self.columns.items():
            if EXTERNAL_NAMES.get(target, target) not in positions:
                hint = format_hint(column, columns)
                reason = f"there is no column {format_value(column)}, which should hold `{target}`{hint}"
                raise ColumnError(self.name, self.type.name, column, reason)
        if isinstance(self.type, EdgeType):
            for end in (FROM, TO):
                if end not in positions:
                    reason = f"an edge needs the column `{end}`, the id of a node"
                    raise ColumnError(self.name, self.type.name, end, reason)
        return positions

    def _describe_unknown(self, unknown: Sequence[str], columns: Sequence[str], names: Iterable[str]) -> str:
        """Describe all columns that are no property, and how to map them or to leave them out."""
        if len(unknown) == 1:
            way_out = (_describe_separators(unknown[0]) if len(columns) == 1 else "") or format_hint(unknown[0], names)
            return f"unknown column {format_value(unknown[0])} for `{self.type.name}`{way_out}"
        listed = ", ".join(format_value(column) + _format_near(column, names) for column in unknown)
        ignored = " ".join(f"--ignore {column!r}" for column in unknown[:3])
        more = " …" if len(unknown) > 3 else ""
        return (
            f"unknown columns for `{self.type.name}`: {listed}; map them, or leave them out (on the command line:"
            f" {ignored}{more})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedFile(RowSource):
    """One file, or a part of it, with the format of its extension. Lines and rows of a part count from its start."""

    path: InputFile
    part: FilePart | None = None
    label: str | None = None
    """What messages call it, where that is not its path."""

    @property
    def name(self) -> str:
        """Its path, as it was given."""
        return str(self.path) if self.label is None else self.label


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedTable(RowSource):
    """Arrow data in memory, or a stream of it, which is read once."""

    data: ArrowStream
    label: str

    @property
    def name(self) -> str:
        """Such as `<nodes Person>`."""
        return self.label


def _describe_separators(only: str) -> str:
    """Describe a header that is one column because its names are not separated by commas."""
    marks = {";": "semicolons", "\t": "tabs", "|": "bars"}
    found = next((told for mark, told in marks.items() if mark in only), None)
    told = "stand between its names, and CSV has commas there; say so with --delimiter"
    return "" if found is None else f": {found} {told}"


def format_hint(word: str, known: Iterable[str]) -> str:
    """Format the known word that was likely meant, as the end of a message."""
    near = find_closest(word, known)
    return f"; did you mean `{near}`?" if near else ""


def _format_near(word: str, known: Iterable[str]) -> str:
    near = find_closest(word, known)
    return f" (did you mean `{near}`?)" if near else ""
