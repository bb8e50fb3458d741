"""Words of other languages, by declaration: stemmed as such, and pairs of characters where no spaces divide words."""

from pathlib import Path

import pytest
import Stemmer

import omnigraph as og
from mutating import new_graph, run
from omnigraph.schema.bind_search import LANGUAGES

SCHEMA = """
node Doc { name: String @key  en: String?  de: String? @language("german")  ja: String? @language("cjk")
  plain: String? @language("none") }
node Note { name: String @key  de: String? }
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = new_graph(tmp_path_factory.mktemp("languages"), SCHEMA)
    run(
        made,
        'insert Doc { name: "a", en: "the houses", de: "die Häuser im Wald", ja: "東京都の天気", plain: "the houses" }',
    )
    run(made, 'insert Doc { name: "b", en: "a house", de: "ein Haus am See", ja: "京都の天気", plain: "a house" }')
    run(made, 'insert Note { name: "n", de: "Häuser" }')
    return made


def found(graph: og.Graph, clause: str, type_: str = "Doc") -> list[str]:
    text = f"query q() {{ match {{ $d: {type_}  {clause} }} return {{ $d.name as name }} order {{ $d.name }} }}"
    return [row["name"] for row in graph.query(text).rows()]


def test_a_stem_is_of_the_declared_language(graph: og.Graph) -> None:
    assert found(graph, 'search($d.de, "Häusern")') == ["a", "b"]
    assert found(graph, 'search($d.en, "Häusern")') == []


def test_english_stop_words_are_words_of_other_languages(graph: og.Graph) -> None:
    assert found(graph, 'search($d.plain, "the")') == ["a"]
    assert found(graph, 'search($d.en, "the")') == []
    assert found(graph, 'search($d.plain, "house")') == ["b"]


def test_text_without_spaces_is_found_by_its_parts(graph: og.Graph) -> None:
    assert found(graph, 'search($d.ja, "東京")') == ["a"]
    assert found(graph, 'match_text($d.ja, "京都")') == ["a", "b"]
    assert found(graph, 'match_text($d.ja, "\\"東京の\\"")') == []
    assert found(graph, 'match_text($d.ja, "\\"都の天気\\"")') == ["a", "b"]


def test_relevance_and_snippets_are_of_the_declared_language(graph: og.Graph) -> None:
    output = '$d.name as name, snippet($d.de, "Häuser") as passage'
    text = f'query q() {{ match {{ $d: Doc }} return {{ {output} }} order {{ bm25($d.de, "Häuser") }} }}'
    rows = [tuple(row.values()) for row in graph.query(text).rows()]

    assert rows == [("a", "die **Häuser** im Wald"), ("b", "ein **Haus** am See")]


def test_a_condition_of_a_write_is_of_the_declared_language(tmp_path: Path) -> None:
    made = new_graph(tmp_path, SCHEMA)
    run(made, 'insert Doc { name: "a", de: "die Häuser" }')

    run(made, 'delete Doc where search(de, "Haus")')

    assert found(made, "$d.name is not null") == []


def test_a_union_is_searched_in_the_language_of_each_type(graph: og.Graph) -> None:
    # `Note` is English, where neither form has the stem of the other.
    assert found(graph, 'search($d.de, "Haus")', "(Doc | Note)") == ["a", "b"]
    assert found(graph, 'search($d.de, "Häuser")', "(Doc | Note)") == ["a", "b", "n"]


def test_every_declared_language_has_a_stemmer() -> None:
    assert {*LANGUAGES} - {"none", "cjk"} == {*Stemmer.algorithms()} - {"porter", "dutch_porter"}
