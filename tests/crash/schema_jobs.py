"""What the children of the crash tests of schema changes do. Every function runs in its own process."""

from crash.jobs import armed
from crash.merge_jobs import opened
from omnigraph.graph import Graph
from omnigraph.lang.source import Source
from worlds import runtime

SCHEMA = """
node P { name: String @key  n: I32?  told: String? }
node C { name: String @key  v: I32? }
edge Knows: P -> P { w: I32? }
"""
RENAMED = SCHEMA.replace("n: I32?", 'num: I32? @rename_from("n")').replace("C {", 'Town @rename_from("C") {')
FILLED = SCHEMA.replace("n: I32?", "n: I32?  rank: I32 @default(7)").replace("w: I32?", "w: I32?  z: I32 @default(3)")
DROPPED = SCHEMA.replace("  told: String?", "").replace("node C { name: String @key  v: I32? }\n", "")
ALL = (
    DROPPED.replace("n: I32?", 'num: I32? @rename_from("n")  rank: I32 @default(7)').replace(
        "w: I32?", "w: I32?  z: I32 @default(3)"
    )
    + "node New { name: String @key }\n"
)
CHANGES = {"all": ALL, "renamed": RENAMED, "filled": FILLED, "dropped": DROPPED}


def seeded(uri: str) -> Graph:
    """A graph with two files of persons, one of whom is deleted."""
    graph = Graph.create(uri, Source(SCHEMA, "schema.pg"), actor="ada", runtime=runtime())
    for names in ("abc", "de"):
        inserts = " ".join(f'insert P {{ name: "{name}", n: 1, told: "psst" }}' for name in names)
        graph.mutate(f"query q() {{ {inserts} }}")
    graph.mutate('query q() { insert C { name: "x" } insert Knows { from: "a", to: "b", w: 1 } }')
    graph.mutate('query q() { delete P where name = "c" }')
    return graph


def apply(uri: str, change: str) -> str | None:
    """Change the schema, with faults; drops are hard."""
    graph = opened(uri)
    graph._session.store.runtime = armed()
    return graph.apply_schema(CHANGES[change], allow_data_loss=True).commit_id


def look(uri: str) -> dict[str, object]:
    """Read-only: every row of every type, and the schema."""
    return found(opened(uri, is_read_only=True))


def found(graph: Graph) -> dict[str, object]:
    """Every row of every type, by its columns, and what the schema says."""
    snapshot = graph.snapshot()
    tables = {key: graph.table(key.partition(":")[2]).to_table() for key in sorted(snapshot.pins)}
    rows = {key: sorted(table.to_pylist(), key=repr) for key, table in tables.items()}
    for key, pin in snapshot.pins.items():
        assert len(rows[key]) == pin.rows
    return {"rows": rows, "schema": snapshot.manifest.schema.fingerprint}
