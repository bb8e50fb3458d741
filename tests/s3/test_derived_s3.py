"""What is kept beside a graph on S3 for the next process: used, worth it, and no loss when it is gone or damaged."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.search import column_index
from omnigraph.engine.tables import graph_cache
from omnigraph.lang.source import Source
from omnigraph.ops.cleanup import DerivedSorter
from omnigraph.options import Options
from omnigraph.storage.s3_object_store import S3ObjectStore
from omnigraph.telemetry import RequestCounts
from s3_server import BUCKET, fresh_uri, s3_server
from worlds import FAST, runtime

SCHEMA = "node Doc { name: String @key  body: String }\nedge Cites: Doc -> Doc"
COUNT, ROWS = 60, 180
HOPS = "query hops() { match { $a: Doc  $a cites $b  $b cites $c } return { count(*) as n } }"
WORDS = 'query words() { match { $a: Doc  search($a.body, "seven") } return { $a.name } order { $a.name } }'
QUESTIONS = (HOPS, WORDS)
HERE = Path(__file__).parents[1]
PROGRAM = f"""
import json, sys
sys.path.insert(0, {str(HERE)!r})
from s3.test_derived_s3 import answers, keep_everything
keep_everything()
rows, requests = answers(sys.argv[1], json.loads(sys.argv[2]))
print(json.dumps([rows, requests.count(target="table")]))
"""


def keep_everything() -> None:
    """Small graphs are worth keeping something of, too."""
    graph_cache.MIN_DERIVED_EDGES = column_index.MIN_STORED_ROWS = 1


@pytest.fixture(scope="module", autouse=True)
def everything_is_kept() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(graph_cache, "MIN_DERIVED_EDGES", 1)
        patched.setattr(column_index, "MIN_STORED_ROWS", 1)
        yield


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


def options_of(storage: dict[str, str], *, derived_cache: bool = True) -> Options:
    return replace(FAST, storage=storage, derived_cache=derived_cache)


def answers(uri: str, storage: dict[str, str], *, derived_cache: bool = True) -> tuple[list[object], RequestCounts]:
    """What a handle that has read nothing answers, and the requests of that; what it keeps is kept when it returns."""
    used = runtime(options_of(storage, derived_cache=derived_cache))
    graph = og.Graph.open(uri, is_read_only=False, keep_derived=True, runtime=used)
    with used.telemetry.count_requests() as requests:
        rows: list[object] = [graph.query(question).rows() for question in QUESTIONS]
        graph._session.reads.wait_for_workers()
    return rows, requests


@pytest.fixture
def uri(storage: dict[str, str]) -> str:
    """A graph of which nothing is kept."""
    where = fresh_uri()
    used = runtime(options_of(storage, derived_cache=False))
    graph = og.Graph.create(where, Source(SCHEMA, "docs.pg"), actor="test", runtime=used)
    names = [f"d{number}" for number in range(COUNT)]
    bodies = [f"number {'seven' if number % 7 == 0 else 'other'}" for number in range(COUNT)]
    ends = [(names[number % COUNT], names[(number * number + 1) % COUNT]) for number in range(ROWS)]
    graph.load(
        nodes={"Doc": pa.table({"name": names, "body": bodies})},
        edges={"Cites": pa.table({"from": [a for a, _ in ends], "to": [b for _, b in ends]})},
        mode="append",
    )
    return where


def kept(uri: str, storage: dict[str, str]) -> dict[str, bytes]:
    """The objects below `_derived`."""
    objects = _objects(uri, storage)
    return {info.key: bytes(objects.get(info.key).data) for info in objects.list_under("_derived")}


def _objects(uri: str, storage: dict[str, str]) -> S3ObjectStore:
    return S3ObjectStore(BUCKET, uri.removeprefix(f"s3://{BUCKET}/"), storage)


def test_what_one_handle_keeps_saves_the_next_one_requests(uri: str, storage: dict[str, str]) -> None:
    expected, without = answers(uri, storage, derived_cache=False)
    first, _ = answers(uri, storage)

    second, requests = answers(uri, storage)

    assert sorted(key.split("/")[-1].split("-")[0] for key in kept(uri, storage)) == ["text", "topology"]
    assert first == second == expected
    assert requests.count(target="table") < without.count(target="table")
    assert requests.count(operation="put") == 0


def test_the_next_process_makes_nothing_again(
    uri: str, storage: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, without = answers(uri, storage)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    words = [sys.executable, "-c", PROGRAM, uri, json.dumps(storage)]

    found = subprocess.run(words, capture_output=True, text=True, check=True)

    rows, requests = json.loads(found.stdout)
    assert rows == expected
    assert requests < without.count(target="table")


def test_it_can_be_deleted_at_any_time(uri: str, storage: dict[str, str]) -> None:
    expected, _ = answers(uri, storage)
    before = kept(uri, storage)
    for key in before:
        _objects(uri, storage).delete(key)

    found, _ = answers(uri, storage)

    assert found == expected
    assert kept(uri, storage) == before


@pytest.mark.parametrize("damage", ["a flipped bit", "half of it", "nothing", "something else"])
def test_what_is_damaged_is_made_again(
    damage: str, uri: str, storage: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    expected, _ = answers(uri, storage)
    before = kept(uri, storage)
    for key, content in before.items():
        middle = len(content) // 2
        damaged = {
            "a flipped bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "half of it": content[:middle],
            "nothing": b"",
            "something else": b"omnigraph derived fruit\n" * 100,
        }[damage]
        _objects(uri, storage).put(key, damaged)

    found, _ = answers(uri, storage)

    assert found == expected
    assert kept(uri, storage) == before
    assert "built again" in caplog.text


def test_a_cleanup_reads_what_they_were_derived_from(uri: str, storage: dict[str, str]) -> None:
    answers(uri, storage)
    store = og.Graph.open(uri, is_read_only=True, runtime=runtime(options_of(storage)))._session.store
    objects, files = store.objects.list_under("_derived"), store.objects.list_under("nodes")
    nodes = {info.key.rpartition("/")[2] for info in files if "/data/" in info.key}

    going = DerivedSorter(store).sort(objects, lambda name: name not in nodes)
    staying = DerivedSorter(store).sort(objects, lambda _: True)

    assert going.garbage == tuple(objects)
    assert staying.garbage == ()
