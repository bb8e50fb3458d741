"""Infer the types of variables and the directions of hops to a fixed point: the order of clauses has no meaning.

An edge from A to B allows two readings of a hop: (A, B) in the stored direction, or (B, A) backwards. A variable starts
with the types it is bound to, or with any, and hops narrow the candidates at both ends until nothing changes. A hop
that both readings fit then has the stored direction. If that needs two types for one variable, it is an error that
names the variable: choosing one by the order of the clauses would give that order a meaning.

A hop of several edge types has the readings of all of them, each as it would have them alone, and a variable may keep
several types. Any edge (`*`) is followed as it is stored. A hop of several types over several edges connects the types
between which a walk can lead.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from omnigraph.lang import query_ast as ast
from omnigraph.query.logical_plan import HopDirection
from omnigraph.schema.catalog import EdgeType
from omnigraph.schema.findings import DiagnosticCollector, join_words


@dataclass(frozen=True, slots=True)
class HopReading:
    """One way to read a hop: the types at its source and target, and the edge that connects them.

    The edge is None for a walk over several edge types.
    """

    source: str
    target: str
    direction: HopDirection
    edge: EdgeType | None


# No slots: `cached_property` needs a `__dict__`.
@dataclass(frozen=True, kw_only=True)
class HopDraft:
    """A hop whose direction is yet to be inferred; it has no `edges` if one is unknown, which is already reported.

    `is_reported` means that the hop has a reported error: its ends still get types, but no further error.
    """

    clause: ast.TraversalClause
    source: str
    target: str
    edges: tuple[EdgeType, ...]
    is_reported: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the hop names a single edge type, whose ends are all that its variables can be.

        Over several edges whose ends differ, it leads to nodes of both types, like a hop of several edge types.
        """
        is_within_one_type = all(edge.source == edge.target for edge in self.edges)
        return len(self.clause.edges) == 1 and (is_within_one_type or not self.is_multi)

    @property
    def is_multi(self) -> bool:
        """Whether walks of another length than one edge match."""
        bounds = self.clause.bounds
        return bounds is not None and (bounds.low, bounds.high) != (1, 1)

    @cached_property
    def readings(self) -> tuple[HopReading, ...]:
        """All ways to read the hop, whatever the types of its variables."""
        if self.is_plain:
            return tuple(reading for edge in self.edges for reading in _list_directions(edge))
        if self.is_multi:
            return _list_walks(self)
        if self.clause.is_undirected:
            return tuple(reading for edge in self.edges for reading in (_read_stored(edge), _read_backwards(edge)))
        if not self.clause.edges:
            return tuple(map(_read_stored, self.edges))
        return tuple(reading for edge in self.edges for reading in _list_directions(edge))

    def format_edges(self) -> str:
        """Format the edges for a message: the name of a single type, `(knows|follows)` or `*`."""
        if len(self.clause.edges) == 1:
            return self.edges[0].name
        names = "|".join(edge.name.text for edge in self.clause.edges)
        return f"({names})" if names else "*"


