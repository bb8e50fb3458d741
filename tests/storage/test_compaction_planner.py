"""Which fragments are written anew: where it pays, and not again and again."""

from collections.abc import Sequence
from itertools import count
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.options import UpkeepOptions
from omnigraph.storage.compaction_planner import (
    BLOB_BYTES_PER_ROW,
    MAX_TAIL_BYTES,
    MAX_TAIL_ROWS,
    find_fragments_to_weigh,
    plan_rewrite_groups,
)
from omnigraph.storage.fragment_list import Fragment

OPTIONS = UpkeepOptions(
    fragment_rows=1_000, fragment_bytes=10**6, merged_fragments=4, deleted_share=0.2, deleted_rows=10
)


def fragment(number: int, rows: int, deleted: int = 0, nbytes: int = 0) -> Fragment:
    return Fragment(number, rows, deleted, (f"{number}.lance",), f"{number}-0-0" if deleted else None, nbytes)


def table(*rows: int) -> list[Fragment]:
    return [fragment(number, count) for number, count in enumerate(rows)]


def after(fragments: Sequence[Fragment], groups: Sequence[tuple[int, ...]]) -> list[Fragment]:
    """The table once the groups are written anew, each into one fragment."""
    by_number = {one.number: one for one in fragments}
    gone = {number for group in groups for number in group}
    kept = [one for one in fragments if one.number not in gone]
    start = max(by_number, default=0) + 1
    sizes = [sum(by_number[number].rows - by_number[number].deleted for number in group) for group in groups]
    return [*kept, *(fragment(start + place, size) for place, size in enumerate(sizes))]


def test_few_fragments_are_left_alone() -> None:
    assert plan_rewrite_groups(table(10, 10, 10), OPTIONS) == ()


def test_small_fragments_of_like_size_are_merged() -> None:
    assert plan_rewrite_groups(table(10, 10, 900, 10, 12), OPTIONS) == ((0, 1, 3, 4),)


def test_a_large_fragment_is_not_rewritten_for_the_sake_of_small_ones() -> None:
    groups = plan_rewrite_groups(table(400, *[1] * 20), OPTIONS)

    assert groups == (tuple(range(1, 21)),)


def test_the_smallest_are_merged_however_they_differ() -> None:
    groups = plan_rewrite_groups(table(900, 1, 9, 40, 200), OPTIONS)

    assert groups == ((1, 2, 3, 4),)


def test_a_few_wide_rows_are_not_the_smallest() -> None:
    wide = [fragment(0, 1, nbytes=1_000), *(fragment(number, 10**number, nbytes=200_000) for number in (1, 2, 3))]

    assert plan_rewrite_groups(wide, OPTIONS) == ()


def test_rows_with_large_blobs_are_not_the_smallest() -> None:
    fragments = table(900, 1, 9, 40, 200)

    assert plan_rewrite_groups(fragments, OPTIONS, blob_bytes={4: 260_000}) == ()


def test_rows_with_small_blobs_are_the_smallest_like_others() -> None:
    fragments = table(900, 1, 9, 40, 100)

    assert plan_rewrite_groups(fragments, OPTIONS, blob_bytes={4: 100_000}) == ((1, 2, 3, 4),)


def test_fragments_with_blobs_of_like_size_are_merged() -> None:
    sizes = dict.fromkeys(range(1, 6), 30_000)

    assert plan_rewrite_groups(table(200, *[1] * 5), OPTIONS, blob_bytes=sizes | {0: 400_000}) == ((1, 2, 3, 4, 5),)


def test_a_large_blob_is_not_written_anew_for_the_sake_of_rows_without() -> None:
    fragments = table(*[1] * 9)

    groups = plan_rewrite_groups(fragments, OPTIONS, blob_bytes={4: 400_000})

    assert groups == ((0, 1, 2, 3, 5, 6, 7, 8),)


def test_a_fragment_that_is_full_of_blobs_is_never_merged() -> None:
    assert plan_rewrite_groups(table(*[1] * 9), OPTIONS, blob_bytes=dict.fromkeys(range(9), 600_000)) == ()


def test_a_group_fits_into_one_fragment_with_its_blobs() -> None:
    groups = plan_rewrite_groups(table(*[1] * 12), OPTIONS, blob_bytes=dict.fromkeys(range(12), 240_000))

    assert groups == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11))


@pytest.mark.parametrize("nbytes, groups", [(1_000, ()), (200_000, ((0,),))])
def test_a_few_deleted_rows_are_worth_it_for_the_sake_of_their_blobs(
    nbytes: int, groups: tuple[tuple[int, ...], ...]
) -> None:
    worn = [fragment(0, 12, 9), fragment(1, 12, 1)]

    assert plan_rewrite_groups(worn, OPTIONS, blob_bytes={0: nbytes, 1: nbytes}) == groups


