"""Bind mutations: typed statements, or all their errors together."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import assert_never

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import StageResult
from omnigraph.lang.literals import Name
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import find_closest
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_values import Slot, bind_property_value, bind_stored_value
from omnigraph.query.expr import EdgeRef, EntityType, Expr, NodeRef
from omnigraph.query.mutation_plan import (
    Assign,
    Delete,
    InsertEdge,
    InsertNode,
    MutationQuery,
    Statement,
    StoredValue,
    Update,
)
from omnigraph.query.mutation_scope import ENDS, STORED_ENDS, RowNameResolver, list_settable_names, report_unknown
from omnigraph.query.scope import Params, declare_params
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, NodeType
from omnigraph.schema.findings import DiagnosticCollector, join_words
from omnigraph.schema.types import Scalar

# Finding the closest name compares an unknown one with all names of the type: only so many of one insert are tried.
_MAX_TYPOS = 50
_ID_ASSIGNMENT_HELP = "an id can't be set: it is derived from the key, or generated"


def bind_mutation(query: ast.Query, catalog: Catalog) -> StageResult[MutationQuery | None]:
    """Bind a mutation; None and all independent errors (T3, T6, T7, T10 to T14, T26, D2) if it is wrong.

    Raises:
        TypeError: The query is a read.
    """
    findings = DiagnosticCollector()
    body = query.body
    if isinstance(body, ast.Read):
        msg = f"query {query.name.text} is a read"
        raise TypeError(msg)
    params = declare_params(query.params, findings)
    _check_deletes_unmixed(body, findings)
    binder = _MutationBinder(catalog, params, findings)
    statements = [binder.bind_statement(node) for node in body]
    diagnostics = findings.finalize()
    bound = tuple(statement for statement in statements if statement is not None)
    if diagnostics or len(bound) < len(body):
        return StageResult(None, diagnostics)
    annotations = {annotation.name.text: annotation.text for annotation in query.annotations}
    mutation = MutationQuery(
        name=query.name.text,
        params=tuple(params.declared.values()),
        statements=bound,
        description=annotations.get("description"),
        instruction=annotations.get("instruction"),
        origin=query.span,
    )
    return StageResult(mutation, diagnostics)


def _check_deletes_unmixed(statements: tuple[ast.Mutation, ...], findings: DiagnosticCollector) -> None:
    first = statements[0]
    for node in statements:
        if isinstance(node, ast.Delete) is not isinstance(first, ast.Delete):
            message = "a delete can't be mixed with inserts and updates"
            # All three keywords have six letters.
            keyword = Span(node.span.start, node.span.start + len("insert"))
            findings.add_error("D2", keyword, message, "split it into two queries")
            return


@dataclass(frozen=True, slots=True)
class _MutationBinder:
    """Bind the statements of one mutation."""

    catalog: Catalog
    params: Params
    findings: DiagnosticCollector

    def bind_statement(self, node: ast.Mutation) -> Statement | None:
        """Bind a statement; None if it has an error, which is reported."""
        declared = self._find_type(node.type)
        if declared is None:
            return None
        match node:
            case ast.Insert():
                return self._bind_insert(node, declared)
            case ast.Update():
                return self._bind_update(node, declared)
            case ast.Delete():
                return self._bind_delete(node, declared)
            case _:
                assert_never(node)

    def _find_type(self, written: Name) -> AnyType | None:
        name = written.text
        declared = self.catalog.find_type(name)
        if declared is None:
            if name in self.catalog.interfaces:
                implementing = [t.name for t in self.catalog.nodes.values() if name in t.implements]
                message = f"`{name}` is an interface, which has no rows"
                help_ = f"name a node type: {join_words(implementing, 'or')}" if implementing else None
            else:
                message = f"unknown type `{name}`"
                help_ = self.findings.suggest_closest(name, (*self.catalog.nodes, *self.catalog.edges))
            self.findings.add_error("T10", written.span, message, help_)
        return declared

    # --- statements ------------------------------------------------------------------------------

    def _bind_insert(self, node: ast.Insert, declared: AnyType) -> Statement | None:
        if not node.assignments:
            # The help shows all required names; if there are none, the first property as an example.
            names = _list_required_names(declared) or [p.name for p in declared.properties[:1]]
            help_ = f"write `{{ {', '.join(f'{name}: …' for name in names)} }}`" if names else None
            self.findings.add_error("T10", node.type.span, f"insert of `{declared.name}` without values", help_)
            return None
        by_name = self._index_assignments(node.assignments)
        # Everything is bound and checked before the first failure returns, so that all errors are reported.
        values = self._bind_values(by_name, declared, reads_row=False)
        ends = self._bind_ends(by_name, declared)
        if not self._check_complete(node, declared, by_name):
            return None
        omitted = tuple(p.name for p in declared.properties if p.name not in by_name)
        # An assignment that is missing here was rejected and reported.
        if len(values) + len(ends) < len(node.assignments):
            return None
        if isinstance(declared, NodeType):
            return InsertNode(
                type=NodeRef(declared.name),
                values=values,
                omitted=omitted,
                is_upsert=bool(declared.key),
                origin=node.span,
            )
        return InsertEdge(
            type=_build_edge_ref(declared),
            source=ends["from"],
            target=ends["to"],
            values=values,
            omitted=omitted,
            is_upsert=bool(declared.key),
            origin=node.span,
        )

    def _bind_update(self, node: ast.Update, declared: AnyType) -> Update | None:
        if not node.assignments:
            example = next((p.name for p in declared.properties if p.name not in declared.key), None)
            help_ = None if example is None else f"write `set {{ {example}: … }}`"
            self.findings.add_error("T10", node.type.span, f"update of `{declared.name}` without values", help_)
        by_name = self._index_assignments(node.assignments)
        changeable = {name: a for name, a in by_name.items() if self._is_changeable(a.name, declared)}
        values = self._bind_values(changeable, declared, reads_row=True)
        where = self._bind_where(node.where, declared)
        if where is None or not values or len(values) < len(node.assignments):
            return None
        return Update(type=_build_entity_type(declared), values=values, where=where, origin=node.span)

    def _bind_delete(self, node: ast.Delete, declared: AnyType) -> Delete | None:
        where = self._bind_where(node.where, declared)
        return None if where is None else Delete(type=_build_entity_type(declared), where=where, origin=node.span)

    # --- assignments -----------------------------------------------------------------------------

    def _index_assignments(self, assignments: Iterable[ast.Assignment]) -> dict[str, ast.Assignment]:
        """Return the assignments by name; of two with the same name, the first is used (T13)."""
        by_name: dict[str, ast.Assignment] = {}
        for assignment in assignments:
            name = assignment.name
            if name.text in by_name:
                self.findings.add_error("T13", name.span, f"`{name.text}` is assigned twice", "keep one of the two")
            by_name.setdefault(name.text, assignment)
        return by_name

    def _bind_values(
        self, by_name: dict[str, ast.Assignment], declared: AnyType, *, reads_row: bool
    ) -> tuple[Assign, ...]:
        """Bind the values of properties, in source order; unknown names are T11."""
        values: list[Assign] = []
        binder = ExprBinder(RowNameResolver(declared, self.params, self.findings), self.findings)
        for name, assignment in by_name.items():
            prop = declared.find_property(name)
            if prop is None:
                # `_bind_ends` binds the ends.
                if not (name in ENDS and isinstance(declared, EdgeType)):
                    report_unknown(
                        assignment.name, declared, self.findings, _ID_ASSIGNMENT_HELP if name == "id" else None
                    )
                continue
            slot = Slot(owner=declared.name, name=name, type=prop.type, nullable=prop.nullable)
            value = bind_property_value(assignment.value, slot, self.params, self.findings, binder, reads_row=reads_row)
            if value is not None:
                values.append(Assign(property=name, value=value, origin=assignment.span))
        return tuple(values)

    def _bind_ends(self, by_name: dict[str, ast.Assignment], declared: AnyType) -> dict[str, StoredValue]:
        ends: dict[str, StoredValue] = {}
        if isinstance(declared, NodeType):
            return ends
        for name, type_ in (("from", declared.source), ("to", declared.target)):
            if name in by_name:
                meaning = f"`{name}` is the id of a `{type_}`: a String"
                slot = Slot(owner=declared.name, name=name, type=Scalar.STRING, meaning=meaning)
                value = bind_stored_value(by_name[name].value, slot, self.params, self.findings)
                if value is not None:
                    ends[name] = value
        return ends

    def _check_complete(self, node: ast.Insert, declared: AnyType, by_name: dict[str, ast.Assignment]) -> bool:
        """Return whether every end and required property has a value; all missing names are reported as one T12."""
        settable = list_settable_names(declared)
        unknown = islice((name for name in by_name if name not in settable), _MAX_TYPOS)
        # A misspelled name is already reported as T11, so the property that was probably meant is not missing too.
        typos = {STORED_ENDS.get(name) or find_closest(name, settable) for name in unknown}
        missing = [name for name in _list_required_names(declared) if name not in by_name and name not in typos]
        if not missing:
            return True
        message = f"insert of `{declared.name}` leaves out {join_words(missing)}"
        self.findings.add_error("T12", node.type.span, message, self._build_missing_help(missing, declared))
        return False

    def _build_missing_help(self, missing: list[str], declared: AnyType) -> str:
        if isinstance(declared, EdgeType) and missing[0] in ENDS:
            ids = f"`from` is the id of a `{declared.source}`, `to` of a `{declared.target}`"
            return f"an edge needs both ends: {ids}"
        # An insert into a type with a key is an upsert, but the binder can't know whether the row exists.
        reason = ", because the key may be new; to change an existing row, use `update`" if declared.key else ""
        return f"required properties without a default need a value{reason}"

    def _is_changeable(self, name: Name, declared: AnyType) -> bool:
        """Return whether an update may set a property: it is neither part of the key nor an end (T26)."""
        if isinstance(declared, EdgeType) and (name.text in ENDS or name.text in STORED_ENDS):
            message = f"`{name.text}` is an end of `{declared.name}` and can't be changed"
            self.findings.add_error("T26", name.span, message, "delete the edge and insert another one, in two queries")
            return False
        if name.text in declared.key:
            message = f"`{name.text}` is part of the key of `{declared.name}` and can't be changed"
            self.findings.add_error(
                "T26",
                name.span,
                message,
                "the id is derived from the key: delete the old row and insert a new one, in two queries",
            )
            return False
        return True

    # --- predicates ------------------------------------------------------------------------------

    def _bind_where(self, predicate: ast.Expr, declared: AnyType) -> Expr | None:
        names = RowNameResolver(declared, self.params, self.findings)
        return ExprBinder(names, self.findings).bind_predicate(predicate)


def _list_required_names(declared: AnyType) -> list[str]:
    """Return the names that an insert must set: ends and required properties, without vectors embedded from a text."""
    ends = list(ENDS) if isinstance(declared, EdgeType) else []
    return ends + [p.name for p in declared.properties if p.is_required and p.embedding is None]


def _build_entity_type(declared: AnyType) -> EntityType:
    return NodeRef(declared.name) if isinstance(declared, NodeType) else _build_edge_ref(declared)


def _build_edge_ref(declared: EdgeType) -> EdgeRef:
    return EdgeRef(declared.name, declared.source, declared.target)
