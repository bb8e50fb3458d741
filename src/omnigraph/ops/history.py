"""List commits with filters and pages, and find a commit on any branch."""

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
from omnigraph.commit.manifest_types import MAIN, MAINTAIN, Commit, MergedFrom
from omnigraph.commit.ref_names import looks_like_id
from omnigraph.commit.time_travel import CommitMissingError
from omnigraph.errors import BadArgumentError
from omnigraph.lang.spelling import find_closest
from omnigraph.ops.argument_checks import check_count, check_text
from omnigraph.ops.redaction import redact_commit, redact_commits
from omnigraph.ops.revision import resolve_commit
from omnigraph.ops.session import Session
from omnigraph.policy import Action, DeniedError

FILTERS = ("actor", "branch", "key", "message", "operation", "since", "type", "until")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPage:
    """A page of a branch's history, newest first."""

    commits: tuple[Commit, ...]
    collected: frozenset[str] = frozenset()
    """The ids of commits whose data cleanup has collected: they are listed, but can't be read."""
    next: str | None = None
    """The value of `before` for the next page, which may be empty; None if this is the last page."""

    def to_json(self) -> dict[str, object]:
        """Return the JSON form."""
        listed = [{**commit.to_json(), "collected": commit.id in self.collected} for commit in self.commits]
        return {"commits": listed, "next": self.next}


def list_commits(
    session: Session,
    *,
    filters: Mapping[str, str] | None = None,
    limit: int | None = None,
    before: str | None = None,
    all_branches: bool = False,
    include_maintenance: bool = False,
) -> list[Commit]:
    """Return the branch's commits, newest first; `limit` bounds both the result and, without filters, the cost.

    With `all_branches`, return those of every readable branch, each once, by time. Commits of automatic maintenance are
    left out, unless `include_maintenance` or a filter on their operation asks for them.

    `before` names a commit of the history by id, tag, branch or time; only older commits are returned.

    Raises:
        BadArgumentError: There is no such filter, or its value can't be parsed.
        CommitMissingError: `before` is not in the branch's history.
    """
    if not all_branches:
        session.allow(Action.READ, hides_rows=True)
    check_count("limit", limit)
    # `islice` accepts no larger number.
    max_commits = None if limit is None else min(limit, sys.maxsize)
    tests = [_build_filter(name, value) for name, value in (filters or {}).items()]
    if not include_maintenance and (filters or {}).get("operation") != MAINTAIN:
        tests.append(lambda commit: not commit.is_automatic)
    newest = _merge_histories(session) if all_branches else session.log.iter_history(session.head())
    # Redacted before the filters see them: a filter must not find what the listing hides.
    history = redact_commits(session, _with_cancellation(session, newest))
    if before is not None:
        before_id = resolve_commit(session, before)
        # Consumes the iterator up to and including that commit: the older ones are left in it.
        if all(commit.id != before_id for commit in history):
            raise CommitMissingError(before_id, session.log.branch)
    return list(islice((commit for commit in history if all(test(commit) for test in tests)), max_commits))


def _merge_histories(session: Session) -> Iterator[Commit]:
    """Merge the histories of all readable branches by time, newest first."""
    logs = [branch.log for branch in _list_readable_branches(session)]
    # Commits before a fork belong to the parent branch, so that each commit comes once.
    histories = [_iter_own_commits(log) for log in logs]
    return heapq.merge(*histories, key=lambda commit: (parse_instant(commit.at), commit.id), reverse=True)


def _list_readable_branches(session: Session) -> list[Session]:
    """Return sessions on main and every other branch that may be read.

    Raises:
        DeniedError: No branch may be read.
    """
    sessions: list[Session] = []
    denied: DeniedError | None = None
    for name in (MAIN, *(record.name for record in session.branches.list_records())):
        try:
            session.allow(Action.READ, name, hides_rows=True)
            sessions.append(session.checkout(name))
        except DeniedError as error:
            denied = denied or error
        except (BranchGoneError, BranchMissingError):
            continue  # deleted since the records were listed
    if denied is not None and not sessions:
        raise denied
    return sessions


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
    include_maintenance: bool = False,
) -> CommitPage:
    """Return `list_commits` as a page, with its collected commits and the start of the next page."""
    commits = list_commits(
        session,
        filters=filters,
        limit=limit,
        before=before,
        all_branches=all_branches,
        include_maintenance=include_maintenance,
    )
    # A page that ends with the first commit of the graph is the last one, also when it is full.
    is_full = bool(commits) and len(commits) == limit and commits[-1].parent is not None
    return CommitPage(
        commits=tuple(commits),
        collected=_find_collected(session, commits, all_branches=all_branches),
        next=commits[-1].id if is_full else None,
    )


def _find_collected(session: Session, commits: Sequence[Commit], *, all_branches: bool) -> frozenset[str]:
    """Return the ids of the commits that cleanup has collected."""
    if not all_branches:
        is_collected = build_collected_predicate(session.log, session.head())
        return frozenset(commit.id for commit in commits if is_collected(commit))
    # Each branch has its own garbage-collection horizon.
    by_branch: dict[str, list[Commit]] = {}
    for commit in commits:
        by_branch.setdefault(commit.branch, []).append(commit)
    collected: set[str] = set()
    for branch_session in _list_readable_branches(session):
        branch_commits = by_branch.pop(branch_session.log.branch, [])
        collected |= _find_collected(branch_session, branch_commits, all_branches=False) if branch_commits else set()
    return frozenset(collected)


