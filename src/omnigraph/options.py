"""Settings of the engine, with their defaults. Doors fill them from files, environment and flags."""

from dataclasses import dataclass, field
from enum import Enum


class Durability(Enum):
    """When a write on local disk is acknowledged."""

    FSYNC = "fsync"
    """Files and directories are flushed first: it survives a power loss."""
    OS = "os"
    """The operating system has it: it survives a crash of the process, not of the machine."""


class Verify(Enum):
    """Which files are compared with their checksums when they are first read; on local disk."""

    SMALL = "small"
    """Versions, deletions and whatever is small: a read costs what it costs without."""
    ALWAYS = "always"
    """Every file, whole: a read of one column then reads all of them once."""


class Traversal(Enum):
    """How edges are followed; every way gives the same answers."""

    AUTO = "auto"
    """By cost, hop by hop."""
    INDEXED = "indexed"
    """By looking edges up in their tables."""
    CSR = "csr"
    """By adjacency lists of the whole edge table, in memory."""


class EmbedProvider(Enum):
    """Who turns texts into vectors."""

    NONE = "none"
    """Nobody: a text where a vector is needed is refused."""
    HASH = "hash"
    """Feature hashing, in this process: no model, only words."""
    OPENAI = "openai"
    """A server that speaks OpenAI's HTTP interface."""


OPENAI_URL = "https://api.openai.com/v1"


class Engine(Enum):
    """Who does the work of a verb that moves whole tables; the result is the same."""

    AUTO = "auto"
    """By cost: this process while that is cheaper."""
    LOCAL = "local"
    """This process."""
    SPARK = "spark"
    """Spark, on this machine or on a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedOptions:
    """How vectors are computed from texts."""

    provider: EmbedProvider = EmbedProvider.NONE
    url: str | None = None
    """Where the server is; None: OpenAI."""
    model: str | None = None
    key: str | None = field(default=None, repr=False)
    """What the server wants to know of the caller. Never shown or logged."""
    timeout_seconds: float = 60.0
    """How long one request may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """When maintenance pays, and how much of it runs at once."""

    concurrency: int = 8
    """How many tables are worked on at the same time."""
    fragment_rows: int = 1_048_576
    """How many rows a fragment has at most after a compaction; one with less than half of them is small."""
    fragment_bytes: int = 2**30
    """The same in bytes, for tables with wide rows."""
    merged_fragments: int = 4
    """So many small fragments of like size are worth merging."""
    deleted_share: float = 0.2
    """A fragment is written anew when so many of its rows are deleted"""
    deleted_rows: int = 1_024
    """and they are at least so many."""
    index_rows: int = 16_384
    """In a table of fewer rows, one pass over a column is as quick as an index."""
    index_segments: int = 4
    """How many segments an index may have before some are merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """All settings; every one has a safe default."""

    durability: Durability = Durability.FSYNC
    verify: Verify = Verify.SMALL
    heartbeat_seconds: float = 10.0
    """How often a running operation renews its sidecar."""
    lease_seconds: float = 60.0
    """A sidecar that was not renewed for so long belongs to a dead operation."""
    recovery_seconds: float = 60.0
    """How often a handle that writes, and a server, look for operations that died."""
    publish_rounds: int = 5
    """How many rounds may be lost over tables of the write itself before it is a conflict."""
    backoff_seconds: float = 0.05
    """The first wait between two rounds; it doubles, with jitter."""
    head_commits: int = 128
    """How many of the latest commits the head fragment holds before they are sealed.

    So many keep it under 64 KB, which Lance fetches in one request.
    """
    sealed_fragments: int = 32
    """How many sealed fragments there may be before they are merged."""
    manifest_versions: int = 200
    """How many old manifest versions are kept as a fence against stalled writers."""
    reserve_bytes: int = 256 * 1024
    """How much room a graph on a local disk keeps for its own cleanup, which needs some before it makes more.

    Saying on a branch what goes takes 24 KiB of a young graph, and 100 KiB where 127 commits of five tables are in the
    head; but then old versions of the manifest are many, and go first.
    """
    idempotency_days: float = 7.0
    """For how many days a repeated request is known by its idempotency key"""
    idempotency_keys: int = 1_000_000
    """and over how many later commits with a key at least, whichever ends first."""
    cache_bytes: int | None = None
    """How much memory a graph's reads may keep between queries; None is a quarter of the machine's.

    Of indexes, and of what files say of themselves, as much again is kept each, at most 512 and 256 MiB.
    """
    traversal_mode: Traversal = Traversal.AUTO
    derived_cache: bool = True
    """Whether what was derived from tables at some expense is kept beside them, for the next process."""
    query_seconds: float | None = None
    """How long a query, or a verb that writes or moves tables, may run, unless its caller says otherwise; None: as
    long as it takes."""
    query_memory_bytes: int | None = 2 * 1024**3
    """How much memory such a query or verb may use for itself, beside what reads keep; None: whatever it needs."""
    query_text_characters: int = 1024 * 1024
    """The longest text that is taken as a query or a file of them; a door for strangers takes less."""
    follow_links: bool = False
    """Whether tables that are links to other places are read and written. Nothing is ever removed through a link."""
    storage: dict[str, str] = field(default_factory=dict)
    """Options for the object store (credentials, endpoint), by Lance's names; empty: the AWS_* environment."""
    blob_sources: tuple[str, ...] = ()
    """Places, as `file:///directory` or `s3://bucket/prefix`, whose objects a Blob value may name; none: only bytes."""
    blob_bytes: int = 256 * 1024 * 1024
    """The most bytes that such an object may have."""
    embedding: EmbedOptions = field(default_factory=EmbedOptions)
    """How vectors are computed from texts."""
    spark_bytes: int | None = None
    """From how many bytes of input on a load runs on Spark, if nobody says; None: by the machine's cores and memory."""
    upkeep: UpkeepOptions = field(default_factory=UpkeepOptions)
    """When maintenance pays, and how much of it runs at once."""
