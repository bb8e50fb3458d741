"""Check and repair on an object store: the same as on a disk; and a store that does not answer is no damage."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.ops.check_findings import FindingSeverity
from omnigraph.ops.repair_plan import Certainty
from omnigraph.runtime import Runtime
from omnigraph.storage.layout import MANIFEST, format_detached_name, format_version_name
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
    return [one.code for one in found if one.severity is FindingSeverity.ERROR]


def test_a_sound_graph_on_s3_gives_no_finding(graph: og.Graph, settings: Runtime) -> None:
    assert og.check_graph(graph.uri, deep=True, runtime=settings).findings == ()


def test_checksums_are_recorded_on_s3_and_again_for_what_is_new(graph: og.Graph, settings: Runtime) -> None:
    before = og.check_graph(graph.uri, deep=True, runtime=settings)
    first = og.check_graph(graph.uri, record=True, runtime=settings)
    again = og.check_graph(graph.uri, record=True, runtime=settings)
    og.open_graph(graph.uri, runtime=settings).load([{"type": "P", "data": {"k": "new", "n": 1}}], mode="append")
    second = og.check_graph(graph.uri, record=True, runtime=settings)
    after = og.check_graph(graph.uri, deep=True, runtime=settings)

    assert (before.verified, before.unrecorded > 0) == (0, True)
    assert (list(first.recorded), again.recorded, list(second.recorded)) == (["main"], {}, ["main"])
    assert (after.unrecorded, after.has_errors) == (0, False)
    assert after.verified > before.unrecorded


def test_damage_of_a_recorded_file_on_s3_is_found_and_not_copied(graph: og.Graph, settings: Runtime) -> None:
    og.check_graph(graph.uri, record=True, runtime=settings)
    pin = graph.snapshot().pin("node:P")
    objects = graph._session.store.objects
    name = graph.table("P").get_fragments()[0].metadata.files[0].path
    data = bytearray(objects.get(f"{pin.path}/data/{name}").data)
    data[len(data) // 2] ^= 1
    objects.put(f"{pin.path}/data/{name}", bytes(data))

    found = og.check_graph(graph.uri, deep=True, runtime=settings).findings
    opened = og.open_graph(graph.uri, runtime=settings)

    assert [(one.code, one.place) for one in found] == [("file_damaged", f"{pin.path}/data/{name}")]
    with pytest.raises(og.PinUnreadableError, match="does not match its checksum"):
        opened.export(io.BytesIO())


def test_a_clone_from_s3_compares_what_comes_with_lists(graph: og.Graph, settings: Runtime, tmp_path: Path) -> None:
    og.check_graph(graph.uri, record=True, runtime=settings)
    pin = graph.snapshot().pin("node:P")
    og.open_graph(graph.uri, runtime=settings).clone(str(tmp_path / "whole"))
    found = og.check_graph(str(tmp_path / "whole"), deep=True, runtime=settings)
    objects = graph._session.store.objects
    name = graph.table("P").get_fragments()[0].metadata.files[0].path
    data = bytearray(objects.get(f"{pin.path}/data/{name}").data)
    data[len(data) // 2] ^= 1
    objects.put(f"{pin.path}/data/{name}", bytes(data))

    assert (found.findings, found.unrecorded) == ((), 0)
    with pytest.raises(og.PinUnreadableError, match="does not match its checksum"):
        og.open_graph(graph.uri, runtime=settings).clone(str(tmp_path / "damaged"))


def test_a_lost_version_on_s3_is_found_and_repaired(graph: og.Graph, settings: Runtime) -> None:
    before = exported(graph)
    pin = graph.snapshot().pin("node:P")
    graph._session.store.objects.delete(f"{pin.path}/{format_detached_name(pin.version)}")

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
    graph._session.store.objects.put(f"{MANIFEST}/{format_version_name(newest)}", b"torn")

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
