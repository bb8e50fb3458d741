"""What the commit protocol relies on in Lance, one fact each. An upgrade that changes one turns red here first."""

import json
import os
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation, Transaction
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata, write_fragments

from omnigraph.storage.layout import format_detached_name, format_version_name

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64())])


def rows(*pairs: tuple[str, int]) -> pa.Table:
    return pa.table({"id": [p[0] for p in pairs], "v": [p[1] for p in pairs]}, SCHEMA)


@pytest.fixture
def table(tmp_path: Path) -> LanceDataset:
    return lance.write_dataset(
        rows(("a", 1), ("b", 2)),
        str(tmp_path / "t"),
        data_storage_version="2.2",
        enable_stable_row_ids=True,
        enable_v2_manifest_paths=True,
    )


def fragments(table: LanceDataset, data: pa.Table) -> list[FragmentMetadata]:
    return list(write_fragments(data, table, mode="append"))


def append(table: LanceDataset, data: pa.Table) -> Transaction:
    return Transaction(table.version, LanceOperation.Append(fragments(table, data)))


def overwrite(table: LanceDataset, data: pa.Table) -> Transaction:
    return Transaction(table.version, LanceOperation.Overwrite(table.lance_schema, fragments(table, data)))


def deletion(table: LanceDataset, offset: int) -> FragmentMetadata:
    fragment = table.get_fragment(0)
    assert fragment is not None
    made = fragment.delete_rows([offset])
    assert made is not None
    return made


def content(table: LanceDataset) -> dict[str, int]:
    found = table.to_table(["id", "v"])
    return dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


# --- the swap -------------------------------------------------------------------------------------


def test_a_strict_overwrite_creates_exactly_the_next_version(table: LanceDataset) -> None:
    made = LanceDataset.commit(table, overwrite(table, rows(("x", 9))), max_retries=0)

    assert made.version == table.version + 1


def test_of_two_strict_overwrites_on_one_version_the_second_fails(table: LanceDataset) -> None:
    LanceDataset.commit(table, overwrite(table, rows(("x", 9))), max_retries=0)

    with pytest.raises(CommitConflictError):
        LanceDataset.commit(table, overwrite(table, rows(("y", 9))), max_retries=0)


def test_a_strict_overwrite_sent_again_returns_the_version_it_made(table: LanceDataset) -> None:
    swap = overwrite(table, rows(("x", 9)))
    first = LanceDataset.commit(table, swap, max_retries=0)
    LanceDataset.commit(first, overwrite(first, rows(("z", 0))), max_retries=0)

    again = LanceDataset.commit(table, swap, max_retries=0)

    assert again.version == first.version
    assert content(again) == {"x": 9}


def test_a_strict_overwrite_loses_against_any_other_commit(table: LanceDataset) -> None:
    LanceDataset.commit(table, append(table, rows(("c", 3))), max_retries=0)

    with pytest.raises(CommitConflictError):
        LanceDataset.commit(table, overwrite(table, rows(("y", 9))), max_retries=0)


def test_other_operations_are_rebased_silently_even_without_retries(table: LanceDataset) -> None:
    """Why table heads are no place for transactions."""
    stale = append(table, rows(("d", 4)))
    LanceDataset.commit(table, append(table, rows(("c", 3))), max_retries=0)

    made = LanceDataset.commit(table, stale, max_retries=0)

    assert made.version == table.version + 2
    assert content(made) == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_an_append_sent_again_is_applied_twice(table: LanceDataset) -> None:
    """Why a lost response of anything but the swap is never answered by sending it again."""
    once = append(table, rows(("c", 3)))
    made = LanceDataset.commit(table, once)

    again = LanceDataset.commit(made, once)

    assert again.count_rows() == 4


def test_an_overwrite_may_keep_fragments_and_add_one(table: LanceDataset) -> None:
    kept = [fragment.metadata for fragment in table.get_fragments()]
    swap = Transaction(
        table.version, LanceOperation.Overwrite(table.lance_schema, [*kept, *fragments(table, rows(("c", 3)))])
    )

    made = LanceDataset.commit(table, swap, max_retries=0)

    assert content(made) == {"a": 1, "b": 2, "c": 3}
    assert made.get_fragments()[-1].to_table()["id"].to_pylist() == ["c"]


def test_an_overwrite_with_the_tables_own_schema_keeps_its_metadata(tmp_path: Path) -> None:
    schema = SCHEMA.with_metadata({b"stamp": b"4"})
    table = lance.write_dataset(rows(("a", 1)).cast(schema), str(tmp_path / "m"), schema=schema)

    made = LanceDataset.commit(table, overwrite(table, rows(("b", 2)).cast(schema)), max_retries=0)

    assert made.schema.metadata[b"stamp"] == b"4"


def test_a_swap_behind_trimmed_versions_succeeds_unseen(table: LanceDataset) -> None:
    """Why the newest version is looked at again after a swap."""
    head = table
    for number in range(4):
        head = LanceDataset.commit(head, overwrite(head, rows(("n", number))), max_retries=0)
    stale = overwrite(table, rows(("ghost", 0)))
    head.cleanup_old_versions(retain_versions=1)

    dead = LanceDataset.commit(table, stale, max_retries=0)

    assert dead.version == table.version + 1
    assert lance.dataset(table.uri).version == head.version
    assert dead.latest_version == head.version


def test_files_of_versions_are_named_newest_first(table: LanceDataset) -> None:
    assert os.path.exists(f"{table.uri}/{format_version_name(table.version)}")  # noqa: PTH110 - a Lance uri is text


# --- detached versions ------------------------------------------------------------------------------


