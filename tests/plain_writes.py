"""Mutations and loads over plain dictionaries, with checks that look at everything: the engine must agree with this."""

import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import omnigraph as og
from naive_load import Given, Kind, Row
from naive_load import Model as LoadModel

SCHEMA = """
node P {
  name: String @key  tag: String?  n: I32?  r: I64  m: I32 @default(1)  f: F64?
  @unique(tag) @unique(f) @range(n, 0..5)
}
node C { title: String  zip: I64?  @unique(title, zip) }
node T { k: String @key }
edge Knows: P -> P { w: I32?  @key(src, dst) }
edge Owns: P -> C @card(0..2) { slot: I32?  @unique(slot) }
edge Leads: T -> P @card(1..2)
"""
KINDS = (
    Kind("P", unique=(("tag",), ("f",)), required=("r",)),
    Kind("C", unique=(("title", "zip"),), required=("title",)),
    Kind("T"),
    Kind("Knows", source="P", target="P"),
    Kind("Owns", unique=(("slot",),), source="P", target="C", high=2),
    Kind("Leads", source="T", target="P", low=1, high=2),
)
BY_NAME = {kind.name: kind for kind in KINDS}
PROPERTIES = {"P": ("name", "tag", "n", "r", "m", "f"), "C": ("title", "zip"), "T": ("k",)}
PROPERTIES |= {"Knows": ("w",), "Owns": ("slot",), "Leads": ()}
KEYS = {"P": "name", "T": "k"}
DEFAULTS = {"m": 1}
FRESH = "?"
"""The ids of rows whose id the engine makes up start with this, until it is known."""

Tables = dict[str, dict[str, Row]]
Statement = tuple[Any, ...]


def nothing() -> Tables:
    """An empty graph."""
    return {kind.name: {} for kind in KINDS}


def edge_id(src: str, dst: str) -> str:
    """The id of an edge whose key is its ends."""
    return json.dumps([src, dst], separators=(",", ":"), ensure_ascii=False)


def broken_rules(tables: Tables) -> set[tuple[str, str]]:
    """Every rule that is broken, with the type that breaks it."""
    found: set[tuple[str, str]] = set()
    for kind in KINDS:
        rows = tables[kind.name].values()
        for group in kind.unique:
            held = [values for row in rows if None not in (values := tuple(row[name] for name in group))]
            if len(held) != len(set(held)):
                found.add(("unique", kind.name))
        if kind.source is None or kind.target is None:
            continue
        if any(row["src"] not in tables[kind.source] or row["dst"] not in tables[kind.target] for row in rows):
            found.add(("endpoint", kind.name))
        counts = Counter(row["src"] for row in rows)
        high = len(rows) if kind.high is None else kind.high
        if any(not kind.low <= counts[source] <= high for source in tables[kind.source]):
            found.add(("card", kind.name))
    if any(row["n"] is not None and not 0 <= row["n"] <= 5 for row in tables["P"].values()):
        found.add(("range", "P"))
    return found


# --- mutations -------------------------------------------------------------------------------------


@dataclass
class Mutation:
    """Statements, run one after the other over a copy of the tables."""

    tables: Tables
    put: set[tuple[str, str]] = field(default_factory=set)
    gone: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def of(cls, tables: Tables, statements: Iterable[Statement]) -> "Mutation":
        """All statements, done."""
        made = cls(deepcopy(tables))
        for statement in statements:
            made.run(statement)
        return made

    @property
    def affected(self) -> tuple[int, int]:
        """How many nodes and edges were put or deleted, each counted once."""
        names = [name for name, _ in self.put | self.gone]
        edges = sum(BY_NAME[name].source is not None for name in names)
        return len(names) - edges, edges

    def run(self, statement: Statement) -> None:
        """One statement; the words are those of `text_of`."""
        match statement:
            case ("insert", name, values):
                self._insert(name, dict(values))
            case ("update", name, values, column, wanted):
                for row_id, row in self.tables[name].items():
                    if row[column] == wanted and wanted is not None:
                        row.update(values)
                        self.put.add((name, row_id))
            case ("delete", name, column, wanted):
                chosen = [row_id for row_id, row in self.tables[name].items() if row[column] == wanted]
                for row_id in chosen:
                    self._delete(name, row_id)

    def _insert(self, name: str, values: Row) -> None:
        """A new row has defaults; one that exists keeps what is left out."""
        if name in KEYS:
            row_id: str = values[KEYS[name]]
        elif name == "Knows":
            row_id = edge_id(values["src"], values["dst"])
        else:
            row_id = f"{FRESH}{len(self.put)}"
        fresh: Row = {column: DEFAULTS.get(column) for column in PROPERTIES[name]}
        self.tables[name][row_id] = {**self.tables[name].get(row_id, fresh), **values}
        self.put.add((name, row_id))

    def _delete(self, name: str, row_id: str) -> None:
        del self.tables[name][row_id]
        self.gone.add((name, row_id))
        for kind in KINDS:
            for end, node in (("src", kind.source), ("dst", kind.target)):
                if node == name:
                    hanging = [other for other, row in self.tables[kind.name].items() if row[end] == row_id]
                    for other in hanging:
                        self._delete(kind.name, other)


