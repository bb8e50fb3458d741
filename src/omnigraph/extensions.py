"""Let a package use one above it that it can't import: the public names register how each is loaded.

An extension is loaded on first use, because it may need libraries that are large or not installed. `load_extension`
raises what its import raises; its caller knows what to install.
"""

from collections.abc import Callable
from enum import Enum, auto


class Extension(Enum):
    """What a package may use of one above it; the type of each is declared where it is used."""

    ENGINE_CHOICE = auto()
    LOCAL_ENGINE = auto()
    SPARK = auto()
    MCP_RESPONSE = auto()
    TELEMETRY = auto()


_loaders: dict[Extension, Callable[[], object]] = {}


def register_extension(extension: Extension, load: Callable[[], object]) -> None:
    """Set the function that imports an extension and returns it."""
    _loaders[extension] = load


def load_extension(extension: Extension) -> object:
    """Return an extension, imported on first use."""
    return _loaders[extension]()
