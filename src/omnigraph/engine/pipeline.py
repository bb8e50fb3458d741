"""Steps one after the other, into a sink: a step that would make too many rows runs for parts of its input.

If the sink wants its rows in an order that the bound variables decide, parts come in that order, small ones first: when
the sink is full, all that would come behind is never made.
"""

from dataclasses import replace
from typing import Protocol

import numpy as np

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.chunking import (
    CumulativeRows,
    Sink,
    Truths,
    accumulate_even,
    accumulate_hops,
    find_chunk_end,
    slice_bindings,
    snap_to_run_start,
)
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.expand import Closing, bindings_nbytes
from omnigraph.engine.operators.join import JoinMatches
from omnigraph.engine.physical_plan import Close, Compact, Expand, Filter, Join, Link, Product, Step

_NO_ENDS = np.zeros(0, np.int64)


class StepRunner(Protocol):
    """What runs single steps, and keeps what they share."""

    context: ExecutionContext
    chunk_rows: int
    solved_sides: dict[int, Bindings]
    """By number of a product or join, its other side."""
    last_match: tuple[Join, Bindings, JoinMatches] | None
    """What a join has found out about rows that it is about to take."""

    def run_step(self, step: Step, bindings: Bindings, closing: Closing | None, *, has_multiplicity: bool) -> Bindings:
        """Run one step."""

    def find_closing(self, step: Step, then: tuple[Step, ...]) -> Closing | None:
        """The condition behind a hop that can be asked together with it."""

    def solve_other_side(self, step: Product | Join, *, has_multiplicity: bool) -> Bindings:
        """The other side, solved once."""

    def semi_join(self, step: Join, bindings: Bindings, *, has_multiplicity: bool) -> Bindings | None:
        """The rows that a join pairs, each once, with the number of their pairs."""

    def match_join(self, step: Join, bindings: Bindings, *, has_multiplicity: bool) -> JoinMatches:
        """Which rows of the two sides a join puts together."""

    def get_edge_access(self, link: Link) -> EdgeAccess:
        """The edges of a hop."""


