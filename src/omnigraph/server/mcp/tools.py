"""The tools that every graph has. Which of them somebody sees is up to the policy."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from mcp_types import Tool, ToolAnnotations

from omnigraph.policy import Action
from omnigraph.server.auth import READ_ONLY_ACTIONS
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.server.http.request_bodies import BranchAnswer, MergeAnswer, MutationAnswer
from omnigraph.server.mcp import calls
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
    SchemaArguments,
    read_arguments,
)
from omnigraph.server.mcp.calls import Caller, ToolResult
from omnigraph.server.mcp.schemas import JsonSchema, build_struct_schema


class PlanOutput(msgspec.Struct, kw_only=True):
    """How a query is run."""

    commit_id: str
    plan: str


class SchemaOutput(msgspec.Struct, kw_only=True):
    """A schema, and whose it is."""

    branch: str
    commit_id: str
    schema: str


class BranchesOutput(msgspec.Struct, kw_only=True):
    """Some of the branches."""

    branches: list[dict[str, Any]]
    next_offset: int | None


class CommitsOutput(msgspec.Struct, kw_only=True):
    """Some commits, newest first."""

    commits: list[dict[str, Any]]
    next_before: str | None


class DiffOutput(msgspec.Struct, kw_only=True):
    """Some of what differs; `schema` is what differs between the schemas, or null."""

    before: str
    after: str
    schema: dict[str, Any] | None
    changes: list[dict[str, Any]]
    next_offset: int | None


class RowsOutput(msgspec.Struct, kw_only=True):
    """Some rows; `next_offset` is where the next ones begin, if there are any."""

    commit_id: str
    columns: list[str]
    rows: list[dict[str, Any]]
    row_count: int
    offset: int
    next_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTool:
    """A tool, who may use it, and what it does."""

    name: str
    title: str
    description: str
    arguments_type: type[msgspec.Struct]
    output_type: type[msgspec.Struct]
    action: Action
    branch_argument: str
    """The argument that names the branch which the action is about."""
    call: Callable[[Caller, Any], Awaitable[ToolResult]]
    is_destructive: bool = False

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.action in READ_ONLY_ACTIONS

    def is_visible(self, caller: Caller, hosted: ServedGraph, arguments: Mapping[str, object]) -> bool:
        """Whether the caller may use it somewhere, or where this call wants to."""
        named = arguments.get(self.branch_argument)
        also = (named.partition("@")[0],) if isinstance(named, str) else ()
        if not self.is_read and hosted.config.is_read_only:
            return False
        return hosted.is_allowed_somewhere(caller.actor, self.action, branches=also)

    async def run(self, caller: Caller, arguments: Mapping[str, object]) -> ToolResult:
        """Do it. Raises what the verb raises, and BadRequestError."""
        return await self.call(caller, read_arguments(arguments, self.arguments_type))

    def to_tool(self) -> Tool:
        """As it is listed."""
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=build_struct_schema(self.arguments_type),
            output_schema=build_struct_schema(self.output_type),
            annotations=build_annotations(is_read=self.is_read, is_destructive=self.is_destructive),
        )


def build_annotations(*, is_read: bool, is_destructive: bool) -> ToolAnnotations:
    """What a client may tell a person before a call. All tools are about this graph alone."""
    return ToolAnnotations(
        read_only_hint=is_read, destructive_hint=is_destructive, idempotent_hint=is_read, open_world_hint=False
    )


def build_rows_schema(row: JsonSchema | None = None) -> JsonSchema:
    """What tools that read rows give; `row` is the shape of one, where it is known."""
    found = build_struct_schema(RowsOutput)
    if row is None:
        return found
    return {**found, "properties": {**found["properties"], "rows": {"type": "array", "items": row}}}


TOOLS: dict[str, GraphTool] = {
    tool.name: tool
    for tool in (
        GraphTool(
            name="graph_schema",
            title="Schema",
            description="The schema of the graph: its node types, edge types and properties. Read it before you query.",
            arguments_type=SchemaArguments,
            output_type=SchemaOutput,
            action=Action.READ,
            branch_argument="branch",
            call=calls.read_schema,
        ),
        GraphTool(
            name="graph_query",
            title="Query",
            description=(
                "Run a query that reads. Example: query q($n: String) { match { $p: Person { name: $n } $p knows $q }"
                " return { $q.name } order { $q.name asc } limit 10 }. The answer has at most `limit` rows; it says"
                " when there are more, and how to ask for them."
            ),
            arguments_type=QueryArguments,
            output_type=RowsOutput,
            action=Action.READ,
            branch_argument="branch",
            call=calls.query,
        ),
        GraphTool(
            name="graph_explain",
            title="Explain",
            description="How a query would be run, step by step, with the rows that each step is expected to have.",
            arguments_type=ExplainArguments,
            output_type=PlanOutput,
            action=Action.READ,
            branch_argument="branch",
            call=calls.explain,
        ),
        GraphTool(
            name="graph_branches",
            title="Branches",
            description="The branches of the graph, main first.",
            arguments_type=BranchesArguments,
            output_type=BranchesOutput,
            action=Action.READ,
            branch_argument="",
            call=calls.list_branches,
        ),
        GraphTool(
            name="graph_commits",
            title="Commits",
            description="The history of a branch, newest first: who changed which tables, when, and why.",
            arguments_type=CommitsArguments,
            output_type=CommitsOutput,
            action=Action.READ,
            branch_argument="branch",
            call=calls.list_commits,
        ),
        GraphTool(
            name="graph_diff",
            title="Differences",
            description="What differs between two states, row by row: a branch and main, a commit and another.",
            arguments_type=DiffArguments,
            output_type=DiffOutput,
            action=Action.READ,
            branch_argument="before",
            call=calls.diff,
        ),
        GraphTool(
            name="graph_mutate",
            title="Mutate",
            description=(
                "Insert, update or delete on a branch, in one commit or not at all. Example: query add($n: String) {"
                " insert Person { name: $n } }."
            ),
            arguments_type=MutateArguments,
            output_type=MutationAnswer,
            action=Action.CHANGE,
            branch_argument="branch",
            call=calls.mutate,
            is_destructive=True,
        ),
        GraphTool(
            name="graph_create_branch",
            title="Create a branch",
            description="Make a branch to write to: what you do there changes no other branch until it is merged.",
            arguments_type=CreateBranchArguments,
            output_type=BranchAnswer,
            action=Action.BRANCH_CREATE,
            branch_argument="name",
            call=calls.create_branch,
        ),
        GraphTool(
            name="graph_delete_branch",
            title="Delete a branch",
            description="Delete a branch, with its commits that were not merged.",
            arguments_type=DeleteBranchArguments,
            output_type=BranchAnswer,
            action=Action.BRANCH_DELETE,
            branch_argument="name",
            call=calls.delete_branch,
            is_destructive=True,
        ),
        GraphTool(
            name="graph_merge",
            title="Merge a branch",
            description="Bring to a branch what another one changed. With conflicts nothing is done: they are listed.",
            arguments_type=MergeArguments,
            output_type=MergeAnswer,
            action=Action.BRANCH_MERGE,
            branch_argument="into",
            call=calls.merge,
            is_destructive=True,
        ),
    )
}
