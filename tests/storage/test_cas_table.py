"""The table that changes by compare-and-swap."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import lance
import pyarrow as pa
import pytest

from omnigraph.storage.cas_table import create_cas_table, open_cas_table
from omnigraph.storage.cas_table_errors import SwapLostError
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.uri import parse_uri
from omnigraph.storage.versions import create_table
from s3_server import fresh_uri, s3_server
from worlds import FAST, runtime

PATH = "t"


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


@pytest.fixture
def store(tmp_path: Path) -> GraphStorage:
    return GraphStorage(parse_uri(str(tmp_path)), runtime())


def test_a_swap_is_lost_to_whatever_came_first_even_what_lance_would_put_it_on_top_of(store: GraphStorage) -> None:
    table = create_cas_table(store, PATH, rows(1))
    prepared = table.prepare(rows(2))
    lance.write_dataset(rows(3), store.resolve_uri(PATH), mode="append")

    with pytest.raises(SwapLostError):
        table.commit(prepared)

    assert open_cas_table(store, PATH).version == 2


def test_the_last_rows_of_a_sealed_fragment_can_be_read_alone(store: GraphStorage) -> None:
    table = create_cas_table(store, PATH, rows(0))

    sealed = table.commit(table.prepare(rows(9), seal=rows(1, 2, 3)))

    assert sealed.read_sealed(0, last=2)["n"].to_pylist() == [2, 3]
    assert sealed.read_sealed(0, last=7)["n"].to_pylist() == [1, 2, 3]
    assert sealed.read_sealed(0)["n"].to_pylist() == [1, 2, 3]


def test_a_sealed_fragment_keeps_its_name_when_others_are_swapped_in(store: GraphStorage) -> None:
    sealed = create_cas_table(store, PATH, rows(0))
    sealed = sealed.commit(sealed.prepare(rows(9), seal=rows(1)))

    later = sealed.commit(sealed.prepare(rows(10), seal=rows(2)))

    assert later.get_sealed_name(0) == sealed.get_sealed_name(0)
    assert later.get_sealed_name(1) != later.get_sealed_name(0)


RACERS, RACES = 4, 12


@pytest.fixture(scope="module", params=["disk", "s3"])
def shared_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphStorage]:
    if request.param == "disk":
        yield GraphStorage(parse_uri(str(tmp_path_factory.mktemp("g"))), runtime())
        return
    with s3_server() as options:
        yield GraphStorage(parse_uri(fresh_uri()), runtime(replace(FAST, storage=options)))


CREATIONS: dict[str, Callable[[GraphStorage, str, int], int]] = {
    "small table": lambda store, path, number: create_cas_table(store, path, rows(number)).version,
    "data table": lambda store, path, number: create_table(store, path, rows(number).schema),
}


@pytest.mark.parametrize("kind", CREATIONS)
def test_of_racing_creations_exactly_one_makes_the_first_version(kind: str, shared_store: GraphStorage) -> None:
    made: dict[str, list[int]] = {}
    with ThreadPoolExecutor(RACERS) as pool:
        for race in range(RACES):
            path, barrier = f"nodes/{kind[0]}{race}", Barrier(RACERS)

            def create(number: int, path: str = path, barrier: Barrier = barrier) -> int | None:
                barrier.wait()
                try:
                    return CREATIONS[kind](shared_store, path, number)
                except SwapLostError:
                    return None

            made[path] = [version for version in pool.map(create, range(RACERS)) if version is not None]

    assert made == {path: [1] for path in made}
    assert {open_cas_table(shared_store, path).version for path in made} == {1}


def test_a_table_that_is_there_is_not_made_again(store: GraphStorage) -> None:
    create_cas_table(store, PATH, rows(1))

    with pytest.raises(SwapLostError):
        create_cas_table(store, PATH, rows(2))

    assert open_cas_table(store, PATH).read_head()["n"].to_pylist() == [1]
