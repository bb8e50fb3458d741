"""Nothing below a root is reached through a link, and nothing but a plain file is read."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph.storage.local_object_store import LocalObjectStore
from omnigraph.storage.object_store import ForeignFileError, ObjectKeyError

CALLS: dict[str, Callable[[LocalObjectStore, str], object]] = {
    "get": lambda store, key: store.get(key),
    "info": lambda store, key: store.stat(key),
    "put": lambda store, key: store.put(key, b"new"),
    "put_if_absent": lambda store, key: store.put_if_absent(key, b"new"),
    "put_if_match": lambda store, key: store.put_if_match(key, b"new", "etag"),
    "delete": lambda store, key: store.delete(key),
    "delete_if_match": lambda store, key: store.delete_if_match(key, "etag"),
    "list_under": lambda store, key: store.list_under(key.rpartition("/")[0]),
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Make a directory that is not the graph's, with one file."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "important.txt").write_bytes(b"precious")
    return outside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make the directory of a store."""
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("is_deep", [True, False])
def test_a_linked_directory_is_refused(root: Path, outside: Path, call: str, *, is_deep: bool) -> None:
    parent = root / "nodes" if is_deep else root
    parent.mkdir(exist_ok=True)
    (parent / "evil").symlink_to(outside)
    key = f"{'nodes/' if is_deep else ''}evil/important.txt"

    with pytest.raises(ForeignFileError, match=r"evil.* is a symbolic link"):
        CALLS[call](LocalObjectStore(str(root)), key)

    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"important.txt": b"precious"}


@pytest.mark.parametrize("call", ["get", "put_if_match", "delete_if_match"])
def test_a_linked_file_is_not_read(root: Path, outside: Path, call: str) -> None:
    (root / "a").mkdir()
    (root / "a" / "x").symlink_to(outside / "important.txt")

    with pytest.raises(ForeignFileError, match="`a/x` is a symbolic link"):
        CALLS[call](LocalObjectStore(str(root)), "a/x")

    assert (outside / "important.txt").read_bytes() == b"precious"


def test_a_put_takes_the_place_of_a_linked_file(root: Path, outside: Path) -> None:
    (root / "x").symlink_to(outside / "important.txt")
    store = LocalObjectStore(str(root))

    store.put("x", b"new")

    assert store.get("x").data == b"new"
    assert (outside / "important.txt").read_bytes() == b"precious"


def test_a_delete_removes_a_linked_file_itself(root: Path, outside: Path) -> None:
    (root / "x").symlink_to(outside / "important.txt")

    LocalObjectStore(str(root)).delete("x")

    assert not (root / "x").is_symlink()
    assert (outside / "important.txt").read_bytes() == b"precious"


def test_a_listing_shows_links_and_does_not_enter_them(root: Path, outside: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "directory").symlink_to(outside)
    (root / "a" / "file").symlink_to(outside / "important.txt")
    (root / "a" / "nowhere").symlink_to("nowhere")

    listed = LocalObjectStore(str(root)).list_under("a")

    assert [info.key for info in listed] == ["a/directory", "a/file", "a/nowhere"]


@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "directory"])
def test_what_is_no_plain_file_is_refused_without_waiting(root: Path, kind: str) -> None:
    path = root / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.close()
    elif kind == "device":
        try:
            os.mknod(path, 0o020666, os.makedev(1, 5))  # /dev/zero: reading it never ends
        except PermissionError:
            pytest.skip("only root makes devices")
    else:
        path.mkdir()

    with pytest.raises(ForeignFileError, match="`x` is a"):
        LocalObjectStore(str(root)).get("x")


@pytest.mark.parametrize("key", ["../x", "a/../../x", "/etc/x", "a//x", "./x", "", "a/x\0"])
@pytest.mark.parametrize("call", CALLS)
def test_a_key_that_leaves_the_root_is_refused(root: Path, call: str, key: str) -> None:
    with pytest.raises(ObjectKeyError):
        CALLS[call](LocalObjectStore(str(root)), f"{key}/y" if call == "list_under" else key)

    assert os.listdir(root) == []  # noqa: PTH208 - names, hidden ones too


def test_the_root_itself_may_be_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)

    LocalObjectStore(str(tmp_path / "link")).put("a/x", b"1")

    assert (root / "a" / "x").read_bytes() == b"1"
