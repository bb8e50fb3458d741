"""The findings of a check: each has a code, a subject, a location and a way out."""

from dataclasses import dataclass
from enum import Enum

import msgspec

from omnigraph.json_struct import JsonStruct


class FindingSeverity(Enum):
    """The severity of a finding."""

    ERROR = "error"
    """Data is lost, wrong, or can't be read."""
    WARNING = "warning"
    """The current data is sound, but the cause should be examined."""
    NOTE = "note"
    """Harmless, for information."""


@dataclass(frozen=True, slots=True)
class FindingCode:
    """The severity, meaning and way out that all findings of a code share."""

    severity: FindingSeverity
    meaning: str
    way_out: str


_REPAIR = "run `omnigraph repair` to see which earlier version can replace it, or restore the file from a backup"
_REPAIR_DEEP = _REPAIR.replace("repair`", "repair --deep`")
_RESTORE = "restore the file from a backup; there is no other way to recover it"
_FIX_ROWS = "change or delete the rows listed; tools that write to the tables directly bypass the constraints"
_NOTHING = "no action is needed"

# Findings are sorted by severity and then in this order, from the manifests to the operations.
CODES: dict[str, FindingCode] = {
    # The manifests
    "format_refused": FindingCode(
        FindingSeverity.ERROR,
        "the manifest was written in another format",
        "export the graph with the release that wrote it, and load it with this one",
    ),
    "manifest_missing": FindingCode(
        FindingSeverity.ERROR,
        "the graph's own manifest is missing, so it is unknown which table versions belong together",
        "restore `__manifest` from a backup or a clone",
    ),
    "branch_manifest_missing": FindingCode(
        FindingSeverity.ERROR,
        "a branch is registered, but its manifest is missing",
        "restore it from a backup; or delete the branch and create it again",
    ),
    "manifest_damaged": FindingCode(
        FindingSeverity.ERROR,
        "the newest version of a manifest can't be read, or contradicts itself",
        "run `omnigraph repair`, which shows the state that can be restored; or restore the file from a backup",
    ),
    "manifest_rolled_back": FindingCode(
        FindingSeverity.ERROR,
        "a manifest has lost its newest versions, with acknowledged commits: something else still names one of them",
        "restore the versions from a backup, or from the bucket's own versions, before anything is written or cleaned"
        " up; or run `omnigraph repair`, which accepts the loss with --force",
    ),
    "journal_damaged": FindingCode(
        FindingSeverity.ERROR,
        "a part of the history can't be read, or contradicts itself; the current state is not affected",
        "restore the file from a backup; or run `omnigraph repair`, which shows where the history can begin instead",
    ),
    "commit_altered": FindingCode(
        FindingSeverity.ERROR,
        "a commit does not match its digest: its row or its schema was changed after it was created",
        "restore `__manifest` or the branch's manifest from a backup for which `omnigraph verify` succeeds",
    ),
    "branch_mismatch": FindingCode(
        FindingSeverity.ERROR,
        "main's register and a branch's own manifest contradict each other",
        "restore both from one backup; or delete the branch and create it again",
    ),
    "schema_unreadable": FindingCode(
        FindingSeverity.ERROR, "the accepted schema can't be decoded, or is not the one that was accepted", _RESTORE
    ),
    "tag_dangling": FindingCode(
        FindingSeverity.WARNING,
        "a tag names a commit that its branch does not have",
        "delete the tag and create it again",
    ),
    "key_run_damaged": FindingCode(
        FindingSeverity.WARNING,
        "an object with idempotency keys is missing or damaged; the journal is read instead, which takes longer",
        "restore the file from a backup; or wait until its keys have expired",
    ),
    "note_damaged": FindingCode(
        FindingSeverity.WARNING,
        "the note with the checksum of a manifest's newest version is damaged, so that version was not verified",
        "nothing is lost, and the next commit rewrites it; find out what damages files there",
    ),
    "audit_damaged": FindingCode(
        FindingSeverity.WARNING,
        "the recovery log can't be read; no recovery can be finished without it",
        "restore `_graph_commit_recoveries.lance` from a backup, or move it away: the next recovery creates a new one",
    ),
    "branch_half_deleted": FindingCode(
        FindingSeverity.NOTE,
        "the deletion of a branch was interrupted",
        "open the graph for writing, which finishes it",
    ),
    "manifest_unregistered": FindingCode(
        FindingSeverity.NOTE,
        "a manifest belongs to no branch: its creation was interrupted",
        "no reader sees it; `omnigraph cleanup` collects it",
    ),
    "schema_copy_differs": FindingCode(
        FindingSeverity.NOTE,
        "`_schema.pg`, the readable copy of main's schema, differs from it or is missing; it is never read back",
        "`omnigraph schema show` prints the schema in force",
    ),
    "foreign_file": FindingCode(
        FindingSeverity.ERROR,
        "a link, a pipe or a device is among the files of tables; none is followed or opened",
        "find out what created it, then replace it by the real file; OMNIGRAPH_FOLLOW_LINKS=true allows tables"
        " that are links",
    ),
    "foreign_object": FindingCode(
        FindingSeverity.NOTE,
        "an object below the graph's root is not part of the graph",
        "move it elsewhere: the directory of a graph must contain nothing else",
    ),
    # The tables
    "version_missing": FindingCode(FindingSeverity.ERROR, "the file of a pinned version is missing", _REPAIR),
    "version_damaged": FindingCode(
        FindingSeverity.ERROR, "the file of a pinned version has a wrong checksum, or can't be read", _REPAIR
    ),
    "file_missing": FindingCode(FindingSeverity.ERROR, "a file that a pinned version needs is missing", _REPAIR),
    "file_damaged": FindingCode(
        FindingSeverity.ERROR,
        "a file that a pinned version needs has a wrong size or checksum, or can't be read",
        _REPAIR_DEEP,
    ),
    "rows_unreadable": FindingCode(FindingSeverity.ERROR, "the rows of a pinned version can't be read", _REPAIR_DEEP),
    "index_damaged": FindingCode(
        FindingSeverity.ERROR,
        "files of an index are missing, have a wrong checksum, or can't be read; no row is lost, but queries that use"
        " the index fail",
        "run `omnigraph repair --confirm`, which drops it, and `omnigraph optimize`, which rebuilds it",
    ),
    "row_count_differs": FindingCode(
        FindingSeverity.ERROR,
        "a table has another number of rows than its pin records",
        "run `omnigraph repair --confirm`, which corrects the pin",
    ),
    "columns_differ": FindingCode(
        FindingSeverity.ERROR,
        "a table lacks columns that the schema declares, or has them with another type or size",
        "run `omnigraph repair`; or export what can be read and load it into a new graph",
    ),
    "table_unregistered": FindingCode(
        FindingSeverity.ERROR, "the schema has a type without a table, or a table belongs to no type", _RESTORE
    ),
    "unknown_table_part": FindingCode(
        FindingSeverity.WARNING,
        "a version has parts that omnigraph never writes; they were not checked",
        "find out which tool has changed the table; read it with the release that wrote it",
    ),
    "past_damaged": FindingCode(
        FindingSeverity.WARNING,
        "a version that only earlier commits need can't be read, or a file of it is missing or has a wrong checksum;"
        " the current state is not affected",
        "restore the file from a backup if those commits are needed; otherwise let `omnigraph cleanup` collect them",
    ),
    "list_damaged": FindingCode(
        FindingSeverity.WARNING,
        "a list of checksums can't be used, so the files that it lists were not verified; no row is lost",
        "restore the file from a backup; or run `omnigraph check --record`, which records the current checksums",
    ),
    "head_moved": FindingCode(
        FindingSeverity.NOTE,
        "another tool has written to a table; the graph does not see that, because it reads pinned versions",
        "no action is needed; to have those rows in the graph, load them",
    ),
    "unused_files": FindingCode(
        FindingSeverity.NOTE,
        "files that no commit of any branch needs, left by failed writes or other tools",
        "`omnigraph cleanup` collects them when they are old enough",
    ),
    # The rows
    "id_null": FindingCode(FindingSeverity.ERROR, "a row has no id", _FIX_ROWS),
    "id_repeated": FindingCode(FindingSeverity.ERROR, "an id occurs more than once", _FIX_ROWS),
    "id_not_of_key": FindingCode(FindingSeverity.ERROR, "an id does not match its key", _FIX_ROWS),
    "end_missing": FindingCode(
        FindingSeverity.ERROR,
        "the source or target node of an edge is missing",
        "delete the edges, or load the nodes again",
    ),
    "unique_broken": FindingCode(
        FindingSeverity.ERROR, "two rows have the same values in a `@unique` group", _FIX_ROWS
    ),
    "card_broken": FindingCode(FindingSeverity.ERROR, "a node has more or fewer edges than `@card` allows", _FIX_ROWS),
    "value_broken": FindingCode(
        FindingSeverity.ERROR,
        "a value is missing, violates an enum, `@range` or `@check`, or is not finite",
        _FIX_ROWS,
    ),
    "index_disagrees": FindingCode(
        FindingSeverity.ERROR,
        "an index does not find what a scan of its column finds",
        "run `omnigraph repair --confirm`, which drops it, and `omnigraph optimize`, which rebuilds it",
    ),
    # Operations
    "sidecar_broken": FindingCode(
        FindingSeverity.WARNING,
        "a sidecar can't be decoded; it blocks nothing, but the remains of its operation are not cleaned up",
        "find out what wrote it, and remove it when that no longer runs",
    ),
    "operation_dead": FindingCode(
        FindingSeverity.WARNING,
        "an operation died before it was published, and its remains are not cleaned up yet",
        "open the graph for writing, which cleans them up",
    ),
    "operation_landed": FindingCode(
        FindingSeverity.NOTE,
        "an operation was published, but died before it removed its sidecar",
        "nothing is missing; open the graph for writing to have the sidecar removed",
    ),
    "operation_in_flight": FindingCode(FindingSeverity.NOTE, "an operation is in progress", _NOTHING),
    "repair_unfinished": FindingCode(
        FindingSeverity.WARNING,
        "a repair set damaged versions of a manifest aside, but died before it was published",
        "run `omnigraph repair --confirm`, which finishes it",
    ),
    "version_aside": FindingCode(
        FindingSeverity.NOTE,
        "a damaged version of a manifest that a repair has set aside",
        "remove it when you are sure that it is no longer needed",
    ),
    "recovery_leftover": FindingCode(
        FindingSeverity.NOTE,
        "an object below `__recovery` belongs to no operation",
        "remove it when nothing writes to the graph",
    ),
}
_ORDER = {code: position for position, code in enumerate(CODES)}
_RANK = {FindingSeverity.ERROR: 0, FindingSeverity.WARNING: 1, FindingSeverity.NOTE: 2}


