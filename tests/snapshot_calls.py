"""What commands, routes and tools print about a small graph, without what differs from run to run."""

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from agents import talk
from door_calls import CALLS, Call
from doors import DOORS, Door, Mask, laid_out, run
from omnigraph.cli.main import cli
from server_routes import ROUTES, Route, request, serve_every_route
from serving import ALL, Served, write_settings

# Commands that no call of `door_calls` makes: they are not about one graph that is there already.
LOCAL_CALLS = (
    ("version",),
    ("init", "new.omni", "--schema", "schema.pg", "--as", "admin"),
    ("init", "new.omni", "--schema", "schema.pg"),
    ("init", "made.omni", "--from", "pets.csv"),
    ("schema", "infer", "pets.csv"),
    ("schema", "infer", "missing.csv"),
    ("clone", "people.omni", "copy.omni", "--quiet"),
    ("clone", "people.omni", "people.omni/copy", "--quiet"),
    ("backup", "list", "nothing"),
    ("backup", "restore", "nothing", "restored.omni", "--quiet"),
    ("backup", "create", "people.omni", "people.omni/backups", "--quiet"),
    ("show", "people.omni"),
    ("show", "people.omni", "Person"),
    ("show", "people.omni", "Person", "Ada"),
    ("show", "people.omni", "Persn"),
    ("examples", "people", "copied"),
    ("examples", "people", "copied"),
    ("lint", "--schema", "schema.pg", "--query", "queries.gq"),
    ("lint", "broken.pg", "mistakes.gq"),
    ("fmt", "--check", "schema.pg", "queries.gq"),
    ("fmt", "queries.gq"),
    ("fmt", "broken.pg"),
    ("policy", "check", "policies"),
    (
        "policy",
        "explain",
        "policies",
        *("--actor", "ada", "--group", "readers", "--action", "read", "--graph", "people"),
    ),
    ("policy", "explain", "policies", *("--actor", "bob", "--action", "change", "--graph", "people")),
    ("token", "new", "ada", "--group", "readers", "--expires", "2999-01-01T00:00:00Z"),
    ("serve", "people=people.omni", "--check", "--unauthenticated"),
    ("completion", "fish"),
)
NOT_CALLED = frozenset(
    {
        *(("config",), ("demo",), ("explore",), ("login",), ("logout",), ("lsp",), ("mcp",), ("shell",)),
        ("spark", "sql"),
        *(("graph", "create"), ("graph", "delete"), ("graph", "list")),
    }
)
"""Commands whose output is held elsewhere: tests/demo, the `mcp` snapshot, tests/cli, tests/spark."""

_CHANGING = defaultdict(
    lambda: re.compile(r"(?!)"),
    token=re.compile(r"\bog_[\w-]{20,}|\b[0-9a-f]{64}\b"),
    version=re.compile(r"\b\d+\.\d+\.\d+\b"),
)
"""By command, what is new each time, or belongs to what is installed."""


