"""Filters that Lance can't hand on by itself, and can with our correction."""

from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.storage import lance_filters

TYPES = [pa.list_(pa.uint32()), pa.list_(pa.uint64())]


def stored(root: Path, type_: pa.DataType) -> lance.LanceDataset:
    rows = pa.table({"id": ["a", "b"], "numbers": pa.array([[1], None], type_)})
    return lance.write_dataset(rows, str(root / "t.lance"))


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_lance_alone_can_not_filter_beside_a_list_of_unsigned_integers(
    type_: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lance_filters._dataset, "_needs_substrait_placeholder", lance_filters._known)
    dataset = stored(tmp_path, type_)

    with pytest.raises(Exception, match="Substrait"):
        dataset.to_table(filter=pc.field("id") == "a")


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_with_the_correction_it_can(type_: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lance_filters._dataset, "_needs_substrait_placeholder", lance_filters._is_hidden)
    dataset = stored(tmp_path, type_)

    found = dataset.to_table(filter=pc.field("id").isin(["a"]))

    assert found.to_pylist() == [{"id": "a", "numbers": [1]}]
