"""A hundred calls as every door takes them: what Python says, and what the command line says.

They are made in this order, of one graph for each door, so later ones rely on earlier ones. Python gives the JSON
document that the command prints. In arguments `@first`, `@last` and `@now` stand for commits of main and for a time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from typing import Any

from merging import try_merge
from omnigraph.lang.source import Source

SCHEMA = """node Person {
  name: String @key
  age: I64?
  born: Date?
  seen: DateTime?
  tags: [String]?
  photo: Blob?
}
node City { name: String @key  people: U64? }
edge Knows: Person -> Person { since: Date? }
edge LivesIn: Person -> City @card(0..1)
"""
WIDER = SCHEMA.replace("people: U64?", "people: U64?  country: String?")
RENAMED = WIDER.replace("seen: DateTime?", 'met: DateTime? @rename_from("seen")')
FEWER = RENAMED.replace("  born: Date?\n", "")
PEOPLE = """{"type":"Person","data":{"name":"Ada","age":36,"born":"1815-12-10","tags":["maths","poetry"]}}
{"type":"Person","data":{"name":"Bob","age":41,"seen":"2026-01-31T12:00:00Z"}}
{"type":"Person","data":{"name":"Cy","photo":"base64:aGVsbG8gYmxvYg=="}}
{"type":"City","data":{"name":"Rome","people":18446744073709551615}}
{"edge":"Knows","from":"Ada","to":"Bob","data":{"since":"2020-02-29"}}
{"edge":"LivesIn","from":"Ada","to":"Rome"}
"""
FILES = {
    "schema.pg": SCHEMA,
    "wider.pg": WIDER,
    "renamed.pg": RENAMED,
    "fewer.pg": FEWER,
    "broken.pg": "node Person {",
    "unfit.pg": FEWER.replace("age: I64?", "age: I64"),
    "other.pg": FEWER.replace("age: I64?", "age: String?"),
    "more.jsonl": '{"type":"Person","data":{"name":"Hal","age":9007199254740993}}\n',
    "changed.jsonl": '{"type":"Person","data":{"name":"Hal","age":null,"tags":["x"]}}\n',
    "cities.jsonl": '{"type":"City","data":{"name":"Rome"}}\n{"type":"City","data":{"name":"Oslo"}}\n',
    "bad.jsonl": '{"type":"Person","data":{"name":1}}\n{"type":"Persn","data":{}}\n',
    "dangling.jsonl": '{"edge":"Knows","from":"Ada","to":"Nobody"}\n',
    "pets.csv": "id;Name;born\n1;Rex;2020-01-31\n2;Mia;\n",
    "queries.gq": """query first() { match { $p: Person } return { $p.name } order { $p.name asc } limit 1 }
query count() { match { $p: Person } return { count($p) as n } }
query grow($n: String, $by: I64) { update Person set { age: $by } where name = $n }
""",
}
ALL = "query people() { match { $p: Person } return { $p.name, $p.age } order { $p.name asc } }"
WHOLE = "query q() { match { $p: Person } return { $p } order { $p.name asc } }"
SQL = "select name, age from Person order by name"
SQL_NAME = "select name, age from Person where name = $n"
BY_NAME = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age, $p.tags } }"
PATHS = "query q() { match { $a: Person $a knows $b $a livesIn $c } return { $a.name, $b.name, $c.people } }"
TYPED = (
    "query q($n: I64, $d: Date, $t: DateTime, $l: [String], $b: Bool)"
    " { match { $p: Person $p.age < $n $p.born < $d } return { $p.name, $p.born } }"
)
ADD = "query add($n: String) { insert Person { name: $n } }"
UPDATE = "query u($n: String, $a: I64) { update Person set { age: $a } where name = $n }"
REMOVE = "query r($n: String) { delete Person where name = $n }"
MISTAKE = "query q() { match { $p: Persn } return { $p.name } }"
TWO_MISTAKES = "query q($x: Nope) { match { $p: Person } return { $p.nme } }"
NO_END = 'query e() { insert Knows { from: "Nope", to: "Ada" } }'
TWO_HOMES = 'query e() { insert LivesIn { from: "Bob", to: "Rome" } insert LivesIn { from: "Bob", to: "Oslo" } }'
SHORT = timedelta(0)
NOBODY = "01JC0000000000000000000000"
FAR = datetime(2999, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(1999, 1, 1, tzinfo=UTC)

Python = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Call:
    """One call: its name, what Python does with the graph and the door, and the words of the command."""

    name: str
    python: Python
    words: tuple[str, ...]
    exit: int = 0
    """The exit code of what is no error."""
    signs: bool = False
    """Whether the command takes who signs; through a server, the token says it."""
    as_json: bool = True
    text: bool = False
    """Whether it changes nothing, so that its text for people is compared, too."""


def read(name: str, python: Python, *words: str, exit: int = 0) -> Call:
    """A call that changes nothing."""
    return Call(name, python, words, exit=exit, text=True)


def write(name: str, python: Python, *words: str, exit: int = 0) -> Call:
    """A call whose commit, branch or tag is somebody's."""
    return Call(name, python, words, exit=exit, signs=True)


