"""Expand bindings along a hop to a variable that is not bound yet."""

import numpy as np

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.kernels import argsort_stable, search_sorted
from omnigraph.engine.operators.candidates import Candidates
from omnigraph.engine.operators.cycle_close import find_joined_neighbours, is_ascending, should_mark
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.multiplicity import multiply_counts
from omnigraph.engine.physical_plan import Close, Expand
from omnigraph.engine.query_budget import Budget

# A condition that closes a cycle at the new variable, and its edges, read towards that variable.
Closing = tuple[Close, EdgeAccess]


def expand(
    step: Expand,
    bindings: Bindings,
    links: EdgeAccess,
    candidates: Candidates,
    budget: Budget,
    closing: Closing | None = None,
) -> Bindings:
    """Return one row per row and neighbour that passes; `closing` drops the neighbours that it does not join."""
    if closing is not None:
        bindings = _sort_by_other_end(step, closing, bindings, links, budget)
    sources = bindings.columns[step.source]
    neighbours = links.get_lists(sources)
    keep = step.keep if closing is None else closing[0].keep
    # Per neighbour its target, its row number and the columns, eight bytes each.
    nbytes = int(neighbours.count_neighbours(sources).sum()) * 8 * (2 + len(keep))
    budget.claim(nbytes, f"following {step.link.edge} to ${step.node.variable}")
    gathered = links.filter_edges(neighbours.gather(sources))
    budget.check()
    targets, edges = gathered.targets, gathered.edges
    multiplicity = bindings.multiplicity
    if closing is None:
        rows = gathered.repeat_rows()
    else:
        near = bindings.columns[_get_other_end(closing[0], step.node.variable)]
        joined = np.flatnonzero(find_joined_neighbours(near, gathered, closing[1], budget))
        # Row numbers of the joined neighbours only: repeating them for all would build what the condition drops.
        rows = search_sorted(np.cumsum(gathered.counts), joined, "right", budget.check)
        targets, edges = targets[joined], None if edges is None else edges[joined]
    budget.check()
    counts = candidates.count_matches(targets)
    budget.check()
    if counts is not None:
        mask = counts if counts.dtype == np.bool_ else counts > 0
        rows, targets, edges = rows[mask], targets[mask], None if edges is None else edges[mask]
        match_counts = None if counts.dtype == np.bool_ else counts[mask].astype(np.int64, copy=False)
        multiplicity = multiply_counts(None if multiplicity is None else multiplicity[rows], match_counts)
    elif multiplicity is not None:
        multiplicity = multiplicity[rows]
    columns = {}
    for variable in keep:
        budget.check()
        if variable == step.node.variable:
            columns[variable] = targets
        elif variable == step.link.edge_variable:
            assert edges is not None  # noqa: S101 - a hop whose edges are needed reads them
            columns[variable] = edges
        else:
            columns[variable] = bindings.columns[variable][rows]
    budget.release(nbytes)
    return Bindings(columns, len(rows), multiplicity)


def is_closed_by(step: Expand, condition: Close, links: EdgeAccess) -> bool:
    """Return whether a condition can filter the neighbours of a step before rows are built from them."""
    ends = {condition.source, condition.target}
    return (
        len(ends) == 2
        and step.node.variable in ends
        and not condition.link.reads_edges
        and not condition.link.is_multi
        and condition.link.walk is None
        and step.link.walk is None
        and links.is_in_memory
    )


def orient(condition: Close, variable: str, links: EdgeAccess) -> EdgeAccess:
    """Return the edges of a condition, read towards that variable."""
    return links if condition.target == variable else links.reverse()


def _sort_by_other_end(
    step: Expand, closing: Closing, bindings: Bindings, links: EdgeAccess, budget: Budget
) -> Bindings:
    """Sort the rows by the other end of the condition if enough neighbours are expected for a mark table to pay off."""
    near = bindings.columns[_get_other_end(closing[0], step.node.variable)]
    if not should_mark(bindings.size * links.link.fan_out, closing[1]) or is_ascending(near):
        return bindings
    return bindings.take(argsort_stable(near.astype(np.int64, copy=False), budget.check))


def _get_other_end(condition: Close, variable: str) -> str:
    return condition.source if condition.target == variable else condition.target


def bindings_nbytes(bindings: Bindings) -> int:
    """Return the memory of the columns and the multiplicity."""
    nbytes = sum(column.nbytes for column in bindings.columns.values())
    return int(nbytes + (0 if bindings.multiplicity is None else bindings.multiplicity.nbytes))
