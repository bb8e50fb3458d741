"""`omnigraph explore`: a server of one's own, whose address has a code and never a token."""

import json
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import omnigraph as og
from worlds import runtime

# The command, over files that stand for a built page.
RUN = """
import sys
from pathlib import Path
from omnigraph.cli.main import main
from omnigraph.server import explore
explore.EXPLORER_FILES = Path(sys.argv.pop(1))
sys.exit(main())
"""
READ = "match { $p: Person } return { $p.name }"
ADD = 'query q() { insert Person { name: "Bob" } }'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    graph = og.create_graph(str(tmp_path / "people.omni"), "node Person { name: String @key }", runtime=runtime())
    graph.mutate('query q() { insert Person { name: "Ada" } }')
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "index.html").write_text("<!doctype html>", encoding="utf-8")
    return tmp_path


class Explored:
    """A server that `explore` has started, and what it said."""

    def __init__(self, home: Path, *options: str) -> None:
        self.log = home / "explore.log"
        command = [sys.executable, "-c", RUN, str(home / "built"), "explore", str(home / "people.omni")]
        with self.log.open("w", encoding="utf-8") as errors:
            self.popen = subprocess.Popen(
                [*command, "--no-browser", "--json", *options], stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self.popen.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            line = self.popen.stdout.readline()
            assert line, self.log.read_text(encoding="utf-8")
            text += line
        self.address = json.loads(text)["address"]
        self.url = urlsplit(self.address)
        self.fragment = {name: values[0] for name, values in parse_qs(self.url.fragment).items()}

    def post(self, path: str, body: object, token: str = "") -> tuple[int, Any]:
        connection = HTTPConnection(self.url.hostname or "", self.url.port, timeout=60)
        try:
            connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {token}"} if token else {})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def stop(self) -> None:
        self.popen.kill()
        self.popen.communicate()


@pytest.fixture
def explored(home: Path) -> Iterator[Explored]:
    found = Explored(home, "--as", "ada")
    yield found
    found.stop()


def test_the_code_of_the_address_is_exchanged_for_a_token_that_may_do_everything(explored: Explored) -> None:
    code, graph = explored.fragment["code"], explored.fragment["graph"]

    status, granted = explored.post("/explorer/token", {"code": code})
    rows = explored.post(f"/graphs/{graph}/query", {"query": READ}, granted["token"])
    written = explored.post(f"/graphs/{graph}/mutate", {"query": ADD}, granted["token"])

    assert (status, granted["graph"], rows[0], written[0]) == (200, "people", 200, 200)
    assert (explored.url.hostname, explored.url.path, explored.url.query) == ("127.0.0.1", "/explorer/", "")
    assert explored.post("/explorer/token", {"code": code})[0] == 401
    assert explored.post(f"/graphs/{graph}/query", {"query": READ})[0] == 401
    assert granted["token"] not in explored.address
    assert granted["token"] not in explored.log.read_text(encoding="utf-8")


def test_a_page_may_be_for_reading_only(home: Path) -> None:
    explored = Explored(home, "--read-only")
    try:
        token = explored.post("/explorer/token", {"code": explored.fragment["code"]})[1]["token"]

        assert explored.post("/graphs/people/query", {"query": READ}, token)[0] == 200
        assert explored.post("/graphs/people/mutate", {"query": ADD}, token)[1]["code"] == "read_only"
    finally:
        explored.stop()


def test_without_a_built_page_it_says_so(home: Path) -> None:
    (home / "built" / "index.html").unlink()
    command = [sys.executable, "-c", RUN, str(home / "built"), "explore", str(home / "people.omni")]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    assert done.returncode == 5
    assert "this installation has no explorer" in done.stderr
