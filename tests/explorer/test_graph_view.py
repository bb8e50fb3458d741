"""The graph view: search, expand, pin, hide, colour and size, paths, tables, and the past and blobs of a node."""

import json

from explorer.browser import Browser, link, until
from explorer.conftest import Server
from explorer.story import PLAN, TOKENS, Story

NODES = """
return page.locator(".graph .stage").evaluate((element) => Object.fromEntries(
  element.sigma.getGraph().mapNodes((key, { x, y, size, color }) => [key, { x, y, size, color }])))
"""
EDGES = """
return page.locator(".graph .stage").evaluate((element) => element.sigma.getGraph()
  .mapEdges((_, data, from, to) => [JSON.parse(from)[1], JSON.parse(to)[1], data.color, data.size]))
"""
GONE = "await page.locator(args.selector).waitFor({ state: 'detached' })"
LIKE = """
await page.waitForFunction((size) => document.querySelector(".graph .stage").sigma.getGraph()
  .everyEdge((_, data) => data.size === size), args.size)
"""
CLICK = """
await page.locator('.graph .canvas[data-moving="false"]').waitFor();
const stage = page.locator(".graph .stage");
const box = await stage.boundingBox();
const at = await stage.evaluate(
  ({ sigma }, key) => sigma.framedGraphToViewport(sigma.getNodeDisplayData(key)), args.key);
await page.mouse.move(box.x + at.x, box.y + at.y);
await page.mouse.down();
if (args.by) await page.mouse.move(box.x + at.x + args.by, box.y + at.y + args.by, { steps: 4 });
await page.mouse.up();
"""


def key_of(type_: str, id_: str) -> str:
    return json.dumps([type_, id_], separators=(",", ":"))


def open_node(browser: Browser, server: Server, type_: str = "", id_: str = "", **more: str) -> None:
    start = {"type": type_, "id": id_} if type_ else {}
    browser.open(link(server.base, "graph", branch="main", **start, **more), token=TOKENS["ada"])
    browser.settle("graph")
    browser.wait(".graph .canvas[data-moving='false']")


def names(browser: Browser) -> set[str]:
    return {json.loads(key)[1] for key in browser.run(NODES)}


def test_nodes_are_found_by_key_first_and_then_by_words(browser: Browser, server: Server) -> None:
    open_node(browser, server)
    browser.press("/")
    browser.wait(".search input:focus")
    browser.run("await page.keyboard.type('ada')")
    browser.wait(".search [role=option]:has-text('Ada')")
    browser.press("Enter")
    browser.wait(".detail .entity-title:has-text('Ada')")
    browser.settle("graph")
    browser.fill(".search input", "telescopes")
    browser.wait(".search [role=option] .quiet:has-text('telescopes')")
    browser.fill(".search input", "nobody at all")
    browser.wait(".search .nothing")
    assert browser.complaints() == []


def open_by_click(browser: Browser, type_: str, id_: str) -> None:
    """Click a node until it is open: the picture may move between the question where it is and the click."""

    def is_open() -> bool:
        browser.run(CLICK + "await page.waitForTimeout(300);", key=key_of(type_, id_))
        title = f".detail .entity-title:has-text('{id_}')"
        return bool(browser.run("return page.locator(args.title).count()", title=title))

    until(is_open)


def test_a_node_is_expanded_by_type_with_a_limit(browser: Browser, server: Server, story: Story) -> None:
    open_node(browser, server, "Person", "Ada")
    open_by_click(browser, "Company", "Acme")
    before = names(browser)
    staff = {
        row["p.name"]
        for row in story.graph.query('match { $p: Person $p worksAt $c $c.name = "Acme" } return { $p.name }').rows()
    }
    assert browser.text(".expand li button").split() == ["←", "WorksAt", str(len(staff))]

    browser.fill(".expand input", "2")
    browser.click(".expand li button")
    browser.wait(".expand li button:has-text('more')")
    assert len((names(browser) | before) - before) <= 2
    browser.fill(".expand input", "50")
    browser.click(".expand li button")
    browser.wait(".expand li button:has-text('✓')")
    until(lambda: staff <= names(browser))
    assert browser.complaints() == []


def test_nodes_are_pinned_where_they_are_put_and_hidden(browser: Browser, server: Server) -> None:
    open_node(browser, server)
    ada = key_of("Person", "Ada")
    browser.run(CLICK, key=ada, by=-60)
    browser.wait(".graph .bar button:has-text('Unpin 1')")
    put = browser.run(NODES)
    browser.click(".canvas .tools [aria-label='Arrange again']")
    browser.wait(".graph .canvas[data-moving='false']")
    arranged = browser.run(NODES)
    assert (arranged[ada]["x"], arranged[ada]["y"]) == (put[ada]["x"], put[ada]["y"])
    assert any(arranged[key] != put[key] for key in put)

    browser.run(CLICK, key=ada)
    browser.wait(".detail .entity-title:has-text('Ada')")
    browser.click(".detail button:has-text('Hide')")
    browser.wait(".graph .bar button:has-text('Show 1 hidden')")
    until(lambda: "Ada" not in names(browser))
    assert not [edge for edge in browser.run(EDGES) if "Ada" in edge[:2]]
    browser.click(".graph .bar button:has-text('Show 1 hidden')")
    browser.run(GONE, selector=".graph .bar button:has-text('hidden')")
    until(lambda: "Ada" in names(browser))
    browser.click(".graph .bar button:has-text('Unpin 1')")
    assert browser.complaints() == []


