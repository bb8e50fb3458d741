"""The rules between the rows of a load, over dictionaries: slow, plain, and nothing in common with the engine's."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A type: its unique groups, its required properties, and of an edge the ends and the bounds."""

    name: str
    unique: tuple[tuple[str, ...], ...] = ()
    required: tuple[str, ...] = ()
    source: str | None = None
    target: str | None = None
    low: int = 0
    high: int | None = None


@dataclass
class Given:
    """A record that the load has: its line, its id, and its values; what it leaves out is not among them."""

    line: int
    id: str
    values: Row


@dataclass
class Verdict:
    """The lines that are refused, each with its rule; and how much is wrong that is no line's fault."""

    refused: dict[int, str] = field(default_factory=dict)
    unplaced: int = 0


@dataclass
class Model:
    """One load over one committed state."""

    kinds: tuple[Kind, ...]
    mode: str
    committed: Mapping[str, Mapping[str, Row]]
    given: Mapping[str, list[Given]]
    verdict: Verdict = field(default_factory=Verdict)
    leaves_out: bool = False
    """Whether the load goes on without refused records: then a table keeps its rows if all records for it are bad."""

    def judge(self) -> Verdict:
        """Refuse what must be refused, again and again until nothing more is."""
        order = [kind for kind in self.kinds if not kind.source] + [kind for kind in self.kinds if kind.source]
        mine = [kind for kind in order if kind.name in self.given]
        for kind in mine:
            self._ids(kind)
        while True:
            before = len(self.verdict.refused)
            self.verdict.unplaced = 0
            for kind in mine:
                for group in kind.unique:
                    self._unique(kind, group)
            for kind in mine:
                if kind.source and kind.target:
                    self._ends(kind, "src", kind.source)
                    self._ends(kind, "dst", kind.target)
            for kind in order:
                if kind.source:
                    self._counts(kind)
            self._dangling()
            if len(self.verdict.refused) == before:
                return self.verdict

    def result(self) -> dict[str, dict[str, Row]]:
        """Return every row that is there after the load, by type and id; `judge` comes first."""
        verdict = self.verdict
        if verdict.unplaced or (verdict.refused and not self.leaves_out):
            return {name: dict(rows) for name, rows in self.committed.items()}
        found: dict[str, dict[str, Row]] = {}
        for name, committed in self.committed.items():
            found[name] = dict(self._stay(name))
            for one in self._alive(name):
                before = committed.get(one.id, {}) if self.mode == "merge" else {}
                found[name][one.id] = {**before, **one.values}
        return found

    # --- who is there ---------------------------------------------------------------------------------

    def _alive(self, name: str) -> list[Given]:
        return [one for one in self.given.get(name, []) if one.line not in self.verdict.refused]

    def _is_replaced(self, name: str) -> bool:
        is_all_bad = self.leaves_out and not self._alive(name)
        return self.mode == "overwrite" and name in self.given and not is_all_bad

    def _stay(self, name: str) -> dict[str, Row]:
        """The committed rows that no record takes the place of."""
        if self._is_replaced(name):
            return {}
        mine = {one.id for one in self._alive(name)}
        return {row_id: row for row_id, row in self.committed[name].items() if row_id not in mine}

    def _nodes(self, name: str) -> set[str]:
        return {*self._stay(name), *(one.id for one in self._alive(name))}

    def _value(self, name: str, one: Given, column: str) -> Any:
        if column in one.values:
            return one.values[column]
        return self.committed[name].get(one.id, {}).get(column) if self.mode == "merge" else None

    def _refuse(self, lines: Iterable[int], rule: str) -> None:
        for line in lines:
            self.verdict.refused.setdefault(line, rule)

    # --- rules ----------------------------------------------------------------------------------------

    def _ids(self, kind: Kind) -> None:
        seen: set[str] = set()
        for one in self.given[kind.name]:
            if one.id in seen:
                self._refuse([one.line], "duplicate")
            seen.add(one.id)
        for one in self._alive(kind.name):
            exists = one.id in self.committed[kind.name]
            if self.mode == "append" and exists:
                self._refuse([one.line], "exists")
            if self.mode == "merge" and not exists and any(name not in one.values for name in kind.required):
                self._refuse([one.line], "required")

    def _unique(self, kind: Kind, group: tuple[str, ...]) -> None:
        held = {tuple(row[name] for name in group) for row in self._stay(kind.name).values()}
        seen: set[tuple[Any, ...]] = set()
        taken, repeated = [], []
        for one in self._alive(kind.name):
            values = tuple(self._value(kind.name, one, name) for name in group)
            if None in values:
                continue
            if values in held:
                taken.append(one.line)
            elif values in seen:
                repeated.append(one.line)
            seen.add(values)
        self._refuse([*taken, *repeated], "unique")

    def _ends(self, kind: Kind, end: str, node: str) -> None:
        there = self._nodes(node)
        self._refuse([one.line for one in self._alive(kind.name) if one.values[end] not in there], "endpoint")

    def _counts(self, kind: Kind) -> None:
        assert kind.source is not None
        edges = self._alive(kind.name)
        if not (kind.low or kind.high is not None) or not (kind.name in self.given or kind.source in self.given):
            return
        total: Counter[str] = Counter(row["src"] for row in self._stay(kind.name).values())
        room = {source: (kind.high or 0) - count for source, count in total.items()}
        total.update(one.values["src"] for one in edges)
        old = {} if self.mode != "merge" else {row_id: row["src"] for row_id, row in self.committed[kind.name].items()}
        if kind.high is not None and kind.name in self.given:
            for one in sorted(edges, key=lambda one: (old.get(one.id) != one.values["src"], one.line)):
                source = one.values["src"]
                room[source] = room.get(source, kind.high) - 1
                if total[source] > kind.high and room[source] < 0:
                    self._refuse([one.line], "card")
        if kind.low:
            self._least(kind, edges, total, old)

    def _least(self, kind: Kind, edges: list[Given], total: Counter[str], old: dict[str, str]) -> None:
        assert kind.source is not None
        nodes = {one.id: one for one in self._alive(kind.source)}
        asked = {one.values["src"] for one in edges} | {row_id for row_id in nodes if self._is_new(kind.source, row_id)}
        asked |= {old[one.id] for one in edges if one.id in old}
        if self._is_replaced(kind.name):
            asked |= self._nodes(kind.source)
        for source in sorted(asked):
            if total[source] >= kind.low:
                continue
            moved = [one.line for one in edges if old.get(one.id) == source and one.values["src"] != source]
            if source in nodes and self._is_new(kind.source, source):
                self._refuse([nodes[source].line], "card")
            elif moved:
                self._refuse(moved, "card")
            else:
                self.verdict.unplaced += 1

    def _is_new(self, name: str, row_id: str) -> bool:
        return self._is_replaced(name) or row_id not in self.committed[name]

    def _dangling(self) -> None:
        for kind in self.kinds:
            if not kind.source or self._is_replaced(kind.name):
                continue
            for end, node in (("src", kind.source), ("dst", kind.target)):
                if node is not None and self._is_replaced(node):
                    there = self._nodes(node)
                    self.verdict.unplaced += sum(row[end] not in there for row in self.committed[kind.name].values())
