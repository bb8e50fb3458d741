"""Random changes of a schema on stored rows, against plain dictionaries: what is filled, checked and dropped."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from load_calls import edge, node
from mutating import new_graph
from omnigraph.ops.schema_apply import SchemaDropsDataError, SchemaUnfitError

VALUES: dict[str, dict[str, Any]] = {
    "I32": {"0": 0, "1": 1, "-1": -1},
    "F64": {"0.0": 0.0, "-0.0": -0.0, "1.5": 1.5},
    "Bool": {"false": False, "true": True},
    "String": {'""': "", '"x"': "x", '"y"': "y"},
}
"""Values of each type by how the language writes them: those that are false in Python, and others."""
STEPS = 8


class World:
    """A graph of nodes and edges, and what it should hold. A rule is tried alone, and goes with the next change."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.types: dict[str, str] = {}
        self.rows: dict[str, dict[str, Any]] = {f"n{number}": {} for number in range(self.random.randint(0, 4))}
        self.graph = new_graph(root, self.schema())
        names = list(self.rows)
        self.sources = [self.random.choice(names) for _ in range(self.random.randint(0, 4))] if names else []
        records = [node("N", k=name) for name in names] + [edge("E", name, names[0]) for name in self.sources]
        self.graph.load(records, mode="append")
        self.count = 0

    def schema(self, *, rule: str = "", card: str = "", renamed: str = "", was: str = "", default: str = "") -> str:
        lines = [
            f"  {name}: {type_}{default if name == renamed and not was else ''}"
            + (f' @rename_from("{was}")' if name == renamed and was else "")
            for name, type_ in self.types.items()
        ]
        body = "\n".join(lines)
        return f"node N {{\n  k: String @key\n{body}\n  {rule}\n}}\nedge E: N -> N {card}\n"

    def add(self) -> None:
        """A property with a default, or a nullable one without."""
        base = self.random.choice(sorted(VALUES))
        text = self.random.choice([None, *VALUES[base]])
        name, self.count = f"p{self.count}", self.count + 1
        self.types[name] = base if text is not None and self.random.random() < 0.5 else f"{base}?"
        default = "" if text is None else f" @default({text})"

        self.graph.apply_schema(self.schema(renamed=name, default=default))

        for row in self.rows.values():
            row[name] = None if text is None else VALUES[base][text]

    def rename(self) -> None:
        if not self.types:
            return
        old = self.random.choice(list(self.types))
        name, self.count = f"p{self.count}", self.count + 1
        self.types = {name if one == old else one: type_ for one, type_ in self.types.items()}

        self.graph.apply_schema(self.schema(renamed=name, was=old))

        for row in self.rows.values():
            row[name] = row.pop(old)

    def drop(self) -> None:
        if not self.types:
            return
        name = self.random.choice(list(self.types))
        del self.types[name]
        values = sum(row[name] is not None for row in self.rows.values())

        if values:
            with pytest.raises(SchemaDropsDataError) as caught:
                self.graph.apply_schema(self.schema())
            assert [step.lost for step in caught.value.steps] == [values]
        self.graph.apply_schema(self.schema(), allow_drops=values > 0)

        for row in self.rows.values():
            del row[name]

    def write(self) -> None:
        """Other values of some property in some rows."""
        for row_id, row in self.rows.items():
            for name, type_ in self.types.items():
                if self.random.random() < 0.4:
                    text, value = self.random.choice(list(VALUES[type_.rstrip("?")].items()))
                    change = f'update N set {{ {name}: {text} }} where k = "{row_id}"'  # noqa: S608 - no SQL
                    self.graph.mutate(f"query q() {{ {change} }}")
                    row[name] = value

    def try_unique(self) -> None:
        if not self.types:
            return
        name = self.random.choice(list(self.types))
        held = Counter(row[name] for row in self.rows.values() if row[name] is not None)
        self.check(self.schema(rule=f"@unique({name})"), sum(count - 1 for count in held.values()))

    def try_range(self) -> None:
        numbers = [name for name, type_ in self.types.items() if type_.rstrip("?") in ("I32", "F64")]
        if not numbers:
            return
        name, low, high = self.random.choice(numbers), self.random.choice([-1, 0, 1]), self.random.choice([0, 1])
        if low > high:
            return
        values = [row[name] for row in self.rows.values() if row[name] is not None]
        broken = sum(not low <= value <= high for value in values)
        self.check(self.schema(rule=f"@range({name}, {low}..{high})"), broken)

    def try_card(self) -> None:
        low, high = self.random.choice([(0, 0), (0, 1), (0, 2), (1, 3), (1, None)])
        counts = Counter(self.sources)
        broken = sum(counts[name] < low or (high is not None and counts[name] > high) for name in self.rows)
        self.check(self.schema(card=f"@card({low}..{'*' if high is None else high})"), broken)

    def check(self, schema: str, broken: int) -> None:
        """Apply a rule, which so many rows break; then take it back."""
        if broken:
            with pytest.raises(SchemaUnfitError) as caught:
                self.graph.apply_schema(schema)
            assert caught.value.total == broken
        else:
            self.graph.apply_schema(schema)
            self.graph.apply_schema(self.schema())

    def found(self) -> dict[str, dict[str, Any]]:
        table = self.graph.table("N").to_table().to_pylist()
        return {row["id"]: {name: row[name] for name in row if name not in ("id", "k")} for row in table}


@pytest.mark.parametrize("seed", range(8))
def test_random_changes_do_to_rows_what_a_model_does(seed: int, tmp_path: Path) -> None:
    world = World(tmp_path, seed)
    steps = [world.add, world.add, world.rename, world.drop, world.write]
    steps += [world.try_unique, world.try_range, world.try_card]

    for _ in range(STEPS):
        world.random.choice(steps)()
        assert written(world.found()) == written(world.rows)


def written(rows: dict[str, dict[str, Any]]) -> str:
    """All values as text, where 0, 0.0, -0.0 and False differ."""
    return repr(sorted((name, sorted(row.items())) for name, row in rows.items()))
