"""Generate a social graph, the same on each run: people who follow each other, live in cities and have interests.

The shape follows the public Kuzu study: 100,000 people, about 2.4 million follows with a long tail, cities in states in
countries, 41 interests. No person follows another one twice, or themselves, so that all engines count the same paths.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

SCHEMA = """
node Person { key: String @key  name: String  gender: enum(male, female)  age: I32 }
node City { key: String @key  city: String  population: I64 }
node State { key: String @key  state: String }
node Country { key: String @key  country: String @index }
node Interest { key: String @key  interest: String @index }
edge Follows: Person -> Person
edge LivesIn: Person -> City
edge CityIn: City -> State
edge StateIn: State -> Country
edge HasInterest: Person -> Interest
"""

COUNTRIES = ("United States", "Canada", "United Kingdom")
INTERESTS = 41
CITIES, STATES = 7_000, 273
FIRST = ("Ada", "Ben", "Chloe", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "Jun", "Kai", "Lea", "Max", "Nia", "Ola")
LAST = ("Adams", "Brown", "Clark", "Diaz", "Evans", "Fox", "Green", "Hall", "Ito", "Jones", "Klein", "Lopez", "Moore")


@dataclass(frozen=True)
class Ends:
    """The edges of one type, as the row numbers of their nodes."""

    source: Numbers
    target: Numbers


@dataclass(frozen=True)
class Social:
    """The whole graph: a table per node type, and the row numbers of the ends per edge type."""

    nodes: dict[str, pa.Table]
    edges: dict[str, Ends]
    ends: dict[str, tuple[str, str]]

    def build_keyed_edges(self, edge: str) -> pa.Table:
        """Return the edges of a type with keys as `from` and `to`."""
        source, target = self.ends[edge]
        ends = self.edges[edge]
        return pa.table(
            {
                "from": self.nodes[source].column("key").take(pa.array(ends.source)),
                "to": self.nodes[target].column("key").take(pa.array(ends.target)),
            }
        )

    def write(self, root: Path) -> None:
        """Write each type to a Parquet file with integers as keys, for the peers."""
        for name, table in self.nodes.items():
            numbered = table.add_column(0, "id", pa.array(np.arange(table.num_rows)))
            pq.write_table(numbered, root / f"{name}.parquet")
        for name, ends in self.edges.items():
            pq.write_table(pa.table({"from": ends.source, "to": ends.target}), root / f"{name}.parquet")


def build_social(people: int = 100_000, follows: int = 2_400_000, seed: int = 7) -> Social:
    """Generate the graph; the number of follows is approximate, because duplicates are removed."""
    random = np.random.default_rng(seed)
    names = [f"{FIRST[a]} {LAST[b]}" for a, b in zip(*_draw_picks(random, people, len(FIRST), len(LAST)), strict=True)]
    nodes = {
        "Person": _build_nodes(
            "p",
            people,
            name=names,
            gender=np.where(random.random(people) < 0.5, "male", "female"),
            age=pa.array(random.integers(18, 91, people), pa.int32()),
        ),
        "City": _build_nodes(
            "c",
            CITIES,
            city=[f"City {number:04}" for number in range(CITIES)],
            population=random.integers(1_000, 9_000_000, CITIES),
        ),
        "State": _build_nodes("s", STATES, state=[f"State {number:03}" for number in range(STATES)]),
        "Country": _build_nodes("o", len(COUNTRIES), country=list(COUNTRIES)),
        "Interest": _build_nodes("i", INTERESTS, interest=[f"interest {number:02}" for number in range(INTERESTS)]),
    }
    edges = {
        "Follows": _draw_follows(random, people, follows),
        "LivesIn": Ends(np.arange(people), _draw_skewed(random, people, CITIES)),
        "CityIn": Ends(np.arange(CITIES), random.integers(0, STATES, CITIES)),
        "StateIn": Ends(np.arange(STATES), random.integers(0, len(COUNTRIES), STATES)),
        "HasInterest": _draw_interests(random, people),
    }
    ends = {
        "Follows": ("Person", "Person"),
        "LivesIn": ("Person", "City"),
        "CityIn": ("City", "State"),
        "StateIn": ("State", "Country"),
        "HasInterest": ("Person", "Interest"),
    }
    return Social(nodes, edges, ends)


def _draw_picks(random: np.random.Generator, count: int, *sizes: int) -> list[list[int]]:
    return [random.integers(0, size, count).tolist() for size in sizes]


def _build_nodes(prefix: str, count: int, **columns: Any) -> pa.Table:  # noqa: ANN401 - anything that Arrow accepts as a column
    return pa.table({"key": [f"{prefix}{number}" for number in range(count)], **columns})


def _draw_skewed(random: np.random.Generator, count: int, below: int) -> Numbers:
    """Draw numbers below a bound, small ones much more often."""
    return (below * random.random(count) ** 2.5).astype(np.int64)


def _draw_follows(random: np.random.Generator, people: int, follows: int) -> Ends:
    popular = random.permutation(people)
    source = random.integers(0, people, follows)
    target = popular[_draw_skewed(random, follows, people)]
    pairs = np.unique(source[source != target] * people + target[source != target])
    return Ends(pairs // people, pairs % people)


def _draw_interests(random: np.random.Generator, people: int) -> Ends:
    source = np.repeat(np.arange(people), random.integers(1, 5, people))
    pairs = np.unique(source * INTERESTS + _draw_skewed(random, len(source), INTERESTS))
    return Ends(pairs // INTERESTS, pairs % INTERESTS)