def text_of(statement: Statement) -> str:
    """A statement in the language."""
    match statement:
        case ("insert", name, values):
            return f"insert {name} {{ {_assigned(dict(values))} }}"
        case ("update", name, values, column, wanted):
            return f"update {name} set {{ {_assigned(values)} }} where {_column(column)} = {_literal(wanted)}"  # noqa: S608 - no SQL
        case ("delete", name, column, wanted):
            return f"delete {name} where {_column(column)} = {_literal(wanted)}"
    raise AssertionError(statement)


def _assigned(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{_column(name)}: {_literal(value)}" for name, value in values.items())


def _column(name: str) -> str:
    return {"src": "from", "dst": "to"}.get(name, name)


def _literal(value: Any) -> str:
    return "null" if value is None else json.dumps(value)


# --- loads -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loaded:
    """What a load should do: which lines are refused by which rule, how much else is wrong, what is there then."""

    refused: dict[int, str]
    unplaced: int
    tables: Tables
    counts: dict[str, dict[str, int]]


def load(tables: Tables, mode: str, records: Iterable[Any], *, leaves_out: bool) -> Loaded:
    """The records, one a line; what is there then if bad ones may be left out, or if there are none."""
    refused: dict[int, str] = {}
    given: dict[str, list[Given]] = {}
    for line, record in enumerate(records, 1):
        rule = _own_mistake(mode, record)
        if rule is not None:
            refused[line] = rule
        else:
            name, one = _given(mode, line, record)
            given.setdefault(name, []).append(one)
    verdict = LoadModel(KINDS, mode, tables, given, leaves_out=leaves_out).judge()
    after, counts = deepcopy(tables), {}
    for name, rows in given.items():
        kept = [one for one in rows if one.line not in verdict.refused]
        is_all_bad = mode == "overwrite" and not kept
        after[name], counts[name] = _written("append" if is_all_bad else mode, name, tables[name], kept)
    return Loaded(refused | verdict.refused, verdict.unplaced, after, counts)


def _own_mistake(mode: str, record: Any) -> str | None:
    """The rule that a record breaks by itself."""
    if isinstance(record, str):
        return "record"
    name, data = record.get("type") or record["edge"], record["data"]
    required = BY_NAME[name].required
    if any(data.get(column, 0 if mode == "merge" else None) is None for column in required):
        return "record"
    n = data.get("n")
    if isinstance(n, str):
        return "record"
    return "range" if n is not None and not 0 <= n <= 5 else None


def _given(mode: str, line: int, record: Mapping[str, Any]) -> tuple[str, Given]:
    name, values = record.get("type") or record["edge"], dict(record["data"])
    if "edge" in record:
        values |= {"src": record["from"], "dst": record["to"]}
    if mode != "merge":
        values = {column: DEFAULTS.get(column) for column in PROPERTIES[name]} | values
    if name in KEYS:
        row_id = values[KEYS[name]]
    elif name == "Knows":
        row_id = edge_id(values["src"], values["dst"])
    else:
        row_id = record.get("id", f"{FRESH}{line}")
    return name, Given(line, row_id, values)


def _written(
    mode: str, name: str, before: Mapping[str, Row], kept: list[Given]
) -> tuple[dict[str, Row], dict[str, int]]:
    after = {} if mode == "overwrite" else dict(before)
    known = [one for one in kept if one.id in before]
    unchanged = 0
    for one in kept:
        base = before.get(one.id) if mode == "merge" else None
        if base is None:
            base = {column: DEFAULTS.get(column) for column in PROPERTIES[name]}
        after[one.id] = {**base, **one.values}
        unchanged += mode == "merge" and after[one.id] == before.get(one.id)
    counts = {
        "read": len(kept),
        "inserted": len(kept) - len(known),
        "updated": len(known) - unchanged,
        "unchanged": unchanged,
        "deleted": len(before) - len(known) if mode == "overwrite" else 0,
        "duplicates": 0,
    }
    return after, counts


# --- the engine's side -----------------------------------------------------------------------------


def contents(graph: og.Graph) -> Tables:
    """What the graph holds, by its export."""
    out = io.BytesIO()
    graph.export(out)
    tables = nothing()
    for line in out.getvalue().splitlines():
        record = json.loads(line)
        name, row = record.get("type") or record["edge"], dict(record["data"])
        if "edge" in record:
            row |= {"src": record["from"], "dst": record["to"]}
        if name == "P":
            row["r"] = int(row["r"])  # a text beyond 2^53
        row_id = record.get("id") or (row[KEYS[name]] if name in KEYS else edge_id(row["src"], row["dst"]))
        assert row_id not in tables[name], f"{name} {row_id} is there twice"
        tables[name][row_id] = row
    return tables


def with_ids(wanted: Tables, found: Tables) -> Tables:
    """The wanted tables, with the engine's ids for rows whose ids it made up."""
    named = nothing()
    for name, rows in wanted.items():
        left = {row_id: row for row_id, row in found[name].items() if row_id not in rows}
        for row_id, row in rows.items():
            its = row_id
            if row_id.startswith(FRESH):
                its = next((other for other, there in left.items() if there == row), row_id)
                left.pop(its, None)
            named[name][its] = row
    return named
