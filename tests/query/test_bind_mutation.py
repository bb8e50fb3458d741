from datetime import date

import pytest

from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.source import Span
from omnigraph.query.bind_values import can_store
from omnigraph.query.expr import And, Compare, Const, EdgeRef, Identity, MetaColumn, NodeRef, Now, Op, ParamRef, Prop
from omnigraph.query.expr_types import ROW
from omnigraph.query.mutation_plan import Delete, InsertEdge, InsertNode, Update
from omnigraph.schema.catalog import Value
from omnigraph.schema.types import EnumOf, ListOf, Scalar, ValueType, VectorOf
from query.mutating import bound, checked, codes

NOWHERE = Span(0, 0)


def first(text: str, params: str = "") -> object:
    return bound(text, params).statements[0]


def only(text: str, params: str = "") -> Diagnostic:
    (found,) = checked(text, params).diagnostics
    return found


def const(value: Value, type_: ValueType) -> Const:
    return Const(value=value, type=type_, origin=NOWHERE)


# --- inserts -------------------------------------------------------------------------------------


def test_values_of_an_insert_have_the_types_of_their_properties() -> None:
    statement = first('insert Person { name: "Ada", age: 3, score: 2, born: date("2000-01-01"), bio: null }')

    assert isinstance(statement, InsertNode)
    assert {assign.property: assign.value for assign in statement.values} == {
        "name": const("Ada", Scalar.STRING),
        "age": const(3, Scalar.I32),
        "score": const(2.0, Scalar.F64),
        "born": const(date(2000, 1, 1), Scalar.DATE),
        "bio": const(None, Scalar.STRING),
    }


def test_what_an_insert_leaves_out_is_listed_in_declared_order() -> None:
    statement = first('insert Person { status: "new", name: "Ada", age: 3 }')

    assert isinstance(statement, InsertNode)
    assert statement.omitted == ("active", "seen", "born", "score", "bio", "face")


def test_an_insert_of_a_keyed_node_is_an_upsert() -> None:
    statement = first('insert Person { name: "Ada" }')

    assert isinstance(statement, InsertNode)
    assert statement.is_upsert


def test_an_insert_of_a_node_without_a_key_creates() -> None:
    statement = first('insert Note { text: "x" }')

    assert isinstance(statement, InsertNode)
    assert not statement.is_upsert


def test_the_ends_of_an_edge_are_ids_beside_its_values() -> None:
    statement = first('insert Knows { to: $b, since: null, from: "ada" }', "$b: String")

    assert isinstance(statement, InsertEdge)
    assert statement.type == EdgeRef("Knows", "Person", "Person")
    assert statement.source == const("ada", Scalar.STRING)
    assert statement.target == ParamRef(name="b", type=Scalar.STRING, origin=NOWHERE)
    assert [assign.property for assign in statement.values] == ["since"]


@pytest.mark.parametrize("edge,is_upsert", [("Knows", False), ("Follows", True)])
def test_an_insert_of_a_keyed_edge_is_an_upsert(edge: str, is_upsert: bool) -> None:
    weight = ", weight: 0.5" if edge == "Follows" else ""

    statement = first(f'insert {edge} {{ from: "a", to: "b"{weight} }}')

    assert isinstance(statement, InsertEdge)
    assert statement.is_upsert is is_upsert


def test_now_is_a_value_of_an_instant() -> None:
    statement = first('insert Person { name: "Ada", seen: now() }')

    assert isinstance(statement, InsertNode)
    assert statement.values[1].value == Now(origin=NOWHERE)


def test_an_end_under_its_stored_name_is_not_missing_too() -> None:
    assert codes('insert Knows { src: "a", dst: "b" }') == ["T11", "T11"]


def test_a_flood_of_unknown_names_is_told_without_looking_for_near_ones() -> None:
    found = checked(f'insert Note {{ text: "x", {", ".join(f"star{n}: 1" for n in range(200))} }}').diagnostics

    assert len(found) == 200
    assert sum(d.help is not None for d in found) <= 50


def test_all_that_is_missing_is_said_at_once() -> None:
    found = only("insert Follows { from: $a }", "$a: String")

    assert (found.code, found.message) == ("T12", "insert of `Follows` leaves out `to` and `weight`")


def test_a_computed_vector_may_be_left_out() -> None:
    assert codes('insert Person { name: "Ada" }') == []


def test_a_misspelt_required_property_is_one_error() -> None:
    assert codes('insert Person { nmae: "Ada" }') == ["T11"]


def test_a_misspelt_end_is_one_error_with_the_end_as_help() -> None:
    found = only('insert Knows { form: "a", to: "b" }')

    assert (found.code, found.help) == ("T11", "did you mean `from`?")


# --- updates and deletes -------------------------------------------------------------------------


