"""What an agent can read without a call: schemas, branches and commits, each at an address of its own."""

from collections.abc import Awaitable, Callable

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Resource, ResourceTemplate, TextResourceContents

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.policy import Action
from omnigraph.server.http.request_bodies import JSON
from omnigraph.server.mcp import calls
from omnigraph.server.mcp.arguments import BranchesArguments, CommitsArguments, SchemaArguments
from omnigraph.server.mcp.calls import Caller, ToolResult

_PLAIN_TEXT = "text/plain"
_MAX_URI_LENGTH = 2_048


def _read_schema(caller: Caller, branch: str) -> Awaitable[ToolResult]:
    return calls.read_schema(caller, SchemaArguments(branch=branch))


def _read_branches(caller: Caller, _: str) -> Awaitable[ToolResult]:
    return calls.list_branches(caller, BranchesArguments(limit=1_000))


def _read_commits(caller: Caller, branch: str) -> Awaitable[ToolResult]:
    return calls.list_commits(caller, CommitsArguments(branch=branch))


_READERS: dict[str, tuple[str, str, Callable[[Caller, str], Awaitable[ToolResult]]]] = {
    "schema": (_PLAIN_TEXT, "The schema of main: node types, edge types, properties.", _read_schema),
    "branches": (JSON, "The branches, main first.", _read_branches),
    "commits": (JSON, "The newest commits of main.", _read_commits),
}
_BRANCH_RESOURCES = {"schema": "The schema of a branch.", "commits": "The newest commits of a branch."}


def list_resources(caller: Caller) -> list[Resource]:
    """Those that the caller may read."""
    if not caller.find_graph(Action.READ, None).is_allowed_somewhere(caller.actor, Action.READ):
        return []
    return [
        Resource(name=name, uri=f"{_format_root(caller)}{name}", description=told, mime_type=type_)
        for name, (type_, told, _) in _READERS.items()
    ]


def list_templates(caller: Caller) -> list[ResourceTemplate]:
    """The same of any branch."""
    if not list_resources(caller):
        return []
    return [
        ResourceTemplate(
            name=f"{name} of a branch",
            uri_template=f"{_format_root(caller)}{name}/{{+branch}}",
            description=told,
            mime_type=_READERS[name][0],
        )
        for name, told in _BRANCH_RESOURCES.items()
    ]


async def read(caller: Caller, uri: str) -> TextResourceContents:
    """A resource. One that is not there and one that the caller may not read are refused alike, by MCPError."""
    root = _format_root(caller)
    name, _, branch = uri.removeprefix(root).partition("/")
    if not uri.startswith(root) or len(uri) > _MAX_URI_LENGTH or name not in _READERS:
        raise _build_missing_error(uri)
    if branch and name not in _BRANCH_RESOURCES:
        raise _build_missing_error(uri)
    type_, _, reader = _READERS[name]
    try:
        told = await reader(caller, branch or "main")
    except OmnigraphError as error:
        if error.kind in (Kind.DENIED, Kind.NOT_FOUND, Kind.USAGE):
            raise _build_missing_error(uri) from None
        raise
    return TextResourceContents(uri=uri, mime_type=type_, text=told.text)


def _format_root(caller: Caller) -> str:
    return f"omnigraph://{caller.graph_id}/"


def _build_missing_error(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, "there is no such resource that you may read", {"uri": uri[:_MAX_URI_LENGTH]})
