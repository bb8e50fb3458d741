"""Where the schema of queries comes from: the editor's settings, the command line, or the nearest file."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import omnigraph
from omnigraph.lang.source import Source

ReadSchema = Callable[[], Source]
"""Reads a schema from where it is; it may wait for a store or a server, and raises what went wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSettings:
    """What the editor's settings say: a schema file or a graph, and the branch of a graph."""

    schema: str | None = None
    branch: str = "main"


def read_settings(value: object) -> tuple[SchemaSettings, str | None]:
    """Return settings as an editor sent them, and what is wrong with them; unknown ones are left out.

    They may stand in an object `omnigraph`, as VS Code sends them.
    """
    if isinstance(value, dict) and isinstance(value.get("omnigraph"), dict):
        value = value["omnigraph"]
    if not isinstance(value, dict):
        return SchemaSettings(), None if value is None else "the settings of omnigraph must be an object"
    schema, branch = value.get("schema"), value.get("branch")
    for name, given in (("schema", schema), ("branch", branch)):
        if given is not None and not isinstance(given, str):
            return SchemaSettings(), f"the setting `{name}` must be a text, and it is {type(given).__name__}"
    return SchemaSettings(schema=schema or None, branch=branch or "main"), None


def choose_source(settings: SchemaSettings, folders: list[Path]) -> Path | ReadSchema | None:
    """Return the file or the graph that settings name; a path is relative to the workspace. None if they name none."""
    named = settings.schema
    if named is None:
        return None
    if "://" not in named:
        # Unlike those of `Path`, these leave a path alone that no file can have.
        path = Path(os.path.expanduser(named))  # noqa: PTH111
        if not path.is_absolute():
            path = next((folder / path for folder in folders if os.path.exists(folder / path)), path)  # noqa: PTH110
        if path.suffix == ".pg":
            return path
        named = str(path)
    return lambda: _read_graph(named, settings.branch)


def _read_graph(uri: str, branch: str) -> Source:
    graph = omnigraph.open_graph(uri, read_only=True)
    return Source(graph.accepted_schema(branch=branch).source, f"schema of {graph.uri}")


async def load(read: ReadSchema) -> Source:
    """Read a schema without keeping the editor waiting."""
    return await asyncio.to_thread(read)
