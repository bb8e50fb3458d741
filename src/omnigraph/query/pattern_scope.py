"""The first pass over a block of clauses: collect its variables and hops, and infer their types."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.source import Span
from omnigraph.query.expr import EdgeRef, NodeRef
from omnigraph.query.infer import HopDraft, TypeInference
from omnigraph.query.logical_plan import MAX_HOPS, HopDirection
from omnigraph.query.scope import BROKEN, BrokenType, Params, Scope, ValueVariable, VariableType
from omnigraph.schema.catalog import Catalog, EdgeType, NodeType
from omnigraph.schema.findings import DiagnosticCollector, join_words


@dataclass(frozen=True, slots=True)
class NodeDraft:
    """A node binding; `type` is None if it is unknown, which is already reported."""

    clause: ast.Binding
    variable: str
    type: NodeType | None


@dataclass(frozen=True, slots=True)
class ResolvedHop:
    """A hop with its direction and edge variable; both have no meaning if the hop has an error."""

    hop: HopDraft
    edge_variable: str | None
    direction: HopDirection


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
    broken: set[str] = field(default_factory=set)
    lets: set[str] = field(default_factory=set)


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
        bound = _BoundNames(lets={clause.variable.name for clause in clauses if isinstance(clause, ast.Let)})
        nodes: list[NodeDraft] = []
        hops: list[tuple[HopDraft, str | None]] = []
        for clause in clauses:
            if isinstance(clause, ast.Binding):
                name = self._bind_node(clause.variable, bound, outer)
                nodes.append(NodeDraft(clause, name, self._find_node_type(clause.type)))
            elif isinstance(clause, ast.TraversalClause):
                hops.append(self._draft_hop(clause, bound, outer))
        # Types are inferred after all clauses are collected, because their order has no meaning.
        ends = [name for hop, _ in hops for name in (hop.source, hop.target)]
        choices = self._collect_bound_types(nodes, ends, bound, outer)
        choices |= {name: types for name, types in (hints or {}).items() if name not in choices and name in ends}
        self._check_lets(clauses, bound, outer)
        inference = TypeInference(self.findings, choices, bound.broken)
        inference.run([hop for hop, _ in hops])
        return BlockDraft(
            nodes=tuple(nodes),
            hops=tuple(ResolvedHop(hop, variable, inference.find_direction(hop)) for hop, variable in hops),
            order=bound.order,
            types=_collect_types(bound, inference),
        )

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
        if isinstance(outer_type, ValueVariable):
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

    def _find_node_type(self, name: lit.Name) -> NodeType | None:
        node_type = self.catalog.nodes.get(name.text)
        if node_type is not None:
            return node_type
        message = f"unknown node type `{name.text}`"
        help_ = self.findings.suggest_closest(name.text, self.catalog.nodes)
        if name.text in self.catalog.edges:
            message = f"`{name.text}` is an edge type, not a node type"
            help_ = f"bind an edge in a hop: `$a $e:{as_written(name.text)} $b`"
        elif name.text in self.catalog.interfaces:
            message = f"`{name.text}` is an interface, which has no nodes of its own"
            types = [n.name for n in self.catalog.nodes.values() if name.text in n.implements]
            help_ = f"bind a type that implements it: {join_words(types, 'or')}" if types else "no type implements it"
        self.findings.add_error("T1", name.span, message, help_)
        return None

    def _collect_bound_types(
        self, nodes: list[NodeDraft], ends: list[str], bound: _BoundNames, outer: Scope | None
    ) -> dict[str, frozenset[str]]:
        """Return the candidate types before inference: those bound in this block, and those of outer blocks."""
        types: dict[str, str] = {}
        # Outer types come first: a `not` block never decides a type of its outer block.
        for name in (*(node.variable for node in nodes), *ends):
            outer_type = None if outer is None else outer.find(name)
            if isinstance(outer_type, NodeRef):
                types[name] = outer_type.name
        for drafted in nodes:
            if drafted.type is None:
                bound.broken.add(drafted.variable)
                continue
            # A variable may be bound twice to the same type; then both filters apply.
            other = types.setdefault(drafted.variable, drafted.type.name)
            if other != drafted.type.name:
                variable = drafted.clause.variable.name
                message = f"`${variable}` is of type `{other}`, so it can't be bound to `{drafted.type.name}`"
                self.findings.add_error("T5", drafted.clause.type.span, message, "use another variable")
        return {name: frozenset({type_}) for name, type_ in types.items() if name not in bound.broken}

    # --- hops ------------------------------------------------------------------------------------

    def _draft_hop(
        self, clause: ast.TraversalClause, bound: _BoundNames, outer: Scope | None
    ) -> tuple[HopDraft, str | None]:
        source = self._bind_node(clause.source, bound, outer)
        edge = self.catalog.find_edge(clause.edge.text)
        if edge is None:
            names = [as_written(name) for name in self.catalog.edges]
            help_ = self.findings.suggest_closest(clause.edge.text, names)
            self.findings.add_error("T4", clause.edge.span, f"unknown edge `{clause.edge.text}`", help_)
        type_: VariableType = BROKEN if edge is None else EdgeRef(edge.name, edge.source, edge.target)
        edge_variable = self._bind_edge_variable(clause, bound, outer, type_)
        is_reported = not (self._check_shape(clause) and self._check_ends(clause, edge))
        # After the edge variable: variables are numbered and ordered by their position in the text.
        target = self._bind_node(clause.target, bound, outer)
        hop = HopDraft(clause=clause, source=source, target=target, edge=edge, is_reported=is_reported)
        return hop, edge_variable

    def _check_shape(self, clause: ast.TraversalClause) -> bool:
        before = len(self.findings)
        bounds, variable = clause.bounds, clause.edge_variable
        if bounds is not None and not 1 <= bounds.low <= bounds.high <= MAX_HOPS:
            message = f"the bounds {bounds.low},{bounds.high} are outside 1 ≤ min ≤ max ≤ {MAX_HOPS}"
            self.findings.add_error("T15", bounds.span, message)
        if variable is not None and bounds is not None:
            message = f"`${variable.name}` stands for one edge, but the hop has several steps"
            self.findings.add_error("T23", variable.span, message, "drop the bounds or the edge variable")
        return len(self.findings) == before

    def _check_ends(self, clause: ast.TraversalClause, edge: EdgeType | None) -> bool:
        # Edges between nodes of one type can be followed several times, and in both directions.
        if edge is None or edge.source == edge.target:
            return True
        written = clause.edge.text
        runs = f"`{written}` runs from `{edge.source}` to `{edge.target}`"
        if clause.is_undirected:
            variable = "" if clause.edge_variable is None else f"${clause.edge_variable.name}:"
            plain = f"`${clause.source.name} {variable}{written} ${clause.target.name}`"
            self.findings.add_error("T22", clause.edge.span, f"{runs}, so it has a direction", f"write {plain}")
            return False
        if clause.bounds is not None:
            message = f"{runs}, so it can't be followed several times"
            self.findings.add_error("T15", clause.bounds.span, message, "drop the bounds")
            return False
        return True


def as_written(edge: str) -> str:
    """Return an edge type's name as hops usually write it: `livesIn` for `LivesIn`."""
    return edge[:1].lower() + edge[1:]


def _collect_types(bound: _BoundNames, inference: TypeInference) -> dict[str, VariableType]:
    types: dict[str, VariableType] = {}
    for name in bound.order:
        choices = inference.choices.get(name, frozenset())
        if name in bound.edges:
            types[name] = bound.edges[name]
        elif name in inference.broken or len(choices) != 1:
            types[name] = BROKEN
        else:
            types[name] = NodeRef(next(iter(choices)))
    return types
