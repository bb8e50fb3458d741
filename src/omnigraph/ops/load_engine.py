"""The interface between `load` and the engine that processes its records: this process, or Spark."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.publisher import ArmedWrite
from omnigraph.commit.requirements import Requirement
from omnigraph.engine.bulk.load_batch import LoadBatch, TypeBatch
from omnigraph.engine.bulk.load_errors import InputNames
from omnigraph.engine.bulk.rejected_records import UnreadableRecords
from omnigraph.engine.view import View
from omnigraph.ops.load_call import LoadCall, TypeCounts
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite


class LoadRecords(Protocol):
    """The records of a load: read once, checked and written once per attempt, removed by `close`."""

    @property
    def schema_id(self) -> str:
        """The id of the schema that the records were decoded with."""
        ...

    @property
    def inputs(self) -> InputNames:
        """The names of the inputs, for messages."""
        ...

    @property
    def rejects(self) -> UnreadableRecords:
        """The records that were rejected while they were decoded."""
        ...

    @property
    def is_repeatable(self) -> bool:
        """Whether the input can be read again."""
        ...

    @property
    def armed(self) -> ArmedWrite | None:
        """The sidecar of files written before the load is checked; None if there are none."""
        ...

    @property
    def export(self) -> str | None:
        """The metadata of the first input that has any, or None. Set by `read`."""
        ...

    def read(self) -> None:
        """Read the whole input."""
        ...

    def check(self, view: View, *, leaves_out: bool) -> LoadBatch:
        """Check all records against a state; return a batch that has at least the rejected ones, with reasons."""
        ...

    def compare(self, batch: LoadBatch) -> None:
        """Mark the rows of a merge that equal the committed ones."""
        ...

    def count_changes(self, rows: TypeBatch) -> TypeCounts:
        """Return the row counts of a type."""
        ...

    def count_generated_ids(self, rows: TypeBatch) -> int:
        """Return the number of ids that were generated for records of a type that have none."""
        ...

    def build_writes(self, batch: LoadBatch) -> Sequence[TableWrite]:
        """Return the writes of the tables that change."""
        ...

    def build_requirements(self, batch: LoadBatch) -> Sequence[Requirement]:
        """Return what must still hold at the commit for the checks to be valid."""
        ...

    def close(self) -> None:
        """Remove everything that was not published."""
        ...


# Creates the records of a call with the schema of a state. Reads nothing yet: `load` calls `read`, and `close` also
# after an error in it.
Reader: TypeAlias = Callable[[Session, LoadCall, Head], LoadRecords]
