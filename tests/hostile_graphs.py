"""Graph directories that a stranger made, and everything that is done with one: by its verbs, and by a server."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from starlette.testclient import TestClient

import omnigraph as og
from omnigraph.config.server import HostedGraph, ServerConfig, ServerLimits
from omnigraph.errors import OmnigraphError
from omnigraph.server.http.app import build_app
from omnigraph.server.service import Service
from worlds import runtime

Hostile = Callable[[Path, Path], None]
"""Makes a graph hostile: its directory, and one outside of it that nothing may touch."""


def link_away(path: Path, outside: Path) -> None:
    """Move a file or directory outside, and leave a link in its place."""
    target = outside / path.name
    shutil.move(path, target)
    path.symlink_to(target)


def table_of(root: Path, kind: str = "nodes") -> Path:
    """Return the largest table of a kind."""
    return max((root / kind).iterdir(), key=lambda path: len(list(path.rglob("*"))))


def first_file(directory: Path) -> Path:
    """Return the first plain file of a directory."""
    return min(path for path in directory.iterdir() if path.is_file())


def put_sidecar(root: Path, **fields: object) -> None:
    """Leave the sidecar of an operation that died long ago."""
    recovery = root / "__recovery"
    recovery.mkdir(exist_ok=True)
    sidecar = {
        "format": 1, "id": "01DEAD", "commit_id": "01GONE", "branch": "main", "manifest_path": "__manifest",
        "base_seq": 0, "operation": "load", "actor": "stranger", "started_at": "", "state": "abandoned",
        **fields,
    }  # fmt: skip
    (recovery / "01DEAD.json").write_text(json.dumps(sidecar))


def sidecar_through_a_link(root: Path, outside: Path) -> None:
    (root / "nodes" / "evil").symlink_to(outside)
    put_sidecar(root, files=["nodes/evil/important.txt"])


HOSTILE: dict[str, Hostile] = {
    "a sidecar names a file behind a linked table": sidecar_through_a_link,
    "the tables are a link": lambda root, outside: link_away(root / "nodes", outside),
    "a table is a link": lambda root, outside: link_away(table_of(root), outside),
    "data is a link": lambda root, outside: link_away(table_of(root) / "data", outside),
    "a data file is a link": lambda root, outside: link_away(first_file(table_of(root) / "data"), outside),
    "versions are a link": lambda root, outside: link_away(table_of(root) / "_versions", outside),
    "the manifest is a link": lambda root, outside: link_away(root / "__manifest", outside),
    "the branches are a link": lambda root, outside: link_away(root / "__branches", outside),
    "sidecars are a link": lambda root, outside: replace_by_link(root / "__recovery", outside),
    "derived files are a link": lambda root, outside: replace_by_link(root / "_derived", outside),
    "the copy of the schema is a link": lambda root, outside: link_away(root / "_schema.pg", outside),
    "a sidecar is a pipe": lambda root, _: replace_by_pipe(root / "__recovery" / "01X.json"),
    "a data file is a pipe": lambda root, _: replace_by_pipe(first_file(table_of(root) / "data")),
    "the schema is a pipe": lambda root, _: replace_by_pipe(root / "_schema.pg"),
    "the newest version is a pipe": lambda root, _: replace_by_pipe(first_file(root / "__manifest" / "_versions")),
    "an alien name among versions": lambda root, _: (root / "__manifest" / "_versions" / "alien").touch(),
    "an alien version": lambda root, _: (root / "__manifest" / "_versions" / "99x.manifest").touch(),
}


def replace_by_pipe(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def replace_by_link(path: Path, outside: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    path.symlink_to(outside)


def call_every_verb(root: Path, scratch: Path) -> None:
    """Read, write, maintain and copy a graph; only named errors may come of it."""
    verbs: list[Callable[[og.Graph], object]] = [
        lambda graph: graph.query("query q() { match { $p: P } return { $p.name } }").rows(),
        lambda graph: graph.mutate('query q() { insert P { name: "new" } }'),
        lambda graph: graph.mutate('query q() { delete P where name = "a" }'),
        lambda graph: graph.merge("side"),
        lambda graph: graph.optimize(),
        lambda graph: graph.check(deep=True),
        lambda graph: graph.repair(),
        lambda graph: graph.cleanup(keep=1, grace=timedelta(0), confirm=True),
        lambda graph: og.clone_graph(graph.uri, scratch / "clone"),
    ]
    for verb in verbs:
        with suppress(OmnigraphError), og.open_graph(str(root), runtime=runtime()) as graph:
            verb(graph)


QUERY = "query q() { match { $p: P } return { $p.name } }"
ROUTES: list[tuple[str, str, dict[str, object] | None]] = [
    ("GET", "snapshot", None),
    ("GET", "schema", None),
    ("GET", "branches", None),
    ("GET", "commits", None),
    ("GET", "tags", None),
    ("GET", "indexes", None),
    ("GET", "operations", None),
    ("GET", "recoveries", None),
    ("GET", "diff?before=side&after=main", None),
    ("POST", "query", {"query": QUERY}),
    ("POST", "query", {"query": QUERY, "branch": "side"}),
    ("POST", "export", {}),
    ("POST", "mutate", {"query": 'query q() { insert P { name: "served" } }'}),
    ("POST", "mutate", {"query": 'query q() { delete P where name = "b" }'}),
    ("POST", "branches", {"name": "more"}),
    ("POST", "merge", {"source": "side"}),
    ("POST", "optimize", {}),
    ("POST", "check", {"deep": True}),
    ("POST", "repair", {}),
    ("POST", "repair", {"confirm": True}),
    ("POST", "cleanup", {"keep": 1, "confirm": True}),
]
"""What a server is asked about a graph, and told to do with it."""


def serve(root: Path) -> list[tuple[str, int]]:
    """Serve a graph to all, and ask every route; return the routes, each with the status of its answer."""
    config = ServerConfig(graphs=(HostedGraph(id="g", uri=str(root)),), limits=ServerLimits(threads=2))
    service = Service.start(config, runtime(), is_open_to_all=True)
    try:
        with TestClient(build_app(service), base_url="http://localhost:8080", raise_server_exceptions=False) as client:
            statuses = [("GET readyz", client.get("/readyz").status_code)]
            for method, route, body in ROUTES:
                answer = client.request(method, f"/graphs/g/{route}", json=body)
                assert "bug" not in answer.text, f"{method} {route}: {answer.text}"
                statuses.append((f"{method} {route}", answer.status_code))
            return statuses
    finally:
        service.close()


def set_up(name: str, pristine: Path, place: Path) -> tuple[Path, Path]:
    """Make a hostile graph in a directory; return its root, and the directory outside that nothing may touch."""
    root, outside = place / "graph", place / "outside"
    shutil.copytree(pristine, root)
    outside.mkdir()
    (outside / "important.txt").write_text("precious")
    HOSTILE[name](root, outside)
    return root, outside


if __name__ == "__main__":  # everything is done with each of the graphs that are named, under the eyes of another
    for place in map(Path, sys.argv[1:]):
        call_every_verb(place / "graph", place)
        serve(place / "graph")
