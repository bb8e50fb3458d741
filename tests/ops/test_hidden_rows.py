"""Graphs that differ in hidden rows only answer alike, whatever is asked: an actor can't tell which one it has."""

import io
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from hidden_rows import EVE, VARIANTS, Normalizer, ask, build_graph, load_policies, open_as
from omnigraph.policy import Actor
from omnigraph.server.cedar_policies import CedarPolicies
from raised_codes import has_code
from worlds import runtime

READS = {
    "all": "match { $p: Person } return { $p.name, $p.region, $p.level } order { $p.name }",
    "unordered": "match { $p: Person } return { $p.name }",
    "key": 'match { $p: Person { name: "h1" } } return { $p.name }',
    "seen key": 'match { $p: Person { name: "p1" } } return { $p.name, $p.bio }',
    "filter": 'match { $p: Person $p.region = "us" } return { $p.name }',
    "null": "match { $p: Person $p.region is null } return { $p.name }",
    "range": "match { $p: Person $p.level >= 3 } return { $p.name } order { $p.level desc, $p.name }",
    "count": "match { $p: Person } return { count(*) as n, sum($p.level) as s, max($p.level) as m }",
    "overflow": "match { $p: Person } return { $p.name, $p.level * 4000000000 * 4000000000 as n }",
    "filter overflow": "match { $p: Person $p.level * 4000000000 > 5 } return { $p.name }",
    "division": "match { $p: Person } return { $p.name, 10 / $p.level as n }",
    "group": "match { $p: Person } return { $p.region, count(*) as n } order { $p.region }",
    "distinct": "match { $p: Person } return distinct { $p.region }",
    "hop": "match { $p: Person $p knows $q } return { $p.name, $q.name } order { $p.name, $q.name }",
    "into": 'match { $p: Person { name: "p0" } $q knows $p } return { $q.name } order { $q.name }',
    "hops": 'match { $p: Person { name: "p0" } $p knows{1,4} $q } return { $q.name } order { $q.name }',
    "both": 'match { $p: Person { name: "p0" } $p <knows> $q } return { $q.name } order { $q.name }',
    "any edge": 'match { $p: Person { name: "p0" } $p (*){1,2} $q } return { $q.@id } order { $q.@id }',
    "edge values": "match { $p: Person $p $k: knows $q } return { $k.@id, $k.since } order { $k.@id }",
    "two hops": "match { $p: Person $p knows $q $q livesIn $c } return { $p.name, $c.name } order { $p.name }",
    "degree": "match { $p: Person } return { $p.name, count { $p knows $q } as n } order { $p.name }",
    "not": "match { $p: Person not { $q: Person $q knows $p } } return { $p.name } order { $p.name }",
    "path": 'match { $p: Person { name: "p0" } $q: Person { name: "p4" } shortest $w = $p knows{1,9} $q }'
    " return { length($w) as n, $w }",
    "all paths": 'match { $p: Person { name: "p0" } all_shortest $w = $p (*){1,*} $q } return { length($w) as n }',
    "cheapest": 'match { $p: Person { name: "p0" } cheapest $w = $p knows{1,*} $q by { since + 1 } }'
    " return { $q.name, length($w) as n } order { $q.name }",
    "all hops": 'match { $p: Person { name: "p0" } $p knows{1,*} $q } return { $q.name } order { $q.name }',
    "members": "match { $n: Named } return { $n.@type, count(*) as c } order { $n.@type }",
    "cycle": "match { $a: Person $a knows $b $b knows $c $c knows $a } return { $a.name } order { $a.name }",
    "interface": "match { $n: Named } return { $n.name } order { $n.name }",
    "interface count": "match { $n: Named } return { count(*) as n }",
    "search": 'match { $p: Person search($p.bio, "common") } return { $p.name } order { $p.name }',
    "bm25": 'match { $p: Person } return { $p.name, bm25($p.bio, "common word1") as s }'
    ' order { bm25($p.bio, "common word1") desc } limit 3',
    "fuzzy": 'match { $p: Person fuzzy($p.bio, "hiden", 1) } return { $p.name }',
    "nearest": "match { $p: Person } return { $p.name } order { nearest($p.vec, [11.0, 1.0]) } limit 3",
    "fused": "match { $p: Person } return { $p.name }"
    ' order { rrf(nearest($p.vec, [11.0, 1.0]), bm25($p.bio, "common word1")) } limit 4',
    "diverse": "match { $p: Person } return { $p.name } order { mmr(nearest($p.vec, [11.0, 1.0]), $p.vec) } limit 4",
    "snippet": 'match { $p: Person search($p.bio, "common") }'
    ' return { snippet($p.bio, "common") as s } order { $p.name }',
    "top": "match { $p: Person } return { $p.name, $p.level } order { $p.level desc } limit 2",
    "stage": "match { $p: Person } with { $p, count { $p knows $q } as n } match { $n > 1 } return { $p.name, $n }",
    "blob": "match { $p: Person } return { $p.photo } order { $p.name } limit 1",
    "wrong": "match { $p: Persn } return { $p.name }",
    "wrong property": "match { $p: Person } return { $p.nam }",
}


