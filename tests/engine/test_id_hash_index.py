"""Ids are found in the index, and others are not, whatever their hashes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.engine.tables import id_hash_index
from omnigraph.engine.tables.id_hash_index import IdHashIndex, hash_ids

TEXTS = st.lists(st.text(max_size=30), unique=True, max_size=60)


@settings(max_examples=150)
@given(TEXTS, TEXTS, st.integers(0, 5))
def test_every_id_is_found_and_no_other(there: list[str], others: list[str], cut: int) -> None:
    ids = pa.array(["cut"] * cut + there, pa.string()).slice(cut)
    index = IdHashIndex(ids)
    asked = there + others
    expected = [there.index(text) if text in there else -1 for text in asked]

    assert index.find(pa.array(asked, pa.string())).tolist() == expected
    assert [index.find_id(text) for text in asked] == expected


@settings(max_examples=100)
@given(TEXTS)
def test_only_the_places_that_count_are_found(texts: list[str]) -> None:
    ids = pa.array(texts + texts, pa.string())
    living = np.arange(len(texts), 2 * len(texts), 2)

    index = IdHashIndex(ids, living)

    expected = [len(texts) + place if place % 2 == 0 else -1 for place in range(len(texts))]
    assert index.find(pa.array(texts, pa.string())).tolist() == expected


@settings(max_examples=100)
@given(st.lists(st.text(max_size=40), max_size=40))
def test_one_text_has_the_hash_that_it_has_among_many(texts: list[str]) -> None:
    found = hash_ids(pa.array(texts, pa.string()))

    assert found.tolist() == [id_hash_index._hash_text(text.encode()) for text in texts]


@settings(max_examples=50)
@given(TEXTS)
def test_ids_with_the_same_hash_are_told_apart(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_hash_index, "hash_ids", lambda ids: np.full(len(ids), 2**63 + 5, np.uint64))
        patch.setattr(id_hash_index, "_hash_text", lambda _: 2**63 + 5)
        index = IdHashIndex(pa.array(texts, pa.string()))

        assert index.find(pa.array([*texts, "another"], pa.string())).tolist() == [
            *range(len(texts)),
            texts.index("another") if "another" in texts else -1,
        ]
        assert [index.find_id(text) for text in texts] == list(range(len(texts)))


def test_large_texts_are_indexed_too() -> None:
    index = IdHashIndex(pa.array(["a", "long " * 50], pa.large_string()))

    assert index.find(pa.array(["long " * 50, "b"], pa.large_string())).tolist() == [1, -1]
    assert index.find_id("a") == 0


def test_many_ids_are_hashed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = pa.array([f"id-{number}" for number in range(1_000)])
    expected = hash_ids(ids).tolist()

    monkeypatch.setattr(id_hash_index, "_CHUNK_IDS", 7)

    assert hash_ids(ids).tolist() == expected