def plain(name: str, python: Python, *words: str, exit: int = 0) -> Call:
    """A call that changes something, and that nobody signs."""
    return Call(name, python, words, exit=exit)


def lines(name: str, python: Python, *words: str) -> Call:
    """A call whose answer is lines."""
    return Call(name, python, words, as_json=False)


def query(graph: Any, source: str | Source, **how: Any) -> Any:
    return graph.query(source, **how).to_json()


def typed(source: str) -> Source:
    """A text as a command line names it."""
    return Source(source, "<-e>")


def text(name: str) -> str:
    return FILES[name]


def written(result: Any, format_: str) -> bytes:
    out = BytesIO()
    result.write(out, format_)
    return out.getvalue()


def exported(graph: Any, **how: Any) -> bytes:
    out = BytesIO()
    graph.export(out, **how)
    return out.getvalue()


def snapshot(graph: Any, **how: Any) -> dict[str, Any]:
    shown = {**graph.snapshot(**how).to_json(), "operations": graph.operations().to_json()}
    is_past = "snapshot" in how or "at" in how
    due = () if is_past else graph.optimize(branch=how.get("branch", "main"), dry_run=True).due
    return {**shown, "due": [one.table_key for one in due]}


def feed(graph: Any, branch: str = "main", **how: Any) -> dict[str, Any]:
    found = graph.changes(branch=branch, **how)
    return {"branch": branch, "changes": [one.to_json() for one in found], "cursor": found.cursor}


def shown(graph: Any, commit_id: str, **how: Any) -> dict[str, Any]:
    counts = graph.commit_changes(commit_id, **how).counts()
    return {**graph.commit(commit_id, **how).to_json(), "types": {name: one.to_json() for name, one in counts.items()}}


def history(graph: Any, type_: str, id_: str, branch: str = "main", **how: Any) -> dict[str, Any]:
    found = graph.history(type_, id_, branch=branch, **how).to_json()
    return {"branch": branch, "type": type_, "id": id_, **found}


def indexes(graph: Any, branch: str = "main") -> dict[str, Any]:
    return {"branch": branch, "indexes": [one.to_json() for one in graph.indexes(branch=branch)]}