def query(text: str, **options: Any) -> Callable[[og.Graph], object]:
    def call(graph: og.Graph) -> object:
        result = graph.query(f"query q() {{ {text} }}", **options)
        rows = result.rows()
        # DuckDB reads with several threads, in any order.
        is_any_order = "order" not in text and "engine" in options
        return [list(result.columns), sorted(map(str, rows)) if is_any_order else rows, list(result.notes)]

    return call


# What would show by an error, a figure or a name that rows are there.
STATEMENTS = {
    "overflow": "select max(level + 1) from Person",
    "error": "select error(name) from Person where region <> 'eu' or secret",
    "like": "select count(*) from Person where bio like '%hidden%'",
    "null": "select count(*) from Person where region is null",
    "groups": "select region, count(*) n, sum(level) s from Person group by all order by all",
    "explain": "explain select count(*) from Person",
    "analyze": "explain analyze select count(*) from Person",
    "summary": "summarize select id, level from Person",
    "sizes": "select table_name, estimated_size from duckdb_tables()",
    "views": "select view_name from duckdb_views() where not internal",
    "sample": "select id from Person using sample 100 percent order by id",
    "rows beyond": "select rowid from Person order by rowid desc limit 1",
}
CYPHER = {
    "all": "MATCH (p:Person) RETURN p.name, p.level ORDER BY p.name",
    "count": "MATCH (p:Person) RETURN count(*) AS n, sum(p.level) AS s",
    "hidden": "MATCH (p:Person {name: 'h1'}) RETURN p.name",
    "hop": "MATCH (p:Person)-[k:Knows]->(q:Person) RETURN p.name, q.name, k.since ORDER BY p.name, q.name",
    "optional": "MATCH (p:Person) OPTIONAL MATCH (p)-[:LivesIn]->(c) RETURN p.name, c.name ORDER BY p.name",
    "paths": "MATCH (p:Person {name: 'p0'})-[:Knows*1..3]->(q) RETURN q.name ORDER BY q.name",
    "back": "MATCH (p:City)<-[:LivesIn]-(q) RETURN count(q) AS n",
    "overflow": "MATCH (p:Person) RETURN max(9223372036854775807 - 12 + p.level) AS n",
    "wrong": "MATCH (p:Persn) RETURN p.name",
}


def sql(statement: str) -> Callable[[og.Graph], object]:
    return lambda graph: graph.sql(statement).rows()


def cypher(text: str, **options: Any) -> Callable[[og.Graph], object]:
    return lambda graph: graph.cypher(text, **options).rows()


def export(graph: og.Graph, **options: Any) -> object:
    out = io.BytesIO()
    exported = graph.export(out, **options)
    return [out.getvalue().decode(), exported.rows]


def list_changes(graph: og.Graph, **options: Any) -> object:
    return [changes.to_json() for changes in graph.changes(**options)]


def diff(before: str, after: str) -> Callable[[og.Graph], object]:
    def call(graph: og.Graph) -> object:
        found = graph.diff(before, after)
        return [found.to_json(), [line.decode() for line in found.json_lines()]]

    return call


