"""What a check says: findings, each with a code, what it is about, where that is, and the way out."""

from dataclasses import dataclass, replace
from enum import Enum


class FindingSeverity(Enum):
    """How bad a finding is."""

    ERROR = "error"
    """Something is lost, wrong, or can't be read."""
    WARNING = "warning"
    """Nothing is wrong with what is there now, but somebody should look."""
    NOTE = "note"
    """Harmless; good to know."""


@dataclass(frozen=True, slots=True)
class FindingCode:
    """What all findings of a code have in common."""

    severity: FindingSeverity
    meaning: str
    way_out: str


_REPAIR = "run `omnigraph repair` to see which earlier version can take its place, or put the file back from a backup"
_REPAIR_DEEP = _REPAIR.replace("repair`", "repair --deep`")
_RESTORE = "put the file back from a backup; nothing but that brings it back"
_FIX_ROWS = "change or delete the rows that are named; other tools that write to the tables know no rules"
_NOTHING = "nothing has to be done"

CODES: dict[str, FindingCode] = {
    # the manifests
    "format_refused": FindingCode(
        FindingSeverity.ERROR,
        "the manifest was written by another format",
        "export the graph with the release that wrote it, and load it with this one",
    ),
    "manifest_missing": FindingCode(
        FindingSeverity.ERROR,
        "the graph's own manifest is gone: nothing says which versions of the tables belong together",
        "put `__manifest` back from a backup or a clone",
    ),
    "branch_manifest_missing": FindingCode(
        FindingSeverity.ERROR,
        "a branch is registered, and its manifest is gone",
        "put it back from a backup; or delete the branch, and make it anew",
    ),
    "manifest_damaged": FindingCode(
        FindingSeverity.ERROR,
        "the newest version of a manifest can't be read, or contradicts itself",
        "run `omnigraph repair`, which shows the state that it can go back to; or put the file back from a backup",
    ),
    "manifest_rolled_back": FindingCode(
        FindingSeverity.ERROR,
        "a manifest has lost its newest versions, with acknowledged commits: something else still names one of them",
        "put the versions back from a backup, or from the bucket's own versions, before anything is written or cleaned"
        " up; or run `omnigraph repair`, which by force accepts the loss",
    ),
    "journal_damaged": FindingCode(
        FindingSeverity.ERROR,
        "a part of the history can't be read, or contradicts itself; the present is not touched by that",
        "put the file back from a backup; or run `omnigraph repair`, which shows where the history can begin instead",
    ),
    "commit_altered": FindingCode(
        FindingSeverity.ERROR,
        "a commit does not match its digest: its row was changed after it was made, or its schema was",
        "put `__manifest` or the branch's manifest back from a backup whose `omnigraph verify` succeeds",
    ),
    "branch_mismatch": FindingCode(
        FindingSeverity.ERROR,
        "main's register and a branch's own manifest contradict each other",
        "put both back from one backup; or delete the branch, and make it anew",
    ),
    "schema_unreadable": FindingCode(
        FindingSeverity.ERROR, "the accepted schema can't be decoded, or is not the one that was accepted", _RESTORE
    ),
    "tag_dangling": FindingCode(
        FindingSeverity.WARNING,
        "a tag names a commit that its branch does not have",
        "delete the tag, and make it anew",
    ),
    "key_run_damaged": FindingCode(
        FindingSeverity.WARNING,
        "an object with idempotency keys is gone or damaged; the journal is read in its place, which takes longer",
        "put the file back from a backup; or wait until its keys are old enough to be forgotten",
    ),
    "note_damaged": FindingCode(
        FindingSeverity.WARNING,
        "the note with the checksum of a manifest's newest version is damaged, so that version was not compared",
        "nothing is lost, and the next commit writes it anew; see what damages files there",
    ),
    "audit_damaged": FindingCode(
        FindingSeverity.WARNING,
        "the table of recoveries can't be read; no recovery can be finished without it",
        "put `_graph_commit_recoveries.lance` back from a backup, or move it away: the next recovery makes a new one",
    ),
    "branch_half_deleted": FindingCode(
        FindingSeverity.NOTE,
        "a branch was deleted by somebody who died before the end",
        "open the graph for writing: that finishes it",
    ),
    "manifest_unregistered": FindingCode(
        FindingSeverity.NOTE,
        "a manifest that no branch has: whoever made it died before it became one",
        "nobody sees it; `omnigraph cleanup` collects it",
    ),
    "schema_copy_differs": FindingCode(
        FindingSeverity.NOTE,
        "`_schema.pg`, the readable copy of main's schema, says something else, or is gone; nobody reads it back",
        "`omnigraph schema show` prints the one that counts",
    ),
    "foreign_file": FindingCode(
        FindingSeverity.ERROR,
        "a link, a pipe or a device lies among the files of tables, and none is followed or opened",
        "find out who put it there, then put the real file in its place; OMNIGRAPH_FOLLOW_LINKS=true allows tables"
        " that are links",
    ),
    "foreign_object": FindingCode(
        FindingSeverity.NOTE,
        "something below the graph's root is not part of it",
        "move it away: a graph's place is its own",
    ),
    # the tables
    "version_missing": FindingCode(FindingSeverity.ERROR, "the file of a pinned version is gone", _REPAIR),
    "version_damaged": FindingCode(
        FindingSeverity.ERROR, "the file of a pinned version has another checksum, or can't be read", _REPAIR
    ),
    "file_missing": FindingCode(FindingSeverity.ERROR, "a file that a pinned version needs is gone", _REPAIR),
    "file_damaged": FindingCode(
        FindingSeverity.ERROR,
        "a file that a pinned version needs has another size or checksum, or can't be read",
        _REPAIR_DEEP,
    ),
    "rows_unreadable": FindingCode(FindingSeverity.ERROR, "the rows of a pinned version can't be read", _REPAIR_DEEP),
    "index_damaged": FindingCode(
        FindingSeverity.ERROR,
        "an index has lost files, has another checksum, or can't be read; no row is lost by that, but queries that ask"
        " it fail",
        "run `omnigraph repair --confirm`, which drops it, and `omnigraph optimize`, which builds it anew",
    ),
    "row_count_differs": FindingCode(
        FindingSeverity.ERROR,
        "a table has another number of rows than its pin says",
        "run `omnigraph repair --confirm`, which corrects the pin",
    ),
    "columns_differ": FindingCode(
        FindingSeverity.ERROR,
        "a table does not have the columns that the schema declares, or of another type or size",
        "run `omnigraph repair`; or export what can be read, and load it into a new graph",
    ),
    "table_unregistered": FindingCode(
        FindingSeverity.ERROR, "the schema has a type without a table, or a table stands for no type", _RESTORE
    ),
    "unknown_table_part": FindingCode(
        FindingSeverity.WARNING,
        "a version has parts that omnigraph never writes, and that were not looked at",
        "see which tool has changed the table; read it with the release that wrote it",
    ),
    "past_damaged": FindingCode(
        FindingSeverity.WARNING,
        "a version that only earlier commits show can't be read any more, or a file of it is missing or has another"
        " checksum; the present is not touched by that",
        "put the file back from a backup, if that past is needed; else let `omnigraph cleanup` give those commits up",
    ),
    "list_damaged": FindingCode(
        FindingSeverity.WARNING,
        "a list of checksums can't be used, so the files that it lists were not compared; no row is lost by that",
        "put the file back from a backup; or run `omnigraph check --record`, which lists the files anew as they are",
    ),
    "head_moved": FindingCode(
        FindingSeverity.NOTE,
        "another tool has written to a table; the graph does not see that, because it reads pinned versions",
        "nothing has to be done; load what was written there into the graph, if it is wanted",
    ),
    "unused_files": FindingCode(
        FindingSeverity.NOTE,
        "files that no commit of any branch needs: of writes that failed, or of other tools",
        "`omnigraph cleanup` collects them when they are old enough",
    ),
    # the rows
    "id_null": FindingCode(FindingSeverity.ERROR, "a row has no id", _FIX_ROWS),
    "id_repeated": FindingCode(FindingSeverity.ERROR, "an id is there more than once", _FIX_ROWS),
    "id_not_of_key": FindingCode(FindingSeverity.ERROR, "an id is not the one that its key makes", _FIX_ROWS),
    "end_missing": FindingCode(
        FindingSeverity.ERROR, "an edge leads from or to no node", "delete the edges, or load the nodes again"
    ),
    "unique_broken": FindingCode(
        FindingSeverity.ERROR, "two rows hold the same values of a `@unique` group", _FIX_ROWS
    ),
    "card_broken": FindingCode(FindingSeverity.ERROR, "a node has more or fewer edges than `@card` allows", _FIX_ROWS),
    "value_broken": FindingCode(
        FindingSeverity.ERROR,
        "a value is missing, or breaks an enum, `@range` or `@check`, or is not finite",
        _FIX_ROWS,
    ),
    "index_disagrees": FindingCode(
        FindingSeverity.ERROR,
        "an index does not find what a scan of its column finds",
        "run `omnigraph repair --confirm`, which drops it, and `omnigraph optimize`, which builds it anew",
    ),
    # operations
    "sidecar_broken": FindingCode(
        FindingSeverity.WARNING,
        "a sidecar can't be understood; it blocks nothing, but what its operation left is not cleared up",
        "see what wrote it, and remove it when that does not run any more",
    ),
    "operation_dead": FindingCode(
        FindingSeverity.WARNING,
        "an operation died before it became visible, and what it left is not cleared up yet",
        "open the graph for writing: that clears it up",
    ),
    "operation_landed": FindingCode(
        FindingSeverity.NOTE,
        "an operation was published, and died before it removed its sidecar",
        "nothing is missing; open the graph for writing to have the sidecar removed",
    ),
    "operation_in_flight": FindingCode(FindingSeverity.NOTE, "an operation is at work", _NOTHING),
    "repair_unfinished": FindingCode(
        FindingSeverity.WARNING,
        "a repair took damaged versions of a manifest out of the way, and died before it was published",
        "run `omnigraph repair --confirm`, which finishes it",
    ),
    "version_aside": FindingCode(
        FindingSeverity.NOTE,
        "a damaged version of a manifest, which a repair has put aside",
        "remove it when you are sure that it is not needed any more",
    ),
    "recovery_leftover": FindingCode(
        FindingSeverity.NOTE,
        "something below `__recovery` belongs to no operation",
        "remove it when nothing writes to the graph",
    ),
}
"""Every code of a finding, in the order in which findings are shown."""

