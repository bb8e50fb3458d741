"""The order of work in a connected part of a pattern: where to start, which hop is next, what is only counted."""

import math

from omnigraph.engine.physical_plan import Check, Close, Expand, Product, Scan
from omnigraph.engine.planning.counted_subtrees import Branches, link_of
from omnigraph.engine.planning.pattern_graph import Edges, strip
from omnigraph.engine.planning.plan_builder import Drafting, Want
from omnigraph.query.logical_plan import Hop

_ROOTS = 12
"""Trees of more variables take the one with the fewest rows as their root, without weighing all."""
_FEW_ROWS = 64.0
"""A variable with at most so many rows may be bound on its own, before the hops that lead there are conditions."""


LED_ROWS = 65_536.0
"""When so many rows are expected and few are asked for, they are made in their order: most of them never."""


class PartPlan:
    """Adds the steps of one connected part."""

    def __init__(self, drafting: Drafting, branches: Branches, required: set[str]) -> None:
        self._drafting, self._branches, self._required = drafting, branches, required
        self._maker, self._costs, self._shape = drafting.maker, drafting.maker.costs, drafting.shape
        self._edges = self._shape.edges(self._shape.hops)
        self._hanging: Edges = {}
        self._growths: dict[tuple[int, bool], float] = {}
        self._counts = drafting.want is not Want.EXISTS

    def add(self, part: list[str]) -> None:
        """Bind the variables of a part that must be listed; the rest hangs on them."""
        required = self._required.intersection(part) or {self._root(part)}
        core, self._hanging = strip(self._edges, part, required)
        self._branches.forget()
        inside = set(core)
        hops = [hop for hop in self._shape.hops if hop.source in inside and hop.target in inside]
        if not self._drafting.bound:
            lead = self._maker.lead
            if lead in inside and self._total(core, hops) >= LED_ROWS:
                self._scan(lead)
            else:
                self._scan(min(core, key=lambda variable: (self._first_cost(variable, hops), core.index(variable))))
        else:
            for variable in core:
                if variable in self._drafting.bound and self._hanging.get(variable):
                    self._check(variable)
        self._follow(hops)

    # --- where to start ---------------------------------------------------------------------------------

    def _total(self, core: list[str], hops: list[Hop]) -> float:
        """How many rows all of the part has, in whichever order it is worked out."""
        rows = math.prod(self._alone(variable) for variable in core)
        for hop in hops:
            ends = max(self._costs.count(hop.source_type), 1.0)
            rows *= self._costs.fan_out(hop, forward=False) * self._costs.edge_share(hop) / ends
        return rows

    def _root(self, part: list[str]) -> str:
        """Where a part that is only counted is summed up: the variable from which that costs least."""
        members = set(part)
        hops = sum(hop.source in members for hop in self._shape.hops)
        if len(part) > _ROOTS or hops != len(part) - 1:
            return min(part, key=lambda variable: (self._passing(variable), part.index(variable)))
        self._branches.forget()
        return min(
            part, key=lambda variable: (self._branches.expected(variable, self._edges, None)[1], part.index(variable))
        )

    def _passing(self, variable: str) -> float:
        return self._costs.passing(self._shape.types[variable], self._shape.filters[variable])

    def _first_cost(self, variable: str, hops: list[Hop]) -> float:
        rows, cost = self._branches.expected(variable, self._hanging, None)
        onward = [
            self._costs.fan_out(hop, forward=hop.source == variable)
            for hop in hops
            if variable in (hop.source, hop.target)
        ]
        return cost + rows * (1.0 + min(onward, default=0.0))

    def _scan(self, variable: str) -> None:
        number = self._maker.number()
        node = self._branches.node(variable, self._hanging, None)
        step = Scan(number=number, node=node, rows=node.rows)
        self._drafting.add(step, binds={variable}, rows=self._drafting.rows * node.rows)
        self._drafting.settle()

    def _check(self, variable: str) -> None:
        """Count what hangs on a variable of the outside."""
        number = self._maker.number()
        node = self._branches.node(variable, self._hanging, self._drafting.rows)
        rows = self._drafting.rows * node.rows / max(self._costs.count(node.type), 1.0)
        self._drafting.add(Check(number=number, node=node, rows=rows), reads={variable})

    # --- which hop is next --------------------------------------------------------------------------------

    def _follow(self, hops: list[Hop]) -> None:
        """Each time the hop that is expected to leave the fewest rows; one with both ends bound is a condition."""
        left, bound = list(hops), self._drafting.bound
        while left:
            bound = self._drafting.bound
            closing = next((hop for hop in left if hop.source in bound and hop.target in bound), None)
            if closing is not None:
                left.remove(closing)
                self._close(closing)
            else:
                reachable = [hop for hop in left if hop.source in bound or hop.target in bound]
                hop = min(reachable, key=lambda hop: (self._growth(hop), left.index(hop)))
                target = hop.target if hop.source in bound else hop.source
                if self._is_rare(target, hop):
                    self._pair(target)
                else:
                    left.remove(hop)
                    self._expand(hop)
            bound = self._drafting.bound
            has_condition = any(hop.source in bound and hop.target in bound for hop in left)
            self._drafting.settle(with_blocks=not has_condition)  # a hop costs less than a block
            self._drafting.forget_dead(left)
            if left:
                self._drafting.merge(left)

    def _alone(self, variable: str) -> float:
        return self._branches.expected(variable, self._hanging, None)[0]

    def _growth(self, hop: Hop) -> float:
        """How many rows each row becomes."""
        forward = hop.source in self._drafting.bound
        known = self._growths.get((id(hop), forward))
        if known is None:
            variable = hop.target if forward else hop.source
            share = self._alone(variable) / max(self._costs.count(self._shape.types[variable]), 1.0)
            known = self._costs.fan_out(hop, forward=forward) * self._costs.edge_share(hop) * share
            self._growths[id(hop), forward] = known
        return known

    def _is_rare(self, variable: str, hop: Hop) -> bool:
        """Whether a variable has far fewer rows than a hop that leads there has ends."""
        alone = self._alone(variable)
        return alone <= _FEW_ROWS and alone * 2 < self._costs.fan_out(hop, forward=hop.source in self._drafting.bound)

    def _pair(self, variable: str) -> None:
        """Bind a variable of very few rows on its own; the hops that lead there are then conditions."""
        number, inner = self._maker.number(), self._maker.number()
        node = self._branches.node(variable, self._hanging, None)
        scan = Scan(number=inner, node=node, rows=node.rows)
        rows = self._drafting.rows
        step = Product(number=number, steps=(scan,), rows=rows * node.rows, left_rows=rows, right_rows=node.rows)
        self._drafting.add(step, binds={variable})

    def _expand(self, hop: Hop) -> None:
        drafting = self._drafting
        forward = hop.source in drafting.bound
        source, target = (hop.source, hop.target) if forward else (hop.target, hop.source)
        link = link_of(
            hop,
            self._costs,
            drafting.rows,
            forward=forward,
            counts=self._counts,
            needed=drafting.edges_needed(),
        )
        rows = drafting.rows * self._growth(hop)
        number = self._maker.number()
        node = self._branches.node(target, self._hanging, drafting.rows * link.fan_out)
        step = Expand(number=number, source=source, link=link, node=node, keep=(), rows=rows)
        drafting.add(step, reads={source}, binds=_named(target, link.edge_variable))

    def _close(self, hop: Hop) -> None:
        drafting = self._drafting
        fan_out = self._costs.fan_out(hop, forward=True) * self._costs.edge_share(hop)
        rows = drafting.rows * fan_out / max(self._costs.count(hop.target_type), 1.0)
        link = link_of(
            hop, self._costs, drafting.rows, forward=True, counts=self._counts, needed=drafting.edges_needed()
        )
        number = self._maker.number()
        step = Close(number=number, source=hop.source, target=hop.target, link=link, keep=(), rows=rows)
        drafting.add(step, reads={hop.source, hop.target}, binds=_named(link.edge_variable))


def _named(*variables: str | None) -> list[str]:
    return [variable for variable in variables if variable is not None]
