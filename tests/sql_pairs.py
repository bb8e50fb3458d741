"""Random questions of a small random graph, each twice: in the query language, and in the SQL of DuckDB.

The tables of DuckDB are `p`, `c`, `knows` and `at_`; `knows_pair` and `at_pair` have each pair of ends once, since a
match is a set. Values are small, so that nothing overflows: what overflows means is not SQL's to say.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from random import Random
from typing import Any, TypeAlias

SCHEMA = """
node P {
    k: String @key
    a: I64?
    b: I64?
    x: F64?
    s: String?
    d: Date?
    m: DateTime?
    l: [I64]?
}
node C {
    k: String @key
    z: I64?
}
edge Knows: P -> P { w: I64? }
edge At: P -> C
"""
TABLES = """
CREATE TABLE p (k VARCHAR, a BIGINT, b BIGINT, x DOUBLE, s VARCHAR, d DATE, m TIMESTAMP, l BIGINT[]);
CREATE TABLE c (k VARCHAR, z BIGINT);
CREATE TABLE knows (src VARCHAR, dst VARCHAR, w BIGINT);
CREATE TABLE at_ (src VARCHAR, dst VARCHAR);
CREATE VIEW knows_pair AS SELECT DISTINCT src, dst FROM knows;
CREATE VIEW at_pair AS SELECT DISTINCT src, dst FROM at_;
CREATE VIEW far AS WITH RECURSIVE step(src, dst, n) AS (
    SELECT src, dst, 1 FROM knows_pair
    UNION SELECT step.src, e.dst, n + 1 FROM step JOIN knows_pair e ON e.src = step.dst WHERE n < 13
) SELECT src, dst, min(n) AS n FROM step GROUP BY src, dst;
"""
Both: TypeAlias = tuple[str, str]
"""An expression in the query language, and in SQL."""


@dataclass(frozen=True)
class SqlWorld:
    """The rows of each table."""

    people: list[dict[str, Any]]
    companies: list[dict[str, Any]]
    knows: list[tuple[str, str, int | None]]
    at: list[tuple[str, str]]


@dataclass(frozen=True)
class Pair:
    """One question in both languages; ordered if the order of its rows is part of it."""

    ours: str
    sql: str
    is_ordered: bool = False


def random_world(random: Random, most: int = 9) -> SqlWorld:
    """A graph of a few nodes, with parallel edges and loops, and nulls everywhere."""

    def some(value: Any) -> Any:
        return value if random.randrange(5) else None

    people = [
        {
            "k": f"p{number}",
            "a": some(random.randint(-3, 5)),
            "b": some(random.randint(0, 2)),
            "x": some(random.randint(-8, 12) / 4),
            "s": some(random.choice(("", "a", "Ab", "b-a", " x ", "a-B-c", "Äö", "aab"))),
            "d": some(date(2024, 1, 1) + timedelta(days=random.randint(0, 800))),
            "m": some(datetime(2025, 1, 1) + timedelta(minutes=random.randint(0, 600_000))),  # noqa: DTZ001 - UTC
            "l": some([random.randint(0, 3) for _ in range(random.randint(0, 3))]),
        }
        for number in range(random.randint(0, most))
    ]
    companies = [{"k": f"c{number}", "z": some(random.randint(0, 4))} for number in range(random.randint(0, 3))]
    names = [person["k"] for person in people]
    places = [company["k"] for company in companies]
    knows = [
        (random.choice(names), random.choice(names), some(random.randint(0, 4)))
        for _ in range(random.randint(0, 2 * len(names)))
    ]
    at = (
        [(random.choice(names), random.choice(places)) for _ in range(random.randint(0, 6))] if names and places else []
    )
    return SqlWorld(people, companies, knows, at)


class Scalars:
    """Writes expressions over one variable, of a known type, in both languages."""

    def __init__(self, random: Random, variable: str = "p") -> None:
        self.random, self.variable = random, variable

    def column(self, name: str) -> Both:
        return f"${self.variable}.{name}", f"{self.variable}.{name}"

    def choose(self, *forms: Callable[[], Both]) -> Both:
        return self.random.choice(forms)()

    def value(self, depth: int) -> Both:
        kinds = (self.whole, self.real, self.text, self.day, self.moment, self.condition)
        return self.random.choice(kinds)(depth)

    def whole(self, depth: int) -> Both:
        if depth <= 0:
            number = str(self.random.randint(0, 4))
            return self.choose(lambda: self.column("a"), lambda: self.column("b"), lambda: (number, number))
        (a, a2), (b, b2) = self.whole(depth - 1), self.whole(depth - 1)
        sign = self.random.choice("+-*")
        part, unit = self.random.choice((("year", "year"), ("month", "month"), ("day", "day"), ("weekday", "isodow")))
        place = self.random.randint(0, 2)
        text, day, other = self.text(depth - 1), self.day(depth - 1), self.day(0)
        moment = self.moment(0)
        return self.choose(
            lambda: (f"({a} {sign} {b})", f"({a2} {sign} {b2})"),
            lambda: (f"({a} {sign} {b})", f"({a2} {sign} {b2})"),
            lambda: (f"({a} % {b})", f"({a2} % nullif({b2}, 0))"),
            lambda: (f"div({a}, {b})", f"CAST(trunc({a2} / nullif({b2}, 0)) AS BIGINT)"),
            lambda: (f"-({a})", f"-({a2})"),
            lambda: (f"abs({a})", f"abs({a2})"),
            lambda: (f"sign({a})", f"sign({a2})"),
            lambda: (f"length({text[0]})", f"length({text[1]})"),
            lambda: (f'index_of({text[0]}, "a")', f"(nullif(instr({text[1]}, 'a'), 0) - 1)"),
            lambda: (f"coalesce({a}, {b})", f"coalesce({a2}, {b2})"),
            lambda: (f"least({a}, {b})", f"least({a2}, {b2})"),
            lambda: (f"greatest({a}, {b})", f"greatest({a2}, {b2})"),
            lambda: (f"nullif({a}, {b})", f"nullif({a2}, {b2})"),
            lambda: (f"{part}({day[0]})", f"date_part('{unit}', {day[1]})"),
            lambda: (f"week({day[0]})", f"date_part('week', {day[1]})"),
            lambda: (f"hour({moment[0]})", f"date_part('hour', {moment[1]})"),
            lambda: (f"days_between({day[0]}, {other[0]})", f"date_diff('day', {day[1]}, {other[1]})"),
            lambda: (f"${self.variable}.l[{place}]", f"{self.variable}.l[{place + 1}]"),
            lambda: (f"size(${self.variable}.l)", f"len({self.variable}.l)"),
            lambda: self.case(depth, self.whole),
        )

    def real(self, depth: int) -> Both:
        if depth <= 0:
            return self.column("x")
        (a, a2), (b, b2) = self.real(depth - 1), self.real(depth - 1)
        whole = self.whole(depth - 1)
        sign = self.random.choice("+-*")
        name = self.random.choice(("abs", "floor", "ceil"))
        return self.choose(
            lambda: (f"({a} {sign} {b})", f"({a2} {sign} {b2})"),
            lambda: (f"({a} / {b})", f"({a2} / nullif({b2}, 0))"),
            lambda: (f"({whole[0]} / {b})", f"({whole[1]} / nullif({b2}, 0))"),
            lambda: (f"{name}({a})", f"{name}({a2})"),
            lambda: (f"sqrt(abs({a}))", f"sqrt(abs({a2}))"),
            lambda: (f"round({self.column('x')[0]}, 1)", f"round({self.column('x')[1]}, 1)"),
            lambda: (f"coalesce({a}, {whole[0]})", f"coalesce({a2}, {whole[1]})"),
            lambda: self.case(depth, self.real),
        )

    def text(self, depth: int) -> Both:
        if depth <= 0:
            return self.choose(lambda: self.column("s"), lambda: self.column("k"))
        (a, a2), (b, b2) = self.text(depth - 1), self.text(depth - 1)
        start, length = self.random.randint(0, 2), self.random.randint(0, 3)
        whole = self.whole(0)
        return self.choose(
            lambda: (f"({a} + {b})", f"({a2} || {b2})"),
            lambda: (f"lower({a})", f"lower({a2})"),
            lambda: (f"upper({a})", f"upper({a2})"),
            lambda: (f"trim({a})", f"trim({a2})"),
            lambda: (f"substring({a}, {start}, {length})", f"substring({a2}, {start + 1}, {length})"),
            lambda: (f'replace({a}, "a", "zz")', f"replace({a2}, 'a', 'zz')"),
            lambda: (f'split({a}, "-")[{start}]', f"string_split({a2}, '-')[{start + 1}]"),
            lambda: (f'extract({a}, "[a-z]-")', f"nullif(regexp_extract({a2}, '[a-z]-'), '')"),
            lambda: (f"to_string({whole[0]})", f"CAST({whole[1]} AS VARCHAR)"),
            lambda: (f"coalesce({a}, {b})", f"coalesce({a2}, {b2})"),
            lambda: self.case(depth, self.text),
        )

    def day(self, depth: int) -> Both:
        if depth <= 0:
            return self.column("d")
        a, a2 = self.day(depth - 1)
        number = self.random.randint(0, 40)
        unit = self.random.choice(("day", "month", "year", "week"))
        start = self.random.choice(("year", "quarter", "month", "week"))
        sign = self.random.choice("+-")
        return self.choose(
            lambda: (f"({a} {sign} {unit}s({number}))", f"CAST({a2} {sign} INTERVAL {number} {unit} AS DATE)"),
            lambda: (f'trunc({a}, "{start}")', f"CAST(date_trunc('{start}', {a2}) AS DATE)"),
            lambda: (f"date({self.column('m')[0]})", f"CAST({self.column('m')[1]} AS DATE)"),
        )

    def moment(self, depth: int) -> Both:
        if depth <= 0:
            return self.column("m")
        a, a2 = self.moment(depth - 1)
        number = self.random.randint(0, 100)
        unit = self.random.choice(("minute", "hour", "day", "month"))
        start = self.random.choice(("month", "day", "hour"))
        return self.choose(
            lambda: (f"({a} + {unit}s({number}))", f"({a2} + INTERVAL {number} {unit})"),
            lambda: (f'trunc({a}, "{start}")', f"date_trunc('{start}', {a2})"),
        )

    def case(self, depth: int, of: Callable[[int], Both]) -> Both:
        condition, first, second = self.condition(depth - 1), of(depth - 1), of(depth - 1)
        return (
            f"case {{ {condition[0]} => {first[0]}, else => {second[0]} }}",
            f"CASE WHEN {condition[1]} THEN {first[1]} ELSE {second[1]} END",
        )

    def condition(self, depth: int) -> Both:
        """A condition in parentheses, with three values."""
        compared = self.random.choice((self.whole, self.whole, self.real, self.text, self.day, self.moment))
        (a, a2), (b, b2) = compared(depth - 1), compared(depth - 1)
        sign = self.random.choice(("=", "!=", "<", "<=", ">", ">="))
        text = self.text(depth - 1)
        forms: list[Callable[[], Both]] = [
            lambda: (f"({a} {sign} {b})", f"({a2} {sign} {b2})"),
            lambda: (f"({a} is null)", f"({a2} IS NULL)"),
            lambda: (f"({a} is not null)", f"({a2} IS NOT NULL)"),
            lambda: (f"({self.column('a')[0]} in [0, 1, 4])", f"({self.column('a')[1]} IN (0, 1, 4))"),
            lambda: (f'({text[0]} contains "a")', f"contains({text[1]}, 'a')"),
            lambda: (f'({text[0]} starts_with "a")', f"starts_with({text[1]}, 'a')"),
            lambda: (f'(ends_with({text[0]}, "a") = true)', f"(ends_with({text[1]}, 'a') = true)"),
            lambda: (f"(${self.variable}.l contains 1)", f"list_contains({self.variable}.l, 1)"),
        ]
        if depth > 0:
            one, two = self.condition(depth - 1), self.condition(depth - 1)
            word = self.random.choice(("and", "or"))
            forms += 2 * [
                lambda: (f"({one[0]} {word} {two[0]})", f"({one[1]} {word} {two[1]})"),
                lambda: (f"(not {one[0]})", f"(NOT {one[1]})"),
            ]
        return self.choose(*forms)