class Finding(JsonStruct, frozen=True, kw_only=True):
    """One result of a check."""

    json_keys = "severity code thing place branches message count bytes=nbytes way_out"

    code: str
    thing: str
    """The subject: a table key, a branch, an operation."""
    place: str
    """The file or directory, relative to the root."""
    message: str
    branches: tuple[str, ...] = ()
    """The branches that are affected; empty if it does not concern branches."""
    count: int | None = None
    """The number of rows or files, if they are counted."""
    nbytes: int | None = None

    @property
    def severity(self) -> FindingSeverity:
        """The severity of its code."""
        return CODES[self.code].severity

    @property
    def way_out(self) -> str:
        """What can be done about it."""
        return CODES[self.code].way_out

    @property
    def rank(self) -> tuple[object, ...]:
        """The sort key of findings: by severity, then in the order of `CODES`."""
        return _RANK[self.severity], _ORDER[self.code], self.branches, self.thing, self.place, self.message


def sort_findings(findings: list[Finding]) -> tuple[Finding, ...]:
    """Sort findings for display, and merge those that differ in their branches only."""
    # A dict instead of a set keeps the order of the branches.
    branches: dict[Finding, dict[str, None]] = {}
    for finding in findings:
        branches.setdefault(msgspec.structs.replace(finding, branches=()), {}).update(dict.fromkeys(finding.branches))
    merged = [msgspec.structs.replace(finding, branches=tuple(names)) for finding, names in branches.items()]
    return tuple(sorted(merged, key=lambda finding: finding.rank))
