"""Who follows a change feed in tests: a replica that knows nothing but the feed, and what a graph really holds."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og

Rows = dict[str, dict[str, Any]]
"""By id, the properties."""


@dataclass
class Replica:
    """The tables of a branch, made of nothing but a feed. A table keeps its number when its type is renamed."""

    tables: dict[int, tuple[str, Rows]] = field(default_factory=dict)
    cursor: str | None = None
    made: int = 0

    def contents(self) -> dict[str, Rows]:
        return dict(self.tables.values())

    def copy(self) -> "Replica":
        tables = {
            number: (name, {key: dict(row) for key, row in rows.items()})
            for number, (name, rows) in self.tables.items()
        }
        return Replica(tables, self.cursor, self.made)

    def apply(self, lines: Iterable[dict[str, Any]]) -> None:
        """One commit, from its beginning to its end, every change against what is there."""
        first, *changes, last = lines
        commit = first["commit"]
        assert {line["commit"] for line in (first, *changes, last)} == {commit}
        assert first["begin"]["parent"] == self.cursor
        self._reshape(first["begin"]["schema"])
        counts: dict[str, dict[str, int]] = {}
        for line in changes:
            self._change(line)
            name = line.get("type") or line["edge"]
            kinds = counts.setdefault(name, dict.fromkeys(("inserted", "updated", "deleted"), 0))
            kinds[line["change"]] += 1
        told = {name: {kind: one[kind] for kind in counts[name]} for name, one in last["end"]["types"].items()}
        assert told == counts
        self.cursor = commit

    def _change(self, line: dict[str, Any]) -> None:
        rows = self._rows(line.get("type") or line["edge"])
        before, after, key = line["before"], line["after"], line["id"]
        match line["change"]:
            case "inserted":
                assert key not in rows
                assert before is None
                rows[key] = after
            case "deleted":
                assert after is None
                rows.pop(key)
            case "updated":
                known = rows[key]
                assert {name for name in after if after[name] != known[name]} == set(line["changed"])
                rows[key] = after
            case other:
                raise AssertionError(other)

    def _reshape(self, schema: dict[str, Any] | None) -> None:
        if schema is None:
            return
        numbers = {name: number for number, (name, _) in self.tables.items()}
        for one in schema["types"]:
            name = one.get("type") or one["edge"]
            match one["change"]:
                case "dropped":
                    del self.tables[numbers[name]]
                case "added":
                    self.made += 1
                    self.tables[self.made] = (name, {})
                case "reshaped":
                    number = numbers[one["previous"]]
                    rows = {key: _reshaped(row, one) for key, row in self.tables[number][1].items()}
                    self.tables[number] = (name, rows)

    def _rows(self, name: str) -> Rows:
        (rows,) = (rows for known, rows in self.tables.values() if known == name)
        return rows


def _reshaped(row: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    kept = {one["renamed"].get(name, name): value for name, value in row.items() if name not in one["dropped"]}
    return {**kept, **one["added"]}


def commits_of(lines: Iterable[bytes]) -> Iterator[list[dict[str, Any]]]:
    """The lines of a feed, commit by commit."""
    open_: list[dict[str, Any]] = []
    for block in lines:
        for line in block.splitlines():
            open_.append(json.loads(line))
            if "end" in open_[-1]:
                yield open_
                open_ = []
    assert not open_


def replayed(graph: og.Graph, branch: str = "main") -> Replica:
    """What somebody has who followed a branch from the beginning."""
    replica = Replica()
    for lines in commits_of(graph.changes(branch=branch).blocks()):
        replica.apply(lines)
    return replica


def held(graph: og.Graph, branch: str = "main", commit_id: str | None = None) -> dict[str, Rows]:
    """What a state of a branch holds, read from its tables; for properties whose JSON is Python's own value."""
    found: dict[str, Rows] = {}
    snapshot = graph.snapshot(branch=branch, snapshot=commit_id)
    for key, pin in snapshot.pins.items():
        name = key.partition(":")[2]
        rows = graph._session.open_tables(snapshot).open_table(key).scan().to_pylist()
        found[name] = {row.pop("id"): _named(row) for row in rows}
        assert len(found[name]) == pin.rows
    return found


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {{"src": "from", "dst": "to"}.get(name, name): value for name, value in row.items()}


def run(graph: og.Graph, statements: str, branch: str = "main", **params: Any) -> str:
    """Run statements on a branch; parameters are blobs. The commit's id."""
    declared = ", ".join(f"${name}: Blob" for name in params)
    done = graph.mutate(f"query q({declared}) {{ {statements} }}", branch=branch, params=params)
    assert done.commit_id is not None
    return done.commit_id


def head(graph: og.Graph, branch: str = "main") -> str:
    """The newest commit's id."""
    return graph.snapshot(branch=branch).commit.id
