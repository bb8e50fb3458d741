"""Files are put back from and to object stores as they are on a disk."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.ops.repair_result import RepairOutcome
from omnigraph.runtime import Runtime
from omnigraph.storage.layout import MANIFEST, build_version_key, format_version_name
from s3_server import fresh_uri, s3_server
from upkeep_calls import eager, exported
from worlds import FAST

SCHEMA = "node P { k: String @key  n: I64 @index }\nedge E: P -> P\n"


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture
def settings(storage: dict[str, str]) -> Runtime:
    return Runtime(options=eager(replace(FAST, storage=storage)))


def grow(uri: str, settings: Runtime) -> og.Graph:
    made = og.create_graph(uri, SCHEMA, runtime=settings)
    for part in range(2):
        made.load([{"type": "P", "data": {"k": f"p{part}{n}", "n": n}} for n in range(3)], mode="append")
    made.optimize()
    return made


@pytest.mark.parametrize("is_remote", [False, True], ids=["copy on disk", "copy on s3"])
def test_a_graph_on_s3_gets_its_files_back(is_remote: bool, settings: Runtime, tmp_path: Path) -> None:
    graph = grow(fresh_uri(), settings)
    copy = fresh_uri() if is_remote else str(tmp_path / "copy")
    og.clone_graph(graph.uri, copy, runtime=settings)
    before, pin, objects = exported(graph), graph.snapshot().pin("node:P"), graph._session.store.objects
    file = graph.table("P").get_fragments()[0].metadata.files[0].path
    version = objects.list_under(f"{MANIFEST}/_versions")[0].key
    for key in (build_version_key(pin.path, pin.version), f"{pin.path}/data/{file}"):
        objects.delete(key)
    objects.put(version, objects.get(version).data[:100])

    planned = og.repair_graph(graph.uri, source=copy, runtime=settings).files
    done = og.repair_graph(graph.uri, source=copy, confirm=True, runtime=settings).files

    assert version == f"{MANIFEST}/{format_version_name(graph.snapshot().manifest_version)}"
    assert {one.outcome for one in planned} == {RepairOutcome.PLANNED}
    assert {one.outcome for one in done} == {RepairOutcome.PUBLISHED}
    assert len(done) == 3
    assert exported(og.open_graph(graph.uri, runtime=settings)) == before
    assert og.check_graph(graph.uri, deep=True, runtime=settings).findings == ()


def test_a_graph_on_disk_gets_its_files_back_from_s3(settings: Runtime, tmp_path: Path) -> None:
    graph, copy = grow(str(tmp_path / "g"), settings), fresh_uri()
    og.clone_graph(graph.uri, copy, runtime=settings)
    before = exported(graph)
    pin = graph.snapshot().pin("node:P")
    file = Path(graph.uri) / pin.path / "data" / graph.table("P").get_fragments()[0].metadata.files[0].path
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"x")

    (done,) = og.repair_graph(graph.uri, source=copy, confirm=True, runtime=settings).files

    assert done.outcome is RepairOutcome.PUBLISHED
    assert file.read_bytes() == whole
    assert exported(og.open_graph(graph.uri, runtime=settings)) == before