def surroundings(before: str, after: str) -> Callable[[og.Graph], object]:
    def call(graph: og.Graph) -> object:
        found = graph.diff(before, after, base="merge")
        changes = [json.loads(line) for line in found.json_lines()]
        return [changes, found.read_surroundings(changes, 3).to_json()]

    return call


def neighbours(*ids: str, **options: Any) -> Callable[[og.Graph], object]:
    def call(graph: og.Graph) -> object:
        page = graph.neighbours([("Person", id_) for id_ in ids], **options).to_json()
        # A cursor has ids of its own graph; what counts is whether there is more.
        return page | {"next_cursor": page["next_cursor"] is not None}

    return call


def window(text: str, **options: Any) -> Callable[[og.Graph], object]:
    return lambda graph: graph.query_window(text, **options).to_json()


def history(type_name: str, row_id: str) -> Callable[[og.Graph], object]:
    return lambda graph: [version.to_json() for version in graph.history(type_name, row_id).versions]


DOORS: dict[str, Callable[[og.Graph], object]] = {
    **{f"query {name}": query(text) for name, text in READS.items()},
    **{f"local {name}": query(text, engine="local") for name, text in READS.items()},
    **{f"past {name}": query(text, snapshot="first") for name, text in list(READS.items())[:8]},
    **{f"branch {name}": query(text, branch="review") for name, text in list(READS.items())[:4]},
    **{f"window {name}": window(READS[name], limit=2, offset=1) for name in ("all", "filter", "hop", "degree", "bm25")},
    "window sorted": window(READS["all"], limit=3, sort=[("p.level", True), "p.name"]),
    "window past": window(READS["hop"], limit=3, snapshot="first"),
    "catalog": lambda g: g.catalog().to_json(),
    "catalog of a branch": lambda g: g.catalog(branch="review").to_json(),
    "neighbours": neighbours("p0", "p1", "h1", "nobody"),
    "neighbours of a hidden node": neighbours("h1"),
    "neighbours, one page": neighbours("p0", "p2", limit=1),
    "neighbours, counted": neighbours("p0", "p1", "p2", "p3", limit=0),
    "neighbours on a branch": neighbours("p0", branch="review", direction="in"),
    "search a hidden id": lambda g: g.search("h1").to_json(),
    "search a prefix": lambda g: g.search("p").to_json(),
    "search words": lambda g: g.search("common text").to_json(),
    "search hidden words": lambda g: g.search("hidden").to_json(),
    "around": surroundings("main", "review"),
    "permissions": lambda g: g.permissions().to_json(),
    "sql rows": lambda g: g.sql("select * exclude (vec) from Person order by id").rows(),
    "sql counts": lambda g: g.sql("select (select count(*) from Knows) k, (select count(*) from Person) p").rows(),
    "sql join": lambda g: g.sql("select p.name, k.dst from Person p join Knows k on k.src = p.id order by 1, 2").rows(),
    **{f"sql {name}": sql(text) for name, text in STATEMENTS.items()},
    **{f"cypher {name}": cypher(text) for name, text in CYPHER.items()},
    **{f"local cypher {name}": cypher(text, engine="local") for name, text in CYPHER.items()},
    "cypher past": cypher(CYPHER["count"], snapshot="first"),
    "explain cypher": lambda g: g.explain(CYPHER["count"], cypher=True),
    "explain": lambda g: g.explain("query q() { match { $p: Person } return { $p.name } }").to_json(),
    "explain analyze": lambda g: g.explain("query q() { match { $p: Person } return { $p.name } }", analyze=True),
    "complete": lambda g: g.complete("match { $p: Per").to_json(),
    "export": export,
    "export past": lambda g: export(g, snapshot="first"),
    "export edges": lambda g: export(g, types=["Knows"]),
    "export graphml": lambda g: export(g, format="graphml", types=["Person", "City", "Knows", "LivesIn"]),
    "export stream": lambda g: b"".join(g.export_stream().pieces).decode(),
    "networkx": lambda g: sorted(map(str, g.to_networkx().edges(data=True))),
    "edge list": lambda g: [g.edge_list("Knows").edges.to_pylist(), g.edge_list("Knows").nodes.to_pylist()],
    "pagerank": lambda g: g.algorithms.pagerank("Knows").to_arrow().to_pylist(),
    "components": lambda g: g.algorithms.connected_components(["Knows", "LivesIn"]).to_arrow().to_pylist(),
    "triangles": lambda g: g.algorithms.triangle_count("Knows").to_arrow().to_pylist(),
    "paths from hidden": lambda g: g.algorithms.shortest_paths("Knows", "h1").to_arrow().to_pylist(),
    "blob": lambda g: str(g.blob("Person", "p0", "photo") is None),
    "blob of hidden": lambda g: g.blob("Person", "h1", "photo"),
    "commits": lambda g: [commit.to_json() for commit in g.commits()],
    "commits of a type": lambda g: [commit.to_json() for commit in g.commits(filters={"type": "Person"})],
    "commit page": lambda g: g.commit_page(limit=2).to_json(),
    "commit": lambda g: g.commit(g.commits()[0].id).to_json(),
    "commit changes": lambda g: [g.commit_changes(commit.id).to_json() for commit in g.commits()],
    "commit counts": lambda g: [g.commit_changes(commit.id).summary() for commit in g.commits()],
    "changes": list_changes,
    "changes of a type": lambda g: list_changes(g, types=["Knows"]),
    "changes of people": lambda g: list_changes(g, types=["Person"], since="first"),
    "diff": diff("first", "main"),
    "diff back": diff("main", "first"),
    "diff branches": diff("review", "main"),
    "history": history("Person", "p1"),
    "history of an edge": history("Knows", "k7"),
    "history of hidden": history("Person", "h1"),
    "history of a hidden edge": history("Knows", "x1"),
    "history of nothing": history("Person", "pp"),
    "snapshot": lambda g: [sorted(g.snapshot().pins), g.snapshot().commit.to_json()],
    "schema": lambda g: g.schema,
    "branches": lambda g: [branch.name for branch in g.branches.list()],
    "tags": lambda g: [tag.name for tag in g.tags.list()],
    "operations": lambda g: g.operations(),
    "indexes": lambda g: g.indexes(),
    "check": lambda g: g.check(),
    "clone": lambda g: g.clone(f"{g.uri}-copy"),
    "table": lambda g: g.table("Person"),
    "spark": lambda g: g.spark,
    "merge": lambda g: g.merge("review", into="main", dry_run=True),
    "merge really": lambda g: g.merge("review", into="main"),
    "revert": lambda g: g.revert(g.commits()[0].id),
    "cherry-pick": lambda g: g.cherry_pick(g.commits()[0].id, branch="review"),
    "reset": lambda g: g.reset("review", to="first"),
    "plan schema": lambda g: g.plan_schema(g.schema),
    "embed": lambda g: g.embed("Person"),
    "optimize": lambda g: g.optimize(),
    "overwrite": lambda g: g.load(io.BytesIO(b'{"type":"Person","data":{"name":"n"}}'), mode="overwrite"),
}
WRITES = {
    "insert": 'insert Person { name: "n1", region: "eu" }',
    "insert out of sight": 'insert Person { name: "n2", region: "us" }',
    "insert without values": 'insert Person { name: "n3" }',
    "update all": "update Person set { level: 9 } where level >= 0",
    "update hidden": 'update Person set { level: 9 } where name = "h1"',
    "update by region": 'update Person set { level: 9 } where region = "us"',
    "move out of sight": 'update Person set { region: "us" } where name = "p0"',
    "hide": 'update Person set { secret: true } where name = "p0"',
    "edge": 'insert Knows { from: "p0", to: "p2" }',
    "edge to hidden": 'insert Knows { from: "p0", to: "h1" }',
    "edge to nothing": 'insert Knows { from: "p0", to: "nobody" }',
    "hidden edge": 'insert Knows { from: "p0", to: "p2", since: -4 }',
    "delete hidden": 'delete Person where name = "h1"',
    "delete edges": "delete Knows where since >= 0",
    "match and update": "match { $p: Person } update $p set { level: 5 } returning { $p.name, $p.level }",
    "match and insert": 'match { $p: Person { region: "us" } } insert City { name: $p.name }',
    "match and delete": "match { $p: Person $p knows $q } delete $q",
    "edges by match": "match { $p: Person $q: Person $p.level > 4 } insert Knows { from: $p, to: $q }",
}


