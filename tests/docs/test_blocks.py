"""Every block of code on every page can at least be read by what it is for; what is `python` is run by some test."""

import ast
import json
import re
import subprocess
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import sessions
from omnigraph.lang.diagnostics import SourceError
from omnigraph.lang.query_parser import parse_queries
from omnigraph.lang.schema_parser import parse_schema
from omnigraph.lang.source import Source

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
SHOWN_ONLY = {"text", "result", "console", "jsonl", "cypher", "sql", "lua"}
"""Output and messages; sessions, data and settings of Neovim, which other tests run; what other systems are asked."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        return self.info.split(maxsplit=1)[0] if self.info.strip() else ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks() -> Iterator[Block]:
    for path in sessions.pages():
        text = path.read_text(encoding="utf-8")
        for found in FENCE.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(str(path.relative_to(ROOT)), line, found["info"], textwrap.dedent(found["text"]))


BLOCKS = list(blocks())


def complaint(block: Block) -> str | None:
    """Why a block can't be read, if it can't."""
    try:
        match block.language:
            case "python":
                ast.parse(block.text)
            case "py":  # a part of a program, or the head of a function as a reference shows it
                head = block.text.removeprefix("async ")
                ast.parse(block.text if _is_program(head) else f"def {head.rstrip()}: ...")
            case "json":
                json.loads(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "sh":
                checked = subprocess.run(["bash", "-n"], input=block.text, capture_output=True, text=True, check=False)
                return checked.stderr or None
            case "pg" if "error" not in block.info:
                parse_schema(Source(block.text, str(block))).require(Source(block.text, str(block)))
            case "gq" if "error" not in block.info:
                parse_queries(Source(block.text, str(block))).require(Source(block.text, str(block)))
            case "pg" | "gq":
                return None
            case language if language not in SHOWN_ONLY:
                return f"nobody knows how to read `{language}`"
    except (SyntaxError, ValueError, SourceError) as error:
        return str(error)
    return None


def _is_program(text: str) -> bool:
    return not re.match(r"\w+\((?:[^()]|\([^()]*\))*\) -> ", text) and not re.match(r"\w+\(\n(?:    .*\n)+\) -> ", text)


@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS}))
def test_every_block_of_a_page_can_be_read(page: str) -> None:
    complaints = {str(block): complaint(block) for block in BLOCKS if block.page == page}

    assert {place: told for place, told in complaints.items() if told} == {}


@pytest.mark.parametrize(
    "info, text",
    [
        ("python", "def f(:\n"),
        ("json", "{'a': 1}"),
        ("toml", "a = \n"),
        ("sh", "if true; then\n"),
        ("yaml", "a: 1\n"),
        ("", "what is this?\n"),
    ],
)
def test_a_block_that_can_not_be_read_is_found(info: str, text: str) -> None:
    assert complaint(Block("page.md", 1, info, text))


def test_every_page_with_a_program_is_named_by_a_test_that_runs_it() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))

    programs = {block.page for block in BLOCKS if block.language == "python"}

    assert {page for page in programs if Path(page).name not in tests} == set()
