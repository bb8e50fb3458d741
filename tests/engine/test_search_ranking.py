"""Ranks over a table with several fragments, holes, nulls and ties: equal to one row after the other."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.commit.commit_plan import CommitPlan, Move
from omnigraph.commit.publisher import publish
from omnigraph.engine.execution_context import ExecutionContext
from omnigraph.engine.search.column_index import has_index
from omnigraph.engine.search.nth_largest import find_nth_largest
from omnigraph.engine.search.ranking import rank_rows, score_rows
from omnigraph.engine.search.scores import Scores
from omnigraph.engine.search.text_match import evaluate_text_match, find_text_positions
from omnigraph.engine.search.vector_metric import compute_distances
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.options import Options
from omnigraph.query.expr import Bm25, Nearest, Rank, Rrf, TextMatch, TextMode
from omnigraph.query.params import ParameterError
from omnigraph.schema.catalog import Property
from omnigraph.schema.types import Scalar
from omnigraph.storage.index_staging import stage_index
from searching import (
    NOWHERE,
    TEXT,
    VEC,
    Rows,
    Shelf,
    bm25,
    naive_bm25,
    naive_cosine,
    naive_match,
    naive_order,
    naive_rrf,
    nearest,
    nearest_text,
    parameter,
    rrf,
    text_match,
    whole,
)

VOCABULARY = "graph graphs engine engines run running the of fast table tables query café résumé x".split()  # noqa: SIM905 - words are easier to read in a row
TINY = Options(cache_bytes=4_096)
"""So little that no column has room: everything is read in batches."""


def random_rows(random: Random, ids: Sequence[str]) -> Rows:
    return {
        row_id: (
            None if random.random() < 0.1 else " ".join(random.choices(VOCABULARY, k=random.randint(0, 9))),
            None if random.random() < 0.15 else [float(random.randint(-2, 2)) for _ in range(3)],
        )
        for row_id in ids
    }


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    """Three fragments of documents whose ids don't follow their positions, with holes in all of them."""
    random = Random(7)
    made = Shelf(tmp_path_factory.mktemp("shelf") / "g")
    ids = [f"d{number:03}" for number in range(120)]
    random.shuffle(ids)
    for start in (0, 50, 100):
        made.write(random_rows(random, ids[start : start + 50]))
    made.write(random_rows(random, ids[40:60]))
    made.delete(random.sample(ids, 15))
    return made


VECTORS = st.tuples(*[st.integers(-2, 2).map(float)] * 3)
QUERIES = st.lists(st.sampled_from(VOCABULARY), max_size=3).map(" ".join)
SIMPLE = st.builds(nearest, VECTORS) | st.builds(bm25, QUERIES)
RANKS = SIMPLE | st.builds(rrf, SIMPLE, SIMPLE, st.integers(1, 70))
SUBSETS = st.none() | st.sets(st.integers(0, 119), max_size=40)


def naive_scores(rank: Rank, docs: Rows, among: Sequence[str], top: int) -> dict[str, float]:
    if isinstance(rank, Nearest):
        query = rank.query.value  # type: ignore[union-attr]  # these tests ask by literals
        return {i: naive_cosine(v, query) for i, (_, v) in docs.items() if v is not None and i in among}  # type: ignore[arg-type]  # a vector
    if isinstance(rank, Bm25):
        return naive_bm25(docs, str(rank.query.value), among)  # type: ignore[union-attr]  # as above
    assert isinstance(rank, Rrf)
    lists = [
        naive_order(naive_scores(one, docs, among, top), descending=isinstance(one, Bm25))
        for one in (rank.first, rank.second)
    ]
    return naive_rrf(lists[0], lists[1], among, int(rank.k.value), top)  # type: ignore[union-attr, arg-type]  # as above


def as_pairs(shelf: Shelf, scores: Scores) -> list[tuple[str, float]]:
    return list(zip(shelf.ids(scores.positions), scores.values.tolist(), strict=True))


def chosen(shelf: Shelf, subset: set[int] | None) -> list[str]:
    return [i for i in shelf.docs if subset is None or int(i[1:]) in subset]


