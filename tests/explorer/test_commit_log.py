"""The commit graph of the review: what it lists, its filters, and where a click leads."""

from explorer.browser import Browser, link
from explorer.conftest import Server
from explorer.story import BRANCH, TOKENS, Story

MESSAGES = "return page.locator('.log-rows li b').allInnerTexts()"
WAIT = "await page.waitForFunction((count) => document.querySelectorAll('.log-rows li').length === count, args.count)"


def listed(browser: Browser, count: int) -> list[str]:
    """The messages of the list, once it has so many."""
    browser.run(WAIT, count=count)
    found: list[str] = browser.run(MESSAGES)
    return found


def test_commits_of_all_branches_are_filtered_and_gone_to(browser: Browser, server: Server, story: Story) -> None:
    every = story.graph.commits(all_branches=True)
    browser.open(link(server.base, "review", branch=BRANCH), token=TOKENS["ada"])
    browser.settle("review")
    assert listed(browser, len(every)) == [one.message or one.operation for one in every]
    assert browser.count(".log-rows svg circle") == len(every)
    # Every commit is joined to its parent: one line for each, and one more for each merge.
    assert browser.count(".log-rows svg path") == sum(
        (one.parent is not None) + (one.merged_parent is not None) for one in every
    )

    for label, action, wanted in (
        ("Only of this actor", "ada", [one for one in every if one.actor == "ada"]),
        (
            "Only with these words in the message",
            "birthday",
            [one for one in every if "birthday" in (one.message or "")],
        ),
    ):
        browser.fill(f".log [aria-label='{label}']", action)
        browser.press("Enter")
        assert listed(browser, len(wanted)) == [one.message for one in wanted]
        browser.fill(f".log [aria-label='{label}']", "")
        browser.press("Enter")
        listed(browser, len(every))
    browser.choose(".log [aria-label='Only of this type']", "Project")
    found = listed(
        browser, len([one for one in every if any(change.table_key == "node:Project" for change in one.changes)])
    )
    assert "budgets of this year" in found
    browser.choose(".log [aria-label='Only of this type']", "all types")
    browser.choose(".log [aria-label='Only on this branch']", BRANCH)
    own = [one for one in every if one.branch == BRANCH]
    listed(browser, len(own))

    browser.click(".log-rows button:has-text('Alan leads now')")
    commit = next(one.id for one in own if one.message == "Alan leads now")
    browser.wait(f'.review[data-commit="{commit}"][data-state="ready"]')
    assert [row[1] for row in browser.rows(".change-table tbody tr") if len(row) == 3] == ["Alan"]
    assert browser.complaints() == []
