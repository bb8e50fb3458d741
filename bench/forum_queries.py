"""Define the eleven questions of the forum benchmark, in the language of each engine, and how parameters are drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from forum_data import LANGUAGES, SECONDS

Params = dict[str, Any]
Draw = Callable[[np.random.Generator, int], Params]


@dataclass(frozen=True)
class Question:
    """One question: its name, its query for each engine, and how its parameters are drawn.

    `sql` may name only parameters that it reads. A person is `$who` by number for the peers, and by key for us.
    """

    name: str
    gq: str
    cypher: str
    sql: str
    draw: Draw
    is_point: bool = False
    """Whether it starts at one person, so that its cost should not follow the size of the graph."""


def _draw_person(random: np.random.Generator, people: int) -> Params:
    return {"who": int(random.integers(0, people))}


def _draw_named(random: np.random.Generator, people: int) -> Params:
    return {**_draw_person(random, people), "first": f"First {int(random.integers(0, 20)):04}"}


def _draw_recent(random: np.random.Generator, people: int) -> Params:
    return {**_draw_person(random, people), "before": int(SECONDS * random.uniform(0.5, 1))}


def _draw_topic(random: np.random.Generator, people: int) -> Params:
    del people
    return {"tag": f"topic {int(random.integers(0, 200)):04}", "lang": str(random.choice(LANGUAGES[:4]))}


def _draw_young(random: np.random.Generator, people: int) -> Params:
    # About 22 % of the people, so that 5 % of the edges have both ends among them.
    del people
    low = int(random.integers(18, 75))
    return {"low": low, "high": low + 15}


def _draw_page(random: np.random.Generator, people: int) -> Params:
    return {"offset": int(people * random.uniform(0.45, 0.55))}


_ME = "$me: Person { key: $who }"

QUESTIONS = (
    Question(
        "friends of friends by first name",
        f"query q($who: String, $first: String) {{ match {{ {_ME}  $me knows $f  $f knows $o  $o: Person"
        " $o.first = $first  $o != $me }"
        " return distinct { $o.key as key, $o.last as last, $o.age as age }"
        " order { $o.last asc, $o.key asc } limit 20 }",
        "MATCH (me:Person)-[:Knows]->(:Person)-[:Knows]->(o:Person) WHERE me.id = $who AND o.first = $first"
        " AND o.id <> me.id RETURN DISTINCT o.key AS key, o.last AS last, o.age AS age ORDER BY last, key LIMIT 20",
        "SELECT DISTINCT o.key, o.last, o.age FROM Knows x JOIN Knows y ON y.src = x.dst JOIN Person o ON o.id = y.dst"
        " WHERE x.src = $who AND o.first = $first AND o.id <> $who ORDER BY o.last, o.key LIMIT 20",
        _draw_named,
        is_point=True,
    ),
    Question(
        "20 newest posts of friends",
        f"query q($who: String, $before: I64) {{ match {{ {_ME}  $me knows $f  $f wrote $m  $m: Post"
        " $m.created < $before } return { $m.created as created, $m.key as key, $f.key as author }"
        " order { $m.created desc, $m.key asc, $f.key asc } limit 20 }",
        "MATCH (me:Person)-[:Knows]->(f:Person)-[:Wrote]->(m:Post) WHERE me.id = $who AND m.created < $before"
        " RETURN m.created AS created, m.key AS key, f.key AS author ORDER BY created DESC, key, author LIMIT 20",
        "SELECT m.created, m.key, f.key FROM Knows x JOIN Wrote w ON w.src = x.dst JOIN Post m ON m.id = w.dst"
        " JOIN Person f ON f.id = x.dst WHERE x.src = $who AND m.created < $before"
        " ORDER BY m.created DESC, m.key, f.key LIMIT 20",
        _draw_recent,
        is_point=True,
    ),
    Question(
        "three hops, distinct",
        f"query q($who: String) {{ match {{ {_ME}  $me knows $a  $a knows $b  $b knows $c  $c: Person }}"
        " return { count(distinct $c.key) as people } }",
        "MATCH (me:Person)-[:Knows]->(:Person)-[:Knows]->(:Person)-[:Knows]->(c:Person) WHERE me.id = $who"
        " RETURN count(DISTINCT c.id) AS people",
        "SELECT count(DISTINCT z.dst) FROM Knows x JOIN Knows y ON y.src = x.dst JOIN Knows z ON z.src = y.dst"
        " WHERE x.src = $who",
        _draw_person,
        is_point=True,
    ),
    Question(
        "who likes what I like",
        f"query q($who: String) {{ match {{ {_ME}  $me likes $m  $o likes $m  $o: Person  $o != $me }}"
        " return { $o.key as key, count($m) as shared } order { shared desc, $o.key asc } limit 10 }",
        "MATCH (me:Person)-[:Likes]->(m:Post)<-[:Likes]-(o:Person) WHERE me.id = $who AND o.id <> me.id"
        " RETURN o.key AS key, count(m.id) AS shared ORDER BY shared DESC, key LIMIT 10",
        "SELECT o.key, count(*) AS shared FROM Likes x JOIN Likes y ON y.dst = x.dst JOIN Person o ON o.id = y.src"
        " WHERE x.src = $who AND y.src <> $who GROUP BY o.key ORDER BY shared DESC, o.key LIMIT 10",
        _draw_person,
        is_point=True,
    ),
    Question(
        "posts by topic and language",
        "query q($tag: String, $lang: String) { match { $t: Tag { name: $tag }  $m hasTag $t  $m: Post"
        " $m.lang = $lang  $p wrote $m  $p: Person }"
        " return { $p.key as key, count($m) as posts, avg($m.length) as length }"
        " order { posts desc, $p.key asc } limit 10 }",
        "MATCH (p:Person)-[:Wrote]->(m:Post)-[:HasTag]->(t:Tag) WHERE t.name = $tag AND m.lang = $lang"
        " RETURN p.key AS key, count(m.id) AS posts, avg(m.length) AS length ORDER BY posts DESC, key LIMIT 10",
        "SELECT p.key, count(*) AS posts, avg(m.length) FROM Tag t JOIN HasTag h ON h.dst = t.id"
        " JOIN Post m ON m.id = h.src JOIN Wrote w ON w.dst = m.id JOIN Person p ON p.id = w.src"
        " WHERE t.name = $tag AND m.lang = $lang GROUP BY p.key ORDER BY posts DESC, p.key LIMIT 10",
        _draw_topic,
    ),
    Question(
        "triangles among people of an age",
        "query q($low: I32, $high: I32) { match { $a: Person  $b: Person  $c: Person"
        " $a knows $b  $b knows $c  $a knows $c"
        " $a.age >= $low  $a.age <= $high  $b.age >= $low  $b.age <= $high  $c.age >= $low  $c.age <= $high }"
        " return { count(*) as triangles } }",
        "MATCH (a:Person)-[:Knows]->(b:Person)-[:Knows]->(c:Person), (a)-[:Knows]->(c) WHERE a.age >= $low"
        " AND a.age <= $high AND b.age >= $low AND b.age <= $high AND c.age >= $low AND c.age <= $high"
        " RETURN count(*) AS triangles",
        "WITH young AS (SELECT id FROM Person WHERE age BETWEEN $low AND $high), k AS (SELECT src, dst FROM Knows"
        " WHERE src IN (SELECT id FROM young) AND dst IN (SELECT id FROM young))"
        " SELECT count(*) FROM k x JOIN k y ON y.src = x.dst JOIN k z ON z.src = x.src AND z.dst = y.dst",
        _draw_young,
    ),
    Question(
        "likes inside friendships",
        "query q($low: I32, $high: I32) { match { $a: Person  $a.age >= $low  $a.age <= $high"
        " $a knows $b  $b: Person  $a likes $m  $m: Post  $b wrote $m } return { count(*) as likes } }",
        "MATCH (a:Person)-[:Knows]->(b:Person)-[:Wrote]->(m:Post), (a)-[:Likes]->(m) WHERE a.age >= $low"
        " AND a.age <= $high RETURN count(*) AS likes",
        "SELECT count(*) FROM Person a JOIN Likes l ON l.src = a.id JOIN Wrote w ON w.dst = l.dst"
        " JOIN Knows k ON k.src = a.id AND k.dst = w.src WHERE a.age BETWEEN $low AND $high",
        _draw_young,
    ),
    Question(
        "a page of people",
        "query q($offset: I64) { match { $p: Person } return { $p.last as last, $p.first as first, $p.key as key }"
        " order { $p.last asc, $p.first asc, $p.key asc } limit 20 offset $offset }",
        "MATCH (p:Person) RETURN p.last AS last, p.first AS first, p.key AS key ORDER BY last, first, key"
        " SKIP $offset LIMIT 20",
        "SELECT last, first, key FROM Person ORDER BY last, first, key LIMIT 20 OFFSET $offset",
        _draw_page,
    ),
    Question(
        "topics that an age likes",
        "query q($low: I32, $high: I32) { match { $p: Person  $p.age >= $low  $p.age <= $high  $p likes $m  $m: Post"
        " $m hasTag $t  $t: Tag } return { $t.name as name, count(*) as likes }"
        " order { likes desc, $t.name asc } limit 10 }",
        "MATCH (p:Person)-[:Likes]->(:Post)-[:HasTag]->(t:Tag) WHERE p.age >= $low AND p.age <= $high"
        " RETURN t.name AS name, count(*) AS likes ORDER BY likes DESC, name LIMIT 10",
        "SELECT t.name, count(*) AS likes FROM Person p JOIN Likes l ON l.src = p.id JOIN HasTag h ON h.src = l.dst"
        " JOIN Tag t ON t.id = h.dst WHERE p.age BETWEEN $low AND $high GROUP BY t.name ORDER BY likes DESC, t.name"
        " LIMIT 10",
        _draw_young,
    ),
    Question(
        "people to get to know",
        f"query q($who: String) {{ match {{ {_ME}  $me knows $f  $f knows $o  $o: Person  $o != $me"
        " not { $me knows $o } } return { $o.key as key, count($f) as shared }"
        " order { shared desc, $o.key asc } limit 10 }",
        "MATCH (me:Person)-[:Knows]->(f:Person)-[:Knows]->(o:Person) WHERE me.id = $who AND o.id <> me.id"
        " AND NOT EXISTS { MATCH (me)-[:Knows]->(o) }"
        " RETURN o.key AS key, count(f.id) AS shared ORDER BY shared DESC, key LIMIT 10",
        "SELECT o.key, count(*) AS shared FROM Knows x JOIN Knows y ON y.src = x.dst JOIN Person o ON o.id = y.dst"
        " WHERE x.src = $who AND y.dst <> $who AND NOT EXISTS (SELECT 1 FROM Knows z WHERE z.src = $who"
        " AND z.dst = y.dst) GROUP BY o.key ORDER BY shared DESC, o.key LIMIT 10",
        _draw_person,
        is_point=True,
    ),
    Question(
        "ages of those whom an age knows",
        "query q($low: I32, $high: I32) { match { $a: Person  $a.age >= $low  $a.age <= $high  $a knows $b"
        " $b: Person } return { $b.age as age, count(*) as known } order { $b.age asc } }",
        "MATCH (a:Person)-[:Knows]->(b:Person) WHERE a.age >= $low AND a.age <= $high"
        " RETURN b.age AS age, count(*) AS known ORDER BY age",
        "SELECT b.age, count(*) FROM Person a JOIN Knows k ON k.src = a.id JOIN Person b ON b.id = k.dst"
        " WHERE a.age BETWEEN $low AND $high GROUP BY b.age ORDER BY b.age",
        _draw_young,
    ),
)
