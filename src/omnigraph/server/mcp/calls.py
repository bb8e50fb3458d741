"""The calls of the MCP tools, each a few lines over the same service, policy and limits as the HTTP routes."""

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from starlette.requests import Request

from omnigraph.commit.branch_errors import OutcomeUnknownError
from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.engine.result_files import build_json_objects
from omnigraph.errors import OmnigraphError
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.ops.merge_result import MergeConflictsError, MergeResult, format_conflict_count
from omnigraph.ops.mutate import MutationResult
from omnigraph.ops.revision import show_state
from omnigraph.policy import Action, Actor
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.server.http.request_arguments import check_text, parse_branch, parse_optional_instant
from omnigraph.server.http.request_bodies import encode_json
from omnigraph.server.http.responses import limit_time
from omnigraph.server.http_errors import BadRequestError, RequestLimitError
from omnigraph.server.mcp.arguments import (
    BranchesArguments,
    CommitsArguments,
    CreateBranchArguments,
    CypherArguments,
    DeleteBranchArguments,
    DiffArguments,
    ExplainArguments,
    MergeArguments,
    MutateArguments,
    QueryArguments,
    ReadControls,
    SchemaArguments,
    WriteControls,
)
from omnigraph.server.mcp.guide import write_guide
from omnigraph.server.mcp.schemas import is_as_declared
from omnigraph.server.service import Exchange, Service, get_exchange

# Results are cut at this size: an agent pays for what it reads, a program does not (decision 32).
MAX_RESPONSE_BYTES = 64 * 1024
# The name of the query's text in diagnostics.
SOURCE_NAME = "query.gq"

# A token of common models is about four bytes of JSON or English text.
_BYTES_PER_TOKEN = 4

T = TypeVar("T")


