"""THE property of a feed: whoever applies it in order always has what the branch has, whatever happened to it.

Random mutations, loads, merges, schema changes and maintenance on three branches; a replica that knows nothing but the
feed is compared with the tables at every commit, and the history of every row with what the replica has seen of it.
"""

import io
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

import omnigraph as og
from feeding import Replica, commits_of, held
from merging import try_merge
from omnigraph.options import Options
from omnigraph.schema.catalog import AnyType, Catalog, EdgeType
from upkeep_calls import MAINTAINED, settled
from worlds import FAST, runtime

SCHEMA = """
node P { name: String @key  n: I32?  m: I32? }
node C { name: String @key  v: I32? }
edge Knows: P -> P { w: I32?  @key(src, dst) }
"""
BRANCHES = ("main", "dev", "other")
NAMES = "abcdef"


@dataclass
class Drawn:
    """A type to declare, with properties that are numbers, beside its key."""

    name: str
    ends: tuple[str, str] | None
    values: dict[str, int | None]
    """By name, the default."""
    renamed: dict[str, str] = field(default_factory=dict)
    """By the new name, the old one, of a property or of the type itself."""

    def __str__(self) -> str:
        parts = [] if self.ends else ["name: String @key"]
        for name, default in self.values.items():
            given = "" if default is None else f" @default({default})"
            parts.append(f"{name}: I32?{given}{self._from(name)}")
        if self.ends:
            return f"edge {self.name}: {self.ends[0]} -> {self.ends[1]} {{ {'  '.join(parts)}  @key(src, dst) }}"
        return f"node {self.name}{self._from(self.name)} {{ {'  '.join(parts)} }}"

    def renamed_end(self, end: str) -> str:
        """What an end of an edge is called, now that this type may have got another name."""
        return next((new for new, old in self.renamed.items() if old == end), end)

    def _from(self, name: str) -> str:
        return f' @rename_from("{self.renamed[name]}")' if name in self.renamed else ""


def drawn(catalog: Catalog) -> dict[str, Drawn]:
    found = {}
    for type_ in (*catalog.nodes.values(), *catalog.edges.values()):
        ends = (type_.source, type_.target) if isinstance(type_, EdgeType) else None
        values = {p.name: cast("int | None", p.default) for p in type_.properties if p.name != "name"}
        found[type_.name] = Drawn(type_.name, ends, values)
    return found


@dataclass
class Story:
    """A graph to which random things happen."""

    graph: og.Graph
    choice: random.Random
    made: int = 0
    live: list[str] = field(default_factory=lambda: ["main"])

    def step(self) -> None:
        branch = self.choice.choice(self.live)
        happening = self.choice.choices(
            (self.write, self.drop, self.load, self.merge, self.reshape, self.optimize, self.fork),
            weights=(8, 3, 2, 4, 3, 1, 2),
        )[0]
        happening(branch)

    def catalog(self, branch: str) -> Catalog:
        return self.graph._session.load_catalog(self.graph.snapshot(branch=branch))

    def write(self, branch: str) -> None:
        """Insert or update some nodes, or an edge."""
        catalog = self.catalog(branch)
        type_ = self.choice.choice([*catalog.nodes.values()])
        names = self.choice.sample(NAMES, self.choice.randint(1, 3))
        text = " ".join(self._insert(type_, name) for name in names)
        edge = self.choice.choice([*catalog.edges.values(), None])
        if edge is not None and edge.source == type_.name == edge.target:
            text += f' insert {edge.name} {{ from: "{names[0]}", to: "{names[-1]}" }}'
        self.run(text, branch)

    def _insert(self, type_: AnyType, name: str) -> str:
        given = [p.name for p in type_.properties if p.name != "name" and self.choice.random() < 0.6]
        return (
            f"insert {type_.name} {{ "
            + ", ".join([f'name: "{name}"', *(f"{one}: {self.number()}" for one in given)])
            + " }"
        )

    def number(self) -> int:
        return self.choice.randint(0, 3)

    def drop(self, branch: str) -> None:
        type_ = self.choice.choice([*self.catalog(branch).nodes.values()])
        self.run(f'delete {type_.name} where name = "{self.choice.choice(NAMES)}"', branch)

    def load(self, branch: str) -> None:
        """Update by a load, or put all rows of a type anew."""
        type_ = self.choice.choice([*self.catalog(branch).nodes.values()])
        values = [p.name for p in type_.properties if p.name != "name"]
        lines = [
            json.dumps({"type": type_.name, "data": {"name": name, **{one: self.number() for one in values}}})
            for name in self.choice.sample(NAMES, 3)
        ]
        data = io.BytesIO("\n".join(lines).encode())
        mode = self.choice.choice(("merge", "overwrite"))
        try:
            self.graph.load(data, mode=mode, branch=branch)
        except og.LoadError:
            assert mode == "overwrite"  # edges would dangle

    def merge(self, branch: str) -> None:
        others = [one for one in self.live if one != branch]
        if others:
            strategy = self.choice.choice((None, "ours", "theirs"))
            try_merge(self.graph, self.choice.choice(others), into=branch, strategy=strategy)

    def optimize(self, branch: str) -> None:
        self.graph.optimize(branch=branch)

    def fork(self, branch: str) -> None:
        free = [one for one in BRANCHES if one not in self.live]
        if free:
            self.graph.branches.create(free[0], from_=branch)
            self.live.append(free[0])

    def reshape(self, branch: str) -> None:
        """Add, rename or drop a property or a type."""
        types = drawn(self.catalog(branch))
        one = self.choice.choice(list(types.values()))
        self.made += 1
        fresh, value = f"x{self.made}", self.choice.choice([*one.values, None])
        kinds = (
            "add",
            "fill",
            "refill",
            "rename",
            "drop",
            "rename type",
            "add type",
            "drop type",
            "alike",
            "alike type",
        )
        match self.choice.choice(kinds):
            case "alike":  # as another branch may do, or have done
                one.values["alike"] = None
            case "alike type":
                types["Alike"] = Drawn("Alike", None, {"v": None})
            case "add":
                one.values[fresh] = None
            case "fill":
                one.values[fresh] = self.number()
            case "refill" if value:  # for rows that come; others keep what they were filled with
                one.values[value] = self.number()
            case "rename" if value:
                one.values[fresh] = one.values.pop(value)
                one.renamed[fresh] = value
            case "drop" if value and len(one.values) > 1:
                del one.values[value]
            case "rename type" if not one.ends:
                one.renamed[f"R{self.made}"] = one.name
                for edge in types.values():
                    edge.ends = edge.ends and (one.renamed_end(edge.ends[0]), one.renamed_end(edge.ends[1]))
                one.name = f"R{self.made}"
            case "add type":
                types[fresh] = Drawn(f"T{self.made}", None, {"v": None})
            case "drop type" if one.name.startswith("T"):
                del types[one.name]
            case _:
                return
        self.graph.apply_schema("\n".join(map(str, types.values())), branch=branch, allow_drops=True)

    def run(self, statements: str, branch: str) -> None:
        self.graph.mutate(f"query q() {{ {statements} }}", branch=branch)


