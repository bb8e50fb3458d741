"""Select the rows of a result: those that `having` keeps, and the page of all or of each group that LIMIT asks for."""

from collections.abc import Sequence

import numpy as np

from omnigraph.engine.kernels import argsort_stable
from omnigraph.engine.operators.filter import to_mask
from omnigraph.engine.output.distinct import group_rows
from omnigraph.engine.output.projection import Frame, FrameValues, Rows
from omnigraph.engine.output.sort import SortKey, sort_page, sort_rows
from omnigraph.engine.predicate_eval import evaluate_over
from omnigraph.query.logical_plan import ReadQuery


def filter_having(frame: Frame, query: ReadQuery) -> Frame:
    """Return the rows, or groups, for which `having` is true; unknown counts as false."""
    if query.having is None or not frame.size:
        return frame
    mask = to_mask(evaluate_over(query.having, FrameValues(frame, None), frame.context.inputs))
    return frame if mask.all() else frame.take(np.flatnonzero(mask))


def select_page(frame: Frame, query: ReadQuery, keys: Sequence[SortKey], first: int, last: int | None) -> Rows:
    """Return the row numbers from `first` to before `last`, in order; with `per`, those of each group.

    The rows of several groups stay in the order of the keys.
    """
    if not query.per:
        return sort_page(frame, keys, first, last)
    rows = sort_rows(frame, keys, None)
    row_groups = group_rows(frame, query.per).row_groups[rows]
    # A stable sort by group keeps the order of the keys within each.
    order = argsort_stable(row_groups, frame.context.budget.check)
    sorted_groups = row_groups[order]
    places = np.empty(len(rows), np.int64)
    places[order] = np.arange(len(rows)) - np.searchsorted(sorted_groups, sorted_groups)
    is_kept = places >= first
    if last is not None:
        is_kept &= places < last
    return rows[is_kept]
