"""The same calls through the embedded graph and through a server give equal answers and equal errors."""

import json
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import Kind
from omnigraph.server.client_http import BadServerUrlError, ServerUnreachableError
from server_process import Process, laid_out, running
from serving import ADD, ALL, SCHEMA, TOKENS

UPDATE = "query u($n: String, $a: I64) { update Person set { age: $a } where name = $n }"
WIDER = SCHEMA.replace("age: I64?", "age: I64?  city: String?")

Call = Callable[[Any], Any]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("client")
    with running(laid_out(home), home) as found:
        yield found


@pytest.fixture(scope="module")
def remote(process: Process) -> Iterator[og.RemoteGraph]:
    with og.connect(f"http://localhost:{process.port}", TOKENS["admin"]) as found:
        yield found


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return laid_out(tmp_path_factory.mktemp("embedded")).acting_as("admin")


def exported(graph: Any) -> tuple[Any, bytes]:
    out = BytesIO()
    told = graph.export(out)
    return told.rows, b"\n".join(sorted(line for line in out.getvalue().splitlines() if b'"edge"' not in line))


CALLS: dict[str, Call] = {
    "schema": lambda g: g.schema,
    "rows": lambda g: g.query(ALL).rows(),
    "arrow": lambda g: g.query(ALL).to_arrow(),
    "json": lambda g: g.query(ALL).to_json(),
    "no rows": lambda g: g.query('query q() { match { $p: Person { name: "Zoe" } } return { $p } }').to_arrow(),
    "whole nodes": lambda g: g.query("query q() { match { $p: Person } return { $p } order { $p.name asc } }").rows(),
    "parameters": lambda g: g.query(
        "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }", params={"n": "Ada"}
    ).rows(),
    "explain": lambda g: g.explain(ALL).to_json()["output"],
    "branches": lambda g: [one.name for one in g.branches.list()],
    "create": lambda g: (made := g.branches.create("work/one"), made.name, made.created_by, made.parent_branch)[1:],
    "insert": lambda g: g.mutate(ADD, params={"n": "Cleo"}, branch="work/one").to_json(),
    "update": lambda g: g.mutate(UPDATE, params={"n": "Ada", "a": 2**60}, branch="work/one").to_json(),
    "large integers": lambda g: g.query(ALL, branch="work/one").to_json(),
    "no effect": lambda g: g.mutate(UPDATE, params={"n": "Nobody", "a": 1}).to_json(),
    "diff": lambda g: (
        [json.loads(one) for one in g.diff("main", "work/one").json_lines()]
        if isinstance(g, og.Graph)
        else list(g.diff("main", "work/one"))
    ),
    "dry merge": lambda g: g.merge("work/one", dry_run=True).to_json(),
    "merge": lambda g: g.merge("work/one", message="together").to_json(),
    "merge again": lambda g: g.merge("work/one").to_json(),
    "delete": lambda g: g.branches.delete("work/one").name,
    "load": lambda g: g.load(BytesIO(b'{"type":"Person","data":{"name":"Dora"}}'), mode="append").to_json(),
    "dry load": lambda g: g.load(
        BytesIO(b'{"type":"Person","data":{"name":"Ed"}}'), mode="merge", dry_run=True
    ).to_json(),
    "load into a new branch": lambda g: g.load(
        BytesIO(b'{"type":"Person","data":{"name":"Fay"}}'), mode="append", branch="fresh", from_="main"
    ).to_json(),
    "key": lambda g: [
        g.mutate(ADD, params={"n": "Once"}, idempotency_key="k").to_json() == first.to_json()
        for first in [g.mutate(ADD, params={"n": "Once"}, idempotency_key="k")]
    ],
    "export": exported,
    "commits": lambda g: [(one.operation, one.actor, one.message, one.seq, one.branch) for one in g.commits()],
    "two commits": lambda g: len(g.commits(limit=2)),
    "filtered": lambda g: [one.operation for one in g.commits(filters={"operation": "load"})],
    "a commit": lambda g: g.commit(g.commits(limit=1)[0].id).operation,
    "the past": lambda g: g.query(ALL, snapshot=g.commits()[-1].id).row_count,
    "another time": lambda g: g.query(ALL, at=datetime.now(UTC) + timedelta(hours=1)).row_count,
    "changes": lambda g: [sorted(map(str, one.to_json()["types"])) for one in g.changes()],
    "plan": lambda g: g.plan_schema(WIDER).to_json(),
    "apply": lambda g: {**g.apply_schema(WIDER, branch="fresh").to_json(), "commit_id": None},
    "conflict": lambda g: (
        g.branches.create("against"),
        g.mutate(UPDATE, params={"n": "Bob", "a": 1}, branch="against"),
        g.mutate(UPDATE, params={"n": "Bob", "a": 2}),
        {**g.merge("against").to_json(), "source_commit": "", "base_commit": ""},
    )[-1],
    "snapshot": lambda g: [(one["table_key"], one["rows"]) for one in g.snapshot().to_json()["tables"]],
}

