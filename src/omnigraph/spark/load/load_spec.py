"""The spec of a Spark load that every task gets: small, picklable, and the same for all; and the task's side of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from omnigraph.commit.manifest_log import Head
from omnigraph.commit.pin_usage import build_explaining_handles
from omnigraph.commit.task_journal import TaskJournal
from omnigraph.faults import ArmedFaults, Faults, NoFaults
from omnigraph.ids import draw_bits, format_ulids
from omnigraph.ops.load_inputs import InputSource
from omnigraph.ops.session import Session
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.catalog_codec import decode_catalog, encode_catalog
from omnigraph.spark.load.driver_buffer import DriverBuffer, ScratchWriter
from omnigraph.spark.load.input_splits import Split
from omnigraph.spark.spark_errors import SparkUsageError
from omnigraph.storage.blob_sources import BlobSources
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.table_cache import TableCache
from omnigraph.storage.uri import parse_uri

# Open graphs and catalogs that a worker process caches between tasks.
_MAX_OPEN_GRAPHS = 4
# The 80 random bits of a generated ULID: the job's own, then the number of the split, then that of the row in it.
_SPLIT_BITS, _ROW_BITS = 24, 28
_JOB_BITS = 80 - _SPLIT_BITS - _ROW_BITS
# The first quarter of the split numbers belongs to the files: four million splits.
FIRST_FRAME_SPLIT = 1 << (_SPLIT_BITS - 2)
# The limit on the partitions of one DataFrame.
SPLITS_PER_FRAME = 1 << 16
MAX_FRAMES = ((1 << _SPLIT_BITS) - FIRST_FRAME_SPLIT) // SPLITS_PER_FRAME


def check_parts(what: str, parts: int, limit: int = SPLITS_PER_FRAME) -> None:
    """Check that there are at most `limit` parts.

    Raises:
        SparkUsageError: There are more.
    """
    if parts > limit:
        raise SparkUsageError.too_many_parts(what, parts, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSource:
    """Rows of one type from a DataFrame. Each of its partitions is a separate input."""

    number: int
    type: str
    is_edge: bool
    columns: Mapping[str, str] = field(default_factory=dict)
    is_partial: bool = False

    @property
    def first_split(self) -> int:
        """The split number of its first partition."""
        return FIRST_FRAME_SPLIT + SPLITS_PER_FRAME * self.number

    @property
    def splits(self) -> range:
        """The split numbers that its partitions may have."""
        return range(self.first_split, self.first_split + SPLITS_PER_FRAME)

    def format_name(self, partition: int) -> str:
        """Return the name of a partition, for messages."""
        return f"<{'edges' if self.is_edge else 'nodes'} {self.type}, partition {partition}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSpec:
    """The description of one load for its tasks."""

    uri: str
    storage: tuple[tuple[str, str], ...]
    operation_id: str
    catalog: bytes
    pins: Mapping[str, tuple[str, str]]
    """By table key, the path, and the version as text: it exceeds a signed 64-bit integer."""
    blobs: BlobSources
    inputs: tuple[InputSource, ...]
    units: tuple[str, ...]
    splits: tuple[Split, ...]
    packs: tuple[range, ...]
    """The numbers of the splits that one task reads together; all splits, in their order."""
    keeps_left_out: bool
    keeps_rejected: bool
    """Whether rejected records are stored with their texts, for the quarantine."""
    seed: int
    first_id: int
    """The ULID, as a number, from which the ids of rows without a key are counted."""
    faults: Faults
    frames: tuple[FrameSource, ...] = ()
    """The DataFrames of the load, by number."""

    def create_worker(self, buffer: dict[str, bytes] | None = None) -> "Worker":
        """Return a worker for this process; a driver that reads splits itself passes a `buffer` for their objects."""
        return Worker(self, buffer)


def build_spec(
    session: Session, head: Head, operation_id: str, *, keeps_left_out: bool = False, keeps_rejected: bool = False
) -> LoadSpec:
    """Return a spec without inputs, by the schema and the tables of a state."""
    now = int(session.runtime.clock.now().timestamp() * 1000)
    return LoadSpec(
        uri=session.uri,
        storage=tuple(sorted((session.store.lance_options or {}).items())),
        operation_id=operation_id,
        catalog=encode_catalog(session.load_catalog(head.snapshot)),
        pins={key: (pin.path, str(pin.version)) for key, pin in head.snapshot.pins.items()},
        blobs=session.blob_sources,
        inputs=(),
        units=(),
        splits=(),
        packs=(),
        keeps_left_out=keeps_left_out,
        keeps_rejected=keeps_rejected,
        seed=draw_bits(64),
        # A ULID: the time, random bits of the job, and zeros where tasks put the split and the row.
        first_id=(now << _JOB_BITS | draw_bits(_JOB_BITS)) << (80 - _JOB_BITS),
        faults=_select_task_faults(session.runtime.faults),
    )


def _select_task_faults(faults: Faults) -> Faults:
    """Return faults that can be sent to another process; other faults of a test stay on the driver."""
    return faults if isinstance(faults, ArmedFaults) else NoFaults()


class Worker:
    """A process that works for a load: the driver, or one of the executors' Python workers."""

    def __init__(self, spec: LoadSpec, buffer: dict[str, bytes] | None = None) -> None:
        self.spec, self._buffer = spec, buffer
        self.catalog = _load_catalog(spec.catalog)
        self.store, self.handles = _open_store(spec.uri, spec.storage)

    def get_type(self, name: str) -> AnyType:
        """Return the type with this name."""
        type_ = self.catalog.find_type(name)
        if type_ is None:
            raise KeyError(name)
        return type_

    def name_input(self, split: int) -> tuple[str, str]:
        """Return the name of a split's input and the word for its lines, for messages."""
        if split >= FIRST_FRAME_SPLIT:
            number, partition = divmod(split - FIRST_FRAME_SPLIT, SPLITS_PER_FRAME)
            return self.spec.frames[number].format_name(partition), "row"
        number = self.spec.splits[split].input
        return self.spec.inputs[number].name, self.spec.units[number]

    def read_object(self, key: str) -> bytes:
        """Return the data of an object that another task has kept."""
        return self.store.objects.get(key).data

    def open_table(self, table_key: str) -> LanceTable:
        """Return a table at the version that the load has pinned."""
        path, version = self.spec.pins[table_key]
        return LanceTable(self.handles, path, int(version))

    def begin_journal(self, phase: int, task: int) -> TaskJournal:
        """Begin and return the journal of a task."""
        journal = TaskJournal(self.store, self.spec.operation_id, phase, task)
        journal.begin()
        return journal

    def open_scratch(self, phase: int, task: int) -> ScratchWriter:
        """Return a store for the objects that a task hands over: its journal, or the driver's buffer."""
        if self._buffer is None:
            return self.begin_journal(phase, task)
        return DriverBuffer(self._buffer, task, lambda: self.begin_journal(phase, task))

    def create_ids(self, split: int) -> "SplitIds":
        """Return the ids for rows of a split: the same in every process and on every read."""
        return SplitIds(self.spec.first_id + (split << _ROW_BITS))


