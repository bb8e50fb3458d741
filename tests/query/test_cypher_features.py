"""The page of Cypher says what the code does: every example of a feature is bound, or refused."""

import sys
from pathlib import Path

import pytest

from omnigraph.lang.cypher.parser import parse_cypher
from omnigraph.lang.cypher.writing_clauses import WRITING_WORDS
from omnigraph.lang.diagnostics import Diagnostic
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.source import Source
from omnigraph.query.bind import bind_file
from omnigraph.query.cypher.bind import bind_cypher
from omnigraph.query.cypher.features import CypherFeature, list_features
from omnigraph.query.logical_plan import ReadQuery
from omnigraph.query.rules import rewrite
from schema_making import accepted

ROOT = Path(__file__).parents[2]
CATALOG = accepted("""
interface Named { name: String }
node Person implements Named { age: I32? city: String? @key(name) }
node Company implements Named { @key(name) }
edge Knows: Person -> Person { km: F64? }
edge Follows: Person -> Person
edge WorksAt: Person -> Company
""")


def bound(text: str) -> tuple[ReadQuery | None, tuple[Diagnostic, ...]]:
    source = Source(text, "statement.cypher")
    parsed = parse_cypher(source)
    if not parsed.ok:
        return None, parsed.diagnostics
    result = bind_cypher(parsed.tree, source, CATALOG, {})
    return result.value, result.diagnostics


@pytest.mark.parametrize("feature", list_features(), ids=lambda feature: feature.example)
def test_an_example_is_bound_or_refused_as_the_page_says(feature: CypherFeature) -> None:
    read, found = bound(feature.example)

    if feature.instead is None:
        assert read is not None, found
        assert rewrite(rewrite(read)) == rewrite(read)
    else:
        assert [each.code for each in found] in (["C002"], ["C000"])
        assert found[0].help


def test_the_page_is_written_from_the_code() -> None:
    sys.path.insert(0, str(ROOT / "tools"))
    import cypher_reference

    assert cypher_reference.PAGE.read_text(encoding="utf-8") == cypher_reference.page()


@pytest.mark.parametrize("word", [word for word, help_ in WRITING_WORDS.items() if "`query " in help_])
def test_the_query_of_a_refused_clause_is_accepted(word: str) -> None:
    text = next(part for part in WRITING_WORDS[word].split("`") if part.startswith("query "))
    source = Source(text, "help.gq")

    queries = bind_file(parse_queries(source).require(source), CATALOG).require(source)

    assert len(queries) == 1


@pytest.mark.parametrize("word", WRITING_WORDS)
def test_a_clause_that_writes_is_refused_by_name(word: str) -> None:
    _, found = bound(f"MATCH (p:Person) {word} p")

    assert [each.code for each in found] == ["C003"]
    assert found[0].message.startswith(f"`{word}` writes")
