"""Writes to a graph behind a server. Who signs is the owner of the token."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import BinaryIO

from omnigraph.engine.bulk.incoming import LoadMode
from omnigraph.errors import FileMissingError, FileUnreadableError, NotAFileError, OmnigraphError
from omnigraph.lang.source import Source
from omnigraph.ops.arguments import BadArgumentError
from omnigraph.ops.load_arguments import GraphData, load_input
from omnigraph.ops.load_call import LoadResult
from omnigraph.ops.merge_result import MergeResult, Strategy
from omnigraph.ops.mutate import MutationResult
from omnigraph.ops.session import ANONYMOUS
from omnigraph.server import client_answers as answers
from omnigraph.server.client_answers import RemoteDocument
from omnigraph.server.client_calls import GraphCalls, check_actor, given, text_of
from omnigraph.server.client_http import PIECE_BYTES


class RemoteWrites:
    """What is written to a graph behind a server, each call one request: one commit, or nothing."""

    _calls: GraphCalls

    def mutate(
        self,
        source: str | Source,
        *,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        actor: str = ANONYMOUS,
        message: str | None = None,
        idempotency_key: str | None = None,
        if_commit: str | None = None,
    ) -> MutationResult:
        """Run a mutation, in one commit or not at all; see `Graph.mutate`."""
        check_actor(actor)
        body = {
            "query": text_of(source),
            "name": name,
            **given(params),
            "branch": branch,
            "message": message,
            "idempotency_key": idempotency_key,
            "if_commit": if_commit,
        }
        return answers.mutation(self._calls.post("mutate", body, source))

    def load(
        self,
        data: GraphData | bytes | None = None,
        *,
        mode: LoadMode | str,
        branch: str = "main",
        from_: str | None = None,
        actor: str = ANONYMOUS,
        message: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        **more: object,
    ) -> LoadResult:
        """Load graph JSONL, in one commit or not at all; see `Graph.load`.

        What else `Graph.load` takes (rows by type, a directory for bad records, another engine) is refused: a server
        takes graph JSONL, and as much of it at once as its settings say.
        """
        check_actor(actor)
        for name, value in more.items():
            if name != "progress" and value and value not in ("auto", "local"):
                raise BadArgumentError(name, "given", "a server takes graph JSONL, whole and by itself")
        if data is None:
            raise BadArgumentError("data", "left out", "name graph JSONL to load")
        query = {
            "mode": mode.value if isinstance(mode, LoadMode) else mode,
            "branch": branch,
            "from": from_,
            "message": message,
            "idempotency_key": idempotency_key,
            "dry_run": "true" if dry_run else None,
        }
        body = data if isinstance(data, bytes) else _pieces(data)
        return answers.loaded(self._calls.post("load", body, query=query))

    def merge(
        self,
        source: str,
        *,
        into: str = "main",
        strategy: Strategy | str | None = None,
        actor: str = ANONYMOUS,
        message: str | None = None,
        dry_run: bool = False,
    ) -> MergeResult:
        """Bring to a branch what another one has done; see `Graph.merge`. With conflicts, the result lists them."""
        check_actor(actor)
        named = strategy.value if isinstance(strategy, Strategy) else strategy
        body = {"source": source, "into": into, "strategy": named, "message": message, "dry_run": dry_run}
        try:
            return answers.merged(self._calls.post("merge", body))
        except OmnigraphError as error:
            said = getattr(error, "merge", None)  # of the 409 that tells of conflicts
            if said is None:
                raise
            return answers.merged(said)

    def plan_schema(
        self, schema: str | Source, *, branch: str = "main", allow_data_loss: bool = False
    ) -> RemoteDocument:
        """What it takes to get from a branch's schema to another one; see `Graph.plan_schema`."""
        body = {"schema": text_of(schema), "branch": branch, "allow_data_loss": allow_data_loss}
        return RemoteDocument(self._calls.post("schema/plan", body, schema))

    def apply_schema(
        self,
        schema: str | Source,
        *,
        branch: str = "main",
        actor: str = ANONYMOUS,
        message: str | None = None,
        allow_data_loss: bool = False,
    ) -> RemoteDocument:
        """Make a schema the accepted one of a branch; see `Graph.apply_schema`."""
        check_actor(actor)
        body = {"schema": text_of(schema), "branch": branch, "message": message, "allow_data_loss": allow_data_loss}
        return RemoteDocument(self._calls.post("schema/apply", body, schema))


def _pieces(data: GraphData) -> Iterator[bytes]:
    """The lines of files, streams or records, one behind the other."""
    for source in load_input(data, None, None, None).graph:
        with ExitStack() as stack:
            given_data = source.data
            if isinstance(given_data, str | os.PathLike):
                given_data = stack.enter_context(open_text(str(given_data)))
            if hasattr(given_data, "read"):
                yield from iter(partial(given_data.read, PIECE_BYTES), b"")
            else:
                yield from given_data
        yield b"\n"


def open_text(path: str) -> BinaryIO:
    """A file; FileMissingError and the like when it can't be read."""
    try:
        return Path(path).open("rb")
    except FileNotFoundError as error:
        raise FileMissingError(path) from error
    except IsADirectoryError as error:
        raise NotAFileError(path) from error
    except OSError as error:
        raise FileUnreadableError(path, error.strerror or str(error)) from error
