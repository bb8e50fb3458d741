"""Which names branches and tags may have. Pure."""

import re
from collections.abc import Iterable

from omnigraph.commit.branch_errors import BadBranchNameError, BranchExistsError
from omnigraph.commit.manifest_types import MAIN
from omnigraph.commit.tag_errors import BadTagNameError, TagExistsError
from omnigraph.ids import ULID_LENGTH

MAX_NAME_CHARACTERS = 128
RESERVED_START = "__"
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")


def check_branch_name(name: str) -> None:
    """BadBranchNameError unless a branch may have that name."""
    reason = _find_mistake(name)
    if reason is not None:
        raise BadBranchNameError(name, reason)


def check_name_free(name: str, taken: Iterable[str]) -> None:
    """BranchExistsError when one of the names is the same, or the path of one begins with the other."""
    for other in (MAIN, *sorted(taken)):
        shorter, longer = sorted((name, other), key=len)
        if longer == shorter or longer.startswith(f"{shorter}/"):
            raise BranchExistsError(name, other)


def check_tag_name(name: str) -> None:
    """BadTagNameError unless a tag may have that name: one for a branch, and such that no commit's id looks like it."""
    reason = _find_mistake(name)
    if reason is None and looks_like_id(name):
        reason = "it looks like the id of a commit"
    if reason is not None:
        raise BadTagNameError(name, reason)


def looks_like_id(name: str) -> bool:
    """Whether a name could be a commit's id; no tag has such a name."""
    return len(name) == ULID_LENGTH and name.isascii() and name.isalnum()


def check_untagged(name: str, tags: Iterable[str]) -> None:
    """TagExistsError when a tag has the name: one name means one state."""
    if name in tags:
        raise TagExistsError(name)


def _find_mistake(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME_CHARACTERS:
        return f"it has {len(name)} characters, and {MAX_NAME_CHARACTERS} are the most"
    if name == MAIN:
        return "every graph has `main`, which is neither made nor deleted"
    if name.startswith(RESERVED_START):
        return f"names that start with `{RESERVED_START}` are omnigraph's own"
    for segment in name.split("/"):
        if not segment:
            return "a part between slashes is empty"
        if segment in {".", ".."}:
            return f"`{segment}` is no part of a name"
        if not _SEGMENT.fullmatch(segment):
            return "its parts are of letters (A–Z, a–z), digits, `.`, `-` and `_`, joined by `/`"
    return None
