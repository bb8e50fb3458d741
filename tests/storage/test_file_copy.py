"""Copying single files: whole or not at all, in parts, from what is there."""

import errno
import os
from pathlib import Path

import pytest

from omnigraph.storage.file_copy import Copier
from omnigraph.storage.graph_storage import GraphStorage
from omnigraph.storage.object_store import ObjectMissingError, StoreUnavailableError
from omnigraph.storage.s3_object_store import PART_BYTES
from omnigraph.storage.uri import parse_uri
from worlds import runtime

KEY = "nodes/x/data/file.lance"


@pytest.fixture
def stores(tmp_path: Path) -> tuple[GraphStorage, GraphStorage]:
    source, target = (GraphStorage(parse_uri(str(tmp_path / name)), runtime()) for name in ("from", "to"))
    return source, target


def place(store: GraphStorage, data: bytes) -> None:
    path = Path(store.resolve_uri(KEY))
    path.parent.mkdir(parents=True)
    path.write_bytes(data)


def test_a_file_is_copied_and_its_bytes_are_told(stores: tuple[GraphStorage, GraphStorage]) -> None:
    place(stores[0], b"x" * 1000)
    told: list[int] = []

    Copier(*stores, "op").copy(KEY, 1000, told.append)

    assert Path(stores[1].resolve_uri(KEY)).read_bytes() == b"x" * 1000
    assert sum(told) == 1000


def test_an_empty_file_is_copied(stores: tuple[GraphStorage, GraphStorage]) -> None:
    place(stores[0], b"")

    Copier(*stores, "op").copy(KEY, 0, lambda _: None)

    assert Path(stores[1].resolve_uri(KEY)).read_bytes() == b""


@pytest.mark.parametrize("answer", [errno.EXDEV, errno.EOPNOTSUPP, 0])
def test_a_file_system_that_copies_no_ranges_will_do(
    answer: int, stores: tuple[GraphStorage, GraphStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = os.urandom(PART_BYTES + 10)
    place(stores[0], data)
    told: list[int] = []

    def refuse(*_: int) -> int:
        if answer:
            raise OSError(answer, "no")
        return 0

    monkeypatch.setattr(os, "copy_file_range", refuse)
    Copier(*stores, "op").copy(KEY, len(data), told.append)

    assert Path(stores[1].resolve_uri(KEY)).read_bytes() == data
    assert told == [PART_BYTES, 10]


def test_a_file_of_another_size_than_expected_does_not_appear(stores: tuple[GraphStorage, GraphStorage]) -> None:
    place(stores[0], b"short")

    with pytest.raises(StoreUnavailableError) as raised:
        Copier(*stores, "op").copy(KEY, 1000, lambda _: None)

    assert "received 5 bytes instead of 1000" in str(raised.value)
    assert [path for path in Path(stores[1].location.path).rglob("*") if path.is_file()] == []


def test_a_full_disk_leaves_nothing_of_a_file(
    stores: tuple[GraphStorage, GraphStorage], monkeypatch: pytest.MonkeyPatch
) -> None:
    place(stores[0], b"x" * 1000)

    def full(*_: int) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(StoreUnavailableError) as raised:
        Copier(*stores, "op").copy(KEY, 1000, lambda _: None)

    assert "No space left on device" in str(raised.value)
    assert [path for path in Path(stores[1].location.path).rglob("*") if path.is_file()] == []


def test_a_file_that_is_gone_is_told_from_a_store_that_fails(stores: tuple[GraphStorage, GraphStorage]) -> None:
    with pytest.raises(ObjectMissingError) as raised:
        Copier(*stores, "op").copy(KEY, 1, lambda _: None)

    assert raised.value.key == KEY
