"""A check asks indexes of every kind that are built, and finds one that does not say what is there."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.publisher import publish
from omnigraph.ops.check_findings import Finding
from omnigraph.ops.session import Session
from omnigraph.storage.index_staging import build_segment, list_stored_indexes, stage_segments
from omnigraph.storage.lance_table import LanceTable
from upkeep_calls import optimized
from worlds import runtime

SCHEMA = """
node P {
  k: String @key
  words: String @index
  tags: [String] @index
  flag: Bool @index
  size: F64 @index
  count: U64 @index
  born: Date @index
  spot: Vector(4) @index
}
"""
KINDS = {
    "words": "INVERTED",
    "tags": "LABEL_LIST",
    "flag": "BITMAP",
    "size": "BTREE",
    "count": "BTREE",
    "born": "BTREE",
    "spot": "IVF_FLAT",
}
"""By column, the kind of its index."""
TEXTS = ("Nobody walked home", "die Straße des Überflusses", "running, runners ran", "un_derscored words", "x y z")


def people(numbers: Sequence[int]) -> list[dict[str, object]]:
    """Records of people, each with values of its own; the even ones are of another sort than the odd."""
    return [
        {
            "type": "P",
            "data": {
                "k": f"p{number}",
                "words": f"{TEXTS[number % len(TEXTS)]} person{number:03}",
                "tags": [f"it's {number}", "all"],
                "flag": number % 3 == 0,
                "size": number / 7,
                "count": number,
                "born": f"1990-01-{number % 28 + 1:02}",
                "spot": [number + 1.0, 50.0 - number, 3.0, float(number % 5)],
            },
        }
        for number in numbers
    ]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Two fragments: the even, and the odd."""
    graph = og.create_graph(str(tmp_path / "g"), SCHEMA, runtime=runtime())
    graph.load(people(range(0, 60, 2)), mode="append")
    graph.load(people(range(1, 60, 2)), mode="append")
    return graph


def table_of(session: Session) -> LanceTable:
    return session.open_tables(session.resolve_snapshot()).open_table("node:P")


def put_segments(session: Session, built: Sequence[str], replaced: Sequence[str] = ()) -> None:
    """Publish segments of indexes as they are."""
    move = Move(table_key="node:P", staged=stage_segments(table_of(session), built, replaced))
    publish(session.log, session.handles, CommitPlan(base=session.head(), operation="x", actor="t", moves=(move,)))


def built_of(session: Session, column: str, fragments: Sequence[int]) -> dict[str, object]:
    settings = {"metric": "cosine", "num_partitions": 2} if column == "spot" else None
    made = build_segment(table_of(session), column, KINDS[column], f"{column}_index", fragments, settings)
    return json.loads(made)  # type: ignore[no-any-return]


def found(graph: og.Graph) -> tuple[Finding, ...]:
    return og.check_graph(graph.uri, runtime=runtime()).findings


def test_indexes_that_are_right_are_found_right(graph: og.Graph) -> None:
    optimized(graph)
    graph.load(people([60, 61]), mode="append")
    graph.mutate('query q() { delete P where k = "p8" }')

    findings = found(graph)

    assert {one.kind for one in list_stored_indexes(table_of(graph._session))} == {*KINDS.values()}
    assert findings == ()


@pytest.mark.parametrize("column", KINDS)
def test_an_index_that_says_to_cover_what_it_does_not_is_found(column: str, graph: og.Graph) -> None:
    session = graph._session
    first, second = (one.number for one in table_of(session).list_fragments())
    lying = {**built_of(session, column, [first]), "fragment_ids": [first, second]}

    put_segments(session, [json.dumps(lying)])

    (finding,) = found(graph)
    assert finding.code == "index_disagrees"
    assert f"{column}_index" in finding.message
    assert "misses 0" not in finding.message


def test_an_index_that_gives_rows_twice_is_found(graph: og.Graph) -> None:
    session = graph._session
    numbers = [one.number for one in table_of(session).list_fragments()]

    put_segments(session, [json.dumps(built_of(session, "words", numbers)) for _ in range(2)])

    (finding,) = found(graph)
    assert finding.code == "index_disagrees"
    assert "misses 0, invents 0" in finding.message
    assert "returns 0 twice" not in finding.message


@pytest.mark.parametrize("column", KINDS)
def test_an_index_of_other_rows_is_found_and_dropped(column: str, graph: og.Graph) -> None:
    session = graph._session
    first, second = (one.number for one in table_of(session).list_fragments())
    wrong = built_of(session, column, [second])

    put_segments(session, [json.dumps({**wrong, "fragment_ids": [first]})])
    before = found(graph)
    og.repair_graph(graph.uri, confirm=True, runtime=runtime())

    assert [one.code for one in before] == ["index_disagrees"]
    assert found(graph) == ()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("fixed 356a192b7913b04c54574d18c28d46e6395428ab", id="as long as what is left out"),
        pytest.param("ghijklm\u0345 words", id="a mark that counts as a letter"),
        pytest.param("ghijklm\u24d0 words", id="a sign that counts as a letter"),
        pytest.param("\u0903ghijklm words", id="such a mark before it"),
    ],
)
def test_a_word_that_an_index_may_take_otherwise_is_not_asked_for(text: str, tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node P { k: String @key words: String @index }", runtime=runtime())
    graph.load([{"type": "P", "data": {"k": f"p{number}", "words": text}} for number in range(8)], mode="append")

    built = optimized(graph).tables[0].indexes_built

    assert "words_inverted" in built
    assert found(graph) == ()


def test_a_text_that_holds_a_word_in_doubt_may_be_found_or_not(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node P { k: String @key words: String @index }", runtime=runtime())
    texts = ["ghijklm whole", *["ghijklm\u24d0 part"] * 7]
    graph.load(
        [{"type": "P", "data": {"k": f"p{place}", "words": text}} for place, text in enumerate(texts)], mode="append"
    )

    optimized(graph)

    assert found(graph) == ()


@pytest.mark.parametrize("far", [1e20, 3e38, 1e-30])
def test_a_vector_whose_length_single_precision_cannot_square_is_not_asked_for(far: float, tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), "node P { k: String @key spot: Vector(4) @index }", runtime=runtime())
    spots = [[far, far / 2, 0.0, 0.0] if number % 2 else [1.0, 2.0, 3.0, number + 1.0] for number in range(40)]
    graph.load(
        [{"type": "P", "data": {"k": f"p{place}", "spot": spot}} for place, spot in enumerate(spots)], mode="append"
    )

    built = optimized(graph).tables[0].indexes_built

    assert "spot_ivf_flat" in built
    assert found(graph) == ()
