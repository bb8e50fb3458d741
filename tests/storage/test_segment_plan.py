"""Which segments of an index are built, and which go: complete, few, and no row twice."""

from math import log2

from hypothesis import given
from hypothesis import strategies as st

from omnigraph.storage.index_staging import SegmentCoverage, SegmentPlan, plan_segments


def segment(uuid: str, *fragments: int, lost: int = 0) -> SegmentCoverage:
    return SegmentCoverage(uuid, frozenset(fragments), lost)


def test_a_missing_index_covers_everything() -> None:
    assert plan_segments({0: 5, 7: 5}, [], 4) == SegmentPlan((0, 7), ())


def test_a_complete_index_is_left_alone() -> None:
    assert plan_segments({0: 5, 1: 5}, [segment("a", 0), segment("b", 1)], 4).is_empty


def test_an_empty_table_needs_no_segment() -> None:
    assert plan_segments({}, [], 4).is_empty


def test_a_few_new_rows_get_a_segment_of_their_own() -> None:
    assert plan_segments({0: 1_000, 1: 5}, [segment("a", 0)], 4) == SegmentPlan((1,), ())


def test_a_segment_that_is_outgrown_is_taken_in() -> None:
    assert plan_segments({0: 1_000, 1: 600}, [segment("a", 0)], 4) == SegmentPlan((0, 1), ("a",))


def test_too_many_segments_are_merged_smallest_first() -> None:
    rows = {0: 1_000, 1: 100, 2: 10, 3: 1}
    segments = [segment("a", 0), segment("b", 1), segment("c", 2), segment("d", 3)]

    assert plan_segments(rows, segments, 3) == SegmentPlan((2, 3), ("c", "d"))


def test_a_segment_of_fragments_that_are_gone_goes() -> None:
    assert plan_segments({1: 10}, [segment("a", 0), segment("b", 1)], 4) == SegmentPlan((), ("a",))


def test_a_segment_that_lost_much_is_built_anew() -> None:
    assert plan_segments({0: 100, 9: 1}, [segment("a", 0, lost=30)], 4) == SegmentPlan((0, 9), ("a",))


def test_a_segment_that_lost_little_stays() -> None:
    assert plan_segments({0: 100, 9: 1}, [segment("a", 0, lost=5)], 4) == SegmentPlan((9,), ())


def test_two_segments_of_the_same_rows_are_both_replaced() -> None:
    found = plan_segments({0: 5, 1: 500}, [segment("a", 0), segment("b", 0), segment("c", 1)], 4)

    assert found == SegmentPlan((0,), ("a", "b"))


rows = st.dictionaries(st.integers(0, 12), st.integers(1, 1_000), max_size=10)
covers = st.lists(st.frozensets(st.integers(0, 12), max_size=5), max_size=8)


@given(rows, covers, st.integers(1, 5))
def test_what_is_planned_covers_every_row_once_and_then_nothing_is_left(
    rows: dict[int, int], covers: list[frozenset[int]], most: int
) -> None:
    segments = [SegmentCoverage(str(number), cover) for number, cover in enumerate(covers)]

    plan = plan_segments(rows, segments, most)

    kept = [one for one in segments if one.uuid not in plan.replaced]
    after = [*kept, *([SegmentCoverage("new", frozenset(plan.build))] if plan.build else [])]
    covered = [number for one in after for number in one.fragments & rows.keys()]
    assert sorted(covered) == sorted(rows)
    assert len(after) <= most
    assert plan_segments(rows, after, most).is_empty


@given(st.lists(st.integers(1, 50), min_size=1, max_size=200))
def test_a_row_is_indexed_about_once_for_every_doubling(appends: list[int]) -> None:
    segments: list[SegmentCoverage] = []
    rows: dict[int, int] = {}
    indexed = 0

    for number, count in enumerate(appends):
        rows[number] = count
        plan = plan_segments(rows, segments, 16)
        indexed += sum(rows[one] for one in plan.build)
        segments = [one for one in segments if one.uuid not in plan.replaced]
        segments.append(SegmentCoverage(str(number), frozenset(plan.build)))

    total = sum(appends)
    assert indexed <= total * (2 * log2(total) + 2)