def test_names_of_a_predicate_are_properties_of_the_row() -> None:
    statement = first("update Person set { age: 4 } where name = $n and age > 3", "$n: String")

    assert isinstance(statement, Update)
    name = Prop(variable=ROW, name="name", type=Scalar.STRING, origin=NOWHERE)
    age = Prop(variable=ROW, name="age", type=Scalar.I32, nullable=True, origin=NOWHERE)
    param = ParamRef(name="n", type=Scalar.STRING, origin=NOWHERE)
    assert statement.where == And(
        terms=(
            Compare(op=Op.EQ, left=name, right=param, origin=NOWHERE),
            Compare(op=Op.GT, left=age, right=const(3, Scalar.I32), origin=NOWHERE),
        ),
        origin=NOWHERE,
    )


@pytest.mark.parametrize(
    "word,part",
    [
        ("from", MetaColumn.SRC),
        ("to", MetaColumn.DST),
        ("@src", MetaColumn.SRC),
        ("@dst", MetaColumn.DST),
        ("@id", MetaColumn.ID),
    ],
)
def test_an_edge_has_ends_and_an_id_in_predicates(word: str, part: MetaColumn) -> None:
    statement = first(f'delete Knows where {word} = "x"')

    assert isinstance(statement, Delete)
    assert isinstance(statement.where, Compare)
    assert statement.where.left == Identity(variable=ROW, part=part, origin=NOWHERE)


def test_a_node_has_an_id_in_predicates() -> None:
    statement = first('delete Note where @id = "x"')

    assert isinstance(statement, Delete)
    assert statement.type == NodeRef("Note")


def test_a_text_search_reads_a_property_of_the_row() -> None:
    assert codes('delete Note where search(text, "x")') == []


def test_statements_keep_their_order() -> None:
    plan = bound('insert Note { text: "a" } update Note set { stars: 1 } where text = "a"')

    assert [type(statement) for statement in plan.statements] == [InsertNode, Update]


def test_errors_of_all_statements_and_parts_are_found_at_once() -> None:
    text = 'insert Person { agee: 1, name: 2, name: "x", seen: age } update Person set { name: "y" } where nam = $x'

    assert codes(text) == ["T11", "T3", "T13", "T14", "T26", "T11", "T6"]


def test_mixing_a_delete_does_not_hide_what_else_is_wrong() -> None:
    assert codes('insert Note { text: 3 } delete Note where txt = "x"') == ["T3", "D2", "T11"]


def test_an_update_without_values_still_has_its_predicate_checked() -> None:
    assert codes("update Person set { } where agee = 3") == ["T10", "T11"]


# --- parameters ----------------------------------------------------------------------------------


def test_a_variable_that_is_no_parameter_gets_the_near_one() -> None:
    found = only("insert Note { text: $txt }", "$text: String")

    assert (found.code, found.help) == ("T6", "did you mean `$text`?")


def test_a_bare_name_of_a_parameter_gets_its_dollar() -> None:
    found = only("insert Note { text: text }", "$text: String")

    assert (found.code, found.help) == ("T14", "did you mean `$text`?")


def test_a_parameter_with_an_impossible_type_is_reported_once() -> None:
    assert codes("insert Note { text: $t }", "$t: Vector(0)") == ["Q000"]


@pytest.mark.parametrize(
    "column,given",
    [
        (Scalar.I64, Scalar.I32),
        (Scalar.I64, Scalar.U32),
        (Scalar.U64, Scalar.U32),
        (Scalar.F64, Scalar.F32),
        (Scalar.F64, Scalar.I32),
        (EnumOf(("a",)), Scalar.STRING),
        (ListOf(Scalar.I32), ListOf(Scalar.I32)),
    ],
)
def test_a_column_holds_what_loses_nothing(column: ValueType, given: ValueType) -> None:
    assert can_store(column, given)


@pytest.mark.parametrize(
    "column,given",
    [
        (Scalar.I32, Scalar.I64),
        (Scalar.I32, Scalar.U32),
        (Scalar.U64, Scalar.I32),
        (Scalar.F64, Scalar.I64),
        (Scalar.F32, Scalar.I32),
        (Scalar.F32, Scalar.F64),
        (Scalar.I32, Scalar.F32),
        (Scalar.STRING, Scalar.I32),
        (Scalar.DATETIME, Scalar.DATE),
        (ListOf(Scalar.I64), ListOf(Scalar.I32)),
        (VectorOf(2), VectorOf(3)),
        (Scalar.STRING, EnumOf(("a",))),
    ],
)
def test_a_column_refuses_what_could_lose_something(column: ValueType, given: ValueType) -> None:
    assert not can_store(column, given)


def test_a_stored_parameter_keeps_its_own_type() -> None:
    statement = first('insert Note { text: "x", stars: $s }', "$s: I32?")

    assert isinstance(statement, InsertNode)
    value = statement.values[1].value
    assert value == ParamRef(name="s", type=Scalar.I32, nullable=True, origin=NOWHERE)


def test_descriptions_are_kept() -> None:
    plan = checked('insert Note { text: "x" }', annotations='@description("adds") @instruction("use it")').value

    assert plan is not None
    assert (plan.description, plan.instruction) == ("adds", "use it")
