"""Take the screenshots of the explorer that the README shows, from the story of its tests. Run by `make docs`."""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from build_explorer import ensure  # noqa: E402
from explorer.browser import Browser, link, why_not_here  # noqa: E402 - the tests' modules are found by the line above
from explorer.conftest import serving  # noqa: E402
from explorer.story import BRANCH, TOKENS, build_story  # noqa: E402

IMAGES = ROOT / "docs" / "images"
QUERY = """// Who knows whom, and where do they work?
query acquainted() {
    match { $p: Person  $p $k:knows $q  $p $w:worksAt $company }
    return { $p, $k, $q, $w, $company, $p.age as age }
}"""
SHOT = """
await page.evaluate(() => scrollTo(0, 0));
await page.locator('.page:not(:has([data-moving="true"]))').waitFor();
await page.screenshot({ path: args.path });
"""


def take_pictures(browser: Browser, base: str) -> None:
    """Write one picture for each story that the pages tell."""
    for scheme in ("light", "dark"):
        browser.open(link(base, "review", branch=BRANCH), token=TOKENS["ada"], scheme=scheme, height=1180)
        browser.settle("review")
        browser.click('.conflict-list li:has-text("Grace") label:has-text("agent/enrich")')
        browser.click(".change-table button:has-text('Ada')")
        browser.wait(".detail .author")
        browser.run(SHOT, path=str(IMAGES / f"explorer-review-{scheme}.png"))
    browser.open(link(base, "query", branch="main", query=QUERY), token=TOKENS["ada"], height=960)
    browser.wait(".results .grid-row")
    browser.click('.results .choice button:has-text("Picture")')
    browser.wait(".results .canvas")
    browser.run(SHOT, path=str(IMAGES / "explorer-query.png"))
    browser.open(link(base, "graph", branch="main"), token=TOKENS["ada"], scheme="dark", height=760)
    browser.settle("graph")
    browser.run(SHOT, path=str(IMAGES / "explorer-graph-dark.png"))


def main() -> None:
    """Build the page, serve the story, and take the pictures."""
    reason = why_not_here()
    if reason is not None:
        raise SystemExit(f"no screenshots were taken: {reason}")
    ensure()
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as home:
            story = build_story(Path(home) / "story")
            with serving(story.home) as server:
                take_pictures(browser, server.base)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
