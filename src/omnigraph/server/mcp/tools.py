"""The tools that every graph has. Which of them somebody sees is up to the policy."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from mcp_types import Tool, ToolAnnotations

from omnigraph.policy import Action
from omnigraph.server.auth import READ_ONLY
from omnigraph.server.graph_registry import Hosted
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
from omnigraph.server.mcp.calls import Caller, Told
from omnigraph.server.mcp.schemas import JsonSchema, struct_schema


class PlanTold(msgspec.Struct, kw_only=True):
    """How a query is run."""

    commit_id: str
    plan: str


class SchemaTold(msgspec.Struct, kw_only=True):
    """A schema, and whose it is."""

    branch: str
    commit_id: str
    schema: str


class BranchesTold(msgspec.Struct, kw_only=True):
    """Some of the branches."""

    branches: list[dict[str, Any]]
    next_offset: int | None


class CommitsTold(msgspec.Struct, kw_only=True):
    """Some commits, newest first."""

    commits: list[dict[str, Any]]
    next_before: str | None


class DiffTold(msgspec.Struct, kw_only=True):
    """Some of what differs; `schema` is what differs between the schemas, or null."""

    before: str
    after: str
    schema: dict[str, Any] | None
    changes: list[dict[str, Any]]
    next_offset: int | None


class RowsTold(msgspec.Struct, kw_only=True):
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
    takes: type[msgspec.Struct]
    gives: type[msgspec.Struct]
    action: Action
    place: str
    """The argument that names the branch which the action is about."""
    call: Callable[[Caller, Any], Awaitable[Told]]
    is_destructive: bool = False

    @property
    def is_read(self) -> bool:
        """Whether it changes nothing."""
        return self.action in READ_ONLY

    def is_seen(self, caller: Caller, hosted: Hosted, arguments: Mapping[str, object]) -> bool:
        """Whether the caller may use it somewhere, or where this call wants to."""
        named = arguments.get(self.place)
        also = (named.partition("@")[0],) if isinstance(named, str) else ()
        if not self.is_read and hosted.config.is_read_only:
            return False
        return hosted.may_somewhere(caller.actor, self.action, also=also)

    async def run(self, caller: Caller, arguments: Mapping[str, object]) -> Told:
        """Do it. Raises what the verb raises, and BadRequestError."""
        return await self.call(caller, read_arguments(arguments, self.takes))

    def shown(self) -> Tool:
        """As it is listed."""
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=struct_schema(self.takes),
            output_schema=struct_schema(self.gives),
            annotations=annotations(is_read=self.is_read, is_destructive=self.is_destructive),
        )


def annotations(*, is_read: bool, is_destructive: bool) -> ToolAnnotations:
    """What a client may tell a person before a call. All tools are about this graph alone."""
    return ToolAnnotations(
        read_only_hint=is_read, destructive_hint=is_destructive, idempotent_hint=is_read, open_world_hint=False
    )


def rows_schema(row: JsonSchema | None = None) -> JsonSchema:
    """What tools that read rows give; `row` is the shape of one, where it is known."""
    found = struct_schema(RowsTold)
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
            takes=SchemaArguments,
            gives=SchemaTold,
            action=Action.READ,
            place="branch",
            call=calls.schema,
        ),
        GraphTool(
            name="graph_query",
            title="Query",
            description=(
                "Run a query that reads. Example: query q($n: String) { match { $p: Person { name: $n } $p knows $q }"
                " return { $q.name } order { $q.name asc } limit 10 }. The answer has at most `limit` rows; it says"
                " when there are more, and how to ask for them."
            ),
            takes=QueryArguments,
            gives=RowsTold,
            action=Action.READ,
            place="branch",
            call=calls.query,
        ),
        GraphTool(
            name="graph_explain",
            title="Explain",
            description="How a query would be run, step by step, with the rows that each step is expected to have.",
            takes=ExplainArguments,
            gives=PlanTold,
            action=Action.READ,
            place="branch",
            call=calls.explain,
        ),
        GraphTool(
            name="graph_branches",
            title="Branches",
            description="The branches of the graph, main first.",
            takes=BranchesArguments,
            gives=BranchesTold,
            action=Action.READ,
            place="",
            call=calls.branches,
        ),
        GraphTool(
            name="graph_commits",
            title="Commits",
            description="The history of a branch, newest first: who changed which tables, when, and why.",
            takes=CommitsArguments,
            gives=CommitsTold,
            action=Action.READ,
            place="branch",
            call=calls.commits,
        ),
        GraphTool(
            name="graph_diff",
            title="Differences",
            description="What differs between two states, row by row: a branch and main, a commit and another.",
            takes=DiffArguments,
            gives=DiffTold,
            action=Action.READ,
            place="before",
            call=calls.diff,
        ),
        GraphTool(
            name="graph_mutate",
            title="Mutate",
            description=(
                "Insert, update or delete on a branch, in one commit or not at all. Example: query add($n: String) {"
                " insert Person { name: $n } }."
            ),
            takes=MutateArguments,
            gives=MutationAnswer,
            action=Action.CHANGE,
            place="branch",
            call=calls.mutate,
            is_destructive=True,
        ),
        GraphTool(
            name="graph_create_branch",
            title="Create a branch",
            description="Make a branch to write to: what you do there changes no other branch until it is merged.",
            takes=CreateBranchArguments,
            gives=BranchAnswer,
            action=Action.BRANCH_CREATE,
            place="name",
            call=calls.create_branch,
        ),
        GraphTool(
            name="graph_delete_branch",
            title="Delete a branch",
            description="Delete a branch, with its commits that were not merged.",
            takes=DeleteBranchArguments,
            gives=BranchAnswer,
            action=Action.BRANCH_DELETE,
            place="name",
            call=calls.delete_branch,
            is_destructive=True,
        ),
        GraphTool(
            name="graph_merge",
            title="Merge a branch",
            description="Bring to a branch what another one changed. With conflicts nothing is done: they are listed.",
            takes=MergeArguments,
            gives=MergeAnswer,
            action=Action.BRANCH_MERGE,
            place="into",
            call=calls.merge,
            is_destructive=True,
        ),
    )
}
