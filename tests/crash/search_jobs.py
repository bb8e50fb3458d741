"""What the children of the crash tests of search indexes do. Every function runs in its own process."""

import os
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph as og
from crash.jobs import leftovers
from crash.upkeep_jobs import ONE_BY_ONE, unused_segments
from omnigraph.commit.recovery import recover
from omnigraph.engine.search import column_index, recall, text_upkeep
from omnigraph.engine.tables import column_residency
from omnigraph.faults import read_faults
from omnigraph.ops import keep_derived
from omnigraph.runtime import Runtime
from worlds import FAST

SIZE = 8
WORDS = ("graph", "engine", "query", "table", "index", "quick", "runs", "cat")
SCHEMA = f"""
node Doc {{ key: String @key  text: String @index  vec: Vector({SIZE})? @index(kind="ivf_flat", recall=0.9) }}
"""
QUESTIONS = 6


def count_as_large() -> None:
    """Some hundred rows are many here: words are stored in segments, and vectors searched by their index."""
    for module in (column_index, text_upkeep, keep_derived):
        module.MIN_STORED_ROWS = 50  # type: ignore[attr-defined]
    column_index.MAX_SEGMENT_ROWS = 200
    column_residency._LIGHT_BYTES = 1
    recall.DEPTHS = {16: 6, 128: 4, 1_024: 2}


def draw(first: int, count: int) -> dict[str, pa.Table]:
    """Documents, the same for the same numbers; some without a vector, some with zeros, some alike."""
    random = np.random.default_rng(first)
    vectors: list[Any] = random.integers(-9, 10, (count, SIZE)).astype(float).tolist()
    vectors[0], vectors[1], vectors[3] = None, [0.0] * SIZE, vectors[2]
    texts = [" ".join(random.choice(WORDS, 5)) for _ in range(count)]
    keys = [f"d{first + number:04}" for number in range(count)]
    return {"Doc": pa.table({"key": keys, "text": texts, "vec": pa.array(vectors, pa.list_(pa.float32(), SIZE))})}


def make(uri: str) -> None:
    """Three loads and a deletion, of which the first two are indexed."""
    count_as_large()
    graph = og.create_graph(uri, SCHEMA, runtime=Runtime(options=ONE_BY_ONE))
    graph.load(nodes=draw(0, 300), mode="append")
    graph.load(nodes=draw(300, 200), mode="append")
    graph.optimize()
    graph.load(nodes=draw(500, 150), mode="append")
    graph.mutate('query q() { delete Doc where key < "d0020" }')


def optimize(uri: str) -> None:
    """Optimize; die where the environment says."""
    count_as_large()
    graph = og.open_graph(uri, runtime=Runtime(options=ONE_BY_ONE))
    graph._session.store.runtime = Runtime(options=ONE_BY_ONE, faults=read_faults(os.environ))
    graph.optimize()
    graph._session.reads.wait_for_workers()


def ask(uri: str) -> dict[str, Any]:
    """The answers of exact and text searches, which nothing may change, and of searches by the vector index."""
    count_as_large()
    graph = og.open_graph(uri, read_only=True, runtime=Runtime(options=FAST))
    return {
        "exact": _ask_all(graph, "nearest($d.vec, $v, exact=true)"),
        "found": _ask_all(graph, "nearest($d.vec, $v)"),
    }


# With the words of a question as `$t`.
TEXT_QUERIES = (
    "match { $d: Doc } return { $d.key as k, bm25($d.text, $t) as s } order { bm25($d.text, $t) } limit 20",
    "match { $d: Doc  match_text($d.text, $t) } return { $d.key as k } order { $d.key }",
    "match { $d: Doc  fuzzy($d.text, $t) } return { $d.key as k } order { fuzzy_score($d.text, $t), $d.key }",
)


def _ask_all(graph: og.Graph, rank: str) -> list[list[Any]]:
    answers: list[list[Any]] = []
    order = f"order {{ {rank} }} limit 10"
    near = f"query q($v: Vector({SIZE})) {{ match {{ $d: Doc }} return {{ $d.key as k, {rank} as s }} {order} }}"
    for number in range(QUESTIONS):
        random = np.random.default_rng(number)
        vector, text = random.integers(-9, 10, SIZE).astype(float).tolist(), " ".join(random.choice(WORDS, 2))
        answers.append([list(row.values()) for row in graph.query(near, params={"v": vector}).rows()])
        for query in TEXT_QUERIES:
            found = graph.query(f"query q($t: String) {{ {query} }}", params={"t": text})
            answers.append([list(row.values()) for row in found.rows()])
    return answers


def find_leftovers(uri: str) -> dict[str, Any]:
    """Wait for the lease to run out, recover, and tell what is left that no commit uses."""
    time.sleep(FAST.lease_seconds * 1.5)
    session = og.open_graph(uri, runtime=Runtime(options=ONE_BY_ONE))._session
    recover(session.store, session.log)
    return {**leftovers(session, ("nodes",)), "segments": unused_segments(session)}


def settle(uri: str) -> dict[str, Any]:
    """Optimize again, and clean up; tell what was derived."""
    count_as_large()
    graph = og.open_graph(uri, runtime=Runtime(options=ONE_BY_ONE))
    done = graph.optimize()
    graph._session.reads.wait_for_workers()
    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)
    return {
        "errors": [one.error for one in done.tables if one.error is not None],
        "lagging": [one.name for one in graph.indexes() if one.name is not None and one.coverage < 1],
        "problems": graph.check().has_errors,
        "derived": sorted(path.name.partition("-")[0] for path in Path(uri, "_derived").iterdir()),
    }


def change(uri: str) -> None:
    """Write, optimize and clean up, as another process does meanwhile."""
    count_as_large()
    graph = og.open_graph(uri, runtime=Runtime(options=replace(ONE_BY_ONE, lease_seconds=FAST.lease_seconds)))
    graph.load(nodes=draw(650, 60), mode="append")
    graph.optimize()
    graph._session.reads.wait_for_workers()
    graph.cleanup(keep=1, grace=timedelta(0), confirm=True)
