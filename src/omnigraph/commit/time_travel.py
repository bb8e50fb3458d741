"""Read a state of a branch by commit, time or manifest version, by undoing commits back from the head."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice

from omnigraph.clock import format_instant, parse_instant
from omnigraph.commit.gc_horizon import check_commit_retained
from omnigraph.commit.manifest_log import Head, ManifestLog, expect_pins, find_schema
from omnigraph.commit.manifest_types import Commit, Pin, PinChange, Snapshot, TableRecord
from omnigraph.commit.ref_names import looks_like_id
from omnigraph.errors import BadArgumentError, Kind, MissingError
from omnigraph.ids import ULID_LENGTH
from omnigraph.storage.verification import Verifier

# A ULID begins with its time: 8 characters are a second. It ends with randomness: of 6 characters, a billion values.
MIN_BEGINNING = 8
MIN_ENDING = 6
# The number of ids that an error about a short id lists.
MAX_LISTED = 8
# `~` is not allowed in the names of branches and tags.
_STEPS = re.compile(r"(?P<name>.+)~(?P<count>[0-9]{0,9})", re.DOTALL)


class CommitMissingError(MissingError):
    """The branch's history has no such commit, or none that early; without a branch, no branch has it.

    With `is_snapshot`, the argument takes no branch and no time, which have other arguments.
    """

    kind = Kind.NOT_FOUND
    code = "commit_not_found"
    wanted: str
    branch: str | None
    near: str | None = None
    is_snapshot: bool = False

    def __str__(self) -> str:
        steps = split_steps(self.wanted)
        if steps is not None:
            return f"the history of `{steps[0]}` has no commit {steps[1]:,} before it; see `omnigraph commit list`"
        if not looks_like_id(self.wanted) and " " not in self.wanted:
            hint = f"; did you mean `{self.near}`?" if self.near else ""
            rest = "or a manifest version" if self.is_snapshot else "a branch, or a time with its zone"
            return f"`{self.wanted}` names no commit; use a commit id, a tag, {rest}{hint}"
        if self.branch is None:
            return f"no branch of the graph has a commit {self.wanted}; see `omnigraph commit list`"
        return f"the branch `{self.branch}` has no commit {self.wanted}; see `omnigraph commit list`"


def read_at_commit(log: ManifestLog, head: Head, commit_id: str) -> Snapshot:
    """Read the state that a commit created.

    Raises:
        CommitMissingError: The history has no such commit.
        CommitCollectedError: Cleanup has collected it.
    """
    return _undo_until(log, head, lambda commit: commit.id == commit_id, commit_id)


def split_steps(text: str) -> tuple[str, int] | None:
    """Split `X~3` into the name before `~` and the number, 1 if it is left out; None if there is no `~` at the end."""
    match = _STEPS.fullmatch(text)
    return None if match is None else (match["name"], int(match["count"] or 1))


def step_back(log: ManifestLog, head: Head, commit: Commit, count: int) -> Commit | None:
    """Return the `count`-th first parent of a commit, not counting folded ones; None if there are fewer."""
    if count == 0:
        return commit
    older = (other for other in log.iter_history(head, commit.seq) if not other.is_folded)
    return next(islice(older, count - 1, None), None)


def looks_like_short_id(text: str) -> bool:
    """Return whether a text could be a part of a commit id: its first 8 or its last 6 characters, or more."""
    return MIN_ENDING <= len(text) < ULID_LENGTH and text.isascii() and text.isalnum()


def find_short_id(text: str, histories: Iterable[Iterable[Commit]]) -> str | None:
    """Return the id of the only commit of these histories that begins or ends with a text; None if there is none.

    Raises:
        BadArgumentError: Several do.
    """
    part = text.upper()
    has_beginning = len(part) >= MIN_BEGINNING
    # A commit may be in several histories. Kept in their order, which is newest first.
    ids: dict[str, None] = {}
    for commit in chain.from_iterable(histories):
        if commit.id.endswith(part) or (has_beginning and commit.id.startswith(part)):
            ids[commit.id] = None
    if len(ids) > 1:
        raise BadArgumentError.commit_ambiguous(text, tuple(ids)[:MAX_LISTED], len(ids))
    return next(iter(ids), None)


def read_at_time(log: ManifestLog, head: Head, instant: datetime) -> Snapshot:
    """Read the state at an instant: that of the newest commit that is not later.

    Raises:
        CommitMissingError: All commits are later.
        CommitCollectedError: Cleanup has collected that state.
    """
    return _undo_until(
        log, head, lambda commit: parse_instant(commit.at) <= instant, f"as early as {format_instant(instant)}"
    )


def find_commit_at(log: ManifestLog, head: Head, instant: datetime) -> Commit:
    """Return the newest commit that is not later than an instant, even if its state was collected.

    Raises:
        CommitMissingError: All commits are later.
    """
    for commit in log.iter_history(head):
        if parse_instant(commit.at) <= instant:
            return commit
    raise CommitMissingError(f"as early as {format_instant(instant)}", log.branch)


def read_at_version(log: ManifestLog, head: Head, version: int) -> Snapshot:
    """Read the state of a version of the branch's own manifest; the version itself need not exist any longer.

    Not every version belongs to a commit: one that registers a branch or a tag has the commit before it.

    Raises:
        CommitMissingError: There is no such version yet.
        CommitCollectedError: Cleanup has collected that state.
    """
    target = f"of manifest version {version}"
    if version > head.snapshot.manifest_version:
        raise CommitMissingError(target, log.branch)
    fork = head.snapshot.manifest.fork
    first = -1 if fork is None else fork.seq
    # Commits up to the fork have version numbers of the parent's manifest, which can't be compared with this one.
    return _undo_until(log, head, lambda commit: commit.seq <= first or commit.manifest_version <= version, target)


def find_journal(log: ManifestLog, head: Head, snapshot: Snapshot) -> ManifestLog:
    """Return the log whose journal has the commit of a snapshot: the branch's own, or that of an ancestor."""
    fork = head.snapshot.manifest.fork
    while fork is not None and snapshot.commit.seq < fork.seq:
        log = log.open_parent(fork)
        fork = log.final_head().snapshot.manifest.fork
    return log


