"""The state of a Spark load between its jobs: what each split gave, and which fragments hold its rows now."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.spark.load.load_task import SplitResult
from omnigraph.storage.fragment_writer import count_fragment_rows
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.written_rows import iter_staged_batches


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

    results: dict[int, SplitResult] = field(default_factory=dict)
    left_out: dict[tuple[int, str], bytes] = field(default_factory=dict)
    """The ordinals of rows that are not in the fragments of a split and type."""

    def count_rows(self, name: str) -> int:
        """How many good rows of a type were read, whether they are staged or left out."""
        return sum(one.types[name].rows for one in self.results.values() if name in one.types)

    def has_generated_ids(self, name: str) -> bool:
        """Whether every row of a type has an id that was made for it, so that no other row can have it."""
        return sum(one.types[name].made for one in self.results.values() if name in one.types) == self.count_rows(name)

    @property
    def types(self) -> list[str]:
        """The types that have rows."""
        return list(dict.fromkeys(name for one in self._sort_results() for name in one.types))

    def list_fragments(self, name: str) -> list[str]:
        """The fragments of a type, in the order of its rows."""
        return [text for one in self._sort_results() if name in one.types for text in one.types[name].fragments]

    def check_same(
        self, again: Sequence[SplitResult], name_of: Callable[[int], str], only: Collection[int] = ()
    ) -> None:
        """InputChangedError when a split, of all or of `only` some, gave other rows than the first time."""
        found = {one.split: _summarize(one) for one in again}
        for split in only or self.results:
            if found.pop(split, None) != _summarize(self.results[split]):
                raise InputChangedError(name_of(split))
        if found:
            raise InputChangedError("a DataFrame")  # in more partitions than before

    def replace(self, again: Iterable[SplitResult], left_out: Mapping[tuple[int, str], bytes]) -> dict[str, list[str]]:
        """Other fragments for some splits and types: by type, the fragments whose place they take."""
        old: dict[str, list[str]] = {}
        by_split = {one.split: one for one in again}
        for (split, name), ordinals in left_out.items():
            told = self.results[split].types[name]
            old.setdefault(name, []).extend(told.fragments)
            told.fragments = by_split[split].types[name].fragments
            if ordinals:
                self.left_out[split, name] = ordinals
            else:
                self.left_out.pop((split, name), None)
        return old

    def _sort_results(self) -> list[SplitResult]:
        return [self.results[split] for split in sorted(self.results)]


def _summarize(done: SplitResult) -> dict[str, tuple[int, int]]:
    """What tells the rows of a split from others: how many of each type, and their keys in their order."""
    return {name: (told.rows, told.checksum) for name, told in done.types.items()}


@dataclass(frozen=True, slots=True)
class StagedColumns:
    """Columns of a type's staged rows, read again whenever it is called."""

    table: LanceTable
    fragments: tuple[str, ...]
    columns: tuple[str, ...]

    def __call__(self) -> Iterator[pa.RecordBatch]:
        """From the start."""
        for fragment in self.fragments:
            yield from iter_staged_batches(self.table.handles.store, self.table.path, fragment, self.columns)


def sum_fragment_rows(fragments: Sequence[str]) -> int:
    """How many rows fragments have."""
    return sum(map(count_fragment_rows, fragments))
