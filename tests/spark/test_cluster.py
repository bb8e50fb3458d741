"""Executors that share nothing with the driver but the storage load, merge, read, export and maintain as one process.

One of them is killed while it writes.
"""

import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
import spark_cluster
from crash.jobs import leftovers
from load_calls import edge, person
from mutating import new_graph
from spark_loading import file_of, left_over
from spark_worlds import all_types_graph, stored

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="executors are found by /proc"),
]
PEOPLE = 1_500


@dataclass(frozen=True)
class Outcome:
    """What the cluster answered, and what was there before."""

    people: og.Graph
    things: og.Graph
    answer: dict[str, Any]
    before: pa.Table
    edges: pa.Table
    exported: bytes
    out: Path


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    place = tmp_path_factory.mktemp("cluster")
    people = new_graph(place)
    things = all_types_graph(place / "things", rows=30)
    data = file_of(
        place,
        *(edge("Knows", f"p{number}", f"p{number * 7 % PEOPLE}") for number in range(PEOPLE)),
        *(person(f"p{number}", age=1) for number in range(PEOPLE)),
    )
    exported = io.BytesIO()
    things.export(exported)
    before, edges = stored(things, "Thing"), stored(things, "Link")
    done = subprocess.run(
        [
            sys.executable,
            str(Path(spark_cluster.__file__)),
            people.uri,
            str(data),
            things.uri,
            str(place / "out"),
        ],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["master"].startswith("local-cluster")
    return Outcome(people, things, answer, before, edges, exported.getvalue(), place / "out")


def test_an_executor_that_is_killed_costs_nothing_but_time(outcome: Outcome) -> None:
    told = outcome.answer["loaded"]

    assert told["killed"] == 1
    assert (told["nodes"]["Person"]["inserted"], told["edges"]["Knows"]["inserted"]) == (PEOPLE, PEOPLE)


def test_a_merge_stays_on_executors_that_are_processes_of_their_own(outcome: Outcome) -> None:
    told = outcome.answer["merged"]

    assert told["nodes"]["Person"]["unchanged"] == PEOPLE
    assert (told["commit_id"] is None) == (told["edges"]["Knows"]["inserted"] == 0)


def test_nothing_is_left_of_what_was_lost(outcome: Outcome) -> None:
    session = og.open_graph(outcome.people.uri)._session

    assert left_over(outcome.people) == left_over(outcome.things) == []
    assert leftovers(session, ("nodes", "edges"))["orphans"] == []


def test_a_cluster_reads_writes_and_exports(outcome: Outcome) -> None:
    told = outcome.answer["read"]

    assert told["ids"] == outcome.before["id"].to_pylist()
    assert told["joined"] == sum(one in told["ids"] for one in outcome.edges["src"].to_pylist())
    assert told["rows"] == outcome.before.num_rows + 2
    assert b"".join(path.read_bytes() for path in sorted(outcome.out.iterdir())) == outcome.exported


def test_maintenance_on_a_cluster_changes_no_row(outcome: Outcome) -> None:
    tables = {one["table_key"]: one for one in outcome.answer["optimized"]}
    rows = stored(outcome.things, "Thing")

    assert [one["error"] for one in tables.values()] == [None, None]
    assert tables["node:Thing"]["fragments_removed"] > tables["node:Thing"]["fragments_added"]
    assert rows.filter(pa.compute.is_in(rows["id"], outcome.before["id"])).equals(outcome.before)
