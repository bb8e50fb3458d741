"""Binding of mutations: a tree and a catalog become typed statements, or all that is wrong with them at once."""

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
from omnigraph.query.bind_values import Slot, bind_stored_value
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

_MAX_TYPOS = 50  # of one insert, as many as are told what they may have been meant for
_ID_ASSIGNMENT_HELP = "an id can't be set: it is made of the key, or new"


def bind_mutation(query: ast.Query, catalog: Catalog) -> StageResult[MutationQuery | None]:
    """The typed mutation, or None and every independent error: T3, T6, T7, T10 to T14, T26, D2."""
    findings = DiagnosticCollector()
    body = query.body
    if isinstance(body, ast.Read):
        msg = f"query {query.name.text} is a read"
        raise TypeError(msg)
    params = declare_params(query.params, findings)
    _check_deletes_stand_alone(body, findings)
    binder = _MutationBinder(catalog, params, findings)
    statements = [binder.bind_statement(node) for node in body]
    found = findings.finalize()
    bound = tuple(statement for statement in statements if statement is not None)
    if found or len(bound) < len(body):
        return StageResult(None, found)
    annotations = {annotation.name.text: annotation.text for annotation in query.annotations}
    mutation = MutationQuery(
        name=query.name.text,
        params=tuple(params.declared.values()),
        statements=bound,
        description=annotations.get("description"),
        instruction=annotations.get("instruction"),
        origin=query.span,
    )
    return StageResult(mutation, found)


def _check_deletes_stand_alone(statements: tuple[ast.Mutation, ...], findings: DiagnosticCollector) -> None:
    first = statements[0]
    for node in statements:
        if isinstance(node, ast.Delete) is not isinstance(first, ast.Delete):
            message = "a delete does not mix with inserts and updates"
            keyword = Span(node.span.start, node.span.start + len("insert"))  # all three words have six letters
            findings.add_error("D2", keyword, message, "make it two queries")
            return


