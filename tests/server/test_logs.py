"""Logs tell who did what with which outcome, and never a token, a parameter's value, a row or a query."""

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from omnigraph.clock import SystemClock
from omnigraph.commit.recovery import RecoveryReport
from omnigraph.config.tokens import format_token_entry
from omnigraph.server.logs import FIELDS, REQUEST, BufferedHandler, JsonFormatter
from serving import ADD, ALL, TOKENS, Served, serving

CANARY = "canary-of-a-value-7f3a"
"""A value that is sent in every way there is, and must be in no log."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = serving(tmp_path)
    yield found
    found.service.close()


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged at every level, by the server, the engine and every library."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter(SystemClock()))
    handler.addFilter(lambda record: not record.name.startswith("http"))  # what the test's own client says
    root, ours = logging.getLogger(), logging.getLogger("omnigraph")
    levels = root.level, ours.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    ours.setLevel(logging.DEBUG)
    yield out
    root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def requests_of(out: io.StringIO) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    return [one for one in found if one["event"] == "request"]


def test_a_line_tells_who_did_what(served: Served, lines: io.StringIO) -> None:
    answer = served.client.post(
        "/graphs/people/mutate", json={"query": ADD, "params": {"n": "Eve"}}, headers=served.as_role("writer")
    )

    (line,) = requests_of(lines)
    assert line | {"time": "", "ms": 0} == {
        "time": "",
        "level": "info",
        "logger": "omnigraph.server",
        "event": "request",
        "request_id": answer.headers["x-request-id"],
        "client": "testclient",
        "actor": "writer",
        "method": "POST",
        "route": "/graphs/{graph}/mutate",
        "action": "change",
        "graph": "people",
        "branch": "main",
        "query": None,
        "commit": answer.json()["commit_id"],
        "status": 200,
        "error": None,
        "ms": 0,
    }


def test_a_line_names_the_stored_query(served: Served, lines: io.StringIO) -> None:
    served.client.post(
        "/graphs/people/queries/friends", json={"params": {"n": "Ada"}}, headers=served.as_role("reader")
    )
    served.client.post("/graphs/people/queries/made_up", json={}, headers=served.as_role("reader"))

    assert [line["query"] for line in requests_of(lines)] == ["friends", None]


def test_a_line_tells_where_a_failed_authentication_came_from(served: Served, lines: io.StringIO) -> None:
    served.client.get("/graphs", headers={"Authorization": "Bearer og_wrong"})

    (line,) = requests_of(lines)
    assert (line["client"], line["error"], line["status"]) == ("testclient", "unauthenticated", 401)
    assert (line["actor"], line["rejected"]) == (None, "unknown token")


def test_a_line_names_the_owner_of_an_expired_token(served: Served, lines: io.StringIO) -> None:
    expired = format_token_entry(TOKENS["revoked"], "ada", (), datetime(2020, 1, 1, tzinfo=UTC))
    path = served.home / "tokens.toml"
    path.write_text(path.read_text(encoding="utf-8") + expired, encoding="utf-8")

    served.client.get("/graphs", headers=served.as_role("revoked"))
    served.client.get("/graphs")

    assert [line["rejected"] for line in requests_of(lines)] == ["expired token of ada", "no token"]


def test_no_log_has_a_token_a_value_a_row_or_a_query(served: Served, lines: io.StringIO) -> None:
    client = served.client
    for role in TOKENS:
        headers = served.as_role(role)
        client.post("/graphs/people/mutate", json={"query": ADD, "params": {"n": CANARY}}, headers=headers)
        client.post("/graphs/people/mutate", json={"query": ADD, "params": {"n": 7, "x": CANARY}}, headers=headers)
        client.post("/graphs/people/query", json={"query": ALL}, headers=headers)
        client.post("/graphs/people/query", json={"query": f"query {CANARY}"}, headers=headers)
        client.post("/graphs/people/query", content=f'{{"query": "{CANARY}', headers=headers)
        client.post("/graphs/people/query", json={"query": ALL, CANARY: CANARY}, headers=headers)
        client.post("/graphs/people/queries/friends", json={"params": {"n": CANARY}}, headers=headers)
        client.post(f"/graphs/people/queries/{CANARY}", json={}, headers=headers)
        line = json.dumps({"type": "Person", "data": {"name": CANARY, "age": CANARY}})
        client.post("/graphs/people/load?mode=append", content=line, headers=headers)
        client.get(f"/{CANARY}?token={TOKENS[role]}", headers=headers)
        client.get(f"/graphs/people/commits?limit={CANARY}", headers=headers)
        client.post("/graphs/people/export", json={}, headers=headers)

    text = lines.getvalue() + served.service.metrics.render()
    assert len(requests_of(lines)) == 12 * len(TOKENS)
    assert CANARY not in text
    assert [role for role, token in TOKENS.items() if token in text] == []
    assert "query people()" not in text


def test_what_nobody_foresaw_is_a_500_with_an_id_that_is_in_the_log(
    served: Served, lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr("omnigraph.graph.graph.query", fails)

    answer = served.client.post("/graphs/people/query", json={"query": ALL}, headers=served.as_role("reader"))

    failures = [json.loads(line) for line in lines.getvalue().splitlines() if '"failure"' in line]
    assert answer.status_code == 500
    assert CANARY not in answer.text + lines.getvalue()
    assert {one["request_id"] for one in failures} == {answer.json()["request_id"]}
    assert failures[0]["exception"] == "ZeroDivisionError"
    assert "fails" in failures[0]["trace"][-1]
    assert str(served.home) not in answer.text


def test_an_error_body_never_has_the_token(served: Served) -> None:
    answers = [
        served.client.get(path, headers=served.as_role(role))
        for role in TOKENS
        for path in ("/nowhere", "/graphs/nope/schema", "/graphs/people/schema?branch=nope")
    ]

    text = "".join(one.text + str(one.headers) for one in answers)
    assert [role for role, token in TOKENS.items() if token in text] == []


def test_metrics_count_requests_commits_and_conflicts(served: Served) -> None:
    headers = served.as_role("writer")
    old = served.graph.snapshot().commit.id
    for body in ({"params": {"n": "A1"}}, {"params": {"n": "A2"}, "if_commit": old}):
        served.client.post("/graphs/people/mutate", json={"query": ADD, **body}, headers=headers)

    text = served.client.get("/metrics", headers=headers).text

    assert 'omnigraph_commits_total{graph="people",operation="mutate"} 1\n' in text
    assert 'omnigraph_conflicts_total{graph="people"} 1\n' in text
    assert 'omnigraph_requests_total{method="POST",route="/graphs/{graph}/mutate",status="409"} 1\n' in text
    assert 'omnigraph_request_seconds_count{route="/graphs/{graph}/mutate"} 2\n' in text
    assert 'omnigraph_graph_open{graph="people"} 1\n' in text


def test_metrics_count_what_was_recovered(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    report = RecoveryReport(rolled_back=["a", "b"], rolled_forward=["c"])
    monkeypatch.setattr("omnigraph.commit.recovery.recover", lambda *_, **__: report)
    served.service.registry.graphs["people"].open()

    text = served.client.get("/metrics", headers=served.as_role("reader")).text

    found = [line for line in text.splitlines() if line.startswith("omnigraph_recoveries_total{")]
    assert found == [
        'omnigraph_recoveries_total{graph="people",outcome="rolled_back"} 2',
        'omnigraph_recoveries_total{graph="people",outcome="rolled_forward"} 1',
    ]


@pytest.mark.parametrize("name", ["asyncio", "mcp.server.runner", "uvicorn.error"])
def test_of_what_libraries_say_only_the_template_is_shown(name: str) -> None:
    record = logging.LogRecord(name, logging.ERROR, "f.py", 1, f"it failed: %s\nfuture: {CANARY}", (CANARY,), None)

    line = json.loads(JsonFormatter(SystemClock()).format(record))

    assert line["event"] == "it failed: %s"


@pytest.mark.parametrize("version", [None, "2026-07-28"])
def test_no_log_has_what_an_agent_says(version: str | None, served: Served, lines: io.StringIO) -> None:
    headers = {"Accept": "application/json, text/event-stream"}
    headers |= {} if version is None else {"MCP-Protocol-Version": version}
    calls = [
        {"name": "friends", "arguments": {"n": CANARY}},
        {"name": "friends", "arguments": {"n": 7, CANARY: CANARY}},
        {"name": CANARY, "arguments": {}},
        {"name": "graph_query", "arguments": {"query": f"query {CANARY}"}},
        {"name": "graph_mutate", "arguments": {"query": ADD, "params": {"n": CANARY}, "branch": "main"}},
        {"name": 7, "arguments": CANARY},
    ]
    for role in TOKENS:
        for params in calls:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            served.client.post("/mcp/people", json=body, headers=headers | served.as_role(role))
        for text in (f'{{"jsonrpc": "{CANARY}', json.dumps({"jsonrpc": "2.0", "id": 1, "method": CANARY})):
            served.client.post("/mcp/people", content=text, headers=headers | served.as_role(role))

    text = lines.getvalue() + served.service.metrics.render()
    assert len(requests_of(lines)) == (len(calls) + 2) * len(TOKENS)
    assert CANARY not in text
    assert [role for role, token in TOKENS.items() if token in text] == []


def test_lines_of_requests_are_written_together_and_all_others_at_once() -> None:
    stream = io.StringIO()
    handler = BufferedHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))

    def emit(message: str, level: int = logging.INFO) -> str:
        handler.handle(logging.LogRecord("omnigraph.server", level, "", 0, message, None, None))
        return stream.getvalue()

    assert emit(REQUEST) == ""
    assert emit("serving") == "request\nserving\n"
    assert emit(REQUEST) == "request\nserving\n"
    assert emit("failure", logging.ERROR) == "request\nserving\nrequest\nfailure\n"
    emit(REQUEST)
    handler.flush()
    assert stream.getvalue().endswith("failure\nrequest\n")


@pytest.mark.parametrize("name", ["Ada", "Żółć", "a\u2028b", "\ud800", "\x1b[31m"])
def test_a_line_is_ascii_whatever_it_names(name: str) -> None:
    record = logging.LogRecord("omnigraph.server", logging.INFO, "", 0, "request", None, None)
    setattr(record, FIELDS, {"branch": name, "other": object})

    line = JsonFormatter(SystemClock()).format(record)

    assert line.isascii()
    assert "\x1b" not in line
    assert json.loads(line)["branch"] == name
