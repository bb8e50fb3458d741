"""The three-way merge of rows, without tables: against a model of dictionaries, and in the cases that need care."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.merging.conflicts import ConflictKind
from omnigraph.engine.merging.side_changes import SideChanges
from omnigraph.engine.merging.three_way import Prefer, RowMerge, merge_three_way
from omnigraph.engine.writing.blobs import REFERENCE
from omnigraph.engine.writing.write_buffer import build_pending_schema
from omnigraph.lang.source import Source
from omnigraph.schema.bind import load_schema
from omnigraph.schema.catalog import AnyType

Row = dict[str, object]
Rows = dict[str, Row]

PLAIN = load_schema(Source("node P { n: I32?  m: I32?  tags: [String]? }")).nodes["P"]
EMBEDDED = load_schema(Source('node P { text: String?  n: I32?  vec: Vector(1)? @embed("text") }')).nodes["P"]
WITH_BLOB = load_schema(Source("node P { n: I32?  photo: Blob? }")).nodes["P"]
FIELDS = ("n", "m", "tags")


def changes(type_: AnyType, before: Rows, after: Rows) -> SideChanges:
    """What leads from one state to another."""
    schema = build_pending_schema(type_)

    def table(state: Rows, ids: list[str]) -> pa.Table:
        return pa.Table.from_pylist([{"id": one, **state[one]} for one in ids], schema)

    updated = sorted(one for one in before.keys() & after.keys() if before[one] != after[one])
    names = [name for name in schema.names if name != "id"]
    masks = {name: [before[one].get(name) != after[one].get(name) for one in updated] for name in names}
    return SideChanges(
        inserted=table(after, sorted(after.keys() - before.keys())),
        before=table(before, updated),
        after=table(after, updated),
        changed={"id": np.zeros(len(updated), np.bool_)} | {k: np.array(v, np.bool_) for k, v in masks.items()},
        deleted=pa.array(sorted(before.keys() - after.keys()), pa.string()),
    )


def merged(
    base: Rows, kept: Rows, taken: Rows, *, type_: AnyType = PLAIN, prefer: Prefer | None = None
) -> tuple[Rows, RowMerge]:
    """The kept state with what the merge brings to it."""
    done = merge_three_way(type_, changes(type_, base, kept), changes(type_, base, taken), prefer=prefer)
    state = {one: row for one, row in kept.items() if one not in done.deleted.to_pylist()}
    for row in done.put.to_pylist():
        state[row.pop("id")] = row
    return state, done


def model(base: Rows, kept: Rows, taken: Rows) -> tuple[Rows, set[tuple[str, str, str | None]]]:
    """The merged state by the book, and what it can't decide: then the kept side's word stands."""
    state: Rows = {}
    clashes: set[tuple[str, str, str | None]] = set()
    for one in base.keys() | kept.keys() | taken.keys():
        old, mine, theirs = base.get(one), kept.get(one), taken.get(one)
        if mine is None or theirs is None:
            is_mine_same, is_theirs_same = mine == old, theirs == old
            if not is_mine_same and not is_theirs_same and mine != theirs:
                clashes.add(("DeleteVsUpdate", one, None))
            chosen = theirs if is_mine_same else mine
            if chosen is not None:
                state[one] = chosen
            continue
        row: Row = {}
        for name in FIELDS:
            was = None if old is None else old[name]
            is_new = old is None
            if mine[name] == theirs[name] or (theirs[name] == was and not is_new):
                row[name] = mine[name]
            elif mine[name] == was and not is_new:
                row[name] = theirs[name]
            else:
                clashes.add(("DivergentInsert" if is_new else "DivergentUpdate", one, name))
                row[name] = mine[name]
        state[one] = row
    return state, clashes


VALUES = st.one_of(st.none(), st.integers(0, 2))
TAGS = st.one_of(st.none(), st.lists(st.sampled_from("xy"), max_size=2))
STATES = st.dictionaries(st.sampled_from("abcdef"), st.fixed_dictionaries({"n": VALUES, "m": VALUES, "tags": TAGS}))


@settings(max_examples=200, deadline=None)
@given(base=STATES, kept=STATES, taken=STATES)
def test_merged_rows_are_those_of_a_model(base: Rows, kept: Rows, taken: Rows) -> None:
    expected, clashes = model(base, kept, taken)

    state, done = merged(base, kept, taken)

    assert {(one.kind.value, row, one.property) for one in done.clashes for row in one.ids} == clashes
    undecided = {row for _, row, _ in clashes}
    assert {k: v for k, v in state.items() if k not in undecided} == {
        k: v for k, v in expected.items() if k not in undecided
    }


@settings(max_examples=100, deadline=None)
@given(base=STATES, kept=STATES, taken=STATES)
def test_it_does_not_matter_which_side_is_kept(base: Rows, kept: Rows, taken: Rows) -> None:
    there, done = merged(base, kept, taken)
    back, undone = merged(base, taken, kept)

    assert sum(one.total for one in done.clashes) == sum(one.total for one in undone.clashes)
    if not done.clashes:
        assert there == back


@settings(max_examples=100, deadline=None)
@given(base=STATES, kept=STATES, taken=STATES)
def test_a_preferred_side_leaves_no_clash_and_the_two_ways_agree(base: Rows, kept: Rows, taken: Rows) -> None:
    mine, done = merged(base, kept, taken, prefer="kept")
    same, undone = merged(base, taken, kept, prefer="taken")

    assert not done.clashes
    assert not undone.clashes
    assert mine == same


def test_nothing_is_put_when_both_did_the_same() -> None:
    base: Rows = {"a": {"n": 1, "m": 1, "tags": None}, "b": {"n": 1, "m": 1, "tags": None}}
    after: Rows = {"a": {"n": 2, "m": 1, "tags": ["x"]}, "c": {"n": 3, "m": 1, "tags": None}}

    _, done = merged(base, after, after)

    assert (done.put.num_rows, len(done.deleted), done.clashes) == (0, 0, ())


def test_a_clash_tells_all_three_values() -> None:
    base: Rows = {"a": {"n": 1, "m": 1, "tags": None}}

    _, done = merged(base, {"a": {"n": 2, "m": 1, "tags": None}}, {"a": {"n": 3, "m": 5, "tags": None}})

    [clash] = done.clashes
    assert (clash.kind, clash.property, clash.ids) == (ConflictKind.DIVERGENT_UPDATE, "n", ["a"])
    assert (clash.base, clash.kept, clash.taken, clash.total) == ([1], [2], [3], 1)


def test_a_deleted_row_that_was_changed_tells_what_was_changed() -> None:
    base: Rows = {"a": {"n": 1, "m": 1, "tags": None}}

    _, done = merged(base, {}, {"a": {"n": 3, "m": 1, "tags": None}})

    [clash] = done.clashes
    assert (clash.kind, clash.property) == (ConflictKind.DELETE_VS_UPDATE, None)
    assert (clash.base, clash.kept, clash.taken) == ([{"n": 1}], [None], [{"n": 3}])


def test_few_clashes_are_shown_and_all_are_counted() -> None:
    base: Rows = {f"{number:03}": {"n": 0, "m": 0, "tags": None} for number in range(50)}
    ours: Rows = {one: {"n": 1, "m": 0, "tags": None} for one in base}
    theirs: Rows = {one: {"n": 2, "m": 0, "tags": None} for one in base}

    _, done = merged(base, ours, theirs)

    [clash] = done.clashes
    assert (len(clash.ids), clash.total) == (20, 50)


@pytest.mark.parametrize("is_text_ours", [True, False])
def test_a_vector_comes_from_where_its_text_comes_from(is_text_ours: bool) -> None:
    base: Rows = {"a": {"text": "old", "n": 0, "vec": None}}
    rewritten: Rows = {"a": {"text": "new", "n": 0, "vec": None}}
    computed: Rows = {"a": {"text": "old", "n": 1, "vec": [1.0]}}
    kept, taken = (rewritten, computed) if is_text_ours else (computed, rewritten)

    state, done = merged(base, kept, taken, type_=EMBEDDED)

    assert state == {"a": {"text": "new", "n": 1, "vec": None}}
    assert not done.clashes


def test_a_vector_of_a_text_that_clashes_is_no_clash_of_its_own() -> None:
    base: Rows = {"a": {"text": "old", "n": 0, "vec": None}}
    kept: Rows = {"a": {"text": "x", "n": 0, "vec": [1.0]}}
    taken: Rows = {"a": {"text": "y", "n": 0, "vec": [2.0]}}

    _, done = merged(base, kept, taken, type_=EMBEDDED)
    state, _ = merged(base, kept, taken, type_=EMBEDDED, prefer="taken")

    assert [clash.property for clash in done.clashes] == ["text"]
    assert state == taken


def test_blobs_are_compared_by_who_can_read_them() -> None:
    schema = build_pending_schema(WITH_BLOB)
    row = {"id": "a", "n": 1, "photo": {"given": None, "address": 7, "size": 3}}
    side = SideChanges(
        inserted=pa.Table.from_pylist([row], schema),
        before=schema.empty_table(),
        after=schema.empty_table(),
        changed={},
        deleted=pa.array([], pa.string()),
    )
    asked: list[str] = []

    def same(name: str, kept: pa.Array, taken: pa.Array) -> np.ndarray:
        assert kept.type == taken.type == REFERENCE
        asked.append(name)
        return np.array([False])

    done = merge_three_way(WITH_BLOB, side, side, same_blobs=same)

    assert asked == ["photo"]
    assert [(one.property, one.kept) for one in done.clashes] == [("photo", [{"bytes": 3}])]
