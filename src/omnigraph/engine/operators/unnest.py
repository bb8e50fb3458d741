"""Unnest lists: one row for each element of a list that every row has."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.operators.filter import BindingValues
from omnigraph.engine.operators.multiplicity import multiply_counts
from omnigraph.engine.physical_plan import Unnest
from omnigraph.engine.predicate_eval import evaluate_over
from omnigraph.engine.scalar_eval import OverflowLog
from omnigraph.engine.value_store import NO_POSITION, to_stored_type
from omnigraph.query.expr import ArrayOf
from omnigraph.query.expr_tree import find_variables
from omnigraph.schema.types import ListOf
from omnigraph.storage.arrow_buffers import fill_nulls, is_valid
from omnigraph.storage.columnar_sets import concat_chunks

Ints = NDArray[np.int64]
# A row takes this much in every column while it is built: the column before and after.
_BYTES_PER_VALUE = 16


@dataclass(frozen=True, slots=True)
class SharedElements:
    """The elements of a list that is the same for all rows: their bindings, which rows repeat."""

    elements: Ints
    size: int
    log: OverflowLog


def unnest(
    step: Unnest,
    bindings: Bindings,
    context: ExecutionContext,
    shared: SharedElements | None,
    *,
    has_multiplicity: bool,
) -> Bindings:
    """Return a row for each element of the list in each row, in the order of the lists.

    A list in which an integer overflows has one element, which is unknown: no condition on it is true, and to read it
    otherwise is an error. `shared` are the elements if the list reads no variable: see `bind_shared`.
    """
    log = OverflowLog() if shared is None else shared.log
    overflowed: NDArray[np.bool_] | None = None
    if shared is not None:
        counts = np.full(bindings.size, shared.size, np.int64)
        lists = None
    else:
        lists, log = _evaluate(step, bindings, context)
        counts = np.where(is_valid(lists), np.diff(lists.offsets.to_numpy()), 0).astype(np.int64)
        overflowed = _find_overflowed(log, bindings.size)
    if step.element is None and step.position is None:
        if step.is_test:
            return bindings.take(counts > 0)
        # How many elements there are is read, and nothing else.
        log.check()
        if has_multiplicity:
            return _multiply(bindings, counts)
    if overflowed is not None:
        counts = np.where(overflowed, 1, counts)
    total = int(counts.sum())
    claim = total * _BYTES_PER_VALUE * (len(bindings.columns) + 2)
    context.budget.claim(claim, f"{total:,} elements of ${step.variable}")
    result = bindings.take(np.repeat(np.arange(bindings.size), counts))
    if step.element is not None:
        if shared is not None:
            elements = np.tile(shared.elements, bindings.size)
        else:
            assert lists is not None  # noqa: S101 - without shared elements every row has a list
            elements = _bind_elements_of(step, lists, counts, overflowed, context, log)
        result = result.with_column(step.element, elements)
    if step.position is not None:
        # The place of each element in its own list.
        starts = np.repeat(np.cumsum(counts) - counts, counts)
        places = pa.array(np.arange(total) - starts, pa.int64())
        indices = context.values.append(step.position, places, context.budget)
        if log.mask is not None:
            is_unknown = np.repeat(np.broadcast_to(log.mask, bindings.size), counts)
            context.values.mark_overflow(step.position, indices[is_unknown], log.text)
        result = result.with_column(step.position, indices)
    context.budget.release(claim)
    return result


def bind_shared(step: Unnest, context: ExecutionContext) -> SharedElements | None:
    """Return the elements of a list that reads no variable, bound once; None if it reads one."""
    if find_variables(step.value):
        return None
    lists, log = _evaluate(step, Bindings({}, 1), context)
    overflowed = _find_overflowed(log, 1)
    counts = np.array([len(lists.flatten()) if overflowed is None else 1])
    if step.element is None:
        return SharedElements(np.zeros(0, np.int64), int(counts[0]), log)
    return SharedElements(_bind_elements_of(step, lists, counts, overflowed, context, log), int(counts[0]), log)


def bind_elements(step: Unnest, elements: pa.Array, context: ExecutionContext) -> Ints:
    """Return what the bindings hold for elements: positions of nodes and edges, indices of other values."""
    if step.is_entity:
        return fill_nulls(elements, NO_POSITION).astype(np.int64, copy=False)
    assert isinstance(step.value.type, ListOf | ArrayOf)  # noqa: S101 - the logical plan checks it
    type_ = to_stored_type(step.value.type.element)
    stored = elements if elements.type == type_ else elements.cast(type_)
    return context.values.append(step.variable, stored, context.budget)


def _bind_elements_of(
    step: Unnest,
    lists: pa.Array,
    counts: Ints,
    overflowed: NDArray[np.bool_] | None,
    context: ExecutionContext,
    log: OverflowLog,
) -> Ints:
    """Return what the bindings hold for the elements of all lists; those that are unknown are marked."""
    elements = lists.flatten()
    if overflowed is None:
        return bind_elements(step, elements, context)
    is_unknown = np.repeat(overflowed, counts)
    # The elements that are known come in the order of the lists; a null stands for each of the others.
    places = pa.array(np.cumsum(~is_unknown) - 1, pa.int64(), mask=is_unknown)
    bound = bind_elements(step, elements.take(places), context)
    context.values.mark_overflow(step.variable, bound[is_unknown], log.text)
    return bound


def _find_overflowed(log: OverflowLog, size: int) -> NDArray[np.bool_] | None:
    return None if log.mask is None else np.broadcast_to(log.mask, size)


def _evaluate(step: Unnest, bindings: Bindings, context: ExecutionContext) -> tuple[pa.Array, OverflowLog]:
    """Return the list of each row, and where an integer in it overflows."""
    log = OverflowLog()
    values = BindingValues(bindings.columns, bindings.size, dict(step.types), context)
    lists = concat_chunks(evaluate_over(step.value, values, context.inputs, log))
    # Offsets of 32 bits would not hold the elements of many long lists: rows come in chunks, so they don't get there.
    return (lists if pa.types.is_list(lists.type) else lists.cast(to_stored_type(step.value.type))), log


def _multiply(bindings: Bindings, counts: Ints) -> Bindings:
    has_element = counts > 0
    kept = bindings.take(has_element)
    return Bindings(kept.columns, kept.size, multiply_counts(kept.multiplicity, counts[has_element]))
