"""Which fragments are written anew: where it pays, and not again and again."""

from collections.abc import Sequence
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.options import UpkeepOptions
from omnigraph.storage.dataset import Fragment
from omnigraph.storage.fragment_groups import TAIL_ROWS, groups_to_rewrite

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
    assert groups_to_rewrite(table(10, 10, 10), OPTIONS) == ()


def test_small_fragments_of_like_size_are_merged() -> None:
    assert groups_to_rewrite(table(10, 10, 900, 10, 12), OPTIONS) == ((0, 1, 3, 4),)


def test_a_large_fragment_is_not_rewritten_for_the_sake_of_small_ones() -> None:
    groups = groups_to_rewrite(table(400, *[1] * 20), OPTIONS)

    assert groups == (tuple(range(1, 21)),)


def test_the_smallest_are_merged_however_they_differ() -> None:
    groups = groups_to_rewrite(table(900, 1, 9, 40, 200), OPTIONS)

    assert groups == ((1, 2, 3, 4),)


def test_a_few_wide_rows_are_not_the_smallest() -> None:
    wide = [fragment(0, 1, nbytes=1_000), *(fragment(number, 10**number, nbytes=200_000) for number in (1, 2, 3))]

    assert groups_to_rewrite(wide, OPTIONS) == ()


def test_rows_with_blobs_are_never_the_smallest() -> None:
    fragments = table(900, 1, 9, 40, 200)

    assert groups_to_rewrite(fragments, OPTIONS, has_blobs=True) == ()


def test_fragments_with_blobs_of_like_size_are_merged() -> None:
    assert groups_to_rewrite(table(200, *[1] * 5), OPTIONS, has_blobs=True) == ((1, 2, 3, 4, 5),)


def test_a_full_fragment_is_never_merged() -> None:
    assert groups_to_rewrite(table(600, 700, 800, 900, 1_000), OPTIONS) == ()


def test_a_group_fits_into_one_fragment() -> None:
    groups = groups_to_rewrite(table(*[150] * 16), OPTIONS)

    assert [len(group) for group in groups] == [6, 6, 4]


def test_wide_rows_count_by_their_bytes() -> None:
    wide = [fragment(number, 10, nbytes=300_000) for number in range(12)]

    assert groups_to_rewrite(wide, OPTIONS) == ()
    assert groups_to_rewrite([fragment(n, 10, nbytes=200_000) for n in range(5)], OPTIONS) == ((0, 1, 2, 3, 4),)


def test_a_fragment_with_many_deleted_rows_is_written_anew_by_itself() -> None:
    worn = [fragment(0, 1_000, 300), fragment(1, 1_000, 100)]

    assert groups_to_rewrite(worn, OPTIONS) == ((0,),)


def test_a_few_deleted_rows_of_a_tiny_fragment_are_not_worth_it() -> None:
    assert groups_to_rewrite([fragment(0, 12, 9)], OPTIONS) == ()


def test_no_fragment_is_in_two_groups() -> None:
    mixed = [fragment(number, 100, 50) for number in range(9)]

    groups = groups_to_rewrite(mixed, OPTIONS)

    numbers = [number for group in groups for number in group]
    assert len(numbers) == len(set(numbers)) == 9


@given(st.lists(st.integers(1, 1_200), max_size=60))
def test_once_it_is_done_little_is_left_to_do(rows: list[int]) -> None:
    fragments = table(*rows)

    for _ in range(6):
        groups = groups_to_rewrite(fragments, OPTIONS)
        if not groups:
            break
        fragments = after(fragments, groups)

    assert groups_to_rewrite(fragments, OPTIONS) == ()
    assert sum(one.rows for one in fragments) == sum(rows)


@pytest.mark.parametrize("has_blobs", [False, True])
@given(appends=st.lists(st.integers(1, 5), min_size=1, max_size=300))
def test_a_row_is_rewritten_about_once_for_every_doubling(appends: list[int], *, has_blobs: bool) -> None:
    fragments: list[Fragment] = []
    rewritten = 0

    for number, rows in enumerate(appends):
        fragments.append(fragment(10_000 + number, rows))
        groups = groups_to_rewrite(fragments, UpkeepOptions(deleted_rows=10), has_blobs=has_blobs)
        by_number = {one.number: one.rows for one in fragments}
        rewritten += sum(by_number[one] for group in groups for one in group)
        fragments = [
            fragment(place, one.rows)
            for place, one in enumerate(sorted(after(fragments, groups), key=lambda f: -f.rows))
        ]

    total = sum(appends)
    tail = 0 if has_blobs else TAIL_ROWS
    assert rewritten <= total * (log2(total) + 2) + len(appends) * tail
    assert len(fragments) <= 4 * (log2(max(total / max(tail, 1), 1)) + 2)
