"""Every stored path is checked where it is decoded: none leads out of the graph."""

from typing import Any

import msgspec
import pytest

from omnigraph.commit.manifest_types import BranchRecord, Fork, MergedFrom, PinChange, TableRecord, TagRecord
from omnigraph.commit.purges import Purge
from omnigraph.commit.sidecar import Sidecar
from omnigraph.commit.task_journal import Note

TABLES: list[tuple[type[msgspec.Struct], str, dict[str, Any]]] = [
    (TableRecord, "path", {"table_key": "node:A", "identity": 1}),
    (PinChange, "path", {"table_key": "node:A", "before": None, "after": "1"}),
    (Purge, "path", {"table_key": "node:A"}),
]
CREATED = {"created_at": "2026-01-01T00:00:00Z", "created_by": "ann"}
OPERATION = {"id": "1", "commit_id": "2", "branch": "main", "base_seq": 0, "operation": "load", "actor": "ann"}
MANIFESTS: list[tuple[type[msgspec.Struct], str, dict[str, Any]]] = [
    (MergedFrom, "path", {"branch": "b", "seq": 1}),
    (BranchRecord, "path", {"name": "b", "id": "1", "parent_branch": "main", "parent_commit": "1", **CREATED}),
    (Fork, "parent_path", {"branch": "b", "branch_id": "1", "parent_branch": "main", "commit_id": "1", "seq": 1}),
    (TagRecord, "path", {"name": "t", "commit_id": "1", "branch": "main", "seq": 1, **CREATED}),
    (Sidecar, "manifest_path", {**OPERATION, "started_at": ""}),
]
OUTSIDE = [
    "", ".", "..", "/etc", "../x", "nodes", "nodes/", "nodes/..", "nodes/.", "nodes/../x", "nodes//a",
    "nodes/a/../../x",
    "edges/a\n", "nodes/a\0", "__manifest/../x", "__branches", "__branches/..", "__branches/a/..", "elsewhere/a",
    "s3://bucket/a", "file:///etc", "nodes\\a", "\nnodes/a",
]  # fmt: skip


def decode(record: type[msgspec.Struct], field: str, facts: dict[str, Any], value: object) -> msgspec.Struct:
    return msgspec.json.decode(msgspec.json.encode({**facts, field: value}), type=record)


@pytest.mark.parametrize("path", [*OUTSIDE, "__manifest", "__branches/01A"])
@pytest.mark.parametrize("record, field, facts", TABLES)
def test_a_table_lies_below_nodes_or_edges(
    record: type[msgspec.Struct], field: str, facts: dict[str, Any], path: str
) -> None:
    decode(record, field, facts, "nodes/0123456789abcdef-2")
    decode(record, field, facts, "edges/0123456789abcdef")

    with pytest.raises(msgspec.ValidationError):
        decode(record, field, facts, path)


@pytest.mark.parametrize("path", [*OUTSIDE, "nodes/0123456789abcdef"])
@pytest.mark.parametrize("record, field, facts", MANIFESTS)
def test_a_manifest_is_that_of_main_or_of_a_branch(
    record: type[msgspec.Struct], field: str, facts: dict[str, Any], path: str
) -> None:
    decode(record, field, facts, "__manifest")
    decode(record, field, facts, "__branches/01KXQ4")

    with pytest.raises(msgspec.ValidationError):
        decode(record, field, facts, path)


@pytest.mark.parametrize("path", [*(path for path in OUTSIDE if "\\" not in path and "edges/a" not in path)])
@pytest.mark.parametrize(
    "record, facts", [(Note, {}), (Sidecar, {**OPERATION, "started_at": "", "manifest_path": "__manifest"})]
)
def test_a_file_of_an_operation_lies_below_a_table(
    record: type[msgspec.Struct], facts: dict[str, Any], path: str
) -> None:
    decode(record, "files", facts, ["nodes/a/data/x.lance", "edges/b/_deletions/1-2-3.arrow"])

    with pytest.raises(msgspec.ValidationError):
        decode(record, "files", facts, ["nodes/a/data/x.lance", path])
