"""Ask a graph that is larger than memory, each kind of question in a process that the operating system limits.

By default 300,000 people with 15.6 million edges, and 1.5 GB for everything: a control group of the kernel ends a
process that takes 20 % more. Every question must answer on the local engine, or be refused by its budget by name; a
process that dies fails the run. Prints for each question the time, the peak of resident memory, and the outcome.

A control group needs its directory to be writable; without one, only the measured peak is checked. Limits of the
address space are no measure: allocators reserve gigabytes that they never touch.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PEOPLE = 300_000
LIMIT_BYTES = 1_500_000_000
MARGIN = 1.2
"""The share of the limit at which the kernel ends a process."""
SECONDS = 300
KINDS = {
    "scan, filter, page": (
        "match { $p: Post $p.length > 500 } return { $p.key } order { $p.created desc } limit 5 offset 1000"
    ),
    "hop, listed and ordered": (
        "match { $a knows $b $a.age < $b.age } return { $a.key, $b.key } order { $b.age desc, $a.key } limit 5"
    ),
    "two hops counted": "match { $a knows $b $b knows $c } return { count(*) as n }",
    "groups of two hops": (
        "match { $a knows $b $b likes $m }"
        " return { $a.age, count(*) as n, max($m.length) as l } order { n desc } limit 5"
    ),
    "hop to a text condition": (
        'match { $a knows $b $b likes $m lower($b.first) = "first 0007" $m.lang = "fr" } return { count(*) as n }'
    ),
    "triangles": "match { $a: Person { age: 20 } $a knows $b $b knows $c $a knows $c } return { count(*) as n }",
    "cycle over three types": "match { $a knows $b $a likes $m $b wrote $m } return { count(*) as n }",
    "optional": (
        "match { $a: Person $a.age = 30 optional { $a knows $b $b.age = 30 } } return { count(*) as n, count($b) as m }"
    ),
    "not": 'match { $a: Person not { $a likes $m $m.lang = "de" } } return { count(*) as n }',
    "exists and either": (
        "match { $a: Person exists { $a likes $m } either { $a knows $b } or { $b knows $a } $b.age = 40 }"
        " return { count(*) as n }"
    ),
    "value block": (
        "match { $a: Person } return { $a.key, count { $a knows $b } as n } order { n desc, $a.key } limit 5"
    ),
    "collect of each": (
        "match { $a: Person $a.age = 77 }"
        " return { $a.key, collect { $a knows $b return $b.first order { $b.key } limit 3 } as names } order {"
        " $a.key } limit 5"
    ),
    "each": "match { $a knows $b each $x in [1, 2] } return { $x, count(*) as n } order { $x }",
    "sums of floats": (
        "match { $a knows $b }"
        " return { $a.first, sum($b.age / 7.0) as s, avg($b.age * 0.1) as m } order { $a.first } limit 5"
    ),
    "median": "match { $a knows $b } return { $a.age, median($b.age) as m } order { $a.age } limit 5",
    "distinct": "match { $a likes $m } return distinct { $a.age, $m.lang } order { $a.age, $m.lang } limit 5",
    "count distinct": (
        "match { $a likes $m $m hasTag $t } return { $t.key, count(distinct $a.age) as n } order { n, $t.key } limit 5"
    ),
    "window": (
        "match { $a: Person }"
        " return { $a.key, rank() over { per { $a.age } order { $a.last } } as r } order { $a.key } limit 5"
    ),
    "stages": (
        "match { $a knows $b } with { $b as b, count(*) as n } match { $n > 30 }"
        " return { $b.age, count(*) as m } order { $b.age } limit 5"
    ),
    "union": "match { $a: Person } return { $a.last as name } union match { $t: Tag } return { $t.name as name }",
    "walk of several edges": 'match { $a: Person { key: "p7" } $a knows{1,3} $b } return { count(*) as n }',
    "undirected walk": 'match { $a: Person { key: "p7" } $a <knows>{1,2} $b } return { count(*) as n }',
    "shortest path": (
        'match { $a: Person { key: "p7" } $b: Person { key: "p9" } shortest $w = $a knows{1,*} $b }'
        " return { length($w) as n }"
    ),
    "several edge types": "match { $a (likes|wrote) $m } return { $a.age, count(*) as n } order { $a.age } limit 5",
    "variable of several types": "match { $x: (Person|Tag) } return { $x.@type as t, count(*) as n } order { t }",
    "undirected hop": "match { $a <knows> $b } return { $a.age, count(*) as n } order { $a.age } limit 5",
    "join by a value": "match { $a: Person $t: Tag $a.first = $t.name } return { count(*) as n }",
    "text search": 'match { $p: Person search($p.last, "last") } return { count(*) as n }',
    "large result": "match { $a knows $b } return { $a.key, $b.key } order { $a.last, $b.last }",
}
ASK = """
import resource, sys, time
if sys.argv[5]:
    with open(sys.argv[5] + "/cgroup.procs", "w") as group:
        group.write("0")
