"""Random reads of a random graph, as text: every one of them parses and binds.

The text is put together from the grammar's parts, knowing the types, so that parser and binder are exercised too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from random import Random
from typing import Any, TypeVar

from hypothesis import strategies as st

from block_queries import Blocks
from omnigraph.query.expr import EdgeRef, EntityType, NodeRef
from read_stage_queries import write_stages
from read_unions import union_writer
from read_walks import write_conditions, write_path
from read_worlds import BY_NAME, QUERY_WORDS, TAME, VECTORS, TypeSpec, World, random_world
from value_queries import Elements

T = TypeVar("T")

NUMBERS = ("-1", "0", "1", "2", "2.0", "2.7", "-0.0", "0.1", "3000000000", "9007199254740993", "18446744073709551615")
"""Numbers that some column types hold exactly, some nearly and some not at all."""
FRACTIONS = (-0.5, 0.1, 0.5, 2.5, 2.7, 0.1, 1e-300)
"""Some that an F32 holds, and some that it only holds nearly: as an F32 and an F64 they differ."""
COMPARISONS = ("=", "!=", "!=", "<", "<=", ">", ">=")
FAMILIES = {
    "I32": "number",
    "I64": "number",
    "U32": "number",
    "U64": "number",
    "F32": "number",
    "F64": "number",
    "String": "text",
    "enum(red, green, blue)": "enum",
    "Bool": "Bool",
    "Date": "Date",
    "DateTime": "DateTime",
}
PARAM_TYPES = {"number": ("I32", "I64", "U64", "F32", "F64"), "text": ("String",), "enum": ("String",)}


@dataclass(frozen=True)
class Asked:
    """A query and its parameters."""

    text: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Triple:
    """A graph, and queries of it."""

    world: World = field(repr=False)
    queries: Sequence[Asked]


def literal(value: Any) -> str:
    """A value as the query language writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            digits, _, exponent = repr(value).partition("e")
            digits = digits if "." in digits else f"{digits}.0"
            return f"{digits}e{exponent.lstrip('+')}" if exponent else digits
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case datetime():
            instant = value.isoformat().replace("+00:00", "Z")
            return f'datetime("{instant}")'
        case date():
            return f'date("{value.isoformat()}")'
        case tuple():
            return f"[{', '.join(literal(item) for item in value)}]"
        case _:
            return "null"


def random_triple(chance: Random, queries: int = 6, most_nodes: int = 7, most_edges: int = 12) -> Triple:
    """A graph with some queries."""
    world = random_world(chance, most_nodes, most_edges)
    return Triple(world, [_Writer(chance, world).query() for _ in range(queries)])


def random_stage_triple(chance: Random, queries: int = 6, most_nodes: int = 6, most_edges: int = 9) -> Triple:
    """A graph with some queries that have stages, unions, windows and the like."""
    world = random_world(chance, most_nodes, most_edges)
    return Triple(world, [_Writer(chance, world).staged_query() for _ in range(queries)])


def triples() -> st.SearchStrategy[Triple]:
    """The same as a strategy, which finds a small one that fails."""
    return st.randoms(use_true_random=False).map(random_triple)


@dataclass
class _Scope:
    """The variables that a block sees: node types and edge types by variable."""

    nodes: dict[str, TypeSpec] = field(default_factory=dict)
    edges: dict[str, TypeSpec] = field(default_factory=dict)
    walks: list[str] = field(default_factory=list)
    # The walks whose nodes all have one type.
    node_lists: dict[str, TypeSpec] = field(default_factory=dict)

    @property
    def all(self) -> dict[str, TypeSpec]:
        return {**self.nodes, **self.edges}

    def inner(self) -> "_Scope":
        return _Scope(dict(self.nodes), dict(self.edges), list(self.walks))


