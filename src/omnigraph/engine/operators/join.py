"""Join two tables of bindings: cross product, joins by equality, membership and order, and semi-join."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.kernels import (
    Check,
    argsort_stable,
    encode_dictionary,
    expand_runs,
    rank_distinct,
    search_sorted,
    skip_check,
)
from omnigraph.engine.operators.join_matches import (
    EqualCodes,
    JoinMatches,
    RankRange,
    RunMatches,
    UnionMatches,
    iter_overlaps,
)
from omnigraph.engine.operators.multiplicity import multiply_counts
from omnigraph.engine.operators.rank_index import RankIndex
from omnigraph.engine.operators.text_parts import find_parts, find_prefixes
from omnigraph.engine.physical_plan import Membership
from omnigraph.engine.query_budget import Budget
from omnigraph.query.expr import Op
from omnigraph.storage.arrow_buffers import fill_nulls, is_valid, read_numbers

Ints = NDArray[np.int64]
# Codes up to this many times the number of keys are looked up in a table by code; sparser ones are searched. Whole
# numbers that lie so close together are codes already.
_MAX_CODES_PER_KEY = 4
# This many keys are sorted before they are searched: for a million of a million, 110 ms instead of 210 ms.
_MIN_SORTED_KEYS = 1 << 16


def build_product(left: Bindings, right: Bindings, budget: Budget) -> Bindings:
    """Return the cross product: every row of one side with every row of the other."""
    size = left.size * right.size
    nbytes = size * 8 * (len(left.columns) + len(right.columns) + 1)
    budget.claim(nbytes, "a product of two parts of the pattern")
    columns: dict[str, Positions] = {}
    for name, column in left.columns.items():
        columns[name] = np.repeat(column, right.size)
        budget.check()
    for name, column in right.columns.items():
        columns[name] = np.tile(column, left.size)
        budget.check()
    multiplicity = multiply_counts(
        None if left.multiplicity is None else np.repeat(left.multiplicity, right.size),
        None if right.multiplicity is None else np.tile(right.multiplicity, left.size),
    )
    budget.release(nbytes)
    return Bindings(columns, size, multiplicity)


@dataclass(frozen=True, slots=True)
class ComparedKeys:
    """The values of a comparison of two sides, of the same type; for an order, one that can be sorted."""

    left: pa.Array
    op: Op
    right: pa.Array


@dataclass(frozen=True, slots=True)
class MemberKeys:
    """The values of a membership: texts and parts, or elements of lists, each with its row, and single values."""

    whole: pa.Array
    kind: Membership
    part: pa.Array
    is_whole_left: bool
    element_rows: Ints | None = None


@dataclass(frozen=True, slots=True)
class _Entries:
    """The keys of one side, each with its row; a row has several if it matches what has one of several values.

    `rows` is None if every row has one key. A code of -1 matches nothing.
    """

    codes: Ints
    rows: Ints | None = None

    def spread(self, values: Ints) -> Ints:
        """Return what each row has, for each key."""
        return values if self.rows is None else values[self.rows]


def match_keys(
    comparisons: Sequence[ComparedKeys],
    member: MemberKeys | None,
    sizes: tuple[int, int],
    check: Check = skip_check,
) -> RunMatches:
    """Find the rows of two sides, of these sizes, for which all conditions hold; null never matches.

    At most two comparisons are no equality, and the second of them is no `!=`. `check` is called between parts.
    """
    left, right = _Entries(np.zeros(sizes[0], np.int64)), _Entries(np.zeros(sizes[1], np.int64))
    if member is not None:
        left, right = _match_members(member, check)
    for keys in (keys for keys in comparisons if keys.op is Op.EQ):
        left, right = _combine(left, right, _encode_keys(keys, check, has_order=False))
    others = [keys for keys in comparisons if keys.op is not Op.EQ]
    ranks = [_encode_keys(keys, check, has_order=keys.op is not Op.NE) for keys in others]
    for codes in ranks:
        # What has no rank matches nothing.
        left = _Entries(np.where(left.spread(codes.left) < 0, -1, left.codes), left.rows)
        right = _Entries(np.where(right.spread(codes.right) < 0, -1, right.codes), right.rows)
    matches = _match_runs(left, right, others[0].op if others else Op.EQ, ranks[0] if ranks else None, sizes[0], check)
    if len(others) < 2:
        return matches
    return _limit_ranks(matches, others[1].op, ranks[1], check)


def match_alternatives(alternatives: Sequence[ComparedKeys], sizes: tuple[int, int], check: Check) -> UnionMatches:
    """Find the rows for which one of several equalities holds."""
    codes = [_encode_keys(keys, check, has_order=False) for keys in alternatives]

    def match(numbers: Sequence[int]) -> RunMatches:
        left, right = _Entries(codes[numbers[0]].left), _Entries(codes[numbers[0]].right)
        for number in numbers[1:]:
            left, right = _combine(left, right, codes[number])
        return _match_runs(left, right, Op.EQ, None, sizes[0], check)

    overlaps = tuple(tuple(match(numbers) for numbers in combined) for combined in iter_overlaps(len(codes)))
    return UnionMatches(tuple(match([number]) for number in range(len(codes))), tuple(codes), overlaps)


def _match_runs(
    left: _Entries, right: _Entries, op: Op, ranks: EqualCodes | None, size: int, check: Check
) -> RunMatches:
    """Order the keys of the right side by code and rank, and find the run that each key of the left side matches."""
    scale = 1
    codes, right_codes = left.codes, right.codes
    if ranks is not None:
        scale = 1 + int(max(ranks.left.max(initial=0), ranks.right.max(initial=0)))
        if max(codes.max(initial=0), right_codes.max(initial=0)) >= 2**62 // scale:
            codes, right_codes = _renumber(codes, right_codes)
    is_null = codes < 0
    right_keys = right_codes * scale + (0 if ranks is None else right.spread(ranks.right))
    right_keys = np.where(right_codes < 0, -1, right_keys)
    order = argsort_stable(right_keys, check)
    ordered = right_keys[order]
    order = order if right.rows is None else right.rows[order]
    groups = _find_groups(codes, right_codes, ordered, scale, check)
    runs = [groups]
    if ranks is not None:
        below, above = _search_keys(ordered, codes * scale + left.spread(ranks.left), check)
        runs = _cut_groups(op, groups, below, above)
    rows = left.rows
    if len(runs) > 1:
        rows = np.repeat(np.arange(size) if rows is None else rows, len(runs))
    # One after the other for each key, so that the rows of the runs ascend.
    begins = np.stack([begin for begin, _ in runs], axis=1)
    counts = np.where(is_null[:, None], 0, np.stack([end - begin for begin, end in runs], axis=1))
    return RunMatches(order, begins.reshape(-1), counts.reshape(-1), size, rows)


def _find_groups(codes: Ints, right_codes: Ints, ordered: Ints, scale: int, check: Check) -> tuple[Ints, Ints]:
    """Return where the keys with each code begin and end among the ordered ones."""
    size = 1 + int(max(codes.max(initial=0), right_codes.max(initial=0)))
    if size > _MAX_CODES_PER_KEY * (len(codes) + len(right_codes)):
        bases = codes * scale
        return search_sorted(ordered, bases, "left", check), search_sorted(ordered, bases + scale - 1, "right", check)
    # A code is its own place in a table, which takes no search.
    is_key = right_codes >= 0
    counts = np.bincount(right_codes[is_key], minlength=size)
    ends = np.cumsum(counts) + (len(right_codes) - np.count_nonzero(is_key))
    return (ends - counts)[codes], ends[codes]


def _search_keys(ordered: Ints, keys: Ints, check: Check) -> tuple[Ints, Ints]:
    """Return where each key would be inserted before and after its equals."""
    if len(keys) < _MIN_SORTED_KEYS:
        return search_sorted(ordered, keys, "left", check), search_sorted(ordered, keys, "right", check)
    # Searching in order stays in the processor's cache.
    order = argsort_stable(keys, check)
    below, above = np.empty_like(keys), np.empty_like(keys)
    below[order] = search_sorted(ordered, keys[order], "left", check)
    above[order] = search_sorted(ordered, keys[order], "right", check)
    return below, above


def _cut_groups(op: Op, groups: tuple[Ints, Ints], below: Ints, above: Ints) -> list[tuple[Ints, Ints]]:
    """Return the runs of each group that compare with a key, which would be inserted between `below` and `above`."""
    begins, ends = groups
    match op:
        case Op.EQ:
            return [(below, above)]
        case Op.LT:
            return [(above, ends)]
        case Op.LE:
            return [(below, ends)]
        case Op.GT:
            return [(begins, below)]
        case Op.GE:
            return [(begins, above)]
        case Op.NE:
            # All of the group but the equal ones: what is before them, and what is after them.
            return [(begins, below), (above, ends)]
        case _:
            assert_never(op)


def _limit_ranks(matches: RunMatches, op: Op, codes: EqualCodes, check: Check) -> RunMatches:
    """Return those of the matches whose ranks by another value compare as well."""
    index = RankIndex(np.maximum(codes.right, 0)[matches.order], check)
    ranks = codes.left if matches.rows is None else codes.left[matches.rows]
    zeros = np.zeros_like(ranks)
    ends = np.full_like(ranks, 1 + int(codes.right.max(initial=0)))
    match op:
        case Op.LT:
            lows, highs = ranks + 1, ends
        case Op.LE:
            lows, highs = ranks, ends
        case Op.GT:
            lows, highs = zeros, ranks
        case Op.GE:
            lows, highs = zeros, ranks + 1
        case _:
            raise AssertionError(f"no range of ranks by `{op.value}`")
    limits = RankRange(index, np.minimum(lows, highs), highs)
    return RunMatches(matches.order, matches.begins, matches.counts, matches.size, matches.rows, limits)


def join(left: Bindings, right: Bindings, matches: JoinMatches, budget: Budget) -> Bindings:
    """Return the pairs of rows that match."""
    size = int(matches.count_candidates().sum())
    nbytes = size * 8 * (len(left.columns) + len(right.columns) + 2)
    budget.claim(nbytes, "a join of two parts of the pattern")
    rows, right_rows = matches.list_pairs(budget.check)
    budget.check()
    a = left.take(rows)
    budget.check()
    b = right.take(right_rows)
    budget.check()
    budget.release(nbytes)
    return Bindings({**a.columns, **b.columns}, len(rows), multiply_counts(a.multiplicity, b.multiplicity))


def semi_join(
    left: Bindings, right: Bindings, matches: JoinMatches, *, has_multiplicity: bool, check: Check = skip_check
) -> Bindings | None:
    """Return the rows of `left` that are in a pair; with `has_multiplicity`, each counts once per pair.

    Returns None if the pairs can't be counted without listing them, or a sum of multiplicities exceeds 64 bits.
    """
    sums = matches.count_candidates()
    if has_multiplicity:
        counted = matches.sum_pairs(right.multiplicity, check)
        if counted is None:
            return None
        sums = counted
    rows = left.take(sums > 0)
    multiplicity = multiply_counts(rows.multiplicity, sums[sums > 0]) if has_multiplicity else None
    return Bindings(rows.columns, rows.size, multiplicity)


# --- codes -------------------------------------------------------------------------------------------


def _encode_keys(keys: ComparedKeys, check: Check, *, has_order: bool) -> EqualCodes:
    """Return codes that are equal for equal values, with `has_order` in the order of the values, and -1 for null."""
    both = pa.concat_arrays([keys.left, keys.right])
    near = _shift_numbers(both)
    if near is not None:
        return EqualCodes(near[: len(keys.left)], near[len(keys.left) :])
    if pa.types.is_floating(both.type):
        # -0.0 becomes 0.0, which it equals.
        both = pc.add(both, pa.scalar(0.0, both.type))
    codes, distinct = encode_dictionary(both, check)
    numbers = fill_nulls(codes, -1).astype(np.int64)
    check()
    if has_order:
        # Null has the code -1, which indexes the last entry.
        ranks = np.full(len(distinct) + 1, -1, np.int64)
        ranks[:-1] = rank_distinct(distinct, check)
        numbers = ranks[numbers]
    return EqualCodes(numbers[: len(keys.left)], numbers[len(keys.left) :])


def _shift_numbers(values: pa.Array) -> Ints | None:
    """Return whole numbers or dates less the smallest of them, -1 for null; None if they are other or far apart."""
    is_whole = pa.types.is_signed_integer(values.type) or pa.types.is_date32(values.type)
    if not is_whole or values.null_count == len(values):
        return None
    bounds = pc.min_max(values.cast(pa.int32()) if pa.types.is_date32(values.type) else values)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if high - low > _MAX_CODES_PER_KEY * len(values):
        return None
    return np.where(is_valid(values), read_numbers(values).astype(np.int64) - low, -1)


def _combine(left: _Entries, right: _Entries, codes: EqualCodes) -> tuple[_Entries, _Entries]:
    """Return keys that are equal if the keys and these codes are."""
    scale = 1 + int(max(codes.left.max(initial=0), codes.right.max(initial=0)))
    mine, others = left.codes, right.codes
    if max(mine.max(initial=0), others.max(initial=0)) >= 2**62 // scale:
        mine, others = _renumber(mine, others)
    return _pack(left, mine, codes.left, scale), _pack(right, others, codes.right, scale)


def _pack(entries: _Entries, numbers: Ints, codes: Ints, scale: int) -> _Entries:
    spread = entries.spread(codes)
    return _Entries(np.where((numbers < 0) | (spread < 0), -1, numbers * scale + spread), entries.rows)


def _renumber(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Return the codes of both sides as numbers without gaps, and -1 as it was."""
    distinct, numbers = np.unique(np.concatenate([[-1], left, right]), return_inverse=True)
    assert len(distinct) < 2**31  # noqa: S101 - there are at most as many as rows
    return numbers[1 : len(left) + 1] - 1, numbers[len(left) + 1 :] - 1


