"""Define the questions of the social benchmark, in the query language of each engine."""

from dataclasses import dataclass

WHO = 4_242
"""The number of the person from whom the small traversals start."""


@dataclass(frozen=True)
class Question:
    """One question: its name, its description, and its query for each engine."""

    name: str
    description: str
    gq: str
    cypher: str
    sql: str


_IN = 'JOIN CityIn ci ON ci."from" = c.id JOIN State s ON s.id = ci."to"'
_OF = 'JOIN StateIn si ON si."from" = s.id JOIN Country o ON o.id = si."to"'
_LIVES = 'JOIN LivesIn l ON l."from" = p.id JOIN City c ON c.id = l."to"'
_LIKES = 'JOIN HasInterest h ON h."from" = p.id JOIN Interest i ON i.id = h."to"'

STUDY = (
    Question(
        "q1",
        "the three people with the most followers",
        "query q1() { match { $f: Person  $f follows $p  $p: Person }"
        " return { $p.key, count($f) as followers } order { followers desc } limit 3 }",
        "MATCH (f:Person)-[:Follows]->(p:Person) RETURN p.key, count(f.id) AS followers"
        " ORDER BY followers DESC, p.key LIMIT 3",
        'SELECT p.key, count(*) AS followers FROM Follows f JOIN Person p ON p.id = f."to"'
        " GROUP BY p.id, p.key ORDER BY followers DESC, p.key LIMIT 3",
    ),
    Question(
        "q2",
        "the city of the person with the most followers",
        "query q2() { match { $f: Person  $f follows $p  $p: Person  $p livesIn $c  $c: City  $c cityIn $s  $s: State }"
        " return { $p.key, count($f) as followers, $c.city, $s.state } order { followers desc } limit 1 }",
        "MATCH (f:Person)-[:Follows]->(p:Person) WITH p, count(f.id) AS followers ORDER BY followers DESC, p.key"
        " LIMIT 1 MATCH (p)-[:LivesIn]->(c:City)-[:CityIn]->(s:State) RETURN p.key, followers, c.city, s.state",
        'WITH top AS (SELECT p.id, p.key, count(*) AS followers FROM Follows f JOIN Person p ON p.id = f."to"'
        " GROUP BY p.id, p.key ORDER BY followers DESC, p.key LIMIT 1)"
        f" SELECT p.key, p.followers, c.city, s.state FROM top p {_LIVES} {_IN}",
    ),
    Question(
        "q3",
        "the five cities of a country with the lowest average age",
        "query q3() { match { $p: Person  $p livesIn $c  $c: City  $c cityIn $s  $s: State  $s stateIn $o"
        ' $o: Country { country: "United States" } }'
        " return { $c.key, avg($p.age) as age } order { age asc } limit 5 }",
        "MATCH (p:Person)-[:LivesIn]->(c:City)-[:CityIn]->(s:State)-[:StateIn]->(o:Country)"
        " WHERE o.country = 'United States' RETURN c.key, avg(p.age) AS age ORDER BY age, c.key LIMIT 5",
        f"SELECT c.key, avg(p.age) AS age FROM Person p {_LIVES} {_IN} {_OF} WHERE o.country = 'United States'"
        " GROUP BY c.id, c.key ORDER BY age, c.key LIMIT 5",
    ),
    Question(
        "q4",
        "number of people between 30 and 40 by country",
        "query q4() { match { $p: Person  $p.age >= 30  $p.age <= 40  $p livesIn $c  $c: City  $c cityIn $s  $s: State"
        "  $s stateIn $o  $o: Country } return { $o.country, count($p) as people } order { people desc } limit 3 }",
        "MATCH (p:Person)-[:LivesIn]->(:City)-[:CityIn]->(:State)-[:StateIn]->(o:Country)"
        " WHERE p.age >= 30 AND p.age <= 40 RETURN o.country, count(p.id) AS people ORDER BY people DESC LIMIT 3",
        f"SELECT o.country, count(*) AS people FROM Person p {_LIVES} {_IN} {_OF} WHERE p.age BETWEEN 30 AND 40"
        " GROUP BY o.country ORDER BY people DESC LIMIT 3",
    ),
    Question(
        "q5",
        "number of men of a city with an interest",
        'query q5() { match { $p: Person { gender: "male" }  $p hasInterest $i'
        '  $i: Interest { interest: "interest 03" }  $p livesIn $c'
        '  $c: City { city: "City 0005" } } return { count($p) as people } }',
        "MATCH (p:Person)-[:HasInterest]->(i:Interest), (p)-[:LivesIn]->(c:City) WHERE i.interest = 'interest 03'"
        " AND p.gender = 'male' AND c.city = 'City 0005' RETURN count(p.id) AS people",
        f"SELECT count(*) AS people FROM Person p {_LIKES} {_LIVES} WHERE i.interest = 'interest 03'"
        " AND p.gender = 'male' AND c.city = 'City 0005'",
    ),
    Question(
        "q6",
        "the five cities with the most women with an interest",
        'query q6() { match { $p: Person { gender: "female" }  $p hasInterest $i'
        '  $i: Interest { interest: "interest 07" }  $p livesIn $c  $c: City }'
        " return { $c.key, count($p) as people } order { people desc } limit 5 }",
        "MATCH (p:Person)-[:HasInterest]->(i:Interest), (p)-[:LivesIn]->(c:City) WHERE i.interest = 'interest 07'"
        " AND p.gender = 'female' RETURN c.key, count(p.id) AS people ORDER BY people DESC, c.key LIMIT 5",
        f"SELECT c.key, count(*) AS people FROM Person p {_LIKES} {_LIVES} WHERE i.interest = 'interest 07'"
        " AND p.gender = 'female' GROUP BY c.id, c.key ORDER BY people DESC, c.key LIMIT 5",
    ),
    Question(
        "q7",
        "the state with the most people of an age with an interest",
        "query q7() { match { $p: Person  $p.age >= 23  $p.age <= 30  $p hasInterest $i"
        '  $i: Interest { interest: "interest 11" }  $p livesIn $c  $c: City  $c cityIn $s  $s: State  $s stateIn $o'
        '  $o: Country { country: "United States" } }'
        " return { $s.key, count($p) as people } order { people desc } limit 1 }",
        "MATCH (p:Person)-[:LivesIn]->(:City)-[:CityIn]->(s:State)-[:StateIn]->(o:Country),"
        " (p)-[:HasInterest]->(i:Interest) WHERE p.age >= 23 AND p.age <= 30 AND o.country = 'United States'"
        " AND i.interest = 'interest 11' RETURN s.key, count(p.id) AS people ORDER BY people DESC, s.key LIMIT 1",
        f"SELECT s.key, count(*) AS people FROM Person p {_LIKES} {_LIVES} {_IN} {_OF} WHERE p.age BETWEEN 23 AND 30"
        " AND o.country = 'United States' AND i.interest = 'interest 11'"
        " GROUP BY s.id, s.key ORDER BY people DESC, s.key LIMIT 1",
    ),
    Question(
        "q8",
        "number of paths of two follows",
        "query q8() { match { $a: Person  $a follows $b  $b: Person  $b follows $c  $c: Person }"
        " return { count(*) as paths } }",
        "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) RETURN count(*) AS paths",
        'SELECT count(*) AS paths FROM Follows x JOIN Follows y ON y."from" = x."to"',
    ),
    Question(
        "q9",
        "number of those through a person below 50 to one above 25",
        "query q9() { match { $a: Person  $a follows $b  $b: Person  $b.age < 50  $b follows $c  $c: Person"
        "  $c.age > 25 } return { count(*) as paths } }",
        "MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) WHERE b.age < 50 AND c.age > 25"
        " RETURN count(*) AS paths",
        'SELECT count(*) AS paths FROM Follows x JOIN Follows y ON y."from" = x."to" JOIN Person b ON b.id = x."to"'
        ' JOIN Person c ON c.id = y."to" WHERE b.age < 50 AND c.age > 25',
    ),
)

