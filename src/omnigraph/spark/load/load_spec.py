"""What every task of a Spark load is told: small, picklable, and the same for all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from omnigraph.commit.pin_usage import explained_handles
from omnigraph.commit.task_journal import TaskNote
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.faults import Faults
from omnigraph.ids import ulid_texts
from omnigraph.ops.load_inputs import OneInput
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.catalog_codec import decode_catalog
from omnigraph.spark.load.driver_buffer import HeldNote, Keeper
from omnigraph.spark.load.input_splits import Split
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.graph_storage import Store
from omnigraph.storage.lance_table import Table
from omnigraph.storage.table_cache import Handles
from omnigraph.storage.uri import parse_uri

_OPEN_GRAPHS = 4
_SPLIT_BITS, _ROW_BITS = 24, 28
JOB_BITS = 80 - _SPLIT_BITS - _ROW_BITS
"""How many random bits of a made id are the job's; its split and its row there are the others."""


FRAME_SPLITS = 1 << 16
"""How many splits files may have together, and how many partitions a DataFrame."""
MOST_FRAMES = (1 << _SPLIT_BITS) // FRAME_SPLITS - 1


class TooManyPartsError(OmnigraphError):
    """An input is in more parts than one load tells apart."""

    kind = Kind.USAGE
    code = "too_many_parts"

    def __init__(self, what: str, parts: int, most: int) -> None:
        super().__init__(what, parts, most)
        self.what, self.parts, self.most = what, parts, most

    def __str__(self) -> str:
        return (
            f"{self.what}: {self.parts:,} parts are more than the {self.most:,} that one load tells apart;"
            " coalesce a DataFrame, merge small files, or load in several steps"
        )


def check_parts(what: str, parts: int, most: int = FRAME_SPLITS) -> None:
    """TooManyPartsError for more than so many."""
    if parts > most:
        raise TooManyPartsError(what, parts, most)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSource:
    """Rows of one type from a DataFrame. Each of its partitions is an input of its own."""

    number: int
    type: str
    is_edge: bool
    columns: Mapping[str, str] = field(default_factory=dict)
    is_partial: bool = False

    @property
    def first_split(self) -> int:
        """The split that its first partition is."""
        return FRAME_SPLITS * (self.number + 1)

    @property
    def splits(self) -> range:
        """The splits that its partitions may be."""
        return range(self.first_split, self.first_split + FRAME_SPLITS)

    def name_of(self, partition: int) -> str:
        """What messages call a partition."""
        return f"<{'edges' if self.is_edge else 'nodes'} {self.type}, partition {partition}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """One load, for its tasks."""

    uri: str
    storage: tuple[tuple[str, str], ...]
    operation_id: str
    catalog: bytes
    pins: Mapping[str, tuple[str, str]]
    """By table key, the path and the version, which no signed 64-bit integer holds, as text."""
    blobs: BlobSources
    inputs: tuple[OneInput, ...]
    units: tuple[str, ...]
    splits: tuple[Split, ...]
    keeps_left_out: bool
    seed: int
    first_id: int
    """The number of the ULID from which the ids of rows without a key are counted."""
    faults: Faults

    def worker(self, held: dict[str, bytes] | None = None) -> "Worker":
        """What this process needs to take part; a driver that works for itself gives what is `held` for it."""
        return Worker(self, held)


class Worker:
    """A process that works for a load: the driver, or one of the executors' Python workers."""

    def __init__(self, spec: LoadSpec, held: dict[str, bytes] | None = None) -> None:
        self.spec, self._held = spec, held
        self.catalog = _catalog(spec.catalog)
        self.store, self.handles = _opened(spec.uri, spec.storage)

    def type(self, name: str) -> AnyType:
        """A type by its name."""
        found = self.catalog.type(name)
        if found is None:
            raise KeyError(name)
        return found

    def table(self, table_key: str) -> Table:
        """A table at the load's pin."""
        path, version = self.spec.pins[table_key]
        return Table(self.handles, path, int(version))

    def note(self, phase: int, task: int) -> TaskNote:
        """The note of a task, begun."""
        note = TaskNote(self.store, self.spec.operation_id, phase, task)
        note.begin()
        return note

    def keeper(self, phase: int, task: int) -> Keeper:
        """What a task that hands something over keeps it with."""
        if self._held is None:
            return self.note(phase, task)
        return HeldNote(self._held, task, lambda: self.note(phase, task))

    def ids(self, split: int) -> "SplitIds":
        """The ids that rows of a split get, the same whoever reads it, and however often."""
        return SplitIds(self.spec.first_id + (split << _ROW_BITS))


class SplitIds:
    """Successive ULIDs from a given one on."""

    def __init__(self, first: int) -> None:
        self._first = self._next = first

    def ulid(self) -> str:
        """The next one."""
        return self.ulids(1).decode()

    def ulids(self, count: int) -> bytes:
        """The next ones."""
        first, self._next = self._next, self._next + count
        check_parts("the rows of one file or partition", self._next - self._first, 1 << _ROW_BITS)
        return ulid_texts(first, count) if count else b""

    def jitter(self, limit: float) -> float:
        """Nothing of a split is random."""
        del limit
        return 0.0


@lru_cache(maxsize=_OPEN_GRAPHS)
def _catalog(data: bytes) -> Catalog:
    return decode_catalog(data)


@lru_cache(maxsize=_OPEN_GRAPHS)
def _opened(uri: str, storage: tuple[tuple[str, str], ...]) -> tuple[Store, Handles]:
    # What tasks write is made durable by the driver, before it is published.
    options = Options(storage=dict(storage), durability=Durability.OS)
    store = Store(parse_uri(uri), Runtime(options=options))
    return store, explained_handles(store)
