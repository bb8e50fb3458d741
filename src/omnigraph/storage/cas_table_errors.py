"""Errors of compare-and-swap tables, for packages that may not import the tables themselves."""

from omnigraph.errors import CorruptError, Kind, OmnigraphError, variant
from omnigraph.storage.layout import AUDIT, BRANCHES, EDGES, MANIFEST, NODES

# Ways to handle damage, the best first.
REPAIR_HINT = (
    "`omnigraph repair --from COPY` restores the file from a clone or a backup; otherwise read an older commit"
    " (--snapshot) or another branch, or run `omnigraph repair --deep`, which goes back to an intact state and, with"
    " --force --confirm, continues without the lost rows"
)
# The owner of a file, by the first segment of its key.
_OWNERS = {
    MANIFEST: "the manifest of main",
    BRANCHES: "the manifest of another branch",
    NODES: "the nodes of one type",
    EDGES: "the edges of one type",
    AUDIT: "the list of recoveries",
}


class OutdatedError(OmnigraphError):
    """A prepared change no longer fits the table, which was rewritten in the meantime: prepare it again."""

    kind = Kind.CONFLICT

    @variant
    def rewrite_outdated(self, path: str, reason: str) -> str:
        """Report that compacted fragments no longer fit the table."""
        return f"compacted fragments of {path} no longer fit the table ({reason}); plan the compaction again"

    @variant
    def index_segment_outdated(self, path: str, index: str) -> str:
        """Report that an index segment was built from fragments that no longer exist, or that another one covers."""
        return (
            f"the index {index} was built from rows of {path} that were rewritten or indexed in the meantime:"
            " build it again"
        )

    @variant
    def columns_outdated(self, path: str) -> str:
        """Report that a change of columns was staged on a version that is not the newest any more; stage it again."""
        return f"the columns of {path} can't be changed: its files were rewritten in the meantime; retry"


class SwapLostError(OmnigraphError):
    """Another writer created the next version first."""

    kind = Kind.CONFLICT
    code = "swap_lost"
    path: str
    version: int
    message = "{path} has moved on from version {version}"


class TableMissingError(OmnigraphError):
    """There is no table at the path, or nothing that can be read as one."""

    kind = Kind.NOT_FOUND
    code = "table_missing"
    path: str
    message = "there is no table at {path}"


class NewestVersionDamagedError(CorruptError):
    """The newest version of a table can't be read, for instance after a power loss without flush."""

    kind = Kind.CORRUPT
    code = "newest_version_damaged"
    path: str
    version: int
    readable: int
    reason: str
    message = (
        "version {version} of {path}, the newest, can't be read ({reason})."
        " Older commits are intact: read one with --snapshot. `omnigraph repair --from COPY` restores the file"
        " from a clone or a backup; `omnigraph repair` shows how to go back to the newest readable version"
    )


class DamagedError(CorruptError):
    """Stored data can't be read, although the store answers."""

    kind = Kind.CORRUPT
    code = "damaged"
    place: str
    reason: str

    @variant
    def backup_damaged(self, uri: str, key: str, reason: str) -> str:
        """Report that a file of a repository of backups is not what was written."""
        return f"{key} of the backups at {uri} is damaged: {reason}; restore another backup, or from another copy"

    def __str__(self) -> str:
        if self.code in self.variants:
            return super().__str__()
        # `place` is usually a key, but may also be a description, such as that of an index.
        owner = _OWNERS.get(self.place.partition("/")[0])
        ownership = "" if owner is None else f"; it belongs to {owner}"
        return (
            f"{self.place} can't be read ({self.reason}){ownership}. Run `omnigraph check` to see what needs it."
            f" {REPAIR_HINT}"
        )