class _Writer:
    """Writes one query."""

    def __init__(self, random: Random, world: World) -> None:
        self.random, self.world = random, world
        self.declared: list[str] = []
        self.params: dict[str, Any] = {}
        self.fresh = iter(f"$v{number}" for number in range(1, 1000))
        self.blocks = Blocks(self)
        self.elements = Elements(self)

    # --- choices -----------------------------------------------------------------------------------

    def pick(self, items: Sequence[T]) -> T:
        return self.random.choice(items)

    def chance(self, one_in: int) -> bool:
        return self.random.randrange(one_in) == 0

    def times(self, least: int, most: int) -> range:
        return range(self.random.randint(least, most))

    def param(self, type_: str, value: Any) -> str:
        name = f"p{len(self.params) + 1}"
        is_nullable = self.chance(3)
        self.declared.append(f"${name}: {type_}{'?' if is_nullable else ''}")
        self.params[name] = None if is_nullable and self.chance(2) else value
        return f"${name}"

    # --- the whole -----------------------------------------------------------------------------------

    def query(self) -> Asked:
        scope = _Scope()
        clauses = self.pattern(scope)
        is_widened = self.chance(3)
        if is_widened:
            self.widen(scope, clauses)
        clauses += [self.predicate(scope) for _ in range(self.pick((0, 0, 0, 0, 0, 1, 1, 2)))]
        if self.chance(3):
            clauses += self.not_block(scope, depth=1)
        if self.chance(3):
            clauses += self.elements.clauses(scope)
            # A hop between types that were narrowed could leave none.
            clauses += self.hop(scope) if not is_widened and self.chance(2) else []
        is_with_blocks = self.chance(2)
        if is_with_blocks:
            clauses += self.blocks.clauses(scope)
        if self.chance(3):
            self.random.shuffle(clauses)
        if is_with_blocks:
            # Their order counts, and so does that a variable is bound before a block names it.
            clauses += self.blocks.optionals(scope)
        kind = self.pick((self.plain, self.plain, self.grouped, self.grouped, self.distinct, self.ranked))
        tail = kind(scope)
        # After a clause that ends in a value, a sign would subtract.
        body = "\n    ".join(f"; {clause}" if clause.startswith("-") else clause for clause in clauses)
        text = f"query q({', '.join(self.declared)}) {{\n  match {{\n    {body}\n  }}\n  {tail}\n}}\n"
        return Asked(text, self.params)

    def staged_query(self) -> Asked:
        body = write_stages(self)
        return Asked(f"query q({', '.join(self.declared)}) {{\n  {body}\n}}\n", self.params)

    # --- match ---------------------------------------------------------------------------------------

    def pattern(self, scope: _Scope) -> list[str]:
        clauses = [self.binding(scope, self.new_node(scope, self.pick(self.world.nodes)))]
        for _ in self.times(0, 3):
            clauses += self.hop(scope)
        if self.chance(4):
            clauses += self.other_part(scope)
        return clauses

    def widen(self, scope: _Scope, clauses: list[str]) -> None:
        """Add hops of several edge types and variables of several types; both may narrow the variables before them."""
        unions = union_writer(self.random, self.world)
        for _ in self.times(1, 2):
            end = next(self.fresh)
            starts = list(scope.nodes)
            if self.chance(2):
                starts = [next(self.fresh)]
            more = unions.bindings(starts[0]) if starts[0] not in scope.nodes else []
            if self.world.edges:
                known = self.pick([end, end, end, *scope.nodes])
                more.append(unions.hop(self.pick(starts), known, next(self.fresh)))
            if self.chance(4) and self.world.edges:
                hop = unions.hop(self.pick(starts), next(self.fresh), next(self.fresh))
                more.append(f"not {{ {hop} }}")
            types = unions.types([*clauses, *more], self.declared)
            if types is not None:
                clauses += more
                scope.nodes = {k: unions.spec(t) for k, t in types.items() if k[1] == "v" and isinstance(t, NodeRef)}
                scope.edges = {k: unions.spec(t) for k, t in types.items() if k[1] == "v" and _is_edge(t)}

    def other_part(self, scope: _Scope) -> list[str]:
        """What no hop connects with the rest; a predicate may."""
        own = _Scope()
        clauses = [self.binding(own, self.new_node(own, self.pick(self.world.nodes)))]
        if self.chance(2):
            clauses += self.hop(own)
        scope.nodes |= own.nodes
        scope.edges |= own.edges
        return clauses + ([self.comparison(scope)] if self.chance(2) else [])

    def new_scope(self, nodes: dict[str, TypeSpec]) -> _Scope:
        return _Scope(dict(nodes))

    def new_node(self, scope: _Scope, spec: TypeSpec) -> str:
        name = next(self.fresh)
        scope.nodes[name] = spec
        return name

    def binding(self, scope: _Scope, variable: str) -> str:
        spec = scope.nodes[variable]
        inside = self.brace_filter(spec) if spec.properties and self.chance(8) else ""
        return f"{variable}: {spec.name} {{ {inside} }}" if inside else f"{variable}: {spec.name}"

    def brace_filter(self, spec: TypeSpec) -> str:
        kind = BY_NAME[self.pick(list(spec.properties))]
        if kind.type.startswith(("Vector", "Blob")):
            return ""
        if kind.type.startswith("["):
            items = self.pick([value for value in kind.values if value])
            return f"{kind.name}: {literal(self.pick(items))}"
        return f"{kind.name}: {self.value_like(kind.type, kind.values)}"

    def hop(self, scope: _Scope) -> list[str]:
        """A hop from a variable that is there, to a new one or (a cycle) to another."""
        start = self.pick(list(scope.nodes))
        here = scope.nodes[start]
        usable = [spec for spec in self.world.edges if here.name in (spec.source, spec.target)]
        if not usable:
            return []
        edge = self.pick(usable)
        there = self.world.types[edge.target if edge.source == here.name else edge.source]
        known = [name for name, spec in scope.nodes.items() if spec is there]
        clauses: list[str] = []
        if known and self.chance(4):
            end = self.pick(known)
        elif self.chance(8):
            end = "$_"
        else:
            end = self.new_node(scope, there)
            if self.chance(2):
                clauses.append(self.binding(scope, end))
        left, right = (start, end) if self.chance(2) else (end, start)
        if left == "$_":
            left, right = right, left
        if (edge.source == edge.target or end != "$_") and self.chance(6):
            walk = next(self.fresh)
            clauses += [f"{end}: {there.name}"] if edge.source != edge.target else []
            scope.walks.append(walk)
            if edge.source == edge.target:
                scope.node_lists[walk] = there
            return [write_path(self.random, edge, _edge_name(edge), walk, (left, right), there), *clauses]
        text = self.edge_text(scope, edge)
        conditions = write_conditions(self.random, edge, there) if edge.source == edge.target else ""
        return [f"{left} {text} {right}{conditions if self.chance(3) else ''}", *clauses]

    def edge_text(self, scope: _Scope, edge: TypeSpec) -> str:
        name = f'"{edge.name}"' if edge.name == "In" else self.pick((edge.name, edge.name[0].lower() + edge.name[1:]))
        if self.chance(3):
            variable = next(self.fresh)
            scope.edges[variable] = edge
            is_undirected = edge.source == edge.target and self.chance(3)
            return f"{variable}:<{name}>" if is_undirected else f"{variable}:{name}"
        if edge.source != edge.target:
            return name
        low = self.pick((1, 1, 1, 1, 2, 3))
        bounds = f"{{{low},{low + self.pick((0, 1, 2, 61))}}}" if self.chance(2) else ""
        return f"<{name}>{bounds}" if self.chance(3) else f"{name}{bounds}"

    def not_block(self, scope: _Scope, depth: int) -> list[str]:
        inner = scope.inner()
        shared = self.pick(list(scope.nodes))
        only = _Scope({shared: scope.nodes[shared]})
        clauses = self.hop(only)
        inner.nodes |= only.nodes
        inner.edges |= only.edges
        if self.chance(2):
            clauses += self.hop(inner)
        if not clauses or self.chance(2):
            clauses.append(self.predicate(_Scope({shared: scope.nodes[shared]})))
        if self.chance(2):
            clauses.append(self.predicate(inner))
        if depth < 3 and self.chance(3):
            clauses += self.not_block(inner, depth + 1)
        return [f"not {{ {'; '.join(clauses)} }}"] if any(shared in clause for clause in clauses) else []

    # --- predicates ------------------------------------------------------------------------------------

    def predicate(self, scope: _Scope, depth: int = 0) -> str:
        if depth < 2 and self.chance(3):
            word = self.pick((" and ", " or "))
            return f"({word.join(self.predicate(scope, depth + 1) for _ in self.times(2, 3))})"
        if depth < 3 and self.chance(5):
            return f"not ({self.predicate(scope, depth + 1)})"
        return self.pick(self._forms(scope))(scope)

    def _forms(self, scope: _Scope) -> list[Callable[[_Scope], str]]:
        forms: list[Callable[[_Scope], str]] = [*[self.comparison] * 4, self.null_test, self.identity]
        if any("x" in spec.properties for spec in scope.all.values()):
            forms.append(self.search)
        if any({"l", "m"} & set(spec.properties) for spec in scope.all.values()):
            forms.append(self.membership)
        return forms

    def properties(self, scope: _Scope, *names: str) -> list[tuple[str, str]]:
        """(variable, kind) pairs of the scope, of these kinds if any are named."""
        return [
            (variable, name)
            for variable, spec in scope.all.items()
            for name in spec.properties
            if name in names or (not names and BY_NAME[name].is_scalar)
        ]

    def comparison(self, scope: _Scope) -> str:
        usable = self.properties(scope)
        if not usable:
            return self.identity(scope)
        variable, name = self.pick(usable)
        kind, left = BY_NAME[name], f"{variable}.{name}"
        family = FAMILIES[kind.type]
        others = [f"{v}.{n}" for v, n in usable if FAMILIES[BY_NAME[n].type] == family]
        if self.chance(3) and len(others) > 1:
            return f"{left} {self.pick(COMPARISONS)} {self.pick(others)}"
        if family == "text" and self.chance(2):
            part = self.value_like(kind.type, ("", "a", "A", "graph", "\u00e9", "e", "zo"))
            return f"{left} {self.pick(('contains', 'starts_with'))} {part}"
        if self.chance(4):
            values = tuple(self.pick(kind.values) for _ in self.times(0, 3))
            if family == "enum" or self.chance(2):
                return f"{left} in {literal(values)}"
            return f"{left} in {self.list_like(kind.type, values)}"
        value = self.value_like(kind.type, kind.values)
        sides = (left, value) if self.chance(2) else (value, left)
        comparison = f"{sides[0]} {self.pick(COMPARISONS)} {sides[1]}"
        # After the value of the clause before it, a minus would subtract.
        return f"({comparison})" if comparison.startswith("-") else comparison

    def value_like(self, type_: str, values: Sequence[Any]) -> str:
        """A literal or parameter that compares with a type."""
        family = FAMILIES[type_]
        if self.chance(16):
            return "null"
        if self.chance(3):
            declared = self.pick(PARAM_TYPES.get(family, (type_,)))
            if declared in ("F32", "F64") and self.chance(2):
                return self.param(declared, self.pick(FRACTIONS))
            fits = [value for value in values if _fits(declared, value)] or [_EXAMPLES[declared]]
            return self.param(declared, self.pick(fits))
        if family == "number" and self.chance(2):
            return self.pick(NUMBERS)
        return literal(self.pick(values))

    def list_like(self, type_: str, values: Sequence[Any]) -> str:
        """A parameter that holds these values and is a list of their type, or of another that compares with it."""
        if FAMILIES[type_] != "number" or self.chance(2):
            return self.param(f"[{type_}]", list(values))
        declared = self.pick(PARAM_TYPES["number"])
        items = [value for value in (*values, *self.random.sample(FRACTIONS, 2)) if _fits(declared, value)]
        return self.param(f"[{declared}]", items)

    def null_test(self, scope: _Scope) -> str:
        names = [(v, n) for v, spec in scope.all.items() for n in spec.properties]
        if not names:
            return self.identity(scope)
        variable, name = self.pick(names)
        return f"{variable}.{name} is {self.pick(('', 'not '))}null"

    def identity(self, scope: _Scope) -> str:
        variable = self.pick(list(scope.all))
        same = [other for other, spec in scope.nodes.items() if spec is scope.nodes.get(variable)]
        if same and self.chance(2):
            return f"{variable} {self.pick(('=', '!='))} {self.pick(same)}"
        ends = ("@id", "@src", "@dst") if variable in scope.edges else ("@id",)
        left = f"{variable}.{self.pick(ends)}"
        if self.chance(3):
            return f"{left} in {literal(tuple(self.pick(_ID_TEXTS) for _ in self.times(0, 3)))}"
        return f"{left} {self.pick(COMPARISONS)} {literal(self.pick(_ID_TEXTS))}"

    def membership(self, scope: _Scope) -> str:
        variable, name = self.pick(self.properties(scope, "l", "m"))
        element = self.pick([item for value in BY_NAME[name].values for item in value])
        text = literal(element) if self.chance(2) else self.param("String" if name == "l" else "I64", element)
        if self.chance(2):
            return f"{text} in {variable}.{name}"
        return f"{variable}.{name} contains {text}"

    def search(self, scope: _Scope) -> str:
        variable, _ = self.pick(self.properties(scope, "x"))
        function = self.pick(("search", "match_text", "fuzzy"))
        asked = self.words()
        if function == "match_text" and self.chance(2):
            phrase = literal(f'"{asked}"')
            return f"match_text({variable}.x, {phrase})"
        if function == "fuzzy" and self.chance(2):
            return f"fuzzy({variable}.x, {literal(asked)}, {self.pick((0, 1, 2))})"
        return f"{function}({variable}.x, {literal(asked)})"

    def words(self) -> str:
        return " ".join(
            self.pick((*QUERY_WORDS, "the", "Running", "CAF\u00c9")) for _ in range(self.pick((1, 1, 2, 3)))
        )

    # --- return ----------------------------------------------------------------------------------------

    def plain(self, scope: _Scope) -> str:
        shown = [self.any_value(scope) for _ in self.times(1, 4)]
        blocks = [block for _ in self.times(0, 2) if self.chance(3) and (block := self.blocks.column(scope))]
        columns = self.columns([*shown, *blocks, *(value for value, _ in self.blocks.values if self.chance(2))])
        keys = [f"{value}{self.direction()}" for value in self.scalars(scope) if self.chance(2)][:2]
        keys += [
            f"{value}{self.direction()}" for value, is_scalar in self.blocks.values if is_scalar and self.chance(3)
        ]
        aliases = [f"c{place}" for place, value in columns if "." in value and not _is_list(value) and "{" not in value]
        if aliases and self.chance(4):
            keys.append(self.pick(aliases) + self.direction())
        return f"return {{ {_shown(columns)} }} {_order(keys)} {self.page(bool(keys))}"

    def distinct(self, scope: _Scope) -> str:
        if self.chance(8):
            return f'return distinct {{ 7 as c0, "x" as c1 }} {self.page(False)}'
        columns = self.columns([self.comparable_value(scope) for _ in self.times(1, 3)])
        keys = [value if "." in value else f"{value}.@id" for _, value in columns]
        chosen = [key + self.direction() for key in keys if self.chance(2)]
        return f"return distinct {{ {_shown(columns)} }} {_order(chosen)} {self.page(bool(chosen))}"

    def grouped(self, scope: _Scope) -> str:
        keys = list(dict.fromkeys(self.comparable_value(scope) for _ in self.times(0, 2)))
        folds = list(dict.fromkeys(self.aggregate(scope) for _ in self.times(1, 3)))
        columns = self.columns([*keys, *folds])
        orders = [key if "." in key else f"{key}.@id" for key in keys]
        orders += [fold for fold in folds if "big" not in fold]
        orders += [f"c{place}" for place, value in columns if "(" in value and "big" not in value]
        chosen = [order + self.direction() for order in orders if self.chance(3)]
        return f"return {{ {_shown(columns)} }} {_order(chosen)} {self.page(bool(chosen))}"

    def ranked(self, scope: _Scope) -> str:
        """An order by a rank function, where some node has a text or a vector."""
        nodes = scope.nodes.keys() - self.blocks.optional.keys()
        single = {variable for variable in nodes if scope.nodes[variable].name in self.world.types}
        ranks = [f"bm25({v}.x, {literal(self.words())})" for v, n in self.properties(scope, "x") if v in single]
        vectors = [(v, n) for v, n in self.properties(scope, "v") if v in single]
        ranks += [f"nearest({v}.v, {literal(self.pick(VECTORS))})" for v, _ in vectors]
        if not ranks:
            return self.plain(scope)
        rank = self.pick(ranks)
        variable = rank.partition("(")[2].partition(".")[0]
        columns = self.columns([self.any_value(scope), f"{variable}.@id"])
        if self.chance(2):
            columns.append((len(columns), rank))
        fused = [other for other in ranks if f"({variable}." in other]
        if len(fused) > 1 and self.chance(2):
            rank = f"rrf({fused[0]}, {fused[1]}{self.pick(('', ', 1', ', k=10'))})"
        further = [value + self.direction() for value in self.scalars(scope) if self.chance(4)][:1]
        return f"return {{ {_shown(columns)} }} {_order([rank, *further])} limit {self.pick((1, 2, 5, 100))}"

    def any_value(self, scope: _Scope) -> str:
        if scope.walks and self.chance(3):
            return f"length({self.pick(scope.walks)})"
        variable = self.pick(list(scope.all))
        spec = scope.all[variable]
        if spec.properties and self.chance(2):
            return f"{variable}.{self.pick(list(spec.properties))}"
        if self.chance(8):
            return self.pick(("1", '"text"', "now()", self.param("I64", 7)))
        if spec.name not in self.world.types and self.chance(3):
            return f"{variable}.@type"
        return self.pick((variable, f"{variable}.@id"))

    def scalars(self, scope: _Scope) -> list[str]:
        found = [f"{variable}.{name}" for variable, name in self.properties(scope)]
        return found + [f"{variable}.@id" for variable in scope.all]

    def comparable_value(self, scope: _Scope) -> str:
        variable = self.pick(list(scope.all))
        return self.pick((*self.scalars(_Scope({variable: scope.all[variable]})), variable))

    def aggregate(self, scope: _Scope) -> str:
        variable = self.pick(list(scope.all))
        spec = scope.all[variable]
        scalar = [name for name in spec.properties if BY_NAME[name].is_scalar]
        numbers = [name for name in scalar if name in TAME or (name in ("big", "u") and self.chance(4))]
        forms = ["count(*)", f"count({variable})", f"count(distinct {variable})"]
        if scope.walks and self.chance(2):
            walk = self.pick(scope.walks)
            forms = [f"count({walk})", f"count(distinct {walk})", f"max(length({walk}))", f"sum(length({walk}))"]
        if scalar:
            forms += [f"{fold}({variable}.{self.pick(scalar)})" for fold in ("min", "max", "count")]
            forms.append(f"count(distinct {variable}.{self.pick(scalar)})")
        if numbers:
            forms += [f"{fold}({variable}.{self.pick(numbers)})" for fold in ("sum", "avg")]
        return self.pick(forms)

    def columns(self, values: Sequence[str]) -> list[tuple[int, str]]:
        return list(enumerate(values))

    def direction(self) -> str:
        return self.pick(("", " asc", " desc"))

    def page(self, is_ordered: bool) -> str:
        parts = []
        if self.chance(2 if is_ordered else 4):
            limit = self.pick((1, 2, 3, 5, 10, 2**40, 0))
            is_param = self.chance(3)
            parts.append(f"limit {self.count_param(limit) if is_param else limit}")
        if self.chance(4):
            parts.append(f"offset {self.pick((0, 1, 1, 2, 3, 50))}")
        return " ".join(parts)

    def count_param(self, value: int) -> str:
        name = f"p{len(self.params) + 1}"
        self.declared.append(f"${name}: I64")
        self.params[name] = value
        return f"${name}"


