"""Compare search over documents with vectors to LanceDB and bare Lance, each engine in a process of its own.

Prints, for every engine, the time to load and to index, the first query in a new process (with opening), medians of
later ones by the clock and in CPU time (on a busy machine, trust the latter), the memory after all queries, and for
`nearest` the share of the ten true neighbours that were returned. Ours is measured with a declared index of each
`--kinds` at recall 0.98, and exactly; bare Lance searches the table and index of the first kind. Bare Lance and LanceDB
look at the smallest number of cells at which they reach that recall too. `--rows` and `--questions` make it shorter,
`--keep DIR` keeps everything, so that a next run measures only; `--engines` selects some.
"""

import argparse
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from search_data import FILTERED, SIZE, TOP, Questions, open_documents, read_questions, write_documents

GOAL = 0.98
SCHEMA = "node Doc {{ key: String @key  text: String @index  vec: Vector({size}) {index}  bucket: I32 }}"
PARAMS = {"v": f"Vector({SIZE})", "t": "String"}
ALL, SOME = "$d: Doc", f"$d: Doc  $d.bucket < {FILTERED}"
NEAREST, BM25 = "nearest($d.vec, $v)", "bm25($d.text, $t)"
EXACT = "nearest($d.vec, $v, exact=true)"
QUERIES = {
    "nearest": (ALL, NEAREST),
    f"nearest of {FILTERED}%": (SOME, NEAREST),
    "bm25": (ALL, BM25),
    f"bm25 of {FILTERED}%": (SOME, BM25),
    "hybrid": (ALL, f"rrf({NEAREST}, {BM25})"),
    "nearest exact": (ALL, EXACT),
}
"""The pattern and the sort key of each query, by name."""
KINDS = ("ivf_flat", "ivf_pq", "ivf_rq", "hnsw")
OURS, BARE, LANCEDB = "omnigraph", "bare Lance", "LanceDB"
PROBES = (1, 2, 5, 10, 20, 50, 100, 200)
_CALIBRATED = 20
"""Queries by which the number of cells is chosen."""


class Engine(Protocol):
    """An engine that is open."""

    def search(self, name: str, vector: NDArray[np.float32], text: str) -> list[str]:
        """Return the keys of the best rows."""
        ...


class Ours:
    """This engine, through its public API."""

    def __init__(self, place: Path, kind: str) -> None:
        import omnigraph as og

        self.graph = og.open_graph(str(place / f"omnigraph-{kind}"), read_only=True)

    @staticmethod
    def build(place: Path, kind: str) -> dict[str, float]:
        """Load the documents and optimize; return the seconds of each."""
        import omnigraph as og

        data = open_documents(place)
        schema = SCHEMA.format(size=SIZE, index=f'@index(kind="{kind}", recall={GOAL})')
        graph = og.create_graph(str(place / f"omnigraph-{kind}"), schema)
        times: dict[str, float] = {}
        with _Timer(times, "load"):
            graph.load(nodes={"Doc": data}, mode="append")
        with _Timer(times, "index"):
            graph.optimize()
        return times

    def search(self, name: str, vector: NDArray[np.float32], text: str) -> list[str]:
        """See Engine."""
        matched, rank = QUERIES[name]
        params = {key: value for key, value in (("v", vector.tolist()), ("t", text)) if f"${key}" in rank}
        declared = ", ".join(f"${key}: {PARAMS[key]}" for key in params)
        query = f"query q({declared}) {{ match {{ {matched} }} return {{ $d.key }} order {{ {rank} }} limit {TOP} }}"
        return [row["d.key"] for row in self.graph.query(query, params=params).rows()]


class BareLance:
    """Lance over the table of one of our graphs, by the same index."""

    def __init__(self, place: Path, kind: str) -> None:
        import lance

        import omnigraph as og

        graph = og.open_graph(str(place / f"omnigraph-{kind}"), read_only=True)
        pin = graph.snapshot().pin("node:Doc")
        self.dataset = lance.dataset(f"{graph.uri}/{pin.path}", version=pin.version)
        self.probes = 20

    def search(self, name: str, vector: NDArray[np.float32], text: str) -> list[str]:
        """See Engine."""
        del text
        where = f"bucket < {FILTERED}" if name.endswith("%") else None
        nearest = {"column": "vec", "q": vector, "k": TOP, "metric": "cosine", "minimum_nprobes": self.probes}
        found = self.dataset.to_table(columns=["key", "_distance"], nearest=nearest, filter=where, prefilter=True)
        keys: list[str] = found["key"].to_pylist()
        return keys


