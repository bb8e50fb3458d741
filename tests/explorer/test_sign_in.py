"""Signing in: by the one-time code of `omnigraph explore`, and by a token; and what is left of it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from explorer.browser import Browser, link
from explorer.conftest import Server
from explorer.story import TOKENS, build_story

STORED = """
return page.evaluate(() => {
  const [local, session] = [{ ...localStorage }, Object.keys(sessionStorage)];
  return { local, session, cookies: document.cookie };
});
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The address that `omnigraph explore` opens."""
    story = build_story(tmp_path)
    command = [sys.executable, "-m", "omnigraph", "explore", story.graph.uri, "--no-browser", "--json", "--as", "ada"]
    with (tmp_path / "log").open("wb") as log:
        popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert popen.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = popen.stdout.readline()
        assert line, (tmp_path / "log").read_text()
        text += line
    yield json.loads(text)["address"]
    popen.kill()
    popen.communicate()
    assert "og_" not in (tmp_path / "log").read_text()


def test_a_code_signs_in_once_and_leaves_no_trace(browser: Browser, address: str) -> None:
    code = parse_qs(urlsplit(address).fragment)["code"][0]
    browser.open(address)
    browser.settle("graph")
    assert browser.text(".who span") == "ada"
    assert code not in browser.run("return page.url()")
    assert browser.run("return page.evaluate(() => history.length)") <= 2
    assert browser.run(STORED) == {"local": {}, "session": ["omnigraph-token"], "cookies": ""}
    assert browser.count(".graph .canvas[data-nodes='29']") == 1
    browser.run("await page.reload()")
    browser.settle("graph")
    # It may do everything: the form can save.
    browser.press("5")
    browser.settle("edit")
    assert browser.count(".edit .hint:has-text('may not')") == 0
    assert browser.complaints() == []

    browser.open(address)
    assert "already used" in browser.text(".sign-in .problem")
    assert browser.run(STORED)["session"] == []


def test_a_token_is_typed_kept_in_the_tab_and_forgotten(browser: Browser, server: Server) -> None:
    browser.open(link(server.base, "schema", branch="main"))
    browser.fill(".sign-in input", "og_wrong")
    browser.press("Enter")
    browser.wait(".sign-in .problem:has-text('no longer accepts')")
    browser.fill(".sign-in input", TOKENS["rita"])
    browser.press("Enter")
    browser.settle("schema")
    assert browser.run(STORED)["session"] == ["omnigraph-token"]
    assert TOKENS["rita"] not in browser.run("return page.content()")
    browser.click("button:has-text('Sign out')")
    browser.wait(".sign-in input")
    assert browser.value(".sign-in input") == ""
    assert browser.run(STORED) == {"local": {}, "session": [], "cookies": ""}
    assert "Person" not in browser.text("body")
