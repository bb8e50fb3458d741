"""Bind a parsed schema: check all rules of the language, report every violation, and build the catalog."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.lang.diagnostics import StageResult
from omnigraph.lang.literals import Name
from omnigraph.lang.schema_ast import Constraint, EdgeDecl, InterfaceDecl, Member, NodeDecl, PropertyDecl, SchemaFile
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.annotations import AnnotationSet, AnnotationTarget, get_argument_span, read_annotations
from omnigraph.schema.bind_constraints import BoundConstraints, bind_constraints
from omnigraph.schema.bind_properties import (
    BoundProperty,
    Owner,
    OwnerKind,
    bind_property,
    check_embeddings,
    inherit_property,
    merge_property,
)
from omnigraph.schema.catalog import Cardinality, Catalog, EdgeType, InterfaceType, NodeType, build_catalog
from omnigraph.schema.findings import DiagnosticCollector, join_words
from omnigraph.schema.renames import RenameClaim, check_renames
from omnigraph.schema.values import format_type

Properties = dict[str, BoundProperty]

# What the grammar allows as a name, at most 255 characters: no other text can be the earlier name of anything.
_TYPE_NAME = re.compile(r"[A-Z][A-Za-z0-9_]{0,254}")
_PROPERTY_NAME = re.compile(r"[a-z_][A-Za-z0-9_]{0,254}")
# The largest count that fits a signed 64-bit integer.
_MAX_EDGES = 2**63 - 1


def bind_schema(tree: SchemaFile) -> StageResult[Catalog]:
    """Return the catalog of a schema with all diagnostics.

    With errors the catalog is partial: types and properties are in it by name even if parts of them are invalid.
    """
    binder = _SchemaBinder(_collect_types(tree))
    findings = binder.findings
    owners = _find_name_owners(tree, findings)
    # Interfaces first, wherever they are declared: their errors are reported there, not at the nodes that inherit them.
    interfaces = {id(d): binder.bind_interface(d) for d in tree.declarations if isinstance(d, InterfaceDecl)}
    nodes = {id(d): binder.bind_node(d) for d in tree.declarations if isinstance(d, NodeDecl)}
    edges = {id(d): binder.bind_edge(d) for d in tree.declarations if isinstance(d, EdgeDecl)}
    check_renames(binder.type_claims, binder.names.all, "type", findings)
    catalog = build_catalog(
        nodes=tuple(bound for key, bound in nodes.items() if key in owners),
        edges=tuple(bound for key, bound in edges.items() if key in owners),
        interfaces=tuple(bound for key, bound in interfaces.items() if key in owners),
    )
    return StageResult(catalog, findings.finalize())


# --- names -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _DeclaredTypes:
    """The declared types by kind."""

    nodes: Mapping[str, NodeDecl]
    edges: Mapping[str, EdgeDecl]
    interfaces: Mapping[str, InterfaceDecl]

    @property
    def all(self) -> frozenset[str]:
        return frozenset((*self.nodes, *self.edges, *self.interfaces))

    def describe_kind(self, name: str) -> str | None:
        """Return what kind of type a name is, in words; None for an undeclared name."""
        if name in self.nodes:
            return "a node type"
        if name in self.edges:
            return "an edge type"
        return "an interface" if name in self.interfaces else None


def _collect_types(tree: SchemaFile) -> _DeclaredTypes:
    # Reversed, so that of two declarations with the same name the first remains.
    reversed_declarations = tree.declarations[::-1]
    return _DeclaredTypes(
        nodes={d.name.text: d for d in reversed_declarations if isinstance(d, NodeDecl)},
        edges={d.name.text: d for d in reversed_declarations if isinstance(d, EdgeDecl)},
        interfaces={d.name.text: d for d in reversed_declarations if isinstance(d, InterfaceDecl)},
    )


def _find_name_owners(tree: SchemaFile, findings: DiagnosticCollector) -> set[int]:
    """Return the `id()` of each declaration that owns its name; a later one with the same name is reported."""
    names: set[str] = set()
    edges: dict[str, str] = {}
    owners: set[int] = set()
    for declaration in tree.declarations:
        name = declaration.name.text
        if name in names:
            message = f"there are two types named `{name}`"
            way_out = "node types, edge types and interfaces share one name space: rename one of them"
            findings.add_error("S002", declaration.name.span, message, way_out)
            continue
        names.add(name)
        # Queries find edge types by their name in any case, see `Catalog.find_edge`.
        if isinstance(declaration, EdgeDecl):
            first = edges.setdefault(name.lower(), name)
            if first != name:
                message = f"edge types `{first}` and `{name}` differ only in case"
                findings.add_error(
                    "S003", declaration.name.span, message, "queries name edges in any case: rename one of them"
                )
                continue
        owners.add(id(declaration))
    return owners


# --- declarations ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _SchemaBinder:
    """Bind declarations individually. Interfaces must be bound before the nodes that implement them."""

    names: _DeclaredTypes
    findings: DiagnosticCollector = field(default_factory=DiagnosticCollector)
    interfaces: dict[str, Properties] = field(default_factory=dict)
    type_claims: list[RenameClaim] = field(default_factory=list)

    def bind_interface(self, decl: InterfaceDecl) -> InterfaceType:
        owner = Owner(OwnerKind.INTERFACE, decl.name.text)
        properties = self._bind_own_properties(decl.members, owner)
        constraints = bind_constraints((), properties, owner, self.findings)
        check_embeddings(properties, owner, self.findings)
        self._check_property_renames(properties)
        self.interfaces.setdefault(decl.name.text, properties)
        return InterfaceType(
            name=decl.name.text,
            properties=tuple(bound.column for bound in properties.values()),
            unique=tuple(constraints.unique),
            indexed=tuple(constraints.indexed),
        )

    def bind_node(self, decl: NodeDecl) -> NodeType:
        notes = read_annotations(decl.annotations, AnnotationTarget.NODE, self.findings)
        self._add_type_claim(decl.name, notes)
        implements = self._resolve_interfaces(decl)
        owner = Owner(OwnerKind.NODE, decl.name.text, is_whole=len(implements) == len(decl.implements))
        declared = self._bind_own_properties(decl.members, owner)
        properties = self._merge_inherited(declared, implements)
        constraints = self._bind_constraints(decl.members, properties, owner)
        return NodeType(
            name=decl.name.text,
            properties=tuple(bound.column for bound in properties.values()),
            key=constraints.key,
            unique=tuple(constraints.unique),
            indexed=tuple(constraints.indexed),
            ranges=tuple(constraints.ranges.values()),
            checks=tuple(constraints.checks),
            description=notes.get_text("description"),
            instruction=notes.get_text("instruction"),
            renamed_from=notes.get_text("rename_from"),
            annotations=notes.unknown,
            implements=tuple(name.text for name in implements),
        )

    def bind_edge(self, decl: EdgeDecl) -> EdgeType:
        notes = read_annotations(decl.annotations, AnnotationTarget.EDGE, self.findings)
        self._add_type_claim(decl.name, notes)
        owner = Owner(OwnerKind.EDGE, decl.name.text)
        properties = self._bind_own_properties(decl.members, owner)
        constraints = self._bind_constraints(decl.members, properties, owner)
        for end in (decl.source, decl.target):
            self._check_end(decl, end)
        return EdgeType(
            name=decl.name.text,
            properties=tuple(bound.column for bound in properties.values()),
            key=constraints.key,
            unique=tuple(constraints.unique),
            indexed=tuple(constraints.indexed),
            ranges=tuple(constraints.ranges.values()),
            checks=tuple(constraints.checks),
            description=notes.get_text("description"),
            instruction=notes.get_text("instruction"),
            renamed_from=notes.get_text("rename_from"),
            annotations=notes.unknown,
            source=decl.source.text,
            target=decl.target.text,
            cardinality=self._bind_cardinality(decl),
        )

    # --- members

    def _bind_own_properties(self, members: tuple[Member, ...], owner: Owner) -> Properties:
        properties: Properties = {}
        for member in members:
            if not isinstance(member, PropertyDecl):
                continue
            bound = bind_property(member, owner, self.findings)
            if member.name.text in properties:
                message = f"`{owner.name}` has two properties named `{member.name.text}`"
                self.findings.add_error("S004", member.name.span, message, "rename or remove one of them")
            else:
                properties[member.name.text] = bound
        return properties

    def _bind_constraints(self, members: tuple[Member, ...], properties: Properties, owner: Owner) -> BoundConstraints:
        declared: list[Constraint] = [member for member in members if not isinstance(member, PropertyDecl)]
        constraints = bind_constraints(declared, properties, owner, self.findings)
        check_embeddings(properties, owner, self.findings)
        self._check_property_renames(properties)
        return constraints

    def _check_property_renames(self, properties: Properties) -> None:
        claims: list[RenameClaim] = []
        for name, bound in properties.items():
            old = bound.column.renamed_from
            if old is None:
                continue
            span = get_argument_span(bound.notes.known["rename_from"])
            if _PROPERTY_NAME.fullmatch(old):
                claims.append(RenameClaim(name, old, span))
            else:
                # Clipped: the text is in quotes and may have any length.
                message = f"`{old[:60]}` can't be the earlier name of a property"
                self.findings.add_error("S021", span, message, 'write `@rename_from("old_name")`')
        check_renames(claims, properties, "property", self.findings)

    def _add_type_claim(self, name: Name, notes: AnnotationSet) -> None:
        old = notes.get_text("rename_from")
        if old is None:
            return
        span = get_argument_span(notes.known["rename_from"])
        if _TYPE_NAME.fullmatch(old):
            self.type_claims.append(RenameClaim(name.text, old, span))
        else:
            message = f"`{old[:60]}` can't be the earlier name of a type"
            self.findings.add_error("S021", span, message, 'write `@rename_from("OldName")`')

    # --- interfaces

    def _resolve_interfaces(self, decl: NodeDecl) -> list[Name]:
        """Return the declared interfaces of a node type, each once; unknown and repeated ones are reported."""
        resolved: dict[str, Name] = {}
        for name in decl.implements:
            if name.text in resolved:
                message = f"`{decl.name.text}` implements `{name.text}` twice"
                self.findings.add_error("S023", name.span, message, "name it once")
            elif name.text in self.interfaces:
                resolved[name.text] = name
            else:
                kind = self.names.describe_kind(name.text)
                if kind is None:
                    message = f"unknown interface `{name.text}`"
                else:
                    message = f"`{name.text}` is {kind}, not an interface"
                way_out = (
                    self.findings.suggest_closest(name.text, self.interfaces)
                    or f"declare `interface {name.text} {{ … }}`"
                )
                self.findings.add_error("S007", name.span, message, way_out)
        return list(resolved.values())

    def _merge_inherited(self, declared: Properties, implements: list[Name]) -> Properties:
        """Return the inherited properties in the order of the interfaces, then the type's own.

        A property that is declared again keeps its inherited position.
        """
        properties: Properties = {}
        origin: dict[str, str] = {}
        for interface in implements:
            for name, bound in self.interfaces[interface.text].items():
                inherited = inherit_property(bound)
                earlier = properties.get(name)
                if earlier is None:
                    properties[name] = inherited
                    origin[name] = interface.text
                elif _has_same_type(earlier, inherited):
                    properties[name] = merge_property(inherited, earlier)
                else:
                    first, second = _format_property_type(earlier), _format_property_type(inherited)
                    message = f"`{name}` is {first} in `{origin[name]}` and {second} in `{interface.text}`"
                    way_out = "a type can only implement both if their types are equal"
                    self.findings.add_error("S008", interface.span, message, way_out)
        for name, bound in declared.items():
            base = properties.get(name)
            if base is None:
                properties[name] = bound
            elif _has_same_type(base, bound):
                properties[name] = merge_property(base, bound)
            else:
                expected = _format_property_type(base)
                message = f"`{name}` is {expected} in `{origin[name]}`, but {_format_property_type(bound)} here"
                way_out = f"write `{name}: {expected}`, or leave it out"
                self.findings.add_error("S008", bound.name.span, message, way_out)
                properties[name] = bound
        return properties

    # --- edges

    def _check_end(self, decl: EdgeDecl, end: Name) -> None:
        if end.text in self.names.nodes:
            return
        kind = self.names.describe_kind(end.text)
        if kind is None:
            message = f"unknown node type `{end.text}` as an end of `{decl.name.text}`"
            way_out = self.findings.suggest_closest(end.text, self.names.nodes) or f"declare `node {end.text} {{ … }}`"
        else:
            message = f"`{decl.name.text}` can't end at `{end.text}`, which is {kind}"
            implementers = [node.name.text for node in self.names.nodes.values() if end in node.implements]
            way_out = "edges connect node types"
            # An interface is no table, but the nodes that implement it may be what was meant: name up to three.
            if implementers:
                way_out += f", such as {join_words(sorted(implementers)[:3], 'or')}"
        self.findings.add_error("S006", end.span, message, way_out)

    def _bind_cardinality(self, decl: EdgeDecl) -> Cardinality:
        for extra in decl.cards[1:]:
            self.findings.add_error("S023", extra.span, "`@card` is given twice", "keep one of them")
        if not decl.cards:
            return Cardinality()
        card = decl.cards[0]
        high = _MAX_EDGES if card.high is None else card.high
        if not 0 <= card.low <= high <= _MAX_EDGES:
            limits = Cardinality(low=card.low, high=card.high)
            message = f"the `@card` of `{decl.name.text}` is not a range of counts: {limits}"
            self.findings.add_error("S015", card.span, message, "write `@card(min..max)` with 0 ≤ min ≤ max")
            return Cardinality()
        return Cardinality(low=card.low, high=card.high)


def _has_same_type(left: BoundProperty, right: BoundProperty) -> bool:
    """Return whether two declarations of a property agree in type and nullability."""
    # The type of an unsound property was reported already: a mismatch with its fallback would be a follow-up error.
    if not (left.is_sound and right.is_sound):
        return True
    return left.type == right.type and left.column.nullable == right.column.nullable


def _format_property_type(bound: BoundProperty) -> str:
    return f"{format_type(bound.type)}{'?' if bound.column.nullable else ''}"


def load_schema(source: Source) -> Catalog:
    """Return the catalog of a schema text, without identities.

    A text that does not parse is not bound: it is unknown what its broken parts would have declared.

    Raises:
        SourceError: The text breaks rules; it has the diagnostics of all of them.
    """
    tree = parse_schema(source).require(source)
    return bind_schema(tree).require(source)
