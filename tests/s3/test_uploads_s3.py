"""Files that are on their way to an object store: whoever needs one waits for it, and hears if it does not arrive."""

import json
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.commit.gc_horizon import check_staged_files
from omnigraph.commit.manifest_types import GcHorizon
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.runtime import Runtime
from omnigraph.spark.load.merge_fill_task import DeletionTask
from omnigraph.storage import local_encoding, versions
from omnigraph.storage.key_lookup import find_existing
from omnigraph.storage.lance_table import LanceTable
from omnigraph.storage.object_store import StoreUnavailableError
from omnigraph.storage.s3_object_store import S3ObjectStore
from omnigraph.storage.staging import stage_append, stage_overwrite
from s3_server import fresh_uri, s3_server
from upkeep_calls import eager
from worlds import FAST, reopened, rows, seeded_world, state

if TYPE_CHECKING:
    from omnigraph.spark.load.load_spec import Worker


@pytest.fixture(scope="module")
def storage() -> Iterator[dict[str, str]]:
    with s3_server() as options:
        yield options


@pytest.fixture
def world(storage: dict[str, str]) -> Session:
    return seeded_world(fresh_uri(), replace(FAST, storage=storage))


class Held:
    """Puts of files below a directory that wait, or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, part: str, *, is_failing: bool = False) -> None:
        self.may_go = threading.Event()
        right = S3ObjectStore.put

        def put(store: S3ObjectStore, key: str, data: bytes) -> str:
            if part in key:
                assert is_failing or self.may_go.wait(60)
                if is_failing:
                    raise StoreUnavailableError(f"write {key}", "no answer")
            return right(store, key, data)

        monkeypatch.setattr(S3ObjectStore, "put", put)


def open_table(session: Session) -> LanceTable:
    return session.open_tables(session.head().snapshot).open_table("node:A")


def in_thread(call: Any) -> tuple[threading.Thread, list[Any]]:
    """A call in another thread, and what it returned or raised."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_a_task_ends_only_when_its_deletion_files_are_stored(world: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver publishes what a task returns, and can't wait for the uploads of another process."""
    table = open_table(world)
    found = find_existing(table, lambda: pa.array(["a"]), 1).get_addresses()
    world.store.objects.put("__recovery/addresses", found.astype(np.uint64).tobytes())
    worker = cast(
        "Worker",
        SimpleNamespace(
            store=world.store,
            get_type=lambda _: SimpleNamespace(table_key="node:A"),
            open_table=lambda _: table,
            begin_journal=lambda *_: SimpleNamespace(on_complete=lambda _: None),
        ),
    )
    task = DeletionTask(type="A", fragments=(int(found[0]) >> 32,), addresses=("__recovery/addresses",))

    with monkeypatch.context() as patch:
        Held(patch, "/_deletions/", is_failing=True)
        with pytest.raises(StoreUnavailableError, match="no answer"):
            task.run(worker, 1, 1)
    result = task.run(worker, 1, 1)

    stored = {info.key for info in world.store._stored.list_under(f"{table.path}/_deletions")}
    names = [json.loads(text)["deletion_file"]["id"] for text in result.updated]
    assert len(names) == 1
    assert any(f"-{names[0]}." in key for key in stored)


@pytest.fixture
def indexed(storage: dict[str, str]) -> Session:
    options = eager(replace(FAST, storage=storage))
    graph = og.create_graph(fresh_uri(), "node A { name: String @key  n: I64? }", runtime=Runtime(options=options))
    graph.load([{"type": "A", "data": {"name": name}} for name in "abc"], mode="append")
    graph.optimize(all_indexes=True)
    assert open_table(graph._session).measure_index_coverage()
    return graph._session


def node(name: str) -> pa.Table:
    return pa.table({"id": [name], "name": [name], "n": pa.array([1], pa.int64())})


def test_a_version_is_made_of_one_whose_file_is_on_its_way(indexed: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the newest version of a table is kept in memory, and that may be one of another branch."""
    table, handles = open_table(indexed), indexed.handles
    staged = [stage_append(table, node(name)) for name in ("n1", "n2")]
    held = Held(monkeypatch, "/_versions/")
    first = versions.apply(handles, staged[0], table.version)
    handles.read_content(table.path, table.version)

    thread, outcome = in_thread(lambda: versions.apply(handles, staged[1], first))
    thread.join(0.5)
    held.may_go.set()
    thread.join()

    assert isinstance(outcome[0], int), outcome
    after = LanceTable(handles, table.path, outcome[0])
    assert after.count() == table.count() + 2
    assert after.measure_index_coverage()


def test_lance_continues_a_version_whose_file_is_on_its_way(indexed: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    table, handles = open_table(indexed), indexed.handles
    staged = stage_append(table, node("n1"))
    held = Held(monkeypatch, "/_versions/")
    first = versions.apply(handles, staged, table.version)
    overwrite = stage_overwrite(LanceTable(handles, table.path, first), node("n2"))

    thread, outcome = in_thread(lambda: versions.apply(handles, overwrite, first))
    thread.join(0.5)
    held.may_go.set()
    thread.join()

    assert isinstance(outcome[0], int), outcome
    assert LanceTable(handles, table.path, outcome[0]).count() == 1


def test_a_file_that_is_on_its_way_was_not_collected(world: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a cleanup, a writer checks that its files are still there."""
    held = Held(monkeypatch, "/data/")
    staged = stage_append(open_table(world), rows({"n1": 1}))

    thread, outcome = in_thread(lambda: check_staged_files(world.store, GcHorizon(epoch=1), staged.files, None))
    thread.join(0.5)
    held.may_go.set()
    thread.join()

    assert outcome == [None]


def test_a_write_needs_no_directory_for_temporary_files(world: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container, nothing but the object store may be writable."""

    def refuse(*_: object, **__: object) -> None:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(local_encoding, "_directories", [])
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)

    fresh = reopened(world, world.runtime.options)
    write_tables(fresh, [TableWrite(table_key="node:A", append=rows({"n1": 1}))], operation="w", actor="x")

    assert state(fresh)["node:A"]["n1"] == 1


def test_versions_share_one_directory_for_temporary_files(world: Session) -> None:
    table = open_table(world)
    dataset = world.handles.open(table.path, table.version)

    twins = [local_encoding.create_twin(dataset) for _ in range(3)]
    files = [local_encoding.encode_rows(twin, rows({"n1": 1}))[1] for twin in twins]

    assert len({twin.uri for twin in twins}) == 1
    assert all(files)
    assert not [path for path in Path(twins[0].uri).rglob("*") if path.is_file()]
