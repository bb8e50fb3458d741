"""Solve a test once for all rows, where a hop from each of them would read the same neighbours again and again.

`not { $r enters $h  $r.v > $s.v }` for all pairs of `$s` and `$h` reads all that enter a hub as often as it has pairs.
With a node of its own for `$h`, the pattern is solved once, and joined by the node and the comparison.
"""

from dataclasses import replace

from omnigraph.engine.planning.cost_model import CostModel
from omnigraph.query.expr import Compare, Identity, NodeRef, Op
from omnigraph.query.expr_tree import find_variables
from omnigraph.query.logical_plan import GENERATED_PREFIX, Exists, Hop, NodeBinding, Pattern

# A test is solved for all rows at once where following its hop for each of them is expected to read this number of
# edges, and this many times as many as there are.
MIN_REPEATED_EDGES = 4_000_000.0
MIN_REPEATS = 8.0


def decorrelate(block: Exists, rows: float, costs: CostModel) -> Pattern:
    """Return the pattern of a test as it is solved for this number of rows: as it is, or with a node of its own."""
    pattern = block.pattern
    nodes = {each.variable: each.type for each in block.shared if isinstance(each.type, NodeRef)}
    ends = {end for hop in pattern.hops for end in (hop.source, hop.target) if end in nodes}
    # A block inside may read the node, and a second shared node would be paired with the first one.
    if len(block.shared) < 2 or len(ends) != 1 or pattern.blocks:
        return pattern
    (end,) = ends
    near = [hop for hop in pattern.hops if end in (hop.source, hop.target)]
    exprs = (*pattern.filters, *(expr for hop in pattern.hops for expr in hop.filters))
    is_read = any(end in find_variables(expr) for expr in exprs)
    if is_read or len(near) != 1 or not _is_plain(near[0]):
        return pattern
    edges = costs.count(near[0].edge.name)
    repeated = rows * costs.estimate_fan_out(near[0], forward=near[0].source == end)
    if repeated < MIN_REPEATED_EDGES or repeated < MIN_REPEATS * edges:
        return pattern
    own = NodeBinding(variable=f"{GENERATED_PREFIX}{end}", type=nodes[end], origin=block.origin)
    ids = [Identity(variable=name, origin=block.origin) for name in (end, own.variable)]
    is_same = Compare(op=Op.EQ, left=ids[0], right=ids[1], origin=block.origin)
    hops = tuple(_replace_end(hop, end, own.variable) for hop in pattern.hops)
    return replace(pattern, nodes=(own, *pattern.nodes), hops=hops, filters=(*pattern.filters, is_same))


def _is_plain(hop: Hop) -> bool:
    """Return whether a hop is one stored edge between two variables."""
    return not hop.is_multi and hop.walk is None and hop.derived is None and hop.source != hop.target


def _replace_end(hop: Hop, old: str, new: str) -> Hop:
    if old not in (hop.source, hop.target):
        return hop
    return replace(
        hop,
        source=new if hop.source == old else hop.source,
        target=new if hop.target == old else hop.target,
    )
