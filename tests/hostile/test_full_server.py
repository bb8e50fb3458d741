"""A server whose connections are all taken still answers health checks, and refuses the rest politely."""

from pathlib import Path

from starlette.testclient import TestClient

from omnigraph.server.http.app import build_app
from omnigraph.server.http.connections import ConnectionLimit
from serving import serving


def test_health_is_answered_where_everything_else_is_refused(tmp_path: Path) -> None:
    server = serving(tmp_path)
    connections = ConnectionLimit(1)
    connections.count = 2
    client = TestClient(build_app(server.service, connections), base_url="http://localhost:8080")

    health = client.get("/healthz").status_code
    refused = client.get("/graphs", headers=server.as_role("reader"))
    connections.count = 1
    accepted = client.get("/graphs", headers=server.as_role("reader")).status_code
    server.service.close()

    assert (health, refused.status_code, refused.json()["code"], accepted) == (200, 503, "server_busy", 200)
