"""What the event loop calls, while which no other request is served: no route parses, plans, reads or writes there."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import omnigraph
from asgi_calls import request
from server_routes import ROUTES, Route, serve_every_route
from serving import Served

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HOME = str(Path(omnigraph.__file__).parent)
# Packages whose work grows with texts, rows or files.
HEAVY = ("lang", "schema", "query", "engine", "commit", "storage", "ops")
# What the loop prepares and looks up: a handle and a budget for the thread, and the list of damaged files.
LIGHT = (
    "ops/session.with_cancellation",
    "ops/session.Session.acting_as",
    "engine/query_budget.Budget.__init__",
    "ops/scrub.Scrub.report",
    "ops/scrub.ScrubReport.damaged_files",
    "ops/scrub_damage.DamageRegistry.list",
    # The tools of stored queries are described by the types of their parameters.
    "schema/types.Scalar.",
    "schema/arrow.type_from_arrow",
    "schema/values.describe_type",
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = serve_every_route(tmp_path_factory.mktemp("loop"))
    yield found
    found.service.close()


def list_calls(served: Served, route: Route) -> tuple[int, set[str]]:
    """Return the status of a route's answer, and which functions of those packages its event loop called."""
    url = (route.url or route.path).replace("{graph}", "people").replace("ROLE", "admin")
    url = url.replace("HEAD", served.graph.snapshot().commit.id)
    body = route.body if isinstance(route.body, bytes) else json.dumps(route.body).replace("ROLE", "admin").encode()
    called: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(HOME):
            module = name[len(HOME) + 1 : -3]
            # A generator that is garbage is called, too, in whatever thread finds that.
            if frame.f_code.co_name != "<genexpr>":
                called.add(f"{module}.{frame.f_code.co_qualname}")

    async def answer() -> int:
        # Of this thread, which is that of the event loop.
        sys.setprofile(note)
        try:
            return (await request(served, route.method, url, body, headers=served.as_role("admin") | JSON)).status
        finally:
            sys.setprofile(None)

    status = asyncio.run(answer())
    return status, {name for name in called if name.startswith(HEAVY) and not name.startswith(LIGHT)}


@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_no_route_works_in_the_event_loop(route: Route, served: Served) -> None:
    status, called = list_calls(served, route)

    assert status < 300
    assert called == set()
