"""A typed, versioned property graph: the public names."""

from omnigraph.errors import Kind, OmnigraphError

__all__ = ["Kind", "OmnigraphError", "__version__"]

__version__ = "0.1.0"
