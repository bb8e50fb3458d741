"""Rows of several types as one relation: the union of the scans of its members.

The id of a row of several types is a text of its type and its id, so that it tells rows of all members apart and sorts
by type, then by id. The texts of two unions are the same for one row, so a part of a union needs no conversion.
"""

from collections.abc import Sequence

from omnigraph.engine.predicate_eval import find_columns
from omnigraph.engine.relational.dialect import UnsupportedForm
from omnigraph.engine.relational.lowering_host import LoweringHost
from omnigraph.engine.relational.tree import (
    ID_VALUE,
    ROW_POSITION,
    ColumnTerm,
    ConvertedTerm,
    ExprTerm,
    JoinKind,
    JoinRows,
    OffsetTerm,
    Project,
    Relation,
    ScanRows,
    Select,
    Term,
    TypedIdTerm,
    UnionAll,
)
from omnigraph.engine.tables.union_reader import adapt_predicate
from omnigraph.lang.source import Span
from omnigraph.query.expr import Const, Expr
from omnigraph.query.expr_tree import find_variables, split_conjuncts
from omnigraph.query.union_types import TYPE_COLUMN, is_union, list_members, unite_value_types
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.types import Scalar

_TYPED = "#typed"
# The columns of a union that no property has.
_OWN_COLUMNS = (TYPE_COLUMN, ID_VALUE, ROW_POSITION)


def scan_rows(
    host: LoweringHost,
    type_name: str,
    variable: str,
    columns: tuple[tuple[str, str], ...],
    filters: tuple[Expr, ...] = (),
) -> Relation:
    """Return the rows of a type, or of all members of a union, that pass filters which read `variable` alone."""
    if not is_union(type_name):
        return ScanRows(type=type_name, variable=variable, columns=columns, filters=filters)
    members = list_members(type_name)
    return UnionAll(
        inputs=tuple(scan_member(host, type_name, member, variable, columns, filters) for member in members)
    )


def scan_member(
    host: LoweringHost,
    union: str,
    member: str,
    variable: str,
    columns: tuple[tuple[str, str], ...],
    filters: tuple[Expr, ...] = (),
    *,
    plain: Sequence[str] = (),
    is_loop_left_out: bool = False,
) -> Relation:
    """Return the rows of a member as rows of the union; the columns `plain` stay as they are stored."""
    read = [column for column, _ in columns] + [name for each in filters for name in find_columns(each)]
    if any(name.startswith("@") and name not in _OWN_COLUMNS for name in read):
        # How well a row matches depends on all rows of the union.
        raise UnsupportedForm("a search over several types")
    declared = host.find_type(member)
    stored: list[str] = []
    items: list[tuple[str, Term]] = []
    for column, name in columns:
        term: Term = ColumnTerm(column)
        source = ID if column == ID_VALUE else column
        if column == TYPE_COLUMN:
            items.append((name, ExprTerm(Const(value=member, type=Scalar.STRING, origin=_NOWHERE))))
            continue
        if column == ID and name not in plain:
            term = TypedIdTerm(type=member, column=ID)
        elif column == ROW_POSITION:
            term = OffsetTerm(column=column, offset=host.get_base(union, member))
        elif column == ID_VALUE:
            term = ColumnTerm(ID)
        elif column not in (ID, SRC, DST):
            found = [host.find_type(each).find_property(column) for each in list_members(union)]
            common = unite_value_types([each.type for each in found if each is not None])
            assert common is not None  # noqa: S101 - only properties of one common type can be read
            own = declared.find_property(column)
            is_same = own is not None and own.type == common
            if not is_same:
                term = ConvertedTerm(None if own is None else column, common)
            source = column if own is not None else ""
        stored += [source] if source and source not in stored else []
        items.append((name, term))
    # A condition on the type alone reads no column of the member: it holds for all of its rows or for none.
    terms = [term for each in filters for term in split_conjuncts(adapt_predicate(each, declared))]
    own_filters = tuple(term for term in terms if find_variables(term))
    constant = tuple(term for term in terms if not find_variables(term))
    rows: Relation = ScanRows(
        type=member,
        variable=variable,
        columns=tuple((each, each) for each in stored or [ID]),
        filters=own_filters,
        is_loop_left_out=is_loop_left_out,
    )
    if constant:
        rows = Select(input=rows, predicates=constant)
    return Project(input=rows, items=tuple(items))


def convert_ids(relation: Relation, column: str, from_type: str, to_type: str) -> Relation:
    """Return a relation whose column has the ids of a type as those of a union that it is a part of."""
    if is_union(from_type) or not is_union(to_type):
        return relation
    items = tuple(
        (name, TypedIdTerm(type=from_type, column=name) if name == column else ColumnTerm(name))
        for name in relation.names
    )
    return Project(input=relation, items=items)


def select_type(host: LoweringHost, relation: Relation, column: str, from_type: str, to_type: str) -> Relation:
    """Return the rows whose column has the id of a part of a union, which is a type or another union."""
    if from_type == to_type:
        return relation
    key = f"{_TYPED} {column}"
    rows = scan_rows(host, to_type, _TYPED, ((ID, key),))
    if is_union(to_type):
        return JoinRows(kind=JoinKind.SEMI, left=relation, right=rows, equal=((column, key),))
    plain = Project(input=rows, items=((_TYPED, ColumnTerm(key)), (key, TypedIdTerm(type=to_type, column=key))))
    joined = JoinRows(kind=JoinKind.INNER, left=relation, right=plain, equal=((column, key),))
    items = tuple((name, ColumnTerm(_TYPED if name == column else name)) for name in relation.names)
    return Project(input=joined, items=items)


_NOWHERE = Span(0, 0)
