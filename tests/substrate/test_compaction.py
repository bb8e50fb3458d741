"""What maintenance relies on in Lance, one fact each. An upgrade that changes one turns red here first."""

import dataclasses
import json
import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import Index, LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, write_fragments
from lance.lance import Bitmap

from omnigraph.options import UpkeepOptions
from omnigraph.storage.compaction import _MAX_FRAGMENT_ID_FIELD, _build_task_options
from omnigraph.storage.protobuf import iter_integers

SIZES = (10, 5_000, 200_000, 5_000_000, 0, None)
"""Of blobs: beside the other columns, in the data file, in a file of several, in one of its own, empty, none."""


def rows(first: int, end: int) -> pa.Table:
    ids = pa.array([f"i{number:03}" for number in range(first, end)], pa.string())
    return pa.table({"id": ids, "n": pa.array(range(first, end), pa.int64())})


def committed(table: LanceDataset, operation: LanceOperation.BaseOperation) -> LanceDataset:
    return LanceDataset.commit(table, Transaction(table.version, operation), detached=True)


def indexed(table: LanceDataset, fragments: list[int]) -> LanceDataset:
    segment = table.create_index_uncommitted("id", "BTREE", name="id_btree", replace=True, fragment_ids=fragments)
    return committed(table, LanceOperation.CreateIndex([segment], []))


def deleted(table: LanceDataset, fragment: int, offsets: list[int]) -> LanceDataset:
    found = table.get_fragment(fragment)
    assert found is not None
    left = found.delete_rows(offsets)
    return committed(table, LanceOperation.Delete([left] if left else [], [] if left else [fragment], ""))


def compacted(table: LanceDataset, numbers: list[int], first: int = 100) -> list[FragmentMetadata]:
    """New fragments, numbered from `first`, with the rows of these."""
    from lance.optimize import CompactionTask

    metadata = {one.fragment_id: one.metadata for one in table.get_fragments()}
    task = {
        "task": {"fragments": [metadata[number].to_json() for number in numbers]},
        "read_version": table.version,
        "options": _build_task_options(UpkeepOptions()),
    }
    done = CompactionTask.from_json(json.dumps(task)).execute(table)  # type: ignore[attr-defined]  # its stub lacks it
    new = done.new_fragments
    for place, one in enumerate(new):
        one.id = first + place
    return list(new)


def rewritten(table: LanceDataset, numbers: list[int], new: list[FragmentMetadata]) -> LanceDataset:
    old = [one.metadata for one in table.get_fragments() if one.fragment_id in numbers]
    return committed(table, LanceOperation.Rewrite([LanceOperation.RewriteGroup(old, new)], []))


def numbers_of(table: LanceDataset) -> list[int]:
    return [one.fragment_id for one in table.get_fragments()]


def coverage(table: LanceDataset) -> list[list[int]]:
    return [sorted(one.fragment_ids) for index in table.describe_indices() for one in index.segments]