def _match_members(member: MemberKeys, check: Check) -> tuple[_Entries, _Entries]:
    """Return the keys of both sides: one for each value, and for a list or text one for each value that it has."""
    if member.kind is Membership.ELEMENT:
        whole, part = _encode_elements(member, check)
    else:
        whole, part = _encode_parts(member, check)
    return (whole, part) if member.is_whole_left else (part, whole)


def _encode_elements(member: MemberKeys, check: Check) -> tuple[_Entries, _Entries]:
    assert member.element_rows is not None  # noqa: S101 - elements of lists have rows
    codes = _encode_keys(ComparedKeys(member.whole, Op.EQ, member.part), check, has_order=False)
    # An element that a list has twice makes one pair.
    return _deduplicate(member.element_rows.astype(np.int64, copy=False), codes.left), _Entries(codes.right)


def _encode_parts(member: MemberKeys, check: Check) -> tuple[_Entries, _Entries]:
    texts, whole_codes = _list_distinct(member.whole, check)
    parts, part_codes = _list_distinct(member.part, check)
    find = find_prefixes if member.kind is Membership.PREFIX else find_parts
    text_numbers, part_numbers = find(texts, parts, check)
    # Each row has the parts of its text: runs of the pairs, which are sorted by text.
    order = np.argsort(text_numbers, kind="stable")
    counts = np.bincount(text_numbers, minlength=len(texts) + 1)
    begins = np.cumsum(counts) - counts
    has_text = whole_codes >= 0
    row_counts = np.where(has_text, counts[whole_codes], 0)
    rows = np.repeat(np.arange(len(whole_codes)), row_counts)
    found = part_numbers[order[expand_runs(begins[whole_codes], row_counts)]]
    return _Entries(found, rows), _Entries(part_codes)


def _list_distinct(values: pa.Array, check: Check) -> tuple[pa.Array, Ints]:
    codes, distinct = encode_dictionary(values, check)
    return distinct, fill_nulls(codes, -1).astype(np.int64)


def _deduplicate(rows: Ints, codes: Ints) -> _Entries:
    """Return each combination of a row and a code once, without codes of null; rows ascend."""
    scale = 1 + int(codes.max(initial=0))
    keys = np.unique(rows[codes >= 0] * scale + codes[codes >= 0])
    return _Entries(keys % scale, keys // scale)