def told(root: Path, seed: int, steps: int, options: Options = FAST) -> Story:
    graph = og.create_graph(str(root / "g"), SCHEMA, runtime=runtime(options))
    story = Story(graph, random.Random(seed))
    for number in range(steps):
        story.step()
        # Maintenance runs beside the next steps, or comes before them.
        if number % 2:
            settled(graph)
    settled(graph)
    return story


def followed(story: Story, branch: str) -> list[Replica]:
    """The replica behind each commit of a branch, which always has what the branch had; it pauses at times."""
    graph, seen, replica = story.graph, [], Replica()
    while True:
        limit = story.choice.randint(1, 9)
        feed = graph.changes(branch=branch, since=replica.cursor, limit=limit)
        found = list(commits_of(feed.blocks()))
        for lines in found:
            replica.apply(lines)
            assert replica.contents() == held(graph, branch, replica.cursor), lines
            seen.append(replica.copy())
        assert feed.cursor == replica.cursor
        if len(found) < limit:
            return seen


def versions_seen(seen: list[Replica], number: int, key: str) -> list[tuple[str, str | None, Any, Any]]:
    """What somebody has seen of one row: the commits behind which it said something else, newest first."""
    found = []
    name: str | None = None
    row: dict[str, Any] | None = None
    for replica in seen:
        now_name, rows = replica.tables.get(number, (None, {}))
        now = rows.get(key)
        if now != row or (now is not None and now_name != name):
            found.append((replica.cursor or "", now_name, row, now))
        name, row = now_name, now
    return found[::-1]


def check(story: Story) -> int:
    graph, checked = story.graph, 0
    for branch in story.live:
        seen = followed(story, branch)
        assert [one.cursor for one in seen] == [
            commit.id for commit in graph.commits(branch=branch, include_maintenance=True)
        ][::-1]
        for number, (name, _) in seen[-1].tables.items():
            for key in {key for one in seen for key in one.tables.get(number, ("", {}))[1]}:
                found = graph.history(name, key, branch=branch).versions
                expected = versions_seen(seen, number, key)
                assert [(one.commit.id, one.before, one.after) for one in found] == [
                    (commit, before, after) for commit, _, before, after in expected
                ]
                checked += 1
    return checked


@pytest.mark.parametrize("seed", range(3))
def test_a_replica_that_follows_the_feed_always_has_what_the_branch_has(seed: int, tmp_path: Path) -> None:
    assert check(told(tmp_path, seed, 30)) > 10


@pytest.mark.parametrize("seed", range(3))
def test_maintenance_changes_nothing_but_numbers(seed: int, tmp_path: Path) -> None:
    (tmp_path / "auto").mkdir()
    off = told(tmp_path, seed, 30)
    auto = told(tmp_path / "auto", seed, 30, MAINTAINED)

    assert check(auto) == check(off)
    assert auto.live == off.live
    assert sum(len(auto.graph.commits(branch=one, filters={"operation": "maintain"})) for one in auto.live) > 5
    for branch in off.live:
        assert contents_by_commit(auto, branch) == contents_by_commit(off, branch)


def contents_by_commit(story: Story, branch: str) -> list[tuple[str, object]]:
    """What each commit of a branch did, and what the branch said after it, but for commits of maintenance."""
    graph = story.graph
    # `optimize` finds less to do, and makes no commit then.
    commits = [commit for commit in graph.commits(branch=branch) if not commit.is_maintenance]
    return [(commit.operation, held(graph, branch, commit.id)) for commit in commits]


@pytest.mark.soak
@pytest.mark.parametrize("options", [FAST, MAINTAINED], ids=["off", "auto"])
@pytest.mark.parametrize("seed", range(100, 160))
def test_long_stories_are_told_truly(seed: int, options: Options, tmp_path: Path) -> None:
    check(told(tmp_path, seed, 90, options))
