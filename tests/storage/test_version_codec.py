"""Versions that are encoded here are those that Lance writes, byte by byte but for their transaction."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.fragment import FragmentMetadata, write_fragments
from lance.lance import _Session as Session

from omnigraph.storage.layout import build_version_key
from omnigraph.storage.protobuf import encode_integer, iter_parts, join_parts
from omnigraph.storage.version_codec import (
    TooManyFragmentsError,
    UnknownFormatError,
    VersionContent,
    decode_indexes,
    decode_version,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
# The position of the list of indexes, the time, and the transaction.
APART = (6, 7, 12, 23)


def build_rows(start: int, end: int) -> pa.Table:
    vectors = np.arange(4 * start, 4 * end, dtype=np.float32)
    return pa.table(
        {
            "id": pa.array([f"x{n}" for n in range(start, end)], pa.string()),
            "n": pa.array(range(start, end), pa.int64()),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors), 4),
        }
    )


def create(path: Path, rows: pa.Table, index: str | None) -> LanceDataset:
    uri = str(path / "t")
    dataset = lance.write_dataset(
        rows, uri, enable_stable_row_ids=True, data_storage_version="2.2", max_rows_per_file=100
    )
    if index == "IVF_FLAT":
        dataset.create_index("v", index, num_partitions=2)
    elif index is not None:
        dataset.create_scalar_index("id", cast("Any", index))
    return lance.dataset(uri)


def read_file(path: Path, dataset: LanceDataset) -> bytes:
    return (path / build_version_key("t", int(dataset.version))).read_bytes()


def decode(path: Path, dataset: LanceDataset) -> VersionContent:
    content = decode_version(bytes(dataset._ds.serialized_manifest()))
    return replace(content, indexes=decode_indexes(read_file(path, dataset))) if content.has_indexes else content


def list_facts(file: bytes) -> tuple[bytes, list[tuple[int, bytes]]]:
    """The list of indexes of a version, and the parts of its manifest."""
    position = int.from_bytes(file[-16:-8], "little")
    parts = list(iter_parts(file[position + 4 : -16]))
    indexes = decode_indexes(file) if any(number == 6 for number, _ in parts) else b""
    return indexes, [part for part in parts if part[0] not in APART]


Change = tuple[LanceOperation.BaseOperation, Sequence[FragmentMetadata], Sequence[FragmentMetadata], Sequence[int]]


def remove_rows(dataset: LanceDataset, fragment: int, offsets: list[int]) -> FragmentMetadata:
    remaining = dataset.get_fragments()[fragment].delete_rows(offsets)
    assert remaining is not None
    return remaining


def append(dataset: LanceDataset) -> Change:
    written = write_fragments(build_rows(900, 1150), dataset, mode="append", max_rows_per_file=100)
    return LanceOperation.Append(written), written, (), ()


def update(dataset: LanceDataset) -> Change:
    written = write_fragments(build_rows(2, 3), dataset, mode="append")
    updated = [remove_rows(dataset, fragment, [2, 5]) for fragment in (0, 1)]
    removed = [dataset.get_fragments()[2].fragment_id]
    operation = LanceOperation.Update(
        removed_fragment_ids=removed, updated_fragments=updated, new_fragments=written, fields_modified=[]
    )
    return operation, written, updated, removed


def delete(dataset: LanceDataset) -> Change:
    updated = [remove_rows(dataset, 0, [7])]
    return LanceOperation.Delete(updated, [], "x"), (), updated, ()


def remove_most(dataset: LanceDataset) -> Change:
    """All fragments that an index covers, and all with deleted rows."""
    removed = [fragment.fragment_id for fragment in dataset.get_fragments()[:3]]
    return LanceOperation.Delete([], removed, "x"), (), (), removed


CHANGES: tuple[Callable[[LanceDataset], Change], ...] = (append, update, delete, append, remove_most, append)


@pytest.mark.parametrize("index", [None, "BTREE", "BITMAP", "INVERTED", "IVF_FLAT"])
def test_each_change_of_rows_gives_the_version_of_lance(tmp_path: Path, index: str | None) -> None:
    dataset = create(tmp_path, build_rows(0, 300), index)
    for change in CHANGES:
        operation, written, updated, removed = change(dataset)
        base = decode(tmp_path, dataset)

        dataset = LanceDataset.commit(dataset, Transaction(dataset.version, operation), detached=True)
        content = base.apply(
            int(dataset.version), [one.to_json() for one in written], [one.to_json() for one in updated], removed
        )

        file = content.encode_file(content.encode_manifest(NOW))
        assert list_facts(file) == list_facts(read_file(tmp_path, dataset))


@pytest.mark.parametrize("index", [None, "BTREE"])
def test_lance_reads_and_continues_a_version_of_ours(tmp_path: Path, index: str | None) -> None:
    dataset = create(tmp_path, build_rows(0, 300), index)
    _, written, updated, removed = update(dataset)

    content = decode(tmp_path, dataset).apply(
        12_345, [one.to_json() for one in written], [one.to_json() for one in updated], removed
    )
    manifest = content.encode_manifest(NOW)
    uri = str(tmp_path / "t")
    # From memory, before the file exists, and from the file, by another session.
    early = LanceDataset(uri, content.number, serialized_manifest=manifest, session=Session())
    assert early.count_rows() == 197
    (tmp_path / build_version_key("t", content.number)).write_bytes(content.encode_file(manifest))
    ours = lance.dataset(uri, version=content.number)
    assert content.number == 12_345 | 1 << 63
    assert sorted(ours.to_table(["n"]).column("n").to_pylist()) == sorted({*range(200)} - {5, 102, 105})
    assert ours.to_table(["n"], filter="id = 'x2'").column("n").to_pylist() == [2]
    assert ours.to_table(["n"], filter="id = 'x150'").column("n").to_pylist() == [150]
    assert [one.name for one in ours.describe_indices()] == ([] if index is None else ["id_idx"])

    operation, *_ = append(ours)
    after = LanceDataset.commit(ours, Transaction(ours.version, operation), detached=True)
    assert after.count_rows() == 197 + 250
    row_ids = after.to_table(columns=["id"], with_row_id=True).column("_rowid").to_pylist()
    assert len(set(row_ids)) == len(row_ids)


def test_an_empty_table_gets_its_first_fragment(tmp_path: Path) -> None:
    dataset = create(tmp_path, build_rows(0, 0), None)
    operation, written, _, _ = append(dataset)
    base = decode(tmp_path, dataset)

    dataset = LanceDataset.commit(dataset, Transaction(dataset.version, operation), detached=True)
    content = base.apply(int(dataset.version), [one.to_json() for one in written], (), ())

    assert list_facts(content.encode_file(content.encode_manifest(NOW))) == list_facts(read_file(tmp_path, dataset))


def test_the_last_fragment_number_is_used_and_none_after_it(tmp_path: Path) -> None:
    dataset = create(tmp_path, build_rows(0, 1), None)
    written = [one.to_json() for one in write_fragments(build_rows(1, 2), dataset, mode="append")]
    near_end = replace(decode(tmp_path, dataset), highest=2**32 - 2)

    last = near_end.apply(1, written, (), ())
    assert last.highest == 2**32 - 1
    with pytest.raises(TooManyFragmentsError):
        last.apply(2, written, (), ())


def test_rows_without_stable_ids_and_foreign_files_are_left_to_lance(tmp_path: Path) -> None:
    plain = lance.write_dataset(build_rows(0, 1), str(tmp_path / "plain"))
    with pytest.raises(UnknownFormatError):
        decode_version(bytes(plain._ds.serialized_manifest()))

    dataset = create(tmp_path, build_rows(0, 1), None)
    (written,) = write_fragments(build_rows(1, 2), dataset, mode="append")
    described = written.to_json()
    described["files"][0]["base_id"] = 1
    with pytest.raises(UnknownFormatError):
        decode(tmp_path, dataset).apply(1, [described], (), ())


@pytest.mark.parametrize("field", [9, 10])
def test_a_version_with_a_feature_of_a_newer_lance_is_left_to_lance(tmp_path: Path, field: int) -> None:
    """Lance refuses to continue it: a writer that does not know the feature could break it."""
    dataset = create(tmp_path, build_rows(0, 1), None)
    parts = [part for part in iter_parts(bytes(dataset._ds.serialized_manifest())) if part[0] != field]

    with pytest.raises(UnknownFormatError, match="features"):
        decode_version(join_parts([*parts, encode_integer(field, 2 | 1 << 20)]))


def test_a_file_that_is_no_version_has_no_indexes() -> None:
    for data in (b"", b"LANC", bytes(16), b"\xff" * 12 + b"LANC"):
        with pytest.raises(UnknownFormatError):
            decode_indexes(data)
