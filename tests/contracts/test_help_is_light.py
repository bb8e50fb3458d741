"""`omnigraph --help` answers at once: it imports nothing heavy, and few of our own rooms."""

import subprocess
import sys
from pathlib import Path

import pytest

SCHEMA = str(Path(__file__).parents[2] / "examples" / "people" / "schema.pg")

HEAVY = {
    "asyncio",
    "cedarpy",
    "duckdb",
    "fastapi",
    "IPython",
    "lance",
    "langchain_core",
    "llama_index",
    "msgspec",
    "numpy",
    "obstore",
    "pandas",
    "prompt_toolkit",
    "pyarrow",
    "pyspark",
    "re2",
    "rich",
    "uvicorn",
}
ROOMS_OF_HELP = {"cli", "config", "errors", "extensions", "lang", "locations"}
"""`config` for hints about personal settings, which are read only if an error occurs."""

LIST_MODULES = """
import sys
from omnigraph.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write("\\n".join(sorted(sys.modules)))
sys.exit(code)
"""


def modules_after(*arguments: str) -> set[str]:
    """The modules that a fresh interpreter has imported after running the command line once."""
    result = subprocess.run(
        [sys.executable, "-c", LIST_MODULES, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
    return set(result.stderr.split("\n"))


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        (),
        ("--version",),
        ("version",),
        ("schema", "--help"),
        ("lint", "--help"),
        ("fmt", "--help"),
        ("init", "--help"),
        ("load", "--help"),
        ("export", "--help"),
        ("mutate", "--help"),
        ("query", "--help"),
        ("snapshot", "--help"),
        ("spark", "--help"),
        ("spark", "sql", "--help"),
        ("changes", "--help"),
        ("history", "--help"),
        ("commit", "--help"),
        ("commit", "list", "--help"),
        ("commit", "show", "--help"),
        ("lint", SCHEMA),
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported(arguments: tuple[str, ...]) -> None:
    modules = modules_after(*arguments)

    assert HEAVY & modules == ({"re2"} & modules if arguments[:1] == ("lint",) else set())


def test_help_enters_no_room_but_the_command_line_settings_and_the_languages() -> None:
    modules = modules_after("--help")

    rooms = {name.split(".")[1] for name in modules if name.startswith("omnigraph.")}
    assert rooms <= ROOMS_OF_HELP