class Pipeline:
    """Brings the matches of some steps into one sink."""

    def __init__(self, steps: StepRunner, sink: Sink, *, has_multiplicity: bool) -> None:
        self._runner, self._sink, self._has_multiplicity = steps, sink, has_multiplicity
        self._budget, self._chunk_rows = steps.context.budget, steps.chunk_rows

    def run(
        self, steps: tuple[Step, ...], bindings: Bindings, *, is_sorted: bool | None = None, is_whole: bool = True
    ) -> None:
        """Run steps over rows, which stay the caller's, and hand over what they make.

        `is_sorted`: whether these rows are a part, and parts come in the order of the sink; None: they are no part.
        `is_whole`: whether no other part has rows that are equal to some of these in what the sink looks at.
        """
        is_own, place = False, 0
        while place < len(steps):
            step = steps[place]
            paired = self._try_semi_join(steps[place : place + 2], bindings, is_part=is_sorted is not None)
            ends = _NO_ENDS if paired is not None else self._sum_output_rows(step, bindings)
            if self._is_large(step, bindings, ends, is_sorted=is_sorted):
                self._split(steps[place:], bindings, ends, is_sorted=is_sorted, is_whole=is_whole)
                self._budget.release(bindings_nbytes(bindings) if is_own else 0)
                return
            closing = self._runner.find_closing(step, steps[place + 1 : place + 2])
            if self._sink.is_deduplicating and is_sorted is not None and step is steps[-1] and _is_costly(step):
                made = _drop_columns(step, bindings)
            else:
                made = (
                    self._runner.run_step(step, bindings, closing, has_multiplicity=self._has_multiplicity)
                    if paired is None
                    else paired
                )
            place += 1 if closing is None else 2
            self._budget.claim(bindings_nbytes(made), "the matches of the pattern")
            self._budget.release(bindings_nbytes(bindings) if is_own else 0)
            bindings, is_own = made, True
            if not bindings.size:
                return
        self._sink.add(bindings)

    def _try_semi_join(self, steps: tuple[Step, ...], bindings: Bindings, *, is_part: bool) -> Bindings | None:
        """The rows that a join pairs, each once, if nothing of the other side is read behind it: no pair is made.

        Or those of the other side, if only that is read.
        """
        if len(steps) < 2 or not isinstance(steps[0], Join) or not isinstance(steps[1], Compact):
            return None
        join, keep = steps[0], set(steps[1].keep)
        if keep <= bindings.columns.keys():
            return self._runner.semi_join(join, bindings, has_multiplicity=self._has_multiplicity)
        other = self._solve_other_side(join)
        if is_part or not keep <= other.columns.keys():
            return None
        self._runner.solved_sides[join.number] = bindings  # the two sides change places
        found = self._runner.semi_join(_swap_sides(join), other, has_multiplicity=self._has_multiplicity)
        self._runner.solved_sides[join.number] = other
        return found

    # --- whether to split ------------------------------------------------------------------------------

    def _sum_output_rows(self, step: Step, bindings: Bindings) -> CumulativeRows:
        """How many rows a step makes of the rows up to each one, about; empty where it can't be split."""
        if bindings.size < 2 or (isinstance(step, Product | Join) and not self._solve_other_side(step).size):
            return _NO_ENDS
        match step:
            case Expand():
                return accumulate_hops(self._runner.get_edge_access(step.link), bindings.columns[step.source])
            case Close() | Filter():
                return accumulate_even(bindings.size)
            case Product():
                return accumulate_even(bindings.size, self._solve_other_side(step).size)
            case Join():
                return np.cumsum(
                    self._runner.match_join(step, bindings, has_multiplicity=self._has_multiplicity).counts
                )
            case _:
                return _NO_ENDS

    def _is_large(self, step: Step, bindings: Bindings, ends: CumulativeRows, *, is_sorted: bool | None) -> bool:
        """Whether a step makes too many rows at once, or more than may be asked for."""
        if not len(ends) or ends[-1] > self._chunk_rows:
            return bool(len(ends))
        if is_sorted is False or ends[-1] <= self._sink.next_chunk_rows:
            return False
        return self._sink.has_leading_keys(bindings.columns) or self._has_order_of_other_side(step, bindings)

    def _has_order_of_other_side(self, step: Step, bindings: Bindings) -> bool:
        """Whether the order of the other side of a product or join is that of the sink."""
        if not isinstance(step, Product | Join) or self._sink.has_leading_keys(bindings.columns):
            return False
        other = self._solve_other_side(step)
        return other.size > 1 and self._sink.has_leading_keys(other.columns)

    def _solve_other_side(self, step: Product | Join) -> Bindings:
        return self._runner.solve_other_side(step, has_multiplicity=self._has_multiplicity)

    # --- parts -----------------------------------------------------------------------------------------

    def _split(
        self,
        steps: tuple[Step, ...],
        bindings: Bindings,
        ends: CumulativeRows,
        *,
        is_sorted: bool | None,
        is_whole: bool,
    ) -> None:
        step = steps[0]
        if is_sorted is not None:
            self._run_chunks(steps, bindings, ends, is_sorted=is_sorted, is_whole=is_whole)
            return
        shorter = self._prune_sides(steps, bindings)
        if shorter is not None:
            self.run(steps, shorter)
        elif isinstance(step, Product | Join) and self._has_order_of_other_side(step, bindings):
            other = self._solve_other_side(step)
            turned = step if isinstance(step, Product) else _swap_sides(step)
            self._runner.solved_sides[step.number] = bindings  # the two sides change places
            self._run_chunks((turned, *steps[1:]), other, self._sum_output_rows(turned, other), is_sorted=True)
            self._runner.solved_sides[step.number] = other
        else:
            self._run_chunks(steps, bindings, ends, is_sorted=self._sink.has_leading_keys(bindings.columns))

    def _prune_sides(self, steps: tuple[Step, ...], bindings: Bindings) -> Bindings | None:
        """If nothing but products is left: what is needed of these rows and of the other sides; None: all of them."""
        products = [step for step in steps if isinstance(step, Product)]
        if len(products) < len(steps):
            return None
        shorter = self._sink.prune(bindings)
        is_shorter = shorter is not bindings
        for step in products:
            other = self._solve_other_side(step)
            self._runner.solved_sides[step.number] = self._sink.prune(other)
            is_shorter = is_shorter or self._runner.solved_sides[step.number] is not other
        return shorter if is_shorter else None

    def _run_chunks(
        self,
        steps: tuple[Step, ...],
        bindings: Bindings,
        ends: CumulativeRows,
        *,
        is_sorted: bool,
        is_whole: bool = True,
    ) -> None:
        """Run the steps for each part; led ones make the first rows first, and the rest goes when there are enough."""
        step, sink = steps[0], self._sink
        found = (
            self._runner.match_join(step, bindings, has_multiplicity=self._has_multiplicity)
            if isinstance(step, Join)
            else None
        )
        is_new: Truths | None = None
        needed = bindings_nbytes(bindings) + 4 * ends.nbytes if is_sorted else ends.nbytes
        self._budget.claim(needed, f"taking {bindings.size:,} rows in parts")
        if is_sorted:
            rows, is_new = sink.sort_by_leading_keys(bindings)
            bindings, ends = bindings.take(rows), np.cumsum(np.diff(ends, prepend=0)[rows])
            found = None if found is None else found.select(rows)
        begin, since, is_start = 0, sink.rows_received, True
        while begin < bindings.size and not sink.is_done:
            end = find_chunk_end(ends, begin, sink.next_chunk_rows if is_sorted else self._chunk_rows)
            end = end if is_new is None else snap_to_run_start(end, begin, is_new)
            part = slice_bindings(bindings, begin, end)
            if found is not None and isinstance(step, Join):
                self._runner.last_match = (step, part, found.select(slice(begin, end)))
            is_end = end == bindings.size or (is_new is not None and bool(is_new[end]))
            self.run(steps, part, is_sorted=is_sorted, is_whole=is_whole and is_sorted and is_start and is_end)
            sink.end_chunk(is_complete=is_whole and is_sorted and is_end)
            if is_sorted and is_end and sink.is_full(since):
                break
            begin, is_start = end, is_end
        self._budget.release(needed)


def _swap_sides(step: Join) -> Join:
    """The same join, seen from its other side."""
    return replace(step, left=step.right, op=step.op.mirrored, right=step.left)


def _is_costly(step: Step) -> bool:
    """Whether it is not worth its while when the same is done again behind it."""
    return isinstance(step, Compact) and len(step.keep) > 1


def _drop_columns(step: Step, bindings: Bindings) -> Bindings:
    """The columns that are kept, all rows."""
    keep = step.keep if isinstance(step, Compact) else ()
    return Bindings({name: bindings.columns[name] for name in keep}, bindings.size, bindings.multiplicity)
