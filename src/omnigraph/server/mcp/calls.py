"""What an agent can do with a graph: each a short story over the same service, policy and limits as the routes."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from starlette.requests import Request

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.result import Result
from omnigraph.engine.result_files import build_json_objects
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from omnigraph.ops.merge_result import MergeConflictsError, MergeResult
from omnigraph.policy import Action, Actor
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.server.http.request_arguments import check_text, parse_branch, parse_optional_instant
from omnigraph.server.http.request_bodies import encode_json
from omnigraph.server.http.responses import limit_time
from omnigraph.server.http_errors import ColumnsDifferError, RowTooLargeError
from omnigraph.server.mcp.arguments import (
    BranchesArguments,
    CommitsArguments,
    CreateBranchArguments,
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
from omnigraph.server.mcp.schemas import is_as_declared
from omnigraph.server.service import Exchange, Service, get_exchange

MAX_RESPONSE_BYTES = 64 * 1024
"""The longest answer: what an agent reads costs it more than what a program reads."""
SOURCE_NAME = "query.gq"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The answer to a call: an object for programs, and the same as text for models."""

    value: dict[str, Any]
    text: str
    is_error: bool = False

    @classmethod
    def from_value(cls, value: dict[str, Any]) -> "ToolResult":
        """A text that is the object."""
        return cls(value=value, text=encode_json(value).decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, about which graph: one request, over HTTP or from a pipe."""

    service: Service
    request: Request
    graph_id: str

    @property
    def exchange(self) -> Exchange:
        """What is known of the request."""
        return get_exchange(self.request)

    @property
    def actor(self) -> Actor:
        """Who it is."""
        return self.exchange.actor

    def find_graph(self, action: Action, branch: str | None, *, read: str | None = None) -> ServedGraph:
        """The graph; the log tells what is wanted of it. GraphMissingError, DeniedError."""
        return self.service.find_graph(self.request, self.graph_id, action, branch, read=read)

    def bind_graph(
        self, action: Action, branch: str | None, *, read: str | None = None, through: str | None = None
    ) -> Graph:
        """The graph in the caller's hands; what they may do is up to the verb."""
        return self.find_graph(action, branch, read=read).bind_actor(self.actor, through=through)

    async def run(self, work: Callable[[], T]) -> T:
        """Do something short in a thread."""
        return await self.service.run(self.request, work)

    async def write(self, work: Callable[[], T]) -> T:
        """Write: what is begun is finished, whether somebody waits for it or not."""
        return await self.service.write(self.request, work)

    async def read(
        self, work: Callable[[Budget], T], seconds: float | None = None, memory_bytes: int | None = None
    ) -> T:
        """Read within a budget, which ends when nobody waits for the answer any more."""
        budget = self.service.build_read_budget(seconds, memory_bytes)
        try:
            return await self.service.read(self.request, budget, partial(work, budget))
        finally:
            budget.cancel()


# --- reads -----------------------------------------------------------------------------------------------


async def query(caller: Caller, given: QueryArguments) -> ToolResult:
    """Some rows of a query."""
    graph = caller.bind_graph(Action.READ, given.branch)
    controls = ReadControls(
        branch=given.branch,
        snapshot=given.snapshot,
        at=given.at,
        limit=given.limit,
        offset=given.offset,
        seconds=given.seconds,
        memory_bytes=given.memory_bytes,
    )
    return await run_query(caller, graph, Source(given.query, SOURCE_NAME), given.name, given.params, controls)


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
    """As many rows as asked for, and as an answer may hold; it says how to get the others.

    `declared` are the columns that were promised: ColumnsDifferError when there are others.
    """

    def asked(budget: Budget) -> ToolResult:
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
            raise ColumnsDifferError(result.query_name)
        return _build_page(result, controls.offset, controls.limit)

    return await caller.read(asked, controls.seconds, controls.memory_bytes)


def _build_page(result: Result, offset: int, limit: int) -> ToolResult:
    total, columns = result.row_count, list(result.columns)
    rows = build_json_objects(result.schema, result.part(offset, offset + limit))
    lines = [encode_json(columns).decode()]
    size = 0
    for row in rows:
        line = encode_json(list(row.values())).decode()
        size += len(line.encode())
        if size > MAX_RESPONSE_BYTES:
            break
        lines.append(line)
    shown = len(lines) - 1
    if rows and not shown:
        raise RowTooLargeError(offset, MAX_RESPONSE_BYTES)
    after = offset + shown
    more = after if after < total else None
    note = f"{shown} of {total} rows from offset {offset}, commit {result.commit_id}"
    if more is not None:
        note += f'; the answer is cut: for more, repeat the call with offset={more} and snapshot="{result.commit_id}"'
    value = {
        "commit_id": result.commit_id,
        "columns": columns,
        "rows": json.loads(encode_json(rows[:shown])),
        "row_count": total,
        "offset": offset,
        "next_offset": more,
    }
    return ToolResult(value=value, text="\n".join([*lines, note]))


async def explain(caller: Caller, given: ExplainArguments) -> ToolResult:
    """How a query is run."""
    graph = caller.bind_graph(Action.READ, given.branch)
    explained = await caller.read(
        lambda budget: graph.explain(
            Source(given.query, SOURCE_NAME),
            name=given.name,
            params=given.params,
            branch=given.branch,
            analyze=given.analyze,
            budget=budget,
        ),
        given.seconds,
        given.memory_bytes,
    )
    return ToolResult(
        value={"commit_id": explained.to_json()["commit_id"], "plan": explained.text}, text=explained.text
    )


async def read_schema(caller: Caller, given: SchemaArguments) -> ToolResult:
    """The accepted schema of a branch."""
    graph = caller.bind_graph(Action.READ, given.branch)
    state = await caller.run(partial(graph.snapshot, branch=given.branch))
    text = state.manifest.schema.source
    return ToolResult(value={"branch": state.branch, "commit_id": state.commit.id, "schema": text}, text=text)


async def list_branches(caller: Caller, given: BranchesArguments) -> ToolResult:
    """The branches: main first, the others by name."""
    graph = caller.bind_graph(Action.READ, None)
    found = await caller.run(graph.branches.list)
    page = _truncate_items([one.to_json() for one in found[given.offset : given.offset + given.limit]])
    after = given.offset + len(page)
    return ToolResult.from_value({"branches": page, "next_offset": after if after < len(found) else None})


async def list_commits(caller: Caller, given: CommitsArguments) -> ToolResult:
    """The history of a branch, newest first."""
    graph = caller.bind_graph(Action.READ, given.branch)
    page = await caller.run(partial(graph.commit_page, branch=given.branch, limit=given.limit, before=given.before))
    found = page.to_json()["commits"]
    assert isinstance(found, list)  # noqa: S101 - of objects
    shown = _truncate_items(found)
    more = page.next if len(shown) == len(found) else str(shown[-1]["id"])
    return ToolResult.from_value({"commits": shown, "next_before": more})


def _truncate_items(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many of the first as an answer may hold, and one at least."""
    size = 0
    for place, item in enumerate(items):
        size += len(encode_json(item))
        if size > MAX_RESPONSE_BYTES:
            return items[: max(1, place)]
    return items


async def diff(caller: Caller, given: DiffArguments) -> ToolResult:
    """What has to be done to one state to make it another."""
    graph, service = caller.bind_graph(Action.READ, parse_branch(given.before)), caller.service

    def compared(_: Budget) -> ToolResult:
        found = graph.diff(given.before, given.after, types=given.types)
        made = limit_time(found.json_lines(), service.runtime.clock, service.limits.seconds)
        lines = list(islice(made, given.offset, given.offset + given.limit + 1))
        kept, size = 0, 0
        for line in lines[: given.limit]:
            size += len(line)
            if size > MAX_RESPONSE_BYTES:
                break
            kept += 1
        if lines and not kept:
            raise RowTooLargeError(given.offset, MAX_RESPONSE_BYTES)
        value = {
            "before": found.before.commit.id,
            "after": found.after.commit.id,
            "schema": None if found.schema is None else found.schema.to_json(),
            "changes": [msgspec.json.decode(line) for line in lines[:kept]],
            "next_offset": given.offset + kept if kept < len(lines) else None,
        }
        return ToolResult.from_value(value)

    return await caller.read(compared)


# --- writes ----------------------------------------------------------------------------------------------


async def mutate(caller: Caller, given: MutateArguments) -> ToolResult:
    """A mutation, in one commit or not at all."""
    check_text(given.query, SOURCE_NAME, caller.service.limits)
    graph = caller.bind_graph(Action.CHANGE, given.branch)
    controls = WriteControls(
        branch=given.branch,
        message=given.message,
        idempotency_key=given.idempotency_key,
        if_commit=given.if_commit,
        seconds=given.seconds,
        memory_bytes=given.memory_bytes,
    )
    return await run_mutation(caller, graph, Source(given.query, SOURCE_NAME), given.name, given.params, controls)


async def run_mutation(
    caller: Caller, graph: Graph, source: Source, name: str | None, params: dict[str, Any], controls: WriteControls
) -> ToolResult:
    """What a mutation did."""
    done = await caller.write(
        partial(
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
    )
    caller.service.record_commit(caller.request, "mutate", done.commit_id)
    return ToolResult.from_value(done.to_json())


async def create_branch(caller: Caller, given: CreateBranchArguments) -> ToolResult:
    """Make a branch of the newest state of another."""
    graph = caller.bind_graph(Action.BRANCH_CREATE, given.name, read=given.from_)
    made = await caller.write(partial(graph.branches.create, given.name, from_=given.from_))
    return ToolResult.from_value(made.to_json())


async def delete_branch(caller: Caller, given: DeleteBranchArguments) -> ToolResult:
    """Delete a branch, with its commits."""
    graph = caller.bind_graph(Action.BRANCH_DELETE, given.name)
    return ToolResult.from_value((await caller.write(partial(graph.branches.delete, given.name))).to_json())


async def merge(caller: Caller, given: MergeArguments) -> ToolResult:
    """Bring to a branch what another one has done since they parted; with conflicts nothing is done."""
    graph = caller.bind_graph(Action.BRANCH_MERGE, given.into, read=given.source)
    call = partial(
        graph.merge,
        given.source,
        into=given.into,
        strategy=given.strategy,
        message=given.message,
        dry_run=given.dry_run,
        budget=caller.service.build_write_budget(given.seconds, given.memory_bytes),
    )
    try:
        done = await caller.write(call)
    except MergeConflictsError as error:
        return _report_conflicts(caller, error.result)
    caller.service.record_commit(caller.request, "merge", done.commit_id)
    return ToolResult.from_value(done.to_json())


def _report_conflicts(caller: Caller, done: MergeResult) -> ToolResult:
    exchange = caller.exchange
    exchange.code = "merge_conflicts"
    caller.service.metrics.count("omnigraph_conflicts_total", graph=caller.graph_id)
    story = (
        f"{done.conflict_total} conflicts between `{done.source}` and `{done.into}`: nothing was merged. Resolve them"
        f" on `{done.source}`, or say with `strategy` whose values count"
    )
    value = {
        "error": story,
        "code": exchange.code,
        "kind": "conflict",
        "request_id": exchange.id,
        "merge": done.to_json(),
    }
    shown = encode_json([one.to_json() for one in done.conflicts]).decode()
    return ToolResult(value=value, text=f"{exchange.code}: {story}\n{shown}", is_error=True)
