"""Search over documents with vectors, against LanceDB: same data, same run, in turns.

Prints medians in milliseconds, of the clock and of the processor (on a busy machine, trust the latter), ratios, and for
`nearest` how many of the ten true neighbours were found. Ours is exact
and needs no index; LanceDB is asked without an index, and by an approximate one at two settings. `--rows N` and
`--rounds N` make it shorter, `--hnsw` adds a graph index, which takes minutes to build.
"""

import argparse
import gc
import importlib.util
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import omnigraph as og

SIZE, CLUSTERS, WORDS, LETTERS = 384, 500, 40_000, "etaoinshrdlucmfwypvbgkjqxz"
SCHEMA = f"node Doc {{ key: String @key  text: String @index  vec: Vector({SIZE}) @index  bucket: I32 }}"
TOP = 10
FILTERED = 5
"""The share of rows, in percent, that a filter leaves."""
PARAMS = {"v": f"Vector({SIZE})", "t": "String"}
ALL, SOME = "$d: Doc", f"$d: Doc  $d.bucket < {FILTERED}"
NEAREST, BM25 = "nearest($d.vec, $v)", "bm25($d.text, $t)"
QUERIES = {
    "nearest": (ALL, NEAREST),
    f"nearest of {FILTERED}%": (SOME, NEAREST),
    "bm25": (ALL, BM25),
    f"bm25 of {FILTERED}%": (SOME, BM25),
    "hybrid": (ALL, f"rrf({NEAREST}, {BM25})"),
}
"""By name: what is matched, and what orders it."""
OURS = "omnigraph"


@dataclass(frozen=True)
class Documents:
    """What is searched, and what is asked."""

    table: pa.Table
    vectors: NDArray[np.float32]
    asked_vectors: NDArray[np.float32]
    asked_texts: list[str]

    def true_neighbours(self, place: int, *, filtered: bool) -> set[str]:
        """The keys of the nearest, by brute force."""
        buckets = self.table["bucket"].to_numpy()
        rows = np.flatnonzero(buckets < FILTERED) if filtered else np.arange(len(self.vectors))
        order = np.argsort(-(self.vectors[rows].astype(np.float64) @ self.asked_vectors[place].astype(np.float64)))
        return set(self.table["key"].take(pa.array(rows[order[:TOP]])).to_pylist())


def documents(rows: int, questions: int) -> Documents:
    """Clustered unit vectors, and texts of 50 words whose frequencies follow Zipf's law."""
    random = np.random.default_rng(1)
    lengths = random.integers(3, 11, WORDS)
    letters = np.array(list(LETTERS))
    words = np.array(["".join(random.choice(letters, n)) for n in lengths], object)
    drawn = words[np.minimum(random.zipf(1.3, (rows, 50)) - 1, WORDS - 1)]
    centres = random.standard_normal((CLUSTERS, SIZE)).astype(np.float32)
    vectors = _unit(centres[random.integers(0, CLUSTERS, rows)] + 0.7 * _noise(random, rows))
    asked = _unit(centres[random.integers(0, CLUSTERS, questions)] + 0.7 * _noise(random, questions))
    texts = [" ".join(words[random.integers(20, 3_000, 3)]) for _ in range(questions)]
    table = pa.table(
        {
            "key": [f"d{number:07}" for number in range(rows)],
            "text": [" ".join(row) for row in drawn],
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), SIZE),
            "bucket": pa.array(random.integers(0, 100, rows), pa.int32()),
        }
    )
    return Documents(table, vectors, asked, texts)


def _noise(random: np.random.Generator, rows: int) -> NDArray[np.float32]:
    return random.standard_normal((rows, SIZE)).astype(np.float32)


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found


class Ours:
    """This engine, through its public face."""

    def __init__(self, root: Path, data: Documents) -> None:
        self.graph = og.create_graph(str(root / "omni"), SCHEMA)
        self.graph.load(nodes={"Doc": data.table}, mode="append")

    def ask(self, name: str, vector: list[float], text: str) -> list[str]:
        """The keys of the best rows."""
        matched, rank = QUERIES[name]
        given = {key: value for key, value in (("v", vector), ("t", text)) if f"${key}" in rank}
        declared = ", ".join(f"${key}: {PARAMS[key]}" for key in given)
        query = f"query q({declared}) {{ match {{ {matched} }} return {{ $d.key }} order {{ {rank} }} limit {TOP} }}"
        return [row["d.key"] for row in self.graph.query(query, params=given).rows()]


