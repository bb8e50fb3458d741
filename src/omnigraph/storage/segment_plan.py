"""Which segments of an index are built and which go. Pure: decided by what each one covers.

A new segment covers the rows that no other does, and takes smaller segments in. So an index has few segments, and a
row is indexed again about once for every doubling of the table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_SEGMENT_RATIO = 2
"""A segment is taken in by a new one that has at least one row for so many of its own."""
MIN_KEPT_PER_LOST = 4
"""A segment that lost one row for so many that it still covers is built anew: what is lost stays in its files."""


@dataclass(frozen=True, slots=True)
class SegmentCoverage:
    """A segment, by its name, and the fragments it covers; `lost` rows of it were written anew elsewhere."""

    uuid: str
    fragments: frozenset[int]
    lost: int = 0


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """Fragments to build a segment of (none: no segment), and the segments that go."""

    build: tuple[int, ...] = ()
    replaced: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.build and not self.replaced


def plan_segments(rows: Mapping[int, int], segments: Sequence[SegmentCoverage], max_segments: int) -> SegmentPlan:
    """What makes the index complete, with at most `most` segments; `rows` are those of each fragment that there is."""
    there = {one.uuid: one.fragments & rows.keys() for one in segments}
    replaced = {uuid for uuid, fragments in there.items() if not fragments}
    replaced |= {a for a in there for b in there if a != b and there[a] & there[b]}  # else hits would come twice
    kept = [one for one in segments if one.uuid not in replaced]
    build = set(rows).difference(*(there[one.uuid] for one in kept))

    def size(fragments: set[int] | frozenset[int]) -> int:
        return sum(rows[number] for number in fragments)

    for one in sorted(kept, key=lambda segment: size(there[segment.uuid])):
        covered = size(there[one.uuid])
        is_outgrown = bool(build) and covered <= MAX_SEGMENT_RATIO * size(build)
        is_worn = covered <= MIN_KEPT_PER_LOST * one.lost
        are_too_many = len(segments) - len(replaced) + bool(build) > max(max_segments, 1)
        if is_outgrown or is_worn or are_too_many:
            build |= there[one.uuid]
            replaced.add(one.uuid)
    return SegmentPlan(tuple(sorted(build)), tuple(one.uuid for one in segments if one.uuid in replaced))
