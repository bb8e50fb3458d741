"""Rows by position: every way to find and fetch them tells what plain Python tells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.engine.tables.table_reader import TableReader
from omnigraph.ops.session import Session
from omnigraph.options import Options
from omnigraph.storage.lance_table import LanceTable
from row_worlds import (
    IDS,
    NODES,
    Model,
    add_index,
    live_rows,
    new_session,
    random_history,
    rows_of,
    table_of,
    view_of,
    write,
)

ROOMY, TINY = Options(), Options(cache_bytes=600)
"""With the second, no column stays in memory."""
LIGHT = ("age", "rank", "score", "name", "code", "color", "ok")


@dataclass(frozen=True)
class World:
    """A graph with a past, and what it holds."""

    session: Session
    model: Model
    seed: int

    def rows(self, options: Options = ROOMY) -> TableReader:
        return rows_of(self.session, cache=GraphCache(options))

    def by_position(self, rows: TableReader, name: str) -> list[Any]:
        """A column of the model in the order of positions, None at holes."""
        there = ids_by_position(rows)
        return [self.model[there[at]][name] if at in there else None for at in range(rows.size)]


@pytest.fixture(
    scope="module", params=[range(12), pytest.param(range(12, 300), marks=pytest.mark.soak)], ids=["some", "many"]
)
def worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[World]:
    """Histories of 0 to 11 commits; in every third one `code` is indexed in full, in every third one in part."""
    made = []
    for seed in request.param:
        session = new_session(tmp_path_factory.mktemp("world") / "g")
        model = random_history(session, seed, seed % 12)
        numbers = [fragment.number for fragment in rows_of(session).table.list_fragments()]
        if seed % 3 and numbers:
            add_index(session, "code", fragments=numbers if seed % 3 == 1 else numbers[:1])
        made.append(World(session, model, seed))
    return made


def ids_by_position(rows: TableReader) -> dict[int, str]:
    at = rows.get_positions()
    return dict(zip(at.tolist(), rows.take_values("id", at).to_pylist(), strict=True))


@pytest.mark.parametrize("options", [ROOMY, TINY], ids=["roomy", "tiny"])
@pytest.mark.parametrize("name", [*LIGHT, "tags", "place"])
def test_every_row_is_fetched_as_it_was_written(worlds: list[World], options: Options, name: str) -> None:
    for world in worlds:
        rows, at = world.rows(options), world.rows(options).get_positions().tolist()
        asked = np.array([*Random(world.seed).choices(at, k=2 * len(at)), *at] if at else [], np.int64)

        ids, values = (rows.take_values(column, asked).to_pylist() for column in ("id", name))

        assert values == [world.model[row_id][name] for row_id in ids]
        assert set(ids) == set(world.model)
        assert rows.count == len(at) == len(world.model)


@pytest.mark.parametrize("options", [ROOMY, TINY], ids=["roomy", "tiny"])
@pytest.mark.parametrize("name", [*LIGHT, "tags", "place"])
def test_a_whole_column_is_null_at_holes(worlds: list[World], options: Options, name: str) -> None:
    for world in worlds:
        rows = world.rows(options)

        assert rows.load_column(name).to_pylist() == world.by_position(rows, name)


@pytest.mark.parametrize("options", [ROOMY, TINY], ids=["roomy", "tiny"])
def test_ids_are_found_or_not(worlds: list[World], options: Options) -> None:
    for world in worlds:
        rows = world.rows(options)
        places = {row_id: at for at, row_id in ids_by_position(rows).items()}
        asked = Random(world.seed).choices([*IDS, "nobody", ""], k=40)
        expected = [places.get(row_id, -1) for row_id in asked]

        assert rows.find(pa.array(asked)).tolist() == expected
        assert [int(rows.find([row_id])[0]) for row_id in asked] == expected


@pytest.mark.parametrize("name", LIGHT)
def test_codes_say_which_values_are_equal(worlds: list[World], name: str) -> None:
    for world in worlds:
        rows = world.rows()

        codes, values = rows.load_codes(name)

        decoded = [None if code < 0 else values[code].as_py() for code in codes.tolist()]
        assert decoded == world.by_position(rows, name)
        assert len(set(values.to_pylist())) == len(values)


@pytest.mark.parametrize("name", ["age", "rank", "score", "ok"])
def test_numbers_are_masked_where_there_is_none(worlds: list[World], name: str) -> None:
    for world in worlds:
        rows = world.rows()

        values, mask = rows.load_numbers(name)

        for at, row_id in ids_by_position(rows).items():
            found = None if mask is not None and not mask[at] else values[at].item()
            assert found == world.model[row_id][name]


@pytest.mark.parametrize("options", [ROOMY, TINY], ids=["roomy", "tiny"])
def test_rows_are_matched_by_a_column(worlds: list[World], options: Options) -> None:
    for world in worlds:
        rows = world.rows(options)

        at, found = rows.find_matching("code", pa.array(["a", "red", "nowhere"]))

        there = ids_by_position(rows)
        pairs = sorted((there[place], value) for place, value in zip(at.tolist(), found.to_pylist(), strict=True))
        assert pairs == sorted((i, row["code"]) for i, row in world.model.items() if row["code"] in ("a", "red"))
        assert at.tolist() == sorted(at.tolist())


def test_what_queries_share_can_not_be_written_to(worlds: list[World]) -> None:
    rows = worlds[11].rows()

    for shared in (
        rows.get_positions(),
        rows.load_codes("code")[0],
        rows.load_numbers("rank")[0],
        rows.load_numbers("ok")[0],
    ):
        assert not shared.flags.writeable


def test_an_append_or_delete_moves_no_row(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), ["a", "b", "e"])))
    before = rows_of(session).find(["a", "e"]).tolist()

    write(session, NODES, append=table_of(session, live_rows(Random(2), ["f"])))
    write(session, NODES, delete=["b"])

    assert rows_of(session).find(["a", "e"]).tolist() == before
    assert rows_of(session).find(["b"]).tolist() == [-1]


def test_a_row_that_is_deleted_and_written_again_is_found_once(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), ["a", "b"])))
    write(session, NODES, delete=["a"])
    write(session, NODES, append=table_of(session, live_rows(Random(2), ["a"])))

    rows = rows_of(session)

    assert (rows.size, rows.count) == (3, 2)
    assert rows.find(["a"]).tolist() == [2]


def test_only_new_rows_are_read_after_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), IDS[:6])))
    rows_of(session).load_column("code")
    write(session, NODES, append=table_of(session, live_rows(Random(2), IDS[6:])))
    read: list[list[int]] = []
    written_rows = LanceTable.iter_written_rows

    def spy(table: LanceTable, columns: Sequence[str], fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
        read.append(list(fragments))
        return written_rows(table, columns, fragments)

    monkeypatch.setattr(LanceTable, "iter_written_rows", spy)
    found = rows_of(session).load_column("code").to_pylist()

    assert read == [[1]]
    assert len(found) == len(IDS)


def test_a_version_with_the_same_rows_shares_the_columns(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), IDS)))
    rows_of(session).load_column("code")

    add_index(session, "code")

    assert rows_of(session).is_resident("code")


def test_an_overwritten_table_is_read_anew(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    write(session, NODES, append=table_of(session, live_rows(Random(1), ["a", "b"])))
    rows_of(session).load_column("id")

    write(session, NODES, overwrite=table_of(session, live_rows(Random(2), ["z"])))

    assert rows_of(session).load_column("id").to_pylist() == ["z"]


def test_an_old_snapshot_keeps_its_rows(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    model: Model = live_rows(Random(1), ["a", "b", "e"])
    write(session, NODES, append=table_of(session, model))
    old = view_of(session)
    write(session, NODES, delete=["a"])
    rows_of(session).load_column("id")

    rows = session.reads.get_reader(old, old.get_type("P"))

    assert rows.load_column("id").to_pylist() == ["a", "b", "e"]


def test_a_negative_zero_is_the_same_value_as_zero(tmp_path: Path) -> None:
    session = new_session(tmp_path / "g")
    model = live_rows(Random(1), ["a", "b"])
    model["a"]["score"], model["b"]["score"] = 0.0, -0.0
    write(session, NODES, append=table_of(session, model))

    codes, values = rows_of(session).load_codes("score")

    assert codes.tolist() == [0, 0]
    assert values.to_pylist() == [0.0]
