"""Following a hop to a variable that is not bound yet."""

import numpy as np

from omnigraph.engine.bindings import Bindings
from omnigraph.engine.kernels import places_in, stable_order
from omnigraph.engine.operators.candidates import Candidates
from omnigraph.engine.operators.cycle_close import ascends, joins_gathered, shall_mark
from omnigraph.engine.operators.edge_access import Links
from omnigraph.engine.operators.multiplicity import multiplied
from omnigraph.engine.physical_plan import Close, Expand
from omnigraph.engine.query_budget import Budget

Closing = tuple[Close, Links]
"""A condition on the new variable, and its hop, travelled from the other end."""


def expand(
    step: Expand,
    bindings: Bindings,
    links: Links,
    candidates: Candidates,
    budget: Budget,
    closing: Closing | None = None,
) -> Bindings:
    """For each row and each neighbour that passes, one row; `closing` drops what it does not join."""
    if closing is not None:
        bindings = _in_order(step, closing, bindings, links, budget)
    sources = bindings.columns[step.source]
    neighbours = links.neighbours(sources)
    keep = step.keep if closing is None else closing[0].keep
    expected = int(neighbours.counts(sources).sum()) * 8 * (2 + len(keep))
    budget.claim(expected, f"following {step.link.edge} to ${step.node.variable}")
    gathered = links.passing(neighbours.gather(sources))
    budget.check()
    targets, edges, weight = gathered.targets, gathered.edges, bindings.weight
    if closing is None:
        rows = gathered.rows()
    else:
        near = bindings.columns[_other_end(closing[0], step.node.variable)]
        places = np.flatnonzero(joins_gathered(near, gathered, closing[1], budget))
        rows = places_in(np.cumsum(gathered.counts), places, "right", budget.check)
        targets, edges = targets[places], None if edges is None else edges[places]
    budget.check()
    weighed = candidates.weigh(targets)
    budget.check()
    if weighed is not None:
        mask = weighed if weighed.dtype == np.bool_ else weighed > 0
        rows, targets, edges = rows[mask], targets[mask], None if edges is None else edges[mask]
        counted = None if weighed.dtype == np.bool_ else weighed[mask].astype(np.int64, copy=False)
        weight = multiplied(None if weight is None else weight[rows], counted)
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


def is_closed_by(step: Expand, condition: Close, links: Links) -> bool:
    """Whether a condition can be asked of the neighbours before rows are made of them."""
    ends = {condition.source, condition.target}
    return (
        len(ends) == 2
        and step.node.variable in ends
        and not condition.link.reads_edges
        and not condition.link.is_multi
        and links.is_in_memory
    )


def towards(condition: Close, variable: str, links: Links) -> Links:
    """The hop of a condition, travelled to that variable."""
    return links if condition.target == variable else links.reversed()


def _in_order(step: Expand, closing: Closing, bindings: Bindings, links: Links, budget: Budget) -> Bindings:
    """The rows sorted by the other end of the condition, when so many neighbours are asked about that this pays."""
    near = bindings.columns[_other_end(closing[0], step.node.variable)]
    if not shall_mark(bindings.size * links.link.fan_out, closing[1]) or ascends(near):
        return bindings
    return bindings.take(stable_order(near.astype(np.int64, copy=False), budget.check))


def _other_end(condition: Close, variable: str) -> str:
    return condition.source if condition.target == variable else condition.target


def held(bindings: Bindings) -> int:
    """The bytes of the columns."""
    own = sum(column.nbytes for column in bindings.columns.values())
    return int(own + (0 if bindings.weight is None else bindings.weight.nbytes))
