"""A graph with two branches to merge, and what it holds."""

from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.ops.merge_result import MergeResult
from worlds import runtime

SCHEMA = """
node P { name: String @key  n: I32?  m: I32?  email: String?  photo: Blob?  @unique(email)  @range(n, 0..100) }
node C { name: String @key  v: I32? }
edge Knows: P -> P { w: I32?  z: I32?  @key(src, dst) }
edge Owns: P -> C @card(0..1) { w: I32?  @key(src, dst) }
"""
Contents = dict[str, dict[str, dict[str, Any]]]


def new_graph(root: Path, schema: str = SCHEMA) -> og.Graph:
    """A graph with persons `a`..`d`, two cities and an edge, and the branch `dev`."""
    graph = og.create_graph(str(root / "g"), schema, runtime=runtime())
    run(graph, " ".join(f'insert P {{ name: "{name}", n: 1, m: 1 }}' for name in "abcd"))
    run(graph, 'insert C { name: "x" } insert C { name: "y" } insert Knows { from: "a", to: "b", w: 1, z: 1 }')
    graph.branches.create("dev")
    return graph


def run(graph: og.Graph, statements: str, branch: str = "main", **params: Any) -> None:
    """Run statements on a branch; parameters are blobs."""
    declared = ", ".join(f"${name}: Blob" for name in params)
    graph.mutate(f"query q({declared}) {{ {statements} }}", branch=branch, params=params)


def change(type_name: str, prop: str, value: object, **where: str) -> str:
    """A statement that sets one property of rows."""
    chosen = " and ".join(f'{name.rstrip("_")} = "{text}"' for name, text in where.items())
    return " ".join(("update", type_name, "set", f"{{ {prop}: {value} }}", "where", chosen))


def scatter(graph: og.Graph) -> None:
    """Write persons `k0`..`k11`, each into a file of its own, so that there is something to compact."""
    for number in range(12):
        run(graph, f'insert P {{ name: "k{number}", n: 1, m: 1 }}')


def contents(graph: og.Graph, branch: str = "main") -> Contents:
    """Every row of a branch, by type and id, without blobs."""
    snapshot = graph.snapshot(branch=branch)
    found: Contents = {}
    for key in snapshot.pins:
        name = key.partition(":")[2]
        table = graph.table(name, branch=branch).to_table()
        rows = table.drop_columns([c for c in table.column_names if c == "photo"]).to_pylist()
        found[name] = {row.pop("id"): row for row in rows}
        assert len(found[name]) == table.num_rows == snapshot.pins[key].rows
    return found


def row(graph: og.Graph, row_id: str, branch: str = "main", type_name: str = "P") -> dict[str, Any] | None:
    """One row."""
    return contents(graph, branch)[type_name].get(row_id)


def try_merge(graph: og.Graph | og.RemoteGraph, source: str, **options: Any) -> MergeResult:
    """Merge a branch, and return the result with conflicts too."""
    try:
        return graph.merge(source, **options)
    except og.MergeConflictsError as error:
        return error.result


def kinds(done: MergeResult) -> list[tuple[str, str, str | None]]:
    """What the conflicts of a merge are about."""
    return [(one.kind.value, one.table, one.id) for one in done.conflicts]
