"""Random expressions as text, each of a known type, over the properties of one node type."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

SCHEMA = """
node T {
    k: String @key
    i: I64?
    j: I32?
    u: U64?
    f: F64?
    g: F32?
    s: String?
    t: String?
    b: Bool?
    d: Date?
    e: Date?
    m: DateTime?
    w: DateTime?
    l: [String]?
    n: [I64]?
}
"""
VALUES: dict[str, Sequence[Any]] = {
    "i": (0, 1, -1, 7, -7, 2**62, 2**63 - 1, -(2**63), 3),
    "j": (0, 1, -1, 5, 2**31 - 1),
    "u": (0, 1, 2**63, 2**64 - 1, 9),
    "f": (0.0, 1.5, -2.25, 1e308, -1e-300, 3.0),
    "g": (0.0, 0.5, -1.5),
    "s": ("", "abc", "Äb c", " x ", "aXbXc", "12", "-7", "1.5e3", "2026-01-31", "ß🙂z"),
    "t": ("", "a", "b", "X", "Äb", "aß", "ΑΣ", "İﬁ"),
    "b": (True, False),
    "d": ("1999-12-31", "2024-02-29", "2026-11-18", "0001-01-01", "9999-12-31"),
    "e": ("2000-01-01", "2024-03-31"),
    "m": ("2024-02-29T23:59:59.123456Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "2026-06-15T12:30:00Z"),
    "w": ("2024-03-01T00:00:00Z", "1960-05-05T05:05:05Z"),
    "l": ([], ["a"], ["b", "a", "b"], ["x", "", "X"]),
    "n": ([], [1], [3, 1, 2, 1], [2**62, 5]),
}
_UNITS = ("year", "quarter", "month", "week", "day")
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


def random_records(random: Random, count: int) -> list[dict[str, Any]]:
    """Records of the type, each property null in a few of them."""
    return [
        {
            "type": "T",
            "data": {"k": f"k{number:02d}"}
            | {name: random.choice(values) for name, values in VALUES.items() if random.randrange(8)},
        }
        for number in range(count)
    ]


class ExpressionWriter:
    """Writes expressions of each type, down to a depth; every one of them parses and binds."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def pick(self, *items: str) -> str:
        return self.random.choice(items)

    def any_of(self, *forms: Callable[[], str]) -> str:
        return self.random.choice(forms)()

    def query(self) -> str:
        """A query with one expression, as a column or as a condition."""
        depth = self.random.choice((1, 2, 2, 3))
        if self.random.randrange(5) < 2:
            return f"query q() {{ match {{ $p: T  {self.condition(depth)} }} return {{ $p.k }} order {{ $p.k }} }}"
        kinds = (self.number, self.text, self.day, self.moment, self.texts, self.condition)
        value = self.random.choice(kinds)(depth)
        return f"query q() {{ match {{ $p: T }} return {{ $p.k, {value} as x }} order {{ $p.k }} }}"

    def number(self, depth: int) -> str:
        return self.any_of(lambda: self.whole(depth), lambda: self.real(depth))

    def whole(self, depth: int) -> str:
        if depth <= 0:
            return self.pick("$p.i", "$p.i", "$p.j", "$p.u", "0", "1", "2", "-3", "7", "4611686018427387904")
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        return self.any_of(
            lambda: f"({a} {self.pick('+', '-', '*', '%')} {b})",
            lambda: f"({a} {self.pick('+', '-', '*', '%')} {b})",
            lambda: f"-({a})",
            lambda: f"length({self.text(depth - 1)})",
            lambda: f"index_of({self.text(depth - 1)}, {self.text(depth - 1)})",
            lambda: f"abs({a})",
            lambda: f"sign({self.number(depth - 1)})",
            lambda: f"div({a}, {b})",
            lambda: f"{self.pick('year', 'week', 'day', 'month', 'weekday')}({self.day(depth - 1)})",
            lambda: f"{self.pick('hour', 'minute', 'second', 'weekday')}({self.moment(depth - 1)})",
            lambda: f"days_between({self.day(depth - 1)}, {self.day(depth - 1)})",
            lambda: f"days_between({self.moment(depth - 1)}, {self.moment(depth - 1)})",
            lambda: f"size({self.texts(depth - 1)})",
            lambda: f"$p.n[{a}]",
            lambda: self.case(depth, self.whole),
            lambda: f"coalesce({a}, {b})",
            lambda: f"{self.pick('least', 'greatest')}({a}, {b})",
            lambda: f"to_int({self.any_of(lambda: self.text(0), lambda: self.real(0), lambda: '$p.b', lambda: a)})",
            lambda: f"round({a}, {self.pick('-1', '0', '2', '-3')})",
            lambda: f"nullif({a}, {b})",
            lambda: f"{self.pick('first', 'last')}($p.n)",
        )

    def real(self, depth: int) -> str:
        if depth <= 0:
            return self.pick("$p.f", "$p.f", "$p.g", "0.5", "-2.0", "1.5e10")
        a, b = self.real(depth - 1), self.number(depth - 1)
        return self.any_of(
            lambda: f"({a} {self.pick('+', '-', '*', '%')} {b})",
            lambda: f"({b} / {self.number(depth - 1)})",
            lambda: f"-({a})",
            lambda: f"sqrt({b})",
            lambda: f"pow({b}, {self.pick('2', '0.5', '-1')})",
            lambda: f"seconds_between({self.moment(depth - 1)}, {self.moment(depth - 1)})",
            lambda: f"to_float({self.any_of(lambda: self.text(depth - 1), lambda: self.whole(depth - 1))})",
            lambda: f"coalesce({a}, {b})",
            lambda: self.case(depth, self.real),
            lambda: f"{self.pick('floor', 'ceil', 'abs')}({a})",
        )

    def text(self, depth: int) -> str:
        if depth <= 0:
            return self.pick("$p.s", "$p.t", '"a"', '"X"', '"Ä"', '""')
        a = self.text(depth - 1)
        length = self.pick("", f", {self.whole(0)}")
        return self.any_of(
            lambda: f"({a} + {self.text(depth - 1)})",
            lambda: f"{self.pick('lower', 'upper')}($p.t)",
            lambda: f"substring({a}, {self.whole(0)}{length})",
            lambda: f"replace({a}, {self.text(0)}, {self.text(0)})",
            lambda: f"join({self.texts(depth - 1)}, {self.text(0)})",
            lambda: f"trim({a})",
            lambda: f"to_string({self.pick('$p.i', '$p.j', '$p.b', '$p.d', '$p.m', '$p.s')})",
            lambda: f"{self.texts(depth - 1)}[{self.whole(0)}]",
            lambda: self.case(depth, self.text),
            lambda: f"coalesce({a}, {self.text(depth - 1)})",
            lambda: f'extract({a}, "[a-c]+")',
        )

    def day(self, depth: int) -> str:
        if depth <= 0:
            return self.pick("$p.d", "$p.e", 'date("2020-02-29")')
        units = ("days", "weeks", "months", "years")
        zone = self.pick("", ', "Asia/Tokyo"', ', "America/New_York"')
        return self.any_of(
            lambda: f"({self.day(depth - 1)} {self.shift(*units)})",
            lambda: f'trunc({self.day(depth - 1)}, "{self.pick(*_UNITS)}")',
            lambda: f"date({self.moment(depth - 1)}{zone})",
            lambda: f"to_date({self.any_of(lambda: self.text(0), lambda: self.moment(depth - 1))})",
            lambda: f"coalesce({self.day(depth - 1)}, {self.day(depth - 1)})",
        )

    def moment(self, depth: int) -> str:
        if depth <= 0:
            return self.pick("$p.m", "$p.w", 'datetime("2020-02-29T01:02:03Z")')
        units = ("days", "weeks", "months", "years", "hours", "minutes", "seconds")
        return self.any_of(
            lambda: f"({self.moment(depth - 1)} {self.shift(*units)})",
            lambda: f'trunc({self.moment(depth - 1)}, "{self.pick(*_UNITS, "hour", "minute")}")',
            lambda: f"to_datetime({self.day(depth - 1)})",
        )

    def shift(self, *units: str) -> str:
        return f"{self.pick('+', '-')} {self.pick(*units)}({self.pick('1', '-13', '40', '$p.j', '$p.i', '$p.u')})"

    def texts(self, depth: int) -> str:
        if depth <= 0:
            return self.pick("$p.l", '["q", "r"]')
        a = self.texts(depth - 1)
        length = self.pick("", f", {self.whole(0)}")
        return self.any_of(
            lambda: f"split({self.text(depth - 1)}, {self.text(0)})",
            lambda: f"{self.pick('sort', 'unique')}({a})",
            lambda: f"slice({a}, {self.whole(0)}{length})",
            lambda: f"[{self.text(depth - 1)}, {self.text(depth - 1)}, $p.k]",
        )

    def condition(self, depth: int) -> str:
        if depth <= 0:
            return self.pick("$p.b = true", "$p.i is null", "$p.s = $p.t")
        kind = self.random.choice((self.number, self.text, self.day, self.moment))
        return self.any_of(
            lambda: f"{kind(depth - 1)} {self.pick(*_COMPARISONS)} {kind(depth - 1)}",
            lambda: f"{kind(depth - 1)} {self.pick(*_COMPARISONS)} {kind(depth - 1)}",
            lambda: f"({kind(depth - 1)}) is null",
            lambda: f"({self.condition(depth - 1)} {self.pick('and', 'or')} {self.condition(depth - 1)})",
            lambda: f"not ({self.condition(depth - 1)})",
            lambda: f"{self.pick('starts_with', 'ends_with')}({self.text(depth - 1)}, {self.text(0)})",
            lambda: f'matches({self.text(depth - 1)}, "^[a-z]")',
            lambda: f"{self.text(depth - 1)} in {self.texts(depth - 1)}",
            lambda: f"($p.b and {self.condition(depth - 1)})",
        )

    def case(self, depth: int, value: Callable[[int], str]) -> str:
        branches = (
            f"{self.condition(depth - 1)} => {value(depth - 1)}, {self.condition(depth - 1)} => {value(depth - 1)}"
        )
        return f"case {{ {branches}{self.pick('', f' else => {value(depth - 1)}')} }}"
