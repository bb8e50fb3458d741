"""The table that changes by compare-and-swap."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.storage.store import Store
from omnigraph.storage.swap import create_swap_table, open_table
from omnigraph.storage.swap_errors import SwapLostError
from omnigraph.storage.uri import parse_uri
from worlds import runtime

PATH = "t"


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64())})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(parse_uri(str(tmp_path)), runtime())


def test_a_swap_is_lost_to_whatever_came_first_even_what_lance_would_put_it_on_top_of(store: Store) -> None:
    table = create_swap_table(store, PATH, rows(1))
    prepared = table.prepare(rows(2))
    lance.write_dataset(rows(3), store.uri(PATH), mode="append")

    with pytest.raises(SwapLostError):
        table.commit(prepared)

    assert open_table(store, PATH).version == 2


def test_the_last_rows_of_a_sealed_fragment_can_be_read_alone(store: Store) -> None:
    table = create_swap_table(store, PATH, rows(0))

    sealed = table.commit(table.prepare(rows(9), seal=rows(1, 2, 3)))

    assert sealed.sealed(0, last=2)["n"].to_pylist() == [2, 3]
    assert sealed.sealed(0, last=7)["n"].to_pylist() == [1, 2, 3]
    assert sealed.sealed(0)["n"].to_pylist() == [1, 2, 3]


def test_a_sealed_fragment_keeps_its_name_when_others_are_swapped_in(store: Store) -> None:
    sealed = create_swap_table(store, PATH, rows(0))
    sealed = sealed.commit(sealed.prepare(rows(9), seal=rows(1)))

    later = sealed.commit(sealed.prepare(rows(10), seal=rows(2)))

    assert later.sealed_name(0) == sealed.sealed_name(0)
    assert later.sealed_name(1) != later.sealed_name(0)
