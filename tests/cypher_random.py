"""Random Cypher statements and graphs, for comparing the product with the interpreter.

Statements are typed as they are built, so that nearly all of them are answered: a name in scope has a kind, and an
expression is asked for by its kind. Results have an order where `SKIP` or `LIMIT` would otherwise leave a choice.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

SCHEMA = (Path(__file__).parent / "corpus" / "graphs" / "films.pg").read_text(encoding="utf-8")
PEOPLE = ("Ann", "Bob", "Cid", "Dee")
MOVIES = ("Alpha", "Beta", "Gamma")
STUDIOS = ("North", "South")

# The properties of each label by kind; those of a missing label are what all nodes may be asked for.
PROPERTIES: dict[str, dict[str, tuple[str, ...]]] = {
    "Person": {
        "text": ("name", "code"),
        "int": ("born",),
        "float": ("height",),
        "bool": ("alive",),
        "date": ("birthday",),
    },
    "Movie": {
        "text": ("title", "tagline"),
        "int": ("released", "code"),
        "float": ("rating",),
        "ints": ("scores",),
        "texts": ("tags",),
    },
    "Studio": {"text": ("name",), "int": ("founded",)},
    "Named": {"text": ("name",)},
    "": {"text": ("name", "title", "tagline"), "int": ("born", "released", "founded"), "float": ("rating", "height")},
    "ACTED_IN": {"text": ("role",), "int": ("lines",)},
    "Directed": {},
    "Reviewed": {"text": ("summary",), "int": ("score",)},
    "Follows": {"int": ("nr",), "date": ("since",)},
    "MadeBy": {},
    "any edge": {"int": ("score", "nr", "lines"), "text": ("role",)},
}
ENDS = {
    "ACTED_IN": ("Person", "Movie"),
    "Directed": ("Person", "Movie"),
    "Reviewed": ("Person", "Movie"),
    "Follows": ("Person", "Person"),
    "MadeBy": ("Movie", "Studio"),
}
SCALARS = ("int", "text", "bool", "float", "date")
LISTS = {"ints": "int", "texts": "text"}
CONSTANTS = {
    "int": ("0", "1", "2", "1960", "1999", "-3", "null"),
    "float": ("1.5", "7.2", "0.0", "1.7"),
    "text": ("'Ann'", "'Alpha'", "'a'", "''", "'North'", "null"),
    "bool": ("true", "false", "null"),
    "date": ("date('1960-05-17')", "date('2020-01-01')"),
    "ints": ("[1, 2]", "[]", "[1, null, 9]"),
    "texts": ("['scifi']", "['a', null]", "split('a,b', ',')"),
}


def build_records(random: Random) -> str:
    """Return the records of a random graph of at most nine nodes and fourteen edges, as graph JSONL."""
    lines: list[dict[str, object]] = []

    def choose(*values: object) -> object:
        return random.choice(values)

    for name in PEOPLE[: random.choice((1, 3, 4, 4))]:
        data = {"name": name, "born": choose(1960, 1975, None), "height": choose(1.7, 1.5, None)}
        data |= {"alive": choose(True, False, None), "code": choose("a", "b", None)}
        lines.append({"type": "Person", "data": data | {"birthday": choose("1960-05-17", "2020-01-01", None)}})
    people = [str(PEOPLE[index]) for index in range(len(lines))]
    movies = list(MOVIES[: random.choice((0, 2, 3, 3))])
    for title in movies:
        data = {"title": title, "released": choose(1999, 2003), "rating": choose(7.2, 8.5, None)}
        data |= {"tagline": choose("a", "", None), "tags": choose(["scifi"], ["a", "scifi"], [], None)}
        lines.append({"type": "Movie", "data": data | {"scores": choose([1, 9], [], None), "code": choose(1, 2, None)}})
    studios = list(STUDIOS[: random.choice((0, 1, 2, 2))])
    lines.extend({"type": "Studio", "data": {"name": name, "founded": choose(1923, None)}} for name in studios)
    names = {"Person": people, "Movie": movies, "Studio": studios}
    pairs: set[tuple[object, ...]] = set()
    for number in range(random.choice((2, 8, 12, 14))):
        kind = random.choice(("ActedIn", "Directed", "Reviewed", "Follows", "Follows", "MadeBy"))
        source, target = ENDS["ACTED_IN" if kind == "ActedIn" else kind]
        if not names[source] or not names[target]:
            continue
        ends = {"from": random.choice(names[source]), "to": random.choice(names[target])}
        data = {
            "ActedIn": {"id_": f"p{number}", "role": choose("Neo", "a", None), "lines": choose(1, 2, None)},
            "Follows": {"nr": number, "since": choose("2020-01-01", None)},
            "Reviewed": {"score": choose(1, 9), "summary": choose("a", None)},
        }.get(kind, {})
        pair = (kind, *ends.values())
        if kind not in ("ActedIn", "Follows") and pair in pairs:
            continue
        pairs.add(pair)
        lines.append({"edge": kind, **ends, "data": data})
    return "\n".join(json.dumps(line) for line in lines)


@dataclass
class StatementBuilder:
    """Builds one random statement."""

    random: Random
    scope: dict[str, tuple[str, str]] = field(default_factory=dict)
    count: int = 0
    has_order: bool = False

    def build(self) -> str:
        """Return the text of a statement."""
        clauses = [self._build_match(optional=False)]
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            make = self.random.choice((self._build_match, self._build_optional, self._build_with, self._build_unwind))
            clauses.append(make())
        clauses.append(self._build_return())
        return " ".join(clauses)

    def _name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _names_of(self, *kinds: str) -> list[str]:
        return [name for name, (kind, _) in self.scope.items() if kind in kinds]

    # --- clauses -------------------------------------------------------------------------------------

    def _build_match(self, *, optional: bool = False) -> str:
        patterns = [self._build_path() for _ in range(self.random.choice((1, 1, 1, 1, 2)))]
        words = "OPTIONAL MATCH" if optional else "MATCH"
        where = f" WHERE {self.build_expression('bool', 2)}" if self._chance(0.35) else ""
        return f"{words} {', '.join(patterns)}{where}"

    def _build_optional(self) -> str:
        return self._build_match(optional=True)

    def _build_unwind(self) -> str:
        kind = self.random.choice(("ints", "texts"))
        source = self.build_expression(kind, 1)
        name = self._name("u")
        self.scope[name] = (LISTS[kind], "")
        return f"UNWIND {source} AS {name}"

    def _build_with(self) -> str:
        items, scope = self._build_items()
        distinct = "DISTINCT " if self._chance(0.2) else ""
        self.scope = scope
        where = f" WHERE {self.build_expression('bool', 1)}" if self._chance(0.3) else ""
        return f"WITH {distinct}{', '.join(items)}{where}"

    def _build_return(self) -> str:
        items, scope = self._build_items(is_last=True)
        distinct = "DISTINCT " if self._chance(0.3) else ""
        text = f"RETURN {distinct}{', '.join(items)}"
        sortable = [name for name, (kind, _) in scope.items() if kind in SCALARS]
        if len(sortable) == len(scope) and self._chance(0.6):
            keys = [f"{name}{self.random.choice(('', ' DESC'))}" for name in sortable]
            self.random.shuffle(keys)
            text += f" ORDER BY {', '.join(keys)}"
            self.has_order = True
            if self._chance(0.3):
                text += f" SKIP {self.random.choice(('0', '1', '2', '3 - 2', 'toInteger(1.5)'))}"
            if self._chance(0.4):
                text += f" LIMIT {self.random.choice(('0', '1', '3', '4', '1 + 1', '7 / 2'))}"
        return text

    def _build_items(self, *, is_last: bool = False) -> tuple[list[str], dict[str, tuple[str, str]]]:
        items: list[str] = []
        scope: dict[str, tuple[str, str]] = {}
        kept = [name for name in self.scope if self._chance(0.6)]
        for name in kept[:3]:
            items.append(name)
            scope[name] = self.scope[name]
        groups = self._chance(0.35)
        for _ in range(self.random.choice((1, 1, 2)) if not is_last or not items else 1):
            kind = self.random.choice((*SCALARS, *SCALARS, *LISTS))
            text = self._build_aggregate(kind) if groups else self.build_expression(kind, 2)
            if groups and kind in ("bool", "date"):
                kind = "int"
            name = self._name("c")
            items.append(f"{text} AS {name}")
            scope[name] = (kind, "")
        return items, scope

    def _build_aggregate(self, kind: str) -> str:
        distinct = "DISTINCT " if self._chance(0.3) else ""
        if kind == "text":
            return f"{self.random.choice(('min', 'max'))}({self.build_expression('text', 1)})"
        if kind in LISTS:
            return f"{self.random.choice(('min', 'max'))}({self.build_expression(kind, 1)})"
        if kind == "float":
            return f"{self.random.choice(('min', 'max'))}({self.build_expression('float', 1)})"
        if self._chance(0.3):
            return "count(*)"
        function = self.random.choice(("count", "sum", "min", "max"))
        if self._chance(0.15):
            # A comprehension over what an aggregate has collected.
            items = f"x IN collect({self.build_expression('int', 1)}) WHERE x > {self.random.randint(0, 3)}"
            return self.random.choice((f"size([{items}])", f"CASE WHEN any({items}) THEN 1 ELSE 0 END"))
        if self._chance(0.1):
            return f"percentileDisc({self.build_expression('int', 1)}, 0.5)"
        return f"{function}({distinct}{self.build_expression('int', 1)})"

    # --- patterns ------------------------------------------------------------------------------------

    def _build_path(self) -> str:
        label = self.random.choice(("Person", "Person", "Movie", "Studio", "Named", ""))
        text, label = self._build_node(label)
        for _ in range(self.random.choice((0, 0, 1, 1, 1, 2))):
            hop, label = self._build_hop(label)
            node, label = self._build_node(label)
            text += hop + node
        if self._chance(0.15):
            name = self._name("p")
            self.scope[name] = ("path", "")
            return f"{name} = {text}"
        return text

    def _build_node(self, label: str) -> tuple[str, str]:
        known = [name for name in self._names_of("node") if label in ("", self.scope[name][1])]
        if known and self._chance(0.35):
            name = self.random.choice(known)
            return f"({name})", self.scope[name][1]
        shown = f":{label}" if label else ""
        if not self._chance(0.85):
            return f"({shown})", label
        name = self._name("n")
        properties = self._build_properties(label) if self._chance(0.06) else ""
        self.scope[name] = ("node", label)
        return f"({name}{shown}{properties})", label

    def _build_properties(self, owner: str) -> str:
        kinds = [kind for kind in PROPERTIES[owner] if kind in ("int", "text", "bool")]
        if not kinds:
            return ""
        kind = self.random.choice(kinds)
        name = self.random.choice(PROPERTIES[owner][kind])
        return f" {{{name}: {self.random.choice(CONSTANTS[kind])}}}"

    def _build_hop(self, label: str) -> tuple[str, str]:
        owners = [label] if label in ("Person", "Movie", "Studio") else ["Person", "Movie", "Studio"]
        outgoing = [(name, True, ends[1]) for name, ends in ENDS.items() if ends[0] in owners]
        incoming = [(name, False, ends[0]) for name, ends in ENDS.items() if ends[1] in owners]
        name, is_out, end = self.random.choice(outgoing + incoming)
        types = self._build_types(name)
        if "|" in types or not types:
            end = ""
        is_both = self._chance(0.2)
        variable, owner = "", name if types == f":{name}" else "any edge"
        length = ""
        if self._chance(0.2):
            length = self.random.choice(("*1..2", "*2", "*0..1", "*", "*0..2", "*..3", "*2..3"))
            end = "" if is_both or types != ":Follows" else end
        if self._chance(0.5):
            variable = self._name("r")
            self.scope[variable] = ("edges" if length else "edge", owner)
        properties = self._build_properties(owner) if self._chance(0.05) else ""
        if length and types == ":Follows" and self._chance(0.3):
            variable = variable or self._name("r")
            properties += f" WHERE {variable}.nr {self.random.choice(('<', '>', '<>'))} {self.random.randint(0, 9)}"
        body = f"-[{variable}{types}{length}{properties}]-"
        if is_both:
            return body, "" if name != "Follows" or types != ":Follows" else "Person"
        return (f"{body}>" if is_out else f"<{body}"), end

    def _build_types(self, name: str) -> str:
        choice = self.random.random()
        if choice < 0.75:
            return f":{name}"
        return f":{name}|{self.random.choice(tuple(ENDS))}" if choice < 0.9 else ""

    # --- expressions ---------------------------------------------------------------------------------

    def build_expression(self, kind: str, depth: int) -> str:
        """Return an expression of a kind that nests at most so deep."""
        if depth <= 0 or self._chance(0.25):
            return self._build_leaf(kind)
        if kind == "bool":
            return self._build_condition(depth - 1)
        parts = [self.build_expression(kind, depth - 1) for _ in range(2)]
        condition = self.build_expression("bool", depth - 1)
        general = (f"coalesce({parts[0]}, {parts[1]})", f"CASE WHEN {condition} THEN {parts[0]} ELSE {parts[1]} END")
        match kind:
            case "int":
                text, numbers = self.build_expression("text", depth - 1), self.build_expression("ints", depth - 1)
                forms: tuple[str, ...] = (
                    f"({parts[0]} + {parts[1]})",
                    f"({parts[0]} - {parts[1]})",
                    f"{parts[0]} % 7",
                    f"{parts[0]} / 3",
                    f"abs({parts[0]})",
                    f"size({text})",
                    f"size({numbers})",
                    f"{numbers}[{self.random.choice((0, -1, 5))}]",
                    self._build_pattern_value("COUNT"),
                    self._build_cut_count(),
                    *self._build_lengths(),
                )
            case "float":
                whole = self.build_expression("int", depth - 1)
                forms = (f"({parts[0]} + {whole})", f"({parts[0]} * 2)", f"toFloat({whole})", f"-{parts[0]}")
            case "text":
                whole = self.build_expression("int", depth - 1)
                forms = (
                    f"({parts[0]} + {parts[1]})",
                    f"toUpper({parts[0]})",
                    f"substring({parts[0]}, 0, 1)",
                    f"toString({whole})",
                    f"replace({parts[0]}, 'a', 'x')",
                    *self._build_identities(),
                )
            case "ints" | "texts":
                inner = LISTS[kind]
                forms = (
                    f"({parts[0]} + {parts[1]})",
                    f"tail({parts[0]})",
                    f"[x IN {parts[0]} WHERE x <> {self._build_leaf(inner)}]",
                    f"[x IN {parts[0]} | coalesce(x, {self._build_leaf(inner)})]",
                    f"{parts[0]}[0..1]",
                    f"{parts[0]}[-2..-1]",
                    f"reverse({parts[0]})",
                    f"({parts[0]} + {self._build_leaf(inner)})",
                    self._build_cut_list(kind),
                    *(
                        (f"range(0, size({parts[0]}) - 1)",)
                        if kind == "ints"
                        else (f"split({self._build_leaf('text')}, 'a')",)
                    ),
                )
            case _:
                forms = ()
        return self.random.choice((*forms, *forms, *general))

    def _build_leaf(self, kind: str) -> str:
        choices = [name for name, (own, _) in self.scope.items() if own == kind]
        for name, (own, owner) in self.scope.items():
            if own in ("node", "edge"):
                choices.extend(
                    f"{name}['{key}']" if self._chance(0.1) else f"{name}.{key}"
                    for key in PROPERTIES[owner].get(kind, ())
                )
        if choices and self._chance(0.75):
            return self.random.choice(choices)
        return self.random.choice(CONSTANTS[kind])

    def _build_condition(self, depth: int) -> str:
        kind = self.random.choice(SCALARS)
        left, right = (f"({self.build_expression(kind, depth)})" for _ in range(2))
        conditions = [self.build_expression("bool", depth) for _ in range(2)]
        text = self._build_leaf("text")
        inner = self.random.choice(("ints", "texts"))
        items = self.build_expression(inner, depth)
        quantifier = self.random.choice(("all", "any", "none", "single"))
        forms = [
            f"{left} {self.random.choice(('=', '<>', '<', '<=', '>', '>='))} {right}",
            f"({conditions[0]} {self.random.choice(('AND', 'OR', 'XOR'))} {conditions[1]})",
            f"NOT ({conditions[0]})",
            f"{left} IS {self.random.choice(('', 'NOT '))}NULL",
            f"{text} {self.random.choice(('STARTS WITH', 'ENDS WITH', 'CONTAINS'))} {self._build_leaf('text')}",
            f"{self._build_leaf(LISTS[inner])} IN {items}",
            f"{quantifier}(x IN {items} WHERE x > {self._build_leaf(LISTS[inner])})",
            f"{items} {self.random.choice(('=', '<>', '<', '<=', '>', '>='))} {self.build_expression(inner, depth)}",
            f"{items} IN [{self.build_expression(inner, depth)}, {self._build_leaf(inner)}]",
            f"10 / {self._build_leaf('int')} > 1",
            self._build_pattern_value("EXISTS"),
        ]
        nodes, edges = self._names_of("node"), self._names_of("edge")
        if len(nodes) > 1:
            forms.append(f"{self.random.choice(nodes)} {self.random.choice(('=', '<>'))} {self.random.choice(nodes)}")
        if nodes:
            forms.append(f"{self.random.choice(nodes)}:{self.random.choice(('Person', 'Movie', 'Named'))}")
        if edges:
            kind = self.random.choice(("Follows", "Directed"))
            forms.append(f"type({self.random.choice(edges)}) = '{kind}'")
        lists = self._names_of("edges")
        if lists:
            name = self.random.choice(lists)
            forms.append(f"all(e IN {name} WHERE type(e) <> 'Directed')")
            forms.append(f"size({name}) > 1")
        return self.random.choice(forms)

    def _build_pattern_value(self, word: str) -> str:
        people = [name for name in self._names_of("node") if self.scope[name][1] in ("Person", "Named", "")]
        start = self.random.choice(people) if people and self._chance(0.8) else ":Person"
        hop = self.random.choice(("-[:Follows]->", "<-[:Follows]-", "-[:ACTED_IN]->", "-[:Follows*1..2]->", "-->"))
        inner = self.random.choice(("", "", "m:Movie", "q {born: 1960}"))
        where = f" WHERE {self._build_leaf('int')} > 1" if self._chance(0.2) else ""
        if word == "EXISTS" and self._chance(0.3):
            # A second clause, or a group, of what the first one found.
            named = f"MATCH ({start}){hop}(z)"
            more = self.random.choice(("MATCH (z)-->() RETURN z", "WITH count(z) AS c WHERE c > 1 RETURN c"))
            return f"{word} {{ {named} {more} }}"
        return f"{word} {{ MATCH ({start}){hop}({inner}){where} }}"

    def _build_start(self) -> str:
        people = [name for name in self._names_of("node") if self.scope[name][1] in ("Person", "Named", "")]
        return self.random.choice(people) if people and self._chance(0.8) else ":Person"

    def _build_cut_count(self) -> str:
        """Return a count of rows that are made distinct, cut or united."""
        start = self._build_start()
        hop = self.random.choice(("-[:Follows]->", "-[:Follows]-", "-[:ACTED_IN]->", "-->"))
        named = f"MATCH ({start}){hop}(z)"
        more = (
            "WITH DISTINCT z RETURN z",
            "WITH DISTINCT z MATCH (z)--(y) RETURN y",
            "WITH DISTINCT z WHERE z.name > 'B' RETURN z",
            f"WITH z LIMIT {self.random.randint(0, 3)} RETURN z",
            "WITH z SKIP 1 RETURN z",
            f"MATCH (z)--(y) RETURN DISTINCT {self.random.choice(('z, y', 'y'))}",
            f"RETURN z UNION MATCH ({start})--(z) RETURN z",
            f"RETURN z UNION ALL MATCH ({start})--(z) RETURN z",
            "RETURN z.name AS k UNION RETURN 'Ann' AS k",
        )
        return f"COUNT {{ {named} {self.random.choice(more)} }}"

    def _build_cut_list(self, kind: str) -> str:
        """Return the first values of what a pattern finds, in an order."""
        value, label = ("z.title", "Movie") if kind == "texts" else ("z.released", "Movie")
        if self._chance(0.5):
            value, label = ("z.name", "Person") if kind == "texts" else ("z.born", "Person")
        hop = "-[:Follows]->" if label == "Person" else "-[:ACTED_IN]->"
        distinct = self.random.choice(("", "DISTINCT "))
        cut = self.random.choice(("", " LIMIT 1", " SKIP 1", " SKIP 1 LIMIT 2", " LIMIT 0"))
        order = f"ORDER BY k{self.random.choice(('', ' DESC'))}{cut}"
        return (
            f"COLLECT {{ MATCH ({self._build_start()}){hop}(z:{label}) WITH {distinct}{value} AS k {order} RETURN k }}"
        )

    def _build_lengths(self) -> list[str]:
        names = [f"length({name})" for name in self._names_of("path")]
        return names + [f"size({name})" for name in self._names_of("edges")]

    def _build_identities(self) -> list[str]:
        names = [f"labels({name})[0]" for name in self._names_of("node")]
        names += [f"type({name})" for name in self._names_of("edge")]
        return names + [f"elementId({name})" for name in self._names_of("node")]
