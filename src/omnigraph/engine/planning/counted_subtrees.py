"""Plan the subtrees that are counted instead of listed: choose for each, by cost, from which end it is evaluated."""

from collections.abc import Callable

from omnigraph.engine.physical_plan import REVERSED, CountedSubtree, Link, LinkMember, Node, SemiJoin, SubtreeDirection
from omnigraph.engine.planning.cost_model import CostModel
from omnigraph.engine.planning.pattern_graph import HopsByVariable, PatternGraph
from omnigraph.query.logical_plan import Exists, Hop, HopMember

# Plans a test for an expected number of combinations.
PlanTest = Callable[[Exists, float], SemiJoin]

# The shares of rows that a `not` block and an `exists` block are assumed to keep.
ANTI_JOIN_SHARE = 0.7
SEMI_JOIN_SHARE = 0.5


def estimate_test_share(block: Exists) -> float:
    """Estimate the share of rows that a test keeps."""
    return ANTI_JOIN_SHARE if block.negated else SEMI_JOIN_SHARE


def build_link(
    hop: Hop,
    costs: CostModel,
    sources: float,
    *,
    forward: bool,
    has_multiplicity: bool,
    needed: frozenset[str] = frozenset(),
    is_from_leaf: bool = False,
) -> Link:
    """Build the link of a hop as it is traversed from an expected number of nodes.

    With `has_multiplicity`, parallel edges of an edge variable are separate matches. A subtree that is evaluated from
    its leaf is traversed against the direction in which the link is written.
    """
    access, why = costs.choose_edge_access(hop, sources, forward=forward is not is_from_leaf)
    return Link(
        edge=hop.edge.name,
        near=hop.source_type if forward else hop.target_type,
        far=hop.target_type if forward else hop.source_type,
        direction=hop.direction if forward else REVERSED[hop.direction],
        low=hop.low,
        high=hop.high,
        members=tuple(_build_member(member, forward=forward) for member in hop.members),
        each_edge=has_multiplicity and not hop.is_set,
        filters=hop.filters,
        along=hop.along,
        through=hop.through,
        walk=hop.walk,
        binds_walk=hop.walk is not None and hop.walk.variable in needed,
        is_backward=not forward,
        edge_variable=hop.edge_variable if hop.edge_variable in needed else None,
        access=access,
        fan_out=costs.estimate_fan_out(hop, forward=forward),
        why=why,
    )


def _build_member(member: HopMember, *, forward: bool) -> LinkMember:
    direction = member.direction if forward else REVERSED[member.direction]
    return LinkMember(member.edge.name, direction, member.edge.source, member.edge.target)


