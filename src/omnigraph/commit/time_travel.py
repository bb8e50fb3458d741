"""From a name to a snapshot: a branch's head, a commit, a time. The past is folded from the journal."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from omnigraph.clock import format_instant, parse_instant
from omnigraph.commit.gc_horizon import check_commit_retained
from omnigraph.commit.manifest_log import Head, ManifestLog, expect_pins, find_schema
from omnigraph.commit.manifest_types import Commit, Pin, PinChange, Snapshot, TableRecord
from omnigraph.commit.ref_names import looks_like_id
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.storage.verification import Verifier


class CommitMissingError(OmnigraphError):
    """The branch's history has no such commit, or nothing that early; without a branch, no branch's has.

    `is_snapshot`: where it was named, branches and times are named in other ways.
    """

    kind = Kind.NOT_FOUND
    code = "commit_not_found"

    def __init__(self, wanted: str, branch: str | None, near: str | None = None, is_snapshot: bool = False) -> None:
        super().__init__(wanted, branch, near, is_snapshot)
        self.wanted, self.branch, self.near, self.is_snapshot = wanted, branch, near, is_snapshot

    def __str__(self) -> str:
        if not looks_like_id(self.wanted) and " " not in self.wanted:
            hint = f"; did you mean `{self.near}`?" if self.near else ""
            also = "or a manifest's version" if self.is_snapshot else "a branch or a time with its zone"
            return f"`{self.wanted}` names no commit: a commit's id, a tag, {also} does{hint}"
        if self.branch is None:
            return f"no branch of the graph has a commit {self.wanted}; see `omnigraph commit list`"
        return f"the branch `{self.branch}` has no commit {self.wanted}; see `omnigraph commit list`"


def read_at_commit(log: ManifestLog, head: Head, commit_id: str) -> Snapshot:
    """The state that a commit made, or CommitMissingError; CommitCollectedError when cleanup has taken it."""
    return _fold(log, head, lambda commit: commit.id == commit_id, commit_id)


def read_at_time(log: ManifestLog, head: Head, instant: datetime) -> Snapshot:
    """The state at an instant: that of the newest commit made no later, or CommitMissingError.

    CommitCollectedError when cleanup has taken that state.
    """
    return _fold(
        log, head, lambda commit: parse_instant(commit.at) <= instant, f"as early as {format_instant(instant)}"
    )


def find_commit_at(log: ManifestLog, head: Head, instant: datetime) -> Commit:
    """The newest commit made no later than an instant, whether its state can still be read; or CommitMissingError."""
    for commit in log.iter_history(head):
        if parse_instant(commit.at) <= instant:
            return commit
    raise CommitMissingError(f"as early as {format_instant(instant)}", log.branch)


def read_at_version(log: ManifestLog, head: Head, version: int) -> Snapshot:
    """The state that a version of the branch's own manifest shows, or CommitMissingError; it need not be kept itself.

    Not every version is a commit's: one that registers a branch or a tag shows the commit before it.
    """
    wanted = f"of manifest version {version}"
    if version > head.snapshot.manifest_version:
        raise CommitMissingError(wanted, log.branch)
    fork = head.snapshot.manifest.fork
    first = -1 if fork is None else fork.seq
    return _fold(log, head, lambda one: one.seq <= first or one.manifest_version <= version, wanted)


def find_journal(log: ManifestLog, head: Head, snapshot: Snapshot) -> ManifestLog:
    """The log whose journal has the commit of a snapshot: the branch's own, or one that it comes from."""
    fork = head.snapshot.manifest.fork
    while fork is not None and snapshot.commit.seq < fork.seq:
        log = log.open_parent(fork)
        fork = log.final_head().snapshot.manifest.fork
    return log


def _fold(log: ManifestLog, head: Head, is_wanted: Callable[[Commit], bool], wanted: str) -> Snapshot:
    """Walk back from the head, undoing each commit, until the wanted one is the newest left."""
    manifest = head.snapshot.manifest
    tables = {**manifest.tables}
    pins = {**manifest.pins}
    dropped = {**manifest.dropped}
    schema = manifest.schema
    lost = dict(manifest.lost)
    for commit in log.iter_history(head):
        if is_wanted(commit):
            check_commit_retained(log, head, commit)
            tables = {key: record for key, record in tables.items() if key in pins or key in dropped}
            past = replace(
                manifest,
                schema=schema,
                tables=tables,
                pins=pins,
                dropped=dropped,
                lost=lost,
                head=commit.id,
                commits=(commit,),
            )
            expect_pins(log.store, pins.values())
            return Snapshot(branch=commit.branch, manifest_version=commit.manifest_version, manifest=past)
        lost |= {purge.path: (purge, commit) for purge in commit.purged}
        undo_commit(commit, tables, pins, dropped)
        if commit.schema_before is not None:
            found = find_schema(log, head, commit.schema_before)
            if found is None:
                raise CommitMissingError(wanted, log.branch)
            schema = found
    raise CommitMissingError(wanted, log.branch)


def expect_versions(verifier: Verifier, changes: Iterable[PinChange]) -> None:
    """Tell a verifier what a commit records of the versions that it left and reached, before they are read."""
    for change in changes:
        old = change.path if change.replaced is None else change.replaced.path
        if change.before is not None:
            verifier.expect(old, int(change.before), change.sum_before, change.rows_before)
        if change.after is not None:
            verifier.expect(change.path, int(change.after), change.sum_after, change.rows_after)


def undo_commit(commit: Commit, tables: dict[str, TableRecord], pins: dict[str, Pin], dropped: dict[str, Pin]) -> None:
    """Turn tables and pins as a commit made them into those before it."""
    for change in commit.changes:
        later = pins.get(change.table_key) or dropped.get(change.table_key) or _find_pin(pins, change.path)
        dropped.pop(change.table_key, None)
        if change.replaced is not None:
            tables[change.table_key] = change.replaced
        if change.before is None:
            pins.pop(change.table_key, None)
        else:
            path = change.path if change.replaced is None else change.replaced.path
            pins[change.table_key] = Pin(
                table_key=change.table_key,
                path=path,
                version=int(change.before),
                rows=change.rows_before,
                branch=change.branch_before,
                sum=change.sum_before,
                # Lists were made later than the states that they are of.
                lists=_join_lists(change.lists_before, later.lists if later is not None and later.path == path else ()),
            )


def _find_pin(pins: Mapping[str, Pin], path: str) -> Pin | None:
    """Find the pin of a table that has another key now."""
    return next((pin for pin in pins.values() if pin.path == path), None)


def _join_lists(lists: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*lists, *others))) if lists else others
