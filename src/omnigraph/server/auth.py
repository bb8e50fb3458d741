"""Authentication by bearer tokens: compared by hash in constant time, reloaded when their file changes."""

import hmac
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from omnigraph.clock import Clock
from omnigraph.config.tokens import TokenRecord, hash_token, read_tokens
from omnigraph.errors import OmnigraphError
from omnigraph.policy import Access, Action, Actor, Decision
from omnigraph.row_rules import RowRules
from omnigraph.server.jwt_tokens import MAX_JWT_LENGTH, JwtRejectedError, JwtTokens, is_jwt
from omnigraph.telemetry import log

_SCHEME = "bearer"
# A longer token is rejected before it is hashed.
_MAX_TOKEN_LENGTH = 4096
_Signature = tuple[int, int, int]

READ_ONLY_ACTIONS = frozenset({Action.READ, Action.EXPORT, Action.INVOKE_QUERY, Action.GRAPH_LIST})


class ReadOnlyPolicy:
    """The policy of a server that has tokens but no policies: every token may read, and none may write."""

    def decide(self, access: Access) -> Decision:
        """Return a decision that allows actions without side effects only."""
        return Decision(
            is_allowed=access.action in READ_ONLY_ACTIONS,
            reasons=("no policy is configured: tokens allow reading only",),
        )

    def find_row_rules(self, actor: Actor, branch: str | None, query: str | None) -> RowRules | None:  # noqa: ARG002 - the interface
        """Return that every row is seen: no policy names any."""
        return None

    def names_type(self, name: str) -> bool:  # noqa: ARG002 - the interface
        """Return that no rule names any type."""
        return False


class Tokens:
    """The valid tokens of a server. Thread-safe.

    A changed file takes effect with the next request. While it can't be read or parsed, the last valid tokens stay in
    use and the log reports it, so saving the file in two steps locks no user out. To revoke a token, remove its entry.
    """

    def __init__(
        self, file: Path | None, configured: Sequence[TokenRecord], clock: Clock, jwts: JwtTokens | None = None
    ) -> None:
        self._file = file
        self._jwts = jwts
        self._configured = tuple(configured)
        self._clock = clock
        self._lock = threading.Lock()
        self._last_signature: _Signature | None = None
        self._records: tuple[TokenRecord, ...] = self._configured
        if file is not None:
            self._last_signature = _read_signature(file)
            self._records = (*self._configured, *read_tokens(file))

    def __len__(self) -> int:
        return len(self._records)

    def authenticate(self, header: str | None) -> Actor | None:
        """Return the actor of the token in an `Authorization` header, or None without a valid token."""
        token = _parse_bearer_token(header)
        if token is not None and self._jwts is not None and is_jwt(token):
            try:
                return self._jwts.authenticate(token)
            except JwtRejectedError:
                return None
        digest = hash_token(token or "")
        now = self._clock.now()
        actor: Actor | None = None
        # Compare all records even after a match, and also without a token: the time must reveal nothing about tokens.
        for record in self._load_current():
            is_equal = hmac.compare_digest(record.digest, digest)
            actor = record.actor if is_equal and record.is_valid_at(now) else actor
        return actor if token is not None else None

    def explain_rejection(self, header: str | None) -> str:
        """Return for the log why a header did not authenticate; of tokens it names only the actor of an expired one."""
        token = _parse_bearer_token(header)
        if token is None:
            return "no token" if header is None else "no bearer token"
        if self._jwts is not None and is_jwt(token):
            try:
                self._jwts.authenticate(token)
            except JwtRejectedError as error:
                return str(error)
        digest = hash_token(token)
        expired = [record.actor.name for record in self._records if hmac.compare_digest(record.digest, digest)]
        return f"expired token of {expired[0]}" if expired else "unknown token"

    def reload(self) -> None:
        """Read the file again if it changed, as the next request would."""
        self._load_current()

    def stop(self) -> None:
        """End the threads that keep the keys of JWTs up to date."""
        if self._jwts is not None:
            self._jwts.stop()

    def _load_current(self) -> tuple[TokenRecord, ...]:
        if self._file is None:
            return self._records
        try:
            signature = _read_signature(self._file)
        except OSError as error:
            # Log once, not per request. Without a signature the file counts as changed as soon as it is back.
            if self._last_signature is not None:
                log.error("the tokens file can't be read; the last valid tokens stay in use: %s", error.strerror)
            self._last_signature = None
            return self._records
        if signature == self._last_signature:
            return self._records
        with self._lock:
            # Another thread may have reloaded the file while this one waited for the lock.
            if signature != self._last_signature:
                # Set before reading: a file that can't be parsed is reported once, not with every request.
                self._last_signature = signature
                try:
                    self._records = (*self._configured, *read_tokens(self._file))
                    log.info("the tokens file was reloaded: %d tokens", len(self._records))
                except (OmnigraphError, OSError) as error:
                    log.error("the tokens file can't be parsed; the last valid tokens stay in use: %s", error)
            return self._records


def _read_signature(path: Path) -> _Signature:
    # The inode too: a file that replaces the old one may have its size and time.
    # Not `Path.stat`: every request comes here.
    stat = os.stat(path)  # noqa: PTH116
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _parse_bearer_token(header: str | None) -> str | None:
    scheme, _, token = (header or "").partition(" ")
    token = token.strip()
    if scheme.lower() != _SCHEME or not token:
        return None
    if len(token) > (MAX_JWT_LENGTH if is_jwt(token) else _MAX_TOKEN_LENGTH):
        return None
    return token
