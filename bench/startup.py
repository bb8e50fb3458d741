"""How long it takes until something happens: imports, help texts, the first answer. Each in fresh processes, in turns.

Prints the median of the wall time, and of the processor time, which other work on the machine changes less, in
milliseconds; `--rounds N` is how often each is measured. The first round, which may have to compile modules, does not
count.
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
ASK = "query q() { match { $p: Person } return { $p.name } order { $p.name } limit 3 }"


def measured(words: Sequence[str], cwd: Path) -> tuple[float, float]:
    """The milliseconds of a process: by the clock, and of the processor."""
    started, worked = time.perf_counter(), processor_seconds()
    subprocess.run([sys.executable, *words], cwd=cwd, check=True, capture_output=True)
    return 1000 * (time.perf_counter() - started), 1000 * (processor_seconds() - worked)


def processor_seconds() -> float:
    """What all processes that were started and have ended have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    people = ROOT / "examples" / "people"
    with tempfile.TemporaryDirectory(prefix="omnigraph-startup-") as directory:
        place = Path(directory)
        measured(["-m", "omnigraph", "init", "p.omni", "--schema", str(people / "schema.pg")], place)
        load = ["-m", "omnigraph", "load", "p.omni", "--mode", "append"]
        measured([*load, "--data", str(people / "people.jsonl")], place)
        processes = {
            "python -c pass": ["-c", "pass"],
            "import omnigraph": ["-c", "import omnigraph"],
            "import omnigraph; omnigraph.open_graph": ["-c", "import omnigraph; omnigraph.open_graph"],
            "omnigraph --help": ["-m", "omnigraph", "--help"],
            "omnigraph load --help": ["-m", "omnigraph", "load", "--help"],
            "omnigraph version": ["-m", "omnigraph", "version"],
            "omnigraph query, a small graph": ["-m", "omnigraph", "query", "p.omni", "-e", ASK],
        }
        took: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
        for number in range(rounds + 1):
            for name, words in processes.items():
                one = measured(words, place)
                if number:
                    took[name].append(one)
    print(f"\nfrom nothing: ms, {rounds} processes of each, in turns")
    print(f"{'wall':>8}{'cpu':>8}")
    for name, times in took.items():
        wall, processor = (statistics.median(some) for some in zip(*times, strict=True))
        print(f"{wall:8.0f}{processor:8.0f}  {name}")


if __name__ == "__main__":
    main()
