"""What every task of a Spark load is told: small, picklable, and the same for all."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from omnigraph.commit.pin_usage import build_explaining_handles
from omnigraph.commit.task_journal import TaskJournal
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.faults import Faults
from omnigraph.ids import format_ulids
from omnigraph.ops.load_inputs import InputSource
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.catalog_codec import decode_catalog
from omnigraph.spark.load.driver_buffer import DriverBuffer, ScratchWriter
from omnigraph.spark.load.input_splits import Split
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.uri import parse_uri

_MAX_OPEN_GRAPHS = 4
_SPLIT_BITS, _ROW_BITS = 24, 28
JOB_BITS = 80 - _SPLIT_BITS - _ROW_BITS
"""How many random bits of a made id are the job's; its split and its row there are the others."""


SPLITS_PER_SOURCE = 1 << 16
"""How many splits files may have together, and how many partitions a DataFrame."""
MAX_FRAMES = (1 << _SPLIT_BITS) // SPLITS_PER_SOURCE - 1


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


def check_parts(what: str, parts: int, most: int = SPLITS_PER_SOURCE) -> None:
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
        return SPLITS_PER_SOURCE * (self.number + 1)

    @property
    def splits(self) -> range:
        """The splits that its partitions may be."""
        return range(self.first_split, self.first_split + SPLITS_PER_SOURCE)

    def format_name(self, partition: int) -> str:
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
    inputs: tuple[InputSource, ...]
    units: tuple[str, ...]
    splits: tuple[Split, ...]
    keeps_left_out: bool
    seed: int
    first_id: int
    """The number of the ULID from which the ids of rows without a key are counted."""
    faults: Faults

    def create_worker(self, held: dict[str, bytes] | None = None) -> "Worker":
        """What this process needs to take part; a driver that works for itself gives what is `held` for it."""
        return Worker(self, held)


class Worker:
    """A process that works for a load: the driver, or one of the executors' Python workers."""

    def __init__(self, spec: LoadSpec, held: dict[str, bytes] | None = None) -> None:
        self.spec, self._buffer = spec, held
        self.catalog = _load_catalog(spec.catalog)
        self.store, self.handles = _open_store(spec.uri, spec.storage)

    def get_type(self, name: str) -> AnyType:
        """A type by its name."""
        found = self.catalog.find_type(name)
        if found is None:
            raise KeyError(name)
        return found

    def open_table(self, table_key: str) -> LanceTable:
        """A table at the load's pin."""
        path, version = self.spec.pins[table_key]
        return LanceTable(self.handles, path, int(version))

    def begin_note(self, phase: int, task: int) -> TaskJournal:
        """The note of a task, begun."""
        note = TaskJournal(self.store, self.spec.operation_id, phase, task)
        note.begin()
        return note

    def open_scratch(self, phase: int, task: int) -> ScratchWriter:
        """What a task that hands something over keeps it with."""
        if self._buffer is None:
            return self.begin_note(phase, task)
        return DriverBuffer(self._buffer, task, lambda: self.begin_note(phase, task))

    def create_ids(self, split: int) -> "SplitIds":
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
        return format_ulids(first, count) if count else b""

    def jitter(self, limit: float) -> float:
        """Nothing of a split is random."""
        del limit
        return 0.0


@lru_cache(maxsize=_MAX_OPEN_GRAPHS)
def _load_catalog(data: bytes) -> Catalog:
    return decode_catalog(data)


@lru_cache(maxsize=_MAX_OPEN_GRAPHS)
def _open_store(uri: str, storage: tuple[tuple[str, str], ...]) -> tuple[GraphStorage, TableCache]:
    # What tasks write is made durable by the driver, before it is published.
    options = Options(storage=dict(storage), durability=Durability.OS)
    store = GraphStorage(parse_uri(uri), Runtime(options=options))
    return store, build_explaining_handles(store)
