"""Rows that are read from a file itself are those of a scan: without the deleted ones, whatever the schema became."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnigraph as og
from omnigraph.storage.key_lookup import find_existing, find_existing_ids
from omnigraph.storage.lance_table import ADDRESS, LanceTable
from omnigraph.storage.table_cache import PinUnreadableError
from worlds import runtime

SCHEMA = """node P {
    name: String @key
    a: I64?
    b: I64
    tags: [String]
    place: Vector(2)?
    on: DateTime?
}"""
PLAIN = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def rows(numbers: range) -> pa.Table:
    return pa.table(
        {
            "name": [f"p{one}" for one in numbers],
            "a": pa.array([None if one % 3 else one for one in numbers], pa.int64()),
            "b": [-one for one in numbers],
            "tags": [["t"] * (one % 4) for one in numbers],
            "place": pa.array([None if one % 5 == 0 else [one, 1.0] for one in numbers], pa.list_(pa.float32(), 2)),
            "on": pa.array([None if one % 2 else one for one in numbers], pa.timestamp("us", "UTC")),
        }
    )


@pytest.fixture(scope="module", autouse=True)
def always_raw() -> Iterator[None]:
    """Also of small fragments, and also few rows."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("omnigraph.storage.data_file_reader.MIN_RAW_FRAGMENT_ROWS", 1)
        patched.setattr("omnigraph.storage.lance_table.MIN_DELETION_FILE_ROWS", 1)
        patched.setattr("omnigraph.storage.take_rows.MAX_FRAGMENT_TAKE_ROWS", 0)
        patched.setattr("omnigraph.storage.key_lookup.MAX_PUSHED_KEYS", 0)
        patched.setattr("omnigraph.storage.key_lookup.SCAN_BATCH_ROWS", 3)
        yield


def made(place: Path) -> og.Graph:
    """Four fragments: the first and the third have holes; rows of the first were written anew into the last."""
    graph = og.create_graph(str(place / "g"), SCHEMA, runtime=runtime())
    for start in (0, 8, 16):
        graph.load(nodes={"P": rows(range(start, start + 8))}, mode="append")
    for name in ("p2", "p17", "p23"):
        graph.mutate(f'query q() {{ delete P where name = "{name}" }}')
    graph.load(nodes={"P": rows(range(4, 7)).set_column(2, "b", pa.array([400, 500, 600]))}, mode="merge")
    return graph


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return made(tmp_path_factory.mktemp("raw"))


def table_of(graph: og.Graph) -> LanceTable:
    session = graph._session
    return session.open_tables(session.resolve_snapshot()).open_table("node:P")


def raw_fragments(table: LanceTable) -> list[int]:
    return [
        one.number for one in table.list_fragments() if one.deleted and table.open_data_file(one.number) is not None
    ]


def located(table: LanceTable) -> dict[str, int]:
    found = table.scan(["id"], with_address=True)
    return dict(zip(found.column("id").to_pylist(), found.column(ADDRESS).to_pylist(), strict=True))


def check_lookups(table: LanceTable, asked: list[str]) -> None:
    wanted, there = pa.array(asked, pa.string()), located(table)

    found = find_existing(table, lambda: wanted, len(asked))

    addresses = found.get_addresses()
    assert [None if at < 0 else int(addresses[at]) for at in found.at.tolist()] == [there.get(one) for one in asked]
    assert sorted(find_existing_ids(table, wanted).to_pylist()) == sorted(one for one in asked if one in there)
    columns = [name for name in table.schema.names if name != "id"]
    by_id = {one.pop("id"): one for one in table.scan().to_pylist()}
    hits = [one for one in asked if one in there]
    assert found.fetch(found.at[found.mask], columns).to_pylist() == [by_id[one] for one in hits]


NAMES = st.lists(st.sampled_from([f"p{number}" for number in range(26)]), unique=True, min_size=1)


@given(asked=NAMES)
@PLAIN
def test_lookups_find_the_rows_that_live_and_no_others(graph: og.Graph, asked: list[str]) -> None:
    table = table_of(graph)
    assert raw_fragments(table) == [0, 2]

    check_lookups(table, asked)


@given(
    positions=st.lists(st.integers(0, 20), min_size=1), columns=st.permutations([*rows(range(1)).schema.names, "id"])
)
@PLAIN
def test_rows_are_those_of_a_scan(graph: og.Graph, positions: list[int], columns: list[str]) -> None:
    table, asked = table_of(graph), columns[:3]

    assert table.take(positions, asked).to_pylist() == table.scan(asked).take(pa.array(positions)).to_pylist()


CHANGES = {
    "a column more": SCHEMA.replace("    b: I64\n", "    b: I64\n    later: I64?\n"),
    "a column less": SCHEMA.replace("    b: I64\n", ""),
    "a new name": SCHEMA.replace("    b: I64\n", '    c: I64 @rename_from("b")\n'),
    "names that moved on": SCHEMA.replace("    a: I64?\n    b: I64\n", '    b: I64? @rename_from("a")\n'),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_has_other_columns_is_not_read_by_itself(change: str, tmp_path: Path) -> None:
    graph = made(tmp_path)
    graph.apply_schema(CHANGES[change], allow_drops=True)
    table = table_of(graph)

    assert raw_fragments(table) == []
    check_lookups(table, [f"p{number}" for number in range(26)])
    everything = table.scan()
    assert table.take(list(range(len(everything)))).to_pylist() == everything.to_pylist()


def test_columns_that_may_be_null_now_are_read_beside_those_of_other_files(tmp_path: Path) -> None:
    graph = made(tmp_path)
    graph.apply_schema(SCHEMA.replace("    b: I64\n", "    b: I64?\n"))
    graph.load(nodes={"P": rows(range(30, 33)).drop_columns(["b"])}, mode="append")
    table = table_of(graph)

    assert raw_fragments(table) == [0, 2]
    everything = table.scan()
    found = table.take(list(range(len(everything))))
    assert found.schema.field("b").nullable
    assert found.to_pylist() == everything.to_pylist()
    check_lookups(table, [f"p{number}" for number in range(33)])


def test_the_file_of_another_fragment_is_not_taken_for_its_own(tmp_path: Path) -> None:
    graph = made(tmp_path)
    table = table_of(graph)
    place = tmp_path / "g" / table.path / "data"
    (first,), (last,) = table.list_fragments()[0].files, table.list_fragments()[-1].files
    (place / first).write_bytes((place / last).read_bytes())

    assert table.open_data_file(0) is None
    with pytest.raises(PinUnreadableError):
        find_existing(table_of(og.open_graph(graph.uri)), lambda: pa.array(["p1"]), 1)


def test_of_small_fragments_files_are_left_alone(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.storage.data_file_reader.MIN_RAW_FRAGMENT_ROWS", 9)

    assert raw_fragments(table_of(graph)) == []
    check_lookups(table_of(graph), ["p1", "p2", "p5", "p9"])


def test_a_file_that_is_gone_is_told_as_such(tmp_path: Path) -> None:
    graph = made(tmp_path)
    table = table_of(graph)
    table.list_fragments()
    (name,) = table.list_fragments()[0].files
    (tmp_path / "g" / table.path / "data" / name).unlink()

    with pytest.raises(PinUnreadableError, match=r"can't be read"):
        find_existing(table, lambda: pa.array(["p1"]), 1)
    with pytest.raises(PinUnreadableError, match=r"can't be read"):
        table.take(np.arange(3).tolist(), ["b"])
