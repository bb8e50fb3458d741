"""The examples that are written from a schema pass the checks, and run on a graph that has nothing but the schema."""

from pathlib import Path

import pytest

import omnigraph as og
from corpus_format import read_cases
from omnigraph.lang.source import Source
from omnigraph.query.schema_examples import build_examples
from omnigraph.query.static_checks import check_queries, check_schema
from omnigraph.schema.catalog import Catalog
from worlds import FAST

ROOT = Path(__file__).parents[2]
FILES = sorted(
    {*ROOT.glob("examples/*/*.pg"), *ROOT.glob("tests/corpus/*/*.pg"), ROOT / "src/omnigraph/demo/schema.pg"}
)
SCHEMAS = {"schema", "old", "new"}
RUN = sorted({*ROOT.glob("examples/*/schema.pg"), *ROOT.glob("tests/corpus/schemas/*.pg")})
AWKWARD = """
node Order { id_text: String  limit: I32  query: String?  @key(id_text)  @range(limit, 5..9) }
node Match { code: String  @check(code, "^[A-Z][0-9]$")  kind: enum(a-b, c) }
node Odd { code: String  @check(code, "^never [0-9]{40}$") }
edge In: Order -> Order { since: DateTime  @key(src, dst) }
edge Not: Odd -> Match @card(1..*)
edge Where: Match -> Order @card(1..2) { weight: U64  @range(weight, ..3) }
"""


def catalogs() -> list[tuple[str, Catalog]]:
    """Every schema of the repository that has no errors."""
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in FILES}
    for path in sorted(ROOT.glob("tests/corpus/*/*.case")):
        for case in read_cases(path):
            texts |= {f"{path.name}: {case.title}, {block}": case.blocks[block] for block in SCHEMAS & {*case.blocks}}
    checked = {name: check_schema(Source(text, name))[1] for name, text in {**texts, "awkward": AWKWARD}.items()}
    return [(name, catalog) for name, catalog in checked.items() if catalog is not None]


def test_the_examples_of_every_schema_of_the_repository_have_no_errors() -> None:
    found = catalogs()
    problems = []
    for name, catalog in found:
        for example in build_examples(catalog):
            report = check_queries(Source(example.text, name), catalog)
            problems += [(name, example.text, item.message) for item in report.diagnostics if item.is_error]

    assert len(found) > 100
    assert problems == []


@pytest.mark.parametrize(
    "schema", [*(path.read_text(encoding="utf-8") for path in RUN), AWKWARD], ids=[*map(str, RUN), "awkward"]
)
def test_each_example_runs(schema: str, tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g.omni"), schema, runtime=og.Runtime(options=FAST))
    report, catalog = check_schema(Source(schema, "s"))
    assert catalog is not None, report

    for example in build_examples(catalog):
        if example.is_mutation:
            graph.mutate(example.text, params=example.params)
        else:
            graph.query(example.text, params=example.params).rows()

    titles = {example.title for example in build_examples(catalog)}
    assert {"rows of a type, in order", "a hop along an edge: `$b` gets its type from the edge"} <= titles
    assert graph.commits()


def test_an_empty_schema_has_no_examples() -> None:
    _, catalog = check_schema(Source("", "s"))

    assert catalog is not None
    assert build_examples(catalog) == ()
