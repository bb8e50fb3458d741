"""MCP over pipes: an agent that starts `omnigraph mcp` works with one graph, in a process of its own."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import anyio
import pytest

import omnigraph as og
from agents import child
from omnigraph.engine.query_budget import Budget
from omnigraph.errors import SettingsError
from omnigraph.policy import Actor
from omnigraph.server.mcp import calls
from omnigraph.server.mcp.arguments import QueryArguments
from omnigraph.server.mcp.stdio import OVERSIZED_LINE, StdinLines, _StdioAgent, serve_mcp
from server_process import laid_out
from serving import ADD, ALL, serving

NEW = "query newest() { match { $p: Person } return { count($p) as people } }\n"
CANARY = "canary-of-an-agent-91c2"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("agents")
    laid_out(found)
    return found


def test_an_agent_acts_for_somebody_under_the_policies_of_the_settings(home: Path, tmp_path: Path) -> None:
    log = tmp_path / "agent.log"
    words = ("--config", str(home / "omnigraph.toml"), "--as", "ada", "--group", "writers")
    mine = {"branch": "agent/ada"}

    async def work() -> list[Any]:
        async with child(log, *words) as client:
            found: list[Any] = [[tool.name for tool in (await client.list_tools()).tools]]
            found.append(await client.read_resource("omnigraph://people/schema"))
            for tool, arguments in (
                ("graph_create_branch", {"name": "agent/ada"}),
                ("graph_mutate", {"query": ADD, "params": {"n": CANARY}, **mine}),
                ("graph_query", {"query": ALL, **mine}),
                ("graph_diff", {"before": "main", "after": "agent/ada"}),
                ("graph_mutate", {"query": ADD, "params": {"n": "X"}, "branch": "vault/gold"}),
                ("friends", {"n": CANARY, "m": CANARY}),
            ):
                found.append(await client.call_tool(tool, arguments))
            async with client.listen(tools_list_changed=True) as changes:
                (home / "queries" / "new.gq").write_text(NEW, encoding="utf-8")
                async for _ in changes:
                    break
            found.append([tool.name for tool in (await client.list_tools()).tools])
            return found

    before, schema, made, added, rows, diff, denied, wrong, after = anyio.run(work)

    graph = og.open_graph(str(home / "people.omni"), read_only=True)
    commit = graph.snapshot(branch="agent/ada").commit
    assert "graph_mutate" in before
    assert schema.contents[0].text == graph.schema
    assert made.structured_content["created_by"] == "ada"
    assert (commit.id, commit.actor) == (added.structured_content["commit_id"], "ada")
    assert {row["p.name"] for row in rows.structured_content["rows"]} == {"Ada", "Bob", CANARY}
    assert [(one["id"], one["change"]) for one in diff.structured_content["changes"]] == [(CANARY, "inserted")]
    assert denied.structured_content["code"] == "denied"
    assert wrong.structured_content["code"] == "invalid_parameters"
    assert sorted({*after} - {*before}) == ["newest"]
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert {line["actor"] for line in lines if line["event"] == "request"} == {"ada"}
    assert [line["error"] for line in lines if line.get("error")] == ["denied", "invalid_parameters"]
    assert CANARY not in log.read_text(encoding="utf-8")


class Pipes:
    """A child that is spoken to by hand, with the protocol that begins with a handshake."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self.heard: list[Any] = []
        self._number = 0

    def write(self, line: bytes) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(line + b"\n")
        self.popen.stdin.flush()

    def read(self) -> Any:
        """The next message."""
        out: IO[bytes] | None = self.popen.stdout
        assert out is not None
        return json.loads(out.readline())

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """The answer to a request; whatever comes before it is kept."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.write(json.dumps(message).encode())
        while (answer := self.read()).get("id") != self._number:
            self.heard.append(answer)
        return answer

    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.ask("tools/list", {})["result"]["tools"]]


@contextmanager
def by_hand(*words: str) -> Iterator[Pipes]:
    command = [sys.executable, "-m", "omnigraph", "mcp", *words]
    environment = {**os.environ, "LANCE_LOG": "error"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment) as popen:
        try:
            yield Pipes(popen)
        finally:
            popen.kill()


def test_without_being_allowed_to_write_an_agent_only_reads_and_survives_nonsense(home: Path, tmp_path: Path) -> None:
    queries = tmp_path / "queries"
    queries.mkdir()
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    write = {"name": "graph_mutate", "arguments": {"query": ADD, "params": {"n": "X"}, "branch": "main"}}

    with by_hand(str(home / "people.omni"), "--queries", str(queries)) as agent:
        for line in (b"nonsense", b"[1]", b"\xff\xfe", b'{"jsonrpc":"2.0","method":"never/was"}'):
            agent.write(line)
        hello = agent.ask("initialize", begin)["result"]
        agent.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        before = agent.tools()
        refused = agent.ask("tools/call", write)
        (queries / "new.gq").write_text(NEW, encoding="utf-8")
        heard = agent.read()
        after = agent.tools()
        assert agent.popen.stdin is not None
        agent.popen.stdin.close()
        code = agent.popen.wait(60)

    assert hello["capabilities"]["tools"] == {"listChanged": True}
    assert "create your own branch" in hello["instructions"]
    assert not {"graph_mutate", "graph_merge"} & {*before}
    assert refused["error"]["message"] == "there is no tool `graph_mutate` that you may call"
    assert heard["method"] == "notifications/tools/list_changed"
    assert sorted({*after} - {*before}) == ["newest"]
    assert code == 0


def test_a_line_that_is_too_long_is_left_out(home: Path) -> None:
    with by_hand(str(home / "people.omni")) as agent:
        agent.write(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":"' + b"x" * 2**21 + b'"}}')
        pong = agent.ask("ping", {})

    assert pong["result"] == {}
    assert 7 not in [one.get("id") for one in agent.heard]


class Endless(io.RawIOBase):
    """One line of very many bytes, and a short one."""

    def __init__(self, size: int) -> None:
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left < 0:
            return 0
        self._left -= len(buffer)
        piece = b"x" * len(buffer) if self._left >= 0 else b"\nshort\n"
        buffer[: len(piece)] = piece
        return len(piece)


def test_of_a_line_that_is_too_long_only_a_piece_is_in_memory() -> None:
    lines = StdinLines(cast("BinaryIO", io.BufferedReader(Endless(2**26))), limit=2**16)

    async def all_of_them() -> list[str]:
        return [line async for line in lines]

    tracemalloc.start()
    found = anyio.run(all_of_them)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert found == [OVERSIZED_LINE, "short\n"]
    assert most < 2**23


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("size, is_taken", [(9, True), (10, True), (11, False)])
def test_a_message_may_be_as_long_as_a_body_and_its_end_does_not_count(
    size: int, end: bytes, *, is_taken: bool
) -> None:
    lines = StdinLines(io.BytesIO(b"x" * size + end), limit=10)

    async def all_of_them() -> list[str]:
        return [line async for line in lines]

    found = anyio.run(all_of_them)

    assert found == ["x" * size + end.decode() if is_taken else OVERSIZED_LINE]


def test_behind_a_line_that_is_too_long_comes_the_next() -> None:
    lines = StdinLines(io.BytesIO(b"x" * 10 + b"\ry\n" + b"x" * 11 + b"\n" + b"x" * 12 + b"\n" + b"short\n"), limit=10)

    async def all_of_them() -> list[str]:
        return [line async for line in lines]

    found = anyio.run(all_of_them)

    assert found == [OVERSIZED_LINE, OVERSIZED_LINE, OVERSIZED_LINE, "short\n"]


def test_a_signal_ends_it_though_its_stdin_is_open(home: Path) -> None:
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}

    with by_hand(str(home / "people.omni")) as agent:
        agent.ask("initialize", begin)
        agent.popen.send_signal(signal.SIGINT)
        code = agent.popen.wait(60)

    assert code == 0


def test_a_call_that_is_taken_back_ends_its_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serving(tmp_path, is_open_to_all=True)
    begun, ended = threading.Event(), threading.Event()

    def endless(*_: object) -> None:
        budget = _[-1]
        assert isinstance(budget, Budget)
        begun.set()
        try:
            while True:
                budget.check()
        finally:
            ended.set()

    monkeypatch.setattr("omnigraph.graph.graph.query", endless)
    caller = _StdioAgent(served.service, "people", Actor(name="a"))._build_caller("tools/call")

    async def taken_back() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(calls.query, caller, QueryArguments(query=ALL))
            await anyio.to_thread.run_sync(begun.wait, 60)
            tasks.cancel_scope.cancel()

    anyio.run(taken_back)

    assert ended.wait(60)
    served.service.close()


@pytest.mark.parametrize(
    "settings, reason",
    [
        ({"config": "omnigraph.toml"}, "name the actor that the agent acts as with --as"),
        ({"config": "omnigraph.toml", "actor": "ada", "write": True}, "leave --write out"),
        ({"config": "omnigraph.toml", "graph": "persons", "actor": "ada"}, "there is no graph `persons`"),
        ({"config": "two.toml"}, "choose the graph that the agent works on with --graph: one, two"),
    ],
)
def test_it_has_to_be_clear_which_graph_an_agent_works_on_and_for_whom(
    settings: dict[str, Any], reason: str, home: Path
) -> None:
    two = "".join(f'[graphs.{name}]\nuri = "people.omni"\n' for name in ("one", "two"))
    (home / "two.toml").write_text(two, encoding="utf-8")

    with pytest.raises(SettingsError, match=reason):
        serve_mcp(**{**settings, "config": home / settings["config"]})
