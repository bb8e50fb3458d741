"""The stored form: canonical, strict, and a fingerprint of what a schema says."""

import json
import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import Kind
from omnigraph.schema.catalog import Catalog
from omnigraph.schema.catalog_codec import (
    CATALOG_FORMAT,
    CatalogCorruptError,
    CatalogFormatError,
    compute_fingerprint,
    decode_catalog,
    encode_catalog,
)
from omnigraph.schema.identity import assign_identities
from schema_making import accepted, catalog_from, catalogs

RICH = """
interface Named { name: String @index @description("who") }
node Person implements Named
        @owner(me, since=date("2024-01-01"), at=datetime("2024-01-01T00:00:00Z"), n=[1, 1.0, true]) {
    age: I32? @default(7)
    state: enum(on, off-line) @default("on")
    bio: String @rename_from("story")
    vec: Vector(2)? @embed("bio", model="m") @index
    on: Date @default(date("2024-02-29"))
    big: U64 @default(18446744073709551615)
    tags: [String] @default(["ä", "b"])
    @key(name)
    @unique(age, state)
    @range(age, 0..150)
    @check(bio, "\\\\S")
}
edge Knows: Person -> Person @card(0..5) @instruction("i") {
    since: Date?
    @key(src, dst)
    @range(since, ..date("2030-01-01"))
}
"""


def canonical(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


# --- there and back ------------------------------------------------------------------------------------


def test_a_catalog_survives_with_everything_it_holds() -> None:
    catalog = accepted(RICH)

    assert decode_catalog(encode_catalog(catalog)) == catalog


def test_the_order_of_types_survives() -> None:
    catalog = accepted("node B {} node A {}")

    assert list(decode_catalog(encode_catalog(catalog)).nodes) == ["B", "A"]


@given(catalogs())
def test_bytes_and_catalogs_are_one_to_one(schema: Catalog) -> None:
    catalog = assign_identities(schema, None)
    data = encode_catalog(catalog)

    assert decode_catalog(data) == catalog
    assert encode_catalog(decode_catalog(data)) == data


def test_a_large_catalog_is_fast() -> None:
    node = "node T{n} {{ {properties} @key(p0) @range(p1, 0..) }}\n"
    properties = " ".join(f"p{n}: I32 @default({n})" for n in range(10))
    catalog = accepted("".join(node.format(n=n, properties=properties) for n in range(500)))

    started = time.thread_time()
    decoded = decode_catalog(encode_catalog(catalog))
    compute_fingerprint(decoded)
    took = time.thread_time() - started

    assert decoded == catalog
    assert took < 3  # of this thread, whatever else runs: a fifth of a second is usual, quadratic work takes minutes


# --- strict ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b"[]", b"null", b'"x"', b'{"format":1}', b"[" * 100_000, b'{"format":NaN}']
)
def test_bytes_that_are_no_document_are_refused(data: bytes) -> None:
    with pytest.raises(CatalogCorruptError) as raised:
        decode_catalog(data)

    assert raised.value.kind is Kind.CORRUPT


def test_another_format_is_told_apart_from_damage() -> None:
    with pytest.raises(CatalogFormatError, match="omnigraph-catalog/2") as raised:
        decode_catalog(canonical({"format": "omnigraph-catalog/2", "anything": 1}))

    assert raised.value.kind is Kind.CORRUPT
    assert CATALOG_FORMAT in str(raised.value)


SPOILED = [
    # path to change, new value, the place and the words of the error
    (("nodes", 0, "identity"), "1", "nodes[0].identity: expected a whole number"),
    (("nodes", 0, "identity"), True, "nodes[0].identity: expected a whole number"),
    (("nodes", 0, "identity"), -1, "nodes[0].identity: expected a whole number"),
    (("nodes", 0, "identity"), 2, "next_identity: an identity is used twice"),
    (("next_identity",), 1, "next_identity: an identity is used twice, or was never assigned"),
    (("nodes", 0, "name"), 3, "nodes[0].name: expected a string, got 3"),
    (("nodes", 0, "name"), "Knows", "two types have the same name"),
    (("nodes", 0, "name"), "Other", "edges: an end of"),
    (("nodes", 0, "surprise"), 1, 'nodes[0]: the field "surprise" is unknown'),
    (("nodes",), {}, "nodes: expected a list, got an object"),
    (("nodes", 0), [], "nodes[0]: expected an object"),
    (("nodes", 0, "properties", 1, "type"), "I33", "nodes[0].properties[1].type:"),
    (("nodes", 0, "properties", 1, "type"), {"vector": 0}, "nodes[0].properties[1].type:"),
    (("nodes", 0, "properties", 1, "type"), {"list": "Blob"}, "nodes[0].properties[1].type:"),
    (("nodes", 0, "properties", 1, "type"), {"enum": []}, "nodes[0].properties[1].type:"),
    (("nodes", 0, "properties", 1, "type"), {"map": 1}, "nodes[0].properties[1].type: expected a type"),
    (("nodes", 0, "properties", 1, "nullable"), 0, "nodes[0].properties[1].nullable: expected true or false"),
    (("nodes", 0, "properties", 1, "default"), "x", "nodes[0].properties[1].default: expected a whole number"),
    (("nodes", 0, "properties", 1, "name"), "name", "nodes[0].properties: two properties have the same name"),
    (("nodes", 0, "key"), ["nope"], 'nodes[0].key[0]: there is no property "nope"'),
    (("nodes", 0, "ranges", 0, "low"), "x", "nodes[0].ranges[0].low: expected a whole number"),
    (("nodes", 0, "annotations", 0, "argument"), {"x": 1}, "nodes[0].annotations[0].argument: expected a value"),
    (("nodes", 0, "annotations", 0, "argument"), {"date": "x"}, "nodes[0].annotations[0].argument: expected a date"),
    (("nodes", 0, "annotations", 0, "options", 0), ["x"], "options[0]: expected a name and a value"),
    (("edges", 0, "cardinality"), [1], "edges[0].cardinality: expected two bounds"),
    (("nodes", 0, "properties", 1, "default"), 7.0, "nodes[0].properties[1].default: expected a whole number"),
]


