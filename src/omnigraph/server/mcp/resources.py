"""The MCP resources: schemas, branches and commits, each at its own URI."""

from collections.abc import Awaitable, Callable

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Resource, ResourceTemplate, TextResourceContents

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.policy import Action
from omnigraph.server.http.request_bodies import JSON
from omnigraph.server.mcp import calls
from omnigraph.server.mcp.arguments import BranchesArguments, CommitsArguments, SchemaArguments
from omnigraph.server.mcp.calls import Caller, ToolResult
from omnigraph.server.mcp.guide import write_ways_out

_PLAIN_TEXT = "text/plain"
_MARKDOWN = "text/markdown"
# Longer URIs are rejected unread, and errors quote at most this part of a URI.
_MAX_URI_LENGTH = 2_048


def _read_schema(caller: Caller, branch: str) -> Awaitable[ToolResult]:
    return calls.read_schema(caller, SchemaArguments(branch=branch))


def _read_branches(caller: Caller, _: str) -> Awaitable[ToolResult]:
    return calls.list_branches(caller, BranchesArguments(limit=1_000))


def _read_commits(caller: Caller, branch: str) -> Awaitable[ToolResult]:
    return calls.list_commits(caller, CommitsArguments(branch=branch))


async def _read_guide(caller: Caller, branch: str) -> ToolResult:
    text = await calls.write_branch_guide(caller, branch)
    return ToolResult(value={}, text=text)


async def _read_mistakes(_caller: Caller, _branch: str) -> ToolResult:
    return ToolResult(value={}, text=write_ways_out())


_READERS: dict[str, tuple[str, str, Callable[[Caller, str], Awaitable[ToolResult]]]] = {
    "schema": (_PLAIN_TEXT, "The schema of main: node types, edge types, properties.", _read_schema),
    "guide": (_MARKDOWN, "How to write queries for this graph, with examples that run on it.", _read_guide),
    "mistakes": (_MARKDOWN, "The right form of what other languages write, and the codes of mistakes.", _read_mistakes),
    "branches": (JSON, "The branches, main first.", _read_branches),
    "commits": (JSON, "The newest commits of main.", _read_commits),
}
_BRANCH_RESOURCES = {
    "schema": "The schema of a branch.",
    "guide": "How to write queries for a branch.",
    "commits": "The newest commits of a branch.",
}


def list_resources(caller: Caller) -> list[Resource]:
    """List the resources that the caller may read: all, if the policy allows reads anywhere, else none."""
    if not caller.find_graph(Action.READ, None).is_allowed_somewhere(caller.actor, Action.READ):
        return []
    return [
        Resource(name=name, uri=f"{_format_root(caller)}{name}", description=description, mime_type=mime_type)
        for name, (mime_type, description, _) in _READERS.items()
    ]


def list_templates(caller: Caller) -> list[ResourceTemplate]:
    """List the templates of the resources of any branch, if the caller may read resources."""
    if not list_resources(caller):
        return []
    return [
        ResourceTemplate(
            name=f"{name} of a branch",
            # `+` keeps the slashes of a branch's name, such as agent/fix-ages.
            uri_template=f"{_format_root(caller)}{name}/{{+branch}}",
            description=description,
            mime_type=_READERS[name][0],
        )
        for name, description in _BRANCH_RESOURCES.items()
    ]


async def read(caller: Caller, uri: str) -> TextResourceContents:
    """Read a resource.

    Raises:
        MCPError: It does not exist, or the caller may not read it; the message is the same.
    """
    root = _format_root(caller)
    name, _, branch = uri.removeprefix(root).partition("/")
    if not uri.startswith(root) or len(uri) > _MAX_URI_LENGTH or name not in _READERS:
        raise _build_missing_error(uri)
    if (branch and name not in _BRANCH_RESOURCES) or not list_resources(caller):
        raise _build_missing_error(uri)
    mime_type, _, reader = _READERS[name]
    try:
        result = await reader(caller, branch or "main")
    except OmnigraphError as error:
        # A different message for a denied branch would reveal that it exists.
        if error.kind in (Kind.DENIED, Kind.NOT_FOUND, Kind.USAGE):
            raise _build_missing_error(uri) from None
        raise
    return TextResourceContents(uri=uri, mime_type=mime_type, text=result.text)


def _format_root(caller: Caller) -> str:
    return f"omnigraph://{caller.graph_id}/"


def _build_missing_error(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, "there is no such resource that you may read", {"uri": uri[:_MAX_URI_LENGTH]})