class SplitIds:
    """Successive ULIDs from a first one, in place of random ones (`Ids`)."""

    def __init__(self, first: int) -> None:
        self._first = self._next = first

    def ulid(self) -> str:
        """Return the next ULID."""
        return self.ulids(1).decode()

    def ulids(self, count: int) -> bytes:
        """Return the next ULIDs, concatenated."""
        first, self._next = self._next, self._next + count
        # One more row would take an id of the next split.
        check_parts("the rows of one file or partition", self._next - self._first, 1 << _ROW_BITS)
        return format_ulids(first, count) if count else b""

    def jitter(self, limit: float) -> float:
        """Return zero: nothing in a split is random."""
        del limit
        return 0.0


@lru_cache(maxsize=_MAX_OPEN_GRAPHS)
def _load_catalog(data: bytes) -> Catalog:
    return decode_catalog(data)


@lru_cache(maxsize=_MAX_OPEN_GRAPHS)
def _open_store(uri: str, storage: tuple[tuple[str, str], ...]) -> tuple[GraphStorage, TableCache]:
    # The driver makes the files of tasks durable, before they are published.
    options = Options(storage=dict(storage), durability=Durability.OS)
    store = GraphStorage(parse_uri(uri), Runtime(options=options))
    return store, build_explaining_handles(store)
