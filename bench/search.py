"""Compare search over documents with vectors to LanceDB and bare Lance: same data, same run, in turns.

Prints medians in milliseconds of wall time and CPU time (on a busy machine, trust the latter), ratios, and for
`nearest` the share of the ten true neighbours that were returned. Ours is measured exact, without an index, and with a
declared IVF_FLAT index of recall 0.98; LanceDB without an index and with an approximate one at two settings; bare Lance
over the table and index of ours. `--rows N` and `--rounds N` make the run shorter, `--full` has a million rows,
`--hnsw` adds a graph index, which takes minutes to build.
"""

import argparse
import gc
import importlib.util
import resource
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
SCHEMA = "node Doc { key: String @key  text: String @index  vec: Vector(%d) %s  bucket: I32 }"
INDEX = '@index(kind="ivf_flat", recall=0.98)'
TOP = 10
FILTERED = 5
"""The share of rows that pass the filter, in percent."""
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
"""The pattern and the sort key of each query, by name."""
OURS, INDEXED, BARE = "omnigraph", "omnigraph IVF", "bare Lance"
PROBES = 20


@dataclass(frozen=True)
class Documents:
    """The documents, and the vectors and texts to search for."""

    table: pa.Table
    vectors: NDArray[np.float32]
    query_vectors: NDArray[np.float32]
    query_texts: list[str]

    def find_true_neighbours(self, number: int, *, filtered: bool) -> set[str]:
        """Return the keys of the rows that are nearest to a query vector, by brute force."""
        buckets = self.table["bucket"].to_numpy()
        rows = np.flatnonzero(buckets < FILTERED) if filtered else np.arange(len(self.vectors))
        order = np.argsort(-(self.vectors[rows].astype(np.float64) @ self.query_vectors[number].astype(np.float64)))
        return set(self.table["key"].take(pa.array(rows[order[:TOP]])).to_pylist())


def build_documents(rows: int, questions: int) -> Documents:
    """Generate clustered unit vectors, and texts of 50 words whose frequencies follow Zipf's law."""
    random = np.random.default_rng(1)
    lengths = random.integers(3, 11, WORDS)
    letters = np.array(list(LETTERS))
    words = np.array(["".join(random.choice(letters, n)) for n in lengths], object)
    drawn = words[np.minimum(random.zipf(1.3, (rows, 50)) - 1, WORDS - 1)]
    centres = random.standard_normal((CLUSTERS, SIZE)).astype(np.float32)
    vectors = _normalize(centres[random.integers(0, CLUSTERS, rows)] + 0.7 * _draw_noise(random, rows))
    query_vectors = _normalize(centres[random.integers(0, CLUSTERS, questions)] + 0.7 * _draw_noise(random, questions))
    texts = [" ".join(words[random.integers(20, 3_000, 3)]) for _ in range(questions)]
    table = pa.table(
        {
            "key": [f"d{number:07}" for number in range(rows)],
            "text": [" ".join(row) for row in drawn],
            "vec": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), SIZE),
            "bucket": pa.array(random.integers(0, 100, rows), pa.int32()),
        }
    )
    return Documents(table, vectors, query_vectors, texts)


def _draw_noise(random: np.random.Generator, rows: int) -> NDArray[np.float32]:
    return random.standard_normal((rows, SIZE)).astype(np.float32)