READS = [
    read("schema", lambda g, _: g.accepted_schema().to_json(), "schema", "show"),
    read("rows", lambda g, _: query(g, ALL), "query", "-e", ALL),
    read("whole nodes", lambda g, _: query(g, WHOLE), "query", "-e", WHOLE),
    read("paths", lambda g, _: query(g, PATHS), "query", "-e", PATHS),
    read(
        "a parameter",
        lambda g, _: query(g, BY_NAME, params={"n": "Ada"}),
        *("query", "-e", BY_NAME, "--params", '{"n": "Ada"}'),
    ),
    read(
        "no row",
        lambda g, _: query(g, BY_NAME, params={"n": "Zoe"}),
        *("query", "-e", BY_NAME, "--param", "n=Zoe"),
    ),
    read(
        "parameters of many types",
        lambda g, _: query(
            g,
            TYPED,
            params={"n": 99, "d": "1900-01-01", "t": "2026-01-31T12:00:00Z", "l": ["a"], "b": True},
        ),
        *("query", "-e", TYPED, "--params"),
        '{"n": 99, "d": "1900-01-01", "t": "2026-01-31T12:00:00Z", "l": ["a"], "b": true}',
    ),
    read(
        "texts of many types",
        lambda g, _: query(
            g,
            TYPED,
            params={"n": 99, "d": "1900-01-01", "t": "2026-01-31T12:00:00Z", "l": ["a"], "b": True},
        ),
        *("query", "-e", TYPED, "--param", "n=99", "--param", "d=1900-01-01", "--param", "t=2026-01-31T12:00:00Z"),
        *("--param", 'l=["a"]', "--param", "b=true"),
    ),
    read(
        "one query of a file",
        lambda g, _: query(g, text("queries.gq"), name="count"),
        *("query", "count", "--query", "queries.gq"),
    ),
    read("a commit", lambda g, d: query(g, ALL, snapshot=d.first), "query", "-e", ALL, "--snapshot", "@first"),
    read("a time", lambda g, _: query(g, ALL, at=FAR), "query", "-e", ALL, "--at", "2999-01-01T00:00:00Z"),
    read(
        "an algorithm",
        lambda g, _: g.algorithms.run("core_numbers", "Knows").to_json(),
        *("algorithm", "core_numbers", "--edge", "Knows"),
    ),
    read(
        "an algorithm of several types",
        lambda g, _: g.algorithms.run("shortest_paths", ["Knows", "LivesIn"], {"start": "Person/Ada"}).to_json(),
        *("algorithm", "shortest_paths", "--edge", "Knows", "--edge", "LivesIn", "--param", "start=Person/Ada"),
    ),
    read("sql", lambda g, _: g.sql(SQL).to_json(), "sql", SQL),
    read(
        "sql with a parameter",
        lambda g, _: g.sql(SQL_NAME, {"n": "Ada"}).to_json(),
        "sql",
        SQL_NAME,
        "--param",
        "n=Ada",
    ),
    read("cypher", lambda g, _: g.cypher("RETURN 1 AS n").to_json(), "query", "--cypher", "RETURN 1 AS n"),
    read("sql of a commit", lambda g, d: g.sql(SQL, snapshot=d.first).to_json(), "sql", SQL, "--snapshot", "@first"),
    read("explain", lambda g, _: g.explain(ALL).to_json(), "explain", "-e", ALL),
    read("explain paths", lambda g, _: g.explain(PATHS).to_json(), "explain", "-e", PATHS),
    read("snapshot", lambda g, _: snapshot(g), "snapshot"),
    read("a past snapshot", lambda g, d: snapshot(g, snapshot=d.first), "snapshot", "--snapshot", "@first"),
    read("commits", lambda g, _: g.commit_page().to_json(), "commit", "list"),
    read("indexes", lambda g, _: indexes(g), "indexes"),
    read("recoveries", lambda g, _: {"recoveries": [one.to_json() for one in g.recoveries()]}, "recoveries"),
    read(
        "commits of all branches",
        lambda g, _: g.commit_page(all_branches=True, include_maintenance=True, limit=3).to_json(),
        *("commit", "list", "--all-branches", "--limit", "3"),
    ),
    read("branches", lambda g, _: {"branches": [one.to_json() for one in g.branches.list()]}, "branch", "list"),
    read("no tags", lambda g, _: {"tags": [one.to_json() for one in g.tags.list()]}, "tag", "list"),
    lines("lines", lambda g, _: written(g.query(ALL), "jsonl"), "query", "-e", ALL, "--format", "jsonl"),
    lines("csv", lambda g, _: written(g.query(WHOLE), "csv"), "query", "-e", WHOLE, "--format", "csv"),
    plain(
        "export to a file",
        lambda g, _: {"output": "out.jsonl", **g.export("out.jsonl").to_json()},
        *("export", "--output", "out.jsonl", "--quiet"),
    ),
    plain(
        "export of no rows",
        lambda g, d: {"output": "none.jsonl", **g.export("none.jsonl", snapshot=d.first).to_json()},
        *("export", "--output", "none.jsonl", "--snapshot", "@first", "--quiet"),
    ),
    lines("export", lambda g, _: exported(g), "export"),
    lines("export of a type", lambda g, _: exported(g, types=["City"]), "export", "--type", "City"),
    lines("export of a commit", lambda g, d: exported(g, snapshot=d.first), "export", "--snapshot", "@first"),
]


