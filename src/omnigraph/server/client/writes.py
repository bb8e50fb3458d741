"""Writes to a graph behind a server. Who signs is the owner of the token."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, BinaryIO, cast

from omnigraph.engine.bulk.load_batch import LoadMode
from omnigraph.errors import (
    FileUnreadableError,
    OmnigraphError,
)
from omnigraph.lang.source import Source
from omnigraph.ops.argument_checks import BadArgumentError
from omnigraph.ops.load_arguments import GraphData, build_load_input
from omnigraph.ops.load_call import LoadResult
from omnigraph.ops.load_inputs import GraphLines, expand_inputs
from omnigraph.ops.merge_result import MergeConflictsError, MergeResult, Strategy
from omnigraph.ops.mutate import MutationResult
from omnigraph.ops.schema_apply import SchemaResult
from omnigraph.ops.session import ANONYMOUS
from omnigraph.schema.catalog import build_catalog
from omnigraph.schema.migration_steps import MigrationPlan
from omnigraph.server.client import responses as answers
from omnigraph.server.client.errors import relocate_error
from omnigraph.server.client.http_transport import CHUNK_BYTES, quote_path
from omnigraph.server.client.requests import GraphCalls, check_actor, encode_params, get_text
from omnigraph.storage.s3_input_files import InputFile


class RemoteWrites:
    """What is written to a graph behind a server, each call one request: one commit, or nothing."""

    _calls: GraphCalls

    def mutate(  # noqa: PLR0913 - all but the text by name
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
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> MutationResult:
        """Run a mutation, in one commit or not at all; see `Graph.mutate`."""
        check_actor(actor)
        body = {
            "query": get_text(source),
            "name": name,
            **encode_params(params),
            "branch": branch,
            "message": message,
            "idempotency_key": idempotency_key,
            "if_commit": if_commit,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        return answers.decode_mutation(self._calls.post("mutate", body, source))

    def invoke_mutation(
        self,
        name: str,
        *,
        params: Mapping[str, object] | None = None,
        branch: str = "main",
        message: str | None = None,
        idempotency_key: str | None = None,
        if_commit: str | None = None,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> MutationResult:
        """Run a stored query that writes, in one commit or not at all."""
        body = {
            **encode_params(params),
            "branch": branch,
            "message": message,
            "idempotency_key": idempotency_key,
            "if_commit": if_commit,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        return answers.decode_mutation(self._calls.post(f"queries{quote_path(name)}", body))

    def load(  # noqa: PLR0913 - all but the data by name
        self,
        data: GraphData | bytes | None = None,
        *,
        mode: LoadMode | str,
        branch: str = "main",
        from_: str | None = None,
        if_exists: bool = False,
        actor: str = ANONYMOUS,
        message: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
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
            "if_exists": "true" if if_exists else None,
            "message": message,
            "idempotency_key": idempotency_key,
            "dry_run": "true" if dry_run else None,
            "seconds": None if seconds is None else repr(float(seconds)),
            "memory_bytes": None if memory_bytes is None else str(memory_bytes),
        }
        if isinstance(data, bytes):
            return answers.decode_load(self._calls.post("load", data, query=query))
        lines = _LoadLines(data)
        try:
            return answers.decode_load(self._calls.post("load", lines.iter_chunks(), query=query))
        except OmnigraphError as error:
            raise relocate_error(error, lines.locate) from None

    def merge(
        self,
        source: str,
        *,
        into: str = "main",
        strategy: Strategy | str | None = None,
        actor: str = ANONYMOUS,
        message: str | None = None,
        dry_run: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> MergeResult:
        """Bring to a branch what another one has done; see `Graph.merge`."""
        check_actor(actor)
        named = strategy.value if isinstance(strategy, Strategy) else strategy
        body = {
            "source": source,
            "into": into,
            "strategy": named,
            "message": message,
            "dry_run": dry_run,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        try:
            return answers.decode_merge(self._calls.post("merge", body))
        except MergeConflictsError as error:
            said = cast("Mapping[str, Any]", error.facts()["merge"])
            raise MergeConflictsError(answers.decode_merge(said)) from None

    def plan_schema(
        self, schema: str | Source, *, branch: str = "main", allow_data_loss: bool = False
    ) -> MigrationPlan:
        """What it takes to get from a branch's schema to another one; see `Graph.plan_schema`."""
        body = {"schema": get_text(schema), "branch": branch, "allow_data_loss": allow_data_loss}
        return answers.decode_plan(self._calls.post("schema/plan", body, schema))

    def apply_schema(
        self,
        schema: str | Source,
        *,
        branch: str = "main",
        actor: str = ANONYMOUS,
        message: str | None = None,
        allow_drops: bool = False,
        allow_data_loss: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> SchemaResult:
        """Make a schema the accepted one of a branch; see `Graph.apply_schema`."""
        check_actor(actor)
        body = {
            "schema": get_text(schema),
            "branch": branch,
            "message": message,
            "allow_drops": allow_drops,
            "allow_data_loss": allow_data_loss,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        return answers.decode_schema_result(self._calls.post("schema/apply", body, schema))


class _LoadLines:
    """The lines of files, streams or records, one behind the other, and which of them is whose."""

    def __init__(self, data: GraphData) -> None:
        """FileMissingError and the like, before anything is sent."""
        found = expand_inputs(build_load_input(data, None, None, None), build_catalog())
        self._inputs = [one.source for one in found if isinstance(one.source, GraphLines)]
        self._begins: list[tuple[int, str]] = []
        self._sent = 0

    def iter_chunks(self) -> Iterator[bytes]:
        """All of it, some at a time."""
        for one in self._inputs:
            self._begins.append((self._sent, one.name))
            with ExitStack() as stack:
                found = stack.enter_context(open_file(one.data)) if isinstance(one.data, InputFile) else one.data
                yield from map(self._count_lines, _iter_chunks(found))
            yield self._count_lines(b"\n")

    def locate(self, line: int) -> tuple[str, int]:
        """The name and line of what was sent as that line."""
        begin, name = max(one for one in self._begins if one[0] < line)
        return name, line - begin

    def _count_lines(self, piece: bytes) -> bytes:
        self._sent += piece.count(b"\n")
        return piece


def _iter_chunks(data: Iterable[bytes]) -> Iterable[bytes]:
    """Of a file or stream, parts of a good size; anything else as it comes."""
    read = getattr(data, "read", None)
    return data if read is None else iter(partial(read, CHUNK_BYTES), b"")


def open_file(path: InputFile) -> BinaryIO:
    """A file, or an object of a bucket; FileUnreadableError when a file can't be read."""
    try:
        return path.open("rb")
    except OSError as error:
        raise FileUnreadableError(str(path), error.strerror or str(error)) from error
