"""What positions rest on: where Lance says that rows are, and what it shows of deleted ones."""

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, write_fragments


def rows(first: int, end: int) -> pa.Table:
    return pa.table({"id": [f"i{n}" for n in range(first, end)], "n": pa.array(range(first, end), pa.int64())})


def without(dataset: LanceDataset, fragment: int, offsets: list[int]) -> FragmentMetadata:
    left = dataset.get_fragments()[fragment].delete_rows(offsets)
    assert left is not None
    return left


@pytest.fixture
def dataset(tmp_path: Path) -> LanceDataset:
    """Three fragments of five rows; two rows of the second are deleted, one of the first moved to a fourth fragment."""
    made = lance.write_dataset(rows(0, 5), str(tmp_path / "t"), enable_stable_row_ids=True, data_storage_version="2.2")
    for first in (5, 10):
        made = lance.write_dataset(rows(first, first + 5), made, mode="append")
    less = without(made, 1, [1, 3])
    made = LanceDataset.commit(made, Transaction(made.version, LanceOperation.Delete([less], [], "")), detached=True)
    less = without(made, 0, [2])
    moved = write_fragments(rows(2, 3), made, mode="append")
    update = LanceOperation.Update(
        removed_fragment_ids=[], updated_fragments=[less], new_fragments=moved, fields_modified=[]
    )
    return LanceDataset.commit(made, Transaction(made.version, update), detached=True)


LIVING = [(0, 0), (0, 1), (0, 3), (0, 4), (1, 0), (1, 2), (1, 4), (2, 0), (2, 1), (2, 2), (2, 3), (2, 4), (3, 0)]


def test_an_address_is_a_fragment_and_an_offset_that_deletes_leave_alone(dataset: LanceDataset) -> None:
    found = dataset.to_table(columns=["n"], with_row_address=True)

    places = [(address >> 32, address & 0xFFFFFFFF) for address in found["_rowaddr"].to_pylist()]
    assert places == LIVING
    assert found["n"].to_pylist() == [0, 1, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 2]


def test_the_metadata_count_written_and_deleted_rows(dataset: LanceDataset) -> None:
    counts = [(f.metadata.physical_rows, f.metadata.num_deletions) for f in dataset.get_fragments()]

    assert counts == [(5, 1), (5, 2), (5, 0), (1, 0)]


def test_deleted_rows_are_shown_as_they_were_written_in_their_places(dataset: LanceDataset) -> None:
    fragments = [dataset.get_fragments()[number] for number in (1, 0, 3)]

    found = dataset.scanner(columns=["n"], fragments=fragments, include_deleted_rows=True, with_row_id=True).to_table()

    assert found["n"].to_pylist() == [5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 2]


def test_addresses_alone_can_be_read(dataset: LanceDataset) -> None:
    fragments = [dataset.get_fragments()[1]]

    found = dataset.scanner(columns=[], fragments=fragments, with_row_address=True).to_table()

    assert [address & 0xFFFFFFFF for address in found["_rowaddr"].to_pylist()] == [0, 2, 4]


def test_take_counts_living_rows_in_any_order(dataset: LanceDataset) -> None:
    found = dataset.take(pa.array([12, 2, 2, 5], pa.uint64()), columns=["n"])

    assert found["n"].to_pylist() == [2, 3, 3, 7]


def test_a_deletion_file_has_a_name_of_its_own(dataset: LanceDataset) -> None:
    files = [f.metadata.deletion_file for f in dataset.get_fragments() if f.metadata.deletion_file is not None]

    assert len({(file.read_version, file.id) for file in files}) == 2


def test_a_field_keeps_its_number_when_it_is_renamed(dataset: LanceDataset, tmp_path: Path) -> None:
    copy = lance.write_dataset(dataset.to_table(), str(tmp_path / "copy"))
    before = copy.lance_schema.field("n")

    copy.alter_columns({"path": "n", "name": "m"})  # type: ignore[dict-item]  # its stub has the type wrong

    after = copy.lance_schema.field("m")
    assert before is not None
    assert after is not None
    assert after.id() == before.id()
