"""Expand bindings along a hop to a variable that is not bound yet."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.engine.bindings import Bindings, Positions
from omnigraph.engine.operators.candidates import Candidates
from omnigraph.engine.operators.cycle_close import find_joined, intersect_lists
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
    sources = bindings.columns[step.source]
    neighbours = links.get_lists(sources)
    keep = step.keep if closing is None else closing[0].keep
    near = None if closing is None else bindings.columns[get_other_end(closing[0], step.node.variable)]
    with budget.scope():
        if closing is not None and near is not None and neighbours.edges is None:
            joined = intersect_lists((neighbours, sources), (closing[1].get_lists(near), near), budget)
            rows, targets, edges = joined.rows, joined.targets, None
        else:
            ranges = neighbours.locate(sources, budget)
            # Per neighbour its target, its row number and the columns, eight bytes each.
            nbytes = int(ranges.counts.sum()) * 8 * (2 + len(keep))
            budget.claim(nbytes, f"following {step.link.edge} to ${step.node.variable}")
            gathered = links.filter_edges(neighbours.gather_ranges(ranges, budget))
            rows, targets, edges = gathered.repeat_rows(), gathered.targets, gathered.edges
            if closing is not None and near is not None:
                is_joined = find_joined(closing[1].get_lists(near), near, gathered.counts, targets, budget)
                rows, targets, edges = rows[is_joined], targets[is_joined], None if edges is None else edges[is_joined]
        return _build_rows(step, bindings, candidates, (rows, targets, edges), keep, budget)


def _build_rows(
    step: Expand,
    bindings: Bindings,
    candidates: Candidates,
    found: tuple[NDArray[np.int64], Positions, Positions | None],
    keep: tuple[str, ...],
    budget: Budget,
) -> Bindings:
    """Return the rows of the neighbours that pass: `found` are their row numbers, positions and edges."""
    rows, targets, edges = found
    multiplicity = bindings.multiplicity
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


def get_other_end(condition: Close, variable: str) -> str:
    """Return the variable at the other end of a condition."""
    return condition.source if condition.target == variable else condition.target


def bindings_nbytes(bindings: Bindings) -> int:
    """Return the memory of the columns and the multiplicity."""
    nbytes = sum(column.nbytes for column in bindings.columns.values())
    return int(nbytes + (0 if bindings.multiplicity is None else bindings.multiplicity.nbytes))
