"""The order of work in a connected part of a pattern: where to start, which hop is next, what is only counted."""

import math

from omnigraph.engine.physical_plan import Check, Close, Expand, Product, Scan
from omnigraph.engine.planning.counted_subtrees import SubtreePlanner, build_link
from omnigraph.engine.planning.pattern_graph import HopsByVariable, strip_leaves
from omnigraph.engine.planning.plan_builder import MatchSemantics, PlanBuilder
from omnigraph.query.logical_plan import Hop

_MAX_COMPARED_ROOTS = 12
"""Trees of more variables take the one with the fewest rows as their root, without weighing all."""
_MAX_RARE_ROWS = 64.0
"""A variable with at most so many rows may be bound on its own, before the hops that lead there are conditions."""


MIN_ORDERED_ROWS = 65_536.0
"""When so many rows are expected and few are asked for, they are made in their order: most of them never."""


class JoinOrderPlanner:
    """Adds the steps of one connected part."""

    def __init__(self, drafting: PlanBuilder, branches: SubtreePlanner, required: set[str]) -> None:
        self._builder, self._subtree_planner, self._required = drafting, branches, required
        self._context, self._costs, self._shape = drafting.context, drafting.context.costs, drafting.shape
        self._edges = self._shape.group_hops(self._shape.hops)
        self._subtrees: HopsByVariable = {}
        self._growths: dict[tuple[int, bool], float] = {}
        self._has_multiplicity = drafting.semantics is not MatchSemantics.EXISTS

    def add(self, part: list[str]) -> None:
        """Bind the variables of a part that must be listed; the rest hangs on them."""
        required = self._required.intersection(part) or {self._choose_root(part)}
        core, self._subtrees = strip_leaves(self._edges, part, required)
        self._subtree_planner.forget()
        inside = set(core)
        hops = [hop for hop in self._shape.hops if hop.source in inside and hop.target in inside]
        if not self._builder.bound:
            lead = self._context.leading_variable
            if lead in inside and self._estimate_total(core, hops) >= MIN_ORDERED_ROWS:
                self._scan(lead)
            else:
                self._scan(
                    min(core, key=lambda variable: (self._estimate_first_cost(variable, hops), core.index(variable)))
                )
        else:
            for variable in core:
                if variable in self._builder.bound and self._subtrees.get(variable):
                    self._check(variable)
        self._follow(hops)

    # --- where to start ---------------------------------------------------------------------------------

    def _estimate_total(self, core: list[str], hops: list[Hop]) -> float:
        """How many rows all of the part has, in whichever order it is worked out."""
        rows = math.prod(self._estimate_alone(variable) for variable in core)
        for hop in hops:
            ends = max(self._costs.count(hop.source_type), 1.0)
            rows *= self._costs.estimate_fan_out(hop, forward=False) * self._costs.estimate_edge_share(hop) / ends
        return rows

    def _choose_root(self, part: list[str]) -> str:
        """Where a part that is only counted is summed up: the variable from which that costs least."""
        members = set(part)
        hops = sum(hop.source in members for hop in self._shape.hops)
        if len(part) > _MAX_COMPARED_ROOTS or hops != len(part) - 1:
            return min(part, key=lambda variable: (self._estimate_passing(variable), part.index(variable)))
        self._subtree_planner.forget()
        return min(
            part,
            key=lambda variable: (self._subtree_planner.estimate(variable, self._edges, None)[1], part.index(variable)),
        )

    def _estimate_passing(self, variable: str) -> float:
        return self._costs.estimate_passing(self._shape.types[variable], self._shape.filters[variable])

    def _estimate_first_cost(self, variable: str, hops: list[Hop]) -> float:
        rows, cost = self._subtree_planner.estimate(variable, self._subtrees, None)
        onward = [
            self._costs.estimate_fan_out(hop, forward=hop.source == variable)
            for hop in hops
            if variable in (hop.source, hop.target)
        ]
        return cost + rows * (1.0 + min(onward, default=0.0))

    def _scan(self, variable: str) -> None:
        number = self._context.next_number()
        node = self._subtree_planner.build_node(variable, self._subtrees, None)
        step = Scan(number=number, node=node, rows=node.rows)
        self._builder.add(step, binds={variable}, rows=self._builder.rows * node.rows)
        self._builder.apply_pending()

    def _check(self, variable: str) -> None:
        """Count what hangs on a variable of the outside."""
        number = self._context.next_number()
        node = self._subtree_planner.build_node(variable, self._subtrees, self._builder.rows)
        rows = self._builder.rows * node.rows / max(self._costs.count(node.type), 1.0)
        self._builder.add(Check(number=number, node=node, rows=rows), reads={variable})

    # --- which hop is next --------------------------------------------------------------------------------

    def _follow(self, hops: list[Hop]) -> None:
        """Each time the hop that is expected to leave the fewest rows; one with both ends bound is a condition."""
        left, bound = list(hops), self._builder.bound
        while left:
            bound = self._builder.bound
            closing = next((hop for hop in left if hop.source in bound and hop.target in bound), None)
            if closing is not None:
                left.remove(closing)
                self._close(closing)
            else:
                reachable = [hop for hop in left if hop.source in bound or hop.target in bound]
                hop = min(reachable, key=lambda hop: (self._estimate_growth(hop), left.index(hop)))
                target = hop.target if hop.source in bound else hop.source
                if self._is_rare(target, hop):
                    self._pair(target)
                else:
                    left.remove(hop)
                    self._expand(hop)
            bound = self._builder.bound
            has_condition = any(hop.source in bound and hop.target in bound for hop in left)
            self._builder.apply_pending(with_blocks=not has_condition)  # a hop costs less than a block
            self._builder.forget_dead(left)
            if left:
                self._builder.merge(left)

    def _estimate_alone(self, variable: str) -> float:
        return self._subtree_planner.estimate(variable, self._subtrees, None)[0]

    def _estimate_growth(self, hop: Hop) -> float:
        """How many rows each row becomes."""
        forward = hop.source in self._builder.bound
        known = self._growths.get((id(hop), forward))
        if known is None:
            variable = hop.target if forward else hop.source
            share = self._estimate_alone(variable) / max(self._costs.count(self._shape.types[variable]), 1.0)
            known = self._costs.estimate_fan_out(hop, forward=forward) * self._costs.estimate_edge_share(hop) * share
            self._growths[id(hop), forward] = known
        return known

    def _is_rare(self, variable: str, hop: Hop) -> bool:
        """Whether a variable has far fewer rows than a hop that leads there has ends."""
        alone = self._estimate_alone(variable)
        return alone <= _MAX_RARE_ROWS and alone * 2 < self._costs.estimate_fan_out(
            hop, forward=hop.source in self._builder.bound
        )

    def _pair(self, variable: str) -> None:
        """Bind a variable of very few rows on its own; the hops that lead there are then conditions."""
        number, inner = self._context.next_number(), self._context.next_number()
        node = self._subtree_planner.build_node(variable, self._subtrees, None)
        scan = Scan(number=inner, node=node, rows=node.rows)
        rows = self._builder.rows
        step = Product(number=number, steps=(scan,), rows=rows * node.rows, left_rows=rows, right_rows=node.rows)
        self._builder.add(step, binds={variable})

    def _expand(self, hop: Hop) -> None:
        drafting = self._builder
        forward = hop.source in drafting.bound
        source, target = (hop.source, hop.target) if forward else (hop.target, hop.source)
        link = build_link(
            hop,
            self._costs,
            drafting.rows,
            forward=forward,
            has_multiplicity=self._has_multiplicity,
            needed=drafting.find_needed_edges(),
        )
        rows = drafting.rows * self._estimate_growth(hop)
        number = self._context.next_number()
        node = self._subtree_planner.build_node(target, self._subtrees, drafting.rows * link.fan_out)
        step = Expand(number=number, source=source, link=link, node=node, keep=(), rows=rows)
        drafting.add(step, reads={source}, binds=_drop_unnamed(target, link.edge_variable))

    def _close(self, hop: Hop) -> None:
        drafting = self._builder
        fan_out = self._costs.estimate_fan_out(hop, forward=True) * self._costs.estimate_edge_share(hop)
        rows = drafting.rows * fan_out / max(self._costs.count(hop.target_type), 1.0)
        link = build_link(
            hop,
            self._costs,
            drafting.rows,
            forward=True,
            has_multiplicity=self._has_multiplicity,
            needed=drafting.find_needed_edges(),
        )
        number = self._context.next_number()
        step = Close(number=number, source=hop.source, target=hop.target, link=link, keep=(), rows=rows)
        drafting.add(step, reads={hop.source, hop.target}, binds=_drop_unnamed(link.edge_variable))


def _drop_unnamed(*variables: str | None) -> list[str]:
    return [variable for variable in variables if variable is not None]
