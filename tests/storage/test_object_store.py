"""One contract for control objects, over every store."""

import fcntl
import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from azure_server import CONTAINER, azure_server, fresh_azure_uri
from omnigraph.clock import SystemClock
from omnigraph.storage.local_object_store import LocalObjectStore
from omnigraph.storage.object_store import (
    MemoryObjectStore,
    ObjectChangedError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStore,
    StoreUnavailableError,
)
from omnigraph.storage.s3_object_store import S3ObjectStore
from s3_server import BUCKET, fresh_uri, s3_server


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture(scope="module")
def azure() -> Iterator[dict[str, str]]:
    with azure_server() as options:
        yield options


@pytest.fixture(params=["local", "memory", "s3", pytest.param("azure", marks=pytest.mark.soak)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "local":
        return LocalObjectStore(str(tmp_path))
    if request.param == "memory":
        return MemoryObjectStore(SystemClock())
    if request.param == "azure":
        prefix = fresh_azure_uri().rsplit("/", 1)[-1]
        return S3ObjectStore(f"az://{CONTAINER}", prefix, request.getfixturevalue("azure"))
    options = request.getfixturevalue("s3")
    return S3ObjectStore(BUCKET, fresh_uri().rsplit("/", 1)[-1], options)


def test_what_is_put_can_be_read(store: ObjectStore) -> None:
    store.put("a/b.json", b"one")

    stored = store.get("a/b.json")

    assert (stored.data, stored.info.key, stored.info.size) == (b"one", "a/b.json", 3)


def test_a_missing_object_is_named(store: ObjectStore) -> None:
    with pytest.raises(ObjectMissingError, match="a/nothing"):
        store.get("a/nothing")

    assert store.stat("a/nothing") is None


def test_put_if_absent_happens_once(store: ObjectStore) -> None:
    store.put_if_absent("a/x", b"first")

    with pytest.raises(ObjectExistsError):
        store.put_if_absent("a/x", b"second")

    assert store.get("a/x").data == b"first"


def test_put_if_match_writes_over_what_was_read(store: ObjectStore) -> None:
    etag = store.put("a/x", b"first")

    newer = store.put_if_match("a/x", b"second", etag)

    assert store.get("a/x").data == b"second"
    assert store.get("a/x").etag == newer != etag


def test_put_if_match_refuses_what_changed_meanwhile(store: ObjectStore) -> None:
    etag = store.put("a/x", b"first")
    store.put("a/x", b"other")

    with pytest.raises(ObjectChangedError):
        store.put_if_match("a/x", b"mine", etag)

    assert store.get("a/x").data == b"other"


def test_put_if_match_refuses_what_is_gone(store: ObjectStore) -> None:
    etag = store.put("a/x", b"first")
    store.delete("a/x")

    with pytest.raises(ObjectChangedError):
        store.put_if_match("a/x", b"mine", etag)

    assert store.stat("a/x") is None


def test_delete_if_match_removes_what_was_read(store: ObjectStore) -> None:
    etag = store.put("a/x", b"first")

    store.delete_if_match("a/x", etag)

    assert store.stat("a/x") is None


@pytest.mark.parametrize("is_there", [True, False])
def test_delete_if_match_refuses_what_changed_meanwhile_or_is_gone(store: ObjectStore, *, is_there: bool) -> None:
    etag = store.put("a/x", b"first")
    store.delete("a/x")
    if is_there:
        store.put("a/x", b"other")

    with pytest.raises(ObjectChangedError):
        store.delete_if_match("a/x", etag)

    assert (store.stat("a/x") is not None) is is_there


def test_delete_if_match_refuses_where_there_is_no_directory(store: ObjectStore) -> None:
    with pytest.raises(ObjectChangedError):
        store.delete_if_match("nowhere/x", "1")


def test_deleting_twice_is_fine(store: ObjectStore) -> None:
    store.put("a/x", b"1")

    store.delete("a/x")
    store.delete("a/x")

    assert store.list_under("a") == []


def test_a_listing_is_complete_and_sorted(store: ObjectStore) -> None:
    for number in reversed(range(25)):
        store.put(f"a/{number:02}", b"x" * number)
    store.put("ab", b"not below a")

    found = store.list_under("a")

    assert [(info.key, info.size) for info in found] == [(f"a/{n:02}", n) for n in range(25)]


def test_listing_nothing_is_empty(store: ObjectStore) -> None:
    assert store.list_under("nowhere") == []


def test_children_are_the_first_segments(store: ObjectStore) -> None:
    store.put("nodes/a/b", b"")
    store.put("top", b"")

    assert store.list_children() == ["nodes", "top"]


def test_times_are_the_stores_own_and_move_forward(store: ObjectStore) -> None:
    store.put("a/x", b"1")
    first = store.get("a/x").info.modified
    store.put("a/y", b"1")

    assert first - store.get("a/y").info.modified < timedelta(seconds=2)
    assert first.tzinfo is not None


@pytest.mark.parametrize("conditional", ["absent", "match"])
def test_of_many_racing_puts_one_wins(store: ObjectStore, conditional: str) -> None:
    etag = store.put("a/match", b"start")
    wins: list[int] = []

    def race(number: int) -> None:
        try:
            if conditional == "absent":
                store.put_if_absent("a/absent", str(number).encode())
            else:
                store.put_if_match("a/match", str(number).encode(), etag)
        except (ObjectExistsError, ObjectChangedError, StoreUnavailableError):
            return
        wins.append(number)

    threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(wins) == 1
    assert store.get(f"a/{conditional}").data == str(wins[0]).encode()


def test_a_store_that_does_not_answer_is_unavailable() -> None:
    from s3_server import options_for

    options = {**options_for("http://127.0.0.1:9"), "timeout": "1s", "connect_timeout": "1s"}
    store = S3ObjectStore(BUCKET, "nowhere", options, max_retries=0)

    with pytest.raises(StoreUnavailableError, match="read `a`"):
        store.get("a")


def test_a_read_only_directory_is_unavailable_and_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = LocalObjectStore(str(tmp_path / "file"))

    with pytest.raises(StoreUnavailableError, match="write `a/x`"):
        store.put("a/x", b"1")


def test_a_conditional_put_and_a_delete_wait_for_whoever_is_comparing(tmp_path: Path) -> None:
    store = LocalObjectStore(str(tmp_path))
    etag, kept = store.put("a/x", b"old"), store.put("a/z", b"gone")
    directory = os.open(tmp_path / "a", os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)
    waiting = [
        threading.Thread(target=lambda: store.put_if_match("a/x", b"new", etag)),
        threading.Thread(target=lambda: store.delete("a/y")),
        threading.Thread(target=lambda: store.delete_if_match("a/z", kept)),
    ]

    for thread in waiting:
        thread.start()
        thread.join(0.1)
    are_waiting = [thread.is_alive() for thread in waiting]
    os.close(directory)
    for thread in waiting:
        thread.join(60)

    assert are_waiting == [True, True, True]
    assert store.stat("a/z") is None
    assert store.get("a/x").data == b"new"


class SkippingClock(SystemClock):
    """A clock that moves on by what is slept, at once."""

    def __init__(self) -> None:
        self.slept = 0.0

    def monotonic(self) -> float:
        return self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


def test_a_lock_that_a_stopped_process_holds_is_not_waited_for_without_end(tmp_path: Path) -> None:
    store = LocalObjectStore(str(tmp_path), clock=SkippingClock())
    etag = store.put("a/x", b"old")
    directory = os.open(tmp_path / "a", os.O_RDONLY)
    fcntl.flock(directory, fcntl.LOCK_EX)

    for change in (
        lambda: store.put_if_match("a/x", b"new", etag),
        lambda: store.delete("a/x"),
        lambda: store.delete_if_match("a/x", etag),
    ):
        with pytest.raises(StoreUnavailableError, match=r"change `a/x`: a process has held the lock .* for 10 seconds"):
            change()
    os.close(directory)

    assert store.get("a/x").data == b"old"
    store.delete("a/x")
    assert store.stat("a/x") is None
