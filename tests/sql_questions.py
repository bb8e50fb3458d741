"""The forms of questions that SQL can ask too: patterns, blocks, groups, stages, unions, windows, lists, recursion."""

# ruff: noqa: S608 - the SQL is made of our own words

from collections.abc import Callable
from random import Random

from sql_pairs import Both, Pair, Scalars

_KNOWS = "FROM knows_pair e JOIN p ON p.k = e.src JOIN p q ON q.k = e.dst"
_AT = "FROM at_pair e JOIN p ON p.k = e.src JOIN c ON c.k = e.dst"


class PatternQuestions:
    """Writes questions about expressions, patterns and blocks."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.p, self.q = Scalars(random, "p"), Scalars(random, "q")

    def number(self, most: int = 3) -> int:
        return self.random.randint(0, most)

    # --- expressions -------------------------------------------------------------------------------

    def column(self) -> Pair:
        ours, sql = self.p.value(self.random.choice((1, 2, 2, 3)))
        return Pair(_read("$p: P", f"$p.k, {ours} as v"), f"SELECT p.k, {sql} FROM p")

    def condition(self) -> Pair:
        ours, sql = self.p.condition(self.random.choice((1, 2, 3)))
        return Pair(_read(f"$p: P  {ours}", "$p.k"), f"SELECT p.k FROM p WHERE {sql}")

    def ordered(self) -> Pair:
        (ours, sql), limit, offset = self.p.whole(1), 1 + self.number(5), self.number(2)
        return Pair(
            _read("$p: P", f"$p.k, {ours} as v", f"order {{ v desc, $p.k }} limit {limit} offset {offset}"),
            f"SELECT p.k, {sql} AS v FROM p ORDER BY v DESC NULLS LAST, p.k LIMIT {limit} OFFSET {offset}",
            is_ordered=True,
        )

    # --- patterns and blocks -----------------------------------------------------------------------

    def optional(self) -> Pair:
        z, outside = self.number(), self.random.choice((("", ""), ("$c is null", "WHERE c.k IS NULL")))
        (ours, sql), value = self.p.condition(1), self.p.whole(1)
        inside = self.random.choice(
            ((f"$c.z > {z}", f"c.z > {z}"), (ours, sql), (f"$c.z != {z}  {ours}", f"c.z != {z} AND {sql}"))
        )
        return Pair(
            _read(
                f"$p: P optional {{ $p at $c  {inside[0]} }} {outside[0]}", f"$p.k, $c.k as c, $c.z + {value[0]} as v"
            ),
            f"SELECT p.k, c.k, c.z + {value[1]} FROM p LEFT JOIN (at_pair e JOIN c ON c.k = e.dst) ON e.src = "
            f"p.k AND {inside[1]} {outside[1]}",
        )

    def optional_twice(self) -> Pair:
        (ours, sql), z = self.q.condition(1), self.number()
        return Pair(
            _read(
                f"$p: P optional {{ $p knows $q  {ours} }} optional {{ $q at $c  $c.z >= {z} }}",
                "$p.k as k, $q.k as q, $c.k as c",
            ),
            f"""SELECT p.k, q.k, c.k FROM p
            LEFT JOIN (knows_pair e JOIN p q ON q.k = e.dst) ON e.src = p.k AND {sql}
            LEFT JOIN (at_pair f JOIN c ON c.k = f.dst) ON f.src = q.k AND c.z >= {z}""",
        )

    def exists(self) -> Pair:
        inside, outside = self.q.condition(1), self.p.condition(1)
        word, no = self.random.choice((("or", ""), ("and", ""), ("or", "not "), ("and", "not ")))
        return Pair(
            _read(f"$p: P  ({no}exists {{ $p knows $q  {inside[0]} }} {word} {outside[0]})", "$p.k"),
            f"""SELECT p.k FROM p WHERE {no} EXISTS (
            SELECT 1 FROM knows_pair e JOIN p q ON q.k = e.dst WHERE e.src = p.k AND {inside[1]}) {word}
            {outside[1]}""",
        )

    def count_block(self) -> Pair:
        inside, least = self.q.condition(1), self.number(2)
        return Pair(
            _read(f"$p: P let $n = count {{ $p knows $q  {inside[0]} }}  $n >= {least}", "$p.k, $n * 2 as n"),
            f"""SELECT k, n * 2 FROM (SELECT p.k, (
            SELECT count(*) FROM knows_pair e JOIN p q ON q.k = e.dst WHERE e.src = p.k AND {inside[1]}) AS n FROM p)
            WHERE n >= {least}""",
        )

    def fold_block(self) -> Pair:
        (ours, sql), name = self.q.whole(1), self.random.choice(("sum", "min", "max", "avg"))
        is_distinct = self.random.choice(("", "distinct "))
        return Pair(
            _read("$p: P", f"$p.k, {name} {{ $p knows $q return {is_distinct}{ours} }} as v"),
            f"""SELECT p.k, (SELECT {name}({is_distinct}{sql}) FROM knows_pair e JOIN p q ON q.k = e.dst
            WHERE e.src = p.k) FROM p""",
        )

    def either(self) -> Pair:
        ours, sql = self.q.condition(1)
        return Pair(
            _read(f"either {{ $p knows $q  {ours} }} or {{ $q knows $p }}", "$p.k as k, $q.k as q"),
            f"SELECT p.k, q.k {_KNOWS} WHERE {sql} UNION SELECT dst, src FROM knows_pair",
        )

    def parallel_edges(self) -> Pair:
        return Pair(
            _read("$p $e:knows $q", "$p.k as k, count($e) as n, sum($e.w * $q.a) as t, count(distinct $q) as d"),
            """SELECT p.k, count(*), sum(e.w * q.a), count(DISTINCT q.k)
            FROM knows e JOIN p ON p.k = e.src JOIN p q ON q.k = e.dst GROUP BY p.k""",
        )


class Questions(PatternQuestions):
    """Writes one question after the other, of all forms in turn."""

    def all_forms(self) -> list[Callable[[], Pair]]:
        return [
            *(self.column, self.condition, self.optional, self.optional_twice, self.exists, self.count_block),
            *(self.fold_block, self.groups, self.having, self.stage, self.best_stage, self.union, self.window),
            *(self.ranks, self.best_of_each, self.statistics, self.each, self.collected, self.lists),
            *(self.reached, self.distance, self.either, self.parallel_edges, self.ordered),
        ]

    # --- groups, stages, unions --------------------------------------------------------------------

    def _key(self) -> Both:
        return self.random.choice((self.p.column("b"), self.p.whole(1), self.p.text(1), self.p.condition(1)))

    def groups(self) -> Pair:
        key, value, some = self._key(), self.p.whole(1), self.p.condition(1)
        ours = (
            f"{key[0]} as g, count(*) as n, sum({value[0]}) as t, min({value[0]}) as l, avg({value[0]} where "
            f"{some[0]}) as m, count(distinct {value[0]}) as d"
        )
        sql = (
            f"{key[1]} AS g, count(*), sum({value[1]}), min({value[1]}), avg({value[1]}) FILTER (WHERE "
            f"{some[1]}), count(DISTINCT {value[1]})"
        )
        return Pair(_read("$p: P", ours), f"SELECT {sql} FROM p GROUP BY g")

    def having(self) -> Pair:
        key, value, least = self._key(), self.p.whole(1), self.number(2)
        return Pair(
            _read(
                "$p knows $q",
                f"{key[0]} as g, count($q) as n",
                f"having {{ n > {least} or max({value[0]}) > {least} }}",
            ),
            f"SELECT {key[1]} AS g, count(*) AS n {_KNOWS} GROUP BY g HAVING count(*) > {least} OR "
            f"max({value[1]}) > {least}",
        )

    def stage(self) -> Pair:
        (ours, sql), least = self.q.condition(1), self.number(2)
        return Pair(
            f"""query q() {{ match {{ $p knows $q  {ours} }} with {{ $p, count($q) as n }} having {{ n > {least} }}
            match {{ $p at $c }} return {{ $p.k, $n + coalesce($c.z, 0) as n, $c.k as c }} }}""",
            f"""WITH s AS (SELECT p.k, count(*) AS n {_KNOWS} WHERE {sql} GROUP BY p.k HAVING count(*) > {least})
            SELECT s.k, n + coalesce(c.z, 0), c.k FROM s JOIN at_pair e ON e.src = s.k JOIN c ON c.k = e.dst""",
        )

    def best_stage(self) -> Pair:
        (ours, sql), limit = self.p.whole(1), 1 + self.number()
        return Pair(
            f"""query q() {{ match {{ $p: P }} with {{ $p, {ours} as v }} order {{ v, $p.k desc }} limit {limit}
            match {{ $p knows $q }} return {{ $v, count($q) as n }} }}""",
            f"""WITH s AS (SELECT p.k, {sql} AS v FROM p ORDER BY v NULLS FIRST, p.k DESC LIMIT {limit})
            SELECT v, count(*) FROM s JOIN knows_pair e ON e.src = s.k GROUP BY v""",
        )

    def union(self) -> Pair:
        first, second, word = self.p.whole(1), self.q.whole(1), self.random.choice(("union", "union all"))
        return Pair(
            f"""query q() {{ match {{ $p: P }} return {{ {first[0]} as v }} {word} match {{ $p knows $q }}
            return {{ {second[0]} as v }} }}""",
            f"SELECT {first[1]} AS v FROM p {word} SELECT {second[1]} {_KNOWS}",
        )

    # --- windows -----------------------------------------------------------------------------------

    def window(self) -> Pair:
        (ours, sql), key, name = self.p.whole(1), self._key(), self.random.choice(("sum", "count", "min", "max", "avg"))
        rows = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        return Pair(
            _read(
                "$p: P",
                f"$p.k, {name}({ours}) over {{ per {{ {key[0]} }} order {{ $p.k }} }} as r, "
                f"{name}({ours}) over {{ per {{ {key[0]} }} }} as t",
            ),
            f"""SELECT p.k, {name}({sql}) OVER (PARTITION BY {key[1]} ORDER BY p.k {rows}),
            {name}({sql}) OVER (PARTITION BY {key[1]}) FROM p""",
        )

    def ranks(self) -> Pair:
        (ours, sql), most = self.p.whole(1), 1 + self.number()
        return Pair(
            _read(
                "$p: P",
                f"""$p.k, rank() over {{ order {{ {ours} desc }} }} as r, row_number() over {{ order {{ {ours},
                $p.k desc }} }} as n,
                lag($p.a) over {{ order {{ $p.k }} }} as b, lead({ours}) over {{ per {{ $p.b }} order {{ $p.k
                }} }} as f""",
                f"having {{ r <= {most} }}",
            ),
            f"""SELECT * FROM (SELECT p.k, rank() OVER (ORDER BY {sql} DESC NULLS LAST) AS r,
            row_number() OVER (ORDER BY {sql} NULLS FIRST, p.k DESC), lag(p.a) OVER (ORDER BY p.k),
            lead({sql}) OVER (PARTITION BY p.b ORDER BY p.k) FROM p) WHERE r <= {most}""",
        )

    def best_of_each(self) -> Pair:
        (ours, sql), key, most = self.p.whole(1), self._key(), 1 + self.number(1)
        return Pair(
            _read("$p: P", f"$p.k, {ours} as v", f"order {{ v desc, $p.k }} limit {most} per {{ {key[0]} }}"),
            f"""SELECT p.k, {sql} AS v FROM p
            QUALIFY row_number() OVER (PARTITION BY {key[1]} ORDER BY {sql} DESC NULLS LAST, p.k) <= {most}
            ORDER BY v DESC NULLS LAST, p.k""",
            is_ordered=True,
        )

    def statistics(self) -> Pair:
        (ours, sql), share, some = (
            self.random.choice((self.p.whole(1), self.p.real(0))),
            self.number(10) / 10,
            self.p.condition(1),
        )
        key = self.random.choice(((), (self.p.column("b"),)))
        keys, names = "".join(f"{k[0]} as g, " for k in key), "".join(f"{k[1]} AS g, " for k in key)
        return Pair(
            _read(
                "$p: P",
                f"""{keys}median({ours}) as m, percentile({ours}, {share}) as c, stddev({ours}) as s,
                variance({ours}) as v,
                product({ours}) as p, any({some[0]}) as a, all({some[0]}) as e, count($p where {some[0]}) as n""",
            ),
            f"""SELECT {names}median({sql}), quantile_cont({sql}, {share}), stddev_samp({sql}), var_samp({sql}),
            product({sql}), bool_or({some[1]}), bool_and({some[1]}), count(*) FILTER (WHERE {some[1]})
            FROM p {"GROUP BY g" if key else ""}""",
        )

    # --- lists and recursion -----------------------------------------------------------------------

    def each(self) -> Pair:
        ours, sql = self.p.condition(1)
        least = self.number(2)
        return Pair(
            _read(f"$p: P  {ours}  each $n in $p.l  $n >= {least}", "$p.k, $n, $n * $p.a as v"),
            f"SELECT k, n, n * a FROM (SELECT p.k, p.a, unnest(p.l) AS n FROM p WHERE {sql}) WHERE n >= {least}",
        )

    def collected(self) -> Pair:
        value, order = self.p.whole(1), self.random.choice(("", "DESC"))
        return Pair(
            _read(
                "$p: P",
                f"$p.b, collect({value[0]} order {{ $p.k {order.lower()} }}) as l, collect(distinct {value[0]}) as d",
            ),
            f"""SELECT p.b, coalesce(list({value[1]} ORDER BY p.k {order}) FILTER (WHERE {value[1]} IS NOT NULL), []),
            coalesce(list_sort(list(DISTINCT {value[1]}) FILTER (WHERE {value[1]} IS NOT NULL)), []) FROM p
            GROUP BY p.b""",
        )

    def lists(self) -> Pair:
        limit, inside = 1 + self.number(2), self.q.condition(1)
        return Pair(
            _read(
                "$p: P",
                f"""$p.k, collect {{ each $n in $p.l  $n > 0 return $n * 2 }} as m, sort($p.l) as s,
                collect {{ $p knows $q  {inside[0]} return $q.k order {{ $q.k desc }} limit {limit} }} as f""",
            ),
            f"""SELECT p.k, coalesce(list_transform(list_filter(p.l, lambda n: n > 0), lambda n: n * 2), []),
            list_sort(p.l),
            coalesce((SELECT list(q.k ORDER BY q.k DESC)[1:{limit}] FROM knows_pair e JOIN p q ON q.k = e.dst
            WHERE e.src = p.k AND {inside[1]}), []) FROM p""",
        )

    def reached(self) -> Pair:
        low, high = self.random.choice(((1, None), (0, None), (1, 2), (0, 2), (2, 3), (2, None)))
        ours, sql = self.q.condition(1)
        most = 99 if high is None else high
        start = f"UNION SELECT q.k, q.k FROM p q WHERE {sql}" if low == 0 else ""
        return Pair(
            _read(f"$p: P $p knows{{{low},{'*' if high is None else high}}} $q  {ours}", "$p.k as k, $q.k as q"),
            f"SELECT f.src, q.k FROM far f JOIN p q ON q.k = f.dst WHERE n BETWEEN {max(low, 1)} AND {most} AND "
            f"{sql} {start}",
        )

    def distance(self) -> Pair:
        ours, sql = self.p.condition(1)
        return Pair(
            _read(f"$p: P  {ours}  shortest $w = $p knows{{1,*}} $q", "$p.k as k, $q.k as q, length($w) as n"),
            f"SELECT f.src, f.dst, n FROM far f JOIN p ON p.k = f.src WHERE {sql}",
        )


def _read(match: str, columns: str, after: str = "") -> str:
    return f"query q() {{ match {{ {match} }} return {{ {columns} }} {after} }}"
