"""The groups of matches that come part by part.

Rows with the same values become one row that counts as often. If the variables that are bound decide about a group key,
parts come so that none of their groups goes on behind them: such groups are folded at once, and of an order with a
limit only the first are kept.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import Reading
from omnigraph.engine.operators.chunking import nothing, put_together
from omnigraph.engine.operators.expand import held
from omnigraph.engine.operators.multiplicity import checked
from omnigraph.engine.output.aggregate import group
from omnigraph.engine.output.distinct import groups_of, merged_rows, read_columns
from omnigraph.engine.output.projection import Frame, Rows, frame_of
from omnigraph.engine.output.sort import keys_of, ordered_rows
from omnigraph.query.expr import Expr, variables
from omnigraph.query.logical_plan import Grouping, ReadQuery

_WORD = 8
SAMPLE, WINDOWS = 2_048, 4
"""How many rows are looked at together, and how often at the same distance."""
_STEP = 8


class KeptGroups:
    """What the groups of one query are made of. What is added has been claimed from the budget."""

    merges = True

    def __init__(
        self, query: ReadQuery, grouping: Grouping, reading: Reading, last: int | None, *, counts: bool, chunk_rows: int
    ) -> None:
        self._query, self._grouping, self._reading, self._last = query, grouping, reading, last
        self._counts, self.part_rows = counts, chunk_rows
        arguments = [one.argument for one in grouping.aggregates if one.argument is not None]
        self._exprs: list[Expr] = [*grouping.keys, *arguments]
        self._is_one_enough = not counts and not any(map(variables, self._exprs))
        self._parts: list[Bindings] = []
        self._size = self._merged = self.received = 0
        self._is_led = False
        self._folded: Frame | None = None

    # --- what comes in ----------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether nothing that comes makes a difference: one row is enough, and is there."""
        return self._is_one_enough and self._size > 0

    def is_full(self, since: int) -> bool:
        """Never: every match counts."""
        del since
        return False

    def add(self, found: Bindings) -> None:
        """More matches."""
        if not found.size:
            return
        self._parts.append(found)
        self._size += found.size
        self.received += found.size
        most = self.part_rows if self._is_led else self.part_rows // 4
        if self._size - self._merged > max(self._merged, most):
            self._merge()

    def ends_part(self, *, is_complete: bool) -> None:
        """A part has come; `is_complete`: with all rows of its groups."""
        if is_complete and self._size > self.part_rows // 4:
            self._fold()

    def found(self) -> Bindings | Frame:
        """The rows that groups are still to be made of; or the groups, if there are some already."""
        if self._folded is not None:
            if self._parts:
                self._fold()
            return self._folded
        if len(self._parts) > 1:
            self._merge()
        return self._parts[0] if self._parts else nothing(counts=self._counts)

    # --- which parts should come --------------------------------------------------------------------------

    def leads(self, bound: Collection[str]) -> bool:
        """Whether these variables decide about a group key."""
        return bool(self._lead(bound))

    def led(self, bindings: Bindings) -> tuple[Rows, NDArray[np.bool_]]:
        """The rows so that those which may meet in a group stand together, and where such a run starts."""
        self._is_led = True
        groups = groups_of(frame_of(self._query, bindings, self._reading), self._lead(bindings.columns))
        if groups.is_each:
            return groups.first, np.ones(bindings.size, np.bool_)
        rows = np.argsort(groups.of_row, kind="stable")
        return rows, np.diff(groups.of_row[rows], prepend=-1) != 0

    def foremost(self, side: Bindings) -> Bindings:
        """All of it: every match counts."""
        return side

    def _lead(self, bound: Collection[str]) -> list[Expr]:
        return [key for key in self._grouping.keys if (names := variables(key)) and set(names).issubset(bound)]

    # --- what is kept -------------------------------------------------------------------------------------

    def _whole(self) -> Bindings:
        if len(self._parts) > 1:
            budget, needed = self._reading.budget, sum(map(held, self._parts))
            budget.claim(needed, "the matches of the pattern")
            self._parts = [put_together(self._parts)]
            budget.release(needed)
        return self._parts[0]

    def _merge(self) -> None:
        """Rows whose values are equal become one, where many are."""
        whole, budget = self._whole(), self._reading.budget
        if not self._repeats(whole):
            self._merged = whole.size
            return
        needed = whole.size * _WORD * (len(whole.columns) + len(self._exprs) + 3)
        budget.claim(needed, f"comparing {whole.size:,} rows")
        kept = merged_rows(frame_of(self._query, whole, self._reading), self._exprs, counts=self._counts)
        budget.release(needed)
        budget.claim(held(kept), "the matches of the pattern")
        budget.release(held(whole))
        self._parts, self._size, self._merged = [kept], kept.size, kept.size

    def _repeats(self, whole: Bindings) -> bool:
        """Whether the rows have at most half as many values as there are rows, by some of them.

        Equal rows may stand close together or far apart, so rows are looked at from one next to the other up to as far
        apart as they are.
        """
        if whole.size < SAMPLE:
            return True
        frame, chance = frame_of(self._query, whole, self._reading), np.random.default_rng(whole.size)
        read_columns(frame, self._exprs)

        def distinct(start: int, stride: int) -> int:
            rows = start + np.arange(SAMPLE) * stride + chance.integers(0, stride, SAMPLE)
            return groups_of(frame.take(rows), self._exprs).count

        stride = 1
        while stride * SAMPLE * WINDOWS < whole.size:
            starts = chance.integers(0, whole.size - stride * SAMPLE, WINDOWS)
            if sum(distinct(int(start), stride) for start in starts) <= WINDOWS * _most(stride):
                return True
            stride *= _STEP
        return distinct(0, whole.size // SAMPLE) <= _most(whole.size // SAMPLE)

    def _fold(self) -> None:
        """Make groups of all rows that are there."""
        whole, budget = self._whole(), self._reading.budget
        needed = whole.size * _WORD * (len(self._exprs) + len(self._grouping.aggregates) + 3)
        budget.claim(needed, f"grouping {whole.size:,} rows")
        weight = checked(whole.weight) if self._counts else None
        frame = frame_of(self._query, Bindings(whole.columns, whole.size, weight), self._reading)
        found = group(frame, self._grouping)
        budget.release(needed + held(whole))
        self._parts, self._size, self._merged = [], 0, 0
        before = self._folded
        folded = found if before is None else _together([before, found])
        if self._last is not None and self._last < folded.size:
            folded = folded.take(ordered_rows(folded, keys_of(self._query), self._last))
        budget.claim(_bytes(folded), f"{folded.size:,} groups")
        budget.release(0 if before is None else _bytes(before))
        self._folded = folded


def _most(stride: int) -> float:
    """How many values `SAMPLE` rows have, one of every `stride`, if all of these rows have half as many as there are.

    Where `n` values are as frequent, about `SAMPLE ** 2 / 2n` rows of a sample repeat another's value.
    """
    return SAMPLE - SAMPLE / max(stride, 2)


def _together(frames: Sequence[Frame]) -> Frame:
    """The groups of several frames, which have none in common."""
    first = frames[0]
    bindings = put_together([frame.bindings for frame in frames])
    aggregates = {one: pa.concat_arrays([frame.aggregates[one] for frame in frames]) for one in first.aggregates}
    return replace(first, bindings=bindings, aggregates=aggregates)


def _bytes(frame: Frame) -> int:
    return held(frame.bindings) + sum(int(values.nbytes) for values in frame.aggregates.values())