ERRORS: dict[str, Call] = {
    "mistake": lambda g: g.query("query q() { match { $p: Persn } return { $p.name } }"),
    "no query": lambda g: g.query(ALL, name="nope"),
    "not a read": lambda g: g.query(ADD, params={"n": "x"}),
    "not a mutation": lambda g: g.mutate(ALL),
    "parameters": lambda g: g.query(ALL, params={"x": 1}),
    "no branch": lambda g: g.query(ALL, branch="nowhere"),
    "no commit": lambda g: g.query(ALL, snapshot="01JC0000000000000000000000"),
    "two states": lambda g: g.query(ALL, snapshot="01JC0000000000000000000000", at=datetime.now(UTC)),
    "too slow": lambda g: g.query(ALL, seconds=1e-9),
    "too large": lambda g: g.query(ALL, memory_bytes=1),
    "no end": lambda g: g.mutate('query e() { insert Knows { from: "Nope", to: "Ada" } }'),
    "moved": lambda g: g.mutate(ADD, params={"n": "y"}, if_commit="01JC0000000000000000000000"),
    "bad record": lambda g: g.load(BytesIO(b'{"type":"Person","data":{"name":1}}'), mode="append"),
    "bad mode": lambda g: g.load(BytesIO(b""), mode="appnd"),
    "bad name": lambda g: g.branches.create("../x"),
    "branch there": lambda g: (g.branches.create("twice"), g.branches.create("twice")),
    "main stays": lambda g: g.branches.delete("main"),
    "schema": lambda g: g.plan_schema("node Person {"),
    "unfit": lambda g: g.apply_schema("node Person { name: String @key  age: String }\nedge Knows: Person -> Person\n"),
    "merge with itself": lambda g: g.merge("main"),
    "bad filter": lambda g: g.commits(filters={"colour": "red"}),
}


def comparable(value: Any) -> Any:
    """Without what differs between two graphs that did the same: ids of commits and tables' versions."""
    if isinstance(value, dict):
        volatile = {"commit_id", "source_commit", "base_commit", "version", "file"}
        return {name: comparable(one) for name, one in value.items() if name not in volatile}
    if isinstance(value, list | tuple):
        return [comparable(one) for one in value]
    return value


@pytest.mark.parametrize("name", CALLS)
def test_a_call_answers_alike(name: str, local: og.Graph, remote: og.RemoteGraph) -> None:
    expected = comparable(CALLS[name](local))

    assert comparable(CALLS[name](remote)) == expected


@pytest.mark.parametrize("name", ERRORS)
def test_a_call_fails_alike(name: str, local: og.Graph, remote: og.RemoteGraph) -> None:
    with pytest.raises(og.OmnigraphError) as expected:
        ERRORS[name](local)
    with pytest.raises(og.OmnigraphError) as found:
        ERRORS[name](remote)

    here, there = expected.value, found.value
    volatile = {"actual", "file", "known", "manifest_conflict", "diagnostics", "problems"}
    assert (there.code, there.kind) == (here.code, here.kind)
    assert isinstance(there, type(here))
    assert {key: one for key, one in there.facts().items() if key not in volatile} == {
        key: one for key, one in here.facts().items() if key not in volatile
    }


def test_mistakes_of_a_text_have_their_places(remote: og.RemoteGraph) -> None:
    with pytest.raises(og.SourceError) as refused:
        remote.query("query q() { match { $p: Persn } return { $p.name } }")

    (found,) = refused.value.diagnostics
    assert refused.value.source.text[found.span.start : found.span.end] == "Persn"


def test_an_error_of_a_server_can_be_pickled(remote: og.RemoteGraph) -> None:
    with pytest.raises(og.BranchMissingError) as refused:
        remote.query(ALL, branch="nowhere")

    copy = pickle.loads(pickle.dumps(refused.value))  # noqa: S301 - our own bytes
    assert (type(copy), str(copy), copy.name) == (type(refused.value), str(refused.value), "nowhere")


def test_a_stored_query_is_run_by_its_name(remote: og.RemoteGraph) -> None:
    names = [one.name for one in remote.queries()]

    assert "friends" in names
    assert remote.invoke("friends", params={"n": "Ada"}).rows() == [{"q.name": "Bob"}]


def test_who_may_not_is_denied(process: Process) -> None:
    with og.connect(f"http://localhost:{process.port}", TOKENS["reader"], graph="people") as reader:
        with pytest.raises(og.DeniedError) as refused:
            reader.mutate(ADD, params={"n": "x"})

        assert reader.query(ALL).row_count > 0
    assert (refused.value.actor, refused.value.action, refused.value.branch) == ("reader", "change", "main")


def test_who_is_not_known_is_told(process: Process) -> None:
    with (
        og.connect(f"http://localhost:{process.port}", TOKENS["revoked"], graph="people") as stranger,
        pytest.raises(og.OmnigraphError) as refused,
    ):
        stranger.query(ALL)

    assert (refused.value.code, refused.value.kind) == ("unauthenticated", Kind.DENIED)


def test_an_export_to_a_file_is_there_whole(tmp_path: Path, remote: og.RemoteGraph) -> None:
    told = remote.export(tmp_path / "out.jsonl")

    lines = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert len(lines) == sum(told.rows.values())
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(ServerUnreachableError, match="does not answer"):
        og.connect("http://127.0.0.1:1", TOKENS["admin"])


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8080", "ftp://x", "http://", "http://h/?x=1", "http://u:secret@localhost", "http://far.example"],
)
def test_an_address_that_is_none_or_not_safe_is_refused(url: str) -> None:
    with pytest.raises(BadServerUrlError) as refused:
        og.connect(url, "t" * 40, graph="g")

    assert "secret" not in str(refused.value)
    assert "ttt" not in str(refused.value)


def test_nothing_of_a_token_is_shown(process: Process) -> None:
    graph = og.connect(f"http://localhost:{process.port}", TOKENS["admin"], graph="people")

    assert TOKENS["admin"] not in repr(graph) + repr(graph._calls.transport)
    graph.close()
