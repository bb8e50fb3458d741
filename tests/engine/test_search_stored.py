"""The words of a column, stored beside the table: the same answers from few reads, and never wrong ones from damage."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search import (
    column_index,
    index_codec,
    inverted_index,
    segment_reader,
    segment_store,
    stored_index,
)
from omnigraph.engine.search.column_index import iter_segments
from omnigraph.engine.search.index_codec import TAG, FragmentRows, encode_segment, parse_segment_name
from omnigraph.engine.search.inverted_index import InvertedIndex, build_index
from omnigraph.engine.search.ranking import rank_rows
from omnigraph.engine.search.segment_reader import open_segment
from omnigraph.engine.search.stored_index import StoredTextIndex
from omnigraph.engine.search.text_match import find_rows, find_text_positions, parse_text_query
from omnigraph.engine.tables import derived_pages
from omnigraph.engine.tables.content_cache import ContentCache
from omnigraph.engine.tables.derived_format import DerivedDataError
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.options import Options
from omnigraph.query.expr import TextMode
from omnigraph.storage.derived_cache import DerivedCache
from searching import Shelf, bm25, text_match

WORDS = ("graph", "graphs", "engine", "running", "the", "café", "x", "engines", "grph")
TEXTS = st.lists(st.none() | st.text(max_size=20) | st.lists(st.sampled_from(WORDS)).map(" ".join), max_size=12)
QUERIES = ("graph engine", '"graph engine"', '"engines running" x', "engnie", "missing", "cafe x running")


@pytest.fixture(autouse=True)
def small_pages() -> Iterator[None]:
    """Few words take several blocks and pages."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(index_codec, "BLOCK_TOKENS", 2)
        patched.setattr(stored_index, "BLOCK_TOKENS", 2)
        patched.setattr(segment_reader, "BLOCK_TOKENS", 2)
        patched.setattr(derived_pages, "PAGE_BYTES", 64)
        patched.setattr(derived_pages, "_MAX_GAP_PAGES", 1)
        yield


def opened(
    data: bytes, covered: FragmentRows, rebuild: Callable[[], InvertedIndex] = lambda: pytest.fail("rebuilt")
) -> StoredTextIndex:
    stored = open_segment(lambda start, size: data[start : start + size], covered, None)
    return StoredTextIndex(stored, covered, ContentCache(10**7), "key", rebuild)


def encoded(texts: list[str | None]) -> tuple[bytes, FragmentRows, InvertedIndex]:
    index = build_index(pa.array(texts, pa.string()))
    covered = FragmentRows((("0.lance",),), len(texts))
    return b"".join(encode_segment(index, covered, None)), covered, index


def check_equal(found: StoredTextIndex, expected: InvertedIndex) -> None:
    assert (found.size, found.text_count, found.word_count) == (
        expected.size,
        expected.text_count,
        expected.word_count,
    )
    for name in ("lengths", "has_text", "token_of", "starts"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    for stem in (*expected.tokens, "", "a", "graphx", "zz"):
        token = found.find_token(stem)
        assert token == expected.find_token(stem)
        if token is not None:
            for mine, theirs in zip(found.get_postings(token), expected.get_postings(token), strict=True):
                assert np.array_equal(mine, theirs)
    at = np.arange(expected.word_count)[::3]
    assert np.array_equal(found.take_words(at), expected.take_words(at))
    for mode in TextMode:
        for query in QUERIES:
            pattern = parse_text_query(mode, query)
            assert find_rows(found, pattern).tolist() == find_rows(expected, pattern).tolist()


@given(TEXTS)
def test_a_stored_index_is_searched_as_one_in_memory(texts: list[str | None]) -> None:
    data, covered, index = encoded(texts)

    check_equal(opened(data, covered), index)


@given(st.data())
def test_damage_is_noticed_and_the_index_built_again(data: st.DataObject) -> None:
    texts: list[str | None] = ["graph engine running", None, "engines x the graphs", "", "café grph " * 9]
    whole, covered, index = encoded(texts)
    place = data.draw(st.integers(0, len(whole) - 1))
    is_cut = data.draw(st.booleans())
    damaged = whole[:place] if is_cut else whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]

    try:
        found = opened(damaged, covered, lambda: index)
    except DerivedDataError:
        return
    check_equal(found, index)