import omnigraph as og
import omnigraph.engine.duckdb.run_plan
from omnigraph.errors import OmnigraphError

uri, text, limit, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
graph = og.open_graph(uri, runtime=og.Runtime(options=og.Options(cache_bytes=limit // 16)))
start = time.perf_counter()
try:
    rows = graph.query(text, engine="local", memory_bytes=limit, seconds=seconds).to_arrow().num_rows
    outcome = f"{rows} rows"
except OmnigraphError as error:
    outcome = f"refused: {error.code}: {str(error)[:90]}"
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
cpu = time.process_time()
print(f"{time.perf_counter() - start:.1f}|{cpu:.1f}|{peak}|{outcome}")
"""

_GROUPS = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))


@contextmanager
def limit_memory(limit: int) -> Iterator[Path | None]:
    """Yield the directory of a control group with a limit; None if there can't be one."""
    for parent, file in _GROUPS:
        group = Path(parent) / f"omnigraph-bench-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            if (group / file).exists():
                (group / file).write_text(str(limit))
                yield group
                return
        finally:
            group.rmdir()
    yield None


def ask(uri: str, text: str, limit: int, group: Path | None) -> tuple[str, bool]:
    """Return a line about a question in a process of its own, and whether the process met its limit."""
    command = [sys.executable, "-c", ASK, uri, f"query q() {{ {text} }}", str(limit), str(SECONDS), str(group or "")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        reason = (run.stderr.strip().splitlines() or ["no message"])[-1]
        return f"DIED with {run.returncode}: {reason[:200]}", False
    seconds, cpu, peak, outcome = run.stdout.strip().split("|", 3)
    is_in = int(peak) <= limit * MARGIN
    sign = "" if is_in else f"   ABOVE {MARGIN:.0%} of the limit"
    return f"{float(seconds):7.1f} s{float(cpu):7.1f} s CPU{int(peak) / 1e6:8.0f} MB  {outcome}{sign}", is_in


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--limit", type=int, default=LIMIT_BYTES, help="bytes for everything")
    parser.add_argument("--graph", help="a graph of this benchmark that is there already")
    parser.add_argument("--only", help="questions whose names have this part")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="larger-") as directory:
        uri = arguments.graph
        if uri is None:
            from forum import Ours
            from forum_data import build_forum

            Ours.load(Path(directory), build_forum(arguments.people))
            uri = str(Path(directory) / "omni")
        failed = []
        with limit_memory(int(arguments.limit * MARGIN)) as group:
            print("limited by a control group" if group else "no control group: only the peak is checked")
            for name, text in KINDS.items():
                if arguments.only is None or arguments.only in name:
                    line, is_met = ask(uri, text, arguments.limit, group)
                    print(f"{name:28}{line}", flush=True)
                    failed += [] if is_met else [name]
    if failed:
        raise SystemExit(f"not within {arguments.limit:,} bytes: {', '.join(failed)}")


if __name__ == "__main__":
    main()