WRITES = [
    write("branch", lambda g, _: g.branches.create("work/one").to_json(), "branch", "create", "work/one"),
    write(
        "insert",
        lambda g, _: g.mutate(ADD, params={"n": "Cleo"}, branch="work/one", message="one more").to_json(),
        *("mutate", "-e", ADD, "--param", "n=Cleo", "--branch", "work/one", "--message", "one more"),
    ),
    read(
        "a dry run of a mutation",
        lambda g, _: g.mutate(UPDATE, params={"n": "Ada", "a": 5}, dry_run=True).to_json(),
        *("mutate", "-e", UPDATE, "--params", '{"n": "Ada", "a": 5}', "--dry-run"),
    ),
    write(
        "update",
        lambda g, _: g.mutate(UPDATE, params={"n": "Ada", "a": 2**60}, branch="work/one").to_json(),
        *("mutate", "-e", UPDATE, "--params", f'{{"n": "Ada", "a": {2**60}}}', "--branch", "work/one"),
    ),
    read("a branch", lambda g, _: query(g, ALL, branch="work/one"), "query", "-e", ALL, "--branch", "work/one"),
    write(
        "no effect",
        lambda g, _: g.mutate(UPDATE, params={"n": "Nobody", "a": 1}).to_json(),
        *("mutate", "-e", UPDATE, "--params", '{"n": "Nobody", "a": 1}'),
    ),
    read("diff", lambda g, _: g.diff("main", "work/one").to_json(), "diff", "main", "work/one"),
    read(
        "diff of a type",
        lambda g, _: g.diff("main", "work/one", types=["City"]).to_json(),
        *("diff", "main", "work/one", "--type", "City"),
    ),
    read("diff of commits", lambda g, d: g.diff(d.first, d.last).to_json(), "diff", "@first", "@last"),
    lines(
        "lines of a diff",
        lambda g, _: b"".join(g.diff("main", "work/one").json_lines()),
        *("diff", "main", "work/one", "--format", "jsonl"),
    ),
    Call(
        "dry merge",
        lambda g, _: g.merge("work/one", dry_run=True).to_json(),
        ("branch", "merge", "work/one", "--dry-run"),
        signs=True,
        text=True,
    ),
    write(
        "merge",
        lambda g, _: g.merge("work/one", message="together").to_json(),
        *("branch", "merge", "work/one", "--message", "together"),
    ),
    write("merge again", lambda g, _: g.merge("work/one").to_json(), "branch", "merge", "work/one"),
    read("the branches", lambda g, _: {"branches": [one.to_json() for one in g.branches.list()]}, "branch", "list"),
    plain(
        "branch delete",
        lambda g, _: {"deleted": g.branches.delete("work/one").to_json()},
        *("branch", "delete", "work/one", "--yes"),
    ),
    write(
        "append",
        lambda g, _: g.load("more.jsonl", mode="append").to_json(),
        *("load", "--mode", "append", "--data", "more.jsonl", "--quiet"),
    ),
    write(
        "load with repeats",
        lambda g, _: g.load("more.jsonl", mode="merge", on_duplicate="last").to_json(),
        *("load", "--mode", "merge", "--data", "more.jsonl", "--on-duplicate", "last", "--quiet"),
    ),
    write(
        "dry load",
        lambda g, _: g.load("changed.jsonl", mode="merge", dry_run=True).to_json(),
        *("load", "--mode", "merge", "--data", "changed.jsonl", "--dry-run", "--quiet"),
    ),
    write(
        "merge by load",
        lambda g, _: g.load("changed.jsonl", mode="merge").to_json(),
        *("load", "--mode", "merge", "--data", "changed.jsonl", "--quiet"),
    ),
    write(
        "overwrite",
        lambda g, _: g.load("cities.jsonl", mode="overwrite").to_json(),
        *("load", "--mode", "overwrite", "--data", "cities.jsonl", "--yes", "--quiet"),
    ),
    write(
        "load into a new branch",
        lambda g, _: g.load(["more.jsonl", "cities.jsonl"], mode="merge", branch="fresh", from_="main").to_json(),
        *("load", "--mode", "merge", "--data", "more.jsonl", "--data", "cities.jsonl"),
        *("--branch", "fresh", "--from", "main", "--quiet"),
    ),
    write(
        "load into a branch that may be there",
        lambda g, _: g.load("more.jsonl", mode="merge", branch="fresh", from_="main", if_exists=True).to_json(),
        *("load", "--mode", "merge", "--data", "more.jsonl"),
        *("--branch", "fresh", "--from", "main", "--if-exists", "--quiet"),
    ),
    write(
        "a key",
        lambda g, _: g.mutate(ADD, params={"n": "Once"}, idempotency_key="k").to_json(),
        *("mutate", "-e", ADD, "--params", '{"n": "Once"}', "--idempotency-key", "k"),
    ),
    write(
        "the same key",
        lambda g, _: g.mutate(ADD, params={"n": "Once"}, idempotency_key="k").to_json(),
        *("mutate", "-e", ADD, "--params", '{"n": "Once"}', "--idempotency-key", "k"),
    ),
    write(
        "on the newest commit",
        lambda g, d: g.mutate(REMOVE, params={"n": "Once"}, if_commit=d.last).to_json(),
        *("mutate", "-e", REMOVE, "--param", "n=Once", "--if-commit", "@last"),
    ),
    write(
        "one mutation of a file",
        lambda g, _: g.mutate(text("queries.gq"), name="grow", params={"n": "Bob", "by": 42}).to_json(),
        *("mutate", "grow", "--query", "queries.gq", "--params", '{"n": "Bob", "by": 42}'),
    ),
]