@given(st.data())
def test_foreign_content_with_right_checksums_ends_no_search(data: st.DataObject) -> None:
    """Whoever can write files can write checksums too: numbers must not lead outside of the arrays."""
    texts: list[str | None] = ["graph engine running", None, "engines x the graphs", "", "café grph " * 9]
    index = build_index(pa.array(texts, pa.string()))
    name = data.draw(st.sampled_from(("rows", "times", "bounds", "token_of", "stream")))
    array = getattr(index, name).copy()
    array[data.draw(st.integers(0, len(array) - 1))] = data.draw(st.sampled_from((-1, 3, 1_000)))
    forged = replace(index, **{name: array})
    covered = FragmentRows((("0.lance",),), len(texts))
    try:
        content = b"".join(encode_segment(forged, covered, None))
    except (IndexError, ValueError):  # not even this code could write it
        return

    try:
        found = opened(content, covered, lambda: index)
    except DerivedDataError:
        return
    for mode in TextMode:
        for query in QUERIES:
            rows = find_rows(found, parse_text_query(mode, query))
            assert all(0 <= row < len(texts) for row in rows.tolist())


def test_an_index_of_other_rules_or_rows_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    data, covered, _ = encoded(["graph"])

    for other in (FragmentRows((("1.lance",),), 1), FragmentRows(covered.fragments, 2)):
        with pytest.raises(DerivedDataError):
            opened(data, other)
    monkeypatch.setattr(segment_reader, "TAG", TAG.replace(b"unicode", b"unicorn"))
    with pytest.raises(DerivedDataError, match="another format"):
        opened(data, covered)


def test_a_query_reads_what_its_words_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived_pages, "PAGE_BYTES", 4_096)
    random = Random(1)
    data, covered, _ = encoded([" ".join(f"w{random.randrange(5_000)}" for _ in range(20)) for _ in range(5_000)])
    reads: list[int] = []

    def read(start: int, size: int) -> bytes:
        reads.append(len(data[start : start + size]))
        return data[start : start + size]

    found = StoredTextIndex(
        open_segment(read, covered, None), covered, ContentCache(10**8), "k", lambda: pytest.fail("rebuilt")
    )
    reads.clear()
    found.get_postings(found.find_token("w77") or 0)

    assert sum(reads) < len(data) / 20


# --- beside a table ----------------------------------------------------------------------------------


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Twenty documents, in a graph that stores words from ten rows on, in segments of at most fifty."""
    monkeypatch.setattr(column_index, "MIN_STORED_ROWS", 10)
    monkeypatch.setattr(column_index, "MAX_SEGMENT_ROWS", 50)
    made = Shelf(tmp_path / "g")
    made.write({f"d{n:02}": (f"graph {'engine ' * (n % 3)}{n}", None) for n in range(20)})
    return made


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of texts that were analysed, call by call."""
    counts: list[int] = []

    def counted(texts: pa.Array, budget: Budget | None, language: str | None) -> InvertedIndex:
        counts.append(len(texts))
        return inverted_index.build_index(texts, budget, language)

    monkeypatch.setattr(column_index, "build_index", counted)
    monkeypatch.setattr(segment_store, "build_index", counted)
    return counts


def next_process(shelf: Shelf, *, is_read_only: bool = False, cache_bytes: int | None = None) -> GraphCache:
    return GraphCache(Options(cache_bytes=cache_bytes), DerivedCache(shelf.session.store, is_read_only=is_read_only))


def answers(shelf: Shelf, cache: GraphCache) -> list[object]:
    """The scores and matches of several queries, which must not depend on what is stored."""
    reading = shelf.reading(cache=cache)
    at = reading.get_reader("Doc").get_positions()
    found: list[object] = []
    for query in ("graphs engines 7", "engine", "nothing"):
        ranked = rank_rows(reading, bm25(query), "Doc", at, None)
        found.append(list(zip(shelf.ids(ranked.positions), ranked.values.tolist(), strict=True)))
    for mode, query in ((TextMode.ALL, '"engine engine"'), (TextMode.FUZZY, "engnie grphs"), (TextMode.ANY, "11 3")):
        found.append(shelf.ids(find_text_positions(reading, text_match(mode, query), "Doc")))
    cache.wait_for_workers()
    return found


