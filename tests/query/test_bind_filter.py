"""A filter is bound to the rows of one type."""

import pytest

from omnigraph.lang.query_parser import parse_filter
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_filter
from omnigraph.query.expr import Compare, Identity, Prop
from omnigraph.schema.catalog import AnyType
from schema_making import accepted

CATALOG = accepted("node Person { age: I32? }\nedge Knows: Person -> Person { since: Date? }")


def bound(text: str, type_: AnyType) -> tuple[object, list[str]]:
    predicate = parse_filter(Source(text, "filter")).require(Source(text, "filter"))
    assert predicate is not None
    found = bind_filter(predicate, type_)
    return found.value, [one.code for one in found.diagnostics]


def test_names_are_properties_of_the_type() -> None:
    found, codes = bound("age > 3", CATALOG.nodes["Person"])

    assert codes == []
    assert isinstance(found, Compare)
    assert isinstance(found.left, Prop)


@pytest.mark.parametrize("name", ["from", "@src", "@dst", "@id"])
def test_an_edge_has_ends_and_an_id(name: str) -> None:
    found, codes = bound(f'{name} = "a"', CATALOG.edges["Knows"])

    assert codes == []
    assert isinstance(found, Compare)
    assert isinstance(found.left, Identity)


@pytest.mark.parametrize("text, code", [("agee > 3", "T11"), ('age = "x"', "T7"), ("age > $p", "T6")])
def test_mistakes_are_told(text: str, code: str) -> None:
    found, codes = bound(text, CATALOG.nodes["Person"])

    assert found is None
    assert codes == [code]