def found(table: LanceDataset, number: int) -> list[int]:
    return list(table.to_table(filter=f"id = 'i{number:03}'")["n"].to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    """Four fragments of ten rows; two rows of the second are deleted; the first three are indexed."""
    made = lance.write_dataset(rows(0, 10), str(tmp_path / "t"), data_storage_version="2.2", enable_stable_row_ids=True)
    for first in (10, 20, 30):
        made = committed(made, LanceOperation.Append(write_fragments(rows(first, first + 10), made, mode="append")))
    return deleted(indexed(made, [0, 1, 2]), 1, [2, 3])


def test_a_group_of_our_own_choice_is_compacted_with_its_rows_in_order(table: LanceDataset) -> None:
    (new,) = compacted(table, [0, 1, 3])

    made = rewritten(table, [0, 1, 3], [new])

    wanted = [*range(12), *range(14, 20), *range(30, 40)]
    assert made.get_fragments()[-1].to_table()["n"].to_pylist() == wanted
    assert new.physical_rows == len(wanted)


def test_rows_keep_their_numbers(table: LanceDataset) -> None:
    made = rewritten(table, [0, 1, 3], compacted(table, [0, 1, 3]))

    before, after = (one.to_table(with_row_id=True).sort_by("n") for one in (table, made))
    assert after == before


def test_a_rewrite_may_number_its_fragments_with_gaps_and_the_next_come_behind(table: LanceDataset) -> None:
    made = rewritten(table, [0, 1], compacted(table, [0, 1], first=5_000))
    more = committed(made, LanceOperation.Append(write_fragments(rows(40, 50), made, mode="append")))

    assert numbers_of(made) == [2, 3, 5_000]
    assert numbers_of(more) == [2, 3, 5_000, 5_001]


def test_numbers_are_listed_in_the_order_of_the_fragments(table: LanceDataset) -> None:
    mixed = rewritten(table, [0, 1], compacted(table, [0, 1], first=100))
    appended = committed(mixed, LanceOperation.Append(write_fragments(rows(90, 91), mixed)))

    for version in (table, mixed, appended):
        assert list(version.fragment_ids()) == [one.fragment_id for one in version.get_fragments()]


def test_numbers_are_not_given_again_when_all_fragments_are_gone(table: LanceDataset) -> None:
    """Why an index may name rows by them."""
    made = rewritten(table, [0, 1], compacted(table, [0, 1], first=5_000))

    empty = committed(made, LanceOperation.Delete([], numbers_of(made), ""))
    more = committed(empty, LanceOperation.Append(write_fragments(rows(0, 5), empty, mode="append")))

    assert min(numbers_of(more)) > 5_000


def test_the_highest_number_ever_given_is_read_from_the_version(table: LanceDataset) -> None:
    """Lance shows it to nobody, and forgets nothing of it when the fragment goes."""
    made = rewritten(table, [0, 1], compacted(table, [0, 1], first=5_000))
    left = committed(made, LanceOperation.Delete([], [5_000], ""))

    highest = [
        max(iter_integers(bytes(one._ds.serialized_manifest()), _MAX_FRAGMENT_ID_FIELD)) for one in (table, made, left)
    ]

    assert highest == [3, 5_000, 5_000]
    assert numbers_of(left) == [2, 3]


def test_an_index_covers_a_fragment_that_gets_the_number_of_one_that_is_gone(tmp_path: Path) -> None:
    """Why no number is given twice: the rows of the new fragment are then not found."""
    made = lance.write_dataset(rows(0, 5), str(tmp_path / "t"), data_storage_version="2.2", enable_stable_row_ids=True)
    made = committed(made, LanceOperation.Append(write_fragments(rows(5, 10), made, mode="append")))
    made = indexed(made, [1])
    gone = committed(made, LanceOperation.Delete([], [1], ""))

    again = rewritten(gone, [0], compacted(gone, [0], first=1))

    assert again.count_rows() == 5
    assert [found(again, number) for number in range(5)] == [[]] * 5


def test_a_rewrite_takes_its_fragments_out_of_every_index(table: LanceDataset) -> None:
    made = rewritten(table, [0, 1], compacted(table, [0, 1]))

    assert coverage(made) == [[2]]
    assert [found(made, number) for number in (5, 12, 25, 35)] == [[5], [], [25], [35]]


def test_an_index_does_not_follow_rows_by_their_numbers(table: LanceDataset) -> None:
    """Why segments are built anew after a compaction; if this turns red, giving them new names would be enough."""
    built = table.create_index_uncommitted("n", "BTREE", name="n_btree", fragment_ids=[0, 1, 2])
    before = committed(table, LanceOperation.CreateIndex([built], []))
    made = rewritten(before, [0, 1, 2], compacted(before, [0, 1, 2]))

    relabelled = dataclasses.replace(built, fragment_ids=Bitmap([100]))
    wrong = committed(made, LanceOperation.CreateIndex([relabelled], [built]))

    assert made.to_table(filter="n = 5").num_rows == 1
    assert wrong.to_table(filter="n = 5").num_rows == 0


@pytest.mark.parametrize("column, kind", [("even", "BITMAP"), ("text", "INVERTED"), ("tags", "LABEL_LIST")])
def test_other_indexes_follow_rows_and_refuse_a_group_of_which_they_cover_some(
    column: str, kind: str, tmp_path: Path
) -> None:
    """Why fragments are grouped by the segments that cover them."""
    data = pa.table({"even": [True, False], "text": ["graphs run", "tables stand"], "tags": [["a"], ["b"]]})
    made = lance.write_dataset(data, str(tmp_path / "t"), data_storage_version="2.2", enable_stable_row_ids=True)
    for _ in range(2):
        made = committed(made, LanceOperation.Append(write_fragments(data, made, mode="append")))
    built = made.create_index_uncommitted(column, kind, name="x", fragment_ids=[0, 1])
    if kind == "INVERTED":
        built = made.merge_existing_index_segments([built])
    made = committed(made, LanceOperation.CreateIndex([built], []))

    whole = rewritten(made, [0, 1], compacted(made, [0, 1]))

    assert coverage(whole) == [[100]]
    with pytest.raises(OSError, match="split of indexed and non-indexed"):
        rewritten(made, [1, 2], compacted(made, [1, 2]))


def test_new_fragments_may_be_committed_with_deletions_onto_a_newer_version(table: LanceDataset) -> None:
    """How deletions that were made meanwhile are carried over."""
    new = compacted(table, [0, 2])
    preview = rewritten(table, [0, 2], new)
    newer = deleted(table, 0, [4, 5])
    there = preview.get_fragment(100)
    assert there is not None
    left = there.delete_rows([4, 5])
    assert left is not None

    made = rewritten(newer, [0, 2], [left])

    before, after = (one.to_table(with_row_id=True).sort_by("n") for one in (newer, made))
    assert after == before
    assert found(indexed(made, [100]), 4) == []
    assert found(indexed(made, [100]), 6) == [6]


def test_blobs_of_every_size_survive_and_need_none_of_the_old_files(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), lance.blob_field("b")])
    wanted: dict[str, bytes | None] = {}
    made = lance.write_dataset(
        pa.table([pa.array([], pa.string()), lance.blob_array([])], schema=schema),
        str(tmp_path / "b"),
        data_storage_version="2.2",
        enable_stable_row_ids=True,
    )
    for part in range(3):
        values = [None if size is None else os.urandom(size) for size in SIZES]
        ids = [f"{part}-{size}" for size in SIZES]
        wanted |= dict(zip(ids, values, strict=True))
        data = pa.table([pa.array(ids, pa.string()), lance.blob_array(values)], schema=schema)
        made = committed(made, LanceOperation.Append(write_fragments(data, made, mode="append")))
    made = deleted(made, 1, [2, 3])
    del wanted["1-200000"], wanted["1-5000000"]
    old = [file for file in (tmp_path / "b" / "data").rglob("*") if file.is_file()]

    new = rewritten(made, [0, 1, 2], compacted(made, [0, 1, 2]))
    for file in old:
        file.unlink()
    fresh = lance.dataset(new.uri, version=new.version)

    ids = fresh.to_table(["id"])["id"].to_pylist()
    blobs = fresh.take_blobs("b", indices=list(range(len(ids))))
    assert {one: None if blob is None else blob.readall() for one, blob in zip(ids, blobs, strict=True)} == wanted


def test_segments_side_by_side_serve_together_and_overlapping_ones_give_hits_twice(tmp_path: Path) -> None:
    """Why replaced segments go in the same version."""
    texts = pa.table({"id": ["1", "2"], "x": ["graphs run", "graphs stand"]})
    made = lance.write_dataset(texts, str(tmp_path / "x"), data_storage_version="2.2", enable_stable_row_ids=True)
    made = committed(made, LanceOperation.Append(write_fragments(texts, made, mode="append")))

    def segment(numbers: list[int]) -> Index:
        built = made.create_index_uncommitted("x", "INVERTED", name="x_text", replace=True, fragment_ids=numbers)
        return made.merge_existing_index_segments([built])

    beside = committed(made, LanceOperation.CreateIndex([segment([0]), segment([1])], []))
    over = committed(made, LanceOperation.CreateIndex([segment([0, 1]), segment([1])], []))

    assert beside.to_table(["id", "_score"], full_text_query="graphs").num_rows == 4
    assert over.to_table(["id", "_score"], full_text_query="graphs").num_rows == 6
