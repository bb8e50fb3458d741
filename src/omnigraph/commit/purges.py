"""Data that was dropped for good: what a branch's commits before the drop had of it is not to be read any more."""

from typing import Protocol

import msgspec

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.layout import TablePath


class Purge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a commit dropped for good: a type with its table, or a property with its column.

    Earlier versions of the table at `path` hold the data. The commit's branch does not read them any more, and they
    keep nothing from cleanup there; another branch that pins one has not dropped it.
    """

    table_key: str
    """The table's key before the commit."""
    path: TablePath
    property: str | None = None
    """None for the whole type."""

    def format_name(self) -> str:
        """`Person`, or `Person.age`."""
        name = self.table_key.partition(":")[2]
        return name if self.property is None else f"{name}.{self.property}"

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {"table_key": self.table_key, "location": self.path, "property": self.property}


class DataDroppedError(OmnigraphError):
    """An earlier state was asked for a table that was dropped since, or a property of it, together with the data."""

    kind = Kind.NOT_FOUND
    code = "data_dropped"

    def __init__(self, table_key: str, what: str, branch: str, commit_id: str, at: str, actor: str) -> None:
        super().__init__(table_key, what, branch, commit_id, at, actor)
        self.table_key, self.what, self.branch = table_key, what, branch
        self.commit_id, self.at, self.actor = commit_id, at, actor

    def __str__(self) -> str:
        name = self.table_key.partition(":")[2]
        return (
            f"`{name}` can't be read as it was before {self.at}: {self.actor} dropped `{self.what}` with its data on"
            f" `{self.branch}` then (commit {self.commit_id}); read that commit or a later one"
        )


class MergeBaseDroppedError(OmnigraphError):
    """Branches that are to be merged have grown from a state of a table that was dropped since, with its data."""

    kind = Kind.NOT_FOUND
    code = "merge_base_dropped"

    def __init__(self, source: str, into: str, table_key: str, what: str, branch: str, commit_id: str) -> None:
        super().__init__(source, into, table_key, what, branch, commit_id)
        self.source, self.into, self.table_key = source, into, table_key
        self.what, self.branch, self.commit_id = what, branch, commit_id

    def __str__(self) -> str:
        name = self.table_key.partition(":")[2]
        return (
            f"what `{self.source}` and `{self.into}` have in common can't be told of `{name}`: `{self.what}` was"
            f" dropped with its data on `{self.branch}` (commit {self.commit_id}), and a merge could bring back what"
            f" was deleted since. Export the rows that are wanted from `{self.source}`, and load them into"
            f" `{self.into}`"
        )


class _DroppingCommit(Protocol):
    """The commit that dropped something."""

    @property
    def id(self) -> str: ...

    @property
    def branch(self) -> str: ...

    @property
    def at(self) -> str: ...

    @property
    def actor(self) -> str: ...


def build_dropped_error(table_key: str, purge: Purge, commit: _DroppingCommit) -> DataDroppedError:
    """The error of who asks for a table as it was before the drop."""
    return DataDroppedError(table_key, purge.format_name(), commit.branch, commit.id, commit.at, commit.actor)
