"""The public face: a graph, each method one call into `ops`."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import BinaryIO

from omnigraph.commit.records import Commit, Snapshot
from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.export import Exported, ExportFormat, export_graph
from omnigraph.ops.history import list_commits, show_commit
from omnigraph.ops.mutate import MutationCall, MutationResult, mutate
from omnigraph.ops.open import open_session
from omnigraph.ops.operations import Operations, list_operations
from omnigraph.ops.session import Session
from omnigraph.ops.table import pinned_table
from omnigraph.runtime import Runtime
from omnigraph.storage.handles import PinnedDataset


class Graph:
    """An open graph. Cheap to keep, safe from several threads; it sees other processes' commits by one probe.

    Made by `omnigraph.create_graph` and `omnigraph.open_graph`.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    @classmethod
    def create(cls, uri: str, schema: Source, *, actor: str, runtime: Runtime) -> "Graph":
        """A new, empty graph, with every setting handed in."""
        return cls(create(uri, schema, actor=actor, runtime=runtime))

    @classmethod
    def open(cls, uri: str, *, is_read_only: bool, runtime: Runtime) -> "Graph":
        """A graph that exists, with every setting handed in."""
        return cls(open_session(uri, is_read_only=is_read_only, runtime=runtime))

    def __repr__(self) -> str:
        return f"Graph({self._session.uri!r})"

    @property
    def uri(self) -> str:
        """The graph's address: an absolute path, or `s3://bucket/prefix`."""
        return self._session.uri

    @property
    def schema(self) -> str:
        """The text of the schema that is accepted now."""
        return self.snapshot().manifest.schema.source

    def snapshot(self, *, snapshot: str | None = None, at: datetime | None = None) -> Snapshot:
        """The newest state, or that of a commit's id, or that of an instant (which needs a time zone).

        Raises:
            CommitMissingError: The history has no such commit, or nothing that early.
        """
        return self._session.snapshot(commit_id=snapshot, at=at)

    def table(self, type_name: str, *, snapshot: str | None = None, at: datetime | None = None) -> PinnedDataset:
        """The Lance dataset of a type, at the version that a snapshot shows: for other tools, to read.

        The handle is the caller's own. Writing through it does not change the graph; Lance's own cleanup of a graph's
        tables destroys it, because Lance does not know which versions are pinned.

        Raises:
            TypeMissingError: The schema of that snapshot has no such type.
        """
        return pinned_table(self._session, self.snapshot(snapshot=snapshot, at=at), type_name)

    def commits(self, *, filters: Mapping[str, str] | None = None, limit: int | None = None) -> list[Commit]:
        """The history, newest first; filters are `actor`, `operation`, `since` and `until`.

        Raises:
            BadFilterError: There is no such filter, or its value can't be read.
        """
        return list_commits(self._session, filters=filters, limit=limit)

    def commit(self, commit_id: str) -> Commit:
        """One commit of the history.

        Raises:
            CommitMissingError: The history has no such commit.
        """
        return show_commit(self._session, commit_id)

    def mutate(
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        actor: str = "anonymous",
        message: str | None = None,
        idempotency_key: str | None = None,
        if_commit: str | None = None,
    ) -> MutationResult:
        """Run the mutation of that name, or the only one of the text: all of it in one commit, or nothing.

        With an `idempotency_key` that a commit already has, nothing is done and the answer is what it was then.
        With `if_commit`, nothing is done unless that commit is still the newest.

        Raises:
            SourceError: The text has mistakes.
            QueryMissingError, QueryAmbiguousError, NotAMutationError: It is not clear, or not right, what to run.
            ParameterError: The parameters don't fit.
            ConstraintError: The result would break the schema; it says how, up to 20 times.
            ConflictError: Somebody else changed what this relied on: read again and retry.
        """
        text = source if isinstance(source, Source) else Source(source, "query.gq")
        call = MutationCall(
            source=text,
            name=name,
            params=params or {},
            actor=actor,
            message=message,
            idempotency_key=idempotency_key,
            if_commit=if_commit,
        )
        return mutate(self._session, call)

    def export(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        format: ExportFormat | str = ExportFormat.JSONL,
        types: Sequence[str] | None = None,
        snapshot: str | None = None,
        at: datetime | None = None,
    ) -> Exported:
        """Write the graph's rows, of the newest state, a commit's id or an instant; `load` takes what this writes.

        Graph JSONL goes to a file or a binary writer: node types then edge types in declared order, rows by id.
        Parquet goes to a directory, one file for each type. `types` are the only ones to write.

        Raises:
            TypeMissingError: The schema of that snapshot has no such type.
            CommitMissingError: The history has no such commit, or nothing that early.
            ExportTargetError: The target can't be written.
        """
        state = self.snapshot(snapshot=snapshot, at=at)
        return export_graph(self._session, state, target, format=ExportFormat(format), types=types)

    def operations(self) -> Operations:
        """Operations that are at work, or died and wait for recovery. They block nobody."""
        return list_operations(self._session)
