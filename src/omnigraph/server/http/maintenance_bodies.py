"""Bodies of requests and responses about tags, row histories and maintenance."""

from typing import Any

import msgspec

from omnigraph.ops.indexes import IndexReport
from omnigraph.ops.tag import Tag

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
# Types of the OpenAPI document only: routes encode results by their own `to_json`, see `answer_types`.


class TagsAnswer(msgspec.Struct, kw_only=True):
    """A page of tags, by name."""

    tags: list[Tag]
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


class IndexesAnswer(msgspec.Struct, kw_only=True):
    """All indexes of a state."""

    branch: str
    indexes: list[IndexReport]


class OperationsAnswer(msgspec.Struct, kw_only=True):
    """Operations that are running, or were interrupted and wait for recovery."""

    pending: list[dict[str, Any]]
    broken: list[dict[str, Any]]


class RecoveriesAnswer(msgspec.Struct, kw_only=True):
    """The recoveries of interrupted operations, newest first."""

    recoveries: list[dict[str, Any]]
    next_cursor: str | None
