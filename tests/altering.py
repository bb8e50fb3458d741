"""Stored rows of commits and schemas, changed behind the graph's back."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import msgspec
import pyarrow as pa

from omnigraph.commit.manifest_codec import SCHEMA as MANIFEST_SCHEMA
from omnigraph.commit.manifest_codec import digest_rows
from omnigraph.commit.manifest_types import Integrity
from omnigraph.storage.layout import MANIFEST

Metadata = dict[str, Any]
Row = dict[str, Any]


def rewrite_rows(root: Path, change: Callable[[Row], Row], path: str = MANIFEST) -> None:
    """Write a manifest anew, with each row changed; all of it must be in its head.

    Its digest of itself is made anew too: whoever changes rows on purpose can do that.
    """
    uri = str(root / path)
    (fragment,) = lance.dataset(uri).get_fragments()
    rows = [change(row) for row in fragment.to_table().to_pylist()]
    if rows[-1]["object_type"] == "integrity":
        integrity = Integrity(version=1, rows=digest_rows(rows[:-1]))
        rows[-1]["metadata"] = msgspec.json.encode(integrity).decode()
    shutil.rmtree(uri)
    lance.write_dataset(pa.Table.from_pylist(rows, MANIFEST_SCHEMA), uri, data_storage_version="2.2")


def alter_commits(root: Path, change: Callable[[Metadata], Metadata], path: str = MANIFEST) -> None:
    """Change what the rows of commits say."""
    rewrite_rows(root, lambda row: _changed(row, change) if row["object_type"] == "graph_commit" else row, path)


def alter_commit(root: Path, commit_id: str, path: str = MANIFEST, **fields: object) -> None:
    """Change fields of one commit."""
    alter_commits(root, lambda one: {**one, **fields} if one["id"] == commit_id else one, path)


def alter_schemas(root: Path, change: Callable[[Metadata], Metadata], path: str = MANIFEST) -> None:
    """Change what the rows of schemas say."""
    rewrite_rows(root, lambda row: _changed(row, change) if row["object_type"] == "schema" else row, path)


def strip_digests(root: Path) -> None:
    """Make the rows of commits those of a release that knew no digests."""

    def strip(one: Metadata) -> Metadata:
        merged = one.get("merged_from")
        without = None if merged is None else {name: value for name, value in merged.items() if name != "digest"}
        return {**{name: value for name, value in one.items() if name != "digest"}, "merged_from": without}

    for path in (MANIFEST, *(f"__branches/{one.name}" for one in (root / "__branches").glob("*"))):
        alter_commits(root, strip, path)


def read_commits(root: Path, path: str = MANIFEST) -> list[Metadata]:
    """Return what the rows of commits say."""
    rows = lance.dataset(str(root / path)).to_table().to_pylist()
    found = [json.loads(row["metadata"]) for row in rows if row["object_type"] == "graph_commit"]
    return sorted(found, key=lambda one: int(one["seq"]))


def _changed(row: Row, change: Callable[[Metadata], Metadata]) -> Row:
    return {**row, "metadata": json.dumps(change(json.loads(row["metadata"])))}