class LanceDb:
    """LanceDB with a full-text index and IVF_FLAT."""

    def __init__(self, place: Path) -> None:
        import lancedb

        self.table = lancedb.connect(str(place / "lancedb")).open_table("docs")
        self.probes = 20

    @staticmethod
    def build(place: Path) -> dict[str, float]:
        """Load and index the documents; return the seconds of each."""
        import lancedb

        data = open_documents(place)
        times: dict[str, float] = {}
        with _Timer(times, "load"):
            table = lancedb.connect(str(place / "lancedb")).create_table("docs", data)
        with _Timer(times, "index"):
            table.create_fts_index("text", use_tantivy=False)
            cells = max(16, len(data) // 400)
            table.create_index(metric="cosine", vector_column_name="vec", index_type="IVF_FLAT", num_partitions=cells)
        return times

    def search(self, name: str, vector: NDArray[np.float32], text: str) -> list[str]:
        """See Engine."""
        search: Any
        if name.startswith("nearest"):
            search = self.table.search(vector).distance_type("cosine")
            search = search.bypass_vector_index() if name.endswith("exact") else search.nprobes(self.probes)
        elif name.startswith("bm25"):
            search = self.table.search(text, query_type="fts")
        else:
            search = self.table.search(query_type="hybrid").vector(vector).text(text).distance_type("cosine")
            search = search.nprobes(self.probes)
        if name.endswith("%"):
            search = search.where(f"bucket < {FILTERED}", prefilter=True)
        scores = {"nearest": ["_distance"], "bm25": ["_score"]}.get(name.split(maxsplit=1)[0], [])
        keys: list[str] = search.select(["key", *scores]).limit(TOP).to_arrow()["key"].to_pylist()
        return keys


class _Timer:
    """Measure a block, by the clock and in CPU time."""

    def __init__(self, times: dict[str, float], name: str) -> None:
        self._times, self._name = times, name

    def __enter__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    def __exit__(self, *error: object) -> None:
        self._times[self._name] = time.perf_counter() - self._started[0]
        self._times[f"{self._name} cpu"] = time.process_time() - self._started[1]


# --- in a process of its own -----------------------------------------------------------------------------


def build(engine: str, kind: str, place: Path) -> dict[str, float]:
    """Build the tables and indexes of an engine, unless they are there."""
    if engine == OURS and not (place / f"omnigraph-{kind}").exists():
        return Ours.build(place, kind)
    if engine == LANCEDB and not (place / "lancedb").exists():
        return LanceDb.build(place)
    return {}


def open_engine(engine: str, kind: str, place: Path) -> Engine:
    """Open an engine whose tables are built."""
    if engine == LANCEDB:
        return LanceDb(place)
    return Ours(place, kind) if engine == OURS else BareLance(place, kind)


def measure(engine: str, kind: str, name: str, place: Path) -> dict[str, Any]:
    """Run one query with every vector and text in this process, and return what was measured."""
    questions = read_questions(place)
    # Imports count for no engine.
    importlib.import_module("omnigraph.graph")
    importlib.import_module("lancedb" if engine == LANCEDB else "lance")
    vector, text = questions.vectors[-1], questions.texts[-1]
    started = time.perf_counter()
    opened = open_engine(engine, kind, place)
    opened.search(name, vector, text)
    first = time.perf_counter() - started
    probes = 0 if isinstance(opened, Ours) else _choose_probes(opened, name, questions)
    # Untimed, so that all engines have cached the same: choosing the cells has searched for some of the vectors.
    for vector, text in zip(questions.vectors, questions.texts, strict=True):
        opened.search(name, vector, text)
    wall: list[float] = []
    cpu: list[float] = []
    keys: list[list[str]] = []
    for vector, text in zip(questions.vectors, questions.texts, strict=True):
        times: dict[str, float] = {}
        with _Timer(times, "query"):
            keys.append(opened.search(name, vector, text))
        wall.append(times["query"] * 1e3)
        cpu.append(times["query cpu"] * 1e3)
    return {
        "probes": probes,
        "first": first,
        "wall": statistics.median(wall),
        "cpu": statistics.median(cpu),
        "recall": _measure_recall(name, questions, keys),
        "resident": _read_resident(),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _choose_probes(engine: Engine, name: str, questions: Questions) -> int:
    """Set the smallest number of cells that reaches the goal, by the first queries."""
    for probes in PROBES:
        engine.probes = probes  # type: ignore[attr-defined]  # peers have it
        if not name.startswith("nearest") or name.endswith("exact"):
            return 0
        some = zip(questions.vectors[:_CALIBRATED], questions.texts, strict=False)
        found = [engine.search(name, vector, text) for vector, text in some]
        if (_measure_recall(name, questions, found) or 0.0) >= GOAL:
            break
    return probes


def _measure_recall(name: str, questions: Questions, found: Sequence[Sequence[str]]) -> float | None:
    if not name.startswith("nearest"):
        return None
    true = questions.nearest_filtered if name.endswith("%") else questions.nearest
    return statistics.mean(len(of_query & set(keys)) / TOP for of_query, keys in zip(true, found, strict=False))


def _read_resident() -> int:
    """Return the bytes of memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


# --- all of them ----------------------------------------------------------------------------------------


def run_child(*arguments: str) -> dict[str, Any]:
    """Run one part of the comparison in a process of its own."""
    command = [sys.executable, __file__, "--child", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def report_build(engine: str, kind: str, times: dict[str, float], rows: int) -> None:
    """Print the times of a build."""
    per_million = 1e6 / rows
    parts = [
        f"{name} {times[name]:.1f} s (cpu {times[f'{name} cpu']:.1f}; {times[name] * per_million:.0f} s per million)"
        for name in ("load", "index")
        if name in times
    ]
    if parts:
        print(f"{engine} {kind}: {', '.join(parts)}", flush=True)


def compare(name: str, engines: Sequence[tuple[str, str]], place: Path) -> None:
    """Measure one query on each engine, and print one line per engine."""
    print(name)
    measured: dict[tuple[str, str], dict[str, Any]] = {}
    for key in [*engines, *engines]:
        # In turns, and the better of two: other work disturbs one engine more than the other.
        result = run_child("measure", *key, name, str(place))
        if key not in measured or result["cpu"] < measured[key]["cpu"]:
            measured[key] = result
    baseline = next((result for (engine, _), result in measured.items() if engine == BARE), None)
    for (engine, kind), result in measured.items():
        recall = "" if result["recall"] is None else f"  recall {result['recall']:.3f}"
        probes = f" ({result['probes']} cells)" if result["probes"] else ""
        ratio = ""
        if baseline is not None and engine != BARE:
            ratio = (
                f"  of bare Lance {result['wall'] / baseline['wall']:.2f} (cpu {result['cpu'] / baseline['cpu']:.2f})"
            )
        memory = f"{result['resident'] / 1e9:.2f} GB, peak {result['peak'] / 1e9:.2f}"
        times = f"first {result['first'] * 1e3:7,.0f} ms  p50 {result['wall']:7.2f} ms  cpu {result['cpu']:7.2f}"
        print(f"  {f'{engine} {kind}{probes}':28} {times}  {memory}{recall}{ratio}", flush=True)


def list_engines(name: str, kinds: Sequence[str], selected: Sequence[str]) -> list[tuple[str, str]]:
    """Return the engines that answer a query."""
    is_nearest = name.startswith("nearest")
    is_exact = name.endswith("exact")
    engines = [(OURS, kind) for kind in (kinds if is_nearest and not is_exact else kinds[:1])]
    if is_nearest and not is_exact:
        engines.append((BARE, kinds[0]))
    if importlib.util.find_spec("lancedb") is not None:
        engines.append((LANCEDB, "IVF_FLAT"))
    return [key for key in engines if key[0] in selected]


def main() -> None:
    """Measure all queries, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=61)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS[:1])
    parser.add_argument("--engines", nargs="*", choices=(OURS, BARE, LANCEDB), default=(OURS, BARE, LANCEDB))
    parser.add_argument("--queries", nargs="*", choices=tuple(QUERIES), default=tuple(QUERIES))
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        action, engine, kind, *rest = arguments.child
        place = Path(rest[-1])
        done = build(engine, kind, place) if action == "build" else measure(engine, kind, rest[0], place)
        print(json.dumps(done))
        return
    with tempfile.TemporaryDirectory() as directory:
        place = arguments.keep or Path(directory)
        place.mkdir(exist_ok=True, parents=True)
        if not (place / "questions.json").exists():
            write_documents(place, arguments.rows, arguments.questions)
        rows = open_documents(place).num_rows
        print(f"{rows:,} documents")
        for engine, kind in dict.fromkeys(list_engines("nearest", arguments.kinds, arguments.engines)):
            report_build(engine, kind, run_child("build", engine, kind, str(place)), rows)
        for name in arguments.queries:
            compare(name, list_engines(name, arguments.kinds, arguments.engines), place)


if __name__ == "__main__":
    main()
