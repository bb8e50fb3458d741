"""Commits of a listing in lines for people: neighbouring commits that only keep the graph fast share one line."""

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from omnigraph.cli.render import format_count, format_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from omnigraph.commit.manifest_types import Commit
    from omnigraph.ops.history import CommitPage

_HEADERS = ("commit", "at", "actor", "operation", "tables", "rows", "message")


def iter_lines(commits: "Sequence[Commit]", *, fold: bool) -> "Iterator[list[Commit]]":
    """Yield the commits of each line of a listing: one, or with `fold` all neighbours that are no step of a person."""
    for is_folded, group in groupby(commits, key=lambda commit: fold and commit.is_folded):
        if is_folded:
            yield list(group)
        else:
            yield from ([commit] for commit in group)


def read_folded_pages(read_page: "Callable[[int, str | None], CommitPage]", lines: int) -> "list[CommitPage]":
    """Read pages until they fill a number of lines; folded commits could leave the first one nearly empty."""
    pages: list[CommitPage] = []
    before: str | None = None
    missing = lines
    while missing > 0:
        pages.append(read_page(missing, before))
        before = pages[-1].next
        if before is None:
            break
        commits = [commit for page in pages for commit in page.commits]
        missing = lines - sum(1 for _ in iter_lines(commits, fold=True))
    return pages


def format_pages(pages: "Sequence[CommitPage]", *, fold: bool) -> str:
    """Format the commits of pages as a table, and how to get the next one."""
    collected = frozenset[str]().union(*(page.collected for page in pages))
    commits = [commit for page in pages for commit in page.commits]
    lines = list(iter_lines(commits, fold=fold))
    rows = [_format_group(line) if len(line) > 1 else _format_commit(line[0], collected) for line in lines]
    text = format_table(_HEADERS, rows, right=("tables", "rows"))
    notes: list[str] = []
    folded = sum(len(line) for line in lines if len(line) > 1)
    if folded:
        notes.append(f"{format_count(folded, 'commit')} of maintenance and embedding: --include-maintenance lists them")
    if pages[-1].next is not None:
        notes.append(f"more commits: --before {pages[-1].next}")
    return text + "".join(f"\n{note}\n" for note in notes)


def _format_commit(commit: "Commit", collected: frozenset[str]) -> tuple[str, ...]:
    return (
        commit.id,
        commit.at,
        commit.actor,
        f"{commit.operation} (collected)" if commit.id in collected else commit.operation,
        str(len(commit.changes)),
        f"{sum(change.rows_after - change.rows_before for change in commit.changes):+d}",
        # The first line of a message is its summary.
        (commit.message or "").partition("\n")[0],
    )


def _format_group(commits: "Sequence[Commit]") -> tuple[str, ...]:
    counts = Counter(commit.operation for commit in commits)
    operations = ", ".join(f"{count} {operation}" for operation, count in counts.items())
    # None of these commits adds or removes a row. The time is that of the newest.
    return "…", commits[0].at, "", operations, "", "", ""
