"""What goes over the wire about tags, histories of rows, and maintenance: bodies of requests, and shapes of answers."""

from typing import Any

import msgspec

# --- requests ---------------------------------------------------------------------------------------------


class TagBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A new tag, and the state that it names: a branch, a commit's id, `branch@commit`, `branch@time`, another tag."""

    name: str
    ref: str = "main"


class EmbedBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which vectors are computed: those of a type, or of one property."""

    type: str
    property: str | None = None
    batch: int | None = None
    limit: int | None = None
    all: bool = False
    dry_run: bool = False
    branch: str = "main"
    message: str | None = None
    seconds: float | None = None
    memory_bytes: int | None = None


class OptimizeBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which tables of a branch are optimised: all, or those of some types."""

    types: list[str] | None = None
    all_indexes: bool = False
    dry_run: bool = False
    branch: str = "main"
    message: str | None = None


class CleanupBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is kept: so many commits of each branch, what was current within some seconds, or both."""

    keep: int | None = None
    older_than_seconds: float | None = None
    grace_seconds: float | None = None
    confirm: bool = False


class CheckBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is verified: all branches or one, and how thoroughly; `record` records checksums that are missing."""

    branch: str | None = None
    quick: bool = False
    deep: bool = False
    record: bool = False
    message: str | None = None


class VerifyBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is proved: a branch, and that its history contains a digest that was written down."""

    branch: str = "main"
    digest: str | None = None


class RepairBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is looked at for a repair: all branches or one."""

    branch: str | None = None
    deep: bool = False


# --- answers ----------------------------------------------------------------------------------------------


class TagAnswer(msgspec.Struct, kw_only=True):
    """A tag, and the commit that it names."""

    name: str
    commit_id: str
    branch: str
    created_at: str
    created_by: str


class TagsAnswer(msgspec.Struct, kw_only=True):
    """A page of tags, by name."""

    tags: list[TagAnswer]
    next_cursor: str | None


class ChangeAnswer(msgspec.Struct, kw_only=True):
    """What one commit changed; rows are left out where only counts are asked for."""

    commit: str
    parent: str | None
    merged_parent: str | None
    seq: int
    branch: str
    actor: str
    at: str
    operation: str
    message: str | None
    schema: dict[str, Any] | None
    types: dict[str, dict[str, Any]]


class HistoryAnswer(msgspec.Struct, kw_only=True):
    """The versions of one node or edge, newest first; `ends_before` is set when older ones can't be read any more."""

    versions: list[dict[str, Any]]
    ends_before: str | None


class IndexAnswer(msgspec.Struct, kw_only=True):
    """An index that is declared or there, and how many rows it covers."""

    type: str
    property: str
    kind: str
    name: str | None
    state: str
    rows: int
    rows_covered: int
    rows_uncovered: int
    coverage: float
    segments: int
    bytes: int


class IndexesAnswer(msgspec.Struct, kw_only=True):
    """All indexes of a state."""

    branch: str
    indexes: list[IndexAnswer]


class OperationsAnswer(msgspec.Struct, kw_only=True):
    """Operations that are at work, or died and wait for recovery."""

    pending: list[dict[str, Any]]
    broken: list[dict[str, Any]]


class RecoveriesAnswer(msgspec.Struct, kw_only=True):
    """What recovery did about operations that died, newest first."""

    recoveries: list[dict[str, Any]]
    next_cursor: str | None


class EmbedAnswer(msgspec.Struct, kw_only=True):
    """Which vectors were computed; each batch is a commit."""

    type: str
    target: dict[str, str]
    provider: str
    model: str
    dry_run: bool
    properties: list[dict[str, Any]]
    commits: list[str]


class OptimizeAnswer(msgspec.Struct, kw_only=True):
    """What was done, table by table."""

    branch: str
    tables: list[dict[str, Any]]


class CleanupAnswer(msgspec.Struct, kw_only=True):
    """What was kept and removed; of a preview, what would be."""

    preview: bool
    before: str
    epoch: int | None
    bytes_removed: int
    branches: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    unknown_files: list[str]
    versions_read: int


class CheckAnswer(msgspec.Struct, kw_only=True):
    """All findings, the worst first, and how much was looked at."""

    uri: str
    branches: list[str]
    commits: int
    versions: int
    files: int
    bytes: int
    rows_read: int
    verified: int
    unrecorded: int
    recorded: dict[str, str]
    errors: int
    warnings: int
    notes: int
    findings: list[dict[str, Any]]


class VerifyAnswer(msgspec.Struct, kw_only=True):
    """What was proved of a branch."""

    uri: str
    branch: str
    commit_id: str
    digest: str
    commits: int
    first_commit_id: str
    is_from_start: bool
    merges: int
    merges_gone: int
    unproven: list[str]
    versions: int
    found_commit_id: str | None
    commits_since: int | None


class RepairAnswer(msgspec.Struct, kw_only=True):
    """What can't be read, and what could take its place. Nothing was done."""

    uri: str
    confirmed: bool
    manifests: list[dict[str, Any]]
    histories: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    files: list[dict[str, Any]]
    moved_heads: dict[str, str]
