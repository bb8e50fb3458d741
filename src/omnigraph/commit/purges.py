"""Record data that was dropped permanently, which earlier commits of the branch can no longer read."""

from typing import Protocol

from omnigraph.errors import Kind, OmnigraphError, variant
from omnigraph.json_struct import JsonStruct
from omnigraph.storage.layout import TablePath


class Purge(JsonStruct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A permanent drop by a commit: of a type with its table, or of a property with its column.

    Earlier versions of the table at `path` hold the data. The commit's branch no longer reads them and does not keep
    them from cleanup; another branch that pins one has not dropped it.
    """

    json_keys = "table_key location=path property"

    table_key: str
    """The table's key before the commit."""
    path: TablePath
    property: str | None = None
    """The dropped property; None for the whole type."""

    def format_name(self) -> str:
        """Return `Person`, or `Person.age` for a property."""
        name = self.table_key.partition(":")[2]
        # A table key is `node:Person` or `edge:Knows`.
        return name if self.property is None else f"{name}.{self.property}"


class DataDroppedError(OmnigraphError):
    """A historical state was asked for a table that was dropped with its data since, or that lost a property."""

    kind = Kind.NOT_FOUND
    code = "data_dropped"
    table_key: str
    what: str
    branch: str
    commit_id: str
    at: str
    actor: str

    def _format_message(self) -> str:
        name = self.table_key.partition(":")[2]
        return (
            f"`{name}` can't be read as of before {self.at}: {self.actor} then dropped `{self.what}` with its data on"
            f" `{self.branch}` (commit {self.commit_id}); read that commit or a later one"
        )

    @variant
    def merge_base_dropped(self, source: str, into: str, table_key: str, what: str, branch: str, commit_id: str) -> str:
        """Report that the merge base of two branches has a table whose data was dropped since."""
        name = table_key.partition(":")[2]
        return (
            f"`{name}` can't be read at the merge base of `{source}` and `{into}`: `{what}` was"
            f" dropped with its data on `{branch}` (commit {commit_id}), and a merge could restore rows that"
            f" were deleted since. Export the rows you need from `{source}`, and load them into `{into}`"
        )


# A protocol, because `manifest_types`, which has `Commit`, imports this module.
class _DroppingCommit(Protocol):
    """The fields of the dropping commit that an error shows."""

    @property
    def id(self) -> str: ...

    @property
    def branch(self) -> str: ...

    @property
    def at(self) -> str: ...

    @property
    def actor(self) -> str: ...


def build_dropped_error(table_key: str, purge: Purge, commit: _DroppingCommit) -> DataDroppedError:
    """Build the error for a read of a table as of before its data was dropped."""
    return DataDroppedError(table_key, purge.format_name(), commit.branch, commit.id, commit.at, commit.actor)
