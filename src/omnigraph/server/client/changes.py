"""What differs, as a server tells it: between two states, and from commit to commit."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.clock import Clock, SystemClock
from omnigraph.commit.branch_errors import BranchGoneError, BranchMissingError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.change_feed import MAX_OUTAGE_SECONDS, ChangesCall
from omnigraph.ops.row_diff import RowChangeCounts
from omnigraph.server.client.http_transport import quote_path
from omnigraph.server.client.requests import GraphCalls
from omnigraph.server.http.paging import DEFAULT_PAGE_ITEMS, MAX_PAGE_ITEMS

Document = dict[str, Any]

_WAIT_SECONDS = 20.0
"""How long a server is asked to wait for the next commit, at most."""
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.1, 10.0
_END_MARK, _BEGIN_MARK = b'","end":', b'","begin":'
_HEAD_BYTES = len(b'{"commit":"')


def decode_counts(said: Document) -> dict[str, RowChangeCounts]:
    """By type, how many rows changed."""
    return {name: RowChangeCounts(**one) for name, one in said.items()}


@dataclass(frozen=True, slots=True)
class RemoteDiff:
    """What differs between two commits, found when it is asked for; see `Diff`."""

    _calls: GraphCalls
    before_commit: str
    after_commit: str
    _types: Sequence[str] | None

    @classmethod
    def from_states(cls, calls: GraphCalls, before: str, after: str, types: Sequence[str] | None) -> "RemoteDiff":
        """Of two states as they are now, whatever is written later."""
        said = calls.get("diff", before=before, after=after, types=types, limit=1)
        return cls(calls, said["before"], said["after"], types)

    def to_json(self) -> Document:
        """The two commits, what differs between their schemas, and in how many rows."""
        said = self._calls.get("diff", **self._query, counts=True)
        return {name: said[name] for name in ("before", "after", "schema", "types")}

    def counts(self) -> dict[str, RowChangeCounts]:
        """By type, how much differs; types in which nothing does are left out."""
        return decode_counts(self.to_json()["types"])

    def json_lines(self) -> Iterator[bytes]:
        """Each change as a JSON object with its line feed."""
        for block in self._calls.iter_lines("diff", **self._query):
            yield from block.splitlines(keepends=True)

    def __iter__(self) -> Iterator[Document]:
        """Each change as a JSON object."""
        return map(json.loads, self.json_lines())

    @property
    def _query(self) -> dict[str, object]:
        return {"before": self.before_commit, "after": self.after_commit, "types": self._types}


@dataclass(frozen=True, slots=True)
class RemoteChange:
    """What one commit changed; rows that did not come with it are fetched when they are asked for. See `ChangeSet`."""

    _calls: GraphCalls
    _document: Document
    _branch: str | None = None
    _types: Sequence[str] | None = None

    @property
    def cursor(self) -> str:
        """What to go on behind, when this change is done with."""
        return str(self._document["commit"])

    def summary(self) -> Document:
        """The change as one JSON object without its rows."""
        return {name: value for name, value in self._document.items() if name != "rows"}

    def counts(self) -> dict[str, RowChangeCounts]:
        """By type, how many rows changed."""
        return decode_counts(self._document["types"])

    def records(self) -> Iterator[Document]:
        """Each changed row as a JSON object."""
        if "rows" in self._document:
            yield from self._document["rows"]
            return
        for block in self.blocks():
            for line in block.splitlines():
                if not _is_mark(line, _BEGIN_MARK) and not _is_mark(line, _END_MARK):
                    record = json.loads(line)
                    del record["commit"]
                    yield record

    def blocks(self) -> Iterator[bytes]:
        """As lines of JSON, some at once: one that begins the commit, one for each row, one that ends it."""
        rest = f"commits{quote_path(self.cursor)}/changes"
        return self._calls.iter_lines(rest, branch=self._branch, types=self._types)

    def to_json(self) -> Document:
        """The whole change as one JSON object."""
        return {**self.summary(), "rows": list(self.records())}


@dataclass(slots=True)
class RemoteFeed:
    """The change feed of a branch behind a server: each commit exactly once, oldest first; see `ChangeFeed`.

    Who follows waits at the server, and outlasts one that does not answer for a while.
    """

    _calls: GraphCalls
    _branch: str
    _call: ChangesCall
    cursor: str | None = None
    """The commit that was given last, or behind which it began: where to go on."""
    _clock: Clock = field(default_factory=SystemClock)
    _delivered: int = 0
    _pending: deque[RemoteChange] = field(default_factory=deque)
    _is_over: bool = False
    _silent_since: float | None = None
    _pause: float = _MIN_PAUSE_SECONDS

    def __post_init__(self) -> None:
        """Raises what `Graph.changes` raises."""
        self.cursor = self._call.since
        self._fetch_page(limit=1, counts=True)

    def __iter__(self) -> "RemoteFeed":
        return self

    def __next__(self) -> RemoteChange:
        if self._delivered == self._call.limit:
            raise StopIteration
        while not self._pending:
            if self._is_over:
                raise StopIteration
            self._fetch()
        found = self._pending.popleft()
        self._delivered += 1
        self.cursor = found.cursor
        return found

    def blocks(self) -> Iterator[bytes]:
        """The feed as lines of JSON, some at once. What has no end is not complete, and begins again."""
        while self._delivered != self._call.limit:
            most = self._limit_page(MAX_PAGE_ITEMS) if self._call.limit is not None else None
            before = self._delivered
            try:
                for block in self._calls.iter_lines("changes", **self._build_query(most)):
                    self._count_commits(block)
                    yield block
            except OmnigraphError as error:
                self._wait_out(error)
                continue
            self._silent_since, self._pause = None, _MIN_PAUSE_SECONDS
            if not self._call.follow and (most is None or self._delivered - before < most):
                return

    def _fetch(self) -> None:
        most = self._limit_page(DEFAULT_PAGE_ITEMS)
        try:
            said = self._fetch_page(limit=most, wait=self._wait)
        except OmnigraphError as error:
            if error.code != "answer_too_large":
                self._wait_out(error)
                return
            said = self._fetch_page(limit=1, counts=True)  # its rows are fetched when they are asked for
        self._silent_since, self._pause = None, _MIN_PAUSE_SECONDS
        self._pending += [RemoteChange(self._calls, one, self._branch, self._call.types) for one in said["changes"]]
        self._is_over = said["next_cursor"] is None and not self._call.follow

    def _fetch_page(self, *, limit: int, counts: bool | None = None, wait: float | None = None) -> Document:
        asked = {**self._build_query(limit), "counts": counts, "wait": wait}
        said: Document = self._calls.get("changes", **asked)
        return said

    def _build_query(self, limit: int | None) -> dict[str, object]:
        asked = {"branch": self._branch, "since": self.cursor, "types": self._call.types, "limit": limit}
        return {**asked, "wait": self._wait}

    @property
    def _wait(self) -> float | None:
        return _WAIT_SECONDS if self._call.follow else None

    def _limit_page(self, usual: int) -> int:
        return usual if self._call.limit is None else min(self._call.limit - self._delivered, usual)

    def _count_commits(self, block: bytes) -> None:
        """Note which commits end in a block of lines."""
        for line in block.splitlines():
            if _is_mark(line, _END_MARK):
                self._delivered += 1
                self.cursor = json.loads(line)["commit"]

    def _wait_out(self, error: OmnigraphError) -> None:
        """Wait until the server may answer again, or raise: who does not follow, or has waited long enough."""
        if not self._call.follow:
            raise error
        if isinstance(error, BranchMissingError):
            raise BranchGoneError(self._branch) from error
        if error.kind is not Kind.UNAVAILABLE:
            raise error
        now = self._clock.monotonic()
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since > MAX_OUTAGE_SECONDS:
            raise error
        self._clock.sleep(self._pause)
        self._pause = min(self._pause * 2, _MAX_PAUSE_SECONDS)


def _is_mark(line: bytes, mark: bytes) -> bool:
    """Whether a line begins or ends a commit: whatever rows say, they say it behind that place."""
    place = line.find(b'"', _HEAD_BYTES)
    return line[place : place + len(mark)] == mark
