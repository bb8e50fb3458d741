"""What the page says and does when the server, the token or the network fails."""

import re
from pathlib import Path

import pytest

from explorer.browser import Browser, link
from explorer.conftest import Server, serving
from explorer.story import ACTORS, BRANCH, TOKENS, Story, build_story, write_tokens

CONFLICTS_FROM_BRANCH = 'button:has-text("All from agent/enrich")'
MERGE = '.merge-bar button:has-text("Merge into main")'
LOSE_ANSWER = """
await page.route("**/merge", async (route) => {
  const request = route.request();
  if (request.postDataJSON().dry_run) return route.continue();
  if (args.reaches) await route.fetch();
  process.kill(args.server, "SIGKILL");
  return route.abort();
});
"""


@pytest.mark.parametrize("has_reached", [True, False])
def test_a_merge_whose_answer_is_lost_is_unknown_and_then_found_out(
    browser: Browser, tmp_path: Path, has_reached: bool
) -> None:
    story = build_story(tmp_path)
    with serving(story.home) as server:
        browser.open(link(server.base, "review", branch=BRANCH), token=TOKENS["ada"])
        browser.settle("review")
        browser.click(CONFLICTS_FROM_BRANCH)
        browser.wait(".merge-bar .preview li")
        assert server.popen is not None
        browser.run(LOSE_ANSWER, reaches=has_reached, server=server.popen.pid)
        browser.click(MERGE)
        browser.wait(".outcome.unknown")
        assert "not known" in browser.text(".outcome.unknown")

        # It was killed before the answer came. Only when it is back can it be asked.
        server.kill()
        server.start()
        browser.run('await page.unroute("**/merge")')

        browser.wait(".outcome.good" if has_reached else ".outcome.bad")
        words = browser.text(".outcome")
    commits = [commit.operation for commit in story.graph.commits(limit=1)]
    assert ("had committed it" in words) == has_reached
    assert ("merge" in commits) == has_reached


def test_a_reload_in_the_midst_keeps_the_place_and_the_session(browser: Browser, server: Server, story: Story) -> None:
    commit = story.graph.commits(limit=2)[1].id
    browser.open(link(server.base, "graph", branch="main", commit=commit, type="Person", id="Ada"), token=TOKENS["ada"])
    browser.settle("graph")
    before = browser.text(".canvas ~ *, .graph .bar")

    browser.run("await page.reload()")
    browser.settle("graph")

    assert browser.text(".page .who span") == "ada"
    browser.wait(f'.graph[data-commit="{commit}"]')
    assert browser.text(".canvas ~ *, .graph .bar") == before
    assert browser.complaints() == []


def test_the_page_says_that_the_server_is_gone_and_goes_on_when_it_is_back(browser: Browser, tmp_path: Path) -> None:
    story = build_story(tmp_path)
    with serving(story.home) as server:
        browser.open(link(server.base, "schema", branch="main"), token=TOKENS["ada"])
        browser.settle("schema")
        server.kill()
        browser.wait(".banner")
        assert browser.text("footer .health") == "server gone"
        server.start()
        browser.wait('footer .health:has-text("healthy")')
        browser.run("await page.locator('.banner').waitFor({ state: 'detached' })")


def test_a_revoked_token_ends_the_session_and_shows_nothing_more(
    browser: Browser, server: Server, story: Story
) -> None:
    browser.open(link(server.base, "graph", branch="main"), token=TOKENS["ada"])
    browser.settle("graph")

    write_tokens(story.home, tuple(actor for actor in ACTORS if actor != "ada"))
    browser.wait(".sign-in .problem")

    assert "no longer accepts" in browser.text(".sign-in .problem")
    assert browser.run("return page.evaluate(() => sessionStorage.length)") == 0
    assert "Radia" not in browser.text("body")
    write_tokens(story.home, ACTORS)


def test_a_query_that_is_too_large_says_so_and_the_page_lives_on(browser: Browser, server: Server) -> None:
    text = (
        "query q() { match { $a: Person $b: Person $c: Person $d: Person $e: Person }"
        " return { $a.name, $b.name, $c.name, $d.name, $e.name } }"
    )
    browser.open(link(server.base, "query", branch="main"), token=TOKENS["ada"])
    browser.settle("query")
    browser.write_query(text)
    browser.click('.query button:has-text("Run")')
    assert re.search("too many rows|memory|limit|takes more", browser.text(".problem")), "it says what is too large"
    small = "query q() { match { $a: Person } return { $a.name } }"
    browser.write_query(small)
    browser.click('.query button:has-text("Run")')
    browser.wait('.results .grid[data-total="20"]')


def test_what_a_token_may_not_do_is_not_offered(browser: Browser, server: Server) -> None:
    browser.open(link(server.base, "review", branch=BRANCH), token=TOKENS["rita"])
    browser.settle("review")
    assert browser.rows(".change-table tbody tr")
    assert browser.run('return page.locator(".merge-bar").count()') == 0
    assert browser.complaints() == []
