"""Measure a load of nodes and edges from graph JSONL and from Parquet, beside the minimum that any loader must do.

The baseline reads the same file with Arrow's own reader and writes the rows to Lance: no types, no ids, no checks, no
commit. Absolute times depend on the machine; compare ratios within one run. The contestants take turns, so that other
load on the machine affects each of them alike. `--small` takes less time; `--nodes N --edges M --rounds R` set the
sizes.
"""

import argparse
import gc
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.parquet as pa_parquet

from omnigraph.lang.source import Source
from omnigraph.ops.create import create
from omnigraph.ops.load import LoadCall, LoadMode, Progress, load
from omnigraph.ops.load_inputs import GraphSource, LoadInput, TypedSource, expand_inputs
from omnigraph.options import Durability, Options
from omnigraph.runtime import Runtime
from omnigraph.schema.bind import load_schema

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  score: F64
  born: Date
  bio: String?
}
edge Knows: Person -> Person {
  since: Date
  weight: F64
}
"""
CHUNK_ROWS = 200_000
"""The number of rows that are generated in one batch."""


@dataclass
class Contestant:
    """A way to load: the seconds of its rounds, and for a load the time at which each phase ended."""

    name: str
    work: Callable[[Path], object]
    times: list[float] = field(default_factory=list)
    phases: dict[str, list[float]] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median time in seconds."""
        return statistics.median(self.times)


# --- data --------------------------------------------------------------------------------------------


def people(nodes: int) -> Iterator[pa.Table]:
    """Yield the nodes in chunks."""
    for start in range(0, nodes, CHUNK_ROWS):
        numbers = np.arange(start, min(nodes, start + CHUNK_ROWS))
        random = np.random.default_rng(start)
        texts = pa.array(numbers).cast(pa.utf8())
        yield pa.table(
            {
                "name": pc.binary_join_element_wise("person-", texts, ""),
                "age": pa.array(random.integers(0, 100, len(numbers)), pa.int32(), mask=numbers % 10 == 0),
                "score": random.random(len(numbers)),
                "born": pa.array(random.integers(-10_000, 15_000, len(numbers)), pa.int32()).cast(pa.date32()),
                "bio": pc.binary_join_element_wise("what there is to say about person ", texts, ""),
            }
        )


def knows(nodes: int, edges: int) -> Iterator[pa.Table]:
    """Yield the edges in chunks."""
    for start in range(0, edges, CHUNK_ROWS):
        count = min(edges, start + CHUNK_ROWS) - start
        random = np.random.default_rng(~start & 0xFFFFFFFF)
        ends = [pa.array(random.integers(0, nodes, count)).cast(pa.utf8()) for _ in range(2)]
        yield pa.table(
            {
                "from": pc.binary_join_element_wise("person-", ends[0], ""),
                "to": pc.binary_join_element_wise("person-", ends[1], ""),
                "since": pa.array(random.integers(0, 20_000, count), pa.int32()).cast(pa.date32()),
                "weight": random.random(count),
            }
        )


def write_inputs(root: Path, nodes: int, edges: int) -> None:
    """Write the same graph as `graph.jsonl`, and as `Person.parquet` and `Knows.parquet`."""
    with (root / "graph.jsonl").open("wb") as lines:
        for name, parts in (("Person", people(nodes)), ("Knows", knows(nodes, edges))):
            writer: pa_parquet.ParquetWriter | None = None
            for part in parts:
                writer = writer or pa_parquet.ParquetWriter(root / f"{name}.parquet", part.schema)
                writer.write_table(part)
                lines.write(format_json_lines(name, part))
            if writer is not None:
                writer.close()


def format_json_lines(name: str, rows: pa.Table) -> bytes:
    """Return rows as graph JSONL, without the properties that are null, as most writers do."""
    is_edge = "from" in rows.schema.names
    ends = ["from", "to"] if is_edge else []
    parts: list[object] = [f'{{"{"edge" if is_edge else "type"}":"{name}"']
    for end in ends:
        parts += [f',"{end}":"', _texts(rows[end]), '"']
    parts.append(',"data":{')
    sign = ""
    for column in [column for column in rows.schema.names if column not in ends]:
        quote = "" if pa.types.is_floating(rows[column].type) or pa.types.is_integer(rows[column].type) else '"'
        pair = pc.binary_join_element_wise(f'{sign}"{column}":{quote}', _texts(rows[column]), quote, "")
        parts.append(pc.fill_null(pair, ""))
        sign = ","
    lines = pc.binary_join_element_wise(*parts, "}}\n", "")
    return bytes(lines.buffers()[2])


