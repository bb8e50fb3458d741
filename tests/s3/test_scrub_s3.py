"""A scrub on an object store: what is lost or cut is found, and no byte of it is read."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

import omnigraph as og
from omnigraph.ops.scrub import Scrub, ScrubReport
from omnigraph.runtime import Runtime
from s3_server import fresh_uri, s3_server
from upkeep_calls import eager
from worlds import FAST

SCHEMA = "node P { k: String @key  n: I64 @index }\nedge E: P -> P\n"


@pytest.fixture(scope="module")
def settings() -> Iterator[Runtime]:
    with s3_server() as storage:
        yield Runtime(options=eager(replace(FAST, storage=storage)))


def run_pass(scrub: Scrub) -> ScrubReport:
    number = scrub._pass_number
    while scrub._pass_number == number or scrub._is_in_pass:
        scrub.step()
        scrub._due = 0
    return scrub.report()


def test_lost_and_cut_objects_are_found_and_cleared_when_they_are_back(settings: Runtime) -> None:
    graph = og.create_graph(fresh_uri(), SCHEMA, runtime=settings)
    graph.load([{"type": "P", "data": {"k": f"p{n}", "n": n}} for n in range(3)], mode="append")
    graph.optimize()
    scrub = Scrub(graph.uri, settings, 30.0)
    sound = run_pass(scrub)
    assert (sound.damaged, sound.nbytes) == ((), 0)
    assert sound.files > 2
    assert sound.last_pass is not None

    objects, path = graph._session.store.objects, graph.snapshot().pin("node:P").path
    data = f"{path}/data/{graph.table('P').get_fragments()[0].metadata.files[0].path}"
    (index, *_) = [info.key for info in objects.list_under(f"{path}/_indices")]
    whole = {key: objects.get(key).data for key in (data, index)}
    objects.put(data, b"cut")
    objects.delete(index)
    found = run_pass(scrub).damaged

    assert {one.file for one in found} == {data, index.rpartition("/")[0]}
    assert {one.branches for one in found} == {("main",)}
    for key, content in whole.items():
        objects.put(key, content)
    assert run_pass(scrub).damaged == ()