@dataclass(frozen=True, slots=True)
class _MutationBinder:
    catalog: Catalog
    params: Params
    findings: DiagnosticCollector

    def bind_statement(self, node: ast.Mutation) -> Statement | None:
        """The typed statement, or None when something about it is wrong; that is reported."""
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
            needed = _list_required_names(declared) or [p.name for p in declared.properties[:1]]
            help_ = f"write `{{ {', '.join(f'{name}: …' for name in needed)} }}`" if needed else None
            self.findings.add_error("T10", node.type.span, f"insert of `{declared.name}` without values", help_)
            return None
        given = self._index_assignments(node.assignments)
        values = self._bind_values(given, declared)
        ends = self._bind_ends(given, declared)
        if not self._check_complete(node, declared, given):
            return None
        omitted = tuple(p.name for p in declared.properties if p.name not in given)
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
            free = next((p.name for p in declared.properties if p.name not in declared.key), None)
            help_ = None if free is None else f"write `set {{ {free}: … }}`"
            self.findings.add_error("T10", node.type.span, f"update of `{declared.name}` without values", help_)
        given = self._index_assignments(node.assignments)
        changeable = {name: a for name, a in given.items() if self._is_changeable(a.name, declared)}
        values = self._bind_values(changeable, declared)
        where = self._bind_where(node.where, declared)
        if where is None or not values or len(values) < len(node.assignments):
            return None
        return Update(type=_build_entity_type(declared), values=values, where=where, origin=node.span)

    def _bind_delete(self, node: ast.Delete, declared: AnyType) -> Delete | None:
        where = self._bind_where(node.where, declared)
        return None if where is None else Delete(type=_build_entity_type(declared), where=where, origin=node.span)

    # --- assignments -----------------------------------------------------------------------------

    def _index_assignments(self, assignments: Iterable[ast.Assignment]) -> dict[str, ast.Assignment]:
        """The assignments by name; the first of two counts (T13)."""
        given: dict[str, ast.Assignment] = {}
        for assignment in assignments:
            name = assignment.name
            if name.text in given:
                self.findings.add_error("T13", name.span, f"`{name.text}` is assigned twice", "keep one of the two")
            given.setdefault(name.text, assignment)
        return given

    def _bind_values(self, given: dict[str, ast.Assignment], declared: AnyType) -> tuple[Assign, ...]:
        """The values of properties, in the order in which they are written; unknown names are T11."""
        values: list[Assign] = []
        for name, assignment in given.items():
            prop = declared.find_property(name)
            if prop is None:
                if not (name in ENDS and isinstance(declared, EdgeType)):
                    report_unknown(
                        assignment.name, declared, self.findings, _ID_ASSIGNMENT_HELP if name == "id" else None
                    )
                continue
            slot = Slot(owner=declared.name, name=name, type=prop.type, nullable=prop.nullable)
            value = bind_stored_value(assignment.value, slot, self.params, self.findings)
            if value is not None:
                values.append(Assign(property=name, value=value, origin=assignment.span))
        return tuple(values)

    def _bind_ends(self, given: dict[str, ast.Assignment], declared: AnyType) -> dict[str, StoredValue]:
        ends: dict[str, StoredValue] = {}
        if isinstance(declared, NodeType):
            return ends
        for name, type_ in (("from", declared.source), ("to", declared.target)):
            if name in given:
                meaning = f"`{name}` is the id of a `{type_}`: a String"
                slot = Slot(owner=declared.name, name=name, type=Scalar.STRING, meaning=meaning)
                value = bind_stored_value(given[name].value, slot, self.params, self.findings)
                if value is not None:
                    ends[name] = value
        return ends

    def _check_complete(self, node: ast.Insert, declared: AnyType, given: dict[str, ast.Assignment]) -> bool:
        """Whether every end and required property has a value (T12, all in one message; a near miss is T11 alone)."""
        known = list_settable_names(declared)
        unknown = islice((name for name in given if name not in known), _MAX_TYPOS)
        typos = {STORED_ENDS.get(name) or find_closest(name, known) for name in unknown}
        missing = [name for name in _list_required_names(declared) if name not in given and name not in typos]
        if not missing:
            return True
        message = f"insert of `{declared.name}` leaves out {join_words(missing)}"
        self.findings.add_error("T12", node.type.span, message, self._build_missing_help(missing, declared))
        return False

    def _build_missing_help(self, missing: list[str], declared: AnyType) -> str:
        if isinstance(declared, EdgeType) and missing[0] in ENDS:
            ids = f"`from` is the id of a `{declared.source}`, `to` of a `{declared.target}`"
            return f"an edge needs both ends: {ids}"
        also = ", because the key may be new; to change a row that exists, use `update`" if declared.key else ""
        return f"required properties without a default need a value{also}"

    def _is_changeable(self, name: Name, declared: AnyType) -> bool:
        """Whether an update may set it: neither part of the key nor an end (T26)."""
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
                "the id is made of the key: delete the old row and insert a new one, in two queries",
            )
            return False
        return True

    # --- predicates ------------------------------------------------------------------------------

    def _bind_where(self, predicate: ast.Predicate, declared: AnyType) -> Expr | None:
        return ExprBinder(RowNameResolver(declared, self.params, self.findings), self.findings).bind_predicate(
            predicate
        )


def _list_required_names(declared: AnyType) -> list[str]:
    """What an insert must give: the ends, and what is required; a vector that is computed from a text is not."""
    ends = list(ENDS) if isinstance(declared, EdgeType) else []
    return ends + [p.name for p in declared.properties if p.is_required and p.embedding is None]


def _build_entity_type(declared: AnyType) -> EntityType:
    return NodeRef(declared.name) if isinstance(declared, NodeType) else _build_edge_ref(declared)


def _build_edge_ref(declared: EdgeType) -> EdgeRef:
    return EdgeRef(declared.name, declared.source, declared.target)
