"""The records of a load in the hands of an engine: this process, or Spark. One story, `load`, holds for all of them."""

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
    """All records of a load: read once, checked and written as often as it takes, and gone with `close`."""

    @property
    def schema_id(self) -> str:
        """The schema by which they were read."""
        ...

    @property
    def inputs(self) -> InputNames:
        """Where they come from."""
        ...

    @property
    def rejects(self) -> UnreadableRecords:
        """Those that were refused while they were read."""
        ...

    @property
    def is_repeatable(self) -> bool:
        """Whether the input can be read again."""
        ...

    @property
    def armed(self) -> ArmedWrite | None:
        """What announces files that are written before the load is checked; None when there are none."""
        ...

    @property
    def export(self) -> str | None:
        """What the first input with metadata says of itself; None when none has any. Known after `read`."""
        ...

    def read(self) -> None:
        """Read everything."""
        ...

    def check(self, view: View, *, leaves_out: bool) -> LoadBatch:
        """Every record that can't be taken on this state is refused; the batch holds at least those, and says why."""
        ...

    def compare(self, batch: LoadBatch) -> None:
        """Find out which rows of a merge say what is there already."""
        ...

    def count_changes(self, rows: TypeBatch) -> TypeCounts:
        """What the load does to a type."""
        ...

    def build_writes(self, batch: LoadBatch) -> Sequence[TableWrite]:
        """What happens to the tables."""
        ...

    def build_requirements(self, batch: LoadBatch) -> Sequence[Requirement]:
        """What must stay so for the records to be right."""
        ...

    def close(self) -> None:
        """Leave nothing behind but what was published."""
        ...


Reader: TypeAlias = Callable[[Session, LoadCall, Head], LoadRecords]
"""Makes the records of a call, by the schema of a state; nothing is read yet."""
