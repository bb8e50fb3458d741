"""Every view: no serious finding of axe-core, light and dark; no sideways scrolling at 360 px; no complaint."""

import pytest

from explorer.browser import Browser, link
from explorer.conftest import Server
from explorer.story import BRANCH, TOKENS

QUERY = "query q($least: I32?) { match { $p: Person $p $e:knows $q } return { $p, $e, $q, $p.age as age } }"
VIEWS = {
    "review": {"branch": BRANCH},
    "query": {"branch": "main", "query": QUERY},
    "graph": {"branch": "main", "type": "Person", "id": "Ada"},
    "schema": {"branch": "main"},
    "edit": {"branch": "main", "type": "Person", "id": "Ada"},
}
OVERFLOW = "return page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_view(browser: Browser, server: Server, scheme: str) -> None:
    browser.open(link(server.base, "review", branch=BRANCH), scheme=scheme)
    assert browser.run("return audit()") == []
    for view, place in VIEWS.items():
        browser.open(link(server.base, view, **place), token=TOKENS["ada"], scheme=scheme)
        browser.settle(view)
        if view == "schema":
            browser.click("main tbody button:has-text('Person')")
        if view == "review":
            browser.click(".change-table button:has-text('Ada')")
            browser.wait(".detail .author")
        assert browser.run("return audit()") == [], view
        assert browser.complaints() == [], view


@pytest.mark.parametrize("view", ["review", "query"])
def test_a_view_fits_a_narrow_screen(browser: Browser, server: Server, view: str) -> None:
    browser.open(link(server.base, view, **VIEWS[view]), token=TOKENS["ada"], width=360, height=740)
    browser.settle(view)
    assert browser.run(OVERFLOW) <= 0


def test_a_review_is_possible_with_the_keyboard_alone(browser: Browser, server: Server) -> None:
    browser.open(link(server.base, "schema", branch=BRANCH), token=TOKENS["ada"])
    browser.settle("schema")

    browser.run("await page.keyboard.press('1')")
    browser.settle("review")
    browser.run("await page.locator('.stage').focus(); await page.keyboard.press('ArrowRight')")
    browser.wait(".detail")
    before = browser.text(".detail .entity-title")
    browser.run("await page.keyboard.press('ArrowLeft')")
    assert browser.text(".detail .entity-title")
    browser.run("await page.keyboard.press('Escape')")
    browser.run("await page.locator('.detail').waitFor({ state: 'detached' })")
    assert before
    browser.run("await page.keyboard.press('?')")
    browser.wait("dialog[open] kbd")


def test_the_editor_completes_marks_mistakes_and_takes_typed_parameters(browser: Browser, server: Server) -> None:
    browser.open(link(server.base, "query", branch="main"), token=TOKENS["ada"])
    browser.settle("query")
    browser.click(".editor .cm-content")
    browser.run("await page.keyboard.type('query q($n: String) { match { $p: Pers')")
    browser.wait(".editor .cm-tooltip-autocomplete li:has-text('Person')")
    browser.run("await page.keyboard.press('Enter')")
    text = "query q($n: String, $a: I32?) { match { $p: Person { name: $n } } return { $p.agee } }"
    browser.write_query(text)
    browser.wait(".mistakes .error:has-text('agee')")
    browser.write_query(text.replace("agee", "age"))
    browser.wait(".parameters label:has-text('$n')")
    browser.fill(".parameters input >> nth=1", "not a number")
    assert browser.run("return page.locator('.query .button.primary').isDisabled()") is True
    browser.fill(".parameters input >> nth=1", "")
    browser.fill(".parameters input >> nth=0", "Ada")
    browser.run("await page.locator('.editor .cm-content').press('Control+Enter')")
    browser.wait(".results .grid[data-total='1']")
    assert browser.complaints() == []