def test_only_what_may_pay_is_weighed() -> None:
    fragments = [*table(900, 10, 10, 10, 10), fragment(5, 700), fragment(6, 2_000, 600), fragment(7, 2_000, 1)]

    assert find_fragments_to_weigh(fragments, OPTIONS) == {1, 2, 3, 4, 6}


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1), st.integers(0, 300_000)), max_size=30))
def test_what_is_chosen_was_weighed(made: list[tuple[int, float, int]]) -> None:
    fragments = [fragment(place, rows, int(rows * share)) for place, (rows, share, _) in enumerate(made)]
    sizes = {place: nbytes for place, (_, _, nbytes) in enumerate(made)}

    groups = plan_rewrite_groups(fragments, OPTIONS, blob_bytes=sizes)

    assert {number for group in groups for number in group} <= find_fragments_to_weigh(fragments, OPTIONS)


def test_a_full_fragment_is_never_merged() -> None:
    assert plan_rewrite_groups(table(600, 700, 800, 900, 1_000), OPTIONS) == ()


def test_a_group_fits_into_one_fragment() -> None:
    groups = plan_rewrite_groups(table(*[150] * 16), OPTIONS)

    assert [len(group) for group in groups] == [6, 6, 4]


def test_wide_rows_count_by_their_bytes() -> None:
    wide = [fragment(number, 10, nbytes=300_000) for number in range(12)]

    assert plan_rewrite_groups(wide, OPTIONS) == ()
    assert plan_rewrite_groups([fragment(n, 10, nbytes=200_000) for n in range(5)], OPTIONS) == ((0, 1, 2, 3, 4),)


def test_a_fragment_with_many_deleted_rows_is_written_anew_by_itself() -> None:
    worn = [fragment(0, 1_000, 300), fragment(1, 1_000, 100)]

    assert plan_rewrite_groups(worn, OPTIONS) == ((0,),)


def test_a_few_deleted_rows_of_a_tiny_fragment_are_not_worth_it() -> None:
    assert plan_rewrite_groups([fragment(0, 12, 9)], OPTIONS) == ()


def test_no_fragment_is_in_two_groups() -> None:
    mixed = [fragment(number, 100, 50) for number in range(9)]

    groups = plan_rewrite_groups(mixed, OPTIONS)

    numbers = [number for group in groups for number in group]
    assert len(numbers) == len(set(numbers)) == 9


@given(st.lists(st.integers(1, 1_200), max_size=60))
def test_once_it_is_done_little_is_left_to_do(rows: list[int]) -> None:
    fragments = table(*rows)

    for _ in range(6):
        groups = plan_rewrite_groups(fragments, OPTIONS)
        if not groups:
            break
        fragments = after(fragments, groups)

    assert plan_rewrite_groups(fragments, OPTIONS) == ()
    assert sum(one.rows for one in fragments) == sum(rows)


@given(appends=st.lists(st.integers(1, 5), min_size=1, max_size=300))
def test_a_row_is_rewritten_about_once_for_every_doubling(appends: list[int]) -> None:
    fragments: list[Fragment] = []
    rewritten = 0

    for number, rows in enumerate(appends):
        fragments.append(fragment(10_000 + number, rows))
        groups = plan_rewrite_groups(fragments, UpkeepOptions(deleted_rows=10))
        by_number = {one.number: one.rows for one in fragments}
        rewritten += sum(by_number[one] for group in groups for one in group)
        fragments = [
            fragment(place, one.rows)
            for place, one in enumerate(sorted(after(fragments, groups), key=lambda f: -f.rows))
        ]

    total = sum(appends)
    assert rewritten <= total * (log2(total) + 2) + len(appends) * MAX_TAIL_ROWS
    assert len(fragments) <= 4 * (log2(max(total / MAX_TAIL_ROWS, 1)) + 2)


BLOBS = st.one_of(st.integers(0, 2_000), st.integers(100_000, 5_000_000), st.integers(10**8, 4 * 10**8))


@given(st.lists(BLOBS, min_size=1, max_size=200))
def test_blobs_are_written_anew_about_once_for_every_doubling(appends: list[int]) -> None:
    options, numbers = UpkeepOptions(deleted_rows=10), count()
    sizes: dict[int, tuple[int, int]] = {}
    rewritten = 0

    for appended in appends:
        sizes[next(numbers)] = (1, appended)
        fragments = [fragment(one, rows) for one, (rows, _) in sizes.items()]
        blobs = {one: nbytes for one, (_, nbytes) in sizes.items()}
        for group in plan_rewrite_groups(fragments, options, blob_bytes=blobs):
            rows, nbytes = zip(*(sizes.pop(one) for one in group), strict=True)
            sizes[next(numbers)] = (sum(rows), sum(nbytes))
            rewritten += sum(nbytes)

    total, most = sum(appends), options.fragment_bytes
    assert (
        rewritten
        <= total * (log2(min(total, most) / BLOB_BYTES_PER_ROW + len(appends)) + 2) + len(appends) * MAX_TAIL_BYTES
    )
    assert len(sizes) <= 4 * log2(most / BLOB_BYTES_PER_ROW) + 2 * total / most + 4