@dataclass
class TypeInference:
    """The candidate types of all variables of one block.

    `choices` are the types that a variable can have; a missing variable can have any. `broken` are the variables whose
    type has a reported error: they fit every hop. `failed` are the indexes of hops that fit no reading.
    """

    findings: DiagnosticCollector
    choices: dict[str, frozenset[str]]
    broken: set[str]
    failed: set[int] = field(default_factory=set)
    # The edges of a hop of several types that are read in their stored direction, although both would fit.
    stored: dict[int, frozenset[str]] = field(default_factory=dict)

    def narrow(self, hops: list[HopDraft]) -> dict[str, list[int]]:
        """Narrow the choices of each variable as far as hops decide them; return the hops that touch each variable."""
        touching: dict[str, list[int]] = {}
        for index, hop in enumerate(hops):
            for name in dict.fromkeys((hop.source, hop.target)):
                touching.setdefault(name, []).append(index)
        self._narrow_all(hops, touching)
        return touching

    def run(self, hops: list[HopDraft]) -> None:
        """Narrow the choices of each variable, or mark the variable as broken."""
        touching = self.narrow(hops)
        # The ends of a hop with an error could have been decided by it, so they are not guessed.
        for index, hop in enumerate(hops):
            if not hop.edges or index in self.failed:
                self.broken.update(name for name in (hop.source, hop.target) if not self._is_decided(name))
        self._propagate_broken(hops, touching, [name for name in touching if name in self.broken])
        self._take_stored_direction(hops, touching)
        if not all(hop.is_plain for hop in hops):
            # For all hops before any is narrowed again, so that no hop decides for the next one.
            self.stored = {index: self._find_stored(hop) for index, hop in enumerate(hops) if not hop.is_plain}
            self._narrow_all(hops, touching)
        # A variable without any candidate has no type.
        self.broken.update(name for name in touching if not self.choices.get(name))

    def find_readings(self, hop: HopDraft, index: int) -> tuple[HopReading, ...]:
        """Return the readings of a hop that fit after `run`; they have no meaning if an end is broken."""
        stored = self.stored.get(index, frozenset())
        return tuple(
            reading
            for reading in hop.readings
            if self._fits(hop, reading)
            and not (reading.direction is HopDirection.IN and reading.edge is not None and reading.edge.name in stored)
        )

    def _find_stored(self, hop: HopDraft) -> frozenset[str]:
        """Return the edges of a directed hop of several types whose stored direction fits."""
        if hop.clause.is_undirected:
            return frozenset()
        fitting = (reading for reading in hop.readings if self._fits(hop, reading))
        return frozenset(r.edge.name for r in fitting if r.edge is not None and r.direction is HopDirection.OUT)

    def _narrow_all(self, hops: list[HopDraft], touching: Mapping[str, list[int]]) -> None:
        """Narrow the ends of all hops to a fixed point."""
        # Hops with a decided end go first, so that an error is reported at the hop that contradicts the decision.
        urgent = deque(n for n, hop in enumerate(hops) if self._is_decided(hop.source) or self._is_decided(hop.target))
        later = deque(range(len(hops)))
        while urgent or later:
            index = (urgent or later).popleft()
            # Every hop at a narrowed variable is visited again: it may now have fewer readings.
            for name in self._narrow(hops[index], index):
                (urgent if self._is_decided(name) else later).extend(touching[name])

    def _is_decided(self, name: str) -> bool:
        return name not in self.broken and len(self.choices.get(name, ())) == 1

    def _narrow(self, hop: HopDraft, index: int) -> list[str]:
        """Narrow the ends of a hop, and return those that have changed."""
        if not hop.edges or index in self.failed:
            return []
        readings = self.find_readings(hop, index)
        if not readings:
            # Remembered, so that the error is reported once.
            self.failed.add(index)
            if not hop.is_reported:
                _report_misfit(hop, self.choices, self.findings)
            return []
        sides = {
            hop.source: frozenset(reading.source for reading in readings),
            hop.target: frozenset(reading.target for reading in readings),
        }
        return [name for name, types in sides.items() if self._restrict(name, types)]

    def _fits(self, hop: HopDraft, reading: HopReading) -> bool:
        return (
            self._can_be(hop.source, reading.source)
            and self._can_be(hop.target, reading.target)
            and (hop.source != hop.target or reading.source == reading.target)
        )

    def _can_be(self, name: str, type_: str) -> bool:
        return name in self.broken or name not in self.choices or type_ in self.choices[name]

    def _restrict(self, name: str, types: frozenset[str]) -> bool:
        if name in self.broken or self.choices.get(name) == types:
            return False
        self.choices[name] = types
        return True

    def _propagate_broken(self, hops: list[HopDraft], touching: Mapping[str, list[int]], todo: list[str]) -> None:
        """Mark the variables as broken that only the broken variables in `todo` could decide."""
        # A guess would cause more errors.
        while todo:
            for index in touching[todo.pop()]:
                for name in (hops[index].source, hops[index].target):
                    if name not in self.broken and not self._is_decided(name):
                        self.broken.add(name)
                        todo.append(name)

    def _take_stored_direction(self, hops: list[HopDraft], touching: Mapping[str, list[int]]) -> None:
        # The choices change only after the loop, so that a hop decided here does not narrow the next one.
        taken: dict[str, str] = {}
        for index, hop in enumerate(hops):
            if not hop.is_plain or not hop.edges or index in self.failed or self.broken & {hop.source, hop.target}:
                continue
            if len(self.find_readings(hop, index)) < 2:
                continue
            edge = hop.edges[0]
            ends = ((hop.clause.source, hop.source, edge.source), (hop.clause.target, hop.target, edge.target))
            for written, name, type_ in ends:
                other = taken.setdefault(name, type_)
                if other != type_ and name not in self.broken:
                    message = f"`${written.name}` could be `{other}` or `{type_}`"
                    help_ = f"bind it to one of them: `${written.name}: {other}` or `${written.name}: {type_}`"
                    self.findings.add_error("T5", written.span, message, help_)
                    self.broken.add(name)
                    self._propagate_broken(hops, touching, [name])
        for name, type_ in taken.items():
            self.choices[name] = frozenset({type_})


def _read_stored(edge: EdgeType) -> HopReading:
    return HopReading(edge.source, edge.target, HopDirection.OUT, edge)


