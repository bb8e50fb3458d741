"""Build the extension for VS Code: types checked, bundled, packed into one `.vsix`.

`python tools/build_vscode.py` does nothing when nothing has changed since the last time.
"""

from pathlib import Path

from npm_package import NpmPackage

_PACKAGE = NpmPackage(Path(__file__).parents[1] / "editors" / "vscode", results=frozenset({"dist"}))
SOURCES = _PACKAGE.sources
EXTENSION = SOURCES / "dist" / "omnigraph.vsix"
_BUILT = SOURCES / "dist" / "built.sha256"


def ensure() -> Path:
    """Build the extension unless it is there as the sources say; return its file.

    Raises:
        SystemExit: npm, the types or the build failed; what was printed says why.
    """
    with _PACKAGE.lock():
        mark = _PACKAGE.digest()
        _PACKAGE.install()
        if EXTENSION.exists() and _BUILT.exists() and _BUILT.read_text(encoding="utf-8") == mark:
            return EXTENSION
        _PACKAGE.run("run", "check")
        EXTENSION.parent.mkdir(exist_ok=True)
        _PACKAGE.run("run", "build")
        _PACKAGE.run("run", "pack", "--", "--out", str(EXTENSION))
        _BUILT.write_text(mark, encoding="utf-8")
        return EXTENSION


if __name__ == "__main__":
    print(ensure())