def _normalize(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    normalized: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return normalized


class Ours:
    """This engine, through its public API; exact, or with a declared vector index."""

    def __init__(self, root: Path, data: Documents, *, indexed: bool = False) -> None:
        path = str(root / ("indexed" if indexed else "omni"))
        started = time.perf_counter()
        og.create_graph(path, SCHEMA % (SIZE, INDEX if indexed else "@index")).load(
            nodes={"Doc": data.table}, mode="append"
        )
        loaded = time.perf_counter()
        if indexed:
            og.open_graph(path).optimize()
            print(f"omnigraph: indexed and measured in {time.perf_counter() - loaded:.1f} s")
        print(f"omnigraph: loaded in {loaded - started:.1f} s")
        # Opened again, so that nothing is in memory.
        self.graph = og.open_graph(path)

    def search(self, name: str, vector: list[float], text: str) -> list[str]:
        """Return the keys of the best rows."""
        matched, rank = QUERIES[name]
        params = {key: value for key, value in (("v", vector), ("t", text)) if f"${key}" in rank}
        declared = ", ".join(f"${key}: {PARAMS[key]}" for key in params)
        query = f"query q({declared}) {{ match {{ {matched} }} return {{ $d.key }} order {{ {rank} }} limit {TOP} }}"
        return [row["d.key"] for row in self.graph.query(query, params=params).rows()]


class BareLance:
    """Lance over the table of the indexed graph, by the same index."""

    def __init__(self, graph: og.Graph) -> None:
        import lance

        pin = graph.snapshot().pin("node:Doc")
        self.dataset = lance.dataset(f"{graph.uri}/{pin.path}", version=pin.version)

    def search(self, name: str, vector: NDArray[np.float32], text: str) -> list[str]:
        """Return the keys of the nearest rows."""
        del text
        where = f"bucket < {FILTERED}" if name.endswith("%") else None
        nearest = {"column": "vec", "q": vector, "k": TOP, "metric": "cosine", "minimum_nprobes": PROBES}
        found = self.dataset.to_table(columns=["key", "_distance"], nearest=nearest, filter=where, prefilter=True)
        keys: list[str] = found["key"].to_pylist()
        return keys


class Peer:
    """LanceDB, with one kind of vector index or none, and a full-text index."""

    def __init__(self, table: Any, probes: int | None) -> None:  # noqa: ANN401 - an optional peer has no types here
        self.table = table
        self.probes = probes

    def search(self, name: str, vector: NDArray[np.float32], text: str) -> list[str]:
        """Return the keys of the best rows."""
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
        keys: list[str] = search.select(["key", *scores]).limit(TOP).to_arrow()["key"].to_pylist()
        return keys


def build_peers(root: Path, data: Documents, *, hnsw: bool) -> dict[str, Peer]:
    """Load and index LanceDB, and return it at each setting; empty if it is not installed."""
    if importlib.util.find_spec("lancedb") is None:
        print("LanceDB is not installed: only omnigraph is measured")
        return {}
    import lancedb

    peers: dict[str, Peer] = {}
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
    peers |= {"flat": Peer(table, None), "IVF_FLAT 10": Peer(table, 10), "IVF_FLAT 40": Peer(table, 40)}
    if hnsw:
        started = time.perf_counter()
        graph = database.create_table("hnsw", data.table)
        graph.create_fts_index("text", use_tantivy=False)
        graph.create_index(metric="cosine", vector_column_name="vec", index_type="IVF_HNSW_SQ", num_partitions=1)
        print(f"LanceDB: IVF_HNSW_SQ in {time.perf_counter() - started:.1f} s")
        peers["IVF_HNSW_SQ"] = Peer(graph, 1)
    return peers


@dataclass
class Measurement:
    """The milliseconds and the recall of one engine, query by query."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)


def measure(name: str, data: Documents, ours: Ours, others: dict[str, Any]) -> dict[str, Measurement]:
    """Run one query with every vector and text on each engine, in turns."""
    is_nearest = name.startswith("nearest")
    # Full-text search is the same at all settings, so one of them is enough.
    databases = {key: peer for key, peer in others.items() if isinstance(peer, Peer)}
    peers = others if is_nearest else dict(list(databases.items())[-1:])
    results = {key: Measurement() for key in (OURS, *peers)}
    # Computed before the rounds, so that no brute-force search runs between two measurements.
    numbers = range(len(data.query_texts) if is_nearest else 0)
    neighbours = [data.find_true_neighbours(number, filtered=name.endswith("%")) for number in numbers]
    for number, (vector, text) in enumerate(zip(data.query_vectors, data.query_texts, strict=True)):
        true = neighbours[number] if is_nearest else set()
        values = vector.tolist()
        for key, measurement in results.items():
            wall, cpu = time.perf_counter(), time.process_time()
            engine = ours if key == OURS else peers[key]
            keys = engine.search(name, values if isinstance(engine, Ours) else vector, text)
            wall_ms, cpu_ms = (time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3
            if number:  # the first query fills caches
                measurement.wall.append(wall_ms)
                measurement.cpu.append(cpu_ms)
                measurement.recall.append(len(true & set(keys)) / TOP)
            elif key in (OURS, INDEXED):
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                print(f"{name}: first query of {key} {wall_ms:,.0f} ms; peak memory so far {peak:,} MB")
    return results


def report(name: str, results: dict[str, Measurement]) -> None:
    """Print one line per engine."""
    ours = results[OURS]
    for key, measurement in results.items():
        wall, cpu = statistics.median(measurement.wall), statistics.median(measurement.cpu)
        ratios = ""
        if key != OURS:
            ratios = (
                f"  ours/theirs {statistics.median(ours.wall) / wall:.2f} (cpu {statistics.median(ours.cpu) / cpu:.2f})"
            )
        recall = f"  recall {statistics.mean(measurement.recall):.3f}" if name.startswith("nearest") else ""
        if key == INDEXED and BARE in results:
            bare = statistics.median(results[BARE].wall)
            ratios += f"  of bare Lance {wall / bare:.2f} (cpu {cpu / statistics.median(results[BARE].cpu):.2f})"
        times = f"p50 {wall:7.2f} ms  min {min(measurement.wall):7.2f}  cpu {cpu:7.2f}"
        print(f"  {name:14} {key:12} {times}{recall}{ratios}")


def main() -> None:
    """Measure all queries, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--hnsw", action="store_true")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    data = build_documents(1_000_000 if arguments.full else arguments.rows, arguments.rounds + 1)
    with tempfile.TemporaryDirectory() as directory:
        ours = Ours(Path(directory), data)
        indexed = Ours(Path(directory), data, indexed=True)
        peers = build_peers(Path(directory), data, hnsw=arguments.hnsw)
        others = {INDEXED: indexed, BARE: BareLance(indexed.graph), **peers}
        gc.disable()
        for name in QUERIES:
            report(name, measure(name, data, ours, others))


if __name__ == "__main__":
    main()
