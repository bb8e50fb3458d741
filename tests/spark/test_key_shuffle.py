"""The keys of a load come in bounded pieces, however many rows a task reads, and none is lost."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import omnigraph as og
from load_calls import edge, loaded, person
from mutating import new_graph
from omnigraph.faults import NoFaults
from omnigraph.schema.arrow import DST, ID, SRC
from omnigraph.schema.catalog_codec import encode_catalog
from omnigraph.spark.load import key_shuffle
from omnigraph.spark.load.key_hashes import hash_ids
from omnigraph.spark.load.key_shuffle import KeySource, assign_buckets, iter_key_batches
from omnigraph.spark.load.load_spec import LoadSpec
from omnigraph.storage.blob_sources import NO_SOURCES

BUCKETS = 3


def spec_of(graph: og.Graph) -> LoadSpec:
    """What a task is told of a graph."""
    session = graph._session
    snapshot = session.resolve_snapshot()
    return LoadSpec(
        uri=graph.uri,
        storage=(),
        operation_id="test",
        catalog=encode_catalog(session.load_catalog(snapshot)),
        pins={key: (pin.path, str(pin.version)) for key, pin in snapshot.pins.items()},
        blobs=NO_SOURCES,
        inputs=(),
        units=(),
        splits=(),
        packs=(),
        keeps_left_out=False,
        keeps_rejected=False,
        seed=7,
        first_id=0,
        faults=NoFaults(),
    )


@pytest.mark.parametrize("held", [1, 10, 25, 1_000_000])
def test_keys_are_told_in_bounded_pieces_and_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    graph = new_graph(tmp_path)
    for start in (0, 10, 20):
        names = [f"p{start + number}" for number in range(10)]
        loaded(graph, "append", *map(person, names), *(edge("Knows", name, "p0") for name in names))
    monkeypatch.setattr(key_shuffle, "_MAX_BUFFERED_ROWS", held)
    fragments = tuple(
        one.number for one in graph._session.open_tables(graph.snapshot()).open_table("edge:Knows").list_fragments()
    )
    unit = KeySource(type="Knows", roles=(DST, ID, SRC), committed=fragments)
    spec = spec_of(graph)

    batches = list(iter_key_batches(spec, [unit], iter([0]), BUCKETS))

    found: Counter[tuple[str, int, int]] = Counter()
    for batch in batches:
        # Of a hub, which every edge ends at, each piece has one hash.
        assert all(len(set(np.frombuffer(one, np.uint64))) == len(one) // 8 for one in batch["payload"].to_pylist())
        for bucket, role, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found.update((role, bucket, one) for one in np.frombuffer(payload, np.uint64).tolist())
        assert sum(map(len, batch["payload"].to_pylist())) <= 8 * max(held + 10, 10)
    rows = graph.table("Knows").to_table()
    expected: Counter[tuple[str, int, int]] = Counter()
    for role in (DST, ID, SRC):
        hashes = hash_ids(rows[role], spec.seed)
        buckets = assign_buckets(hashes, BUCKETS).tolist()
        expected.update((f"committed/Knows/{role}", *one) for one in zip(buckets, hashes.tolist(), strict=True))
    assert found.keys() == expected.keys()
    hub = next(key for key, count in expected.items() if count > 1)
    assert found[hub] < len(rows)
    assert held < 1_000_000 or found[hub] == 1
    assert {key: count for key, count in found.items() if key != hub} == {
        key: count for key, count in expected.items() if key != hub
    }
