"""Dates of parts and of units, as functions of their own; and blocks of several clauses."""

from datetime import UTC, date, datetime

import pytest

import omnigraph as og
from omnigraph.query.cypher.dates import build_date, build_datetime, parse_iso_date, truncate_date
from worlds import FAST, runtime

DAY = date(1984, 10, 11)
SCHEMA = "node Person { name: String @key age: I64? born: Date? }\nedge Knows: Person -> Person"


@pytest.mark.parametrize(
    "unit,first",
    [
        ("millennium", date(1000, 1, 1)),
        ("century", date(1900, 1, 1)),
        ("decade", date(1980, 1, 1)),
        ("year", date(1984, 1, 1)),
        ("weekYear", date(1984, 1, 2)),
        ("quarter", date(1984, 10, 1)),
        ("month", date(1984, 10, 1)),
        ("week", date(1984, 10, 8)),
        ("day", DAY),
        ("blink", None),
    ],
)
def test_a_date_is_cut_off_to_a_unit(unit: str, first: date | None) -> None:
    assert truncate_date(unit, DAY) == first


def test_there_is_no_millennium_of_the_first_years() -> None:
    assert truncate_date("millennium", date(999, 1, 1)) is None


@pytest.mark.parametrize(
    "parts,built",
    [
        ({"year": 1984, "quarter": 3, "dayOfQuarter": 45}, date(1984, 8, 14)),
        ({"year": 1984, "ordinalDay": 202}, date(1984, 7, 20)),
        ({"year": 1984, "week": 10, "dayOfWeek": 3}, date(1984, 3, 7)),
        ({"year": 1983, "ordinalDay": 366}, None),
        ({"year": 1984, "quarter": 1, "dayOfQuarter": 92}, None),
        ({"year": 1984, "month": 13}, None),
        ({"month": 1}, None),
        ({"year": 1984, "week": 1, "month": 1}, None),
    ],
)
def test_a_date_has_parts_of_one_kind(parts: dict[str, int], built: date | None) -> None:
    assert build_date(parts) == built


@pytest.mark.parametrize(
    "parts,built",
    [
        ({"hour": 12, "millisecond": 7, "microsecond": 8}, datetime(1984, 10, 11, 12, 0, 0, 7008, tzinfo=UTC)),
        ({"minute": 59, "microsecond": 123_456}, datetime(1984, 10, 11, 0, 59, 0, 123_456, tzinfo=UTC)),
        ({"hour": 24}, None),
        ({"millisecond": 1, "microsecond": 1_000}, None),
        ({"day": 32}, None),
    ],
)
def test_an_instant_has_a_date_and_a_time(parts: dict[str, int], built: datetime | None) -> None:
    assert build_datetime({"year": 1984, "month": 10, "day": 11, **parts}) == built


def test_a_text_of_another_form_is_no_date() -> None:
    assert parse_iso_date("1984-W10-3") == date(1984, 3, 7)
    assert parse_iso_date("11.10.1984") is None


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.create_graph(str(tmp_path_factory.mktemp("moments") / "graph"), SCHEMA, runtime=runtime(FAST))
    graph.mutate(
        'query q() { insert Person { name: "Ann", age: 40, born: date("1984-10-11") }'
        ' insert Person { name: "Bob", age: 30 }'
        ' insert Person { name: "Cy", age: 20 } insert Knows { from: "Ann", to: "Bob" }'
        ' insert Knows { from: "Bob", to: "Cy" } }'
    )
    return graph


@pytest.mark.parametrize(
    "statement,values",
    [
        ("MATCH (p:Person) RETURN COUNT { MATCH (p)-->(q) MATCH (q)-->(r) } AS n ORDER BY p.name", [1, 0, 0]),
        (
            "MATCH (p:Person) RETURN EXISTS { MATCH (p)-->(q) WHERE q.age > 25 } AS n ORDER BY p.name",
            [True, False, False],
        ),
        ("MATCH (p:Person) RETURN COUNT { UNWIND [1, 2] AS x MATCH (p)-->(q) } AS n ORDER BY p.name", [2, 2, 0]),
        ("MATCH (p:Person) RETURN COUNT { MATCH (p)-->(q) OPTIONAL MATCH (q)-->(r) } AS n ORDER BY p.name", [1, 1, 0]),
        (
            "MATCH (p:Person) RETURN COUNT { MATCH (p)-->(q) WITH q WHERE q.age < 25 MATCH (q)--() } AS n ORDER BY p",
            [0, 1, 0],
        ),
        (
            "MATCH (p:Person) RETURN date.truncate('month', p.born) = date('1984-10-01') AS n ORDER BY p.name",
            [True, None, None],
        ),
        ("MATCH (p:Person) RETURN keys(p) AS n ORDER BY p.name LIMIT 1", [["age", "born", "name"]]),
        ("RETURN datetime({year: 1984, hour: 12}) = datetime('1984-01-01T12:00:00Z') AS n", [True]),
        ("MATCH (a:Person)-[k]->(b) RETURN startNode(k).name + endNode(k).name AS n ORDER BY n", ["AnnBob", "BobCy"]),
    ],
)
def test_blocks_and_functions_give_their_values(graph: og.Graph, statement: str, values: list[object]) -> None:
    found = [row["n"] for row in graph.cypher(statement).rows()]

    assert [sorted(value) if isinstance(value, list) else value for value in found] == values


@pytest.mark.parametrize(
    "statement",
    [
        "RETURN date({year: 1984, blink: 1}) AS d",
        "RETURN date({year: 1984, month: 13}) AS d",
        "MATCH (p:Person) RETURN date({year: p.age}) AS d",
        "MATCH (p:Person) RETURN date(p.age) AS d",
        "RETURN date.truncate('blink', date('1984-10-11')) AS d",
        "RETURN date.truncate('month', 1) AS d",
        "MATCH (p:Person) RETURN date.truncate('millennium', p.born) AS d",
        "RETURN date.truncate('month', date('1984-10-11'), {day: 40}) AS d",
        "MATCH (p:Person) RETURN COUNT { UNWIND p.age AS x RETURN x } AS n",
        "MATCH (p:Person) RETURN COUNT { MATCH (p)-->(q) OPTIONAL MATCH (q)-->(r) MATCH (r)-->(s) } AS n",
        "MATCH (p:Person) RETURN COUNT { MATCH (p)-->(q) WITH count(q) AS c WHERE c > 1 MATCH (p)-->(r) } AS n",
        "RETURN startNode(1) AS n",
        "RETURN keys(1) AS n",
    ],
)
def test_what_has_no_meaning_is_refused_when_it_is_read(graph: og.Graph, statement: str) -> None:
    with pytest.raises(og.SourceError):
        graph.cypher(statement)