class SubtreePlanner:
    """Build the nodes of a plan together with the subtrees that hang on them."""

    def __init__(self, graph: PatternGraph, costs: CostModel, plan_test: PlanTest, *, has_multiplicity: bool) -> None:
        self._graph = graph
        self._costs = costs
        self._plan_test = plan_test
        self._has_multiplicity = has_multiplicity
        # Rows and cost of variables with all of their rows, by variable and the hop that led there.
        self._estimates: dict[tuple[str, int], tuple[float, float]] = {}

    def forget(self) -> None:
        """Forget all estimates: other subtrees hang on the variables now."""
        self._estimates.clear()

    def build_node(
        self, variable: str, subtrees: HopsByVariable, demand: float | None, incoming: Hop | None = None
    ) -> Node:
        """Build the node of a variable; `demand` is how many of its rows are requested, None for all."""
        type_name = self._graph.types[variable]
        filters = self._graph.filters.get(variable, ())
        rows, _ = self.estimate(variable, subtrees, None, incoming)
        requested = self._costs.count(type_name) if demand is None else min(demand, self._costs.count(type_name))
        requested *= self._costs.estimate_passing(type_name, filters) / max(self._costs.count(type_name), 1.0)
        counted = [
            self._build_subtree(variable, hop, other, subtrees, requested)
            for hop, other in subtrees.get(variable, ())
            if hop is not incoming
        ]
        return Node(
            variable=variable,
            type=type_name,
            filters=filters,
            blocks=tuple(self._plan_test(block, requested) for block in self._graph.node_blocks.get(variable, ())),
            subtrees=tuple(counted),
            rows=rows,
            # An outer variable is bound already: no rows of it are looked up.
            access=self._costs.describe_access(type_name, filters) if variable in self._graph.filters else "",
        )

    def estimate(
        self, variable: str, subtrees: HopsByVariable, demand: float | None, incoming: Hop | None = None
    ) -> tuple[float, float]:
        """Estimate how many of a variable's requested rows pass, and the cost of finding out."""
        key = (variable, id(incoming))
        if demand is None and key in self._estimates:
            return self._estimates[key]
        costs = self._costs
        type_name = self._graph.types[variable]
        filters = self._graph.filters.get(variable, ())
        count = costs.count(type_name)
        passing = costs.estimate_passing(type_name, filters)
        rows, cost = passing, costs.estimate_scan_cost(type_name, filters, passing)
        if demand is not None:
            requested = min(demand, count)
            rows = requested * passing / max(count, 1.0)
            cost = requested if filters else 0.0
        for block in self._graph.node_blocks.get(variable, ()):
            rows *= estimate_test_share(block)
        for hop, other in subtrees.get(variable, ()):
            if hop is incoming:
                continue
            from_root, from_leaf, share = self._estimate_directions(variable, hop, other, subtrees, rows)
            cost += min(from_root, from_leaf)
            rows *= share
        if demand is None:
            self._estimates[key] = rows, cost
        return rows, cost

    def _estimate_directions(
        self, variable: str, hop: Hop, leaf: str, subtrees: HopsByVariable, rows: float
    ) -> tuple[float, float, float]:
        """Estimate the cost of a subtree from its root and from its leaf, and the share of rows that have a match."""
        costs = self._costs
        forward = hop.source == variable
        fan_out = costs.estimate_fan_out(hop, forward=forward)
        back_fan_out = costs.estimate_fan_out(hop, forward=not forward)
        leaf_rows, leaf_cost = self.estimate(leaf, subtrees, None, hop)
        is_plain = not (hop.filters or hop.along or hop.is_multi or self._is_filtered(leaf, subtrees, hop))
        _, leaf_demand_cost = self.estimate(leaf, subtrees, rows * fan_out, hop)
        # Without any condition on the far end, the degree of each row is enough: no edge has to be followed.
        from_root = rows if is_plain else rows * fan_out + leaf_demand_cost
        from_leaf = leaf_cost + leaf_rows * back_fan_out
        count = max(costs.count(self._graph.types[variable]), 1.0)
        return from_root, from_leaf, min(1.0, leaf_rows * back_fan_out * costs.estimate_edge_share(hop) / count)

    def _is_filtered(self, variable: str, subtrees: HopsByVariable, incoming: Hop) -> bool:
        children = [hop for hop, _ in subtrees.get(variable, ()) if hop is not incoming]
        return bool(children or self._graph.filters.get(variable) or self._graph.node_blocks.get(variable))

    def _build_subtree(
        self, variable: str, hop: Hop, leaf: str, subtrees: HopsByVariable, rows: float
    ) -> CountedSubtree:
        forward = hop.source == variable
        from_root, from_leaf, _ = self._estimate_directions(variable, hop, leaf, subtrees, rows)
        is_from_root = from_root <= from_leaf
        leaf_rows, _ = self.estimate(leaf, subtrees, None, hop)
        fan_out = self._costs.estimate_fan_out(hop, forward=forward)
        sources = rows if is_from_root else leaf_rows
        link = build_link(
            hop,
            self._costs,
            sources,
            forward=forward,
            has_multiplicity=self._has_multiplicity,
            is_from_leaf=not is_from_root,
        )
        # From the root, only the neighbours of its rows are requested; from the leaf, all rows that pass.
        demand = min(rows * fan_out, self._costs.count(self._graph.types[leaf])) if is_from_root else None
        return CountedSubtree(
            link=link,
            node=self.build_node(leaf, subtrees, demand, hop),
            direction=SubtreeDirection.FROM_ROOT if is_from_root else SubtreeDirection.FROM_LEAF,
        )
