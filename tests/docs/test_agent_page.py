"""The page about agents is true: its program prints what it shows, its query and its policies are right."""

import re
from pathlib import Path

import pytest

from omnigraph.cli.main import main
from page_programs import printed_by

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/how-to/use-from-an-agent.md").read_text(encoding="utf-8")
SCHEMA = ROOT / "examples/people/schema.pg"
ULID = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b")


def fence(mark: str) -> str:
    """The only block of the page with that mark."""
    (found,) = re.findall(rf"^```{mark}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_program_prints_what_the_page_shows(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    graph = str(tmp_path / "people.omni")
    main(["init", graph, "--schema", str(SCHEMA)])
    main(["load", graph, "--mode", "append", "--data", str(ROOT / "examples/people/people.jsonl")])

    printed = printed_by(fence("python"), tmp_path)

    assert ULID.sub("ID", printed) == ULID.sub("ID", fence("text"))


def test_the_query_of_the_page_has_no_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = tmp_path / "page.gq"
    query.write_text(fence("gq"), encoding="utf-8")

    code = main(["lint", "--schema", str(SCHEMA), "--query", str(query)])

    assert code == 0, capsys.readouterr().out