def check_rank(shelf: Shelf, reading: ExecutionContext, rank: Rank, among: list[str], top: int | None) -> None:
    """The rows, their order and scores are right; scores that differ by rounding alone may stand either way round."""
    found = as_pairs(shelf, rank_rows(reading, rank, "Doc", shelf.at(among), top))

    scores = naive_scores(rank, shelf.docs, among, top or 0)
    is_descending = not isinstance(rank, Nearest)
    order = naive_order(scores, descending=is_descending)[:top]
    assert [score for _, score in found] == pytest.approx([scores[row_id] for row_id in order], abs=1e-12)
    assert [scores[row_id] for row_id, _ in found] == pytest.approx([score for _, score in found], abs=1e-12)
    assert len({row_id for row_id, _ in found}) == len(order)
    assert found == sorted(found, key=lambda pair: (-pair[1] if is_descending else pair[1], pair[0]))


@given(RANKS, SUBSETS, st.integers(0, 30) | st.none())
@settings(max_examples=200)
def test_a_rank_orders_like_one_row_after_the_other(
    shelf: Shelf, rank: Rank, subset: set[int] | None, top: int | None
) -> None:
    check_rank(shelf, shelf.reading(), rank, chosen(shelf, subset), top)


@given(RANKS, SUBSETS, st.integers(0, 30) | st.none())
@settings(max_examples=15)
def test_a_table_without_room_in_memory_is_ranked_alike(
    shelf: Shelf, rank: Rank, subset: set[int] | None, top: int | None
) -> None:
    reading = shelf.reading(cache=GraphCache(TINY))
    assert not reading.get_reader("Doc").columns.costs.has_room_for("text")

    check_rank(shelf, reading, rank, chosen(shelf, subset), top)


@given(RANKS, SUBSETS, st.integers(1, 30))
def test_with_ties_nobody_who_scores_like_the_last_is_left_out(
    shelf: Shelf, rank: Rank, subset: set[int] | None, top: int
) -> None:
    at = shelf.at(chosen(shelf, subset))
    every = rank_rows(shelf.reading(), rank, "Doc", at, top if isinstance(rank, Rrf) else None, with_ties=True)
    everything = as_pairs(shelf, rank_rows(shelf.reading(), rank, "Doc", at, None)) if not isinstance(rank, Rrf) else []

    found = as_pairs(shelf, rank_rows(shelf.reading(), rank, "Doc", at, top, with_ties=True))

    if isinstance(rank, Rrf):
        assert found == as_pairs(shelf, every)
    else:
        last = everything[: max(top, 1)][-1:] or [("", 0.0)]
        stop = top + sum(score == last[0][1] for _, score in everything[top:])
        assert found == everything[:stop]


@given(SIMPLE, st.lists(st.integers(0, 119), max_size=30))
def test_a_score_is_a_value_of_its_row(shelf: Shelf, rank: Nearest | Bm25, numbers: list[int]) -> None:
    ids = [f"d{number:03}" for number in numbers if f"d{number:03}" in shelf.docs]

    found = score_rows(shelf.reading(), rank, "Doc", shelf.at(ids)).to_pylist()

    scores = naive_scores(rank, shelf.docs, ids, 0)
    assert found == [pytest.approx(scores[i], abs=1e-12) if i in scores else None for i in ids]


def test_the_score_of_a_fusion_is_of_all_candidates(shelf: Shelf) -> None:
    rank, among = rrf(nearest((1, 0, 0)), bm25("graph engine")), list(shelf.docs)
    some = among[::7]

    found = score_rows(shelf.reading(), rank, "Doc", shelf.at(some), candidates=shelf.at(among), top=5).to_pylist()

    scores = naive_scores(rank, shelf.docs, among, 5)
    assert found == pytest.approx([scores[row_id] for row_id in some], abs=1e-12)


@given(st.sampled_from(list(TextMode)), QUERIES | st.sampled_from(['"graph engine"', "grpah", "tabel"]))
@settings(max_examples=60)
def test_a_text_predicate_finds_the_living_rows(shelf: Shelf, mode: TextMode, query: str) -> None:
    found = shelf.ids(find_text_positions(shelf.reading(), text_match(mode, query), "Doc"))

    assert sorted(found) == sorted(i for i, (text, _) in shelf.docs.items() if naive_match(mode, text, query))


@given(st.sampled_from(list(TextMode)), QUERIES)
@settings(max_examples=10)
def test_a_text_without_room_in_memory_is_searched_alike(shelf: Shelf, mode: TextMode, query: str) -> None:
    match = text_match(mode, query)

    found = find_text_positions(shelf.reading(cache=GraphCache(TINY)), match, "Doc")

    assert found.tolist() == find_text_positions(shelf.reading(), match, "Doc").tolist()