def leaf_commands(command: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command that is no group."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        if below is not None:
            yield from leaf_commands(below, (*path, name))


def command_line(home: Path) -> Door:
    """Lay out a graph of three people in a new directory, and return the command line to it."""
    graph = laid_out(home)
    return Door(name=DOORS[2], home=home, graph=graph, way=["--store", graph.uri])


def run_calls(door: Door, *, as_json: bool) -> Iterator[tuple[str, str]]:
    """Make every call of `door_calls` in order, from the door's directory; yield its title and what came of it."""
    mask = Mask({door.graph.uri: "PLACE", str(door.home): "HOME"})
    for call in CALLS:
        outcome = door._run(call, as_json=as_json and call.as_json)
        printed = [f"exit {outcome.code}"]
        printed += [_show(mask.plain(part)) for part in (outcome.answer, outcome.error) if part is not None]
        yield f"{call.name}: {_words(call, as_json=as_json)}", "\n".join(printed)


def run_local_calls(home: Path, *, as_json: bool) -> Iterator[tuple[str, str]]:
    """Run the commands that are about no graph that is there, from a directory of `command_line`."""
    write_settings(home)
    (home / "mistakes.gq").write_text("query q() { match { $p: Persn } return { $p.nme } }\n", encoding="utf-8")
    mask = Mask({str(home): "HOME"})
    for words in LOCAL_CALLS:
        code, out, err = run([*words, *(["--json"] if as_json else [])])
        texts = [_CHANGING[words[0]].sub("CHANGING", part.decode()) for part in (out, err) if part]
        printed = [_show(mask.plain(json.loads(text) if as_json else text.encode())) for text in texts]
        yield shlex.join(words), "\n".join([f"exit {code}", *printed])


def ask_routes(served: Served) -> Iterator[tuple[str, str]]:
    """Ask every route as an administrator; yield the request and the answer."""
    mask = Mask({str(served.home): "HOME"})
    health = [Route("GET", path, frozenset()) for path in ("/healthz", "/readyz")]
    for route in (*health, *ROUTES):
        if route.path == "/openapi.json" or route.path.startswith("/mcp"):
            continue  # they have snapshots of their own
        status, text = request(served, route, "admin")
        if route.path == "/metrics":
            # Names and meanings only: which values and labels there are depends on what this process did before.
            text = "\n".join(sorted(line for line in text.splitlines() if line.startswith("#")))
        body = json.dumps(route.body) if isinstance(route.body, dict) else ""
        yield f"{route.method} {route.url or route.path} {body}", f"{status}\n{_show(mask.plain(_document(text)))}"


def ask_tools(served: Served) -> Iterator[tuple[str, str]]:
    """List what an agent of an administrator sees, and call each reading tool once."""
    mask = Mask({str(served.home): "HOME"})

    async def story(client: Any) -> list[tuple[str, Any]]:
        tools = (await client.list_tools()).tools
        found = [(f"tool {tool.name}", tool) for tool in tools]
        found += [(f"resource {one.uri}", one) for one in (await client.list_resources()).resources]
        found += [(f"prompt {one.name}", one) for one in (await client.list_prompts()).prompts]
        for name in ("guide", "mistakes"):
            found.append((f"read {name}", await client.read_resource(f"omnigraph://people/{name}")))
        for name, arguments in TOOL_CALLS.items():
            found.append((f"call {name} {json.dumps(arguments)}", await client.call_tool(name, arguments)))
        return found

    for title, value in talk(served, "admin", story):
        yield title, _show(mask.plain(value.model_dump(mode="json", exclude_none=True)))


TOOL_CALLS: Mapping[str, dict[str, Any]] = {
    "graph_schema": {},
    "graph_describe": {},
    "graph_search": {"text": "ad"},
    "graph_lint": {"query": "match (p:Person) return p"},
    "graph_query": {"query": ALL},
    "graph_explain": {"query": ALL},
    "graph_branches": {},
    "graph_commits": {"limit": 2},
    "graph_diff": {"before": "main", "after": "side"},
    "graph_create_branch": {"name": "drafts"},
    "graph_mutate": {"query": 'query add() { insert Person { name: "Zoe" } }', "branch": "drafts"},
    "graph_propose": {"query": 'query add() { insert Person { name: "Yan" } }', "branch": "agent/yan"},
    "graph_merge": {"source": "drafts"},
    "graph_delete_branch": {"branch": "drafts"},
    "friends": {"n": "Ada"},
}


def serve(home: Path) -> Served:
    """Start the server that routes and tools are asked of."""
    return serve_every_route(home)


def _words(call: Call, *, as_json: bool) -> str:
    return shlex.join([*call.words, *(["--json"] if as_json and call.as_json else [])])


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.encode()


def _show(value: Any) -> str:
    """Return lines as they are, and a document indented: a changed field is then a changed line."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
