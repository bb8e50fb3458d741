"""Vectors are computed by the server's provider, for whoever asks it through a client or the command line."""

import json
from collections.abc import Iterator

import pytest

import omnigraph as og
from omnigraph.cli.main import main
from omnigraph.engine.embedders.hashing import HashProvider
from server_process import Process, laid_out, running
from serving import SCHEMA, TOKENS

WITH_VECTORS = SCHEMA.replace("age: I64?", 'age: I64?  bio: String?  v: Vector(4)? @embed("bio")')
SETTINGS = '\n[embedding]\nprovider = "hash"\n'
ADD = "query q($n: String, $b: String) { insert Person { name: $n, bio: $b } }"


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("embedding")
    graph = laid_out(home)
    graph.apply_schema(WITH_VECTORS)
    with (home / "omnigraph.toml").open("a", encoding="utf-8") as settings:
        settings.write(SETTINGS)
    with running(graph, home) as found:
        yield found


def vector_of(process: Process, name: str) -> list[float] | None:
    rows = process.graph.table("Person").to_table(columns=["id", "v"]).to_pylist()
    found: list[float] | None = next(row["v"] for row in rows if row["id"] == name)
    return found


def test_a_client_has_vectors_computed(process: Process) -> None:
    with og.connect(f"http://localhost:{process.port}", TOKENS["writer"], graph="people") as graph:
        graph.mutate(ADD, params={"n": "Eve", "b": "a graph engine"})
        done = graph.embed("Person", batch=1)

    assert (done.provider, [one.embedded for one in done.properties]) == ("hash", [1])
    assert vector_of(process, "Eve") == HashProvider().embed(["a graph engine"], 4)[0].tolist()
    newest = process.graph.commits(limit=1)[0]
    assert done.commits == (newest.id,)
    assert (newest.actor, newest.operation) == ("writer", "embed")


def test_the_command_line_has_vectors_computed(
    process: Process, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    process.graph.mutate(ADD, params={"n": "Hal", "b": "a red apple"})
    monkeypatch.setenv("OMNIGRAPH_TOKEN", TOKENS["writer"])
    monkeypatch.delenv("OMNIGRAPH_STORE", raising=False)
    server = ["--server", f"http://localhost:{process.port}", "--graph", "people"]

    code = main(["embed", "--type", "Person", "--quiet", "--json", *server])

    told = json.loads(capsys.readouterr().out)
    assert code == 0
    assert [one["embedded"] for one in told["properties"]] == [1]
    assert vector_of(process, "Hal") == HashProvider().embed(["a red apple"], 4)[0].tolist()