@given(st.sampled_from(list(TextMode)), QUERIES, SUBSETS, st.booleans())
@settings(max_examples=40)
def test_a_text_predicate_of_some_rows_is_that_of_all(
    shelf: Shelf, mode: TextMode, query: str, subset: set[int] | None, is_indexed: bool
) -> None:
    match, within = text_match(mode, query), np.sort(shelf.at(chosen(shelf, subset)))

    reading = shelf.reading(cache=None if is_indexed else GraphCache(Options()))
    found = find_text_positions(reading, match, "Doc", within)

    assert found.tolist() == np.intersect1d(within, find_text_positions(shelf.reading(), match, "Doc")).tolist()


def test_few_texts_are_searched_without_an_index_of_all(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "g")
    shelf.write({f"d{n:03}": (f"graph {n}", None) for n in range(100)})
    reading = shelf.reading()
    at = shelf.at(["d007", "d050"])

    found = evaluate_text_match(reading, text_match(TextMode.ANY, "50"), "Doc", at)

    assert found.to_pylist() == [False, True]
    assert not has_index(reading.get_reader("Doc"), "text")


def test_a_missing_text_makes_a_predicate_unknown(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "g")
    shelf.write({"a": ("graph", None), "b": (None, None), "c": ("", None)})

    found = evaluate_text_match(
        shelf.reading(), text_match(TextMode.ANY, "graphs"), "Doc", shelf.at(["c", "b", "a", "b"])
    )

    assert found.to_pylist() == [False, None, True, None]


# --- indexes of the table ------------------------------------------------------------------------------


def build_index(shelf: Shelf, column: str, kind: str, fragments: list[int] | None, **settings: object) -> None:
    session = shelf.session
    table = session.open_tables(session.resolve_snapshot()).open_table("node:Doc")
    staged = stage_index(table, column, kind, f"{column}_{kind}", fragments=fragments, settings=settings)
    move = Move(table_key="node:Doc", staged=staged)
    plan = CommitPlan(base=session.head(), operation="reindex", actor="x", moves=(move,))
    publish(session.log, session.handles, plan)


@pytest.mark.parametrize("covered", ["some", "all"])
def test_an_index_of_the_table_changes_no_answer(tmp_path: Path, covered: str) -> None:
    shelf = Shelf(tmp_path / "g")
    random = Random(11)
    ids = [f"d{number:03}" for number in range(80)]
    shelf.write(random_rows(random, ids[:40]))
    shelf.write(random_rows(random, ids[40:]))
    ranks: list[Rank] = [nearest((1, 2, 0)), bm25("graph café"), rrf(nearest((0, 1, 0)), bm25("running"))]
    matches = [text_match(TextMode.ANY, "resume willing"), text_match(TextMode.ALL, '"graph engine"')]
    at = shelf.at(ids)
    ranked = [as_pairs(shelf, rank_rows(shelf.reading(), rank, "Doc", at, 20)) for rank in ranks]
    matched = [shelf.ids(find_text_positions(shelf.reading(), match, "Doc")) for match in matches]

    fragments = [0] if covered == "some" else None
    build_index(shelf, "text", "INVERTED", fragments)
    build_index(shelf, "vec", "IVF_FLAT", fragments, metric="cosine", num_partitions=1)

    at = shelf.at(ids)
    assert [as_pairs(shelf, rank_rows(shelf.reading(), rank, "Doc", at, 20)) for rank in ranks] == ranked
    assert [shelf.ids(find_text_positions(shelf.reading(), match, "Doc")) for match in matches] == matched


# --- edges of the numbers --------------------------------------------------------------------------------


def test_equal_rows_at_the_limit_are_chosen_by_id(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "g")
    shelf.write({row_id: ("same words", [0, 1, 0]) for row_id in "hgfedcba"})

    for rank in (nearest((0, 2, 0)), bm25("words"), rrf(nearest((0, 1, 0)), bm25("same"))):
        found = rank_rows(shelf.reading(), rank, "Doc", shelf.at(list("hgfedcba")), 3)
        assert shelf.ids(found.positions) == ["a", "b", "c"]


def test_a_vector_of_zeros_is_at_distance_one(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "g")
    shelf.write({"zero": (None, [0, 0, 0]), "near": (None, [1, 0, 0]), "far": (None, [-1, 0, 0])})
    at = shelf.at(["zero", "near", "far"])

    found = as_pairs(shelf, rank_rows(shelf.reading(), nearest((3, 0, 0)), "Doc", at, 3))
    of_zeros = as_pairs(shelf, rank_rows(shelf.reading(), nearest((0, 0, 0)), "Doc", at, 3))

    assert found == [("near", 0.0), ("zero", 1.0), ("far", 2.0)]
    assert of_zeros == [("far", 1.0), ("near", 1.0), ("zero", 1.0)]


