"""Who descends from whom: pure functions over parent links."""

from collections.abc import Callable, Iterable

Parents = Callable[[str], Iterable[str]]
"""The parents of a commit id: none, one, or two for a merge."""


def find_ancestors(commit_id: str, parents: Parents) -> set[str]:
    """The commit and everything it descends from."""
    found: set[str] = set()
    waiting = [commit_id]
    while waiting:
        current = waiting.pop()
        if current not in found:
            found.add(current)
            waiting.extend(parents(current))
    return found


def find_merge_base(left: str, right: str, parents: Parents) -> str | None:
    """The first of the best common ancestors. None when the two share nothing."""
    return next(iter(find_merge_bases(left, right, parents)), None)


def find_merge_bases(left: str, right: str, parents: Parents) -> tuple[str, ...]:
    """The best common ancestors: those that no other common ancestor descends from, the largest id first.

    Ids are ULIDs, so the largest is the latest. There are several where two lines were merged crosswise.
    """
    common = find_ancestors(left, parents) & find_ancestors(right, parents)
    # Ancestors of a common ancestor are common too, so one that another descends from is some common one's parent.
    best = common - {parent for commit_id in common for parent in parents(commit_id)}
    return tuple(sorted(best, reverse=True))
