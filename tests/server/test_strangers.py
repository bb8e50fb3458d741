"""What a stranger sends: unknown parameters, methods, cursors and names are refused, and leave nothing behind."""

import asyncio
import base64
import hashlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from omnigraph.config.server import ServerConfig
from omnigraph.policy import Access, Action, Actor
from omnigraph.server.cedar_policies import CedarPolicies
from omnigraph.server.draining_server import raise_connection_limit
from omnigraph.server.http.request_bodies import decode_body
from omnigraph.server.listener import open_listener
from serving import ALL, POLICIES, Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = serving(tmp_path)
    yield server
    server.service.close()


def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    """Without TCP_NODELAY, each answer waits up to 40 ms for one."""

    async def accept() -> int:
        options: list[int] = []
        listener = open_listener(ServerConfig(graphs=(), host="127.0.0.1", port=0))

        def note(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            options.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        async with await asyncio.start_server(note, sock=listener):
            reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            await reader.read()
            writer.close()
        return options[0]

    assert asyncio.run(accept()) != 0


def test_connections_leave_file_descriptors_to_the_graphs() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        connections = raise_connection_limit()
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert soft > 256
    assert connections < soft


@pytest.mark.parametrize(
    "path, meant",
    [
        ("/load?mode=append&dryrun=true", "dry_run"),
        ("/snapshot?brnch=main", "branch"),
        ("/commits?limt=3", "limit"),
        ("/commits?zzzzzzzz=3", "branch"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_one_that_was_meant(path: str, meant: str, served: Served) -> None:
    method = "POST" if path.startswith("/load") else "GET"
    before = served.graph.snapshot().commit.id

    record = b'{"type":"Person","data":{"name":"Zoe"}}'
    answer = served.client.request(method, f"/graphs/people{path}", headers=served.as_role("admin"), content=record)

    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert meant in answer.json()["error"]
    assert served.graph.snapshot().commit.id == before


def test_made_up_methods_share_one_label(served: Served) -> None:
    for number in range(50):
        served.client.request(f"M{number}", "/graphs", headers=served.as_role("reader"))

    metrics = served.service.metrics.render()

    assert 'method="M7"' not in metrics
    assert 'method="other"' in metrics


def test_decisions_about_long_names_are_not_kept() -> None:
    policies = CedarPolicies(POLICIES, {})
    actor = Actor(name="ada", groups=frozenset({"readers"}))

    for number in range(20):
        policies.decide("people", Access(actor=actor, action=Action.READ, branch=f"{number}" * 10_000))

    assert not policies._cache.list_keys()


@pytest.mark.parametrize(
    "change",
    [
        {"row": -1},
        {"row": 10**30},
        {"row": 3},
        {"chunk": 1},
        {"kind": 3},
        {"skipped": 2},
        {"kind": 2, "row": 1},
        {"type_name": "Nobody"},
        {"before": "nowhere@01M7QDFWZ7N9761BR55DY88TZS"},
    ],
    ids=str,
)
def test_a_forged_position_is_a_bad_cursor(change: dict[str, Any], served: Served) -> None:
    commits = [commit.id for commit in served.graph.commits()]
    position = {
        "before": f"main@{commits[-1]}",
        "after": f"main@{commits[0]}",
        "types": None,
        "type_name": "Person",
        "chunk": 0,
        "kind": 0,
        "row": 1,
        "skipped": 0,
    }
    true, forged = (
        served.client.get(
            f"/graphs/people/diff?before=main&after=main&cursor={forge({'type': 'diff', **body})}",
            headers=served.as_role("reader"),
        )
        for body in (position, position | change)
    )

    assert [change["id"] for change in true.json()["changes"]][:1] == ["Bob"]
    assert forged.status_code in {400, 404}


def forge(position: dict[str, Any]) -> str:
    """Return a cursor as a stranger would who knows how they are made."""
    data = msgspec.json.encode(position)
    digest = hashlib.blake2b(data, digest_size=6, person=b"cursor").digest()
    return base64.urlsafe_b64encode(digest + data).decode().rstrip("=")


def test_a_cursor_that_was_cut_is_a_bad_cursor(served: Served) -> None:
    commits = [commit.id for commit in served.graph.commits()]
    path = f"/graphs/people/diff?before=main@{commits[-1]}&after=main"
    cursor = served.client.get(f"{path}&limit=1", headers=served.as_role("reader")).json()["next_cursor"]

    answers = [
        served.client.get(f"{path}&cursor={text}", headers=served.as_role("reader")).status_code
        for text in (cursor, cursor[:-4], cursor[4:], cursor.swapcase())
    ]

    assert answers == [200, 400, 400, 400]


def test_a_number_of_versions_beyond_all_is_a_bad_request(served: Served) -> None:
    answer = served.client.get(
        f"/graphs/people/history?type=Person&id=Ada&limit={10**22}", headers=served.as_role("reader")
    )

    assert answer.status_code == 400


def test_a_wrong_method_learns_the_right_ones(served: Served) -> None:
    answer = served.client.delete("/graphs/people/snapshot", headers=served.as_role("reader"))

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_load_balancer_may_ask_by_head(path: str, served: Served) -> None:
    answer = served.client.head(path)

    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("size, is_on_the_loop", [(10, True), (100_000, False)])
def test_a_large_body_does_not_hold_up_other_requests(
    size: int, is_on_the_loop: bool, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops: list[bool] = []

    def decode(body: bytes, type_: type[Any]) -> Any:
        loops.append(has_running_loop())
        return decode_body(body, type_)

    monkeypatch.setattr("omnigraph.server.http.request_arguments.decode_body", decode)
    body = {"query": f"{ALL} // {'x' * size}"}

    served.client.post("/graphs/people/query", json=body, headers=served.as_role("reader"))

    assert loops == [is_on_the_loop]


def has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def test_a_known_parameter_is_taken(served: Served) -> None:
    answer = served.client.post("/graphs/people/query", json={"query": ALL}, headers=served.as_role("reader"))

    assert answer.status_code == 200
