"""Chromium, the built page, and servers of the story, for the tests of the explorer."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from build_explorer import ensure
from explorer.browser import Browser, why_not_here
from explorer.story import Story, build_story
from http_reference import api

REASON = why_not_here()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip by name where no Chromium can run."""
    if REASON is None:
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=REASON))


@dataclass
class Server:
    """A server process, which can be ended and started again at the same port."""

    home: Path
    port: int = 0
    popen: subprocess.Popen[bytes] | None = None

    @property
    def base(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it serves."""
        settings = self.home / "omnigraph.toml"
        settings.write_text(
            settings.read_text(encoding="utf-8").replace("127.0.0.1:0", f"127.0.0.1:{self.port}"), encoding="utf-8"
        )
        command = [sys.executable, "-m", "omnigraph", "serve", "--config", str(settings)]
        log = self.home / "server.log"
        log.write_bytes(b"")
        with log.open("ab") as errors:
            self.popen = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        while True:
            is_over = self.popen.poll() is not None
            text = log.read_text(encoding="utf-8")
            for line in text.splitlines():
                if '"serving"' in line:
                    self.port = urlsplit(json.loads(line)["address"]).port or 0
                    return
            assert not is_over, text
            time.sleep(0.05)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self.popen is not None:
            self.popen.kill()
            self.popen.wait()


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """A server of what lies there, gone behind the block."""
    server = Server(home)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One Chromium for all tests of a process; each opens pages of its own."""
    ensure()
    browser = Browser()
    yield browser
    browser.close()


@cache
def documented() -> re.Pattern[str]:
    """What a request of a page may look like: the routes of the OpenAPI document, and the files of the page."""
    routes = [
        f"{method.upper()} " + re.sub(r"\\{[^}]*\\}", "[^?]+", re.escape(path))
        for path, operations in api()["paths"].items()
        for method in operations
    ]
    return re.compile("|".join([*routes, r"GET /explorer/(assets/[\w.-]+)?"]))


def find_strays(requests: Iterable[dict[str, str]]) -> list[str]:
    """Requests that go elsewhere, are not documented, or have a token or code in their address."""
    strays = []
    for request in requests:
        # Bytes of the page itself, such as a file to save.
        if request["url"].startswith("blob:http://127.0.0.1:"):
            continue
        url = urlsplit(request["url"])
        is_own = (url.scheme, url.hostname) == ("http", "127.0.0.1")
        is_known = documented().fullmatch(f"{request['method']} {unquote(url.path)}") is not None
        has_secret = re.search("og_[a-z]|code=", f"{url.path}?{url.query}") is not None
        if not is_own or not is_known or has_secret:
            strays.append(f"{request['method']} {request['url']}")
    return strays


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser; whatever a test does, the page asks its server for what is documented, and nobody else."""
    chromium.take_requests()
    yield chromium
    assert find_strays(chromium.take_requests()) == []


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The graph of the story, for tests that change nothing that another one looks at."""
    return build_story(tmp_path_factory.mktemp("story"))


@pytest.fixture(scope="session")
def server(story: Story) -> Iterator[Server]:
    """A server of the story."""
    with serving(story.home) as server:
        yield server
