"""A filter is one predicate, and nothing else."""

import pytest

from omnigraph.lang.query_ast import And, Or
from omnigraph.lang.query_parser import parse_filter
from omnigraph.lang.source import Source


def test_a_filter_is_the_predicate_of_a_mutation() -> None:
    found = parse_filter(Source('age > 3 and name starts_with "A" or city is null', "filter"))

    assert found.ok
    assert isinstance(found.tree, Or)
    assert isinstance(found.tree.terms[0], And)


@pytest.mark.parametrize(
    "text, place, message",
    [
        ("age > 3 delete Person where age > 4", 8, "the end of the filter"),
        ("age > 3)", 7, "the end of the filter"),
        ("", 0, "expected"),
        ("age >", 5, "expected"),
    ],
)
def test_what_is_more_or_less_is_refused_at_its_place(text: str, place: int, message: str) -> None:
    found = parse_filter(Source(text, "filter"))

    assert not found.ok
    assert found.diagnostics[0].span.start == place
    assert message in found.diagnostics[0].message
