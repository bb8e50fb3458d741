"""Following a hop to a variable that is not bound yet."""

import numpy as np

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.kernels import argsort_stable, search_sorted
from omnigraph.engine.operators.candidates import Candidates
from omnigraph.engine.operators.cycle_close import find_joined_neighbours, is_ascending, should_mark
from omnigraph.engine.operators.edge_access import EdgeAccess
from omnigraph.engine.operators.multiplicity import multiply_counts
from omnigraph.engine.physical_plan import Close, Expand
from omnigraph.engine.query_budget import Budget

Closing = tuple[Close, EdgeAccess]
"""A condition on the new variable, and its hop, travelled from the other end."""


def expand(
    step: Expand,
    bindings: Bindings,
    links: EdgeAccess,
    candidates: Candidates,
    budget: Budget,
    closing: Closing | None = None,
) -> Bindings:
    """For each row and each neighbour that passes, one row; `closing` drops what it does not join."""
    if closing is not None:
        bindings = _sort_by_other_end(step, closing, bindings, links, budget)
    sources = bindings.columns[step.source]
    neighbours = links.get_lists(sources)
    keep = step.keep if closing is None else closing[0].keep
    expected = int(neighbours.count_neighbours(sources).sum()) * 8 * (2 + len(keep))
    budget.claim(expected, f"following {step.link.edge} to ${step.node.variable}")
    gathered = links.filter_edges(neighbours.gather(sources))
    budget.check()
    targets, edges, weight = gathered.targets, gathered.edges, bindings.multiplicity
    if closing is None:
        rows = gathered.repeat_rows()
    else:
        near = bindings.columns[_get_other_end(closing[0], step.node.variable)]
        places = np.flatnonzero(find_joined_neighbours(near, gathered, closing[1], budget))
        rows = search_sorted(np.cumsum(gathered.counts), places, "right", budget.check)
        targets, edges = targets[places], None if edges is None else edges[places]
    budget.check()
    weighed = candidates.count_matches(targets)
    budget.check()
    if weighed is not None:
        mask = weighed if weighed.dtype == np.bool_ else weighed > 0
        rows, targets, edges = rows[mask], targets[mask], None if edges is None else edges[mask]
        counted = None if weighed.dtype == np.bool_ else weighed[mask].astype(np.int64, copy=False)
        weight = multiply_counts(None if weight is None else weight[rows], counted)
    elif weight is not None:
        weight = weight[rows]
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
    budget.release(expected)
    return Bindings(columns, len(rows), weight)


def is_closed_by(step: Expand, condition: Close, links: EdgeAccess) -> bool:
    """Whether a condition can be asked of the neighbours before rows are made of them."""
    ends = {condition.source, condition.target}
    return (
        len(ends) == 2
        and step.node.variable in ends
        and not condition.link.reads_edges
        and not condition.link.is_multi
        and links.is_in_memory
    )


def orient(condition: Close, variable: str, links: EdgeAccess) -> EdgeAccess:
    """The hop of a condition, travelled to that variable."""
    return links if condition.target == variable else links.reverse()


def _sort_by_other_end(
    step: Expand, closing: Closing, bindings: Bindings, links: EdgeAccess, budget: Budget
) -> Bindings:
    """The rows sorted by the other end of the condition, when so many neighbours are asked about that this pays."""
    near = bindings.columns[_get_other_end(closing[0], step.node.variable)]
    if not should_mark(bindings.size * links.link.fan_out, closing[1]) or is_ascending(near):
        return bindings
    return bindings.take(argsort_stable(near.astype(np.int64, copy=False), budget.check))


def _get_other_end(condition: Close, variable: str) -> str:
    return condition.source if condition.target == variable else condition.target


def bindings_nbytes(bindings: Bindings) -> int:
    """The bytes of the columns."""
    own = sum(column.nbytes for column in bindings.columns.values())
    return int(own + (0 if bindings.multiplicity is None else bindings.multiplicity.nbytes))
