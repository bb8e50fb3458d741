"""Group the problems of a load by rule, type and property: all are counted, and some of each group are kept."""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from omnigraph.engine.bulk.load_errors import Problem, ProblemGroup
from omnigraph.engine.constraints.violations import MAX_REPORTED_PROBLEMS

Position: TypeAlias = tuple[int, int]
"""The number of an input, and a line of it."""

_GroupKey: TypeAlias = tuple[str, str | None, str | None]

# Unknown properties may have any names: beyond so many groups, problems are counted without their property.
MAX_GROUPS = 200


class GroupExamples(msgspec.Struct, frozen=True, kw_only=True):
    """The number of problems of one group in a part of a load, and the first of them."""

    rule: str
    type: str | None
    property: str | None
    count: int
    first: tuple[Problem, ...]


@dataclass(slots=True)
class _Group:
    count: int = 0
    # A min-heap of negated positions: its root is the last of those that are kept.
    first: list[tuple[int, int, int, Problem]] = field(default_factory=list)


@dataclass(slots=True)
class ProblemGroups:
    """The problems of a load. The same problems give the same groups and examples in any order of adding."""

    _groups: dict[_GroupKey, _Group] = field(default_factory=dict)
    _added: int = 0

    @property
    def total(self) -> int:
        """The number of problems."""
        return sum(group.count for group in self._groups.values())

    def add(self, position: Position, problem: Problem) -> None:
        """Add a problem."""
        group = self._find_group(problem.rule, problem.type, problem.property)
        group.count += 1
        self._keep(group, position, problem)

    def add_many(self, key: _GroupKey, count: int, examples: Iterator[tuple[Position, Problem]]) -> None:
        """Add `count` problems of one group, of which the first are given."""
        group = self._find_group(*key)
        group.count += count
        for position, problem in examples:
            self._keep(group, position, problem)

    def include(self, other: "ProblemGroups") -> None:
        """Add all problems of another."""
        for key, group in other._groups.items():  # noqa: SLF001 - of the same class
            first = sorted(group.first, key=lambda entry: entry[:3], reverse=True)
            self.add_many(key, group.count, (((-file, -line), problem) for file, line, _, problem in first))

    def summarize(self) -> list[GroupExamples]:
        """Return the counts and the first problems of all groups, for `include_part` of another process."""
        return [
            GroupExamples(
                rule=rule,
                type=type_,
                property=property_,
                count=group.count,
                first=tuple(entry[3] for entry in sorted(group.first, key=lambda entry: entry[:3], reverse=True)),
            )
            for (rule, type_, property_), group in self._groups.items()
        ]

    def include_part(self, groups: Iterable[GroupExamples], file: int, lines_before: int) -> None:
        """Add the problems of a part of an input, whose lines count from the start of the part."""
        for group in groups:
            located = ((problem, (problem.line or 0) + lines_before) for problem in group.first)
            examples = (((file, line), msgspec.structs.replace(problem, line=line)) for problem, line in located)
            self.add_many((group.rule, group.type, group.property), group.count, examples)

    def list_groups(self) -> tuple[ProblemGroup, ...]:
        """Return the counts, the largest first."""
        groups = [
            ProblemGroup(rule=rule, type=type_, property=property_, count=group.count)
            for (rule, type_, property_), group in self._groups.items()
        ]
        return tuple(
            sorted(groups, key=lambda group: (-group.count, group.rule, group.type or "", group.property or ""))
        )

    def select_examples(self, limit: int = MAX_REPORTED_PROBLEMS) -> list[Problem]:
        """Return examples by file and line: an equal share of each group, then the first of the others."""
        ranked: list[tuple[int, Position, int, Problem]] = []
        for group in self._groups.values():
            first = sorted(group.first, key=lambda entry: entry[:3], reverse=True)
            ranked += [
                (rank, (-file, -line), -number, problem) for rank, (file, line, number, problem) in enumerate(first)
            ]
        # By rank within its group, so that each group has its first example before any has its second.
        chosen = sorted(ranked, key=lambda entry: entry[:3])[:limit]
        return [problem for *_, problem in sorted(chosen, key=lambda entry: entry[1:3])]

    def _find_group(self, rule: str, type_: str | None, property_: str | None) -> _Group:
        key = (rule, type_, property_)
        if key not in self._groups and len(self._groups) >= MAX_GROUPS:
            key = (rule, type_, None)
        return self._groups.setdefault(key, _Group())

    def _keep(self, group: _Group, position: Position, problem: Problem) -> None:
        self._added += 1
        # The running number makes entries differ, because problems themselves have no order that a heap could compare.
        entry = (-position[0], -position[1], -self._added, problem)
        if len(group.first) < MAX_REPORTED_PROBLEMS:
            heapq.heappush(group.first, entry)
        elif entry[:3] > group.first[0][:3]:
            heapq.heapreplace(group.first, entry)
