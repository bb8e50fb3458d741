"""Run the steps of blocks: tests, optional and alternative patterns, values computed from matches, lists bound."""

from collections.abc import Iterable, Mapping
from typing import Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.block_join import Seeds, build_seeds, find_matching, join_matches, unite_matches
from omnigraph.engine.operators.expand import bindings_nbytes
from omnigraph.engine.operators.union_edges import convert_columns
from omnigraph.engine.operators.unnest import SharedElements, bind_shared, unnest
from omnigraph.engine.output.block_values import fold_block
from omnigraph.engine.output.distinct import encode_values, group_codes, group_rows
from omnigraph.engine.output.projection import Frame, normalize_zeros
from omnigraph.engine.physical_plan import (
    BindValue,
    BlockStep,
    Check,
    Close,
    Expand,
    LeftJoin,
    SemiJoin,
    Step,
    UnionJoin,
    Unnest,
)
from omnigraph.engine.scalar_eval import OverflowLog
from omnigraph.engine.value_store import to_stored_type
from omnigraph.query.expr import ExprType, Prop, ValueRef

_NO_ROWS = np.zeros(0, np.int64)


class RunSteps(Protocol):
    """Runs steps over rows and returns all rows that they produce."""

    def __call__(self, steps: tuple[Step, ...], bindings: Bindings, *, has_multiplicity: bool) -> Bindings:
        """Run the steps over the rows."""


