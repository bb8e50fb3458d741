"""Check and repair on an object store: the same as on a disk; and a store that does not answer is no damage."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import omnigraph as og
from omnigraph.ops.findings import Severity
from omnigraph.ops.repair_plan import Certainty
from omnigraph.runtime import Runtime
from omnigraph.storage.layout import MANIFEST, detached_file, version_file
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


@pytest.fixture
def graph(settings: Runtime) -> og.Graph:
    """Two commits, compacted and indexed."""
    made = og.create_graph(fresh_uri(), SCHEMA, runtime=settings)
    for part in range(2):
        made.load([{"type": "P", "data": {"k": f"p{part}{n}", "n": n}} for n in range(3)], mode="append")
    made.optimize()
    return made


def errors(graph: og.Graph, settings: Runtime) -> list[str]:
    found = og.check_graph(graph.uri, runtime=settings).findings
    return [one.code for one in found if one.severity is Severity.ERROR]


def test_a_sound_graph_on_s3_gives_no_finding(graph: og.Graph, settings: Runtime) -> None:
    assert og.check_graph(graph.uri, deep=True, runtime=settings).findings == ()


def test_a_lost_version_on_s3_is_found_and_repaired(graph: og.Graph, settings: Runtime) -> None:
    before = exported(graph)
    pin = graph.snapshot().pin("node:P")
    graph._session.store.objects.delete(f"{pin.path}/{detached_file(pin.version)}")

    found = errors(graph, settings)
    (done,) = og.repair_graph(graph.uri, confirm=True, runtime=settings).tables

    assert found == ["version_missing"]
    assert done.plan.certainty is Certainty.VERIFIED
    assert exported(og.open_graph(graph.uri, runtime=settings)) == before
    assert errors(graph, settings) == []


def test_lost_and_cut_files_on_s3_are_found(graph: og.Graph, settings: Runtime) -> None:
    path = graph.snapshot().pin("node:P").path
    objects = graph._session.store.objects
    file = graph.table("P").get_fragments()[0].metadata.files[0].path
    (index, *_) = [info.key for info in objects.list_under(f"{path}/_indices")]

    objects.put(f"{path}/data/{file}", b"cut")
    objects.delete(index)

    assert sorted(set(errors(graph, settings))) == ["file_damaged", "index_damaged"]


def test_a_torn_manifest_on_s3_goes_back(graph: og.Graph, settings: Runtime) -> None:
    before = exported(graph)
    graph.load([{"type": "P", "data": {"k": "late", "n": 1}}], mode="append")
    newest = graph.snapshot().manifest_version
    graph._session.store.objects.put(f"{MANIFEST}/{version_file(newest)}", b"torn")

    found = errors(graph, settings)
    (done,) = og.repair_graph(graph.uri, confirm=True, force=True, runtime=settings).manifests

    assert found == ["manifest_damaged"]
    assert done.to_version == newest - 1
    assert exported(og.open_graph(graph.uri, runtime=settings)) == before


def test_a_store_that_does_not_answer_is_an_error_and_no_finding(graph: og.Graph, settings: Runtime) -> None:
    nowhere = {**settings.options.storage, "aws_endpoint": "http://127.0.0.1:9", "connect_timeout": "1s"}
    deaf = Runtime(options=replace(FAST, storage={**nowhere, "client_max_retries": "0", "timeout": "1s"}))

    with pytest.raises(og.StoreUnavailableError):
        og.check_graph(graph.uri, runtime=deaf)
    with pytest.raises(og.StoreUnavailableError):
        og.repair_graph(graph.uri, confirm=True, force=True, runtime=deaf)
