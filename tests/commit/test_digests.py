"""The digest of a commit: the same for the same row in every release, another for any other row."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from omnigraph.commit.digest_chain import AlteredCommit, DigestChain, SchemaRecords
from omnigraph.commit.digests import add_digest, compute_digest
from omnigraph.commit.manifest_types import RECORD, Commit, Manifest, MergedFrom, PinChange, SchemaRecord, TableRecord
from omnigraph.commit.purges import Purge

SCHEMA = SchemaRecord(id="S0", source="node P { k: String @key }", catalog="{}", fingerprint="f", same={7: 3})
TABLE = TableRecord(table_key="node:P", path="nodes/0123456789abcdef", identity=1)
CHANGE = PinChange(
    table_key="node:P",
    path="nodes/0123456789abcdef",
    before="9223372036854775809",
    after="9223372036854775810",
    rows_before=1,
    rows_after=2,
    replaced=TABLE,
    branch_before="dev",
)
FULL = Commit(
    id="01JC0000000000000000000002",
    parent="01JC0000000000000000000001",
    merged_parent="01JC0000000000000000000009",
    merged_from=MergedFrom(branch="dev", path="__branches/01JC0000000000000000000008", seq=4, digest="d" * 43),
    seq=2,
    branch="main",
    actor="Zoë",
    at="2026-01-31T12:00:00.000000Z",
    operation="load",
    message='two\nlines and "quotes" \u2028',
    manifest_version=3,
    changes=(CHANGE,),
    schema_before="S9",
    schema_after="S0",
    idempotency_key="k",
    request="r",
    affected_nodes=0,
    affected_edges=1,
    summary={"P": {"read": 2, "inserted": 1}},
    purged=(Purge(table_key="node:Q", path="nodes/fedcba9876543210"),),
)
OTHERS: Mapping[str, object] = {
    "merged_from": MergedFrom(branch="dev", path="__branches/01JC0000000000000000000008", seq=4, digest="e" * 43),
    "seq": 3,
    "manifest_version": 4,
    "changes": (),
    "affected_nodes": None,
    "affected_edges": 0,
    "summary": {},
    "purged": (),
}


def test_a_digest_is_the_same_in_every_release() -> None:
    first = Commit(id="A", parent=None, seq=0, branch="main", actor="a", at="t", operation="init", manifest_version=1)

    # These are in people's notes: a change of them is a change of what was promised.
    assert compute_digest(first, None, SCHEMA) == "OaHoZcZ5McBLCaeFFyjfrEppXkhu53OhUpr7VI_T5t4"
    assert compute_digest(FULL, "p" * 43, SCHEMA) == "_SJLHqQQ5epnTEkvLxgNiddUHVNUJ15PMKOQd00bTbs"


@pytest.mark.parametrize("field", [name for name in Commit.__struct_fields__ if name != "digest"])
def test_each_field_of_a_commit_is_covered(field: str) -> None:
    other = msgspec.structs.replace(FULL, **{field: OTHERS.get(field, "other")})

    assert compute_digest(other, "p" * 43, SCHEMA) != compute_digest(FULL, "p" * 43, SCHEMA)


@pytest.mark.parametrize("field", SchemaRecord.__struct_fields__)
def test_each_field_of_the_accepted_schema_is_covered(field: str) -> None:
    other = msgspec.structs.replace(SCHEMA, **{field: {} if field == "same" else "other"})

    assert compute_digest(FULL, None, other) != compute_digest(FULL, None, SCHEMA)


def test_the_parents_digest_is_covered_and_ones_own_is_not() -> None:
    digest = compute_digest(FULL, "p" * 43, SCHEMA)

    assert compute_digest(FULL, "q" * 43, SCHEMA) != digest
    assert compute_digest(msgspec.structs.replace(FULL, digest=digest), "p" * 43, SCHEMA) == digest


def test_a_row_has_its_digest_again_after_it_was_stored() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(FULL), type=Commit)

    assert compute_digest(stored, None, SCHEMA) == compute_digest(FULL, None, SCHEMA)


def test_a_field_that_a_later_release_adds_changes_nothing() -> None:
    class Later(Commit, frozen=True, kw_only=True):
        signature: str | None = None
        seals: tuple[str, ...] = ()

    later = Later(**msgspec.structs.asdict(FULL))

    assert compute_digest(later, None, SCHEMA) == compute_digest(FULL, None, SCHEMA)
    changed = msgspec.structs.replace(later, signature="x")
    assert compute_digest(changed, None, SCHEMA) != compute_digest(FULL, None, SCHEMA)


# --- chains ------------------------------------------------------------------------------------------------------


def history(length: int, *, operation: str = "mutate", digests_from: int = 0) -> list[Commit]:
    """Commits oldest first; the first of those with digests may be one that records."""
    commits: list[Commit] = []
    for seq in range(length):
        is_record = digests_from > 0 and seq == digests_from
        commit = Commit(
            id=f"C{seq}",
            parent=f"C{seq - 1}" if seq else None,
            seq=seq,
            branch="main",
            actor="a",
            at=f"t{seq}",
            operation=RECORD if is_record else operation if seq else "init",
            manifest_version=seq + 1,
            schema_after=None if seq else "S0",
        )
        has_digest = seq >= digests_from
        commits.append(add_digest(commit, commits[-1] if commits else None, SCHEMA) if has_digest else commit)
    return commits


def walk(commits: list[Commit], schemas: tuple[SchemaRecord, ...] = (SCHEMA,)) -> tuple[list[str], DigestChain]:
    """Return the ids of altered commits, and the chain."""
    records = SchemaRecords()
    for one in schemas:
        records.add(one)
    manifest = Manifest(schema=SCHEMA, tables={}, pins={}, head=commits[-1].id, commits=tuple(commits))
    chain = DigestChain(manifest, records)
    found: list[AlteredCommit] = []
    for commit in reversed(commits):
        found += chain.add(commit)
    found += chain.finish()
    return [one.commit.id for one in found], chain


def test_a_whole_history_is_proved_to_its_first_commit() -> None:
    found, chain = walk(history(5))

    assert (found, chain.proven, chain.first) == ([], 5, history(5)[0])


def test_a_history_of_an_older_release_has_nothing_to_prove() -> None:
    found, chain = walk(history(4, digests_from=99))

    assert (found, chain.proven, chain.first) == ([], 0, None)


@pytest.mark.parametrize("begin", [1, 3])
def test_a_chain_begins_with_the_commit_that_records(begin: int) -> None:
    commits = history(6, digests_from=begin)

    found, chain = walk(commits)

    assert [one.digest is not None for one in commits] == [seq >= begin for seq in range(6)]
    assert (found, chain.proven, chain.first) == ([], 6 - begin, commits[begin])


def test_a_commit_after_one_without_a_digest_has_none() -> None:
    *_, last = history(3, digests_from=99)
    commit = msgspec.structs.replace(last, id="C3", parent="C2", seq=3)

    assert add_digest(commit, last, SCHEMA).digest is None


@pytest.mark.parametrize("change", [{"actor": "other"}, {"digest": "x" * 43}, {"digest": None}, {"operation": "put"}])
@pytest.mark.parametrize("begin, seq", [*((0, seq) for seq in range(6)), *((2, seq) for seq in range(2, 6))])
def test_the_altered_commit_is_named_and_no_other(seq: int, change: dict[str, Any], begin: int) -> None:
    commits = history(6, digests_from=begin)
    commits[seq] = msgspec.structs.replace(commits[seq], **change)

    found, _ = walk(commits)

    assert found == [commits[seq].id]


def test_a_commit_that_records_must_have_a_digest() -> None:
    commits = history(4, digests_from=99)
    commits[2] = msgspec.structs.replace(commits[2], operation=RECORD)

    assert walk(commits)[0] == ["C2"]


def test_a_schema_that_is_lost_or_there_in_two_forms_is_found() -> None:
    other = msgspec.structs.replace(SCHEMA, source="node Q { k: String @key }")

    assert [walk(history(3), schemas)[0] for schemas in ((), (other,), (SCHEMA, other))] == [["C0"]] * 3


def test_of_a_history_whose_beginning_is_lost_the_rest_is_proved() -> None:
    found, chain = walk(history(6)[2:])

    assert (found, chain.proven) == ([], 3)
    assert chain.first is not None
    assert chain.first.id == "C3"