PAST = [
    write("tag", lambda g, _: g.tags.create("v1").to_json(), "tag", "create", "v1"),
    write("tag of a commit", lambda g, d: g.tags.create("v0", d.first).to_json(), "tag", "create", "v0", "@first"),
    read("tags", lambda g, _: {"tags": [one.to_json() for one in g.tags.list()]}, "tag", "list"),
    read("a tag", lambda g, _: query(g, ALL, snapshot="v1"), "query", "-e", ALL, "--snapshot", "v1"),
    plain("tag delete", lambda g, _: {"deleted": g.tags.delete("v0").to_json()}, "tag", "delete", "v0", "--yes"),
    read("two commits", lambda g, _: g.commit_page(limit=2).to_json(), "commit", "list", "--limit", "2"),
    read(
        "commits before one",
        lambda g, d: g.commit_page(before=d.last, limit=2).to_json(),
        *("commit", "list", "--before", "@last", "--limit", "2"),
    ),
    read(
        "commits of loads",
        lambda g, _: g.commit_page(filters={"operation": "load", "actor": "admin"}).to_json(),
        *("commit", "list", "--filter", "operation=load", "--filter", "actor=admin"),
    ),
    read(
        "commits of a branch",
        lambda g, _: g.commit_page(branch="fresh", limit=1).to_json(),
        *("commit", "list", "--branch", "fresh", "--limit", "1"),
    ),
    read(
        "no such commits",
        lambda g, _: g.commit_page(filters={"actor": "eve"}).to_json(),
        *("commit", "list", "--filter", "actor=eve"),
    ),
    read("one commit", lambda g, d: g.commit(d.last).to_json(), "commit", "show", "@last"),
    read("one commit counted", lambda g, d: shown(g, d.last), "commit", "show", "@last", "--stat"),
    read(
        "one commit of a branch",
        lambda g, d: shown(g, d.first, branch="fresh"),
        *("commit", "show", "@first", "--branch", "fresh", "--stat"),
    ),
    read("changes", lambda g, _: feed(g), "changes"),
    read("changes since", lambda g, d: feed(g, since=d.last), "changes", "--since", "@last"),
    read(
        "changes of a type",
        lambda g, _: feed(g, types=["City"], limit=3),
        *("changes", "--type", "City", "--limit", "3"),
    ),
    read("changes of a branch", lambda g, _: feed(g, "fresh", limit=2), "changes", "--branch", "fresh", "--limit", "2"),
    lines("lines of changes", lambda g, _: b"".join(g.changes().blocks()), "changes", "--format", "jsonl"),
    lines(
        "lines of two changes",
        lambda g, d: b"".join(g.changes(since=d.first, limit=2).blocks()),
        *("changes", "--format", "jsonl", "--since", "@first", "--limit", "2"),
    ),
    lines(
        "following until the limit",
        lambda g, d: b"".join(g.changes(since=d.first, limit=3, follow=True).blocks()),
        *("changes", "--since", "@first", "--limit", "3", "--follow"),
    ),
    read("history", lambda g, _: history(g, "Person", "Ada"), "history", "Person", "Ada"),
    read(
        "history of what is gone",
        lambda g, _: history(g, "Person", "Once", limit=1),
        *("history", "Person", "Once", "--limit", "1"),
    ),
    read(
        "history on a branch",
        lambda g, _: history(g, "City", "Oslo", "fresh"),
        *("history", "City", "Oslo", "--branch", "fresh"),
    ),
    read(
        "a past schema",
        lambda g, d: g.accepted_schema(snapshot=d.first).to_json(),
        *("schema", "show", "--snapshot", "@first"),
    ),
    read("plan", lambda g, _: g.plan_schema(WIDER).to_json(), "schema", "plan", "--schema", "wider.pg"),
    write("apply", lambda g, _: g.apply_schema(WIDER).to_json(), "schema", "apply", "--schema", "wider.pg", "--yes"),
    write(
        "apply nothing",
        lambda g, _: g.apply_schema(WIDER).to_json(),
        "schema",
        "apply",
        "--schema",
        "wider.pg",
        "--yes",
    ),
    read("plan a rename", lambda g, _: g.plan_schema(RENAMED).to_json(), "schema", "plan", "--schema", "renamed.pg"),
    write(
        "rename",
        lambda g, _: g.apply_schema(RENAMED, message="met").to_json(),
        *("schema", "apply", "--schema", "renamed.pg", "--message", "met", "--yes"),
    ),
    read("plan a drop", lambda g, _: g.plan_schema(FEWER).to_json(), "schema", "plan", "--schema", "fewer.pg"),
    read(
        "plan a loss",
        lambda g, _: g.plan_schema(FEWER, allow_data_loss=True).to_json(),
        *("schema", "plan", "--schema", "fewer.pg", "--allow-data-loss"),
    ),
    write(
        "drop for good",
        lambda g, _: g.apply_schema(FEWER, allow_data_loss=True).to_json(),
        *("schema", "apply", "--schema", "fewer.pg", "--allow-data-loss", "--yes"),
    ),
    read(
        "plan what can't be",
        lambda g, _: g.plan_schema(text("other.pg")).to_json(),
        *("schema", "plan", "--schema", "other.pg"),
        exit=1,
    ),
    read("changes of schemas", lambda g, _: feed(g, types=["City"]), "changes", "--type", "City"),
    write("a side", lambda g, _: g.branches.create("against").to_json(), "branch", "create", "against"),
    write(
        "their word",
        lambda g, _: g.mutate(UPDATE, params={"n": "Bob", "a": 1}, branch="against").to_json(),
        *("mutate", "-e", UPDATE, "--params", '{"n": "Bob", "a": 1}', "--branch", "against"),
    ),
    write(
        "our word",
        lambda g, _: g.mutate(UPDATE, params={"n": "Bob", "a": 2}).to_json(),
        *("mutate", "-e", UPDATE, "--params", '{"n": "Bob", "a": 2}'),
    ),
    Call(
        "conflicts",
        lambda g, _: try_merge(g, "against").to_json(),
        ("branch", "merge", "against"),
        exit=3,
        signs=True,
        text=True,
    ),
    write(
        "settled",
        lambda g, _: g.merge("against", strategy="theirs").to_json(),
        *("branch", "merge", "against", "--strategy", "theirs"),
    ),
    Call(
        "what a revert would do",
        lambda g, d: g.revert(d.last, dry_run=True).to_json(),
        ("revert", "@last", "--dry-run"),
        signs=True,
        text=True,
    ),
    write("revert", lambda g, d: g.revert(d.last).to_json(), "revert", "@last"),
    write("revert of a revert", lambda g, d: g.revert(d.last).to_json(), "revert", "@last"),
    write("nothing to pick", lambda g, d: g.cherry_pick(d.last).to_json(), "cherry-pick", "@last"),
    write(
        "a pick for a branch",
        lambda g, d: g.cherry_pick(d.last, branch="against", message="this too").to_json(),
        *("cherry-pick", "@last", "--branch", "against", "--message", "this too"),
    ),
    write("nothing to reset", lambda g, d: g.reset("main", to=d.last).to_json(), "reset", "main", "--to", "@last"),
    write(
        "reset",
        lambda g, _: g.reset("against", to="main").to_json(),
        *("reset", "against", "--to", "main"),
    ),
]

