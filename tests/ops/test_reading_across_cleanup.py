"""A reader that holds a state for longer than the grace of a cleanup is told what became of it, and what to do."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from collecting import files, pass_time
from omnigraph.ops.query import begin
from omnigraph.runtime import Runtime
from omnigraph.spark.session.graph_location import GraphLocation
from serving import ALL, Served, serving
from worlds import FAST

NOW = timedelta(0)
MANY = 6_000
"""More rows than a query fetches at once."""
EVERY = "query q() { match { $p: P } return { $p.k, $p.t } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.create_graph(str(tmp_path / "g"), "node P { k: String @key  t: String }", runtime=Runtime(options=FAST))
    graph.load([{"type": "P", "data": {"k": f"k{number}", "t": "x"}} for number in range(MANY)], mode="append")
    return graph


def replace_all(graph: og.Graph, grace: timedelta = NOW) -> None:
    """Write everything anew, and clean up what was there before."""
    other = og.open_graph(graph.uri, runtime=Runtime(options=FAST))
    other.load([{"type": "P", "data": {"k": "new", "t": "y"}}], mode="overwrite")
    pass_time(graph.uri, timedelta(minutes=2))
    other.cleanup(keep=1, grace=grace, confirm=True)


def test_rows_that_are_fetched_too_late_say_that_they_were_collected(graph: og.Graph) -> None:
    commit = graph.snapshot().commit
    result = graph.query(EVERY)

    replace_all(graph)

    with pytest.raises(og.SnapshotCollectedError) as caught:
        result.to_arrow()
    assert caught.value.kind is og.Kind.CONFLICT
    assert (caught.value.commit_id, caught.value.branch, caught.value.at) == (commit.id, "main", commit.at)
    assert (caught.value.epoch, caught.value.kept_from) == (1, 2)
    assert re.search(r"cleanup 1 .* kept the commits from number 2 on, .* Read again", str(caught.value))
    assert graph.query(EVERY).row_count == 1


def test_a_reader_within_the_grace_is_not_disturbed(graph: og.Graph) -> None:
    result = graph.query(EVERY)

    replace_all(graph, grace=timedelta(hours=1))

    assert result.to_arrow().num_rows == MANY


def test_a_tagged_state_is_read_for_as_long_as_one_likes(graph: og.Graph) -> None:
    graph.tags.create("kept")
    result = graph.query(EVERY)

    replace_all(graph)

    assert result.to_arrow().num_rows == MANY


@pytest.mark.parametrize("when", ["before it is opened", "while it is open"])
def test_a_process_of_spark_that_is_too_late_is_told_the_same(graph: og.Graph, when: str) -> None:
    pin = graph.snapshot().pin("node:P")
    table = GraphLocation(uri=graph.uri).open_table(pin.path, pin.version)
    if when == "while it is open":
        table.list_fragments()

    replace_all(graph)

    with pytest.raises(og.SnapshotCollectedError) as caught:
        sum(batch.num_rows for batch in table.iter_batches(["k"]))
    assert caught.value.code == "snapshot_collected"


def test_damage_is_not_taken_for_a_collection(graph: og.Graph) -> None:
    replace_all(graph)
    reader = og.open_graph(graph.uri, read_only=True, runtime=Runtime(options=FAST))
    for file in files(f"{graph.uri}/{reader.snapshot().pin('node:P').path}/data"):
        file.unlink()

    with pytest.raises(og.PinUnreadableError) as caught:
        reader.query(EVERY).to_arrow()

    assert type(caught.value) is og.PinUnreadableError


# --- by way of a server ------------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = serving(tmp_path)
    yield found
    found.service.close()


def test_a_server_tells_it_too(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*arguments: Any) -> object:
        served.graph.mutate('query q() { delete Person where name = "Bob" }')
        pass_time(served.graph.uri, timedelta(minutes=2))
        served.graph.cleanup(keep=1, grace=NOW, confirm=True)
        return begin(*arguments)

    monkeypatch.setattr("omnigraph.ops.query.begin", late)

    response = served.client.post("/graphs/people/query", json={"query": ALL}, headers=served.as_role("reader"))

    assert (response.status_code, response.json()["code"]) == (409, "snapshot_collected")
    assert response.json()["epoch"] == 1
    assert str(served.home) not in response.text
