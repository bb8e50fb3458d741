"""What an agent can read without a call: schemas, branches and commits, each at an address of its own."""

from collections.abc import Awaitable, Callable

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, Resource, ResourceTemplate, TextResourceContents

from omnigraph.errors import Kind, OmnigraphError
from omnigraph.policy import Action
from omnigraph.server.http.request_bodies import JSON
from omnigraph.server.mcp import calls
from omnigraph.server.mcp.arguments import BranchesArguments, CommitsArguments, SchemaArguments
from omnigraph.server.mcp.calls import Caller, Told

_TEXT = "text/plain"
_LONGEST_URI = 2_048


def _schema(caller: Caller, branch: str) -> Awaitable[Told]:
    return calls.schema(caller, SchemaArguments(branch=branch))


def _branches(caller: Caller, _: str) -> Awaitable[Told]:
    return calls.branches(caller, BranchesArguments(limit=1_000))


def _commits(caller: Caller, branch: str) -> Awaitable[Told]:
    return calls.commits(caller, CommitsArguments(branch=branch))


_READERS: dict[str, tuple[str, str, Callable[[Caller, str], Awaitable[Told]]]] = {
    "schema": (_TEXT, "The schema of main: node types, edge types, properties.", _schema),
    "branches": (JSON, "The branches, main first.", _branches),
    "commits": (JSON, "The newest commits of main.", _commits),
}
_OF_BRANCHES = {"schema": "The schema of a branch.", "commits": "The newest commits of a branch."}


def resources(caller: Caller) -> list[Resource]:
    """Those that the caller may read."""
    if not caller.hosted(Action.READ, None).may_somewhere(caller.actor, Action.READ):
        return []
    return [
        Resource(name=name, uri=f"{_root(caller)}{name}", description=told, mime_type=type_)
        for name, (type_, told, _) in _READERS.items()
    ]


def templates(caller: Caller) -> list[ResourceTemplate]:
    """The same of any branch."""
    if not resources(caller):
        return []
    return [
        ResourceTemplate(
            name=f"{name} of a branch",
            uri_template=f"{_root(caller)}{name}/{{+branch}}",
            description=told,
            mime_type=_READERS[name][0],
        )
        for name, told in _OF_BRANCHES.items()
    ]


async def read(caller: Caller, uri: str) -> TextResourceContents:
    """A resource. One that is not there and one that the caller may not read are refused alike, by MCPError."""
    root = _root(caller)
    name, _, branch = uri.removeprefix(root).partition("/")
    if not uri.startswith(root) or len(uri) > _LONGEST_URI or name not in _READERS:
        raise _missing(uri)
    if branch and name not in _OF_BRANCHES:
        raise _missing(uri)
    type_, _, reader = _READERS[name]
    try:
        told = await reader(caller, branch or "main")
    except OmnigraphError as error:
        if error.kind in (Kind.DENIED, Kind.NOT_FOUND, Kind.USAGE):
            raise _missing(uri) from None
        raise
    return TextResourceContents(uri=uri, mime_type=type_, text=told.text)


def _root(caller: Caller) -> str:
    return f"omnigraph://{caller.graph_id}/"


def _missing(uri: str) -> MCPError:
    return MCPError(INVALID_PARAMS, "there is no such resource that you may read", {"uri": uri[:_LONGEST_URI]})