def mutate(graph: og.Graph, text: str, **options: Any) -> object:
    return graph.mutate(f"query q() {{ {text} }}", **options).to_json()


# A node that can't be deleted because of hidden edges may be told apart.
PREVIEWS = {name: text for name, text in WRITES.items() if name != "match and delete"}
DOORS |= {f"preview {name}": partial(mutate, text=text, dry_run=True) for name, text in PREVIEWS.items()}


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> CedarPolicies:
    return load_policies(tmp_path_factory.mktemp("policies") / "p")


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory, policies: CedarPolicies) -> list[tuple[og.Graph, Normalizer]]:
    """The same graph with other hidden rows, as the actor sees it."""
    home = tmp_path_factory.mktemp("twins")
    graphs = [build_graph(home / variant.name, variant) for variant in VARIANTS]
    return [(open_as(graph, policies.of_graph("g")), Normalizer(graph)) for graph in graphs]


@pytest.mark.parametrize("door", DOORS)
def test_graphs_that_differ_in_hidden_rows_answer_alike(door: str, twins: list[tuple[og.Graph, Normalizer]]) -> None:
    answers = [normalizer.normalize(ask(graph, DOORS[door])) for graph, normalizer in twins]

    assert answers[1:] == answers[:1] * (len(answers) - 1)