def stored_keys(shelf: Shelf) -> list[str]:
    return [info.key for info in shelf.session.store.objects.list_under("_derived")]


def test_the_next_process_analyses_only_what_is_new(shelf: Shelf, analysed: list[int]) -> None:
    first = answers(shelf, next_process(shelf))
    again = answers(shelf, next_process(shelf))
    shelf.write({"e": ("engine", None)})
    later = answers(shelf, next_process(shelf))

    assert again == first
    assert later == answers(shelf, GraphCache(Options()))
    assert analysed == [20, 1, 21]


@pytest.mark.parametrize("seed", range(3))
def test_every_version_is_searched_as_without_anything_stored(shelf: Shelf, seed: int) -> None:
    random = Random(seed)
    for _ in range(12):
        if random.random() < 0.3:
            shelf.delete(random.sample(sorted(shelf.docs), min(9, len(shelf.docs))))
        else:
            names = random.sample(range(200), random.choice((1, 12, 30, 120)))
            shelf.write({f"d{n:02}": (" ".join(random.choices(WORDS, k=random.randint(0, 6))), None) for n in names})
        expected = answers(shelf, GraphCache(Options()))
        assert answers(shelf, next_process(shelf)) == expected
        assert answers(shelf, next_process(shelf)) == expected
        # No room for the texts: stored segments are used all the same, and the rest is analysed batch by batch.
        assert answers(shelf, next_process(shelf, cache_bytes=4_000)) == expected

    sizes = [parse_segment_name(key) for key in stored_keys(shelf)]
    assert sizes
    assert all(name is not None and name.rows <= 50 for name in sizes)


def test_a_column_without_room_is_read_from_what_is_stored(shelf: Shelf, analysed: list[int]) -> None:
    first = answers(shelf, next_process(shelf))
    analysed.clear()

    assert answers(shelf, next_process(shelf, cache_bytes=0)) == first
    assert analysed == []


def test_a_read_only_process_stores_and_removes_nothing(shelf: Shelf) -> None:
    answers(shelf, next_process(shelf, is_read_only=True))
    assert stored_keys(shelf) == []

    answers(shelf, next_process(shelf))
    (key,) = stored_keys(shelf)
    Path(shelf.session.store.resolve_uri(key)).write_bytes(b"foreign")
    answers(shelf, next_process(shelf, is_read_only=True))
    assert stored_keys(shelf) == [key]


@pytest.mark.parametrize("step", range(0, 2_400, 150))
def test_damage_on_disk_changes_no_answer(shelf: Shelf, step: int) -> None:
    first = answers(shelf, next_process(shelf))
    (key,) = stored_keys(shelf)
    path = Path(shelf.session.store.resolve_uri(key))
    content = bytearray(path.read_bytes())
    content[step % len(content)] ^= 0xFF
    path.write_bytes(content)

    assert answers(shelf, next_process(shelf)) == first
    # Whatever was damaged, a later process has an index again.
    assert answers(shelf, next_process(shelf)) == first


def test_a_segment_that_is_removed_or_cut_during_a_search_changes_no_answer(shelf: Shelf) -> None:
    first = answers(shelf, next_process(shelf))
    (key,) = stored_keys(shelf)
    path = Path(shelf.session.store.resolve_uri(key))
    for damage in (lambda: path.write_bytes(path.read_bytes()[:-200]), path.unlink):
        cache = next_process(shelf)
        reading = shelf.reading(cache=cache)
        list(iter_segments(reading, reading.get_reader("Doc"), "text"))

        damage()

        assert answers(shelf, cache) == first
        answers(shelf, next_process(shelf))  # stores it again


def test_a_link_in_place_of_a_segment_is_not_followed(shelf: Shelf, tmp_path: Path) -> None:
    first = answers(shelf, next_process(shelf))
    (key,) = stored_keys(shelf)
    path = Path(shelf.session.store.resolve_uri(key))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")

    assert answers(shelf, next_process(shelf)) == first