UPKEEP = [
    Call(
        "worth optimising",
        lambda g, _: g.optimize(dry_run=True).to_json(),
        ("optimize", "--dry-run", "--quiet"),
        signs=True,
        text=True,
    ),
    write(
        "optimize",
        lambda g, _: g.optimize(types=["Person"], all_indexes=True, message="tidy").to_json(),
        *("optimize", "--type", "Person", "--all-indexes", "--message", "tidy", "--quiet"),
    ),
    read("indexes of a branch", lambda g, _: indexes(g, "fresh"), "indexes", "--branch", "fresh"),
    read(
        "cleanup preview",
        lambda g, _: g.cleanup(keep=3, grace=SHORT).to_json(),
        *("cleanup", "--keep", "3", "--grace", "0s", "--quiet"),
    ),
    plain(
        "cleanup",
        lambda g, _: g.cleanup(keep=3, grace=SHORT, confirm=True).to_json(),
        *("cleanup", "--keep", "3", "--grace", "0s", "--confirm", "--yes", "--quiet"),
    ),
    read("collected commits", lambda g, _: g.commit_page().to_json(), "commit", "list"),
    read("quick check", lambda g, _: g.check(quick=True).to_json(), "check", "--quick", "--quiet"),
    read("check", lambda g, _: g.check().to_json(), "check", "--quiet"),
    read("check of a branch", lambda g, _: g.check(branch="fresh").to_json(), "check", "--branch", "fresh", "--quiet"),
    read("verify", lambda g, _: g.verify().to_json(), "verify", "--quiet"),
    read("verify a branch", lambda g, _: g.verify(branch="fresh").to_json(), "verify", "--branch", "fresh", "--quiet"),
    Call("repair preview", lambda g, _: g.repair().to_json(), ("repair",), signs=True, text=True),
]

