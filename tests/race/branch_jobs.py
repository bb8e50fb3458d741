"""What processes do that race over branches. Every function runs in its own process."""

from contextlib import suppress

from omnigraph.commit.branch_errors import (
    BranchExistsError,
    BranchGoneError,
    BranchHasChildrenError,
    BranchMissingError,
)
from omnigraph.commit.conflict import ConflictError
from omnigraph.ops.branch import create_branch, delete_branch
from omnigraph.ops.write_tables import TableWrite, write_tables
from race.jobs import opened
from worlds import rows


def create(uri: str, name: str, times: int, *, is_shared: bool) -> list[str]:
    """Make branches, of a name that all share or of one's own; the ids of those that were made."""
    session = opened(uri)
    made = []
    for number in range(times):
        try:
            branch = create_branch(session, f"b{number}" if is_shared else f"{name}-{number}", actor=name)
        except BranchExistsError:
            continue
        made.append(f"{branch.name} {branch.id}")
    return made


def churn(uri: str, name: str, times: int) -> dict[str, int]:
    """Make, write to and delete one branch that all share; how often each of these was done, and refused."""
    session = opened(uri)
    counts = dict.fromkeys(("made", "exists", "written", "gone", "deleted", "missing"), 0)
    for number in range(times):
        try:
            create_branch(session, "shared", actor=name)
            counts["made"] += 1
        except BranchExistsError:
            counts["exists"] += 1
        try:
            write_tables(
                session.checkout("shared"),
                [TableWrite(table_key="node:A", upsert=rows({f"{name}{number}": number}))],
                operation="w",
                actor=name,
            )
            counts["written"] += 1
        except (BranchGoneError, BranchMissingError):
            counts["gone"] += 1
        try:
            delete_branch(session, "shared")
            counts["deleted"] += 1
        except (BranchMissingError, BranchGoneError):
            counts["missing"] += 1
    return counts


def families(uri: str, name: str, times: int) -> dict[str, int]:
    """Make a child of a branch that another process keeps deleting and making; how often there was a parent."""
    session = opened(uri)
    counts = {"made": 0, "orphaned": 0}
    for number in range(times):
        child = f"{name}/{number}"
        try:
            create_branch(session, child, source="parent", actor=name)
        except (BranchMissingError, BranchGoneError):
            counts["orphaned"] += 1
            continue
        counts["made"] += 1
        assert session.checkout(child).resolve_snapshot().pins
        delete_branch(session, child)
    return counts


def parent(uri: str, times: int) -> dict[str, int]:
    """Make and delete the parent; how often its children kept it."""
    session = opened(uri)
    counts = {"deleted": 0, "kept": 0}
    for _ in range(times):
        with suppress(BranchExistsError):
            create_branch(session, "parent", actor="parent")
        try:
            delete_branch(session, "parent")
            counts["deleted"] += 1
        except BranchHasChildrenError:
            counts["kept"] += 1
    return counts


def write_on(uri: str, branch: str, name: str, times: int) -> list[str]:
    """Append rows of one's own to a branch; the ids of those that were acknowledged."""
    session = opened(uri)
    done = []
    for number in range(times):
        row = f"{name}-{number}"
        try:
            write_tables(
                session.checkout(branch),
                [TableWrite(table_key="node:A", append=rows({row: number}))],
                operation="append",
                actor=name,
            )
        except ConflictError:
            continue
        done.append(row)
    return done
