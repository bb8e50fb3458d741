"""MCP of a real server on loopback: what only sockets, streams and signals can show."""

import signal
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged

from agents import SECONDS
from server_process import Process, laid_out, running
from serving import TOKENS

NEW = "query newest() { match { $p: Person } return { count($p) as people } }\n"
BRANCHES = "omnigraph://people/branches"


def test_who_listens_is_told_of_changes_until_the_server_stops(tmp_path: Path) -> None:
    graph = laid_out(tmp_path)
    with running(graph, tmp_path) as process:
        events, tools = anyio.run(listening, process, tmp_path)
        code = process.popen.wait(SECONDS)

    assert events == [ToolsListChanged(), ResourceUpdated(uri=BRANCHES)]
    assert "newest" in tools
    assert code == 0


async def listening(process: Process, home: Path) -> tuple[list[Any], list[str]]:
    """What somebody hears while stored queries, then branches change, and then the server is told to stop."""
    headers = {"Authorization": f"Bearer {TOKENS['writer']}"}
    events: list[Any] = []
    tools: list[str] = []
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http:
        url = f"http://{process.host}:{process.port}/mcp/people"
        async with Client(streamable_http_client(url, http_client=http)) as client:
            with anyio.fail_after(SECONDS):
                async with client.listen(tools_list_changed=True, resource_subscriptions=[BRANCHES]) as changes:
                    (home / "queries" / "new.gq").write_text(NEW, encoding="utf-8")
                    async for event in changes:
                        events.append(event)
                        if isinstance(event, ToolsListChanged):
                            tools = [tool.name for tool in (await client.list_tools()).tools]
                            await client.call_tool("graph_create_branch", {"name": "agent/new"})
                        else:
                            process.popen.send_signal(signal.SIGTERM)
    return events, tools
