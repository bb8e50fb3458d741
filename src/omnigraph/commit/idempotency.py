"""Requests that are sent again: known by their actor and key, and answered by the commit that they made."""

from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import Commit
from omnigraph.errors import Kind, OmnigraphError


class KeyReusedError(OmnigraphError):
    """An idempotency key came with another request than the one that it belongs to; nothing was done."""

    kind = Kind.INVALID
    code = "idempotency_key_reused"

    def __init__(self, key: str, commit_id: str, operation: str, asked: str) -> None:
        super().__init__(key, commit_id, operation, asked)
        self.key, self.commit_id, self.operation, self.asked = key, commit_id, operation, asked

    def __str__(self) -> str:
        return (
            f"the idempotency key `{self.key}` was used before, for another request: `{self.operation}` made the"
            f" commit {self.commit_id}, and this is `{self.asked}`; give this request a key of its own"
        )


def find_earlier_commit(
    log: ManifestLog, head: Head, *, operation: str, actor: str, key: str | None, request: str | None = None
) -> Commit | None:
    """The commit that this very request has made before, when its answer did not reach the caller.

    `request` is a digest of what it asks for; None where nothing is known but the key.

    Raises:
        KeyReusedError: The actor's key belongs to another operation, or to another request of this one.
    """
    commit = None if key is None else log.find_by_idempotency_key(head, actor, key)
    if commit is not None:
        check_same_request(commit, operation, request)
    return commit


def check_same_request(commit: Commit, operation: str, request: str | None) -> None:
    """KeyReusedError when the commit, which has the request's key, was made by another operation or request."""
    key = commit.idempotency_key or ""
    if commit.operation != operation:
        raise KeyReusedError(key, commit.id, commit.operation, operation)
    if commit.request is not None and request is not None and commit.request != request:
        raise KeyReusedError(key, commit.id, commit.operation, f"{operation} of something else")