def spoil(document: object, path: tuple[str | int, ...], value: object) -> None:
    *way, last = path
    for part in way:
        document = document[part]  # type: ignore[index]  # a JSON document of known shape
    document[last] = value  # type: ignore[index]  # as above


@pytest.mark.parametrize("path, value, story", SPOILED, ids=[f"{row[0]}={row[1]}" for row in SPOILED])
def test_a_damaged_document_says_where(path: tuple[str | int, ...], value: object, story: str) -> None:
    document = json.loads(encode_catalog(accepted(RICH)))
    spoil(document, path, value)

    with pytest.raises(CatalogCorruptError) as raised:
        decode_catalog(canonical(document))

    assert story in str(raised.value)


FIELDS = sorted(json.loads(encode_catalog(accepted(RICH)))["nodes"][0])


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_of_a_type_is_needed(name: str) -> None:
    document = json.loads(encode_catalog(accepted(RICH)))
    del document["nodes"][0][name]

    with pytest.raises(CatalogCorruptError, match=f"the field `{name}` is missing"):
        decode_catalog(canonical(document))


def test_bytes_that_mean_the_same_but_are_written_differently_are_refused() -> None:
    data = encode_catalog(accepted(RICH))

    with pytest.raises(CatalogCorruptError, match="canonical"):
        decode_catalog(data.replace(b'{"edges"', b'{ "edges"'))


@given(st.data())
def test_no_damage_escapes_as_another_error(data: st.DataObject) -> None:
    good = encode_catalog(accepted(RICH))
    place = data.draw(st.integers(0, len(good) - 1))
    bad = good[:place] + data.draw(st.binary(min_size=1, max_size=2)) + good[place + 1 :]

    try:
        again = encode_catalog(decode_catalog(bad))
    except (CatalogCorruptError, CatalogFormatError):
        again = bad

    assert again == bad


def test_the_errors_leave_a_worker_process_whole() -> None:
    error = CatalogCorruptError("nodes[0]", "gone")

    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes

    assert str(copy) == str(error)


# --- fingerprint -----------------------------------------------------------------------------------------


def test_layout_and_the_order_of_types_and_constraints_do_not_count() -> None:
    one = "node A { x: I32  y: I32  @unique(x, y) @index(x, y) } node B {} edge E: A -> B edge F: B -> A"
    other = """
        edge F: B -> A  // a comment
        edge E: A -> B
        node B {}
        node A { x: I32  y: I32 @index
                 @index(x) @unique(y, x) }
    """

    assert compute_fingerprint(catalog_from(one)) == compute_fingerprint(catalog_from(other))


def test_both_zeros_are_one_bound() -> None:
    plus, minus = "node A { x: F64  @range(x, 0.0..) }", "node A { x: F64  @range(x, -0.0..) }"

    assert compute_fingerprint(catalog_from(plus)) == compute_fingerprint(catalog_from(minus))


def test_identities_do_not_count() -> None:
    schema = catalog_from(RICH)

    assert compute_fingerprint(schema) == compute_fingerprint(assign_identities(schema, accepted("node Z {}")))


@pytest.mark.parametrize(
    "one, other",
    [
        ("node A { x: I32  y: I32 }", "node A { y: I32  x: I32 }"),
        ("node A { x: I32 }", "node A { x: I32? }"),
        ("node A { x: I32 @default(1) }", "node A { x: I32 @default(2) }"),
        ("node A { x: F64 @default(0.0) }", "node A { x: F64 @default(-0.0) }"),
        ("node A @note(1) {}", "node A @note(true) {}"),
        ("node A @note(1) {}", "node A @note(1.0) {}"),
        ("node A {} node B {}", 'node A @rename_from("B") {} node B @rename_from("A") {}'),
        ("node A { x: I32 @key }", "node A { x: I32 @unique }"),
        ("node A { x: I32  y: I32  @key(x, y) }", "node A { x: I32  y: I32  @key(y, x) }"),
    ],
)
def test_what_a_schema_says_counts(one: str, other: str) -> None:
    assert compute_fingerprint(catalog_from(one)) != compute_fingerprint(catalog_from(other))


FIRST_FINGERPRINT = "2a35edad991fd999c39e4b646738a2e65056d5d0b07e4c15cc89f0bed7449bb9"


def test_a_fingerprint_is_the_same_in_every_release() -> None:
    assert compute_fingerprint(catalog_from("node A { x: I32 }")) == FIRST_FINGERPRINT
