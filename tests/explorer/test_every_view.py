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
FOCUSED = "return page.evaluate((one) => document.activeElement?.matches(one), args.selector)"
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


def test_rows_and_changes_are_read_on_a_narrow_screen(browser: Browser, server: Server) -> None:
    browser.open(link(server.base, "query", **VIEWS["query"]), token=TOKENS["ada"], width=360, height=740)
    for selector in (".results .grid-row", ".query .button.primary"):
        assert is_within(browser, selector), selector
    browser.open(link(server.base, "review", **VIEWS["review"]), token=TOKENS["ada"], width=360, height=740)
    browser.settle("review")
    browser.click(".change-table button:has-text('Ada')")
    browser.wait(".detail .author")
    for selector in (".change-table button", ".before-after", ".conflict-list li", ".merge-bar .button.primary"):
        assert is_within(browser, selector), selector


def is_within(browser: Browser, selector: str) -> bool:
    """Whether the first element can be scrolled to, and then no part of its beginning is cut off at the sides."""
    code = """
    const element = page.locator(args.selector).first();
    await element.scrollIntoViewIfNeeded();
    const box = await element.boundingBox();
    const found = await element.evaluate((one) => {
      const { left, top, width, height } = one.getBoundingClientRect();
      const hit = document.elementFromPoint(left + Math.min(width, 20) / 2, top + height / 2);
      return one.contains(hit);
    });
    return found && box.x >= 0 && box.x < 340;
    """
    found: bool = browser.run(code, selector=selector)
    return found


def test_a_conflict_is_settled_and_the_merge_reached_with_the_keyboard_alone(browser: Browser, server: Server) -> None:
    browser.open(link(server.base, "review", branch=BRANCH), token=TOKENS["ada"])
    browser.settle("review")

    tab_to(browser, ".conflict-list input[type=radio]")
    browser.press("Space")
    assert browser.text(".conflicts header .tag") == "1 of 2 settled"
    tab_to(browser, ".conflict-list li:nth-child(2) input[type=radio]")
    browser.press("Space")
    browser.wait(".merge-bar .preview li")
    tab_to(browser, ".merge-bar .button.primary")


def tab_to(browser: Browser, selector: str) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(200):
        browser.press("Tab")
        if browser.run(
            "return page.evaluate((one) => document.activeElement?.matches(one), args.selector)", selector=selector
        ):
            return
    raise AssertionError(selector)


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