def test_a_detached_commit_moves_no_head_and_is_seen_by_number_only(table: LanceDataset) -> None:
    made = LanceDataset.commit(table, append(table, rows(("c", 3))), detached=True)

    assert lance.dataset(table.uri).version == table.version
    assert content(lance.dataset(table.uri, version=made.version)) == {"a": 1, "b": 2, "c": 3}
    assert made.version not in [version["version"] for version in table.versions()]


def test_the_number_of_a_detached_version_exceeds_a_signed_long(table: LanceDataset) -> None:
    made = LanceDataset.commit(table, append(table, rows(("c", 3))), detached=True)

    assert made.version >= 2**63
    assert os.path.exists(f"{table.uri}/{format_detached_name(made.version)}")  # noqa: PTH110 - a Lance uri is text


def test_detached_versions_chain(table: LanceDataset) -> None:
    first = LanceDataset.commit(table, append(table, rows(("c", 3))), detached=True)
    second = LanceDataset.commit(first, append(first, rows(("d", 4))), detached=True)

    replaced = LanceOperation.Update([], [deletion(second, 0)], fragments(second, rows(("a", 100))), [])
    third = LanceDataset.commit(second, Transaction(second.version, replaced), detached=True)

    assert content(third) == {"a": 100, "b": 2, "c": 3, "d": 4}


def test_siblings_on_one_parent_do_not_see_each_other(table: LanceDataset) -> None:
    left = LanceDataset.commit(table, append(table, rows(("l", 1))), detached=True)
    right = LanceDataset.commit(table, append(table, rows(("r", 1))), detached=True)

    assert content(left) == {"a": 1, "b": 2, "l": 1}
    assert content(right) == {"a": 1, "b": 2, "r": 1}


def test_appended_fragments_fit_another_version(table: LanceDataset) -> None:
    staged = fragments(table, rows(("c", 3)))
    other = LanceDataset.commit(table, append(table, rows(("d", 4))), detached=True)

    made = LanceDataset.commit(other, Transaction(other.version, LanceOperation.Append(staged)), detached=True)

    assert content(made) == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_a_stale_deletion_on_another_version_brings_rows_back(table: LanceDataset) -> None:
    """Why a write that deletes is applied only to the version it was staged on."""
    stale = deletion(table, 0)
    other = LanceDataset.commit(
        table, Transaction(table.version, LanceOperation.Delete([deletion(table, 1)], [], "")), detached=True
    )

    made = LanceDataset.commit(other, Transaction(other.version, LanceOperation.Delete([stale], [], "")), detached=True)

    assert content(other) == {"a": 1}
    assert content(made) == {"b": 2}


def test_an_empty_overwrite_empties_and_keeps_the_schema(table: LanceDataset) -> None:
    empty = Transaction(table.version, LanceOperation.Overwrite(table.lance_schema, []))

    made = LanceDataset.commit(table, empty, detached=True)

    assert made.count_rows() == 0
    assert made.schema == table.schema


def test_deleting_all_rows_of_a_fragment_gives_no_fragment(table: LanceDataset) -> None:
    fragment = table.get_fragment(0)
    assert fragment is not None

    assert fragment.delete_rows([0, 1]) is None


def test_fragments_survive_json(table: LanceDataset) -> None:
    staged = deletion(table, 0)

    restored = FragmentMetadata.from_json(json.dumps(staged.to_json()))

    assert restored == staged


def test_row_ids_are_stable_across_a_detached_update(table: LanceDataset) -> None:
    before = table.to_table(["id"], with_row_id=True).to_pylist()
    replaced = LanceOperation.Update([], [deletion(table, 0)], fragments(table, rows(("a", 100))), [])

    made = LanceDataset.commit(table, Transaction(table.version, replaced), detached=True)

    after = {row["id"]: row["_rowid"] for row in made.to_table(["id"], with_row_id=True).to_pylist()}
    assert after["b"] == before[1]["_rowid"]
    assert len(set(after.values())) == 2


def test_lances_cleanup_does_not_protect_detached_versions(table: LanceDataset) -> None:
    """Why it must never run on a graph's tables."""
    made = LanceDataset.commit(table, append(table, rows(("c", 3))), detached=True)

    table.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)

    with pytest.raises((OSError, ValueError)):
        lance.dataset(table.uri, version=made.version).to_table()


# --- indexes ----------------------------------------------------------------------------------------


def test_an_index_segment_can_be_committed_detached_and_serves(table: LanceDataset) -> None:
    index = table.create_index_uncommitted("id", "BTREE", name="id_btree", fragment_ids=[0])

    made = LanceDataset.commit(
        table, Transaction(table.version, LanceOperation.CreateIndex([index], [])), detached=True
    )

    assert "ScalarIndexQuery" in made.scanner(filter="id = 'b'").explain_plan()


def test_rows_that_no_index_covers_are_found_all_the_same(table: LanceDataset) -> None:
    index = table.create_index_uncommitted("id", "BTREE", name="id_btree", fragment_ids=[0])
    indexed = LanceDataset.commit(
        table, Transaction(table.version, LanceOperation.CreateIndex([index], [])), detached=True
    )

    made = LanceDataset.commit(indexed, append(indexed, rows(("c", 3))), detached=True)

    assert made.count_rows("id = 'c'") == 1


# --- damage ----------------------------------------------------------------------------


def test_a_torn_newest_version_fails_to_open_and_the_one_before_does_not(table: LanceDataset) -> None:
    made = LanceDataset.commit(table, overwrite(table, rows(("x", 9))), max_retries=0)
    Path(f"{table.uri}/{format_version_name(made.version)}").write_bytes(b"")

    with pytest.raises((OSError, ValueError)):
        lance.dataset(table.uri)

    assert content(lance.dataset(table.uri, version=table.version)) == {"a": 1, "b": 2}
