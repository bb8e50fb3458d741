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
PEOPLE, CHANGED = 1_500, 200


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
    changes = file_of(
        place,
        *(person(f"p{number}", age=2) for number in range(CHANGED)),
        *(person(f"new{number}", age=2) for number in range(CHANGED)),
        edge("Knows", "p1", "nobody"),
        name="changes.jsonl",
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
            str(changes),
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


def test_a_merge_stays_on_executors_though_a_record_is_bad(outcome: Outcome) -> None:
    told = outcome.answer["merged"]
    people = told["nodes"]["Person"]

    assert told["stayed"] == [True]
    assert (people["inserted"], people["updated"], people["unchanged"]) == (CHANGED, CHANGED, 0)
    assert (told["edges"]["Knows"]["inserted"], told["rejected"]) == (0, 1)


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


def test_a_query_whose_executor_is_killed_gives_its_rows_and_leaves_nothing(outcome: Outcome) -> None:
    told = outcome.answer["asked"]

    assert told["killed"] == 1
    assert len(told["rows"]) > 1
    assert told["rows"] == told["expected"]
    assert told["left"] == []


def test_an_algorithm_whose_executor_is_killed_gives_its_values_and_leaves_nothing(outcome: Outcome) -> None:
    told = outcome.answer["ranked"]

    assert told["killed"] == 1
    assert told["has_ids"]
    assert told["spark"] == pytest.approx(told["local"], rel=1e-9)
    assert told["left"] == []


def test_maintenance_on_a_cluster_changes_no_row(outcome: Outcome) -> None:
    told = outcome.answer["optimized"]
    rows = stored(outcome.things, "Thing")

    assert [one["error"] for one in told["done"]] == [None, None]
    assert [rewritten(one) for one in told["done"]] == [rewritten(one) for one in told["due"]]
    assert rewritten(told["done"][0])[0] > rewritten(told["done"][0])[1]
    assert rows.filter(pa.compute.is_in(rows["id"], outcome.before["id"])).equals(outcome.before)


def rewritten(table: dict[str, Any]) -> tuple[int, int]:
    """How many files maintenance took away from a table, and how many it gave it."""
    return table["fragments_removed"], table["fragments_added"]
