"""Infer the types of variables and the directions of hops to a fixed point: the order of clauses has no meaning.

An edge from A to B allows two readings of a hop: (A, B) in the stored direction, or (B, A) backwards. A variable starts
with the type it is bound to, or with any, and hops narrow the candidates at both ends until nothing changes. A hop that
both readings fit then has the stored direction. If that needs two types for one variable, it is an error that names the
variable: choosing one by the order of the clauses would give that order a meaning.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from omnigraph.lang import query_ast as ast
from omnigraph.query.logical_plan import HopDirection
from omnigraph.schema.catalog import EdgeType
from omnigraph.schema.findings import DiagnosticCollector, join_words


@dataclass(frozen=True, slots=True, kw_only=True)
class HopDraft:
    """A hop whose direction is yet to be inferred; `edge` is None if it is unknown, which is already reported.

    `is_reported` means that the hop has a reported error: its ends still get types, but no further error.
    """

    clause: ast.TraversalClause
    source: str
    target: str
    edge: EdgeType | None
    is_reported: bool = False


@dataclass(frozen=True, slots=True)
class HopReading:
    """One way to read a hop: the types at its source and target."""

    source: str
    target: str
    direction: HopDirection


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

    def run(self, hops: list[HopDraft]) -> None:
        """Narrow the choices of each variable to one type, or mark the variable as broken."""
        touching: dict[str, list[int]] = {}
        for index, hop in enumerate(hops):
            for name in dict.fromkeys((hop.source, hop.target)):
                touching.setdefault(name, []).append(index)
        self._narrow_all(hops, touching)
        # The ends of a hop with an error could have been decided by it, so they are not guessed.
        for index, hop in enumerate(hops):
            if hop.edge is None or index in self.failed:
                self.broken.update(name for name in (hop.source, hop.target) if not self._is_decided(name))
        self._propagate_broken(hops, touching, [name for name in touching if name in self.broken])
        self._take_stored_direction(hops, touching)
        # A variable that is still undecided has no type.
        self.broken.update(name for name in touching if not self._is_decided(name))

    def find_direction(self, hop: HopDraft) -> HopDirection:
        """Return the direction of a hop after `run`; it has no meaning if an end is broken."""
        if hop.clause.is_undirected:
            return HopDirection.BOTH
        readings = self._find_fitting(hop)
        return readings[0].direction if readings else HopDirection.OUT

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
        if hop.edge is None or index in self.failed:
            return []
        readings = self._find_fitting(hop)
        if not readings:
            # Remembered, so that the error is reported once.
            self.failed.add(index)
            if not hop.is_reported:
                _report_misfit(hop, hop.edge, self.choices, self.findings)
            return []
        sides = {
            hop.source: frozenset(reading.source for reading in readings),
            hop.target: frozenset(reading.target for reading in readings),
        }
        return [name for name, types in sides.items() if self._restrict(name, types)]

    def _find_fitting(self, hop: HopDraft) -> tuple[HopReading, ...]:
        return tuple(
            reading
            for reading in _list_readings(hop.edge)
            if self._can_be(hop.source, reading.source)
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
            if hop.edge is None or index in self.failed or self.broken & {hop.source, hop.target}:
                continue
            if len(self._find_fitting(hop)) < 2:
                continue
            ends = ((hop.clause.source, hop.source, hop.edge.source), (hop.clause.target, hop.target, hop.edge.target))
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


def _list_readings(edge: EdgeType | None) -> tuple[HopReading, ...]:
    if edge is None:
        return ()
    stored = HopReading(edge.source, edge.target, HopDirection.OUT)
    # Between nodes of one type both readings have the same types; such a hop has the stored direction.
    if edge.source == edge.target:
        return (stored,)
    return (stored, HopReading(edge.target, edge.source, HopDirection.IN))


def _report_misfit(
    hop: HopDraft, edge: EdgeType, choices: Mapping[str, frozenset[str]], findings: DiagnosticCollector
) -> None:
    ends = {edge.source, edge.target}
    runs = f"`{edge.name}` runs from `{edge.source}` to `{edge.target}`"
    help_ = f"{runs}; use an edge that fits, or another variable"
    for written, name in ((hop.clause.source, hop.source), (hop.clause.target, hop.target)):
        types = choices.get(name)
        if types is not None and not types & ends:
            message = f"`${written.name}` is {_format_types(types)}, which is not an end of `{edge.name}`"
            findings.add_error("T5", written.span, message, help_)
            return
    target = hop.clause.target
    if hop.source == hop.target:
        message = f"`${target.name}` can't be both ends of `{edge.name}`"
        findings.add_error("T5", target.span, message, f"{runs}; use two variables")
        return
    # Each end fits on its own, but not both together.
    source_types = _format_types(choices.get(hop.source, frozenset()))
    target_types = _format_types(choices.get(hop.target, frozenset()))
    message = (
        f"`${target.name}` is {target_types} and `${hop.clause.source.name}` is {source_types},"
        f" which are not the two ends of `{edge.name}`"
    )
    findings.add_error("T5", target.span, message, help_)


def _format_types(types: Iterable[str]) -> str:
    return f"of type {join_words(sorted(types), 'or')}"
