"""A write that is interrupted while it announces itself leaves no announcement."""

import threading
from pathlib import Path

import pytest

from collecting import small_world
from omnigraph.commit.publisher import arm
from omnigraph.ops.operations import list_operations
from omnigraph.storage.object_store import ObjectStore


def test_an_interrupt_behind_the_put_of_a_sidecar_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = small_world(tmp_path / "g")
    objects = type(session.store.objects)
    put = objects.put_if_absent

    def interrupted(store: ObjectStore, key: str, data: bytes) -> str:
        done = put(store, key, data)
        if store is session.store.objects:  # whatever else this process writes is none of this test's business
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(objects, "put_if_absent", interrupted)

    with pytest.raises(KeyboardInterrupt):
        arm(session.log, session.head(), operation="load", actor="ada")

    assert list_operations(session).pending == ()
    assert list((tmp_path / "g" / "__recovery").glob("*")) == []


def test_an_interrupt_while_its_renewal_starts_leaves_no_sidecar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = small_world(tmp_path / "g")
    start = threading.Thread.start

    def interrupted(thread: threading.Thread) -> None:
        if thread.name.startswith("lease-"):
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)

    with pytest.raises(KeyboardInterrupt):
        arm(session.log, session.head(), operation="load", actor="ada")

    assert list((tmp_path / "g" / "__recovery").glob("*")) == []
