"""Blocks of random reads, as text: tests, optional blocks, values, alternatives and abbreviations."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from read_worlds import TAME, TypeSpec


class ScopeLike(Protocol):
    """The variables that a block sees."""

    nodes: dict[str, TypeSpec]
    edges: dict[str, TypeSpec]

    @property
    def all(self) -> dict[str, TypeSpec]: ...

    def inner(self) -> Any: ...


class WriterLike(Protocol):
    """What the writer of a query offers."""

    random: Random
    fresh: Any

    def hop(self, scope: Any) -> list[str]: ...

    def predicate(self, scope: Any, depth: int = 0) -> str: ...

    def chance(self, one_in: int) -> bool: ...

    def pick(self, items: Sequence[Any]) -> Any: ...

    def new_scope(self, nodes: dict[str, TypeSpec]) -> Any: ...


@dataclass
class Blocks:
    """Writes the blocks of one query."""

    writer: WriterLike
    # Values that the output may show and order by: texts of expressions, and whether they have an order.
    values: list[tuple[str, bool]] = field(default_factory=list)
    optional: dict[str, TypeSpec] = field(default_factory=dict)

    def clauses(self, scope: Any) -> list[str]:
        """Some clauses with blocks, for a pattern that is complete; `scope` gets the variables that they bind."""
        forms: list[Callable[[Any], list[str]]] = [self.test, self.either, self.disjunction, self.let, self.compared]
        forms.append(self.either_element)
        found: list[str] = []
        for _ in range(self.writer.pick((0, 1, 1, 2))):
            found += self.writer.pick(forms)(scope)
        return found

    def optionals(self, scope: Any) -> list[str]:
        """Optional blocks in the order in which they apply, and predicates about their variables."""
        found = []
        wider = scope.inner()
        for _ in range(self.writer.pick((0, 1, 1, 2))):
            found += self.optional_block(wider, depth=1)
        own = {name: spec for name, spec in wider.all.items() if name not in scope.all}
        self.optional |= own
        if own and self.writer.chance(2):
            name = self.writer.pick(list(own))
            found.append(f"{name} is {self.writer.pick(('', 'not '))}null")
        if own and self.writer.chance(2):
            found.append(self.writer.predicate(wider))
        nodes = [name for name in own if name in wider.nodes]
        if nodes and self.writer.chance(2):
            # The first that there is: an optional node, or one that is always there.
            first, second = self.writer.pick(nodes), self.writer.pick(list(scope.nodes))
            chosen = self.writer.pick(
                (f"coalesce({first}, {second})", f"case {{ {first} is null => {second}, else => {first} }}")
            )
            self.values += [(f"{chosen}.@id", True), (f"{chosen}.@type", True)]
            found += [f'{chosen}.@id > "b"'] if self.writer.chance(2) else []
        scope.nodes |= wider.nodes
        scope.edges |= wider.edges
        return found

    def inside(self, scope: Any, depth: int) -> tuple[Any, list[str]]:
        """The clauses of a block that shares a variable, and its scope; no clauses if there is no hop to take."""
        writer = self.writer
        inner = scope.inner()
        shared = writer.pick(list(scope.nodes))
        start = writer.new_scope({shared: scope.nodes[shared]})
        clauses = writer.hop(start)
        inner.nodes |= start.nodes
        inner.edges |= start.edges
        if clauses and writer.chance(3):
            clauses += writer.hop(inner)
        if clauses and writer.chance(3):
            clauses.append(writer.predicate(inner))
        if clauses and depth < 2 and writer.chance(4):
            clauses += writer.pick((self.test, self.disjunction, self.compared))(inner)
        return inner, clauses

    def test(self, scope: Any) -> list[str]:
        _, clauses = self.inside(scope, 1)
        word = self.writer.pick(("exists", "not exists", "not"))
        return [f"{word} {{ {'; '.join(clauses)} }}"] if clauses else []

    def truth(self, scope: Any) -> str:
        """A condition of an expression that is a block, or compares one."""
        _, clauses = self.inside(scope, 2)
        if not clauses:
            return self.writer.predicate(scope, 2)
        block = f"{{ {'; '.join(clauses)} }}"
        return str(self.writer.pick((f"exists {block}", f"not exists {block}", f"count {block} > 1")))

    def disjunction(self, scope: Any) -> list[str]:
        word = self.writer.pick((" or ", " or ", " and "))
        terms = [self.truth(scope), self.writer.predicate(scope, 1)]
        self.writer.random.shuffle(terms)
        return [f"({word.join(terms)})" if self.writer.chance(2) else f"not ({word.join(terms)})"]

    def compared(self, scope: Any) -> list[str]:
        """A comparison of the value of a block, of which some are null."""
        value = self.value(scope, ("count", "sum", "min", "max"))
        return [f"{value} {self.writer.pick(('=', '!=', '<', '>='))} {self.writer.pick((0, 1, 2))}"] if value else []

    def let(self, scope: Any) -> list[str]:
        value = self.value(scope, ("count", "sum", "avg", "exists"))
        if value is None:
            return []
        name = next(self.writer.fresh)
        self.values.append((name, True))
        clauses = [f"let {name} = {value}"]
        if self.writer.chance(2):
            clauses.append(f"{name} = true" if value.startswith("exists") else f"{name} >= 1")
        return clauses

    def value(self, scope: Any, kinds: Sequence[str]) -> str | None:
        """A value block."""
        writer = self.writer
        inner, clauses = self.inside(scope, 1)
        if not clauses:
            return None
        kind, body = writer.pick(kinds), "; ".join(clauses)
        own = {name: spec for name, spec in inner.all.items() if name not in scope.all} or inner.all
        names = [(name, prop) for name, spec in own.items() for prop in spec.properties if prop in TAME]
        if kind in ("count", "exists") and (writer.chance(2) or not names):
            return f"{kind} {{ {body} }}"
        if not names:
            return None
        name, prop = writer.pick(names)
        distinct = "distinct " if writer.chance(4) else ""
        tail = ""
        if writer.chance(3):
            key = f"{name}.{prop}" if distinct else writer.pick((f"{name}.{prop}", f"{name}.@id"))
            tail = f" order {{ {key}{writer.pick(('', ' desc'))} }}"
        if writer.chance(3):
            tail += f" limit {writer.pick((0, 1, 2))}"
        return f"{kind} {{ {body} return {distinct}{name}.{prop}{tail} }}"

    def either(self, scope: Any) -> list[str]:
        """Alternatives over one shared variable, and sometimes a new one that both bind."""
        writer = self.writer
        shared = writer.pick(list(scope.nodes))
        spec = scope.nodes[shared]
        alternatives, ends = [], []
        for _ in range(writer.pick((2, 2, 3))):
            start = writer.new_scope({shared: spec})
            clauses = writer.hop(start)
            if not clauses:
                return []
            own = [name for name in start.nodes if name != shared]
            if writer.chance(3):
                clauses.append(writer.predicate(start))
            alternatives.append(clauses)
            ends.append((own[0], start.nodes[own[0]]) if own else None)
        first = ends[0]
        if first is not None and all(end is not None and end[1] is first[1] for end in ends) and writer.chance(2):
            name = next(writer.fresh)
            alternatives = [
                [_rename(clause, end[0], name) for clause in clauses]
                for clauses, end in zip(alternatives, ends, strict=True)
                if end is not None
            ]
            scope.nodes[name] = first[1]
        return ["either " + " or ".join(f"{{ {'; '.join(clauses)} }}" for clauses in alternatives)]

    def either_element(self, scope: Any) -> list[str]:
        """Alternatives that bind the elements of lists."""
        writer = self.writer
        names = [(v, p) for v, spec in scope.nodes.items() for p in spec.properties if p in ("i", "n", "f")]
        if not names:
            return []
        (first, prop), (second, other) = writer.pick(names), writer.pick(names)
        name = next(writer.fresh)
        self.values.append((name, True))
        return [
            f"either {{ each {name} in [1, {first}.{prop}, 1] }} or {{ each {name} in [{second}.{other}, 2] }}",
            f"{name} {writer.pick(('<', '>=', '!='))} {writer.pick((0, 1, 2))}",
        ]

    def optional_block(self, scope: Any, depth: int) -> list[str]:
        """An optional block; `scope` gets its variables."""
        inner, clauses = self.inside(scope, 1)
        own = {name: spec for name, spec in inner.all.items() if name not in scope.all}
        # A block that binds nothing is refused, and so is one whose hops start at an optional variable's own hop.
        if not own:
            return []
        if depth < 3 and self.writer.chance(4):
            clauses += self.optional_block(inner, depth + 1)
        scope.nodes |= inner.nodes
        scope.edges |= inner.edges
        return [f"optional {{ {'; '.join(clauses)} }}"]

    def column(self, scope: Any) -> str | None:
        """A column of the output that is a block."""
        kinds = ("count", "sum", "min", "max", "avg", "collect", "exists")
        return self.value(scope, kinds)


def _rename(clause: str, name: str, other: str) -> str:
    return re.sub(re.escape(name) + r"\b", other, clause)
