"""A graph, inputs, blobs and exports on Azure: as on S3, also when writers race or are killed."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest

import omnigraph as og
from azure_server import CONTAINER, azure_server, fresh_azure_uri
from load_calls import edge, person, text_of
from mutating import SCHEMA
from omnigraph.errors import BadArgumentError
from omnigraph.locations import locate
from omnigraph.storage.s3_object_store import S3ObjectStore
from race.checker import Txn, anomalies
from worlds import FAST, STORAGE, TABLES, runtime, seeded_world, state
from zygote import Zygote

SEED = {"a": 1, "b": 2, "c": 3, "d": 4}
AFTER = {**SEED, "a": 100, "z": 26}
AFTER_SWAP = ("publish.swapped", "publish.verified", "publish.disarmed")
PEOPLE = [person(f"p{number}", age=number) for number in range(20)]
KNOWS = [edge("Knows", f"p{number}", f"p{number * 7 % 20}") for number in range(20)]


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with azure_server() as options:
        yield options


@pytest.fixture(scope="module")
def zygote(storage: dict[str, str]) -> Iterator[Zygote]:
    with mock.patch.dict(os.environ, {STORAGE: json.dumps(storage)}):
        zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.mark.soak
def test_a_graph_on_azure_does_what_one_on_a_disk_does(storage: dict[str, str], tmp_path: Path) -> None:
    settings = replace(FAST, storage=storage, blob_sources=(f"az://{CONTAINER}/pictures",))
    here = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime(FAST))
    there = og.create_graph(fresh_azure_uri(), SCHEMA, runtime=runtime(settings))
    S3ObjectStore(f"az://{CONTAINER}", "in", storage).put("data.jsonl", text_of([*PEOPLE, *KNOWS]))

    here.load([*PEOPLE, *KNOWS], mode="append")
    there.load(f"az://{CONTAINER}/in/*.jsonl", mode="append")
    for graph in (here, there):
        graph.branches.create("draft")
        graph.mutate('query q() { update Person set { age: 99 } where name = "p1" }', branch="draft")
        graph.mutate('query q() { delete Person where name = "p2" }')
        graph.merge("draft")
        graph.optimize()
    exported = [io.BytesIO(), io.BytesIO()]
    here.export(exported[0])
    there.export(exported[1])
    target = f"az://{CONTAINER}/out/graph.jsonl"
    there.export(target)

    assert exported[0].getvalue() == exported[1].getvalue()
    assert S3ObjectStore(f"az://{CONTAINER}", "out", storage).get("graph.jsonl").data == exported[0].getvalue()
    assert [commit.operation for commit in there.commits()] == [commit.operation for commit in here.commits()]
    assert og.open_graph(there.uri, runtime=runtime(settings)).check().findings == ()


@pytest.mark.soak
def test_a_command_takes_its_account_from_the_environment(storage: dict[str, str], tmp_path: Path) -> None:
    variables = {name.upper(): value for name, value in storage.items() if name.startswith("azure_")}
    environment = {**os.environ, **variables, "AWS_ALLOW_HTTP": "true"}
    (tmp_path / "s.pg").write_text("node Person { name: String @key }\n", encoding="utf-8")
    (tmp_path / "d.jsonl").write_bytes(text_of([person("ada")]))
    uri = fresh_azure_uri()

    def call(*words: str, **variables: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "omnigraph", *words],
            env={**environment, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    assert call("init", uri, "--schema", str(tmp_path / "s.pg"))[0] == 0
    assert call("load", uri, "--mode", "append", "--data", str(tmp_path / "d.jsonl"), "--yes")[0] == 0
    assert call("query", uri, "-e", "query q() { match { $p: Person } return { $p.name } }", "--json")[0] == 0
    code, said = call("commit", "list", uri, AZURE_STORAGE_ACCOUNT_KEY="d3Jvbmc=")
    assert code != 0
    assert "AZURE_STORAGE_ACCOUNT_NAME" in said


@pytest.mark.soak
def test_a_shared_counter_on_azure_loses_no_increment(storage: dict[str, str], zygote: Zygote) -> None:
    world = seeded_world(fresh_azure_uri(), replace(FAST, storage=storage))

    started = [zygote.start("race.jobs:count_up", {"uri": world.uri, "times": 12}) for _ in range(3)]
    ended = [zygote.wait(pid) for pid in started]

    assert [one.error for one in ended] == [None] * 3
    assert sum(int(str(one.result)) for one in ended) > 0, "they never met: this shows nothing"
    assert state(world)["node:A"]["a"] == 1 + 3 * 12
    history = list(world.log.iter_history(world.head()))
    assert [commit.seq for commit in history] == list(range(2 + 3 * 12))[::-1]
    assert all(later.parent == earlier.id for later, earlier in pairwise(history))


@pytest.mark.soak
def test_histories_on_azure_are_strictly_serializable(zygote: Zygote) -> None:
    uri = fresh_azure_uri()
    zygote.run("race.jobs:new_lists", {"uri": uri})
    jobs: list[dict[str, object]] = [
        {"uri": uri, "name": f"p{number}t", "times": 20, "seed": number, "bug": None} for number in range(3)
    ]

    ended = [zygote.wait(pid) for pid in [zygote.start("race.jobs:list_append", job) for job in jobs]]
    final = zygote.run("race.jobs:lists", {"uri": uri})

    history = [Txn(**entry) for one in ended for entry in one.result]
    assert len(history) == 3 * 20
    assert anomalies(history, final.result) == []


@pytest.mark.soak
@pytest.mark.parametrize(
    "point", ["publish.staged", "publish.armed", "publish.applied", "publish.head_written", *AFTER_SWAP]
)
def test_a_writer_killed_on_azure_leaves_all_or_nothing(point: str, storage: dict[str, str], zygote: Zygote) -> None:
    uri = seeded_world(fresh_azure_uri(), replace(FAST, storage=storage)).uri
    victim = {"uri": uri, "kind": "upsert", "tables": list(TABLES[:2])}

    killed = zygote.run("crash.jobs:write", victim, f"{point}=kill")
    after = zygote.run("s3.jobs:aftermath", {"uri": uri})

    changed = TABLES[:2] if point in AFTER_SWAP else ()
    expected = {key: AFTER if key in changed else SEED for key in TABLES}
    assert killed.was_killed
    assert after.error is None
    assert after.result["seen"]["state"] == expected
    assert after.result["settled"]["sidecars"] == 0


@pytest.mark.parametrize(
    "text, message",
    [
        ("abfss://graphs@account.dfs.core.windows.net/people", "write az://container/…, and name the account in"),
        ("az://graphs", "write az://container/prefix"),
        ("az://graphs/../people", "the prefix has an empty"),
        ("gs://graphs/people", "`gs://` is not supported; use a path, file://, s3:// or az://"),
    ],
)
def test_addresses_of_other_forms_are_told_the_way(text: str, message: str) -> None:
    with pytest.raises(BadArgumentError, match=message):
        locate(text)


def test_a_container_of_azure_is_no_bucket_of_s3() -> None:
    azure, s3 = locate("az://graphs/people"), locate("s3://graphs/people")

    assert (azure.uri, s3.uri) == ("az://graphs/people", "s3://graphs/people")
    assert azure.bucket != s3.bucket
    assert azure.join("a").uri == "az://graphs/people/a"
