"""Which file is damaged how, and what is then done with the graph: few of each for every change, all in a soak."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from damage_files import UNNEEDED
from damage_verbs import FAMILIES, VERBS
from damage_ways import WAYS

READS = {state: tuple(f"{family} of {state}" for family in FAMILIES) for state in ("main", "side", "old")}
READS["past"] = ("read past",)
OTHERS = tuple(verb for verb in VERBS if " of " not in verb and verb != "check deep")
"""Verbs that take turns, because all of them after each damage would take a second."""
UNNEEDED_WAYS = ("flip", "remove", "older", "empty")
INDEX_WAYS = ("flip", "cut half", "remove", "older", "zero page")


@dataclass(frozen=True, slots=True)
class Planned:
    """A file, what becomes of it, and what is done then."""

    place: str
    way: str
    seed: int
    verbs: tuple[str, ...]
    bit: int | None = None
    """Of a flip, which bit; None: one that the seed chooses."""


def plan_few(files: Sequence[Mapping[str, str]]) -> list[Planned]:
    """Plan every way for every kind of file and every state that needs it, with verbs that take turns."""
    turn = count()
    return [
        Planned(group[seed % len(group)]["place"], way, seed, _verbs(group[0], next(turn)))
        for group in by_group(files)
        if not group[0]["kind"].startswith("index ")
        for way in (UNNEEDED_WAYS if group[0]["kind"] in UNNEEDED else WAYS)
        for seed in range(2 if way == "flip" else 1)
    ]


def plan_indexes(files: Sequence[Mapping[str, str]]) -> list[Planned]:
    """Plan some ways for every file of every kind of index."""
    groups = [group for group in by_group(files) if group[0]["kind"].startswith("index ")]
    turn = count()
    return [
        Planned(
            group[next(turn) % len(group)]["place"],
            way,
            number,
            ("check deep", "read large", OTHERS[number % len(OTHERS)]),
        )
        for number, group in enumerate(groups)
        for way in (INDEX_WAYS[number % len(INDEX_WAYS)], INDEX_WAYS[(number + 2) % len(INDEX_WAYS)])
    ]


def plan_all(files: Sequence[Mapping[str, str]], seed: int) -> Iterator[Planned]:
    """Plan every way for every file, with every verb."""
    for file in files:
        for way in WAYS:
            yield Planned(file["place"], way, seed, tuple(VERBS))


def by_group(files: Sequence[Mapping[str, str]]) -> list[list[Mapping[str, str]]]:
    """Return the files of each kind that the same state needs."""
    groups: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for file in files:
        groups.setdefault((file["kind"], file["needed_by"]), []).append(file)
    return list(groups.values())


def plan_changes(files: Sequence[Mapping[str, str]], sizes: Mapping[str, int], count: int, seed: int) -> list[Planned]:
    """Plan flips with verbs that read rows in order to write them: none may write damage anew as if it were whole."""
    verbs = ("write", "merge", "optimize", "clone")
    return [
        replace(flip, verbs=(verbs[number % len(verbs)],))
        for number, flip in enumerate(plan_flips(files, sizes, count, seed))
    ]


def _verbs(file: Mapping[str, str], turn: int) -> tuple[str, ...]:
    """Return the verbs for one damage: a deep check, reads of what needs the file, and some that take turns."""
    state = file["needed_by"] if file["needed_by"] in READS else "main"
    also = [READS[other][turn % 4] for other in ("main", "side", "old") if other != state]
    other = OTHERS[turn // 2 % len(OTHERS)] if turn % 2 else also[turn // 2 % 2]
    return tuple(dict.fromkeys(("check deep", *READS[state], *also[turn % 2 :], other)))


def plan_flips(files: Sequence[Mapping[str, str]], sizes: Mapping[str, int], count: int, seed: int) -> list[Planned]:
    """Plan flips of single bits: one half spread evenly over all bits, one half over all files."""
    seeded = random.Random(seed)
    by_place = {file["place"]: file for file in files}
    places = list(by_place)
    chosen = seeded.choices(places, [sizes[place] for place in places], k=count // 2)
    chosen += seeded.choices(places, k=count - count // 2)
    return [
        Planned(place, "flip", seed, _verbs(by_place[place], number), bit=seeded.randrange(8 * sizes[place]))
        for number, place in enumerate(chosen)
    ]
