"""A table with hidden rows reads like one from which these were deleted, by every method."""

import inspect
import random

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.engine.changed_ranges import read_rows_at
from omnigraph.engine.row_security.masked_table import MaskedTable, build_row_mask
from omnigraph.storage.lance_table import ADDRESS, LanceTable
from worlds import runtime

# Columns are the same with or without hidden rows.
UNCHANGED = {"find_field_number", "schema"}
SCHEMA = "node Person { name: String @key  n: I64?  photo: Blob? }"


def test_every_method_is_its_own() -> None:
    """An inherited one would read hidden rows, too."""
    public = {name for name, _ in inspect.getmembers(LanceTable) if not name.startswith("_")}

    assert public - vars(MaskedTable).keys() == UNCHANGED


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> LanceTable:
    """A table of three fragments, of which two have deleted rows."""
    graph = og.create_graph(str(tmp_path_factory.mktemp("masked") / "g"), SCHEMA, runtime=runtime())
    for part in range(3):
        names = range(part * 40, part * 40 + 40)
        rows = [
            {"name": f"p{n:03}", "n": n if n % 5 else None, "photo": "base64:aGk=" if n % 2 else None} for n in names
        ]
        graph.load(nodes={"Person": rows}, mode="append")
    graph.mutate("query d() { delete Person where n < 20 }")
    session = graph._session
    return session.open_tables(session.head().snapshot).open_table("node:Person")


def read_seen(table: LanceTable, hidden: np.ndarray) -> tuple[MaskedTable, pa.Table]:
    """The masked table, and its rows as they must be."""
    mask = build_row_mask(table.list_fragments(), hidden & live_positions(table))
    assert mask is not None
    rows = table.scan(["id", "n"], with_address=True)
    addresses = np.asarray(rows.column(ADDRESS), np.uint64)
    return MaskedTable(table, mask), rows.filter(pa.array(mask.is_seen(addresses)))


def live_positions(table: LanceTable) -> np.ndarray:
    live = []
    for fragment in table.list_fragments():
        deleted = table.read_deleted_offsets([fragment.number])[0] if fragment.deleted else np.empty(0, np.int64)
        live.append(~np.isin(np.arange(fragment.rows), deleted))
    return np.concatenate(live)


@pytest.mark.parametrize("seed", range(12))
def test_all_reads_leave_out_what_is_hidden(seed: int, table: LanceTable) -> None:
    rng = random.Random(seed)
    share = rng.choice([0.05, 0.5, 1.0])
    hidden = np.array([rng.random() < share for _ in range(sum(f.rows for f in table.list_fragments()))])
    hidden[np.flatnonzero(live_positions(table))[0]] = True
    masked, seen = read_seen(table, hidden)
    ids = seen.column("id").to_pylist()

    assert masked.count() == len(ids)
    assert masked.count("n >= 50") == sum(n is not None and n >= 50 for n in seen.column("n").to_pylist())
    assert masked.scan(["id"]).column("id").to_pylist() == ids
    assert masked.scan(["id"], limit=3).column("id").to_pylist() == ids[:3]
    assert masked.find_rows("id", [f"p{n:03}" for n in range(120)], ["id"]).num_rows == len(ids)
    for first, count in ((0, 5), (3, 200), (len(ids), 1), (len(ids) // 2, 7)):
        batches = masked.iter_batches(["id"], within=range(first, first + count), batch_rows=rng.choice([1, 7, 1000]))
        assert [row for batch in batches for row in batch.column("id").to_pylist()] == ids[first : first + count]
    at = [rng.randrange(len(ids)) for _ in range(9)] if ids else []
    assert masked.take(at, ["id"]).column("id").to_pylist() == [ids[n] for n in at]
    if at:
        assert masked.take_with_blobs(at, ["id", "photo"]).column("id").to_pylist() == [ids[n] for n in at]
        dense = np.arange(len(ids))
        assert read_rows_at(masked, dense, ["id"]).column("id").to_pylist() == ids
    numbers = [fragment.number for fragment in masked.list_fragments()]
    deleted = masked.read_deleted_offsets(numbers)
    assert [len(offsets) for offsets in deleted] == [fragment.deleted for fragment in masked.list_fragments()]
    assert masked.count_values("n", numbers) == len(seen) - seen.column("n").null_count
    addresses = masked.get_address_map().to_addresses(np.arange(len(ids)))
    assert addresses.tolist() == seen.column(ADDRESS).to_pylist()


def test_other_hidden_rows_are_another_version_for_caches(table: LanceTable) -> None:
    first = live_positions(table)
    second = first.copy()
    second[np.flatnonzero(first)[-1]] = False

    masked = [read_seen(table, hidden)[0] for hidden in (first, second, first.copy())]

    assert len({each.cache_version for each in masked}) == 2
    assert masked[0].list_fragments() != masked[1].list_fragments()
    assert masked[0].list_fragments() == masked[2].list_fragments()
