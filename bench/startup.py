"""Measure the start-up time of imports, help texts and a first query, each in new processes, in turns.

Prints the median of the wall time and of the CPU time in milliseconds; other work on the machine disturbs the latter
less. `--rounds N` sets the number of measurements. The first round, which may have to compile modules, is not counted.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUERY = "query q() { match { $p: Person } return { $p.name } order { $p.name } limit 3 }"


def measure(words: Sequence[str], cwd: Path) -> tuple[float, float]:
    """Return the wall time and the CPU time of a process, in milliseconds."""
    wall, cpu = time.perf_counter(), read_cpu_seconds()
    subprocess.run([sys.executable, *words], cwd=cwd, check=True, capture_output=True)
    return 1000 * (time.perf_counter() - wall), 1000 * (read_cpu_seconds() - cpu)


def read_cpu_seconds() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Measure all processes, and print their medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    people = ROOT / "examples" / "people"
    with tempfile.TemporaryDirectory(prefix="omnigraph-startup-") as directory:
        cwd = Path(directory)
        measure(["-m", "omnigraph", "init", "p.omni", "--schema", str(people / "schema.pg")], cwd)
        load = ["-m", "omnigraph", "load", "p.omni", "--mode", "append"]
        measure([*load, "--data", str(people / "people.jsonl")], cwd)
        processes = {
            "python -c pass": ["-c", "pass"],
            "import omnigraph": ["-c", "import omnigraph"],
            "import omnigraph; omnigraph.open_graph": ["-c", "import omnigraph; omnigraph.open_graph"],
            "omnigraph --help": ["-m", "omnigraph", "--help"],
            "omnigraph load --help": ["-m", "omnigraph", "load", "--help"],
            "omnigraph version": ["-m", "omnigraph", "version"],
            "omnigraph query, a small graph": ["-m", "omnigraph", "query", "p.omni", "-e", QUERY],
        }
        measurements: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
        for number in range(rounds + 1):
            for name, words in processes.items():
                times = measure(words, cwd)
                if number:
                    measurements[name].append(times)
    print(f"\nstart-up: ms, {rounds} processes of each, in turns")
    print(f"{'wall':>8}{'cpu':>8}")
    for name, pairs in measurements.items():
        wall, cpu = (statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"{wall:8.0f}{cpu:8.0f}  {name}")


if __name__ == "__main__":
    main()