class BlockSteps:
    """The blocks of one run; what is the same for all rows is solved once.

    Each block is solved for the distinct combinations of what it reads of the outer variables, their values or else
    their rows, then joined back to the rows: never row by row.
    """

    # `run_steps` is an argument of each call, since an attribute would make a cycle with the executor, which would keep
    # the arrays of the context until Python's garbage collector runs.

    def __init__(self, context: ExecutionContext) -> None:
        self._context = context
        # By step number the index of a value that is the same for all rows.
        self._single_values: dict[int, NDArray[np.int64]] = {}
        self._shared_elements: dict[int, SharedElements | None] = {}

    def close(self) -> None:
        """Drop all cached results."""
        self._single_values.clear()
        self._shared_elements.clear()

    def apply(self, step: BlockStep, bindings: Bindings, run_steps: RunSteps, *, has_multiplicity: bool) -> Bindings:
        """Run the step of a block over the rows and return those that it leaves or produces."""
        match step:
            case SemiJoin():
                return bindings.take(self._evaluate_test(step, bindings, run_steps))
            case LeftJoin():
                return self._left_join(step, bindings, run_steps, has_multiplicity=has_multiplicity)
            case UnionJoin():
                return self._union_join(step, bindings, run_steps)
            case BindValue():
                return self._bind_value(step, bindings, run_steps)
            case Unnest():
                shared = self._get_shared_elements(step)
                return unnest(step, bindings, self._context, shared, has_multiplicity=has_multiplicity)
            case _:
                assert_never(step)

    def test(self, step: SemiJoin, bindings: Bindings, run_steps: RunSteps) -> NDArray[np.bool_]:
        """Return which rows a test keeps, and profile it: a test of a single variable is not a separate step."""
        if self._context.profile is None:
            return self._evaluate_test(step, bindings, run_steps)
        with self._context.profile.measure(step.number) as actual:
            is_kept = self._evaluate_test(step, bindings, run_steps)
            actual.rows += int(np.count_nonzero(is_kept))
            actual.bytes += is_kept.nbytes
            return is_kept

    def _build_seeds(self, step: SemiJoin | LeftJoin | UnionJoin | BindValue, bindings: Bindings) -> Seeds:
        """Return the distinct combinations that a block is solved for: of the values it reads, or else of rows."""
        names = [name for name, _ in step.shared]
        for variable, values in step.outer_values:
            if variable in bindings.columns:
                bindings = self._merge_alike(bindings, variable, values, dict(step.shared))
        return build_seeds(bindings, names)

    def _solve(self, steps: tuple[Step, ...], seeds: Seeds, run_steps: RunSteps, *, has_multiplicity: bool) -> Bindings:
        """Return the matches of a block; a hop that starts at a node that is null has none."""
        bindings = seeds.bindings
        for name in find_hop_ends(steps) & bindings.columns.keys():
            column = bindings.columns[name]
            if len(column) and int(column.min()) < 0:
                bindings = bindings.take(column >= 0)
        return run_steps(steps, bindings, has_multiplicity=has_multiplicity)

    def _merge_alike(
        self, bindings: Bindings, variable: str, values: tuple[Prop | ValueRef, ...], types: Mapping[str, str]
    ) -> Bindings:
        """Return the rows with one position of a variable for all that have equal values."""
        if self._context.values.has_overflow(variable):
            # Its nulls differ: an error depends on which of them overflowed.
            return bindings
        column = bindings.columns[variable]
        nbytes = 4 * 8 * bindings.size
        self._context.budget.claim(nbytes, f"grouping the values of ${variable}")
        groups = group_rows(Frame(Bindings({variable: column}, bindings.size), types, self._context), values)
        merged = bindings
        if not groups.is_identity:
            merged = bindings.with_column(variable, column[groups.first][groups.row_groups])
        self._context.budget.release(nbytes)
        return merged

    def _evaluate_test(self, step: SemiJoin, bindings: Bindings, run_steps: RunSteps) -> NDArray[np.bool_]:
        seeds = self._build_seeds(step, bindings)
        # Whether there is a match is all that a test asks for, so equal matches need not be counted.
        matches = self._solve(step.steps, seeds, run_steps, has_multiplicity=False)
        has_match = find_matching(seeds, matches)
        self._context.budget.release(bindings_nbytes(matches))
        kept = ~has_match if step.is_anti else has_match
        return kept if seeds.row_numbers is None else kept[seeds.row_numbers]

    def _left_join(
        self, step: LeftJoin, bindings: Bindings, run_steps: RunSteps, *, has_multiplicity: bool
    ) -> Bindings:
        seeds = self._build_seeds(step, bindings)
        matches = self._solve(step.steps, seeds, run_steps, has_multiplicity=has_multiplicity)
        joined = join_matches(bindings, seeds, matches, step.binds, self._context.budget, is_outer=True)
        self._context.budget.release(bindings_nbytes(matches))
        return joined

    def _union_join(self, step: UnionJoin, bindings: Bindings, run_steps: RunSteps) -> Bindings:
        seeds = self._build_seeds(step, bindings)
        # A match of several alternatives is one match, so the alternatives are solved as sets.
        parts = [self._solve(steps, seeds, run_steps, has_multiplicity=False) for steps in step.alternatives]
        if any(step.conversions):
            converted = zip(parts, step.conversions, strict=True)
            parts = [convert_columns(part, conversions, self._context) for part, conversions in converted]
        for variable, type_ in step.elements:
            parts = self._merge_equal_elements(parts, variable, type_)
        matches = unite_matches(parts, step.variables, self._context.budget)
        joined = join_matches(bindings, seeds, matches, step.binds, self._context.budget, is_outer=False)
        self._context.budget.release(sum(map(bindings_nbytes, parts)))
        return joined

    def _merge_equal_elements(self, parts: list[Bindings], variable: str, type_: ExprType) -> list[Bindings]:
        """Return the matches with one index for all equal values of a variable: they are compared by their values."""
        columns = [part.columns.get(variable, _NO_ROWS) for part in parts]
        at = np.concatenate(columns).astype(np.int64, copy=False)
        nbytes = 3 * at.nbytes
        self._context.budget.claim(nbytes, f"comparing {len(at):,} elements of ${variable}")
        values = self._context.values.take(variable, at, to_stored_type(type_))
        groups = group_codes(encode_values(normalize_zeros(values)), self._context.budget.check)
        merged = np.split(at[groups.first][groups.row_groups], np.cumsum([len(column) for column in columns])[:-1])
        self._context.budget.release(nbytes)
        return [part.with_column(variable, own) if part.size else part for part, own in zip(parts, merged, strict=True)]

    def _bind_value(self, step: BindValue, bindings: Bindings, run_steps: RunSteps) -> Bindings:
        seeds = self._build_seeds(step, bindings)
        indices = self._single_values.get(step.number)
        if indices is None:
            matches = self._solve(step.steps, seeds, run_steps, has_multiplicity=step.has_multiplicity)
            log = OverflowLog()
            values = fold_block(step, matches, seeds.size, self._context, log)
            indices = self._context.values.append(step.block.variable, values, self._context.budget)
            if log.mask is not None:
                self._context.values.mark_overflow(step.block.variable, indices[log.mask], log.text)
            self._context.budget.release(bindings_nbytes(matches))
            if not step.shared:
                # The same for all rows, so later chunks need not solve it again.
                self._single_values[step.number] = indices
        return bindings.with_column(
            step.block.variable, indices if seeds.row_numbers is None else indices[seeds.row_numbers]
        )

    def _get_shared_elements(self, step: Unnest) -> SharedElements | None:
        # The same for all rows, so later chunks need not bind them again.
        if step.number not in self._shared_elements:
            self._shared_elements[step.number] = bind_shared(step, self._context)
        return self._shared_elements[step.number]


def find_hop_ends(steps: Iterable[Step]) -> set[str]:
    """Return the variables at which hops start, or that they connect, without those of blocks."""
    ends: set[str] = set()
    for step in steps:
        if isinstance(step, Expand):
            ends.add(step.source)
        elif isinstance(step, Close):
            ends |= {step.source, step.target}
        elif isinstance(step, Check):
            ends.add(step.node.variable)
    return ends