def estimate_tokens(text: str | bytes) -> int:
    """Return about how many tokens a model reads in a text."""
    size = len(text.encode()) if isinstance(text, str) else len(text)
    return -(-size // _BYTES_PER_TOKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a tool call: an object for programs, and the same as text for models."""

    value: dict[str, Any]
    text: str
    is_error: bool = False

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> "ToolResult":
        """Build a result whose text is the JSON of the object."""
        return cls(value=value, text=encode_json(value).decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One request of an agent, over HTTP or stdio: its actor, and the graph it is about."""

    service: Service
    request: Request
    graph_id: str

    @property
    def exchange(self) -> Exchange:
        """The log and policy context of the request."""
        return get_exchange(self.request)

    @property
    def actor(self) -> Actor:
        """The actor that sent the request."""
        return self.exchange.actor

    def find_graph(self, action: Action, branch: str | None, *, read: str | None = None) -> ServedGraph:
        """Return the graph, and note action and branch for the log.

        Raises:
            ResourceMissingError: The graph does not exist, or the caller may not see it.
            DeniedError: The policy does not allow the action.
        """
        return self.service.find_graph(self.request, self.graph_id, action, branch, read=read)

    def bind_graph(
        self, action: Action, branch: str | None, *, read: str | None = None, through: str | None = None
    ) -> Graph:
        """Return the graph bound to the caller; each operation checks on its own what the caller may do."""
        hosted = self.find_graph(action, branch, read=read)
        return hosted.bind_actor(self.actor, through=through, next_commit=self.exchange.next_commit)

    async def run(self, work: Callable[[], T]) -> T:
        """Run short work in a thread."""
        return await self.service.run(self.request, work)

    async def write(self, work: Callable[[], T]) -> T:
        """Run a write in a thread. Once begun it is finished, even if the client disconnects."""
        return await self.service.write(self.request, work)

    async def read(
        self, work: Callable[[Budget], T], seconds: float | None = None, memory_bytes: int | None = None
    ) -> T:
        """Run a read in a thread, within a budget that is cancelled when the client disconnects."""
        budget = self.service.build_read_budget(seconds, memory_bytes)
        try:
            return await self.service.read(self.request, budget, partial(work, budget))
        finally:
            # If this task is cancelled, the thread still runs: the cancelled budget stops it.
            budget.cancel()


# --- reads -----------------------------------------------------------------------------------------------


async def query(caller: Caller, arguments: QueryArguments) -> ToolResult:
    """Run a read query and return a page of its rows."""
    graph = caller.bind_graph(Action.READ, arguments.branch)
    controls = ReadControls(
        branch=arguments.branch,
        snapshot=arguments.snapshot,
        at=arguments.at,
        limit=arguments.limit,
        offset=arguments.offset,
        seconds=arguments.seconds,
        memory_bytes=arguments.memory_bytes,
    )
    return await run_query(
        caller, graph, Source(arguments.query, SOURCE_NAME), arguments.name, arguments.params, controls
    )


async def cypher(caller: Caller, arguments: CypherArguments) -> ToolResult:
    """Run a statement of Cypher and return a page of its rows."""
    graph = caller.bind_graph(Action.READ, arguments.branch)

    def run(budget: Budget) -> ToolResult:
        result = graph.cypher(
            arguments.cypher,
            arguments.params,
            branch=arguments.branch,
            snapshot=arguments.snapshot,
            at=parse_optional_instant(arguments.at),
            budget=budget,
        )
        caller.exchange.commit = result.commit_id
        return _build_page(result, arguments.offset, arguments.limit)

    return await caller.read(run, arguments.seconds, arguments.memory_bytes)


async def run_query(
    caller: Caller,
    graph: Graph,
    source: Source,
    name: str | None,
    params: dict[str, Any],
    controls: ReadControls,
    *,
    declared: pa.Schema | None = None,
) -> ToolResult:
    """Run a read query and return a page of its rows, with the offset of the next page.

    `declared` are the columns of the tool's output schema; None if there is none.

    Raises:
        BadRequestError: The result has other columns than declared.
    """

    def run(budget: Budget) -> ToolResult:
        result = graph.query(
            source,
            name=name,
            params=params,
            branch=controls.branch,
            snapshot=controls.snapshot,
            at=parse_optional_instant(controls.at),
            budget=budget,
        )
        caller.exchange.commit = result.commit_id
        if declared is not None and not is_as_declared(result.schema, declared):
            raise BadRequestError.columns_differ(result.query_name)
        return _build_page(result, controls.offset, controls.limit)

    return await caller.read(run, controls.seconds, controls.memory_bytes)


def _build_page(result: Result, offset: int, limit: int) -> ToolResult:
    total = result.row_count
    columns = list(result.columns)
    rows = build_json_objects(result.schema, result.part(offset, offset + limit))
    # In the text for models, columns are named once, in the first line; further lines have only values.
    lines = [encode_json(columns).decode()]
    size = 0
    for row in rows:
        line = encode_json(list(row.values())).decode()
        size += len(line.encode())
        if size > MAX_RESPONSE_BYTES:
            break
        lines.append(line)
    row_count = len(lines) - 1
    # An empty page with a next offset would send the agent into an endless loop.
    if rows and not row_count:
        raise RequestLimitError.row_too_large(offset, MAX_RESPONSE_BYTES)
    end = offset + row_count
    next_offset = end if end < total else None
    tokens = estimate_tokens("\n".join(lines))
    note = f"{row_count} of {total} rows from offset {offset}, commit {result.commit_id}, about {tokens} tokens"
    if next_offset is not None:
        # With the snapshot, the next page is of the same commit, even if the branch has moved on.
        note += (
            f"; the result is cut: for more, repeat the call with offset={next_offset}"
            f' and snapshot="{result.commit_id}"; the rest is about {tokens * (total - end) // row_count} tokens'
        )
    value: dict[str, object] = {
        "commit_id": result.commit_id,
        "columns": columns,
        "rows": json.loads(encode_json(rows[:row_count])),
        "row_count": total,
        "offset": offset,
        "next_offset": next_offset,
        "estimated_tokens": tokens,
    }
    if result.notes:
        value["notes"] = list(result.notes)
    return ToolResult(value=value, text="\n".join([*lines, note, *result.notes]))


async def explain(caller: Caller, arguments: ExplainArguments) -> ToolResult:
    """Explain how a query is run, or with `analyze` run it and report each step."""
    graph = caller.bind_graph(Action.READ, arguments.branch)
    explained = await caller.read(
        lambda budget: graph.explain(
            Source(arguments.query, SOURCE_NAME),
            name=arguments.name,
            params=arguments.params,
            branch=arguments.branch,
            analyze=arguments.analyze,
            budget=budget,
        ),
        arguments.seconds,
        arguments.memory_bytes,
    )
    return ToolResult(
        value={"commit_id": explained.to_json()["commit_id"], "plan": explained.text}, text=explained.text
    )


async def read_schema(caller: Caller, arguments: SchemaArguments) -> ToolResult:
    """Return the schema of a branch."""
    graph = caller.bind_graph(Action.READ, arguments.branch)
    state = await caller.run(partial(graph.snapshot, branch=arguments.branch))
    text = state.manifest.schema.source
    return ToolResult(value={"branch": state.branch, "commit_id": state.commit.id, "schema": text}, text=text)


async def write_branch_guide(caller: Caller, branch: str) -> str:
    """Return the guide for the schema of a branch."""
    hosted = caller.find_graph(Action.READ, branch)
    session = hosted.bind_session(caller.actor)
    return await caller.run(lambda: write_guide(session.load_catalog(show_state(session, branch=branch))))


async def list_branches(caller: Caller, arguments: BranchesArguments) -> ToolResult:
    """List the branches, main first and the others by name."""
    graph = caller.bind_graph(Action.READ, None)
    branches = await caller.run(graph.branches.list)
    requested = branches[arguments.offset : arguments.offset + arguments.limit]
    page = truncate_items([branch.to_json() for branch in requested])
    end = arguments.offset + len(page)
    return ToolResult.from_value({"branches": page, "next_offset": end if end < len(branches) else None})


async def list_commits(caller: Caller, arguments: CommitsArguments) -> ToolResult:
    """List the commits of a branch, newest first."""
    graph = caller.bind_graph(Action.READ, arguments.branch)
    page = await caller.run(
        partial(graph.commit_page, branch=arguments.branch, limit=arguments.limit, before=arguments.before)
    )
    commits = page.to_json()["commits"]
    assert isinstance(commits, list)  # noqa: S101 - of objects
    included = truncate_items(commits)
    next_before = page.next if len(included) == len(commits) else str(included[-1]["id"])
    return ToolResult.from_value({"commits": included, "next_before": next_before})


def truncate_items(items: list[dict[str, Any]], limit: int = MAX_RESPONSE_BYTES) -> list[dict[str, Any]]:
    """Return the first items that fit into a result, and at least one, so that a next page begins later."""
    size = 0
    for position, item in enumerate(items):
        size += len(encode_json(item))
        if size > limit:
            return items[: max(1, position)]
    return items


async def diff(caller: Caller, arguments: DiffArguments) -> ToolResult:
    """Compare two states and return a page of the changes that turn the first into the second."""
    graph = caller.bind_graph(Action.READ, parse_branch(arguments.before))
    service = caller.service

    def compare(_: Budget) -> ToolResult:
        difference = graph.diff(arguments.before, arguments.after, types=arguments.types)
        # A diff takes no budget: its time is limited between the lines that it yields.
        timed_lines = limit_time(difference.json_lines(), service.runtime.clock, service.limits.seconds)
        # One line beyond the page shows whether there is a next page.
        lines = list(islice(timed_lines, arguments.offset, arguments.offset + arguments.limit + 1))
        count = len(take_lines(lines, arguments.limit))
        if lines and not count:
            raise RequestLimitError.row_too_large(arguments.offset, MAX_RESPONSE_BYTES)
        value = {
            "before": difference.before.commit.id,
            "after": difference.after.commit.id,
            "schema": None if difference.schema is None else difference.schema.to_json(),
            "changes": decode_lines(lines[:count]),
            "next_offset": arguments.offset + count if count < len(lines) else None,
        }
        return ToolResult.from_value(value)

    return await caller.read(compare)


def decode_lines(lines: Iterable[bytes]) -> list[Any]:
    """Return the changes that lines of a diff contain."""
    return [msgspec.json.decode(line) for line in lines]


def take_lines(lines: list[bytes], limit: int) -> list[bytes]:
    """Return the first lines, at most `limit`, that fit into a result."""
    size = 0
    for position, line in enumerate(lines[:limit]):
        size += len(line)
        if size > MAX_RESPONSE_BYTES:
            return lines[:position]
    return lines[:limit]


# --- writes ----------------------------------------------------------------------------------------------


async def mutate(caller: Caller, arguments: MutateArguments) -> ToolResult:
    """Run a mutation atomically, in one commit."""
    check_text(arguments.query, SOURCE_NAME, caller.service.limits)
    graph = caller.bind_graph(Action.CHANGE, arguments.branch)
    controls = WriteControls(
        branch=arguments.branch,
        message=arguments.message,
        idempotency_key=arguments.idempotency_key,
        if_commit=arguments.if_commit,
        seconds=arguments.seconds,
        memory_bytes=arguments.memory_bytes,
    )
    return await run_mutation(
        caller, graph, Source(arguments.query, SOURCE_NAME), arguments.name, arguments.params, controls
    )


async def run_mutation(
    caller: Caller, graph: Graph, source: Source, name: str | None, params: dict[str, Any], controls: WriteControls
) -> ToolResult:
    """Run a mutation and return its result; of one that is committed already, only that."""
    result = await _find_done(caller, source, name, controls.branch)
    if result is None:
        run = partial(
            graph.mutate,
            source,
            name=name,
            params=params,
            branch=controls.branch,
            message=controls.message,
            idempotency_key=controls.idempotency_key,
            if_commit=controls.if_commit,
            budget=caller.service.build_write_budget(controls.seconds, controls.memory_bytes),
        )
        result = await caller.service.mutate(caller.request, run)
    caller.service.record_commit(caller.request, "mutate", result.commit_id)
    return ToolResult.from_value(result.to_json())


async def _find_done(caller: Caller, source: Source, name: str | None, branch: str) -> MutationResult | None:
    """Return the result of a mutation whose worker died after its commit; None if it is still to be run.

    Raises:
        OutcomeUnknownError: The commit was found before, and can't be read now.
    """
    commit_id = caller.exchange.done_commit
    if commit_id is None:
        return None
    hosted = caller.service.registry.graphs[caller.graph_id]
    done = None
    with suppress(OmnigraphError):
        done = await caller.run(partial(hosted.find_mutation, source, name, branch=branch, commit_id=commit_id))
    # It must not be run a second time.
    if done is None:
        raise OutcomeUnknownError(commit_id, "its commit can't be read now", branch)
    return done


async def create_branch(caller: Caller, arguments: CreateBranchArguments) -> ToolResult:
    """Create a branch from the newest state of another."""
    graph = caller.bind_graph(Action.BRANCH_CREATE, arguments.name, read=arguments.from_)
    branch = await caller.write(partial(graph.branches.create, arguments.name, from_=arguments.from_))
    return ToolResult.from_value(branch.to_json())


async def delete_branch(caller: Caller, arguments: DeleteBranchArguments) -> ToolResult:
    """Delete a branch, with its commits."""
    graph = caller.bind_graph(Action.BRANCH_DELETE, arguments.name)
    branch = await caller.write(partial(graph.branches.delete, arguments.name))
    return ToolResult.from_value(branch.to_json())


async def merge(caller: Caller, arguments: MergeArguments) -> ToolResult:
    """Merge the changes of one branch into another; with conflicts, nothing is merged and they are returned."""
    graph = caller.bind_graph(Action.BRANCH_MERGE, arguments.into, read=arguments.source)
    call = partial(
        graph.merge,
        arguments.source,
        into=arguments.into,
        strategy=arguments.strategy,
        message=arguments.message,
        dry_run=arguments.dry_run,
        budget=caller.service.build_write_budget(arguments.seconds, arguments.memory_bytes),
    )
    try:
        result = await caller.write(call)
    except MergeConflictsError as error:
        way_out = f"Resolve this on `{error.result.source}`, or choose with `strategy` whose values win"
        return report_conflicts(caller, error.result, way_out)
    caller.service.record_commit(caller.request, "merge", result.commit_id)
    return ToolResult.from_value(result.to_json())


def report_conflicts(caller: Caller, result: MergeResult, way_out: str) -> ToolResult:
    """Return the conflicts of a merge as the error of a tool, with what to do about them."""
    exchange = caller.exchange
    exchange.code = "merge_conflicts"
    caller.service.metrics.count("omnigraph_conflicts_total", graph=caller.graph_id)
    message = f"{format_conflict_count(result)}. {way_out}"
    value = {
        "error": message,
        "code": exchange.code,
        "kind": "conflict",
        "request_id": exchange.id,
        "merge": result.to_json(),
    }
    conflicts = encode_json([conflict.to_json() for conflict in result.conflicts]).decode()
    return ToolResult(value=value, text=f"{exchange.code}: {message}\n{conflicts}", is_error=True)
