"""The first pass over a block of clauses: collect its variables and hops, and infer their types."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.source import Span
from omnigraph.query.expr import EdgeRef, NodeRef, WalkOf
from omnigraph.query.infer import HopDraft, HopReading, TypeInference
from omnigraph.query.logical_plan import MAX_HOPS
from omnigraph.query.resolution import note_variable
from omnigraph.query.scope import BROKEN, BrokenType, Params, Scope, ValueVariable, VariableType
from omnigraph.query.union_types import list_members, unite_edges, unite_nodes
from omnigraph.schema.catalog import Catalog, EdgeType
from omnigraph.schema.findings import DiagnosticCollector, join_words

# More names would not fit into a help line.
_MAX_LISTED = 8


@dataclass(frozen=True, slots=True)
class NodeDraft:
    """A node binding and the node types that it allows; none if one is unknown, which is already reported."""

    clause: ast.Binding
    variable: str
    types: frozenset[str]


@dataclass(frozen=True, slots=True)
class ResolvedHop:
    """A hop with its edge variable and the readings that fit; both have no meaning if the hop has an error."""

    hop: HopDraft
    edge_variable: str | None
    readings: tuple[HopReading, ...]
    path: "PathDraft | None" = None


@dataclass(frozen=True, slots=True)
class PathDraft:
    """The clause of a path and the name of its variable; None if the name clashes, which is already reported."""

    clause: ast.PathClause
    variable: str | None


@dataclass(frozen=True, slots=True)
class BlockDraft:
    """The nodes and hops of a block, and the position and type of its own variables in order of appearance."""

    nodes: tuple[NodeDraft, ...]
    hops: tuple[ResolvedHop, ...]
    order: Mapping[str, Span]
    types: Mapping[str, VariableType]


@dataclass
class _BoundNames:
    """The names bound so far: own ones in order, the types of edge variables, and those with a name clash."""

    order: dict[str, Span] = field(default_factory=dict)
    edges: dict[str, VariableType] = field(default_factory=dict)
    # Variables of paths; their types are known once their hops are bound.
    walks: dict[str, VariableType] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    lets: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Collected:
    """The clauses of a block before inference: nodes, hops with their edge variables, paths by number of their hop."""

    nodes: list[NodeDraft]
    hops: list[tuple[HopDraft, str | None]]
    paths: dict[int, PathDraft]
    bound: _BoundNames
    inference: TypeInference


@dataclass(frozen=True)
class BlockDrafter:
    """Draft the blocks of one query; `generated_names` yields names that no user can write."""

    catalog: Catalog
    params: Params
    findings: DiagnosticCollector
    generated_names: Iterator[str]

    def draft(
        self, clauses: tuple[ast.Clause, ...], outer: Scope | None, hints: Mapping[str, frozenset[str]] | None = None
    ) -> BlockDraft:
        """Collect the nodes and hops of a block, and infer the types of its own variables.

        `hints` are the types that variables can have by what is known outside of these clauses.
        """
        collected = self._collect(clauses, outer, hints)
        bound, inference = collected.bound, collected.inference
        self._check_lets(clauses, bound, outer)
        inference.run([hop for hop, _ in collected.hops])
        resolved = tuple(
            ResolvedHop(hop, variable, inference.find_readings(hop, index), collected.paths.get(index))
            for index, (hop, variable) in enumerate(collected.hops)
        )
        return BlockDraft(
            nodes=tuple(collected.nodes),
            hops=resolved,
            order=bound.order,
            types=_collect_types(bound, inference, resolved),
        )

    def find_choices(self, clauses: tuple[ast.Clause, ...], outer: Scope | None) -> dict[str, frozenset[str]]:
        """Return the types that variables can have by what these clauses decide, without a guess of directions."""
        collected = self._collect(clauses, outer, None)
        collected.inference.narrow([hop for hop, _ in collected.hops])
        return collected.inference.choices

    def _collect(
        self, clauses: tuple[ast.Clause, ...], outer: Scope | None, hints: Mapping[str, frozenset[str]] | None
    ) -> "_Collected":
        """Collect the nodes and hops of a block, and the types that its bindings and `hints` allow."""
        bound = _BoundNames(lets={clause.variable.name for clause in clauses if isinstance(clause, ast.Let)})
        nodes: list[NodeDraft] = []
        hops: list[tuple[HopDraft, str | None]] = []
        paths: dict[int, PathDraft] = {}
        for clause in clauses:
            if isinstance(clause, ast.Binding):
                name = self._bind_node(clause.variable, bound, outer)
                nodes.append(NodeDraft(clause, name, self._find_node_types(clause.types)))
            elif isinstance(clause, ast.TraversalClause):
                hops.append(self._draft_hop(clause, bound, outer))
            elif isinstance(clause, ast.PathClause):
                # Before its hop: variables are ordered by their position in the text.
                paths[len(hops)] = PathDraft(clause, self._bind_walk(clause, bound, outer))
                hops.append(self._draft_hop(clause.hop, bound, outer, path=clause))
        # Types are inferred after all clauses are collected, because their order has no meaning.
        ends = [name for hop, _ in hops for name in (hop.source, hop.target)]
        choices = self._collect_bound_types(nodes, ends, bound, outer)
        choices |= {name: types for name, types in (hints or {}).items() if name not in choices and name in ends}
        return _Collected(nodes, hops, paths, bound, TypeInference(self.findings, choices, bound.broken))

    # --- names -----------------------------------------------------------------------------------

    def _bind_node(self, variable: ast.Variable, bound: _BoundNames, outer: Scope | None) -> str:
        """Bind a node variable and return its name; a generated, broken one if the name clashes."""
        if variable.name == ast.ANONYMOUS:
            return self._bind_anonymous(variable, bound)
        if self._is_param(variable, bound):
            return variable.name
        if variable.name in bound.lets or (outer is not None and outer.is_let(variable.name)):
            message = f"`${variable.name}` is an abbreviation (`let`), so it can't be bound or be an end of a hop"
            help_ = "use the variable itself, or give the abbreviation another name"
            self.findings.add_error("T6", variable.span, message, help_)
            return self._add_clash(bound)
        outer_type = None if outer is None else outer.find(variable.name)
        if variable.name in bound.walks or _is_walk(outer_type):
            message = f"`${variable.name}` is a path, so it can't be an end of a hop"
            help_ = "its ends are the variables of its hop; its nodes are `nodes($w)`"
            self.findings.add_error("T6", variable.span, message, help_.replace("$w", f"${variable.name}"))
            return self._add_clash(bound)
        if isinstance(outer_type, ValueVariable) and not isinstance(outer_type.type, NodeRef):
            message = f"`${variable.name}` is a value of type {outer_type.type}, not a node"
            help_ = "compare a property with it, or use another variable"
            self.findings.add_error("T5", variable.span, message, help_)
            return self._add_clash(bound)
        if variable.name in bound.edges or isinstance(outer_type, EdgeRef):
            help_ = "give the node variable another name; the ends of an edge are `@src` and `@dst`"
            self.findings.add_error("Q003", variable.span, f"`${variable.name}` is an edge variable, not a node", help_)
            return self._add_clash(bound)
        # A variable of an outer block is used here, not bound: it is none of the block's own variables.
        if outer_type is None:
            bound.order.setdefault(variable.name, variable.span)
        elif isinstance(outer_type, BrokenType):
            bound.broken.add(variable.name)
        return variable.name

    def _bind_edge_variable(
        self, clause: ast.TraversalClause, bound: _BoundNames, outer: Scope | None, type_: VariableType
    ) -> str | None:
        variable = clause.edge_variable
        if variable is None:
            return None
        name = variable.name
        if name == ast.ANONYMOUS:
            name = self._bind_anonymous(variable, bound)
            bound.edges[name] = type_
            return name
        if self._is_param(variable, bound):
            return None
        is_taken = name in bound.order or name in bound.broken or (outer is not None and outer.find(name) is not None)
        if is_taken:
            message = f"`${name}` is already a variable, so it can't name this edge"
            self.findings.add_error("Q003", variable.span, message, "give each edge variable a different name")
            return None
        bound.order[name] = variable.span
        bound.edges[name] = type_
        return name

    def _bind_walk(self, clause: ast.PathClause, bound: _BoundNames, outer: Scope | None) -> str | None:
        variable = clause.variable
        name = variable.name
        if name == ast.ANONYMOUS:
            name = self._bind_anonymous(variable, bound)
            bound.walks[name] = BROKEN
            return name
        if self._is_param(variable, bound):
            return None
        is_taken = name in bound.order or name in bound.broken or (outer is not None and outer.find(name) is not None)
        # The ends of the hop come after it in the text, and a path can't be one of them.
        if is_taken or name in (clause.hop.source.name, clause.hop.target.name):
            message = f"`${name}` is already a variable, so it can't name this path"
            self.findings.add_error("Q003", variable.span, message, "give each path a different name")
            return None
        bound.order[name] = variable.span
        bound.walks[name] = BROKEN
        return name

    def _is_param(self, variable: ast.Variable, bound: _BoundNames) -> bool:
        if variable.name not in self.params:
            return False
        message = f"`${variable.name}` is a parameter, so it can't be bound"
        help_ = "give the variable another name; to compare with the parameter, use it as a value"
        self.findings.add_error("Q003", variable.span, message, help_)
        # Bound anyway, but as broken, so that uses of the variable cause no further errors.
        bound.order.setdefault(variable.name, variable.span)
        bound.broken.add(variable.name)
        return True

    def _check_lets(self, clauses: tuple[ast.Clause, ...], bound: _BoundNames, outer: Scope | None) -> None:
        seen: set[str] = set()
        for clause in clauses:
            if not isinstance(clause, ast.Let):
                continue
            name, span = clause.variable.name, clause.variable.span
            is_outer = outer is not None and (outer.find(name) is not None or outer.is_let(name))
            if name == ast.ANONYMOUS:
                self.findings.add_error("Q003", span, "`$_` has no name, so nothing could use this abbreviation")
            elif name in self.params or name in bound.edges or name in seen or is_outer:
                message = f"there is already a `${name}`, so it can't be an abbreviation"
                self.findings.add_error("Q003", span, message, "give it another name")
            seen.add(name)

    def _bind_anonymous(self, variable: ast.Variable, bound: _BoundNames) -> str:
        name = next(self.generated_names)
        bound.order[name] = variable.span
        return name

    def _add_clash(self, bound: _BoundNames) -> str:
        name = next(self.generated_names)
        bound.broken.add(name)
        return name

    # --- types -----------------------------------------------------------------------------------

    def _find_node_types(self, names: tuple[lit.Name, ...]) -> frozenset[str]:
        """Return the node types that names stand for, those of interfaces included; none if one is unknown."""
        members = [self._find_node_type(name) for name in names]
        return frozenset().union(*members) if all(members) else frozenset()

    def _find_node_type(self, name: lit.Name) -> frozenset[str]:
        if name.text in self.catalog.nodes:
            return frozenset({name.text})
        message = f"unknown node type `{name.text}`"
        help_ = self.findings.suggest_closest(name.text, (*self.catalog.nodes, *self.catalog.interfaces))
        if name.text in ("Node", "Any", "Thing") and help_ is None:
            help_ = f"several types are written `({'|'.join(list(self.catalog.nodes)[:2])})`"
        if help_ is None and self.catalog.nodes:
            shown = [f"`{node}`" for node in islice(self.catalog.nodes, _MAX_LISTED)]
            rest = len(self.catalog.nodes) - len(shown)
            help_ = f"the node types are {', '.join(shown)}{f' and {rest} more' if rest else ''}"
        if name.text in self.catalog.interfaces:
            types = [node.name for node in self.catalog.nodes.values() if name.text in node.implements]
            if types:
                return frozenset(types)
            message = f"no node type implements the interface `{name.text}`"
            help_ = f"declare one: `node Thing implements {name.text} {{ … }}`"
        elif name.text in self.catalog.edges:
            message = f"`{name.text}` is an edge type, not a node type"
            help_ = f"bind an edge in a hop: `$a $e:{as_written(name.text)} $b`"
        self.findings.add_error("T1", name.span, message, help_)
        return frozenset()

    def _collect_bound_types(
        self, nodes: list[NodeDraft], ends: list[str], bound: _BoundNames, outer: Scope | None
    ) -> dict[str, frozenset[str]]:
        """Return the candidate types before inference: those bound in this block, and those of outer blocks."""
        types: dict[str, frozenset[str]] = {}
        # Outer types come first: a `not` block never decides a type of its outer block.
        for name in (*(node.variable for node in nodes), *ends):
            outer_type = None if outer is None else outer.find(name)
            if isinstance(outer_type, NodeRef):
                types[name] = frozenset(list_members(outer_type.name))
        for drafted in nodes:
            if not drafted.types:
                bound.broken.add(drafted.variable)
                continue
            # A variable may be bound twice; then it has the types of both, and both filters apply.
            others = types.setdefault(drafted.variable, drafted.types)
            if others & drafted.types:
                types[drafted.variable] = others & drafted.types
            else:
                variable = drafted.clause.variable.name
                other, type_ = (unite_nodes(names).name for names in (others, drafted.types))
                message = f"`${variable}` is of type `{other}`, so it can't be bound to `{type_}`"
                self.findings.add_error("T5", drafted.clause.type.span, message, "use another variable")
        return {name: members for name, members in types.items() if name not in bound.broken}

    # --- hops ------------------------------------------------------------------------------------

    def _draft_hop(
        self,
        clause: ast.TraversalClause,
        bound: _BoundNames,
        outer: Scope | None,
        *,
        path: ast.PathClause | None = None,
    ) -> tuple[HopDraft, str | None]:
        source = self._bind_node(clause.source, bound, outer)
        edges = self._find_edges(clause)
        # The type of the edge variable of a hop of several edge types is known only after inference.
        type_: VariableType = build_edge_ref(edges[0]) if edges else BROKEN
        edge_variable = self._bind_edge_variable(clause, bound, outer, type_)
        is_reported = not (self._check_shape(clause) and self._check_ends(clause, edges) and self._check_path(path))
        # After the edge variable: variables are numbered and ordered by their position in the text.
        target = self._bind_node(clause.target, bound, outer)
        hop = HopDraft(clause=clause, source=source, target=target, edges=edges, is_reported=is_reported)
        return hop, edge_variable

    def _find_edges(self, clause: ast.TraversalClause) -> tuple[EdgeType, ...]:
        """Return the edge types that a hop names, without repeats; none if one is unknown, which is reported."""
        if not clause.edges:
            # A named pattern is followed by its name only; edge types of the schema start with a capital.
            edges = tuple(edge for edge in self.catalog.edges.values() if not edge.name[:1].islower())
            if not edges:
                self.findings.add_error("T4", clause.edge_span, "the schema has no edge types")
            return edges
        known: dict[str, EdgeType] = {}
        is_complete = True
        for written in clause.edges:
            edge = self.catalog.find_edge(written.name.text)
            if edge is None:
                is_complete = False
                names = [as_written(name) for name in self.catalog.edges]
                help_ = self.findings.suggest_closest(written.name.text, names) or _list_edges(names)
                self.findings.add_error("T4", written.name.span, f"unknown edge `{written.name.text}`", help_)
            else:
                known[edge.name] = edge
        return tuple(known.values()) if is_complete else ()

    def _check_shape(self, clause: ast.TraversalClause) -> bool:
        before = len(self.findings)
        bounds, variable = clause.bounds, clause.edge_variable
        if bounds is not None and not _are_valid_bounds(bounds):
            high = "*" if bounds.high is None else bounds.high
            message = f"the bounds {bounds.low},{high} are outside 0 ≤ min ≤ max ≤ {MAX_HOPS}, max ≥ 1"
            self.findings.add_error("T15", bounds.span, message, f"without an upper bound: `{{{bounds.low},*}}`")
        if variable is not None and bounds is not None:
            message = f"`${variable.name}` stands for one edge, but the hop has several steps"
            help_ = "drop the bounds or the edge variable; a walk has `edges($w)`: `path $w = $a knows{1,3} $b`"
            self.findings.add_error("T23", variable.span, message, help_)
        return len(self.findings) == before

    def _check_path(self, path: ast.PathClause | None) -> bool:
        """Check the shape of a path: its bounds and its weight."""
        if path is None:
            return True
        before = len(self.findings)
        hop, kind = path.hop, path.kind
        bounds = hop.bounds
        if hop.edge_variable is not None:
            message = f"`${hop.edge_variable.name}` stands for one edge, but a path has several"
            self.findings.add_error(
                "T23", hop.edge_variable.span, message, f"its edges are `edges(${path.variable.name})`"
            )
        if kind is ast.PathKind.PATH and bounds is not None and bounds.high is None:
            help_ = f"give one, `{{{bounds.low},4}}`, or write `shortest ${path.variable.name} = …`"
            self.findings.add_error("T15", bounds.span, "a `path` lists all walks, so it needs an upper bound", help_)
        if kind is ast.PathKind.CHEAPEST and path.weight is None:
            edge_text = hop.edge.text
            message = "a `cheapest` path needs the weight of an edge"
            help_ = f"write it after the hop: `$a {edge_text}{{1,*}} $b by {{ weight }}`"
            self.findings.add_error("T15", hop.span, message, help_)
        if kind is not ast.PathKind.CHEAPEST and path.weight is not None:
            message = f"a `{kind.value}` path has no weights"
            self.findings.add_error("T15", path.weight.span, message, "drop `by`, or write `cheapest`")
        if kind is ast.PathKind.CHEAPEST and bounds is not None and bounds.low > 1:
            message = f"a `cheapest` path has at least 0 or 1 edges, not {bounds.low}"
            self.findings.add_error("T15", bounds.span, message, "filter by `length(…)`, or write `path`")
        return len(self.findings) == before

    def _check_ends(self, clause: ast.TraversalClause, edges: tuple[EdgeType, ...]) -> bool:
        # Edges between nodes of one type can be followed several times, and in both directions. Of several edge types,
        # each is followed where it fits; of one between different types, over several edges, to and fro.
        if len(clause.edges) != 1 or not edges or edges[0].source == edges[0].target:
            return True
        edge = edges[0]
        written = clause.edge.text
        runs = f"`{written}` runs from `{edge.source}` to `{edge.target}`"
        is_multi = clause.bounds is not None and (clause.bounds.low, clause.bounds.high) != (1, 1)
        if clause.is_undirected and is_multi:
            return True
        if clause.is_undirected:
            variable = "" if clause.edge_variable is None else f"${clause.edge_variable.name}:"
            plain = f"`${clause.source.name} {variable}{written} ${clause.target.name}`"
            self.findings.add_error("T22", clause.edge.span, f"{runs}, so it has a direction", f"write {plain}")
            return False
        if clause.bounds is not None:
            message = f"{runs}, so it can't be followed several times"
            bounds = f"{{{clause.bounds.low},{clause.bounds.high or '*'}}}"
            both_ways = f"`${clause.source.name} <{written}>{bounds} ${clause.target.name}`"
            help_ = f"drop the bounds, or follow it to and fro: {both_ways}" if is_multi else "drop the bounds"
            self.findings.add_error("T15", clause.bounds.span, message, help_)
            return False
        return True


def _is_walk(type_: VariableType | None) -> bool:
    return isinstance(type_, ValueVariable) and isinstance(type_.type, WalkOf)


def as_written(edge: str) -> str:
    """Return an edge type's name as hops usually write it: `livesIn` for `LivesIn`."""
    return edge[:1].lower() + edge[1:]


