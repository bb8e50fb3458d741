"""Random graphs, cloned while random things go on: every state in the clone says what it said when it was made."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import omnigraph as og
from cloning import Every, cloned, on, opened, readable
from merging import try_merge
from upkeep_calls import eager, exported
from worlds import FAST, runtime

SCHEMA = "node P { k: String @key  v: I64? }\nedge E: P -> P { w: I64?  @key(src, dst) }\n"
ONE_BY_ONE = replace(FAST, upkeep=replace(FAST.upkeep, concurrency=1))
"""One file is copied after the other, so that what goes on beside them is the same in every run."""
Step = tuple[str, int, int, int]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "delete", "link", "branch", "merge", "drop", "optimize"]),
        st.integers(0, 5),
        st.integers(0, 5),
        st.integers(0, 9),
    ),
    min_size=3,
    max_size=14,
)


@dataclass
class World:
    """A graph, and what each commit of it said when it was the newest of its branch."""

    graph: og.Graph
    said: dict[str, bytes] = field(default_factory=dict)
    made: int = 0

    def do(self, step: Step) -> None:
        """One step; one that can't be done is left out."""
        verb, one, other, value = step
        names = [branch.name for branch in self.graph.branches.list()]
        branch, source = names[one % len(names)], names[other % len(names)]
        try:
            self._act(verb, branch, source, other, value)
        except (og.ConstraintError, og.BranchHasChildrenError, og.BadArgumentError):
            return
        for name in {branch, "main"} & {one.name for one in self.graph.branches.list()}:
            head = self.graph.snapshot(branch=name).commit.id
            self.said.setdefault(head, exported(self.graph, branch=name))

    def _act(self, verb: str, branch: str, source: str, row: int, value: int) -> None:
        match verb:
            case "put":
                self.graph.load([{"type": "P", "data": {"k": f"p{row}", "v": value}}], mode="merge", branch=branch)
            case "delete":
                on(self.graph, branch, f'delete P where k = "p{row}"')
            case "link":
                on(self.graph, branch, f'insert E {{ from: "p{row}", to: "p{value % 6}", w: {value} }}')
            case "branch":
                self.made += 1
                self.graph.branches.create(f"b{self.made}", from_=branch)
            case "merge" if branch != source:
                try_merge(self.graph, source, into=branch, strategy="theirs")
            case "drop":
                self.graph.branches.delete(branch)
            case "optimize":
                self.graph.optimize(branch=branch)


def check(before: list[Step], during: list[Step]) -> None:
    with TemporaryDirectory() as directory:
        world = World(og.create_graph(f"{directory}/g", SCHEMA, runtime=runtime(eager())))
        world.said[world.graph.snapshot().commit.id] = exported(world.graph)
        for step in before:
            world.do(step)
        heads = {one.name: world.graph.snapshot(branch=one.name).commit.id for one in world.graph.branches.list()}
        waiting = iter(during)

        def next_step() -> None:
            step = next(waiting, None)
            if step is not None:
                world.do(step)

        done = cloned(world.graph, Path(directory) / "c", faults=Every("clone.copied", next_step), options=ONE_BY_ONE)

        made = readable(opened(Path(directory) / "c"))
        assert dict(done.branches) == heads
        for states in made.values():
            for commit, said in states.items():
                assert world.said.get(commit, said) == said
        assert set(heads.values()) <= world.said.keys()


@pytest.mark.parametrize("examples", [pytest.param(4, id="some"), pytest.param(300, id="many", marks=pytest.mark.soak)])
def test_random_graphs_are_cloned_as_they_were(examples: int) -> None:
    # What fails is seldom made clearer by fewer steps, and each try takes a while.
    tries = settings(max_examples=examples, phases=(Phase.explicit, Phase.generate), deadline=None)

    tries(given(STEPS, STEPS)(check))()
