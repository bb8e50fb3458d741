"""Define the settings of the engine with their defaults; callers set them from files, environment and flags."""

from dataclasses import dataclass, field
from enum import Enum


class Durability(Enum):
    """When a write to local disk is acknowledged."""

    FSYNC = "fsync"
    """After files and directories are flushed: it survives a power loss."""
    OS = "os"
    """Once the operating system has it: it survives a crash of the process, not of the machine."""


class Verify(Enum):
    """Which files are verified against their checksums at their first read, on local disk."""

    SMALL = "small"
    """Version files, deletion files and small files, at no noticeable cost to a read."""
    ALWAYS = "always"
    """Every file as a whole: the first read of one column then reads all columns once."""


class Maintenance(Enum):
    """Whether writers keep the number of small fragments of their tables bounded."""

    AUTO = "auto"
    """They compact them after the commit, in the background."""
    OFF = "off"
    """They never do; `optimize` does."""


class Traversal(Enum):
    """How edges are traversed; all modes give the same results."""

    AUTO = "auto"
    """By cost, hop by hop."""
    INDEXED = "indexed"
    """By looking edges up in their tables."""
    CSR = "csr"
    """By the CSR adjacency of the whole edge table, in memory."""


class EmbedProvider(Enum):
    """What turns texts into vectors."""

    NONE = "none"
    """Nothing: a text where a vector is needed is rejected."""
    HASH = "hash"
    """Feature hashing, in this process: no model, only words."""
    OPENAI = "openai"
    """A server that speaks OpenAI's HTTP interface."""


class RerankProvider(Enum):
    """What judges the relevance of texts for `rerank`."""

    NONE = "none"
    """Nothing: `rerank` is rejected."""
    OVERLAP = "overlap"
    """The share of the query's words that a text has, in this process: no model."""
    HTTP = "http"
    """A server with the interface that Cohere, Jina and vLLM share."""


OPENAI_URL = "https://api.openai.com/v1"


class Engine(Enum):
    """Where an operation over whole tables runs; the result is the same."""

    AUTO = "auto"
    """By cost: in this process while that is cheaper."""
    LOCAL = "local"
    """In this process."""
    SPARK = "spark"
    """On Spark, on this machine or on a cluster."""


