"""Stored queries as MCP tools: query parameters are the arguments, result columns the output schema."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from mcp_types import Tool

from omnigraph.ops.mutate import MutationResult
from omnigraph.policy import Action
from omnigraph.server.graph_registry import ServedGraph
from omnigraph.server.mcp import calls
from omnigraph.server.mcp.arguments import ReadControls, WriteControls, read_arguments
from omnigraph.server.mcp.calls import Caller, ToolResult
from omnigraph.server.mcp.schemas import JsonSchema, build_parameter_schema, build_row_schema, build_struct_schema
from omnigraph.server.mcp.tools import TOOLS, build_annotations, build_rows_schema
from omnigraph.server.stored_queries import StoredQuery

_WRITE_NOTE = "Writes to the given branch atomically, in one commit."


class _QueryParams(msgspec.Struct, kw_only=True):
    """Parameters of a stored query, whose types the query itself checks."""

    params: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTool:
    """The MCP tool of a stored query.

    Its arguments are the query's parameters and the controls of every call, such as the branch. A parameter hides a
    control of the same name.
    """

    query: StoredQuery

    @property
    def name(self) -> str:
        """The query's name, with the prefix `stored_` if a built-in tool has the same name."""
        return f"stored_{self.query.name}" if self.query.name in TOOLS else self.query.name

    @property
    def _controls(self) -> type[msgspec.Struct]:
        return WriteControls if self.query.is_mutation else ReadControls

    def is_visible(self, caller: Caller, hosted: ServedGraph, arguments: Mapping[str, object]) -> bool:
        """Return whether the caller may run the query on some branch, or on the branch in `arguments`."""
        query = self.query
        actor = caller.actor
        if query.is_mutation and hosted.config.is_read_only:
            return False
        # The policy may allow a branch that no listing could guess: a call also tries the branch it names.
        branch = self._split(arguments)[1].get("branch")
        branches = (branch,) if isinstance(branch, str) else ()
        actions = (Action.INVOKE_QUERY, Action.CHANGE if query.is_mutation else Action.READ)
        return all(
            hosted.is_allowed_somewhere(actor, action, query=query.name, branches=branches) for action in actions
        )

    async def run(self, caller: Caller, arguments: Mapping[str, object]) -> ToolResult:
        """Run the query. Beside the errors below, raises those of the query or mutation.

        Raises:
            BadRequestError: The arguments do not fit.
        """
        query = self.query
        params, controls = self._split(arguments)
        values = read_arguments({"params": params}, _QueryParams).params
        if query.is_mutation:
            # A parameter named `branch` hides the control, so the mutation can only write to main.
            controls = controls if self._has_control("branch") else {**controls, "branch": "main"}
            write = read_arguments(controls, WriteControls)
            graph = caller.bind_graph(Action.INVOKE_QUERY, write.branch, through=query.name)
            self._check_allowed(caller, write.branch)
            return await calls.run_mutation(caller, graph, query.source, query.name, values, write)
        read = read_arguments(controls, ReadControls)
        graph = caller.bind_graph(Action.INVOKE_QUERY, read.branch, through=query.name)
        self._check_allowed(caller, read.branch)
        return await calls.run_query(caller, graph, query.source, query.name, values, read, declared=query.columns)

    def to_tool(self) -> Tool:
        """Return the tool as MCP lists it."""
        query = self.query
        properties = {param.name: build_parameter_schema(param) for param in query.params}
        controls = build_struct_schema(self._controls)
        properties |= {name: schema for name, schema in controls["properties"].items() if self._has_control(name)}
        required = [param.name for param in query.params if not param.nullable]
        required += [name for name in controls["required"] if self._has_control(name)]
        sentences = [query.description or f"The stored query `{query.name}`.", query.instruction]
        if query.is_mutation:
            sentences.append(_WRITE_NOTE)
        return Tool(
            name=self.name,
            description="\n".join(sentence for sentence in sentences if sentence),
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
        return build_struct_schema(MutationResult) if columns is None else build_rows_schema(build_row_schema(columns))

    def _has_control(self, control: str) -> bool:
        return all(param.name != control for param in self.query.params)

    def _split(self, arguments: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """Split arguments into parameters and controls; unknown names count as parameters, which the query rejects."""
        names = {name for name in self._controls.__struct_fields__ if self._has_control(name)}
        params = {name: value for name, value in arguments.items() if name not in names}
        return params, {name: value for name, value in arguments.items() if name in names}

    def _check_allowed(self, caller: Caller, branch: str) -> None:
        """Check that the caller may invoke the query on a branch; the query itself checks what it reads or writes.

        Raises:
            DeniedError: The policy does not allow it.
        """
        hosted = caller.find_graph(Action.INVOKE_QUERY, branch)
        hosted.require(caller.actor, Action.INVOKE_QUERY, branch, query=self.query.name)


def load_stored_tools(hosted: ServedGraph) -> dict[str, StoredTool]:
    """Return the tools of all stored queries of a graph, by name. It may read files again that have changed."""
    tools: dict[str, StoredTool] = {}
    for query in [] if hosted.stored_queries is None else hosted.stored_queries.list_all():
        tool = StoredTool(query=query)
        # Two queries may get the same name: `graph_query` becomes `stored_graph_query`. The first one keeps it.
        tools.setdefault(tool.name, tool)
    return tools