def test_colour_and_size_follow_a_property(browser: Browser, server: Server, story: Story) -> None:
    open_node(browser, server)
    types = {node["color"] for node in browser.run(NODES).values()}
    assert len(types) == 3
    assert browser.run("return page.locator('.graph .legend li').allInnerTexts()") == [
        "Person 20",
        "Company 4",
        "Project 5",
    ]

    browser.choose(".graph label:has-text('Colour') select", "role")
    browser.choose(".graph label:has-text('Size') select", "age")
    until(lambda: len({node["size"] for node in browser.run(NODES).values()}) > 3)
    nodes = browser.run(NODES)
    rows = story.graph.query("match { $p: Person } return { $p.name as name, $p.role as role, $p.age as age }").rows()
    colours = {(str(row["role"]), nodes[key_of("Person", str(row["name"]))]["color"]) for row in rows}
    sizes = {int(str(row["age"])): nodes[key_of("Person", str(row["name"]))]["size"] for row in rows}
    assert len(colours) == len({role for role, _ in colours}) == 4
    assert [sizes[age] for age in sorted(sizes)] == sorted(sizes.values())
    assert len(set(sizes.values())) == len(sizes)
    assert set(browser.run("return page.locator('.graph .legend li').allInnerTexts()")) == {role for role, _ in colours}

    # A property of numbers is a ramp.
    browser.choose(".graph label:has-text('Colour') select", "age")
    browser.run("await page.waitForFunction(() => document.querySelectorAll('.graph .legend li').length === 2)")
    until(lambda: "#3d4fd6" in {node["color"] for node in browser.run(NODES).values()})
    oldest = max(rows, key=lambda row: int(str(row["age"])))
    assert browser.run(NODES)[key_of("Person", str(oldest["name"]))]["color"] == "#3d4fd6"
    assert browser.complaints() == []


def test_a_path_between_two_nodes_is_highlighted(browser: Browser, server: Server) -> None:
    open_node(browser, server, "Person", "Ada")
    plain = {edge[3] for edge in browser.run(EDGES)}
    browser.click(".detail button:has-text('Path from here')")
    browser.run(CLICK, key=key_of("Company", "Acme"))
    browser.wait(".graph .bar button:has-text('Path of 1 step')")
    until(lambda: {edge[3] for edge in browser.run(EDGES)} != plain)
    path = [edge for edge in browser.run(EDGES) if edge[3] not in plain]
    assert [edge[:2] for edge in path] == [["Ada", "Acme"]]
    browser.click(".graph .bar button:has-text('Path of 1 step')")
    browser.run(GONE, selector=".graph .bar button:has-text('Path of')")
    browser.run(LIKE, size=plain.pop())


def test_a_path_of_a_result_is_highlighted(browser: Browser, server: Server) -> None:
    query = (
        'query q() { match { $a: Person { name: "Ada" } $b: Person { name: "Katherine" }'
        " shortest $way = $a knows{1,5} $b } return { $way } }"
    )
    browser.open(link(server.base, "query", branch="main", query=query), token=TOKENS["ada"])
    browser.wait(".results .grid-row")
    browser.click('.results .choice button:has-text("Picture")')
    browser.wait(".results .canvas[data-moving='false']")
    edges = browser.run(EDGES.replace(".graph .stage", ".results .stage"))
    assert len(edges) >= 2
    assert {edge[3] for edge in edges} == {4}
    assert browser.complaints() == []


def test_the_table_has_what_the_picture_has(browser: Browser, server: Server) -> None:
    open_node(browser, server, "Person", "Ada")
    drawn = names(browser)
    edges = {(edge[0], edge[1]) for edge in browser.run(EDGES)}
    browser.click(".graph .choice button:has-text('Table')")
    rows = browser.rows(".graph .grid-row")
    assert {row[1] for row in rows if not row[2]} == drawn
    assert {(row[2], row[3]) for row in rows if row[2]} == edges
    browser.click(".graph .grid-row:has-text('Acme') [role=gridcell]")
    browser.wait(".detail .entity-title:has-text('Acme')")


def test_the_inspector_has_the_past_of_a_node_and_goes_there(browser: Browser, server: Server, story: Story) -> None:
    open_node(browser, server, "Person", "Grace")
    browser.click(".detail summary:has-text('History')")
    browser.wait(".versions li")
    past = story.graph.history("Person", "Grace").versions
    texts = browser.run("return page.locator('.versions li').allInnerTexts()")
    assert len(texts) == len(past)
    assert "ada" in texts[0]
    assert "Grace moved to Zurich" in texts[0]
    browser.click(f".versions li:nth-child({len(past)}) button:has-text('Go there')")
    oldest = story.graph.commits()[-2].id
    browser.wait(f'.graph[data-commit="{oldest}"][data-state="ready"]')
    browser.wait(".detail .properties:has-text('Osaka')")
    assert browser.complaints() == []


def test_blobs_are_saved_from_the_inspector(browser: Browser, server: Server) -> None:
    open_node(browser, server, "Project", "Apollo")
    assert browser.download(".detail .blobs button:has-text('plan')") == PLAN
    open_node(browser, server, "Project", "Euclid")
    browser.click(".detail .blobs button:has-text('plan')")
    browser.wait(".detail .problem:has-text('plan has no value')")
    assert browser.complaints() == []
