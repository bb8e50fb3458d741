"""Idempotency: a repeated request is recognised by its actor and key, and gets the commit that it made before."""

from omnigraph.commit.manifest_log import Head, ManifestLog
from omnigraph.commit.manifest_types import Commit
from omnigraph.errors import Kind, OmnigraphError


class KeyReusedError(OmnigraphError):
    """An idempotency key was reused for a different request; nothing was done."""

    kind = Kind.INVALID
    code = "idempotency_key_reused"
    key: str
    commit_id: str
    operation: str
    asked: str
    message = (
        "the idempotency key `{key}` was used before, for another request: `{operation}` made the"
        " commit {commit_id}, and this is `{asked}`; give this request its own key"
    )


def find_earlier_commit(
    log: ManifestLog, head: Head, *, operation: str, actor: str, key: str | None, request: str | None = None
) -> Commit | None:
    """Return the commit that this request made earlier, if its response did not reach the caller; else None.

    `request` is a digest of the request; None if only the key is known.

    Raises:
        KeyReusedError: The actor's key belongs to another operation, or to another request of this one.
    """
    commit = None if key is None else log.find_by_idempotency_key(head, actor, key)
    if commit is not None:
        check_same_request(commit, operation, request)
    return commit


def check_same_request(commit: Commit, operation: str, request: str | None) -> None:
    """Check that a commit with the key of this request was made by this request.

    Raises:
        KeyReusedError: It was made by another operation or another request.
    """
    key = commit.idempotency_key or ""
    if commit.operation != operation:
        raise KeyReusedError(key, commit.id, commit.operation, operation)
    # Either digest may be unknown; then the operation alone decides.
    if commit.request is not None and request is not None and commit.request != request:
        raise KeyReusedError(key, commit.id, commit.operation, f"{operation} of something else")
