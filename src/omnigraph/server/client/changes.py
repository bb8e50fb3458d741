"""Differences between two states of a graph on a server, and its change feed."""

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.backoff import OutageBackoff
from omnigraph.clock import SystemClock
from omnigraph.commit.branch_errors import BranchGoneError, BranchMissingError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ids import SystemIds
from omnigraph.ops.change_feed import ChangesCall
from omnigraph.ops.row_diff import RowChangeCounts
from omnigraph.server.client.http_transport import quote_path
from omnigraph.server.client.requests import GraphCalls
from omnigraph.server.http.paging import DEFAULT_PAGE_ITEMS, MAX_PAGE_ITEMS

Document = dict[str, Any]

# Long polling: a follower asks the server to hold a request for at most this long until the next commit.
_WAIT_SECONDS = 20.0
# What follows the commit id in the lines that begin and end a commit. All lines start with the commit id.
_BEGIN_MARK = b'","begin":'
_END_MARK = b'","end":'
_HEAD_BYTES = len(b'{"commit":"')


def decode_counts(document: Document) -> dict[str, RowChangeCounts]:
    """Decode the number of changed rows of each type."""
    return {name: RowChangeCounts(**counts) for name, counts in document.items()}


@dataclass(frozen=True, slots=True)
class RemoteDiff:
    """The difference between two commits, computed by the server on demand; see `Diff`."""

    _calls: GraphCalls
    before_commit: str
    after_commit: str
    _types: Sequence[str] | None

    @classmethod
    def from_states(
        cls, calls: GraphCalls, before: str, after: str, types: Sequence[str] | None, base: str | None = None
    ) -> "RemoteDiff":
        """Compare two states as they are now: later writes do not change the result."""
        # The server resolves both states to commits, which stay the same from then on.
        page = calls.get("diff", before=before, after=after, types=types, base=base, limit=1)
        return cls(calls, page["before"], page["after"], types)

    def to_json(self) -> Document:
        """Return the JSON form: the two commits, their schema difference, and the number of changed rows per type."""
        document = self._calls.get("diff", **self._query, counts=True)
        return {name: document[name] for name in ("before", "after", "schema", "types")}

    def counts(self) -> dict[str, RowChangeCounts]:
        """Count the changed rows of each type; types without changes are left out."""
        return decode_counts(self.to_json()["types"])

    def json_lines(self) -> Iterator[bytes]:
        """Yield each change as a line of JSON with its line feed."""
        for block in self._calls.iter_lines("diff", **self._query):
            yield from block.splitlines(keepends=True)

    def __iter__(self) -> Iterator[Document]:
        """Yield each change as a JSON object."""
        return map(json.loads, self.json_lines())

    @property
    def _query(self) -> dict[str, object]:
        return {"before": self.before_commit, "after": self.after_commit, "types": self._types}


@dataclass(frozen=True, slots=True)
class RemoteChange:
    """The changes of one commit; rows that the response did not include are fetched on demand. See `ChangeSet`."""

    _calls: GraphCalls
    _document: Document
    _branch: str | None = None
    _types: Sequence[str] | None = None

    @property
    def cursor(self) -> str:
        """The cursor to continue after, once this change is processed."""
        return str(self._document["commit"])

    def summary(self) -> Document:
        """Return the change as one JSON object without its rows."""
        return {name: value for name, value in self._document.items() if name != "rows"}

    def counts(self) -> dict[str, RowChangeCounts]:
        """Count the changed rows of each type."""
        return decode_counts(self._document["types"])

    def records(self) -> Iterator[Document]:
        """Yield each changed row as a JSON object."""
        if "rows" in self._document:
            yield from self._document["rows"]
            return
        for block in self.blocks():
            for line in block.splitlines():
                if not _is_mark(line, _BEGIN_MARK) and not _is_mark(line, _END_MARK):
                    # The commit id is only in lines; rows that came with the change do not have it.
                    record = json.loads(line)
                    del record["commit"]
                    yield record

    def blocks(self) -> Iterator[bytes]:
        """Yield blocks of JSON lines: one that begins the commit, one per row, one that ends it."""
        rest = f"commits{quote_path(self.cursor)}/changes"
        return self._calls.iter_lines(rest, branch=self._branch, types=self._types)

    def to_json(self) -> Document:
        """Return the whole change as one JSON object."""
        return {**self.summary(), "rows": list(self.records())}


