"""The head of a manifest is encoded from what is new."""

from pathlib import Path

import msgspec
import pytest

from omnigraph.commit import manifest_codec
from omnigraph.commit.manifest_codec import decode_head, digest_rows, encode_head
from omnigraph.commit.manifest_types import Commit
from omnigraph.ops.write_tables import TableWrite, write_tables
from worlds import rows, seeded_world


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 65_535, 65_536])
def test_a_list_is_packed_from_its_items(size: int) -> None:
    items = [{"a": str(number), "b": None} for number in range(size)]

    packed = manifest_codec._pack_list(list(map(msgspec.msgpack.encode, items)))

    assert packed == msgspec.msgpack.encode(items)


def test_each_commit_is_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    build = manifest_codec._build_commit_row

    def note(commit: Commit) -> manifest_codec.Row:
        encoded.append(commit.id)
        return build(commit)

    monkeypatch.setattr(manifest_codec, "_build_commit_row", note)
    world = seeded_world(tmp_path / "g")

    for number in range(5):
        write_tables(world, [TableWrite(table_key="node:A", upsert=rows({f"n{number}": 1}))], operation="w", actor="x")

    assert len(encoded) == len(set(encoded)) == len(world.head().snapshot.manifest.commits)


def test_a_head_has_the_digest_of_its_rows(tmp_path: Path) -> None:
    manifest = seeded_world(tmp_path / "g").head().snapshot.manifest

    head = encode_head(manifest, 7)

    *others, last = head.to_pylist()
    assert msgspec.json.decode(last["metadata"])["rows"] == digest_rows(others)
    assert decode_head(head, 7, len(manifest.sealed)) == manifest
