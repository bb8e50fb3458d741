"""Writes to a graph on a server. Commits are signed by the owner of the token."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, BinaryIO, cast

from omnigraph.engine.bulk.load_batch import LoadMode, OnDuplicate
from omnigraph.errors import BadArgumentError, FileUnreadableError, OmnigraphError
from omnigraph.json_struct import decode_struct
from omnigraph.lang.source import Source
from omnigraph.ops.argument_checks import parse_choice
from omnigraph.ops.load_arguments import GraphData, build_load_input
from omnigraph.ops.load_call import LoadResult
from omnigraph.ops.load_inputs import GraphLines, expand_inputs
from omnigraph.ops.merge_result import MergeConflictsError, MergeResult, Strategy
from omnigraph.ops.mutate import MutationResult
from omnigraph.ops.reset import ResetResult
from omnigraph.ops.schema_apply import SchemaResult
from omnigraph.ops.session import ANONYMOUS
from omnigraph.schema.catalog import build_catalog
from omnigraph.schema.migration_steps import MigrationPlan
from omnigraph.server.client import responses
from omnigraph.server.client.errors import relocate_error
from omnigraph.server.client.http_transport import CHUNK_BYTES, quote_path
from omnigraph.server.client.requests import GraphCalls, check_actor, encode_params, get_text
from omnigraph.storage.s3_input_files import InputFile


class RemoteWrites:
    """The writes to a graph on a server. Each call is one request, and makes one commit or none."""

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
        dry_run: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> MutationResult:
        """Run a mutation atomically, in one commit; see `Graph.mutate`."""
        check_actor(actor)
        body = {
            "query": get_text(source),
            "name": name,
            **encode_params(params),
            "branch": branch,
            "message": message,
            "idempotency_key": idempotency_key,
            "if_commit": if_commit,
            "dry_run": dry_run,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        return decode_struct(MutationResult, self._calls.post("mutate", body, source))

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
        """Run a stored mutation atomically, in one commit."""
        body = {
            **encode_params(params),
            "branch": branch,
            "message": message,
            "idempotency_key": idempotency_key,
            "if_commit": if_commit,
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        return decode_struct(MutationResult, self._calls.post(f"queries{quote_path(name)}", body))

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
        on_duplicate: OnDuplicate | str = OnDuplicate.ERROR,
        dry_run: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
        **more: object,
    ) -> LoadResult:
        """Load graph JSONL atomically, in one commit; see `Graph.load`.

        The other arguments of `Graph.load` (rows by type, a directory for bad records, another engine) are rejected.
        The server's settings limit the size of a load.
        """
        check_actor(actor)
        # Defaults of `Graph.load` that a caller spells out are fine; the server reports no progress.
        for name, value in more.items():
            if name != "progress" and value and value not in ("auto", "local"):
                raise BadArgumentError(name, "given", "a server loads graph JSONL only; leave it out")
        if data is None:
            raise BadArgumentError("data", "left out", "pass the graph JSONL to load")
        # The body is the data itself, so the options are query parameters; None leaves one out.
        query = {
            "mode": mode.value if isinstance(mode, LoadMode) else mode,
            "branch": branch,
            "from": from_,
            "if_exists": "true" if if_exists else None,
            "message": message,
            "idempotency_key": idempotency_key,
            "on_duplicate": parse_choice("on_duplicate", OnDuplicate, on_duplicate).value,
            "dry_run": "true" if dry_run else None,
            "seconds": None if seconds is None else repr(float(seconds)),
            "memory_bytes": None if memory_bytes is None else str(memory_bytes),
        }
        if isinstance(data, bytes):
            return decode_struct(LoadResult, self._calls.post("load", data, query=query))
        # Several inputs are sent as one body: errors name a line of it, which is translated back to file and line.
        lines = _LoadLines(data)
        try:
            return decode_struct(LoadResult, self._calls.post("load", lines.iter_chunks(), query=query))
        except OmnigraphError as error:
            raise relocate_error(error, lines.locate) from None

    def merge(  # noqa: PLR0913 - all but the first by name
        self,
        source: str,
        *,
        into: str = "main",
        strategy: Strategy | str | None = None,
        actor: str = ANONYMOUS,
        message: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        resolutions: Iterable[Mapping[str, Any]] | None = None,
        all_conflicts: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> MergeResult:
        """Merge the changes of one branch into another; see `Graph.merge`."""
        check_actor(actor)
        body = {
            "source": source,
            "into": into,
            "strategy": _get_name(strategy),
            "message": message,
            "idempotency_key": idempotency_key,
            "dry_run": dry_run,
            **_build_resolving(resolutions, all_conflicts=all_conflicts),
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        return self._post_merge("merge", body)

    def revert(  # noqa: PLR0913 - all but the first by name
        self,
        commit: str,
        *,
        branch: str = "main",
        strategy: Strategy | str | None = None,
        actor: str = ANONYMOUS,
        message: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        resolutions: Iterable[Mapping[str, Any]] | None = None,
        all_conflicts: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> MergeResult:
        """Undo the changes of one commit in a new one; see `Graph.revert`."""
        check_actor(actor)
        limits: dict[str, object] = {"seconds": seconds, "memory_bytes": memory_bytes}
        limits["idempotency_key"] = idempotency_key
        limits |= _build_resolving(resolutions, all_conflicts=all_conflicts)
        return self._post_merge("revert", {**_build_undo(commit, branch, strategy, message, dry_run), **limits})

    def cherry_pick(  # noqa: PLR0913 - all but the first by name
        self,
        commit: str,
        *,
        branch: str = "main",
        strategy: Strategy | str | None = None,
        actor: str = ANONYMOUS,
        message: str | None = None,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        resolutions: Iterable[Mapping[str, Any]] | None = None,
        all_conflicts: bool = False,
        seconds: float | None = None,
        memory_bytes: int | None = None,
    ) -> MergeResult:
        """Apply the changes of one commit to a branch; see `Graph.cherry_pick`."""
        check_actor(actor)
        limits: dict[str, object] = {"seconds": seconds, "memory_bytes": memory_bytes}
        limits["idempotency_key"] = idempotency_key
        limits |= _build_resolving(resolutions, all_conflicts=all_conflicts)
        return self._post_merge("cherry-pick", {**_build_undo(commit, branch, strategy, message, dry_run), **limits})

    def reset(
        self, branch: str, *, to: str, actor: str = ANONYMOUS, message: str | None = None, dry_run: bool = False
    ) -> ResetResult:
        """Give a branch the rows and the schema of another state; see `Graph.reset`."""
        check_actor(actor)
        body = {"to": to, "branch": branch, "message": message, "dry_run": dry_run}
        return decode_struct(ResetResult, self._calls.post("reset", body))

    def _post_merge(self, route: str, body: Mapping[str, object]) -> MergeResult:
        try:
            return decode_struct(MergeResult, self._calls.post(route, body))
        except MergeConflictsError as error:
            # Raise it with a decoded result, as an embedded graph does; the error of the transport has only its JSON.
            document = cast("Mapping[str, Any]", error.facts()["merge"])
            raise MergeConflictsError(decode_struct(MergeResult, document)) from None

    def plan_schema(
        self, schema: str | Source, *, branch: str = "main", allow_data_loss: bool = False
    ) -> MigrationPlan:
        """Plan the migration from a branch's schema to another one; see `Graph.plan_schema`."""
        body = {"schema": get_text(schema), "branch": branch, "allow_data_loss": allow_data_loss}
        return responses.decode_plan(self._calls.post("schema/plan", body, schema))

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
        """Apply a schema to a branch; see `Graph.apply_schema`."""
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
        return responses.decode_schema_result(self._calls.post("schema/apply", body, schema))


