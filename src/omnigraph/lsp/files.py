"""The files of a workspace: which are schemas and queries, what they hold, and which schema belongs to a query."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from omnigraph.lang.lexer import Language

SUFFIXES: Final = {".pg": Language.SCHEMA, ".gq": Language.QUERY}
_LANGUAGE_IDS: Final = {
    "omnigraph-schema": Language.SCHEMA,
    "omnigraph-query": Language.QUERY,
    "pg": Language.SCHEMA,
    "gq": Language.QUERY,
}
# Packages and builds hold no sources of a workspace, and many files.
_SKIPPED: Final = frozenset({"node_modules", "target", "dist", "build", "__pycache__"})
MAX_FILES: Final = 2000
MAX_FILE_BYTES: Final = 1024 * 1024
_MAX_DIRECTORIES: Final = 20_000


class TooManyFilesError(Exception):
    """A folder has more files than are read."""


def to_path(uri: str) -> Path | None:
    """Return the path of a file on this machine; None for any other URI."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path)
    return None if not path or "\0" in path else Path(os.path.normpath(path))


def to_uri(path: Path) -> str:
    """Return the URI of a path."""
    return path.absolute().as_uri()


def find_language(uri: str, language_id: str = "") -> Language | None:
    """Return the language of a file by its suffix, else by what the editor calls it."""
    # Not by parsing: an editor may name files by anything, and a suffix is at the end of all of these.
    suffix = "." + uri.partition("?")[0].partition("#")[0].rpartition(".")[2]
    return SUFFIXES.get(suffix) or _LANGUAGE_IDS.get(language_id)


def read_text(path: Path) -> str | None:
    """Return the text of a regular file; None if there is none, or if it is too large or no text."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, ValueError):
        return None


def list_files(folder: Path, suffix: str) -> Iterator[Path]:
    """Yield the files of a folder and of those below it, hidden ones left out; no link is followed to a folder.

    Raises:
        TooManyFilesError: There are more than a workspace may have; those before were yielded.
    """
    found = 0
    for seen, (parent, folders, names) in enumerate(os.walk(folder)):
        if seen > _MAX_DIRECTORIES:
            raise TooManyFilesError
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(names):
            if name.endswith(suffix) and not name.startswith("."):
                found += 1
                if found > MAX_FILES:
                    raise TooManyFilesError
                yield Path(parent, name)


def find_schema(path: Path, folders: list[Path]) -> Path | None:
    """Return the schema file of a query file: the one in its folder, else in the nearest folder above it.

    Of several in one folder it is the one with the query file's name, else `schema.pg`; otherwise there is none, for a
    guess would report mistakes that aren't. The search ends at the folder of the workspace.
    """
    root = max(
        (folder for folder in folders if path.is_relative_to(folder)), default=path.parent, key=lambda f: len(f.parts)
    )
    for folder in path.parents:
        try:
            schemas = sorted(
                each for each in folder.iterdir() if each.suffix == ".pg" and not each.name.startswith(".")
            )
        except OSError:
            schemas = []
        named = [each for each in schemas if each.stem == path.stem] or [
            each for each in schemas if each.stem == "schema"
        ]
        if len(schemas) == 1:
            return schemas[0]
        if schemas:
            return named[0] if named else None
        if folder == root:
            return None
    return None
