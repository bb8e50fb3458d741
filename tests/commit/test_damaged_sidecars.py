"""A left-over sidecar that is not what was written: recovery removes nothing for its sake."""

import re
from pathlib import Path

import msgspec
import pytest

from omnigraph.commit.checksummed_json import ChecksumError, decode_with_checksum, encode_with_checksum
from omnigraph.commit.recovery import recover
from omnigraph.commit.sidecar import Sidecar, list_sidecars
from omnigraph.commit.task_journal import Note
from omnigraph.ops.session import Session
from omnigraph.ops.write_tables import TableWrite, write_tables
from omnigraph.storage.layout import RECOVERY, build_sidecar_key
from worlds import reopened, rows, seeded_world, state

pytestmark = pytest.mark.usefixtures("with_sidecars")
SIDECAR = Sidecar(
    id="01", commit_id="02", branch="main", manifest_path="__manifest", base_seq=0, operation="w", actor="a",
    started_at="", files=("nodes/a/data/x.lance",),
)  # fmt: skip


@pytest.mark.parametrize("record", [SIDECAR, Note(), Note(files=("nodes/a/data/x.lance",), is_open=False)])
def test_a_record_comes_back_and_no_flipped_bit_of_it_does(record: Sidecar | Note) -> None:
    data = encode_with_checksum(record)

    assert decode_with_checksum(data, type(record)) == record
    for position in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(ValueError, match=r"."):
            decode_with_checksum(bytes(flipped), type(record))


def test_a_record_of_an_earlier_release_has_no_checksum() -> None:
    assert decode_with_checksum(msgspec.json.encode(SIDECAR), Sidecar) == SIDECAR


def test_a_record_that_does_not_match_says_so() -> None:
    with pytest.raises(ChecksumError, match="does not match its checksum"):
        decode_with_checksum(encode_with_checksum(SIDECAR).replace(b'"02"', b'"03"'), Sidecar)


def landed(root: Path) -> tuple[Session, bytes]:
    """Return a graph whose last write landed and left its sidecar behind, and that sidecar."""
    session = seeded_world(root)
    kept: list[bytes] = []
    objects = session.store.objects
    delete = objects.delete

    def keep(key: str) -> None:
        if re.fullmatch(rf"{RECOVERY}/\w+\.json", key):
            kept.append(objects.get(key).data)
        delete(key)

    objects.delete = keep  # type: ignore[method-assign] # what is deleted is the sidecar of this write
    writes = [TableWrite(table_key=key, append=rows({"z": 26})) for key in ("node:A", "node:B")]
    write_tables(session, writes, operation="w", actor="test")
    objects.delete = delete  # type: ignore[method-assign]
    return session, kept[-1]


@pytest.mark.parametrize("has_checksum", [True, False])
@pytest.mark.parametrize(
    "field, value", [("commit_id", "01GONE"), ("base_seq", 99), ("manifest_path", "__branches/01")]
)
def test_a_sidecar_of_what_landed_costs_nothing(
    tmp_path: Path, field: str, value: object, *, has_checksum: bool
) -> None:
    session, data = landed(tmp_path / "graph")
    changed = msgspec.structs.replace(decode_with_checksum(data, Sidecar), state="abandoned", commit_id="01GONE")
    changed = msgspec.structs.replace(changed, **{field: value})
    content = encode_with_checksum(changed) if has_checksum else msgspec.json.encode(changed)
    session.store.objects.put(build_sidecar_key(changed.id), content)
    expected = state(session)

    report = recover(session.store, session.log)

    assert report.rolled_back == []
    assert [failed[0] for failed in report.failed] == [changed.id]
    assert state(reopened(session)) == expected
    assert [found.sidecar.id for found in list_sidecars(session.store)[0]] == [changed.id]
