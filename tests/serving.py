"""A server in this process for tests: a small graph, stored queries, policies, and an actor for each role."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from starlette.testclient import TestClient

import omnigraph as og
from omnigraph.config.server import HostedGraph, ServerConfig, ServerLimits
from omnigraph.config.tokens import format_token_entry
from omnigraph.options import Options
from omnigraph.runtime import Runtime
from omnigraph.server.http.app import build_app
from omnigraph.server.service import Service
from worlds import FAST

SCHEMA = "node Person { name: String @key  age: I64? }\nedge Knows: Person -> Person\n"
PEOPLE = b"""{"type":"Person","data":{"name":"Ada","age":36}}
{"type":"Person","data":{"name":"Bob","age":41}}
{"edge":"Knows","from":"Ada","to":"Bob"}
"""
ALL = "query people() { match { $p: Person } return { $p.name, $p.age } order { $p.name asc } }"
ADD = "query add($n: String) { insert Person { name: $n } }"
STORED = {
    "reads.gq": """query friends($n: String) @description("Whom somebody knows.") {
  match { $p: Person { name: $n } $p knows $q }
  return { $q.name }
}
query everybody() { match { $p: Person } return { $p.name } }
""",
    "writes.gq": "query rename_age($n: String, $a: I64) { update Person set { age: $a } where name = $n }\n",
}
POLICIES = """
@id("readers") permit(
  principal in Group::"readers", action in [Action::"read", Action::"graph_list"], resource
);
@id("readers may ask for friends") permit(
  principal in Group::"readers", action == Action::"invoke_query", resource
) when { context has query && context.query == "friends" };
@id("writers") permit(
  principal in Group::"writers",
  action in [
    Action::"read", Action::"change", Action::"export", Action::"graph_list", Action::"invoke_query",
    Action::"branch_create", Action::"branch_delete", Action::"branch_merge"
  ],
  resource
);
@id("admins") permit(principal in Group::"admins", action, resource);
@id("nobody touches the vault") forbid(principal, action, resource)
when { resource is Branch && resource.name like "vault/*" } unless { principal in Group::"admins" };
"""
ROLES = ("reader", "writer", "admin", "revoked", "nobody")
TOKENS = {role: f"og_{role}_{'x' * 40}" for role in ROLES}
"""A token for each role; the one that is revoked is in no file."""


@dataclass
class Served:
    """A server, and what it serves."""

    service: Service
    client: TestClient
    graph: og.Graph
    home: Path

    def as_role(self, role: str) -> dict[str, str]:
        """The headers of a request by that role."""
        return {"Authorization": f"Bearer {TOKENS[role]}"}

    def logs(self) -> str:
        """All metrics, which must be as silent about people's data as logs are."""
        return self.service.metrics.render()


def write_settings(home: Path, *, has_policies: bool = True, policies: str = POLICIES) -> None:
    """Tokens, policies and stored queries, as an operator lays them out."""
    write_tokens(home, ("reader", "writer", "admin", "nobody"))
    (home / "queries").mkdir(exist_ok=True)
    for name, text in STORED.items():
        (home / "queries" / name).write_text(text, encoding="utf-8")
    if has_policies:
        (home / "policies").mkdir(exist_ok=True)
        (home / "policies" / "all.cedar").write_text(policies, encoding="utf-8")


def write_tokens(home: Path, roles: tuple[str, ...]) -> None:
    """The tokens file, with those roles."""
    text = "".join(format_token_entry(TOKENS[role], role, (f"{role}s",)) for role in roles)
    path = home / "tokens.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def serving(
    home: Path,
    *,
    has_policies: bool = True,
    is_open_to_all: bool = False,
    limits: ServerLimits | None = None,
    options: Options = FAST,
    config: Mapping[str, object] | None = None,
    policies: str = POLICIES,
) -> Served:
    """A server over a new graph of two people."""
    home.mkdir(parents=True, exist_ok=True)
    runtime = Runtime(options=options)
    graph = og.create_graph(str(home / "people.omni"), SCHEMA, runtime=runtime)
    (home / "people.jsonl").write_bytes(PEOPLE)
    graph.load(home / "people.jsonl", mode="append")
    write_settings(home, has_policies=has_policies, policies=policies)
    settings = ServerConfig(
        graphs=(HostedGraph(id="people", uri=graph.uri, queries=home / "queries"),),
        tokens_file=None if is_open_to_all else home / "tokens.toml",
        policies=home / "policies" if has_policies and not is_open_to_all else None,
        limits=limits or ServerLimits(threads=4),
    )
    service = Service.start(replace(settings, **(config or {})), runtime, is_open_to_all=is_open_to_all)  # type: ignore[arg-type]  # a test's own settings
    client = TestClient(build_app(service), base_url="http://localhost:8080", raise_server_exceptions=False)
    return Served(service=service, client=client, graph=graph, home=home)
