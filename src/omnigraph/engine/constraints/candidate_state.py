"""Define what a check needs to know about a candidate state: the graph as it would be after a write."""

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from omnigraph.engine.view import View
from omnigraph.schema.catalog import AnyType
from omnigraph.storage.key_lookup import RowAddressCache
from omnigraph.storage.lance_table import LanceTable


class StreamedIds(Protocol):
    """Incoming rows that are read in parts, each of which replaces a stored row."""

    @property
    def ids(self) -> pa.Array:
        """Return the ids of all of them."""
        ...


class CandidateTable(Protocol):
    """The rows of one type after a write: incoming rows, and stored rows that are neither replaced nor deleted."""

    @property
    def type(self) -> AnyType:
        """The type of the rows."""
        ...

    @property
    def table(self) -> LanceTable:
        """The stored rows, including those that are replaced or deleted."""
        ...

    @property
    def seen(self) -> LanceTable:
        """The stored rows that the writer sees."""
        ...

    @property
    def rows(self) -> pa.Table:
        """The incoming rows, each id once, without those of `streamed`."""
        ...

    @property
    def streamed(self) -> StreamedIds | None:
        """The incoming rows that only `iter_parts` yields."""
        ...

    @property
    def deleted(self) -> Collection[str]:
        """The ids of the rows to delete."""
        ...

    @property
    def replaced_ids(self) -> pa.Array:
        """The ids whose stored rows, if they exist, `rows` replace or `deleted` names."""
        ...

    @property
    def known(self) -> RowAddressCache:
        """The look-up of stored rows by id."""
        ...

    def iter_parts(self) -> Iterator[pa.Table]:
        """Yield all incoming rows, in parts if they are too many to hold in memory."""
        ...

    def may_change(self, columns: Collection[str]) -> bool:
        """Return whether an incoming row may differ in one of these columns from the row that it replaces."""
        ...

    def find_committed_ids(self, ids: pa.Array) -> pa.Array:
        """Return those of the ids that stored rows have, including rows that are replaced or deleted."""
        ...


class CandidateState(Protocol):
    """The tables of all types after a write, over one view of the graph."""

    @property
    def view(self) -> View:
        """The stored state."""
        ...

    @property
    def touched(self) -> Sequence[CandidateTable]:
        """The tables with incoming or deleted rows: nodes, then edges, in declared order."""
        ...

    def get_table(self, type_: AnyType) -> CandidateTable:
        """Return the table of a type."""
        ...

    def check_size(self, nbytes: int, what: str) -> None:
        """Check a size against the memory limit of the write, whose error names `what`."""
        ...
