"""Graphs that are old, foreign, half-made or tampered with: each has its own clear error, and nothing is changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph.commit.manifest_codec import LAYOUT_KEY, SCHEMA, STAMP_KEY, FormatRefusedError
from omnigraph.commit.manifest_log import NotAGraphError
from omnigraph.commit.place_errors import PlaceTakenError
from omnigraph.errors import Kind, OmnigraphError
from omnigraph.ops.open import open_session
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.cas_table_errors import NewestVersionDamagedError
from omnigraph.storage.layout import MANIFEST, format_version_name
from omnigraph.storage.table_cache import PinUnreadableError
from worlds import TABLES, new_world, reopened, rows, runtime, seeded_world, state
from zygote import Zygote


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def restamp(session: Session, metadata: dict[bytes, bytes]) -> None:
    """Rewrite the manifest with another stamp."""
    head = session.head().table.read_head()
    shutil.rmtree(f"{session.uri}/{MANIFEST}")
    lance.write_dataset(head.replace_schema_metadata(metadata), f"{session.uri}/{MANIFEST}")


STAMPS = {
    "3": (
        {STAMP_KEY: b"3", LAYOUT_KEY: b"detached-pins"},
        "internal-schema 3",
        "Export it with the release that wrote it",
    ),
    "5": ({STAMP_KEY: b"5", LAYOUT_KEY: b"detached-pins"}, "internal-schema 5", "Upgrade omnigraph first"),
    "none": ({}, "no internal-schema stamp", "nothing was changed"),
    "unreadable": ({STAMP_KEY: b"four"}, "unreadable stamp", "nothing was changed"),
    "other layout": ({STAMP_KEY: b"4"}, "layout `none` of another system", "Export it with the release that wrote it"),
}


@pytest.mark.parametrize("name", STAMPS)
@pytest.mark.parametrize("read_only", [True, False])
def test_another_format_is_refused_with_its_way_out(name: str, read_only: bool, tmp_path: Path) -> None:
    metadata, found, way_out = STAMPS[name]
    session = seeded_world(tmp_path / "g")
    restamp(session, metadata)
    before = tree(tmp_path / "g")

    with pytest.raises(FormatRefusedError) as refused:
        open_session(session.uri, is_read_only=read_only, runtime=runtime())

    assert found in str(refused.value)
    assert way_out in str(refused.value)
    assert refused.value.kind is Kind.CORRUPT
    assert tree(tmp_path / "g") == before


def nothing(_root: Path) -> None:
    """No such place."""


def empty_directory(root: Path) -> None:
    root.mkdir()


def some_directory(root: Path) -> None:
    root.mkdir()
    (root / "notes.txt").write_text("mine")


def a_file(root: Path) -> None:
    root.write_text("mine")


def tables_only(root: Path) -> None:
    seeded_world(root)
    shutil.rmtree(root / MANIFEST)


@pytest.mark.parametrize("make", [nothing, empty_directory, some_directory, a_file, tables_only])
def test_what_is_not_a_graph_is_not_found_and_not_touched(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "g")
    before = tree(tmp_path)

    with pytest.raises(NotAGraphError, match="omnigraph init"):
        open_session(str(tmp_path / "g"), is_read_only=False, runtime=runtime())

    assert tree(tmp_path) == before


def test_a_table_of_another_tool_in_place_of_the_manifest_is_refused(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"x": [1]}), str(tmp_path / "g" / MANIFEST))

    with pytest.raises(FormatRefusedError, match="no internal-schema stamp"):
        open_session(str(tmp_path / "g"), is_read_only=False, runtime=runtime())


def test_an_init_refuses_a_graph_and_a_foreign_place(tmp_path: Path) -> None:
    seeded_world(tmp_path / "g")
    some_directory(tmp_path / "foreign")

    with pytest.raises(PlaceTakenError, match="holds a graph"):
        new_world(tmp_path / "g")
    with pytest.raises(PlaceTakenError, match=r"notes\.txt"):
        new_world(tmp_path / "foreign")

    assert (tmp_path / "foreign" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("point", ["init.begin", "init.table", "init.table@3", "init.table@5", "init.manifest"])
def test_an_init_that_was_killed_is_finished_by_the_next_or_is_done(point: str, tmp_path: Path, zygote: Zygote) -> None:
    uri = str(tmp_path / "g")
    killed = zygote.run("crash.jobs:init", {"uri": uri}, f"{point}=kill")
    assert killed.was_killed

    if point == "init.manifest":
        with pytest.raises(PlaceTakenError, match="holds a graph"):
            new_world(uri)
        session = open_session(uri, is_read_only=False, runtime=runtime())
    else:
        session = new_world(uri)

    write_tables(session, [TableWrite(table_key="node:A", append=rows({"n": 1}))], operation="w", actor="x")
    assert state(reopened(session)) == {key: {"n": 1} if key == "node:A" else {} for key in TABLES}


def test_of_two_inits_at_once_one_wins(tmp_path: Path, zygote: Zygote) -> None:
    uri = str(tmp_path / "g")
    started = [zygote.start("crash.jobs:init", {"uri": uri}) for _ in range(3)]

    errors = [zygote.wait(pid).error for pid in started]

    assert sum(error is None for error in errors) == 1
    assert all("PlaceTakenError" in error for error in errors if error)
    assert state(open_session(uri, is_read_only=False, runtime=runtime())) == {key: {} for key in TABLES}


def test_a_deleted_table_directory_is_named_and_the_others_still_read(tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    gone = session.resolve_snapshot().pin("node:B").path
    shutil.rmtree(tmp_path / "g" / gone)
    opened = reopened(session)

    with pytest.raises(PinUnreadableError, match=gone):
        opened.open_tables(opened.resolve_snapshot()).open_table("node:B").scan()

    assert opened.open_tables(opened.resolve_snapshot()).open_table("node:A").count() == 4
    write_tables(opened, [TableWrite(table_key="node:C", append=rows({"n": 1}))], operation="w", actor="x")


def foreign_append(uri: str) -> None:
    lance.write_dataset(rows({"alien": 1}).cast(lance.dataset(uri).schema), uri, mode="append")


def foreign_delete(uri: str) -> None:
    foreign_append(uri)
    lance.dataset(uri).delete("true")


def foreign_compaction(uri: str) -> None:
    foreign_append(uri)
    foreign_append(uri)
    lance.dataset(uri).optimize.compact_files()


@pytest.mark.parametrize("tool", [foreign_append, foreign_delete, foreign_compaction])
def test_a_head_that_other_tools_moved_changes_nothing(tool: Callable[[str], None], tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    before = state(session)

    tool(f"{session.uri}/{session.resolve_snapshot().pin('node:A').path}")
    opened = reopened(session)

    assert state(opened) == before
    write_tables(opened, [TableWrite(table_key="node:A", upsert=rows({"a": 9}))], operation="w", actor="x")
    assert state(opened)["node:A"] == {**before["node:A"], "a": 9}


@pytest.mark.parametrize("damage", [b"", b"torn", b"\x00" * 4096])
def test_a_damaged_newest_manifest_is_recognised_and_older_commits_read(damage: bytes, tmp_path: Path) -> None:
    session = seeded_world(tmp_path / "g")
    seeded = session.head().snapshot.commit.id
    write_tables(session, [TableWrite(table_key="node:A", upsert=rows({"a": 9}))], operation="w", actor="x")
    newest = session.head().snapshot.manifest_version
    Path(f"{session.uri}/{MANIFEST}/{format_version_name(newest)}").write_bytes(damage)

    with pytest.raises(NewestVersionDamagedError, match="omnigraph repair"):
        open_session(session.uri, is_read_only=False, runtime=runtime())
    reader = open_session(session.uri, is_read_only=True, runtime=runtime())
    with pytest.raises(NewestVersionDamagedError):
        reader.resolve_snapshot()
    past = reader.resolve_snapshot(commit_id=seeded)

    assert reader.open_tables(past).open_table("node:A").find_rows("id", ["a"], ["v"])["v"].to_pylist() == [1]


def rows_of(session: Session) -> list[dict[str, object]]:
    return list(session.head().table.read_head().to_pylist())


def without_head(found: list[dict[str, object]]) -> list[dict[str, object]]:
    return [row for row in found if row["object_type"] != "graph_head"]


def two_schemas(found: list[dict[str, object]]) -> list[dict[str, object]]:
    return [*found, next(row for row in found if row["object_id"] == "schema")]


def unknown_kind(found: list[dict[str, object]]) -> list[dict[str, object]]:
    return [*found, {**found[0], "object_id": "x", "object_type": "wormhole"}]


def bad_json(found: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{**row, "metadata": "{"} if row["object_type"] == "graph_commit" else row for row in found]


def missing_pin(found: list[dict[str, object]]) -> list[dict[str, object]]:
    return [row for row in found if row["table_key"] != "node:A" or row["object_type"] != "table_version"]


def unregistered_pin(found: list[dict[str, object]]) -> list[dict[str, object]]:
    return [row for row in found if row["table_key"] != "node:A" or row["object_type"] != "table"]


def gap_in_history(found: list[dict[str, object]]) -> list[dict[str, object]]:
    commits = [row["object_id"] for row in found if row["object_type"] == "graph_commit"]
    return [row for row in found if row["object_id"] != commits[1]]


def head_that_is_not_the_newest(found: list[dict[str, object]]) -> list[dict[str, object]]:
    commits = [str(row["object_id"]).partition(":")[2] for row in found if row["object_type"] == "graph_commit"]
    return [{**row, "metadata": commits[0]} if row["object_type"] == "graph_head" else row for row in found]


def no_version(found: list[dict[str, object]]) -> list[dict[str, object]]:
    return [{**row, "table_version": None} if row["object_type"] == "table_version" else row for row in found]


TAMPERINGS = [
    without_head,
    two_schemas,
    unknown_kind,
    bad_json,
    missing_pin,
    unregistered_pin,
    gap_in_history,
    head_that_is_not_the_newest,
    no_version,
]


@pytest.mark.parametrize("tamper", TAMPERINGS)
def test_a_manifest_that_contradicts_itself_is_refused_precisely(
    tamper: Callable[[list[dict[str, object]]], list[dict[str, object]]], tmp_path: Path
) -> None:
    session = seeded_world(tmp_path / "g")
    write_tables(session, [TableWrite(table_key="node:A", upsert=rows({"a": 9}))], operation="w", actor="x")
    changed = pa.Table.from_pylist(tamper(rows_of(session)), SCHEMA)
    shutil.rmtree(f"{session.uri}/{MANIFEST}")
    lance.write_dataset(changed, f"{session.uri}/{MANIFEST}")

    with pytest.raises(OmnigraphError, match=r"manifest is damaged: .*; run `omnigraph check`") as found:
        open_session(session.uri, is_read_only=False, runtime=runtime())

    assert found.value.kind is Kind.CORRUPT
