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
from explorer.conftest import Server, find_strays, serving
from explorer.story import BRANCH, TOKENS, lay_out
from worlds import runtime

# Names of types begin with a capital, and those of properties not with `_`: `constructor` is as far as they go.
SCHEMA = """node Constructor { name: String @key  note: String? @index  constructor: String?  valueOf: I64? }
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


FOLLOWED = """
await page.waitForFunction(() => {
  const [frame, view] = [document.querySelector(".page"), document.querySelector(".page .review")];
  return location.hash.includes("commit=") && view?.dataset.commit === frame.dataset.commit;
});
"""
UNHARMED = """
return page.evaluate(() => ({
  title: document.title,
  added: document.querySelectorAll("main img, main script, main a[href], main iframe, main [onerror]").length,
  longest: Math.max(...[...document.querySelectorAll("main *")].map((one) =>
    [...one.childNodes].reduce((sum, node) => sum + (node.nodeType === 3 ? node.data.length : 0), 0))),
  polluted: Object.keys(Object.prototype).length,
  marks: /[\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText),
}))
"""


def unharmed(browser: Browser, where: str) -> None:
    """Check that no text of the graph has become anything but text."""
    found = browser.run(UNHARMED)
    assert found.pop("longest") < 30_000, where
    assert found == {"title": "omnigraph explorer", "added": 0, "polluted": 0, "marks": False}, where
    assert browser.complaints() == [], where


def test_hostile_texts_change_nothing_on_any_view(browser: Browser, hostile: Server) -> None:
    query = "query q() { match { $n: Constructor } return { $n.name, $n.note as __proto__, $n, $n.constructor } }"
    browser.open(link(hostile.base, "query", branch="main", query=query), token=TOKENS["ada"])
    browser.wait(".results .grid-row")
    unharmed(browser, "table")
    browser.run("await page.locator('.results .grid-row:has-text(\"onerror\") [role=gridcell]').first().dblclick()")
    browser.wait("dialog[open] pre")
    unharmed(browser, "cell")
    browser.press("Escape")
    for shape in ("Picture", "JSON"):
        browser.click(f'.results .choice button:has-text("{shape}")')
        unharmed(browser, shape)
    browser.press("1")
    browser.settle("review")
    browser.click(".log-rows button:has-text('onerror')")
    # What was ready before the click is replaced as soon as the commit is read.
    browser.run(FOLLOWED)
    browser.settle("review")
    browser.click(".change-table .link")
    browser.wait(".detail .author")
    unharmed(browser, "review")
    browser.choose("header label:has-text('Branch') select", "constructor")
    browser.settle("review")
    unharmed(browser, "branch")
    browser.press("4")
    browser.settle("schema")
    browser.click("table[aria-label=Types] button:has-text('Constructor')")
    browser.wait(".type .grid-row")
    unharmed(browser, "schema")


@pytest.mark.parametrize("text", [NASTY[0], NASTY[3], NASTY[4], NASTY[5]])
def test_a_node_of_any_name_is_found_shown_changed_and_linked(browser: Browser, hostile: Server, text: str) -> None:
    browser.open(link(hostile.base, "graph", branch="main", type="Constructor", id=text), token=TOKENS["ada"])
    browser.settle("graph")
    browser.wait(".detail .properties")
    assert browser.count(".graph .canvas[data-nodes='0']") == 0
    browser.click(".detail summary:has-text('History')")
    browser.wait(".versions li .author")
    unharmed(browser, "graph")
    browser.fill(".search input", text)
    browser.wait(".search [role=option]")
    unharmed(browser, "search")
    browser.fill(".search input", "")
    browser.choose(".graph label:has-text('Colour') select", "constructor")
    unharmed(browser, "colour")
    browser.click(".detail button:has-text('Edit')")
    browser.settle("edit")
    browser.fill(".fields .value-input:has-text('constructor') input", text)
    browser.click("button:has-text('Preview')")
    browser.wait("[aria-label='What it would change'] .change-table")
    unharmed(browser, "edit")


def test_cells_that_a_spreadsheet_would_run_are_disarmed(browser: Browser, hostile: Server) -> None:
    query = "query q() { match { $n: Constructor } return { $n.name } order { $n.name } }"
    browser.open(link(hostile.base, "query", branch="main", query=query), token=TOKENS["ada"])
    browser.wait(".results .grid-row")
    text = browser.download('.results button:has-text("CSV")').decode()
    cells = [row[0] for row in csv.reader(io.StringIO(text))][1:]
    assert sorted(cell.removeprefix("'") for cell in cells) == sorted([*NASTY[:-1], "long"])
    assert not [cell for cell in cells if cell[0] in "=+-@"]


def test_requests_that_no_page_may_make_are_noticed() -> None:
    own = "http://127.0.0.1:8080"
    fine = [
        {"method": "POST", "url": f"{own}/graphs/social/query"},
        {"method": "GET", "url": f"{own}/graphs/social/branches?limit=500"},
        {"method": "GET", "url": f"{own}/explorer/assets/main-ABC.js"},
    ]
    wrong = [
        {"method": "GET", "url": "https://example.org/x"},
        {"method": "PUT", "url": f"{own}/graphs/social/query"},
        {"method": "GET", "url": f"{own}/graphs/social/secrets"},
        {"method": "GET", "url": f"{own}/graphs?token={TOKENS['ada']}"},
        {"method": "GET", "url": f"{own}/explorer/?code=abc"},
    ]
    assert find_strays(fine) == []
    assert len(find_strays(wrong)) == len(wrong)


def test_a_link_without_permission_shows_no_row_name_or_count(browser: Browser, server: Server) -> None:
    for view in VIEWS:
        browser.open(link(server.base, view, branch=BRANCH, type="Person", id="Ada"), token=TOKENS["nil"])
        browser.wait(".empty")
        shown = browser.text("body")
        assert not [word for word in ("Radia", "Ole", "agent-7", "Person", "Hooli") if word in shown], view


def fetch(server: Server, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
    """The status, headers and text of an answer to a request without a token."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request(method, path)
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


@pytest.mark.parametrize("path", ["/", "/explorer", "/explorer/", "/explorer/missing"])
def test_headers_alone_are_those_of_the_page(server: Server, path: str) -> None:
    status, headers, _ = fetch(server, path)
    head_status, head, body = fetch(server, path, "HEAD")
    for one in (headers, head):
        del one["x-request-id"], one["date"]
    assert (head_status, head, body) == (status, headers, "")


@pytest.mark.parametrize("name", ["../http/app.py", "..%2fhttp%2fapp.py", "built.sha256", "assets/../../service.py"])
def test_no_file_outside_the_page_is_served(server: Server, name: str) -> None:
    assert fetch(server, f"/explorer/{name}")[0] in {400, 401, 404}