REFUSED = {
    "check",
    "cherry-pick",
    "clone",
    "embed",
    "explain",
    "explain analyze",
    "explain cypher",
    "indexes",
    "merge",
    "merge really",
    "operations",
    "optimize",
    "overwrite",
    "plan schema",
    "reset",
    "revert",
    "spark",
    "table",
}


@pytest.mark.parametrize("door", DOORS)
def test_ways_that_would_show_or_change_all_rows_are_refused(
    door: str, twins: list[tuple[og.Graph, Normalizer]]
) -> None:
    answer = ask(twins[1][0], DOORS[door])

    assert (isinstance(answer, dict) and answer.get("code") == "rows_hidden") == (door in REFUSED)


def test_reads_are_answered(twins: list[tuple[og.Graph, Normalizer]]) -> None:
    """Equal mistakes prove nothing either."""
    wrong = [name for name, text in READS.items() if isinstance(ask(twins[1][0], query(text)), dict)]

    assert wrong == ["overflow", "wrong", "wrong property"]
    other = [name for name in DOORS if "sql" in name or "cypher" in name]
    refused = {"sql explain", "sql analyze", "sql sizes", "sql views", "sql rows beyond", "explain cypher"}
    assert {name for name in other if isinstance(ask(twins[1][0], DOORS[name]), dict)} == refused
    assert ask(twins[1][0], DOORS["cypher count"]) == [{"n": 7, "s": 25}]


def test_what_is_asked_finds_something(twins: list[tuple[og.Graph, Normalizer]]) -> None:
    """Equal answers prove nothing if they are empty."""
    graph = twins[1][0]
    assert graph.query(f"query q() {{ {READS['count']} }}").rows() == [{"n": 7, "s": 25, "m": 11}]
    assert len(graph.query(f"query q() {{ {READS['hop']} }}").rows()) == 7
    assert len(graph.query(f"query q() {{ {READS['search']} }}").rows()) == 5
    assert [version.change for version in graph.history("Person", "p1").versions] == ["updated", "inserted"]