def _undo_until(log: ManifestLog, head: Head, is_target: Callable[[Commit], bool], target: str) -> Snapshot:
    """Undo commits back from the head until `is_target` holds for the newest one left; return that state.

    Raises:
        CommitMissingError: No commit matches; the error shows `target`.
        CommitCollectedError: Cleanup has collected the state.
    """
    manifest = head.snapshot.manifest
    tables = {**manifest.tables}
    pins = {**manifest.pins}
    dropped = {**manifest.dropped}
    schema = manifest.schema
    lost = dict(manifest.lost)
    for commit in log.iter_history(head):
        if is_target(commit):
            check_commit_retained(log, head, commit)
            # Undoing leaves the records of tables that were created later; without a pin they are not part of the
            # state.
            tables = {key: table for key, table in tables.items() if key in pins or key in dropped}
            undone = replace(
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
            return Snapshot(branch=commit.branch, manifest_version=commit.manifest_version, manifest=undone)
        lost |= {purge.path: (purge, commit) for purge in commit.purged}
        undo_commit(commit, tables, pins, dropped)
        if commit.schema_before is not None:
            record = find_schema(log, head, commit.schema_before)
            if record is None:
                raise CommitMissingError(target, log.branch)
            schema = record
    raise CommitMissingError(target, log.branch)


def expect_versions(verifier: Verifier, changes: Iterable[PinChange]) -> None:
    """Register with a verifier the checksums that a commit records of its versions, before they are read."""
    for change in changes:
        path_before = change.path if change.replaced is None else change.replaced.path
        if change.before is not None:
            verifier.expect(path_before, int(change.before), change.sum_before, change.rows_before)
        if change.after is not None:
            verifier.expect(change.path, int(change.after), change.sum_after, change.rows_after)


def undo_commit(commit: Commit, tables: dict[str, TableRecord], pins: dict[str, Pin], dropped: dict[str, Pin]) -> None:
    """Change tables and pins in place from the state after a commit to the state before it."""
    for change in commit.changes:
        # The pin after the commit: visible, dropped by it, or under the table's new key.
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
                # Checksum lists are written after the states that they describe, so later ones apply too.
                lists=_join_lists(change.lists_before, later.lists if later is not None and later.path == path else ()),
            )


def _find_pin(pins: Mapping[str, Pin], path: str) -> Pin | None:
    """Return the pin of the table at a path, whatever its key; None if there is none."""
    return next((pin for pin in pins.values() if pin.path == path), None)


def _join_lists(lists: tuple[str, ...], later_lists: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*lists, *later_lists))) if lists else later_lists
