"""Check the names of branches and tags. Pure."""

import re
from collections.abc import Iterable

from omnigraph.commit.branch_errors import BranchExistsError
from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.tag_errors import TagExistsError
from omnigraph.errors import BadArgumentError
from omnigraph.ids import ULID_LENGTH

MAX_NAME_CHARACTERS = 128
RESERVED_START = "__"
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")


def check_branch_name(name: str) -> None:
    """Check that a branch may have this name.

    Raises:
        BadArgumentError: It may not.
    """
    reason = _find_mistake(name)
    if reason is not None:
        raise BadArgumentError.bad_branch_name(name, reason)


def check_name_free(name: str, taken: Iterable[str]) -> None:
    """Check that no branch has this name, and that neither name is a path prefix of the other.

    Raises:
        BranchExistsError: A branch has such a name.
    """
    for other in (MAIN, *sorted(taken)):
        # With `a` there can be no `a/b`, in whichever order they are created.
        shorter, longer = sorted((name, other), key=len)
        if longer == shorter or longer.startswith(f"{shorter}/"):
            raise BranchExistsError(name, other)


def check_tag_name(name: str) -> None:
    """Check that a tag may have this name: a valid branch name that does not look like a commit id.

    Raises:
        BadArgumentError: It may not.
    """
    reason = _find_mistake(name)
    # Snapshots are named by tag or by commit id in the same argument.
    if reason is None and looks_like_id(name):
        reason = "it looks like the id of a commit"
    if reason is not None:
        raise BadArgumentError.bad_tag_name(name, reason)


def looks_like_id(name: str) -> bool:
    """Return whether a name could be a commit id; no tag has such a name."""
    return len(name) == ULID_LENGTH and name.isascii() and name.isalnum()


def check_untagged(name: str, tags: Iterable[str]) -> None:
    """Check that no tag has this name, since a name stands for one state.

    Raises:
        TagExistsError: A tag has it.
    """
    if name in tags:
        raise TagExistsError(name)


def _find_mistake(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME_CHARACTERS:
        return f"it has {len(name)} characters; the limit is {MAX_NAME_CHARACTERS}"
    if name == MAIN:
        return "every graph has `main`, which can be neither created nor deleted"
    if name.startswith(RESERVED_START):
        return f"names that start with `{RESERVED_START}` are reserved"
    for segment in name.split("/"):
        if not segment:
            return "a part between slashes is empty"
        if segment in {".", ".."}:
            return f"a part between slashes must not be `{segment}`"
        if not _SEGMENT.fullmatch(segment):
            return "use letters (A–Z, a–z), digits, `.`, `-`, `_`, and `/` between parts"
    return None
