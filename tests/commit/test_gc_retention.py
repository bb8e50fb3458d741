"""Which commits a cleanup keeps: by number, by age, for tags, branches and merges."""

import pytest

from omnigraph.commit.gc_retention import MergePoint, build_horizon, find_merge_base_seqs, find_passages, group_ranges
from omnigraph.commit.manifest_types import GcHorizon

MAIN, SIDE, OTHER = "__manifest", "__branches/side", "__branches/other"


def merged(into: str, at: int, path: str, seq: int) -> MergePoint:
    return MergePoint(into, at, path, seq, path.rpartition("/")[2])


@pytest.mark.parametrize(
    "seqs, expected",
    [([], []), ([3], [(3, 3)]), ([5, 3, 4, 9, 4], [(3, 5), (9, 9)]), (range(4), [(0, 3)])],
)
def test_numbers_are_told_as_ranges(seqs: list[int], expected: list[tuple[int, int]]) -> None:
    assert group_ranges(seqs) == expected


@pytest.mark.parametrize("newest", [7, 9, 12])
def test_a_floor_covers_what_is_kept_and_all_that_follows(newest: int) -> None:
    floor = build_horizon({0, 1, 5, 7}, newest, epoch=3, version=20, boundary="2026-01-31T00:00:00Z")

    assert [seq for seq in range(14) if floor.retains(seq)] == sorted({0, 1, 5, 7} | set(range(newest, 14)))
    assert (floor.epoch, floor.lowest_version, floor.staged_before) == (3, 20, "2026-01-31T00:00:00Z")


def test_the_first_floor_covers_everything() -> None:
    assert all(GcHorizon().retains(seq) for seq in (0, 1, 10**9))


def test_the_newest_merge_of_a_branch_is_what_the_next_one_compares_with() -> None:
    points = [merged(MAIN, 5, SIDE, 2), merged(MAIN, 9, SIDE, 7)]

    assert find_merge_base_seqs(points, set()) == {SIDE: {7}}


def test_a_branch_that_was_taken_in_between_remembers_the_merge_before() -> None:
    points = [merged(MAIN, 5, SIDE, 2), merged(MAIN, 9, SIDE, 7)]

    assert find_merge_base_seqs(points, {(MAIN, 6), (MAIN, 4)}) == {SIDE: {2, 7}}


def test_merges_into_different_branches_each_count() -> None:
    points = [merged(MAIN, 5, SIDE, 2), merged(OTHER, 3, SIDE, 1), merged(SIDE, 9, OTHER, 4)]

    assert find_merge_base_seqs(points, set()) == {SIDE: {1, 2}, OTHER: {4}}


@pytest.mark.parametrize(
    "more, forks, ends, expected",
    [
        ([], {}, set(), {SIDE: MAIN}),
        ([merged(OTHER, 4, SIDE, 1)], {}, set(), {}),
        ([], {OTHER: (SIDE, 2)}, set(), {}),
        ([], {SIDE: (MAIN, 2)}, {SIDE}, {}),
    ],
    ids=["merged into one", "merged into two", "another was taken from it", "it lives"],
)
def test_a_journal_that_only_one_leads_into_has_nothing_that_two_have_in_common(
    more: list[MergePoint], forks: dict[str, tuple[str, int]], ends: set[str], expected: dict[str, str]
) -> None:
    points = [merged(MAIN, 5, SIDE, 2), merged(MAIN, 6, SIDE, 3), *more]

    assert find_passages(points, forks, {MAIN, *ends}) == expected