def _build_outage() -> OutageBackoff:
    clock = SystemClock()
    return OutageBackoff(clock, SystemIds(clock))


@dataclass(slots=True)
class RemoteFeed:
    """The change feed of a branch on a server: each commit exactly once, oldest first; see `ChangeFeed`.

    A follower waits by long polling, and retries for up to ten minutes while the server is unavailable.
    """

    _calls: GraphCalls
    _branch: str
    _call: ChangesCall
    cursor: str | None = None
    """The last commit that was returned, or the one after which the feed began: where to continue."""
    _delivered: int = 0
    _pending: deque[RemoteChange] = field(default_factory=deque)
    _is_over: bool = False
    _outage: OutageBackoff = field(default_factory=_build_outage)

    def __post_init__(self) -> None:
        """Send a first request, so that the errors of `Graph.changes` are raised here and not on iteration."""
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
        change = self._pending.popleft()
        self._delivered += 1
        self.cursor = change.cursor
        return change

    def blocks(self) -> Iterator[bytes]:
        """Yield the feed as blocks of JSON lines.

        After an interruption a commit begins again: discard the lines of a commit that has no line that ends it.
        """
        while self._delivered != self._call.limit:
            limit = self._limit_page(MAX_PAGE_ITEMS) if self._call.limit is not None else None
            delivered_before = self._delivered
            try:
                for block in self._calls.iter_lines("changes", **self._build_query(limit)):
                    self._count_commits(block)
                    yield block
            except OmnigraphError as error:
                self._wait_out(error)
                continue
            self._outage.reset()
            # A response with fewer commits than requested is the last one.
            if not self._call.follow and (limit is None or self._delivered - delivered_before < limit):
                return

    def _fetch(self) -> None:
        limit = self._limit_page(DEFAULT_PAGE_ITEMS)
        try:
            page = self._fetch_page(limit=limit, wait=self._wait)
        except OmnigraphError as error:
            if error.code != "answer_too_large":
                self._wait_out(error)
                return
            # The next change is requested without its rows; `RemoteChange.records` streams them on demand.
            page = self._fetch_page(limit=1, counts=True)
        self._outage.reset()
        self._pending += [
            RemoteChange(self._calls, document, self._branch, self._call.types) for document in page["changes"]
        ]
        self._is_over = page["next_cursor"] is None and not self._call.follow

    def _fetch_page(self, *, limit: int, counts: bool | None = None, wait: float | None = None) -> Document:
        query = {**self._build_query(limit), "counts": counts, "wait": wait}
        page: Document = self._calls.get("changes", **query)
        return page

    def _build_query(self, limit: int | None) -> dict[str, object]:
        return {
            "branch": self._branch,
            "since": self.cursor,
            "types": self._call.types,
            "limit": limit,
            "wait": self._wait,
        }

    @property
    def _wait(self) -> float | None:
        return _WAIT_SECONDS if self._call.follow else None

    def _limit_page(self, default: int) -> int:
        return default if self._call.limit is None else min(self._call.limit - self._delivered, default)

    def _count_commits(self, block: bytes) -> None:
        """Count the commits that end in a block of lines, and move the cursor to the last of them."""
        for line in block.splitlines():
            if _is_mark(line, _END_MARK):
                self._delivered += 1
                self.cursor = json.loads(line)["commit"]

    def _wait_out(self, error: OmnigraphError) -> None:
        """Pause before the next try of a follower; raise the error if it is not temporary or lasts too long.

        Raises:
            BranchGoneError: The branch was deleted in the meantime.
        """
        if not self._call.follow:
            raise error
        if isinstance(error, BranchMissingError):
            raise BranchGoneError(self._branch) from error
        if error.kind is not Kind.UNAVAILABLE:
            raise error
        self._outage.wait(error)


def _is_mark(line: bytes, mark: bytes) -> bool:
    """Return whether a line begins or ends a commit, depending on `mark`."""
    # The mark is looked for only directly after the commit id: the values of a row may contain the same bytes.
    position = line.find(b'"', _HEAD_BYTES)
    return line[position : position + len(mark)] == mark
