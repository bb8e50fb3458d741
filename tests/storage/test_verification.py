"""What a verifier remembers of files, and how much of it."""

from pathlib import Path

import pytest

from omnigraph.options import Verify
from omnigraph.storage import verification
from omnigraph.storage.checksums import (
    compute_checksum,
    is_same,
    mark_read_version,
    mark_uuid,
    name_data_file,
    parse_blob_checksum,
    parse_data_checksum,
    parse_deletion_checksum,
    parse_uuid_checksum,
)
from omnigraph.storage.verification import Verifier


def verifier(root: Path) -> Verifier:
    return Verifier(lambda key: str(root / key), Verify.SMALL)


def test_memory_does_not_follow_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "MAX_REMEMBERED_VERSIONS", 5)
    monkeypatch.setattr(verification, "MAX_REMEMBERED_FILES", 7)
    found = verifier(tmp_path)

    for number in range(100):
        found.expect("nodes/a", number, None, number)
        found.trust([f"nodes/a/data/{number}.lance"])

    assert [found.get_expected("nodes/a", number) is not None for number in (94, 95, 99)] == [False, True, True]
    assert len(found.matched) == 7


def test_a_pin_without_a_checksum_takes_none_away(tmp_path: Path) -> None:
    found = verifier(tmp_path)

    found.expect("nodes/a", 1, "00000000000000ff", 3)
    found.expect("nodes/a", 1, None, 4)

    assert found.get_expected("nodes/a", 1) == verification.VersionRecord("00000000000000ff", 4)


def test_a_file_is_compared_once(tmp_path: Path) -> None:
    content = b"rows"
    name = name_data_file("a.lance", compute_checksum(content), None)
    file = tmp_path / "nodes" / "a" / "data" / name
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    found = verifier(tmp_path)

    first = found.find_data_mismatch("nodes/a", name)
    file.write_bytes(b"else")
    again, anew = found.find_data_mismatch("nodes/a", name), verifier(tmp_path).find_data_mismatch("nodes/a", name)

    assert (first, again) == (None, None)
    assert anew == verification.Mismatch(f"nodes/a/data/{name}", "it does not match its checksum")


@pytest.mark.parametrize("number", [0, 1, 2**62 - 1, 2**62, 2**63, 2**64 - 1])
def test_each_name_gives_back_the_checksum_that_it_was_given(number: int) -> None:
    data = name_data_file("0101-ab.lance", number, None)
    both = name_data_file("0101-ab.lance", 7, number)
    deletion = f"_deletions/3-{mark_read_version(number)}-9.arrow"
    uuid = mark_uuid("0b7b0e9d-45f9-4cb3-b39a-aafdc286b24b", number)

    assert (parse_data_checksum(data), parse_blob_checksum(data)) == (number, None)
    assert (parse_data_checksum(both), parse_blob_checksum(both)) == (7, number)
    assert is_same(number, parse_deletion_checksum(deletion) or 0)
    assert is_same(number, parse_uuid_checksum(uuid) or 0)


@pytest.mark.parametrize("version", [1, 2**62 - 1, 2**63, 2**64 - 1])
def test_names_that_lance_gives_carry_nothing(version: int) -> None:
    assert parse_deletion_checksum(f"_deletions/3-{version}-9.arrow") is None
    assert parse_uuid_checksum("0b7b0e9d-45f9-4cb3-b39a-aafdc286b24b") is None
    assert parse_data_checksum("0101110110100111010101104ecc4645dd8a5b850a45856ef3.lance") is None