ERRORS = [
    read("a mistake", lambda g, _: query(g, typed(MISTAKE)), "query", "-e", MISTAKE),
    read("two mistakes", lambda g, _: g.explain(typed(TWO_MISTAKES)), "explain", "-e", TWO_MISTAKES),
    read(
        "no such algorithm",
        lambda g, _: g.algorithms.run("pagerang", "Knows"),
        *("algorithm", "pagerang", "--edge", "Knows"),
    ),
    read("no such table", lambda g, _: g.sql("select * from Persn"), "sql", "select * from Persn"),
    read("sql that writes", lambda g, _: g.sql("drop table Person"), "sql", "drop table Person"),
    read("sql too slow", lambda g, _: g.sql(SQL, seconds=1e-9), "sql", SQL, "--timeout", "0.000000001"),
    read("sql without a parameter", lambda g, _: g.sql(SQL_NAME), "sql", SQL_NAME),
    read("no such query", lambda g, _: query(g, typed(ALL), name="nope"), "query", "nope", "-e", ALL),
    read(
        "which query", lambda g, _: query(g, Source(text("queries.gq"), "queries.gq")), "query", "--query", "queries.gq"
    ),
    read("not a read", lambda g, _: query(g, ADD, params={"n": "x"}), "query", "-e", ADD, "--param", "n=x"),
    write("not a mutation", lambda g, _: g.mutate(ALL), "mutate", "-e", ALL),
    read(
        "a parameter too many", lambda g, _: query(g, ALL, params={"x": 1}), "query", "-e", ALL, "--params", '{"x": 1}'
    ),
    read("a parameter too few", lambda g, _: query(g, BY_NAME), "query", "-e", BY_NAME),
    read(
        "a parameter of another type",
        lambda g, _: query(g, BY_NAME, params={"n": 7}),
        *("query", "-e", BY_NAME, "--params", '{"n": 7}'),
    ),
    read("no branch", lambda g, _: query(g, ALL, branch="fresk"), "query", "-e", ALL, "--branch", "fresk"),
    read("no commit", lambda g, _: query(g, ALL, snapshot=NOBODY), "query", "-e", ALL, "--snapshot", NOBODY),
    read(
        "no state that early",
        lambda g, _: query(g, ALL, at=LONG_AGO),
        "query",
        "-e",
        ALL,
        "--at",
        "1999-01-01T00:00:00Z",
    ),
    read(
        "a collected commit", lambda g, d: query(g, ALL, snapshot=d.second), "query", "-e", ALL, "--snapshot", "@second"
    ),
    read("too slow", lambda g, _: query(g, ALL, seconds=1e-9), "query", "-e", ALL, "--timeout", "0.000000001"),
    read("too large", lambda g, _: query(g, ALL, memory_bytes=1), "query", "-e", ALL, "--memory", "1B"),
    write("no end", lambda g, _: g.mutate(NO_END), "mutate", "-e", NO_END),
    write("too many ends", lambda g, _: g.mutate(TWO_HOMES), "mutate", "-e", TWO_HOMES),
    write(
        "a head that moved",
        lambda g, _: g.mutate(ADD, params={"n": "y"}, if_commit=NOBODY),
        *("mutate", "-e", ADD, "--param", "n=y", "--if-commit", NOBODY),
    ),
    write(
        "a key of another call",
        lambda g, _: g.mutate(ADD, params={"n": "other"}, idempotency_key="k"),
        *("mutate", "-e", ADD, "--param", "n=other", "--idempotency-key", "k"),
    ),
    write(
        "a key that is too long",
        lambda g, _: g.mutate(ADD, params={"n": "other"}, idempotency_key="k" * 3_000),
        *("mutate", "-e", ADD, "--param", "n=other", "--idempotency-key", "k" * 3_000),
    ),
    write(
        "bad records",
        lambda g, _: g.load("bad.jsonl", mode="append"),
        *("load", "--mode", "append", "--data", "bad.jsonl", "--quiet"),
    ),
    write(
        "a dangling edge",
        lambda g, _: g.load("dangling.jsonl", mode="append"),
        *("load", "--mode", "append", "--data", "dangling.jsonl", "--quiet"),
    ),
    write(
        "a record that is there",
        lambda g, _: g.load("more.jsonl", mode="append"),
        *("load", "--mode", "append", "--data", "more.jsonl", "--quiet"),
    ),
    write(
        "no file",
        lambda g, _: g.load("nope.jsonl", mode="append"),
        *("load", "--mode", "append", "--data", "nope.jsonl", "--quiet"),
    ),
    read("no type", lambda g, _: exported(g, types=["Persn"]), "export", "--type", "Persn", "--output", "x.jsonl"),
    write("a name that won't do", lambda g, _: g.branches.create("../x"), "branch", "create", "../x"),
    write(
        "load into a branch that must not be there",
        lambda g, _: g.load("more.jsonl", mode="merge", branch="fresh", from_="main"),
        *("load", "--mode", "merge", "--data", "more.jsonl", "--branch", "fresh", "--from", "main", "--quiet"),
    ),
    write("a name that is taken", lambda g, _: g.branches.create("fresh"), "branch", "create", "fresh"),
    write("no source", lambda g, _: g.branches.create("x", from_="nope"), "branch", "create", "x", "--from", "nope"),
    plain("main stays", lambda g, _: g.branches.delete("main"), "branch", "delete", "main", "--yes"),
    plain("no such branch", lambda g, _: g.branches.delete("nope"), "branch", "delete", "nope", "--yes"),
    write("merge with itself", lambda g, _: g.merge("main"), "branch", "merge", "main"),
    write("revert of the first", lambda g, d: g.revert(d.first), "revert", "@first"),
    write("merge of nothing", lambda g, _: g.merge("nope"), "branch", "merge", "nope"),
    write("a tag that won't do", lambda g, _: g.tags.create("a b"), "tag", "create", "a b"),
    write("a tag that is taken", lambda g, _: g.tags.create("v1"), "tag", "create", "v1"),
    write("a tag of nothing", lambda g, _: g.tags.create("v2", "nope"), "tag", "create", "v2", "nope"),
    plain("no such tag", lambda g, _: g.tags.delete("v9"), "tag", "delete", "v9", "--yes"),
    read("no commit to show", lambda g, _: g.commit(NOBODY), "commit", "show", NOBODY),
    read(
        "a bad filter",
        lambda g, _: g.commit_page(filters={"colour": "red"}),
        "commit",
        "list",
        "--filter",
        "colour=red",
    ),
    read("no such state", lambda g, _: g.diff("main", "nope"), "diff", "main", "nope"),
    read("no such type", lambda g, _: g.diff("main", "fresh", types=["Cty"]), "diff", "main", "fresh", "--type", "Cty"),
    read("a feed behind nothing", lambda g, _: feed(g, since=NOBODY), "changes", "--since", NOBODY),
    read("a feed of no type", lambda g, _: feed(g, types=["Cty"]), "changes", "--type", "Cty"),
    read("a feed that was collected", lambda g, d: feed(g, since=d.first), "changes", "--since", "@first"),
    read("nobody's history", lambda g, _: history(g, "Person", "Adaa"), "history", "Person", "Adaa"),
    read("history of no type", lambda g, _: history(g, "Persn", "Ada"), "history", "Persn", "Ada"),
    read(
        "a schema with a mistake",
        lambda g, _: g.plan_schema(Source(text("broken.pg"), "broken.pg")),
        "schema",
        "plan",
        "--schema",
        "broken.pg",
    ),
    write(
        "a schema that does not fit",
        lambda g, _: g.apply_schema(text("unfit.pg")),
        *("schema", "apply", "--schema", "unfit.pg", "--yes"),
    ),
    write(
        "a schema that can't be",
        lambda g, _: g.apply_schema(text("other.pg")),
        *("schema", "apply", "--schema", "other.pg", "--yes"),
    ),
    write("nothing to optimise", lambda g, _: g.optimize(types=["Cty"]), "optimize", "--type", "Cty", "--quiet"),
    read("check of no branch", lambda g, _: g.check(branch="nope"), "check", "--branch", "nope", "--quiet"),
    read("no digest", lambda g, _: g.verify(digest="short"), "verify", "--digest", "short", "--quiet"),
    read("an unknown digest", lambda g, _: g.verify(digest="x" * 43), "verify", "--digest", "x" * 43, "--quiet"),
    write("no vectors", lambda g, _: g.embed("Person"), "embed", "--type", "Person", "--quiet"),
]

CALLS = [*READS, *WRITES, *PAST, *UPKEEP, *ERRORS]
