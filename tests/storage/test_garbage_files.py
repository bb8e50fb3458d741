"""What cleanup takes for what, by names and times alone."""

from datetime import UTC, datetime, timedelta

import pytest

from omnigraph.storage.garbage_files import (
    FileKind,
    SweepRules,
    classify_file,
    find_manifest_garbage,
    find_table_garbage,
)
from omnigraph.storage.layout import format_version_name
from omnigraph.storage.object_store import ObjectInfo
from omnigraph.storage.version_files import PinnedFiles

NOW = datetime(2026, 1, 31, tzinfo=UTC)
OLD, YOUNG = NOW - timedelta(hours=1), NOW + timedelta(hours=1)
UUID = "0c9d0b80-92a5-4b0a-8d5e-3f60b1a5c7d1"
TABLE, LINE = "nodes/00ff", "__branches/01J"


def info(path: str, name: str, modified: datetime = OLD) -> ObjectInfo:
    return ObjectInfo(f"{path}/{name}", 10, modified)


def rules(*named: str) -> SweepRules:
    return SweepRules(before=NOW, is_named=set(named).__contains__)


def taken(found: tuple[ObjectInfo, ...], path: str) -> list[str]:
    return [one.key.removeprefix(f"{path}/") for one in found]


@pytest.mark.parametrize(
    "name, part",
    [
        ("data/0101ab.lance", FileKind.CONTENT),
        ("data/0101ab.lance#3", FileKind.CONTENT),
        ("data/0101ab/1000.blob", FileKind.CONTENT),
        ("_deletions/0-15188781182091163343-5.arrow", FileKind.CONTENT),
        ("_deletions/0-1-5.bin", FileKind.CONTENT),
        (f"_indices/{UUID}/part_0_docs.lance", FileKind.CONTENT),
        (f"_transactions/7-{UUID}.txn", FileKind.CONTENT),
        ("_transactions/.tmpQInIl2", FileKind.CONTENT),
        ("data/0101ab/.tmpQInIl2", FileKind.CONTENT),
        ("data/0101ab/.tmpQInIl2x", FileKind.UNKNOWN),
        ("data/0101ab/er/.tmpQInIl2", FileKind.UNKNOWN),
        ("_transactions/.tmpQInIl2x", FileKind.UNKNOWN),
        ("_versions/d9392047496495050967.manifest", FileKind.VERSION),
        (format_version_name(1), FileKind.HEAD),
        ("_versions/latest_version_hint.json", FileKind.HEAD),
        ("data/notes.txt", FileKind.UNKNOWN),
        ("data/deep/er/0101.lance", FileKind.UNKNOWN),
        ("_versions/d12.manifest.bak", FileKind.UNKNOWN),
        ("_indices/mine/file", FileKind.UNKNOWN),
        ("tree/branch/_versions/1.manifest", FileKind.UNKNOWN),
        ("_refs/tags/a.json", FileKind.UNKNOWN),
        ("data/../../_schema.pg", FileKind.UNKNOWN),
    ],
)
def test_a_file_is_known_by_its_name(name: str, part: FileKind) -> None:
    assert classify_file(name) is part


def test_what_is_needed_young_or_named_stays() -> None:
    files = [info(TABLE, f"data/{name}.lance", age) for name, age in (("1", OLD), ("2", YOUNG), ("3", OLD), ("4", OLD))]

    found = find_table_garbage(
        TABLE, files, PinnedFiles(frozenset({f"{TABLE}/data/1.lance"})), rules(f"{TABLE}/data/3.lance")
    )

    assert taken(found.garbage, TABLE) == ["data/4.lance"]


def test_a_file_of_the_very_boundary_stays() -> None:
    found = find_table_garbage(TABLE, [info(TABLE, "data/1.lance", NOW)], PinnedFiles(), rules())

    assert found.garbage == ()


def test_what_lies_below_a_needed_directory_stays() -> None:
    needed = PinnedFiles(directories=frozenset({f"{TABLE}/_indices/{UUID}", f"{TABLE}/data/1"}))
    files = [info(TABLE, f"_indices/{UUID}/a.lance"), info(TABLE, "data/1/1.blob"), info(TABLE, "data/11/1.blob")]

    found = find_table_garbage(TABLE, files, needed, rules())

    assert taken(found.garbage, TABLE) == ["data/11/1.blob"]


def test_strangers_are_told_of_and_never_taken() -> None:
    files = [info(TABLE, "data/diary.txt"), info(TABLE, "data/1.lance")]

    found = find_table_garbage(TABLE, files, PinnedFiles(), rules())

    assert (taken(found.garbage, TABLE), taken(found.unknown_files, TABLE)) == (["data/1.lance"], ["data/diary.txt"])


def test_lances_own_line_of_a_table_of_rows_always_stays() -> None:
    files = [info(TABLE, format_version_name(1)), info(TABLE, "_versions/latest_version_hint.json")]

    assert find_table_garbage(TABLE, files, PinnedFiles(), rules()).garbage == ()


def test_versions_go_before_what_they_are_made_of() -> None:
    files = [info(TABLE, "data/1.lance"), info(TABLE, "_versions/d9392047496495050967.manifest")]

    found = find_table_garbage(TABLE, files, PinnedFiles(), rules())

    assert taken(found.garbage, TABLE) == ["_versions/d9392047496495050967.manifest", "data/1.lance"]
    assert (found.versions, found.nbytes) == (1, 20)


def test_the_last_version_of_a_dead_manifest_goes_last() -> None:
    names = [
        "data/1.lance",
        format_version_name(3),
        format_version_name(2),
        format_version_name(10),
        "_versions/latest_version_hint.json",
    ]

    found = find_manifest_garbage(LINE, [info(LINE, name) for name in names], PinnedFiles(), rules())

    assert taken(found.garbage, LINE) == [names[4], names[2], names[1], names[3], names[0]]


def test_the_hint_of_a_living_manifest_stays() -> None:
    files = [
        info(LINE, format_version_name(1)),
        info(LINE, format_version_name(2)),
        info(LINE, "_versions/latest_version_hint.json"),
    ]

    found = find_manifest_garbage(LINE, files, PinnedFiles(frozenset({f"{LINE}/{format_version_name(2)}"})), rules())

    assert taken(found.garbage, LINE) == [format_version_name(1)]


@pytest.mark.parametrize(
    "later",
    [
        pytest.param([], id="gone"),
        pytest.param([info(TABLE, "data/1.lance", OLD + timedelta(seconds=1))], id="written again"),
        pytest.param([ObjectInfo(f"{TABLE}/data/1.lance", 11, OLD)], id="of another size"),
    ],
)
def test_what_is_not_as_it_was_listed_first_stays(later: list[ObjectInfo]) -> None:
    found = find_table_garbage(TABLE, [info(TABLE, "data/1.lance")], PinnedFiles(), rules())

    assert found.select_unchanged(later).garbage == ()