def _read_backwards(edge: EdgeType) -> HopReading:
    return HopReading(edge.target, edge.source, HopDirection.IN, edge)


def _list_directions(edge: EdgeType) -> tuple[HopReading, ...]:
    # Between nodes of one type both readings have the same types; such a hop has the stored direction.
    if edge.source == edge.target:
        return (_read_stored(edge),)
    return (_read_stored(edge), _read_backwards(edge))


def _list_walks(hop: HopDraft) -> tuple[HopReading, ...]:
    """Return a reading for each pair of types between which a walk within the bounds of a hop can lead."""
    direction = HopDirection.BOTH if hop.clause.is_undirected else HopDirection.OUT
    types = sorted({end for edge in hop.edges for end in (edge.source, edge.target)})
    number = {name: index for index, name in enumerate(types)}
    # By type, a bit for each type that one edge leads to.
    steps = [0] * len(types)
    for edge in hop.edges:
        steps[number[edge.source]] |= 1 << number[edge.target]
        if hop.clause.is_undirected:
            steps[number[edge.target]] |= 1 << number[edge.source]
    bounds = hop.clause.bounds
    low, high = (1, 1) if bounds is None else (bounds.low, bounds.high)
    reached = _reach_types(steps, low, high)
    return tuple(
        HopReading(source, target, direction, None)
        for source in types
        for target in types
        if reached[number[source]] >> number[target] & 1
    )


def _reach_types(steps: list[int], low: int, high: int | None) -> list[int]:
    """Return, by type, a bit for each type that a walk of `low` to `high` steps leads to."""
    level = [1 << index for index in range(len(steps))]
    reached = level if low == 0 else [0] * len(steps)
    seen: set[tuple[int, ...]] = set()
    length = 0
    while length != high and any(level):
        level = [_follow_types(bits, steps) for bits in level]
        length += 1
        if length < low:
            continue
        reached = [before | now for before, now in zip(reached, level, strict=True)]
        # The levels repeat from here on: longer walks lead nowhere else.
        if tuple(level) in seen:
            break
        seen.add(tuple(level))
    return reached


def _follow_types(bits: int, steps: list[int]) -> int:
    result = 0
    for index, reached in enumerate(steps):
        if bits >> index & 1:
            result |= reached
    return result


def _report_misfit(hop: HopDraft, choices: Mapping[str, frozenset[str]], findings: DiagnosticCollector) -> None:
    written_edges = hop.format_edges()
    runs = ", ".join(f"`{edge.name}` runs from `{edge.source}` to `{edge.target}`" for edge in hop.edges[:_MAX_NAMED])
    if len(hop.edges) > _MAX_NAMED:
        runs = f"{runs}, and there are {len(hop.edges) - _MAX_NAMED} more"
    help_ = f"{runs}; use an edge that fits, or another variable"
    if not hop.clause.edges and not hop.clause.is_undirected:
        both_ways = f"`${hop.clause.source.name} <*> ${hop.clause.target.name}`"
        help_ = f"`*` follows edges as they are stored; both ways: {both_ways}"
    sides = (
        (hop.clause.source, hop.source, {reading.source for reading in hop.readings}),
        (hop.clause.target, hop.target, {reading.target for reading in hop.readings}),
    )
    for written, name, ends in sides:
        types = choices.get(name)
        if types is not None and not types & ends:
            message = f"`${written.name}` is {_format_types(types)}, which is not an end of `{written_edges}`"
            findings.add_error("T5", written.span, message, help_)
            return
    target = hop.clause.target
    if hop.source == hop.target:
        message = f"`${target.name}` can't be both ends of `{written_edges}`"
        findings.add_error("T5", target.span, message, f"{runs}; use two variables")
        return
    # Each end fits on its own, but not both together.
    source_types = _format_types(choices.get(hop.source, frozenset()))
    target_types = _format_types(choices.get(hop.target, frozenset()))
    message = (
        f"`${target.name}` is {target_types} and `${hop.clause.source.name}` is {source_types},"
        f" which are not the two ends of `{written_edges}`"
    )
    bounds = hop.clause.bounds
    if hop.is_multi and bounds is not None:
        walk = f"{written_edges}{{{bounds.low},{'*' if bounds.high is None else bounds.high}}}"
        message = (
            f"no walk of `{walk}` leads from `${hop.clause.source.name}`, which is {source_types},"
            f" to `${target.name}`, which is {target_types}"
        )
    findings.add_error("T5", target.span, message, help_)


# A message describes at most this number of edge types.
_MAX_NAMED = 3


def _format_types(types: Iterable[str]) -> str:
    return f"of type {join_words(sorted(types), 'or')}"
