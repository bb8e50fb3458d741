"""Large results and pictures: what is held, what is asked, what is refused; and, as soak, how long it takes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from build_explorer import check_types
from explorer.browser import Browser, link
from explorer.conftest import Server, serving
from explorer.story import TOKENS, lay_out
from worlds import runtime

SCHEMA = "node P { n: I64 @key  name: String }\nedge Next: P -> P\n"
HELD = "return page.evaluate(() => document.querySelectorAll('.grid-row').length)"
PAGES = "return seen().requests.filter((one) => one.url.endsWith('/query')).length"


def build_ring(home: Path, size: int, chords: int = 0) -> None:
    """A ring of nodes, with some more edges across it."""
    home.mkdir(parents=True)
    graph = og.create_graph(str(home / "social.omni"), SCHEMA, runtime=runtime())
    with (home / "ring.jsonl").open("w", encoding="utf-8") as file:
        for place in range(size):
            file.write(json.dumps({"type": "P", "data": {"n": place, "name": f"p{place}"}}) + "\n")
        for place in range(size):
            file.write(json.dumps({"edge": "Next", "from": str(place), "to": str((place + 1) % size)}) + "\n")
        for place in range(chords):
            file.write(json.dumps({"edge": "Next", "from": str(place), "to": str(place * 7 % size)}) + "\n")
    graph.load(home / "ring.jsonl", mode="append")
    lay_out(home)
    (home / "queries" / "reads.gq").unlink()


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("ring") / "home"
    build_ring(home, 10_001)
    with serving(home) as server:
        yield server


def open_result(browser: Browser, server: Server, query: str) -> None:
    browser.open(link(server.base, "query", branch="main", query=query), token=TOKENS["ada"])
    browser.wait(".results .grid-row")


def test_the_sources_have_the_right_types() -> None:
    check_types()


def test_only_what_is_looked_at_is_fetched_and_in_the_document(browser: Browser, ring: Server) -> None:
    open_result(browser, ring, "query q() { match { $p: P } return { $p.n, $p.name } order { $p.n } }")
    browser.wait('.grid[data-total="10001"]')
    assert browser.run(HELD) < 100
    assert browser.run(PAGES) <= 2
    commit = browser.run("return page.locator('.results').getAttribute('data-commit')")

    browser.run("await page.locator('.grid').focus(); await page.keyboard.press('Control+End')")
    browser.wait('.grid-row[aria-rowindex="10002"] :text-is("p10000")')

    assert browser.run(HELD) < 100
    assert browser.run(PAGES) <= 4, "pages between were fetched"
    assert browser.run("return page.locator('.results').getAttribute('data-commit')") == commit

    browser.click('.grid-head button:has-text("p.n")')
    browser.click('.grid-head [aria-sort="ascending"] button:has-text("p.n")')
    browser.wait('.grid-head [aria-sort="descending"]')
    browser.run("await page.locator('.grid').evaluate((grid) => (grid.scrollTop = 0))")
    browser.wait('.grid-row[aria-rowindex="2"] :text-is("p10000")')
    assert browser.complaints() == []


def test_a_picture_above_twenty_thousand_elements_asks_to_narrow(browser: Browser, ring: Server) -> None:
    open_result(browser, ring, "query q() { match { $a: P $a $e:next $b } return { $a, $e, $b } }")
    browser.click('.results .choice button:has-text("Picture")')
    browser.wait('.results .canvas[data-nodes="501"]')
    browser.click('.results button:has-text("Read all")')
    browser.wait(".results .canvas .over:has-text('too many')")
    assert browser.complaints() == []


PAN = """
const session = await context.newCDPSession(page);
await page.locator('.results .canvas[data-moving="false"]').waitFor();
await session.send("Profiler.enable");
const box = await page.locator(".results .stage").boundingBox();
await page.mouse.move(box.x + 300, box.y + 200);
await page.mouse.down();
await session.send("Profiler.start");
await page.evaluate(() => {
  window.frames_ = 0;
  const count = () => { window.frames_ += 1; requestAnimationFrame(count); };
  count();
});
for (let at = 0; at < 60; at += 1) await page.mouse.move(box.x + 300 + at * 4, box.y + 200 + at * 2);
const { profile } = await session.send("Profiler.stop");
await page.mouse.up();
const own = new Set(profile.nodes.filter((one) => /assets\\/main-/.test(one.callFrame.url)).map((one) => one.id));
let spent = 0;
profile.samples.forEach((id, at) => { if (own.has(id)) spent += profile.timeDeltas[at]; });
return spent / 1000 / Math.max(1, await page.evaluate(() => window.frames_));
"""


@pytest.mark.soak
def test_panning_twenty_thousand_elements_takes_at_most_a_frame_of_our_own_javascript(
    browser: Browser, tmp_path: Path
) -> None:
    build_ring(tmp_path / "home", 9_900)
    with serving(tmp_path / "home") as server:
        open_result(browser, server, "query q() { match { $a: P $a $e:next $b } return { $a, $e, $b } }")
        browser.click('.results .choice button:has-text("Picture")')
        browser.click('.results button:has-text("Read all")')
        browser.wait('.results .canvas[data-nodes="9900"]')
        assert min(browser.run(PAN) for _ in range(3)) <= 16


@pytest.mark.soak
def test_any_page_of_a_million_rows_comes_at_the_same_commit(browser: Browser, tmp_path: Path) -> None:
    build_ring(tmp_path / "home", 1_000_000)
    with serving(tmp_path / "home") as server:
        open_result(browser, server, "query q() { match { $p: P } return { $p.n, $p.name } order { $p.n } }")
        browser.wait('.grid[data-total="1000000"]')
        commit = browser.run("return page.locator('.results').getAttribute('data-commit')")
        for share in (0.5, 0.1, 1.0, 0.73, 0.0):
            browser.run(
                "const grid = page.locator('.grid');"
                "await grid.evaluate((one, share) => (one.scrollTop = share * one.scrollHeight), args.share)",
                share=share,
            )
            browser.run("await page.locator('.grid-row:not(:has(.waiting))').first().waitFor()")
            browser.run("await page.waitForFunction(() => !document.querySelector('.grid-row .waiting'))")
        assert browser.run("return page.locator('.results').getAttribute('data-commit')") == commit
        assert browser.run(HELD) < 100
