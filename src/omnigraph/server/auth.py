"""Who asks: bearer tokens, compared by their hashes in constant time; the file is read again when it changes."""

import hmac
import threading
from collections.abc import Sequence
from pathlib import Path

from omnigraph.clock import Clock
from omnigraph.config.tokens import TokenRecord, hash_token, read_tokens
from omnigraph.errors import OmnigraphError
from omnigraph.policy import Access, Action, Actor, Decision
from omnigraph.telemetry import log

_SCHEME = "bearer"
_MAX_TOKEN_LENGTH = 4096
_Signature = tuple[int, int, int]

READ_ONLY_ACTIONS = frozenset({Action.READ, Action.EXPORT, Action.INVOKE_QUERY, Action.GRAPH_LIST})


class ReadOnlyPolicy:
    """What whoever has a token may do where there is no policy: look, and change nothing."""

    def decide(self, access: Access) -> Decision:
        """Whether it only reads."""
        return Decision(is_allowed=access.action in READ_ONLY_ACTIONS, reasons=("no policy is set: tokens only read",))


class Tokens:
    """The tokens that are valid now. Safe from several threads.

    A file that was changed counts from the next request on. While it can't be read or understood, what it said last
    counts, and the log says so: saving it in two steps locks nobody out. To lock somebody out, take their entry away.
    """

    def __init__(self, file: Path | None, given: Sequence[TokenRecord], clock: Clock) -> None:
        self._file, self._configured, self._clock = file, tuple(given), clock
        self._lock = threading.Lock()
        self._last_signature: _Signature | None = None
        self._records: tuple[TokenRecord, ...] = self._configured
        if file is not None:
            self._last_signature = _read_signature(file)
            self._records = (*self._configured, *read_tokens(file))

    def __len__(self) -> int:
        return len(self._records)

    def authenticate(self, header: str | None) -> Actor | None:
        """Whose token an `Authorization` header has; None when it has none that is valid now.

        Every record is compared, whatever was found before: how long it takes says nothing about the tokens.
        """
        token = _parse_bearer_token(header)
        digest = hash_token(token or "")
        now = self._clock.now()
        found: Actor | None = None
        for record in self._load_current():
            is_equal = hmac.compare_digest(record.digest, digest)
            found = record.actor if is_equal and record.is_valid_at(now) else found
        return found if token is not None else None

    def _load_current(self) -> tuple[TokenRecord, ...]:
        if self._file is None:
            return self._records
        try:
            signature = _read_signature(self._file)
        except OSError as error:
            if self._last_signature is not None:
                log.error("the tokens file can't be read; what it said last counts: %s", error.strerror)
            self._last_signature = None
            return self._records
        if signature == self._last_signature:
            return self._records
        with self._lock:
            if signature != self._last_signature:
                self._last_signature = signature
                try:
                    self._records = (*self._configured, *read_tokens(self._file))
                    log.info("the tokens file was read again: %d tokens", len(self._records))
                except (OmnigraphError, OSError) as error:
                    log.error("the tokens file can't be understood; what it said last counts: %s", error)
            return self._records


def _read_signature(path: Path) -> _Signature:
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _parse_bearer_token(header: str | None) -> str | None:
    scheme, _, token = (header or "").partition(" ")
    token = token.strip()
    if scheme.lower() != _SCHEME or not token or len(token) > _MAX_TOKEN_LENGTH:
        return None
    return token
