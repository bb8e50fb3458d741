"""Reads of a graph behind a server."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from omnigraph.commit.records import Commit
from omnigraph.engine.result import Result
from omnigraph.lang.source import Source
from omnigraph.ops.export import Exported, ExportFormat
from omnigraph.server import client_answers as answers
from omnigraph.server.client_answers import RemoteChange, RemoteDocument
from omnigraph.server.client_calls import GraphCalls, asked, given, time_text
from omnigraph.server.wire import NDJSON

_TYPE = re.compile(rb'^\{"(?:type|edge)":"([^"]*)"', re.MULTILINE)


class RemoteReads:
    """What is read of a graph behind a server, each call one request or a few pages."""

    _calls: GraphCalls

    @property
    def schema(self) -> str:
        """The text of the schema that is accepted now."""
        return str(self._calls.get("schema")["schema"])

    def query(
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> Result:
        """Run a query on one state of the graph; see `Graph.query`. All rows are fetched."""
        body = {**asked(source, name, params, branch, snapshot, at), "seconds": seconds, "memory_bytes": memory_bytes}
        return self._calls.rows("query", body=body, source=source)

    def invoke(
        self,
        name: str,
        *,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
    ) -> Result:
        """Run a stored query that reads."""
        body = {**given(params), "branch": branch, "snapshot": snapshot, "at": time_text(at)}
        return self._calls.rows("queries", name, body=body)

    def queries(self) -> list[RemoteDocument]:
        """The stored queries that the token's owner may run."""
        return [RemoteDocument(one) for one in self._calls.get("queries")["queries"]]

    def explain(  # noqa: PLR0913 - all but the text by name
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        analyze: bool = False,
    ) -> RemoteDocument:
        """How `query` would run, or with `analyze` did; see `Graph.explain`."""
        limits = {"seconds": seconds, "memory_bytes": memory_bytes}
        body = {**asked(source, name, params, branch, snapshot, at), **limits, "analyze": analyze}
        return RemoteDocument(self._calls.post("explain", body, source))

    def snapshot(
        self, *, branch: str = "main", snapshot: str | None = None, at: datetime | None = None
    ) -> RemoteDocument:
        """Which tables a state has, at which versions; see `Graph.snapshot`."""
        return RemoteDocument(self._calls.get("snapshot", branch=branch, snapshot=snapshot, at=time_text(at)))

    def commits(
        self, *, branch: str = "main", filters: Mapping[str, str] | None = None, limit: int | None = None
    ) -> list[Commit]:
        """The history of a branch, newest first; see `Graph.commits`."""
        given = [f"{name}={value}" for name, value in (filters or {}).items()]
        found: list[Commit] = []
        for page in self._calls.pages("commits", branch=branch, filter=given or None):
            found += map(answers.commit, page["commits"])
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]

    def commit(self, commit_id: str) -> Commit:
        """One commit, of any branch."""
        return answers.commit(self._calls.get("commits", commit_id))

    def diff(self, before: str, after: str, *, types: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """What differs between two states, each change a JSON object, fetched as it is asked for."""
        for page in self._calls.pages("diff", before=before, after=after, types=types):
            yield from page["changes"]

    def changes(
        self, *, branch: str = "main", since: str | None = None, types: Sequence[str] | None = None
    ) -> Iterator[RemoteChange]:
        """What the commits behind `since` changed, oldest first, up to the newest; see `Graph.changes`."""
        for page in self._calls.pages("changes", branch=branch, since=since, types=types):
            yield from map(RemoteChange, page["changes"])

    def export(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        types: Sequence[str] | None = None,
        branch: str = "main",
        snapshot: str | None = None,
        at: datetime | None = None,
    ) -> Exported:
        """Write the graph's rows as graph JSONL; see `Graph.export`. A file is there when all of it is."""
        body = {"types": types, "branch": branch, "snapshot": snapshot, "at": time_text(at)}
        counts: dict[str, int] = {}
        with ExitStack() as stack:
            response = stack.enter_context(self._calls.stream("export", body, accept=NDJSON))
            out, finish = _opened(target, stack)
            rest = b""
            for piece in self._calls.transport.pieces(response):
                out.write(piece)
                whole, sign, rest = (rest + piece).rpartition(b"\n")
                for name in _TYPE.findall(whole) if sign else ():
                    counts[name.decode()] = counts.get(name.decode(), 0) + 1
            finish()
            commit_id = response.headers["Omnigraph-Commit"]
        return Exported(commit_id=commit_id, format=ExportFormat.JSONL, rows=counts)


def _opened(target: str | os.PathLike[str] | BinaryIO, stack: ExitStack) -> tuple[BinaryIO, Any]:
    """What to write to, and what to do when all is written: a file gets its name then."""
    if not isinstance(target, str | os.PathLike):
        return target, lambda: None
    path = Path(target)
    unfinished = path.with_name(f".{path.name}.unfinished")
    out = stack.enter_context(unfinished.open("wb"))
    stack.callback(unfinished.unlink, missing_ok=True)

    def finish() -> None:
        out.close()
        unfinished.replace(path)

    return out, finish
