"""Commits: list them with filters, a page at a time; find one, on whichever branch it is."""

import heapq
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from omnigraph.clock import parse_instant
from omnigraph.commit.branch_errors import BranchGoneError, BranchMissingError
from omnigraph.commit.gc_horizon import build_collected_predicate
from omnigraph.commit.manifest_log import Head, ManifestLog, NotAGraphError
from omnigraph.commit.manifest_types import MAIN, Commit, MergedFrom
from omnigraph.commit.ref_names import looks_like_id
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_count, check_text
from omnigraph.ops.revision import resolve_commit
from omnigraph.ops.session import Session
from omnigraph.policy import Action, DeniedError

FILTERS = ("actor", "branch", "key", "message", "operation", "since", "type", "until")


class BadFilterError(OmnigraphError):
    """A filter of `commit list` that does not exist, or whose value can't be read."""

    kind = Kind.USAGE
    code = "bad_filter"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"can't filter commits by `{self.name}`: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPage:
    """Some commits of a branch's history, newest first."""

    commits: tuple[Commit, ...]
    collected: frozenset[str] = frozenset()
    """The ids of those whose states cleanup has taken: they are known, and can't be read."""
    next: str | None = None
    """What to ask for commits `before`, for the next page; None when there is none. The next page may be empty."""

    def to_json(self) -> dict[str, object]:
        """What every door shows."""
        listed = [{**commit.to_json(), "collected": commit.id in self.collected} for commit in self.commits]
        return {"commits": listed, "next": self.next}


def list_commits(
    session: Session,
    *,
    filters: Mapping[str, str] | None = None,
    limit: int | None = None,
    before: str | None = None,
    all_branches: bool = False,
) -> list[Commit]:
    """The branch's commits, newest first; `limit` bounds both the result and, without filters, the cost.

    With `all_branches` come those of every branch that may be read, each once, by their times.

    `before` is a commit of the history, by its id, a tag, a branch or a time: what is older than it comes.

    Raises:
        BadFilterError: There is no such filter, or its value can't be read.
        CommitMissingError: `before` is no commit of the branch's history.
    """
    if not all_branches:
        session.allow(Action.READ)
    check_count("limit", limit)
    most = None if limit is None else min(limit, sys.maxsize)
    tests = [_build_filter(name, value) for name, value in (filters or {}).items()]
    newest = _merge_histories(session) if all_branches else session.log.iter_history(session.head())
    history = _with_cancellation(session, newest)
    if before is not None:
        last = resolve_commit(session, before)
        if all(commit.id != last for commit in history):
            raise CommitMissingError(last, session.log.branch)
    return list(islice((commit for commit in history if all(test(commit) for test in tests)), most))


def _merge_histories(session: Session) -> Iterator[Commit]:
    """Merge the histories of all branches that may be read, newest first; what a branch comes from is main's."""
    there = [one.log for one in _list_readable_branches(session)]
    histories = [_iter_own_commits(log) for log in there]
    return heapq.merge(*histories, key=lambda commit: (parse_instant(commit.at), commit.id), reverse=True)


def _list_readable_branches(session: Session) -> list[Session]:
    """Return the graph on main and every other branch that may be read; DeniedError when none may."""
    found: list[Session] = []
    denied: DeniedError | None = None
    for name in (MAIN, *(record.name for record in session.branches.list_records())):
        try:
            session.allow(Action.READ, name)
            found.append(session.checkout(name))
        except DeniedError as error:
            denied = denied or error
        except (BranchGoneError, BranchMissingError):
            continue  # deleted just now
    if denied is not None and not found:
        raise denied
    return found


def _with_cancellation(session: Session, commits: Iterator[Commit]) -> Iterator[Commit]:
    for commit in commits:
        session.check_cancelled()
        yield commit


def read_commit_page(
    session: Session,
    *,
    filters: Mapping[str, str] | None = None,
    limit: int | None = None,
    before: str | None = None,
    all_branches: bool = False,
) -> CommitPage:
    """As `list_commits`, with what can't be read any more, and how to go on."""
    found = list_commits(session, filters=filters, limit=limit, before=before, all_branches=all_branches)
    is_full = bool(found) and len(found) == limit and found[-1].parent is not None
    return CommitPage(
        commits=tuple(found),
        collected=_find_collected(session, found, all_branches=all_branches),
        next=found[-1].id if is_full else None,
    )


def _find_collected(session: Session, found: Sequence[Commit], *, all_branches: bool) -> frozenset[str]:
    """Return the ids of those of the commits that cleanup has collected."""
    if not all_branches:
        is_collected = build_collected_predicate(session.log, session.head())
        return frozenset(commit.id for commit in found if is_collected(commit))
    by_branch: dict[str, list[Commit]] = {}
    for commit in found:
        by_branch.setdefault(commit.branch, []).append(commit)
    gone: set[str] = set()
    for there in _list_readable_branches(session):
        mine = by_branch.pop(there.log.branch, [])
        gone |= _find_collected(there, mine, all_branches=False) if mine else set()
    return frozenset(gone)


@dataclass(frozen=True, slots=True)
class LocatedCommit:
    """A commit, and the graph on the branch in whose history it stands."""

    commit: Commit
    session: Session


