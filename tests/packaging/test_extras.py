"""What an extra brings along is asked for by name where it is missing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph

PACKAGE = Path(omnigraph.__file__).parent
ALWAYS_THERE = {"click", "msgspec", "numpy", "obstore", "omnigraph", "pyarrow", "re2"}
WITHOUT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
from omnigraph.cli.main import main
sys.exit(main({words!r}))
"""


def modules_of(room: str) -> set[str]:
    """The modules of others that a room imports when one of its own is."""
    found: set[str] = set()
    for path in (PACKAGE / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Import():
                    found |= {one.name.partition(".")[0] for one in node.names}
                case ast.ImportFrom(level=0, module=str(module)):
                    found.add(module.partition(".")[0])
    return found - ALWAYS_THERE - set(sys.stdlib_module_names)


def test_every_module_of_the_servers_extras_is_known_as_such() -> None:
    # An extra of its own, which `load_traces` names.
    assert modules_of("server") - omnigraph._SERVER_PACKAGES == {"opentelemetry"}


@pytest.mark.parametrize(
    "words, missing, told",
    [
        (["serve", "g.omni"], ["uvicorn"], "`pip install 'omnigraph[server]'`"),
        (["policy", "check", "."], ["cedarpy"], "`pip install 'omnigraph[server]'`"),
        (["mcp", "g.omni"], ["anyio", "mcp", "mcp_types"], "`pip install 'omnigraph[mcp]'`"),
        (["lsp"], ["lsprotocol", "pygls"], "`pip install 'omnigraph[lsp]'`"),
        (["mcp", "g.omni"], ["mcp", "mcp_types"], "`pip install 'omnigraph[mcp]'`"),
    ],
)
def test_a_command_whose_extra_is_missing_names_it(
    words: list[str], missing: list[str], told: str, tmp_path: Path
) -> None:
    program = WITHOUT.format(words=words, missing=missing)

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "bug" not in done.stderr
