"""The words of a column, kept for the next process: the same answers, and never wrong ones from damaged bytes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.engine.query_budget import Budget
from omnigraph.engine.search import column_index, index_codec, inverted_index
from omnigraph.engine.search.column_index import iter_segments
from omnigraph.engine.search.index_codec import decode_words, encode_words
from omnigraph.engine.search.inverted_index import FragmentRun, build_index
from omnigraph.engine.search.ranking import rank_rows
from omnigraph.engine.tables.graph_cache import GraphCache
from omnigraph.options import Options
from omnigraph.storage.derived_cache import DerivedCache
from searching import Shelf, bm25

TEXTS = st.lists(st.none() | st.text(max_size=20), max_size=8)


def encoded(*columns: list[str | None]) -> bytes:
    runs = [
        FragmentRun(((f"{place}.lance",),), len(column), build_index(pa.array(column, pa.string())))
        for place, column in enumerate(columns)
    ]
    return b"".join(encode_words(runs))


@given(st.lists(TEXTS, max_size=3))
def test_what_is_written_is_read(columns: list[list[str | None]]) -> None:
    found = decode_words(memoryview(encoded(*columns)))

    assert len(found) == len(columns)
    for place, (run, column) in enumerate(zip(found, columns, strict=True)):
        expected = build_index(pa.array(column, pa.string()))
        assert (run.fragments, run.rows) == (((f"{place}.lance",),), len(column))
        assert run.index is not None
        assert (run.index.words, run.index.tokens) == (expected.words, expected.tokens)
        for name in index_codec._ARRAYS:
            assert np.array_equal(getattr(run.index, name), getattr(expected, name)), name


@given(st.data())
def test_damaged_bytes_are_as_good_as_none(data: st.DataObject) -> None:
    whole = encoded(["graph engine", None, "running"], ["x"])
    place = data.draw(st.integers(0, len(whole) - 1))
    is_cut = data.draw(st.booleans())
    damaged = whole[:place] if is_cut else whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]

    found = decode_words(memoryview(damaged))

    assert found == () or b"".join(encode_words(found)) == whole  # only what fills gaps may differ unseen


def test_words_of_other_rules_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encoded(["graph"])

    monkeypatch.setattr(index_codec, "_TAG", index_codec._TAG.replace(b"unicode", b"unicorn"))

    assert decode_words(memoryview(whole)) == ()


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Twenty documents, in a graph that keeps words from ten rows on."""
    monkeypatch.setattr(column_index, "MIN_STORED_ROWS", 10)
    made = Shelf(tmp_path / "g")
    made.write({f"d{n:02}": (f"graph {'engine ' * (n % 3)}{n}", None) for n in range(20)})
    return made


def next_process(shelf: Shelf, *, is_read_only: bool = False) -> GraphCache:
    return GraphCache(Options(), DerivedCache(shelf.session.store, is_read_only=is_read_only))


def ranked(shelf: Shelf, cache: GraphCache) -> list[tuple[str, float]]:
    reading = shelf.reading(cache=cache)
    found = rank_rows(reading, bm25("graphs engines 7"), "Doc", reading.get_reader("Doc").get_positions(), None)
    cache.wait_for_workers()
    return list(zip(shelf.ids(found.positions), found.values.tolist(), strict=True))


def test_the_next_process_analyses_only_what_is_new(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ranked(shelf, next_process(shelf))
    analysed: list[int] = []

    def counted(texts: pa.Array, budget: Budget, language: str | None) -> inverted_index.InvertedIndex:
        analysed.append(len(texts))
        return inverted_index.build_index(texts, budget, language)

    monkeypatch.setattr(column_index, "build_index", counted)

    again = ranked(shelf, next_process(shelf))
    shelf.write({"e": ("engine", None)})
    later = ranked(shelf, next_process(shelf))

    assert again == first
    assert later == ranked(shelf, GraphCache(Options()))
    assert analysed == [1, 21]


def test_a_read_only_process_keeps_nothing(shelf: Shelf) -> None:
    ranked(shelf, next_process(shelf, is_read_only=True))

    assert list(shelf.session.store.objects.list_under("_derived")) == []


def test_damage_on_disk_changes_no_answer(shelf: Shelf) -> None:
    first = ranked(shelf, next_process(shelf))
    (info,) = shelf.session.store.objects.list_under("_derived")
    path = Path(shelf.session.store.resolve_uri(info.key))
    content = bytearray(path.read_bytes())
    content[-70] ^= 0xFF
    path.write_bytes(content)

    assert ranked(shelf, next_process(shelf)) == first


def test_the_parts_are_read_from_what_was_kept(shelf: Shelf) -> None:
    ranked(shelf, next_process(shelf))

    reading = shelf.reading(cache=next_process(shelf))
    (part,) = iter_segments(reading, reading.get_reader("Doc"), "text")

    assert not part.index.stream.flags.owndata
