"""A graph on S3 needs nothing but the AWS_* variables: on the command line and from Python."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from s3_server import fresh_uri, s3_server

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
NOBODY = "http://127.0.0.1:9"
"""An address where nothing listens."""

PROGRAM = """
import sys
import omnigraph
graph = omnigraph.create_graph(sys.argv[1], "node A { v: I64 } node B { v: I64 }")
reader = omnigraph.open_graph(sys.argv[1], read_only=True)
print(reader.snapshot() == graph.snapshot(), reader.table("A").count_rows())
"""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with s3_server() as options:
        yield options["aws_endpoint"]


def run(arguments: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A fresh process that knows S3 by these variables alone."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "OMNIGRAPH_"))}
    return subprocess.run(
        [sys.executable, *arguments],
        env={**inherited, **CREDENTIALS, **variables, "LANCE_LOG": "error"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "others",
    [
        {"AWS_ENDPOINT_URL": "{}"},
        {"AWS_ENDPOINT_URL_S3": "{}", "AWS_ENDPOINT_URL": NOBODY},
        {"AWS_ENDPOINT_URL": "{}", "AWS_S3_FORCE_PATH_STYLE": "true", "AWS_SESSION_TOKEN": "token"},
    ],
    ids=" ".join,
)
def test_the_variables_alone_reach_the_store(others: dict[str, str], endpoint: str) -> None:
    variables = {name: value.format(endpoint) for name, value in others.items()}

    result = run(["-c", PROGRAM, fresh_uri()], {**variables, "AWS_ALLOW_HTTP": "true"})

    assert result.returncode == 0, result.stderr
    assert result.stdout == "True 0\n"


def test_the_command_line_works_on_s3(endpoint: str, tmp_path: Path) -> None:
    schema = tmp_path / "a.pg"
    schema.write_text("node A { v: I64 }\n", encoding="utf-8")
    uri = fresh_uri()
    variables = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "1", "OMNIGRAPH_STORE": uri}

    made = run(["-m", "omnigraph", "init", uri, "--schema", str(schema)], variables)
    shown = run(["-m", "omnigraph", "snapshot", "--json"], variables)
    again = run(["-m", "omnigraph", "init", uri, "--schema", str(schema)], variables)

    assert made.returncode == 0, made.stderr
    assert json.loads(shown.stdout)["uri"] == uri
    assert again.returncode == 3


def test_plain_http_must_be_allowed(endpoint: str) -> None:
    result = run(["-m", "omnigraph", "snapshot", fresh_uri(), "--json"], {"AWS_ENDPOINT_URL": endpoint})

    assert result.returncode == 5
    assert json.loads(result.stderr)["error"]["code"] == "store_unavailable"


def test_a_variable_that_makes_no_sense_is_named(endpoint: str) -> None:
    variables = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "maybe"}

    result = run(["-m", "omnigraph", "snapshot", fresh_uri()], variables)

    assert result.returncode == 2
    assert result.stderr == "error: the environment variable AWS_ALLOW_HTTP is `maybe`; write true or false\n"
