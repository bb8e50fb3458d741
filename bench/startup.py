"""Measure the start-up time of imports, help texts, a first query and a first write, each in new processes, in turns.

Prints the median of the wall time and of the CPU time in milliseconds, and both as multiples of `import pyarrow, lance`
in the same run, which no command can go below. Other work on the machine disturbs the CPU time less. `--rounds N` sets
the number of measurements. The first round, which compiles modules, is not counted.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARIES = "import pyarrow, lance"
QUERYING = "omnigraph query, a small graph"
SHELL = "omnigraph shell, to its prompt and out"
QUERY = "query q() { match { $p: Person } return { $p.name } order { $p.name } limit 3 }"
# Each run changes the age, so each is a commit.
MUTATION = 'query m($age: I32) { update Person set { age: $age } where name = "Ada" }'
# Where Python may not store compiled modules, each start would compile all of ours, but none of the libraries.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(words: Sequence[str], cwd: Path) -> tuple[float, float]:
    """Return the wall time and the CPU time of a process, in milliseconds."""
    wall, cpu = time.perf_counter(), read_cpu_seconds()
    subprocess.run([sys.executable, *words], cwd=cwd, env=ENVIRONMENT, check=True, capture_output=True)
    return 1000 * (time.perf_counter() - wall), 1000 * (read_cpu_seconds() - cpu)


def measure_shell(words: Sequence[str], cwd: Path) -> tuple[float, float]:
    """Return the same of a shell at a terminal that is left as soon as it shows its prompt."""
    wall, cpu = time.perf_counter(), read_cpu_seconds()
    ours, theirs = os.openpty()
    shell = subprocess.Popen(
        [sys.executable, *words], cwd=cwd, env=ENVIRONMENT, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while b"main>" not in shown:
        shown += (part := os.read(ours, 65_536))
        if b"\x1b[6n" in part:  # the terminal is asked where its cursor is
            os.write(ours, b"\x1b[1;1R")
    os.write(ours, b"\x04")
    shell.wait()
    os.close(ours)
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
            LIBRARIES: ["-c", LIBRARIES],
            "import omnigraph": ["-c", "import omnigraph"],
            "import omnigraph; omnigraph.open_graph": ["-c", "import omnigraph; omnigraph.open_graph"],
            "omnigraph --help": ["-m", "omnigraph", "--help"],
            "omnigraph load --help": ["-m", "omnigraph", "load", "--help"],
            "omnigraph version": ["-m", "omnigraph", "version"],
            QUERYING: ["-m", "omnigraph", "query", "p.omni", "-e", QUERY],
            SHELL: ["-m", "omnigraph", "shell", "p.omni"],
            "omnigraph mutate, one row of it": ["-m", "omnigraph", "mutate", "p.omni", "-e", MUTATION, "--param"],
        }
        measurements: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
        for number in range(rounds + 1):
            for name, words in processes.items():
                run = measure_shell if name == SHELL else measure
                times = run([*words, f"age={number + 20}"] if words[-1] == "--param" else words, cwd)
                if number:
                    measurements[name].append(times)
    print(f"\nstart-up: ms, {rounds} processes of each, in turns")
    print(f"{'wall':>8}{'cpu':>8}{'x wall':>8}{'x cpu':>8}")
    medians = {
        name: [statistics.median(times) for times in zip(*pairs, strict=True)] for name, pairs in measurements.items()
    }
    base_wall, base_cpu = medians[LIBRARIES]
    for name, (wall, cpu) in medians.items():
        print(f"{wall:8.0f}{cpu:8.0f}{wall / base_wall:8.2f}{cpu / base_cpu:8.2f}  {name}")
    print(f"a shell takes {medians[SHELL][1] / medians[QUERYING][1]:.2f} times the CPU of a query (goal: at most 1.5)")


if __name__ == "__main__":
    main()