_ORDER = {code: place for place, code in enumerate(CODES)}
_RANK = {FindingSeverity.ERROR: 0, FindingSeverity.WARNING: 1, FindingSeverity.NOTE: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found."""

    code: str
    thing: str
    """What it is about: a table's key, a branch, an operation."""
    place: str
    """Where: a file or directory below the root."""
    message: str
    branches: tuple[str, ...] = ()
    """The branches that show it; none where it is not a matter of branches."""
    count: int | None = None
    """How many rows or files, where they are counted."""
    nbytes: int | None = None

    @property
    def severity(self) -> FindingSeverity:
        """How bad it is."""
        return CODES[self.code].severity

    @property
    def way_out(self) -> str:
        """What can be done about it."""
        return CODES[self.code].way_out

    @property
    def rank(self) -> tuple[object, ...]:
        """By what findings are sorted: the worst first, then from the manifests to the rows."""
        return _RANK[self.severity], _ORDER[self.code], self.branches, self.thing, self.place, self.message

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        return {
            "severity": self.severity.value,
            "code": self.code,
            "thing": self.thing,
            "place": self.place,
            "branches": list(self.branches),
            "message": self.message,
            "count": self.count,
            "bytes": self.nbytes,
            "way_out": self.way_out,
        }


def sort_findings(findings: list[Finding]) -> tuple[Finding, ...]:
    """The findings as they are shown: one that is true of several branches is said once."""
    branches: dict[Finding, dict[str, None]] = {}
    for one in findings:
        branches.setdefault(replace(one, branches=()), {}).update(dict.fromkeys(one.branches))
    merged = [replace(one, branches=tuple(names)) for one, names in branches.items()]
    return tuple(sorted(merged, key=lambda one: one.rank))