def test_very_long_and_very_short_vectors_are_ranked_by_their_angle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("omnigraph.engine.search.nearest_neighbours._MAX_EXACT_VECTORS", 1)
    shelf = Shelf(tmp_path / "g")
    tiny, huge = 1e-40, 3e38
    shelf.write(
        {
            "a": (None, [huge, huge, 0]),
            "b": (None, [tiny, 0, 0]),
            "c": (None, [1, 2, 0]),
            "d": (None, [-1, -1, 0]),
            "e": (None, [0, huge, 0]),
            "f": (None, [-huge, 0, 0]),
        }
    )

    found = rank_rows(shelf.reading(), nearest((1, 0, 0)), "Doc", shelf.at(list("fedcba")), 3)

    assert shelf.ids(found.positions) == ["b", "a", "c"]
    assert found.values.tolist() == pytest.approx([0, 1 - 0.5**0.5, 1 - 0.2**0.5])


def test_the_distance_of_a_row_does_not_depend_on_its_neighbours() -> None:
    random = np.random.default_rng(3)
    matrix = random.standard_normal((1000, 384)).astype(np.float32)
    query = random.standard_normal(384)

    together = compute_distances(matrix, query)

    for rows in (np.arange(7), np.array([999, 3, 500]), np.array([42])):
        assert compute_distances(matrix[rows], query).tolist() == together[rows].tolist()


def test_the_pass_in_single_precision_loses_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("omnigraph.engine.search.nearest_neighbours._MAX_EXACT_VECTORS", 4)
    shelf = Shelf(tmp_path / "g")
    random = Random(5)
    shelf.write({f"d{n:03}": (None, [1 + random.random() * 1e-6, 1e-7 * n, 1]) for n in range(200)})
    among = list(shelf.docs)

    for subset in (among, among[:30]):
        check_rank(shelf, shelf.reading(), nearest((1, 0, 1)), subset, 7)


# --- what is asked -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rank",
    [
        Nearest(prop=VEC, query=parameter("q", Scalar.STRING), origin=NOWHERE),
        Bm25(prop=TEXT, query=parameter("q", Scalar.STRING), origin=NOWHERE),
    ],
)
def test_a_rank_of_null_is_refused(shelf: Shelf, rank: Rank) -> None:
    with pytest.raises(ParameterError, match=r"\$q"):
        rank_rows(shelf.reading({"q": None}), rank, "Doc", shelf.at([]), 3)


def test_a_search_for_null_is_refused(shelf: Shelf) -> None:
    match = TextMatch(mode=TextMode.ANY, prop=TEXT, query=parameter("q", Scalar.STRING), origin=NOWHERE)

    with pytest.raises(ParameterError, match=r"\$q"):
        find_text_positions(shelf.reading({"q": None}), match, "Doc")


def test_a_text_is_embedded_for_nearest(shelf: Shelf) -> None:
    asked: list[tuple[str, str]] = []

    def embed(text: str, prop: Property) -> Sequence[float]:
        asked.append((text, prop.name))
        return [1.0, 0.0, 0.0]

    reading = replace(shelf.reading(), embed=embed)
    found = rank_rows(reading, nearest_text("some words"), "Doc", shelf.at(list(shelf.docs)), 5)

    expected = rank_rows(shelf.reading(), nearest((1, 0, 0)), "Doc", shelf.at(list(shelf.docs)), 5)
    assert asked == [("some words", "vec")]
    assert found.positions.tolist() == expected.positions.tolist()


def test_rows_are_not_looked_at_when_none_is_wanted(shelf: Shelf) -> None:
    found = rank_rows(shelf.reading(), nearest((1, 0, 0)), "Doc", shelf.at(list(shelf.docs)), 0)

    assert (found.positions.tolist(), found.values.tolist()) == ([], [])


def test_a_number_below_its_least_is_refused(shelf: Shelf) -> None:
    fused = Rrf(first=bm25("a"), second=bm25("b"), k=whole(1), origin=NOWHERE)
    object.__setattr__(fused, "k", whole(0))

    with pytest.raises(ParameterError, match="at least 1"):
        rank_rows(shelf.reading(), fused, "Doc", shelf.at([]), 3)


@given(st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=600), st.data())
def test_the_nth_largest_is_what_sorting_gives(values: list[float], data: st.DataObject) -> None:
    n = data.draw(st.integers(1, len(values)))

    found = find_nth_largest(np.array(values), n)

    assert found == sorted(values, reverse=True)[n - 1]
