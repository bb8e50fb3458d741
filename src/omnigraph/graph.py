"""The public face: a graph, each method one call into `ops`."""

import os
from collections.abc import Mapping
from datetime import datetime

from omnigraph.commit.records import Commit, Snapshot
from omnigraph.faults import faults_from
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.history import list_commits, show_commit
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.runtime import Runtime


class Graph:
    """An open graph. Cheap to keep, safe from several threads; it sees other processes' commits by one probe."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __repr__(self) -> str:
        return f"Graph({self._session.uri!r})"

    @property
    def uri(self) -> str:
        """The graph's address."""
        return self._session.uri

    @property
    def schema(self) -> str:
        """The accepted schema's text."""
        return self.snapshot().manifest.schema.source

    def snapshot(self, *, snapshot: str | None = None, at: datetime | None = None) -> Snapshot:
        """The newest state, or that of a commit id or an instant."""
        return self._session.snapshot(commit_id=snapshot, at=at)

    def commits(self, *, filters: Mapping[str, str] | None = None, limit: int | None = None) -> list[Commit]:
        """The history, newest first."""
        return list_commits(self._session, filters=filters, limit=limit)

    def commit(self, commit_id: str) -> Commit:
        """One commit of the history."""
        return show_commit(self._session, commit_id)


def create_graph(uri: str, schema: str, *, actor: str = "anonymous", runtime: Runtime | None = None) -> Graph:
    """Make a new, empty graph; SourceError when the schema is wrong, PlaceTakenError when something is there."""
    return Graph(create(uri, Source(schema, "schema.pg"), actor=actor, runtime=runtime or default_runtime()))


def open_graph(uri: str, *, read_only: bool = False, runtime: Runtime | None = None) -> Graph:
    """Open a graph that exists."""
    return Graph(open_session(uri, is_read_only=read_only, runtime=runtime or default_runtime()))


def default_runtime(options: Options | None = None) -> Runtime:
    """The machine's clock and randomness; faults only where a test's environment arms them."""
    return Runtime(faults=faults_from(os.environ), options=options or Options())
