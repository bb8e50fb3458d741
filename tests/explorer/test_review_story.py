"""The story, in a real browser: a link to an agent's branch, two conflicts, a merge, yesterday, and a revert."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from explorer.browser import Browser, link, names
from explorer.conftest import Server, serving
from explorer.story import BRANCH, TOKENS, Story, build_story

VIEWS = ("review", "query", "graph", "schema", "edit")
POSITION = """
const stage = page.locator(".review .stage");
await stage.scrollIntoViewIfNeeded();
const box = await stage.boundingBox();
const at = await stage.evaluate((element, key) => {
  const data = element.sigma.getNodeDisplayData(key);
  return element.sigma.framedGraphToViewport(data);
}, args.key);
await page.mouse.click(box.x + at.x, box.y + at.y);
"""

PEOPLE = "match { $p: Person } return { $p }"
DRAWN = """
return page.locator(".review .stage").evaluate((element) =>
  element.sigma.getGraph().mapNodes((key, data) => [JSON.parse(key)[1], data.label, data.color]))
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Story, Server]]:
    """A story of its own, because it is changed."""
    story = build_story(tmp_path)
    with serving(story.home) as server:
        yield story, server


def differences(story: Story, before: str, after: str) -> list[dict[str, object]]:
    """What the command line says of the same difference."""
    command = [sys.executable, "-m", "omnigraph", "diff", before, after, story.graph.uri, "--format", "jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_agents_branch_is_reviewed_merged_looked_back_at_and_reverted(
    browser: Browser, own: tuple[Story, Server]
) -> None:
    story, server = own
    base = story.graph.merge(BRANCH, dry_run=True).base_commit
    expected = differences(story, base, BRANCH)

    browser.open(link(server.base, "review", branch=BRANCH), token=TOKENS["ada"])
    browser.settle("review")

    # The table is the difference of the command line, and the picture has all of it among its neighbours.
    shown = [row for row in browser.rows(".change-table tbody tr") if len(row) == 3]
    assert sorted(row[1].removesuffix("conflict").strip() for row in shown) == sorted(names(expected))
    assert sorted(row[0] for row in shown).count("~") == sum(one["change"] == "updated" for one in expected)
    nodes = {one["id"] for one in expected if "type" in one}
    drawn = browser.run(DRAWN)
    assert nodes <= {one[0] for one in drawn}
    labels = {one[1] for one in drawn}
    assert {"+ Radia", "~ Ada", "− Ole"} <= labels
    assert {"Hooli", "Katherine"} <= labels, "neighbours are not drawn"
    assert len({one[2] for one in drawn}) == 4, "inserted, updated, deleted and unchanged have a colour each"
    red, green, _ = ({one[1][0]: channels(one[2])[channel] for one in drawn} for channel in range(3))
    assert green["+"] > red["+"]
    assert red["−"] > 2 * green["−"]
    assert red["~"] > green["~"] > red["~"] / 2, "amber is between red and green"

    # A click on the picture shows before and after, and who did it.
    browser.run("await page.locator('.canvas[data-moving=\"false\"]').first().waitFor()")
    browser.run(POSITION, key=json.dumps(["Person", "Ada"], separators=(",", ":")))
    detail = browser.text(".detail:has(.author)")
    assert "agent-7" in detail
    assert "ages and cities from the register" in detail
    assert browser.rows(".detail .before-after tbody tr") == [["age", "38", "40"]]

    # Two conflicts: one is settled by a value of its own, one by the branch; then the merge is previewed.
    browser.click('.conflict-list li:has-text("Ada") label:has-text("another value")')
    browser.fill('.conflict-list li:has-text("Ada") .value-input input', "41")
    assert browser.text(".conflicts header .tag") == "1 of 2 settled"
    browser.click('.conflict-list li:has-text("Grace") label:has-text("agent/enrich")')
    browser.wait(".merge-bar .preview li")
    browser.fill('.merge-bar input[type="text"]', "checked against the register")
    browser.click('.merge-bar button:has-text("Merge into main")')
    browser.wait('.outcome.good:has-text("is merged into main")')

    merged = story.graph.commits(limit=1)[0]
    assert (merged.actor, merged.message) == ("ada", "checked against the register")
    people = {row["name"]: row for row in rows_of(story)}
    assert (people["Ada"]["age"], people["Grace"]["city"]) == (41, "Kyoto")
    assert "Radia" in people
    assert "Ole" not in people

    look_back_through_every_view(browser, story)

    # The merge is taken back by another commit, and main is what it was.
    browser.run("await page.goto(args.url)", url=link(server.base, "review", branch="main"))
    browser.settle("review")
    browser.click('button:has-text("Revert this commit")')
    browser.click('.merge-bar button:text-is("Revert")')
    browser.wait('.outcome.good:has-text("taken back")')
    assert differences(story, str(merged.parent), "main") == []
    assert browser.complaints() == []


def channels(colour: str) -> tuple[int, int, int]:
    """Red, green and blue of `#rrggbb`."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def rows_of(story: Story) -> list[dict[str, object]]:
    found = story.graph.query("match { $p: Person } return { $p.name as name, $p.age as age, $p.city as city }").rows()
    return [dict(row) for row in found]


def look_back_through_every_view(browser: Browser, story: Story) -> None:
    """Each stop of the slider moves every view to the same commit."""
    commits = [commit.id for commit in story.graph.commits()]
    browser.run(
        "await page.evaluate((hash) => (location.hash = hash), args.hash)",
        hash=f"#/social/query?branch=main&query={quote(PEOPLE)}",
    )
    browser.wait('.page[data-view="query"]')
    for place, commit in enumerate(commits):
        if place:
            browser.run('await page.locator("main").focus(); await page.keyboard.press("[")')
        people = story.graph.query(PEOPLE, snapshot=commit).row_count
        contents = {
            "query": f'.results .grid[data-total="{people}"]',
            "schema": f'table[aria-label=Types] tr:has(button:has-text("Person")) td:text-is("{people}")',
        }
        for number, view in enumerate(VIEWS, 1):
            browser.run('await page.locator("main").focus(); await page.keyboard.press(args.key)', key=str(number))
            selector = f'.page[data-view="{view}"][data-commit="{commit}"] [data-state="ready"][data-commit="{commit}"]'
            browser.wait(selector)
            if view in contents:
                browser.wait(contents[view])
    yesterday = browser.text(".timeline")
    assert "Mar" in yesterday
