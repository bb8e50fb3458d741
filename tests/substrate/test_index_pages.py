"""The list of pages that a BTREE keeps: what we read of a file of Lance's own."""

from pathlib import Path

import lance
import pyarrow as pa
from lance.file import LanceFileReader


def test_a_btree_lists_the_bounds_of_its_pages(tmp_path: Path) -> None:
    values = pa.array([None] * 10 + list(range(10_000)), pa.int32())
    dataset = lance.write_dataset(pa.table({"x": values}), str(tmp_path / "t.lance"))
    numbers = [fragment.fragment_id for fragment in dataset.get_fragments()]

    built = dataset.create_index_uncommitted("x", "BTREE", name="x", fragment_ids=numbers)

    file = tmp_path / "t.lance" / "_indices" / str(built.uuid) / "page_lookup.lance"
    reader = LanceFileReader(str(file))
    assert (reader.metadata().schema.metadata or {})[b"batch_size"] == b"4096"
    assert reader.read_all().to_table().to_pylist() == [
        {"min": None, "max": 4_085, "null_count": 10, "page_idx": 0},
        {"min": 4_086, "max": 8_181, "null_count": 0, "page_idx": 1},
        {"min": 8_182, "max": 9_999, "null_count": 0, "page_idx": 2},
    ]