@pytest.mark.parametrize("write", WRITES)
def test_writes_go_alike_and_leave_hidden_rows_as_they_are(
    write: str, twins: list[tuple[og.Graph, Normalizer]]
) -> None:
    answers, seen = [], []
    branch = f"write-{write.replace(' ', '-')}"
    for acting, _ in twins[:2]:
        graph = og.open_graph(acting.uri, runtime=runtime())
        graph.branches.create(branch)
        before = hidden_rows(graph, acting, branch)
        answer = ask(acting, lambda g: mutate(g, WRITES[write], message="write", branch=branch))
        assert hidden_rows(graph, acting, branch) == before
        # A node that can't be deleted because of hidden edges may be told apart.
        if not (isinstance(answer, dict) and answer.get("code") == "edge_hidden"):
            normalizer = Normalizer(graph)
            answers.append(normalizer.normalize(answer))
            seen.append(normalizer.normalize([export(acting, branch=branch), list_changes(acting, branch=branch)]))
        graph.branches.delete(branch)

    assert answers[1:] == answers[:1] * (len(answers) - 1)
    assert seen[1:] == seen[:1] * (len(seen) - 1)


def hidden_rows(graph: og.Graph, acting: og.Graph, branch: str) -> set[str]:
    everything, seen = (str(export(each, branch=branch)[0]).splitlines() for each in (graph, acting))  # type: ignore[index]
    return set(everything) - set(seen)


def test_the_actor_sees_what_the_rules_say(twins: list[tuple[og.Graph, Normalizer]]) -> None:
    rows = [json.loads(line) for line in str(export(twins[1][0])[0]).splitlines()]  # type: ignore[index]
    people = {row["data"]["name"] for row in rows if row.get("type") == "Person"}
    edges = {row["id"] for row in rows if row.get("edge") == "Knows"}

    assert people == {f"p{n}" for n in range(7)}
    assert edges == {*(f"k{n}" for n in range(6)), "k7"}


def test_no_digest_lets_an_actor_check_a_guess_of_what_a_commit_changed(
    twins: list[tuple[og.Graph, Normalizer]],
) -> None:
    graph = twins[1][0]

    assert {commit.digest for commit in [*graph.commits(), graph.snapshot().commit]} == {None}


def test_an_actor_who_sees_all_rows_is_not_restricted(tmp_path: Path, policies: CedarPolicies) -> None:
    graph = build_graph(tmp_path / "g", VARIANTS[1])
    admin = open_as(graph, policies.of_graph("g"), Actor(name="root", groups=frozenset({"admins"})))
    everything = open_as(graph, load_policies(tmp_path / "p", "permit(principal, action, resource);").of_graph("g"))

    # Forbidding applies to admins, too.
    assert len(admin.query("query q() { match { $p: Person } return { $p.name } }").rows()) == 18
    assert len(everything.query("query q() { match { $p: Person } return { $p.name } }").rows()) == 19
    assert everything.explain("query q() { match { $p: Person } return { $p.name } }").plan is not None


def test_a_type_without_a_property_of_its_rules_is_hidden(tmp_path: Path) -> None:
    """A renamed property must not bring rows into sight, not even through `has`."""
    rules = """
    permit(principal, action == Action::"read", resource);
    permit(principal, action == Action::"see", resource) when { !(resource has secret) || !resource.secret };
    """
    graph = build_graph(tmp_path / "g", VARIANTS[1])
    acting = open_as(graph, load_policies(tmp_path / "p", rules).of_graph("g"))
    count = "query q() { match { $p: Person } return { count(*) as n } }"
    cities = "query q() { match { $c: City } return { count(*) as n } }"

    assert [acting.query(text).rows() for text in (count, cities)] == [[{"n": 18}], [{"n": 0}]]

    graph.apply_schema(graph.schema.replace("secret: Bool?", 'private: Bool? @rename_from("secret")'))

    assert acting.query(count).rows() == [{"n": 0}]


