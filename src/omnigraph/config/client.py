"""Read the personal settings of the command line: the section `[client]` of `omnigraph.toml`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from omnigraph.config.settings_file import CONFIG_FILE, read_settings
from omnigraph.locations import parse_scheme

SECTION = "client"
GRAPH, BRANCH, ACTOR, SERVER = CLIENT_SETTINGS = ("graph", "branch", "actor", "server")
VARIABLES = {BRANCH: "OMNIGRAPH_BRANCH", ACTOR: "OMNIGRAPH_ACTOR", SERVER: "OMNIGRAPH_SERVER"}
STORE_VARIABLE = "OMNIGRAPH_STORE"
"""The variable of the graph in a store; with a server, `graph` is an ID there, which is `GRAPH_VARIABLE`."""
GRAPH_VARIABLE = "OMNIGRAPH_GRAPH"
DEFAULTS = {BRANCH: "main", ACTOR: "anonymous"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A value, and where it was found: a variable, a file, or nowhere (the default)."""

    value: str | None
    variable: str | None = None
    file: Path | None = None

    @property
    def source(self) -> str:
        """The source as a text."""
        return self.variable or (str(self.file) if self.file is not None else "default")


class ClientSettings:
    """The personal settings of a process in a directory. The file is looked for and read when first asked for."""

    def __init__(self, environment: Mapping[str, str], directory: Path) -> None:
        self._environment = environment
        self._directory = directory

    @cached_property
    def _section(self) -> tuple[Path | None, dict[str, str]]:
        for directory in _list_directories(self._directory, _find_home(self._environment)):
            path = directory / CONFIG_FILE
            if path.is_file():
                values = _read_section(path)
                # A file without the section, such as that of a server, does not hide one above it.
                if values:
                    return path, values
        return None, {}

    @property
    def file(self) -> Path | None:
        """The file that has the section, or None."""
        return self._section[0]

    def find(self, name: str) -> Setting:
        """Return a setting: that of the variable, else that of the file, else the default.

        Raises:
            SettingsError: The file is invalid.
            FileDeniedError, FileUnreadableError: The file can't be read.
        """
        match name:
            case "graph":
                return self._find_graph()
            case "server" if self._environment.get(STORE_VARIABLE) and not self._environment.get(VARIABLES[SERVER]):
                # The variable names a graph in a store, and a variable counts before the file.
                return Setting(None)
            case _:
                return self._find(name, VARIABLES[name])

    def _find_graph(self) -> Setting:
        server = self.find(SERVER)
        found = self._find(GRAPH, STORE_VARIABLE if server.value is None else GRAPH_VARIABLE)
        # What the file calls its graph is on its own server, or in a store if it names none.
        is_elsewhere = found.file is not None and server.value != self._section[1].get(SERVER)
        return Setting(None) if is_elsewhere else found

    def _find(self, name: str, variable: str) -> Setting:
        if value := self._environment.get(variable):
            return Setting(value, variable=variable)
        path, values = self._section
        if path is not None and name in values:
            return Setting(values[name], file=path)
        return Setting(DEFAULTS.get(name))


def _find_home(environment: Mapping[str, str]) -> Path | None:
    home = environment.get("HOME")
    return Path(home).resolve() if home else None


def _list_directories(start: Path, home: Path | None) -> list[Path]:
    """Return the directory and those above it, to the first that has `.git` or is the home directory.

    Where neither is above, it is the directory alone: other users may write into a parent such as /tmp.
    """
    directories: list[Path] = []
    for directory in (start, *start.parents):
        directories.append(directory)
        if directory == home or (directory / ".git").exists():
            return directories
    return [start]


def _read_section(path: Path) -> dict[str, str]:
    """Return the settings of the section in a file; the rest of the file is a server's."""
    section = read_settings(path).get_section(SECTION)
    values = {name: text for name in CLIENT_SETTINGS if (text := section.get_text(name)) is not None}
    graph = values.get(GRAPH)
    # A relative path starts at the directory of the file; an address, and an ID on a server, stay as written.
    if graph is not None and SERVER not in values and parse_scheme(graph) is None:
        values[GRAPH] = os.fspath(section.get_path(GRAPH) or graph)
    section.finish()
    return values
