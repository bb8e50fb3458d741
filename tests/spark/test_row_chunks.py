"""Rows that a task hands over come in pieces of a size, however many there are, and in their order."""

import io
from pathlib import Path

import numpy as np
import pytest

from load_calls import edge, person, text_of
from mutating import new_graph
from omnigraph.engine.decoding.graph_jsonl import read_graph_records
from omnigraph.engine.decoding.json_lines import iter_chunks
from omnigraph.engine.decoding.typed_rows import TypedRows
from omnigraph.spark.load import row_chunks
from omnigraph.spark.load.key_hashes import hash_ids
from omnigraph.spark.load.row_chunks import RollingChunkWriter, read_chunk

SEED = 7


def windows(place: Path) -> list[TypedRows]:
    """Three windows of people, and as many of edges, in turns."""
    session = new_graph(place)._session
    found: list[TypedRows] = []
    for start in (0, 10, 20):
        names = [f"p{start + number}" for number in range(10)]
        text = text_of([*map(person, names), *(edge("Knows", name, name) for name in names)])
        catalog = session.load_catalog(session.head().snapshot)
        found += read_graph_records(iter_chunks(io.BytesIO(text)), catalog, session.runtime.ids, name="in")
    return found


@pytest.mark.parametrize("limit", ["CHUNK_BYTES", "MAX_BUFFERED_BYTES"])
def test_rows_of_any_number_are_kept_in_bounded_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    kept: dict[str, bytes] = {}

    def keep(name: str, data: bytes) -> str:
        kept[name] = data
        return name

    monkeypatch.setattr(row_chunks, limit, 1)
    roll = RollingChunkWriter(keep, SEED)

    given = windows(tmp_path)
    for number, window in enumerate(given):
        roll.add(window, np.arange(10, dtype=np.int64) + 10 * (number // 2))
    done = roll.finish()["Person"]

    people = next(window.type for window in given if window.type.name == "Person")
    rows = [part for one in done for part in read_chunk(people, kept[one.key], 0)]
    ids = [name for part in rows for name in part.window.rows["id"].to_pylist()]
    hashes = b"".join(hash_ids(part.window.rows["id"], SEED).tobytes() for part in rows)
    assert [one.rows for one in done] == [10, 10, 10]
    assert ids == [f"p{number}" for number in range(30)]
    assert b"".join(kept[one.ids or ""] for one in done) == hashes
    assert np.concatenate([part.ordinals for part in rows]).tolist() == list(range(30))
