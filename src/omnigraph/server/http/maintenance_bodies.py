"""Bodies of requests and responses about tags, row histories and maintenance."""

from typing import Any

import msgspec

# --- requests ---------------------------------------------------------------------------------------------


class TagBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A new tag, and the state to tag: a branch, a commit's id, `branch@commit`, `branch@time` or another tag."""

    name: str
    ref: str = "main"


class EmbedBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The vectors to compute: those of a type, or of one property."""

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
    """The tables of a branch to optimize: all, or those of some types."""

    types: list[str] | None = None
    all_indexes: bool = False
    dry_run: bool = False
    branch: str = "main"
    message: str | None = None


class CleanupBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The data to keep: a number of commits per branch, the commits that were current within some seconds, or both."""

    keep: int | None = None
    older_than_seconds: float | None = None
    grace_seconds: float | None = None
    confirm: bool = False


class CheckBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The branches to check, all or one, and how thoroughly; `record` records missing checksums."""

    branch: str | None = None
    quick: bool = False
    deep: bool = False
    record: bool = False
    message: str | None = None


class VerifyBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The branch whose history to verify, and optionally a digest that the history must contain."""

    branch: str = "main"
    digest: str | None = None


class RepairBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The branches to inspect for a repair: all or one."""

    branch: str | None = None
    deep: bool = False


# --- responses --------------------------------------------------------------------------------------------
# Types of the OpenAPI document only: routes encode results by their own `to_json`.


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
    """The changes of one commit; rows are omitted if only counts are requested."""

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
    """The versions of one node or edge, newest first; `ends_before` is set if older ones can no longer be read."""

    versions: list[dict[str, Any]]
    ends_before: str | None


class IndexAnswer(msgspec.Struct, kw_only=True):
    """An index that is declared or exists, and the number of rows that it covers."""

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
    """Operations that are running, or were interrupted and wait for recovery."""

    pending: list[dict[str, Any]]
    broken: list[dict[str, Any]]


class RecoveriesAnswer(msgspec.Struct, kw_only=True):
    """The recoveries of interrupted operations, newest first."""

    recoveries: list[dict[str, Any]]
    next_cursor: str | None


class EmbedAnswer(msgspec.Struct, kw_only=True):
    """The computed vectors; each batch is a commit."""

    type: str
    target: dict[str, str]
    provider: str
    model: str
    dry_run: bool
    properties: list[dict[str, Any]]
    commits: list[str]


class OptimizeAnswer(msgspec.Struct, kw_only=True):
    """The changes of an optimization, by table."""

    branch: str
    tables: list[dict[str, Any]]


class CleanupAnswer(msgspec.Struct, kw_only=True):
    """The data that a cleanup kept and removed, or in a preview would keep and remove."""

    preview: bool
    before: str
    epoch: int | None
    bytes_removed: int
    branches: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    unknown_files: list[str]
    versions_read: int


class CheckAnswer(msgspec.Struct, kw_only=True):
    """All findings, the worst first, and the amount of data that was checked."""

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
    """The verified part of a branch's history."""

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
    """The unreadable data, and possible replacements. Nothing was changed."""

    uri: str
    confirmed: bool
    manifests: list[dict[str, Any]]
    histories: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    files: list[dict[str, Any]]
    moved_heads: dict[str, str]
