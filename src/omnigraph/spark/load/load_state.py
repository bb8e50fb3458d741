"""The state of a Spark load between its jobs: what each split gave, and which fragments hold its rows now."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.spark.load.load_task import Done
from omnigraph.storage.fragment_writer import fragment_rows
from omnigraph.storage.lance_table import Table
from omnigraph.storage.written_rows import staged_batches


class InputChangedError(OmnigraphError):
    """An input gave other rows when it was read again."""

    kind = Kind.INVALID
    code = "input_changed"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"{self.name} gave other rows when it was read again; nothing was loaded."
            " Don't change files while they are loaded, and persist or write a DataFrame whose rows are computed anew"
        )


@dataclass(slots=True)
class StagedLoad:
    """What the tasks have staged, by split and type."""

    done: dict[int, Done] = field(default_factory=dict)
    left_out: dict[tuple[int, str], bytes] = field(default_factory=dict)
    """The ordinals of rows that are not in the fragments of a split and type."""

    def rows(self, name: str) -> int:
        """How many good rows of a type were read, whether they are staged or left out."""
        return sum(one.types[name].rows for one in self.done.values() if name in one.types)

    def is_made(self, name: str) -> bool:
        """Whether every row of a type has an id that was made for it, so that no other row can have it."""
        return sum(one.types[name].made for one in self.done.values() if name in one.types) == self.rows(name)

    @property
    def types(self) -> list[str]:
        """The types that have rows."""
        return list(dict.fromkeys(name for one in self._in_order() for name in one.types))

    def fragments(self, name: str) -> list[str]:
        """The fragments of a type, in the order of its rows."""
        return [text for one in self._in_order() if name in one.types for text in one.types[name].fragments]

    def check_same(self, again: Sequence[Done], name_of: Callable[[int], str], only: Collection[int] = ()) -> None:
        """InputChangedError when a split, of all or of `only` some, gave other rows than the first time."""
        found = {one.split: _content(one) for one in again}
        for split in only or self.done:
            if found.pop(split, None) != _content(self.done[split]):
                raise InputChangedError(name_of(split))
        if found:
            raise InputChangedError("a DataFrame")  # in more partitions than before

    def replace(self, again: Iterable[Done], left_out: Mapping[tuple[int, str], bytes]) -> dict[str, list[str]]:
        """Other fragments for some splits and types: by type, the fragments whose place they take."""
        old: dict[str, list[str]] = {}
        by_split = {one.split: one for one in again}
        for (split, name), ordinals in left_out.items():
            told = self.done[split].types[name]
            old.setdefault(name, []).extend(told.fragments)
            told.fragments = by_split[split].types[name].fragments
            if ordinals:
                self.left_out[split, name] = ordinals
            else:
                self.left_out.pop((split, name), None)
        return old

    def _in_order(self) -> list[Done]:
        return [self.done[split] for split in sorted(self.done)]


def _content(done: Done) -> dict[str, tuple[int, int]]:
    """What tells the rows of a split from others: how many of each type, and their keys in their order."""
    return {name: (told.rows, told.checksum) for name, told in done.types.items()}


@dataclass(frozen=True, slots=True)
class StagedColumns:
    """Columns of a type's staged rows, read again whenever it is called."""

    table: Table
    fragments: tuple[str, ...]
    columns: tuple[str, ...]

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """From the start."""
        for fragment in self.fragments:
            yield from staged_batches(self.table.handles.store, self.table.path, fragment, self.columns)


def total_rows(fragments: Sequence[str]) -> int:
    """How many rows fragments have."""
    return sum(map(fragment_rows, fragments))