def _texts(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks().cast(pa.utf8())


# --- contestants -------------------------------------------------------------------------------------


def load_bare_json(root: Path, target: Path) -> None:
    """Run the baseline for JSONL."""
    lance.write_dataset(pa_json.read_json(root / "graph.jsonl"), str(target))


def load_bare_parquet(root: Path, target: Path) -> None:
    """Run the baseline for Parquet."""
    for name in ("Person", "Knows"):
        lance.write_dataset(pa_parquet.read_table(root / f"{name}.parquet"), str(target / name))


def build_input(root: Path, kind: str) -> LoadInput:
    """Return the input of a load, `jsonl` or `parquet`."""
    if kind == "jsonl":
        return LoadInput(graph=(GraphSource(data=root / "graph.jsonl"),))
    typed = (("Person", False), ("Knows", True))
    return LoadInput(
        typed=tuple(TypedSource(type=name, is_edge=is_edge, data=root / f"{name}.parquet") for name, is_edge in typed)
    )


def decode(root: Path, kind: str) -> None:
    """Read every record into typed rows, and drop them."""
    ids = Runtime().ids
    for source in expand_inputs(build_input(root, kind), load_schema(Source(SCHEMA, "bench.pg"))):
        for _ in source.read_rows(ids):
            pass


def load_all(root: Path, kind: str, target: Path, contestant: Contestant) -> None:
    """Load into a new graph, and add the times of its phases to the contestant."""
    runtime = Runtime(options=Options(durability=Durability.OS))  # the baseline does not flush either
    session = create(str(target), Source(SCHEMA, "bench.pg"), actor="bench", runtime=runtime)
    started = time.perf_counter()
    phase_ends: dict[str, float] = {}

    def note(progress: Progress) -> None:
        phase_ends[progress.phase] = time.perf_counter() - started

    load(session, LoadCall(input=build_input(root, kind), mode=LoadMode.APPEND, actor="bench", progress=note))
    for phase, ended in phase_ends.items():
        contestant.phases.setdefault(phase, []).append(ended)


def measure(contestants: list[Contestant], scratch: Path, rounds: int) -> None:
    """Measure all rounds, in turns."""
    for number in range(rounds):
        for contestant in contestants:
            target = scratch / f"{contestant.name}-{number}".replace(" ", "-")
            gc.collect()
            start = time.perf_counter()
            contestant.work(target)
            contestant.times.append(time.perf_counter() - start)
            shutil.rmtree(target, ignore_errors=True)


def print_table(title: str, contestants: list[Contestant], rows: int) -> None:
    """Print medians, and the ratio to the first contestant, which is the baseline."""
    print(f"\n{title}")
    print(f"{'':34}{'median':>10}{'slowest':>10}{'rows/s':>13}{'× bare':>9}")
    for contestant in contestants:
        median = contestant.median
        slowest = max(contestant.times)
        ratio = median / contestants[0].median
        print(f"{contestant.name:34}{median:8.2f} s{slowest:8.2f} s{rows / median:13,.0f}{ratio:9.2f}")
        if contestant.phases:
            ends = [(phase, statistics.median(times)) for phase, times in contestant.phases.items()]
            spans = zip([0.0, *(end for _, end in ends)], ends, strict=False)
            print("    " + ", ".join(f"{phase} {end - before:.2f} s" for before, (phase, end) in spans))


def compare(root: Path, kind: str, bare: Callable[[Path, Path], None], rows: int, rounds: int) -> None:
    """Measure all contestants on one kind of input, and print the result."""
    loading = Contestant("load, checked and committed", lambda _: None)
    loading.work = lambda target: load_all(root, kind, target, loading)
    contestants = [
        Contestant("bare read and Lance write", lambda target: bare(root, target)),
        Contestant("decode alone", lambda _: decode(root, kind)),
        loading,
    ]
    size = sum(path.stat().st_size for path in root.glob("*.jsonl" if kind == "jsonl" else "*.parquet"))
    with tempfile.TemporaryDirectory() as scratch:
        measure(contestants, Path(scratch), rounds)
    print_table(f"{kind}, {size / 1e6:,.0f} MB, {rows:,} rows", contestants, rows)


def main() -> None:
    """Measure both kinds of input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="100,000 nodes and 500,000 edges")
    arguments = parser.parse_args()
    nodes, edges = (100_000, 500_000) if arguments.small else (arguments.nodes, arguments.edges)
    print(f"Python {sys.version.split()[0]}, pylance {lance.__version__}, {arguments.rounds} rounds of each, in turns")
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        write_inputs(root, nodes, edges)
        compare(root, "jsonl", load_bare_json, nodes + edges, arguments.rounds)
        compare(root, "parquet", load_bare_parquet, nodes + edges, arguments.rounds)


if __name__ == "__main__":
    main()
