"""Elements of lists, records and distances in random reads, as text."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from read_worlds import TypeSpec  # noqa: TC001 - the type of a local

# Far from every distance of two vectors of the worlds, so that no rounding decides.
_DISTANCES = ("0.123", "0.777", "1.456")


class WriterLike(Protocol):
    """What the writer of a query offers."""

    fresh: Any
    declared: list[str]
    params: dict[str, Any]
    blocks: Any

    def chance(self, one_in: int) -> bool: ...

    def pick(self, items: Sequence[Any]) -> Any: ...

    def param(self, type_: str, value: Any) -> str: ...

    def properties(self, scope: Any, *names: str) -> list[tuple[str, str]]: ...


class Elements:
    """Writes the `each` clauses of one query, and conditions about their variables."""

    def __init__(self, writer: WriterLike) -> None:
        self.writer = writer

    def clauses(self, scope: Any) -> list[str]:
        """Some clauses, for a pattern that is complete; `scope` gets the elements that are nodes."""
        forms: list[Callable[[Any], list[str]]] = [self.stored, self.given, self.records, self.nodes, self.distance]
        found: list[str] = []
        for _ in range(self.writer.pick((1, 1, 2))):
            found += self.writer.pick(forms)(scope)
        return found

    def stored(self, scope: Any) -> list[str]:
        """The elements of a list property."""
        lists = self.writer.properties(scope, "l", "m")
        if not lists:
            return self.given(scope)
        variable, name = self.writer.pick(lists)
        element = next(self.writer.fresh)
        self.show(element)
        clauses = [f"each {element} in {variable}.{name}"]
        if self.writer.chance(2):
            clauses.append(f'{element} != "a"' if name == "l" else f"{element} > 0")
        return clauses

    def given(self, scope: Any) -> list[str]:
        """The elements of a literal or parameter, sometimes compared with a property."""
        writer = self.writer
        element = next(writer.fresh)
        self.show(element)
        texts = ["a", "b", "a", "zoo"][: writer.pick((0, 1, 3, 4))]
        value = writer.param("[String]", texts) if writer.chance(2) or not texts else str(texts).replace("'", '"')
        strings = writer.properties(scope, "s")
        clauses = [f"each {element} in {value}"]
        if strings and writer.chance(2):
            variable, name = writer.pick(strings)
            clauses.append(f"{variable}.{name} {writer.pick(('=', '!=', '<'))} {element}")
        return clauses

    def records(self, scope: Any) -> list[str]:
        """The records of a parameter, sometimes compared with a property."""
        writer = self.writer
        element = next(writer.fresh)
        rows = [{"s": "a", "n": 1}, {"s": "zoo"}, {"s": "a", "n": None}][: writer.pick((0, 1, 2, 3))]
        value = writer.param("[{s: String, n: I64?}]", rows)
        self.show(f"{element}.s")
        self.show(f"{element}.n")
        clauses = [f"each {element} in {value}"]
        numbers = writer.properties(scope, "n", "i")
        if numbers and writer.chance(2):
            variable, name = writer.pick(numbers)
            clauses.append(f"{variable}.{name} {writer.pick(('=', '>='))} {element}.n")
        return clauses

    def nodes(self, scope: Any) -> list[str]:
        """The elements of a list of nodes, which are nodes that hops may start at."""
        writer = self.writer
        first = writer.pick(list(scope.nodes))
        spec: TypeSpec = scope.nodes[first]
        same = [name for name, other in scope.nodes.items() if other is spec]
        element = next(writer.fresh)
        value = f"[{first}, {writer.pick(same)}]"
        if scope.node_lists and writer.chance(2):
            walk, spec = writer.pick(list(scope.node_lists.items()))
            same = [name for name, other in scope.nodes.items() if other is spec]
            value = f"nodes({walk})"
        clauses = [f"each {element} in {value}"]
        if same and writer.chance(2):
            clauses.append(f"{element} {writer.pick(('=', '!='))} {writer.pick(same)}")
        scope.nodes[element] = spec
        return clauses

    def distance(self, scope: Any) -> list[str]:
        """A condition about the vectors of two variables, or of one and a vector."""
        vectors = self.writer.properties(scope, "v")
        if not vectors:
            return self.stored(scope)
        (left, _), (right, _) = self.writer.pick(vectors), self.writer.pick(vectors)
        other = self.writer.pick((f"{right}.v", "[1.0, 0.5]"))
        return [f"nearest({left}.v, {other}) {self.writer.pick(('<', '>='))} {self.writer.pick(_DISTANCES)}"]

    def show(self, value: str) -> None:
        """Let the output show and order by a value."""
        self.writer.blocks.values.append((value, True))
