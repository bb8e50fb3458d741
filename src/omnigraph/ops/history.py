"""Commits: list them with filters, show one."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice

from omnigraph.clock import parse_instant
from omnigraph.commit.records import Commit
from omnigraph.commit.refs import CommitMissingError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.session import Session

FILTERS = ("actor", "operation", "since", "until")


class BadFilterError(OmnigraphError):
    """A filter of `commit list` that does not exist, or whose value can't be read."""

    kind = Kind.USAGE
    code = "bad_filter"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        return f"can't filter commits by `{self.name}`: {self.reason}"


def list_commits(
    session: Session, *, filters: Mapping[str, str] | None = None, limit: int | None = None
) -> list[Commit]:
    """The branch's commits, newest first; `limit` bounds both the result and, without filters, the cost."""
    tests = [_test(name, value) for name, value in (filters or {}).items()]
    wanted = (commit for commit in session.log.history(session.head()) if all(test(commit) for test in tests))
    return list(islice(wanted, limit))


def show_commit(session: Session, commit_id: str) -> Commit:
    """One commit, or CommitMissingError."""
    commits: Iterator[Commit] = session.log.history(session.head())
    for commit in commits:
        if commit.id == commit_id:
            return commit
    raise CommitMissingError(commit_id, session.log.branch)


def _test(name: str, value: str) -> Callable[[Commit], bool]:
    """A filter as a function, or BadFilterError: before the history is read, whatever it holds."""
    match name:
        case "actor":
            return lambda commit: commit.actor == value
        case "operation":
            return lambda commit: commit.operation == value
        case "since":
            since = _instant(name, value)
            return lambda commit: parse_instant(commit.at) >= since
        case "until":
            until = _instant(name, value)
            return lambda commit: parse_instant(commit.at) <= until
    raise BadFilterError(name, f"use one of {', '.join(FILTERS)}")


def _instant(name: str, text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise BadFilterError(name, str(error)) from error