_START = f'$a: Person {{ key: "p{WHO}" }}'

SMALL = (
    Question(
        "pk",
        "one person by key",
        f"query pk() {{ match {{ {_START} }} return {{ $a.name, $a.age }} }}",
        f"MATCH (a:Person) WHERE a.id = {WHO} RETURN a.name, a.age",
        f"SELECT name, age FROM Person WHERE id = {WHO}",
    ),
    Question(
        "t1",
        "the people that one person follows",
        f"query t1() {{ match {{ {_START}  $a follows $b  $b: Person }} return {{ $b.key }} order {{ $b.key asc }} }}",
        f"MATCH (a:Person)-[:Follows]->(b:Person) WHERE a.id = {WHO} RETURN b.key ORDER BY b.key",
        f'SELECT b.key FROM Follows x JOIN Person b ON b.id = x."to" WHERE x."from" = {WHO} ORDER BY b.key',
    ),
    Question(
        "t2",
        "number of people two follows away from one person",
        f"query t2() {{ match {{ {_START}  $a follows $b  $b: Person  $b follows $c  $c: Person }}"
        " return { count(distinct $c.key) as people } }",
        f"MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) WHERE a.id = {WHO}"
        " RETURN count(DISTINCT c.id) AS people",
        'SELECT count(DISTINCT y."to") AS people FROM Follows x JOIN Follows y ON y."from" = x."to"'
        f' WHERE x."from" = {WHO}',
    ),
    Question(
        "t3",
        "number of people three follows away from one person",
        f"query t3() {{ match {{ {_START}  $a follows $b  $b: Person  $b follows $c  $c: Person  $c follows $d"
        "  $d: Person } return { count(distinct $d.key) as people } }",
        f"MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)-[:Follows]->(d:Person) WHERE a.id = {WHO}"
        " RETURN count(DISTINCT d.id) AS people",
        'SELECT count(DISTINCT z."to") AS people FROM Follows x JOIN Follows y ON y."from" = x."to"'
        f' JOIN Follows z ON z."from" = y."to" WHERE x."from" = {WHO}',
    ),
)
