"""Whatever a schema says, the binder answers; and what it accepts, everything behind it can use."""

from hypothesis import given, settings
from hypothesis import strategies as st

import language_strategies
from omnigraph.lang.diagnostics import StageResult
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source
from omnigraph.schema.arrow import build_arrow_schema
from omnigraph.schema.bind import bind_schema
from omnigraph.schema.catalog import AnyType, Catalog
from omnigraph.schema.catalog_codec import decode_catalog, encode_catalog
from omnigraph.schema.identity import assign_identities
from omnigraph.schema.lint import lint_schema
from omnigraph.schema.migration_planner import plan_migration
from schema_making import schema_texts

any_text = st.one_of(
    language_strategies.schema_texts,
    language_strategies.mutated(schema_texts()),
)


def bound(text: str) -> StageResult[Catalog]:
    """What the binder makes of a text, or of the part of it that could be read."""
    return bind_schema(parse_schema(Source(text)).tree)


@settings(max_examples=100)
@given(any_text)
def test_every_finding_has_its_place_in_the_text(text: str) -> None:
    for found in bound(text).diagnostics:
        assert 0 <= found.span.start < found.span.end <= len(text)
        assert found.message


@settings(max_examples=60)
@given(any_text)
def test_what_is_accepted_can_be_stored_planned_and_linted(text: str) -> None:
    parsed = parse_schema(Source(text))
    checked = bind_schema(parsed.tree)
    if not checked.ok:
        return
    catalog = assign_identities(checked.value, None)
    types: list[AnyType] = [*catalog.nodes.values(), *catalog.edges.values()]

    assert decode_catalog(encode_catalog(catalog)) == catalog
    assert plan_migration(catalog, checked.value).is_empty
    assert all(len(build_arrow_schema(type_)) >= len(type_.properties) for type_ in types)
    assert not any(found.is_error for found in lint_schema(parsed.tree, catalog))


@settings(max_examples=20)
@given(any_text)
def test_the_same_text_is_bound_to_the_same_findings(text: str) -> None:
    assert bound(text) == bound(text)
