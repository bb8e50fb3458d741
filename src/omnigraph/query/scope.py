"""Scopes of variables and parameters, and name resolution in the expressions of a read."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, assert_never

from omnigraph.lang import literals as lit
from omnigraph.lang import query_ast as ast
from omnigraph.lang.cursor import decapitalize_name
from omnigraph.lang.expression_tree import list_clause_expressions, list_inner_clauses, walk
from omnigraph.lang.foreign_words import VALUE_HINTS
from omnigraph.lang.source import Span
from omnigraph.query.bind_records import EDGE_IDS, NODE_IDS, bind_field
from omnigraph.query.expr import (
    ArrayOf,
    Case,
    Const,
    Entity,
    EntityType,
    Expr,
    ExprType,
    Identity,
    IsNull,
    MetaColumn,
    NodeRef,
    Parameter,
    ParamRef,
    ParamType,
    Prop,
    RecordOf,
    RecordsParam,
    ValueRef,
)
from omnigraph.query.logical_plan import POSITION_PREFIX, ValueBlock
from omnigraph.query.resolution import note_property, note_variable
from omnigraph.query.union_types import (
    ID_COLUMN,
    TYPE_COLUMN,
    build_meta_value,
    find_table_type,
    is_union,
    list_members,
    list_object_fields,
    resolve_types,
)
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from omnigraph.schema.findings import DiagnosticCollector, join_words
from omnigraph.schema.types import MAX_VECTOR_SIZE, EnumOf, ListOf, Scalar, ValueType, VectorOf


@dataclass(frozen=True, slots=True)
class BrokenType:
    """The type of a variable with an error that is already reported, so that its uses cause no further errors."""


@dataclass(frozen=True, slots=True)
class ValueVariable:
    """The type of a variable that is bound to a value, such as the element of a list."""

    type: ExprType
    nullable: bool = False


BROKEN = BrokenType()
# The names of the variables inside of named patterns start with it; no user can write such a name.
HIDDEN_PREFIX = "#"
VariableType = EntityType | ValueVariable | BrokenType

Reference = ast.Variable | ast.PropertyRef | ast.BareName


class NameResolver(Protocol):
    """A resolver of the references in expressions."""

    def resolve(self, node: Reference) -> Expr | None:
        """Resolve a reference; None if it refers to nothing, which is then already reported."""
        ...

    def get_type(self, type_: EntityType) -> AnyType:
        """Return the catalog entry of a node or edge type that an expression has."""
        ...


class BlockLifter(Protocol):
    """Binds the blocks in expressions, each as a variable of the pattern around it."""

    @property
    def blocks(self) -> tuple[ValueBlock, ...]:
        """The blocks that were bound so far."""
        ...

    def lift(self, node: ast.Block) -> Expr | None:
        """Return the value of a block; None if it has an error, which is then already reported."""
        ...


@dataclass(frozen=True)
class Params:
    """The declared parameters; `broken` are those with an invalid type, whose uses cause no further errors."""

    declared: Mapping[str, Parameter]
    broken: frozenset[str] = frozenset()
    # Of a named pattern, which reads no parameter of the queries that use it.
    is_of_pattern: bool = False

    def __contains__(self, name: str) -> bool:
        return name in self.declared or name in self.broken

    def resolve(self, node: ast.Variable) -> ParamRef | RecordsParam | None:
        """Return a reference to a declared parameter; None for a broken one."""
        param = self.declared.get(node.name)
        if param is None:
            return None
        if isinstance(param.type, ArrayOf):
            return RecordsParam(name=param.name, type=param.type, nullable=param.nullable, origin=node.span)
        return ParamRef(name=param.name, type=param.type, nullable=param.nullable, origin=node.span)

    @property
    def names(self) -> tuple[str, ...]:
        """All names in declared order, broken ones last."""
        # `broken` is a set, so it is sorted for stable suggestions.
        return (*self.declared, *sorted(self.broken))


def declare_params(params: Iterable[ast.ParamDecl], findings: DiagnosticCollector) -> Params:
    """Return the parameters of a query with their types; repeated names and invalid types are reported."""
    declared: dict[str, Parameter] = {}
    broken: set[str] = set()
    for param in params:
        name = param.name.text
        if name == ast.ANONYMOUS:
            findings.add_error("Q003", param.name.span, "`$_` is a variable without a name, so it can't be a parameter")
            continue
        if name in declared or name in broken:
            help_ = "give each parameter a different name"
            findings.add_error("Q003", param.name.span, f"parameter `${name}` is declared twice", help_)
            continue
        type_ = _resolve_param_type(param.type)
        # A string is the message about an invalid type.
        if isinstance(type_, str):
            findings.add_error("Q000", param.type.span, type_)
            broken.add(name)
        else:
            declared[name] = Parameter(name=name, type=type_, nullable=param.nullable, origin=param.span)
    return Params(declared, frozenset(broken))


def _resolve_param_type(type_: lit.TypeExpr) -> ParamType | str:
    if isinstance(type_, lit.ListType) and isinstance(type_.element, lit.RecordType):
        record = _resolve_record_type(type_.element)
        return record if isinstance(record, str) else ArrayOf(record)
    return _resolve_value_type(type_)


def _resolve_record_type(type_: lit.RecordType) -> RecordOf | str:
    fields: dict[str, ExprType] = {}
    for item in type_.fields:
        name = item.name.text
        if name in fields:
            return f"the record already has a field `{name}`"
        if isinstance(item.type, lit.ListType) and isinstance(item.type.element, lit.RecordType):
            return f"`{name}` is a list of records; a field of a record is a single value, a list of these or a Vector"
        resolved = _resolve_value_type(item.type)
        if isinstance(resolved, str):
            return resolved
        fields[name] = resolved
    if not fields:
        return "a record needs a field, such as `{name: String}`"
    return RecordOf(tuple(fields.items()), frozenset(item.name.text for item in type_.fields if not item.nullable))


def _resolve_value_type(type_: lit.TypeExpr) -> ValueType | str:
    # The classes of types raise a ValueError for an invalid one, such as a list of Blob.
    try:
        match type_:
            case lit.BaseType():
                return Scalar(type_.name)
            case lit.ListType(element=lit.BaseType() as element):
                return ListOf(Scalar(element.name))
            case lit.ListType():
                return "a list of records is not a value"
            case lit.VectorType():
                is_valid = 1 <= type_.size <= MAX_VECTOR_SIZE
                return VectorOf(type_.size) if is_valid else f"a Vector has 1 to {MAX_VECTOR_SIZE:,} elements"
            case lit.EnumType():
                return EnumOf(tuple(value.text for value in type_.values))
            case _:
                assert_never(type_)
    except ValueError as error:
        return str(error)


@dataclass(frozen=True)
class Scope:
    """The scope of a block: its variables, and those of its outer blocks.

    `hidden` are names that only inner blocks bind, `optional` those of its variables that may be null, `lets` the names
    of abbreviations, which are replaced before anything is bound, `elements` those of its variables that an `each`
    binds.
    """

    catalog: Catalog
    params: Params
    variables: Mapping[str, VariableType]
    hidden: frozenset[str] = frozenset()
    outer: "Scope | None" = None
    optional: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()
    """Names that were bound before a `with` that does not name them."""
    aliases: frozenset[str] = frozenset()
    """Columns of the read, which its order and conditions name without `$`."""
    lifter: BlockLifter | None = None
    lets: frozenset[str] = frozenset()
    elements: frozenset[str] = frozenset()

    # Inner blocks see outer variables and never redefine them: the same name is the same variable.
    def find(self, name: str) -> VariableType | None:
        """Return the type of a variable of this or an outer block; None if it is not bound."""
        if name in self.variables:
            return self.variables[name]
        return None if self.outer is None else self.outer.find(name)

    def is_dropped(self, name: str) -> bool:
        """Return whether a name was bound before a stage that does not name it."""
        return name in self.dropped or (self.outer is not None and self.outer.is_dropped(name))

    def is_let(self, name: str) -> bool:
        """Return whether a name is an abbreviation of this or an outer block."""
        return name in self.lets or (self.outer is not None and self.outer.is_let(name))

    def is_element(self, name: str) -> bool:
        """Return whether an `each` of this or an outer block binds a variable."""
        if name in self.variables:
            return name in self.elements
        return self.outer is not None and self.outer.is_element(name)

    def is_nullable(self, name: str) -> bool:
        """Return whether a variable may be null, because an optional block of this or an outer block binds it."""
        if name in self.variables:
            return name in self.optional
        return self.outer is not None and self.outer.is_nullable(name)

    @property
    def names(self) -> tuple[str, ...]:
        """All visible variables, those of outer blocks first."""
        outer_names = () if self.outer is None else self.outer.names
        return (*outer_names, *(name for name in self.variables if name not in outer_names))

    def get_type(self, type_: EntityType) -> AnyType:
        """Return the catalog entry of a node or edge type; that of a union has what all members share."""
        return find_table_type(self.catalog, type_.name)


@dataclass(frozen=True)
class ReadNameResolver:
    """The name resolver of a read: `$v` is a variable or a parameter, `$v.property` a property of a variable."""

    scope: Scope
    findings: DiagnosticCollector

    def resolve(self, node: Reference) -> Expr | None:
        """Resolve a reference; see `NameResolver`."""
        match node:
            case ast.Variable():
                return self._resolve_variable(node)
            case ast.PropertyRef():
                return self._resolve_property(node)
            case ast.BareName():
                return self._reject_bare_name(node)
            case _:
                assert_never(node)

    def get_type(self, type_: EntityType) -> AnyType:
        """Return the catalog entry of a node or edge type; see `NameResolver`."""
        return self.scope.get_type(type_)

    def _resolve_variable(self, node: ast.Variable) -> Expr | None:
        if node.name in self.scope.params:
            return self.scope.params.resolve(node)
        type_ = self._find_type(node)
        if isinstance(type_, ValueVariable):
            return self._build_value(node, type_)
        return None if type_ is None else build_entity(node.name, type_, self.scope, node)

    def _build_value(self, node: ast.Variable, type_: ValueVariable) -> ValueRef:
        nullable = type_.nullable or self.scope.is_nullable(node.name)
        return ValueRef(variable=node.name, type=type_.type, nullable=nullable, origin=node.span)

    def _resolve_property(self, node: ast.PropertyRef) -> Expr | None:
        variable = node.variable
        if variable.name in self.scope.params:
            # A variable with the name of a parameter is broken, and reported where it is bound.
            if not isinstance(self.scope.find(variable.name), BrokenType):
                help_ = "a parameter is one value: use it without a property, or bind a variable of another name"
                self.findings.add_error(
                    "T6", variable.span, f"`${variable.name}` is a parameter, not a variable", help_
                )
            return None
        type_ = self._find_type(variable)
        if type_ is None:
            return None
        if isinstance(type_, ValueVariable):
            value = self._build_value(variable, type_)
            return bind_field(value, node.name, node.span, self, self.findings, is_meta=node.is_meta)
        return self._resolve_meta(node, type_) if node.is_meta else self._resolve_declared_property(node, type_)

    def _resolve_meta(self, node: ast.PropertyRef, type_: EntityType) -> Expr | None:
        name = node.name.text
        allowed = NODE_IDS if isinstance(type_, NodeRef) else EDGE_IDS
        nullable = self.scope.is_nullable(node.variable.name)
        if name in ("id", "type") and is_union(type_.name):
            column = ID_COLUMN if name == "id" else TYPE_COLUMN
            return build_meta_value(node.variable.name, column, node.span, nullable=nullable)
        if name == "type":
            return _build_type_name(type_, node, nullable=nullable)
        if name in allowed:
            return Identity(variable=node.variable.name, part=MetaColumn(name), nullable=nullable, origin=node.span)
        # The span of the name does not include the `@`.
        span = Span(node.name.span.start - 1, node.name.span.end)
        if name in ("src", "dst"):
            message = f"`@{name}` is an end of an edge, but `${node.variable.name}` is a node of `{type_}`"
            help_ = "a node has `@id`; bind the edge (`$a $e:edge $b`) and use `$e.@src`, `$e.@dst`"
            self.findings.add_error("T2", span, message, help_)
        else:
            ids = join_words(f"@{part}" for part in allowed)
            self.findings.add_error("T2", span, f"unknown id `@{name}` of `{type_}`", f"it has {ids}")
        return None

    def _resolve_declared_property(self, node: ast.PropertyRef, type_: EntityType) -> Prop | None:
        declared = self.scope.get_type(type_)
        prop = declared.find_property(node.name.text)
        if prop is None:
            report_unknown_property(node.name, declared, self.findings, catalog=self.scope.catalog)
            return None
        note_property(node.name.span, list_members(type_.name))
        variable = node.variable.name
        nullable = prop.nullable or self.scope.is_nullable(variable)
        return Prop(
            variable=variable,
            name=prop.name,
            type=prop.type,
            nullable=nullable,
            metric=prop.metric,
            language=prop.language,
            origin=node.span,
        )

    def _reject_bare_name(self, node: ast.BareName) -> Expr | None:
        # Unlike a mutation, a read has no current row whose property it could be.
        name = node.name.text
        help_ = f"a column is named with `as {name}`; an alias can be used in `order` only; variables start with `$`"
        if name.lower() == "unique":
            help_ = "rows are made unique by `return distinct { … }`"
        help_ = VALUE_HINTS.get(name.lower(), help_)
        if self.scope.find(name) or self.scope.is_let(name) or name in self.scope.params:
            help_ = f"did you mean `${name}`?"
        self.findings.add_error("T6", node.span, f"`{name}` has no value here", help_)
        return None

    def _find_type(self, node: ast.Variable) -> EntityType | ValueVariable | None:
        if node.name == ast.ANONYMOUS:
            # Every `$_` is bound to a generated name, so no reference can mean one of them.
            help_ = "each `$_` is a new variable: give it a name to use it"
            self.findings.add_error("T6", node.span, "`$_` has no value", help_)
            return None
        type_ = self.scope.find(node.name)
        if type_ is None and self.scope.is_let(node.name):
            # Only one in a circle, or one that is too long, is not replaced; it is reported where it is defined.
            return None
        if type_ is None:
            help_ = self._build_unbound_help(node.name)
            self.findings.add_error("T6", node.span, f"`${node.name}` is not bound", help_)
        if type_ is None or isinstance(type_, BrokenType):
            return None
        note_variable(node.span, type_.type if isinstance(type_, ValueVariable) else type_)
        return type_

    def _build_unbound_help(self, name: str) -> str:
        if name in self.scope.aliases:
            return f"did you mean `{name}`? A column is named without `$` here"
        if name in self.scope.hidden:
            return "it is bound only inside a block, and is not visible outside it"
        if self.scope.is_dropped(name):
            return f"`with` ends the variables that it does not name: write `with {{ ${name}, … }}`"
        visible = (*self.scope.names, *self.scope.params.names)
        closest = self.findings.suggest_closest(f"${name}", (f"${word}" for word in visible))
        if self.scope.params.is_of_pattern and closest is None:
            return f"a named pattern reads only its own variables: compare `${name}` in the query that uses it"
        declared = f"declare it as a parameter (`query q(${name}: Type) {{ … }}`)"
        return closest or f"{declared}, or bind it in `match` (`${name}: Type`)"


def build_position_name(variable: str) -> str:
    """Return the name of the variable that is bound to the place of an `each` element in its list."""
    # No user can write it, and it belongs to its variable, so that two of them don't clash where variables don't.
    return f"{POSITION_PREFIX}{variable}"


def _build_type_name(type_: EntityType, node: ast.PropertyRef, *, nullable: bool) -> Expr:
    """Build `$x.@type` of a single type: a constant, or null where the variable of an optional block has no row."""
    constant = Const(value=type_.name, type=Scalar.STRING, origin=node.span)
    if not nullable:
        return constant
    identity = Identity(variable=node.variable.name, nullable=True, origin=node.span)
    is_missing = IsNull(operand=identity, origin=node.span)
    null = Const(value=None, type=Scalar.STRING, origin=node.span)
    return Case(branches=((is_missing, null),), otherwise=constant, origin=node.span)


def build_entity(name: str, type_: EntityType, scope: Scope, node: ast.Variable) -> Entity:
    """Build the expression of a whole node or edge: an object of all properties that are neither Blob nor Vector.

    That of a union also has its `@type`, and what any of its members has.
    """
    properties = scope.get_type(type_).properties
    fields: list[Prop] = []
    if is_union(type_.name):
        properties = list_object_fields(scope.catalog, type_.name)
        fields.append(build_meta_value(name, TYPE_COLUMN, node.span))
    included = (p for p in properties if not isinstance(p.type, VectorOf) and p.type != Scalar.BLOB)
    fields += (Prop(variable=name, name=p.name, type=p.type, nullable=p.nullable, origin=node.span) for p in included)
    nullable = scope.is_nullable(name)
    return Entity(variable=name, type=type_, fields=tuple(fields), nullable=nullable, origin=node.span)


# A help line names at most this number of properties.
_MAX_NAMED_PROPERTIES = 8


def _locate_on_edge(name: str, declared: AnyType, catalog: Catalog | None) -> str | None:
    """Return how a property is read that an edge of the node type has; None if no edge has it."""
    for edge in () if catalog is None or isinstance(declared, EdgeType) else catalog.edges.values():
        if edge.find_property(name) is not None and declared.name in (edge.source, edge.target):
            called = decapitalize_name(edge.name)
            return f"the edge `{called}` has it: name the edge, `$p $e:{called} $q`, and write `$e.{name}`"
    return None


def _list_properties(declared: AnyType) -> str:
    names = [p.name for p in declared.properties]
    rest = len(names) - _MAX_NAMED_PROPERTIES
    if rest > 0:
        shown = ", ".join(f"`{name}`" for name in names[:_MAX_NAMED_PROPERTIES])
        return f"`{declared.name}` has {shown} and {rest} more"
    return f"`{declared.name}` has {join_words(names) if names else 'no properties'}"


def report_unknown_property(
    name: lit.Name,
    declared: AnyType,
    findings: DiagnosticCollector,
    code: str = "T2",
    catalog: Catalog | None = None,
    *,
    is_in_braces: bool = False,
) -> None:
    """Report a property that a type, or a member of a union, does not have."""
    message = f"unknown property `{name.text}` of `{declared.name}`"
    if name.text in ("id", "src", "dst"):
        help_: str | None = f"an id is not a property: write `@{name.text}`"
        if is_in_braces:
            help_ = f"an id is not a property: compare it in a clause of its own, `$p.@{name.text} = …`"
    else:
        help_ = findings.suggest_closest(name.text, declared.by_name)
    if isinstance(declared, EdgeType) and name.text in ("from", "to"):
        help_ = f"the id of an edge's end is `@{'src' if name.text == 'from' else 'dst'}`"
    if help_ is None and catalog is not None and (edge := catalog.find_edge(name.text)) is not None:
        called = decapitalize_name(edge.name)
        help_ = f"`{called}` is an edge, followed by a clause of its own: `$p {called} $q`, and then `$q.name`"
    if help_ is None and not is_union(declared.name):
        help_ = _locate_on_edge(name.text, declared, catalog) or _list_properties(declared)
    if catalog is not None and is_union(declared.name):
        members = resolve_types(catalog, declared.name)
        types = {member.name: member.find_property(name.text) for member in members}
        missing = [member for member, prop in types.items() if prop is None]
        if missing and len(missing) < len(members):
            verb = "has" if len(missing) == 1 else "have"
            message = (
                f"`{name.text}` is not a property of every type of `{declared.name}`: {join_words(missing)} {verb} none"
            )
            help_ = "bind the variable to the types that have it"
        elif not missing:
            kinds = join_words(f"{member}: {prop.type}" for member, prop in types.items() if prop is not None)
            message = f"`{name.text}` has different types in `{declared.name}`: {kinds}"
            help_ = "bind the variable to types that agree"
    findings.add_error(code, name.span, message, help_)


# --- variables of clauses ------------------------------------------------------------------------


def iter_mentioned_variables(clauses: Iterable[ast.Clause]) -> Iterator[ast.Variable]:
    """Yield every `$name` in these clauses and their inner blocks, parameters and `$_` included."""
    for clause in clauses:
        yield from find_bound_variables(clause)
        for expr in list_clause_expressions(clause):
            yield from iter_expr_variables(expr)
        yield from iter_mentioned_variables(list_inner_clauses(clause))


def find_bound_variables(clause: ast.Clause) -> tuple[ast.Variable, ...]:
    """Return the variables that a clause binds for its own block, in source order."""
    match clause:
        case ast.Binding():
            return (clause.variable,)
        case ast.TraversalClause():
            edge = () if clause.edge_variable is None else (clause.edge_variable,)
            return (clause.source, *edge, clause.target)
        case ast.PathClause():
            return (clause.variable, *find_bound_variables(clause.hop))
        case ast.Each():
            return (clause.variable,)
        case ast.OptionalBlock():
            return tuple(variable for inner in clause.clauses for variable in find_bound_variables(inner))
        case ast.Either():
            return find_alternative_variables(clause)
        case ast.Where() | ast.NotBlock() | ast.Let():
            return ()
        case _:
            assert_never(clause)


def find_alternative_variables(clause: ast.Either) -> tuple[ast.Variable, ...]:
    """Return the variables that every alternative binds, in the order of the first one."""
    # Each alternative is searched once: twice would double the work with every `either` inside another.
    first, *rest = (_find_block_variables(clauses) for clauses in clause.alternatives)
    others = [{variable.name for variable in variables} for variables in rest]
    # A variable with a name that no user can write is one of a named pattern, and not visible outside.
    shown = (each for each in first if each.name != ast.ANONYMOUS and not each.name.startswith(HIDDEN_PREFIX))
    by_name = {variable.name: variable for variable in shown}
    return tuple(variable for name, variable in by_name.items() if all(name in names for names in others))


def _find_block_variables(clauses: Iterable[ast.Clause]) -> tuple[ast.Variable, ...]:
    return tuple(variable for clause in clauses for variable in find_bound_variables(clause))


def iter_names_bound_inside(clauses: Iterable[ast.Clause]) -> Iterator[str]:
    """Yield the names that blocks among these clauses and in their expressions bind, at any depth."""
    for clause in clauses:
        inside = [list_inner_clauses(clause)]
        for expr in list_clause_expressions(clause):
            # Not `walk_deep`: blocks inside blocks are visited below, and twice would double the work at each depth.
            inside += [part.clauses for part in walk(expr) if isinstance(part, ast.Block)]
        for inner in inside:
            yield from (variable.name for each in inner for variable in find_bound_variables(each))
            yield from iter_names_bound_inside(inner)


def iter_expr_variables(expr: ast.Expr) -> Iterator[ast.Variable]:
    """Yield every `$name` in an expression and in the blocks inside it."""
    for part in walk(expr):
        if isinstance(part, ast.Variable):
            yield part
        elif isinstance(part, ast.PropertyRef | ast.AllProperties):
            yield part.variable
        elif isinstance(part, ast.Block):
            yield from iter_mentioned_variables(part.clauses)