class Peer:
    """LanceDB, with one kind of vector index or none, and a full-text index."""

    def __init__(self, table: Any, probes: int | None) -> None:  # noqa: ANN401 - an optional peer has no types here
        self.table, self.probes = table, probes

    def ask(self, name: str, vector: NDArray[np.float32], text: str) -> list[str]:
        """The keys of the best rows."""
        if name.startswith("nearest"):
            search = self.table.search(vector).distance_type("cosine")
            search = search.bypass_vector_index() if self.probes is None else search.nprobes(self.probes)
        elif name.startswith("bm25"):
            search = self.table.search(text, query_type="fts")
        else:
            search = self.table.search(query_type="hybrid").vector(vector).text(text).distance_type("cosine")
            search = search.nprobes(self.probes or 20)
        if name.endswith("%"):
            search = search.where(f"bucket < {FILTERED}", prefilter=True)
        scores = {"nearest": ["_distance"], "bm25": ["_score"]}.get(name.split(maxsplit=1)[0], [])
        found: list[str] = search.select(["key", *scores]).limit(TOP).to_arrow()["key"].to_pylist()
        return found


def peers(root: Path, data: Documents, *, hnsw: bool) -> dict[str, Peer]:
    """LanceDB at its settings; none when it is not installed."""
    if importlib.util.find_spec("lancedb") is None:
        print("LanceDB is not installed: only our own numbers")
        return {}
    import lancedb

    made: dict[str, Peer] = {}
    database = lancedb.connect(str(root / "lancedb"))
    started = time.perf_counter()
    table = database.create_table("flat", data.table)
    table.create_fts_index("text", use_tantivy=False)
    table.create_index(
        metric="cosine",
        vector_column_name="vec",
        index_type="IVF_FLAT",
        num_partitions=max(16, len(data.vectors) // 400),
    )
    print(f"LanceDB: loaded and indexed (full text, IVF_FLAT) in {time.perf_counter() - started:.1f} s")
    made |= {"flat": Peer(table, None), "IVF_FLAT 10": Peer(table, 10), "IVF_FLAT 40": Peer(table, 40)}
    if hnsw:
        started = time.perf_counter()
        graph = database.create_table("hnsw", data.table)
        graph.create_fts_index("text", use_tantivy=False)
        graph.create_index(metric="cosine", vector_column_name="vec", index_type="IVF_HNSW_SQ", num_partitions=1)
        print(f"LanceDB: IVF_HNSW_SQ in {time.perf_counter() - started:.1f} s")
        made["IVF_HNSW_SQ"] = Peer(graph, 1)
    return made


@dataclass
class Spent:
    """What one of them needed, question by question, in milliseconds, and how much of the truth it found."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)


def measure(name: str, data: Documents, ours: Ours, others: dict[str, Peer]) -> dict[str, Spent]:
    """Ask every question of each, in turns."""
    is_nearest = name.startswith("nearest")
    asked = others if is_nearest else dict(list(others.items())[-1:])  # texts are found alike by all of them
    found = {key: Spent() for key in (OURS, *asked)}
    places = range(len(data.asked_texts) if is_nearest else 0)
    truths = [data.true_neighbours(place, filtered=name.endswith("%")) for place in places]  # not between the turns
    for place, (vector, text) in enumerate(zip(data.asked_vectors, data.asked_texts, strict=True)):
        true = truths[place] if is_nearest else set()
        numbers = vector.tolist()
        for key, spent in found.items():
            wall, processor = time.perf_counter(), time.process_time()
            answer = ours.ask(name, numbers, text) if key == OURS else asked[key].ask(name, vector, text)
            elapsed, worked = (time.perf_counter() - wall) * 1e3, (time.process_time() - processor) * 1e3
            if place:  # the first question pays for what is kept afterwards
                spent.wall.append(elapsed)
                spent.processor.append(worked)
                spent.recall.append(len(true & set(answer)) / TOP)
            elif key == OURS:
                print(f"{name}: first question {elapsed:,.0f} ms")
    return found


def report(name: str, found: dict[str, Spent]) -> None:
    """A line for each."""
    own = found[OURS]
    for key, spent in found.items():
        wall, processor = statistics.median(spent.wall), statistics.median(spent.processor)
        ratios = ""
        if key != OURS:
            ratios = (
                f"  ours/theirs {statistics.median(own.wall) / wall:.2f}"
                f" (processor {statistics.median(own.processor) / processor:.2f})"
            )
        recall = f"  recall {statistics.mean(spent.recall):.3f}" if name.startswith("nearest") else ""
        times = f"p50 {wall:7.2f} ms  min {min(spent.wall):7.2f}  processor {processor:7.2f}"
        print(f"  {name:14} {key:12} {times}{recall}{ratios}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--hnsw", action="store_true")
    given = parser.parse_args()
    data = documents(given.rows, given.rounds + 1)
    with tempfile.TemporaryDirectory() as directory:
        started = time.perf_counter()
        ours = Ours(Path(directory), data)
        print(f"omnigraph: loaded in {time.perf_counter() - started:.1f} s")
        others = peers(Path(directory), data, hnsw=given.hnsw)
        gc.disable()
        for name in QUERIES:
            report(name, measure(name, data, ours, others))


if __name__ == "__main__":
    main()