def _get_name(strategy: Strategy | str | None) -> str | None:
    return strategy.value if isinstance(strategy, Strategy) else strategy


def _build_resolving(resolutions: Iterable[Mapping[str, Any]] | None, *, all_conflicts: bool) -> dict[str, object]:
    documents = None if resolutions is None else [dict(document) for document in resolutions]
    return {"resolutions": documents, "all_conflicts": all_conflicts}


def _build_undo(
    commit: str, branch: str, strategy: Strategy | str | None, message: str | None, is_dry_run: bool
) -> dict[str, object]:
    return {
        "commit": commit,
        "branch": branch,
        "strategy": _get_name(strategy),
        "message": message,
        "dry_run": is_dry_run,
    }


class _LoadLines:
    """The concatenated lines of files, streams or records, and from which of these each line came."""

    def __init__(self, data: GraphData) -> None:
        """Resolve the inputs, so that a missing file is reported before anything is sent.

        Raises:
            FileMissingError: There is no such file.
        """
        inputs = expand_inputs(build_load_input(data, None, None, None), build_catalog())
        self._inputs = [item.source for item in inputs if isinstance(item.source, GraphLines)]
        self._starts: list[tuple[int, str]] = []
        self._lines_sent = 0

    def iter_chunks(self) -> Iterator[bytes]:
        """Yield all lines in chunks of bytes."""
        for source in self._inputs:
            self._starts.append((self._lines_sent, source.name))
            with ExitStack() as stack:
                data = source.data
                stream = stack.enter_context(open_file(data)) if isinstance(data, InputFile) else data
                yield from map(self._count_lines, _iter_chunks(stream))
            # The last line of an input may have no line feed, and must not run into the next input.
            yield self._count_lines(b"\n")

    def locate(self, line: int) -> tuple[str, int]:
        """Return the name and line of the input that was sent as this line of the body."""
        first_line, name = max(start for start in self._starts if start[0] < line)
        return name, line - first_line

    def _count_lines(self, chunk: bytes) -> bytes:
        self._lines_sent += chunk.count(b"\n")
        return chunk


def _iter_chunks(data: Iterable[bytes]) -> Iterable[bytes]:
    """Yield a file or stream in chunks of `CHUNK_BYTES`; anything else unchanged."""
    read = getattr(data, "read", None)
    return data if read is None else iter(partial(read, CHUNK_BYTES), b"")


def open_file(path: InputFile) -> BinaryIO:
    """Open a local file, or an object of a bucket, for reading.

    Raises:
        FileUnreadableError: It can't be read.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise FileUnreadableError(str(path), error.strerror or str(error)) from error