def build_edge_ref(edge: EdgeType) -> EdgeRef:
    """Build the type of an edge variable."""
    return EdgeRef(edge.name, edge.source, edge.target)


def _are_valid_bounds(bounds: ast.HopBounds) -> bool:
    if bounds.high is None:
        return 0 <= bounds.low <= MAX_HOPS
    return 0 <= bounds.low <= bounds.high <= MAX_HOPS and bounds.high >= 1


def _collect_types(
    bound: _BoundNames, inference: TypeInference, hops: tuple[ResolvedHop, ...]
) -> dict[str, VariableType]:
    edge_types = dict(bound.edges)
    for drafted in hops:
        edges = [reading.edge for reading in drafted.readings if reading.edge is not None]
        if drafted.edge_variable is not None and edges:
            edge_types[drafted.edge_variable] = unite_edges(map(build_edge_ref, edges))
    types: dict[str, VariableType] = {}
    for name in bound.order:
        choices = inference.choices.get(name, frozenset())
        if name in edge_types:
            types[name] = edge_types[name]
        elif name in bound.walks or name in inference.broken or not choices:
            types[name] = BROKEN
        else:
            types[name] = unite_nodes(choices)
    for name, span in bound.order.items():
        if types[name] is not BROKEN:
            note_variable(span, types[name])
    return types


def _list_edges(names: list[str]) -> str:
    """Return a help line with the edges of a schema, as many as fit into a line."""
    if not names:
        return "the schema has no edges"
    shown = join_words(names[:_MAX_LISTED])
    return f"the edges are {shown}" if len(names) <= _MAX_LISTED else f"some of the edges are {shown}"
