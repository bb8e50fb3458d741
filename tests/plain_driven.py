"""Mutations that matches drive, over plain dictionaries, one row at a time: the engine must agree with this."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

SCHEMA = """
node P { k: String @key  n: I64 @default(0)  t: String? }
node L { text: String  n: I64? }
edge K: P -> P { w: I64?  @key(src, dst) }
edge R: P -> P { w: I64? }
"""
EDGES = ("K", "R")
FRESH = "?"
"""The ids of rows whose id the engine makes up start with this."""

Row = dict[str, Any]
Tables = dict[str, dict[str, Row]]
Binding = dict[str, tuple[str, str]]
"""The type and id of each variable."""


def nothing() -> Tables:
    """An empty graph."""
    return {"P": {}, "L": {}, "K": {}, "R": {}}


class RefusedError(Exception):
    """What the engine refuses, by the name of its error."""


@dataclass(frozen=True)
class Value:
    """An expression: its text, and its value given the rows of a match."""

    text: str
    compute: Callable[[dict[str, Row]], Any]


@dataclass(frozen=True)
class Match:
    """A pattern: its text, its variables with their types, and its rows."""

    text: str
    types: dict[str, str]
    answer: Callable[[Tables], Iterator[Binding]]
    edge: str | None = None
    """The edge type that it follows: no such edge may lack a node when it is answered."""


@dataclass(frozen=True)
class Driven:
    """A statement behind a match, in the language and as data."""

    text: str
    kind: str
    type: str
    variable: str | None = None
    values: dict[str, Value] = field(default_factory=dict)
    ends: tuple[str, str] | None = None
    if_absent: bool = False


@dataclass(frozen=True)
class DrivenMutation:
    """Plain inserts, then matches with their statements, and what is returned."""

    plain: tuple[Driven, ...]
    segments: tuple[tuple[Match, tuple[Driven, ...]], ...]
    returned: tuple[tuple[str, str], ...]
    """Variables and properties of the last match, and of named rows."""

    @property
    def text(self) -> str:
        """The query."""
        parts = [statement.text for statement in self.plain]
        for match, statements in self.segments:
            parts += [f"match {{ {match.text} }}", *(statement.text for statement in statements)]
        if self.returned:
            columns = ", ".join(
                f"${variable}.{name} as {variable}_{number}" for number, (variable, name) in enumerate(self.returned)
            )
            parts.append(f"returning {{ {columns} }}")
        return "query q() { " + "\n".join(parts) + " }"


# --- the run ---------------------------------------------------------------------------------------


@dataclass
class PlainRun:
    """A run of a mutation over a copy of the tables."""

    tables: Tables
    put: set[tuple[str, str]] = field(default_factory=set)
    gone: dict[tuple[str, str], Row] = field(default_factory=dict)
    existing: int = 0
    made: int = 0
    single: Binding = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def of(cls, tables: Tables, mutation: DrivenMutation) -> "PlainRun":
        """All of a mutation, done."""
        run = cls(deepcopy(tables))
        for statement in mutation.plain:
            run._insert(statement, [({}, {})], [run.single])
        bindings: list[Binding] = [dict(run.single)]
        for match, statements in mutation.segments:
            bindings = run._drive(match, statements)
        run._check_ends()
        for binding in bindings if mutation.returned else []:
            columns = enumerate(mutation.returned)
            run.rows.append({f"{v}_{number}": run._after(binding[v], name) for number, (v, name) in columns})
        return run

    @property
    def affected(self) -> tuple[int, int]:
        """How many nodes and edges were put or deleted."""
        names = [name for name, _ in self.put | self.gone.keys()]
        edges = sum(name in EDGES for name in names)
        return len(names) - edges, edges

    def _drive(self, match: Match, statements: tuple[Driven, ...]) -> list[Binding]:
        if match.edge is not None:
            self._check_ends((match.edge,))
        answered = list(match.answer(self.tables))
        # What statements read is what the match has answered, whatever they write.
        seen = deepcopy(self.tables)
        rows = [(b, {v: {"id": row_id, **seen[type_][row_id]} for v, (type_, row_id) in b.items()}) for b in answered]
        bindings = [{**self.single, **binding} for binding in answered]
        for statement in statements:
            if statement.kind == "delete":
                for binding, _ in rows:
                    self._delete(*binding[statement.variable or ""])
        for statement in statements:
            if statement.kind == "insert":
                self._insert(statement, rows, bindings)
            elif statement.kind == "update":
                self._update(statement, rows)
        return bindings

    def _insert(self, statement: Driven, rows: list[tuple[Binding, dict[str, Row]]], bindings: list[Binding]) -> None:
        wanted: dict[str, Row] = {}
        ids: list[str] = []
        for (_, values), binding in zip(rows, bindings, strict=True):
            row = {name: value.compute(values) for name, value in statement.values.items()}
            if statement.ends is not None:
                row |= {"src": _end(statement.ends[0], binding), "dst": _end(statement.ends[1], binding)}
            row_id = self._id_of(statement.type, row)
            ids.append(row_id)
            if wanted.setdefault(row_id, row) != row:
                raise RefusedError("two_values")
        for row_id, row in wanted.items():
            if (statement.type, row_id) in self.gone:
                raise RefusedError("write_of_deleted")
            table = self.tables[statement.type]
            if statement.if_absent and row_id in table:
                self.existing += 1
                continue
            table[row_id] = {**table.get(row_id, _defaults(statement.type)), **row}
            self.put.add((statement.type, row_id))
        if statement.variable is not None:
            for binding, row_id in zip(bindings, ids, strict=True):
                binding[statement.variable] = (statement.type, row_id)

    def _update(self, statement: Driven, rows: list[tuple[Binding, dict[str, Row]]]) -> None:
        wanted: dict[str, Row] = {}
        for binding, values in rows:
            row = {name: value.compute(values) for name, value in statement.values.items()}
            if wanted.setdefault(binding[statement.variable or ""][1], row) != row:
                raise RefusedError("two_values")
        for row_id, row in wanted.items():
            if (statement.type, row_id) in self.gone:
                raise RefusedError("write_of_deleted")
            self.tables[statement.type][row_id].update(row)
            self.put.add((statement.type, row_id))

    def _delete(self, name: str, row_id: str) -> None:
        if row_id not in self.tables[name]:
            return
        self.gone[name, row_id] = self.tables[name].pop(row_id)
        for edge in EDGES if name == "P" else ():
            for other, row in list(self.tables[edge].items()):
                if row_id in (row["src"], row["dst"]):
                    self._delete(edge, other)

    def _check_ends(self, edges: tuple[str, ...] = EDGES) -> None:
        ends = {row[end] for edge in edges for row in self.tables[edge].values() for end in ("src", "dst")}
        if not ends <= self.tables["P"].keys():
            raise RefusedError("constraint_violation")

    def _id_of(self, name: str, row: Row) -> str:
        if name == "P":
            return str(row["k"])
        if name == "K":
            return json.dumps([row["src"], row["dst"]], separators=(",", ":"), ensure_ascii=False)
        self.made += 1
        return f"{FRESH}{self.made}"

    def _after(self, place: tuple[str, str], name: str) -> Any:
        row = self.tables[place[0]].get(place[1]) or self.gone[place]
        return row[name]


def _end(text: str, binding: Binding) -> str:
    """The id of a variable, or of the text of a literal."""
    return binding[text[1:]][1] if text.startswith("$") else str(json.loads(text))


def _defaults(name: str) -> Row:
    known: dict[str, Row] = {"P": {"n": 0, "t": None}, "L": {"n": None}}
    return known.get(name, {"w": None})


def _reader(variable: str, column: str, factor: int = 1) -> Callable[[dict[str, Row]], Any]:
    """A function that reads a column of a variable, times a factor."""
    return lambda rows: rows[variable][column] * factor


# --- random mutations -------------------------------------------------------------------------------

KEYS = "abcd"


class DrivenMaker:
    """Random mutations."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def mutation(self) -> DrivenMutation:
        """A mutation; with a delete it has one match."""
        random = self.random
        has_delete = random.random() < 0.3
        plain: list[Driven] = []
        named: dict[str, str] = {}
        if not has_delete and random.random() < 0.5:
            plain = [self._insert_node({}, {}, "z" if random.random() < 0.7 else None)]
            named = {"z": "P"} if plain[0].variable else {}
            if random.random() < 0.5:
                plain.append(self._insert_edge({}, named, None))
        segments = []
        count = 1 if has_delete else random.choice([0, 1, 1, 2, 3] if plain else [1, 1, 2, 3])
        visible = dict(named)
        for _ in range(count):
            match = self._match()
            visible = dict(named)
            statements = [self._statement(match.types, visible) for _ in range(random.choice([1, 1, 2, 3]))]
            if has_delete:
                variable = random.choice(list(match.types))
                delete = Driven(f"delete ${variable}", "delete", match.types[variable], variable)
                statements.insert(random.randrange(len(statements) + 1), delete)
            segments.append((match, tuple(statements)))
            visible |= match.types
        readable = [(v, name) for v, type_ in visible.items() for name in _COLUMNS[type_]]
        returned = tuple(random.sample(readable, min(len(readable), random.choice([0, 1, 3]))))
        return DrivenMutation(tuple(plain), tuple(segments), returned)

    def _match(self) -> Match:
        random = self.random
        low = random.choice([-1, 0, 1])
        key = random.choice(KEYS)
        edge = random.choice(EDGES)
        return random.choice(
            [
                # Each closes over this call's own choices.
                Match("$a: P", {"a": "P"}, lambda t: ({"a": ("P", i)} for i in t["P"])),
                Match(
                    f"$a: P $a.n > {low}",
                    {"a": "P"},
                    lambda t: ({"a": ("P", i)} for i, row in t["P"].items() if row["n"] > low),
                ),
                Match(f'$a: P {{ k: "{key}" }}', {"a": "P"}, lambda t: ({"a": ("P", i)} for i in t["P"] if i == key)),
                Match(
                    f"$a: P $a $e:{edge.lower()} $b",
                    {"a": "P", "e": edge, "b": "P"},
                    lambda t: (
                        {"a": ("P", row["src"]), "e": (edge, i), "b": ("P", row["dst"])} for i, row in t[edge].items()
                    ),
                    edge,
                ),
                Match(
                    f"$a: P $a {edge.lower()} $b",
                    {"a": "P", "b": "P"},
                    lambda t: (
                        {"a": ("P", src), "b": ("P", dst)}
                        for src, dst in {(row["src"], row["dst"]) for row in t[edge].values()}
                    ),
                    edge,
                ),
                Match(
                    "$a: P $b: P $a.n < $b.n",
                    {"a": "P", "b": "P"},
                    lambda t: (
                        {"a": ("P", i), "b": ("P", j)}
                        for i, one in t["P"].items()
                        for j, other in t["P"].items()
                        if one["n"] < other["n"]
                    ),
                ),
                Match(
                    f"$a: P not {{ $a {edge.lower()} $_ }}",
                    {"a": "P"},
                    lambda t: ({"a": ("P", i)} for i in t["P"] if i not in {row["src"] for row in t[edge].values()}),
                    edge,
                ),
            ]
        )

    def _statement(self, types: dict[str, str], named: dict[str, str]) -> Driven:
        kind = self.random.choice(["update", "update", "node", "edge", "edge", "log"])
        if kind == "update":
            return self._update(types)
        free = next(name for name in ("o", "u", "v", "x") if name not in named)
        variable = free if self.random.random() < 0.5 else None
        if kind == "node":
            made = self._insert_node(types, named, variable)
        elif kind == "log":
            text, n = self._text(types), self._number(types)
            name = f" as ${variable}" if variable else ""
            made = Driven(
                f"insert L {{ text: {text.text}, n: {n.text} }}{name}", "insert", "L", variable, {"text": text, "n": n}
            )
        else:
            made = self._insert_edge(types, named, variable)
        if variable is not None:
            named[variable] = made.type
        return made

    def _update(self, types: dict[str, str]) -> Driven:
        variable = self.random.choice(list(types))
        type_ = types[variable]
        column = "n" if type_ == "P" else "w"
        value = self._number(types, (variable, column))
        values = {column: value}
        text = f"{column}: {value.text}"
        if type_ == "P" and self.random.random() < 0.4:
            values["t"] = self._text(types)
            text += f", t: {values['t'].text}"
        written = f"update ${variable} set {{ {text} }}"  # noqa: S608 - no SQL
        return Driven(written, "update", type_, variable, values)

    def _insert_node(self, types: dict[str, str], named: dict[str, str], variable: str | None) -> Driven:
        del named
        key = self._text(types)
        values = {"k": key}
        text = f"k: {key.text}"
        if self.random.random() < 0.7:
            values["n"] = self._number(types)
            text += f", n: {values['n'].text}"
        if_absent = self.random.random() < 0.3
        tail = (" if absent" if if_absent else "") + (f" as ${variable}" if variable else "")
        return Driven(f"insert P {{ {text} }}{tail}", "insert", "P", variable, values, if_absent=if_absent)

    def _insert_edge(self, types: dict[str, str], named: dict[str, str], variable: str | None) -> Driven:
        random = self.random
        type_ = random.choice(EDGES)
        nodes = [f"${name}" for name, kind in (*types.items(), *named.items()) if kind == "P"]
        ends = tuple(
            random.choice(nodes) if nodes and random.random() < 0.9 else f'"{random.choice(KEYS)}"' for _ in "ab"
        )
        values, text = {}, ""
        if random.random() < 0.6:
            values["w"] = self._number(types)
            text = f", w: {values['w'].text}"
        if_absent = type_ == "K" and random.random() < 0.2
        tail = (" if absent" if if_absent else "") + (f" as ${variable}" if variable else "")
        written = f"insert {type_} {{ from: {ends[0]}, to: {ends[1]}{text} }}{tail}"
        return Driven(written, "insert", type_, variable, values, (ends[0], ends[1]), if_absent)

    def _number(self, types: dict[str, str], own: tuple[str, str] | None = None) -> Value:
        random = self.random
        constant = random.randrange(3)
        choices = [Value(str(constant), lambda _: constant)]
        if own is not None and own[1] == "n":
            variable = own[0]
            choices += [Value("n + 1", lambda rows: rows[variable]["n"] + 1)] * 2
        for name in (name for name, type_ in types.items() if type_ == "P"):
            choices.append(Value(f"${name}.n * 2", _reader(name, "n", 2)))
            choices.append(Value(f"${name}.n", _reader(name, "n")))
        return random.choice(choices)

    def _text(self, types: dict[str, str]) -> Value:
        key = self.random.choice(KEYS)
        choices = [Value(f'"{key}"', lambda _: key)]
        choices += [Value(f"${name}.k", _reader(name, "k")) for name, type_ in types.items() if type_ == "P"]
        return self.random.choice(choices)


_COLUMNS = {"P": ("k", "n", "t"), "L": ("text", "n"), "K": ("w",), "R": ("w",)}
