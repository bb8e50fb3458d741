"""Build the explorer: its packages by npm, its client from the OpenAPI document, its files into the package.

`python tools/build_explorer.py` does nothing when nothing has changed since the last time.
"""

import json
import sys
from pathlib import Path

from http_reference import api
from npm_package import NpmPackage

ROOT = Path(__file__).parents[1]
CLIENT = ROOT / "clients" / "typescript"
FILES = ROOT / "src" / "omnigraph" / "server" / "explorer"
PACKAGE = NpmPackage(ROOT / "explorer", shared=(CLIENT / "src",))
_BUILT = "built.sha256"


def ensure() -> Path:
    """Build the page unless it is there as the sources say; return the directory of its files.

    Raises:
        SystemExit: npm or the build failed; what it printed says why.
    """
    with PACKAGE.lock():
        document = json.dumps(api(), sort_keys=True)
        mark = PACKAGE.digest(document)
        PACKAGE.install()
        if (FILES / _BUILT).exists() and (FILES / _BUILT).read_text(encoding="utf-8") == mark:
            return FILES
        PACKAGE.run("run", "build", environment={"EXPLORER_OUT": str(FILES), "EXPLORER_API": str(_describe(document))})
        (FILES / _BUILT).write_text(mark, encoding="utf-8")
        return FILES


def build_client() -> Path:
    """Build the client package into `clients/typescript/dist`, with the same packages; return its directory."""
    with PACKAGE.lock():
        PACKAGE.install()
        PACKAGE.run("run", "client", environment={"EXPLORER_API": str(_describe(json.dumps(api(), sort_keys=True)))})
        return CLIENT


def check_types() -> None:
    """Check the types of the sources, after a build has written those of the client."""
    ensure()
    PACKAGE.run("run", "check")


def _describe(document: str) -> Path:
    described = PACKAGE.sources / "node_modules" / "openapi.json"
    described.write_text(document, encoding="utf-8")
    return described


if __name__ == "__main__":
    if "--client" in sys.argv:
        build_client()
    elif "--check" in sys.argv:
        check_types()
    else:
        ensure()
