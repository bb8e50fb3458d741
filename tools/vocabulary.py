"""Measures the vocabulary of the source and holds it by a ratchet: counts may only fall.

    python tools/vocabulary.py                 what differs from tests/contracts/vocabulary.json
    python tools/vocabulary.py --list NAME     every place that a measure counts
    python tools/vocabulary.py --lower         store what got better; refuses to store what got worse
    python tools/vocabulary.py --renew         store what is there, better or worse: after merging other work

Counts are stored by package, so that work in one package does not touch the numbers of another.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import vocabulary_measures as measures
from vocabulary_measures import Module, Place
from vocabulary_words import PHRASES

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "omnigraph"
NUMBERS = ROOT / "tests" / "contracts" / "vocabulary.json"
SCRIPTS = ("bench", "examples", "tools")
BESIDE = "D401 of scripts"
COMMENTS = "comments per 100 lines"
# Code without comments moves a room's density by a few hundredths with each change; only a trend counts.
DENSITY_SLACK = 0.2

Numbers = dict[str, dict[str, float]]

OF_A_MODULE: dict[str, Callable[[Module], Iterator[Place]]] = {
    "participle names": measures.find_participle_names,
    "forbidden names": measures.find_forbidden_names,
    "distant locals": measures.find_distant_locals,
    "most and least": measures.find_most_and_least,
    "parallel assignments": measures.find_parallel_assignments,
    "nested conditionals": measures.find_nested_conditionals,
    "docstrings without verb": measures.find_docstrings_without_verb,
    "docstrings with error first": measures.find_docstrings_with_error_first,
    **{f"phrase in source: {phrase}": measures.find_phrases_in_source(phrase) for phrase in PHRASES},
}


@dataclass
class Survey:
    """Everything that was measured."""

    places: dict[str, list[Place]]
    """By measure, every place that counts."""
    comments: Counter[str] = field(default_factory=Counter)
    code: Counter[str] = field(default_factory=Counter)
    """By room, how many lines."""
    functions: int = 0

    @property
    def numbers(self) -> Numbers:
        """The number of places by measure and room, without zeros, and the density of comments by room."""
        counts: Numbers = {
            name: dict(sorted(Counter(place.room for place in places).items())) for name, places in self.places.items()
        }
        densities = {room: round(100 * self.comments[room] / lines, 1) for room, lines in self.code.items() if lines}
        return {**counts, COMMENTS: densities}

    def summarize(self) -> Iterator[str]:
        """Yield the total of each measure, and the shares that other code bases can be compared by."""
        for name, places in self.places.items():
            yield f"{len(places):6} {name}"
        share = 100 * len(self.places["participle names"]) / (self.functions or 1)
        yield f"{share:6.1f} % of {self.functions} functions are named by a participle"
        density = 100 * self.comments.total() / (self.code.total() or 1)
        yield f"{density:6.1f} {COMMENTS}"


def survey(root: Path = ROOT, source: Path = SOURCE) -> Survey:
    """Measure a repository whose package is in `source`."""
    result = Survey({name: [] for name in OF_A_MODULE})
    classes: list[Place] = []
    # Module by module, so that only one syntax tree is in memory: with all of them, parsing took three times as long.
    for path in sorted(source.rglob("*.py")):
        module = Module(source, path)
        for name, find in OF_A_MODULE.items():
            result.places[name] += find(module)
        classes += measures.find_classes(module)
        comments, code = measures.count_comments(module)
        result.comments[module.room] += comments
        result.code[module.room] += code
        result.functions += len(module.functions)
    result.places["shared class names"] = list(measures.find_shared_class_names(classes))
    result.places["D401"] = measures.find_d401(source)
    result.places[BESIDE] = [place for name in SCRIPTS for place in _find_d401_of_scripts(root / name)]
    for phrase in PHRASES:
        result.places[f"phrase in pages: {phrase}"] = list(measures.find_phrases_in_pages(phrase, root))
    return result


def _find_d401_of_scripts(directory: Path) -> Iterator[Place]:
    if directory.is_dir():
        for place in measures.find_d401(directory):
            yield replace(place, room=directory.name, path=f"{directory.name}/{place.path}")


def compare(stored: Numbers, now: Numbers) -> tuple[list[str], list[str]]:
    """Return what got worse than the stored numbers, and what got better."""
    worse: list[str] = []
    better: list[str] = []
    for name in sorted(stored.keys() | now.keys()):
        before = stored.get(name, {})
        after = now.get(name, {})
        for room in sorted(before.keys() | after.keys()):
            change = after.get(room, 0) - before.get(room, 0)
            line = f"{name}, {room}: {before.get(room, 0)} → {after.get(room, 0)}"
            if name == COMMENTS:
                # More comments are better. A room that is new or gone changes the file, and is neither.
                change = -change if room in before and room in after else -2 * DENSITY_SLACK
                if abs(change) <= DENSITY_SLACK:
                    continue
            if change:
                (worse if change > 0 else better).append(line)
    return worse, better


def read_numbers() -> Numbers:
    """Return the stored numbers."""
    numbers: Numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
    return numbers


def store(result: Survey) -> None:
    """Store what was measured."""
    NUMBERS.write_text(json.dumps(result.numbers, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> int:
    """Run the tool; exit with 1 when something got worse, unless that is stored."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", metavar="NAME", help="print every place that a measure counts")
    what.add_argument("--lower", action="store_true", help="store what got better, unless something got worse")
    what.add_argument("--renew", action="store_true", help="store what is there, better or worse")
    arguments = parser.parse_args()
    result = survey()
    if arguments.list is not None:
        print(*result.places[arguments.list], sep="\n")
        return 0
    worse, better = compare(read_numbers() if NUMBERS.exists() else {}, result.numbers)
    print(*result.summarize(), sep="\n")
    print(*(f"worse   {line}" for line in worse), *(f"better  {line}" for line in better), sep="\n")
    if arguments.renew or (arguments.lower and not worse):
        store(result)
        print(f"wrote {NUMBERS.name}")
        return 0
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
