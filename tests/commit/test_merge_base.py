"""The merge base of two branches: the one that the whole graph of commits gives, found without reading all of it."""

import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from branching import branch, put
from collecting import SkewedClock
from omnigraph.commit.merge_base import (
    MAX_CLOCK_SKEW,
    Ancestry,
    BranchDivergence,
    MergeBaseGoneError,
    Tip,
    find_ancestors,
    find_merge_bases,
)
from omnigraph.ops.branch import delete_branch
from omnigraph.ops.merge import MergeCall, merge
from omnigraph.ops.merge_result import Strategy
from omnigraph.ops.session import Session
from worlds import FAST, TABLES, new_world, reopened, seeded_world

SEALING = replace(FAST, head_commits=4, sealed_fragments=1_000)
"""Every four commits a sealed fragment, so that histories are soon read from several."""


def tip(session: Session) -> Tip:
    head = session.head()
    return Tip(session.log, head)


def note_commits(session: Session, known: dict[str, tuple[str, ...]]) -> None:
    """Remember who the parents of every commit of a branch are; of those behind a known one it is known."""
    for commit in session.log.iter_history(session.head()):
        if commit.id in known:
            return
        known[commit.id] = tuple(one for one in (commit.parent, commit.merged_parent) if one is not None)


@pytest.mark.parametrize("seed", range(3))
def test_the_base_is_that_of_the_whole_graph_of_commits(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    main = new_world(tmp_path / "g", SEALING)
    sessions, known, checked, complete, crossed = {"main": main}, dict[str, tuple[str, ...]](), 0, 0, 0
    for step in range(45):
        name, pair = chance.choice(list(sessions)), list[Session]()
        match chance.choice(["write", "write", "branch", "merge", "merge", "cross", "cross", "delete"]):
            case "write":
                put(sessions[name], {f"r{step}": step}, chance.choice(TABLES))
            case "branch" if len(sessions) < 5:
                sessions[f"b{step}"] = branch(main, f"b{step}", name)
            case "merge" if len(sessions) > 1:
                other = chance.choice([one for one in sessions if one != name])
                merge(main, MergeCall(source=other, into=name, strategy=Strategy.OURS))
            case "cross" if len(sessions) > 1:
                other = chance.choice([one for one in sessions if one != name])
                pair = [sessions[name], sessions[other]]
                for session in pair:
                    put(session, {f"r{step}": step})
                branch(main, f"c{step}", other)
                merge(main, MergeCall(source=name, into=other, strategy=Strategy.OURS))
                merge(main, MergeCall(source=f"c{step}", into=name, strategy=Strategy.OURS))
            case "delete" if (
                name != "main"
                and len(sessions) > 3
                and not any(record.parent_branch == name for record in main.branches.list_records())
            ):
                note_commits(sessions.pop(name), known)
                delete_branch(main, name)
            case _:
                pass
        for session in sessions.values():
            note_commits(session, known)
        pair = pair or list(sessions.values())
        tips = [tip(session) for session in (chance.sample(pair, 2) if len(pair) > 1 else pair * 2)]
        ids = [each.commit.id for each in tips]

        ancestry = Ancestry(tips[0], tips[1])
        found = ancestry.find_divergence()

        bases = (found.base_id, *found.other_bases)
        assert bases == find_merge_bases(ids[0], ids[1], lambda commit: known[commit])
        before = set.intersection(*(find_ancestors(one, lambda commit: known[commit]) for one in bases))
        for commit_id, part in zip(ids, (found.ours, found.theirs), strict=True):
            since = find_ancestors(commit_id, lambda commit: known[commit]) - before
            assert part is None or {commit.id for commit in part} >= since
        complete += found.ours is not None
        below = [ancestry.open_tip(one) for one in bases]
        assert tuple(one.commit.id for one in below) == bases
        if len(bases) > 1:
            deeper = Ancestry(below[0], below[1]).find_divergence()
            under = find_merge_bases(bases[0], bases[1], lambda commit: known[commit])
            assert (deeper.base_id, *deeper.other_bases) == under
            crossed += 1
        checked += len(set(ids)) == 2
    assert checked > 10
    assert crossed > 0
    assert complete > 25


@pytest.mark.parametrize("is_merged_by_both", [True, False])
def test_the_journal_of_a_merged_branch_may_be_gone(is_merged_by_both: bool, tmp_path: Path) -> None:
    main = seeded_world(tmp_path / "g", SEALING)
    dev, review = branch(main, "dev"), branch(main, "review")
    fork = dev.head().snapshot.commit.id
    put(review, {"a": 7})
    for name, row in (("main", "b"), ("dev", "c")):
        put(main.checkout(name), {row: 8})
        if is_merged_by_both or name == "main":
            merge(main, MergeCall(source="review", into=name))
        main.store.runtime = replace(main.store.runtime, clock=SkewedClock(MAX_CLOCK_SKEW + timedelta(minutes=1)))
    delete_branch(main, "review")
    for info in list(main.store.objects.list_under(review.log.path)):
        main.store.objects.delete(info.key)
    other = reopened(main, SEALING)
    ancestry = Ancestry(tip(other), tip(other.checkout("dev")))

    if is_merged_by_both:
        with pytest.raises(MergeBaseGoneError, match="both branches have merged `review`"):
            ancestry.find_divergence()
    else:
        assert ancestry.find_divergence() == BranchDivergence(fork, None, None)


@pytest.mark.parametrize("seed", range(3))
def test_a_base_is_right_or_refused_whichever_side_has_merged_a_journal_that_is_gone(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    main = seeded_world(tmp_path / "g", SEALING)
    refused = 0
    for step in range(12):
        names = [f"{side}{step}" for side in ("left", "right", "middle")]
        for name in names:
            branch(main, name, "main" if name == names[0] else chance.choice(["main", names[0]]))
        for number in range(6):
            name = chance.choice(names)
            put(main.checkout(name), {f"r{number}": number})
            other = chance.choice([one for one in names if one != name])
            if chance.random() < 0.6:
                merge(main, MergeCall(source=other, into=name, strategy=Strategy.OURS))
        known = dict[str, tuple[str, ...]]()
        for name in names:
            note_commits(main.checkout(name), known)
        path = main.checkout(names[2]).log.path
        if any(one.parent_branch == names[2] for one in main.branches.list_records()):
            continue
        delete_branch(main, names[2])
        for info in list(main.store.objects.list_under(path)):
            main.store.objects.delete(info.key)
        other_handle = reopened(main, SEALING)
        tips = [tip(other_handle.checkout(name)) for name in names[:2]]
        right = find_merge_bases(tips[0].commit.id, tips[1].commit.id, lambda commit: known[commit])  # noqa: B023 - used here

        for one, other_tip in (tips, reversed(tips)):
            try:
                found = Ancestry(one, other_tip).find_divergence()
            except MergeBaseGoneError:
                refused += 1
            else:
                assert {found.base_id, *found.other_bases} == {*right}, (seed, step)
    assert refused > 0


def test_what_came_before_the_lines_met_is_not_read(tmp_path: Path) -> None:
    main = seeded_world(tmp_path / "g", SEALING)
    for number in range(60):
        put(main, {"a": number})
    dev = branch(main, "dev")
    put(dev, {"b": 1})
    put(main, {"c": 1})

    divergence = Ancestry(tip(main), tip(dev)).find_divergence()

    assert [len(part or ()) for part in (divergence.ours, divergence.theirs)] == [1, 1]
