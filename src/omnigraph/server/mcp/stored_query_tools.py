"""Stored queries as tools: their parameters are the arguments, their columns the shape of the answer."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from mcp_types import Tool

from omnigraph.policy import Action
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.server.http.request_bodies import MutationAnswer
from omnigraph.server.mcp import calls
from omnigraph.server.mcp.arguments import ReadControls, WriteControls, read_arguments
from omnigraph.server.mcp.calls import Caller, ToolResult
from omnigraph.server.mcp.schemas import JsonSchema, build_parameter_schema, build_row_schema, build_struct_schema
from omnigraph.server.mcp.tools import TOOLS, build_annotations, build_rows_schema
from omnigraph.server.stored_queries import StoredQuery

_WRITE_NOTE = "Writes to the branch that it is given, in one commit or not at all."


class _QueryParams(msgspec.Struct, kw_only=True):
    """Arguments that are checked by the query's own declarations."""

    params: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTool:
    """A stored query that an agent can call.

    Its arguments are the parameters, and beside them what every call takes, such as the branch. Where a parameter has
    such a name, it is the parameter.
    """

    query: StoredQuery

    @property
    def name(self) -> str:
        """That of the query, unless one of the graph's own tools has it."""
        return f"stored_{self.query.name}" if self.query.name in TOOLS else self.query.name

    @property
    def _controls(self) -> type[msgspec.Struct]:
        return WriteControls if self.query.is_mutation else ReadControls

    def is_visible(self, caller: Caller, hosted: ServedGraph, arguments: Mapping[str, object]) -> bool:
        """Whether the caller may run it somewhere, or where this call wants to."""
        query, actor = self.query, caller.actor
        if query.is_mutation and hosted.config.is_read_only:
            return False
        named = self._split(arguments)[1].get("branch")
        also = (named,) if isinstance(named, str) else ()
        needed = (Action.INVOKE_QUERY, Action.CHANGE if query.is_mutation else Action.READ)
        return all(hosted.is_allowed_somewhere(actor, action, query=query.name, branches=also) for action in needed)

    async def run(self, caller: Caller, arguments: Mapping[str, object]) -> ToolResult:
        """Run it. Raises what the verb raises, and BadRequestError."""
        query = self.query
        params, given = self._split(arguments)
        values = read_arguments({"params": params}, _QueryParams).params
        if query.is_mutation:
            given = given if self._has_control("branch") else {**given, "branch": "main"}
            write = read_arguments(given, WriteControls)
            graph = caller.bind_graph(Action.INVOKE_QUERY, write.branch, through=query.name)
            self._require(caller, write.branch)
            return await calls.run_mutation(caller, graph, query.source, query.name, values, write)
        read = read_arguments(given, ReadControls)
        graph = caller.bind_graph(Action.INVOKE_QUERY, read.branch, through=query.name)
        self._require(caller, read.branch)
        return await calls.run_query(caller, graph, query.source, query.name, values, read, declared=query.columns)

    def to_tool(self) -> Tool:
        """As it is listed."""
        query = self.query
        own = {one.name: build_parameter_schema(one) for one in query.params}
        controls = build_struct_schema(self._controls)
        properties = {**own, **{name: one for name, one in controls["properties"].items() if self._has_control(name)}}
        required = [one.name for one in query.params if not one.nullable]
        required += [name for name in controls["required"] if self._has_control(name)]
        told = [query.description or f"The stored query `{query.name}`.", query.instruction]
        if query.is_mutation:
            told.append(_WRITE_NOTE)
        return Tool(
            name=self.name,
            description="\n".join(one for one in told if one),
            input_schema={
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            },
            output_schema=self._build_output_schema(),
            annotations=build_annotations(is_read=not query.is_mutation, is_destructive=query.is_mutation),
        )

    def _build_output_schema(self) -> JsonSchema:
        columns = self.query.columns
        return build_struct_schema(MutationAnswer) if columns is None else build_rows_schema(build_row_schema(columns))

    def _has_control(self, control: str) -> bool:
        return all(one.name != control for one in self.query.params)

    def _split(self, arguments: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """The parameters, among them what nobody knows, and the rest."""
        names = {name for name in self._controls.__struct_fields__ if self._has_control(name)}
        params = {name: value for name, value in arguments.items() if name not in names}
        return params, {name: value for name, value in arguments.items() if name in names}

    def _require(self, caller: Caller, branch: str) -> None:
        """DeniedError unless the query may be run on that branch; what it does there is asked by the verb."""
        hosted = caller.find_graph(Action.INVOKE_QUERY, branch)
        hosted.require(caller.actor, Action.INVOKE_QUERY, branch, query=self.query.name)


def load_stored_tools(hosted: ServedGraph) -> dict[str, StoredTool]:
    """All of a graph, by the name of the tool. It may look at files."""
    found: dict[str, StoredTool] = {}
    for query in [] if hosted.stored_queries is None else hosted.stored_queries.list_all():
        tool = StoredTool(query=query)
        found.setdefault(tool.name, tool)
    return found
