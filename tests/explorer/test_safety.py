"""A graph full of hostile strings, and a page that asks nobody but its server and shows nothing that it may not."""

import csv
import io
import re
from collections.abc import Iterator
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path

import pytest

import omnigraph as og
from explorer.browser import Browser, link
from explorer.conftest import Server, serving
from explorer.story import BRANCH, TOKENS, lay_out
from http_reference import api
from worlds import runtime

SCHEMA = """node Constructor { name: String @key  note: String? @index  constructor: String?  __proto__: String? }
edge HasOwnProperty: Constructor -> Constructor { note: String? }
"""
NASTY = (
    "<img src=x onerror=\"document.title='owned'\">",
    "<script>document.title='owned'</script>",
    "javascript:document.title='owned'",
    "\u202edlrow olleh\u202c",
    "a/b?c#d%e&f=g",
    "__proto__",
    "constructor",
    '=HYPERLINK("http://example.org")',
    '"; delete Constructor where true; "',
    "${alert(1)}{{7*7}}",
    "x" * 1_000_000,
)
VIEWS = ("review", "query", "graph", "schema", "edit")


def build_hostile(home: Path) -> og.Graph:
    """A graph of which every text is made to break a page."""
    home.mkdir(parents=True)
    graph = og.create_graph(str(home / "social.omni"), SCHEMA, runtime=runtime(), actor=NASTY[0])
    add = "query add($n: String) { insert Constructor { name: $n, note: $n } }"
    for text in NASTY[:-1]:
        graph.mutate(add, params={"n": text}, actor="<b>x</b>", message=text)
    graph.mutate('query add($n: String) { insert Constructor { name: "long", note: $n } }', params={"n": NASTY[-1]})
    tie = "query tie($a: String, $b: String) { insert HasOwnProperty { from: $a, to: $b, note: $a } }"
    for a, b in pairwise(NASTY[:-1]):
        graph.mutate(tie, params={"a": a, "b": b})
    graph.branches.create("constructor", actor="__proto__")
    lay_out(home)
    (home / "queries" / "reads.gq").unlink()
    return graph


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("hostile") / "home"
    build_hostile(home)
    with serving(home) as server:
        yield server


def test_hostile_texts_change_nothing_on_any_view(browser: Browser, hostile: Server) -> None:
    query = "query q() { match { $n: Constructor } return { $n.name, $n.note, $n } }"
    for view in VIEWS:
        more = {"query": query} if view == "query" else {}
        if view in {"graph", "edit"}:
            more = {"type": "Constructor", "id": NASTY[0]}
        browser.open(link(hostile.base, view, branch="main", **more), token=TOKENS["ada"])
        browser.settle(view)
        if view == "review":
            browser.click(".log-rows button:has-text('onerror')")
            browser.settle(view)
        assert browser.run("return page.title()") == "omnigraph explorer"
        assert browser.run("return page.locator('main img, main script, main a[href]').count()") == 0
        assert browser.complaints() == [], view
        assert "\u202e" not in browser.text("main")


def test_cells_that_a_spreadsheet_would_run_are_disarmed(browser: Browser, hostile: Server) -> None:
    query = "query q() { match { $n: Constructor } return { $n.name } order { $n.name } }"
    browser.open(link(hostile.base, "query", branch="main", query=query), token=TOKENS["ada"])
    browser.wait(".results .grid-row")
    text = browser.run(
        """
const clicked = page.locator('button:has-text("CSV")').click();
const [download] = await Promise.all([page.waitForEvent("download"), clicked]);
const { readFileSync } = await import("node:fs");
return readFileSync(await download.path(), "utf8");
"""
    )
    cells = [row[0] for row in csv.reader(io.StringIO(text))][1:]
    assert sorted(cell.removeprefix("'") for cell in cells) == sorted([*NASTY[:-1], "long"])
    assert not [cell for cell in cells if cell[0] in "=+-@"]


def test_a_session_asks_only_its_server_only_what_is_documented_and_never_with_the_token_in_an_address(
    browser: Browser, server: Server
) -> None:
    patterns = {
        f"{method.upper()} " + re.sub(r"\\{[^}]*\\}", "[^?]+", re.escape(path))
        for path, operations in api()["paths"].items()
        for method in operations
    }
    asked: list[dict[str, str]] = []
    for view in VIEWS:
        more = {"query": "query q() { match { $p: Person } return { $p } }"} if view == "query" else {}
        browser.open(link(server.base, view, branch=BRANCH, **more), token=TOKENS["ada"])
        browser.settle(view)
        asked += browser.requests()
    assert len(asked) > 40
    for request in asked:
        if request["url"].startswith("blob:"):
            continue
        assert request["url"].startswith(server.base + "/"), request
        assert TOKENS["ada"] not in request["url"]
        path = request["url"].removeprefix(server.base).split("?")[0].split("#")[0]
        if path.startswith("/explorer/") and request["method"] == "GET":
            continue
        assert any(re.fullmatch(pattern, f"{request['method']} {path}") for pattern in patterns), request


def test_a_link_without_permission_shows_no_row_name_or_count(browser: Browser, server: Server) -> None:
    for view in VIEWS:
        browser.open(link(server.base, view, branch=BRANCH, type="Person", id="Ada"), token=TOKENS["nil"])
        browser.wait(".empty")
        shown = browser.text("body")
        assert not [word for word in ("Radia", "Ole", "agent-7", "Person", "Hooli") if word in shown], view


def fetch(server: Server, path: str) -> tuple[int, dict[str, str], str]:
    """The status, headers and text of an answer to a request without a token."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, response.read().decode()
    finally:
        connection.close()


def test_the_page_can_not_be_framed_and_its_policy_is_strict(server: Server) -> None:
    assert fetch(server, "/")[1]["location"] == "/explorer/"

    _, headers, page = fetch(server, "/explorer/")

    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-cache"
    assert "set-cookie" not in headers
    assert not re.search(r"<script(?![^>]*src=)|\son\w+=|style=", page)
    names = re.findall(r'(?:src|href)="\./([^"]+)"', page)
    assert len(names) == 3
    for name in names:
        status, headers, _ = fetch(server, f"/explorer/{name}")
        assert (status, "immutable" in headers["cache-control"]) == (200, True)


@pytest.mark.parametrize("name", ["../http/app.py", "..%2fhttp%2fapp.py", "built.sha256", "assets/../../service.py"])
def test_no_file_outside_the_page_is_served(server: Server, name: str) -> None:
    assert fetch(server, f"/explorer/{name}")[0] in {400, 401, 404}