_ID_TEXTS = ("a", "b", "A", "9", "10", "Knows-01", "\u00e9", "\U0001f642")
_EXAMPLES: dict[str, Any] = {"I32": 2, "I64": 2**53 + 1, "U64": 2**64 - 1, "F32": 0.1, "F64": 0.5}
_BOUNDS = {"I32": (-(2**31), 2**31 - 1), "I64": (-(2**63), 2**63 - 1), "U64": (0, 2**64 - 1)}


def _fits(type_: str, value: Any) -> bool:
    """Whether a value can be given for a parameter of the type."""
    if type_ in _BOUNDS:
        low, high = _BOUNDS[type_]
        return isinstance(value, int) and low <= value <= high
    if type_ == "F32":
        return bool(abs(value) <= (2**24 if isinstance(value, int) else 1e38))
    if type_ == "F64":
        return isinstance(value, float) or abs(value) <= 2**53
    return True


def _edge_name(edge: TypeSpec) -> str:
    return f'"{edge.name}"' if edge.name == "In" else edge.name


def _is_edge(type_: EntityType) -> bool:
    return isinstance(type_, EdgeRef)


def _is_list(value: str) -> bool:
    name = value.partition(".")[2]
    return name in BY_NAME and not BY_NAME[name].is_scalar


def _shown(columns: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{value} as c{place}" for place, value in columns)


def _order(keys: Sequence[str]) -> str:
    return f"order {{ {', '.join(keys)} }}" if keys else ""