@dataclass(frozen=True, slots=True)
class LocatedCommit:
    """A commit, and a session on the branch whose history contains it."""

    commit: Commit
    session: Session


def find_commit(session: Session, ref: str, *, branch: str | None = None) -> LocatedCommit:
    """Find a commit in a branch's history, or in that of any branch if none is named, including merged branches.

    `ref` is an id, a tag, a branch, or a time on the branch, which is main by default.

    Raises:
        CommitMissingError: No readable branch has it.
        BranchMissingError: There is no such branch.
    """
    check_text("a commit", ref)
    if branch is not None:
        session.allow(Action.READ, branch, hides_rows=True)
        branch_session = session.checkout(branch)
        return _find_in_branch(branch_session, resolve_commit(branch_session, ref), None)
    tagged = None if looks_like_id(ref) else _find_tagged(session, ref)
    if tagged is not None:
        return tagged
    commit_id = resolve_commit(session, ref)
    merged: dict[str, MergedFrom] = {}
    denied: DeniedError | None = None
    is_any_readable = False
    for name in (MAIN, *(record.name for record in session.branches.list_records())):
        try:
            session.allow(Action.READ, name, hides_rows=True)
            return _find_in_branch(session.checkout(name), commit_id, merged)
        except CommitMissingError:
            is_any_readable = True
        except (BranchGoneError, BranchMissingError):
            continue  # deleted since the records were listed
        except DeniedError as error:
            denied = denied or error
    if denied is not None and not is_any_readable:
        raise denied
    return _find_in_merged(session, commit_id, merged)


def _find_tagged(session: Session, name: str) -> LocatedCommit | None:
    """Return the commit of a tag, whose branch may have been deleted, or None if there is no such tag."""
    for record in session.branches.tags.list_records():
        if record.name == name:
            session.allow(Action.READ, record.branch, hides_rows=True)
            branch_session = session.checkout_log(session.branches.get_journal(record.branch, record.path))
            history = branch_session.log.iter_history(branch_session.log.final_head())
            commit = next((commit for commit in history if commit.id == record.commit_id), None)
            return None if commit is None else LocatedCommit(commit, branch_session)
    return None


def show_commit(session: Session, ref: str, *, branch: str | None = None) -> Commit:
    """Return a commit; raises what `find_commit` raises."""
    located = find_commit(session, ref, branch=branch)
    return redact_commit(located.session, located.commit)


def _find_in_branch(session: Session, commit_id: str, merged: dict[str, MergedFrom] | None) -> LocatedCommit:
    """Find a commit in the history of one branch.

    With `merged`, main was searched before: commits from before the fork are not read again, and the journals of the
    branches merged into this one are added to `merged`.
    """
    head = session.head()
    fork = head.snapshot.manifest.fork
    fork_seq = -1 if fork is None or merged is None else fork.seq
    for commit in session.log.iter_history(head):
        if commit.id == commit_id:
            return LocatedCommit(commit, session)
        if commit.seq <= fork_seq:
            break
        if merged is not None and commit.merged_from is not None:
            merged.setdefault(commit.merged_from.path, commit.merged_from)
    raise CommitMissingError(commit_id, session.log.branch)


def _find_in_merged(session: Session, commit_id: str, merged: Mapping[str, MergedFrom]) -> LocatedCommit:
    """Find a commit of a branch that was merged and then deleted; its journal exists until cleanup removes it."""
    live = {record.path for record in session.branches.list_records()}
    pending = [source for path, source in merged.items() if path not in live]
    seen = {source.path for source in pending}
    while pending:
        source = pending.pop()
        branch_session = session.checkout_log(session.log.open_other(source.branch, source.path))
        for commit in _iter_own_commits(branch_session.log):
            if commit.id == commit_id:
                # Only now: a commit elsewhere must not be hidden by a deleted branch that may not be read.
                session.allow(Action.READ, source.branch, hides_rows=True)
                return LocatedCommit(commit, branch_session)
            # A deleted branch may itself have merged another one.
            earlier = commit.merged_from
            if earlier is not None and earlier.path not in live | seen:
                seen.add(earlier.path)
                pending.append(earlier)
    raise CommitMissingError(commit_id, None)


def _iter_own_commits(log: ManifestLog) -> Iterator[Commit]:
    """Yield the commits made on a branch since its fork, newest first; none if its journal was removed."""
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
    """Build the predicate of a filter.

    Raises:
        BadArgumentError: There is no such filter, or its value can't be parsed.
    """
    match name:
        case "actor":
            return lambda commit: commit.actor == value
        case "branch":
            return lambda commit: commit.branch == value
        case "key":
            return lambda commit: commit.idempotency_key == value
        case "message":
            folded = value.casefold()
            return lambda commit: folded in (commit.message or "").casefold()
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
    raise BadArgumentError.bad_filter(name, f"did you mean `{near}`?" if near else f"use one of {', '.join(FILTERS)}")


def _parse_instant(name: str, text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise BadArgumentError.bad_filter(name, str(error)) from error
