"""What only a client does: errors from afar, stored queries, files, addresses. What it shares is in `door_calls`."""

import json
import pickle
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import errors_reference
import omnigraph as og
from omnigraph.errors import BadArgumentError, Kind
from omnigraph.server.client.http_transport import ServerUnreachableError
from raised_codes import has_code
from server_process import Process, laid_out, running
from serving import ADD, ALL, TOKENS

NUMBERS = "query q($n: [I64]) { match { each $x in $n } return { $x as n } order { $x asc } }"
SLOW = """query slow() { match { $a: Person $b: Person $c: Person $d: Person $e: Person
  $a.name + $b.name + $c.name + $d.name + $e.name contains "nobody" } return { $a.name } }"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    home = tmp_path_factory.mktemp("client")
    graph = laid_out(home)
    (home / "queries" / "slow.gq").write_text(SLOW, encoding="utf-8")
    with running(graph, home) as found:
        yield found


@pytest.fixture(scope="module")
def remote(process: Process) -> Iterator[og.RemoteGraph]:
    with og.connect(f"http://localhost:{process.port}", TOKENS["admin"]) as found:
        yield found


def test_mistakes_of_a_text_have_their_places(remote: og.RemoteGraph) -> None:
    with pytest.raises(og.SourceError) as refused:
        remote.query("query q() { match { $p: Persn } return { $p.name } }")

    (found,) = refused.value.diagnostics
    assert refused.value.source.text[found.span.start : found.span.end] == "Persn"


def test_the_engine_of_a_query_is_chosen_from_afar(remote: og.RemoteGraph) -> None:
    local = remote.query(ALL, engine="local")

    assert local.rows() == remote.query(ALL, engine="memory").rows()
    explained = remote.explain(ALL, engine="local", analyze=True).to_json()
    assert explained["engine"]["name"] == "local"
    # The limits of the call hold for DuckDB as they do in memory.
    people = "; ".join(f"$v{number}: Person" for number in range(9))
    with pytest.raises(og.OmnigraphError, check=has_code("query_timeout")):
        remote.query(f"query q() {{ match {{ {people} }} return {{ $v1.name }} }}", engine="local", seconds=1e-6)
    with pytest.raises(BadArgumentError):
        remote.query(ALL, engine="disk")


def test_a_load_from_afar_chooses_among_repeats(remote: og.RemoteGraph) -> None:
    remote.branches.create("repeats")
    records = [{"type": "Person", "data": {"name": "Rep", "age": age}} for age in (1, 2)]

    result = remote.load(records, mode="append", branch="repeats", on_duplicate="last")

    assert (result.nodes["Person"].read, result.nodes["Person"].duplicates) == (1, 1)
    rows = remote.query('match { $p: Person { name: "Rep" } } return { $p.age as a }', branch="repeats").rows()
    assert rows == [{"a": 2}]
    with pytest.raises(og.LoadError):
        remote.load(records, mode="merge", branch="repeats")
    with pytest.raises(BadArgumentError, match="on_duplicate"):
        remote.load(records, mode="merge", branch="repeats", on_duplicate="newest")


def test_an_error_of_a_server_can_be_pickled(remote: og.RemoteGraph) -> None:
    with pytest.raises(og.BranchMissingError) as refused:
        remote.query(ALL, branch="nowhere")

    copy = pickle.loads(pickle.dumps(refused.value))  # noqa: S301 - our own bytes
    assert (type(copy), str(copy), copy.name) == (type(refused.value), str(refused.value), "nowhere")


def test_a_fresh_client_raises_the_public_class_of_every_code() -> None:
    # Errors of a text are built from their diagnostics, elsewhere.
    public = {getattr(og, name) for name in og.__all__ if name.endswith("Error")} - {og.SourceError}
    expected = {
        code: next(base.__name__ for base in error.__mro__ if base in public)
        for code, error in errors_reference.cases()
        if error is not og.OmnigraphError
    }
    program = (
        "import json, sys, omnigraph\n"
        "from omnigraph.server.client.errors import build_error\n"
        "for code, name in json.load(sys.stdin).items():\n"
        "    error = build_error({'code': code, 'kind': 'internal', 'error': ''})\n"
        "    print(*[] if isinstance(error, getattr(omnigraph, name)) and error.code == code else [code])\n"
    )

    ran = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(expected), capture_output=True, text=True, check=True
    )

    assert len(expected) > 80
    assert ran.stdout.split() == []


def test_conflicts_of_a_merge_raise_with_the_result_and_a_dry_run_returns_it(remote: og.RemoteGraph) -> None:
    update = 'query u($a: I64) { update Person set { age: $a } where name = "Ada" }'
    remote.branches.create("disputed")
    remote.mutate(update, params={"a": 1}, branch="disputed")
    remote.mutate(update, params={"a": 2})

    planned = remote.merge("disputed", dry_run=True)
    with pytest.raises(og.MergeConflictsError) as refused:
        remote.merge("disputed")

    copy = pickle.loads(pickle.dumps(refused.value))  # noqa: S301 - our own bytes
    for result in (refused.value.result, copy.result):
        assert (result.outcome, result.conflicts) == (og.MergeOutcome.CONFLICTS, planned.conflicts)
        assert result.conflict_counts == {"DivergentUpdate": 1}
    assert "1 conflict between `disputed` and `main`" in str(refused.value)


def test_a_mutation_returns_its_rows(remote: og.RemoteGraph) -> None:
    remote.branches.create("batch")
    text = """query add($rows: [{name: String, age: I64?}]) {
        match { each $r in $rows } insert Person { name: $r.name, age: $r.age } if absent as $p
        returning { $p.@id, $p.age }
    }"""

    result = remote.mutate(text, params={"rows": [{"name": "Ada", "age": 1}, {"name": "New"}]}, branch="batch")
    plain = remote.mutate(ADD, params={"n": "other"}, branch="batch")

    assert result.columns == ("p.@id", "p.age")
    # Other tests change Ada's age, but none sets it to 1.
    assert result.rows is not None
    assert [(row["p.@id"], row["p.age"] == 1) for row in result.rows] == [("Ada", False), ("New", False)]
    assert (result.affected_nodes, result.existing_nodes, result.existing_edges) == (1, 1, 0)
    assert (plain.rows, plain.columns, plain.existing_nodes) == (None, None, None)


def test_a_stored_query_is_run_by_its_name(remote: og.RemoteGraph) -> None:
    names = [one.name for one in remote.queries()]

    assert "friends" in names
    assert remote.invoke("friends", params={"n": "Ada"}).rows() == [{"q.name": "Bob"}]


def test_a_stored_mutation_is_run_by_its_name(remote: og.RemoteGraph) -> None:
    done = remote.invoke_mutation("rename_age", params={"n": "Ada", "a": 37}, message="a year", idempotency_key="a1")

    assert (done.affected_nodes, remote.commits(limit=1)[0].message) == (1, "a year")
    assert remote.invoke_mutation("rename_age", params={"n": "Ada", "a": 37}, idempotency_key="a1") == done


TAKES = "query q($x: F64?, $t: DateTime?) { match { $p: Person } return { $p.name, $x as x } limit 1 }"


@pytest.mark.parametrize(
    "value, found", [(np.float32(0.5), 0.5), (np.int32(2), 2.0), (Decimal("1.5"), 1.5), (pd.NA, None)]
)
def test_a_parameter_of_another_library_is_sent_as_it_is_taken_here(
    remote: og.RemoteGraph, value: object, found: object
) -> None:
    assert remote.query(TAKES, params={"x": value}).rows()[0]["x"] == found


@pytest.mark.parametrize(
    "name, value",
    [
        ("t", datetime(2026, 1, 2)),  # noqa: DTZ001 - the naive one is the point
        ("t", np.datetime64("2026-01-02T03", "ns")),
        ("x", Decimal("0.1")),
        ("x", object()),
        ("x", [1.0, {1, 2}]),
    ],
)
def test_a_parameter_that_no_type_takes_is_refused_as_here(remote: og.RemoteGraph, name: str, value: object) -> None:
    with pytest.raises(og.ParameterError) as refused:
        remote.query(TAKES, params={name: value})

    assert str(refused.value).startswith(f"parameter `${name}")


def test_a_parameter_is_named_by_a_text(remote: og.RemoteGraph) -> None:
    with pytest.raises(og.BadArgumentError, match="names are text"):
        remote.query(ALL, params={1: 2})  # type: ignore[dict-item]  # the point


def test_a_state_is_named_by_a_time_with_its_zone(remote: og.RemoteGraph) -> None:
    with pytest.raises(og.BadArgumentError, match="without a time zone"):
        remote.query(ALL, at=datetime(2026, 1, 2))  # noqa: DTZ001 - the naive one is the point


def test_a_snapshot_tells_its_pins(remote: og.RemoteGraph) -> None:
    snapshot = remote.snapshot()

    assert {key: str(pin.version) for key, pin in snapshot.pins.items()} == {
        one["table_key"]: one["table_version"] for one in snapshot.to_json()["tables"]
    }


def test_who_may_not_is_denied(process: Process) -> None:
    with og.connect(f"http://localhost:{process.port}", TOKENS["reader"], graph="people") as reader:
        with pytest.raises(og.DeniedError) as refused:
            reader.mutate(ADD, params={"n": "x"})

        assert reader.query(ALL).row_count > 0
    assert (refused.value.actor, refused.value.action, refused.value.branch) == ("reader", "change", "main")


def test_who_is_not_known_is_told(process: Process) -> None:
    with (
        og.connect(f"http://localhost:{process.port}", TOKENS["revoked"], graph="people") as stranger,
        pytest.raises(og.OmnigraphError) as refused,
    ):
        stranger.query(ALL)

    assert (refused.value.code, refused.value.kind) == ("unauthenticated", Kind.DENIED)


def test_an_export_to_a_file_is_there_whole(tmp_path: Path, remote: og.RemoteGraph) -> None:
    told = remote.export(tmp_path / "out.jsonl")

    lines = (tmp_path / "out.jsonl").read_bytes().splitlines()
    assert len(lines) == sum(told.rows.values())
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


def test_a_server_that_is_not_there_is_unreachable() -> None:
    with pytest.raises(ServerUnreachableError, match="nothing was sent"):
        og.connect("http://127.0.0.1:1", TOKENS["admin"])


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8080", "ftp://x", "http://", "http://h/?x=1", "http://u:secret@localhost", "http://far.example"],
)
def test_an_address_that_is_none_or_not_safe_is_refused(url: str) -> None:
    with pytest.raises(BadArgumentError, check=has_code("bad_server_url")) as refused:
        og.connect(url, "t" * 40, graph="g")

    assert "secret" not in str(refused.value)
    assert "ttt" not in str(refused.value)


def test_nothing_of_a_token_is_shown(process: Process) -> None:
    graph = og.connect(f"http://localhost:{process.port}", TOKENS["admin"], graph="people")

    assert TOKENS["admin"] not in repr(graph) + repr(graph._calls.transport)
    graph.close()


def test_rows_are_read_as_they_arrive(remote: og.RemoteGraph) -> None:
    with remote.query_stream(NUMBERS, params={"n": range(1, 60_001)}) as rows:
        assert (rows.columns, rows.row_count, rows.target.branch) == (("n",), 60_000, "main")
        batches = list(rows)

    assert len(batches) > 1
    assert [value.as_py() for batch in batches for value in batch["n"]] == list(range(1, 60_001))
    assert remote.query(ALL).commit_id == rows.commit_id


def test_rows_of_any_number_are_read_with_the_memory_of_a_few(remote: og.RemoteGraph) -> None:
    pairs = "query q($n: [I64]) { match { each $x in $n  each $y in $n } return { $x as x, $y as y } }"
    rows, before = 0, pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with remote.query_stream(pairs, params={"n": range(1_500)}) as batches:
            size, most = 0, 0
            for batch in batches:
                rows += batch.num_rows
                size += batch.nbytes
                most = max(most, pa.total_allocated_bytes() - before)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (rows, size) == (1_500**2, 16 * 1_500**2)
    # What was read is not kept, neither as bytes of the response nor as rows.
    assert most + peak < size / 4


def test_a_stream_that_is_left_early_harms_nothing_that_follows(remote: og.RemoteGraph) -> None:
    with remote.query_stream(NUMBERS, params={"n": range(60_000)}) as rows:
        next(iter(rows))

    assert remote.query(NUMBERS, params={"n": range(3)}).row_count == 3


def test_a_mistake_in_a_streamed_query_is_raised_before_any_row(remote: og.RemoteGraph) -> None:
    with pytest.raises(og.SourceError):
        remote.query_stream("match { $p: Persn } return { $p.name }")


def read_stream(remote: og.RemoteGraph, **given: Any) -> None:
    with remote.query_stream(SLOW, **given) as rows:
        rows.read_all()


SLOW_CALLS: dict[str, Callable[..., object]] = {
    "query_stream": read_stream,
    "query": lambda remote, **given: remote.query(SLOW, **given),
    "sql": lambda remote, **given: remote.sql(
        "select count(*) n from Person a, Person b, Person c, Person d, Person e, Person f, Person g"
        " where a.name || b.name || c.name || d.name || e.name || f.name || g.name like '%nobody%'",
        **given,
    ),
    "cypher": lambda remote, **given: remote.cypher(
        "MATCH (a:Person), (b:Person), (c:Person), (d:Person), (e:Person)"
        " WHERE a.name + b.name + c.name + d.name + e.name CONTAINS 'nobody' RETURN a.name",
        **given,
    ),
    "invoke": lambda remote, **given: remote.invoke("slow", **given),
}


@pytest.fixture(scope="module")
def crowd(remote: og.RemoteGraph) -> str:
    """A branch with so many people that their combinations take long."""
    remote.branches.create("crowd")
    people = [{"type": "Person", "data": {"name": f"many{number}"}} for number in range(25)]
    remote.load(people, mode="append", branch="crowd")
    return "crowd"


@pytest.mark.parametrize("call", SLOW_CALLS)
def test_a_query_is_cancelled_by_the_id_that_its_client_chose(call: str, remote: og.RemoteGraph, crowd: str) -> None:
    ended: list[og.OmnigraphError] = []

    def ask() -> None:
        try:
            SLOW_CALLS[call](remote, branch=crowd, query_id="mine")
        except og.OmnigraphError as error:
            ended.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive() and not remote.running():
        time.sleep(0.01)
    listed = remote.running()
    is_cancelled = remote.cancel("mine")
    asking.join(60)

    assert [running["query_id"] for running in listed] == ["mine"]
    assert is_cancelled
    assert [has_code("query_cancelled")(error) for error in ended] == [True]
    assert remote.running() == []