def find_commit(session: Session, ref: str, *, branch: str | None = None) -> LocatedCommit:
    """A commit of a branch's history, or of any branch's when none is named; those of merged branches are found too.

    It is named by its id, a tag, a branch, or a time of the branch, which is main unless another is named.

    Raises:
        CommitMissingError: No branch has it that may be read.
        BranchMissingError: There is no such branch.
    """
    check_text("a commit", ref)
    if branch is not None:
        session.allow(Action.READ, branch)
        there = session.checkout(branch)
        return _find_in_branch(there, resolve_commit(there, ref), None)
    tagged = None if looks_like_id(ref) else _find_tagged(session, ref)
    if tagged is not None:
        return tagged
    commit_id = resolve_commit(session, ref)
    merged: dict[str, MergedFrom] = {}
    denied: DeniedError | None = None
    is_read = False
    for name in (MAIN, *(record.name for record in session.branches.list_records())):
        try:
            session.allow(Action.READ, name)
            return _find_in_branch(session.checkout(name), commit_id, merged)
        except CommitMissingError:
            is_read = True
        except (BranchGoneError, BranchMissingError):
            continue  # deleted just now
        except DeniedError as error:
            denied = denied or error
    if denied is not None and not is_read:
        raise denied
    return _find_in_merged(session, commit_id, merged)


def _find_tagged(session: Session, name: str) -> LocatedCommit | None:
    """The commit of a tag, whose branch may have been deleted; None when there is no such tag."""
    for record in session.branches.tags.list_records():
        if record.name == name:
            session.allow(Action.READ, record.branch)
            there = session.checkout_log(session.branches.get_journal(record.branch, record.path))
            history = there.log.iter_history(there.log.final_head())
            commit = next((one for one in history if one.id == record.commit_id), None)
            return None if commit is None else LocatedCommit(commit, there)
    return None


def show_commit(session: Session, ref: str, *, branch: str | None = None) -> Commit:
    """One commit; raises what `find_commit` raises."""
    return find_commit(session, ref, branch=branch).commit


def _find_in_branch(session: Session, commit_id: str, merged: dict[str, MergedFrom] | None) -> LocatedCommit:
    """A commit of one branch. With `merged`, main has been looked at: what came from there is not read again.

    And the journals that merges came from are added to it.
    """
    head = session.head()
    fork = head.snapshot.manifest.fork
    first = -1 if fork is None or merged is None else fork.seq
    for commit in session.log.iter_history(head):
        if commit.id == commit_id:
            return LocatedCommit(commit, session)
        if commit.seq <= first:
            break
        if merged is not None and commit.merged_from is not None:
            merged.setdefault(commit.merged_from.path, commit.merged_from)
    raise CommitMissingError(commit_id, session.log.branch)


def _find_in_merged(session: Session, commit_id: str, merged: Mapping[str, MergedFrom]) -> LocatedCommit:
    """A commit of a branch that was merged and deleted since; its journal is there until cleanup takes it."""
    live = {record.path for record in session.branches.list_records()}
    waiting = [one for path, one in merged.items() if path not in live]
    seen = {one.path for one in waiting}
    while waiting:
        there = waiting.pop()
        session_there = session.checkout_log(session.log.open_other(there.branch, there.path))
        for commit in _iter_own_commits(session_there.log):
            if commit.id == commit_id:
                session.allow(Action.READ, there.branch)
                return LocatedCommit(commit, session_there)
            more = commit.merged_from
            if more is not None and more.path not in live | seen:
                seen.add(more.path)
                waiting.append(more)
    raise CommitMissingError(commit_id, None)


def _iter_own_commits(log: ManifestLog) -> Iterator[Commit]:
    """What a branch itself had, newest first; nothing when its journal is gone."""
    try:
        head: Head = log.final_head()
    except NotAGraphError:
        return
    fork = head.snapshot.manifest.fork
    for commit in log.iter_history(head):
        if fork is not None and commit.seq <= fork.seq:
            return
        yield commit


def _build_filter(name: str, value: str) -> Callable[[Commit], bool]:
    """A filter as a function, or BadFilterError: before the history is read, whatever it holds."""
    match name:
        case "actor":
            return lambda commit: commit.actor == value
        case "branch":
            return lambda commit: commit.branch == value
        case "key":
            return lambda commit: commit.idempotency_key == value
        case "message":
            wanted = value.casefold()
            return lambda commit: wanted in (commit.message or "").casefold()
        case "operation":
            return lambda commit: commit.operation == value
        case "since":
            since = _parse_instant(name, value)
            return lambda commit: parse_instant(commit.at) >= since
        case "type":
            keys = {f"node:{value}", f"edge:{value}"}
            return lambda commit: any(change.table_key in keys for change in commit.changes)
        case "until":
            until = _parse_instant(name, value)
            return lambda commit: parse_instant(commit.at) <= until
    near = find_closest(name, FILTERS)
    raise BadFilterError(name, f"did you mean `{near}`?" if near else f"use one of {', '.join(FILTERS)}")


def _parse_instant(name: str, text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise BadFilterError(name, str(error)) from error