@pytest.mark.parametrize("names, is_refused", [("City", True), ("Town", True), ("City, Town", False), ("", False)])
def test_a_type_is_not_renamed_out_of_the_rules_or_into_them(names: str, is_refused: bool, tmp_path: Path) -> None:
    """A `forbid` that names a type must stay in force, and a `permit` must not come into force, by a rename."""
    listed = ", ".join(f'"{name}"' for name in names.split(", ") if name)
    rules = f"""
    permit(principal, action, resource);
    forbid(principal in Group::"guests", action == Action::"see", resource)
      when {{ [{listed}].contains(resource.type) }};
    """
    graph = build_graph(tmp_path / "g", VARIANTS[0])
    policy = load_policies(tmp_path / "p", rules).of_graph("g")
    admin = open_as(graph, policy, Actor(name="root", groups=frozenset({"admins"})))
    renamed = graph.schema.replace("node City implements", 'node Town @rename_from("City") implements')
    renamed = renamed.replace("-> City", "-> Town")

    if is_refused:
        with pytest.raises(og.DeniedError, check=has_code("rules_name_type")):
            admin.apply_schema(renamed)
        assert "node City" in graph.schema
    else:
        admin.apply_schema(renamed)
        assert "Town" in graph.schema


def test_a_branch_on_which_an_actor_would_see_more_is_not_made(tmp_path: Path) -> None:
    rules = """
    permit(principal, action in [Action::"read", Action::"branch_create"], resource);
    permit(principal, action == Action::"see", resource) when { resource.type == "City" };
    permit(principal, action == Action::"see", resource in Branch::"g/mine");
    """
    graph = build_graph(tmp_path / "g", VARIANTS[1])
    acting = open_as(graph, load_policies(tmp_path / "p", rules).of_graph("g"), EVE)

    with pytest.raises(og.OmnigraphError, match="may not see every row of the branch `main`"):
        acting.branches.create("mine")
    acting.branches.create("other")

    # Made by somebody else, its newest state is its own, and any other that of the branch that made it.
    graph.branches.create("mine")
    count = "query q() { match { $p: Person } return { count(*) as n } }"
    first = graph.commits()[-2].id
    assert acting.query(count, branch="mine").rows() == [{"n": 19}]
    assert acting.query(count, branch="mine", snapshot=first).rows() == [{"n": 0}]


def test_hidden_rows_stay_hidden_after_an_optimization(tmp_path: Path, policies: CedarPolicies) -> None:
    graph = build_graph(tmp_path / "g", VARIANTS[1])
    acting = open_as(graph, policies.of_graph("g"))
    before = [ask(acting, query(text)) for text in READS.values()]

    graph.optimize()

    assert [ask(acting, query(text)) for text in READS.values()] == before


def test_a_row_that_is_hidden_meanwhile_is_not_written(tmp_path: Path, policies: CedarPolicies) -> None:
    """Visibility is part of what a write relies on: no commit of the actor has the row hidden before or after it."""
    schema = """
    node Person { name: String @key  region: String?  secret: Bool? }
    edge Knows: Person -> Person { since: I64? }
    """
    graph = og.create_graph(str(tmp_path / "g"), schema, runtime=runtime())
    graph.mutate('query a() { insert Person { name: "p0", region: "eu" } insert Person { name: "p1", region: "eu" } }')
    acting = open_as(graph, policies.of_graph("g"))
    writes = [
        'update Person set { region: "eu" } where name = "p0"',
        'insert Knows { from: "p0", to: "p1" }',
        'match { $p: Person { name: "p0" } } update $p set { region: "eu" }',
        'insert Person { name: "p0", region: "eu" }',
    ]

    def toggle() -> None:
        for number in range(16):
            value = "true" if number % 2 == 0 else "false"
            text = 'update Person set { secret: VALUE } where name = "p0"'.replace("VALUE", value)
            ask(graph, partial(mutate, text=text, actor="root"))

    def write(first: int) -> None:
        for number in range(8):
            text = writes[(first + number) % len(writes)]
            ask(acting, partial(mutate, text=text))

    with ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(toggle), pool.submit(write, 0), pool.submit(write, 2)]:
            future.result()

    flag = 'query s() { match { $p: Person { name: "p0" } } return { $p.secret } }'
    own = [commit for commit in graph.commits() if commit.actor == "eve"]
    states = [graph.query(flag, snapshot=state).rows()[0] for commit in own for state in (commit.parent, commit.id)]
    assert [state for state in states if state["p.secret"]] == []
