"""Random stories of branches, edits, upkeep, merges and crossings, each step compared with a model of dictionaries."""

import copy
import random
from pathlib import Path

import pytest

import omnigraph as og
from merge_model import COLUMNS, ENDS, Model, State, ends_of
from merging import SCHEMA, change, run, try_merge
from worlds import runtime

STEPS = 30


def held(graph: og.Graph, branch: str) -> State:
    """What a branch says, as the model does."""
    found: State = {}
    for kind, names in COLUMNS.items():
        columns = [*(["name"] if kind in "PC" else ["src", "dst"]), *names]
        rows = graph.table(kind, branch=branch).to_table(columns=columns).to_pylist()
        found[kind] = {_key(row): {name: row[name] for name in names} for row in rows}
        assert len(found[kind]) == len(rows)
    return found


def _key(row: dict[str, str]) -> str:
    return row["name"] if "name" in row else f"{row['src']}>{row['dst']}"


class Story:
    """A graph and its model, which are changed together."""

    def __init__(self, root: Path, seed: int) -> None:
        self.graph = og.create_graph(str(root / "g"), SCHEMA, runtime=runtime())
        self.random, self.model, self.seed = random.Random(seed), Model(), seed
        self.heads: dict[str, str] = {}
        self.parents: dict[str, str] = {}
        self.log: list[object] = []
        self._moved("main", {kind: {} for kind in COLUMNS})
        for name in "abc":
            self._edit("main", "P", name, {"n": 1, "m": 1})
        for name in "xy":
            self._edit("main", "C", name, {"v": 1})

    def step(self) -> None:
        """Something happens."""
        chance, branch = self.random.random(), self.random.choice(sorted(self.heads))
        other = self.random.choice(sorted(self.heads))
        if chance < 0.14 and len(self.heads) < 5:
            self._branch(f"b{len(self.log)}", branch)
        elif chance < 0.18 and branch != "main" and branch not in self.parents.values():
            self.graph.branches.delete(branch)
            del self.heads[branch], self.parents[branch]
        elif chance < 0.22:
            self.graph.optimize(branch=branch)
            self._moved(branch, self.model.states[self.heads[branch]], self.heads[branch])
        elif chance < 0.55 or branch == other:
            self._random_edit(branch)
        elif chance < 0.65:
            self._cross(branch, other)
        else:
            self._merge(branch, self.heads[branch], other, self.random.choice([None, None, "ours", "theirs"]))
        self.check()

    def check(self) -> None:
        """Every branch says what the model says."""
        for branch, head in self.heads.items():
            assert held(self.graph, branch) == self.model.states[head], (self.seed, branch, self.log)

    def _moved(self, branch: str, state: State, *parents: str) -> None:
        head = self.graph.snapshot(branch=branch).commit.id
        if head not in self.model.states:
            self.model.add(head, state, *parents)
        self.heads[branch] = head

    def _branch(self, name: str, source: str) -> None:
        self.log.append(("branch", name, source))
        self.graph.branches.create(name, from_=source)
        self.heads[name], self.parents[name] = self.heads[source], source

    def _edit(self, branch: str, kind: str, key: str, values: dict[str, object]) -> None:
        """Insert or update one row."""
        state = copy.deepcopy(self.model.states[self.heads[branch]])
        is_known = key in state[kind]
        state[kind][key] = {**state[kind].get(key, dict.fromkeys(COLUMNS[kind])), **values}
        ends = key.split(">")
        where = {"name": key} if kind in "PC" else {"from_": ends[0], "to": ends[1]}
        told = {name: f'"{value}"' if isinstance(value, str) else str(value) for name, value in values.items()}
        if is_known:
            text = " ".join(change(kind, name, value, **where) for name, value in told.items())
        else:
            given = {name.rstrip("_"): f'"{value}"' for name, value in where.items()} | told
            text = f"insert {kind} {{ {', '.join(f'{name}: {value}' for name, value in given.items())} }}"
        self.log.append((branch, text))
        run(self.graph, text, branch)
        self._moved(branch, state, self.heads[branch])

    def _delete(self, branch: str, kind: str, key: str) -> None:
        """Delete a person or a city, with the edges."""
        state = copy.deepcopy(self.model.states[self.heads[branch]])
        state[kind].pop(key, None)
        for edge in ENDS:
            state[edge] = {one: row for one, row in state[edge].items() if (kind, key) not in ends_of(edge, one)}
        self.log.append((branch, "delete", kind, key))
        run(self.graph, f'delete {kind} where name = "{key}"', branch)
        self._moved(branch, state, self.heads[branch])

    def _random_edit(self, branch: str) -> None:
        state, value = self.model.states[self.heads[branch]], self.random.randint(1, 3)
        name, other, city = (self.random.choice(names) for names in ("abcde", "abcde", "xy"))
        match self.random.choice(["n", "m", "v", "email", "delete", "raze", "heir", "knows", "owns"]):
            case "email":
                text = f"e{value}"
                if text not in {row["email"] for key, row in state["P"].items() if key != name}:
                    self._edit(branch, "P", name, {"email": text})
            case "delete":
                self._delete(branch, "P", name)
            case "heir" if state["P"].get(name, {}).get("email") and other not in state["P"]:
                email = state["P"][name]["email"]
                self._delete(branch, "P", name)
                self._edit(branch, "P", other, {"email": email})
            case "raze":
                self._delete(branch, "C", city)
            case "v":
                self._edit(branch, "C", city, {"v": value})
            case "knows" if {name, other} <= state["P"].keys():
                self._edit(branch, "Knows", f"{name}>{other}", {self.random.choice("wz"): value})
            case "owns" if name in state["P"] and city in state["C"]:
                if not any(key.startswith(f"{name}>") and key != f"{name}>{city}" for key in state["Owns"]):
                    self._edit(branch, "Owns", f"{name}>{city}", {"w": value})
            case ("n" | "m") as column:
                self._edit(branch, "P", name, {column: value})
            case _:
                pass

    def _merge(self, source: str, commit: str, into: str, strategy: str | None) -> None:
        ours = self.heads[into]
        outcomes, state, restored = self.model.merge(ours, commit, strategy)
        self.log.append(("merge", source, into, strategy, outcomes))
        done = try_merge(self.graph, source, into=into, strategy=strategy)
        assert done.outcome.value in outcomes, (self.seed, done, self.log)
        assert done.restored_edges == restored, (self.seed, done, self.log)
        if state is not None and done.commit_id is not None:
            self._moved(into, state, ours, commit)

    def _cross(self, one: str, other: str) -> None:
        """Each is merged into the other as it was before."""
        first, second = self.heads[one], self.heads[other]
        for name in (one, other):
            self.graph.branches.create(f"{name}-then", from_=name)
        self._merge(f"{other}-then", second, one, None)
        self._merge(f"{one}-then", first, other, None)
        for name in (one, other):
            self.graph.branches.delete(f"{name}-then")


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(100, 300))])
def test_a_story_goes_as_its_model(seed: int, tmp_path: Path) -> None:
    story = Story(tmp_path, seed)

    for _ in range(STEPS):
        story.step()

    story.check()
