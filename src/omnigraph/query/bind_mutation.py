"""Bind mutations: typed statements, or all their errors together."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import assert_never

from omnigraph.lang import query_ast as ast
from omnigraph.lang.diagnostics import StageResult
from omnigraph.lang.literals import Name
from omnigraph.lang.printer import format_expr as print_expr
from omnigraph.lang.source import Span
from omnigraph.lang.spelling import find_closest
from omnigraph.query.bind_driven import (
    BindRead,
    MatchColumns,
    MatchDraft,
    Returning,
    bind_returning_alone,
    find_mentioned,
)
from omnigraph.query.bind_expr import ExprBinder
from omnigraph.query.bind_literal import clip_text
from omnigraph.query.bind_values import Slot, bind_property_value, bind_stored_value, check_fits, is_simple_value
from omnigraph.query.expr import EdgeRef, EntityType, Expr, NodeRef, ValueRef
from omnigraph.query.mutation_plan import (
    Assign,
    Delete,
    DeleteMatched,
    DriveMatch,
    DrivenStatement,
    EndValue,
    InsertEdge,
    InsertNode,
    MutationQuery,
    Statement,
    Update,
    UpdateMatched,
    build_id,
)
from omnigraph.query.mutation_scope import ENDS, STORED_ENDS, RowNameResolver, list_settable_names, report_unknown
from omnigraph.query.resolution import note_property
from omnigraph.query.scope import Params, declare_params
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType, NodeType
from omnigraph.schema.findings import DiagnosticCollector, join_words
from omnigraph.schema.types import Scalar

# Finding the closest name compares an unknown one with all names of the type: only so many of one insert are tried.
_MAX_TYPOS = 50
_ID_ASSIGNMENT_HELP = "an id can't be set: it is derived from the key, or generated"


@dataclass(frozen=True, slots=True)
class _DrivenSegment:
    """Statements that one match drives; without a match, those before the first one."""

    match: ast.DriveMatch | None
    statements: tuple[ast.Mutation, ...]


def bind_mutation(query: ast.Query, catalog: Catalog, bind_read: BindRead) -> StageResult[MutationQuery | None]:
    """Bind a mutation; None and all independent errors (T3, T6, T7, T10 to T14, T26, D2, D3) if it is wrong.

    `bind_read` binds the reads of its matches.

    Raises:
        TypeError: The query is a read.
    """
    findings = DiagnosticCollector()
    body = query.body
    if isinstance(body, ast.Read | ast.Union):
        msg = f"query {query.name.text} is a read"
        raise TypeError(msg)
    params = declare_params(query.params, findings)
    segments = _split_segments(body)
    _check_deletes_unmixed(segments, findings)
    binder = _MutationBinder(catalog, params, findings)
    statements: list[Statement | None] = []
    returning = Returning()
    for number, segment in enumerate(segments):
        if segment.match is None:
            statements += [binder.bind_statement(node) for node in segment.statements]
            continue
        if number == len(segments) - 1:
            returning = _draft_returning(query, binder, segment)
        statements.append(_bind_driven(segment, segment.match, query, binder, bind_read, returning))
    if query.returning and segments[-1].match is None:
        returning = _draft_returning(query, binder, None)
        bind_returning_alone(returning, query, catalog, bind_read, findings)
    diagnostics = findings.finalize()
    bound = tuple(statement for statement in statements if statement is not None)
    if diagnostics or len(bound) < len(statements):
        return StageResult(None, diagnostics)
    annotations = {annotation.name.text: annotation.text for annotation in query.annotations}
    mutation = MutationQuery(
        name=query.name.text,
        params=tuple(params.declared.values()),
        statements=bound,
        returning=returning.columns,
        description=annotations.get("description"),
        instruction=annotations.get("instruction"),
        origin=query.span,
    )
    return StageResult(mutation, diagnostics)


def _split_segments(body: tuple[ast.Mutation, ...]) -> list[_DrivenSegment]:
    segments: list[_DrivenSegment] = []
    for node in body:
        if isinstance(node, ast.DriveMatch):
            segments.append(_DrivenSegment(node, ()))
        elif not segments:
            segments.append(_DrivenSegment(None, (node,)))
        else:
            segments[-1] = replace(segments[-1], statements=(*segments[-1].statements, node))
    return segments


def _check_deletes_unmixed(segments: list[_DrivenSegment], findings: DiagnosticCollector) -> None:
    """Report a delete together with other statements (D2), unless one match drives all of them."""
    statements = [node for segment in segments for node in segment.statements]
    is_one_match = len(segments) == 1 and segments[0].match is not None
    if is_one_match or not statements:
        return
    deletes = (ast.Delete, ast.DeleteMatched)
    for node in statements:
        if isinstance(node, deletes) is not isinstance(statements[0], deletes):
            message = "a delete can't be mixed with inserts and updates"
            help_ = "split it into two queries"
            if any(segment.match is not None for segment in segments):
                help_ += ", or let one `match` drive all statements"
            # All three keywords have six letters.
            keyword = Span(node.span.start, node.span.start + len("insert"))
            findings.add_error("D2", keyword, message, help_)
            return


def _draft_returning(query: ast.Query, binder: "_MutationBinder", segment: _DrivenSegment | None) -> Returning:
    """Return the columns of `returning`, with those variables of inserts that they read."""
    named = dict(binder.named)
    inserts = () if segment is None else segment.statements
    for node in inserts:
        if isinstance(node, ast.Insert) and node.variable is not None:
            declared = binder.catalog.find_type(node.type.text)
            if declared is not None:
                named[node.variable.name] = _build_entity_type(declared)
    mentioned = set().union(*(find_mentioned(projection.value) for projection in query.returning))
    read = {name: type_ for name, type_ in named.items() if name in mentioned}
    return Returning(query.returning, read, frozenset(binder.params.names))


def _bind_driven(
    segment: _DrivenSegment,
    match: ast.DriveMatch,
    query: ast.Query,
    binder: "_MutationBinder",
    bind_read: BindRead,
    returning: Returning,
) -> DriveMatch | None:
    """Bind a match and the statements that it drives: first what they read of it, then the statements."""
    findings = binder.findings
    draft = MatchDraft(match)
    asking = replace(binder, named=dict(binder.named))
    for node in segment.statements:
        asking.ask(node, draft)
    columns = draft.bind(query, binder.catalog, bind_read, returning, findings)
    if not segment.statements:
        keyword = Span(match.span.start, match.span.start + len("match"))
        message = "this `match` drives no statement, and has no `return`"
        findings.add_error("D3", keyword, message, "write `insert`, `update $x` or `delete $x` after it, or `return`")
        return None
    # Variables that inserts after a match name are visible after this match only: there is one for each of its rows.
    driven = replace(binder, columns=columns, named=dict(binder.named))
    statements = [driven.bind_driven(node) for node in segment.statements]
    bound = tuple(statement for statement in statements if statement is not None)
    if columns.read is None or len(bound) < len(statements):
        return None
    # `DriveMatch` rejects a match without a column that a statement reads, which an error can leave out.
    return (
        None
        if findings
        else DriveMatch(read=columns.read, statements=bound, types=columns.list_types(), origin=match.span)
    )


@dataclass(frozen=True, slots=True)
class _MutationBinder:
    """Bind the statements of one mutation.

    `named` are the variables of inserts so far; `columns` what the statements read of their match, if there is one.
    """

    catalog: Catalog
    params: Params
    findings: DiagnosticCollector
    named: dict[str, EntityType] = field(default_factory=dict)
    columns: MatchColumns | None = None

    def bind_statement(self, node: ast.Mutation) -> InsertNode | InsertEdge | Update | Delete | None:
        """Bind a statement that no match drives; None if it has an error, which is reported."""
        if isinstance(node, ast.UpdateMatched | ast.DeleteMatched):
            name = node.variable.name
            help_ = f"bind it before: `match {{ ${name}: Type {{ … }} }}`"
            self.findings.add_error("D3", node.variable.span, f"no `match` binds `${name}`", help_)
            return None
        assert not isinstance(node, ast.DriveMatch)  # noqa: S101 - segments are split at these
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

    # --- statements after a match ---------------------------------------------------------------

    def ask(self, node: ast.Mutation, draft: MatchDraft) -> None:
        """Ask a match for what a statement reads of its rows."""
        match node:
            case ast.Insert():
                is_edge = node.type.text in self.catalog.edges
                for assignment in node.assignments:
                    value = assignment.value
                    is_end = is_edge and assignment.name.text in ENDS
                    if is_end and isinstance(value, ast.Variable):
                        if value.name not in self.params and value.name not in self.named:
                            draft.add_variable(value)
                    elif self._reads_row(value):
                        draft.add_value(value)
                declared = self.catalog.find_type(node.type.text)
                if node.variable is not None and declared is not None:
                    self.named[node.variable.name] = _build_entity_type(declared)
            case ast.UpdateMatched() | ast.DeleteMatched() if node.variable.name in self.named:
                # Reported when the statement is bound: the match does not know the variable.
                pass
            case ast.UpdateMatched():
                draft.add_variable(node.variable)
                for assignment in node.assignments:
                    if self._reads_row(assignment.value):
                        draft.add_value(assignment.value, node.variable)
            case ast.DeleteMatched():
                draft.add_variable(node.variable)
            case _:
                pass

    def bind_driven(self, node: ast.Mutation) -> DrivenStatement | None:
        """Bind a statement that a match drives; None if it has an error, which is reported."""
        match node:
            case ast.Insert():
                declared = self._find_type(node.type)
                return None if declared is None else self._bind_insert(node, declared)
            case ast.UpdateMatched():
                declared = self._find_matched_type(node.variable)
                return None if declared is None else self._bind_update_matched(node, declared)
            case ast.DeleteMatched():
                declared = self._find_matched_type(node.variable)
                if declared is None:
                    return None
                return DeleteMatched(type=_build_entity_type(declared), variable=node.variable.name, origin=node.span)
            case ast.Update() | ast.Delete():
                word = "update" if isinstance(node, ast.Update) else "delete"
                message = f"after a `match`, `{word}` names a variable, not a type"
                name = node.type.text
                is_edge = self.catalog.find_edge(name) is not None
                form = f"$a $x:{name[0].lower()}{name[1:]} $b" if is_edge else f"$x: {name}"
                help_ = f"bind the rows in the `match`, `{form}`, and write `{word} $x`"
                self.findings.add_error("D3", node.type.span, message, help_)
                return None
            case ast.DriveMatch():
                raise AssertionError("segments are split at these")
            case _:
                assert_never(node)

    def _find_matched_type(self, variable: ast.Variable) -> AnyType | None:
        """Return the type of the rows that a match binds to a variable; None if there is an error."""
        name = variable.name
        if name in self.named:
            message = f"`${name}` is inserted by this mutation"
            self.findings.add_error("D3", variable.span, message, "set its values where it is inserted")
            return None
        if self.columns is None or name not in self.columns.variables:
            # The match has an error, which is reported.
            return None
        type_ = self.columns.find_type(name)
        declared = None if type_ is None else self.catalog.find_type(type_.name)
        if declared is None:
            kind = "a value" if type_ is None else f"of several types, {type_}"
            message = f"`${name}` is {kind}, not the nodes or edges of one type"
            help_ = "bind it to one type: `$x: Type`"
            if type_ is None:
                help_ = f"the elements of a list and of a path are rows of `each`: `each $e in edges(${name})`"
            self.findings.add_error("D3", variable.span, message, help_)
        return declared

    def _bind_update_matched(self, node: ast.UpdateMatched, declared: AnyType) -> UpdateMatched | None:
        if not node.assignments:
            self._report_no_values(declared, node.variable.span)
        by_name = self._index_assignments(node.assignments)
        changeable = {name: a for name, a in by_name.items() if self._is_changeable(a.name, declared)}
        values = self._bind_values(changeable, declared, reads_row=True)
        if not values or len(values) < len(node.assignments):
            return None
        return UpdateMatched(
            type=_build_entity_type(declared), variable=node.variable.name, values=values, origin=node.span
        )

    def _reads_row(self, value: ast.Expr) -> bool:
        """Return whether a value depends on the row of a match, as far as its syntax tells."""
        return not is_simple_value(value, self.params) and not find_mentioned(value) & self.named.keys()

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

    def _bind_insert(self, node: ast.Insert, declared: AnyType) -> InsertNode | InsertEdge | None:
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
        is_complete = self._check_complete(node, declared, by_name)
        self._check_absent_and_name(node, declared)
        if not is_complete:
            return None
        omitted = tuple(p.name for p in declared.properties if p.name not in by_name)
        # An assignment that is missing here was rejected and reported.
        if len(values) + len(ends) < len(node.assignments) or (node.if_absent and not declared.key):
            return None
        variable = None if node.variable is None else node.variable.name
        if isinstance(declared, NodeType):
            return InsertNode(
                type=NodeRef(declared.name),
                values=values,
                omitted=omitted,
                is_upsert=bool(declared.key),
                if_absent=node.if_absent,
                variable=variable,
                origin=node.span,
            )
        return InsertEdge(
            type=_build_edge_ref(declared),
            source=ends["from"],
            target=ends["to"],
            values=values,
            omitted=omitted,
            is_upsert=bool(declared.key),
            if_absent=node.if_absent,
            variable=variable,
            origin=node.span,
        )

    def _check_absent_and_name(self, node: ast.Insert, declared: AnyType) -> None:
        """Check `if absent` and `as`, and make the variable known to later statements."""
        if node.if_absent and not declared.key:
            message = f"`{declared.name}` has no key, so every insert makes a new row"
            self.findings.add_error("D3", node.type.span, message, "drop `if absent`, or declare a key in the schema")
        variable = node.variable
        if variable is None:
            return
        is_matched = self.columns is not None and variable.name in self.columns.names
        if variable.name == ast.ANONYMOUS or variable.name in self.params or variable.name in self.named or is_matched:
            message = f"`${variable.name}` is already a variable or a parameter"
            self.findings.add_error("Q003", variable.span, message, "give the new row another name")
        self.named[variable.name] = _build_entity_type(declared)

    def _bind_update(self, node: ast.Update, declared: AnyType) -> Update | None:
        if not node.assignments:
            self._report_no_values(declared, node.type.span)
        by_name = self._index_assignments(node.assignments)
        changeable = {name: a for name, a in by_name.items() if self._is_changeable(a.name, declared)}
        values = self._bind_values(changeable, declared, reads_row=True)
        where = self._bind_where(node.where, declared)
        if where is None or not values or len(values) < len(node.assignments):
            return None
        return Update(type=_build_entity_type(declared), values=values, where=where, origin=node.span)

    def _report_no_values(self, declared: AnyType, span: Span) -> None:
        example = next((p.name for p in declared.properties if p.name not in declared.key), None)
        help_ = None if example is None else f"write `set {{ {example}: … }}`"
        self.findings.add_error("T10", span, f"update of `{declared.name}` without values", help_)

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
        value: Expr | None
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
            note_property(assignment.name.span, (declared.name,))
            slot = Slot(owner=declared.name, name=name, type=prop.type, nullable=prop.nullable)
            if self.columns is not None and not is_simple_value(assignment.value, self.params):
                value = self._find_column(assignment.value, slot)
            else:
                value = bind_property_value(
                    assignment.value, slot, self.params, self.findings, binder, reads_row=reads_row
                )
            if value is not None:
                values.append(Assign(property=name, value=value, origin=assignment.span))
        return tuple(values)

    def _find_column(self, node: ast.Expr, slot: Slot) -> ValueRef | None:
        """Return the column of a match with a value to store; None if it does not fit (T3) or has an error."""
        named = sorted(find_mentioned(node) & self.named.keys())
        if named:
            message = f"`${named[0]}` is inserted by this mutation, so `{clip_text(print_expr(node))}` has no value yet"
            self.findings.add_error(
                "T6", node.span, message, "write the value again; `from` and `to` take the variable"
            )
            return None
        value = None if self.columns is None else self.columns.find_value(node)
        return value if value is not None and check_fits(value, node, slot, self.findings) else None

    def _bind_ends(self, by_name: dict[str, ast.Assignment], declared: AnyType) -> dict[str, EndValue]:
        ends: dict[str, EndValue] = {}
        if isinstance(declared, NodeType):
            return ends
        for name, type_ in (("from", declared.source), ("to", declared.target)):
            if name in by_name:
                meaning = f"`{name}` is the id of a `{type_}`: a String"
                slot = Slot(owner=declared.name, name=name, type=Scalar.STRING, meaning=meaning)
                value = self._bind_end(by_name[name].value, slot, NodeRef(type_))
                if value is not None:
                    ends[name] = value
        return ends

    def _bind_end(self, node: ast.Expr, slot: Slot, type_: NodeRef) -> EndValue | None:
        """Bind an end of an edge: a variable of a match or an insert, or the id of a node."""
        is_variable = isinstance(node, ast.Variable) and node.name not in self.params
        if not is_variable or not isinstance(node, ast.Variable):
            if self.columns is not None and not is_simple_value(node, self.params):
                return self._find_column(node, slot)
            return bind_stored_value(node, slot, self.params, self.findings)
        actual: object = self.named.get(node.name)
        if actual is None:
            if self.columns is None:
                return bind_stored_value(node, slot, self.params, self.findings)
            bound = self.columns.variables.get(node.name)
            # The match has an error, which is reported.
            if bound is None:
                return None
            actual = bound.type
            if actual is Scalar.STRING:
                return ValueRef(variable=node.name, type=Scalar.STRING, nullable=bound.nullable, origin=node.span)
        if actual != type_:
            message = f"{slot} is a node of `{type_}`, but `${node.name}` is of type {actual}"
            self.findings.add_error("T3", node.span, message, slot.meaning)
            return None
        return build_id(node.name, node.span)

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
        self.findings.add_error("T12", node.type.span, message, _build_missing_help(missing, declared))
        return False

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


def _build_missing_help(missing: list[str], declared: AnyType) -> str:
    if isinstance(declared, EdgeType) and missing[0] in ENDS:
        ids = f"`from` is the id of a `{declared.source}`, `to` of a `{declared.target}`"
        return f"an edge needs both ends: {ids}"
    # An insert into a type with a key is an upsert, but the binder can't know whether the row exists.
    reason = ", because the key may be new; to change an existing row, use `update`" if declared.key else ""
    return f"required properties without a default need a value{reason}"


def _list_required_names(declared: AnyType) -> list[str]:
    """Return the names that an insert must set: ends and required properties, without vectors embedded from a text."""
    ends = list(ENDS) if isinstance(declared, EdgeType) else []
    return ends + [p.name for p in declared.properties if p.is_required and p.embedding is None]


def _build_entity_type(declared: AnyType) -> EntityType:
    return NodeRef(declared.name) if isinstance(declared, NodeType) else _build_edge_ref(declared)


def _build_edge_ref(declared: EdgeType) -> EdgeRef:
    return EdgeRef(declared.name, declared.source, declared.target)
