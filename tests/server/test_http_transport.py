"""MCP over HTTP: typed tools under the same tokens, policies and limits as every route."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from agents import MODES, talk, text_of
from omnigraph.config.server import HostedGraph, ServerLimits
from omnigraph.server import stored_queries
from omnigraph.server.mcp import calls as mcp_calls
from serving import ADD, ALL, SCHEMA, TOKENS, Served, serving

READS = [
    "graph_schema",
    "graph_describe",
    "graph_search",
    "graph_lint",
    "graph_query",
    "graph_cypher",
    "graph_explain",
    "graph_branches",
    "graph_commits",
    "graph_diff",
]
AGE = "query age($n: String, $a: I64) { update Person set { age: $a } where name = $n }"
WRITES = ["graph_mutate", "graph_propose", "graph_create_branch", "graph_delete_branch", "graph_merge"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = serving(tmp_path_factory.mktemp("mcp"))
    yield found
    found.service.close()


async def tool_names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


def call(served: Served, role: str, tool: str, arguments: dict[str, Any], **how: str) -> Any:
    """The answer to one call."""
    return talk(served, role, lambda client: client.call_tool(tool, arguments), **how)


# --- what an agent sees ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "role, expected",
    [
        ("reader", ["friends", *READS]),
        ("writer", ["everybody", "friends", "rename_age", *READS, *WRITES]),
        ("admin", ["everybody", "friends", "rename_age", *READS, *WRITES]),
    ],
)
def test_the_tools_are_those_that_the_policy_allows(role: str, expected: list[str], mode: str, served: Served) -> None:
    assert talk(served, role, tool_names, mode=mode) == expected


def test_without_policies_nobody_sees_a_tool_that_writes(tmp_path: Path) -> None:
    served = serving(tmp_path, has_policies=False)

    assert talk(served, "admin", tool_names) == ["everybody", "friends", *READS]
    served.service.close()


def test_a_policy_about_some_branches_shows_the_tools_that_work_there(fresh: Served) -> None:
    (fresh.home / "policies" / "agents.cedar").write_text(
        'permit(principal in Group::"nobodys", action in [Action::"read", Action::"change"], resource)'
        ' when { resource is Branch && resource.name like "agent/*" };',
        encoding="utf-8",
    )
    other = serving(fresh.home / "other", config={"policies": fresh.home / "policies"})

    seen = talk(other, "nobody", tool_names)
    other.service.close()

    assert seen == [*READS, "graph_mutate"]


def test_a_stored_query_is_a_tool_with_types(served: Served) -> None:
    async def found(client: Client) -> Any:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    tools = talk(served, "writer", found)
    friends, rename = tools["friends"], tools["rename_age"]

    assert friends.description == "Whom somebody knows."
    assert friends.input_schema["properties"]["n"] == {"type": "string", "description": "String: a string"}
    assert friends.input_schema["required"] == ["n"]
    assert friends.output_schema["properties"]["rows"]["items"]["properties"] == {"q.name": {"type": "string"}}
    assert rename.input_schema["required"] == ["n", "a", "branch"]
    assert [one.annotations.read_only_hint for one in (friends, rename)] == [True, False]


def test_resources_are_the_schema_branches_and_commits(served: Served) -> None:
    async def read(client: Client) -> list[str]:
        listed = (await client.list_resources()).resources
        return [(await client.read_resource(one.uri)).contents[0].text for one in listed]  # type: ignore[union-attr]  # texts

    schema, guide, mistakes, branches, commits = talk(served, "reader", read)

    assert schema == served.graph.schema
    assert "node Person(name: String, age: I64?), key name" in guide
    assert "- WHERE: a predicate stands in the match block" in mistakes
    assert '"name":"main"' in branches
    assert served.graph.snapshot().commit.id in commits


# --- reads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_a_stored_query_answers_what_the_graph_answers(mode: str, served: Served) -> None:
    answer = call(served, "reader", "friends", {"n": "Ada"}, mode=mode)

    assert answer.structured_content["rows"] == [{"q.name": "Bob"}]
    assert text_of(answer).splitlines()[:2] == ['["q.name"]', '["Bob"]']


def test_an_answer_that_is_cut_says_how_to_go_on_and_that_is_right(served: Served) -> None:
    async def pages(client: Client) -> list[Any]:
        first = await client.call_tool("graph_query", {"query": ALL, "limit": 1})
        more = {"offset": first.structured_content["next_offset"], "snapshot": first.structured_content["commit_id"]}
        return [first, await client.call_tool("graph_query", {"query": ALL, "limit": 1, **more})]

    first, second = talk(served, "reader", pages)

    commit = first.structured_content["commit_id"]
    assert f'the result is cut: for more, repeat the call with offset=1 and snapshot="{commit}"' in text_of(first)
    rows = [row for page in (first, second) for row in page.structured_content["rows"]]
    assert rows == list(served.graph.query(ALL, snapshot=commit).json_rows())[:2]


def test_an_answer_is_cut_where_it_gets_long(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_calls, "MAX_RESPONSE_BYTES", len('["Ada",36]'))

    answer = call(served, "reader", "graph_query", {"query": ALL})

    assert len(answer.structured_content["rows"]) == 1
    assert answer.structured_content["next_offset"] == 1


def test_a_row_that_is_too_long_alone_is_an_error_with_a_way_out(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_calls, "MAX_RESPONSE_BYTES", 3)

    answer = call(served, "reader", "graph_query", {"query": ALL})

    assert answer.is_error
    assert answer.structured_content["code"] == "row_too_large"
    assert "return fewer of its properties" in text_of(answer)


def test_branches_and_commits_are_cut_where_they_get_long_and_all_can_be_had(
    fresh: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        fresh.graph.branches.create(name)
        fresh.graph.mutate(ADD, params={"n": name})
    monkeypatch.setattr(mcp_calls, "MAX_RESPONSE_BYTES", 600)

    async def everything(client: Client) -> tuple[list[str], list[str]]:
        branches: list[str] = []
        page: Any = {"next_offset": 0}
        while page["next_offset"] is not None:
            page = (await client.call_tool("graph_branches", {"offset": page["next_offset"]})).structured_content
            branches += [one["name"] for one in page["branches"]]
        commits: list[str] = []
        page = {"next_before": None}
        while not commits or page["next_before"] is not None:
            page = (await client.call_tool("graph_commits", {"before": page["next_before"]})).structured_content
            commits += [one["id"] for one in page["commits"]]
        return branches, commits

    branches, commits = talk(fresh, "reader", everything)

    assert branches == ["main", "a", "b", "c"]
    assert commits == [one.id for one in fresh.graph.commits()]


def test_a_text_full_of_mistakes_is_told_in_few_words(served: Served) -> None:
    query = "query q() { match { $p: Person } return { " + ", ".join(f"$p.x{n}" for n in range(3_000)) + " } }"

    answer = call(served, "reader", "graph_query", {"query": query})

    assert answer.structured_content["code"] == "invalid_source"
    assert len(text_of(answer)) <= 17_000
    assert len(json.dumps(answer.structured_content)) <= mcp_calls.MAX_RESPONSE_BYTES


def test_a_plan_is_told_as_text(served: Served) -> None:
    answer = call(served, "reader", "graph_explain", {"query": ALL})

    # A server has a memory limit of its own, which the choice of the engine names.
    assert text_of(answer) == served.graph.explain(ALL, memory_bytes=512 << 20).text


# --- an agent at work ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_works_on_a_branch_of_its_own_and_merges_it(mode: str, fresh: Served) -> None:
    async def work(client: Client) -> list[Any]:
        schema = await client.read_resource("omnigraph://people/schema")
        assert "node Person" in schema.contents[0].text  # type: ignore[union-attr]  # a text
        mine = {"branch": "agent/ages"}
        return [
            await client.call_tool("graph_create_branch", {"name": "agent/ages"}),
            await client.call_tool("rename_age", {"n": "Ada", "a": 37, **mine}),
            await client.call_tool("graph_mutate", {"query": ADD, "params": {"n": "Eve"}, **mine}),
            await client.call_tool("graph_diff", {"before": "main", "after": "agent/ages"}),
            await client.call_tool("graph_merge", {"source": "agent/ages", "into": "main", "message": "ages"}),
        ]

    *_, diff, merged = done = talk(fresh, "writer", work, mode=mode)

    assert not any(one.is_error for one in done)
    assert {(one["id"], one["change"]) for one in diff.structured_content["changes"]} == {
        ("Ada", "updated"),
        ("Eve", "inserted"),
    }
    commit = fresh.graph.snapshot().commit
    assert (commit.id, commit.actor) == (merged.structured_content["commit_id"], "writer")
    assert len(fresh.graph.query(ALL).rows()) == 3


def test_conflicts_of_a_merge_are_a_tool_error_that_lists_them(fresh: Served) -> None:
    fresh.graph.branches.create("side")
    for branch, age in (("side", 1), ("main", 2)):
        fresh.graph.mutate(AGE, params={"n": "Ada", "a": age}, branch=branch)

    answer = call(fresh, "writer", "graph_merge", {"source": "side", "into": "main"})

    assert answer.is_error
    assert answer.structured_content["code"] == "merge_conflicts"
    assert '"Ada"' in text_of(answer)


def test_one_conflict_is_counted_as_one(fresh: Served) -> None:
    fresh.graph.branches.create("side")
    for branch, age in (("side", 1), ("main", 2)):
        fresh.graph.mutate(AGE, params={"n": "Ada", "a": age}, branch=branch)

    answer = call(fresh, "writer", "graph_merge", {"source": "side", "into": "main"})

    assert "merge_conflicts: 1 conflict between `side` and `main`: nothing was merged. Resolve this" in text_of(answer)


def test_a_write_that_is_repeated_with_its_key_is_done_once(fresh: Served) -> None:
    arguments = {"query": ADD, "params": {"n": "Eve"}, "branch": "main", "idempotency_key": "k1"}

    commits = {call(fresh, "writer", "graph_mutate", arguments).structured_content["commit_id"] for _ in range(2)}

    assert len(commits) == 1


# --- who may what ----------------------------------------------------------------------------------------


def refused(served: Served, role: str, tool: str, arguments: dict[str, Any]) -> tuple[int, str]:
    with pytest.raises(BaseExceptionGroup) as caught:
        call(served, role, tool, arguments)
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, MCPError)
    return error.code, error.message.replace(tool, "TOOL")


@pytest.mark.parametrize("arguments", [{"n": "Ada", "a": 1, "branch": "main"}, {"nonsense": 1}, {}])
def test_a_tool_that_is_forbidden_looks_like_one_that_is_not_there(arguments: dict[str, Any], served: Served) -> None:
    unknown = refused(served, "reader", "never_was", arguments)

    assert [refused(served, "reader", tool, arguments) for tool in ("rename_age", "everybody", "graph_mutate")] == [
        unknown
    ] * 3
    assert "that you may call" in unknown[1]


def test_a_branch_that_is_denied_is_a_tool_error_with_its_code(fresh: Served) -> None:
    fresh.graph.branches.create("vault/gold")

    answer = call(fresh, "writer", "graph_mutate", {"query": ADD, "params": {"n": "X"}, "branch": "vault/gold"})

    assert answer.is_error
    assert answer.structured_content["code"] == "denied"
    assert answer.structured_content["action"] == "read"


@pytest.mark.parametrize("uri", ["omnigraph://people/schema/vault/gold", "omnigraph://people/schema/never-was"])
def test_a_resource_that_is_forbidden_looks_like_one_that_is_not_there(uri: str, fresh: Served) -> None:
    fresh.graph.branches.create("vault/gold")

    with pytest.raises(BaseExceptionGroup) as caught:
        talk(fresh, "writer", lambda client: client.read_resource(uri))

    assert "there is no such resource that you may read" in repr(caught.value)


def test_the_token_alone_says_who_acts(fresh: Served) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "graph_mutate",
            "arguments": {"query": ADD, "params": {"n": "Eve"}, "branch": "main"},
            "_meta": {"actor": "admin"},
        },
    }
    headers = {**fresh.as_role("writer"), "Accept": "application/json", "X-Actor": "admin", "Mcp-Session-Id": "admin"}

    fresh.client.post("/mcp", json=body, headers=headers)

    assert fresh.graph.snapshot().commit.actor == "writer"


def test_the_short_path_is_the_graph_that_the_actor_sees(served: Served) -> None:
    assert talk(served, "reader", tool_names, path="/mcp") == ["friends", *READS]


def test_the_short_path_does_not_tell_of_graphs_that_the_actor_does_not_see(served: Served) -> None:
    answer = served.client.post("/mcp", json={}, headers=served.as_role("nobody"))

    assert (answer.status_code, answer.json()["code"]) == (400, "graph_unclear")
    assert "people" not in answer.text


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_there_are_no_sessions_to_resume_or_end(method: str, served: Served) -> None:
    assert served.client.request(method, "/mcp/people", headers=served.as_role("reader")).status_code == 405


# --- bad input -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tool, arguments, code",
    [
        ("friends", {"n": 7}, "invalid_parameters"),
        ("friends", {}, "invalid_parameters"),
        ("friends", {"n": "Ada", "m": 1}, "invalid_parameters"),
        ("friends", {"n": "Ada", "limit": 0}, "bad_request"),
        ("friends", {"n": "Ada", "limit": 100_000}, "bad_request"),
        ("friends", {"n": "Ada", "offset": -1}, "bad_request"),
        ("friends", {"n": "Ada", "branch": "never-was"}, "branch_not_found"),
        ("friends", {"n": "Ada", "at": "yesterday"}, "bad_request"),
        ("graph_query", {}, "bad_request"),
        ("graph_query", {"query": ALL, "nonsense": 1}, "bad_request"),
        ("graph_query", {"query": ["x"]}, "bad_request"),
        ("graph_query", {"query": "query q("}, "invalid_source"),
        ("graph_query", {"query": ADD, "params": {"n": "X"}}, "not_a_read"),
        ("graph_query", {"query": "x" * 100_000}, "text_too_large"),
        ("graph_diff", {"before": "main", "after": "never-was"}, "branch_not_found"),
    ],
)
def test_bad_arguments_are_a_tool_error_with_a_code_and_a_story(
    tool: str, arguments: dict[str, Any], code: str, served: Served
) -> None:
    answer = call(served, "reader", tool, arguments)

    assert answer.is_error
    assert answer.structured_content["code"] == code
    assert text_of(answer).startswith(f"{code}: ")
    assert text_of(answer).endswith(f"\nWhat to do: {answer.structured_content['instruction']}")


@pytest.mark.parametrize("value", ["\ud800", float("nan"), float("inf")], ids=["half a pair", "nan", "infinity"])
def test_what_json_does_not_have_is_refused(value: object, served: Served) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "friends", "arguments": {"n": value}}}
    headers = {**served.as_role("reader"), "Accept": "application/json", "Content-Type": "application/json"}
    text = json.dumps(body).encode()

    answer = served.client.post("/mcp/people", content=text, headers=headers)

    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        assert answer.json()["result"]["structuredContent"]["code"] in ("bad_request", "invalid_parameters")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b'{"jsonrpc":"2.0"}', b"[" * 5_000, b"\xff\xfe"])
@pytest.mark.parametrize("version", [None, "2026-07-28", "1999-01-01"])
def test_what_is_no_message_is_a_4xx(body: bytes, version: str | None, served: Served) -> None:
    headers = {**served.as_role("reader"), "Accept": "application/json, text/event-stream"}
    headers |= {"Content-Type": "application/json"} | ({} if version is None else {"MCP-Protocol-Version": version})

    answer = served.client.post("/mcp/people", content=body, headers=headers)

    assert answer.status_code == 400


def test_a_body_that_is_too_large_is_refused_before_it_is_understood(tmp_path: Path) -> None:
    served = serving(tmp_path, limits=ServerLimits(threads=2, body_bytes=1_000))

    answer = served.client.post("/mcp/people", content=b" " * 1_001, headers=served.as_role("reader"))

    assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")
    served.service.close()


@pytest.mark.parametrize(
    "tool, arguments, code",
    [
        ("graph_query", {"query": ALL}, "query_timeout"),
        ("friends", {"n": "Ada"}, "query_timeout"),
        ("graph_mutate", {"query": ADD, "params": {"n": "X"}, "branch": "main"}, "query_timeout"),
        ("graph_diff", {"before": "main", "after": "side"}, "request_too_long"),
    ],
)
def test_a_call_has_the_deadline_of_every_request(
    tool: str, arguments: dict[str, Any], code: str, tmp_path: Path
) -> None:
    served = serving(tmp_path, limits=ServerLimits(threads=2, seconds=1e-9, write_seconds=1e-9))
    served.graph.branches.create("side")
    served.graph.mutate(ADD, params={"n": "Eve"}, branch="side")

    answer = call(served, "writer", tool, arguments)

    assert answer.structured_content["code"] == code
    served.service.close()


WRITING = {"query": ADD, "params": {"n": "Eve"}, "branch": "main"}
RENAMING = {"n": "Ada", "a": 37, "branch": "main"}


@pytest.mark.parametrize(
    "tool, arguments",
    [
        ("graph_query", {"query": ALL, "seconds": 0}),
        ("graph_explain", {"query": ALL, "analyze": True, "seconds": 0}),
        ("graph_mutate", {**WRITING, "seconds": 0}),
        ("graph_merge", {"source": "side", "into": "main", "seconds": 0}),
        ("friends", {"n": "Ada", "seconds": 0}),
        ("rename_age", {**RENAMING, "seconds": 0}),
        ("graph_query", {"query": ALL, "memory_bytes": 1}),
        ("graph_mutate", {**WRITING, "memory_bytes": 1}),
        ("friends", {"n": "Ada", "memory_bytes": 1}),
        ("rename_age", {**RENAMING, "memory_bytes": 1}),
    ],
)
def test_a_call_has_the_limits_that_it_asks_for(tool: str, arguments: dict[str, Any], fresh: Served) -> None:
    fresh.graph.branches.create("side")
    fresh.graph.mutate(ADD, params={"n": "Ida"}, branch="side")
    head = fresh.graph.snapshot().commit.id

    answer = call(fresh, "writer", tool, arguments)

    assert answer.structured_content["code"] == ("query_timeout" if "seconds" in arguments else "query_memory")
    assert fresh.graph.snapshot().commit.id == head


def test_a_client_that_goes_away_ends_its_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = serving(tmp_path)
    budget, cancelled = served.service.build_read_budget(), threading.Event()
    monkeypatch.setattr(budget, "cancel", cancelled.set)
    monkeypatch.setattr(served.service, "build_read_budget", lambda *_: budget)
    monkeypatch.setattr("omnigraph.graph.graph.query", lambda *_: cancelled.wait(60) or pytest.fail("it went on"))
    call = {"name": "graph_query", "arguments": {"query": ALL}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])
    token = f"Bearer {TOKENS['reader']}".encode()
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp/people",
        "raw_path": b"/mcp/people",
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            (b"authorization", token),
            (b"accept", b"application/json"),
            (b"content-type", b"application/json"),
        ],
    }

    async def receive() -> Any:
        return next(messages, {"type": "http.disconnect"})

    async def send(_: Any) -> None:
        pass

    async def ask() -> None:
        await served.client.app(scope, receive, send)

    anyio.run(ask)

    assert cancelled.is_set()
    served.service.close()


def test_writes_are_counted_like_those_of_every_route(tmp_path: Path) -> None:
    served = serving(tmp_path)
    arguments = {"query": ADD, "params": {"n": "X"}, "branch": "main"}

    with served.service.admission.admit_write("writer") as _, pytest.MonkeyPatch.context() as patch:
        patch.setattr(served.service.admission, "_limits", ServerLimits(writes_per_actor=1))
        answer = call(served, "writer", "graph_mutate", arguments)

    assert answer.structured_content["code"] == "too_many_requests"
    served.service.close()


def test_what_nobody_foresaw_tells_the_agent_nothing_but_an_id(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError(TOKENS["admin"])

    monkeypatch.setattr("omnigraph.graph.graph.query", fails)

    answer = call(served, "reader", "graph_query", {"query": ALL})

    assert answer.structured_content["code"] == "internal"
    assert TOKENS["admin"] not in text_of(answer) + str(answer.structured_content)
    assert answer.structured_content["request_id"] in text_of(answer)


def test_calls_are_counted_by_tool_and_outcome_but_not_by_names_that_somebody_made_up(fresh: Served) -> None:
    async def calls(client: Client) -> None:
        await client.call_tool("friends", {"n": "Ada"})
        await client.call_tool("friends", {"n": 7})
        with pytest.raises(MCPError):
            await client.call_tool("made_up", {})

    talk(fresh, "reader", calls)

    text = fresh.service.metrics.render()
    assert 'omnigraph_tool_calls_total{graph="people",outcome="ok",tool="friends"} 1\n' in text
    assert 'omnigraph_tool_calls_total{graph="people",outcome="invalid_parameters",tool="friends"} 1\n' in text
    assert 'omnigraph_tool_calls_total{graph="people",outcome="tool_not_found",tool="-"} 1\n' in text
    assert "made_up" not in text


def test_of_a_graph_that_is_served_read_only_nobody_sees_a_tool_that_writes(fresh: Served) -> None:
    graph = HostedGraph(id="people", uri=fresh.graph.uri, queries=fresh.home / "queries", is_read_only=True)
    other = serving(fresh.home / "other", config={"graphs": (graph,)})

    seen = talk(other, "admin", tool_names)
    other.service.close()

    assert seen == ["everybody", "friends", *READS]


def test_where_the_library_is_missing_the_rest_is_served(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: object) -> None:
        raise ModuleNotFoundError("No module named 'mcp'", name="mcp")

    monkeypatch.setattr("omnigraph.server.http.routes_mcp.load_extension", missing)

    answer = served.client.post("/mcp/people", json={}, headers=served.as_role("reader"))

    assert (answer.status_code, answer.json()["code"]) == (503, "mcp_missing")
    assert served.client.get("/graphs", headers=served.as_role("reader")).status_code == 200


@pytest.mark.parametrize("control", ["limit", "branch", "seconds"])
def test_a_parameter_that_is_named_like_a_control_is_the_parameter(control: str, fresh: Served) -> None:
    text = f"query odd(${control}: String) {{ match {{ $p: Person {{ name: ${control} }} }} return {{ $p.age }} }}\n"
    (fresh.home / "queries" / "odd.gq").write_text(text, encoding="utf-8")
    fresh.service.registry.graphs["people"].open()

    answer = call(fresh, "admin", "odd", {control: "Ada"})

    assert answer.structured_content["rows"] == [{"p.age": 36}]


def test_a_stored_query_with_the_name_of_a_tool_has_another_name(fresh: Served) -> None:
    text = "query graph_query() { match { $p: Person } return { count($p) as people } }\n"
    (fresh.home / "queries" / "odd.gq").write_text(text, encoding="utf-8")
    fresh.service.registry.graphs["people"].open()

    answer = call(fresh, "admin", "stored_graph_query", {})

    assert answer.structured_content["rows"] == [{"people": 2}]
    assert "graph_query" in talk(fresh, "admin", tool_names)


def test_a_schema_that_changes_changes_the_tools(fresh: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_queries, "_POLL_SECONDS", -1.0)
    text = "query whole() { match { $p: Person } return { $p } }\n"
    (fresh.home / "queries" / "whole.gq").write_text(text, encoding="utf-8")

    async def shape(client: Client) -> Any:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        rows = (tools["whole"].output_schema or {})["properties"]["rows"]["items"]
        answer = await client.call_tool("whole", {})
        return set(rows["properties"]["p"]["properties"]), set(answer.structured_content["rows"][0]["p"])

    before = talk(fresh, "writer", shape)
    fresh.graph.apply_schema(SCHEMA.replace("age: I64?", "age: I64?  nick: String?"))
    after = talk(fresh, "writer", shape)

    assert before == ({"id", "@type", "name", "age"},) * 2
    assert after == ({"id", "@type", "name", "age", "nick"},) * 2


def test_rows_that_are_not_as_their_tool_declares_are_an_error_with_a_way_out(
    fresh: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = fresh.service.registry.graphs["people"].stored_queries
    assert found is not None
    others = [replace(one, columns=pa.schema([pa.field("q.name", pa.int64())])) for one in found.list_all()]
    monkeypatch.setattr(found, "list_all", lambda: others)

    answer = call(fresh, "reader", "friends", {"n": "Ada"})

    assert answer.structured_content["code"] == "columns_differ"
    assert "graph_query" in text_of(answer)
