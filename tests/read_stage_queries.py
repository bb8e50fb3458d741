"""Random reads with stages, unions, windows, groups with a page each and the newer aggregates; see `read_queries`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol, TypeVar

from read_worlds import BY_NAME, TAME, TypeSpec

T = TypeVar("T")
INTEGERS = ("n",)


class Scope(Protocol):
    """The variables that a block sees."""

    nodes: dict[str, TypeSpec]
    edges: dict[str, TypeSpec]

    @property
    def all(self) -> dict[str, TypeSpec]: ...


class Writer(Protocol):
    """The parts of a query that `read_queries` writes."""

    declared: list[str]
    params: dict[str, Any]
    random: Random

    def pick(self, items: Sequence[T]) -> T: ...

    def chance(self, one_in: int) -> bool: ...

    def times(self, least: int, most: int) -> range: ...

    def new_scope(self, nodes: dict[str, TypeSpec]) -> Any: ...

    def pattern(self, scope: Any) -> list[str]: ...

    def hop(self, scope: Any) -> list[str]: ...

    def predicate(self, scope: Any, depth: int = 0) -> str: ...

    def properties(self, scope: Any, *names: str) -> list[tuple[str, str]]: ...

    def direction(self) -> str: ...

    def page(self, is_ordered: bool) -> str: ...


@dataclass
class Values:
    """The variables that are values, by whether they are numbers, other scalars or lists."""

    numbers: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)

    @property
    def comparable(self) -> list[str]:
        return [*self.numbers, *self.scalars]


class StageWriter:
    """Writes one query with the forms after the match."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.names = iter(f"n{number}" for number in range(1, 100))

    def body(self) -> str:
        if self.writer.chance(5):
            return self.union()
        return self.read()

    # --- reads ---------------------------------------------------------------------------------------

    def read(self) -> str:
        w = self.writer
        scope, values = w.new_scope({}), Values()
        parts = [self.match(scope, values, is_first=True)]
        for _ in range(w.pick((0, 1, 1, 2))):
            written, scope, values = self.stage(scope, values)
            parts.append(written)
            if w.chance(3) is False and scope.nodes:
                parts.append(self.match(scope, values, is_first=False))
        kind = w.pick((self.grouped, self.windowed, self.paged))
        return "\n  ".join(part for part in (*parts, kind(scope, values)) if part)

    def match(self, scope: Any, values: Values, *, is_first: bool) -> str:
        w = self.writer
        clauses = w.pattern(scope) if is_first else w.hop(scope)
        if w.chance(3):
            clauses.append(w.predicate(scope))
        if values.numbers and w.chance(2):
            clauses.append(f"${w.pick(values.numbers)} {w.pick(('<', '>=', '!='))} {w.pick((0, 1, 2))}")
        if not is_first and w.chance(4):
            shared = w.pick(list(scope.nodes))
            clauses.append(f'not {{ {shared}.@id = {w.pick(list(scope.nodes))}.@id and {shared}.@id > "b" }}')
        return f"match {{ {'; '.join(clauses)} }}" if clauses else ""

    def stage(self, scope: Any, values: Values) -> tuple[str, Any, Values]:
        w = self.writer
        after, kept = w.new_scope({}), Values()
        names = [name for name in scope.all if w.chance(2)] or [w.pick(list(scope.all) or ["$v1"])]
        names = [name for name in names if name in scope.all]
        for name in names:
            (after.nodes if name in scope.nodes else after.edges)[name] = scope.all[name]
        columns = list(names)
        carried = [name for name in values.comparable if w.chance(2)]
        columns += [f"${name}" for name in carried]
        kept.numbers += [name for name in carried if name in values.numbers]
        kept.scalars += [name for name in carried if name in values.scalars]
        is_grouped = w.chance(2)
        conditions = []
        if is_grouped:
            for _ in w.times(1, 2):
                text, kind = self.aggregate(scope, values)
                name = next(self.names)
                columns.append(f"{text} as {name}")
                getattr(kept, kind).append(name)
                if kind == "numbers":
                    conditions.append(f"{name} {w.pick(('<', '>='))} {w.pick((1, 2))}")
        elif scope.all and w.chance(2):
            text, kind = self.scalar(scope)
            name = next(self.names)
            columns.append(f"{text} as {name}")
            getattr(kept, kind).append(name)
        if not columns:
            name = next(self.names)
            columns.append(f"7 as {name}")
            kept.numbers.append(name)
        having = f"having {{ {w.pick(conditions)} }}" if conditions and w.chance(2) else ""
        keys = [f"{name}.@id{w.direction()}" for name in names if w.chance(3)]
        order = f"order {{ {', '.join(keys)} }}" if keys else ""
        distinct = "distinct " if not is_grouped and w.chance(5) and not kept.lists else ""
        return f"with {distinct}{{ {', '.join(columns)} }} {having} {order} {self.page(bool(keys), names)}", after, kept

    def page(self, is_ordered: bool, names: Sequence[str]) -> str:
        w = self.writer
        if names and w.chance(4):
            offset = f" offset {w.pick((0, 1))}" if w.chance(3) else ""
            return f"limit {w.pick((1, 2))} per {{ {w.pick(names)} }}{offset}"
        return w.page(is_ordered)

    # --- outputs -------------------------------------------------------------------------------------

    def grouped(self, scope: Any, values: Values) -> str:
        w = self.writer
        keys = [f"${name}" for name in values.comparable if w.chance(2)]
        keys += [name for name in scope.all if w.chance(4)]
        folds = [self.aggregate(scope, values) for _ in w.times(1, 3)]
        columns = [f"{value} as c{place}" for place, value in enumerate([*keys, *(text for text, _ in folds)])]
        numbers = [f"c{len(keys) + place}" for place, (_, kind) in enumerate(folds) if kind == "numbers"]
        conditions = [f"{number} >= {w.pick((0, 1, 2))}" for number in numbers]
        # A block beside an aggregate may read what the groups have one of.
        nodes = [name for name in keys if name in scope.nodes]
        block = self.block(scope, w.pick(nodes)) if nodes else None
        if block is not None:
            columns += [f"count(*) + count {block} as d0", f"collect {{ {block[2:-2]} return 1 }} as d1"]
            conditions += [f"exists {block}", *(f"count {block} < {number}" for number in numbers[:1])]
        having = f"having {{ {w.pick(conditions)} }}" if conditions and w.chance(2) else ""
        order = f"order {{ {w.pick(numbers)}{w.direction()} }}" if numbers and w.chance(2) else ""
        page = self.page(bool(order), keys)
        return f"return {{ {', '.join(columns)} }} {having} {order} {page}"

    def block(self, scope: Any, name: str) -> str | None:
        """A block that reads one variable; None if no hop leads from it."""
        clauses = self.writer.hop(self.writer.new_scope({name: scope.nodes[name]}))
        return f"{{ {'; '.join(clauses)} }}" if clauses else None

    def windowed(self, scope: Any, values: Values) -> str:
        w = self.writer
        shown = self.shown(scope, values)
        columns = [*shown, *(self.window(scope, values) for _ in w.times(1, 3))]
        written = ", ".join(f"{value} as c{place}" for place, value in enumerate(columns))
        number = len(columns) - 1
        having = f"having {{ c{number} is not null }}" if w.chance(3) else ""
        distinct = "distinct " if w.chance(6) else ""
        order = f"order {{ c{number}{w.direction()} }}" if w.chance(2) else ""
        return f"return {distinct}{{ {written} }} {having} {order} {w.page(bool(order))}"

    def paged(self, scope: Any, values: Values) -> str:
        w = self.writer
        columns = self.shown(scope, values)
        written = ", ".join(f"{value} as c{place}" for place, value in enumerate(columns))
        # A constant orders nothing, and is refused as a key.
        keys = [f"c{place}{w.direction()}" for place, value in enumerate(columns) if value != "1" and w.chance(2)]
        order = f"order {{ {', '.join(keys)} }}" if keys else ""
        numbers = [*values.numbers]
        having = f"having {{ ${w.pick(numbers)} >= 1 }}" if numbers and w.chance(2) else ""
        return f"return {{ {written} }} {having} {order} {self.page(bool(keys), list(scope.all))}"

    def shown(self, scope: Any, values: Values) -> list[str]:
        w = self.writer
        columns = [f"${name}" for name in values.comparable]
        columns += [f"{name}.@id" for name in scope.all if w.chance(2)]
        columns += [self.scalar(scope)[0]] if scope.all and w.chance(2) else []
        return columns[:4] or ["1"]

    # --- values --------------------------------------------------------------------------------------

    def scalar(self, scope: Any) -> tuple[str, str]:
        w = self.writer
        usable = [(v, n) for v, n in w.properties(scope) if n not in ("u", "big")]
        if not usable or w.chance(3):
            return f"{w.pick(list(scope.all))}.@id", "scalars"
        variable, name = w.pick(usable)
        return f"{variable}.{name}", "numbers" if name in TAME else "scalars"

    def aggregate(self, scope: Any, values: Values) -> tuple[str, str]:
        w = self.writer
        forms: list[tuple[str, str]] = [("count(*)", "numbers")]
        numbers = [f"{v}.{n}" for v, n in w.properties(scope) if n in TAME] + [f"${name}" for name in values.numbers]
        if scope.all:
            variable = w.pick(list(scope.all))
            condition = w.predicate(scope)
            text, _ = self.scalar(scope)
            forms += [
                (f"count({variable} where {condition})", "numbers"),
                (f"any({condition})", "scalars"),
                (f"all({condition})", "scalars"),
                (f"collect({text})", "lists"),
                (f"collect({text} where {condition})", "lists"),
                (f"collect({text} order {{ {variable}.@id desc }} limit {w.pick((0, 1, 2))})", "lists"),
                (f"collect(distinct {text})", "lists"),
                (f"size(collect({variable}))", "numbers"),
            ]
        if numbers:
            number = w.pick(numbers)
            forms += [
                (f"round(stddev({number}), 6)", "numbers"),
                (f"round(variance({number}), 6)", "numbers"),
                (f"median({number})", "numbers"),
                (f"percentile({number}, {w.pick((0, 0.25, 0.9, 1))})", "numbers"),
                (f"sum({number} where {number} >= 1)", "numbers"),
            ]
        integers = [f"{v}.{n}" for v, n in w.properties(scope) if n in INTEGERS]
        if integers:
            forms.append((f"product({w.pick(integers)})", "numbers"))
        return w.pick(forms)

    def window(self, scope: Any, values: Values) -> str:
        w = self.writer
        per = [name for name in scope.all if w.chance(3)] + [f"${n}" for n in values.comparable if w.chance(4)]
        parts = [f"per {{ {', '.join(per)} }}"] if per else []
        orderable = [f"${n}" for n in values.comparable]
        orderable += [self.scalar(scope)[0]] if scope.all else []
        value = w.pick(orderable or ["1"])
        is_ordered = bool(orderable) and w.chance(3) is False
        if is_ordered:
            parts.append(f"order {{ {w.pick(orderable)}{w.direction()} }}")
        numbers = [f"{v}.{n}" for v, n in w.properties(scope) if n in TAME] + [f"${name}" for name in values.numbers]
        calls = ["row_number()", "rank()", f"lag({value})", f"lead({value})", "count(*)", f"count({value})"]
        calls += [f"min({value})", f"max({value})", f"any({value} is null)"]
        if numbers:
            number = w.pick(numbers)
            calls += [f"sum({number})", f"avg({number})", f"sum({number} where {number} >= 1)"]
            calls += [] if is_ordered else [f"median({number})"]
        return f"{w.pick(calls)} over {{ {' '.join(parts)} }}"

    # --- unions --------------------------------------------------------------------------------------

    def union(self) -> str:
        w = self.writer
        families = [w.pick(("number", "id", "text", "node")) for _ in w.times(1, 2)]
        reads = [self.union_read(families) for _ in w.times(2, 3)]
        body = reads[0]
        for read in reads[1:]:
            body += f"\n  {w.pick(('union', 'union all'))}\n  {read}"
        key = "$c0.@id" if families[0] == "node" else "c0"
        order = f"order {{ {key}{w.direction()} }}" if w.chance(2) else ""
        return f"{body} {order} {w.page(bool(order))}"

    def union_read(self, families: Sequence[str]) -> str:
        w = self.writer
        scope = w.new_scope({})
        clauses = w.pattern(scope)
        columns = [f"{self.of_family(scope, family)} as c{place}" for place, family in enumerate(families)]
        return f"match {{ {'; '.join(clauses)} }} return {{ {', '.join(columns)} }}"

    def of_family(self, scope: Any, family: str) -> str:
        w = self.writer
        if family == "node":
            return str(w.pick(list(scope.nodes)))
        if family == "id":
            return f"{w.pick(list(scope.all))}.@id"
        wanted = (
            TAME
            if family == "number"
            else [n for n in BY_NAME if BY_NAME[n].type in ("String", "enum(red, green, blue)")]
        )
        usable = [f"{v}.{n}" for v, n in w.properties(scope) if n in wanted]
        return w.pick(usable) if usable else w.pick(("2", "0.5") if family == "number" else ('"a"', '"red"'))


def write_stages(writer: Writer) -> str:
    """The body of a query."""
    return StageWriter(writer).body()