class QueryEngine(Enum):
    """What runs a read; the answer, its order and its errors are the same."""

    AUTO = "auto"
    """By cost: in memory while what the read needs fits into its memory limit."""
    MEMORY = "memory"
    """Arrays in memory, for everything that fits."""
    LOCAL = "local"
    """DuckDB in this process: on all cores, and with what does not fit into memory on disk."""
    SPARK = "spark"
    """Spark, on this machine or on a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOptions:
    """How vectors are computed from texts."""

    provider: EmbedProvider = EmbedProvider.NONE
    url: str | None = None
    """The address of the server; None: OpenAI."""
    model: str | None = None
    key: str | None = field(default=None, repr=False)
    """The key that authenticates to the server. Never shown or logged."""
    timeout_seconds: float = 60.0
    """The time limit of one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankOptions:
    """How the relevance of texts is judged."""

    provider: RerankProvider = RerankProvider.NONE
    url: str | None = None
    """The address of the server, below which it has `/rerank`."""
    model: str | None = None
    key: str | None = field(default=None, repr=False)
    """The key that authenticates to the server. Never shown or logged."""
    timeout_seconds: float = 60.0
    """The time limit of one request."""
    max_texts: int = 1_000
    """The maximum number of texts that one query sends, whatever its `limit`: a service charges for each of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """When maintenance pays off, and how much of it runs concurrently."""

    concurrency: int = 8
    """The number of tables that are processed concurrently."""
    fragment_rows: int = 1_048_576
    """The maximum number of rows of a compacted fragment; one with less than half of them is small."""
    fragment_bytes: int = 2**30
    """The same in bytes, for tables with wide rows."""
    merged_fragments: int = 4
    """The number of small fragments of similar size from which merging them pays off."""
    deleted_share: float = 0.2
    """A fragment is rewritten if this share of its rows is deleted"""
    deleted_rows: int = 1_024
    """and at least this number of rows."""
    index_rows: int = 16_384
    """In a table with fewer rows, a scan of a column is as fast as an index."""
    index_segments: int = 4
    """The number of segments of an index from which some are merged."""
    tail_fragments: int = 32
    """The number of small fragments of a table above which a writer compacts them after its commit.

    32 fragments cost a one-row insert 1.6 ms of CPU in 9, and a version file 4.5 KB. Compacting 33 takes 20 ms, so less
    than a millisecond per commit.
    """
    tail_rows: int = 4_096
    """A fragment with fewer rows is small"""
    tail_bytes: int = 2**20
    """if it has fewer bytes, too."""
    tail_result_rows: int = 65_536
    """The maximum number of rows that a writer compacts into one fragment, or adds to an index.

    A diff or merge compares each row that a compaction has moved: 18 ms became 456 ms for 400,000 rows.
    """
    tail_result_bytes: int = 16 * 2**20
    """The same in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All settings; each has a safe default."""

    durability: Durability = Durability.FSYNC
    verify: Verify = Verify.SMALL
    heartbeat_seconds: float = 10.0
    """The interval in which a running operation renews its sidecar."""
    lease_seconds: float = 60.0
    """An operation whose sidecar was not renewed for this long is dead."""
    recovery_seconds: float = 60.0
    """The interval in which a handle that writes, and a server, look for operations that died."""
    publish_rounds: int = 5
    """The number of rounds that a mutation may lose over its own tables before it is a conflict."""
    backoff_seconds: float = 0.05
    """The first wait between two rounds; it doubles, with jitter."""
    head_commits: int = 128
    """The number of latest commits in the head fragment from which they are sealed.

    This number keeps it under 64 KB, which Lance fetches in one request.
    """
    sealed_fragments: int = 32
    """The number of sealed fragments from which some are merged."""
    manifest_versions: int = 200
    """The number of old manifest versions that are retained as a fence against stalled writers."""
    trim_every: int = 100
    """The number of new manifest versions after which older ones are removed."""
    reserve_bytes: int = 256 * 1024
    """The disk space that a graph on local disk reserves for its own cleanup, which needs some before it frees more.

    Publishing the horizon on a branch takes 24 KiB in a young graph, and 100 KiB if the head has 127 commits of five
    tables; but then there are many old manifest versions, which are removed first.
    """
    idempotency_days: float = 7.0
    """A repeated request is recognised by its idempotency key for this number of days"""
    idempotency_keys: int = 1_000_000
    """and over at least this number of later commits with a key, whichever ends first."""
    cache_bytes: int | None = None
    """The memory that the reads of a graph may cache between queries; None is a quarter of the machine's.

    Indexes and file metadata are cached beside it, each up to the same size and at most 512 and 256 MiB.
    """
    cache_shares: int = 1
    """The number of processes of a server among which the caches of indexes and file metadata are divided."""
    traversal_mode: Traversal = Traversal.AUTO
    derived_cache: bool = True
    """Whether expensive derived data is stored beside the tables, for the next process."""
    query_seconds: float | None = None
    """The time limit of a query, or of an operation on tables, unless its caller sets another; None: no limit."""
    query_memory_bytes: int | None = 2 * 1024**3
    """The memory limit of such a query or operation, beside the caches of reads; None: no limit."""
    spill_bytes: int = 16 * 1024**3
    """The disk space for temporary files of a SQL statement that does not fit into its memory."""
    threads: int | None = None
    """The number of threads of a query over large tables, a SQL statement or a topology; None: one per core."""
    query_text_characters: int = 1024 * 1024
    """The longest text of a query or a file of queries; a server sets a lower limit."""
    follow_links: bool = False
    """Whether tables that are links to other locations are read and written. Nothing is ever removed through a link."""
    storage: dict[str, str] = field(default_factory=dict)
    """Options for the object store (credentials, endpoint), under Lance's names; empty: the AWS_* environment."""
    blob_sources: tuple[str, ...] = ()
    """Locations, as `file:///directory` or `s3://bucket/prefix`, that a Blob value may refer to; none: only bytes."""
    blob_bytes: int = 256 * 1024 * 1024
    """The maximum size of such an object."""
    embedding: EmbedOptions = field(default_factory=EmbedOptions)
    """How vectors are computed from texts."""
    reranking: RerankOptions = field(default_factory=RerankOptions)
    """What judges texts for `rerank`."""
    spark_bytes: int | None = None
    """The input size from which a load runs on Spark unless the caller decides; None: by cores and memory."""
    upkeep: UpkeepOptions = field(default_factory=UpkeepOptions)
    """When maintenance pays off, and how much of it runs concurrently."""
    maintenance: Maintenance = Maintenance.AUTO
    """Whether writers keep the number of small fragments bounded."""
    maintenance_seconds: float | None = None
    """The time that closing a handle may spend on this instead of a background thread; None: the thread does it."""
