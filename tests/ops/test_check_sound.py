"""Whatever a graph went through, a check finds nothing: loads, merges, schema changes, maintenance, at random."""

from contextlib import suppress
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

import omnigraph as og
from merging import change, new_graph, run, try_merge
from omnigraph.ops.check_findings import FindingSeverity
from upkeep_calls import optimized
from worlds import runtime

UNUSED = {"unused_files"}
"""What is left of branches that were deleted, and of writes that gave up, until a cleanup comes by."""


class Life:
    """A graph and somebody who does things to it, all of them allowed."""

    def __init__(self, root: Path, seed: int) -> None:
        self.graph = new_graph(root)
        self.random = Random(seed)
        self.number = 0

    @property
    def branch(self) -> str:
        """One of them."""
        return self.random.choice(["main", *(one.name for one in self.graph.branches.list() if one.name != "main")])

    def name(self) -> str:
        """Of a person who may be there."""
        return f"r{self.random.randrange(12)}"

    def load(self) -> None:
        """Merge persons and edges between them."""
        names = [self.name() for _ in range(4)]
        records = [
            {"type": "P", "data": {"name": one, "n": self.random.randrange(100)}} for one in dict.fromkeys(names)
        ]
        pairs = dict.fromkeys(pairwise(names))
        records += [{"edge": "Knows", "from": one, "to": other} for one, other in pairs]
        self.graph.load(records, mode="merge", branch=self.branch)

    def overwrite(self) -> None:
        """Replace all edges of a type."""
        self.graph.load([{"edge": "Owns", "from": "a", "to": "x"}], mode="overwrite", branch=self.branch)

    def mutate(self) -> None:
        """Change or delete somebody."""
        statement = self.random.choice(
            [change("P", "m", 7, name=self.name()), f'delete P where name = "{self.name()}"']
        )
        run(self.graph, statement, self.branch)

    def blob(self) -> None:
        """Store bytes, some of them in a file of their own."""
        self.number += 1
        photo = "base64:" + "QUJD" * self.random.choice([1, 30_000])
        run(self.graph, f'insert P {{ name: "photo{self.number}", photo: $p }}', self.branch, p=photo)

    def fork(self) -> None:
        """Take a branch."""
        self.number += 1
        self.graph.branches.create(f"b{self.number}", from_=self.branch)

    def merge(self) -> None:
        """Bring two branches together, if they agree."""
        source, into = self.branch, self.branch
        if source != into:
            try_merge(self.graph, source, into=into, strategy="ours")

    def delete_branch(self) -> None:
        """One that nobody was taken from."""
        with suppress(og.BranchHasChildrenError, og.BadArgumentError):
            self.graph.branches.delete(self.branch)

    def schema(self) -> None:
        """Add a property."""
        self.number += 1
        old = self.graph.snapshot().manifest.schema.source
        self.graph.apply_schema(old.replace("node C { ", f"node C {{ nick{self.number}: String?  ", 1))

    def optimize(self) -> None:
        """Compact and index, however little there is."""
        optimized(self.graph, branch=self.branch)

    def clean(self) -> None:
        """Collect all but the newest states."""
        self.graph.cleanup(keep=3, grace=timedelta(0), confirm=True)

    def step(self) -> None:
        """Do something."""
        deeds = [
            *[self.load] * 3,
            *[self.mutate] * 3,
            *[self.optimize] * 2,
            *[self.fork, self.merge] * 2,
            *[self.overwrite, self.blob, self.delete_branch, self.schema, self.clean],
        ]
        self.random.choice(deeds)()


def found(graph: og.Graph) -> dict[str, str]:
    """What is wrong, or not as it should be; what waits for a cleanup is neither."""
    findings = og.check_graph(graph.uri, deep=True, runtime=runtime()).findings
    return {
        one.code: one.message for one in findings if one.code not in UNUSED or one.severity is not FindingSeverity.NOTE
    }


@pytest.mark.parametrize("seed", range(2))
def test_a_graph_that_was_lived_in_is_sound(seed: int, tmp_path: Path) -> None:
    life = Life(tmp_path, seed)

    for number in range(16):
        life.step()
        if number % 8 == 7:
            assert found(life.graph) == {}

    assert og.repair_graph(life.graph.uri, runtime=runtime()).tables == ()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 40))
def test_a_graph_that_was_lived_in_for_long_is_sound(seed: int, tmp_path: Path) -> None:
    life = Life(tmp_path, seed)

    for number in range(150):
        life.step()
        if number % 10 == 9:
            assert found(life.graph) == {}


def test_a_graph_of_every_kind_of_type_is_sound(tmp_path: Path) -> None:
    graph = og.create_graph(str(tmp_path / "g"), EVERYTHING, runtime=runtime())
    graph.load(
        [{"type": "T", "data": {**VALUES, "s": f"s{n}", "when": "2026-01-02T03:04:05Z"}} for n in range(3)],
        mode="append",
    )
    optimized(graph)
    graph.mutate('query q() { update T set { i: 8 } where s = "s1" }')

    assert found(graph) == {}


EVERYTHING = """
node T {
  s: String @index  when: DateTime @index  day: Date? @index  i: I32 @index  j: I64? @index  u: U32? @index
  v: U64? @index  f: F32? @index  g: F64? @index  ok: Bool? @index  e: enum(x, y)? @index  l: [String]? @index
  m: [U32]?  vec: Vector(3)? @index  b: Blob?
  @key(s, when)
  @unique(i, s)  @unique(ok, day, s)  @unique(f, g, s)
  @range(day, date("2000-01-01")..)
}
edge E: T -> T { w: F64?  @key(src, dst) }
"""
VALUES = {
    "day": "2026-01-02",
    "i": 7,
    "j": -5,
    "u": 3,
    "v": "18446744073709551615",
    "f": -0.0,
    "g": 2.5,
    "ok": True,
    "e": "x",
    "l": ["a", "b"],
    "m": [1, 2],
    "vec": [0.0, 1.0, 2.0],
    "b": "base64:QUJD",
}
