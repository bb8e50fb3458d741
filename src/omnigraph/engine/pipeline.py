"""Run steps into a sink: a step that would produce too many rows runs for one chunk of its input after the other.

If the bound variables decide the leading sort keys of the sink, chunks follow that order and start small: once the sink
is full, the remaining chunks are skipped.
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
    concat_bindings,
    find_chunk_end,
    slice_bindings,
    snap_to_run_start,
)
from omnigraph.engine.operators.distinct import deduplicate
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.expand import Closing, bindings_nbytes
from omnigraph.engine.operators.join_matches import JoinMatches
from omnigraph.engine.physical_plan import (
    Close,
    Compact,
    Expand,
    Filter,
    Join,
    JoinComparison,
    LeftJoin,
    Link,
    Merge,
    Product,
    Step,
    UnionJoin,
    Unnest,
)
from omnigraph.query.expr import Identity, Op
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.logical_plan import GENERATED_PREFIX

_NO_ROW_SUMS = np.zeros(0, np.int64)
# Before a hop that lists at least this number of rows, and this number for each of its input, its input is merged.
# Merging costs as much as listing some ten rows for each; 6 million friends with 22 friends each are not merged.
MIN_HUB_ROWS = 4_000_000
MIN_HUB_FACTOR = 64


class StepRunner(Protocol):
    """Runs single steps, and caches what they share."""

    context: ExecutionContext
    chunk_rows: int
    solved_sides: dict[int, Bindings]
    """The matches of the other side of each product or join, by step number."""
    last_match: tuple[Join, Bindings, JoinMatches] | None
    """The matches of a join that were computed to plan its chunks."""

    def run_step(self, step: Step, bindings: Bindings, closing: Closing | None, *, has_multiplicity: bool) -> Bindings:
        """Run one step."""

    def reduce_lists(
        self, step: Expand, bindings: Bindings, closing: Closing | None, *, has_multiplicity: bool
    ) -> None:
        """Reduce the lists of a hop, and of the condition after it, to the neighbours that pass, if that pays off."""

    def find_closing(self, step: Step, then: tuple[Step, ...]) -> Closing | None:
        """Return the cycle-closing step after a hop if both can run as one, else None."""

    def solve_other_side(self, step: Product | Join, *, has_multiplicity: bool) -> Bindings:
        """Return the matches of the other side; they are solved once."""

    def semi_join(self, step: Join, bindings: Bindings, *, has_multiplicity: bool) -> Bindings | None:
        """Return the rows that have a partner in a join, each once, with the number of their pairs."""

    def match_join(self, step: Join, bindings: Bindings, *, has_multiplicity: bool) -> JoinMatches:
        """Return which rows of the two sides a join pairs."""

    def get_edge_access(self, link: Link) -> EdgeAccess:
        """Return the access to the edges of a hop."""


class Pipeline:
    """Runs steps and adds the matches to a sink."""

    def __init__(self, runner: StepRunner, sink: Sink, *, has_multiplicity: bool) -> None:
        self._runner = runner
        self._sink = sink
        self._has_multiplicity = has_multiplicity
        self._budget = runner.context.budget
        self._chunk_rows = runner.chunk_rows
        # The rows of the hop that is looked at: both whether it meets a hub and how it is cut depend on them.
        self._last_hop: tuple[Step, Bindings, CumulativeRows] | None = None

    def run(
        self, steps: tuple[Step, ...], bindings: Bindings, *, is_sorted: bool | None = None, is_whole: bool = True
    ) -> None:
        """Run steps over rows, whose memory stays the caller's, and add the results to the sink.

        `is_sorted` is None unless the rows are a chunk; then it tells whether chunks follow the order of the sink.
        `is_whole` tells whether no other chunk has rows that are equal to some of these in the leading sort keys.
        """
        is_claimed = False
        index = 0
        while index < len(steps):
            step = steps[index]
            if isinstance(step, Merge) and step.is_for_hubs and not self._meets_hub(steps[index + 1 :], bindings):
                index += 1
                continue
            hub = self._find_hub(steps[index : index + 2], bindings)
            if hub is not None:
                step = self._join_merged_ends(*hub, bindings)
                steps, index = (step, *steps[index + 2 :]), 0
            paired = self._try_semi_join(steps[index : index + 2], bindings, is_chunk=is_sorted is not None)
            closing = self._runner.find_closing(step, steps[index + 1 : index + 2])
            if isinstance(step, Expand):
                self._runner.reduce_lists(step, bindings, closing, has_multiplicity=self._has_multiplicity)
                # Shorter lists have fewer rows than were counted before.
                self._last_hop = self._last_hop if step.node.is_free else None
            row_sums = _NO_ROW_SUMS if paired is not None else self._sum_output_rows(step, bindings)
            self._last_hop = None
            if self._is_large(step, bindings, row_sums, is_sorted=is_sorted):
                self._split(steps[index:], bindings, row_sums, is_sorted=is_sorted, is_whole=is_whole)
                self._budget.release(bindings_nbytes(bindings) if is_claimed else 0)
                return
            if self._sink.is_deduplicating and is_sorted is not None and step is steps[-1] and _is_costly(step):
                # The sink deduplicates across chunks anyway, so doing it per chunk as well does not pay off.
                result = _drop_columns(step, bindings)
            elif paired is None:
                result = self._runner.run_step(step, bindings, closing, has_multiplicity=self._has_multiplicity)
            else:
                result = paired
            index += 1 if closing is None else 2
            # The new rows are claimed before the old ones are released, because both are in memory here.
            self._budget.claim(bindings_nbytes(result), "the matches of the pattern")
            self._budget.release(bindings_nbytes(bindings) if is_claimed else 0)
            bindings = result
            is_claimed = True
            if not bindings.size:
                return
        self._sink.add(bindings)

    def run_chunk(self, steps: tuple[Step, ...], chunk: Bindings) -> None:
        """Run steps over some of many rows, which come in no particular order."""
        nbytes = bindings_nbytes(chunk)
        self._budget.claim(nbytes, "the matches of the pattern")
        if not steps:
            # From here on it belongs to the sink.
            self._sink.add(chunk)
            return
        self.run(steps, chunk, is_sorted=False, is_whole=False)
        self._budget.release(nbytes)

    def _try_semi_join(self, steps: tuple[Step, ...], bindings: Bindings, *, is_chunk: bool) -> Bindings | None:
        """Return the rows that a join pairs, each once, if later steps read only one of its sides; else None.

        No pair is built. The rows are those of the side that is read.
        """
        if len(steps) < 2 or not isinstance(steps[0], Join) or not isinstance(steps[1], Compact):
            return None
        join, keep = steps[0], set(steps[1].keep)
        if keep <= bindings.columns.keys():
            return self._runner.semi_join(join, bindings, has_multiplicity=self._has_multiplicity)
        other = self._solve_other_side(join)
        # Only for the complete input: a row of the other side may have partners in several chunks.
        if is_chunk or not keep <= other.columns.keys():
            return None
        # Swap the two sides for this call: the runner takes the other side of a join from `solved_sides`.
        self._runner.solved_sides[join.number] = bindings
        rows = self._runner.semi_join(_swap_sides(join), other, has_multiplicity=self._has_multiplicity)
        self._runner.solved_sides[join.number] = other
        return rows

    # --- whether to split ------------------------------------------------------------------------------

    def _sum_output_rows(self, step: Step, bindings: Bindings) -> CumulativeRows:
        """Return the estimated output rows of a step for its input up to each row; empty if it can't be split."""
        if bindings.size < 2 or (isinstance(step, Product | Join) and not self._solve_other_side(step).size):
            return _NO_ROW_SUMS
        match step:
            case Expand():
                if self._last_hop is None or self._last_hop[0] is not step or self._last_hop[1] is not bindings:
                    access = self._runner.get_edge_access(step.link)
                    self._last_hop = step, bindings, accumulate_hops(access, bindings.columns[step.source])
                return self._last_hop[2]
            case Close() | Filter():
                return accumulate_even(bindings.size)
            case LeftJoin() | UnionJoin() | Unnest():
                # How many matches a row has is known only when the block is solved.
                return accumulate_even(bindings.size, max(step.fan_out, 1.0))
            case Product():
                return accumulate_even(bindings.size, self._solve_other_side(step).size)
            case Join():
                return np.cumsum(self._match_join(step, bindings).count_candidates())
            case _:
                return _NO_ROW_SUMS

    def _meets_hub(self, steps: tuple[Step, ...], bindings: Bindings) -> bool:
        """Return whether the hop that comes next lists far more rows than it starts from."""
        if not steps or not isinstance(steps[0], Expand):
            return False
        row_sums = self._sum_output_rows(steps[0], bindings)
        listed = int(row_sums[-1]) if len(row_sums) else 0
        return listed >= max(MIN_HUB_ROWS, MIN_HUB_FACTOR * bindings.size)

    def _find_hub(self, steps: tuple[Step, ...], bindings: Bindings) -> tuple[Expand, Merge] | None:
        """Return the last hop and the merge after it if the far ends of the hop should be merged before it."""
        match steps:
            case (Expand() as hop, Merge(is_for_hubs=True) as merge) if bindings.size:
                is_known = int(bindings.columns[hop.source].min()) >= 0
                return (hop, merge) if is_known and self._meets_hub(steps, bindings) else None
            case _:
                return None

    def _join_merged_ends(self, hop: Expand, merge: Merge, bindings: Bindings) -> Join:
        """Return a join in place of a hop: its other side has one row for equal far ends of each node it starts from.

        So a hub is followed once, and not for each of the rows that lead to it.
        """
        fresh = {hop.node.variable, hop.link.edge_variable}
        origin = merge.values[0].origin
        own = Identity(variable=hop.source, origin=origin)
        hop = replace(hop, keep=(hop.source, *(name for name in hop.keep if name in fresh)))
        ends = tuple(value for value in merge.values if fresh.intersection(find_variables(value)))
        merge = replace(merge, values=(own, *ends))
        nodes = deduplicate(bindings.columns[hop.source])
        sources = Bindings(
            {hop.source: nodes}, len(nodes), np.ones(len(nodes), np.int64) if merge.has_multiplicity else None
        )
        row_sums = accumulate_hops(self._runner.get_edge_access(hop.link), nodes)
        parts: list[Bindings] = []
        start = 0
        while start < len(nodes):
            end = find_chunk_end(row_sums, start, self._chunk_rows)
            listed = slice_bindings(sources, start, end)
            for step in (hop, merge):
                listed = self._runner.run_step(step, listed, None, has_multiplicity=self._has_multiplicity)
            parts.append(listed)
            start = end
        pairs = concat_bindings(parts)
        other = f"{GENERATED_PREFIX}{hop.source}"
        columns = {other if name == hop.source else name: column for name, column in pairs.columns.items()}
        is_same = JoinComparison(own, Op.EQ, replace(own, variable=other))
        types = dict(merge.types)
        self._runner.solved_sides[hop.number] = Bindings(columns, pairs.size, pairs.multiplicity)
        return Join(
            number=hop.number,
            conditions=(is_same,),
            types=((hop.source, types[hop.source]), (other, types[hop.source])),
            steps=(),
            rows=hop.rows,
        )

    def _is_large(self, step: Step, bindings: Bindings, row_sums: CumulativeRows, *, is_sorted: bool | None) -> bool:
        """Return whether to run a step in chunks: it produces too many rows, or more than the sink may need."""
        if not len(row_sums) or row_sums[-1] > self._chunk_rows:
            return bool(len(row_sums))
        if is_sorted is False or row_sums[-1] <= self._sink.next_chunk_rows:
            return False
        # Small chunks only pay off if they arrive in the order of the sink, which may then be full early.
        return self._sink.has_leading_keys(bindings.columns) or self._has_order_of_other_side(step, bindings)

    def _has_order_of_other_side(self, step: Step, bindings: Bindings) -> bool:
        """Return whether the other side of a product or join, and not this one, has the leading sort keys."""
        if not isinstance(step, Product | Join) or self._sink.has_leading_keys(bindings.columns):
            return False
        other = self._solve_other_side(step)
        return other.size > 1 and self._sink.has_leading_keys(other.columns)

    def _solve_other_side(self, step: Product | Join) -> Bindings:
        return self._runner.solve_other_side(step, has_multiplicity=self._has_multiplicity)

    def _match_join(self, step: Join, bindings: Bindings) -> JoinMatches:
        return self._runner.match_join(step, bindings, has_multiplicity=self._has_multiplicity)

    # --- chunks ----------------------------------------------------------------------------------------

    def _split(
        self,
        steps: tuple[Step, ...],
        bindings: Bindings,
        row_sums: CumulativeRows,
        *,
        is_sorted: bool | None,
        is_whole: bool,
    ) -> None:
        step = steps[0]
        # Rows that are a chunk already stay in its order: sides are only pruned or swapped for the complete input.
        if is_sorted is not None:
            self._run_chunks(steps, bindings, row_sums, is_sorted=is_sorted, is_whole=is_whole)
            return
        pruned = self._prune_sides(steps, bindings)
        if pruned is not None:
            self.run(steps, pruned)
        elif isinstance(step, Product | Join) and self._has_order_of_other_side(step, bindings):
            # Swap the two sides while the chunks run, so that they follow the side that has the sort keys.
            other = self._solve_other_side(step)
            swapped = step if isinstance(step, Product) else _swap_sides(step)
            self._runner.solved_sides[step.number] = bindings
            self._run_chunks((swapped, *steps[1:]), other, self._sum_output_rows(swapped, other), is_sorted=True)
            self._runner.solved_sides[step.number] = other
        else:
            self._run_chunks(steps, bindings, row_sums, is_sorted=self._sink.has_leading_keys(bindings.columns))

    def _prune_sides(self, steps: tuple[Step, ...], bindings: Bindings) -> Bindings | None:
        """Prune all sides if only products are left; return these rows pruned, or None if no side got shorter."""
        products = [step for step in steps if isinstance(step, Product)]
        if len(products) < len(steps):
            return None
        pruned = self._sink.prune(bindings)
        is_pruned = pruned is not bindings
        for step in products:
            other = self._solve_other_side(step)
            self._runner.solved_sides[step.number] = self._sink.prune(other)
            is_pruned = is_pruned or self._runner.solved_sides[step.number] is not other
        return pruned if is_pruned else None

    def _run_chunks(
        self,
        steps: tuple[Step, ...],
        bindings: Bindings,
        row_sums: CumulativeRows,
        *,
        is_sorted: bool,
        is_whole: bool = True,
    ) -> None:
        """Run the steps for each chunk; sorted chunks produce the first rows first and stop when the sink is full."""
        step = steps[0]
        sink = self._sink
        matches = self._match_join(step, bindings) if isinstance(step, Join) else None
        is_run_start: Truths | None = None
        # Sorting takes a copy of the rows, and about four work arrays as long as the sums.
        nbytes = bindings_nbytes(bindings) + 4 * row_sums.nbytes if is_sorted else row_sums.nbytes
        self._budget.claim(nbytes, f"taking {bindings.size:,} rows in parts")
        if is_sorted:
            rows, is_run_start = sink.sort_by_leading_keys(bindings)
            bindings = bindings.take(rows)
            row_sums = np.cumsum(np.diff(row_sums, prepend=0)[rows])
            matches = None if matches is None else matches.select(rows)
        start = 0
        rows_before = sink.rows_received
        starts_run = True
        while start < bindings.size and not sink.is_done:
            end = find_chunk_end(row_sums, start, sink.next_chunk_rows if is_sorted else self._chunk_rows)
            end = end if is_run_start is None else snap_to_run_start(end, start, is_run_start)
            chunk = slice_bindings(bindings, start, end)
            if matches is not None and isinstance(step, Join):
                # Keyed by identity, so that `match_join` does not compute them again for this chunk.
                self._runner.last_match = (step, chunk, matches.select(slice(start, end)))
            ends_run = end == bindings.size or (is_run_start is not None and bool(is_run_start[end]))
            self.run(steps, chunk, is_sorted=is_sorted, is_whole=is_whole and is_sorted and starts_run and ends_run)
            sink.end_chunk(is_complete=is_whole and is_sorted and ends_run)
            # Within a run of equal keys a later row may still precede these, so only a complete run can fill the sink.
            if is_sorted and ends_run and sink.is_full(rows_before):
                break
            start = end
            starts_run = ends_run
        self._budget.release(nbytes)


def _swap_sides(step: Join) -> Join:
    """Return the same join with its sides swapped."""
    return replace(step, conditions=tuple(condition.swap() for condition in step.conditions))


def _is_costly(step: Step) -> bool:
    """Return whether a step deduplicates over several columns, which costs more than it saves before a sink does it."""
    return isinstance(step, Compact) and len(step.keep) > 1


def _drop_columns(step: Step, bindings: Bindings) -> Bindings:
    """Return all rows with only the columns that the step keeps."""
    keep = step.keep if isinstance(step, Compact) else ()
    return Bindings({name: bindings.columns[name] for name in keep}, bindings.size, bindings.multiplicity)
